// The token: aws-iam-authenticator's verifier takes it, botocore and the AWS SDK for Go make the same URL, and whatever
// is wrong with a token is seen.

package conformance

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/aws-iam-authenticator/pkg/token"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

const tokenPrefix = "k8s-aws-v1."

type execCredential struct {
	Kind, APIVersion string
	Status           struct {
		Token               string
		ExpirationTimestamp time.Time
	}
}

// credentialOf runs `nodeclaimd token` for an instance.
func credentialOf(t *testing.T, i *harness.Instance, env []string, args ...string) execCredential {
	t.Helper()
	imds, err := harness.NewIMDS("127.0.0.1:0", i)
	if err != nil {
		t.Fatal(err)
	}
	defer imds.Stop()
	cmd := exec.CommandContext(within(t, 20*time.Second), program, append([]string{"token", "--imds", imds.URL}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = &strings.Builder{}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, cmd.Stderr)
	}
	var credential execCredential
	if err := json.Unmarshal(out, &credential); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return credential
}

// urlOf takes the presigned URL out of a token.
func urlOf(t *testing.T, text string) *url.URL {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(text, tokenPrefix))
	if err != nil || !strings.HasPrefix(text, tokenPrefix) {
		t.Fatalf("token %q: %v", text, err)
	}
	u, err := url.Parse(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func whoami(ctx context.Context, bearer string) (*authenticationv1.UserInfo, error) {
	client, err := kubernetes.NewForConfig(&rest.Config{Host: cluster.Endpoint, BearerToken: bearer,
		TLSClientConfig: rest.TLSClientConfig{CAData: cluster.CA.PEM}})
	if err != nil {
		return nil, err
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return &review.Status.UserInfo, nil
}

// The control experiment: a token made by the AWS SDK opens the API server; one with a wrong secret does not.
func TestControlReferenceTokenIsAccepted(t *testing.T) {
	ctx := within(t, 20*time.Second)
	i := harness.NewInstance(900)
	iam.Map(i, "reference")
	bearer := func(c harness.Credentials) string {
		u, err := harness.Presign(c, "sts.us-west-2.amazonaws.com", "us-west-2", harness.ClusterName, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return tokenPrefix + base64.RawURLEncoding.EncodeToString([]byte(u.String()))
	}
	user, err := whoami(ctx, bearer(i.Credentials))
	if err != nil || user.Username != "system:node:reference" {
		t.Fatalf("%+v, %v", user, err)
	}
	wrong := i.Credentials
	wrong.SecretAccessKey += "x"
	if user, err := whoami(ctx, bearer(wrong)); err == nil {
		t.Fatalf("a wrong signature was taken for %s", user.Username)
	}
}

func TestTokenIsAcceptedByTheVerifier(t *testing.T) {
	i := harness.NewInstance(901)
	iam.Map(i, "verified")
	before := time.Now()
	credential := credentialOf(t, i, nil, "--cluster", harness.ClusterName, "--region", i.Region)
	identity, err := iam.Verify(credential.Status.Token)
	if err != nil {
		t.Fatal(err)
	}
	if identity.ARN != i.RoleARN() || identity.SessionName != i.ID || identity.AccessKeyID != i.Credentials.AccessKeyID {
		t.Errorf("identity %+v", identity)
	}
	if credential.Kind != "ExecCredential" || credential.APIVersion != "client.authentication.k8s.io/v1beta1" {
		t.Errorf("%s %s", credential.APIVersion, credential.Kind)
	}
	if left := credential.Status.ExpirationTimestamp.Sub(before); left < 13*time.Minute || left > 15*time.Minute {
		t.Errorf("the token is said to be good for %s; the verifier gives it 15 minutes", left)
	}
	user, err := whoami(within(t, 20*time.Second), credential.Status.Token)
	if err != nil || user.Username != "system:node:verified" {
		t.Errorf("kube-apiserver: %+v, %v", user, err)
	}
}

func TestTokenOfAnotherClusterIsRefused(t *testing.T) {
	i := harness.NewInstance(902)
	iam.Map(i, "elsewhere")
	credential := credentialOf(t, i, nil, "--cluster", "another-cluster", "--region", i.Region)
	if _, err := iam.Verify(credential.Status.Token); err == nil || !strings.Contains(err.Error(), "SignatureDoesNotMatch") {
		t.Fatalf("the cluster's name is not part of the signature: %v", err)
	}
}

func TestTokenFollowsTheExecInfo(t *testing.T) {
	i := harness.NewInstance(903)
	info := `{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "spec": {"interactive": false}}`
	credential := credentialOf(t, i, []string{"KUBERNETES_EXEC_INFO=" + info}, "--cluster", harness.ClusterName)
	if credential.APIVersion != "client.authentication.k8s.io/v1" {
		t.Errorf("asked for v1, got %s", credential.APIVersion)
	}
}

func TestTokenURLIsBotocores(t *testing.T) {
	for n, place := range []struct{ region, partition, domain, cluster string }{
		{"us-west-2", "aws", "amazonaws.com", harness.ClusterName},
		{"us-east-1", "aws", "amazonaws.com", "Team_A-2"},
		{"cn-north-1", "aws-cn", "amazonaws.com.cn", harness.ClusterName},
		{"us-gov-west-1", "aws-us-gov", "amazonaws.com", harness.ClusterName},
		{"us-isob-east-1", "aws-iso-b", "sc2s.sgov.gov", harness.ClusterName},
	} {
		t.Run(place.region, func(t *testing.T) {
			i := harness.NewInstance(910 + n)
			i.Region, i.Zone, i.Partition, i.Domain = place.region, place.region+"a", place.partition, place.domain
			iam.Map(i, "partition")
			credential := credentialOf(t, i, nil, "--cluster", place.cluster)
			have := urlOf(t, credential.Status.Token)
			if want := botocoreURL(t, i, place.cluster, have.Query().Get("X-Amz-Date")); have.String() != want {
				t.Errorf("nodeclaimd %s\nbotocore   %s", have, want)
			}
			if _, err := token.NewVerifier(place.cluster, place.partition, place.region).Verify(credential.Status.Token); err != nil {
				t.Error(err)
			}
		})
	}
}

// botocoreURL gives the reference for the same credentials and clock.
func botocoreURL(t *testing.T, i *harness.Instance, cluster, date string) string {
	t.Helper()
	input, err := json.Marshal(map[string]any{
		"access_key": i.Credentials.AccessKeyID, "secret_key": i.Credentials.SecretAccessKey, "session_token": i.Credentials.SessionToken,
		"region": i.Region, "cluster": cluster, "date": date, "expires": 60,
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(within(t, 60*time.Second), python, "presign.py")
	cmd.Stdin = strings.NewReader(string(input))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(fmt.Errorf("presign.py: %w", err))
	}
	return strings.TrimSpace(string(out))
}
