"""What the controller requests where nothing new is switched on: the lists that were made before there was anything to switch on."""

from __future__ import annotations

import unittest

from controlling import REQUEST_KEY, ControlTest, ControlWorld, ToyAgent
from wirelist import compare, steady, values


class Wire(ControlTest):
    def test_beside_karpenter(self) -> None:
        """A notice with a deadline, a drain without one, a group that ends its instance, a Node that is not reached any more."""
        world = self.control_world()
        for name in ("n1", "n2", "n3", "n4"):
            world.pair(name)
        world.start()
        world.say("n2", source="operator", phase="Evicting", deadline=None)
        world.say("n3", source="autoscaling", phase="Drained", deadline=None)
        world.change("nodes", "n4", lambda n: n.update(status={"conditions": [{"type": "Ready", "status": "Unknown"}]}))
        world.say("n1")
        world.relayed("c-n1")
        world.must(lambda: {"n1", "n2", "n3"} <= set(world.status()), "what they say")
        world.must(lambda: world.accepted("event", "InterruptionRelayed"), "the Event")
        compare(self, "wire-karpenter", map(steady, world.api.server.log.snapshot()))

    def test_standalone(self) -> None:
        """Two nodes of two zones that have expired: from the taint to the last finalizer."""
        world = self.control_world(mode="standalone")
        world.pool(budgets=[{"nodes": "100%"}])
        for name, zone in (("n1", "us-west-2a"), ("n2", "us-west-2b")):
            world.ours(name, spec={"expireAfter": "1h"}, labels={"topology.kubernetes.io/zone": zone},
                       creationTimestamp="2026-01-01T00:00:00Z")
        ToyAgent(world, delay_sec=1.0)
        world.start()
        world.must(lambda: world.is_gone("n1") and world.is_gone("n2"), "the end of both", 30)
        world.must(lambda: len(world.accepted("event", "Disrupted")) == 2, "the Events")
        log = world.api.server.log.snapshot()
        compare(self, "wire-standalone", [line for e in log for line in values(e, (REQUEST_KEY,))])


if __name__ == "__main__":
    unittest.main()
