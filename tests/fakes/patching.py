"""Merge patches and strategic merge patches, as far as Nodes and what a node writes need them.

Knows: which lists of a Node, an Event or a Pod merge by key, and by which.
Gives: pure functions from (document, patch) to a new document.
Must not: know about versions or permissions.
"""

from __future__ import annotations

import copy
from typing import Any

MERGE_KEYS: dict[str, str] = {  # path within the object -> merge key
    "status.conditions": "type",
    "status.addresses": "type",
    "spec.taints": "key",
    "metadata.ownerReferences": "uid",
}
SET_LISTS = ("metadata.finalizers", "status.volumesInUse")


class BadPatch(Exception):
    """The patch is no patch."""


def merge_patch(doc: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    out = dict(doc) if isinstance(doc, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge_patch(out.get(key), value)
    return out


def strategic_patch(doc: Any, patch: Any, path: str = "") -> Any:
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    if patch.get("$patch") == "replace":
        return {k: copy.deepcopy(v) for k, v in patch.items() if k != "$patch"}
    out = dict(doc) if isinstance(doc, dict) else {}
    for key, value in patch.items():
        where = f"{path}.{key}" if path else key
        if key.startswith("$setElementOrder/") or key == "$retainKeys":
            continue
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            out[name] = [x for x in out.get(name, []) if x not in value]
        elif key.startswith("$"):
            raise BadPatch(f"unknown directive {key!r}")
        elif value is None:
            out.pop(key, None)
        elif isinstance(value, list) and where in MERGE_KEYS:
            out[key] = _merge_list(out.get(key) or [], value, MERGE_KEYS[where], where)
        elif isinstance(value, list) and where in SET_LISTS:
            out[key] = list(out.get(key) or []) + [v for v in value if v not in (out.get(key) or [])]
        else:
            out[key] = strategic_patch(out.get(key), value, where)
    return out


def _merge_list(old: list[Any], patch: list[Any], key: str, where: str) -> list[Any]:
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [copy.deepcopy(i) for i in patch if i.get("$patch") != "replace"]
    out = [copy.deepcopy(item) for item in old]
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise BadPatch(f"map: {item!r} does not contain declared merge key: {key}")
        at = next((i for i, have in enumerate(out) if have.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            out = [have for have in out if have.get(key) != item[key]]
        elif at is None:
            out.append(copy.deepcopy(item))
        else:
            out[at] = strategic_patch(out[at], item, where + "[]")
    return out


def json_patch(doc: Any, steps: Any) -> Any:
    """RFC 6902: add, remove, replace and test."""
    if not isinstance(steps, list):
        raise BadPatch("a JSON patch is a list")
    out = copy.deepcopy(doc)
    for step in steps:
        names = [p.replace("~1", "/").replace("~0", "~") for p in step["path"].split("/")[1:]]
        at: Any = out
        for name in names[:-1]:
            at = at[int(name)] if isinstance(at, list) else at[name]
        _step(at, names[-1], step)
    return out


def _step(at: Any, last: str, step: dict[str, Any]) -> None:
    index: Any = last
    if isinstance(at, list):
        index = len(at) if last == "-" else int(last)
    if step["op"] == "test":
        if at[index] != step["value"]:
            raise BadPatch(f"testing value {step['path']} failed")
    elif step["op"] == "remove":
        del at[index]
    elif step["op"] == "add" and isinstance(at, list):
        at.insert(index, step["value"])
    elif step["op"] in ("add", "replace"):
        at[index] = step["value"]
    else:
        raise BadPatch(f"unsupported op {step['op']!r}")
