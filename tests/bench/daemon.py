#!/usr/bin/python3
"""What the daemon costs while nothing happens, and how fast it is when something does.

The real program against the fakes on loopback: what is measured is its own memory, processor time and delay.

    daemon.py --agent PATH --dir DIR [--idle SECONDS] [--notices N] [--pods N]

The processor time of an idle daemon is held against that of a program beside it which polls one path of IMDS as often, with the same
libraries (baseline.c): the ratio holds on any machine.

Prints "name value unit" lines, then each limit as kept or missed, then "N passed, N failed".
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

import cost

HERE = Path(__file__).resolve().parent
SPOT = "/latest/meta-data/spot/instance-action"
FLOOR = "/latest/meta-data/spot/termination-time"  # there is none either; nodeclaimd does not ask for it
POLL_SEC = 0.9
PATIENCE_SEC = 30.0
POD_PADDING_BYTES = 8 * 1024  # a Deployment's pod with its managed fields, as clusters have them


def memory_mib(pid: int) -> tuple[float, float]:
    """(private, resident). Private is what is written to: pages of a library's file are everybody's, even where nobody else
    happens to have them mapped, and where the file is in memory, whose pages all count as dirty."""
    rows = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    )
    kib = {name: int(value.split()[0]) for name, value in rows.items()}
    return kib["Anonymous"] / 1024, kib["Rss"] / 1024


def cpu_msec(pid: int) -> float:
    """Time on a processor, of all threads, in nanosecond resolution."""
    return sum(int(p.read_text().split()[0]) for p in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e6


def listening_sockets(pid: int) -> int:
    """TCP and UDP sockets of the process that anybody could speak to first."""
    own = {os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()}
    found = 0
    for table, state in (("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")):
        for row in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = row.split()
            found += words[3] == state and f"socket:[{words[9]}]" in own
    return found


def percentile(values: list[float], part: float) -> float:
    rows = sorted(values)
    return rows[min(len(rows) - 1, int(len(rows) * part))]


class Report:
    def __init__(self) -> None:
        self.passed = self.failed = 0

    @staticmethod
    def line(name: str, value: float, unit: str) -> None:
        print(f"{name:44} {value:>12,.2f} {unit}", flush=True)

    def limit(self, text: str, kept: bool) -> None:
        self.passed += kept
        self.failed += not kept
        print(f"  {'kept  ' if kept else 'MISSED'}  {text}", flush=True)


def soon(check: Callable[[], Any], what: str, seconds: float = PATIENCE_SEC) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = check()
        if found:
            return found
        time.sleep(0.001)
    raise SystemExit(f"waited in vain for {what}")


def idle(world: Any, report: Report, seconds: float, floor: Path) -> None:
    time.sleep(3)  # the start itself is not what is measured
    with subprocess.Popen([floor, world.imds.url, FLOOR, str(int(POLL_SEC * 1000))]) as bare:
        soon(lambda: any(e["path"] == FLOOR for e in world.requests()), "the program beside the daemon")
        pids = (world.daemon.pid, bare.pid)
        asked, before, begin = len(world.requests()), [cpu_msec(p) for p in pids], time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - begin
        spent, least = ((cpu_msec(p) - b) * 60 / took for p, b in zip(pids, before))
        per_hour = sum(e["path"] != FLOOR for e in world.requests()[asked:]) * 3600 / took
        bare.kill()
    private, resident = memory_mib(world.daemon.pid)
    report.line("idle_seconds", took, "s")
    report.line("idle_cpu_per_minute", spent, "ms")
    report.line("idle_cpu_per_minute_bare_libcurl", least, "ms")
    report.line("idle_private", private, "MiB")
    report.line("idle_resident", resident, "MiB")
    report.line("idle_imds_requests_per_hour", per_hour, "requests")
    sockets = listening_sockets(world.daemon.pid)
    report.line("idle_listening_sockets", sockets, "sockets")
    report.limit(f"idle: at most twice the CPU of a bare libcurl that polls ({spent / least:.2f} times)", spent <= 2 * least)
    report.limit("idle: at most 3 MiB private", private <= 3)
    report.limit("idle: at most 16 MiB resident", resident <= 16)
    report.limit("idle: no listening socket", sockets == 0)


def notices(world: Any, report: Report, count: int) -> None:
    """Each notice comes at a random moment between two polls, is withdrawn, and everything undone before the next."""
    dice = random.Random(1)
    waits, own = [], []
    for _ in range(count):
        time.sleep(dice.uniform(0, POLL_SEC))
        world.api.server.log.clear()
        world.imds.server.log.clear()
        begin = time.monotonic()
        world.imds.spot(120)
        cordon = soon(lambda: [s for s in world.steps("cordon") if s.status == 200], "the cordon")[0]
        heard = next(e for e in world.requests() if e["path"] == SPOT and e["status"] == 200)
        waits.append((cordon.entry["sent"] - begin) * 1000)
        own.append((cordon.at - heard["sent"]) * 1000)
        world.imds.spot(None)
        soon(lambda: world.condition("InterruptionPending")[0] == "False", "the release")
    report.line("notices", count, "notices")
    report.line("notice_to_cordon_p50", statistics.median(waits), "ms")
    report.line("notice_to_cordon_p99", percentile(waits, 0.99), "ms")
    report.line("imds_answer_to_cordon_p50", statistics.median(own), "ms")
    report.line("imds_answer_to_cordon_p99", percentile(own, 0.99), "ms")
    report.limit("notice to cordon: at most 1.1 s, p99", percentile(waits, 0.99) <= 1100)
    report.limit("of which our own work and two writes: at most 20 ms, p50", statistics.median(own) <= 20)


def many_pods(world: Any, report: Report, count: int) -> None:
    padding = {"filler/x": "x" * POD_PADDING_BYTES}
    for i in range(count):
        world.pod(f"pod-{i}", grace=5, annotations=padding)
    pid, most = world.daemon.pid, 0.0
    world.imds.spot(120)
    begin = time.monotonic()
    while world.drain().get("phase") != "drained":
        most = max(most, memory_mib(pid)[0])
        if time.monotonic() - begin > 60:
            raise SystemExit(f"the drain did not end: {world.drain()}")
        time.sleep(0.005)
    left = len([s for s in world.steps("evict") if s.status in (200, 201)])
    report.line("drained_pods", left, "pods")
    report.line("drain_private_peak", most, "MiB")
    report.limit(f"a drain of {count} pods: at most 6 MiB private", most <= 6 and left == count)


def main() -> int:
    args = argparse.ArgumentParser(description="the daemon's cost and delay")
    args.add_argument("--agent", type=Path, required=True)
    args.add_argument("--dir", type=Path, required=True, help="for the program beside it")
    args.add_argument("--idle", type=float, default=600)
    args.add_argument("--notices", type=int, default=100)
    args.add_argument("--pods", type=int, default=250)
    opts = args.parse_args()
    os.environ["NODECLAIMD"] = str(opts.agent.resolve())
    sys.path.insert(0, str(HERE.parent / "integration"))
    from running import DaemonWorld

    _, floor = cost.compile_tools(opts.dir)
    report = Report()
    with DaemonWorld(token=True) as world:
        world.api.bookmark_sec = 60  # as kube-apiserver sends them; the tests want them sooner
        world.start("--log-level", "info")
        idle(world, report, opts.idle, floor)
        notices(world, report, opts.notices)
    with DaemonWorld() as world:
        world.start("--log-level", "info")
        many_pods(world, report, opts.pods)
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
