"""A daemon whose calls fail while it drains its node: files that cannot be written, descriptors that run out, bytes that come in
pieces; the bus, the journal and the service manager away or silent.

Knows: how a drain ends well, and what of it is written where.
Gives: `PHASES`, `prepare()`.

The fault is there from the daemon's start until the node is drained; then it goes. No fault here may keep a node from being
drained, none is complained about more than once, and what could not be written is written soon after.
"""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Optional

import cells
from calling import INVISIBLE, library, left_over, shimmed, reason_phrase
from harness import until
from bus import Bus
from running import STATE, DaemonWorld
from shimlog import read_log

DRAINED_SEC = 40  # late pods are waited for five seconds; a poll that failed is repeated after a few
RECOVERED_SEC = 20
FILES = {
    "status.json": "/run/nodeclaimd/.status.json",
    "metrics.prom": "/run/nodeclaimd/.metrics.prom",
    "state.json": "/var/lib/nodeclaimd/.state.json",
}
# Row: the calls and the text of a rule. The second word of a row is its place.
WRITES = {
    **{f"open {name}": ("open", text) for name, text in FILES.items()},
    **{f"write {name}": ("write", text) for name, text in FILES.items()},
    **{f"rename {name}": ("rename", text) for name, text in FILES.items()},
    **{f"chmod {name}": ("chmod", text) for name, text in FILES.items()},
    "open the status' lock": ("open", "/run/nodeclaimd/.lock$"),
    "flock the status' lock": ("flock", "/run/nodeclaimd/.lock$"),
    "open the daemon's lock": ("open", "/run/nodeclaimd/.daemon$"),
    "open the console": ("open", "/dev/console$"),
    "write the console": ("write", "/dev/console$"),
    "mkdir folders": ("mkdir", ""),
    "mkdir the requests": ("mkdir", "/run/nodeclaimd/requests$"),
    "chmod the requests": ("chmod", "/run/nodeclaimd/requests$"),
    "inotify_init1": ("inotify_init1", ""),
    "inotify_add_watch": ("inotify_add_watch", ""),
}
WRITE_FAULTS = {
    "open": ("ENOSPC", "EROFS", "EACCES", "EIO", "EMFILE", "ENOMEM"),
    "write": ("ENOSPC", "EDQUOT", "EIO", "EINTR", "short"),
    "rename": ("ENOSPC", "EROFS", "EIO"),
    "chmod": ("EPERM", "EROFS"),
    "flock": ("ENOLCK",),
    "mkdir": ("ENOSPC", "EROFS", "EACCES"),
    "inotify_init1": ("EMFILE", "ENFILE", "ENOMEM"),
    "inotify_add_watch": ("ENOSPC", "ENOMEM"),
}
# What is read at the start: it fails the first times, and is tried again.
READS = {
    "look at our documents": ("open", "/10-test.yaml$"),
    "read our documents": ("read", "conf.d/10-test.yaml$"),
    "look at kubeconfig": ("open", "/kubelet/kubeconfig$"),
    "read kubeconfig": ("read", "/kubelet/kubeconfig$"),
    "look at the cluster's CA": ("open", "/pki/ca.crt$"),
    "read the cluster's CA": ("read", "/pki/ca.crt$"),
    "look at state.json": ("open", "/nodeclaimd/state.json$"),
    "look at status.json": ("open", "/nodeclaimd/status.json$"),
    "read status.json": ("read", "/nodeclaimd/status.json$"),
    "look at metrics.prom": ("open", "/nodeclaimd/metrics.prom$"),
    "look at the kernel's files": ("open", "/boot_id$"),
    "read the kernel's files": ("read", "/boot_id$"),
}
READ_FAULTS = {"open": ("EACCES", "EIO", "EMFILE", "ENOMEM"), "read": ("EIO", "EINTR", "short")}
# IMDS and the API server; for some calls, then the network is well again.
NETWORK = {f"{call} {peer}": (call, peer) for peer in ("IMDS", "the API server") for call in ("connect", "send", "read")}
NETWORK["socket network"] = ("socket", "network")
NETWORK_FAULTS = {
    "connect": ("ENETUNREACH", "ECONNREFUSED", "EADDRNOTAVAIL"),
    "send": ("EPIPE", "ECONNRESET", "ENOBUFS", "ENOMEM", "EINTR", "short"),
    "read": ("ECONNRESET", "ETIMEDOUT", "ENOMEM", "EINTR", "short"),
    "socket": ("EMFILE", "ENFILE", "ENOBUFS", "ENOMEM"),
}
# Sockets of this machine.
LOCAL = {
    "connect the bus": ("connect", "bus.socket"),
    "send the bus": ("send", "bus.socket"),
    "read the bus": ("read", "bus.socket"),
    "send the service manager": ("send", "/notify"),
    "socket local": ("socket", "local"),
}
LOCAL_FAULTS = {
    "connect": ("ECONNREFUSED", "EACCES", "EAGAIN"),
    "send": ("EPIPE", "ECONNREFUSED", "EAGAIN", "EINTR"),
    "read": ("ECONNRESET", "EINTR"),
    "socket": ("EMFILE", "ENFILE", "ENOMEM"),
}
LOOP = {"poll": ("poll", ""), "read the loop": ("read", "anon_inode"), "epoll_ctl": ("epoll_ctl", "")}
LOOP_FAULTS = {"poll": ("EINTR",), "read": ("EINTR", "EAGAIN"), "epoll_ctl": ("ENOMEM", "ENOSPC")}
# Not by a failed call: whoever is at the other end is gone, does not read, or goes in the middle.
PEERS = {"the bus": ("gone", "silent", "leaves"), "the journal": ("gone", "refuses", "silent", "leaves"),
         "the service manager": ("gone", "silent")}
TABLES = ((WRITES, WRITE_FAULTS), (READS, READ_FAULTS), (NETWORK, NETWORK_FAULTS), (LOCAL, LOCAL_FAULTS), (LOOP, LOOP_FAULTS))
ROWS = (*(row for rows, _ in TABLES for row in rows), *PEERS)
COLUMNS = tuple(dict.fromkeys([f for _, faults in TABLES for row in faults.values() for f in row] + [f for w in PEERS.values() for f in w]))
# A /run of its own with a journal's socket that the test made, for the program that is executed then.
OWN_RUN = 'mount -t tmpfs tmpfs /run && mkdir -p /run/systemd && ln -s "$0" /run/systemd/journal && exec "$@"'


class FaultWorld(DaemonWorld):
    """`journal`: the folder whose `socket` is the journal's."""

    journal: Optional[Path] = None

    def command(self, *args: str) -> list[str]:
        plain = super().command(*args)
        if self.journal is None or args[0] != "run":
            return plain
        return ["unshare", "--mount", "sh", "-c", OWN_RUN, str(self.journal), *plain, "--log-format", "journal"]


def has(row: str, column: str) -> bool:
    if row in PEERS:
        return column in PEERS[row]
    return any(row in rows and column in faults[rows[row][0]] for rows, faults in TABLES)


def rule_of(world: DaemonWorld, row: str, fault: str) -> str:
    for rows, _ in TABLES:
        if row not in rows:
            continue
        call, text = rows[row]
        peers = {"IMDS": world.imds.url.partition("//")[2], "the API server": world.api.url.partition("//")[2]}
        text = peers.get(text, text)
        if rows is WRITES or rows is LOCAL:
            often = "1-100" if fault in INVISIBLE else "1+"
        elif rows is READS:
            often = "1-2"
        elif call == "epoll_ctl":
            often = "30-33"  # once all is set up
        elif fault in INVISIBLE or rows is LOOP:
            often = "1-60"
        else:
            often = "1-4"
        return f"{call}:{often}:{fault}:{text}"
    raise KeyError(row)


# --- one life
def begin(world: FaultWorld, env: dict[str, str]) -> None:
    for name in ("a", "b", "c"):
        world.pod(name, grace=2)
    world.start(ready=False, **env)
    world.must(lambda: world.steps("watch") or world.daemon.poll() is not None, "a watch", DRAINED_SEC)


def drain(world: FaultWorld) -> None:
    world.imds.spot(120)
    world.must(lambda: world.annotation().get("phase") == "Drained", "the annotation", DRAINED_SEC)
    world.must(lambda: world.condition("Drained")[0] == "True", "the condition")
    if world.pods():
        raise cells.Broken(f"drained with {world.pods()} left")
    for pod in ("a", "b", "c"):
        if len(world.evictions(pod, accepted=True)) != 1:
            raise cells.Broken(f"{pod} was not evicted once\n{world.story()}")


def told(world: FaultWorld) -> bool:
    """Everything that is written somewhere says that the node is drained."""
    state = world.root / STATE
    metrics = world.root / "run/nodeclaimd/metrics.prom"
    return (
        world.drain().get("phase") == "drained"
        and state.exists()
        and '"phase":"drained"' in state.read_text().replace(" ", "").lower()
        and metrics.exists()
        and "nodeclaimd_drain" in metrics.read_text()
    )


def end(world: FaultWorld, hears: bool = False) -> None:
    """After the fault: told soon, and left clean."""
    if not until(lambda: told(world), RECOVERED_SEC):
        raise cells.Broken(f"no recovery: {sorted(str(p) for p in world.root.rglob('*.*') if 'nodeclaimd' in str(p))}\n{world.story()}")
    if hears:
        world.imds.tree.pop("latest/meta-data/spot/instance-action", None)
    code, _ = world.stop()
    if code != 0:
        raise cells.Broken(f"exit code {code} after SIGTERM\n{world.log()[-3000:]}")
    left = left_over(world.root, ("run", "var/lib/nodeclaimd"))
    if left:
        raise cells.Broken(f"left: {left}")


def said_once(world: FaultWorld, fault: str, text: str) -> None:
    name = Path(text.rstrip("$")).name.lstrip(".")
    if text == "":
        name = ""
    said = [line for line in world.log().splitlines() if reason_phrase(fault) in line and name in line and "warning" in line]
    # a folder may keep each of the files from being written, and the daemon's lock from being made
    if len(said) > (len(FILES) + 1 if name == "" else 1):
        raise cells.Broken(f"said {len(said)} times: {said[0]}")
    if not said and name in FILES:
        raise cells.Broken(f"not said\n{world.log()[-3000:]}")


def drive_documents(cell: cells.Cell) -> str:
    """What could not be read at first is in force once it can: here, that pods are left alone."""
    with FaultWorld(bus=True, config="  interruption: {spot: cordon}\n") as world:
        log = world.folder / "calls"
        begin(world, shimmed(log, rule_of(world, cell.row, cell.column), everything=True))
        if cell.column not in INVISIBLE:
            world.must(lambda: "configuration are known after" in world.log(), "the second reading", RECOVERED_SEC)
        if not any(c.how == "fault" for c in read_log(log)):
            raise cells.Broken("the fault was never met")
        world.imds.spot(120)
        world.must(world.is_cordoned, "the cordon", DRAINED_SEC)
        world.phase_is("cordoned")
        if world.evictions():
            raise cells.Broken(f"evicted against the policy\n{world.story()}")
        code, _ = world.stop()
        if code != 0:
            raise cells.Broken(f"exit code {code} after SIGTERM")
    return "R"


def drive(cell: cells.Cell) -> str:
    if cell.row in PEERS:
        return drive_peer(cell)
    if cell.row.endswith("our documents"):
        return drive_documents(cell)
    with FaultWorld(bus=True) as world:
        log, lasts = world.folder / "calls", world.folder / "fault"
        lasts.touch()
        begin(world, shimmed(log, rule_of(world, cell.row, cell.column), lasts, everything=True))
        if world.daemon.poll() is not None:
            raise cells.Broken(f"ended with exit code {world.daemon.returncode}\n{world.log()[-3000:]}")
        drain(world)
        if not any(c.how == "fault" for c in read_log(log)):
            raise cells.Broken(f"the fault was never met: {rule_of(world, cell.row, cell.column)}")
        if cell.row in WRITES and cell.column not in INVISIBLE:
            said_once(world, cell.column, WRITES[cell.row][1])
        lasts.unlink()
        end(world)
    return "R" if cell.column in INVISIBLE or cell.row in NETWORK or cell.row in READS or cell.row in LOOP else "W"


# --- whoever is at the other end
def fill(path: Path, kind: int = socket.SOCK_DGRAM) -> socket.socket:
    """A socket that nobody reads; full already, where datagrams are sent to it."""
    silent = socket.socket(socket.AF_UNIX, kind)
    silent.bind(str(path))
    if kind == socket.SOCK_STREAM:
        silent.listen()
        return silent
    with socket.socket(socket.AF_UNIX, kind) as sender:
        sender.setblocking(False)
        try:
            for _ in range(10000):
                sender.sendto(b"x", str(path))
        except BlockingIOError:
            pass
    return silent


class Listener:
    """Takes datagrams, from the ones on that wait already."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.heard = sock, b""
        threading.Thread(target=self.listen, daemon=True).start()

    @staticmethod
    def at(path: Path) -> "Listener":
        path.unlink(missing_ok=True)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sock.bind(str(path))
        return Listener(sock)

    def listen(self) -> None:
        try:
            while data := self.sock.recv(65536):
                self.heard += data
        except OSError:
            return

    def leave(self) -> None:
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


def drive_journal(world: FaultWorld, how: str) -> None:
    world.journal = world.folder / "journal"
    world.journal.mkdir()
    path = world.journal / "socket"
    listener = Listener.at(path) if how == "leaves" else None
    silent = fill(path) if how in ("silent", "refuses") else None
    if silent and how == "refuses":
        silent.close()
    begin(world, {})
    if listener:
        world.must(lambda: b"MESSAGE_ID" in listener.heard, "its first entry")
        listener.leave()
    drain(world)
    if how != "silent" and "No pods remaining" not in world.log():
        raise cells.Broken(f"stderr does not say it\n{world.log()}")
    again = Listener(silent) if silent and how == "silent" else Listener.at(path)
    end(world)
    world.must(lambda: b"stopped by TERM" in again.heard, "an entry of the journal that is back")
    again.leave()


def drive_bus(world: FaultWorld, how: str) -> None:
    path = world.folder / "bus.socket"
    silent = fill(path, socket.SOCK_STREAM) if how == "silent" else None
    begin(world, {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={path}"})
    if world.bus:
        world.must(lambda: world.said_of_itself().get("inhibitor") == "held", "the inhibitor")
        world.bus.__exit__()
    drain(world)
    if silent:
        silent.close()
    path.unlink(missing_ok=True)
    world.bus = Bus(world.folder, world.root).__enter__()
    world.must(lambda: world.said_of_itself().get("inhibitor") == "held", "the inhibitor of the bus that is back", RECOVERED_SEC)
    end(world)


def drive_manager(world: FaultWorld, how: str) -> None:
    path = world.folder / "manager"
    silent = fill(path) if how == "silent" else None
    begin(world, {"NOTIFY_SOCKET": str(path)})
    drain(world)
    again = Listener(silent) if silent else Listener.at(path)
    end(world)
    world.must(lambda: b"STOPPING=1" in again.heard, "a word to the manager that is back")
    again.leave()


def drive_peer(cell: cells.Cell) -> str:
    drivers = {"the journal": drive_journal, "the bus": drive_bus, "the service manager": drive_manager}
    with FaultWorld(bus=cell.row == "the bus" and cell.column == "leaves") as world:
        drivers[cell.row](world, cell.column)
    return "W"


PHASES = [cells.Phase("drain, calls", ROWS, COLUMNS, drive, has=has)]


def prepare() -> None:
    library()
    with FaultWorld():  # keys that all worlds share
        pass
