// A node's identity on the wire: one HTTP/2 connection with a client certificate, and every answer as it came, with its
// headers. It decides nothing and retries nothing.

package harness

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Content types of a patch.
const (
	MergePatch     = "application/merge-patch+json"
	StrategicPatch = "application/strategic-merge-patch+json"
)

// Wire talks to the API server as one user.
type Wire struct {
	endpoint string
	client   *http.Client
}

// Answer is what came back. Object is nil where the body was no JSON object.
type Answer struct {
	Code   int
	Header http.Header
	Body   string
	Object map[string]any
}

// String is for the text of a failure.
func (a *Answer) String() string { return fmt.Sprintf("%d %s", a.Code, a.Body) }

// NodeWire gives the identity of a node, from a certificate that the cluster's authority signs.
func (c *Cluster) NodeWire(name string) (*Wire, error) {
	cert, key, err := c.CA.Issue("system:node:"+name, []string{"system:nodes"})
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(c.CA.Cert)
	return &Wire{endpoint: c.Endpoint, client: &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true, MaxConnsPerHost: 1,
	}}}, nil
}

// Close ends the connection.
func (w *Wire) Close() { w.client.CloseIdleConnections() }

// Do sends one request; kind is its Content-Type, "" for application/json, and body is encoded unless it is a string.
func (w *Wire) Do(ctx context.Context, method, path, kind string, body any) (*Answer, error) {
	text, ok := body.(string)
	if !ok && body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		text = string(encoded)
	}
	r, err := http.NewRequestWithContext(ctx, method, w.endpoint+path, strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	if kind == "" {
		kind = "application/json"
	}
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Accept", "application/json")
	response, err := w.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var out bytes.Buffer
	if _, err := io.Copy(&out, io.LimitReader(response.Body, 4<<20)); err != nil {
		return nil, err
	}
	a := &Answer{Code: response.StatusCode, Header: response.Header, Body: out.String()}
	_ = json.Unmarshal(out.Bytes(), &a.Object)
	return a, nil
}
