// The chart of deploy/chart, by the real helm: what it renders is what the kustomize base has and what the API server accepts; it is
// installed, upgraded and removed; and it refuses values that mean nothing.

package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const (
	deployDir = "../../deploy"
	chartDir  = deployDir + "/chart"
	release   = "nodeclaim-controller"
	withImage = "image.repository=nodeclaim-controller"
)

var (
	shipping       = os.Getenv("CONFORMANCE_HELM") // folder of helm, kustomize and the resource definitions of the Prometheus Operator
	atNamespace    = []string{"--namespace", "kube-system"}
	deploymentKind = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	inStandalone   = []string{"--set", "mode=standalone,standalone.terminate=true,standalone.nodeIdentity=admission"}
)

// Values that people set, each of which the API server must accept.
var chartValues = map[string][]string{
	"defaults":   nil,
	"standalone": inStandalone,
	"auto":       {"--set", "mode=auto,karpenterNamespaces={karpenter,team-karpenter},options.margin=10m,options.max-in-flight=128,options.zone-turn=1m,options.retry-period=8333ms,options.lease-duration=10s1ms"},
	"groups":     {"--set", "completeLifecycleActions=true,lifecycleHook=t/n-d,options.region=us-west-2"},
	"replacing":  {"--set", "replacementFirst={default,kube-system}"},
	"guards":     {"--set", "nodes.readNodeClaims=true,nodes.guards=true,nodes.identityGuard=true"},
	"operator": {"--set", "metrics.rules=true,metrics.dashboard=true,metrics.runbooks=https://wiki.example.com/,metrics.scrape=serviceMonitor,metrics.labels.release=prometheus," +
		"metrics.namespace=default,metrics.dashboardAnnotations.grafana_folder=a,metrics.disabledRules={NodeclaimdVolumeWait},metrics.ruleLabels.team=a,metrics.ruleOverrides.NodeclaimdNotRunning.for=30m,metrics.relabelings[0].targetLabel=cluster,metrics.relabelings[0].replacement=prod", "--set-json", `networkPolicy.from=[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"monitoring"}},` +
		`"podSelector":{"matchLabels":{"app.kubernetes.io/name":"prometheus"}}},{"ipBlock":{"cidr":"10.0.0.0/16"}}]`},
	"outOfService": {"--set", "outOfServiceTaint=true,options.region=us-west-2"},
	"placement": {"--set", "allowManagedNodes=true,nodeSelector.disk=ssd,nodeSelector.karpenter\\.sh/nodepool=a,tolerations=null,replicas=1,priorityClassName=,networkPolicy.enabled=false",
		"--set-string", "podLabels.team=a,podAnnotations.example\\.com/n=1,serviceAccount.annotations.eks\\.amazonaws\\.com/role-arn=arn:aws:iam::1:role/r"},
	"image": {"--set", "image.repository=registry.example.com:5000/a/nodeclaim-controller,image.digest=sha256:" +
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef,image.pullSecrets={registry}",
		"--set-string", "metrics.address=[::]:9090"},
	"names": {"--set", "nameOverride=ncc,fullnameOverride=team-ncc,additionalLabels.team=a,replacementFirst={default},mode=standalone," +
		"nodes.readNodeClaims=true,nodes.guards=true,nodes.identityGuard=true,metrics.rules=true,metrics.dashboard=true,metrics.scrape=serviceMonitor," +
		"additionalAnnotations.example\\.com/owner=a,serviceAccount.annotations.example\\.com/role=r"},
	"noRights": {"--set", "rbac.create=false,replicas=0,mode=auto,replacementFirst={default}"},
	"account":  {"--set", "serviceAccount.create=false,serviceAccount.name=default,podDisruptionBudget.enabled=false"},
	"pod": {"--set", "podDisruptionBudget.minAvailable=50%,dnsPolicy=None,dnsConfig.nameservers={10.0.0.10},podSecurityContext.runAsUser=null," +
		"podSecurityContext.runAsGroup=null,securityContext.runAsUser=null,topologySpreadConstraints=null,strategy.type=Recreate," +
		"terminationGracePeriodSeconds=30,revisionHistoryLimit=1,schedulerName=mine,livenessProbe.failureThreshold=9,readinessProbe.timeoutSeconds=2", "--set-json", `extraVolumes=[{"name":"ca","configMap":{"name":"ca"}}]`, "--set-json",
		`extraVolumeMounts=[{"name":"ca","mountPath":"/etc/ssl/certs","readOnly":true}]`, "--set-json",
		`envFrom=[{"prefix":"AWS_","configMapRef":{"name":"aws","optional":true}}]`, "--set-json", `env=[{"name":"AWS_REGION",` +
			`"value":"us-west-2"},{"name":"POD","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]`, "--set-json", `affinity=` + twoTerms},
}

// Alternatives of a user, and where the pods should not be.
const twoTerms = `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
	{"matchExpressions":[{"key":"disk","operator":"In","values":["ssd"]}]},{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]}]}},
	"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"kubernetes.io/hostname",
	"labelSelector":{"matchLabels":{"app.kubernetes.io/name":"nodeclaim-controller"}}}]}}`

func newTools(t *testing.T) *harness.Tools {
	t.Helper()
	tools, err := cluster.NewTools(shipping, filepath.Join(workDir, t.Name()))
	must(t, err)
	return tools
}

// render gives the objects of `helm template` with more arguments.
func render(t *testing.T, ctx context.Context, tools *harness.Tools, more ...string) []*unstructured.Unstructured {
	t.Helper()
	text, err := tools.Helm(ctx, slices.Concat([]string{"template", release, chartDir, "--set", withImage}, atNamespace, more)...)
	must(t, err)
	objects, err := harness.ParseManifest([]byte(text))
	must(t, err)
	return objects
}

func nameOf(o *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
}

func byName(t *testing.T, objects []*unstructured.Unstructured) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, o := range objects {
		text, err := o.MarshalJSON()
		must(t, err)
		if all[nameOf(o)] != "" {
			t.Errorf("%s is there twice", nameOf(o))
		}
		all[nameOf(o)] = string(text)
	}
	return all
}

// withoutHelm gives the objects without the labels by which Helm knows them, which are all that each object has beside its name.
func withoutHelm(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	for _, o := range objects {
		labels := o.GetLabels()
		for _, key := range []string{"helm.sh/chart", "app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by"} {
			delete(labels, key)
		}
		o.SetLabels(labels)
	}
	return objects
}

// Helm warns of a link at each command.
func TestChartHasNoLinks(t *testing.T) {
	must(t, filepath.WalkDir(chartDir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !entry.Type().IsRegular() {
			t.Errorf("%s is not a regular file", path)
		}
		return err
	}))
}

// Each object has the common labels; with other names, roles, pods and ServiceAccount still belong together.
func TestChartNames(t *testing.T) {
	ctx := within(t, 30*time.Second)
	tools := newTools(t)
	for _, o := range render(t, ctx, tools, chartValues["names"]...) {
		labels := o.GetLabels()
		if labels["helm.sh/chart"] == "" || labels["app.kubernetes.io/managed-by"] != "Helm" || labels["app.kubernetes.io/instance"] != release || labels["team"] != "a" {
			t.Errorf("%s has the labels %v", nameOf(o), labels)
		}
		annotations := map[string]string{"example.com/owner": "a"}
		if o.GetKind() == "ServiceAccount" {
			annotations["example.com/role"] = "r"
		}
		if !reflect.DeepEqual(o.GetAnnotations(), annotations) {
			t.Errorf("%s has the annotations %v", nameOf(o), o.GetAnnotations())
		}
		if name := o.GetName(); !strings.HasPrefix(name, "team-ncc") && !strings.HasPrefix(name, "nodeclaimd") {
			t.Errorf("%s has another name", nameOf(o))
		}
		if ref, found, _ := unstructured.NestedString(o.Object, "roleRef", "name"); found && ref != o.GetName() {
			t.Errorf("%s binds %s", nameOf(o), ref)
		}
		subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
		for _, one := range subjects {
			if subject := one.(map[string]any); subject["kind"] == "ServiceAccount" && subject["name"] != "team-ncc" {
				t.Errorf("%s binds %v", nameOf(o), subject)
			}
		}
		for _, path := range [][]string{{"spec", "selector", "matchLabels"}, {"spec", "template", "metadata", "labels"}, {"spec", "podSelector", "matchLabels"}} {
			if got, found, _ := unstructured.NestedStringMap(o.Object, path...); found && !reflect.DeepEqual(got, map[string]string{"app.kubernetes.io/name": "ncc"}) {
				t.Errorf("%s has %v at %v", nameOf(o), got, path)
			}
		}
	}
	for _, o := range render(t, ctx, tools, chartValues["account"]...) {
		if o.GetKind() == "ServiceAccount" || o.GetKind() == "PodDisruptionBudget" {
			t.Errorf("%s is there", nameOf(o))
		}
		if account, found, _ := unstructured.NestedString(o.Object, "spec", "template", "spec", "serviceAccountName"); found && account != "default" {
			t.Errorf("the pods run as %s", account)
		}
	}
}

// get gives the only object of a kind.
func get(t *testing.T, objects []*unstructured.Unstructured, kind string) *unstructured.Unstructured {
	t.Helper()
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() != kind })
	if len(objects) != 1 {
		t.Fatalf("%d objects of kind %s", len(objects), kind)
	}
	return objects[0]
}

// What a user sets reaches the pod, and what has a default is replaced by it.
func TestChartPod(t *testing.T) {
	ctx := within(t, 30*time.Second)
	tools := newTools(t)
	for _, one := range []struct {
		values []string
		want   map[string]string
	}{
		{nil, map[string]string{"strategy": "map[rollingUpdate:map[maxSurge:1 maxUnavailable:1]]", "terminationGracePeriodSeconds": "10",
			"volumes": "<nil>", "volumeMounts": "<nil>", "envFrom": "<nil>", "revisionHistoryLimit": "3", "schedulerName": "<nil>",
			"liveness":  "map[httpGet:map[path:/healthz port:metrics] initialDelaySeconds:10 periodSeconds:10 timeoutSeconds:5]",
			"readiness": "map[httpGet:map[path:/readyz port:metrics] periodSeconds:5 timeoutSeconds:5]"}},
		{chartValues["pod"], map[string]string{"strategy": "map[type:Recreate]", "terminationGracePeriodSeconds": "30",
			"volumes": "[map[configMap:map[name:ca] name:ca]]", "volumeMounts": "[map[mountPath:/etc/ssl/certs name:ca readOnly:true]]",
			"envFrom": "[map[configMapRef:map[name:aws optional:true] prefix:AWS_]]", "revisionHistoryLimit": "1", "schedulerName": "mine",
			"liveness":  "map[failureThreshold:9 httpGet:map[path:/healthz port:metrics] initialDelaySeconds:10 periodSeconds:10 timeoutSeconds:5]",
			"readiness": "map[httpGet:map[path:/readyz port:metrics] periodSeconds:5 timeoutSeconds:2]"}},
		{[]string{"--set", "strategy=null,terminationGracePeriodSeconds=null,livenessProbe=null"}, map[string]string{"strategy": "<nil>", "terminationGracePeriodSeconds": "<nil>",
			"liveness": "map[httpGet:map[path:/healthz port:metrics]]"}},
	} {
		spec := get(t, render(t, ctx, tools, one.values...), "Deployment").Object["spec"].(map[string]any)
		pod := spec["template"].(map[string]any)["spec"].(map[string]any)
		container := pod["containers"].([]any)[0].(map[string]any)
		got := map[string]any{"strategy": spec["strategy"], "terminationGracePeriodSeconds": pod["terminationGracePeriodSeconds"],
			"volumes": pod["volumes"], "volumeMounts": container["volumeMounts"], "envFrom": container["envFrom"],
			"revisionHistoryLimit": spec["revisionHistoryLimit"], "schedulerName": pod["schedulerName"], "liveness": container["livenessProbe"], "readiness": container["readinessProbe"]}
		for key, want := range one.want {
			if fmt.Sprint(got[key]) != want {
				t.Errorf("%v: %s is %v, not %s", one.values, key, got[key], want)
			}
		}
	}
}

// Without rights of its own the chart has what runs, and what the rights are bound to.
func TestChartWithoutRights(t *testing.T) {
	ctx := within(t, 30*time.Second)
	var kinds []string
	for _, o := range render(t, ctx, newTools(t), chartValues["noRights"]...) {
		kinds = append(kinds, o.GetKind())
	}
	slices.Sort(kinds)
	if want := []string{"Deployment", "NetworkPolicy", "PodDisruptionBudget", "ServiceAccount"}; !slices.Equal(kinds, want) {
		t.Errorf("%v, not %v", kinds, want)
	}
}

// Where Prometheus has a namespace of its own: what it reads is there and finds the controller, which admits it and nobody else.
func TestChartOfAnotherNamespace(t *testing.T) {
	ctx := within(t, 30*time.Second)
	tools := newTools(t)
	objects := render(t, ctx, tools, chartValues["operator"]...)
	for kind, want := range map[string]string{"ServiceMonitor": "default", "PrometheusRule": "default", "ConfigMap": "default", "Service": "kube-system"} {
		if o := get(t, slices.Clone(objects), kind); o.GetNamespace() != want {
			t.Errorf("%s is not in %s", nameOf(o), want)
		}
	}
	names, _, err := unstructured.NestedStringSlice(get(t, slices.Clone(objects), "ServiceMonitor").Object, "spec", "namespaceSelector", "matchNames")
	must(t, err)
	if !slices.Equal(names, []string{"kube-system"}) {
		t.Errorf("the ServiceMonitor looks in %v", names)
	}
	for _, one := range []struct {
		objects []*unstructured.Unstructured
		want    string
	}{{render(t, ctx, tools), "[map[namespaceSelector:map[matchLabels:map[nodeclaimd.io/scrapes-metrics:true]]]]"}, {objects,
		"[map[namespaceSelector:map[matchLabels:map[kubernetes.io/metadata.name:monitoring]] podSelector:map[matchLabels:map[app.kubernetes.io/name:prometheus]]] " +
			"map[ipBlock:map[cidr:10.0.0.0/16]]]"}} {
		rules, _, err := unstructured.NestedSlice(get(t, one.objects, "NetworkPolicy").Object, "spec", "ingress")
		must(t, err)
		if got := fmt.Sprint(rules[0].(map[string]any)["from"]); len(rules) != 1 || got != one.want {
			t.Errorf("%v", rules)
		}
	}
}

// No affinity of a user lets the pods run on managed nodes: terms are alternatives, so that each must exclude them.
func TestChartKeepsAwayFromManagedNodes(t *testing.T) {
	ctx := within(t, 30*time.Second)
	tools := newTools(t)
	for _, one := range []struct {
		values []string
		terms  int
	}{{nil, 1}, {chartValues["pod"], 2}, {[]string{"--set", "allowManagedNodes=true"}, 0}} {
		for _, o := range render(t, ctx, tools, one.values...) {
			if o.GetKind() != "Deployment" {
				continue
			}
			terms, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "affinity", "nodeAffinity",
				"requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
			must(t, err)
			if len(terms) != one.terms {
				t.Errorf("%v: %v", one.values, terms)
			}
			for _, term := range terms {
				if !strings.Contains(fmt.Sprint(term), "map[key:karpenter.sh/nodepool operator:DoesNotExist]") {
					t.Errorf("%v: %v", one.values, term)
				}
			}
		}
	}
}

// The chart is the source: who uses kustomize, or a file of optional/, gets what helm gives.
func TestManifestsAreTheChart(t *testing.T) {
	ctx := within(t, 60*time.Second)
	tools := newTools(t)
	_, err := tools.Run(ctx, deployDir+"/render", "--check")
	must(t, err)
	text, err := tools.Run(ctx, tools.Path("kustomize"), "build", deployDir)
	must(t, err)
	base, err := harness.ParseManifest([]byte(text))
	must(t, err)
	chart := byName(t, withoutHelm(render(t, ctx, tools)))
	if changes := harness.Changes(chart, byName(t, base)); len(changes) > 0 || len(chart) < 9 {
		t.Errorf("the chart has %d objects; the kustomize base differs in %v", len(chart), changes)
	}
}

// What README.md says of an overlay gives what the chart gives in that mode.
func TestOverlayIsTheChart(t *testing.T) {
	ctx := within(t, 60*time.Second)
	tools := newTools(t)
	readme, err := os.ReadFile(deployDir + "/README.md")
	must(t, err)
	base, err := filepath.Abs(deployDir)
	must(t, err)
	overlay := filepath.Join(workDir, t.Name(), "overlay")
	must(t, os.MkdirAll(overlay, 0o755))
	base, err = filepath.Rel(overlay, base)
	must(t, err)
	_, block, found := strings.Cut(string(readme), "    resources: [nodeclaimd/deploy]\n")
	block, _, ends := strings.Cut(block, "\n\n")
	if !found || !ends {
		t.Fatal("README.md has no overlay")
	}
	must(t, os.WriteFile(filepath.Join(overlay, "kustomization.yaml"),
		[]byte("    resources: ["+base+"]\n"+block+"\n"), 0o644))
	text, err := tools.Run(ctx, tools.Path("kustomize"), "build", overlay)
	must(t, err)
	objects, err := harness.ParseManifest([]byte(text))
	must(t, err)
	role, err := harness.ReadManifests(standaloneManifest)
	must(t, err)
	chart := byName(t, withoutHelm(render(t, ctx, tools, "--set", "mode=standalone")))
	if changes := harness.Changes(chart, byName(t, append(objects, role...))); len(changes) > 0 {
		t.Errorf("the overlay differs in %v", changes)
	}
}

// installOperator makes the kinds of the Prometheus Operator known.
func installOperator(t *testing.T, ctx context.Context) {
	t.Helper()
	definitions, err := harness.ReadManifests(filepath.Join(shipping, "crds", "*.yaml"))
	must(t, err)
	must(t, cluster.Apply(ctx, definitions))
	t.Cleanup(func() { cluster.Remove(context.Background(), definitions) })
	must(t, harness.Poll(ctx, "the Prometheus Operator's kinds", nil, func() error {
		_, err := cluster.Client.Discovery().ServerResourcesForGroupVersion("monitoring.coreos.com/v1")
		return err
	}))
}

func TestChartIsAccepted(t *testing.T) {
	ctx := within(t, 120*time.Second)
	tools := newTools(t)
	installOperator(t, ctx)
	for name, values := range chartValues {
		t.Run(name, func(t *testing.T) {
			said, err := tools.Helm(ctx, slices.Concat([]string{"lint", "--strict", chartDir, "--set", withImage}, values)...)
			must(t, err)
			if !strings.Contains(said, "0 chart(s) failed") {
				t.Error(said)
			}
			must(t, cluster.ApplyDry(ctx, render(t, ctx, tools, values...)))
		})
	}
}

// The file of a release is the chart: it gives the same objects, and between releases of its own version.
func TestChartArchive(t *testing.T) {
	ctx := within(t, 60*time.Second)
	tools := newTools(t)
	archive := filepath.Join(workDir, t.Name()+".tgz")
	_, err := tools.Run(ctx, "env", "SOURCE_DATE_EPOCH=1000000000", "../../release/chart", archive)
	must(t, err)
	_, err = tools.Helm(ctx, "lint", "--strict", archive, "--set", withImage)
	must(t, err)
	version, err := tools.Run(ctx, "../../release/version")
	must(t, err)
	version = strings.TrimSpace(version)
	plain := strings.NewReplacer()
	if i := strings.IndexAny(version, "+-"); i > 0 { // labels and tags may not have a plus
		plain = strings.NewReplacer(strings.ReplaceAll(version, "+", "_"), version[:i], strings.ReplaceAll(version, "+", "-"), version[:i])
	}
	for name, values := range chartValues {
		var texts []string
		for _, chart := range []string{chartDir, archive} {
			text, err := tools.Helm(ctx, slices.Concat([]string{"template", release, chart, "--set", withImage}, atNamespace, values)...)
			must(t, err)
			texts = append(texts, plain.Replace(text))
		}
		if texts[0] != texts[1] {
			t.Errorf("%s: the archive gives\n%s\nnot\n%s", name, texts[1], texts[0])
		}
	}
}

// The alerts of the PrometheusRule are those that promtool checks, word for word: no template is read in them.
func TestChartHasTheAlerts(t *testing.T) {
	ctx := within(t, 30*time.Second)
	for _, o := range render(t, ctx, newTools(t), "--set", "metrics.rules=true,metrics.runbooks=https://wiki.example.com/") {
		if o.GetKind() != "PrometheusRule" {
			continue
		}
		text, err := os.ReadFile(deployDir + "/observability/alerts.yaml")
		must(t, err)
		file := filepath.Join(t.TempDir(), "alerts.yaml")
		must(t, os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "RUNBOOKS/", "https://wiki.example.com/")), 0o644))
		rules, err := harness.ReadManifests(file)
		must(t, err)
		if !reflect.DeepEqual(o.Object["spec"], rules[0].Object) {
			t.Errorf("%v\nnot\n%v", o.Object["spec"], rules[0].Object)
		}
		return
	}
	t.Error("there is no PrometheusRule")
}

// Alerts are left out by their names; labels are added to what is left; an alert has what is said of it alone.
func TestChartChangesAlerts(t *testing.T) {
	ctx := within(t, 30*time.Second)
	tools := newTools(t)
	alerts := func(values string) map[string]map[string]any {
		t.Helper()
		rules := map[string]map[string]any{}
		for _, o := range render(t, ctx, tools, "--set", "metrics.rules=true,"+values) {
			groups, _, _ := unstructured.NestedSlice(o.Object, "spec", "groups")
			for _, group := range groups {
				for _, rule := range group.(map[string]any)["rules"].([]any) {
					rules[rule.(map[string]any)["alert"].(string)] = rule.(map[string]any)
				}
			}
		}
		return rules
	}
	want := alerts("metrics.ruleLabels=null,metrics.ruleOverrides=null")
	got := alerts("metrics.disabledRules={NodeclaimdVolumeWait,NodeclaimControllerLeaders},metrics.ruleLabels.team=a," +
		"metrics.ruleOverrides.NodeclaimdNotRunning.for=30m,metrics.ruleOverrides.NodeclaimdNotRunning.expr=up == 0," +
		"metrics.ruleOverrides.NodeclaimdNotRunning.labels.severity=info,metrics.ruleOverrides.NodeclaimdNotConnected.labels.team=b," +
		"metrics.ruleOverrides.NodeclaimdDrainBlocked.for=null," +
		"metrics.thresholds.NodeclaimdNoticesUnavailable=1200000,metrics.thresholds.NodeclaimControllerNodeClaimWithoutNode=600")
	delete(want, "NodeclaimdVolumeWait")
	delete(want, "NodeclaimControllerLeaders")
	for _, rule := range want {
		rule["labels"].(map[string]any)["team"] = "a"
	}
	want["NodeclaimdNotRunning"]["for"] = "30m"
	want["NodeclaimdNotRunning"]["expr"] = "up == 0"
	want["NodeclaimdNotRunning"]["labels"].(map[string]any)["severity"] = "info"
	want["NodeclaimdNotConnected"]["labels"].(map[string]any)["team"] = "b"
	delete(want["NodeclaimdDrainBlocked"], "for")
	for name, limits := range map[string][2]string{
		"NodeclaimdNoticesUnavailable":            {"_seconds > 120 ", "_seconds > 1200000 "},
		"NodeclaimControllerNodeClaimWithoutNode": {") > 300", ") > 600"},
	} {
		was := want[name]["expr"].(string)
		want[name]["expr"] = strings.Replace(was, limits[0], limits[1], 1)
		if want[name]["expr"] == was {
			t.Errorf("%s has no %s", name, limits[0])
		}
	}
	if len(want) < 10 || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\nnot\n%v", got, want)
	}
}

// Runbooks are published nowhere: who names no site of his own gets no link, in the alerts and in the dashboard, and all else.
func TestChartHasNoDeadLinks(t *testing.T) {
	ctx := within(t, 60*time.Second)
	tools := newTools(t)
	text := func(values string) string {
		t.Helper()
		said, err := tools.Helm(ctx, slices.Concat([]string{"template", release, chartDir, "--set", withImage, "--set", values}, atNamespace)...)
		must(t, err)
		return said
	}
	const both = "metrics.rules=true,metrics.dashboard=true"
	with, without := text(both+",metrics.runbooks=https://wiki.example.com/n/"), text(both)
	links := strings.Count(with, "https://wiki.example.com/n/docs/runbooks.md#")
	if alerts := strings.Count(with, "alert: "); alerts == 0 || links != alerts+1 || strings.Count(without, "alert: ") != alerts {
		t.Errorf("%d links of %d alerts, %d alerts without them", links, alerts, strings.Count(without, "alert: "))
	}
	for _, one := range []string{with, without} {
		if strings.Contains(one, "RUNBOOKS") {
			t.Error("a link opens nowhere")
		}
	}
	if strings.Contains(without, "runbook_url") || strings.Contains(without, "runbooks.md") {
		t.Error("a link opens nowhere")
	}
}

// A chart that depends on this one may pass `global`, and switch it by `enabled`.
func TestChartAsADependency(t *testing.T) {
	ctx := within(t, 30*time.Second)
	tools := newTools(t)
	dir := filepath.Join(workDir, t.Name(), "umbrella")
	must(t, os.MkdirAll(filepath.Join(dir, "charts"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "Chart.yaml"), []byte("apiVersion: v2\nname: umbrella\nversion: 1.0.0\n"+
		"dependencies:\n- {name: nodeclaim-controller, version: '>=0.0.0-0', condition: nodeclaim-controller.enabled}\n"), 0o644))
	_, err := tools.Helm(ctx, "package", chartDir, "--destination", filepath.Join(dir, "charts"))
	must(t, err)
	for enabled, want := range map[string]int{"true": 1, "false": 0} {
		text, err := tools.Helm(ctx, "template", "x", dir, "--set", "nodeclaim-controller."+withImage+",global.team=a,nodeclaim-controller.metrics.rules=true,nodeclaim-controller.enabled="+enabled)
		must(t, err)
		for _, kind := range []string{"Deployment", "PrometheusRule"} {
			if got := strings.Count(text, "\nkind: "+kind+"\n"); got != want {
				t.Errorf("enabled=%s: %d of kind %s", enabled, got, kind)
			}
		}
	}
}

func TestChartRefusesValues(t *testing.T) {
	ctx := within(t, 60*time.Second)
	tools := newTools(t)
	for _, one := range []struct{ set, says string }{
		{"image.repository=", "no registry publishes the image"},
		{"serviceAccount.create=false", "name the ServiceAccount that is there"},
		{"serviceAccount.annotation=x", "'annotation' not allowed"},
		{"affinity.node=x", "'node' not allowed"},
		{"env[0].key=x", "'key' not allowed"},
		{"env[0].name=NODE_ADDRESS", "env: the chart sets NODE_ADDRESS itself"},
		{"dnsPolicy=Mine", "'ClusterFirst'"},
		{"podSecurityContext.privileged=true", "'privileged' not allowed"},
		{"securityContext.privileged=true", "'privileged' not allowed"},
		{"podDisruptionBudget.maxUnavailable=some", "podDisruptionBudget.maxUnavailable: \"some\" is not a number or a percentage"},
		{"topologySpreadConstraints[0].key=zone", "'key' not allowed"},
		{"nameOverride=Upper", "nameOverride: \"Upper\" is not a name of small letters"},
		{"additionalLabels.app\\.kubernetes\\.io/name=x", "additionalLabels: the chart sets app.kubernetes.io/name itself"},
		{"additionalAnnotations.n=1", "got number, want string"},
		{"strategy.type=OnDelete", "'RollingUpdate', 'Recreate'"},
		{"strategy.rollingUpdate.maxSurge=some", "strategy.rollingUpdate.maxSurge: \"some\" is not a number or a percentage"},
		{"terminationGracePeriodSeconds=0", "minimum"},
		{"livenessProbe.httpGet.path=/", "'httpGet' not allowed"},
		{"readinessProbe.periodSeconds=0", "minimum"},
		{"extraVolumes[0].emptyDir.medium=Memory", "missing property 'name'"},
		{"extraVolumeMounts[0].name=ca", "missing property 'mountPath'"},
		{"envFrom[0].name=ca", "'name' not allowed"},
		{"metrics.disabledRules={NodeclaimdVolumeWait,Mine}", "there is no alert Mine; the alerts are NodeclaimdBootstrapFailed, "},
		{"metrics.ruleOverrides.Mine.for=1m", "there is no alert Mine; the alerts are NodeclaimdBootstrapFailed, "},
		{"metrics.ruleOverrides.NodeclaimdVolumeWait.alert=Mine", "'alert' not allowed"},
		{"metrics.ruleOverrides.NodeclaimdVolumeWait.for=soon", "NodeclaimdVolumeWait.for: \"soon\" is not a duration"},
		{"metrics.thresholds.NodeclaimdNotRunnin=600", "no alert NodeclaimdNotRunnin with a number of seconds; those with one are NodeclaimControllerNodeClaimWithoutNode (300), "},
		{"metrics.thresholds.NodeclaimdDrainBlocked=600", "no alert NodeclaimdDrainBlocked with a number of seconds"},
		{"metrics.thresholds.NodeclaimdNotRunning=0", "minimum"},
		{"metrics.thresholds.NodeclaimControllerNodeClaimWithoutNode=900", "maximum"},
		{"metrics.thresholds.NodeclaimdNotRunning=600,metrics.ruleOverrides.NodeclaimdNotRunning.expr=up", "another expr, which does not read it"},
		{"metrics.ruleLabels.severity=info", "metrics.ruleLabels: the chart sets severity itself"},
		{"metrics.ruleLabels.a-b=c", "metrics.ruleLabels: \"a-b\" is not a label of Prometheus"},
		{"metrics=null", "missing property 'metrics'"},
		{"metrics.runbooks=ftp://a/", "metrics.runbooks: \"ftp://a/\" is not an address that begins with https:// or http:// and ends with /"},
		{"options.sts-endpoint=sts", "options.sts-endpoint: \"sts\" is not an address that begins with https:// or http://"},
		{"metrics.namespace=a.b", "metrics.namespace: \"a.b\" is not a name"},
		{"networkPolicy.from[0].matchLabels.a=b", "'matchLabels' not allowed"},
		{"rbac.enabled=false", "'enabled' not allowed"},
		{"nodes.readNodeClaims=true,rbac.create=false", "needs rbac.create: true"},
		{"replica=3", "'replica' not allowed"},
		{"image.repo=x", "'repo' not allowed"},
		{"replicas=two", "got string, want integer"},
		{"replicas=100", "100"},
		{"mode=alone", "'karpenter', 'standalone', 'auto'"},
		{"options.mode=auto", "options.mode: it is a value of its own, mode"},
		{"options.node-identity=admission", "options.node-identity: it is a value of its own, standalone.nodeIdentity"},
		{"options.margins=30s", "'margins' not allowed"},
		{"networkPolicy.enabled=false,networkPolicy.from[0].ipBlock.cidr=10.0.0.0/8", "networkPolicy.from needs networkPolicy.enabled: true"},
		{"metrics.scrape=none,metrics.labels.release=prometheus", "metrics.labels and metrics.namespace need metrics.scrape: serviceMonitor, metrics.rules: true or"},
		{"metrics.namespace=monitoring", "metrics.labels and metrics.namespace need metrics.scrape"},
		{"metrics.relabelings[0].targetLabel=cluster", "metrics.interval, metrics.relabelings and metrics.metricRelabelings need metrics.scrape: serviceMonitor"},
		{"metrics.interval=15s", "metrics.interval, metrics.relabelings and metrics.metricRelabelings need"},
		{"metrics.disabledRules={NodeclaimdVolumeWait}", "metrics.disabledRules, metrics.ruleLabels, metrics.thresholds and metrics.ruleOverrides need metrics.rules: true"},
		{"metrics.ruleLabels.team=a", "metrics.ruleOverrides need metrics.rules: true"},
		{"metrics.thresholds.NodeclaimdNotRunning=600", "metrics.ruleOverrides need metrics.rules: true"},
		{"metrics.ruleOverrides.NodeclaimdVolumeWait.for=30m,metrics.dashboard=true", "metrics.ruleOverrides need metrics.rules: true"},
		{"metrics.runbooks=https://wiki.example.com/,metrics.scrape=serviceMonitor", "metrics.runbooks needs metrics.rules: true or metrics.dashboard: true"},
		{"options.margin=soon", "options.margin: \"soon\" is not a duration from 0s to 10m, such as 1m30s"},
		{"options.margin=11m", "options.margin: \"11m\" is not a duration from 0s to 10m"},
		{"options.timestamp-after=20m", "options.timestamp-after: \"20m\" is not a duration from 0s to 10m"},
		{"options.ending-ceiling=1d", "options.ending-ceiling: \"1d\" is not a duration from 0s to 8760h"},
		{"mode=auto,options.zone-turn=59s999ms", "options.zone-turn: \"59s999ms\" is not a duration from 1m to 24h"},
		{"options.retry-period=0s", "options.retry-period: \"0s\" is not a duration from 1ms to 10m"},
		{"options.retry-period=8334ms", "options.retry-period (8334ms) must be less than five sixths of options.renew-deadline (10s)"},
		{"options.renew-deadline=2400ms", "options.retry-period (2s) must be less than five sixths of options.renew-deadline (2400ms)"},
		{"options.lease-duration=1s", "options.renew-deadline (10s) must be less than options.lease-duration (1s)"},
		{"options.renew-deadline=60s", "options.renew-deadline (60s) must be less than options.lease-duration (15s)"},
		{"options.max-in-flight=2", "minimum"},
		{"metrics.scrape=yes", "'annotations', 'serviceMonitor', 'none'"},
		{"metrics.address=:8080", "metrics.address: \":8080\" is not an address with a port"},
		{"metrics.address=127.0.0.1:8080", "metrics.address 127.0.0.1:8080: probes and scrapers use the address of the pod"},
		{"metrics.address=[::1]:8080", "listen on 0.0.0.0 or [::]"},
		{"resources.limits.cpu=foo", "resources.limits.cpu: \"foo\" is not a quantity"},
		{"resources.limits.cpu=-1", "/resources/limits/cpu"},
		{"image.digest=0123", "image.digest: \"0123\" is not a digest"},
		{"nodes.guards=maybe", "got string, want boolean"},
		{"outOfServiceTaint=maybe", "got string, want boolean"},
		{"nodeSelector.karpenter\\.sh/nodepool=a", "nodeSelector: the label karpenter.sh/nodepool needs allowManagedNodes: true"},
		{"affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key=karpenter.sh/nodepool," +
			"affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator=Exists",
			"affinity: the label karpenter.sh/nodepool needs allowManagedNodes: true"},
		{"podSecurityContext.runAsUser=0", "podSecurityContext.runAsUser: 0 is root"},
		{"metrics.rules=true,metrics.thresholds.NodeclaimdNotRunning=5", "minimum"},
		{"metrics.dashboardAnnotations.a=b,metrics.rules=true", "metrics.dashboardAnnotations needs metrics.dashboard: true"},
		{"podLabels.app\\.kubernetes\\.io/name=other", "podLabels: the chart sets app.kubernetes.io/name itself"},
		{"lifecycleHook=a", "needs completeLifecycleActions: true"},
		{"options.zone-turn=1h", "needs mode: standalone or mode: auto"},
		{"image.repository=r/x:v1", "\"r/x:v1\" is not a repository"},
		{"podDisruptionBudget.minAvailable=2", "must be less than replicas"},
		{"podDisruptionBudget.minAvailable=100%", "must be less than replicas"},
		{"podDisruptionBudget.minAvailable=51%", "minAvailable 51% must be less than replicas (2)"},
		{"replicas=3,podDisruptionBudget.minAvailable=67%", "must be less than replicas (3)"},
		{"nodes.guards=true --kube-version=1.29.0", "nodes.guards needs the admission policies of Kubernetes 1.30"},
		{"lifecycleHook=a.b", "lifecycleHook: \"a.b\" is not a name"},
		{"standalone.terminate=true", "need mode: standalone or mode: auto"},
		{"standalone.nodeIdentity=admission", "need mode: standalone or mode: auto"},
	} {
		_, err := tools.Helm(ctx, append([]string{"template", release, chartDir, "--set", withImage, "--set"}, strings.Fields(one.set)...)...)
		if err == nil || !strings.Contains(err.Error(), one.says) {
			t.Errorf("%s: %v", one.set, err)
		} else {
			t.Logf("%s: %s", one.set, strings.TrimSpace(err.Error()[strings.Index(err.Error(), "Error:"):]))
		}
	}
}

// Every value has its place in the README: `image.tag`, or `.tag` beside it.
func TestChartValuesAreDescribed(t *testing.T) {
	readme, err := os.ReadFile(chartDir + "/README.md")
	must(t, err)
	values, err := harness.ReadManifests(chartDir + "/values.yaml")
	must(t, err)
	isThere := func(name string) bool { return strings.Contains(string(readme), "`"+name+"`") }
	for key, value := range values[0].Object {
		below, _ := value.(map[string]any)
		for sub := range below {
			if !isThere(key) && !isThere(key+"."+sub) && !isThere("."+sub) {
				t.Errorf("README.md does not describe %s.%s", key, sub)
			}
		}
		if len(below) == 0 && !isThere(key) {
			t.Errorf("README.md does not describe %s", key)
		}
	}
}

// life is a release in the cluster, and what the cluster held at its last step.
type life struct {
	t     *testing.T
	ctx   context.Context
	tools *harness.Tools
	was   map[string]string
}

// step runs helm and says what that changed, the release's own record apart.
func (l *life) step(args ...string) []string {
	l.t.Helper()
	if args[0] == "install" || args[0] == "upgrade" {
		args = append(args, "--set", withImage)
	}
	_, err := l.tools.Helm(l.ctx, slices.Concat(args, atNamespace)...)
	must(l.t, err)
	now, err := cluster.Everything(l.ctx)
	must(l.t, err)
	changes := slices.DeleteFunc(harness.Changes(l.was, now), func(s string) bool {
		return strings.Contains(s, "secrets kube-system/sh.helm.release.v1."+release)
	})
	l.was = now
	return changes
}

func (l *life) expect(what string, got, want []string) {
	l.t.Helper()
	if !slices.Equal(got, want) {
		l.t.Errorf("%s changed\n%s\nnot\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// notes expects what helm prints after an install or an upgrade.
func (l *life) notes(want ...string) {
	l.t.Helper()
	said, err := l.tools.Helm(l.ctx, append([]string{"get", "notes", release}, atNamespace...)...)
	must(l.t, err)
	l.t.Log(said)
	for _, text := range want {
		if !strings.Contains(said, text) {
			l.t.Errorf("the notes do not have %q", text)
		}
	}
}

func (l *life) live() *unstructured.Unstructured {
	l.t.Helper()
	o, err := cluster.Dynamic.Resource(deploymentKind).Namespace("kube-system").Get(l.ctx, release, metav1.GetOptions{})
	must(l.t, err)
	return o
}

// differs gives the paths below spec in which two Deployments differ.
func differs(a, b any, at string) []string {
	left, isMap := a.(map[string]any)
	right, areMaps := b.(map[string]any)
	var paths []string
	if !isMap || !areMaps {
		if fmt.Sprint(a) != fmt.Sprint(b) {
			paths = []string{at}
		}
		return paths
	}
	keys := map[string]bool{}
	for _, m := range []map[string]any{left, right} {
		for key := range m {
			keys[key] = true
		}
	}
	for key := range keys {
		paths = append(paths, differs(left[key], right[key], at+"."+key)...)
	}
	slices.Sort(paths)
	return paths
}

const (
	ourDeployment     = "deployments.apps kube-system/nodeclaim-controller"
	ourStandaloneRole = "clusterroles.rbac.authorization.k8s.io /nodeclaim-controller-standalone"
	ourBinding        = "clusterrolebindings.rbac.authorization.k8s.io /nodeclaim-controller-standalone"
	ourInstancePolicy = "validatingadmissionpolicies.admissionregistration.k8s.io /nodeclaimd-own-instance"
	ourPolicyBinding  = "validatingadmissionpolicybindings.admissionregistration.k8s.io /nodeclaimd-own-instance"
)

// marked gives these changes, sorted as Changes sorts them.
func marked(mark string, keys ...string) []string {
	var out []string
	for _, key := range keys {
		out = append(out, mark+key)
	}
	slices.Sort(out)
	return out
}

func TestChartLife(t *testing.T) {
	ctx := within(t, 120*time.Second)
	l := &life{t: t, ctx: ctx, tools: newTools(t)}
	var err error
	l.was, err = cluster.Everything(ctx)
	must(t, err)
	before := l.was

	if got := l.step("install", release, chartDir); len(got) != len(render(t, ctx, l.tools)) {
		t.Errorf("the install changed %v", got)
	}
	t.Cleanup(func() { _, _ = l.tools.Helm(context.Background(), "uninstall", release, "--namespace", "kube-system") })
	l.notes("runs in mode karpenter", "nodeclaimd.io/scrapes-metrics=true")
	first := l.live()
	l.expect("an upgrade with the same values", l.step("upgrade", release, chartDir), nil)

	l.expect("replicas", l.step("upgrade", release, chartDir, "--reuse-values", "--set", "replicas=3"), []string{"~" + ourDeployment})
	l.expect("replicas in the Deployment", differs(first.Object["spec"], l.live().Object["spec"], ""), []string{".replicas"})

	parts := []string{ourStandaloneRole, ourBinding, ourInstancePolicy, ourPolicyBinding}
	l.expect("the mode", l.step(append([]string{"upgrade", release, chartDir}, inStandalone...)...),
		slices.Concat(marked("+", parts...), []string{"~" + ourDeployment}))
	l.notes("runs in mode standalone", "needs an IAM role")
	l.expect("the mode in the Deployment", differs(first.Object["spec"], l.live().Object["spec"], ""), []string{".template.spec.containers"})
	l.expect("a rollback", l.step("rollback", release, "1"), slices.Concat(marked("-", parts...), []string{"~" + ourDeployment}))
	l.expect("a rollback in the Deployment", differs(first.Object["spec"], l.live().Object["spec"], ""), nil)

	l.step(append([]string{"upgrade", release, chartDir}, chartValues["noRights"]...)...)
	l.notes("nothing is relayed", "grant the ServiceAccount nodeclaim-controller", "deploy/rbac.yaml, deploy/optional/standalone-role.yaml, deploy/optional/replacement-role.yaml.")
	l.step("uninstall", release)
	l.expect("all of it", harness.Changes(before, l.was), nil)
}

// Who comes from kustomize takes the objects over.
func TestChartTakesOver(t *testing.T) {
	ctx := within(t, 60*time.Second)
	l := &life{t: t, ctx: ctx, tools: newTools(t)}
	before, err := cluster.Everything(ctx)
	must(t, err)
	deploy(t, ctx)
	if _, err := l.tools.Helm(ctx, slices.Concat([]string{"install", release, chartDir, "--set", withImage}, atNamespace)...); err == nil ||
		!strings.Contains(err.Error(), "invalid ownership metadata") {
		t.Errorf("without the option: %v", err)
	}
	first := l.live()
	l.step("install", release, chartDir, "--take-ownership")
	l.expect("the Deployment", differs(first.Object["spec"], l.live().Object["spec"], ""), nil)
	l.step("uninstall", release)
	l.expect("all of it", harness.Changes(before, l.was), nil)
}

// runs starts the program as the release's Deployment does, with what its ServiceAccount may do.
func (l *life) runs(what string) *central {
	l.t.Helper()
	text, err := l.tools.Helm(l.ctx, append([]string{"get", "manifest", release}, atNamespace...)...)
	must(l.t, err)
	objects, err := harness.ParseManifest([]byte(text))
	must(l.t, err)
	account, err := cluster.Deployed(l.ctx, objects)
	must(l.t, err)
	c := centralOf(l.t, l.ctx, account)
	containers, _, err := unstructured.NestedSlice(l.live().Object, "spec", "template", "spec", "containers")
	must(l.t, err)
	args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	must(l.t, err)
	args = slices.DeleteFunc(args[1:], func(s string) bool { return strings.HasPrefix(s, "--terminate") }) // no EC2 is here
	began := time.Now()
	c.start(append(args, "--metrics-address", "off")...)
	c.leads(began)
	l.t.Logf("%s: %v", what, args)
	return c
}

func dropLease(t *testing.T, ctx context.Context) {
	t.Helper()
	err := cluster.Client.CoordinationV1().Leases("kube-system").Delete(ctx, release, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

// What the chart gives each mode is enough: nothing that the program requests is refused.
func TestChartRuns(t *testing.T) {
	ctx := within(t, 120*time.Second)
	l := &life{t: t, ctx: ctx, tools: newTools(t)}
	dropLease(t, ctx) // of another test
	before, err := cluster.Everything(ctx)
	must(t, err)
	l.was = before
	t.Cleanup(func() { _, _ = l.tools.Helm(context.Background(), "uninstall", release, "--namespace", "kube-system") })
	for _, values := range [][]string{nil, inStandalone, {"--set", "mode=auto"}} {
		l.step(append([]string{"upgrade", "--install", "--reset-values", release, chartDir}, values...)...)
		c := l.runs(fmt.Sprint(values))
		c.checkManners()
		c.proc.Stop()
	}
	l.step("uninstall", release)
	lease := "leases.coordination.k8s.io kube-system/nodeclaim-controller"
	l.expect("all of it but the Lease of the program", harness.Changes(before, l.was), []string{"+" + lease})
	dropLease(t, ctx)
}
