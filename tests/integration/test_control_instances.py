"""Instances that are ended through EC2: only after Drained or the deadline, and once more is no harm."""

from __future__ import annotations

import unittest
from typing import Any

from controlling import SLACK, ControlTest, ControlWorld, ToyAgent, epoch, instance_id

import instances
from ec2 import Ec2
from imds import Imds

INST = instances.PROFILES["m5.large"]


class Instances(ControlTest):
    def ec2_world(self) -> ControlWorld:
        world = self.control_world(mode="alone")
        self.ec2 = self.enterContext(Ec2(INST))
        self.imds = Imds.of("m5.large")
        self.imds.server.start()
        self.addCleanup(self.imds.server.stop)
        world.pool()
        return world

    def begin(self, world: ControlWorld, *args: str) -> None:
        world.start("--terminate", "--region", INST.region, "--ec2-endpoint", self.ec2.url, "--imds", self.imds.url, *args)

    def machine(self, world: ControlWorld, name: str, **more: Any) -> str:
        world.ours(name, **more)
        made = instance_id(f"c-{name}")
        self.ec2.states[made] = "running"
        return made

    def calls(self, machine: str = "") -> list[dict[str, Any]]:
        rows = [e for e in self.ec2.server.log.snapshot() if e.get("action") == "TerminateInstances"]
        return [e for e in rows if not machine or machine in e.get("instances", [])]

    def gone(self, world: ControlWorld, name: str) -> None:
        world.must(lambda: world.is_gone(name), f"the end of {name}\n{self.calls()}", 20)

    def end_machine(self, world: ControlWorld, name: str) -> None:
        """What EC2 does with it in its own time: kubelet falls silent."""
        world.change("nodes", name, lambda n: n["status"]["conditions"][0].update(status="Unknown"))

    def test_after_drained(self) -> None:
        world = self.ec2_world()
        agent = ToyAgent(world, delay_sec=1.2)
        machine, other = self.machine(world, "n1"), self.machine(world, "n2")
        self.begin(world)
        world.remove("nodeclaims", "c-n1")
        world.must(lambda: self.calls(machine), "TerminateInstances")
        drained = next(s for s in world.accepted("status") if any(
            c["type"] == "Drained" and c["status"] == "True" for c in s.body["status"]["conditions"]))
        self.assertLessEqual(drained.sent, self.calls(machine)[0]["recv"])
        self.assertEqual(self.ec2.states, {**self.ec2.states, machine: "shutting-down", other: "running"})
        world.must(lambda: world.condition("c-n1", "InstanceTerminating")[0] == "True", "the condition")
        self.assertTrue(world.get("nodes", "n1"), "it may still write")
        self.end_machine(world, "n1")
        self.gone(world, "n1")
        self.assertEqual((len(self.calls()), len(agent.drains["n1"])), (1, 1))
        self.assertEqual([e for e in self.ec2.server.log.snapshot() if e["status"] != 200], [])

    def test_after_the_deadline(self) -> None:
        world = self.ec2_world()
        machine = self.machine(world, "n1", spec={"terminationGracePeriod": "2s"})
        self.begin(world, "--margin", "1s")
        world.remove("nodeclaims", "c-n1")
        world.must(lambda: self.calls(machine), "TerminateInstances")
        end = epoch(world.get("nodeclaims", "c-n1")["metadata"]["deletionTimestamp"]) + 2
        self.assertGreaterEqual(self.calls()[0]["time"], end)
        self.assertLess(self.calls()[0]["time"], end + 2 + SLACK)

    def test_one_that_does_not_exist_any_more(self) -> None:
        world = self.ec2_world()
        ToyAgent(world)
        del self.ec2.states[self.machine(world, "n1")]
        self.begin(world)
        world.remove("nodeclaims", "c-n1")
        self.gone(world, "n1")
        self.assertEqual(len(self.calls()), 1)

    def test_a_claim_whose_node_never_came(self) -> None:
        world = self.ec2_world()
        world.claim("c-n1", finalizers=[])
        machine = instance_id("c-n1")
        self.ec2.states[machine] = "running"
        self.begin(world)
        world.must(lambda: world.condition("c-n1", "Registered")[1] == "NodeNotFound", "its state")
        world.remove("nodeclaims", "c-n1")
        self.gone(world, "n1")
        self.assertEqual(self.ec2.states[machine], "shutting-down")

    def test_refused_then_granted(self) -> None:
        """Without the permission nothing is forgotten: the Node and its claim stay, and it is said why."""
        world = self.ec2_world()
        world.refused_is_wanted = True
        ToyAgent(world)
        machine = self.machine(world, "n1")
        self.ec2.denied = True
        self.begin(world)
        world.remove("nodeclaims", "c-n1")
        world.must(lambda: self.calls(), "TerminateInstances")
        world.must(lambda: "UnauthorizedOperation" in world.log() and "allow ec2:TerminateInstances to the role" in world.log(), "a word about it")
        self.assertQuiet(world, 1, "n1")
        self.assertTrue(world.get("nodes", "n1") and world.get("nodeclaims", "c-n1"))
        self.assertLessEqual(len(self.calls()), 6)
        self.ec2.denied = False
        world.must(lambda: self.ec2.states[machine] == "shutting-down", "the end of the machine", 40)
        self.end_machine(world, "n1")
        self.gone(world, "n1")

    def test_one_broken_connection(self) -> None:
        """It is said, and no more than a pause: the next attempt succeeds, with the same credentials. The Node goes only then,
        and nobody is sent to look at the role; of the API server nothing is counted."""
        for kind in ("reset", "close", "half"):
            with self.subTest(kind=kind):
                world = self.ec2_world()
                agent = ToyAgent(world)
                machine = self.machine(world, "n1")
                fault = self.ec2.server.fault(kind, count=1)
                self.begin(world)
                world.remove("nodeclaims", "c-n1")
                world.must(lambda: self.calls(machine), "the next attempt", 20)
                self.end_machine(world, "n1")
                self.gone(world, "n1")
                self.assertEqual([e["status"] for e in self.ec2.server.log.snapshot()], [0, 200])
                self.assertEqual((fault.hits, self.ec2.states[machine], len(agent.drains["n1"])), (1, "shutting-down", 1))
                self.assertLessEqual(self.calls(machine)[0]["recv"], world.accepted("delete-node", "n1")[0].at)
                self.assertEqual(len(self.imds.server.log.snapshot()), 3, "a token, the role's name, its credentials")
                self.assertEqual(world.log().count("warning: ec2: TerminateInstances: "), 1, world.log())
                self.assertNotIn("allow ec2:", world.log())
                self.assertEqual(world.metric("api_failures_total"), 0)

    def test_a_kept_connection_that_broke(self) -> None:
        """It is opened anew, and nobody has to know."""
        world = self.ec2_world()
        ToyAgent(world)
        machines = {name: self.machine(world, name) for name in ("n1", "n2")}
        self.begin(world)
        for name, machine in machines.items():
            world.remove("nodeclaims", f"c-{name}")
            world.must(lambda: self.calls(machine), f"the end of {machine}", 20)
            self.end_machine(world, name)
            self.gone(world, name)
            if name == "n1":
                self.ec2.server.fault("reset", count=1)
        self.assertEqual([e["status"] for e in self.ec2.server.log.snapshot()], [200, 0, 200])
        self.assertNotIn("warning", world.log())

    def test_killed_between_the_call_and_its_answer(self) -> None:
        world = self.ec2_world()
        agent = ToyAgent(world)
        machine = self.machine(world, "n1")
        fault = self.ec2.server.fault("hold", count=1)
        self.begin(world)
        world.remove("nodeclaims", "c-n1")
        world.must(lambda: fault.held, "TerminateInstances")
        world.kill()
        self.begin(world)
        world.must(lambda: len(self.calls(machine)) >= 2, "the same question")
        self.end_machine(world, "n1")
        self.gone(world, "n1")
        self.assertEqual((self.ec2.states[machine], len(agent.drains["n1"])), ("shutting-down", 1))

    def test_a_provider_id_that_is_no_instance(self) -> None:
        """A claim of another cloud, or garbage: EC2 is not asked for anything that it did not make."""
        world = self.ec2_world()
        ToyAgent(world)
        world.ours("n1")
        odd = "kwok://aws/i-1&Action=TerminateInstances&InstanceId.2=i-0bad"
        world.change("nodeclaims", "c-n1", lambda c: c["status"].update(providerID=odd))
        world.change("nodes", "n1", lambda n: n["spec"].update(providerID=odd))
        self.begin(world)
        world.remove("nodeclaims", "c-n1")
        world.must(lambda: world.condition("c-n1", "Drained")[0] == "True", "its drain")
        self.assertQuiet(world, 1.5, "n1")
        self.assertEqual(self.calls(), [])


if __name__ == "__main__":
    unittest.main()
