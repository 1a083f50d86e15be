"""Units that run before and after a drain: started once, waited for, and never longer than the drain can wait."""

from __future__ import annotations

import json
import signal
import time
import unittest
from typing import Any

from running import SLACK, DaemonTest, DaemonWorld

from bus import Bus, Unit

PRE, POST = "nodeclaimd-pre-drain.target", "nodeclaimd-post-drain.target"


class Hooks(DaemonTest):
    def hook_world(self, timeout: str = "30s", **more: Any) -> tuple[DaemonWorld, Bus]:
        """Both targets are there, as the package installs them; nothing is installed for them."""
        world = self.node_world(profile="m5.large", bus=True, drain=f"    hookTimeout: {timeout}\n", **more)
        assert world.bus
        world.bus.units.update({PRE: Unit(), POST: Unit()})
        return world, world.bus

    def install(self, world: DaemonWorld, target: str, name: str, **more: Any) -> Unit:
        """As `systemctl enable` does for WantedBy=."""
        assert world.bus
        folder = world.root / "etc/systemd/system" / f"{target}.wants"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(f"/etc/systemd/system/{name}")
        world.bus.units[name] = Unit(**more)
        world.bus.units[target].wants.append(name)
        return world.bus.units[name]

    def starts(self, bus: Bus) -> list[str]:
        return [call for call in bus.calls if call.endswith(".target")]

    def hook(self, world: DaemonWorld, name: str) -> dict[str, Any]:
        return world.drain().get("hooks", {}).get(name, {})

    def request(self, world: DaemonWorld, *more: str) -> None:
        done = world.run("drain", *more)
        self.assertEqual(done.code, 0, done.err)

    def test_each_runs_once_in_its_place(self) -> None:
        world, bus = self.hook_world()
        pre = self.install(world, PRE, "flush.service", takes_sec=3)
        post = self.install(world, POST, "chat.service", takes_sec=2)
        world.pod("web", grace=1)
        world.start()
        self.request(world)
        world.must(lambda: self.hook(world, "preDrain").get("state") == "running", "the first hook")
        self.assertFalse(world.evictions())
        world.must(lambda: self.hook(world, "postDrain").get("state") == "running", "the second hook", 25)
        self.assertFalse(world.pods())
        self.assertFalse(world.steps("drained"))
        world.drained()
        self.assertEqual(self.hook(world, "preDrain")["state"], "done")
        world.must(lambda: self.hook(world, "postDrain")["state"] == "done", "its end")
        self.assertEqual(self.starts(bus), [f"RestartUnit {PRE}", f"RestartUnit {POST}"])
        self.assertEqual((pre.starts, post.starts), (1, 1))
        self.assertGreaterEqual(world.evictions("web")[0].at - world.steps("cordon")[0].at, 3)
        self.assertEvictedOnce(world, "web")
        self.assertNotIn("HookFailed", world.events())

    def test_nobody_uses_them(self) -> None:
        """No call over D-Bus, no time, and the requests are those of a node without hooks."""
        worlds = [self.hook_world(timeout)[0] for timeout in ("30s", "0s")]
        for world in worlds:
            world.pod("web", grace=1)
            world.start()
            self.request(world)
            world.drained()
            assert world.bus
            self.assertEqual(self.starts(world.bus), [])
        sent = [[s.kind for s in w.steps() if s.kind not in ("get", "list", "watch", "event")] for w in worlds]
        first = [list(dict.fromkeys(kinds)) for kinds in sent]  # progress is as fast as the machine is
        self.assertEqual(first[0], first[1])
        self.assertEqual(self.hook(worlds[0], "preDrain")["state"], "none")
        self.assertEqual(self.hook(worlds[1], "preDrain")["state"], "idle")
        self.assertLess(worlds[0].evictions()[0].at - worlds[0].steps("cordon")[0].at, 1 + SLACK)

    def test_failure_is_reported_and_stops_nothing(self) -> None:
        world, bus = self.hook_world()
        self.install(world, PRE, "flush.service", result="failed")
        self.install(world, POST, "chat.service", result="failed")
        world.pod("web", grace=1)
        world.start()
        self.request(world)
        world.drained(30)
        world.must(lambda: world.events().count("HookFailed") == 2, "both Events")
        self.assertIn("flush.service: failed", world.log())
        self.assertEqual([self.hook(world, h)["state"] for h in ("preDrain", "postDrain")], ["failed", "failed"])
        self.assertEqual(self.starts(bus), [f"RestartUnit {PRE}", f"RestartUnit {POST}"])

    def test_hang_is_waited_for_no_longer_than_it_may(self) -> None:
        world, _ = self.hook_world("2s")
        self.install(world, PRE, "flush.service", answers=False)
        self.install(world, POST, "chat.service", answers=False)
        world.pod("web", grace=1)
        world.start()
        self.request(world)
        world.drained(30)
        world.must(lambda: world.events().count("HookTimedOut") == 2, "both Events")
        after = world.evictions("web")[0].at - world.steps("cordon")[0].at
        self.assertTrue(1.9 <= after <= 2.5 + SLACK, f"{after}\n{world.story()}")

    def test_deadline_wins(self) -> None:
        """The time of the pod's own end is the drain's, whatever hangs: 10 s, a grace of 4 s, a margin of 1 s."""
        world, bus = self.hook_world()
        self.install(world, PRE, "flush.service", answers=False)
        world.pod("web", grace=4)
        world.start()
        world.must(bus.held, "an inhibitor")
        bus.inhibit_usec = 10_000_000
        start = time.monotonic()
        bus.prepare_for_shutdown()
        world.must(lambda: world.evictions("web"), "its eviction", 12)
        self.assertTrue(3.5 <= world.evictions("web")[0].at - start <= 4.5 + SLACK, world.story())
        world.must(lambda: "HookTimedOut" in world.events(), "the Event")
        world.must(lambda: not bus.held(), "letting go", 10)

    def test_bus_is_away(self) -> None:
        world = self.node_world(profile="m5.large", bus=False)
        folder = world.root / "etc/systemd/system" / f"{PRE}.wants"
        folder.mkdir(parents=True)
        (folder / "flush.service").write_text("")
        world.pod("web", grace=1)
        world.start()
        self.request(world)
        world.drained()
        world.must(lambda: "HookFailed" in world.events(), "the Event")
        self.assertLess(world.evictions("web")[0].at - world.steps("cordon")[0].at, 1 + SLACK)

    def test_restart_in_the_middle(self) -> None:
        """Killed while it runs: the next life follows what was started, and starts nothing."""
        world, bus = self.hook_world()
        self.install(world, PRE, "flush.service", takes_sec=6)
        world.pod("web", grace=1)
        world.start()
        self.request(world)
        world.must(lambda: self.starts(bus), "the start")
        world.kill()
        state = json.loads((world.root / "var/lib/nodeclaimd/state.json").read_text())
        self.assertEqual(state["life"]["hooks"]["preDrain"]["state"], "running")
        world.start()
        world.must(lambda: self.hook(world, "preDrain").get("state") == "done", "its end")
        world.drained(30)
        self.assertEqual(self.starts(bus), [f"RestartUnit {PRE}"])
        self.assertGreaterEqual(world.evictions("web")[0].at - world.steps("cordon")[0].at, 5.9)

    def test_withdrawn(self) -> None:
        """The second does not run where the node was not drained."""
        world, bus = self.hook_world()
        self.install(world, PRE, "flush.service", answers=False)
        self.install(world, POST, "chat.service")
        world.pod("web")
        world.start()
        self.request(world)
        world.must(lambda: self.starts(bus), "the start")
        self.assertEqual(world.run("undrain").code, 0)
        world.phase_is("idle")
        self.assertEqual(self.starts(bus), [f"RestartUnit {PRE}"])
        self.assertFalse(world.evictions())
        self.assertEqual(self.hook(world, "preDrain")["state"], "idle")

    def test_stop_waits_for_no_hook(self) -> None:
        world, bus = self.hook_world()
        self.install(world, PRE, "flush.service", answers=False)
        world.pod("web")
        world.start()
        self.request(world)
        world.must(lambda: self.starts(bus), "the start")
        code, took = world.stop(signal.SIGTERM)
        self.assertEqual(code, 0)
        self.assertLess(took, 2 + SLACK)


if __name__ == "__main__":
    unittest.main()
