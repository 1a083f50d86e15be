// The handshake with Karpenter's own controller: it registers and initializes the node that the agent brought up, and at
// each step both give the same reason for waiting.

package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenterv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

func TestKarpentersOwnLifecycle(t *testing.T) {
	n := newNode(t, 80)
	must(t, cluster.AllowClaimLookup(n.ctx))
	running, stop := context.WithCancel(n.ctx)
	defer stop()
	karpenter, err := cluster.StartKarpenter(running, n.instance)
	must(t, err)
	starting := corev1.Taint{Key: "example.com/starting", Effect: corev1.TaintEffectNoSchedule}
	claim, err := harness.NewLaunchedClaim(n.ctx, karpenter, "default-real1", func(c *karpenterv1.NodeClaim) {
		c.Spec.StartupTaints = []corev1.Taint{starting}
	})
	must(t, err)
	defer cluster.DropClaim(context.Background(), claim.Name, n.name)

	labels := []string{"karpenter.sh/nodepool=default", "karpenter.sh/capacity-type=on-demand", "karpenter.sh/do-not-sync-taints=true"}
	n.boot(harness.UserData{MaxPods: 29, Labels: labels, Taints: []string{"example.com/starting:NoSchedule"}}.For(cluster))
	n.waitsWith(karpenter, claim, "StartupTaintsExist")
	must(t, cluster.RemoveTaints(n.ctx, n.name, starting.Key))
	n.waitsWith(karpenter, claim, "KnownEphemeralTaintsExist")
	must(t, cluster.RemoveTaints(n.ctx, n.name, harness.TaintUninitialized, harness.TaintNotReady))
	if code := n.finish(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	n.isComplete()

	now, err := cluster.Node(n.ctx, n.name)
	must(t, err)
	if now.Labels[harness.LabelInitialized] != "true" || len(now.OwnerReferences) != 1 || now.OwnerReferences[0].UID != claim.UID || len(now.Spec.Taints) != 0 {
		t.Errorf("labels %v, owners %v, taints %v", now.Labels, now.OwnerReferences, now.Spec.Taints)
	}
	if s := n.status(); s.NodeClaim == nil || s.NodeClaim.UID != string(claim.UID) || !slices.EqualFunc(s.Warnings, warningsHere, strings.HasPrefix) {
		t.Errorf("NodeClaim %+v, warnings %q", s.NodeClaim, s.Warnings)
	}
	complaints, err := cluster.Client.CoreV1().Events("default").List(n.ctx, metav1.ListOptions{FieldSelector: "type=Warning,involvedObject.name=" + claim.Name})
	must(t, err)
	for _, e := range complaints.Items {
		if e.Reason == "MissingCredentialProvider" && strings.HasPrefix(e.Message, warningsHere[0]) {
			continue // this machine is no image
		}
		t.Errorf("event on the NodeClaim: %s %s", e.Reason, e.Message)
	}
	n.checkAudit(t)
}

// What a bootstrap says of a machine here, which is no image: how its warnings begin.
var warningsHere = []string{"there is no ecr-credential-provider ", "containerd has not read its configuration: "}

// waitsWith: Karpenter's condition on the NodeClaim and the agent's on the Node name the same reason.
func (n *node) waitsWith(k client.Client, claim *karpenterv1.NodeClaim, reason string) {
	n.t.Helper()
	n.until("karpenter says "+reason, func() error {
		if err := k.Get(n.ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		initialized := claim.StatusConditions().Get(karpenterv1.ConditionTypeInitialized)
		if initialized == nil || initialized.Reason != reason {
			return fmt.Errorf("conditions %+v", claim.Status.Conditions)
		}
		return nil
	})
	node := n.waitCondition(corev1.ConditionFalse, reason)
	theirs := claim.StatusConditions().Get(karpenterv1.ConditionTypeInitialized).Message
	n.t.Logf("karpenter: %s; agent: %s", theirs, strings.TrimSpace(harness.Condition(node, bootstrapCondition).Message))
}
