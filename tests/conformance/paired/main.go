// Paired worlds: seeded scenes, each played twice on a real API server, once with Karpenter's own controllers alone and once with our
// agent and controller beside them. What is worse with us for any pod, node or NodeClaim is a failure.
//
// `../run --paired` builds what is needed and starts it in namespaces of its own.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// What ../run hands over.
var (
	binDir     = os.Getenv("CONFORMANCE_K8S")        // folder of kube-apiserver
	program    = os.Getenv("CONFORMANCE_PROGRAM")    // nodeclaimd
	controller = os.Getenv("CONFORMANCE_CONTROLLER") // nodeclaim-controller
	workDir    = os.Getenv("CONFORMANCE_DIR")        // logs, kept where something failed
	faketime   = os.Getenv("CONFORMANCE_FAKETIME")   // libfaketime, by which one process has a clock of its own
)

const (
	deployDir = "../../deploy"
	atOnce    = 50                      // scenes of a batch
	tooLate   = 1500 * time.Millisecond // an API server that answers so late, or a process that waits so long for the machine, proves nothing
	tries     = 3

	// Of a bad day.
	killEach  = 20 * time.Second
	asleepFor = 18 * time.Second // a Lease is held for 15
	awayAfter = 45 * time.Second
	awayFor   = 3 * time.Second
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: paired SCENES SEED")
		os.Exit(2)
	}
	count, err := strconv.Atoi(os.Args[1])
	seed, other := strconv.ParseUint(os.Args[2], 10, 64)
	failed := true
	if err = errors.Join(err, other); err == nil {
		failed, err = run(context.Background(), count, seed)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "paired:", err)
	}
	if err != nil || failed {
		os.Exit(1)
	}
}

// pair is one scene, played twice.
type pair struct {
	*Scene
	without, with *outcome
	*verdict
}

// late is how late the machine was in the worse of both worlds.
func (p *pair) late() time.Duration {
	return max(p.without.world.latest(p.without.stage), p.with.world.latest(p.with.stage))
}

func run(ctx context.Context, count int, seed uint64) (bool, error) {
	if binDir == "" || program == "" || controller == "" || workDir == "" || faketime == "" {
		return true, errors.New("start it with ./dev paired")
	}
	klog.SetLogger(logr.Discard()) // what Karpenter could not tell a control plane that has ended
	sum := newSummary()
	for next := seed; next < seed+uint64(count); next += atOnce {
		var scenes []*Scene
		for s := next; s < min(next+atOnce, seed+uint64(count)); s++ {
			scenes = append(scenes, NewScene(s))
		}
		pairs, err := runBatch(ctx, scenes, "from")
		if err != nil { // a machine that is too busy to start a control plane, say
			fmt.Printf("once more, since it could not be played: %v\n", err)
			pairs, err = runBatch(ctx, scenes, "once-more-from")
		}
		if err != nil {
			return true, err
		}
		for _, p := range pairs {
			sum.add(p)
		}
	}
	sum.print()
	return len(sum.worse) > 0, nil
}

// runBatch plays scenes at once; those that are worse are played again without the others, and only what is worse then, too, counts: and
// that only if the machine was not too busy for it. name is of the folder: a control plane is never made in one that was used.
func runBatch(ctx context.Context, scenes []*Scene, name string) (done []*pair, err error) {
	pairs, err := playBoth(ctx, scenes, fmt.Sprintf("%s-%d", name, scenes[0].Seed))
	if err != nil {
		return nil, err
	}
	first := map[uint64]*pair{}
	var again []*Scene
	for _, p := range pairs {
		if len(p.worse) > 0 {
			first[p.Seed] = p
			again = append(again, p.Scene)
			continue
		}
		done = append(done, p)
	}
	for count := map[uint64]int{}; len(again) > 0; {
		few := again[:min(8, len(again))]
		again = again[len(few):]
		pairs, err := playBoth(ctx, few, fmt.Sprintf("%s-%d-again-%d-%d", name, scenes[0].Seed, few[0].Seed, count[few[0].Seed]))
		if err != nil {
			return nil, err
		}
		for _, p := range pairs {
			if count[p.Seed]++; len(p.worse) > 0 && p.late() > tooLate {
				if count[p.Seed] < tries {
					again = append(again, p.Scene)
				} else {
					fmt.Printf("not run: scene %d: on this machine requests took %.1f s\n", p.Seed, p.late().Seconds())
				}
				continue
			}
			p.print(first[p.Seed])
			done = append(done, p)
		}
	}
	return done, nil
}

// playBoth plays scenes in both worlds side by side, so that both have the same machine.
func playBoth(ctx context.Context, scenes []*Scene, name string) ([]*pair, error) {
	began := time.Now()
	type result struct {
		stages []*stage
		err    error
	}
	worlds := map[string]chan result{"without": make(chan result, 1), "with": make(chan result, 1)}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for which, done := range worlds {
		go func() {
			stages, err := play(ctx, filepath.Join(workDir, name, which), scenes, which == "with")
			if err != nil {
				stop() // the other one is of no use
			}
			done <- result{stages, err}
		}()
	}
	without, with := <-worlds["without"], <-worlds["with"]
	if err := errors.Join(without.err, with.err); err != nil {
		return nil, err
	}
	var pairs []*pair
	for i, scene := range scenes {
		if err := errors.Join(without.stages[i].err, with.stages[i].err); err != nil {
			return nil, fmt.Errorf("%s: %w", scene, err)
		}
		p := &pair{Scene: scene, without: newOutcome(without.stages[i]), with: newOutcome(with.stages[i])}
		p.verdict = judge(p.without, p.with)
		pairs = append(pairs, p)
	}
	fmt.Printf("%d scenes from seed %d, twice: %.0f s\n", len(scenes), scenes[0].Seed, time.Since(began).Seconds())
	return pairs, nil
}
