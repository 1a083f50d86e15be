"""Bad user data: the user must act, so it ends at once, says where and what, and changes nothing on disk."""

from __future__ import annotations

import base64
import gzip
import random
import shutil
import unittest

from harness import SOURCE, World, WorldTest, mime

NODE_CONFIG = "application/node.eks.aws"


class BadUserData(WorldTest):
    def refused(
        self,
        data: "bytes | None",
        *words: str,
        world: "World | None" = None,
        phases: tuple[str, ...] = ("userdata", "config", "plan"),
    ) -> World:
        world = world or self.world()
        world.set_user_data(data)
        before = world.tree("etc")
        done = world.bootstrap("--timeout", "20s")
        failed = next((p["name"] for p in world.status().get("phases", []) if p["outcome"] == "failed"), "none")
        self.assertIn(failed, phases, done.err)
        self.assertFailure(world, done, 3, failed, "config", *words)
        self.assertLess(done.seconds, 3, "a mistake of the user is not retried")
        self.assertEqual(world.tree("etc"), before)
        self.assertEqual(world.kubelet_pids(), [])
        return world

    def replaced(self, world: World, old: str, new: str) -> bytes:
        text = world.node_config()
        assert old in text
        return mime((NODE_CONFIG, text.replace(old, new)))

    def test_a_part_of_another_type_beside_a_document_of_the_image(self) -> None:
        """What is missing is in it: the error names it, whatever comes before it."""
        for parts in ((), (("text/x-shellscript", "#!/bin/sh\n"),)):
            with self.subTest(len(parts)):
                world = self.world()
                data = mime(*parts, ("application/yaml", world.node_config()))
                done = self.refused(data, "is missing", world=world)
                said = done.console_record()
                part = rf"^user-data part {len(parts) + 1} \(application/yaml\):\d+:1: spec.cluster.name: is missing: a document that is not read: its Content-Type must be"
                self.assertRegex(said["message"], part)
                self.assertRegex(said["remedy"], "^correct the Content-Type; only a new node has other user data: correct what makes it")

    def test_a_misspelt_field_is_on_the_console(self) -> None:
        """It is a warning, and why a field is missing: the console is all that some can read."""
        world = self.world()
        data = self.replaced(world, "    name: test", "    nmae: test")
        done = self.refused(data, "spec.cluster.name: is missing", world=world)
        self.assertRegex(done.console_record()["warnings"][0], r':16:5: spec.cluster.nmae: unknown field, did you mean "name"\?$')

    def test_a_plan_that_is_refused_is_reported_for_its_instance(self) -> None:
        """By the instance the cause finds its NodeClaim; who the node is was known before."""
        rows = (("maxPods: 29", "maxPods: 29\n      featureGates: {NoSuchGate: true}"), ("flags:", "flags:\n    - --max-podz=20"))
        for old, new in rows:
            with self.subTest(new):
                world = self.world(claim=True)
                tables = world.root / "usr/local/share/nodeclaimd"
                tables.mkdir(parents=True)
                for table in (SOURCE / "data").glob("*.tsv"):
                    shutil.copy(table, tables)
                world.set_user_data(self.replaced(world, old, new))
                self.assertEqual(world.bootstrap("--timeout", "20s").code, 3)
                said = [e.get("reportingInstance") for e in world.api.objects("events") if e["reason"] == "BootstrapFailed"]
                self.assertEqual(said, [world.inst.provider_id])

    def test_none(self) -> None:
        self.refused(None, "user-data is empty")

    def test_empty(self) -> None:
        self.refused(b"", "user-data is empty")

    def test_white_space(self) -> None:
        self.refused(b"\n\n  \n")

    def test_noise(self) -> None:
        self.refused(random.Random(7).randbytes(16384))

    def test_only_a_shell_script(self) -> None:
        self.refused(b"#!/bin/bash\necho hello\n")

    def test_mime_without_a_part_for_us(self) -> None:
        self.refused(mime(("text/x-shellscript", "#!/bin/sh\n"), ("text/cloud-config", "packages: []\n")))

    def test_mime_cut_in_half(self) -> None:
        world = self.world()
        whole = mime((NODE_CONFIG, world.node_config()))
        self.refused(whole[: len(whole) // 2], world=world)

    def test_mime_without_its_end(self) -> None:
        world = self.world()
        self.refused(mime((NODE_CONFIG, world.node_config())).replace(b"--//--", b""), "boundary", world=world)

    def test_gzip_bomb(self) -> None:
        self.refused(gzip.compress(b"a" * (8 << 20)), "1048576 bytes")

    def test_gzip_cut(self) -> None:
        world = self.world()
        self.refused(gzip.compress(mime((NODE_CONFIG, world.node_config())))[:-20], world=world)

    def test_base64_of_a_bomb(self) -> None:
        self.refused(base64.b64encode(gzip.compress(b"b" * (4 << 20))))

    def test_too_large(self) -> None:
        world = self.world()
        self.refused(
            mime((NODE_CONFIG, world.node_config())) + b"#" * 70000, world=world, phases=("imds", "userdata", "config")
        )

    def test_typo_in_a_required_field(self) -> None:
        world = self.world()
        self.refused(self.replaced(world, "    name: test-cluster", "    nmae: test-cluster"), "name", world=world)
        self.assertIn("nmae", " ".join(world.status()["warnings"]))

    def test_typo_elsewhere_is_a_warning_that_names_the_field_meant(self) -> None:
        world = self.world()
        world.set_user_data(self.replaced(world, "  instance:", "  instanze:"))
        done = world.bootstrap("--skip", "start")
        self.assertEqual(done.code, 0, done.err)
        warning = " ".join(world.status()["warnings"])
        self.assertIn("instanze", warning)
        self.assertRegex(warning, r"\binstance\b")

    def test_typo_is_told_in_the_cluster(self) -> None:
        """A pool of nodes may run with other settings than somebody meant."""
        world = self.world()
        world.set_user_data(self.replaced(world, "  instance:", "  instanze:"))
        self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
        said = [c["message"] for c in world.node()["status"]["conditions"] if c["type"] == "BootstrapComplete"]
        self.assertRegex(said[0], "nothing is missing on the node; warnings: [0-9]+, the first: .*instanze")

    def test_wrong_types(self) -> None:
        for old, new, word in (
            ("maxPods: 29", "maxPods: many", "maxPods"),
            ("cidr: 10.100.0.0/16", "cidr: hello", "cidr"),
            ("cidr: 10.100.0.0/16", "cidr: [1]", "cidr"),
            ("- 10.100.0.10", "- ten.hundred", "clusterDNS"),
            ("  cluster:\n", "  cluster: 5\n  klaster:\n", "cluster"),
        ):
            with self.subTest(new), World() as world:
                self.refused(self.replaced(world, old, new), word, world=world)
                told = [e["message"] for e in world.api.objects("events")]
                self.assertEqual([word in message for message in told], [True] if word != "cluster" else [], told)

    def test_bad_yaml_says_line_and_column(self) -> None:
        world = self.world()
        self.refused(self.replaced(world, "  containerd: {}", "  containerd: {\n"), ":20:", world=world)
        world = self.world()
        self.refused(
            self.replaced(world, "  containerd: {}", "  containerd: *anchor"), ":17:15", "anchor", world=world
        )

    def test_bad_authority(self) -> None:
        for ca in ("'!!!'", base64.b64encode(b"no certificate").decode()):
            with self.subTest(ca), World() as world:
                text = world.node_config().replace(world.api.ca.base64, ca)
                self.refused(mime((NODE_CONFIG, text)), "certificateAuthority", world=world)

    def test_bad_endpoint(self) -> None:
        for url in ("http://10.0.0.1", "ftp://x", "https://", "'https://a b'"):
            with self.subTest(url), World() as world:
                text = world.node_config().replace(world.api.url, url)
                self.refused(mime((NODE_CONFIG, text)), "apiServerEndpoint", world=world)

    def test_two_clusters(self) -> None:
        world = self.world()
        other = (
            world.node_config()
            .replace("name: test-cluster", "name: other")
            .replace(world.api.url, "https://other.example.com")
        )
        self.refused(mime((NODE_CONFIG, world.node_config()), (NODE_CONFIG, other)), "other", world=world)

    def test_wrong_kind(self) -> None:
        world = self.world()
        self.refused(
            mime((NODE_CONFIG, world.node_config().replace("kind: NodeConfig", "kind: NodeConfigg"))),
            "NodeConfigg",
            world=world,
        )

    def test_kubelet_settings_that_kubelet_would_refuse(self) -> None:
        for extra in (
            "evictionSoft: {memory.available: 1Gi}",
            "evictionHard: {memory: 1Gi}",
            "kubeReserved: {cpu: minus}",
            "imageGCHighThresholdPercent: 70",
            "shutdownGracePeriod: soon",
        ):
            with self.subTest(extra), World() as world:
                self.refused(
                    self.replaced(world, "      maxPods: 29", f"      maxPods: 29\n      {extra}"),
                    extra.split(":")[0],
                    world=world,
                )

    def test_forbidden_labels_are_held_back_and_named(self) -> None:
        world = self.world()
        world.set_user_data(
            self.replaced(world, "karpenter.sh/nodepool=default", "karpenter.sh/nodepool=default,example.k8s.io/x=y")
        )
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err + world.kubelet_log())
        self.assertIn("example.k8s.io/x", " ".join(world.status()["warnings"]))
        self.assertNotIn("example.k8s.io/x", world.node()["metadata"]["labels"])

    def test_check_agrees_with_bootstrap(self) -> None:
        world = self.world()
        good, bad = world.folder / "good", world.folder / "bad"
        good.write_bytes(mime((NODE_CONFIG, world.node_config())))
        bad.write_bytes(self.replaced(world, "cidr: 10.100.0.0/16", "cidr: hello"))
        self.assertEqual(world.run("check", str(good)).code, 0)
        done = world.run("check", str(bad))
        self.assertEqual(done.code, 3)
        self.assertIn("cidr", done.out + done.err)
        typo = world.folder / "typo"
        typo.write_bytes(self.replaced(world, "  instance:", "  instanze:"))
        self.assertEqual(world.run("check", str(typo)).code, 0)
        self.assertEqual(world.run("check", "--strict", str(typo)).code, 3)


if __name__ == "__main__":
    unittest.main()
