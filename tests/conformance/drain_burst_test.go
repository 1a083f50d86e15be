// How fast a full node is asked to leave: 110 evictions, against a client that does nothing else.

package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const burst = 110

// bareEvictions lists the pods of a node and evicts them all at once over one connection; gives the time from the arrival of
// the list until the last eviction was answered, by the API server's own clock.
func bareEvictions(t *testing.T, ctx context.Context, node string, pods []*corev1.Pod) time.Duration {
	t.Helper()
	wire, err := cluster.NodeWire(node)
	must(t, err)
	defer wire.Close()
	_, err = wire.Do(ctx, "GET", "/api/v1/nodes/"+node, "", nil) // the connection is there, as the daemon's is
	must(t, err)
	began := time.Now()
	_, err = wire.Do(ctx, "GET", "/api/v1/pods?fieldSelector=spec.nodeName%3D"+node+"&resourceVersion=0", "", nil)
	must(t, err)
	var all sync.WaitGroup
	answers := make([]error, len(pods))
	for i, p := range pods {
		all.Go(func() {
			a, err := wire.Do(ctx, "POST", podPath(p)+"/eviction", "", eviction(p, string(p.UID), nil))
			if err == nil {
				err = codeIs(a, 201)
			}
			answers[i] = err
		})
	}
	all.Wait()
	for _, err := range answers {
		must(t, err)
	}
	return spanOf(t, ctx, "system:node:"+node, func(e harness.AuditEntry) bool {
		return e.RequestReceivedTimestamp.After(began) && (e.What() == "list pods" || e.What() == "create pods/eviction")
	})
}

// spanOf waits until the audit log has all evictions of a burst, and gives the time from its beginning to the last answer: the
// cordon is stored, or, where there is none, the first request has arrived.
func spanOf(t *testing.T, ctx context.Context, user string, match func(harness.AuditEntry) bool) time.Duration {
	t.Helper()
	var span time.Duration
	must(t, harness.Poll(ctx, "the burst is in the audit log", nil, func() error {
		list, err := cluster.Audit.Entries(func(e harness.AuditEntry) bool { return e.User.Username == user && match(e) })
		if err != nil {
			return err
		}
		sortByArrival(list)
		var asked []time.Time
		var last time.Time
		for _, e := range list {
			if e.What() == "create pods/eviction" && e.ResponseStatus.Code == 201 {
				asked = append(asked, e.RequestReceivedTimestamp)
				last = later(last, e.StageTimestamp)
			}
		}
		if len(asked) < burst {
			return fmt.Errorf("%d accepted", len(asked))
		}
		began := list[0].RequestReceivedTimestamp
		if list[0].Verb == "patch" {
			began = list[0].StageTimestamp
		}
		span = last.Sub(began)
		t.Logf("%s: first eviction after %s, last after %s, last answer after %s", user, asked[0].Sub(began), asked[len(asked)-1].Sub(began), span)
		return nil
	}))
	return span
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func TestBurstOfEvictions(t *testing.T) {
	n := newPlainNode(t, 160)
	w := n.follow(takeSeconds(2))
	bare := newBareNode(t, "burst-bare")
	bareWatch, err := cluster.WatchPods(n.ctx, bare.name, takeSeconds(2))
	must(t, err)
	n.keep()
	var ours, theirs []time.Duration
	for round := range 3 {
		there := &node{t: t, ctx: n.ctx, name: bare.name}
		theirs = append(theirs, bareEvictions(t, n.ctx, bare.name, there.makePods(bareWatch, fmt.Sprintf("bare-%d", round), burst, grace(30))))
		pods := n.makePods(w, fmt.Sprintf("burst-%d", round), burst, grace(30))
		began := time.Now()
		n.imds.SayTerminate(began.Add(115 * time.Second))
		ours = append(ours, spanOf(t, n.ctx, "system:node:"+n.name, func(e harness.AuditEntry) bool {
			return e.RequestReceivedTimestamp.After(began) && (e.What() == "create pods/eviction" ||
				e.What() == "patch nodes" && body(e, "spec", "unschedulable") == true)
		}))
		for _, p := range pods {
			waitGone(t, n.ctx, p, n.agent)
		}
		n.imds.Silence(harness.SpotNotice)
		n.isReleased(false)
	}
	t.Logf("cordon to %d accepted evictions: %v; a bare HTTP/2 client from list on: %v", burst, ours, theirs)
	ratio := float64(slices.Min(ours)) / float64(slices.Min(theirs))
	t.Logf("best of %d: %v against %v, ratio %.2f", len(ours), slices.Min(ours), slices.Min(theirs), ratio)
	if ratio > 2 {
		t.Errorf("the ratio is %.2f, reach is 2", ratio)
	}
	n.checkRefusals(t)
}
