"""What a drain requests where nothing new is switched on: the lists that were made before there was anything to switch on."""

from __future__ import annotations

import unittest

from running import CORDON_KEY, REQUEST_KEY, STATUS_KEY, DaemonTest, DaemonWorld
from wirelist import IS_UPDATE, compare, steady


class Wire(DaemonTest):
    def crowd(self) -> DaemonWorld:
        world = self.node_world(drain="" if IS_UPDATE else "    podEvents: false\n")  # before there was no such setting
        world.pod("web", grace=2)
        world.pod("critical", grace=2, spec={"priorityClassName": "system-node-critical"})
        world.pod("blocked", grace=2)
        world.pod("agent", owner="DaemonSet")
        world.pod("tolerant", owner="DaemonSet", spec={"tolerations": [{"operator": "Exists"}]})
        self.budget = world.budget("never", "blocked")
        world.start()
        return world

    def compare(self, world: DaemonWorld, name: str) -> None:
        world.drained()
        world.must(lambda: world.condition("Drained")[0] == "True" and "NodeDrained" in world.events(), "the last write")
        log = [e for e in world.api.server.log.snapshot() if e.get("agent", "").endswith("(run)")]
        compare(self, name, [steady(e, (STATUS_KEY, CORDON_KEY), [(world.node_name, "<node>")]) for e in log])

    def test_a_drain_with_nothing_new(self) -> None:
        world = self.crowd()
        world.imds.spot(8)
        self.compare(world, "wire")

    def test_a_drain_without_a_deadline(self) -> None:
        world = self.crowd()
        request = {REQUEST_KEY: '{"id":"wire","mode":"graceful"}'}
        world.change_node(lambda n: n["metadata"].setdefault("annotations", {}).update(request))
        world.must(lambda: "DrainBlocked" in world.events(), "the pod that is blocked")
        self.budget.allowed = 9
        self.compare(world, "wire-graceful")


if __name__ == "__main__":
    unittest.main()
