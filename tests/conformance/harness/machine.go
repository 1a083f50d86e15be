// A machine: a mount namespace in which /etc, /usr, /var and /run are its own, so that every file is used at its real path,
// with its own containerd. Nothing is written to the host's folders.
//
// /etc, /usr and /var are overlays of the host's; /var/lib/kubelet and /var/lib/containerd are plain folders, because kubelet
// and containerd look at the file system below them. The sysctls that kubelet insists on are files laid over /proc/sys:
// what production must have, without touching the kernel that everybody shares.

package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// NodeIP and NodeIPv6 are on the namespace's loopback interface (see ../in-namespaces).
const (
	NodeIP   = "10.0.0.5"
	NodeIPv6 = "2600:1f14:0:1::5"
)

const containerdConfig = "/etc/containerd/conformance.toml"

const cniConfig = `{"cniVersion": "0.4.0", "name": "conformance", "plugins": [{"type": "bridge", "bridge": "cni0",
 "isGateway": true, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]]}}, {"type": "loopback"}]}
`

// What a kubelet with protectKernelDefaults wants to find.
const setupScript = `set -e
dir=$1
for tree in etc usr var; do
    mkdir -p "$dir/$tree" "$dir/.work-$tree"
    mount -t overlay overlay -o "lowerdir=/$tree,upperdir=$dir/$tree,workdir=$dir/.work-$tree" "/$tree"
done
mount -t tmpfs -o mode=755 run /run
rm -rf /var/lib/kubelet /var/lib/containerd /var/lib/cni /etc/cni /var/log/nodeclaimd-kubelet.log
mkdir -p /var/lib/kubelet /var/lib/containerd /run/containerd /etc/cni/net.d /etc/containerd /etc/nodeclaimd/conf.d /var/log
mkdir -p "$dir/kubelet" "$dir/containerd"
mount --bind "$dir/kubelet" /var/lib/kubelet
mount --bind "$dir/containerd" /var/lib/containerd
: > "$dir/console"
mount --bind "$dir/console" /dev/console
while read -r name value; do
    file="$dir/sysctl-$(echo "$name" | tr / -)"
    echo "$value" > "$file"
    mount --bind "$file" "/proc/sys/$name"
done <<END
vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000
END
echo ready > "$dir/ready"
exec sleep infinity
`

// Machine is one bare instance. Dir holds its disk and, in Dir/logs, the output of its programs.
type Machine struct {
	Dir        string
	holder     *Proc
	containerd *Proc
}

// NewMachine makes the namespace and starts containerd, as the program configures it, with the pause image in it.
func NewMachine(ctx context.Context, dir, program, pauseImage string) (*Machine, error) {
	m, err := NewBareMachine(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := m.startContainerd(ctx, program, pauseImage); err != nil {
		m.Stop()
		return nil, err
	}
	return m, nil
}

// NewBareMachine makes the namespace alone: nothing runs in it.
func NewBareMachine(ctx context.Context, dir string) (*Machine, error) {
	m := &Machine{Dir: dir}
	if err := os.MkdirAll(m.logs(), 0o755); err != nil {
		return nil, err
	}
	var err error
	m.holder, err = Start(m.logs(), "machine", nil, "unshare", "--mount", "--propagation", "private", "bash", "-c", setupScript, "setup", dir)
	if err != nil {
		return nil, err
	}
	err = Poll(ctx, "the machine's mounts", []*Proc{m.holder}, func() error {
		_, err := os.Stat(filepath.Join(dir, "ready"))
		return err
	})
	if err != nil {
		m.Stop()
		return nil, err
	}
	return m, nil
}

func (m *Machine) logs() string { return filepath.Join(m.Dir, "logs") }

func (m *Machine) startContainerd(ctx context.Context, program, pauseImage string) error {
	if err := m.configureContainerd(ctx, program); err != nil {
		return err
	}
	if err := m.Write("/etc/cni/net.d/10-conformance.conflist", cniConfig); err != nil {
		return err
	}
	var err error
	m.containerd, err = m.Start("containerd", nil, "containerd", "--config", containerdConfig)
	if err != nil {
		return err
	}
	return Poll(ctx, "containerd with the pause image", []*Proc{m.containerd}, func() error {
		_, err := m.Run(ctx, "ctr", "-a", "/run/containerd/containerd.sock", "-n", "k8s.io", "images", "import", pauseImage)
		return err
	})
}

func (m *Machine) inside(argv []string) []string {
	of := "/proc/" + strconv.Itoa(m.holder.Pid()) // with its root: all of this may run in a changed one
	return append([]string{"nsenter", "--mount=" + of + "/ns/mnt", "--root=" + of + "/root", "--"}, argv...)
}

// Start runs a program on the machine; its output goes to logs/name.log.
func (m *Machine) Start(name string, env []string, argv ...string) (*Proc, error) {
	return Start(m.logs(), name, env, m.inside(argv)...)
}

// Run runs a program on the machine to its end and gives its standard output.
func (m *Machine) Run(ctx context.Context, argv ...string) (string, error) {
	full := m.inside(argv)
	cmd := exec.CommandContext(ctx, full[0], full[1:]...)
	var errText strings.Builder
	cmd.Stderr = &errText
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, errText.String())
	}
	return string(out), nil
}

// host maps a path on the machine to where the file is seen from outside.
func (m *Machine) host(path string) string {
	return "/proc/" + strconv.Itoa(m.holder.Pid()) + "/root" + path
}

// Write makes a file on the machine with all its folders.
func (m *Machine) Write(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(m.host(path)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(m.host(path), []byte(content), 0o644)
}

// Install puts a program into the folders that the prefixes /usr and /usr/local give it.
func (m *Machine) Install(program string) error {
	binary, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	for _, dir := range []string{"/usr/sbin/", "/usr/local/sbin/"} {
		path := m.host(dir + filepath.Base(program))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, binary, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// Read gives a file of the machine.
func (m *Machine) Read(path string) (string, error) {
	data, err := os.ReadFile(m.host(path))
	return string(data), err
}

// Console is everything that was written to the serial console.
func (m *Machine) Console() (string, error) {
	data, err := os.ReadFile(filepath.Join(m.Dir, "console"))
	return string(data), err
}

// LogTail is for the text of a failure: the ends of all the machine's logs.
func (m *Machine) LogTail(lines int) string {
	files, _ := filepath.Glob(filepath.Join(m.logs(), "*.log"))
	more, _ := filepath.Glob(m.host("/var/log/nodeclaimd*.log"))
	var text strings.Builder
	for _, file := range append(files, more...) {
		if filepath.Base(file) != "containerd.log" {
			fmt.Fprintf(&text, "--- %s\n%s\n", filepath.Base(file), Tail(file, lines))
		}
	}
	return text.String()
}

// Pids gives the processes of the machine whose executable has this base name.
func (m *Machine) Pids(name string) []int {
	want, err := os.Readlink("/proc/" + strconv.Itoa(m.holder.Pid()) + "/ns/mnt")
	if err != nil {
		return nil
	}
	var found []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		ns, err := os.Readlink(dir + "/ns/mnt")
		if err != nil || ns != want {
			continue
		}
		exe, err := os.Readlink(dir + "/exe")
		if pid, bad := strconv.Atoi(filepath.Base(dir)); err == nil && bad == nil && filepath.Base(exe) == name {
			found = append(found, pid)
		}
	}
	return found
}

// Stop ends everything that runs on the machine, the last containers included, and the namespace with it.
func (m *Machine) Stop() {
	for _, name := range []string{"kubelet", "containerd-shim-runc-v2", "pause"} {
		for _, pid := range m.Pids(name) {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
	}
	m.containerd.Stop()
	m.holder.Stop()
}
