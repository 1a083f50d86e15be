"""Nodes whose instance is gone: the taint where EC2 says terminated, no request where the option is off."""

from __future__ import annotations

import unittest
from typing import Any

from controlling import SLACK, ControlTest, instance_id
from terminating import INST, CloudWorld

from wire import Request

KEY = "node.kubernetes.io/out-of-service"
OURS = {"key": KEY, "value": "nodeclaimd", "effect": "NoExecute"}
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-11-22T01:59:00Z"}


class OutOfService(ControlTest):
    def cloud_world(self, mode: str = "karpenter") -> CloudWorld:
        world = self.enterContext(CloudWorld(mode))
        world.marks_nodes = True
        self.addCleanup(self.judge, world)
        return world

    def begin(self, world: CloudWorld, *args: str, ready: bool = True) -> None:
        world.start("--out-of-service-taint", "--region", INST.region, "--ec2-endpoint", world.ec2.url, "--imds", world.imds.url,
                    *args, ready=ready)

    def gone(self, world: CloudWorld, name: str, state: str = "terminated") -> str:
        """The instance of NAME ends; what Kubernetes' controllers then write of its Node."""
        machine = world.machine(name)
        world.ec2.states[machine] = state
        world.change("nodes", name, lambda n: n["spec"].update(taints=[UNREACHABLE]))
        world.fall_silent(name)
        return machine

    def asked(self, world: CloudWorld, machine: str = "") -> list[dict[str, Any]]:
        rows = [e for e in world.ec2.server.log.snapshot() if e.get("action") == "DescribeInstances"]
        return [e for e in rows if machine in e["body"]]

    def taint(self, world: CloudWorld, name: str) -> dict[str, Any]:
        found = [t for t in world.get("nodes", name)["spec"].get("taints") or [] if t["key"] == KEY]
        return found[0] if found else {}

    def event(self, world: CloudWorld, reason: str) -> dict[str, Any]:
        return world.must(lambda: [s for s in world.accepted("event") if s.what == reason], f"Event {reason}")[0].body

    def test_gone_and_back(self) -> None:
        for mode in ("karpenter", "standalone"):
            with self.subTest(mode=mode):
                world = self.cloud_world(mode)
                world.pool()
                if mode == "karpenter":
                    world.pair("n1")
                    world.pair("n2")
                else:
                    world.ours("n1")
                    world.ours("n2")
                self.begin(world)
                before = len(world.writes())
                machine = self.gone(world, "n1")
                world.must(lambda: self.taint(world, "n1"), "the taint")
                self.assertEqual(world.get("nodes", "n1")["spec"]["taints"], [UNREACHABLE, OURS])
                patch = world.writes()[before]
                self.assertEqual((patch.kind, patch.what, patch.body["spec"]), ("node", "n1", {"taints": [UNREACHABLE, OURS]}))
                self.assertEqual(set(patch.body["metadata"]), {"resourceVersion", "uid"})
                event = self.event(world, "InstanceGone")
                self.assertEqual((event["type"], event["involvedObject"]["name"]), ("Normal", "n1"))
                self.assertIn(machine, event["message"])
                rows = world.status()
                self.assertEqual((rows["n1"]["state"], rows["n2"]["state"]), ("InstanceGone", ""))
                self.assertEqual((len(self.asked(world)), len(world.writes()) - before), (1, 1), world.story())
                world.change("nodes", "n1", lambda n: n["status"]["conditions"][0].update(status="True"))
                world.must(lambda: not self.taint(world, "n1"), "its end")
                self.assertEqual(world.get("nodes", "n1")["spec"]["taints"], [UNREACHABLE])
                self.event(world, "InstanceBack")
                self.assertEqual((world.status()["n1"]["state"], world.ends()), ("", []))

    def test_every_other_state(self) -> None:
        world = self.cloud_world()
        states = ("pending", "running", "shutting-down", "stopping", "stopped")
        for state in states:
            world.pair(state)
        self.begin(world)
        for state in states:
            self.gone(world, state, state)
        world.must(lambda: len(self.asked(world)) == len(states), "the questions")
        self.assertQuiet(world, 1)
        self.assertEqual((world.writes(), world.accepted("event")), ([], []), world.story())

    def test_a_taint_of_a_former_leader(self) -> None:
        """EC2 says that the instance runs: it is taken off while the Node is still unreachable, and nobody else's is."""
        world = self.cloud_world()
        world.pair("n1")
        self.gone(world, "n1", "running")
        other = {"key": "a/b", "value": "c", "effect": "NoSchedule"}
        world.change("nodes", "n1", lambda n: n["spec"].update(taints=[other, OURS, UNREACHABLE]))
        self.begin(world)
        world.must(lambda: not self.taint(world, "n1"), "its end")
        self.assertEqual(world.get("nodes", "n1")["spec"]["taints"], [other, UNREACHABLE])
        self.assertIn("is running", self.event(world, "InstanceBack")["message"])

    def test_killed_between_the_write_and_its_answer(self) -> None:
        world = self.cloud_world()
        world.pair("n1")
        self.begin(world)
        died = world.kill_at(0, before=False)
        self.gone(world, "n1")
        world.must(lambda: died, "the write")
        self.begin(world)
        world.must(lambda: len(self.asked(world)) == 2, "the question of the next one")
        self.assertQuiet(world, 1)
        self.assertEqual((len(world.writes()), self.taint(world, "n1")), (1, OURS))

    def test_an_instance_that_ec2_does_not_know(self) -> None:
        world = self.cloud_world()
        world.pair("n1")
        self.begin(world)
        machine = self.gone(world, "n1")
        del world.ec2.states[machine]
        world.change("nodes", "n1", lambda n: n["metadata"]["labels"].update(a="b"))
        world.pair("n2")
        world.fall_silent("n2")
        self.assertEqual(self.event(world, "InstanceUnknown")["type"], "Warning")
        world.must(lambda: self.asked(world, instance_id("c-n2")), "the question about the other one")
        self.assertQuiet(world, 1)
        self.assertEqual(self.taint(world, "n2"), {}, world.story())

    def test_a_node_that_is_not_that_instance(self) -> None:
        """By its NodeClaim; by its name; by the name that EC2 has for it. Nothing is written, and each is told once."""
        world = self.cloud_world()
        world.pair("n1")
        machine = world.machine("n3")
        world.node("n2", instance="c-n3")
        world.node(instance_id("c-n4"), instance="c-n3")
        world.ec2.states[machine] = "running"
        world.ec2.names[machine] = "n3"
        self.begin(world)
        world.change("nodes", "n1", lambda n: n["spec"].update(providerID=f"aws:///us-west-2a/{machine}"))
        for name in ("n1", "n2", instance_id("c-n4")):
            world.fall_silent(name)
        world.must(lambda: len([s for s in world.accepted("event") if s.what == "InstanceMismatch"]) == 3, "the Events")
        self.assertQuiet(world, 1)
        self.assertEqual((world.writes(), len(self.asked(world))), ([], 1), world.story())

    def test_an_instance_of_another_region(self) -> None:
        """A node chooses its region: EC2 is asked in one alone, and the questions about others go on."""
        world = self.cloud_world()
        world.node("n1")
        world.node("n2")
        world.change("nodes", "n1", lambda n: n["spec"].update(providerID="aws:///eu-north-9a/i-0123456789abcdef0"))
        self.begin(world)
        world.fall_silent("n1")
        self.event(world, "InstanceUnknown")
        self.assertIn("i-0123456789abcdef0 is in eu-north-9, not in", world.log())
        world.ec2.states[instance_id("n2")] = "terminated"
        world.fall_silent("n2")
        world.must(lambda: self.taint(world, "n2"), "the taint of the other one")
        self.assertEqual(len(self.asked(world)), 1)

    def test_denied(self) -> None:
        """The questions pause, all of them; nothing else does."""
        world = self.cloud_world()
        world.pair("n1")
        world.pair("n2")
        world.ec2.denied = True
        self.begin(world)
        self.gone(world, "n1")
        world.must(lambda: "allow ec2:DescribeInstances to the role" in world.log(), "a word about it")
        self.assertNotIn("AgentConfig", world.log())
        self.gone(world, "n2")
        end = world.say("n2")
        self.assertRelayed(world, "c-n2", end)
        self.assertQuiet(world, 1)
        self.assertEqual((len(self.asked(world)), self.taint(world, "n1")), (1, {}), world.story())

    def test_a_cluster_without_node_claims(self) -> None:
        world = self.cloud_world()
        world.api.karpenter_version = ""
        world.node("n1")
        self.begin(world, ready=False)
        world.must(lambda: world.ask("/readyz")[0] == 200, "readiness")
        world.ec2.states[instance_id("n1")] = "terminated"
        world.fall_silent("n1")
        world.must(lambda: self.taint(world, "n1") == OURS, "the taint")

    def test_off(self) -> None:
        """The requests are those of a controller that does not know the option: of Nodes the metadata alone, nothing of EC2."""
        seen: list[set[str]] = []
        for options in ((), ("--out-of-service-taint",)):
            world = self.enterContext(CloudWorld("karpenter"))
            self.addCleanup(self.judge, world)
            accepts: set[str] = set()

            def note(req: Request, accepts: set[str] = accepts) -> bool:
                if req.method == "GET" and req.path == "/api/v1/nodes":
                    accepts.add(req.headers.get("accept", ""))
                return False

            world.api.server.before_request.append(note)
            world.pair("n1")
            world.start("--region", INST.region, "--ec2-endpoint", world.ec2.url, "--imds", world.imds.url, *options)
            if not options:
                self.gone(world, "n1")
                world.node("n2", taints=[OURS])
                world.pair("n3")
                world.say("n3")
                world.relayed("c-n3")
                self.assertQuiet(world, SLACK, "n1", "n2")
                self.assertEqual((world.ec2.server.log.snapshot(), world.imds.server.log.snapshot(), world.writes("n1", "n2")),
                                 ([], [], []))
                self.assertEqual(world.status()["n1"]["state"], "")
            seen.append(accepts)
            world.kill()
        thin = [["PartialObjectMetadata" in accept for accept in accepts] for accepts in seen]
        self.assertTrue(thin[0] and all(thin[0]) and thin[1] and not any(thin[1]), seen)

    def test_needs_a_region(self) -> None:
        world = self.cloud_world()
        code, _, err = world.run("run", "--out-of-service-taint")
        self.assertEqual(code, 2, err)
        self.assertIn("--out-of-service-taint needs --region or AWS_REGION", err)


if __name__ == "__main__":
    unittest.main()
