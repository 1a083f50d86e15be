#!/usr/bin/python3
"""Runs every test of the programs beside this one, many at a time, and sums up.

    run.py --agent PATH [--controller PATH] [--jobs N] [--only NAME] [--patience X]

Each test has a process and certificates of its own, forked from this one, which has read all of them. They wait far more than they
work, so many run at once; what took longest the last time begins first.

A test that failed beside others is run once more when all have ended, by itself: time limits are about the program under test, not
about what else a small machine does at that moment. Both outcomes are printed; the second counts. Nothing is run a third time.

What is not run, and why, is said by "not run: REASON"; what passed only at its second try by "flaky: TEST"; what failed in the end by
"failed: TEST". The last line is "N passed, N failed".
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import unittest
import warnings
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Iterator

HERE = Path(__file__).resolve().parent
TEST_SEC = 240


@dataclass
class Outcome:
    """What a test came to: said by its process as JSON, or found out about one that said nothing."""

    bad: bool = False
    not_run: list[str] = field(default_factory=list)
    text: str = ""
    seconds: float = 0.0


@dataclass
class Running:
    test: unittest.TestCase
    folder: str  # its certificates
    said: IO[bytes]
    result: IO[bytes]  # an Outcome, once it has ended by itself
    began: float = field(default_factory=time.monotonic)


def tests_of(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from tests_of(part)
        else:
            yield part


def load(only: str) -> list[unittest.TestCase]:
    """A file that cannot be read is a test that fails."""
    sys.path.insert(0, str(HERE))
    names = sorted(p.stem for p in HERE.glob("test_*.py"))
    return [t for t in tests_of(unittest.defaultTestLoader.loadTestsFromNames(names)) if only in t.id()]


def make_certificates() -> None:
    """Before the fork, so that each process finds them; what else it needs it issues from a copy of its own."""
    harness = sys.modules.get("harness")
    if harness:
        ours = harness.Authority(harness.SHARED)
        ours.server()
        ours.node(harness.instances.PROFILES["m5.large"].private_dns)  # most tests have this one


def run_here(run: Running) -> None:
    """In the test's own process."""
    harness = sys.modules.get("harness")
    if harness:
        shutil.copytree(harness.SHARED, run.folder, dirs_exist_ok=True)
        harness.SHARED = Path(run.folder)
    done = unittest.TextTestRunner(sys.stdout, verbosity=0).run(unittest.TestSuite([run.test]))
    out = Outcome(not done.wasSuccessful(), [reason for _, reason in done.skipped])
    run.result.write(json.dumps(asdict(out)).encode())
    run.result.flush()


def start(test: unittest.TestCase, seconds: int) -> tuple[int, Running]:
    run = Running(test, tempfile.mkdtemp(prefix="nodeclaimd-pki-"), tempfile.TemporaryFile(), tempfile.TemporaryFile())
    pid = os.fork()
    if pid:
        return pid, run
    code = 1
    try:
        os.setsid()
        signal.alarm(seconds)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(run.said.fileno(), 1)
        os.dup2(1, 2)
        run_here(run)
        code = 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def clean_up(pid: int, run: Running) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)  # what it left running
    except ProcessLookupError:
        pass
    shutil.rmtree(run.folder, ignore_errors=True)


def read_all(file: IO[bytes]) -> bytes:
    with file:
        file.seek(0)
        return file.read()


def outcome(run: Running, code: int) -> Outcome:
    result, said = read_all(run.result), read_all(run.said)
    out = Outcome(**json.loads(result)) if code == 0 else Outcome(bad=True)
    out.seconds = time.monotonic() - run.began
    out.text = said.decode(errors="replace")
    if code:
        out.text += f"\n{run.test.id()} did not come to its end: {f'exit code {code}' if code > 0 else signal.strsignal(-code)}\n"
    return out


def run_all(tests: list[unittest.TestCase], jobs: int, seconds: int) -> Iterator[tuple[unittest.TestCase, Outcome]]:
    """Each with what it came to, as they end."""
    waiting, running = tests[::-1], dict[int, Running]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                pid, run = start(waiting.pop(), seconds)
                running[pid] = run
            pid, status = os.waitpid(-1, 0)
            clean_up(pid, running[pid])
            run = running.pop(pid)
            yield run.test, outcome(run, os.waitstatus_to_exitcode(status))
    finally:
        for pid, run in running.items():
            clean_up(pid, run)


class Report:
    """Prints a line for each file, once all of its tests have ended, and counts."""

    def __init__(self, tests: list[unittest.TestCase]) -> None:
        self.left: dict[str, set[str]] = defaultdict(set)
        self.of: dict[str, list[Outcome]] = defaultdict(list)
        self.passed, self.failed = 0, 0
        self.last: list[str] = []
        for test in tests:
            self.left[file_of(test)].add(test.id())

    def add(self, test: unittest.TestCase, out: Outcome) -> None:
        name = file_of(test)
        self.of[name].append(out)
        self.left[name].discard(test.id())
        if out.bad:
            print(f"  {test.id()} failed after {out.seconds:.1f} s\n{out.text}", flush=True)
        if not self.left[name]:
            all_of = self.of[name]
            bad = sum(o.bad for o in all_of)
            good = sum(not o.bad and not o.not_run for o in all_of)
            longest = max(o.seconds for o in all_of)
            print(f"  {name:24} {good:3} passed, {bad} failed, {sum(o.seconds for o in all_of):.1f} s, longest {longest:.1f} s", flush=True)

    def count(self, test: unittest.TestCase, out: Outcome, flaky: bool = False) -> None:
        self.last += [f"  {file_of(test)}: not run: {reason}" for reason in out.not_run]
        if out.bad:
            self.failed += 1
            self.last.append(f"failed: {test.id()}")
        elif not out.not_run:
            self.passed += 1
            self.last += [f"flaky: {test.id()}"] if flaky else []


def file_of(test: unittest.TestCase) -> str:
    return test.id().split(".")[0]


def main() -> int:
    args = argparse.ArgumentParser(description="integration tests against the fakes")
    args.add_argument("--agent", type=Path, required=True, help="the nodeclaimd to test")
    args.add_argument("--controller", type=Path, help="the nodeclaim-controller; default: the one beside the agent")
    args.add_argument("--jobs", type=int, default=0, help="tests at a time; they wait more than they work")
    args.add_argument("--only", default="", help="part of a test's name: test_FILE.CLASS.test_NAME")
    args.add_argument("--patience", type=float, default=1.0, help="factor on time limits, for slow builds")
    args.add_argument("--times", type=Path, help="how long each took: what took longest begins first the next time")
    opts = args.parse_args()
    os.environ |= {
        "NODECLAIMD": str(opts.agent.resolve()),
        "NODECLAIM_CONTROLLER": str((opts.controller or opts.agent.parent / "nodeclaim-controller").resolve()),
        "NC_PATIENCE": str(opts.patience),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    sys.dont_write_bytecode = True
    sys.warnoptions = ["error::ResourceWarning"]  # unittest leaves the filters alone then
    warnings.simplefilter("error", ResourceWarning)
    times: dict[str, float] = json.loads(opts.times.read_text()) if opts.times and opts.times.exists() else {}
    tests = load(opts.only)
    tests.sort(key=lambda t: -times.get(t.id(), 10.0 if file_of(t).startswith(("test_run_", "test_control_")) else 0.0))
    make_certificates()
    report = Report(tests)
    seconds = int(TEST_SEC * max(1.0, opts.patience / 2))
    again: list[unittest.TestCase] = []
    for test, out in run_all(tests, opts.jobs or (14 if opts.patience < 2 else 5), seconds):
        report.add(test, out)
        times[test.id()] = out.seconds
        if out.bad and len(tests) > 1:
            again.append(test)
            print(f"  {test.id()}: runs once more, by itself, when the others have ended")
        else:
            report.count(test, out)
    for test in again:
        print(f"  {test.id()}: once more, by itself")
        for _, out in run_all([test], 1, seconds):
            print(f"  {test.id()}: {out.text if out.bad else f'passed, {out.seconds:.1f} s'}")
            report.count(test, out, flaky=True)
    if opts.times:
        opts.times.write_text(json.dumps(times, indent=0))
    for line in sorted(report.last):
        print(line)
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed or not report.passed else 0


if __name__ == "__main__":
    sys.exit(main())
