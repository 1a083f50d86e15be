// An agent that is stopped or killed while it waits, and started again: kubelet is left alone, and the second one ends
// what the first began. And a bootstrap over a good one whose kubelet is started again: it ends with the new kubelet's
// first report, neither before it nor minutes after.

package conformance

import (
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

func TestInterruptedBootstrapIsResumed(t *testing.T) {
	for number, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			n := newNode(t, 90+number)
			must(t, cluster.DenyClaimLookup(n.ctx))
			n.boot(harness.UserData{MaxPods: 29, Labels: harness.KarpenterLabels()}.For(cluster))
			_, err := cluster.ReadyNode(n.ctx, n.name, n.agent)
			must(t, err)
			before := n.m.Pids("kubelet")
			must(t, syscall.Kill(n.agent.Pid(), sig))
			if code := n.finish(); code == 0 {
				t.Error("an interrupted bootstrap ended with 0")
			}
			n.start()
			n.karpenter(nil)
			if code := n.finish(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			n.isComplete()
			if after := n.m.Pids("kubelet"); len(before) != 1 || !slices.Equal(before, after) {
				t.Errorf("kubelet was %v, is %v", before, after)
			}
			if s := n.status(); s.Outcome != "succeeded" {
				t.Errorf("outcome %s", s.Outcome)
			}
		})
	}
}

// firstReport is what a real kubelet needs from its start to its first report, many times over, and a fraction of the five
// minutes that it holds back a status which has not changed.
const firstReport = 60 * time.Second

// heartbeat is when kubelet last reported.
func (n *node) heartbeat() time.Time {
	n.t.Helper()
	now, err := cluster.Node(n.ctx, n.name)
	must(n.t, err)
	ready := harness.Condition(now, corev1.NodeReady)
	if ready == nil || ready.Status != corev1.ConditionTrue {
		n.t.Fatalf("Ready is %+v", ready)
	}
	return ready.LastHeartbeatTime.Time
}

func TestSecondBootstrapWaitsForTheNewKubelet(t *testing.T) {
	ways := map[string]func(n *node){
		"other files": func(n *node) { n.kubelet(filepath.Join(binDir, "kubelet"), "flags: [--v=3]") },
		"killed": func(n *node) {
			for _, pid := range n.m.Pids("kubelet") {
				must(n.t, syscall.Kill(pid, syscall.SIGKILL))
			}
			must(n.t, harness.Poll(n.ctx, "kubelet has ended", nil, func() error {
				if left := n.m.Pids("kubelet"); len(left) > 0 {
					return fmt.Errorf("there is %v", left)
				}
				return nil
			}))
		},
	}
	number := 94
	for name, change := range ways {
		number++
		t.Run(name, func(t *testing.T) {
			n := newNode(t, number)
			must(t, cluster.DenyClaimLookup(n.ctx))
			n.boot(harness.UserData{MaxPods: 29, Labels: harness.KarpenterLabels()}.For(cluster))
			n.karpenter(nil)
			if code := n.finish(); code != 0 {
				t.Fatalf("exit code %d", code)
			}
			kubelets, said := n.m.Pids("kubelet"), n.heartbeat()
			// Heartbeats are whole seconds: the new kubelet starts in a later one.
			must(t, harness.Poll(n.ctx, "the second of the last heartbeat is over", nil, func() error {
				if age := time.Since(said); age < 2*time.Second {
					return fmt.Errorf("it is %s old", age)
				}
				return nil
			}))
			change(n)
			began := time.Now()
			n.start()
			if code := n.finish(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if took := time.Since(began); took > firstReport {
				t.Errorf("it took %s", took)
			}
			if now := n.m.Pids("kubelet"); len(now) != 1 || slices.Equal(now, kubelets) {
				t.Errorf("kubelet was %v, is %v", kubelets, now)
			}
			if now := n.heartbeat(); now.Before(began.Truncate(time.Second)) {
				t.Errorf("it ended with a heartbeat of %s, and began at %s", now, began)
			}
			n.isComplete()
		})
	}
}
