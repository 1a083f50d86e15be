"""What an API server says of its own groups, versions and resources.

Knows: the forms of APIVersions, APIGroupList, APIGroup and APIResourceList.
Gives: `discover`.
Must not: know what is served; the resources are given.
"""

from __future__ import annotations

from typing import Iterable, Optional

from store import Object, Problem, Resource

SUBRESOURCES = {"nodes": ("status",), "nodeclaims": ("status",), "pods": ("status", "eviction"), "nodepools": ("status",)}
VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def discover(path: str, served: Iterable[Resource]) -> Optional[Object]:
    """The document at this path; None where the path is none of discovery."""
    parts = path.strip("/").split("/")
    rows = list(served)
    if parts == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if parts == ["api", "v1"]:
        return resource_list(rows, "", "v1")
    if parts[0] != "apis" or len(parts) > 3:
        return None
    groups = list(dict.fromkeys(r.group for r in rows if r.group))
    if len(parts) == 1:
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [api_group(rows, g) for g in groups]}
    known = [r for r in rows if r.group == parts[1] and (len(parts) == 2 or r.version == parts[2])]
    if not known:
        raise Problem(404, "NotFound", "the server could not find the requested resource")
    if len(parts) == 2:
        return {"kind": "APIGroup", "apiVersion": "v1", **api_group(rows, parts[1])}
    return resource_list(rows, parts[1], parts[2])


def api_group(rows: list[Resource], group: str) -> Object:
    versions = list(dict.fromkeys(r.version for r in rows if r.group == group))
    each = [{"groupVersion": f"{group}/{v}", "version": v} for v in versions]
    return {"name": group, "versions": each, "preferredVersion": each[0]}


def resource_list(rows: list[Resource], group: str, version: str) -> Object:
    out = []
    for res in rows:
        if (res.group, res.version) != (group, version):
            continue
        base = {"name": res.plural, "singularName": res.kind.lower(), "namespaced": res.namespaced, "kind": res.kind}
        out.append({**base, "verbs": VERBS})
        out += [
            {**base, "name": f"{res.plural}/{sub}", "singularName": "", "verbs": ["get", "patch", "update"]}
            for sub in SUBRESOURCES.get(res.plural, ())
        ]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": out,
    }
