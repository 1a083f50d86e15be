"""The DHCP server of a subnet with one instance in it.

Knows: as much of RFC 2131 as systemd-networkd and cloud-init need: discover, request, a lease of one address.
Gives: `Dhcp`, a thread on one interface; `leases`, how often an address was given.
Must not: give an address to an interface that it was not made for.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

DISCOVER, OFFER, REQUEST, ACK = 1, 2, 3, 5
COOKIE = b"\x63\x82\x53\x63"
LEASE_SEC = 3600
HEADER = struct.Struct("!BBBBIHH4s4s4s4s16s64s128s4s")
BROADCAST = 0x8000


def option(code: int, value: bytes) -> bytes:
    return bytes((code, len(value))) + value


def message_type(options: bytes) -> int:
    at = 0
    while at + 2 <= len(options) and options[at] != 255:
        code = options[at]
        if code == 0:
            at += 1
            continue
        size = options[at + 1]
        if code == 53 and size == 1:
            return options[at + 2]
        at += 2 + size
    return 0


class Dhcp:
    def __init__(self, device: str, mac: str, address: str, router: str) -> None:
        self.mac = bytes.fromhex(mac.replace(":", ""))
        self.address, self.router = socket.inet_aton(address), socket.inet_aton(router)
        self.leases = 0
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode() + b"\0")
        self._socket.bind(("0.0.0.0", 67))
        self._thread = threading.Thread(target=self._run, name=f"dhcp {device}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                packet, _ = self._socket.recvfrom(2048)
            except OSError:
                return
            if not packet:
                return
            answer = self._answer(packet)
            if answer:
                self._socket.sendto(answer, ("255.255.255.255", 68))

    def _answer(self, packet: bytes) -> bytes:
        if len(packet) < HEADER.size or packet[HEADER.size - 4 : HEADER.size] != COOKIE:
            return b""
        fields = HEADER.unpack(packet[: HEADER.size])
        kind = {DISCOVER: OFFER, REQUEST: ACK}.get(message_type(packet[HEADER.size :]))
        if kind is None or fields[11][:6] != self.mac:
            return b""
        self.leases += kind == ACK
        options = (
            option(53, bytes((kind,)))
            + option(54, self.router)
            + option(51, struct.pack("!I", LEASE_SEC))
            + option(1, socket.inet_aton("255.255.255.0"))
            + option(3, self.router)
            + b"\xff"
        )
        zero = bytes(4)
        head = HEADER.pack(2, 1, 6, 0, fields[4], 0, BROADCAST, zero, self.address, self.router, zero, *fields[11:14], COOKIE)
        return head + options

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # it was never connected: an error, but the thread wakes up
        self._thread.join(5)
        self._socket.close()
