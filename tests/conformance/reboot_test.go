// A reboot for repair by Karpenter's own controller, of a node with the gate: it ends RebootSucceeded, with nothing of ours left, and what
// rides it is left alone.

package conformance

import (
	"context"
	"fmt"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenterv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const rebootBound = "6s"

func TestKarpenterReboot(t *testing.T) {
	ctx := within(t, 240*time.Second)
	dir := startScheduling(t)
	c := deploy(t, ctx)
	since := time.Now()
	c.start("--mode", "karpenter")
	c.leads(since)
	s := newGated(t, ctx, dir, true, 49000, 1)
	n, err := s.launch(0)
	must(t, err)
	t.Cleanup(func() { n.agent.Kill(); n.imds.Stop() })
	must(t, n.rise())
	makeLastingBudget(t, n)
	before := webPods(t, n)

	requestReboot(t, n)
	n.rebooting("karpenter reboots the instance", func(*karpenterv1.NodeClaim) error {
		node, err := cluster.Node(ctx, n.name())
		if err == nil && (s.karpenter.Rebooted(n.instance).IsZero() || !hasTaint(node, karpenterv1.RebootingNoScheduleTaint) || node.Labels[harness.LabelInitialized] != "") {
			err = fmt.Errorf("taints %v, labels %v", node.Spec.Taints, node.Labels)
		}
		return err
	})
	n.fall()
	must(t, n.rise())
	n.rebooting("the reboot has succeeded", func(claim *karpenterv1.NodeClaim) error {
		r := claim.StatusConditions().Get(karpenterv1.ConditionTypeRebooting)
		if r == nil || r.Status != metav1.ConditionFalse || r.Reason != karpenterv1.RebootReasonSucceeded {
			return fmt.Errorf("conditions %+v", claim.Status.Conditions)
		}
		return nil
	})
	node, err := cluster.Node(ctx, n.name())
	must(t, err)
	if node.Spec.Unschedulable || len(node.Spec.Taints) > 0 || node.Labels[balancersLabel] != "" || node.Annotations[cordonAnnotation]+node.Annotations[drainAnnotation] != "" {
		t.Errorf("left behind: %+v, labels %v, annotations %v", node.Spec, node.Labels, node.Annotations)
	}
	after := webPods(t, n)
	for uid := range before {
		if !after[uid] {
			t.Errorf("pod %s did not ride the reboot", uid)
		}
	}
	for _, e := range s.early() {
		t.Errorf("early: %s", e)
	}
	c.checkManners()
	if list := c.writes("nodeclaims", ""); len(list) > 0 {
		t.Errorf("writes of NodeClaims: %v", list)
	}
}

// makeLastingBudget lets no pod of the application leave, by the disruption controller's own verdict.
func makeLastingBudget(t *testing.T, n *gatedNode) {
	t.Helper()
	all := intstr.FromInt32(1000)
	budgets := cluster.Client.PolicyV1().PodDisruptionBudgets("default")
	_, err := budgets.Create(n.ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "rides"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &all, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { _ = budgets.Delete(context.Background(), "rides", metav1.DeleteOptions{}) })
	must(t, harness.Poll(n.ctx, "the budget is observed", nil, func() error {
		b, err := budgets.Get(n.ctx, "rides", metav1.GetOptions{})
		if err == nil && (b.Status.ObservedGeneration == 0 || b.Status.DisruptionsAllowed > 0) {
			err = fmt.Errorf("%+v", b.Status)
		}
		return err
	}))
}

// requestReboot is what Karpenter's repair asks of its reboot controller.
func requestReboot(t *testing.T, n *gatedNode) {
	t.Helper()
	text := fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, karpenterv1.RebootTerminationGracePeriodAnnotationKey, rebootBound)
	must(t, n.karpenter.Patch(n.ctx, n.claim.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text))))
	claim := &karpenterv1.NodeClaim{}
	must(t, n.karpenter.Get(n.ctx, client.ObjectKeyFromObject(n.claim), claim))
	before := claim.DeepCopy()
	claim.StatusConditions().SetTrueWithReason(karpenterv1.ConditionTypeRebooting, karpenterv1.RebootReasonRequested, "conformance")
	must(t, n.karpenter.Status().Patch(n.ctx, claim, client.MergeFrom(before)))
}

// rebooting waits for something of the NodeClaim.
func (n *gatedNode) rebooting(what string, check func(*karpenterv1.NodeClaim) error) {
	n.t.Helper()
	must(n.t, harness.Poll(n.ctx, what, []*harness.Proc{n.agent}, func() error {
		claim := &karpenterv1.NodeClaim{}
		if err := n.karpenter.Get(n.ctx, client.ObjectKeyFromObject(n.claim), claim); err != nil {
			return err
		}
		return check(claim)
	}))
}

// webPods gives those of the application that are on the node and do not leave.
func webPods(t *testing.T, n *gatedNode) map[types.UID]bool {
	t.Helper()
	list, err := cluster.Client.CoreV1().Pods("default").List(n.ctx, metav1.ListOptions{LabelSelector: "app=web", FieldSelector: "spec.nodeName=" + n.name()})
	must(t, err)
	found := map[types.UID]bool{}
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			found[p.UID] = true
		}
	}
	return found
}
