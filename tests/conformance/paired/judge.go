// The judge: what became of each pod, of the node and of the NodeClaim in both worlds, and whether that is worse with us.
//
// A rule leaves room for what milliseconds decide on a busy machine: what it calls worse is worse.

package main

import (
	"fmt"
	"slices"
	"time"
)

const (
	slack     = 5 * time.Second  // by how much a watch, a poll and a busy machine may be late
	oneRetry  = 10 * time.Second // before its last moment a tier may begin, so that one refused eviction can be repeated
	mostEnds  = 2                // so often may a pod that is put back be ended more often than without us
	aboutNode = 2 * 6            // Event objects of ours: on Node and NodeClaim, two sources, cordon, begin, force, end; beside
	perBudget = 2                // so many for each budget that blocks
	podNews   = 3                // and for each pod
)

// fate is what became of a pod.
type fate struct {
	*life
	asked time.Duration // since the beginning; -1: never asked to leave
	ended time.Duration // -1: it runs at the end
	got   time.Duration // of its time to stop
	isCut bool          // it had neither finished nor had its own grace
}

// outcome is one scene in one world, as it is compared.
type outcome struct {
	*stage
	fates                        []fate          // of the pods of the scene
	ends                         []int           // how often a pod of that place was ended after it was put back
	inversions                   map[[2]int]bool // earlier pod still there, later one asked to leave
	violations                   map[int]bool    // asked to leave while a budget of it was closed
	kept, finished, cut, nothing int
}

func (s *stage) since(at time.Time) time.Duration {
	if at.IsZero() {
		return -1
	}
	return at.Sub(s.began)
}

// newOutcome sums up what was seen.
func newOutcome(s *stage) *outcome {
	o := &outcome{stage: s, ends: make([]int, len(s.Pods)), inversions: map[[2]int]bool{}, violations: map[int]bool{}}
	for _, l := range s.lives {
		if l.return_ == 0 {
			o.fates = append(o.fates, s.fate(l))
		} else if i := s.place(l.pod.Name); !l.asked.IsZero() {
			o.ends[i]++
		}
	}
	for i, f := range o.fates {
		switch {
		case !f.isCut:
			o.kept++
		case f.got < 2*time.Second:
			o.nothing++
		}
		if f.isCut {
			o.cut++
		}
		if f.isFinished {
			o.finished++
		}
		if f.asked >= 0 && s.isClosed(f.pod, f.asked) {
			o.violations[i] = true
		}
		for j, later := range o.fates {
			if f.pod.HasPlace() && later.pod.HasPlace() && f.pod.Tier() < later.pod.Tier() && later.asked >= 0 &&
				(f.ended < 0 || f.ended > later.asked+500*time.Millisecond) {
				o.inversions[[2]int{i, j}] = true
			}
		}
	}
	return o
}

func (s *stage) place(name string) int {
	return slices.IndexFunc(s.Pods, func(p Pod) bool { return p.Name == name })
}

func (s *stage) fate(l *life) fate {
	f := fate{life: l, asked: s.since(l.asked), ended: s.since(l.ended)}
	grace := time.Duration(l.pod.Grace) * time.Second
	switch {
	case l.ended.IsZero() && l.asked.IsZero():
	case l.ended.IsZero(): // it goes on stopping, with what it was given
		f.got, f.isCut = l.grace, l.grace < min(l.stop(), grace)
	case l.asked.IsZero():
		f.isCut = true
	default:
		f.got = l.ended.Sub(l.asked)
		f.isCut = !l.isFinished && f.got < grace-time.Second/2
	}
	return f
}

// losesVolume: the machine ended with the volume of the pod attached.
func (s *stage) losesVolume(f fate) bool {
	return !s.off.IsZero() && f.isAttached(s.off.Add(time.Second))
}

// isEndedEarly: somebody ended the machine before EC2 would.
func (s *stage) isEndedEarly() bool {
	return !s.off.IsZero() && (s.killAt.IsZero() || s.off.Before(s.killAt.Add(-slack)))
}

// isClosed: a budget of the pod forbade it at that time.
func (s *Scene) isClosed(p Pod, at time.Duration) bool {
	return slices.ContainsFunc(p.Budgets, func(b int) bool {
		budget := s.Budgets[b]
		return !budget.Rolling && (budget.Opens < 0 || at < budget.Opens-time.Second)
	})
}

// deadline is the earliest moment, since the beginning, by which anybody may force pods of this scene; false where there is none.
func (s *Scene) deadline() (time.Duration, bool) {
	var found []time.Duration
	if s.TGP > 0 && s.DeletesClaim() {
		found = append(found, s.TGP)
	}
	if s.Left > 0 && s.Acts() && s.Ending != hibernate {
		found = append(found, s.Left-s.Reserve())
	}
	if len(found) == 0 {
		return 0, false
	}
	return slices.Min(found), true
}

// isDue: at that time the pod may be ended whatever holds it, for else it would not have its whole grace.
func (s *Scene) isDue(p Pod, at, early time.Duration) bool {
	d, ok := s.deadline()
	return ok && at >= d-time.Duration(p.Grace)*time.Second-early
}

// verdict of one scene.
type verdict struct {
	worse  []string
	better int
	margin int // pods that would have needed the last moments, which nobody is promised
	opened int // orders that Karpenter gave up: by a deadline it waits for no pod whose grace reaches until then
}

func (v *verdict) isWorse(format string, args ...any) {
	v.worse = append(v.worse, fmt.Sprintf(format, args...))
}

// judge compares a scene without us and with us.
func judge(without, with *outcome) *verdict {
	v := &verdict{}
	for i := range without.fates {
		v.judgePod(without, with, i)
	}
	v.judgeOrder(without, with)
	v.judgeNode(without, with)
	return v
}

func (f fate) String() string {
	switch {
	case f.asked < 0 && f.ended < 0:
		return "was left alone"
	case f.asked < 0:
		return fmt.Sprintf("was never asked to leave and lost with the machine after %.1f s", f.ended.Seconds())
	}
	text := fmt.Sprintf("was asked to leave after %.1f s, ", f.asked.Seconds())
	switch {
	case f.ended < 0 && f.isCut:
		return text + fmt.Sprintf("has %.1f s of its grace of %d s", f.got.Seconds(), f.pod.Grace)
	case f.ended < 0:
		return text + "has the time that it needs"
	case f.isFinished:
		return text + fmt.Sprintf("finished after %.1f s", f.ended.Seconds())
	case f.isOff:
		return text + fmt.Sprintf("lost with the machine %.1f s later", f.got.Seconds())
	}
	return text + fmt.Sprintf("killed %.1f s later (grace %d s, stops in %g s)", f.got.Seconds(), f.pod.Grace, f.pod.Stop)
}

func (v *verdict) judgePod(without, with *outcome, i int) {
	a, b, s := without.fates[i], with.fates[i], without.Scene
	p := a.pod
	say := func(what string) {
		v.isWorse("%s: pod %s %s; without us it %s, with us it %s", what, p.Name, p.Owner, a, b)
	}
	needs := min(p.Stop, float64(p.Grace))
	inMargin := s.Left > 0 && needs > (s.Left-s.Reserve()-3*time.Second).Seconds()
	switch {
	case p.Owner == static:
		if a.asked < 0 && b.asked >= 0 {
			say("a static pod was deleted")
		}
	case b.isCut && !a.isCut && p.IsLeft() && b.asked < 0 && s.DeletesClaim(): // it ends with the machine in both: when, the others' drain decides
	case b.isCut && !a.isCut && inMargin:
		v.margin++
	case b.isCut && !a.isCut:
		say("cut short")
	case b.isCut && a.isCut && b.got < a.got-s.Reserve()-slack:
		say("less of its grace")
	case !b.isCut && a.isCut || b.isCut && b.got > a.got+slack:
		v.better++
	}
	if a.asked < 0 && b.asked >= 0 && p.Owner != static {
		switch {
		case !s.Acts() && !s.DeletesClaim():
			say(fmt.Sprintf("ended though policy is %s and mode %s", s.Policy, s.Mode))
		case s.IsHeld(p) && !s.isDue(p, b.asked, slack):
			say("ended though a budget or do-not-disrupt holds it and no deadline is near")
		case p.Tolerates != "" && s.DeletesClaim() && !s.isDue(p, b.asked, slack) && (!a.isCut || b.isCut && !b.isOff): // else it is lost with the machine
			say("ended though it tolerates the taint and no deadline is near")
		}
	}
	if with.violations[i] && !without.violations[i] && !s.isDue(p, b.asked, slack) {
		say("ended while its budget was closed")
	}
	if without.violations[i] && !with.violations[i] {
		v.better++
	}
	switch was, is := without.losesVolume(a), with.losesVolume(b); {
	case is && !was && with.isEndedEarly():
		say(fmt.Sprintf("the machine was ended %.1f s after the beginning, with its volume attached", with.since(with.off).Seconds()))
	case was && !is:
		v.better++
	}
	if with.ends[i] > without.ends[i]+mostEnds {
		v.isWorse("chased: pod %s was ended %d times after it had been put back, %d times without us", p.Name, with.ends[i], without.ends[i])
	}
}

func (v *verdict) judgeOrder(without, with *outcome) {
	for pair := range with.inversions {
		earlier, later := with.fates[pair[0]], with.fates[pair[1]]
		switch {
		case without.inversions[pair] || with.isDue(later.pod, later.asked, oneRetry+slack):
		case earlier.pod.Owner == daemonSet && with.claimGoes.IsZero(): // nobody drains daemons of a node that stays
		case !with.claimGoes.IsZero() && with.isDue(earlier.pod, later.asked, slack):
			v.opened++
		default:
			v.isWorse("order: %s (tier %d) was asked to leave after %.1f s, while %s (tier %d) %s", later.pod.Name, later.pod.Tier()+1, later.asked.Seconds(),
				earlier.pod.Name, earlier.pod.Tier()+1, map[bool]string{true: "was still there", false: fmt.Sprintf("was there until %.1f s", earlier.ended.Seconds())}[earlier.ended < 0])
		}
	}
	for pair := range without.inversions {
		if !with.inversions[pair] {
			v.better++
		}
	}
}

func (v *verdict) judgeNode(without, with *outcome) {
	s := with.Scene
	if !with.claimGoes.IsZero() && without.claimGoes.IsZero() && !s.Relays() {
		v.isWorse("the NodeClaim was deleted after %.1f s by %s; policy %s, mode %s", with.since(with.claimGoes).Seconds(), with.counts.ClaimDeletedBy, s.Policy, s.Mode)
	}
	onlySays := s.Mode == off || s.source() != "" && (s.Policy == report || s.Policy == ignore) || s.Ending == past
	if onlySays && !s.DeletesClaim() && !with.cordoned.IsZero() {
		v.isWorse("the Node was made unschedulable after %.1f s; policy %s, mode %s", with.since(with.cordoned).Seconds(), s.Policy, s.Mode)
	}
	if (onlySays || s.Policy == cordon) && !s.DeletesClaim() && !with.unbalanced.IsZero() {
		v.isWorse("the Node was taken off load balancers after %.1f s; policy %s, mode %s", with.since(with.unbalanced).Seconds(), s.Policy, s.Mode)
	}
	if most := aboutNode + perBudget*len(s.Budgets) + podNews*len(s.Pods); with.counts.OurEvents > most {
		v.isWorse("noise: %d Event objects of ours for %d pods", with.counts.OurEvents, len(s.Pods))
	}
	// Karpenter's queue asks each 10 s at least; where nobody tells it of the end, this stands in for what it would send.
	asks := int(s.Horizon.Seconds()/10) * held(s)
	if most := max(without.counts.Evictions, asks) + asks + 2*len(s.Pods); with.counts.OurEvictions > most {
		v.isWorse("noise: %d evictions of ours; Karpenter alone sent %d", with.counts.OurEvictions, without.counts.Evictions)
	}
	if len(with.inversions) == 0 && len(v.worse) == 0 && !with.claimGoes.IsZero() && without.claimGoes.IsZero() && s.Relays() {
		v.better++ // Karpenter learnt of the end
	}
}

// held counts the pods that somebody has to be asked for more than once.
func held(s *Scene) int {
	count := 0
	for _, p := range s.Pods {
		if len(p.Budgets) > 0 {
			count++
		}
	}
	return count
}
