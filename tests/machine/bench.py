#!/usr/bin/python3
"""First to kubelet: from the kernel's first second to kubelet's exec, on a cold disk of a given speed, ours beside nodeadm's two units.

One image, once with nodeclaimd's units and once with nodeadm's; by turns; the same user data, in which nodes are named by their instance,
so that neither asks EC2. The disk's blocks are read past the host's cache.

The files phase is the same work of both: from the program's start over user data and facts to the last file of containerd's and of kubelet's.
In neither is what the files are for: nodeadm restarts containerd in its second unit, and nodeclaimd between the two sets of files; the time
from containerd's files until containerd is active is taken out of ours and shown as a part of its own. What ours does more is in it: each
file is synced, and the API server is asked for the node's identity before the first is written.

Gives: `bench`: a line for each boot, medians, ratios and limits; one picture of what each program adds to a boot.
Must not: compare what does not do the same work.
"""

from __future__ import annotations

import argparse
import math
import statistics
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from instances import Instance
from timeline import Row, timeline, when
from world import Tally, World, node_image

SPEEDS = (15_000_000, 125_000_000)  # bytes a second: a volume made from a snapshot; what gp3 has at least
SHAPE = "al2023"
FILES_RATIO, KUBELET_RATIO = 0.5, 0.6
SAMPLE_SEC = 0.1
FOLLOWED = ("nodeclaimd-*", "nodeadm-*", "containerd.service")
UNIT_TIMES = "Id,InactiveExitTimestampMonotonic,ActiveEnterTimestampMonotonic"  # kept beside the console: where a boot waits
KUBELET_SEC = 900.0
OURS, RIVAL = "nodeclaimd", "nodeadm"
# What a boot consists of, in order: each part ends with a row of the time line.
PARTS = {
    OURS: (
        ("kernel and initrd", "systemd"),
        ("services before", "nodeclaimd bootstrap starts"),
        ("its files", "containerd's files written"),
        ("containerd starts", "containerd active"),
        ("its files", "kubelet's files written"),
        ("kubelet starts", "kubelet executed"),
    ),
    RIVAL: (
        ("kernel and initrd", "systemd"),
        ("services before", "nodeadm-config starts"),
        ("its files", "nodeadm-config ends"),
        ("waits for cloud-init", "nodeadm-run starts"),
        ("containerd starts", "containerd active"),
        ("kubelet starts", "kubelet executed"),
    ),
}
COLOURS = {"its files": "#8d7bb8", "waits for cloud-init": "#edae49", "containerd starts": "#66a182", "kubelet starts": "#3a9db0"}  # of what is drawn


def spans(who: str, rows: list[Row]) -> list[tuple[str, float, float]]:
    """(part, begin, end), without gaps."""
    found, begin = [], 0.0
    for part, until in PARTS[who]:
        end = max(when(rows, until), begin)
        found.append((part, begin, end))
        begin = end
    return found


def files_spans(who: str, rows: list[Row]) -> list[tuple[float, float]]:
    return [(begin, end) for part, begin, end in spans(who, rows) if part == "its files"]


@dataclass(frozen=True)
class Boot:
    who: str
    speed: int
    rows: list[Row]
    files_bytes: int
    bytes: int  # until kubelet's exec

    @property
    def kubelet_sec(self) -> float:
        return when(self.rows, "kubelet executed")

    @property
    def own_sec(self) -> float:
        """From the program's start."""
        return self.kubelet_sec - when(self.rows, PARTS[self.who][1][1])

    @property
    def files_sec(self) -> float:
        return sum(end - begin for begin, end in files_spans(self.who, self.rows))


class Race(World):
    rival = ""

    @staticmethod
    def name_of(inst: Instance) -> str:
        return inst.id

    def image(self, opts: argparse.Namespace, shape: str) -> Path:
        return node_image(opts, shape, *([self.rival] if self.rival else []))


class Sampler:
    """What the disk has been read, over time."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.samples: list[tuple[float, int]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(SAMPLE_SEC):
            read = self.world.machine.disk_stats()["rd_bytes"]
            self.samples.append((time.time(), read))

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def until(self, moment: float) -> int:
        return max((read for at, read in self.samples if at <= moment), default=0)


def by_instance(text: bytes) -> bytes:
    return text.replace(b"spec:\n", b"spec:\n  featureGates: {InstanceIdNodeName: true}\n", 1)


def wait_kubelet(world: World) -> None:
    """Seldom asked: to ask costs the machine time."""
    end = time.monotonic() + KUBELET_SEC
    while int(world.guest.run("systemctl", "show", "-P", "ExecMainStartTimestampMonotonic", "kubelet.service").strip() or 0) == 0:
        world.machine.alive()
        failed = world.guest.run("systemctl", "list-units", "--failed", "--plain", "--no-legend", *FOLLOWED).strip()
        if failed:
            raise RuntimeError(f"kubelet will not be executed: {failed}; see {world.machine.console}")
        if time.monotonic() > end:
            raise RuntimeError(f"kubelet was not executed within {KUBELET_SEC:.0f} s; see {world.machine.console}")
        time.sleep(2)


def boot(opts: argparse.Namespace, who: str, speed: int, turn: int) -> Boot:
    with Race(opts, f"{who}-{speed // 1_000_000}-{turn}", shape=SHAPE, user_data=by_instance) as world:
        world.machine.drive = f",cache=none,throttling.bps-read={speed}"
        world.machine.start()
        sampler = Sampler(world)
        world.guest.wait_up(world.machine, KUBELET_SEC)
        wait_kubelet(world)
        sampler.stop()
        rows = timeline(world.guest, None)
        inside, outside = world.guest.uptime()
        (world.folder / "units").write_text(world.guest.run("systemctl", "show", f"--property={UNIT_TIMES}", "*"))
        read = [sampler.until(sec + outside - inside) for span in files_spans(who, rows) for sec in span]
        files = sum(read[1::2]) - sum(read[::2])
        return Boot(who, speed, rows, files, sampler.until(when(rows, "kubelet executed") + outside - inside))


def median(boots: list[Boot], who: str, speed: int, name: str) -> float:
    return statistics.median(getattr(b, name) for b in boots if (b.who, b.speed) == (who, speed))


def picture(boots: list[Boot], path: Path) -> None:
    """What each program adds to a boot: what comes before its start is the same for both. The slower disk is drawn, and the other one told: they
    ran one after the other, so that no difference between them is the disk's alone."""
    bars = []
    speed = min(b.speed for b in boots)
    for who in (RIVAL, OURS):
        mine = [b for b in boots if (b.who, b.speed) == (who, speed)]
        if mine:
            middle = median(boots, who, speed, "own_sec")
            found = min(mine, key=lambda b: abs(b.own_sec - middle))
            parts = [(part, begin, end) for part, begin, end in spans(who, found.rows)[2:]]
            start = parts[0][1]
            seconds = [b.own_sec for b in mine]
            bars.append(Bar(who, [(part, begin - start, end - start) for part, begin, end in parts], min(seconds), middle, max(seconds)))
    here = "; ".join(f"{bar.who} {bar.median:.0f} s{waiting(bar)}" for bar in reversed(bars))
    whole = " and ".join(f"{median(boots, bar.who, speed, 'kubelet_sec'):.0f} s" for bar in reversed(bars))
    disks = [f"Cold disk of {speed // 1_000_000} MB/s"]
    for other in sorted({b.speed for b in boots} - {speed}):
        seconds = " and ".join(f"{median(boots, bar.who, other, 'own_sec'):.1f} s" for bar in reversed(bars))
        disks.append(f"from one of {other // 1_000_000} MB/s, at another time, it took {seconds}")
    path.write_text(drawing(bars, len(mine), "; ".join(disks), f"{here}. From the kernel's start: {whole}."))


@dataclass(frozen=True)
class Bar:
    who: str
    parts: list[tuple[str, float, float]]  # of one boot
    least: float
    median: float
    most: float


def waiting(bar: Bar) -> str:
    sec = sum(end - begin for part, begin, end in bar.parts if part == "waits for cloud-init")
    return f", {sec:.0f} s of it for cloud-init" if sec else ""


def style() -> str:
    def colours(paper: str, ink: str, dim: str, grid: str) -> str:
        return f".paper{{fill:{paper}}}text{{fill:{ink}}}.dim{{fill:{dim};stroke:{paper}}}.grid{{stroke:{grid}}}.axis{{stroke:{ink}}}"

    parts = "".join(f".p{n}{{fill:{colour}}}" for n, colour in enumerate(COLOURS.values()))
    dark = colours("#14191f", "#e4e9ee", "#9aa7b4", "#2c3540")
    return (
        "<style>:root{color-scheme:light dark}text{font:12px system-ui,'Segoe UI','DejaVu Sans',sans-serif}.title{font-size:16px;"
        f"font-weight:600}}.dim{{paint-order:stroke;stroke-width:4px}}{parts}{colours('#fff', '#1c2733', '#56626f', '#e1e6eb')}"
        f"@media(prefers-color-scheme:dark){{{dark}}}text.on{{fill:#14191f}}</style>"
    )


def drawing(bars: list[Bar], boots: int, disks: str, seconds: str) -> str:
    """Seconds from the program's start to the right, for light and dark pages. A bar is a boot with its parts, the text beside it the median of
    all, and below that the least and the most."""
    tick, most = 5, max(bar.most for bar in bars)
    last = tick * math.ceil(most / tick)
    left, top, height, width = 110, 126, 54, 600
    scale, bottom = width / last, top + len(bars) * height
    middle = "mean of both" if boots == 2 else "median"
    title = f"From the program's start to kubelet's: {boots} boots each under QEMU without KVM"
    lines = []
    for sec in range(0, last + 1, tick):
        x = left + sec * scale
        lines.append(f'<path d="M{x:.1f} {top - 8}V{bottom}" class="{"grid" if sec else "axis"}"/>')
        lines.append(f'<text x="{x:.1f}" y="{top - 14}" text-anchor="middle" class="dim">{sec} s</text>')
    for n, bar in enumerate(bars):
        y = top + n * height
        lines.append(f'<text x="{left - 8}" y="{y + 17}" text-anchor="end">{bar.who}</text>')
        for part, begin, until in bar.parts:
            number, x, wide = list(COLOURS).index(part), left + begin * scale, (until - begin) * scale
            lines.append(f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="24" class="p{number}"/>')
            if wide > 7.5 * len(part):
                lines.append(f'<text x="{x + wide / 2:.1f}" y="{y + 17}" text-anchor="middle" class="on">{part}</text>')
        x = left + bar.parts[-1][2] * scale + 8
        lines.append(f'<text x="{x:.1f}" y="{y + 17}">{bar.median:.1f} s</text>')
        lines.append(f'<text x="{x:.1f}" y="{y + 33}" class="dim">{bar.least:.2f} to {bar.most:.2f} s</text>')
    for n, part in enumerate(list(COLOURS)):
        lines.append(f'<rect x="{left + n * 185}" y="{bottom + 10}" width="12" height="12" class="p{n}"/>')
        lines.append(f'<text x="{left + n * 185 + 17}" y="{bottom + 20}">{part}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="880" height="{bottom + 40}" viewBox="0 0 880 {bottom + 40}" role="img">\n'
        f'<title>{title}</title>\n{style()}\n'
        f'<rect width="880" height="{bottom + 40}" class="paper"/>\n'
        f'<text x="20" y="28" class="title">{title}</text>\n'
        f'<text x="20" y="48" class="dim">{seconds}</text>\n'
        f'<text x="20" y="66" class="dim">{disks}.</text>\n'
        f'<text x="20" y="84" class="dim">Processor time counts for some twenty times as much as on EC2. A bar is one boot; beside it the {middle}, and the range.</text>\n'
        + "\n".join(lines)
        + "\n</svg>\n"
    )


def compare(tally: Tally, boots: list[Boot], speed: int) -> None:
    for what, name, unit, limit in (
        ("kernel -> kubelet executed", "kubelet_sec", "s", KUBELET_RATIO),
        ("the program's start -> kubelet executed", "own_sec", "s", 0.0),
        ("files phase", "files_sec", "s", FILES_RATIO if speed == min(SPEEDS) else 0.0),
        ("bytes read until kubelet", "bytes", "B", 0.0),
        ("bytes read in the files phase", "files_bytes", "B", 0.0),
    ):
        ours, rival = (median(boots, who, speed, name) for who in (OURS, RIVAL))
        tally.figure(f"{speed // 1_000_000} MB/s, {what}: {OURS}", ours, unit)
        tally.figure(f"{speed // 1_000_000} MB/s, {what}: {RIVAL}", rival, unit)
        ratio = ours / rival if rival else 0.0
        tally.figure(f"{speed // 1_000_000} MB/s, {what}: of {RIVAL}'s", ratio, "")
        if limit:
            tally.check(f"... at most {limit}", 0 < ratio <= limit, f"{ratio:.2f}")


def bench(opts: argparse.Namespace, tally: Tally, rival: Optional[str]) -> None:
    boots: list[Boot] = []
    for speed in SPEEDS:
        tally.begin(f"a disk of {speed // 1_000_000} MB/s")
        for turn in range(opts.runs):
            for who in (OURS, RIVAL) if rival else (OURS,):
                Race.rival = rival if rival and who == RIVAL else ""
                found = boot(opts, who, speed, turn)
                boots.append(found)
                print(
                    f"         {who:<11} kubelet {found.kubelet_sec:6.1f} s, {found.bytes / 1e6:6.1f} MB; "
                    f"files {found.files_sec:6.2f} s, {found.files_bytes / 1e6:5.1f} MB",
                    flush=True,
                )
                for part, begin, end in spans(who, found.rows):
                    print(f"           {begin:8.2f} to {end:7.2f} s: {end - begin:6.2f} s  {part}", flush=True)
        if rival:
            compare(tally, boots, speed)
    picture(boots, opts.out)
    tally.check("every boot came to kubelet", all(b.kubelet_sec > 0 for b in boots))
