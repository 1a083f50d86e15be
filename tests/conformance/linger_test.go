// The time that load balancers get after the label: fixed, because no right of a node shows when a target is deregistered.

package conformance

import (
	"testing"
	"time"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

// lingered drains a node whose pods leave at once, and gives how long after the label it was said to be drained.
func lingered(t *testing.T, number int, linger string, begin func(*node)) time.Duration {
	t.Helper()
	n := newPlainNode(t, number)
	n.makePods(n.follow(takeSeconds(0.2)), "web", 2, grace(30))
	n.settings("drain:", "  margin: 2s", "  linger: "+linger)
	n.keep()
	begin(n)
	n.isDrained("")
	_, cordon := n.checkOrder(t)
	if body(cordon, "metadata", "labels", balancersLabel) != balancersValue {
		t.Errorf("the cordon has no label: %s", cordon.RequestObject)
	}
	for _, e := range accepted(n.requests("patch nodes/status", "", "")) {
		if says(e, drainedCondition) {
			n.checkRefusals(t)
			return e.RequestReceivedTimestamp.Sub(cordon.StageTimestamp)
		}
	}
	t.Fatal("no write says Drained")
	return 0
}

// says: this write sets the condition to True.
func says(e harness.AuditEntry, condition string) bool {
	list, _ := body(e, "status", "conditions").([]any)
	for i := range list {
		if dig(list, i, "type") == condition && dig(list, i, "status") == "True" {
			return true
		}
	}
	return false
}

func TestLinger(t *testing.T) {
	spot := func(after time.Duration) func(*node) {
		return func(n *node) { n.imds.SayTerminate(time.Now().Add(after)) }
	}
	t.Run("a deadline far enough away", func(t *testing.T) {
		if took := lingered(t, 400, "9s", spot(110*time.Second)); took < 8900*time.Millisecond || took > 20*time.Second {
			t.Errorf("drained %v after the label, want 9 s", took)
		}
	})
	t.Run("without a deadline", func(t *testing.T) {
		requested := func(n *node) {
			if out, err := n.run("drain", "--reason", "linger"); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		if took := lingered(t, 401, "9s", requested); took < 8900*time.Millisecond || took > 20*time.Second {
			t.Errorf("drained %v after the label, want 9 s", took)
		}
	})
	t.Run("a target that never deregisters", func(t *testing.T) {
		if took := lingered(t, 402, "10m", spot(20*time.Second)); took > 20*time.Second {
			t.Errorf("drained %v after the label: the deadline did not end the wait", took)
		}
	})
	t.Run("off", func(t *testing.T) {
		if took := lingered(t, 403, "0s", spot(110*time.Second)); took > 8*time.Second {
			t.Errorf("drained %v after the label", took)
		}
	})
}
