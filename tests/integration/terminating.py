"""A world for a controller that ends instances: EC2 and IMDS are there, too.

Knows: how the controller is told of both, and how the request log shows what it asked of EC2.
Gives: `CloudWorld`, `INST`: the instance whose role the controller has.
"""

from __future__ import annotations

from typing import Any

from controlling import ControlWorld, instance_id

import instances
from ec2 import Ec2
from imds import Imds

INST = instances.PROFILES["m5.large"]


class CloudWorld(ControlWorld):
    def __init__(self, mode: str, elects: bool = False) -> None:
        super().__init__(mode=mode, elects=elects)
        self.ec2, self.imds = Ec2(INST), Imds.of("m5.large")

    def __enter__(self) -> "CloudWorld":
        self.ec2.server.start()
        self.imds.server.start()
        super().__enter__()
        return self

    def __exit__(self, *unused: object) -> None:
        super().__exit__(*unused)
        self.imds.server.stop()
        self.ec2.server.stop()

    def options(self) -> tuple[str, ...]:
        """Of a controller that ends instances."""
        return ("--terminate", "--ec2-endpoint", self.ec2.url, "--imds", self.imds.url)

    def machine(self, name: str) -> str:
        """The instance of the claim c-NAME, which runs."""
        made = instance_id(f"c-{name}")
        self.ec2.states[made] = "running"
        return made

    def fall_silent(self, name: str) -> None:
        """What EC2 does with a machine in its own time: its kubelet speaks no more."""
        self.change("nodes", name, lambda n: n["status"]["conditions"][0].update(status="Unknown"))

    def ends(self, machine: str = "") -> list[dict[str, Any]]:
        """TerminateInstances, of this machine."""
        rows = [e for e in self.ec2.server.log.snapshot() if e.get("action") == "TerminateInstances"]
        return [e for e in rows if not machine or machine in e.get("instances", [])]

    def drained_at(self, claim: str) -> float:
        """When a write that said Drained of it was first carried out."""
        for s in self.accepted("status", claim):
            if any(c["type"] == "Drained" and c["status"] == "True" for c in s.body.get("status", {}).get("conditions", [])):
                return s.at
        return float("inf")
