// EC2 by moto: instances that are started, ended and looked at with the API's own requests, and who may do so.
//
// Once CheckSignatures was called moto computes each signature again with botocore and looks the caller's policies up. What ends
// instances is written down on the way to it. This file knows nothing of Kubernetes.

package harness

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

const (
	motoRegion = "us-west-2"
	ec2Version = "2016-11-15"
	iamVersion = "2010-05-08"
	stsVersion = "2011-06-15"
	// What a role's trust says; moto wants one.
	anybody = `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}}`
)

// End is a TerminateInstances that reached moto.
type End struct {
	At           time.Time
	ID, Region   string
	Status       int
	HasToken     bool // of temporary credentials
	StateOnReach string
}

// Moto is a running moto_server; URL is where EC2 is asked.
type Moto struct {
	URL string

	direct string
	proc   *Proc
	front  *httptest.Server
	admin  Credentials

	mu        sync.Mutex
	ends      []End
	described map[string]int
}

// StartMoto runs moto's server with this interpreter on loopback; nobody has to sign yet.
func StartMoto(ctx context.Context, dir, python string) (*Moto, error) {
	ports, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	m := &Moto{described: map[string]int{}, direct: "http://127.0.0.1:" + ports[0], admin: Credentials{AccessKeyID: "AKIAUNKNOWN", SecretAccessKey: "unknown"}}
	m.proc, err = Start(dir, "moto", []string{"MOTO_EC2_LOAD_DEFAULT_AMIS=false", "PYTHONUNBUFFERED=1"}, python, "-m", "moto.server", "-H", "127.0.0.1", "-p", ports[0])
	if err != nil {
		return nil, err
	}
	if err := Poll(ctx, "moto answers", []*Proc{m.proc}, func() error { _, err := m.post(ctx, "/moto-api/reset", ""); return err }); err != nil {
		m.proc.Stop()
		return nil, err
	}
	to, err := url.Parse(m.direct)
	if err != nil {
		return nil, err
	}
	m.front = httptest.NewServer(m.witness(httputil.NewSingleHostReverseProxy(to)))
	m.URL = m.front.URL
	return m, nil
}

// Stop ends it.
func (m *Moto) Stop() {
	m.front.Close()
	m.proc.Stop()
}

var (
	instanceOf = regexp.MustCompile(`InstanceId\.1=([^&]*)`)
	regionOf   = regexp.MustCompile(`Credential=[^/]*/[0-9]*/([^/]*)/ec2/aws4_request`)
)

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// witness hands a request on as it is and writes down what would end an instance, and of which one is asked.
func (m *Moto) witness(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		r.Body = io.NopCloser(bytes.NewReader(body))
		if found := instanceOf.FindSubmatch(body); found != nil && bytes.Contains(body, []byte("Action=DescribeInstances&")) {
			m.mu.Lock()
			m.described[string(found[1])]++
			m.mu.Unlock()
		}
		if !bytes.Contains(body, []byte("Action=TerminateInstances&")) {
			next.ServeHTTP(w, r)
			return
		}
		e := End{At: time.Now(), HasToken: r.Header.Get("X-Amz-Security-Token") != ""}
		if found := instanceOf.FindSubmatch(body); found != nil {
			e.ID = string(found[1])
		}
		if found := regionOf.FindStringSubmatch(r.Header.Get("Authorization")); found != nil {
			e.Region = found[1]
		}
		e.StateOnReach, _ = m.State(r.Context(), e.ID)
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(seen, r)
		e.Status = seen.status
		m.mu.Lock()
		defer m.mu.Unlock()
		m.ends = append(m.ends, e)
	})
}

// Ends gives every TerminateInstances so far that was about this instance.
func (m *Moto) Ends(id string) []End {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []End
	for _, e := range m.ends {
		if e.ID == id {
			list = append(list, e)
		}
	}
	return list
}

// Described gives how often DescribeInstances was asked about this instance.
func (m *Moto) Described(id string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.described[id]
}

func (m *Moto) post(ctx context.Context, path, body string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.direct+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	_, answer, err := send(r)
	return answer, err
}

func send(r *http.Request) (int, []byte, error) {
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(io.LimitReader(a.Body, 4<<20))
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("HTTP %d %s", a.StatusCode, text)
	}
	return a.StatusCode, text, err
}

// Call asks a service as somebody, signed by the AWS SDK for Go; words are key and value in turn.
func (m *Moto) Call(ctx context.Context, who Credentials, service, version, action string, words ...string) (int, []byte, error) {
	form := url.Values{"Action": {action}, "Version": {version}}
	for i := 0; i+1 < len(words); i += 2 {
		form.Set(words[i], words[i+1])
	}
	body := form.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.direct+"/", strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	sum := sha256.Sum256([]byte(body))
	err = v4.NewSigner().SignHTTP(ctx, aws.Credentials{AccessKeyID: who.AccessKeyID, SecretAccessKey: who.SecretAccessKey, SessionToken: who.SessionToken}, r,
		hex.EncodeToString(sum[:]), service, motoRegion, time.Now())
	if err != nil {
		return 0, nil, err
	}
	return send(r)
}

// find reads the text of the first element of this name out of an answer.
func find(answer []byte, element string) (string, error) {
	d := xml.NewDecoder(bytes.NewReader(answer))
	for {
		token, err := d.Token()
		if err != nil {
			return "", fmt.Errorf("no %s in %s", element, answer)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == element {
			var text string
			err := d.DecodeElement(&text, &start)
			return text, err
		}
	}
}

// ask is Call as the administrator, for one element of the answer.
func (m *Moto) ask(ctx context.Context, element, service, version, action string, words ...string) (string, error) {
	_, answer, err := m.Call(ctx, m.admin, service, version, action, words...)
	if err != nil {
		return "", fmt.Errorf("%s: %w", action, err)
	}
	if element == "" {
		return "", nil
	}
	return find(answer, element)
}

// Run starts an instance.
func (m *Moto) Run(ctx context.Context) (string, error) {
	return m.ask(ctx, "instanceId", "ec2", ec2Version, "RunInstances", "ImageId", "ami-12345678", "MinCount", "1", "MaxCount", "1",
		"InstanceType", "m5.large", "Placement.AvailabilityZone", motoRegion+"a")
}

// Terminate ends an instance behind everybody's back.
func (m *Moto) Terminate(ctx context.Context, id string) error {
	_, err := m.ask(ctx, "", "ec2", ec2Version, "TerminateInstances", "InstanceId.1", id)
	return err
}

// instance is what moto says of one.
type instance struct {
	State string `xml:"reservationSet>item>instancesSet>item>instanceState>name"`
	Name  string `xml:"reservationSet>item>instancesSet>item>privateDnsName"`
}

func (m *Moto) describe(ctx context.Context, id string) (found instance, err error) {
	_, answer, err := m.Call(ctx, m.admin, "ec2", ec2Version, "DescribeInstances", "InstanceId.1", id)
	if err == nil {
		err = xml.Unmarshal(answer, &found)
	}
	return found, err
}

// State is "running" and so on.
func (m *Moto) State(ctx context.Context, id string) (string, error) {
	found, err := m.describe(ctx, id)
	return found.State, err
}

// Name is the private DNS name of an instance.
func (m *Moto) Name(ctx context.Context, id string) (string, error) {
	found, err := m.describe(ctx, id)
	return found.Name, err
}

func policy(actions string) string {
	return `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "` + actions + `", "Resource": "*"}}`
}

// User makes one who may do these actions, with an access key.
func (m *Moto) User(ctx context.Context, name, actions string) (Credentials, error) {
	var c Credentials
	_, err := m.ask(ctx, "", "iam", iamVersion, "CreateUser", "UserName", name)
	if err == nil {
		err = m.Allow(ctx, name, actions)
	}
	if err != nil {
		return c, err
	}
	_, answer, err := m.Call(ctx, m.admin, "iam", iamVersion, "CreateAccessKey", "UserName", name)
	if err != nil {
		return c, err
	}
	return c, c.read(answer, "")
}

func (c *Credentials) read(answer []byte, token string) error {
	var first, second, third error
	c.AccessKeyID, first = find(answer, "AccessKeyId")
	c.SecretAccessKey, second = find(answer, "SecretAccessKey")
	if token != "" {
		c.SessionToken, third = find(answer, token)
	}
	return errors.Join(first, second, third)
}

// Allow lets a user do these actions, and no others.
func (m *Moto) Allow(ctx context.Context, user, actions string) error {
	_, err := m.ask(ctx, "", "iam", iamVersion, "PutUserPolicy", "UserName", user, "PolicyName", "only", "PolicyDocument", policy(actions))
	return err
}

// Role makes one that may do these actions, and gives temporary credentials of it.
func (m *Moto) Role(ctx context.Context, name, actions string) (Credentials, error) {
	var c Credentials
	arn, err := m.ask(ctx, "Arn", "iam", iamVersion, "CreateRole", "RoleName", name, "AssumeRolePolicyDocument", anybody)
	if err == nil {
		_, err = m.ask(ctx, "", "iam", iamVersion, "PutRolePolicy", "RoleName", name, "PolicyName", "only", "PolicyDocument", policy(actions))
	}
	if err != nil {
		return c, err
	}
	_, answer, err := m.Call(ctx, m.admin, "sts", stsVersion, "AssumeRole", "RoleArn", arn, "RoleSessionName", "i-0123456789abcdef0")
	if err != nil {
		return c, err
	}
	return c, c.read(answer, "SessionToken")
}

// CheckSignatures makes an administrator, and lets moto refuse from now on whoever has not signed well or may not.
func (m *Moto) CheckSignatures(ctx context.Context) error {
	var err error
	if m.admin, err = m.User(ctx, "administrator", "*"); err != nil {
		return err
	}
	_, err = m.post(ctx, "/moto-api/reset-auth", "0")
	return err
}
