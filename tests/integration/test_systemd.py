"""kubelet started through systemd over D-Bus; the bus is a fake that starts the stand-in from the rendered kubelet.env."""

from __future__ import annotations

import shlex
import subprocess
import unittest
from pathlib import Path

from harness import PATIENCE, World, WorldTest, until

from bus import Bus, Unit  # found by harness


class WithBus(World):
    """A world whose kubelet is a unit."""

    kind = Bus

    def __init__(self, **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]
        self.unit = Unit(start=self.start_kubelet, stop=self.stop_unit)

    def __enter__(self) -> "WithBus":
        super().__enter__()
        conf = self.root / "etc/nodeclaimd/conf.d/10-test.yaml"
        conf.write_text(conf.read_text().replace("start: exec", "start: systemd"))
        self.bus = self.kind(self.folder, self.root)
        self.bus.__enter__()
        self.bus.units["kubelet.service"] = self.unit
        return self

    def __exit__(self, *unused: object) -> None:
        self.bus.__exit__()
        super().__exit__()

    def start_kubelet(self) -> int:
        """What systemd does with EnvironmentFile= and $NODECLAIMD_KUBELET_ARGS."""
        env = {}
        for line in (self.root / "etc/nodeclaimd/kubelet.env").read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                name, _, value = line.partition("=")
                env[name] = "".join(shlex.split(value)) if value.startswith(("'", '"')) else value
        args = shlex.split(env.get("NODECLAIMD_KUBELET_ARGS", ""))
        more = {k: v for k, v in env.items() if k != "NODECLAIMD_KUBELET_ARGS"}
        proc = subprocess.Popen(
            [str(self.folder / "bin/kubelet"), *args],
            env=self.environment(**more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.procs.append(proc)
        return proc.pid

    def stop_unit(self, pid: int) -> None:
        """What systemd does before it starts a unit again: the old process has ended by then."""
        proc = next(p for p in self.procs if p.pid == pid)
        proc.terminate()
        proc.wait(timeout=10)

    def environment(self, **more: str) -> dict[str, str]:
        bus = {"DBUS_SYSTEM_BUS_ADDRESS": self.bus.address} if hasattr(self, "bus") else {}
        return super().environment(**{**bus, **more})


class Systemd(WorldTest):
    def with_bus(self, **more: object) -> WithBus:
        made = WithBus(**more)
        self.enterContext(made)
        return made

    def test_a_node_becomes_ready(self) -> None:
        world = self.with_bus()
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err + repr(world.bus.calls))
        starts = [c for c in world.bus.calls if c in ("StartUnit kubelet.service", "RestartUnit kubelet.service")]
        self.assertEqual(len(starts), 1, world.bus.calls)
        self.assertEqual(world.node()["metadata"]["labels"]["karpenter.sh/initialized"], "true")

    def test_units_are_reloaded_and_logind_told_before_kubelet_starts(self) -> None:
        world = self.with_bus()
        self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
        start = next(
            i
            for i, c in enumerate(world.bus.calls)
            if c.endswith("Unit kubelet.service") and c.startswith(("Start", "Restart"))
        )
        logind = [i for i, c in enumerate(world.bus.calls) if "logind" in c]
        self.assertTrue(logind and logind[0] < start, world.bus.calls)
        self.assertGreaterEqual(world.bus.inhibit_usec, 150_000_000, "kubelet of 1.34 wants 2m30s")

    def logind_conf(self, world: WithBus, name: str, seconds: int) -> Path:
        path = world.root / "etc/systemd/logind.conf.d" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"[Login]\nInhibitDelayMaxSec={seconds}\n")
        return path

    def test_the_last_word_on_the_time_of_a_shutdown(self) -> None:
        """unattended-upgrades of Debian and Ubuntu has a file of its own."""
        world = self.with_bus()
        self.logind_conf(world, "unattended-upgrades-logind-maxdelay.conf", 30)
        self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
        self.assertEqual(world.bus.inhibit_usec, 150_000_000)
        self.assertRegex(world.run("preflight").out, r"(?m)^logind +ok +waits 150\.0 s")

    def test_somebody_else_has_the_last_word(self) -> None:
        world = self.with_bus()
        self.logind_conf(world, "zzz.conf", 7)
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err)
        self.assertIn("logind waits 7.0 s at a shutdown, 150.0 s are needed", done.err)
        self.assertRegex(world.run("preflight").out, r"(?m)^logind +warning +.*waits 7\.0 s.*\n +remedy: .*cat-config")

    def failure(self, world: WithBus, code: int, *words: str, seconds: float = 4) -> None:
        done = world.bootstrap("--timeout", f"{seconds:g}s")
        self.assertLessEqual(done.seconds, seconds + 1 * PATIENCE)
        failed = next((p["name"] for p in world.status()["phases"] if p["outcome"] == "failed"), "none")
        self.assertIn(failed, ("start", "register"), world.status())
        self.assertFailure(world, done, code, failed, world.phase(failed)["error"]["class"], *words)

    def test_unit_is_missing(self) -> None:
        world = self.with_bus()
        world.bus.units.clear()
        self.failure(world, 6, "kubelet.service")

    def test_unit_fails(self) -> None:
        world = self.with_bus()
        world.unit.result = "failed"
        self.failure(world, 6, "kubelet.service")

    def test_a_failed_start_is_followed_while_systemd_tries_again(self) -> None:
        """ExecStartPre= fails twice (the xtables lock is held): status.json says so, and then the node is made."""
        world = self.with_bus()
        world.unit.fails_before = 2
        world.unit.restart_sec = 1.0
        proc = world.spawn("bootstrap", "--timeout", "30s")
        self.assertTrue(until(lambda: (world.phase("start") or {}).get("error")), world.status())
        error = world.phase("start")["error"]
        self.assertEqual(error["class"], "transient")
        self.assertIn("kubelet.service failed to start and systemd starts it again", error["message"])
        done = world.finish(proc)
        self.assertEqual(done.code, 0, done.err)
        self.assertIsNone(world.phase("start")["error"])
        starts = [c for c in world.bus.calls if c in ("StartUnit kubelet.service", "RestartUnit kubelet.service")]
        self.assertEqual(len(starts), 1, world.bus.calls)

    def test_a_start_that_never_succeeds_ends_at_the_deadline(self) -> None:
        world = self.with_bus()
        world.unit.fails_before = 1000
        self.failure(world, 1, "kubelet.service failed to start and systemd starts it again", "deadline")

    def test_no_process_at_all_is_reported_at_once(self) -> None:
        """A file of its environment is missing."""
        world = self.with_bus()
        world.unit.fails_before = 1000
        world.unit.outcome_before = "resources"
        done = world.bootstrap("--timeout", "30s")
        self.assertFailure(world, done, 6, "start", "host", "kubelet.service", "resources")
        self.assertLess(done.seconds, 5 * PATIENCE)

    def test_a_condition_that_does_not_hold_is_reported_at_once(self) -> None:
        world = self.with_bus()
        world.unit.result = "skipped"
        done = world.bootstrap("--timeout", "30s")
        self.assertFailure(world, done, 6, "start", "host", "kubelet.service", "condition")
        self.assertLess(done.seconds, 5 * PATIENCE)

    def test_job_never_ends(self) -> None:
        world = self.with_bus()
        world.unit.answers = False
        done = world.bootstrap("--timeout", "4s")
        self.assertNotEqual(done.code, 0)
        self.assertLessEqual(done.seconds, 4 + 1 * PATIENCE)
        self.assertEqual(world.phase("start")["outcome"], "failed", world.status())

    def test_no_bus(self) -> None:
        world = self.with_bus()
        world.bus.path.unlink()
        self.failure(world, 6)


if __name__ == "__main__":
    unittest.main()
