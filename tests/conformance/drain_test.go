// The drain itself, with nothing played but the scheduler: kubelet and containerd run the pods, kube-controller-manager's
// own controllers keep the budgets and the Jobs, and a spot notice comes from IMDS.

package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

// fate is what a drain with a deadline has to do with a pod.
type fate int

const (
	evicted   fate = iota // it may leave: asked to, once, and leaves by itself
	outwaited             // it may leave, but does not mind SIGTERM: kubelet kills it when its grace is over
	deleted               // it may not leave: deleted when no more than its grace is left
	ahead                 // do-not-disrupt keeps it, no budget does: evicted a second ahead of its last moment
	cut                   // its grace reaches past the end: evicted at once with what is left
	untouched             // it is none of the drain's business
)

// doomed is a pod on a node that is drained.
type doomed struct {
	*corev1.Pod
	fate  fate
	grace int64
	idle  bool // its container need not have started
}

func (f fate) String() string {
	return [...]string{"evicted", "outwaited", "deleted", "ahead", "cut", "untouched"}[f]
}

// drainMargin is the time between the end of the last pod's grace and the machine's end.
const drainMargin = 4 * time.Second

const staticPod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "static", "namespace": "default"}, "spec": {
 "containers": [{"name": "main", "image": "localhost/pause:1", "imagePullPolicy": "Never"}]}}`

// makeRealBudget creates a PodDisruptionBudget and waits until the disruption controller has counted its pods.
func makeRealBudget(t *testing.T, ctx context.Context, name, app string, minAvailable, pods int32) {
	t.Helper()
	budgets := cluster.Client.PolicyV1().PodDisruptionBudgets("default")
	least := intstr.FromInt32(minAvailable)
	_, err := budgets.Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { _ = budgets.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	must(t, harness.Poll(ctx, "the disruption controller counts "+name, nil, func() error {
		now, err := budgets.Get(ctx, name, metav1.GetOptions{})
		if err == nil && (now.Status.ObservedGeneration != now.Generation || now.Status.CurrentHealthy != pods || now.Status.DisruptionsAllowed != pods-minAvailable) {
			err = fmt.Errorf("%+v", now.Status)
		}
		return err
	}))
}

// makeJob creates a Job that fails with its first pod, unless that was disrupted; gives its pod, bound to the node.
func (n *node) makeJob(name string, options ...podOption) *corev1.Pod {
	n.t.Helper()
	no, one, zero := false, int32(1), int32(0)
	like := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no,
		Containers: []corev1.Container{{Name: "main", Image: "localhost/pause:1", ImagePullPolicy: corev1.PullNever}}}}
	for _, option := range options {
		option(like)
	}
	jobs := cluster.Client.BatchV1().Jobs("default")
	_, err := jobs.Create(n.ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{
		Parallelism: &one, Completions: &one, BackoffLimit: &zero,
		Template: corev1.PodTemplateSpec{ObjectMeta: like.ObjectMeta, Spec: like.Spec},
		PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{Action: batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}}}},
	}}, metav1.CreateOptions{})
	must(n.t, err)
	n.t.Cleanup(func() { dropJob(name) })
	var pod *corev1.Pod
	must(n.t, harness.Poll(n.ctx, "the pod of the Job "+name, nil, func() error {
		list, err := cluster.Client.CoreV1().Pods("default").List(n.ctx, metav1.ListOptions{LabelSelector: "job-name=" + name})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("%d pods", len(list.Items))
		}
		if err == nil {
			pod = &list.Items[0]
		}
		return err
	}))
	bind(n.t, n.ctx, pod, n.name)
	return pod
}

func dropJob(name string) {
	ctx := context.Background()
	orphan := metav1.DeletePropagationBackground
	_ = cluster.Client.BatchV1().Jobs("default").Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &orphan})
	list, err := cluster.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "job-name=" + name})
	if err != nil {
		return
	}
	for _, p := range list.Items {
		removePod(p.Namespace, p.Name)
	}
}

// checkJob: the Job's pod ended with an error, but as a disruption: the Job goes on with another.
func checkJob(t *testing.T, ctx context.Context, name string, was types.UID) {
	t.Helper()
	must(t, harness.Poll(ctx, "the Job "+name+" goes on", nil, func() error {
		job, err := cluster.Client.BatchV1().Jobs("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		list, err := cluster.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "job-name=" + name})
		if err == nil && (job.Status.Failed != 0 || len(job.Status.Conditions) > 0 || len(list.Items) != 1 || list.Items[0].UID == was) {
			err = fmt.Errorf("%+v, %d pods", job.Status, len(list.Items))
		}
		return err
	}))
}

// population puts pods of every kind on the node, and starts none of them later than it returns.
func (n *node) population(w *harness.PodWatch) map[string]*doomed {
	n.t.Helper()
	all := map[string]*doomed{}
	add := func(name string, f fate, seconds int64, options ...podOption) {
		pod := makePod(n.t, n.ctx, "default", name, n.name, append(options, grace(seconds))...)
		all[name] = &doomed{Pod: pod, fate: f, grace: seconds}
	}
	add("plain", evicted, 30)
	add("slow", evicted, 30, running("--takes=4s"))
	add("deaf", outwaited, 5, running("--ignore"))
	add("endless", cut, 3600, running("--ignore"))
	add("web-1", evicted, 6, labelled("app", "web")) // or the other of the two
	add("web-2", deleted, 6, labelled("app", "web"))
	add("held-20", deleted, 20, labelled("app", "held-20"))
	add("held-10", deleted, 10, labelled("app", "held-10"), running("--takes=3s"))
	add("twice", deleted, 8, labelled("app", "twice"))
	add("kept", ahead, 12, annotated(doNotDisrupt, "true"))
	add("critical", evicted, 7, critical)
	add("daemon", untouched, 5, ownedBy("apps/v1", "DaemonSet", "daemon"))
	add("tolerant", evicted, 5, tolerating(disruptedTaint))
	add("tolerant-daemon", untouched, 5, tolerating(disruptedTaint), ownedBy("apps/v1", "DaemonSet", "daemon"))
	makeNamespace(n.t, n.ctx, "drain-ending")
	all["ending"] = &doomed{Pod: makePod(n.t, n.ctx, "drain-ending", "ending", n.name, grace(9)), fate: deleted, grace: 9}
	all["job-free"] = &doomed{Pod: n.makeJob("job-free", grace(20), running("--exit=3")), fate: evicted, grace: 20}
	all["job-held"] = &doomed{Pod: n.makeJob("job-held", grace(11), running("--exit=3"), annotated(doNotDisrupt, "true")), fate: ahead, grace: 11}
	var pods []*corev1.Pod
	for _, d := range all {
		pods = append(pods, d.Pod)
	}
	waitRunning(n.t, n.ctx, w, pods...)
	makeRealBudget(n.t, n.ctx, "web", "web", 1, 2)
	makeRealBudget(n.t, n.ctx, "held-20", "held-20", 1, 1)
	makeRealBudget(n.t, n.ctx, "held-10", "held-10", 1, 1)
	makeRealBudget(n.t, n.ctx, "twice-a", "twice", 0, 1)
	makeRealBudget(n.t, n.ctx, "twice-b", "twice", 0, 1)
	must(n.t, cluster.Client.CoreV1().Namespaces().Delete(n.ctx, "drain-ending", metav1.DeleteOptions{}))
	return all
}

func TestDrainOfRealPodsByADeadline(t *testing.T) {
	n := newKubeletNode(t, 110, `, "staticPodPath": "/etc/kubernetes/manifests"`)
	n.write("/etc/kubernetes/manifests/static.json", staticPod)
	controllers, err := cluster.StartControllers(n.m.Dir)
	must(t, err)
	defer controllers.Stop()
	w := n.follow(nil)
	all := n.population(w)
	n.settings("drain:", "  margin: 4s")
	n.keep()

	said := time.Now()
	deadline := said.Add(40 * time.Second).Truncate(time.Second)
	end := deadline.Add(-drainMargin)
	n.imds.SayTerminate(deadline)
	late := makePod(t, n.ctx, "default", "late", "", grace(30))
	n.untilNode("the cordon", func(node *corev1.Node) error {
		if !node.Spec.Unschedulable {
			return fmt.Errorf("%+v", node.Spec)
		}
		return nil
	})
	bind(t, n.ctx, late, n.name)
	all["late"] = &doomed{Pod: late, fate: evicted, grace: 30, idle: true}
	n.isDrained("SpotInterruption")
	drained := time.Now()
	t.Logf("drained %.1f s before the deadline", deadline.Sub(drained).Seconds())
	if drained.After(deadline) {
		t.Errorf("drained %s after the deadline", drained.Sub(deadline))
	}

	for _, d := range all {
		if d.fate != untouched { // its end is known, its object may be there for a moment more
			waitGone(t, n.ctx, d.Pod, n.agent)
		}
	}
	n.until("the watch has seen all of it", func() error {
		for name, d := range all {
			if d.fate != untouched && w.Life(d.UID).Gone.IsZero() {
				return errors.New(name)
			}
		}
		return nil
	})
	if one, other := all["web-1"], all["web-2"]; len(accepted(n.requests("create pods/eviction", "default", one.Name))) == 0 {
		one.fate, other.fate = other.fate, one.fate
	}
	_, cordon := n.checkOrder(t)
	n.sinceNotice(t, said, cordon)
	for name, d := range all {
		t.Run(name, func(t *testing.T) { n.checkFate(t, d, w.Life(d.UID), end) })
	}
	t.Run("static", func(t *testing.T) { n.checkMirror(t, w) })
	t.Run("Jobs go on", func(t *testing.T) {
		checkJob(t, n.ctx, "job-free", all["job-free"].UID)
		checkJob(t, n.ctx, "job-held", all["job-held"].UID)
	})
	t.Run("reported", func(t *testing.T) { n.checkDrainReport(t, deadline) })
	t.Run("nothing was refused", func(t *testing.T) { n.checkRefusals(t) })
}

// checkFate reads a pod's end out of the audit log and of what the watch saw. end is when every pod must be gone.
func (n *node) checkFate(t *testing.T, d *doomed, life harness.PodLife, end time.Time) {
	evictions, deletions, marks := n.requests("create pods/eviction", d.Namespace, d.Name), n.requests("delete pods", d.Namespace, d.Name), n.requests("patch pods/status", d.Namespace, d.Name)
	for _, e := range append(evictions, deletions...) {
		if uid := firstOf(body(e, "deleteOptions", "preconditions", "uid"), body(e, "preconditions", "uid")); uid != string(d.UID) {
			t.Errorf("not for this very pod: %s", e.RequestObject)
		}
	}
	if d.fate == untouched {
		if asked := n.about(d.Pod); len(asked) > 0 || !life.Leaving.IsZero() {
			t.Errorf("touched: %v %v", asked, life.Leaving)
		}
		return
	}
	if life.Gone.IsZero() || life.Gone.After(end.Add(drainMargin)) {
		t.Errorf("gone at %s, the end was %s", life.Gone.Format("15:04:05.000"), end.Format("15:04:05"))
	}
	if life.Mark == nil {
		t.Error("it had no condition DisruptionTarget when it began to leave")
	}
	late := life.Leaving.Sub(end.Add(-time.Duration(d.grace) * time.Second)).Seconds()
	switch d.fate {
	case evicted, outwaited:
		if len(accepted(evictions)) != 1 || len(deletions) > 0 || len(marks) > 0 {
			t.Errorf("evictions %v, deletions %v, marks %v", evictions, deletions, marks)
		}
	case deleted:
		if len(accepted(deletions)) != 1 || len(accepted(marks)) == 0 || len(accepted(evictions)) > 0 {
			t.Fatalf("evictions %v, deletions %v, marks %v", evictions, deletions, marks)
		}
		at := deletions[0].RequestReceivedTimestamp
		late = at.Sub(end.Add(-time.Duration(d.grace) * time.Second)).Seconds()
		if math.Abs(late) > 1.5 {
			t.Errorf("deleted %.2f s after its last moment", late)
		}
		n.checkGrace(t, deletions[0], end, d.grace)
	case ahead:
		if len(accepted(evictions)) != 1 || len(evictions) != 1 || len(deletions) > 0 {
			t.Fatalf("evictions %v, deletions %v", evictions, deletions)
		}
		if math.Abs(late+1) > 1.5 {
			t.Errorf("evicted %.2f s after its last moment", late)
		}
	case cut:
		if len(accepted(evictions)) != 1 || len(deletions) > 0 {
			t.Fatalf("evictions %v, deletions %v", evictions, deletions)
		}
		n.checkGrace(t, evictions[0], end, d.grace)
	}
	if len(deletions) > 0 && (len(marks) == 0 || marks[0].RequestReceivedTimestamp.After(deletions[0].RequestReceivedTimestamp)) {
		t.Errorf("deleted without a mark: %v, %v", marks, deletions)
	}
	wanted := map[bool]int32{true: 137, false: 0}[d.fate == outwaited || d.fate == cut]
	if strings.HasPrefix(d.Name, "job-") {
		wanted = 3
	}
	if !d.idle && (life.Ended.IsZero() || life.ExitCode != wanted) {
		t.Errorf("its container ended with %d at %s, want %d", life.ExitCode, life.Ended.Format("15:04:05.000"), wanted)
	}
	t.Logf("%s: %d refusals, began to leave %.2f s after its last moment, container ended %.1f s and object gone %.1f s before the end",
		d.fate, len(evictions)-len(accepted(evictions)), late, end.Sub(life.Ended).Seconds(), end.Sub(life.Gone).Seconds())
}

func firstOf(values ...any) any {
	for _, v := range values {
		if v != nil {
			return v
		}
	}
	return nil
}

// checkGrace: a DELETE, or an eviction so late, gives the time that is left, in whole seconds, and never more than the pod's own.
func (n *node) checkGrace(t *testing.T, e harness.AuditEntry, end time.Time, own int64) {
	t.Helper()
	given, _ := firstOf(body(e, "gracePeriodSeconds"), body(e, "deleteOptions", "gracePeriodSeconds")).(float64)
	left := end.Sub(e.RequestReceivedTimestamp).Seconds()
	if given < 1 || given > float64(own) || math.Abs(given-math.Min(left, float64(own))) > 1.5 {
		t.Errorf("grace %.0f with %.2f s left: %s", given, left, e)
	}
}

// checkMirror: kubelet's own pod is still there.
func (n *node) checkMirror(t *testing.T, w *harness.PodWatch) {
	for _, p := range w.Left() {
		if p.Name == "static-"+n.name {
			if asked := n.about(p); len(asked) > 0 || p.DeletionTimestamp != nil {
				t.Errorf("touched: %v", asked)
			}
			return
		}
	}
	t.Error("there is no mirror pod")
}

// checkDrainReport looks at everything that says how the drain went.
func (n *node) checkDrainReport(t *testing.T, deadline time.Time) {
	node, err := cluster.Node(n.ctx, n.name)
	must(t, err)
	s, err := n.drainStatus(node)
	must(t, err)
	if s.Phase != "Drained" || s.Source != "spot" || s.ID == "" || s.Remaining != 0 || s.Deadline == nil || !s.Deadline.Equal(deadline) || s.Updated.IsZero() || s.Total == 0 {
		t.Errorf("%s", node.Annotations[drainAnnotation])
	}
	t.Logf("%s; %s", node.Annotations[drainAnnotation], harness.Condition(node, drainedCondition).Message)
	writes := append(n.requests("patch nodes", "", ""), n.requests("patch nodes/status", "", "")...)
	sortByArrival(writes)
	var progress []harness.AuditEntry
	for _, e := range writes {
		if body(e, "status") == nil && body(e, "spec") == nil {
			progress = append(progress, e)
		}
	}
	for i := 1; i < len(progress); i++ {
		if apart := progress[i].RequestReceivedTimestamp.Sub(progress[i-1].RequestReceivedTimestamp); apart < 900*time.Millisecond {
			t.Errorf("two reports of progress within %s", apart)
		}
	}
	t.Logf("%d writes of the Node, %d of them progress", len(writes), len(progress))
	n.checkEvents(t, "SpotInterruption", "NodeCordoned", "DrainStarted", "DrainBlocked", "DrainForced", "NodeDrained")
	text := decode(t, n.read(statusPath))
	if dig(text, "drain", "phase") != "drained" || dig(text, "drain", "pods", "remaining") != 0.0 || dig(text, "outcome") != "succeeded" {
		t.Errorf("status.json: %v, %v", text["outcome"], text["drain"])
	}
	console, err := n.m.Console()
	must(t, err)
	t.Logf("console:\n%s", console)
}

// The node's identity stops being one in the middle of a drain, and comes back: what is wrong is said meanwhile, and the
// drain goes on with a new token.
func TestIdentityIsRefusedForAWhile(t *testing.T) {
	n := newKubeletNode(t, 210, "")
	w := n.follow(nil)
	n.makePods(w, "free", 2, grace(10))
	makeBudget(t, n.ctx, "default", "refused", "refused", 0)
	n.makePods(w, "held", 1, grace(10), labelled("app", "refused"))
	n.keep()
	n.imds.SayTerminate(time.Now().Add(119 * time.Second))
	n.isHeld(1)
	iam.Unmap(n.instance)
	apiError := func() (string, error) {
		text, err := n.m.Read(statusPath)
		if err != nil {
			return "", err
		}
		said, _ := dig(decode(t, text), "daemon", "apiError").(string)
		return said, nil
	}
	n.until("the daemon says that it is refused", func() error {
		said, err := apiError()
		if err == nil && said == "" {
			err = errors.New("daemon.api_error is empty")
		}
		return err
	})
	said, err := apiError()
	must(t, err)
	t.Log(said)
	iam.Map(n.instance, n.name)
	allow(t, n.ctx, "default", "refused", 1)
	back := time.Now()
	n.isDrained("SpotInterruption")
	t.Logf("drained %.1f s after the identity was one again", time.Since(back).Seconds())
}
