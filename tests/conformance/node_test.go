// What the tests of nodes share: a bare machine, what EC2 knows of it, and a bootstrap on it that is watched from
// outside.

package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

// signedList remembers which certificate requests were answered.
type signedList struct {
	mu   sync.Mutex
	list []harness.Signed
}

var signed signedList

func (s *signedList) add(one harness.Signed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, one)
}

func (s *signedList) of(user, signer string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, one := range s.list {
		if one.User == user && one.Signer == signer {
			n++
		}
	}
	return n
}

// testSettings is laid over the rendered configuration: what a machine that is not an EC2 instance with systemd needs.
// Nothing that a test looks at is among it.
const testSettings = `{"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
 "cgroupDriver": "cgroupfs", "failSwapOn": false, "failCgroupV1": false, "enforceNodeAllocatable": []}
`

const (
	imdsAddress = "169.254.169.254:80"
	statusPath  = "/run/nodeclaimd/status.json"
	configPath  = "/etc/kubernetes/kubelet/config.json"
	dropInDir   = "/etc/kubernetes/kubelet/config.json.d/"
	argsPath    = "/etc/nodeclaimd/kubelet.env"
	agentPath   = "/etc/nodeclaimd/conf.d/50-kubelet.yaml"
)

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := harness.Within(d)
	t.Cleanup(cancel)
	return ctx
}

func newMachine(t *testing.T) *harness.Machine {
	t.Helper()
	dir, err := os.MkdirTemp(workDir, strings.ReplaceAll(t.Name(), "/", "-")+"-")
	must(t, err)
	m, err := harness.NewMachine(within(t, 60*time.Second), dir, program, image)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(m.LogTail(40))
		}
		m.Stop()
	})
	return m
}

// status is what the tests read of status.json.
type status struct {
	Schema                 int
	Version, Node, Outcome string
	Instance               struct{ ID, Type, AZ string }
	NodeClaim              *struct{ Name, UID, Source string }
	Phases                 []phase
	Allocatable            struct {
		Predicted, Actual map[string]string
		Differences       []string
	}
	Warnings []string
}

type phase struct {
	Name, Outcome string
	DurationUsec  int64 `json:"durationUsec"`
	Attempts      int
	Error         *struct {
		Class, Message, Remedy string
		Code                   any
	}
}

// node is a machine that is to become the Node called name.
type node struct {
	t        *testing.T
	ctx      context.Context
	m        *harness.Machine
	instance *harness.Instance
	imds     *harness.IMDS
	name     string
	agent    *harness.Proc
}

// repeats counts how often a test's node was made: with -count each has a name of its own in the audit log.
var repeats = map[int]int{}

// newNode makes a machine whose instance may be the node of its private name. number tells the tests' nodes apart.
func newNode(t *testing.T, number int) *node {
	t.Helper()
	repeats[number]++
	number += 1000 * (repeats[number] - 1)
	n := &node{t: t, ctx: within(t, 120*time.Second), m: newMachine(t), instance: harness.NewInstance(number)}
	n.name = n.instance.Hostname
	iam.Map(n.instance, n.name)
	must(t, n.m.Install(program)) // kubelet executes it by the path in the kubeconfig
	n.write(dropInDir+"90-test.conf", testSettings)
	n.write("/etc/nodeclaimd/kubelet-version", kubeVersion+"\n")
	n.kubelet(filepath.Join(binDir, "kubelet"))
	t.Cleanup(func() { cluster.Forget(context.Background(), n.name) })
	return n
}

func (n *node) write(path, content string) {
	n.t.Helper()
	if err := n.m.Write(path, content); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) read(path string) string {
	n.t.Helper()
	text, err := n.m.Read(path)
	if err != nil {
		n.t.Fatal(err)
	}
	return text
}

// kubelet says which program to start, with further lines below spec.kubelet.
func (n *node) kubelet(path string, more ...string) {
	n.t.Helper()
	text := fmt.Sprintf("apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec:\n  kubelet:\n    path: %s\n", path)
	for _, line := range more {
		text += "    " + line + "\n"
	}
	n.write(agentPath, text)
}

// readDropIns lets kubelet read testSettings where the configuration has no kubelet settings and so no --config-dir.
func (n *node) readDropIns() {
	n.t.Helper()
	n.kubelet(filepath.Join(binDir, "kubelet"), "flags: [--config-dir="+dropInDir+"]")
}

// boot starts `nodeclaimd bootstrap` on the machine with the instance's user data, and IMDS where it always is.
func (n *node) boot(userData []byte, args ...string) {
	n.t.Helper()
	n.serve(imdsAddress, userData)
	n.start(args...)
}

// serve answers for the instance at an address.
func (n *node) serve(address string, userData []byte) {
	n.t.Helper()
	n.instance.UserData = userData
	imds, err := harness.NewIMDS(address, n.instance)
	if err != nil {
		n.t.Fatal(err)
	}
	n.imds = imds
	n.t.Cleanup(imds.Stop)
}

func (n *node) start(args ...string) {
	n.t.Helper()
	var err error
	n.agent, err = n.m.Start("nodeclaimd", nil, append([]string{program, "bootstrap", "--start", "exec"}, args...)...)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(n.agent.Stop)
}

// finish waits for the end of the bootstrap.
func (n *node) finish() int {
	n.t.Helper()
	code, err := n.agent.ExitCode(n.ctx)
	if err != nil {
		n.t.Fatal(err)
	}
	return code
}

// until waits for a condition while the bootstrap runs.
func (n *node) until(what string, check func() error) {
	n.t.Helper()
	if err := harness.Poll(n.ctx, what, []*harness.Proc{n.agent}, check); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) status() *status {
	n.t.Helper()
	s, err := n.tryStatus()
	if err != nil {
		n.t.Fatal(err)
	}
	return s
}

func (n *node) tryStatus() (*status, error) {
	text, err := n.m.Read(statusPath)
	if err != nil {
		return nil, err
	}
	s := &status{}
	if err := json.Unmarshal([]byte(text), s); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", statusPath, err, text)
	}
	return s, nil
}

// run runs the program on the machine to its end.
func (n *node) run(args ...string) (string, error) {
	return n.m.Run(n.ctx, append([]string{program}, args...)...)
}

// rendered is the configuration that kubelet was started with, without the test's own settings.
func (n *node) rendered() map[string]any {
	n.t.Helper()
	base := decode(n.t, n.read(configPath))
	if text, err := n.m.Read(dropInDir + "40-nodeclaimd.conf"); err == nil {
		for key, value := range decode(n.t, text) {
			base[key] = value
		}
	}
	return base
}

// flag finds a kubelet flag in the rendered arguments, "" where it is not there.
func (n *node) flag(name string) string {
	n.t.Helper()
	_, args, _ := strings.Cut(n.read(argsPath), "=")
	for _, word := range strings.Fields(args) {
		if value, ok := strings.CutPrefix(strings.Trim(word, `'"`), "--"+name+"="); ok {
			return strings.Trim(value, `'"`)
		}
	}
	return ""
}

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	var tree map[string]any
	if err := json.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return tree
}

func (s *status) phase(name string) *phase {
	for i := range s.Phases {
		if s.Phases[i].Name == name {
			return &s.Phases[i]
		}
	}
	return nil
}
