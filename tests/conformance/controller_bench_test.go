// What the controller costs with many nodes, and how fast a thousand notices at once become deletions, on a real API server
// with simulated Node and NodeClaim objects. Only with CONFORMANCE_BENCH set (./run --bench), as it takes minutes.
//
// A bare client of client-go that is told each accepted word without a watch, and does the same two writes, is the measure of
// what the API server can do on this machine.

package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const (
	benchNotices   = 1000
	benchClients   = 48
	benchMostBytes = 32 << 20
	benchMost      = 10 * time.Second
	benchRatio     = 2 // where the machine is so slow that not even the bare client makes it
	bareAgent      = "bare-client"
)

var nodeclaims = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}

// fleet is many simulated nodes; the clients that make them and speak for them have no limit of their own.
type fleet struct {
	t       *testing.T
	ctx     context.Context
	core    *kubernetes.Clientset
	dynamic *dynamic.DynamicClient
	uids    []types.UID // of the claims
}

func newFleet(t *testing.T, ctx context.Context) *fleet {
	t.Helper()
	me := rest.CopyConfig(cluster.Admin)
	me.QPS, me.UserAgent = -1, "fleet"
	f := &fleet{t: t, ctx: ctx}
	var err error
	f.core, err = kubernetes.NewForConfig(me)
	must(t, err)
	f.dynamic, err = dynamic.NewForConfig(me)
	must(t, err)
	return f
}

func fleetName(i int) string { return fmt.Sprintf("fleet-%05d", i) }

// each does something for many at once, with a bounded number under way; it ends with the first error.
func each(ctx context.Context, from, to int, do func(i int) error) error {
	var all sync.WaitGroup
	work, errs := make(chan int), make(chan error, benchClients)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for range benchClients {
		all.Go(func() {
			for i := range work {
				if err := do(i); err != nil {
					errs <- err
					stop()
					return
				}
			}
		})
	}
	for i := from; i < to && ctx.Err() == nil; i++ {
		select {
		case work <- i:
		case <-ctx.Done():
		}
	}
	close(work)
	all.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return ctx.Err()
	}
}

// grow makes it so many nodes.
func (f *fleet) grow(to int) {
	f.t.Helper()
	began, from := time.Now(), len(f.uids)
	f.uids = append(f.uids, make([]types.UID, to-from)...)
	must(f.t, each(f.ctx, from, to, f.makeOne))
	f.t.Logf("%d nodes and claims made in %.0f s", to-from, time.Since(began).Seconds())
}

// makeOne makes a claim and its Node, about as large as Karpenter and kubelet make them.
func (f *fleet) makeOne(i int) error {
	name, instance := fleetName(i), harness.NewInstance(100000+i)
	claim := map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": map[string]any{"name": name,
		"finalizers": []any{"karpenter.sh/termination"},
		"annotations": map[string]any{"karpenter.sh/nodepool-hash": "12345678901234567890", "karpenter.sh/nodepool-hash-version": "v3",
			"karpenter.k8s.aws/ec2nodeclass-hash": "12345678901234567890", "karpenter.k8s.aws/ec2nodeclass-hash-version": "v4"},
		"labels": fleetLabels(i, instance)},
		"spec": map[string]any{"expireAfter": "720h", "nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
			"resources": map[string]any{"requests": map[string]any{"cpu": "1", "pods": "2"}},
			"requirements": []any{map[string]any{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": []any{
				"m5.large", "m5.xlarge", "m5.2xlarge", "m6i.large", "m6i.xlarge", "c5.large", "c5.xlarge", "c6i.large", "r5.large", "r5.xlarge"}},
				map[string]any{"key": "karpenter.sh/nodepool", "operator": "In", "values": []any{"default"}}}}}
	text, err := json.Marshal(claim)
	if err != nil {
		return err
	}
	rest := f.core.RESTClient()
	var made metav1.PartialObjectMetadata
	raw, err := rest.Post().AbsPath(claimsPath).Body(text).DoRaw(f.ctx)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &made); err != nil {
		return err
	}
	f.uids[i] = made.UID
	status, err := json.Marshal(map[string]any{"status": fleetStatus(name, instance)})
	if err != nil {
		return err
	}
	if _, err := rest.Patch(types.MergePatchType).AbsPath(claimsPath, name, "status").Body(status).DoRaw(f.ctx); err != nil {
		return err
	}
	_, err = f.core.CoreV1().Nodes().Create(f.ctx, fleetNode(name, instance, made.UID, fleetLabels(i, instance)), metav1.CreateOptions{})
	return err
}

func fleetLabels(i int, instance *harness.Instance) map[string]string {
	return map[string]string{"karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "spot", "karpenter.k8s.aws/ec2nodeclass": "default",
		corev1.LabelInstanceTypeStable: instance.Type, corev1.LabelTopologyZone: instance.Zone, corev1.LabelTopologyRegion: instance.Region,
		corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", "karpenter.k8s.aws/instance-category": "m", "karpenter.k8s.aws/instance-cpu": "2",
		"karpenter.k8s.aws/instance-memory": "8192", "karpenter.k8s.aws/instance-family": "m5", "karpenter.k8s.aws/instance-hypervisor": "nitro",
		"example.com/team": fmt.Sprintf("team-%d", i%17)}
}

func fleetStatus(name string, instance *harness.Instance) map[string]any {
	now, conditions := metav1.Now().UTC().Format(time.RFC3339), []any{}
	for _, kind := range []string{"Launched", "Registered", "Initialized", "Ready", "Consolidatable"} {
		conditions = append(conditions, map[string]any{"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": now})
	}
	return map[string]any{"providerID": instance.ProviderID(), "nodeName": name, "imageID": "ami-0123456789abcdef0", "conditions": conditions,
		"capacity":    map[string]any{"cpu": "2", "memory": "7577Mi", "pods": "29", "ephemeral-storage": "20Gi"},
		"allocatable": map[string]any{"cpu": "1930m", "memory": "6903Mi", "pods": "29", "ephemeral-storage": "17Gi"}}
}

// fleetNode carries what kubelet writes, too: the images alone are some kilobytes on a real node.
func fleetNode(name string, instance *harness.Instance, claim types.UID, labels map[string]string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Finalizers: []string{"karpenter.sh/termination"},
		Annotations:     map[string]string{"node.alpha.kubernetes.io/ttl": "0", "volumes.kubernetes.io/controller-managed-attach-detach": "true"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: name, UID: claim}}},
		Spec: corev1.NodeSpec{ProviderID: instance.ProviderID()}}
	node.Labels[harness.LabelRegistered], node.Labels[harness.LabelInitialized], node.Labels[corev1.LabelHostname] = "true", "true", name
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "Kubelet", Message: "kubelet says so"})
	}
	for i := range 20 {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{SizeBytes: 12345678, Names: []string{
			fmt.Sprintf("111122223333.dkr.ecr.us-west-2.amazonaws.com/some/image-%d@sha256:%064d", i, i), fmt.Sprintf("some/image-%d:v1", i)}})
	}
	return node
}

// sayAll lets these nodes say at once what a daemon says at a spot notice, each as itself; told is called with each answer.
func (f *fleet) sayAll(from, to int, deadline time.Time, told func(i int)) {
	f.t.Helper()
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{drainAnnotation: word(deadline)}},
		"status": map[string]any{"conditions": []any{map[string]any{"type": pendingCondition, "status": "True", "reason": "SpotInterruption", "message": "EC2 ends it"}}}})
	must(f.t, err)
	must(f.t, each(f.ctx, from, to, func(i int) error {
		_, err := f.core.RESTClient().Patch(types.StrategicMergePatchType).AbsPath("/api/v1/nodes", fleetName(i), "status").Body(text).
			SetHeader("Impersonate-User", "system:node:"+fleetName(i)).SetHeader("Impersonate-Group", "system:nodes").DoRaw(f.ctx)
		if err == nil {
			told(i)
		}
		return err
	}))
}

// storm is how long each of many notices took from its accepted word to the accepted DELETE of its claim.
type storm struct {
	median, longest, total time.Duration // total: from the first word to the last DELETE
	requests               float64       // a node
	apiserver              time.Duration // CPU of the API server a notice
}

func (s storm) String() string {
	return fmt.Sprintf("median %.0f ms, longest %.0f ms, first word to last DELETE %.2f s, %.2f requests a node, %.1f ms of the API server's CPU a notice",
		s.median.Seconds()*1000, s.longest.Seconds()*1000, s.total.Seconds(), s.requests, s.apiserver.Seconds()*1000)
}

// measure waits until the audit log has all of it.
func (f *fleet) measure(from, to int, user string, since time.Time, used time.Duration) (s storm) {
	f.t.Helper()
	defer func() { s.apiserver = (f.apiserver() - used) / time.Duration(to-from) }()
	must(f.t, harness.Poll(f.ctx, "every notice is relayed", nil, func() error {
		said, deleted, requests := map[string]time.Time{}, map[string]time.Time{}, 0
		_, err := cluster.Audit.Entries(func(e harness.AuditEntry) bool {
			if name := e.ObjectRef.Name; e.StageTimestamp.After(since) && name >= fleetName(from) && name < fleetName(to) {
				switch {
				case e.ObjectRef.Resource == "nodeclaims" && e.User.Username == user:
					requests++
					if e.Verb == "delete" && e.ResponseStatus.Code == 200 && deleted[name].IsZero() {
						deleted[name] = e.StageTimestamp
					}
				case e.What() == "patch nodes/status" && e.ResponseStatus.Code == 200:
					said[name] = e.StageTimestamp
				case e.ObjectRef.Resource == "nodes" && e.User.Username == user:
					requests++
				}
			}
			return false
		})
		if err != nil {
			return err
		}
		if len(deleted) < to-from || len(said) < to-from {
			return fmt.Errorf("%d of %d", len(deleted), to-from)
		}
		s = stormOf(said, deleted, requests)
		return nil
	}))
	return s
}

func stormOf(said, deleted map[string]time.Time, requests int) storm {
	var took []time.Duration
	var began, ended time.Time
	for name, at := range said {
		if began.IsZero() || at.Before(began) {
			began = at
		}
		ended = later(ended, deleted[name])
		took = append(took, deleted[name].Sub(at))
	}
	slices.Sort(took)
	return storm{median: took[len(took)/2], longest: took[len(took)-1], total: ended.Sub(began), requests: float64(requests) / float64(len(said))}
}

func (f *fleet) apiserver() time.Duration {
	f.t.Helper()
	used, err := cluster.APIServer().CPU()
	must(f.t, err)
	return used
}

// bareRelay does the two writes for each word as soon as it was accepted, so many at once as the controller has in flight.
func (f *fleet) bareRelay(c *central, from, to int) storm {
	f.t.Helper()
	client, err := dynamic.NewForConfig(c.account.Config(bareAgent))
	must(f.t, err)
	since, used, words, deadline := time.Now(), f.apiserver(), make(chan int, to-from), soon()
	var all sync.WaitGroup
	errs := make(chan error, to-from)
	for range 64 {
		all.Go(func() {
			for i := range words {
				errs <- f.bareOne(client, i, deadline)
			}
		})
	}
	f.sayAll(from, to, deadline, func(i int) { words <- i })
	close(words)
	all.Wait()
	close(errs)
	for err := range errs {
		must(f.t, err)
	}
	return f.measure(from, to, c.account.User(), since, used)
}

func soon() time.Time { return time.Now().Add(118 * time.Second) }

func (f *fleet) bareOne(client *dynamic.DynamicClient, i int, deadline time.Time) error {
	stamp := fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %q}}}`, stampAnnotation, deadline.Add(-relayMargin).UTC().Format(time.RFC3339))
	if _, err := client.Resource(nodeclaims).Patch(f.ctx, fleetName(i), types.MergePatchType, stamp, metav1.PatchOptions{}); err != nil {
		return err
	}
	return client.Resource(nodeclaims).Delete(f.ctx, fleetName(i), metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(f.uids[i]))})
}

// usage is what a process holds and has used.
type usage struct {
	resident, private int64 // bytes
	cpu               time.Duration
	requests          int
}

func (c *central) usage() usage {
	c.t.Helper()
	dir := "/proc/" + strconv.Itoa(c.proc.Pid())
	u := usage{requests: len(c.requests(func(harness.AuditEntry) bool { return true }))}
	file, err := os.Open(dir + "/smaps_rollup")
	must(c.t, err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) != 3 {
			continue
		}
		kib, _ := strconv.ParseInt(words[1], 10, 64)
		switch words[0] {
		case "Rss:":
			u.resident = kib << 10
		case "Private_Clean:", "Private_Dirty:":
			u.private += kib << 10
		}
	}
	u.cpu, err = c.proc.CPU()
	must(c.t, err)
	return u
}

// idles lets it be for a while and gives its CPU a minute, with so many writes of Nodes a second as kubelets' own.
func (f *fleet) idles(c *central, size, perSecond int, d time.Duration) time.Duration {
	f.t.Helper()
	before, began := c.usage(), time.Now()
	if perSecond == 0 {
		time.Sleep(d)
	}
	for i := 0; perSecond > 0 && time.Since(began) < d; i++ {
		text := fmt.Appendf(nil, `{"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastHeartbeatTime": %q}]}}`,
			time.Now().UTC().Format(time.RFC3339))
		_, err := f.core.CoreV1().Nodes().Patch(f.ctx, fleetName(size-1-i%500), types.StrategicMergePatchType, text, metav1.PatchOptions{}, "status")
		must(f.t, err)
		time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(perSecond))))
	}
	return time.Duration(float64(c.usage().cpu-before.cpu) * float64(time.Minute) / float64(time.Since(began)))
}

// hasAll waits until it has heard of everything: it says so itself.
func (c *central) hasAll(address string, size int) {
	c.t.Helper()
	c.until("the controller has heard of everything", func() error {
		text, err := harness.Get(c.ctx, "http://"+address+"/metrics")
		if err != nil {
			return err
		}
		for _, kind := range []string{"Node", "NodeClaim"} {
			have := -1.0
			for line := range strings.Lines(text) {
				if strings.HasPrefix(line, "nodeclaim_controller_objects{") && strings.Contains(line, `"`+kind+`"`) {
					words := strings.Fields(line)
					have, _ = strconv.ParseFloat(words[len(words)-1], 64)
				}
			}
			if int(have) < size {
				return fmt.Errorf("%s: %.0f of %d", kind, have, size)
			}
		}
		return nil
	})
}

func figure(t *testing.T, name string, value float64, unit string) {
	t.Helper()
	fmt.Printf("%s %.2f %s\n", name, value, unit) // as all of ./dev bench
}

func TestControllerBench(t *testing.T) {
	if os.Getenv("CONFORMANCE_BENCH") == "" {
		t.Skip("without CONFORMANCE_BENCH")
	}
	ctx := within(t, 25*time.Minute)
	c, f := deploy(t, ctx), newFleet(t, ctx)
	next := 0
	for _, size := range []int{1000, 10000} {
		f.grow(max(size, len(f.uids)))
		t.Run(strconv.Itoa(size), func(t *testing.T) { benchOf(t, c, f, size, &next) })
	}
	c.checkManners()
}

// benchOf measures a controller that is started with so many nodes; next counts the nodes that have had their notice.
func benchOf(t *testing.T, c *central, f *fleet, size int, next *int) {
	ports, err := harness.FreePorts(1)
	must(t, err)
	address := "127.0.0.1:" + ports[0]
	began := time.Now()
	c.start("--mode", "karpenter", "--metrics-address", address)
	c.hasAll(address, size)
	prefix := fmt.Sprintf("controller_%d_", size)
	figure(t, prefix+"start_to_complete_lists", time.Since(began).Seconds()*1000, "ms")
	now := c.usage()
	figure(t, prefix+"cpu_of_the_lists", now.cpu.Seconds()*1000, "ms")
	figure(t, prefix+"resident_after_lists", float64(now.resident)/(1<<20), "MiB")
	figure(t, prefix+"idle_cpu_a_minute", f.idles(c, size, 0, 30*time.Second).Seconds()*1000, "ms")
	figure(t, prefix+"idle_cpu_a_minute_with_kubelets", f.idles(c, size, max(size/300, 1), 30*time.Second).Seconds()*1000, "ms")

	since, used, before := time.Now(), f.apiserver(), c.usage()
	f.sayAll(*next, *next+benchNotices, soon(), func(int) {})
	ours := f.measure(*next, *next+benchNotices, c.account.User(), since, used)
	*next += benchNotices
	now = c.usage()
	figure(t, prefix+"storm_cpu", (now.cpu-before.cpu).Seconds()*1000, "ms")
	figure(t, prefix+"resident", float64(now.resident)/(1<<20), "MiB")
	figure(t, prefix+"private", float64(now.private)/(1<<20), "MiB")
	t.Logf("controller: %v", ours)
	c.proc.Stop() // the bare client's words are not for it
	f.grow(max(*next+benchNotices, len(f.uids)))
	bare := f.bareRelay(c, *next, *next+benchNotices)
	*next += benchNotices
	t.Logf("bare client: %v", bare)
	figure(t, prefix+"notice_median", ours.median.Seconds()*1000, "ms")
	figure(t, prefix+"notice_longest", ours.longest.Seconds()*1000, "ms")
	figure(t, prefix+"storm_total", ours.total.Seconds()*1000, "ms")
	figure(t, prefix+"requests_a_node", ours.requests, "requests")
	figure(t, prefix+"apiserver_cpu_a_notice", ours.apiserver.Seconds()*1000, "ms")
	figure(t, prefix+"bare_apiserver_cpu_a_notice", bare.apiserver.Seconds()*1000, "ms")
	figure(t, prefix+"bare_notice_median", bare.median.Seconds()*1000, "ms")
	figure(t, prefix+"bare_notice_longest", bare.longest.Seconds()*1000, "ms")
	figure(t, prefix+"bare_storm_total", bare.total.Seconds()*1000, "ms")
	ratio := ours.total.Seconds() / bare.total.Seconds()
	figure(t, prefix+"storm_ratio_to_bare_client", ratio, "ratio")
	if ours.longest > benchMost && ratio > benchRatio {
		t.Errorf("the longest notice took %s, reach is %s; %.1f times what a bare client takes", ours.longest, benchMost, ratio)
	}
	if now.private > benchMostBytes {
		t.Errorf("%d KiB of its own, reach is 32 MiB", now.private>>10)
	}
}
