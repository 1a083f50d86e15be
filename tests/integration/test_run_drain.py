"""Pods: who is asked when, what refusals mean, and the last moment of each."""

from __future__ import annotations

import json
import math
import re
import time
import unittest

from running import DISRUPTED, PATIENCE, POD_RESOURCE, SLACK, DaemonTest, DaemonWorld, epoch

MARGIN = 1.0


class LastMoments(DaemonTest):
    def drained_by(self, world: DaemonWorld, in_sec: float) -> float:
        """T, on the clock of the request log."""
        offset = time.monotonic() - time.time()
        return epoch(world.imds.spot(in_sec)) - MARGIN + offset

    def test_every_grace(self) -> None:
        """None of these may leave by eviction: each is deleted at T less its grace, with the time that is left."""
        world = self.node_world()
        graces = {"zero": 0, "two": 2, "five": 5, "half-minute": 30, "two-minutes": 119, "hour": 3600, "unset": None, "forever": 2**63 - 1}
        for name, grace in graces.items():
            world.pod(name, grace=grace)
            world.api.kubelet.stops_after[name] = math.inf
        world.budget("never", *graces)
        world.start()
        t = self.drained_by(world, 12)
        world.must(lambda: not world.pods(), "the end of all pods", within=20)
        gone_at = time.monotonic()
        self.assertLessEqual(gone_at, t + 0.3 + SLACK, world.story())
        for name, grace in graces.items():
            with self.subTest(name):
                first = world.deletions(name)[0]
                moment = max(t - (30 if grace is None else grace), world.steps("cordon")[0].at)
                asked = 1.0 if len(world.evictions(name)) == 1 else 0.0  # a first eviction is waited for
                self.assertGreaterEqual(first.at, moment - 0.05, world.story())
                self.assertLessEqual(first.at, moment + asked + 0.5 + SLACK, world.story())
                left = t - first.at
                self.assertGreaterEqual(first.grace, 1)
                self.assertLessEqual(first.grace, max(1, 30 if grace is None else grace))
                self.assertLessEqual(first.grace, max(1, math.ceil(left) + 1))
                self.assertEqual(len(world.deletions(name)), 1)
                mark = [s for s in world.steps("mark") if s.what == name]
                self.assertEqual(len(mark), 1)
                self.assertLessEqual(mark[0].entry["sent"], first.at)
                refused = [s.status for s in world.evictions(name)]
                self.assertEqual(set(refused) - {429}, set(), "the budget was never breached")
        self.assertNotEqual(world.evictions("zero"), [])
        self.assertEqual(len(world.evictions("hour")), 1, "asked once, though its last moment had come before")
        options = world.evictions("hour")[0].body["deleteOptions"]
        self.assertTrue(1 <= options["gracePeriodSeconds"] <= 12, options)
        self.assertOrder(world, "signal", "cordon", "mark", "delete")

    def test_job_pods_are_marked_before_they_are_deleted(self) -> None:
        world = self.node_world()
        world.pod("job", grace=60, owner="Job")
        world.budget("never", "job")
        world.imds.spot(8)
        world.start()
        world.must(lambda: not world.pods(), "the deletion")
        seen = [c.object for c in world.api.store.history if c.object["metadata"]["name"] == "job"]
        marked = [o for o in seen if not o["metadata"].get("deletionTimestamp") and o["status"].get("conditions")]
        self.assertEqual(marked[0]["status"]["conditions"][0]["type"], "DisruptionTarget")
        self.assertEqual(marked[0]["status"]["conditions"][0]["reason"], "TerminationByNodeclaimd")

    def test_do_not_disrupt(self) -> None:
        world = self.node_world()
        key = "karpenter.sh/do-not-disrupt"
        world.pod("kept", grace=3, annotations={key: "true"})
        world.pod("kept-an-hour", grace=3, annotations={key: "1h"})
        world.pod("was-kept", grace=3, annotations={key: "5m"})  # it started ten minutes ago
        world.pod("garbage", grace=3, annotations={key: "maybe"})
        world.budget("never", "kept")
        world.start()
        t = self.drained_by(world, 10)
        world.must(lambda: world.pods() == ["kept", "kept-an-hour"], "the others")
        world.must(lambda: world.drain()["pods"]["kept"] == 2, "their mention")
        names = ["default/kept", "default/kept-an-hour"]
        world.must(lambda: world.annotation().get("blocked") == names, "their names")
        self.assertEqual([b["pod"] for b in world.drain()["blocked"]], names)
        self.assertEqual({b["message"] for b in world.drain()["blocked"]}, {"kept by do-not-disrupt"})
        for name in names:
            self.assertEqual(world.log().count(f"Pod {name} is not evicted: kept by do-not-disrupt"), 1, "a line of the journal")
        said = world.must(lambda: [s.body["message"] for s in world.steps("event") if s.what == "DrainBlocked" and "kept by" in s.body["message"]], "the Event")
        self.assertRegex(said[0], r"^Pod default/kept may not leave, nor kept-an-hour: kept by do-not-disrupt; it is deleted at 2\S+Z$")
        world.must(lambda: not world.pods(), "the end")
        self.assertEvictedOnce(world, "was-kept", "garbage")
        word = "; karpenter.sh/do-not-disrupt ends at the deadline"
        self.assertIn(f"Evicted pod default/kept-an-hour{word}", world.log())
        self.assertNotIn(f"Evicted pod default/was-kept{word}", world.log())
        wanted = {"was-kept": False, "garbage": False, "kept": True, "kept-an-hour": True}
        events = lambda: [e for e in world.api.objects("events") if e["reason"] == "NodeDraining"]
        world.must(lambda: {e["involvedObject"]["name"]: e["message"].endswith(word) for e in events()} == wanted, "an Event of each")
        for name, status in (("kept", 429), ("kept-an-hour", 201)):
            self.assertEqual([s.status for s in world.evictions(name)], [status], "one second ahead of its last moment")
            self.assertTrue(t - 4.05 <= world.evictions(name)[0].at <= t - 3.5 + SLACK, world.story())
        self.assertTrue(t - 3.05 <= world.deletions("kept")[0].at <= t - 2.5 + SLACK, world.story())
        self.assertEqual(world.deletions("kept-an-hour"), [])

    def test_grace_that_is_cut(self) -> None:
        """Whoever owns the pod reads how much of its grace period it had."""
        world = self.node_world()
        world.pod("slow", grace=60)
        world.start()
        world.imds.spot(20)
        world.must(lambda: not world.pods(), "the end", within=30)
        events = lambda: [e["message"] for e in world.api.objects("events") if e["reason"] == "NodeDraining"]
        world.must(events, "the pod's Event")
        self.assertRegex(events()[0], r"^Evicted with 1\d of 60 s: node ")
        self.assertRegex(world.log(), r"Evicted pod default/slow with 1\d of 60 s\n")

    def test_what_terminates_already_is_shortened_from_its_first_request(self) -> None:
        world = self.node_world()
        uid = world.pod("long", grace=3600)["metadata"]["uid"]
        world.api.kubelet.stops_after["long"] = math.inf
        world.api.on_loop(lambda: world.api.pods.delete("default", "long", {}))
        asked = time.time()
        world.start()
        world.must(lambda: time.time() - asked > 3.0, "some seconds")
        t = self.drained_by(world, 9)
        world.must(lambda: not world.pods(), "the end", within=20)
        over = time.monotonic() - t
        self.assertTrue(-1.6 <= over <= 0.3 + SLACK, f"{over}\n{world.story()}")
        self.assertEqual(world.evictions("long"), [])
        self.assertEqual(world.deletions("long")[0].body["preconditions"]["uid"], uid)
        self.assertGreaterEqual(world.deletions("long")[0].grace, 10, "counted from the first request")
        self.assertNotIn(1, world.api.kubelet.graces["long"], "killed at once")

    def test_clocks_that_disagree(self) -> None:
        """EC2's clock and the API server's are 95 s apart: a pod that ends within its grace is neither taken for stuck, as Drained
        would then be said while it runs, nor hurried, whoever asked it to go."""
        for ahead in (95.0, -95.0):
            with self.subTest(f"EC2's clock is {ahead} s ahead"):
                world = self.node_world()
                world.imds.clock_ahead_sec = ahead
                for name in ("web-1", "web-2", "left-before"):
                    world.pod(name, grace=25)
                    world.api.kubelet.stops_after[name] = 9
                world.api.on_loop(lambda: world.api.pods.delete("default", "left-before", {}))
                world.start()
                world.imds.spot(60)
                world.must(lambda: len(world.evictions(accepted=True)) == 2, "the evictions")
                world.must(lambda: world.annotation().get("phase") == "Drained" or not world.pods(), "the end", within=30)
                self.assertEqual((world.pods(), world.deletions()), ([], []), world.story())
                world.drained()
                self.assertEqual({n: g for n, g in world.api.kubelet.graces.items() if g != [25]}, {})

    def test_a_pod_that_never_dies(self) -> None:
        world = self.node_world()
        world.pod("stuck", grace=2)
        world.pod("fine", grace=2)
        world.api.kubelet.stuck.add("stuck")
        world.start()
        world.imds.spot(6)
        world.must(lambda: "DrainFailed" in world.events(), "the failure", within=20)
        world.must(lambda: world.annotation().get("phase") == "Failed", "the failure in the annotation")
        self.assertEqual(world.annotation()["remaining"], 1)
        self.assertEqual(world.pods(), ["stuck"])
        self.assertEvictedOnce(world, "fine", "stuck")
        self.assertEqual(world.condition("Drained")[0] or "False", "False")
        self.assertIsNone(world.daemon.poll())
        world.api.on_loop(lambda: world.api.pods.remove(world.api.store.get(POD_RESOURCE, "stuck", "default")))
        world.drained()


class Refusals(DaemonTest):
    def test_budget_that_gives_way(self) -> None:
        world = self.node_world()
        world.pod("web-1")
        world.pod("web-2")
        budget = world.budget("web", "web-1", "web-2", allowed=1)
        world.start()
        world.imds.spot(120)
        world.must(lambda: budget.asked >= 4, "some attempts")
        self.assertEqual(len(world.evictions(accepted=True)), 1, "one at a time")
        left = world.must(lambda: len(world.pods()) == 1 and world.pods(), "the end of the other one")
        world.must(lambda: world.annotation().get("blocked") == [f"default/{left[0]}"], "the blocked pod by name")
        world.must(lambda: "DrainBlocked" in world.events(), "the Event")
        event = next(e for e in world.api.objects("events") if e["reason"] == "DrainBlocked")
        self.assertIn("web", event["message"])
        world.must(lambda: [b["budget"] for b in world.drain()["blocked"]] == ["web"], "the budget in status.json")
        tries = [s.at for s in world.evictions(left[0])]
        for wait, (one, two) in zip((1, 2, 3), zip(tries, tries[1:])):
            self.assertTrue(wait * 0.74 <= two - one <= wait - 0.1 + SLACK, tries)
        budget.allowed = 1
        world.must(lambda: not world.pods(), "the second one")
        self.assertEvictedOnce(world, "web-1", "web-2")

    def test_a_budget_that_blocks_for_long(self) -> None:
        """Who waits for a person says so in one Event that is counted, not in a new one each time."""
        world = self.node_world()
        world.pod("web-1", grace=2)
        world.pod("web-2", grace=2)
        world.budget("never", "web-1", "web-2")
        world.start()
        request = '{"id":"r-1","mode":"graceful"}'
        world.change_node(lambda n: n["metadata"]["annotations"].update({"nodeclaimd.io/drain-request": request}))

        def said() -> list[tuple[str, int]]:
            found = [e for e in world.api.objects("events") if e["reason"] == "DrainBlocked"]
            return [(e["involvedObject"]["kind"], e["count"]) for e in found]

        world.must(lambda: said() == [("Node", 2)], "the second time", within=45)
        event = next(e for e in world.api.objects("events") if e["reason"] == "DrainBlocked")
        self.assertNotEqual(event["firstTimestamp"], event["lastTimestamp"])
        self.assertEqual(world.pods(), ["web-1", "web-2"])

    def test_a_console_that_is_told_of_what_holds_a_drain(self) -> None:
        """Once in a drain, and only of what has lasted: what holds it, since when, until when, and what to do."""
        world = self.node_world()
        world.pod("kept", grace=2, annotations={"karpenter.sh/do-not-disrupt": "true"})
        world.pod("web", grace=2)
        world.budget("never", "web")
        world.start()
        lines = lambda: [json.loads(line.partition(": ")[2]) for line in world.console().splitlines()]
        self.assertEqual(world.run("drain").code, 0)
        world.must(lambda: world.log().count("Pod default/kept may not leave") == 2, "the second time", within=45)
        said = world.must(lambda: len(lines()) == 2 and lines()[1], "the line")
        self.assertEqual((said["drain"], said["reason"], said["remaining"], said["deadline"]), ("evicting", "DrainBlocked", 2, None))
        self.assertLess(epoch(said["since"]), time.time() - 20)
        self.assertRegex(said["message"], "^Pod default/(kept may not leave[^:]*: kept by do-not-disrupt|web may not leave[^:]*: PodDisruptionBudget never: .*); waiting "
                         r"without end since \S+Z, for no deadline is known: (kubectl annotate pod POD karpenter.sh/do-not-disrupt-|mend that budget's pods, or change it \(kubectl get pdb\)); or, without asking a budget, delete the pod")
        world.must(lambda: world.log().count("Pod default/web may not leave") == 2, "the other one's second time", within=45)
        self.assertEqual(len(lines()), 2)

    def test_many_budgets_make_one_event_each(self) -> None:
        """Each blocked pod has one Event, whose count is patched."""
        world = self.node_world()
        for i in range(20):
            world.pod(f"web-{i:02}")
            world.budget(f"never-{i:02}", f"web-{i:02}")
        world.start()
        world.imds.spot(600)
        again = lambda: {s.what for s in world.steps("other") if "/events/" in s.what}
        world.must(lambda: len(again()) >= 20, "each named again", within=60)
        self.assertEqual(len([s for s in world.steps("event") if s.what == "DrainBlocked"]), 20)

    def test_two_budgets(self) -> None:
        """Nobody can evict such a pod; it goes at its last moment."""
        world = self.node_world()
        world.pod("twice", grace=3)
        world.budget("one", "twice", allowed=9)
        world.budget("two", "twice", allowed=9)
        world.start()
        world.imds.spot(10)
        world.must(lambda: not world.pods(), "the deletion")
        self.assertEqual([s.status for s in world.evictions("twice")], [500])
        self.assertEqual(len(world.deletions("twice")), 1)

    def test_namespace_that_is_being_deleted(self) -> None:
        world = self.node_world()
        world.api.put("namespaces", {"metadata": {"name": "doomed", "finalizers": ["kubernetes"]}})
        world.pod("d", namespace="doomed", grace=2)
        world.api.on_loop(
            lambda: world.api.store.delete(next(r for r, _, n in world.api.store.objects if n == "doomed"), "doomed")
        )
        world.start()
        world.imds.spot(9)
        world.must(lambda: not world.pods(), "the deletion")
        self.assertEqual({s.status for s in world.evictions("d")}, {403})

    def test_another_pod_of_the_same_name(self) -> None:
        """A StatefulSet's pod comes back while it is being evicted: the uid keeps the new one safe until it is seen."""
        world = self.node_world()
        old = world.pod("db-0")["metadata"]["uid"]
        swapped: list[str] = []

        def swap(req: object) -> bool:
            if not swapped and "/eviction" in getattr(req, "path"):
                store = world.api.store
                pod = store.get(POD_RESOURCE, "db-0", "default")
                world.api.pods.remove(pod)
                pod["metadata"] = {"name": "db-0", "ownerReferences": pod["metadata"]["ownerReferences"]}
                swapped.append(store.create(POD_RESOURCE, pod, "default")["metadata"]["uid"])
            return False

        world.api.server.before_request.append(swap)
        world.start()
        world.imds.spot(120)
        world.must(lambda: swapped and not world.pods(), "the new one's end")
        asked = [(s.body["deleteOptions"]["preconditions"]["uid"], s.status) for s in world.evictions("db-0")]
        self.assertEqual(asked, [(old, 409), (swapped[0], 201)])

    def test_404_of_a_server_that_lags(self) -> None:
        """NodeRestriction looks into a cache: a pod bound a moment ago is said not to exist. That is not its end."""
        world = self.node_world()
        world.pod("web")
        text = json.dumps(
            {"kind": "Status", "status": "Failure", "reason": "NotFound", "message": 'pod "web" not found', "code": 404}
        )
        world.api.server.fault(
            "status", path="/eviction", count=1, status=404, body=text, content_type="application/json"
        )
        world.start()
        world.imds.spot(120)
        world.drained()
        self.assertEqual([s.status for s in world.evictions("web")], [404, 201])
        self.assertEqual(world.pods(), [])

    def test_budget_that_others_write_too(self) -> None:
        """Ten seconds of conflicts over a budget's status, and the API server gives up with a 409: the pod is still there."""
        world = self.node_world()
        world.pod("web")
        text = json.dumps(
            {
                "kind": "Status",
                "status": "Failure",
                "reason": "Conflict",
                "message": 'Operation cannot be fulfilled on poddisruptionbudgets.policy "web": the object has been modified; '
                "please apply your changes to the latest version and try again",
                "details": {"name": "web", "group": "policy", "kind": "poddisruptionbudgets"},
                "code": 409,
            }
        )
        world.api.server.fault("status", path="/eviction", count=2, status=409, body=text, content_type="application/json")
        world.start()
        world.imds.spot(120)
        world.drained()
        self.assertEqual([s.status for s in world.evictions("web")], [409, 409, 201])
        self.assertEqual(world.metrics()["nodeclaimd_evictions_total"]['{answer="gone"}'], 0)

    def test_a_denial_with_any_number(self) -> None:
        """KubeVirt's webhook denies with 429; others with 404 or 503. The pod is named, with what the webhook says."""
        for status, reason in ((429, "TooManyRequests"), (404, "NotFound"), (503, "ServiceUnavailable")):
            with self.subTest(status):
                world = self.node_world(profile="m5.large")
                world.pod("vm")
                said = 'admission webhook "vm.example" denied the request: Eviction triggered evacuation of VMI "a/vm"'
                text = json.dumps(
                    {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": said, "code": status}
                )
                world.api.server.fault(
                    "status", path="/eviction", status=status, body=text, content_type="application/json"
                )
                world.start()
                self.assertEqual(world.run("drain").code, 0)
                world.must(lambda: world.annotation().get("blocked") == ["default/vm"], "its mention")
                world.must(lambda: any(s.what == "DrainBlocked" and said in s.body["message"] for s in world.steps("event")), "the Event")
                world.must(lambda: len(world.evictions("vm")) == 4, "four evictions")
                times = [s.at for s in world.evictions("vm")]
                self.assertGreater(times[3] - times[0], 0.75 * (1 + 2 + 3), "it backs off as from a budget")
                self.assertIn(said, world.drain()["blocked"][0]["message"])
                self.assertEqual(world.pods(), ["vm"])

    def test_refused_by_a_policy(self) -> None:
        world = self.node_world()
        world.pod("web", grace=2)
        text = json.dumps(
            {
                "kind": "Status",
                "status": "Failure",
                "reason": "Forbidden",
                "message": "admission webhook says no",
                "code": 403,
            }
        )
        world.api.server.fault("status", path="/eviction", status=403, body=text, content_type="application/json")
        world.start()
        world.imds.spot(9)
        world.must(lambda: not world.pods(), "the deletion")
        self.assertLessEqual(len(world.evictions("web")), 4, "after one, two and three seconds, and the last chance")
        self.assertEqual([s.status for s in world.evictions("web")][:2], [403, 403])

    def test_refused_by_the_authorizer(self) -> None:
        """Who reads of it learns how many pods that holds, which, and what to allow."""
        world = self.node_world()
        for i in range(8):
            world.pod(f"web-{i}", grace=2)
        for method, verb, what in (("POST", "create", "pods/eviction"), ("DELETE", "delete", "pods")):
            said = f'pods "web" is forbidden: User "system:node:n" cannot {verb} resource "{what}" in API group "" in the namespace "default"'
            text = json.dumps({"kind": "Status", "status": "Failure", "reason": "Forbidden", "message": said, "code": 403})
            world.api.server.fault("status", method=method, path="/pods/", status=403, body=text, content_type="application/json")
        told = lambda reason: next((e["message"] for e in world.api.objects("events") if e["reason"] == reason), "")
        world.start()
        world.imds.spot(14)
        remedy = "allow create of pods/eviction to group system:nodes"
        world.must(lambda: f"remedy: {remedy}; or delete the pod, which" in world.run("status").out, "the remedy")
        world.must(lambda: re.search(f"; {remedy}$", told("DrainBlocked")), "what refuses it")
        world.must(lambda: world.annotation().get("more") == 3, "those beside the five")
        world.phase_is("failed")
        world.must(lambda: re.search("pods remaining: 8: .*; allow delete of pods to group system:nodes$", told("DrainFailed")), "the failure")
        self.assertIn("remedy: allow delete of pods to group system:nodes; or delete the pod, which", world.run("status").out)


class Order(DaemonTest):
    def test_a_blocked_pod_holds_up_a_critical_one_while_its_grace_allows(self) -> None:
        """And who was not asked for any reason is, before it is deleted."""
        world = self.node_world()
        critical = {"priorityClassName": "system-cluster-critical"}
        world.pod("blocked", grace=3)
        world.pod("kept", grace=3, annotations={"karpenter.sh/do-not-disrupt": "true"})
        world.pod("dns", grace=3, spec=critical)
        world.pod("watcher", grace=3, spec=critical)
        world.budget("never", "blocked", "watcher")
        world.start()
        world.imds.spot(20)
        world.must(lambda: world.evictions("dns", accepted=True), "the eviction of the critical one", within=25)
        world.must(lambda: len(world.evictions("watcher")) >= 2, "asked once more", within=8)
        self.assertGreater(world.evictions("dns")[0].at - world.evictions("blocked")[0].at, 10)
        self.assertEqual(world.deletions(), [])
        world.must(lambda: not world.pods(), "the end", within=25)
        self.assertEqual({s.what for s in world.deletions()}, {"blocked", "watcher"})
        self.assertEvictedOnce(world, "dns", "kept")

    def test_a_webhook_that_hangs_holds_up_no_other_namespace(self) -> None:
        world = self.node_world()
        for i in range(8):
            world.pod(f"a{i}", namespace="aaa")
        names = [f"z{i}" for i in range(10)]
        for name in names:
            world.pod(name, namespace="zzz")
        budget = world.budget("never", *names, namespace="zzz")
        said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "InternalError", "code": 500}
        said["message"] = 'Internal error occurred: failed calling webhook "a.example.com": context deadline exceeded'
        world.api.server.fault(
            "status",
            path="/namespaces/aaa/pods/.*/eviction",
            status=500,
            body=json.dumps(said),
            content_type="application/json",
            delay_sec=4.0,
        )
        world.start()
        world.imds.spot(120)
        hooked = [f"a{i}" for i in range(8)]
        world.must(lambda: all(len(world.evictions(n)) >= 2 for n in hooked), "two tries of each", within=30)
        world.must(lambda: "webhook" in str(world.drain()["blocked"]), "why they do not leave")
        world.api.on_loop(lambda: setattr(budget, "allowed", len(names)))
        world.must(lambda: world.pods() == hooked, "the end of the others", within=12)
        self.assertEvictedOnce(world, *names)
        self.assertEqual([s.what for s in world.deletions()], [])

    def test_tiers(self) -> None:
        world = self.node_world()
        world.pod("plain", grace=10)
        world.api.kubelet.stops_after["plain"] = 1.0
        world.pod("critical", spec={"priorityClassName": "system-cluster-critical"})
        world.pod("last", owner="DaemonSet", spec={"priorityClassName": "system-node-critical"})
        world.change_node(lambda n: n["spec"].update(taints=[DISRUPTED]))
        world.pod("daemon", owner="DaemonSet")
        world.start()
        world.imds.spot(120)
        world.must(lambda: not world.pods(), "all pods")
        self.assertEqual([s.what for s in world.evictions()], ["plain", "daemon", "critical", "last"])
        first, second = world.evictions()[:2]
        self.assertGreaterEqual(second.at - first.at, 0.95)

    def test_a_pod_that_tolerates_everything(self) -> None:
        """It is evicted like any other, by a request without a deadline too; while it stands nothing is drained."""
        world = self.node_world(profile="m5.large")
        every = {"tolerations": [{"operator": "Exists"}]}
        world.pod("shipper", grace=2, spec=every)
        world.pod("agent", owner="DaemonSet", spec=every)
        budget = world.budget("never", "shipper")
        world.start()
        done = world.run("drain")
        self.assertEqual(done.code, 0, done.err)
        world.must(lambda: world.annotation().get("blocked") == ["default/shipper"], "its mention")
        self.assertNotEqual(world.condition("Drained")[0], "True")
        self.assertEqual(world.drain()["pods"]["excluded"]["tolerating"], 1)
        world.api.on_loop(lambda: setattr(budget, "allowed", 1))
        world.must(lambda: world.pods() == ["agent"], "its end", within=20)
        world.drained()
        self.assertEqual(world.deletions(), [])

    def test_a_pod_that_its_controller_puts_back(self) -> None:
        """After its first return it is left and named, and the node is drained beside it."""
        world = self.node_world(profile="m5.large")
        every = {"tolerations": [{"operator": "Exists"}]}
        world.pod("shipper-0", grace=1, spec=every, controller="shipper")
        world.start()
        self.assertEqual(world.run("drain").code, 0)
        world.must(lambda: not world.pods(), "its end")
        world.pod("shipper-1", grace=1, spec=every, controller="shipper")
        world.drained()
        self.assertEvictedOnce(world, "shipper-0")
        self.assertEqual((world.pods(), len(world.evictions())), (["shipper-1"], 1))
        self.assertEqual(world.drain()["pods"]["excluded"]["put-back"], 1)
        self.assertEqual([p["reason"] for p in world.drain()["blocked"]], ["put-back"])
        self.assertEqual(world.annotation()["blocked"], ["default/shipper-1"])
        drained = [s.body["message"] for s in world.steps("event") if s.what == "NodeDrained"]
        self.assertIn("besides default/shipper-1 (it is put back on this node)", drained[0])

    def test_a_tier_goes_at_once(self) -> None:
        world = self.node_world()
        names = [f"web-{i:02}" for i in range(40)]
        for name in names:
            world.pod(name)
            world.api.kubelet.stops_after[name] = 12.0 * PATIENCE
        world.start()
        world.imds.spot(120)
        world.must(lambda: len(world.evictions(accepted=True)) == 40, "all evictions")
        offset = time.time() - time.monotonic()
        world.must(lambda: not world.pods(), "their end")
        last = max(s.at for s in world.evictions()) + offset
        self.assertLess(last, min(world.api.kubelet.gone.values()), "all were asked before the first had gone")
        self.assertEvictedOnce(world, *names)

    def test_bound_after_the_cordon(self) -> None:
        world = self.node_world()
        world.pod("web")
        world.start()
        world.imds.spot(120)
        world.must(lambda: not world.pods() and world.steps("cordon"), "the first")
        world.pod("late")
        world.must(lambda: not world.pods(), "the late one")
        world.drained()
        self.assertEvictedOnce(world, "web", "late")
        world.pod("very-late")  # after the end: the phase goes back
        world.must(lambda: not world.pods(), "the very late one")
        world.must(lambda: world.condition("Drained")[0] == "True" and world.drain()["phase"] == "drained", "the end")
        self.assertEqual(len(world.steps("cordon")), 1)

    def test_volumes(self) -> None:
        world = self.node_world()
        volume = "kubernetes.io/csi/ebs.csi.aws.com^vol-1"
        world.pod("db", spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]})
        world.change_node(lambda n: n["status"].update(volumesAttached=[{"name": volume, "devicePath": "x"}]))
        world.start()
        world.imds.spot(120)
        world.phase_is("volume-wait")
        world.must(lambda: world.annotation().get("phase") == "VolumeWait", "the annotation")
        self.assertEqual(world.steps("drained"), [])
        world.change_node(lambda n: n["status"].update(volumesAttached=[]))
        world.drained()

    def test_volumes_of_pods_that_stay_are_not_waited_for(self) -> None:
        self.volume_of_a_pod_that_stays({})

    def test_volume_of_a_claim_that_was_filled_up(self) -> None:
        """What the API server takes of whoever writes the claim."""
        self.volume_of_a_pod_that_stays({"labels": {f"l{n}": "x" * 63 for n in range(14_000)}, "annotations": {"a": "\0"}})

    def test_volume_of_a_pod_beside_some_with_many(self) -> None:
        """Whom a drain leaves alone may name as many claims as it likes: it keeps nobody's from being asked for."""
        world = self.node_world()
        many = [{"name": str(n), "persistentVolumeClaim": {"claimName": str(n)}} for n in range(200)]
        for name in ("a", "b", "y", "z"):
            world.pod(name, namespace=name, owner="DaemonSet", spec={"volumes": many})
        self.pod_with_a_volume(world, {})
        world.start()
        world.imds.spot(120)
        world.drained()

    def test_a_volume_that_cannot_be_read(self) -> None:
        """Who waits for it learns why: at once where it is refused, once where it is asked for again and again."""
        for status in (403, 500):
            with self.subTest(status):
                world = self.node_world()
                self.pod_with_a_volume(world, {})
                text = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no volumes today", "code": status})
                world.api.server.fault("status", path="/persistentvolumes/", status=status, body=text, content_type="application/json")
                world.start()
                world.imds.spot(120)
                world.phase_is("volume-wait")
                asked = 3 if status == 500 else 1
                world.must(lambda: sum("/persistentvolumes/" in s.what for s in world.steps("look")) >= asked, "the requests", within=30)
                world.must(lambda: "warning: volume of default/data cannot be read" in world.log(), "the answer")
                found = [line for line in world.log().splitlines() if line.startswith("warning: volume of default/data cannot be read")]
                self.assertEqual(len(found), 1, world.log())
                self.assertIn("no volumes today", found[0])
                world.change_node(lambda n: n["status"].update(volumesAttached=[]))
                world.drained()

    def test_a_list_of_volumes_that_is_too_large(self) -> None:
        """What the pod keeps is not known: waited for, and said by its name, once."""
        world = self.node_world()
        self.pod_with_a_volume(world, {})
        many = [{"name": f"{'v' * 60}{n}", "emptyDir": {}} for n in range(250)]
        claims = [*many, {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
        world.pod("agent-2", owner="DaemonSet", spec={"volumes": claims})
        world.start()
        world.imds.spot(120)
        world.drained()
        found = [line for line in world.log().splitlines() if line.startswith("warning: volumes of pod ")]
        self.assertEqual(len(found), 1, world.log())
        self.assertIn("default/agent-2, which stays", found[0])

    def volume_of_a_pod_that_stays(self, meta: dict[str, Any]) -> None:
        world = self.node_world()
        self.pod_with_a_volume(world, meta)
        world.start()
        world.imds.spot(120)
        world.drained()

    def pod_with_a_volume(self, world: DaemonWorld, meta: dict[str, Any]) -> None:
        world.api.put(
            "persistentvolumeclaims", {"metadata": {"name": "data", **meta}, "spec": {"volumeName": "pv-1"}}, "default"
        )
        csi = {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}
        ref = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"}
        world.api.put("persistentvolumes", {"metadata": {"name": "pv-1"}, "spec": {"csi": csi, "claimRef": ref}})
        claims = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
        world.pod("agent", owner="DaemonSet", spec={"volumes": claims})
        attached = [{"name": "kubernetes.io/csi/ebs.csi.aws.com^vol-1", "devicePath": "x"}]
        world.change_node(lambda n: n["status"].update(volumesAttached=attached))

    def test_linger(self) -> None:
        world = self.node_world(drain="    linger: 8s\n")
        world.start()
        world.imds.spot(120)
        world.drained()
        self.assertGreaterEqual(world.steps("drained")[0].at - world.steps("cordon")[0].at, 7.9)


if __name__ == "__main__":
    unittest.main()
