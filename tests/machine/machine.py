#!/usr/bin/python3
"""Virtual machines that become nodes, live and end: each scene one story, with its time line.

Runs in a network namespace of its own (tests/machine/run sees to it): 169.254.169.254 and the taps are there.

    machine.py --image DIR --program DESTDIR --binaries DIR --work DIR [--only SCENE]...      machine.py --list
    machine.py … --bench --out FILE.svg [--rival COMMAND-OR-FOLDER] [--runs N]
"""

from __future__ import annotations

import argparse
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
for folder in ("boot", "fakes"):
    sys.path.insert(0, str(HERE.parent / folder))

from bench import bench  # noqa: E402
from scenes import SCENES  # noqa: E402
from world import Tally  # noqa: E402


def main() -> int:
    args = argparse.ArgumentParser(description="virtual machines that become nodes")
    args.add_argument("--list", action="store_true")
    for name in ("image", "program", "binaries", "work", "package"):
        args.add_argument(f"--{name}", type=Path)
    args.add_argument("--bench", action="store_true")
    args.add_argument("--rival", help="nodeadm's program, or a folder to lay over the image")
    args.add_argument("--runs", type=int, default=3, help="boots of each at each speed")
    args.add_argument("--out", type=Path, help="where the picture goes")
    args.add_argument("--only", action="append", choices=list(SCENES))
    opts = args.parse_args()
    if opts.list:
        for name, scene in SCENES.items():
            print(f"{name:<14} {(scene.__doc__ or '').strip().splitlines()[0]}")
        return 0
    tally = Tally()
    if opts.bench:
        bench(opts, tally, opts.rival)
        return tally.end()
    for name, scene in SCENES.items():
        if name in (opts.only or [name]) and (name == "package") == bool(opts.package):
            tally.begin(name)
            try:
                scene(opts, tally)
            except Exception:  # noqa: B902: a scene that breaks off has failed; the others are still told
                traceback.print_exc()
                tally.check("the scene came to its end", False)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
