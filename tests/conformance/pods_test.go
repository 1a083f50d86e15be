// Pods, budgets and namespaces as the tests of a drain need them. There is no scheduler and no controller: a pod is bound
// by the test, and a budget's status says what the test wants it to say.

package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

// podOption changes a pod before it is created.
type podOption func(*corev1.Pod)

func grace(seconds int64) podOption {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

func labelled(key, value string) podOption {
	return func(p *corev1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, key, value) }
}

func annotated(key, value string) podOption {
	return func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
}

// ownedBy names a controller; nobody looks whether it exists.
func ownedBy(apiVersion, kind, name string) podOption {
	return func(p *corev1.Pod) {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID("uid-" + name), Controller: &yes}}
	}
}

func running(args ...string) podOption {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Args = args }
}

func tolerating(key string) podOption {
	return func(p *corev1.Pod) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
}

func critical(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }

// createPod creates a pod in a namespace, bound to a node unless that is "".
func createPod(ctx context.Context, namespace, name, node string, options ...podOption) (*corev1.Pod, error) {
	no := false
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: corev1.PodSpec{
		NodeName: node, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
		Containers: []corev1.Container{{Name: "main", Image: "localhost/pause:1", ImagePullPolicy: corev1.PullNever}},
	}}
	for _, option := range options {
		option(pod)
	}
	return cluster.Client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
}

// makePod creates a pod and takes it away after the test.
func makePod(t *testing.T, ctx context.Context, namespace, name, node string, options ...podOption) *corev1.Pod {
	t.Helper()
	made, err := createPod(ctx, namespace, name, node, options...)
	must(t, err)
	t.Cleanup(func() { removePod(namespace, name) })
	return made
}

// removePod takes it away, and whatever still holds it.
func removePod(namespace, name string) {
	ctx := context.Background()
	pods := cluster.Client.CoreV1().Pods(namespace)
	if isNotFound(pods.Delete(ctx, name, *metav1.NewDeleteOptions(0))) {
		return
	}
	_, _ = pods.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
}

// setPhase plays kubelet for a pod that has none.
func setPhase(t *testing.T, ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase) {
	t.Helper()
	ready := map[bool]corev1.ConditionStatus{true: corev1.ConditionTrue, false: corev1.ConditionFalse}[phase == corev1.PodRunning]
	text, err := json.Marshal(map[string]any{"status": map[string]any{"phase": phase, "startTime": metav1.Now(),
		"conditions": []any{map[string]any{"type": "Ready", "status": ready}}}})
	must(t, err)
	_, err = cluster.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, text, metav1.PatchOptions{}, "status")
	must(t, err)
}

// makeNamespace creates one; deletedLater namespaces stay Terminating, as nobody here finalizes them.
func makeNamespace(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	_, err := cluster.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { dropNamespace(name) })
}

func dropNamespace(name string) {
	ctx := context.Background()
	namespaces := cluster.Client.CoreV1().Namespaces()
	_ = namespaces.Delete(ctx, name, metav1.DeleteOptions{})
	_, _ = namespaces.Finalize(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.UpdateOptions{})
}

// makeBudget creates a PodDisruptionBudget for the pods labelled app=name and lets its status allow so many disruptions.
func makeBudget(t *testing.T, ctx context.Context, namespace, name, app string, allowed int32) {
	t.Helper()
	budgets := cluster.Client.PolicyV1().PodDisruptionBudgets(namespace)
	_, err := budgets.Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { _ = budgets.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	allow(t, ctx, namespace, name, allowed)
}

// allow is the disruption controller's verdict on a budget.
func allow(t *testing.T, ctx context.Context, namespace, name string, allowed int32) {
	t.Helper()
	budgets := cluster.Client.PolicyV1().PodDisruptionBudgets(namespace)
	now, err := budgets.Get(ctx, name, metav1.GetOptions{})
	must(t, err)
	now.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: now.Generation, DisruptionsAllowed: allowed,
		CurrentHealthy: 1 + allowed, DesiredHealthy: 1, ExpectedPods: 1 + allowed}
	_, err = budgets.UpdateStatus(ctx, now, metav1.UpdateOptions{})
	must(t, err)
}

// getPod gives a pod, nil where it is gone or another has its name.
func getPod(ctx context.Context, of *corev1.Pod) (*corev1.Pod, error) {
	now, err := cluster.Client.CoreV1().Pods(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
	if isNotFound(err) || err == nil && now.UID != of.UID {
		return nil, nil
	}
	return now, err
}

// waitGone waits until a pod is no longer there.
func waitGone(t *testing.T, ctx context.Context, pod *corev1.Pod, procs ...*harness.Proc) {
	t.Helper()
	must(t, harness.Poll(ctx, pod.Name+" is gone", procs, func() error {
		now, err := getPod(ctx, pod)
		if err == nil && now != nil {
			err = fmt.Errorf("deletionTimestamp %v, phase %s", now.DeletionTimestamp, now.Status.Phase)
		}
		return err
	}))
}
