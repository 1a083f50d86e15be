"""The host before kubelet: environment, resolver, local disks, containerd, the CNI's marker. What systemd does is a fake bus's;
what a test looks at is the order of effects, what is on disk at each, and that a second run does nothing."""

from __future__ import annotations

import os
import unittest
from pathlib import Path
from typing import Callable

from harness import PATIENCE, World, WorldTest, mime, until
from test_systemd import WithBus

from bus import Unit  # found by harness

ASKED = """
  instance:
    environment:
      default: {HTTPS_PROXY: "", NO_PROXY: 10.0.0.0/8}
      containerd: {GREETING: '50% "x" \\'}
    network: {nameservers: [10.0.0.2, "fd00::2"], domains: [corp.example, ~vpc.example]}
    localStorage: {strategy: RAID0, disabledMounts: [PodLogs]}
"""
DISKS, RESOLVER, CONTAINERD = "nodeclaimd-local-disks.service", "systemd-resolved.service", "containerd.service"
MANAGER_FILE, CONTAINERD_FILE = "etc/systemd/system.conf.d/environment.conf", "etc/systemd/system/containerd.service.d/environment.conf"
RESOLVER_FILE, ARGUMENTS = "run/systemd/resolved.conf.d/40-eks.conf", "run/nodeclaimd/local-disks.env"
MARKER = "run/nodeadm/init"


class HostWorld(WithBus):
    """A host with systemd-resolved, containerd and setup-local-disks. `seen`: which files were there when a unit started."""

    def __enter__(self) -> "HostWorld":
        super().__enter__()
        self.seen: dict[str, set[str]] = {}
        for name in (RESOLVER, CONTAINERD, DISKS):
            self.bus.units[name] = Unit(start=self.starting(name))
        self.bus.units[CONTAINERD].active = "active"
        self.bus.units["kubelet.service"].start = self.starting("kubelet.service", self.start_kubelet)
        program = self.root / "usr/bin/setup-local-disks"
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        self.ask(ASKED)
        return self

    def starting(self, name: str, then: Callable[[], int] = lambda: 0) -> Callable[[], int]:
        def start() -> int:
            self.seen[name] = {str(p.relative_to(self.root)) for p in self.root.rglob("*") if p.is_file()}
            return then()

        return start

    def ask(self, extra: str) -> None:
        text = self.node_config()
        if extra:
            text = text.replace("\n  instance:\n    localStorage: {}\n", extra)
        self.set_user_data(mime(("application/node.eks.aws", text)))

    def add_disks(self, *bytes_each: int) -> None:
        by_id = self.root / "dev/disk/by-id"
        by_id.mkdir(parents=True)
        for i, size in enumerate(bytes_each, 1):
            block = self.root / f"sys/block/nvme{i}n1"
            block.mkdir(parents=True)
            (block / "size").write_text(f"{size // 512}\n")
            for name in (f"AWS{i}", f"AWS{i}-ns-1"):
                (by_id / f"nvme-Amazon_EC2_NVMe_Instance_Storage_{name}").symlink_to(f"../../nvme{i}n1")

    def effects(self) -> list[str]:
        return [c for c in self.bus.calls if c.startswith(("Reload", "Start", "Restart"))]

    def run_once(self) -> None:
        done = self.bootstrap("--timeout", "30s")
        if done.code != 0:
            raise AssertionError(done.err)


class Host(WorldTest):
    def world_with(self, extra: str = ASKED) -> HostWorld:
        world = self.enterContext(HostWorld())
        world.ask(extra)
        return world

    def test_each_effect_in_its_order(self) -> None:
        world = self.world_with()
        world.run_once()
        self.assertEqual(
            world.effects(),
            [
                "Reload",
                f"RestartUnit {RESOLVER}",
                f"RestartUnit {DISKS}",
                f"RestartUnit {CONTAINERD}",
                "RestartUnit kubelet.service",
            ],
        )
        self.assertTrue({MANAGER_FILE, CONTAINERD_FILE, RESOLVER_FILE} <= world.seen[RESOLVER])
        self.assertIn(ARGUMENTS, world.seen[DISKS])
        for name in (RESOLVER, DISKS, CONTAINERD):
            below = [p for p in world.seen[name] if p.startswith(("var/lib/kubelet/", "etc/kubernetes/", "run/nodeadm/"))]
            self.assertEqual(below, [], name)
        self.assertIn(MARKER, world.seen["kubelet.service"])
        names = [p["name"] for p in world.status()["phases"]]
        self.assertEqual(names[6:10], ["preflight", "disks", "containerd", "start"])
        self.assertEqual(world.phase("disks")["outcome"], "succeeded")

    def test_contents(self) -> None:
        world = self.world_with()
        world.run_once()
        tree = world.tree("etc/systemd", "run/systemd", "run/nodeclaimd", "run/nodeadm")
        self.assertEqual(
            tree[MANAGER_FILE].decode(), '[Manager]\nDefaultEnvironment="HTTPS_PROXY="\nDefaultEnvironment="NO_PROXY=10.0.0.0/8"\n'
        )
        self.assertEqual(tree[CONTAINERD_FILE].decode(), '[Service]\nEnvironment="GREETING=50%% \\"x\\" \\\\"\n')
        self.assertEqual(tree[RESOLVER_FILE].decode(), "[Resolve]\nDNS=10.0.0.2 fd00::2\nDomains=corp.example ~vpc.example\n")
        self.assertEqual(tree[ARGUMENTS].decode(), "NODECLAIMD_LOCAL_DISKS=raid0 --no-bind-pods-logs\n")
        self.assertEqual(tree[MARKER], b"")

    def test_a_second_run_does_nothing(self) -> None:
        world = self.world_with()
        world.run_once()
        starts = world.bus.units[CONTAINERD].starts
        world.bus.calls.clear()
        before = world.tree("etc", "var/lib", "run/systemd", "run/nodeadm")
        world.run_once()
        self.assertEqual(world.effects(), [f"StartUnit {DISKS}", "StartUnit kubelet.service"])
        self.assertEqual(world.bus.units[DISKS].starts, 1)
        self.assertEqual(world.bus.units[CONTAINERD].starts, starts)
        self.assertEqual(world.tree("etc", "var/lib", "run/systemd", "run/nodeadm"), before)

    def test_what_is_no_longer_asked_for_goes(self) -> None:
        """Ours goes; the image's own drop-in of the same name stays."""
        world = self.world_with()
        image = world.root / "etc/systemd/system/chronyd.service.d/environment.conf"
        image.parent.mkdir(parents=True)
        image.write_text("[Service]\n")
        world.run_once()
        world.ask("")
        world.bus.calls.clear()
        world.run_once()
        left = world.tree("etc/systemd", "run/systemd", "var/lib/nodeclaimd", "run/nodeclaimd")
        self.assertEqual([p for p in left if "environment" in p or "40-eks" in p or "local-disks.env" in p], [str(image.relative_to(world.root))])
        self.assertEqual(world.effects()[:2], ["Reload", f"RestartUnit {RESOLVER}"])

    def test_nothing_is_asked_for(self) -> None:
        world = self.world_with("")
        world.run_once()
        self.assertEqual(world.effects(), ["RestartUnit kubelet.service"])
        self.assertNotIn("disks", [p["name"] for p in world.status()["phases"]])
        self.assertNotIn("containerd", [p["name"] for p in world.status()["phases"]])

    def test_documents_of_the_image(self) -> None:
        """/etc/eks/nodeadm.d comes after the user data, and before our own folder."""
        world = self.world_with()
        folder = world.root / "etc/eks/nodeadm.d"
        folder.mkdir()
        (folder / "10-dns.yaml").write_text(
            "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {instance: {network: {domains: [image.example]}}}\n"
        )
        world.run_once()
        self.assertIn("Domains=image.example\n", (world.root / RESOLVER_FILE).read_text())

    def test_a_proxy_is_used_at_once(self) -> None:
        """By the requests to the API server, before anything is written for services; never by those to IMDS."""
        world = self.world_with(ASKED.replace('HTTPS_PROXY: ""', "HTTPS_PROXY: http://127.0.0.1:9"))
        done = world.bootstrap("--timeout", "3s")
        self.assertNotEqual(done.code, 0)
        self.assertEqual(world.phase("imds")["outcome"], "succeeded")
        self.assertEqual(world.phase("preflight")["outcome"], "failed")
        self.assertIn(
            "connection refused by 127.0.0.1:9, the proxy for 127.0.0.1:", world.phase("preflight")["error"]["message"]
        )
        self.assertEqual(world.effects(), ["Reload", f"RestartUnit {RESOLVER}"])

    def test_a_plan_that_cannot_be_made_changes_nothing(self) -> None:
        world = self.world_with()
        text = world.node_config().replace("\n  instance:\n    localStorage: {}\n", ASKED)
        world.set_user_data(mime(("application/node.eks.aws", text.replace("maxPods: 29", "evictionHard: {memory.available: 900Gi}"))))
        before = world.tree("etc", "var/lib")
        done = world.bootstrap("--timeout", "5s")
        self.assertFailure(world, done, 3, "plan", "config")
        self.assertEqual(world.tree("etc", "var/lib"), before)
        self.assertEqual(world.effects(), [])

    def test_a_run_that_was_killed_is_gone_on_with(self) -> None:
        """systemd has not read the new files yet, and the next run finds nothing to write."""
        world = self.world_with()
        world.bus.units[CONTAINERD].answers = False
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(until(lambda: f"RestartUnit {CONTAINERD}" in world.bus.calls), world.bus.calls)
        proc.kill()
        proc.wait()
        world.bus.units[CONTAINERD].answers = True
        world.bus.calls.clear()
        world.run_once()
        self.assertEqual(
            world.effects(), [f"StartUnit {DISKS}", f"RestartUnit {CONTAINERD}", "RestartUnit kubelet.service"]
        )

    def test_predicted_storage_is_the_arrays(self) -> None:
        world = self.world_with()
        world.add_disks(75_000_000_512, 75_000_000_512)
        shown = world.run("explain", "capacity.ephemeral-storage")
        self.assertIn("capacity.ephemeral-storage = 146484376Ki", shown.out, shown.err)
        self.assertIn("local disks", shown.out)

    def test_no_local_disk(self) -> None:
        """Said once in the journal, and kept in the report."""
        world = self.world_with()
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err)
        self.assertTrue(any("no local disk" in w for w in world.status()["warnings"]), world.status()["warnings"])
        self.assertEqual(done.err.count("no local disk"), 1, done.err)

    def disks_fail(self, world: HostWorld, *words: str, seconds: float = 10) -> None:
        done = world.bootstrap("--timeout", f"{seconds:g}s")
        self.assertLess(done.seconds, seconds + 2 * PATIENCE)
        self.assertFailure(world, done, 6, "disks", "host", *words)
        self.assertNotIn("kubelet.service", " ".join(world.effects()))
        self.assertEqual(world.tree("var/lib/kubelet", "etc/kubernetes"), {})

    def test_setup_local_disks_is_missing(self) -> None:
        world = self.world_with()
        (world.root / "usr/bin/setup-local-disks").unlink()
        self.disks_fail(world, "setup-local-disks")

    def test_setup_local_disks_fails(self) -> None:
        world = self.world_with()
        world.bus.units[DISKS].result = "failed"
        self.disks_fail(world, DISKS)

    def test_setup_local_disks_hangs(self) -> None:
        world = self.world_with()
        world.bus.units[DISKS].answers = False
        self.disks_fail(world, DISKS, "in time", seconds=3)

    def test_containerd_does_not_come_up(self) -> None:
        world = self.world_with()
        world.bus.units[CONTAINERD].result = "failed"
        done = world.bootstrap("--timeout", "10s")
        self.assertFailure(world, done, 6, "containerd", "host", CONTAINERD)
        self.assertEqual(world.tree("var/lib/kubelet", "etc/kubernetes"), {})
        self.assertFalse((world.root / MARKER).exists())

    def test_containerd_ends_as_soon_as_it_is_started(self) -> None:
        world = self.world_with()
        world.bus.units[CONTAINERD].crashes = True
        done = world.bootstrap("--timeout", "4s")
        self.assertFailure(world, done, 6, "containerd", "host", "did not become active in time")

    def test_containerds_own_files(self) -> None:
        """Restarted once, with its files there and none of kubelet's; not again where nothing has changed."""
        world = self.world_with("")
        (world.root / "etc/eks/containerd-version.txt").write_text("containerd github.com/containerd/containerd/v2 2.1.4 abc\n")
        world.run_once()
        self.assertEqual(world.effects(), [f"RestartUnit {CONTAINERD}", "RestartUnit kubelet.service"])
        self.assertIn("etc/containerd/config.toml", world.seen[CONTAINERD])
        self.assertNotIn("etc/nodeclaimd/kubelet.env", world.seen[CONTAINERD])
        world.bus.calls.clear()
        world.run_once()
        self.assertEqual(world.effects(), ["StartUnit kubelet.service"])
        self.assertEqual(world.phase("containerd")["outcome"], "succeeded")

    def fast_world(self, ctr: str) -> HostWorld:
        world = self.world_with("\n  featureGates: {FastImagePull: true}\n")
        for path, text in {
            "sys/devices/system/cpu/online": "0-7\n",
            "proc/meminfo": "MemTotal: 16000000 kB\n",
            "usr/lib/systemd/system/soci-snapshotter.service": "[Service]\n",
            "etc/eks/containerd-version.txt": "containerd github.com/containerd/containerd/v2 2.1.4 0123abc\n",
            "etc/eks/pause.tar": "",
            "usr/bin/containerd": "",
            "usr/bin/ctr": f"#!/bin/sh\n{ctr}\n",
        }.items():
            (world.root / path).parent.mkdir(parents=True, exist_ok=True)
            (world.root / path).write_text(text)
        (world.root / "usr/bin/ctr").chmod(0o755)
        return world

    def test_fast_image_pulls(self) -> None:
        """The snapshotter's files before containerd is started, the pause image after it and before kubelet."""
        world = self.fast_world('echo "$@" >"${0%/usr/bin/ctr}/imported"')
        world.run_once()
        files = {
            "etc/containerd/config.toml",
            "etc/soci-snapshotter-grpc/config.toml",
            "etc/systemd/system/containerd.service.d/50-nodeclaimd-soci.conf",
        }
        self.assertEqual(files - world.seen[CONTAINERD], set())
        self.assertNotIn("imported", world.seen[CONTAINERD])
        self.assertIn("imported", world.seen["kubelet.service"])
        self.assertIn("images import --snapshotter soci", (world.root / "imported").read_text())
        (world.root / "imported").unlink()
        world.run_once()
        self.assertFalse((world.root / "imported").exists())

    def test_a_pause_image_that_is_not_imported(self) -> None:
        world = self.fast_world("echo 'snapshotter not loaded: soci' >&2; exit 1")
        done = world.bootstrap("--timeout", "3s")
        self.assertFailure(world, done, 6, "containerd", "host", "snapshotter not loaded: soci")
        self.assertNotIn("kubelet.service", world.seen)

    def test_another_runtime(self) -> None:
        """An environment for all, and no containerd that runs: none is started."""
        world = self.world_with()
        world.bus.units[CONTAINERD].active = "inactive"
        world.run_once()
        self.assertNotIn(CONTAINERD, " ".join(world.effects()))

    def test_no_resolver(self) -> None:
        world = self.world_with()
        del world.bus.units[RESOLVER]
        done = world.bootstrap("--timeout", "5s")
        self.assertFailure(world, done, 6, "apply", "host", RESOLVER)

    def test_the_markers_folder_is_a_link(self) -> None:
        world = self.world_with("")
        elsewhere = world.folder / "elsewhere"
        elsewhere.mkdir()
        (world.root / "run").mkdir(exist_ok=True)
        (world.root / "run/nodeadm").symlink_to(elsewhere)
        done = world.bootstrap("--timeout", "5s")
        self.assertFailure(world, done, 6, "start", "host", "/run/nodeadm")
        self.assertEqual(os.listdir(elsewhere), [])
        self.assertEqual(world.effects(), [])

    def test_without_systemd(self) -> None:
        """Files of all stages, no call, and what is left to do is said."""
        world = self.world_with()
        conf = world.root / "etc/nodeclaimd/conf.d/10-test.yaml"
        for name, change, args in (("skip", ("", ""), ("--skip", "start")), ("exec", ("start: systemd", "start: exec"), ())):
            with self.subTest(name):
                conf.write_text(conf.read_text().replace(*change))
                done = world.bootstrap("--timeout", "30s", *args)
                self.assertEqual(done.code, 0, done.err)
                self.assertEqual(world.bus.calls, [])
                for path in (MANAGER_FILE, CONTAINERD_FILE, RESOLVER_FILE, ARGUMENTS, "etc/nodeclaimd/kubelet.env"):
                    self.assertTrue((world.root / path).exists(), path)
                for word in ("environment", "network", "localStorage", "containerd"):
                    self.assertTrue(any(word in w for w in world.status()["warnings"]), word)
                self.assertEqual((world.root / MARKER).exists(), name == "exec")


if __name__ == "__main__":
    unittest.main()
