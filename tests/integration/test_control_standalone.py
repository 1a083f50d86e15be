"""A NodeClaim's whole life where there is no Karpenter: registered, initialized, disrupted under budgets, drained, finalized."""

from __future__ import annotations

import json
import time
import unittest
from typing import Any

from controlling import (
    DISRUPTED,
    KARPENTER,
    OURS,
    REQUEST_KEY,
    SLACK,
    UNREGISTERED,
    ControlTest,
    ControlWorld,
    Toll,
    ToyAgent,
    epoch,
    stamp,
)

OLD = {"creationTimestamp": "2026-01-01T00:00:00Z"}
ALL = [{"nodes": "100%"}]


class AloneTest(ControlTest):
    def alone_world(self, **more: Any) -> ControlWorld:
        return self.control_world(mode="standalone", **more)

    def condition_is(self, world: ControlWorld, claim: str, kind: str, *wanted: str) -> None:
        world.must(lambda: world.condition(claim, kind)[: len(wanted)] == wanted, f"{kind} {wanted} of {claim}")

    def gone(self, world: ControlWorld, *names: str, within: float = 20) -> None:
        for name in names:
            world.must(lambda: world.is_gone(name), f"the end of {name}", within)


class Registration(AloneTest):
    def test_a_node_that_joins(self) -> None:
        world = self.alone_world()
        world.pool()
        world.fresh(
            "n1",
            ready=False,
            labels={"team": "blue", "topology.kubernetes.io/zone": "us-west-2a"},
            annotations={"team/x": "y", "karpenter.sh/nodepool-hash": "1"},
            spec={"taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]},
        )
        world.start()
        self.condition_is(world, "c-n1", "Registered", "True")
        node, claim = world.get("nodes", "n1"), world.get("nodeclaims", "c-n1")
        meta = node["metadata"]
        self.assertEqual((meta["finalizers"], claim["metadata"]["finalizers"]), ([OURS], [OURS]))
        self.assertEqual(
            {k: meta["labels"].get(k) for k in ("team", "karpenter.sh/registered", "karpenter.sh/nodepool")},
            {"team": "blue", "karpenter.sh/registered": "true", "karpenter.sh/nodepool": "default"},
        )
        self.assertEqual(meta["annotations"]["team/x"], "y")
        owner = meta["ownerReferences"][0]
        self.assertEqual((owner["kind"], owner["uid"], owner["blockOwnerDeletion"]),
                         ("NodeClaim", claim["metadata"]["uid"], True))
        self.assertEqual(world.taints("n1"), ["dedicated"])
        self.assertEqual(claim["status"]["nodeName"], "n1")
        self.condition_is(world, "c-n1", "Initialized", "Unknown", "NodeNotReady")
        world.change("nodes", "n1", lambda n: n["status"]["conditions"][0].update(status="True"))
        self.condition_is(world, "c-n1", "Initialized", "True")
        self.condition_is(world, "c-n1", "Ready", "True")
        self.assertEqual(world.get("nodes", "n1")["metadata"]["labels"]["karpenter.sh/initialized"], "true")
        self.assertQuiet(world, 1)
        self.assertEqual(len(world.accepted("node")), 2, world.story())

    def test_the_owner_is_of_the_version_that_is_served(self) -> None:
        """An owner of a version that the cluster does not have would be looked for in vain by its garbage collector."""
        for version in ("v1", "v1beta1"):
            with self.subTest(version):
                world = self.alone_world(version=version)
                world.pool()
                world.fresh("n1")
                world.start()
                self.condition_is(world, "c-n1", "Registered", "True")
                (owner,) = world.get("nodes", "n1")["metadata"]["ownerReferences"]
                self.assertEqual((owner["apiVersion"], owner["name"]), (f"karpenter.sh/{version}", "c-n1"))

    def test_what_is_waited_for(self) -> None:
        rows: dict[str, tuple[dict[str, Any], str]] = {
            "startup": (
                {"spec": {"startupTaints": [{"key": "agent/boot", "effect": "NoSchedule"}]},
                 "taints": [{"key": "agent/boot", "effect": "NoSchedule"}]},
                "StartupTaintsExist",
            ),
            "ephemeral": ({"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
                          "KnownEphemeralTaintsExist"),
            "resource": ({"spec": {"resources": {"requests": {"example.com/gpu": "1"}}}}, "ResourceNotRegistered"),
        }
        world = self.alone_world()
        world.pool()
        for name, (more, _) in rows.items():
            world.fresh(name, **more)
        world.start()
        for name, (_, reason) in rows.items():
            self.condition_is(world, f"c-{name}", "Initialized", "Unknown", reason)

        def mend(node: dict[str, Any]) -> None:
            node["spec"]["taints"] = []
            node["status"]["allocatable"]["example.com/gpu"] = "1"

        for name in rows:
            world.change("nodes", name, mend)
            self.condition_is(world, f"c-{name}", "Initialized", "True")

    def test_taints_that_the_node_registered_itself(self) -> None:
        """Where its label says so, they are not put on it a second time: its startup taint may be gone by then."""
        world = self.alone_world()
        world.pool()
        world.fresh("n1", node_labels={"karpenter.sh/do-not-sync-taints": "true"},
                    spec={"startupTaints": [{"key": "agent/boot", "effect": "NoSchedule"}]})
        world.start()
        self.condition_is(world, "c-n1", "Initialized", "True")
        self.assertEqual(world.taints("n1"), [])

    def test_no_node_two_nodes(self) -> None:
        world = self.alone_world()
        world.pool()
        world.claim("waits", finalizers=[])
        world.claim("two", finalizers=[])
        for name in ("twin-1", "twin-2"):
            world.node(name, instance="two", taints=[{"key": UNREGISTERED, "effect": "NoExecute"}])
        world.start()
        self.condition_is(world, "waits", "Registered", "Unknown", "NodeNotFound")
        self.condition_is(world, "two", "Registered", "False", "MultipleNodesFound")
        self.assertEqual(world.steps("node"), [])
        world.node("late", instance="waits", taints=[{"key": UNREGISTERED, "effect": "NoExecute"}])
        self.condition_is(world, "waits", "Initialized", "True")
        world.remove("nodes", "twin-2")
        self.condition_is(world, "two", "Registered", "True")

    def test_of_other_controllers(self) -> None:
        world = self.alone_world()
        world.pool()
        world.fresh("ours")
        world.claim("karpenters", finalizers=[KARPENTER])
        world.node("n1", instance="karpenters", taints=[{"key": UNREGISTERED, "effect": "NoExecute"}])
        world.claim("auto", finalizers=[], spec={"nodeClassRef": {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "d"}})
        world.node("n2", instance="auto", taints=[{"key": UNREGISTERED, "effect": "NoExecute"}])
        world.node("nobodys")
        world.start()
        self.condition_is(world, "c-ours", "Ready", "True")
        self.assertQuiet(world, 1)
        self.assertEqual({s.what for s in world.writes()}, {"c-ours", "ours"}, world.story())

    def test_v1beta1(self) -> None:
        world = self.alone_world(version="v1beta1")
        world.pool()
        world.fresh("n1")
        agent = ToyAgent(world)
        world.start()
        self.condition_is(world, "c-n1", "Initialized", "True")
        self.assertIn("/apis/karpenter.sh/v1beta1/nodeclaims/c-n1/status", world.accepted("status")[0].entry["path"])
        world.remove("nodeclaims", "c-n1")
        self.gone(world, "n1")
        self.assertEqual(len(agent.drains["n1"]), 1)

    def test_somebody_else_is_faster(self) -> None:
        """Each list is written under the version that it was made from: a taint that comes in between stays."""
        world = self.alone_world()
        world.pool()
        world.fresh("n1")
        fault = world.api.server.fault("delay", path="nodes/n1", method="PATCH", delay_sec=0)
        fault.count = 0
        done: list[int] = []

        def between(req: Any) -> bool:
            if req.method == "PATCH" and req.path == "/api/v1/nodes/n1" and not done:
                done.append(1)
                res = world.api.resource("nodes")
                node = world.api.store.get(res, "n1")
                node["spec"]["taints"].append({"key": "theirs", "effect": "NoSchedule"})
                world.api.store.replace(res, node)
            return False

        world.api.server.before_request.append(between)
        world.start()
        self.condition_is(world, "c-n1", "Initialized", "True")
        self.assertEqual(world.taints("n1"), ["theirs"])
        self.assertEqual([s.status for s in world.steps("node")][0], 409)


class Voluntary(AloneTest):
    def test_five_expire_one_at_a_time(self) -> None:
        world = self.alone_world()
        world.pool(budgets=[{"nodes": "1"}])
        names = [f"n{i}" for i in range(5)]
        toll, agent = Toll(world), ToyAgent(world)
        for i, name in enumerate(names):
            world.ours(name, spec={"expireAfter": "1h"}, creationTimestamp=f"2026-01-0{9 - i}T00:00:00Z")
        world.start()
        self.gone(world, *names, within=40)
        self.assertEqual((toll.most, toll.order), (1, [f"c-{n}" for n in reversed(names)]), world.story())
        self.assertEqual({n: len(d) for n, d in agent.drains.items()}, {n: 1 for n in names})
        for name in names:
            self.assertEqual(len(world.accepted("delete", f"c-{name}")), 1)
            self.assertEqual(len(world.accepted("delete-node", name)), 1)

    def test_why_and_how_many(self) -> None:
        """Budgets by reason and percent; NodePools that say no; nodes that must not be disturbed."""
        world = self.alone_world()
        expired = {"spec": {"expireAfter": "1h"}, **OLD}
        pools: dict[str, tuple[Any, int]] = {
            "half": ([{"nodes": "50%"}], 2),
            "none": ([{"nodes": "0"}], 0),
            "other-reason": ([{"nodes": "0", "reasons": ["Drifted"]}, {"nodes": "3", "reasons": ["Expired"]}], 3),
            "bad": ([{"nodes": "many"}], 0),
            "default-ten-percent": (None, 1),
            "missing": ("", 0),
        }
        for pool, (budgets, _) in pools.items():
            if budgets != "":
                world.pool(pool, budgets=budgets)
            for i in range(4):
                world.ours(f"{pool}-{i}", labels={"karpenter.sh/nodepool": pool}, **expired)
        world.start()
        wanted = {pool: n for pool, (_, n) in pools.items()}

        def going() -> dict[str, int]:
            have = [c["metadata"] for c in world.api.objects("nodeclaims") if c["metadata"].get("deletionTimestamp")]
            return {pool: sum(m["name"].startswith(f"c-{pool}-") for m in have) for pool in pools}

        world.must(lambda: going() == wanted, f"{wanted}, not {going()}")
        end = time.monotonic() + 1.5
        world.must(lambda: time.monotonic() > end, "a while in which nobody drains")
        self.assertEqual(going(), wanted)  # no more of them go

    def test_do_not_disrupt(self) -> None:
        world = self.alone_world()
        world.pool(budgets=ALL)
        for name in ("calm", "node", "claim"):
            world.ours(name, spec={"expireAfter": "1h"}, **OLD)
        keep = "karpenter.sh/do-not-disrupt"
        world.annotate("nodes", "node", keep, "true")  # what a node may write on itself does not keep it
        world.annotate("nodeclaims", "c-claim", keep, "true")
        world.annotate("nodeclaims", "c-claim", "team/notes", "x" * 200_000)  # all of them may have 256 KiB
        world.start()
        for name in ("c-calm", "c-node"):
            world.must(lambda: world.accepted("delete", name), f"the end of {name}")
        self.assertQuiet(world, 1, "c-claim", "claim")
        self.assertEqual(len(world.accepted("delete")), 2)
        world.annotate("nodeclaims", "c-claim", keep, None)
        world.must(lambda: world.accepted("delete", "c-claim"), "its end, now")

    def test_not_yet_and_never(self) -> None:
        world = self.alone_world()
        world.pool(budgets=ALL)
        world.ours("soon", spec={"expireAfter": "3s"}, creationTimestamp=stamp(time.time()))
        world.ours("never", spec={"expireAfter": "Never"}, **OLD)
        world.ours("silent", **OLD)
        world.start()
        world.must(lambda: world.accepted("delete", "c-soon"), "its time")
        made = epoch(world.get("nodeclaims", "c-soon")["metadata"]["creationTimestamp"])
        self.assertGreaterEqual(world.accepted("delete")[0].entry["time"], made + 2.9)
        self.assertQuiet(world, 1, "c-never", "c-silent")

    def test_drift(self) -> None:
        world = self.alone_world()
        hashes = {"karpenter.sh/nodepool-hash": "2", "karpenter.sh/nodepool-hash-version": "v3"}
        world.pool(budgets=ALL, annotations=hashes)
        old = {**hashes, "karpenter.sh/nodepool-hash": "1"}
        world.ours("drifted", annotations=old)
        world.ours("same", annotations=hashes)
        world.ours("other-version", annotations={**old, "karpenter.sh/nodepool-hash-version": "v2"})
        world.start()
        world.must(lambda: world.accepted("delete", "c-drifted"), "its end")
        self.condition_is(world, "c-drifted", "Drifted", "True", "NodePoolDrifted")
        self.assertQuiet(world, 1, "c-same", "c-other-version")
        self.assertEqual(len(world.accepted("delete")), 1)

    def test_rebalance_is_a_setting(self) -> None:
        for args, goes in (((), False), (("--rebalance", "drain"), True)):
            with self.subTest(args):
                world = self.alone_world()
                world.pool(budgets=ALL)
                world.ours("n1")
                world.start(*args)
                world.say("n1", source="rebalance", deadline=None)
                if goes:
                    world.must(lambda: world.accepted("delete", "c-n1"), "its end")
                else:
                    self.assertQuiet(world, 1.5, "c-n1")

    def test_a_pool_that_disappears(self) -> None:
        """From then on nothing voluntary; what is under way goes on to its end."""
        world = self.alone_world()
        world.pool(budgets=[{"nodes": "1"}])
        agent = ToyAgent(world, delay_sec=1.0)
        for name in ("n1", "n2"):
            world.ours(name, spec={"expireAfter": "1h"}, **OLD)
        world.start()
        first = world.must(lambda: world.accepted("delete"), "the first")[0].what
        world.remove("nodepools", "default")
        self.gone(world, first[2:])
        self.assertQuiet(world, 1.5)
        self.assertEqual((len(world.accepted("delete")), len(agent.drains)), (1, 1))
        world.pool(budgets=[{"nodes": "1"}])
        world.must(lambda: len(world.accepted("delete")) == 2, "the other one, once the pool is there again")


class Ending(AloneTest):
    def test_a_claim_that_somebody_deletes(self) -> None:
        """Request and taint on the Node, Drained by its word, then the Node, then the finalizer: in this order."""
        world = self.alone_world()
        world.pool()
        agent = ToyAgent(world, delay_sec=1.0)
        world.ours("n1")
        uid = world.get("nodeclaims", "c-n1")["metadata"]["uid"]
        world.start()
        world.remove("nodeclaims", "c-n1")
        world.must(lambda: world.request("n1"), "the request")
        self.assertEqual(world.taints("n1"), [DISRUPTED])
        ask = world.request("n1")
        self.assertEqual((ask["id"], ask["mode"], ask.get("deadline")), (f"claim-{uid}", "graceful", None))
        self.condition_is(world, "c-n1", "Drained", "Unknown")
        self.gone(world, "n1")
        request, ended, let_go = world.accepted("node")[0], world.accepted("delete-node")[0], world.accepted("claim")[-1]
        self.assertOrder(world, request, ended, let_go)
        self.assertGreaterEqual(ended.at - request.sent, 0.9)
        drained = [s for s in world.accepted("status") if any(
            c["type"] == "Drained" and c["status"] == "True" for c in s.body["status"]["conditions"])]
        self.assertOrder(world, drained[0], ended)
        self.assertEqual(agent.drains, {"n1": [f"claim-{uid}"]})
        self.assertEqual(world.steps("delete"), [])

    def test_termination_grace_period_is_the_deadline(self) -> None:
        """No agent, no word: at the last moment it ends all the same."""
        world = self.alone_world()
        world.pool()
        world.ours("n1", spec={"terminationGracePeriod": "3s"})
        world.start("--margin", "1s")
        world.remove("nodeclaims", "c-n1")
        world.must(lambda: world.request("n1"), "the request")
        end = epoch(world.get("nodeclaims", "c-n1")["metadata"]["deletionTimestamp"]) + 3
        world.must(lambda: world.timestamp("c-n1") == end, "the claim's time")
        ask = world.request("n1")
        self.assertEqual((ask["mode"], epoch(ask["deadline"])), ("deadline", end + 1))
        self.gone(world, "n1")
        self.assertGreaterEqual(world.accepted("delete-node")[0].entry["time"], end)
        self.assertLess(world.accepted("delete-node")[0].entry["time"], end + 4 + SLACK)

    def test_a_clock_of_its_own_that_is_set_on(self) -> None:
        """Half an hour of grace is over where an hour has gone by: not where somebody has set the controller's clock."""
        world = self.alone_world()
        world.api.clock_ahead_sec = -3600.0
        world.pool()
        world.ours("n1", spec={"terminationGracePeriod": "30m"})
        world.start()
        world.remove("nodeclaims", "c-n1")
        ask = world.must(lambda: world.request("n1"), "the request")
        self.assertAlmostEqual(epoch(ask["deadline"]), world.api.now() + 1815, delta=10)
        self.assertQuiet(world, 1.5, "n1")
        self.assertEqual(world.steps("delete-node"), [])

    def test_no_agent_and_no_deadline(self) -> None:
        world = self.alone_world()
        world.pool()
        world.ours("n1")
        world.start()
        world.remove("nodeclaims", "c-n1")
        world.must(lambda: world.request("n1") and world.accepted("status", "c-n1"), "the request, and the claim's word")
        self.assertQuiet(world, 1.5)
        self.assertEqual(world.steps("delete-node"), [])
        self.assertIn(world.status()["n1"]["state"], ("draining", "WaitingForAgent"))

    def test_a_request_of_somebody_else(self) -> None:
        world = self.alone_world()
        world.pool()
        theirs = json.dumps({"id": "mine", "reason": "Upgrade", "mode": "cordon", "deadline": None})
        world.ours("n1")
        world.annotate("nodes", "n1", REQUEST_KEY, theirs)
        world.start()
        world.remove("nodeclaims", "c-n1")
        world.must(lambda: world.status()["n1"]["state"] == "WaitingForAnotherRequest", "its state")
        self.assertEqual(world.request("n1")["id"], "mine")
        world.annotate("nodes", "n1", REQUEST_KEY, None)
        world.must(lambda: world.request("n1").get("id", "").startswith("claim-"), "ours")

    def test_a_node_that_is_deleted(self) -> None:
        """By a person, while its claim lives: the claim ends, and with it all the rest."""
        world = self.alone_world()
        world.pool()
        agent = ToyAgent(world)
        world.ours("n1")
        world.start()
        world.remove("nodes", "n1")
        self.gone(world, "n1")
        self.assertEqual(len(agent.drains["n1"]), 1)

    def test_a_claim_without_a_node(self) -> None:
        world = self.alone_world()
        world.pool()
        world.claim("c-n1", finalizers=[])
        world.start()
        self.condition_is(world, "c-n1", "Registered", "Unknown", "NodeNotFound")
        world.remove("nodeclaims", "c-n1")
        self.gone(world, "n1")

    def test_interruption(self) -> None:
        """The relay works alone too; the taint keeps new pods away, and is taken back where the word is."""
        world = self.alone_world()
        world.pool()
        agent = ToyAgent(world)
        for name in ("n1", "n2"):
            world.ours(name)
        world.start()
        agent.silent.add("n1")
        world.say("n2", source="autoscaling", deadline=600)
        world.must(lambda: world.taints("n2") == [DISRUPTED], "the taint")
        world.unsay("n2")
        world.must(lambda: world.taints("n2") == [], "no taint")
        deadline = world.say("n1") or 0
        self.assertRelayed(world, "c-n1", deadline)
        world.must(lambda: world.taints("n1") == [DISRUPTED], "the taint")
        ask = world.must(lambda: world.request("n1"), "the request")
        self.assertEqual((ask["mode"], epoch(ask["deadline"])), ("deadline", deadline))
        world.say("n1", phase="Drained", deadline=deadline - time.time() + 0.5)
        self.gone(world, "n1")
        self.assertEqual(world.accepted("delete", "c-n2"), [])

    def test_taints_of_others_stay(self) -> None:
        world = self.alone_world()
        world.pool()
        world.ours("n1")
        theirs = [{"key": "DeletionCandidateOfClusterAutoscaler", "value": "1795417625", "effect": "PreferNoSchedule"},
                  {"key": "ToBeDeletedByClusterAutoscaler", "value": "1795417625", "effect": "NoSchedule"},
                  {"key": "theirs", "effect": "NoExecute", "timeAdded": "2026-11-01T00:00:00Z"}]
        world.change("nodes", "n1", lambda n: n["spec"].update(taints=theirs))
        world.start()
        world.say("n1", source="autoscaling", deadline=600)
        ours = [{"key": DISRUPTED, "effect": "NoSchedule"}]
        world.must(lambda: world.get("nodes", "n1")["spec"]["taints"] == theirs + ours, "the taint beside theirs, which are whole")
        world.unsay("n1")
        world.must(lambda: world.get("nodes", "n1")["spec"]["taints"] == theirs, "theirs alone")

    def test_taints_that_are_too_many_to_be_read(self) -> None:
        """A node registers with what it likes, and must not take off what somebody sets then: not through us either."""
        world = self.alone_world()
        world.pool()
        many = [{"key": f"own.example/{i:0200}", "effect": "NoSchedule"} for i in range(1000)]
        for name in ("n1", "n2"):
            world.ours(name)
        world.change("nodes", "n1", lambda n: n["spec"].update(taints=[*many, {"key": "theirs", "effect": "NoExecute"}]))
        world.start()
        for name in ("n1", "n2"):
            world.say(name, source="autoscaling", deadline=600)
        world.must(lambda: world.taints("n2") == [DISRUPTED], "the taint of the other one")
        self.assertQuiet(world, 1, "n1")
        self.assertIn("theirs", world.taints("n1"))

    def test_a_foreign_finalizer_keeps_it(self) -> None:
        world = self.alone_world()
        world.pool()
        ToyAgent(world)
        world.ours("n1")
        world.change("nodes", "n1", lambda n: n["metadata"]["finalizers"].append("example.com/theirs"))
        world.start()
        world.remove("nodeclaims", "c-n1")
        world.must(lambda: world.get("nodes", "n1")["metadata"].get("finalizers") == ["example.com/theirs"], "ours is off")
        self.assertQuiet(world, 1)
        self.assertTrue(world.get("nodeclaims", "c-n1"))
        world.change("nodes", "n1", lambda n: n["metadata"].update(finalizers=[]))
        self.gone(world, "n1")


if __name__ == "__main__":
    unittest.main()
