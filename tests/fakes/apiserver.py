#!/usr/bin/python3
"""A Kubernetes API server on loopback that enforces the node authorizer's rules.

Knows: paths, verbs, patch types, lists, tables, watches, Status errors; who may what is in authz.py.
Gives: `ApiServer` for Python tests, and a program with a control port for all others.
Must not: accept what a real one refuses, as far as a node agent can meet it.

    apiserver.py --dir DIR --cluster NAME --region R --profile m5.large --port-file P --log L [--objects FILE.json]
"""

from __future__ import annotations

import argparse
import base64
import copy
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent))

import authz  # noqa: E402
import instances  # noqa: E402
import patching  # noqa: E402
import tables  # noqa: E402
from authz import ANONYMOUS, Ask, Authenticator, Identity  # noqa: E402
from cluster import Behaviour, Cluster  # noqa: E402
from discovery import discover  # noqa: E402
from listing import Pages, Selection  # noqa: E402
from pki import Authority  # noqa: E402
from pods import Pods, ToyKubelet  # noqa: E402
from store import RESOURCES, Object, Problem, Resource, Store, now_rfc3339  # noqa: E402
from rbac import CONTROLLER, CONTROLLER_GROUPS, CONTROLLER_USER, Rule  # noqa: E402
from requestlog import Log  # noqa: E402
from schema import validation_error  # noqa: E402
from shapes import dump, not_acceptable, padded, requested_form  # noqa: E402
from watching import BOOKMARK_SEC, Watch  # noqa: E402
from wire import Request, Response, WireServer, control_handler  # noqa: E402

ADMIN_TOKEN = "admin-token-of-the-test"
CONTROLLER_TOKEN = "controller-token-of-the-test"
VERSION = {
    "major": "1",
    "minor": "34",
    "gitVersion": "v1.34.4",
    "gitCommit": "fake",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "go1.25",
    "compiler": "gc",
    "platform": "linux/amd64",
}
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def answer(status: int, obj: Object, headers: Optional[dict[str, str]] = None) -> Response:
    return Response(status, json.dumps(obj, separators=(",", ":")).encode() + b"\n", "application/json", headers or {})


def problem_response(exc: Problem) -> Response:
    body: Object = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": exc.meta,
        "status": "Failure",
        "message": exc.message,
        "code": exc.code,
    }
    if exc.reason:
        body["reason"] = exc.reason
    if exc.details:
        body["details"] = exc.details
    return answer(exc.code, body, exc.headers)


def find_resource(group: str, version: str, plural: str, served: list[Resource]) -> Resource:
    for res in served:
        if (res.group, res.version, res.plural) == (group, version, plural):
            return res
    raise Problem(404, "NotFound", "the server could not find the requested resource")


def parse_path(path: str, served: list[Resource]) -> tuple[Resource, str, str, str]:
    """(resource, namespace, name, subresource)."""
    parts = path.strip("/").split("/")
    if parts[:2] == ["api", "v1"]:
        group, version, rest = "", "v1", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise Problem(404, "NotFound", "the server could not find the requested resource")
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    if not rest or not all(rest) or len(rest) > 3:
        raise Problem(404, "NotFound", "the server could not find the requested resource")
    res = find_resource(group, version, rest[0], served)
    return res, namespace, rest[1] if len(rest) > 1 else "", rest[2] if len(rest) > 2 else ""


class ApiServer:
    """`dir` holds the certificates. `claims_readable`: the optional ClusterRole is installed."""

    def __init__(
        self,
        folder: Path,
        cluster: str = "test-cluster",
        region: str = "us-west-2",
        host: str = "127.0.0.1",
        port: int = 0,
        log: Optional[Path] = None,
        behave: Optional[Behaviour] = None,
    ) -> None:
        self.ca = Authority(folder)
        self.auth = Authenticator(
            cluster,
            region,
            {
                ADMIN_TOKEN: Identity("admin", ("system:masters",)),
                CONTROLLER_TOKEN: Identity(CONTROLLER_USER, CONTROLLER_GROUPS),
            },
            clock=time.time,
        )
        self.store = Store(self.now)
        self.pages = Pages(self.store)
        self.rules: dict[str, tuple[Rule, ...]] = {CONTROLLER_USER: CONTROLLER}
        self.karpenter_version = "v1"  # of the CRDs, or v1beta1; "" = there are none
        self.claims_readable = False
        self.approve = True  # certificate requests of nodes are signed at once
        self.clock_ahead_sec = 0.0  # of this machine's clock
        self.padding_bytes = 0  # every pod is so much larger on the wire
        self.watches: list[Watch] = []
        self.bookmark_sec = BOOKMARK_SEC
        self.pods = Pods(self.store, self.now)
        self.server = WireServer(self.handle, host, port, Log(log), self.ca.server_context())
        self.server.clock = self.now
        self.cluster = Cluster(self.store, self._later, behave or Behaviour())
        self.kubelet = ToyKubelet(self.pods, self._later)

    @property
    def url(self) -> str:
        return self.server.url

    def __enter__(self) -> "ApiServer":
        self.server.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self.server.stop()

    def now(self) -> float:
        return time.time() + self.clock_ahead_sec

    def expire(self) -> None:
        """The past is forgotten: every open watch is told 410 as an event, one that resumes from before is told so at once."""
        self.store.compact()
        for watch in list(self.watches):
            watch.fail(410, "Expired", "too old resource version")

    def hang(self, plural: str) -> None:
        """The open watches of these stay open, and nothing comes any more."""
        for watch in [w for w in self.watches if w.resource.plural == plural]:
            watch.stop()

    def _later(self, delay_sec: float, call: Callable[[], None]) -> None:
        self.server.loop.call_soon_threadsafe(self.server.loop.call_later, delay_sec, call)

    def add_instance(self, inst: instances.Instance, node: str = "") -> None:
        self.auth.add_instance(inst.access_key, inst.secret_key, inst.session_token, node or inst.private_dns)

    def on_loop(self, call: Callable[[], Any]) -> Any:
        """Runs `call` where the requests run; what a test changes directly must go through here."""

        async def go() -> Any:
            return call()

        return self.server._call(go())

    @property
    def served(self) -> list[Resource]:
        return [r for r in RESOURCES if not r.is_custom or r.version == self.karpenter_version]

    def resource(self, plural: str) -> Resource:
        return next(r for r in self.served if r.plural == plural)

    def put(self, plural: str, obj: Object, namespace: str = "") -> Object:
        res = self.resource(plural)
        return self.on_loop(lambda: self.store.create(res, obj, namespace))

    def objects(self, plural: str) -> list[Object]:
        return self.on_loop(
            lambda: [copy.deepcopy(o) for (r, _, _), o in self.store.objects.items() if r.plural == plural]
        )

    # --- a request
    def handle(self, req: Request) -> Response:
        try:
            return self._handle(req)
        except Problem as exc:
            req.note["reason"] = exc.message
            return problem_response(exc)

    def _handle(self, req: Request) -> Response:
        who = self.auth.authenticate(req.conn.peer_certificate, req.headers, req.note)
        req.note["user"] = who.user
        if req.path in ("/healthz", "/livez", "/readyz") and req.method == "GET":
            return Response(200, b"ok")
        if req.path == "/version" and req.method == "GET":
            return answer(200, VERSION)
        if req.path == REVIEWS:
            return self._review(req, who)
        if who != ANONYMOUS and req.method == "GET":
            found = discover(req.path, self.served)
            if found:
                return answer(200, found)
        res, namespace, name, sub = parse_path(req.path, self.served)
        if who == ANONYMOUS:
            raise Problem(
                403,
                "Forbidden",
                f'{res.plural} is forbidden: User "system:anonymous" cannot access resource '
                f'"{res.plural}" in API group "{res.group}"',
            )
        verb = self._verb(req, name)
        ask = Ask(verb, res, namespace, name, sub, req.query.get("fieldSelector", ""))
        authz.authorize(who, ask, self.claims_readable, self.rules.get(who.user))
        return getattr(self, f"_{verb}")(req, who, ask)

    @staticmethod
    def _verb(req: Request, name: str) -> str:
        watching = req.query.get("watch", "") in ("1", "true")
        verbs = {
            "GET": "get" if name else "watch" if watching else "list",
            "POST": "create",
            "PUT": "update",
            "PATCH": "patch",
            "DELETE": "delete" if name else "deletecollection",
        }
        if req.method not in verbs or (verbs[req.method] == "deletecollection"):
            raise Problem(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        return verbs[req.method]

    def _review(self, req: Request, who: Identity) -> Response:
        if req.method != "POST":
            raise Problem(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        if who == ANONYMOUS:
            raise Problem(
                403,
                "Forbidden",
                'selfsubjectreviews.authentication.k8s.io is forbidden: User "system:anonymous" cannot '
                'create resource "selfsubjectreviews" in API group "authentication.k8s.io" at the cluster scope',
            )
        body = self._body(req)
        if body.get("kind") != "SelfSubjectReview" or body.get("apiVersion") != "authentication.k8s.io/v1":
            raise Problem(400, "BadRequest", "the object provided is not a SelfSubjectReview")
        return answer(
            201,
            {
                "kind": "SelfSubjectReview",
                "apiVersion": "authentication.k8s.io/v1",
                "metadata": {"creationTimestamp": now_rfc3339()},
                "status": {"userInfo": {"username": who.user, "groups": list(who.groups)}},
            },
        )

    @staticmethod
    def _body(req: Request) -> Object:
        try:
            body = json.loads(req.body)
        except ValueError as exc:
            raise Problem(400, "BadRequest", f"the object provided is unrecognized: {exc}") from exc
        if not isinstance(body, dict):
            raise Problem(400, "BadRequest", "the object provided is unrecognized")
        return body

    # --- reading
    def _get(self, req: Request, who: Identity, ask: Ask) -> Response:
        if ask.sub:
            raise Problem(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        authz.related(who, ask, list(self.store.objects.values()))
        if requested_form(req) == "PartialObjectMetadataList":
            raise not_acceptable("PartialObjectMetadataList", "not a list")
        found = self._shaped(req, self.store.get(ask.resource, ask.name, ask.namespace))
        return Response(200, dump(found, self.padding_bytes) + b"\n", "application/json")

    def _shaped(self, req: Request, obj: Object) -> Object:
        if requested_form(req).startswith("PartialObjectMetadata"):
            return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
        if self.padding_bytes and obj["kind"] == "Pod":
            return padded(obj)
        return obj

    def _answer(self, req: Request, status: int, obj: Object) -> Response:
        """What a write left, in the form that was asked for; a Status stays one."""
        return answer(status, obj if obj["kind"] == "Status" else self._shaped(req, obj))

    def _list(self, req: Request, who: Identity, ask: Ask) -> Response:
        if requested_form(req) == "PartialObjectMetadata":
            raise not_acceptable("PartialObjectMetadata", "a list")
        limit = int(req.query.get("limit") or "0") if req.query.get("resourceVersion", "") != "0" else 0
        what = Selection(ask.resource, ask.namespace, ask.fields, req.query.get("labelSelector", ""))
        page, meta = self.pages.page(what, limit, req.query.get("continue", ""))
        if "as=Table" in req.headers.get("accept", "") and ask.resource.plural == "nodeclaims":
            include = req.query.get("includeObject", "Metadata")
            return answer(200, tables.nodeclaim_table(page, meta["resourceVersion"], include, meta.get("continue", "")))
        whole = requested_form(req) != "PartialObjectMetadataList"
        kind, api_version = ask.resource.kind + "List", ask.resource.api_version
        if not whole:
            kind, api_version = "PartialObjectMetadataList", "meta.k8s.io/v1"
        top = {"kind": kind, "apiVersion": api_version, "metadata": meta, "items": []}

        def parts() -> Iterator[bytes]:
            head = json.dumps(top, separators=(",", ":"))
            yield head[:-2].encode()
            for at, obj in enumerate(page):
                item = self._shaped(req, obj)
                if whole and not ask.resource.group:  # items of a built-in list do not say what they are
                    item = {k: v for k, v in item.items() if k not in ("kind", "apiVersion")}
                yield b"," * (at > 0) + dump(item, self.padding_bytes)
            yield b"]}\n"

        if self.padding_bytes and ask.resource.plural == "pods" and whole:
            return Response(200, b"", "application/json", parts=parts())
        return Response(200, b"".join(parts()), "application/json")

    def _watch(self, req: Request, who: Identity, ask: Ask) -> Response:
        watch = Watch(
            self.store, self.server.loop, ask.resource, ask.namespace, ask.fields, req.query.get("labelSelector", "")
        )
        watch.shape = lambda obj: self._shaped(req, obj)
        watch.resume(req.query.get("resourceVersion", ""))
        watch.bookmarks = req.query.get("allowWatchBookmarks") in ("1", "true")
        watch.limit_sec = float(req.query.get("timeoutSeconds") or "300")
        watch.bookmark_sec = self.bookmark_sec
        watch.dump = lambda obj: dump(obj, self.padding_bytes)
        watch.open_ones = self.watches
        return Response(200, b"", "application/json", stream=watch.run)

    # --- writing
    def _create(self, req: Request, who: Identity, ask: Ask) -> Response:
        body = self._body(req)
        if ask.name and ask.sub == "eviction":
            return self._evict(who, ask, body)
        if ask.name:
            raise Problem(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        self._check_type(ask.resource, body)
        self._validate(ask.resource, body)
        name = body.get("metadata", {}).get("name", "")
        if ask.resource.plural == "nodes":
            self._admit_new_node(who, ask.resource, name, body)
        elif ask.resource.kind == "Event":
            authz.admit_event(ask.namespace, body)
        elif ask.resource.kind == "CertificateSigningRequest":
            self._certify(who, body)
        if req.query.get("dryRun") == "All":
            return answer(201, body)
        if ask.resource.is_custom:
            body.pop("status", None)
        for given_by_us in ("uid", "creationTimestamp", "resourceVersion", "deletionTimestamp"):
            body.get("metadata", {}).pop(given_by_us, None)
        return self._answer(req, 201, self.store.create(ask.resource, body, ask.namespace))

    @staticmethod
    def _check_type(res: Resource, body: Object) -> None:
        if body.get("kind", res.kind) != res.kind or body.get("apiVersion", res.api_version) != res.api_version:
            raise Problem(
                400,
                "BadRequest",
                f'the API version in the data ({body.get("apiVersion")}) does not match the expected '
                f"API version ({res.api_version})",
            )

    def _admit_new_node(self, who: Identity, res: Resource, name: str, body: Object) -> None:
        authz.admit_node_write(who, res, name, None, body)
        spec = body.setdefault("spec", {})
        body.setdefault("status", {})
        taints = spec.setdefault("taints", [])
        if not any(t["key"] == authz.NOT_READY["key"] and t["effect"] == "NoSchedule" for t in taints):
            taints.append(dict(authz.NOT_READY))

    @staticmethod
    def _validate(res: Resource, body: Object, old: Optional[Object] = None) -> None:
        bad = validation_error(res, body, old)
        if bad:
            kind = f"{res.kind}.{res.group}" if res.is_custom else res.kind
            raise Problem(422, "Invalid", f'{kind} "{(body.get("metadata") or {}).get("name", "")}" is invalid: {bad}')

    def _certify(self, who: Identity, body: Object) -> None:
        spec = body.get("spec", {})
        body["status"] = {}
        spec["username"], spec["groups"] = who.user, list(who.groups)
        if not self.approve or spec.get("signerName") not in (
            "kubernetes.io/kube-apiserver-client-kubelet",
            "kubernetes.io/kubelet-serving",
        ):
            return
        usage = "clientAuth" if "client" in spec["signerName"] else "serverAuth"
        cert = self.ca.sign(
            base64.b64decode(spec["request"]), f"extendedKeyUsage={usage}\nkeyUsage=critical,digitalSignature\n"
        )
        body["status"] = {
            "certificate": base64.b64encode(cert).decode(),
            "conditions": [{"type": "Approved", "status": "True", "reason": "AutoApproved", "message": "by the fake"}],
        }

    def _evict(self, who: Identity, ask: Ask, body: Object) -> Response:
        if body.get("kind") != "Eviction" or body.get("apiVersion") not in ("policy/v1",):
            raise Problem(400, "BadRequest", "the object provided is not a policy/v1 Eviction")
        if (ask.resource, ask.namespace, ask.name) in self.store.objects:
            authz.admit_pod_change(who, ask.resource, self.store.get(ask.resource, ask.name, ask.namespace), "evict")
        self.pods.evict(ask.namespace, ask.name, body)
        return answer(201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})

    def _delete(self, req: Request, who: Identity, ask: Ask) -> Response:
        old = self.store.get(ask.resource, ask.name, ask.namespace)
        options = self._body(req) if req.body else {}
        if ask.resource.plural == "pods":
            authz.admit_pod_change(who, ask.resource, old, "delete")
            return answer(200, self.pods.delete(ask.namespace, ask.name, options))
        given = options.get("preconditions") or {}
        self._preconditions(ask, given, old["metadata"])
        dry = options.get("dryRun") if req.body else [req.query.get("dryRun", "")]  # with a body its query is not read
        if dry == ["All"]:
            return self._answer(req, 200, old)
        gone = self.store.delete(ask.resource, ask.name, ask.namespace)
        if gone["metadata"].get("finalizers"):
            return self._answer(req, 200, gone)
        details = {"name": ask.name, "group": ask.resource.group, "kind": ask.resource.plural}
        details = {k: v for k, v in details.items() if v} | {"uid": gone["metadata"]["uid"]}
        done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return answer(200, done)

    @staticmethod
    def _preconditions(ask: Ask, given: Object, meta: Object) -> None:
        kind = ask.resource.kind + (f".{ask.resource.group}" if ask.resource.group else "")
        details = {"name": ask.name, "group": ask.resource.group, "kind": ask.resource.kind}
        for key, what, name in (("uid", "UID", "uid"), ("resourceVersion", "ResourceVersion", "resourceVersion")):
            if given.get(key) not in (None, meta[name]):
                raise Problem(
                    409,
                    "Conflict",
                    f'Operation cannot be fulfilled on {kind} "{ask.name}": the {what} in the precondition ({given[key]}) '
                    f"does not match the {what} in record ({meta[name]}). The object might have been "
                    + ("deleted and then recreated" if key == "uid" else "modified"),
                    {k: v for k, v in details.items() if v},
                )

    def _update(self, req: Request, who: Identity, ask: Ask) -> Response:
        body = self._body(req)
        self._check_type(ask.resource, body)
        if body.get("metadata", {}).get("name") != ask.name:
            raise Problem(400, "BadRequest", "the name of the object does not match the name on the URL")
        conditional = ask.resource.is_custom or ask.resource.plural == "leases"
        if conditional and not (body.get("metadata") or {}).get("resourceVersion"):
            raise Problem(
                422,
                "Invalid",
                f'{ask.resource.qualified} "{ask.name}" is invalid: metadata.resourceVersion: Invalid value: 0x0: '
                "must be specified for an update",
            )
        return self._write(req, who, ask, body)

    def _patch(self, req: Request, who: Identity, ask: Ask) -> Response:
        kind = req.headers.get("content-type", "").partition(";")[0].strip()
        try:
            patch = json.loads(req.body)
        except ValueError as exc:
            raise Problem(400, "BadRequest", f"error decoding patch: {exc}") from exc
        old = self.store.get(ask.resource, ask.name, ask.namespace)
        apply = {
            "application/merge-patch+json": patching.merge_patch,
            "application/json-patch+json": patching.json_patch,
        }
        if not ask.resource.is_custom:
            apply["application/strategic-merge-patch+json"] = patching.strategic_patch
        if kind not in apply:
            raise Problem(
                415,
                "UnsupportedMediaType",
                f"the body of the request was in an unknown format - accepted media types include: "
                f"{', '.join(sorted(apply))}",
            )
        try:
            new = apply[kind](old, patch)
        except (patching.BadPatch, KeyError, IndexError, TypeError) as exc:
            raise Problem(400, "BadRequest", f"{exc}") from exc
        return self._write(req, who, ask, new)

    def _write(self, req: Request, who: Identity, ask: Ask, new: Object) -> Response:
        old = self.store.get(ask.resource, ask.name, ask.namespace)
        self._optimistic_lock(ask, old, new)
        if ask.sub == "status":
            new = {**new, "spec": old.get("spec", {})} if "spec" in old else new
            if ask.resource.is_custom:  # of a custom resource it is the status alone
                new["metadata"] = old["metadata"]
        elif ask.sub:
            raise Problem(404, "NotFound", "the server could not find the requested resource")
        elif ask.resource.plural != "leases":
            new = {k: v for k, v in new.items() if k != "status"} | ({"status": old["status"]} if "status" in old else {})
        self._validate(ask.resource, new, old)
        if ask.resource.plural == "nodes":
            if old["spec"].get("providerID") and old["spec"]["providerID"] != new["spec"].get("providerID"):
                raise Problem(
                    422,
                    "Invalid",
                    f'Node "{ask.name}" is invalid: spec.providerID: Forbidden: node updates may not change '
                    'providerID except from "" to valid',
                )
            authz.admit_node_write(who, ask.resource, ask.name, old, new)
        elif ask.resource.plural == "pods":
            authz.admit_pod_change(who, ask.resource, old, "update pod status for")
        elif ask.resource.kind == "Event":
            authz.admit_event(ask.namespace, new)
        if not new["metadata"].get("uid"):  # whoever names none means whatever is there
            new["metadata"]["uid"] = old["metadata"]["uid"]
        if new["metadata"].get("uid") != old["metadata"].get("uid"):
            raise Problem(
                422,
                "Invalid",
                f'{ask.resource.kind} "{ask.name}" is invalid: metadata.uid: Invalid value: '
                f'"{new["metadata"].get("uid")}": field is immutable',
            )
        if req.query.get("dryRun") == "All":
            return self._answer(req, 200, new)
        return self._answer(req, 200, self.store.replace(ask.resource, new, ask.namespace))

    @staticmethod
    def _optimistic_lock(ask: Ask, old: Object, new: Object) -> None:
        """A resourceVersion in the body is a condition; deletion is never written by anybody but the server."""
        meta = new.setdefault("metadata", {})
        if not isinstance(meta, dict):
            return
        meta["uid"] = meta.get("uid") or old["metadata"]["uid"]  # who leaves it out means this one
        given = meta.get("resourceVersion")
        if given not in (None, "", old["metadata"]["resourceVersion"]):
            raise Problem(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on {ask.resource.qualified} "{ask.name}": the object has been modified; '
                "please apply your changes to the latest version and try again",
                {"name": ask.name, "group": ask.resource.group, "kind": ask.resource.plural},
            )
        for fixed in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
            meta.pop(fixed, None)
            if fixed in old["metadata"]:
                meta[fixed] = old["metadata"][fixed]
        if not meta.get("uid"):  # whoever replaces an object need not say which
            meta["uid"] = old["metadata"]["uid"]
        if ask.resource.is_custom and not ask.sub and new.get("spec") != old.get("spec"):
            meta["generation"] = old["metadata"]["generation"] + 1


def main() -> int:
    from imds import address

    args = argparse.ArgumentParser(description="a Kubernetes API server on loopback with the node authorizer's rules")
    args.add_argument("--listen", default="127.0.0.1:0")
    args.add_argument(
        "--control", help="HOST:PORT of the switches: PUT /faults, POST /refuse /listen /heal /compact, GET /log"
    )
    args.add_argument("--dir", type=Path, required=True, help="certificates: ca.crt and others are made here")
    args.add_argument("--cluster", default="test-cluster")
    args.add_argument("--region", default="us-west-2")
    args.add_argument(
        "--profile",
        action="append",
        choices=sorted(instances.PROFILES),
        default=[],
        help="an instance whose EKS tokens are accepted (repeat)",
    )
    args.add_argument("--node-name", help="the node that these instances stand for, instead of their private DNS name")
    args.add_argument("--objects", type=Path, help="JSON list of objects to begin with")
    args.add_argument("--claims-readable", action="store_true")
    args.add_argument("--no-karpenter", action="store_true")
    args.add_argument("--log", type=Path)
    args.add_argument("--port-file", type=Path)
    opts = args.parse_args()
    host, port = address(opts.listen)
    api = ApiServer(
        opts.dir, opts.cluster, opts.region, host, port, opts.log, Behaviour(karpenter=not opts.no_karpenter)
    )
    api.claims_readable = opts.claims_readable
    for name in opts.profile:
        api.add_instance(instances.PROFILES[name], opts.node_name or "")
    api.server.start()
    for obj in json.loads(opts.objects.read_text()) if opts.objects else []:
        res = next(r for r in RESOURCES if r.kind == obj["kind"] and r.api_version == obj["apiVersion"])
        api.put(res.plural, obj, obj["metadata"].get("namespace", "default") if res.namespaced else "")
    urls = [api.url]
    if opts.control:
        host, port = address(opts.control)
        urls.append(WireServer(control_handler(api.server, {"compact": api.store.compact}), host, port).start().url)
    text = "\n".join(urls) + "\n"
    if opts.port_file:
        part = opts.port_file.with_suffix(".part")
        part.write_text(text)
        part.rename(opts.port_file)
    print(text, end="", flush=True)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})
    api.server.stop()
    return 0


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    sys.exit(main())
