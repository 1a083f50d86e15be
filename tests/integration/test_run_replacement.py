"""Replacement first, on the node: a pod that asks for it waits in a voluntary drain, says so, and not beyond its limit."""

from __future__ import annotations

import time
import unittest

from running import REQUEST_KEY, SLACK, DaemonTest, DaemonWorld

FIRST = {"nodeclaimd.io/replacement-first": "true"}


class Replacement(DaemonTest):
    def begin(self, world: DaemonWorld, request: str = '{"id":"r1","mode":"graceful"}') -> None:
        world.pod("first", grace=2, annotations=FIRST)
        world.pod("web", grace=2)
        world.start()
        world.change_node(lambda n: n["metadata"].setdefault("annotations", {}).update({REQUEST_KEY: request}))

    def test_waits_until_somebody_else_deletes_it(self) -> None:
        world = self.node_world()
        self.begin(world)
        world.must(lambda: world.annotation().get("waiting") == 1, "its mention")
        since = world.annotation()["waitingSince"]
        world.must(lambda: world.pods() == ["first"], "the other one's end")
        self.assertEqual(world.annotation()["blocked"], ["default/first"])
        self.assertEqual([(b["pod"], b["message"]) for b in world.drain()["blocked"]], [("default/first", "waits for its replacement")])
        self.assertEqual(world.drain()["pods"]["waiting"], 1)
        world.must(lambda: "WaitingForReplacement" in world.events(), "the Event")
        world.stop()  # and by the next process, too, since the same moment
        world.start()
        world.must(lambda: world.steps("progress")[-1].status == 200 and world.annotation().get("waitingSince") == since, "the same")
        self.assertEqual(world.evictions("first"), [])
        world.api.on_loop(lambda: world.api.pods.delete("default", "first", {}))  # its owner
        world.drained()
        self.assertNotIn("waiting", world.annotation())
        self.assertEqual(world.evictions("first"), [], "nobody evicts what is replaced")
        self.assertNotIn("ReplacementNotReady", world.events())

    def test_evicted_at_its_limit(self) -> None:
        world = self.node_world(drain="    replacementTimeout: 4s\n")
        self.begin(world)
        world.must(lambda: world.annotation().get("waiting") == 1, "its mention")
        world.drained()
        waited = world.evictions("first")[0].at - world.steps("cordon")[0].entry["sent"]
        self.assertTrue(4 - 0.1 <= waited <= 4 + SLACK, f"{waited}\n{world.story()}")
        self.assertIn("ReplacementNotReady", world.events())
        self.assertEvictedOnce(world, "first", "web")

    def test_no_wait_where_it_is_off(self) -> None:
        world = self.node_world(drain="    replacementTimeout: 0s\n")
        self.begin(world)
        world.drained()
        self.assertLess(world.evictions("first")[0].at - world.evictions("web")[0].at, SLACK)
        self.assertNotIn("WaitingForReplacement", world.events())

    def test_no_wait_under_a_deadline(self) -> None:
        """From the start, or where one comes in between."""
        world = self.node_world()
        self.begin(world)
        world.must(lambda: world.pods() == ["first"], "the other one's end")
        self.assertEqual(world.evictions("first"), [])
        said = time.monotonic()
        world.imds.spot(60)
        world.must(lambda: world.evictions("first", accepted=True), "its eviction")
        self.assertLess(world.evictions("first")[0].at - said, 2 + SLACK, world.story())
        late = self.node_world()
        late.pod("first", grace=2, annotations=FIRST)
        late.start()
        late.imds.spot(60)
        late.drained()
        self.assertEqual(late.deletions(), [])
        self.assertNotIn("WaitingForReplacement", late.events())

    def test_dry_run(self) -> None:
        """What the daemon would do now: by its configuration, and by the deadline that is asked about."""
        world = self.node_world(drain="    replacementTimeout: 3m\n")
        world.pod("first", grace=2, annotations=FIRST)
        world.start()
        world.must(lambda: world.steps("watch"), "its watch")
        for args, what in (((), "wait for its replacement"), (("--deadline", "9m"), "wait for its replacement"), (("--deadline", "2m"), "evict")):
            done = world.run("drain", "--dry-run", *args)
            self.assertEqual(done.code, 0, done.err)
            self.assertIn(f"default/first  {what}", done.out)


if __name__ == "__main__":
    unittest.main()
