// The control experiment: a kubelet configured by hand becomes Ready on a machine of the harness. Where this fails the
// harness is at fault, not the program.

package conformance

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

func TestControlHandWrittenKubeletIsReady(t *testing.T) {
	ctx := within(t, 90*time.Second)
	m := newMachine(t)
	cert, key, err := cluster.CA.Issue("system:node:control", []string{"system:nodes"})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"/etc/kubernetes/pki/ca.crt": string(cluster.CA.PEM), "/etc/kubernetes/node.crt": string(cert), "/etc/kubernetes/node.key": string(key),
		"/var/lib/kubelet/kubeconfig": fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "x",
 "clusters": [{"name": "x", "cluster": {"server": %q, "certificate-authority": "/etc/kubernetes/pki/ca.crt"}}],
 "users": [{"name": "x", "user": {"client-certificate": "/etc/kubernetes/node.crt", "client-key": "/etc/kubernetes/node.key"}}],
 "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}]}`, cluster.Endpoint),
		"/etc/kubernetes/kubelet/config.json": `{"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
 "authentication": {"x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"}}, "protectKernelDefaults": true,
 "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock"}`,
		"/etc/kubernetes/kubelet/config.json.d/90-test.conf": testSettings,
	}
	for path, content := range files {
		if err := m.Write(path, content); err != nil {
			t.Fatal(err)
		}
	}
	kubelet, err := m.Start("kubelet", nil, filepath.Join(binDir, "kubelet"), "--config=/etc/kubernetes/kubelet/config.json",
		"--config-dir=/etc/kubernetes/kubelet/config.json.d", "--kubeconfig=/var/lib/kubelet/kubeconfig",
		"--hostname-override=control", "--node-ip="+harness.NodeIP)
	if err != nil {
		t.Fatal(err)
	}
	defer kubelet.Stop()
	defer cluster.Forget(ctx, "control")
	started := time.Now()
	if _, err := cluster.ReadyNode(ctx, "control", kubelet); err != nil {
		t.Fatal(err)
	}
	t.Logf("Ready %.1f s after kubelet's start", time.Since(started).Seconds())
}
