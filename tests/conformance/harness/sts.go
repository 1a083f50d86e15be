// The way EKS authenticates a node: kube-apiserver asks a TokenReview webhook; that is aws-iam-authenticator's own
// verifier; it calls STS with the presigned URL; STS checks the signature and names the role session; the role's mapping
// gives user and groups.
//
// STS alone is stood in for: the verifier's HTTP call is caught on its way out, after its own checks of scheme, host,
// path and parameters. The stand-in computes the signature again with the AWS SDK's signer and refuses any other.

package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/aws-iam-authenticator/pkg/token"
)

const (
	emptySHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	amzTime     = "20060102T150405Z"
	// ClusterName is the EKS name of the test cluster; the tokens are bound to it.
	ClusterName = "conformance"
	// ClusterRegion is where the test cluster lives.
	ClusterRegion = "us-west-2"
)

// IAM knows instances and which node each may be. It answers for STS and for the TokenReview webhook.
type IAM struct {
	URL string

	mu        sync.Mutex
	instances map[string]*Instance // by access key id
	nodes     map[string]string    // instance id -> node name
	rejected  []string
	verifier  token.Verifier
	server    *http.Server
}

// NewIAM starts the webhook on loopback and puts itself in the way of every request to an STS host.
func NewIAM() (*IAM, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := &IAM{
		URL: "http://" + l.Addr().String() + "/", instances: map[string]*Instance{}, nodes: map[string]string{},
		verifier: token.NewVerifier(ClusterName, "aws", ClusterRegion),
	}
	http.DefaultTransport = &stsTransport{iam: a, next: http.DefaultTransport}
	a.server = &http.Server{Handler: http.HandlerFunc(a.review)}
	go func() { _ = a.server.Serve(l) }()
	return a, nil
}

// Stop ends the webhook.
func (a *IAM) Stop() { _ = a.server.Close() }

// Map lets the instance be the node: aws-auth's mapRoles entry, resolved.
func (a *IAM) Map(i *Instance, node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.instances[i.Credentials.AccessKeyID] = i
	a.nodes[i.ID] = node
}

// Unmap leaves the instance a role that no node may have.
func (a *IAM) Unmap(i *Instance) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.nodes, i.ID)
}

// Rejected gives the reasons of all refused tokens.
func (a *IAM) Rejected() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.rejected...)
}

// Verify runs the real verifier.
func (a *IAM) Verify(text string) (*token.Identity, error) { return a.verifier.Verify(text) }

func (a *IAM) review(w http.ResponseWriter, r *http.Request) {
	var review authenticationv1.TokenReview
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	review.Status = a.statusOf(review.Spec.Token)
	review.Spec.Token = ""
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

func (a *IAM) statusOf(text string) authenticationv1.TokenReviewStatus {
	identity, err := a.verifier.Verify(text)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.rejected = append(a.rejected, err.Error())
		return authenticationv1.TokenReviewStatus{Error: err.Error()}
	}
	node, ok := a.nodes[identity.SessionName]
	if !ok {
		a.rejected = append(a.rejected, "no mapping for "+identity.ARN)
		return authenticationv1.TokenReviewStatus{Error: "ARN is not mapped: " + identity.CanonicalARN}
	}
	return authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{
		Username: "system:node:" + node, UID: "aws-iam-authenticator:" + identity.AccountID + ":" + identity.UserID,
		Groups: []string{"system:bootstrappers", "system:nodes"},
	}}
}

type stsTransport struct {
	iam  *IAM
	next http.RoundTripper
}

// RoundTrip answers for STS hosts and passes everything else on.
func (t *stsTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(r.URL.Hostname(), "sts.") && !strings.HasPrefix(r.URL.Hostname(), "sts-fips.") {
		return t.next.RoundTrip(r)
	}
	status, body := t.iam.callerIdentity(r)
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": []string{"application/json"}}, Request: r,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

func (a *IAM) callerIdentity(r *http.Request) (int, []byte) {
	instance, err := a.checkSignature(r)
	if err != nil {
		text, _ := json.Marshal(map[string]any{"Error": map[string]string{"Code": "SignatureDoesNotMatch", "Message": err.Error()}})
		return http.StatusForbidden, text
	}
	text, _ := json.Marshal(map[string]any{"GetCallerIdentityResponse": map[string]any{
		"GetCallerIdentityResult": map[string]string{
			"Account": instance.Account, "Arn": instance.RoleARN(), "UserId": "AROAEXAMPLEEXAMPLE000:" + instance.ID,
		},
		"ResponseMetadata": map[string]string{"RequestId": "0f0f0f0f-0000-4000-8000-000000000000"},
	}})
	return http.StatusOK, text
}

// checkSignature does what STS does: sign the same request with the secret that belongs to the key, and compare.
func (a *IAM) checkSignature(r *http.Request) (*Instance, error) {
	given := r.URL.Query()
	scope := strings.Split(given.Get("X-Amz-Credential"), "/")
	if len(scope) != 5 || scope[3] != "sts" || scope[4] != "aws4_request" {
		return nil, fmt.Errorf("credential scope %q", given.Get("X-Amz-Credential"))
	}
	a.mu.Lock()
	instance := a.instances[scope[0]]
	a.mu.Unlock()
	if instance == nil {
		return nil, fmt.Errorf("unknown access key %s", scope[0])
	}
	if host := "sts." + scope[2] + "." + instance.Domain; r.URL.Host != host {
		return nil, fmt.Errorf("signed for region %s of %s, sent to %s", scope[2], instance.Partition, r.URL.Host)
	}
	when, err := time.Parse(amzTime, given.Get("X-Amz-Date"))
	if err != nil {
		return nil, err
	}
	if age := time.Since(when); age > 15*time.Minute || age < -5*time.Minute {
		return nil, fmt.Errorf("signature is %s old", age)
	}
	want, err := Presign(instance.Credentials, r.URL.Host, scope[2], r.Header.Get("X-K8s-Aws-Id"), when)
	if err != nil {
		return nil, err
	}
	if have, wanted := given.Get("X-Amz-Signature"), want.Query().Get("X-Amz-Signature"); have != wanted {
		return nil, fmt.Errorf("signature %s, computed %s", have, wanted)
	}
	return instance, nil
}

// Presign is the reference: the URL that the AWS SDK for Go makes for a cluster, a clock and credentials.
func Presign(c Credentials, host, region, cluster string, when time.Time) (*url.URL, error) {
	const query = "/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Expires=60"
	req, err := http.NewRequest(http.MethodGet, "https://"+host+query, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("x-k8s-aws-id", cluster)
	creds := aws.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, SessionToken: c.SessionToken}
	text, _, err := v4.NewSigner().PresignHTTP(context.Background(), creds, req, emptySHA256, "sts", region, when)
	if err != nil {
		return nil, err
	}
	return url.Parse(text)
}
