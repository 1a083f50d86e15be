"""deploy/observability/dashboard.json: no panel is empty on a Prometheus that scraped both programs.

Beside fakes and not in conformance: what is shown depends on the programs' own metrics alone, and the fakes bring about each kind of
failure at once.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any, Iterator

from controlling import ControlTest
from harness import SOURCE
from monitoring import RULES, NodeExporter, Prometheus
from promtext import documented_families
from running import DaemonWorld

DASHBOARD = SOURCE / "deploy/observability/dashboard.json"
VARIABLES = {"$__rate_interval": "10s", "$__range": "60s", "$cluster": ".*", "$nodepool": ".*", "$node": ".*"}
# A label; exported by node_exporter, and by every program of Prometheus' kind.
OTHERS = {"node_name", "node_textfile_mtime_seconds", "process_resident_memory_bytes", "process_cpu_seconds_total"}


def panels() -> list[dict[str, Any]]:
    return [p for p in json.loads(DASHBOARD.read_text())["panels"] if p["type"] != "row"]


def queries() -> Iterator[tuple[str, str]]:
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


class Layout(unittest.TestCase):
    def test_panels(self) -> None:
        """Each has a number, a place and a description of its own, and its queries name metrics that the manuals list."""
        everything = json.loads(DASHBOARD.read_text())["panels"]
        self.assertEqual(len({p["id"] for p in everything}), len(everything))
        places = [(x, y) for p in everything for at in [p["gridPos"]] for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])]
        self.assertEqual(len(set(places)), len(places), "panels overlap")
        self.assertLess(max(x for x, _ in places), 24)
        known = {f"nodeclaimd_{name}" for name in documented_families("nodeclaimd.8")}
        known |= {f"nodeclaim_controller_{name}" for name in documented_families("nodeclaim-controller.8")}
        for panel in panels():
            with self.subTest(panel["title"]):
                self.assertTrue(panel["description"].endswith("."))
                self.assertEqual(panel["datasource"]["uid"], "${datasource}")
                self.assertGreater(len(panel["targets"]), 0)
        for title, query in queries():
            names = {re.sub(r"_bucket$", "", n) for n in re.findall(r"\b(?:node|nodeclaimd|nodeclaim_controller|process)_\w+", query)}
            self.assertGreater(len(names), 0, title)
            self.assertEqual(names - known - OTHERS, set(), title)


    def test_what_may_be_dropped(self) -> None:
        """The first rule of README.md drops what neither alerts nor dashboard read, the second what only the dashboard reads."""
        known = set()
        for name in documented_families("nodeclaimd.8"):
            parts = ("_bucket", "_count", "_sum") if name.endswith("_request_duration_seconds") else ("",)
            known |= {f"nodeclaimd_{name}{part}" for part in parts}
        alerts = set(re.findall(r"nodeclaimd_\w+", re.sub(r"(?m)^ *#.*", "", RULES.read_text())))
        board = set(re.findall(r"nodeclaimd_\w+", DASHBOARD.read_text()))
        self.assertEqual((alerts | board) - known, set())
        first, second = re.findall(r"(?m)^  regex: (\S+)$", (DASHBOARD.parent / "README.md").read_text())
        self.assertEqual({name for name in known if re.fullmatch(first, name)}, known - alerts - board)
        self.assertEqual({name for name in known if re.fullmatch(second, name)}, board - alerts)

    def test_variables(self) -> None:
        """Clusters, NodePools and nodes are chosen; each selector keeps to the chosen clusters; what is named in a query is a variable."""
        board = json.loads(DASHBOARD.read_text())
        variables = {v["name"]: v for v in board["templating"]["list"]}
        self.assertEqual(list(variables), ["datasource", "cluster", "nodepool", "node"])
        notes = [(n["name"], n["expr"]) for n in board["annotations"]["list"]]
        self.assertEqual([name for name, _ in notes], ["Notices", "Drains that failed"])
        everything = [*queries(), *notes]
        for title, query in everything:
            for selector in re.findall(r"\b(?:nodeclaimd|nodeclaim_controller|node_textfile|process)_\w+(\{[^}]*\})?", query):
                self.assertIn('cluster=~"$cluster"', selector, f"{title}: {query}")
        self.assertEqual({name for _, query in everything for name in re.findall(r"\$([a-z]\w+)", query)} - set(variables), set())

    def test_panels_of_a_whole_cluster_say_so(self) -> None:
        """What does not follow the choice of NodePool and node: what the controller counts, and what a node has of which no daemon has run."""
        row = ""
        for panel in json.loads(DASHBOARD.read_text())["panels"]:
            row = panel["title"] if panel["type"] == "row" else row
            if panel["type"] != "row" and row != "Controller":
                follows = all('nodepool=~"$nodepool"' in target["expr"] for target in panel["targets"])
                self.assertNotEqual(panel["title"].endswith(" (cluster)"), follows, panel["title"])

    def test_clusters_are_not_mixed(self) -> None:
        """What each replica counts for itself is the most of one cluster, and added up over clusters."""
        for title, query in queries():
            if re.search(r"\bmax\b.*nodeclaim_controller_", query) and "without_node" not in query:
                self.assertRegex(query, r"sum(?: by \(\w+\) )?\(max by \(cluster", title)
        leaders = [query for title, query in queries() if title == "Leaders"]
        self.assertEqual(leaders, ['sum by (cluster) (nodeclaim_controller_leads{cluster=~"$cluster"})'])

    def test_a_node_leads_to_itself(self) -> None:
        board = json.loads(DASHBOARD.read_text())
        tables = [p for p in panels() if p["type"] == "table"]
        self.assertEqual(len(tables), 3)
        for panel in tables:
            self.assertRegex(panel["targets"][0]["expr"], r"group_left \(node_name, nodepool\)", panel["title"])
            self.assertIn(f"/d/{board['uid']}?var-node=${{__data.fields.node_name}}&", panel["fieldConfig"]["defaults"]["links"][0]["url"])


class Shown(ControlTest):
    def exporter(self, world: DaemonWorld) -> str:
        (world.root / "run/nodeclaimd").mkdir(parents=True, exist_ok=True)
        made = NodeExporter(world.root, world.folder / "exporter.log")
        self.enterContext(made)
        return made.address

    def test_no_panel_is_empty(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="nodeclaimd-dashboard-")))
        node, broken = DaemonWorld(), DaemonWorld()
        self.enterContext(node)
        self.enterContext(broken)
        control = self.control_world(elects=True)
        for name in ("n1", "n2"):
            control.pair(name)
        control.start()
        targets = {"node-exporter": [self.exporter(node), self.exporter(broken)], "nodeclaim-controller": [control.addresses[control.proc.pid]]}
        server = Prometheus(folder, targets)
        self.enterContext(server)
        begin = time.time()
        broken.set_user_data(b"no document\n")
        self.assertEqual(broken.bootstrap().code, 3)
        self.assertEqual(node.bootstrap("--skip", "start").code, 0)
        self.drain(node)
        self.relay(control)
        end = time.time()
        control.must(lambda: time.time() > end + 3, "the scrapes of what came last")
        self.show(server, begin)

    def drain(self, node: DaemonWorld) -> None:
        """With all that may happen: a pod goes, one is blocked, one kept, one never ends; IMDS and API server fail for a moment."""
        for name in ("web", "blocked", "stuck"):
            node.pod(name, grace=2)
        node.pod("kept", grace=2, annotations={"karpenter.sh/do-not-disrupt": "true"})
        node.api.kubelet.stuck.add("stuck")
        node.budget("never", "blocked")
        node.start()
        file = node.root / "run/nodeclaimd/metrics.prom"
        written = file.stat().st_mtime
        node.must(lambda: time.time() > written + 3, "a scrape of the daemon that waits")
        node.imds.server.fault("status", status=503, path="instance-action", count=3)
        node.api.server.fault("status", status=503, path="/eviction", count=2)
        node.must(lambda: sum(node.metrics()["nodeclaimd_imds_errors_total"].values()) > 0, "an error of IMDS", 75)
        node.imds.spot(20)
        node.must(lambda: node.metrics().get("nodeclaimd_drain_pods_blocked") == {"": 1}, "the blocked pod", 20)
        node.must(lambda: "DrainFailed" in node.events(), "the end", 40)

    def relay(self, control: Any) -> None:
        """One claim has no Node. One write is slow, one fails until it is scraped; then both nodes are relayed, and end, one of them in failure."""
        control.must(lambda: control.metric("leads") == 1, "the Lease")
        control.claim("c-new")
        control.api.server.fault("delay", path="nodeclaims/c-n1", method="PATCH", delay_sec=2.5, count=1)
        fails = control.api.server.fault("status", path="nodeclaims/c-n2", status=503)
        control.say("n1", phase="Evicting")
        control.say("n2", phase="Evicting")
        begin = time.time()
        control.must(lambda: control.metric("relaying") > 0 and time.time() > begin + 2.5, "relays that wait, and a scrape")
        fails.count = 0
        control.must(lambda: control.metric("relaying") == 0, "the relays", 30)
        control.say("n1", phase="Failed")
        control.say("n2", phase="Drained")
        control.must(lambda: control.metric("drains_total", '{phase="Failed"}') == 1, "the failure")

    def show(self, server: Prometheus, begin: float) -> None:
        """Each query gives a series; of each panel one has a value that is not 0."""
        rows, empty, most = ["| panel | query | result |", "|---|---|---|"], [], dict[str, float]()
        for title, query in queries():
            text = query
            for name, value in VARIABLES.items():
                text = text.replace(name, value)
            found = server.query_range(text, begin, time.time())
            top = max((float(v) for one in found for _, v in one["values"] if v != "NaN"), default=0.0)
            rows.append(f"| {title} | `{query}` | {len(found)} series, at most {top:.6g} |")
            most[title] = max(top, most.get(title, 0.0))
            if not found:
                empty.append(f"{title}: {query}")
        print("\n".join(rows))
        self.assertEqual(empty, [], "queries without a series")
        self.assertEqual([title for title, top in most.items() if top <= 0], [], "panels without a value")


if __name__ == "__main__":
    unittest.main()
