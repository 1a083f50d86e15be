"""The relay: what a node says of its end reaches its claim at once, once, and nobody else's."""

from __future__ import annotations

import json
import random
import threading
import time
import unittest
from typing import Any

from controlling import (
    KARPENTER,
    OURS,
    SLACK,
    TIME_KEY,
    ControlTest,
    ControlWorld,
    stamp,
)

from wire import Request


class Relay(ControlTest):
    def test_stamp_then_delete_with_uid(self) -> None:
        world = self.control_world()
        claim, _ = world.pair("n1")
        world.pair("n2")
        world.start()
        said = time.monotonic()
        deadline = world.say("n1", deadline=120.9)
        self.assertRelayed(world, "c-n1", deadline)
        stamped, deleted = world.accepted("set-timestamp")[0], world.accepted("delete")[0]
        self.assertLess(deleted.sent - said, SLACK, world.story())
        self.assertEqual(deleted.body["preconditions"], {"uid": claim["metadata"]["uid"]})
        self.assertEqual(stamped.body["metadata"]["annotations"], dict.fromkeys((TIME_KEY, "nodeclaimd.io/stamped"), stamp((deadline or 0) - 15)))
        self.assertEqual({s.what for s in world.writes()}, {"c-n1"})
        for phase in ("Cordoned", "Evicting", "Drained"):  # what the node says from then on changes nothing
            world.say("n1", phase=phase, deadline=(deadline or 0) - time.time() + 0.5)
        self.assertQuiet(world, 1.5)

    def test_events_wait_for_each_other_and_nothing_for_them(self) -> None:
        """Eight are under way at once, the others come after them; no relay waits."""
        world = self.control_world()
        names = [f"n{i}" for i in range(20)]
        for name in names:
            world.pair(name)
        held = world.api.server.fault("hold", path="/events", method="POST")
        world.start()
        for name in names:
            world.say(name)
        for name in names:
            world.relayed(f"c-{name}")
        world.must(lambda: held.hits >= 8, "eight Events")
        said = world.metric("events_sent_total")
        self.assertGreaterEqual(said, len(names), world.story())
        self.assertEqual(held.hits, 8, world.story())
        world.api.server.release(held)
        world.must(lambda: len(world.steps("event")) == said, f"{said} Events")
        self.assertEqual({s.body["involvedObject"]["name"] for s in world.steps("event")}, {f"c-{name}" for name in names})
        self.assertEqual(world.metric("rate_limited_events_total"), 0, world.story())

    def test_margin_is_a_setting(self) -> None:
        world = self.control_world()
        world.pair("n1")
        world.start("--margin", "40s")
        self.assertRelayed(world, "c-n1", world.say("n1"), margin=40)

    def test_said_before_the_start(self) -> None:
        world = self.control_world()
        for i in range(5):
            world.pair(f"n{i}")
            world.say(f"n{i}")
        world.start()
        for i in range(5):
            world.relayed(f"c-n{i}")
        self.assertEqual(len(world.accepted("delete")), 5)

    def test_an_earlier_deadline_moves_the_stamp(self) -> None:
        world = self.control_world()
        world.pair("n1")
        world.start()
        world.say("n1", deadline=600)
        world.relayed("c-n1")
        sooner = world.say("n1", deadline=100, id="spot-2") or 0
        world.must(lambda: world.timestamp("c-n1") == sooner - 13, "the earlier stamp, by what is left then")
        world.say("n1", deadline=900, id="spot-3")
        key = "nodeclaimd.io/termination-deadline"  # the claim ends earlier than the node says now
        world.must(lambda: key in world.get("nodes", "n1")["metadata"]["annotations"], "the claim's end on the Node")
        self.assertQuiet(world, 1)
        self.assertEqual((world.timestamp("c-n1"), len(world.accepted("delete"))), (sooner - 13, 1))

    def test_karpenter_is_back(self) -> None:
        """What was ours while there was no Karpenter, and is deleted now, is let go; what lives is not touched."""
        world = self.control_world()
        world.claim("c-both", node="both", finalizers=[KARPENTER, OURS])
        world.node("both", world.get("nodeclaims", "c-both"), finalizers=[KARPENTER, OURS])
        world.ours("lives")
        world.ours("gone")
        for plural, name in (("nodeclaims", "c-both"), ("nodes", "both"), ("nodeclaims", "c-gone")):
            world.remove(plural, name)
        world.start()
        world.must(lambda: not world.get("nodeclaims", "c-gone"), "the claim that we alone held")
        for plural, name in (("nodeclaims", "c-both"), ("nodes", "both")):
            world.must(lambda: world.get(plural, name)["metadata"]["finalizers"] == [KARPENTER], f"{name} held by Karpenter alone")
        self.assertQuiet(world, 1)
        self.assertEqual(world.get("nodeclaims", "c-lives")["metadata"]["finalizers"], [OURS])
        self.assertEqual(len(world.writes()), 3, world.story())

    def test_time_of_a_deleted_claim_reaches_its_node(self) -> None:
        """Whoever deletes it: its Node has the time, once, and no other Node has."""
        key = "nodeclaimd.io/termination-deadline"
        world = self.control_world()
        claim, _ = world.pair("n1")
        world.pair("n2")
        world.start()
        until = stamp(time.time() + 600)
        world.annotate("nodeclaims", "c-n1", TIME_KEY, until)
        self.assertQuiet(world, 1)  # it lives
        world.remove("nodeclaims", "c-n1")
        world.must(lambda: key in world.get("nodes", "n1")["metadata"]["annotations"], "the copy")
        copy = json.loads(world.get("nodes", "n1")["metadata"]["annotations"][key])
        self.assertEqual(copy, {"id": f"claim-{claim['metadata']['uid']}", "mode": "deadline", "deadline": until})
        for later, wanted in ((900, until), (300, None)):
            moved = stamp(time.time() + later)
            world.annotate("nodeclaims", "c-n1", TIME_KEY, moved)
            wanted = wanted or moved
            world.must(lambda: wanted in world.get("nodes", "n1")["metadata"]["annotations"][key], f"{wanted}")
        self.assertQuiet(world, 1)
        self.assertEqual({s.what for s in world.writes()}, {"n1"}, world.story())
        self.assertEqual(len(world.writes()), 2, world.story())

    def test_withdrawn_before_the_delete(self) -> None:
        world = self.control_world()
        world.pair("n1")
        world.pair("n2")
        fault = world.api.server.fault("hold", path="nodeclaims/c-n1", method="PATCH")
        world.start()
        world.say("n1")
        world.must(lambda: fault.held, "the stamp")
        world.unsay("n1")
        world.say("n2")  # that is seen after it
        world.relayed("c-n2")
        world.api.server.release(fault)
        world.must(lambda: len(world.accepted("set-timestamp", "c-n1")) == 2, "the stamp taken back")
        self.assertIsNone(world.timestamp("c-n1"))
        self.assertQuiet(world, 1, "c-n1")
        self.assertEqual(world.steps("delete")[0].what, "c-n2", world.story())
        self.assertEqual(len(world.steps("delete")), 1, world.story())

    def test_a_stamp_that_is_refused_for_good(self) -> None:
        """An ending without its time is better than none."""
        world = self.control_world()
        world.refused_is_wanted = True
        body = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
                           "message": 'admission webhook "guard.example.com" denied the request: a policy says no'})
        world.api.server.fault("status", path="nodeclaims", method="PATCH", status=403, body=body, content_type="application/json")
        world.pair("n1")
        world.start()
        world.say("n1")
        world.relayed("c-n1")
        self.assertIsNone(world.timestamp("c-n1"))
        end = time.monotonic() + 2
        world.must(lambda: time.monotonic() > end, "a while")
        self.assertLessEqual(len(world.steps("set-timestamp")), 7, world.story())  # with pauses that grow
        self.assertEqual(len(world.steps("delete")), 1, world.story())
        world.must(lambda: any(s.what == "RelayRefused" for s in world.steps("event")), "the Event")
        said = [s.body["message"] for s in world.steps("event") if s.what == "RelayRefused"]
        self.assertRegex(said[0], r"without its time: .*a policy says no; an admission webhook or policy of the cluster refuses it, not RBAC$")
        world.must(lambda: world.metrics()["nodeclaim_controller_relaying"][""] == 0, "what has reached its NodeClaim")
        text = world.run("status", "--metrics-address", world.addresses[world.proc.pid])[1]
        self.assertRegex(text, r"(?m)^trouble +set-timestamp: .*a policy says no.*; an admission webhook or policy of the cluster refuses it, not RBAC$")


class WhatIsRelayed(ControlTest):
    def test_its_time_comes(self) -> None:
        """A maintenance that is more than an hour ahead is handed on when it is an hour away."""
        world = self.control_world()
        world.pair("n1")
        world.start()
        deadline = world.say("n1", source="maintenance", deadline=3604) or 0
        self.assertQuiet(world, 1.5)
        self.assertRelayed(world, "c-n1", deadline)
        self.assertLessEqual(deadline - world.accepted("delete")[0].entry["time"], 3600.5)

    def test_clocks_that_differ(self) -> None:
        """The node's deadline is taken as it stands, whatever time the API server believes it is."""
        for ahead in (-150.0, 150.0):
            with self.subTest(ahead):
                world = self.control_world()
                world.api.clock_ahead_sec = ahead
                world.pair("n1")
                world.start()
                self.assertRelayed(world, "c-n1", world.say("n1"))

    def test_a_clock_of_its_own_that_is_off(self) -> None:
        """A controller whose clock was set an hour on, or back, hears notices as before: the API server's clock counts."""
        for ahead in (-3600.0, 3600.0):
            with self.subTest(ahead):
                world = self.control_world()
                world.api.clock_ahead_sec = ahead
                world.pair("n1")
                world.start()
                by_it = stamp(world.api.now())
                self.assertRelayed(world, "c-n1", world.say("n1", deadline=ahead + 120, updated=by_it))

    def test_v1beta1(self) -> None:
        world = self.control_world(version="v1beta1")
        world.pair("n1")
        world.start()
        self.assertRelayed(world, "c-n1", world.say("n1"))
        self.assertIn("/apis/karpenter.sh/v1beta1/nodeclaims/c-n1", world.accepted("delete")[0].entry["path"])


class WhoBelongsToWhom(ControlTest):
    def test_without_each_other(self) -> None:
        """A Node without a claim, a claim without a Node, and one that comes later."""
        world = self.control_world()
        world.node("lonely")
        world.claim("early", node="late")
        world.pair("n1")
        world.start()
        world.say("lonely")
        self.assertRelayed(world, "c-n1", world.say("n1"))
        self.assertEqual({s.what for s in world.writes()}, {"c-n1"})
        world.node("late", world.get("nodeclaims", "early"))
        self.assertRelayed(world, "early", world.say("late"))
        world.claim("later", node="lonely", instance="lonely")
        world.relayed("later")

    def test_a_node_that_names_another_ones_claim(self) -> None:
        """The claim says which Node is its own: what a Node says of that is not believed."""
        world = self.control_world()
        claim, _ = world.pair("victim")
        world.node("hostile", claim, labels={"karpenter.sh/nodepool": "default"})
        world.pair("n1")
        world.start()
        world.say("hostile")
        world.say("n1")
        world.relayed("c-n1")
        self.assertQuiet(world, 1)
        self.assertEqual({s.what for s in world.writes()}, {"c-n1"}, world.story())
        self.assertRelayed(world, "c-victim", world.say("victim"))

    def test_two_nodes_with_one_provider_id(self) -> None:
        world = self.control_world()
        world.pair("n1")
        world.node("twin", instance="c-n1")
        world.start()
        world.say("twin")
        self.assertQuiet(world, 1)
        self.assertRelayed(world, "c-n1", world.say("n1"))

    def test_a_claim_of_the_same_name_but_another_uid(self) -> None:
        """It was made between the watch and the DELETE: the precondition saves it."""
        world = self.control_world()
        world.pair("n1")
        fresh: dict[str, str] = {}

        def swap(req: Request) -> bool:
            if req.method == "DELETE" and not fresh:
                res = world.api.resource("nodeclaims")
                old = world.api.store.get(res, "c-n1")
                world.api.store.remove((res, "", "c-n1"), old)
                for key in ("deletionTimestamp", "annotations"):
                    old["metadata"].pop(key, None)
                fresh["uid"] = world.api.store.create(res, {**old, "status": {}})["metadata"]["uid"]
            return False

        world.api.server.before_request.append(swap)
        world.start()
        world.say("n1")
        world.must(lambda: any(s.status == 409 for s in world.steps("delete")), "409")
        end = time.monotonic() + 1
        world.must(lambda: time.monotonic() > end, "a while")
        claim = world.get("nodeclaims", "c-n1")
        self.assertEqual((claim["metadata"]["uid"], claim["metadata"].get("deletionTimestamp")), (fresh["uid"], None))
        self.assertLessEqual(len(world.steps("delete")), 2, world.story())  # the watch may show the old one once more

    def test_a_claim_that_is_gone_by_then(self) -> None:
        world = self.control_world()
        world.pair("n1", finalizers=[])
        world.pair("n2")

        def gone(req: Request) -> bool:
            res = world.api.resource("nodeclaims")
            if req.method == "DELETE" and (res, "", "c-n1") in world.api.store.objects and "c-n1" in req.path:
                world.api.store.remove((res, "", "c-n1"), world.api.store.get(res, "c-n1"))
            return False

        world.api.server.before_request.append(gone)
        world.start()
        world.say("n1")
        world.must(lambda: any(s.status == 404 for s in world.steps("delete")), "404")
        world.say("n2")
        world.relayed("c-n2")
        self.assertEqual(len([s for s in world.steps("delete") if s.what == "c-n1"]), 1, world.story())

    def test_nothing_else_beside_karpenter(self) -> None:
        """Registration, taints, expiry and drift are Karpenter's (own assertion at the end of every test)."""
        world = self.control_world()
        world.pool(budgets=[{"nodes": "100%"}])
        world.claim("expired", node="n1", spec={"expireAfter": "1s"}, creationTimestamp="2026-01-01T00:00:00Z")
        world.node("n1", world.get("nodeclaims", "expired"))
        world.claim("fresh", instance="n2", finalizers=[])
        world.node("n2", taints=[{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}])
        world.pair("n3", finalizers=[KARPENTER])
        world.start()
        self.assertQuiet(world, 2)
        self.assertEqual(world.writes(), [])


class HostileWords(ControlTest):
    WORDS = (
        "",
        "null",
        "[]",
        "17",
        '"spot"',
        "{",
        "{}",
        '{"id":"a"}',
        '{"id":"a","source":"spot","phase":"Detected","deadline":12345}',
        '{"id":"a","source":"spot","phase":"Detected","deadline":"tomorrow"}',
        '{"id":"a","source":"spot","phase":"Detected","deadline":"9999-99-99T00:00:00Z"}',
        '{"id":"a","source":["spot"],"phase":"Detected","deadline":"2026-11-22T00:00:00Z"}',
        '{"id":{"x":1},"source":"spot","phase":"Detected","deadline":"%s"}',
        '{"id":"a","source":"spot","phase":7,"deadline":"%s"}',
        '{"id":"a\\u0000b","source":"spot","phase":"Detected","deadline":"%s"}',
        '{"id":"a\\u001b[31m","source":"spot","phase":"Detected","deadline":"%s"}',
        '{"id":"' + "x" * 10000 + '","source":"spot","phase":"Detected","deadline":"%s"}',
        '{"id":"a","source":"spot","phase":"Detected","deadline":"%s","blocked":' + json.dumps(["n/p"] * 5000) + "}",
        '{"id":"a","source":"spot","phase":"Detected","deadline":"%s","total":-1,"remaining":1e999}',
        '{"id":"a","source":"spot","source":"spot","phase":"Detected","deadline":"%s"}',
        "[" * 5000,
        '{"a":' * 1000 + "1" + "}" * 1000,
        "\u0000\u0001\u001b[2J",
        "\ud7ff\U0001f4a3" * 500,
    )

    def test_garbage(self) -> None:
        """None of it brings the controller down, or is said on, or stands between another node and its relay."""
        world = self.control_world()
        world.pair("good")
        for i, word in enumerate(self.WORDS):
            world.pair(f"bad-{i}")
        world.start()
        for i, word in enumerate(self.WORDS):
            world.say(f"bad-{i}", raw=word.replace("%s", stamp(time.time() + 100)))
        self.assertRelayed(world, "c-good", world.say("good"))
        self.assertIsNone(world.proc.poll())
        code, out, err = world.run("status", "--metrics-address", world.addresses[world.proc.pid])
        self.assertEqual(code, 0, err)
        self.assertFalse([c for c in out if ord(c) < 32 and c != "\n"], repr(out[:2000]))
        self.assertLess(len(out), 200 * (len(self.WORDS) + 10))
        self.assertFalse([c for c in world.log() if ord(c) < 32 and c not in "\n\t"], "control characters in the log")
        self.assertGreater(world.metric("invalid_drain_statuses_total"), 5, world.ask("/metrics"))

    def test_members_that_are_read(self) -> None:
        """A megabyte in what is read of a Node (six, once it is escaped) leaves the list of all Nodes readable."""
        world = self.control_world()
        world.pair("big")
        world.pair("good")

        def edit(node: dict[str, Any]) -> None:
            owner = {"apiVersion": "v1", "kind": "ConfigMap", "uid": "u", "name": "\x01" * 1_000_000}
            node["metadata"]["ownerReferences"].append(owner)

        world.change("nodes", "big", edit)
        world.start()
        self.assertRelayed(world, "c-good", world.say("good"))

    def test_other_annotations_and_labels(self) -> None:
        """Megabytes that a node may write beside its word."""
        world = self.control_world()
        world.pair("big")
        world.pair("good")
        world.start()

        def edit(node: dict[str, Any]) -> None:
            node["metadata"]["annotations"].update({f"x/{i}": "\U0001f4a3\n\"" * 5000 for i in range(12)})
            node["metadata"]["labels"].update({f"x/{i}": "y" for i in range(2000)})

        world.change("nodes", "big", edit)
        self.assertRelayed(world, "c-good", world.say("good"))
        self.assertIsNone(world.proc.poll())

    def flap(self, world: ControlWorld, stop: threading.Event) -> None:
        """200 words a second, half of them with another deadline."""
        dice, number = random.Random(1), 0
        while not stop.wait(0.005):
            number += 1
            if dice.random() < 0.3:
                world.unsay("hostile")
            else:
                world.say("hostile", deadline=3000 - number * 2 % 2900, id=f"spot-{number}")

    def test_a_node_that_flaps(self) -> None:
        """It does not delay another node's relay beyond 2 s, and costs its claim's share of writes, not more."""
        world = self.control_world()
        world.pair("hostile")
        for i in range(10):
            world.pair(f"n{i}")
        world.start()
        stop = threading.Event()
        thread = threading.Thread(target=self.flap, args=(world, stop), daemon=True)
        begin = time.monotonic()
        thread.start()
        try:
            for i in range(10):
                said = time.monotonic()
                deadline = world.say(f"n{i}")
                self.assertRelayed(world, f"c-n{i}", deadline)
                self.assertLess(world.accepted("delete", f"c-n{i}")[0].sent - said, 2.0 + SLACK - 1.5, world.story())
                world.must(lambda: time.monotonic() > said + 0.3, "a moment")
        finally:
            stop.set()
            thread.join()
        took = time.monotonic() - begin
        self.assertLessEqual(len(world.accepted("delete", "c-hostile")), 1)
        self.assertLessEqual(len(world.writes("c-hostile")), 20 + 12 * took / 60 + 2, world.story())


if __name__ == "__main__":
    unittest.main()
