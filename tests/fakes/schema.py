"""What the schema of an object says to a write.

Knows: the rules for the fields that a node or the controller writes: labels, annotations, taints, conditions, finalizers.
Gives: `validation_error`.
Must not: know who writes.
"""

from __future__ import annotations

import json
import re
from typing import Optional

from kubeletconf import label_error, taint_error
from store import Object, Resource

CONDITION_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
CONDITION_TYPE = re.compile(r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")


def validation_error(res: Resource, obj: Object, old: Optional[Object] = None) -> str:
    """What the API server says after "is invalid: "; "" = nothing."""
    meta = obj.get("metadata")
    if not isinstance(meta, dict):
        return "metadata: Required value"
    bad = _metadata_error(meta, (old or {}).get("metadata"))
    if bad:
        return bad
    if res.plural == "nodes":
        return _node_error(obj)
    if res.plural == "nodeclaims":
        return _claim_error(obj, old)
    if res.plural == "leases":
        return _lease_error(obj.get("spec") or {})
    if res.kind == "Event" and not res.group and not (obj.get("involvedObject") or {}).get("kind"):
        return "involvedObject: Required value"
    return ""


def _metadata_error(meta: Object, old: Optional[Object]) -> str:
    for key, value in (meta.get("labels") or {}).items():
        bad = label_error(key, value)
        if bad:
            return f"metadata.labels: Invalid value: {bad}"
    for value in (meta.get("annotations") or {}).values():
        if not isinstance(value, str):
            return "metadata.annotations: Invalid value: must be strings"
    finalizers = meta.get("finalizers") or []
    if any(not isinstance(f, str) or "/" not in f for f in finalizers):
        return f"metadata.finalizers: Invalid value: {finalizers!r}: name is neither a standard finalizer name nor is it fully qualified"
    new = sorted(set(finalizers) - set((old or {}).get("finalizers") or []))
    if old and old.get("deletionTimestamp") and new:
        said = "[]string{" + ", ".join(f'"{f}"' for f in new) + "}"
        return (
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
            f"found new finalizers {said}"
        )
    return ""


def _node_error(obj: Object) -> str:
    taints = (obj.get("spec") or {}).get("taints") or []
    for taint in taints:
        bad = taint_error(taint)
        if bad:
            return f"spec.taints: Invalid value: {bad}"
    if len({(t["key"], t["effect"]) for t in taints}) != len(taints):
        return "metadata.taints: Duplicate value"
    for cond in (obj.get("status") or {}).get("conditions") or []:
        if cond.get("status") not in ("True", "False", "Unknown") or not cond.get("type"):
            return f"status.conditions: Invalid value: {json.dumps(cond)}"
    return ""


def _claim_error(obj: Object, old: Optional[Object]) -> str:
    if old is not None and obj.get("spec") != old.get("spec"):
        return 'spec: Invalid value: "object": spec is immutable'
    seen = set()
    for at, cond in enumerate((obj.get("status") or {}).get("conditions") or []):
        where = f"status.conditions[{at}]"
        if cond in ((old or {}).get("status") or {}).get("conditions", []):
            seen.add(cond.get("type"))
            continue  # what was there is let be
        for name in ("type", "status", "reason", "lastTransitionTime", "message"):
            if not isinstance(cond.get(name), str):
                return f"{where}.{name}: Required value"
        for name, rule, longest in (("reason", CONDITION_REASON, 1024), ("type", CONDITION_TYPE, 316)):
            if not rule.fullmatch(cond[name]) or len(cond[name]) > longest:
                return f'{where}.{name}: Invalid value: "{cond[name]}": should match \'^{rule.pattern}$\''
        if cond["status"] not in ("True", "False", "Unknown"):
            return f'{where}.status: Unsupported value: "{cond["status"]}"'
        if not TIME.fullmatch(cond["lastTransitionTime"]) or len(cond["message"]) > 32768:
            return f"{where}.lastTransitionTime: Invalid value: {cond}"
        if cond["type"] in seen:
            return f"{where}: Duplicate value: {{\"type\":\"{cond['type']}\"}}"
        seen.add(cond["type"])
    return ""


def _lease_error(spec: Object) -> str:
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and (not isinstance(duration, int) or duration <= 0):
        return f"spec.leaseDurationSeconds: Invalid value: {duration}: must be greater than 0"
    if transitions is not None and (not isinstance(transitions, int) or transitions < 0):
        return f"spec.leaseTransitions: Invalid value: {transitions}: must be greater than or equal to 0"
    for name in ("acquireTime", "renewTime"):
        if spec.get(name) is not None and not MICRO_TIME.fullmatch(str(spec[name])):
            return f"spec.{name}: Invalid value: {spec[name]!r}"
    return ""
