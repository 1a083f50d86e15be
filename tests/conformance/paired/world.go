// A world: a control plane with Karpenter's controllers, with or without us, in which many scenes are played at once.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpenterv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

// world is one of the two.
type world struct {
	isOurs    bool
	dir       string
	cluster   *harness.Cluster
	karpenter *harness.Karpenter
	kubelet   *kubelet
	stages    []*stage

	mu     sync.Mutex
	beats  []beat
	isAway bool // the API server, for all
}

// beat is how late one small request was answered, by the machine's fault: a scene is only as true as its moments.
type beat struct {
	at   time.Time
	late time.Duration
}

// pulse asks the API server every half second until ctx ends.
func (w *world) pulse(ctx context.Context) {
	for next := time.Now(); wait(ctx, next); next = next.Add(500 * time.Millisecond) {
		next = later(next, time.Now().Add(-time.Second))
		wasAway := w.isAway
		_, _ = w.cluster.Client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		w.mu.Lock()
		if !wasAway && !w.isAway {
			w.beats = append(w.beats, beat{next, time.Since(next)})
		}
		w.mu.Unlock()
	}
}

// goThroughBadDay kills each of our two controllers in turn and starts it again, lets the other wake up as a leader of the past, and
// takes the API server away from everybody in both worlds, until ctx ends.
func (w *world) goThroughBadDay(ctx context.Context, controllers []*controllerProc) {
	go func() {
		for began := time.Now(); wait(ctx, began.Add(awayAfter)); began = time.Now() {
			w.setAway(true)
			_ = syscall.Kill(w.cluster.APIServer().Pid(), syscall.SIGSTOP)
			wait(ctx, time.Now().Add(awayFor))
			_ = syscall.Kill(w.cluster.APIServer().Pid(), syscall.SIGCONT)
			wait(ctx, time.Now().Add(time.Second))
			w.setAway(false)
		}
	}()
	for i := 0; len(controllers) > 0 && wait(ctx, time.Now().Add(killEach)); i++ {
		c := controllers[i%len(controllers)]
		if i%4 == 2 { // it sleeps for longer than its Lease
			_ = syscall.Kill(c.Pid(), syscall.SIGSTOP)
			wait(ctx, time.Now().Add(asleepFor))
			_ = syscall.Kill(c.Pid(), syscall.SIGCONT)
			continue
		}
		c.Kill()
		if err := c.start(); err != nil {
			fmt.Fprintln(os.Stderr, "paired: the controller does not start again:", err)
			return
		}
	}
}

func (w *world) setAway(isAway bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isAway = isAway
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// latest is the worst of a scene's time.
func (w *world) latest(s *stage) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var worst time.Duration
	for _, b := range w.beats {
		if !b.at.Before(s.began) && b.at.Before(s.over) {
			worst = max(worst, b.late)
		}
	}
	return worst
}

// play lets scenes happen in a world of their own, and gives what was seen, in their order.
func play(ctx context.Context, dir string, scenes []*Scene, isOurs bool) ([]*stage, error) {
	w := &world{isOurs: isOurs, dir: dir}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	begins, cancel := context.WithTimeout(ctx, 10*time.Minute) // the machine may be busy
	defer cancel()
	var err error
	if w.cluster, err = harness.NewCluster(begins, dir, binDir, "http://127.0.0.1:1/"); err != nil {
		return nil, err
	}
	defer w.cluster.Stop()
	if err := w.prepare(begins, ctx, scenes); err != nil {
		return nil, err
	}
	controllers, err := w.startControllers(begins)
	for _, c := range controllers {
		defer func() { c.Stop() }()
	}
	if err != nil {
		return nil, err
	}
	go w.pulse(ctx)
	w.each(8, func(s *stage) { s.err = s.raise(begins) })
	if scenes[0].IsBadDay() {
		bad, end := context.WithCancel(ctx)
		over := make(chan struct{})
		go func() { w.goThroughBadDay(bad, controllers); close(over) }()
		defer func() { end(); <-over }()
	}
	var playing sync.WaitGroup
	for i, s := range w.stages {
		if s.err != nil {
			continue
		}
		playing.Go(func() { // not all in the same moment
			if wait(ctx, time.Now().Add(2*time.Second+time.Duration(i)*300*time.Millisecond)) {
				s.play(ctx)
			}
		})
	}
	playing.Wait()
	time.Sleep(time.Second) // the last lines of the audit log
	return w.stages, w.count()
}

// prepare starts Karpenter and lets it launch an instance for each scene.
func (w *world) prepare(begins, ctx context.Context, scenes []*Scene) error {
	if err := w.cluster.InstallNodeClaims(begins); err != nil {
		return err
	}
	var instances []*harness.Instance
	for i, scene := range scenes {
		s := &stage{Scene: scene, world: w, namespace: fmt.Sprintf("scene-%d", scene.Seed), instance: harness.NewInstance(i + 1)}
		if s.Ending == spot || s.Ending == hibernate || s.Ending == past || s.Ending == rebalance {
			s.instance.LifeCycle = "spot"
		}
		w.stages = append(w.stages, s)
		if s.Ending != autoscaling {
			instances = append(instances, s.instance)
		}
	}
	instances = append(instances, harness.NewInstance(100000)) // the harness gives its last one again and again
	var err error
	if w.karpenter, err = w.cluster.StartKarpenter(ctx, instances...); err != nil {
		return err
	}
	if w.kubelet, err = startKubelet(ctx, w.cluster.Client); err != nil {
		return err
	}
	for _, s := range w.stages {
		if s.Ending == autoscaling {
			continue
		}
		s.claim, err = harness.NewLaunchedClaim(begins, w.karpenter, "claim-"+s.namespace, func(c *karpenterv1.NodeClaim) {
			if s.TGP > 0 && s.Ending != repair && s.Ending != reboot {
				c.Spec.TerminationGracePeriod = &metav1.Duration{Duration: s.TGP}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// controllerProc is one of our controllers, and how it is started again.
type controllerProc struct {
	*harness.Proc
	start func() error
}

// startControllers runs ours as its manifests deploy it, two of it; in the other world there is none.
func (w *world) startControllers(ctx context.Context) ([]*controllerProc, error) {
	if !w.isOurs {
		return nil, nil
	}
	d, err := w.cluster.Deploy(ctx, filepath.Join(deployDir, "rbac.yaml"), filepath.Join(deployDir, "deployment.yaml"))
	if err != nil {
		return nil, err
	}
	var controllers []*controllerProc
	for _, name := range []string{"controller", "controller-2"} {
		c := &controllerProc{}
		c.start = func() (err error) {
			c.Proc, err = d.Start(w.dir, name, controller, "--mode", "karpenter", "--metrics-address", "off", "--log-level", "debug", "--identity", name)
			return err
		}
		if err := c.start(); err != nil {
			return controllers, err
		}
		controllers = append(controllers, c)
	}
	return controllers, nil
}

// each runs something for every stage, a few at once.
func (w *world) each(atOnce int, run func(*stage)) {
	free := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for _, s := range w.stages {
		free <- struct{}{}
		all.Go(func() {
			run(s)
			<-free
		})
	}
	all.Wait()
}

// counts is what was asked of the API server about one scene, once it had begun.
type counts struct {
	Evictions, OurEvictions int
	Events, OurEvents       int // objects
	Requests                int // of the agent
	ClaimDeletedBy          string
}

// count reads the audit log.
func (w *world) count() error {
	byNode, byNamespace := map[string]*stage{}, map[string]*stage{}
	for _, s := range w.stages {
		byNode[s.node()], byNamespace[s.namespace] = s, s
	}
	list, err := w.cluster.Audit.Entries(func(harness.AuditEntry) bool { return true })
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return errors.New("the audit log is empty")
	}
	for _, e := range list {
		node, isNode := strings.CutPrefix(e.User.Username, "system:node:")
		s := byNode[node]
		if s == nil {
			s = byNamespace[e.ObjectRef.Namespace]
		}
		if s == nil {
			s = byNamespace[strings.TrimPrefix(e.ObjectRef.Name, "claim-")]
		}
		if s == nil { // an Event on a Node or a NodeClaim
			about := e.ObjectRef.Name[:max(strings.LastIndexByte(e.ObjectRef.Name, '.'), 0)]
			if s = byNode[about]; s == nil {
				s = byNamespace[strings.TrimPrefix(about, "claim-")]
			}
		}
		if s == nil || s.began.IsZero() || e.RequestReceivedTimestamp.Before(s.began) {
			continue
		}
		s.counts.add(e, isNode || strings.HasPrefix(e.User.Username, "system:serviceaccount:"))
		if isNode {
			s.counts.Requests++
		}
	}
	return nil
}

func (c *counts) add(e harness.AuditEntry, isOurs bool) {
	ours := 0
	if isOurs {
		ours = 1
	}
	switch e.What() {
	case "create pods/eviction":
		c.Evictions++
		c.OurEvictions += ours
	case "create events":
		if e.ResponseStatus.Code == 201 {
			c.Events++
			c.OurEvents += ours
		}
	case "delete nodeclaims":
		if c.ClaimDeletedBy == "" && e.ResponseStatus.Code == 200 {
			c.ClaimDeletedBy = e.User.Username
		}
	}
}
