"""Lifecycle actions of Auto Scaling groups: completed once the node has drained, for its own instance only, and not at all
where the option is off."""

from __future__ import annotations

import unittest
from typing import Any

from autoscaling import AutoScaling, Member
from controlling import ControlTest, instance_id
from terminating import INST, CloudWorld
from wire import Request

DESCRIBE, STATE = "DescribeInstances", "DescribeAutoScalingInstances"
HEARTBEAT, COMPLETE = "RecordLifecycleActionHeartbeat", "CompleteLifecycleAction"


class GroupWorld(CloudWorld):
    """Nodes of a group, as EC2 names them."""

    def __init__(self, mode: str, elects: bool = False) -> None:
        super().__init__(mode, elects)
        self.groups = AutoScaling(INST)

    def __enter__(self) -> "GroupWorld":
        self.groups.server.start()
        super().__enter__()
        return self

    def __exit__(self, *unused: object) -> None:
        super().__exit__(*unused)
        self.groups.server.stop()

    def options(self) -> tuple[str, ...]:
        return ("--complete-lifecycle-actions", "--region", INST.region, "--ec2-endpoint", self.ec2.url,
                "--autoscaling-endpoint", self.groups.url, "--imds", self.imds.url)

    def of_group(self, name: str, **more: Any) -> Member:
        """A Node of a group that ends its instance."""
        instance = instance_id(name)
        self.ec2.names[instance] = name
        self.node(name)
        return self.groups.ends(instance, **more)

    def phase(self, name: str, phase: str, **more: Any) -> None:
        self.say(name, source="autoscaling", phase=phase, **{"deadline": None, **more})

    def word(self, name: str) -> Any:
        return self.status()[name]["lifecycleAction"]

    def asked_of_ec2(self) -> list[str]:
        return [e["action"] for e in self.ec2.server.log.snapshot()]

    def events_of(self, reason: str) -> list[dict[str, Any]]:
        return [s.body for s in self.accepted("event", reason)]


class AutoScalingTest(ControlTest):
    def group_world(self, mode: str = "karpenter", elects: bool = False) -> GroupWorld:
        world = self.enterContext(GroupWorld(mode, elects))
        self.addCleanup(self.judge, world)
        return world

    def judge(self, world: GroupWorld) -> None:  # type: ignore[override]
        super().judge(world)
        self.assertEqual([e for e in world.groups.asked() if "refused" in e], [])

    @staticmethod
    def forms(world: GroupWorld) -> dict[str, set[str]]:
        """In which form Nodes are asked for, from now on."""
        found: dict[str, set[str]] = {}

        def look(req: Request) -> bool:
            path, _, query = req.path.partition("?")
            if path == "/api/v1/nodes":
                found.setdefault("watch" if "watch" in req.query else "list", set()).add(req.headers["accept"])
            return False

        world.api.server.before_request.append(look)
        return found

    def only_watches(self, world: GroupWorld) -> None:
        """Each request to the API server, as a controller beside Karpenter makes them that has nothing to do."""
        self.assertEqual(
            sorted((s.kind, s.what) for s in world.steps()),
            [("lease", "karpenter-leader-election")] * 2 + [("list", "nodeclaims"), ("list", "nodes"), ("look", "v1"),
                                                            ("look", "v1"), ("watch", "nodeclaims"), ("watch", "nodes")],
            world.story(),
        )

    def test_completes(self) -> None:
        """Beside Karpenter, of a Node that no NodeClaim has: a heartbeat while pods leave, then the end, each once."""
        world = self.group_world()
        member = world.of_group("n1", group="my group/1")
        world.node("other")
        world.start(*world.options())
        world.phase("n1", "Evicting")
        world.must(lambda: member.heartbeats == 1, "a heartbeat")
        self.assertEqual(member.state, "Terminating:Wait")
        world.must(lambda: world.word("n1") == "waiting", "its word")
        world.phase("n1", "Drained")
        world.must(lambda: member.state == "Terminating:Proceed", "its end")
        (event,) = world.must(lambda: world.events_of("LifecycleActionCompleted"), "the Event")
        self.assertEqual((event["involvedObject"]["kind"], event["involvedObject"]["name"], event["type"]), ("Node", "n1", "Normal"))
        world.must(lambda: world.word("n1") == "completed", "its word")
        self.assertIsNone(world.word("other"))
        self.assertEqual(world.asked_of_ec2(), [DESCRIBE])
        self.assertEqual([e["action"] for e in world.groups.asked()], [STATE, HEARTBEAT, COMPLETE])
        given = world.groups.asked(COMPLETE)[0]["given"]
        self.assertEqual(
            given,
            {"Action": COMPLETE, "Version": "2011-01-01", "AutoScalingGroupName": "my group/1", "LifecycleHookName": "nodeclaimd",
             "InstanceId": instance_id("n1"), "LifecycleActionResult": "CONTINUE"},
        )
        self.assertEqual(world.writes(), [])
        for verb in ("describe-instance", "describe-lifecycle", "record-heartbeat", "complete-action"):
            self.assertEqual(world.metric("write_answers_total", f'{{verb="{verb}",answer="done"}}'), 1, verb)

    def test_failed(self) -> None:
        """A drain that its deadline ended is over as well. The hook is the one that is named."""
        world = self.group_world("standalone")
        world.groups.hooks = {"t/n-d"}
        member = world.of_group("n1", hook="t/n-d")
        world.start(*world.options(), "--lifecycle-hook", "t/n-d")
        world.phase("n1", "Failed", deadline=-1)
        world.must(lambda: member.result == "CONTINUE", "its end")
        self.assertEqual(member.heartbeats, 0)

    def test_off(self) -> None:
        """Nothing of AWS is asked, and the Nodes are watched as metadata only."""
        world = self.group_world()
        member = world.of_group("n1")
        forms = self.forms(world)
        world.start(*world.options()[1:])
        world.phase("n1", "Evicting")
        world.must(lambda: world.status()["n1"]["phase"] == "Evicting", "its phase")
        world.phase("n1", "Drained")
        world.must(lambda: world.status()["n1"]["phase"] == "Drained", "its phase")
        self.assertIsNone(world.word("n1"))
        self.assertEqual((world.groups.asked(), world.asked_of_ec2(), member.state), ([], [], "Terminating:Wait"))
        self.assertEqual(world.imds.server.log.snapshot(), [])
        metadata = "application/json;as=%s;g=meta.k8s.io;v=v1,application/json"
        self.assertEqual(forms, {"list": {metadata % "PartialObjectMetadataList"}, "watch": {metadata % "PartialObjectMetadata"}})
        self.only_watches(world)

    def test_on_only_the_nodes_are_watched_otherwise(self) -> None:
        world = self.group_world()
        forms = self.forms(world)
        world.start(*world.options())
        world.node("n1")
        world.must(lambda: world.status().get("n1"), "the Node")
        self.assertEqual(forms, {"list": {"application/json"}, "watch": {"application/json"}})
        self.only_watches(world)
        self.assertEqual((world.groups.asked(), world.asked_of_ec2()), ([], []))

    def test_somebody_else_completed_it(self) -> None:
        world = self.group_world()
        member = world.of_group("n1")
        world.start(*world.options())
        world.phase("n1", "Evicting")
        world.must(lambda: member.heartbeats == 1, "a heartbeat")
        member.state = "Terminating:Proceed"
        world.phase("n1", "Drained")
        (event,) = world.must(lambda: world.events_of("LifecycleActionCompleted"), "the Event")
        self.assertIn("somebody else has completed it", event["message"])
        self.assertEqual((event["type"], member.result), ("Normal", ""))
        world.must(lambda: world.word("n1") == "none", "its word")
        self.assertEqual(len(world.groups.asked(COMPLETE)), 1)

    def test_denied(self) -> None:
        """It is said what is to be allowed, and once; a Node of another group is not delayed."""
        world = self.group_world()
        member = world.of_group("n1")
        world.groups.denied = {COMPLETE}
        world.start(*world.options())
        world.phase("n1", "Drained")
        (event,) = world.must(lambda: world.events_of("LifecycleActionFailed"), "the Event")
        self.assertEqual(event["type"], "Warning")
        self.assertIn("autoscaling:CompleteLifecycleAction", event["message"])
        self.assertIn("allow autoscaling:CompleteLifecycleAction to the role", world.log())
        world.must(lambda: world.word("n1") == "failed", "its word")
        world.groups.denied = set()
        other = world.of_group("n2")
        world.phase("n2", "Drained")
        world.must(lambda: other.result == "CONTINUE", "the other one's end")
        self.assertEqual((member.result, len(world.events_of("LifecycleActionFailed"))), ("", 1))
        self.assertEqual(len(world.groups.asked(COMPLETE)), 2)

    def test_a_wrong_hook(self) -> None:
        world = self.group_world()
        world.of_group("n1")
        world.start(*world.options(), "--lifecycle-hook", "another")
        world.phase("n1", "Drained")
        (event,) = world.must(lambda: world.events_of("LifecycleHookNotFound"), "the Event")
        self.assertIn("--lifecycle-hook", event["message"])
        self.assertIn("Lifecycle hook another does not exist", world.log())

    def test_another_nodes_instance(self) -> None:
        """A Node says that it is another one's machine, whose group waits: that goes on waiting for its own drain."""
        world = self.group_world()
        member = world.of_group("n1")
        world.node("evil", instance="n1")
        world.start(*world.options())
        world.phase("evil", "Drained")
        (event,) = world.must(lambda: world.events_of("InstanceMismatch"), "the Event")
        self.assertEqual(event["involvedObject"]["name"], "evil")
        self.assertNotIn("n1", event["message"])
        world.must(lambda: world.word("evil") == "mismatch", "its word")
        self.assertEqual((world.groups.asked(), member.state), ([], "Terminating:Wait"))
        world.phase("n1", "Drained")
        world.must(lambda: member.result == "CONTINUE", "the end of its own drain")

    def test_another_region(self) -> None:
        """The region is the controller's, whatever a Node's providerID names."""
        world = self.group_world()
        world.of_group("n1")
        world.change("nodes", "n1", lambda n: n["spec"].update(providerID=f"aws:///evil-1a/{instance_id('n1')}"))
        world.start(*world.options())
        world.phase("n1", "Drained")
        world.must(lambda: world.events_of("LifecycleActionFailed"), "the Event")
        self.assertIn("is in evil-1, not in us-west-2", world.log())
        self.assertEqual((world.groups.asked(), world.asked_of_ec2()), ([], []))

    def test_of_no_group_or_not_yet(self) -> None:
        world = self.group_world()
        member = world.of_group("n1")
        member.state = "Terminating"
        world.of_group("n2")
        del world.groups.members[instance_id("n2")]
        world.start(*world.options())
        for name in ("n1", "n2"):
            world.phase(name, "Drained")
        world.must(lambda: world.word("n2") == "none", "it is of no group")
        world.must(lambda: len(world.groups.asked(STATE)) >= 3, "it is asked again")
        self.assertEqual((world.word("n1"), world.groups.asked(COMPLETE)), ("pending", []))
        member.state = "Terminating:Wait"
        world.must(lambda: member.result == "CONTINUE", "its end")

    def test_killed_before_the_end(self) -> None:
        """Whoever leads next finds out where it stands."""
        world = self.group_world()
        member = world.of_group("n1")
        fault = world.groups.server.fault("hold", count=1)
        world.start(*world.options())
        world.phase("n1", "Drained")
        world.must(lambda: fault.held, "the first question")
        world.kill()
        world.start(*world.options())
        world.must(lambda: member.result == "CONTINUE", "its end")
        world.kill()
        before = len(world.groups.asked(COMPLETE))
        world.start(*world.options())
        world.must(lambda: world.word("n1") == "none", "that it was completed")
        self.assertEqual(len(world.groups.asked(COMPLETE)), before)

    def test_throttled(self) -> None:
        world = self.group_world()
        member = world.of_group("n1")
        fault = world.groups.server.fault("status", count=3, status=503)
        world.start(*world.options())
        world.phase("n1", "Drained")
        world.must(lambda: member.result == "CONTINUE", "its end")
        self.assertEqual(fault.hits, 3)
        self.assertEqual(world.events_of("LifecycleActionFailed"), [])

    def test_without_node_claims(self) -> None:
        """A cluster of groups has no NodeClaims: the controller is ready and does it all the same."""
        world = self.group_world()
        world.api.karpenter_version = ""
        member = world.of_group("n1")
        world.start(*world.options(), ready=False)
        world.phase("n1", "Drained")
        world.must(lambda: member.result == "CONTINUE", "its end")
        world.must(lambda: world.ask("/readyz")[0] == 200, "its health")


if __name__ == "__main__":
    unittest.main()
