#!/usr/bin/python3
"""The fault matrix: every external operation, every way in which it can fail, in every phase of the programs' lives.

    matrix.py --agent PATH [--controller PATH] [--phase NAME] [--only SUBSTRING] [--stride K] [--jobs N] [--list]
              [--patience X] [--slowest N]

Each cell is generated from the tables of operations.py and ways.py; what is promised for it follows from promises.py. A phase is
a `Phase` of cells.py: MODULES names the modules that have some. The phases are run one after the other; then what failed is run
once more by itself (cells.py), and that result counts. The last line is "N passed, N failed".
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent / "integration", HERE.parent / "fakes"):
    sys.path.insert(0, str(folder))

# Each has PHASES, of these names, and prepare(). Some have to look at a program's life before they know their rows.
MODULES = {
    "phase_bootstrap": ("bootstrap", "bootstrap-lasting"),
    "phase_daemon": ("run", "drain"),
    "phase_outage": ("drain-lasting",),
    "phase_controller": ("controller", "controller-alone"),
    "phase_calls": ("bootstrap, calls",),
    "phase_calls_run": ("drain, calls",),
    "phase_calls_controller": ("controller, calls",),
}


def options() -> argparse.Namespace:
    args = argparse.ArgumentParser(description="every operation, every fault, every phase")
    args.add_argument("--agent", type=Path, required=True, help="the nodeclaimd to test")
    args.add_argument("--controller", type=Path, help="the nodeclaim-controller; default: the one beside the agent")
    args.add_argument("--phase", action="append", help="only this phase; may be repeated")
    args.add_argument("--only", default="", help="only cells with this in PHASE/OPERATION/FAULT")
    args.add_argument("--stride", type=int, default=1, help="each K-th cell only, of every row and column its share")
    args.add_argument("--jobs", type=int, default=8, help="cells at a time; they wait more than they work")
    args.add_argument("--list", action="store_true", help="the names of the cells")
    args.add_argument("--patience", type=float, default=1.0, help="factor on time limits")
    args.add_argument("--words", type=int, default=1500, help="so much is printed of a cell that failed")
    args.add_argument("--slowest", type=int, default=0, help="name the cells that took longest")
    return args.parse_args()


def main() -> int:
    opts = options()
    os.environ["NODECLAIMD"] = str(opts.agent.resolve())
    controller = opts.controller or opts.agent.parent / "nodeclaim-controller"
    os.environ["NODECLAIM_CONTROLLER"] = str(controller.resolve())
    os.environ["NC_PATIENCE"] = str(opts.patience)
    import cells

    asked = set(opts.phase or [name for names in MODULES.values() for name in names])
    wanted = wanted_cells(opts, asked)
    if opts.list:
        print("\n".join(c.name for _, _, found in wanted for c in found))
        return 0
    for module in dict.fromkeys(module for module, _, _ in wanted):
        module.prepare()
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # a peer that goes is what this is about
    start = time.monotonic()
    done: dict[cells.Cell, cells.Outcome] = {}
    spent = []
    for _, phase, found in wanted:
        before = time.monotonic()
        done |= cells.run_phase(phase, found, max(1, opts.jobs), lambda o: tell(o, opts.words))
        work = sum(done[c].seconds for c in found)
        spent.append(f"{phase.name}: {len(found)} cells in {time.monotonic() - before:.0f} s, one after the other {work:.0f} s")
        print(spent[-1], flush=True)
    again = cells.once_more(done, lambda o: tell(o, opts.words))
    for _, phase, _ in wanted:
        cells.show(phase, done)
    return sum_up(opts, done, spent, again, time.monotonic() - start)


def wanted_cells(opts: argparse.Namespace, asked: set[str]) -> list[tuple[Any, Any, list[Any]]]:
    """(module, phase, its cells) of all phases that have some."""
    import cells

    rows = []
    for name, names in MODULES.items():
        if not asked & set(names):
            continue
        module = importlib.import_module(name)
        for phase in (p for p in module.PHASES if p.name in asked):
            found = [c for c in cells.all_cells(phase) if opts.only in c.name]
            rows.append((module, phase, cells.sample(phase, found, max(1, opts.stride))))
    return [row for row in rows if row[2]]


def tell(outcome: Any, words: int) -> None:
    if outcome.is_good:
        print(f"    passed ({outcome.letter})", flush=True)
    else:
        print(f"FAILED {outcome.cell.name}\n    {outcome.reason.strip()[:words]}", flush=True)


def sum_up(opts: argparse.Namespace, done: dict[Any, Any], spent: list[str], again: int, seconds: float) -> int:
    import cells

    print("\n" + "\n".join(f"{letter}  {words}" for letter, words in cells.LETTERS.items()) + "\n")
    for outcome in sorted(done.values(), key=lambda o: -o.seconds)[: opts.slowest]:
        print(f"{outcome.seconds:6.1f} s  {outcome.cell.name}")
    failed = [o for o in done.values() if not o.is_good]
    for outcome in failed:
        print(f"failed: {outcome.cell.name}: {(outcome.reason.strip().splitlines() or [''])[0][:160]}")
    print("\n".join(spent))
    print(f"{len(done)} cells in {seconds:.0f} s; {again} were run once more, {len(failed)} failed")
    print(f"{len(done) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or not done else 0


if __name__ == "__main__":
    sys.exit(main())
