"""kill -9 at every single write of a relay, and a start after it: the same end, each notice handed on exactly once."""

from __future__ import annotations

import unittest
from concurrent.futures import ThreadPoolExecutor

from controlling import OURS, ControlTest, ControlWorld, Toll, ToyAgent

NODES = ("n1", "n2", "n3")
KILLS = 8  # more than the relays of three nodes have writes
ORDERS = {"both": (), "delete-first": ("--order", "delete-first", "--stamp-after", "1s")}


class KilledInARelay(ControlTest):
    def relay_killed_at(self, number: int, before: bool, order: str) -> tuple[bool, str]:
        """(it was killed, what is wrong)."""
        with ControlWorld() as world:
            for name in NODES:
                world.pair(name)
            killed = world.kill_at(number, before)
            world.start(*ORDERS[order])
            ends = {name: world.say(name) or 0 for name in NODES}
            world.must(lambda: killed or self.is_done(world, ends), "death or the end")
            if not killed:
                return False, ""
            world.proc.wait(10)
            world.start(*ORDERS[order])
            world.must(lambda: self.is_done(world, ends), f"the end after a kill at {number}")
            self.assertQuiet(world, 0.5)
            self.judge(world)
            return True, self.wrong(world)

    @staticmethod
    def is_done(world: ControlWorld, ends: dict[str, int]) -> bool:
        claims = {name: world.get("nodeclaims", f"c-{name}")["metadata"] for name in ends}
        return all("deletionTimestamp" in m for m in claims.values()) and all(
            world.timestamp(f"c-{name}") == end - 15 for name, end in ends.items()
        )

    @staticmethod
    def wrong(world: ControlWorld) -> str:
        for name in NODES:
            if len(world.accepted("delete", f"c-{name}")) != 1:
                return f"{name}: not deleted exactly once\n{world.story()}"
            if len(world.accepted("set-timestamp", f"c-{name}")) != 1:
                return f"{name}: not stamped exactly once\n{world.story()}"
        return ""

    def every_write(self, before: bool, order: str) -> None:
        with ControlWorld():
            pass  # the certificates of this test program are made
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda n: self.relay_killed_at(n, before, order), range(KILLS)))
        self.assertEqual([wrong for _, wrong in results if wrong], [])
        killed = [was for was, _ in results]
        self.assertEqual(sum(killed), 2 * len(NODES), "a stamp and a DELETE for each")
        self.assertFalse(killed[-1], "there are more writes than this test kills at")

    def test_after_each_write_was_carried_out(self) -> None:
        self.every_write(before=False, order="both")

    def test_before_each_write_was_carried_out(self) -> None:
        self.every_write(before=True, order="both")

    def test_delete_first_after(self) -> None:
        self.every_write(before=False, order="delete-first")

    def test_delete_first_before(self) -> None:
        self.every_write(before=True, order="delete-first")


class KilledAlone(ControlTest):
    """From a Node that has just registered to the end of its claim, which somebody deletes once it is initialized."""

    WRITES = 16  # more than a whole life has

    def life_killed_at(self, number: int, before: bool) -> tuple[bool, str]:
        with ControlWorld(mode="standalone") as world:
            world.pool()
            agent, toll = ToyAgent(world, delay_sec=0.1), Toll(world)
            world.fresh("n1", labels={"team": "blue"})
            killed = world.kill_at(number, before)
            world.start(ready=False)  # it may be dead before it has opened its last watch
            done = False
            while not done:
                done = self.go_on(world, killed)
                if killed and world.procs[-1].pid == killed[1]:
                    world.proc.wait(10)
                    world.start(ready=False)
            self.judge(world)
            return bool(killed), self.wrong(world, agent, toll)

    def go_on(self, world: ControlWorld, killed: list[int]) -> bool:
        """True once it is over; False where it was killed on the way."""

        def is_dead() -> bool:
            return bool(killed) and world.procs[-1].pid == killed[1]

        def ready() -> bool:
            return not world.get("nodeclaims", "c-n1") or world.condition("c-n1", "Ready")[0] == "True"

        world.must(lambda: ready() or is_dead(), "a Node that is initialized", 30)
        if is_dead():
            return False
        world.api.on_loop(lambda: self.delete_once(world))
        world.must(lambda: world.is_gone("n1") or is_dead(), "its end", 30)
        return world.is_gone("n1")

    @staticmethod
    def delete_once(world: ControlWorld) -> None:
        key = (world.api.resource("nodeclaims"), "", "c-n1")
        if key in world.api.store.objects and not world.api.store.objects[key]["metadata"].get("deletionTimestamp"):
            world.api.store.delete(key[0], "c-n1")

    @staticmethod
    def wrong(world: ControlWorld, agent: ToyAgent, toll: Toll) -> str:
        if [len(d) for d in agent.drains.values()] != [1]:
            return f"not drained exactly once: {agent.drains}\n{world.story()}"
        if len(world.accepted("delete-node")) != 1 or world.steps("delete"):
            return f"deleted otherwise than once\n{world.story()}"
        first = next(s for s in world.accepted("node"))
        if first.body["metadata"]["labels"].get("team") != "blue" or first.body["metadata"]["finalizers"] != [OURS]:
            return f"another registration\n{world.story()}"
        return "" if toll.order == ["c-n1"] else f"another order: {toll.order}"

    def every_write(self, before: bool) -> None:
        with ControlWorld():
            pass
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda n: self.life_killed_at(n, before), range(self.WRITES)))
        self.assertEqual([wrong for _, wrong in results if wrong], [])
        killed = [was for was, _ in results]
        self.assertGreaterEqual(sum(killed), 8, "finalizer, registration, status, request, Drained, Node, two finalizers")
        self.assertFalse(killed[-1], "there are more writes than this test kills at")

    def test_after_each_write_was_carried_out(self) -> None:
        self.every_write(before=False)

    def test_before_each_write_was_carried_out(self) -> None:
        self.every_write(before=True)


if __name__ == "__main__":
    unittest.main()
