"""Fit to take pods: the taint goes for the node's present boot alone, comes back after a reboot, and never outlives its time unsaid."""

from __future__ import annotations

import json
import time
import unittest
from typing import Any, Optional

from controlling import ControlTest, ControlWorld, stamp

KEY, RECORD, TAINT = "nodeclaimd.io/fit", "nodeclaimd.io/fit-boot", "nodeclaimd.io/unfit"
UNFIT = {"key": TAINT, "effect": "NoSchedule"}
REBOOTING = {"key": "karpenter.sh/rebooting", "effect": "NoSchedule"}


class Fit(ControlTest):
    def gated(self, world: ControlWorld, name: str, *taints: dict[str, Any]) -> None:
        world.pair(name)
        world.change("nodes", name, lambda n: n["spec"].update(taints=[*taints, UNFIT]))

    def state(self, world: ControlWorld, name: str, boot: str, fit: bool, **more: Any) -> None:
        """What the agent writes in the metadata."""
        text = json.dumps({"boot": boot, "fit": fit, "reason": "Fit" if fit else "DaemonSetsNotReady", **more}, separators=(",", ":"))
        world.annotate("nodes", name, KEY, text)

    def prove(self, world: ControlWorld, name: str, boot: Optional[str], status: str) -> None:
        """What kubelet and the agent write in the status."""

        def edit(node: dict[str, Any]) -> None:
            others = [c for c in node["status"]["conditions"] if c["type"] != "nodeclaimd.io/Fit"]
            node["status"]["conditions"] = [*others, {"type": "nodeclaimd.io/Fit", "status": status, "reason": "x"}]
            if boot is not None:
                node["status"]["nodeInfo"] = {"bootID": boot}

        world.change("nodes", name, edit)

    def taints(self, world: ControlWorld, name: str) -> list[str]:
        return [t["key"] for t in world.get("nodes", name)["spec"].get("taints") or []]

    def test_a_life(self) -> None:
        """A first boot, a reboot of Karpenter's, a DaemonSet that is not Ready for a while; beside Karpenter and without it."""
        for mode in ("karpenter", "standalone"):
            with self.subTest(mode=mode):
                world = self.control_world(mode=mode)
                world.pool()
                self.gated(world, "n1", REBOOTING)
                self.gated(world, "n2")
                world.start()
                self.prove(world, "n1", "b1", "False")
                self.state(world, "n1", "b1", False)
                self.assertQuiet(world, 1)
                self.prove(world, "n1", "b1", "True")
                self.state(world, "n1", "b1", True)
                world.must(lambda: self.taints(world, "n1") == [REBOOTING["key"]], "the taint is gone")
                self.assertEqual(world.get("nodes", "n1")["metadata"]["annotations"][RECORD], "b1")
                self.state(world, "n1", "b1", False)
                self.assertQuiet(world, 1)
                self.state(world, "n1", "b2", False)
                world.must(lambda: TAINT in self.taints(world, "n1"), "the taint is back")
                self.state(world, "n1", "b2", True)  # of which the condition is of the boot before
                self.assertQuiet(world, 1)
                self.prove(world, "n1", "b2", "True")
                world.must(lambda: self.taints(world, "n1") == [REBOOTING["key"]], "the taint is gone again")
                self.assertEqual(self.taints(world, "n2"), [TAINT])
                self.assertEqual({s.what for s in world.writes()}, {"n1"}, world.story())
                self.assertEqual(len(world.writes()), 3, world.story())

    def test_somebody_writes_between_the_look_and_the_patch(self) -> None:
        world = self.control_world()
        self.gated(world, "n1")
        self.prove(world, "n1", "b1", "True")
        held = world.api.server.fault("hold", path="nodes/n1", method="PATCH")
        world.start()
        self.state(world, "n1", "b1", True)
        world.must(lambda: held.held, "the patch")
        world.change("nodes", "n1", lambda n: n["spec"]["taints"].append({"key": "a/b", "effect": "NoExecute"}))
        world.api.server.release(held)
        world.must(lambda: self.taints(world, "n1") == ["a/b"], "ours is gone, and no other one")

    def test_its_time_is_over(self) -> None:
        world = self.control_world()
        for name in ("n1", "n2"):
            self.gated(world, name)
            self.prove(world, name, "b1", "False")
        world.start()
        self.state(world, "n1", "b1", False, missing=["kube-system/ebs-csi-node"], until=stamp(time.time() + 2), then="hold")
        self.state(world, "n2", "b1", False)
        event = world.must(lambda: [s for s in world.accepted("event") if s.what == "UnfitTooLong"], "the Event")[0].body
        self.assertEqual((event["type"], event["involvedObject"]["name"]), ("Warning", "n1"))
        self.assertIn("kube-system/ebs-csi-node", event["message"])
        self.assertEqual((world.metric("unfit_nodes"), world.metric("unfit_overdue_nodes")), (2, 1))
        text = world.run("status", "--metrics-address", world.addresses[world.proc.pid])[1]
        self.assertRegex(text, r"(?m)^n1 .* UnfitOverdue .*\nn2 .* Unfit ")
        self.prove(world, "n1", "b1", "True")
        self.state(world, "n1", "b1", True)
        world.must(lambda: self.taints(world, "n1") == [], "the taint is gone")
        world.must(lambda: world.metric("unfit_overdue_nodes") == 0, "it counts no more")


if __name__ == "__main__":
    unittest.main()
