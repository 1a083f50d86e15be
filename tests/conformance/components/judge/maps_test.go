package judge

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"sort"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
)

// Values of a field by its path, beside those of its type. What is right stands as often as what is wrong.
var values = map[string][]string{
	"authentication.x509.clientCAFile": {"/etc/ca.crt", "ca.crt"},
	"authorization.mode":               {"AlwaysAllow", "Webhook", "webhook"},
	"cgroupDriver":                     {"systemd", "cgroupfs", "Systemd"},
	"cgroupRoot":                       {"", "/", "/kubepods"},
	"clusterDNS":                       {"10.100.0.10", "fd00::a", "10.100.0", "dns"},
	"configMapAndSecretChangeDetectionStrategy": {"Get", "Cache", "Watch", "watch"},
	"containerLogMaxSize":                       {"10Mi", "1Gi", "0", "-1", "10 MB", "10MB", "5k", "1e6", "100m", "x"},
	"containerRuntimeEndpoint":                  {"unix:///run/containerd/containerd.sock", "/run/containerd/containerd.sock", ""},
	"cpuManagerPolicy":                          {"none", "static", "Static"},
	"cpuManagerPolicyOptions":                   {"full-pcpus-only=true", "distribute-cpus-across-numa=true", "align-by-socket=true", "strict-cpu-reservation=true", "full-pcpus-only=maybe", "unknown=true"},
	"defaultPodSysctls":                         {"net.ipv4.ip_forward=1", "net/ipv4/ip_forward=1", "kernel.pid_max=1", "kernel.shm_rmid_forced=1", "BAD=1", "fs.mqueue.x=2"},
	"enforceNodeAllocatable":                    {"pods", "pods", "system-reserved", "kube-reserved", "system-reserved-compressible", "kube-reserved-compressible", "none", "", "all"},
	"allowedUnsafeSysctls":                      {"kernel.msg*", "net.ipv4.tcp_syncookies", "net.*", "*", "vm.swappiness", ""},
	"evictionHard":                              {"memory.available=200Mi", "memory.available=5%", "nodefs.available=10%", "nodefs.inodesFree=5%", "imagefs.available=15%", "pid.available=10%", "memory.available=101%", "memory.available=-1", "memory.available=0", "containerfs.available=5%", "allocatableMemory.available=1Gi", "nodefs.available=0%", "cpu.available=1", "memory.available=1.5%", "memory.available=x"},
	"evictionSoft":                              {"memory.available=300Mi", "memory.available=10%", "nodefs.available=15%", "nodefs.available=1Gi"},
	"evictionSoftGracePeriod":                   {"memory.available=1m", "nodefs.available=1m30s", "memory.available=-1s", "memory.available=0s", "nodefs.available="},
	"evictionMinimumReclaim":                    {"memory.available=0Mi", "nodefs.available=500Mi", "memory.available=5%", "memory.available=-1", "memory.available=0%"},
	"hairpinMode":                               {"promiscuous-bridge", "hairpin-veth", "none", "veth"},
	"healthzBindAddress":                        {"127.0.0.1", "0.0.0.0", "::", "localhost"},
	"address":                                   {"0.0.0.0", "::", "127.0.0.1", "any"},
	"imagePullCredentialsVerificationPolicy":    {"NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify", "Always"},
	"preloadedImagesVerificationAllowlist":      {"registry.example.com/a", "registry.example.com/*", "a:b", "reg.example.com/img:v1", "*", "https://x", "r.example.com//a", "r.example.com:/a", "r.example.com/a--b__c", "docker.io/a", "docker.io/library/a", "index.docker.io/*"},
	"kubeReserved":                              {"cpu=100m", "memory=100Mi", "ephemeral-storage=1Gi", "pid=100", "cpu=0", "memory=0", "cpu=-1", "gpu=1", "cpu=x", "hugepages-2Mi=2Mi"},
	"systemReserved":                            {"cpu=100m", "memory=100Mi", "ephemeral-storage=1Gi", "pid=100", "cpu=0", "memory=0", "cpu=-1", "gpu=1", "memory=1k"},
	"kubeReservedCgroup":                        {"", "/runtime", "/kube.slice", "kube"},
	"systemReservedCgroup":                      {"", "/system", "/system.slice"},
	"kubeletCgroups":                            {"", "/kubelet", "/runtime"},
	"systemCgroups":                             {"", "/system", "/"},
	"logging.format":                            {"text", "json", "yaml", ""},
	"logging.vmodule.filePattern":               {"gc", "x*", "x", "a=b", "a,b", ""},
	"logging.options.json.infoBufferSize":       {"0", "64Ki", "-1"},
	"logging.options.text.infoBufferSize":       {"0", "64Ki", "-1"},
	"memoryManagerPolicy":                       {"None", "Static", "static"},
	"memoryReservationPolicy":                   {"None", "TieredReservation", "Tiered"},
	"memorySwap.swapBehavior":                   {"", "NoSwap", "LimitedSwap", "UnlimitedSwap"},
	"podCIDR":                                   {"10.0.0.0/24", "10.0.0.0", "x"},
	"podLogsDir":                                {"/var/log/pods", "/var/log/pods/", "log/pods", "/var/../log", "/var/log/pöds", "", "/var//log"},
	"providerID":                                {"aws:///us-west-2a/i-0123456789abcdef0", "x"},
	"qosReserved":                               {"memory=50%", "memory=101%", "cpu=10%", "memory=x"},
	"reservedMemory.limits":                     {"memory=100Mi", "memory=200Mi", "memory=0", "hugepages-2Mi=2Mi", "cpu=1", "memory=x", "memory=-1", "hugepages-1Gi=1Gi", "hugepages-=1"},
	"reservedSystemCPUs":                        {"0", "0-1", "0,1", "", "a", "1-0", "0-", "0,0", "-1", " 0", "0, 1"},
	"resolvConf":                                {"", "/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"},
	"showHiddenMetricsForVersion":               {"", "1.33", "1.34", "1.30", "v1.33", "1.36", "1", "1.35", "1.32", "1.31"},
	"staticPodPath":                             {"", "/etc/kubernetes/manifests", "manifests"},
	"staticPodURL":                              {"", "https://example.com/pods", "://"},
	"tlsCipherSuites":                           {"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256", "TLS_RSA_WITH_RC4_128_SHA", "NONE", ""},
	"tlsMinVersion":                             {"", "VersionTLS12", "VersionTLS13", "VersionTLS10", "TLS12", "1.2"},
	"topologyManagerPolicy":                     {"none", "best-effort", "restricted", "single-numa-node", "best"},
	"topologyManagerPolicyOptions":              {"prefer-closest-numa-nodes=true", "max-allowable-numa-nodes=8", "max-allowable-numa-nodes=9", "max-allowable-numa-nodes=7", "prefer-closest-numa-nodes=x", "unknown=1"},
	"topologyManagerScope":                      {"container", "pod", "node"},
	"tracing.endpoint":                          {"localhost:4317", "", "example.com:4317", "http://localhost", "[::1]:1", "dns://x/y"},
	"volumePluginDir":                           {"/usr/libexec/kubernetes/kubelet-plugins/volume/exec/", "plugins"},
	"registerWithTaints.key":                    {"example.com/a", "a", "node.kubernetes.io/b", "/a", "a b", ""},
	"registerWithTaints.value":                  {"", "v", "true", "a b"},
	"registerWithTaints.effect":                 {"NoSchedule", "NoExecute", "PreferNoSchedule", "Never", ""},
	"registerWithTaints.timeAdded":              {"2026-01-01T00:00:00Z"},
	"kind":                                      {"KubeletConfiguration", "Kubelet"},
	"apiVersion":                                {"kubelet.config.k8s.io/v1beta1", "kubelet.config.k8s.io/v1"},
}

// Values of a flag by its type, or by its name where that says more; of one that is called as its field those of the field, too.
var flagValues = map[string][]string{
	"bool":                       {"true", "false", "T", "1", "yes", ""},
	"int32":                      {"0", "1", "-1", "110", "65536", "0x10", "+5", "1.5", "a", "", "2147483648"},
	"int64":                      {"0", "1", "-1", "1000000", "a", ""},
	"duration":                   durations,
	"reserved-memory":            {"0:memory=1Gi", "0:memory=5GB", "0:memory=1Gi;1:memory=1Gi", "0:memory=0", "x:memory=1Gi", "0:memory=1Gi;0:memory=1Gi", "0:memory=1Gi,hugepages-1Gi=1Gi", "0", ""},
	"register-with-taints":       {"a=b:NoSchedule", "a:NoExecute", "a=b:Never", "a=b:NoSchedule,a=c:NoSchedule", "a=b", ""},
	"manifest-url-header":        {"a:b", "a:b,c:d", "a", ""},
	"minimum-image-ttl-duration": {"2m", "0s", "-1s", "3"},
	"image-gc-high-threshold":    {"85", "101", "0", "79"},
	"image-gc-low-threshold":     {"80", "0", "86"},
}

// Numbers of a field beside the edges of all.
var numbers = map[string][]float64{
	"memoryThrottlingFactor":         {0.1, 0.9, 1, 0, 1.1, -0.5},
	"tracing.samplingRatePerMillion": {0, 1, 1000000, 1000001, -1},
	"logging.verbosity":              {0, 2, 10, -1},
	"logging.vmodule.verbosity":      {0, 2, 10, -1},
	"reservedMemory.numaNode":        {0, 0, 1, -1},
	"userNamespaces.idsPerPod":       {65536, 131072, 65535, 4294967296, 4294901760, 0},
	"maxPods":                        {110, 29, 0, 1000},
	"tlsCurvePreferences":            {23, 29, 4588, 0},
	"imageGCHighThresholdPercent":    {85, 90, 100, 80},
	"imageGCLowThresholdPercent":     {80, 70, 0, 85},
}

// Fields that one rule reads together; one in three maps is made of one of these.
var related = [][]string{
	{"enforceNodeAllocatable", "cgroupsPerQOS", "systemReservedCgroup", "kubeReservedCgroup", "systemReserved", "kubeReserved", "cgroupRoot"},
	{"crashLoopBackOff", "featureGates"},
	{"cpuCFSQuotaPeriod", "cpuCFSQuota", "featureGates"},
	{"imagePullCredentialsVerificationPolicy", "preloadedImagesVerificationAllowlist", "featureGates"},
	{"memorySwap", "failSwapOn", "featureGates"},
	{"imageMinimumGCAge", "imageMaximumGCAge", "featureGates"},
	{"memoryThrottlingFactor", "memoryReservationPolicy", "featureGates"},
	{"reservedMemory", "memoryManagerPolicy", "kubeReserved", "systemReserved", "evictionHard", "featureGates"},
	{"cpuManagerPolicy", "cpuManagerPolicyOptions", "reservedSystemCPUs", "kubeReserved", "systemReserved", "systemReservedCgroup", "kubeReservedCgroup", "featureGates"},
	{"shutdownGracePeriod", "shutdownGracePeriodCriticalPods", "shutdownGracePeriodByPodPriority", "featureGates"},
	{"containerLogMonitorInterval", "containerLogMaxSize", "containerLogMaxFiles", "containerLogMaxWorkers", "podLogsDir"},
	{"enableSystemLogQuery", "enableSystemLogHandler", "featureGates"},
	{"serverTLSBootstrap", "tlsCertFile", "tlsPrivateKeyFile", "featureGates"},
	{"serializeImagePulls", "maxParallelImagePulls"},
	{"tracing", "featureGates"},
	{"logging", "featureGates"},
	{"systemCgroups", "cgroupRoot", "kubeletCgroups"},
	{"evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim", "mergeDefaultEvictionSettings"},
	{"topologyManagerPolicy", "topologyManagerPolicyOptions", "topologyManagerScope", "featureGates"},
	{"userNamespaces", "singleProcessOOMKill", "failCgroupV1", "featureGates"},
	{"defaultPodSysctls", "allowedUnsafeSysctls", "featureGates"},
	{"qosReserved", "featureGates"},
}

// Gates that the fields above wait for: set more often than others.
var gates = []string{
	"KubeletCrashLoopBackOffMax", "ReduceDefaultCrashLoopBackOffDecay", "CustomCPUCFSQuotaPeriod", "KubeletEnsureSecretPulledImages", "NodeSwap",
	"ImageMaximumGCAge", "MemoryQoS", "GracefulNodeShutdown", "GracefulNodeShutdownBasedOnPodPriority", "NodeLogQuery",
	"RotateKubeletServerCertificate", "KubeletTracing", "LoggingAlphaOptions", "LoggingBetaOptions", "ContextualLogging", "DefaultPodSysctls",
	"QOSReserved", "TopologyManagerPolicyOptions", "TopologyManagerPolicyAlphaOptions", "CPUManagerPolicyAlphaOptions", "MemoryManager",
	"UserNamespacesSupport", "AllAlpha", "AllBeta", "CSIMigration", "NoSuchGate", "DynamicResourceAllocation",
}

var durations = []string{"0s", "1s", "5s", "3s", "2.9s", "1m0s", "2m30s", "5m", "10m", "24h", "100ms", "1ms", "999us", "500ms", "1s1ms", "1500ms", "1001ms", "", "-1s", "300s", "301s", "30", "1d", "0"}
var integers = []int64{-1, 0, 1, 2, 3, 10, 50, 80, 85, 100, 101, 31, 32, 300, -1000, 1000, 1001, -1001, 65535, 65536, 1 << 31, 1<<31 - 1}

type maker struct {
	r     *rand.Rand
	gates []string // all that this kubelet knows
	flags []*pflag.Flag

	ofConfig map[string]bool // flags that set a field
}

func newMaker(seed uint64) *maker {
	m := &maker{r: rand.New(rand.NewPCG(seed, 0)), ofConfig: map[string]bool{}}
	for name := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		m.gates = append(m.gates, string(name))
	}
	sort.Strings(m.gates)
	c, err := options.NewKubeletConfiguration()
	if err != nil {
		panic(err)
	}
	flagSet(options.NewKubeletFlags(), c).VisitAll(func(f *pflag.Flag) { m.flags = append(m.flags, f) })
	of := pflag.NewFlagSet("", pflag.ContinueOnError)
	of.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	options.AddKubeletConfigFlags(of, c)
	of.VisitAll(func(f *pflag.Flag) { m.ofConfig[f.Name] = true })
	return m
}

// flag makes one of a command line: of this kubelet mostly, else of another one, or mistyped. Its value is the default where it sets no
// field of KubeletConfiguration: of such a flag we know the name alone.
func (m *maker) flag() string {
	f := pick(m.r, m.flags)
	name, value := f.Name, f.DefValue
	if m.ofConfig[name] && !m.one(4) {
		value = m.flagValue(f)
	}
	if m.one(10) {
		name = pick(m.r, []string{"max-pod", "kubelet-extra-args", "container-runtime", "pod-infra-container-image", "network-plugin", name + "s"})
	}
	if m.one(40) {
		return pick(m.r, []string{"-v=2", "-v2", "-v", "-x", "-", "--", "---v=2", "--=2", "-" + name + "=" + value, "-" + name})
	}
	return "--" + name + "=" + value
}

func (m *maker) flagValue(f *pflag.Flag) string {
	known := flagValues[f.Name]
	if known == nil {
		known = flagValues[f.Value.Type()]
	}
	for path, of := range values { // one at most is called so
		if strings.EqualFold(path, strings.ReplaceAll(f.Name, "-", "")) {
			known = of
		}
	}
	if known == nil || m.one(12) {
		known = []string{"", "x", "/x", "a=b", "a"}
	}
	value := strings.ReplaceAll(pick(m.r, known), " ", "") // which would be two words
	if f.Name == "eviction-hard" || f.Name == "eviction-soft" {
		value = strings.Replace(value, "=", "<", 1)
	}
	return value
}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

func (m *maker) one(n int) bool { return m.r.IntN(n) == 0 }

func (m *maker) text(path string) any {
	if known := values[path]; known != nil && !m.one(12) {
		return pick(m.r, known)
	}
	return pick(m.r, []string{"", "x", "/x", "none"})
}

func (m *maker) featureGates() any {
	made := map[string]any{}
	for range 1 + m.r.IntN(3) {
		name := pick(m.r, gates)
		if m.one(2) {
			name = pick(m.r, m.gates)
		}
		made[name] = m.one(2)
	}
	return made
}

func (m *maker) stringMap(path string) any {
	made := map[string]any{}
	for range 1 + m.r.IntN(3) {
		key, value, _ := strings.Cut(m.text(path).(string), "=")
		made[key] = value
	}
	return made
}

// of makes a value of the type; one in forty is of another type.
func (m *maker) of(t reflect.Type, path string) any {
	if m.one(40) {
		return pick(m.r, []any{nil, true, "x", 1, 1.5, []any{}, map[string]any{}, "1", []any{"x"}})
	}
	switch t {
	case reflect.TypeFor[metav1.Duration]():
		return pick(m.r, durations)
	case reflect.TypeFor[resource.QuantityValue](), reflect.TypeFor[resource.Quantity]():
		return m.text(path)
	case reflect.TypeFor[metav1.Time]():
		return m.text(path)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return m.of(t.Elem(), path)
	case reflect.Bool:
		return m.one(2)
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint16, reflect.Uint32, reflect.Uint8, reflect.Uint64, reflect.Float64:
		if known := numbers[path]; known != nil && !m.one(6) {
			return pick(m.r, known)
		}
		return pick(m.r, integers)
	case reflect.String:
		return m.text(path)
	case reflect.Slice:
		list := []any{}
		for range m.r.IntN(4) {
			list = append(list, m.of(t.Elem(), path))
		}
		if len(list) > 0 && m.one(6) { // the same twice
			list = append(list, list[0])
		}
		return list
	case reflect.Map:
		if path == "featureGates" {
			return m.featureGates()
		}
		return m.stringMap(path)
	case reflect.Struct:
		return m.object(t, path)
	}
	return "x"
}

// fields are those of a struct by their names in JSON, those of embedded ones among them.
func fields(t reflect.Type) map[string]reflect.Type {
	found := map[string]reflect.Type{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && t.Field(i).Type.Kind() == reflect.Struct:
			for n, of := range fields(t.Field(i).Type) {
				found[n] = of
			}
		case name != "":
			found[name] = t.Field(i).Type
		}
	}
	return found
}

func (m *maker) object(t reflect.Type, path string) any {
	all := fields(t)
	made := map[string]any{}
	for _, name := range m.names(all) {
		if !m.one(3) {
			made[name] = m.of(all[name], path+"."+name)
		}
	}
	return made
}

func (m *maker) names(all map[string]reflect.Type) []string {
	var names []string
	for name := range all {
		names = append(names, name)
	}
	sort.Strings(names) // the order of a map is no seed's
	return names
}

// kubelet makes a map of one to four fields.
func (m *maker) kubelet() []byte {
	all := fields(reflect.TypeFor[kubeletv1beta1.KubeletConfiguration]())
	names := m.names(all)
	if m.one(3) {
		names = pick(m.r, related)
	}
	made := map[string]any{}
	for range 1 + m.r.IntN(4) {
		name := pick(m.r, names)
		if of, ok := all[name]; ok {
			made[name] = m.of(of, name)
		} else {
			made[name] = "x" // a field of another release
		}
	}
	text, err := json.Marshal(made)
	if err != nil {
		panic(err)
	}
	return text
}
