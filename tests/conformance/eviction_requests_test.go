// What docs/development/eviction-requests.md says of the EvictionRequest API, shown on the real one: only kube-apiserver has a part in it.

package conformance

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A node may not request an eviction, not even of its own pod; and evicts that pod as before, whoever its responders are.
func TestEvictionRequestsAreNotForNodes(t *testing.T) {
	b := newBareNode(t, "requester")
	t.Cleanup(func() { removePod("default", "requested") })
	_, err := cluster.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace("default").Create(b.ctx,
		&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "requested"},
			"spec": map[string]any{"nodeName": b.name, "containers": []any{map[string]any{"name": "x", "image": "x"}},
				"evictionResponders": []any{map[string]any{"name": "example.com/mover", "priority": int64(1000)}}}}}, metav1.CreateOptions{})
	must(t, err)
	made, err := cluster.Client.CoreV1().Pods("default").Get(b.ctx, "requested", metav1.GetOptions{})
	must(t, err)
	pod := b.known(made)

	requests := schema.GroupVersionResource{Group: "lifecycle.k8s.io", Version: "v1alpha1", Resource: "evictionrequests"}
	request := map[string]any{"apiVersion": requests.GroupVersion().String(), "kind": "EvictionRequest", "metadata": map[string]any{"name": "of-a-node", "namespace": "default"},
		"spec": map[string]any{"requester": "nodeclaimd.io/drain", "intent": "Eviction",
			"target": map[string]any{"pod": map[string]any{"name": pod.Name, "uid": string(pod.UID)}}}}
	b.want(403, "POST", "/apis/lifecycle.k8s.io/v1alpha1/namespaces/default/evictionrequests", "", request)
	// The same object from an administrator: what was refused above was the node, where the API is served.
	_, err = cluster.Dynamic.Resource(requests).Namespace("default").Create(b.ctx, &unstructured.Unstructured{Object: request}, metav1.CreateOptions{})
	if kubeVersion >= "v1.37" {
		must(t, err)
		t.Cleanup(func() {
			_ = cluster.Dynamic.Resource(requests).Namespace("default").Delete(context.Background(), "of-a-node", metav1.DeleteOptions{})
		})
	} else if !apierrors.IsNotFound(err) {
		t.Errorf("%s serves evictionrequests: %v", kubeVersion, err)
	}
	b.want(201, "POST", podPath(pod)+"/eviction", "", eviction(pod, string(pod.UID), nil))
}
