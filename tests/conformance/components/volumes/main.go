// Command volumes runs two controllers of kube-controller-manager by themselves: attach-detach, which makes and deletes
// VolumeAttachments, and pod garbage collection, which deletes the pods of Nodes that are out of service. Who deletes a pod and taints a
// Node otherwise is the test. There is no CSI driver: a VolumeAttachment is attached when the test says so.
package main

import (
	"context"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/controller/podgc"
	"k8s.io/kubernetes/pkg/controller/volume/attachdetach"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/csi"

	"nodeclaimd.io/nodeclaimd/tests/conformance/components/program"
)

func main() { program.Main("volumes", run) }

func run(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	shared := informers.NewSharedInformerFactory(client, 0)
	core, storage := shared.Core().V1(), shared.Storage().V1()
	volumes, err := attachdetach.NewAttachDetachController(ctx, client, core.Pods(), core.Nodes(), core.PersistentVolumeClaims(),
		core.PersistentVolumes(), storage.CSINodes(), storage.CSIDrivers(), storage.VolumeAttachments(), csi.ProbeVolumePlugins(),
		volume.DynamicPluginProber(nil), false, 5*time.Second, false, attachdetach.DefaultTimerConfig)
	if err != nil {
		return err
	}
	pods := podgc.NewPodGCInternal(ctx, client, core.Pods(), core.Nodes(), 12500, time.Second, time.Minute)
	shared.Start(ctx.Done())
	go pods.Run(ctx)
	volumes.Run(ctx)
	return nil
}
