"""A shutdown of the machine: announced by logind, held up by our delay inhibitor while pods leave through the API."""

from __future__ import annotations

import math
import time
import unittest

from running import SLACK, DaemonTest, DaemonWorld

from bus import Bus, Inhibitor


class Shutdown(DaemonTest):
    def bus_world(self) -> tuple[DaemonWorld, Bus]:
        world = self.node_world(profile="m5.large", bus=True)
        assert world.bus
        return world, world.bus

    def held(self, world: DaemonWorld, bus: Bus) -> Inhibitor:
        world.must(bus.held, "an inhibitor")
        world.must(lambda: world.said_of_itself().get("inhibitor") == "held", "its mention")
        return bus.held()[0]

    def test_pods_leave_before_the_machine_does(self) -> None:
        world, bus = self.bus_world()
        world.pod("web", grace=2)
        world.pod("blocked", grace=2)
        world.api.kubelet.stops_after["blocked"] = math.inf
        world.budget("never", "blocked")
        world.start()
        lock = self.held(world, bus)
        self.assertEqual((lock.what, lock.mode), ("shutdown", "delay"))
        bus.inhibit_usec = 9_000_000
        start = time.monotonic()
        bus.prepare_for_shutdown()
        world.must(lambda: not bus.held(), "letting go", 20)
        self.assertTrue(6.0 <= lock.released - start <= 8.5 + SLACK, f"{lock.released - start}\n{world.story()}")
        world.must(lambda: not world.pods(), "the end of all pods", 3)
        self.assertOrder(world, "signal", "cordon", "evict")
        self.assertEvictedOnce(world, "web")
        self.assertEqual(world.condition("InterruptionPending"), ("True", "NodeShutdown"))
        first = world.deletions("blocked")[0]
        self.assertTrue(4.5 <= first.at - start <= 6.2 + SLACK, f"{first.at - start}\n{world.story()}")
        world.must(lambda: world.said_of_itself().get("inhibitor") == "none", "its mention")

    def test_nothing_to_do_is_not_waited_for_to_the_end(self) -> None:
        world, bus = self.bus_world()
        world.start()
        lock = self.held(world, bus)
        bus.inhibit_usec = 20_000_000
        start = time.monotonic()
        bus.prepare_for_shutdown()
        world.must(lambda: not bus.held(), "letting go", 20)
        self.assertLess(lock.released - start, 7.0 + SLACK)
        self.assertTrue(world.is_cordoned())

    def test_api_server_away(self) -> None:
        """The inhibitor is not held beyond its window."""
        world, bus = self.bus_world()
        world.pod("web")
        world.start()
        lock = self.held(world, bus)
        bus.inhibit_usec = 3_000_000
        world.api.server.refuse()
        start = time.monotonic()
        bus.prepare_for_shutdown()
        world.must(lambda: not bus.held(), "letting go", 20)
        self.assertLess(lock.released - start, 3.5 + SLACK)

    def test_cancelled(self) -> None:
        world, bus = self.bus_world()
        world.pod("blocked")
        world.budget("never", "blocked")
        world.start()
        self.held(world, bus)
        bus.inhibit_usec = 60_000_000
        bus.prepare_for_shutdown()
        world.must(lambda: world.evictions(), "the drain")
        bus.prepare_for_shutdown(False)
        world.must(lambda: not world.is_cordoned(), "the release")
        world.must(bus.held, "an inhibitor")

    def test_bus_that_comes_late_and_goes_away(self) -> None:
        world, bus = self.bus_world()
        bus.refuses_inhibitors = True
        world.start()
        world.must(lambda: world.said_of_itself().get("inhibitor") == "none", "none")
        bus.refuses_inhibitors = False
        first = self.held(world, bus)
        bus.drop_clients()
        world.must(lambda: any(i is not first for i in bus.held()), "another one")
        self.assertIsNone(world.daemon.poll())

    def test_less_time_than_is_needed(self) -> None:
        world, bus = self.bus_world()
        conf = world.root / "etc/systemd/logind.conf.d/zz-nodeclaimd.conf"
        conf.parent.mkdir(parents=True)
        conf.write_text("[Login]\nInhibitDelayMaxSec=150\n")
        world.start()
        said = "InhibitDelayMaxSec: logind waits 5.0 s at a shutdown, 150.0 s are needed"
        world.must(lambda: world.said_of_itself().get("inhibitDelay") == said, "its mention")
        self.assertIn(said, world.run("status").out)
        self.assertEqual(world.log().count(said), 1)
        bus.inhibit_usec = 150_000_000
        bus.restart_logind()
        world.must(lambda: world.said_of_itself().get("inhibitDelay") is None, "that it is enough now")

    def test_policy(self) -> None:
        world = self.node_world(profile="m5.large", bus=True, config="  interruption: {shutdown: report}\n")
        assert world.bus
        world.pod("web")
        world.start()
        self.held(world, world.bus)
        world.bus.prepare_for_shutdown()
        bus = world.bus
        world.must(lambda: not bus.held(), "letting go")
        self.assertEqual(world.steps("cordon", "evict"), [])

    def test_a_reboot(self) -> None:
        """By the policy of its own, where logind says so; by Karpenter's taint what it let ride is left alone, whatever logind says."""
        taint = {"key": "karpenter.sh/rebooting", "effect": "NoSchedule"}
        for kind, taints, drains in (("reboot", [], False), ("poweroff", [], True), ("", [], True), ("", [taint], False)):
            with self.subTest(kind=kind, taints=taints):
                world = self.node_world(profile="m5.large", bus=True, config="  interruption: {reboot: report}\n")
                assert world.bus
                world.pod("web", grace=1)
                world.change_node(lambda n, t=taints: n["spec"].update(taints=t))  # type: ignore[misc]
                world.start()
                self.held(world, world.bus)
                world.bus.kind, world.bus.inhibit_usec = kind, 20_000_000
                world.bus.prepare_for_shutdown()
                bus = world.bus
                world.must(lambda: not bus.held(), "letting go", 20)  # pylint: disable=cell-var-from-loop
                self.assertEqual({s.kind for s in world.steps("cordon", "evict")}, {"cordon", "evict"} if drains else set())
                self.assertEqual(world.condition("InterruptionPending"), ("True", "NodeShutdown"))


if __name__ == "__main__":
    unittest.main()
