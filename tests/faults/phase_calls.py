"""A bootstrap whose calls fail: every kind of call at every place, in every way it can, as the shim lets it.

Two worlds: one where no file of ours is there yet, one where each is there with other bytes. What was done before and after a
fault is compared with what an undisturbed run leaves.

Knows: which files a bootstrap cannot do without. Which calls it makes comes from the shim's log of an undisturbed one.
Gives: `PHASES`, `prepare()`.
"""

from __future__ import annotations

import json
import multiprocessing.util
import os
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional

import cells
from calling import FAULTS, INVISIBLE, REMEDIES, faults_for, left_over, library, place_of, shimmed, reason_phrase
from harness import Result, World, mime
from shimlog import Call, read_log
from test_host import ASKED

ESSENTIAL: tuple[str, ...] = (
    "kubelet's drop-in",
    "kubelet's config",
    "the cluster's CA",
    "kubelet.env",
    "logind's drop-in",
    "kubeconfig",
)
# Nothing of these may stop a bootstrap.
BESIDE = ("status.json", "metrics.prom", "the status' lock", "the restart's mark", "the console", "kubelet.pid")
HOSTS = "the host's files"  # environment, resolver, local disks
ESSENTIAL += (HOSTS,)
TOPS = ("etc/kubernetes", "etc/nodeclaimd/kubelet.env", "etc/systemd", "var/lib/kubelet", "run/systemd", "var/lib/nodeclaimd")
STARTING = ("kubelet.pid", "kubelet's log", "the console", "the restart's mark")


@dataclass(frozen=True)
class Fault:
    """`text`: what must be in the path; `often`: as in a rule of the shim. `starts`: with kubelet."""

    call: str
    place: str
    fault: str
    often: str
    text: str
    fresh: bool
    starts: bool
    looks: bool

    @property
    def row(self) -> str:
        name = "look at" if self.looks and self.call == "open" else self.call
        where = self.text.rstrip("$") if self.place == "folders" else self.place
        return f"{name} {where}" if where != "the loop" else name

    @property
    def rule(self) -> str:
        return f"{self.call}:{self.often}:{self.fault}:{self.text}"


class Bench:
    """One world, used again and again: what a cell left is put back."""

    def __init__(self) -> None:
        self.world = World()

    def __enter__(self) -> "Bench":
        world = self.world.__enter__()
        self.log = world.folder / "calls"
        done = world.bootstrap("--skip", "start")
        assert done.code == 0, done.err
        self.new = self.files()
        self.old = {path: data + b"\n" for path, data in self.new.items()}
        return self

    def __exit__(self, *unused: object) -> None:
        self.world.__exit__()

    def files(self) -> dict[str, bytes]:
        found = self.world.tree("etc/nodeclaimd", *TOPS)
        return {path: data for path, data in found.items() if "conf.d/10-test" not in path}

    def put_back(self, fresh: bool) -> None:
        root = self.world.root
        self.world.stop_kubelet()
        for top in (*TOPS, "run/nodeclaimd", "dev/console", "var/log"):
            path = root / top
            if path.is_dir():
                shutil.rmtree(path)
            elif path.exists():
                path.unlink()
        for path, data in {} if fresh else self.old.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
            (root / path).chmod(0o644)
        self.log.unlink(missing_ok=True)

    def run(self, starts: bool, fail: str = "", everything: bool = False) -> Result:
        args = ("bootstrap", "--timeout", "20s") if starts else ("bootstrap", "--timeout", "20s", "--skip", "start")
        return self.world.run(*args, **shimmed(self.log, fail, everything=everything))

    def undisturbed(self, fresh: bool, starts: bool) -> list[Call]:
        self.put_back(fresh)
        done = self.run(starts, everything=True)
        assert done.code == 0, done.err
        root = str(self.world.root)
        # What the root itself is asked for has a name, too: a rule of no text would match every call.
        return [replace(c, what=c.what.replace(root, "") or f"/{self.world.root.name}") if c.what else c for c in read_log(self.log)]

    def is_tried(self, place: str) -> bool:
        """Does this bench try the faults of such a place?"""
        return place != HOSTS

    # --- judging
    def judge(self, cell: Fault) -> tuple[Optional[str], int]:
        """What is wrong, None where all is as promised; the exit code below the fault."""
        self.put_back(cell.fresh)
        first = self.run(cell.starts, cell.rule)
        hit = [c for c in read_log(self.log) if c.how == "fault"]
        wrong = self.judge_first(cell, first, bool(hit) or cell.looks or cell.call in ("read", "close", "flock", "pipe2"))
        if wrong:
            return f"{wrong}\n{cell.rule}\n{first.err.strip()[-600:]}", first.code
        return self.judge_second(cell), first.code

    def judge_second(self, cell: Fault) -> Optional[str]:
        again = self.run(cell.starts)
        if again.code != 0:
            return f"no recovery: exit code {again.code}: {again.err.strip()[-600:]}"
        if self.files() != self.new:
            return f"after the recovery these are not as they should be: {self.differing(self.new)}"
        left = left_over(self.world.root)
        return f"left for good: {left}" if left else None

    def differing(self, want: dict[str, bytes]) -> list[str]:
        have = self.files()
        return sorted(p for p in {*have, *want} if have.get(p) != want.get(p))

    def judge_first(self, cell: Fault, done: Result, was_hit: bool) -> Optional[str]:
        have = self.files()
        if not was_hit:
            return "the fault was never met"
        torn = [p for p, d in have.items() if not p.endswith(".nodeclaimd-new") and d not in (self.old.get(p), self.new.get(p))]
        if torn:
            return f"neither old nor new: {torn}"
        if done.code == 0:
            return self.judge_success(cell, done)
        return self.judge_failure(cell, done)

    def judge_success(self, cell: Fault, done: Result) -> Optional[str]:
        changing = cell.call in ("open", "write", "fsync", "rename", "close", "chmod") and not cell.looks
        if cell.place in ESSENTIAL and changing and cell.fault not in INVISIBLE:
            return "succeeded, though a file could not be written"
        if self.files() != self.new:
            return f"succeeded with other files: {self.differing(self.new)}"
        left = left_over(self.world.root)
        if left and cell.call != "unlink":  # the next write takes it over
            return f"left: {left}"
        return self.judge_word(cell, done)

    def judge_word(self, cell: Fault, done: Result) -> Optional[str]:
        """Whatever could be told was told; what could not is said once."""
        is_lost = cell.fault not in INVISIBLE and cell.call not in ("unlink", "read", "flock") and not (cell.looks and cell.call == "open")
        if not (is_lost and cell.place == "the console") and self.world.console_record().get("outcome") != "succeeded":
            return f"the console says {self.world.console()!r}"
        status = self.world.status()
        if not is_lost and status.get("outcome") != "succeeded":
            return f"status.json says {status}"
        if not is_lost or cell.place not in ("status.json", "metrics.prom", "kubelet.pid"):
            return None
        said = done.err.count(reason_phrase(cell.fault))
        return f"said {said} times" if said != 1 else None

    def judge_failure(self, cell: Fault, done: Result) -> Optional[str]:
        if cell.fault in INVISIBLE:
            return f"was seen: exit code {done.code}"
        if cell.place in BESIDE:
            return f"stopped the bootstrap: exit code {done.code}"
        if done.code != 6:
            return f"exit code {done.code}"
        status = self.world.status()
        failed = next((p for p in status.get("phases", []) if p["outcome"] == "failed"), None)
        if not failed or status.get("outcome") != "failed":
            return f"status.json does not say so: {json.dumps(status)[:300]}"
        error = failed["error"]
        name = Path(cell.text.split(" -> ")[0].rstrip("$")).name.removesuffix(".nodeclaimd-new")
        for what, word in (("message", reason_phrase(cell.fault)), ("message", name), ("remedy", REMEDIES.get(cell.fault, ""))):
            if word not in error.get(what, "") or not error.get(what):
                return f"{what} does not speak of {word!r}: {error}"
        if error["class"] != "host":
            return f"class {error['class']}: {error}"
        line = self.world.console_record()
        if (line.get("outcome"), line.get("class")) != ("failed", "host"):
            return f"the console says {line}"
        left = left_over(self.world.root)
        if left and cell.call != "unlink":  # the next write takes it over
            return f"left: {left}"
        is_late = cell.call in ("rename", "fsync") or "kubelet" in failed["name"] or failed["name"] == "start"
        if not is_late and self.files() != ({} if cell.fresh else self.old):
            return f"failed in {failed['name']} and changed {self.differing({} if cell.fresh else self.old)}"
        return None


class HostBench(Bench):
    """A NodeConfig that asks something of the host: the files of the first stage, all of them or none."""

    def __enter__(self) -> "HostBench":
        self.world.set_user_data(
            mime(
                (
                    "application/node.eks.aws",
                    self.world.node_config().replace("\n  instance:\n    localStorage: {}\n", ASKED),
                )
            )
        )
        super().__enter__()
        return self

    def is_tried(self, place: str) -> bool:
        return place == HOSTS


def key_of(call: Call) -> str:
    """A part of the path that no other file has; of a temporary file without what makes its name another one."""
    what = call.what.split(" -> ")[0]
    temporary = re.fullmatch(r"(.*/\.[a-z.-]+)\.(new|[0-9A-Za-z]{6})", what)
    if temporary:
        return temporary[1]
    return what if " -> " in call.what else what + "$"


def faults_of(bench: Bench) -> list[Fault]:
    found: dict[tuple[str, ...], Fault] = {}
    for fresh, starts in ((False, False), (True, False), (True, True)):
        calls = bench.undisturbed(fresh, starts)
        written = {c.what for c in calls if c.name == "write" and c.kind == "files"}
        for call in calls:
            looks = call.kind in ("look", "wait")
            if call.kind == "wait" and call.name not in ("close", "flock", "pipe2"):
                continue
            place = place_of(call.what)
            if call.what.startswith("/tmp") or (place == "folders" and looks and call.name != "open"):
                continue
            if not bench.is_tried(place):
                continue
            if place in ("sockets of this machine", "the network") or (call.name == "close" and not call.what in written):
                continue
            if starts and not (place in STARTING or call.name in ("fork", "pipe2")):
                continue
            for fault in faults_for(call):
                row = (call.name + ("?" if looks else ""), place, fault)
                if place == "folders":  # each of them
                    row += (key_of(call),)
                often = "1" if place == "folders" or fault in INVISIBLE else "1+"
                found.setdefault(row, Fault(call.name, place, fault, often, key_of(call), fresh, starts, looks))
    return list(found.values())


# --- as a phase of the matrix
_faults: dict[tuple[str, str], Fault] = {}
_benches: dict[tuple[int, type[Bench]], Bench] = {}  # of each worker its own


def drive(cell: cells.Cell) -> str:
    fault = _faults[cell.row, cell.column]
    kind = HostBench if fault.place == HOSTS else Bench
    bench = _benches.get((os.getpid(), kind))
    if not bench:
        bench = _benches[os.getpid(), kind] = kind().__enter__()
        multiprocessing.util.Finalize(None, bench.__exit__, exitpriority=10)
    wrong, code = bench.judge(fault)
    if wrong:
        raise cells.Broken(wrong)
    if code != 0:
        return "H"
    return "R" if fault.fault in INVISIBLE else "W"


def __getattr__(name: str) -> Any:
    """PHASES takes an undisturbed bootstrap or three, so it is made when it is asked for."""
    if name != "PHASES":
        raise AttributeError(name)
    for kind in (Bench, HostBench):
        with kind() as bench:
            _faults.update({(f.row, f.fault): f for f in faults_of(bench)})
    rows = tuple(sorted({row for row, _ in _faults}, key=lambda row: (row.split(" ")[1:], row)))
    columns = tuple(dict.fromkeys(fault for faults in FAULTS.values() for fault in faults))
    globals()["PHASES"] = [cells.Phase("bootstrap, calls", rows, columns, drive, has=lambda r, c: (r, c) in _faults)]
    return globals()["PHASES"]


def prepare() -> None:
    library()
