// A Node whose instance is gone: nodeclaim-controller asks moto's EC2, and taints it. The volume of its pod is then detached by the
// attach-detach controller of Kubernetes, which would wait six minutes for it otherwise. Kubelet, the CSI driver and what makes a
// Node unreachable are played.

package conformance

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const (
	lostDriver = "csi.conformance.example"
	lostTaint  = "node.kubernetes.io/out-of-service"
)

// lostNode is a Node of an instance at moto, with a claim beside Karpenter.
type lostNode struct {
	*central
	moto     *harness.Moto
	instance *harness.Instance
	name     string
}

func newLostNode(t *testing.T, ctx context.Context, c *central, m *harness.Moto) *lostNode {
	t.Helper()
	i := harness.NewInstance(0)
	var err error
	i.ID, err = m.Run(ctx)
	must(t, err)
	name, err := m.Name(ctx, i.ID)
	must(t, err)
	n := &lostNode{central: c, moto: m, instance: i, name: name}
	claim, err := cluster.NewClaim(ctx, name, i)
	must(t, err)
	t.Cleanup(func() {
		cluster.DropClaim(context.Background(), name, name)
		cluster.Forget(context.Background(), name)
	})
	_, err = cluster.Client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
		Annotations:     map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
		OwnerReferences: []metav1.OwnerReference{*harness.OwnerOf(claim)}}, Spec: corev1.NodeSpec{ProviderID: i.ProviderID()}}, metav1.CreateOptions{})
	must(t, err)
	must(t, cluster.PatchClaim(ctx, name, "status", map[string]any{"status": map[string]any{"nodeName": name, "providerID": i.ProviderID()}}))
	must(t, cluster.PatchNodeStatus(ctx, name, readyStatus()))
	return n
}

// falls silent: what the node lifecycle controller writes of it.
func (n *lostNode) fallsSilent() {
	n.t.Helper()
	must(n.t, cluster.PatchNodeStatus(n.ctx, n.name, silentStatus()))
}

func (n *lostNode) taint() *corev1.Taint {
	n.t.Helper()
	node, err := cluster.Node(n.ctx, n.name)
	must(n.t, err)
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].Key == lostTaint {
			return &node.Spec.Taints[i]
		}
	}
	return nil
}

// event waits for an Event of the controller about the Node.
func (n *lostNode) event(reason string) {
	n.t.Helper()
	n.until("Event "+reason, func() error {
		list, err := cluster.Client.CoreV1().Events("default").List(n.ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + n.name})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason == reason && e.Source.Component == controllerAgent {
				return nil
			}
		}
		return fmt.Errorf("%d other Events", len(list.Items))
	})
}

// holdsVolume makes a pod with a volume that the node has mounted, as its kubelet says.
func (n *lostNode) holdsVolume(pod string) {
	n.t.Helper()
	core := cluster.Client.CoreV1()
	forget := func(what func(context.Context) error) { n.t.Cleanup(func() { _ = what(context.Background()) }) }
	now := int64(0)
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	class := ""
	claim, err := core.PersistentVolumeClaims("default").Create(n.ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: pod},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: modes, VolumeName: pod, StorageClassName: &class,
			Resources: corev1.VolumeResourceRequirements{Requests: size}}}, metav1.CreateOptions{})
	must(n.t, err)
	forget(func(ctx context.Context) error {
		return core.PersistentVolumeClaims("default").Delete(ctx, pod, metav1.DeleteOptions{})
	})
	_, err = core.PersistentVolumes().Create(n.ctx, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: pod},
		Spec: corev1.PersistentVolumeSpec{Capacity: size, AccessModes: modes, ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: pod, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: lostDriver, VolumeHandle: pod}}}}, metav1.CreateOptions{})
	must(n.t, err)
	forget(func(ctx context.Context) error {
		return core.PersistentVolumes().Delete(ctx, pod, metav1.DeleteOptions{})
	})
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: modes, Capacity: size}
	_, err = core.PersistentVolumeClaims("default").UpdateStatus(n.ctx, claim, metav1.UpdateOptions{})
	must(n.t, err)
	made, err := core.Pods("default").Create(n.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod}, Spec: corev1.PodSpec{NodeName: n.name,
		Containers: []corev1.Container{{Name: "c", Image: "pause"}},
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pod}}}}}}, metav1.CreateOptions{})
	must(n.t, err)
	forget(func(ctx context.Context) error {
		return core.Pods("default").Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: &now})
	})
	made.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "c", Image: "pause",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}}
	_, err = core.Pods("default").UpdateStatus(n.ctx, made, metav1.UpdateOptions{})
	must(n.t, err)
	n.until("the volume is attached", func() error {
		made, err := n.attachment()
		if err != nil || made == nil {
			return fmt.Errorf("no VolumeAttachment %v", err)
		}
		made.Status.Attached = true
		_, err = cluster.Client.StorageV1().VolumeAttachments().UpdateStatus(n.ctx, made, metav1.UpdateOptions{})
		return err
	})
	n.until("its Node says so", func() error {
		node, err := cluster.Node(n.ctx, n.name)
		if err == nil && len(node.Status.VolumesAttached) != 1 {
			err = fmt.Errorf("%v", node.Status.VolumesAttached)
		}
		if err == nil {
			err = cluster.PatchNodeStatus(n.ctx, n.name, map[string]any{"status": map[string]any{"volumesInUse": []any{string(node.Status.VolumesAttached[0].Name)}}})
		}
		return err
	})
}

func (n *lostNode) attachment() (*storagev1.VolumeAttachment, error) {
	list, err := cluster.Client.StorageV1().VolumeAttachments().List(n.ctx, metav1.ListOptions{})
	for i := range list.Items {
		if list.Items[i].Spec.NodeName == n.name {
			return &list.Items[i], err
		}
	}
	return nil, err
}

func startLost(t *testing.T, c *central, m *harness.Moto, args ...string) {
	t.Helper()
	keys, err := m.User(c.ctx, fmt.Sprintf("lost-%d", c.started), "ec2:DescribeInstances")
	must(t, err)
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": keys.AccessKeyID, "AWS_SECRET_ACCESS_KEY": keys.SecretAccessKey} {
		must(t, os.Setenv(name, value))
		defer os.Unsetenv(name)
	}
	began := time.Now()
	c.start(append([]string{"--mode", "karpenter", "--region", "us-west-2", "--ec2-endpoint", m.URL, "--imds", "http://127.0.0.1:9"}, args...)...)
	c.leads(began)
}

func TestOutOfService(t *testing.T) {
	ctx := within(t, 150*time.Second)
	m, err := harness.StartMoto(ctx, workDir, moto)
	must(t, err)
	t.Cleanup(m.Stop)
	must(t, m.CheckSignatures(ctx))
	c := deploy(t, ctx)
	volumes, err := cluster.StartVolumes(c.dir)
	must(t, err)
	t.Cleanup(volumes.Stop)

	// Without the option nothing is asked and nothing is written.
	off := newLostNode(t, ctx, c, m)
	must(t, m.Terminate(ctx, off.instance.ID))
	startLost(t, c, m)
	off.fallsSilent()
	made := makeSimulated(t, ctx, 560) // what it does about this one shows that it has seen the other
	must(t, cluster.PatchNode(ctx, made, map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		"nodeclaimd.io/drain-status": "garbage"}}}))
	c.until("it has seen the Node", func() error {
		text, err := os.ReadFile(c.proc.Log)
		if err == nil && !strings.Contains(string(text), "InvalidDrainStatus") && !strings.Contains(string(text), "nodeclaimd.io/drain-status") {
			err = fmt.Errorf("not yet")
		}
		return err
	})
	if n, writes := m.Described(off.instance.ID), c.writes("nodes", off.name); n != 0 || len(writes) != 0 || off.taint() != nil {
		t.Errorf("without the option: asked %d times, %v", n, writes)
	}
	c.proc.Stop()

	lost := newLostNode(t, ctx, c, m)
	startLost(t, c, m, "--out-of-service-taint")
	lost.holdsVolume("lost")
	lost.fallsSilent()
	c.until("EC2 is asked", func() error {
		if m.Described(lost.instance.ID) == 0 {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	must(t, cluster.Client.CoreV1().Pods("default").Delete(ctx, "lost", metav1.DeleteOptions{}))
	off.event("InstanceGone") // the other one was gone before this controller began
	if found, err := lost.attachment(); lost.taint() != nil || found == nil {
		t.Fatalf("while the instance runs: taint %v, VolumeAttachment %v %v", lost.taint(), found, err)
	}
	must(t, m.Terminate(ctx, lost.instance.ID))
	c.until("the taint", func() error {
		if lost.taint() == nil {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	tainted := time.Now()
	if taint := lost.taint(); taint.Value != "nodeclaimd" || taint.Effect != corev1.TaintEffectNoExecute || taint.TimeAdded != nil {
		t.Errorf("%+v", taint)
	}
	lost.event("InstanceGone")
	c.until("the pod is gone and its volume is detached", func() error {
		found, err := lost.attachment()
		if err == nil && found != nil {
			err = fmt.Errorf("%v", found.Status)
		}
		if err != nil {
			return err
		}
		if _, err = cluster.Client.CoreV1().Pods("default").Get(ctx, "lost", metav1.GetOptions{}); !isNotFound(err) {
			return fmt.Errorf("the pod is there: %v", err)
		}
		return nil
	})
	took := time.Since(tainted)
	t.Logf("pod and VolumeAttachment are gone %s after the taint; Kubernetes alone waits 6m", took.Round(time.Millisecond))
	if took > 60*time.Second {
		t.Errorf("the taint did not help: %s", took)
	}

	// It comes back: nobody else takes the taint off.
	must(t, cluster.PatchNodeStatus(ctx, lost.name, readyStatus()))
	lost.event("InstanceBack")
	if lost.taint() != nil {
		t.Error("the taint stays on a Node that is Ready")
	}
	for _, n := range []*lostNode{off, lost} {
		want := map[*lostNode]int{off: 1, lost: 2}[n]
		if writes := accepted(c.writes("nodes", n.name)); len(writes) != want {
			t.Errorf("%s: %d writes, want %d: %v", n.name, len(writes), want, writes)
		}
	}
	if list := accepted(c.requests(func(e harness.AuditEntry) bool { return e.ObjectRef.Resource == "nodeclaims" && e.Verb == "patch" })); len(list) != 0 {
		t.Errorf("NodeClaims were written: %v", list)
	}
	c.checkManners()
}
