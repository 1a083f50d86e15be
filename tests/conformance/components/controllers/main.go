// Command controllers runs some controllers of kube-controller-manager by themselves: disruption, which keeps the status of
// PodDisruptionBudgets, job, which decides what a pod's end means, deployment and replicaset, which replace pods, and daemonset. Nothing
// else of it is wanted: who deletes, taints or signs in a test is the test.
package main

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/disruption"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/replicaset"

	"nodeclaimd.io/nodeclaimd/tests/conformance/components/program"
)

func main() { program.Main("controllers", run) }

func run(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var mapper meta.RESTMapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	scales := scale.New(client.CoreV1().RESTClient(), mapper, dynamic.LegacyAPIPathResolverFunc,
		scale.NewDiscoveryScaleKindResolver(client.Discovery()))
	shared := informers.NewSharedInformerFactory(client, 0)
	budgets := disruption.NewDisruptionController(ctx, shared.Core().V1().Pods(), shared.Policy().V1().PodDisruptionBudgets(),
		shared.Core().V1().ReplicationControllers(), shared.Apps().V1().ReplicaSets(), shared.Apps().V1().Deployments(),
		shared.Apps().V1().StatefulSets(), client, mapper, scales, client.Discovery())
	jobs, err := job.NewController(ctx, shared.Core().V1().Pods(), shared.Batch().V1().Jobs(), client)
	if err != nil {
		return err
	}
	deployments, err := deployment.NewDeploymentController(ctx, shared.Apps().V1().Deployments(), shared.Apps().V1().ReplicaSets(),
		shared.Core().V1().Pods(), client)
	if err != nil {
		return err
	}
	sets := replicaset.NewReplicaSetController(ctx, shared.Apps().V1().ReplicaSets(), shared.Core().V1().Pods(), client, replicaset.BurstReplicas)
	daemons, err := daemon.NewDaemonSetsController(ctx, shared.Apps().V1().DaemonSets(), shared.Apps().V1().ControllerRevisions(),
		shared.Core().V1().Pods(), shared.Core().V1().Nodes(), client, flowcontrol.NewBackOff(time.Second, time.Minute))
	if err != nil {
		return err
	}
	shared.Start(ctx.Done())
	go budgets.Run(ctx)
	go deployments.Run(ctx, 2)
	go sets.Run(ctx, 2)
	go daemons.Run(ctx, 2)
	jobs.Run(ctx, 2)
	return nil
}
