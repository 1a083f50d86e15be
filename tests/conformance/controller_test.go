// What the tests of the controller share: it runs as its manifests say, and what it did is read out of the audit log.

package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const (
	controllerManifests = "../../deploy/*.yaml"
	standaloneManifest  = "../../deploy/optional/standalone-role.yaml"
	controllerAgent     = "nodeclaim-controller"
	relayMargin         = 15 * time.Second // the controller's, and the daemon's
)

// central is a controller of ours and who it is.
type central struct {
	t       *testing.T
	ctx     context.Context
	dir     string
	account *harness.Deployment
	proc    *harness.Proc
	since   time.Time // what its user asked before is of another test
	started int
}

// deploy applies the manifests, and more where a mode needs more; nothing runs yet.
func deploy(t *testing.T, ctx context.Context, more ...string) *central {
	t.Helper()
	account, err := cluster.Deploy(ctx, append([]string{controllerManifests}, more...)...)
	must(t, err)
	t.Cleanup(func() { account.Remove(context.Background()) })
	return centralOf(t, ctx, account)
}

// centralOf is for what is deployed already.
func centralOf(t *testing.T, ctx context.Context, account *harness.Deployment) *central {
	t.Helper()
	dir, err := os.MkdirTemp(workDir, strings.ReplaceAll(t.Name(), "/", "-")+"-controller-")
	must(t, err)
	c := &central{t: t, ctx: ctx, dir: dir, account: account, since: time.Now()}
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
			for _, log := range logs {
				t.Logf("--- %s\n%s", filepath.Base(log), harness.Tail(log, 60))
			}
		}
	})
	return c
}

// start runs it; it has not yet asked for anything.
func (c *central) start(args ...string) {
	c.t.Helper()
	c.started++
	var err error
	c.proc, err = c.account.Start(c.dir, fmt.Sprintf("controller-%d", c.started), controller,
		append([]string{"--metrics-address", "off", "--lease-namespace", c.account.Namespace}, args...)...)
	must(c.t, err)
	c.t.Cleanup(c.proc.Stop)
}

// until waits for a condition while it runs.
func (c *central) until(what string, check func() error) {
	c.t.Helper()
	must(c.t, harness.Poll(c.ctx, what, []*harness.Proc{c.proc}, check))
}

// leads waits until it has written its Lease and asked for its watches since it was started.
func (c *central) leads(since time.Time) {
	c.t.Helper()
	c.until("the controller leads and watches", func() error {
		leases := accepted(c.requests(func(e harness.AuditEntry) bool {
			return e.ObjectRef.Resource == "leases" && (e.Verb == "create" || e.Verb == "update") && e.StageTimestamp.After(since)
		}))
		lists := accepted(c.requests(func(e harness.AuditEntry) bool { return e.Verb == "list" && e.StageTimestamp.After(since) }))
		if len(leases) == 0 || len(lists) < 2 {
			return fmt.Errorf("%d writes of the Lease, %d lists", len(leases), len(lists))
		}
		return nil
	})
}

func (c *central) requests(match func(harness.AuditEntry) bool) []harness.AuditEntry {
	c.t.Helper()
	list, err := c.account.Requests(controllerAgent, func(e harness.AuditEntry) bool { return e.RequestReceivedTimestamp.After(c.since) && match(e) })
	must(c.t, err)
	return list
}

// writes gives what it wrote to objects of this resource and name, "" for any.
func (c *central) writes(resource, name string) []harness.AuditEntry {
	c.t.Helper()
	return c.requests(func(e harness.AuditEntry) bool {
		return e.Verb != "get" && e.Verb != "list" && e.Verb != "watch" && e.ObjectRef.Resource == resource && (name == "" || e.ObjectRef.Name == name)
	})
}

func (c *central) checkManners() {
	c.t.Helper()
	bad, err := c.account.CheckManners(controllerAgent, c.since)
	must(c.t, err)
	for _, one := range bad {
		c.t.Error(one)
	}
	counts := map[string]int{}
	for _, e := range c.requests(func(harness.AuditEntry) bool { return true }) {
		counts[fmt.Sprintf("%s %d", e.What(), e.ResponseStatus.Code)]++
	}
	c.t.Logf("the controller's requests: %v", counts)
}

// first gives the earliest accepted write of a list; fails where there is none.
func first(t *testing.T, what string, list []harness.AuditEntry) harness.AuditEntry {
	t.Helper()
	list = accepted(list)
	if len(list) == 0 {
		t.Fatalf("%s: there was none", what)
	}
	return list[0]
}

// makeSimulated creates a NodeClaim and its Node as Karpenter has registered them; there is no machine behind them.
func makeSimulated(t *testing.T, ctx context.Context, number int) string {
	t.Helper()
	instance := harness.NewInstance(number)
	name := fmt.Sprintf("simulated-%d", number)
	claim, err := cluster.NewClaim(ctx, name, instance)
	must(t, err)
	t.Cleanup(func() {
		cluster.DropClaim(context.Background(), name, name)
		cluster.Forget(context.Background(), name)
	})
	_, err = cluster.Client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"karpenter.sh/nodepool": "default", harness.LabelRegistered: "true", harness.LabelInitialized: "true"},
		OwnerReferences: []metav1.OwnerReference{*harness.OwnerOf(claim)}}, Spec: corev1.NodeSpec{ProviderID: instance.ProviderID()}}, metav1.CreateOptions{})
	must(t, err)
	must(t, cluster.PatchClaim(ctx, name, "status", map[string]any{"status": map[string]any{"nodeName": name}}))
	return name
}

// word is what a node says of a spot notice, as the daemon writes it.
func word(deadline time.Time) string {
	text, _ := json.Marshal(map[string]any{"id": "spot-" + deadline.UTC().Format(time.RFC3339), "source": "spot", "phase": "Detected",
		"deadline": deadline.UTC().Format(time.RFC3339), "total": 0, "remaining": 0, "blocked": []string{}, "updated": time.Now().UTC().Format(time.RFC3339)})
	return string(text)
}

// say lets a simulated node have a spot notice.
func say(t *testing.T, ctx context.Context, name string, deadline time.Time) {
	t.Helper()
	must(t, cluster.PatchNode(ctx, name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{drainAnnotation: word(deadline)}}}))
}
