"""What the rest of a cluster does to a new Node: cloud controller, controller manager, Karpenter.

Knows: which of them takes which taint off, in which order, and what Karpenter writes at registration and initialization.
Gives: `Cluster`, which follows a store's changes with small delays.
Must not: be faster than a real one would be (each step comes some milliseconds after its cause).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Optional

from store import RESOURCES, Change, Object, Problem, Store, now_rfc3339

NODES = next(r for r in RESOURCES if r.plural == "nodes")
NODECLAIMS = next(r for r in RESOURCES if r.plural == "nodeclaims")
UNREGISTERED = "karpenter.sh/unregistered"
UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
NOT_READY = "node.kubernetes.io/not-ready"
EPHEMERAL = {NOT_READY, UNINITIALIZED, UNREGISTERED, "node.kubernetes.io/unreachable"}


@dataclass
class Behaviour:
    """Each part can be switched off, to see how the node explains what it waits for."""

    karpenter: bool = True
    controller_manager: bool = True
    cloud_controller: bool = True
    delay_sec: float = 0.03
    readiness: str = ""  # the taint that a NodeReadinessRule removes once BootstrapComplete is True
    at_once: bool = False  # registered only when it can be initialized as well: nothing falls between the two


def condition(obj: Object, kind: str) -> Optional[Object]:
    return next((c for c in obj.get("status", {}).get("conditions") or [] if c["type"] == kind), None)


def is_ready(node: Object) -> bool:
    ready = condition(node, "Ready")
    return ready is not None and ready["status"] == "True"


class Cluster:
    def __init__(self, store: Store, later: Callable[[float, Callable[[], None]], Any], behave: Behaviour) -> None:
        self.store, self.later, self.behave = store, later, behave
        store.watchers.append(self._changed)

    def _changed(self, change: Change) -> None:
        if not (self.behave.karpenter or self.behave.controller_manager or self.behave.cloud_controller):
            return
        if change.resource == NODES and change.kind != "DELETED":
            name = change.object["metadata"]["name"]
            self.later(self.behave.delay_sec, lambda: self._reconcile(name))
        elif change.resource == NODECLAIMS and change.kind == "ADDED" and self.behave.karpenter:
            for node in self.store.list(NODES):
                name = node["metadata"]["name"]
                self.later(self.behave.delay_sec, lambda name=name: self._reconcile(name))  # type: ignore[misc]

    def _reconcile(self, name: str) -> None:
        try:
            for step in (self._untaint, self._register, self._initialize):
                step(self.store.get(NODES, name))
        except Problem as exc:
            if exc.code not in (404, 409):
                raise

    def _untaint(self, node: Object) -> None:
        off = set()
        if self.behave.cloud_controller:
            off.add(UNINITIALIZED)
        if self.behave.controller_manager and is_ready(node):
            off.add(NOT_READY)
        complete = condition(node, "BootstrapComplete")
        if complete is not None and complete["status"] == "True":
            off.add(self.behave.readiness)
        taints = node["spec"].get("taints") or []
        kept = [t for t in taints if t["key"] not in off]
        if len(kept) != len(taints):
            node["spec"]["taints"] = kept
            self.store.replace(NODES, node)

    def claim_of(self, node: Object) -> Optional[Object]:
        wanted = node["spec"].get("providerID")
        return next(
            (c for c in self.store.list(NODECLAIMS) if wanted and c.get("status", {}).get("providerID") == wanted), None
        )

    def _register(self, node: Object) -> None:
        if self.behave.at_once and not is_ready(node):
            return
        claim = self.claim_of(node) if self.behave.karpenter else None
        labels = node["metadata"].setdefault("labels", {})
        if claim is None or labels.get("karpenter.sh/registered") == "true":
            return
        meta = node["metadata"]
        spec = claim.get("spec", {})
        taints = [t for t in node["spec"].get("taints") or [] if t["key"] != UNREGISTERED]
        if labels.get("karpenter.sh/do-not-sync-taints") != "true":
            taints += [t for t in (spec.get("taints") or []) + (spec.get("startupTaints") or []) if t not in taints]
        node["spec"]["taints"] = taints
        labels.update(claim["metadata"].get("labels") or {})
        labels["karpenter.sh/registered"] = "true"
        meta.setdefault("annotations", {}).update(claim["metadata"].get("annotations") or {})
        meta["finalizers"] = sorted({*meta.get("finalizers", []), "karpenter.sh/termination"})
        meta["ownerReferences"] = [
            {
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodeClaim",
                "name": claim["metadata"]["name"],
                "uid": claim["metadata"]["uid"],
                "blockOwnerDeletion": True,
            }
        ]
        self.store.replace(NODES, node)
        claim["status"]["nodeName"] = meta["name"]
        self._conditions(claim, "Registered", "True", "Registered", "")

    def _initialize(self, node: Object) -> None:
        labels = node["metadata"].get("labels") or {}
        registered, initialized = (labels.get(f"karpenter.sh/{k}") == "true" for k in ("registered", "initialized"))
        claim = self.claim_of(node) if self.behave.karpenter and registered and not initialized else None
        if claim is None:
            return
        waiting = self._waiting(node, claim)
        if waiting:
            self._conditions(claim, "Initialized", "Unknown", *waiting)
            return
        node["metadata"]["labels"]["karpenter.sh/initialized"] = "true"
        self.store.replace(NODES, node)
        self._conditions(claim, "Initialized", "True", "Initialized", "")

    @staticmethod
    def _waiting(node: Object, claim: Object) -> Optional[tuple[str, str]]:
        if not is_ready(node):
            return "NodeNotReady", "Node status is NotReady"
        taints = node["spec"].get("taints") or []
        for taint in claim.get("spec", {}).get("startupTaints") or []:
            if any(t["key"] == taint["key"] and t["effect"] == taint["effect"] for t in taints):
                return "StartupTaintsExist", f'StartupTaint "{taint["key"]}:{taint["effect"]}" still exists'
        for taint in taints:
            if taint["key"] in EPHEMERAL:
                return (
                    "KnownEphemeralTaintsExist",
                    f'KnownEphemeralTaint "{taint["key"]}:{taint["effect"]}" still exists',
                )
        for name, amount in claim.get("spec", {}).get("resources", {}).get("requests", {}).items():
            if str(amount) not in ("", "0") and str(node["status"].get("allocatable", {}).get(name, "0")) == "0":
                return "ResourceNotRegistered", f'Resource "{name}" was requested but not registered'
        return None

    def _conditions(self, claim: Object, kind: str, status: str, reason: str, message: str) -> None:
        now = condition(claim, kind)
        if now and (now["status"], now["reason"]) == (status, reason):
            return
        rest = [c for c in claim["status"].get("conditions", []) if c["type"] != kind]
        claim["status"]["conditions"] = rest + [
            {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now_rfc3339()}
        ]
        fresh = self.store.get(NODECLAIMS, claim["metadata"]["name"])
        fresh["status"] = claim["status"]
        self.store.replace(NODECLAIMS, fresh)
