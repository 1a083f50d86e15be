"""While something is waited for: what the world hears meanwhile, and how soon a SIGTERM ends it, wherever it comes."""

from __future__ import annotations

import json
import signal
import time
import unittest
from datetime import datetime

from harness import PATIENCE, World, WorldTest, mime, until
from test_systemd import WithBus

from cluster import Behaviour  # found by harness


class Terminated(WorldTest):
    def ends(self, world: World, proc: object, phase: str) -> None:
        start = time.monotonic()
        proc.send_signal(signal.SIGTERM)  # type: ignore[attr-defined]
        done = world.finish(proc, within=10)  # type: ignore[arg-type]
        self.assertLess(time.monotonic() - start, 1.0 * PATIENCE)
        self.assertEqual(done.code, 1, done.err)
        self.assertError(world, phase, "transient", "stopped by TERM")
        self.assertEqual(world.status()["outcome"], "failed")
        self.assertEqual(world.console_record()["phase"], phase)

    def runs(self, world: World, phase: str) -> object:
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(until(lambda: world.phase(phase).get("outcome") == "running"), world.status())
        return proc

    def test_a_silent_imds(self) -> None:
        world = self.world()
        world.imds.server.fault("silent")
        self.ends(world, self.runs(world, "imds"), "imds")

    def test_a_silent_api_server(self) -> None:
        world = self.world()
        world.api.server.fault("silent")
        self.ends(world, self.runs(world, "preflight"), "preflight")

    def test_a_unit_whose_job_never_ends(self) -> None:
        world = self.enterContext(WithBus())
        world.unit.answers = False
        proc = self.runs(world, "start")
        self.assertTrue(until(lambda: [c for c in world.bus.calls if "kubelet.service" in c]))
        self.ends(world, proc, "start")

    def test_a_node_that_never_registers(self) -> None:
        world = self.world(mode="silent")
        self.ends(world, self.runs(world, "register"), "register")

    def test_a_node_that_is_never_ready(self) -> None:
        world = self.world(mode="notready")
        self.ends(world, self.runs(world, "initialize"), "initialize")


class Events(WorldTest):
    def events(self, world: World) -> "list[dict[str, object]]":
        return list(world.api.objects("events"))

    def test_while_it_is_tried_and_when_it_ends(self) -> None:
        """The NodeClaim hears of it before the deadline, and hears of it when all is well in the end."""
        world = self.world(behave=Behaviour(karpenter=False))
        world.api.claims_readable = True
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(until(lambda: self.events(world), 40))
        (event,) = self.events(world)
        self.assertIsNone(proc.poll(), "it is still tried")
        self.assertEqual((event["type"], event["reason"]), ("Warning", "BootstrapFailed"))
        self.assertIn("Karpenter", str(event["message"]))
        self.assertEqual(event["reportingInstance"], world.inst.provider_id)
        world.api.cluster.behave.karpenter = True
        world.api.on_loop(lambda: world.api.cluster._reconcile(world.node_name))
        done = world.finish(proc)
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual([e["reason"] for e in self.events(world)], ["BootstrapFailed", "BootstrapComplete"])
        self.assertEqual(self.events(world)[1]["type"], "Normal")

    def test_a_refusal_that_is_retried(self) -> None:
        world = self.world(node_name="i-0123456789abcdef0")
        world.api.clock_ahead_sec = 200.0
        done = world.bootstrap("--timeout", "18s")
        self.assertEqual(done.code, 4, done.err)
        (event,) = self.events(world)
        for at in (str(event["firstTimestamp"]), str(event["lastTimestamp"])):
            seconds = datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()
            self.assertAlmostEqual(seconds, world.api.now(), delta=80 * PATIENCE, msg="by the API server's clock")
        self.assertGreaterEqual(event["count"], 2, "told after ten seconds, and again at the end")
        first, last = (json.loads(line.partition(": ")[2]) for line in world.console().splitlines())
        self.assertEqual((first["outcome"], first["phase"], first["class"]), ("running", "preflight", "auth"))
        self.assertEqual(first["attempts"], 1, "at the first failure, not at the deadline")
        self.assertTrue(first["message"] and first["remedy"])
        self.assertLess(first["duration_usec"], 2_000_000 * PATIENCE)
        self.assertEqual(last["outcome"], "failed")

    def test_none_while_the_network_plugin_starts(self) -> None:
        """Each new node waits for it, and kubectl get events lists those that failed."""
        world = self.world(mode="notready")
        world.api.claims_readable = True
        proc = world.spawn("bootstrap", "--timeout", "45s")
        self.assertTrue(until(lambda: self.events(world), 40))
        (event,) = self.events(world)
        self.assertIsNone(proc.poll(), "it is still tried")
        self.assertIn("NodeNotReady", str(event["message"]))
        first, last = (datetime.fromisoformat(str(event[at]).replace("Z", "+00:00")) for at in ("firstTimestamp", "lastTimestamp"))
        self.assertGreaterEqual((last - first).total_seconds(), 14, "a third of the timeout")
        proc.kill()

    def test_none_where_all_goes_well(self) -> None:
        world = self.world()
        self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
        self.assertEqual(self.events(world), [])

    def test_a_credential_provider_that_is_missing(self) -> None:
        """The journal and an Event report it, where kubelet was started all the same; a folder of the image without
        the program ends the boot."""
        world = self.world()
        world.provider.unlink()
        world.provider.parent.rmdir()
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err)
        said = "there is no ecr-credential-provider on this host"
        self.assertEqual(done.err.count(said), 1, done.err)
        (event,) = self.events(world)
        self.assertEqual((event["type"], event["reason"]), ("Warning", "MissingCredentialProvider"))
        self.assertIn(said, str(event["message"]))
        world = self.world()
        world.provider.unlink()
        before = world.tree("etc", "var/lib")
        done = world.bootstrap("--timeout", "30s")
        self.assertFailure(world, done, 6, "plan", "host", "no ecr-credential-provider in /etc/eks")
        self.assertEqual(world.tree("etc", "var/lib"), before)
        (event,) = self.events(world)
        self.assertEqual(event["reason"], "BootstrapFailed")


class Units(WorldTest):
    def calls(self, world: WithBus) -> "list[str]":
        return [c for c in world.bus.calls if c.endswith("Unit kubelet.service") and c.startswith(("Start", "Restart"))]

    def test_only_other_files_start_the_unit_again(self) -> None:
        world = self.enterContext(WithBus())
        self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
        self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
        self.assertEqual(self.calls(world)[1:], ["StartUnit kubelet.service"])
        text = world.node_config().replace("maxPods: 29", "maxPods: 28")
        world.set_user_data(mime(("application/node.eks.aws", text)))
        self.assertEqual(world.bootstrap("--skip", "start").code, 0)
        world.bus.calls.clear()
        self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
        self.assertEqual(self.calls(world), ["RestartUnit kubelet.service"], "the run before wrote the files only")

    def test_restarts_of_long_ago_are_nobodys_failure(self) -> None:
        world = self.enterContext(WithBus(mode="silent"))
        world.unit.restarts = 3
        done = world.bootstrap("--timeout", "7s")
        self.assertEqual(done.code, 1, done.err)
        error = self.assertError(world, "register", "transient", "has not registered")
        self.assertIn("containerd.sock", error["remedy"])

    def test_restarts_while_it_is_waited_for(self) -> None:
        world = self.enterContext(WithBus(mode="silent"))
        world.unit.restarts = 3
        proc = world.spawn("bootstrap", "--timeout", "30s")
        self.assertTrue(until(lambda: world.phase("register").get("outcome") == "running"))
        world.unit.restarts = 5
        self.assertTrue(until(lambda: "restarted 2 times" in str(world.phase("register").get("error"))))
        proc.terminate()
        world.finish(proc)


if __name__ == "__main__":
    unittest.main()
