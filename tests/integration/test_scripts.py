"""What cloud-init's scripts leave, and what they find: files stand before they run, whatever the API server does; what they
have changed is read again before kubelet starts."""

from __future__ import annotations

import unittest
from typing import Callable

from harness import World, WorldTest, until
from test_cloud_init import SCRIPT, Booting
from test_host import CONTAINERD, MARKER

from bus import Unit  # found by harness

LABELS = """apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec: {kubelet: {flags: ["--node-labels=left-by=a-script"]}}
"""
CONFIG, FLAGS = "etc/kubernetes/kubelet/config.json", "etc/nodeclaimd/kubelet.env"
TOML = "etc/containerd/config.toml"


class Scripted(Booting):
    """User data with a script; cloud-init's last stage runs until the test ends it."""

    def __enter__(self) -> "Scripted":
        super().__enter__()
        (self.root / "etc/eks/containerd-version.txt").write_text("containerd github.com/containerd/containerd/v2 2.1.4 abc\n")
        (self.root / "etc/eks/nodeadm.d").mkdir()
        self.bus.units[CONTAINERD] = Unit(active="active")
        self.end_unit(self.network)
        self.send(SCRIPT)
        return self

    def waits(self) -> bool:
        """For the scripts: the files are there."""
        return bool(until(lambda: "cloud-final.service" in str((self.status().get("waiting") or {}).get("message"))))

    def leave(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def changed(self) -> list[str]:
        return self.status()["cloudInit"].get("changed", [])

    def effects(self) -> list[str]:
        return [c for c in self.bus.calls if c == "Reload" or c.startswith(("Start", "Restart"))]

    def text(self, path: str) -> str:
        return (self.root / path).read_text()


class Scripts(WorldTest):
    def scripted(self, do: Callable[[Scripted], None], code: int = 0) -> Scripted:
        """A boot in which a script does this while kubelet's start waits for it."""
        world = self.enterContext(Scripted())
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(world.waits(), world.status())
        do(world)
        world.end_unit(world.final)
        done = world.finish(proc)
        self.assertEqual(done.code, code, done.err + world.kubelet_log())
        world.said = done.err  # type: ignore[attr-defined]
        return world

    def test_a_label(self) -> None:
        world = self.scripted(lambda w: w.leave("etc/eks/nodeadm.d/50-labels.yaml", LABELS))
        self.assertIn("left-by=a-script", world.text(FLAGS))
        self.assertEqual(world.node()["metadata"]["labels"]["left-by"], "a-script")
        self.assertEqual(world.changed(), ["/etc/eks/nodeadm.d/50-labels.yaml"])
        self.assertIn("/etc/eks/nodeadm.d/50-labels.yaml", world.run("status").out)
        self.assertRegex(world.run("timeline").out, r"ran again after cloud-init's scripts:\nchanged +/etc/eks/nodeadm.d/50-")
        self.assertEqual(world.phase("plan")["outcome"], "succeeded")
        self.assertEqual(world.phase("plan")["attempts"], 1)
        self.assertEqual(world.effects().count("Reload"), 0)
        self.assertEqual(world.effects().count(f"RestartUnit {CONTAINERD}"), 1, "not for a label")
        self.assertEqual(world.kubelet_starts(), 1)
        self.assertEqual(world.bus.calls.count("ReloadUnit nodeclaimd.service"), 1, "the daemon reads documents too")
        self.assertEqual(world.run("explain", "spec.kubelet.config.maxPods").code, 0)

    def test_hidden_and_upper_case(self) -> None:
        """nodeadm reads these too."""

        def script(world: Scripted) -> None:
            world.leave("etc/eks/nodeadm.d/.10-hidden.yaml", LABELS)
            world.leave("etc/eks/nodeadm.d/20.YAML", LABELS.replace("left-by=a", "upper=case,of=a"))
            world.leave("etc/nodeclaimd/conf.d/.30-off.yaml", LABELS.replace("left-by", "off"))

        flags = self.scripted(script).text(FLAGS)
        for label in ("left-by=a-script", "upper=case", "of=a-script"):
            self.assertIn(label, flags)
        self.assertNotIn("off=", flags)

    def test_nothing_changes(self) -> None:
        """One round: no request and no effect more."""
        world = self.scripted(lambda w: None)
        self.assertEqual(world.changed(), [])
        self.assertNotIn("again", world.run("timeline").out)
        self.assertEqual(world.effects(), [f"RestartUnit {CONTAINERD}", "RestartUnit kubelet.service"])
        self.assertNotIn("ReloadUnit nodeclaimd.service", world.bus.calls)

    def test_a_drop_in_is_removed(self) -> None:
        world = self.enterContext(Scripted())
        world.leave("etc/eks/nodeadm.d/50-labels.yaml", LABELS)
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(world.waits(), world.status())
        self.assertIn("left-by", world.text(FLAGS))
        (world.root / "etc/eks/nodeadm.d/50-labels.yaml").unlink()
        world.end_unit(world.final)
        self.assertEqual(world.finish(proc).code, 0)
        self.assertNotIn("left-by", world.text(FLAGS))
        self.assertEqual(world.changed(), ["/etc/eks/nodeadm.d/50-labels.yaml"])

    def test_a_broken_drop_in(self) -> None:
        """Refused as it is everywhere, and kubelet does not start."""
        world = self.scripted(lambda w: w.leave("etc/eks/nodeadm.d/50-labels.yaml", "kind: [\n"), code=3)
        self.assertError(world, "userdata", "config", "/etc/eks/nodeadm.d/50-labels.yaml:")
        self.assertEqual(world.kubelet_starts(), 0)

    def test_a_file_that_is_being_written(self) -> None:
        """Half of it is there when it is first read: that is said, and it counts as it is in the end."""
        world = self.enterContext(Scripted())
        world.leave("etc/eks/nodeadm.d/50-labels.yaml", LABELS[:-4])
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(world.waits(), world.status())
        self.assertError(world, "userdata", "config", "/etc/eks/nodeadm.d/50-labels.yaml:")
        world.leave("etc/eks/nodeadm.d/50-labels.yaml", LABELS)
        world.end_unit(world.final)
        done = world.finish(proc)
        self.assertEqual(done.code, 0, done.err)
        self.assertIn("left-by=a-script", world.text(FLAGS))

    def test_a_script_that_fails(self) -> None:
        """cloud-final has ended all the same: what was left counts."""

        def script(world: Scripted) -> None:
            world.leave("etc/eks/nodeadm.d/50-labels.yaml", LABELS)
            world.end_unit(world.final, "failed")

        world = self.enterContext(Scripted())
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(world.waits(), world.status())
        script(world)
        self.assertEqual(world.finish(proc).code, 0)
        self.assertIn("left-by=a-script", world.text(FLAGS))

    def test_containerd(self) -> None:
        """A proxy for its unit, and a setting of its own: both before kubelet, and what the script wrote stays."""

        def script(world: Scripted) -> None:
            world.leave(f"etc/systemd/system/{CONTAINERD}.d/http-proxy.conf", "[Service]\nEnvironment=HTTPS_PROXY=http://p\n")
            world.leave(TOML, world.text(TOML) + "\n[debug]\nlevel = 'debug'\n")
            world.bus.calls.clear()

        world = self.scripted(script)
        self.assertEqual(world.effects(), ["Reload", f"RestartUnit {CONTAINERD}", "RestartUnit kubelet.service"])
        self.assertTrue(world.text(TOML).endswith("level = 'debug'\n"))
        self.assertEqual(
            sorted(world.changed()), [f"/{TOML}", f"/etc/systemd/system/{CONTAINERD}.d/http-proxy.conf"]
        )
        said = f"/{TOML} was changed after it was written: kept as it is"
        self.assertIn(said, " ".join(world.status()["warnings"]))
        self.assertEqual(world.said.count(said), 1, world.said)  # type: ignore[attr-defined]

    def test_a_file_of_ours_that_is_to_be_another(self) -> None:
        """A script edits it, and leaves a document that asks for another: the document counts, and that is said."""

        def script(world: Scripted) -> None:
            world.leave(FLAGS, world.text(FLAGS).replace("--", "--v=4 --", 1))
            world.leave(CONFIG, world.text(CONFIG).replace("{", '{"a": 1,', 1))
            world.leave("etc/eks/nodeadm.d/50-labels.yaml", LABELS)

        world = self.scripted(script)
        said = " ".join(world.status()["warnings"])
        self.assertIn(f"/{FLAGS} was changed after it was written: replaced", said)
        self.assertIn(f"/{CONFIG} was changed after it was written: kept", said)
        self.assertIn("left-by=a-script", world.text(FLAGS))
        self.assertIn('"a": 1', world.text(CONFIG))

    def test_files_stand_before_the_api_server_answers(self) -> None:
        """A sed of config.json does the same, whenever the API server comes."""
        world = self.enterContext(Scripted())
        world.api.server.fault("status", status=503)
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(until(lambda: world.phase("preflight").get("error")), world.status())
        for path in (CONFIG, FLAGS, TOML, "var/lib/kubelet/kubeconfig", "etc/kubernetes/pki/ca.crt"):
            self.assertTrue((world.root / path).exists(), path)
        self.assertFalse((world.root / MARKER).exists())
        self.assertEqual(world.effects(), [])
        world.leave(CONFIG, world.text(CONFIG).replace("{", '{"a": 1,', 1))
        world.end_unit(world.final)
        world.api.server.heal()
        done = world.finish(proc)
        self.assertEqual(done.code, 0, done.err + world.kubelet_log())
        self.assertIn('"a": 1', world.text(CONFIG))
        self.assertEqual(world.changed(), [f"/{CONFIG}"])
        self.assertTrue((world.root / MARKER).exists())

    def test_a_second_bootstrap_of_this_boot(self) -> None:
        """kubelet runs: no file is written that the NodeClaim would change back, and nothing starts again."""
        world = self.scripted(lambda w: None)
        world.bus.calls.clear()
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(world.effects(), ["StartUnit kubelet.service"])
        self.assertIn("0 files written", done.err)

    def test_without_scripts(self) -> None:
        """Nothing is checked, and nothing is on disk before the API server has answered."""
        world = self.enterContext(Scripted())
        world.send()
        world.api.server.fault("status", status=503)
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(until(lambda: world.phase("preflight").get("error")), world.status())
        self.assertFalse((world.root / CONFIG).exists())
        world.api.server.heal()
        self.assertEqual(world.finish(proc).code, 0)
        self.assertEqual(world.changed(), [])


class Interfaces(WorldTest):
    UNIT = "udev-net-manager@ens6.service"

    def test_the_marker_comes_after_their_units(self) -> None:
        """An interface whose unit has not ended is still the system's; kubelet does not wait for it."""
        world: World = self.enterContext(Scripted())
        assert isinstance(world, Scripted)
        world.send()
        world.bus.units[self.UNIT] = Unit(active="activating", sub="auto-restart")
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(until(world.kubelet_starts), world.status())
        self.assertTrue(until(world.node), "kubelet has registered")
        self.assertFalse((world.root / MARKER).exists())
        world.end_unit(world.bus.units[self.UNIT])
        self.assertTrue(until(lambda: (world.root / MARKER).exists()))
        self.assertEqual(world.finish(proc).code, 0)

    def test_a_unit_that_never_ends(self) -> None:
        world = self.enterContext(Scripted())
        world.send()
        world.bus.units[self.UNIT] = Unit(active="activating", sub="auto-restart")
        done = world.bootstrap("--timeout", "60s")
        self.assertEqual(done.code, 0, done.err)
        self.assertTrue((world.root / MARKER).exists())


if __name__ == "__main__":
    unittest.main()
