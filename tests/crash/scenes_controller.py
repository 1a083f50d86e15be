"""The controller's runs that are killed, each of whose deaths another replica takes over from.

Knows: `CloudWorld` of the integration tests.
Gives: `SCENES`.
Must not: know who kills, or when.

The controller writes no file: it is killed at each byte for the network, and at each request that changes something.
"""

from __future__ import annotations

import http.client
import json
import subprocess
from typing import Any, Optional

from scenes import Daemon, other_events

from controlling import OURS, ControlTest, Step, ToyAgent
from shimlog import read_log
from terminating import INST, CloudWorld

import endstate

MARGIN = 15


class ReplicaWorld(CloudWorld):
    """Its replicas are called replica-1, replica-2, ... `root`: a disk that nobody writes to."""

    def __init__(self, mode: str) -> None:
        super().__init__(mode=mode, elects=True)
        self.root = self.folder / "root"
        self.root.mkdir()
        self.reported: dict[str, Any] = {}

    @property
    def identity(self) -> str:
        """Of the last one."""
        return f"replica-{len(self.procs)}"

    def report(self) -> dict[str, Any]:
        """What the last replica says; {} where it does not lead, or does not answer, or is in trouble: that of a slow machine ends."""
        try:
            status, text = self.ask("/status")
        except http.client.HTTPException:
            return {}  # it dies in the middle of its answer
        said = json.loads(text) if status == 200 else {}
        about = said.get("controller", {})
        is_last = about.get("leads") and about.get("identity") == about.get("holder") == self.identity
        self.reported = said if is_last and not about.get("trouble") else {}
        return self.reported


class Controller(Daemon):
    counts, only = "files,requests", ""
    cuts = False
    umask = 0o022
    mode = ""
    said: dict[str, Any] = {}  # at its end

    def open(self) -> Any:
        return ReplicaWorld(self.mode)

    def spawn(self, world: Any, env: dict[str, str]) -> "subprocess.Popen[bytes]":
        identity = f"replica-{len(world.procs) + 1}"
        return world.start("--identity", identity, *self.arguments(world), ready=False, **env)

    def arguments(self, world: Any) -> tuple[str, ...]:
        return ()

    def end(self, world: Any, proc: "subprocess.Popen[bytes]") -> int:
        self.said = world.reported  # with what the scene was over
        for key in ("identity", "holder"):
            self.said.get("controller", {}).pop(key, None)  # the last one's, as is checked
        self.said.get("counts", {}).pop("relayed", None)  # by this process
        return super().end(world, proc)

    def state(self, world: Any) -> dict[str, Any]:
        return {**super().state(world), "said": endstate.scrub(self.said)}

    def compare(self, want: dict[str, Any], have: dict[str, Any], deaths: int, is_cut: bool) -> list[str]:
        wrong = other_events(want, have, deaths)
        want, have = ({k: v for k, v in s.items() if k != "events"} for s in (want, have))
        return wrong + endstate.differences(want, have)

    def at_death(self, world: Any, before: dict[str, Any], final: dict[str, Any]) -> list[str]:
        return []

    def at_end(self, world: Any) -> list[str]:
        wrong = []
        try:
            ControlTest().judge(world)
        except AssertionError as exc:
            wrong.append(str(exc))
        written = [str(c) for c in read_log(world.folder / "calls.log") if c.kind == "files"]
        return wrong + [f"it writes files: {written}"] * bool(written)


def not_once(what: str, steps: list[Step]) -> list[str]:
    return [] if len(steps) == 1 else [f"{what}: {len(steps)} times"]


class Beside(Controller):
    name = "beside"
    about = "a node's notice becomes its NodeClaim's stamp and deletion, beside Karpenter"
    mode = "karpenter"
    stride = 1

    def prepare(self, world: Any) -> None:
        for name in ("n1", "n2"):
            world.pair(name)
        self.deadline: Optional[int] = None

    def poke(self, world: Any) -> None:
        """The node speaks when somebody listens."""
        if self.deadline is None and any(s.what == "nodes" for s in world.steps("watch")):
            self.deadline = world.say("n1")

    def is_relayed(self, world: Any) -> bool:
        is_stamped = self.deadline is not None and world.timestamp("c-n1") == self.deadline - MARGIN
        return is_stamped and "deletionTimestamp" in world.get("nodeclaims", "c-n1")["metadata"]

    def is_over(self, world: Any) -> bool:
        if not self.is_relayed(world):
            return False
        return any(row["node"] == "n1" and row["state"] == "relayed" for row in world.report().get("nodes", []))

    def at_death(self, world: Any, before: dict[str, Any], final: dict[str, Any]) -> list[str]:
        is_deleted = "deletionTimestamp" in world.get("nodeclaims", "c-n1")["metadata"]
        return ["deleted without its stamp"] if is_deleted and not self.is_relayed(world) else []

    def at_end(self, world: Any) -> list[str]:
        stamps = [json.dumps(s.body["metadata"]["annotations"]) for s in world.accepted("set-timestamp")]
        wrong = [] if len(set(stamps)) == 1 else [f"stamps: {stamps}"]
        wrong += not_once("DELETE", world.accepted("delete"))
        wrong += [f"{s.kind} {s.what}" for s in world.writes() if s.what != "c-n1"]
        return super().at_end(world) + wrong


class Alone(Controller):
    name = "alone"
    about = "without Karpenter a NodeClaim expires: drained, its instance ended, let go"
    mode = "standalone"
    stride = 2

    def arguments(self, world: Any) -> tuple[str, ...]:
        return (*world.options(), "--region", INST.region)

    def servers(self, world: Any) -> list[Any]:
        return [world.api.server, world.ec2.server]

    def prepare(self, world: Any) -> None:
        world.pool(budgets=[{"nodes": "100%"}])
        self.toy = ToyAgent(world)
        world.ours("n1", spec={"expireAfter": "1h"}, creationTimestamp="2026-01-01T00:00:00Z")
        world.ours("n2")
        self.machine, self.other = world.machine("n1"), world.machine("n2")
        self.is_off = False

    def poke(self, world: Any) -> None:
        if not self.is_off and world.ec2.states[self.machine] != "running" and world.get("nodes", "n1"):
            world.fall_silent("n1")
            self.is_off = True

    def is_over(self, world: Any) -> bool:
        if not world.is_gone("n1"):
            return False
        said = world.report()
        is_whole = not said.get("controller", {}).get("waitsFor")
        return is_whole and [row["node"] for row in said.get("nodes", [])] == ["n2"]

    def at_death(self, world: Any, before: dict[str, Any], final: dict[str, Any]) -> list[str]:
        claim = world.get("nodeclaims", "c-n1")
        is_running = world.ec2.states[self.machine] == "running"
        return ["let go of a machine that runs"] if is_running and (not claim or not world.get("nodes", "n1")) else []

    def at_end(self, world: Any) -> list[str]:
        wrong = not_once("DELETE of the claim", world.accepted("delete")) + not_once("of the Node", world.accepted("delete-node"))
        if {name: len(ids) for name, ids in self.toy.drains.items()} != {"n1": 1}:
            wrong.append(f"drains: {self.toy.drains}")
        ends = world.ends()
        if not 1 <= len(ends) <= len(world.procs) or any(e["instances"] != [self.machine] for e in ends):
            wrong.append(f"TerminateInstances: {ends}")
        if ends and ends[0]["recv"] < world.drained_at("c-n1"):
            wrong.append("ended before it was Drained")
        if (world.ec2.states[self.machine], world.ec2.states[self.other]) != ("shutting-down", "running"):
            wrong.append(f"machines: {world.ec2.states}")
        if world.get("nodeclaims", "c-n2")["metadata"]["finalizers"] != [OURS]:
            wrong.append("the claim beside it was touched")
        return super().at_end(world) + wrong


SCENES = [Beside, Alone]
