// `signal: self`, without any controller, beside Karpenter's own: where the policies of deploy/optional are installed the node
// hands its deadline to its own NodeClaim and deletes it; where they are not it finds that out by dry runs, says so, and keeps its
// hands off.

package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const (
	claimsRoleManifest = "../../deploy/optional/node-claims-role.yaml"
	selfTimestampSlack = time.Second
)

// claimWrites are the node's writes of NodeClaims that were meant.
func (n *node) claimWrites() []harness.AuditEntry {
	n.t.Helper()
	list, err := n.asked(func(e harness.AuditEntry) bool {
		return e.ObjectRef.Resource == "nodeclaims" && (e.Verb == "patch" || e.Verb == "delete") && !strings.Contains(e.RequestURI, "dryRun=All")
	})
	must(n.t, err)
	return list
}

// untilSelf waits until the daemon says this of `signal: self`; gives its reason.
func (n *node) untilSelf(state string) string {
	n.t.Helper()
	var why string
	n.until("signal: self is "+state, func() error {
		text, err := n.m.Read(statusPath)
		if err != nil {
			return err
		}
		said := dig(decode(n.t, text), "daemon", "signal_self")
		if why, _ = dig(said, "why").(string); dig(said, "state") != state {
			return fmt.Errorf("%v", said)
		}
		return nil
	})
	return why
}

func TestSignalSelf(t *testing.T) {
	running, stop := context.WithCancel(context.Background())
	defer stop()
	harness.KarpenterErrors()
	must(t, cluster.DenyClaimLookup(running))
	e := newEnding(t, 400)
	k, err := cluster.StartKarpenter(running, e.instance)
	must(t, err)
	e.claim, err = harness.NewLaunchedClaim(e.ctx, k, "self0")
	must(t, err)
	t.Cleanup(func() { cluster.DropClaim(context.Background(), e.claim.Name, e.name) })
	e.isInitialized()
	e.crowded(takeSeconds(0.5))
	e.settings("signal: self")
	apply(t, e.ctx, claimsRoleManifest)

	e.isRefusedWithoutPolicies()
	apply(t, e.ctx, guardManifests)
	wire, err := cluster.NodeWire(e.name)
	must(t, err)
	t.Cleanup(wire.Close)
	for _, probe := range []guardCase{patchNode("", e.name, `{"metadata": {"finalizers": null}}`, ownNodePolicy),
		{"", e.name, "PATCH", claimsPath + "/" + e.claim.Name, harness.MergePatch, `{"metadata": {"labels": {"example.com/a": "b"}}}`, ownClaimPolicy}} {
		must(t, harness.Poll(e.ctx, probe.denied+" is enforced", nil, func() error { return probe.try(e.ctx, wire) }))
	}
	e.free = e.makePods(e.watch, "more-"+e.claim.Name, 3, grace(5))
	e.keep("--imds", e.imds.URL)
	e.untilSelf("trusted")
	harness.KarpenterErrors()
	e.noticed(theLeft)
	e.isOver(k)
	e.arePodsGone()
	e.measure(k)
	printTimelines(t, []string{"signal: self"}, []*ending{e})
	e.checkSelf(t)
	for _, complaint := range harness.KarpenterErrors() {
		t.Errorf("karpenter: %s", complaint)
	}
	e.checkRefusals(t)
}

// isRefusedWithoutPolicies: the daemon says so, drains as ever, and leaves its NodeClaim alone.
func (e *ending) isRefusedWithoutPolicies() {
	e.t.Helper()
	e.keep("--imds", e.imds.URL)
	e.t.Logf("it says: %s", e.untilSelf("refused"))
	e.checkEvents(e.t, "SignalSelfRefused")
	e.noticed(100 * time.Second)
	e.untilNode("the drain is held up by the budget", func(node *corev1.Node) error {
		s, err := e.drainStatus(node)
		if err == nil && (s.Phase != "Evicting" || len(s.Blocked) == 0 || s.Remaining != 1) { // under a deadline the critical pod does not wait for it
			err = fmt.Errorf("%+v", *s)
		}
		return err
	})
	if writes := e.claimWrites(); len(writes) > 0 {
		e.t.Errorf("%v", writes)
	}
	now, err := cluster.Claim(e.ctx, e.claim.Name)
	must(e.t, err)
	if now.GetDeletionTimestamp() != nil || now.GetAnnotations()[stampAnnotation] != "" {
		e.t.Errorf("%v", now.Object["metadata"])
	}
	e.imds.Silence(harness.SpotNotice)
	e.isReleased(false)
	e.agent.Stop()
}

// checkSelf: the time, then the deletion, once each, of its own claim, and in time.
func (e *ending) checkSelf(t *testing.T) {
	writes := e.claimWrites()
	if len(writes) != 2 || writes[0].Verb != "patch" || writes[1].Verb != "delete" || len(accepted(writes)) != 2 {
		t.Fatalf("not the time, then the deletion, once each: %v", writes)
	}
	for _, w := range writes {
		if w.ObjectRef.Name != e.claim.Name {
			t.Errorf("not its own: %s", w)
		}
	}
	text, _ := body(writes[0], "metadata", "annotations", stampAnnotation).(string)
	at, err := time.Parse(time.RFC3339, text)
	if apart := e.deadline.Add(-relayMargin).Sub(at); err != nil || apart < 0 || apart > selfTimestampSlack {
		t.Errorf("%s for the deadline %s: %v", text, e.deadline, err)
	}
	if body(writes[1], "preconditions", "uid") != string(e.claim.UID) {
		t.Errorf("%s", writes[1].RequestObject)
	}
	if late := writes[1].StageTimestamp.Sub(e.heard()); late > time.Second {
		t.Errorf("deleted %s after the node has read the notice", late)
	}
	for _, p := range append([]*corev1.Pod{e.held}, e.free...) {
		if life := e.watch.Life(p.UID); life.Gone.IsZero() || life.Gone.After(e.deadline) {
			t.Errorf("%s: gone at %s, the deadline was %s", p.Name, life.Gone.Format("15:04:05.000"), e.deadline.Format("15:04:05"))
		}
	}
	if e.over.After(e.deadline) {
		t.Errorf("the claim was there until %s after the deadline", e.over.Sub(e.deadline))
	}
}
