// A spot notice, three times, beside Karpenter's own controllers: a person hands the deadline to Karpenter and no agent runs;
// the agent drains and nobody tells Karpenter; the agent drains and the controller tells Karpenter. What happened is printed
// side by side.

package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenterv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

// ending is one node's end, as it is compared.
type ending struct {
	*node
	claim    *karpenterv1.NodeClaim
	watch    *harness.PodWatch
	held     *corev1.Pod
	free     []*corev1.Pod
	began    time.Time // the notice, or the person's write
	deadline time.Time
	over     time.Time // the claim was gone; zero: it is there
	rows     map[string]string
}

// theLeft is the time from the notice to the moment by which Karpenter is told to be ready.
const theLeft = 12 * time.Second

func (e *ending) isInitialized() {
	e.t.Helper()
	must(e.t, harness.Poll(e.ctx, "karpenter initializes "+e.name, nil, func() error {
		node, err := cluster.Node(e.ctx, e.name)
		if err == nil && node.Labels[harness.LabelInitialized] != "true" {
			err = fmt.Errorf("labels %v, taints %v", node.Labels, node.Spec.Taints)
		}
		return err
	}))
}

// crowded puts pods on the node: some that may leave, a critical one, and one that a budget keeps.
func (e *ending) crowded(takes func(*corev1.Pod) time.Duration, options ...podOption) {
	e.t.Helper()
	e.watch = e.follow(takes)
	with := func(more ...podOption) []podOption { return append(slices.Clone(options), more...) }
	budget := e.claim.Name
	e.free = e.makePods(e.watch, "free-"+budget, 5, with(grace(5))...)
	e.makePods(e.watch, "late-"+budget, 1, with(grace(4), critical)...)
	makeBudget(e.t, e.ctx, "default", budget, budget, 0)
	e.held = e.makePods(e.watch, "held-"+budget, 1, with(grace(3), labelled("app", budget))...)[0]
}

// isOver waits until the NodeClaim is gone.
func (e *ending) isOver(k client.Client) {
	e.t.Helper()
	must(e.t, harness.Poll(e.ctx, "the NodeClaim of "+e.name+" is gone", nil, func() error {
		now := &karpenterv1.NodeClaim{}
		err := k.Get(e.ctx, client.ObjectKeyFromObject(e.claim), now)
		if apierrors.IsNotFound(err) {
			e.over = time.Now()
			return nil
		}
		return fmt.Errorf("%v, conditions %+v", err, now.Status.Conditions)
	}))
}

// arePodsGone waits until the watch has seen the end of all pods.
func (e *ending) arePodsGone() {
	e.t.Helper()
	must(e.t, harness.Poll(e.ctx, "the pods of "+e.name+" are gone", nil, func() error {
		if left := e.watch.Left(); len(left) > 0 {
			return fmt.Errorf("%d left: %s", len(left), left[0].Name)
		}
		return nil
	}))
}

// of gives what was asked about the node, its NodeClaim and its pods, in the order of arrival.
func (e *ending) of(match func(harness.AuditEntry) bool) []harness.AuditEntry {
	e.t.Helper()
	list, err := cluster.Audit.Entries(func(x harness.AuditEntry) bool {
		about := x.ObjectRef.Resource == "nodes" && x.ObjectRef.Name == e.name || x.ObjectRef.Resource == "nodeclaims" && x.ObjectRef.Name == e.claim.Name ||
			x.ObjectRef.Resource == "pods" && strings.HasSuffix(x.ObjectRef.Name[:max(strings.LastIndex(x.ObjectRef.Name, "-"), 0)], "-"+e.claim.Name)
		return about && !x.RequestReceivedTimestamp.Before(e.began) && match(x)
	})
	must(e.t, err)
	sortByArrival(list)
	return list
}

// who is a short name for the sender of a request.
func (e *ending) who(x harness.AuditEntry) string {
	switch {
	case strings.HasPrefix(x.UserAgent, harness.KarpenterAgent):
		return "karpenter"
	case strings.HasPrefix(x.UserAgent, controllerAgent):
		return "controller"
	case strings.Contains(x.UserAgent, daemonUserAgent):
		return "agent"
	}
	return "person"
}

func (e *ending) after(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return fmt.Sprintf("%6.2f s", at.Sub(e.began).Seconds())
}

// row notes the first accepted request that matches.
func (e *ending) row(name string, match func(harness.AuditEntry) bool) {
	list := accepted(e.of(match))
	e.rows[name] = "-"
	if len(list) > 0 {
		e.rows[name] = e.after(list[0].StageTimestamp) + " " + e.who(list[0])
	}
}

var timelineRows = []string{"the node reads the notice", "the node says so", "claim: termination timestamp", "claim: DELETE", "taint disrupted",
	"first pod asked to leave", "pods that may leave are gone", "pod behind a budget: DELETE", "pod behind a budget is gone", "node says Drained",
	"machine told to end", "claim is gone", "deadline"}

// measure fills the rows of the table.
func (e *ending) measure(k *harness.Karpenter) {
	e.t.Helper()
	e.rows = map[string]string{}
	is := func(what, name string) func(harness.AuditEntry) bool {
		return func(x harness.AuditEntry) bool { return x.What() == what && (name == "" || x.ObjectRef.Name == name) }
	}
	e.rows["the node reads the notice"] = e.after(e.heard())
	e.row("the node says so", func(x harness.AuditEntry) bool { return x.What() == "patch nodes/status" && e.who(x) == "agent" })
	e.row("claim: termination timestamp", func(x harness.AuditEntry) bool {
		return x.What() == "patch nodeclaims" && e.who(x) != "karpenter"
	})
	e.row("claim: DELETE", is("delete nodeclaims", ""))
	e.row("taint disrupted", func(x harness.AuditEntry) bool { return x.What() == "patch nodes" && e.who(x) == "karpenter" })
	e.row("first pod asked to leave", func(x harness.AuditEntry) bool {
		return x.ObjectRef.Resource == "pods" && (x.Verb == "delete" || x.ObjectRef.Subresource == "eviction")
	})
	e.row("pod behind a budget: DELETE", is("delete pods", e.held.Name))
	e.row("node says Drained", func(x harness.AuditEntry) bool {
		return x.What() == "patch nodes/status" && e.who(x) == "agent" && body(x, "metadata", "annotations", drainAnnotation) != nil &&
			strings.Contains(fmt.Sprint(body(x, "metadata", "annotations", drainAnnotation)), `"Drained"`)
	})
	var last time.Time
	for _, p := range e.free {
		last = later(last, e.watch.Life(p.UID).Gone)
	}
	e.rows["pods that may leave are gone"] = e.after(last)
	e.rows["pod behind a budget is gone"] = e.after(e.watch.Life(e.held.UID).Gone)
	e.rows["machine told to end"] = e.after(k.Ended(e.instance))
	e.rows["claim is gone"] = e.after(e.over)
	e.rows["deadline"] = e.after(e.deadline)
}

// heard is when IMDS first told the daemon of this notice; zero where nobody asked.
func (e *ending) heard() time.Time {
	for _, r := range e.imds.Requests() {
		if r.Path == harness.SpotNotice && r.Status == 200 && r.At.After(e.began) {
			return r.At
		}
	}
	return time.Time{}
}

// conflicts counts Karpenter's writes of the node and the claim that came too late.
func (e *ending) conflicts() int {
	return len(e.of(func(x harness.AuditEntry) bool { return e.who(x) == "karpenter" && x.ResponseStatus.Code == 409 }))
}

func printTimelines(t *testing.T, heads []string, all []*ending) {
	var text strings.Builder
	fmt.Fprintf(&text, "\n%-30s", "seconds from the notice")
	for _, head := range heads {
		fmt.Fprintf(&text, " | %-24s", head)
	}
	for _, name := range timelineRows {
		fmt.Fprintf(&text, "\n%-30s", name)
		for _, e := range all {
			fmt.Fprintf(&text, " | %-24s", e.rows[name])
		}
	}
	fmt.Fprintf(&text, "\n%-30s", "Karpenter's conflicts (409)")
	for _, e := range all {
		fmt.Fprintf(&text, " | %-24d", e.conflicts())
	}
	t.Log(text.String())
}

// newEnding is a plain node that is Karpenter's; its daemon, if any, asks an IMDS of its own.
func newEnding(t *testing.T, number int) *ending {
	t.Helper()
	n := newPlainNode(t, number, func(node *corev1.Node) {
		node.Spec.Taints = []corev1.Taint{{Key: harness.TaintUnregistered, Effect: corev1.TaintEffectNoExecute}}
	})
	n.imds.Stop()
	n.serve("127.0.0.1:0", n.instance.UserData)
	n.ctx = within(t, 240*time.Second)
	return &ending{node: n}
}

func TestRelayBesideKarpenter(t *testing.T) {
	running, stop := context.WithCancel(context.Background())
	defer stop()
	harness.KarpenterErrors()
	by, agentOnly := newEnding(t, 300), newEnding(t, 301)
	with := &ending{node: newNode(t, 302)}
	with.ctx = within(t, 240*time.Second)
	with.instance.LifeCycle = "spot"
	must(t, cluster.AllowClaimLookup(with.ctx, "watch"))
	defer func() { must(t, cluster.DenyClaimLookup(context.Background())) }()
	c := deploy(t, with.ctx)
	k, err := cluster.StartKarpenter(running, by.instance, agentOnly.instance, with.instance)
	must(t, err)
	for i, e := range []*ending{by, agentOnly, with} {
		e.claim, err = harness.NewLaunchedClaim(e.ctx, k, fmt.Sprintf("relay%d", i))
		must(t, err)
		t.Cleanup(func() { cluster.DropClaim(context.Background(), e.claim.Name, e.name) })
	}
	labels := []string{"karpenter.sh/nodepool=default", "karpenter.sh/capacity-type=spot", "karpenter.sh/do-not-sync-taints=true"}
	with.boot(harness.UserData{MaxPods: 29, Labels: labels}.For(cluster))
	booting := with.node.agent

	by.isInitialized()
	agentOnly.isInitialized()
	by.crowded(takeSeconds(0.5))
	agentOnly.crowded(takeSeconds(0.5))
	agentOnly.keep("--imds", agentOnly.imds.URL)
	byAPerson(t, by)
	agentOnly.noticed(theLeft)
	var all sync.WaitGroup
	all.Go(func() { by.isOver(k) })
	all.Go(func() { agentOnly.isDrainedByItself() })
	with.untilRegistered(booting)
	all.Wait()
	if t.Failed() {
		return
	}
	alone := harness.KarpenterErrors()
	now, err := cluster.Claim(agentOnly.ctx, agentOnly.claim.Name)
	must(t, err)
	if now.GetDeletionTimestamp() != nil {
		t.Error("nobody told Karpenter, but the claim is being deleted")
	}
	agentOnly.imds.Silence(harness.SpotNotice) // the controller is not to hear of it
	agentOnly.isReleased(false)

	started := time.Now()
	c.start("--mode", "karpenter")
	c.leads(started)
	with.crowded(nil, running500ms...)
	with.keep()
	with.noticed(theLeft)
	with.arePodsGone()
	with.isOver(k)
	for _, e := range []*ending{by, agentOnly, with} {
		e.measure(k)
	}
	printTimelines(t, []string{"a person, no agent", "the agent alone", "agent and controller"}, []*ending{by, agentOnly, with})
	with.checkRelay(t, c)
	for _, complaint := range harness.KarpenterErrors() {
		if !slices.Contains(alone, complaint) {
			t.Errorf("karpenter: %s", complaint)
		}
	}
	t.Logf("Karpenter's errors without the controller: %q", alone)
	with.checkRefusals(t)
	c.checkManners()
}

var running500ms = []podOption{running("--takes=500ms")}

// byAPerson hands the deadline to Karpenter by hand.
func byAPerson(t *testing.T, e *ending) {
	t.Helper()
	e.began = time.Now()
	e.deadline = e.began.Add(theLeft + relayMargin).Truncate(time.Second)
	must(t, cluster.PatchClaim(e.ctx, e.claim.Name, "", map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		stampAnnotation: e.deadline.Add(-relayMargin).UTC().Format(time.RFC3339)}}}))
	cluster.DeleteClaim(e.ctx, e.claim.Name)
}

// noticed lets EC2 take the machine back; left is the time until all must be over.
func (e *ending) noticed(left time.Duration) {
	e.t.Helper()
	e.began = time.Now()
	e.deadline = e.began.Add(left + relayMargin).Truncate(time.Second)
	e.imds.SayTerminate(e.deadline)
}

func (e *ending) isDrainedByItself() {
	e.t.Helper()
	e.arePodsGone()
	e.isDrained("SpotInterruption")
}

// untilRegistered waits for the end of the bootstrap: Karpenter's own controllers have registered and initialized the node.
func (e *ending) untilRegistered(booting *harness.Proc) {
	e.t.Helper()
	_, err := cluster.ReadyNode(e.ctx, e.name, booting)
	must(e.t, err)
	must(e.t, cluster.RemoveTaints(e.ctx, e.name, harness.TaintUninitialized, harness.TaintNotReady))
	if code := e.finish(); code != 0 {
		e.t.Fatalf("the bootstrap ended with %d", code)
	}
	e.isInitialized()
	node, err := cluster.Node(e.ctx, e.name)
	must(e.t, err)
	if node.Labels[harness.LabelRegistered] != "true" || len(node.OwnerReferences) != 1 || node.OwnerReferences[0].UID != e.claim.UID {
		e.t.Errorf("labels %v, owners %v", node.Labels, node.OwnerReferences)
	}
}

// checkRelay: the word, the timestamp, the DELETE, in this order, at once and once each; and everybody left in time.
func (e *ending) checkRelay(t *testing.T, c *central) {
	said := first(t, "the node's word", e.of(func(x harness.AuditEntry) bool {
		return x.What() == "patch nodes/status" && e.who(x) == "agent" && body(x, "metadata", "annotations", drainAnnotation) != nil
	}))
	stamps, deletes := c.writes("nodeclaims", e.claim.Name), []harness.AuditEntry(nil)
	stamps = slices.DeleteFunc(stamps, func(x harness.AuditEntry) bool {
		if x.Verb == "delete" {
			deletes = append(deletes, x)
		}
		return x.Verb == "delete"
	})
	stamped, deleted := first(t, "the timestamp", stamps), first(t, "the DELETE", deletes)
	if len(stamps) != 1 || len(deletes) != 1 {
		t.Errorf("not once each: %v %v", stamps, deletes)
	}
	// the share of a notice of 27 s: docs/drain-rules.md N2
	if want := e.deadline.Add(-4 * time.Second).UTC().Format(time.RFC3339); body(stamped, "metadata", "annotations", stampAnnotation) != want {
		t.Errorf("stamped %s, want %s", stamped.RequestObject, want)
	}
	if body(deleted, "preconditions", "uid") != string(e.claim.UID) || deleted.RequestReceivedTimestamp.Before(stamped.StageTimestamp) {
		t.Errorf("%s %s; stamped %s", deleted, deleted.RequestObject, stamped)
	}
	t.Logf("notice to DELETE %.0f ms: read after %.0f ms, word accepted after %.0f ms more, stamp after %.1f ms more, DELETE after %.1f ms more",
		deleted.StageTimestamp.Sub(e.began).Seconds()*1000, e.heard().Sub(e.began).Seconds()*1000, said.StageTimestamp.Sub(e.heard()).Seconds()*1000,
		stamped.StageTimestamp.Sub(said.StageTimestamp).Seconds()*1000, deleted.StageTimestamp.Sub(stamped.StageTimestamp).Seconds()*1000)
	// What the API server itself takes for the three writes is not ours: on a busy machine it takes long.
	late := deleted.StageTimestamp.Sub(e.heard())
	for _, x := range []harness.AuditEntry{said, stamped, deleted} {
		late -= x.StageTimestamp.Sub(x.RequestReceivedTimestamp)
	}
	if late > time.Second {
		t.Errorf("deleted %s after the node has read the notice, the API server's own time left out", late)
	}
	if others := append(c.writes("nodes", ""), c.requests(func(x harness.AuditEntry) bool {
		return x.ObjectRef.Resource == "nodeclaims" && x.ObjectRef.Name != e.claim.Name && x.ObjectRef.Name != ""
	})...); len(others) > 0 {
		t.Errorf("beside Karpenter it writes nothing else: %v", others)
	}
	for _, p := range append(e.free, e.held) {
		life := e.watch.Life(p.UID)
		if life.Gone.IsZero() || life.Gone.After(e.deadline) || life.ExitCode != 0 {
			t.Errorf("%s: gone at %s with %d, the deadline was %s", p.Name, life.Gone.Format("15:04:05.000"), life.ExitCode, e.deadline.Format("15:04:05"))
		}
	}
	if e.over.After(e.deadline) {
		t.Errorf("the claim was there until %s after the deadline", e.over.Sub(e.deadline))
	}
	left, err := cluster.Client.CoreV1().Nodes().List(e.ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + e.name})
	must(t, err)
	if len(left.Items) != 0 {
		t.Errorf("the Node is still there: %v", left.Items[0].Finalizers)
	}
}
