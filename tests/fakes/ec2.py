"""The calls of EC2 that a node or the controller may make, over plain HTTP on loopback.

Knows: DescribeInstanceTypes, DescribeInstances and TerminateInstances as XML, and that a request must be signed by the
       instance's role.
Gives: `Ec2`.
Must not: answer for another instance, or unsigned.
"""

from __future__ import annotations

import re
import time
from typing import Optional
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

import instances
import sigv4
from requestlog import Log
from wire import Request, Response, WireServer

CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}
NS = "http://ec2.amazonaws.com/doc/2016-11-15/"


def xml(status: int, text: str) -> Response:
    return Response(status, ('<?xml version="1.0" encoding="UTF-8"?>\n' + text).encode(), "text/xml;charset=UTF-8")


def failure(status: int, code: str, message: str) -> Response:
    return xml(
        status,
        f"<Response><Errors><Error><Code>{code}</Code><Message>{escape(message)}</Message></Error></Errors>"
        "<RequestID>00000000-0000-0000-0000-000000000000</RequestID></Response>",
    )


class Ec2:
    """`denied`: the role lacks the permission. `types`: name -> (vcpus, memory MiB, interfaces, addresses per interface).
    `states`: of each machine that may be ended, by id: running, shutting-down, terminated, … `is_protected`: against that.
    A terminated machine has no name any more.
    """

    def __init__(self, inst: instances.Instance, region: Optional[str] = None) -> None:
        self.inst = inst
        self.region = region or inst.region
        self.denied = False
        self.types: dict[str, tuple[int, int, int, int]] = {
            "m5.large": (2, 8192, 3, 10),
            "zz9.plural": (4, 16384, 4, 15),
        }
        self.states: dict[str, str] = {inst.id: "running"}
        self.names: dict[str, str] = {}  # private DNS names of other instances than ours
        self.is_protected: set[str] = set()
        self.keys = {inst.access_key: sigv4.Key(inst.access_key, inst.secret_key, inst.session_token)}
        self.server = WireServer(self.handle, log=Log())

    @property
    def url(self) -> str:
        return self.server.url

    def __enter__(self) -> "Ec2":
        self.server.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self.server.stop()

    def handle(self, req: Request) -> Response:
        given = {k: v[-1] for k, v in parse_qs(req.body.decode()).items()} if req.body else req.query
        req.note["action"] = given.get("Action")
        try:
            sigv4.check_header(req.method, req.target, req.headers, req.body, "ec2", self.keys, time.time())
        except sigv4.Refused as exc:
            req.note["refused"] = str(exc)
            return failure(401, "AuthFailure", "AWS was not able to validate the provided access credentials")
        action = given.get("Action", "")
        if self.denied:
            return failure(
                403,
                "UnauthorizedOperation",
                f"You are not authorized to perform this operation. User: arn:{self.inst.partition}:sts::"
                f"{instances.ACCOUNT}:assumed-role/{instances.ROLE}/{self.inst.id} is not authorized "
                f"to perform: ec2:{action}",
            )
        if action == "DescribeInstanceTypes":
            return self._types(given)
        if action == "DescribeInstances":
            return self._instances(given)
        if action == "TerminateInstances":
            return self._terminate({v for k, v in given.items() if k.startswith("InstanceId.")}, req)
        return failure(400, "InvalidAction", f"The action {action} is not valid for this web service.")

    def _terminate(self, ids: set[str], req: Request) -> Response:
        """All or none; ending what has ended is no error."""
        req.note["instances"] = sorted(ids)
        if not ids:
            return failure(400, "MissingParameter", "The request must contain the parameter InstanceId")
        for name in sorted(ids):
            if not re.fullmatch(r"i-[0-9a-f]{8}([0-9a-f]{9})?", name):
                return failure(400, "InvalidInstanceID.Malformed", f'Invalid id: "{name}"')
            if name not in self.states:
                return failure(400, "InvalidInstanceID.NotFound", f"The instance ID '{name}' does not exist")
            if name in self.is_protected:
                return failure(
                    400,
                    "OperationNotPermitted",
                    f"The instance '{name}' may not be terminated. Modify its 'disableApiTermination' instance attribute "
                    "and try again.",
                )
        rows = ""
        for name in sorted(ids):
            before = self.states[name]
            after = self.states[name] = "shutting-down" if before == "running" else before
            rows += (
                f"<item><instanceId>{name}</instanceId><currentState><code>{CODES[after]}</code><name>{after}</name>"
                f"</currentState><previousState><code>{CODES[before]}</code><name>{before}</name></previousState></item>"
            )
        return xml(
            200,
            f'<TerminateInstancesResponse xmlns="{NS}"><requestId>r</requestId><instancesSet>{rows}</instancesSet>'
            "</TerminateInstancesResponse>",
        )

    def _types(self, given: dict[str, str]) -> Response:
        name = given.get("InstanceType.1", "")
        if name not in self.types:
            return failure(400, "InvalidInstanceType", f"The following supplied instance types do not exist: [{name}]")
        vcpus, memory, enis, addresses = self.types[name]
        return xml(
            200,
            f"""<DescribeInstanceTypesResponse xmlns="{NS}"><requestId>r</requestId><instanceTypeSet><item>
  <instanceType>{name}</instanceType><hypervisor>nitro</hypervisor>
  <vCpuInfo><defaultVCpus>{vcpus}</defaultVCpus></vCpuInfo><memoryInfo><sizeInMiB>{memory}</sizeInMiB></memoryInfo>
  <networkInfo><defaultNetworkCardIndex>0</defaultNetworkCardIndex><maximumNetworkInterfaces>{enis}</maximumNetworkInterfaces>
    <ipv4AddressesPerInterface>{addresses}</ipv4AddressesPerInterface>
    <networkCards><item><networkCardIndex>0</networkCardIndex><maximumNetworkInterfaces>{enis}</maximumNetworkInterfaces></item>
    </networkCards></networkInfo></item></instanceTypeSet></DescribeInstanceTypesResponse>""",
        )

    def _instances(self, given: dict[str, str]) -> Response:
        asked = given.get("InstanceId.1", "")
        name = self.names.get(asked) or (self.inst.private_dns if asked == self.inst.id else "")
        state = self.states.get(asked, "running" if name else "")
        if not re.fullmatch(r"i-[0-9a-f]{8}([0-9a-f]{9})?", asked):
            return failure(400, "InvalidInstanceID.Malformed", f'Invalid id: "{asked}"')
        if not state:
            return failure(
                400, "InvalidInstanceID.NotFound", f"The instance ID '{given.get('InstanceId.1')}' does not exist"
            )
        return xml(
            200,
            f"""<DescribeInstancesResponse xmlns="{NS}"><requestId>r</requestId><reservationSet><item><instancesSet><item>
  <instanceId>{asked}</instanceId><instanceState><code>{CODES[state]}</code><name>{state}</name></instanceState>
  <privateDnsName>{name if state != "terminated" else ""}</privateDnsName>
  <privateIpAddress>{self.inst.ip}</privateIpAddress></item></instancesSet></item></reservationSet></DescribeInstancesResponse>""",
        )
