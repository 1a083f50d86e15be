// What the drain takes for granted of kube-apiserver, shown on the real one with a node's own identity. The program has no
// part in it; where one of these fails, its design is in question.

package conformance

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

func isNotFound(err error) bool { return apierrors.IsNotFound(err) }

// bareNode is a Node object without a kubelet, and its identity.
type bareNode struct {
	t    *testing.T
	ctx  context.Context
	name string
	wire *harness.Wire
}

func newBareNode(t *testing.T, name string) *bareNode {
	t.Helper()
	b := &bareNode{t: t, ctx: within(t, 60*time.Second), name: name}
	var err error
	b.wire, err = cluster.NodeWire(name)
	must(t, err)
	t.Cleanup(b.wire.Close)
	t.Cleanup(func() { cluster.Forget(context.Background(), name) })
	b.want(201, "POST", "/api/v1/nodes", "", map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name}})
	return b
}

// ask sends a request; it fails only where no answer comes.
func (b *bareNode) ask(method, path, kind string, body any) *harness.Answer {
	b.t.Helper()
	a, err := b.wire.Do(b.ctx, method, path, kind, body)
	must(b.t, err)
	return a
}

// want sends a request and looks at the code of the answer.
func (b *bareNode) want(code int, method, path, kind string, body any) *harness.Answer {
	b.t.Helper()
	a := b.ask(method, path, kind, body)
	if a.Code != code {
		b.t.Fatalf("%s %s: want %d, have %s", method, path, code, a)
	}
	return a
}

// pod makes a running pod on the node and waits until admission knows it: until then its node may not touch it.
func (b *bareNode) pod(namespace, name string, options ...podOption) *corev1.Pod {
	b.t.Helper()
	pod := makePod(b.t, b.ctx, namespace, name, b.name, options...)
	return b.known(pod)
}

// known starts a pod and waits until admission knows it.
func (b *bareNode) known(pod *corev1.Pod) *corev1.Pod {
	b.t.Helper()
	setPhase(b.t, b.ctx, pod, corev1.PodRunning)
	must(b.t, harness.Poll(b.ctx, "admission knows the pod", nil, func() error {
		a, err := b.wire.Do(b.ctx, "DELETE", podPath(pod)+"?dryRun=All", "", nil)
		if err == nil && a.Code != 200 {
			err = fmt.Errorf("%s", a)
		}
		return err
	}))
	return pod
}

func podPath(p *corev1.Pod) string { return "/api/v1/namespaces/" + p.Namespace + "/pods/" + p.Name }

// eviction is the body that asks for one, with the pod's uid as precondition.
func eviction(p *corev1.Pod, uid string, more map[string]any) map[string]any {
	options := map[string]any{"preconditions": map[string]any{"uid": uid}}
	for key, value := range more {
		options[key] = value
	}
	return map[string]any{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": map[string]any{"name": p.Name, "namespace": p.Namespace},
		"deleteOptions": options}
}

func (b *bareNode) evict(code int, p *corev1.Pod) *harness.Answer {
	b.t.Helper()
	return b.want(code, "POST", podPath(p)+"/eviction", "", eviction(p, string(p.UID), nil))
}

func deletion(p *corev1.Pod, seconds int) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": seconds, "preconditions": map[string]any{"uid": p.UID}}
}

// dig follows keys and indices into a decoded answer.
func dig(value any, path ...any) any {
	for _, step := range path {
		switch at := step.(type) {
		case string:
			object, _ := value.(map[string]any)
			value = object[at]
		case int:
			list, _ := value.([]any)
			if at >= len(list) {
				return nil
			}
			value = list[at]
		}
	}
	return value
}

func (b *bareNode) get() *corev1.Node {
	b.t.Helper()
	node, err := cluster.Client.CoreV1().Nodes().Get(b.ctx, b.name, metav1.GetOptions{})
	must(b.t, err)
	return node
}

// One strategic merge patch of nodes/NAME/status carries annotations and conditions; the answer is the whole Node.
func TestFactStatusPatchCarriesAnnotations(t *testing.T) {
	b := newBareNode(t, "fact-status")
	now := time.Now().UTC().Format(time.RFC3339)
	b.want(200, "PATCH", "/api/v1/nodes/"+b.name+"/status", harness.StrategicPatch, map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}}}})
	a := b.want(200, "PATCH", "/api/v1/nodes/"+b.name+"/status", harness.StrategicPatch, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"nodeclaimd.io/drain-status": `{"id":"x"}`}},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "InterruptionPending", "status": "True", "reason": "SpotInterruption",
			"message": "m", "lastTransitionTime": now, "lastHeartbeatTime": now}}},
	})
	for _, member := range []string{"metadata", "spec", "status", "kind"} {
		if a.Object[member] == nil {
			t.Errorf("the answer has no %s: %s", member, a)
		}
	}
	node := b.get()
	if node.Annotations["nodeclaimd.io/drain-status"] != `{"id":"x"}` {
		t.Errorf("annotations %v", node.Annotations)
	}
	if harness.Condition(node, "InterruptionPending") == nil || harness.Condition(node, "Ready") == nil {
		t.Errorf("conditions %+v", node.Status.Conditions)
	}
	b.want(200, "PATCH", "/api/v1/nodes/"+b.name+"/status", harness.StrategicPatch, `{"metadata": {"annotations": {"nodeclaimd.io/drain-status": null}}}`)
	if _, still := b.get().Annotations["nodeclaimd.io/drain-status"]; still {
		t.Error("null in a strategic merge patch did not remove the annotation")
	}
	spec := b.ask("PATCH", "/api/v1/nodes/"+b.name+"/status", harness.StrategicPatch, `{"spec": {"unschedulable": true}}`)
	t.Logf("unschedulable through /status: %d, taken: %v", spec.Code, b.get().Spec.Unschedulable)
}

// One merge patch of nodes/NAME cordons, labels and annotates; the answer is the whole Node, in which unschedulable false
// is absent. null removes what is not there, too.
func TestFactNodePatch(t *testing.T) {
	b := newBareNode(t, "fact-patch")
	path := "/api/v1/nodes/" + b.name
	a := b.want(200, "PATCH", path, harness.MergePatch, `{"metadata": {"annotations": {"nodeclaimd.io/cordon": "{}"},
 "labels": {"node.kubernetes.io/exclude-from-external-load-balancers": "nodeclaimd"}}, "spec": {"unschedulable": true}}`)
	if dig(a.Object, "spec", "unschedulable") != true || dig(a.Object, "metadata", "uid") == nil || a.Object["status"] == nil {
		t.Errorf("%s", a)
	}
	for range 2 {
		a = b.want(200, "PATCH", path, harness.MergePatch, `{"metadata": {"annotations": {"nodeclaimd.io/cordon": null},
 "labels": {"node.kubernetes.io/exclude-from-external-load-balancers": null}}, "spec": {"unschedulable": null}}`)
		if dig(a.Object, "spec", "unschedulable") != nil || dig(a.Object, "metadata", "labels", "node.kubernetes.io/exclude-from-external-load-balancers") != nil {
			t.Errorf("%s", a)
		}
	}
	for _, refused := range []string{`{"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}`, `{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "y"}]}}`} {
		b.want(403, "PATCH", path, harness.MergePatch, refused)
	}
	missing := b.ask("PATCH", "/api/v1/nodes/"+b.name+"-other", harness.MergePatch, `{"metadata": {"annotations": {"a": "b"}}}`)
	t.Logf("patch of another Node: %s", missing)
	cluster.Forget(b.ctx, b.name)
	missing = b.ask("PATCH", path, harness.MergePatch, `{"metadata": {"annotations": {"a": "b"}}}`)
	t.Logf("patch of the Node once it is deleted: %s", missing)
	if missing.Code != 404 {
		t.Errorf("%s", missing)
	}
}

// A patch that means another Node of the name, by its uid, is refused and changes nothing.
func TestFactPatchOfAnotherNode(t *testing.T) {
	b := newBareNode(t, "fact-another")
	path := "/api/v1/nodes/" + b.name
	before := b.want(200, "GET", path, "", nil)
	meta := map[string]any{"uid": "11111111-2222-3333-4444-555555555555", "annotations": map[string]any{"nodeclaimd.io/drain-status": "{}"}}
	condition := map[string]any{"type": "Drained", "status": "True", "reason": "NodeDrained", "message": "m"}
	patches := []struct {
		path, kind string
		body       map[string]any
	}{
		{path, harness.MergePatch, map[string]any{"metadata": meta, "spec": map[string]any{"unschedulable": true}}},
		{path + "/status", harness.StrategicPatch, map[string]any{"metadata": meta, "status": map[string]any{"conditions": []any{condition}}}},
	}
	for _, p := range patches {
		a := b.want(422, "PATCH", p.path, p.kind, p.body)
		t.Logf("patch with another Node's uid: %s", a)
		if !strings.Contains(a.Body, "metadata.uid: Invalid value") {
			t.Errorf("the uid is not named: %s", a)
		}
	}
	if after := b.want(200, "GET", path, "", nil); dig(after.Object, "metadata", "resourceVersion") != dig(before.Object, "metadata", "resourceVersion") {
		t.Errorf("the Node was changed: %s", after)
	}
	meta["uid"] = dig(before.Object, "metadata", "uid")
	for _, p := range patches {
		b.want(200, "PATCH", p.path, p.kind, p.body)
	}
}

// A node may mark its pods as disrupted, before they are deleted and while they terminate.
func TestFactDisruptionTarget(t *testing.T) {
	b := newBareNode(t, "fact-mark")
	p := b.pod("default", "fact-mark")
	mark := map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "DisruptionTarget", "status": "True",
		"reason": "TerminationByNodeclaimd", "message": "m", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}}}}
	withUID := map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": mark["status"]}
	a := b.want(200, "PATCH", podPath(p)+"/status", harness.StrategicPatch, withUID)
	if !strings.Contains(a.Body, `"DisruptionTarget"`) || !strings.Contains(a.Body, `"Ready"`) {
		t.Errorf("%s", a)
	}
	b.want(200, "DELETE", podPath(p), "", deletion(p, 20))
	b.want(200, "PATCH", podPath(p)+"/status", harness.StrategicPatch, mark)
	other := map[string]any{"metadata": map[string]any{"uid": "11111111-2222-3333-4444-555555555555"}, "status": mark["status"]}
	a = b.ask("PATCH", podPath(p)+"/status", harness.StrategicPatch, other)
	t.Logf("status patch with another pod's uid: %s", a)
	if a.Code != 422 {
		t.Errorf("a mark with another uid was not refused with 422: %s", a)
	}
}

// An eviction takes a uid and a grace; the pod gets DisruptionTarget and terminates.
func TestFactEviction(t *testing.T) {
	b := newBareNode(t, "fact-evict")
	p := b.pod("default", "fact-evict", grace(30))
	a := b.want(201, "POST", podPath(p)+"/eviction", "", eviction(p, string(p.UID), map[string]any{"gracePeriodSeconds": 12}))
	t.Logf("accepted: %s", a)
	now, err := getPod(b.ctx, p)
	must(t, err)
	if now == nil || now.DeletionGracePeriodSeconds == nil || *now.DeletionGracePeriodSeconds != 12 || now.DeletionTimestamp == nil {
		t.Fatalf("%+v", now)
	}
	if until := time.Until(now.DeletionTimestamp.Time); until < 10*time.Second || until > 13*time.Second {
		t.Errorf("terminates in %s", until)
	}
	found := false
	for _, c := range now.Status.Conditions {
		found = found || c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "EvictionByEvictionAPI"
	}
	if !found {
		t.Errorf("conditions %+v", now.Status.Conditions)
	}
}

// The grace of a second DELETE counts from the first request.
func TestFactSecondGrace(t *testing.T) {
	b := newBareNode(t, "fact-grace")
	p := b.pod("default", "fact-grace", grace(3600))
	b.evict(201, p)
	first, err := getPod(b.ctx, p)
	must(t, err)
	requested := first.DeletionTimestamp.Add(-time.Duration(*first.DeletionGracePeriodSeconds) * time.Second)
	if off := time.Since(requested); math.Abs(off.Seconds()) > 1.5 {
		t.Fatalf("deletionTimestamp - deletionGracePeriodSeconds is %s ago", off)
	}
	time.Sleep(4 * time.Second) // the arithmetic is about time that has passed

	const left = 6.0
	ask := int(math.Ceil(time.Since(requested).Seconds() + left))
	b.want(200, "DELETE", podPath(p), "", deletion(p, ask))
	second, err := getPod(b.ctx, p)
	must(t, err)
	rest := time.Until(second.DeletionTimestamp.Time).Seconds()
	t.Logf("asked for %d s, %.1f s after the first request: %.1f s are left, deletionGracePeriodSeconds %d", ask, time.Since(requested).Seconds(), rest, *second.DeletionGracePeriodSeconds)
	if math.Abs(rest-left) > 1.5 {
		t.Errorf("%.1f s are left, want about %.0f", rest, left)
	}
	a := b.want(200, "DELETE", podPath(p), "", deletion(p, 60))
	third, err := getPod(b.ctx, p)
	must(t, err)
	if !third.DeletionTimestamp.Equal(second.DeletionTimestamp) {
		t.Errorf("a longer grace was taken: %s", a)
	}
	b.want(200, "DELETE", podPath(p), "", deletion(p, 2)) // less than what has passed already
	fourth, err := getPod(b.ctx, p)
	must(t, err)
	if fourth != nil {
		t.Logf("asked for 2 s: %.1f s are left, deletionGracePeriodSeconds %d", time.Until(fourth.DeletionTimestamp.Time).Seconds(), *fourth.DeletionGracePeriodSeconds)
		if *fourth.DeletionGracePeriodSeconds != 1 {
			t.Errorf("deletionGracePeriodSeconds %d, want 1", *fourth.DeletionGracePeriodSeconds)
		}
	}
}

// A pod that has ended vanishes with its DELETE, whatever grace it has; a Job's pod once its finalizer is taken off.
func TestFactEndedPodVanishes(t *testing.T) {
	b := newBareNode(t, "fact-ended")
	for _, phase := range []corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded} {
		p := b.pod("default", "fact-ended", grace(3600))
		setPhase(t, b.ctx, p, phase)
		b.want(200, "DELETE", podPath(p), "", map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": map[string]any{"uid": p.UID}})
		if now, err := getPod(b.ctx, p); err != nil || now != nil {
			t.Errorf("%s: %v %v", phase, now, err)
		}
	}
	p := b.pod("default", "fact-tracked", grace(3600), func(p *corev1.Pod) { p.Finalizers = []string{"batch.kubernetes.io/job-tracking"} })
	setPhase(t, b.ctx, p, corev1.PodFailed)
	b.want(200, "DELETE", podPath(p), "", map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": map[string]any{"uid": p.UID}})
	now, err := getPod(b.ctx, p)
	if err != nil || now == nil || now.DeletionTimestamp == nil || *now.DeletionGracePeriodSeconds != 0 {
		t.Errorf("%v %v", now, err)
	}
}

// What an eviction that may not be looks like.
func TestFactRefusals(t *testing.T) {
	b := newBareNode(t, "fact-refusals")
	p := b.pod("default", "fact-refused", labelled("app", "fact"))
	expect := func(t *testing.T, a *harness.Answer, code int, reason, cause string) {
		t.Helper()
		t.Logf("Retry-After %q, %s", a.Header.Get("Retry-After"), a)
		if a.Code != code || dig(a.Object, "reason") != nonEmpty(reason) || dig(a.Object, "details", "causes", 0, "reason") != nonEmpty(cause) {
			t.Errorf("want %d, reason %q, first cause %q", code, reason, cause)
		}
	}
	try := func() *harness.Answer {
		return b.ask("POST", podPath(p)+"/eviction", "", eviction(p, string(p.UID), nil))
	}

	t.Run("uid mismatch", func(t *testing.T) {
		a := b.ask("POST", podPath(p)+"/eviction", "", eviction(p, "11111111-2222-3333-4444-555555555555", nil))
		expect(t, a, 409, "Conflict", "")
		a = b.ask("DELETE", podPath(p), "", map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": map[string]any{"uid": "x"}})
		expect(t, a, 409, "Conflict", "")
	})
	t.Run("no such pod", func(t *testing.T) {
		gone := p.DeepCopy()
		gone.Name = "fact-nobody"
		expect(t, b.ask("POST", podPath(gone)+"/eviction", "", eviction(gone, "x", nil)), 404, "NotFound", "")
	})
	t.Run("budget", func(t *testing.T) {
		makeBudget(t, b.ctx, "default", "fact-budget", "fact", 0)
		eventually(t, b.ctx, func() error { return codeIs(try(), 429) })
		a := try()
		expect(t, a, 429, "TooManyRequests", "DisruptionBudget")
		if message, _ := dig(a.Object, "details", "causes", 0, "message").(string); !strings.HasPrefix(message, "The disruption budget fact-budget needs ") {
			t.Errorf("the cause's message is %q", message)
		}
	})
	t.Run("budget whose status is stale", func(t *testing.T) {
		makeBudget(t, b.ctx, "default", "fact-stale", "fact", 1)
		budget, err := cluster.Client.PolicyV1().PodDisruptionBudgets("default").Get(b.ctx, "fact-stale", metav1.GetOptions{})
		must(t, err)
		budget.Status.ObservedGeneration--
		_, err = cluster.Client.PolicyV1().PodDisruptionBudgets("default").UpdateStatus(b.ctx, budget, metav1.UpdateOptions{})
		must(t, err)
		expect(t, try(), 429, "TooManyRequests", "DisruptionBudget")
	})
	t.Run("two budgets", func(t *testing.T) {
		makeBudget(t, b.ctx, "default", "fact-one", "fact", 0)
		makeBudget(t, b.ctx, "default", "fact-two", "fact", 0)
		expect(t, try(), 500, "", "")
	})
	t.Run("on another node", func(t *testing.T) {
		far := makePod(t, b.ctx, "default", "fact-far", "fact-elsewhere")
		eventually(t, b.ctx, func() error {
			return codeIs(b.ask("POST", podPath(far)+"/eviction", "", eviction(far, string(far.UID), nil)), 403)
		})
		expect(t, b.ask("POST", podPath(far)+"/eviction", "", eviction(far, string(far.UID), nil)), 403, "Forbidden", "")
	})
}

// In a namespace that is being deleted nothing can be created, evictions neither; marks and deletions go on.
func TestFactNamespaceTerminating(t *testing.T) {
	b := newBareNode(t, "fact-namespace")
	makeNamespace(t, b.ctx, "fact-ending")
	p := b.pod("fact-ending", "fact-ending")
	must(t, cluster.Client.CoreV1().Namespaces().Delete(b.ctx, "fact-ending", metav1.DeleteOptions{}))
	eventually(t, b.ctx, func() error {
		return codeIs(b.ask("POST", podPath(p)+"/eviction?dryRun=All", "", eviction(p, string(p.UID), nil)), 403)
	})
	a := b.ask("POST", podPath(p)+"/eviction", "", eviction(p, string(p.UID), nil))
	t.Logf("Retry-After %q, %s", a.Header.Get("Retry-After"), a)
	if a.Code != 403 || dig(a.Object, "reason") != "Forbidden" || dig(a.Object, "details", "causes", 0, "reason") != "NamespaceTerminating" {
		t.Errorf("%s", a)
	}
	b.want(200, "PATCH", podPath(p)+"/status", harness.StrategicPatch, `{"status": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}}`)
	b.want(200, "DELETE", podPath(p), "", deletion(p, 5))
}

// A pod is bound to a cordoned node where somebody says so: a cordon keeps the scheduler away, nobody else.
func TestFactCordonedNodeIsBoundTo(t *testing.T) {
	b := newBareNode(t, "fact-late")
	b.want(200, "PATCH", "/api/v1/nodes/"+b.name, harness.MergePatch, `{"spec": {"unschedulable": true}}`)
	p := makePod(t, b.ctx, "default", "fact-late", "")
	bind(t, b.ctx, p, b.name)
	eventually(t, b.ctx, func() error {
		return codeIs(b.ask("POST", podPath(p)+"/eviction", "", eviction(p, string(p.UID), nil)), 201)
	})
}

// A pod that was bound this moment may be unknown to admission still: the answer is then 404 although the pod is there.
func TestFactFreshPodMayBeUnknown(t *testing.T) {
	b := newBareNode(t, "fact-fresh")
	codes := map[string]int{}
	for i := range 30 {
		p := makePod(t, b.ctx, "default", fmt.Sprintf("fact-fresh-%d", i), b.name)
		var a *harness.Answer
		for {
			a = b.ask("POST", podPath(p)+"/eviction", "", eviction(p, string(p.UID), nil))
			codes[strings.ReplaceAll(fmt.Sprintf("%d %v", a.Code, dig(a.Object, "message")), p.Name, "P")]++
			if a.Code == 201 {
				break
			}
		}
	}
	t.Logf("30 evictions, each repeated from the pod's creation on until it was accepted: %v", codes)
	for code := range codes {
		if !strings.HasPrefix(code, "201") && !strings.HasPrefix(code, "404") {
			t.Errorf("%s", code)
		}
	}
}

// A pod that was there unbound is known to admission as such for a moment longer: the answer is then 403.
func TestFactFreshlyBoundPodMayBeForeign(t *testing.T) {
	b := newBareNode(t, "fact-bound")
	codes := map[string]int{}
	for i := range 30 {
		p := makePod(t, b.ctx, "default", fmt.Sprintf("fact-bound-%d", i), "")
		eventually(t, b.ctx, func() error { // known, as another's
			return codeIs(b.ask("POST", podPath(p)+"/eviction", "", eviction(p, string(p.UID), nil)), 403)
		})
		bind(t, b.ctx, p, b.name)
		for code := 0; code != 201; {
			code = b.ask("POST", podPath(p)+"/eviction", "", eviction(p, string(p.UID), nil)).Code
			codes[fmt.Sprint(code)]++
		}
	}
	t.Logf("30 evictions, each repeated from the binding on until it was accepted: %v", codes)
	for code := range codes {
		if code != "201" && code != "403" {
			t.Errorf("%s", code)
		}
	}
}

// bind is what a scheduler does that does not look at the cordon, or that decided before it.
func bind(t *testing.T, ctx context.Context, p *corev1.Pod, node string) {
	t.Helper()
	must(t, cluster.Client.CoreV1().Pods(p.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace},
		Target:     corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node}}, metav1.CreateOptions{}))
}

func nonEmpty(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func codeIs(a *harness.Answer, code int) error {
	if a.Code != code {
		return fmt.Errorf("%s", a)
	}
	return nil
}

// eventually waits for what the API server's own caches must hear of first.
func eventually(t *testing.T, ctx context.Context, check func() error) {
	t.Helper()
	must(t, harness.Poll(ctx, t.Name(), nil, check))
}
