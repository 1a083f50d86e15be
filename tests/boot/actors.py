"""What other programs of a cluster do to a new Node, on a real API server.

Knows: the cloud controller takes `uninitialized` off, the controller manager `not-ready` while the
       node is Ready (and puts it back), Karpenter `unregistered` (and marks the node registered, later initialized), a
       CNI agent its own startup taint; the certificate controller signs kubelet's serving
       certificate; then somebody's pod is scheduled.
Gives: `Actors`, which follows Nodes, requests and pods by watch; each step is a patch of its own with
       an optimistic lock.
Must not: do what is the node's own duty.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import threading
import time
from typing import Any, Callable, Optional

from controlplane import ControlPlane

UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
NOT_READY = "node.kubernetes.io/not-ready"
UNREGISTERED = "karpenter.sh/unregistered"
STARTUP = {"node.cilium.io/agent-not-ready"}
EPHEMERAL = {UNINITIALIZED, NOT_READY, UNREGISTERED, "node.kubernetes.io/unreachable"} | STARTUP
REGISTERED = "karpenter.sh/registered"
INITIALIZED = "karpenter.sh/initialized"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
PODS = "/api/v1/namespaces/default/pods"
IMAGE = "localhost/kubernetes/pause:latest"
SERVING = "kubernetes.io/kubelet-serving"

Node = dict[str, Any]


def is_ready(node: Node) -> bool:
    return any(
        c["type"] == "Ready" and c["status"] == "True"
        for c in node.get("status", {}).get("conditions") or []
    )


def without(node: Node, keys: set[str]) -> Optional[Node]:
    taints = node["spec"].get("taints") or []
    kept = [t for t in taints if t["key"] not in keys]
    return None if len(kept) == len(taints) else {"spec": {"taints": kept}}


class Follower:
    """A thread that calls `step` with each object of a kind: as it is now, and whenever it changes."""

    def __init__(
        self, plane: ControlPlane, path: str, step: Callable[[dict[str, Any]], None]
    ) -> None:
        self.plane, self.path, self.step = plane, path, step
        self._stopping = False
        self._conn: Optional[http.client.HTTPSConnection] = None
        self._failure: Optional[BaseException] = None
        self._thread = threading.Thread(target=self._run, name=path, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._follow()
            except (OSError, ValueError, http.client.HTTPException):
                continue  # a watch that was cut off is opened again; stop() cuts the last one
            except (
                BaseException
            ) as exc:  # noqa: B902: the test's own mistake must end the test, not this thread alone
                self._failure = exc
                return

    def _follow(self) -> None:
        self._conn, stream = self.plane.watch(self.path)
        with contextlib.closing(self._conn):
            for line in stream:
                event = json.loads(line)
                if event["type"] in ("ADDED", "MODIFIED"):
                    self.step(event["object"])

    def stop(self) -> None:
        self._stopping = True
        if self._conn is not None and self._conn.sock is not None:
            with contextlib.suppress(OSError):
                self._conn.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        if self._failure is not None:
            raise self._failure


class Actors:
    def __init__(
        self, plane: ControlPlane, karpenter: bool, settled: Callable[[], object]
    ) -> None:
        self.plane, self.karpenter = plane, karpenter
        self.settled = settled  # called when there is nothing left to see
        self.first: Optional[Node] = None  # the Node as it was when it was first seen
        self.node: Optional[Node] = None
        self._was_down = False
        self.times: dict[str, float] = {}
        self.pod: Optional[dict[str, Any]] = None  # our pod, as it was when it first ran
        self._followers = [
            Follower(plane, "/api/v1/nodes", self._step),
            Follower(plane, CSRS, self._sign),
            Follower(plane, PODS, self._look),
        ]

    def _mark(self, what: str) -> None:
        self.times.setdefault(what, time.time())

    def _step(self, node: Node) -> None:
        self.first = self.first or node
        self.node = node
        self._mark("node created")
        if not is_ready(node):
            self._was_down = True  # a Node that an earlier boot left behind is not Ready by itself
        elif self._was_down:
            self._mark("node Ready")
        patch = (
            self._cloud(node)
            or self._manager(node)
            or self._cni(node)
            or (self._karpenter(node) if self.karpenter else None)
        )
        if patch is not None:
            patch.setdefault("metadata", {})["resourceVersion"] = node["metadata"][
                "resourceVersion"
            ]
            status, answer = self.plane.request(
                "PATCH",
                f"/api/v1/nodes/{node['metadata']['name']}",
                patch,
                "application/merge-patch+json",
            )
            if status not in (200, 409):  # 409: a newer version is on its way through the watch
                raise RuntimeError(f"PATCH of the Node: {status} {answer}")
        elif (
            "node Ready" in self.times
            and "pod created" not in self.times
            and not node["spec"].get("unschedulable")  # the cordon of the shutdown before a reboot
            and self._is_settled(node)
        ):
            self._mark("pod created")
            self._schedule(node["metadata"]["name"])

    def _is_settled(self, node: Node) -> bool:
        return not self.karpenter or node["metadata"]["labels"].get(INITIALIZED) == "true"

    def _schedule(self, node: str) -> None:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": "first-"},
            "spec": {
                "nodeName": node,
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "terminationGracePeriodSeconds": 5,
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "pause", "image": IMAGE, "imagePullPolicy": "Never"}],
            },
        }
        status, answer = self.plane.request("POST", PODS, pod)
        if status != 201:
            raise RuntimeError(f"POST of the pod: {status} {answer}")

    def _look(self, pod: dict[str, Any]) -> None:
        if pod.get("status", {}).get("phase") == "Running" and self.pod is None:
            self._mark("first pod running")
            self.pod = pod
            self.settled()

    @staticmethod
    def _cloud(node: Node) -> Optional[Node]:
        return without(node, {UNINITIALIZED})

    @staticmethod
    def _manager(node: Node) -> Optional[Node]:
        if is_ready(node):
            return without(node, {NOT_READY})
        taints = node["spec"].get("taints") or []
        if any(t["key"] == NOT_READY for t in taints):
            return None
        return {"spec": {"taints": [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]}}

    @staticmethod
    def _cni(node: Node) -> Optional[Node]:
        return without(node, STARTUP) if is_ready(node) else None

    def _karpenter(self, node: Node) -> Optional[Node]:
        labels = node["metadata"]["labels"]
        if labels.get(INITIALIZED) == "true" and "node Ready" in self.times:
            self._mark("initialized by Karpenter")
        if labels.get(REGISTERED) != "true":
            self._mark("registered by Karpenter")
            patch = without(node, {UNREGISTERED}) or {}
            patch["metadata"] = {"labels": {REGISTERED: "true"}}
            return patch
        taints = {t["key"] for t in node["spec"].get("taints") or []}
        if labels.get(INITIALIZED) != "true" and is_ready(node) and not taints & EPHEMERAL:
            return {"metadata": {"labels": {INITIALIZED: "true"}}}
        return None

    def _sign(self, request: dict[str, Any]) -> None:
        """The certificate controller: a serving certificate for the node, its name and addresses."""
        if (
            request["spec"]["signerName"] != SERVING
            or request.get("status", {}).get("certificate")
            or self.node is None
        ):
            return
        node = self.node["metadata"]["name"]
        if request["spec"]["username"] != f"system:node:{node}":
            raise RuntimeError(f"{request['spec']['username']} asks for a serving certificate")
        path = f"{CSRS}/{request['metadata']['name']}"
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        status = request.setdefault("status", {})
        status["conditions"] = [
            {
                "type": "Approved",
                "status": "True",
                "reason": "BootTest",
                "message": "",
                "lastUpdateTime": now,
            }
        ]
        code, approved = self.plane.request("PUT", f"{path}/approval", request)
        if code == 409:
            return
        addresses = [
            a["address"] for a in self.node["status"]["addresses"] if a["type"] == "InternalIP"
        ]
        names = ",".join([f"DNS:{node}", *(f"IP:{a}" for a in addresses)])
        pem = self.plane.ca.sign(
            base64.b64decode(request["spec"]["request"]),
            f"subjectAltName={names}\nextendedKeyUsage=serverAuth\n"
            "keyUsage=critical,digitalSignature\n",
        )
        approved["status"]["certificate"] = base64.b64encode(pem).decode()
        code, answer = self.plane.request("PUT", f"{path}/status", approved)
        if code not in (200, 409):
            raise RuntimeError(f"signing {path}: {code} {answer}")
        self._mark("serving certificate signed")

    def close(self) -> None:
        for follower in self._followers:
            follower.stop()
