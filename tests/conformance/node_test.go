// What the tests of nodes share: a machine, its instance, and a bootstrap on it.

package conformance

import (
	"context"
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
 "cgroupDriver": "cgroupfs", "failSwapOn": false, "enforceNodeAllocatable": []}
`

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := harness.Within(d)
	t.Cleanup(cancel)
	return ctx
}

func newMachine(t *testing.T) *harness.Machine {
	t.Helper()
	dir := filepath.Join(workDir, strings.ReplaceAll(t.Name(), "/", "-"))
	m, err := harness.NewMachine(within(t, 60*time.Second), dir, image)
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
