// Replacement first: a drain, the controller, and Kubernetes' own Deployment and ReplicaSet controllers. The test is scheduler
// and kubelet of two nodes.

package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const (
	replacementManifest = "../../deploy/optional/replacement-role.yaml"
	replacementSpace    = "web" // the manifest's
	replacementFirst    = "nodeclaimd.io/replacement-first"
)

// replacing is a Deployment whose only pod runs on a node that is drained.
type replacing struct {
	n     *node
	c     *central
	name  string // of the Deployment
	old   *corev1.Pod
	spare string // another node
	began time.Time
}

// newReplacing lets it run on the node; the controller watches with these arguments, the daemon with these settings.
func newReplacing(t *testing.T, number int, args []string, settings ...string) *replacing {
	t.Helper()
	n := newPlainNode(t, number)
	r := &replacing{n: n, name: fmt.Sprintf("app-%d", number), spare: fmt.Sprintf("spare-%d", number)}
	controllers, err := cluster.StartControllers(n.m.Dir)
	must(t, err)
	t.Cleanup(controllers.Stop)
	_, err = cluster.Client.CoreV1().Nodes().Create(n.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.spare}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { cluster.Forget(context.Background(), r.spare) })
	_, err = cluster.WatchPods(n.ctx, r.spare, takeSeconds(0.3))
	must(t, err)
	n.follow(takeSeconds(0.3))
	r.deploy()
	r.old = r.pod("the first pod", "")
	bind(t, n.ctx, r.old, n.name)
	r.available()

	since := time.Now()
	r.c = deploy(t, n.ctx, replacementManifest)
	r.c.start(append([]string{"--mode", "karpenter"}, args...)...)
	r.c.leads(since)
	n.settings(append([]string{"drain:"}, settings...)...)
	n.keep()
	r.began = time.Now()
	return r
}

// deploy creates the Deployment, with the strategy that Kubernetes gives it.
func (r *replacing) deploy() {
	t, ctx, no := r.n.t, r.n.ctx, false
	labels := map[string]string{"app": r.name}
	_, err := cluster.Client.AppsV1().Deployments(replacementSpace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: r.name},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{replacementFirst: "true"}},
			Spec: corev1.PodSpec{AutomountServiceAccountToken: &no,
				Containers: []corev1.Container{{Name: "main", Image: "localhost/pause:1"}}}}},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		ctx := context.Background()
		apps := cluster.Client.AppsV1()
		_ = apps.Deployments(replacementSpace).Delete(ctx, r.name, metav1.DeleteOptions{})
		of := metav1.ListOptions{LabelSelector: "app=" + r.name}
		_ = apps.ReplicaSets(replacementSpace).DeleteCollection(ctx, metav1.DeleteOptions{}, of)
		_ = cluster.Client.CoreV1().Pods(replacementSpace).DeleteCollection(ctx, *metav1.NewDeleteOptions(0), of)
	})
}

// pod waits for one that no node has yet, other than this.
func (r *replacing) pod(what, not string) *corev1.Pod {
	r.n.t.Helper()
	var found *corev1.Pod
	must(r.n.t, harness.Poll(r.n.ctx, what, nil, func() error {
		list, err := cluster.Client.CoreV1().Pods(replacementSpace).List(r.n.ctx, metav1.ListOptions{LabelSelector: "app=" + r.name})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if p := &list.Items[i]; p.Spec.NodeName == "" && p.Name != not {
				found = p
				return nil
			}
		}
		return fmt.Errorf("%d pods, none of them without a node", len(list.Items))
	}))
	return found
}

// available waits until the Deployment is.
func (r *replacing) available() {
	r.n.t.Helper()
	must(r.n.t, harness.Poll(r.n.ctx, "the Deployment is available", nil, func() error {
		d, err := cluster.Client.AppsV1().Deployments(replacementSpace).Get(r.n.ctx, r.name, metav1.GetOptions{})
		if err == nil && (d.Status.AvailableReplicas != 1 || d.Status.ObservedGeneration < d.Generation) {
			err = fmt.Errorf("%+v", d.Status)
		}
		return err
	}))
}

// crowd puts pods beside it that sort first: 32 of nobody and 32 of a StatefulSet that ask for a replacement, six with labels of a
// megabyte.
func (r *replacing) crowd() {
	t, ctx := r.n.t, r.n.ctx
	t.Helper()
	asks, of := annotated(replacementFirst, "true"), labelled("crowd", r.name)
	create := func(name string, options ...podOption) {
		_, err := createPod(ctx, replacementSpace, name, r.n.name, append(options, of)...)
		must(t, err)
	}
	t.Cleanup(func() {
		_ = cluster.Client.CoreV1().Pods(replacementSpace).DeleteCollection(context.Background(), *metav1.NewDeleteOptions(0),
			metav1.ListOptions{LabelSelector: "crowd=" + r.name})
	})
	for i := range 32 {
		create(fmt.Sprintf("a-%02d", i), asks)
		create(fmt.Sprintf("aa-%02d", i), asks, ownedBy("apps/v1", "StatefulSet", "db"))
	}
	for i := range 6 {
		create(fmt.Sprintf("aaa-%d", i), func(p *corev1.Pod) {
			for n := range 14000 {
				metav1.SetMetaDataLabel(&p.ObjectMeta, fmt.Sprintf("l%d", n), strings.Repeat("x", 63))
			}
		})
	}
}

// evictions gives those of the old pod that were accepted.
func (r *replacing) evictions() []harness.AuditEntry {
	r.n.t.Helper()
	return accepted(r.n.requests("create pods/eviction", replacementSpace, r.old.Name))
}

// restarts gives the patches of the Deployment, whoever sent them.
func (r *replacing) restarts() []harness.AuditEntry {
	r.n.t.Helper()
	return r.audited("patch deployments", r.name)
}

// audited gives what anybody asked for one object, in order of arrival.
func (r *replacing) audited(what, name string) []harness.AuditEntry {
	r.n.t.Helper()
	list, err := cluster.Audit.Entries(func(e harness.AuditEntry) bool {
		return e.What() == what && e.ObjectRef.Namespace == replacementSpace && e.ObjectRef.Name == name
	})
	must(r.n.t, err)
	sortByArrival(list)
	return accepted(list)
}

// checkManners: of pods, only those of this node were read, in the namespace that was named.
func (r *replacing) checkManners() {
	r.n.t.Helper()
	for _, e := range r.c.requests(func(e harness.AuditEntry) bool { return e.ObjectRef.Resource == "pods" }) {
		if e.Verb != "list" || e.ObjectRef.Namespace != replacementSpace || !strings.Contains(e.RequestURI, "fieldSelector=spec.nodeName%3D"+r.n.name) ||
			e.ResponseStatus.Code != 200 {
			r.n.t.Errorf("none of its business: %s", e)
		}
	}
	for _, e := range r.c.requests(func(e harness.AuditEntry) bool { return e.ResponseStatus.Code == 403 || e.ResponseStatus.Code == 422 }) {
		r.n.t.Errorf("refused: %s", e)
	}
	r.n.checkRefusals(r.n.t)
}

func TestReplacementFirst(t *testing.T) {
	makeNamespace(t, within(t, 300*time.Second), replacementSpace)
	named := []string{"--replacement-first", replacementSpace}
	graceful := map[string]any{"id": "r1", "mode": "graceful"}

	t.Run("the old pod goes when the new one is Ready", func(t *testing.T) {
		r := newReplacing(t, 220, named)
		r.n.request(graceful)
		made := r.pod("the new pod", r.old.Name)
		if len(r.audited("delete pods", r.old.Name)) > 0 {
			t.Error("the old pod was deleted before the new one had a node")
		}
		t.Logf("the new pod is there %.2f s after the request", time.Since(r.began).Seconds())
		bind(t, r.n.ctx, made, r.spare)
		r.n.isDrained("Requested")
		waitGone(t, r.n.ctx, r.old)
		r.available()
		ready, deleted := first(t, "the new pod is Ready", r.audited("patch pods/status", made.Name)), first(t, "the end of the old pod", r.audited("delete pods", r.old.Name))
		if deleted.RequestReceivedTimestamp.Before(ready.StageTimestamp) {
			t.Errorf("deleted before its replacement was Ready: %s; %s", deleted, ready)
		}
		t.Logf("deleted %.0f ms after its replacement was Ready, by %s", deleted.RequestReceivedTimestamp.Sub(ready.StageTimestamp).Seconds()*1000, deleted.UserAgent)
		if list := r.evictions(); len(list) > 0 {
			t.Errorf("evicted all the same: %v", list)
		}
		if list := r.restarts(); len(list) != 1 || list[0].User.Username != r.c.account.User() {
			t.Errorf("restarted by %v", list)
		}
		r.n.checkEvents(t, "WaitingForReplacement")
		r.checkManners()
	})

	t.Run("under a spot notice it is evicted at once", func(t *testing.T) {
		r := newReplacing(t, 221, named)
		r.n.imds.SayTerminate(time.Now().Add(100 * time.Second))
		r.n.until("the eviction", func() error {
			if len(r.evictions()) == 0 {
				return fmt.Errorf("there is none")
			}
			return nil
		})
		waited := r.evictions()[0].RequestReceivedTimestamp.Sub(r.began)
		t.Logf("evicted %.2f s after the notice", waited.Seconds())
		if waited > 5*time.Second {
			t.Errorf("it waited")
		}
		waitGone(t, r.n.ctx, r.old)
		r.n.isDrained("SpotInterruption")
		if list := r.restarts(); len(list) > 0 {
			t.Errorf("restarted: %v", list)
		}
		r.checkManners()
	})

	t.Run("where the new pod is never Ready it is evicted at the limit", func(t *testing.T) {
		r := newReplacing(t, 222, named, "  replacementTimeout: 8s")
		r.n.request(graceful)
		r.pod("the new pod", r.old.Name) // which no node takes
		r.n.isDrained("Requested")
		eviction := first(t, "the eviction", r.evictions())
		waited := eviction.RequestReceivedTimestamp.Sub(r.began)
		if waited < 8*time.Second || waited > 14*time.Second {
			t.Errorf("evicted after %s", waited)
		}
		if list := r.restarts(); len(list) != 1 {
			t.Errorf("restarted: %v", list)
		}
		r.n.checkEvents(t, "WaitingForReplacement", "ReplacementNotReady")
		r.checkManners()
	})

	t.Run("neighbours that cannot be replaced keep it from nothing", func(t *testing.T) {
		r := newReplacing(t, 224, named)
		r.crowd()
		r.n.request(graceful)
		made := r.pod("the new pod", r.old.Name)
		bind(t, r.n.ctx, made, r.spare)
		waitGone(t, r.n.ctx, r.old)
		if list := r.evictions(); len(list) > 0 {
			t.Errorf("evicted all the same: %v", list)
		}
		if list := r.restarts(); len(list) != 1 {
			t.Errorf("restarted: %v", list)
		}
		r.checkManners()
	})

	t.Run("without the option and the wait it is as ever", func(t *testing.T) {
		r := newReplacing(t, 223, nil, "  replacementTimeout: 0s")
		r.n.request(graceful)
		r.n.isDrained("Requested")
		if eviction := first(t, "the eviction", r.evictions()); eviction.RequestReceivedTimestamp.Sub(r.began) > 5*time.Second {
			t.Errorf("it waited: %s", eviction)
		}
		if list := r.restarts(); len(list) > 0 {
			t.Errorf("restarted: %v", list)
		}
		r.c.checkManners() // no pod, nothing of apps
		if list := r.c.requests(func(e harness.AuditEntry) bool { return e.ObjectRef.APIGroup == "apps" }); len(list) > 0 {
			t.Errorf("none of its business: %v", list)
		}
	})
}
