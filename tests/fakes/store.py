"""Objects with versions, and what changed since a version.

Knows: resourceVersion, uid, history, watchers, selectors.
Gives: `Store`.
Must not: decide who may do what, nor speak HTTP.
"""

from __future__ import annotations

import copy
import time
import uuid
from dataclasses import dataclass
from typing import Any, Callable, Iterator, NamedTuple, Optional

Object = dict[str, Any]


class Resource(NamedTuple):
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """As messages name it: nodeclaims.karpenter.sh."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def is_custom(self) -> bool:
        """Defined by a CRD: no strategic merge patch, but a generation and a schema of its own."""
        return self.group.startswith("karpenter.")


RESOURCES = [
    Resource("", "v1", "nodes", "Node", False),
    Resource("", "v1", "pods", "Pod", True),
    Resource("", "v1", "events", "Event", True),
    Resource("", "v1", "namespaces", "Namespace", False),
    Resource("", "v1", "services", "Service", True),
    Resource("", "v1", "secrets", "Secret", True),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True),
    Resource("", "v1", "persistentvolumes", "PersistentVolume", False),
    Resource("apps", "v1", "deployments", "Deployment", True),
    Resource("apps", "v1", "replicasets", "ReplicaSet", True),
    Resource("coordination.k8s.io", "v1", "leases", "Lease", True),
    Resource("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", False),
    Resource("karpenter.sh", "v1", "nodeclaims", "NodeClaim", False),
    Resource("karpenter.sh", "v1", "nodepools", "NodePool", False),
    Resource("karpenter.sh", "v1beta1", "nodeclaims", "NodeClaim", False),
    Resource("karpenter.sh", "v1beta1", "nodepools", "NodePool", False),
    Resource("karpenter.k8s.aws", "v1", "ec2nodeclasses", "EC2NodeClass", False),
    Resource("karpenter.k8s.aws", "v1beta1", "ec2nodeclasses", "EC2NodeClass", False),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True),
    Resource("storage.k8s.io", "v1", "csinodes", "CSINode", False),
    Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", False),
    Resource("events.k8s.io", "v1", "events", "Event", True),
]


class Problem(Exception):
    """An answer of class 4xx or 5xx: code, reason as in metav1.Status, message."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Optional[Object] = None,
        headers: Optional[dict[str, str]] = None,
        meta: Optional[Object] = None,
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details, self.headers = code, reason, message, details, headers or {}
        self.meta = meta or {}  # of the Status


@dataclass
class Change:
    version: int
    kind: str  # ADDED, MODIFIED, DELETED
    resource: Resource
    object: Object
    before: Optional[Object] = None  # as it was; None: it is new


Key = tuple[Resource, str, str]


def now_rfc3339(now: Optional[float] = None) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))


def field_value(obj: Object, path: str) -> str:
    at: Any = obj
    for name in path.split("."):
        at = at.get(name) if isinstance(at, dict) else None
    return "" if at is None else str(at).lower() if isinstance(at, bool) else str(at)


def parse_selector(text: str) -> list[tuple[str, str, bool]]:
    """`a=b,c!=d` -> (name, value, wanted equal); a bare `a` (labels) asks for presence with value '*'."""
    out = []
    for term in filter(None, text.split(",")):
        for sign, equal in (("!=", False), ("==", True), ("=", True)):
            if sign in term:
                name, _, value = term.partition(sign)
                out.append((name.strip(), value.strip(), equal))
                break
        else:
            out.append((term.strip().lstrip("!"), "*", not term.strip().startswith("!")))
    return out


SELECTABLE = {
    "nodes": {"metadata.name", "spec.unschedulable"},
    "pods": {"metadata.name", "metadata.namespace", "spec.nodeName", "status.phase"},
    "events": {"metadata.name", "involvedObject.name", "involvedObject.kind", "involvedObject.uid", "reason", "type"},
}


def matches(resource: Resource, obj: Object, fields: str, labels: str) -> bool:
    allowed = SELECTABLE.get(resource.plural, {"metadata.name", "metadata.namespace"})
    for name, value, equal in parse_selector(fields):
        if name not in allowed:
            raise Problem(400, "BadRequest", f"field label not supported: {name}")
        if (field_value(obj, name) == value) != equal:
            return False
    have = obj["metadata"].get("labels", {})
    for name, value, equal in parse_selector(labels):
        if (name in have and value in ("*", have[name])) != equal:
            return False
    return True


class Store:
    """`clock` is the API server's own clock."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.version = 1000
        self.oldest = 1000  # watches from before are told 410
        self.objects: dict[Key, Object] = {}
        self.history: list[Change] = []
        self.watchers: list[Callable[[Change], None]] = []

    def _commit(self, kind: str, key: Key, obj: Object) -> Object:
        self.version += 1
        before = self.objects.get(key)
        obj["metadata"]["resourceVersion"] = str(self.version)
        if kind == "DELETED":
            self.objects.pop(key, None)
        else:
            self.objects[key] = obj
        change = Change(self.version, kind, key[0], copy.deepcopy(obj), before)
        self.history.append(change)
        for call in list(self.watchers):
            call(change)
        return copy.deepcopy(obj)

    def create(self, resource: Resource, obj: Object, namespace: str = "") -> Object:
        obj = copy.deepcopy(obj)
        meta = obj.setdefault("metadata", {})
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = meta["generateName"] + uuid.uuid4().hex[:12]
        if not meta.get("name"):
            raise Problem(
                422, "Invalid", f"{resource.kind} is invalid: metadata.name: Required value: name is required"
            )
        if resource.namespaced:
            meta["namespace"] = namespace
        key = (resource, namespace, meta["name"])
        if key in self.objects:
            raise Problem(409, "AlreadyExists", f'{resource.qualified} "{meta["name"]}" already exists')
        meta["uid"] = str(uuid.uuid4())
        meta["creationTimestamp"] = meta.get("creationTimestamp") or now_rfc3339(self.clock())
        if resource.is_custom:
            meta["generation"] = 1
        obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind
        return self._commit("ADDED", key, obj)

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        obj = self.objects.get((resource, namespace, name))
        if obj is None:
            raise Problem(
                404,
                "NotFound",
                f'{resource.qualified} "{name}" not found',
                {"name": name, "group": resource.group, "kind": resource.plural},
            )
        return copy.deepcopy(obj)

    def replace(self, resource: Resource, obj: Object, namespace: str = "", graceful: bool = False) -> Object:
        """`graceful`: what has a deletionTimestamp and no finalizers stays all the same (a pod in its grace period)."""
        name = obj["metadata"]["name"]
        old = self.get(resource, name, namespace)
        given = obj["metadata"].get("resourceVersion")
        if given not in (None, "", old["metadata"]["resourceVersion"]):
            raise Problem(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on {resource.qualified} "{name}": the object has been modified; '
                "please apply your changes to the latest version and try again",
            )
        for fixed in ("uid", "creationTimestamp", "name"):
            obj["metadata"][fixed] = old["metadata"][fixed]
        obj["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if obj == old:
            return old  # the API server does not write what does not change
        key = (resource, namespace, name)
        graceful = graceful or bool(obj["metadata"].get("deletionGracePeriodSeconds"))
        if obj["metadata"].get("deletionTimestamp") and not obj["metadata"].get("finalizers") and not graceful:
            return self._commit("DELETED", key, obj)
        return self._commit("MODIFIED", key, obj)

    def delete(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """What has finalizers is marked and stays; marking it again writes nothing."""
        obj = self.get(resource, name, namespace)
        key, meta = (resource, namespace, name), obj["metadata"]
        if not meta.get("finalizers"):
            return self._commit("DELETED", key, obj)
        if meta.get("deletionTimestamp"):
            return obj
        meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = now_rfc3339(self.clock()), 0
        if "generation" in meta:
            meta["generation"] += 1
        return self._commit("MODIFIED", key, obj)

    def remove(self, key: Key, obj: Object) -> Object:
        return self._commit("DELETED", key, copy.deepcopy(obj))

    def list(self, resource: Resource, namespace: str = "", fields: str = "", labels: str = "") -> list[Object]:
        return [copy.deepcopy(obj) for obj in self.scan(resource, namespace, fields, labels)]

    def scan(self, resource: Resource, namespace: str = "", fields: str = "", labels: str = "") -> list[Object]:
        """The same, not copied: for who only reads. A stored object is replaced, never changed."""
        rows = [
            (key[1:], obj)
            for key, obj in self.objects.items()
            if key[0] == resource and (not namespace or key[1] == namespace)
        ]
        rows.sort(key=lambda row: row[0])
        return [obj for _, obj in rows if not (fields or labels) or matches(resource, obj, fields, labels)]

    def since(self, version: int) -> Iterator[Change]:
        if version < self.oldest:
            raise Problem(410, "Expired", f"too old resource version: {version} ({self.oldest})")
        return (c for c in self.history if c.version > version)

    def compact(self) -> None:
        """Forgets the past: a watch that resumes from a version before this moment gets 410."""
        self.oldest = self.version
        self.history.clear()
