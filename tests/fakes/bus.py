"""A system bus with nobody on it but systemd and logind.

Knows: the few methods, properties and the one signal that starting a unit takes; of logind its delay inhibitors,
       InhibitDelayMaxSec and the signal PrepareForShutdown.
Gives: `Bus`; a program finds it by DBUS_SYSTEM_BUS_ADDRESS. What starting a unit does is a callback.
Must not: route between clients.
"""

from __future__ import annotations

import fnmatch
import re
import select
import socket
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Optional

from dbuswire import CALL, ERROR, RETURN, SIGNAL, Message, authenticate, read_message

SYSTEMD, LOGIN, BUS = "org.freedesktop.systemd1", "org.freedesktop.login1", "org.freedesktop.DBus"
SYSTEMD_PATH = "/org/freedesktop/systemd1"
NO_REPLY = 1


@dataclass
class Unit:
    """`start` runs when the unit is started and returns its main process (0: none), `stop` ends it before a restart;
    `result` is how the job ends."""

    start: Callable[[], int] = lambda: 0
    stop: Callable[[int], None] = lambda pid: None
    result: str = "done"
    answers: bool = True  # False: the job never ends
    crashes: bool = False  # its process ends as soon as it is started, and systemd waits to start it again
    # So many times its ExecStartPre= fails; systemd starts it again after `restart_sec`, and then it starts.
    fails_before: int = 0
    outcome_before: str = "exit-code"  # "resources": there was no process
    restart_sec: float = 0.3
    active: str = "inactive"
    sub: str = "dead"
    outcome: str = "success"
    pid: int = 0
    restarts: int = 0
    starts: int = 0
    started_usec: int = 0  # the main process, by the wall clock; 0: there was none
    started_mono_usec: int = 0
    job: tuple[int, str] = (0, "/")  # its number and path, while there is one
    wants: list[str] = field(default_factory=list)  # of a target: its job ends when those of these units have
    takes_sec: float = 0.0  # so long its job runs
    condition_held: bool = False
    active_mono_usec: int = 0  # when it became active last
    condition_mono_usec: int = 0  # when it was tested; 0: never

    def run(self, again: bool) -> None:
        """One that runs is left alone, unless it is to be started again."""
        if self.active == "active" and not again:
            return
        if self.active == "active":
            self.stop(self.pid)
        self.started_usec, self.started_mono_usec = time.time_ns() // 1000, time.monotonic_ns() // 1000
        self.pid = self.start()
        self.starts += 1
        self.active, self.sub, self.active_mono_usec = "active", "running", time.monotonic_ns() // 1000
        if self.crashes:
            self.active, self.sub, self.outcome = "activating", "auto-restart", "exit-code"


@dataclass
class Inhibitor:
    """`fd` is our end of what the client was given: it is at its end once the client has let go."""

    what: str
    who: str
    why: str
    mode: str
    fd: socket.socket
    released: float = 0.0  # monotonic; 0 = still held

    def is_held(self) -> bool:
        if not self.released and select.select([self.fd], [], [], 0)[0]:
            self.released = time.monotonic()
        return not self.released


class Failure(Exception):
    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


def seconds_usec(text: str) -> int:
    """systemd's time spans, as far as a configuration written by a program has them."""
    total = 0.0
    for number, unit in re.findall(r"(\d+(?:\.\d+)?)\s*(us|usec|ms|msec|s|sec|min|m|h|hr)?", text):
        total += (
            float(number)
            * {
                "us": 1,
                "usec": 1,
                "ms": 1e3,
                "msec": 1e3,
                "": 1e6,
                "s": 1e6,
                "sec": 1e6,
                "m": 6e7,
                "min": 6e7,
                "h": 3.6e9,
                "hr": 3.6e9,
            }[unit]
        )
    return int(total)


class Bus:
    def __init__(self, folder: Path, root: Path) -> None:
        self.path = folder / "bus.socket"
        self.root = root
        self.units: dict[str, Unit] = {}
        self.calls: list[str] = []  # "StartUnit kubelet.service", in order
        self.inhibit_usec = 5_000_000
        self.inhibitors: list[Inhibitor] = []
        self.preparing = False
        self.has_strangers = False  # who claim of each job that it has ended
        self.refuses_inhibitors = False
        self.kind = ""  # of a shutdown, as systemd 255 has it; "": an older one
        self.refuses_reads = False  # of properties
        self.reads: list[str] = []  # the properties that were asked for, in order
        self._serial = 100
        self._job = 0
        self._lock = threading.Lock()
        self._clients: list[socket.socket] = []
        self._listener: Optional[socket.socket] = None

    @property
    def address(self) -> str:
        return f"unix:path={self.path}"

    def __enter__(self) -> "Bus":
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *unused: object) -> None:
        for sock in [self._listener, *self._clients, *(i.fd for i in self.inhibitors)]:
            if sock:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # it was gone already
                sock.close()

    def _accept(self) -> None:
        assert self._listener is not None
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._clients.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            authenticate(sock)
            while True:
                message = read_message(sock)
                if message.type == CALL:
                    self._answer(sock, message)
        except (EOFError, OSError, ValueError):
            return

    def _send(self, sock: socket.socket, message: Message, fd: Optional[int] = None) -> None:
        with self._lock:
            self._serial += 1
            try:
                data = message.encode(self._serial)
                if fd is None:
                    sock.sendall(data)
                else:  # short enough for one call; the descriptor goes with its first byte
                    socket.send_fds(sock, [data], [fd])
            except OSError:
                return  # the client did not wait for it

    def drop_clients(self) -> None:
        """As when the bus is restarted: every connection ends, new ones are welcome."""
        clients, self._clients = self._clients, []
        for sock in clients:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it was gone already
            sock.close()

    def _answer(self, sock: socket.socket, call: Message) -> None:
        sender = BUS if call.destination == BUS else ":1.1"
        fields: dict[str, Any] = {"reply_serial": call.serial, "sender": sender, "destination": call.sender or ":1.7"}
        try:
            if (call.destination, call.member) == (LOGIN, "Inhibit"):
                self._inhibit(sock, call, fields)
                return
            signature, body = self._method(sock, call)
            if signature:
                fields["signature"] = signature
            reply = Message(RETURN, 0, fields, body)
        except Failure as exc:
            reply = Message(ERROR, 0, {**fields, "error": exc.name, "signature": "s"}, [str(exc)])
        if not call.flags & NO_REPLY:
            self._send(sock, reply)

    def _method(self, sock: socket.socket, call: Message) -> tuple[str, list[Any]]:
        if call.destination == BUS:
            return ("s", [":1.7"]) if call.member == "Hello" else ("", [])
        if call.interface == "org.freedesktop.DBus.Properties":
            return self._properties(call)
        if call.destination == SYSTEMD:
            return self._systemd(sock, call)
        raise Failure(f"{BUS}.Error.UnknownMethod", f"Unknown method {call.member}")

    # --- systemd
    def unit(self, name: str) -> Unit:
        if name not in self.units:
            raise Failure(f"{SYSTEMD}.NoSuchUnit", f"Unit {name} not found.")
        return self.units[name]

    @staticmethod
    def unit_path(name: str) -> str:
        return f"{SYSTEMD_PATH}/unit/" + "".join(c if c.isalnum() else f"_{ord(c):02x}" for c in name)

    def _systemd(self, sock: socket.socket, call: Message) -> tuple[str, list[Any]]:
        self.calls.append(" ".join([call.member, *(str(b) for b in call.body[:1])]))
        if call.member in ("Subscribe", "Unsubscribe", "Reload"):
            return "", []
        if call.member in ("GetUnit", "LoadUnit"):
            self.unit(call.body[0])
            return "o", [self.unit_path(call.body[0])]
        if "logind" in str(call.body[0] if call.body else ""):
            self._read_logind_configuration()
            return ("o", [f"{SYSTEMD_PATH}/job/1"]) if call.member != "KillUnit" else ("", [])
        if call.member == "ListUnitsByNames":
            return "a(ssssssouso)", [[self._listed(name) for name in call.body[0]]]
        if call.member == "ListUnitsByPatterns":
            patterns = call.body[1]
            names = [name for name in self.units if any(fnmatch.fnmatchcase(name, one) for one in patterns)]
            return "a(ssssssouso)", [[self._listed(name) for name in names]]
        if call.member in ("StartUnit", "RestartUnit"):
            return "o", [self._start(sock, call.body[0], call.member == "RestartUnit")]
        raise Failure(f"{BUS}.Error.UnknownMethod", f"Unknown method {call.member}")

    def _listed(self, name: str) -> tuple[Any, ...]:
        unit = self.units.get(name, Unit())
        loaded = "loaded" if name in self.units else "not-found"
        number, job = unit.job
        return name, name, loaded, unit.active, unit.sub, "", self.unit_path(name), number, "", job

    def _start(self, sock: socket.socket, name: str, again: bool) -> str:
        unit = self.unit(name)
        wanted = [self.units[one] for one in unit.wants if one in self.units]
        for one in (one for one in unit.wants if one in self.units):
            self._start(sock, one, False)
        self._job += 1
        job = f"{SYSTEMD_PATH}/job/{self._job}"
        number = self._job
        unit.job = number, job

        def finish() -> None:
            unit.condition_held, unit.condition_mono_usec = unit.result != "skipped", time.monotonic_ns() // 1000
            if unit.fails_before > 0:
                self._fail_before(unit, again)
            elif unit.result == "done":
                unit.run(again)
            elif unit.result != "skipped":
                unit.active, unit.sub, unit.outcome = "failed", "failed", "exit-code"
            unit.job = 0, "/"
            self._send(
                sock,
                Message(
                    SIGNAL,
                    0,
                    {
                        "path": SYSTEMD_PATH,
                        "interface": f"{SYSTEMD}.Manager",
                        "member": "JobRemoved",
                        "sender": ":1.1",
                        "signature": "uoss",
                    },
                    [number, job, name, unit.result],
                ),
            )

        if self.has_strangers:
            for result in ("done", "failed", "skipped"):
                self.forge(
                    "JobRemoved", "uoss", number, job, name, result, interface=f"{SYSTEMD}.Manager", path=SYSTEMD_PATH
                )
        if unit.answers and all(one.answers for one in wanted):
            threading.Timer(max([0.02 + unit.takes_sec, *(0.04 + one.takes_sec for one in wanted)]), finish).start()
        return job

    def _fail_before(self, unit: Unit, again: bool) -> None:
        """Before its main process: RestartForceExitStatus= or Restart=on-failure, the job is over and the unit is not."""
        unit.fails_before -= 1
        unit.active, unit.sub, unit.outcome = "activating", "auto-restart", unit.outcome_before

        def restart() -> None:
            unit.restarts += 1
            if unit.fails_before > 0:
                self._fail_before(unit, again)
            else:
                unit.outcome = "success"
                unit.run(again)

        threading.Timer(unit.restart_sec, restart).start()

    def _properties(self, call: Message) -> tuple[str, list[Any]]:
        self.reads.append(str(call.body[-1]))
        if self.refuses_reads:
            raise Failure(f"{BUS}.Error.AccessDenied", "Rejected send message")
        have = self._logind_properties() if call.destination == LOGIN else self._unit_properties(call.path)
        if call.member == "GetAll":
            return "a{sv}", [have]
        if call.member != "Get" or call.body[1] not in have:
            raise Failure(f"{BUS}.Error.UnknownProperty", f"Unknown property {call.body[1:]}")
        return "v", [have[call.body[1]]]

    def _unit_properties(self, path: str) -> dict[str, tuple[str, Any]]:
        if path == SYSTEMD_PATH:
            return {"Version": ("s", "252"), "SystemState": ("s", "running")}
        unit = next((u for name, u in self.units.items() if self.unit_path(name) == path), None)
        if unit is None:
            raise Failure(f"{BUS}.Error.UnknownObject", f"Unknown object {path}")
        return {
            "ActiveState": ("s", unit.active),
            "SubState": ("s", unit.sub),
            "Result": ("s", unit.outcome),
            "LoadState": ("s", "loaded"),
            "Wants": ("as", unit.wants),
            "Requires": ("as", []),
            "ActiveEnterTimestampMonotonic": ("t", unit.active_mono_usec),
            "Job": ("(uo)", unit.job),
            "ConditionResult": ("b", int(unit.condition_held)),
            "ConditionTimestampMonotonic": ("t", unit.condition_mono_usec),
            "MainPID": ("u", unit.pid),
            "NRestarts": ("u", unit.restarts),
            "ExecMainStartTimestamp": ("t", unit.started_usec),
            "ExecMainStartTimestampMonotonic": ("t", unit.started_mono_usec),
        }

    # --- logind
    def _read_logind_configuration(self) -> None:
        for path in sorted((self.root / "etc/systemd/logind.conf.d").glob("*.conf")):
            found = re.search(r"^InhibitDelayMaxSec=(.*)$", path.read_text(), re.M)
            if found:
                self.inhibit_usec = seconds_usec(found[1])

    def _inhibit(self, sock: socket.socket, call: Message, fields: dict[str, Any]) -> None:
        if self.refuses_inhibitors:
            raise Failure(f"{BUS}.Error.AccessDenied", "Permission denied")
        if len(call.body) != 4 or call.body[3] not in ("delay", "block"):
            raise Failure(f"{BUS}.Error.InvalidArgs", "Invalid mode specification")
        if self.preparing:
            raise Failure(
                f"{LOGIN}.OperationInProgress", "The operation inhibition has been requested for is already running"
            )
        ours, theirs = socket.socketpair()
        self.inhibitors.append(Inhibitor(*call.body, ours))
        self._send(sock, Message(RETURN, 0, {**fields, "signature": "h", "unix_fds": 1}, [0]), theirs.fileno())
        theirs.close()

    def held(self) -> list[Inhibitor]:
        return [i for i in self.inhibitors if i.is_held()]

    def prepare_for_shutdown(self, coming: bool = True) -> None:
        """logind's announcement, to everybody; the window is `inhibit_usec` from now."""
        self.preparing = coming
        fields = {
            "path": "/org/freedesktop/login1",
            "interface": f"{LOGIN}.Manager",
            "member": "PrepareForShutdown",
            "sender": ":1.1",
            "signature": "b",
        }
        for sock in list(self._clients):
            self._send(sock, Message(SIGNAL, 0, fields, [int(coming)]))

    def forge(self, member: str, signature: str, *body: Any, interface: str = "", path: str = "") -> None:
        """A signal that any local user may send to a connection's own name: the bus writes its sender, and nothing else
        of it."""
        fields = {
            "path": path or "/org/freedesktop/login1",
            "interface": interface or f"{LOGIN}.Manager",
            "member": member,
            "sender": ":1.66",
            "destination": ":1.7",
            "signature": signature,
        }
        for sock in list(self._clients):
            self._send(sock, Message(SIGNAL, 0, {k: v for k, v in fields.items() if v}, list(body)))

    def restart_logind(self) -> None:
        """It comes back under another unique name; what was inhibited stays, as its files in /run do."""
        for old, new in ((":1.1", ""), ("", ":1.1")):
            fields = {
                "path": "/org/freedesktop/DBus",
                "interface": BUS,
                "member": "NameOwnerChanged",
                "sender": BUS,
                "signature": "sss",
            }
            for sock in list(self._clients):
                self._send(sock, Message(SIGNAL, 0, fields, [LOGIN, old, new]))

    def _logind_properties(self) -> dict[str, tuple[str, Any]]:
        have: dict[str, tuple[str, Any]] = {"InhibitDelayMaxUSec": ("t", self.inhibit_usec), "PreparingForShutdown": ("b", int(self.preparing))}
        if self.kind:
            told = {"preparing": ("b", int(self.preparing)), "type": ("s", self.kind)}
            have["PreparingForShutdownWithMetadata"] = ("a{sv}", told)
        return have
