"""The good path: a bare root folder becomes a Ready node, and what that costs in requests."""

from __future__ import annotations

import base64
import gzip
import json
import unittest
from datetime import datetime
from pathlib import Path

from harness import CLAIM, PATIENCE, STATUS, VERSION, Ec2, World, WorldTest, instances, mime, until

PHASES = ["imds", "userdata", "config", "plan", "render", "apply", "preflight", "start", "register", "initialize"]


class GoodPath(WorldTest):
    def test_a_karpenter_node_becomes_ready(self) -> None:
        world = self.world()
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err + world.kubelet_log())
        node = world.node()
        labels = node["metadata"]["labels"]
        self.assertEqual(node["spec"]["providerID"], world.inst.provider_id)
        self.assertEqual(labels["karpenter.sh/nodepool"], "default")
        self.assertEqual(labels["karpenter.sh/initialized"], "true")
        self.assertEqual(node["status"]["allocatable"]["pods"], "29")
        self.assertEqual(node["spec"]["taints"], [])
        kinds = {c["type"]: c for c in node["status"]["conditions"]}
        self.assertEqual(kinds["BootstrapComplete"]["status"], "True")
        self.assertEqual(kinds["Ready"]["status"], "True")
        annotation = json.loads(node["metadata"]["annotations"]["nodeclaimd.io/bootstrap"])
        self.assertEqual(annotation["memory"], node["status"]["allocatable"]["memory"])

    def test_a_clock_that_is_off(self) -> None:
        """What the cluster is told is dated by its own clock, and says of which machine's clock that is not the time."""
        world = self.world()
        world.api.clock_ahead_sec = 200.0
        self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
        (complete,) = [c for c in world.node()["status"]["conditions"] if c["type"] == "BootstrapComplete"]
        self.assertRegex(complete["message"], "the clock of this machine is [0-9]+ s behind the API server's: set the clock .timedatectl, chronyc tracking")
        seconds = datetime.fromisoformat(complete["lastTransitionTime"].replace("Z", "+00:00")).timestamp()
        self.assertAlmostEqual(seconds, world.api.now(), delta=60 * PATIENCE)

    def test_the_node_registered_itself_with_its_taints(self) -> None:
        world = self.world()
        self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
        made = next(c.object for c in world.api.store.history if c.kind == "ADDED" and c.resource.plural == "nodes")
        taints = {(t["key"], t["effect"]) for t in made["spec"]["taints"]}
        self.assertIn(("karpenter.sh/unregistered", "NoExecute"), taints)
        self.assertNotIn("karpenter.sh/registered", made["metadata"]["labels"])

    def test_what_it_says_of_itself(self) -> None:
        world = self.world()
        self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
        status = world.status()
        self.assertEqual([p["name"] for p in status["phases"]], PHASES)
        self.assertEqual({p["outcome"] for p in status["phases"]} - {"succeeded", "skipped"}, set())
        self.assertEqual((status["schema"], status["outcome"], status["node"]), (2, "succeeded", world.node_name))
        self.assertEqual(status["instance"]["id"], world.inst.id)
        self.assertEqual(status["nodeClaim"]["name"], CLAIM)
        self.assertEqual(status["allocatable"]["predicted"]["pods"], "29")
        self.assertEqual(status["allocatable"]["differences"], [])
        line = world.console_record()
        self.assertEqual(
            (line["outcome"], line["node"], line["instance"]), ("succeeded", world.node_name, world.inst.id)
        )
        timeline = world.run("timeline")
        self.assertEqual(timeline.code, 0, timeline.err)
        for phase in PHASES:
            self.assertIn(phase, timeline.out)
        shown = world.run("status", "-o", "json")
        self.assertEqual(json.loads(shown.out)["outcome"], "succeeded")

    def test_only_patches_of_own_keys_reach_the_node(self) -> None:
        world = self.world()
        self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
        log = [e for e in world.api.server.log.snapshot() if e.get("user", "").startswith("system:node:")]
        self.assertEqual([e for e in log if e["method"] in ("PUT", "DELETE")], [])
        self.assertEqual(
            [e for e in log if e["path"].startswith("/api/v1/nodes?") and "fieldSelector" not in e["path"]], []
        )
        ours = [json.loads(e["body"]) for e in log if e["method"] == "PATCH" and e["agent"].endswith("(bootstrap)")]
        self.assertEqual({p["metadata"]["uid"] for p in ours}, {world.node()["metadata"]["uid"]})

    def test_before_karpenter_registered_nothing_is_written_to_the_node(self) -> None:
        world = self.world()
        self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
        for change in world.api.store.history:
            if (
                change.resource.plural == "nodes"
                and change.object["metadata"]["labels"].get("karpenter.sh/registered") != "true"
            ):
                self.assertNotIn("nodeclaimd.io/bootstrap", change.object["metadata"].get("annotations", {}))
                self.assertNotIn(
                    "BootstrapComplete", [c["type"] for c in change.object["status"].get("conditions", [])]
                )

    def test_without_a_nodeclaim(self) -> None:
        """A self-managed group: nobody registers the node, the unregistered taint is not ours to wait for."""
        world = self.world(claim=False)
        kubelet = "  kubelet:\n    config:\n      maxPods: 17\n"
        world.set_user_data(mime(("application/node.eks.aws", world.node_config(kubelet=kubelet))))
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err + world.kubelet_log())
        self.assertEqual(world.node()["status"]["allocatable"]["pods"], "17")

    def test_second_run_changes_nothing(self) -> None:
        world = self.world()
        self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
        before = {p: (world.root / p).stat().st_mtime_ns for p in world.tree("etc")}
        contents = world.tree("etc")
        again = world.bootstrap("--timeout", "30s")
        self.assertEqual(again.code, 0, again.err)
        self.assertEqual(world.tree("etc"), contents)
        self.assertEqual({p: (world.root / p).stat().st_mtime_ns for p in world.tree("etc")}, before)
        self.assertEqual(world.status()["outcome"], "succeeded")


class OneDirection(WorldTest):
    """Who the node is, what the API server says of it, then one plan, then the files."""

    def test_nothing_is_written_before_the_api_server_knows_us(self) -> None:
        world = self.world()
        world.api.server.refuse()
        before = world.tree("etc", "var/lib")
        proc = world.spawn("bootstrap", "--timeout", "60s")
        self.assertTrue(until(lambda: "refused" in str(world.phase("preflight").get("error"))), world.status())
        self.assertEqual(world.status()["node"], world.node_name)
        self.assertEqual({world.phase(p)["outcome"] for p in ("plan", "render", "apply", "start")}, {"pending"})
        self.assertEqual(world.tree("etc", "var/lib"), before)
        world.api.server.listen_later(0)
        done = world.finish(proc)
        self.assertEqual(done.code, 0, done.err + world.kubelet_log())
        self.assertEqual({p["name"]: p["attempts"] for p in world.status()["phases"]} | {"preflight": 1}, dict.fromkeys(PHASES, 1))

    def test_the_claim_is_in_the_first_files(self) -> None:
        """No earlier bootstrap left a way to the API server: what is written is written once, with what the claim says."""
        world = self.world(claim=False)
        world.api.claims_readable = True
        claim = world.claim_object()
        claim["metadata"]["labels"]["team"] = "blue"
        world.api.put("nodeclaims", claim)
        before = set(world.tree("etc", "var/lib"))
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err + world.kubelet_log())
        self.assertIn("team=blue", (world.root / "etc/nodeclaimd/kubelet.env").read_text())
        written = [p for p in set(world.tree("etc", "var/lib")) - before if "/pki/kubelet" not in p]
        self.assertIn(f" {len(written)} files written, 0 unchanged, 0 removed", done.err)

    def test_a_plan_that_is_refused_is_told_to_the_claim(self) -> None:
        world = self.world()
        world.api.claims_readable = True
        text = world.node_config().replace("maxPods: 29", "maxPods: 29\n      kubeReserved: {memory: 900Gi}")
        world.set_user_data(mime(("application/node.eks.aws", text)))
        before = world.tree("etc", "var/lib")
        done = world.bootstrap("--timeout", "20s")
        self.assertFailure(world, done, 3, "plan", "config", "memory")
        self.assertEqual(world.tree("etc", "var/lib"), before)
        (event,) = world.api.objects("events")
        self.assertEqual((event["involvedObject"]["kind"], event["involvedObject"]["name"]), ("NodeClaim", CLAIM))
        self.assertIn("plan: ", event["message"])


class Beside(WorldTest):
    """The EKS image as it is: nodeadm's units are enabled."""

    def enable(self, world: World, unit: str) -> Path:
        (world.root / "usr/lib/systemd/system").mkdir(parents=True, exist_ok=True)
        (world.root / "usr/lib/systemd/system" / unit).write_text("[Service]\nExecStart=/usr/bin/nodeadm\n")
        link = world.root / "etc/systemd/system/multi-user.target.wants" / unit
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"/usr/lib/systemd/system/{unit}")
        return link

    def test_bootstrap_and_preflight_refuse(self) -> None:
        world = self.world()
        link = self.enable(world, "nodeadm-run.service")
        before = world.tree("etc", "var/lib")
        done = world.bootstrap("--timeout", "30s")
        self.assertFailure(world, done, 6, "config", "host", "nodeadm-run.service is enabled")
        self.assertIn("systemctl disable nodeadm-config.service", world.phase("config")["error"]["remedy"])
        self.assertEqual(world.tree("etc", "var/lib"), before)
        said = world.run("preflight").out
        self.assertRegex(said, r"(?m)^nodeadm +failed +nodeadm-run\.service is enabled.*\n +remedy: systemctl disable")
        link.unlink()
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err + world.kubelet_log())
        self.assertRegex(world.run("preflight").out, r"(?m)^nodeadm +ok ")


class Requests(WorldTest):
    def cost(self, world: World) -> tuple[int, int, int]:
        rows = [e for e in world.requests() if e["status"]]
        return (
            sum(e["method"] == "PUT" for e in rows),
            sum(e["method"] == "GET" for e in rows),
            world.imds.round_trips(),
        )

    def test_files_phase(self) -> None:
        world = self.world()
        world.imds.server.latency_sec = 0.05
        done = world.bootstrap("--skip", "start")
        self.assertEqual(done.code, 0, done.err)
        tokens, gets, trips = self.cost(world)
        self.assertEqual(tokens, 1)
        self.assertLessEqual(gets, 14)
        self.assertLessEqual(trips, 3)
        self.assertLessEqual(len({e["conn"] for e in world.requests()}), 12)
        paths = [e["path"] for e in world.requests()]
        self.assertEqual(len(paths), len(set(paths)), "a path is asked once")

    def test_ipv6_cluster(self) -> None:
        world = self.world(profile="m5.xlarge-ipv6")
        world.imds.server.latency_sec = 0.05
        text = (
            world.node_config().replace("10.100.0.0/16", "fd00:10:96::/108").replace("- 10.100.0.10", "- fd00:10:96::a")
        )
        world.set_user_data(mime(("application/node.eks.aws", text)))
        done = world.bootstrap("--skip", "start")
        self.assertEqual(done.code, 0, done.err)
        self.assertLessEqual(world.imds.round_trips(), 3)
        env = (world.root / "etc/nodeclaimd/kubelet.env").read_text()
        self.assertIn(f"--node-ip={world.inst.ipv6[0]}", env)
        self.assertNotIn(world.inst.ipv6[1], env)

    def test_imds_over_ipv6(self) -> None:
        world = World()
        six = type(world.imds)(world.imds.tree, host="::1")
        with six, world:
            world.imds.server.stop()
            world.imds = six
            done = world.bootstrap("--skip", "start")
            self.assertEqual(done.code, 0, done.err)

    def test_proxy_variables_do_not_touch_imds(self) -> None:
        world = self.world()
        done = world.run(
            "bootstrap",
            "--skip",
            "start",
            http_proxy="http://127.0.0.1:9",
            HTTP_PROXY="http://127.0.0.1:9",
            all_proxy="http://127.0.0.1:9",
            ALL_PROXY="http://127.0.0.1:9",
        )
        self.assertEqual(done.code, 0, done.err)

    def test_endpoint_by_environment(self) -> None:
        world = self.world()
        proc = world.run("version")
        self.assertEqual(proc.code, 0, proc.err)
        world.command = lambda *args: [*World.command(world, *args)[:2], *World.command(world, *args)[4:]]  # type: ignore[method-assign]
        done = world.run("bootstrap", "--skip", "start", AWS_EC2_METADATA_SERVICE_ENDPOINT=world.imds.url)
        self.assertEqual(done.code, 0, done.err)


class Identity(WorldTest):
    def test_partitions(self) -> None:
        for profile, host in (
            ("m5.large-china", "sts.cn-north-1.amazonaws.com.cn"),
            ("c5.xlarge-govcloud", "sts.us-gov-west-1.amazonaws.com"),
            ("c5a.large-spot", "sts.ap-northeast-1.amazonaws.com"),
        ):
            with self.subTest(profile), World(profile) as world:
                done = world.bootstrap("--timeout", "30s")
                self.assertEqual(done.code, 0, done.err + world.kubelet_log())
                token = json.loads(world.run("token", "--cluster", "test-cluster").out)["status"]["token"]
                raw = token.split(".", 1)[1]
                self.assertIn(f"https://{host}/", base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4)).decode())

    def test_token_output(self) -> None:
        world = self.world()
        done = world.run("token", "--cluster", "test-cluster")
        self.assertEqual(done.code, 0, done.err)
        doc = json.loads(done.out)
        self.assertEqual((doc["kind"], doc["apiVersion"]), ("ExecCredential", "client.authentication.k8s.io/v1beta1"))
        self.assertRegex(doc["status"]["expirationTimestamp"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        info = json.dumps(
            {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "spec": {"interactive": False}}
        )
        doc = json.loads(world.run("token", "--cluster", "test-cluster", KUBERNETES_EXEC_INFO=info).out)
        self.assertEqual(doc["apiVersion"], "client.authentication.k8s.io/v1")

    def test_client_certificate_cluster(self) -> None:
        world = self.world(claim=False)
        cert, key = world.api.ca.node(world.node_name)
        (world.root / "etc/kubernetes/pki").mkdir(parents=True)
        (world.root / "etc/kubernetes/pki/node.crt").write_bytes(cert.read_bytes())
        (world.root / "etc/kubernetes/pki/node.key").write_bytes(key.read_bytes())
        world.set_user_data(f"""apiVersion: nodeclaimd.io/v1alpha1
kind: AgentConfig
spec:
  cluster:
    name: bare
    apiServerEndpoint: {world.api.url}
    certificateAuthority: {world.api.ca.base64}
    cidr: 10.96.0.0/12
    auth:
      mode: client-certificate
      clientCertificate: /etc/kubernetes/pki/node.crt
      clientKey: /etc/kubernetes/pki/node.key
""".encode())
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err + world.kubelet_log())
        self.assertFalse(
            [e for e in world.requests() if "security-credentials/" in e["path"] and e["path"].endswith(instances.ROLE)]
        )

    def test_preflight_proves_who_we_are(self) -> None:
        world = self.world()
        self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
        done = world.run("preflight")
        self.assertEqual(done.code, 0, done.out + done.err)
        self.assertIn(f"system:node:{world.node_name}", done.out)


class Sizes(WorldTest):
    def no_max_pods(self, world: World) -> None:
        world.set_user_data(mime(("application/node.eks.aws", world.node_config(kubelet="  kubelet: {}\n"))))

    def max_pods(self, world: World) -> int:
        return int(json.loads((world.root / "etc/kubernetes/kubelet/config.json").read_text())["maxPods"])

    def test_a_table_of_types_that_cannot_be_read_is_not_taken_for_absent(self) -> None:
        world = self.world()
        self.assertEqual(world.bootstrap("--skip", "start").code, 0)
        self.assertNotIn("instance-types", str(world.status()["warnings"]))
        (world.root / "etc/nodeclaimd/instance-types.tsv").mkdir()
        self.assertEqual(world.bootstrap("--skip", "start").code, 0)
        self.assertRegex(str(world.status()["warnings"]), "instance-types.tsv: .*the built-in table of instance types counts")

    def test_unknown_instance_type_without_ec2(self) -> None:
        world = self.world(profile="unknown-type", config="  aws: {ec2: never}\n")
        self.no_max_pods(world)
        done = world.bootstrap("--skip", "start")
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(self.max_pods(world), 110)
        self.assertIn("zz9.plural", " ".join(world.status()["warnings"]))

    def test_unknown_instance_type_with_ec2(self) -> None:
        ec2 = self.enterContext(Ec2(instances.PROFILES["unknown-type"]))
        world = self.world(profile="unknown-type", config=f'  aws: {{ec2: auto, ec2Endpoint: "{ec2.url}"}}\n')
        self.no_max_pods(world)
        done = world.bootstrap("--skip", "start")
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(self.max_pods(world), 4 * (15 - 1) + 2, ec2.server.log.snapshot())

    def test_ec2_where_the_environment_has_it(self) -> None:
        """As every AWS SDK takes it, and nodeadm with it."""
        for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EC2"):
            with self.subTest(name):
                ec2 = self.enterContext(Ec2(instances.PROFILES["unknown-type"]))
                world = self.world(profile="unknown-type", config="  aws: {ec2: auto}\n")
                self.no_max_pods(world)
                done = world.run("bootstrap", "--skip", "start", **{name: ec2.url})
                self.assertEqual(done.code, 0, done.err)
                self.assertEqual(self.max_pods(world), 4 * (15 - 1) + 2, ec2.server.log.snapshot())

    def test_unknown_instance_type_with_ec2_denied(self) -> None:
        ec2 = self.enterContext(Ec2(instances.PROFILES["unknown-type"]))
        ec2.denied = True
        world = self.world(profile="unknown-type", config=f'  aws: {{ec2: auto, ec2Endpoint: "{ec2.url}"}}\n')
        self.no_max_pods(world)
        done = world.bootstrap("--skip", "start")
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(self.max_pods(world), 110)
        self.assertIn("ec2:DescribeInstanceTypes", " ".join(world.status()["warnings"]))

    def test_prediction_is_what_kubelet_reports(self) -> None:
        for profile in ("m5.large", "c5a.large-spot", "m6g.xlarge-arm"):
            with self.subTest(profile), World(profile) as world:
                self.assertEqual(world.bootstrap("--timeout", "30s").code, 0)
                status = world.status()
                for name in ("cpu", "memory", "pods", "ephemeral-storage"):
                    self.assertIn(name, status["allocatable"]["predicted"])
                self.assertEqual(status["allocatable"]["differences"], [], status["allocatable"])


class UserData(WorldTest):
    def test_every_wrapping_gives_the_same_files(self) -> None:
        world = self.world()
        plain = world.node_config().encode()
        parts = mime(
            ("text/x-shellscript", "#!/bin/sh\necho hello\n"), ("application/node.eks.aws", world.node_config())
        )
        forms = {
            "plain": plain,
            "mime": parts,
            "gzip": gzip.compress(parts, mtime=0),
            "base64": base64.b64encode(parts),
            "base64 of gzip": base64.b64encode(gzip.compress(parts, mtime=0)),
            "mark and base64": b"\xef\xbb\xbf" + base64.b64encode(parts),
            "base64 of base64, plain": base64.encodebytes(base64.b64encode(plain)),
            "crlf": parts.replace(b"\n", b"\r\n"),
        }
        seen: dict[str, dict[str, bytes]] = {}
        for name, data in forms.items():
            with self.subTest(name):
                world.set_user_data(data)
                done = world.bootstrap("--skip", "start")
                self.assertEqual(done.code, 0, done.err)
                seen[name] = world.tree("etc", "var/lib/kubelet")
                saved = world.folder / "saved"
                saved.write_bytes(data)
                done = world.run("check", str(saved))
                self.assertEqual((done.code, done.err), (0, ""))
        self.assertEqual({n: t for n, t in seen.items() if t != seen["plain"]}, {})

    def test_render_writes_what_bootstrap_wrote(self) -> None:
        world = self.world()
        self.assertEqual(world.bootstrap("--skip", "start").code, 0)
        out, facts = world.folder / "out", world.folder / "facts"
        source = world.folder / "user-data"
        source.write_bytes(world.imds.tree["latest/user-data"])
        args = [
            "render",
            "--facts",
            world.imds.url,
            "--source",
            source.as_uri(),
            "--source",
            (world.root / "etc/nodeclaimd/conf.d").as_uri(),
            "--kubelet-version",
            VERSION,
        ]
        first = world.run(*args, "--out", str(out), "--save-facts", str(facts))
        self.assertEqual(first.code, 0, first.err)
        written = {p: b for p, b in world.tree("etc", "var/lib/kubelet").items() if (out / p).exists()}
        self.assertEqual(
            len(written), sum(p.is_file() for p in out.rglob("*")), "no file that bootstrap does not write"
        )
        again = world.folder / "again"
        args[2] = str(facts)
        self.assertEqual(world.run(*args, "--out", str(again)).code, 0)
        for path, body in written.items():
            self.assertEqual(self.offline(path, (out / path).read_bytes()), self.offline(path, body), path)
            self.assertEqual((again / path).read_bytes(), (out / path).read_bytes(), path)

    @staticmethod
    def offline(path: str, body: bytes) -> bytes:
        """Without what names the metadata service of this test: an offline rendering knows none."""
        if not path.endswith("/kubeconfig"):
            return body
        doc = json.loads(body)
        doc["users"][0]["user"]["exec"].pop("env", None)
        return json.dumps(doc, sort_keys=True).encode()


class Secrets(WorldTest):
    def test_no_secret_is_written_or_printed(self) -> None:
        world = self.world()
        done = world.run("bootstrap", "--timeout", "30s", "--log-level", "debug")
        self.assertEqual(done.code, 0, done.err)
        outputs = {"stdout": done.out.encode(), "stderr": done.err.encode()}
        for args in (("status",), ("status", "-o", "json"), ("status", "--metrics"), ("timeline",), ("preflight",)):
            shown = world.run(*args)
            outputs[" ".join(args)] = (shown.out + shown.err).encode()
        outputs.update({p: b for p, b in world.tree("etc", "var", "run", "dev").items()})
        outputs["nodes and events"] = json.dumps(world.api.objects("nodes") + world.api.objects("events")).encode()
        secrets = {
            "secret key": world.inst.secret_key.encode(),
            "session token": world.inst.session_token.encode(),
            "signed token": b"k8s-aws-v1.",
        }
        secrets.update({f"IMDS token {i}": t.encode() for i, t in enumerate(world.imds.tokens)})
        self.assertGreater(len(secrets), 3)
        self.assertIn(STATUS, outputs)
        for place, text in outputs.items():
            for name, secret in secrets.items():
                self.assertNotIn(secret, text, f"{name} in {place}")

    def test_modes_of_files(self) -> None:
        world = self.world()
        self.assertEqual(world.bootstrap("--skip", "start").code, 0)
        for path, mode in (("etc/kubernetes/pki/ca.crt", 0o644), (STATUS, 0o640), ("run/nodeclaimd/metrics.prom", 0o644)):
            self.assertEqual((world.root / path).stat().st_mode & 0o777, mode, path)


class Logs(WorldTest):
    def test_the_nodeclaim_hears_of_a_failure_before_the_node_exists(self) -> None:
        world = self.world(mode="crash")
        world.api.claims_readable = True
        done = world.bootstrap("--timeout", "4s")
        self.assertNotEqual(done.code, 0)
        events = until(lambda: world.api.objects("events"))
        about = [
            e for e in events if e["involvedObject"]["kind"] == "NodeClaim" and e["reason"] == "BootstrapFailed"
        ]
        self.assertTrue(about, events)
        self.assertEqual(world.node(), {})
        event = about[0]
        claim = world.api.objects("nodeclaims")[0]
        self.assertEqual(
            (event["involvedObject"]["name"], event["involvedObject"]["uid"]), (CLAIM, claim["metadata"]["uid"])
        )
        for field in ("type", "reason", "message", "count", "firstTimestamp", "lastTimestamp"):
            self.assertTrue(event.get(field), field)
        self.assertTrue(event["source"]["component"])


class Containerd(WorldTest):
    """Its configuration: of the version that is installed, and converted by it where the user's is older."""

    CONFIG = "etc/containerd/config.toml"

    def world_with(self, version: str, script: str, toml: str) -> World:
        world = self.world()
        (world.root / "etc/eks/containerd-version.txt").write_text(f"containerd example.com/containerd {version} 0123abc\n")
        (world.root / "usr/bin").mkdir(parents=True)
        program = world.root / "usr/bin/containerd"
        program.write_text(f"#!/bin/sh\necho called >>{world.folder}/containerd.calls\n{script}\n")
        program.chmod(0o755)
        config = world.node_config().replace("containerd: {}", f"containerd: {json.dumps({'config': toml})}")
        world.set_user_data(mime(("application/node.eks.aws", config)))
        return world

    def calls(self, world: World) -> int:
        path = world.folder / "containerd.calls"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def test_the_users_text_is_laid_over_ours_without_running_anything(self) -> None:
        world = self.world_with("2.1.4", "exit 1", "[plugins.'io.containerd.cri.v1.images']\nsnapshotter = 'native'\n")
        done = world.bootstrap("--skip", "start")
        self.assertEqual(done.code, 0, done.err)
        text = (world.root / self.CONFIG).read_text()
        self.assertIn('\nsnapshotter = "native"\n', text)
        self.assertIn("\ndiscard_unpacked_layers = true\n", text)
        self.assertEqual(self.calls(world), 0)

    def test_an_older_text_is_converted_before_it_is_written(self) -> None:
        world = self.world_with("2.1.4", 'echo "# converted"; cat "$2"', "version = 2\n[debug]\nlevel = 'debug'\n")
        for runs in (1, 2):
            done = world.bootstrap("--skip", "start")
            self.assertEqual(done.code, 0, done.err)
            self.assertEqual(self.calls(world), runs)
        text = (world.root / self.CONFIG).read_text()
        self.assertTrue(text.startswith("# converted\nversion = 2\n"), text)
        self.assertIn("is of version 2: containerd 2.1.4 converts the file", str(world.status()["warnings"]))
        self.assertEqual(sorted(p.name for p in (world.root / "run/nodeclaimd").glob(".containerd*")), [])

    def test_what_cannot_be_converted_changes_nothing(self) -> None:
        world = self.world_with("2.1.4", "echo 'no such plugin' >&2; exit 3", "version = 2\n")
        before = world.tree()
        done = world.bootstrap("--skip", "start", "--timeout", "2s")
        self.assertNotEqual(done.code, 0)
        self.assertIn("containerd config migrate", done.err)
        self.assertIn("no such plugin", done.err)
        self.assertEqual(world.phase("render")["outcome"], "failed")
        self.assertEqual(world.tree(), before)

    def test_text_of_version_3_needs_containerd_2(self) -> None:
        world = self.world_with("1.7.28", "", "version = 3\n")
        before = world.tree()
        done = world.bootstrap("--skip", "start")
        self.assertEqual(done.code, 3, done.err)
        self.assertIn("is of version 3, and containerd 1.7.28 takes version 2", done.err)
        self.assertEqual(world.tree(), before)

    def test_replaced_between_two_boots(self) -> None:
        """Each boot writes what the containerd of that boot reads, also where an older one has come back."""
        world = self.world_with("1.7.28", "", "[debug]\nlevel = 'debug'\n")
        for version, first in (("1.7.28", "2"), ("2.1.4", "3"), ("2.4.2", "3"), ("1.7.28", "2")):
            (world.root / "etc/eks/containerd-version.txt").write_text(f"containerd example.com/c {version} 0123abc\n")
            done = world.bootstrap("--skip", "start")
            self.assertEqual(done.code, 0, done.err)
            text = (world.root / self.CONFIG).read_text()
            self.assertIn(f"version = {first}\n", text)
            self.assertEqual("bin_dirs" in text, version == "2.4.2", "which ignores bin_dir")
            self.assertEqual("enable_cdi" in text, version != "2.4.2", "which has it always")
            self.assertEqual("cri.v1.images" in text, version[0] == "2")
            self.assertIn('level = "debug"', text)

    def test_a_mistake_is_told_with_its_line(self) -> None:
        world = self.world_with("2.1.4", "", "[grpc]\naddress = \n")
        done = world.bootstrap("--skip", "start")
        self.assertEqual(done.code, 3, done.err)
        self.assertIn("spec.containerd.config: invalid TOML text: line 2, column 11: ", done.err)


if __name__ == "__main__":
    unittest.main()
