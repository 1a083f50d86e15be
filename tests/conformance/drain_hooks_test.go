// Hooks before and after a drain: no eviction before the first has ended, or its time is over; no Drained before the second has.
// systemd is the fake of tests/fakes; who was asked for what is the API server's to say.

package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

// hookBus is a system bus with both targets; each has one unit, which takes so long, or for ever. It prints when one has ended.
const hookBus = `
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from bus import Bus, Unit
folder, pre, post = Path(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
def ended(name):
    print(f"{name} {time.time()}", flush=True)
    return 0
with Bus(folder, folder) as bus:
    for name, takes in (("pre", pre), ("post", post)):
        hook = Unit(start=lambda name=name: ended(name), takes_sec=max(takes, 0), answers=takes >= 0)
        bus.units[f"{name}.service"] = hook
        bus.units[f"nodeclaimd-{name}-drain.target"] = Unit(wants=[f"{name}.service"])
    print("ready", flush=True)
    while True:
        time.sleep(60)
`

// hooks installs a unit for each target and starts the bus; gives its log. A negative time: the unit never ends.
func (n *node) hooks(pre, post float64) *harness.Proc {
	n.t.Helper()
	for _, name := range []string{"pre", "post"} {
		n.write("/etc/systemd/system/nodeclaimd-"+name+"-drain.target.wants/"+name+".service", "")
	}
	return n.startBus(hookBus, fmt.Sprint(pre), fmt.Sprint(post))
}

// startBus starts a script with a system bus, bus.socket in the machine's folder, and waits until it says "ready". Its arguments begin
// with the folder of the fakes and the machine's.
func (n *node) startBus(script string, args ...string) *harness.Proc {
	n.t.Helper()
	fakes, err := filepath.Abs("../fakes")
	must(n.t, err)
	bus, err := harness.Start(n.m.Dir, "bus", nil, append([]string{"/usr/bin/python3", "-B", "-c", script, fakes, n.m.Dir}, args...)...)
	must(n.t, err)
	n.t.Cleanup(bus.Stop)
	must(n.t, harness.Poll(n.ctx, "the bus", []*harness.Proc{bus}, func() error {
		text, err := os.ReadFile(bus.Log)
		if err == nil && !strings.Contains(string(text), "ready") {
			err = fmt.Errorf("it says %q", text)
		}
		return err
	}))
	n.t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+filepath.Join(n.m.Dir, "bus.socket"))
	return bus
}

// ended gives when the hook of this name ended; nothing where it did not.
func ended(t *testing.T, bus *harness.Proc, name string) []time.Time {
	t.Helper()
	text, err := os.ReadFile(bus.Log)
	must(t, err)
	var times []time.Time
	for line := range strings.Lines(string(text)) {
		if at, is := strings.CutPrefix(strings.TrimSpace(line), name+" "); is {
			seconds, err := strconv.ParseFloat(at, 64)
			must(t, err)
			times = append(times, time.UnixMicro(int64(seconds*1e6)))
		}
	}
	return times
}

// drainedWrite gives when the daemon sent that the Node is Drained.
func (n *node) drainedWrite() time.Time {
	n.t.Helper()
	for _, e := range n.requests("patch nodes/status", "", n.name) {
		if strings.Contains(string(e.RequestObject), `"Drained"`) && strings.Contains(string(e.RequestObject), `"NodeDrained"`) {
			return e.RequestReceivedTimestamp
		}
	}
	n.t.Fatal("the daemon did not say Drained")
	return time.Time{}
}

func TestDrainHooks(t *testing.T) {
	t.Run("without a deadline", func(t *testing.T) {
		n := newPlainNode(t, 191)
		bus := n.hooks(4, 3)
		w := n.follow(takeSeconds(0.3))
		n.makePods(w, "hooked", 3, grace(30))
		n.keep()
		if out, err := n.run("drain"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		n.isDrained("Requested")
		evictions := n.requests("create pods/eviction", "", "")
		pre, post := ended(t, bus, "pre"), ended(t, bus, "post")
		if len(evictions) != 3 || len(pre) != 1 || len(post) != 1 {
			t.Fatalf("%d evictions, hooks ended at %v and %v", len(evictions), pre, post)
		}
		if first := evictions[0].RequestReceivedTimestamp; first.Before(pre[0]) {
			t.Errorf("the first eviction came %v before the hook had ended", pre[0].Sub(first))
		}
		if at := n.drainedWrite(); at.Before(post[0]) {
			t.Errorf("Drained was written %v before the hook had ended", post[0].Sub(at))
		}
		n.checkEvents(t, "NodeCordoned", "DrainStarted", "NodeDrained")
		n.checkRefusals(t)
	})
	t.Run("with a deadline", func(t *testing.T) {
		n := newPlainNode(t, 192)
		bus := n.hooks(-1, -1)
		w := n.follow(takeSeconds(0.3))
		n.settings("drain:", "  margin: 2s")
		n.makePods(w, "hooked", 2, grace(10))
		n.keep()
		end := time.Now().Add(25 * time.Second)
		if out, err := n.run("drain", "--deadline", end.UTC().Format(time.RFC3339)); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		n.isDrained("Requested")
		evictions := n.requests("create pods/eviction", "", "")
		if len(evictions) != 2 || len(ended(t, bus, "pre")) != 0 {
			t.Fatalf("%d evictions, hooks ended at %v", len(evictions), ended(t, bus, "pre"))
		}
		// A second ahead of the force-delete time: the deadline is in whole seconds, 2 s of margin and a grace of 10 s before it.
		due := end.Truncate(time.Second).Add(-13 * time.Second)
		if off := evictions[0].RequestReceivedTimestamp.Sub(due); off < -100*time.Millisecond || off > 3*time.Second {
			t.Errorf("the first eviction came %v after its time", off)
		}
		if at := n.drainedWrite(); at.After(end) {
			t.Errorf("Drained was written %v after the deadline", at.Sub(end))
		}
		n.checkEvents(t, "HookTimedOut", "NodeDrained")
		n.checkRefusals(t)
	})
	t.Run("none", func(t *testing.T) {
		n := newPlainNode(t, 193)
		w := n.follow(takeSeconds(0.3))
		n.makePods(w, "free", 2, grace(30))
		n.keep()
		if out, err := n.run("drain"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		n.isDrained("Requested")
		_, cordon := n.checkOrder(t)
		evictions := n.requests("create pods/eviction", "", "")
		if len(evictions) != 2 || evictions[0].RequestReceivedTimestamp.Sub(cordon.StageTimestamp) > 2*time.Second {
			t.Errorf("a cordon at %v, evictions %v", cordon.StageTimestamp, evictions)
		}
		n.checkRefusals(t)
	})
}
