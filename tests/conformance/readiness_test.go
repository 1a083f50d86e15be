// The example of deploy/examples: a NodeReadinessRule whose taint goes when the condition BootstrapComplete is True, and the
// NodePool whose startup taint it is. Karpenter's own controller waits for the taint, the taint for the agent.

package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	karpenterv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

// A folder with the node readiness controller ("manager") and its definitions ("crd.yaml"), where there is one. It is in no Go
// proxy, so its part is played otherwise.
var readinessDir = os.Getenv("CONFORMANCE_READINESS")

// readinessRule is what the played controller knows of a rule; a field that is not here fails the test.
type readinessRule struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	Spec            struct {
		Conditions []struct {
			Type           string `json:"type"`
			RequiredStatus string `json:"requiredStatus"`
		} `json:"conditions"`
		EnforcementMode string               `json:"enforcementMode"`
		Taint           corev1.Taint         `json:"taint"`
		NodeSelector    metav1.LabelSelector `json:"nodeSelector"`
	} `json:"spec"`
}

func exampleRule(t *testing.T) (*unstructured.Unstructured, *readinessRule) {
	t.Helper()
	objects, err := harness.ReadManifests("../../deploy/examples/node-readiness-rule.yaml")
	must(t, err)
	rule := &readinessRule{}
	must(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects[0].Object, rule, true))
	return objects[0], rule
}

// examplePool gives the NodePool as the API server takes it.
func examplePool(t *testing.T, ctx context.Context) *karpenterv1.NodePool {
	t.Helper()
	objects, err := harness.ReadManifests("../../deploy/examples/node-pool.yaml")
	must(t, err)
	must(t, cluster.Apply(ctx, objects))
	t.Cleanup(func() { cluster.Remove(context.Background(), objects) })
	pool := &karpenterv1.NodePool{}
	must(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects[0].Object, pool, true))
	return pool
}

func TestNodeReadinessRule(t *testing.T) {
	n := newNode(t, 82)
	must(t, cluster.AllowClaimLookup(n.ctx))
	object, rule := exampleRule(t)
	pool, taint := examplePool(t, n.ctx), rule.Spec.Taint
	if !slices.Contains(pool.Spec.Template.Spec.StartupTaints, taint) {
		t.Fatalf("startup taints %v, the rule's %v", pool.Spec.Template.Spec.StartupTaints, taint)
	}
	running, stop := context.WithCancel(n.ctx)
	defer stop()
	karpenter, err := cluster.StartKarpenter(running, n.instance)
	must(t, err)
	claim, err := harness.NewLaunchedClaim(n.ctx, karpenter, "default-rule1", func(c *karpenterv1.NodeClaim) {
		c.Spec.StartupTaints = pool.Spec.Template.Spec.StartupTaints
	})
	must(t, err)
	defer cluster.DropClaim(context.Background(), claim.Name, n.name)
	if readinessDir == "" {
		go playReadiness(running, rule, n.name)
	} else {
		startReadiness(t, n, object)
	}

	data := harness.UserData{MaxPods: 29, Labels: harness.KarpenterLabels(), Taints: []string{taint.Key + ":" + string(taint.Effect)}}
	for key, value := range pool.Spec.Template.Labels {
		data.Labels = append(data.Labels, key+"="+value)
	}
	n.boot(data.For(cluster))
	node := n.waitCondition(corev1.ConditionFalse, "KnownEphemeralTaintsExist") // the cloud controller's, not the rule's
	if !hasTaint(node, taint) || node.Labels[harness.LabelInitialized] != "" {
		t.Errorf("taints %v, labels %v", node.Spec.Taints, node.Labels)
	}
	must(t, cluster.RemoveTaints(n.ctx, n.name, harness.TaintUninitialized, harness.TaintNotReady))
	if code := n.finish(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	must(t, harness.Poll(n.ctx, "the taint goes and Karpenter initializes the node", nil, func() error {
		if node, err = cluster.Node(n.ctx, n.name); err != nil || len(node.Spec.Taints) > 0 || node.Labels[harness.LabelInitialized] != "true" {
			return fmt.Errorf("taints %v, labels %v: %w", node.Spec.Taints, node.Labels, err)
		}
		return nil
	}))
	if c := harness.Condition(node, bootstrapCondition); c == nil || c.Status != corev1.ConditionTrue {
		t.Errorf("condition %+v", c)
	}
	n.checkAudit(t)
}

func hasTaint(node *corev1.Node, taint corev1.Taint) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) })
}

// startReadiness runs the controller itself, with the rule as an administrator creates it.
func startReadiness(t *testing.T, n *node, rule *unstructured.Unstructured) {
	t.Helper()
	apply(t, n.ctx, filepath.Join(readinessDir, "crd.yaml"))
	must(t, harness.Poll(n.ctx, "the rule is taken", nil, func() error { return cluster.Apply(n.ctx, []*unstructured.Unstructured{rule}) }))
	t.Cleanup(func() { cluster.Remove(context.Background(), []*unstructured.Unstructured{rule}) })
	file, err := cluster.AdminKubeconfig()
	must(t, err)
	manager, err := harness.Start(cluster.Dir, "readiness", []string{"KUBECONFIG=" + file}, filepath.Join(readinessDir, "manager"),
		"--health-probe-bind-address=127.0.0.1:0")
	must(t, err)
	t.Cleanup(manager.Stop)
}

// playReadiness does with one Node what a rule in mode continuous says.
func playReadiness(ctx context.Context, rule *readinessRule, name string) {
	selector, err := metav1.LabelSelectorAsSelector(&rule.Spec.NodeSelector)
	for ; err == nil && ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		node, err := cluster.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil || !selector.Matches(labels.Set(node.Labels)) {
			continue
		}
		met := true
		for _, want := range rule.Spec.Conditions {
			c := harness.Condition(node, corev1.NodeConditionType(want.Type))
			met = met && c != nil && string(c.Status) == want.RequiredStatus
		}
		if hasTaint(node, rule.Spec.Taint) != met {
			continue
		}
		_ = cluster.UpdateNode(ctx, name, func(node *corev1.Node) {
			node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&rule.Spec.Taint) })
			if !met {
				node.Spec.Taints = append(node.Spec.Taints, rule.Spec.Taint)
			}
		})
	}
}
