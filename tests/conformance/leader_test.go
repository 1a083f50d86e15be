// Leadership: the controller and a process of client-go share one Lease, and each takes over from the other, where it is given up
// and where its holder dies. Who does not lead writes nothing.

package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const (
	leaseName     = "nodeclaim-controller"
	leaseDuration = 6 * time.Second
	renewDeadline = 4 * time.Second
	retryPeriod   = time.Second
	leaseSlack    = 3 * time.Second // of a loaded machine
)

// elector is a process of client-go that wants the Lease.
type elector struct {
	leads  atomic.Bool
	cancel context.CancelFunc
	ended  chan bool
}

// elect starts one; with release it gives the Lease up when it is ended.
func elect(c *central, identity string, release bool) *elector {
	c.t.Helper()
	client, err := kubernetes.NewForConfig(c.account.Config("client-go"))
	must(c.t, err)
	ctx, cancel := context.WithCancel(c.ctx)
	e := &elector{cancel: cancel, ended: make(chan bool)}
	it, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Name: leaseName, Namespace: c.account.Namespace}, Client: client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity}},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: release,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { e.leads.Store(true) }, OnStoppedLeading: func() { e.leads.Store(false) }},
	})
	must(c.t, err)
	go func() {
		it.Run(ctx)
		close(e.ended)
	}()
	c.t.Cleanup(e.end)
	return e
}

func (e *elector) end() {
	e.cancel()
	<-e.ended
}

// isLed waits until client-go leads.
func (e *elector) isLed(c *central) {
	c.t.Helper()
	must(c.t, harness.Poll(c.ctx, "client-go leads", nil, func() error {
		if !e.leads.Load() {
			return fmt.Errorf("%+v", c.lease().Spec)
		}
		return nil
	}))
}

func (c *central) lease() *coordinationv1.Lease {
	c.t.Helper()
	lease, err := cluster.Client.CoordinationV1().Leases(c.account.Namespace).Get(c.ctx, leaseName, metav1.GetOptions{})
	if isNotFound(err) {
		return &coordinationv1.Lease{}
	}
	must(c.t, err)
	return lease
}

// renewals are the accepted writes of the Lease by one of the two.
func (c *central) renewals(agent string) []harness.AuditEntry {
	c.t.Helper()
	list, err := c.account.Requests(agent, func(e harness.AuditEntry) bool {
		return e.RequestReceivedTimestamp.After(c.since) && e.ObjectRef.Resource == "leases" && (e.Verb == "create" || e.Verb == "update")
	})
	must(c.t, err)
	return accepted(list)
}

// isRelayed waits until the claim of a simulated node was deleted, and gives the DELETE.
func (c *central) isRelayed(name string) harness.AuditEntry {
	c.t.Helper()
	var found harness.AuditEntry
	c.until("the notice of "+name+" is relayed", func() error {
		for _, e := range accepted(c.writes("nodeclaims", name)) {
			if found = e; e.Verb == "delete" {
				return nil
			}
		}
		return errors.New("no DELETE")
	})
	return found
}

// standsBy waits until it has looked at the Lease so often since then, and it has written nothing.
func (c *central) standsBy(since time.Time, times int) {
	c.t.Helper()
	c.until("the controller looks at the Lease", func() error {
		looks := c.requests(func(e harness.AuditEntry) bool {
			return e.ObjectRef.Resource == "leases" && e.ObjectRef.Name == leaseName && e.Verb == "get" && e.RequestReceivedTimestamp.After(since)
		})
		if len(looks) < times {
			return fmt.Errorf("%d times", len(looks))
		}
		return nil
	})
	for _, e := range append(c.writes("nodeclaims", ""), c.writes("nodes", "")...) {
		if e.RequestReceivedTimestamp.After(since) {
			c.t.Errorf("it does not lead: %s", e)
		}
	}
}

// tookOver is the first renewal of one after another's last; it fails where it came too soon or too late.
func (c *central) tookOver(how, from, to string, least, most time.Duration) {
	c.t.Helper()
	was := c.renewals(from)
	last := was[len(was)-1]
	for _, e := range c.renewals(to) {
		if took := e.StageTimestamp.Sub(last.StageTimestamp); took > 0 {
			c.t.Logf("%s: %s leads %.2f s after the last word of %s", how, to, took.Seconds(), from)
			if took < least || took > most+leaseSlack {
				c.t.Errorf("%s: %s after %s, it was to be %s to %s", how, to, took, least, most)
			}
			return
		}
	}
	c.t.Errorf("%s: %s never took over", how, to)
}

func TestLeaderElection(t *testing.T) {
	ctx := within(t, 150*time.Second)
	c := deploy(t, ctx)
	args := []string{"--mode", "karpenter", "--lease-duration", leaseDuration.String(), "--renew-deadline", renewDeadline.String(), "--retry-period", retryPeriod.String()}
	const goes = "client-go"
	var nodes []string
	for i := range 4 {
		nodes = append(nodes, makeSimulated(t, ctx, 600+i))
	}
	soon := func() time.Time { return time.Now().Add(110 * time.Second) }

	theirs := elect(c, "them-1", true)
	theirs.isLed(c)
	since := time.Now()
	c.start(args...)
	c.until("the controller looks at the Lease", func() error {
		if len(c.requests(func(e harness.AuditEntry) bool {
			return e.ObjectRef.Resource == "leases" && e.ObjectRef.Name == leaseName && e.StageTimestamp.After(since)
		})) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	say(t, ctx, nodes[0], soon())
	c.standsBy(time.Now(), 3)
	theirs.end()
	c.isRelayed(nodes[0])
	c.tookOver("given up", goes, controllerAgent, 0, 2*retryPeriod)

	theirs = elect(c, "them-2", false)
	say(t, ctx, nodes[1], soon())
	c.isRelayed(nodes[1])
	if theirs.leads.Load() {
		t.Error("client-go leads, too")
	}
	c.proc.Stop()
	theirs.isLed(c)
	c.tookOver("given up", controllerAgent, goes, 0, 2*retryPeriod)
	if text := c.lease().Spec; text.HolderIdentity == nil || *text.HolderIdentity != "them-2" || text.LeaseTransitions == nil || *text.LeaseTransitions < 2 {
		t.Errorf("%+v", text)
	}

	c.start(args...)
	say(t, ctx, nodes[2], soon())
	c.standsBy(time.Now(), 2)
	theirs.end() // dies: nothing is given up
	relayed := c.isRelayed(nodes[2])
	c.tookOver("died", goes, controllerAgent, leaseDuration-retryPeriod, leaseDuration+2*retryPeriod)
	if last := c.renewals(goes); relayed.RequestReceivedTimestamp.Sub(last[len(last)-1].StageTimestamp) < leaseDuration-retryPeriod {
		t.Errorf("relayed while somebody else led: %s", relayed)
	}

	theirs = elect(c, "them-3", true)
	say(t, ctx, nodes[3], soon())
	c.isRelayed(nodes[3])
	c.proc.Kill()
	theirs.isLed(c)
	c.tookOver("killed", controllerAgent, goes, leaseDuration-retryPeriod, leaseDuration+2*retryPeriod)
	for _, name := range nodes {
		if writes := c.writes("nodeclaims", name); len(writes) != 2 || strings.Contains(fmt.Sprint(writes[0]), "delete") {
			t.Errorf("%s: not once, or not in order: %v", name, writes)
		}
	}
	c.checkManners()
}
