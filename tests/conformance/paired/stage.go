// One scene in one world: the node, its NodeClaim, pods and budgets, the agent where this world has one; the ending; what was seen.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenterv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const (
	doNotDisrupt   = "karpenter.sh/do-not-disrupt"
	balancersLabel = "node.kubernetes.io/exclude-from-external-load-balancers"
	ourBalancers   = "nodeclaimd"
	queueDelay     = time.Second // from the notice to what the interruption queue makes of it
)

// stage is one scene in one world.
type stage struct {
	*Scene
	world     *world
	namespace string
	instance  *harness.Instance
	imds      *harness.IMDS
	agent     *harness.Proc
	claim     *karpenterv1.NodeClaim
	err       error // what kept the scene from being played

	began, over time.Time // the ending was announced, or done
	killAt      time.Time // when the machine ends; zero: nobody said
	claimGoes   time.Time // the NodeClaim was deleted
	cordoned    time.Time // the Node was unschedulable
	unbalanced  time.Time // the Node was taken off load balancers by us
	isCordoned  bool      // at the end
	lastTaints  map[string]bool
	off         time.Time
	isOff       bool // guarded by the kubelet's lock, as are
	isOver      bool
	lives       []*life
	counts      counts
}

// node is the name of its Node.
func (s *stage) node() string { return s.instance.Hostname }

func (s *stage) dir() string { return filepath.Join(s.world.dir, s.namespace) }

// taints gives the keys of the Node's taints as last seen.
func (s *stage) taints() map[string]bool {
	node := &corev1.Node{}
	found := map[string]bool{}
	if s.world.karpenter.Get(context.Background(), client.ObjectKey{Name: s.node()}, node) == nil {
		for _, t := range node.Spec.Taints {
			found[t.Key] = true
		}
	}
	return found
}

// raise makes everything that is there before the ending.
func (s *stage) raise(ctx context.Context) error {
	if err := os.MkdirAll(s.dir(), 0o755); err != nil {
		return err
	}
	if _, err := s.world.cluster.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := s.register(ctx); err != nil {
		return err
	}
	for i := range s.Budgets {
		if err := s.makeBudget(ctx, i); err != nil {
			return err
		}
	}
	if err := s.attach(ctx); err != nil {
		return err
	}
	s.world.kubelet.host(s)
	for _, p := range s.Pods {
		if err := s.world.kubelet.start(ctx, s, p, 0); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	var err error
	if s.imds, err = harness.NewIMDS("127.0.0.1:0", s.instance); err != nil || !s.world.isOurs {
		return err
	}
	return s.startAgent(ctx)
}

// register creates the Node, and waits until Karpenter has it as its own.
func (s *stage) register(ctx context.Context) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node(), Labels: map[string]string{corev1.LabelHostname: s.node()}},
		Spec: corev1.NodeSpec{ProviderID: s.instance.ProviderID()}}
	if s.claim != nil {
		node.Labels[karpenterv1.NodePoolLabelKey] = "default"
		node.Spec.Taints = []corev1.Taint{{Key: harness.TaintUnregistered, Effect: corev1.TaintEffectNoExecute}}
	}
	if _, err := s.world.cluster.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := s.boot(ctx, "1"); err != nil {
		return err
	}
	if err := s.world.cluster.RemoveTaints(ctx, s.node(), harness.TaintNotReady); err != nil {
		return err
	}
	if s.claim == nil {
		return nil
	}
	return harness.Poll(ctx, "karpenter initializes the node", nil, func() error {
		now := &corev1.Node{}
		if err := s.world.karpenter.Get(ctx, client.ObjectKey{Name: s.node()}, now); err != nil {
			return err
		}
		if now.Labels[harness.LabelInitialized] != "true" {
			return fmt.Errorf("labels %v, taints %v", now.Labels, now.Spec.Taints)
		}
		return nil
	})
}

// boot writes the Node's status as kubelet does after a boot.
func (s *stage) boot(ctx context.Context, id string) error {
	now := time.Now().UTC().Format(time.RFC3339)
	resources := map[string]any{"cpu": "2", "pods": "200"}
	text, err := json.Marshal(map[string]any{"status": map[string]any{"capacity": resources, "allocatable": resources, "nodeInfo": map[string]any{"bootID": id},
		"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastHeartbeatTime": now, "lastTransitionTime": now}}}})
	if err != nil {
		return err
	}
	_, err = s.world.cluster.Client.CoreV1().Nodes().Patch(ctx, s.node(), types.StrategicMergePatchType, text, metav1.PatchOptions{}, "status")
	return err
}

// object is a pod as the API server gets it.
func (s *stage) object(p Pod) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{NodeName: s.node(), TerminationGracePeriodSeconds: &p.Grace, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	yes := true
	owner := metav1.OwnerReference{Name: "o", UID: types.UID("o-" + p.Name), Controller: &yes}
	switch p.Owner {
	case replicaSet, statefulSet, daemonSet:
		owner.APIVersion, owner.Kind = "apps/v1", p.Owner
	case job:
		owner.APIVersion, owner.Kind = "batch/v1", p.Owner
	case foreignDaemon:
		owner.APIVersion, owner.Kind = "apps.kruise.io/v1alpha1", "DaemonSet"
	case static:
		owner.APIVersion, owner.Kind, owner.Name = "v1", "Node", s.node()
		pod.Annotations[corev1.MirrorPodAnnotationKey] = "mirror"
	}
	if owner.Kind != "" {
		pod.OwnerReferences = []metav1.OwnerReference{owner}
	}
	if p.Critical {
		pod.Spec.PriorityClassName = "system-cluster-critical"
	}
	switch p.Tolerates {
	case "disrupted":
		pod.Spec.Tolerations = []corev1.Toleration{{Key: karpenterv1.DisruptedTaintKey, Operator: corev1.TolerationOpExists}}
	case "all":
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	if p.Detach > 0 {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.Name}}}}
	}
	if p.DoNotDisrupt != "" {
		pod.Annotations[doNotDisrupt] = p.DoNotDisrupt
	}
	for _, b := range p.Budgets {
		pod.Labels[fmt.Sprintf("b%d", b)] = "yes"
	}
	return pod
}

func (s *stage) makeBudget(ctx context.Context, i int) error {
	name := fmt.Sprintf("b%d", i)
	one := intstr.FromInt32(1)
	_, err := s.world.cluster.Client.PolicyV1().PodDisruptionBudgets(s.namespace).Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{name: "yes"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return s.allow(ctx, i, 0)
}

// allow is what the disruption controller says of a budget.
func (s *stage) allow(ctx context.Context, i, disruptions int) error {
	text := fmt.Sprintf(`{"status": {"observedGeneration": 1, "currentHealthy": 9, "desiredHealthy": %d, "expectedPods": 9, "disruptionsAllowed": %d, "disruptedPods": null}}`, 9-min(disruptions, 9), disruptions)
	_, err := s.world.cluster.Client.PolicyV1().PodDisruptionBudgets(s.namespace).Patch(ctx, fmt.Sprintf("b%d", i), types.MergePatchType, []byte(text), metav1.PatchOptions{}, "status")
	return err
}

// keepBudget lets a budget live until ctx ends.
func (s *stage) keepBudget(ctx context.Context, i int) {
	b := s.Budgets[i]
	if b.Opens < 0 {
		return
	}
	if !b.Rolling {
		if wait(ctx, s.began.Add(b.Opens)) {
			_ = s.allow(ctx, i, 1000)
		}
		return
	}
	for next := s.began; wait(ctx, next); next = time.Now().Add(500 * time.Millisecond) {
		if s.lastOf(i).Before(time.Now().Add(-3 * time.Second)) {
			_ = s.allow(ctx, i, 1)
		} else {
			_ = s.allow(ctx, i, 0)
		}
	}
}

// lastOf is when the last pod of a budget ended; now where one is leaving.
func (s *stage) lastOf(budget int) time.Time {
	s.world.kubelet.mu.Lock()
	defer s.world.kubelet.mu.Unlock()
	var last time.Time
	for _, l := range s.lives {
		if !slices.Contains(l.pod.Budgets, budget) || l.asked.IsZero() {
			continue
		}
		if l.ended.IsZero() {
			return time.Now()
		}
		if l.ended.After(last) {
			last = l.ended
		}
	}
	return last
}

// wait returns true at the moment, false where ctx ends before.
func wait(ctx context.Context, until time.Time) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Until(until)):
		return true
	}
}

// --- the agent

func (s *stage) write(path, text string) error {
	path = filepath.Join(s.dir(), "root", path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

func (s *stage) startAgent(ctx context.Context) error {
	cert, key, err := s.world.cluster.CA.Issue("system:node:"+s.node(), []string{"system:nodes"})
	if err != nil {
		return err
	}
	settings := fmt.Sprintf("apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec:\n  drain: {mode: %q, hookTimeout: 0s}\n", s.Mode)
	if source := s.source(); source != "" {
		settings += fmt.Sprintf("  interruption: {%s: %s}\n", source, s.Policy)
	}
	if s.Ending == autoscaling {
		settings = strings.TrimSuffix(settings, "}\n") + fmt.Sprintf(", autoscalingDeadline: %s}\n", s.Left)
	}
	for path, text := range map[string]string{
		"etc/kubernetes/pki/ca.crt":           string(s.world.cluster.CA.PEM),
		"var/lib/kubelet/pki/node.crt":        string(cert),
		"var/lib/kubelet/pki/node.key":        string(key),
		"proc/sys/kernel/random/boot_id":      "0c5d1d1c-6f0e-4a44-9c0a-000000000001\n",
		"etc/nodeclaimd/conf.d/60-drain.yaml": settings,
		"var/lib/kubelet/kubeconfig": fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "x",
 "clusters": [{"name": "x", "cluster": {"server": %q, "certificate-authority": "/etc/kubernetes/pki/ca.crt"}}],
 "users": [{"name": "x", "user": {"client-certificate": "/var/lib/kubelet/pki/node.crt", "client-key": "/var/lib/kubelet/pki/node.key"}}],
 "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}]}`, s.world.cluster.Endpoint),
	} {
		if err := s.write(path, text); err != nil {
			return err
		}
	}
	if err := s.launch(); err != nil {
		return err
	}
	return harness.Poll(ctx, "the agent asks for notices", []*harness.Proc{s.agent}, func() error {
		if slices.ContainsFunc(s.imds.Requests(), func(r harness.IMDSRequest) bool { return r.Path == harness.ScheduledNotice }) {
			return nil
		}
		return errors.New("it has not")
	})
}

// setClock sets the clock of the machine, which only the agent reads; the time since its boot goes on.
func (s *stage) setClock(by time.Duration) error {
	return s.write("clock", fmt.Sprintf("%+ds\n", int(by.Seconds())))
}

func (s *stage) launch() error {
	env := []string{"DBUS_SYSTEM_BUS_ADDRESS=unix:path=" + s.dir() + "/no-bus"}
	if s.Stepped > 0 {
		if err := s.setClock(0); err != nil {
			return err
		}
		env = append(env, "LD_PRELOAD="+faketime, "FAKETIME_TIMESTAMP_FILE="+filepath.Join(s.dir(), "root/clock"), "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1")
	}
	var err error
	s.agent, err = harness.Start(s.dir(), "agent", env,
		program, "run", "--imds", s.imds.URL, "--root", filepath.Join(s.dir(), "root"), "--node-name", s.node(), "--log-level", "debug")
	return err
}

// --- the ending

// play lets the ending happen and watches until the machine is gone, or the time is over.
func (s *stage) play(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, s.Horizon+30*time.Second)
	defer stop()
	s.began = time.Now()
	if s.Left > 0 {
		s.killAt = s.began.Add(s.Left + time.Second).Truncate(time.Second)
		s.began = s.killAt.Add(-s.Left)
		wait(ctx, s.began) // EC2 knows whole seconds only
	}
	for i := range s.Budgets {
		go s.keepBudget(ctx, i)
	}
	go s.detach(ctx)
	if s.agent != nil && s.Killed > 0 {
		go s.restartAgent(ctx)
	}
	if s.agent != nil && s.Stepped > 0 {
		go func() {
			if wait(ctx, s.began.Add(s.Stepped)) {
				_ = s.setClock(s.Step)
			}
		}()
	}
	if s.err = s.announce(ctx); s.err != nil {
		return
	}
	for next := time.Now(); time.Since(s.began) < s.Horizon && wait(ctx, next) && !s.isAtEnd(ctx); next = next.Add(100 * time.Millisecond) {
	}
	s.over = time.Now()
	s.world.kubelet.mu.Lock()
	s.isOver = true
	s.world.kubelet.mu.Unlock()
	if s.agent != nil {
		s.agent.Kill()
	}
	s.imds.Stop()
}

func (s *stage) restartAgent(ctx context.Context) {
	if !wait(ctx, s.began.Add(s.Killed)) || s.isDown() {
		return
	}
	_ = syscall.Kill(s.agent.Pid(), syscall.SIGKILL)
	<-s.agent.Done()
	if !s.isDown() {
		_ = s.launch()
	}
}

func (s *stage) isDown() bool {
	s.world.kubelet.mu.Lock()
	defer s.world.kubelet.mu.Unlock()
	return s.isOff || s.isOver
}

func (s *stage) announce(ctx context.Context) error {
	at := s.killAt.UTC().Format(time.RFC3339)
	switch s.Ending {
	case spot:
		s.imds.SayTerminate(s.killAt)
	case hibernate:
		s.imds.Say(harness.SpotNotice, fmt.Sprintf(`{"action": "hibernate", "time": %q}`, at))
	case past:
		s.imds.Say(harness.SpotNotice, fmt.Sprintf(`{"action": "terminate", "time": %q}`, s.began.Add(-5*time.Minute).UTC().Format(time.RFC3339)))
	case rebalance:
		s.imds.Say(harness.RebalanceNotice, fmt.Sprintf(`{"noticeTime": %q}`, s.began.UTC().Format(time.RFC3339)))
	case autoscaling:
		s.imds.Say(harness.TargetState, "Terminated")
	case maintenance:
		begins := s.killAt
		if s.IsFar() {
			begins = s.began.AddDate(0, 0, 5)
		}
		const layout = "2 Jan 2006 15:04:05 GMT"
		s.imds.Say(harness.ScheduledNotice, fmt.Sprintf(`[{"NotBefore": %q, "Code": %q, "Description": "scheduled", "EventId": "instance-event-0%016x", "NotAfter": %q, "State": "active"}]`,
			begins.UTC().Format(layout), s.Code, s.Seed, begins.UTC().Add(2*time.Hour).Format(layout)))
	case repair:
		text := fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, karpenterv1.NodeClaimTerminationTimestampAnnotationKey, s.began.Add(s.TGP).UTC().Format(time.RFC3339))
		if err := s.world.karpenter.Patch(ctx, s.claim.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
			return err
		}
		return s.world.karpenter.Delete(ctx, s.claim.DeepCopy())
	case reboot:
		return s.requestReboot(ctx)
	case deletion:
		return s.world.karpenter.Delete(ctx, s.claim.DeepCopy())
	}
	if s.Queue {
		go func() {
			if wait(ctx, s.began.Add(queueDelay)) {
				_ = s.world.karpenter.Delete(ctx, s.claim.DeepCopy())
			}
		}()
	}
	return nil
}

// requestReboot is what Karpenter's repair asks of its reboot controller.
func (s *stage) requestReboot(ctx context.Context) error {
	text := fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, karpenterv1.RebootTerminationGracePeriodAnnotationKey, s.TGP)
	if err := s.world.karpenter.Patch(ctx, s.claim.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		return err
	}
	now := &karpenterv1.NodeClaim{}
	if err := s.world.karpenter.Get(ctx, client.ObjectKeyFromObject(s.claim), now); err != nil {
		return err
	}
	before := now.DeepCopy()
	now.StatusConditions().SetTrueWithReason(karpenterv1.ConditionTypeRebooting, karpenterv1.RebootReasonRequested, "paired")
	return s.world.karpenter.Status().Patch(ctx, now, client.MergeFrom(before))
}

// isAtEnd looks at what changes; true once the machine is gone.
func (s *stage) isAtEnd(ctx context.Context) bool {
	now := time.Now()
	k := s.world.karpenter
	if s.claim != nil && s.claimGoes.IsZero() {
		claim := &karpenterv1.NodeClaim{}
		if err := k.Get(ctx, client.ObjectKeyFromObject(s.claim), claim); client.IgnoreNotFound(err) == nil && (err != nil || claim.DeletionTimestamp != nil) {
			s.claimGoes = now
		}
	}
	node := &corev1.Node{}
	if k.Get(ctx, client.ObjectKey{Name: s.node()}, node) == nil {
		s.isCordoned = node.Spec.Unschedulable
		if s.isCordoned && s.cordoned.IsZero() {
			s.cordoned = now
		}
		if node.Labels[balancersLabel] == ourBalancers && s.unbalanced.IsZero() {
			s.unbalanced = now
		}
	}
	switch ended := k.Ended(s.instance); {
	case !ended.IsZero():
		s.world.kubelet.powerOff(s, ended)
		return true
	case !k.Rebooted(s.instance).IsZero():
		s.world.kubelet.powerOff(s, k.Rebooted(s.instance))
		return true
	case s.Ending == hibernate && !s.killAt.IsZero() && now.After(s.killAt):
		return true // what runs is in memory, and runs on later
	case !s.killAt.IsZero() && now.After(s.killAt):
		s.world.kubelet.powerOff(s, s.killAt)
		return true
	}
	return false
}
