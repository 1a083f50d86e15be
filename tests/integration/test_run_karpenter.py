"""Beside Karpenter: its deletion is seen on our own Node, watched before it is helped, and never fought. Requests by annotation."""

from __future__ import annotations

import json
import math
import re
import time
import unittest
from typing import Any, Optional

from running import DISRUPTED, REQUEST_KEY, SLACK, DaemonTest, DaemonWorld, epoch

from pods import stamp

PODS = ("web-1", "web-2", "web-3", "web-4")
TIME_KEY = "karpenter.sh/nodeclaim-termination-timestamp"
CLAIM = "default-abc12"


class KarpenterTest(DaemonTest):
    def karpenter_world(self, **more: Any) -> DaemonWorld:
        """A node that Karpenter registered, with its claim."""
        world = self.node_world(**more)
        claim = world.api.put(
            "nodeclaims",
            {"metadata": {"name": CLAIM, "finalizers": ["karpenter.sh/termination"]}, "spec": {}, "status": {}},
        )
        owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": CLAIM, "uid": claim["metadata"]["uid"]}

        def adopt(node: dict[str, Any]) -> None:
            node["metadata"]["finalizers"] = ["karpenter.sh/termination"]
            node["metadata"]["ownerReferences"] = [{**owner, "blockOwnerDeletion": True}]

        world.change_node(adopt)
        return world

    def deleting(self, world: DaemonWorld) -> None:
        """What Karpenter does first: taint, label, DELETE of the Node."""

        def taint(node: dict[str, Any]) -> None:
            node["spec"]["taints"] = [DISRUPTED]
            node["metadata"]["labels"]["node.kubernetes.io/exclude-from-external-load-balancers"] = "karpenter"

        world.delete_node()
        world.change_node(taint)

    def evict(self, world: DaemonWorld, name: str) -> None:
        body = {"metadata": {"name": name}}
        world.api.on_loop(lambda: world.api.pods.evict("default", name, body))


class Deletion(KarpenterTest):
    def test_observed_while_pods_move(self) -> None:
        world = self.karpenter_world()
        for name in PODS:
            world.pod(name)
        world.start()
        self.deleting(world)
        for name in PODS:
            world.phase_is("observing")
            moved = time.monotonic()
            world.must(lambda: time.monotonic() - moved > 1.5, "a while")
            self.evict(world, name)
        world.drained()
        self.assertEqual((world.evictions(), world.deletions()), ([], []))
        self.assertEqual(world.condition("InterruptionPending"), ("True", "Deletion"))
        self.assertEqual(world.condition("Drained")[0], "True")

    def test_taken_over_where_nothing_moves(self) -> None:
        world = self.karpenter_world()
        for name in PODS:
            world.pod(name)
        world.pod("agent", owner="DaemonSet")
        world.start()
        seen = time.monotonic()
        self.deleting(world)
        world.must(lambda: not world.pods(), "all pods, the DaemonSet's too", 30)
        self.assertGreaterEqual(world.evictions()[0].at - seen, 4.9)
        self.assertEvictedOnce(world, *PODS, "agent")

    def test_modes(self) -> None:
        for mode, evicts in (('"always"', True), ("observe", False), ("off", False), ('"off"', False)):
            with self.subTest(mode):
                world = self.karpenter_world(drain=f"    mode: {mode}\n")
                world.pod("web-1")
                world.start()
                seen = time.monotonic()
                self.deleting(world)
                if evicts:
                    world.must(lambda: not world.pods(), "the drain")
                    self.assertLess(world.evictions()[0].at - seen, 3.0 + SLACK)
                else:
                    world.must(lambda: time.monotonic() - seen > 7.0, "more than its patience")
                    self.assertEqual((world.evictions(), world.pods()), ([], ["web-1"]))
                    self.assertEqual(world.is_cordoned(), mode == "observe", world.story())

    def test_a_taint_alone_is_a_candidate(self) -> None:
        world = self.karpenter_world()
        world.pod("web-1")
        world.start()
        world.change_node(lambda n: n["spec"].update(taints=[DISRUPTED]))
        seen = time.monotonic()
        world.must(lambda: time.monotonic() - seen > 3.0, "a while")
        self.assertEqual(world.steps("signal", "cordon", "evict"), [])

    def test_notice_while_karpenter_drains(self) -> None:
        """Another source than the deletion asks for a drain: no more watching."""
        world = self.karpenter_world()
        for name in PODS:
            world.pod(name)
        world.start()
        self.deleting(world)
        world.phase_is("observing")
        world.imds.spot(120)
        world.must(lambda: world.evictions(), "our own evictions", 4)
        world.must(lambda: not world.pods(), "all pods")
        world.must(lambda: world.condition("InterruptionPending")[1] == "SpotInterruption", "the stronger source")

    def test_withdrawn_on_a_node_that_is_being_deleted(self) -> None:
        world = self.karpenter_world()
        world.pod("blocked")
        world.budget("never", "blocked")
        world.start()
        world.imds.spot(600)
        world.must(world.is_cordoned, "the cordon")
        since = lambda: next(c["lastTransitionTime"] for c in world.node()["status"]["conditions"] if c["type"] == "InterruptionPending")
        began = since()
        self.deleting(world)
        world.imds.spot(None)
        world.must(lambda: world.condition("InterruptionPending") == ("True", "Deletion"), "the weaker source")
        self.assertEqual(since(), began, "it was True before")
        self.assertTrue(world.is_cordoned())
        self.assertEqual(world.steps("release"), [])

    def test_time_of_the_claim(self) -> None:
        """With access to its NodeClaim the node keeps the last moments that Karpenter's timestamp gives: that time is T."""
        world = self.karpenter_world()
        world.api.claims_readable = True
        world.pod("blocked", grace=3)
        world.api.kubelet.stops_after["blocked"] = math.inf
        world.budget("never", "blocked")
        world.start()
        offset = time.monotonic() - time.time()
        until = stamp(world.api.now() + 10)
        self.stamp_claim(world, until)
        self.deleting(world)
        world.must(lambda: not world.pods(), "the end", 20)
        t = epoch(until) + offset
        first = world.deletions("blocked")[0]
        self.assertTrue(t - 3.1 <= first.at <= t - 2.5 + SLACK, f"{first.at - t}\n{world.story()}")
        self.assertLessEqual(abs(time.monotonic() - t), 0.8 + SLACK)

    @staticmethod
    def stamp_claim(world: DaemonWorld, until: Optional[str]) -> None:
        def go() -> None:
            claims = next(k for k in world.api.store.objects if k[0].plural == "nodeclaims")
            claim = world.api.store.get(claims[0], CLAIM)
            claim["metadata"].setdefault("annotations", {})[TIME_KEY] = until
            world.api.store.replace(claims[0], claim)
            world.api.store.delete(claims[0], CLAIM)

        world.api.on_loop(go)

    def test_copied_time_of_the_claim(self) -> None:
        """Without access to its NodeClaim the node keeps the last moments of the time that the controller copied to it."""
        world = self.karpenter_world()
        world.pod("blocked", grace=3)
        world.api.kubelet.stops_after["blocked"] = math.inf
        world.budget("never", "blocked")
        world.start()
        offset = time.monotonic() - time.time()
        until = stamp(world.api.now() + 10)

        def copy(node: dict[str, Any]) -> None:
            uid = node["metadata"]["ownerReferences"][0]["uid"]
            value = {"id": f"claim-{uid}", "mode": "deadline", "deadline": until}
            node["metadata"].setdefault("annotations", {})["nodeclaimd.io/termination-deadline"] = json.dumps(value)

        self.deleting(world)
        world.change_node(copy)
        world.must(lambda: not world.pods(), "the end", 20)
        t = epoch(until) + offset
        first = world.deletions("blocked")[0]
        self.assertTrue(t - 3.1 <= first.at <= t - 2.5 + SLACK, f"{first.at - t}\n{world.story()}")

    def test_without_access_to_the_claim(self) -> None:
        world = self.karpenter_world()
        world.pod("web-1")
        world.start()
        self.deleting(world)
        self.stamp_claim(world, stamp(time.time() + 5))
        world.must(lambda: not world.pods(), "taken over", 20)
        asked = [e for e in world.api.server.log.snapshot() if "/nodeclaims" in e["path"]]
        self.assertLessEqual(len(asked), 2, "refused, and not asked again and again")
        self.assertIsNone(world.drain().get("deadline"))


class Requests(DaemonTest):
    def ask(self, world: DaemonWorld, value: Optional[Any]) -> None:
        def change(node: dict[str, Any]) -> None:
            if value is None:
                node["metadata"]["annotations"].pop(REQUEST_KEY, None)
            else:
                text = value if isinstance(value, str) else json.dumps(value)
                node["metadata"]["annotations"][REQUEST_KEY] = text

        world.change_node(change)

    def test_modes(self) -> None:
        world = self.node_world(profile="m5.large")
        world.pod("web", grace=2)
        budget = world.budget("never", "web")
        world.start()
        self.ask(world, {"id": "r-1", "mode": "cordon", "reason": "drift"})
        world.must(world.is_cordoned, "the cordon")
        world.phase_is("cordoned")
        self.assertEqual((world.evictions(), world.annotation()["id"]), ([], "r-1"))
        self.ask(world, {"id": "r-2", "mode": "graceful", "unknown": True})
        world.must(lambda: budget.asked >= 2, "evictions")
        world.must(lambda: world.annotation()["blocked"] == ["default/web"], "the blocked pod")
        self.assertIsNone(world.annotation()["deadline"])
        self.assertEqual(world.deletions(), [])
        self.ask(world, {"id": "r-3", "mode": "deadline", "deadline": stamp(time.time() + 8)})
        world.must(lambda: not world.pods(), "the last moment")
        self.assertEqual(len(world.deletions("web")), 1)
        self.ask(world, None)
        world.must(lambda: not world.is_cordoned(), "the release")
        world.must(lambda: world.condition("InterruptionPending")[0] == "False", "the calm")

    def test_garbage(self) -> None:
        world = self.node_world(profile="m5.large")
        world.start()
        for bad in (
            "",
            "{",
            "[]",
            {"mode": "graceful"},
            {"id": "x", "mode": "explode"},
            {"id": "x", "mode": "deadline"},
            "z" * 9000,
        ):
            self.ask(world, bad)
        world.must(lambda: world.said_of_itself().get("requestRefused"), "why, in words")
        self.ask(world, {"id": "r-9", "mode": "cordon"})
        world.must(world.is_cordoned, "the good one")
        self.ask(world, "{")
        end = time.monotonic() + 1.0
        world.must(lambda: time.monotonic() > end, "a while")
        self.assertTrue(world.is_cordoned(), "garbage lifts nothing")

    def test_of_a_later_release(self) -> None:
        """Keys that are not known are tolerated, a mode that is not known is refused in words: on the Node, where whoever asked
        may look, and in status.json. It is not acknowledged, and lifts no request that is in force."""
        world = self.node_world(profile="m5.large")
        world.pod("web")
        world.start()
        later = {"id": "r-10", "mode": "hibernate", "deadline": stamp(time.time() + 60), "priority": {"x": [1]}}
        self.ask(world, later)
        world.must(lambda: world.said_of_itself().get("requestRefused"), "the refusal")
        self.assertIn("mode", world.said_of_itself()["requestRefused"])
        world.must(lambda: "DrainRequestRefused" in world.events(), "the Event")
        said = next(e["message"] for e in world.api.objects("events") if e["reason"] == "DrainRequestRefused")
        self.assertIn("'hibernate'", said)
        self.assertIn("cordon, graceful or deadline", said)
        self.assertEqual((world.annotation(), world.is_cordoned(), world.evictions()), ({}, False, []))
        self.ask(world, {"id": "r-10", "mode": "cordon", "priority": {"x": [1]}, "reason": "drift"})
        world.must(lambda: world.annotation().get("phase") == "Cordoned", "the acknowledgement")
        self.assertEqual((world.annotation()["id"], world.annotation()["source"]), ("r-10", "request"))
        world.must(lambda: world.said_of_itself()["requestRefused"] is None, "no refusal any more")
        self.ask(world, {**later, "id": "r-11"})
        world.must(lambda: world.said_of_itself().get("requestRefused"), "the refusal")
        self.assertEqual((world.annotation()["id"], world.is_cordoned()), ("r-10", True), "the one before stays in force")

    def test_deadline_that_had_passed(self) -> None:
        """Written in another time zone, a deadline is hours past: no pod is deleted for that, and whoever asked is told. One that
        was taken in time stays in force over a restart."""
        world = self.node_world(profile="m5.large")
        world.pod("web", grace=30)
        world.budget("never", "web")
        world.start()
        self.ask(world, {"id": "r-13", "mode": "deadline", "deadline": stamp(time.time() - 7200)})
        world.must(lambda: world.said_of_itself().get("requestRefused"), "the refusal")
        self.assertIn("had passed before the request was seen", world.said_of_itself()["requestRefused"])
        world.must(lambda: "DrainRequestRefused" in world.events(), "the Event")
        self.assertEqual((world.annotation(), world.is_cordoned(), world.pods()), ({}, False, ["web"]))
        self.assertEqual(world.deletions() + world.evictions(), [])
        self.ask(world, {"id": "r-13", "mode": "deadline", "deadline": stamp(time.time() + 90)})
        world.must(lambda: world.evictions("web"), "an attempt")
        world.must(lambda: world.said_of_itself()["requestRefused"] is None, "no refusal any more")

    def test_deadline_that_passes_in_an_outage(self) -> None:
        """The machine is still there: the drain goes on without the deadline, and a pod that a budget keeps is not ended at once."""
        world = self.node_world(profile="m5.large", margin="1s")
        world.pod("kept", grace=1)
        world.budget("never", "kept")
        world.start()
        until = time.time() + 7
        self.ask(world, {"id": "r-14", "mode": "deadline", "deadline": stamp(until)})
        world.must(lambda: world.evictions("kept"), "an attempt")
        world.api.server.away(until + 6 - time.time())
        world.must(lambda: world.annotation().get("deadline", "") is None, "that it goes on without", 30)
        world.must(lambda: "Nothing was evicted for" in str(world.api.objects("events")), "the Event of the outage")
        self.assertRegex(str(world.api.objects("events")), r"Nothing was evicted for \d+ s, and the deadline passed: ")
        self.assertIn("that time has passed: a drain goes on without a deadline; policy=drain", world.log())
        asked = len(world.evictions("kept"))
        world.must(lambda: len(world.evictions("kept")) > asked, "the next attempt", 30)
        self.assertEqual((world.deletions(), world.pods(), world.is_cordoned()), ([], ["kept"], True))

    def test_pauses_of_a_request(self) -> None:
        """The Node is read before each attempt: that is no answer, and the pauses after a budget's grow all the same."""
        world = self.node_world(profile="m5.large")
        world.pod("kept", grace=1)
        world.budget("never", "kept")
        world.start()
        self.ask(world, {"id": "r-20", "mode": "graceful"})
        world.must(lambda: len(world.evictions("kept")) == 5, "five attempts", 30)
        times = [s.at for s in world.evictions("kept")]
        self.assertGreater(times[4] - times[0], 0.75 * (1 + 2 + 3 + 5))

    def test_request_that_another_replaces(self) -> None:
        """Of the next one nothing is known but that the first is not asked for any more: no pod is deleted for it. Nothing at all
        is no request."""
        world = self.node_world(profile="m5.large", margin="1s")
        world.pod("kept", grace=1)
        world.budget("never", "kept")
        world.start()
        self.ask(world, {"id": "r-15", "mode": "deadline", "deadline": stamp(time.time() + 6)})
        world.must(lambda: world.evictions("kept"), "an attempt")
        self.ask(world, '{"id": "r-16", "mode"')
        world.must(lambda: world.annotation().get("deadline", "") is None, "that the deadline is given up")
        world.must(lambda: "the one before it goes on, without a deadline" in str(world.api.objects("events")), "the Event")
        world.must(lambda: re.search(r"(?m)^refused +drain request: ", world.run("status").out), "the refusal in status")
        end = time.monotonic() + 7
        world.must(lambda: time.monotonic() > end, "the time after the deadline")
        self.assertEqual((world.deletions(), world.pods(), world.is_cordoned()), ([], ["kept"], True))
        self.ask(world, "")
        world.must(lambda: not world.is_cordoned(), "the end of it")

    def test_deadline_is_the_machines(self) -> None:
        """`deadline` is when the machine goes: pods are gone a margin earlier, and drain-status says it as it was asked."""
        world = self.node_world(profile="m5.large", margin="5s")
        world.pod("blocked", grace=2)
        world.budget("never", "blocked")
        world.start()
        until = stamp(time.time() + 37)
        self.ask(world, {"id": "r-12", "mode": "deadline", "deadline": until})
        world.must(lambda: world.annotation().get("deadline") == until, "the deadline, unchanged")
        world.must(lambda: not world.pods(), "the last moment", 45)
        left = epoch(until) - time.time()
        self.assertTrue(5 - SLACK <= left <= 7.1, left)

    def test_two_at_once(self) -> None:
        """The earlier of two counts while both ask; with its withdrawal the later one is in force again, whole. A request that takes
        another one's place on the Node puts the time off, too."""
        world = self.node_world(profile="m5.large")
        world.pod("blocked", grace=2)
        world.budget("never", "blocked")
        world.start()
        begin = time.time()
        near, far = stamp(begin + 9), stamp(begin + 18)
        self.ask(world, {"id": "r-15", "mode": "deadline", "deadline": near})
        world.must(lambda: world.annotation().get("deadline") == near, "the first")
        self.ask(world, {"id": "r-16", "mode": "deadline", "deadline": far})
        world.must(lambda: world.annotation().get("deadline") == far, "the one in its place")
        done = world.run("drain", "--deadline", "8s")
        self.assertEqual(done.code, 0, done.err)
        world.must(lambda: world.annotation().get("source") == "operator", "the earlier one")
        self.assertLess(epoch(world.annotation()["deadline"]), epoch(far))
        self.assertEqual(world.run("undrain").code, 0)
        world.must(lambda: (world.annotation().get("id"), world.annotation().get("deadline")) == ("r-16", far), "the later one")
        world.must(lambda: not world.pods(), "the last moment", 20)
        self.assertGreaterEqual(world.deletions("blocked")[0].entry["time"], epoch(far) - 3.1)
        self.assertEqual(world.steps("release", "calm"), [], "the node was given no pods in between")

    def test_a_clock_of_its_own_that_is_off(self) -> None:
        """Where IMDS says nothing the API server's clock counts: requests and the ends of pods are dated by it. By ours, set an
        hour on, a pod that ends would be stuck, and the node Drained."""
        for ahead in (-3600.0, 3600.0):
            with self.subTest(ahead):
                world = self.node_world(profile="m5.large")
                world.imds.server.refuse()
                world.api.clock_ahead_sec = ahead
                world.pod("ends", grace=25)
                world.pod("blocked", grace=2)
                world.budget("never", "blocked")
                world.api.kubelet.stops_after["ends"] = 8
                world.start(ready=False)
                world.must(lambda: world.steps("watch"), "a watch of the Node")
                until = world.api.now() + 30
                self.ask(world, {"id": "r-14", "mode": "deadline", "deadline": stamp(until)})
                world.must(lambda: world.evictions("ends", accepted=True), "the eviction")
                world.must(lambda: not world.pods(), "the last moment", 30)
                left = until - world.api.now()
                # 4 s of margin, 2 s of grace; the request is in whole seconds, and so is the date that tells the clock
                self.assertTrue(4 - SLACK <= left <= 4 + 2 + 2, f"{left}: the margin is the built-in one")
                self.assertEqual(world.api.kubelet.ended["ends"], "stopped")

    def test_deleted_node_without_karpenter(self) -> None:
        """A finalizer of somebody else; nobody drains."""
        world = self.node_world(profile="m5.large")
        world.change_node(lambda n: n["metadata"].update(finalizers=["example.com/x"]))
        world.pod("web")
        world.start()
        world.delete_node()
        world.must(lambda: not world.pods(), "taken over", 20)
        world.drained()


if __name__ == "__main__":
    unittest.main()
