// Manifests: the objects of YAML files, created as an administrator creates them, and taken away again.

package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// ReadManifests gives the objects of all files that match the patterns, in order; a pattern without a file is an error.
func ReadManifests(patterns ...string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			return nil, errors.Join(fmt.Errorf("no file %s", pattern), err)
		}
		for _, file := range files {
			more, err := readManifest(file)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			objects = append(objects, more...)
		}
	}
	return objects, nil
}

func readManifest(file string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return ParseManifest(text)
}

// ParseManifest gives the objects of a YAML stream.
func ParseManifest(text []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := documents.Decode(&object.Object)
		switch {
		case err == io.EOF:
			return objects, nil
		case err != nil:
			return nil, err
		case len(object.Object) > 0 && object.GetKind() != "Kustomization": // a document of comments alone has nothing
			objects = append(objects, object)
		}
	}
}

// Apply creates the objects; one that is there already stays as it is. Namespaces come first, whatever the files' order.
func (c *Cluster) Apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	sorted := slices.Clone(objects)
	slices.SortStableFunc(sorted, func(a, b *unstructured.Unstructured) int {
		rank := map[string]int{"Namespace": -1}
		return rank[a.GetKind()] - rank[b.GetKind()]
	})
	for _, object := range sorted {
		client, err := c.clientOf(object)
		if err != nil {
			return err
		}
		_, err = client.Create(ctx, object.DeepCopy(), metav1.CreateOptions{FieldValidation: "Strict"})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// Remove deletes the objects.
func (c *Cluster) Remove(ctx context.Context, objects []*unstructured.Unstructured) {
	for _, object := range objects {
		if client, err := c.clientOf(object); err == nil {
			_ = client.Delete(ctx, object.GetName(), metav1.DeleteOptions{})
		}
	}
}

func (c *Cluster) clientOf(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	groups, err := restmapper.GetAPIGroupResources(c.Client.Discovery())
	if err != nil {
		return nil, err
	}
	kind := object.GroupVersionKind()
	mapping, err := restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	client := c.Dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return client, nil
	}
	return client.Namespace(object.GetNamespace()), nil
}
