#!/usr/bin/python3
"""A stream of many Nodes and NodeClaims: as much of an API server as the controller's cost is measured against.

Its own process, made for speed: objects are one template of the size that real ones have, with a number put in; only what
was written is kept. Pages, watches with bookmarks, GET and PATCH of one, DELETE of claims; nothing else.

    apistream.py --nodes N --port-file FILE [--gate]        --gate: each Node has the taint nodeclaimd.io/unfit

It speaks plain HTTP/1.1: TLS and HTTP/2, as kube-apiserver has them, are nghttpx's in front of it.
Switches, as requests of anybody: POST /bench/notices?n=N&to=SECONDS, POST /bench/heartbeats?rate=PER-SECOND, POST /bench/expire,
POST /bench/fit, GET /bench/state, POST /bench/clear.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import gc
import json
import re
import sys
import time
from pathlib import Path
from typing import Any, Iterator, Optional
from urllib.parse import parse_qs, urlsplit

BOOKMARK_SEC = 60.0
MARK = "@NUMBER@"
STAMPED = "@STAMPED@"  # where more metadata goes in
TAINT = {"key": "nodeclaimd.io/unfit", "effect": "NoSchedule"}
BOOT = "5c5f0a0c-8b1e-4f0e-9d3c-1f3a2b4c5d6e"
CLAIMS, NODES = "/apis/karpenter.sh/v1/nodeclaims", "/api/v1/nodes"
PARTIAL = "as=PartialObjectMetadata"


def managed_fields(manager: str, keys: list[str]) -> dict[str, Any]:
    """What a server keeps of who wrote what: the larger part of most objects' metadata."""
    fields = {"f:metadata": {"f:annotations": {f"f:{k}": {} for k in keys}, "f:labels": {f"f:{k}": {} for k in keys}}}
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-11-22T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


LABELS = {
    "beta.kubernetes.io/arch": "amd64",
    "beta.kubernetes.io/instance-type": "m5.large",
    "beta.kubernetes.io/os": "linux",
    "failure-domain.beta.kubernetes.io/region": "us-west-2",
    "failure-domain.beta.kubernetes.io/zone": "us-west-2a",
    "karpenter.k8s.aws/ec2nodeclass": "default",
    "karpenter.k8s.aws/instance-category": "m",
    "karpenter.k8s.aws/instance-cpu": "2",
    "karpenter.k8s.aws/instance-family": "m5",
    "karpenter.k8s.aws/instance-generation": "5",
    "karpenter.k8s.aws/instance-hypervisor": "nitro",
    "karpenter.k8s.aws/instance-memory": "8192",
    "karpenter.k8s.aws/instance-network-bandwidth": "750",
    "karpenter.k8s.aws/instance-size": "large",
    "karpenter.sh/capacity-type": "spot",
    "karpenter.sh/nodepool": "default",
    "kubernetes.io/arch": "amd64",
    "kubernetes.io/os": "linux",
    "node.kubernetes.io/instance-type": "m5.large",
    "topology.k8s.aws/zone-id": "usw2-az1",
    "topology.kubernetes.io/region": "us-west-2",
    "topology.kubernetes.io/zone": "us-west-2a",
}


def node_template() -> dict[str, Any]:
    name = f"ip-10-{MARK}.us-west-2.compute.internal"
    labels = {**LABELS, "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true", "kubernetes.io/hostname": name}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "uid": f"11111111-1111-4111-8111-{MARK}",
            "resourceVersion": f"1{MARK}",
            "creationTimestamp": "2026-11-22T00:00:00Z",
            "labels": labels,
            "annotations": {
                "alpha.kubernetes.io/provided-node-ip": "10.0.0.1",
                "karpenter.sh/nodepool-hash": "12393960163388511505",
                "karpenter.sh/nodepool-hash-version": "v3",
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
                STAMPED: "",
            },
            "ownerReferences": [
                {
                    "apiVersion": "karpenter.sh/v1",
                    "kind": "NodeClaim",
                    "name": f"default-{MARK}",
                    "uid": f"22222222-2222-4222-8222-{MARK}",
                    "blockOwnerDeletion": True,
                }
            ],
            "finalizers": ["karpenter.sh/termination"],
            "managedFields": [managed_fields("kubelet", list(LABELS)[:12]), managed_fields("karpenter", list(LABELS)[6:])],
        },
        "spec": {"providerID": f"aws:///us-west-2a/i-0{MARK}"},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "x" * 600}]},
    }


def gated(node: dict[str, Any]) -> dict[str, Any]:
    """A Node that is fit, and whose taint is still there."""
    node["spec"]["taints"] = [TAINT]
    node["status"]["nodeInfo"] = {"bootID": BOOT}
    node["status"]["conditions"].append({"type": "nodeclaimd.io/Fit", "status": "True", "reason": "Fit", "message": ""})
    return node


def claim_template() -> dict[str, Any]:
    condition = {"status": "True", "lastTransitionTime": "2026-11-22T00:00:00Z", "message": "", "observedGeneration": 1}
    kinds = ("Launched", "Registered", "Initialized", "Ready", "Consolidatable", "ConsistentStateFound")
    return {
        "kind": "NodeClaim",
        "apiVersion": "karpenter.sh/v1",
        "metadata": {
            "name": f"default-{MARK}",
            "generateName": "default-",
            "uid": f"22222222-2222-4222-8222-{MARK}",
            "resourceVersion": f"2{MARK}",
            "generation": 1,
            "creationTimestamp": "2026-11-22T00:00:00Z",
            "labels": LABELS,
            "annotations": {"karpenter.sh/nodepool-hash": "12393960163388511505", STAMPED: ""},
            "finalizers": ["karpenter.sh/termination"],
            "managedFields": [managed_fields("karpenter", list(LABELS))],
        },
        "spec": {
            "expireAfter": "720h",
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [{"key": k, "operator": "In", "values": [v, "x"]} for k, v in list(LABELS.items())[5:15]],
            "resources": {"requests": {"cpu": "1930m", "memory": "6Gi", "pods": "29"}},
        },
        "status": {
            "nodeName": f"ip-10-{MARK}.us-west-2.compute.internal",
            "providerID": f"aws:///us-west-2a/i-0{MARK}",
            "imageID": "ami-0abcdef1234567890",
            "capacity": {"cpu": "2", "memory": "7577Mi", "pods": "29", "ephemeral-storage": "20Gi"},
            "allocatable": {"cpu": "1930m", "memory": "6903Mi", "pods": "29", "ephemeral-storage": "17Gi"},
            "conditions": [{"type": k, "reason": k, **condition} for k in kinds],
        },
    }


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


class Kind:
    """All objects of one kind. `changed`: of those that were written: version, annotations, deletionTimestamp, whether the taint is gone."""

    def __init__(self, path: str, template: dict[str, Any], count: int, own: int) -> None:
        self.path, self.count, self.own = path, count, own
        self.kind = template["kind"]
        self.whole = compact(template)
        self.partial = compact(
            {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": template["metadata"]}
        )
        self.changed: dict[int, dict[str, Any]] = {}
        self.watches: list[tuple["Connection", bool]] = []

    def text(self, number: int, partial: bool) -> str:
        out = (self.partial if partial else self.whole).replace(MARK, f"{number:012d}")
        now = self.changed.get(number)
        if not now:
            return out.replace(f',"{STAMPED}":""', "")
        notes = "".join(f",{compact(k)}:{compact(v)}" for k, v in now["annotations"].items())
        out = out.replace(f',"{STAMPED}":""', notes)
        out = out.replace(f'"resourceVersion":"{self.own}{number:012d}"', f'"resourceVersion":"{now["version"]}"')
        if now["opened"]:
            out = out.replace(compact([TAINT]), "[]", 1)
        if now["deleted"]:
            out = out.replace('"creationTimestamp"', f'"deletionTimestamp":"{now["deleted"]}","creationTimestamp"', 1)
        return out

    def change(self, number: int) -> dict[str, Any]:
        return self.changed.setdefault(number, {"version": 0, "annotations": {}, "deleted": "", "opened": False})


class Stream:
    def __init__(self, count: int, has_gate: bool) -> None:
        self.version = 10**13  # above the versions that templates give
        self.nodes = Kind(NODES, gated(node_template()) if has_gate else node_template(), count, 1)
        self.claims = Kind(CLAIMS, claim_template(), count, 2)
        self.requests: dict[str, int] = {}
        self.noticed: dict[int, float] = {}
        self.stamped: dict[int, float] = {}
        self.deleted: dict[int, float] = {}
        self.opened: dict[int, float] = {}
        self.twice = 0
        self.rate = 0.0
        self.sent_bytes = 0

    def emit(self, kind: Kind, number: int) -> None:
        self.version += 1
        kind.change(number)["version"] = self.version
        for conn, partial in list(kind.watches):
            conn.chunk('{"type":"MODIFIED","object":' + kind.text(number, partial) + "}\n")

    def notices(self, count: int, after_sec: float) -> None:
        """The first so many nodes say a word in one moment."""
        end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + after_sec))
        word = {"id": "spot-1", "source": "spot", "phase": "Detected", "deadline": end, "total": 12, "remaining": 12}
        for number in range(count):
            self.nodes.change(number)["annotations"]["nodeclaimd.io/drain-status"] = compact({**word, "blocked": []})
            self.emit(self.nodes, number)
            self.noticed[number] = time.monotonic()

    def fit(self) -> None:
        """Every node states that it is fit, in one moment."""
        end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 600))
        for number in range(self.nodes.count):
            self.nodes.change(number)["annotations"]["nodeclaimd.io/fit"] = compact({"fit": True, "boot": BOOT, "until": end})
            self.emit(self.nodes, number)
            self.noticed[number] = time.monotonic()

    async def heartbeats(self) -> None:
        """Kubelets write the status of their Nodes: each of them every five minutes."""
        number, owed = 0, 0.0
        while True:
            await asyncio.sleep(0.05)
            owed += self.rate * 0.05
            while owed >= 1:
                owed -= 1
                number = (number + 1) % self.nodes.count
                self.emit(self.nodes, number)

    async def bookmarks(self) -> None:
        while True:
            await asyncio.sleep(BOOKMARK_SEC)
            for kind in (self.nodes, self.claims):
                meta = {"resourceVersion": str(self.version), "creationTimestamp": None}
                for conn, partial in list(kind.watches):
                    name, api = (kind.kind, "v1") if not partial else ("PartialObjectMetadata", "meta.k8s.io/v1")
                    conn.chunk(compact({"type": "BOOKMARK", "object": {"kind": name, "apiVersion": api, "metadata": meta}}) + "\n")

    def expire(self) -> None:
        """Every watch is told that the past is forgotten: all is listed again."""
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410}
        for kind in (self.nodes, self.claims):
            for conn, _ in list(kind.watches):
                conn.chunk(compact({"type": "ERROR", "object": {**status, "message": "too old resource version"}}) + "\n")
                conn.end()
            kind.watches.clear()

    def state(self) -> dict[str, Any]:
        return {
            "requests": self.requests,
            "watching": [len(self.nodes.watches), len(self.claims.watches)],
            "noticed": [min(self.noticed.values(), default=0), max(self.noticed.values(), default=0)],
            "stamped": len(self.stamped),
            "deleted": len(self.deleted),
            "opened": len(self.opened),
            "last": max([*self.deleted.values(), *self.opened.values()], default=0),
            "twice": self.twice,
            "sent_bytes": self.sent_bytes,
        }

    def clear(self) -> None:
        self.requests.clear()
        self.sent_bytes = 0

    # --- a page
    def page(self, kind: Kind, query: dict[str, str], partial: bool) -> Iterator[str]:
        limit = int(query.get("limit") or kind.count)
        start = int(base64.b64decode(query["continue"])) if query.get("continue") else 0
        end = min(kind.count, start + limit)
        meta: dict[str, Any] = {"resourceVersion": str(self.version)}
        if end < kind.count:
            meta["continue"] = base64.b64encode(str(end).encode()).decode()
            meta["remainingItemCount"] = kind.count - end
        name, api = ("PartialObjectMetadataList", "meta.k8s.io/v1")
        if not partial:
            name, api = kind.kind + "List", "karpenter.sh/v1" if kind is self.claims else "v1"
        yield compact({"kind": name, "apiVersion": api, "metadata": meta, "items": []})[:-2]
        for first in range(start, end, 50):
            rows = [kind.text(n, partial) for n in range(first, min(end, first + 50))]
            yield ("," if first > start else "") + ",".join(rows)
        yield "]}\n"


class Connection(asyncio.Protocol):
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.buffer = bytearray()
        self.transport: Any = None
        self.busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, exc: Optional[Exception]) -> None:
        for kind in (self.stream.nodes, self.stream.claims):
            kind.watches = [w for w in kind.watches if w[0] is not self]

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while not self.busy:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            lines = self.buffer[:end].decode().split("\r\n")
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
            length = int(headers.get("content-length", "0"))
            if len(self.buffer) < end + 4 + length:
                return
            body = bytes(self.buffer[end + 4 : end + 4 + length])
            del self.buffer[: end + 4 + length]
            method, target, _ = lines[0].split(" ")
            self.serve(method, target, headers, body)

    # --- answers
    def write(self, data: bytes) -> None:
        self.stream.sent_bytes += len(data)
        self.transport.write(data)

    def answer(self, status: int, body: Any) -> None:
        data = body.encode() if isinstance(body, str) else compact(body).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        self.write(head.encode() + data)

    def begin(self) -> None:
        self.busy = True
        self.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")

    def chunk(self, text: str) -> None:
        data = text.encode()
        self.write(b"%x\r\n%s\r\n" % (len(data), data))

    def end(self) -> None:
        self.write(b"0\r\n\r\n")
        self.busy = False

    async def send_page(self, parts: Iterator[str]) -> None:
        self.begin()
        for part in parts:
            self.chunk(part)
            while self.transport.get_write_buffer_size() > 1 << 20 and not self.transport.is_closing():
                await asyncio.sleep(0.0005)
        self.end()
        self.data_received(b"")

    def problem(self, code: int, reason: str, message: str) -> None:
        self.answer(code, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason,
                           "message": message, "code": code})

    # --- requests
    def serve(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        parts = urlsplit(target)
        query = {k: v[-1] for k, v in parse_qs(parts.query).items()}
        if parts.path.startswith("/bench/"):
            self.switch(parts.path[7:], query)
            return
        stream, partial = self.stream, PARTIAL in headers.get("accept", "").split(",")[0]
        kind = next((k for k in (stream.nodes, stream.claims) if parts.path.startswith(k.path)), None)
        what = method + (" " + kind.kind if kind else " other") + (" watch" if "watch" in query else "")
        stream.requests[what] = stream.requests.get(what, 0) + 1
        if parts.path == "/apis/karpenter.sh":
            version = {"groupVersion": "karpenter.sh/v1", "version": "v1"}
            self.answer(200, {"kind": "APIGroup", "apiVersion": "v1", "name": "karpenter.sh", "versions": [version],
                              "preferredVersion": version})
        elif parts.path == "/apis/karpenter.sh/v1":
            rows = [{"name": n, "singularName": "", "namespaced": False, "kind": k, "verbs": ["list", "watch"]}
                    for n, k in (("nodeclaims", "NodeClaim"), ("nodepools", "NodePool"))]
            self.answer(200, {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "karpenter.sh/v1", "resources": rows})
        elif kind is None and method in ("POST", "PATCH"):
            self.answer(201, body.decode())  # an Event
        elif kind is None:
            self.problem(404, "NotFound", "the server could not find the requested resource")
        elif method == "GET" and "watch" in query:
            self.begin()
            kind.watches.append((self, partial))
        elif method == "GET" and parts.path != kind.path:
            self.answer(200, kind.text(int(re.findall(r"\d{12}", parts.path)[0]), partial))
        elif method == "GET":
            self.busy = True
            asyncio.ensure_future(self.send_page(stream.page(kind, query, partial)))
        else:
            self.change(kind, method, parts.path[len(kind.path) + 1 :].partition("/")[0], body, partial)

    def change(self, kind: Kind, method: str, name: str, body: bytes, partial: bool) -> None:
        number, now = int(re.findall(r"\d{12}", name)[0]), time.monotonic()
        given = json.loads(body)
        version = kind.changed[number]["version"] if number in kind.changed else f"{kind.own}{number:012d}"
        if str((given.get("metadata") or {}).get("resourceVersion", version)) != str(version):
            self.problem(409, "Conflict", "the object has been modified")
            return
        if method == "PATCH":
            kind.change(number)["annotations"].update((given.get("metadata") or {}).get("annotations") or {})
            if kind is self.stream.nodes:
                self.stream.twice += number in self.stream.opened
                self.stream.opened[number] = now
                kind.change(number)["opened"] = given["spec"]["taints"] == []
            else:
                self.stream.stamped.setdefault(number, now)
        elif given.get("preconditions", {}).get("uid") != f"22222222-2222-4222-8222-{number:012d}":
            self.problem(409, "Conflict", "the UID in the precondition does not match the UID in record")
            return
        elif kind.change(number)["deleted"]:
            self.stream.twice += 1
        else:
            kind.change(number)["deleted"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            self.stream.deleted[number] = now
        self.stream.emit(kind, number)
        self.answer(200, kind.text(number, partial))

    def switch(self, what: str, query: dict[str, str]) -> None:
        stream = self.stream
        if what == "notices":
            stream.notices(int(query["n"]), float(query["to"]))
        elif what == "fit":
            stream.fit()
        elif what == "heartbeats":
            stream.rate = float(query["rate"])
        elif what == "expire":
            stream.expire()
        elif what == "clear":
            stream.clear()
        self.answer(200, stream.state())


async def serve(opts: argparse.Namespace) -> None:
    stream = Stream(opts.nodes, opts.gate)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(stream), "127.0.0.1", 0, backlog=512)
    part = opts.port_file.with_suffix(".part")
    part.write_text(str(server.sockets[0].getsockname()[1]))
    part.rename(opts.port_file)
    await asyncio.gather(stream.heartbeats(), stream.bookmarks())


def main() -> int:
    args = argparse.ArgumentParser(description="a stream of many Nodes and NodeClaims")
    args.add_argument("--nodes", type=int, required=True)
    args.add_argument("--port-file", type=Path, required=True)
    args.add_argument("--gate", action="store_true")
    gc.disable()  # what it makes is freed by counting
    asyncio.run(serve(args.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
