"""Instances that are ended through EC2: only after Drained or the deadline, and once more is no harm."""

from __future__ import annotations

import unittest
from typing import Any

from controlling import KARPENTER, SLACK, UNREGISTERED, ControlTest, ToyAgent, epoch
from terminating import INST, CloudWorld


class Instances(ControlTest):
    def cloud_world(self) -> CloudWorld:
        world = self.enterContext(CloudWorld("standalone"))
        self.addCleanup(self.judge, world)
        world.pool()
        return world

    def begin(self, world: CloudWorld, *args: str) -> None:
        world.start(*world.options(), "--region", INST.region, *args)

    def machine(self, world: CloudWorld, name: str, **more: Any) -> str:
        world.ours(name, **more)
        return world.machine(name)

    def gone(self, world: CloudWorld, name: str) -> None:
        world.must(lambda: world.is_gone(name), f"the end of {name}\n{world.ends()}", 20)

    def test_after_drained(self) -> None:
        world = self.cloud_world()
        agent = ToyAgent(world, delay_sec=1.2)
        machine, other = self.machine(world, "n1"), self.machine(world, "n2")
        self.begin(world)
        world.remove("nodeclaims", "c-n1")
        world.must(lambda: world.ends(machine), "TerminateInstances")
        drained = next(s for s in world.accepted("status") if any(
            c["type"] == "Drained" and c["status"] == "True" for c in s.body["status"]["conditions"]))
        self.assertLessEqual(drained.sent, world.ends(machine)[0]["recv"])
        self.assertEqual(world.ec2.states, {**world.ec2.states, machine: "shutting-down", other: "running"})
        world.must(lambda: world.condition("c-n1", "InstanceTerminating")[0] == "True", "the condition")
        self.assertTrue(world.get("nodes", "n1"), "it may still write")
        world.fall_silent("n1")
        self.gone(world, "n1")
        self.assertEqual((len(world.ends()), len(agent.drains["n1"])), (1, 1))
        self.assertEqual([e for e in world.ec2.server.log.snapshot() if e["status"] != 200], [])

    def test_after_the_deadline(self) -> None:
        world = self.cloud_world()
        machine = self.machine(world, "n1", spec={"terminationGracePeriod": "2s"})
        self.begin(world, "--margin", "1s")
        world.remove("nodeclaims", "c-n1")
        world.must(lambda: world.ends(machine), "TerminateInstances")
        end = epoch(world.get("nodeclaims", "c-n1")["metadata"]["deletionTimestamp"]) + 2
        self.assertGreaterEqual(world.ends()[0]["time"], end)
        self.assertLess(world.ends()[0]["time"], end + 2 + SLACK)

    def test_one_that_does_not_exist_any_more(self) -> None:
        world = self.cloud_world()
        ToyAgent(world)
        del world.ec2.states[self.machine(world, "n1")]
        self.begin(world)
        world.remove("nodeclaims", "c-n1")
        self.gone(world, "n1")
        self.assertEqual(len(world.ends()), 1)

    def test_a_claim_whose_node_never_came(self) -> None:
        world = self.cloud_world()
        world.claim("c-n1", finalizers=[])
        machine = world.machine("n1")
        self.begin(world)
        world.must(lambda: world.condition("c-n1", "Registered")[1] == "NodeNotFound", "its state")
        world.remove("nodeclaims", "c-n1")
        self.gone(world, "n1")
        self.assertEqual(world.ec2.states[machine], "shutting-down")

    def test_a_node_that_says_it_is_anothers_machine(self) -> None:
        """Its claim is booting. What that Node says changes nothing for it: it is registered with the Node of the name that
        EC2 has for the instance."""
        world = self.cloud_world()
        unregistered = [{"key": UNREGISTERED, "effect": "NoExecute"}]
        world.claim("c-n2", finalizers=[])
        machine = world.machine("n2")
        world.ec2.names[machine] = "n2"
        world.node("evil", instance="c-n2", taints=unregistered)
        world.say("evil")
        self.begin(world, "--node-identity", "ec2")
        world.must(lambda: [e for e in world.ec2.server.log.snapshot() if e.get("action") == "DescribeInstances"], "the question")
        world.must(lambda: world.condition("c-n2", "Registered")[1] == "NodeNotFound", "its state")
        world.remove("nodes", "evil")
        self.assertQuiet(world, 1, "c-n2")
        world.node("evil", instance="c-n2", taints=unregistered)
        world.node("n2", instance="c-n2", taints=unregistered)
        world.must(lambda: world.condition("c-n2", "Initialized")[0] == "True", "its life")
        self.assertEqual(world.get("nodeclaims", "c-n2")["status"]["nodeName"], "n2")
        self.assertEqual(world.get("nodes", "evil")["metadata"].get("ownerReferences") or [], [])
        self.assertEqual((world.ec2.states[machine], world.accepted("delete"), world.ends()), ("running", [], []), world.story())

    def test_a_node_that_says_it_is_karpenters(self) -> None:
        """It was created with Karpenter's finalizer, and its agent is silent: it goes all the same."""
        world = self.cloud_world()
        world.claim("c-n1", finalizers=[])
        world.node("n1", instance="c-n1", finalizers=[KARPENTER], taints=[{"key": UNREGISTERED, "effect": "NoExecute"}])
        machine = world.machine("n1")
        self.begin(world, "--ending-ceiling", "2s")
        world.must(lambda: world.condition("c-n1", "Initialized")[0] == "True", "its life")
        world.remove("nodeclaims", "c-n1")
        world.must(lambda: world.ends(machine), "TerminateInstances")
        world.fall_silent("n1")
        self.gone(world, "n1")

    def test_refused_then_granted(self) -> None:
        """Without the permission nothing is forgotten: the Node and its claim stay, and it is said why."""
        world = self.cloud_world()
        world.refused_is_wanted = True
        ToyAgent(world)
        machine = self.machine(world, "n1")
        world.ec2.denied = True
        self.begin(world)
        world.remove("nodeclaims", "c-n1")
        world.must(lambda: world.ends(), "TerminateInstances")
        world.must(lambda: "UnauthorizedOperation" in world.log() and "allow ec2:TerminateInstances to the role" in world.log(), "a word about it")
        self.assertQuiet(world, 1, "n1")
        self.assertTrue(world.get("nodes", "n1") and world.get("nodeclaims", "c-n1"))
        self.assertLessEqual(len(world.ends()), 6)
        world.ec2.denied = False
        world.must(lambda: world.ec2.states[machine] == "shutting-down", "the end of the machine", 40)
        world.fall_silent("n1")
        self.gone(world, "n1")

    def test_one_broken_connection(self) -> None:
        """It is said, and no more than a pause: the next attempt succeeds, with the same credentials. The Node goes only then,
        and nobody is sent to look at the role; of the API server nothing is counted."""
        for kind in ("reset", "close", "half"):
            with self.subTest(kind=kind):
                world = self.cloud_world()
                agent = ToyAgent(world)
                machine = self.machine(world, "n1")
                fault = world.ec2.server.fault(kind, count=1)
                self.begin(world)
                world.remove("nodeclaims", "c-n1")
                world.must(lambda: world.ends(machine), "the next attempt", 20)
                world.fall_silent("n1")
                self.gone(world, "n1")
                self.assertEqual([e["status"] for e in world.ec2.server.log.snapshot()], [0, 200])
                self.assertEqual((fault.hits, world.ec2.states[machine], len(agent.drains["n1"])), (1, "shutting-down", 1))
                self.assertLessEqual(world.ends(machine)[0]["recv"], world.accepted("delete-node", "n1")[0].at)
                self.assertEqual(len(world.imds.server.log.snapshot()), 3, "a token, the role's name, its credentials")
                self.assertEqual(world.log().count("warning: ec2: TerminateInstances: "), 1, world.log())
                self.assertNotIn("allow ec2:", world.log())
                self.assertEqual(world.metric("api_failures_total"), 0)

    def test_a_kept_connection_that_broke(self) -> None:
        """It is opened anew, and nobody has to know."""
        world = self.cloud_world()
        ToyAgent(world)
        machines = {name: self.machine(world, name) for name in ("n1", "n2")}
        self.begin(world)
        for name, machine in machines.items():
            world.remove("nodeclaims", f"c-{name}")
            world.must(lambda: world.ends(machine), f"the end of {machine}", 20)
            world.fall_silent(name)
            self.gone(world, name)
            if name == "n1":
                world.ec2.server.fault("reset", count=1)
        self.assertEqual([e["status"] for e in world.ec2.server.log.snapshot()], [200, 0, 200])
        self.assertNotIn("warning", world.log())

    def test_killed_between_the_call_and_its_answer(self) -> None:
        world = self.cloud_world()
        agent = ToyAgent(world)
        machine = self.machine(world, "n1")
        fault = world.ec2.server.fault("hold", count=1)
        self.begin(world)
        world.remove("nodeclaims", "c-n1")
        world.must(lambda: fault.held, "TerminateInstances")
        world.kill()
        self.begin(world)
        world.must(lambda: len(world.ends(machine)) >= 2, "the same question")
        world.fall_silent("n1")
        self.gone(world, "n1")
        self.assertEqual((world.ec2.states[machine], len(agent.drains["n1"])), ("shutting-down", 1))

    def test_a_provider_id_that_is_no_instance(self) -> None:
        """A claim of another cloud, or garbage: EC2 is not asked for anything that it did not make."""
        world = self.cloud_world()
        ToyAgent(world)
        world.ours("n1")
        odd = "kwok://aws/i-1&Action=TerminateInstances&InstanceId.2=i-0bad"
        world.change("nodeclaims", "c-n1", lambda c: c["status"].update(providerID=odd))
        world.change("nodes", "n1", lambda n: n["spec"].update(providerID=odd))
        self.begin(world)
        world.remove("nodeclaims", "c-n1")
        world.must(lambda: world.condition("c-n1", "Drained")[0] == "True", "its drain")
        self.assertQuiet(world, 1.5, "n1")
        self.assertEqual(world.ends(), [])


if __name__ == "__main__":
    unittest.main()
