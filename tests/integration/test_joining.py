"""Clusters that are not EKS: a bootstrap token, and a kubeconfig that somebody else made."""

from __future__ import annotations

import json
import unittest

from harness import World, WorldTest

from authz import Identity  # found by harness

TOKEN = "abcdef.0123456789abcdef"
OTHER = "etc/kubernetes/other.conf"


def agent_config(world: World, auth: str) -> bytes:
    return f"""apiVersion: nodeclaimd.io/v1alpha1
kind: AgentConfig
spec:
  cluster:
    name: bare
    apiServerEndpoint: {world.api.url}
    certificateAuthority: {world.api.ca.base64}
    cidr: 10.96.0.0/12
    auth: {auth}
""".encode()


def write_kubeconfig(world: World, where: str, user: "dict[str, object]") -> None:
    path = world.root / where
    path.parent.mkdir(parents=True, exist_ok=True)
    server = {"server": world.api.url, "certificate-authority-data": world.api.ca.base64}
    doc = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": server}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(doc))


class BootstrapToken(WorldTest):
    def prepared(self) -> World:
        world = self.world(claim=False)
        world.api.auth.tokens[TOKEN] = Identity("system:bootstrap:abcdef", ("system:bootstrappers",))
        world.set_user_data(agent_config(world, f'{{mode: bootstrap-token, bootstrapToken: "{TOKEN}"}}'))
        return world

    def test_the_token_becomes_a_certificate(self) -> None:
        world = self.prepared()
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err + world.kubelet_log())
        self.assertEqual(world.status()["outcome"], "succeeded")
        conditions = {c["type"]: c["status"] for c in world.node()["status"]["conditions"]}
        self.assertEqual(conditions.get("BootstrapComplete"), "True", "written as the node, not by the token")
        self.assertNotIn(TOKEN, done.err + done.out + json.dumps(world.status()) + world.console())

    def test_a_second_run_is_the_node_from_the_start(self) -> None:
        world = self.prepared()
        self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
        del world.api.auth.tokens[TOKEN]
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err + world.kubelet_log())

    def test_a_kubeconfig_whose_certificate_is_not_signed_yet(self) -> None:
        """kubelet writes the file first; the certificate may be minutes away."""
        world = self.prepared()
        write_kubeconfig(
            world, "var/lib/kubelet/kubeconfig", {"client-certificate": "/none.pem", "client-key": "/none.pem"}
        )
        done = world.bootstrap("--timeout", "4s")
        self.assertEqual(world.phase("preflight").get("outcome"), "succeeded", world.status())
        self.assertNotIn("none.pem", done.err)

    def test_a_key_of_another_certificate(self) -> None:
        world = self.prepared()
        cert, other = world.api.ca.node(world.node_name)[0], world.api.ca.node("other")[1]
        for file in (cert, other):
            (world.root / file.name).write_bytes(file.read_bytes())
        write_kubeconfig(world, "other.kubeconfig", {"client-certificate": f"/{cert.name}", "client-key": f"/{other.name}"})
        done = world.run("preflight", "--kubeconfig", str(world.root / "other.kubeconfig"), "--node-name", world.node_name)
        self.assertIn("remedy: check that the client certificate and its key, ", done.out)

    def test_a_token_that_nobody_knows(self) -> None:
        world = self.prepared()
        world.api.auth.tokens.clear()
        done = world.bootstrap("--timeout", "3s")
        self.assertFailure(world, done, 4, "preflight", "auth", "401")
        self.assertNotIn(TOKEN, done.err + world.console())


class OtherKubeconfig(WorldTest):
    def plugin(self, world: World, body: str) -> "dict[str, object]":
        path = world.folder / "bin/plugin"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path), "env": [{"name": "W", "value": "x"}]}}

    def preflight(self, world: World) -> "tuple[int, str]":
        done = world.run("preflight", "--kubeconfig", str(world.root / OTHER), "--node-name", world.node_name)
        return done.code, done.out

    def test_plugin(self) -> None:
        world = self.world(claim=False)
        world.api.auth.tokens["plain"] = Identity(f"system:node:{world.node_name}", ("system:nodes",))
        write_kubeconfig(world, OTHER, self.plugin(world, """[ "$W" = x ] && echo '{"status": {"token": "plain"}}'"""))
        code, out = self.preflight(world)
        self.assertEqual(code, 0, out)
        write_kubeconfig(world, OTHER, self.plugin(world, "exit 1"))
        code, out = self.preflight(world)
        self.assertEqual(code, 4, out)
        self.assertIn("exit code 1", out)


if __name__ == "__main__":
    unittest.main()
