#!/usr/bin/python3
"""Boots machines that become nodes: real systemd, cloud-init, containerd, kubelet, kube-apiserver.

Runs in a network namespace of its own (tests/boot/run sees to it): here 169.254.169.254 is ours.

    boot.py --image DIR --program DESTDIR --binaries DIR --work DIR [--only NAME]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Optional

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fakes"))

import instances  # noqa: E402
from actors import IMAGE, Actors  # noqa: E402
from archive import archive  # noqa: E402
from checks import LOCKED, Boot, Report, check_boot, check_unchanged  # noqa: E402
from controlplane import ControlPlane  # noqa: E402
from imds import Imds  # noqa: E402
from life import HOOKS, MARGIN_SEC, Life, check_life, config  # noqa: E402

TOP = Path(__file__).resolve().parent.parent.parent
OVERLAY = Path(__file__).resolve().parent / "image" / "root"
PROFILE = "m5.large"
BOOT_SEC = 150
SCRIPT_SEC = 5
OF_IMAGE = (
    "systemd/system/kubelet.service.d/10-nodeclaimd.conf",
    "systemd/system-preset/80-nodeclaimd.preset",
    "tmpfiles.d/80-nodeclaimd-node.conf",
)
LEFT_BY = "/etc/eks/nodeadm.d/50-script.yaml"
LEAVES = f"""mkdir -p /etc/eks/nodeadm.d
cat >{LEFT_BY} <<EOF
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec: {{kubelet: {{flags: ["--node-labels=example.com/left-by=script"]}}}}
EOF"""
WRITTEN = (
    "etc/kubernetes/kubelet/config.json",
    "etc/kubernetes/kubelet/config.json.d/40-nodeclaimd.conf",
    "etc/kubernetes/pki/ca.crt",
    "etc/nodeclaimd/kubelet.env",
    "etc/systemd/logind.conf.d/zz-nodeclaimd.conf",
    "var/lib/kubelet/kubeconfig",
)
FAILS_ONCE = f'test -e /run/once || {{ touch /run/once; echo "{LOCKED}" >&2; exit 4; }}'
CERTIFICATE = re.compile(r"certificateAuthority: (\S+)")
ENDPOINT = re.compile(r"apiServerEndpoint: https://([^\s:/]+)(?::(\d+))?")
CIDR = re.compile(r"cidr: (\S+)")
NAME = re.compile(r"^ +name: (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Scenario:
    name: str
    user_data: str
    label: dict[str, str]  # of those that the document asks for
    karpenter: bool = False  # the node is registered and initialized by Karpenter
    # cloud-init runs a script after the unit's first attempt: that one ends in a configuration error.
    restarted: bool = False
    client_certificate: bool = (
        False  # lies on the image; otherwise the instance's role signs tokens
    )
    reboot: bool = False  # boots a second time, as the node that it is
    script: bool = False  # its script takes some seconds, and leaves a document
    warns: str = ""  # what the one warning begins with; "": there is none
    waits: Optional[bool] = False  # kubelet for cloud-final; None: the script itself restarts the bootstrap
    pre_fails: bool = False  # kubelet's ExecStartPre=, once
    grace_usec: int = 150_000_000  # kubelet's at a shutdown
    life: bool = False  # a spot instance that lives to its end: pods, notice, drain, power off
    node: str = instances.PROFILES[PROFILE].private_dns


SCENARIOS = (
    Scenario(
        "karpenter-al2023",
        "karpenter-al2023.mime",
        {"karpenter.sh/nodepool": "default"},
        karpenter=True,
        reboot=True,
    ),
    Scenario(
        "karpenter-custom",
        "karpenter-custom.mime",
        {"karpenter.sh/do-not-sync-taints": "true"},
        karpenter=True,
        pre_fails=True,
    ),
    Scenario(
        "script",
        "karpenter-al2023-custom.mime",
        {"example.com/team": "payments", "example.com/left-by": "script"},
        karpenter=True,
        script=True,
        warns="allocatable ephemeral-storage",  # its NodeConfig reserves what Karpenter does not know of
        waits=True,
        grace_usec=60_000_000,
    ),
    Scenario(
        "life",
        "karpenter-al2023.mime",
        {"karpenter.sh/nodepool": "default"},
        karpenter=True,
        life=True,
    ),
    Scenario("cloud-config", "cloud-config.yaml", {"example.com/group": "batch"}, waits=True),
    Scenario("shell", "self-managed.sh", {"example.com/group": "batch"}, restarted=True, waits=None),
    Scenario(
        "not-eks",
        "not-eks.mime",
        {"example.com/cluster": "lab"},
        client_certificate=True,
        node="ip-192-168-14-27",
    ),
)


class ControlGroups:
    """A group for the machine in each version 1 controller of the host: kubelet's groups stay below.

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
                    pass  # something in it still ends: an empty group costs nothing


class Machine:
    """One root file system, booted once."""

    def __init__(self, folder: Path, image: Path, program: Path, kubelet: Path) -> None:
        self.root = folder / "root"
        self.console = folder / "console"
        self.kubelet = kubelet
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["cp", "-a", "--reflink=auto", str(image), str(self.root)], check=True, timeout=300
        )
        for tree in (program, OVERLAY):
            subprocess.run(
                ["cp", "-a", "--no-preserve=ownership", f"{tree}/.", str(self.root)],
                check=True,
                timeout=120,
            )
        for path in OF_IMAGE:  # image/provision links them
            link = self.root / "etc" / path
            link.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.root / "usr/share/nodeclaimd/systemd" / link.name, link)
        self._systemctl(
            "preset", "nodeclaimd-bootstrap.service", "nodeclaimd.service", "kubelet.service"
        )
        self._systemctl("enable", "boot-test-cgroups.service", "boot-test-report.service")

    def _systemctl(self, *words: str) -> None:
        subprocess.run(
            ["systemctl", f"--root={self.root}", "--quiet", *words], check=True, timeout=60
        )

    def add_image(self, program: Path) -> None:
        """containerd's unit imports it."""
        target = self.root / "etc/eks/pause.tar"
        target.parent.mkdir(parents=True, exist_ok=True)
        archive(program, target)

    def add_host(self, name: str) -> None:
        """What a resolver would know. An endpoint that is an address needs none."""
        known = "" if name[0].isdigit() and name.count(".") == 3 else f"127.0.0.1 {name}\n"
        (self.root / "etc/hosts").write_text(f"127.0.0.1 localhost\n{known}")

    def add_certificate(self, cert: Path, key: Path) -> None:
        folder = self.root / "etc/nodeclaimd/pki"
        folder.mkdir(mode=0o700)
        shutil.copyfile(cert, folder / "node.crt")
        shutil.copyfile(key, folder / "node.key")
        (folder / "node.key").chmod(0o600)

    def fail_once_before_kubelet(self) -> None:
        """As iptables does while somebody else holds its lock."""
        folder = self.root / "etc/systemd/system/kubelet.service.d"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "50-fails-once.conf").write_text(f"[Service]\nExecStartPre=/bin/sh -c '{FAILS_ONCE}'\n")

    def add_hooks(self) -> None:
        """A unit before and one after a drain; and one that leaves the first target active, as an earlier drain does."""
        folder = self.root / "etc/systemd/system"
        for name, text in HOOKS.items():
            (folder / name).write_text(text)
        self._systemctl("enable", *HOOKS)

    def add_config(self, text: str) -> None:
        folder = self.root / "etc/nodeclaimd/conf.d"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "50-boot-test.yaml").write_text(text)

    def unsettled(self) -> Path:
        """The file that tells the machine's report to begin; it is not there yet."""
        folder = self.root / "var/lib/boot-test"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder / "settled"

    def measure(self) -> None:
        """The report is to start the bootstrap some more times."""
        (self.root / "var/lib/boot-test/measure").touch()

    def written(self) -> dict[str, int]:
        """When each of the program's files was written."""
        return {
            name: (self.root / name).stat().st_mtime_ns
            for name in WRITTEN
            if (self.root / name).exists()
        }

    def boot(self) -> int:
        """Until it has powered itself off. systemd-nspawn's exit code; 124: it had to be stopped."""
        argv = [
            "timeout",
            "-k",
            "10",
            str(BOOT_SEC),
            "systemd-nspawn",
            "--quiet",
            "--register=no",
            "--keep-unit",
            "--boot",
            "--directory",
            str(self.root),
            "--machine",
            "node",
            "--capability=CAP_NET_ADMIN,CAP_SYSLOG",
            "--console=read-only",
            "--resolv-conf=off",
            "--timezone=off",
            "--system-call-filter=@keyring bpf",
            "--bind=/dev/kmsg",
            f"--bind-ro={self.kubelet}:/usr/bin/kubelet",
        ]
        groups = ControlGroups("nodeclaimd-boot")
        try:
            with open(self.console, "wb") as out:
                return subprocess.run(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    check=False,
                    preexec_fn=groups.enter,
                ).returncode
        finally:
            groups.remove()


class Document:
    """A document of userdata/: what it says of its cluster, and its text with the CA of ours."""

    def __init__(self, name: str) -> None:
        self.text = (TOP / "userdata" / name).read_text()
        endpoint = ENDPOINT.search(self.text)
        cidr = CIDR.search(self.text)
        cluster = NAME.search(self.text)
        assert endpoint and cidr and cluster
        self.host, self.port = endpoint[1], int(endpoint[2] or 443)
        self.cidr, self.cluster = cidr[1], cluster[1]

    def with_script(self, line: str) -> None:
        assert "#!/bin/bash\n" in self.text
        self.text = self.text.replace("#!/bin/bash\n", f"#!/bin/bash\n{line}\n", 1)

    def with_ca(self, ca: str) -> bytes:
        return CERTIFICATE.sub(f"certificateAuthority: {ca}", self.text).encode()


def run_scenario(scenario: Scenario, opts: argparse.Namespace, report: Report) -> None:
    inst = instances.PROFILES[PROFILE]
    if scenario.life:
        inst = replace(inst, life_cycle="spot")
    folder = opts.work / scenario.name
    shutil.rmtree(folder, ignore_errors=True)
    document = Document(scenario.user_data)
    if scenario.script:
        document.with_script(f"sleep {SCRIPT_SEC}\n{LEAVES}")
    with contextlib.ExitStack() as stack:
        plane = ControlPlane(
            folder / "plane",
            opts.binaries,
            document.host,
            document.port,
            document.cluster,
            document.cidr,
            inst,
            scenario.node,
        )
        stack.callback(plane.stop)
        imds = stack.enter_context(
            Imds(
                instances.tree(inst, document.with_ca(plane.ca.base64)),
                host="169.254.169.254",
                port=80,
                log=folder / "imds.log",
                tokenless_dated=True,
            )
        )
        machine = Machine(folder, opts.image, opts.program, opts.binaries / "kubelet")
        machine.add_image(opts.binaries / "pause")
        machine.add_host(document.host)
        if scenario.client_certificate:
            machine.add_certificate(*plane.ca.node(scenario.node))
        if scenario.life:
            machine.add_config(config(MARGIN_SEC))
            machine.add_hooks()
        if scenario.pre_fails:
            machine.fail_once_before_kubelet()
        before: dict[str, int] = {}
        for again in (False, True) if scenario.reboot else (False,):
            if again:
                report.begin(f"{scenario.name}, rebooted")
            settled = machine.unsettled()
            life = Life(plane, imds, scenario.node, IMAGE, settled) if scenario.life else None
            actors = Actors(plane, scenario.karpenter, life.begin if life else settled.touch)
            with contextlib.closing(actors):
                if again:
                    machine.measure()
                known = len(imds.requests())
                code = machine.boot()
                boot = Boot(
                    scenario, inst, machine, plane, imds.requests()[known:], actors, code, again
                )
                check_boot(report, boot)
                if life:
                    life.close()
                    check_life(report, boot, life)
            if again:
                check_unchanged(report, before, machine.written())
            before = machine.written()


def network(inst: instances.Instance) -> None:
    """The instance's address on an interface of its own, where kubelet looks for node-ip, and an API
    server's."""
    for line in (
        f"link add eth0 address {inst.mac} type veth peer name eth0-peer",
        "link set eth0-peer up",
        f"address add {inst.ip}/18 dev eth0",
        "link set eth0 up",
        "route add default via 192.168.0.1 dev eth0",
        "address add 10.64.0.10/32 dev lo",
    ):
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
