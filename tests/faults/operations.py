"""What the programs ask over the network: the rows of the matrix.

Knows: how a request looks on the wire (server, method, target), by a name.
Gives: `OPERATIONS`, `Operation`, `name_of()`: the operation that a recorded request is; None is a hole in the table.
Must not: know when an operation happens (a phase finds out by recording an undisturbed life), nor what is promised.

A request is of one row at most, for a fault that strikes a row must not strike its neighbour.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Optional


@dataclass(frozen=True)
class Operation:
    name: str
    server: str  # imds, api, ec2
    method: str
    path: str  # a regular expression over the whole target
    action: str = ""  # of EC2's own protocol; a life asks for one of them only

    def is_of(self, server: str, entry: dict[str, Any]) -> bool:
        if (server, entry["method"]) != (self.server, self.method) or not re.fullmatch(self.path, entry["path"]):
            return False
        return self.action in ("", entry.get("action", self.action))


def metadata(name: str, path: str) -> Operation:
    return Operation(f"imds {name}", "imds", "GET", f"/latest/{path}")


UNHEARD = "ec2, not heard"
NODE, CLAIMS = "/api/v1/nodes/[^/?]+", "/apis/karpenter[.]sh/v1(beta1)?/nodeclaims"
POOLS, CLASSES = "/apis/karpenter[.]sh/v1(beta1)?/nodepools", "/apis/[^/]+/[^/]+/(ec2)?nodeclasses"
LEASES = "/apis/coordination[.]k8s[.]io/v1/lease"
LEASE_FOLDER = "/apis/coordination[.]k8s[.]io/v1/namespaces/[^/]+/leases"
LEASE = LEASE_FOLDER + "/[^/?]+"
POD = "/api/v1/namespaces/[^/]+/pods/[^/?]+"

OPERATIONS: tuple[Operation, ...] = (
    Operation("imds token", "imds", "PUT", "/latest/api/token"),
    metadata("document", "dynamic/instance-identity/document"),
    metadata("mac", "meta-data/mac"),
    metadata("local-ipv4", "meta-data/local-ipv4"),
    metadata("local-hostname", "meta-data/local-hostname"),
    metadata("zone-id", "meta-data/placement/availability-zone-id"),
    metadata("life-cycle", "meta-data/instance-life-cycle"),
    metadata("domain", "meta-data/services/domain"),
    metadata("user-data", "user-data"),
    metadata("role", "meta-data/iam/security-credentials/"),
    metadata("credentials", "meta-data/iam/security-credentials/[^/]+"),
    metadata("ipv6s", "meta-data/network/interfaces/macs/[^/]+/ipv6s"),
    metadata("spot", "meta-data/spot/instance-action"),
    metadata("rebalance", "meta-data/events/recommendations/rebalance"),
    metadata("target-state", "meta-data/autoscaling/target-lifecycle-state"),
    metadata("maintenance", "meta-data/events/maintenance/scheduled"),
    Operation("ec2 types", "ec2", "POST", "/", "DescribeInstanceTypes"),
    Operation("ec2 instances", "ec2", "POST", "/", "DescribeInstances"),
    Operation("ec2 end", "ec2", "POST", "/", "TerminateInstances"),
    Operation("karpenter look", "api", "GET", "/apis/coordination[.]k8s[.]io/v1/namespaces/[^/]+/leases/karpenter-leader-election.*"),
    Operation("versions", "api", "GET", "/apis/(karpenter[.]|eks[.])[^/]+/[^/?]+"),
    Operation("lease get", "api", "GET", LEASE),
    Operation("lease create", "api", "POST", LEASE_FOLDER),
    Operation("lease put", "api", "PUT", LEASE),
    Operation("pools watch", "api", "GET", POOLS + r"\?.*watch=true.*"),
    Operation("pools list", "api", "GET", POOLS + r"\?(?!.*watch=true).*"),
    Operation("classes watch", "api", "GET", CLASSES + r"\?.*watch=true.*"),
    Operation("classes list", "api", "GET", CLASSES + r"\?(?!.*watch=true).*"),
    Operation("claims list", "api", "GET", CLAIMS + r"\?(?!.*(watch=true|Selector=)).*"),
    Operation("claim status", "api", "PATCH", CLAIMS + "/[^/?]+/status"),
    Operation("node delete", "api", "DELETE", NODE),
    Operation("whoami", "api", "POST", "/apis/authentication[.]k8s[.]io/v1/selfsubjectreviews"),
    Operation("whoami before 1.28", "api", "POST", "/apis/authentication[.]k8s[.]io/v1beta1/selfsubjectreviews"),
    Operation("claims search", "api", "GET", CLAIMS + r"\?labelSelector=.*"),
    Operation("claim watch", "api", "GET", CLAIMS + r"\?.*watch=true.*"),
    Operation("claim list", "api", "GET", CLAIMS + r"\?(?!.*watch=true)fieldSelector=.*"),
    Operation("claim get", "api", "GET", CLAIMS + "/[^/?]+"),
    Operation("claim stamp", "api", "PATCH", CLAIMS + "/[^/?]+"),
    Operation("claim delete", "api", "DELETE", CLAIMS + "/[^/?]+"),
    Operation("node watch", "api", "GET", r"/api/v1/nodes\?.*watch=true.*"),
    Operation("node list", "api", "GET", r"/api/v1/nodes\?(?!.*watch=true).*"),
    Operation("node get", "api", "GET", NODE),
    Operation("node status", "api", "PATCH", NODE + "/status"),
    Operation("node patch", "api", "PATCH", NODE),
    Operation("failed pods watch", "api", "GET", r"/api/v1/pods\?.*phase%3DFailed.*watch=true.*"),
    Operation("failed pods list", "api", "GET", r"/api/v1/pods\?(?!.*watch=true).*phase%3DFailed.*"),
    Operation("pods watch", "api", "GET", r"/api/v1/pods\?(?!.*phase%3DFailed).*watch=true.*"),
    Operation("pods list", "api", "GET", r"/api/v1/pods\?(?!.*(watch=true|phase%3DFailed)).*"),
    Operation("evict", "api", "POST", POD + "/eviction"),
    Operation("pod mark", "api", "PATCH", POD + "/status"),
    Operation("pod delete", "api", "DELETE", POD),
    Operation("event", "api", "POST", "/api/v1/namespaces/[^/]+/events"),
    Operation("event again", "api", "PATCH", "/api/v1/namespaces/[^/]+/events/[^/?]+"),
)


def name_of(server: str, entry: dict[str, Any]) -> Optional[str]:
    if server == "ec2" and not entry.get("action"):
        return UNHEARD  # a fault came before the fake read what was asked
    found = [o.name for o in OPERATIONS if o.is_of(server, entry)]
    assert len(found) < 2, f"{entry['path']} is of several rows: {found}"
    return found[0] if found else None


def operation(name: str) -> Operation:
    return next(o for o in OPERATIONS if o.name == name)
