"""Bad days of the API server in the middle of a drain: it ends all the same, and nothing is evicted twice."""

from __future__ import annotations

import json
import re
import time
import unittest
from typing import Any

from harness import SHARED
from running import KUBECONFIG, LABEL, PATIENCE, POD_RESOURCE, QUIET, REQUEST_KEY, SLACK, DaemonTest, DaemonWorld, epoch

import authz  # found by running
import instances
from apiserver import ApiServer
from ec2 import Ec2
from wire import Fault

BUSY = "Too many requests, please try again later.\n"
PODS = ("web-1", "web-2", "web-3")


class Storms(DaemonTest):
    def drained(self, world: DaemonWorld, in_sec: float = 120, within: float = 40) -> None:
        for name in PODS:
            world.pod(name)
        world.start()
        world.imds.spot(in_sec)
        world.must(lambda: world.steps("cordon") and not world.pods(), "the end of all pods", within)
        world.must(world.is_cordoned, "the cordon")

    def test_429_without_retry_after(self) -> None:
        world = self.node_world()
        world.api.server.fault("status", status=429, path="/eviction", count=7, body=BUSY, content_type="text/plain")
        self.drained(world)
        self.assertEvictedOnce(world, *PODS)
        self.assertNotIn("DrainBlocked", world.events(), "no budget is to blame")

    def test_429_with_retry_after(self) -> None:
        world = self.node_world()
        headers = {"Retry-After": "2"}
        rule = {"status": 429, "body": BUSY, "content_type": "text/plain", "headers": headers}
        world.api.server.fault("status", path="/eviction", count=3, **rule)
        world.api.server.fault("status", path="/nodes/", method="PATCH", count=2, **rule)
        self.drained(world)
        for name in PODS:
            tries = [s.at for s in world.evictions(name)]
            self.assertTrue(all(b - a >= 1.95 for a, b in zip(tries, tries[1:])), tries)
        self.assertEvictedOnce(world, *PODS)

    def test_429_of_lists_and_watches(self) -> None:
        world = self.node_world()
        rule = {"status": 429, "body": BUSY, "content_type": "text/plain", "headers": {"Retry-After": "1"}}
        world.api.server.fault("status", path="/api/v1/(pods|nodes)[?]", count=4, **rule)
        self.drained(world)
        self.assertEvictedOnce(world, *PODS)

    def test_500_everywhere_for_a_while(self) -> None:
        world = self.node_world()
        world.start()
        world.api.server.fault("status", status=500, for_sec=3.0)
        self.drained_later(world)

    def drained_later(self, world: DaemonWorld) -> None:
        for name in PODS:
            world.pod(name)
        world.imds.spot(120)
        world.must(lambda: world.steps("cordon") and not world.pods(), "the end of all pods", 40)
        self.assertEvictedOnce(world, *PODS)

    def test_504_after_ten_seconds(self) -> None:
        """Evictions below one budget queue in the server: it is waited for, and nobody else waits with it."""
        world = self.node_world()
        body = (
            '{"kind":"Status","status":"Failure","reason":"Timeout","message":"Timeout: couldn\'t update","code":504}'
        )
        rule = {"status": 504, "body": body, "content_type": "application/json", "delay_sec": 10.0}
        world.api.server.fault("status", path="web-1/eviction", count=1, **rule)
        self.drained(world)
        tries = world.evictions("web-1")
        self.assertEqual([s.status for s in tries], [504, 201])
        self.assertGreaterEqual(tries[1].at - tries[0].at, 9.9)
        self.assertLess(world.evictions("web-2")[0].at, tries[0].at + SLACK)
        self.assertEvictedOnce(world, "web-2", "web-3")

    def test_connections_that_break(self) -> None:
        for kind in ("reset", "close", "half", "truncate"):
            with self.subTest(kind):
                world = self.node_world()
                world.api.server.fault(kind, path="web-1/eviction", count=1)
                world.api.server.fault(kind, path="/nodes/", method="PATCH", count=1)
                self.drained(world)
                self.assertLessEqual(len(world.evictions("web-1")), 3)
                self.assertEvictedOnce(world, "web-2", "web-3")

    def test_silence(self) -> None:
        """Of a write of the Node, and of an eviction: the deadline is kept."""
        world = self.node_world()
        world.api.server.fault("silent", path="/nodes/", method="PATCH", count=1)
        world.api.server.fault("silent", path="/eviction", count=3)
        for name in PODS:
            world.pod(name, grace=3)
        world.start()
        offset = time.monotonic() - time.time()
        t = epoch(world.imds.spot(13)) - 1.0 + offset
        world.must(lambda: not world.pods(), "the end of all pods", 30)
        for name in PODS:
            self.assertTrue(t - 3.1 <= world.deletions(name)[0].at <= t - 3 + SLACK, world.story())

    def test_connection_that_is_frozen(self) -> None:
        """The API server is well, but nobody answers on the connection that is open: another one is tried in time."""
        world = self.node_world()
        world.pod("a")
        world.start()
        world.must(lambda: world.said_of_itself().get("imds", {}).get("spot", {}).get("state") == "ok", "the polls")
        frozen = Fault("silent", r"/api/v1/nodes/", method="PATCH", count=1)
        world.api.server.faults.append(frozen)
        world.imds.spot(120)
        world.must(world.is_cordoned, "the cordon")
        self.assertEqual(frozen.hits, 1)
        self.assertLess(world.steps("cordon")[0].at - frozen.first, 4.0 * PATIENCE)
        world.drained()

    def test_answer_that_is_lost(self) -> None:
        """The eviction was accepted, its answer never came: the watch says so, or asking again does no harm. libcurl itself
        asks once more where a connection that it had used before ends without a byte."""
        world = self.node_world()
        world.api.kubelet.stops_after.update({name: 2.0 for name in PODS})
        world.api.server.fault("lost", path="/eviction", count=3)
        self.drained(world)
        for name in PODS:
            self.assertLessEqual(len(world.evictions(name)), 3, world.story())
            self.assertEqual(world.api.kubelet.graces[name], [30])

    def test_answers_that_are_held_back(self) -> None:
        """The answer comes after a second deadline of its own: nothing else waits for it."""
        world = self.node_world()
        held = world.api.server.fault("hold", path="web-1/eviction", count=1)
        for name in PODS:
            world.pod(name)
            world.api.kubelet.stops_after[name] = 0.5
        world.start()
        world.imds.spot(120)
        world.must(lambda: world.steps("cordon") and not world.pods(), "the end of all pods")
        world.api.server.release(held)
        world.phase_is("drained")

    def test_cordon_that_is_late(self) -> None:
        """Once it is made the pods are listed again. An eviction that is under way is waited for all the same: given up and
        asked for again it would take from its budget twice."""
        world = self.node_world()
        cordon = {"path": r"/nodes/[^/?]+(\?|$)", "method": "PATCH", "count": 1}
        world.api.server.fault("silent", **cordon)
        world.api.server.fault("delay", delay_sec=2.5, **cordon)
        world.api.server.fault("status", path="web-1/eviction", count=1, status=504, delay_sec=5.0)
        self.drained(world)
        tries = [s.at for s in world.evictions("web-1")]
        lists = [s.at for s in world.steps("list") if s.what == "/api/v1/pods"]
        self.assertTrue(tries[0] < lists[-1] < tries[0] + 5.0, "listed meanwhile")
        self.assertEqual(len(tries), 2)
        self.assertGreaterEqual(tries[1] - tries[0], 4.9)

    def test_away_in_the_middle(self) -> None:
        world = self.node_world()
        for name in PODS:
            world.pod(name)
        world.budget("never", *PODS)
        world.start()
        world.imds.spot(120)
        world.must(lambda: len(world.evictions()) >= 3, "the first attempts")
        world.api.server.away(4.0 * PATIENCE)
        world.must(lambda: world.said_of_itself().get("apiError"), "apiError")
        world.api.pods.budgets.clear()
        world.must(lambda: not world.pods(), "the end of all pods", 30)
        self.assertEvictedOnce(world, *PODS)
        world.must(lambda: not world.said_of_itself().get("apiError"), "no api_error any more")

    def test_away_until_the_last_moments_are_over(self) -> None:
        world = self.node_world()
        for name in PODS:
            world.pod(name, grace=3)
        world.budget("never", *PODS)
        world.start()
        world.api.server.refuse()
        world.imds.spot(5)
        world.must(lambda: "spot" in str(world.drain().get("sources")), "the notice")
        end = time.monotonic() + 6.0
        world.must(lambda: time.monotonic() > end, "the deadline")
        world.api.server.listen()
        world.must(lambda: not world.pods(), "the end of all pods", 30)
        self.assertEqual({s.grace for s in world.deletions()}, {3})

    def test_away_from_the_start(self) -> None:
        world = self.node_world()
        for name in PODS:
            world.pod(name)
        world.api.server.refuse()
        world.imds.spot(120)
        world.start()
        world.must(lambda: "spot" in str(world.drain().get("sources")), "the notice")
        world.api.server.listen()
        world.must(lambda: not world.pods(), "the end of all pods", 30)
        self.assertOrder(world, "signal", "cordon", "evict")

    def test_watch_that_is_told_410(self) -> None:
        world = self.node_world()
        for name in PODS:
            world.pod(name)
            world.api.kubelet.stops_after[name] = 2.0
        world.start()
        world.imds.spot(120)
        world.must(lambda: len(world.evictions(accepted=True)) == 3, "the evictions")
        world.api.on_loop(world.api.expire)
        world.pod("late")
        world.must(lambda: not world.pods(), "the end of all pods")
        self.assertEvictedOnce(world, *PODS, "late")
        world.api.on_loop(world.api.expire)
        world.imds.spot(None)
        world.must(lambda: not world.is_cordoned(), "the release")

    def test_writes_refused_for_good(self) -> None:
        """A policy of the cluster forbids our condition, or the cordon: what follows is done all the same."""
        text = '{"kind":"Status","status":"Failure","reason":"Invalid","message":"denied request","code":422}'
        for path in ("/status", ""):
            with self.subTest(path or "cordon"):
                world = self.node_world()
                node = world.node_name.replace(".", r"\.")
                rule: dict[str, Any] = {"status": 422, "body": text, "content_type": "application/json"}
                world.api.server.fault("status", path=f"/nodes/{node}{path}$", method="PATCH", **rule)
                for name in PODS:
                    world.pod(name)
                world.start()
                world.imds.spot(120)
                world.must(lambda: not world.pods(), "the end of all pods")
                told = r"daemon +connected, with an error.*\n +(report notice on|cordon) node: HTTP 422: "
                world.must(lambda: re.search(told, world.run("status").out), "the refusal")
                self.assertEqual(", NOT cordoned: refused" in world.run("status").out, path == "")
                self.assertEqual(world.is_cordoned(), path != "")


class Identity(DaemonTest):
    def hold(self, world: DaemonWorld) -> None:
        """A drain whose pods a budget keeps."""
        for name in PODS:
            world.pod(name)
        budget = world.budget("never", *PODS)
        world.start()
        world.imds.spot(120)
        world.must(lambda: budget.asked >= 3, "the first attempts")

    def test_token_expires_in_the_middle(self) -> None:
        world = self.node_world(token=True)
        self.hold(world)
        world.api.on_loop(world.api.auth.revoke_seen)
        world.must(lambda: any(s.status == 401 for s in world.steps()), "a refusal")
        world.api.pods.budgets.clear()
        world.must(lambda: not world.pods(), "the end of all pods", 30)
        self.assertEvictedOnce(world, *PODS)

    def test_role_is_taken_away_in_the_middle(self) -> None:
        """Every token is refused: that is what is said, with its remedy, and not that a new one is being made."""
        world = self.node_world(token=True)
        self.hold(world)
        keys = world.api.on_loop(lambda: dict(world.api.auth.keys))
        world.api.on_loop(world.api.auth.keys.clear)
        world.must(lambda: "HTTP 401" in str(world.said_of_itself().get("apiError")), "the refusal")
        said: list[str] = []
        until = time.monotonic() + 5
        while time.monotonic() < until:
            said.append(str(world.said_of_itself().get("apiError")))
        others = [e for e in said if "HTTP 401" not in e]
        self.assertLessEqual(len(others), len(said) // 10, set(others))
        self.assertIn("EC2_LINUX", world.said_of_itself()["apiRemedy"])
        world.must(lambda: "cannot evict: the API server has done nothing for this node since 2" in world.run("status").out, "that nothing goes on")
        world.api.clock_ahead_sec = 3600.0
        world.must(lambda: " s behind the API server" in world.said_of_itself()["apiRemedy"], "the remedy of a clock that is off", 30)
        self.assertIn(": set the clock ", world.said_of_itself()["apiRemedy"])
        world.api.clock_ahead_sec = 0.0
        world.api.on_loop(lambda: world.api.auth.keys.update(keys))
        world.api.pods.budgets.clear()
        world.must(lambda: not world.pods(), "the end of all pods", 30)
        self.assertEvictedOnce(world, *PODS)

    def test_certificate_is_rotated(self) -> None:
        """kubelet wrote a new one; the old one is refused."""
        world = self.node_world()
        self.hold(world)
        cert, key = world.api.ca.client("node-rotated", f"system:node:{world.node_name}", "system:nodes")
        self.addCleanup(lambda: [p.unlink(missing_ok=True) for p in (cert, key)])
        for made, name in ((cert, "node.crt"), (key, "node.key")):
            part = world.root / "etc/kubernetes/pki/part"
            part.write_bytes(made.read_bytes())
            part.rename(world.root / "etc/kubernetes/pki" / name)
        world.api.on_loop(world.api.auth.revoke_seen)
        world.api.pods.budgets.clear()
        world.must(lambda: not world.pods(), "the end of all pods", 40)
        self.assertEvictedOnce(world, *PODS)

    def test_kubeconfig_that_comes_later(self) -> None:
        world = self.node_world()
        (world.root / "var/lib/kubelet/kubeconfig").unlink()
        world.pod("web-1")
        world.start(ready=False)
        world.must(lambda: "READY=1" in world.heard(), "READY=1")
        world.imds.spot(120)
        world.must(lambda: "spot" in str(world.drain().get("sources")), "the notice")
        world.write_kubeconfig()
        world.must(lambda: not world.pods(), "the end of all pods", 20)

    def test_kubeconfig_that_is_corrected_under_a_notice(self) -> None:
        world = self.node_world()
        world.pod("a")
        path = world.root / KUBECONFIG
        good = path.read_text()
        path.write_text(good.replace(world.api.url, "https://127.0.0.1:1"))
        world.start(ready=False)
        world.imds.spot(120)
        world.must(lambda: world.said_of_itself().get("imds", {}).get("spot", {}).get("state") == "ok", "the notice")
        end = time.monotonic() + 8
        world.must(lambda: time.monotonic() > end, "failures that have long pauses")
        path.write_text(good)
        corrected = time.monotonic()
        world.must(world.is_cordoned, "the cordon", 40)
        self.assertLess(time.monotonic() - corrected, 5.0 * PATIENCE)

    def test_kubeconfig_that_is_broken_in_a_drain(self) -> None:
        """Not the budget of the pod is why it does not leave, nor is it being ended."""
        world = self.node_world()
        world.pod("a", grace=1)
        world.budget("held", "a")
        world.start()
        world.imds.spot(25)
        world.must(lambda: world.evictions("a"), "an eviction")
        path = world.root / KUBECONFIG
        good = path.read_text()
        path.write_text("clusters: [")
        world.must(lambda: "cannot evict: the API server has done nothing for this node since" in world.run("status").out, "what status says", 20)
        world.must(lambda: any("no request of the drain has succeeded since" in line for line in world.log().splitlines() if "force-delete time has come" in line),
                   "the cause beside what is due", 40)  # fmt: skip
        world.must(lambda: "drain deadline exceeded" in world.log(), "the failure", 40)
        self.assertRegex(world.log(), r"no request of the drain has succeeded since 2\S+Z: .*; drain deadline exceeded, pods remaining, as last seen: 1: default/a \(blocked by")
        self.assertEqual(world.log().count("credentials were replaced"), 1)
        path.write_text(good)
        world.must(lambda: not world.pods(), "the end of the pod", 20)

    def test_outage_while_pods_end(self) -> None:
        """Nothing was left to evict: it delayed nobody."""
        world = self.node_world()
        world.pod("a", grace=60)
        world.api.kubelet.stuck.add("a")
        world.start()
        world.run("drain")
        world.must(lambda: world.evictions("a", accepted=True), "the eviction")
        fault = world.api.server.fault("status", path="/api", status=503)
        world.must(lambda: "the API server has done nothing for this node since" in world.run("status").out, "what status says", 20)
        world.api.server.faults.remove(fault)
        world.must(lambda: "the API server answers again" in world.log(), "the end of it", 40)
        self.assertNotIn("Nothing was evicted", world.log())

    def test_list_of_pods_that_is_refused(self) -> None:
        """Who sees Events alone is told why the pods were not listed."""
        world = self.node_world()
        world.pod("a", grace=1)
        world.api.server.fault("status", path="/api/v1/pods", status=403)
        world.start(ready=False)
        world.imds.spot(18)
        world.must(lambda: "DrainFailed" in world.events(), "the Event", 60)
        said = [e["message"] for e in world.api.objects("events") if e["reason"] == "DrainFailed"][0]
        self.assertIn("before the pods were listed; API server: list: HTTP 403", said)

    def test_list_of_pods_that_is_refused_without_a_deadline(self) -> None:
        """Without a deadline nothing fails: an Event says after a while why nothing is evicted."""
        world = self.node_world()
        world.pod("a", grace=1)
        world.api.server.fault("status", path="/api/v1/pods[?]", status=403)
        world.start(ready=False)
        world.must(lambda: world.run("drain").code == 0, "the request")
        said = lambda: [e["message"] for e in world.api.objects("events") if e["reason"] == "DrainBlocked"]
        (text,) = set(world.must(said, "the Event", 60))
        self.assertRegex(text, "^Nothing is evicted: no request of the drain has succeeded since .*: list: HTTP 403.*; the API server knows this identity")

    def test_events_that_are_refused(self) -> None:
        """Runbooks lean on them: the journal says once why there are none."""
        for status, line in ((403, "Events are refused and dropped: "), (429, "Events wait, up to an hour, ")):
            with self.subTest(status):
                world = self.node_world(profile="m5.large")
                world.api.server.fault("status", path="/events", status=status)
                world.start()
                self.assertEqual(world.run("drain", "--wait", within=30).code, 0)
                world.must(lambda: world.log().count(line) == 1, "a line of the journal")
                self.assertRegex(world.run("status").out, f"(?m)^ +{line}")
                self.assertEqual(world.log().count(f"{line}create event: HTTP 403; the API server knows this identity"), int(status == 403), "the remedy")

    def test_cordon_that_is_refused(self) -> None:
        """The Event has the server's answer: who is on call may not read the node's journal."""
        world = self.node_world()
        said = 'admission webhook "freeze.example" denied the request: no changes of Nodes today'
        text = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "message": said, "code": 403})
        rule = {"status": 403, "body": text, "content_type": "application/json"}
        world.pod("held", grace=2)
        world.budget("never", "held")
        world.start()
        fault = world.api.server.fault("status", method="PATCH", path="/nodes/[^/]*$", **rule)
        world.imds.spot(45)
        told = lambda reason: [s.body["message"] for s in world.steps("event") if s.what == reason]
        world.must(lambda: any(said in m for m in told("CordonRefused")), "the Event")
        world.must(lambda: told("DrainForced"), "the force-delete time", 60)
        self.assertNotIn(said, told("DrainForced")[0], "it is not in the pod's way")
        self.assertNotIn("unavailable", str(told("DrainBlocked")), "it serves whatever else is asked")
        self.assertEqual(world.log().count("warning: cordon node: "), 1, "each time would be a line every ten seconds")
        world.api.server.faults.remove(fault)
        world.must(lambda: told("NodeCordoned"), "the cordon", 30)
        self.assertEqual((told("NodeCordoned"), world.node()["metadata"]["labels"].get(LABEL)), (["Node cordoned"], "nodeclaimd"))

    def test_cordon_that_is_refused_to_the_end(self) -> None:
        """The pods are gone and the node is not drained: the last Event says both, and so does drain-status, which /status still takes."""
        world = self.node_world()
        name = world.node_name
        said = f'nodes "{name}" is forbidden: User "system:node:{name}" cannot patch resource "nodes" in API group "" at the cluster scope'
        text = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "message": said, "code": 403})
        world.pod("a", grace=2)
        world.start()
        world.api.server.fault("status", method="PATCH", path="/nodes/[^/]*$", status=403, body=text, content_type="application/json")
        world.imds.spot(20)
        told = lambda reason: [s.body["message"] for s in world.steps("event") if s.what == reason]
        status = lambda: json.loads(world.node()["metadata"].get("annotations", {}).get("nodeclaimd.io/drain-status", "{}"))
        world.must(lambda: (status().get("phase"), status().get("remaining")) == ("VolumeWait", 0), "the progress", 15)
        self.assertEqual(status()["cordon"], "refused")
        world.must(lambda: told("DrainFailed"), "the failure", 30)
        self.assertIn("pods remaining: 0; the node is not cordoned and takes new pods; evicted: 1,", told("DrainFailed")[0])
        self.assertIn("; the identity is the right one: allow it this request", told("CordonRefused")[0])
        world.must(lambda: status()["phase"] == "Failed", "the status", 5)

    def test_cordon_that_is_refused_and_set_by_a_person(self) -> None:
        """That one counts as long as it stands: the drain goes on, ends, and leaves it there."""
        for request in (True, False):
            with self.subTest(request=request):
                world = self.node_world()
                text = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "message": "no", "code": 403})
                world.pod("a", grace=2)
                world.start()
                world.api.server.fault("status", method="PATCH", path="/nodes/[^/]*$", status=403, body=text, content_type="application/json")
                self.assertEqual(world.run("drain").code, 0) if request else world.imds.spot(60)
                told = lambda reason: [s.body for s in world.steps("event") if s.what == reason]
                world.must(lambda: told("CordonRefused"), "the Event")
                world.change_node(lambda n: n["spec"].update(unschedulable=True))
                said = "Node cordoned by another client: the drain goes on"
                world.must(lambda: [e["message"] for e in told("NodeCordoned")] == [said], "the cordon")
                world.must(lambda: "NOT cordoned" not in world.run("status").out, "what status says")
                world.must(lambda: told("NodeDrained"), "the end", 30)
                self.assertEqual(told("DrainFailed"), [])
                world.must(lambda: '"Drained"' in world.node()["metadata"]["annotations"]["nodeclaimd.io/drain-status"], "the drain status")
                self.assertNotIn("refused", world.node()["metadata"]["annotations"]["nodeclaimd.io/drain-status"])
                self.assertEqual(world.run("undrain").code, 0) if request else world.imds.spot(None)
                world.must(lambda: told("ReleaseRefused"), "the release")
                self.assertIn("refuses to take the rest back", told("ReleaseRefused")[0]["message"])
                self.assertEqual([e["type"] for e in told("CordonLeft")], ["Warning"])
                self.assertTrue(world.is_cordoned())

    def test_node_writes_that_fail(self) -> None:
        """Whatever else is served: who sees the cluster alone reads that a node with a notice takes new pods."""
        for status, request in ((500, "drain"), (429, "drain"), (500, "spot")):
            with self.subTest(status=status, request=request):
                world = self.node_world()
                world.pod("held", grace=2)
                world.start()
                fault = world.api.server.fault("status", method="PATCH", path="/nodes/", status=status)
                self.assertEqual(world.run("drain").code, 0) if request == "drain" else world.imds.spot(60)
                told = lambda reason: [s.body["message"] for s in world.steps("event") if s.what == reason]
                world.must(lambda: told("CordonRefused"), "the Event")
                self.assertRegex(told("CordonRefused")[0], f"refuses the drain status: the node takes new pods; .*HTTP {status}")
                world.must(lambda: ", not cordoned by us: the API server fails" in world.run("status").out, "the status")
                world.api.server.faults.remove(fault)
                world.must(lambda: told("NodeCordoned"), "the cordon", 30)
                self.assertEqual(len(told("CordonRefused")), 1)

    def test_kubeconfig_of_another_cluster(self) -> None:
        """In the middle of a drain, with a Node of our name there: its pods are another machine's."""
        world = self.node_world()
        world.pod("a")
        world.budget("held", "a")
        world.start()
        world.imds.spot(120)
        world.must(lambda: world.evictions("a"), "an eviction")
        with ApiServer(SHARED, "test-cluster", world.inst.region, behave=QUIET) as other:
            other.put("nodes", {"metadata": {"name": world.node_name}, "spec": {"providerID": "aws:///us-west-2a/i-0aaaaaaaaaaaaaaaa"}})
            other.put("pods", {"metadata": {"name": "theirs"}, "spec": {"nodeName": world.node_name, "containers": []}}, "default")
            other.server.fault("delay", path="/nodes/", delay_sec=1.0)
            path = world.root / KUBECONFIG
            new = path.with_suffix(".new")
            new.write_text(path.read_text().replace(world.api.url, other.url))
            new.chmod(0o600)
            new.replace(path)
            world.must(lambda: "another instance" in world.run("status").out, "the complaint")
            world.must(lambda: any("API server: failing: the Node " in line for line in world.heard()), "the line of systemctl status")
            self.assertIn('nodeclaimd_api_state{state="failing"} 1', world.metrics_text())
            self.assertEqual([r["path"] for r in other.server.log.snapshot() if r.get("method") != "GET"], [])

    def test_watch_that_hangs(self) -> None:
        """A request that is withdrawn meanwhile is seen before the next eviction."""
        world = self.node_world()
        world.pod("a")
        world.budget("held", "a")
        world.start()
        world.change_node(lambda n: n["metadata"].setdefault("annotations", {}).update({REQUEST_KEY: '{"id": "1", "mode": "graceful"}'}))
        world.must(lambda: world.evictions("a"), "an eviction")
        world.api.on_loop(lambda: world.api.hang("nodes"))
        world.change_node(lambda n: n["metadata"]["annotations"].pop(REQUEST_KEY))
        world.must(lambda: not world.is_cordoned(), "the release")
        self.assertEqual(world.pods(), ["a"])

    def test_watch_of_pods_that_hangs(self) -> None:
        """A pod whose end it did not bring is not waited for, nor said to hang."""
        world = self.node_world()
        world.pod("a", grace=1)
        budget = world.budget("held", "a")
        world.start()
        world.change_node(lambda n: n["metadata"].setdefault("annotations", {}).update({REQUEST_KEY: '{"id": "1", "mode": "graceful"}'}))
        world.must(lambda: world.evictions("a"), "an eviction")
        world.api.on_loop(lambda: world.api.hang("pods"))
        world.api.on_loop(lambda: setattr(budget, "allowed", 1))
        world.must(lambda: world.condition("Drained") == ("True", "NodeDrained"), "the drain", 30)
        self.assertNotIn("PodsNotEnding", world.events())

    def test_plugin_that_does_not_say_how_long_its_token_is_good(self) -> None:
        """It is not run again and again: nor where it says that its token has ended already."""
        for status in ('{"token": "plain"}', '{"token": "plain", "expirationTimestamp": "2020-01-01T00:00:00Z"}'):
            with self.subTest(status):
                world = self.node_world()
                world.api.auth.tokens["plain"] = authz.Identity(f"system:node:{world.node_name}", ("system:nodes",))
                ran, plugin = world.folder / "ran", world.folder / "plugin"
                plugin.write_text(f"#!/bin/sh\necho >>{ran}\necho '{{\"status\": {status}}}'\n")
                plugin.chmod(0o755)
                api = "client.authentication.k8s.io/v1"
                world.write_kubeconfig({"exec": {"apiVersion": api, "command": str(plugin), "interactiveMode": "Never"}})
                world.start(ready=False)
                world.must(ran.exists, "the plugin")
                end = time.monotonic() + 5
                world.must(lambda: time.monotonic() > end, "five seconds")
                self.assertLessEqual(len(ran.read_text().splitlines()), 2)

    def test_name_that_ec2_knows(self) -> None:
        """EC2 is asked for the name where the configuration wants that, and the API server where EC2 refuses."""
        for denied in (False, True):
            with self.subTest(denied=denied):
                ec2 = self.enterContext(Ec2(instances.PROFILES["c5a.large-spot"]))
                ec2.denied = denied
                world = self.node_world(config=f'  aws: {{ec2: always, ec2Endpoint: "{ec2.url}"}}\n')
                world.start()
                world.must(lambda: world.said_of_itself().get("connected"), "the connection")
                self.assertEqual(world.said_of_itself().get("node"), world.node_name)
                asked = [e for e in ec2.server.log.snapshot() if e.get("action") == "DescribeInstances"]
                self.assertTrue(asked, ec2.server.log.snapshot())
                reviews = [e for e in world.api.server.log.snapshot() if "selfsubjectreviews" in e["path"]]
                self.assertEqual(bool(reviews), denied, world.log())
                world.stop()

    def test_name_that_is_known_late(self) -> None:
        """The daemon is up before cloud-init has named the host: what it took for its name then is nobody's."""
        world = self.node_world(config="  node:\n    nameOverride: too-early\n")
        (world.root / "var/lib/kubelet/kubeconfig").unlink()
        world.pod("web-1")
        world.start(ready=False)
        world.must(lambda: world.said_of_itself().get("node") == "too-early", "the first name")
        conf = world.root / "etc/nodeclaimd/conf.d/10-test.yaml"
        conf.write_text(conf.read_text().replace("too-early", world.node_name))
        world.imds.spot(120)
        world.write_kubeconfig()
        world.must(lambda: not world.pods(), "the end of all pods", 20)
        world.must(lambda: world.said_of_itself()["node"] == world.node_name, "the name in status.json")


class Gone(DaemonTest):
    def test_pods_of_a_node_that_was_deleted(self) -> None:
        """The API server lists, evicts and deletes a node's pods without its Node: each goes by the same times, and what becomes
        of them is said in Events and in status.json. A restart in the middle changes nothing."""
        for restarts in (False, True):
            with self.subTest(restarts=restarts):
                world = self.node_world()
                world.pod("web-1", grace=2)
                world.pod("never-dies", grace=2)
                budget = world.budget("held", "web-1", "never-dies")
                world.api.kubelet.stuck.add("never-dies")
                world.start()
                world.imds.spot(14)
                world.must(lambda: len(world.evictions()) >= 2, "both were asked")
                world.delete_node()
                world.must(lambda: world.drain().get("nodeDeleted"), "status.json says it")
                world.must(lambda: "NodeDeletedInDrain" in world.events(), "why it is drained without its Node")
                if restarts:
                    world.kill()
                    world.start(ready=False)
                tries = len(world.evictions())
                world.must(lambda: len(world.evictions()) > tries, "the next attempt")
                self.assertGreater(budget.asked, 2)
                world.must(lambda: world.pods() == ["never-dies"], "the last moment of the other one")
                self.assertEqual(len(world.deletions("web-1")), 1)
                world.must(lambda: "DrainFailed" in world.events(), "the failure", within=20)
                world.must(lambda: world.drain()["pods"]["remaining"] == 1, "the one that is left")
                self.assertEqual(world.node(), {})
                world.api.kubelet.stuck.clear()
                world.api.on_loop(lambda: world.api.pods.remove(world.api.store.get(POD_RESOURCE, "never-dies", "default")))
                world.phase_is("drained")
                world.must(lambda: "NodeDrained" in world.events(), "the end")

    def test_another_machine_takes_the_name(self) -> None:
        """The pods that are bound to it then are another machine's."""
        world = self.node_world()
        world.pod("web-1", grace=2)
        world.budget("held", "web-1")
        world.start()
        world.imds.spot(14)
        world.must(lambda: world.evictions(), "an eviction")
        world.delete_node()
        world.must(lambda: world.drain().get("nodeDeleted"), "status.json says it")
        another = {"nodeInfo": {"bootID": "0c5d1d1c-6f0e-4a44-9c0a-00000000ffff"}}
        world.api.put("nodes", {"metadata": {"name": world.node_name}, "spec": {}, "status": another})
        world.must(lambda: "may belong to another machine" in world.log(), "the doubt")
        world.change_node(lambda n: n["spec"].update(providerID="aws:///us-west-2a/i-0aaaaaaaaaaaaaaaa"))
        world.must(lambda: "another instance" in world.log(), "the complaint")
        tries = len(world.evictions())
        end = time.monotonic() + 15
        world.must(lambda: time.monotonic() > end, "the deadline", within=20)
        self.assertEqual((world.pods(), len(world.evictions()), world.deletions()), (["web-1"], tries, []))
        self.assertFalse(world.is_cordoned())
        self.assertEqual(world.annotation(), {})

    def test_another_takes_the_name_behind_a_watch_that_hangs(self) -> None:
        """Nothing is written to another machine's Node; one that our kubelet has made anew is drained as the one before."""
        for is_ours in (False, True):
            with self.subTest(is_ours=is_ours):
                world = self.node_world()
                world.pod("web-1", grace=2)
                world.pod("web-2", grace=2)
                world.budget("held", "web-1", "web-2")
                world.start()
                world.imds.spot(60)
                world.must(lambda: world.steps("progress") and world.evictions(), "the drain")
                world.api.on_loop(lambda: world.api.hang("nodes"))
                world.delete_node()
                if is_ours:
                    world.add_node()
                else:
                    another = "aws:///us-west-2a/i-0aaaaaaaaaaaaaaaa"
                    world.api.put("nodes", {"metadata": {"name": world.node_name}, "spec": {"providerID": another}, "status": {}})
                version = world.node()["metadata"]["resourceVersion"]
                world.api.on_loop(lambda: world.api.pods.remove(world.api.store.get(POD_RESOURCE, "web-1", "default")))
                if is_ours:
                    world.must(lambda: world.is_cordoned() and world.annotation().get("remaining") == 1, "its drain")
                else:
                    world.must(lambda: "another instance" in world.log(), "the complaint")
                    time.sleep(3)
                    self.assertEqual(world.node()["metadata"]["resourceVersion"], version)
                self.assertNotIn("HTTP 422", world.log())

    def test_node_is_deleted_under_us(self) -> None:
        world = self.node_world()
        world.pod("web-1")
        world.budget("never", "web-1")
        world.start()
        world.imds.spot(120)
        world.must(lambda: world.evictions(), "an eviction")
        first = world.node()["metadata"]["uid"]
        world.delete_node()
        world.must(lambda: not world.node(), "the end of the Node")
        tries = len(world.evictions())
        world.add_node()
        self.assertNotEqual(world.node()["metadata"]["uid"], first)
        world.must(world.is_cordoned, "the new Node's cordon")
        world.must(lambda: len(world.evictions()) > tries, "its drain")
        self.assertEqual(world.condition("InterruptionPending"), ("True", "SpotInterruption"))

    def test_node_of_another_instance(self) -> None:
        """Somebody else has our name: nothing is written to it."""
        world = self.node_world()
        world.change_node(lambda n: n["spec"].update(providerID="aws:///us-west-2a/i-0aaaaaaaaaaaaaaaa"))
        world.pod("web-1")
        world.start()
        world.imds.spot(120)
        world.must(lambda: "another instance" in world.log(), "the complaint")
        world.must(lambda: "spot" in str(world.drain().get("sources")), "the notice")
        self.assertEqual(world.steps("signal", "cordon", "evict"), [])


if __name__ == "__main__":
    unittest.main()
