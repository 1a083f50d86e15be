// The user's kubelet settings as kubelet itself understands them: base file, drop-in and flags, merged by kubelet and read
// back from /configz; and the prediction made from the same.

package conformance

import (
	"fmt"
	"testing"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

func TestUserSettingsAreMergedAsPredicted(t *testing.T) {
	n := newNode(t, 40)
	must(t, cluster.DenyClaimLookup(n.ctx))
	extra := `      kubeReserved:
        memory: 700Mi
      systemReserved:
        cpu: 50m
      evictionHard:
        memory.available: 5%
      evictionSoft:
        memory.available: 10%
      evictionSoftGracePeriod:
        memory.available: 1m30s
      podPidsLimit: 4096
      registryPullQPS: 10
`
	// IMDS elsewhere, too: `token`, which kubelet runs, must find it there.
	n.serve("127.0.0.1:0", harness.UserData{MaxPods: 50, Labels: harness.KarpenterLabels(), Extra: extra}.For(cluster))
	n.start("--imds", n.imds.URL)
	n.karpenter(nil)
	if code := n.finish(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	effective := n.configz(t)
	for _, key := range []string{"kubeReserved", "systemReserved", "evictionHard", "evictionSoft", "maxPods", "podPidsLimit", "registryPullQPS"} {
		t.Logf("base+drop-in %v | kubelet's %s: %v", n.rendered()[key], key, effective[key])
	}
	for key, want := range map[string]string{
		"maxPods": "50", "podPidsLimit": "4096", "registryPullQPS": "10", "systemReserved": "map[cpu:50m]",
		"evictionSoft": "map[memory.available:10%]", "evictionSoftGracePeriod": "map[memory.available:1m30s]",
	} {
		if have := fmt.Sprint(effective[key]); have != want {
			t.Errorf("kubelet's %s is %s, want %s", key, have, want)
		}
	}
	created, err := cluster.Node(n.ctx, n.name)
	must(t, err)
	n.checkPredicted(t, created)
}
