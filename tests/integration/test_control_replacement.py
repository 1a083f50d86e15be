"""Replacement first: the Deployment of a pod that waits on a draining node is restarted, once, and no other one."""

from __future__ import annotations

import time
import unittest
from typing import Any, Optional

from controlling import ControlTest, ControlWorld, Step, stamp
from rbac import CONTROLLER_USER, RELAY, REPLACEMENT

FIRST_KEY, RESTARTED_KEY = "nodeclaimd.io/replacement-first", "nodeclaimd.io/restarted-at"
ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
PLACES = 256  # NC_REPLACEMENT_PODS_MAX
BARE = 8  # MAX_BARE
AGAIN = 15.0  # the controller looks after a node that says that its pods wait


def owner(kind: str, obj: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"apiVersion": "apps/v1", "kind": kind, "name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"], "controller": True}]


class Replacement(ControlTest):
    def replacing_world(self, *args: str, role: bool = True) -> ControlWorld:
        world = self.control_world()
        world.api.rules[CONTROLLER_USER] = RELAY + (REPLACEMENT if role else ())
        world.pair("n1")
        world.pair("n2")
        self.args = args or ("--replacement-first", "web")
        return world

    def app(
        self,
        world: ControlWorld,
        name: str,
        node: str = "n1",
        namespace: str = "web",
        annotations: Optional[dict[str, str]] = None,
        kind: str = "Deployment",
        **spec: Any,
    ) -> dict[str, Any]:
        """A Deployment, its ReplicaSet and its pod on that node."""
        notes = {FIRST_KEY: "true"} if annotations is None else annotations
        template = {"metadata": {"labels": {"app": name}, "annotations": dict(notes)}}
        whole = {"replicas": 1, "strategy": ROLLING, "template": template, **spec}
        made = world.api.put("deployments", {"metadata": {"name": name}, "spec": whole}, namespace)
        owned = {"name": f"{name}-1", "ownerReferences": owner(kind, made)}
        small = world.api.put("replicasets", {"metadata": owned, "spec": {"replicas": 1}}, namespace)
        self.pod(world, f"{name}-1-a", node, namespace, owner("ReplicaSet", small), annotations)
        return made

    def pod(
        self,
        world: ControlWorld,
        name: str,
        node: str,
        namespace: str,
        owners: list[dict[str, Any]],
        annotations: Optional[dict[str, str]] = None,
    ) -> None:
        notes = {FIRST_KEY: "true"} if annotations is None else annotations
        meta = {"name": name, "annotations": notes, "ownerReferences": owners}
        world.api.put("pods", {"metadata": meta, "spec": {"nodeName": node}, "status": {"phase": "Running"}}, namespace)

    def wait_on(self, world: ControlWorld, node: str = "n1", since: float = -1, count: int = 1) -> None:
        more = {"waiting": count, "waitingSince": stamp(time.time() + since)} if count else {}
        world.say(node, source="operator", deadline=None, phase="Evicting", **more)

    def restarted(self, world: ControlWorld, name: str, namespace: str = "web") -> Optional[str]:
        key = (world.api.resource("deployments"), namespace, name)
        made = world.api.on_loop(lambda: world.api.store.objects[key])
        return made["spec"]["template"]["metadata"].get("annotations", {}).get(RESTARTED_KEY)

    def lists(self, world: ControlWorld) -> list[Step]:
        return [s for s in world.steps("look") if s.what == "pods"]

    def told(self, world: ControlWorld, reason: str) -> list[tuple[str, str]]:
        """(pod, message)"""
        found = [s for s in world.steps("event") if s.what == reason]
        return [(s.body["involvedObject"]["name"], s.body["message"]) for s in found]

    def test_restarts_the_deployment(self) -> None:
        """At once, as the API server's clock has it; and never again in this drain."""
        world = self.replacing_world()
        made = self.app(world, "shop")
        world.start(*self.args)
        self.wait_on(world)
        world.must(lambda: self.restarted(world, "shop"), "the restart", within=5)
        patch = world.steps("restart")[0]
        self.assertEqual(patch.body["metadata"], {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]})
        self.assertEqual(patch.body["spec"], {"template": {"metadata": {"annotations": {RESTARTED_KEY: self.restarted(world, "shop")}}}})
        self.assertIn("fieldSelector=spec.nodeName%3Dn1%2C", self.lists(world)[0].entry["path"])
        world.must(lambda: self.told(world, "ReplacementStarted"), "its Event")
        event = next(s for s in world.steps("event") if s.what == "ReplacementStarted")
        self.assertEqual(event.body["involvedObject"]["namespace"], "web")
        self.assertIn("restarted Deployment web/shop", world.log())
        world.must(lambda: len(self.lists(world)) >= 2, "a second look", within=AGAIN + 10)
        looked = self.lists(world)[1]
        world.must(lambda: [s for s in world.steps("look") if s.what == "shop" and s.at > looked.at], "at the Deployment")
        self.assertEqual(len(world.steps("restart")), 1, world.story())
        self.wait_on(world, count=0)
        self.assertEqual(len(self.lists(world)), 2, world.story())

    def test_another_leader_does_not_repeat_it(self) -> None:
        world = self.replacing_world()
        self.app(world, "shop")
        world.start(*self.args)
        self.wait_on(world)
        world.must(lambda: self.restarted(world, "shop"), "the restart")
        world.kill()
        seen = len([s for s in world.steps("look") if s.what == "shop"])
        world.start(*self.args)
        world.must(lambda: len([s for s in world.steps("look") if s.what == "shop"]) > seen, "its look at the Deployment")
        world.must(lambda: world.metric("leads") == 1, "its metrics")
        self.assertEqual(len(world.steps("restart")), 1, world.story())

    def test_changed_meanwhile(self) -> None:
        """What was read is changed before it is patched: that is looked at anew, not overwritten."""
        world = self.replacing_world()
        self.app(world, "shop")

        def scale(req: Any) -> bool:
            if req.method == "PATCH" and "/deployments/" in req.path and not done:
                done.append(True)
                res = world.api.resource("deployments")
                made = world.api.store.get(res, "shop", "web")
                made["spec"]["replicas"] = 3
                world.api.store.replace(res, made, "web")
            return False

        done: list[bool] = []
        world.api.server.before_request.append(scale)
        world.start(*self.args)
        self.wait_on(world)
        world.must(lambda: world.steps("restart"), "the patch")
        self.assertEqual([s.status for s in world.steps("restart")], [409], world.story())
        world.must(lambda: self.told(world, "ReplacementNotPossible"), "the second look", within=AGAIN + 10)
        self.assertIsNone(self.restarted(world, "shop"))

    def test_no_replacement(self) -> None:
        """Each is said once, with the reason, on the pod; nothing is written but that."""
        world = self.replacing_world()
        never: dict[str, Any] = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}, "type": "RollingUpdate"}
        self.app(world, "three", replicas=3)
        self.app(world, "recreated", strategy={"type": "Recreate"})
        self.app(world, "unsurged", strategy=never)
        self.app(world, "paused", paused=True)
        self.app(world, "rolled", kind="Rollout")
        owned = {"metadata": {"name": "db", "uid": "u-db"}}
        self.pod(world, "db-0", "n1", "web", owner("StatefulSet", owned))
        self.pod(world, "bare", "n1", "web", [])
        world.start(*self.args)
        self.wait_on(world)
        world.must(lambda: len(self.told(world, "ReplacementNotPossible")) == 7, "seven Events")
        said = dict(self.told(world, "ReplacementNotPossible"))
        for pod, reason in (
            ("three-1-a", "exactly one replica"),
            ("recreated-1-a", "not RollingUpdate"),
            ("unsurged-1-a", "maxSurge"),
            ("paused-1-a", "paused"),
            ("rolled-1-a", "its ReplicaSet has no Deployment"),
            ("db-0", "its controller is not a Deployment"),
            ("bare", "its controller is not a Deployment"),
        ):
            self.assertIn(reason, said.get(pod, ""), world.story())
        world.must(lambda: len(self.lists(world)) >= 2, "a second look", within=AGAIN + 10)
        world.must(lambda: len([s for s in world.steps("look") if s.what == "three"]) >= 2, "at all of them")
        self.assertEqual(len(self.told(world, "ReplacementNotPossible")), 7, world.story())
        self.assertEqual(world.steps("restart"), [])

    def test_hostile_node(self) -> None:
        """It reports whatever it likes: of the pods on it, of those that ask for it, in what is named; once in ten minutes."""
        world = self.replacing_world()
        self.app(world, "mine")
        self.app(world, "quiet", annotations={})
        self.app(world, "of-another", node="n2")
        self.app(world, "elsewhere", namespace="shop")
        world.start(*self.args)
        for i, since in enumerate((-1, 3600, -7200, 86400)):
            self.wait_on(world, since=since, count=1000 + i)
        world.must(lambda: self.restarted(world, "mine"), "the restart")
        first = self.restarted(world, "mine")
        self.wait_on(world, since=7200)
        world.must(lambda: len(self.lists(world)) >= 2, "a second look", within=AGAIN + 10)
        looked = self.lists(world)[-1]
        world.must(lambda: [s for s in world.steps("look") if s.what == "mine" and s.at > looked.at], "at the Deployment")
        self.assertEqual(self.restarted(world, "mine"), first)
        self.assertEqual([s.what for s in world.steps("restart")], ["mine"], world.story())
        asked = {s.entry["path"] for s in world.steps("look") if "namespaces" in s.entry["path"] and "/leases" not in s.entry["path"]}
        self.assertEqual({p for p in asked if not p.startswith(("/api/v1/namespaces/web/pods?", "/apis/apps/v1/namespaces/web/"))}, set())
        for name in ("quiet", "of-another"):
            self.assertIsNone(self.restarted(world, name))
        self.assertIsNone(self.restarted(world, "elsewhere", "shop"))

    def test_a_namespace_without_the_role(self) -> None:
        """Said, with what is missing; the others are served all the same."""
        world = self.replacing_world("--replacement-first", "aaa", "--replacement-first", "web")
        world.refused_is_wanted = True
        self.app(world, "shop")
        world.start(*self.args)
        self.wait_on(world)
        world.must(lambda: self.restarted(world, "shop"), "the restart in the other one")
        self.assertIn("403", {str(s.status) for s in self.lists(world)})
        self.assertIn("optional/replacement-role.yaml", world.log())

    def test_neighbours_that_take_every_place(self) -> None:
        """Pods that sort first and cannot be replaced, with labels of a megabyte: the one that can is."""
        world = self.replacing_world()
        for i in range(40):
            self.pod(world, f"a-{i:03}", "n1", "web", [])
            self.pod(world, f"b-{i:03}", "n1", "web", owner("StatefulSet", {"metadata": {"name": "db", "uid": "u-db"}}))
        for i in range(40):  # more than any list that is read as a whole
            meta = {"name": f"c-{i}", "labels": {f"l{n}": "x" * 63 for n in range(14000)}}
            world.api.put("pods", {"metadata": meta, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}, "web")
        for i in range(PLACES + 10):
            self.app(world, f"d{i:03}", replicas=3)
        self.app(world, "shop")
        world.start(*self.args)
        self.wait_on(world)
        world.must(lambda: self.restarted(world, "shop"), "the restart", within=60)
        self.assertEqual([s.what for s in world.steps("restart")], ["shop"], world.story())
        reported = [pod for pod, _ in self.told(world, "ReplacementNotPossible")]
        self.assertEqual(len(reported), len(set(reported)), "one is reported again")
        bare = [pod for pod in reported if not pod.startswith("d")]
        self.assertLessEqual(len(bare), BARE * len(self.lists(world)), "more than a few of them in one look")

    def test_a_list_that_is_cut_off(self) -> None:
        """What has come of it is seen to."""
        world = self.replacing_world()
        self.app(world, "a-shop")
        for i in range(40):
            self.pod(world, f"z-{i}", "n1", "web", [], {"note": "x" * 4000})
        world.api.server.fault("truncate", path="/namespaces/web/pods")
        world.start(*self.args)
        self.wait_on(world)
        world.must(lambda: self.restarted(world, "a-shop"), "the restart", within=10)

    def test_off(self) -> None:
        """Without the option no pod is read, nor anything of apps."""
        world = self.replacing_world()
        self.app(world, "shop")
        world.start()
        self.wait_on(world)
        self.assertRelayed(world, "c-n2", world.say("n2"))  # which came later
        paths = [s.entry["path"] for s in world.steps()]
        self.assertEqual([p for p in paths if "/pods" in p or "/apis/apps" in p], [], world.story())

    def test_many_nodes(self) -> None:
        """A few at once, every one in the end."""
        world = self.replacing_world()
        names = [f"m{i}" for i in range(25)]
        for name in names:
            world.pair(name)
            self.app(world, f"app-{name}", node=name, annotations={FIRST_KEY: "true"} | {f"k{n}": "x" * 40 for n in range(3)})
        world.start(*self.args)
        for name in names:
            self.wait_on(world, name)
        world.must(lambda: all(self.restarted(world, f"app-{name}") for name in names), "all of them", within=20)
        self.assertEqual(len(world.steps("restart")), len(names), world.story())


if __name__ == "__main__":
    unittest.main()
