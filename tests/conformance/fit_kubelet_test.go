// The gate with real kubelets and containerd, one machine after the other; the rest as in fit_test.go. One watch of pods has all of them in
// the order in which the API server took what kubelet and the scheduler wrote.

package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpenterv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const daemonTakes = "2s" // to be Ready, after its containers may start

// fitBoot is what was seen of one boot.
type fitBoot struct {
	*node
	scene  string
	isOurs bool

	mu      sync.Mutex
	ready   map[string]bool
	bound   map[string]bool
	started map[string]bool
	early   []string
	wasShut bool
	readyAt time.Time // the last of the DaemonSets
	openAt  time.Time // the taint is gone
	landed  time.Time // the last pod of the application runs
}

func TestGateOfKubelets(t *testing.T) {
	boots := envNumber(t, "CONFORMANCE_KUBELETS", 1)
	startScheduling(t)
	run := func(isOurs bool) (early int) {
		var added, landed time.Duration // at most
		for i := range boots {
			t.Run(fmt.Sprintf("gate=%v/%d", isOurs, i), func(t *testing.T) {
				b := bootWithGate(t, 60000+i, isOurs)
				early += len(b.early)
				added, landed = max(added, b.openAt.Sub(b.readyAt)), max(landed, b.landed.Sub(b.readyAt))
				for _, e := range b.early {
					if isOurs {
						t.Error(e)
					}
				}
			})
		}
		t.Logf("gate=%v: %d boots of kubelet, %d of %d pods of the application started before their DaemonSets", isOurs, boots, early, boots*fitApps)
		if isOurs {
			t.Logf("after the last DaemonSet was Ready the taint ended %.3f s later, the last pod ran %.3f s later, at most", added.Seconds(), landed.Seconds())
		}
		return early
	}
	if run(false) == 0 {
		t.Error("without the gate no pod of the application was early: this run shows nothing")
	}
	c := deploy(t, within(t, time.Minute+time.Duration(boots)*2*time.Minute))
	since := time.Now()
	c.start("--mode", "karpenter")
	c.leads(since)
	run(true)
	c.checkManners()
}

// bootWithGate boots a machine to the end, with its DaemonSets and the pods that wait for it there before.
func bootWithGate(t *testing.T, number int, isOurs bool) *fitBoot {
	t.Helper()
	n := newNode(t, number)
	b := &fitBoot{node: n, scene: fmt.Sprintf("kubelet-%d-%v", number, isOurs), isOurs: isOurs,
		ready: map[string]bool{}, bound: map[string]bool{}, started: map[string]bool{}}
	running, stop := context.WithCancel(n.ctx)
	t.Cleanup(stop)
	karpenter, err := cluster.StartKarpenter(running, n.instance)
	must(t, err)
	claim, err := harness.NewLaunchedClaim(n.ctx, karpenter, b.scene, func(c *karpenterv1.NodeClaim) {
		if isOurs {
			c.Spec.StartupTaints = []corev1.Taint{unfit}
		}
	})
	must(t, err)
	t.Cleanup(func() { cluster.DropClaim(context.Background(), claim.Name, n.name) })
	t.Cleanup(func() { dropScene(b.scene) })
	followScene(t, running, b.scene, b.seePod, b.seeNode)
	for _, name := range fitSets {
		must(t, makeDaemonSet(n.ctx, name, b.scene, corev1.Container{Name: "first", Image: "localhost/pause:1", Args: []string{"-after", daemonTakes}}))
	}
	for k := range fitApps {
		_, err := createPod(n.ctx, "default", fmt.Sprintf("%s-%d", b.scene, k), "", labelled(fitScene, b.scene), labelled("app", "web"),
			func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{fitScene: b.scene} })
		must(t, err)
	}
	b.run()
	return b
}

func (b *fitBoot) run() {
	b.t.Helper()
	data := harness.UserData{MaxPods: 29, Labels: append(harness.KarpenterLabels(), fitScene+"="+b.scene)}
	if b.isOurs {
		data.Taints = []string{unfit.Key + ":" + string(unfit.Effect)}
		b.settings("fit:", fmt.Sprintf("  daemonSets: [kube-system/%s-%s, kube-system/%s-%s]", fitSets[0], b.scene, fitSets[1], b.scene))
	}
	b.boot(data.For(cluster))
	if b.isOurs {
		b.until("kubelet is started", func() error {
			if len(b.m.Pids("kubelet")) == 0 {
				return fmt.Errorf("it is not")
			}
			return nil
		})
		daemon, err := b.m.Start("daemon", nil, program, "run")
		must(b.t, err)
		b.t.Cleanup(daemon.Stop)
	}
	_, err := cluster.ReadyNode(b.ctx, b.name, b.agent)
	must(b.t, err)
	must(b.t, cluster.RemoveTaints(b.ctx, b.name, harness.TaintUninitialized, harness.TaintNotReady))
	if code := b.finish(); code != 0 {
		b.t.Errorf("exit code %d", code)
	}
	must(b.t, harness.Poll(b.ctx, "the pods of the application run, and no taint is left", nil, func() error {
		now, err := cluster.Node(b.ctx, b.name)
		if err != nil {
			return err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.started) < fitApps || len(b.ready) < len(fitSets) || len(now.Spec.Taints) > 0 || now.Labels[harness.LabelInitialized] != "true" {
			return fmt.Errorf("started %v, ready %v, labels %v, taints %v, annotations %v", b.started, b.ready, now.Labels, now.Spec.Taints, now.Annotations)
		}
		return nil
	}))
	if b.isOurs && !b.wasShut {
		b.t.Error("the taint was never there")
	}
}

func (b *fitBoot) seeNode(node *corev1.Node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	isShut := hasTaint(node, unfit)
	if b.openAt.IsZero() && !isShut {
		b.openAt = time.Now()
	}
	b.wasShut = b.wasShut || isShut
}

// seePod: with the gate none may even be bound before the DaemonSets are Ready.
func (b *fitBoot) seePod(p *corev1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	app, now := p.Labels["app"], time.Now()
	if app != "web" {
		isReady := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
		if isReady && !b.ready[app] {
			b.ready[app], b.readyAt = true, now
		}
		return
	}
	isEarly := len(b.ready) < len(fitSets)
	if p.Spec.NodeName != "" && !b.bound[p.Name] {
		b.bound[p.Name] = true
		if isEarly && b.isOurs {
			b.early = append(b.early, fmt.Sprintf("%s was bound, and of the DaemonSets only %v are ready", p.Name, b.ready))
		}
	}
	if p.Status.Phase == corev1.PodRunning && !b.started[p.Name] {
		b.started[p.Name], b.landed = true, now
		if isEarly && !b.isOurs {
			b.early = append(b.early, fmt.Sprintf("%s started, and of the DaemonSets only %v are ready", p.Name, b.ready))
		}
	}
}
