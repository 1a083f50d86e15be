"""What a kubelet accepts: flags, configuration, drop-ins, labels, taints, quantities.

Knows: the flags and the fields of KubeletConfiguration v1beta1, the checks that stop a real kubelet.
Gives: `parse_flags`, `load_config`, `validate`, `reservation`, `label_error`, `taint_error`, quantities.
Must not: talk to anybody.
"""

from __future__ import annotations

import ipaddress
import json
import re
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any, Mapping, Optional

from authz import KUBELET_LABEL_DOMAINS, KUBELET_LABELS
from patching import merge_patch


class Refused(Exception):
    """What a real kubelet would print before it exits with 1."""


BOOLEAN_FLAGS = {
    "cgroups-per-qos",
    "contention-profiling",
    "cpu-cfs-quota",
    "enable-controller-attach-detach",
    "enable-debugging-handlers",
    "enable-server",
    "fail-swap-on",
    "fail-cgroupv1",
    "kernel-memcg-notification",
    "local-storage-capacity-isolation",
    "make-iptables-util-chains",
    "protect-kernel-defaults",
    "register-node",
    "rotate-certificates",
    "rotate-server-certificates",
    "runonce",
    "seccomp-default",
    "serialize-image-pulls",
    "anonymous-auth",
    "authentication-token-webhook",
    "exit-on-lock-contention",
    "log-cadvisor-usage",
}
VALUE_FLAGS = set("""
    address allowed-unsafe-sysctls authentication-token-webhook-cache-ttl authorization-mode
    authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl bootstrap-kubeconfig cert-dir
    cgroup-driver cgroup-root client-ca-file cloud-config cloud-provider cluster-dns cluster-domain config config-dir
    container-log-max-files container-log-max-size container-runtime-endpoint cpu-cfs-quota-period cpu-manager-policy
    cpu-manager-policy-options cpu-manager-reconcile-period enforce-node-allocatable event-burst event-qps eviction-hard
    eviction-max-pod-grace-period eviction-minimum-reclaim eviction-pressure-transition-period eviction-soft
    eviction-soft-grace-period feature-gates file-check-frequency hairpin-mode healthz-bind-address healthz-port
    hostname-override housekeeping-interval http-check-frequency image-credential-provider-bin-dir
    image-credential-provider-config image-gc-high-threshold image-gc-low-threshold image-service-endpoint kube-api-burst
    kube-api-content-type kube-api-qps kube-reserved kube-reserved-cgroup kubeconfig kubelet-cgroups lock-file
    log-flush-frequency logging-format manifest-url manifest-url-header max-open-files max-pods memory-manager-policy
    minimum-image-ttl-duration node-ip node-labels node-status-max-images node-status-update-frequency oom-score-adj pod-cidr
    pod-infra-container-image pod-manifest-path pod-max-pids pods-per-core port provider-id qos-reserved read-only-port
    register-with-taints registry-burst registry-qps reserved-cpus reserved-memory resolv-conf root-dir runtime-cgroups
    runtime-request-timeout streaming-connection-idle-timeout sync-frequency system-cgroups system-reserved
    system-reserved-cgroup tls-cert-file tls-cipher-suites tls-min-version tls-private-key-file topology-manager-policy
    topology-manager-policy-options topology-manager-scope v vmodule volume-plugin-dir volume-stats-agg-period
""".split())

FIELDS = set("""
    kind apiVersion enableServer staticPodPath podLogsDir syncFrequency fileCheckFrequency httpCheckFrequency staticPodURL
    staticPodURLHeader address port readOnlyPort tlsCertFile tlsPrivateKeyFile tlsCipherSuites tlsMinVersion rotateCertificates
    serverTLSBootstrap authentication authorization registryPullQPS registryBurst imagePullCredentialsVerificationPolicy
    preloadedImagesVerificationAllowlist eventRecordQPS eventBurst enableDebuggingHandlers enableContentionProfiling healthzPort
    healthzBindAddress oomScoreAdj clusterDomain clusterDNS streamingConnectionIdleTimeout nodeStatusUpdateFrequency
    nodeStatusReportFrequency nodeLeaseDurationSeconds imageMinimumGCAge imageMaximumGCAge imageGCHighThresholdPercent
    imageGCLowThresholdPercent volumeStatsAggPeriod kubeletCgroups systemCgroups cgroupRoot cgroupsPerQOS cgroupDriver
    cpuManagerPolicy singleProcessOOMKill cpuManagerPolicyOptions cpuManagerReconcilePeriod memoryManagerPolicy
    topologyManagerPolicy topologyManagerScope topologyManagerPolicyOptions qosReserved runtimeRequestTimeout hairpinMode maxPods
    podCIDR podPidsLimit resolvConf runOnce cpuCFSQuota cpuCFSQuotaPeriod nodeStatusMaxImages maxOpenFiles contentType kubeAPIQPS
    kubeAPIBurst serializeImagePulls maxParallelImagePulls evictionHard evictionSoft evictionSoftGracePeriod
    evictionPressureTransitionPeriod evictionMaxPodGracePeriod evictionMinimumReclaim mergeDefaultEvictionSettings podsPerCore
    enableControllerAttachDetach protectKernelDefaults makeIPTablesUtilChains iptablesMasqueradeBit iptablesDropBit featureGates
    failSwapOn memorySwap containerLogMaxSize containerLogMaxFiles containerLogMaxWorkers containerLogMonitorInterval
    configMapAndSecretChangeDetectionStrategy systemReserved kubeReserved reservedSystemCPUs showHiddenMetricsForVersion
    systemReservedCgroup kubeReservedCgroup enforceNodeAllocatable allowedUnsafeSysctls volumePluginDir providerID
    kernelMemcgNotification logging enableSystemLogHandler enableSystemLogQuery shutdownGracePeriod
    shutdownGracePeriodCriticalPods shutdownGracePeriodByPodPriority crashLoopBackOff reservedMemory enableProfilingHandler
    enableDebugFlagsHandler seccompDefault memoryThrottlingFactor registerWithTaints registerNode tracing
    localStorageCapacityIsolation containerRuntimeEndpoint imageServiceEndpoint failCgroupV1 userNamespaces
""".split())

SIGNALS = {
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "containerfs.available",
    "containerfs.inodesFree",
    "pid.available",
    "allocatableMemory.available",
}
DEFAULT_EVICTION = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
RESERVABLE = {"cpu", "memory", "ephemeral-storage", "pid"}
SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    **{s + "i": Fraction(1024 ** (i + 1)) for i, s in enumerate("KMGTPE")},
}


def quantity(text: object) -> Fraction:
    match = re.fullmatch(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?\d+))?", str(text))
    if not match:
        raise Refused(f"quantities must match the regular expression: {text!r}")
    value = Fraction(match[1]) * (Fraction(10) ** int(match[3]) if match[3] else SUFFIXES[match[2] or ""])
    return value


def show_bytes(value: Fraction) -> str:
    """As a binary quantity is printed: the largest suffix that leaves an integer."""
    whole = -(-value.numerator // value.denominator)
    for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
        if whole and whole % int(SUFFIXES[suffix]) == 0:
            return f"{whole // int(SUFFIXES[suffix])}{suffix}"
    return str(whole)


def show_cpu(value: Fraction) -> str:
    milli = int(value * 1000)
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def duration_sec(text: object) -> float:
    if text == "0" or text == 0:
        return 0.0
    if not isinstance(text, str) or not re.fullmatch(r"-?(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+", text):
        raise Refused(f"time: invalid duration {text!r}")
    unit = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
    total = sum(float(n) * unit[u] for n, u in re.findall(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)", text))
    return -total if text.startswith("-") else total


# --- flags
def parse_flags(argv: list[str]) -> dict[str, str]:
    """Flags by name; a flag given twice counts last. Raises `Refused` as pflag would."""
    out: dict[str, str] = {}
    rest = list(argv)
    while rest:
        arg = rest.pop(0)
        if not arg.startswith("-") or arg in ("-", "--"):
            raise Refused(f"unknown command {arg}")
        name, equals, value = arg.lstrip("-").partition("=")
        if (
            arg.startswith("-") and not arg.startswith("--") and name != "v"
        ) or name not in BOOLEAN_FLAGS | VALUE_FLAGS:
            raise Refused(f"failed to parse kubelet flag: unknown flag: --{name}")
        if not equals and name in BOOLEAN_FLAGS:
            value = "true"
        elif not equals:
            if not rest:
                raise Refused(f"failed to parse kubelet flag: flag needs an argument: --{name}")
            value = rest.pop(0)
        if name in BOOLEAN_FLAGS and value not in ("true", "false", "1", "0", "t", "f"):
            raise Refused(f'failed to parse kubelet flag: invalid argument "{value}" for "--{name}" flag')
        out[name] = value
    return out


def parse_map(text: str, what: str) -> dict[str, str]:
    out = {}
    for pair in filter(None, text.split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise Refused(f"invalid argument {text!r} for {what}: malformed pair, expect string=string")
        out[key.strip()] = value.strip()
    return out


def parse_taint(text: str) -> dict[str, str]:
    match = re.fullmatch(r"([^=:]+)(?:=([^:]*))?:([A-Za-z]+)", text)
    if not match:
        raise Refused(f"invalid taint spec: {text}")
    taint = {"key": match[1], "effect": match[3]}
    if match[2]:
        taint["value"] = match[2]
    return taint


# --- labels and taints
NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")
DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def label_error(key: str, value: object) -> str:
    domain, slash, name = key.rpartition("/")
    if not NAME.fullmatch(name) or (slash and (not DOMAIN.fullmatch(domain) or len(domain) > 253)):
        return f"{key!r}: a qualified name must consist of alphanumeric characters, '-', '_' or '.'"
    if not isinstance(value, str) or (value and not NAME.fullmatch(value)):
        return (
            f"{value!r}: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.'"
        )
    return ""


def taint_error(taint: Mapping[str, Any]) -> str:
    if taint.get("effect") not in EFFECTS:
        return f"taint effect {taint.get('effect')!r}: must be one of {', '.join(EFFECTS)}"
    return label_error(str(taint.get("key", "")), taint.get("value", ""))


def check_node_labels(labels: Mapping[str, str]) -> None:
    bad = []
    for key, value in labels.items():
        wrong = label_error(key, value)
        if wrong:
            raise Refused(f"invalid node label: {wrong}")
        domain = key.partition("/")[0] if "/" in key else ""
        ours = any(domain == d or domain.endswith("." + d) for d in ("kubernetes.io", "k8s.io"))
        if (
            ours
            and key not in KUBELET_LABELS
            and not any(domain == d or domain.endswith("." + d) for d in KUBELET_LABEL_DOMAINS)
        ):
            bad.append(key)
    if bad:
        raise Refused(f"unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: {sorted(bad)}")


# --- configuration
def load_config(
    base: Optional[Path], folder: Optional[Path], version: tuple[int, int], alpha: str
) -> tuple[dict[str, Any], list[str]]:
    """The merged configuration and the warnings of lenient decoding."""
    warnings: list[str] = []
    config = _read(base, warnings) if base else {}
    if folder:
        if version < (1, 28) or (version < (1, 30) and alpha != "on"):
            raise Refused("the config-dir flag requires the environment variable KUBELET_CONFIG_DROPIN_DIR_ALPHA")
        for path in sorted(folder.rglob("*.conf")):
            config = merge_patch(config, _read(path, warnings))
    return config, warnings


def _read(path: Path, warnings: list[str]) -> dict[str, Any]:
    try:
        doc = json.loads(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise Refused(f"failed to load kubelet config file, path: {path}, error: {exc.strerror}") from exc
    except ValueError as exc:
        raise Refused(f"failed to load kubelet config file, path: {path}, error: {exc}") from exc
    if doc.get("kind") != "KubeletConfiguration" or doc.get("apiVersion") != "kubelet.config.k8s.io/v1beta1":
        raise Refused(
            f"failed to load kubelet config file, path: {path}: no kind is registered for {doc.get('kind')!r} in "
            f"{doc.get('apiVersion')!r}"
        )
    for name in sorted(set(doc) - FIELDS):
        warnings.append(f'Using lenient decoding as strict decoding failed: unknown field "{name}" in {path}')
    return doc


def overlay_flags(config: dict[str, Any], flags: Mapping[str, str]) -> dict[str, Any]:
    """Flags beat files."""
    out = dict(config)
    for flag, name, convert in (
        ("max-pods", "maxPods", int),
        ("pods-per-core", "podsPerCore", int),
        ("provider-id", "providerID", str),
        ("cluster-domain", "clusterDomain", str),
        ("container-runtime-endpoint", "containerRuntimeEndpoint", str),
    ):
        if flag in flags:
            out[name] = convert(flags[flag])  # type: ignore[operator]
    for flag, name in (("kube-reserved", "kubeReserved"), ("system-reserved", "systemReserved")):
        if flag in flags:
            out[name] = parse_map(flags[flag], flag)
    if "eviction-hard" in flags:
        out["evictionHard"] = dict(pair.split("<", 1) for pair in flags["eviction-hard"].split(","))
    if "register-with-taints" in flags:
        out["registerWithTaints"] = [parse_taint(t) for t in flags["register-with-taints"].split(",") if t]
    return out


def threshold(text: object, capacity: Fraction) -> Fraction:
    value = str(text)
    if not value.endswith("%"):
        return quantity(value)
    try:
        percent = Fraction(value[:-1])
    except ValueError as exc:
        raise Refused(f"invalid eviction threshold {value!r}") from exc
    if not 0 <= percent <= 100:
        raise Refused(f"eviction percentage threshold must be between 0% and 100%: {value}")
    # A real kubelet keeps the percentage as a float32 and multiplies in float64.
    share = struct.unpack("f", struct.pack("f", float(percent) / 100))[0]
    return Fraction(0) if percent == 100 else Fraction(int(float(capacity) * share))


def validate(config: dict[str, Any]) -> None:
    """The checks of a real kubelet that a rendered configuration could run into."""
    if not config.get("containerRuntimeEndpoint"):
        raise Refused(
            "the container runtime endpoint address was not specified or empty, use --container-runtime-endpoint to set"
        )
    _validate_types(config)
    high, low = config.get("imageGCHighThresholdPercent", 85), config.get("imageGCLowThresholdPercent", 80)
    if not 0 <= low < high <= 100:
        raise Refused(
            f"invalid configuration: imageGCLowThresholdPercent {low} must be less than imageGCHighThresholdPercent {high}"
        )
    grace = config.get("evictionSoftGracePeriod") or {}
    for signal in config.get("evictionSoft") or {}:
        if signal not in grace:
            raise Refused(
                f"failed to run Kubelet: grace period must be specified for the soft eviction threshold {signal}"
            )
    for name in ("evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim"):
        for signal, value in (config.get(name) or {}).items():
            if signal not in SIGNALS:
                raise Refused(f"failed to run Kubelet: unknown eviction signal {signal} in {name}")
            if name == "evictionSoftGracePeriod":
                if duration_sec(value) < 0:
                    raise Refused(f"invalid eviction grace period {value}")
            elif threshold(value, Fraction(1)) < 0:
                raise Refused(f"eviction threshold {value} must be positive")
    for name in ("kubeReserved", "systemReserved"):
        for key, value in (config.get(name) or {}).items():
            if key not in RESERVABLE or quantity(value) < 0:
                raise Refused(f'cannot reserve "{key}" resource with {value!r} in {name}')
    whole, critical = (
        duration_sec(config.get(k, "0s")) for k in ("shutdownGracePeriod", "shutdownGracePeriodCriticalPods")
    )
    if critical > whole or 0 < whole < 1 or 0 < critical < 1:
        raise Refused(
            f"invalid configuration: shutdownGracePeriodCriticalPods {critical} must be <= shutdownGracePeriod {whole}"
        )
    for address in config.get("clusterDNS") or []:
        try:
            ipaddress.ip_address(address)
        except ValueError as exc:
            raise Refused(f"invalid cluster DNS address: {address}") from exc
    _validate_taints(config)


def _validate_types(config: dict[str, Any]) -> None:
    """Wrong JSON types are errors even in lenient decoding."""
    for name in (
        "maxPods",
        "podsPerCore",
        "imageGCHighThresholdPercent",
        "imageGCLowThresholdPercent",
        "evictionMaxPodGracePeriod",
    ):
        value = config.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise Refused(f"json: cannot unmarshal or invalid configuration: {name}: {value!r}")
    for name in (
        "evictionHard",
        "evictionSoft",
        "evictionSoftGracePeriod",
        "kubeReserved",
        "systemReserved",
        "evictionMinimumReclaim",
    ):
        value = config.get(name) or {}
        if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
            raise Refused(
                f"json: cannot unmarshal into Go struct field KubeletConfiguration.{name} of type map[string]string"
            )
    for name in (
        "serializeImagePulls",
        "protectKernelDefaults",
        "serverTLSBootstrap",
        "cpuCFSQuota",
        "failSwapOn",
        "seccompDefault",
    ):
        if not isinstance(config.get(name, True), bool):
            raise Refused(f"json: cannot unmarshal into Go struct field KubeletConfiguration.{name} of type bool")


def _validate_taints(config: dict[str, Any]) -> None:
    seen = set()
    for taint in config.get("registerWithTaints") or []:
        wrong = taint_error(taint)
        pair = (taint.get("key"), taint.get("effect"))
        if wrong or pair in seen:
            raise Refused(f"invalid configuration: taint: {wrong or 'duplicated'}: {taint}")
        seen.add(pair)


def reservation(config: Mapping[str, Any], capacity: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """Allocatable by resource: capacity - kubeReserved - systemReserved - hard eviction."""
    hard = config.get("evictionHard")
    if hard is None:
        hard = DEFAULT_EVICTION
    elif config.get("mergeDefaultEvictionSettings"):
        hard = {**DEFAULT_EVICTION, **hard}
    eviction = {"memory": hard.get("memory.available", "0"), "ephemeral-storage": hard.get("nodefs.available", "0")}
    out = {}
    for name, total in capacity.items():
        taken = sum(
            (quantity(config[k].get(name, "0")) for k in ("kubeReserved", "systemReserved") if config.get(k)),
            Fraction(0),
        )
        out[name] = max(Fraction(0), total - taken - threshold(eviction.get(name, "0"), total))
    return out
