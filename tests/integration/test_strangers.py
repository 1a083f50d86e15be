"""Other users of the machine, on a real bus: no local user but root starts, ends or delays a drain, or decides anything else."""

from __future__ import annotations

import math
import os
import unittest
from typing import Any

from harness import needs
from running import DaemonTest, DaemonWorld
from test_systemd import WithBus

from realbus import NOBODY, RealBus

FLOOD = "while True: prepare(0); prepare(1)"


@needs("CAP_SETUID")
class Strangers(DaemonTest):
    def bus_world(self, **more: Any) -> tuple[DaemonWorld, RealBus]:
        world = self.node_world(profile="m5.large", bus=RealBus, **more)
        assert isinstance(world.bus, RealBus)
        return world, world.bus

    def started(self) -> tuple[DaemonWorld, RealBus]:
        """With a pod that would be gone at once, and one that no drain gets rid of soon."""
        world, bus = self.bus_world()
        world.pod("web", grace=2)
        world.pod("blocked", grace=2)
        world.api.kubelet.stops_after["blocked"] = math.inf
        world.budget("never", "blocked")
        world.start()
        world.must(bus.held, "an inhibitor")
        world.must(lambda: world.said_of_itself().get("inhibitor") == "held", "its mention")
        return world, bus

    def reads(self, bus: RealBus) -> int:
        return bus.reads.count("PreparingForShutdown")

    def test_a_shutdown_that_nobody_prepares(self) -> None:
        world, bus = self.started()
        before = self.reads(bus)
        bus.run_stranger("for _ in range(50): prepare(1)")
        world.must(lambda: self.reads(bus) > before, "a read")
        bus.run_stranger("prepare(0)")
        world.must(lambda: self.reads(bus) > before + 1, "another read")
        self.assertEqual(world.drain().get("phase"), "idle", world.story())
        self.assertEqual(world.steps("signal", "cordon", "evict", "delete"), [], world.story())
        self.assertEqual(len(bus.held()), 1)

    def test_a_shutdown_is_neither_taken_back_nor_held_up(self) -> None:
        world, bus = self.started()
        bus.inhibit_usec = 12_000_000
        flood = bus.stranger(FLOOD)
        before = self.reads(bus)
        world.must(lambda: self.reads(bus) > before + 10, "the flood")
        self.assertEqual(world.steps("signal", "cordon", "evict", "delete"), [], world.story())
        bus.prepare_for_shutdown()
        world.must(lambda: world.evictions("blocked"), "an eviction")
        before = self.reads(bus)
        world.must(lambda: self.reads(bus) > before + 10, "the flood")
        self.assertIsNone(flood.poll())
        self.assertTrue(world.is_cordoned())
        self.assertEqual(len(bus.held()), 1)
        world.must(lambda: not world.pods(), "the end of all pods", 20)
        self.assertEvictedOnce(world, "web")
        self.assertNotIn("InterruptionWithdrawn", world.events())
        bus.prepare_for_shutdown(False)
        world.must(lambda: not world.is_cordoned(), "the release")

    def test_the_names_are_root_s(self) -> None:
        """What the program relies on: a stranger is neither logind nor the bus, nor are answers his to give."""
        world, bus = self.started()
        out = bus.run_stranger(
            "for name in ('org.freedesktop.login1', 'org.freedesktop.systemd1'):\n"
            "    print(call('RequestName', 'su', name, 4).error)\n"
            "for name in call('ListNames').body[0]:\n"
            "    for number in range(1, 200 if name.startswith(':') else 0):\n"
            "        send(RETURN, destination=name, reply_serial=number, signature='v', body=[('b', 1)])\n"
            "signal_all('/org/freedesktop/DBus', 'org.freedesktop.DBus', 'NameOwnerChanged', 'sss',\n"
            "           'org.freedesktop.login1', ':1.0', call('GetNameOwner', 's', 'org.freedesktop.login1').body[0])\n"
            "prepare(1)\n"
        )
        self.assertEqual(out.split(), ["org.freedesktop.DBus.Error.AccessDenied"] * 2)
        before = self.reads(bus)
        bus.run_stranger("prepare(1)")
        world.must(lambda: self.reads(bus) > before, "a read")
        self.assertEqual(len(bus.inhibitors), 1, "no new logind")
        self.assertEqual(world.steps("signal", "cordon", "evict", "delete"), [], world.story())

    def test_a_request_that_somebody_else_wrote(self) -> None:
        """Root moved it there, or a backup put it back: what it says is not root's."""
        world, _ = self.bus_world()
        world.start()
        folder = world.root / "run/nodeclaimd/requests"
        for name, owner, mode in (("theirs", NOBODY, 0o600), ("open", 0, 0o666)):
            file = world.folder / name
            file.write_text('{"id": "1", "reason": "mine", "mode": "graceful"}')
            os.chown(file, owner, owner)
            file.chmod(mode)
            file.rename(folder / "drain.json")
            world.must(lambda: not (folder / "drain.json").exists(), "its removal")
        world.must(lambda: world.log().count("only root may have written it") == 2, "two refusals")
        self.assertEqual(world.steps("signal", "cordon", "evict"), [], world.story())

    def test_the_daemon_s_lock(self) -> None:
        """Who may open the file may hold a lock on it, and no daemon would start any more. An older one left it readable."""
        world, _ = self.bus_world()
        lock = world.root / "run/nodeclaimd/.daemon"
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.touch(0o644)
        world.start()
        self.assertEqual(lock.stat().st_mode & 0o777, 0o600)


class OfAUnit(WithBus):
    kind = RealBus


@needs("CAP_SETUID")
class Units(DaemonTest):
    def test_a_start_that_has_not_ended(self) -> None:
        world = OfAUnit()
        self.enterContext(world)
        assert isinstance(world.bus, RealBus)
        world.unit.answers = False
        world.bus.stranger(
            "while True:\n"
            "    for result in ('done', 'failed', 'skipped'):\n"
            "        signal_all('/org/freedesktop/systemd1', 'org.freedesktop.systemd1.Manager', 'JobRemoved', 'uoss',\n"
            "                   1, '/org/freedesktop/systemd1/job/1', 'kubelet.service', result)\n"
        )
        done = world.bootstrap("--timeout", "4s")
        self.assertNotEqual(done.code, 0, done.err)
        self.assertIn("has not started in time", done.err)
        self.assertEqual(world.phase("start")["outcome"], "failed", world.status())


if __name__ == "__main__":
    unittest.main()
