// Trust: whoever has rights in a namespace of his own, or holds one node, changes nothing of what the controller does for others.

package conformance

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const noMetadata = "http://127.0.0.1:9" // no IMDS answers there

// holdLease is what a tenant can do who has the role edit in his namespace: hold a Lease there, whatever its name.
func holdLease(t *testing.T, ctx context.Context, namespace, name string) {
	t.Helper()
	makeNamespace(t, ctx, namespace)
	// The role edit is made of this one by a controller that does not run here.
	_, err := cluster.Client.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "edit"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:aggregate-to-edit"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: namespace}}}, metav1.CreateOptions{})
	must(t, err)
	holder, seconds, now := "tenant", int32(3600), metav1.NowMicro()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now}}
	must(t, harness.Poll(ctx, "the tenant may", nil, func() error {
		return cluster.Client.CoordinationV1().RESTClient().Post().Namespace(namespace).Resource("leases").
			SetHeader("Impersonate-User", namespace).Body(lease).Do(ctx).Error()
	}))
	t.Cleanup(func() {
		_ = cluster.Client.CoordinationV1().Leases(namespace).Delete(context.Background(), name, metav1.DeleteOptions{})
	})
}

// No namespaced right changes what the controller does for the cluster: it looks for Karpenter by itself, and a tenant says that he is
// Karpenter.
func TestLeaseOfATenant(t *testing.T) {
	ctx := within(t, 90*time.Second)
	e := newEnder(t, ctx)
	keys, err := e.moto.User(ctx, "controller", "ec2:*")
	must(t, err)
	holdLease(t, ctx, "team-a", "karpenter-leader-election")
	i := e.simulated("trust-lease", "", map[string]any{"terminationGracePeriod": "1s"})
	e.begin(keys, noMetadata, "--mode", "auto")
	e.registered("trust-lease")
	cluster.DeleteClaim(ctx, "trust-lease")
	e.isGone("trust-lease")
	e.once(t, i, time.Time{})
	e.isState(i, "terminated")
	e.checkManners()
}

// machine is a claim of an instance that moto knows by its name; it has no Node yet.
func (e *ender) machine(claim string) (*harness.Instance, string) {
	e.t.Helper()
	id, err := e.moto.Run(e.ctx)
	must(e.t, err)
	name, err := e.moto.Name(e.ctx, id)
	must(e.t, err)
	i := harness.NewInstance(0)
	i.ID = id
	e.doomedClaim(claim, i, nil)
	return i, name
}

// joins creates a Node with the node's own credentials.
func (e *ender) joins(name, providerID string, annotations map[string]string) {
	e.t.Helper()
	wire, err := cluster.NodeWire(name)
	must(e.t, err)
	defer wire.Close()
	a, err := wire.Do(e.ctx, "POST", "/api/v1/nodes", "", &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec:       corev1.NodeSpec{ProviderID: providerID, Taints: []corev1.Taint{{Key: harness.TaintUnregistered, Effect: corev1.TaintEffectNoExecute}}}})
	must(e.t, err)
	must(e.t, codeIs(a, 201))
	e.t.Cleanup(func() {
		after, stop := harness.Within(10 * time.Second)
		defer stop()
		_ = leave(after, name)
	})
}

// leave takes a Node away as an administrator does: no node may delete its own. What is being deleted gets no new finalizer.
func leave(ctx context.Context, name string) error {
	cluster.Forget(ctx, name)
	_ = cluster.PatchNode(ctx, name, map[string]any{"metadata": map[string]any{"finalizers": nil}})
	return harness.Poll(ctx, name+" is gone", nil, func() error {
		if _, err := cluster.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); !isNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
}

// No write to a claim follows from what another one's node says: once its Node is gone it makes that anew, as the machine of a claim
// that is booting, and says that it is about to end.
func TestNodeThatSaysItIsAnother(t *testing.T) {
	ctx := within(t, 90*time.Second)
	e := newEnder(t, ctx)
	keys, err := e.moto.User(ctx, "controller", "ec2:*")
	must(t, err)
	one, liar := e.machine("trust-liar")
	victim, name := e.machine("trust-victim")
	third, honest := e.machine("trust-honest")
	e.begin(keys, noMetadata, "--node-identity", "ec2")
	e.joins(liar, one.ProviderID(), nil)
	e.registered("trust-liar")
	booting := &aloneNode{node: &node{t: t, ctx: ctx}}
	booting.claim, err = cluster.Claim(ctx, "trust-victim")
	must(t, err)
	booting.is(e.central, "Registered", "Unknown", "NodeNotFound")

	before := len(e.writes("nodeclaims", "trust-victim"))
	must(t, leave(ctx, liar))
	e.joins(liar, victim.ProviderID(), map[string]string{drainAnnotation: word(time.Now().Add(20 * time.Second))})
	e.joins(honest, third.ProviderID(), nil) // what the controller sees of it, it sees after the lie
	e.registered("trust-honest")
	if after := e.writes("nodeclaims", "trust-victim"); len(after) != before {
		t.Errorf("%v", after[before:])
	}
	e.joins(name, victim.ProviderID(), nil)
	e.registered("trust-victim")
	now, err := cluster.Claim(ctx, "trust-victim")
	must(t, err)
	if status, _ := now.Object["status"].(map[string]any); status["nodeName"] != name || now.GetDeletionTimestamp() != nil || now.GetAnnotations()[stampAnnotation] != "" {
		t.Errorf("%v, %v", now.Object["metadata"], status)
	}
	if slices.ContainsFunc(e.writes("nodes", liar), func(w harness.AuditEntry) bool {
		return body(w, "metadata", "ownerReferences", 0, "uid") == string(now.GetUID())
	}) {
		t.Error("the liar's Node was taken for the victim's")
	}
	e.isState(victim, "running")
	e.checkManners()
}
