"""The scenes: what happens to a machine, and what must be true of it then.

Gives: `SCENES`, by name; the first line of each docstring is what --list shows.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable

from actors import IMAGE
from boot import WRITTEN
from checks import Evidence
from dhcp import Dhcp
from gate import CONFIG, Gate, with_gate
from life import Life, check_pods, check_signals, config, named, stopped, writes
from timeline import Row, show, when
from world import INSTANCE, PRIMARY, SECONDARY, SECONDARY_ADDRESS, SECONDARY_ROUTER, Tally, World, wait_for, with_parts

# What an emulated processor needs for what takes a machine milliseconds.
SLOW_CORDON_MSEC, SLOW_DELETE_SEC = 5000.0, 10.0
CLOCK_SEC = 1.0  # two clocks are compared
SLOW_WRITES = 4  # a second: between two of them there is time to cut the power
CUTS = (3, 6, 8, 10, 12, 16, 32)  # writes of the disk after preflight
APPLIED = ("etc/containerd/base-runtime-spec.json", *WRITTEN)
NVME_BYTES = 2 << 30
UNITS = ("cloud-init", "cloud-final", "containerd", "nodeclaimd-bootstrap", "nodeclaimd", "kubelet")


def check_node(tally: Tally, world: World) -> None:
    guest = world.guest
    tally.check("no unit failed", not (failed := guest.run("systemctl", "list-units", "--failed", "--plain", "--no-legend").strip()), failed)
    for unit in UNITS:
        shown = guest.show(f"{unit}.service")
        tally.check(
            f"{unit}.service: success, no restart",
            (shown.get("Result"), shown.get("NRestarts")) == ("success", "0"),
            f"{shown.get('Result')}, {shown.get('NRestarts')} restarts",
        )
    status = json.loads(guest.run("nodeclaimd", "status", "-o", "json") or "{}")
    tally.check("status: succeeded", status.get("outcome") == "succeeded", status)
    warnings = status.get("warnings") or []
    tally.check(
        "status warns of nothing but what an m5.large has more of: memory, or pods that the scene asked for",
        bool(warnings) and all(w.startswith(("allocatable memory of m5.large", "allocatable pods of m5.large: 17")) for w in warnings),
        warnings,
    )
    assert world.actors is not None
    address = (world.actors.pod or {}).get("status", {}).get("podIP", "")
    tally.check("a pod runs, with an address of the CNI plugin", address.startswith("192.168.128."), address)
    ready = world.conditions().get("Ready", {})
    tally.check("the Node is Ready", ready.get("status") == "True", ready)


def check_order(tally: Tally, rows: list[Row], *names: str) -> None:
    times = [when(rows, name) for name in names]
    tally.check(f"in this order: {', '.join(names)}", all(times) and times == sorted(times), times)


def karpenter(opts: argparse.Namespace, tally: Tally) -> None:
    """Karpenter's default user data: a node, and kubelet that waits for nothing of cloud-init's"""
    with World(opts, "karpenter") as world:
        rows = world.boot_until_running()
        check_node(tally, world)
        check_order(tally, rows, "network", "nodeclaimd bootstrap starts", "kubelet's files written", "kubelet executed", "Node Ready")
        world.power_off(tally)


class SlowLife(Life):
    """An emulated machine takes its time to start pods, and EC2 gives two minutes."""

    ahead_sec = 120
    patience_sec = 400.0
    margin_sec = 45


def life_of(world: World) -> SlowLife:
    return SlowLife(world.plane, world.imds, world.node, IMAGE, world.folder / "settled")


def with_margin(text: bytes) -> bytes:
    return with_parts(text, ("application/vnd.nodeclaimd+yaml", config(SlowLife.margin_sec)))


def spot(opts: argparse.Namespace, tally: Tally) -> None:
    """A spot notice: the drain, and the power is cut at the deadline with nothing of ours on the node"""
    with World(opts, "spot", inst=replace(INSTANCE, life_cycle="spot"), user_data=with_margin) as world:
        world.boot_until_running()
        check_node(tally, world)
        life = life_of(world)
        life.schedule()
        life.announce()
        ahead = life.deadline - time.time()
        tally.figure("Drained so long before the deadline", ahead, "s")
        tally.check("the drain ends before the deadline", ahead > 0, f"{-ahead:.1f} s late")
        time.sleep(max(0.0, ahead))  # EC2 does not end an instance before the time that it announced
        world.machine.cut_power()
        left = [pod["metadata"]["name"] for pod in world.pods()]
        tally.check("the cluster knows no pod on the node that was switched off", not left, left)
        written = writes(world.plane, world.node)
        check_signals(tally, life, written, SLOW_CORDON_MSEC)
        check_pods(tally, life, written, SLOW_DELETE_SEC)


def over(pod: dict[str, Any]) -> bool:
    """No container of it runs, as kubelet reported it. Its object is deleted by whoever made it, or once its node is gone."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def poweroff(opts: argparse.Namespace, tally: Tally) -> None:
    """systemctl poweroff in the machine: the inhibitor holds it until no container runs, kubelet stops last

    kubelet observes the shutdown, too, and ends every pod, whether or not its budget allows that; it leaves the objects.
    """
    with World(opts, "poweroff", user_data=with_margin) as world:
        world.boot_until_running()
        life = life_of(world)
        life.schedule()
        inhibitors = world.guest.run("systemd-inhibit", "--list", "--no-legend")
        tally.check("the daemon holds logind's inhibitor, and kubelet its own", "nodeclaimd" in inhibitors and "kubelet" in inhibitors, inhibitors)
        asked, _ = world.guest.uptime()
        began = time.time()
        world.power_off(tally, 500.0)
        tally.figure("systemctl poweroff -> machine off", time.time() - began, "s")
        seen = Evidence(world.disk_files("var/log/journal"))
        kubelet, ours = (stopped(seen, f"{unit}.service") for unit in ("kubelet", "nodeclaimd"))
        gone = seen.when_said("nodeclaimd.service", "No pods remaining")
        tally.figure("systemctl poweroff -> no pod remaining", gone - asked, "s")
        tally.check("the drain was over before kubelet was stopped", asked < gone <= kubelet, (asked, gone, kubelet))
        tally.check("the daemon was stopped after kubelet", asked < kubelet <= ours, (asked, kubelet, ours))
        resumed = seen.when_said("nodeclaimd.service", "the shutdown may go on")
        tally.check("the inhibitor was released after the drain, and nothing was stopped before", gone <= resumed <= kubelet, (gone, resumed, kubelet))
        written = writes(world.plane, world.node)
        evicted = {e["objectRef"]["name"]: e["responseStatus"]["code"] for e in named(written, "create", "pods", sub="eviction")}
        tally.check("the drain evicted what its budget allows, and the budget of one refused", (evicted.get("free"), evicted.get("held")) == (201, 429), evicted)
        held = {c["type"]: c.get("reason") for p in world.pods() if p["metadata"]["name"] == "held" for c in p["status"].get("conditions", [])}
        tally.check("kubelet ended that one", held.get("DisruptionTarget") == "TerminationByKubelet", held)
        cordons = named(written, "patch", "nodes")
        tally.check("the Node was cordoned", bool(cordons))
        left = [pod["metadata"]["name"] for pod in world.pods() if not over(pod)]
        tally.check("the cluster knows no running pod on the node that is off", not left, left)


def unfinished(root: Path) -> list[Path]:
    """Files of ours that apply has begun and not put into their places."""
    return [path for name in APPLIED for path in (root / name).parent.glob(f".{Path(name).name}.*")]


def boot_to_apply(world: World) -> int:
    """Boots until preflight: what follows is apply, whose writes of the disk take their time. Gives the number of writes until then."""
    world.machine.start()

    def checked() -> bool:
        world.machine.alive()
        return any("(bootstrap)" in e.get("userAgent", "") and e["verb"] == "get" for e in list(world.plane.audit())[known:])

    known = len(list(world.plane.audit()))
    wait_for("the request of preflight", checked)
    world.machine.throttle_writes(SLOW_WRITES)
    return world.machine.writes()


def powercut(opts: argparse.Namespace, tally: Tally) -> None:
    """The power is cut in the middle of apply, and what cuts before leave is read; the next boot ends as a Ready node"""
    with World(opts, "powercut", shape="al2023") as world:
        before, cuts = boot_to_apply(world), {}
        for later in CUTS:
            wait_for("writes of apply", lambda: world.machine.writes() >= before + later, 120)  # noqa: B023: called in this turn
            cuts[later] = world.folder / f"cut.{later}"
            world.machine.copy_disk(cuts[later])
        world.machine.cut_power()
        midst = 0
        for later, disk in cuts.items():
            files = world.disk_files("etc", "var/lib/kubelet", disk=disk)
            there = [name for name in APPLIED if (files / name).exists()]
            print(f"         cut {later} writes later: {len(there)} of {len(APPLIED)} files, {len(unfinished(files))} unfinished", flush=True)
            midst += 0 < len(there) + len(unfinished(files)) and len(there) < len(APPLIED)
            empty = [name for name in there if not (files / name).stat().st_size]
            tally.check(f"cut {later} writes later: no file of ours is empty", not empty, empty)
            shutil.rmtree(files)
        tally.check("at least one cut came between the first file and the last", midst > 0)
        world.boot_until_running()
        check_node(tally, world)
        world.power_off(tally)
        files = world.disk_files("etc", "var/lib/kubelet")
        missing = [name for name in APPLIED if not (files / name).exists()]
        tally.check("every file is there", not missing, missing)


LEFT_BY_SCRIPT = """apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    config: {maxPods: 17}
    flags: [--node-labels=example.com/of-a-script=yes]
"""


def script(opts: argparse.Namespace, tally: Tally) -> None:
    """User data with a script that takes five seconds and leaves a NodeConfig: kubelet starts after it and has that; files and containerd do not wait"""
    text = f"#!/bin/bash\nsleep 5\ncat /etc/kubernetes/kubelet/config.json >/var/tmp/there\nmkdir -p /etc/eks/nodeadm.d\ncat >/etc/eks/nodeadm.d/50.yaml <<'END'\n{LEFT_BY_SCRIPT}END\ntouch /var/tmp/script-done\n"
    part = ("text/x-shellscript", text)
    with World(opts, "script", user_data=lambda text: with_parts(text, part)) as world:
        rows = world.boot_until_running()
        check_node(tally, world)
        check_order(tally, rows, "nodeclaimd bootstrap starts", "containerd active", "cloud-final ends", "kubelet executed", "Node Ready")
        check_order(tally, rows, "nodeclaimd bootstrap starts", "cloud-final ends", "kubelet's files written", "kubelet executed")
        tally.check("the script found kubelet's files", "KubeletConfiguration" in world.guest.run("cat", "/var/tmp/there"))
        done = world.guest.run("stat", "-c", "%W", "/var/tmp/script-done").strip()
        tally.check("the script ran", done.isdigit() and int(done) > 0, done)
        node = world.node_object()
        label, pods = node["metadata"]["labels"].get("example.com/of-a-script"), node["status"]["capacity"]["pods"]
        tally.check("kubelet has what the script left", (label, pods) == ("yes", "17"), (label, pods))
        world.power_off(tally)


def quantity(text: str) -> int:
    """A quantity of bytes, as Kubernetes writes it."""
    units = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "k": 10**3, "M": 10**6, "G": 10**9}
    for unit, factor in units.items():
        if text.endswith(unit):
            return int(text[: -len(unit)]) * factor
    return int(text)


def check_array(tally: Tally, world: World) -> str:
    """What stands on the array, and its UUID."""
    guest = world.guest
    mounted = guest.run("findmnt", "-rno", "TARGET,FSTYPE,SOURCE")
    for where in ("/mnt/k8s-disks/0", "/var/lib/kubelet", "/var/lib/containerd", "/var/log/pods"):
        found = [line for line in mounted.splitlines() if line.startswith(f"{where} xfs ")]
        tally.check(f"{where} is on the array", len(found) == 1, found)
    detail = guest.sh("mdadm --detail /dev/md/kubernetes*")
    tally.check("the array is RAID0 of two disks", "raid0" in detail and "Raid Devices : 2" in detail, detail)
    capacity = quantity(world.node_object().get("status", {}).get("capacity", {}).get("ephemeral-storage", "0"))
    total = NVME_BYTES * 2
    tally.figure("ephemeral storage of the Node, of what the disks have", 100 * capacity / total, "%")
    tally.check("... at least nine tenths", total * 0.9 <= capacity <= total, capacity)
    return next((line.split()[-1] for line in detail.splitlines() if "UUID" in line), "")


def raid0(opts: argparse.Namespace, tally: Tally) -> None:
    """RAID0 over two NVMe disks, and a reboot"""

    def wanted(text: bytes) -> bytes:
        return text.replace(b"localStorage: {}", b"localStorage:\n      strategy: RAID0")

    with World(opts, "raid0", user_data=wanted) as world:
        for n in range(2):
            disk = world.folder / f"nvme{n}.raw"
            with open(disk, "wb") as out:
                out.truncate(NVME_BYTES)
            world.machine.nvme.append(disk)
        world.boot_until_running()
        check_node(tally, world)
        first = check_array(tally, world)
        world.guest.run("touch", "/var/lib/kubelet/kept")
        world.guest.run("systemctl", "reboot", "--no-block")
        tally.check("the machine goes down for its reboot", world.machine.wait_off(300) == 0, world.machine.console)
        tally.begin("raid0, rebooted")
        world.boot_until_running()
        check_node(tally, world)
        tally.check("it is the same array", bool(first) and check_array(tally, world) == first, first)
        tally.check("what was on it is there", world.guest.run("ls", "/var/lib/kubelet/kept").strip() != "")
        world.power_off(tally)


def gate(opts: argparse.Namespace, tally: Tally) -> None:
    """The startup gate, and a reboot: in each boot no pod of the application is bound before the DaemonSet is Ready"""

    def wanted(text: bytes) -> bytes:
        return with_parts(with_gate(text), ("application/vnd.nodeclaimd+yaml", CONFIG))

    with World(opts, "gate", user_data=wanted) as world, Gate(opts, world) as seen:
        for name in ("gate", "gate, rebooted"):
            if seen.boots:
                world.guest.run("systemctl", "reboot", "--no-block")
                tally.check("the machine goes down for its reboot", world.machine.wait_off(500) == 0, world.machine.console)
                tally.begin(name)
            seen.begin(time.time())
            world.boot_until_running()
            check_node(tally, world)
            seen.check(tally)
            show(sorted(seen.rows()))
        world.power_off(tally, 500.0)


def interfaces(world: World) -> dict[str, str]:
    """By its MAC address, the state that systemd-networkd gives each."""
    links = json.loads(world.guest.run("networkctl", "list", "--json=short") or "{}").get("Interfaces", [])
    return {":".join(f"{byte:02x}" for byte in link.get("HardwareAddress", [])): link["AdministrativeState"] for link in links}


def check_plugged(tally: Tally, world: World) -> None:
    """A secondary interface comes when the node is one: it is the CNI plugin's."""
    dhcp = Dhcp(SECONDARY.tap, SECONDARY.mac, SECONDARY_ADDRESS, SECONDARY_ROUTER)
    world.callback(dhcp.close)
    world.machine.plug(SECONDARY)
    wait_for("the plugged interface", lambda: interfaces(world).get(SECONDARY.mac) in ("unmanaged", "configured"), 120)
    # Udev and what it starts have done all they would: who manages the interface does not change any more.
    world.guest.run("udevadm", "settle")
    world.guest.sh("while systemctl list-jobs | grep -q udev-net-manager; do sleep 0.2; done")
    states = interfaces(world)
    tally.check("systemd-networkd leaves the secondary interface alone", states.get(SECONDARY.mac) == "unmanaged", states)
    tally.check("... and has the primary one", states.get(PRIMARY.mac) == "configured", states)
    tally.check("no lease was asked for it", dhcp.leases == 0, dhcp.leases)


def interface(opts: argparse.Namespace, tally: Tally) -> None:
    """A secondary network interface is plugged in after the bootstrap: systemd-networkd leaves it to the CNI plugin"""
    with World(opts, "interface") as world:
        world.boot_until_running()
        check_plugged(tally, world)
        world.power_off(tally)


def al2023(opts: argparse.Namespace, tally: Tally) -> None:
    """An image in the shape of the EKS AL2023 AMI: its kubelet.service, slices, sysctls, boot hook and udev-net-manager"""
    with World(opts, "al2023", shape="al2023") as world:
        rows = world.boot_until_running()
        check_node(tally, world)
        check_order(tally, rows, "network", "nodeclaimd bootstrap starts", "kubelet's files written", "kubelet executed", "Node Ready")
        guest = world.guest
        states = guest.run("systemctl", "is-enabled", "nodeadm-boot-hook", "nodeadm-config", "nodeadm-run").split()
        tally.check("the boot hook is on, nodeadm's two units are off", states == ["enabled", "disabled", "disabled"], states)
        tally.check("nodeadm did not run", "nodeadm ran" not in guest.run("dmesg"))
        kubelet = guest.show("kubelet.service")
        tally.check("kubelet.service is the image's", kubelet.get("FragmentPath") == "/etc/systemd/system/kubelet.service", kubelet.get("FragmentPath"))
        files = kubelet.get("EnvironmentFiles", "")
        tally.check("... without its environment file", "/etc/eks/kubelet/environment" not in files, files)
        for unit in ("kubelet", "containerd"):
            group = guest.show(f"{unit}.service").get("ControlGroup", "")
            tally.check(f"{unit} is in runtime.slice", group == f"/runtime.slice/{unit}.service", group)
        check_plugged(tally, world)
        world.power_off(tally)


def package(opts: argparse.Namespace, tally: Tally) -> None:
    """The Debian package (--package): upgraded in the middle of a drain, which goes on; then removed"""

    def daemon() -> tuple[str, str]:
        shown = world.guest.show("nodeclaimd.service")
        return shown.get("ActiveState", ""), shown.get("InvocationID", "")

    with World(opts, "package", inst=replace(INSTANCE, life_cycle="spot"), user_data=with_margin) as world:
        world.boot_until_running()
        check_node(tally, world)
        began = daemon()
        life = life_of(world)
        world.callback(life.close)
        life.begin()
        wait_for("the cordon", lambda: world.node_object().get("spec", {}).get("unschedulable"), life.patience_sec)
        tally.check("the drain is not over", not world.conditions().get("Drained"), world.conditions().get("Drained"))
        world.guest.run("dpkg", "--install", "/opt/next.deb", patience=300)
        version = world.guest.run("dpkg-query", "--show", "--showformat=${Version} ${Status}", "nodeclaimd")
        tally.check("the next version is installed", version.endswith("next install ok installed"), version)
        now = daemon()
        tally.check("the daemon was restarted, once", now[0] == began[0] == "active" and now[1] != began[1], (began, now))
        restarts = world.guest.show("nodeclaimd.service").get("NRestarts")
        tally.check("... and did not fail", restarts == "0", restarts)
        life.close()
        written = writes(world.plane, world.node)
        check_signals(tally, life, written, SLOW_CORDON_MSEC)
        check_pods(tally, life, written, SLOW_DELETE_SEC)
        world.guest.run("dpkg", "--remove", "nodeclaimd", patience=300)
        enabled = world.guest.sh("systemctl list-unit-files --no-legend 'nodeclaimd*'; ls -d /etc/systemd/system/*/nodeclaimd* /usr/sbin/nodeclaimd 2>/dev/null")
        tally.check("after its removal no unit and no program is left", not enabled.strip(), enabled)
        tally.check("... and the daemon has ended", daemon()[0] == "inactive", daemon())
        tally.check("... and kubelet runs on", world.guest.show("kubelet.service").get("ActiveState") == "active")


SCENES: dict[str, Callable[[argparse.Namespace, Tally], None]] = {
    "karpenter": karpenter,
    "spot": spot,
    "poweroff": poweroff,
    "powercut": powercut,
    "script": script,
    "raid0": raid0,
    "gate": gate,
    "al2023": al2023,
    "interface": interface,
    "package": package,
}
