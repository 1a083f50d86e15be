#!/usr/bin/python3
"""A strict IMDSv2 on loopback.

Knows: the token protocol (PUT with a TTL, expiry, 401 without or with a wrong one), the tree of one instance.
Gives: `Imds` for Python tests, and a program with a control port for all others.
Must not: be lenient where the real service is not.

    imds.py --profile m5.large --user-data FILE --port-file P --log L [--listen 127.0.0.1:0] [--control 127.0.0.1:0]
"""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import sys
import time
from pathlib import Path
from typing import Optional

sys.path.insert(0, str(Path(__file__).resolve().parent))

import instances  # noqa: E402
from requestlog import Log, round_trips  # noqa: E402
from wire import Fault, Request, Response, WireServer, control_handler  # noqa: E402

TOKEN_PATH = "/latest/api/token"
TTL_HEADER = "x-aws-ec2-metadata-token-ttl-seconds"
TOKEN_HEADER = "x-aws-ec2-metadata-token"
DATED = ("/2009-04-04/", "/2021-03-23/")  # what cloud-init asks without a token when it does not know that it is on AWS


def error_page(status: int, title: str) -> Response:
    page = (
        '<?xml version="1.0" encoding="iso-8859-1"?>\n<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN"\n'
        '\t"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">\n'
        f'<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en" lang="en">\n <head>\n  <title>{status} - {title}</title>\n'
        f" </head>\n <body>\n  <h1>{status} - {title}</h1>\n </body>\n</html>\n"
    )
    return Response(status, page.encode(), "text/html")


SPOT, REBALANCE = "spot/instance-action", "events/recommendations/rebalance"
MAINTENANCE, TARGET_STATE = "events/maintenance/scheduled", "autoscaling/target-lifecycle-state"


def event_time(epoch: float) -> str:
    """As scheduled events have it: the day may have one digit."""
    parts = time.gmtime(epoch)
    return f"{parts.tm_mday} " + time.strftime("%b %Y %H:%M:%S GMT", parts)


class Imds:
    """`tree` maps a path without its leading slash to its body and may be changed while serving."""

    def __init__(
        self,
        tree: dict[str, bytes],
        host: str = "127.0.0.1",
        port: int = 0,
        log: Optional[Path] = None,
        tokenless_dated: bool = False,
    ) -> None:
        self.tree = tree
        self.tokenless_dated = tokenless_dated
        self.tokens: dict[str, float] = {}
        self.clock_ahead_sec = 0.0  # EC2's clock, of this machine's
        self.server = WireServer(self.handle, host, port, Log(log))
        self.server.clock = self.now

    def now(self) -> float:
        return time.time() + self.clock_ahead_sec

    @classmethod
    def of(cls, profile: str, user_data: Optional[bytes] = None, **more: object) -> "Imds":
        return cls(instances.tree(instances.PROFILES[profile], user_data), **more)  # type: ignore[arg-type]

    @property
    def url(self) -> str:
        return self.server.url

    def __enter__(self) -> "Imds":
        self.server.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self.server.stop()

    def revoke_tokens(self) -> None:
        self.tokens.clear()

    # --- what EC2 announces; None takes it back
    def put(self, path: str, body: Optional[str]) -> None:
        if body is None:
            self.tree.pop("latest/meta-data/" + path, None)
        else:
            self.tree["latest/meta-data/" + path] = body.encode()

    def spot(self, in_sec: Optional[float], action: str = "terminate") -> str:
        """The time that is announced, as it is announced."""
        when = "" if in_sec is None else instances.rfc3339(self.now() + in_sec)
        self.put(SPOT, json.dumps({"action": action, "time": when}) if when else None)
        self.put("spot/termination-time", when if when and action == "terminate" else None)
        return when

    def rebalance(self, announced: bool = True) -> None:
        self.put(REBALANCE, json.dumps({"noticeTime": instances.rfc3339(self.now())}) if announced else None)

    def maintenance(self, *events: dict[str, str]) -> None:
        self.put(MAINTENANCE, json.dumps(list(events), indent=2))

    def maintenance_event(self, in_sec: float, code: str = "system-reboot", **more: str) -> dict[str, str]:
        return {
            "NotBefore": event_time(self.now() + in_sec),
            "Code": code,
            "Description": "scheduled reboot",
            "EventId": "instance-event-0d59937288b749b32",
            "NotAfter": event_time(self.now() + in_sec + 1200),
            "State": "active",
            **more,
        }

    def target_state(self, state: Optional[str]) -> None:
        self.put(TARGET_STATE, state)

    # --- the protocol
    def handle(self, req: Request) -> Response:
        if req.path == TOKEN_PATH:
            return self._token(req)
        if req.method not in ("GET", "HEAD"):
            return error_page(405, "Method Not Allowed")
        path = self._dated(req)
        if path is None:
            state = self._token_state(req)
            req.note["token"] = state
            if state != "ok":
                return error_page(401, "Unauthorized")
            path = req.path
        return self._body(path)

    def _token(self, req: Request) -> Response:
        if req.method != "PUT":
            return error_page(405, "Method Not Allowed")
        if "x-forwarded-for" in req.headers:
            return error_page(403, "Forbidden")
        ttl = req.headers.get(TTL_HEADER, "")
        if not ttl.isdigit() or not 1 <= int(ttl) <= 21600:
            return error_page(400, "Bad Request")
        token = "AQAEA" + secrets.token_urlsafe(39) + "=="
        self.tokens[token] = time.monotonic() + int(ttl)
        return Response(200, token.encode(), headers={"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": ttl})

    def _token_state(self, req: Request) -> str:
        given = req.headers.get(TOKEN_HEADER)
        if given is None:
            return "missing"
        if given not in self.tokens:
            return "wrong"
        return "ok" if time.monotonic() < self.tokens[given] else "expired"

    def _dated(self, req: Request) -> Optional[str]:
        if not self.tokenless_dated:
            return None
        prefix = next((p for p in DATED if req.path.startswith(p)), None)
        return None if prefix is None else "/latest/" + req.path[len(prefix) :]

    def _body(self, path: str) -> Response:
        name = path.lstrip("/")
        if name in self.tree:
            kind = "application/octet-stream" if name == "latest/user-data" else "text/plain"
            return Response(200, self.tree[name], kind)
        folder = name.rstrip("/") + "/"
        entries = sorted(
            {
                rest[: rest.index("/") + 1] if "/" in rest else rest
                for rest in (p[len(folder) :] for p in list(self.tree) if p.startswith(folder))
            }
        )
        if not entries:
            return error_page(404, "Not Found")
        if folder.endswith("/iam/security-credentials/"):
            entries = [e.rstrip("/") for e in entries]
        return Response(200, "\n".join(entries).encode())

    # --- what a test asks
    def requests(self) -> list[dict[str, object]]:
        return self.server.log.snapshot()

    def round_trips(self) -> int:
        return round_trips(self.requests())


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def main() -> int:
    args = argparse.ArgumentParser(description="a strict IMDSv2 on loopback")
    args.add_argument("--listen", default="127.0.0.1:0")
    args.add_argument(
        "--control", help="HOST:PORT of the switches: PUT /faults, POST /refuse /listen /revoke /heal, GET /log"
    )
    args.add_argument("--profile", choices=sorted(instances.PROFILES), default="m5.large")
    args.add_argument("--tree", type=Path, help="a folder with latest/... instead of a profile")
    args.add_argument("--user-data", type=Path)
    args.add_argument("--tokenless-dated", action="store_true", help=f"serve {' and '.join(DATED)} without a token")
    args.add_argument("--log", type=Path, help="requests as JSON lines")
    args.add_argument("--port-file", type=Path, help="URL, and on a second line the control URL, once it listens")
    args.add_argument("--latency", type=float, default=0.0, help="seconds added to every answer")
    args.add_argument("--appear-after", type=float, default=0.0, help="refuse connections for so many seconds")
    opts = args.parse_args()
    files = instances.load_tree(opts.tree) if opts.tree else instances.tree(instances.PROFILES[opts.profile])
    if opts.user_data:
        files["latest/user-data"] = opts.user_data.read_bytes()
    host, port = address(opts.listen)
    imds = Imds(files, host, port, opts.log, opts.tokenless_dated)
    imds.server.latency_sec = opts.latency
    imds.server.start(listening=opts.appear_after <= 0)
    urls = [imds.url]
    if opts.control:
        host, port = address(opts.control)
        control = WireServer(control_handler(imds.server, {"revoke": imds.revoke_tokens}), host, port).start()
        urls.append(control.url)
    if opts.appear_after > 0:
        imds.server.listen_later(opts.appear_after)
    text = "\n".join(urls) + "\n"
    if opts.port_file:
        part = opts.port_file.with_suffix(".part")
        part.write_text(text)
        part.rename(opts.port_file)
    print(text, end="", flush=True)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})
    imds.server.stop()
    return 0


__all__ = ["Fault", "Imds"]

if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    sys.exit(main())
