"""What survives: restarts, reboots, another configuration, a person's request and a person's cordon."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
import unittest
from pathlib import Path

from harness import needs
from running import CORDON_KEY, LABEL, PATIENCE, STATE, DaemonTest, DaemonWorld


class Restarts(DaemonTest):
    def blocked(self) -> DaemonWorld:
        """A drain under way that does not end."""
        world = self.node_world()
        world.pod("blocked")
        world.pod("web")
        world.budget("never", "blocked")
        world.start()
        world.imds.spot(600)
        world.must(lambda: world.pods() == ["blocked"] and world.evictions("blocked"), "the drain")
        return world

    def test_sigterm_leaves_everything_as_it_is(self) -> None:
        world = self.blocked()
        code, took = world.stop()
        self.assertEqual(code, 0, world.log())
        self.assertLess(took, 1.0 * PATIENCE)
        self.assertTrue(world.is_cordoned())
        world.must(lambda: "STOPPING=1" in world.heard(), "STOPPING=1")
        state = json.loads((world.root / STATE).read_text())
        self.assertEqual((state["schema"], state["node"]), (1, world.node_name))
        self.assertEqual((world.root / STATE).stat().st_mode & 0o777, 0o600)
        before = len(world.steps("cordon"))
        tries = len(world.evictions("blocked"))
        world.start()
        world.must(lambda: len(world.evictions("blocked")) > tries, "the drain goes on")
        self.assertEqual(len(world.steps("cordon")), before)
        self.assertEqual(world.steps("release", "calm"), [])
        self.assertEvictedOnce(world, "web")
        self.assertEqual(world.events().count("SpotInterruption"), 1, "it is said once")
        world.imds.spot(None)
        world.must(lambda: not world.is_cordoned(), "the release")

    def test_withdrawn_while_it_was_away(self) -> None:
        for name in ("kill", "lost state"):
            with self.subTest(name):
                world = self.blocked()
                world.kill()
                world.imds.spot(None)
                if name == "lost state":
                    (world.root / STATE).unlink()
                world.start()
                world.must(lambda: not world.is_cordoned(), "the release")
                world.must(lambda: world.condition("InterruptionPending")[0] == "False", "the calm")
                self.assertNotIn(LABEL, world.node()["metadata"]["labels"])

    def test_nothing_is_undone_while_imds_is_away(self) -> None:
        """With its state and without: only what was heard from its source is believed to be over."""
        for name in ("kill", "lost state"):
            with self.subTest(name):
                world = self.blocked()
                world.kill()
                world.imds.server.refuse()
                if name == "lost state":
                    (world.root / STATE).unlink()
                world.start()
                end = time.monotonic() + 3.0
                world.must(lambda: time.monotonic() > end, "some seconds")
                self.assertTrue(world.is_cordoned())
                self.assertEqual(world.steps("release", "calm"), [])
                world.imds.spot(None)
                world.imds.server.listen()
                world.must(lambda: not world.is_cordoned(), "the release", 30)

    def test_state_that_cannot_be_used(self) -> None:
        world = self.blocked()
        world.kill()
        for text in ("{", '{"schema": 99}', '{"schema":1,"life":7}', "\0" * 100, "[" * 5000, "x" * 3_000_000):
            with self.subTest(text[:20]):
                (world.root / STATE).write_text(text)
                tries = len(world.evictions("blocked"))
                world.start(ready=False)
                world.must(lambda: len(world.evictions("blocked")) > tries, "the drain goes on")
                self.assertTrue((world.root / (STATE + ".bad")).exists())
                self.assertEqual(world.stop()[0], 0)
        self.assertIn("StateLost", world.events())
        self.assertEqual(len(world.steps("cordon")), 1)
        self.assertEqual(world.steps("release"), [])

    def test_state_that_a_power_failure_emptied(self) -> None:
        """It had no request, or it would have been synced: nobody is told that one is lost."""
        world = self.blocked()
        world.kill()
        (world.root / STATE).write_text("")
        tries = len(world.evictions("blocked"))
        world.start(ready=False)
        world.must(lambda: len(world.evictions("blocked")) > tries, "the drain goes on")
        self.assertIn("state.json is empty", world.log())
        self.assertNotIn("StateLost", world.events())
        self.assertEqual((len(world.steps("cordon")), world.steps("release")), (1, []))

    def test_reboot(self) -> None:
        """The notice was of the machine's earlier life: what it left on the Node is undone; pods that the shutdown left
        Failed are deleted, those of Jobs and those of nobody are not."""
        world = self.blocked()
        world.stop()
        world.set_boot_id("0c5d1d1c-6f0e-4a44-9c0a-000000000002")
        world.imds.spot(None)
        left = {"reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown."}
        world.pod("left-1", phase="Failed", status=left)
        world.pod("left-2", phase="Failed", status={**left, "reason": "NodeShutdown"})
        world.pod("left-job", phase="Failed", status=left, owner="Job")
        world.pod("left-bare", phase="Failed", status=left, owner="")
        world.pod(
            "failed-itself", phase="Failed", status={"reason": "Evicted", "message": "The node was low on memory"}
        )
        world.start()
        world.must(lambda: not world.is_cordoned(), "the release")
        world.must(lambda: world.pods() == ["blocked", "failed-itself", "left-bare", "left-job"], "the clean-up")
        self.assertEqual({s.what for s in world.deletions()}, {"left-1", "left-2"})
        self.assertTrue(all(s.body["preconditions"]["uid"] for s in world.deletions()))

    def test_killed_while_it_cleans_up_after_a_reboot(self) -> None:
        """Whoever comes after it finishes that, and then it is no reboot any more."""
        world = self.blocked()
        world.stop()
        world.set_boot_id("0c5d1d1c-6f0e-4a44-9c0a-000000000002")
        left = {"reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown."}
        world.pod("left", phase="Failed", status=left)
        world.api.server.fault("silent", path="/pods/left", method="DELETE")
        world.start()
        world.must(lambda: world.deletions("left"), "the DELETE")
        world.must(lambda: self.boot_of(world).endswith("2"), "its state")
        world.kill()
        world.api.server.heal()
        world.start()
        world.must(lambda: world.pods() == ["blocked"], "the clean-up")
        world.must(lambda: "clean_up" not in json.loads((world.root / STATE).read_text()), "its state")
        world.pod("left-later", phase="Failed", status=left)
        world.kill()
        tries = len(world.evictions("blocked"))
        world.start()
        world.must(lambda: len(world.evictions("blocked")) > tries, "the drain goes on")
        self.assertEqual(world.pods(), ["blocked", "left-later"])

    def boot_of(self, world: DaemonWorld) -> str:
        return json.loads((world.root / STATE).read_text())["boot_id"]

    def test_restart_is_no_reboot(self) -> None:
        world = self.blocked()
        world.stop()
        world.pod(
            "left",
            phase="Failed",
            status={"reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown."},
        )
        tries = len(world.evictions("blocked"))
        world.start()
        world.must(lambda: len(world.evictions("blocked")) > tries, "the drain goes on")
        self.assertEqual(world.deletions(), [])

    def test_sighup_reads_the_configuration_again(self) -> None:
        world = self.node_world()
        world.pod("web")
        world.imds.rebalance()
        world.start()
        world.phase_is("reported")
        self.assertFalse(world.is_cordoned())
        conf = world.root / "etc/nodeclaimd/conf.d/20-more.yaml"
        text = "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec:\n  interruption: {rebalance: %s}\n"
        conf.write_text(text % "cordon")
        world.daemon.send_signal(signal.SIGHUP)
        world.must(world.is_cordoned, "the cordon")
        self.assertEqual(world.evictions(), [])
        world.must(lambda: any(line.startswith("RELOADING=1") for line in world.heard()), "RELOADING=1")
        conf.write_text("kind: [broken\n")
        world.daemon.send_signal(signal.SIGHUP)
        world.must(lambda: "20-more.yaml" in world.log(), "the complaint")
        self.assertTrue(world.is_cordoned(), "what was known stays in force")
        conf.write_text(text % "report")
        world.daemon.send_signal(signal.SIGHUP)
        world.must(lambda: not world.is_cordoned(), "the release")


def waits(pid: int) -> bool:
    """In its loop, not in the middle of a step; a kernel that tells nobody says 0."""
    return bool(re.fullmatch("0|.*(ep_poll|epoll).*", Path(f"/proc/{pid}/wchan").read_text()))


class Operator(DaemonTest):
    def test_drain_and_undrain(self) -> None:
        world = self.node_world(profile="m5.large")
        world.pod("web")
        world.start()
        done = world.run("drain", "--reason", "kernel update", "--wait", within=30)
        self.assertEqual(done.code, 0, done.err + world.story())
        self.assertEqual((world.pods(), world.is_cordoned()), ([], True))
        self.assertEqual(world.condition("InterruptionPending"), ("True", "Requested"))
        self.assertEqual(world.drain()["phase"], "drained")
        world.kill()
        world.start()
        world.pod("late")
        world.must(lambda: not world.pods(), "the request survives a restart")
        world.stop()
        world.set_boot_id("0c5d1d1c-6f0e-4a44-9c0a-000000000002")
        world.start()
        world.pod("later")
        world.must(lambda: not world.pods(), "and a reboot")
        self.assertTrue(world.is_cordoned())
        done = world.run("undrain", "--wait", within=30)
        self.assertEqual(done.code, 0, done.err)
        world.must(lambda: not world.is_cordoned(), "the release")
        self.assertEqual(list((world.root / "run/nodeclaimd/requests").iterdir()), [])

    def test_of_the_machine_that_an_image_was_made_of(self) -> None:
        """Its request came with the image: it is put aside, also where IMDS answers late."""
        first = self.node_world(profile="m5.large")
        first.start()
        self.assertEqual(first.run("drain", "--deadline", "10m").code, 0)
        first.stop()
        world = self.node_world()
        world.set_boot_id("0c5d1d1c-6f0e-4a44-9c0a-000000000002")
        (world.root / STATE).parent.mkdir(parents=True, exist_ok=True)
        (world.root / STATE).write_text((first.root / STATE).read_text())
        world.pod("web")
        world.imds.server.refuse()
        world.start()
        end = time.monotonic() + 2
        world.must(lambda: time.monotonic() > end, "some seconds")
        self.assertFalse(world.is_cordoned())
        world.imds.server.listen()
        world.must(lambda: "StateLost" in world.events(), "the Event")
        world.must(lambda: "operator" not in (world.root / STATE).read_text(), "its own state")
        self.assertIn("another machine's", world.log())
        self.assertEqual((world.pods(), world.is_cordoned()), (["web"], False))
        self.assertEqual(world.steps("cordon", "evict", "delete"), [])

    def test_reboot_while_imds_is_away(self) -> None:
        """The cordon stays, and what was requested goes on once IMDS says that it is the same instance; what is requested anew
        does not wait for that."""
        world = self.node_world(profile="m5.large")
        world.start()
        self.assertEqual(world.run("drain", "--wait", within=30).code, 0)
        for boot in ("2", "3"):
            world.stop()
            world.set_boot_id("0c5d1d1c-6f0e-4a44-9c0a-00000000000" + boot)
            world.imds.server.refuse()
            world.pod("late" + boot)
            world.start(ready=False)
            end = time.monotonic() + 2
            world.must(lambda: time.monotonic() > end, "some seconds")
            self.assertTrue(world.is_cordoned())
            self.assertEqual(world.pods(), ["late" + boot])
            world.kill()  # it outlives this life, too
            world.start(ready=False)
            if boot == "3":
                self.assertEqual(world.run("undrain").code, 0)
            world.imds.server.listen()
            if boot == "2":
                world.must(lambda: not world.pods(), "the drain")
        world.must(lambda: not world.is_cordoned(), "the release", 30)
        self.assertEqual((world.pods(), world.steps("release")[1:]), (["late3"], []))

    def test_undrain_of_a_daemon_that_is_dead(self) -> None:
        """Its request outlives it. It is withdrawn before the next one evicts; a drain is refused, and nothing is said to be over."""
        world = self.node_world(profile="m5.large")
        world.pod("blocked")
        world.budget("never", "blocked")
        world.start()
        self.assertEqual(world.run("drain").code, 0)
        world.must(lambda: world.evictions("blocked"), "an attempt")
        world.kill()
        done = world.run("undrain")
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(done.out, "withdrawn when the daemon goes on or starts, unless the machine is rebooted before\n")
        self.assertEqual(done.err, "nodeclaimd undrain: the request waits; the daemon is not running\n")
        self.assertIs(json.loads(world.run("undrain", "-o", "json").out)["accepted"], False)
        done = world.run("undrain", "--wait")
        self.assertEqual(done.code, 6)
        self.assertIn("its process is gone", done.err)
        self.assertEqual(world.run("drain").code, 6)
        tried = len(world.evictions())
        world.start()
        world.must(lambda: not world.is_cordoned(), "the release")
        world.must(lambda: world.drain()["phase"] == "idle", "the calm")
        self.assertEqual(len(world.evictions()), tried)
        self.assertEqual(list((world.root / "run/nodeclaimd/requests").iterdir()), [])

    def test_undrain_of_a_daemon_that_hangs(self) -> None:
        """It is left, and taken as soon as the daemon goes on or is started again, though the deadline has come meanwhile. A
        request to drain is not."""
        for ending in ("goes on", "starts"):
            with self.subTest(ending):
                world = self.node_world(profile="m5.large")
                world.pod("blocked", grace=2)
                world.budget("never", "blocked")
                world.start()
                self.assertEqual(world.run("drain", "--deadline", "14s").code, 0)
                deadline = time.monotonic() + 15
                world.must(lambda: world.annotation().get("blocked"), "the answer to an attempt")
                world.must(lambda: waits(world.daemon.pid), "a daemon that waits")
                world.daemon.send_signal(signal.SIGSTOP)
                self.assertEqual(world.run("drain").code, 6)
                self.assertEqual(list((world.root / "run/nodeclaimd/requests").iterdir()), [])
                done = world.run("undrain")
                self.assertEqual(done.code, 0, done.err)
                self.assertEqual(
                    done.out, "withdrawn when the daemon goes on or starts, unless the machine is rebooted before\n"
                )
                self.assertEqual(done.err, "nodeclaimd undrain: the request waits; the daemon has not read it\n")
                world.must(lambda: time.monotonic() > deadline, "the deadline")
                if ending == "goes on":
                    world.daemon.send_signal(signal.SIGCONT)
                else:
                    done = world.run("undrain", "--wait")
                    self.assertEqual((done.code, "was not read in 5 s" in done.err), (6, True), done.err)
                    world.kill()
                    world.start()
                world.must(lambda: not world.is_cordoned(), "the release")
                world.must(lambda: world.drain()["phase"] == "idle", "the calm")
                self.assertEqual((world.pods(), world.deletions()), (["blocked"], []))
                self.assertNotIn("The force-delete time has come", world.log())
                self.assertEqual(list((world.root / "run/nodeclaimd/requests").iterdir()), [])

    @needs("CAP_SYS_ADMIN")
    def test_a_request_that_cannot_be_saved(self) -> None:
        """Who requests it learns that, and who looks; and when that is over. One that is taken back is not there after a restart."""
        world = self.node_world(profile="m5.large")
        world.pod("blocked")
        world.budget("never", "blocked")
        folder = (world.root / STATE).parent
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", str(folder)], check=True)
        world.start()
        world.must(lambda: "stateError" in world.said_of_itself(), "the member")
        self.assertIsNone(world.said_of_itself()["stateError"])
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        done = world.run("drain")
        self.assertEqual(done.code, 0, done.err)
        unsaved = r"state\.json.*: Read-only file system; a reboot takes up the request of this machine as it was saved last; "
        self.assertRegex(done.err, rf"(?m)^nodeclaimd drain: .*{unsaved}.*\(df, mount\)$")
        self.assertRegex(world.said_of_itself()["stateError"], unsaved)
        self.assertRegex(world.run("status").out, rf"(?m)^ +.*{unsaved}")
        self.assertRegex(world.run("drain", "--deadline", "8s", "--cut-grace", "--wait", within=40).err, unsaved)
        self.assertEqual(len(re.findall(unsaved, world.log())), 1)
        again = world.run("drain").out.strip()
        world.kill()
        world.start()
        world.must(lambda: len(re.findall(unsaved, world.log())) == 2, "the request that could not be saved")
        self.assertIn(again, str(world.drain()["sources"]))
        subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)
        world.must(lambda: world.said_of_itself()["stateError"] is None, "that it is saved")
        self.assertIn("state.json is saved again", world.log())
        self.assertNotIn("as it was saved last", world.run("status").out)
        with self.assertRaises(OSError), open(folder / "full", "wb", buffering=0) as full:
            while True:
                full.write(b"x" * 4096)
        self.assertRegex(world.run("undrain").err, "No space left.*; a reboot forgets a drain requested on this machine; ")
        world.must(lambda: not world.is_cordoned(), "the end of it")
        world.kill()
        world.start()
        world.phase_is("idle")
        self.assertFalse(world.is_cordoned())
        world.must(lambda: world.run("drain").code == 0, "that the daemon says it runs")
        world.kill()
        world.start()
        world.must(lambda: world.log().count("No space left") == 3, "the drain of a full disk")
        world.must(world.is_cordoned, "its cordon")
        (folder / "full").unlink()
        world.must(lambda: world.said_of_itself()["stateError"] is None, "that there is room")
        self.assertEqual(list((world.root / "run/nodeclaimd/requests").iterdir()), [])

    def test_cordon_only_and_deadline(self) -> None:
        world = self.node_world(profile="m5.large")
        world.pod("blocked", grace=2)
        world.budget("never", "blocked")
        world.start()
        done = world.run("drain", "--mode", "cordon", "-o", "json")
        self.assertEqual(done.code, 0, done.err)
        self.assertTrue(json.loads(done.out)["accepted"])
        world.must(world.is_cordoned, "the cordon")
        self.assertEqual(world.evictions(), [])
        done = world.run("drain", "--deadline", "8s")
        self.assertEqual(done.code, 0, done.err)
        world.must(lambda: not world.pods(), "the deletion at its last moment")
        self.assertEqual(len(world.deletions("blocked")), 1)

    def test_who_holds_it_up_is_named(self) -> None:
        world = self.node_world(profile="m5.large")
        world.pod("kept", grace=2, annotations={"karpenter.sh/do-not-disrupt": "true"})
        world.start()
        done = world.run("drain", "--deadline", "8s", "--wait", within=30)
        self.assertEqual(done.code, 0, done.err)
        self.assertIn("evicting, 1 of 1 pods remain, 1 kept by do-not-disrupt: default/kept\n", done.out)

    def test_dry_run(self) -> None:
        world = self.node_world()
        world.pod("web", grace=45)
        world.pod("agent", owner="DaemonSet")
        world.pod("kept", annotations={"karpenter.sh/do-not-disrupt": "true"})
        world.pod("done", phase="Succeeded")
        done = world.run("drain", "--dry-run", "--deadline", "5m")
        self.assertEqual(done.code, 0, done.err)
        for word in ("web", "agent", "kept", "done", "daemon"):
            self.assertIn(word, done.out)
        self.assertTrue(done.out.endswith("\n\nPodDisruptionBudgets are not asked: a pod that one keeps stays until its force-delete time.\n"))
        self.assertNotIn("not asked", world.run("drain", "--dry-run").out, "its first line says that they are respected")
        done = world.run("drain", "--dry-run", "--deadline", "5m", "-o", "json")
        self.assertEqual(done.code, 0, done.err)
        json.loads(done.out)
        self.assertEqual({s.kind for s in world.steps()} - {"list", "look", "watch", "other"}, set())
        self.assertEqual(len(world.pods()), 4)

    def test_without_a_daemon(self) -> None:
        world = self.node_world()
        done = world.run("drain")
        self.assertNotEqual(done.code, 0)
        self.assertIn("daemon", done.err)
        world.start()
        world.kill()
        done = world.run("drain")
        self.assertNotEqual(done.code, 0)
        world.start()
        world.imds.rebalance()
        self.assertFalse(world.is_cordoned())
        self.assertEqual(world.drain().get("sources", []), [])

    def test_usage(self) -> None:
        world = self.node_world()
        for args in (
            ("--mode", "fast"),
            ("--deadline", "yesterday"),
            ("--mode", "deadline"),
            ("--deadline", "2020-01-01T00:00:00Z"),
        ):
            with self.subTest(args):
                done = world.run("drain", *args)
                self.assertEqual(done.code, 2, done.err)

    def test_garbage_in_the_folder_of_requests(self) -> None:
        world = self.node_world()
        world.start()
        folder = world.root / "run/nodeclaimd/requests"
        self.assertEqual(folder.stat().st_mode & 0o777, 0o700)
        for text in ("", "{", '{"mode":"graceful"}', '{"id":"x","mode":"explode"}', "y" * 100_000):
            (folder / "part").write_text(text)
            (folder / "part").rename(folder / "drain.json")
            world.must(lambda: not (folder / "drain.json").exists(), "its removal")
        self.assertEqual(world.drain().get("sources", []), [])
        self.assertIsNone(world.daemon.poll())


class Foreign(DaemonTest):
    def test_a_person_cordoned_the_node_before(self) -> None:
        world = self.node_world()
        world.pod("web")
        world.change_node(lambda n: n["spec"].update(unschedulable=True))
        world.start()
        world.imds.spot(120)
        world.must(lambda: not world.pods(), "the drain")
        self.assertEqual(world.annotation(CORDON_KEY), {})
        world.imds.spot(None)
        world.must(lambda: world.condition("InterruptionPending")[0] == "False", "the calm")
        self.assertTrue(world.is_cordoned(), "it was not ours")

    def test_a_label_that_is_not_ours(self) -> None:
        world = self.node_world()
        world.change_node(lambda n: n["metadata"]["labels"].update({LABEL: "karpenter"}))
        world.start()
        world.imds.spot(120)
        world.must(world.is_cordoned, "the cordon")
        world.imds.spot(None)
        world.must(lambda: not world.is_cordoned(), "the release")
        self.assertEqual(world.node()["metadata"]["labels"][LABEL], "karpenter")


if __name__ == "__main__":
    unittest.main()
