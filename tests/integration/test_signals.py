"""SIGTERM and SIGKILL at any point: what is on disk is whole, and a clean run afterwards ends as if nothing had happened."""

from __future__ import annotations

import json
import signal
import time
import unittest

from harness import PATIENCE, World, WorldTest, until

POINTS_USEC = [
    0,
    500,
    1000,
    1500,
    2000,
    3000,
    4000,
    5000,
    6000,
    7000,
    8000,
    9000,
    10000,
    12000,
    14000,
    17000,
    20000,
    25000,
    30000,
    40000,
]


class Signals(WorldTest):
    reference: "dict[str, bytes]" = {}

    def wanted(self, world: World) -> dict[str, bytes]:
        """The tree that a run which nobody disturbed leaves, for this world's input."""
        done = world.bootstrap("--skip", "start")
        self.assertEqual(done.code, 0, done.err)
        return world.tree("etc", "var/lib/kubelet")

    def whole(self, path: str, body: bytes, wanted: dict[str, bytes], old: dict[str, bytes]) -> None:
        self.assertIn(body, (wanted.get(path), old.get(path)), f"{path} is neither the old nor the new file")

    def disturb(self, sig: signal.Signals) -> int:
        """How many of the runs were still going when the signal came."""
        world = self.world()
        world.imds.server.latency_sec = 0.002
        old = world.tree("etc", "var/lib/kubelet")
        wanted = self.wanted(world)
        hit = 0
        for wait_usec in POINTS_USEC:
            for path in wanted:
                if path not in old:
                    (world.root / path).unlink(missing_ok=True)
            proc = world.spawn("bootstrap", "--skip", "start")
            time.sleep(wait_usec / 1e6 * PATIENCE)
            running = proc.poll() is None
            proc.send_signal(sig)
            done = world.finish(proc, within=10)
            hit += running and done.code != 0
            with self.subTest(wait_usec=wait_usec):
                self.assertNotIn("gave up waiting", done.err)
                for path, body in world.tree("etc", "var/lib/kubelet").items():
                    if path in wanted:
                        self.whole(path, body, wanted, old)
                if (world.root / "run/nodeclaimd/status.json").exists():
                    json.loads((world.root / "run/nodeclaimd/status.json").read_text())
        self.assertEqual(self.wanted(world), wanted, "a clean run after all that")
        return hit

    def test_sigkill(self) -> None:
        self.assertGreater(self.disturb(signal.SIGKILL), 3)

    def test_sigterm(self) -> None:
        self.assertGreater(self.disturb(signal.SIGTERM), 3)

    def test_sigterm_while_retrying(self) -> None:
        world = World()
        world.listening = False
        self.enterContext(world)
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(until(lambda: world.phase("imds").get("error")))
        start = time.monotonic()
        proc.send_signal(signal.SIGTERM)
        done = world.finish(proc, within=10)
        self.assertLess(time.monotonic() - start, 1.0 * PATIENCE)
        self.assertNotEqual(done.code, 0)
        self.assertEqual(world.status()["outcome"], "failed")

    def test_killed_while_kubelet_registers(self) -> None:
        """The second run finds a kubelet that runs already and follows it to the end."""
        world = self.world()
        proc = world.spawn("bootstrap", "--timeout", "30s")
        self.assertTrue(until(world.kubelet_pids))
        proc.kill()
        world.finish(proc)
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err + world.kubelet_log())
        self.assertEqual(world.status()["outcome"], "succeeded")
        names = [n["metadata"]["name"] for n in world.api.objects("nodes")]
        self.assertEqual(names, [world.node_name])


if __name__ == "__main__":
    unittest.main()
