"""Who somebody is, and what a node may do.

Knows: the rules of the node authorizer, the role system:node and the admission plugin NodeRestriction, as a real API server
       1.34 answers them.
Gives: `authenticate`, `authorize`, `related`, `admit_node_write`, `admit_pod_change`, `admit_event`.
Must not: change an object, except for the taint that the server itself adds to a new Node.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Optional

import sigv4
from rbac import Rule, allows
from store import Object, Problem, Resource

NODE_PREFIX = "system:node:"
NODES_GROUP = "system:nodes"
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}

KUBELET_LABELS = {
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
}
KUBELET_LABEL_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")


@dataclass(frozen=True)
class Identity:
    user: str
    groups: tuple[str, ...] = ()

    @property
    def node(self) -> Optional[str]:
        """The node's name, for an identity that the node authorizer takes for a node."""
        return (
            self.user[len(NODE_PREFIX) :] if self.user.startswith(NODE_PREFIX) and NODES_GROUP in self.groups else None
        )

    @property
    def admin(self) -> bool:
        return "system:masters" in self.groups


ANONYMOUS = Identity("system:anonymous", ("system:unauthenticated",))


@dataclass
class Authenticator:
    """`tokens`: fixed bearer tokens. `keys` and `sessions`: AWS keys by access key, and the user that each stands for."""

    cluster: str = "test-cluster"
    region: str = "us-west-2"
    tokens: dict[str, Identity] = field(default_factory=dict)
    keys: dict[str, sigv4.Key] = field(default_factory=dict)
    users: dict[str, Identity] = field(default_factory=dict)
    clock: Callable[[], float] = lambda: 0.0
    seen: set[str] = field(default_factory=set)
    revoked: set[str] = field(default_factory=set)

    def revoke_seen(self) -> None:
        """Every token and certificate used so far has expired; a new one is accepted."""
        self.revoked |= self.seen

    def add_instance(self, access: str, secret: str, session: str, node: str) -> None:
        self.keys[access] = sigv4.Key(access, secret, session)
        self.users[access] = Identity(NODE_PREFIX + node, ("system:bootstrappers", NODES_GROUP))

    def authenticate(
        self, certificate: Optional[Mapping[str, Any]], headers: Mapping[str, str], note: dict[str, Any]
    ) -> Identity:
        found = self._identify(certificate, headers, note)
        if found is None:
            return ANONYMOUS
        return Identity(found.user, found.groups + ("system:authenticated",))

    def _identify(
        self, certificate: Optional[Mapping[str, Any]], headers: Mapping[str, str], note: dict[str, Any]
    ) -> Optional[Identity]:
        if certificate:
            self.seen.add(certificate["serialNumber"])
            if certificate["serialNumber"] in self.revoked:
                raise Problem(401, "Unauthorized", "Unauthorized")
            pairs = [pair for part in certificate["subject"] for pair in part]
            return Identity(
                next(v for k, v in pairs if k == "commonName"), tuple(v for k, v in pairs if k == "organizationName")
            )
        given = headers.get("authorization")
        if given is None:
            return None
        scheme, _, token = given.partition(" ")
        self.seen.add(token)
        if token in self.revoked:
            note["refused"] = "expired"
            raise Problem(401, "Unauthorized", "Unauthorized")
        if scheme.lower() == "bearer" and token in self.tokens:
            return self.tokens[token]
        try:
            key = sigv4.check_token(token, self.cluster, self.region, self.keys, self.clock())
            return self.users[key.access]
        except sigv4.Refused as exc:
            note["refused"] = str(exc)  # the real server says this in its own log only
            raise Problem(401, "Unauthorized", "Unauthorized") from exc


@dataclass(frozen=True)
class Ask:
    """What a request wants: the attributes of an authorization review."""

    verb: str
    resource: Resource
    namespace: str
    name: str
    sub: str
    fields: str

    @property
    def target(self) -> str:
        return self.resource.plural + (f"/{self.sub}" if self.sub else "")

    def forbidden(self, who: Identity, why: str) -> Problem:
        scope = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        subject = self.resource.plural + (f".{self.resource.group}" if self.resource.group else "")
        name = f' "{self.name}"' if self.name else ""
        return Problem(
            403,
            "Forbidden",
            f'{subject}{name} is forbidden: User "{who.user}" cannot {self.verb} resource "{self.target}" '
            f'in API group "{self.resource.group}" {scope}' + (f": {why}" if why else ""),
            {"name": self.name, "group": self.resource.group, "kind": self.resource.plural},
        )


# Role system:node, without what has rules of its own below: (group, resource) -> verbs.
NODE_ROLE: dict[tuple[str, str], set[str]] = {
    ("", "services"): {"get", "list", "watch"},
    ("", "events"): {"create", "patch", "update"},
    ("certificates.k8s.io", "certificatesigningrequests"): {"create", "get", "list", "watch"},
}
BOOTSTRAP_ROLE = {("certificates.k8s.io", "certificatesigningrequests"): {"create", "get", "list", "watch"}}


def authorize(
    who: Identity,
    ask: Ask,
    claims_readable: bool = False,
    rules: Optional[tuple[Rule, ...]] = None,
) -> None:
    """Raises the 403 that the server would give. `rules`: of a ServiceAccount."""
    if who.admin:
        return
    if rules is not None:
        if not allows(rules, ask.verb, ask.resource.group, ask.target, ask.namespace, ask.name):
            raise ask.forbidden(who, "")
        return
    group, plural = ask.resource.group, ask.resource.plural
    if plural == "nodeclaims" and NODES_GROUP in who.groups:
        if claims_readable and ask.verb in ("get", "list", "watch") and not ask.sub:
            return
        raise ask.forbidden(who, "")
    if who.node is not None:
        _authorize_node(who, ask)
        return
    if "system:bootstrappers" in who.groups and ask.verb in BOOTSTRAP_ROLE.get((group, plural), ()):
        return
    raise ask.forbidden(who, "")


def _authorize_node(who: Identity, ask: Ask) -> None:
    node = who.node or ""
    plural = ask.resource.plural if not ask.resource.group else ""
    if plural == "nodes":
        _authorize_nodes(who, ask, node)
    elif plural == "pods":
        if ask.sub == "eviction" and ask.verb == "create":
            return
        verbs = ("patch", "update") if ask.sub == "status" else ("get", "list", "watch", "create", "delete")
        if ask.sub not in ("", "status") or ask.verb not in verbs:
            raise ask.forbidden(who, "")
        if ask.verb in ("list", "watch") and f"spec.nodeName={node}" not in ask.fields.replace("==", "=").split(","):
            raise ask.forbidden(who, "can only list/watch pods with spec.nodeName field selector")
    elif plural in ("persistentvolumeclaims", "persistentvolumes"):
        if ask.verb != "get" or ask.sub:
            raise ask.forbidden(who, "can only read resources of this type individually" if not ask.name else "")
    elif ask.resource.plural == "leases":
        if ask.namespace != "kube-node-lease" or (ask.name not in ("", node)) or ask.verb in ("list", "watch"):
            raise ask.forbidden(who, "can only access node lease with the same name as the requesting node")
    elif ask.resource.plural == "csinodes":
        if ask.name not in ("", node) or ask.verb in ("list", "watch"):
            raise ask.forbidden(who, "can only access CSINode with the same name as the requesting node")
    elif ask.verb not in NODE_ROLE.get((ask.resource.group, ask.resource.plural), ()):
        raise ask.forbidden(who, "")


def _authorize_nodes(who: Identity, ask: Ask, node: str) -> None:
    if ask.sub == "status":
        if ask.verb not in ("patch", "update"):
            raise ask.forbidden(who, "")
    elif ask.sub or ask.verb not in ("get", "list", "watch", "create", "patch", "update"):
        raise ask.forbidden(who, "")
    if ask.verb in ("list", "watch") and f"metadata.name={node}" not in ask.fields.replace("==", "=").split(","):
        raise ask.forbidden(who, f"node '{node}' cannot read all nodes, only its own Node object")
    if ask.verb == "get" and ask.name != node:
        raise ask.forbidden(who, f"node '{node}' cannot read '{ask.name}', only its own Node object")


# --- admission: NodeRestriction
def _denied(resource: Resource, name: str, node: str, what: str) -> Problem:
    return Problem(
        403,
        "Forbidden",
        f'{resource.plural} "{name}" is forbidden: node "{node}" {what}',
        {"name": name, "kind": resource.plural},
    )


def forbidden_labels(changed: set[str]) -> list[str]:
    out = []
    for label in changed:
        domain = label.partition("/")[0] if "/" in label else ""
        restricted = domain == "node-restriction.kubernetes.io" or domain.endswith(".node-restriction.kubernetes.io")
        ours = any(domain == d or domain.endswith("." + d) for d in ("kubernetes.io", "k8s.io"))
        allowed = label in KUBELET_LABELS or any(domain == d or domain.endswith("." + d) for d in KUBELET_LABEL_DOMAINS)
        if restricted or (ours and not allowed):
            out.append(label)
    return sorted(out)


def changed_labels(old: Object, new: Object) -> set[str]:
    a, b = old.get("metadata", {}).get("labels") or {}, new.get("metadata", {}).get("labels") or {}
    return {k for k in set(a) | set(b) if a.get(k) != b.get(k)}


def admit_node_write(who: Identity, resource: Resource, name: str, old: Optional[Object], new: Object) -> None:
    """CREATE (old is None) or UPDATE of a Node by a node."""
    node = who.node
    if node is None:
        return
    if name != node:
        raise _denied(resource, name, node, f'is not allowed to modify node "{name}"')
    labels = forbidden_labels(changed_labels(old or {}, new))
    if labels:
        what = "set" if old is None else "modify"
        raise _denied(resource, name, node, f"is not allowed to {what} the following labels: {', '.join(labels)}")
    if old is None:
        return
    if (old["spec"].get("taints") or []) != (new["spec"].get("taints") or []):
        raise _denied(resource, name, node, "is not allowed to modify taints")
    if (old["metadata"].get("ownerReferences") or []) != (new["metadata"].get("ownerReferences") or []):
        raise _denied(resource, name, node, "is not allowed to modify ownerReferences")


def admit_pod_change(who: Identity, resource: Resource, pod: Object, what: str) -> None:
    """`what`: evict, delete, or update pod status for."""
    node = who.node
    if node is None or pod.get("spec", {}).get("nodeName") == node:
        return
    problem = _denied(resource, pod["metadata"]["name"], node, f"can only {what} pods with spec.nodeName set to itself")
    if what == "evict":
        problem.message = problem.message.replace(f'node "{node}"', f"node {node}")
    raise problem


def _claim_of(volume: Object) -> tuple[str, str]:
    ref = volume["spec"].get("claimRef") or {}
    return ref.get("namespace", ""), ref.get("name", "")


def related(who: Identity, ask: Ask, objects: list[Object]) -> None:
    """The node authorizer's graph: a pod, claim or volume may be read by the node that runs (or mounts) it."""
    if who.node is None:
        return
    pods = [o for o in objects if o["kind"] == "Pod" and o.get("spec", {}).get("nodeName") == who.node]
    claims = {
        (p["metadata"]["namespace"], v["persistentVolumeClaim"]["claimName"])
        for p in pods
        for v in p["spec"].get("volumes") or []
        if "persistentVolumeClaim" in v
    }
    known = {
        "pods": {(p["metadata"]["namespace"], p["metadata"]["name"]) for p in pods},
        "persistentvolumeclaims": claims,
        "persistentvolumes": {  # by what the volume says it is bound to: any claim may name any volume
            ("", o["metadata"]["name"])
            for o in objects
            if o["kind"] == "PersistentVolume" and _claim_of(o) in claims
        },
    }.get(ask.resource.plural)
    if known is not None and (ask.namespace, ask.name) not in known:
        raise ask.forbidden(who, f"no relationship found between node '{who.node}' and this object")


def admit_event(namespace: str, event: Object) -> None:
    about = event.get("involvedObject") or {}
    wanted = about.get("namespace") or "default"
    if namespace != wanted:
        raise Problem(
            422,
            "Invalid",
            f'Event "{event["metadata"].get("name", "")}" is invalid: involvedObject.namespace: '
            f'Invalid value: "{about.get("namespace", "")}": does not match event.namespace',
        )
