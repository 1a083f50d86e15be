// The lifecycle conditions that Kubernetes names (KEP-5683), as the API server has them: through a maintenance, a drain and a shutdown.
// logind is the fake of tests/fakes.

package conformance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const (
	drainInProgress       = corev1.NodeConditionType("DrainInProgress")
	maintenancePlanned    = corev1.NodeConditionType("MaintenancePlanned")
	maintenanceInProgress = corev1.NodeConditionType("MaintenanceInProgress")
	shutdownInProgress    = corev1.NodeConditionType("GracefulNodeShutdownInProgress")
)

// logindBus is a system bus with logind, which announces a shutdown while there is a file "shutdown".
const logindBus = `
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from bus import Bus
folder = Path(sys.argv[2])
with Bus(folder, folder) as bus:
    print("ready", flush=True)
    while True:
        if (folder / "shutdown").exists() != bus.preparing:
            bus.prepare_for_shutdown(not bus.preparing)
        time.sleep(0.05)
`

// shows waits until these conditions are True, each for its reason, and no other of the four is; gives them as YAML to the log.
func (n *node) shows(when string, want map[corev1.NodeConditionType]string) {
	n.t.Helper()
	node := n.untilNode(when, func(node *corev1.Node) error {
		var errs []error
		for _, kind := range []corev1.NodeConditionType{drainInProgress, maintenancePlanned, maintenanceInProgress, shutdownInProgress} {
			if reason, is := want[kind]; is {
				errs = append(errs, conditionIs(node, kind, corev1.ConditionTrue, reason))
			} else if c := harness.Condition(node, kind); c != nil && c.Status != corev1.ConditionFalse {
				errs = append(errs, fmt.Errorf("condition %+v", c))
			}
		}
		return errors.Join(errs...)
	})
	text, err := yaml.Marshal(node.Status.Conditions)
	must(n.t, err)
	n.t.Logf("%s: kubectl get node -o yaml, status.conditions:\n%s", when, text)
}

func (n *node) scheduled(code string, begins time.Time) {
	n.imds.Say(harness.ScheduledNotice, fmt.Sprintf(`[{"NotBefore": %q, "Code": %q, "Description": "scheduled", "EventId": "instance-event-0123456789abcdef0",
 "NotAfter": %q, "State": "active"}]`, begins.UTC().Format("2 Jan 2006 15:04:05 GMT"), code, begins.UTC().Add(2*time.Hour).Format("2 Jan 2006 15:04:05 GMT")))
}

func TestLifecycleConditions(t *testing.T) {
	if minor, err := strconv.Atoi(strings.Split(kubeVersion, ".")[1]); err != nil || minor < 37 {
		t.Skip("Kubernetes names these conditions from 1.37 on: --newest")
	}
	n := newPlainNode(t, 195)
	n.ctx = within(t, 300*time.Second) // scheduled events are asked for once a minute
	n.startBus(logindBus)
	w := n.follow(takeSeconds(3))
	n.settings("interruption:", "  maintenance: report")
	n.keep()

	n.scheduled("instance-stop", time.Now().AddDate(0, 0, 5))
	n.shows("a maintenance lies ahead", map[corev1.NodeConditionType]string{maintenancePlanned: "MaintenanceWindow"})
	n.scheduled("system-maintenance", time.Now().Add(-time.Minute))
	n.shows("a maintenance has begun", map[corev1.NodeConditionType]string{maintenanceInProgress: "MaintenanceWindow"})
	n.imds.Silence(harness.ScheduledNotice)
	n.shows("the maintenance is over", nil)

	n.makePods(w, "slow", 2, grace(30))
	n.request(map[string]any{"id": "one", "reason": "test", "mode": "graceful"})
	n.shows("a drain", map[corev1.NodeConditionType]string{drainInProgress: "AdminRequested"})
	n.isDrained("Requested")
	n.shows("drained", nil)
	n.request(nil)
	n.isReleased(false)

	must(t, os.WriteFile(filepath.Join(n.m.Dir, "shutdown"), nil, 0o644))
	n.shows("a shutdown", map[corev1.NodeConditionType]string{shutdownInProgress: "NodeShutdown", drainInProgress: "NodeShutdown"})
	must(t, os.Remove(filepath.Join(n.m.Dir, "shutdown")))
	n.shows("the shutdown is taken back", nil)
	n.checkRefusals(t)
}
