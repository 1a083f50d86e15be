"""The ways in which an answer over the network can go wrong: the columns of the matrix.

Knows: what each way does to a fake, and what it means to a peer (`meaning`), in words that no program was asked for.
Gives: `WAYS`, `Way`, `Aim`, `Strike`.
Must not: know who asks, or what is promised; promises.py does.
"""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Optional

from pki import Authority, openssl
from wire import Fault, WireServer

DRIP_SEC = 1.5  # between two bytes
REASONS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired"}
REASONS |= {422: "Invalid", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}


@dataclass(frozen=True)
class Aim:
    """Which requests: of whom (in the User-Agent), by method and by a regular expression over the target."""

    method: str = ""
    path: str = ""
    agent: str = "^nodeclaim"


@dataclass
class Span:
    """How long: so many requests, or so many seconds from the first one on; neither: until it is healed."""

    count: Optional[int] = None
    for_sec: Optional[float] = None


@dataclass
class Strike:
    """One way at work on one server. `hits`: requests that it met."""

    server: WireServer
    fault: Fault
    heal_server: Callable[[], None] = lambda: None

    @property
    def hits(self) -> int:
        return self.fault.hits

    def is_over(self) -> bool:
        """It will strike no more by itself."""
        fault = self.fault
        if fault.count is not None:
            return fault.hits >= fault.count
        return False

    def heal(self) -> None:
        self.fault.count = 0
        if self.fault in self.server.faults:
            self.server.faults.remove(self.fault)
        self.heal_server()


@dataclass(frozen=True)
class Stage:
    """What a way may need beside the server that it strikes."""

    server: WireServer
    dialect: str  # in which words the server refuses: imds, ec2, kube
    canary: str  # a URL where nobody must ever come
    pki: Path  # a folder with certificates that are no good


Make = Callable[[Stage, Aim, Span], Strike]


@dataclass(frozen=True)
class Way:
    """`meaning`: away, silent, nonsense, redirect, tls, or a status. `needs`: "tls" where only a TLS server can do it.
    `is_slow`: it is only known when a request's own time is over, or much has come. `is_wide`: it
    is the whole server's, from the first request that it meets."""

    name: str
    meaning: str
    make: Make = field(repr=False, compare=False)
    needs: str = ""
    is_slow: bool = False
    is_wide: bool = False


# --- one request
def simple(kind: str, **rule: Any) -> Make:
    def make(stage: Stage, aim: Aim, span: Span) -> Strike:
        made = stage.server.fault(
            kind, method=aim.method, path=aim.path, agent=aim.agent, count=span.count, for_sec=span.for_sec, **rule
        )
        return Strike(stage.server, made)

    return make


def body(text: str, kind: str = "application/json") -> Make:
    return simple("body", body=text, content_type=kind)


def refusal(dialect: str, status: int) -> tuple[str, str]:
    """(body, content type) as the real thing words it."""
    name = REASONS[status]
    if dialect == "kube":
        text = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": name}
        return json.dumps({**text, "message": f"{name} by the test", "code": status}), "application/json"
    if dialect == "ec2":
        error = f"<Error><Code>{name}</Code><Message>{name} by the test</Message></Error>"
        return f'<?xml version="1.0"?><Response><Errors>{error}</Errors></Response>', "text/xml"
    return f"<html><head><title>{status} - {name}</title></head><body>{name}</body></html>", "text/html"


def status(code: int, **headers: str) -> Make:
    def make(stage: Stage, aim: Aim, span: Span) -> Strike:
        text, kind = refusal(stage.dialect, code)
        names = {k.replace("_", "-"): v for k, v in headers.items()}
        return simple("status", status=code, body=text, content_type=kind, headers=names)(stage, aim, span)

    return make


def redirect(stage: Stage, aim: Aim, span: Span) -> Strike:
    headers = {"Location": stage.canary + "/elsewhere"}
    return simple("status", status=307, body="elsewhere", headers=headers)(stage, aim, span)


# --- the whole server, from the first such request on
def server_wide(
    context: Callable[[Stage], Optional[ssl.SSLContext]] = lambda stage: None,
    listening: bool = True,
    blunt: Optional[bytes] = None,
) -> Make:
    """For the time of the span (a count is taken for tenths of seconds) nobody else gets through either."""

    def make(stage: Stage, aim: Aim, span: Span) -> Strike:
        server = stage.server
        own = server.tls
        state: list[str] = []  # changed, healed

        def back() -> None:
            if state == ["changed"]:
                server.become(own)
            state.append("healed")

        def change() -> None:
            if state:
                return
            state.append("changed")
            server.become(context(stage), listening, blunt)
            seconds = span.for_sec if span.for_sec is not None else span.count and span.count * 0.3
            if seconds is not None:
                server.loop.call_later(seconds, back)

        made = server.fault("switch", method=aim.method, path=aim.path, agent=aim.agent, count=1, then=change)
        return Strike(server, made, lambda: server.loop.call_soon_threadsafe(back))

    return make


def bad_certificates(folder: Path, ours: Authority) -> None:
    """Made once, before the workers: by another authority, and one of ours whose time is over."""
    other = Authority(folder, "another-ca")
    other.server("other")
    cert, key = folder / "expired.crt", folder / "expired.key"
    request = openssl(
        *("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
        *("-subj", "/CN=fake-apiserver", "-keyout", str(key)),
    )
    cert.write_bytes(ours.sign(request, "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n", days=0))


def with_certificate(name: str) -> Callable[[Stage], ssl.SSLContext]:
    def made(stage: Stage) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(stage.pki / f"{name}.crt", stage.pki / f"{name}.key")
        return context

    return made


# What a server says that speaks an older TLS only (a fatal alert: protocol_version), and one that speaks none.
TOO_OLD = b"\x15\x03\x02\x00\x02\x02\x46"
NO_TLS = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nbad request"

HUGE_HEADER = "HTTP/1.1 200 OK\r\nX-Filler: " + "A" * (1 << 20) + "\r\nContent-Length: 2\r\n\r\n{}"
HTTP2_FRAME = "\0\0\x12\4\0\0\0\0\0" + "\0\3\0\0\0\x64" * 3
DEEP = '{"a":' * 20000 + "1" + "}" * 20000

WAYS: tuple[Way, ...] = (
    Way("refused", "away", server_wide(listening=False), is_wide=True),
    Way("silent", "silent", simple("silent"), is_slow=True),
    Way("drip", "silent", simple("drip", delay_sec=DRIP_SEC), is_slow=True),
    Way("reset", "away", simple("reset")),
    Way("reset-midway", "away", simple("midway")),
    Way("closed", "away", simple("close")),
    Way("half-closed", "away", simple("half")),
    Way("truncated", "away", simple("truncate")),
    Way("oversized", "nonsense", simple("oversize"), is_slow=True),
    Way("huge-header", "nonsense", simple("raw", body=HUGE_HEADER)),
    Way("not-http", "nonsense", simple("garbage")),
    Way("http-9.9", "nonsense", simple("raw", body="HTTP/9.9 200 OK\r\nContent-Length: 2\r\n\r\n{}")),
    Way("http2-frame", "nonsense", simple("raw", body=HTTP2_FRAME)),
    Way("html", "nonsense", simple("html")),
    Way("array", "nonsense", body("[]\n")),
    Way("empty", "nonsense", body("")),
    Way("nul", "nonsense", body("\0" * 64)),
    Way("bad-utf8", "nonsense", body('{"kind":"\xff\xfe\xc0","a":"\xed\xa0\x80"}')),
    Way("deep", "nonsense", body(DEEP)),
    Way("redirect", "redirect", redirect),
    Way("400", "400", status(400)),
    Way("401", "401", status(401)),
    Way("403", "403", status(403)),
    Way("404", "404", status(404)),
    Way("409", "409", status(409)),
    Way("410", "410", status(410)),
    Way("422", "422", status(422)),
    Way("429", "429", status(429)),
    Way("429-after", "429", status(429, Retry_After="1")),
    Way("500", "5xx", status(500)),
    Way("503", "5xx", status(503)),
    Way("504", "5xx", status(504)),
    Way("wrong-ca", "tls", server_wide(with_certificate("other")), "tls", is_wide=True),
    Way("expired", "tls", server_wide(with_certificate("expired")), "tls", is_wide=True),
    Way("tls-1.1", "tls", server_wide(blunt=TOO_OLD), "tls", is_wide=True),
    Way("no-tls", "tls", server_wide(blunt=NO_TLS), "tls", is_wide=True),
)
