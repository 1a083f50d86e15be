"""A real dbus-daemon, with the stand-in of systemd and logind as one of its clients, and strangers as others.

Knows: what the stock policy of a system bus lets whom do: everybody may send signals to everybody, root alone may own the
       names of systemd and logind.
Gives: `RealBus`, in the place of `Bus`; `stranger` runs a program of another user on it.
Must not: know what the program under test makes of a signal.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import dbuswire
from bus import BUS, LOGIN, SYSTEMD, Bus
from dbuswire import CALL, Message, log_in, read_message

NOBODY = 65534
CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <auth>EXTERNAL</auth>
  <listen>{address}</listen>
  <policy context="default">
    <allow user="*"/>
    <deny own="*"/>
    <deny send_type="method_call"/>
    <allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/>
    <allow receive_type="method_return"/>
    <allow receive_type="error"/>
    <allow receive_type="signal"/>
    <allow send_destination="org.freedesktop.DBus" send_interface="org.freedesktop.DBus"/>
  </policy>
  <policy user="root">
    <allow own="org.freedesktop.login1"/>
    <allow own="org.freedesktop.systemd1"/>
    <allow send_destination="org.freedesktop.login1"/>
    <allow send_destination="org.freedesktop.systemd1"/>
  </policy>
</busconfig>
"""

# What a stranger does, after dbuswire's own text: connect, then run the lines that the test gives.
STRANGER = """
import os, socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.connect(chr(0) + sys.argv[1])
log_in(sock)
serial = 0

def send(kind, **more):
    global serial
    serial += 1
    body = more.pop("body", [])
    sock.sendall(Message(kind, 0, more, body).encode(serial))

def call(member, signature="", *body):
    send(CALL, destination="org.freedesktop.DBus", path="/org/freedesktop/DBus", interface="org.freedesktop.DBus",
         member=member, body=list(body), **({"signature": signature} if signature else {}))
    while True:
        answer = read_message(sock)
        if answer.reply_serial == serial:
            return answer

def signal_all(path, interface, member, signature, *body):
    for name in call("ListNames").body[0]:
        if name.startswith(":"):
            send(SIGNAL, destination=name, path=path, interface=interface, member=member, signature=signature,
                 body=list(body))
    send(SIGNAL, path=path, interface=interface, member=member, signature=signature, body=list(body))

def prepare(coming):
    signal_all("/org/freedesktop/login1", "org.freedesktop.login1.Manager", "PrepareForShutdown", "b", coming)

call("Hello")
assert os.getuid() != 0
"""


class RealBus(Bus):
    def __init__(self, folder: Path, root: Path) -> None:
        super().__init__(folder, root)
        self.name = f"nodeclaimd-test-{os.getpid()}-{id(self)}"  # abstract: the folder is not for others
        self.config = folder / "bus.conf"
        self.daemon: "subprocess.Popen[bytes]" = None  # type: ignore[assignment]
        self.strangers: "list[subprocess.Popen[bytes]]" = []

    @property
    def address(self) -> str:
        return f"unix:abstract={self.name}"

    def __enter__(self) -> "RealBus":
        self.config.write_text(CONFIG.format(address=self.address))
        self.daemon = subprocess.Popen(
            ["dbus-daemon", f"--config-file={self.config}", "--nofork", "--nopidfile", "--print-address"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert self.daemon.stdout
        if not self.daemon.stdout.readline():
            raise RuntimeError("dbus-daemon does not start")
        sock = socket.socket(socket.AF_UNIX)
        sock.connect("\0" + self.name)
        log_in(sock)
        self._request(sock, "Hello")
        for name in (SYSTEMD, LOGIN):
            self._request(sock, "RequestName", name, 4)
        self._clients.append(sock)
        threading.Thread(target=self._serve_client, args=(sock,), daemon=True).start()
        return self

    def __exit__(self, *unused: object) -> None:
        for proc in (*self.strangers, self.daemon):
            if proc.poll() is None:
                proc.kill()
            proc.wait(10)
            for pipe in (proc.stdin, proc.stdout):
                if pipe:
                    pipe.close()
        super().__exit__()

    def _request(self, sock: socket.socket, member: str, *body: Any) -> None:
        self._serial += 1
        fields = {"destination": BUS, "path": "/org/freedesktop/DBus", "interface": BUS, "member": member}
        if body:
            fields["signature"] = "su"
        sock.sendall(Message(CALL, 0, fields, list(body)).encode(self._serial))
        while True:
            answer = read_message(sock)
            if answer.reply_serial == self._serial:
                if answer.error:
                    raise RuntimeError(f"{member}: {answer.error} {answer.body}")
                return

    def _serve_client(self, sock: socket.socket) -> None:
        try:
            while True:
                message = read_message(sock)
                if message.type == CALL:
                    self._answer(sock, message)
        except (EOFError, OSError, ValueError):
            return

    def stranger(self, lines: str) -> "subprocess.Popen[bytes]":
        """A program of another user, who is on the bus when it runs `lines`."""
        text = Path(dbuswire.__file__).read_text() + STRANGER + lines
        proc = subprocess.Popen(
            [sys.executable, "-B", "-c", text, self.name],
            cwd="/",
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        self.strangers.append(proc)
        return proc

    def run_stranger(self, lines: str) -> str:
        out, _ = self.stranger(lines).communicate(timeout=60)
        return out.decode()
