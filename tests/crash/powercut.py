"""What a file system may have kept when the power fails, told from the calls that were made.

Knows: data is on disk once its file was synced; a name, a rename, a removal once its folder was. A folder that was made is on
disk with the first thing in it that is: so do ext4, XFS and btrfs.
Gives: `cut`, which turns the disk of a killed run into what is left, and `signature`, by which equal remains are told.
Must not: care about /run and /dev, which no power cut survives; they are emptied by the reboot.

The kinds: `least`: nothing that was not synced. `names`: every name and rename, but data only where it was synced, else the file
is empty. `mixed`: of each name and of each file's data the one or the other, by chance. `kept`: all of it, as at a reboot.

The content of a file that was replaced since is known only if it was there before the run: for others the new name stands.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from shimlog import Call

KINDS = ("least", "names", "mixed", "kept")
TOPS = ("etc/", "var/lib/")
Before = dict[str, Optional[tuple[bytes, int]]]  # path -> content and mode, None for a folder


def inside(call: Call) -> list[str]:
    """Its paths below the root; [] where it is about something else."""
    out = []
    for path in call.what.split(" -> "):
        _, found, rest = path.partition("/root/")
        if not found:
            return []
        out.append(rest)
    return out


def is_on_disk(call: Call) -> bool:
    paths = inside(call)
    return bool(paths) and paths[-1].startswith(TOPS)


@dataclass(eq=False)
class File:
    """`origin`: the path that it had before the run; None: made in it."""

    origin: Optional[str]
    is_synced: bool


class Disk:
    def __init__(self, before: Before) -> None:
        files = {p: File(p, True) for p, what in before.items() if what is not None}
        self.now: dict[str, File] = dict(files)
        self.kept: dict[str, File] = dict(files)
        self.folders = {p for p, what in before.items() if what is None}
        self.kept_folders = set(self.folders)

    def take(self, call: Call) -> None:
        if not call.was_made or not is_on_disk(call):
            return
        paths = inside(call)
        path = paths[0]
        if call.name == "open" and ("new" in call.more or path not in self.now):
            self.now[path] = File(None, False)
        elif call.name in ("write", "truncate") and path in self.now:
            self.now[path].is_synced = False
        elif call.name == "rename" and path in self.now:
            self.now[paths[1]] = self.now.pop(path)
        elif call.name == "unlink":
            self.now.pop(path, None)
        elif call.name == "mkdir":
            self.folders.add(path)
        elif call.name == "fsync":
            self._sync(path)

    def _sync(self, path: str) -> None:
        if path in self.now:
            self.now[path].is_synced = True
            return
        for name in {p for p in (*self.now, *self.kept) if str(Path(p).parent) == path}:
            if name in self.now:
                self.kept[name] = self.now[name]
            else:
                self.kept.pop(name)
        self._keep_folder(path)

    def _keep_folder(self, path: str) -> None:
        self.kept_folders.update(str(p) for p in (Path(path), *Path(path).parents) if str(p) != ".")

    def left(self, kind: str, seed: int) -> dict[str, tuple[File, bool]]:
        """path -> the file, and whether its data is there."""
        rng = random.Random(seed)
        out: dict[str, tuple[File, bool]] = {}
        for path in sorted({*self.now, *self.kept}):
            is_new = kind in ("names", "kept") or (kind == "mixed" and rng.random() < 0.5)
            file = (self.now if is_new else self.kept).get(path)
            if file is not None and file not in self.now.values() and file.origin is None:
                file = self.now.get(path)  # what it had is gone
            has_data = file is not None and (
                file.is_synced or kind == "kept" or (kind == "mixed" and rng.random() < 0.5)
            )
            if file is not None:
                out[path] = (file, has_data)
        return out


def disk_of(before: Before, calls: list[Call]) -> Disk:
    disk = Disk({p: what for p, what in before.items() if (p + "/").startswith(TOPS)})
    for call in calls:
        disk.take(call)
    return disk


def signature(before: Before, calls: list[Call], kind: str, seed: int) -> str:
    left = disk_of(before, calls).left(kind, seed)
    names = {id(f): i for i, (f, _) in enumerate(left.values())}
    return repr([(p.rpartition(".")[0], f.origin, names[id(f)], has) for p, (f, has) in left.items()])


def cut(root: Path, before: Before, calls: list[Call], kind: str, seed: int) -> None:
    disk = disk_of(before, calls)
    places = {id(f): p for p, f in disk.now.items()}
    found: Before = {}
    for path, (file, has_data) in disk.left(kind, seed).items():
        if file.origin is not None and file not in disk.now.values():
            found[path] = before[file.origin]
        else:
            at = root / places[id(file)]
            found[path] = (at.read_bytes() if has_data else b"", at.stat().st_mode & 0o7777)
    for path in disk.now:
        (root / path).unlink()
    if kind in ("least", "mixed"):
        for folder in sorted(disk.folders - disk.kept_folders, reverse=True):
            shutil.rmtree(root / folder, ignore_errors=True)
    for path, what in found.items():
        assert what is not None
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(what[0])
        (root / path).chmod(what[1])
