// containerd's configuration, asked of containerd itself, Debian's 1.6; containerd/ asks the others.

package conformance

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

func TestContainerdReadsItsConfiguration(t *testing.T) {
	common := []string{
		"version = 2", "root = '/var/lib/containerd'", "address = '/run/containerd/containerd.sock'", "default_runtime_name = 'runc'",
		"config_path = '/etc/containerd/certs.d:/etc/docker/certs.d'", "runtime_type = 'io.containerd.runc.v2'",
		"base_runtime_spec = '/etc/containerd/base-runtime-spec.json'", "BinaryName = '/usr/sbin/runc'", "SystemdCgroup = true",
		"bin_dir = '/opt/cni/bin'", "conf_dir = '/etc/cni/net.d'", "discard_unpacked_layers = true",
	}
	for text, want := range map[string]string{
		"": "sandbox_image = 'localhost/kubernetes/pause:latest'",
		"[plugins.\"io.containerd.grpc.v1.cri\".registry.headers]\nX-Test = [\"a\"]\n": "X-Test = ['a']",
	} {
		tree, err := harness.RenderContainerd(within(t, 60*time.Second), program, t.TempDir(), "1.6.20", text)
		must(t, err)
		out, err := exec.CommandContext(within(t, 60*time.Second), "containerd", "--config", filepath.Join(tree, "etc/containerd/config.toml"),
			"config", "dump").Output()
		must(t, err)
		lines := map[string]bool{}
		for _, line := range strings.Split(strings.ReplaceAll(string(out), `"`, `'`), "\n") {
			lines[strings.TrimSpace(line)] = true
		}
		for _, line := range append(common, want) {
			if !lines[line] {
				t.Errorf("%q: no line %s in\n%s", text, line, out)
			}
		}
	}
}

// The base runtime spec and the rest of the rendered files work: a pod starts offline, with the limit of the spec.
func TestContainerdStartsPodsFromItsConfiguration(t *testing.T) {
	n := handWritten(t, "containerd", `, "staticPodPath": "/etc/kubernetes/manifests"`, nil)
	n.write("/etc/kubernetes/manifests/pause.json", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "limits"},
 "spec": {"hostNetwork": true, "containers": [{"name": "main", "image": "localhost/pause:1", "imagePullPolicy": "Never"}]}}`)
	const script = `for pid in $(pgrep -x pause); do grep '^Max open files' "/proc/$pid/limits"; done`
	// The sandbox has containerd's own limits; Go raises the soft limit of a container's process.
	want := regexp.MustCompile(fmt.Sprintf(`(?m)^Max open files +\d+ +%d `, harness.HardLimit))
	must(t, harness.Poll(n.ctx, "the container's limits", nil, func() error {
		text, err := n.m.Run(n.ctx, "sh", "-c", script)
		if err == nil && !want.MatchString(text) {
			err = fmt.Errorf("no hard limit of %d open files in %q", harness.HardLimit, text)
		}
		return err
	}))
}
