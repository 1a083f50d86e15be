// nodeclaim-controller as a cluster runs it: with the token of the ServiceAccount that its manifests name and the rights that
// they give it, no others. Its container alone is left out: it is a process here.

package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// Deployment is what the manifests make of the cluster.
type Deployment struct {
	Namespace, Account string
	Token              string

	cluster *Cluster
	objects []*unstructured.Unstructured
}

// Deploy applies the manifests and asks for a token of the ServiceAccount that their Deployment runs as.
func (c *Cluster) Deploy(ctx context.Context, patterns ...string) (*Deployment, error) {
	objects, err := ReadManifests(patterns...)
	if err != nil {
		return nil, err
	}
	if err := c.Apply(ctx, objects); err != nil {
		return nil, err
	}
	return c.Deployed(ctx, objects)
}

// Deployed is Deploy for objects that are in the cluster already.
func (c *Cluster) Deployed(ctx context.Context, objects []*unstructured.Unstructured) (*Deployment, error) {
	d := &Deployment{cluster: c, objects: objects}
	for _, object := range objects {
		if object.GetKind() == "Deployment" {
			d.Namespace = object.GetNamespace()
			d.Account, _, _ = unstructured.NestedString(object.Object, "spec", "template", "spec", "serviceAccountName")
		}
	}
	if d.Account == "" {
		return nil, errors.New("no Deployment with a serviceAccountName")
	}
	seconds := int64(3600)
	made, err := c.Client.CoreV1().ServiceAccounts(d.Namespace).CreateToken(ctx, d.Account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	d.Token = made.Status.Token
	return d, nil
}

// Remove takes away what Deploy applied.
func (d *Deployment) Remove(ctx context.Context) { d.cluster.Remove(ctx, d.objects) }

// User is the name of the ServiceAccount in the audit log.
func (d *Deployment) User() string { return "system:serviceaccount:" + d.Namespace + ":" + d.Account }

// Config is for another client that is to be the same user.
func (d *Deployment) Config(agent string) *rest.Config {
	return &rest.Config{Host: d.cluster.Endpoint, BearerToken: d.Token, UserAgent: agent, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: d.cluster.path("ca.crt")}}
}

// Start runs the program with a kubeconfig of the ServiceAccount; its log is dir/name.log.
func (d *Deployment) Start(dir, name, program string, args ...string) (*Proc, error) {
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"clusters": []any{map[string]any{"name": "x", "cluster": map[string]any{"server": d.cluster.Endpoint, "certificate-authority": d.cluster.path("ca.crt")}}},
		"users":    []any{map[string]any{"name": "x", "user": map[string]any{"token": d.Token}}},
		"contexts": []any{map[string]any{"name": "x", "context": map[string]any{"cluster": "x", "user": "x"}}}})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, name+".kubeconfig")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	return Start(dir, name, nil, slices.Concat([]string{program, "run", "--kubeconfig", file}, args)...)
}

// Requests gives what the ServiceAccount asked with a user agent that begins so, in the order of arrival.
func (d *Deployment) Requests(agent string, match func(AuditEntry) bool) ([]AuditEntry, error) {
	list, err := d.cluster.Audit.Entries(func(e AuditEntry) bool {
		return e.User.Username == d.User() && strings.HasPrefix(e.UserAgent, agent) && match(e)
	})
	slices.SortStableFunc(list, func(a, b AuditEntry) int { return a.RequestReceivedTimestamp.Compare(b.RequestReceivedTimestamp) })
	return list, err
}

// CheckManners gives what no controller of ours may ever do: read a pod or a secret, be refused, write a whole object (but
// the Lease), delete without naming a uid.
func (d *Deployment) CheckManners(agent string, since time.Time) ([]string, error) {
	all, err := d.Requests(agent, func(e AuditEntry) bool { return e.RequestReceivedTimestamp.After(since) })
	var bad []string
	for _, e := range all {
		code, resource := e.ResponseStatus.Code, e.ObjectRef.Resource
		switch {
		case resource == "pods" || resource == "secrets" || resource == "configmaps":
			bad = append(bad, fmt.Sprintf("none of its business: %s", e))
		case code == 401 || code == 403 || code == 422 || code == 400:
			bad = append(bad, fmt.Sprintf("refused: %s", e))
		case e.Verb == "deletecollection", e.Verb == "update" && resource != "leases":
			bad = append(bad, fmt.Sprintf("never: %s", e))
		case e.Verb == "delete" && !strings.Contains(string(e.RequestObject), `"uid"`):
			bad = append(bad, fmt.Sprintf("no uid: %s %s", e, e.RequestObject))
		}
	}
	if len(all) == 0 {
		bad = append(bad, "it asked nothing at all")
	}
	return bad, err
}

// Get reads a page of a program on this machine.
func Get(ctx context.Context, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	a, err := (&http.Client{Timeout: 10 * time.Second}).Do(r)
	if err != nil {
		return "", err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(io.LimitReader(a.Body, 4<<20))
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s %s", url, a.Status, text)
	}
	return string(text), err
}
