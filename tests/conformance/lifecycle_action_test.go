// Lifecycle actions of Auto Scaling groups, beside Karpenter: the real daemon drains the node of a group that ends it, and
// nodeclaim-controller lets the group wait and go on, by what the daemon says on the Node. EC2 is moto.

package conformance

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const (
	describeGroup  = "DescribeAutoScalingInstances"
	heartbeatGroup = "RecordLifecycleActionHeartbeat"
	completeGroup  = "CompleteLifecycleAction"
)

// grouped is a controller beside Karpenter, and the cloud of its groups.
type grouped struct {
	*central
	moto   *harness.Moto
	groups *harness.AutoScaling
	keys   harness.Credentials
}

func newGrouped(t *testing.T, ctx context.Context) *grouped {
	t.Helper()
	m, err := harness.StartMoto(ctx, workDir, moto)
	must(t, err)
	t.Cleanup(m.Stop)
	must(t, m.CheckSignatures(ctx))
	g := &grouped{central: deploy(t, ctx), moto: m}
	g.keys, err = m.Role(ctx, "controller", "ec2:DescribeInstances")
	must(t, err)
	g.groups = harness.NewAutoScaling(g.keys, "nodeclaimd")
	t.Cleanup(g.groups.Stop)
	return g
}

func (g *grouped) begin(args ...string) {
	g.t.Helper()
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": g.keys.AccessKeyID, "AWS_SECRET_ACCESS_KEY": g.keys.SecretAccessKey,
		"AWS_SESSION_TOKEN": g.keys.SessionToken} {
		must(g.t, os.Setenv(name, value))
		defer os.Unsetenv(name)
	}
	since := time.Now()
	g.start(append([]string{"--mode", "karpenter", "--region", "us-west-2", "--ec2-endpoint", g.moto.URL, "--autoscaling-endpoint", g.groups.URL,
		"--imds", noMetadata}, args...)...)
	g.leads(since)
}

// ends is a node of a group that ends its instance, with the real daemon and pods; EC2 knows it by its name.
func (g *grouped) ends(number int, settings ...string) *node {
	g.t.Helper()
	id, err := g.moto.Run(g.ctx)
	must(g.t, err)
	i := harness.NewInstance(number)
	i.ID = id
	i.Hostname, err = g.moto.Name(g.ctx, id)
	must(g.t, err)
	n := plainNodeOf(g.t, i, func(node *corev1.Node) { delete(node.Labels, "karpenter.sh/nodepool") })
	n.imds.Stop()
	n.serve("127.0.0.1:0", n.instance.UserData)
	w := n.follow(takeSeconds(4))
	n.makePods(w, fmt.Sprintf("group-%d", number), 2, grace(30))
	n.imds.Say(harness.TargetState, "InService") // it is asked for more often than where there is none
	if len(settings) > 0 {
		n.settings(settings...)
	}
	n.keep("--imds", n.imds.URL)
	g.groups.Set(id, "workers", harness.TerminatingWait)
	return n
}

// drainedAt is when a write of the daemon that said so was accepted.
func drainedAt(t *testing.T, n *node) time.Time {
	t.Helper()
	return first(t, "Drained", slices.DeleteFunc(n.requests("patch nodes/status", "", ""), func(e harness.AuditEntry) bool {
		return !strings.Contains(fmt.Sprint(body(e, "metadata", "annotations", drainAnnotation)), `"phase":"Drained"`)
	})).RequestReceivedTimestamp
}

func (g *grouped) events(name string) []string {
	g.t.Helper()
	list, err := cluster.Client.CoreV1().Events("").List(g.ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + name})
	must(g.t, err)
	var reasons []string
	for _, e := range list.Items {
		if e.Source.Component == controllerAgent || e.ReportingController == controllerAgent {
			reasons = append(reasons, e.Type+" "+e.Reason)
		}
	}
	slices.Sort(reasons)
	return reasons
}

func TestLifecycleActions(t *testing.T) {
	ctx := within(t, 120*time.Second)
	g := newGrouped(t, ctx)
	n := g.ends(570)

	// Whose group waits is another one's to say.
	thief := "ip-10-0-0-5-571.us-west-2.compute.internal"
	wire, err := cluster.NodeWire(thief)
	must(t, err)
	defer wire.Close()
	a, err := wire.Do(ctx, "POST", "/api/v1/nodes", "", &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: thief, Annotations: map[string]string{drainAnnotation: `{"id":"autoscaling-terminated","source":"autoscaling","phase":"Drained","remaining":0}`}},
		Spec:       corev1.NodeSpec{ProviderID: n.instance.ProviderID()}})
	must(t, err)
	must(t, codeIs(a, 201))
	t.Cleanup(func() { cluster.Forget(context.Background(), thief) })

	// Switched off: what the thief says has been seen once the relay of a later notice is done, and nothing was asked.
	g.begin()
	other := makeSimulated(t, ctx, 572)
	say(t, ctx, other, time.Now().Add(120*time.Second))
	g.until("the relay", func() error {
		if len(accepted(g.writes("nodeclaims", other))) < 2 {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	if calls := g.groups.Calls("", ""); len(calls) != 0 || len(g.events(thief)) != 0 {
		t.Errorf("switched off: %+v, %v", calls, g.events(thief))
	}
	g.proc.Stop()
	relays := len(g.writes("nodeclaims", ""))

	g.begin("--complete-lifecycle-actions")
	g.until("the thief is known", func() error {
		if have := g.events(thief); !slices.Equal(have, []string{"Warning InstanceMismatch"}) {
			return fmt.Errorf("%v", have)
		}
		return nil
	})
	if calls := g.groups.Calls("", ""); len(calls) != 0 {
		t.Errorf("for the thief: %+v", calls)
	}
	n.imds.Say(harness.TargetState, "Terminated")
	g.until("a heartbeat", func() error {
		if len(g.groups.Calls(heartbeatGroup, n.instance.ID)) == 0 {
			return fmt.Errorf("%+v", g.groups.Calls("", ""))
		}
		return nil
	})
	if state := g.groups.State(n.instance.ID); state != harness.TerminatingWait {
		t.Errorf("pods leave, and the group is in %s", state)
	}
	n.isDrained("AutoScalingTermination")
	g.until("the action is completed", func() error {
		if have := g.events(n.name); !slices.Equal(have, []string{"Normal LifecycleActionCompleted"}) {
			return fmt.Errorf("%v %+v", have, g.groups.Calls("", ""))
		}
		return nil
	})

	var actions []string
	for _, call := range g.groups.Calls("", "") {
		actions = append(actions, fmt.Sprintf("%s %s %d", call.Action, call.Instance, call.Status))
	}
	id := n.instance.ID
	if want := []string{describeGroup + " " + id + " 200", heartbeatGroup + " " + id + " 200", completeGroup + " " + id + " 200"}; !slices.Equal(actions, want) {
		t.Errorf("%q, want %q", actions, want)
	}
	end := g.groups.Calls(completeGroup, id)[0]
	if at := drainedAt(t, n); end.At.Before(at) {
		t.Errorf("completed %s before the node said Drained", at.Sub(end.At))
	} else {
		t.Logf("completed %s after the daemon's Drained", end.At.Sub(at))
	}
	if state := g.groups.State(id); state != "Terminating:Proceed" {
		t.Errorf("the group is in %s", state)
	}
	// Of the API server it has asked for nothing but what it watches, its Lease and Events.
	if after := len(g.writes("nodeclaims", "")); after != relays || len(g.writes("nodes", "")) != 0 {
		t.Errorf("%d writes of NodeClaims, %v of Nodes", after-relays, g.writes("nodes", ""))
	}
	g.checkManners()
}

// With a deadline the group goes on by then, though a budget never lets a pod leave.
func TestLifecycleActionByADeadline(t *testing.T) {
	ctx := within(t, 120*time.Second)
	g := newGrouped(t, ctx)
	makeBudget(t, ctx, "default", "grouped", "grouped", 0)
	n := g.ends(573, "interruption:", "  autoscalingDeadline: 25s", "drain:", "  margin: 2s")
	held := makePod(t, ctx, "default", "grouped-held", n.name, grace(3), labelled("app", "grouped"))
	g.begin("--complete-lifecycle-actions")
	n.imds.Say(harness.TargetState, "Terminated")
	status, err := n.drainStatus(n.isDrained("AutoScalingTermination"))
	must(t, err)
	g.until("the action is completed", func() error {
		if have := g.events(n.name); !slices.Equal(have, []string{"Normal LifecycleActionCompleted"}) {
			return fmt.Errorf("%v %+v", have, g.groups.Calls("", ""))
		}
		return nil
	})
	ends, deleted := g.groups.Calls(completeGroup, n.instance.ID), accepted(n.requests("delete pods", held.Namespace, held.Name))
	if len(ends) != 1 || len(deleted) != 1 {
		t.Fatalf("completed %+v, deleted %v", ends, deleted)
	}
	if at := drainedAt(t, n); status.Deadline == nil || ends[0].At.Before(at) || ends[0].At.After(*status.Deadline) {
		t.Errorf("Drained at %s, completed at %s, the deadline is %v", at, ends[0].At, status.Deadline)
	}
	if state := g.groups.State(n.instance.ID); state != "Terminating:Proceed" {
		t.Errorf("the group is in %s", state)
	}
	n.checkRefusals(t)
	g.checkManners()
}
