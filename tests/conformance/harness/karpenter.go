// What Karpenter leaves for a node: the NodeClaim in the API, from Karpenter's own resource definition, and the user
// data of an AL2023 instance, as it writes them.

package harness

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/karpenter/pkg/apis"
	"sigs.k8s.io/yaml"
)

var (
	claimResource = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
	poolResource  = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}
	crdResource   = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

const lookupRole = "nodeclaimd-nodeclaim-lookup"

// InstallNodeClaims makes the API server serve nodeclaims.karpenter.sh, and the NodePools that Karpenter looks for.
func (c *Cluster) InstallNodeClaims(ctx context.Context) error {
	for _, definition := range [][]byte{apis.NodePoolCRD, apis.NodeClaimCRD} {
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(definition, &crd.Object); err != nil {
			return err
		}
		if _, err := c.Dynamic.Resource(crdResource).Create(ctx, crd, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return Poll(ctx, "nodeclaims are served", nil, func() error {
		if _, err := c.Dynamic.Resource(claimResource).List(ctx, metav1.ListOptions{}); err != nil {
			return err
		}
		known, err := c.Client.Discovery().ServerResourcesForGroupVersion(claimResource.GroupVersion().String())
		if err == nil && len(known.APIResources) < 4 { // each with its status
			err = fmt.Errorf("discovery has %v", known.APIResources)
		}
		return err
	})
}

// NewClaim creates a NodeClaim as it is after the launch of the instance. taints is its spec.taints.
func (c *Cluster) NewClaim(ctx context.Context, name string, i *Instance, taints ...any) (*unstructured.Unstructured, error) {
	return c.NewClaimLike(ctx, name, i, func(claim *unstructured.Unstructured) {
		_ = unstructured.SetNestedSlice(claim.Object, append([]any{}, taints...), "spec", "taints")
	})
}

// NewClaimLike creates such a NodeClaim with a change.
func (c *Cluster) NewClaimLike(ctx context.Context, name string, i *Instance, change func(*unstructured.Unstructured)) (*unstructured.Unstructured, error) {
	claim := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
		"metadata": map[string]any{"name": name, "labels": map[string]any{
			"karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "on-demand", "karpenter.k8s.aws/ec2nodeclass": "default",
			"node.kubernetes.io/instance-type": i.Type, "topology.kubernetes.io/zone": i.Zone,
		}},
		"spec": map[string]any{
			"nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
			"requirements": []any{map[string]any{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": []any{i.Type}}},
			"resources":    map[string]any{"requests": map[string]any{"cpu": "1", "pods": "2"}},
			"expireAfter":  "720h",
		},
	}}
	change(claim)
	claims := c.Dynamic.Resource(claimResource)
	made, err := claims.Create(ctx, claim, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	status, err := json.Marshal(map[string]any{"status": map[string]any{
		"providerID": i.ProviderID(), "imageID": "ami-0123456789abcdef0",
		"capacity":    map[string]any{"cpu": "2", "memory": "7577Mi", "pods": "29", "ephemeral-storage": "20Gi"},
		"allocatable": map[string]any{"cpu": "1930m", "memory": "6903Mi", "pods": "29", "ephemeral-storage": "17Gi"},
		"conditions": []any{map[string]any{"type": "Launched", "status": "True", "reason": "Launched", "message": "",
			"lastTransitionTime": made.GetCreationTimestamp().UTC().Format("2006-01-02T15:04:05Z")}},
	}})
	if err != nil {
		return nil, err
	}
	return claims.Patch(ctx, name, types.MergePatchType, status, metav1.PatchOptions{}, "status") // a controller may have been faster
}

// NewPool creates a NodePool of which so many nodes may be disrupted at once.
func (c *Cluster) NewPool(ctx context.Context, name, nodes string) error {
	pool := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"template": map[string]any{"spec": map[string]any{"requirements": []any{},
				"nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}},
			"disruption": map[string]any{"consolidateAfter": "Never", "budgets": []any{map[string]any{"nodes": nodes}}},
		},
	}}
	_, err := c.Dynamic.Resource(poolResource).Create(ctx, pool, metav1.CreateOptions{})
	return err
}

// PatchPool merges a JSON fragment into a NodePool, as the admin.
func (c *Cluster) PatchPool(ctx context.Context, name string, fragment any) error {
	text, err := json.Marshal(fragment)
	if err != nil {
		return err
	}
	_, err = c.Dynamic.Resource(poolResource).Patch(ctx, name, types.MergePatchType, text, metav1.PatchOptions{})
	return err
}

// DeletePool removes it again.
func (c *Cluster) DeletePool(ctx context.Context, name string) {
	_ = c.Dynamic.Resource(poolResource).Delete(ctx, name, metav1.DeleteOptions{})
}

// PatchClaim merges a JSON fragment into a NodeClaim, or into its subresource "status", as the admin.
func (c *Cluster) PatchClaim(ctx context.Context, name, subresource string, fragment any) error {
	text, err := json.Marshal(fragment)
	if err != nil {
		return err
	}
	var below []string
	if subresource != "" {
		below = append(below, subresource)
	}
	_, err = c.Dynamic.Resource(claimResource).Patch(ctx, name, types.MergePatchType, text, metav1.PatchOptions{}, below...)
	return err
}

// Claim reads a NodeClaim.
func (c *Cluster) Claim(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	return c.Dynamic.Resource(claimResource).Get(ctx, name, metav1.GetOptions{})
}

// DeleteClaim removes it again.
func (c *Cluster) DeleteClaim(ctx context.Context, name string) {
	_ = c.Dynamic.Resource(claimResource).Delete(ctx, name, metav1.DeleteOptions{})
}

// OwnerOf makes the reference that Karpenter's registration puts on the node.
func OwnerOf(claim *unstructured.Unstructured) *metav1.OwnerReference {
	block := true
	return &metav1.OwnerReference{APIVersion: claim.GetAPIVersion(), Kind: claim.GetKind(), Name: claim.GetName(), UID: claim.GetUID(),
		BlockOwnerDeletion: &block}
}

// AllowClaimLookup grants the group system:nodes get and list on NodeClaims, the optional role of the documentation, or more
// than that.
func (c *Cluster) AllowClaimLookup(ctx context.Context, more ...string) error {
	role := lookupRole
	if len(more) > 0 {
		role += "-and-" + strings.Join(more, "-")
	}
	_, err := c.Client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: role},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"karpenter.sh"}, Resources: []string{"nodeclaims"}, Verbs: append([]string{"get", "list"}, more...)}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return c.Bind(ctx, role, "system:nodes")
}

// DenyClaimLookup takes every such grant back.
func (c *Cluster) DenyClaimLookup(ctx context.Context) error {
	bindings := c.Client.RbacV1().ClusterRoleBindings()
	list, err := bindings.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, b := range list.Items {
		if strings.HasPrefix(b.Name, lookupRole) {
			if err := bindings.Delete(ctx, b.Name, metav1.DeleteOptions{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Bind gives a group a cluster role; the binding has the role's name.
func (c *Cluster) Bind(ctx context.Context, role, group string) error {
	_, err := c.Client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// UserData is what Karpenter's AL2023 family writes; the last part wins. Extra goes below spec.kubelet.config, indented
// by six blanks; Labels are those of --node-labels in the order given.
type UserData struct {
	MaxPods int
	Labels  []string
	Taints  []string // "key=value:Effect" or "key:Effect"
	Extra   string
}

// KarpenterLabels are those that Karpenter gives every node of the pool "default".
func KarpenterLabels() []string {
	return []string{"karpenter.k8s.aws/ec2nodeclass=default", "karpenter.sh/capacity-type=on-demand",
		"karpenter.sh/do-not-sync-taints=true", "karpenter.sh/nodepool=default"}
}

// For writes the document for a cluster.
func (u UserData) For(c *Cluster) []byte {
	var text strings.Builder
	fmt.Fprintf(&text, `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

# Karpenter Generated NodeConfig
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
metadata: {}
spec:
  cluster:
    apiServerEndpoint: %s
    certificateAuthority: %s
    cidr: %s
    name: %s
  containerd: {}
  instance:
    localStorage: {}
  kubelet:
    config:
      clusterDNS:
      - 10.100.0.10
%s      maxPods: %d
      registerWithTaints:
`, c.Endpoint, base64.StdEncoding.EncodeToString(c.CA.PEM), ServiceCIDR, ClusterName, u.Extra, u.MaxPods)
	for _, taint := range append(u.Taints, TaintUnregistered+":NoExecute") {
		keyValue, effect, _ := strings.Cut(taint, ":")
		key, value, valued := strings.Cut(keyValue, "=")
		fmt.Fprintf(&text, "      - effect: %s\n        key: %s\n", effect, key)
		if valued {
			fmt.Fprintf(&text, "        value: %q\n", value)
		}
	}
	fmt.Fprintf(&text, "    flags:\n    - --node-labels=%q\n\n--//--\n", strings.Join(u.Labels, ","))
	return []byte(text.String())
}
