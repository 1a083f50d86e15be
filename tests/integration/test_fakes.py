"""The fakes themselves: a rule that a fake does not enforce proves nothing about the program that obeys it."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Optional
from urllib.parse import urlencode

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fakes"))

import instances  # noqa: E402
import kubeletconf  # noqa: E402
import patching  # noqa: E402
import sigv4  # noqa: E402
import yamlread  # noqa: E402
from apiserver import ADMIN_TOKEN, ApiServer  # noqa: E402
from authz import Identity  # noqa: E402
from imds import Imds  # noqa: E402

INST = instances.PROFILES["m5.large"]
NODE = INST.private_dns
SMP, MERGE = "application/strategic-merge-patch+json", "application/merge-patch+json"


def get(url: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
    req = urllib.request.Request(url, method=method, headers={k.replace("_", "-"): v for k, v in headers.items()})
    try:
        with urllib.request.urlopen(req, timeout=5) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as exc:
        return exc.code, exc.read()


class ImdsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.imds = Imds.of("m5.large", b"hello")
        self.imds.server.start()
        self.addCleanup(self.imds.server.stop)

    def token(self, ttl: str = "60") -> tuple[int, str]:
        status, body = get(self.imds.url + "/latest/api/token", "PUT", X_aws_ec2_metadata_token_ttl_seconds=ttl)
        return status, body.decode()

    def read(self, path: str, token: str) -> tuple[int, bytes]:
        return get(f"{self.imds.url}/latest/{path}", X_aws_ec2_metadata_token=token)

    def test_token_rules(self) -> None:
        self.assertEqual(get(self.imds.url + "/latest/meta-data/mac")[0], 401)
        self.assertEqual(self.read("meta-data/mac", "nonsense")[0], 401)
        for ttl, status in (("0", 400), ("21601", 400), ("x", 400), ("", 400), ("21600", 200)):
            self.assertEqual(self.token(ttl)[0], status, ttl)
        self.assertEqual(
            get(
                self.imds.url + "/latest/api/token",
                "PUT",
                X_aws_ec2_metadata_token_ttl_seconds="9",
                X_Forwarded_For="1.2.3.4",
            )[0],
            403,
        )
        self.assertEqual(get(self.imds.url + "/latest/api/token")[0], 405)
        self.assertEqual([e.get("token") for e in self.imds.requests()][:2], ["missing", "wrong"])

    def test_token_expires_and_is_revoked(self) -> None:
        _, short = self.token("1")
        _, long = self.token("60")
        self.assertEqual(self.read("meta-data/mac", short), (200, INST.mac.encode()))
        time.sleep(1.05)
        self.assertEqual(self.read("meta-data/mac", short)[0], 401)
        self.assertEqual(self.read("meta-data/mac", long)[0], 200)
        self.imds.revoke_tokens()
        self.assertEqual(self.read("meta-data/mac", long)[0], 401)

    def test_tree(self) -> None:
        _, token = self.token()
        self.assertEqual(self.read("user-data", token), (200, b"hello"))
        self.assertEqual(self.read("meta-data/iam/security-credentials/", token), (200, instances.ROLE.encode()))
        self.assertEqual(self.read("meta-data/spot/instance-action", token)[0], 404)
        self.assertIn(b"placement/", self.read("meta-data/", token)[1])

    def test_faults(self) -> None:
        _, token = self.token()
        self.imds.server.fault("status", status=503, path="mac$", skip=1, count=2)
        self.assertEqual([self.read("meta-data/mac", token)[0] for _ in range(4)], [200, 503, 503, 200])
        self.imds.server.fault("truncate", path="document")
        with self.assertRaises(http.client.IncompleteRead):
            self.read("dynamic/instance-identity/document", token)
        self.imds.server.refuse()
        with self.assertRaises(urllib.error.URLError):
            self.token()
        self.imds.server.listen()
        self.assertEqual(self.token()[0], 200)

    def test_sent_away_while_being_accepted(self) -> None:
        """Who is let in at the moment in which the server goes is gone as well: at each of the loop's steps between the two."""
        for steps in range(6):
            with self.subTest(steps=steps), Imds.of("m5.large") as imds:
                made = threading.Event()

                def go(left: int) -> None:
                    if left:
                        imds.server.loop.call_soon(go, left - 1)
                    else:
                        imds.server.become(None, listening=False)

                def begin() -> None:
                    self.peer = socket.create_connection(("127.0.0.1", imds.server.port), timeout=5)
                    go(steps)
                    made.set()

                imds.server.loop.call_soon_threadsafe(begin)
                self.assertTrue(made.wait(5))
                with self.peer:
                    try:
                        self.assertEqual(self.peer.recv(1), b"")
                    except ConnectionError:
                        pass

    def test_round_trips_and_connections(self) -> None:
        """Three requests side by side after a token are two round trips, on as many connections as were opened."""
        self.imds.server.latency_sec = 0.05
        _, token = self.token()
        socks = [socket.create_connection(("127.0.0.1", self.imds.server.port)) for _ in range(3)]
        for sock in socks:
            sock.sendall(
                f"GET /latest/meta-data/mac HTTP/1.1\r\nHost: x\r\nX-aws-ec2-metadata-token: {token}\r\n\r\n".encode()
            )
        for sock in socks:
            self.assertIn(b"200 OK", sock.recv(4096))
            sock.close()
        self.assertEqual(self.imds.round_trips(), 2)
        self.assertEqual(len({e["conn"] for e in self.imds.requests()}), 4)


class Client:
    """A plain client of the fake API server."""

    def __init__(self, api: ApiServer, token: str = "", cert: Optional[tuple[Path, Path]] = None) -> None:
        self.api, self.token = api, token
        self.context = api.ca.client_context()
        if cert:
            self.context.load_cert_chain(*cert)

    def __call__(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", accept: str = ""
    ) -> tuple[int, Any]:
        conn = http.client.HTTPSConnection("127.0.0.1", self.api.server.port, context=self.context, timeout=5)
        headers = {
            "Content-Type": kind,
            **({"Authorization": "Bearer " + self.token} if self.token else {}),
            **({"Accept": accept} if accept else {}),
        }
        conn.request(method, path, None if body is None else json.dumps(body), headers)
        answer = conn.getresponse()
        text = answer.read()
        conn.close()
        return answer.status, json.loads(text) if text.startswith(b"{") else text.decode()


def sign(
    cluster: str = "test-cluster", secret: str = INST.secret_key, when: Optional[float] = None, **change: str
) -> str:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(when))
    scope = f"{stamp[:8]}/us-west-2/sts/aws4_request"
    query = {
        "Action": "GetCallerIdentity",
        "Version": "2011-06-15",
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{INST.access_key}/{scope}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": "60",
        "X-Amz-Security-Token": INST.session_token,
        "X-Amz-SignedHeaders": "host;x-k8s-aws-id",
        **{name.replace("_", "-"): value for name, value in change.items()},
    }
    host = "sts.us-west-2.amazonaws.com"
    canonical = sigv4.canonical_request(
        "GET",
        "/",
        list(query.items()),
        {"host": host, "x-k8s-aws-id": cluster},
        query["X-Amz-SignedHeaders"],
        sigv4.EMPTY_SHA256,
    )
    query["X-Amz-Signature"] = sigv4.signature(secret, scope, stamp, canonical)
    url = f"https://{host}/?{urlencode(query)}"
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


class WithApi(unittest.TestCase):
    folder: tempfile.TemporaryDirectory[str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def setUp(self) -> None:
        self.api = ApiServer(Path(self.folder.name) / "pki")
        self.api.add_instance(INST)
        self.api.server.start()
        self.addCleanup(self.api.server.stop)
        self.node = Client(self.api, cert=self.api.ca.node(NODE))
        self.admin = Client(self.api, ADMIN_TOKEN)

    def new_node(self, name: str = NODE, **meta: Any) -> dict[str, Any]:
        return {
            "kind": "Node",
            "apiVersion": "v1",
            "metadata": {"name": name, **meta},
            "spec": {
                "providerID": INST.provider_id,
                "taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}],
            },
        }

    def until(self, check: Any) -> Any:
        end = time.monotonic() + 10
        while time.monotonic() < end:
            found = check()
            if found:
                return found
            time.sleep(0.01)
        self.fail("waited 10 s in vain")

    def expect(self, got: tuple[int, Any], status: int, text: str = "") -> Any:
        self.assertEqual(got[0], status, got[1])
        self.assertIn(text, json.dumps(got[1]))
        return got[1]


class ApiTest(WithApi):
    def pod(self, name: str, node: str) -> None:
        self.api.put("pods", {"metadata": {"name": name}, "spec": {"nodeName": node}}, "default")

    def test_node_may(self) -> None:
        made = self.expect(
            self.node("POST", "/api/v1/nodes", self.new_node(labels={"karpenter.sh/nodepool": "x"})), 201
        )
        self.assertIn({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}, made["spec"]["taints"])
        own = f"/api/v1/nodes/{NODE}"
        self.expect(self.node("PATCH", own, {"spec": {"unschedulable": True}}, MERGE), 200)
        self.expect(self.node("PATCH", own, {"spec": {"taints": []}}, MERGE), 403, "is not allowed to modify taints")
        self.expect(self.node("PATCH", own, {"metadata": {"labels": {"karpenter.sh/initialized": "true"}}}, MERGE), 200)
        self.expect(
            self.node("PATCH", own, {"metadata": {"labels": {"foo.k8s.io/bar": "x"}}}, MERGE), 403, "following labels"
        )
        self.expect(self.node("PATCH", own, {"metadata": {"annotations": {"nodeclaimd.io/x": "y"}}}, MERGE), 200)
        self.expect(
            self.node("PATCH", own, {"metadata": {"ownerReferences": [{"uid": "1"}]}}, MERGE), 403, "ownerReferences"
        )
        first = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        self.expect(self.node("PATCH", own + "/status", first, SMP), 200)
        second = {"status": {"conditions": [{"type": "BootstrapComplete", "status": "True"}]}}
        got = self.expect(self.node("PATCH", own + "/status", second, SMP), 200)
        self.assertEqual([c["type"] for c in got["status"]["conditions"]], ["Ready", "BootstrapComplete"])
        self.expect(self.node("GET", own), 200)
        self.expect(self.node("GET", own + "/status"), 403)
        self.expect(self.node("GET", "/api/v1/nodes/other"), 403, "only its own Node object")
        self.expect(self.node("GET", "/api/v1/nodes"), 403)
        self.expect(self.node("GET", f"/api/v1/nodes?fieldSelector=metadata.name={NODE}"), 200)
        self.expect(self.node("POST", "/api/v1/nodes", self.new_node("other")), 403, "not allowed to modify node")
        self.expect(self.node("DELETE", own), 403)

    def test_pods(self) -> None:
        self.pod("mine", NODE)
        self.pod("theirs", "other")
        self.expect(self.node("GET", "/api/v1/pods"), 403, "can only list/watch pods with spec.nodeName field selector")
        got = self.expect(self.node("GET", f"/api/v1/pods?fieldSelector=spec.nodeName={NODE}"), 200)
        self.assertEqual([p["metadata"]["name"] for p in got["items"]], ["mine"])
        self.expect(self.node("DELETE", "/api/v1/namespaces/default/pods/theirs"), 403)
        self.expect(self.node("GET", "/apis/policy/v1/poddisruptionbudgets"), 403)

    def test_events(self) -> None:
        about = {"kind": "NodeClaim", "apiVersion": "karpenter.sh/v1", "name": "default-abcde", "uid": "u"}
        event = {"kind": "Event", "apiVersion": "v1", "metadata": {"name": "e.1"}, "involvedObject": about}
        self.expect(self.node("POST", "/api/v1/namespaces/default/events", event), 201)
        self.expect(self.node("PATCH", "/api/v1/namespaces/default/events/e.1", {"count": 2}, MERGE), 200)
        self.expect(
            self.node("POST", "/api/v1/namespaces/kube-system/events", event), 422, "does not match event.namespace"
        )
        self.expect(self.node("POST", "/apis/events.k8s.io/v1/namespaces/default/events", event), 403)

    def claim(self, name: str = "default-abcde") -> dict[str, Any]:
        return self.api.put(
            "nodeclaims",
            {
                "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "default"}},
                "spec": {
                    "startupTaints": [{"key": "agent/boot", "effect": "NoSchedule"}],
                    "nodeClassRef": {"name": "default"},
                },
                "status": {"providerID": INST.provider_id},
            },
        )

    def test_nodeclaims(self) -> None:
        made = self.claim()
        table = "application/json;as=Table;g=meta.k8s.io;v=v1"
        self.expect(self.node("GET", "/apis/karpenter.sh/v1/nodeclaims", accept=table), 403)
        self.api.claims_readable = True
        got = self.expect(self.node("GET", "/apis/karpenter.sh/v1/nodeclaims?includeObject=None", accept=table), 200)
        names = [c["name"] for c in got["columnDefinitions"]]
        self.assertEqual(got["rows"][0]["cells"][names.index("ID")], INST.provider_id)
        self.assertIsNone(got["rows"][0]["object"])
        got = self.expect(self.node("GET", "/apis/karpenter.sh/v1/nodeclaims/default-abcde"), 200)
        self.assertEqual(got["metadata"]["uid"], made["metadata"]["uid"])
        self.expect(self.node("PATCH", "/apis/karpenter.sh/v1/nodeclaims/default-abcde", {}, MERGE), 403)
        self.expect(self.admin("PATCH", "/apis/karpenter.sh/v1/nodeclaims/default-abcde", {}, SMP), 415)

    def test_registration_and_initialization(self) -> None:
        self.claim()
        self.expect(self.node("POST", "/api/v1/nodes", self.new_node()), 201)
        self.expect(
            self.node(
                "PATCH",
                f"/api/v1/nodes/{NODE}/status",
                {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
                SMP,
            ),
            200,
        )
        claim = self.until(
            lambda: next(
                (
                    c
                    for c in self.api.objects("nodeclaims")
                    for s in c["status"].get("conditions", [])
                    if s["reason"] == "StartupTaintsExist"
                ),
                None,
            )
        )
        self.assertEqual({c["type"] for c in claim["status"]["conditions"]}, {"Registered", "Initialized"})
        self.expect(self.admin("PATCH", f"/api/v1/nodes/{NODE}", {"spec": {"taints": []}}, MERGE), 200)
        node = self.until(
            lambda: next(
                (
                    n
                    for n in self.api.objects("nodes")
                    if n["metadata"].get("labels", {}).get("karpenter.sh/initialized") == "true"
                ),
                None,
            )
        )
        self.assertEqual(node["metadata"]["ownerReferences"][0]["name"], "default-abcde")

    def test_eks_tokens(self) -> None:
        review = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        got = self.expect(Client(self.api, sign())("POST", path, review), 201)
        self.assertEqual(got["status"]["userInfo"]["username"], "system:node:" + NODE)
        now = time.time()
        bad = {
            "another cluster": sign(cluster="other"),
            "wrong secret": sign(secret="x"),
            "old": sign(when=now - 1000),
            "from the future": sign(when=now + 1000),
            "foreign query": sign(Extra="1"),
            "other action": sign(Action="AssumeRole"),
            "other session": sign(X_Amz_Security_Token="x"),
            "padded": sign() + "=",
            "no prefix": sign()[4:],
        }
        for name, token in bad.items():
            with self.subTest(name):
                self.expect(Client(self.api, token)("POST", path, review), 401, "Unauthorized")
        self.expect(Client(self.api)("POST", path, review), 403, "system:anonymous")
        self.assertEqual(Client(self.api)("GET", "/healthz"), (200, "ok"))

    def test_bootstrap_token_gets_a_certificate(self) -> None:
        self.api.auth.tokens["abcdef.0123456789abcdef"] = Identity("system:bootstrap:abcdef", ("system:bootstrappers",))
        boot = Client(self.api, "abcdef.0123456789abcdef")
        self.expect(boot("GET", f"/api/v1/nodes/{NODE}"), 403)
        csr = subprocess.run(
            [
                "openssl",
                "req",
                "-new",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-keyout",
                "/dev/null",
                "-subj",
                f"/O=system:nodes/CN=system:node:{NODE}",
            ],
            capture_output=True,
            check=True,
        ).stdout
        body = {
            "metadata": {"generateName": "csr-"},
            "spec": {
                "request": base64.b64encode(csr).decode(),
                "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
                "usages": ["client auth"],
            },
        }
        made = self.expect(boot("POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", body), 201)
        self.assertIn("BEGIN CERTIFICATE", base64.b64decode(made["status"]["certificate"]).decode())

    def test_watch(self) -> None:
        self.expect(self.node("POST", "/api/v1/nodes", self.new_node()), 201)
        start = self.api.on_loop(lambda: self.api.store.version)
        conn = http.client.HTTPSConnection("127.0.0.1", self.api.server.port, context=self.node.context, timeout=5)
        query = f"watch=1&fieldSelector=metadata.name={NODE}&allowWatchBookmarks=true&timeoutSeconds=1"
        conn.request("GET", f"/api/v1/nodes?{query}&resourceVersion={start}")
        answer = conn.getresponse()
        self.expect(self.node("PATCH", f"/api/v1/nodes/{NODE}", {"metadata": {"annotations": {"a": "b"}}}, MERGE), 200)
        event = json.loads(answer.readline())
        self.assertEqual((event["type"], event["object"]["metadata"]["annotations"]["a"]), ("MODIFIED", "b"))
        self.assertEqual(answer.read(), b"")  # timeoutSeconds ends the stream in order
        conn.close()
        self.api.on_loop(self.api.store.compact)
        self.expect(self.node("GET", f"/api/v1/nodes?{query}&resourceVersion=1001"), 410, "too old resource version")

    def test_wrong_authority_is_noticed(self) -> None:
        with self.assertRaises(ssl.SSLError):
            Client.__call__(
                type("X", (), {"api": self.api, "token": "", "context": ssl.create_default_context()})(),
                "GET",
                "/healthz",
            )


class StandinTest(WithApi):
    """The stand-in for kubelet, from files that a test wrote."""

    def files(self, root: Path, user: dict[str, Any], **config: Any) -> None:
        (root / "etc/kubernetes/pki").mkdir(parents=True)
        (root / "var/lib/kubelet").mkdir(parents=True)
        (root / "etc/d").mkdir()
        (root / "etc/kubernetes/pki/ca.crt").write_bytes(self.api.ca.pem)
        base = {"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1"}
        (root / "etc/config.json").write_text(
            json.dumps(
                {
                    **base,
                    "containerRuntimeEndpoint": "unix:///x",
                    "providerID": INST.provider_id,
                    "maxPods": 29,
                    "kubeReserved": {"cpu": "70m"},
                    "registerWithTaints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}],
                    **config,
                }
            )
        )
        (root / "etc/d/40-x.conf").write_text(json.dumps({**base, "maxPods": 17}))
        (root / "var/lib/kubelet/kubeconfig").write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "k",
                    "clusters": [
                        {
                            "name": "k",
                            "cluster": {"server": self.api.url, "certificate-authority": "/etc/kubernetes/pki/ca.crt"},
                        }
                    ],
                    "contexts": [{"name": "k", "context": {"cluster": "k", "user": "k"}}],
                    "users": [{"name": "k", "user": user}],
                }
            )
        )

    def start(self, root: Path, *more: str) -> "subprocess.Popen[str]":
        fake = Path(__file__).resolve().parent.parent / "fakes" / "kubelet.py"
        proc = subprocess.Popen(
            [
                sys.executable,
                str(fake),
                "--standin-root",
                str(root),
                "--config=/etc/config.json",
                "--config-dir=/etc/d",
                f"--hostname-override={NODE}",
                "--cloud-provider=external",
                *more,
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(proc.communicate)
        self.addCleanup(proc.kill)
        return proc

    def ready(self) -> dict[str, Any]:
        return self.until(
            lambda: next(
                (
                    n
                    for n in self.api.objects("nodes")
                    for c in n["status"].get("conditions", [])
                    if c["type"] == "Ready" and c["status"] == "True"
                ),
                None,
            )
        )

    def test_client_certificate(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            cert, key = self.api.ca.node(NODE)
            self.files(root, {"client-certificate": "/c.crt", "client-key": "/c.key"})
            (root / "c.crt").write_bytes(cert.read_bytes())
            (root / "c.key").write_bytes(key.read_bytes())
            self.start(root, "--kubeconfig=/var/lib/kubelet/kubeconfig", "--node-labels=team=blue")
            node = self.ready()
        self.assertEqual(node["spec"]["providerID"], INST.provider_id)
        self.assertEqual(node["status"]["allocatable"]["pods"], "17")  # the drop-in beats the file
        self.assertEqual(node["metadata"]["labels"]["team"], "blue")
        self.assertIn("karpenter.sh/unregistered", [t["key"] for t in node["spec"]["taints"]])

    def test_bootstrap_kubeconfig(self) -> None:
        self.api.auth.tokens["abcdef.0123456789abcdef"] = Identity("system:bootstrap:abcdef", ("system:bootstrappers",))
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            self.files(root, {"token": "abcdef.0123456789abcdef"})
            (root / "var/lib/kubelet/kubeconfig").rename(root / "boot")
            self.start(root, "--kubeconfig=/var/lib/kubelet/kubeconfig", "--bootstrap-kubeconfig=/boot")
            self.ready()
            self.assertTrue((root / "var/lib/kubelet/pki/kubelet-client-current.pem").exists())

    def test_refusals_are_said(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            self.files(root, {"token": "x"}, evictionSoft={"memory.available": "1Gi"})
            proc = self.start(root, "--kubeconfig=/var/lib/kubelet/kubeconfig")
            self.assertEqual(proc.wait(10), 1)
            self.assertIn("grace period must be specified", proc.stderr.read() if proc.stderr else "")


class PartsTest(unittest.TestCase):
    def test_quantities(self) -> None:
        for text, cpu in (("1930m", "1930m"), ("2", "2"), ("0.5", "500m"), ("2e0", "2")):
            self.assertEqual(kubeletconf.show_cpu(kubeletconf.quantity(text)), cpu)
        for text, shown in (("6903Mi", "6903Mi"), ("17Gi", "17Gi"), ("1024Ki", "1Mi"), ("1000", "1000")):
            self.assertEqual(kubeletconf.show_bytes(kubeletconf.quantity(text)), shown)
        with self.assertRaises(kubeletconf.Refused):
            kubeletconf.quantity("1 Gi")

    def test_allocatable_of_an_m5_large(self) -> None:
        config = {
            "kubeReserved": {"cpu": "70m", "memory": "574Mi", "ephemeral-storage": "1Gi"},
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "10%"},
        }
        capacity = {
            k: kubeletconf.quantity(v) for k, v in {"cpu": "2", "memory": "7577Mi", "ephemeral-storage": "20Gi"}.items()
        }
        got = kubeletconf.reservation(config, capacity)
        self.assertEqual(
            (
                kubeletconf.show_cpu(got["cpu"]),
                kubeletconf.show_bytes(got["memory"]),
                kubeletconf.show_bytes(got["ephemeral-storage"]),
            ),
            ("1930m", "6903Mi", "18253610976"),  # 17Gi less the 32 bytes by which a float32's 10 % is too much
        )

    def test_kubelet_refuses(self) -> None:
        for argv in (["--no-such-flag=1"], ["--max-pods"], ["word"], ["--register-node=perhaps"], ["-node-ip=1.2.3.4"]):
            with self.subTest(argv), self.assertRaises(kubeletconf.Refused):
                kubeletconf.parse_flags(argv)
        good = {"containerRuntimeEndpoint": "unix:///x"}
        kubeletconf.validate(good)
        for bad in (
            {"evictionSoft": {"memory.available": "1Gi"}},
            {"evictionHard": {"memory": "1Gi"}},
            {"maxPods": "110"},
            {"imageGCHighThresholdPercent": 80},
            {"kubeReserved": {"gpu": "1"}},
            {"kubeReserved": {"cpu": "-1"}},
            {"shutdownGracePeriod": "10s", "shutdownGracePeriodCriticalPods": "20s"},
            {"clusterDNS": ["10.0.0.0.1"]},
            {"registerWithTaints": [{"key": "a", "effect": "Never"}]},
            {"containerRuntimeEndpoint": ""},
            {"evictionHard": {"nodefs.available": "110%"}},
            {"evictionHard": None, "kubeReserved": {"cpu": 1}},
        ):
            with self.subTest(bad), self.assertRaises(kubeletconf.Refused):
                kubeletconf.validate({**good, **bad})
        for label in ("example.k8s.io/x", "kubernetes.io/role"):
            with self.subTest(label), self.assertRaises(kubeletconf.Refused):
                kubeletconf.check_node_labels({label: "y"})
        kubeletconf.check_node_labels({"node.kubernetes.io/x": "y", "karpenter.sh/nodepool": "a"})

    def test_patches(self) -> None:
        self.assertEqual(
            patching.merge_patch({"a": {"b": 1, "c": 2}}, {"a": {"b": None}, "d": [1]}), {"a": {"c": 2}, "d": [1]}
        )
        doc = {"status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]}}
        patch = {
            "status": {
                "$setElementOrder/conditions": [],
                "conditions": [{"type": "B", "status": "False"}, {"type": "A", "$patch": "delete"}],
            }
        }
        self.assertEqual(
            patching.strategic_patch(doc, patch), {"status": {"conditions": [{"type": "B", "status": "False"}]}}
        )
        with self.assertRaises(patching.BadPatch):
            patching.strategic_patch(doc, {"status": {"conditions": [{"status": "x"}]}})

    def test_yaml(self) -> None:
        text = 'apiVersion: v1\nclusters:\n- cluster:\n    server: "https://x:1"\n  name: k\nlist:\n  - a\n  - b: 1\n    c: [1, 2]\nempty: {}\n'
        self.assertEqual(
            yamlread.load(text),
            {
                "apiVersion": "v1",
                "clusters": [{"cluster": {"server": "https://x:1"}, "name": "k"}],
                "list": ["a", {"b": 1, "c": [1, 2]}],
                "empty": {},
            },
        )
        for bad in ("a: &x 1\n", "a:\n\t- b\n", "a: 1\na: 2\n", "a: |\n  x\n", "just words\n"):
            with self.subTest(bad), self.assertRaises(ValueError):
                yamlread.load(bad)


if __name__ == "__main__":
    unittest.main(verbosity=1)
