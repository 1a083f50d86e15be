// Helm and kustomize, as an administrator runs them, and everything that a cluster holds, to see what they left.

package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// Tools runs helm and kustomize from a folder against a cluster, with a home of their own.
type Tools struct{ bin, home, kubeconfig string }

// NewTools takes the programs from bin; home is for what they keep.
func (c *Cluster) NewTools(bin, home string) (*Tools, error) {
	t := &Tools{bin: bin, home: home, kubeconfig: filepath.Join(home, "kubeconfig")}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"clusters": []any{map[string]any{"name": "x", "cluster": map[string]any{"server": c.Endpoint, "certificate-authority": c.path("ca.crt")}}},
		"users":    []any{map[string]any{"name": "x", "user": map[string]any{"client-certificate": c.path("admin.crt"), "client-key": c.path("admin.key")}}},
		"contexts": []any{map[string]any{"name": "x", "context": map[string]any{"cluster": "x", "user": "x"}}}})
	if err != nil {
		return nil, err
	}
	return t, errors.Join(os.MkdirAll(home, 0o755), os.WriteFile(t.kubeconfig, text, 0o600))
}

// Path is that of one of the programs.
func (t *Tools) Path(program string) string { return filepath.Join(t.bin, program) }

// Run gives what a program prints; the error holds what it says of a failure.
func (t *Tools) Run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.Env = append(os.Environ(), "HOME="+t.home, "KUBECONFIG="+t.kubeconfig, "HELM="+t.Path("helm"))
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s%s", filepath.Base(program), strings.Join(args, " "), err, said.String(), out.String())
	}
	return out.String(), nil
}

// Helm runs helm.
func (t *Tools) Helm(ctx context.Context, args ...string) (string, error) {
	return t.Run(ctx, t.Path("helm"), args...)
}

// ApplyDry applies the objects on the server's side without storing them; a field that the server does not know is an error.
func (c *Cluster) ApplyDry(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		client, err := c.clientOf(object)
		if err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		text, err := json.Marshal(object.Object)
		if err != nil {
			return err
		}
		force := true
		_, err = client.Patch(ctx, object.GetName(), "application/apply-patch+yaml", text, metav1.PatchOptions{
			DryRun: []string{metav1.DryRunAll}, FieldManager: "conformance", FieldValidation: "Strict", Force: &force})
		if err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// Everything gives each object of the cluster but Events, as JSON without what each write changes, by "resource namespace/name".
func (c *Cluster) Everything(ctx context.Context) (map[string]string, error) {
	all := map[string]string{}
	lists, err := discovery.ServerPreferredResources(c.Client.Discovery())
	if err != nil {
		return nil, err
	}
	others := []string{"events", "componentstatuses", "endpoints"} // the last two are deprecated views of what else is listed
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains(others, r.Name) {
				continue
			}
			if err := c.addAll(ctx, version.WithResource(r.Name), all); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func (c *Cluster) addAll(ctx context.Context, r schema.GroupVersionResource, all map[string]string) error {
	list, err := c.Dynamic.Resource(r).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil // a definition that has just gone
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.Resource, err)
	}
	for _, o := range list.Items {
		for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
			unstructured.RemoveNestedField(o.Object, "metadata", field)
		}
		if r.Resource == "leases" {
			unstructured.RemoveNestedField(o.Object, "spec") // its holder renews it
		}
		text, err := json.Marshal(o.Object)
		if err != nil {
			return err
		}
		all[r.GroupResource().String()+" "+o.GetNamespace()+"/"+o.GetName()] = string(text)
	}
	return nil
}

// Changes gives what was added, removed or changed between two such pictures: "+key", "-key", "~key", sorted.
func Changes(before, after map[string]string) []string {
	var changes []string
	for key, text := range after {
		if old, was := before[key]; !was {
			changes = append(changes, "+"+key)
		} else if old != text {
			changes = append(changes, "~"+key)
		}
	}
	for key := range before {
		if _, is := after[key]; !is {
			changes = append(changes, "-"+key)
		}
	}
	slices.Sort(changes)
	return changes
}
