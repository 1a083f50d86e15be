// Clusters that are not EKS: a client certificate that the image brought along, and kubelet's own TLS bootstrap with a
// token. Nobody named Karpenter is there.

package conformance

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

// agentConfig is the user data of a cluster that is not EKS; auth goes below spec.cluster.auth.
func (n *node) agentConfig(auth string) []byte {
	return fmt.Appendf(nil, `apiVersion: nodeclaimd.io/v1alpha1
kind: AgentConfig
spec:
  cluster:
    name: lab
    apiServerEndpoint: %s
    certificateAuthority: %s
    cidr: %s
    auth: %s
  node:
    nameOverride: %s
    labels:
      example.com/rack: r1
    taints:
    - {key: example.com/lab, value: "yes", effect: PreferNoSchedule}
  kubelet:
    config: {podPidsLimit: 4096}
  maxPods: {mode: explicit, value: 40}
  reservation: {policy: actual}
`, cluster.Endpoint, base64.StdEncoding.EncodeToString(cluster.CA.PEM), harness.ServiceCIDR, auth, n.name)
}

// becomesReady follows a node without Karpenter to the end and checks what was asked of it.
func (n *node) becomesReady() {
	n.t.Helper()
	t := n.t
	created, err := cluster.ReadyNode(n.ctx, n.name, n.agent)
	must(t, err)
	n.waitCondition(corev1.ConditionFalse, "KnownEphemeralTaintsExist")
	must(t, cluster.RemoveTaints(n.ctx, n.name, harness.TaintUninitialized, harness.TaintNotReady))
	if code := n.finish(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if created.Labels["example.com/rack"] != "r1" {
		t.Errorf("labels %v", created.Labels)
	}
	if have := strings.Join(taintSet(created.Spec.Taints), " "); !strings.Contains(have, "example.com/lab=yes:PreferNoSchedule") ||
		strings.Contains(have, harness.TaintUnregistered) {
		t.Errorf("taints %s", have)
	}
	n.checkPredicted(t, created)
	n.isComplete()
	n.checkPreflight(t)
	refused, err := cluster.Audit.Refused("system:node:" + n.name)
	must(t, err)
	for _, e := range refused {
		if e.ObjectRef.Resource != "nodeclaims" {
			t.Errorf("refused: %s (%s)", e, e.UserAgent)
		}
	}
}

// isComplete: the bootstrap has ended, so the Node says so already.
func (n *node) isComplete() {
	n.t.Helper()
	now, err := cluster.Node(n.ctx, n.name)
	must(n.t, err)
	if c := harness.Condition(now, bootstrapCondition); c == nil || c.Status != corev1.ConditionTrue {
		n.t.Errorf("condition %+v", c)
	}
	if now.Annotations[bootstrapAnnotation] == "" {
		n.t.Error("no annotation")
	}
}

func TestClientCertificateCluster(t *testing.T) {
	n := newNode(t, 30)
	n.name = "lab-certificate"
	t.Cleanup(func() { cluster.Forget(context.Background(), n.name) })
	n.writeCertificate()
	n.boot(n.agentConfig("{mode: client-certificate, clientCertificate: /etc/nodeclaimd/pki/node.crt, clientKey: /etc/nodeclaimd/pki/node.key}"))
	n.becomesReady()
}

func TestBootstrapTokenCluster(t *testing.T) {
	n := newNode(t, 31)
	n.name = "lab-token"
	t.Cleanup(func() { cluster.Forget(context.Background(), n.name) })
	n.createToken("abcdef", "0123456789abcdef")
	n.boot(n.agentConfig("{mode: bootstrap-token, bootstrapToken: abcdef.0123456789abcdef}"))
	n.becomesReady()
	if signed.of("system:bootstrap:abcdef", "kubernetes.io/kube-apiserver-client-kubelet") == 0 {
		t.Error("kubelet did not ask for a client certificate with the bootstrap token")
	}
	refused, err := cluster.Audit.Refused("system:bootstrap:abcdef")
	must(t, err)
	for _, e := range refused {
		t.Errorf("refused: %s (%s)", e, e.UserAgent)
	}
}
