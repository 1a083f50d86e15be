#!/usr/bin/python3
"""Does the shim see what strace sees? A call that changes the world and is not in its log would be in no cell of the matrix.

    NODECLAIMD=PROGRAM test_shim.py          needs strace; the last line is "N passed, N failed"
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent / "integration", HERE.parent / "fakes"):
    sys.path.insert(0, str(folder))

from calling import shimmed
from harness import World
from shimlog import read_log

# As strace calls them, by the shim's name.
NAMES = {
    "write": "write|pwrite64|writev|pwritev",
    "fsync": "fsync|fdatasync",
    "rename": "rename|renameat|renameat2",
    "unlink": "unlink|unlinkat|rmdir",
    "mkdir": "mkdir|mkdirat",
    "chmod": "chmod|fchmod|fchmodat|fchmodat2",
    "chown": "chown|fchown|lchown|fchownat",
    "truncate": "truncate|ftruncate|fallocate",
    "symlink": "symlink|symlinkat",
    "link": "link|linkat",
    "open": "open|openat|creat",
    "send": "sendto|sendmsg|sendmmsg",
}
SYSCALLS = ",".join("?" + name for names in NAMES.values() for name in names.split("|"))


def seen_by_strace(text: str, log: Path) -> dict[str, int]:
    """Calls that change the world: not what is only opened to be read, said on stdout and stderr, or the shim's own."""
    seen = dict.fromkeys(NAMES, 0)
    for line in text.splitlines():
        found = re.match(r"\d+ +(\w+)\((.*)", line)
        if not found or str(log) in line:
            continue
        call, rest = found[1], found[2]
        name = next((n for n, calls in NAMES.items() if call in calls.split("|")), "")
        if name == "open" and not re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC)", rest):
            continue
        if name == "write" and not re.match(r"\d+</", rest) or re.match(r"[12]<", rest) or "NETLINK" in rest or "/proc/" in rest:
            continue
        seen[name] = seen.get(name, 0) + 1
    return seen


def main() -> int:
    with World() as world:
        log, trace = world.folder / "calls", world.folder / "trace"
        env = [f"-E{name}={value}" for name, value in shimmed(log).items()]
        command = ["strace", "-f", "-y", "-o", str(trace), "-e", f"trace={SYSCALLS}", *env]
        done = subprocess.run([*command, *world.command("bootstrap", "--skip", "start")], env=world.environment(), capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr.decode()
        theirs = seen_by_strace(trace.read_text(errors="replace"), log)
        ours = dict.fromkeys(NAMES, 0)
        for call in read_log(log):
            if call.name in ours and not re.match(r"pipe:|socket:|anon_inode", call.what):
                ours[call.name] += 1
    failed = 0
    for name in NAMES:
        failed += ours[name] != theirs[name]
        print(f"  {'ok    ' if ours[name] == theirs[name] else 'FAILED'} {name:9} strace {theirs[name]:3}, shim {ours[name]:3}")
    print(f"{len(NAMES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
