#!/usr/bin/python3
"""What the controller costs at 1,000, 10,000 and 50,000 nodes, and how fast it hands on a thousand notices.

The real program against a stream of Nodes and NodeClaims from a process of its own (apistream.py), over TLS and HTTP/2 on
loopback (nghttpx in front of it): what is measured is its own memory, processor time and delay.

    controller.py --controller PATH [--mode standalone] [--idle SECONDS] [--nodes N,N,N] [--notices N] [--gate]

With --gate every Node has the taint nodeclaimd.io/unfit, and in place of the notices all state at once that they are fit.

Prints "name value unit" lines, then each limit as kept or missed, then "N passed, N failed".
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fakes"))

from pki import Authority  # noqa: E402

from daemon import PATIENCE_SEC, Report, cpu_msec, memory_mib, soon

HERE = Path(__file__).resolve().parent
HEARTBEAT_SEC = 300  # a kubelet writes the status of a Node that does not change so often
NOTICE_SEC = 115
OWN_MIB = 32  # at 10,000 nodes
RELAY_SEC = 10


def http2_front(folder: Path, ca: Authority, plain_port: int) -> tuple["subprocess.Popen[bytes]", int]:
    """TLS and HTTP/2 before a server that has neither: its process and its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    cert, key = ca.server()
    options = ["--workers=1", "--backend-read-timeout=1h", "--backend-write-timeout=1h", "--frontend-http2-read-timeout=1h",
               "--backend-connections-per-host=100", "--backend-keep-alive-timeout=1h", "--stream-read-timeout=1h",
               "--no-ocsp", "--accesslog-file=/dev/null"]
    ends = [f"-f127.0.0.1,{port}", f"-b127.0.0.1,{plain_port}"]
    with open(folder / "nghttpx.log", "ab") as log:
        command = ["nghttpx", "--conf=/dev/null", *options, *ends, str(key), str(cert)]
        proc = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def listens() -> bool:
        with socket.socket() as peer:
            return peer.connect_ex(("127.0.0.1", port)) == 0

    soon(listens, "nghttpx")
    return proc, port


class Stream:
    """The process that plays the API server."""

    def __init__(self, folder: Path, nodes: int, has_gate: bool) -> None:
        self.folder, self.nodes = folder, nodes
        self.ca = Authority(folder)
        port_file = folder / f"port-{nodes}"
        command = [sys.executable, str(HERE / "apistream.py"), "--nodes", str(nodes), "--port-file", str(port_file), *(["--gate"] if has_gate else [])]
        self.proc = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        soon(port_file.exists, "the stream's port")
        self.plain = int(port_file.read_text())
        self.conn = http.client.HTTPConnection("127.0.0.1", self.plain, timeout=60)
        self.front, self.port = http2_front(folder, self.ca, self.plain)

    def ask(self, what: str, method: str = "POST") -> dict[str, Any]:
        self.conn.request(method, f"/bench/{what}")
        return json.loads(self.conn.getresponse().read())

    def state(self) -> dict[str, Any]:
        return self.ask("state", "GET")

    def kubeconfig(self) -> Path:
        path = self.folder / "kubeconfig"
        cluster = {"server": f"https://127.0.0.1:{self.port}", "certificate-authority": str(self.folder / "ca.crt")}
        doc = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "k", "cluster": cluster}],
            "contexts": [{"name": "k", "context": {"cluster": "k", "user": "k"}}],
            "current-context": "k",
            "users": [{"name": "k", "user": {"token": "t"}}],
        }
        path.write_text(json.dumps(doc))
        path.chmod(0o600)
        return path

    def stop(self) -> None:
        self.conn.close()
        for proc in (self.proc, self.front):
            proc.kill()
            proc.wait()


def peak_mib(pid: int) -> float:
    """What was its own at its peak: the pages of libraries' files, which the kernel maps by rules of its own (4 to 11 MiB of the
    same program), are everybody's."""
    rows = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    kib = {name: int(rows[name].split()[0]) for name in ("VmHWM", "RssFile", "RssShmem")}
    return (kib["VmHWM"] - kib["RssFile"] - kib["RssShmem"]) / 1024


class Bench:
    def __init__(self, opts: argparse.Namespace, folder: Path) -> None:
        self.opts, self.folder, self.report = opts, folder, Report()
        self.proc: Optional["subprocess.Popen[bytes]"] = None

    def start(self, stream: Stream) -> "subprocess.Popen[bytes]":
        command = [str(self.opts.controller.resolve()), "run", "--kubeconfig", str(stream.kubeconfig()), "--mode", self.opts.mode, "--node-identity", "admission"]
        command += ["--no-leader-election", "--metrics-address", "off", "--log-level", "warning"]
        with open(self.folder / "controller.log", "ab") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={"LC_ALL": "C"})

    def wait(self, check: Any, what: str, seconds: float = PATIENCE_SEC) -> Any:
        def go() -> Any:
            assert self.proc
            if self.proc.poll() is not None:
                raise SystemExit(f"the controller ended: {(self.folder / 'controller.log').read_text()[-2000:]}")
            return check()

        return soon(go, f"{what}\n{(self.folder / 'controller.log').read_text()[-2000:]}", seconds)

    def lists(self, stream: Stream, name: str) -> float:
        """Seconds from here to both watches; the first time with the start of the program."""
        begin = time.monotonic()
        spent = cpu_msec(self.proc.pid) if self.proc else 0.0
        if self.proc is None:
            self.proc = self.start(stream)
        else:
            stream.ask("expire")
        self.wait(lambda: min(stream.state()["watching"]) > 0, "both watches")
        took = time.monotonic() - begin
        time.sleep(0.5)  # what came in its last packet
        self.report.line(f"{name}_seconds", took, "s")
        self.report.line(f"{name}_cpu", cpu_msec(self.proc.pid) - spent, "ms")
        return took

    def quiet(self, stream: Stream, name: str, seconds: float) -> float:
        assert self.proc
        stream.ask("clear")
        spent, begin = cpu_msec(self.proc.pid), time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - begin
        spent = (cpu_msec(self.proc.pid) - spent) * 60 / took
        asked = sum(stream.state()["requests"].values())
        self.report.line(f"{name}_cpu_per_minute", spent, "ms")
        self.report.line(f"{name}_requests_per_minute", asked * 60 / took, "requests")
        return spent

    def storm(self, stream: Stream, name: str) -> None:
        assert self.proc
        count = min(self.opts.notices, stream.nodes)
        stream.ask("clear")
        spent = cpu_msec(self.proc.pid)
        stream.ask(f"notices?n={count}&to={NOTICE_SEC}")
        self.wait(lambda: stream.state()["deleted"] >= count, f"{count} relays")
        state = stream.state()
        took = state["last"] - state["noticed"][0]
        asked = sum(n for what, n in state["requests"].items() if not what.endswith("watch"))
        self.report.line(f"{name}_relayed", state["deleted"], "claims")
        self.report.line(f"{name}_relay_seconds", took, "s")
        self.report.line(f"{name}_relay_cpu", cpu_msec(self.proc.pid) - spent, "ms")
        self.report.line(f"{name}_requests_per_notice", asked / count, "requests")
        self.report.limit(f"{stream.nodes} nodes: {count} notices relayed in at most {RELAY_SEC} s, each once, stamped before",
                          took <= RELAY_SEC and state["twice"] == 0 and state["stamped"] == state["deleted"] == count)

    def opening(self, stream: Stream, name: str) -> None:
        assert self.proc
        stream.ask("clear")
        spent = cpu_msec(self.proc.pid)
        stream.ask("fit")
        self.wait(lambda: stream.state()["opened"] >= stream.nodes, "every taint to be removed", 300)
        state = stream.state()
        self.report.line(f"{name}_open_seconds", state["last"] - state["noticed"][0], "s")
        self.report.line(f"{name}_open_cpu", cpu_msec(self.proc.pid) - spent, "ms")
        for what, n in sorted(state["requests"].items()):
            self.report.line(f"{name}_open_{what.replace(' ', '_')}_a_node", n / stream.nodes, "requests")
        self.report.limit(f"{stream.nodes} nodes: each taint is removed once", state["twice"] == 0 and state["opened"] == stream.nodes)

    def size(self, nodes: int) -> dict[str, float]:
        name = f"controller_{nodes}{'_gate' if self.opts.gate else ''}"
        stream, self.proc = Stream(self.folder, nodes, self.opts.gate), None
        try:
            first = self.lists(stream, f"{name}_start")
            state = stream.state()
            assert self.proc
            self.report.line(f"{name}_list_requests", sum(state["requests"].values()), "requests")
            self.report.line(f"{name}_list_mib", state["sent_bytes"] / 1e6, "MB")
            private, resident = memory_mib(self.proc.pid)
            self.report.line(f"{name}_private", private, "MiB")
            self.report.line(f"{name}_resident", resident, "MiB")
            idle = self.quiet(stream, f"{name}_idle", self.opts.idle)
            stream.ask(f"heartbeats?rate={nodes / HEARTBEAT_SEC}")
            self.quiet(stream, f"{name}_with_heartbeats", self.opts.idle / 2)
            stream.ask("heartbeats?rate=0")
            again = self.lists(stream, f"{name}_relist")
            (self.opening if self.opts.gate else self.storm)(stream, name)
            peak = peak_mib(self.proc.pid)
            self.report.line(f"{name}_peak_private", peak, "MiB")
        finally:
            if self.proc:
                self.proc.kill()
                self.proc.wait()
            stream.stop()
        return {"nodes": nodes, "private": private, "resident": resident, "peak": peak, "list": min(first, again), "idle": idle}

    def judge(self, rows: list[dict[str, float]]) -> None:
        for row in rows:
            if row["nodes"] == 10000:
                self.report.limit(f"10,000 nodes: at most {OWN_MIB} MiB of its own, at any moment", row["peak"] <= OWN_MIB)
            self.report.limit(f"{row['nodes']:.0f} nodes: an idle minute costs at most 20 ms", row["idle"] <= 20)
        for small, large in zip(rows, rows[1:]):
            factor = large["nodes"] / small["nodes"]
            what = f"from {small['nodes']:.0f} to {large['nodes']:.0f} nodes"
            self.report.limit(f"{what}: memory grows no faster than they do", large["private"] <= small["private"] * factor)
            self.report.limit(f"{what}: a list takes no longer a node, within a quarter",
                              large["list"] <= max(1.0, small["list"] * factor * 1.25))
        if len(rows) > 2:
            each = [(b["private"] - a["private"]) * 1024 * 1024 / (b["nodes"] - a["nodes"]) for a, b in zip(rows, rows[1:])]
            for row, value in zip(rows[1:], each):
                self.report.line(f"controller_bytes_a_node_up_to_{row['nodes']:.0f}", value, "bytes")
            self.report.limit("a further node costs no more than those before it, within a quarter",
                              each[-1] <= each[-2] * 1.25)


def main() -> int:
    args = argparse.ArgumentParser(description="the controller's cost and delay")
    args.add_argument("--controller", type=Path, required=True)
    args.add_argument("--mode", default="karpenter", choices=("karpenter", "standalone"))
    args.add_argument("--idle", type=float, default=60)
    args.add_argument("--nodes", default="1000,10000,50000")
    args.add_argument("--notices", type=int, default=1000)
    args.add_argument("--gate", action="store_true")
    opts = args.parse_args()
    with tempfile.TemporaryDirectory(prefix="nodeclaim-controller-") as folder:
        bench = Bench(opts, Path(folder))
        bench.judge([bench.size(int(n)) for n in opts.nodes.split(",")])
    print(f"{bench.report.passed} passed, {bench.report.failed} failed")
    return 1 if bench.report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
