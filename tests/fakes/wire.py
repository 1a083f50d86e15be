"""HTTP/1.1 on loopback, with faults on demand.

Knows: bytes on a connection, keep-alive, TLS, what went over the wire and when (the request log).
Gives: `WireServer`, which calls one plain function a request, in a thread of its own, and can be told to misbehave.
Must not: know anything about IMDS or Kubernetes.

Everything runs on one asyncio loop, so that the log's order is the true order and a request costs microseconds: the cost
figures of the program under test are not to be those of its peer.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Callable, Iterator, Optional
from urllib.parse import parse_qs, unquote, urlsplit

from requestlog import Log

MAX_HEAD_BYTES = 64 * 1024
MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_LOGGED_BYTES = 16 * 1024
SLOW_KINDS = ("delay", "status", "body")  # those whose answer comes after delay_sec
PUMP_BYTES = 1 << 20
CALL_SEC = 10.0  # in which a function of a test is run by the loop; more where a machine is busy and its objects are thousands

FAULT_KINDS = (
    *("status", "html", "truncate", "drip", "oversize", "silent", "close", "reset", "delay", "garbage", "body"),
    *("half", "hold", "lost", "raw", "midway", "switch"),
)


@dataclass
class Request:
    """One request as it arrived; `headers` has lower-case names."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    conn: "Connection"
    recv: float
    path: str = ""
    query: dict[str, str] = field(default_factory=dict)
    note: dict[str, Any] = field(default_factory=dict)  # what the handler wants to see in the log

    def __post_init__(self) -> None:
        parts = urlsplit(self.target)
        self.path = unquote(parts.path)
        self.query = {k: v[-1] for k, v in parse_qs(parts.query, keep_blank_values=True).items()}


@dataclass
class Response:
    status: int
    body: bytes = b""
    content_type: str = "text/plain"
    headers: dict[str, str] = field(default_factory=dict)
    # Given for an answer without an end (a watch): called with a function that sends one chunk (None ends the answer).
    # It returns what to call when the connection goes away.
    # `parts` instead of `body`: a long answer, made while it is sent.
    parts: Optional[Iterator[bytes]] = None
    stream: Optional[Callable[[Callable[[Optional[bytes]], None]], Callable[[], None]]] = None


Handler = Callable[[Request], Response]


@dataclass
class Fault:
    """What goes wrong, for which requests, how often.

    `path` is searched as a regular expression in the request's target; the first `skip` matches pass unharmed, then `count`
    matches (None: all) are hit, and only during `for_sec` seconds after the first match when that is given.
    `agent` is searched in the User-Agent: whose requests. half: our side of the connection is shut, theirs stays open, there
    is no answer. hold: the request is carried out, the answer waits for `release`. lost: the request is carried out, its
    answer is not sent and the connection is gone. midway: half of the answer's body, then the connection is reset. raw:
    `body` is all that is sent, header and all. switch: the connection is reset, and `then` is called, which may change the
    whole server.
    """

    kind: str
    path: str = ""
    method: str = ""
    agent: str = ""
    skip: int = 0
    count: Optional[int] = None
    for_sec: Optional[float] = None
    status: int = 503
    body: str = ""
    content_type: str = "text/html"
    headers: dict[str, str] = field(default_factory=dict)
    delay_sec: float = 0.0
    bytes: int = 64 * 1024 * 1024
    seen: int = 0
    hits: int = 0
    first: float = 0.0
    held: list[Callable[[], None]] = field(default_factory=list, repr=False)
    then: Optional[Callable[[], None]] = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in FAULT_KINDS:
            raise ValueError(f"no such fault: {self.kind!r} (one of {', '.join(FAULT_KINDS)})")

    def strikes(self, req: Request) -> bool:
        if self.method and self.method != req.method:
            return False
        if self.path and not re.search(self.path, req.target):
            return False
        if self.agent and not re.search(self.agent, req.headers.get("user-agent", "")):
            return False
        now = time.monotonic()
        self.first = self.first or now
        self.seen += 1
        if self.seen <= self.skip or (self.count is not None and self.hits >= self.count):
            return False
        if self.for_sec is not None and now - self.first >= self.for_sec:
            return False
        self.hits += 1
        return True


class Connection(asyncio.Protocol):
    """One accepted connection: parses requests one after the other, answers in order."""

    def __init__(self, server: "WireServer", number: int, turn: int) -> None:
        self.server = server
        self.number = number
        self.turn = turn
        self.transport: Any = None
        self.buffer = bytearray()
        self.busy = False
        self.closed = False
        self.on_close: list[Callable[[], None]] = []

    # asyncio's side
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        if self.turn != self.server.turn:
            self.closed = True
            self.transport.abort()
            return
        self.server.connections.add(self)

    def connection_lost(self, exc: Optional[Exception]) -> None:
        self.closed = True
        self.server.connections.discard(self)
        for call in self.on_close:
            call()

    def data_received(self, data: bytes) -> None:
        if self.server.blunt is not None:
            self.transport.write(self.server.blunt)
            self.transport.close()
            self.closed = True
            return
        self.buffer += data
        self._next()

    # ours
    @property
    def peer_certificate(self) -> Optional[dict[str, Any]]:
        obj = self.transport.get_extra_info("ssl_object")
        return obj.getpeercert() if obj else None

    def _next(self) -> None:
        while not self.busy and not self.closed:
            req = self._parse()
            if req is None:
                return
            with self.server.log.lock:  # who sees it in the log sees what it did, too
                self._serve(req)

    def _parse(self) -> Optional[Request]:
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self.buffer) > MAX_HEAD_BYTES:
                self._refuse(431)
            return None
        try:
            lines = self.buffer[:end].decode("latin-1").split("\r\n")
            method, target, version = lines[0].split(" ")
            headers = {}
            for line in lines[1:]:
                name, value = line.split(":", 1)
                if name != name.strip() or name.lower() in headers:
                    raise ValueError("bad or repeated header")
                headers[name.lower()] = value.strip()
            length = int(headers.get("content-length", "0"))
            if version != "HTTP/1.1" or "host" not in headers or not 0 <= length <= MAX_BODY_BYTES:
                raise ValueError("bad request")
            if "transfer-encoding" in headers:
                raise ValueError("no chunked requests here")
        except ValueError:
            self._refuse(400)
            return None
        if len(self.buffer) < end + 4 + length:
            if headers.get("expect", "").lower() == "100-continue" and not self.transport.is_closing():
                headers["expect"] = ""
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return None
        body = bytes(self.buffer[end + 4 : end + 4 + length])
        del self.buffer[: end + 4 + length]
        return Request(method, target, headers, body, self, time.monotonic())

    def _refuse(self, status: int) -> None:
        entry = {
            "time": time.time(),
            "recv": time.monotonic(),
            "sent": time.monotonic(),
            "method": "?",
            "path": "?",
            "status": status,
            "conn": self.number,
            "fault": None,
        }
        self.server.log.add(entry)
        self.server.log.done(entry)
        self.transport.write(f"HTTP/1.1 {status} Bad\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        self.transport.close()
        self.closed = True

    def _serve(self, req: Request) -> None:
        if any([look(req) for look in self.server.before_request]):
            self._break("reset")
            return
        fault = self.server.fault_for(req)
        entry = {
            "time": time.time(),
            "recv": req.recv,
            "sent": 0.0,
            "method": req.method,
            "path": req.target,
            "status": 0,
            "conn": self.number,
            "agent": req.headers.get("user-agent", ""),
            "fault": fault.kind if fault else None,
        }
        if 0 < len(req.body) <= MAX_LOGGED_BYTES:
            entry["body"] = req.body.decode("utf-8", "replace")
        self.server.log.add(entry)
        if fault and fault.kind in ("silent", "close", "reset", "half", "switch"):
            self.server.log.done(entry)
            self._break("reset" if fault.kind == "switch" else fault.kind)
            if fault.then:
                fault.then()
            return
        if fault and fault.kind == "raw":
            self.server.log.done(entry)
            self.busy = True
            self.transport.write(fault.body.encode("latin-1"))
            self.transport.close()
            return
        if fault and fault.kind in ("status", "html", "body", "oversize", "garbage"):
            resp = faulty_response(fault)
        else:
            resp = self.server.answer(req)
        entry.update(req.note)
        entry["status"] = resp.status
        if any([look(req) for look in self.server.before_answer]):
            fault = Fault("lost")
        if fault and fault.kind == "lost":
            self.server.log.done(entry)
            self._break("reset")
            return
        if fault and fault.kind == "hold":
            self.busy = True
            fault.held.append(lambda: self._send_later(req, resp, None, entry))
            return
        delay = self.server.latency_sec + (fault.delay_sec if fault and fault.kind in SLOW_KINDS else 0.0)
        if delay > 0:
            self.busy = True
            self.server.loop.call_later(delay, self._send_later, req, resp, fault, entry)
        else:
            self._send(req, resp, fault, entry)

    def _send_later(self, req: Request, resp: Response, fault: Optional[Fault], entry: dict[str, Any]) -> None:
        self.busy = False
        if not self.closed:
            self._send(req, resp, fault, entry)
            self._next()

    def _break(self, kind: str) -> None:
        self.busy = True  # nothing more is read from this connection
        if kind == "reset":
            sock = self.transport.get_extra_info("socket")
            if sock is not None:  # else it is gone already
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            self.transport.abort()
        elif kind == "close":
            self.transport.close()
        elif kind == "half":
            self.transport.get_extra_info("socket").shutdown(socket.SHUT_WR)

    def _send(self, req: Request, resp: Response, fault: Optional[Fault], entry: dict[str, Any]) -> None:
        if fault and fault.kind == "garbage":
            self.transport.write(b"\x16\x03\x01 this is not HTTP at all\n\n")
            self.transport.close()
            self.server.log.done(entry)
            return
        head = f"HTTP/1.1 {resp.status} {reason(resp.status)}\r\n"
        headers = {"Content-Type": resp.content_type, "Date": http_date(self.server.clock()), **resp.headers}
        if resp.stream or resp.parts:
            headers["Transfer-Encoding"] = "chunked"
        else:
            headers["Content-Length"] = str(fault.bytes if fault and fault.kind == "oversize" else len(resp.body))
        close = req.headers.get("connection", "").lower() == "close"
        if close:
            headers["Connection"] = "close"
        raw = (head + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n").encode("latin-1")
        entry["bytes"] = len(resp.body)
        entry["sent"] = time.monotonic()
        self.server.log.done(entry)
        if fault and fault.kind in ("midway", "truncate", "drip") and (resp.stream or resp.parts):
            resp = Response(resp.status, b'4000\r\n{"type":"ADDED","object":{"kind":"')  # a chunk that never ends
        if fault and fault.kind == "midway":
            self.busy = True
            self.transport.write(raw + resp.body[: len(resp.body) // 2])
            self.server.loop.call_later(0.01, self._break, "reset")  # what was written is to arrive
        elif resp.stream:
            self._start_stream(raw, resp)
        elif resp.parts:
            self.transport.write(raw)
            self._pump(resp.parts)
        elif fault and fault.kind == "truncate":
            self.transport.write(raw + resp.body[: len(resp.body) // 2])
            self.transport.close()
        elif fault and fault.kind == "drip":
            self.transport.write(raw)
            self._drip(resp.body, fault.delay_sec or 1.0)
        elif fault and fault.kind == "oversize":
            self.transport.write(raw)
            self._flood(fault.bytes)
        else:
            self.transport.write(raw + (b"" if req.method == "HEAD" else resp.body))
            if close:
                self.transport.close()

    def _drip(self, body: bytes, interval_sec: float) -> None:
        self.busy = True
        if self.closed or not body:
            self.busy = False
            return
        self.transport.write(body[:1])
        self.server.loop.call_later(interval_sec, self._drip, body[1:], interval_sec)

    def _flood(self, left: int) -> None:
        self.busy = True
        if self.closed or left <= 0:
            self.busy = False
            return
        if self.transport.get_write_buffer_size() < 1 << 20:
            self.transport.write(b"A" * min(left, 65536))
            left -= 65536
        self.server.loop.call_later(0.0005, self._flood, left)

    def _pump(self, parts: Iterator[bytes]) -> None:
        self.busy = True
        for _ in range(8):  # then the loop may notice that nobody is there any more
            if self.closed or self.transport.get_write_buffer_size() >= PUMP_BYTES:
                break
            data = next(parts, None)
            if data is None:
                self.transport.write(b"0\r\n\r\n")
                self.busy = False
                self.server.loop.call_soon(self._next)
                return
            self.transport.write(b"%x\r\n%s\r\n" % (len(data), data))
        if not self.closed:
            self.server.loop.call_later(0.0005, self._pump, parts)

    def _start_stream(self, head: bytes, resp: Response) -> None:
        self.busy = True
        self.transport.write(head)

        def chunk(data: Optional[bytes]) -> None:
            if self.closed:
                return
            if data is None:
                self.transport.write(b"0\r\n\r\n")
                self.busy = False
                self._next()
            elif data:
                self.transport.write(b"%x\r\n%s\r\n" % (len(data), data))

        assert resp.stream is not None
        self.on_close.append(resp.stream(chunk))


def reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def http_date(now: float) -> str:
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(now))


def faulty_response(fault: Fault) -> Response:
    if fault.kind == "html":
        page = (
            fault.body
            or "<!DOCTYPE html><html><head><title>Sign in</title></head><body>Welcome to the network</body></html>"
        )
        return Response(200, page.encode(), "text/html; charset=utf-8", dict(fault.headers))
    if fault.kind == "body":
        return Response(200, fault.body.encode("latin-1"), fault.content_type, dict(fault.headers))
    if fault.kind == "oversize":
        return Response(200, b"", "text/plain", dict(fault.headers))
    body = fault.body or f"<html><head><title>{fault.status}</title></head><body>{reason(fault.status)}</body></html>"
    return Response(fault.status, body.encode(), fault.content_type, dict(fault.headers))


class WireServer:
    """A listener on loopback with a loop and a thread of its own.

    `latency_sec` is added to every answer (so that round trips can be told apart); `clock` gives the Date header.
    """

    def __init__(
        self,
        handler: Handler,
        host: str = "127.0.0.1",
        port: int = 0,
        log: Optional[Log] = None,
        tls: Optional[ssl.SSLContext] = None,
    ) -> None:
        self.handler = handler
        self.host = host
        self.port = port
        self.log = log or Log()
        self.tls = tls
        self.latency_sec = 0.0
        self.clock: Callable[[], float] = time.time
        self.faults: list[Fault] = []
        self.blunt: Optional[bytes] = None  # what everybody gets for his first bytes, whatever they were
        # A test looks, or kills somebody: before the request is carried out (and where one says True, it never is and the
        # connection is gone), and after that but before the answer.
        self.before_request: list[Callable[[Request], bool]] = []
        self.before_answer: list[Callable[[Request], bool]] = []
        self.connections: set[Connection] = set()
        self.accepted = 0
        self.turn = 0  # counts how often everybody was sent away: who was accepted before, but not yet known, goes too
        self.loop = asyncio.new_event_loop()
        self._server: Optional[asyncio.AbstractServer] = None
        self._thread = threading.Thread(target=self._run, name=f"wire-{id(self):x}", daemon=True)
        self._held: Optional[socket.socket] = None
        self._hold()

    def _hold(self) -> None:
        """Binds the port without listening: connections are refused, the address is known, and nobody else gets it."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        held = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, or asyncio sets no TCP_NODELAY
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((self.host, self.port))
        self.port = held.getsockname()[1]
        self._held = held

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def _call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(CALL_SEC)

    def start(self, listening: bool = True) -> "WireServer":
        self._thread.start()
        if listening:
            self.listen()
        return self

    def listen(self) -> None:
        self._call(self._open(self.tls))

    async def _open(self, tls: Optional[ssl.SSLContext]) -> None:
        if self._held is not None:  # else somebody listens already
            held, self._held = self._held, None
            self._server = await self.loop.create_server(self._accept(), sock=held, ssl=tls, backlog=512)

    def listen_later(self, after_sec: float) -> None:
        """Connections are refused until then."""
        timer = threading.Timer(after_sec, self.listen)
        timer.daemon = True
        timer.start()

    def become(self, tls: Optional[ssl.SSLContext], listening: bool = True, blunt: Optional[bytes] = None) -> None:
        """On the server's own loop: all connections end, and the port answers so from now on, or not at all."""

        async def go() -> None:
            self.blunt = blunt
            await self._send_away()
            if listening:
                await self._open(tls)

        self.loop.create_task(go())

    def away(self, for_sec: float) -> None:
        """Gone, and back after a while."""
        self.refuse()
        self.listen_later(for_sec)

    def refuse(self, for_good: bool = False) -> None:
        """From now on connections are refused, and the open ones are gone."""
        self._call(self._send_away(for_good))

    async def _send_away(self, for_good: bool = False) -> None:
        """Nobody listens any more, and all connections end. Who is being let in is let in, and then sent away: asyncio leaves
        him hanging where its server closes in between."""
        self.turn += 1
        if self._server is not None:
            server, self._server = self._server, None
            for sock in server.sockets:
                self.loop.remove_reader(sock)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            server.close()
            if not for_good:
                self._hold()
        for conn in list(self.connections):
            conn.transport.abort()

    def stop(self) -> None:
        if self._thread.is_alive():
            self.refuse(for_good=True)
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(10)
            self.loop.close()
        if self._held is not None:
            self._held.close()
        self.log.close()

    def __enter__(self) -> "WireServer":
        return self.start()

    def __exit__(self, *unused: Any) -> None:
        self.stop()

    def _accept(self) -> Callable[[], Connection]:
        turn = self.turn

        def made() -> Connection:
            self.accepted += 1
            return Connection(self, self.accepted, turn)

        return made

    def fault_for(self, req: Request) -> Optional[Fault]:
        return next((f for f in list(self.faults) if f.strikes(req)), None)

    def fault(self, kind: str, **rule: Any) -> Fault:
        made = Fault(kind, **rule)
        self.faults.append(made)
        return made

    def release(self, fault: Fault) -> None:
        """The answers that a fault of kind hold keeps back go out, and no more are kept."""

        def go() -> None:
            fault.count = 0
            for send in fault.held:
                send()
            fault.held.clear()

        self.loop.call_soon_threadsafe(go)

    def heal(self) -> None:
        self.faults.clear()

    def answer(self, req: Request) -> Response:
        try:
            return self.handler(req)
        except Exception as exc:  # a bug of the fake must be seen, not hang the peer
            req.note["bug"] = f"{type(exc).__name__}: {exc}"
            return Response(500, f"the fake failed: {req.note['bug']}".encode())


def control_handler(server: WireServer, actions: dict[str, Callable[[], None]]) -> Handler:
    """Switches for a test that is not Python: PUT /faults (JSON list of rules), POST /ACTION, GET /log."""
    known: dict[str, Callable[[], None]] = {
        "heal": server.heal,
        "listen": server.listen,
        "refuse": server.refuse,
        "clear-log": server.log.clear,
        **actions,
    }

    def handle(req: Request) -> Response:
        if req.method == "GET" and req.path == "/log":
            lines = "".join(json.dumps(e, sort_keys=True) + "\n" for e in server.log.snapshot())
            return Response(200, lines.encode(), "application/jsonl")
        if req.method == "PUT" and req.path == "/faults":
            try:
                server.faults[:] = [Fault(**rule) for rule in json.loads(req.body)]
            except (ValueError, TypeError) as exc:
                return Response(400, f"{exc}\n".encode())
            return Response(200, b"ok\n")
        if req.method == "POST" and req.path[1:] in known:
            known[req.path[1:]]()
            return Response(200, b"ok\n")
        return Response(404, f"no such switch; there are PUT /faults, GET /log, POST /{', /'.join(known)}\n".encode())

    return handle
