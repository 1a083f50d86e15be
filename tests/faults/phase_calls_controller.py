"""A controller whose calls fail while a node says that it ends: what it hears is relayed all the same, once.

Knows: how a relay ends well, and how the controller is asked for its metrics.
Gives: `PHASES`, `prepare()`.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path

import cells
from calling import INVISIBLE, library, shimmed, reason_phrase
from controlling import PORT, ControlWorld, TIME_KEY
from harness import until
from shimlog import read_log

WITHIN_SEC = 40
ASKER = "127.9.8.7"  # whoever asks the listener in these cells comes from here
LOOKS = {
    "look at kubeconfig": ("open", "/kubeconfig$", ("EACCES", "EIO", "EMFILE", "ENOMEM")),
    "read kubeconfig": ("read", "/kubeconfig$", ("EIO", "EINTR", "short")),
}
NETWORK = {
    "connect the API server": ("connect", "PEER", ("ENETUNREACH", "ECONNREFUSED", "EADDRNOTAVAIL")),
    "send the API server": ("send", "PEER", ("EPIPE", "ECONNRESET", "ENOBUFS", "ENOMEM", "EINTR", "short")),
    "read the API server": ("read", "PEER", ("ECONNRESET", "ETIMEDOUT", "ENOMEM", "EINTR", "short")),
    "socket network": ("socket", "network", ("EMFILE", "ENFILE", "ENOBUFS", "ENOMEM")),
    "poll": ("poll", "", ("EINTR",)),
    "read the loop": ("read", "anon_inode", ("EINTR", "EAGAIN")),
}
LISTENER = {
    "bind the listener": ("bind", "", ("EADDRINUSE", "EACCES")),
    "listen": ("listen", "", ("EADDRINUSE",)),
    "accept": ("accept", "", ("EMFILE", "ENFILE", "ENOMEM", "ECONNABORTED", "EINTR")),
    "send the listener": ("send", "LISTENER", ("EINTR", "short", "EPIPE")),
    "read the listener": ("read", "LISTENER", ("EINTR", "short", "ECONNRESET")),
}
LOOP = {"epoll_create1": ("epoll_create1", "", ("EMFILE", "ENOMEM")), "timerfd_create": ("timerfd_create", "", ("EMFILE", "ENOMEM"))}
TABLE = {**LOOKS, **NETWORK, **LISTENER, **LOOP}
COLUMNS = tuple(dict.fromkeys(fault for _, _, faults in TABLE.values() for fault in faults))


def rule_of(world: ControlWorld, row: str, fault: str) -> str:
    call, text, _ = TABLE[row]
    if text == "PEER":
        text = world.api.url.partition("//")[2]
    if text == "LISTENER":
        text = ASKER + ":"
    if row in LISTENER and fault in ("ECONNABORTED", "EINTR"):  # these pass
        often = "1-3"
    elif row in LISTENER or row in LOOP:
        often = "1+"
    elif fault in INVISIBLE or row in ("poll", "read the loop"):
        often = "1-60"
    else:
        often = "2-5" if row == "socket network" else "1-4"  # the first is the listener's
    return f"{call}:{often}:{fault}:{text}"


def relay(world: ControlWorld, name: str) -> None:
    deadline = world.say(name)
    world.relayed(f"c-{name}", WITHIN_SEC)
    world.must(lambda: world.get("nodeclaims", f"c-{name}")["metadata"].get("deletionTimestamp"), "its end")
    if world.timestamp(f"c-{name}") != (deadline or 0) - 15:
        raise cells.Broken(f"another {TIME_KEY}\n{world.story()}")
    if len(world.accepted("delete", f"c-{name}")) != 1:
        raise cells.Broken(f"not deleted once\n{world.story()}")


def finish(world: ControlWorld) -> None:
    """The fault is gone: it answers, and it ends."""
    world.must(lambda: world.ask("/readyz")[0] == 200, "an answer", WITHIN_SEC)
    world.must(lambda: world.ask("/metrics")[0] == 200, "its metrics")
    if world.stop() != 0:
        raise cells.Broken(f"exit code {world.proc.returncode} after SIGTERM\n{world.log()[-3000:]}")


def tries(world: ControlWorld) -> int:
    return sum(c.name == "accept" for c in read_log(world.folder / "calls"))


def ask(world: ControlWorld) -> str:
    host = world.addresses[world.proc.pid].rpartition(":")[0]
    answer = b""
    with socket.create_connection((host, PORT), timeout=WITHIN_SEC, source_address=(ASKER, 0)) as peer:
        peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            while data := peer.recv(4096):
                answer += data
        except ConnectionError:
            pass  # in some cells it is cut off
    return answer.decode()


def knock(world: ControlWorld, lasts: Path, is_short: bool) -> None:
    """Somebody asks, and is not let in. Where something is short the loop does not turn for that alone; the answer comes once
    it can."""
    host = world.addresses[world.proc.pid].rpartition(":")[0]
    with socket.create_connection((host, PORT), timeout=WITHIN_SEC) as peer:
        peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        before, end = tries(world), time.monotonic() + 2
        relay(world, "n2")
        until(lambda: time.monotonic() > end, 3)
        seconds = time.monotonic() - end + 2
        tried = tries(world) - before
        if tried > 10 * seconds and is_short:
            raise cells.Broken(f"tried {tried} times in {seconds:.1f} s to let somebody in")
        lasts.unlink()
        if b" 200 " not in peer.recv(4096):
            raise cells.Broken("no answer after the fault")


def refused(world: ControlWorld, fault: str) -> str:
    """It cannot start: says why, and what to do; the next one starts."""
    code = world.proc.wait(WITHIN_SEC)
    text = world.log()
    if code != 6 or reason_phrase(fault) not in text or "remedy" not in text:
        raise cells.Broken(f"exit code {code}\n{text[-2000:]}")
    world.start()
    relay(world, "n1")
    finish(world)
    return "H"


def drive(cell: cells.Cell) -> str:
    with ControlWorld() as world:
        world.pair("n1")
        world.pair("n2")
        log, lasts = world.folder / "calls", world.folder / "fault"
        lasts.touch()
        rule = rule_of(world, cell.row, cell.column)
        world.start(ready=False, **shimmed(log, rule, lasts, everything=True))
        proc = world.proc
        until(lambda: world.steps("watch") or proc.poll() is not None, WITHIN_SEC)
        if proc.poll() is not None:
            if cell.row in NETWORK or cell.column in INVISIBLE:
                raise cells.Broken(f"ended with exit code {proc.returncode}\n{world.log()[-3000:]}")
            return refused(world, cell.column)
        relay(world, "n1")
        if cell.row == "accept":
            knock(world, lasts, cell.column in ("EMFILE", "ENFILE", "ENOMEM"))
        elif cell.row in LISTENER:
            answer = ask(world)
            if cell.column in INVISIBLE and " 200 " not in answer:
                raise cells.Broken(f"/healthz: {answer!r}")
            lasts.unlink()
        if not any(c.how == "fault" for c in read_log(log)):
            raise cells.Broken(f"the fault was never met: {rule}")
        finish(world)
    return "R"


PHASES = [cells.Phase("controller, calls", tuple(TABLE), COLUMNS, drive, has=lambda row, column: column in TABLE[row][2])]


def prepare() -> None:
    library()
    with ControlWorld():  # keys that all worlds share
        pass
