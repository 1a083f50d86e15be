"""kill -9 at every single write of a relay, and a start after it: the same end, each notice handed on exactly once."""

from __future__ import annotations

import unittest
from concurrent.futures import ThreadPoolExecutor

from controlling import ControlTest, ControlWorld

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
            if len(world.accepted("stamp", f"c-{name}")) != 1:
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


if __name__ == "__main__":
    unittest.main()
