// A cluster that does not take the node for what it is: the agent says whom the API server saw, and starts nothing.

package conformance

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const exitAuth = 4

// isRefused boots and expects the auth class with these words in the message.
func (n *node) isRefused(words ...string) {
	n.t.Helper()
	n.boot(harness.UserData{MaxPods: 29, Labels: harness.KarpenterLabels()}.For(cluster), "--timeout", "5s")
	if code := n.finish(); code != exitAuth {
		n.t.Errorf("exit code %d, want %d", code, exitAuth)
	}
	s := n.status()
	p := s.phase("preflight")
	if s.Outcome != "failed" || p == nil || p.Outcome != "failed" || p.Error == nil || p.Error.Class != "auth" || p.Error.Remedy == "" {
		n.t.Errorf("outcome %s, preflight %+v", s.Outcome, p)
		return
	}
	n.t.Logf("%+v", *p.Error)
	for _, word := range words {
		if !strings.Contains(p.Error.Message, word) {
			n.t.Errorf("%q is not in %q", word, p.Error.Message)
		}
	}
	if pids := n.m.Pids("kubelet"); len(pids) > 0 {
		n.t.Errorf("kubelet was started: %v", pids)
	}
	if _, err := cluster.Client.CoreV1().Nodes().Get(n.ctx, n.name, metav1.GetOptions{}); err == nil {
		n.t.Error("there is a Node")
	}
	n.checkConsole(n.t, "failed")
}

func TestWrongIdentityIsNamed(t *testing.T) {
	n := newNode(t, 50)
	iam.Map(n.instance, "somebody-else")
	n.isRefused("system:node:somebody-else", n.name)
}

func TestUnmappedIdentityIsNamed(t *testing.T) {
	n := newNode(t, 51)
	iam.Unmap(n.instance)
	n.isRefused("401")
}
