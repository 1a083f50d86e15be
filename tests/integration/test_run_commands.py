#!/usr/bin/python3
"""What `drain --wait`, `status` and `timeline` say of a running daemon.

Knows: the exit codes and words of the commands.
Gives: unittest cases.
Must not: look at what the daemon asks of the API server; the tests beside this one do.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from harness import agent_path, needs
from running import KUBECONFIG, REQUEST_KEY, DaemonTest, DaemonWorld

from pods import stamp

SVG = "{http://www.w3.org/2000/svg}"


class Commands(DaemonTest):
    def test_a_drain_that_the_configuration_forbids(self) -> None:
        for mode, code in (("off", 3), ("observe", 3)):
            with self.subTest(mode):
                world = self.node_world(profile="m5.large", drain=f"    mode: {mode}\n")
                world.pod("web")
                world.start()
                world.must(lambda: world.said_of_itself().get("connected"), "the connection")
                for option in ("--wait", "--dry-run", "--reason=x"):
                    done = world.run("drain", option, within=30)
                    self.assertEqual(done.code, code, done.err + world.story())
                    self.assertIn("drain.mode", done.err)
                self.assertEqual(world.pods(), ["web"])
                with self.subTest("nothing is left for the day on which it is allowed again"):
                    self.assertEqual(world.drain()["sources"], [])
                with self.subTest("the dry run is of what the daemon has in force"):
                    (world.root / "etc/nodeclaimd/conf.d/99-on.yaml").write_text(
                        "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec: {drain: {mode: auto}}\n")
                    self.assertEqual(world.run("drain", "--dry-run").code, code)

    def test_a_drain_that_comes_too_late(self) -> None:
        """A pod that nobody can delete: the wait ends some seconds after the last moment, and says so."""
        world = self.node_world(profile="m5.large")
        world.api.kubelet.stuck.add("held")
        world.pod("held", grace=1)
        world.start()
        done = world.run("drain", "--deadline", "3s", "--wait", within=40)
        self.assertEqual(done.code, 1, done.err + world.story())
        self.assertIn("drain deadline exceeded, 1 of 1 pods remain", done.err)

    def test_a_second_request(self) -> None:
        world = self.node_world(profile="m5.large")
        world.pod("web", annotations={"karpenter.sh/do-not-disrupt": "true"})
        world.start()
        world.must(lambda: world.said_of_itself().get("connected"), "the connection")
        self.assertEqual(world.run("drain").err, "")
        world.must(lambda: world.drain()["pods"]["kept"] == 1, "the pod")
        self.assertRegex(world.run("drain", "--deadline", "30m").err, "^nodeclaimd drain: pods left a grace period before the deadline are deleted, whatever their budgets, "
                         "1 of 1 pods remain, 1 kept by do-not-disrupt: default/web, .*; `nodeclaimd undrain` saves none that is evicted or deleted by then\n$")  # fmt: skip
        self.assertRegex(world.run("drain").err, r"replaces the request with deadline 2\S+Z\n")
        self.assertEqual(world.run("drain").err, "")

    def test_a_deadline_that_cuts_a_grace_period(self) -> None:
        """It is refused before anything is written, also where it moves another one, and where the pods cannot be read."""
        world = self.node_world(profile="m5.large", margin="15s")
        world.pod("web", grace=30)
        world.pod("db", grace=300)
        world.budget("never", "web", "db")
        world.start()
        world.must(lambda: world.said_of_itself().get("connected"), "the connection")
        lost = "nodeclaimd drain: nothing was requested: pods lose part of their grace period: default/db\n"
        instead = "the shortest that leaves each its own is --deadline=316s; --cut-grace allows it as it is\n"
        for deadline in ("2m", "314s", stamp(time.time() + 300)):
            done = world.run("drain", "--deadline", deadline, "--wait")
            self.assertEqual((done.code, done.out, done.err), (1, "", f"{lost}remedy: {instead}"))
        done = world.run("drain", "--deadline", "2m", "--dry-run")
        self.assertEqual((done.code, done.err), (0, f"nodeclaimd drain: without --cut-grace that is refused: {lost[lost.index('pods'):-1]}; {instead}"))
        self.assertEqual(world.run("drain", "--deadline", "2m", "--dry-run", "--cut-grace").err, "")
        done = world.run("drain", "--cut-grace")
        self.assertEqual((done.code, done.err), (2, "nodeclaimd drain: --cut-grace needs --deadline\n"))
        self.assertEqual(world.drain()["sources"], [])
        self.assertEqual(world.run("drain", "--deadline", "316s").code, 0)
        world.must(lambda: world.evictions("db"), "the drain")
        request = world.drain()["sources"]
        self.assertEqual(world.run("drain", "--deadline", "2m").err, f"{lost}remedy: {instead}")
        away = world.api.server.fault("reset", path="/pods\\?")
        done = world.run("drain", "--deadline", "20m")
        self.assertRegex(done.err, "^nodeclaimd drain: nothing was requested: which pods lose of their grace period is not known, and there is no --cut-grace: ")
        world.api.server.faults.remove(away)
        self.assertEqual((done.code, world.drain()["sources"], world.deletions()), (1, request, []))
        self.assertEqual(world.run("drain", "--deadline", "2m", "--cut-grace").code, 0)
        self.assertIn(world.must(lambda: world.deletions("db"), "the deletion at once")[0].grace, (105, 106))

    def test_an_api_server_that_is_away(self) -> None:
        """Nothing says that pods are evicted then, and once the deadline has passed everything says that the drain failed."""
        world = self.node_world(profile="m5.large", margin="15s")
        world.pod("web", grace=1)
        world.start()
        world.must(lambda: world.said_of_itself().get("connected"), "the connection")
        away = [world.api.server.fault("reset", path="."), world.api.server.fault("reset", path="/pods")]
        done = world.run("drain", "--deadline", "40s", "--cut-grace", "--wait", within=80)
        self.assertEqual(done.code, 1, done.err + world.story())
        self.assertIn("drain deadline exceeded, its pods are not listed\n", done.err)
        self.assertIn("cannot evict: the API server has done nothing for this node since 2", done.out)
        self.assertRegex(world.run("status").out, r"drain +failed: the API server has done nothing for this node since 2")
        self.assertEqual(world.drain()["phase"], "failed")
        self.assertRegex(world.log(), r"no request of the drain has succeeded since 2\S+Z: .*; drain deadline exceeded before the pods were listed")
        self.assertIsNone(world.drain()["pods"]["remaining"])
        metrics = world.metrics()
        self.assertEqual([labels for labels, on in metrics["nodeclaimd_phase"].items() if on], ['{phase="failed"}'])
        self.assertNotIn("nodeclaimd_drain_pods_remaining", metrics)
        world.api.server.fault("status", status=503, path="/nodes", count=1)  # as it begins to answer
        for fault in away:
            world.api.server.faults.remove(fault)
        world.must(lambda: world.annotation().get("phase") in ("Failed", "Drained"), "the drain status")
        said = lambda text: [e for e in world.api.objects("events") if re.search(text, e["message"])]
        world.must(lambda: said(r"^Nothing was evicted for \d+ s, and the deadline passed: "), "the Event of the outage")
        self.assertNotIn("503", said("^Nothing was evicted")[0]["message"], "what lasted, not what came last")
        self.assertEqual([e["count"] for e in said("^Nothing (is|was) evicted") if e["involvedObject"]["kind"] == "Node"], [1], "one outage is one Event")
        world.must(lambda: said(r"^No pods remaining; "), "the Event of the end")
        self.assertRegex(world.log(), r"the API server answers again, after \d+\.\d s")

    def test_withdrawn_in_an_outage(self) -> None:
        """Nothing is evicted or deleted for it once the API server is back, though the deadline has passed."""
        world = self.node_world(profile="m5.large")
        world.pod("held", grace=2)
        world.budget("never", "held")
        world.start()
        deadline = time.time() + 12
        request = json.dumps({"id": "r", "mode": "deadline", "deadline": stamp(deadline)})
        world.change_node(lambda n: n["metadata"]["annotations"].update({REQUEST_KEY: request}))
        world.must(lambda: world.evictions("held"), "an eviction that the budget refuses")
        world.api.server.refuse()
        world.must(lambda: not world.said_of_itself().get("connected") or "API server" in world.log(), "the outage")
        world.change_node(lambda n: n["metadata"]["annotations"].pop(REQUEST_KEY))
        world.must(lambda: time.time() > deadline, "that the deadline has passed")
        world.api.server.listen()
        world.must(lambda: not world.is_cordoned(), "that the cordon is taken back")
        self.assertEqual((world.pods(), world.deletions()), (["held"], []))

    def test_an_api_server_that_serves_nobody(self) -> None:
        """Who sees only this machine learns that the drain stands still, and why: once."""
        world = self.node_world(profile="m5.large")
        world.pod("web", grace=1)
        world.start()
        world.must(lambda: world.said_of_itself().get("connected"), "the connection")
        away = world.api.server.fault("status", status=503, path=".", body="the proxy has no server")
        self.assertEqual(world.run("drain").code, 0)
        lines = lambda: [json.loads(line.partition(": ")[2]) for line in world.console().splitlines()]
        said = world.must(lambda: len(lines()) == 2 and lines()[1], "the line on the console", within=60)
        self.assertRegex(said["message"], r"^Nothing is evicted: no request of the drain has succeeded since 2\S+Z: .*the proxy has no server")
        self.assertEqual((said["drain"], said["reason"]), ("signalling", "DrainBlocked"))
        self.assertRegex(world.run("status").out, "daemon +connected, with an error, ")
        world.api.server.faults.remove(away)
        world.must(lambda: not world.pods(), "the end", within=40)
        self.assertEqual(world.log().count("Nothing is evicted"), 1)

    def test_a_request_that_is_taken_back(self) -> None:
        world = self.node_world(profile="m5.large")
        world.pod("blocked")
        world.budget("never", "blocked")
        world.start()
        waiting = world.spawn("drain", "--wait")
        assert waiting.stdout
        for line in waiting.stdout:
            if b"1 blocked: default/blocked by never" in line:
                break
        else:
            self.fail("the blocked pod is not named" + world.story())
        self.assertEqual(world.run("undrain", within=30).code, 0)
        done = world.finish(waiting, 30)
        self.assertEqual(done.code, 1)
        self.assertIn("withdrawn", done.err)

    def test_undrain_says_what_was_withdrawn_and_what_goes_on(self) -> None:
        world = self.node_world(profile="m5.large")
        world.budget("never", "db")
        world.pod("db")
        world.start()
        self.assertEqual(world.run("undrain").out, "no drain was requested on this machine\n")
        self.assertEqual(world.run("drain").code, 0)
        self.assertEqual(world.run("undrain").out, "withdrawn\n")
        name = "nodeclaimd.io/drain-request"
        world.change_node(lambda n: n["metadata"]["annotations"].update({name: '{"id": "gitops-1", "mode": "graceful"}'}))
        world.must(lambda: world.drain()["source"] == "request", "the request")
        goes_on = f"; a drain goes on for request: kubectl annotate node {world.node_name} {name}- ends it\n"
        self.assertEqual(world.run("undrain").out, "no drain was requested on this machine" + goes_on)
        self.assertEqual(world.run("drain").code, 0)
        self.assertEqual(world.run("undrain").out, "withdrawn" + goes_on)
        world.change_node(lambda n: n["metadata"].update(finalizers=["karpenter.sh/termination"]))
        world.delete_node()
        world.must(lambda: world.drain()["source"] == "deletion", "the deletion")
        self.assertEqual(world.run("undrain").out, "no drain was requested on this machine; a drain goes on for deletion\n")

    def test_pods_that_end_though_the_drain_is_taken_back(self) -> None:
        """They are named when it is taken back, and shown while they may be there."""
        world = self.node_world(profile="m5.large")
        world.api.kubelet.stops_after = {"web": 600, "db": 600}
        world.pod("web", grace=8)
        world.pod("db", grace=600)
        world.pod("kept", annotations={"karpenter.sh/do-not-disrupt": "true"})
        world.start()
        self.assertEqual(world.run("drain", "--deadline", "12s", "--cut-grace").code, 0)
        world.must(lambda: len(world.drain()["others"]) == 2 and all(p["graceEnds"] for p in world.drain()["others"]), "what the watch shows")
        self.assertRegex(world.run("status").out, r"(?m)^pods +default/db, terminating, .*, with \d+ of 600 s, until ")
        done = world.run("undrain", within=30)
        self.assertEqual(done.code, 0, done.err)
        self.assertRegex(done.out, r"\nthese pods end all the same:\n  default/db, by 2\S+Z\n  default/web, by 2\S+Z\n$")
        world.phase_is("idle")
        shown = world.run("status").out
        self.assertRegex(shown, r"(?m)^drain +idle, .*\nstill ending default/db, terminating, its grace period runs, .*, until .*\n +default/web, terminating, ")
        self.assertNotIn("kept", shown)
        self.assertEqual([p["pod"] for p in world.drain()["others"]], ["default/db", "default/web"])
        end = time.monotonic() + 12
        world.must(lambda: time.monotonic() > end, "their end")
        self.assertEqual(world.run("undrain").out.count("\n"), 1)
        self.assertNotIn("still ending", world.run("status").out)

    def test_a_daemon_that_was_killed(self) -> None:
        """What it left behind says that all is well: the lock that it held does not."""
        world = self.node_world(profile="m5.large")
        world.start()
        world.must(lambda: world.said_of_itself().get("connected"), "the connection")
        done = world.run("status")
        self.assertEqual((done.code, done.err), (0, ""), done.out)
        self.assertIs(json.loads(world.run("status", "-o", "json").out)["daemon"]["running"], True)
        world.kill()
        done = world.run("status")
        self.assertEqual(done.code, 6, done.out)
        self.assertRegex(done.out, r"(?m)^daemon +not running")
        self.assertIn("not running", done.err)
        done = world.run("status", "-o", "json")
        said = json.loads(done.out)["daemon"]
        self.assertEqual((done.code, said["running"], said["ready"], said["connected"]), (6, False, False, False))
        done = world.run("drain", within=30)
        self.assertEqual(done.code, 6)
        self.assertIn("its process is gone", done.err)

    def test_killed_before_a_force_delete_time(self) -> None:
        """Nobody deletes the pod then, which what the daemon wrote does not know."""
        world = self.node_world()
        world.pod("web", grace=2)
        world.budget("never", "web")
        world.start()
        world.imds.spot(8)
        world.must(lambda: world.drain()["pods"]["blocked"] == 1, "the refusal")
        self.assertNotIn("has passed", world.run("status").out)
        world.kill()
        world.must(lambda: re.search(r"blocked +default/web, .*force-delete 2[^,]*, which has passed, blocked by", world.run("status").out), "the time that passes")
        self.assertIs(json.loads(world.run("status", "-o", "json").out)["drain"]["blocked"][0]["missed"], True)

    def test_who_is_not_root(self) -> None:
        """A member of the group reads what was written. Whether the daemon lives it learns where its process is gone, and not otherwise."""
        world = self.node_world(profile="m5.large")
        world.start()
        world.must(lambda: world.said_of_itself().get("connected"), "the connection")
        for folder in (world.folder, world.root, world.root / "run", world.root / "run/nodeclaimd"):
            folder.chmod(0o755)
        path = world.root / "run/nodeclaimd/status.json"

        def as_somebody(*arguments: str) -> "subprocess.CompletedProcess[str]":
            path.chmod(0o644)
            command = ["setpriv", "--reuid=65534", "--clear-groups", agent_path(), *arguments, "--root", world.root]
            return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

        done = as_somebody("status")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^daemon +cannot tell whether it runs: run as root")
        self.assertIsNone(json.loads(as_somebody("status", "-o", "json").stdout)["daemon"]["running"])
        world.kill()
        done = as_somebody("status")
        self.assertEqual(done.returncode, 6, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^daemon +not running")
        self.assertNotIn("not connected", done.stdout)

    def test_a_daemon_without_its_lock(self) -> None:
        """It could make none (a full disk), or is of an older version: no lock does not mean that there is no daemon."""
        world = self.node_world(profile="m5.large")
        world.start()
        world.must(lambda: world.said_of_itself().get("connected"), "the connection")
        (world.root / "run/nodeclaimd/.daemon").unlink()
        done = world.run("status")
        self.assertEqual((done.code, done.err), (0, ""), done.out)
        done = world.run("drain", "--wait", within=60)
        self.assertEqual(done.code, 0, done.err + world.story())
        world.kill()
        self.assertEqual(world.run("status").code, 6)

    def test_a_second_daemon(self) -> None:
        """Two would write the same Node and take each other's requests."""
        world = self.node_world(profile="m5.large")
        first = world.start()
        done = world.run("run", within=20)
        self.assertEqual(done.code, 6, done.out)
        self.assertIn(f"runs already, process {first.pid}", done.err)
        self.assertIs(first.poll(), None)
        world.kill()
        world.said.clear()
        world.start()

    def waits(self, world: DaemonWorld, state: str, *words: str) -> None:
        """In status.json, in the metric, in the log, and for people."""
        world.must(lambda: world.said_of_itself().get("apiState") == state, f"api_state {state}")
        said = world.said_of_itself()
        for word in words:
            self.assertIn(word, said["apiError"])
            self.assertIn(word, world.run("status").out)
            self.assertIn(word, world.log())
        world.must(lambda: world.metrics()["nodeclaimd_api_state"].get(f'{{state="{state}"}}') == 1, "the metric")
        self.assertEqual(sum(world.metrics()["nodeclaimd_api_state"].values()), 1)

    def test_what_a_connection_waits_for(self) -> None:
        """None of these waits is silent, and none of them is called connected."""
        world = self.node_world(profile="m5.large")
        world.pod("web", grace=1)
        path = world.root / KUBECONFIG
        good = path.read_text()
        path.unlink()
        world.wants_node = False
        world.start()
        self.waits(world, "no-kubeconfig", str(path))
        self.assertIs(world.said_of_itself()["connected"], False)
        path.write_text("current-context: [")
        self.waits(world, "bad-kubeconfig", str(path))
        path.write_text(good.replace("node.crt", "later.crt"))
        self.waits(world, "no-certificate", "later.crt")
        waiting = world.spawn("drain", "--wait")
        assert waiting.stdout
        for line in waiting.stdout:
            if b"later.crt" in line:
                break
        else:
            self.fail("drain --wait does not say what it waits for" + world.story())
        waiting.send_signal(signal.SIGINT)
        done = world.finish(waiting, 20)
        self.assertEqual(done.code, 1)
        self.assertIn("the request stays", done.err)
        self.assertIn("undrain", done.err)
        self.assertEqual([s["source"] for s in world.drain()["sources"]], ["operator"])
        with socket.socket() as deaf:  # it takes connections and never answers
            deaf.bind(("127.0.0.1", 0))
            deaf.listen(16)
            path.write_text(good.replace(world.api.url, f"https://127.0.0.1:{deaf.getsockname()[1]}"))
            world.must(lambda: world.said_of_itself().get("apiState") not in ("no-certificate", None), "another wait")
            self.assertIs(world.said_of_itself()["connected"], False)
            self.waits(world, "unreachable")
            self.assertIs(world.said_of_itself()["connected"], False)
        path.write_text(good)
        world.drained(within=120)
        self.waits(world, "connected")
        self.assertEqual((world.said_of_itself()["connected"], world.said_of_itself()["apiError"]), (True, None))

    def test_a_list_that_is_refused(self) -> None:
        world = self.node_world(profile="m5.large")
        world.pod("web", grace=1)
        refusal = world.api.server.fault("status", path="/api/v1/pods[?]", status=403)
        world.start()
        waiting = world.spawn("drain", "--wait")
        assert waiting.stdout
        for line in waiting.stdout:
            if b"403" in line and b"refused" in line:
                break
        else:
            self.fail("drain --wait does not say what it waits for" + world.story())
        self.waits(world, "refused", "403")
        refusal.count = 0
        self.assertEqual(world.finish(waiting, 120).code, 0)

    def test_what_is_in_force(self) -> None:
        """A document that is refused changes nothing, and status says so; so it does of drains that are turned off. A misspelled field has an Event."""
        world = self.node_world()
        world.pod("web", grace=1)
        conf = world.root / "etc/nodeclaimd/conf.d"
        head = "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec:\n"
        (conf / "90-mine.yaml").write_text(head + "  drain: {mod: observe}\n")
        world.start()
        world.must(lambda: world.said_of_itself().get("connected"), "the connection")
        world.must(lambda: world.events().count("ConfigurationIgnored") == 1, "the Event of the field, at the start")

        def read_again(text: str, shown: str) -> None:
            (conf / "90-mine.yaml").write_text(head + text)
            world.daemon.send_signal(signal.SIGHUP)
            world.must(lambda: re.search(rf"(?m)^policies .*, from configuration{shown}", world.run("status").out), shown)

        read_again("  interruption: {spot: reports}\n", r", notInForce .*90-mine\.yaml:4:24: ")
        world.must(lambda: "ConfigurationRefused" in world.events(), "the Event")
        world.must(lambda: world.metrics()["nodeclaimd_config_refused"][""] == 1, "the metric")
        read_again('  drain: {mod: "off"}\n', r", notInForce .*90-mine\.yaml:4:\d+: spec\.drain\.mod: unknown field, did you mean .mode.")
        self.assertRegex(world.log(), r"90-mine\.yaml:4:\d+: spec\.drain\.mod: unknown field")
        world.must(lambda: world.events().count("ConfigurationIgnored") == 1, "the same Event")
        read_again('  drain: {mode: "off"}\n', ", drainMode off$")
        read_again("  report: {events: true}\n", "$")
        world.must(lambda: world.metrics()["nodeclaimd_config_refused"][""] == 0, "the metric")
        self.assertEqual(world.events().count("ConfigurationRefused"), 1)
        world.must(lambda: world.events().count("ConfigurationAccepted") == 1, "the Event of its end")

    def test_requested_while_off(self) -> None:
        """As docs/runbooks.md says: a drain that was requested meanwhile is carried out when drains are turned on again."""
        world = self.node_world()
        world.pod("web", grace=1)
        off = world.root / "etc/nodeclaimd/conf.d/99-off.yaml"
        off.write_text('apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec:\n  drain:\n    mode: "off"\n')
        world.start()
        world.must(lambda: re.search(r"(?m)^policies .*, drainMode off$", world.run("status").out), "the mode, in status")
        request = json.dumps({"id": "disk-1", "mode": "deadline", "deadline": stamp(time.time() + 600)})
        world.change_node(lambda n: n["metadata"]["annotations"].update({REQUEST_KEY: request}))
        world.must(lambda: world.drain().get("policy") == "report", "the request, which is only reported")
        off.unlink()
        self.assertRegex(world.run("status").out, r"(?m)^policies .*, drainMode off$")  # of the daemon, and not of the files
        self.assertRegex(world.run("explain", "drain.mode").out, "drain.mode = auto")
        world.daemon.send_signal(signal.SIGHUP)
        world.drained(within=60)

    def test_started_with_a_typo(self) -> None:
        """What is refused does not take the rest with it, and an API server that comes later is told."""
        world = self.node_world()
        world.pod("web", grace=1)
        conf = world.root / "etc/nodeclaimd/conf.d"
        head = "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec:\n"
        (conf / "90-typo.yaml").write_text(head + "  interruption: {spot: reports}\n  node: {labels: {bad key: x}}\n")
        (conf / "99-off.yaml").write_text(head + '  drain: {mode: "off"}\n')
        world.start()
        world.must(lambda: "ConfigurationRefused" in world.events(), "the Event")
        shown = r"(?m)^policies .*, from configuration, drainMode off, notInForce .*90-typo\.yaml:4:24: "
        world.must(lambda: re.search(shown, world.run("status").out), shown)
        said = next(e["message"] for e in world.api.objects("events") if e["reason"] == "ConfigurationRefused")
        self.assertRegex(said, r"90-typo\.yaml:4:24: spec\.interruption\.spot: .*; the other policies are in force until a reload")

    @needs("CAP_SYS_ADMIN")
    def test_full_run(self) -> None:
        """What cannot be replaced is not left there as if it were the present."""
        world = self.node_world()
        world.pod("web", grace=3)
        world.budget("never", "web", allowed=0, desired=1, healthy=1)
        folder = self.mount_run(world)
        world.start()
        world.must(lambda: world.said_of_itself().get("connected"), "the connection")
        with open(folder / "filler", "wb") as filler, self.assertRaises(OSError):
            while True:
                os.write(filler.fileno(), bytes(4096))
        world.imds.spot(20)
        world.must(lambda: world.drain().get("phase") == "evicting", "the drain, in the file")
        self.assertRegex(world.run("status").out, "(?m)^drain +evicting")
        world.kill()

    def mount_run(self, world: DaemonWorld) -> Path:
        folder = world.root / "run/nodeclaimd"
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", str(folder)], check=True)
        return folder

    @needs("CAP_SYS_ADMIN")
    def test_run_that_cannot_be_written(self) -> None:
        """A daemon that runs is not said to be stopped, and what systemd is told is the present."""
        world = self.node_world()
        world.pod("web", grace=3)
        world.budget("never", "web", allowed=0, desired=1, healthy=1)
        folder = self.mount_run(world)
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        world.start()
        world.imds.spot(600)
        world.must(lambda: any(line.startswith("STATUS=spot notice: evicting, ") for line in world.heard()), "the line")
        self.assertEqual(list(folder.iterdir()), [])
        self.assertIn("or /run is full or read-only (df, mount)", world.run("status").err)
        done = world.run("drain")
        self.assertEqual(done.code, 6)
        self.assertIn("the folder for requests does not exist: the daemon does not run, hangs, or cannot use /run/nodeclaimd", done.err)
        self.assertRegex(done.err, "systemctl status nodeclaimd; df and mount of /run")
        subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)
        world.must(lambda: (folder / "requests").exists() and (folder / "status.json").exists(), "both")
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        done = world.run("drain")
        self.assertEqual(done.code, 6)
        self.assertRegex(done.err, "requests: Read-only file system")
        self.assertNotRegex(done.err, "does not run|as root")
        subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)

    def test_a_daemon_that_hangs(self) -> None:
        """Its process is there: it is not said to be stopped."""
        world = self.node_world(profile="m5.large")
        world.start()
        world.must(lambda: world.said_of_itself().get("connected"), "the connection")
        world.daemon.send_signal(signal.SIGSTOP)
        done = world.run("drain", within=30)
        world.daemon.send_signal(signal.SIGCONT)
        self.assertEqual(done.code, 6)
        self.assertIn("the request was not read in 5 s: the daemon does not run, hangs, or cannot use /run/nodeclaimd", done.err)
        self.assertEqual(list((world.root / "run/nodeclaimd/requests").iterdir()), [])

    def test_what_people_read(self) -> None:
        world = self.node_world()
        world.pod("web", grace=1)
        world.start()
        world.must(lambda: world.said_of_itself().get("connected"), "the connection")
        world.must(lambda: world.said_of_itself()["imds"]["spot"]["state"] == "ok", "the first answer")
        idle = world.run("status").out
        self.assertIn(f"node         {world.node_name}\n", idle)
        self.assertRegex(idle, r"daemon +connected, ")
        self.assertRegex(idle, r"imds .*spot ok")
        self.assertRegex(idle, r"(?m)^policies +rebalance report, .*spot drain")
        world.imds.spot(30)
        world.phase_is("drained")
        shown = world.run("status").out
        self.assertRegex(shown, r"drain +drained, .*0 of 1 pods remain, .*cordoned by us")
        self.assertRegex(shown, r"notice +spot, to terminate, .*deadline ")
        timeline = world.run("timeline").out
        for word in ("drain, begun ", "evicting", "drained", "default/web ", "notice  ", "force-delete time  all pods"):
            self.assertIn(word, timeline)
        drawing = world.folder / "drain.svg"
        done = world.run("timeline", "--svg", str(drawing))
        self.assertEqual((done.code, done.out), (0, ""), done.err)
        tree = ElementTree.parse(drawing).getroot()
        self.assertEqual(tree.tag, f"{SVG}svg")
        words = [t.text for t in tree.iter(f"{SVG}text")]
        for word in (f"Drain of {world.node_name} (spot)", "evicting", "notice", "cordon", "deadline"):
            self.assertIn(word, words)
        self.timeline_for_programs(world)
        self.svg_goes_where_it_is_named(world)

    def timeline_for_programs(self, world: DaemonWorld) -> None:
        done = world.run("timeline", "-o", "json")
        self.assertEqual(done.code, 0, done.err)
        shown = json.loads(done.out)
        self.assertEqual((shown["schema"], shown["bootstrap"]), (1, None))
        drain = shown["drain"]
        self.assertEqual((drain["node"], drain["source"], drain["outcome"]), (world.node_name, "spot", "drained"))
        self.assertLessEqual({"signalling", "evicting", "drained"}, {p["name"] for p in drain["phases"]})
        for one, two in zip(drain["phases"], drain["phases"][1:]):
            self.assertEqual(one["startUsec"] + one["durationUsec"], two["startUsec"])
        moments = {m["kind"]: m for m in drain["moments"]}
        self.assertEqual(set(moments), {"notice", "cordon", "force-delete", "deadline"})
        self.assertEqual(moments["deadline"]["at"], world.drain()["deadline"])
        both = world.run("timeline", "-o", "json", "--svg", "-")
        self.assertEqual((both.code, both.out), (2, ""), both.err)

    def svg_goes_where_it_is_named(self, world: DaemonWorld) -> None:
        """Nothing but a regular file is ever written to, and no folder is made."""
        folder = world.folder
        done = world.run("timeline", "--svg", "-")
        self.assertEqual((done.code, done.out[:5]), (0, "<svg "), done.err)
        os.mkfifo(folder / "fifo")
        (folder / "target.svg").write_text("another one's")
        (folder / "link").symlink_to("target.svg")
        (folder / "nowhere").symlink_to("new.svg")
        with open(folder / "fifo", "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as reader:
            for name in ("fifo", "link", "nowhere", "/dev/stdout", "/dev/full"):
                with self.subTest(name):
                    path = folder / name
                    before = path.lstat()
                    done = world.run("timeline", "--svg", str(path), within=20)
                    self.assertEqual((done.code, done.out), (6, ""))
                    self.assertIn(f"cannot write {path}: not a regular file", done.err)
                    self.assertIn("remedy: name a new file, or - for standard output", done.err)
                    self.assertEqual((path.lstat().st_mode, path.lstat().st_ino), (before.st_mode, before.st_ino))
            self.assertEqual(reader.read(), b"")
        self.assertEqual((folder / "target.svg").read_text(), "another one's")
        self.assertFalse((folder / "new.svg").exists())
        self.assertEqual(world.run("timeline", "--svg", str(folder / "target.svg")).code, 0)
        self.assertTrue((folder / "target.svg").read_text().endswith("</svg>\n"))
        done = world.run("timeline", "--svg", str(folder / "no/such/drain.svg"))
        self.assertEqual(done.code, 6)
        self.assertIn("no/such/drain.svg: No such file or directory", done.err)
        self.assertFalse((folder / "no").exists())


if __name__ == "__main__":
    unittest.main()
