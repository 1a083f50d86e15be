"""What the daemon says of itself: status.json, metrics, Events, console, STATUS=, and nothing that is secret."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import unittest
from pathlib import Path

from harness import agent_path, needs
from promtext import check_with_promtool, documented_families, families_of, parse_metrics
from running import PATIENCE, DaemonTest, DaemonWorld


EVENTS = {"SpotInterruption", "NodeCordoned", "DrainStarted", "DrainBlocked", "DrainForced", "NodeDrained"}


class Reports(DaemonTest):
    def drained(self) -> DaemonWorld:
        """One drain with everything in it: evicted, blocked, deleted, left alone."""
        world = self.node_world(token=True)
        world.pod("web-1", grace=2)
        world.pod("web-2", grace=2)
        world.pod("blocked", grace=2)
        world.pod("agent", owner="DaemonSet")
        world.budget("never", "blocked")
        world.start()
        world.imds.spot(11)
        world.must(lambda: world.drain().get("pods", {}).get("blocked") == 1, "a blocked pod")
        return world

    def test_idle(self) -> None:
        """Counters are brought up to date once a minute; status.json has nothing new to say, and is left as it is."""
        world = self.node_world()
        world.start()
        files = [world.root / "run/nodeclaimd" / name for name in ("status.json", "metrics.prom")]
        world.must(lambda: all(p["state"] == "ok" for p in world.said_of_itself()["imds"].values()), "every poll")
        polls = "nodeclaimd_imds_polls_total"

        def asked() -> float:
            return world.metrics()[polls]['{source="spot"}']

        world.must(lambda: time.time() - files[0].stat().st_mtime > 2.0, "the end of what is said of the start")
        before, count = [f.stat().st_ino for f in files], asked()
        world.must(lambda: asked() > count + 30, "a minute's counters", 75)
        after = [f.stat().st_ino for f in files]
        self.assertEqual(before[0], after[0], "status.json was written again")
        self.assertNotEqual(before[1], after[1])

    def test_version(self) -> None:
        """What `version` prints, which between releases names the commit: in status.json, the metrics and the journal."""
        version = subprocess.run([agent_path(), "version"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()[1]
        world = self.node_world()
        world.start()
        world.must(lambda: world.said_of_itself()["version"] == version, "the version in status.json")
        world.must(lambda: f'version="{version}"' in world.metrics_text(), "the version in the metrics")
        self.assertIn(f"the daemon starts, version {version}\n", world.log())

    def test_beside_nodeadm(self) -> None:
        """The node is drained all the same; a bootstrap would refuse. Read again on reload."""
        world = self.node_world()
        unit = world.root / "usr/lib/systemd/system/nodeadm-config.service"
        link = world.root / "etc/systemd/system/multi-user.target.wants/nodeadm-config.service"
        for path in (unit, link):
            path.parent.mkdir(parents=True, exist_ok=True)
        unit.write_text("[Service]\n")
        link.symlink_to("/usr/lib/systemd/system/nodeadm-config.service")
        world.start()
        world.must(lambda: "is enabled" in (world.said_of_itself().get("conflict") or ""), "the conflict")
        self.assertIn("nodeadm-config.service is enabled", world.run("status").out)
        self.assertEqual(world.log().count("nodeadm-config.service is enabled"), 1)
        link.unlink()
        world.daemon.send_signal(signal.SIGHUP)
        world.must(lambda: world.said_of_itself().get("conflict") is None, "no conflict")

    def test_a_whole_drain(self) -> None:
        world = self.drained()
        during = world.status()
        shown = world.run("status")
        self.assertEqual(shown.code, 0, shown.err)
        world.must(lambda: world.metrics().get("nodeclaimd_drain_pods_blocked") == {"": 1}, "the blocked pod in the metrics")
        while_blocked = world.metrics_text()
        world.phase_is("drained")
        world.must(lambda: EVENTS <= set(world.events()), f"all of {EVENTS}")
        world.must(lambda: world.condition("Drained")[0] == "True", "the last write")
        with self.subTest("status.json"):
            self.status_during(world, during["drain"])
            self.status_after(world)
        with self.subTest("metrics"):
            self.metrics_during(parse_metrics(while_blocked))
            world.stop()
            self.metrics_after(world)
        with self.subTest("promtool"):
            check_with_promtool(while_blocked)
        with self.subTest("events"):
            self.events_said(world)
        with self.subTest("console"):
            self.console_said(world)
        with self.subTest("service manager"):
            lines = world.heard()
            self.assertEqual(lines.count("READY=1"), 1)
            said = [line for line in lines if line.startswith("STATUS=")]
            self.assertTrue(any("1 blocked: default/blocked by never" in line for line in said), said)
        with self.subTest("secrets"):
            self.nothing_secret(world)
        with self.subTest("timeline"):
            done = world.run("timeline")
            self.assertEqual(done.code, 0, done.err)

    def status_during(self, world: DaemonWorld, drain: dict) -> None:  # type: ignore[type-arg]
        self.assertEqual((drain["source"], drain["policy"], drain["phase"]), ("spot", "drain", "evicting"))
        self.assertEqual([s["source"] for s in drain["sources"]], ["spot"])
        self.assertEqual(drain["sources"][0]["action"], "terminate")
        self.assertTrue(drain["cordon"]["ours"])
        self.assertEqual(drain["pods"]["total"], 3)
        self.assertEqual(drain["pods"]["excluded"]["daemonset"], 1)
        self.assertEqual([(b["pod"], b["budget"]) for b in drain["blocked"]], [("default/blocked", "never")])
        for key in ("deadline", "forceDeleteAt", "since"):
            self.assertRegex(drain[key], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$", key)

    def status_after(self, world: DaemonWorld) -> None:
        drain = world.drain()
        pods = drain["pods"]
        self.assertEqual((pods["remaining"], pods["evicted"], pods["deleted"], pods["blocked"]), (0, 2, 1, 0))
        phases = [h["phase"] for h in drain["history"]]
        for before, after in (("signalling", "cordoning"), ("cordoning", "evicting"), ("evicting", "drained")):
            self.assertLess(phases.index(before), phases.index(after), phases)
        said = world.said_of_itself()
        self.assertEqual((said["ready"], said["connected"], said["node"]), (True, True, world.node_name))
        self.assertEqual(said["pid"], world.daemon.pid)
        self.assertIsNone(said["apiError"])
        self.assertEqual(said["imds"]["spot"]["state"], "ok")

    def metrics_during(self, got: dict[str, dict[str, float]]) -> None:
        self.assertEqual(got["nodeclaimd_phase"]['{phase="evicting"}'], 1)
        self.assertEqual(sum(got["nodeclaimd_phase"].values()), 1)
        self.assertEqual(got["nodeclaimd_notice_active"]['{source="spot"}'], 1)
        left = got["nodeclaimd_deadline_timestamp_seconds"][""] - time.time()
        self.assertTrue(0 < left <= 11, left)
        self.assertEqual(got["nodeclaimd_drain_pods_blocked"][""], 1)
        self.assertEqual(got["nodeclaimd_cordon_owned"][""], 1)

    def metrics_after(self, world: DaemonWorld) -> None:
        got = world.metrics()
        self.assertEqual(got["nodeclaimd_phase"]['{phase="drained"}'], 1)
        self.assertEqual(got["nodeclaimd_drain_pods_remaining"][""], 0)
        self.assertEqual(got["nodeclaimd_evictions_total"]['{answer="accepted"}'], 2)
        refused = sum(s.status == 429 for s in world.evictions())
        self.assertEqual(got["nodeclaimd_evictions_total"]['{answer="budget"}'], refused)
        self.assertEqual(got["nodeclaimd_deletions_total"]['{answer="accepted"}'], 1)
        self.assertEqual(got["nodeclaimd_notices_total"]['{source="spot"}'], 1)
        self.assertGreater(got["nodeclaimd_imds_request_duration_seconds_count"][""], 5)
        self.assertGreater(got["nodeclaimd_imds_polls_total"]['{source="spot"}'], 5)
        for kind in ("signal", "cordon", "drained"):
            self.assertEqual(got["nodeclaimd_node_writes_total"][f'{{write="{kind}"}}'], 1)

    def events_said(self, world: DaemonWorld) -> None:
        reasons = world.events()
        for reason in EVENTS:
            self.assertEqual(reasons.count(reason), 1, reasons)
        for event in world.api.objects("events"):
            about = event["involvedObject"]
            if about["kind"] != "Pod":
                self.assertEqual((about["kind"], about["name"], about["uid"]), ("Node", world.node_name, world.node_name))
            self.assertIn(event["type"], ("Normal", "Warning"))
            self.assertTrue(event["firstTimestamp"] and event["lastTimestamp"] and event["source"]["component"])
            self.assertEqual(event["count"], 1)
        world.must(lambda: self.told(world) == ["blocked", "web-1", "web-2"], "one Event on each pod")

    def told(self, world: DaemonWorld) -> list[str]:
        """The pods that have an Event, once for each."""
        about = [e["involvedObject"] for e in world.api.objects("events")]
        return sorted(o["name"] for o in about if o["kind"] == "Pod")

    def console_said(self, world: DaemonWorld) -> None:
        lines = [line for line in world.console().splitlines() if '"drain"' in line]
        self.assertTrue(all(line.startswith("nodeclaimd: {") for line in lines), lines)
        said = [json.loads(line.partition(" ")[2]) for line in lines]
        self.assertEqual([s["reason"] for s in said], ["SpotInterruption", "NodeDrained"])
        self.assertEqual({s["node"] for s in said}, {world.node_name})
        self.assertTrue(all(s.get("at") for s in said), said)
        self.assertEqual([s.get("remaining") for s in said], [None, 0], "none is known before they are listed")

    def nothing_secret(self, world: DaemonWorld) -> None:
        inst = world.inst
        secrets = [inst.secret_key, inst.session_token, inst.access_key, *world.api.auth.seen, *world.imds.tokens]
        everything = [world.log(), json.dumps(world.api.objects("events")), json.dumps(world.node())]
        for path in Path(world.root).rglob("*"):
            if path.is_file() and "pki" not in str(path):
                everything.append(path.read_text(errors="replace"))
        self.assertGreater(len(secrets), 4)
        for secret in secrets:
            if len(secret) > 12:
                self.assertFalse(any(secret in text for text in everything), secret[:12])

    def test_bootstrap_and_daemon_keep_each_others_words(self) -> None:
        world = self.node_world()
        world.start()
        world.must(lambda: world.said_of_itself().get("connected"), "the daemon's part")
        done = world.bootstrap("--skip", "start")
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(world.status()["outcome"], "succeeded")
        self.assertTrue(world.said_of_itself().get("connected"))
        world.imds.spot(600)
        world.phase_is("drained")
        self.assertEqual(world.status()["outcome"], "succeeded")
        got = world.metrics_text()
        self.assertEqual(families_of(got, "nodeclaimd_"), documented_families("nodeclaimd.8"))
        check_with_promtool(got)

    @needs("CAP_SYS_PTRACE")
    def test_an_idle_daemon(self) -> None:
        """No socket is listened on, nothing is written to the Node, and what it holds is small."""
        world = self.node_world()
        world.start()
        world.must(lambda: len([e for e in world.requests() if "instance-action" in str(e["path"])]) >= 4, "some polls")
        self.assertEqual([s for s in world.steps() if s.entry["method"] != "GET" and s.kind != "other"], [])
        self.assertFalse(self.listens(world.daemon.pid))
        if PATIENCE == 1:
            self.assertLess(world.memory_kib("VmRSS"), 16 * 1024)
            self.assertLess(world.memory_kib("RssAnon"), 4 * 1024)
        gets = [e for e in world.requests() if e["method"] == "GET" and "spot/" in str(e["path"])]
        self.assertLessEqual(len({e["conn"] for e in gets}), 1 if PATIENCE == 1 else 3, "one connection is kept")

    @staticmethod
    def listens(pid: int) -> bool:
        inodes = set()
        for fd in os.listdir(f"/proc/{pid}/fd"):
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{fd}"))
            if found:
                inodes.add(found[1])
        for name in ("tcp", "tcp6"):
            for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
                parts = line.split()
                if parts[3] == "0A" and parts[9] in inodes:
                    return True
        return False

    def test_a_folder_that_cannot_be_written(self) -> None:
        """status.json is no reason to leave a node undrained."""
        world = self.node_world()
        world.pod("web")
        (world.root / "run").mkdir(exist_ok=True)
        (world.root / "run/nodeclaimd").write_text("a file in the way")
        (world.root / "var/lib").mkdir(parents=True, exist_ok=True)
        (world.root / "var/lib/nodeclaimd").write_text("another one")
        world.start(ready=False)
        world.must(lambda: "READY=1" in world.heard(), "READY=1")
        world.imds.spot(120)
        world.must(lambda: not world.pods(), "the drain")

    def test_patient_metrics_reader(self) -> None:
        """The reader itself: what promtool would refuse is refused."""
        good = '# HELP a_total x\n# TYPE a_total counter\na_total{k="v"} 1\n'
        self.assertEqual(parse_metrics(good), {"a_total": {'{k="v"}': 1.0}})
        for bad in (
            good[:-1],
            good + good,
            good + 'a_total{k="v"} 2\n',
            good.replace("counter", "gauge"),
            good.replace("# HELP a_total x\n", ""),
            good.replace('"v"', '"\n"'),
            good + "b 1\n",
            good.replace("} 1", "} one"),
            good.replace("} 1", "} -1"),
            '# HELP h x\n# TYPE h histogram\nh_bucket{le="1"} 2\nh_bucket{le="+Inf"} 1\nh_sum 1\nh_count 1\n',
            '# HELP h x\n# TYPE h histogram\nh_bucket{le="+Inf"} 1\nh_sum 1\nh_count 2\n',
        ):
            with self.subTest(bad), self.assertRaises(ValueError):
                parse_metrics(bad)


if __name__ == "__main__":
    unittest.main()
