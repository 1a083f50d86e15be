"""How pods leave: the API server's deletion arithmetic, the eviction subresource, budgets, and a toy kubelet.

Knows: what kube-apiserver 1.34 answers to evictions and deletions of pods, word by word.
Gives: `Pods`, `Budget`, `ToyKubelet`.
Must not: decide who may ask (authz.py), nor speak HTTP.
"""

from __future__ import annotations

import calendar
import math
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

from store import RESOURCES, Change, Object, Problem, Store

PODS = next(r for r in RESOURCES if r.plural == "pods")
TERMINAL = ("Succeeded", "Failed")
MULTIPLE = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
BLOCKED = "Cannot evict pod as it would violate the pod's disruption budget."


@dataclass
class Budget:
    """A PodDisruptionBudget over pods by name. `allowed` evictions are left (None: its status is stale, as right after it
    was made). With `min_available` it is counted instead: pods of it that run and are not leaving, here and `elsewhere`.
    """

    name: str
    pods: set[str]
    allowed: Optional[int] = 0
    min_available: Optional[int] = None
    elsewhere: int = 0
    namespace: str = "default"
    desired: int = 3
    healthy: int = 3
    asked: int = 0
    disrupted: set[str] = field(default_factory=set)


def epoch(text: str) -> int:
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))


def stamp(when: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(math.floor(when)))


def is_terminal(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in TERMINAL


def conflict(name: str, asked: str, have: str) -> Problem:
    return Problem(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on Pod "{name}": the UID in the precondition ({asked}) does not match the UID in '
        f"record ({have}). The object might have been deleted and then recreated",
        {"name": name, "kind": "Pod"},
    )


class Pods:
    """`clock` is the API server's own clock."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self.store, self.clock = store, clock
        self.budgets: list[Budget] = []

    # --- evictions
    def evict(self, namespace: str, name: str, body: Object) -> None:
        """Returns where the eviction was accepted."""
        if (body.get("metadata") or {}).get("name", "") != name:
            raise Problem(400, "BadRequest", "name in URL does not match name in Eviction object")
        self._check_namespace(namespace, name)
        if (PODS, namespace, name) not in self.store.objects:
            raise Problem(404, "NotFound", f'pod "{name}" not found', {"name": name, "kind": "pod"})
        pod = self.store.get(PODS, name, namespace)
        options = body.get("deleteOptions") or {}
        phase = (pod.get("status") or {}).get("phase")
        if phase not in (*TERMINAL, "Pending") and not pod["metadata"].get("deletionTimestamp"):
            self._ask_budgets(pod)
        self._check_uid(pod, options)
        self._add_condition(pod)
        self.delete(namespace, name, options)

    def _check_namespace(self, namespace: str, name: str) -> None:
        for (res, _, known), obj in self.store.objects.items():
            if res.plural == "namespaces" and known == namespace and obj["metadata"].get("deletionTimestamp"):
                raise Problem(
                    403,
                    "Forbidden",
                    f'pods "{name}" is forbidden: unable to create new content in namespace {namespace} because it is '
                    "being terminated",
                    {
                        "name": name,
                        "kind": "pods",
                        "causes": [
                            {
                                "reason": "NamespaceTerminating",
                                "message": f"namespace {namespace} is being terminated",
                                "field": "metadata.namespace",
                            }
                        ],
                    },
                )

    def _ask_budgets(self, pod: Object) -> None:
        meta = pod["metadata"]
        found = [b for b in self.budgets if b.namespace == meta["namespace"] and meta["name"] in b.pods]
        for budget in found:
            budget.asked += 1
        if len(found) > 1:
            raise Problem(500, "", MULTIPLE)
        if not found:
            return
        budget = found[0]
        if budget.min_available is not None:
            budget.desired, budget.healthy = budget.min_available, self._healthy(budget)
            budget.allowed = max(0, budget.healthy - budget.desired)
        if budget.allowed is None:
            cause = f"The disruption budget {budget.name} is still being processed by the server."
            raise self._too_many(cause, 10)
        if budget.allowed == 0:
            cause = f"The disruption budget {budget.name} needs {budget.desired} healthy pods and has {budget.healthy} currently"
            raise self._too_many(cause, 0)
        budget.allowed -= 1
        budget.disrupted.add(meta["name"])

    def _healthy(self, budget: Budget) -> int:
        here = 0
        for name in budget.pods:
            pod = self.store.objects.get((PODS, budget.namespace, name))
            if pod and not is_terminal(pod) and not pod["metadata"].get("deletionTimestamp"):
                here += 1
        return here + budget.elsewhere

    @staticmethod
    def _too_many(cause: str, after_sec: int) -> Problem:
        details: Object = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
        if after_sec:
            details["retryAfterSeconds"] = after_sec
        return Problem(429, "TooManyRequests", BLOCKED, details, {"Retry-After": str(after_sec)} if after_sec else None)

    def _add_condition(self, pod: Object) -> None:
        pod = self.store.get(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"])
        status = pod.setdefault("status", {})
        rest = [c for c in status.get("conditions") or [] if c["type"] != "DisruptionTarget"]
        status["conditions"] = rest + [
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
                "lastTransitionTime": stamp(self.clock()),
            }
        ]
        self.store.replace(PODS, pod, pod["metadata"]["namespace"])

    # --- deletions
    @staticmethod
    def _check_uid(pod: Object, options: Object) -> None:
        uid = (options.get("preconditions") or {}).get("uid")
        if uid not in (None, pod["metadata"]["uid"]):
            raise conflict(pod["metadata"]["name"], uid, pod["metadata"]["uid"])

    def delete(self, namespace: str, name: str, options: Object) -> Object:
        """DELETE: the first sets the end of the grace period, a later one may only shorten it, counted from the first."""
        pod = self.store.get(PODS, name, namespace)
        self._check_uid(pod, options)
        grace = options.get("gracePeriodSeconds")
        if pod["metadata"].get("deletionTimestamp"):
            return self._shorten(pod, grace)
        if grace is None:
            grace = pod.get("spec", {}).get("terminationGracePeriodSeconds", 30)
        if is_terminal(pod) or not pod.get("spec", {}).get("nodeName"):
            grace = 0
        if grace < 0:
            grace = 1
        return self._mark(pod, self.clock() + grace, grace)

    def _shorten(self, pod: Object, grace: Optional[int]) -> Object:
        meta = pod["metadata"]
        if grace is None or grace >= meta["deletionGracePeriodSeconds"]:
            return pod
        end = float(epoch(meta["deletionTimestamp"]) - meta["deletionGracePeriodSeconds"] + max(grace, 0))
        if end < self.clock():
            end, grace = self.clock(), 1 if grace else 0
        return self._mark(pod, end, grace)

    def _mark(self, pod: Object, end: float, grace: int) -> Object:
        meta = pod["metadata"]
        meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = stamp(end), grace
        if grace == 0 and not meta.get("finalizers"):
            return self.remove(pod)
        return self.store.replace(PODS, pod, meta["namespace"], graceful=True)

    def remove(self, pod: Object) -> Object:
        """It is gone from the store, as when kubelet has confirmed that it stopped."""
        key = (PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])
        return self.store.remove(key, pod)


class ToyKubelet:
    """Removes pods that are terminating: `stops_after[name]` seconds (else `stops_after_sec`) after it sees that, or when
    their grace ends, whichever is first. Pods in `stuck` never go. It may be stopped (`running`)."""

    def __init__(self, pods: Pods, later: Callable[[float, Callable[[], None]], Any]) -> None:
        self.pods, self.later = pods, later
        self.stops_after: dict[str, float] = {}
        self.stops_after_sec = 0.02
        self.stuck: set[str] = set()
        self.running = True
        self.seen: dict[str, float] = {}  # uid -> when it was first seen terminating
        self.ended: dict[str, str] = {}  # name -> "stopped" within its grace, or "killed"
        self.graces: dict[str, list[int]] = {}  # name -> every deletionGracePeriodSeconds that it was given
        self.gone: dict[str, float] = {}  # name -> time on the API server's clock
        pods.store.watchers.append(self._changed)

    def _changed(self, change: Change) -> None:
        if change.resource != PODS:
            return
        meta = change.object["metadata"]
        if change.kind == "DELETED":
            self.gone[meta["name"]] = self.pods.clock()
        elif meta.get("deletionTimestamp"):
            graces = self.graces.setdefault(meta["name"], [])
            if graces[-1:] != [meta["deletionGracePeriodSeconds"]]:
                graces.append(meta["deletionGracePeriodSeconds"])
                self._plan(meta)

    def _plan(self, meta: Object) -> None:
        now = self.pods.clock()
        first = self.seen.setdefault(meta["uid"], now)
        stop = first + self.stops_after.get(meta["name"], self.stops_after_sec)
        kill = max(now, float(epoch(meta["deletionTimestamp"])))
        how = "stopped" if stop <= kill else "killed"
        key, uid = (PODS, meta["namespace"], meta["name"]), meta["uid"]

        def go() -> None:
            pod = self.pods.store.objects.get(key)
            if pod and pod["metadata"]["uid"] == uid and meta["name"] not in self.stuck and self.running:
                self.ended[meta["name"]] = how
                self.pods.remove(dict(pod, metadata=dict(pod["metadata"])))

        self.later(max(0.0, min(stop, kill) - now), go)
