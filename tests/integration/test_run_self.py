"""signal: self: the node gives Karpenter its own deadline, where a policy keeps its hands off everything else."""

from __future__ import annotations

import os
import signal
import time
import unittest
from typing import Any, Callable, Optional

from running import SLACK, DaemonTest, DaemonWorld, Step, epoch

from wire import Request

TIME_KEY = "karpenter.sh/nodeclaim-termination-timestamp"
CLAIM = "default-abc12"


class SelfTest(DaemonTest):
    def self_world(self, role: bool = True, guard: bool = True, name: Optional[str] = None, **more: Any) -> DaemonWorld:
        world = self.node_world(config="  signal: self\n", **more)
        world.api.claims_readable = world.api.claims_deletable = role
        world.api.claims_guarded = guard
        claim = world.api.put(
            "nodeclaims",
            {
                "metadata": {"name": CLAIM, "finalizers": ["karpenter.sh/termination"]},
                "spec": {"nodeClassRef": {"name": "x"}},
                "status": {"nodeName": name or world.node_name},
            },
        )
        self.other = world.api.put("nodeclaims", {"metadata": {"name": "another"}, "spec": {}, "status": {}})
        owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": CLAIM, "uid": claim["metadata"]["uid"]}
        self.uid = claim["metadata"]["uid"]
        world.change_node(lambda n: n["metadata"].update(ownerReferences=[{**owner, "blockOwnerDeletion": True}]))
        return world

    @staticmethod
    def claim(world: DaemonWorld) -> dict[str, Any]:
        return next(c for c in world.api.objects("nodeclaims") if c["metadata"]["name"] == CLAIM)

    def writes(self, world: DaemonWorld, dry: bool = False) -> list[Step]:
        """What it sent to NodeClaims besides reading: in earnest, or dry."""
        rows = [s for s in world.steps() if "/nodeclaims" in s.entry["path"] and s.entry["method"] != "GET"]
        return [s for s in rows if ("dryRun=All" in s.entry["path"]) == dry]

    @staticmethod
    def state(world: DaemonWorld) -> tuple[str, Optional[str]]:
        found = (world.status().get("daemon") or {}).get("signal_self") or {}
        return found.get("state", ""), found.get("why")

    def is_handed_over(self, world: DaemonWorld) -> bool:
        meta = self.claim(world)["metadata"]
        return "deletionTimestamp" in meta and TIME_KEY in meta.get("annotations", {})


class Used(SelfTest):
    def test_a_notice(self) -> None:
        """Stamped to the second, then deleted by uid; after SIGNAL, beside the drain, which goes on."""
        world = self.self_world(margin="15s")
        world.pod("web-1", grace=2)
        world.start()
        world.must(lambda: self.state(world) == ("trusted", None), "trust")
        before = time.monotonic()
        world.imds.spot(120)
        world.must(lambda: self.is_handed_over(world), "the end of the claim", 5)
        self.assertLess(time.monotonic() - before, 2.5 + SLACK)
        stamp = self.claim(world)["metadata"]["annotations"][TIME_KEY]
        until = epoch(world.annotation()["deadline"]) - 15
        self.assertTrue(until - 1 < epoch(stamp) <= until, f"{stamp}, {until}")
        made = self.writes(world)
        self.assertEqual([(s.entry["method"], s.status) for s in made], [("PATCH", 200), ("DELETE", 200)])
        self.assertEqual(made[0].body["metadata"], {"uid": self.uid, "annotations": {TIME_KEY: stamp}})
        self.assertEqual(made[1].body["preconditions"], {"uid": self.uid})
        self.assertLess(world.steps("signal")[0].entry["sent"], made[0].at)
        world.must(lambda: self.state(world)[0] == "handed-over", "the status")
        world.must(lambda: any(s.what == "HandedToKarpenter" for s in world.steps("event")), "the Event")
        world.must(lambda: not world.pods(), "our own drain")
        self.assertEqual(len(self.writes(world)), 2)

    def test_killed_in_between(self) -> None:
        """After the stamp, and after the deletion: each is done once, whatever was heard of it."""
        for method in ("PATCH", "DELETE"):
            with self.subTest(method):
                world = self.self_world()
                world.pod("blocked", grace=2)
                world.budget("never", "blocked")
                world.start()
                world.must(lambda: self.state(world)[0] == "trusted", "trust")
                done = self.kill_at(world, method)
                world.imds.spot(120)
                world.must(lambda: done, "the kill")
                world.daemon.wait(10)
                world.start()
                world.must(lambda: self.is_handed_over(world), "the end of the claim", 8)
                world.must(lambda: self.state(world)[0] == "handed-over", "the status")
                made = [(s.entry["method"], s.status) for s in self.writes(world)]
                self.assertEqual([m for m, _ in made], ["PATCH", "DELETE"], made)

    @staticmethod
    def kill_at(world: DaemonWorld, method: str) -> list[bool]:
        """kill -9 once the server has done it and before the answer is seen."""
        done: list[bool] = []

        def look(req: Request) -> bool:
            if not done and req.method == method and "/nodeclaims/" in req.path and not req.query.get("dryRun"):
                done.append(True)
                os.kill(world.daemon.pid, signal.SIGKILL)
                return True
            return False

        world.api.server.before_answer.append(look)
        return done

    def test_a_time_that_stands(self) -> None:
        """The policy lets it be added once: whoever was first is right."""
        world = self.self_world()
        standing = "2030-01-02T03:04:05Z"
        self.stamp(world, standing)
        world.start()
        world.must(lambda: self.state(world)[0] == "trusted", "trust")
        world.imds.spot(120)
        world.must(lambda: self.is_handed_over(world), "the end of the claim", 5)
        self.assertEqual([s.entry["method"] for s in self.writes(world)], ["DELETE"])
        self.assertEqual(self.claim(world)["metadata"]["annotations"][TIME_KEY], standing)

    @staticmethod
    def stamp(world: DaemonWorld, text: str) -> None:
        def go() -> None:
            res = next(k for k in world.api.store.objects if k[0].plural == "nodeclaims")[0]
            claim = world.api.store.get(res, CLAIM)
            claim["metadata"].setdefault("annotations", {})[TIME_KEY] = text
            world.api.store.replace(res, claim)

        world.api.on_loop(go)

    def test_registered_under_a_notice(self) -> None:
        """Nothing was tried before: the dry runs go beside the signal."""
        world = self.self_world()
        world.imds.spot(120)
        world.start()
        world.must(lambda: self.is_handed_over(world), "the end of the claim", 6)
        self.assertEqual([s.entry["method"] for s in self.writes(world)], ["PATCH", "DELETE"])


class NotUsed(SelfTest):
    def refuses(self, why: str, check: Callable[[DaemonWorld], None] = lambda w: None, **more: Any) -> DaemonWorld:
        """It says so, three times; the drain goes on; nothing is written to any claim."""
        world = self.self_world(**more)
        world.pod("web-1", grace=2)
        world.start()
        world.must(lambda: self.state(world)[0] == "refused", "a refusal")
        self.assertIn(why, self.state(world)[1] or "")
        world.imds.spot(120)
        world.must(lambda: not world.pods(), "the drain")
        world.drained()
        events = [s for s in world.steps("event") if s.what == "SignalSelfRefused"]
        self.assertTrue(events and all(why in s.body["message"] for s in events))
        self.assertIn("signal: self is not used", world.log())
        self.assertEqual(self.writes(world), [], world.story())
        self.assertNotIn("annotations", self.claim(world)["metadata"])
        check(world)
        return world

    def test_without_the_policy(self) -> None:
        self.refuses("the guard policy is missing", guard=False)

    def test_without_the_role(self) -> None:
        self.refuses("the ClusterRole is missing", role=False)

    def test_anothers_claim(self) -> None:
        """The Node's ownerReference names it, but its status names another Node."""
        self.refuses("status.nodeName", name="ip-10-9-9-9.ec2.internal")

    def test_silent_server(self) -> None:
        """No answer to the dry runs is no trust, and holds nothing up."""
        world = self.self_world()
        world.pod("web-1", grace=2)
        world.api.server.before_request.append(
            lambda req: "/nodeclaims/" in req.path and req.method == "PATCH"  # the connection is cut
        )
        world.start()
        world.imds.spot(120)
        world.must(lambda: not world.pods(), "the drain")
        world.drained()
        self.assertEqual(self.state(world)[0], "unknown")
        self.assertNotIn("deletionTimestamp", self.claim(world)["metadata"])

    def test_not_configured(self) -> None:
        plain = self.node_world()
        plain.api.claims_readable = plain.api.claims_deletable = True
        plain.start()
        plain.must(lambda: self.state(plain) == ("off", None), "that it is off")
        self.assertEqual(self.writes(plain, dry=True), [])


if __name__ == "__main__":
    unittest.main()
