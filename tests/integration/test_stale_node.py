"""A Node of our name that another instance left behind: EC2 gives its address, and so its name, to the next one. And our own, gone.

kubelet registers once in its life: one that was started while that Node stood would take it over, keep it Ready, so that nobody
deletes it, and never register again once somebody did.
"""

from __future__ import annotations

import subprocess
import unittest
from typing import Optional

from harness import PATIENCE, World, WorldTest, until
from test_systemd import WithBus

THEIRS = "aws:///us-west-2a/i-0aaaaaaaaaaaaaaaa"


class StaleNode(WorldTest):
    def left_behind(self, world: World, provider_id: Optional[str] = THEIRS) -> None:
        spec = {"providerID": provider_id} if provider_id else {}
        world.api.put("nodes", {"metadata": {"name": world.node_name}, "spec": spec, "status": {"conditions": []}})

    def deleted(self, world: World) -> None:
        nodes = world.api.resource("nodes")
        world.api.on_loop(lambda: world.api.store.delete(nodes, world.node_name))

    def waits(self, world: World) -> "subprocess.Popen[bytes]":
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(until(lambda: "another instance" in str(world.phase("preflight"))), world.status())
        return proc

    def test_kubelet_is_not_started_before_it_is_gone(self) -> None:
        for name, world in (("process", self.world()), ("unit", self.enterContext(WithBus()))):
            with self.subTest(name):
                self.left_behind(world)
                proc = self.waits(world)
                error = self.assertError(world, "preflight", "protocol", THEIRS, world.inst.provider_id)
                self.assertIn(f"delete the stale Node {world.node_name}", error["remedy"])
                self.assertEqual(world.kubelet_pids(), [], "it would keep the stale Node alive")
                self.assertFalse((world.root / "etc/nodeclaimd/kubelet.env").exists(), "an enabled kubelet would start with it")
                self.deleted(world)
                done = world.finish(proc)
                self.assertEqual(done.code, 0, done.err + world.kubelet_log())
                self.assertLess(done.seconds, 30 * PATIENCE)
                self.assertEqual(world.node()["spec"]["providerID"], world.inst.provider_id)

    def test_it_stays(self) -> None:
        world = self.world()
        self.left_behind(world)
        done = world.bootstrap("--timeout", "2s")
        self.assertFailure(world, done, 5, "preflight", "protocol", "another instance", THEIRS)
        self.assertEqual(world.kubelet_pids(), [])
        self.assertEqual(world.node()["status"], {"conditions": []}, "nobody wrote to it")

    def test_ours_or_nobodys_is_no_reason_to_wait(self) -> None:
        for whose in ("ours", "nobody's"):
            with self.subTest(whose):
                world = self.world(claim=False)
                self.left_behind(world, world.inst.provider_id if whose == "ours" else None)
                proc = world.spawn("bootstrap", "--timeout", "60s")
                self.assertTrue(until(world.kubelet_pids), world.status())
                self.assertEqual(world.phase("preflight")["outcome"], "succeeded", world.status())
                proc.terminate()
                world.finish(proc)

    def test_ours_is_deleted_before_it_is_ready(self) -> None:
        world = self.world(mode="notready", claim=False)
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(until(world.node), world.status())
        self.assertTrue(until(lambda: world.phase("initialize").get("attempts")), world.status())
        self.deleted(world)
        self.assertTrue(until(lambda: "is gone again" in str(world.phase("initialize"))), world.status())
        error = self.assertError(world, "initialize", "transient", world.node_name)
        self.assertIn("systemctl restart kubelet.service", error["remedy"], "no other kubelet registers it")
        proc.terminate()
        world.finish(proc)


if __name__ == "__main__":
    unittest.main()
