"""An Auto Scaling group's warm pool: a machine is prepared without kubelet, and joins when it is taken into service."""

from __future__ import annotations

import json
import unittest

from harness import WorldTest
from running import KUBECONFIG, DaemonTest, DaemonWorld
from test_host import MARKER
from test_systemd import WithBus

from bus import Unit  # found by harness

WARMING = "run/nodeclaimd/warm-pool"
BOOTSTRAP = "nodeclaimd-bootstrap.service"


class Bootstrap(WorldTest):
    def kubelet_starts(self, world: WithBus) -> int:
        return sum(c.endswith("Unit kubelet.service") and not c.startswith("Load") for c in world.bus.calls)

    def test_prepared_and_taken_into_service(self) -> None:
        world = self.enterContext(WithBus())
        world.imds.target_state("Warmed:Stopped")
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(self.kubelet_starts(world), 0)
        self.assertTrue((world.root / KUBECONFIG).exists())
        self.assertTrue((world.root / WARMING).exists())
        self.assertFalse((world.root / MARKER).exists())
        self.assertEqual({world.phase(p)["outcome"] for p in ("start", "register", "initialize")}, {"skipped"})
        self.assertEqual(world.status()["outcome"], "succeeded")
        self.assertEqual(world.status()["waiting"]["reason"], "WarmPool")
        said = "target state Warmed:Stopped of the Auto Scaling group"
        self.assertIn(said, done.err)
        self.assertIn(said, world.console_record()["waiting"])
        self.assertIn(said, world.run("status").out)
        self.assertEqual(world.node(), {})
        world.imds.target_state("InService")
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(self.kubelet_starts(world), 1)
        self.assertFalse((world.root / WARMING).exists())
        self.assertIsNone(world.status()["waiting"])
        self.assertTrue(world.node())

    def test_out_of_service(self) -> None:
        """kubelet runs already: the machine goes back to its pool, and is drained. It is no machine that is being prepared."""
        world = self.enterContext(WithBus())
        self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
        world.imds.target_state("Warmed:Running")
        self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
        self.assertFalse((world.root / WARMING).exists())

    def test_no_group_and_nonsense(self) -> None:
        """Neither is in the way of a node."""
        for state in (None, "Warmed:<html>"):
            with self.subTest(state), WithBus() as world:
                world.imds.target_state(state)
                done = world.bootstrap("--timeout", "30s")
                self.assertEqual(done.code, 0, done.err)
                self.assertEqual(self.kubelet_starts(world), 1)
                self.assertEqual("target-lifecycle-state: " in done.err, state is not None, done.err)


class Daemon(DaemonTest):
    def warming_world(self) -> DaemonWorld:
        world = self.node_world(profile="m5.large", bus=True)
        (world.root / WARMING).parent.mkdir(parents=True, exist_ok=True)
        (world.root / WARMING).touch()
        world.imds.target_state("Warmed:Running")
        return world

    def poll_is_ok(self, world: DaemonWorld) -> bool:
        return world.said_of_itself().get("imds", {}).get("autoscaling", {}).get("state") == "ok"

    def test_no_notice_and_then_into_service(self) -> None:
        """What a machine that was hibernated, or was kept running, finds after its pause."""
        world = self.warming_world()
        assert world.bus
        marker = world.root / WARMING

        def join() -> int:
            marker.unlink(missing_ok=True)
            return 0

        world.bus.units[BOOTSTRAP] = Unit(start=join)
        world.start()
        world.must(lambda: self.poll_is_ok(world), "the poll")
        self.assertEqual(world.steps("signal", "cordon"), [])
        self.assertNotIn(f"RestartUnit {BOOTSTRAP}", world.bus.calls)
        world.imds.target_state("InService")
        world.must(lambda: f"RestartUnit {BOOTSTRAP}" in world.bus.calls, "the bootstrap", 20)
        world.must(lambda: not marker.exists(), "that it joins")
        world.imds.target_state("Warmed:Running")
        world.must(lambda: world.steps("cordon"), "out of service again: a notice", 20)
        self.assertEqual(world.bus.calls.count(f"RestartUnit {BOOTSTRAP}"), 1)

    def test_before_the_first_bootstrap(self) -> None:
        """The daemon is faster: without a kubeconfig this machine is no node."""
        world = self.node_world(profile="m5.large", bus=True)
        (world.root / KUBECONFIG).unlink()
        world.imds.target_state("Warmed:Stopped")
        world.start(ready=False)
        world.must(lambda: self.poll_is_ok(world), "the poll")
        self.assertEqual(json.dumps(world.drain().get("sources", [])), "[]")


if __name__ == "__main__":
    unittest.main()
