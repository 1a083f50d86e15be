"""What a ServiceAccount may do: the rules of ClusterRoles and Roles, and discovery.

Knows: rules as RBAC writes them, and what every authenticated user may read.
Gives: `Rule`, `allows`, and what deploy/ grants, so that every test of the controller proves it enough: `RELAY` in mode karpenter,
`CONTROLLER` in the other modes; `REPLACEMENT` in addition in the namespace web.
Must not: know about nodes; the node authorizer is in authz.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable

DEPLOY = Path(__file__).resolve().parent.parent.parent / "deploy"
CONTROLLER_NAMESPACE = "kube-system"
CONTROLLER_USER = f"system:serviceaccount:{CONTROLLER_NAMESPACE}:nodeclaim-controller"
CONTROLLER_GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{CONTROLLER_NAMESPACE}")


@dataclass(frozen=True)
class Rule:
    """`resources` with their subresource: "nodeclaims/status". `namespace`: of a Role; "" = the whole cluster."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    namespace: str = ""
    names: tuple[str, ...] = ()

    def covers(self, verb: str, group: str, resource: str, namespace: str, name: str) -> bool:
        return (
            group == self.group
            and resource in self.resources
            and verb in self.verbs
            and self.namespace in ("", namespace)
            and (not self.names or name in self.names)
        )


def allows(rules: Iterable[Rule], verb: str, group: str, resource: str, namespace: str, name: str) -> bool:
    return any(rule.covers(verb, group, resource, namespace, name) for rule in rules)


def words(line: str) -> tuple[str, ...]:
    """`verbs: [get, list]` -> its words."""
    found = re.fullmatch(r"-? *\w+: \[(.*)\]", line.strip())
    if not found:
        raise ValueError(f"not a list in brackets: {line!r}")
    return tuple(w.strip().strip('"') for w in found[1].split(","))


def read_rules(text: str) -> tuple[Rule, ...]:
    """The rules of all ClusterRoles and Roles of a manifest, as this repository writes them."""
    out: list[Rule] = []
    for doc in re.split(r"^---$", text, flags=re.M):
        kind = re.search(r"^kind: (ClusterRole|Role)$", doc, re.M)
        if not kind:
            continue
        namespace = re.search(r"^  namespace: (\S+)$", doc, re.M)
        for rule in re.split(r"^- (?=apiGroups)", doc.partition("\nrules:\n")[2], flags=re.M)[1:]:
            lines = [line for line in rule.splitlines() if line.strip() and not line.startswith("#")]
            have = {line.strip().partition(":")[0]: words(line) for line in lines}
            for group in have["apiGroups"]:
                out.append(
                    Rule(
                        group,
                        have["resources"],
                        have["verbs"],
                        namespace[1] if namespace and kind[1] == "Role" else "",
                        have.get("resourceNames", ()),
                    )
                )
    return tuple(out)


RELAY = read_rules((DEPLOY / "rbac.yaml").read_text(encoding="utf-8"))
CONTROLLER = RELAY + read_rules((DEPLOY / "optional" / "standalone-role.yaml").read_text(encoding="utf-8"))
# What --replacement-first needs in addition, in the namespace web.
REPLACEMENT = read_rules((DEPLOY / "optional" / "replacement-role.yaml").read_text(encoding="utf-8"))
