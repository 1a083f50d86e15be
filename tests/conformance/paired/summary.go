// What is printed: each scene that is worse, and the table of both worlds.

package main

import (
	"fmt"
	"strings"
)

// summary of all scenes.
type summary struct {
	scenes, better, margin, opened int
	worse                          []string // failures, by scene
	flaky                          []string
	rows                           map[bool]*row
}

// row is one world.
type row struct {
	pods, kept, finished, cut, nothing, inversions, violations, evictions, events, requests int
}

func newSummary() *summary { return &summary{rows: map[bool]*row{false: {}, true: {}}} }

func (s *summary) add(p *pair) {
	s.scenes++
	s.better += p.better
	s.margin += p.margin
	s.opened += p.opened
	for _, o := range []*outcome{p.without, p.with} {
		r := s.rows[o.world.isOurs]
		r.pods += len(o.fates)
		r.kept += o.kept
		r.finished += o.finished
		r.cut += o.cut
		r.nothing += o.nothing
		r.inversions += len(o.inversions)
		r.violations += len(o.violations)
		r.evictions += o.counts.Evictions
		r.events += o.counts.Events
		r.requests += o.counts.Requests
	}
	if len(p.worse) > 0 {
		s.worse = append(s.worse, fmt.Sprintf("scene %d (%s): %s", p.Seed, p.Ending, p.worse[0]))
	}
}

// print tells of a scene that was worse at its first time; p is its second.
func (p *pair) print(first *pair) {
	fmt.Printf("\n%s\n", p.Scene)
	if len(p.worse) == 0 {
		for _, line := range first.worse {
			fmt.Printf("  worse among the others, not by itself: %s\n", line)
		}
		return
	}
	for _, line := range p.worse {
		fmt.Printf("  worse, twice: %s\n", line)
	}
	for i, f := range p.without.fates {
		fmt.Printf("    %-20s without us it %s\n    %-20s    with us it %s\n", f.pod.Name, f, "", p.with.fates[i])
	}
}

func (s *summary) print() {
	a, b := s.rows[false], s.rows[true]
	fmt.Printf("\n%-44s %10s %10s\n", "", "without", "with")
	for _, line := range []struct {
		name string
		a, b int
	}{
		{"pods", a.pods, b.pods},
		{"left alone, finished or had their whole grace", a.kept, b.kept},
		{"finished", a.finished, b.finished},
		{"cut short", a.cut, b.cut},
		{"of these with less than 2 s", a.nothing, b.nothing},
		{"asked to leave before an earlier tier was gone", a.inversions, b.inversions},
		{"asked to leave while their budget was closed", a.violations, b.violations},
		{"evictions sent", a.evictions, b.evictions},
		{"Event objects", a.events, b.events},
		{"requests of the agent", a.requests, b.requests},
	} {
		fmt.Printf("%-46s %8d %10d\n", line.name, line.a, line.b)
	}
	fmt.Printf("\n%d scenes: worse %d, better %d (pods, orders, budgets, claims); %d pods needed the margin before the machine's end, %d orders were given up by Karpenter for the deadline that it was told\n", s.scenes, len(s.worse), s.better, s.margin, s.opened)
	for _, line := range s.worse {
		fmt.Println("failed: " + strings.ReplaceAll(line, "\n", " "))
	}
	fmt.Printf("%d passed, %d failed\n", s.scenes-len(s.worse), len(s.worse))
}
