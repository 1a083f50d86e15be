// Many pods below one budget: the API server lets their evictions queue for the budget's status, some for seconds.

package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const (
	crowded = 60
	flooded = 4100 // more pods than the daemon keeps
)

// An eviction may be held for seconds where others ask below the same budget; nothing is wrong with it. After 20 conflicts,
// half a second apart, the API server passes the last one on.
func TestFactEvictionsQueueForABudget(t *testing.T) {
	b := newBareNode(t, "fact-queue")
	w, err := cluster.WatchPods(b.ctx, b.name, takeSeconds(1))
	must(t, err)
	there := &node{t: t, ctx: b.ctx, name: b.name}
	pods := there.makePods(w, "queue", crowded, labelled("app", "queue"))
	makeBudget(t, b.ctx, "default", "queue", "queue", crowded)
	codes, longest := map[int]int{}, time.Duration(0)
	var all sync.WaitGroup
	var lock sync.Mutex
	for _, p := range pods {
		all.Go(func() {
			began := time.Now()
			a, err := b.wire.Do(b.ctx, "POST", podPath(p)+"/eviction", "", eviction(p, string(p.UID), nil))
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				return
			}
			codes[a.Code]++
			longest = max(longest, time.Since(began))
			if a.Code == 409 && time.Since(began) < 9*time.Second {
				t.Errorf("a conflict after %s: %s", time.Since(began), a)
			}
		})
	}
	all.Wait()
	t.Logf("%d evictions below one budget: %v, the longest %s", crowded, codes, longest)
	if codes[201] == 0 || codes[201]+codes[409] != crowded {
		t.Errorf("%v", codes)
	}
}

// All pods of a budget that allows it leave, each with one accepted eviction: none is given up while the API server holds it,
// which would use the budget up for nothing. A busy machine may need a second one, but only where the API server itself gave up (a
// 409 of the budget after 20 conflicts), or had longer than its 20 tries take.
func TestDrainBelowOneBudget(t *testing.T) {
	n := newPlainNode(t, 180)
	w := n.follow(takeSeconds(0.5))
	pods := n.makePods(w, "crowd", crowded, grace(10), labelled("app", "crowd"))
	makeBudget(t, n.ctx, "default", "crowd", "crowd", crowded)
	n.keep()
	began := time.Now()
	n.imds.SayTerminate(began.Add(60 * time.Second))
	n.until("all pods are gone", func() error {
		if left := w.Left(); len(left) > 0 {
			return fmt.Errorf("%d left", len(left))
		}
		return nil
	})
	t.Logf("gone after %.1f s", time.Since(began).Seconds())
	codes := map[int]int{}
	for _, e := range n.requests("create pods/eviction", "", "") {
		codes[e.ResponseStatus.Code]++
	}
	t.Logf("answers %v", codes)
	for _, p := range pods {
		asked := n.about(p)
		again := slices.DeleteFunc(slices.Clone(asked), func(e harness.AuditEntry) bool { return e.ResponseStatus.Code == 201 })
		if len(asked) != len(again)+1 || slices.ContainsFunc(again, func(e harness.AuditEntry) bool { return !isOverdone(e) }) {
			t.Errorf("%s: %v", p.Name, asked)
		}
	}
}

// isOverdone: the API server had all the time for this eviction that it gives itself.
func isOverdone(e harness.AuditEntry) bool {
	code := e.ResponseStatus.Code
	return code == 409 && strings.Contains(e.ResponseStatus.Message, "poddisruptionbudgets") ||
		code == 504 && e.StageTimestamp.Sub(e.RequestReceivedTimestamp) > 12*time.Second
}

// flood is what somebody can do who may create pods in one namespace and no more: bind thousands of them to a node.
func (n *node) flood(namespace string, options ...podOption) {
	n.t.Helper()
	rbac := cluster.Client.RbacV1()
	_, err := rbac.Roles(namespace).Create(n.ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "pods"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create"}}}}, metav1.CreateOptions{})
	must(n.t, err)
	_, err = rbac.RoleBindings(namespace).Create(n.ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "pods"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "pods"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: namespace}}}, metav1.CreateOptions{})
	must(n.t, err)
	errs := make([]error, flooded)
	room := make(chan bool, 32)
	var all sync.WaitGroup
	for i := range flooded {
		room <- true
		all.Go(func() {
			no := false
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("flood-%04d", i)}, Spec: corev1.PodSpec{
				NodeName: n.name, AutomountServiceAccountToken: &no,
				Containers: []corev1.Container{{Name: "main", Image: "localhost/pause:1"}}}}
			for _, option := range options {
				option(pod)
			}
			errs[i] = cluster.Client.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").
				SetHeader("Impersonate-User", namespace).Body(pod).Do(n.ctx).Error()
			<-room
		})
	}
	all.Wait()
	must(n.t, errors.Join(errs...))
}

// unflood takes them away, as whoever may.
func unflood(namespace string) error {
	return cluster.Client.CoreV1().Pods(namespace).DeleteCollection(context.Background(), *metav1.NewDeleteOptions(0), metav1.ListOptions{})
}

// incompleteIs: what drain-status says of the list of pods, "" where nothing is missing.
func incompleteIs(node *corev1.Node, phase, want string) error {
	var said struct{ Phase, Incomplete string }
	if err := json.Unmarshal([]byte(node.Annotations[drainAnnotation]), &said); err != nil {
		return err
	}
	if said.Phase != phase || said.Incomplete != want {
		return errors.New(node.Annotations[drainAnnotation])
	}
	return nil
}

// Drained implies that every pod of the node was seen: a tenant who may only create pods neither crowds out what kubelet has started,
// nor makes the node say Drained while pods of others are there.
func TestDrainSeesEveryPod(t *testing.T) {
	n := newPlainNode(t, 210)
	n.ctx = within(t, 10*time.Minute)
	makeNamespace(t, n.ctx, "flood-aaa")
	makeNamespace(t, n.ctx, "flood-zzz")
	n.flood("flood-aaa", annotated(doNotDisrupt, "true"))
	t.Cleanup(func() { _ = unflood("flood-aaa") })
	var others []*corev1.Pod
	for i := range 3 {
		p := makePod(t, n.ctx, "flood-zzz", fmt.Sprintf("web-%d", i), n.name, labelled("app", "web"))
		setPhase(t, n.ctx, p, corev1.PodRunning)
		others = append(others, p)
	}
	makeBudget(t, n.ctx, "flood-zzz", "web", "web", 0)
	n.keep()
	n.imds.SayTerminate(time.Now().Add(20 * time.Minute))
	n.untilNode("the list is said to be incomplete", func(node *corev1.Node) error { return incompleteIs(node, "Evicting", "TooManyPods") })
	for _, p := range others {
		n.until(p.Name+" is asked for", func() error {
			if len(n.about(p)) == 0 {
				return errors.New("it is not")
			}
			return nil
		})
	}
	must(t, unflood("flood-aaa"))
	held := n.untilNode("the others are waited for", func(node *corev1.Node) error { return incompleteIs(node, "Evicting", "") })
	if err := conditionIs(held, drainedCondition, corev1.ConditionTrue, ""); err == nil {
		t.Errorf("Drained, and three pods are there: %s", held.Annotations[drainAnnotation])
	}
	allow(t, n.ctx, "flood-zzz", "web", 3)
	for _, p := range others {
		n.until(p.Name+" is terminating", func() error {
			now, err := getPod(n.ctx, p)
			if err == nil && now != nil && now.DeletionTimestamp == nil {
				err = errors.New("it is not")
			}
			return err
		})
		removePod("flood-zzz", p.Name)
	}
	n.isDrained("SpotInterruption")
	n.checkRefusals(t)
}

// The API server takes the selector of a node, and what has ended is not even listed.
func TestDrainLeavesFinishedPodsOut(t *testing.T) {
	n := newPlainNode(t, 211)
	n.ctx = within(t, 10*time.Minute)
	makeNamespace(t, n.ctx, "ended-aaa")
	ended := makePod(t, n.ctx, "ended-aaa", "ended", n.name)
	setPhase(t, n.ctx, ended, corev1.PodFailed)
	n.keep()
	n.imds.SayTerminate(time.Now().Add(20 * time.Minute))
	n.isDrained("SpotInterruption")
	if asked := n.about(ended); len(asked) > 0 {
		t.Errorf("%v", asked)
	}
	lists, err := n.asked(func(e harness.AuditEntry) bool { // but for what a shutdown left behind
		return e.ObjectRef.Resource == "pods" && e.Verb == "list" && !strings.Contains(e.RequestURI, "status.phase%3DFailed")
	})
	must(t, err)
	if len(lists) == 0 || !strings.Contains(lists[0].RequestURI, "status.phase%21%3DFailed") {
		t.Errorf("%v", lists)
	}
	n.checkRefusals(t)
}
