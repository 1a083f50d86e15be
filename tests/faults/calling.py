"""Calls that fail: the programs below the shim, and what a failed call may come to.

Knows: how the shim is told what is to fail (shim.c), and which places of the disk and the machine a path stands for.
Gives: `shimmed`, `library`, `place_of`, `faults_for`, `FAULTS`, `INVISIBLE`, `REMEDIES`, `reason_phrase`, `left_over`.
Must not: judge; the rows of phase_calls*.py do.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Iterable, Optional

from shimlog import Call

# What each kind of call may say in real life. `short`: half of it was done.
FULL = ("ENOSPC", "EDQUOT")
FAULTS = {
    "open": (*FULL, "EROFS", "EACCES", "EIO", "EMFILE", "ENFILE", "ENOMEM"),
    "look": ("EACCES", "EIO", "EMFILE", "ENOMEM"),
    "write": (*FULL, "EIO", "EINTR", "short"),
    "fsync": (*FULL, "EIO"),
    "rename": (*FULL, "EROFS", "EACCES", "EIO", "ENOMEM"),
    "mkdir": (*FULL, "EROFS", "EACCES", "ENOMEM"),
    "chmod": ("EROFS", "EPERM", "EIO"),
    "unlink": ("EROFS", "EACCES", "EIO"),
    "close": (*FULL, "EIO"),
    "flock": ("ENOLCK",),
    "fork": ("EAGAIN", "ENOMEM"),
    "pipe2": ("EMFILE", "ENFILE"),
    "read": ("EIO", "EINTR", "short"),
}
INVISIBLE = ("EINTR", "short")

# The first that is found in a path names it.
PLACES = (
    ("folders", r"^(/(etc|var|run|dev|tmp|root)(/(kubernetes|kubelet|config\.json\.d|pki|systemd|logind\.conf\.d|nodeclaimd|lib|log|nodeclaimd-[^/]*))*/?)$"),
    ("kubelet's drop-in", r"/kubelet/config\.json\.d/"),
    ("the host's files", r"/environment\.conf|/40-eks\.conf|/local-disks\.env|/environment-services"),
    ("kubelet's config", r"/kubelet/config\.json(\.nodeclaimd-new)?$|/kubelet/config\.json\.nodeclaimd-new "),
    ("the cluster's CA", r"/pki/ca\.crt"),
    ("kubelet.env", r"/etc/nodeclaimd/kubelet\.env"),
    ("logind's drop-in", r"/logind\.conf\.d/.*nodeclaimd"),
    ("kubeconfig", r"/var/lib/kubelet/kubeconfig"),
    ("status.json", r"/run/nodeclaimd/\.?status\.json"),
    ("metrics.prom", r"/run/nodeclaimd/\.?metrics\.prom"),
    ("state.json", r"/var/lib/nodeclaimd/\.?state\.json"),
    ("the daemon's lock", r"/run/nodeclaimd/\.daemon"),
    ("the status' lock", r"/run/nodeclaimd/\.lock"),
    ("the restart's mark", r"/run/nodeclaimd/\.?kubelet-restart"),
    ("kubelet.pid", r"/run/nodeclaimd/\.?kubelet\.pid"),
    ("kubelet's log", r"/var/log/nodeclaimd-kubelet\.log"),
    ("the console", r"/dev/console"),
    ("our documents", r"/etc/nodeclaimd/conf\.d"),
    ("kubelet's version", r"kubelet-version"),
    ("containerd's version", r"containerd-version"),
    ("logind's settings", r"/logind\.conf"),
    ("the kernel's files", r"/proc/|/sys/"),
    ("tables", r"instance-types"),
    ("requests of this machine", r"/run/nodeclaimd/requests"),
    ("certificates", r"/etc/kubernetes/pki"),
    ("the network", r"^127\.|^\[|^network$"),
    ("sockets of this machine", r"^@|^/.*(notify|bus|journal)|^local$"),
    ("the loop", r"^$|anon_inode|pipe:"),
)


def place_of(what: str) -> str:
    return next((name for name, pattern in PLACES if re.search(pattern, what)), "elsewhere")


def faults_for(call: Call) -> tuple[str, ...]:
    return FAULTS.get("look" if (call.name, call.kind) == ("open", "look") else call.name, ())


def library() -> Path:
    given = os.environ.get("NC_SHIM")
    path = Path(given) if given else Path(os.environ["NODECLAIMD"]).resolve().parent / "tests/faults/shim.so"
    if not path.exists():
        raise SystemExit(f"make tests/faults/shim.so first ({path})")
    return path


def shimmed(log: Path, fail: str = "", lasts: Optional[Path] = None, everything: bool = False) -> dict[str, str]:
    """The environment of a program below the shim."""
    env = {"LD_PRELOAD": str(library()), "NC_SHIM_LOG": str(log)}
    if fail:
        env["NC_SHIM_FAIL"] = fail
    if lasts:
        env["NC_SHIM_WHILE"] = str(lasts)
    if everything:
        env["NC_SHIM_ALL"] = "1"
    return env


def reason_phrase(fault: str) -> str:
    return os.strerror(getattr(errno, fault))


# What a remedy for it speaks of.
REMEDIES = {
    "ENOSPC": "space",
    "EDQUOT": "space",
    "EROFS": "writable",
    "EACCES": "root",
    "EPERM": "root",
    "EIO": "disk",
    "EMFILE": "limit",
    "ENFILE": "limit",
}


def left_over(root: Path, tops: Iterable[str] = ("etc", "var", "run")) -> list[str]:
    """Files that were only to be there for a moment."""
    found = [p for top in tops for p in (root / top).rglob("*")]
    return sorted(str(p.relative_to(root)) for p in found if re.search(r"\.nodeclaimd-new$|/\.[a-z-]+.*\.(new|[0-9A-Za-z]{6})$", str(p)))
