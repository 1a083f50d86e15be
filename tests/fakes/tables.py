"""Lists as metav1.Table, for NodeClaims.

Knows: the printer columns of the NodeClaim CRD.
Gives: `nodeclaim_table`.
Must not: filter; the rows are given.
"""

from __future__ import annotations

import time
from typing import Any, Callable

from store import Object


def _label(name: str) -> Callable[[Object], str]:
    return lambda obj: obj["metadata"].get("labels", {}).get(name, "")


def _condition(kind: str) -> Callable[[Object], str]:
    return lambda obj: next((c["status"] for c in obj.get("status", {}).get("conditions", []) if c["type"] == kind), "")


def _status(name: str) -> Callable[[Object], str]:
    return lambda obj: obj.get("status", {}).get(name, "")


def _age(obj: Object) -> str:
    made = time.strptime(obj["metadata"]["creationTimestamp"], "%Y-%m-%dT%H:%M:%SZ")
    return f"{max(0, int(time.mktime(time.gmtime()) - time.mktime(made)))}s"


COLUMNS: list[tuple[str, str, int, Callable[[Object], str]]] = [
    ("Name", "string", 0, lambda o: o["metadata"]["name"]),
    ("Type", "string", 0, _label("node.kubernetes.io/instance-type")),
    ("Capacity", "string", 0, _label("karpenter.sh/capacity-type")),
    ("Zone", "string", 0, _label("topology.kubernetes.io/zone")),
    ("Node", "string", 0, _status("nodeName")),
    ("Ready", "string", 0, _condition("Ready")),
    ("Age", "date", 0, _age),
    ("ImageID", "string", 1, _status("imageID")),
    ("ID", "string", 1, _status("providerID")),
    ("NodePool", "string", 1, _label("karpenter.sh/nodepool")),
    ("NodeClass", "string", 1, lambda o: o.get("spec", {}).get("nodeClassRef", {}).get("name", "")),
    ("Drifted", "string", 1, _condition("Drifted")),
]


def nodeclaim_table(items: list[Object], version: str, include: str, proceed: str) -> Object:
    """`include` is the query's includeObject: None, Metadata (the default) or Object."""

    def row(obj: Object) -> dict[str, Any]:
        shown: Any = None
        if include == "Object":
            shown = obj
        elif include != "None":
            shown = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
        return {"cells": [cell(obj) for _, _, _, cell in COLUMNS], "object": shown}

    meta: dict[str, Any] = {"resourceVersion": version}
    if proceed:
        meta["continue"] = proceed
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": [
            {
                "name": name,
                "type": kind,
                "format": "name" if name == "Name" else "",
                "description": "",
                "priority": priority,
            }
            for name, kind, priority, _ in COLUMNS
        ],
        "rows": [row(obj) for obj in items],
    }
