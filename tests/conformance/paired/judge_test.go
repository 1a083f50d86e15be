// What the judge calls worse, on outcomes that are made up: no cluster is needed.

package main

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

var began = time.Unix(1800000000, 0)

func at(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }

// left is a pod that was asked to leave and ended, in seconds; 0: it was not, or did not.
func left(p Pod, asked, ended float64) *life {
	l := &life{pod: p, name: p.Name}
	if asked > 0 {
		l.asked, l.grace = at(asked), time.Duration(p.Grace)*time.Second
	}
	if ended > 0 {
		l.ended, l.isFinished = at(ended), asked > 0 && ended-asked >= p.Stop
	}
	return l
}

func outcomeOf(s *Scene, lives ...*life) *outcome {
	return newOutcome(&stage{Scene: s, began: began, lives: lives})
}

// lost is a pod that was lost with the machine.
func lost(l *life) *life {
	l.isOff, l.isFinished = true, false
	return l
}

// sent is an outcome with so many evictions, by Karpenter and by us.
func sent(o *outcome, karpenters, ours int) *outcome {
	o.counts.Evictions, o.counts.OurEvictions = karpenters, ours
	return o
}

func TestJudge(t *testing.T) {
	plain, shipper := Pod{Name: "app", Owner: replicaSet, Grace: 60, Stop: 40}, Pod{Name: "shipper", Owner: daemonSet, Grace: 30, Stop: 1}
	held, slow := Pod{Name: "held", Owner: replicaSet, Grace: 30, Stop: 1, Budgets: []int{0}}, Pod{Name: "slow", Owner: replicaSet, Grace: 20, Stop: 8}
	queued := &Scene{Ending: spot, Left: 120 * time.Second, Queue: true, Policy: drain, Mode: always, Pods: []Pod{{Name: "riding", Owner: replicaSet, Grace: 45, Stop: 1, Tolerates: "all"}}}
	riding := Pod{Name: "riding", Owner: bare, Grace: 1, Stop: 40, Tolerates: "all"}
	never := []Budget{{Opens: -1}}
	hour := &Scene{Ending: deletion, TGP: time.Hour, Policy: drain, Mode: auto, Pods: []Pod{plain, shipper}}
	late := &Scene{Ending: spot, Left: 20 * time.Second, Queue: true, Policy: drain, Mode: auto, Pods: []Pod{slow}}
	notice := &Scene{Ending: spot, Left: 120 * time.Second, Policy: drain, Mode: auto, Pods: []Pod{held}, Budgets: never}
	blocked := &Scene{Ending: deletion, TGP: 24 * time.Hour, Horizon: 120 * time.Second, Policy: drain, Mode: auto, Pods: []Pod{held}, Budgets: never}
	stopped := &Scene{Ending: spot, Left: 120 * time.Second, Policy: cordon, Mode: auto, Pods: []Pod{plain}}
	for _, c := range []struct {
		name          string
		without, with *outcome
		worse         string // how it begins; "": nothing
	}{
		{"the same", outcomeOf(hour, left(plain, 1, 41), left(shipper, 41, 42)), outcomeOf(hour, left(plain, 1, 41), left(shipper, 42, 43)), ""},
		{"a tier is opened after 10 s", outcomeOf(hour, left(plain, 1, 41), left(shipper, 41, 42)), outcomeOf(hour, left(plain, 1, 41), left(shipper, 11, 12)), "order: shipper"},
		{"what is left ends with a machine that is drained sooner", outcomeOf(hour, left(riding, 0, 0)), outcomeOf(hour, left(riding, 0, 65)), ""},
		{"what Karpenter leaves is asked as the machine ends", outcomeOf(queued, lost(left(queued.Pods[0], 0, 14))), outcomeOf(queued, lost(left(queued.Pods[0], 13.4, 13.4))), ""},
		{"what Karpenter leaves is killed", outcomeOf(queued, lost(left(queued.Pods[0], 0, 14))), outcomeOf(queued, left(queued.Pods[0], 5, 5.5)), "ended though it tolerates"},
		{"a late notice", outcomeOf(late, left(slow, 1, 9)), outcomeOf(late, left(slow, 1, 5)), "cut short: pod slow"},
		{"its last moment", outcomeOf(notice, left(held, 0, 120)), outcomeOf(notice, left(held, 75, 76)), ""},
		{"before its last moment", outcomeOf(notice, left(held, 0, 120)), outcomeOf(notice, left(held, 50, 51)), "ended though a budget"},
		{"evictions like Karpenter's", sent(outcomeOf(blocked, left(held, 0, 0)), 9, 0), sent(outcomeOf(blocked, left(held, 0, 0)), 0, 26), ""},
		{"evictions more often than that", sent(outcomeOf(blocked, left(held, 0, 0)), 9, 0), sent(outcomeOf(blocked, left(held, 0, 0)), 0, 28), "noise: 28 evictions"},
		{"evictions where Karpenter is not told", sent(outcomeOf(blocked, left(held, 0, 0)), 0, 0), sent(outcomeOf(blocked, left(held, 0, 0)), 0, 26), ""},
		{"a policy that leaves pods", outcomeOf(stopped, left(plain, 0, 120)), outcomeOf(stopped, left(plain, 2, 42)), "ended though policy is cordon"},
	} {
		v := judge(c.without, c.with)
		switch {
		case c.worse == "" && len(v.worse) > 0, c.worse != "" && (len(v.worse) == 0 || !strings.HasPrefix(v.worse[0], c.worse)):
			t.Errorf("%s: %q, want %q", c.name, v.worse, c.worse)
		}
	}
	stored := Pod{Name: "db", Owner: statefulSet, Grace: 30, Stop: 4, Detach: 10 * time.Second}
	volumes := &Scene{Ending: deletion, Policy: drain, Mode: auto, Pods: []Pod{stored}}
	for _, c := range []struct {
		ended float64 // the machine
		worse int
	}{{16, 0}, {8, 1}} {
		with := outcomeOf(volumes, left(stored, 1, 5))
		with.off = at(c.ended)
		without := outcomeOf(volumes, left(stored, 1, 5))
		without.off = at(16)
		if v := judge(without, with); len(v.worse) != c.worse {
			t.Errorf("a machine that is ended after %g s, its volume detached after 15: %q", c.ended, v.worse)
		}
	}
	relayed := outcomeOf(stopped, left(plain, 0, 120))
	relayed.claimGoes = at(1)
	if v := judge(outcomeOf(stopped, left(plain, 0, 120)), relayed); len(v.worse) != 1 || !strings.HasPrefix(v.worse[0], "the NodeClaim was deleted") {
		t.Errorf("a cordon that is relayed: %q", v.worse)
	}
	if v := judge(outcomeOf(notice, left(held, 0, 120)), outcomeOf(notice, left(held, 75, 76))); v.better == 0 {
		t.Error("a pod that kept its grace is not better")
	}
}

func TestSceneOfASeed(t *testing.T) {
	for seed := range uint64(500) {
		if s := NewScene(seed); !reflect.DeepEqual(s, NewScene(seed)) || len(s.Pods) == 0 || s.Horizon < s.Left {
			t.Fatalf("%s", s)
		}
	}
}
