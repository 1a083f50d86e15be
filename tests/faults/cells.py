"""A matrix of cells, each a row (what is done), a column (how it fails) and a phase (when), and how they are run and shown.

Knows: processes, time, letters. Nothing of HTTP, system calls or the programs.
Gives: `Phase`, `Cell`, `Outcome`, `Broken`, `sample()`, `run_phase()`, `once_more()`, `show()`.
Must not: know what is promised; the driver of a phase does.

A driver is called in a process of its own pool with the cell, and returns a letter of LETTERS; or it raises `Broken` (or
AssertionError) with the promise that was not kept. A cell that failed beside others is run once more when all have ended, by
itself: time limits are about the program under test, not about what else a small machine does at that moment. Both outcomes are
told; the second counts. Where more than MOST_AGAIN have failed it was not the machine, and none is run again.
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import multiprocessing
import signal
import time
import traceback
from dataclasses import dataclass
from typing import Callable, Optional

LETTERS = {
    "R": "recovered: the fault passed and all ended well",
    "W": "went on without it, and said so where somebody would miss it",
    "L": "late: could not be done before the fault went; said so, lost nothing, did it then",
    "T": "transient: tried until the deadline, then exit code 1",
    "C": "config: refused, exit code 3",
    "A": "auth: refused, exit code 4",
    "P": "protocol: refused, exit code 5",
    "H": "host: refused, exit code 6",
    "X": "the promise was not kept",
}


class Broken(AssertionError):
    """A promise that was not kept."""


@dataclass(frozen=True)
class Cell:
    phase: str
    row: str
    column: str

    @property
    def name(self) -> str:
        return f"{self.phase}/{self.row}/{self.column}"


@dataclass
class Outcome:
    cell: Cell
    letter: str
    seconds: float
    reason: str = ""

    @property
    def is_good(self) -> bool:
        return self.letter != "X"


@dataclass
class Phase:
    """`drive` runs one cell. `has`: whether a cell exists (a TLS fault needs TLS). `check`, if given, runs once before all
    cells in the pool as a cell of its own (is the table complete?) and raises where it is not."""

    name: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    drive: Callable[[Cell], str]
    has: Callable[[str, str], bool] = lambda row, column: True
    check: Optional[Callable[[], None]] = None
    weight: Callable[[str, str], float] = lambda row, column: 1.0  # of a cell: the heavy ones go first

    def cells(self) -> list[Cell]:
        return [Cell(self.name, r, c) for r in self.rows for c in self.columns if self.has(r, c)]


MOST_AGAIN = 20
CHECK = "every request of an undisturbed life is in the table"
_phases: dict[str, Phase] = {}


def with_parent() -> None:
    """A worker ends with the process that forked it, however that ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def run_cell(cell: Cell) -> Outcome:
    """In a worker."""
    start = time.monotonic()
    phase = _phases[cell.phase]
    try:
        if cell.row == CHECK:
            assert phase.check is not None
            phase.check()
            letter = "R"
        else:
            letter = phase.drive(cell)
        return Outcome(cell, letter, time.monotonic() - start)
    except AssertionError as exc:
        return Outcome(cell, "X", time.monotonic() - start, str(exc) or traceback.format_exc())
    except Exception:  # a bug of the test is a failed cell too
        return Outcome(cell, "X", time.monotonic() - start, traceback.format_exc())


def all_cells(phase: Phase) -> list[Cell]:
    """The check first, then heavy before light."""
    rows = sorted(phase.cells(), key=lambda c: -phase.weight(c.row, c.column))
    return ([Cell(phase.name, CHECK, "")] if phase.check else []) + rows


def sample(phase: Phase, cells: list[Cell], stride: int) -> list[Cell]:
    """Each K-th of them: diagonals of the matrix, so that every row and every column has its share. The check is always one."""
    at, row = {c: i for i, c in enumerate(phase.cells())}, {r: i for i, r in enumerate(phase.rows)}
    return [c for c in cells if c.row == CHECK or (at[c] + row[c.row]) % stride == 0]


def pool_of(jobs: int) -> concurrent.futures.ProcessPoolExecutor:
    return concurrent.futures.ProcessPoolExecutor(jobs, multiprocessing.get_context("fork"), with_parent)


def run_phase(phase: Phase, cells: list[Cell], jobs: int, tell: Callable[[Outcome], None]) -> dict[Cell, Outcome]:
    """Forks `jobs` workers after everything that is shared was made. Tells what failed."""
    _phases[phase.name] = phase
    done: dict[Cell, Outcome] = {}
    with pool_of(jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(run_cell, c) for c in cells]):
            outcome = future.result()
            done[outcome.cell] = outcome
            if not outcome.is_good:
                tell(outcome)
    return done


def once_more(done: dict[Cell, Outcome], tell: Callable[[Outcome], None]) -> int:
    """What failed, with nothing beside it; that result replaces the first. How many were run."""
    again = [o.cell for o in done.values() if not o.is_good]
    if len(again) > MOST_AGAIN:
        print(f"{len(again)} cells failed, more than {MOST_AGAIN}: none is run once more", flush=True)
        return 0
    if len(done) > 1 and again:
        with pool_of(1) as pool:
            for cell in again:
                print(f"{cell.name}: once more, by itself", flush=True)
                done[cell] = pool.submit(run_cell, cell).result()
                tell(done[cell])
        return len(again)
    return 0


def show(phase: Phase, done: dict[Cell, Outcome]) -> None:
    """The matrix of one phase: a letter a cell, '.' where there is none."""
    seen = [o for o in done.values() if o.cell.phase == phase.name]
    if not seen:
        return
    columns = [c for c in phase.columns if any(o.cell.column == c for o in seen)]
    rows = [r for r in phase.rows if any(o.cell.row == r for o in seen)]
    width = max([len(r) for r in rows], default=0) + 2
    tall = max([len(c) for c in columns], default=0)
    print(f"\n== {phase.name}")
    for line in range(tall):
        print(" " * width + "".join(c.rjust(tall)[line] + " " for c in columns).rstrip())
    for row in rows:
        found = [done.get(Cell(phase.name, row, c)) for c in columns]
        print(row.ljust(width) + " ".join(o.letter if o else "." for o in found))
    letters = [o.letter for o in seen if o.cell.row != CHECK]
    counts = ", ".join(f"{letters.count(x)} {x}" for x in LETTERS if x in letters)
    print(f"{phase.name}: {len(letters)} cells ({counts}), longest {max(o.seconds for o in seen):.1f} s")
