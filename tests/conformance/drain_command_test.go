// What a person on the machine does: look at the plan, ask for the drain, wait for it, take it back.

package conformance

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

// attach is what the attach-detach controller says of a volume of this node.
func (n *node) attach(volumes ...string) {
	n.t.Helper()
	list := []corev1.AttachedVolume{}
	for _, v := range volumes {
		list = append(list, corev1.AttachedVolume{Name: corev1.UniqueVolumeName(v), DevicePath: ""})
	}
	must(n.t, cluster.PatchNodeStatus(n.ctx, n.name, map[string]any{"status": map[string]any{"volumesAttached": list}}))
}

func TestPersonDrains(t *testing.T) {
	n := newPlainNode(t, 190)
	w := n.follow(takeSeconds(0.3))
	free := n.makePods(w, "free", 3, grace(30))
	n.makePods(w, "daemon", 1, ownedBy("apps/v1", "DaemonSet", "daemon"))
	makeBudget(t, n.ctx, "default", "person", "person", 0)
	held := n.makePods(w, "held", 1, grace(30), labelled("app", "person"), critical)
	n.attach("kubernetes.io/csi/ebs.csi.aws.com^vol-1")

	t.Run("dry run", func(t *testing.T) {
		plan, err := n.run("drain", "--dry-run", "--deadline", "10m")
		if err != nil {
			t.Fatalf("%v\n%s", err, plan)
		}
		for _, p := range append(free, held...) {
			if !strings.Contains(plan, p.Namespace+"/"+p.Name) {
				t.Errorf("%s is not in the plan", p.Name)
			}
		}
		t.Logf("\n%s", plan)
		if len(n.requests("create pods/eviction", "", "")) > 0 || len(n.requests("patch nodes", "", "")) > 0 {
			t.Error("a dry run asked for something")
		}
	})
	n.keep()
	if out, err := n.run("drain", "--reason", "a new kernel"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	n.isHeld(1)
	allow(t, n.ctx, "default", "person", 1)
	n.untilPhase("VolumeWait")
	if node, err := cluster.Node(n.ctx, n.name); err != nil || conditionIs(node, drainedCondition, corev1.ConditionTrue, "") == nil {
		t.Errorf("drained with a volume attached: %v %+v", err, harness.Condition(node, drainedCondition))
	}
	n.attach()
	n.isDrained("Requested")
	n.until("status.json says so", func() error {
		text, err := n.m.Read(statusPath)
		if err == nil && dig(decode(t, text), "drain", "phase") != "drained" {
			err = fmt.Errorf("%s", text)
		}
		return err
	})
	if out, err := n.run("drain", "--wait", "--reason", "a new kernel"); err != nil {
		t.Errorf("a second drain of a drained node: %v\n%s", err, out)
	}
	if out, err := n.run("undrain", "--wait"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	n.isReleased(false)
	n.checkEvents(t, "Requested", "NodeCordoned", "DrainStarted", "DrainBlocked", "NodeDrained", "NodeReleased")
	n.checkRefusals(t)
}
