"""A place for programs of which nothing is cached when they start.

Knows: that the read-ahead of a disk decides what is read from it as much as the program does. So the place is a file system
       of its own, on a loop device whose read-ahead is set. KERNEL is what the kernel gives a disk until somebody says
       otherwise (VM_READAHEAD_PAGES); WHOLE is more than any of our libraries has: each is read from end to end as soon as
       one page of it is.
Gives: `disk`, for a `with`: a `LoopDisk`, or a `Folder` where there is no loop device. `place`: copies of a program.
Must not: leave a mount, a device or a file behind, whatever happened in between.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Iterator, Optional, Union

KERNEL, WHOLE = 128, 8192  # KiB
UNKNOWN = 0
ROOM = 256 << 20  # bytes, of which the disk holds what is copied


class Failed(Exception):
    """A command did, and what it said."""


def run(*command: Union[str, Path], **more: str) -> str:
    words = [str(c) for c in command]
    env = {**os.environ, "LC_ALL": "C", **more}
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, env=env)
    except (OSError, subprocess.SubprocessError) as exc:
        raise Failed(str(exc)) from exc
    if done.returncode != 0:
        raise Failed(f"{words[0]}: {done.stderr.strip() or done.returncode}")
    return done.stdout


class Folder:
    """The read-ahead is what the disk has."""

    read_aheads = (UNKNOWN,)

    def __init__(self, at: Path) -> None:
        self.at = at

    @contextlib.contextmanager
    def cold(self, read_ahead: int) -> Iterator[None]:
        run("sync", "--file-system", self.at)
        for path in self.at.rglob("*"):
            if path.is_file():
                fd = os.open(path, os.O_RDONLY)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)
        yield


class LoopDisk:
    """Mounted anew, so that nothing of it is cached, its folders included."""

    read_aheads = (KERNEL, WHOLE)

    def __init__(self, device: str, at: Path) -> None:
        self.device, self.at = device, at

    @contextlib.contextmanager
    def cold(self, read_ahead: int) -> Iterator[None]:
        run("blockdev", "--setra", str(read_ahead * 2), self.device)  # in sectors
        run("mount", self.device, self.at)
        try:
            yield
        finally:
            try:
                run("umount", self.at)
            except Failed:
                run("umount", "--lazy", self.at)  # something runs on: the device is given back when that ends
                raise


Disk = Union[LoopDisk, Folder]


@contextlib.contextmanager
def loop_disk(folder: Path) -> Iterator[LoopDisk]:
    image, at = folder / "image", folder / "disk"
    at.mkdir()
    image.touch()
    os.truncate(image, ROOM)
    device = run("losetup", "--find", "--show", image).strip()
    try:
        run("mkfs.ext4", "-q", device)
        yield LoopDisk(device, at)
    finally:
        run("losetup", "--detach", device)


@contextlib.contextmanager
def disk(folder: Path) -> Iterator[Disk]:
    with contextlib.ExitStack() as stack:
        made = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cold-", dir=folder)))
        found: Disk
        try:
            found = stack.enter_context(loop_disk(made))
            with found.cold(KERNEL):
                pass
        except Failed as exc:
            print(f"  no loop device ({exc}): measured on the disk below {folder}, with the read-ahead that it has")
            (made / "copies").mkdir()
            found = Folder(made / "copies")
        yield found


def mapped(listed: str) -> list[Path]:
    """The files of "NAME => FILE (ADDRESS)" and "FILE (ADDRESS)"; what the kernel maps by itself has none."""
    files = [line.split("=>")[-1].split()[0] for line in listed.splitlines()]
    return [Path(f) for f in files if "/" in f]


def place(program: Path, folder: Path, stripped: bool, libraries: Optional[Path] = None) -> list[str]:
    """Copies a program with its libraries, those in the folder `libraries` before the machine's; how that copy is started."""
    folder.mkdir()
    copy = folder / program.name
    shutil.copy(program, copy)
    if stripped:
        run("strip", copy)
    try:
        listed = run("ldd", program, **({"LD_LIBRARY_PATH": str(libraries)} if libraries else {}))
    except Failed:
        return [str(copy)]  # static
    needed = mapped(listed)
    for path in needed:
        shutil.copy(path.resolve(), folder / path.name)
    loader = next(p.name for p in needed if p.name.startswith("ld-linux"))
    command = [str(folder / loader), "--library-path", str(folder)]
    for path in mapped(run(*command, "--list", copy)):
        if path.parent != folder:
            raise Failed(f"{copy} would take {path}, which may be cached")
    return [*command, str(copy)]
