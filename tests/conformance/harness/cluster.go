// The control plane: etcd and kube-apiserver, real, with certificates, bootstrap tokens and webhook tokens, everything
// on loopback, and an audit log of every request.
//
// There is no controller manager, scheduler, cloud controller or Karpenter: a test plays the part that it needs
// (see actors.go).

package harness

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// ServiceCIDR is the service network of every test cluster; its tenth address is the cluster's DNS.
const ServiceCIDR = "10.100.0.0/16"

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  userGroups: ["system:nodes"]
  verbs: [create, update, patch, delete]
  resources: [{group: "", resources: [nodes, nodes/status, pods, pods/status, pods/eviction, events]}]
- level: Request
  userGroups: ["system:nodes", "system:serviceaccounts"]
  verbs: [create, update, patch, delete]
  resources: [{group: "", resources: [nodes, nodes/status]}, {group: karpenter.sh}]
- level: Metadata
`

// Cluster is a running control plane. Dir holds its files and logs.
type Cluster struct {
	Dir      string
	CA       *Authority
	Endpoint string
	Audit    *AuditLog
	Admin    *rest.Config
	Client   *kubernetes.Clientset
	Dynamic  *dynamic.DynamicClient

	etcd, apiserver *Proc
	binDir, etcdURL string
}

// NewCluster starts etcd and kube-apiserver from binDir. webhook is the URL of a TokenReview server.
func NewCluster(ctx context.Context, dir, binDir, webhook string) (*Cluster, error) {
	c := &Cluster{Dir: dir, Audit: &AuditLog{Path: filepath.Join(dir, "audit.log")}}
	if err := c.writeFiles(webhook); err != nil {
		return nil, err
	}
	if err := c.startEtcd(); err != nil {
		return nil, err
	}
	ports, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	c.binDir, c.Endpoint = binDir, "https://127.0.0.1:"+ports[0]
	if err := c.connect(); err != nil {
		c.Stop()
		return nil, err
	}
	if err := c.StartAPIServer(ctx); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// StartAPIServer starts kube-apiserver at the cluster's endpoint and waits until it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	if err := c.startAPIServer(); err != nil {
		return err
	}
	return Poll(ctx, "kube-apiserver ready", []*Proc{c.etcd, c.apiserver}, func() error {
		_, err := c.Client.RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	})
}

// APIServer is the process, for its costs.
func (c *Cluster) APIServer() *Proc { return c.apiserver }

// KillAPIServer ends it without a word to its clients, as a crash does.
func (c *Cluster) KillAPIServer() { c.apiserver.Kill() }

// Stop ends the control plane.
func (c *Cluster) Stop() {
	c.apiserver.Stop()
	c.etcd.Stop()
}

func (c *Cluster) path(name string) string { return filepath.Join(c.Dir, name) }

func (c *Cluster) writeFiles(webhook string) error {
	ca, err := NewAuthority()
	if err != nil {
		return err
	}
	c.CA = ca
	if err := os.WriteFile(c.path("ca.crt"), ca.PEM, 0o644); err != nil {
		return err
	}
	for _, leaf := range []struct {
		file, user string
		groups     []string
		addresses  []string
	}{
		{file: "server", user: "kube-apiserver", addresses: []string{"127.0.0.1", "localhost", "10.100.0.1", "kubernetes.default.svc"}},
		{file: "admin", user: "admin", groups: []string{"system:masters"}},
		{file: "service-account", user: "service-account"},
	} {
		if err := ca.IssueFiles(c.Dir, leaf.file, leaf.user, leaf.groups, leaf.addresses...); err != nil {
			return err
		}
	}
	hook := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: hook, cluster: {server: %q}}]\n"+
		"contexts: [{name: hook, context: {cluster: hook, user: \"\"}}]\ncurrent-context: hook\n", webhook)
	if err := os.WriteFile(c.path("webhook.conf"), []byte(hook), 0o600); err != nil {
		return err
	}
	return os.WriteFile(c.path("audit-policy.yaml"), []byte(auditPolicy), 0o644)
}

func (c *Cluster) startEtcd() error {
	ports, err := FreePorts(2)
	if err != nil {
		return err
	}
	client, peer := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	c.etcdURL = client
	c.etcd, err = Start(c.Dir, "etcd", nil, "etcd", "--data-dir", c.path("etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	return err
}

func (c *Cluster) startAPIServer() error {
	var err error
	argv := append([]string{filepath.Join(c.binDir, "kube-apiserver")}, strings.Fields(os.Getenv("CONFORMANCE_APISERVER_FLAGS"))...)
	c.apiserver, err = Start(c.Dir, "kube-apiserver", nil, append(argv,
		"--etcd-servers="+c.etcdURL, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
		"--secure-port="+strings.TrimPrefix(c.Endpoint, "https://127.0.0.1:"),
		"--tls-cert-file="+c.path("server.crt"), "--tls-private-key-file="+c.path("server.key"),
		"--client-ca-file="+c.path("ca.crt"), "--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction", "--disable-admission-plugins=ServiceAccount",
		"--enable-bootstrap-token-auth", "--authentication-token-webhook-config-file="+c.path("webhook.conf"),
		"--authentication-token-webhook-version=v1", "--authentication-token-webhook-cache-ttl=10s",
		"--service-account-issuer=https://conformance", "--service-account-key-file="+c.path("service-account.key"),
		"--service-account-signing-key-file="+c.path("service-account.key"), "--service-cluster-ip-range="+ServiceCIDR,
		"--kubelet-client-certificate="+c.path("admin.crt"), "--kubelet-client-key="+c.path("admin.key"),
		"--kubelet-certificate-authority="+c.path("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--audit-log-path="+c.Audit.Path, "--audit-policy-file="+c.path("audit-policy.yaml"))...)
	return err
}

// StartControllers runs the disruption, job, deployment, replicaset and daemonset controllers of kube-controller-manager until the process is stopped.
func (c *Cluster) StartControllers(dir string) (*Proc, error) {
	return c.startHelper(dir, "controllers")
}

// StartVolumes runs its attach-detach controller and its garbage collection of pods.
func (c *Cluster) StartVolumes(dir string) (*Proc, error) { return c.startHelper(dir, "volumes") }

// StartScheduler runs kube-scheduler until the process is stopped.
func (c *Cluster) StartScheduler(dir string) (*Proc, error) {
	file, err := c.AdminKubeconfig()
	if err != nil {
		return nil, err
	}
	return Start(dir, "kube-scheduler", nil, filepath.Join(c.binDir, "kube-scheduler"), "--kubeconfig="+file, "--leader-elect=false",
		"--secure-port=0")
}

func (c *Cluster) startHelper(dir, name string) (*Proc, error) {
	return Start(dir, name, nil, filepath.Join(c.binDir, name), "--server="+c.Endpoint,
		"--ca="+c.path("ca.crt"), "--cert="+c.path("admin.crt"), "--key="+c.path("admin.key"))
}

// AdminKubeconfig writes a kubeconfig of the administrator, for a program that takes nothing else.
func (c *Cluster) AdminKubeconfig() (string, error) {
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: x, cluster: {server: %q, certificate-authority: %q}}]\n"+
		"users: [{name: x, user: {client-certificate: %q, client-key: %q}}]\n"+
		"contexts: [{name: x, context: {cluster: x, user: x}}]\ncurrent-context: x\n",
		c.Endpoint, c.path("ca.crt"), c.path("admin.crt"), c.path("admin.key"))
	return c.path("admin.kubeconfig"), os.WriteFile(c.path("admin.kubeconfig"), []byte(text), 0o600)
}

func (c *Cluster) connect() error {
	c.Admin = &rest.Config{
		Host: c.Endpoint, QPS: 200, Burst: 400,
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.path("ca.crt"), CertFile: c.path("admin.crt"), KeyFile: c.path("admin.key")},
	}
	var err error
	if c.Client, err = kubernetes.NewForConfig(c.Admin); err != nil {
		return err
	}
	c.Dynamic, err = dynamic.NewForConfig(c.Admin)
	return err
}

// FreePorts gives n ports that nobody listens on at 127.0.0.1.
func FreePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		_, port, _ := strings.Cut(l.Addr().String(), ":")
		ports = append(ports, port)
	}
	return ports, nil
}

// Within is a context with a deadline; the caller cancels it by ending.
func Within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}
