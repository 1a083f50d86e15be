// The NodeClaim as a node may come to know it, and what is said on it before there is a Node.

package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

// claimRequests gives the node's requests for NodeClaims.
func (n *node) claimRequests() []harness.AuditEntry {
	n.t.Helper()
	list, err := cluster.Audit.Entries(func(e harness.AuditEntry) bool {
		return e.User.Username == "system:node:"+n.name && e.ObjectRef.Resource == "nodeclaims"
	})
	must(n.t, err)
	return list
}

// karpenter plays the cluster's part for a node that registers and initializes without further ado.
func (n *node) karpenter(owner *metav1.OwnerReference) {
	n.t.Helper()
	_, err := cluster.ReadyNode(n.ctx, n.name, n.agent)
	must(n.t, err)
	must(n.t, cluster.RemoveTaints(n.ctx, n.name, harness.TaintUninitialized, harness.TaintNotReady))
	must(n.t, cluster.KarpenterRegisters(n.ctx, n.name, owner))
	must(n.t, cluster.KarpenterInitializes(n.ctx, n.name))
}

func TestClaimIsFoundByATable(t *testing.T) {
	n := newNode(t, 20)
	must(t, cluster.AllowClaimLookup(n.ctx))
	// Other claims of the same pool; only the providerID tells them apart.
	for number := range 3 {
		name := fmt.Sprintf("default-other%d", number)
		_, err := cluster.NewClaim(n.ctx, name, harness.NewInstance(200+number))
		must(t, err)
		defer cluster.DeleteClaim(n.ctx, name)
	}
	claim, err := cluster.NewClaim(n.ctx, "default-mine1", n.instance)
	must(t, err)
	defer cluster.DeleteClaim(n.ctx, claim.GetName())
	n.boot(harness.UserData{MaxPods: 29, Labels: harness.KarpenterLabels()}.For(cluster))
	n.until("the NodeClaim is in status.json", func() error {
		s, err := n.tryStatus()
		if err == nil && (s.NodeClaim == nil || s.NodeClaim.UID != string(claim.GetUID())) {
			err = fmt.Errorf("nodeclaim %+v", s.NodeClaim)
		}
		return err
	})
	requests := n.claimRequests()
	if len(requests) == 0 || requests[0].Verb != "list" || !strings.Contains(requests[0].RequestURI, "includeObject=None") ||
		!strings.Contains(requests[0].RequestURI, "labelSelector=") {
		t.Errorf("requests %v", requests)
	}
	n.karpenter(harness.OwnerOf(claim))
	if code := n.finish(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	t.Logf("source %q, requests %v", n.status().NodeClaim.Source, n.claimRequests())
}

func TestClaimLookupDegradesQuietly(t *testing.T) {
	n := newNode(t, 21)
	must(t, cluster.DenyClaimLookup(n.ctx))
	claim, err := cluster.NewClaim(n.ctx, "default-hidden", n.instance)
	must(t, err)
	defer cluster.DeleteClaim(n.ctx, claim.GetName())
	n.boot(harness.UserData{MaxPods: 29, Labels: harness.KarpenterLabels()}.For(cluster))
	n.karpenter(harness.OwnerOf(claim))
	if code := n.finish(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s := n.status()
	if s.Outcome != "succeeded" {
		t.Errorf("outcome %s", s.Outcome)
	}
	requests := n.claimRequests()
	if len(requests) == 0 || len(requests) > 3 || slices.ContainsFunc(requests, func(e harness.AuditEntry) bool { return e.ResponseStatus.Code != 403 }) {
		t.Errorf("requests %v", requests)
	}
	t.Logf("%d refused requests, NodeClaim %+v, warnings %q", len(requests), s.NodeClaim, s.Warnings)
	for _, p := range s.Phases {
		if p.Outcome != "succeeded" {
			t.Errorf("phase %s: %s %+v", p.Name, p.Outcome, p.Error)
		}
	}
}

// claimDocument is the NodeClaim as a document in the configuration folder: it carries the uid.
func claimDocument(claim *unstructured.Unstructured) string {
	return fmt.Sprintf(`apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: %s
  uid: %s
  labels:
    karpenter.sh/nodepool: default
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
  requirements: []
`, claim.GetName(), claim.GetUID())
}

func TestFailureIsAnEventOnTheClaimBeforeAnyNode(t *testing.T) {
	n := newNode(t, 22)
	must(t, cluster.DenyClaimLookup(n.ctx))
	claim, err := cluster.NewClaim(n.ctx, "default-fails", n.instance)
	must(t, err)
	defer cluster.DeleteClaim(n.ctx, claim.GetName())
	n.write("/etc/nodeclaimd/conf.d/20-claim.yaml", claimDocument(claim))
	n.write("/var/lib/nodeclaimd/broken-kubelet", "#!/bin/sh\necho 'F1 run.go:72] command failed: the disk is made of cheese' >&2\nexit 3\n")
	_, err = n.m.Run(n.ctx, "chmod", "755", "/var/lib/nodeclaimd/broken-kubelet")
	must(t, err)
	n.kubelet("/var/lib/nodeclaimd/broken-kubelet")
	started := time.Now()
	n.boot(harness.UserData{MaxPods: 29, Labels: harness.KarpenterLabels()}.For(cluster), "--timeout", "20s")

	var event *corev1.Event
	n.until("the failure on the NodeClaim", func() error {
		list, err := cluster.Client.CoreV1().Events("default").List(n.ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=NodeClaim,reason=BootstrapFailed,involvedObject.uid=" + string(claim.GetUID())})
		if err == nil && len(list.Items) == 0 {
			err = fmt.Errorf("no event")
		}
		if err == nil {
			event = &list.Items[0]
		}
		return err
	})
	t.Logf("%.1f s after the start: %s: %s", time.Since(started).Seconds(), event.Reason, event.Message)
	if _, err := cluster.Client.CoreV1().Nodes().Get(n.ctx, n.name, metav1.GetOptions{}); err == nil {
		t.Error("there is a Node")
	}
	if event.InvolvedObject.Name != claim.GetName() || event.Type != corev1.EventTypeWarning || event.Source.Component == "" || event.Source.Host != n.name || event.Count < 1 ||
		event.FirstTimestamp.IsZero() || event.LastTimestamp.IsZero() || event.InvolvedObject.APIVersion != "karpenter.sh/v1" {
		t.Errorf("event %+v", event)
	}
	if !strings.Contains(event.Message, "made of cheese") {
		t.Errorf("kubelet's last words are not in %q", event.Message)
	}
	code := n.finish()
	if code == 0 {
		t.Error("exit code 0")
	}
	s := n.status()
	failed := s.phase("start")
	if register := s.phase("register"); register != nil && register.Outcome == "failed" {
		failed = register
	}
	if s.Outcome != "failed" || failed == nil || failed.Outcome != "failed" || failed.Error == nil || failed.Error.Class == "" || failed.Error.Remedy == "" {
		t.Errorf("outcome %s, phase %+v", s.Outcome, failed)
	} else {
		t.Logf("exit code %d, phase %s: %+v", code, failed.Name, *failed.Error)
	}
	n.checkConsole(t, "failed")
}
