"""Time that jumps, for fakes in Python beside a program under fast-clock.so; and a server that answers IMDS quickly.

Knows: the page that fast-clock.c shares. Gives: `Clock`, `Calendar`, `QuickServer`, `Samples`, `Table`, and the options of both
programs' runs.
Must not: make time jump; the program does.
"""

from __future__ import annotations

import argparse
import heapq
import mmap
import os
import random
import socket
import statistics
import struct
import threading
import time as true_time
from pathlib import Path
from typing import Any, Callable, Optional

PAGE = struct.Struct("=QQQ")
DAY = 86400.0
WARM_DAYS = 1.0
MOST_KIB = 64


def parser(about: str, program: str, days: int) -> argparse.ArgumentParser:
    """The options that both runs have. `days`: how many there are, and have a thousand notices, unless said otherwise."""
    args = argparse.ArgumentParser(description=about)
    args.add_argument(f"--{program}", type=Path, required=True)
    args.add_argument("--clock", type=Path, required=True)
    args.add_argument("--days", type=float, default=days)
    args.add_argument("--notices", type=int, default=0, help=f"1,000 in {days} days unless said otherwise")
    args.add_argument("--preload", default="", help="libraries that must come before the clock, as a sanitizer's")
    return args


def parse(args: argparse.ArgumentParser) -> argparse.Namespace:
    """With the notices that these days have, and with the clock in `preload`."""
    opts = args.parse_args()
    opts.notices = opts.notices or max(5, round(opts.days * 1000 / args.get_default("days")))
    opts.preload = f"{opts.preload} {opts.clock.resolve()}".strip()
    return opts


class Clock:
    """Stands in for the module `time` in the fakes: the same instants as the program sees."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(PAGE.size))
        with open(path, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), PAGE.size)
        self.began = self.monotonic()

    def __getattr__(self, name: str) -> Any:
        return getattr(true_time, name)

    def _ahead(self) -> float:
        return PAGE.unpack_from(self.page)[0] / 1e9

    def time(self) -> float:
        return true_time.time() + self._ahead()

    def monotonic(self) -> float:
        return true_time.monotonic() + self._ahead()

    def gmtime(self, seconds: Optional[float] = None) -> true_time.struct_time:
        return true_time.gmtime(self.time() if seconds is None else seconds)

    def passed(self) -> float:
        return self.monotonic() - self.began

    def jumps(self) -> int:
        return PAGE.unpack_from(self.page)[1]

    def gave_up(self) -> int:
        return PAGE.unpack_from(self.page)[2]

    def stand_in(self, *modules: Any) -> None:
        for module in modules:
            if getattr(module, "time", None) is true_time:
                module.time = self


class Calendar:
    """What happens when, in the program's time. `tick` does what has come due."""

    def __init__(self, clock: Clock, days: float) -> None:
        self.clock, self.days = clock, days
        self.dice = random.Random(6)
        self.due: list[tuple[float, int, Callable[[], None]]] = []
        self.number = 0
        self.next = 0.0
        self.done: dict[str, int] = {}
        self.wrong: list[str] = []
        self.requests: dict[str, int] = {}
        self.bugs: list[str] = []

    def at(self, when: float, call: Callable[[], None]) -> None:
        self.number += 1
        heapq.heappush(self.due, (when, self.number, call))
        self.next = self.due[0][0]

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self.at(self.clock.passed() + seconds, call)

    def every(self, seconds: float, what: str, call: Callable[[], None]) -> None:
        def go() -> None:
            self.mark(what)
            self.after(seconds * self.dice.uniform(0.7, 1.3), go)
            call()

        self.after(seconds * self.dice.uniform(0.2, 1.0), go)

    def mark(self, what: str, number: int = 1) -> None:
        self.done[what] = self.done.get(what, 0) + number

    def tick_at(self, now: float) -> None:
        while self.due and self.next <= now:
            call = heapq.heappop(self.due)[2]
            self.next = self.due[0][0] if self.due else float("inf")
            call()

    def count(self, entry: dict[str, Any]) -> None:
        """Of the API server's requests."""
        if "bug" in entry:
            self.bugs.append(f"{entry['method']} {entry['path']}: {entry['bug']}")
        what = entry["method"] + (" watch" if "watch=" in entry["path"] else " Lease" if "/leases/" in entry["path"] else "")
        for key in (what, f"answered {entry['status']}") if entry["status"] >= 400 else (what,):
            self.requests[key] = self.requests.get(key, 0) + 1


class Forgetful:
    """An API server's store that forgets what is older than five minutes, as etcd's does."""

    def __init__(self, store: Any, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self.versions: list[tuple[float, int]] = []

    def forget(self) -> None:
        store, now = self.store, self.clock.passed()
        self.versions.append((now, store.version))
        while self.versions and self.versions[0][0] < now - 300:
            store.oldest = self.versions.pop(0)[1]
        store.history = [c for c in store.history if c.version > store.oldest]
        for key in [k for k in store.objects if k[0].plural == "events"]:
            del store.objects[key]


def renew_server(api: Any) -> None:
    """A new certificate for the connections that come; on the server's own loop."""
    for suffix in ("crt", "key"):
        (api.ca.folder / f"server.{suffix}").unlink()
    api.server.tls.load_cert_chain(*api.ca.server())


def cut(api: Any) -> None:
    for conn in list(api.server.connections):
        conn.transport.abort()


def make_authority(folder: Path) -> None:
    """A CA that outlives the month, and certificates that do."""
    from pki import Authority, openssl

    Authority.sign.__defaults__ = (400,)
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "400", "-subj",
            "/CN=fake-cluster-ca", "-addext", "basicConstraints=critical,CA:TRUE", "-addext",
            "keyUsage=critical,keyCertSign,cRLSign", "-keyout", str(folder / "ca.key"), "-out", str(folder / "ca.crt"))


class NoLog:
    """Counts requests instead of keeping them: there are too many."""

    def __init__(self, count: Callable[[dict[str, Any]], None] = lambda entry: None) -> None:
        self.count = count
        self.lock = threading.RLock()  # as the real one has

    def add(self, entry: dict[str, Any]) -> None:
        entry["seq"] = 0

    def done(self, entry: dict[str, Any]) -> None:
        self.count(entry)

    def snapshot(self) -> list[dict[str, Any]]:
        return []

    def clear(self) -> None:
        pass

    def close(self) -> None:
        pass


class QuickServer:
    """Serves an `Imds` in place of its own server: one thread a connection, nothing remembered. `tick` is called before each
    answer, so that what it does happens at that moment of the program's time; what it returns, if anything, is the answer."""

    def __init__(self, imds: Any, clock: Clock, make_request: Callable[..., Any]) -> None:
        self.imds, self.clock, self.make_request = imds, clock, make_request
        self.tick: Callable[[str, str], Optional[Any]] = lambda method, path: None
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.requests: dict[str, int] = {}
        self.accepted = 0
        self.open: set[socket.socket] = set()
        self.ended = False
        self.dated = (0, b"")
        self.failure: Optional[BaseException] = None

    def start(self, listening: bool = True) -> None:
        self.socket.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        self.ended = True
        self.socket.close()
        self.drop()

    def drop(self) -> None:
        for conn in list(self.open):
            try:
                conn.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is gone already

    def _accept(self) -> None:
        while not self.ended:
            try:
                conn, _ = self.socket.accept()
            except OSError:
                return
            conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.accepted += 1
            self.open.add(conn)
            threading.Thread(target=self._serve, args=(conn,), daemon=True).start()

    def _serve(self, conn: socket.socket) -> None:
        try:
            self._turn(conn)
        except OSError:
            pass  # the program is gone, or was dropped
        except BaseException as exc:  # a bug of the test must end it, not hang it
            self.failure = exc
        finally:
            self.open.discard(conn)
            conn.close()

    def _turn(self, conn: socket.socket) -> None:
        data = b""
        known: dict[bytes, tuple[str, str, dict[str, str]]] = {}
        while True:
            got = conn.recv(8192)
            if not got:
                return
            data += got
            if not data.endswith(b"\r\n\r\n"):
                continue  # nobody sends a body, nor a request before the last answer
            if data not in known:
                known.clear()
                known[data] = self._parse(data)
            method, path, headers = known[data]
            data = b""
            answer = self.tick(method, path)
            if answer is None:
                answer = self.imds.handle(self.make_request(method, path, headers, b"", None, 0.0))
            self.requests[path] = self.requests.get(path, 0) + 1
            conn.sendall(self._head(answer) + answer.body)

    @staticmethod
    def _parse(data: bytes) -> tuple[str, str, dict[str, str]]:
        lines = data.decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ")
        return method, path, {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:] if line)}

    def _head(self, answer: Any) -> bytes:
        now = int(self.clock.time())
        if self.dated[0] != now:
            text = true_time.strftime("%a, %d %b %Y %H:%M:%S GMT", true_time.gmtime(now))
            self.dated = (now, text.encode())
        more = "".join(f"{k}: {v}\r\n" for k, v in answer.headers.items()).encode()
        return b"HTTP/1.1 %d X\r\nContent-Type: %s\r\nDate: %s\r\nContent-Length: %d\r\n%s\r\n" % (
            answer.status, answer.content_type.encode(), self.dated[1], len(answer.body), more)


def memory_kib(pid: int) -> int:
    """What is private and written to."""
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return next(int(row.split()[1]) for row in rows if row.startswith("Private_Dirty"))


def size_of(*folders: Path) -> int:
    return sum(p.stat().st_size for folder in folders for p in folder.rglob("*") if p.is_file())


class Samples:
    """What a process holds, over the days."""

    def __init__(self, pid: int, *folders: Path) -> None:
        self.pid, self.folders = pid, folders
        self.rows: list[tuple[float, int, int, int, int]] = []

    def take(self, day: float) -> None:
        fds = len(os.listdir(f"/proc/{self.pid}/fd"))
        threads = len(os.listdir(f"/proc/{self.pid}/task"))
        self.rows.append((day, memory_kib(self.pid), fds, threads, size_of(*self.folders)))

    def after(self, day: float) -> list[tuple[float, int, int, int, int]]:
        return [row for row in self.rows if row[0] >= day]


def growth(points: list[tuple[float, float]]) -> float:
    """Of the line that fits best, from the first point to the last."""
    if len(points) < 3:
        return 0.0
    slope = statistics.linear_regression([p[0] for p in points], [p[1] for p in points]).slope
    return slope * (points[-1][0] - points[0][0])


class Table:
    def __init__(self) -> None:
        self.passed = self.failed = 0

    @staticmethod
    def row(what: str, value: object) -> None:
        text = f"{value:,}" if isinstance(value, int) else f"{value:,.1f}" if isinstance(value, float) else str(value)
        print(f"  {what:58} {text:>16}", flush=True)

    def check(self, text: str, kept: bool, more: str = "") -> None:
        self.passed += kept
        self.failed += not kept
        print(f"  {'kept  ' if kept else 'MISSED'}  {text}" + (f": {more}" if more and not kept else ""), flush=True)

    def passage(self, calendar: Calendar, samples: Samples, days: float, lines: int) -> None:
        """How the time has passed: the clock, what the process held, what has gone wrong."""
        self.row("jumps of the clock", calendar.clock.jumps())
        self.row("answers that never came", calendar.clock.gave_up())
        self.holds(samples, days, lines)
        for text in calendar.wrong[:5] + calendar.bugs[:5]:
            print(f"  {text}")

    def end(self, calendar: Calendar, log: str) -> int:
        """The sum, with the end of the log where something was missed; the exit code."""
        self.check("the fakes have no bug", not calendar.bugs)
        print(f"{self.passed} passed, {self.failed} failed")
        if self.failed:
            print(log[-4000:])
        return 1 if self.failed else 0

    def holds(self, samples: Samples, days: float, lines: int) -> None:
        """Memory, descriptors, threads and files, once all that happens has happened a few times."""
        warm = max(days / 10, WARM_DAYS)
        rows = samples.after(warm)
        self.row("private memory by tenths of the time, KiB", " ".join(
            str(r[1]) for r in samples.rows[:: max(1, len(samples.rows) // 10)]))
        self.row("descriptors: least, most", f"{min(r[2] for r in samples.rows)} {max(r[2] for r in samples.rows)}")
        self.row("bytes of state: least, most", f"{min(r[4] for r in samples.rows)} {max(r[4] for r in samples.rows)}")
        self.row("log lines a day", lines / days)
        self.check("one thread", {r[3] for r in samples.rows} == {1})
        if len(rows) < 20:
            print(f"  (growth is judged from day {warm:.1f} on: this was too short)")
            return
        half = len(rows) // 2
        grown = growth([(r[0], float(r[1])) for r in rows])
        self.row(f"private memory from day {warm:.1f} on: least, most, KiB", f"{min(r[1] for r in rows)} {max(r[1] for r in rows)}")
        self.row("its growth by the fitted line, KiB", grown)
        self.check(f"private memory grows by at most {MOST_KIB} KiB", grown <= MOST_KIB, f"{grown:.0f}")
        self.check("its second half holds no more descriptors than its first, but for two",
                   max(r[2] for r in rows[half:]) <= max(r[2] for r in rows[:half]) + 2)
        self.check("no file of its state grows, but for a kilobyte",
                   max(r[4] for r in rows[half:]) <= max(r[4] for r in rows[:half]) + 1024)
