"""Beside cloud-init: user data of ours alone wait for none of its stages, parts for it are waited for."""

from __future__ import annotations

import json
import signal
import time
import unittest

from harness import PATIENCE, World, WorldTest, mime, until
from test_systemd import WithBus

from bus import Unit  # found by harness

SCRIPT = ("text/x-shellscript", "#!/bin/sh\nsleep 5\n")
CLOUD_CONFIG = ("text/cloud-config", "#cloud-config\n")
QUEUED = (41, "/org/freedesktop/systemd1/job/41")


class Booting(WithBus):
    """systemd has begun to boot: cloud-init's units have their jobs, and none of them runs yet."""

    def __enter__(self) -> "Booting":
        super().__enter__()
        (self.root / "run/systemd/system").mkdir(parents=True)
        self.network, self.final = Unit(job=QUEUED), Unit(job=QUEUED)
        self.bus.units["cloud-init.service"] = self.network
        self.bus.units["cloud-final.service"] = self.final
        return self

    def send(self, *more: tuple[str, str], extra: str = "") -> None:
        self.set_user_data(mime(*more, ("application/node.eks.aws", self.node_config(extra=extra))))

    @staticmethod
    def run_unit(unit: Unit) -> None:
        unit.active, unit.sub = "activating", "start"
        unit.started_mono_usec = time.monotonic_ns() // 1000

    @staticmethod
    def end_unit(unit: Unit, how: str = "active") -> None:
        unit.active, unit.sub, unit.job = how, "exited", (0, "/")

    def waits_for(self, what: str) -> bool:
        return until(lambda: (self.status().get("waiting") or {}).get("message") == f"waiting for {what}", within=2)

    def kubelet_starts(self) -> int:
        return sum(c.endswith("Unit kubelet.service") and not c.startswith("Load") for c in self.bus.calls)


class CloudInit(WorldTest):
    def booting(self, **more: object) -> Booting:
        made = Booting(**more)
        self.enterContext(made)
        return made

    def succeeds(self, world: World, proc: object) -> None:
        done = world.finish(proc)  # type: ignore[arg-type]
        self.assertEqual(done.code, 0, done.err + world.kubelet_log())
        self.assertIsNone(world.status()["waiting"])

    def test_documents_of_ours_alone(self) -> None:
        """Karpenter's default: cloud-init has not even begun."""
        world = self.booting()
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(
            world.status()["cloudInit"], {"waits": False, "why": "the user data hold nothing for cloud-init"}
        )
        self.assertIn("cloud-init   kubelet does not wait for it: the user data hold nothing", world.run("status").out)

    def test_a_script(self) -> None:
        """Files are made beside all stages of cloud-init, which have not begun; kubelet comes after the last."""
        world = self.booting()
        world.send(SCRIPT)
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(world.waits_for("cloud-final.service"), world.status())
        self.assertEqual({world.phase(p)["outcome"] for p in ("plan", "preflight", "apply")}, {"succeeded"})
        self.assertEqual(world.kubelet_starts(), 0)
        world.end_unit(world.network)
        world.end_unit(world.final)
        self.succeeds(world, proc)
        self.assertEqual(world.kubelet_starts(), 1)

    def test_more_than_a_script(self) -> None:
        """The network stage brings documents; files are made beside the later stages; kubelet comes after them."""
        world = self.booting()
        world.send(SCRIPT, CLOUD_CONFIG)
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(world.waits_for("cloud-init.service"), world.status())
        self.assertEqual(world.phase("config")["outcome"], "pending")
        (world.root / "etc/nodeclaimd/conf.d/20-written.yaml").write_text(
            "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec: {node: {labels: {written: by-cloud-init}}}\n"
        )
        world.run_unit(world.final)
        world.end_unit(world.network)
        self.assertTrue(world.waits_for("cloud-final.service"), world.status())
        self.assertEqual({world.phase(p)["outcome"] for p in ("plan", "preflight", "apply")}, {"succeeded"})
        self.assertIn("written=by-cloud-init", (world.root / "etc/nodeclaimd/kubelet.env").read_text())
        self.assertEqual(world.kubelet_starts(), 0)
        shown = world.run("status").out
        self.assertRegex(shown, r"(?m)^cloud-init +kubelet starts after cloud-final.service: user-data part 1 \(text/x-she")
        self.assertRegex(shown, r"(?m)^waiting +CloudInit: waiting for cloud-final.service$")
        world.end_unit(world.final, "failed")  # a script that fails has ended, too
        done = world.finish(proc)
        self.assertEqual(done.code, 0, done.err)
        self.assertIsNone(world.status()["waiting"])
        self.assertEqual(done.err.count("waiting for cloud-final.service"), 1, done.err)
        self.assertEqual(world.kubelet_starts(), 1)

    def test_a_node_that_is_named_by_the_host(self) -> None:
        """cloud-init's network stage gives the host its name."""
        world = self.booting(config="  node: {name: hostname}\n")
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(world.waits_for("cloud-init.service"), world.status())
        self.assertIsNone(world.status()["node"])
        world.end_unit(world.network)
        self.assertTrue(until(lambda: world.status().get("node")), world.status())
        self.assertFalse(world.status()["cloudInit"]["waits"])
        proc.terminate()
        world.finish(proc)

    def test_a_newer_cloud_init(self) -> None:
        world = self.booting()
        world.bus.units["cloud-init-network.service"] = world.bus.units.pop("cloud-init.service")
        world.send(CLOUD_CONFIG)
        world.end_unit(world.final)
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(world.waits_for("cloud-init-network.service"), world.status())
        world.end_unit(world.network)
        self.succeeds(world, proc)

    def test_no_cloud_init(self) -> None:
        world = self.booting()
        world.send(SCRIPT)
        del world.bus.units["cloud-init.service"], world.bus.units["cloud-final.service"]
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err)

    def test_the_final_stage_never_ends(self) -> None:
        world = self.booting()
        world.send(SCRIPT)
        world.end_unit(world.network)
        done = world.bootstrap("--timeout", "3s")
        self.assertFailure(world, done, 1, "start", "transient", "waiting for cloud-final.service, which has not ended")
        self.assertIn("waitForCloudInit: never", world.phase("start")["error"]["remedy"])
        self.assertIsNone(world.status()["waiting"], "it waits no more")
        self.assertLess(done.seconds, 3 + 1 * PATIENCE)
        self.assertEqual(world.kubelet_starts(), 0)

    def test_forced(self) -> None:
        for mode, parts, waits in (("never", (SCRIPT,), False), ("always", (), True)):
            with self.subTest(mode), Booting(config=f"  bootstrap: {{waitForCloudInit: {mode}}}\n") as world:
                world.send(*parts)
                proc = world.spawn("bootstrap", "--timeout", "60s")
                if waits:
                    self.assertTrue(world.waits_for("cloud-init.service"), world.status())
                    world.end_unit(world.network)
                    self.assertTrue(world.waits_for("cloud-final.service"), world.status())
                    world.end_unit(world.final)
                self.succeeds(world, proc)
                self.assertEqual(
                    world.status()["cloudInit"],
                    {"waits": waits, "why": f"spec.bootstrap.waitForCloudInit is {mode}"},
                )

    def test_started_by_a_script(self) -> None:
        """A script of the user data that restarts the bootstrap and waits for it is not waited for in turn."""
        world = self.booting()
        world.send(SCRIPT)
        world.end_unit(world.network)
        world.run_unit(world.final)
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(world.status()["cloudInit"]["waits"], False)
        self.assertIn("a script", world.status()["cloudInit"]["why"])

    def test_restarted_by_systemd(self) -> None:
        """Nobody's wish: the script is waited for, although it began before."""
        world = self.booting()
        world.send(SCRIPT)
        world.end_unit(world.network)
        world.run_unit(world.final)
        world.bus.units["nodeclaimd-bootstrap.service"] = Unit(active="activating", restarts=1)
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(world.waits_for("cloud-final.service"), world.status())
        world.end_unit(world.final)
        self.succeeds(world, proc)

    def test_the_bus_comes_later(self) -> None:
        """On Debian dbus starts after cloud-init's network stage: the files are there before."""
        world = self.booting()
        away = world.bus.path.with_name("away")
        world.bus.path.rename(away)
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(world.waits_for("the system bus"), world.status())
        self.assertEqual(world.status()["waiting"]["reason"], "SystemBus")
        self.assertEqual(world.phase("apply")["outcome"], "succeeded")
        away.rename(world.bus.path)
        self.succeeds(world, proc)

    def test_a_bus_that_does_not_answer_is_not_taken_for_the_end(self) -> None:
        world = self.booting()
        world.send(SCRIPT, CLOUD_CONFIG)
        world.end_unit(world.network)
        world.bus.refuses_reads = True
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(until(lambda: world.phase("userdata").get("error")), world.status())
        self.assertEqual(world.kubelet_starts(), 0)
        world.end_unit(world.final)
        world.bus.refuses_reads = False
        self.succeeds(world, proc)

    def test_a_signal_ends_the_wait(self) -> None:
        world = self.booting()
        world.send(SCRIPT)
        world.end_unit(world.network)
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(world.waits_for("cloud-final.service"), world.status())
        proc.send_signal(signal.SIGTERM)
        done = world.finish(proc, within=5)
        self.assertEqual(done.code, 1, done.err)
        self.assertError(world, "start", "transient", "stopped by TERM", "cloud-final.service")


class Unsupported(WorldTest):
    """A field that is known and not honoured."""

    FIELD = "  aws: {partition: aws-cn}\n"

    def test_is_refused(self) -> None:
        world = self.world(config=self.FIELD)
        before = world.tree("etc", "var/lib")
        done = world.bootstrap("--timeout", "20s")
        self.assertFailure(world, done, 3, "config", "config", "10-test.yaml:", "spec.aws.partition: is not supported")
        self.assertIn("spec.bootstrap.unsupported: warn", world.phase("config")["error"]["remedy"])
        self.assertEqual(world.tree("etc", "var/lib"), before)

    def test_is_allowed(self) -> None:
        """Then the journal, an Event and a metric say so."""
        world = self.world(config=self.FIELD + "  bootstrap: {unsupported: warn}\n")
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err + world.kubelet_log())
        self.assertRegex(done.err, r"10-test.yaml:\d+:\d+: spec.aws.partition: is not supported: nothing depends on it")
        self.assertEqual(done.err.count("spec.aws.partition"), 1, done.err)
        self.assertIn("spec.aws.partition", " ".join(world.status()["warnings"]))
        (event,) = [e for e in world.api.objects("events") if e["reason"] == "UnsupportedConfiguration"]
        self.assertEqual((event["type"], event["count"]), ("Warning", 1))
        self.assertIn("spec.aws.partition: is not supported", event["message"])
        metrics = (world.root / "run/nodeclaimd/metrics.prom").read_text()
        self.assertIn("nodeclaimd_bootstrap_unsupported_fields 1\n", metrics)

    def test_check(self) -> None:
        world = self.world()
        path = world.folder / "documents.yaml"
        text = world.node_config() + "---\napiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec:\n" + self.FIELD
        path.write_text(text)
        done = world.run("check", str(path))
        self.assertEqual(done.code, 3, done.out + done.err)
        self.assertIn("spec.aws.partition: is not supported", done.out + done.err)
        path.write_text(text + "  bootstrap: {unsupported: warn}\n")
        done = world.run("check", str(path))
        self.assertEqual(done.code, 0, done.out + done.err)
        self.assertIn("warning: spec.aws.partition", done.out)
        self.assertEqual(world.run("check", "--strict", str(path)).code, 3)

    EXPRESSION = "    maxPodsExpression: min(max_pods, [40, 50][0])\n"
    WARN = "---\napiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec: {bootstrap: {unsupported: warn}}\n"

    def test_an_expression_that_is_not_honoured(self) -> None:
        """Only a plan can tell: refused before anything is written, or noted everywhere."""
        world = self.world()
        world.set_user_data(world.node_config(kubelet="  kubelet:\n" + self.EXPRESSION).encode())
        before = world.tree("etc", "var/lib")
        done = world.bootstrap("--timeout", "20s")
        self.assertFailure(
            world, done, 3, "plan", "config",
            "user-data:", "spec.kubelet.maxPodsExpression: cannot be computed: column 15: unexpected '['",
        )
        self.assertIn("spec.bootstrap.unsupported: warn", world.phase("plan")["error"]["remedy"])
        self.assertEqual(world.tree("etc", "var/lib"), before)
        world = self.world(config="  bootstrap: {unsupported: warn}\n")
        world.set_user_data(world.node_config(kubelet="  kubelet:\n" + self.EXPRESSION).encode())
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err + world.kubelet_log())
        self.assertEqual(done.err.count("spec.kubelet.maxPodsExpression: cannot be computed"), 1, done.err)
        (event,) = [e for e in world.api.objects("events") if e["reason"] == "UnsupportedConfiguration"]
        self.assertIn("spec.kubelet.maxPodsExpression: cannot be computed", event["message"])
        metrics = (world.root / "run/nodeclaimd/metrics.prom").read_text()
        self.assertIn("nodeclaimd_bootstrap_unsupported_fields 1\n", metrics)

    def test_check_of_what_no_schema_can_tell(self) -> None:
        """A field that depends on the plan: in both forms, and strictly."""
        world = self.world()
        path = world.folder / "documents.yaml"
        what, said = world.node_config(kubelet="  kubelet:\n" + self.EXPRESSION), "spec.kubelet.maxPodsExpression: cannot be computed"
        path.write_text(what)
        for options in ((), ("--strict",), ("-o", "json"), ("-o", "json", "--strict")):
            done = world.run("check", *options, str(path))
            self.assertEqual(done.code, 3, f"{options} {done.out} {done.err}")
            self.assertIn(said.replace(": ", '",\n    "message": "') if "json" in options else said, done.out)
        path.write_text(what + self.WARN)
        for options, code, severity in (((), 0, "warning"), (("--strict",), 3, "error")):
            done = world.run("check", *options, str(path))
            self.assertEqual(done.code, code, done.out + done.err)
            self.assertIn(f"{severity}: {said}", done.out)
            done = world.run("check", "-o", "json", *options, str(path))
            self.assertEqual(done.code, code, done.out + done.err)
            (found,) = [e for e in json.loads(done.out) if said in f"{e['path']}: {e['message']}"]
            self.assertEqual(found["severity"], severity)


if __name__ == "__main__":
    unittest.main()
