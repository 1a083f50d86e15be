"""What went over the wire, and what can be told from it.

Knows: nothing of protocols; an entry is a dict with `recv` and `sent` in seconds of the monotonic clock.
Gives: `Log`, and `round_trips`.
Must not: interpret paths.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any, Iterable, Optional


class Log:
    """The requests, in memory and as JSON lines in a file when one is given. Whoever holds `lock` while a request is carried out
    shows it only when it is done, with its status."""

    def __init__(self, path: Optional[Path] = None) -> None:
        self.entries: list[dict[str, Any]] = []
        self._file = open(path, "a", encoding="utf-8", buffering=1) if path else None
        self.lock = threading.RLock()

    def add(self, entry: dict[str, Any]) -> None:
        with self.lock:
            entry["seq"] = len(self.entries)
            self.entries.append(entry)

    def done(self, entry: dict[str, Any]) -> None:
        """The answer is on its way, or there will be none: nothing changes in the entry any more."""
        if self._file:
            self._file.write(json.dumps(entry, sort_keys=True) + "\n")

    def snapshot(self) -> list[dict[str, Any]]:
        with self.lock:
            return list(self.entries)

    def clear(self) -> None:
        with self.lock:
            self.entries.clear()

    def close(self) -> None:
        if self._file:
            self._file.close()
            self._file = None


def round_trips(entries: Iterable[dict[str, Any]]) -> int:
    """The longest chain of requests of which each was sent after the answer to the one before it."""
    rows = sorted(entries, key=lambda e: e["recv"])
    depth: list[int] = []
    for i, row in enumerate(rows):
        before = [depth[j] for j in range(i) if 0 < rows[j]["sent"] <= row["recv"]]
        depth.append(1 + max(before, default=0))
    return max(depth, default=0)
