#!/usr/bin/python3
"""First to kubelet: from the kernel's first second to kubelet's exec, on a cold disk of a given speed, ours beside nodeadm's two units.

One image, once with nodeclaimd's units and once with nodeadm's; by turns; the same user data, in which nodes are named by their instance,
so that neither asks EC2. The disk's blocks are read past the host's cache.

Gives: `bench`: a line for each boot, medians, ratios and limits; one picture of where the time goes.
Must not: compare what does not do the same work.
"""

from __future__ import annotations

import argparse
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
KUBELET_SEC = 900.0
# Which rows of the time line begin and end the files phase of each, and the parts that the picture shows, in order.
OURS, RIVAL = "nodeclaimd", "nodeadm"
FILES = {
    OURS: ("nodeclaimd bootstrap starts", "kubelet's files written"),
    RIVAL: ("nodeadm-config starts", "nodeadm-config ends"),
}
PARTS = {
    OURS: (("kernel and initrd", "systemd"), ("services before", FILES[OURS][0]), ("files", FILES[OURS][1]), ("start", "kubelet executed")),
    RIVAL: (
        ("kernel and initrd", "systemd"),
        ("services before", FILES[RIVAL][0]),
        ("files", FILES[RIVAL][1]),
        ("cloud-init", "nodeadm-run starts"),
        ("start", "kubelet executed"),
    ),
}
COLOURS = {"kernel and initrd": "#9aa5b1", "services before": "#c3cfd9", "files": "#d1495b", "cloud-init": "#edae49", "start": "#00798c"}


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
    def files_sec(self) -> float:
        begin, end = (when(self.rows, name) for name in FILES[self.who])
        return end - begin


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
        at = {what: sec + outside - inside for sec, what in rows}
        begin, end = (sampler.until(at.get(name, 0.0)) for name in FILES[who])
        return Boot(who, speed, rows, end - begin, sampler.until(at["kubelet executed"]))


def median(boots: list[Boot], who: str, speed: int, name: str) -> float:
    return statistics.median(getattr(b, name) for b in boots if (b.who, b.speed) == (who, speed))


def picture(boots: list[Boot], path: Path) -> None:
    """A bar for each program at each speed, of its median boot."""
    bars = []
    for speed in sorted({b.speed for b in boots}):
        for who in (OURS, RIVAL):
            mine = sorted((b for b in boots if (b.who, b.speed) == (who, speed)), key=lambda b: b.kubelet_sec)
            if mine:
                bars.append((f"{who}, {speed // 1_000_000} MB/s", mine[(len(mine) - 1) // 2]))
    longest = max(b.kubelet_sec for _, b in bars)
    scale, left, height = 640 / longest, 170, 34
    lines = []
    for n, (label, found) in enumerate(bars):
        top, x = 40 + n * height, 0.0
        lines.append(f'<text x="{left - 8}" y="{top + 16}" text-anchor="end">{label}</text>')
        for part, until in PARTS[found.who]:
            end = max(when(found.rows, until), x)
            lines.append(
                f'<rect x="{left + x * scale:.1f}" y="{top}" width="{(end - x) * scale:.1f}" height="22" fill="{COLOURS[part]}"/>'
            )
            x = end
        lines.append(f'<text x="{left + x * scale + 6:.1f}" y="{top + 16}">{x:.1f} s</text>')
    for n, (part, colour) in enumerate(COLOURS.items()):
        lines.append(f'<rect x="{left + n * 130}" y="{52 + len(bars) * height}" width="12" height="12" fill="{colour}"/>')
        lines.append(f'<text x="{left + n * 130 + 17}" y="{62 + len(bars) * height}">{part}</text>')
    title = "From the kernel to kubelet: a cold disk, an emulated processor"
    size = 80 + len(bars) * height
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="880" height="{size}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="880" height="{size}" fill="white"/>\n<text x="{left}" y="22" font-size="14">{title}</text>\n'
        + "\n".join(lines)
        + "\n</svg>\n"
    )


def compare(tally: Tally, boots: list[Boot], speed: int) -> None:
    for what, name, unit, limit in (
        ("kernel -> kubelet executed", "kubelet_sec", "s", KUBELET_RATIO),
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
                for part, until in PARTS[who]:
                    print(f"           {when(found.rows, until):8.2f} s  {part} over", flush=True)
        if rival:
            compare(tally, boots, speed)
    picture(boots, opts.out)
    tally.check("every boot came to kubelet", all(b.kubelet_sec > 0 for b in boots))
