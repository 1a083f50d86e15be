// The gate on many nodes at once: what the agent states, the controller's taint, and those for whom they are, Kubernetes' own scheduler
// and DaemonSet controller and Karpenter's own controllers. Kubelet is played: it runs what is bound to its node, the pods of DaemonSets
// after a while, the application's at once. The same without us is a figure beside it.

package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenterv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const (
	fitAtOnce    = 10          // nodes
	fitApps      = 3           // pods that wait for each boot
	fitAdds      = time.Second // at most, to which comes what three requests, one after the other, take on this machine
	fitScene     = "fit-scene"
	fitTooBusy   = 1500 * time.Millisecond // one request, as for the paired worlds
	kubeletAfter = 2 * time.Second         // the agent's unit is ordered before kubelet's
	machineDown  = 2 * time.Second         // a reboot; what is left of a whole second counts as the boot's, see startAgent
)

var (
	unfit    = corev1.Taint{Key: "nodeclaimd.io/unfit", Effect: corev1.TaintEffectNoSchedule}
	notReady = corev1.Taint{Key: harness.TaintNotReady, Effect: corev1.TaintEffectNoSchedule}
	fitSets  = []string{"cni", "csi"}
)

// gated is all nodes of one run, with us or without.
type gated struct {
	t         *testing.T
	ctx       context.Context
	dir, name string
	isOurs    bool
	karpenter *harness.Karpenter
	instances []*harness.Instance
	launching sync.Mutex

	mu    sync.Mutex
	nodes map[string]*gatedNode
	pods  map[types.UID]*corev1.Pod
	runs  map[types.UID]bool
	slow  time.Duration // the longest write of a pod
}

// gatedNode is one machine; what was seen of it is guarded by the lock of all.
type gatedNode struct {
	*gated
	instance *harness.Instance
	claim    *karpenterv1.NodeClaim
	imds     *harness.IMDS
	agent    *harness.Proc

	boot      int
	isUp      bool // kubelet runs
	ready     map[string]bool
	readyAt   time.Time // the last of the DaemonSets
	wasShut   bool      // the taint was seen in this boot
	shuts     int       // boots in which it was
	openAfter time.Duration
	started   int // of the application, in this boot
	early     []string
	added     []time.Duration // from the last DaemonSet to the end of the taint
	landed    []time.Duration // … to the last pod of the application
}

func envNumber(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

func TestGate(t *testing.T) {
	boots, reboots := envNumber(t, "CONFORMANCE_BOOTS", 8), envNumber(t, "CONFORMANCE_REBOOTS", 4)
	ctx := within(t, time.Minute+time.Duration(boots+reboots)*8*time.Second)
	dir := startScheduling(t)

	without := runGated(t, ctx, dir, false, boots, reboots)
	c := deploy(t, ctx)
	since := time.Now()
	c.start("--mode", "karpenter")
	c.leads(since)
	with := runGated(t, ctx, dir, true, boots, reboots)
	for again := 1; again < 3 && with.slow > fitTooBusy && len(with.early()) > 0; again++ {
		t.Logf("the machine is too busy: %s", with.summary())
		with = runGated(t, ctx, dir, true, boots, reboots)
	}

	t.Logf("without: %s", without.summary())
	t.Logf("with:    %s", with.summary())
	if shut := with.shut(); reboots > 0 && shut <= boots {
		t.Errorf("%d of %d boots were shut: after no reboot the taint was put back", shut, boots+reboots)
	}
	if len(without.early()) == 0 {
		t.Error("without us no pod of the application was early: this run shows nothing")
	}
	for _, e := range with.early() {
		t.Errorf("early: %s", e)
	}
	for _, n := range with.nodes {
		node, err := cluster.Node(ctx, n.name())
		must(t, err)
		if hasTaint(node, unfit) {
			t.Errorf("%s: taints %v, annotations %v", n.name(), node.Spec.Taints, node.Annotations)
		}
		if writes := accepted(c.writes("nodes", n.name())); len(writes) > 2*n.boot-1 {
			t.Errorf("%s: %d writes of the controller in %d boots: %v", n.name(), len(writes), n.boot, writes)
		}
	}
	for _, d := range with.times(func(n *gatedNode) []time.Duration { return n.added }) {
		if d > fitAdds+3*with.slow {
			t.Errorf("%s from the last DaemonSet to the end of the taint, and %s for the longest write", d, with.slow)
		}
	}
	c.checkManners()
}

// startScheduling runs kube-scheduler and the DaemonSet controller; gives a folder for logs.
func startScheduling(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(workDir, t.Name()+"-")
	must(t, err)
	controllers, err := cluster.StartControllers(dir)
	must(t, err)
	t.Cleanup(controllers.Stop)
	scheduler, err := cluster.StartScheduler(dir)
	must(t, err)
	t.Cleanup(scheduler.Stop)
	return dir
}

// newGated starts Karpenter with so many machines, and makes the DaemonSets.
func newGated(t *testing.T, ctx context.Context, dir string, isOurs bool, first, machines int) *gated {
	t.Helper()
	s := &gated{t: t, ctx: ctx, dir: dir, isOurs: isOurs, name: fmt.Sprintf("%d-ours-%v", first, isOurs), nodes: map[string]*gatedNode{},
		pods: map[types.UID]*corev1.Pod{}, runs: map[types.UID]bool{}}
	for i := range machines + 1 { // the harness gives its last one again and again
		s.instances = append(s.instances, harness.NewInstance(first+i))
	}
	var err error
	s.karpenter, err = cluster.StartKarpenter(ctx, s.instances...)
	must(t, err)
	followScene(t, ctx, s.name, s.seePod, s.seeNode)
	for _, name := range fitSets {
		must(t, makeDaemonSet(ctx, name, s.name))
	}
	t.Cleanup(s.remove)
	return s
}

var gatedRuns int // so that each has machines of its own

// runGated boots so many nodes, some at once, and reboots some of them; all are gone afterwards but as objects.
func runGated(t *testing.T, ctx context.Context, dir string, isOurs bool, boots, reboots int) *gated {
	t.Helper()
	ctx, stop := context.WithCancel(ctx)
	t.Cleanup(stop)
	gatedRuns++
	s := newGated(t, ctx, dir, isOurs, 40000+1000*gatedRuns, boots)
	work, errs := make(chan int), make(chan error, boots)
	var all sync.WaitGroup
	for range fitAtOnce {
		all.Go(func() {
			for i := range work {
				if err := s.live(i, reboots*(i+1)/boots-reboots*i/boots); err != nil {
					errs <- err
				}
			}
		})
	}
	for i := range boots {
		work <- i
	}
	close(work)
	all.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	stop()
	return s
}

func (s *gated) remove() {
	ctx := context.Background()
	for _, n := range s.nodes {
		if n.claim != nil {
			cluster.DropClaim(ctx, n.claim.Name, n.name())
		}
		cluster.Forget(ctx, n.name())
	}
	dropScene(s.name)
}

// makeDaemonSet tolerates everything, as those that a gate waits for do.
func makeDaemonSet(ctx context.Context, name, scene string, first ...corev1.Container) error {
	labels := map[string]string{fitScene: scene, "app": name}
	no := false
	_, err := cluster.Client.AppsV1().DaemonSets("kube-system").Create(ctx, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + scene},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{NodeSelector: map[string]string{fitScene: scene}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				AutomountServiceAccountToken: &no, InitContainers: first, Containers: []corev1.Container{{Name: "main", Image: "localhost/pause:1"}}}}}}, metav1.CreateOptions{})
	return err
}

// dropScene removes DaemonSets and pods.
func dropScene(scene string) {
	ctx := context.Background()
	for _, name := range fitSets {
		_ = cluster.Client.AppsV1().DaemonSets("kube-system").Delete(ctx, name+"-"+scene, metav1.DeleteOptions{})
	}
	for _, namespace := range []string{"kube-system", "default"} {
		_ = cluster.Client.CoreV1().Pods(namespace).DeleteCollection(ctx, *metav1.NewDeleteOptions(0), metav1.ListOptions{LabelSelector: fitScene + "=" + scene})
	}
}

// --- what is seen

// followScene watches the pods and the Nodes with this label.
func followScene(t *testing.T, ctx context.Context, scene string, seePod func(*corev1.Pod), seeNode func(*corev1.Node)) {
	t.Helper()
	of := func(options *metav1.ListOptions) { options.LabelSelector = fitScene + "=" + scene }
	core := cluster.Client.CoreV1().RESTClient()
	for _, w := range []struct {
		resource string
		object   client.Object
		see      func(any)
	}{
		{"pods", &corev1.Pod{}, func(o any) { seePod(o.(*corev1.Pod)) }},
		{"nodes", &corev1.Node{}, func(o any) { seeNode(o.(*corev1.Node)) }},
	} {
		list := cache.NewFilteredListWatchFromClient(core, w.resource, "", of)
		_, informer := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: list, ObjectType: w.object, Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: w.see, UpdateFunc: func(_, o any) { w.see(o) }}})
		go informer.RunWithContext(ctx)
		must(t, harness.Poll(ctx, "the watch of "+w.resource, nil, func() error {
			if !informer.HasSynced() {
				return context.DeadlineExceeded
			}
			return nil
		}))
	}
}

// seeNode notes the taint.
func (s *gated) seeNode(node *corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[node.Name]
	if n == nil || !n.isUp || node.Status.NodeInfo.BootID != n.bootID() {
		return
	}
	isShut := hasTaint(node, unfit)
	if n.wasShut && !isShut && n.openAfter == 0 {
		n.openAfter = time.Since(n.readyAt)
		n.added = append(n.added, n.openAfter)
		if len(n.ready) < len(fitSets) {
			n.early = append(n.early, fmt.Sprintf("%s, boot %d: the taint is gone, and of the DaemonSets only %v are ready", n.name(), n.boot, n.ready))
		}
	}
	if isShut && !n.wasShut {
		n.shuts++
	}
	n.wasShut = n.wasShut || isShut
}

// seePod is kubelet's.
func (s *gated) seePod(p *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods[p.UID] = p
	if n := s.nodes[p.Spec.NodeName]; n != nil && n.isUp {
		s.run(n, p)
	}
}

// run starts a pod of a node whose kubelet runs, once a boot.
func (s *gated) run(n *gatedNode, p *corev1.Pod) {
	if p.DeletionTimestamp != nil || s.runs[p.UID] {
		return
	}
	s.runs[p.UID] = true
	if app := p.Labels["app"]; app != "web" {
		boot, isAgain := n.boot, p.Status.Phase == corev1.PodRunning
		go n.runDaemon(app, p, boot, isAgain)
		return
	}
	n.started++
	if len(n.ready) < len(fitSets) {
		n.early = append(n.early, fmt.Sprintf("%s, boot %d: %s started, and of the DaemonSets only %v are ready", n.name(), n.boot, p.Name, n.ready))
	} else if n.started == fitApps {
		n.landed = append(n.landed, time.Since(n.readyAt))
	}
	go n.writePod(p, true)
}

// runDaemon takes a while; after a reboot the pod is not Ready first, once kubelet has come to it.
func (n *gatedNode) runDaemon(app string, p *corev1.Pod, boot int, isAgain bool) {
	if isAgain {
		n.sleep(0.2, 0.4)
		n.writePod(p, false)
	}
	n.sleep(0.3, 3)
	n.mu.Lock()
	if n.boot == boot {
		n.ready[app] = true
		n.readyAt = time.Now()
	}
	n.mu.Unlock()
	n.writePod(p, true)
}

func (n *gatedNode) writePod(p *corev1.Pod, isReady bool) {
	status := map[bool]string{false: "False", true: "True"}[isReady]
	text, _ := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": map[string]any{"phase": corev1.PodRunning,
		"startTime": metav1.Now(), "conditions": []any{map[string]any{"type": "Ready", "status": status, "lastTransitionTime": metav1.Now()}}}})
	began := time.Now()
	if _, err := cluster.Client.CoreV1().Pods(p.Namespace).Patch(n.ctx, p.Name, types.StrategicMergePatchType, text, metav1.PatchOptions{}, "status"); err != nil && n.ctx.Err() == nil {
		n.t.Errorf("%s: %v", p.Name, err)
	}
	n.mu.Lock()
	n.slow = max(n.slow, time.Since(began))
	n.mu.Unlock()
}

// --- a machine

func (n *gatedNode) name() string { return n.instance.Hostname }

func (n *gatedNode) bootID() string { return fmt.Sprintf("0c5d1d1c-6f0e-4a44-9c0a-%012d", n.boot) }

func (n *gatedNode) sleep(least, most float64) {
	time.Sleep(time.Duration((least + rand.Float64()*(most-least)) * float64(time.Second)))
}

// live is the life of one node: its first boot, and so many reboots.
func (s *gated) live(i, reboots int) error {
	n, err := s.launch(i)
	if err != nil {
		return err
	}
	defer func() {
		n.agent.Kill()
		n.imds.Stop()
	}()
	for again := range reboots + 1 {
		if again > 0 {
			n.fall()
		}
		if err := n.rise(); err != nil {
			return fmt.Errorf("%s, boot %d: %w", n.name(), n.boot, err)
		}
	}
	return nil
}

func (s *gated) launch(i int) (*gatedNode, error) {
	s.launching.Lock()
	defer s.launching.Unlock()
	claim, err := harness.NewLaunchedClaim(s.ctx, s.karpenter, fmt.Sprintf("gate-%s-%d", s.name, i), func(c *karpenterv1.NodeClaim) {
		if s.isOurs {
			c.Spec.StartupTaints = []corev1.Taint{unfit}
		}
	})
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(s.instances, func(i *harness.Instance) bool { return i.ProviderID() == claim.Status.ProviderID })
	if at < 0 {
		return nil, fmt.Errorf("%s: its instance %s is not of this test", claim.Name, claim.Status.ProviderID)
	}
	n := &gatedNode{gated: s, instance: s.instances[at], claim: claim}
	if n.imds, err = harness.NewIMDS("127.0.0.1:0", n.instance); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.nodes[n.name()] = n
	s.mu.Unlock()
	return n, nil
}

// fall is the end of a boot: what the node lifecycle controller does then is played. No machine comes back in no time.
func (n *gatedNode) fall() {
	n.agent.Kill()
	n.mu.Lock()
	n.isUp = false
	n.mu.Unlock()
	must(n.t, n.report("Unknown"))
	must(n.t, cluster.UpdateNode(n.ctx, n.name(), func(node *corev1.Node) { node.Spec.Taints = append(node.Spec.Taints, notReady) }))
	time.Sleep(machineDown)
}

// rise is a boot, until the pods of the application that wait for it run and Karpenter has initialized the node.
func (n *gatedNode) rise() error {
	n.mu.Lock()
	n.boot++
	n.ready, n.wasShut, n.openAfter, n.started = map[string]bool{}, false, 0, 0
	n.mu.Unlock()
	for k := range fitApps {
		if _, err := createPod(n.ctx, "default", fmt.Sprintf("web-%s-%d-%d", strings.Split(n.name(), ".")[0], n.boot, k), "", labelled(fitScene, n.gated.name), labelled("app", "web"),
			func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: n.name()} }); err != nil {
			return err
		}
	}
	if n.isOurs {
		if err := n.startAgent(); err != nil {
			return err
		}
		time.Sleep(kubeletAfter)
	}
	if err := n.startKubelet(); err != nil {
		return err
	}
	err := harness.Poll(n.ctx, "the pods of the application run", nil, func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.started < fitApps || len(n.ready) < len(fitSets) {
			return fmt.Errorf("%d started, ready %v", n.started, n.ready)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return harness.Poll(n.ctx, "karpenter initializes the node", nil, func() error {
		node, err := cluster.Node(n.ctx, n.name())
		if err == nil && (node.Labels[harness.LabelInitialized] != "true" || len(node.Spec.Taints) > 0) {
			err = fmt.Errorf("labels %v, taints %v", node.Labels, node.Spec.Taints)
		}
		return err
	})
}

// startKubelet registers the Node, or reports the new boot; its first report is not Ready.
func (n *gatedNode) startKubelet() error {
	if n.boot == 1 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name(), Labels: map[string]string{corev1.LabelHostname: n.name(), fitScene: n.gated.name,
			karpenterv1.NodePoolLabelKey: "default"}}, Spec: corev1.NodeSpec{ProviderID: n.instance.ProviderID(),
			Taints: []corev1.Taint{{Key: harness.TaintUnregistered, Effect: corev1.TaintEffectNoExecute}}}}
		if n.isOurs {
			node.Spec.Taints = append(node.Spec.Taints, unfit)
		}
		if _, err := cluster.Client.CoreV1().Nodes().Create(n.ctx, node, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	if err := n.report("False"); err != nil {
		return err
	}
	n.mu.Lock()
	n.isUp = true
	for uid, p := range n.pods {
		if p.Spec.NodeName == n.name() && p.Labels["app"] != "web" {
			n.runs[uid] = false
		}
		if p.Spec.NodeName == n.name() {
			n.run(n, p)
		}
	}
	n.mu.Unlock()
	n.sleep(0.3, 1.5)
	if err := n.report("True"); err != nil {
		return err
	}
	return cluster.RemoveTaints(n.ctx, n.name(), harness.TaintNotReady)
}

func (n *gatedNode) report(ready string) error {
	now := metav1.Now()
	resources := map[string]any{"cpu": "2", "memory": "4Gi", "pods": "200"}
	return n.patchStatus(map[string]any{"capacity": resources, "allocatable": resources, "nodeInfo": map[string]any{"bootID": n.bootID()},
		"conditions": []any{map[string]any{"type": "Ready", "status": ready, "reason": "Played", "lastHeartbeatTime": now, "lastTransitionTime": now}}})
}

func (n *gatedNode) patchStatus(status map[string]any) error {
	text, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = cluster.Client.CoreV1().Nodes().Patch(n.ctx, n.name(), types.StrategicMergePatchType, text, metav1.PatchOptions{}, "status")
	return err
}

// startAgent runs the daemon in a root of its own, on a machine that has just booted.
func (n *gatedNode) startAgent() error {
	dir := filepath.Join(n.dir, n.name())
	root := filepath.Join(dir, "root")
	var sets []string
	for _, name := range fitSets {
		sets = append(sets, "kube-system/"+name+"-"+n.gated.name)
	}
	files := map[string]string{
		"proc/sys/kernel/random/boot_id":    n.bootID() + "\n",
		"etc/nodeclaimd/conf.d/60-fit.yaml": "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec: {fit: {daemonSets: [" + strings.Join(sets, ", ") + "]}}\n",
	}
	if n.boot == 1 {
		cert, key, err := cluster.CA.Issue("system:node:"+n.name(), []string{"system:nodes"})
		if err != nil {
			return err
		}
		files["etc/kubernetes/pki/ca.crt"] = string(cluster.CA.PEM)
		files["var/lib/kubelet/pki/node.crt"], files["var/lib/kubelet/pki/node.key"] = string(cert), string(key)
		files["var/lib/kubelet/kubeconfig"] = kubeconfigOf(cluster.Endpoint)
	}
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	uptime, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return err
	}
	seconds, _, _ := strings.Cut(string(uptime), ".")
	n.agent, err = harness.Start(dir, "agent", []string{"DBUS_SYSTEM_BUS_ADDRESS=unix:path=" + dir + "/no-bus"}, "unshare", "--time", "--boottime=-"+seconds,
		"--fork", "--kill-child", program, "run", "--imds", n.imds.URL, "--root", root, "--node-name", n.name(), "--log-level", "debug")
	return err
}

// --- figures

func (s *gated) times(of func(*gatedNode) []time.Duration) []time.Duration {
	var list []time.Duration
	for _, n := range s.nodes {
		list = append(list, of(n)...)
	}
	slices.Sort(list)
	return list
}

// shut is how many boots had the taint.
func (s *gated) shut() (sum int) {
	for _, n := range s.nodes {
		sum += n.shuts
	}
	return sum
}

func (s *gated) early() []string {
	var list []string
	for _, n := range s.nodes {
		list = append(list, n.early...)
	}
	return list
}

func (s *gated) summary() string {
	text, boots := "", 0
	for _, n := range s.nodes {
		boots += n.boot
	}
	for _, what := range []struct {
		name string
		of   func(*gatedNode) []time.Duration
	}{
		{"the taint ended", func(n *gatedNode) []time.Duration { return n.added }},
		{"the last pod started", func(n *gatedNode) []time.Duration { return n.landed }},
	} {
		if list := s.times(what.of); len(list) > 0 {
			text += fmt.Sprintf("; %s %.3f s (median), %.3f s (most) after the last DaemonSet was Ready", what.name, list[len(list)/2].Seconds(), list[len(list)-1].Seconds())
		}
	}
	text += fmt.Sprintf("; one request took up to %.3f s", s.slow.Seconds())
	return fmt.Sprintf("%d boots and %d reboots, %d of them with the taint, %d of %d pods of the application started before their DaemonSets%s",
		len(s.nodes), boots-len(s.nodes), s.shut(), len(s.early()), boots*fitApps, text)
}
