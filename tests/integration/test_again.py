"""A bootstrap where the Node is there already, Ready: it is the new kubelet's word that ends it, never the last one's."""

from __future__ import annotations

import time
import unittest
from typing import Any

from harness import PATIENCE, World, WorldTest, mime, until
from test_systemd import WithBus

HEARTBEAT = "%Y-%m-%dT%H:%M:%SZ"
KUBELET = "  kubelet:\n    config:\n      maxPods: 29\n"
SILENT = "kubelet has not reported since it was started"


class Again(WorldTest):
    def ready(self, node: dict[str, Any]) -> dict[str, Any]:
        return next(c for c in node["status"]["conditions"] if c["type"] == "Ready")

    def says(self, world: World, seconds_ago: float, status: str = "True") -> None:
        """Ready with a heartbeat of then, as a kubelet of then has left it."""
        then = time.strftime(HEARTBEAT, time.gmtime(time.time() - seconds_ago))
        nodes = world.api.resource("nodes")

        def go() -> None:  # nobody else writes between the two
            node = world.api.store.get(nodes, world.node_name)
            self.ready(node).update(lastHeartbeatTime=then, status=status)
            world.api.store.replace(nodes, node)

        world.api.on_loop(go)

    def joined(self, world: World, mode: str) -> None:
        """A node that was bootstrapped once; its next kubelet has other files and does as `mode` says."""
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err + world.kubelet_log())
        config = world.node_config() if world.claim else world.node_config(kubelet=KUBELET)
        world.set_user_data(mime(("application/node.eks.aws", config.replace("maxPods: 29", "maxPods: 28"))))
        world.write_kubelet(mode)
        self.says(world, 3600)

    def worlds(self) -> "list[tuple[str, World]]":
        alone = self.world(claim=False)
        alone.set_user_data(mime(("application/node.eks.aws", alone.node_config(kubelet=KUBELET))))
        return [("process", self.world()), ("unit", self.enterContext(WithBus())), ("alone", alone)]

    def test_the_last_kubelets_ready_is_not_this_ones(self) -> None:
        for name, world in self.worlds():
            with self.subTest(name):
                self.joined(world, "stuck")
                written = world.node()["metadata"].get("annotations")
                for _ in ("it is started", "it is found running"):
                    done = world.bootstrap("--timeout", "4s")
                    self.assertFailure(world, done, 1, "initialize", "transient", "NodeNotReady", SILENT)
                self.assertEqual(self.ready(world.node())["status"], "True", "nothing but the heartbeat's age tells")
                self.assertIn("kubelet's log", world.phase("initialize")["error"]["remedy"])
                self.assertEqual(world.node()["metadata"].get("annotations"), written, "four seconds are ordinary")

    def test_the_new_ones_first_report_ends_it(self) -> None:
        for name, world in self.worlds():
            with self.subTest(name):
                self.joined(world, "normal")
                done = world.bootstrap("--timeout", "60s")
                self.assertEqual(done.code, 0, done.err + world.kubelet_log())
                self.assertLess(done.seconds, 9 * PATIENCE, "its first report is waited for, no second one")
                self.assertEqual(world.status()["allocatable"]["actual"]["pods"], "28", "the new kubelet's status")

    def test_a_heartbeat_of_the_new_one_is_waited_for_and_heard(self) -> None:
        world = self.world()
        self.joined(world, "stuck")
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(until(lambda: SILENT in str(world.status())), world.status())
        self.says(world, 0, "False")
        self.assertTrue(until(lambda: SILENT not in str(world.status())), world.status())
        self.assertIsNone(proc.poll(), "it has reported, and is not ready")
        self.says(world, 0)
        done = world.finish(proc)
        self.assertEqual(done.code, 0, done.err)

    def test_a_kubelet_that_was_left_running_has_said_it_long_ago(self) -> None:
        """Nothing changed for minutes, so no heartbeat either: it is no older than the kubelet."""
        for name, world in self.worlds():
            with self.subTest(name):
                self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
                before = self.ready(world.node())["lastHeartbeatTime"]
                done = world.bootstrap("--timeout", "30s")
                self.assertEqual(done.code, 0, done.err)
                self.assertEqual(self.ready(world.node())["lastHeartbeatTime"], before, "the same kubelet, and no news")

    def test_a_unit_that_systemd_started_again(self) -> None:
        """The last process's word is the last process's, whoever started the next one."""
        world = self.enterContext(WithBus())
        self.joined(world, "stuck")
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(until(lambda: SILENT in str(world.status())), world.status())
        self.says(world, 0, "False")
        self.assertTrue(until(lambda: SILENT not in str(world.status())), world.status())
        world.unit.started_usec += 3600 * 1_000_000
        world.unit.started_mono_usec += 3600 * 1_000_000
        self.assertTrue(until(lambda: SILENT in str(world.status())), world.status())
        proc.terminate()
        world.finish(proc)


if __name__ == "__main__":
    unittest.main()
