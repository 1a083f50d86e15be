// The optional policies of deploy/optional: what a node's identity may and may not do with Nodes and NodeClaims, asked of the
// API server as dry runs, so that every case finds the same objects.

package conformance

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const (
	optionalManifests = "../../deploy/optional/*.yaml"
	guardManifests    = "../../deploy/optional/node-guards.yaml"
	claimsPath        = "/apis/karpenter.sh/v1/nodeclaims"
	stampAnnotation   = "karpenter.sh/nodeclaim-termination-timestamp"
	ownNodePolicy     = "nodeclaimd-own-node"
	ownClaimPolicy    = "nodeclaimd-own-claim"
	ownInstancePolicy = "nodeclaimd-own-instance"
	jsonPatch         = "application/json-patch+json"
	applyPatch        = "application/apply-patch+yaml"
)

// guardCase is one request of a node. denied is the policy that refuses it, "" for one that is let through; "restriction" where
// the API server's own NodeRestriction is faster.
type guardCase struct {
	what, as, method, path, kind, body, denied string
}

const restriction = "restriction"

func patchNode(what, as, body, denied string) guardCase {
	return guardCase{what, as, "PATCH", "/api/v1/nodes/" + as, harness.MergePatch, body, denied}
}

func createNode(what, metadata, denied string) guardCase {
	return guardCase{what, "guard-c", "POST", "/api/v1/nodes", "", `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "guard-c", ` + metadata + `}}`, denied}
}

func patchNodeStatus(what, as, body, denied string) guardCase {
	return guardCase{what, as, "PATCH", "/api/v1/nodes/" + as + "/status", harness.StrategicPatch, body, denied}
}

func patchClaim(what, claim, body, denied string) guardCase {
	return guardCase{what, "guard-a", "PATCH", claimsPath + "/" + claim, harness.MergePatch, body, denied}
}

func many(n int, item string) string {
	var items []string
	for i := range n {
		items = append(items, fmt.Sprintf(item, i))
	}
	return strings.Join(items, ", ")
}

func stamp(value string) string {
	return fmt.Sprintf(`{"metadata": {"annotations": {%q: %s}}}`, stampAnnotation, value)
}

// guard-a is a node of Karpenter's; guard-b another; guard-balanced one that Karpenter took out of the load balancers;
// guard-released one that took itself out. The NodeClaims have the names of their nodes; guard-stamped is guard-a's, too, and
// has its time already; guard-new has no node yet.
var guardCases = []guardCase{
	patchNode("own annotation", "guard-a", `{"metadata": {"annotations": {"nodeclaimd.io/drain-status": "{}"}}}`, ""),
	patchNode("cordon", "guard-a", `{"spec": {"unschedulable": true}}`, ""),
	patchNode("cordon, label and annotation at once", "guard-a",
		`{"metadata": {"labels": {"node.kubernetes.io/exclude-from-external-load-balancers": "nodeclaimd"}, "annotations": {"nodeclaimd.io/cordon": "{}"}}, "spec": {"unschedulable": true}}`, ""),
	patchNode("uncordon and take back its own label", "guard-released",
		`{"metadata": {"labels": {"node.kubernetes.io/exclude-from-external-load-balancers": null}}, "spec": {"unschedulable": null}}`, ""),
	patchNode("label of nobody", "guard-a", `{"metadata": {"labels": {"example.com/rack": "7"}}}`, ""),
	patchNode("label that only looks like Karpenter's", "guard-a", `{"metadata": {"labels": {"notkarpenter.sh/a": "7"}}}`, ""),
	patchNode("Karpenter's label as it is", "guard-a", `{"metadata": {"labels": {"karpenter.sh/nodepool": "default"}}}`, ""),
	patchNodeStatus("condition", "guard-a", `{"status": {"conditions": [{"type": "InterruptionPending", "status": "True", "reason": "SpotInterruption"}]}}`, ""),
	patchNodeStatus("condition and annotation at once", "guard-a",
		`{"metadata": {"annotations": {"nodeclaimd.io/drain-status": "{}"}}, "status": {"conditions": [{"type": "InterruptionPending", "status": "True", "reason": "SpotInterruption"}]}}`, ""),
	{"registration with Karpenter's labels", "guard-c", "POST", "/api/v1/nodes", "",
		`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "guard-c", "labels": {"karpenter.sh/nodepool": "default"}}}`, ""},

	createNode("registration as one that is registered", `"labels": {"karpenter.sh/registered": "true"}`, ownNodePolicy),
	createNode("registration as one that is initialized", `"labels": {"karpenter.sh/initialized": "true"}`, ownNodePolicy),
	createNode("registration with Karpenter's finalizer", `"finalizers": ["karpenter.sh/termination"]`, ownNodePolicy),
	createNode("registration with our finalizer", `"finalizers": ["nodeclaimd.io/termination"]`, ownNodePolicy),
	createNode("registration with an annotation of Karpenter", `"annotations": {"karpenter.sh/do-not-disrupt": "true"}`, ownNodePolicy),
	createNode("registration with an owner",
		`"ownerReferences": [{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "guard-b", "uid": "x"}]`, ownNodePolicy),
	createNode("registration with an annotation of nobody", `"annotations": {"example.com/rack": "7"}`, ""),
	{"registration as a machine, without a session", "guard-c", "POST", "/api/v1/nodes", "",
		`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "guard-c"}, "spec": {"providerID": "aws:///us-west-2a/i-0123456789abcdef0"}}`, ownInstancePolicy},

	createNode("registration with more taints than are read", `"labels": {}}, "spec": {"taints": [`+many(51, `{"key": "t%d", "effect": "NoSchedule"}`)+`]`, ownNodePolicy),
	createNode("registration with taints", `"labels": {}}, "spec": {"taints": [`+many(40, `{"key": "t%d", "effect": "NoSchedule"}`)+`]`, ""),
	patchNodeStatus("more conditions than are read", "guard-a", `{"status": {"conditions": [`+many(65, `{"type": "c%d", "status": "True"}`)+`]}}`, ownNodePolicy),
	patchNodeStatus("many conditions", "guard-a", `{"status": {"conditions": [`+many(60, `{"type": "c%d", "status": "True"}`)+`]}}`, ""),
	{"registration with more conditions than are read", "guard-c", "POST", "/api/v1/nodes", "",
		`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "guard-c"}, "status": {"conditions": [` + many(65, `{"type": "c%d", "status": "True"}`) + `]}}`, ownNodePolicy},

	patchNode("finalizer added", "guard-a", `{"metadata": {"finalizers": ["karpenter.sh/termination", "example.com/mine"]}}`, ownNodePolicy),
	patchNode("finalizer removed", "guard-a", `{"metadata": {"finalizers": null}}`, ownNodePolicy),
	patchNodeStatus("finalizer removed by way of the status", "guard-a", `{"metadata": {"$deleteFromPrimitiveList/finalizers": ["karpenter.sh/termination"]}}`, ownNodePolicy),
	patchNode("label of Karpenter changed", "guard-a", `{"metadata": {"labels": {"karpenter.sh/nodepool": "other"}}}`, ownNodePolicy),
	patchNode("label of Karpenter removed", "guard-a", `{"metadata": {"labels": {"karpenter.sh/registered": null}}}`, ownNodePolicy),
	patchNode("label of Karpenter added", "guard-a", `{"metadata": {"labels": {"karpenter.sh/initialized": "true"}}}`, ownNodePolicy),
	patchNode("label of a subdomain added", "guard-a", `{"metadata": {"labels": {"compute.karpenter.sh/x": "true"}}}`, ownNodePolicy),
	patchNodeStatus("label of Karpenter added by way of the status", "guard-a", `{"metadata": {"labels": {"karpenter.sh/initialized": "true"}}}`, ownNodePolicy),
	patchNode("annotation of Karpenter added", "guard-a", `{"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}`, ownNodePolicy),
	patchNode("annotation of Karpenter changed", "guard-a", `{"metadata": {"annotations": {"karpenter.sh/nodepool-hash": "2"}}}`, ownNodePolicy),
	patchNode("annotation of Karpenter removed", "guard-a", `{"metadata": {"annotations": {"karpenter.sh/nodepool-hash": null}}}`, ownNodePolicy),
	patchNode("Karpenter's balancer label removed", "guard-balanced", `{"metadata": {"labels": {"node.kubernetes.io/exclude-from-external-load-balancers": null}}}`, ownNodePolicy),
	patchNode("Karpenter's balancer label taken over", "guard-balanced", `{"metadata": {"labels": {"node.kubernetes.io/exclude-from-external-load-balancers": "nodeclaimd"}}}`, ownNodePolicy),
	{"finalizer removed by a JSON patch", "guard-a", "PATCH", "/api/v1/nodes/guard-a", jsonPatch, `[{"op": "remove", "path": "/metadata/finalizers"}]`, ownNodePolicy},
	{"label of Karpenter changed by apply", "guard-a", "PATCH", "/api/v1/nodes/guard-a?fieldManager=guard&force=true", applyPatch,
		`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "guard-a", "labels": {"karpenter.sh/nodepool": "other"}}}`, ownNodePolicy},
	patchNode("owners", "guard-a", `{"metadata": {"ownerReferences": null}}`, restriction),
	patchNode("taints", "guard-a", `{"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}}`, restriction),
	{"another's Node", "guard-a", "PATCH", "/api/v1/nodes/guard-b", harness.MergePatch, `{"metadata": {"annotations": {"nodeclaimd.io/drain-status": "{}"}}}`, restriction},

	{"its claim read", "guard-a", "GET", claimsPath + "/guard-a", "", "", ""},
	{"all claims listed", "guard-a", "GET", claimsPath, "", "", ""},
	patchClaim("its time", "guard-a", stamp(`"2031-01-02T03:04:05Z"`), ownClaimPolicy),
	patchClaim("its time as it is", "guard-stamped", stamp(`"2030-01-02T03:04:05Z"`), ownClaimPolicy),
	{"its claim deleted", "guard-a", "DELETE", claimsPath + "/guard-a", "", "", ownClaimPolicy},
	{"its claim deleted that has a time", "guard-a", "DELETE", claimsPath + "/guard-stamped", "", "", ownClaimPolicy},

	{"a claim made", "guard-a", "POST", claimsPath, "", `{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "guard-made"},
 "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}, "requirements": []}}`, ownClaimPolicy},
	patchClaim("another's claim stamped", "guard-b", stamp(`"2031-01-02T03:04:05Z"`), ownClaimPolicy),
	{"another's claim deleted", "guard-a", "DELETE", claimsPath + "/guard-b", "", "", ownClaimPolicy},
	patchClaim("a claim stamped that has no node", "guard-new", stamp(`"2031-01-02T03:04:05Z"`), ownClaimPolicy),
	{"a claim deleted that has no node", "guard-a", "DELETE", claimsPath + "/guard-new", "", "", ownClaimPolicy},
	{"all claims deleted", "guard-a", "DELETE", claimsPath, "", "", ownClaimPolicy},
	patchClaim("labels", "guard-a", `{"metadata": {"labels": {"example.com/a": "b"}}}`, ownClaimPolicy),
	patchClaim("a label removed", "guard-a", `{"metadata": {"labels": {"karpenter.sh/nodepool": null}}}`, ownClaimPolicy),
	patchClaim("a finalizer removed", "guard-a", `{"metadata": {"finalizers": null}}`, ownClaimPolicy),
	patchClaim("a finalizer added", "guard-a", `{"metadata": {"finalizers": ["karpenter.sh/termination", "example.com/mine"]}}`, ownClaimPolicy),
	patchClaim("an owner", "guard-a", `{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "guard-a", "uid": "x"}]}}`, ownClaimPolicy),
	patchClaim("another annotation", "guard-a", `{"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}`, ownClaimPolicy),
	patchClaim("an annotation changed", "guard-a", `{"metadata": {"annotations": {"example.com/note": "2"}}}`, ownClaimPolicy),
	patchClaim("an annotation removed beside its time", "guard-a", `{"metadata": {"annotations": {"example.com/note": null, "`+stampAnnotation+`": "2031-01-02T03:04:05Z"}}}`, ownClaimPolicy),
	patchClaim("a time that is none", "guard-a", stamp(`"soon"`), ownClaimPolicy),
	patchClaim("a time of another zone", "guard-a", stamp(`"2031-01-02T03:04:05+02:00"`), ownClaimPolicy),
	patchClaim("a time with a fraction", "guard-a", stamp(`"2031-01-02T03:04:05.6Z"`), ownClaimPolicy),
	patchClaim("a time that no calendar has", "guard-a", stamp(`"2031-13-41T03:04:05Z"`), ownClaimPolicy),
	patchClaim("a time long ago", "guard-a", stamp(`"2001-01-02T03:04:05Z"`), ownClaimPolicy),
	patchClaim("an empty time", "guard-a", stamp(`""`), ownClaimPolicy),
	patchClaim("its time moved", "guard-stamped", stamp(`"2031-01-02T03:04:05Z"`), ownClaimPolicy),
	patchClaim("its time taken back", "guard-stamped", stamp(`null`), ownClaimPolicy),
	{"its status", "guard-a", "PATCH", claimsPath + "/guard-a/status", harness.MergePatch, `{"status": {"providerID": "aws:///us-west-2a/i-0"}}`, ownClaimPolicy},
	{"a claim taken by its status", "guard-a", "PATCH", claimsPath + "/guard-new/status", harness.MergePatch, `{"status": {"nodeName": "guard-a"}}`, ownClaimPolicy},
	{"a claim taken from another", "guard-a", "PATCH", claimsPath + "/guard-b/status", harness.MergePatch, `{"status": {"nodeName": "guard-a"}}`, ownClaimPolicy},
	{"its time added by a JSON patch", "guard-a", "PATCH", claimsPath + "/guard-stamped", jsonPatch,
		`[{"op": "replace", "path": "/metadata/annotations/karpenter.sh~1nodeclaim-termination-timestamp", "value": "2031-01-02T03:04:05Z"}]`, ownClaimPolicy},
	{"labels by apply", "guard-a", "PATCH", claimsPath + "/guard-a?fieldManager=guard&force=true", applyPatch,
		`{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "guard-a", "labels": {"example.com/a": "b"}}}`, ownClaimPolicy},
}

func TestGuardPolicies(t *testing.T) {
	ctx := within(t, 120*time.Second)
	makeNamespace(t, ctx, replacementSpace) // an optional manifest has a Role there
	apply(t, ctx, optionalManifests)
	makeGuarded(t, ctx)
	unlocked := allowEverything(t, ctx)
	wires := map[string]*harness.Wire{}
	for _, c := range guardCases {
		if wires[c.as] == nil {
			var err error
			wires[c.as], err = cluster.NodeWire(c.as)
			must(t, err)
			t.Cleanup(wires[c.as].Close)
		}
	}
	for _, policy := range []string{ownNodePolicy, ownClaimPolicy, ownInstancePolicy} {
		probe := guardCases[slices.IndexFunc(guardCases, func(c guardCase) bool { return c.denied == policy })]
		must(t, harness.Poll(ctx, policy+" is enforced", nil, func() error { return probe.try(ctx, wires[probe.as]) }))
	}
	for _, c := range guardCases {
		t.Run(c.what, func(t *testing.T) {
			if err := c.try(ctx, wires[c.as]); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("nobody else is concerned", func(t *testing.T) {
		must(t, cluster.PatchNode(ctx, "guard-a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"karpenter.sh/initialized": "true"}}}))
	})
	t.Run("the role alone lets nodes read NodeClaims, and no more", func(t *testing.T) {
		unlocked()
		must(t, harness.Poll(ctx, "the wide role is gone", nil, func() error {
			a, err := wires["guard-a"].Do(ctx, "DELETE", claimsPath+"?dryRun=All", "", nil)
			if err == nil && (a.Code != 403 || strings.Contains(a.Body, "ValidatingAdmissionPolicy")) {
				err = fmt.Errorf("%s", a)
			}
			return err
		}))
		for _, c := range guardCases {
			if c.denied == "" {
				if strings.HasPrefix(c.path, claimsPath) && c.method != http.MethodGet {
					c.denied = restriction // no role gives it that
				}
				if err := c.try(ctx, wires[c.as]); err != nil {
					t.Errorf("%s: %v", c.what, err)
				}
			}
		}
	})
}

// apply creates the objects of manifests and takes them away after the test.
func apply(t *testing.T, ctx context.Context, patterns ...string) {
	t.Helper()
	objects, err := harness.ReadManifests(patterns...)
	must(t, err)
	t.Cleanup(func() { cluster.Remove(context.Background(), objects) })
	must(t, cluster.Apply(ctx, objects))
}

// try asks it as a dry run and compares the answer.
func (c guardCase) try(ctx context.Context, wire *harness.Wire) error {
	path, body := c.path, any(nil)
	if c.method != http.MethodGet {
		path += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "dryRun=All"
	}
	if c.body != "" {
		body = c.body
	}
	a, err := wire.Do(ctx, c.method, path, c.kind, body)
	if err != nil {
		return err
	}
	// 422 where an expression cannot be evaluated: refused is refused.
	isByPolicy := (a.Code == 403 || a.Code == 422) && strings.Contains(a.Body, "ValidatingAdmissionPolicy '"+c.denied+"'")
	switch {
	case c.denied == "" && a.Code/100 == 2, c.denied == restriction && a.Code == 403, isByPolicy:
		return nil
	}
	return fmt.Errorf("%s %s: want it denied by %q, have %s", c.method, c.path, c.denied, a)
}

// allowEverything lets nodes do with NodeClaims what no role should, so that it is the policies that refuse; gives the way back.
func allowEverything(t *testing.T, ctx context.Context) func() {
	t.Helper()
	const name = "guard-everything"
	roles, bindings := cluster.Client.RbacV1().ClusterRoles(), cluster.Client.RbacV1().ClusterRoleBindings()
	_, err := roles.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"karpenter.sh"}, Resources: []string{"nodeclaims", "nodeclaims/status"}, Verbs: []string{"*"}}}}, metav1.CreateOptions{})
	must(t, err)
	must(t, cluster.Bind(ctx, name, "system:nodes"))
	back := func() {
		_ = bindings.Delete(context.Background(), name, metav1.DeleteOptions{})
		_ = roles.Delete(context.Background(), name, metav1.DeleteOptions{})
	}
	t.Cleanup(back)
	return back
}

// makeGuarded creates the objects that the cases speak of.
func makeGuarded(t *testing.T, ctx context.Context) {
	t.Helper()
	claims := map[string]*unstructured.Unstructured{}
	for i, name := range []string{"guard-a", "guard-b", "guard-balanced", "guard-released", "guard-stamped", "guard-new"} {
		claim, err := cluster.NewClaim(ctx, name, harness.NewInstance(900+i))
		must(t, err)
		t.Cleanup(func() { cluster.DropClaim(context.Background(), name, "") })
		note := map[string]any{"example.com/note": "1"}
		if name == "guard-stamped" {
			note[stampAnnotation] = "2030-01-02T03:04:05Z"
		}
		must(t, cluster.PatchClaim(ctx, name, "", map[string]any{"metadata": map[string]any{"finalizers": []string{"karpenter.sh/termination"}, "annotations": note}}))
		if name != "guard-new" {
			node := map[bool]string{true: "guard-a", false: name}[name == "guard-stamped"]
			must(t, cluster.PatchClaim(ctx, name, "status", map[string]any{"status": map[string]any{"nodeName": node}}))
		}
		claims[name] = claim
	}
	for name, balancers := range map[string]string{"guard-a": "", "guard-b": "", "guard-balanced": "karpenter", "guard-released": balancersValue} {
		labels := map[string]string{"karpenter.sh/nodepool": "default", "karpenter.sh/registered": "true"}
		if balancers != "" {
			labels[balancersLabel] = balancers
		}
		_, err := cluster.Client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels,
			Annotations: map[string]string{"karpenter.sh/nodepool-hash": "1"}, Finalizers: []string{"karpenter.sh/termination"},
			OwnerReferences: []metav1.OwnerReference{*harness.OwnerOf(claims[name])}},
			Spec: corev1.NodeSpec{Unschedulable: name == "guard-released"}}, metav1.CreateOptions{})
		must(t, err)
		t.Cleanup(func() {
			_ = cluster.PatchNode(context.Background(), name, map[string]any{"metadata": map[string]any{"finalizers": nil}})
			cluster.Forget(context.Background(), name)
		})
	}
}
