// The parts that others play in a real cluster, in the few lines that a node can notice: kube-controller-manager
// (certificate requests, the not-ready taint), the cloud controller (the uninitialized taint), Karpenter (registered and
// initialized).

package harness

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

// Taints that others than the node put there or take away.
const (
	TaintUnregistered  = "karpenter.sh/unregistered"
	TaintUninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
	TaintNotReady      = "node.kubernetes.io/not-ready"
	LabelRegistered    = "karpenter.sh/registered"
	LabelInitialized   = "karpenter.sh/initialized"
)

// Node waits until the node exists.
func (c *Cluster) Node(ctx context.Context, name string, procs ...*Proc) (*corev1.Node, error) {
	var node *corev1.Node
	err := Poll(ctx, "node "+name+" exists", procs, func() (err error) {
		node, err = c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err
	})
	return node, err
}

// ReadyNode waits until kubelet says Ready.
func (c *Cluster) ReadyNode(ctx context.Context, name string, procs ...*Proc) (*corev1.Node, error) {
	var node *corev1.Node
	err := Poll(ctx, "node "+name+" is Ready", procs, func() (err error) {
		if node, err = c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		ready := Condition(node, corev1.NodeReady)
		if ready == nil || ready.Status != corev1.ConditionTrue {
			return fmt.Errorf("conditions %+v", node.Status.Conditions)
		}
		return nil
	})
	return node, err
}

// Condition finds a condition of a node, nil where there is none.
func Condition(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// UpdateNode changes a node as the admin.
func (c *Cluster) UpdateNode(ctx context.Context, name string, change func(*corev1.Node)) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(node)
		_, err = c.Client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// RemoveTaints is what the owners of these taints do once their condition is met.
func (c *Cluster) RemoveTaints(ctx context.Context, name string, keys ...string) error {
	return c.UpdateNode(ctx, name, func(node *corev1.Node) {
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return slices.Contains(keys, t.Key) })
	})
}

// KarpenterRegisters removes the unregistered taint and sets the label, as Karpenter's registration does.
func (c *Cluster) KarpenterRegisters(ctx context.Context, name string, owner *metav1.OwnerReference) error {
	return c.UpdateNode(ctx, name, func(node *corev1.Node) {
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == TaintUnregistered })
		node.Labels[LabelRegistered] = "true"
		if owner != nil {
			node.OwnerReferences = append(node.OwnerReferences, *owner)
		}
	})
}

// KarpenterInitializes sets the label that ends a bootstrap.
func (c *Cluster) KarpenterInitializes(ctx context.Context, name string) error {
	return c.UpdateNode(ctx, name, func(node *corev1.Node) { node.Labels[LabelInitialized] = "true" })
}

// Signed is one certificate request that was approved and answered.
type Signed struct{ Name, Signer, User string }

// SignRequests approves and signs the certificate requests of kubelets until ctx ends. It is called once per cluster.
func (c *Cluster) SignRequests(ctx context.Context, seen func(Signed)) {
	for ctx.Err() == nil {
		list, err := c.Client.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{})
		if err == nil {
			for i := range list.Items {
				if csr := &list.Items[i]; len(csr.Status.Certificate) == 0 {
					if err := c.sign(ctx, csr); err == nil {
						seen(Signed{csr.Name, csr.Spec.SignerName, csr.Spec.Username})
					}
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (c *Cluster) sign(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	usage := x509.ExtKeyUsageServerAuth
	switch csr.Spec.SignerName {
	case certificatesv1.KubeAPIServerClientKubeletSignerName:
		usage = x509.ExtKeyUsageClientAuth
	case certificatesv1.KubeletServingSignerName:
	default:
		return fmt.Errorf("no signer %s here", csr.Spec.SignerName)
	}
	cert, err := c.CA.SignRequest(csr.Spec.Request, usage)
	if err != nil {
		return err
	}
	requests := c.Client.CertificatesV1().CertificateSigningRequests()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Conformance", Message: "approved by the test",
	})
	approved, err := requests.UpdateApproval(ctx, csr.Name, csr, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	approved.Status.Certificate = cert
	_, err = requests.UpdateStatus(ctx, approved, metav1.UpdateOptions{})
	return err
}

// Forget removes a node and the events that speak of it.
func (c *Cluster) Forget(ctx context.Context, name string) {
	_ = c.Client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	_ = c.Client.CoreV1().Events("default").DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
}

// PatchNode merges a JSON fragment into a node as the admin.
func (c *Cluster) PatchNode(ctx context.Context, name string, fragment any) error {
	text, err := json.Marshal(fragment)
	if err != nil {
		return err
	}
	_, err = c.Client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, text, metav1.PatchOptions{})
	return err
}

// PatchNodeStatus merges a JSON fragment into a node's status as the admin.
func (c *Cluster) PatchNodeStatus(ctx context.Context, name string, fragment any) error {
	text, err := json.Marshal(fragment)
	if err != nil {
		return err
	}
	_, err = c.Client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, text, metav1.PatchOptions{}, "status")
	return err
}
