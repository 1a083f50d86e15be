// containerd's configuration, asked of containerd itself: Debian's 1.6, and 2.x as its module builds it.

package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const older = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".registry.headers]\nX-Test = [\"a\"]\n"

// dumps compares what containerd makes of a configuration, line by line, without layout and kinds of quotes.
func dumps(t *testing.T, binary, config string, want []string) {
	t.Helper()
	out, err := exec.CommandContext(within(t, 60*time.Second), binary, "--config", config, "config", "dump").Output()
	must(t, err)
	lines := map[string]bool{}
	for _, line := range strings.Split(strings.ReplaceAll(string(out), `"`, `'`), "\n") {
		lines[strings.TrimSpace(line)] = true
	}
	for _, line := range want {
		if !lines[line] {
			t.Errorf("%s: no line %s in\n%s", binary, line, out)
		}
	}
}

func TestContainerdReadsItsConfiguration(t *testing.T) {
	common := []string{
		"root = '/var/lib/containerd'", "address = '/run/containerd/containerd.sock'", "default_runtime_name = 'runc'",
		"config_path = '/etc/containerd/certs.d:/etc/docker/certs.d'", "runtime_type = 'io.containerd.runc.v2'",
		"base_runtime_spec = '/etc/containerd/base-runtime-spec.json'", "BinaryName = '/usr/sbin/runc'", "SystemdCgroup = true",
		"conf_dir = '/etc/cni/net.d'", "discard_unpacked_layers = true",
	}
	second := filepath.Join(os.Getenv("CONFORMANCE_CONTAINERD2"), "containerd")
	for _, c := range []struct {
		name, binary, version, text string
		migrates                    bool
		want                        []string
	}{
		{"1", "containerd", "1.6.20", "", false, []string{"version = 2", "bin_dir = '/opt/cni/bin'", "sandbox_image = 'localhost/kubernetes/pause:latest'"}},
		{"1-user", "containerd", "1.6.20", older, false, []string{"X-Test = ['a']"}},
		{"2", second, "2.1.4", "", false, []string{"version = 3", "bin_dirs = ['/opt/cni/bin']", "sandbox = 'localhost/kubernetes/pause:latest'", "enable_cdi = true"}},
		{"2-user", second, "2.1.4", "[plugins.'io.containerd.cri.v1.images'.registry.headers]\nX-Test = ['a']", false, []string{"X-Test = ['a']"}},
		{"2-older", second, "2.1.4", older, true, []string{"version = 3", "sandbox = 'localhost/kubernetes/pause:latest'", "X-Test = ['a']"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree, err := harness.RenderContainerd(within(t, 60*time.Second), program, t.TempDir(), c.version, c.text)
			must(t, err)
			config := filepath.Join(tree, "etc/containerd/config.toml")
			if c.migrates {
				migrated, err := exec.CommandContext(within(t, 60*time.Second), c.binary, "--config", config, "config", "migrate").Output()
				must(t, err)
				must(t, os.WriteFile(config, migrated, 0o644))
			}
			dumps(t, c.binary, config, append(c.want, common...))
		})
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
