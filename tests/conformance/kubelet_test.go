// What a drain takes for granted of kubelet: how it counts a grace that is shortened while the pod terminates. The program
// has no part in it.

package conformance

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

// waitRunning waits until kubelet says that the pods run.
func waitRunning(t *testing.T, ctx context.Context, w *harness.PodWatch, pods ...*corev1.Pod) {
	t.Helper()
	must(t, harness.Poll(ctx, "the pods run", nil, func() error {
		for _, p := range pods {
			if now := w.Life(p.UID).Last; now == nil || now.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("%s: %+v", p.Name, now)
			}
		}
		return nil
	}))
}

// kubelet takes the grace of the request that it hears of first. What a second DELETE says moves times in the API only: the
// container under way to its end is left alone (kubernetes issue 113606). So a pod whose own grace reaches past the deadline
// must get the time that is left with the very first request.
func TestFactKubeletKeepsTheFirstGrace(t *testing.T) {
	n := handWritten(t, "fact-kubelet", "", nil)
	wire, err := cluster.NodeWire(n.name)
	must(t, err)
	defer wire.Close()
	ask := func(p *corev1.Pod, method, path string, body any, code int) {
		t.Helper()
		a, err := wire.Do(n.ctx, method, path, "", body)
		must(t, err)
		must(t, codeIs(a, code))
	}
	w, err := cluster.WatchPods(n.ctx, n.name, nil)
	must(t, err)
	shortened := makePod(t, n.ctx, "default", "fact-shortened", n.name, grace(10), running("--ignore"))
	given := makePod(t, n.ctx, "default", "fact-given", n.name, grace(60), running("--ignore"))
	waitRunning(t, n.ctx, w, shortened, given)

	first := time.Now()
	ask(shortened, "DELETE", podPath(shortened), deletion(shortened, 10), 200)
	granted := time.Now()
	ask(given, "POST", podPath(given)+"/eviction", eviction(given, string(given.UID), map[string]any{"gracePeriodSeconds": 4}), 201)
	time.Sleep(time.Until(first.Add(2 * time.Second)))
	ask(shortened, "DELETE", podPath(shortened), deletion(shortened, 4), 200)
	answered := time.Now()
	second, err := getPod(n.ctx, shortened)
	must(t, err)
	waitGone(t, n.ctx, given)
	waitGone(t, n.ctx, shortened)

	after := func(at time.Time) float64 { return at.Sub(first).Seconds() }
	t.Logf("evicted with 4 of 60 s: killed after %.1f s; deleted with 10 s, then with 4: by the API %.1f s, killed after %.1f s",
		after(w.Life(given.UID).Ended), after(second.DeletionTimestamp.Time), after(w.Life(shortened.UID).Ended))
	if after(answered) > 4.5 {
		t.Fatalf("the second request took until %.1f s: kubelet's choice cannot be told any more", after(answered))
	}
	// A busy machine kills late, never early: what would be true if it were otherwise lies outside of each row.
	for _, c := range []struct {
		what           string
		have           float64
		least, noLater float64
	}{
		{"evicted with 4 s of 60: killed", after(w.Life(given.UID).Ended), 3.5, 30},
		{"shortened to 4 s of the first request's 10: deletionTimestamp", after(second.DeletionTimestamp.Time), 2.9, after(granted) + 4},
		{"shortened to 4 s: killed", after(w.Life(shortened.UID).Ended), 9, 30},
	} {
		if c.have < c.least || c.have > c.noLater {
			t.Errorf("%s after %.1f s, want %.1f to %.1f", c.what, c.have, c.least, c.noLater)
		}
	}
}
