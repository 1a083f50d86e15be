// The control experiments: a kubelet configured by hand becomes Ready on a machine of the harness, and merges its files
// as the plan supposes. Where these fail, the harness or the supposition is at fault, not the program.

package conformance

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

// handWritten starts a kubelet from files that the program had no part in and waits until it is Ready.
func handWritten(t *testing.T, name, base string, dropIns map[string]string, flags ...string) *node {
	t.Helper()
	n := &node{t: t, ctx: within(t, 90*time.Second), m: newMachine(t), name: name}
	cert, key, err := cluster.CA.Issue("system:node:"+name, []string{"system:nodes"})
	must(t, err)
	n.write("/etc/kubernetes/pki/ca.crt", string(cluster.CA.PEM))
	n.write("/etc/kubernetes/node.crt", string(cert))
	n.write("/etc/kubernetes/node.key", string(key))
	n.write("/var/lib/kubelet/kubeconfig", fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "x",
 "clusters": [{"name": "x", "cluster": {"server": %q, "certificate-authority": "/etc/kubernetes/pki/ca.crt"}}],
 "users": [{"name": "x", "user": {"client-certificate": "/etc/kubernetes/node.crt", "client-key": "/etc/kubernetes/node.key"}}],
 "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}]}`, cluster.Endpoint))
	const head = `"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1"`
	n.write(configPath, `{`+head+`, "authentication": {"x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"}}, "serverTLSBootstrap": true,
 "protectKernelDefaults": true, "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock"`+base+`}`)
	for file, fields := range dropIns {
		n.write(dropInDir+file, `{`+head+`, `+fields+`}`)
	}
	n.write(dropInDir+"90-test.conf", testSettings)
	kubelet, err := n.m.Start("kubelet", nil, append([]string{filepath.Join(binDir, "kubelet"), "--config=" + configPath,
		"--config-dir=" + dropInDir, "--kubeconfig=/var/lib/kubelet/kubeconfig", "--hostname-override=" + name, "--node-ip=" + harness.NodeIP},
		flags...)...)
	must(t, err)
	t.Cleanup(kubelet.Stop)
	t.Cleanup(func() { cluster.Forget(context.Background(), name) })
	started := time.Now()
	_, err = cluster.ReadyNode(n.ctx, name, kubelet)
	must(t, err)
	t.Logf("Ready %.1f s after kubelet's start", time.Since(started).Seconds())
	return n
}

func TestControlHandWrittenKubeletIsReady(t *testing.T) {
	handWritten(t, "control", "", nil)
}

// Maps of a drop-in are merged key by key into those of the base file, lists replace, and a flag beats both.
func TestControlKubeletMergesDropIns(t *testing.T) {
	base := `, "evictionHard": {"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"},
 "kubeReserved": {"cpu": "70m", "memory": "574Mi", "ephemeral-storage": "1Gi"}, "clusterDNS": ["10.100.0.10"], "maxPods": 29`
	n := handWritten(t, "merging", base, map[string]string{
		"40-nodeclaimd.conf": `"evictionHard": {"memory.available": "5%"}, "kubeReserved": {"memory": "700Mi"}, "clusterDNS": ["10.100.0.20"], "maxPods": 50`,
	}, "--max-pods=60")
	effective := n.configz(t)
	for key, want := range map[string]string{
		"evictionHard": "map[memory.available:5% nodefs.available:10% nodefs.inodesFree:5%]",
		"kubeReserved": "map[cpu:70m ephemeral-storage:1Gi memory:700Mi]", "clusterDNS": "[10.100.0.20]", "maxPods": "60",
	} {
		if have := fmt.Sprint(effective[key]); have != want {
			t.Errorf("kubelet's %s is %s, want %s", key, have, want)
		}
	}
	created, err := cluster.Node(n.ctx, n.name)
	must(t, err)
	t.Logf("capacity %v", created.Status.Capacity)
	t.Logf("allocatable %v", created.Status.Allocatable)
}
