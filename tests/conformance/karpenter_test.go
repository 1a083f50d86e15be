// The main job: a bare instance with Karpenter's user data becomes a Ready node of an EKS-like cluster, and everything
// that is said about it is true.

package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const (
	bootstrapCondition  = "BootstrapComplete"
	bootstrapAnnotation = "nodeclaimd.io/bootstrap"
	mebi                = 1 << 20
)

func TestKarpenterNode(t *testing.T) {
	n := newNode(t, 1)
	must(t, cluster.AllowClaimLookup(n.ctx))
	claim, err := cluster.NewClaim(n.ctx, "default-abc12", n.instance, map[string]any{"key": "example.com/team", "value": "a", "effect": "NoSchedule"})
	must(t, err)
	defer cluster.DeleteClaim(n.ctx, claim.GetName())
	data := harness.UserData{MaxPods: 29, Labels: append(harness.KarpenterLabels(), "example.com/team=a"), Taints: []string{"example.com/team=a:NoSchedule"}}
	n.boot(data.For(cluster))

	created, err := cluster.ReadyNode(n.ctx, n.name, n.agent)
	must(t, err)
	t.Run("registered as rendered", func(t *testing.T) {
		n.checkRegistration(t, created)
		// The NodeClaim could be read before kubelet started: the labels that a kubelet may set are taken from it, too.
		n.checkAsked(t, data, "node.kubernetes.io/instance-type="+n.instance.Type, "topology.kubernetes.io/zone="+n.instance.Zone)
	})
	t.Run("allocatable as predicted", func(t *testing.T) {
		n.checkPredicted(t, created)
		n.checkRules(t, created, 29)
	})
	t.Run("silent before Karpenter registered it", func(t *testing.T) { n.checkSilence(t, created) })

	registered := time.Now()
	must(t, cluster.KarpenterRegisters(n.ctx, n.name, harness.OwnerOf(claim)))
	n.waitCondition(corev1.ConditionFalse, "KnownEphemeralTaintsExist")
	must(t, cluster.RemoveTaints(n.ctx, n.name, harness.TaintUninitialized, harness.TaintNotReady))
	must(t, cluster.KarpenterInitializes(n.ctx, n.name))
	if code := n.finish(); code != 0 {
		t.Fatalf("exit code %d", code)
	}

	t.Run("reported on the node", func(t *testing.T) { n.checkNodeReport(t, registered) })
	t.Run("reported in status.json", func(t *testing.T) { n.checkStatus(t, claim.GetName(), string(claim.GetUID())) })
	t.Run("reported on the console", func(t *testing.T) { n.checkConsole(t, "succeeded") })
	t.Run("preflight proves the identity", func(t *testing.T) { n.checkPreflight(t) })
	t.Run("kubelet serves with a signed certificate", func(t *testing.T) { n.checkServing(t) })
	t.Run("a pod runs", func(t *testing.T) { n.checkPod(t) })
	t.Run("nothing was refused", func(t *testing.T) { n.checkAudit(t) })
	t.Run("a second bootstrap changes nothing", func(t *testing.T) { n.checkSecond(t) })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// waitCondition waits for the agent's condition on the Node.
func (n *node) waitCondition(want corev1.ConditionStatus, reason string) *corev1.Node {
	n.t.Helper()
	var found *corev1.Node
	n.until(fmt.Sprintf("%s=%s %s", bootstrapCondition, want, reason), func() (err error) {
		if found, err = cluster.Client.CoreV1().Nodes().Get(n.ctx, n.name, metav1.GetOptions{}); err != nil {
			return err
		}
		c := harness.Condition(found, bootstrapCondition)
		if c == nil || c.Status != want || (reason != "" && c.Reason != reason) {
			return fmt.Errorf("condition is %+v", c)
		}
		return nil
	})
	return found
}

// checkAsked compares the rendered files with what Karpenter asked for.
func (n *node) checkAsked(t *testing.T, data harness.UserData, more ...string) {
	if have, asked := pairs(n.flag("node-labels")), pairs(strings.Join(slices.Concat(data.Labels, more), ",")); !maps.Equal(have, asked) {
		t.Errorf("rendered labels %v, asked %v", have, asked)
	}
	asked := append(slices.Clone(data.Taints), harness.TaintUnregistered+":NoExecute")
	if have := n.renderedTaints(t); !slices.Equal(have, sorted(asked)) {
		t.Errorf("rendered taints %v, asked %v", have, asked)
	}
}

func (n *node) renderedTaints(t *testing.T) []string {
	t.Helper()
	rendered, err := json.Marshal(n.rendered()["registerWithTaints"])
	must(t, err)
	var taints []corev1.Taint
	must(t, json.Unmarshal(rendered, &taints))
	return taintSet(taints)
}

// checkRegistration compares the Node with the rendered files: exactly these labels and taints, and the providerID.
func (n *node) checkRegistration(t *testing.T, created *corev1.Node) {
	if created.Spec.ProviderID != n.instance.ProviderID() || n.rendered()["providerID"] != created.Spec.ProviderID {
		t.Errorf("providerID %s, rendered %v, instance %s", created.Spec.ProviderID, n.rendered()["providerID"], n.instance.ProviderID())
	}
	labels, want := maps.Clone(created.Labels), pairs(n.flag("node-labels"))
	for _, own := range []string{"kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", "beta.kubernetes.io/arch", "beta.kubernetes.io/os"} {
		delete(labels, own) // kubelet's own
	}
	if !maps.Equal(labels, want) {
		t.Errorf("labels %v, rendered %v", labels, want)
	}
	// The API server adds not-ready, kubelet with an external cloud provider adds uninitialized.
	taints := sorted(append(n.renderedTaints(t), harness.TaintNotReady+":NoSchedule", harness.TaintUninitialized+"=true:NoSchedule"))
	if have := taintSet(created.Spec.Taints); !slices.Equal(have, taints) {
		t.Errorf("taints %v, want %v", have, taints)
	}
}

func pairs(text string) map[string]string {
	found := map[string]string{}
	if text == "" {
		return found
	}
	for _, pair := range strings.Split(text, ",") {
		key, value, _ := strings.Cut(pair, "=")
		found[key] = value
	}
	return found
}

func taintSet(taints []corev1.Taint) []string {
	var set []string
	for _, t := range taints {
		key := t.Key
		if t.Value != "" {
			key += "=" + t.Value
		}
		set = append(set, key+":"+string(t.Effect))
	}
	return sorted(set)
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// checkPredicted compares what kubelet reports with the prediction.
func (n *node) checkPredicted(t *testing.T, created *corev1.Node) {
	predicted := n.status().Allocatable.Predicted
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods} {
		want, err := resource.ParseQuantity(predicted[string(name)])
		if err != nil {
			t.Errorf("%s predicted as %q: %v", name, predicted[string(name)], err)
			continue
		}
		if have := created.Status.Allocatable[name]; have.Cmp(want) != 0 {
			t.Errorf("%s: kubelet says %s, predicted %s", name, have.String(), want.String())
		}
		have := created.Status.Allocatable[name]
		t.Logf("%s %s = predicted %s", name, have.String(), predicted[string(name)])
	}
}

// checkRules compares what kubelet reports with the rules as written down.
func (n *node) checkRules(t *testing.T, created *corev1.Node, pods int64) {
	if have := created.Status.Allocatable.Pods().Value(); have != pods {
		t.Errorf("pods %d, want %d", have, pods)
	}
	cpu := created.Status.Allocatable.Cpu().MilliValue()
	if want := int64(runtime.NumCPU()*1000) - reservedCPU(int64(runtime.NumCPU())*1000); cpu != want {
		t.Errorf("cpu %dm, by the rule %dm", cpu, want)
	}
	capacity, allocatable := created.Status.Capacity.Memory().Value(), created.Status.Allocatable.Memory().Value()
	if want := capacity - (11*29+255+100)*mebi; allocatable != want { // an m5.large has 29 pods by its network interfaces
		t.Errorf("memory %d, by the rule %d", allocatable, want)
	}
	disk, free := created.Status.Capacity.StorageEphemeral().Value(), created.Status.Allocatable.StorageEphemeral().Value()
	if want := float64(disk)*0.9 - 1<<30; math.Abs(float64(free)-want) > 4096 {
		t.Errorf("ephemeral storage %d, by the rule %.0f", free, want)
	}
}

// reservedCPU is 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest, in millicores.
func reservedCPU(total int64) int64 {
	sum := int64(0)
	for _, r := range []struct{ from, to, per10000 int64 }{{0, 1000, 600}, {1000, 2000, 100}, {2000, 4000, 50}, {4000, total, 25}} {
		if total > r.from {
			sum += (min(total, r.to) - r.from) * r.per10000 / 10000
		}
	}
	return sum
}

func (n *node) checkSilence(t *testing.T, created *corev1.Node) {
	if c := harness.Condition(created, bootstrapCondition); c != nil {
		t.Errorf("condition %+v", c)
	}
	if text, ok := created.Annotations[bootstrapAnnotation]; ok {
		t.Errorf("annotation %s", text)
	}
}

// checkNodeReport looks at the Node's condition and annotation, and that no write of the agent came before `registered`.
func (n *node) checkNodeReport(t *testing.T, registered time.Time) {
	node, err := cluster.Node(n.ctx, n.name)
	must(t, err)
	if c := harness.Condition(node, bootstrapCondition); c == nil || c.Status != corev1.ConditionTrue || c.Reason == "" || c.LastTransitionTime.IsZero() {
		t.Errorf("condition %+v", c)
	}
	if ready := harness.Condition(node, corev1.NodeReady); ready == nil || ready.Status != corev1.ConditionTrue {
		t.Errorf("Ready is %+v", ready)
	}
	var report map[string]any
	if err := json.Unmarshal([]byte(node.Annotations[bootstrapAnnotation]), &report); err != nil {
		t.Errorf("annotation %q: %v", node.Annotations[bootstrapAnnotation], err)
	}
	t.Logf("annotation %s", node.Annotations[bootstrapAnnotation])
	writes, err := cluster.Audit.Entries(func(e harness.AuditEntry) bool {
		return e.User.Username == "system:node:"+n.name && e.ObjectRef.Resource == "nodes" && e.Verb == "patch" && strings.HasPrefix(e.UserAgent, "nodeclaimd")
	})
	must(t, err)
	if len(writes) == 0 {
		t.Error("the agent wrote nothing to the Node")
	}
	for _, w := range writes {
		if w.RequestReceivedTimestamp.Before(registered) {
			t.Errorf("before Karpenter registered the node: %s", w)
		}
	}
	t.Logf("%d writes of the agent to the Node", len(writes))
}

func (n *node) checkStatus(t *testing.T, claim, uid string) {
	s := n.status()
	if s.Schema != 2 || s.Outcome != "succeeded" || s.Node != n.name || s.Instance.ID != n.instance.ID {
		t.Errorf("schema %d, outcome %s, node %s, instance %+v", s.Schema, s.Outcome, s.Node, s.Instance)
	}
	if s.NodeClaim == nil || s.NodeClaim.Name != claim || s.NodeClaim.UID != uid {
		t.Errorf("NodeClaim %+v, want %s %s", s.NodeClaim, claim, uid)
	}
	names := []string{"imds", "userdata", "config", "plan", "render", "apply", "preflight", "containerd", "start", "register", "initialize"}
	var have, times []string
	for _, p := range s.Phases {
		have = append(have, p.Name)
		times = append(times, fmt.Sprintf("%s %.1f ms", p.Name, float64(p.DurationUsec)/1000))
		if p.Outcome != "succeeded" {
			t.Errorf("phase %s: %s %+v", p.Name, p.Outcome, p.Error)
		}
	}
	if !slices.Equal(have, names) {
		t.Errorf("phases %v", have)
	}
	t.Log(strings.Join(times, ", "))
	// This machine is no m5.large: its memory and disk are not what the NodeClaim says, and that is explained.
	var differing []string
	for _, sentence := range s.Allocatable.Differences {
		name, _, _ := strings.Cut(sentence, ":")
		differing = append(differing, name)
		t.Log(sentence)
	}
	if !slices.Equal(sorted(differing), []string{"ephemeral-storage", "memory"}) {
		t.Errorf("differences %q", s.Allocatable.Differences)
	}
	t.Logf("actual %v, warnings %q", s.Allocatable.Actual, s.Warnings)
}

func (n *node) checkConsole(t *testing.T, outcome string) {
	text, err := n.m.Console()
	must(t, err)
	for line := range strings.Lines(text) {
		if _, tail, ok := strings.Cut(line, "nodeclaimd: {"); ok {
			if record := decode(t, "{"+tail); record["outcome"] == outcome && record["node"] == n.name && record["instance"] == n.instance.ID {
				return
			}
		}
	}
	t.Errorf("no line about %s on the console:\n%s", outcome, text)
}

func (n *node) checkPreflight(t *testing.T) {
	before := time.Now()
	out, err := n.run("preflight")
	if err != nil || !strings.Contains(out, "system:node:"+n.name) {
		t.Errorf("%v\n%s", err, out)
	}
	reviews, err := cluster.Audit.Entries(func(e harness.AuditEntry) bool {
		return e.ObjectRef.Resource == "selfsubjectreviews" && e.RequestReceivedTimestamp.After(before)
	})
	must(t, err)
	if len(reviews) == 0 || reviews[0].User.Username != "system:node:"+n.name || reviews[0].ResponseStatus.Code != 201 {
		t.Errorf("reviews %v", reviews)
	}
}

// checkServing asks kubelet through the API server, which trusts only the cluster's authority.
func (n *node) checkServing(t *testing.T) {
	effective := n.configz(t)
	for key, want := range map[string]string{
		"maxPods": "29", "clusterDNS": "[10.100.0.10]", "serverTLSBootstrap": "true", "protectKernelDefaults": "true",
		"kubeReserved": "map[cpu:70m ephemeral-storage:1Gi memory:574Mi]", "cgroupDriver": "cgroupfs", "clusterDomain": "cluster.local",
		"shutdownGracePeriod": "2m30s", "shutdownGracePeriodCriticalPods": "30s", "readOnlyPort": "<nil>", "hairpinMode": "hairpin-veth",
		"evictionHard": "map[memory.available:100Mi nodefs.available:10% nodefs.inodesFree:5%]",
	} {
		if have := fmt.Sprint(effective[key]); have != want && runtime.NumCPU() == 2 {
			t.Errorf("kubelet's %s is %s, want %s", key, have, want)
		}
	}
	if signed.of("system:node:"+n.name, "kubernetes.io/kubelet-serving") == 0 {
		t.Error("kubelet asked for no serving certificate")
	}
}

// configz is the configuration that kubelet runs with, as it says itself.
func (n *node) configz(t *testing.T) map[string]any {
	t.Helper()
	var raw []byte
	err := harness.Poll(n.ctx, "kubelet's /configz", nil, func() (err error) {
		raw, err = cluster.Client.CoreV1().RESTClient().Get().Resource("nodes").Name(n.name).SubResource("proxy").Suffix("configz").DoRaw(n.ctx)
		return err
	})
	must(t, err)
	config, ok := decode(t, string(raw))["kubeletconfig"].(map[string]any)
	if !ok {
		t.Fatalf("%s", raw)
	}
	return config
}

func (n *node) checkPod(t *testing.T) {
	no, seconds := false, int64(1)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "sleeper", Namespace: "default"}, Spec: corev1.PodSpec{
		NodeName: n.name, AutomountServiceAccountToken: &no, TerminationGracePeriodSeconds: &seconds,
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers:  []corev1.Container{{Name: "main", Image: "localhost/pause:1", ImagePullPolicy: corev1.PullNever}},
	}}
	pods := cluster.Client.CoreV1().Pods("default")
	_, err := pods.Create(n.ctx, pod, metav1.CreateOptions{})
	must(t, err)
	defer func() { _ = pods.Delete(n.ctx, "sleeper", *metav1.NewDeleteOptions(0)) }()
	must(t, harness.Poll(n.ctx, "the pod runs", nil, func() error {
		now, err := pods.Get(n.ctx, "sleeper", metav1.GetOptions{})
		if err == nil && (now.Status.Phase != corev1.PodRunning || now.Status.PodIP == "") {
			err = fmt.Errorf("%+v", now.Status)
		}
		return err
	}))
}

// checkAudit: in the good path no request of this node, kubelet's or the agent's, was refused.
func (n *node) checkAudit(t *testing.T) {
	refused, err := cluster.Audit.Refused("system:node:" + n.name)
	must(t, err)
	for _, e := range refused {
		t.Errorf("refused: %s (%s)", e, e.UserAgent)
	}
	byAgent, err := cluster.Audit.Entries(func(e harness.AuditEntry) bool {
		return e.User.Username == "system:node:"+n.name && strings.HasPrefix(e.UserAgent, "nodeclaimd")
	})
	must(t, err)
	counts := map[string]int{}
	for _, e := range byAgent {
		counts[e.Verb+" "+e.ObjectRef.Resource+strings.TrimSuffix("/"+e.ObjectRef.Subresource, "/")]++
		if e.Verb == "update" || e.Verb == "delete" || e.ResponseStatus.Code >= 400 && e.ResponseStatus.Code != 404 {
			t.Errorf("the agent: %s", e)
		}
	}
	t.Logf("the agent's requests: %v", counts)
	for _, reason := range iam.Rejected() {
		if strings.Contains(reason, n.instance.ID) {
			t.Errorf("token refused: %s", reason)
		}
	}
	for _, r := range n.imds.Requests() {
		if r.Status == 401 {
			t.Errorf("IMDS was asked without a valid token: %s %s", r.Method, r.Path)
		}
	}
}

// checkSecond: a bootstrap over a good one leaves every file as it was, and kubelet running.
func (n *node) checkSecond(t *testing.T) {
	listing := func() string {
		out, err := n.m.Run(n.ctx, "find", "/etc/kubernetes", "/etc/nodeclaimd", "/var/lib/kubelet/kubeconfig", "/etc/systemd/logind.conf.d",
			"-type", "f", "-printf", "%p %T@ %s\n")
		must(t, err)
		return out
	}
	before, kubelets := listing(), n.m.Pids("kubelet")
	n.start()
	if code := n.finish(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if after := listing(); after != before {
		t.Errorf("before\n%safter\n%s", before, after)
	}
	if now := n.m.Pids("kubelet"); !slices.Equal(now, kubelets) {
		t.Errorf("kubelet was %v, is %v", kubelets, now)
	}
}
