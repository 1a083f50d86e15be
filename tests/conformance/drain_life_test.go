// What may happen to a drain on its way: the notice is taken back, the daemon is killed, the API server goes away, policies
// keep a node's hands off what is not its own. The pods are objects; kubelet is played.

package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

// makePods makes running pods named name-0, name-1, … on the node, and takes away after the test what is left of them.
func (n *node) makePods(w *harness.PodWatch, name string, count int, options ...podOption) []*corev1.Pod {
	n.t.Helper()
	pods, errs := make([]*corev1.Pod, count), make([]error, count)
	var all sync.WaitGroup
	room := make(chan bool, 8)
	for i := range count {
		room <- true
		all.Go(func() {
			pods[i], errs[i] = createPod(n.ctx, "default", fmt.Sprintf("%s-%d", name, i), n.name, options...)
			<-room
		})
	}
	all.Wait()
	must(n.t, errors.Join(errs...))
	n.t.Cleanup(func() {
		_ = cluster.Client.CoreV1().Pods("default").DeleteCollection(context.Background(), *metav1.NewDeleteOptions(0),
			metav1.ListOptions{FieldSelector: "spec.nodeName=" + n.name})
	})
	waitRunning(n.t, n.ctx, w, pods...)
	return pods
}

// isReleased waits until nothing of ours is left on the Node but conditions that say False.
func (n *node) isReleased(unschedulable bool) {
	n.t.Helper()
	n.untilNode("the Node is released", func(node *corev1.Node) error {
		for _, key := range []string{drainAnnotation, cordonAnnotation} {
			if text, ok := node.Annotations[key]; ok {
				return fmt.Errorf("%s: %s", key, text)
			}
		}
		if _, ok := node.Labels[balancersLabel]; ok || node.Spec.Unschedulable != unschedulable {
			return fmt.Errorf("labels %v, unschedulable %v", node.Labels, node.Spec.Unschedulable)
		}
		if c := harness.Condition(node, drainedCondition); c != nil && c.Status == corev1.ConditionTrue {
			return fmt.Errorf("condition %+v", c)
		}
		return conditionIs(node, pendingCondition, corev1.ConditionFalse, "")
	})
}

// isHeld waits until the pods that may leave have left, and the daemon says who blocks.
func (n *node) isHeld(blocked int) {
	n.t.Helper()
	n.untilNode("the drain is held up", func(node *corev1.Node) error {
		s, err := n.drainStatus(node)
		if err == nil && (s.Phase != "Evicting" || s.Remaining != blocked || len(s.Blocked) != min(blocked, 5)) {
			err = fmt.Errorf("%+v", *s)
		}
		return err
	})
}

func TestNoticeIsWithdrawn(t *testing.T) {
	n := newPlainNode(t, 120)
	w := n.follow(takeSeconds(0.2))
	n.makePods(w, "free", 3, grace(30))
	makeBudget(t, n.ctx, "default", "withdrawn", "withdrawn", 0)
	held := n.makePods(w, "held", 2, grace(20), labelled("app", "withdrawn"))
	n.keep()

	n.imds.SayTerminate(time.Now().Add(110 * time.Second))
	n.isHeld(len(held))
	n.imds.Silence(harness.SpotNotice)
	n.isReleased(false)
	n.checkEvents(t, "SpotInterruption", "InterruptionWithdrawn", "NodeReleased")
	n.checkOrder(t)
	released := time.Now()

	t.Run("a foreign cordon stays", func(t *testing.T) {
		must(t, cluster.PatchNode(n.ctx, n.name, map[string]any{"spec": map[string]any{"unschedulable": true}}))
		n.imds.SayTerminate(time.Now().Add(112 * time.Second))
		n.isHeld(len(held))
		node, err := cluster.Node(n.ctx, n.name)
		must(t, err)
		if text, ok := node.Annotations[cordonAnnotation]; ok {
			t.Errorf("it says that the cordon is ours: %s", text)
		}
		n.imds.Silence(harness.SpotNotice)
		n.isReleased(true)
	})
	for _, e := range n.requests("create pods/eviction", "", "") {
		if e.RequestReceivedTimestamp.After(released) && !strings.HasPrefix(e.ObjectRef.Name, "held-") {
			t.Errorf("asked again: %s", e)
		}
	}
	for _, p := range held {
		if life := w.Life(p.UID); !life.Leaving.IsZero() {
			t.Errorf("%s left", p.Name)
		}
	}
	n.checkRefusals(t)
}

// What an eviction that was accepted has begun is never begun again, whoever was killed in the meantime.
func TestKilledDaemonGoesOn(t *testing.T) {
	n := newPlainNode(t, 130)
	w := n.follow(takeSeconds(0.7))
	pods := n.makePods(w, "free", 6, grace(10))
	makeBudget(t, n.ctx, "default", "slowly", "slowly", 0)
	pods = append(pods, n.makePods(w, "slowly", 34, grace(10), labelled("app", "slowly"))...)
	n.keep()
	allowing, stop := context.WithCancel(n.ctx)
	defer stop()
	go allowNowAndThen(allowing, "default", "slowly", 2)
	n.imds.SayTerminate(time.Now().Add(115 * time.Second))
	for round := range 6 {
		n.untilEvicted(1 + 5*round)
		time.Sleep(time.Duration(5*round) * time.Millisecond) // what it is at then is not for the test to choose
		n.kill()
		n.launch()
	}
	n.isDrained("SpotInterruption")
	stop()
	for _, p := range pods {
		n.checkOnce(t, p)
	}
	t.Logf("%d writes of the status, %d of the Node", len(n.requests("patch nodes/status", "", "")), len(n.requests("patch nodes", "", "")))
	n.kill() // whose cordon it is, the next one knows too
	n.imds.Silence(harness.SpotNotice)
	n.launch()
	n.isReleased(false)
	n.checkRefusals(t)
}

// checkOnce: nothing was asked about a pod after an eviction was accepted.
func (n *node) checkOnce(t *testing.T, p *corev1.Pod) {
	t.Helper()
	asked := n.about(p)
	done := accepted(asked)
	if len(done) > 1 || len(asked) == 0 {
		t.Errorf("%s: %v", p.Name, asked)
	}
	for _, e := range asked {
		if len(done) > 0 && e.RequestReceivedTimestamp.After(done[0].StageTimestamp) {
			t.Errorf("asked once more: %s", e)
		}
		if e.What() != "create pods/eviction" {
			t.Errorf("more than an eviction: %s", e)
		}
	}
}

// untilEvicted waits until so many evictions were accepted.
func (n *node) untilEvicted(count int) {
	n.t.Helper()
	n.until(fmt.Sprintf("%d evictions", count), func() error {
		if have := len(accepted(n.requests("create pods/eviction", "", ""))); have < count {
			return fmt.Errorf("%d so far", have)
		}
		return nil
	})
}

// allowNowAndThen is a budget that lets go of its pods a few at a time.
func allowNowAndThen(ctx context.Context, namespace, name string, allowed int32) {
	budgets := cluster.Client.PolicyV1().PodDisruptionBudgets(namespace)
	for ctx.Err() == nil {
		if now, err := budgets.Get(ctx, name, metav1.GetOptions{}); err == nil {
			now.Status.DisruptionsAllowed = allowed
			_, _ = budgets.UpdateStatus(ctx, now, metav1.UpdateOptions{})
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// The daemon's watches outlive the API server: it hears of a drain request after one restart, and of the last pod's end
// after another. A request withdrawn is a request withdrawn.
func TestAPIServerIsRestarted(t *testing.T) {
	n := newPlainNode(t, 140)
	running, stop := context.WithCancel(n.ctx)
	defer stop()
	w, err := cluster.WatchPods(running, n.name, takeSeconds(0.3))
	must(t, err)
	n.makePods(w, "free", 5, grace(30))
	makeBudget(t, n.ctx, "default", "restarted", "restarted", 0)
	n.makePods(w, "held", 1, grace(30), labelled("app", "restarted"))
	n.keep()
	restart := func() {
		t.Helper()
		cluster.KillAPIServer()
		must(t, cluster.StartAPIServer(n.ctx))
	}
	restart()
	n.request(map[string]any{"id": "r-1", "reason": "test", "mode": "graceful"})
	since := time.Now()
	n.isHeld(1)
	t.Logf("drained as far as may be %.1f s after the request", time.Since(since).Seconds())
	restart()
	makeBudget(t, n.ctx, "default", "restarted-again", "nothing", 0) // the API server writes again
	allow(t, n.ctx, "default", "restarted", 1)
	since = time.Now()
	n.isDrained("Requested")
	t.Logf("drained %.1f s after the budget allowed it", time.Since(since).Seconds())
	n.request(nil)
	n.isReleased(false)
	n.checkEvents(t, "Requested", "NodeCordoned", "DrainBlocked", "NodeDrained", "NodeReleased")
	n.checkRefusals(t)
}

// A notice that comes before the Node is there is acted on once it is; and again on the next Node of this name, where somebody
// deleted the first and kubelet made it anew.
func TestNodeComesLateAndGoes(t *testing.T) {
	n := newPlainNode(t, 200)
	w := n.follow(takeSeconds(0.2))
	n.makePods(w, "free", 2, grace(30))
	makeBudget(t, n.ctx, "default", "nodeless", "nodeless", 0)
	n.makePods(w, "held", 1, grace(20), labelled("app", "nodeless"))
	cluster.Forget(n.ctx, n.name)
	n.keep()
	n.imds.SayTerminate(time.Now().Add(112 * time.Second))
	n.until("the daemon has heard it", func() error {
		text, err := n.m.Read(statusPath)
		if err == nil && dig(decode(t, text), "drain", "source") != "spot" {
			err = fmt.Errorf("%s", text)
		}
		return err
	})
	if asked := append(n.requests("create pods/eviction", "", ""), n.requests("patch nodes", "", "")...); len(asked) > 0 {
		t.Errorf("without a Node: %v", asked)
	}
	n.register()
	n.isHeld(1)
	first, err := cluster.Node(n.ctx, n.name)
	must(t, err)
	cluster.Forget(n.ctx, n.name)
	n.register()
	n.isHeld(1)
	n.untilNode("the cordon of the new Node", func(node *corev1.Node) error {
		if node.UID == first.UID || !node.Spec.Unschedulable || node.Annotations[cordonAnnotation] == "" {
			return fmt.Errorf("uid %s, unschedulable %v, annotations %v", node.UID, node.Spec.Unschedulable, node.Annotations)
		}
		return conditionIs(node, pendingCondition, corev1.ConditionTrue, "SpotInterruption")
	})
	n.imds.Silence(harness.SpotNotice)
	n.isReleased(false)
	n.checkRefusals(t)
}

// request is what a controller writes to have the node drained; nil takes it back.
func (n *node) request(r map[string]any) {
	n.t.Helper()
	var value any
	if r != nil {
		text, err := json.Marshal(r)
		must(n.t, err)
		value = string(text)
	}
	must(n.t, cluster.PatchNode(n.ctx, n.name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{"nodeclaimd.io/drain-request": value}}}))
}

func TestGuardPoliciesLetTheDaemonWork(t *testing.T) {
	n := newPlainNode(t, 150)
	apply(t, n.ctx, guardManifests)
	wire, err := cluster.NodeWire(n.name)
	must(t, err)
	defer wire.Close()
	must(t, harness.Poll(n.ctx, "the policies are enforced", nil, func() error {
		a, err := wire.Do(n.ctx, "PATCH", "/api/v1/nodes/"+n.name+"?dryRun=All", harness.MergePatch, `{"metadata": {"finalizers": ["example.com/mine"]}}`)
		if err != nil {
			return err
		}
		return codeIs(a, 403)
	}))
	for _, forbidden := range []string{`{"metadata": {"labels": {"karpenter.sh/nodepool": "other"}}}`, `{"metadata": {"labels": {"karpenter.sh/registered": "true"}}}`,
		`{"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}`} {
		a, err := wire.Do(n.ctx, "PATCH", "/api/v1/nodes/"+n.name, harness.MergePatch, forbidden)
		must(t, err)
		if a.Code != 403 {
			t.Errorf("%s: %s", forbidden, a)
		}
	}
	w := n.follow(takeSeconds(0.2))
	n.makePods(w, "free", 5, grace(30))
	makeBudget(t, n.ctx, "default", "guarded", "guarded", 0)
	n.makePods(w, "held", 1, grace(5), labelled("app", "guarded"))
	n.settings("drain:", "  margin: 1s")
	n.keep()
	n.imds.SayTerminate(time.Now().Add(12 * time.Second))
	n.isDrained("SpotInterruption")
	n.imds.Silence(harness.SpotNotice)
	n.isReleased(false)
	n.checkRefusals(t)
}
