"""kill -9 at every single request of a drain, and a start after it: the end is the same, and nothing is evicted twice."""

from __future__ import annotations

import unittest
from concurrent.futures import ThreadPoolExecutor

from running import CORDON_KEY, LABEL, DaemonTest, DaemonWorld

PODS = ("web-1", "web-2", "web-3")
KILLS = 28  # more than a drain of three pods has requests


class Killed(DaemonTest):
    def drain_killed_at(self, number: int, before: bool) -> tuple[bool, str]:
        """(it was killed, what is wrong). One pod is refused, and goes by deletion at its force-delete time."""
        with DaemonWorld() as world:
            for name in PODS:
                world.pod(name, grace=3)
                world.api.kubelet.stops_after[name] = 0.3
            world.budget("never", PODS[-1])
            world.imds.spot(7)
            killed = world.kill_at(number, before)
            world.start(ready=False)
            world.must(lambda: killed or world.condition("Drained")[0] == "True", "death or the end", 30)
            if not killed:
                return False, ""
            world.daemon.wait(10)
            world.start(ready=False)
            world.must(lambda: world.condition("Drained")[0] == "True", f"the end after a kill at {number}", 30)
            self.judge(world)
            return True, self.wrong(world)

    def wrong(self, world: DaemonWorld) -> str:
        world.must(lambda: world.annotation().get("phase") == "Drained", "the last word")
        accepted = [s.what for s in world.steps("evict") if s.status == 201 and s.entry["sent"]]
        if len(accepted) != len(set(accepted)):
            return f"evicted twice after an answer\n{world.story()}"
        if world.pods() or not world.is_cordoned() or world.node()["metadata"]["labels"].get(LABEL) != "nodeclaimd":
            return f"another end\n{world.story()}"
        if not world.annotation(CORDON_KEY):
            return f"a cordon that nobody owns\n{world.story()}"
        if world.steps("release", "calm"):
            return f"undone in between\n{world.story()}"
        return ""

    def every_request(self, before: bool) -> None:
        with DaemonWorld():
            pass  # the certificates of this test program are made
        with ThreadPoolExecutor(8) as pool:
            jobs = [pool.submit(self.drain_killed_at, n, before) for n in range(KILLS)]
            results = [job.result() for job in jobs]
        self.assertEqual([wrong for _, wrong in results if wrong], [])
        killed = [was for was, _ in results]
        self.assertGreater(sum(killed), 9, "signal, cordon, evictions, a mark, a deletion, Drained at least")
        self.assertFalse(killed[-1], "there are more requests than this test kills at")

    def test_after_each_request_was_carried_out(self) -> None:
        self.every_request(before=False)

    def test_before_each_request_was_carried_out(self) -> None:
        self.every_request(before=True)


if __name__ == "__main__":
    unittest.main()
