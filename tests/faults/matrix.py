#!/usr/bin/python3
"""The fault matrix: every external operation, every way in which it can fail, in every phase of the programs' lives.

    matrix.py --agent PATH [--controller PATH] [--phase NAME] [--only SUBSTRING] [--jobs N] [--list] [--patience X] [--slowest N]

Each cell is generated from the tables of operations.py and ways.py; what is promised for it follows from promises.py. A phase is
a `Phase` of cells.py: PHASES names the modules that have some. The last line is "N passed, N failed".
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent / "integration", HERE.parent / "fakes"):
    sys.path.insert(0, str(folder))

# Each has PHASES, of these names, and prepare(). Some have to look at a program's life before they know their rows.
MODULES = {
    "phase_bootstrap": ("bootstrap", "bootstrap-lasting"),
    "phase_daemon": ("run", "drain"),
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
    modules = [importlib.import_module(name) for name, names in MODULES.items() if asked & set(names)]
    phases = [p for m in modules for p in m.PHASES if p.name in asked]
    wanted = [c for c in cells.all_cells(phases) if opts.only in c.name]
    if opts.list:
        print("\n".join(c.name for c in wanted))
        return 0
    used = {c.phase for c in wanted}
    for module in modules:
        if any(p.name in used for p in module.PHASES):
            module.prepare()
    start = time.monotonic()

    def tell(outcome: cells.Outcome) -> None:
        if outcome.is_good:
            print(f"    {outcome.letter} this time", flush=True)
        else:
            print(f"FAILED {outcome.cell.name}\n    {outcome.reason.strip()[: opts.words]}", flush=True)

    done = cells.run_all(phases, wanted, max(1, opts.jobs), tell)
    for phase in phases:
        cells.show(phase, done)
    print("\n" + "\n".join(f"{letter}  {words}" for letter, words in cells.LETTERS.items()))
    for outcome in sorted(done.values(), key=lambda o: -o.seconds)[: opts.slowest]:
        print(f"{outcome.seconds:6.1f} s  {outcome.cell.name}")
    failed = [o for o in done.values() if not o.is_good]
    for outcome in failed:
        print(f"failed: {outcome.cell.name}: {(outcome.reason.strip().splitlines() or [''])[0][:160]}")
    print(f"{len(done)} cells in {time.monotonic() - start:.0f} s")
    print(f"{len(done) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or not done else 0


if __name__ == "__main__":
    sys.exit(main())
