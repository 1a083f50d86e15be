"""What stands around a machine: EC2's metadata service, DHCP, the API server and its controllers.

Knows: which instance this is, what its user data says, how long an emulated machine may take.
Gives: `World`, with a machine that can be booted, and `Tally`, which counts.
Must not: do what is the node's own work.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Optional

import instances
from actors import Actors
from boot import Document
from checks import Report
from controlplane import ControlPlane
from dhcp import Dhcp
from imds import Imds
from qemu import Machine, Nic
from timeline import Row, show, timeline

HERE = Path(__file__).resolve().parent
ADDRESS, ROUTER = "10.0.0.27", "10.0.0.1"
INSTANCE = replace(instances.PROFILES["m5.large"], ip=ADDRESS)
PRIMARY = Nic("primary", "tap0", INSTANCE.mac)
SECONDARY, SECONDARY_ADDRESS, SECONDARY_ROUTER = Nic("secondary", "tap1", "0a:1b:2c:3d:4e:60"), "10.0.1.27", "10.0.1.1"
PATIENCE_SEC = 1800.0
BOUNDARY = "--//\n"


class Tally(Report):
    """Names what failed at the end, too: the last lines are what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = ""
        self.failures: list[str] = []

    def begin(self, name: str) -> None:  # type: ignore[override]
        self.scene = name
        super().begin(name)

    def check(self, what: str, holds: bool, why: object = "") -> None:
        super().check(what, holds, why)
        if not holds:
            self.failures.append(f"{self.scene}: {what}")

    def end(self) -> int:
        print(f"\n{time.monotonic() - self.began:.0f} s")
        for failure in self.failures:
            print(f"failed: {failure}")
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed else 0


def with_parts(text: bytes, *parts: tuple[str, str]) -> bytes:
    """User data as Karpenter makes them where the user has some of his own: those come first."""
    head, rest = text.decode().split(BOUNDARY, 1)
    own = "".join(f"{BOUNDARY}Content-Type: {kind}\n\n{body}\n" for kind, body in parts)
    return (head + own + BOUNDARY + rest).encode()


def wait_for(what: str, look: Callable[[], Any], patience: float = PATIENCE_SEC) -> Any:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.2)
    raise RuntimeError(f"never came within {patience:.0f} s: {what}")


def node_image(opts: argparse.Namespace, shape: str, *rival: str) -> Path:
    """Made when the first scene needs it."""
    base = opts.work / f"{shape}{'-rival' if rival else ''}.qcow2"
    if not base.exists():
        print(f"         making the node image {base.stem}", flush=True)
        trees = (opts.image, opts.package or opts.program, opts.binaries, opts.work)
        subprocess.run([str(HERE / "node-image"), *map(str, trees), shape, *rival], check=True, timeout=900)
    return base


class World(contextlib.ExitStack):
    """One instance of one cluster. `shape` names the node image; `user_data` is given Karpenter's document with our CA."""

    def __init__(
        self,
        opts: argparse.Namespace,
        name: str,
        inst: instances.Instance = INSTANCE,
        shape: str = "debian",
        user_data: Callable[[bytes], bytes] = lambda text: text,
    ) -> None:
        super().__init__()
        self.inst, self.folder = inst, opts.work / name
        self.node = self.name_of(inst)
        base = self.image(opts, shape)
        document = Document("karpenter-al2023.mime")
        self.plane = ControlPlane(
            self.folder / "plane", opts.binaries, document.host, document.port, document.cluster, document.cidr, inst, self.node
        )
        self.callback(self.plane.stop)
        text = user_data(document.with_ca(self.plane.ca.base64))
        self.imds = self.enter_context(
            Imds(instances.tree(inst, text), "169.254.169.254", 80, self.folder / "imds.log", tokenless_dated=True)
        )
        self.dhcp = Dhcp(PRIMARY.tap, PRIMARY.mac, ADDRESS, ROUTER)
        self.callback(self.dhcp.close)
        self.machine = Machine(
            self.folder, self.folder / "disk.qcow2", base.with_suffix(".kernel"), base.with_suffix(".initrd"), [PRIMARY]
        )
        self.base = base
        self.new_disk()
        self.callback(self.machine.cut_power)
        self.actors: Optional[Actors] = None
        self.runs = threading.Event()  # a pod runs

    @staticmethod
    def name_of(inst: instances.Instance) -> str:
        return inst.private_dns

    def image(self, opts: argparse.Namespace, shape: str) -> Path:
        return node_image(opts, shape)

    def new_disk(self) -> None:
        """As the image is; what an earlier boot wrote is gone."""
        argv = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", str(self.base), str(self.machine.disk)]
        subprocess.run(argv, check=True, timeout=60)

    @property
    def guest(self) -> Any:
        return self.machine.guest

    def boot(self) -> None:
        self.machine.start()
        if self.actors is not None:
            self.actors.close()
        self.runs.clear()
        self.actors = Actors(self.plane, True, self.runs.set)
        self.callback(self.actors.close)

    def wait_running(self) -> None:
        """Until the node is Ready, initialized, and a pod runs on it."""

        def look() -> bool:
            self.machine.alive()
            return self.runs.is_set()

        wait_for("a pod that runs on the node", look)

    def boot_until_running(self) -> list[Row]:
        self.boot()
        self.wait_running()
        self.guest.wait_up(self.machine)
        rows = timeline(self.guest, self.actors)
        show(rows)
        return rows

    def power_off(self, tally: Tally, patience: float = 240.0) -> None:
        self.guest.run("systemctl", "poweroff", "--no-block")
        tally.check("the machine powers itself off", self.machine.wait_off(patience) == 0, self.machine.console)

    def disk_files(self, *paths: str, disk: Optional[Path] = None) -> Path:
        """Folders of the machine's disk, or a copy of it, read while it is off; a path that is not there is left out."""
        raw, target = self.folder / "disk.raw", self.folder / f"files.{self.machine.starts}"
        subprocess.run(["qemu-img", "convert", "-O", "raw", str(disk or self.machine.disk), str(raw)], check=True, timeout=300)
        # As the next boot does: what the file system's journal holds becomes true.
        subprocess.run(["e2fsck", "-y", "-E", "journal_only", str(raw)], timeout=300, capture_output=True)
        for path in paths:
            into = target / Path(path).parent
            into.mkdir(parents=True, exist_ok=True)
            subprocess.run(["debugfs", "-R", f"rdump /{path} {into}", str(raw)], check=True, timeout=300, capture_output=True)
        raw.unlink()
        return target

    def pods(self) -> list[dict[str, Any]]:
        """Those that the cluster believes to be on the node."""
        found = self.get("/api/v1/pods").get("items", [])
        return [pod for pod in found if pod["spec"].get("nodeName") == self.node]

    def get(self, path: str) -> Any:
        status, answer = self.plane.request("GET", path)
        return answer if status == 200 else {}

    def node_object(self) -> dict[str, Any]:
        return self.get(f"/api/v1/nodes/{self.node}")

    def conditions(self) -> dict[str, Any]:
        return {c["type"]: c for c in self.node_object().get("status", {}).get("conditions") or []}
