#!/usr/bin/python3
"""What the files phase costs (from IMDS to the files on disk), beside a program that only loads the same libraries.

Both run alternately in one session against one fake IMDS, so that the ratio holds where the absolute figures do not.

    cost.py --agent PATH --dir DIR [--runs N] [--cold [--libraries DIR]] [--rival COMMAND]

--cold measures the bytes that are read from the disk when nothing of the program and its libraries is cached, with two lengths
of read-ahead (cold.py); of the rival's too, whose executable and libraries lie on the same file system then. With --libraries it
does so once more with what lies there in place of the distribution's libraries of those names: the libcurl of the image that the
program is made for (libcurl-minimal). The limit is held against that one; what the distribution's own reads is only told.

COMMAND is another program for the same phase ("/usr/bin/nodeadm init --skip run"), run in turn with ours against the same IMDS. It
writes where it always writes: into a copy of the machine's folders that ends with the run. nodeadm finds the files of an AMI
and somebody who shakes hands as systemd does; the node is named after the instance, so that nobody asks EC2.

Prints "name value unit" lines, then each limit as kept or missed, then "N passed, N failed".
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import cold

HERE = Path(__file__).resolve().parent
LIBRARIES = ["libcurl", "libsystemd", "libcrypto", "libcjson", "expat", "yaml-0.1", "zlib"]
MEMORY_FOLDER = Path("/dev/shm")
COLD_RUNS = 3
STAGED = "NC_BENCH_STAGED"  # in the environment: what the machine has is copied before it is written to
# What the reference implementation of this phase was measured to cost on such a machine, with version files in place.
NODEADM = {"wall_usec": 32000, "cpu_usec": 23000, "peak_kib": 34 * 1024}
# The bytes that it reads with a cold cache, by read-ahead: two measured by --rival, and one told of a disk of which nothing
# else is known.
NODEADM_READ = {cold.KERNEL: 29_100_000, cold.WHOLE: 62_000_000, cold.UNKNOWN: 44_600_000}


def pkg_config(what: str) -> list[str]:
    return subprocess.run(["pkg-config", what, *LIBRARIES], check=True, capture_output=True, text=True).stdout.split()


def compile_tools(folder: Path) -> tuple[Path, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    measure, baseline = folder / "measure", folder / "baseline"
    flags = ["-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gcc", *flags, "-o", str(measure), str(HERE / "measure.c")], check=True)
    subprocess.run(
        ["gcc", *flags, *pkg_config("--cflags"), "-o", str(baseline), str(HERE / "baseline.c"), *pkg_config("--libs")],
        check=True,
    )
    return measure, baseline


def set_stage(upper: Path) -> None:
    """The folders that a rival writes into, laid over the machine's own in this process and its children alone."""
    upper.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(upper)], check=True)
    for name in ("etc", "run", "var/lib"):
        above, work = upper / name / "above", upper / name / "work"
        above.mkdir(parents=True)
        work.mkdir()
        options = f"lowerdir=/{name},upperdir={above},workdir={work}"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, "/" + name], check=True)
    Path("/etc/eks/image-credential-provider").mkdir(parents=True, exist_ok=True)
    Path("/etc/eks/image-credential-provider/ecr-credential-provider").touch(0o755)
    Path("/etc/eks/kubelet-version.txt").write_text("v1.34.4\n")
    Path("/etc/eks/containerd-version.txt").write_text("containerd github.com/containerd/containerd/v2 v2.1.4 0\n")


def let_in(one: socket.socket) -> None:
    """The handshake of a D-Bus server, and no more."""
    with one, one.makefile("rb") as lines:
        for line in lines:
            words = line.strip(b"\0\r\n ").split(b" ")
            if words[0] == b"BEGIN":
                lines.read(1)  # it goes, or subscribes to signals, and takes it that there are none
                return
            answer = b"OK 0123456789abcdef0123456789abcdef" if words[1:] else b"REJECTED EXTERNAL"
            one.sendall((b"AGREE_UNIX_FD" if words[0] == b"NEGOTIATE_UNIX_FD" else answer) + b"\r\n")


def be_systemd() -> None:
    """nodeadm connects to systemd before it writes its files, and asks it for nothing until it starts the services."""
    Path("/run/systemd").mkdir(exist_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    Path("/run/systemd/private").unlink(missing_ok=True)
    listener.bind("/run/systemd/private")
    listener.listen()

    def serve() -> None:
        while True:
            threading.Thread(target=let_in, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()


class Bench:
    def __init__(self, opts: argparse.Namespace) -> None:
        os.environ["NODECLAIMD"] = str(opts.agent.resolve())
        sys.path.insert(0, str(HERE.parent / "integration"))
        from harness import World, mime

        self.agent = opts.agent.resolve()
        self.measure, self.baseline = compile_tools(opts.dir)
        self.world = World(claim=False)
        if opts.rival:
            by_instance = self.world.node_config(extra="  featureGates: {InstanceIdNodeName: true}\n")
            self.world.set_user_data(mime(("application/node.eks.aws", by_instance)))
        self.passed = self.failed = 0

    def cost(self, count: int, *command: str) -> list[dict[str, Any]]:
        done = subprocess.run(
            [str(self.measure), str(count), *command],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
            env=self.world.environment(AWS_EC2_METADATA_SERVICE_ENDPOINT=self.world.imds.url),
        )
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        bad = [r for r in rows if r["status"] != 0]
        if bad:
            raise SystemExit(f"{command[0]} failed with {bad[0]['status']}: {self.world.console()}")
        return rows

    def agent_command(self, root: Path, *more: str) -> list[str]:
        return [
            str(self.agent),
            "bootstrap",
            "--imds",
            self.world.imds.url,
            "--root",
            str(root),
            "--skip",
            "start",
            *more,
        ]

    def fresh_root(self, folder: Path) -> Path:
        """The files of a bare image: configuration of the test, kubelet's version."""
        root = Path(tempfile.mkdtemp(prefix="nodeclaimd-root-", dir=folder))
        shutil.copytree(self.world.root, root, dirs_exist_ok=True)
        return root

    def alternate(self, runs: int, folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        ours, floor = [], []
        for _ in range(runs):
            root = self.fresh_root(folder)
            floor += self.cost(1, str(self.baseline), self.world.imds.url)
            ours += self.cost(1, *self.agent_command(root))
            shutil.rmtree(root)
        return ours, floor

    def beside(self, rival: list[str], runs: int, folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Ours and theirs by turns. The rival finds IMDS as the AWS SDKs do."""
        ours, theirs = [], []
        for _ in range(runs + 1):
            root = self.fresh_root(folder)
            theirs += self.cost(1, *rival)
            ours += self.cost(1, *self.agent_command(root))
            shutil.rmtree(root)
        return ours[1:], theirs[1:]

    # --- output
    @staticmethod
    def line(name: str, value: float, unit: str) -> None:
        print(f"{name:44} {value:>12,.1f} {unit}" if isinstance(value, float) else f"{name:44} {value:>12,} {unit}")

    def limit(self, text: str, kept: bool) -> None:
        self.passed += kept
        self.failed += not kept
        print(f"  {'kept  ' if kept else 'MISSED'}  {text}")


def median(rows: list[dict[str, Any]], name: str) -> float:
    return float(statistics.median(r[name] for r in rows))


def requests(bench: Bench) -> tuple[int, int, int, int]:
    """(tokens, requests, round trips, connections) of one run with a latency that makes round trips visible."""
    world = bench.world
    world.imds.server.latency_sec = 0.03
    world.imds.server.log.clear()
    root = bench.fresh_root(world.folder)
    bench.cost(1, *bench.agent_command(root))
    rows = world.requests()
    trips = world.imds.round_trips()
    world.imds.server.latency_sec = 0.0
    tokens = sum(r["method"] == "PUT" for r in rows)
    return tokens, len(rows) - tokens, trips, len({r["conn"] for r in rows})


def stripped_bytes(agent: Path, folder: Path) -> int:
    out = folder / "nodeclaimd.stripped"
    subprocess.run(["strip", "-o", str(out), str(agent)], check=True)
    return out.stat().st_size


class Cold:
    """Programs on a disk of which nothing is cached when one of them starts."""

    def __init__(self, bench: Bench, opts: argparse.Namespace, disk: cold.Disk) -> None:
        self.bench, self.disk = bench, disk
        program, *self.arguments = opts.rival.split() or [""]
        with disk.cold(cold.KERNEL):
            self.ours = cold.place(bench.agent, disk.at / "agent", stripped=True)  # as a package installs it
            self.minimal = (
                cold.place(bench.agent, disk.at / "agent-minimal", stripped=True, libraries=opts.libraries)
                if opts.libraries
                else []
            )
            self.rival = cold.place(Path(shutil.which(program) or program), disk.at / "rival", stripped=False) if program else []

    def read(self, read_ahead: int, copy: list[str], arguments: list[str]) -> int:
        with self.disk.cold(read_ahead):
            return int(self.bench.cost(1, *copy, *arguments)[0]["read_bytes"])

    def agent(self, read_ahead: int, copy: list[str]) -> int:
        root = self.bench.fresh_root(self.bench.world.folder)
        return self.read(read_ahead, copy, self.bench.agent_command(root)[1:])

    def rows(self, read_ahead: int) -> dict[str, int]:
        """Bytes read, the median of some runs by turns; without a rival, what such a one was measured to read."""
        found: dict[str, list[int]] = {"distribution": [], "minimal": [], "rival": []}
        for _ in range(COLD_RUNS):
            found["distribution"].append(self.agent(read_ahead, self.ours))
            if self.minimal:
                found["minimal"].append(self.agent(read_ahead, self.minimal))
            found["rival"].append(self.read(read_ahead, self.rival, self.arguments) if self.rival else NODEADM_READ[read_ahead])
        return {name: statistics.median_low(values) for name, values in found.items() if values}


def report_cold(bench: Bench, opts: argparse.Namespace) -> None:
    whose = "the rival's" if opts.rival else "nodeadm's"
    print(f"read from the disk with a cold cache, median of {COLD_RUNS} runs:")
    with cold.disk(opts.dir) as disk:
        programs = Cold(bench, opts, disk)
        for read_ahead in disk.read_aheads:
            rows = programs.rows(read_ahead)
            if min(rows.values()) <= 0:
                print("  the kernel does not count bytes read here, or the folder is in memory: no figure")
                continue
            name = "_whole" if read_ahead == cold.WHOLE else ""
            bench.line(f"cold_read_bytes{name}", rows["distribution"] / 1e6, "MB")
            if "minimal" in rows:
                bench.line(f"cold_read_bytes{name}_minimal", rows["minimal"] / 1e6, "MB")
            bench.line(f"{'rival' if opts.rival else 'nodeadm'}_read_bytes{name}", rows["rival"] / 1e6, "MB")
            where = f"read-ahead of {read_ahead} KiB" if read_ahead else "read-ahead of the disk"
            share = {row: count / rows["rival"] for row, count in rows.items()}
            print(f"  told    cold, {where}, the distribution's libcurl: {share['distribution']:.2f} of {whose} bytes")
            if "minimal" in rows:
                bench.limit(f"cold, {where}: at most half of {whose} bytes ({share['minimal']:.2f})", share["minimal"] <= 0.5)


def report(bench: Bench, opts: argparse.Namespace) -> None:
    on = MEMORY_FOLDER if os.access(MEMORY_FOLDER, os.W_OK) else opts.dir
    bench.alternate(2, on)
    ours, floor = bench.alternate(opts.runs, on)
    disk, _ = bench.alternate(max(3, opts.runs // 6), opts.dir)
    print(f"the files phase, median of {opts.runs} runs, beside a program that loads the same libraries and asks once:")
    for name, unit, scale in (("wall_usec", "ms", 1000), ("cpu_usec", "ms", 1000), ("peak_kib", "MiB", 1024)):
        bench.line(f"files_phase_{name.split('_')[0]}", median(ours, name) / scale, unit)
        bench.line(f"baseline_{name.split('_')[0]}", median(floor, name) / scale, unit)
    bench.line("files_phase_wall_on_disk_with_fsync", median(disk, "wall_usec") / 1000, "ms")
    bench.line("files_phase_minor_faults", median(ours, "minor_faults"), "faults")
    tokens, gets, trips, connections = requests(bench)
    bench.line("imds_tokens", tokens, "requests")
    bench.line("imds_requests", gets, "requests")
    bench.line("imds_round_trips", trips, "round trips")
    bench.line("imds_connections", connections, "connections")
    size = stripped_bytes(bench.agent, opts.dir)
    bench.line("binary_stripped", size / 1024, "KiB")
    wall, cpu = (median(ours, n) / max(1.0, median(floor, n)) for n in ("wall_usec", "cpu_usec"))
    bench.line("wall_to_baseline", wall, "times")
    bench.line("cpu_to_baseline", cpu, "times")
    bench.limit("wall at most twice the baseline", wall <= 2.0)
    bench.limit("CPU at most twice the baseline", cpu <= 2.0)
    bench.limit(
        f"peak memory at most half of {NODEADM['peak_kib'] // 1024} MiB",
        median(ours, "peak_kib") <= NODEADM["peak_kib"] / 2,
    )
    bench.limit("one token, at most 14 requests, at most 3 round trips", tokens == 1 and gets <= 14 and trips <= 3)
    bench.limit("binary at most 640 KiB stripped", size <= 640 * 1024)
    if opts.rival:
        against(bench, opts, on)
    if opts.cold:
        report_cold(bench, opts)


def against(bench: Bench, opts: argparse.Namespace, on: Path) -> None:
    """Ours writes to memory, as the rival's files stay in the page cache where it does not sync them. Ours are synced: what that
    costs on a disk is told."""
    rival = opts.rival.split()
    ours, theirs = bench.beside(rival, opts.runs, on)
    print(f"ours beside {rival[0]}, median of {opts.runs} runs by turns:")
    for name, word, unit, scale in (
        ("wall_usec", "wall time", "ms", 1000),
        ("cpu_usec", "CPU", "ms", 1000),
        ("peak_kib", "peak memory", "MiB", 1024),
    ):
        mine, its = median(ours, name), median(theirs, name)
        bench.line(f"files_phase_{name.split('_')[0]}", mine / scale, unit)
        bench.line(f"rival_{name.split('_')[0]}", its / scale, unit)
        bench.limit(f"{word} at most half of the rival's ({mine / max(1.0, its):.2f})", mine <= its / 2)
    ours, theirs = bench.beside(rival, opts.runs, opts.dir)
    mine, its = median(ours, "wall_usec"), median(theirs, "wall_usec")
    bench.line("files_phase_wall_beside_on_disk_with_fsync", mine / 1000, "ms")
    bench.line("rival_wall_beside_on_disk", its / 1000, "ms")
    print(f"  told    on a disk, each of our files synced: {mine / max(1.0, its):.2f} of the rival's wall time")


def main() -> int:
    args = argparse.ArgumentParser(description="the cost of the files phase")
    args.add_argument("--agent", type=Path, required=True)
    args.add_argument("--dir", type=Path, required=True, help="for what is compiled here")
    args.add_argument("--runs", type=int, default=30)
    args.add_argument("--cold", action="store_true", help="measure the bytes read with a cold page cache too")
    args.add_argument("--libraries", type=Path, metavar="DIR", help="with --cold: libraries in place of the distribution's")
    args.add_argument("--rival", default="", metavar="COMMAND", help="another program for the same phase, run by turns")
    opts = args.parse_args()
    if opts.rival and STAGED not in os.environ:
        os.execvpe("unshare", ["unshare", "--mount", sys.executable, *sys.argv], {**os.environ, STAGED: "1"})
    if opts.rival:
        set_stage(opts.dir / "stage")
        be_systemd()
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit(143))  # what is mounted does not outlive us
    bench = Bench(opts)
    with bench.world:
        report(bench, opts)
    print(f"{bench.passed} passed, {bench.failed} failed")
    return 1 if bench.failed else 0


if __name__ == "__main__":
    sys.exit(main())
