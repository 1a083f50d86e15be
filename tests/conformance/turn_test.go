// Zones that take turns, without Karpenter: the nodes of three zones drift at the same moment, and their NodePool would let
// all of them go. What the controller does is read out of the audit log.

package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	turnPool  = "turns"
	zoneLabel = "topology.kubernetes.io/zone"
)

// poolHash is that of the NodePool, and of a NodeClaim that was made from it.
func poolHash(hash string) map[string]any {
	return map[string]any{"karpenter.sh/nodepool-hash": hash, "karpenter.sh/nodepool-hash-version": "v3"}
}

// inZone makes a NodeClaim one that does not expire, of a NodePool that has not drifted yet.
func inZone(zone string) func(*unstructured.Unstructured) {
	return func(claim *unstructured.Unstructured) {
		labels := claim.GetLabels()
		labels["karpenter.sh/nodepool"], labels[zoneLabel] = turnPool, "us-west-2"+zone
		claim.SetLabels(labels)
		_ = unstructured.SetNestedMap(claim.Object, poolHash("1"), "metadata", "annotations")
		_ = unstructured.SetNestedField(claim.Object, "720h", "spec", "expireAfter")
		unstructured.RemoveNestedField(claim.Object, "spec", "startupTaints")
	}
}

// zones are the nodes of a test, by zone.
type zones map[string][]*aloneNode

// drift makes nodes with a daemon and a pod in each zone, lets all of them drift, and waits until meanwhile says so and
// nothing of them is left.
func drift(t *testing.T, c *central, each int, number int, meanwhile func(zones)) zones {
	t.Helper()
	must(t, cluster.NewPool(c.ctx, turnPool, "100%"))
	t.Cleanup(func() { cluster.DeletePool(context.Background(), turnPool) })
	must(t, cluster.PatchPool(c.ctx, turnPool, map[string]any{"metadata": map[string]any{"annotations": poolHash("1")}}))
	all := zones{}
	for _, zone := range []string{"c", "a", "b"} {
		for range each {
			number++
			a := newAloneNode(t, c.ctx, number, inZone(zone))
			a.watch = a.follow(takeSeconds(1.5))
			a.makePods(a.watch, a.claim.GetName()+"-pod", 1, grace(5), tolerating("example.com/team"))
			a.keep("--imds", a.imds.URL)
			all[zone] = append(all[zone], a)
		}
	}
	all.each(func(a *aloneNode) { a.is(c, "Initialized", "True", "") })
	must(t, cluster.PatchPool(c.ctx, turnPool, map[string]any{"metadata": map[string]any{"annotations": poolHash("2")}}))
	meanwhile(all)
	c.until("all claims are gone", func() error {
		var left []string
		all.each(func(a *aloneNode) {
			if _, err := cluster.Claim(c.ctx, a.claim.GetName()); !isNotFound(err) {
				s, r := a.condition("Drained")
				left = append(left, fmt.Sprintf("%s (Drained %s %s)", a.claim.GetName(), s, r))
			}
		})
		if len(left) > 0 {
			return errors.New(strings.Join(left, ", "))
		}
		return nil
	})
	return all
}

func (z zones) each(do func(*aloneNode)) {
	for _, zone := range []string{"a", "b", "c"} {
		for _, a := range z[zone] {
			do(a)
		}
	}
}

// span is the time from the first DELETE in a zone to the last, and until the last claim is gone; requested is the first
// drain request.
type span struct{ first, last, requested, gone time.Time }

func (z zones) span(t *testing.T, c *central, zone string) span {
	t.Helper()
	var s span
	for _, a := range z[zone] {
		one := a.steps(c)
		if slices.ContainsFunc([]time.Time{one.deleted, one.requested, one.drained, one.claimGone}, time.Time.IsZero) {
			t.Errorf("%s: not all of its end is there: %+v", a.claim.GetName(), one)
		}
		if s.first.IsZero() || one.deleted.Before(s.first) {
			s.first = one.deleted
		}
		if s.requested.IsZero() || one.requested.Before(s.requested) {
			s.requested = one.requested
		}
		s.last, s.gone = latest(s.last, one.deleted), latest(s.gone, one.claimGone)
	}
	return s
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func TestZoneTurn(t *testing.T) {
	ctx := within(t, 240*time.Second)
	c := deploy(t, ctx, standaloneManifest)
	args := []string{"--mode", "standalone", "--node-identity", "admission", "--zone-turn", "10m"}
	c.start(args...)
	all := drift(t, c, 2, 520, func(all zones) {
		c.until("the first zone goes", func() error {
			for _, a := range all["a"] { // a request that is cut off by the stop has no answer in the audit log
				if s := a.steps(c); s.deleted.IsZero() || s.requested.IsZero() {
					return fmt.Errorf("%s: %+v", a.claim.GetName(), s)
				}
			}
			return nil
		})
		c.proc.Stop()
		c.start(args...)
	})
	order := []string{"a", "b", "c"}
	begin := all.span(t, c, "a").first
	for i, zone := range order {
		s := all.span(t, c, zone)
		in := func(at time.Time) float64 { return at.Sub(begin).Seconds() }
		t.Logf("zone %s: DELETE %6.2f to %6.2f s, first drain-request %6.2f s, last claim let go %6.2f s", zone, in(s.first), in(s.last), in(s.requested), in(s.gone))
		if i == 0 {
			continue
		}
		if before := all.span(t, c, order[i-1]); s.first.Before(before.gone) || s.requested.Before(before.gone) {
			t.Errorf("zone %s begins while zone %s is in progress", zone, order[i-1])
		}
	}
	all.each(func(a *aloneNode) {
		if n := len(a.deletes(c)); n != 1 {
			t.Errorf("%s was deleted %d times", a.claim.GetName(), n)
		}
	})
	c.checkManners()
}

// Without the option nothing holds them back but their budgets.
func TestNoZoneTurn(t *testing.T) {
	ctx := within(t, 180*time.Second)
	c := deploy(t, ctx, standaloneManifest)
	c.start("--mode", "standalone", "--node-identity", "admission")
	all := drift(t, c, 1, 530, func(zones) {})
	var last, gone time.Time
	for _, zone := range []string{"a", "b", "c"} {
		s := all.span(t, c, zone)
		last = latest(last, s.last)
		if gone.IsZero() || s.gone.Before(gone) {
			gone = s.gone
		}
	}
	t.Logf("the last DELETE %.2f s before the first claim is gone", gone.Sub(last).Seconds())
	if !last.Before(gone) {
		t.Error("one waited for another")
	}
	c.checkManners()
}
