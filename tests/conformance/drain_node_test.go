// What the tests of the daemon share: a node that may be told to end, the daemon on it, and what it asked of the API server
// according to the audit log.

package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const (
	pendingCondition  = "InterruptionPending"
	drainedCondition  = "Drained"
	drainAnnotation   = "nodeclaimd.io/drain-status"
	cordonAnnotation  = "nodeclaimd.io/cordon"
	balancersLabel    = "node.kubernetes.io/exclude-from-external-load-balancers"
	balancersValue    = "nodeclaimd"
	disruptedTaint    = "karpenter.sh/disrupted"
	doNotDisrupt      = "karpenter.sh/do-not-disrupt"
	nodeKubeconfig    = "/var/lib/kubelet/kubeconfig"
	daemonUserAgent   = "(run)"
	drainSettingsPath = "/etc/nodeclaimd/conf.d/60-drain.yaml"
)

// newKubeletNode brings a spot instance up with the program's own bootstrap; kubelet and its pods are real.
func newKubeletNode(t *testing.T, number int, kubeletSettings string) *node {
	t.Helper()
	n := newNode(t, number)
	must(t, cluster.DenyClaimLookup(n.ctx))
	n.instance.LifeCycle = "spot"
	n.write(dropInDir+"90-test.conf", strings.Replace(testSettings, "}", kubeletSettings+"}", 1))
	n.boot(harness.UserData{MaxPods: 58, Labels: harness.KarpenterLabels()}.For(cluster))
	n.karpenter(nil)
	if code := n.finish(); code != 0 {
		t.Fatalf("the bootstrap ended with %d", code)
	}
	return n
}

// newPlainNode is a spot instance whose Node is an object alone: there is no kubelet, pods are played by the watch.
func newPlainNode(t *testing.T, number int, change ...func(*corev1.Node)) *node {
	t.Helper()
	repeats[number]++
	return plainNodeOf(t, harness.NewInstance(number+1000*(repeats[number]-1)), change...)
}

// plainNodeOf is newPlainNode for an instance that is there already.
func plainNodeOf(t *testing.T, instance *harness.Instance, change ...func(*corev1.Node)) *node {
	t.Helper()
	n := &node{t: t, ctx: within(t, 120*time.Second), instance: instance}
	n.instance.LifeCycle = "spot"
	n.name = n.instance.Hostname
	dir, err := os.MkdirTemp(workDir, strings.ReplaceAll(t.Name(), "/", "-")+"-")
	must(t, err)
	n.m, err = harness.NewBareMachine(n.ctx, dir)
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(n.m.LogTail(60))
		}
		n.m.Stop()
	})
	n.identify()
	n.serve(imdsAddress, harness.UserData{MaxPods: 58, Labels: harness.KarpenterLabels()}.For(cluster))
	n.register(change...)
	return n
}

// identify gives the machine the kubeconfig that a bootstrapped one has, with a certificate.
func (n *node) identify() {
	n.t.Helper()
	cert, key, err := cluster.CA.Issue("system:node:"+n.name, []string{"system:nodes"})
	must(n.t, err)
	n.write("/etc/kubernetes/pki/ca.crt", string(cluster.CA.PEM))
	n.write("/var/lib/kubelet/pki/node.crt", string(cert))
	n.write("/var/lib/kubelet/pki/node.key", string(key))
	n.write(nodeKubeconfig, kubeconfigOf(cluster.Endpoint))
}

// kubeconfigOf is of a node with a certificate.
func kubeconfigOf(endpoint string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "x",
 "clusters": [{"name": "x", "cluster": {"server": %q, "certificate-authority": "/etc/kubernetes/pki/ca.crt"}}],
 "users": [{"name": "x", "user": {"client-certificate": "/var/lib/kubelet/pki/node.crt", "client-key": "/var/lib/kubelet/pki/node.key"}}],
 "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}]}`, endpoint)
}

// register creates the Node as kubelet does, and says Ready.
func (n *node) register(change ...func(*corev1.Node)) {
	n.t.Helper()
	wire, err := cluster.NodeWire(n.name)
	must(n.t, err)
	defer wire.Close()
	object := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: map[string]string{
		"karpenter.sh/nodepool": "default", corev1.LabelHostname: n.name}}, Spec: corev1.NodeSpec{ProviderID: n.instance.ProviderID()}}
	for _, c := range change {
		c(object)
	}
	for _, write := range []struct {
		method, path, kind string
		body               any
		code               int
	}{
		{"POST", "/api/v1/nodes", "", object, 201},
		{"PATCH", "/api/v1/nodes/" + n.name + "/status", harness.StrategicPatch, readyStatus(), 200},
	} {
		a, err := wire.Do(n.ctx, write.method, write.path, write.kind, write.body)
		must(n.t, err)
		must(n.t, codeIs(a, write.code))
	}
	n.t.Cleanup(func() { cluster.Forget(context.Background(), n.name) })
	must(n.t, cluster.RemoveTaints(n.ctx, n.name, harness.TaintNotReady))
}

func readyStatus() map[string]any {
	now := time.Now().UTC().Format(time.RFC3339)
	return map[string]any{"status": map[string]any{
		"capacity": map[string]any{"cpu": "2", "pods": "200"}, "allocatable": map[string]any{"cpu": "1930m", "pods": "200"},
		"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
			"lastHeartbeatTime": now, "lastTransitionTime": now}}}}
}

// settings writes the part of the configuration that is about endings, line by line below spec.
func (n *node) settings(lines ...string) {
	n.t.Helper()
	text := "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec:\n"
	for _, line := range lines {
		text += "  " + line + "\n"
	}
	n.write(drainSettingsPath, text)
}

// follow watches the node's pods; takes plays kubelet where there is none.
func (n *node) follow(takes func(*corev1.Pod) time.Duration) *harness.PodWatch {
	n.t.Helper()
	w, err := cluster.WatchPods(n.ctx, n.name, takes)
	must(n.t, err)
	return w
}

// takeSeconds is a kubelet whose pods all take so long.
func takeSeconds(s float64) func(*corev1.Pod) time.Duration {
	return func(*corev1.Pod) time.Duration { return time.Duration(s * float64(time.Second)) }
}

// keep starts the daemon and waits until it is connected and watches its Node.
func (n *node) keep(args ...string) {
	n.t.Helper()
	since := time.Now()
	n.launch(args...)
	n.until("the daemon watches its Node", func() error {
		seen, err := n.asked(func(e harness.AuditEntry) bool {
			return e.ObjectRef.Resource == "nodes" && (e.Verb == "list" || e.Verb == "watch" || e.Verb == "get") && e.StageTimestamp.After(since)
		})
		if err == nil && len(seen) == 0 {
			err = fmt.Errorf("it has not asked for it")
		}
		return err
	})
}

func (n *node) launch(args ...string) {
	n.t.Helper()
	var err error
	n.agent, err = n.m.Start("daemon", nil, append([]string{program, "run"}, args...)...)
	must(n.t, err)
	n.t.Cleanup(n.agent.Stop)
}

// kill is kill -9 of the daemon alone.
func (n *node) kill() {
	n.t.Helper()
	must(n.t, syscall.Kill(n.agent.Pid(), syscall.SIGKILL))
	<-n.agent.Done()
}

// asked gives what the daemon asked of the API server, in order of arrival.
func (n *node) asked(match func(harness.AuditEntry) bool) ([]harness.AuditEntry, error) {
	list, err := cluster.Audit.Entries(func(e harness.AuditEntry) bool {
		return e.User.Username == "system:node:"+n.name && strings.Contains(e.UserAgent, daemonUserAgent) && match(e)
	})
	sortByArrival(list)
	return list, err
}

// requests gives those of one kind ("create pods/eviction") for one object, "" for any.
func (n *node) requests(what, namespace, name string) []harness.AuditEntry {
	n.t.Helper()
	list, err := n.asked(func(e harness.AuditEntry) bool {
		return e.What() == what && (name == "" || e.ObjectRef.Name == name && e.ObjectRef.Namespace == namespace)
	})
	must(n.t, err)
	return list
}

// about gives all of the daemon's writes that concern a pod.
func (n *node) about(p *corev1.Pod) []harness.AuditEntry {
	n.t.Helper()
	list, err := n.asked(func(e harness.AuditEntry) bool {
		return e.ObjectRef.Resource == "pods" && e.ObjectRef.Name == p.Name && e.ObjectRef.Namespace == p.Namespace
	})
	must(n.t, err)
	return list
}

func sortByArrival(list []harness.AuditEntry) {
	slices.SortStableFunc(list, func(a, b harness.AuditEntry) int {
		return a.RequestReceivedTimestamp.Compare(b.RequestReceivedTimestamp)
	})
}

func accepted(list []harness.AuditEntry) []harness.AuditEntry {
	var found []harness.AuditEntry
	for _, e := range list {
		if e.ResponseStatus.Code >= 200 && e.ResponseStatus.Code < 300 {
			found = append(found, e)
		}
	}
	return found
}

// body reads a number or text out of what was sent.
func body(e harness.AuditEntry, path ...any) any {
	var tree any
	_ = json.Unmarshal(e.RequestObject, &tree)
	return dig(tree, path...)
}

// drainStatus is the annotation that controllers read.
type drainStatus struct {
	ID, Source, Phase string
	Deadline          *time.Time
	Total, Remaining  int
	Blocked           []string
	Updated           time.Time
}

func (n *node) drainStatus(node *corev1.Node) (*drainStatus, error) {
	text, ok := node.Annotations[drainAnnotation]
	if !ok {
		return nil, fmt.Errorf("no annotation %s: %v", drainAnnotation, node.Annotations)
	}
	s := &drainStatus{}
	if err := json.Unmarshal([]byte(text), s); err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	return s, nil
}

// untilNode waits until the Node is as check wants it.
func (n *node) untilNode(what string, check func(*corev1.Node) error) *corev1.Node {
	n.t.Helper()
	var found *corev1.Node
	n.until(what, func() (err error) {
		if found, err = cluster.Client.CoreV1().Nodes().Get(n.ctx, n.name, metav1.GetOptions{}); err != nil {
			return err
		}
		return check(found)
	})
	return found
}

// untilPhase waits until the annotation says so.
func (n *node) untilPhase(phase string) *corev1.Node {
	n.t.Helper()
	return n.untilNode("drain-status says "+phase, func(node *corev1.Node) error {
		s, err := n.drainStatus(node)
		if err == nil && s.Phase != phase {
			err = fmt.Errorf("%+v", *s)
		}
		return err
	})
}

func conditionIs(node *corev1.Node, kind corev1.NodeConditionType, want corev1.ConditionStatus, reason string) error {
	c := harness.Condition(node, kind)
	if c == nil || c.Status != want || reason != "" && c.Reason != reason {
		return fmt.Errorf("condition %s is %+v, want %s %s", kind, c, want, reason)
	}
	return nil
}

// isDrained waits for the Node as it is at the end of a drain.
func (n *node) isDrained(reason string) *corev1.Node {
	n.t.Helper()
	return n.untilNode("the Node is drained", func(node *corev1.Node) error {
		if err := conditionIs(node, drainedCondition, corev1.ConditionTrue, ""); err != nil {
			return fmt.Errorf("%w; %s", err, node.Annotations[drainAnnotation])
		}
		if !node.Spec.Unschedulable || node.Labels[balancersLabel] != balancersValue || node.Annotations[cordonAnnotation] == "" {
			return fmt.Errorf("unschedulable %v, labels %v, annotations %v", node.Spec.Unschedulable, node.Labels, node.Annotations)
		}
		return conditionIs(node, pendingCondition, corev1.ConditionTrue, reason)
	})
}

// checkRefusals: the daemon sent nothing that the authorizer or an admission plugin refuses to nodes. What a namespace that
// is being deleted refuses to everybody is none of it, and a NodeClaim may be closed to the node.
func (n *node) checkRefusals(t *testing.T) {
	t.Helper()
	refused, err := n.asked(func(e harness.AuditEntry) bool {
		return (e.ResponseStatus.Code == 401 || e.ResponseStatus.Code == 403 || e.ResponseStatus.Code == 422 || e.ResponseStatus.Code == 400) &&
			!strings.Contains(e.ResponseStatus.Message, "is being terminated") && e.ObjectRef.Resource != "nodeclaims"
	})
	must(t, err)
	for _, e := range refused {
		t.Errorf("refused: %s", e)
	}
	all, err := n.asked(func(harness.AuditEntry) bool { return true })
	must(t, err)
	counts := map[string]int{}
	for _, e := range all {
		counts[fmt.Sprintf("%s %d", e.What(), e.ResponseStatus.Code)]++
		if e.Verb == "update" || e.Verb == "deletecollection" || e.What() == "delete nodes" {
			t.Errorf("never: %s", e)
		}
		if e.ObjectRef.Resource == "pods" && (e.Verb == "list" || e.Verb == "watch") && !strings.Contains(e.RequestURI, "fieldSelector=spec.nodeName") {
			t.Errorf("without its selector: %s", e)
		}
	}
	t.Logf("the daemon's requests: %v", counts)
}

// checkOrder: the signal was stored before the cordon was sent, and the cordon before the first eviction.
func (n *node) checkOrder(t *testing.T) (signal, cordon harness.AuditEntry) {
	t.Helper()
	signals, cordons, evictions := accepted(n.requests("patch nodes/status", "", "")), []harness.AuditEntry(nil), n.requests("create pods/eviction", "", "")
	for _, e := range accepted(n.requests("patch nodes", "", "")) {
		if body(e, "spec", "unschedulable") == true {
			cordons = append(cordons, e)
		}
	}
	if len(signals) == 0 || len(cordons) == 0 {
		t.Fatalf("signals %v, cordons %v", signals, cordons)
	}
	signal, cordon = signals[0], cordons[0]
	if cordon.RequestReceivedTimestamp.Before(signal.StageTimestamp) {
		t.Errorf("cordoned before the signal was stored: %s; %s", signal, cordon)
	}
	if len(evictions) > 0 && evictions[0].RequestReceivedTimestamp.Before(cordon.StageTimestamp) {
		t.Errorf("evicted before the cordon was stored: %s; %s", cordon, evictions[0])
	}
	if body(signal, "metadata", "annotations", drainAnnotation) == nil || body(signal, "status", "conditions", 0, "type") != pendingCondition {
		t.Errorf("the first write is no signal: %s", signal.RequestObject)
	}
	return signal, cordon
}

// checkEvents looks for these reasons among the Events on the Node.
func (n *node) checkEvents(t *testing.T, reasons ...string) {
	t.Helper()
	for _, reason := range reasons {
		must(t, harness.Poll(n.ctx, "an Event "+reason, nil, func() error {
			list, err := cluster.Client.CoreV1().Events("default").List(n.ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + n.name})
			if err != nil {
				return err
			}
			var have []string
			for _, e := range list.Items {
				if e.Source.Component == "nodeclaimd" && e.Reason == reason {
					if e.Type == "" || e.Count < 1 || e.FirstTimestamp.IsZero() || e.LastTimestamp.IsZero() || e.Message == "" {
						t.Errorf("half an Event: %+v", e)
					}
					return nil
				}
				have = append(have, e.Source.Component+": "+e.Reason+" "+e.Message)
			}
			return fmt.Errorf("there are %q", have)
		}))
	}
}

// sinceNotice prints how long the cordon took from the moment that IMDS first said so.
func (n *node) sinceNotice(t *testing.T, said time.Time, cordon harness.AuditEntry) {
	t.Helper()
	for _, r := range n.imds.Requests() {
		if r.Path == harness.SpotNotice && r.Status == 200 {
			t.Logf("IMDS says it; asked %.0f ms later; cordon stored %.1f ms after that answer",
				r.At.Sub(said).Seconds()*1000, cordon.StageTimestamp.Sub(r.At).Seconds()*1000)
			return
		}
	}
	t.Error("IMDS was never asked while the notice stood")
}
