#!/usr/bin/python3
"""How the cost grows: a drain with 10 to 2,000 pods, the controller with 1,000 to 50,000 nodes; as figures and as pictures.

The real programs against the fakes, over TLS and HTTP/2 (nghttpx in front, as in controller.py). What is counted is the
program's own processor time and memory, so that the fakes' cost is none of it. The fixed part is measured (no pod) or, for the
controller, where the line through its two smallest sizes begins; the exponent is the slope of what comes on top of it, on
logarithmic axes: 1 is linear.

    growth.py --agent PATH --controller PATH [--pods N,N] [--nodes N,N] [--runs N] [--out DIR]

Prints "name value unit" lines, writes growth-drain.svg and growth-controller.svg into DIR, then each limit as kept or missed,
then "N passed, N failed".
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "integration"), str(HERE.parent / "fakes")]

from chart import Series, draw  # noqa: E402
from controller import Bench, Stream, http2_front  # noqa: E402
import daemon  # noqa: E402
import wire  # noqa: E402
from daemon import POD_PADDING_BYTES, Report, cpu_msec, memory_mib  # noqa: E402

MOST = 1.15  # the exponent
PATIENCE_SEC = 300.0  # the fake takes its time
FLOOR = 100  # pods below which the fixed part is too large a share to tell growth from noise


UNITS = {"ms": "processor time, ms", "MiB": "memory, MiB"}


def about(sizes: str) -> tuple[str, str]:
    day = time.strftime("%Y-%m-%d", time.gmtime())
    return f"measured on {day}, logarithmic axes; docs/development/figures.md has the exponents", sizes


def exponent(points: list[tuple[float, float]], fixed: float) -> float:
    """The least-squares slope of log(cost - fixed) over log(size)."""
    rows = [(math.log(x), math.log(max(y - fixed, 1e-6))) for x, y in points]
    mean_x, mean_y = (sum(column) / len(rows) for column in zip(*rows))
    return sum((x - mean_x) * (y - mean_y) for x, y in rows) / sum((x - mean_x) ** 2 for x, _ in rows)


def growth(slope: float) -> str:
    names = ((0.1, "does not grow"), (2 - MOST, "grows more slowly"), (MOST, "grows proportionally"), (math.inf, "grows faster"))
    return next((name for most, name in names if slope <= most), "too few sizes for a fit")


def note(slope: float, points: list[tuple[float, float]], fixed: float, sizes: str, unit: str) -> str:
    """In words, and first the last step where that grows in another way: a fit through all points hides a bend at the end."""
    (x, y), (x2, y2) = points[-2:]
    over_all, at_the_end = growth(slope), growth(exponent(points[-2:], fixed))
    step = f"{sizes} × {x2 / x:.2g}, cost × {y2 / y:.2g}"
    last = f"last step: {step}" if over_all == at_the_end else f"{at_the_end} in the last step:\n{step}"
    beyond = f"beyond a fixed {float(f'{fixed:.1g}'):g} {unit} or so" if fixed >= 1 else ""
    rows = [over_all, beyond, last] if over_all == at_the_end else [last, f"over all it {over_all}", beyond]
    return "\n".join(row for row in rows if row)


class Drain:
    """One daemon and one drain of so many pods, each as large as a Deployment's."""

    def __init__(self, count: int) -> None:
        from running import DaemonWorld

        class Http2World(DaemonWorld):  # HTTP/2 and TLS are nghttpx's, as kube-apiserver has them
            def __init__(self, **more: Any) -> None:
                super().__init__(**more)
                self.api.server.tls = None

            def __enter__(self) -> "Http2World":
                self.front, port = http2_front(self.folder, self.api.ca, self.api.server.port)
                type(self.api).url = property(lambda api: f"https://127.0.0.1:{port}")
                return super().__enter__()  # type: ignore[return-value]

            def __exit__(self, *unused: object) -> None:
                super().__exit__(*unused)
                self.front.kill()
                self.front.wait()

        self.count, self.world = count, Http2World(token=True)

    def run(self) -> dict[str, float]:
        with self.world as world:
            for i in range(self.count):
                world.pod(f"pod-{i}", grace=5, annotations={"filler/x": "x" * POD_PADDING_BYTES})
            plan = self.plan(world)
            world.start("--log-level", "info")
            pid = world.daemon.pid
            spent, self.peak, self.watching = cpu_msec(pid), 0.0, True
            looker = threading.Thread(target=self.look, args=(pid,), daemon=True)
            looker.start()
            world.imds.spot(300)
            world.must(lambda: world.annotation().get("phase") == "Drained", f"the drain of {self.count} pods", PATIENCE_SEC)
            spent, self.watching = cpu_msec(pid) - spent, False
            looker.join(10)
            asked = [s for s in world.steps("evict") if s.status in (200, 201)]
            if len(asked) != self.count or world.pods():
                raise SystemExit(f"{len(asked)} of {self.count} pods were evicted")
            cordon = next(s for s in world.steps("cordon") if s.status == 200)
            wall = max((s.entry["sent"] for s in asked), default=cordon.entry["sent"]) - cordon.entry["sent"]
        return {"plan": plan, "cpu": spent, "private": self.peak, "wall": wall * 1000}

    def look(self, pid: int) -> None:
        while self.watching:
            self.peak = max(self.peak, memory_mib(pid)[0])
            time.sleep(0.005)

    @staticmethod
    def plan(world: Any) -> float:
        """`drain --dry-run`: reads the pods, prints order and last moments. Milliseconds of processor time."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(world.command("drain", "--dry-run", "--deadline", "2m"), stdin=subprocess.DEVNULL,
                              capture_output=True, env=world.environment(), timeout=120)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != 0:
            raise SystemExit(f"drain --dry-run: {done.returncode} {done.stderr.decode(errors='replace')}")
        return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def drains(sizes: list[int], runs: int, report: Report) -> dict[int, dict[str, float]]:
    """The best of some runs: what disturbs only ever adds."""
    rows = {}
    for count in [0, *sizes]:
        got = [Drain(count).run() for _ in range(runs)]
        rows[count] = {name: min(g[name] for g in got) for name in got[0]}
        for name, unit in (("plan", "ms"), ("cpu", "ms"), ("private", "MiB"), ("wall", "ms")):
            report.line(f"growth_drain_{count}_{name}", rows[count][name], unit)
    return rows


def controllers(opts: argparse.Namespace, sizes: list[int], folder: Path, report: Report) -> dict[int, dict[str, float]]:
    rows = {}
    for nodes in sizes:
        bench = Bench(argparse.Namespace(controller=opts.controller, mode="karpenter", gate=False, idle=1, notices=1000), folder)
        bench.report.line = bench.report.limit = lambda *row: None  # type: ignore[method-assign]
        stream = Stream(folder, nodes, False)
        try:
            bench.lists(stream, "start")
            assert bench.proc
            pid = bench.proc.pid
            row = {"cpu": cpu_msec(pid), "private": memory_mib(pid)[0]}
            spent = cpu_msec(pid)
            bench.storm(stream, "storm")
            row["storm"] = cpu_msec(pid) - spent
        finally:
            if bench.proc:
                bench.proc.kill()
                bench.proc.wait()
            stream.stop()
        rows[nodes] = row
        for name, unit in (("cpu", "ms"), ("private", "MiB"), ("storm", "ms")):
            report.line(f"growth_controller_{nodes}_{name}", row[name], unit)
    return rows


def judge(report: Report, what: str, points: list[tuple[float, float]], fixed: float) -> float:
    slope = exponent(points, fixed)
    report.line(f"exponent_{what.replace(' ', '_')}", slope, "")
    report.limit(f"{what}: grows no faster than linear, exponent at most {MOST}", slope <= MOST)
    return slope


def series(rows: dict[int, dict[str, float]], name: str) -> list[tuple[float, float]]:
    return [(float(size), row[name]) for size, row in rows.items() if size]


def begin(points: list[tuple[float, float]]) -> float:
    (x, y), (x2, y2) = points[0], points[1]
    return max(0.0, y - (y2 - y) / (x2 - x) * x)


def draw_drain(report: Report, rows: dict[int, dict[str, float]], out: Path) -> None:
    lines = []
    for name, title, unit in (("cpu", "drain, CPU", "ms"), ("plan", "drain --dry-run, CPU", "ms"), ("private", "drain, private memory", "MiB")):
        points = series(rows, name)
        large = [p for p in points if p[0] >= FLOOR]
        slope = judge(report, title, large, rows[0][name]) if len(large) > 2 else float("nan")
        lines.append(Series(title, UNITS[unit], points, note(slope, points, rows[0][name], "pods", unit)))
    draw(out / "growth-drain.svg", "Draining a node: cost with the number of its pods", about("pods"), lines)


def draw_controller(report: Report, rows: dict[int, dict[str, float]], out: Path) -> None:
    lines = []
    for name, title, unit in (("cpu", "reading all at start, CPU", "ms"), ("private", "private memory", "MiB")):
        points = series(rows, name)
        slope = judge(report, "controller " + title, points, begin(points))
        lines.append(Series(title, UNITS[unit], points, note(slope, points, begin(points), "nodes", unit)))
    storm = series(rows, "storm")
    slope = judge(report, "controller a thousand notices", storm, 0.0)
    lines.append(Series("a thousand notices, CPU", UNITS["ms"], storm, note(slope, storm, 0.0, "nodes", "ms")))
    draw(out / "growth-controller.svg", "The controller: cost with the number of nodes", about("nodes"), lines)


def main() -> int:
    args = argparse.ArgumentParser(description="how the cost grows")
    args.add_argument("--agent", type=Path, required=True)
    args.add_argument("--controller", type=Path, required=True)
    args.add_argument("--pods", default="10,30,110,250,500,1000,2000")
    args.add_argument("--nodes", default="1000,5000,10000,20000,50000")
    args.add_argument("--runs", type=int, default=3)
    args.add_argument("--out", type=Path, default=Path("."))
    opts = args.parse_args()
    opts.out.mkdir(parents=True, exist_ok=True)
    os.environ["NODECLAIMD"] = str(opts.agent.resolve())
    daemon.PATIENCE_SEC = wire.CALL_SEC = PATIENCE_SEC
    report = Report()
    if opts.pods:
        draw_drain(report, drains([int(n) for n in opts.pods.split(",")], opts.runs, report), opts.out)
    if opts.nodes:
        with tempfile.TemporaryDirectory(prefix="nodeclaimd-growth-") as folder:
            sizes = [int(n) for n in opts.nodes.split(",")]
            draw_controller(report, controllers(opts, sizes, Path(folder), report), opts.out)
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
