#!/usr/bin/python3
"""A stand-in for kubelet: reads what a kubelet reads, refuses what it refuses, registers as it registers.

Knows: flags, --config and --config-dir, --kubeconfig and its three kinds of user, registration, node status.
Gives: a Node that becomes Ready; a log in kubelet's manner on stderr; exit code 1 with a reason when it refuses.
Must not: run pods.

Options of its own come first and are given by a wrapper script, so that the program under test need not know them:
    --standin-root DIR       files named by flags lie below DIR
    --standin-agent PATH     what to execute where the kubeconfig says nodeclaimd
    --standin-capacity K=V,…  instead of this machine's capacity
    --standin-mode normal|crash|silent|notready|stuck    stuck: registers, and reports no status of its own
    --standin-version v1.34.4
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import os
import platform
import shlex
import signal
import ssl
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import Any, Optional
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent))

import kubeletconf  # noqa: E402
import pki  # noqa: E402
import yamlread  # noqa: E402
from kubeletconf import Refused  # noqa: E402


SYNC_SEC = 10  # nodeStatusUpdateFrequency: how often kubelet looks at its own status
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # the machine's, as bootstrap reads it: --root is for files that are written
REPORT_SEC = 300  # nodeStatusReportFrequency: how often it reports one that has not changed


def say(level: str, text: str) -> None:
    stamp = time.strftime("%m%d %H:%M:%S", time.gmtime())
    print(f"{level}{stamp}.000000 {os.getpid():7d} standin.go:1] {text}", file=sys.stderr, flush=True)


class Paths:
    def __init__(self, root: Optional[Path]) -> None:
        self.root = root

    def __call__(self, path: str) -> Path:
        return self.root / path.lstrip("/") if self.root else Path(path)


class User:
    """The kubeconfig's current user: bearer token, client certificate, or an exec credential."""

    def __init__(self, config: Path, paths: Paths, agent: Optional[str]) -> None:
        try:
            doc = yamlread.load(config.read_text(encoding="utf-8"))
            context = self._named(doc, "contexts", doc["current-context"])["context"]
            self.cluster = self._named(doc, "clusters", context["cluster"])["cluster"]
            self.user = self._named(doc, "users", context["user"])["user"]
        except (OSError, ValueError, KeyError, TypeError) as exc:
            raise Refused(
                f"failed to run Kubelet: unable to load kubeconfig {config}: {type(exc).__name__}: {exc}"
            ) from exc
        self.paths, self.agent = paths, agent
        self.server = urlsplit(self.cluster["server"])
        self.token = ""
        self.context = self._tls()

    @staticmethod
    def _named(doc: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
        return next(item for item in doc[kind] if item["name"] == name)

    def _tls(self) -> ssl.SSLContext:
        data = self.cluster.get("certificate-authority-data")
        if data:
            context = ssl.create_default_context(cadata=base64.b64decode(data).decode())
        else:
            context = ssl.create_default_context(cafile=str(self.paths(self.cluster["certificate-authority"])))
        if self.user.get("client-certificate"):
            context.load_cert_chain(self.paths(self.user["client-certificate"]), self.paths(self.user["client-key"]))
        return context

    def header(self, refresh: bool = False) -> dict[str, str]:
        if self.user.get("client-certificate"):
            return {}
        if "exec" in self.user:
            if refresh or not self.token:
                self.token = self._exec(self.user["exec"])
        else:
            self.token = self.user.get("token") or self.paths(self.user["tokenFile"]).read_text().strip()
        return {"Authorization": f"Bearer {self.token}"}

    def _exec(self, spec: dict[str, Any]) -> str:
        if spec.get("apiVersion") not in ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"):
            raise Refused(f"exec plugin: invalid apiVersion {spec.get('apiVersion')!r}")
        if spec["apiVersion"].endswith("/v1") and not spec.get("interactiveMode"):
            raise Refused("interactiveMode must be specified for users to use exec authentication plugin with v1")
        command = spec["command"]
        if self.agent and Path(command).name == "nodeclaimd":
            command = self.agent
        info = {"kind": "ExecCredential", "apiVersion": spec["apiVersion"], "spec": {"interactive": False}}
        env = {
            **os.environ,
            **{e["name"]: e["value"] for e in spec.get("env") or []},
            "KUBERNETES_EXEC_INFO": json.dumps(info),
        }
        done = subprocess.run([command, *(spec.get("args") or [])], env=env, capture_output=True, timeout=30)
        if done.returncode != 0:
            raise OSError(
                f"getting credentials: exec: executable {command} failed with exit code {done.returncode}: "
                f"{done.stderr.decode(errors='replace').strip()}"
            )
        answer = json.loads(done.stdout)
        if answer.get("kind") != "ExecCredential" or answer.get("apiVersion") != spec["apiVersion"]:
            raise OSError(
                f"exec plugin is configured to use API version {spec['apiVersion']}, plugin returned version "
                f"{answer.get('apiVersion')}"
            )
        expiry = time.strptime(answer["status"]["expirationTimestamp"], "%Y-%m-%dT%H:%M:%SZ")
        say("I", f"exec credential from {Path(command).name}, expires {time.strftime('%H:%M:%S', expiry)}")
        return str(answer["status"]["token"])


class Api:
    def __init__(self, user: User) -> None:
        self.user = user

    def call(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> tuple[int, dict[str, Any]]:
        for refresh in (False, True):
            status, answer = self._once(method, path, body, kind, refresh)
            if status != 401 or "exec" not in self.user.user:
                break
        return status, answer

    def _once(self, method: str, path: str, body: Any, kind: str, refresh: bool) -> tuple[int, dict[str, Any]]:
        where = self.user.server
        conn = http.client.HTTPSConnection(
            where.hostname or "", where.port or 443, timeout=10, context=self.user.context
        )
        try:
            headers = {
                "Content-Type": kind,
                "Accept": "application/json",
                "User-Agent": "kubelet/v1.34.4 (standin)",
                **self.user.header(refresh),
            }
            conn.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = conn.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else {}
        finally:
            conn.close()


def machine_capacity(paths: Paths) -> dict[str, Fraction]:
    total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:"))
    disk = os.statvfs(paths("/"))
    return {
        "cpu": Fraction(os.sysconf("SC_NPROCESSORS_ONLN")),
        "memory": Fraction(int(total.split()[1]) * 1024),
        "ephemeral-storage": Fraction(disk.f_blocks * disk.f_frsize),
        "hugepages-1Gi": Fraction(0),
        "hugepages-2Mi": Fraction(0),
    }


class Kubelet:
    def __init__(self, own: argparse.Namespace, argv: list[str]) -> None:
        self.own = own
        self.paths = Paths(own.standin_root)
        self.flags = kubeletconf.parse_flags(argv)
        major, minor = own.standin_version.lstrip("v").split(".")[:2]
        config, warnings = kubeletconf.load_config(
            self.paths(self.flags["config"]) if "config" in self.flags else None,
            self.paths(self.flags["config-dir"]) if "config-dir" in self.flags else None,
            (int(major), int(minor)),
            os.environ.get("KUBELET_CONFIG_DROPIN_DIR_ALPHA", ""),
        )
        for text in warnings:
            say("W", text)
        self.config = kubeletconf.overlay_flags(config, self.flags)
        kubeletconf.validate(self.config)
        self.labels = kubeletconf.parse_map(self.flags.get("node-labels", ""), "--node-labels")
        kubeletconf.check_node_labels(self.labels)
        if self.flags.get("cloud-provider", "") not in ("", "external"):
            raise Refused(f"unsupported value for cloud provider: {self.flags['cloud-provider']!r}")
        self._files()
        self.name = self.flags.get("hostname-override", platform.node()).strip().lower()
        self.capacity = self._capacity()
        self.reported = 0.0  # monotonic; 0: not yet

    def _files(self) -> None:
        x509 = (self.config.get("authentication") or {}).get("x509") or {}
        if x509.get("clientCAFile") and not self.paths(x509["clientCAFile"]).exists():
            raise Refused(f"unable to load client CA file {x509['clientCAFile']}: open: no such file or directory")
        provider = self.flags.get("image-credential-provider-config")
        if bool(provider) != bool(self.flags.get("image-credential-provider-bin-dir")):
            raise Refused("failed to run Kubelet: both --image-credential-provider-config and -bin-dir must be set")
        if provider and json.loads(self.paths(provider).read_text()).get("kind") != "CredentialProviderConfig":
            raise Refused(f"failed to run Kubelet: {provider} is no CredentialProviderConfig")

    def _capacity(self) -> dict[str, Fraction]:
        out = machine_capacity(self.paths)
        given = kubeletconf.parse_map(self.own.standin_capacity, "--standin-capacity")
        out.update({k: kubeletconf.quantity(v) for k, v in given.items()})
        pods = int(self.config.get("maxPods", 110))
        if self.config.get("podsPerCore"):
            pods = min(pods, int(self.config["podsPerCore"]) * int(out["cpu"]))
        out["pods"] = Fraction(pods)
        return out

    @staticmethod
    def _shown(resources: dict[str, Fraction]) -> dict[str, str]:
        show = {
            "cpu": kubeletconf.show_cpu,
            "memory": lambda v: f"{int(v) // 1024}Ki" if v % 1024 == 0 else str(int(v)),
            "ephemeral-storage": kubeletconf.show_bytes,
        }
        return {k: show.get(k, lambda v: str(int(v)))(v) for k, v in resources.items()}

    def status(self, ready: bool, have: Optional[dict[str, Any]] = None) -> dict[str, Any]:
        """As kubelet reports it now; `have`: the Node as it is, for the time of the last change."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        reason = (
            ("KubeletReady", "kubelet is posting ready status")
            if ready
            else ("KubeletNotReady", "container runtime network not ready")
        )
        addresses = [{"type": "Hostname", "address": self.name}]
        if self.flags.get("node-ip"):
            addresses.insert(0, {"type": "InternalIP", "address": self.flags["node-ip"]})
        conditions = ((have or {}).get("status") or {}).get("conditions") or []
        before = next((c for c in conditions if c["type"] == "Ready"), {})
        same = before.get("status") == ("True" if ready else "False")
        return {
            "capacity": self._shown(self.capacity),
            "allocatable": self._shown(kubeletconf.reservation(self.config, self.capacity)),
            "addresses": addresses,
            "nodeInfo": {
                "kubeletVersion": self.own.standin_version,
                "operatingSystem": "linux",
                "architecture": "amd64",
                "bootID": BOOT_ID.read_text().strip(),
            },
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True" if ready else "False",
                    "reason": reason[0],
                    "message": reason[1],
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": before.get("lastTransitionTime", now) if same else now,
                }
            ],
        }

    def node(self) -> dict[str, Any]:
        spec: dict[str, Any] = {"taints": [dict(t) for t in self.config.get("registerWithTaints") or []]}
        if self.flags.get("cloud-provider") == "external":
            spec["taints"].append(
                {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}
            )
        if self.config.get("providerID"):
            spec["providerID"] = self.config["providerID"]
        labels = {
            **self.labels,
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
        }
        return {
            "kind": "Node",
            "apiVersion": "v1",
            "metadata": {
                "name": self.name,
                "labels": labels,
                "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
            },
            "spec": spec,
            "status": self.status(False),
        }

    # --- life
    def user(self) -> User:
        config = self.paths(self.flags["kubeconfig"]) if "kubeconfig" in self.flags else None
        if config is None:
            raise Refused("standalone mode is not what this stand-in is for: no --kubeconfig")
        bootstrap = self.flags.get("bootstrap-kubeconfig")
        if bootstrap and not config.exists():
            self._bootstrap(User(self.paths(bootstrap), self.paths, self.own.standin_agent), config)
        return User(config, self.paths, self.own.standin_agent)

    def _bootstrap(self, user: User, config: Path) -> None:
        """TLS bootstrap: a certificate request, its answer, a kubeconfig with the certificate."""
        folder = self.paths(self.flags.get("cert-dir", "/var/lib/kubelet/pki"))
        folder.mkdir(parents=True, exist_ok=True)
        key, cert = folder / "kubelet-client-current.key", folder / "kubelet-client-current.pem"
        csr = pki.openssl(
            "req",
            "-new",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-keyout",
            str(key),
            "-subj",
            f"/O=system:nodes/CN=system:node:{self.name}",
        )
        path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
        body = {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"generateName": "node-csr-"},
            "spec": {
                "request": base64.b64encode(csr).decode(),
                "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
                "usages": ["digital signature", "client auth"],
            },
        }
        api = Api(user)
        status, made = api.call("POST", path, body)
        while status == 201 or status == 200:
            if made["status"].get("certificate"):
                cert.write_bytes(base64.b64decode(made["status"]["certificate"]))
                break
            time.sleep(0.2)
            status, made = api.call("GET", f"{path}/{made['metadata']['name']}")
        else:
            raise Refused(f"failed to run Kubelet: cannot create certificate signing request: {made.get('message')}")
        inside = [("/" + str(p.relative_to(self.paths.root))) if self.paths.root else str(p) for p in (cert, key)]
        config.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "default-context",
                    "clusters": [{"name": "default-cluster", "cluster": user.cluster}],
                    "contexts": [
                        {"name": "default-context", "context": {"cluster": "default-cluster", "user": "default-auth"}}
                    ],
                    "users": [
                        {"name": "default-auth", "user": {"client-certificate": inside[0], "client-key": inside[1]}}
                    ],
                }
            )
        )

    def register(self, api: Api) -> bool:
        status, have = api.call("POST", "/api/v1/nodes", self.node())
        if status == 201:
            say("I", f'"Successfully registered node" node="{self.name}"')
            return True
        if status == 409:
            patch = {"metadata": {"labels": self.node()["metadata"]["labels"]}}
            status, have = api.call(
                "PATCH", f"/api/v1/nodes/{self.name}", patch, "application/strategic-merge-patch+json"
            )
            if status == 200:
                say("I", f'"Node was previously registered" node="{self.name}"')
                return True
        say("E", f'"Unable to register node with API server" err="{have.get("message", status)}" node="{self.name}"')
        return False

    @staticmethod
    def _news(status: dict[str, Any]) -> dict[str, Any]:
        """What makes a status worth reporting: all of it but the heartbeats."""
        conditions = [{**c, "lastHeartbeatTime": ""} for c in status.get("conditions") or [] if c["type"] == "Ready"]
        rest = ("capacity", "allocatable", "addresses", "nodeInfo")
        return {"conditions": conditions, **{k: status.get(k) for k in rest}}

    def post_status(self, api: Api, ready: bool) -> bool:
        """The first report of a kubelet is always made; after it only changes, and one each REPORT_SEC."""
        path = f"/api/v1/nodes/{self.name}"
        status, have = api.call("GET", path)
        if status == 200:
            mine = self.status(ready, have)
            is_due = not self.reported or time.monotonic() - self.reported >= REPORT_SEC
            if not is_due and self._news(mine) == self._news(have.get("status") or {}):
                return True
            status, have = api.call(
                "PATCH", f"{path}/status", {"status": mine}, "application/strategic-merge-patch+json"
            )
            self.reported = time.monotonic() if status == 200 else self.reported
        if status != 200:
            say("E", f'"Error updating node status, will retry" err="{have.get("message", status)}"')
        return status == 200

    def run(self) -> None:
        api = Api(self.user())
        while not self._attempt(lambda: self.register(api)):
            time.sleep(0.5)
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.name, "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": self.name, "leaseDurationSeconds": 40},
        }
        self._attempt(
            lambda: api.call("POST", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", lease)[0]
            in (201, 409)
        )
        ready = self.own.standin_mode != "notready"
        if self.own.standin_mode == "stuck":
            say("I", '"Waiting for the container runtime to answer"')
            signal.pause()
        while True:
            done = self._attempt(lambda: self.post_status(api, ready))
            time.sleep(SYNC_SEC if done else 0.5)

    @staticmethod
    def _attempt(step: Any) -> bool:
        try:
            return bool(step())
        except (OSError, http.client.HTTPException, ValueError, KeyError, subprocess.SubprocessError) as exc:
            say("E", f'"Unable to reach the API server" err="{type(exc).__name__}: {exc}"')
            return False


def main() -> int:
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    own.add_argument("--standin-root", type=Path)
    own.add_argument("--standin-agent")
    own.add_argument("--standin-capacity", default="")
    own.add_argument("--standin-mode", default="normal", choices=("normal", "crash", "silent", "notready", "stuck"))
    own.add_argument("--standin-version", default="v1.34.4")
    opts, argv = own.parse_known_args()
    if argv == ["--version"]:
        print(f"Kubernetes {opts.standin_version}")
        return 0
    say("I", f"kubelet {opts.standin_version} started with {shlex.join(argv)}")
    if opts.standin_mode == "crash":
        say(
            "E",
            '"command failed" err="failed to run Kubelet: validate service connection: dial unix /run/containerd/containerd.sock: '
            'connect: no such file or directory"',
        )
        return 1
    if opts.standin_mode == "silent":
        say("I", '"Waiting for the container runtime to answer"')
        signal.pause()
    try:
        Kubelet(opts, argv).run()
    except Refused as exc:
        say("E", f'"command failed" err="{exc}"')
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
