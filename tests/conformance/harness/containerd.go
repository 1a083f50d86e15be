// containerd's configuration as the program renders it, with what a machine of the harness needs laid over it.

package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// WithoutSystemd is the user's text of a machine here: no systemd, no AppArmor, Debian's plugins, its own pause image.
const WithoutSystemd = `[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "localhost/pause:1"
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
`

// Limits of open files that every host grants: raising one takes CAP_SYS_RESOURCE, which a container may lack.
const (
	SoftLimit = 4000
	HardLimit = 4096
)

// RenderContainerd gives the tree that the program renders for a containerd of this version and the user's text for it, in dir.
func RenderContainerd(ctx context.Context, program, dir, version, text string) (string, error) {
	golden, err := filepath.Abs("../golden")
	if err != nil {
		return "", err
	}
	facts, out := filepath.Join(dir, "facts"), filepath.Join(dir, "rendered")
	if err := os.CopyFS(facts, os.DirFS(filepath.Join(golden, "facts", "m5.large"))); err != nil {
		return "", err
	}
	if err := setHost(filepath.Join(facts, "host.json"), "containerd_version", version); err != nil {
		return "", err
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return "", err
	}
	document := filepath.Join(dir, "containerd.yaml")
	content := fmt.Sprintf("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {containerd: {config: %s, baseRuntimeSpec: "+
		"{process: {rlimits: [{type: RLIMIT_NOFILE, soft: %d, hard: %d}]}}}}\n", quoted, SoftLimit, HardLimit)
	if err := os.WriteFile(document, []byte(content), 0o644); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, program, "render", "--facts", facts, "--kubelet-version", "v1.34.4", "--out", out,
		"--source", "file://"+filepath.Join(golden, "documents", "cluster.yaml"), "--source", "file://"+document)
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("render: %w\n%s", err, said)
	}
	return out, nil
}

func setHost(path, key string, value any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var host map[string]any
	if err := json.Unmarshal(data, &host); err != nil {
		return err
	}
	host[key] = value
	if data, err = json.Marshal(host); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// configureContainerd puts the rendered files on the machine, where a bootstrap on it does not overwrite the configuration.
func (m *Machine) configureContainerd(ctx context.Context, program string) error {
	said, err := exec.CommandContext(ctx, "containerd", "--version").Output()
	if err != nil {
		return err
	}
	words := strings.Fields(string(said))
	if len(words) < 3 {
		return fmt.Errorf("containerd --version: %q", said)
	}
	tree, err := RenderContainerd(ctx, program, m.Dir, words[2], WithoutSystemd)
	if err != nil {
		return err
	}
	for from, to := range map[string]string{
		"config.toml": containerdConfig, "base-runtime-spec.json": "/etc/containerd/base-runtime-spec.json",
	} {
		data, err := os.ReadFile(filepath.Join(tree, "etc/containerd", from))
		if err != nil {
			return err
		}
		if err := m.Write(to, string(data)); err != nil {
			return err
		}
	}
	return nil
}
