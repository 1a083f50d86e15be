#!/usr/bin/python3
"""A month in the life of the daemon, in minutes: the real program, whose clock jumps to its next timer when nothing happens.

    node.py --agent PATH --clock fast-clock.so [--days N] [--notices N] [--certificate]

Knows: what a month holds on a spot instance: polls, tokens, watches that end in every way, outages, rotations, notices.
Prints a table, then each promise as kept or missed, then "N passed, N failed".
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time as true_time
from pathlib import Path
from typing import Any, Callable, Optional

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration"), str(HERE.parent / "fakes")]

from fast import (DAY, Calendar, Clock, Forgetful, NoLog, QuickServer, Samples, Table, cut, make_authority,  # noqa: E402
                  parse, parser, renew_server)

HOUR, MINUTE = 3600.0, 60.0
POLL = "/latest/meta-data/spot/instance-action"
STUCK_SEC = 120.0  # true time without any poll


class Month(Calendar):
    """All that happens, driven by the program's own polls of IMDS: each is a moment between two of its turns."""

    def __init__(self, world: Any, clock: Clock, days: float, notices: int) -> None:
        super().__init__(clock, days)
        self.world, self.notices = world, notices
        self.store = Forgetful(world.api.store, clock)
        self.refuse_until = 0.0  # IMDS answers 503
        self.samples: Optional[Samples] = None
        self.polled = true_time.monotonic()
        self.nudged = 0.0
        self.busy = False  # a notice is under way

    def tick(self, method: str, path: str) -> Any:
        now = self.clock.passed()
        if path == POLL:
            self.polled = true_time.monotonic()
        self.tick_at(now)
        if self.busy or now >= self.nudged + 10:
            self.nudge()
        return self.world.trouble if now < self.refuse_until else None

    def nudge(self) -> None:
        """The API server's loop sleeps by the true clock: it is to see which of its own moments have come, before the
        program goes on."""
        self.nudged = self.clock.passed()
        self.world.api.on_loop(lambda: None)

    def plan(self) -> None:
        world = self.world
        self.every(MINUTE, "times the API server forgot what was older than 5 minutes", lambda: world.api.on_loop(self.store.forget))
        self.every(2 * HOUR, "watches told 410", self.on_api(lambda api: api.expire()))
        self.every(3 * HOUR, "API server connections cut", self.on_api(cut))
        self.every(12 * HOUR, "API server gone for a minute", self.api_away)
        self.every(DAY, "API server certificates renewed", self.renew_server)
        self.every(6 * HOUR, "IMDS tokens forgotten", world.imds.revoke_tokens)
        self.every(HOUR, "IMDS connections cut", world.imds.server.drop)
        self.every(10 * HOUR, "IMDS answered 503 for a minute", self.imds_away)
        self.every(5 * HOUR, "role credentials renewed", self.renew_role)
        if world.wants_token:
            self.every(8 * HOUR, "Kubernetes tokens refused", world.api.auth.revoke_seen)
        else:
            self.every(8 * HOUR, "client certificates renewed", self.renew_client)
        self.every(10 * MINUTE, "the Node's status written by kubelet", self.heartbeat)
        self.every(self.days * DAY / 120, "samples", self.sample)
        gap = (self.days * DAY - 2 * HOUR) / self.notices
        for i in range(self.notices):
            self.at(HOUR + gap * (i + self.dice.uniform(0.0, 0.3)), lambda i=i: self.notice(i))

    # --- what happens
    def on_api(self, call: Callable[[Any], None]) -> Callable[[], None]:
        return lambda: self.world.api.on_loop(lambda: call(self.world.api))

    def api_away(self) -> None:
        if not self.busy:
            self.world.api.server.refuse()
            self.after(MINUTE, self.world.api.server.listen)

    def renew_server(self) -> None:
        self.on_api(renew_server)()
        self.on_api(cut)()

    def renew_client(self) -> None:
        """As kubelet renews its certificate; some time later the old one is refused."""
        auth, before = self.world.api.auth, set(self.world.api.auth.seen)
        self.after(10 * MINUTE, lambda: auth.revoked.update(before))
        ca, pki = self.world.api.ca, self.world.root / "etc/kubernetes/pki"
        for suffix in ("crt", "key"):
            (ca.folder / f"node-{self.world.node_name}.{suffix}").unlink()
        for path in ca.node(self.world.node_name):
            part = pki / "part"
            part.write_bytes(path.read_bytes())
            part.rename(pki / ("node" + path.suffix))

    def imds_away(self) -> None:
        if not self.busy:
            self.refuse_until = self.clock.passed() + MINUTE

    def renew_role(self) -> None:
        self.world.renew_role(self.clock.time(), self.done["role credentials renewed"])

    def heartbeat(self) -> None:
        stamp = self.clock.strftime("%Y-%m-%dT%H:%M:%SZ", self.clock.gmtime())

        def edit(node: dict[str, Any]) -> None:
            for c in node["status"]["conditions"]:
                if c["type"] == "Ready":
                    c["lastHeartbeatTime"] = stamp

        self.world.change_node(edit)

    def sample(self) -> None:
        if self.samples and not self.busy:
            self.samples.take(self.clock.passed() / DAY)

    # --- a notice, from its beginning to its end
    def notice(self, number: int) -> None:
        world, kind = self.world, ("spot", "spot", "spot", "maintenance", "request")[number % 5]
        self.busy = True
        pods = [f"web-{number}-{i}" for i in range(self.dice.randint(1, 30))] if number % 4 == 0 else []
        for name in pods:
            world.pod(name, grace=self.dice.randint(1, 40))
        if kind == "spot":
            world.imds.spot(120)
        elif kind == "maintenance":
            world.imds.maintenance(world.imds.maintenance_event(600))
        else:
            asked = {"id": f"r-{number}", "reason": "endurance", "mode": "graceful", "deadline": None}
            self.annotate(json.dumps(asked))
        self.mark(f"notices: {kind}")
        self.mark("pods of drains", len(pods))
        self.after({"maintenance": 240, "request": 110}.get(kind, 100), lambda: self.withdraw(number, kind))

    def annotate(self, text: Optional[str]) -> None:
        def edit(node: dict[str, Any]) -> None:
            notes = node["metadata"].setdefault("annotations", {})
            notes.pop("nodeclaimd.io/drain-request", None)
            if text:
                notes["nodeclaimd.io/drain-request"] = text

        self.world.change_node(edit)

    def withdraw(self, number: int, kind: str) -> None:
        world = self.world
        left = [k[2] for k in world.api.store.objects if k[0].plural == "pods"]
        if not world.is_cordoned() or world.condition("InterruptionPending")[0] != "True" or left:
            self.wrong.append(f"notice {number} ({kind}): cordoned {world.is_cordoned()}, "
                              f"{world.condition('InterruptionPending')}, left {left}, {world.drain()}")
        else:
            self.mark("cordoned, every pod gone")
        if kind == "spot":
            world.imds.spot(None)
        elif kind == "maintenance":
            world.imds.maintenance()
        else:
            self.annotate(None)
        self.after({"maintenance": 240}.get(kind, 60), lambda: self.calm(number, kind))

    def calm(self, number: int, kind: str) -> None:
        world = self.world
        if world.is_cordoned() or world.condition("InterruptionPending")[0] != "False" or world.annotation():
            self.wrong.append(f"withdrawal {number} ({kind}): cordoned {world.is_cordoned()}, "
                              f"{world.condition('InterruptionPending')}, {world.annotation()}")
        else:
            self.mark("withdrawn, uncordoned")
        self.busy = False


def make_world(opts: argparse.Namespace, clock: Clock) -> Any:
    import apiserver, cluster, harness, imds, instances, pods, running, store, watching, wire
    from wire import Request, Response

    make_authority(harness.SHARED)
    clock.stand_in(apiserver, cluster, imds, instances, pods, running, store, watching, wire)

    class FastWorld(running.DaemonWorld):
        def __init__(self, **more: Any) -> None:
            super().__init__(**more)
            self.api.server.loop.time = clock.monotonic
            self.imds.server.stop()
            self.imds.server = QuickServer(self.imds, clock, Request)
            self.trouble = Response(503, b"busy")
            self.pings = 0

        def _listen(self) -> None:
            try:
                while data := self.notify.recv(65536):
                    self.pings += b"WATCHDOG=1" in data
                    if b"READY=1" in data:
                        self.said.append("READY=1")
            except OSError:
                return  # closed

        def node(self) -> dict[str, Any]:
            return self.api.store.objects.get((running.NODES, "", self.node_name), {})

        def renew_role(self, now: float, number: int) -> None:
            """New keys, valid for six hours; the ones before are still accepted, those before them are not."""
            access, secret, session = f"ASIA{number:016d}", f"secret/{number}", f"session/{number}//"
            doc = {"Code": "Success", "LastUpdated": instances.rfc3339(now), "Type": "AWS-HMAC", "AccessKeyId": access,
                   "SecretAccessKey": secret, "Token": session, "Expiration": instances.rfc3339(now + 6 * HOUR)}
            self.imds.tree[f"latest/meta-data/iam/security-credentials/{instances.ROLE}"] = json.dumps(doc).encode()
            self.api.auth.add_instance(access, secret, session, self.node_name)
            while len(self.api.auth.keys) > 2:
                gone = next(iter(self.api.auth.keys))
                del self.api.auth.keys[gone], self.api.auth.users[gone]

    return FastWorld(token=not opts.certificate)


def wait(month: Month, world: Any, days: float) -> None:
    while month.clock.passed() < days * DAY:
        true_time.sleep(0.05)
        if world.daemon.poll() is not None:
            raise SystemExit(f"the daemon ended by itself: {world.daemon.returncode}\n{world.log()[-3000:]}")
        if world.imds.server.failure:
            raise world.imds.server.failure
        if true_time.monotonic() - month.polled > STUCK_SEC:
            raise SystemExit(f"no poll for {STUCK_SEC} s on day {month.clock.passed() / DAY:.2f}\n{world.log()[-3000:]}")


def main() -> int:
    args = parser("a month of the daemon, in minutes", "agent", 30)
    args.add_argument("--certificate", action="store_true", help="the node speaks with a client certificate, not a token")
    opts = parse(args)
    os.environ["NODECLAIMD"] = str(opts.agent.resolve())
    began = true_time.monotonic()
    with tempfile.TemporaryDirectory(prefix="nodeclaimd-clock-") as folder:
        clock = Clock(Path(folder) / "page")
        with make_world(opts, clock) as world:
            return run(opts, world, clock, began)


def run(opts: argparse.Namespace, world: Any, clock: Clock, began: float) -> int:
    month = Month(world, clock, opts.days, opts.notices)
    world.api.server.log = NoLog(month.count)
    world.imds.server.tick = month.tick
    world.api.bookmark_sec = 60
    world.api.server.tls.num_tickets = 0  # what comes on a connection is an answer, nothing else
    world.start("--log-level", "info", ready=False, LD_PRELOAD=opts.preload, FAST_CLOCK=str(clock.path),
                FAST_CLOCK_QUICK=str(world.imds.server.port), WATCHDOG_USEC="30000000")
    month.samples = Samples(world.daemon.pid, world.root / "run", world.root / "var")
    month.at(0.0, month.plan)
    wait(month, world, opts.days)
    passed = clock.passed() / DAY
    code, _ = world.stop(within=30)
    return tell(month, world, passed, code, true_time.monotonic() - began)


def tell(month: Month, world: Any, days: float, code: int, seconds: float) -> int:
    table, log = Table(), world.log()
    lines = log.count("\n")
    print(f"the daemon, {days:.1f} days in {seconds:.0f} s ({'a token' if world.wants_token else 'a certificate'})")
    asked = world.imds.server.requests
    table.row("polls for a spot notice", asked.get(POLL, 0))
    table.row("IMDS requests", sum(asked.values()))
    table.row("IMDS session tokens", asked.get("/latest/api/token", 0))
    table.row("IMDS connections", world.imds.server.accepted)
    table.row("times it asked for role credentials", sum(n for p, n in asked.items() if "security-credentials/" in p))
    table.row("API server connections", world.api.server.accepted)
    for what, number in sorted(month.requests.items()):
        table.row(f"API server requests: {what}", number)
    table.row("watchdog pings", world.pings)
    for what, number in sorted(month.done.items()):
        table.row(what, number)
    table.passage(month, month.samples, days, lines)
    done = month.done
    table.check(f"each of {month.notices} notices: cordoned, signalled, every pod gone",
                done.get("cordoned, every pod gone") == month.notices)
    table.check("each withdrawal: uncordoned and unsaid", done.get("withdrawn, uncordoned") == month.notices)
    table.check("log lines: at most 20 a notice, and 500 a day", lines <= 20 * month.notices + 500 * days, str(lines))
    table.check("it ends with 0, nothing is left of it on the Node", code == 0 and not world.is_cordoned()
                and not world.annotation() and world.condition("InterruptionPending")[0] == "False", str(code))
    return table.end(month, log)


if __name__ == "__main__":
    sys.exit(main())
