// The life of each pod of a node as somebody sees it who watches: when it began to go, how its container ended, when it was
// no longer there. On demand it also plays kubelet for a node that has none.

package harness

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// PodLife is what was seen of one pod. Times are those of the seeing; zero where it was not seen.
type PodLife struct {
	Last                 *corev1.Pod
	Seen, Leaving, Ended time.Time // the first sight, the first with a deletionTimestamp, the first with an ended container
	Gone                 time.Time
	Mark                 *corev1.PodCondition // DisruptionTarget as it was when the pod began to leave, nil = it was not there
	ExitCode             int32                // of the container, where it ended
	started              bool
}

// PodWatch follows the pods of one node.
type PodWatch struct {
	client *kubernetes.Clientset
	mu     sync.Mutex
	lives  map[types.UID]*PodLife
	takes  func(*corev1.Pod) time.Duration // of a pod to end once it was told to; nil: somebody else is kubelet
}

// WatchPods follows the pods of a node until ctx ends. takes makes it play kubelet: pods are running at once, and a
// pod that is told to go takes so long, or until its grace is over.
func (c *Cluster) WatchPods(ctx context.Context, node string, takes func(*corev1.Pod) time.Duration) (*PodWatch, error) {
	w := &PodWatch{client: c.Client, lives: map[types.UID]*PodLife{}, takes: takes}
	list := cache.NewListWatchFromClient(c.Client.CoreV1().RESTClient(), "pods", "", fields.OneTermEqualSelector("spec.nodeName", node))
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: list, ObjectType: &corev1.Pod{}, Handler: cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.see(o.(*corev1.Pod)) },
		UpdateFunc: func(_, o any) { w.see(o.(*corev1.Pod)) },
		DeleteFunc: w.gone,
	}})
	go informer.RunWithContext(ctx)
	if takes != nil {
		go w.playKubelet(ctx)
	}
	return w, Poll(ctx, "the watch of the pods", nil, func() error {
		if !informer.HasSynced() {
			return context.DeadlineExceeded
		}
		return nil
	})
}

func (w *PodWatch) see(p *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	life := w.lives[p.UID]
	if life == nil {
		life = &PodLife{Seen: now}
		w.lives[p.UID] = life
	}
	life.Last = p
	if p.DeletionTimestamp != nil && life.Leaving.IsZero() {
		life.Leaving = now
		for i := range p.Status.Conditions {
			if p.Status.Conditions[i].Type == corev1.DisruptionTarget {
				life.Mark = &p.Status.Conditions[i]
			}
		}
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Terminated != nil && life.Ended.IsZero() {
			life.Ended, life.ExitCode = now, s.State.Terminated.ExitCode
		}
	}
}

func (w *PodWatch) gone(o any) {
	if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = unknown.Obj
	}
	p := o.(*corev1.Pod)
	w.see(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lives[p.UID].Gone = time.Now()
}

// Life gives what was seen of a pod so far.
func (w *PodWatch) Life(uid types.UID) PodLife {
	w.mu.Lock()
	defer w.mu.Unlock()
	if life := w.lives[uid]; life != nil {
		return *life
	}
	return PodLife{}
}

// Left gives the pods that are still there.
func (w *PodWatch) Left() []*corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	var left []*corev1.Pod
	for _, life := range w.lives {
		if life.Gone.IsZero() {
			left = append(left, life.Last)
		}
	}
	return left
}

func (w *PodWatch) playKubelet(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		start, end := w.due()
		for _, p := range start {
			w.start(ctx, p)
		}
		for _, p := range end {
			_ = w.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
		}
	}
}

func (w *PodWatch) due() (start, end []*corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for _, life := range w.lives {
		p := life.Last
		if !life.Gone.IsZero() {
			continue
		}
		if !life.started && p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodPending {
			life.started = true
			start = append(start, p)
		}
		if p.DeletionTimestamp != nil && (now.Sub(life.Leaving) >= w.takes(p) || now.After(p.DeletionTimestamp.Time)) {
			end = append(end, p)
		}
	}
	return start, end
}

func (w *PodWatch) start(ctx context.Context, p *corev1.Pod) {
	text, _ := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": map[string]any{"phase": corev1.PodRunning,
		"startTime": metav1.Now(), "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}})
	_, _ = w.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, text, metav1.PatchOptions{}, "status")
}
