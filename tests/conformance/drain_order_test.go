// The order that pods ask for by annotation, and what each pod is told of its end. The pods are objects; kubelet is played.

package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const orderAnnotation = "nodeclaimd.io/drain-order"

// evictedAt is when the API server took the eviction of each pod that it accepted; asked twice is an error.
func (n *node) evictedAt(t *testing.T) map[string]time.Time {
	t.Helper()
	at := map[string]time.Time{}
	for _, e := range accepted(n.requests("create pods/eviction", "", "")) {
		if _, twice := at[e.ObjectRef.Name]; twice {
			t.Errorf("evicted twice: %s", e)
		}
		at[e.ObjectRef.Name] = e.RequestReceivedTimestamp
	}
	return at
}

// before checks that one pod was gone, or was evicted where gone is nil, before another was evicted.
func before(t *testing.T, at map[string]time.Time, gone map[string]time.Time, first, second string) {
	t.Helper()
	moment, ok := at[first]
	if gone != nil {
		moment, ok = gone[first]
	}
	const late = 300 * time.Millisecond // of our own watch
	if !ok || at[second].IsZero() || at[second].Before(moment.Add(-late)) {
		t.Errorf("%s at %v, %s at %v", first, moment, second, at[second])
	}
}

func TestDrainOrder(t *testing.T) {
	t.Run("without a deadline", func(t *testing.T) {
		n := newPlainNode(t, 160)
		w := n.follow(takeSeconds(1))
		daemon := ownedBy("apps/v1", "DaemonSet", "agents")
		pods := map[string]*corev1.Pod{}
		for name, options := range map[string][]podOption{
			"order-web":      {grace(30)},
			"order-critical": {grace(30), critical},
			"order-first":    {grace(30), daemon, critical, annotated(orderAnnotation, "first")},
			"order-last":     {grace(30), daemon, annotated(orderAnnotation, "last"), tolerating("")},
			"order-left":     {grace(30), daemon},
		} {
			pods[name] = makePod(t, n.ctx, "default", name, n.name, options...)
		}
		for _, p := range pods {
			waitRunning(t, n.ctx, w, p)
		}
		n.keep()
		n.request(map[string]any{"id": "order", "reason": "test", "mode": "graceful"})
		n.isDrained("Requested")
		at, gone := n.evictedAt(t), map[string]time.Time{}
		for name, p := range pods {
			gone[name] = w.Life(p.UID).Gone
		}
		if len(at) != 4 {
			t.Errorf("evicted: %v", at)
		}
		before(t, at, nil, "order-first", "order-critical")
		before(t, at, gone, "order-web", "order-critical")
		before(t, at, gone, "order-web", "order-last")
		before(t, at, gone, "order-critical", "order-last")
		if now, err := getPod(n.ctx, pods["order-left"]); err != nil || now == nil || now.DeletionTimestamp != nil {
			t.Errorf("who asked for nothing: %v, %v", now, err)
		}
		again := makePod(t, n.ctx, "default", "order-again", n.name, grace(30), daemon, annotated(orderAnnotation, "last"), tolerating(""))
		waitRunning(t, n.ctx, w, again)
		n.kill()
		n.launch()
		n.until("the pod that was put back is left", func() error {
			text, err := n.m.Read("/run/nodeclaimd/status.json")
			if err != nil {
				return err
			}
			var s struct {
				Drain struct {
					Pods struct{ Excluded map[string]int }
				}
			}
			if err = json.Unmarshal([]byte(text), &s); err == nil && s.Drain.Pods.Excluded["tolerating"] != 1 {
				err = fmt.Errorf("%+v", s)
			}
			return err
		})
		if len(n.about(again)) != 0 {
			t.Errorf("what a DaemonSet put back is drained: %v", n.about(again))
		}
		n.checkRefusals(t)
	})
	t.Run("with a deadline", func(t *testing.T) {
		n := newPlainNode(t, 161)
		w := n.follow(takeSeconds(0.2))
		makeBudget(t, n.ctx, "default", "order-never", "order-never", 0)
		held := makePod(t, n.ctx, "default", "order-held", n.name, grace(2), labelled("app", "order-never"))
		last := makePod(t, n.ctx, "default", "order-end", n.name, grace(6), ownedBy("apps/v1", "DaemonSet", "agents"), tolerating(""))
		waitRunning(t, n.ctx, w, held, last)
		n.settings("drain:", "  margin: 1s", "  toleratingLast: true")
		n.keep()
		end := time.Now().Add(15 * time.Second).Truncate(time.Second)
		n.imds.SayTerminate(end)
		n.isDrained("SpotInterruption")
		at := n.evictedAt(t)["order-end"]
		// 2 s ahead of its force-delete time: its whole grace before the margin, and time for one refusal
		if want := end.Add(-9 * time.Second); at.Before(want.Add(-300*time.Millisecond)) || at.After(want.Add(1500*time.Millisecond)) {
			t.Errorf("evicted at %s, and not at %s", at, want)
		}
		if gone := w.Life(held.UID).Leaving; gone.Before(at) {
			t.Errorf("the held pod left at %s, the last at %s", gone, at)
		}
		n.checkRefusals(t)
	})
}

// toldOf gives the Events that the daemon has made of a pod.
func toldOf(ctx context.Context, p *corev1.Pod) ([]corev1.Event, error) {
	list, err := cluster.Client.CoreV1().Events(p.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(p.UID) + ",reason=NodeDraining"})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func TestPodsAreTold(t *testing.T) {
	t.Run("by default", func(t *testing.T) {
		n := newPlainNode(t, 162)
		w := n.follow(takeSeconds(0.5))
		makeNamespace(t, n.ctx, "told")
		makeBudget(t, n.ctx, "default", "told-never", "told-never", 0)
		pods := n.makePods(w, "told", 3, grace(20))
		other := makePod(t, n.ctx, "told", "told-elsewhere", n.name, grace(20))
		held := makePod(t, n.ctx, "default", "told-held", n.name, grace(3), labelled("app", "told-never"))
		waitRunning(t, n.ctx, w, other, held)
		n.settings("drain:", "  margin: 1s")
		n.keep()
		end := time.Now().Add(15 * time.Second).Truncate(time.Second)
		n.imds.SayTerminate(end)
		n.isDrained("SpotInterruption")
		for _, p := range append(pods, other, held) {
			must(t, harness.Poll(n.ctx, p.Name+" is told", nil, func() error {
				told, err := toldOf(n.ctx, p)
				if err == nil && len(told) != 1 {
					err = fmt.Errorf("%d Events", len(told))
				}
				return err
			}))
			told, err := toldOf(n.ctx, p)
			must(t, err)
			// 20 s do not fit in before the deadline, and 3 s do: how many are left depends on the moment of the eviction
			verb := map[bool]string{true: "Force-deleted", false: `Evicted with \d+ of 20 s`}[p == held]
			want := fmt.Sprintf(`^%s: node %s is draining \(source spot, deadline %s\)$`, verb, n.name, end.UTC().Format(time.RFC3339))
			if !regexp.MustCompile(want).MatchString(told[0].Message) || told[0].Type != "Normal" || told[0].Source.Component != "nodeclaimd" {
				t.Errorf("%+v, and not %q", told[0], want)
			}
			reason := map[bool]string{true: "TerminationByNodeclaimd", false: "EvictionByEvictionAPI"}[p == held]
			if mark := w.Life(p.UID).Mark; mark == nil || mark.Status != corev1.ConditionTrue || mark.Reason != reason {
				t.Errorf("%s: condition %+v, and not %s", p.Name, mark, reason)
			}
		}
		n.checkRefusals(t)
	})
	t.Run("without a deadline", func(t *testing.T) {
		n := newPlainNode(t, 164)
		pods := n.makePods(n.follow(takeSeconds(0.2)), "told-gracefully", 2, grace(20))
		n.keep()
		n.request(map[string]any{"id": "told", "reason": "test", "mode": "graceful"})
		n.isDrained("Requested")
		for _, p := range pods {
			must(t, harness.Poll(n.ctx, p.Name+" is told", nil, func() error {
				told, err := toldOf(n.ctx, p)
				if err == nil && (len(told) != 1 || !strings.HasSuffix(told[0].Message, ", without a deadline)")) {
					err = fmt.Errorf("%+v", told)
				}
				return err
			}))
		}
		n.checkRefusals(t)
	})
	t.Run("not where that is switched off", func(t *testing.T) {
		n := newPlainNode(t, 163)
		w := n.follow(takeSeconds(0.2))
		n.makePods(w, "untold", 3, grace(20))
		n.settings("drain:", "  podEvents: false")
		n.keep()
		n.request(map[string]any{"id": "untold", "reason": "test", "mode": "graceful"})
		n.isDrained("Requested")
		n.checkEvents(t, "NodeDrained")
		for _, e := range n.requests("create events", "", "") {
			if body(e, "involvedObject", "kind") == "Pod" {
				t.Errorf("a pod was told: %s", e)
			}
		}
		n.checkRefusals(t)
	})
}
