"""The scenes: what happens to a machine, and what must be true of it then.

Gives: `SCENES`, by name; the first line of each docstring is what --list shows.
"""

from __future__ import annotations

import argparse
import json
from typing import Callable

from timeline import Row, when
from world import Tally, World

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
    tally.check("status: no warnings", status.get("warnings") == [], status.get("warnings"))
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


SCENES: dict[str, Callable[[argparse.Namespace, Tally], None]] = {
    "karpenter": karpenter,
}
