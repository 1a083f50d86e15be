"""The faults of a node's life: while nothing happens, and in the middle of a drain.

Knows: which operations the daemon has when, and what must be true of a drain however it went.
Gives: `PHASES`, `prepare()`.

run: the fault is there when the daemon starts, or when it first asks, and passes; the daemon is up all the time, says what is
wrong, is well again, and then cordons its node at a notice. drain: the fault comes with the notice, and passes; the node is
emptied all the same, each pod is asked to leave once, and nothing of others is touched.
"""

from __future__ import annotations

import re
import time
from typing import Any

import promises
import staging
from cells import Broken, Cell, Phase
from harness import PATIENCE, World
from operations import UNHEARD, operation
from phase_bootstrap import FACTS
from running import DaemonTest, DaemonWorld, until
from ways import WAYS, Span, Strike, Way

AGENT = "(run)"
CLAIM = "default-abc12"
START = ("imds token", *(f"imds {n}" for n in (*FACTS, "user-data", "role", "credentials")))
POLLS = ("imds spot", "imds rebalance", "imds target-state", "imds maintenance")
SEEN = ("node list", "node watch", "node get", "failed pods list", "claim list", "claim watch")
RUN_ROWS = (*START, *POLLS, *SEEN)
DRAIN_ROWS = ("imds spot", "node status", "node patch", "pods list", "pods watch", "evict", "pod mark", "pod delete")
DRAIN_ROWS += ("event",)
APART = ("whoami", "event again", "failed pods watch")  # only where something fails
FORCED = ("pod mark", "pod delete")  # only where a pod's last moment comes
PODS = ("web-1", "web-2")
GRACE = 2
PASSES_SEC = 1.2  # so long a fault stays while nothing happens
SOON_SEC = 1.0
POLL_SEC = 4.0  # a request's own time, then it is reported
HEAD_SEC = 10.0  # of a list, and of a watch until its answer begins
PACE_SEC = 10.0  # a watch that goes on too slowly is given up after it
NOTICE_SEC, SHORT_NOTICE_SEC = 120.0, 7.0


class Node(DaemonWorld):
    """A node with two pods, Karpenter's claim of it, and things of others that nobody must touch."""

    margin = "1s"

    def __init__(self, is_forced: bool = False) -> None:
        super().__init__(token=True, margin=self.margin)
        self.is_forced = is_forced
        self.api.claims_readable = True

    def __enter__(self) -> "Node":
        super().__enter__()
        spec = {"nodeClassRef": {"name": "x"}}
        meta = {"name": CLAIM, "finalizers": ["karpenter.sh/termination"]}
        claim = self.api.put("nodeclaims", {"metadata": meta, "spec": spec, "status": {"nodeName": self.node_name}})
        owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": CLAIM, "uid": claim["metadata"]["uid"]}
        self.change_node(lambda n: n["metadata"].update(ownerReferences=[{**owner, "blockOwnerDeletion": True}]))
        self.api.put("nodeclaims", {"metadata": {"name": "another"}, "spec": spec, "status": {"nodeName": "another"}})
        self.api.put("nodes", {"metadata": {"name": "another"}, "spec": {}, "status": {}})
        self.pod("elsewhere", spec={"nodeName": "another"})
        for name in PODS:
            self.pod(name, grace=GRACE)
        if self.is_forced:
            self.budget("never", PODS[0])
        self.foreign = self.of_others()
        return self

    def of_others(self) -> list[Any]:
        """What is not ours, as it stands."""
        rows = [o for kind in ("nodes", "nodeclaims", "pods") for o in self.api.objects(kind)]
        others = [o for o in rows if o["metadata"]["name"] in ("another", "elsewhere")]
        node = self.node()
        meta = node["metadata"]
        return [others, meta["labels"].get("team"), meta["annotations"].get("team/x"), node["spec"].get("taints"),
                meta["ownerReferences"], [o["metadata"]["name"] for o in rows if o["metadata"]["name"] == CLAIM]]  # fmt: skip

    def servers(self) -> dict[str, Any]:
        return {"imds": self.imds.server, "api": self.api.server}

    def own_pods(self) -> list[str]:
        return [p for p in self.pods() if p != "elsewhere"]

    def need(self, is_so: Any, what: str) -> None:
        if not is_so:
            raise Broken(f"{what}\n{self.asked()}\n{self.story()}")

    def must(self, check: Any, what: str = "", within: float = 15) -> Any:
        """Looks seldom: many cells share two cores."""
        end = time.monotonic() + within * PATIENCE
        while not (found := check()) and time.monotonic() < end:
            time.sleep(0.06)
        self.need(found, f"waited in vain for {what or check}")
        return found

    def asked(self) -> str:
        rows = []
        for kind, server in self.servers().items():
            for e in server.log.snapshot():
                rows.append(f"{e['recv']:.3f} {kind} {e['method']} {e['path'][:80]} {e['status']} {e['fault'] or ''}")
        return "\n".join(sorted(rows)[-30:])

    def is_well(self) -> bool:
        said = self.said_of_itself()
        polls = (said.get("imds") or {}).values()
        return bool(said.get("connected")) and not said.get("apiError") and not any(p.get("error") for p in polls)

    def errors(self) -> list[str]:
        """What status.json says is wrong."""
        said = self.said_of_itself()
        found = [said.get("apiError"), *(p.get("error") for p in (said.get("imds") or {}).values())]
        return [f for f in found if f]

    def complaints(self) -> list[str]:
        """What the journal says is wrong."""
        rows = self.log().splitlines()
        return [line for line in rows if line.startswith(("warning", "error")) or "trying again" in line]


class Judge(DaemonTest):
    """What every request of a node must be; how often a blocked pod is told of depends on the fault."""

    def rates(self, world: DaemonWorld) -> None:
        at = [s.at for s in world.steps("progress")]
        self.assertLessEqual(len(at), at[-1] - at[0] + 2 if at else 0, f"more than one a second: {at}")


def prepare() -> None:
    with World("c5a.large-spot") as world:
        staging.prepare(world.node_name)


def check_run() -> None:
    with Node() as world:
        world.start()
        world.must(world.is_well, "a daemon that is well")
        rows = {r for r in RUN_ROWS if not r.startswith("imds")}
        world.must(lambda: rows <= set(staging.names_in(world.servers(), AGENT)), "all that it looks at", 20)
        staging.check_rows(staging.names_in(world.servers(), AGENT), RUN_ROWS)


def check_drain() -> None:
    found: set[str] = set()
    for is_forced in (False, True):
        with Node(is_forced) as world:
            ready(world)
            for server in world.servers().values():
                server.log.clear()
            finish(world)
            found |= set(staging.names_in(world.servers(), AGENT))
    staging.check_rows(found, DRAIN_ROWS, RUN_ROWS)


def ready(world: Node) -> None:
    world.start()
    world.must(world.is_well, "a daemon that is well")


def begin(cell: Cell, world: Node, canary: staging.Canary, span: Span) -> tuple[Way, Strike]:
    how, what = staging.way(cell.column), operation(cell.row)
    return how, staging.strike(world.servers()[what.server], what, how, canary, span, re.escape(AGENT))


def finish(world: Node, within: float = 25, is_whole: bool = True) -> None:
    """A notice, and all that follows from it; not `is_whole`: without a write of the Node that was refused."""
    world.imds.spot(SHORT_NOTICE_SEC if world.is_forced else NOTICE_SEC)
    world.must(lambda: not world.own_pods(), "the end of all pods", within)
    if is_whole:
        world.must(world.is_cordoned, "the cordon")
        world.drained(within)
    else:
        world.phase_is("drained")
    undisturbed(world)


def undisturbed(world: Node, pods: tuple[str, ...] = PODS) -> None:
    """Each pod was asked once, and nobody else noticed anything."""
    for name in pods:
        graces = world.api.kubelet.graces[name]
        is_last = world.is_forced and name == PODS[0]
        world.need(len(graces) == 1 and (is_last or graces == [GRACE]), f"{name} was given {graces} seconds")
    world.need(world.of_others() == world.foreign, f"something of others was changed: {world.of_others()}")
    Judge().judge(world)


def stop(world: Node, strike: Strike) -> None:
    world.need(world.daemon.poll() is None, f"the daemon ended: {world.daemon.poll()}")
    world.need(strike.hits, "the fault met no request")
    found = staging.names_in(world.servers(), AGENT)
    strange = set(found) - {*RUN_ROWS, *DRAIN_ROWS, *APART, UNHEARD}
    world.need(not strange, f"operations without a row: {strange}")
    code, seconds = world.stop()
    world.need(code == 0 and seconds < 5 * PATIENCE, f"SIGTERM: exit code {code} after {seconds:.1f} s")
    left = [p for p in world.root.rglob("*") if p.is_file() and re.search(r"[.](tmp|part|new)|~$|[.]#", p.name)]
    world.need(not left, f"half-written files: {left}")


def drive_run(cell: Cell) -> str:
    with Node() as world, staging.Canary() as canary:
        how, strike = begin(cell, world, canary, Span(count=1) if staging.way(cell.column).is_slow else Span(for_sec=PASSES_SEC))
        world.start(ready=False)
        world.must(lambda: "READY=1" in world.heard(), "READY=1", 5)
        world.must(lambda: strike.hits, "the fault", 15)
        if is_heard(cell.row, how):
            bound = SOON_SEC + slowness(cell.row, how)
            left = strike.fault.first + bound * PATIENCE - time.monotonic()
            seen = until(lambda: world.errors() or world.complaints(), max(0.1, left) / PATIENCE)
            world.need(seen, f"nothing is said of it within {bound} s")
        world.must(world.is_well, "a daemon that is well again", 25)
        world.imds.spot(NOTICE_SEC)
        world.must(world.is_cordoned, "the cordon", 20)
        undisturbed(world, pods=())
        canary.check()
        stop(world, strike)
        return "R"


def is_heard(row: str, how: Way) -> bool:
    """Whether somebody has to be told."""
    is_complete_all_the_same = (row, how.name) == ("imds maintenance", "drip")  # "[]" has two bytes
    is_bad = how.meaning in ("away", "silent", "5xx", "tls") and not is_complete_all_the_same
    return is_bad and row not in ("node get", "claim list", "claim watch")


def slowness(row: str, how: Way) -> float:
    """How long a request may take before it is known to fail."""
    if not how.is_slow:
        return 0.5
    if row.endswith(" watch"):
        return HEAD_SEC + (PACE_SEC if how.name == "drip" else 0.0)
    return HEAD_SEC if row.endswith(" list") else POLL_SEC


def drive_drain(cell: Cell) -> str:
    with Node(cell.row in FORCED) as world, staging.Canary() as canary:
        ready(world)
        how, strike = begin(cell, world, canary, Span(count=1 if staging.way(cell.column).is_slow else 2))
        promise = promises.draining(cell.row, how.name, how.meaning)
        finish(world, 30, promise.letter == "R")
        canary.check()
        stop(world, strike)
        return promise.letter


def weight(row: str, column: str) -> float:
    return (5.0 if row in FORCED else 2.5) + (4.0 if staging.way(column).is_slow else 0.0)


COLUMNS = tuple(w.name for w in WAYS)
PHASES = [
    Phase("run", RUN_ROWS, COLUMNS, drive_run, staging.fits, check_run, weight),
    Phase("drain", DRAIN_ROWS, COLUMNS, drive_drain, staging.fits, check_drain, weight),
]
