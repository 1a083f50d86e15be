// EC2 Auto Scaling's three calls about the lifecycle of an instance, which moto does not have. The stand-in computes each signature
// again with the AWS SDK's signer, and keeps the states of its groups. This file knows nothing of Kubernetes.

package harness

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

const (
	autoScalingVersion = "2011-01-01"
	// TerminatingWait is the state in which a group waits for its hook.
	TerminatingWait = "Terminating:Wait"
)

// GroupCall is a request that Auto Scaling has answered.
type GroupCall struct {
	At               time.Time
	Action, Instance string
	Form             url.Values
	Status           int
}

// AutoScaling is the groups of one account; URL is where they are asked about.
type AutoScaling struct {
	URL string

	who    Credentials
	hook   string
	server *httptest.Server

	mu     sync.Mutex
	groups map[string]string // instance -> group
	states map[string]string // instance -> lifecycle state
	calls  []GroupCall
}

// NewAutoScaling answers this caller alone; its groups have one hook.
func NewAutoScaling(who Credentials, hook string) *AutoScaling {
	a := &AutoScaling{who: who, hook: hook, groups: map[string]string{}, states: map[string]string{}}
	a.server = httptest.NewServer(a)
	a.URL = a.server.URL
	return a
}

// Stop ends it.
func (a *AutoScaling) Stop() { a.server.Close() }

// Set puts an instance of a group into a state.
func (a *AutoScaling) Set(instance, group, state string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.groups[instance], a.states[instance] = group, state
}

// State is the lifecycle state of an instance.
func (a *AutoScaling) State(instance string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.states[instance]
}

// Calls gives what was asked so far, in its order; action and instance may be "".
func (a *AutoScaling) Calls(action, instance string) []GroupCall {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []GroupCall
	for _, c := range a.calls {
		if (action == "" || c.Action == action) && (instance == "" || c.Instance == instance) {
			list = append(list, c)
		}
	}
	return list
}

var signedHeaders = regexp.MustCompile(`SignedHeaders=([^,]+),`)

// verify signs the request once more.
func (a *AutoScaling) verify(r *http.Request, body []byte) error {
	given := r.Header.Get("Authorization")
	found := signedHeaders.FindStringSubmatch(given)
	if found == nil {
		return fmt.Errorf("not signed: %q", given)
	}
	at, err := time.Parse(amzTime, r.Header.Get("X-Amz-Date"))
	if err != nil || time.Since(at).Abs() > 5*time.Minute {
		return fmt.Errorf("X-Amz-Date: %v %v", at, err)
	}
	again, err := http.NewRequest(r.Method, "http://"+r.Host+r.URL.RequestURI(), nil)
	if err != nil {
		return err
	}
	for _, name := range strings.Split(found[1], ";") {
		if name != "host" && name != "x-amz-date" && name != "x-amz-security-token" {
			again.Header.Set(name, r.Header.Get(name))
		}
	}
	sum := sha256.Sum256(body)
	err = v4.NewSigner().SignHTTP(r.Context(), aws.Credentials{AccessKeyID: a.who.AccessKeyID, SecretAccessKey: a.who.SecretAccessKey,
		SessionToken: a.who.SessionToken}, again, hex.EncodeToString(sum[:]), "autoscaling", motoRegion, at)
	if err == nil && again.Header.Get("Authorization") != given {
		err = fmt.Errorf("SignatureDoesNotMatch: %s, not %s", given, again.Header.Get("Authorization"))
	}
	return err
}

func (a *AutoScaling) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	form, err := url.ParseQuery(string(body))
	if err == nil {
		err = a.verify(r, body)
	}
	call := GroupCall{At: time.Now(), Action: form.Get("Action"), Form: form}
	a.mu.Lock()
	defer a.mu.Unlock()
	var text string
	switch {
	case err != nil:
		call.Status, text = refusal(http.StatusForbidden, "SignatureDoesNotMatch", err.Error())
	case form.Get("Version") != autoScalingVersion:
		call.Status, text = refusal(http.StatusBadRequest, "InvalidAction", "another version")
	case call.Action == "DescribeAutoScalingInstances":
		call.Instance = form.Get("InstanceIds.member.1")
		call.Status, text = a.describe(call.Instance)
	default:
		call.Instance = form.Get("InstanceId")
		call.Status, text = a.act(call)
	}
	a.calls = append(a.calls, call)
	w.Header().Set("Content-Type", "text/xml")
	w.WriteHeader(call.Status)
	_, _ = io.WriteString(w, text)
}

func refusal(status int, code, message string) (int, string) {
	var escaped strings.Builder
	_ = xml.EscapeText(&escaped, []byte(message))
	return status, `<ErrorResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/"><Error><Type>Sender</Type><Code>` + code +
		"</Code><Message>" + escaped.String() + "</Message></Error><RequestId>r</RequestId></ErrorResponse>"
}

func success(action, result string) (int, string) {
	return http.StatusOK, "<" + action + `Response xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/"><` + action + "Result>" + result +
		"</" + action + "Result><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></" + action + "Response>"
}

func (a *AutoScaling) describe(instance string) (int, string) {
	row := ""
	if group, known := a.groups[instance]; known {
		row = "<member><AutoScalingGroupName>" + group + "</AutoScalingGroupName><InstanceId>" + instance + "</InstanceId><LifecycleState>" +
			a.states[instance] + "</LifecycleState></member>"
	}
	return success("DescribeAutoScalingInstances", "<AutoScalingInstances>"+row+"</AutoScalingInstances>")
}

func (a *AutoScaling) act(call GroupCall) (int, string) {
	switch group, known := a.groups[call.Instance]; {
	case call.Form.Get("LifecycleHookName") != a.hook || !known || group != call.Form.Get("AutoScalingGroupName"):
		return refusal(http.StatusBadRequest, "ValidationError", "no such hook of no such group")
	case a.states[call.Instance] != TerminatingWait:
		return refusal(http.StatusBadRequest, "ValidationError", "No active Lifecycle Action found with instance ID "+call.Instance)
	case call.Action == "RecordLifecycleActionHeartbeat":
	case call.Action == "CompleteLifecycleAction" && call.Form.Get("LifecycleActionResult") == "CONTINUE":
		a.states[call.Instance] = "Terminating:Proceed"
	default:
		return refusal(http.StatusBadRequest, "InvalidAction", call.Action)
	}
	return success(call.Action, "")
}
