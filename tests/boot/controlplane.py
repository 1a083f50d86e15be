"""A real control plane for one boot: etcd, kube-apiserver, and what answers its token reviews.

Knows: the flags, the certificates, which AWS identity is which node (an EKS access entry says so).
Gives: `ControlPlane`: endpoint, admin requests, the audit log as a list.
Must not: be reached from outside the network namespace of the test.
"""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, IO, Iterator, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fakes"))

import instances  # noqa: E402
from authz import Authenticator  # noqa: E402
from pki import Authority, openssl  # noqa: E402
from store import Problem  # noqa: E402
from wire import Request, Response, WireServer  # noqa: E402

AUDIT_POLICY = (
    "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n"
    "rules: [{level: Metadata}]\n"
)
READY_SEC = 60.0


class Child:
    """A server of this test: its output in a file, stopped by its process id."""

    def __init__(self, folder: Path, name: str, *argv: str) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(
                [*argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def alive(self) -> None:
        if self.process.poll() is not None:
            tail = self.log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{self.name} ended with {self.process.returncode}:\n{tail}")

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class TokenReviews:
    """The webhook that knows EKS tokens: recomputes the signature with the instance's keys."""

    def __init__(self, cluster: str, inst: instances.Instance, node: str) -> None:
        self.answers: list[tuple[str, str]] = []
        self.who = Authenticator(cluster, inst.region, clock=time.time)
        self.who.add_instance(inst.access_key, inst.secret_key, inst.session_token, node)
        self.server = WireServer(self._handle).start()

    def _handle(self, req: Request) -> Response:
        review = json.loads(req.body)
        note: dict[str, Any] = {}
        try:
            found = self.who.authenticate(
                None, {"authorization": "Bearer " + review["spec"]["token"]}, note
            )
            review["status"] = {
                "authenticated": True,
                "user": {"username": found.user, "groups": list(found.groups)},
            }
            self.answers.append((found.user, ""))
        except Problem:
            review["status"] = {"authenticated": False, "error": note.get("refused", "")}
            self.answers.append(("", note.get("refused", "")))
        return Response(200, json.dumps(review).encode(), "application/json")


class ControlPlane:
    def __init__(
        self,
        folder: Path,
        binaries: Path,
        host: str,
        port: int,
        cluster: str,
        service_cidr: str,
        inst: instances.Instance,
        node: str,
    ) -> None:
        folder.mkdir(parents=True)
        self.folder, self.host, self.port = folder, host, port
        self.ca = Authority(folder / "pki")
        self.reviews = TokenReviews(cluster, inst, node)
        self.audit_path = folder / "audit.log"
        self.children: list[Child] = []
        self._start_etcd()
        self._start_apiserver(binaries, service_cidr)
        cert, key = self.ca.client("admin", "admin", "system:masters")
        self.context = ssl.create_default_context(cafile=str(self.ca.cert))
        self.context.load_cert_chain(cert, key)
        self._wait_ready()

    def _start_etcd(self) -> None:
        self.children.append(
            Child(
                self.folder,
                "etcd",
                "etcd",
                "--data-dir",
                str(self.folder / "etcd"),
                "--unsafe-no-fsync",
                "--listen-client-urls",
                "http://127.0.0.1:2379",
                "--advertise-client-urls",
                "http://127.0.0.1:2379",
                "--listen-peer-urls",
                "http://127.0.0.1:2380",
                "--initial-advertise-peer-urls",
                "http://127.0.0.1:2380",
                "--initial-cluster",
                "default=http://127.0.0.1:2380",
            )
        )

    def _start_apiserver(self, binaries: Path, service_cidr: str) -> None:
        kind = "IP" if self.host.replace(".", "").isdigit() else "DNS"
        cert, key = self.ca.issue(
            "server",
            "/CN=kube-apiserver",
            f"subjectAltName=IP:127.0.0.1,DNS:localhost,{kind}:{self.host}\n"
            "extendedKeyUsage=serverAuth\nkeyUsage=critical,digitalSignature\n",
        )
        account = self.folder / "service-account.key"
        account.write_bytes(openssl("genrsa", "2048"))
        policy = self.folder / "audit-policy.yaml"
        policy.write_text(AUDIT_POLICY)
        hook = self.folder / "webhook.conf"
        hook.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "w", "cluster": {"server": self.reviews.server.url}}],
                    "contexts": [{"name": "w", "context": {"cluster": "w", "user": ""}}],
                    "current-context": "w",
                }
            )
        )
        self.children.append(
            Child(
                self.folder,
                "kube-apiserver",
                str(binaries / "kube-apiserver"),
                "--etcd-servers=http://127.0.0.1:2379",
                "--bind-address=0.0.0.0",
                "--advertise-address=127.0.0.1",
                f"--secure-port={self.port}",
                f"--tls-cert-file={cert}",
                f"--tls-private-key-file={key}",
                f"--client-ca-file={self.ca.cert}",
                "--authorization-mode=Node,RBAC",
                "--enable-admission-plugins=NodeRestriction",
                "--disable-admission-plugins=ServiceAccount",
                "--service-account-issuer=https://boot-test",
                f"--service-account-key-file={account}",
                f"--service-account-signing-key-file={account}",
                f"--service-cluster-ip-range={service_cidr}",
                f"--authentication-token-webhook-config-file={hook}",
                "--authentication-token-webhook-version=v1",
                "--authentication-token-webhook-cache-ttl=10s",
                f"--audit-log-path={self.audit_path}",
                f"--audit-policy-file={policy}",
            )
        )

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + READY_SEC
        while True:
            for child in self.children:
                child.alive()
            try:
                if self.request("GET", "/readyz")[0] == 200:
                    return
            except OSError:
                pass
            if time.monotonic() > deadline:
                raise RuntimeError("kube-apiserver did not become ready")
            time.sleep(0.05)

    # --- what the rest of the test asks, as system:masters
    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=30)

    def request(
        self, method: str, path: str, body: Optional[Any] = None, kind: str = "application/json"
    ) -> tuple[int, Any]:
        conn = self.connect()
        try:
            conn.request(
                method, path, None if body is None else json.dumps(body), {"Content-Type": kind}
            )
            answer = conn.getresponse()
            data = answer.read()
            is_json = answer.headers.get_content_type() == "application/json"
            return answer.status, json.loads(data) if is_json else data
        finally:
            conn.close()

    def watch(self, path: str) -> tuple[http.client.HTTPSConnection, IO[bytes]]:
        conn = self.connect()
        assert conn.sock is None
        conn.timeout = None
        conn.request(
            "GET", path + "?watch=1&resourceVersion=0"
        )  # from the cache: begins at once, with what there is
        return conn, conn.getresponse()

    def audit(self) -> Iterator[dict[str, Any]]:
        with open(self.audit_path, encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)

    def stop(self) -> None:
        for child in reversed(self.children):
            child.stop()
        self.reviews.server.stop()
