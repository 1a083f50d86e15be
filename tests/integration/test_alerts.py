"""deploy/observability/alerts.yaml: each alert fires on what the programs show in its scene, and no other one does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from controlling import ControlTest, ControlWorld
from harness import SOURCE, needs
from monitoring import RULES, NodeExporter, Scene, Scrape, check_alert, check_rules, firing, program
from pods import stamp
from running import PATIENCE, REQUEST_KEY, DaemonTest, DaemonWorld

GRACEFUL = json.dumps({"id": "r-1", "mode": "graceful"})
MINUTE = 75  # within which the daemon has written its counters
WRITTEN, POLLED = "node_textfile_mtime_seconds", "nodeclaimd_imds_last_success_timestamp_seconds"


class Rules(unittest.TestCase):
    def test_promtool_accepts_them(self) -> None:
        done = subprocess.run([program("promtool", "PROMTOOL"), "check", "rules", "--lint=all", str(RULES)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_each_names_what_to_do(self) -> None:
        """Each rule says what holds and where the runbook is, which is the heading of its own name."""
        rules = re.split(r"(?m)^  - alert: ", RULES.read_text())[1:]
        self.assertGreater(len(rules), 8)
        pages: dict[str, set[str]] = {}
        for rule in rules:
            name = rule.split("\n")[0]
            found = re.search(r"(?m)^      runbook_url: RUNBOOKS/(\S+)#(\S+)$", rule)
            assert found, name
            page = (SOURCE / found[1]).read_text()
            heads = re.findall(r"(?m)^#+ (.*)$", page)
            pages.setdefault(found[1], {re.sub(r"[^a-z0-9 -]", "", h.lower()).replace(" ", "-") for h in heads})
            self.assertEqual(found[2], name.lower(), name)
            self.assertIn(found[2], pages[found[1]], name)
            for part in ("severity: (critical|warning)", r"summary: [A-Za-z].*\.", r"description: >-",
                         r"\n        First: `(kubectl|nodeclaimd|systemctl) [^`]+`( on the node| or `kubectl [^`]+`)?\.\n      runbook_url"):
                self.assertRegex(rule, part, name)
        runbooks = set(re.findall(r"(?m)^### (Node[Cc]laim\w+)$", (SOURCE / "docs/runbooks.md").read_text()))
        self.assertEqual(runbooks - {rule.split("\n")[0] for rule in rules}, set(), "runbooks without an alert")


class OfClusters(unittest.TestCase):
    """Several clusters in one Prometheus, and the first day: series as they would be, each for half an hour."""

    LEADS = 'nodeclaim_controller_leads{cluster="%s",job="c",instance="%s"}'
    BUILD = 'nodeclaim_controller_build_info{cluster="%s",job="c",instance="i"}'

    def fires(self, series: dict[str, str], *wanted: str) -> None:
        """`wanted`: "NAME CLUSTER"."""
        folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="nodeclaimd-alerts-")))
        found = [{"labels": '{alertname="%s",cluster="%s"}' % tuple(one.split()), "value": 1} for one in sorted(wanted)]
        check_rules(folder, [{"series": name, "values": values} for name, values in series.items()],
                    'max by (alertname, cluster) (max_over_time(ALERTS{alertstate="firing"}[30m]))', 30, found)

    def test_one_leader_each(self) -> None:
        self.fires({self.LEADS % ("a", "1"): "1x120", self.LEADS % ("a", "2"): "0x120", self.LEADS % ("b", "1"): "1x120"})

    def test_two_leaders_of_one_of_them(self) -> None:
        self.fires({self.LEADS % ("a", "1"): "1x120", self.LEADS % ("b", "1"): "1x120", self.LEADS % ("b", "2"): "1x120"},
                   "NodeclaimControllerLeaders b")

    def test_the_same_addresses(self) -> None:
        """Of two clusters, in one of which IMDS does not answer."""
        both = {}
        for cluster, last in (("a", "0+15x120"), ("b", "0x120")):
            labels = f'cluster="{cluster}",job="n",instance="10.0.0.1:9100"'
            both[f'node_textfile_mtime_seconds{{{labels},file="metrics.prom"}}'] = "0+15x120"
            both[f"nodeclaimd_clock_skew_seconds{{{labels}}}"] = "0x120"
            both[f'nodeclaimd_imds_last_success_timestamp_seconds{{{labels},source="spot"}}'] = last
        self.fires(both, "NodeclaimdNoticesUnavailable b")

    def test_files_of_others(self) -> None:
        """Of the same name, in another folder or by an exporter that leaves it out: their age is none of ours."""
        series = {}
        for cluster, file, is_ours in (("a", "/var/lib/textfile/metrics.prom", True), ("b", "metrics.prom", False),
                                       ("c", "metrics.prom", True), ("d", "/host/root/run/nodeclaimd/metrics.prom", True)):
            labels = f'cluster="{cluster}",job="n",instance="1"'
            series[f'node_textfile_mtime_seconds{{{labels},file="{file}"}}'] = "0x120"
            if is_ours:
                series[f'nodeclaimd_api_state{{{labels},state="connected"}}'] = "1x120"
        self.fires(series, "NodeclaimdNotRunning c", "NodeclaimdNotRunning d")

    def test_what_an_alert_names(self) -> None:
        """The node, where its name is known, beside the address of the exporter; in the cluster that is meant."""
        labels = 'job="n",instance="10.0.0.1:9100"'
        given = {f'nodeclaimd_config_refused{{cluster="a",{labels}}}': "1x120", f'nodeclaimd_config_refused{{{labels}}}': "1x120",
                 f'nodeclaimd_node_info{{cluster="a",node_name="n-a",{labels}}}': "1x120"}
        folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="nodeclaimd-alerts-")))
        summary = "A configuration document of a node is refused."
        said = [{"exp_labels": {"severity": "warning", "job": "n", "instance": "10.0.0.1:9100", **more},
                 "exp_annotations": {"summary": summary, "runbook_url": "RUNBOOKS/docs/runbooks.md#nodeclaimdconfigurationrefused",
                                     "description": f"nodeclaimd on 10.0.0.1:9100{name} refuses a document. Other policies than those written "
                                                    f"there are in force. First: `kubectl nodeclaim why {node}` or `kubectl describe node {node}`."}}
                for more, name, node in (({"cluster": "a"}, " (node n-a)", "n-a"), ({}, "", "NODE"))]
        check_alert(folder, given, "NodeclaimdConfigurationRefused", 30, said)

    def test_what_is_wrong_with_the_api_server(self) -> None:
        labels = 'job="n",instance="1"'
        for state, words in (("refused", "reaches the API server, but requests of it are refused. What these are for is not done: the interruption is "
                                         "not announced, or pods are not drained."),
                             ("failing", "reaches the API server, but requests of it are answered with errors. What these are for is not done: the "
                                         "interruption is not announced, or pods are not drained."),
                             ("unreachable", "is not connected to the API server (state unreachable). It receives notices, but can neither announce "
                                             "an interruption nor drain the node.")):  # fmt: skip
            given = {f'nodeclaimd_api_state{{{labels},state="{name}"}}': f"{int(name == state)}x120" for name in ("connected", "refused", "failing", "unreachable")}
            folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="nodeclaimd-alerts-")))
            said = {"summary": "nodeclaimd cannot use the API server, or not for all that it needs.",
                    "description": f"nodeclaimd on 1 {words} First: `nodeclaimd status` on the node.",
                    "runbook_url": "RUNBOOKS/docs/runbooks.md#nodeclaimdnotconnected"}
            check_alert(folder, given, "NodeclaimdNotConnected", 30,
                        [{"exp_labels": {"severity": "warning", "job": "n", "instance": "1", "state": "connected"}, "exp_annotations": said}])

    def test_volumes(self) -> None:
        """Nine minutes, after which they are detached or a deadline has ended the wait, are no alert."""
        series = 'nodeclaimd_phase{cluster="%s",job="n",instance="1",phase="volume-wait"}'
        self.fires({series % "a": "0x20 1x36 0x60", series % "b": "0x20 1x100"}, "NodeclaimdVolumeWait b")

    def test_evictions_that_are_refused(self) -> None:
        """Of a spot node, whose series end two minutes after the first one; a budget's refusal is none, nor is a single one."""
        series = 'nodeclaimd_%s_total{cluster="%s",job="n",instance="1",answer="%s"}'
        given = {}
        for cluster, evict, delete, budget in (("a", "0x6 3x3 9 stale", "0x10 stale", "0x10 stale"), ("b", "0x120", "0x60 5x60", "0x120"),
                                               ("c", "0x120", "0x120", "0x60 7x60"), ("d", "0x60 1x60", "0x120", "0x120")):
            given[series % ("evictions", cluster, "refused")] = evict
            given[series % ("deletions", cluster, "refused")] = delete
            given[series % ("evictions", cluster, "budget")] = budget
        self.fires(given, "NodeclaimdEvictionsRefused a", "NodeclaimdEvictionsRefused b")

    def test_a_cordon_that_is_refused(self) -> None:
        """Of a spot node, too; one that fails once is tried again."""
        series = 'nodeclaimd_node_write_failures_total{cluster="%s",job="n",instance="1",write="%s"}'
        self.fires({series % ("a", "cordon"): "0x6 3x3 9 stale", series % ("b", "cordon"): "0x60 1x60", series % ("c", "progress"): "0x60 9x60"},
                   "NodeclaimdCordonRefused a")

    def test_the_first_day(self) -> None:
        """The NetworkPolicy keeps Prometheus out: nodes are there, and the controller was never scraped."""
        self.fires({'nodeclaimd_start_time_seconds{cluster="a",job="n",instance="1"}': "0x120"})

    def test_nodes_that_report_nothing(self) -> None:
        """None of a cluster, or one of them; not where each does, in two jobs or with addresses of another cluster, or where none is."""
        agents = 'nodeclaim_controller_agent_nodes{cluster="%s",job="c",instance="%s"}'
        outcome = 'nodeclaimd_bootstrap_outcome{cluster="%s",job="%s",instance="%s",outcome="%s"}'
        given = {agents % ("a", "1"): "3x120", agents % ("b", "1"): "2x120", agents % ("b", "2"): "2x120", agents % ("c", "1"): "2x120",
                 agents % ("d", "1"): "0x120", outcome % ("e", "n", "1", "succeeded"): "1x120"}
        for cluster, job, instance in (("b", "n", "1"), ("b", "again", "1"), ("c", "n", "1"), ("c", "n", "2")):
            for name in ("succeeded", "failed"):
                given[outcome % (cluster, job, instance, name)] = f"{int(name == 'succeeded')}x120"
        self.fires(given, "NodeclaimdMetricsMissing a", "NodeclaimdMetricsMissing b")

    def test_nodes_that_report_nothing_yet(self) -> None:
        """One is counted after ten minutes, by then it reports; another has gone before it is no longer counted; one boots again."""
        agents, outcome = 'nodeclaim_controller_agent_nodes{job="c"}', 'nodeclaimd_bootstrap_outcome{job="n",instance="%s",outcome="succeeded"}'
        self.fires({agents: "1x40 2x19 1x60", outcome % "1": "1x50 stale _x8 1x60", outcome % "2": "_x5 1x50 stale"})

    def test_nodes_without_metrics(self) -> None:
        """The query of the docs, which names the node whose exporter is there and whose metrics are not."""
        page = (SOURCE / "docs/troubleshooting.md").read_text()
        query = re.search(r"(?m)^    (up\{.*)$", page)
        assert query
        series = {}
        for cluster, instance in (("a", "1"), ("a", "2"), ("b", "1")):
            labels = f'cluster="{cluster}",job="node-exporter",instance="{instance}"'
            series[f"up{{{labels}}}"] = "1x120" if instance == "1" else "0x120"
            series[f'node_textfile_mtime_seconds{{{labels},file="other.prom"}}'] = "0+15x120"
            if cluster == "a":
                series[f'nodeclaimd_api_state{{{labels},state="connected"}}'] = "1x120"
        folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="nodeclaimd-alerts-")))
        check_rules(folder, [{"series": name, "values": values} for name, values in series.items()], query[1], 20,
                    [{"labels": 'up{cluster="b",job="node-exporter",instance="1"}', "value": 1}])

    def test_not_scraped_any_more(self) -> None:
        self.fires({self.BUILD % "a": "1x40 stale", self.BUILD % "b": "1x120"}, "NodeclaimControllerNotScraped a")


class OfNodes(DaemonTest):
    def scene(self, **more: object) -> DaemonWorld:
        program("promtool", "PROMTOOL")
        world = self.node_world(**more)
        (world.root / "run/nodeclaimd").mkdir(parents=True, exist_ok=True)
        self.exporter = NodeExporter(world.root, world.folder / "exporter.log")
        self.enterContext(self.exporter)
        return world

    def scrape(self) -> Scrape:
        found = Scrape.of("node-exporter", self.exporter.address)
        self.assertEqual(found.value("node_textfile_scrape_error"), 0)
        return found

    def fires(self, world: DaemonWorld, *wanted: str, goes_on: tuple[str, ...] = (WRITTEN, POLLED)) -> None:
        first = self.scrape()
        self.fire(world, first, *wanted, goes_on=goes_on)

    def fire(self, world: DaemonWorld, first: Scrape, *wanted: str, goes_on: tuple[str, ...] = (WRITTEN, POLLED)) -> None:
        firing(world.folder, Scene(first, self.scrape(), goes_on), "nodeclaimd", set(wanted))

    def a_write_later(self, world: DaemonWorld) -> Scrape:
        """What is shown now, once the daemon has written its metrics anew after that, as it does once a minute."""
        first, file = self.scrape(), world.root / "run/nodeclaimd/metrics.prom"
        world.must(lambda: file.stat().st_mtime > first.at + 5, "new metrics", MINUTE)
        return first

    def shows(self, world: DaemonWorld, name: str, labels: str = "", within: float = 20) -> None:
        file = world.root / "run/nodeclaimd/metrics.prom"
        world.must(lambda: file.exists() and world.metrics().get(f"nodeclaimd_{name}", {}).get(labels), name, within)

    def request(self, world: DaemonWorld) -> None:
        world.change_node(lambda n: n["metadata"]["annotations"].update({REQUEST_KEY: GRACEFUL}))

    def test_healthy(self) -> None:
        """A node that booted and waits, and later is drained in time."""
        world = self.scene()
        world.pod("web", grace=2)
        self.assertEqual(world.bootstrap("--skip", "start").code, 0)
        world.start()
        self.shows(world, "api_state", '{state="connected"}')
        with self.subTest("idle"):
            first = self.a_write_later(world)
            second = self.scrape()
            written = max(second.samples[WRITTEN].values())
            self.assertEqual(len(second.samples[POLLED]), 4)
            for source, polled in second.samples[POLLED].items():
                self.assertLess(written - polled, 60 + 10 * PATIENCE, source)
            self.assertLess(second.at - written, 5 * PATIENCE)
            self.fire(world, first)
        world.imds.spot(30)
        world.drained()
        with self.subTest("drained"):
            self.fires(world)

    def test_a_bootstrap_that_failed(self) -> None:
        world = self.scene()
        world.set_user_data(b"no document\n")
        self.assertEqual(world.bootstrap().code, 3)
        world.start()
        self.shows(world, "api_state", '{state="connected"}')
        self.fires(world, "NodeclaimdBootstrapFailed")

    def test_a_bootstrap_that_fails_again_and_again(self) -> None:
        """systemd starts it again: at most scrapes it is in progress."""
        world = self.scene()
        world.api.server.refuse()
        self.assertEqual(world.bootstrap("--timeout", "1s").code, 1)
        first = self.scrape()
        self.assertEqual(first.value("nodeclaimd_bootstrap_outcome", '{outcome="failed"}'), 1)
        again = world.spawn("bootstrap")
        self.shows(world, "bootstrap_outcome", '{outcome="running"}')
        self.fire(world, first, "NodeclaimdBootstrapFailed")
        again.kill()

    def test_a_daemon_that_died(self) -> None:
        world = self.scene()
        world.start()
        self.shows(world, "api_state", '{state="connected"}')
        world.kill()
        self.fires(world, "NodeclaimdNotRunning", goes_on=())

    def mount_run(self, world: DaemonWorld) -> Path:
        folder = world.root / "run/nodeclaimd"
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", str(folder)], check=True)
        return folder

    def fill(self, folder: Path) -> None:
        with open(folder / "filler", "ab") as filler, self.assertRaises(OSError):
            while True:
                os.write(filler.fileno(), bytes(4096))

    @needs("CAP_SYS_ADMIN")
    def test_run_that_cannot_be_written_before_the_start(self) -> None:
        """Full or read-only: there is no series, and no alert can fire. The query of the docs is for that."""
        for how in ("full", "read-only"):
            with self.subTest(how):
                world = self.scene()
                folder = self.mount_run(world)
                if how == "full":
                    self.fill(folder)
                else:
                    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
                world.start()
                world.must(lambda: "metrics.prom" in world.log() or "status.json" in world.log(), "the line in the journal")
                self.assertNotIn(WRITTEN, self.scrape().samples)
                self.fires(world, goes_on=())
                world.kill()

    @needs("CAP_SYS_ADMIN")
    def test_run_that_became_read_only(self) -> None:
        """Between two lives of the daemon: the files of the first one stay as they were."""
        world = self.scene()
        folder = self.mount_run(world)
        world.start()
        self.shows(world, "api_state", '{state="connected"}')
        world.kill()
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        world.start()
        world.must(lambda: "Read-only file system, going on without" in world.log(), "the line in the journal")
        self.assertRegex(world.run("status").out, r"(?m)^daemon +cannot tell whether it runs: .*/run is read-only")
        self.fires(world, "NodeclaimdNotRunning", goes_on=())
        world.kill()

    @needs("CAP_SYS_ADMIN")
    def test_run_that_becomes_full(self) -> None:
        """status.json finds no room any more; whether metrics.prom does or not, nothing fires."""
        world = self.scene()
        folder = self.mount_run(world)
        world.start()
        self.shows(world, "api_state", '{state="connected"}')
        for i in range(12):
            world.pod(f"web-{i}", grace=300)
        self.fill(folder)
        world.imds.spot(600)

        def is_gone() -> bool:
            self.fill(folder)
            return not (folder / "status.json").exists()

        world.must(is_gone, "that it is gone", 30)
        full = re.compile(r"(status[.]json|metrics[.]prom): No space left on device, going on without")
        world.must(lambda: full.search(world.log()) is not None, "the line in the journal")
        self.assertTrue(any("STATUS=spot notice: " in line for line in world.heard()), "the line of systemctl status")
        self.fires(world)
        world.kill()

    def test_imds_that_went_away(self) -> None:
        world = self.scene()
        world.start()
        self.shows(world, "imds_last_success_timestamp_seconds", '{source="spot"}')
        world.imds.server.refuse()
        self.shows(world, "imds_errors_total", '{class="transient"}', MINUTE)
        first = self.a_write_later(world)
        self.assertEqual(first.samples[POLLED], self.scrape().samples[POLLED])
        self.fire(world, first, "NodeclaimdNoticesUnavailable", goes_on=(WRITTEN,))

    def test_imds_that_was_never_there(self) -> None:
        world = self.scene()
        world.imds.server.fault("status", status=500)
        world.start(ready=False)
        self.shows(world, "start_time_seconds")
        first = self.a_write_later(world)
        self.fire(world, first, "NodeclaimdNoticesUnavailable", goes_on=(WRITTEN,))

    def test_api_server_away(self) -> None:
        world = self.scene()
        world.api.server.refuse()
        world.start()
        self.shows(world, "api_state", '{state="unreachable"}', MINUTE)
        self.fires(world, "NodeclaimdNotConnected")

    def test_a_drain_that_is_blocked(self) -> None:
        world = self.scene()
        world.pod("web", grace=2)
        world.budget("never", "web")
        world.start()
        self.request(world)
        self.shows(world, "drain_pods_blocked")
        self.fires(world, "NodeclaimdDrainBlocked")

    def test_a_cordon_that_is_refused(self) -> None:
        world = self.scene()
        world.api.server.fault("status", method="PATCH", path="/nodes/", status=403)
        world.start()
        self.shows(world, "api_state", '{state="connected"}')
        first = self.scrape()
        self.request(world)
        world.must(lambda: world.metrics()["nodeclaimd_node_write_failures_total"]['{write="cordon"}'] >= 3, "the refusals", MINUTE)
        self.fire(world, first, "NodeclaimdCordonRefused", "NodeclaimdNotConnected")

    def test_evictions_that_are_refused(self) -> None:
        world = self.scene()
        world.pod("web", grace=2)
        world.api.server.fault("status", path="/eviction", status=403)
        world.start()
        self.shows(world, "api_state", '{state="connected"}')
        first = self.scrape()
        self.request(world)
        world.must(lambda: world.metrics()["nodeclaimd_evictions_total"]['{answer="refused"}'] >= 3, "the refusals", MINUTE)
        self.fire(world, first, "NodeclaimdEvictionsRefused", "NodeclaimdDrainBlocked")

    def test_a_volume_that_does_not_detach(self) -> None:
        world = self.scene()
        world.change_node(lambda n: n["status"].update(volumesAttached=[{"name": "kubernetes.io/csi/ebs.csi.aws.com^vol-1", "devicePath": "x"}]))
        world.start()
        self.request(world)
        self.shows(world, "phase", '{phase="volume-wait"}')
        self.fires(world, "NodeclaimdVolumeWait")

    def test_a_list_that_is_incomplete(self) -> None:
        world = self.scene()
        for i in range(4200):  # more than a daemon lists
            world.pod(f"crowd-{i:04}", phase="Pending", annotations={"karpenter.sh/do-not-disrupt": "true"}, status={"startTime": None})
        world.start()
        self.request(world)
        self.shows(world, "drain_list_incomplete", '{reason="TooManyPods"}', 60)
        self.fires(world, "NodeclaimdPodListIncomplete", "NodeclaimdDrainBlocked")

    def test_a_document_that_is_refused(self) -> None:
        world = self.scene()
        (world.root / "etc/nodeclaimd/conf.d/90-typo.yaml").write_text(
            "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec:\n  interruption: {spot: reports}\n")
        world.start()
        self.shows(world, "config_refused")
        self.shows(world, "api_state", '{state="connected"}')
        self.fires(world, "NodeclaimdConfigurationRefused")

    def test_a_deadline_that_is_exceeded(self) -> None:
        world = self.scene()
        world.pod("stuck", grace=2)
        world.api.kubelet.stuck.add("stuck")
        world.start()
        world.imds.spot(6)
        world.must(lambda: "DrainFailed" in world.events(), "the failure", 20)
        self.shows(world, "phase", '{phase="failed"}')
        self.shows(world, "drain_pods_blocked")  # five seconds after the end of its grace period
        self.fires(world, "NodeclaimdDrainDeadlineExceeded", "NodeclaimdDrainBlocked")


class OfTheController(ControlTest):
    def fires(self, world: ControlWorld, first: Scrape, *wanted: str) -> None:
        firing(world.folder, Scene(first, self.scrape(world)), "nodeclaim-controller", {f"NodeclaimController{name}" for name in wanted})

    def scrape(self, world: ControlWorld) -> Scrape:
        return Scrape.of("nodeclaim-controller", world.addresses[world.proc.pid])

    def scene(self, *args: str, ready: bool = True, **more: object) -> tuple[ControlWorld, Scrape]:
        program("promtool", "PROMTOOL")
        world = self.control_world(**more)
        world.pair("n1")
        world.start(*args, ready=ready)
        world.must(lambda: world.ask("/metrics")[0] == 200 and (not ready or world.metric("synced") == 1), "its metrics")
        return world, self.scrape(world)

    def test_healthy(self) -> None:
        world, first = self.scene(elects=True)
        world.must(lambda: world.metric("leads") == 1, "the Lease")
        first = self.scrape(world)
        world.say("n1")
        world.relayed("c-n1")
        world.say("n1", phase="Evicting")
        world.must(lambda: world.metric("draining") == 1, "the drain")
        world.say("n1", phase="Drained")
        world.must(lambda: world.metric("drains_total", '{phase="Drained"}') == 1, "its end")
        self.fires(world, first)

    def test_no_leader(self) -> None:
        program("promtool", "PROMTOOL")
        world = self.control_world(elects=True)
        world.lease("another", duration=60)
        world.start()
        world.must(lambda: world.metric("synced") == 1, "the standby")
        self.fires(world, self.scrape(world), "Leaders")

    def test_lists_that_fail(self) -> None:
        program("promtool", "PROMTOOL")
        world = self.control_world()
        world.api.server.fault("status", path="/nodeclaims[?]", status=500)
        world.start(ready=False)
        world.must(lambda: world.metric("api_failures_total") > 0, "a failure")
        self.fires(world, self.scrape(world), "NotSynced")

    def test_a_relay_that_is_stuck(self) -> None:
        world, first = self.scene()
        world.api.server.fault("status", path="nodeclaims/c-n1", status=503)
        world.say("n1")
        world.must(lambda: world.metric("relaying") == 1, "the notice")
        self.fires(world, first, "RelayStuck")

    def test_writes_that_are_refused(self) -> None:
        world, first = self.scene()
        world.refused_is_wanted = True
        body = json.dumps({"kind": "Status", "status": "Failure", "reason": "Forbidden", "message": "a policy says no", "code": 403})
        world.api.server.fault("status", path="nodeclaims/c-n1", status=403, body=body, content_type="application/json")
        world.say("n1")
        world.must(lambda: world.metric("write_answers_total", '{verb="delete-claim",answer="refused"}') > 0, "the refusal")
        self.fires(world, first, "RelayStuck", "WritesRefused")

    def test_a_claim_without_a_node(self) -> None:
        """Its node has no exporter; the Event that it wrote says why."""
        world, first = self.scene()
        claim = world.claim("c-new", creationTimestamp=stamp(time.time() - 90))
        world.boot_failure(claim, "preflight: cannot connect")
        world.must(lambda: world.metric("nodeclaims_without_node", '{nodepool="default",cause="preflight"}') == 1, "the cause", 50)
        self.fires(world, first, "NodeClaimWithoutNode")

    def test_a_node_that_is_unfit_beyond_its_time(self) -> None:
        world, first = self.scene()
        state = {"boot": "b1", "fit": False, "reason": "DaemonSetsNotReady", "until": stamp(time.time() + 1), "then": "hold"}
        world.annotate("nodes", "n1", "nodeclaimd.io/fit", json.dumps(state, separators=(",", ":")))
        world.change("nodes", "n1", lambda n: n["spec"].update(taints=[{"key": "nodeclaimd.io/unfit", "effect": "NoSchedule"}]))
        world.must(lambda: world.metric("unfit_overdue_nodes") == 1, "its time is over")
        self.fires(world, first, "UnfitOverdue")

    def test_a_drain_that_failed(self) -> None:
        world, first = self.scene()
        world.say("n1", phase="Evicting")
        world.must(lambda: world.metric("draining") == 1 and world.metric("relaying") == 0, "the drain")
        world.say("n1", phase="Failed")
        world.must(lambda: world.metric("drains_total", '{phase="Failed"}') == 1, "its end")
        self.fires(world, first, "DrainFailed")

    def test_an_object_that_cannot_be_read(self) -> None:
        world, first = self.scene(mode="standalone")
        many = [{"key": f"example.com/{i}", "effect": "NoSchedule"} for i in range(1100)]
        world.change("nodes", "n1", lambda n: n["spec"].update(taints=many))
        world.must(lambda: world.metric("invalid_objects_total", '{kind="Node"}') > 0, "the count")
        self.fires(world, first, "InvalidObjects")


if __name__ == "__main__":
    unittest.main()
