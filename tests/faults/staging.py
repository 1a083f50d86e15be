"""What the drivers of all phases share: certificates that are no good, a place where nobody must come, naming of requests.

Gives: `prepare()`, `Canary`, `way()`, `fits()`, `strike()`, `names_in()`, `check_rows()`.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import Any, Iterable

import harness
from cells import Broken
from operations import Operation, name_of, operation
from pki import Authority
from ways import WAYS, Aim, Span, Stage, Strike, Way, bad_certificates
from wire import Request, Response, WireServer

BAD = Path(tempfile.mkdtemp(prefix="nodeclaimd-bad-pki-"))
atexit.register(shutil.rmtree, BAD, ignore_errors=True)
DIALECTS = {"imds": "imds", "api": "kube", "ec2": "ec2"}


def prepare(*nodes: str) -> None:
    """In the parent, before it forks: nobody makes certificates side by side afterwards."""
    ours = Authority(harness.SHARED)
    good, key = ours.server()
    for node in nodes:
        ours.node(node)
    if not (BAD / "expired.crt").exists():
        bad_certificates(BAD, ours)
        shutil.copy(good, BAD / "good.crt")
        shutil.copy(key, BAD / "good.key")


class Canary:
    """Listens, and must never be asked."""

    def __init__(self) -> None:
        self.server = WireServer(self._handle)

    def _handle(self, req: Request) -> Response:
        return Response(200, b"{}")

    def __enter__(self) -> "Canary":
        self.server.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self.server.stop()

    def check(self) -> None:
        """A stranger may come by: the port was another fake's before."""
        came = [e for e in self.server.log.snapshot() if e["path"].startswith("/elsewhere")]
        if came:
            raise Broken(f"a redirect was followed: {came}")


def way(name: str) -> Way:
    return next(w for w in WAYS if w.name == name)


def fits(row: str, column: str) -> bool:
    """Only the API server has a certificate that may be no good."""
    return way(column).needs != "tls" or operation(row).server == "api"


def stage_of(server: WireServer, kind: str, canary: Canary) -> Stage:
    return Stage(server, DIALECTS[kind], canary.server.url, BAD)


def strike(server: WireServer, what: Operation, how: Way, canary: Canary, span: Span, agent: str) -> Strike:
    path = f"^{what.path}$"
    return how.make(stage_of(server, what.server, canary), Aim(what.method, path, agent), span)


def names_in(servers: dict[str, WireServer], agent: str) -> dict[str, list[dict[str, Any]]]:
    """Operation -> requests of those programs; raises where the table does not know one."""
    found: dict[str, list[dict[str, Any]]] = {}
    for kind, server in servers.items():
        for entry in server.log.snapshot():
            if agent not in entry.get("agent", ""):
                continue
            name = name_of(kind, entry)
            if name is None:
                raise Broken(f"operations.py has no name for {kind}: {entry['method']} {entry['path']}")
            found.setdefault(name, []).append(entry)
    return found


def check_rows(found: Iterable[str], rows: Iterable[str], apart: Iterable[str] = ()) -> None:
    """The rows of a phase are what an undisturbed life does, no more and no less; `apart` happens only in disturbed ones."""
    missing = sorted(set(found) - set(rows) - set(apart))
    idle = sorted(set(rows) - set(found))
    if missing or idle:
        raise Broken(f"operations without a row: {missing}; rows of nothing that happens: {idle}")
