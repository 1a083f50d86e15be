"""kubelet as a process of its own: which one is ours, when it is started again, and who is never touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path

from harness import PATIENCE, STATUS, World, WorldTest, is_alive, until

PID_FILE = "run/nodeclaimd/kubelet.pid"
MARK = "run/nodeclaimd/kubelet-restart"


class Processes(WorldTest):
    def bystander(self, world: World) -> "subprocess.Popen[bytes]":
        """A process that is no kubelet of ours, though its command line says so."""
        code = "import signal, time; signal.pause()"
        proc = subprocess.Popen([sys.executable, "-c", code, "/usr/bin/kubelet", str(world.folder / "bin/kubelet")])
        world.procs.append(proc)
        return proc

    def start_ticks(self, pid: int) -> str:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]

    def test_nobody_else_is_signalled(self) -> None:
        world = self.world()
        proc = self.bystander(world)
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        ticks = self.start_ticks(proc.pid)
        texts = (
            f"{proc.pid}\n",
            f"{proc.pid} {int(ticks) + 1} {boot}\n",
            f"{proc.pid} {ticks} 00000000-0000-0000-0000-000000000000\n",
            f"-{proc.pid} {ticks} {boot}\n",
            "1 1 1\n",
            "4294967295 1 1\n",
            "\n",
            "noise" * 100,
        )
        for text in texts:
            with self.subTest(text=text):
                world.stop_kubelet()
                path = world.root / PID_FILE
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                done = world.bootstrap("--timeout", "30s")
                self.assertEqual(done.code, 0, done.err)
                self.assertIsNone(proc.poll(), "a process that is not ours was ended")
                self.assertEqual(len(world.kubelet_pids()), 1)

    def test_the_same_files_leave_kubelet_alone(self) -> None:
        world = self.world()
        self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
        first = world.kubelet_pids()
        self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
        self.assertEqual(world.kubelet_pids(), first)
        self.assertFalse((world.root / MARK).exists())

    def change(self, world: World) -> None:
        text = (world.node_config()).replace("maxPods: 29", "maxPods: 28")
        world.set_user_data(text.encode())

    def test_other_files_start_kubelet_again(self) -> None:
        world = self.world()
        self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
        (first,) = world.kubelet_pids()
        self.change(world)
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err)
        self.assertFalse(is_alive(first), "the old kubelet ends before the new one starts")
        self.assertEqual(len(world.kubelet_pids()), 2)
        self.assertTrue(is_alive(world.kubelet_pids()[1]))

    def test_a_run_that_was_ended_in_between_is_made_good(self) -> None:
        """Files written, kubelet not yet started again: the next run writes nothing, and starts it all the same."""
        world = self.world()
        self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
        (first,) = world.kubelet_pids()
        self.change(world)
        self.assertEqual(world.bootstrap("--skip", "start").code, 0)
        self.assertTrue((world.root / MARK).exists())
        self.assertTrue(is_alive(first))
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err)
        self.assertFalse(is_alive(first))
        self.assertFalse((world.root / MARK).exists())

    def test_a_kubelet_that_does_not_end(self) -> None:
        world = self.world()
        self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
        (first,) = world.kubelet_pids()
        os.kill(first, signal.SIGSTOP)
        self.change(world)
        done = world.bootstrap("--timeout", "3s")
        self.assertLessEqual(done.seconds, 3 + 1 * PATIENCE)
        self.assertFailure(world, done, 6, "start", "host", str(first), "does not end")
        self.assertEqual(len(world.kubelet_pids()), 1, "no second kubelet beside it")

    def test_a_kubelet_that_is_ending_is_not_taken_over(self) -> None:
        """Killed a moment ago: its first thread has ended, others have not. It is no kubelet any more, and is waited for."""
        world = self.world()
        self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
        world.stop_kubelet()
        before = world.kubelet_pids()
        code = (
            "import ctypes, os, threading, time\n"
            "threading.Thread(target=lambda: (time.sleep(2), os._exit(0))).start()\n"
            "ctypes.CDLL(None).syscall({'x86_64': 60}.get(os.uname().machine, 93), 0)"
        )
        proc = subprocess.Popen([sys.executable, "-c", code])
        world.procs.append(proc)
        stat = Path(f"/proc/{proc.pid}/stat")
        self.assertTrue(until(lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "Z"))
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        (world.root / PID_FILE).write_text(f"{proc.pid} {self.start_ticks(proc.pid)} {boot}\n")
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err)
        self.assertIsNotNone(proc.poll(), "it has ended before the new one was started")
        self.assertEqual(len(world.kubelet_pids()), len(before) + 1)

    def test_an_adopted_kubelet_that_dies_is_noticed(self) -> None:
        world = self.world(mode="silent")
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(until(lambda: world.phase("register").get("outcome") == "running" and world.kubelet_pids()))
        proc.kill()
        world.finish(proc)
        (first,) = world.kubelet_pids()
        (world.root / STATUS).unlink()  # what the killed run said is not to be taken for what the next one says
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(until(lambda: world.phase("register").get("outcome") == "running"))
        os.kill(first, signal.SIGKILL)
        done = world.finish(proc, within=10)
        self.assertFailure(world, done, 6, "register", "host", "kubelet has ended")


if __name__ == "__main__":
    unittest.main()
