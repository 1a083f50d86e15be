"""The faults of the controller: each of its requests fails for a while, and then does not.

Knows: which operations it has beside Karpenter and alone, and what is promised of them.
Gives: `PHASES`, `prepare()`.

controller, beside Karpenter: a node's notice comes while the fault lasts; it is relayed exactly once when that goes, the next one at
once. controller, alone: a node is registered, its claim deleted, the node drained, its machine ended, while the fault lasts; each
of it happens once and in this order, and nothing happens to the node beside it. In both nothing is written but by who holds the
Lease, it is counted and said that something failed, and a redirect is never followed.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Optional

import promises_controller as promises
import staging
from cells import Broken, Cell, Phase
from controlling import LEASE, ControlTest, ToyAgent, epoch, instance_id
from operations import operation
from terminating import CloudWorld
from ways import WAYS, Span, Strike

from rbac import CONTROLLER_NAMESPACE
from wire import Request

AGENT = "nodeclaim-controller"
KARPENTER_LEASE = ("karpenter-pod_1", "karpenter-leader-election", "kube-system")
SHARED = ("lease get", "lease create", "lease put", "karpenter look", "versions", "claims list", "claim watch", "node list", "node watch")
BESIDE = (*SHARED, "claim stamp", "claim delete", "event")
OWN = ("claim stamp", "claim status", "node patch", "node delete", "pools list", "pools watch", "classes list", "classes watch")
CLOUD = ("ec2 end", "imds token", "imds role", "imds credentials")
ALONE = (*SHARED, *OWN, *CLOUD)
REPRESENTATIVE = ("refused", "silent", "reset-midway", "truncated", "html", "redirect", "401", "403", "404", "409", "410", "429-after",
                  "500", "wrong-ca")
TIMES = 2  # that a fault strikes
HANGS_SEC = 2.5  # so long nobody answers, where that is the fault; then what hangs is cut off
WITHIN_SEC = 30.0  # of pauses that double, and of a look every five seconds where something is not known
AT_ONCE_SEC = 12.0  # once nothing fails any more; a pause may be left of what failed before
MARGIN = 15


class FaultWorld(CloudWorld):
    """One Karpenter of a Lease, or none."""

    def __init__(self, alone: bool) -> None:
        super().__init__(mode="auto", elects=True)
        self.alone = alone
        self.refused_is_wanted = True
        self.wrong: list[str] = []
        self.identity = "a"

    def __enter__(self) -> "FaultWorld":
        super().__enter__()
        if not self.alone:
            self.lease(*KARPENTER_LEASE, duration=3600)
        self.api.server.before_request.append(self._watch_leadership)
        return self

    def servers(self) -> dict[str, Any]:
        return {"imds": self.imds.server, "api": self.api.server, "ec2": self.ec2.server}

    def _watch_leadership(self, req: Request) -> bool:
        """On the server's loop: whoever writes holds the Lease, and its time is not over."""
        if req.method == "GET" or "/leases" in req.path or AGENT not in req.headers.get("user-agent", ""):
            return False
        key = (self.api.resource("leases"), CONTROLLER_NAMESPACE, LEASE)
        spec = (self.api.store.objects.get(key) or {}).get("spec", {})
        left = epoch_of(spec.get("renewTime")) + spec.get("leaseDurationSeconds", 0) - time.time()
        if spec.get("holderIdentity") != self.identity or left < 0:
            self.wrong.append(f"{req.method} {req.target} by who does not hold the Lease: {spec}, {left:.1f} s left")
        return False

    def begin(self) -> None:
        self.start("--identity", self.identity, *(self.options() if self.alone else ()), ready=False)

    def switches_off(self, name: str, machine: str) -> Callable[[], None]:
        """The Node's kubelet falls silent once its machine is ended. Gives what ends the wait."""
        over = threading.Event()

        def go() -> None:
            while not over.wait(0.05):
                if self.ec2.states[machine] != "running" and self.get("nodes", name):
                    self.fall_silent(name)
                    return

        thread = threading.Thread(target=go, daemon=True)
        thread.start()

        def end() -> None:
            over.set()
            thread.join(5)

        return end


def epoch_of(text: Optional[str]) -> float:
    if not text:
        return 0.0
    whole, _, part = text.rstrip("Z").partition(".")
    return epoch(whole + "Z") + float(f"0.{part or 0}")


def need(is_so: Any, what: str, world: FaultWorld) -> None:
    if not is_so:
        raise Broken(f"{what}\n{world.story()}")


class Fault:
    """One way at work on one operation, healed once it has done its worst."""

    def __init__(self, cell: Cell, world: FaultWorld, canary: staging.Canary) -> None:
        self.world, self.how = world, staging.way(cell.column)
        self.what, self.row = operation(cell.row), cell.row
        self.server = world.servers()[self.what.server]
        count = None if self.how.is_slow else 1 if self.how.name == "refused" else TIMES
        self.strike: Strike = staging.strike(self.server, self.what, self.how, canary, Span(count=count), AGENT_OR_NONE[self.what.server])

    def is_met(self) -> None:
        self.world.must(lambda: self.strike.hits, f"the fault to meet {self.row}", WITHIN_SEC)

    def let_go(self) -> None:
        """Waits until it was met, and lets it pass."""
        self.is_met()
        if self.how.is_slow:
            time.sleep(HANGS_SEC)
            self.strike.heal()
            self.server.loop.call_soon_threadsafe(self._cut)
        # a server that is another one for a while comes back by itself, what strikes some requests ends with them

    def _cut(self) -> None:
        for conn in list(self.server.connections):
            conn.transport.abort()


AGENT_OR_NONE = {"api": AGENT, "ec2": "", "imds": ""}


def prepare() -> None:
    staging.prepare()


# --- lives
def beside(world: FaultWorld, fault: Optional[Fault]) -> None:
    """Two notices: the first while it fails, the second after that."""
    for name in ("n1", "n2", "n3"):
        world.pair(name)
    is_later = fault is not None and fault.row == "lease put"  # the first one is a while away
    first = None if is_later else world.say("n1")
    world.begin()
    if fault:
        fault.is_met()
    if is_later:
        first = world.say("n1")
    if fault:
        fault.let_go()
    world.must(lambda: deletes(world, "c-n1"), "DELETE of c-n1", WITHIN_SEC)
    stamped(world, "c-n1", first)
    second = world.say("n2")
    world.must(lambda: deletes(world, "c-n2"), "DELETE of c-n2", AT_ONCE_SEC)
    stamped(world, "c-n2", second)


def deletes(world: FaultWorld, claim: str) -> int:
    """That were carried out."""
    faults = [s.entry["fault"] for s in world.accepted("delete", claim)]
    return len([kind for kind in faults if kind is None or is_real(kind)])


def stamped(world: FaultWorld, claim: str, deadline: Optional[int]) -> None:
    world.must(lambda: world.timestamp(claim) == (deadline or 0) - MARGIN, f"the timestamp of {claim}", WITHIN_SEC)


def alone(world: FaultWorld, fault: Optional[Fault]) -> ToyAgent:
    world.pool()
    world.fresh("n1")
    world.ours("n2")
    agent = ToyAgent(world)
    machine, other = world.machine("n1"), world.machine("n2")
    stop = world.switches_off("n1", machine)
    try:
        world.begin()
        later = fault and fault.row in ("node delete", *CLOUD)  # nobody asks for it before the end
        if fault and not later:
            fault.let_go()
        world.must(lambda: world.condition("c-n1", "Initialized")[0] == "True", "the registration of n1", WITHIN_SEC)
        world.remove("nodeclaims", "c-n1")
        if fault and later:
            fault.let_go()
        world.must(lambda: world.is_gone("n1"), "the end of n1", WITHIN_SEC)
    finally:
        stop()
    need(world.ec2.states[other] == "running" and world.get("nodes", "n2") and world.get("nodeclaims", "c-n2"), "n2 is not as it was", world)
    return agent


# --- what is promised
def judge(world: FaultWorld, fault: Optional[Fault], canary: staging.Canary) -> None:
    need(not world.wrong, "\n".join(world.wrong), world)
    need(world.proc.poll() is None, f"it ended: {world.proc.poll()}", world)
    staging.names_in(world.servers(), AGENT)  # nothing new in a disturbed life either
    ControlTest().judge(world)
    if not fault:
        return
    need(fault.strike.hits, "the fault met no request", world)
    if fault.how.meaning == "redirect":
        canary.check()
    if promises.is_refused_write(fault.row, fault.how.meaning):
        world.must(lambda: "warning" in world.log(), "a word about what was refused", AT_ONCE_SEC)
    elif promises.is_counted(fault.row, fault.how.name, fault.how.meaning):
        world.must(lambda: world.metric("api_failures_total") >= 1, "a count of what failed", AT_ONCE_SEC)
    if fault.row not in ("lease get", "lease create", "lease put"):
        spec = world.api.on_loop(lambda: world.api.store.get(world.api.resource("leases"), LEASE, CONTROLLER_NAMESPACE))["spec"]
        if fault.how.name != "refused" and fault.how.needs != "tls":  # they strike the Lease's requests, too
            need(spec.get("leaseTransitions", 0) == 0, f"leadership changed: {spec}", world)


def lost(fault: Optional[Fault], row: str) -> int:
    """How many answers of such a request may have been lost after it was carried out."""
    return fault.strike.hits if fault and fault.row == row else 0


def drive_beside(cell: Cell) -> str:
    with FaultWorld(alone=False) as world, staging.Canary() as canary:
        fault = Fault(cell, world, canary)
        beside(world, fault)
        for claim in ("c-n1", "c-n2"):
            times = deletes(world, claim)
            need(1 <= times <= 1 + lost(fault, "claim delete"), f"{times} DELETEs of {claim}", world)
        need(not world.writes("c-n3", "n3"), "a write of who said nothing", world)
        judge(world, fault, canary)
        return "R"


def drive_alone(cell: Cell) -> str:
    with FaultWorld(alone=True) as world, staging.Canary() as canary:
        fault = Fault(cell, world, canary)
        agent = alone(world, fault)
        machine = instance_id("c-n1")
        ends = [e for e in world.ends(machine) if e["status"] == 200]
        need(len(agent.drains.get("n1", [])) == 1 and "n2" not in agent.drains, f"drains {agent.drains}", world)
        again = world.log().count("not leading any more")  # who leads anew asks at once
        need(1 <= len(ends) <= 1 + lost(fault, "ec2 end") + again, f"TerminateInstances {len(ends)} times", world)
        need(ends[0]["recv"] >= world.drained_at("c-n1"), "an end before Drained", world)
        judge(world, fault, canary)
        return "R"


def is_real(kind: str) -> bool:
    """The request was carried out all the same."""
    return kind in ("truncate", "midway", "drip", "lost", "delay", "hold")


# --- the table is complete
def check_of(is_standalone: bool, rows: tuple[str, ...], apart: tuple[str, ...]) -> Callable[[], None]:
    def check() -> None:
        with FaultWorld(is_standalone) as world, staging.Canary() as canary:
            (alone if is_standalone else beside)(world, None)
            judge(world, None, canary)
            need(world.metric("api_failures_total") <= 2, "an undisturbed life has failures", world)
            world.must(lambda: any(s.entry["method"] == "PUT" for s in world.steps("lease")), "a renewal")
            staging.check_rows(staging.names_in(world.servers(), ""), rows, apart)

    return check


def has(row: str, column: str) -> bool:
    return staging.fits(row, column) and (row, column) not in promises.NOT_HERE


def has_alone(row: str, column: str) -> bool:
    """What is asked beside Karpenter in the same words is asked there in every way; here in one way of each meaning."""
    return has(row, column) and (row not in SHARED or column in REPRESENTATIVE)


def weight(row: str, column: str) -> float:
    return 4.0 if staging.way(column).is_slow else 2.0


COLUMNS = tuple(w.name for w in WAYS)
PHASES = [
    Phase("controller", BESIDE, COLUMNS, drive_beside, has, check_of(False, BESIDE, ()), weight),
    Phase("controller-alone", ALONE, COLUMNS, drive_alone, has_alone, check_of(True, ALONE, ("event",)), weight),
]
