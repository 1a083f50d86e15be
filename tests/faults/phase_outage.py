"""A drain under a deadline while something is broken and stays so.

Knows: what of a drain can be done without which request, and who is told that it could not.
Gives: `PHASES`, `prepare()`.

drain-lasting: the fault comes with the notice and never goes. Either the pods are gone by the deadline all the same, each asked
to leave once; or the deadline passes. Then nobody says that the node is drained, the console says that pods are left, the daemon
ends as soon as it is told to, and the next one, with the fault gone, does the rest.
"""

from __future__ import annotations

import json
import time

import phase_daemon
import promises
import staging
from cells import Cell, Phase
from harness import PATIENCE
from phase_daemon import FORCED, GRACE, PODS, Judge, Node
from ways import Span, Strike, Way

ROWS = ("imds spot", "node status", "node patch", "pods list", "pods watch", "evict", "pod mark", "pod delete", "event")
COLUMNS = ("refused", "silent", "reset-midway", "truncated", "html", "redirect", "401", "403", "404", "409", "422", "429-after", "500",
           "wrong-ca")  # fmt: skip
WIDE_ROWS = ("imds spot", "node status", "pod mark")  # where the whole server goes: at a poll, at the first write, at the last moment
NOTICE_SEC, MARGIN_SEC = 18, 2  # an eighth of the notice is all that a margin takes
UNSAID = ("event", "pod mark")  # nobody waits for these
GIVEN_UP_SEC = 10.0  # after the last moment, where the pods were not even listed
UNSURE = ("node patch", "pods watch")  # the pods are gone; without the cordon, or without seeing it, nobody says so


class Outage(Node):
    margin = f"{MARGIN_SEC}s"

    def records(self) -> list[dict[str, object]]:
        """The console's lines."""
        return [json.loads(line.partition(": ")[2]) for line in self.console().splitlines()]


def prepare() -> None:
    phase_daemon.prepare()


def strike_with_notice(cell: Cell, world: Outage, canary: staging.Canary) -> tuple[Way, Strike, float]:
    """Gives the deadline too. The poll of IMDS that is broken has told of the notice before."""
    if cell.row != "imds spot":
        how, strike = phase_daemon.begin(cell, world, canary, Span())
    world.imds.spot(NOTICE_SEC)
    deadline = time.monotonic() + NOTICE_SEC
    if cell.row == "imds spot":
        world.must(lambda: world.drain().get("phase", "idle") != "idle", "the notice", 5)
        how, strike = phase_daemon.begin(cell, world, canary, Span())
    return how, strike, deadline


def in_time(world: Outage, deadline: float) -> None:
    world.must(lambda: not world.own_pods(), "the end of all pods", (deadline - time.monotonic()) / PATIENCE)
    for name in PODS:
        graces = world.api.kubelet.graces[name]
        world.need(len(graces) == 1 and 1 <= graces[0] <= GRACE, f"{name} was given {graces} seconds")


def too_late(world: Outage, deadline: float) -> None:
    """The deadline passes, and that is said."""
    left = deadline - MARGIN_SEC + GIVEN_UP_SEC + 3 - time.monotonic()
    world.must(lambda: any("drain deadline exceeded" in str(r["message"]) for r in world.records()), "a word on the console", left / PATIENCE)
    world.need(world.own_pods(), "the pods are gone")
    world.need(world.drain().get("phase") != "drained", "status.json says drained")
    world.need(world.condition("Drained")[0] != "True", "the Node says drained")


def rest(world: Outage) -> None:
    """The next daemon finds what was left, and nothing is asked twice."""
    asked = {p: list(world.api.kubelet.graces[p]) for p in PODS if p not in world.own_pods()}
    world.start()
    world.must(lambda: not world.own_pods(), "the end of all pods", 25)
    world.must(world.is_cordoned, "the cordon")
    world.drained(25)
    again = [p for p, before in asked.items() if world.api.kubelet.graces[p] != before]
    world.need(not again, f"asked again: {again}")


def is_said(world: Outage) -> bool:
    return bool(world.errors() or world.complaints() or world.drain().get("blocked"))


def drive(cell: Cell) -> str:
    with Outage(cell.row in FORCED) as world, staging.Canary() as canary:
        phase_daemon.ready(world)
        how, strike, deadline = strike_with_notice(cell, world, canary)
        promise = promises.draining_without(cell.row, how.name, how.is_wide)
        (in_time if promise.letter == "W" else too_late)(world, deadline)
        world.need(cell.row in UNSAID or is_said(world), "nothing is said of it")
        if promise.letter == "W":
            world.phase_is("drained", *(["volume-wait"] if cell.row in UNSURE else []))
        canary.check()
        phase_daemon.stop(world, strike)
        strike.heal()
        if promise.letter == "L":
            rest(world)
        world.need(world.of_others() == world.foreign, f"something of others was changed: {world.of_others()}")
        Judge().judge(world)
        return promise.letter


def has(row: str, column: str) -> bool:
    if not staging.fits(row, column) or (row, column) in promises.ANSWERS:
        return False
    return not staging.way(column).is_wide or row in WIDE_ROWS


def weight(row: str, column: str) -> float:
    return 20.0 if promises.draining_without(row, column, staging.way(column).is_wide).letter == "L" else 10.0


PHASES = [Phase("drain-lasting", ROWS, COLUMNS, drive, has, None, weight)]
