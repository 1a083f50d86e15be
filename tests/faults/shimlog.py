"""The shim's log: the calls of one process, those that changed the world or all.

Knows: the fields of a line (shim.c).
Gives: `Call`, `read_log`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Call:
    number: int  # among those that are counted; 0 = not counted
    kind: str
    name: str
    what: str
    more: str
    result: str
    how: str

    @property
    def failed(self) -> bool:
        return self.result.startswith("-")

    @property
    def was_made(self) -> bool:
        return not self.failed and self.how != "before"

    def __str__(self) -> str:
        return f"{self.name} {' -> '.join(p.rpartition('/')[2] for p in self.what.split(' -> '))}"


def read_log(path: Path) -> list[Call]:
    """[] where there is none: nothing was called yet."""
    if not path.exists():
        return []
    out = []
    for line in path.read_text(errors="replace").splitlines():
        parts = line.split("\t")
        if len(parts) == 8:
            out.append(Call(int(parts[1]), *parts[2:]))
    return out
