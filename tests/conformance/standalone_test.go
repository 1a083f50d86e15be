// A NodeClaim's whole life without Karpenter: its resource definitions are there, its controllers are not. Five nodes with the
// real daemon are registered, initialized, expire at about the same time, are drained one at a time because their NodePool
// allows no more, and are let go. A sixth says that it is not to be disrupted.

package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const (
	ourFinalizer      = "nodeclaimd.io/termination"
	requestAnnotation = "nodeclaimd.io/drain-request"
	alonePool         = "alone"
	aloneNodes        = 5
	startingTaint     = "example.com/starting"
)

// aloneNode is a node whose NodeClaim has nobody but us.
type aloneNode struct {
	*node
	claim *unstructured.Unstructured
	watch *harness.PodWatch
}

// newAloneNode makes the NodeClaim as whoever launches machines would, then the node as kubelet would.
func newAloneNode(t *testing.T, ctx context.Context, number int, change ...func(*unstructured.Unstructured)) *aloneNode {
	t.Helper()
	a := &aloneNode{}
	n := newPlainNode(t, number, func(node *corev1.Node) {
		delete(node.Labels, "karpenter.sh/nodepool") // it is the claim's to say
		node.Spec.Taints = []corev1.Taint{{Key: harness.TaintUnregistered, Effect: corev1.TaintEffectNoExecute}}
	})
	n.ctx = ctx
	n.imds.Stop()
	n.serve("127.0.0.1:0", n.instance.UserData)
	a.node = n
	var err error
	a.claim, err = cluster.NewClaimLike(ctx, fmt.Sprintf("alone-%d", number), n.instance, func(claim *unstructured.Unstructured) {
		expiring(claim)
		for _, more := range change {
			more(claim)
		}
	})
	must(t, err)
	t.Cleanup(func() { cluster.DropClaim(context.Background(), a.claim.GetName(), n.name) })
	return a
}

func expiring(claim *unstructured.Unstructured) {
	labels := claim.GetLabels()
	labels["karpenter.sh/nodepool"], labels["example.com/team"] = alonePool, "a"
	claim.SetLabels(labels)
	spec := claim.Object["spec"].(map[string]any)
	spec["expireAfter"] = "12s"
	spec["taints"] = []any{map[string]any{"key": "example.com/team", "value": "a", "effect": "NoSchedule"}}
	spec["startupTaints"] = []any{map[string]any{"key": startingTaint, "effect": "NoSchedule"}}
}

// condition gives status and reason of a NodeClaim's condition.
func (a *aloneNode) condition(kind string) (status, reason string) {
	now, err := cluster.Claim(a.ctx, a.claim.GetName())
	if err != nil {
		return "", err.Error()
	}
	list, _, _ := unstructured.NestedSlice(now.Object, "status", "conditions")
	for _, one := range list {
		if c, _ := one.(map[string]any); c["type"] == kind {
			return fmt.Sprint(c["status"]), fmt.Sprint(c["reason"])
		}
	}
	return "", ""
}

// is waits for a condition of the NodeClaim.
func (a *aloneNode) is(c *central, kind, status, reason string) {
	a.t.Helper()
	c.until(fmt.Sprintf("%s of %s is %s %s", kind, a.claim.GetName(), status, reason), func() error {
		if s, r := a.condition(kind); s != status || reason != "" && r != reason {
			return fmt.Errorf("it is %q %q", s, r)
		}
		return nil
	})
}

// checkRegistered: everything that registration brings to a Node.
func (a *aloneNode) checkRegistered(t *testing.T) {
	node, err := cluster.Node(a.ctx, a.name)
	must(t, err)
	want := []string{startingTaint + ":NoSchedule", "example.com/team=a:NoSchedule"}
	if have := taintSet(node.Spec.Taints); !slices.Equal(have, want) {
		t.Errorf("taints %v, want %v", have, want)
	}
	if node.Labels[harness.LabelRegistered] != "true" || node.Labels["karpenter.sh/nodepool"] != alonePool || node.Labels["example.com/team"] != "a" {
		t.Errorf("labels %v", node.Labels)
	}
	if !slices.Contains(node.Finalizers, ourFinalizer) || len(node.OwnerReferences) != 1 || node.OwnerReferences[0].UID != a.claim.GetUID() ||
		node.OwnerReferences[0].BlockOwnerDeletion == nil || !*node.OwnerReferences[0].BlockOwnerDeletion {
		t.Errorf("finalizers %v, owners %+v", node.Finalizers, node.OwnerReferences)
	}
	now, err := cluster.Claim(a.ctx, a.claim.GetName())
	must(t, err)
	if name, _, _ := unstructured.NestedString(now.Object, "status", "nodeName"); name != a.name || !slices.Contains(now.GetFinalizers(), ourFinalizer) {
		t.Errorf("nodeName %s, finalizers %v", name, now.GetFinalizers())
	}
}

// steps are the moments of a node's end, each the first accepted write of its kind; zero where there was none.
type steps struct{ deleted, requested, drained, nodeGone, claimGone time.Time }

func (a *aloneNode) steps(c *central) steps {
	a.t.Helper()
	var s steps
	note := func(at *time.Time, e harness.AuditEntry) {
		if at.IsZero() {
			*at = e.StageTimestamp
		}
	}
	for _, e := range accepted(append(c.writes("nodeclaims", a.claim.GetName()), c.writes("nodes", a.name)...)) {
		switch {
		case e.What() == "delete nodeclaims":
			note(&s.deleted, e)
		case e.What() == "delete nodes":
			note(&s.nodeGone, e)
		case body(e, "metadata", "annotations", requestAnnotation) != nil:
			note(&s.requested, e)
		}
		if e.What() == "patch nodeclaims" && !s.deleted.IsZero() {
			s.claimGone = e.StageTimestamp // the last of them takes the finalizer off
		}
	}
	for _, e := range accepted(a.requests("patch nodes/status", "", "")) {
		if strings.Contains(fmt.Sprint(body(e, "metadata", "annotations", drainAnnotation)), `"Drained"`) {
			note(&s.drained, e)
		}
	}
	return s
}

func TestLifeAlone(t *testing.T) {
	ctx := within(t, 240*time.Second)
	must(t, cluster.NewPool(ctx, alonePool, "1"))
	t.Cleanup(func() { cluster.DeletePool(context.Background(), alonePool) })
	c := deploy(t, ctx, standaloneManifest)
	began := time.Now()
	c.start("--mode", "standalone", "--node-identity", "admission")
	nodes := make([]*aloneNode, aloneNodes)
	for i := range nodes {
		nodes[i] = newAloneNode(t, ctx, 500+i)
	}
	kept := keptNode(t, ctx, 510)
	for _, a := range nodes {
		a.is(c, "Registered", "True", "")
		a.is(c, "Initialized", "Unknown", "StartupTaintsExist")
	}
	t.Run("registered", func(t *testing.T) { nodes[0].checkRegistered(t) })
	for _, a := range nodes {
		must(t, cluster.RemoveTaints(ctx, a.name, startingTaint))
		a.watch = a.follow(takeSeconds(0.3))
		a.makePods(a.watch, a.claim.GetName()+"-pod", 3, grace(5), tolerating("example.com/team"))
		a.keep("--imds", a.imds.URL)
	}
	c.until("every claim has been initialized", func() error {
		for _, a := range nodes {
			if s, r := a.condition("Initialized"); s != "True" && len(a.deletes(c)) == 0 {
				return fmt.Errorf("%s: %s %s", a.claim.GetName(), s, r)
			}
		}
		return nil
	})
	t.Logf("registered and initialized after %.1f s", time.Since(began).Seconds())
	c.until("all claims are gone", func() error {
		var left []string
		for _, a := range nodes {
			if _, err := cluster.Claim(ctx, a.claim.GetName()); !isNotFound(err) {
				s, r := a.condition("Drained")
				left = append(left, fmt.Sprintf("%s (Drained %s %s)", a.claim.GetName(), s, r))
			}
		}
		if len(left) > 0 {
			return errors.New(strings.Join(left, ", "))
		}
		return nil
	})
	t.Run("one at a time", func(t *testing.T) { checkOneAtATime(t, c, nodes) })
	for _, a := range nodes {
		t.Run("node "+a.claim.GetName(), func(t *testing.T) { a.checkEnd(t) })
	}
	if writes := c.writes("nodeclaims", kept); slices.ContainsFunc(writes, func(e harness.AuditEntry) bool { return e.Verb == "delete" }) {
		t.Errorf("it was not to be disrupted: %v", writes)
	}
	c.checkManners()
}

func (a *aloneNode) deletes(c *central) []harness.AuditEntry {
	return slices.DeleteFunc(accepted(c.writes("nodeclaims", a.claim.GetName())), func(e harness.AuditEntry) bool { return e.Verb != "delete" })
}

// keptNode is registered and expired, and says that it is not to be disrupted.
func keptNode(t *testing.T, ctx context.Context, number int) string {
	t.Helper()
	a := newAloneNode(t, ctx, number)
	must(t, cluster.PatchNode(ctx, a.name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{doNotDisrupt: "true"}}}))
	return a.claim.GetName()
}

// checkOneAtATime: from the DELETE of a claim until it is gone no other is deleted; and each end has its order.
func checkOneAtATime(t *testing.T, c *central, nodes []*aloneNode) {
	all := map[string]steps{}
	var order []string
	for _, a := range nodes {
		all[a.claim.GetName()] = a.steps(c)
		order = append(order, a.claim.GetName())
		if n := len(a.deletes(c)); n != 1 {
			t.Errorf("%s was deleted %d times", a.claim.GetName(), n)
		}
	}
	slices.SortFunc(order, func(a, b string) int { return all[a].deleted.Compare(all[b].deleted) })
	first := all[order[0]].deleted
	for i, name := range order {
		s := all[name]
		in := func(at time.Time) float64 { return at.Sub(first).Seconds() }
		t.Logf("%s: DELETE %6.2f s, drain-request %6.2f s, Drained %6.2f s, Node deleted %6.2f s, claim let go %6.2f s", name, in(s.deleted), in(s.requested),
			in(s.drained), in(s.nodeGone), in(s.claimGone))
		moments := []time.Time{s.deleted, s.requested, s.drained, s.nodeGone, s.claimGone}
		if slices.ContainsFunc(moments, time.Time.IsZero) || !slices.IsSortedFunc(moments, time.Time.Compare) {
			t.Errorf("%s: not in order, or not at all", name)
		}
		if i > 0 && s.deleted.Before(all[order[i-1]].claimGone) {
			t.Errorf("%s was deleted while %s was still there", name, order[i-1])
		}
	}
}

// checkEnd: the pods left by evictions of the node's own daemon, and nothing is left of the node.
func (a *aloneNode) checkEnd(t *testing.T) {
	if left := a.watch.Left(); len(left) > 0 {
		t.Errorf("%d pods are left", len(left))
	}
	if evictions := accepted(a.requests("create pods/eviction", "", "")); len(evictions) != 3 {
		t.Errorf("evictions %v", evictions)
	}
	if _, err := cluster.Client.CoreV1().Nodes().Get(a.ctx, a.name, metav1.GetOptions{}); !isNotFound(err) {
		t.Errorf("the Node is still there: %v", err)
	}
	a.checkRefusals(t)
}
