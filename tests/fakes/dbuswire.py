"""D-Bus on a unix socket: authentication, messages, marshalling.

Knows: the wire format (little endian) for the types that systemd's interfaces use.
Gives: `Message`, `read_message`, `authenticate`, `log_in`.
Must not: know any interface.
"""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass, field
from typing import Any

CALL, RETURN, ERROR, SIGNAL = 1, 2, 3, 4
FIELDS = {
    1: ("path", "o"),
    2: ("interface", "s"),
    3: ("member", "s"),
    4: ("error", "s"),
    5: ("reply_serial", "u"),
    6: ("destination", "s"),
    7: ("sender", "s"),
    8: ("signature", "g"),
    9: ("unix_fds", "u"),
}
NUMBERS = {name: (number, kind) for number, (name, kind) in FIELDS.items()}
FIXED = {
    "y": ("B", 1),
    "b": ("I", 4),
    "n": ("h", 2),
    "q": ("H", 2),
    "i": ("i", 4),
    "u": ("I", 4),
    "x": ("q", 8),
    "t": ("Q", 8),
    "d": ("d", 8),
    "h": ("I", 4),
}
MAX_BYTES = 1 << 20


def alignment(kind: str) -> int:
    first = kind[0]
    if first in FIXED:
        return FIXED[first][1]
    return {"s": 4, "o": 4, "g": 1, "v": 1, "a": 4, "(": 8, "{": 8}[first]


def split(signature: str) -> list[str]:
    """Complete types, one after the other."""
    out = []
    while signature:
        end = _end(signature, 0)
        out.append(signature[:end])
        signature = signature[end:]
    return out


def _end(signature: str, at: int) -> int:
    if signature[at] == "a":
        return _end(signature, at + 1)
    if signature[at] in "({":
        close = {"(": ")", "{": "}"}[signature[at]]
        at += 1
        while signature[at] != close:
            at = _end(signature, at)
    return at + 1


class Writer:
    def __init__(self) -> None:
        self.data = bytearray()

    def pad(self, to: int) -> None:
        self.data += b"\0" * (-len(self.data) % to)

    def put(self, kind: str, value: Any) -> None:
        self.pad(alignment(kind))
        first = kind[0]
        if first in FIXED:
            self.data += struct.pack("<" + FIXED[first][0], value)
        elif first in "so":
            raw = value.encode()
            self.data += struct.pack("<I", len(raw)) + raw + b"\0"
        elif first == "g":
            self.data += bytes([len(value)]) + value.encode() + b"\0"
        elif first == "v":
            self.put("g", value[0])
            self.put(*value)
        elif first == "a":
            self._array(kind[1:], value)
        else:
            for part, item in zip(split(kind[1:-1]), value):
                self.put(part, item)

    def _array(self, kind: str, items: Any) -> None:
        where = len(self.data)
        self.data += b"\0\0\0\0"
        self.pad(alignment(kind))
        start = len(self.data)
        for item in items.items() if isinstance(items, dict) else items:
            self.put(kind, item)
        self.data[where : where + 4] = struct.pack("<I", len(self.data) - start)


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def get(self, kind: str) -> Any:
        self.at += -self.at % alignment(kind)
        first = kind[0]
        if first in FIXED:
            code, size = FIXED[first]
            self.at += size
            return struct.unpack("<" + code, self.data[self.at - size : self.at])[0]
        if first in "so":
            return self._text(self.get("u"))
        if first == "g":
            return self._text(self.get("y"))
        if first == "v":
            return self.get(self.get("g"))
        if first == "a":
            size = self.get("u")
            self.at += -self.at % alignment(kind[1:])
            end, out = self.at + size, []
            while self.at < end:
                out.append(self.get(kind[1:]))
            return out
        return tuple(self.get(part) for part in split(kind[1:-1]))

    def _text(self, size: int) -> str:
        self.at += size + 1
        return self.data[self.at - size - 1 : self.at - 1].decode()


@dataclass
class Message:
    type: int
    serial: int = 0
    fields: dict[str, Any] = field(default_factory=dict)
    body: list[Any] = field(default_factory=list)
    flags: int = 0

    def __getattr__(self, name: str) -> Any:
        if name in NUMBERS:
            return self.fields.get(name, "")
        raise AttributeError(name)

    def encode(self, serial: int) -> bytes:
        body, head = Writer(), Writer()
        for kind, value in zip(split(self.fields.get("signature", "")), self.body):
            body.put(kind, value)
        for kind, value in zip("yyyy", (ord("l"), self.type, self.flags, 1)):
            head.put(kind, value)
        head.put("u", len(body.data))
        head.put("u", serial)
        head.put("a(yv)", [(NUMBERS[k][0], (NUMBERS[k][1], v)) for k, v in self.fields.items()])
        head.pad(8)
        return bytes(head.data + body.data)


def receive(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def read_message(sock: socket.socket) -> Message:
    head = receive(sock, 16)
    if head[0] != ord("l"):
        raise ValueError("only little endian here")
    body_size, serial, fields_size = struct.unpack("<III", head[4:])
    if body_size + fields_size > MAX_BYTES:
        raise ValueError("too large")
    rest = receive(sock, fields_size + (-fields_size % 8) + body_size)
    reader = Reader(head + rest)
    reader.at = 12
    fields = {FIELDS[number][0]: value for number, value in reader.get("a(yv)") if number in FIELDS}
    body = Reader(rest[fields_size + (-fields_size % 8) :])
    return Message(head[1], serial, fields, [body.get(kind) for kind in split(fields.get("signature", ""))], head[2])


def log_in(sock: socket.socket) -> None:
    """The client's side of SASL EXTERNAL, as whoever we are."""
    for line, answer in (
        (f"\0AUTH EXTERNAL {str(os.geteuid()).encode().hex()}", "OK"),
        ("NEGOTIATE_UNIX_FD", "AGREE_UNIX_FD"),
    ):
        sock.sendall(line.encode() + b"\r\n")
        said = b""
        while not said.endswith(b"\r\n"):
            said += receive(sock, 1)
        if not said.startswith(answer.encode()):
            raise ValueError(f"the bus says {said!r}")
    sock.sendall(b"BEGIN\r\n")


def authenticate(sock: socket.socket) -> None:
    """The server's side of SASL EXTERNAL; everybody is let in."""
    if receive(sock, 1) != b"\0":
        raise ValueError("no nul byte")
    line = b""
    while True:
        line += receive(sock, 1)
        if not line.endswith(b"\r\n"):
            continue
        words = line.decode("ascii").split()
        line = b""
        if words[0] == "BEGIN":
            return
        answer = {
            "AUTH": "OK " + "0" * 32 if len(words) > 2 else "DATA",
            "DATA": "OK " + "0" * 32,
            "NEGOTIATE_UNIX_FD": "AGREE_UNIX_FD",
        }.get(words[0], "ERROR")
        sock.sendall(answer.encode() + b"\r\n")
