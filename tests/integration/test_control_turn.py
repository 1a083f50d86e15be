"""Zones that take turns in voluntary disruption: `--zone-turn`, where there is no Karpenter."""

from __future__ import annotations

import unittest
from typing import Any

from controlling import DISRUPTED, REQUEST_KEY, ControlTest, ControlWorld, Toll, ToyAgent

OLD = {"creationTimestamp": "2026-01-01T00:00:00Z"}
ALL = [{"nodes": "100%"}]
ZONE = "topology.kubernetes.io/zone"
NAMES = ["b1", "c1", "a1", "a2", "b2", "c2"]  # the first letter is the zone
TURN = ("--zone-turn", "1m")


class Turns(ControlTest):
    def zones(self, budgets: Any = None, names: list[str] = NAMES, **spec: Any) -> ControlWorld:
        """Nodes in three zones, all of them expired."""
        world = self.control_world(mode="standalone")
        world.pool(budgets=budgets or ALL)
        for name in names:
            world.ours(name, spec={"expireAfter": "1h", **spec}, labels={ZONE: f"us-west-2{name[0]}"}, **OLD)
        return world

    def zones_of(self, toll: Toll) -> str:
        return "".join(name[2] for name in toll.order)

    def watch_zones(self, world: ControlWorld) -> list[set[str]]:
        """The zones of what was on its way out at once, at each change."""
        going: set[str] = set()
        seen: list[set[str]] = []

        def changed(change: Any) -> None:
            meta = change.object["metadata"]
            if change.resource.plural != "nodeclaims":
                return
            if change.kind == "DELETED":
                going.discard(meta["name"])
            elif meta.get("deletionTimestamp"):
                going.add(meta["name"])
            seen.append({name[2] for name in going})

        world.api.on_loop(lambda: world.api.store.watchers.append(changed))
        return seen

    def end_of_all(self, world: ControlWorld, names: list[str] = NAMES) -> None:
        world.must(lambda: all(world.is_gone(name) for name in names), "the end of all", 40)

    def test_off(self) -> None:
        """Without the option all go at once, and nothing more is requested than ever."""
        world = self.zones()
        ToyAgent(world, delay_sec=2.0)
        toll = Toll(world)
        world.start()
        world.must(lambda: toll.most == len(NAMES), "all on their way out at once")
        self.assertNotIn("zoneTurn", world.ask("/status")[1])
        self.end_of_all(world)
        self.assertEqual({s.kind for s in world.writes()}, {"delete", "node", "delete-node", "status", "claim"})
        self.assertNotIn("WaitingForZone", world.log())

    def test_one_zone_after_the_other(self) -> None:
        world = self.zones()
        ToyAgent(world, delay_sec=1.5)
        toll, seen = Toll(world), self.watch_zones(world)
        world.start(*TURN)
        world.must(lambda: len(toll.going) == 2, "the first zone")
        states = {name: row["state"] for name, row in world.status().items()}
        self.assertEqual({n: states[n] for n in ("b1", "b2", "c1", "c2")}, dict.fromkeys(("b1", "b2", "c1", "c2"), "WaitingForZone"))
        code, out, err = world.run("status", "--metrics-address", world.addresses[world.proc.pid])
        self.assertRegex(out, r"(?m)^zone turn +us-west-2a$", err)
        self.end_of_all(world)
        self.assertEqual(self.zones_of(toll), "aabbcc")
        self.assertLessEqual(max(map(len, seen)), 1, world.story())
        self.assertEqual([s.what for s in world.steps("event") if s.what == "ZoneTurnExceeded"], [])

    def test_a_leader_that_is_killed(self) -> None:
        """The next one waits for what the first one has begun, and goes on from there."""
        world = self.zones()
        agent = ToyAgent(world, delay_sec=4.0)
        toll, seen = Toll(world), self.watch_zones(world)
        world.start(*TURN)
        world.must(lambda: len(agent.drains) == 2, "the first zone drains")
        world.kill()
        world.start(*TURN)
        world.must(lambda: world.status()["b1"]["state"] == "WaitingForZone", "the state of another zone")
        self.assertEqual(len(toll.order), 2)
        self.end_of_all(world)
        self.assertEqual(self.zones_of(toll), "aabbcc")
        self.assertLessEqual(max(map(len, seen)), 1, world.story())

    def test_what_is_not_voluntary_is_not_held(self) -> None:
        world = self.zones()
        ToyAgent(world).silent.update(NAMES)
        world.start(*TURN)
        world.must(lambda: len(world.accepted("delete")) == 2, "the first zone")
        world.say("b1")
        world.relayed("c-b1")
        world.remove("nodeclaims", "c-c1")
        world.must(lambda: world.request("c1") and DISRUPTED in world.taints("c1"), "the drain of what a person deleted")
        world.annotate("nodes", "c2", REQUEST_KEY, '{"id":"x","mode":"graceful"}')
        self.assertQuiet(world, 1.5, "c-b2", "c-c2")

    def test_a_turn_that_takes_too_long(self) -> None:
        """Nothing waits for ever; the NodeClaim that took too long says so."""
        world = self.zones(names=["a1", "b1"])
        ToyAgent(world).silent.add("a1")
        world.start(*TURN)
        world.must(lambda: world.accepted("delete", "c-a1"), "the first zone")
        began = world.accepted("delete", "c-a1")[0].at
        world.must(lambda: world.accepted("delete", "c-b1"), "the next zone", 75)
        self.assertGreaterEqual(world.accepted("delete", "c-b1")[0].at - began, 58.5)
        event = world.must(lambda: [s for s in world.steps("event") if s.what == "ZoneTurnExceeded"], "the Event")[0]
        self.assertEqual(event.body["involvedObject"]["name"], "c-a1")
        self.assertEqual(event.body["type"], "Warning")
        self.assertIn('zone "us-west-2b" begins', event.body["message"])


if __name__ == "__main__":
    unittest.main()
