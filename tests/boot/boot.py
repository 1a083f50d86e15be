#!/usr/bin/python3
"""Boots machines that become nodes: real systemd, cloud-init, containerd, kubelet, kube-apiserver.

Runs inside a network namespace of its own (tests/boot/run sees to it): here 169.254.169.254 is ours.

    boot.py --image DIR --program DESTDIR --binaries DIR --work DIR [--only NAME]
"""
from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fakes"))

import instances  # noqa: E402
from actors import Actors  # noqa: E402
from checks import Report, check_boot  # noqa: E402
from controlplane import ControlPlane  # noqa: E402
from imds import Imds  # noqa: E402

TOP = Path(__file__).resolve().parent.parent.parent
OVERLAY = Path(__file__).resolve().parent / "image" / "root"
PROFILE = "m5.large"
BOOT_SEC = 150
CERTIFICATE = re.compile(r"certificateAuthority: (\S+)")
ENDPOINT = re.compile(r"apiServerEndpoint: https://([^\s:/]+)(?::(\d+))?")


@dataclass(frozen=True)
class Scenario:
    name: str
    user_data: str
    karpenter: bool
    label: dict[str, str]
    # cloud-init runs a script after the unit's first attempt, which then ends in a configuration error.
    restarted: bool = False


SCENARIOS = (
    Scenario("karpenter-al2023", "karpenter-al2023.mime", True, {"karpenter.sh/nodepool": "default"}),
    Scenario("karpenter-custom", "karpenter-custom.mime", True, {"karpenter.sh/do-not-sync-taints": "true"}),
    Scenario("cloud-config", "cloud-config.yaml", False, {"example.com/group": "batch"}),
    Scenario("shell", "self-managed.sh", False, {"example.com/group": "batch"}, restarted=True),
)


class ControlGroups:
    """A group for the machine in each version 1 controller that the host has: kubelet's groups stay below it.

    Version 2 and systemd's own tree need none: systemd-nspawn makes one there itself.
    """

    def __init__(self, name: str) -> None:
        self.folders: list[Path] = []
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controller, path = line.split(":", 2)
            parent = Path("/sys/fs/cgroup") / controller / path.lstrip("/")
            if not controller or "=" in controller or not parent.is_dir():
                continue
            folder = parent / f"{name}-{os.getpid()}"
            folder.mkdir(exist_ok=True)
            for file in ("cpuset.cpus", "cpuset.mems"):
                if (folder / file).exists():
                    (folder / file).write_text((parent / file).read_text())
            self.folders.append(folder)

    def enter(self) -> None:
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self) -> None:
        for folder in self.folders:
            for path, _, _ in os.walk(folder, topdown=False):
                try:
                    os.rmdir(path)
                except OSError:
                    pass          # something in it still ends: an empty group costs nothing


class Machine:
    """One root file system, booted once."""

    def __init__(self, folder: Path, image: Path, program: Path, kubelet: Path) -> None:
        self.root = folder / "root"
        self.console = folder / "console"
        self.kubelet = kubelet
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", "--reflink=auto", str(image), str(self.root)], check=True, timeout=300)
        for tree in (program, OVERLAY):
            subprocess.run(["cp", "-a", f"{tree}/.", str(self.root)], check=True, timeout=120)
        subprocess.run(["chown", "-R", "root:root", str(self.root / "etc")], check=True, timeout=60)
        subprocess.run(["systemctl", f"--root={self.root}", "--quiet", "preset", "nodeclaimd-bootstrap.service", "kubelet.service"],
                       check=True, timeout=60)
        subprocess.run(["systemctl", f"--root={self.root}", "--quiet", "enable", "boot-test-cgroups.service",
                        "boot-test-report.service"], check=True, timeout=60)

    def add_host(self, name: str) -> None:
        (self.root / "etc/hosts").write_text(f"127.0.0.1 localhost\n127.0.0.1 {name}\n")

    def boot(self) -> int:
        """Until it has powered itself off: the exit code of systemd-nspawn, 124 when it had to be stopped."""
        argv = ["timeout", "-k", "10", str(BOOT_SEC), "systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot",
                "--directory", str(self.root), "--machine", "node", "--capability=CAP_NET_ADMIN,CAP_SYSLOG", "--console=read-only",
                "--resolv-conf=off", "--timezone=off", "--bind=/dev/kmsg", f"--bind-ro={self.kubelet}:/usr/bin/kubelet"]
        groups = ControlGroups("nodeclaimd-boot")
        try:
            with open(self.console, "wb") as out:
                return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, check=False,
                                      preexec_fn=groups.enter).returncode
        finally:
            groups.remove()


def user_data(name: str, ca: str) -> bytes:
    """A document of userdata/ with the CA of this cluster; all else stays as it is shipped."""
    text = (TOP / "userdata" / name).read_text()
    return CERTIFICATE.sub(f"certificateAuthority: {ca}", text).encode()


def endpoint_of(name: str) -> tuple[str, int]:
    match = ENDPOINT.search((TOP / "userdata" / name).read_text())
    assert match
    return match[1], int(match[2] or 443)


def run_scenario(scenario: Scenario, opts: argparse.Namespace, report: Report) -> None:
    inst = instances.PROFILES[PROFILE]
    folder = opts.work / scenario.name
    shutil.rmtree(folder, ignore_errors=True)
    host, port = endpoint_of(scenario.user_data)
    plane = ControlPlane(folder / "plane", opts.binaries, host, port, "demo", inst, "10.100.0.0/16")
    imds = actors = None
    try:
        actors = Actors(plane, scenario.karpenter)
        imds = Imds.of(PROFILE, user_data(scenario.user_data, plane.ca.base64), host="169.254.169.254", port=80,
                       log=folder / "imds.log", tokenless_dated=True)
        imds.server.start()
        machine = Machine(folder, opts.image, opts.program, opts.binaries / "kubelet")
        machine.add_host(host)
        code = machine.boot()
        check_boot(report, scenario, inst, machine, plane, imds.requests(), actors, code)
    finally:
        if actors:
            actors.stop()
        if imds:
            imds.server.stop()
        plane.stop()


def network(inst: instances.Instance) -> None:
    """The instance's own address, on an interface of its own: kubelet insists on finding node-ip on one."""
    for line in (f"link add eth0 address {inst.mac} type veth peer name eth0-peer", "link set eth0-peer up",
                 f"address add {inst.ip}/18 dev eth0", "link set eth0 up", "route add default via 192.168.0.1 dev eth0"):
        subprocess.run(["ip", *line.split()], check=True, timeout=10)


def main() -> int:
    args = argparse.ArgumentParser(description="boots machines that become nodes")
    for name in ("image", "program", "binaries", "work"):
        args.add_argument(f"--{name}", type=Path, required=True)
    args.add_argument("--only", choices=[s.name for s in SCENARIOS])
    opts = args.parse_args()
    network(instances.PROFILES[PROFILE])
    report = Report()
    for scenario in SCENARIOS:
        if opts.only in (None, scenario.name):
            report.begin(scenario.name)
            run_scenario(scenario, opts, report)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
