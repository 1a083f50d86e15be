/*
 * Schemas and rules: each type of field, each kind of document, with the exact words of each
 * complaint.
 */
#include "documents-test.h"
#include "groups.h"

struct row {
    const char *name;
    const char *body; /* what stands behind the head of the kind, at line 3 */
    const char *diags;
};

static void check(const char *head, const struct row *rows, size_t n) {
    int failures = 0;

    for (size_t i = 0; i < n; i++) {
        nc_auto_free char *document = nc_asprintf("%s%s\n", head, rows[i].body);

        failures += differs(rows[i].name, document, rows[i].diags);
    }
    assert_int_equal(failures, 0);
}

#define SERVICE                                                                                    \
    "the key must be default, or the name of a service without .service such as containerd\n"
#define VARIABLE "the key must be the name of a variable: letters, digits and _, no digit first\n"
#define VALUE "must be one line of UTF-8 text without control characters, of less than 128 KiB"
#define DOMAIN                                                                                     \
    "must be a domain such as example.com, or ~example.com to route its queries only, not the "    \
    "string "

static const struct row node_config_rows[] = {
    {"all that nodeadm knows",
     "spec: {cluster: {name: a, apiServerEndpoint: 'https://a', certificateAuthority: " CA
     ", cidr: 10.0.0.0/16, enableOutpost: false}, containerd: {config: '', baseRuntimeSpec: "
     "{a: 1}}, instance: "
     "{localStorage: {strategy: RAID0, mountPath: /x, disabledMounts: [SOCI]}, environment: "
     "{default: {A: b}}, network: "
     "{nameservers: [10.0.0.2], domains: [a]}}, kubelet: {config: {maxPods: 1}, flags: [--v=2], "
     "maxPodsExpression: x}, "
     "featureGates: {InstanceIdNodeName: true, FastImagePull: false}}",
     ""},
    {"nulls and empty strings say nothing",
     "spec: {cluster: {name: '', cidr: null, certificateAuthority: ''}, kubelet: null}", ""},
    {"metadata", "metadata: {name: x, labels: {a: b}, creationTimestamp: null}\nspec: {}", ""},
    {"spec of a wrong type", "spec: []", "d:3:7: error: spec: must be a map, not a list\n"},
    {"a taint of a command line",
     "spec: {kubelet: {config: {registerWithTaints: ['a=b:NoSchedule']}}}",
     "d:3:48: error: spec.kubelet.config.registerWithTaints[0]: must be a map of key, value and "
     "effect\n"},
    {"colon without a space", "spec: x:y",
     "d:3:7: error: spec: must be a map: a space must follow its colon\n"},
    {"a map in a text", "spec: |\n  x: y\n",
     "d:3:7: error: spec: must be a map: remove the quotes or the |\n"},
    {"a map in quotes", "spec: 'x: y'",
     "d:3:7: error: spec: must be a map: remove the quotes or the |\n"},
    {"unknown at the top", "spec: {}\nspek: {}",
     "d:4:1: warning: spek: unknown field, did you mean \"spec\"?\n"},
    {"unknown and like nothing", "spec: {}\nzzzzzzzzz: 1",
     "d:4:1: warning: zzzzzzzzz: unknown field of NodeConfig\n"},
    {"a field of another object", "spec: {kubelet: {flags: [], cidr: b}}",
     "d:3:29: warning: spec.kubelet.cidr: unknown field of NodeConfig's spec.kubelet; it is "
     "spec.cluster.cidr\n"},
    {"a field of the other kind", "spec: {drain: {margin: 1s}}",
     "d:3:8: warning: spec.drain: unknown field of NodeConfig's spec; it is spec.drain of "
     "AgentConfig\n"},
    {"unknown and unprintable", "spec: {}\n\"a\\tb\": 1",
     "d:4:1: warning: ['a\\tb']: unknown field of NodeConfig\n"},
    {"status", "spec: {}\nstatus: {}",
     "d:4:9: warning: status: ignored: the node finds this out itself\n"},
    {"number for a name", "spec: {cluster: {name: 1}}",
     "d:3:24: error: spec.cluster.name: must be a string (put it in quotes), not the number 1\n"},
    {"map for a name", "spec: {cluster: {name: {}}}",
     "d:3:24: error: spec.cluster.name: must be a string, not a map\n"},
    {"name with a space", "spec: {cluster: {name: a b}}",
     "d:3:24: error: spec.cluster.name: must be a cluster name: at most 100 letters, digits, - and "
     "_, not the string 'a b'\n"},
    {"name that begins with a dash", "spec: {cluster: {name: -a}}",
     "d:3:24: error: spec.cluster.name: must be a cluster name: at most 100 letters, digits, - and "
     "_, not the string '-a'\n"},
    {"endpoint without TLS", "spec: {cluster: {apiServerEndpoint: 'http://a'}}",
     "d:3:37: error: spec.cluster.apiServerEndpoint: must be an https URL such as "
     "https://ABC.gr7.us-west-2.eks.amazonaws.com, "
     "not the string 'http://a'\n"},
    {"CA that is no base64", "spec: {cluster: {certificateAuthority: '!'}}",
     "d:3:40: error: spec.cluster.certificateAuthority: must be the base64 form of a PEM file of "
     "certificates (-----BEGIN "
     "CERTIFICATE----- …), not the string '!'\n"},
    {"CA that is no PEM is refused where it is needed only",
     "spec: {cluster: {certificateAuthority: Y2EtYnVuZGxlCg==}}", ""},
    {"CA with a NUL", "spec: {cluster: {certificateAuthority: YQBi}}",
     "d:3:40: error: spec.cluster.certificateAuthority: must be the base64 form of a PEM file of "
     "certificates (-----BEGIN "
     "CERTIFICATE----- …), not the string 'YQBi'\n"},
    {"CIDR", "spec: {cluster: {cidr: hello}}",
     "d:3:24: error: spec.cluster.cidr: must be the service CIDR of the cluster such as "
     "10.100.0.0/16, not the string 'hello'\n"},
    {"bool", "spec: {cluster: {enableOutpost: 1}}",
     "d:3:33: error: spec.cluster.enableOutpost: must be true or false, not the number 1\n"},
    {"strategy", "spec: {instance: {localStorage: {strategy: RAID1}}}",
     "d:3:44: error: spec.instance.localStorage.strategy: must be RAID0, RAID10 or Mount (did you "
     "mean \"RAID0\"?), not the string 'RAID1'\n"},
    {"mounts", "spec: {instance: {localStorage: {disabledMounts: x}}}",
     "d:3:50: error: spec.instance.localStorage.disabledMounts: must be a list of strings, not the "
     "string 'x'\n"},
    {"feature", "spec: {featureGates: {InstanceIDNodeName: true}}",
     "d:3:23: warning: spec.featureGates.InstanceIDNodeName: is not supported: unknown key, did "
     "you mean \"InstanceIdNodeName\"? Known are "
     "InstanceIdNodeName or FastImagePull\n"},
    {"feature that is not wanted", "spec: {featureGates: {Teleport: false}}",
     "d:3:23: warning: spec.featureGates.Teleport: unknown key; known are "
     "InstanceIdNodeName or FastImagePull\n"},
    {"feature of a wrong type", "spec: {featureGates: {FastImagePull: 'yes'}}",
     "d:3:38: error: spec.featureGates.FastImagePull: must be true or false, not the string "
     "'yes'\n"},
    {"flags", "spec: {kubelet: {flags: [{}, \"a\\nb\", '', null]}}",
     "d:3:26: error: spec.kubelet.flags[0]: must be a string, not a map\n"
     "d:3:30: error: spec.kubelet.flags[1]: must be one line, a flag such as --v=2\n"
     "d:3:42: error: spec.kubelet.flags[3]: must be a string, not null\n"},
    {"environment", "spec: {instance: {environment: 1}}",
     "d:3:32: error: spec.instance.environment: must be a map\n"},
    {"any text of one line is a value",
     "spec: {instance: {environment: {my@x.y: {_A1: \"\\t100% \\\"q\\\" \\\\ é\", B: '', C: "
     "null}}}}",
     ""},
    {"environment of a service that is no map", "spec: {instance: {environment: {a: b}}}",
     "d:3:36: error: spec.instance.environment.a: must be a map\n"},
    {"services", "spec: {instance: {environment: {../a: {}, a.service: {}, '': {}, .a: {}}}}",
     "d:3:33: error: spec.instance.environment['../a']: " SERVICE
     "d:3:43: error: spec.instance.environment['a.service']: " SERVICE
     "d:3:58: error: spec.instance.environment['…']: " SERVICE
     "d:3:66: error: spec.instance.environment['.a']: " SERVICE},
    {"names of variables", "spec: {instance: {environment: {a: {A=B: c, 1A: c, 'A\tB': c}}}}",
     "d:3:37: error: spec.instance.environment.a['…']: " VARIABLE
     "d:3:45: error: spec.instance.environment.a.1A: " VARIABLE
     "d:3:52: error: spec.instance.environment.a['…']: " VARIABLE},
    {"values of variables",
     "spec: {instance: {environment: {a: {A: \"b\\nc\", B: \"\\e\", C: 1, D: yes}}}}",
     "d:3:40: error: spec.instance.environment.a.A: " VALUE "\n"
     "d:3:51: error: spec.instance.environment.a.B: " VALUE "\n"
     "d:3:60: error: spec.instance.environment.a.C: must be a string (put it in quotes)\n"
     "d:3:66: error: spec.instance.environment.a.D: must be a string (put it in quotes), not "
     "true\n"},
    {"nameservers",
     "spec: {instance: {network: {nameservers: [10.0.0.2, 'fd00::1', dns.a, 10.0.0]}}}",
     "d:3:64: error: spec.instance.network.nameservers[2]: must be an IPv4 or IPv6 address such as "
     "10.0.0.2, not the string 'dns.a'\n"
     "d:3:71: error: spec.instance.network.nameservers[3]: must be an IPv4 or IPv6 address such as "
     "10.0.0.2, not the string '10.0.0'\n"},
    {"domains", "spec: {instance: {network: {domains: [a.b., ~a, ~., 'a b', '~']}}}",
     "d:3:53: error: spec.instance.network.domains[3]: " DOMAIN "'a b'\n"
     "d:3:60: error: spec.instance.network.domains[4]: " DOMAIN "'~'\n"},
    {"mount path", "spec: {instance: {localStorage: {mountPath: /a%b}}}",
     "d:3:45: error: spec.instance.localStorage.mountPath: must be an absolute path of letters, "
     "digits, - _ . and / such as /mnt/k8s-disks, not the string '/a%b'\n"},
};

static void node_config(void **state) {
    (void)state;
    check(NODE_CONFIG, node_config_rows, NC_ARRAY_SIZE(node_config_rows));
}

static const struct row kubelet_rows[] = {
    {"well-formed",
     "kind: KubeletConfiguration, apiVersion: kubelet.config.k8s.io/v1beta1, maxPods: 110, "
     "clusterDNS: [10.0.0.10, 'fd00::a'], "
     "kubeReserved: {cpu: 100m, memory: 1Gi, pid: '100'}, evictionHard: {memory.available: 5%}, "
     "featureGates: {A: true}, "
     "cpuCFSQuota: false, shutdownGracePeriod: 2m30s, authentication: {webhook: {cacheTTL: 2m0s}}, "
     "memoryThrottlingFactor: 0.9, "
     "registerWithTaints: [{key: a/b, effect: NoSchedule}], tlsCurvePreferences: [29], "
     "staticPodURLHeader: {}, "
     "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}], podPidsLimit: -1, "
     "kubeReservedCgroup: '', logging: {verbosity: 5}, "
     "shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 10}]",
     ""},
    {"typo", "maxpods: 1",
     "d:3:27: warning: spec.kubelet.config.maxpods: unknown field, did you mean \"maxPods\"?\n"},
    {"field of tomorrow", "wholeNewThing: {}",
     "d:3:27: warning: spec.kubelet.config.wholeNewThing: unknown field of KubeletConfiguration\n"},
    {"text for a number", "maxPods: 'ten'",
     "d:3:36: error: spec.kubelet.config.maxPods: must be an integer, not the string 'ten'\n"},
    {"fraction for an integer", "maxPods: 1.5",
     "d:3:36: error: spec.kubelet.config.maxPods: must be an integer, not the number 1.5\n"},
    {"too small", "maxPods: -1",
     "d:3:36: error: spec.kubelet.config.maxPods: must be between 0 and 2147483647, not -1\n"},
    {"too large for 32 bits", "kubeAPIQPS: 3000000000",
     "d:3:39: error: spec.kubelet.config.kubeAPIQPS: must be between 0 and 2147483647, not "
     "3000000000\n"},
    {"less than 32 bits", "shutdownGracePeriodByPodPriority: [{priority: -3000000000}]",
     "d:3:73: error: spec.kubelet.config.shutdownGracePeriodByPodPriority[0].priority: must be "
     "between -2147483648 and 2147483647, not -3000000000\n"},
    {"kubelet has no port 0", "port: 0, readOnlyPort: 0, healthzPort: 0",
     "d:3:33: error: spec.kubelet.config.port: must be between 1 and 65535, not 0\n"},
    {"kubelet takes any limit of processes below 0 for none", "podPidsLimit: -5", ""},
    {"no lease", "nodeLeaseDurationSeconds: 0",
     "d:3:53: error: spec.kubelet.config.nodeLeaseDurationSeconds: must be between 1 and "
     "2147483647, not 0\n"},
    {"one log file", "containerLogMaxFiles: 1",
     "d:3:49: error: spec.kubelet.config.containerLogMaxFiles: must be between 2 and 2147483647, "
     "not 1\n"},
    {"no bit of a mark", "iptablesMasqueradeBit: 32, iptablesDropBit: -1",
     "d:3:50: error: spec.kubelet.config.iptablesMasqueradeBit: must be between 0 and 31, not 32\n"
     "d:3:71: error: spec.kubelet.config.iptablesDropBit: must be between 0 and 31, not -1\n"},
    {"no image to report", "nodeStatusMaxImages: -2",
     "d:3:48: error: spec.kubelet.config.nodeStatusMaxImages: must be between -1 and 2147483647, "
     "not -2\n"},
    {"percent", "imageGCHighThresholdPercent: 101",
     "d:3:56: error: spec.kubelet.config.imageGCHighThresholdPercent: must be between 0 and 100, "
     "not 101\n"},
    {"duration as a number", "syncFrequency: 60",
     "d:3:42: error: spec.kubelet.config.syncFrequency: must be a duration such as \"30s\" or "
     "\"2m30s\", not the number 60\n"},
    {"duration without a unit", "syncFrequency: '60'",
     "d:3:42: error: spec.kubelet.config.syncFrequency: must be a duration such as \"30s\" or "
     "\"2m30s\", not the string '60'\n"},
    {"list for a string", "clusterDomain: [a]",
     "d:3:42: error: spec.kubelet.config.clusterDomain: must be a string, not a list\n"},
    {"images that may be there before",
     "preloadedImagesVerificationAllowlist: [r.example.com/a, 'r.example.com:5000/a/b-c_d.e', "
     "localhost/a--b__c, 'r.example.com/*', docker.io/library/a, 'docker.io/*', 'R:1/a']",
     ""},
    {"headers are not quoted", "staticPodURLHeader: {A: b, B: [c, 1, null]}",
     "d:3:51: error: spec.kubelet.config.staticPodURLHeader.A: must be a list of strings\n"
     "d:3:61: error: spec.kubelet.config.staticPodURLHeader.B[1]: must be a string (put it in "
     "quotes)\n"
     "d:3:64: error: spec.kubelet.config.staticPodURLHeader.B[2]: must be a string, not null\n"},
    {"string for a list", "clusterDNS: 10.0.0.10",
     "d:3:39: error: spec.kubelet.config.clusterDNS: must be a list of strings, not the string "
     "'10.0.0.10'\n"},
    {"name for an address", "clusterDNS: [dns]",
     "d:3:40: error: spec.kubelet.config.clusterDNS[0]: must be an IP address, not the string "
     "'dns'\n"},
    {"reservation as a number", "kubeReserved: {cpu: 1}",
     "d:3:47: warning: spec.kubelet.config.kubeReserved.cpu: a number where kubelet requires a "
     "string; used as a string\n"},
    {"reservation as a bool", "kubeReserved: {cpu: true}",
     "d:3:47: error: spec.kubelet.config.kubeReserved.cpu: must be a quantity such as \"100m\" or "
     "\"1Gi\", not true\n"},
    {"reservation of nonsense", "kubeReserved: {cpu: 1x, memory: null}",
     "d:3:47: error: spec.kubelet.config.kubeReserved.cpu: must be a quantity such as \"100m\" or "
     "\"1Gi\", not the string '1x'\n"},
    {"negative reservation", "kubeReserved: {cpu: -1m}",
     "d:3:47: error: spec.kubelet.config.kubeReserved.cpu: must be a quantity that is not "
     "negative, not the string '-1m'\n"},
    {"reservation of another resource", "systemReserved: {mem: 1Gi}",
     "d:3:44: error: spec.kubelet.config.systemReserved.mem: unknown key; known are cpu, memory, "
     "ephemeral-storage or pid\n"},
    {"reservation as a list", "systemReserved: []",
     "d:3:43: error: spec.kubelet.config.systemReserved: must be a map, not a list\n"},
    {"eviction signal", "evictionHard: {memory.availabel: 1Gi}",
     "d:3:42: error: spec.kubelet.config.evictionHard['memory.availabel']: unknown key, did you "
     "mean \"memory.available\"? Known are "
     "memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, "
     "imagefs.inodesFree, containerfs.available, "
     "containerfs.inodesFree, pid.available or allocatableMemory.available\n"},
    {"values that kubelet reads when it starts",
     "cpuManagerPolicyOptions: {x: on1}, topologyManagerPolicyOptions: {max: '7', min: T}",
     "d:3:56: error: spec.kubelet.config.cpuManagerPolicyOptions.x: must be true, false, or a "
     "number of NUMA nodes from 8 on, not the string 'on1'\n"
     "d:3:98: error: spec.kubelet.config.topologyManagerPolicyOptions.max: must be true, false, or "
     "a number of NUMA nodes from 8 on, not the string '7'\n"},
    {"TLS", "tlsMinVersion: '1.2'",
     "d:3:42: error: spec.kubelet.config.tlsMinVersion: must be VersionTLS10, VersionTLS11, "
     "VersionTLS12 or VersionTLS13, not the string '1.2'\n"},
    {"reservation of a class", "qosReserved: {memory: 101%}",
     "d:3:49: error: spec.kubelet.config.qosReserved.memory: must be 0% to 100%, "
     "not the string '101%'\n"},
    {"reservation of a class, of what nobody reserves", "qosReserved: {cpu: 010%}",
     "d:3:41: error: spec.kubelet.config.qosReserved.cpu: unknown key; known are memory\n"},
    {"sysctls", "allowedUnsafeSysctls: ['net.*', net/core/somaxconn, kernel.shm*, kernel.sem]", ""},
    {"sysctl of the machine", "allowedUnsafeSysctls: [vm.swappiness]",
     "d:3:50: error: spec.kubelet.config.allowedUnsafeSysctls[0]: must be a sysctl of a pod's own, "
     "such as net.*, not the string 'vm.swappiness'\n"},
    {"sysctl without a name", "allowedUnsafeSysctls: ['']",
     "d:3:50: error: spec.kubelet.config.allowedUnsafeSysctls[0]: must be a sysctl of a pod's own, "
     "such as net.*, not the string ''\n"},
    {"eviction threshold as a number", "evictionHard: {memory.available: 5}",
     "d:3:60: error: spec.kubelet.config.evictionHard['memory.available']: must be a string (put "
     "it in quotes), not the number 5\n"},
    {"gate", "featureGates: {A: 'true'}",
     "d:3:45: error: spec.kubelet.config.featureGates.A: must be true or false, not the string "
     "'true'\n"},
    {"number", "memoryThrottlingFactor: x",
     "d:3:51: error: spec.kubelet.config.memoryThrottlingFactor: must be a number, not the string "
     "'x'\n"},
    {"enumeration", "cgroupDriver: systemD",
     "d:3:41: error: spec.kubelet.config.cgroupDriver: must be systemd or cgroupfs (did you mean "
     "\"systemd\"?), not the string 'systemD'\n"},
    {"integers", "tlsCurvePreferences: [x]",
     "d:3:49: error: spec.kubelet.config.tlsCurvePreferences[0]: must be an integer, not the "
     "string 'x'\n"},
    {"list of objects", "registerWithTaints: {}",
     "d:3:47: error: spec.kubelet.config.registerWithTaints: must be a list, not a map\n"},
    {"taint", "registerWithTaints: [{key: ''}, {key: a, effect: x}, 1]",
     "d:3:54: error: spec.kubelet.config.registerWithTaints[0].key: must not be empty\n"
     "d:3:48: error: spec.kubelet.config.registerWithTaints[0]: \"effect\" is missing\n"
     "d:3:76: error: spec.kubelet.config.registerWithTaints[1].effect: must be NoSchedule, "
     "PreferNoSchedule or NoExecute, not the "
     "string 'x'\n"
     "d:3:80: error: spec.kubelet.config.registerWithTaints[2]: must be a map, not the number 1\n"},
    {"nested", "authentication: {anonymous: {enable: true}}",
     "d:3:56: warning: spec.kubelet.config.authentication.anonymous.enable: unknown field, did you "
     "mean \"enabled\"?\n"},
};

static void kubelet(void **state) {
    int failures = 0;

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(kubelet_rows); i++) {
        nc_auto_free char *document =
            nc_asprintf(NODE_CONFIG "spec: {kubelet: {config: {%s}}}\n", kubelet_rows[i].body);

        failures += differs(kubelet_rows[i].name, document, kubelet_rows[i].diags);
    }
    assert_int_equal(failures, 0);
}

static const struct row agent_config_rows[] = {
    {"nothing", "", ""},
    {"all of it",
     "spec: {cluster: {name: a, apiServerEndpoint: 'https://[fd00::1]:6443', "
     "certificateAuthority: " CA ", cidr: 'fd00::/108', auth: {mode: client-certificate, "
     "clientCertificate: /a, clientKey: /b, bootstrapToken: "
     "abcdef.0123456789abcdef, kubeconfig: /c}}, node: {name: hostname, nameOverride: a.b, labels: "
     "{a/b: c, d: 1}, taints: [{key: a, "
     "effect: NoExecute}], providerID: 'aws:///a/i-0'}, maxPods: {mode: prefix, expression: x, "
     "value: 1}, reservation: {policy: gke, "
     "kubeReserved: {cpu: 1}, systemReserved: {memory: 1Gi}}, kubelet: {start: exec, unit: "
     "k.service, path: /k, config: {}, flags: "
     "[]}, shutdown: {gracePeriod: 2m30s, gracePeriodCriticalPods: 30s}, interruption: {spot: "
     "drain, rebalance: cordon, "
     "maintenance: ignore, autoscaling: report, autoscalingDeadline: 1h, shutdown: drain}, drain: "
     "{mode: observe, margin: "
     "15s, linger: 0s, hookTimeout: 30s}, signal: none, "
     "report: {console: true, events: false, node: true}, aws: {ec2: never, ec2Endpoint: "
     "'http://127.0.0.1:5000', stsEndpoint: "
     "'https://a', domain: amazonaws.com.cn}, claim: {lookup: never}}",
     "d:3:557: warning: spec.reservation.kubeReserved.cpu: a number where kubelet requires a "
     "string; used as a string\n"},
    {"typos", "spec: {interruptions: {}, drain: {margins: 1s}}",
     "d:3:8: warning: spec.interruptions: unknown field, did you mean \"interruption\"?\n"
     "d:3:35: warning: spec.drain.margins: unknown field, did you mean \"margin\"?\n"},
    {"outside of spec", "spec: {}\ndrain: {margin: 1s}",
     "d:4:1: warning: drain: unknown field of AgentConfig; it is spec.drain\n"},
    {"outside of its object", "spec: {gracePeriodCriticalPods: 1s}",
     "d:3:8: warning: spec.gracePeriodCriticalPods: unknown field of AgentConfig's spec; it is "
     "spec.shutdown.gracePeriodCriticalPods\n"},
    {"outside of one of several objects", "spec: {flags: []}",
     "d:3:8: warning: spec.flags: unknown field of AgentConfig's spec; it is spec.kubelet.flags\n"},
    {"a node that deletes its own NodeClaim", "spec: {signal: self}",
     "d:3:16: error: spec.signal: must be none, or left out: nodeclaim-controller relays a node's "
     "deadline to Karpenter, not the string 'self'\n"},
    {"policy", "spec: {interruption: {spot: evict}}",
     "d:3:29: error: spec.interruption.spot: must be ignore, report, cordon or drain, not the "
     "string 'evict'\n"},
    {"a bare off is the word, where that is one", "spec: {drain: {mode: off}}", ""},
    {"a gate's names",
     "spec: {fit: {daemonSets: [aws-node], csiDrivers: [a b], conditions: [nodeclaimd.io/Fit, "
     "BootstrapComplete], onTimeout: shut}}",
     "d:3:27: error: spec.fit.daemonSets[0]: must be all, or NAMESPACE/NAME such as "
     "kube-system/aws-node, not the string 'aws-node'\n"
     "d:3:51: error: spec.fit.csiDrivers[0]: must be the name of a CSI driver such as "
     "ebs.csi.aws.com, not the string 'a b'\n"
     "d:3:70: error: spec.fit.conditions[0]: must be the type of a Node's condition that others "
     "set, not the string 'nodeclaimd.io/Fit'\n"
     "d:3:89: error: spec.fit.conditions[1]: must be the type of a Node's condition that others "
     "set, not the string 'BootstrapComplete'\n"
     "d:3:120: error: spec.fit.onTimeout: must be open or hold, not the string 'shut'\n"},
    {"one text is no list elsewhere", "spec: {fit: {daemonSets: all, resources: a}}",
     "d:3:42: error: spec.fit.resources: must be a list of strings, not the string 'a'\n"},
    {"but no word else", "spec: {drain: {mode: on}, interruption: {spot: off}}",
     "d:3:22: error: spec.drain.mode: must be auto, always, observe or off, not true\n"
     "d:3:48: error: spec.interruption.spot: must be ignore, report, cordon or drain, not "
     "false\n"},
    {"a secret stays one", "spec: {cluster: {auth: {bootstrapToken: my-secret}}}",
     "d:3:41: error: spec.cluster.auth.bootstrapToken: must be a bootstrap token: six characters, "
     "a dot, sixteen characters, all of "
     "a-z and 0-9\n"},
    {"path", "spec: {cluster: {auth: {clientKey: key.pem}}}",
     "d:3:36: error: spec.cluster.auth.clientKey: must be an absolute path, not the string "
     "'key.pem'\n"},
    {"labels", "spec: {node: {labels: {-a: b, c: 'd e', f: [], g: true}}}",
     "d:3:24: error: spec.node.labels.-a: the key must be a label key such as example.com/name\n"
     "d:3:34: error: spec.node.labels.c: must be at most 63 letters, digits, - _ ., not the string "
     "'d e'\n"
     "d:3:44: error: spec.node.labels.f: must be a string, not a list\n"},
    {"taints",
     "spec: {node: {taints: [{key: a, effect: NoExecute}, {key: a, effect: NoExecute, value: b}]}}",
     "d:3:53: error: spec.node.taints[1]: taint a:NoExecute is there twice\n"},
    {"unit", "spec: {kubelet: {unit: kubelet}}",
     "d:3:24: error: spec.kubelet.unit: must be the name of a service such as kubelet.service, not "
     "the string 'kubelet'\n"},
    {"value", "spec: {maxPods: {value: 0}}",
     "d:3:25: error: spec.maxPods.value: must be between 1 and 2147483647, not 0\n"},
    {"reservation keys are few", "spec: {reservation: {kubeReserved: {gpu: '1'}}}",
     "d:3:37: error: spec.reservation.kubeReserved.gpu: unknown key, did you mean \"cpu\"? Known "
     "are cpu, memory, ephemeral-storage or pid\n"},
    {"provider id", "spec: {node: {providerID: i-0}}",
     "d:3:27: error: spec.node.providerID: must be a provider id such as "
     "aws:///us-west-2a/i-0123456789abcdef0, not the string 'i-0'\n"},
    {"partition", "spec: {aws: {partition: AWS, domain: 'a b', ec2Endpoint: ftp}}",
     "d:3:25: warning: spec.aws.partition: is not supported: nothing depends on it; aws.domain, "
     "aws.ec2Endpoint and aws.stsEndpoint do what a partition would\n"
     "d:3:38: error: spec.aws.domain: must be a domain such as amazonaws.com.cn, not the string 'a "
     "b'\n"
     "d:3:58: error: spec.aws.ec2Endpoint: must be a URL such as "
     "https://ec2.us-west-2.amazonaws.com, not the string 'ftp'\n"},
};

/* What kubelet's pull manager refuses (k8s.io/kubernetes pkg/kubelet/images/pullmanager). */
static void images_that_kubelet_refuses(void **state) {
    static const char *const patterns[] = {"https://x",
                                           "r.example.com",
                                           "a/b",
                                           "r.example.com/",
                                           "r.example.com//a",
                                           "r.example.com/a/",
                                           "r.example.com/-a",
                                           "r.example.com/a-",
                                           "r.example.com/a..b",
                                           "r.example.com/a___b",
                                           "r.example.com/A",
                                           "r.example.com/a:v1",
                                           "r.example.com:/a",
                                           "r.example.com:x/a",
                                           "-r.example.com/a",
                                           "docker.io/a",
                                           "index.docker.io/library/a",
                                           "*",
                                           "/*",
                                           " r.example.com/a"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(patterns); i++) {
        nc_auto_free char *document = nc_asprintf(
            NODE_CONFIG
            "spec: {kubelet: {config: {preloadedImagesVerificationAllowlist: ['%s']}}}\n",
            patterns[i]);
        nc_auto_free char *expected = nc_asprintf(
            "d:3:66: error: spec.kubelet.config.preloadedImagesVerificationAllowlist[0]: must be "
            "an image without tag, such as registry.example.com/name, not the string '%s'\n",
            patterns[i]);

        assert_int_equal(differs(patterns[i], document, expected), 0);
    }
}

static void agent_config(void **state) {
    (void)state;
    check(AGENT_CONFIG, agent_config_rows, NC_ARRAY_SIZE(agent_config_rows));
}

#define CLAIM "apiVersion: karpenter.sh/v1\nkind: NodeClaim\n"
#define CLAIM_BETA "apiVersion: karpenter.sh/v1beta1\nkind: NodeClaim\n"
#define REF "nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: x}"
/* `more` begins at column 79. */
#define SPEC(more) "spec: {" REF ", " more "}"

static const struct row claim_rows[] = {
    {"minimal", "spec: {" REF "}", ""},
    {"no reference", "spec: {}", "d:3:7: error: spec: \"nodeClassRef\" is missing\n"},
    {"half a reference", "spec: {nodeClassRef: {name: x, group: a/b}}",
     "d:3:39: error: spec.nodeClassRef.group: must be an API group such as karpenter.k8s.aws, not "
     "the string 'a/b'\n"
     "d:3:22: error: spec.nodeClassRef: \"kind\" is missing\n"},
    {"kubelet is of v1beta1", SPEC("kubelet: {}"),
     "d:3:79: warning: spec.kubelet: unknown field of NodeClaim's spec\n"},
    {"durations", SPEC("terminationGracePeriod: 24h0m0s, expireAfter: Never"), ""},
    {"bad durations", SPEC("terminationGracePeriod: Never, expireAfter: 10ms"),
     "d:3:103: error: spec.terminationGracePeriod: must be a duration of hours, minutes and "
     "seconds such as 24h0m0s, not the string "
     "'Never'\n"
     "d:3:123: error: spec.expireAfter: must be Never or a duration of hours, minutes and seconds "
     "such as 720h, not the string "
     "'10ms'\n"},
    {"requirements",
     SPEC("requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}, {key: "
          "karpenter.k8s.aws/instance-cpu, "
          "operator: Gt, values: [2]}, {key: karpenter.k8s.aws/instance-generation, operator: Lte, "
          "values: ['7']}, {key: "
          "beta.kubernetes.io/arch, operator: Exists}, {key: my.example/x, operator: DoesNotExist, "
          "values: []}]"),
     ""},
    {"operator", SPEC("requirements: [{key: a, operator: in}]"),
     "d:3:113: error: spec.requirements[0].operator: must be In, NotIn, Exists, DoesNotExist, Gt, "
     "Lt, Gte or Lte (did you mean "
     "\"In\"?), not the string 'in'\n"},
    {"In without values", SPEC("requirements: [{key: a, operator: In}]"),
     "d:3:113: error: spec.requirements[0].values: operator In needs at least one value\n"},
    {"Exists with values", SPEC("requirements: [{key: a, operator: Exists, values: [x]}]"),
     "d:3:113: error: spec.requirements[0].values: operator Exists allows no values\n"},
    {"Gt without an integer",
     SPEC("requirements: [{key: a, operator: Gt, values: [x]}, {key: b, operator: Lt, values: "
          "[-1]}]"),
     "d:3:163: error: spec.requirements[1].values[0]: must be at most 63 letters, digits, - _ ., "
     "not the number -1\n"
     "d:3:113: error: spec.requirements[0].values: operator Gt needs exactly one value, an integer "
     "that is not negative\n"
     "d:3:150: error: spec.requirements[1].values: operator Lt needs exactly one value, an integer "
     "that is not negative\n"},
    {"Gt with two values", SPEC("requirements: [{key: a, operator: Gte, values: ['1', '2']}]"),
     "d:3:113: error: spec.requirements[0].values: operator Gte needs exactly one value, an "
     "integer that is not negative\n"},
    {"minValues", SPEC("requirements: [{key: a, operator: In, values: [x], minValues: 2}]"),
     "d:3:141: warning: spec.requirements[0]: minValues requires 2 values, only 1 are listed\n"},
    {"keys",
     SPEC("requirements: [{key: a b, operator: Exists}, {key: kubernetes.io/hostname, operator: "
          "Exists}, {key: karpenter.sh/x, "
          "operator: Exists}, {key: notkarpenter.sh/x, operator: Exists}]"),
     "d:3:100: error: spec.requirements[0].key: must be a label key such as "
     "topology.kubernetes.io/zone\n"
     "d:3:130: warning: spec.requirements[1].key: kubernetes.io/hostname cannot be required of a "
     "node that does not exist yet\n"
     "d:3:179: warning: spec.requirements[2].key: of karpenter.sh only capacity-type and nodepool "
     "may be required\n"},
    {"taints",
     SPEC("taints: [{key: a, effect: NoSchedule}], startupTaints: [{key: a, effect: NoExecute}, "
          "{key: a, effect: NoSchedule}]"),
     "d:3:164: error: spec.startupTaints[1]: taint a:NoSchedule is there twice\n"},
    {"quantities", SPEC("resources: {requests: {cpu: '1', pods: 2, memory: 1.5Gi, a/b: x}}"),
     "d:3:141: error: spec.resources.requests: 'a/b' must be a quantity such as \"1\" or \"1Gi\", "
     "not the string 'x'\n"},
    {"status",
     "spec: {" REF
     "}\nstatus: {capacity: {cpu: []}, allocatable: 1, conditions: [{type: Launched}]}",
     "d:4:44: error: status.allocatable: must be a map, not the number 1\n"
     "d:4:26: error: status.capacity: 'cpu' must be a quantity such as \"1\" or \"1Gi\", not a "
     "list\n"},
    {"annotation",
     "spec: {" REF
     "}\nmetadata: {annotations: {compatibility.karpenter.sh/v1beta1-kubelet-conversion: '{'}}",
     "d:4:81: error: metadata.annotations['compatibility.karpenter.sh/v1beta1-kubelet-conversion'] "
     "must be a JSON object\n"},
    {"kubelet block in the annotation",
     "spec: {" REF
     "}\nmetadata: {annotations: {compatibility.karpenter.sh/v1beta1-kubelet-conversion: "
     "'{\"maxPods\": \"x\"}'}}",
     "d:4:81: error: metadata.annotations.maxPods: must be an integer, not the string 'x'\n"},
};

static void node_claim(void **state) {
    (void)state;
    check(CLAIM, claim_rows, NC_ARRAY_SIZE(claim_rows));
}

static const struct row beta_rows[] = {
    {"the twelve",
     "spec: {nodeClassRef: {name: x}, kubelet: {clusterDNS: [10.0.1.100], maxPods: 20, "
     "podsPerCore: 2, systemReserved: {cpu: 100m}, "
     "kubeReserved: {cpu: 200m}, evictionHard: {memory.available: 5%}, evictionSoft: "
     "{memory.available: 500Mi}, "
     "evictionSoftGracePeriod: {memory.available: 1m}, evictionMaxPodGracePeriod: 60, "
     "imageGCHighThresholdPercent: 85, "
     "imageGCLowThresholdPercent: 80, cpuCFSQuota: true}}",
     ""},
    {"containerRuntime", "spec: {nodeClassRef: {name: x}, kubelet: {containerRuntime: containerd}}",
     ""},
    {"another runtime", "spec: {nodeClassRef: {name: x}, kubelet: {containerRuntime: dockerd}}",
     "d:3:61: warning: spec.kubelet.containerRuntime: is not supported: the runtime is "
     "containerd\n"},
    {"not of the twelve", "spec: {nodeClassRef: {name: x}, kubelet: {logging: {}}}",
     "d:3:43: warning: spec.kubelet.logging: unknown field of the kubelet block of v1beta1\n"},
    {"durations are of v1", "spec: {nodeClassRef: {name: x}, expireAfter: 1h}",
     "d:3:33: warning: spec.expireAfter: unknown field of NodeClaim's spec (v1beta1)\n"},
    {"reference without a name", "spec: {nodeClassRef: {}}",
     "d:3:22: error: spec.nodeClassRef: \"name\" is missing\n"},
};

static void node_claim_beta(void **state) {
    (void)state;
    check(CLAIM_BETA, beta_rows, NC_ARRAY_SIZE(beta_rows));
}

static const struct row class_rows[] = {
    {"kubelet", "spec: {subnetSelectorTerms: [], kubelet: {maxPods: true, maxpods: 1}}",
     "d:3:52: error: spec.kubelet.maxPods: must be an integer, not true\n"
     "d:3:58: warning: spec.kubelet.maxpods: unknown field, did you mean \"maxPods\"?\n"},
    {"all fields",
     "spec: {amiFamily: AL2023, amiSelectorTerms: [{tags: {a: b}}, {id: ami-1}, {name: a, owner: "
     "self}, {ssmParameter: /a}], associatePublicIPAddress: true, blockDeviceMappings: "
     "[{deviceName: /dev/xvda, rootVolume: true, ebs: {deleteOnTermination: true, encrypted: true, "
     "iops: 3000, kmsKeyID: a, snapshotID: snap-1, throughput: 125, volumeInitializationRate: 100, "
     "volumeSize: 20Gi, volumeType: gp3}}], capacityReservationSelectorTerms: [{tags: {a: b}, "
     "ownerID: '123456789012', instanceMatchCriteria: open}, {id: cr-1}], connectionTracking: "
     "{tcpEstablishedTimeout: 60, udpStreamTimeout: 60, udpTimeout: 30}, context: a, cpuOptions: "
     "{nestedVirtualization: enabled}, detailedMonitoring: false, enclaveOptions: {enabled: true}, "
     "instanceStorePolicy: RAID0, ipPrefixCount: 0, kubelet: {}, metadataOptions: {httpEndpoint: "
     "enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 64, httpTokens: optional}, "
     "networkInterfaces: [{deviceIndex: 0, networkCardIndex: 0, interfaceType: efa-only}], "
     "placementGroupSelector: {id: pg-1, name: a}, role: a, securityGroupSelectorTerms: [{tags: "
     "{a: b}}, {id: sg-1}, {name: a}], subnetSelectorTerms: [{tags: {a: b}}, {id: subnet-1}], "
     "tags: "
     "{a: b}, userData: a}",
     ""},
    {"unknown fields",
     "spec: {kublet: {}, maxPods: 1, subnetSelectorTerms: [{tag: {}, alias: a@b}], "
     "blockDeviceMappings: [{ebs: {size: 20Gi}, volumeType: gp3}], metadataOptions: {httpToken: "
     "required}}",
     "d:3:8: warning: spec.kublet: unknown field, did you mean \"kubelet\"?\n"
     "d:3:20: warning: spec.maxPods: unknown field of EC2NodeClass's spec; it is "
     "spec.kubelet.maxPods\n"
     "d:3:55: warning: spec.subnetSelectorTerms[0].tag: unknown field, did you mean \"tags\"?\n"
     "d:3:64: warning: spec.subnetSelectorTerms[0].alias: unknown field of the term\n"
     "d:3:107: warning: spec.blockDeviceMappings[0].ebs.size: unknown field of ebs\n"
     "d:3:120: warning: spec.blockDeviceMappings[0].volumeType: unknown field of the "
     "mapping; it is spec.blockDeviceMappings[0].ebs.volumeType\n"
     "d:3:157: warning: spec.metadataOptions.httpToken: unknown field, did you mean "
     "\"httpTokens\"?\n"},
    {"values that the API server refuses",
     "spec: {amiFamily: al2023, amiSelectorTerms: {id: ami-1}, detailedMonitoring: 'true', "
     "metadataOptions: {httpTokens: requires, httpPutResponseHopLimit: '2'}, blockDeviceMappings: "
     "[{ebs: {volumeSize: 20GB, volumeType: GP3}}], networkInterfaces: [{deviceIndex: 0}]}",
     "d:3:19: warning: spec.amiFamily: must be AL2023, Custom, AL2, Bottlerocket, Windows2019, "
     "Windows2022 or Windows2025 (did you mean \"AL2023\"?), not the string 'al2023'\n"
     "d:3:45: warning: spec.amiSelectorTerms: must be a list, not a map\n"
     "d:3:78: warning: spec.detailedMonitoring: must be true or false, not the string 'true'\n"
     "d:3:116: warning: spec.metadataOptions.httpTokens: must be required or optional (did you "
     "mean \"required\"?), not the string 'requires'\n"
     "d:3:151: warning: spec.metadataOptions.httpPutResponseHopLimit: must be an integer, not the "
     "string '2'\n"
     "d:3:198: warning: spec.blockDeviceMappings[0].ebs.volumeSize: must be a size such as 20Gi, "
     "not the string '20GB'\n"
     "d:3:216: warning: spec.blockDeviceMappings[0].ebs.volumeType: must be standard, io1, io2, "
     "gp2, sc1, st1 or gp3 (did you mean \"gp3\"?), not the string 'GP3'\n"
     "d:3:244: warning: spec.networkInterfaces[0]: \"networkCardIndex\" is missing\n"
     "d:3:244: warning: spec.networkInterfaces[0]: \"interfaceType\" is missing\n"},
    {"expressions",
     "spec: {kubelet: {maxPods: 'min(110, max_pods)', kubeReserved: {cpu: vcpus * 30}}}", ""},
    {"a negative reservation", "spec: {kubelet: {kubeReserved: {cpu: -vcpus}}}",
     "d:3:38: error: spec.kubelet.kubeReserved.cpu: must be a quantity such as \"100m\" or "
     "\"1Gi\", not the string '-vcpus'\n"},
    {"a number with another unit", "spec: {kubelet: {kubeReserved: {memory: 1GB, cpu: 100 m}}}",
     "d:3:41: error: spec.kubelet.kubeReserved.memory: must be a quantity such as \"100m\" or "
     "\"1Gi\", not the string '1GB'\n"
     "d:3:51: error: spec.kubelet.kubeReserved.cpu: must be a quantity such as \"100m\" or "
     "\"1Gi\", not the string '100 m'\n"},
    {"no expression where Karpenter evaluates none", "spec: {kubelet: {podsPerCore: vcpus}}",
     "d:3:31: error: spec.kubelet.podsPerCore: must be an integer, not the string 'vcpus'\n"},
    {"taints are Karpenter's", "spec: {kubelet: {registerWithTaints: []}}",
     "d:3:38: warning: spec.kubelet.registerWithTaints: Karpenter sets this itself\n"},
    {"role and profile", "spec: {role: a, instanceProfile: b}",
     "d:3:7: warning: spec: role and instanceProfile exclude each other\n"},
    {"tags", "spec: {tags: {Name: x, karpenter.sh/nodepool: z, kubernetes.io/cluster/z: owned}}",
     "d:3:24: warning: spec.tags: tag karpenter.sh/nodepool is Karpenter's own\n"
     "d:3:50: warning: spec.tags: tag kubernetes.io/cluster/z is Karpenter's own\n"},
    {"root volumes",
     "spec: {blockDeviceMappings: [{rootVolume: true}, {rootVolume: false}, {rootVolume: true}]}",
     "d:3:29: warning: spec.blockDeviceMappings: 2 root volumes, there is one\n"},
    {"alias",
     "spec: {amiFamily: AL2023, amiSelectorTerms: [{alias: al2023@latest}, {alias: "
     "bottlerocket@latest}, {id: x}]}",
     "d:3:54: warning: spec.amiSelectorTerms: the image of alias al2023@latest is AWS's and has no "
     "nodeclaimd; select yours by tags\n"
     "d:3:78: warning: spec.amiSelectorTerms: the image of alias bottlerocket@latest is AWS's and "
     "has no nodeclaimd; select yours by tags\n"},
    {"another family", "spec: {amiFamily: Bottlerocket}",
     "d:3:19: warning: spec.amiFamily: nodeclaimd is for AL2023 and Custom, not Bottlerocket\n"},
    {"no family", "spec: {amiFamily: ''}", ""},
    {"custom family", "spec: {amiFamily: Custom, amiSelectorTerms: [{id: x}, {alias: al2023}]}",
     "d:3:63: warning: spec.amiSelectorTerms[1].alias: must be FAMILY@VERSION such as "
     "al2023@latest, not the string 'al2023'\n"
     "d:3:63: warning: spec.amiSelectorTerms: the image of alias al2023 is AWS's and has no "
     "nodeclaimd; select yours by tags\n"},
    {"wrong types are said once", "spec: {tags: 1, amiFamily: 2, blockDeviceMappings: 3}",
     "d:3:14: warning: spec.tags: must be a map, not the number 1\n"
     "d:3:28: warning: spec.amiFamily: must be AL2023, Custom, AL2, Bottlerocket, Windows2019, "
     "Windows2022 or Windows2025, not the number 2\n"
     "d:3:52: warning: spec.blockDeviceMappings: must be a list, not the number 3\n"},
};

static void node_class(void **state) {
    (void)state;
    check("apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\n", class_rows,
          NC_ARRAY_SIZE(class_rows));
    assert_int_equal(
        differs("rules of EC2NodeClass do not bind others",
                "apiVersion: eks.amazonaws.com/v1\nkind: NodeClass\n"
                "spec: {role: a, instanceProfile: b, tags: {karpenter.sh/nodepool: z}}\n",
                ""),
        0);
    assert_int_equal(differs("others are open but for kubelet",
                             "apiVersion: eks.amazonaws.com/v1\nkind: NodeClass\n"
                             "spec: {amiFamily: Flatcar, whatever: 1, kubelet: {maxpods: 1}}\n",
                             "d:3:51: warning: spec.kubelet.maxpods: unknown field, did you mean "
                             "\"maxPods\"?\n"),
                     0);
}

static void many_taints_and_requirements(void **state) {
    nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT;

    (void)state;
    assert_int_equal(nc_buf_puts(&b, CLAIM "spec:\n  " REF "\n  taints:\n"), 0);
    for (int i = 0; i < 257; i++)
        assert_int_equal(nc_buf_printf(&b, "  - {key: k%d, effect: NoExecute}\n", i), 0);
    assert_int_equal(nc_buf_puts(&b, "  requirements:\n"), 0);
    for (int i = 0; i < 101; i++)
        assert_int_equal(nc_buf_printf(&b, "  - {key: k%d, operator: Exists}\n", i), 0);
    assert_int_equal(
        differs("many", b.data,
                "d:264:3: warning: spec.requirements: 101 requirements, Karpenter allows 100\n"
                "d:6:3: error: spec.taints: 257 taints, at most 256 are accepted\n"),
        0);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(node_config),
        cmocka_unit_test(kubelet),
        cmocka_unit_test(images_that_kubelet_refuses),
        cmocka_unit_test(agent_config),
        cmocka_unit_test(node_claim),
        cmocka_unit_test(node_claim_beta),
        cmocka_unit_test(node_class),
        cmocka_unit_test(many_taints_and_requirements),
    };

    return run_group(tests, NULL, NULL);
}
