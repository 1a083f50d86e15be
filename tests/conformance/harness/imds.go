// A strict IMDSv2: no answer without a valid token, no token without a valid TTL, none through a proxy.
//
// It knows the tree of one instance and nothing of what the agent does with it. Requests are recorded.

package harness

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	imdsTokenPath = "/latest/api/token"
	imdsTTLHeader = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"
	imdsToken     = "X-Aws-Ec2-Metadata-Token"
)

// Instance is what EC2 knows of a machine.
type Instance struct {
	ID, Type, Region, Zone, ZoneID, IP, Hostname, Role, Account string
	Partition, Domain, IPv6                                     string
	Credentials                                                 Credentials
	LifeCycle                                                   string // "on-demand" or "spot"
	UserData                                                    []byte
}

// Credentials of the instance's role.
type Credentials struct{ AccessKeyID, SecretAccessKey, SessionToken string }

// ProviderID is how Karpenter and the cloud controller name the machine.
func (i *Instance) ProviderID() string { return "aws:///" + i.Zone + "/" + i.ID }

// RoleARN is what STS says of the instance's credentials.
func (i *Instance) RoleARN() string {
	return fmt.Sprintf("arn:%s:sts::%s:assumed-role/%s/%s", i.Partition, i.Account, i.Role, i.ID)
}

// NewInstance makes an on-demand m5.large in us-west-2; n tells several apart.
func NewInstance(n int) *Instance {
	return &Instance{
		ID: fmt.Sprintf("i-0%015xf", n), Type: "m5.large", Region: "us-west-2", Zone: "us-west-2a", ZoneID: "usw2-az2",
		IP: NodeIP, Hostname: fmt.Sprintf("ip-10-0-0-5-%d.us-west-2.compute.internal", n), Role: "KarpenterNodeRole-test",
		Account: "111122223333", Partition: "aws", Domain: "amazonaws.com", LifeCycle: "on-demand",
		Credentials: Credentials{
			AccessKeyID:     fmt.Sprintf("ASIAEXAMPLE%09d", n),
			SecretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
			SessionToken:    "IQoJb3JpZ2luX2VjEXAMPLE//////////wEaCXVzLXdlc3QtMiJH+/=" + strings.Repeat("Ab3/+", 120) + "==",
		},
	}
}

func (i *Instance) tree() map[string]string {
	const mac = "02:29:96:8f:6a:2d"
	identity, _ := json.MarshalIndent(map[string]any{
		"accountId": i.Account, "architecture": "x86_64", "availabilityZone": i.Zone, "billingProducts": nil,
		"devpayProductCodes": nil, "marketplaceProductCodes": nil, "imageId": "ami-0123456789abcdef0", "instanceId": i.ID,
		"instanceType": i.Type, "kernelId": nil, "pendingTime": "2026-01-02T03:04:05Z", "privateIp": i.IP, "ramdiskId": nil,
		"region": i.Region, "version": "2017-09-30",
	}, "", "  ")
	now := time.Now().UTC()
	credentials, _ := json.MarshalIndent(map[string]any{
		"Code": "Success", "LastUpdated": now.Format(time.RFC3339), "Type": "AWS-HMAC", "AccessKeyId": i.Credentials.AccessKeyID,
		"SecretAccessKey": i.Credentials.SecretAccessKey, "Token": i.Credentials.SessionToken,
		"Expiration": now.Add(6 * time.Hour).Format(time.RFC3339),
	}, "", "  ")
	tree := map[string]string{
		"/latest/dynamic/instance-identity/document":                   string(identity),
		"/latest/meta-data/ami-id":                                     "ami-0123456789abcdef0",
		"/latest/meta-data/instance-id":                                i.ID,
		"/latest/meta-data/instance-type":                              i.Type,
		"/latest/meta-data/instance-life-cycle":                        i.LifeCycle,
		"/latest/meta-data/local-hostname":                             i.Hostname,
		"/latest/meta-data/hostname":                                   i.Hostname,
		"/latest/meta-data/local-ipv4":                                 i.IP,
		"/latest/meta-data/mac":                                        mac,
		"/latest/meta-data/network/interfaces/macs/" + mac + "/mac":    mac,
		"/latest/meta-data/placement/availability-zone":                i.Zone,
		"/latest/meta-data/placement/availability-zone-id":             i.ZoneID,
		"/latest/meta-data/placement/region":                           i.Region,
		"/latest/meta-data/services/domain":                            i.Domain,
		"/latest/meta-data/services/partition":                         i.Partition,
		"/latest/meta-data/iam/security-credentials/" + i.Role:         string(credentials),
		"/latest/meta-data/network/interfaces/macs/" + mac + "/device": "0",
	}
	if i.IPv6 != "" {
		tree["/latest/meta-data/network/interfaces/macs/"+mac+"/ipv6s"] = i.IPv6
	}
	if i.UserData != nil {
		tree["/latest/user-data"] = string(i.UserData)
	}
	return tree
}

// What EC2 says where an instance is going to end.
const (
	SpotNotice      = "/latest/meta-data/spot/instance-action"
	RebalanceNotice = "/latest/meta-data/events/recommendations/rebalance"
	ScheduledNotice = "/latest/meta-data/events/maintenance/scheduled"
	TargetState     = "/latest/meta-data/autoscaling/target-lifecycle-state"
)

// IMDSRequest is one recorded request.
type IMDSRequest struct {
	Method, Path string
	Status       int
	At           time.Time
}

// IMDS serves one instance.
type IMDS struct {
	URL string

	mu       sync.Mutex
	tree     map[string]string
	tokens   map[string]time.Time
	requests []IMDSRequest
	server   *http.Server
}

// NewIMDS listens on address (host:port, port 0 for any).
func NewIMDS(address string, instance *Instance) (*IMDS, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	m := &IMDS{URL: "http://" + l.Addr().String(), tree: instance.tree(), tokens: map[string]time.Time{}}
	m.server = &http.Server{Handler: m}
	go func() { _ = m.server.Serve(l) }()
	return m, nil
}

// Stop closes the listener and every connection.
func (m *IMDS) Stop() { _ = m.server.Close() }

// Requests gives what was asked so far.
func (m *IMDS) Requests() []IMDSRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]IMDSRequest(nil), m.requests...)
}

// Say lets a path of the tree answer with this text, from now on.
func (m *IMDS) Say(path, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tree[path] = text
}

// Silence takes a path out of the tree: 404.
func (m *IMDS) Silence(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tree, path)
}

// SayTerminate is the notice that a spot instance gets; EC2 knows whole seconds only.
func (m *IMDS) SayTerminate(at time.Time) {
	m.Say(SpotNotice, fmt.Sprintf(`{"action": "terminate", "time": %q}`, at.UTC().Format(time.RFC3339)))
}

func (m *IMDS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	status, body := m.answer(w, r)
	m.requests = append(m.requests, IMDSRequest{r.Method, r.URL.Path, status, time.Now()})
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

func (m *IMDS) answer(w http.ResponseWriter, r *http.Request) (int, string) {
	if r.URL.Path == imdsTokenPath {
		return m.newToken(w, r)
	}
	if r.Method != http.MethodGet {
		return http.StatusMethodNotAllowed, ""
	}
	if until, known := m.tokens[r.Header.Get(imdsToken)]; !known || time.Now().After(until) {
		return http.StatusUnauthorized, "<html><body><h1>401 - Unauthorized</h1></body></html>"
	}
	if body, ok := m.tree[r.URL.Path]; ok {
		return http.StatusOK, body
	}
	return m.folder(strings.TrimRight(r.URL.Path, "/") + "/")
}

func (m *IMDS) newToken(w http.ResponseWriter, r *http.Request) (int, string) {
	ttl, err := strconv.Atoi(r.Header.Get(imdsTTLHeader))
	switch {
	case r.Method != http.MethodPut:
		return http.StatusMethodNotAllowed, ""
	case r.Header.Get("X-Forwarded-For") != "":
		return http.StatusForbidden, ""
	case err != nil || ttl < 1 || ttl > 21600:
		return http.StatusBadRequest, ""
	}
	raw := make([]byte, 39)
	_, _ = rand.Read(raw)
	token := "AQAEA" + base64.URLEncoding.EncodeToString(raw)
	m.tokens[token] = time.Now().Add(time.Duration(ttl) * time.Second)
	w.Header().Set(imdsTTLHeader, strconv.Itoa(ttl))
	return http.StatusOK, token
}

func (m *IMDS) folder(prefix string) (int, string) {
	seen := map[string]bool{}
	for path := range m.tree {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			name, _, deeper := strings.Cut(rest, "/")
			if deeper {
				name += "/"
			}
			seen[name] = true
		}
	}
	if len(seen) == 0 {
		return http.StatusNotFound, "<html><body><h1>404 - Not Found</h1></body></html>"
	}
	var names []string
	for name := range seen {
		names = append(names, name)
	}
	sort.Strings(names)
	return http.StatusOK, strings.Join(names, "\n")
}
