"""What a ServiceAccount may do: the rules of ClusterRoles and Roles, and discovery.

Knows: rules as RBAC writes them, and what every authenticated user may read.
Gives: `Rule`, `CONTROLLER`, `allows`, `load_rules`.
Must not: know about nodes; the node authorizer is in authz.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable

CONTROLLER_USER = "system:serviceaccount:nodeclaimd:nodeclaim-controller"
CONTROLLER_GROUPS = ("system:serviceaccounts", "system:serviceaccounts:nodeclaimd")
CONTROLLER_NAMESPACE = "nodeclaimd"


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


READ = ("get", "list", "watch")
# What the controller needs, alone or beside Karpenter; deploy/ grants it.
CONTROLLER = (
    Rule("", ("nodes",), (*READ, "patch", "delete")),
    Rule("", ("events",), ("create", "patch")),
    Rule("karpenter.sh", ("nodeclaims",), (*READ, "patch", "delete")),
    Rule("karpenter.sh", ("nodeclaims/status",), ("patch",)),
    Rule("karpenter.sh", ("nodepools",), READ),
    Rule("karpenter.k8s.aws", ("ec2nodeclasses",), READ),
    Rule("coordination.k8s.io", ("leases",), ("create", "update"), CONTROLLER_NAMESPACE),
    Rule("coordination.k8s.io", ("leases",), ("get", "list")),  # Karpenter's is looked for everywhere
)


def allows(rules: Iterable[Rule], verb: str, group: str, resource: str, namespace: str, name: str) -> bool:
    return any(rule.covers(verb, group, resource, namespace, name) for rule in rules)


def load_rules(documents: Iterable[dict[str, Any]]) -> tuple[Rule, ...]:
    """The rules of manifests of kind ClusterRole and Role."""
    out = []
    for doc in documents:
        if doc.get("kind") not in ("ClusterRole", "Role"):
            continue
        namespace = doc["metadata"].get("namespace", "") if doc["kind"] == "Role" else ""
        for rule in doc.get("rules") or []:
            for group in rule["apiGroups"]:
                names = tuple(rule.get("resourceNames") or ())
                out.append(Rule(group, tuple(rule["resources"]), tuple(rule["verbs"]), namespace, names))
    return tuple(out)
