// An agent that is stopped or killed while it waits, and started again: kubelet is left alone, and the second one ends
// what the first began.

package conformance

import (
	"slices"
	"syscall"
	"testing"

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
