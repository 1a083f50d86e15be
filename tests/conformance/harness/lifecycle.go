// Karpenter's own controllers of a NodeClaim's life and of a Node's end, run in the test process against the real API server:
// launch, registration, initialization, liveness, drain, termination. Only the cloud is stood in for: the instances that it
// launches are ours, and are gone as soon as they are told to go.

package harness

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	controllerruntime "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	karpenterv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/node/termination"
	"sigs.k8s.io/karpenter/pkg/controllers/node/termination/terminator"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/lifecycle"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/reboot"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/state/nodepoolhealth"
	"sigs.k8s.io/karpenter/pkg/test/v1alpha1"
)

// cloud has one machine for each launch, in the order given; where there is but one, every launch gives it.
type cloud struct {
	mu       sync.Mutex
	machines []*Instance
	of       map[string]*Instance // by the name of the NodeClaim
	ended    map[string]time.Time // by providerID
	rebooted map[string]time.Time // likewise
}

func (o *cloud) gone(providerID string) error {
	return cloudprovider.NewNodeClaimNotFoundError(fmt.Errorf("%s is gone", providerID))
}

func (o *cloud) machineOf(claim string) (*Instance, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := o.of[claim]; i != nil {
		return i, nil
	}
	if len(o.machines) == 0 {
		return nil, cloudprovider.NewInsufficientCapacityError(fmt.Errorf("no machine for %s", claim))
	}
	i := o.machines[0]
	if o.of[claim] = i; len(o.machines) > 1 {
		o.machines = o.machines[1:]
	}
	return i, nil
}

func (o *cloud) Create(_ context.Context, claim *karpenterv1.NodeClaim) (*karpenterv1.NodeClaim, error) {
	i, err := o.machineOf(claim.Name)
	if err != nil {
		return nil, err
	}
	return describe(i, claim), nil
}

func describe(i *Instance, claim *karpenterv1.NodeClaim) *karpenterv1.NodeClaim {
	created := claim.DeepCopy()
	created.Labels = map[string]string{
		corev1.LabelInstanceTypeStable: i.Type, corev1.LabelTopologyZone: i.Zone, corev1.LabelTopologyRegion: i.Region,
		corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", karpenterv1.CapacityTypeLabelKey: i.LifeCycle,
	}
	created.Status = karpenterv1.NodeClaimStatus{
		ProviderID: i.ProviderID(), ImageID: "ami-0123456789abcdef0",
		Capacity:    corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourcePods: resource.MustParse("29")},
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1930m"), corev1.ResourcePods: resource.MustParse("29")},
	}
	return created
}

func (o *cloud) Delete(_ context.Context, claim *karpenterv1.NodeClaim) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended[claim.Status.ProviderID].IsZero() {
		o.ended[claim.Status.ProviderID] = time.Now()
	}
	return o.gone(claim.Status.ProviderID)
}

func (o *cloud) Get(_ context.Context, providerID string) (*karpenterv1.NodeClaim, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, i := range o.of {
		if i.ProviderID() == providerID && o.ended[providerID].IsZero() {
			return describe(i, &karpenterv1.NodeClaim{}), nil
		}
	}
	return nil, o.gone(providerID)
}

func (o *cloud) List(context.Context) ([]*karpenterv1.NodeClaim, error) { return nil, nil }

func (o *cloud) GetInstanceTypes(context.Context, *karpenterv1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return nil, nil
}

func (o *cloud) IsDrifted(context.Context, *karpenterv1.NodeClaim) (cloudprovider.DriftReason, error) {
	return "", nil
}

func (o *cloud) Reboot(_ context.Context, claim *karpenterv1.NodeClaim, _ string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.rebooted[claim.Status.ProviderID].IsZero() {
		o.rebooted[claim.Status.ProviderID] = time.Now()
	}
	return nil
}

func (o *cloud) RepairPolicies() []cloudprovider.RepairPolicy { return nil }

func (o *cloud) Name() string { return "conformance" }

func (o *cloud) GetSupportedNodeClasses() []status.Object {
	return []status.Object{&v1alpha1.TestNodeClass{}}
}

// complaints keeps what Karpenter logs as an error, with what it says of the object that it is about.
type complaints struct {
	*complaintList
	values []any
}

type complaintList struct {
	mu   sync.Mutex
	list []string
}

func (k complaints) Init(logr.RuntimeInfo)    {}
func (k complaints) Enabled(int) bool         { return false }
func (k complaints) Info(int, string, ...any) {}
func (k complaints) WithValues(v ...any) logr.LogSink {
	return complaints{k.complaintList, append(k.values[:len(k.values):len(k.values)], v...)}
}
func (k complaints) WithName(string) logr.LogSink { return k }
func (k complaints) Error(err error, m string, v ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = append(k.list, fmt.Sprintf("%s: %v %v %v", m, err, k.values, v))
}

var karpenterComplaints complaintList

// KarpenterErrors gives the errors that Karpenter has logged since it was last asked.
func KarpenterErrors() []string {
	k := &karpenterComplaints
	k.mu.Lock()
	defer k.mu.Unlock()
	list := k.list
	k.list = nil
	return list
}

// KarpenterAgent is how its requests are known in the audit log.
const KarpenterAgent = "karpenter"

// Karpenter is what runs: its client, and the cloud below it.
type Karpenter struct {
	client.Client
	cloud *cloud
}

// Ended says when Karpenter told the cloud to end an instance; zero where it has not.
func (k *Karpenter) Ended(i *Instance) time.Time {
	k.cloud.mu.Lock()
	defer k.cloud.mu.Unlock()
	return k.cloud.ended[i.ProviderID()]
}

// Rebooted says when it told the cloud to reboot one.
func (k *Karpenter) Rebooted(i *Instance) time.Time {
	k.cloud.mu.Lock()
	defer k.cloud.mu.Unlock()
	return k.cloud.rebooted[i.ProviderID()]
}

// StartKarpenter runs the controllers until ctx ends; they care for NodeClaims of their own node class only, and launch these
// instances in this order.
func (c *Cluster) StartKarpenter(ctx context.Context, instances ...*Instance) (*Karpenter, error) {
	log.SetLogger(logr.New(complaints{complaintList: &karpenterComplaints}))
	ctx = options.ToContext(ctx, &options.Options{CPURequests: 1000, IgnoreDRARequests: true})
	again := true // a test may run several times in one process
	me := rest.CopyConfig(c.Admin)
	me.UserAgent = KarpenterAgent
	m, err := controllerruntime.NewManager(me, manager.Options{
		Controller: config.Controller{SkipNameValidation: &again},
		Scheme:     scheme.Scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", BaseContext: func() context.Context { return ctx },
	})
	if err != nil {
		return nil, err
	}
	if err := index(ctx, m); err != nil {
		return nil, err
	}
	recorder := events.NewRecorder(m.GetEventRecorderFor("karpenter"))
	now, k := clock.RealClock{}, m.GetClient()
	cloud := &cloud{machines: instances, of: map[string]*Instance{}, ended: map[string]time.Time{}, rebooted: map[string]time.Time{}}
	evictions := terminator.NewQueue(now, k, recorder)
	terminates := terminator.NewTerminator(now, k, evictions, recorder)
	for _, part := range []interface {
		Register(context.Context, manager.Manager) error
	}{
		lifecycle.NewController(now, k, cloud, recorder, state.NewCluster(now, k, cloud), nodepoolhealth.NewState(), nil),
		termination.NewController(now, k, cloud, terminates, recorder),
		reboot.NewController(now, k, cloud, terminates, recorder),
		evictions,
	} {
		if err := part.Register(ctx, m); err != nil {
			return nil, err
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	synced, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if !m.GetCache().WaitForCacheSync(synced) {
		return nil, fmt.Errorf("karpenter's caches did not fill")
	}
	return &Karpenter{k, cloud}, nil
}

// index makes the lookups that Karpenter's operator makes.
func index(ctx context.Context, m manager.Manager) error {
	indexer := m.GetFieldIndexer()
	if err := indexer.IndexField(ctx, &corev1.Node{}, "spec.providerID", func(o client.Object) []string {
		return []string{o.(*corev1.Node).Spec.ProviderID}
	}); err != nil {
		return err
	}
	if err := indexer.IndexField(ctx, &corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
		return []string{o.(*corev1.Pod).Spec.NodeName}
	}); err != nil {
		return err
	}
	if err := indexer.IndexField(ctx, &storagev1.VolumeAttachment{}, "spec.nodeName", func(o client.Object) []string {
		return []string{o.(*storagev1.VolumeAttachment).Spec.NodeName}
	}); err != nil {
		return err
	}
	return indexer.IndexField(ctx, &karpenterv1.NodeClaim{}, "status.providerID", func(o client.Object) []string {
		return []string{o.(*karpenterv1.NodeClaim).Status.ProviderID}
	})
}

// NewLaunchedClaim creates a NodeClaim and waits until Karpenter has launched the instance for it.
func NewLaunchedClaim(ctx context.Context, k client.Client, name string, change ...func(*karpenterv1.NodeClaim)) (*karpenterv1.NodeClaim, error) {
	claim := &karpenterv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{karpenterv1.NodePoolLabelKey: "default",
			karpenterv1.NodeClassLabelKey(schema.GroupKind{Group: v1alpha1.Group, Kind: "TestNodeClass"}): "default"}},
		Spec: karpenterv1.NodeClaimSpec{
			NodeClassRef: &karpenterv1.NodeClassReference{Group: v1alpha1.Group, Kind: "TestNodeClass", Name: "default"},
			Requirements: []karpenterv1.NodeSelectorRequirementWithMinValues{},
			Resources:    karpenterv1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		},
	}
	for _, c := range change {
		c(claim)
	}
	if err := k.Create(ctx, claim); err != nil {
		return nil, err
	}
	err := Poll(ctx, "karpenter launches the instance", nil, func() error {
		if err := k.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if claim.Status.ProviderID == "" {
			return fmt.Errorf("status %+v", claim.Status)
		}
		return nil
	})
	return claim, err
}

// DropClaim removes a claim whose controller no longer runs, and the finalizer of its node.
func (c *Cluster) DropClaim(ctx context.Context, name, node string) {
	_ = c.PatchNode(ctx, node, map[string]any{"metadata": map[string]any{"finalizers": nil}})
	_, _ = c.Dynamic.Resource(claimResource).Patch(ctx, name, "application/merge-patch+json",
		[]byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
	c.DeleteClaim(ctx, name)
}
