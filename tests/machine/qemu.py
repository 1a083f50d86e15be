"""A virtual machine: QEMU without KVM, its control socket and the agent inside it.

Knows: how a disk, network interfaces and NVMe disks are attached, now or while it runs.
Gives: `Machine` (start, wait, cut the power) and its `guest` (run a command inside, as root).
Must not: know what boots in it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator, Optional, Union

INSTANCE_UUID = "ec2e1916-9099-7caf-fd21-0123456789ab"  # what makes it an EC2 instance to whoever looks at DMI
MEMORY_MIB = 2048
AGENT_SEC = 900.0


class Line:
    """A socket that speaks JSON, a message a line."""

    def __init__(self, path: Path, timeout: float) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout)
        self._socket.connect(str(path))
        self._stream = self._socket.makefile("rwb")

    def send(self, message: dict[str, Any]) -> None:
        self._stream.write(json.dumps(message).encode() + b"\n")
        self._stream.flush()

    def receive(self) -> dict[str, Any]:
        line = self._stream.readline()
        if not line:
            raise ConnectionError("the other end has gone")
        return json.loads(line.lstrip(b"\xff"))

    def answer(self) -> Any:
        while True:
            message = self.receive()
            if "error" in message:
                raise RuntimeError(str(message["error"]))
            if "return" in message:
                return message["return"]

    def close(self) -> None:
        for end in (self._stream, self._socket):
            with contextlib.suppress(OSError):
                end.close()


class Guest:
    """The agent in the machine. Each call is a connection of its own: the machine may have been booted again since."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def call(self, name: str, timeout: float = 60.0, **arguments: Any) -> Any:
        line = Line(self.path, timeout)
        try:
            token = int(time.monotonic() * 1e6)
            line.send({"execute": "guest-sync", "arguments": {"id": token}})
            while line.answer() != token:
                pass
            line.send({"execute": name, "arguments": arguments})
            return line.answer()
        finally:
            line.close()

    def is_up(self) -> bool:
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            self.call("guest-ping", timeout=3)
            return True
        return False

    def wait_up(self, machine: "Machine", patience: float = AGENT_SEC) -> None:
        end = time.monotonic() + patience
        while not self.is_up():
            machine.alive()
            if time.monotonic() > end:
                raise RuntimeError(f"nothing answers in the machine after {patience:.0f} s; see {machine.console}")

    def run(self, *argv: str, patience: float = 120.0) -> str:
        """What it prints; its exit code does not matter here."""
        pid = self.call("guest-exec", path=argv[0], arg=list(argv[1:]), **{"capture-output": True})["pid"]
        end = time.monotonic() + patience
        while time.monotonic() < end:
            state = self.call("guest-exec-status", pid=pid)
            if state["exited"]:
                return base64.b64decode(state.get("out-data", "")).decode(errors="replace")
            time.sleep(0.05)
        raise RuntimeError(f"did not end within {patience:.0f} s in the machine: {' '.join(argv)}")

    def sh(self, script: str, patience: float = 120.0) -> str:
        return self.run("/bin/bash", "-c", script, patience=patience)

    def show(self, unit: str) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.run("systemctl", "show", unit).splitlines() if "=" in line)

    def uptime(self) -> tuple[float, float]:
        """The machine's clock since its kernel began, and the host's at the same time."""
        before = time.time()
        inside = float(self.run("cat", "/proc/uptime").split()[0])
        return inside, (before + time.time()) / 2


@dataclass
class Nic:
    name: str
    tap: str
    mac: str

    def options(self) -> Iterator[str]:
        yield from ("-netdev", f"tap,id={self.name},ifname={self.tap},script=no,downscript=no")
        yield from ("-device", f"virtio-net-pci,id=dev-{self.name},netdev={self.name},mac={self.mac},romfile=")


@dataclass
class Machine:
    folder: Path
    disk: Path
    kernel: Path
    initrd: Path
    nics: list[Nic]
    nvme: list[Path] = field(default_factory=list)
    drive: str = ""  # more options of the disk: ",cache=none,throttling.bps-read=15000000"
    process: Optional["subprocess.Popen[bytes]"] = None
    starts: int = 0

    @property
    def console(self) -> Path:
        return self.folder / f"console.{self.starts}"

    @property
    def guest(self) -> Guest:
        return Guest(self.folder / "agent")

    def start(self) -> None:
        self.starts += 1
        for name in ("qmp", "agent"):
            (self.folder / name).unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [*self._argv()], stdin=subprocess.DEVNULL, stdout=open(self.folder / "qemu.log", "ab"), stderr=subprocess.STDOUT
        )
        end = time.monotonic() + 30
        while not (self.folder / "agent").exists() or not (self.folder / "qmp").exists():
            self.alive()
            if time.monotonic() > end:
                raise RuntimeError("QEMU does not open its sockets")
            time.sleep(0.02)

    # A processor without AVX, and no mitigations: both are slow where the processor is a program.
    def _argv(self) -> Iterator[str]:
        yield from ("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-machine", "pc", "-cpu", "Westmere", "-smp", "2")
        yield from ("-m", str(MEMORY_MIB), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot")
        yield from ("-smbios", f"type=1,manufacturer=Amazon EC2,product=m5.large,uuid={INSTANCE_UUID},serial={INSTANCE_UUID}")
        yield from ("-kernel", str(self.kernel), "-initrd", str(self.initrd), "-append")
        yield "root=/dev/vda rootfstype=ext4 rw console=ttyS0 loglevel=4 systemd.show_status=no panic=-1 mitigations=off"
        yield from ("-chardev", f"file,id=console,path={self.console}", "-serial", "chardev:console")
        yield from ("-qmp", f"unix:{self.folder}/qmp,server=on,wait=off")
        yield from ("-device", "virtio-rng-pci", "-device", "virtio-serial-pci")
        yield from ("-chardev", f"socket,id=agent,path={self.folder}/agent,server=on,wait=off")
        yield from ("-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0")
        yield from ("-drive", f"id=root,file={self.disk},format=qcow2,if=none{self.drive}")
        yield from ("-device", "virtio-blk-pci,drive=root,id=disk0")
        for nic in self.nics:
            yield from nic.options()
        for n, path in enumerate(self.nvme):
            yield from ("-drive", f"id=nvme{n},file={path},format=raw,if=none")
            yield from ("-device", f"nvme,drive=nvme{n},serial=AWS{n:017X}")

    def alive(self) -> None:
        assert self.process is not None
        if self.process.poll() is not None:
            tail = (self.folder / "qemu.log").read_text(errors="replace")[-1000:]
            raise RuntimeError(f"QEMU ended with {self.process.returncode}: {tail}; see {self.console}")

    def qmp(self, name: str, **arguments: Any) -> Any:
        line = Line(self.folder / "qmp", 30)
        try:
            line.receive()
            line.send({"execute": "qmp_capabilities"})
            line.answer()
            line.send({"execute": name, "arguments": arguments})
            return line.answer()
        finally:
            line.close()

    def plug(self, nic: Nic) -> None:
        """An interface that comes while the machine runs."""
        self.qmp("netdev_add", type="tap", id=nic.name, ifname=nic.tap, script="no", downscript="no")
        self.qmp("device_add", driver="virtio-net-pci", id=f"dev-{nic.name}", netdev=nic.name, mac=nic.mac, romfile="")

    def disk_stats(self) -> dict[str, int]:
        """Of the disk, since the machine was started: rd_bytes, rd_operations, wr_operations, ..."""
        return next(entry["stats"] for entry in self.qmp("query-blockstats") if entry.get("device") == "root")

    def writes(self) -> int:
        return self.disk_stats()["wr_operations"]

    def throttle_writes(self, per_sec: int) -> None:
        none = {"bps": 0, "bps_rd": 0, "bps_wr": 0, "iops": 0, "iops_rd": 0}
        self.qmp("block_set_io_throttle", device="root", iops_wr=per_sec, **none)

    def copy_disk(self, to: Path) -> None:
        """As it is at this moment, which is what is left of it where QEMU is killed now."""
        running = self.process is not None and self.process.poll() is None
        if running:
            os.kill(self.process.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)
        shutil.copyfile(self.disk, to)
        if running:
            os.kill(self.process.pid, signal.SIGCONT)

    def wait_off(self, patience: float) -> Union[int, None]:
        """QEMU's exit code once the machine has powered itself off; None: it is still on."""
        assert self.process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(patience)
        return None

    def cut_power(self) -> None:
        """At once, whatever happens inside: what was not flushed to the disk is lost."""
        if self.process is not None and self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
