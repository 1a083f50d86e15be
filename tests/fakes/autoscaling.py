"""EC2 Auto Scaling's three calls about the lifecycle of an instance, over plain HTTP on loopback.

Knows: DescribeAutoScalingInstances, RecordLifecycleActionHeartbeat and CompleteLifecycleAction as XML, and that a request
       must be signed for the service autoscaling by the instance's role.
Gives: `AutoScaling`.
Must not: answer for another region, or unsigned; complete what does not wait.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Optional
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

import instances
import sigv4
from requestlog import Log
from wire import Request, Response, WireServer

NS = "http://autoscaling.amazonaws.com/doc/2011-01-01/"
VERSION = "2011-01-01"


def xml(status: int, text: str) -> Response:
    return Response(status, text.encode(), "text/xml")


def failure(status: int, code: str, message: str) -> Response:
    return xml(
        status,
        f'<ErrorResponse xmlns="{NS}"><Error><Type>Sender</Type><Code>{code}</Code><Message>{escape(message)}</Message></Error>'
        "<RequestId>00000000-0000-0000-0000-000000000000</RequestId></ErrorResponse>",
    )


@dataclass
class Member:
    """An instance of a group. `hook`: whose action is active; None: of no hook."""

    group: str = "workers"
    state: str = "InService"
    hook: Optional[str] = None
    heartbeats: int = 0
    result: str = ""


class AutoScaling:
    """`members`: by instance id. `denied`: the actions that the role may not do. `hooks`: those that groups have."""

    def __init__(self, inst: instances.Instance) -> None:
        self.inst = inst
        self.members: dict[str, Member] = {}
        self.hooks = {"nodeclaimd"}
        self.denied: set[str] = set()
        self.keys = {inst.access_key: sigv4.Key(inst.access_key, inst.secret_key, inst.session_token)}
        self.server = WireServer(self.handle, log=Log())

    @property
    def url(self) -> str:
        return self.server.url

    def ends(self, instance: str, hook: str = "nodeclaimd", group: str = "workers") -> Member:
        """The group ends it, and waits for its hook."""
        self.members[instance] = Member(group, "Terminating:Wait", hook)
        return self.members[instance]

    def asked(self, action: str = "") -> list[dict[str, Any]]:
        """The requests, as they came."""
        rows = self.server.log.snapshot()
        return [e for e in rows if not action or e.get("action") == action]

    def handle(self, req: Request) -> Response:
        given = {k: v[-1] for k, v in parse_qs(req.body.decode(), strict_parsing=True).items()}
        action = given.get("Action", "")
        req.note.update(action=action, given=given)
        try:
            sigv4.check_header(req.method, req.target, req.headers, req.body, "autoscaling", self.keys, time.time())
        except sigv4.Refused as exc:
            req.note["refused"] = str(exc)
            return failure(403, "SignatureDoesNotMatch", str(exc))
        if f"/{self.inst.region}/" not in req.headers["authorization"]:
            req.note["refused"] = "another region"
            return failure(403, "SignatureDoesNotMatch", "Credential should be scoped to a valid region")
        if given.get("Version") != VERSION or req.method != "POST":
            return failure(400, "InvalidAction", "Could not find operation")
        if action in self.denied:
            return failure(403, "AccessDenied", f"User: arn:aws:sts::x is not authorized to perform: autoscaling:{action}")
        if action == "DescribeAutoScalingInstances":
            return self._describe(given)
        if action in ("RecordLifecycleActionHeartbeat", "CompleteLifecycleAction"):
            return self._action(action, given)
        return failure(400, "InvalidAction", f"Could not find operation {action} for version {VERSION}")

    def _describe(self, given: dict[str, str]) -> Response:
        instance = given.get("InstanceIds.member.1", "")
        member = self.members.get(instance)
        row = (
            ""
            if member is None
            else f"<member><ProtectedFromScaleIn>false</ProtectedFromScaleIn><AutoScalingGroupName>{escape(member.group)}"
            f"</AutoScalingGroupName><InstanceId>{instance}</InstanceId><HealthStatus>HEALTHY</HealthStatus>"
            f"<LifecycleState>{member.state}</LifecycleState></member>"
        )
        return xml(
            200,
            f'<DescribeAutoScalingInstancesResponse xmlns="{NS}"><DescribeAutoScalingInstancesResult><AutoScalingInstances>{row}'
            "</AutoScalingInstances></DescribeAutoScalingInstancesResult><ResponseMetadata><RequestId>r</RequestId>"
            "</ResponseMetadata></DescribeAutoScalingInstancesResponse>",
        )

    def _action(self, action: str, given: dict[str, str]) -> Response:
        instance, hook = given.get("InstanceId", ""), given.get("LifecycleHookName", "")
        member = self.members.get(instance)
        if hook not in self.hooks:
            return failure(400, "ValidationError", f"Lifecycle hook {hook} does not exist")
        if member is None or member.group != given.get("AutoScalingGroupName"):
            return failure(400, "ValidationError", "AutoScalingGroup name not found - no such group")
        if member.state != "Terminating:Wait" or member.hook != hook:
            return failure(400, "ValidationError", f"No active Lifecycle Action found with instance ID {instance}")
        if action == "RecordLifecycleActionHeartbeat":
            member.heartbeats += 1
        elif given.get("LifecycleActionResult") not in ("CONTINUE", "ABANDON"):
            return failure(400, "ValidationError", "invalid LifecycleActionResult")
        else:
            member.result, member.state = given["LifecycleActionResult"], "Terminating:Proceed"
        return xml(
            200,
            f'<{action}Response xmlns="{NS}"><{action}Result/><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata>'
            f"</{action}Response>",
        )
