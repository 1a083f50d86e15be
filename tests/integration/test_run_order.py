"""The order of a drain by annotation, and what each pod is told."""

from __future__ import annotations

import time
import unittest
from typing import Any

from running import DaemonTest, DaemonWorld, epoch

ORDER = "nodeclaimd.io/drain-order"
TOLERATES = {"tolerations": [{"operator": "Exists"}]}


class Order(DaemonTest):
    def moments(self, world: DaemonWorld) -> dict[str, float]:
        return {s.what: s.at for s in world.evictions(accepted=True)}

    def gone(self, world: DaemonWorld, name: str) -> float:
        """When the watch could show that it is gone, on the clock of the request log."""
        world.must(lambda: name not in world.pods(), f"the end of {name}", within=20)
        return time.monotonic()

    def test_without_a_deadline(self) -> None:
        world = self.node_world()
        world.pod("web", grace=30)
        world.pod("network", owner="DaemonSet", annotations={ORDER: "last"}, spec=TOLERATES)
        world.pod("storage", owner="DaemonSet", annotations={ORDER: "first"}, spec={"priorityClassName": "system-node-critical"})
        world.pod("critical", spec={"priorityClassName": "system-node-critical"})
        world.pod("odd", owner="DaemonSet", annotations={ORDER: "Last"})
        world.pod("agent", owner="DaemonSet")
        for name in ("web", "critical"):
            world.api.kubelet.stops_after[name] = 2
        world.start()
        self.assertEqual(world.run("drain").code, 0)
        web_gone = self.gone(world, "web")
        critical_gone = self.gone(world, "critical")
        world.must(lambda: "network" not in world.pods(), "the last", within=20)
        at = self.moments(world)
        self.assertEqual(set(at), {"web", "storage", "critical", "network"}, world.story())
        self.assertLess(abs(at["web"] - at["storage"]), 0.5)
        self.assertGreater(at["critical"], at["web"] + 1.5)
        self.assertGreaterEqual(at["network"], max(web_gone, critical_gone) - 0.5, world.story())
        self.assertEqual(world.deletions(), [])
        self.assertEqual(world.log().count("annotation nodeclaimd.io/drain-order is neither first nor last"), 1)
        world.drained()
        self.assertEqual(world.drain()["pods"]["total"], 4)

    def test_what_a_daemonset_puts_back_is_left(self) -> None:
        world = self.node_world()
        world.pod("network-1", owner="DaemonSet", annotations={ORDER: "last"}, spec=TOLERATES, creationTimestamp="2020-01-01T00:00:00Z")
        world.start()
        self.assertEqual(world.run("drain").code, 0)
        world.must(lambda: "network-1" not in world.pods(), "the pod's end")
        after = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 2))
        world.pod("network-2", owner="DaemonSet", annotations={ORDER: "last"}, spec=TOLERATES, creationTimestamp=after)
        world.drained()
        world.daemon.kill()
        world.daemon.wait()
        world.said.clear()
        world.start()
        world.must(lambda: world.drain().get("pods", {}).get("excluded", {}).get("tolerating") == 1, "the pod that is left")
        self.assertEqual([s.what for s in world.evictions()], ["network-1"])
        self.assertEqual(world.pods(), ["network-2"])

    def test_with_a_deadline(self) -> None:
        """The last one is not refused its grace: its turn comes 2 s before it would be deleted, whoever is blocked."""
        world = self.node_world(drain="    toleratingLast: true\n")
        world.pod("blocked", grace=1)
        world.pod("network", grace=4, owner="DaemonSet", spec=TOLERATES)
        world.budget("never", "blocked")
        world.start()
        offset = time.monotonic() - time.time()
        t = epoch(world.imds.spot(12)) - 1.0 + offset
        world.must(lambda: not world.pods(), "the end of all", within=20)
        at = self.moments(world)["network"]
        self.assertTrue(t - 6.2 <= at <= t - 4.5, f"{t - at}\n{world.story()}")
        self.assertGreater(world.deletions("blocked")[0].at, at)

    # --- each pod is told

    def told(self, world: DaemonWorld) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        for e in world.api.objects("events"):
            if e["reason"] == "NodeDraining":
                found.setdefault(e["involvedObject"]["name"], []).append(e)
        return found

    def test_each_pod_is_told_once(self) -> None:
        world = self.node_world()
        uid = world.pod("web", grace=2, namespace="team-a")["metadata"]["uid"]
        world.pod("long", grace=60)
        world.pod("blocked", grace=2)
        world.pod("agent", owner="DaemonSet")
        world.budget("never", "blocked")
        world.api.kubelet.stops_after["long"] = 60
        world.start()
        world.imds.spot(9)
        world.must(lambda: set(self.told(world)) == {"web", "long", "blocked"}, "the Events", within=25)
        world.must(lambda: not [p for p in world.pods() if p != "agent"], "the end of all", within=20)
        told = self.told(world)
        self.assertEqual({n: len(v) for n, v in told.items()}, {"web": 1, "long": 1, "blocked": 1})
        web = told["web"][0]
        self.assertEqual(web["metadata"]["namespace"], "team-a")
        self.assertEqual((web["involvedObject"]["uid"], web["involvedObject"]["kind"], web["type"]), (uid, "Pod", "Normal"))
        self.assertRegex(web["message"], rf"^Evicted: node {world.node_name} is draining \(source spot, deadline 20.*Z\)$")
        self.assertRegex(told["blocked"][0]["message"], "^Force-deleted: ")
        first = [s for s in world.steps("event", "evict") if s.what in ("web", "NodeDraining")]
        self.assertEqual(first[0].kind, "evict")

    def test_an_outage_is_waited_for(self) -> None:
        world = self.node_world()
        world.pod("web", grace=2, namespace="team-a")
        world.api.server.fault("status", path="/namespaces/team-a/events", status=503, count=2)
        world.start()
        self.assertEqual(world.run("drain").code, 0)
        world.must(lambda: "web" in self.told(world), "the Event", within=20)
        self.assertIn("without a deadline", self.told(world)["web"][0]["message"])


if __name__ == "__main__":
    unittest.main()
