#!/usr/bin/python3
"""The crash sweep: the program is killed before and after each call that changes the world, and the power is cut there.

    run.py --agent PATH --shim PATH [--only SCENE[,SCENE]] [--stride K] [--jobs N] [--list] [--seed S]

An undisturbed run of a scene gives its calls and its end. Then, for each call, the run is killed there by SIGKILL, what is on
disk is looked at, the program is started again in the same world, and its end is compared with the undisturbed one.

How it is counted: the world before call k+1 is the world after call k, so of the calls that a scene counts (those about files;
of the controller, which writes none, each byte for the network) each is killed at before it is made, and the last one after it
too; requests are killed at before the server has seen one and after it was carried out.

A case that fails is run once more when all have ended, by itself. Both outcomes are printed; the second counts.
The last line is "N passed, N failed".
"""

from __future__ import annotations

import argparse
import concurrent.futures
import logging
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent / "faults", HERE.parent / "integration"):
    sys.path.insert(0, str(folder))

import endstate  # noqa: E402
import powercut  # noqa: E402
import scenes  # noqa: E402
import scenes_controller  # noqa: E402
from scenes import Scene  # noqa: E402
from shimlog import Call, read_log  # noqa: E402

SCENES = [*scenes.SCENES, *scenes_controller.SCENES]


@dataclass(frozen=True)
class Kill:
    """Where one process dies. `what`: call, request. `then`: what happens before the next start: "", or a kind of power cut."""

    what: str
    number: int
    before: bool = True
    then: str = ""

    def __str__(self) -> str:
        cut = f", {self.then}" if self.then else ""
        return f"{self.what} {'before' if self.before else 'after'} {self.number}{cut}"


@dataclass(frozen=True)
class Case:
    scene: str
    kills: tuple[Kill, ...]
    where: str = ""  # the call, for people

    def __str__(self) -> str:
        return f"{self.scene}: killed at {' then '.join(map(str, self.kills))}{' (' + self.where + ')' if self.where else ''}"


@dataclass
class Outcome:
    wrong: list[str] = field(default_factory=list)
    deaths: int = 0
    code: Optional[int] = None
    state: dict[str, Any] = field(default_factory=dict)
    before: dict[str, Any] = field(default_factory=dict)
    raw_before: dict[str, Any] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    requests: int = 0
    seconds: float = 0.0


class Player:
    """One run of a scene with its deaths."""

    def __init__(self, scene: Scene, kills: tuple[Kill, ...], shim: Path, reference: Optional[Outcome]) -> None:
        self.scene, self.kills, self.shim, self.reference = scene, list(kills), shim, reference
        self.out = Outcome()
        self.given = kills
        self.requests = 0
        self.lock = threading.Lock()  # each server has a thread of its own
        self.is_first_boot = True
        self.armed: Optional[Kill] = None
        self.died_at_request = False

    def play(self) -> Outcome:
        start = time.monotonic()
        os.umask(0o022)
        with self.scene.open() as self.world:
            self.log = self.world.folder / "calls.log"
            self.scene.prepare(self.world)
            self.out.before = endstate.tree(self.world)
            self.out.raw_before = endstate.raw_tree(self.world.root)
            self._watch_requests()
            self._live(start + self.scene.limit_sec)
        self.out.seconds = time.monotonic() - start
        return self.out

    # --- requests
    def _watch_requests(self) -> None:
        for server in self.scene.servers(self.world):
            server.before_request.append(lambda req: self._look(req, True))
            server.before_answer.append(lambda req: self._look(req, False))

    def _look(self, req: Any, before: bool) -> bool:
        """True: the request is not carried out, or not answered."""
        with self.lock:
            return self._look_at(req, before)

    def _look_at(self, req: Any, before: bool) -> bool:
        if req.method == "GET" or not req.headers.get("user-agent", "").endswith(self.scene.agent()):
            return False
        if before:
            self.requests += 1
            if not self.out.deaths and self.is_first_boot:
                self.out.requests = self.requests
        kill = self.armed
        if not kill or kill.what != "request" or self.died_at_request:
            return self.died_at_request
        if kill.before == before and kill.number == self.requests:
            self.died_at_request = True
            os.kill(self.proc.pid, signal.SIGKILL)
        return self.died_at_request

    # --- processes
    def _spawn(self) -> None:
        self.armed = self.kills.pop(0) if self.kills else None
        self.requests, self.died_at_request = 0, False
        env = {}
        if (not self.out.deaths and self.is_first_boot) or self.armed:
            self.log.unlink(missing_ok=True)
            env = {
                "LD_PRELOAD": str(self.shim),
                "NC_SHIM_LOG": str(self.log),
                "NC_SHIM_COUNT": self.scene.counts,
                "NC_SHIM_ONLY": self.scene.only,
            }
        if self.armed and self.armed.what == "call":
            env["NC_SHIM_KILL"] = f"{self.armed.number}:{'before' if self.armed.before else 'after'}"
        old = os.umask(self.scene.umask)
        self.proc = self.scene.spawn(self.world, env)
        os.umask(old)

    def _live(self, until: float) -> None:
        self._spawn()
        while True:
            if self.proc.poll() is not None:
                if self.proc.returncode == -signal.SIGKILL and self.armed:
                    self._died()
                    continue
                if self.proc.returncode != 0 or self.scene.is_daemon:
                    self.out.wrong.append(f"ended with {self.proc.returncode}: {self._said()}")
                self.out.code = self.scene.end(self.world, self.proc)
                break
            self.scene.poke(self.world)
            if self.scene.goes_down(self.world):
                self._reboot()
                continue
            if self.scene.is_over(self.world):
                self.out.code = self.scene.end(self.world, self.proc)
                if self.out.code == -signal.SIGKILL and self.armed:
                    self._died()
                    continue
                break
            if time.monotonic() > until:
                self.out.wrong.append(f"not over in time: {self._said()}")
                self.proc.kill()
                self.proc.wait()
                break
            time.sleep(0.02)
        self._over()

    def _reboot(self) -> None:
        self.proc.kill()
        self.proc.wait()
        self.is_first_boot = False
        self.scene.reboot(self.world)
        self._spawn()

    def _said(self) -> str:
        log = getattr(self.world, "log", None)
        if log:
            return log()[-1500:]
        self.proc.kill()
        assert self.proc.stderr
        return self.proc.stderr.read().decode(errors="replace")[-1500:] + self.world.kubelet_log()[-500:]

    def _died(self) -> None:
        kill = self.armed
        assert kill
        self.out.deaths += 1
        if kill.what == "call" and not any(c.how in ("before", "after") for c in read_log(self.log)[-1:]):
            self.out.wrong.append("killed by somebody else")
        if self.reference:
            self.out.wrong += self.scene.at_death(self.world, self.reference.before, self.reference.state["files"])
        if kill.then:
            powercut.cut(self.world.root, self.out.raw_before, read_log(self.log), kill.then, kill.number)
            self.scene.reboot(self.world)
            if self.reference:
                wrong = self.scene.after_cut(self.world, self.reference.before, self.reference.state["files"])
                self.out.wrong += [f"after the cut: {w}" for w in wrong]
        self._spawn()

    def _over(self) -> None:
        self.out.calls = [] if self.out.deaths else read_log(self.log)
        self.out.state = self.scene.state(self.world)
        self.out.wrong += self.scene.at_end(self.world)
        if self.reference:
            if self.out.code != self.reference.code:
                self.out.wrong.append(f"exit code {self.out.code}")
            is_cut = any(k.then for k in self.given)
            self.out.wrong += self.scene.compare(self.reference.state, self.out.state, self.out.deaths, is_cut)


def play(case: Case, shim: Path, reference: Optional[Outcome]) -> Outcome:
    """In a process of the pool."""
    scene = next(s for s in SCENES if s.name == case.scene)()
    try:
        return Player(scene, case.kills, shim, reference).play()
    except Exception:  # a case that cannot be run is a failed one
        return Outcome(wrong=[traceback.format_exc()])


# --- which cases there are
def is_target(call: Call) -> bool:
    """Whether it is killed at this one."""
    return call.number > 0 and not call.failed


def cases_of(scene: type[Scene], ref: Outcome, stride: int, seed: int) -> list[Case]:
    name = scene.name
    calls = [c for c in ref.calls if is_target(c)]
    out = [Case(name, (Kill("call", call.number),), str(call)) for call in calls[::stride]]
    if calls:
        out.append(Case(name, (Kill("call", calls[-1].number, before=False),), str(calls[-1])))
    for number in range(1, ref.requests + 1):
        out += [Case(name, (Kill("request", number, before),)) for before in (True, False)]
    rng = random.Random(seed)
    for _ in range(max(2, len(calls) // (10 * stride))):
        first, second = rng.choice(calls), rng.choice(calls)
        out.append(Case(name, (Kill("call", first.number), Kill("call", second.number)), "twice"))
    if scene.cuts:
        out += cuts_of(name, ref, max(1, stride // scene.stride))  # few are left once equal ones are told
    return out


def cuts_of(name: str, ref: Outcome, stride: int) -> list[Case]:
    """At each call about a file on disk; where several cuts leave the same, with no request between them, one of them."""
    out, seen, n = [], set(), 0
    for i, call in enumerate(ref.calls):
        if call.kind == "requests":
            seen.clear()
        if not is_target(call) or not powercut.is_on_disk(call):
            continue
        n += 1
        for how in powercut.KINDS:
            left = powercut.signature(ref.raw_before, ref.calls[:i], how, call.number)
            if left not in seen and n % stride == 0:
                out.append(Case(name, (Kill("call", call.number, then=how),), str(call)))
            seen.add(left)
    last = [c for c in ref.calls if is_target(c)][-1]
    return out + [Case(name, (Kill("call", last.number, False, how),), "at the end") for how in powercut.KINDS]


def kind_of(case: Case) -> str:
    if len(case.kills) > 1:
        return "twice"
    kill = case.kills[0]
    return "power cuts" if kill.then else f"{kill.what} {'before' if kill.before else 'after'}"


class Sweep:
    def __init__(self, opts: argparse.Namespace) -> None:
        self.opts = opts
        self.passed = self.failed = self.listed = 0
        self.flaky: list[str] = []
        context = multiprocessing.get_context("fork")
        self.pool = concurrent.futures.ProcessPoolExecutor(opts.jobs, mp_context=context)

    def alone(self, case: Case, ref: Optional[Outcome]) -> Outcome:
        return self.pool.submit(play, case, self.opts.shim, ref).result()

    def scene(self, scene: type[Scene]) -> None:
        start = time.monotonic()
        ref = self.alone(Case(scene.name, ()), None)
        if ref.wrong or not ref.calls:
            print(f"  {scene.name}: the undisturbed run failed\n" + "\n".join(ref.wrong), flush=True)
            self.failed += 1
            return
        cases = cases_of(scene, ref, self.opts.stride or scene.stride, self.opts.seed)
        if self.opts.case:
            cases = [c for c in cases if self.opts.case in str(c)]
        if self.opts.list:
            self.listed += len(cases)
            print(f"== {scene.name}: {scene.about}; {len(cases)} cases")
            for case in cases:
                print(f"  {case}")
            return
        print(
            f"== {scene.name}: {scene.about}; undisturbed {ref.seconds:.1f} s, exit code {ref.code}, stride "
            f"{self.opts.stride or scene.stride}",
            flush=True,
        )
        jobs = {self.pool.submit(play, case, self.opts.shim, ref): case for case in cases}
        tally: dict[str, int] = {}
        late = 0
        again = []
        for job in concurrent.futures.as_completed(jobs):
            case, out = jobs[job], job.result()
            if out.wrong:
                again.append((case, out))
            elif out.deaths < len(case.kills):
                late += 1  # this run had fewer calls: it ended before it could be killed
            else:
                tally[kind_of(case)] = tally.get(kind_of(case), 0) + 1
        for case, out in sorted(again, key=lambda row: str(row[0])):
            self.once_more(case, out, ref, tally)
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(tally.items()))
        calls = sum(map(is_target, ref.calls))
        print(
            f"   {calls} calls, {ref.requests} requests; passed: {kinds}; {late} ended before their kill; "
            f"{time.monotonic() - start:.0f} s",
            flush=True,
        )
        self.passed += sum(tally.values())

    def once_more(self, case: Case, out: Outcome, ref: Outcome, tally: dict[str, int]) -> None:
        print(f"   FAILED {case}")
        print("\n".join(f"      {line}" for line in out.wrong[:12]))
        second = self.alone(case, ref)
        if second.wrong:
            print("      once more, by itself: failed")
            print("\n".join(f"      {line}" for line in second.wrong[:12]), flush=True)
            self.failed += 1
        else:
            print("      once more, by itself: passed", flush=True)
            self.flaky.append(str(case))
            tally[kind_of(case)] = tally.get(kind_of(case), 0) + 1


def main() -> int:
    start = time.monotonic()
    args = argparse.ArgumentParser(description="kill -9 and power cuts at each call that changes the world")
    args.add_argument("--agent", type=Path, required=True)
    args.add_argument("--shim", type=Path, required=True)
    args.add_argument("--only", default="", help="names of scenes, parted by commas")
    args.add_argument("--case", default="", help="only cases that have this in their name")
    args.add_argument("--stride", type=int, default=0, help="each K-th call only; default: the scene's own")
    args.add_argument("--jobs", type=int, default=8, help="runs at a time; they wait more than they work")
    args.add_argument("--seed", type=int, default=1, help="of the double crashes")
    args.add_argument("--list", action="store_true", help="say the cases, run none")
    opts = args.parse_args()
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # a killed peer is what this is about
    os.environ["NODECLAIMD"] = str(opts.agent.resolve())
    opts.shim = opts.shim.resolve()
    wanted = [s for s in SCENES if not opts.only or s.name in opts.only.split(",")]
    print(f"  seed {opts.seed}", flush=True)
    sweep = Sweep(opts)
    for scene in wanted:
        sweep.scene(scene)
    sweep.pool.shutdown()
    if opts.list:
        print(f"{sweep.listed} cases, scenes: {len(wanted)}")
    else:
        for name in sweep.flaky:
            print(f"flaky: {name}")
        print(f"{len(sweep.flaky)} flaky, {time.monotonic() - start:.0f} s")
        print(f"{sweep.passed} passed, {sweep.failed} failed")
    return 1 if sweep.failed or (not sweep.passed and not opts.list) else 0


if __name__ == "__main__":
    sys.exit(main())
