// The volumes of a stage, and what the attach-detach controller does with them: one is taken off the node some time after its pod ended.

package main

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const ebs = "ebs.csi.aws.com"

func (s *stage) volume(p Pod) string { return s.namespace + "-" + p.Name }

// attach makes the volumes of the pods, bound and attached to the node.
func (s *stage) attach(ctx context.Context) error {
	client := s.world.cluster.Client
	for _, p := range s.Pods {
		if p.Detach == 0 {
			continue
		}
		name, size := s.volume(p), corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		once := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		if _, err := client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: once, ClaimRef: &corev1.ObjectReference{Namespace: s.namespace, Name: p.Name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: ebs, VolumeHandle: name}}}}, metav1.CreateOptions{}); err != nil {
			return err
		}
		if _, err := client.CoreV1().PersistentVolumeClaims(s.namespace).Create(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: p.Name},
			Spec: corev1.PersistentVolumeClaimSpec{AccessModes: once, VolumeName: name, Resources: corev1.VolumeResourceRequirements{Requests: size}}}, metav1.CreateOptions{}); err != nil {
			return err
		}
		if _, err := client.StorageV1().VolumeAttachments().Create(ctx, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{
			Attacher: ebs, NodeName: s.node(), Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}}}, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return s.reportVolumes(ctx, time.Time{})
}

// isAttached at a moment, by what became of the pod.
func (l *life) isAttached(now time.Time) bool {
	return l.pod.Detach > 0 && l.return_ == 0 && (l.ended.IsZero() || now.Before(l.ended.Add(l.pod.Detach)))
}

// reportVolumes writes those of the Node's status.
func (s *stage) reportVolumes(ctx context.Context, now time.Time) error {
	list := []any{}
	for _, p := range s.Pods {
		if p.Detach > 0 && (now.IsZero() || s.lifeOf(p).isAttached(now)) {
			list = append(list, map[string]any{"name": "kubernetes.io/csi/" + ebs + "^" + s.volume(p), "devicePath": ""})
		}
	}
	text, err := json.Marshal(map[string]any{"status": map[string]any{"volumesAttached": list}})
	if err != nil || len(list) == 0 && now.IsZero() {
		return err
	}
	_, err = s.world.cluster.Client.CoreV1().Nodes().Patch(ctx, s.node(), types.MergePatchType, text, metav1.PatchOptions{}, "status")
	return err
}

// lifeOf gives the pod of the scene, not one that was put back: a copy.
func (s *stage) lifeOf(p Pod) *life {
	s.world.kubelet.mu.Lock()
	defer s.world.kubelet.mu.Unlock()
	for _, l := range s.lives {
		if l.pod.Name == p.Name && l.return_ == 0 {
			now := *l
			return &now
		}
	}
	return &life{pod: p}
}

// detach takes volumes off the node until ctx ends.
func (s *stage) detach(ctx context.Context) {
	attached := map[string]bool{}
	for _, p := range s.Pods {
		attached[p.Name] = p.Detach > 0
	}
	for next := time.Now(); wait(ctx, next); next = time.Now().Add(300 * time.Millisecond) {
		for _, p := range s.Pods {
			if l := s.lifeOf(p); attached[p.Name] && !l.isAttached(next) {
				_ = s.world.cluster.Client.StorageV1().VolumeAttachments().Delete(ctx, s.volume(p), metav1.DeleteOptions{})
				_ = s.reportVolumes(ctx, next)
				attached[p.Name] = false
			}
		}
	}
}
