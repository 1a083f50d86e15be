// The daemon beside Karpenter's own termination controller: both see the same end coming, neither is in the other's way.

package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenterv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

// newClaimedNode is a plain node that Karpenter has launched, registered and initialized.
func newClaimedNode(t *testing.T, number int, ctx context.Context) (*node, client.Client, *karpenterv1.NodeClaim) {
	t.Helper()
	n := newPlainNode(t, number, func(node *corev1.Node) {
		node.Spec.Taints = []corev1.Taint{{Key: harness.TaintUnregistered, Effect: corev1.TaintEffectNoExecute}}
	})
	karpenter, err := cluster.StartKarpenter(ctx, n.instance)
	must(t, err)
	claim, err := harness.NewLaunchedClaim(n.ctx, karpenter, fmt.Sprintf("default-ends%d", number))
	must(t, err)
	t.Cleanup(func() { cluster.DropClaim(context.Background(), claim.Name, n.name) })
	must(t, harness.Poll(n.ctx, "karpenter initializes the node", nil, func() error {
		node, err := cluster.Node(n.ctx, n.name)
		if err == nil && node.Labels[harness.LabelInitialized] != "true" {
			err = fmt.Errorf("labels %v, taints %v", node.Labels, node.Spec.Taints)
		}
		return err
	}))
	return n, karpenter, claim
}

// endClaim deletes a NodeClaim as the relay of an interruption does, with the time by which all must be over; gives how long
// it took until the claim was gone.
func endClaim(t *testing.T, n *node, karpenter client.Client, claim *karpenterv1.NodeClaim, left time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	before := claim.DeepCopy()
	claim.Annotations = map[string]string{karpenterv1.NodeClaimTerminationTimestampAnnotationKey: began.Add(left).UTC().Format(time.RFC3339)}
	must(t, karpenter.Patch(n.ctx, claim, client.MergeFrom(before)))
	must(t, karpenter.Delete(n.ctx, claim))
	must(t, harness.Poll(n.ctx, "the NodeClaim is gone", nil, func() error {
		err := karpenter.Get(n.ctx, client.ObjectKeyFromObject(claim), claim)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%v, conditions %+v", err, claim.Status.Conditions)
	}))
	return time.Since(began)
}

// crowd puts pods on a node of which one may not leave, and two have more time than is left.
func (n *node) crowd(w *harness.PodWatch, budget string) {
	n.t.Helper()
	n.makePods(w, "free-"+budget, 8, grace(3))
	n.makePods(w, "late-"+budget, 1, grace(3), critical)
	n.makePods(w, "cut-"+budget, 2, grace(30))
	makeBudget(n.t, n.ctx, "default", budget, budget, 0)
	n.makePods(w, "held-"+budget, 1, grace(3), labelled("app", budget))
}

func TestBesideKarpenter(t *testing.T) {
	const left = 10 * time.Second
	running, stop := context.WithCancel(context.Background())
	defer stop()
	harness.KarpenterErrors()

	n, karpenter, claim := newClaimedNode(t, 170, running)
	n.crowd(n.follow(takeSeconds(0.5)), "alone")
	alone := endClaim(t, n, karpenter, claim, left)
	n.imds.Stop()
	stop()
	t.Logf("Karpenter alone: gone after %.1f s; errors %q", alone.Seconds(), harness.KarpenterErrors())

	again, stopAgain := context.WithCancel(context.Background())
	defer stopAgain()
	n, karpenter, claim = newClaimedNode(t, 171, again)
	must(t, cluster.AllowClaimLookup(n.ctx, "watch")) // so that it knows the time by which all must be over
	defer func() { must(t, cluster.DenyClaimLookup(context.Background())) }()
	n.crowd(n.follow(takeSeconds(0.5)), "beside")
	n.keep()
	began := time.Now()
	beside := endClaim(t, n, karpenter, claim, left)
	t.Logf("with the daemon: gone after %.1f s", beside.Seconds())
	if beside > alone+2*time.Second {
		t.Errorf("%.1f s with the daemon, %.1f s without", beside.Seconds(), alone.Seconds())
	}
	for _, complaint := range harness.KarpenterErrors() {
		t.Errorf("karpenter: %s", complaint)
	}
	for _, e := range n.requests("create pods/eviction", "", "") {
		isCut := strings.HasPrefix(e.ObjectRef.Name, "cut-") // its last moment has come: it waits for nobody
		if early := e.RequestReceivedTimestamp.Sub(began); early < 4500*time.Millisecond && !isCut {
			t.Errorf("evicted %s after the deletion, while Karpenter was at it: %s", early, e)
		}
		t.Logf("%s", e)
	}
	if signals := accepted(n.requests("patch nodes/status", "", "")); len(signals) == 0 {
		t.Error("the end was not signalled")
	}
	n.checkRefusals(t)
}

// TestDeadlineReachesTheNode: a NodeClaim is deleted by a person, with a time, and the node may not read it. With the controller the
// node has that time: each pod that a budget keeps is deleted at its own time with its whole grace. Karpenter's queue alone comes up to
// ten seconds late.
func TestDeadlineReachesTheNode(t *testing.T) {
	must(t, cluster.DenyClaimLookup(context.Background()))
	for _, isOurs := range []bool{false, true} {
		running, stop := context.WithCancel(context.Background())
		n, karpenter, claim := newClaimedNode(t, map[bool]int{false: 172, true: 173}[isOurs], running)
		n.ctx = within(t, 240*time.Second)
		watch, budget := n.follow(takeSeconds(0.5)), fmt.Sprintf("deadline-%v", isOurs)
		makeBudget(t, n.ctx, "default", budget, budget, 0)
		var pods []*corev1.Pod
		for _, g := range []int64{1, 3, 5, 8, 10} {
			pods = append(pods, n.makePods(watch, fmt.Sprintf("g%d-%s", g, budget), 1, grace(g), labelled("app", budget))...)
		}
		var c *central
		if isOurs {
			c = deploy(t, n.ctx)
			started := time.Now()
			c.start("--mode", "karpenter")
			c.leads(started)
			n.keep()
		} else {
			n.imds.Stop()
		}
		began := time.Now()
		took := endClaim(t, n, karpenter, claim, 30*time.Second)
		end := began.Add(30 * time.Second).Truncate(time.Second)
		t.Logf("ours %v: the claim is gone after %.1f s", isOurs, took.Seconds())
		for _, p := range pods {
			life, own := watch.Life(p.UID), *p.Spec.TerminationGracePeriodSeconds
			late := life.Leaving.Sub(end.Add(-time.Duration(own) * time.Second)).Seconds()
			t.Logf("ours %v: grace %2d s, deleted %4.1f s after its time", isOurs, own, late)
			if !isOurs {
				continue
			}
			given, _ := body(first(t, "the deletion of "+p.Name, n.requests("delete pods", "default", p.Name)), "gracePeriodSeconds").(float64)
			if late < -1 || late > 1 || int64(given) != own {
				t.Errorf("%s is deleted %.1f s after its time with %.0f of its %d s", p.Name, late, given, own)
			}
		}
		stop()
		if !isOurs {
			continue
		}
		if copied := accepted(c.writes("nodes", n.name)); len(copied) != 1 {
			t.Errorf("%d writes of the Node by the controller, not one", len(copied))
		}
		c.checkManners()
		n.checkRefusals(t)
	}
}
