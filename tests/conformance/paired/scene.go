// A scene: one node, its pods with their budgets, how it ends and what our settings make of that. The same seed gives the same scene.

package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Endings of a node. Those that EC2 announces reach the node by IMDS; the others are done to the NodeClaim, as Karpenter or a person does.
const (
	deletion    = "deletion"    // the NodeClaim is deleted: drift, expiry, kubectl
	repair      = "repair"      // the same, with a bound for the drain
	reboot      = "reboot"      // Karpenter's reboot for repair: a drain without deletion
	spot        = "spot"        // a spot notice
	hibernate   = "hibernate"   // a spot notice whose action keeps memory
	past        = "past"        // a spot notice whose time passed minutes ago
	maintenance = "maintenance" // a scheduled event
	rebalance   = "rebalance"   // a rebalance recommendation
	autoscaling = "autoscaling" // the target state Terminated of an Auto Scaling group; no NodeClaim
)

// Owners of pods.
const (
	replicaSet    = "ReplicaSet"
	statefulSet   = "StatefulSet"
	job           = "Job"
	daemonSet     = "DaemonSet"
	foreignDaemon = "kruise/DaemonSet"
	bare          = "bare"
	static        = "static"
)

// Policies and modes of ours.
const (
	drain, cordon, report, ignore = "drain", "cordon", "report", "ignore"
	auto, always, observe, off    = "auto", "always", "observe", "off"
)

// Scene is what both worlds are given.
type Scene struct {
	Seed    uint64
	Ending  string
	Left    time.Duration // until the machine ends; 0: the ending tells no such moment
	TGP     time.Duration // terminationGracePeriod of the NodeClaim, or the bound of a repair; 0: none
	Queue   bool          // Karpenter's interruption queue deletes the NodeClaim, too
	Code    string        // of a scheduled event
	Policy  string        // ours, for this ending
	Mode    string        // ours
	Killed  time.Duration // the agent is killed at this moment and started again; 0: never
	Stepped time.Duration // the machine's own clock is set at this moment; 0: never
	Step    time.Duration // by so much
	Horizon time.Duration // how long it is watched at most
	Pods    []Pod
	Budgets []Budget
}

// Pod is one pod at the beginning.
type Pod struct {
	Name, Owner  string
	Grace        int64   // terminationGracePeriodSeconds
	Stop         float64 // what it takes, in seconds
	Critical     bool
	Tolerates    string // "", "disrupted", "all"
	DoNotDisrupt string
	Budgets      []int
	Returns      bool          // its controller puts it back on this node, whatever is there
	Detach       time.Duration // its volume is attached to the node, until so long after its end; 0: it has none
}

// Budget opens at some moment; never: Opens < 0. A rolling one lets one pod go at a time, for whom a replacement is ready some seconds later.
type Budget struct {
	Opens   time.Duration
	Rolling bool
}

func (b Budget) String() string {
	switch {
	case b.Rolling:
		return "one at a time"
	case b.Opens < 0:
		return "never opens"
	default:
		return fmt.Sprintf("opens after %s", b.Opens)
	}
}

// Tier is Karpenter's: pods, daemons, critical pods, critical daemons.
func (p Pod) Tier() int {
	tier := 0
	if p.Critical {
		tier = 2
	}
	if p.Owner == daemonSet {
		tier++
	}
	return tier
}

// IsLeft says that Karpenter neither evicts the pod nor waits for it.
func (p Pod) IsLeft() bool { return p.Tolerates != "" || p.Owner == static }

// HasPlace says that pods of other nodes' tiers are compared with it: Karpenter and we agree on its tier.
func (p Pod) HasPlace() bool { return !p.IsLeft() && p.Owner != foreignDaemon }

// IsHeld says that nothing but a deadline ends the pod.
func (s *Scene) IsHeld(p Pod) bool {
	return p.DoNotDisrupt == "true" || p.DoNotDisrupt == "1h" || slices.ContainsFunc(p.Budgets, func(b int) bool { return s.Budgets[b].Opens < 0 })
}

// Acts says that our settings let the agent end pods.
func (s *Scene) Acts() bool {
	if s.Mode == observe || s.Mode == off {
		return false
	}
	switch s.Ending {
	case past:
		return false
	case deletion, repair, reboot:
		return true
	}
	return s.Policy == drain && !s.IsFar()
}

// IsFar: what was announced is days ahead.
func (s *Scene) IsFar() bool { return s.Ending == maintenance && s.Left == 0 }

// ComesBack: the machine is the same one afterwards, or never goes.
func (s *Scene) ComesBack() bool {
	return s.Ending == hibernate || s.Ending == reboot || s.Ending == maintenance && (strings.HasSuffix(s.Code, "-reboot") || s.Code == "system-maintenance")
}

// DeletesClaim: the ending itself deletes the NodeClaim, with or without us.
func (s *Scene) DeletesClaim() bool { return s.Ending == deletion || s.Ending == repair || s.Queue }

// Relays: we may delete the NodeClaim.
func (s *Scene) Relays() bool {
	return s.Acts() && !s.ComesBack() && (s.Ending == spot || s.Ending == maintenance || s.Ending == rebalance)
}

// source is the key of the ending in our configuration; "": what is done to a NodeClaim has none.
func (s *Scene) source() string {
	switch s.Ending {
	case hibernate, past:
		return spot
	case spot, maintenance, rebalance, autoscaling:
		return s.Ending
	}
	return ""
}

// Reserve is the time before the machine's end that no pod is promised: what the kill costs, and how late Karpenter's queue is where
// that leaves a pod the default grace.
func (s *Scene) Reserve() time.Duration {
	return max(s.Left/8, min(10*time.Second, s.Left-30*time.Second))
}

// IsBadDay: our controllers are killed and the API server is away in its time. So it is for every other batch of seeds.
func (s *Scene) IsBadDay() bool { return (s.Seed-1)/atOnce%2 == 1 }

func (s *Scene) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "scene %d: %s", s.Seed, s.Ending)
	if s.Code != "" {
		fmt.Fprintf(&text, " %s", s.Code)
	}
	if s.Left > 0 {
		fmt.Fprintf(&text, " in %s", s.Left)
	} else if s.IsFar() {
		text.WriteString(" in 5 days")
	}
	if s.TGP > 0 {
		fmt.Fprintf(&text, ", terminationGracePeriod %s", s.TGP)
	}
	if s.Queue {
		text.WriteString(", interruption queue")
	}
	fmt.Fprintf(&text, "; policy %s, mode %s", s.Policy, s.Mode)
	if s.Killed > 0 {
		fmt.Fprintf(&text, "; agent killed after %s", s.Killed)
	}
	if s.Stepped > 0 {
		fmt.Fprintf(&text, "; clock set by %s after %s", s.Step, s.Stepped)
	}
	if s.IsBadDay() {
		text.WriteString("; controllers killed, API server away")
	}
	for i, b := range s.Budgets {
		fmt.Fprintf(&text, "\n    budget b%d: %s", i, b)
	}
	for _, p := range s.Pods {
		fmt.Fprintf(&text, "\n    %s", p.line())
	}
	return text.String()
}

func (p Pod) line() string {
	text := fmt.Sprintf("%s: %s, grace %d s, stops in %g s", p.Name, p.Owner, p.Grace, p.Stop)
	if p.Critical {
		text += ", critical"
	}
	if p.Tolerates != "" {
		text += ", tolerates " + p.Tolerates
	}
	if p.DoNotDisrupt != "" {
		text += ", do-not-disrupt " + p.DoNotDisrupt
	}
	for _, b := range p.Budgets {
		text += fmt.Sprintf(", budget b%d", b)
	}
	if p.Returns {
		text += ", is put back"
	}
	if p.Detach > 0 {
		text += fmt.Sprintf(", volume detached %s later", p.Detach)
	}
	return text
}

// dice is a seeded source with the few draws that scenes need.
type dice struct{ *rand.Rand }

func (d dice) chance(percent int) bool { return d.IntN(100) < percent }

func draw[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

// NewScene draws the scene of a seed.
func NewScene(seed uint64) *Scene {
	d := dice{rand.New(rand.NewPCG(seed, 0x6e6f6465))}
	s := &Scene{Seed: seed, Policy: drain, Mode: draw(d, auto, auto, auto, auto, auto, auto, auto, always, always, draw(d, auto, observe, observe, off)), Horizon: 70 * time.Second}
	s.Ending = draw(d, spot, spot, spot, spot, spot, spot, spot, spot, deletion, deletion, deletion, deletion, deletion, deletion,
		maintenance, maintenance, maintenance, rebalance, rebalance, hibernate, past, repair, reboot, autoscaling)
	s.drawEnding(d)
	for range draw(d, 0, 0, 1, 1, 2, 3) {
		s.Budgets = append(s.Budgets, draw(d, Budget{Opens: -1}, Budget{Opens: -1}, Budget{Opens: time.Duration(5+d.IntN(40)) * time.Second}, Budget{Rolling: true}))
	}
	for i := range 3 + d.IntN(7) {
		s.Pods = append(s.Pods, s.drawPod(d, i))
	}
	if d.chance(12) {
		s.Killed = time.Duration(2+d.IntN(30)) * time.Second
	}
	if d.chance(12) {
		s.Stepped = time.Duration(1+d.IntN(30)) * time.Second
		s.Step = draw(d, -time.Hour, -95*time.Second, 40*time.Second, time.Hour)
	}
	for i, p := range s.Pods {
		if (p.Owner == replicaSet || p.Owner == statefulSet) && p.Tolerates == "" && d.chance(25) {
			s.Pods[i].Detach = time.Duration(1+d.IntN(12)) * time.Second
		}
	}
	return s
}

func (s *Scene) drawEnding(d dice) {
	switch s.Ending {
	case spot:
		s.Left = draw[time.Duration](d, 120, 120, 120, 120, 60, 20, 14) * time.Second
		s.Queue = d.chance(50)
		s.Policy = draw(d, drain, drain, drain, drain, drain, drain, drain, cordon, cordon, draw(d, report, ignore))
		s.TGP = draw(d, 0, 0, 0, time.Minute, time.Hour, 24*time.Hour)
	case hibernate:
		s.Left = 100 * time.Second
		s.Horizon = 105 * time.Second
	case maintenance:
		s.Code = draw(d, "instance-stop", "instance-retirement", "system-reboot", "instance-reboot", "system-maintenance")
		s.Left = draw(d, 0, 0, 100*time.Second)
		s.Policy = draw(d, drain, drain, cordon, report)
	case rebalance:
		s.Policy = draw(d, report, cordon, drain)
	case autoscaling:
		s.Left = 100 * time.Second
		s.Policy = draw(d, drain, cordon)
	case deletion:
		s.TGP = draw(d, 0, 0, time.Minute, time.Minute, time.Hour, 24*time.Hour)
	case repair, reboot:
		s.TGP = draw(d, 40*time.Second, 60*time.Second)
	}
	switch {
	case s.Left > 0:
		s.Horizon = max(s.Horizon, s.Left+5*time.Second)
	case s.TGP > 0 && s.TGP <= time.Minute:
		s.Horizon = s.TGP + 22*time.Second
	}
}

func (s *Scene) drawPod(d dice, i int) Pod {
	p := Pod{Owner: draw(d, replicaSet, replicaSet, replicaSet, replicaSet, statefulSet, job, daemonSet, daemonSet, foreignDaemon, bare, static)}
	p.Name = fmt.Sprintf("%s-%d", strings.ToLower(strings.ReplaceAll(p.Owner, "/", "-")), i)
	p.Grace = draw[int64](d, 0, 1, 5, 10, 20, 30, 30, 30, 45, 60, 90, 120, 300, 3600)
	// Never close to the grace: what happens then, milliseconds decide.
	p.Stop = draw(d, 0.3, 1, 4, 8, 13, 25, 40, 75, 200)
	for p.Grace > 1 && p.Stop > float64(p.Grace)*0.75 && p.Stop < float64(p.Grace)*1.3 {
		p.Stop /= 2
	}
	if d.chance(70) && p.Stop > float64(p.Grace) {
		p.Stop = float64(p.Grace) / 3
	}
	p.Critical = d.chance(20)
	if p.Owner == static {
		return p
	}
	p.Tolerates = draw(d, "", "", "", "", "", "", "", "", "disrupted", "all")
	if d.chance(10) {
		p.DoNotDisrupt = draw(d, "true", "1h", "1s")
	}
	if len(s.Budgets) > 0 && d.chance(45) {
		p.Budgets = []int{d.IntN(len(s.Budgets))}
		if other := d.IntN(len(s.Budgets)); d.chance(8) && other != p.Budgets[0] {
			p.Budgets = append(p.Budgets, other)
		}
	}
	p.Returns = p.Tolerates == "all" && d.chance(60)
	return p
}
