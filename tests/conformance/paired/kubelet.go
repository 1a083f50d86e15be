// A kubelet for all nodes of a world, and the owners of their pods: what runs ends as its scene says, within the grace that it was
// given and not a moment later; what is put back is put back. It also notes when what happened to each pod.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	karpenterv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

const returnsAfter = 1500 * time.Millisecond

// life is what became of one pod. Times are those of the seeing, zero where it did not happen.
type life struct {
	pod     Pod
	name    string
	return_ int // how often it had been put back before: 0 is the pod of the scene
	uid     types.UID

	asked      time.Time // the first request to leave
	grace      time.Duration
	ended      time.Time
	isFinished bool // it stopped by itself
	isOff      bool // the machine ended under it
	timer      *time.Timer
}

// kubelet plays for the nodes of one cluster.
type kubelet struct {
	client *kubernetes.Clientset

	mu     sync.Mutex
	stages map[string]*stage // by namespace
	lives  map[types.UID]*life
}

func startKubelet(ctx context.Context, client *kubernetes.Clientset) (*kubelet, error) {
	k := &kubelet{client: client, stages: map[string]*stage{}, lives: map[types.UID]*life{}}
	list := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", "", fields.Everything())
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: list, ObjectType: &corev1.Pod{}, Handler: cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { k.see(o.(*corev1.Pod), false) },
		UpdateFunc: func(_, o any) { k.see(o.(*corev1.Pod), false) },
		DeleteFunc: func(o any) {
			if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = unknown.Obj
			}
			k.see(o.(*corev1.Pod), true)
		},
	}})
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("the watch of the pods: %w", ctx.Err())
	}
	return k, nil
}

// host lets it run the pods of a stage.
func (k *kubelet) host(s *stage) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stages[s.namespace] = s
}

func (k *kubelet) see(p *corev1.Pod, isGone bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l, now := k.lives[p.UID], time.Now()
	s := k.stages[p.Namespace]
	if l == nil || s == nil || !l.ended.IsZero() {
		return
	}
	if isGone { // at once: no grace, or somebody's force
		if l.asked.IsZero() {
			l.asked, l.isFinished = now, l.pod.Grace == 0
		}
		k.end(s, l, now)
		return
	}
	if p.DeletionTimestamp == nil {
		return
	}
	if l.asked.IsZero() {
		l.asked = now
	}
	l.grace = time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer = time.AfterFunc(time.Until(l.asked.Add(min(l.grace, l.stop()))), func() { k.stop(s, l) })
}

func (l *life) stop() time.Duration { return time.Duration(l.pod.Stop * float64(time.Second)) }

// stop is the end of a pod that was told to go: it has finished, or its grace is over.
func (k *kubelet) stop(s *stage, l *life) {
	k.mu.Lock()
	if !l.ended.IsZero() || s.isOff {
		k.mu.Unlock()
		return
	}
	l.isFinished = l.stop() <= l.grace
	k.end(s, l, time.Now())
	k.mu.Unlock()
	_ = k.client.CoreV1().Pods(s.namespace).Delete(context.Background(), l.name, metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(l.uid))})
}

// end notes it, and lets the owner put another one back.
func (k *kubelet) end(s *stage, l *life, now time.Time) {
	l.ended = now
	if l.timer != nil {
		l.timer.Stop()
	}
	isDaemon := l.pod.Owner == daemonSet || l.pod.Owner == foreignDaemon
	if !s.isOff && !s.isOver && (l.pod.Returns || isDaemon) {
		time.AfterFunc(returnsAfter, func() { k.putBack(s, l) })
	}
}

// putBack is the owner's new pod on the same node, if a scheduler would put it there.
func (k *kubelet) putBack(s *stage, old *life) {
	taints := s.taints()
	k.mu.Lock()
	skip := s.isOff || s.isOver
	k.mu.Unlock()
	if skip || old.pod.Tolerates == "" && taints[karpenterv1.DisruptedTaintKey] {
		return
	}
	_ = k.start(context.Background(), s, old.pod, old.return_+1)
}

// start creates a pod on the node of a stage; it runs at once.
func (k *kubelet) start(ctx context.Context, s *stage, p Pod, count int) error {
	object := s.object(p)
	if count > 0 {
		object.Name = fmt.Sprintf("%s-again%d", p.Name, count)
	}
	pods := k.client.CoreV1().Pods(s.namespace)
	made, err := pods.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	k.mu.Lock()
	l := &life{pod: p, name: made.Name, return_: count, uid: made.UID}
	k.lives[made.UID] = l
	s.lives = append(s.lives, l)
	k.mu.Unlock()
	started := metav1.NewTime(time.Now().Add(-10 * time.Minute))
	text, _ := json.Marshal(map[string]any{"metadata": map[string]any{"uid": made.UID}, "status": map[string]any{"phase": corev1.PodRunning,
		"startTime": started, "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}})
	made, err = pods.Patch(ctx, made.Name, types.StrategicMergePatchType, text, metav1.PatchOptions{}, "status")
	if err == nil {
		k.see(made, false) // it may have been told to go before it was known here
	}
	return err
}

// powerOff ends the machine of a stage: what runs ends with it.
func (k *kubelet) powerOff(s *stage, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.isOff {
		return
	}
	s.isOff, s.off = true, at
	for _, l := range s.lives {
		if l.ended.IsZero() {
			l.isOff = true
			k.end(s, l, at)
		}
	}
}
