// Instances that nodeclaim-controller ends where no Karpenter runs, in moto's EC2, which computes each signature again: not before
// the node has drained or its last moment has come, once, and never one of another region. The node that drains has the real daemon.

package conformance

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const (
	motoPool   = "moto"
	endsAction = "ec2:TerminateInstances"
)

// ender is a controller that ends instances, and where.
type ender struct {
	*central
	moto *harness.Moto
}

func newEnder(t *testing.T, ctx context.Context) *ender {
	t.Helper()
	m, err := harness.StartMoto(ctx, workDir, moto)
	must(t, err)
	t.Cleanup(m.Stop)
	must(t, m.CheckSignatures(ctx))
	must(t, cluster.NewPool(ctx, motoPool, "100%"))
	t.Cleanup(func() { cluster.DeletePool(context.Background(), motoPool) })
	return &ender{central: deploy(t, ctx, standaloneManifest), moto: m}
}

// begin runs it with credentials of the environment, or of an instance where that is given.
func (e *ender) begin(keys harness.Credentials, imds string, args ...string) {
	e.t.Helper()
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": keys.AccessKeyID, "AWS_SECRET_ACCESS_KEY": keys.SecretAccessKey} {
		must(e.t, os.Setenv(name, value))
		defer os.Unsetenv(name)
	}
	e.start(append([]string{"--mode", "standalone", "--node-identity", "admission", "--terminate", "--ec2-endpoint", e.moto.URL, "--imds", imds, "--margin", "1s"}, args...)...)
}

func (e *ender) stop() {
	e.proc.Stop()
	e.proc = nil
}

// doomedClaim is a NodeClaim of an instance, as whoever launched it makes it.
func (e *ender) doomedClaim(name string, i *harness.Instance, spec map[string]any) *unstructured.Unstructured {
	e.t.Helper()
	claim, err := cluster.NewClaimLike(e.ctx, name, i, func(claim *unstructured.Unstructured) {
		labels := claim.GetLabels()
		labels["karpenter.sh/nodepool"] = motoPool
		claim.SetLabels(labels)
		for key, value := range spec {
			claim.Object["spec"].(map[string]any)[key] = value
		}
	})
	must(e.t, err)
	e.t.Cleanup(func() { cluster.DropClaim(context.Background(), name, name) })
	return claim
}

// simulated is a Node without a machine behind it, and its claim; instance "" is started.
func (e *ender) simulated(name, instance string, spec map[string]any) *harness.Instance {
	e.t.Helper()
	if instance == "" {
		var err error
		instance, err = e.moto.Run(e.ctx)
		must(e.t, err)
	}
	i := harness.NewInstance(0)
	i.ID = instance
	e.doomedClaim(name, i, spec)
	_, err := cluster.Client.CoreV1().Nodes().Create(e.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.NodeSpec{ProviderID: i.ProviderID(), Taints: []corev1.Taint{{Key: harness.TaintUnregistered, Effect: corev1.TaintEffectNoExecute}}}},
		metav1.CreateOptions{})
	must(e.t, err)
	e.t.Cleanup(func() { cluster.Forget(context.Background(), name) })
	return i
}

// lives is a node with the real daemon, and its claim.
func (e *ender) lives(number int, spec map[string]any) *aloneNode {
	e.t.Helper()
	id, err := e.moto.Run(e.ctx)
	must(e.t, err)
	i := harness.NewInstance(number)
	i.ID = id
	n := newPlainNode(e.t, number, func(node *corev1.Node) {
		delete(node.Labels, "karpenter.sh/nodepool")
		node.Spec.ProviderID = i.ProviderID()
		node.Spec.Taints = []corev1.Taint{{Key: harness.TaintUnregistered, Effect: corev1.TaintEffectNoExecute}}
	})
	n.instance.ID = id
	n.imds.Stop()
	n.serve("127.0.0.1:0", n.instance.UserData)
	a := &aloneNode{node: n}
	a.claim = e.doomedClaim(fmt.Sprintf("moto-%d", number), n.instance, spec)
	return a
}

func (e *ender) registered(names ...string) {
	e.t.Helper()
	for _, name := range names {
		e.until(name+" is registered", func() error {
			claim, err := cluster.Claim(e.ctx, name)
			if err != nil {
				return err
			}
			if node, _, _ := unstructured.NestedString(claim.Object, "status", "nodeName"); node == "" {
				return fmt.Errorf("%v", claim.Object["status"])
			}
			return nil
		})
	}
}

func (e *ender) isGone(name string) {
	e.t.Helper()
	e.until(name+" is gone", func() error {
		claim, err := cluster.Claim(e.ctx, name)
		if isNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("%v %v", claim.GetFinalizers(), claim.Object["status"])
		}
		return err
	})
}

// isState says what moto says of an instance.
func (e *ender) isState(i *harness.Instance, want string) {
	e.t.Helper()
	have, err := e.moto.State(e.ctx, i.ID)
	must(e.t, err)
	if have != want {
		e.t.Errorf("%s is %s, want %s", i.ID, have, want)
	}
}

// stays: the instance runs, and nothing is forgotten of it, while the words stand in the log.
func (e *ender) stays(name string, i *harness.Instance, words ...string) {
	e.t.Helper()
	e.until("the log says "+strings.Join(words, ", "), func() error {
		text, err := os.ReadFile(e.proc.Log)
		for _, word := range words {
			if err == nil && !strings.Contains(string(text), word) {
				err = fmt.Errorf("not %s: %s", word, harness.Tail(e.proc.Log, 5))
			}
		}
		return err
	})
	e.isState(i, "running")
	if _, err := cluster.Claim(e.ctx, name); err != nil {
		e.t.Error(err)
	}
	if _, err := cluster.Node(e.ctx, name); err != nil {
		e.t.Error(err)
	}
}

// once fails where an instance was ended by another number of accepted requests than one, or before a moment.
func (e *ender) once(t *testing.T, i *harness.Instance, notBefore time.Time) {
	t.Helper()
	list := e.moto.Ends(i.ID)
	if len(list) != 1 || list[0].Status != 200 {
		t.Fatalf("TerminateInstances of %s: %+v", i.ID, list)
	}
	if list[0].At.Before(notBefore) || list[0].StateOnReach != "running" || list[0].Region != i.Region {
		t.Errorf("%+v, not before %s", list[0], notBefore)
	}
}

// The control experiment: moto refuses a wrong signature and somebody who may not, in EC2's own words.
func TestControlMotoChecksSignatures(t *testing.T) {
	ctx := within(t, 60*time.Second)
	m, err := harness.StartMoto(ctx, workDir, moto)
	must(t, err)
	defer m.Stop()
	must(t, m.CheckSignatures(ctx))
	id, err := m.Run(ctx)
	must(t, err)
	good, err := m.User(ctx, "good", endsAction)
	must(t, err)
	other, err := m.User(ctx, "other", "ec2:DescribeInstances")
	must(t, err)
	wrong := good
	wrong.SecretAccessKey += "x"
	for _, row := range []struct {
		who    harness.Credentials
		status int
		word   string
	}{{wrong, 401, "AuthFailure"}, {harness.NewInstance(0).Credentials, 401, "AuthFailure"}, {other, 403, "AccessDenied"}, {good, 200, id}} {
		status, answer, _ := m.Call(ctx, row.who, "ec2", "2016-11-15", "TerminateInstances", "InstanceId.1", id)
		if status != row.status || !strings.Contains(string(answer), row.word) {
			t.Errorf("%s: %d %s", row.who.AccessKeyID, status, answer)
		}
	}
}

func TestInstancesEndAtMoto(t *testing.T) {
	ctx := within(t, 120*time.Second)
	e := newEnder(t, ctx)
	role := harness.NewInstance(521)
	var err error
	role.Credentials, err = e.moto.Role(ctx, role.Role, endsAction)
	must(t, err)
	imds, err := harness.NewIMDS("127.0.0.1:0", role)
	must(t, err)
	t.Cleanup(imds.Stop)
	e.begin(harness.Credentials{}, imds.URL)

	drains := e.lives(520, map[string]any{"expireAfter": "4s"})
	late := e.simulated("moto-late", "", map[string]any{"terminationGracePeriod": "5s"})
	ended := e.simulated("moto-ended", "", map[string]any{"terminationGracePeriod": "1s"})
	unknown := e.simulated("moto-unknown", "i-0123456789abcdef0", map[string]any{"terminationGracePeriod": "1s"})
	kept := e.simulated("moto-kept", "", nil)
	drains.watch = drains.follow(takeSeconds(3))
	drains.makePods(drains.watch, "moto-pod", 2, grace(5))
	drains.keep("--imds", drains.imds.URL)
	names := []string{"moto-late", "moto-ended", "moto-unknown"}
	e.registered(append(names, "moto-kept", drains.claim.GetName())...)
	must(t, e.moto.Terminate(ctx, ended.ID))
	for _, name := range names {
		cluster.DeleteClaim(ctx, name)
	}
	e.isGone("moto-ended")
	e.isGone("moto-unknown")
	e.until("the daemon evicts", func() error {
		if len(drains.requests("create pods/eviction", "", "")) == 0 {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	e.isState(drains.instance, "running")
	e.until("the instance that has drained ends", func() error {
		if state, err := e.moto.State(ctx, drains.instance.ID); err != nil || state != "terminated" {
			return fmt.Errorf("it is %s %v", state, err)
		}
		return nil
	})
	// What EC2 does with it in its own time: kubelet falls silent.
	must(t, cluster.PatchNodeStatus(ctx, drains.name, silentStatus()))
	e.isGone(drains.claim.GetName())
	e.isGone("moto-late")

	t.Run("after Drained", func(t *testing.T) { e.once(t, drains.instance, drains.steps(e.central).drained) })
	t.Run("at the last moment", func(t *testing.T) {
		deleted := first(t, "the claim's DELETE", e.deletesOf("moto-late")).StageTimestamp
		e.once(t, late, deleted.Truncate(time.Second).Add(5*time.Second))
	})
	t.Run("one that has ended", func(t *testing.T) {
		if list := e.moto.Ends(ended.ID); len(list) != 1 || list[0].Status != 200 || list[0].StateOnReach != "terminated" {
			t.Errorf("%+v", list)
		}
	})
	t.Run("one that EC2 does not know", func(t *testing.T) {
		if list := e.moto.Ends(unknown.ID); len(list) != 1 || list[0].Status != 400 {
			t.Errorf("%+v", list)
		}
	})
	for _, one := range e.moto.Ends(drains.instance.ID) {
		if !one.HasToken {
			t.Errorf("the role's session token was not sent: %+v", one)
		}
	}
	e.isState(kept, "running")
	e.checkManners()
}

// silentStatus is what the cluster says of a Node whose kubelet is not heard.
func silentStatus() map[string]any {
	status := readyStatus()
	status["status"].(map[string]any)["conditions"].([]any)[0].(map[string]any)["status"] = "Unknown"
	return status
}

// deletesOf gives who deleted a claim, whoever that was.
func (e *ender) deletesOf(claim string) []harness.AuditEntry {
	e.t.Helper()
	list, err := cluster.Audit.Entries(func(a harness.AuditEntry) bool {
		return a.What() == "delete nodeclaims" && a.ObjectRef.Name == claim && a.RequestReceivedTimestamp.After(e.since)
	})
	must(e.t, err)
	return list
}

// Whoever is refused says by whom and what helps, asks less and less often, and forgets nothing; what is granted later is done.
func TestInstancesAreNotForgottenWhereEC2Refuses(t *testing.T) {
	ctx := within(t, 120*time.Second)
	e := newEnder(t, ctx)
	good, err := e.moto.User(ctx, "controller", "ec2:DescribeInstances")
	must(t, err)
	wrong := good
	wrong.SecretAccessKey += "x"
	const nowhere = "http://127.0.0.1:9"
	i := e.simulated("moto-refused", "", map[string]any{"terminationGracePeriod": "1s"})

	e.begin(wrong, nowhere)
	e.registered("moto-refused")
	cluster.DeleteClaim(ctx, "moto-refused")
	began := time.Now()
	e.stays("moto-refused", i, "HTTP 401, 'AuthFailure'")
	e.until("it was asked three times", func() error {
		if n := len(e.moto.Ends(i.ID)); n < 3 {
			return fmt.Errorf("%d times", n)
		}
		return nil
	})
	e.stop()
	// 0.2 s that doubles: in n seconds about log2(5 n) times.
	if n := len(e.moto.Ends(i.ID)); n > 5+int(time.Since(began).Seconds()) {
		t.Errorf("asked %d times in %.1f s", n, time.Since(began).Seconds())
	}

	e.begin(good, nowhere, "--region", "us-east-1")
	e.stays("moto-refused", i, "us-east-1", "us-west-2")
	e.stop()

	e.begin(good, nowhere)
	e.stays("moto-refused", i, "HTTP 403, 'AccessDenied'", "allow "+endsAction+" to the role")
	must(t, e.moto.Allow(ctx, "controller", endsAction))
	e.isGone("moto-refused")
	e.isState(i, "terminated")
	for _, one := range e.moto.Ends(i.ID) {
		if one.Region != i.Region {
			t.Errorf("EC2 of another region was asked: %+v", one)
		}
	}
}
