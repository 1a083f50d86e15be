"""Bad days of the API server, of kubelet and of the disk."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import time
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import PATIENCE, Authority, Behaviour, World, WorldTest, mime, needs, until

import instances  # found by harness

NODE_CONFIG = "application/node.eks.aws"
SLACK_SEC = 0.7 * PATIENCE + 0.3
LISTING = "find $d -type f -printf '%P %s\\n' | sort"


class BadCluster(WorldTest):
    def fails(self, world: World, code: int, kind: str, *words: str, seconds: float = 4) -> str:
        """The phase that failed. The cause was in status.json long before the end."""
        start = time.monotonic()
        proc = world.spawn("bootstrap", "--timeout", f"{seconds:g}s")
        soon = until(lambda: [p for p in world.status().get("phases", []) if p.get("error")] or None, seconds / 2)
        self.assertTrue(soon, json.dumps(world.status()))
        done = world.finish(proc, within=seconds + 20, start=start)
        self.assertLessEqual(done.seconds, seconds + SLACK_SEC)
        failed = next((p["name"] for p in world.status()["phases"] if p["outcome"] == "failed"), "none")
        self.assertFailure(world, done, code, failed, kind, *words)
        return failed

    def test_unreachable(self) -> None:
        world = self.world()
        world.api.server.refuse()
        phase = self.fails(world, 1, "transient", "refused")
        remedy = world.phase(phase)["error"]["remedy"]
        self.assertRegex(remedy, "^check the API server's endpoint and its health, then .*; apiServerEndpoint is in user-data ")
        self.assertNotIn("new node", remedy, "it is not the user data that fail")

    def test_killed(self) -> None:
        """Its last word is that it works; its lock says that nobody works any more."""
        world = self.world()
        world.api.server.refuse()
        proc = world.spawn("bootstrap", "--timeout", "3s")
        self.assertTrue(until(lambda: any(p.get("error") for p in world.status().get("phases", [])), 3))
        (cause,) = [p["error"]["message"] for p in world.status()["phases"] if p.get("error")]
        self.assertRegex(world.run("status").out, r"(?m)^bootstrap +running$")
        proc.kill()
        proc.wait()
        shown = world.run("status")
        self.assertEqual(shown.code, 1, shown.out)
        self.assertRegex(shown.out, r"(?m)^bootstrap +failed$")
        self.assertIn("the bootstrap was killed; last error: ", shown.out)
        (phase,) = [p for p in json.loads(world.run("status", "-o", "json").out)["phases"] if p.get("error")]
        self.assertEqual((phase["error"]["class"], phase["error"]["message"]), ("transient", f"the bootstrap was killed; last error: {cause}"))
        self.assertIn("nodeclaimd-bootstrap.service starts again by itself", shown.out)
        self.assertRegex(world.run("timeline").out, "failed")

    def test_silent(self) -> None:
        world = self.world()
        world.api.server.fault("silent")
        done = world.bootstrap("--timeout", "5s")
        self.assertEqual(done.code, 1, done.err)
        self.assertLessEqual(done.seconds, 5 + SLACK_SEC)

    def test_an_api_server_with_a_fault_of_its_own(self) -> None:
        """The way to it is right."""
        world = self.world()
        world.api.server.fault("status", status=503)
        failed = self.fails(world, 1, "transient", "HTTP 503")
        self.assertIn("see how the API server is", world.phase(failed)["error"]["remedy"])

    def test_unreachable_for_a_while(self) -> None:
        world = self.world()
        world.api.server.refuse()
        world.api.server.listen_later(3)
        done = world.bootstrap("--timeout", "40s")
        self.assertEqual(done.code, 0, done.err + world.kubelet_log())

    def test_wrong_authority(self) -> None:
        other = Path(self.enterContext(TemporaryDirectory()))
        world = self.world()
        text = world.node_config().replace(world.api.ca.base64, Authority(other, "another-ca").base64)
        world.set_user_data(mime((NODE_CONFIG, text)))
        self.fails(world, 4, "auth", "certificate")

    def test_401(self) -> None:
        world = self.world()
        world.api.auth.users.clear()
        world.api.auth.keys.clear()
        phase = self.fails(world, 4, "auth", "401")
        self.assertIn(instances.ROLE, world.phase(phase)["error"]["remedy"])

    def test_401_of_a_clock_that_is_off(self) -> None:
        """The role is mapped; the token is signed with a time that STS takes no more, or not yet."""
        for ahead in (3600.0, -3600.0):
            with self.subTest(ahead):
                world = self.world()
                world.api.clock_ahead_sec = ahead
                world.api.auth.clock = world.api.now
                phase = self.fails(world, 4, "auth", "401", seconds=2)
                remedy = world.phase(phase)["error"]["remedy"]
                found = re.search(r"the clock of this machine is ([0-9]+) s (ahead of|behind) the API server's: set the clock .* signed with the time", remedy)
                assert found, remedy
                self.assertAlmostEqual(float(found[1]), abs(ahead), delta=3 * PATIENCE)
                self.assertEqual(found[2], "behind" if ahead > 0 else "ahead of")
                self.assertIn(found[0], world.status()["warnings"])

    def test_token_for_another_cluster(self) -> None:
        world = self.world(cluster="test-cluster")
        text = world.node_config().replace("name: test-cluster", "name: other-cluster")
        world.set_user_data(mime((NODE_CONFIG, text)))
        self.fails(world, 4, "auth", "401")

    def test_403_names_both_identities(self) -> None:
        """The role is mapped to another node name than the one that this node registers with."""
        world = self.world(node_name="i-0123456789abcdef0")
        self.fails(world, 4, "auth", "system:node:i-0123456789abcdef0", world.inst.private_dns)

    def test_429_with_retry_after(self) -> None:
        world = self.world()
        world.api.server.fault("status", status=429, count=4, headers={"Retry-After": "1"})
        done = world.bootstrap("--timeout", "40s")
        self.assertEqual(done.code, 0, done.err + world.kubelet_log())

    def test_500_truncated_html_and_oversized_answers_pass(self) -> None:
        for kind in ("status", "truncate", "html", "oversize", "close"):
            with self.subTest(kind), World() as world:
                world.api.server.fault(kind, status=500, count=2)
                done = world.bootstrap("--timeout", "40s")
                self.assertEqual(done.code, 0, done.err + world.kubelet_log())

    def test_kubelet_that_dies(self) -> None:
        world = self.world(mode="crash")
        failed = self.fails(world, 6, "host", "containerd.sock", seconds=10)
        self.assertIn(failed, ("start", "register"))

    def test_kubelet_that_never_registers(self) -> None:
        world = self.world(mode="silent")
        start = time.monotonic()
        done = world.bootstrap("--timeout", "5s")
        self.assertNotEqual(done.code, 0)
        self.assertLessEqual(time.monotonic() - start, 5 + SLACK_SEC)
        entry = world.phase("register")
        self.assertEqual(entry["outcome"], "failed", world.status())
        self.assertTrue(entry["error"]["remedy"])
        self.assertIn("Waiting for the container runtime", entry["error"]["message"], "kubelet's last lines are quoted")

    def test_no_kubelet(self) -> None:
        world = self.world()
        (world.folder / "bin/kubelet").unlink()
        self.fails(world, 6, "host", "kubelet")

    def test_kubelet_not_ready(self) -> None:
        world = self.world(mode="notready")
        done = world.bootstrap("--timeout", "5s")
        self.assertNotEqual(done.code, 0)
        error = world.phase("initialize").get("error") or {}
        self.assertIn("NodeNotReady", json.dumps(world.status()), error)

    def test_waiting_reasons(self) -> None:
        """Who is waited for: kube-controller-manager, a startup taint, Karpenter."""
        for name, behave, word in (
            ("controller manager away", Behaviour(controller_manager=False), "kube-controller-manager"),
            ("karpenter away", Behaviour(karpenter=False), "karpenter"),
        ):
            with self.subTest(name), World(behave=behave) as world:
                done = world.bootstrap("--timeout", "5s")
                self.assertNotEqual(done.code, 0)
                self.assertIn(word, json.dumps(world.status()).lower())

    def test_startup_taint(self) -> None:
        world = World(claim=False)
        self.enterContext(world)
        claim = world.claim_object()
        claim["spec"]["startupTaints"] = [{"key": "agent.example.com/boot", "effect": "NoSchedule"}]
        world.api.put("nodeclaims", claim)
        world.api.claims_readable = True
        taints = "registerWithTaints:\n      - effect: NoSchedule\n        key: agent.example.com/boot"
        world.set_user_data(mime((NODE_CONFIG, world.node_config().replace("registerWithTaints:", taints))))
        proc = world.spawn("bootstrap", "--timeout", "20s")
        self.assertTrue(
            until(
                lambda: "StartupTaintsExist" in json.dumps(world.status())
                and "agent.example.com/boot" in json.dumps(world.status())
            ),
            world.status(),
        )

        def untaint() -> None:
            store = world.api.store
            key = next(k for k in store.objects if k[0].plural == "nodes")
            node = store.get(key[0], key[2])
            node["spec"]["taints"] = []
            store.replace(key[0], node)

        world.api.on_loop(untaint)
        done = world.finish(proc, within=30)
        self.assertEqual(done.code, 0, done.err)

    def test_a_startup_taint_that_waits_for_the_bootstrap(self) -> None:
        """The readiness controller removes it when BootstrapComplete is True, and Karpenter initializes the node after
        that: neither is waited for."""
        key = "readiness.k8s.io/nodeclaimd-bootstrap"
        world = self.enterContext(World(claim=False, behave=Behaviour(readiness=key)))
        claim = world.claim_object()
        claim["spec"]["startupTaints"] = [{"key": key, "effect": "NoSchedule"}]
        world.api.put("nodeclaims", claim)
        world.api.claims_readable = True
        taints = f"registerWithTaints:\n      - effect: NoSchedule\n        key: {key}"
        world.set_user_data(mime((NODE_CONFIG, world.node_config().replace("registerWithTaints:", taints))))
        done = world.bootstrap("--timeout", "20s")
        self.assertEqual(done.code, 0, done.err)
        made = next(c.object for c in world.api.store.history if c.kind == "ADDED" and c.resource.plural == "nodes")
        self.assertIn(key, [t["key"] for t in made["spec"]["taints"]])
        self.assertTrue(until(lambda: world.node()["spec"]["taints"] == []), world.node()["spec"])
        self.assertTrue(until(lambda: world.node()["metadata"]["labels"].get("karpenter.sh/initialized") == "true"))


@needs("CAP_SYS_ADMIN")
class BadDisk(WorldTest):
    """Below a mount of its own: in a mount namespace of the program alone where / is a mount, else (in a chroot) for as long
    as the program runs."""

    def mounted(self, world: World, folder: Path, setup: str, *args: str) -> "subprocess.CompletedProcess[bytes]":
        """Runs a bootstrap after `setup` has mounted something on `folder`, of which the shell's variable d is the path."""
        private = ["unshare", "-m"]
        if subprocess.run([*private, "true"], capture_output=True).returncode != 0:
            private = []
        command = shlex.join(world.command("bootstrap", *args))
        script = f"set -e; d={shlex.quote(str(folder))}; {setup}; trap 'umount \"$d\"' EXIT; list() {{ {LISTING}; }}\n"
        script += f"list >{world.folder}/before; code=0; {command} || code=$?; list >{world.folder}/after; exit $code"
        done = subprocess.run(
            [*private, "sh", "-c", script],
            env=world.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
        )
        if b"mount: " in done.stderr:
            self.skipTest("mounts are forbidden here: " + done.stderr.decode().splitlines()[0])
        return done

    def unchanged(self, world: World) -> None:
        """Folders that were made on the way may stay; files may not, not even half a one."""
        before = (world.folder / "before").read_text()
        self.assertIn("conf.d/10-test.yaml", before)
        self.assertEqual((world.folder / "after").read_text(), before)

    def test_read_only_etc(self) -> None:
        world = self.world()
        setup = "mount --bind $d $d; mount -o remount,ro,bind $d"
        done = self.mounted(world, world.root / "etc", setup, "--timeout", "10s")
        self.assertEqual(done.returncode, 6, done.stderr.decode())
        self.assertError(world, "apply", "host", "read-only")
        self.unchanged(world)
        self.assertEqual(world.kubelet_pids(), [])

    def test_disk_full(self) -> None:
        world = self.world()
        keep = world.folder / "keep"
        shutil.copytree(world.root / "etc", keep)
        setup = (
            f"mount -t tmpfs -o size=64k none $d; cp -a {keep}/. $d/; "
            "dd if=/dev/zero of=$d/filler bs=4k count=16 2>/dev/null || test -s $d/filler"
        )
        done = self.mounted(world, world.root / "etc", setup, "--timeout", "10s")
        self.assertEqual(done.returncode, 6, done.stderr.decode())
        self.assertError(world, "apply", "host", "space")
        self.unchanged(world)

    def test_status_cannot_be_written(self) -> None:
        """A report that cannot be written is no reason to fail."""
        world = self.world()
        (world.root / "run").mkdir()
        done = self.mounted(
            world, world.root / "run", "mount --bind $d $d; mount -o remount,ro,bind $d", "--skip", "start"
        )
        self.assertEqual(done.returncode, 0, done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
