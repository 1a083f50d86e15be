"""The faults of a boot: those that pass while it runs, and those that last.

Knows: which operations a bootstrap has, and how it ends well.
Gives: `PHASES`, `prepare()`.

bootstrap: the fault passes; this run ends well, with the same files as an undisturbed one. bootstrap, lasting: the run ends with
the class that is promised, in time, having said so while it tried; it changed nothing; the next run, without the fault, ends well.
"""

from __future__ import annotations

import re
import time
from typing import Any, Optional

import promises
import staging
from cells import Broken, Cell, Phase
from harness import PATIENCE, Behaviour, Ec2, Result, World, instances, mime
from operations import operation
from ways import WAYS, Span, Strike, Way

AGENT = "(bootstrap)"
FACTS = ("document", "mac", "local-ipv4", "local-hostname", "zone-id", "life-cycle", "domain", "target-state")
IMDS = ("imds token", *(f"imds {n}" for n in (*FACTS, "user-data", "role", "credentials")))
EC2 = ("ec2 types", "ec2 instances")
API = ("whoami", "node get", "claims search", "claim get", "node list", "node watch", "node status", "node patch")
APART = ("event",)  # only where something fails
BEFORE_FILES = ("imds role", "imds credentials", "whoami", "node get")  # the API server's word comes before the first byte on disk
ROWS = (*IMDS, *EC2, *API)
LASTS_SEC = 1.8  # --timeout where the fault never goes, and nobody has to be waited for
WHOLE_SEC = 15.0  # the same for a boot that goes on without it: the end comes by itself, on a busy machine late
SEEN_SEC = 1.0
# A silent peer is only known as such when a request's own time is over: seconds, by what is asked.
DEADLINES_SEC = {"imds": 2.0, "ec2": 5.0, "api": 3.0, "node list": 10.0, "node watch": 10.0}
SLACK_SEC = 3.0  # of a loaded machine
ENOUGH = "30s"
SETTINGS = ("etc/nodeclaimd/kubelet.env", "etc/kubernetes/kubelet/config.json")
_trees: dict[str, dict[str, bytes]] = {}  # of undisturbed boots


class BootWorld(World):
    """`row`: what is going to be disturbed. EC2 is there, and asked only where a row needs it."""

    def __init__(self, row: str) -> None:
        self.row = row
        profile = "unknown-type" if row == "ec2 types" else "m5.large"
        self.ec2 = Ec2(instances.PROFILES[profile])
        # The first write of the Node comes when it is registered: where the server goes with it, nothing must be left to wait for.
        behave = Behaviour(at_once=row in ("node status", "node patch"))
        super().__init__(profile, config=f'  aws: {{ec2: auto, ec2Endpoint: "{self.ec2.url}"}}\n', behave=behave)
        self.api.claims_readable = True
        self.is_short = row in (*IMDS, *EC2) and row not in ("imds role", "imds credentials")  # it is over when the files are written
        if row == "ec2 types":
            self.set_user_data(mime(("application/node.eks.aws", self.node_config(kubelet="  kubelet: {}\n"))))
        elif row == "ec2 instances":
            del self.imds.tree["latest/meta-data/local-hostname"]

    def __enter__(self) -> "BootWorld":
        self.ec2.server.start()
        super().__enter__()
        return self

    def __exit__(self, *unused: object) -> None:
        super().__exit__(*unused)
        self.ec2.server.stop()

    def options(self, timeout: str) -> list[str]:
        return ["--timeout", timeout, *(["--skip", "start"] if self.is_short else [])]

    def servers(self) -> dict[str, Any]:
        return {"imds": self.imds.server, "api": self.api.server, "ec2": self.ec2.server}

    def plain(self) -> dict[str, bytes]:
        """What is on disk, without what differs from world to world."""
        found = {p: b for p, b in self.tree().items() if "/pki/kubelet" not in p and "conf.d/10-test" not in p}
        ours = [(f":{s.port}".encode(), b":PORT") for s in self.servers().values()]  # five digits alone may stand for anything
        for old, new in (*ours, (str(self.folder).encode(), b"FOLDER")):
            found = {p: b.replace(old, new) for p, b in found.items()}
        return found

    @property
    def kind(self) -> str:
        return self.row if self.row in EC2 else "short" if self.is_short else "whole"


def prepare() -> None:
    staging.prepare()
    for row in ("imds token", "whoami", *EC2):
        with BootWorld(row) as world:
            done = world.bootstrap(*world.options(ENOUGH))
            if done.code != 0:
                raise SystemExit(f"an undisturbed bootstrap fails: {done.err}")
            _trees[world.kind] = world.plain()


def check() -> None:
    found: set[str] = set()
    for row in ("whoami", *EC2):
        with BootWorld(row) as world:
            done = world.bootstrap(*world.options(ENOUGH))
            assert done.code == 0, done.err
            found |= set(staging.names_in(world.servers(), AGENT))
    staging.check_rows(found, ROWS)


class Watcher:
    """When status.json first named an error, counted from the first request that the fault met."""

    def __init__(self, world: BootWorld, strike: Strike) -> None:
        self.world, self.strike = world, strike
        self.seen_after: Optional[float] = None

    def look(self) -> None:
        if self.seen_after is None and self.strike.fault.first:
            if any(p.get("error") for p in self.world.status().get("phases", [])):
                self.seen_after = time.monotonic() - self.strike.fault.first

    def follow(self, proc: Any, within: float) -> None:
        end = time.monotonic() + within
        while proc.poll() is None and time.monotonic() < end:
            self.look()
            time.sleep(0.05)


def story(world: BootWorld, done: Optional[Result]) -> str:
    rows = []
    for kind, server in world.servers().items():
        for e in server.log.snapshot():
            if AGENT in e.get("agent", ""):
                rows.append(f"{e['recv']:.3f} {kind} {e['method']} {e['path'][:90]} {e['status']} {e['fault'] or ''}")
    said = "" if done is None else f"exit code {done.code} after {done.seconds:.2f} s\n{done.err[-1500:]}"
    return "\n" + said + "\n" + "\n".join(sorted(rows)[-25:])


def need(is_so: Any, what: str, world: BootWorld, done: Optional[Result] = None) -> None:
    if not is_so:
        raise Broken(what + story(world, done))


def struck(world: BootWorld, strike: Strike, done: Optional[Result]) -> None:
    need(strike.hits, "the fault met no request", world, done)
    staging.names_in(world.servers(), AGENT)  # nothing new in a disturbed life either


def ended_well(world: BootWorld, done: Result, may_lack: bool = False) -> None:
    """`may_lack`: what the claim, EC2 or an address would have added is not in kubelet's settings."""
    need(done.code == 0, f"exit code {done.code}, promised was 0", world, done)
    need(world.status().get("outcome") == "succeeded", "status.json does not say succeeded", world, done)
    left, usual = world.plain(), _trees[world.kind]
    need(set(left) == set(usual), f"other files than usual: {sorted(set(left) ^ set(usual))}", world, done)
    other = [p for p in left if left[p] != usual[p] and not (may_lack and p in SETTINGS)]
    need(not other, f"other contents than usual: {other}", world, done)


def begin(cell: Cell, world: BootWorld, canary: staging.Canary, span: Span) -> tuple[Way, Strike]:
    how, what = staging.way(cell.column), operation(cell.row)
    agent = re.escape(AGENT)
    return how, staging.strike(world.servers()[what.server], what, how, canary, span, agent)


def drive_passing(cell: Cell) -> str:
    with BootWorld(cell.row) as world, staging.Canary() as canary:
        how, strike = begin(cell, world, canary, Span(count=1 if staging.way(cell.column).is_slow else 2))
        promise = promises.passing(cell.row, how.name, how.meaning)
        done = world.bootstrap(*world.options(ENOUGH), within=45)
        struck(world, strike, done)
        canary.check()
        if promise.letter not in "RW":
            refused(world, done, promise)
            return promise.letter
        ended_well(world, done, promise.letter == "W")
        return promise.letter


def refused(world: BootWorld, done: Result, promise: promises.Promise) -> None:
    """Exit code, status.json and console agree, and it says what to do."""
    need(done.code == promise.exit_code, f"exit code {done.code}, promised was {promise.exit_code}", world, done)
    status = world.status()
    need(status.get("outcome") == "failed", f"outcome {status.get('outcome')}", world, done)
    failed = [p for p in status["phases"] if p.get("outcome") == "failed"]
    need(len(failed) == 1, f"failed phases: {failed}", world, done)
    error, name = failed[0]["error"], promises.CLASS_NAMES[promise.letter]
    need(error["class"] == name, f"class {error['class']}, promised was {name}", world, done)
    need(error.get("message") and error.get("remedy"), f"no message or no remedy: {error}", world, done)
    line = world.console_record()
    need((line.get("outcome"), line.get("class")) == ("failed", name), f"on the console: {line}", world, done)


def drive_lasting(cell: Cell) -> str:
    with BootWorld(cell.row) as world, staging.Canary() as canary:
        before = world.tree()
        how, strike = begin(cell, world, canary, Span())
        promise = promises.lasting(cell.row, how.name, how.meaning, how.is_wide)
        known = deadline_of(cell.row) if how.is_slow else SEEN_SEC
        lasts = WHOLE_SEC if promise.letter == "W" else known + 2.5 if how.is_slow else LASTS_SEC
        start = time.monotonic()
        proc = world.spawn("bootstrap", *world.options(f"{lasts}s"))
        watcher = Watcher(world, strike)
        watcher.follow(proc, lasts + 20)
        done = world.finish(proc, within=5, start=start)
        struck(world, strike, done)
        canary.check()
        need(done.seconds <= lasts + SLACK_SEC * PATIENCE, f"it took {done.seconds:.1f} s of {lasts} s", world, done)
        if promise.letter != "W":
            refused(world, done, promise)
            seen = watcher.seen_after
            is_soon = seen is not None and seen <= (known + 1.0) * PATIENCE
            need(promise.letter != "T" or is_soon, f"it was to be seen within {known} s: {seen}", world, done)
            if world.is_short or cell.row in BEFORE_FILES:
                need(world.tree() == before, "something was changed on disk", world, done)
        else:
            need(done.code == 0, f"exit code {done.code}, promised was to go on without it", world, done)
        strike.heal()
        again = world.bootstrap(*world.options(ENOUGH), within=45)
        ended_well(world, again)
        return promise.letter


def deadline_of(row: str) -> float:
    return DEADLINES_SEC.get(row, DEADLINES_SEC[operation(row).server])


def weight(row: str, column: str) -> float:
    return deadline_of(row) if staging.way(column).is_slow else 1.0


COLUMNS = tuple(w.name for w in WAYS)
PHASES = [
    Phase("bootstrap", ROWS, COLUMNS, drive_passing, staging.fits, check, weight),
    Phase("bootstrap-lasting", ROWS, COLUMNS, drive_lasting, staging.fits, None, weight),
]
