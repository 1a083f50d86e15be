"""When what happened in one boot, on the clock that began with the kernel.

Knows: where systemd, status.json and the API server keep the times.
Gives: `timeline`, rows of (seconds, what), in order.
Must not: change anything in the machine.
"""

from __future__ import annotations

import calendar
import json
import re
import time
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from actors import Actors
    from qemu import Guest

Row = tuple[float, str]

# unit, the property with the time, what it is
UNITS = (
    ("systemd-networkd.service", "ExecMainStartTimestampMonotonic", "systemd-networkd"),
    ("systemd-networkd-wait-online.service", "ActiveEnterTimestampMonotonic", "network"),
    ("nodeclaimd-bootstrap.service", "ExecMainStartTimestampMonotonic", "nodeclaimd bootstrap starts"),
    ("containerd.service", "ExecMainStartTimestampMonotonic", "containerd executed"),
    ("containerd.service", "ActiveEnterTimestampMonotonic", "containerd active"),
    ("kubelet.service", "ExecMainStartTimestampMonotonic", "kubelet executed"),
    ("nodeadm-config.service", "ExecMainStartTimestampMonotonic", "nodeadm-config starts"),
    ("nodeadm-config.service", "ExecMainExitTimestampMonotonic", "nodeadm-config ends"),
    ("nodeadm-run.service", "ExecMainStartTimestampMonotonic", "nodeadm-run starts"),
    ("cloud-final.service", "ExecMainStartTimestampMonotonic", "cloud-final starts"),
    ("cloud-final.service", "ExecMainExitTimestampMonotonic", "cloud-final ends"),
    ("nodeclaimd-bootstrap.service", "ActiveEnterTimestampMonotonic", "nodeclaimd bootstrap complete"),
)
# A file has its place when it was renamed to it, which is when its inode was changed last.
FILES = (
    ("containerd's files written", "/etc/containerd/base-runtime-spec.json", "/etc/containerd/config.toml"),
    ("kubelet's files written", "/etc/kubernetes/kubelet/config.json", "/etc/nodeclaimd/kubelet.env", "/var/lib/kubelet/kubeconfig"),
)
LONG_SEC = 0.2  # a phase of the bootstrap that is told by itself
SEEN = {"node created": "Node created", "node Ready": "Node Ready", "first pod running": "first pod running"}


def epoch(text: str) -> float:
    """An RFC 3339 time of status.json."""
    found = re.match(r"(\d+-\d+-\d+T\d+:\d+:\d+)(\.\d+)?Z$", text)
    assert found, text
    return calendar.timegm(time.strptime(found[1], "%Y-%m-%dT%H:%M:%S")) + float(found[2] or 0)


def unit_rows(guest: "Guest") -> list[Row]:
    rows = []
    shown: dict[str, dict[str, str]] = {}
    for unit, name, what in UNITS:
        if unit not in shown:
            shown[unit] = guest.show(unit)
        usec = int(shown[unit].get(name, "0") or 0)
        if usec:
            rows.append((usec / 1e6, what))
    return rows


def file_rows(guest: "Guest") -> list[Row]:
    status = guest.run("cat", "/run/nodeclaimd/status.json")
    phases = json.loads(status).get("phases", []) if status else []
    now, uptime = guest.sh("date +%s.%N; cut -d' ' -f1 /proc/uptime").split()
    began = float(now) - float(uptime)
    rows = []
    for what, *paths in FILES:
        written = guest.run("stat", "-c", "%.Z", *paths).split()
        if written:
            rows.append((max(map(float, written)) - began, what))
    for phase in phases:
        if phase.get("started"):
            took = phase["durationUsec"] / 1e6
            end = epoch(phase["started"]) + took - began  # status.json has whole seconds
            if took >= LONG_SEC:
                rows.append((end, f"phase {phase['name']} ends about here, after {took:.2f} s"))
    return rows


def timeline(guest: "Guest", actors: Optional["Actors"]) -> list[Row]:
    manager = dict(line.split("=", 1) for line in guest.run("systemctl", "show").splitlines() if "=" in line)
    rows = [(0.0, "kernel"), (int(manager["UserspaceTimestampMonotonic"]) / 1e6, "systemd")]
    rows += unit_rows(guest) + file_rows(guest)
    inside, outside = guest.uptime()
    if actors is not None:
        rows += [(actors.times[name] - outside + inside, what) for name, what in SEEN.items() if name in actors.times]
    return sorted(row for row in rows if row[0] >= 0)


def when(rows: list[Row], what: str) -> float:
    """0: it did not happen."""
    return next((sec for sec, name in rows if name == what), 0.0)


def show(rows: list[Row]) -> None:
    for sec, what in rows:
        print(f"  {sec:8.2f} s  {what}", flush=True)
