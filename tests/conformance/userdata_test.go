// The example user data of the repository, each on a real cluster: only the cluster's endpoint, CA and name are put in.

package conformance

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

var (
	anyEndpoint = regexp.MustCompile(`(apiServerEndpoint:) \S+`)
	anyCA       = regexp.MustCompile(`(certificateAuthority:) \S+`)
	anyName     = regexp.MustCompile(`(\n +name:) demo\b`)
)

// example reads a file of userdata/ and puts this cluster into it.
func example(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "userdata", name))
	must(t, err)
	text := anyEndpoint.ReplaceAllString(string(data), "$1 "+cluster.Endpoint)
	text = anyCA.ReplaceAllString(text, "$1 "+base64.StdEncoding.EncodeToString(cluster.CA.PEM))
	text = anyName.ReplaceAllString(text, "$1 "+harness.ClusterName)
	if text == string(data) {
		t.Fatalf("%s names no cluster", name)
	}
	return []byte(text)
}

func TestExampleUserData(t *testing.T) {
	hostname, err := os.Hostname()
	must(t, err)
	for number, e := range []struct {
		file    string
		prepare func(n *node)
	}{
		{"karpenter-al2023.mime", nil},
		{"karpenter-al2023-custom.mime", nil},
		{"karpenter-custom.mime", func(n *node) { n.readDropIns() }},
		{"self-managed.mime", nil},
		{"not-eks.mime", func(n *node) { n.name = strings.ToLower(hostname); n.readDropIns(); n.writeCertificate() }},
		{"not-eks-bootstrap-token.mime", func(n *node) {
			n.name = strings.ToLower(hostname)
			n.readDropIns()
			n.createToken("q7m2xd", "4w8k1z9c3v6b0t5p")
		}},
		{"ipv6.mime", func(n *node) { n.instance.Type, n.instance.IPv6 = "m5.xlarge", harness.NodeIPv6 }},
	} {
		t.Run(strings.TrimSuffix(e.file, ".mime"), func(t *testing.T) {
			n := newNode(t, 60+number)
			must(t, cluster.AllowClaimLookup(n.ctx))
			if e.prepare != nil {
				e.prepare(n)
			}
			n.boot(example(t, e.file))
			n.followExample()
		})
	}
}

// followExample plays whatever part of the cluster the node asks for by its taints.
func (n *node) followExample() {
	t := n.t
	created, err := cluster.ReadyNode(n.ctx, n.name, n.agent)
	must(t, err)
	defer cluster.Forget(n.ctx, n.name)
	n.checkRegistration(t, created)
	n.checkPredicted(t, created)
	must(t, cluster.RemoveTaints(n.ctx, n.name, harness.TaintUninitialized, harness.TaintNotReady, "node.cilium.io/agent-not-ready"))
	if slices.ContainsFunc(created.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == harness.TaintUnregistered }) {
		must(t, cluster.KarpenterRegisters(n.ctx, n.name, nil))
		must(t, cluster.KarpenterInitializes(n.ctx, n.name))
	}
	if code := n.finish(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	n.isComplete()
	t.Logf("taints %v, warnings %q", taintSet(created.Spec.Taints), n.status().Warnings)
}

// writeCertificate puts the node's client certificate where the example expects it.
func (n *node) writeCertificate() {
	n.t.Helper()
	cert, key, err := cluster.CA.Issue("system:node:"+n.name, []string{"system:nodes"})
	must(n.t, err)
	n.write("/etc/nodeclaimd/pki/node.crt", string(cert))
	n.write("/etc/nodeclaimd/pki/node.key", string(key))
}

// createToken makes a bootstrap token that the cluster takes.
func (n *node) createToken(id, secret string) {
	n.t.Helper()
	_, err := cluster.Client.CoreV1().Secrets("kube-system").Create(n.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id, Namespace: "kube-system"}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true"},
	}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		must(n.t, err)
	}
}
