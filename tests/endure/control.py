#!/usr/bin/python3
"""Days in the life of the controller, in minutes: the real program, whose clock jumps to its next timer when nothing happens.

    control.py --controller PATH --clock fast-clock.so [--days N] [--notices N]

Knows: what happens to it: Lease renewals, watches that end in every way, tokens, outages, rivals, nodes that come and go.
Prints a table, then each promise as kept or missed, then "N passed, N failed".
"""

from __future__ import annotations

import copy
import json
import os
import sys
import tempfile
import threading
import time as true_time
from pathlib import Path
from typing import Any, Callable, Optional

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration"), str(HERE.parent / "fakes")]

from fast import (DAY, Calendar, Clock, Forgetful, NoLog, Samples, Table, cut, make_authority, parse, parser,  # noqa: E402
                  renew_server)

HOUR, MINUTE = 3600.0, 60.0
PAIRS = 50
SPOT_SEC = 120
STUCK_SEC = 120.0  # true time without any request
LEASE = ("--lease-duration", "15s", "--renew-deadline", "10s", "--retry-period", "2s")  # client-go's


class Days(Calendar):
    """All that happens, driven by the program's own requests: the Lease is renewed every two seconds. Everything here runs
    on the API server's loop."""

    def __init__(self, world: Any, clock: Clock, days: float, notices: int) -> None:
        super().__init__(clock, days)
        self.world, self.notices = world, notices
        self.store = Forgetful(world.api.store, clock)
        self.samples: Optional[Samples] = None
        self.heard = true_time.monotonic()
        self.made = 0
        self.token = ""
        self.away = False

    def tick(self, req: Any) -> bool:
        self.heard = true_time.monotonic()
        self.tick_at(self.clock.passed())
        return False

    def plan(self) -> None:
        api = self.world.api
        for _ in range(PAIRS):
            self.add_pair()
        self.every(MINUTE, "times the API server forgot what was older than 5 minutes", self.store.forget)
        self.every(2 * HOUR, "watches told 410", api.expire)
        self.every(3 * HOUR, "API server connections cut", lambda: cut(api))
        self.every(6 * HOUR, "API server certificates renewed", lambda: (renew_server(api), cut(api)))
        self.every(8 * HOUR, "API server gone for a minute", self.api_away)
        self.every(HOUR, "ServiceAccount tokens renewed", self.renew_token)
        self.every(6 * HOUR, "Leases taken by a rival that dies", self.rival)
        self.every(2 * MINUTE, "Nodes written by kubelets", self.heartbeat)
        self.every(self.days * DAY / 120, "samples", self.sample)
        self.renew_token()
        gap = (self.days * DAY - HOUR) / self.notices
        for i in range(self.notices):
            self.at(0.3 * HOUR + gap * (i + self.dice.uniform(0.0, 0.5)), lambda i=i: self.notice(i))

    # --- objects, changed where the requests are served
    def add_pair(self) -> str:
        self.made += 1
        name = f"n{self.made}"
        self.world.pair(name)
        return name

    def get(self, plural: str, name: str) -> dict[str, Any]:
        api = self.world.api
        return api.store.objects.get((api.resource(plural), "", name)) or {}

    def edit(self, plural: str, name: str, change: Callable[[dict[str, Any]], None]) -> None:
        obj = copy.deepcopy(self.get(plural, name))
        if obj:
            change(obj)
            self.world.api.store.replace(self.world.api.resource(plural), obj)

    def say(self, node: str, word: Optional[dict[str, Any]]) -> None:
        def change(obj: dict[str, Any]) -> None:
            notes = obj["metadata"].setdefault("annotations", {})
            notes.pop("nodeclaimd.io/drain-status", None)
            if word:
                notes["nodeclaimd.io/drain-status"] = json.dumps(word, separators=(",", ":"))

        self.edit("nodes", node, change)

    def nodes(self) -> list[str]:
        return [k[2] for k, o in self.world.api.store.objects.items()
                if k[0].plural == "nodes" and "nodeclaimd.io/drain-status" not in o["metadata"].get("annotations", {})]

    # --- what happens
    def heartbeat(self) -> None:
        stamp = self.clock.strftime("%Y-%m-%dT%H:%M:%SZ", self.clock.gmtime())
        node = self.dice.choice(self.nodes())
        self.edit("nodes", node, lambda o: o["status"]["conditions"][0].update(lastHeartbeatTime=stamp))

    def api_away(self) -> None:
        """Nobody asks meanwhile, so that a thread of its own looks when the minute is over."""
        end = self.clock.passed() + MINUTE

        def go() -> None:
            self.world.api.server.refuse()
            while self.clock.passed() < end:
                true_time.sleep(0.001)
            self.world.api.server.listen()
            self.away = False

        if not self.away:
            self.away = True
            threading.Thread(target=go, daemon=True).start()

    def renew_token(self) -> None:
        """As kubelet renews a ServiceAccount's; the one before is refused ten minutes later."""
        tokens, before = self.world.api.auth.tokens, self.token
        self.token = f"token-{self.clock.passed():.0f}"
        tokens[self.token] = self.world.identity
        part = self.world.token_file.with_suffix(".part")
        part.write_text(self.token)
        part.rename(self.world.token_file)
        if before:
            self.after(10 * MINUTE, lambda: tokens.pop(before, None))

    def rival(self) -> None:
        def change(lease: dict[str, Any]) -> None:
            now = self.clock.strftime("%Y-%m-%dT%H:%M:%S.000000Z", self.clock.gmtime())
            lease["spec"].update(holderIdentity="rival", acquireTime=now, renewTime=now)

        store = self.world.api.store
        for key in [k for k in store.objects if k[0].plural == "leases"]:
            lease = copy.deepcopy(store.objects[key])
            change(lease)
            store.replace(key[0], lease, key[1])

    def sample(self) -> None:
        if self.samples:
            self.samples.take(self.clock.passed() / DAY)

    # --- a notice, from its beginning to its end
    def notice(self, number: int) -> None:
        """Two of three are spot notices, which end the NodeClaim; the others only report, and are withdrawn."""
        node = self.nodes()[0]
        is_spot = number % 3 != 0
        end = int(self.clock.time()) + SPOT_SEC
        word = {"id": f"w-{number}", "source": "spot" if is_spot else "rebalance", "phase": "Detected",
                "deadline": self.world.stamp(end) if is_spot else None, "total": 3, "remaining": 3, "blocked": [],
                "updated": self.world.stamp(self.clock.time())}
        self.say(node, word)
        self.mark("notices: " + ("spot" if is_spot else "rebalance, withdrawn"))
        self.after(100 if is_spot else 60, lambda: self.ended(number, node, is_spot))

    def ended(self, number: int, node: str, is_spot: bool) -> None:
        meta = self.get("nodeclaims", f"c-{node}").get("metadata", {})
        stamped = "karpenter.sh/nodeclaim-termination-timestamp" in meta.get("annotations", {})
        deleted = "deletionTimestamp" in meta
        if stamped != is_spot or deleted != is_spot:
            self.wrong.append(f"notice {number}, node {node}, spot {is_spot}: stamped {stamped}, deleted {deleted}")
        else:
            self.mark("relayed once" if is_spot else "withdrawn, nothing was done")
        if not is_spot:
            self.say(node, None)
            return
        store, api = self.world.api.store, self.world.api
        for plural, name in (("nodeclaims", f"c-{node}"), ("nodes", node)):  # Karpenter is done with both
            store.remove((api.resource(plural), "", name), self.get(plural, name))
        self.add_pair()


def make_world(clock: Clock) -> Any:
    import apiserver, controlling, harness, pods, store, watching, wire
    from authz import Identity
    from rbac import CONTROLLER_GROUPS, CONTROLLER_USER

    make_authority(harness.SHARED)
    controlling.ELECTION = LEASE
    clock.stand_in(apiserver, controlling, pods, store, watching, wire)

    class FastWorld(controlling.ControlWorld):
        identity = Identity(CONTROLLER_USER, CONTROLLER_GROUPS)
        stamp = staticmethod(pods.stamp)

        def __init__(self) -> None:
            super().__init__(elects=True)
            self.api.server.loop.time = clock.monotonic
            self.api.server.tls.num_tickets = 0  # what comes on a connection is an answer, nothing else
            self.api.bookmark_sec = 60
            self.api.on_loop = lambda call: call()  # all is done on the loop
            self.token_file = self.folder / "token"

        def __enter__(self) -> "FastWorld":
            super().__enter__()
            doc = json.loads(self.kubeconfig.read_text())
            doc["users"][0]["user"] = {"tokenFile": str(self.token_file)}
            self.kubeconfig.write_text(json.dumps(doc))
            return self

    return FastWorld()


def wait(days: Days, world: Any) -> None:
    while days.clock.passed() < days.days * DAY:
        true_time.sleep(0.05)
        if world.proc.poll() is not None:
            raise SystemExit(f"the controller ended by itself: {world.proc.returncode}\n{world.log_file.read_text()[-3000:]}")
        if days.bugs or true_time.monotonic() - days.heard > STUCK_SEC:
            raise SystemExit(f"stuck on day {days.clock.passed() / DAY:.2f}: {days.bugs[:3]}\n{world.log_file.read_text()[-3000:]}")


def tell(days: Days, world: Any, passed: float, code: int, seconds: float) -> int:
    table, done = Table(), days.done
    log = world.log_file.read_text()
    lines = log.count("\n")
    print(f"the controller, {passed:.1f} days in {seconds:.0f} s")
    table.row("Lease renewals", sum(n for what, n in days.requests.items() if what.endswith(" Lease") and "GET" not in what))
    table.row("API server connections", world.api.server.accepted)
    for what, number in sorted({**days.requests, **done}.items()):
        table.row(f"API server requests: {what}" if what in days.requests else what, number)
    table.passage(days, days.samples, passed, lines)
    spots = done.get("notices: spot", 0)
    table.check(f"each of {spots} spot notices: stamped, and its NodeClaim deleted", done.get("relayed once", 0) == spots)
    table.check("nothing was done about those that only report",
                done.get("withdrawn, nothing was done", 0) == done.get("notices: rebalance, withdrawn", 0))
    table.check("each NodeClaim was asked to go once", days.requests.get("DELETE", 0) <= spots + 2, str(days.requests))
    table.check("log lines: at most 10 a notice, and 500 a day", lines <= 10 * days.notices + 500 * passed, str(lines))
    table.check("it ends with 0", code == 0, str(code))
    return table.end(days, log)


def main() -> int:
    opts = parse(parser("days of the controller, in minutes", "controller", 3))
    os.environ["NODECLAIM_CONTROLLER"] = str(opts.controller.resolve())
    began = true_time.monotonic()
    with tempfile.TemporaryDirectory(prefix="nodeclaimd-clock-") as folder:
        clock = Clock(Path(folder) / "page")
        with make_world(clock) as world:
            days = Days(world, clock, opts.days, opts.notices)
            world.api.server.log = NoLog(days.count)
            days.plan()
            world.api.server.before_request.append(days.tick)
            world.start("--log-level", "info", ready=False, LD_PRELOAD=opts.preload, FAST_CLOCK=str(clock.path))
            days.samples = Samples(world.proc.pid)
            wait(days, world)
            passed = clock.passed() / DAY
            code = world.stop(within=30)
            return tell(days, world, passed, code, true_time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())
