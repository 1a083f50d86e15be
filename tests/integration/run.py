#!/usr/bin/python3
"""Runs every test program beside this one, a few at a time, and sums up.

    run.py --agent PATH [--controller PATH] [--jobs N] [--only NAME] [--patience X]

A program that failed beside others is run once more when all have ended, by itself: time limits are about the program under
test, not about what else a small machine does at that moment. Both outcomes are printed; the second counts. Nothing is run a
third time.

What is not run, and why, is said by "not run: REASON"; what passed only at its second try by "flaky: TEST"; what failed in the end by
"failed: TEST". The last line is "N passed, N failed".
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAM_SEC = 540


def run_program(path: Path, env: dict[str, str]) -> tuple[int, int, str, float]:
    """(passed, failed, output, seconds)."""
    start = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-W", "error::ResourceWarning", str(path), "-v"],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            timeout=PROGRAM_SEC,
        )
        text, code = done.stdout.decode(errors="replace"), done.returncode
    except subprocess.TimeoutExpired as exc:
        text, code = (exc.stdout or b"").decode(errors="replace") + f"\n{path.name} did not end in {PROGRAM_SEC} s", 1
    ran = re.search(r"^Ran (\d+) tests?", text, re.M)
    bad = sum(int(n) for n in re.findall(r"(?:failures|errors)=(\d+)", text))
    total = int(ran[1]) if ran else 0
    total -= sum(int(n) for n in re.findall(r"skipped=(\d+)", text))
    if code != 0 and bad == 0:
        bad, total = 1, total + 1
    return max(0, total - bad), bad, text, time.monotonic() - start


def show(path: Path, good: int, bad: int, text: str, seconds: float) -> None:
    """Of a program that failed, what failed; of one that did not come to its end, the last that it said."""
    print(f"  {path.stem:24} {good:3} passed, {bad} failed, {seconds:.1f} s", flush=True)
    if bad:
        begin = text.find("\n" + "=" * 70 + "\n")
        print(text[begin + 1 :] if begin >= 0 else text[-8000:], flush=True)


def not_run(path: Path, text: str) -> list[str]:
    return [f"  {path.stem}: not run: {reason}" for _, reason in re.findall(r"\.\.\. skipped (['\"])(.*)\1", text)]


def named(path: Path, text: str) -> list[str]:
    """What failed in a program, by name."""
    names = re.findall(r"^(?:FAIL|ERROR): \S+ \((?:__main__\.)?([^)]*)\)", text, re.M)
    return [f"{path.stem}.{name}" for name in dict.fromkeys(names)] or [path.stem]


def main() -> int:
    args = argparse.ArgumentParser(description="integration tests against the fakes")
    args.add_argument("--agent", type=Path, required=True, help="the nodeclaimd to test")
    args.add_argument("--controller", type=Path, help="the nodeclaim-controller; default: the one beside the agent")
    args.add_argument("--jobs", type=int, default=0, help="programs at a time; they wait more than they work")
    args.add_argument("--only", default="", help="part of a program's name")
    args.add_argument("--patience", type=float, default=1.0, help="factor on time limits, for slow builds")
    opts = args.parse_args()
    env = {
        **os.environ,
        "NODECLAIMD": str(opts.agent.resolve()),
        "NODECLAIM_CONTROLLER": str((opts.controller or opts.agent.parent / "nodeclaim-controller").resolve()),
        "NC_PATIENCE": str(opts.patience),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    programs = sorted(p for p in HERE.glob("test_*.py") if opts.only in p.name)
    programs.sort(key=lambda p: not p.name.startswith(("test_run_", "test_control_")))  # those that take longest first
    passed = failed = 0
    again: list[tuple[Path, list[str]]] = []
    last: list[str] = []
    jobs = opts.jobs or (7 if opts.patience < 2 else 4)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = pool.map(lambda p: (p, *run_program(p, env)), programs)
        for path, good, bad, text, seconds in results:
            show(path, good, bad, text, seconds)
            if bad and len(programs) > 1:
                again.append((path, named(path, text)))
                continue
            passed, failed = passed + good, failed + bad
            last += not_run(path, text) + ([f"failed: {name}" for name in named(path, text)] if bad else [])
    for path, before in again:
        print(f"  {path.stem}: once more, by itself")
        good, bad, text, seconds = run_program(path, env)
        show(path, good, bad, text, seconds)
        passed, failed = passed + good, failed + bad
        last += not_run(path, text) + [f"failed: {name}" if bad else f"flaky: {name}" for name in (named(path, text) if bad else before)]
    for line in last:
        print(line)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
