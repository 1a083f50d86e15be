"""The commands beside bootstrap: what they print, where, and the exit code."""

from __future__ import annotations

import base64
import fcntl
import gzip
import json
import os
import re
import signal
import socket
import struct
import subprocess
import termios
import time
import unittest
from pathlib import Path

from harness import CLUSTER, PATIENCE, SOURCE, VERSION, Authority, World, WorldTest, agent_path, mime, until

import instances  # found by harness
from demo import install_tables
from ec2 import Ec2
from wire import Fault

COMMANDS = ("bootstrap", "render", "check", "explain", "preflight", "status", "timeline", "token", "version")
AGENT_CONFIG = "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec:\n"


def run(*args: str, stdout: object = subprocess.PIPE) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(agent_path()), *args],
        stdin=subprocess.DEVNULL,
        stdout=stdout,  # type: ignore[call-overload]
        stderr=subprocess.PIPE,
        text=True,
        timeout=30,
    )


class Usage(unittest.TestCase):
    def test_help_of_every_command(self) -> None:
        whole = run("--help")
        self.assertEqual((whole.returncode, whole.stderr), (0, ""))
        for command in COMMANDS:
            with self.subTest(command):
                self.assertIn(command, whole.stdout)
                for args in (("--help",), ("-h",), ("--root", "/nowhere", "--help")):
                    done = run(command, *args)
                    self.assertEqual((done.returncode, done.stderr), (0, ""), args)
                    self.assertTrue(done.stdout.startswith(f"usage: nodeclaimd {command} "), done.stdout)
                    self.assertIn("--root DIR", done.stdout)
        self.assertNotIn("--cluster", run("status", "--help").stdout)

    def test_mistakes_end_with_2_and_say_which(self) -> None:
        rows = (
            ((), "usage:"),
            (("boot",), "unknown command: boot"),
            (("status", "--cluster", "x"), "--cluster"),
            (("status", "--nonsense"), "--nonsense"),
            (("status", "-x"), "-x"),
            (("status", "-o"), "-o"),
            (("status", "-o", "yaml"), "yaml"),
            (("status", "more"), "more"),
            (("status", "--watch", "--metrics"), "--metrics or --watch"),
            (("explain", "maxPods", "labels"), "labels"),
            (("bootstrap", "--start", "upstart"), "upstart"),
            (("bootstrap", "--skip", "preflight"), "preflight"),
            (("bootstrap", "--timeout", "soon"), "soon"),
            (("bootstrap", "--timeout", "0s"), "0s"),
            (("bootstrap", "--timeout", "-5m"), "-5m"),
            (("bootstrap", "--log-level", "loud"), "loud"),
            (("bootstrap", "--log-format", "xml"), "xml"),
            (("check",), "name the files"),
            (("check", "--kubelet-version", "v9.34.4", "x"), "is 1.MINOR.PATCH such as v1.34.4"),
            (("render", "--source", "http://127.0.0.1/x", "--out", "x"), "--source is a path, imds://user-data or file:///PATH"),
            (("token",), "--cluster"),
            (("token", "--cluster", ""), "--cluster"),
            (("render",), "--out"),
        )
        for args, word in rows:
            with self.subTest(args):
                done = run(*args)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(done.stdout, "")
                self.assertIn(word, done.stderr)

    def test_version(self) -> None:
        version = subprocess.run([SOURCE / "release/version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        self.assertTrue(run("version").stdout.startswith(f"nodeclaimd {version}\n"))
        self.assertEqual(run("--version").stdout, run("version").stdout)
        self.assertEqual(json.loads(run("version", "-o", "json").stdout)["version"], version)
        self.assertRegex(run("version").stdout.splitlines()[1], "^commit ([0-9a-f]{40}|unknown)$")

    def test_output_that_cannot_be_written_is_a_failure(self) -> None:
        with open("/dev/full", "w") as full:
            done = run("version", stdout=full)
        self.assertEqual(done.returncode, 6)
        self.assertIn("No space left", done.stderr)


class Check(WorldTest):
    def setUp(self) -> None:
        self.w = self.world()
        self.good = self.w.folder / "good.yaml"
        self.good.write_text(self.w.node_config())
        self.typo = self.w.folder / "typo.yaml"
        self.typo.write_text(AGENT_CONFIG + "  maxPods:\n    mode: explicit\n    valu: 5\n    value: 5\n")

    def lines(self, text: str) -> list[str]:
        return [line for line in text.splitlines() if re.match(r".+:\d+:\d+: (error|warning): ", line)]

    def test_empty_mode(self) -> None:
        """As a template leaves it: neither auto nor a policy."""
        for field in ("drain:\n    mode: ''\n", "interruption:\n    spot: ''\n", "interruption:\n    reboot: ''\n"):
            path = self.w.folder / "empty.yaml"
            path.write_text(AGENT_CONFIG + "  " + field)
            self.assertRegex(self.w.run("check", str(path)).out, r":\d+:\d+: error: spec\.\S+: must be .*, not the string ''")

    def test_good(self) -> None:
        done = self.w.run("check", str(self.good))
        self.assertEqual((done.code, self.lines(done.out)), (0, []), done.out + done.err)
        self.assertIn("a bootstrap would accept it", done.out)

    def test_containerd_of_the_node_and_not_of_this_machine(self) -> None:
        text = self.w.node_config() + "  featureGates: {FastImagePull: true}\n"
        for toml, code in (("version = 2", 0), ("version = 3", 0), ("version =", 3), ("version = 4", 0), ("version = 5", 3)):
            self.good.write_text(text.replace("containerd: {}", f"containerd: {{config: '{toml}'}}"))
            done = self.w.run("check", str(self.good))
            self.assertEqual(done.code, code, done.out + done.err)

    def test_warning_and_strict(self) -> None:
        done = self.w.run("check", str(self.good), str(self.typo))
        self.assertEqual(done.code, 0, done.out + done.err)
        (line,) = self.lines(done.out)
        self.assertRegex(line, rf"^{re.escape(str(self.typo))}:6:\d+: warning: spec\.maxPods\.valu: .*\"value\"")
        self.assertTrue(done.out.endswith("2 documents: a bootstrap would accept them; 1 unknown field is ignored\n"), done.out)
        done = self.w.run("check", "--strict", str(self.good), str(self.typo))
        self.assertEqual(done.code, 3)
        self.assertRegex(self.lines(done.out)[0], r": error: ")
        self.assertNotIn("would accept", done.out)

    def test_unknown_field_of_kubelet(self) -> None:
        """A kubelet whose fields are all known ignores it."""
        self.typo.write_text("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {kubelet: {config: {maxPod: 10}}}\n")
        for arguments, ignored, message in (
            ((), "; 1 unknown field is ignored", "maxPods"),
            (("--fragment",), "; 1 unknown field is ignored", "maxPods"),
            (("--kubelet-version", "v1.37.9"), "; 1 unknown field is ignored", "maxPods"),
            (("--kubelet-version", "v1.38.0"), "", "passed to kubelet, which may not know it"),
        ):
            done = self.w.run("check", *arguments, str(self.good), str(self.typo))
            self.assertEqual((done.code, done.out.endswith(ignored + "\n"), "ignored" in done.out), (0, True, bool(ignored)), done.out)
            self.assertIn(message, done.out)

    def test_label_that_is_held_back(self) -> None:
        """The node will not have it, wherever it boots. What may fit on another instance fails no --strict."""
        for extra, place in (
            ("  node: {labels: {kubernetes.io/foo: x}}\n", r":4:\d+"),
            ("  kubelet: {flags: ['--node-labels=kubernetes.io/foo=x']}\n", r":4:\d+"),
        ):
            self.typo.write_text(AGENT_CONFIG + extra)
            for strict, severity, code in ((), "warning", 0), (("--strict",), "error", 3):
                done = self.w.run("check", *strict, str(self.good), str(self.typo))
                self.assertEqual((done.code, done.out.count("held back")), (code, 1), done.out)
                (line,) = self.lines(done.out)
                self.assertRegex(line, rf"^{re.escape(str(self.typo))}{place}: {severity}: spec\.(node\.labels|kubelet\.flags): label kubernetes\.io/foo=x is held back: ")
                self.assertEqual(line.count(str(self.typo)), 1)
                done = self.w.run("check", *strict, "-o", "json", str(self.good), str(self.typo))
                (entry,) = json.loads(done.out)
                self.assertEqual((done.code, entry["severity"], entry["line"]), (code, severity, 4))
        claim = "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: c, labels: {karpenter.sh/registered: 'true'}}\nspec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: d}}\n"
        self.typo.write_text(claim)
        done = self.w.run("check", "--strict", str(self.good), str(self.typo))
        self.assertEqual((done.code, self.lines(done.out)), (0, []), done.out)
        self.assertRegex(done.out, rf"(?m)^note: {self.typo}:\d+:\d+: label karpenter\.sh/registered=true is held back: ")

    def test_a_drop_in_by_itself(self) -> None:
        """Both examples of nodeclaimd.yaml(5): the cluster is said by another document."""
        page = (SOURCE / "man/nodeclaimd.yaml.5").read_text().split(".Sh EXAMPLES")[1]
        examples = re.findall(r"\.Bd -literal\n(.*?)\.Ed", page, re.S)
        self.assertEqual(len(examples), 2)
        for text in examples:
            self.good.write_text(text)
            done = self.w.run("check", str(self.good))
            self.assertEqual((done.code, done.err), (0, ""), done.out)
            self.assertIn("would accept it beside a document that names the cluster", done.out)
        self.good.write_text(AGENT_CONFIG + "  kubelet: {config: {imageGCHighThresholdPercent: 70}}\n")
        self.assertEqual(self.w.run("check", str(self.good)).code, 3, "the rules of a plan hold for it, too")

    def test_standard_input(self) -> None:
        def check(text: bytes, *args: str) -> "subprocess.CompletedProcess[bytes]":
            command = self.w.command("check", *args, "-")
            return subprocess.run(command, input=text, capture_output=True, env=self.w.environment(), timeout=60 * PATIENCE)

        done = check(self.good.read_bytes())
        self.assertEqual((done.returncode, done.stderr), (0, b""), done.stdout)
        self.assertIn(b"a bootstrap would accept it", done.stdout)
        done = check(self.typo.read_bytes(), "--strict")
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stdout, rb"^standard input:6:\d+: error: spec\.maxPods\.valu: ")
        for path in ("cloud-config.yaml", "karpenter-al2023.mime"):
            self.assertEqual(check((SOURCE / "userdata" / path).read_bytes()).returncode, 0, path)
        self.assertIn(b"is a script", check(b"#!/bin/sh\n").stderr)
        script = b"#!/bin/bash\nset -e\n/etc/eks/bootstrap.sh demo\n"
        done = check(script)
        self.assertEqual((done.returncode, done.stderr), (0, b""), done.stdout)
        self.assertRegex(done.stdout, rb"^standard input:3:1: warning: what this script gives to bootstrap\.sh has to be in a NodeConfig: docs/migrate-from-bootstrap-sh\.md\n"
                         rb"0 documents: a node boots only where /etc/nodeclaimd/conf\.d of its image names the cluster\n$")  # fmt: skip
        done = check(script, "--strict", "-o", "json")
        (entry,) = json.loads(done.stdout)
        self.assertEqual((done.returncode, entry["severity"], entry["source"], entry["line"]), (3, "error", "standard input", 3))
        for call in (b"nodeadm init", b"NODEADM=/usr/bin/nodeadm"):
            done = check(b"#!/bin/sh\nmkdir -p /etc/eks/nodeadm.d\n" + call + b"\n")
            self.assertRegex(done.stdout, rb"^standard input:3:1: warning: .*: docs/migrate-from-nodeadm\.md\n")
        self.assertNotIn(b"warning", check(b"#!/bin/sh\nmkdir -p /etc/eks/nodeadm.d\n").stdout)
        for text in (b"", b"{", b"\0" * 100, b"a: b\n" * 300000):
            self.assertEqual(check(text).returncode, 3, text[:10])

    def test_fragment(self) -> None:
        """A part of a configuration: what it lacks is another's, what is wrong in it is wrong."""
        whole = self.w.node_config()
        part = whole[: whole.index("spec:")] + "spec:\n"
        for text in (
            part + "  cluster: {cidr: 10.9.0.0/16}\n",
            part + "  kubelet: {config: {evictionSoft: {memory.available: 1Gi}}}\n",
            AGENT_CONFIG + "  cluster: {auth: {mode: client-certificate}}\n",
            AGENT_CONFIG + "  maxPods: {mode: explicit}\n",
        ):
            self.good.write_text(text)
            self.assertEqual(self.w.run("check", str(self.good)).code, 3, text)
            done = self.w.run("check", "--fragment", str(self.good))
            self.assertEqual((done.code, done.out, done.err), (0, "1 document: no field is wrong in it; kubelet's flags, feature gates and rules are not checked\n", ""), text)
        for text in (
            part + "  cluster: {cidr: 10.9.0.0}\n",
            part + "  kubelet: {config: {maxPods: many}}\n",
            AGENT_CONFIG + "  maxPods: {mode: perhaps}\n",
            AGENT_CONFIG + "  drain: {margin: 11m}\n",
            part + "  kubelet: {config: {evictionHard: {memory.available: 101%}}}\n",
            "spec: {}\n",
            "",
        ):
            self.good.write_text(text)
            self.assertEqual(self.w.run("check", "--fragment", str(self.good)).code, 3, text)
        self.assertEqual(self.w.run("check", "--fragment", str(self.typo)).code, 0)
        self.assertEqual(self.w.run("check", "--fragment", "--strict", str(self.typo)).code, 3)

    def test_what_cloud_init_reads(self) -> None:
        """Each example of userdata/ is checked, or it is said in one line what it is."""
        install_tables(self.w.root)
        for path in sorted((SOURCE / "userdata").iterdir()):
            if path.suffix not in (".mime", ".yaml", ".sh"):
                continue
            done = self.w.run("check", str(path))
            self.assertEqual(done.code, 0, (path, done.out, done.err))
            said = "is a script: cloud-init runs it" if path.suffix == ".sh" else "would accept"
            lines = (done.out + done.err).splitlines()
            verdict = [line for line in lines if not line.startswith("note: ")]
            self.assertEqual(len(verdict), 1)
            # One keeps back more than Karpenter reads in its own part of the user data.
            less = [line for line in lines if "Karpenter expects" in line]
            self.assertEqual(len(less), path.name == "karpenter-al2023-custom.mime", less)
            self.assertLessEqual(len(lines), 2 + len(less))
            self.assertIn(said, verdict[0])
        text = (SOURCE / "userdata/cloud-config.yaml").read_text()
        (line,) = [n for n, one in enumerate(text.splitlines(), 1) if "policy: actual" in one]
        self.good.write_text(text.replace("policy: actual", "policy: perhaps"))
        done = self.w.run("check", str(self.good))
        self.assertEqual(done.code, 3)
        self.assertRegex(done.out, rf"{self.good}:{line}:\d+: error: spec.reservation.policy")
        self.good.write_text("#cloud-config\nwrite_files: [\n")
        self.assertEqual(self.w.run("check", str(self.good)).code, 3)

    def line_of(self, what: str) -> int:
        return next(n for n, line in enumerate(self.good.read_text().splitlines(), 1) if what in line)

    def test_parts_of_user_data(self) -> None:
        """What a bootstrap passes over is judged in user data as it is in a file of its own, of a NodeClass too."""
        written = "#cloud-config\nwrite_files:\n- path: /etc/nodeclaimd/conf.d/50-x.yaml\n  content: |\n    apiVersion: nodeclaimd.io/v1alpha1\n"
        written += "    kind: AgentConfig\n    spec: {drain: {lingr: 10s}}\n"
        parts = [("text/cloud-config", written), ("text/x-shellscript", "#!/bin/sh\n/etc/eks/bootstrap.sh prod\n")]
        whole = mime(("application/node.eks.aws", self.w.node_config()), *parts).decode()
        (line,) = [n for n, one in enumerate(whole.splitlines(), 1) if "lingr" in one]
        self.good.write_text(whole)
        done = self.w.run("check", "--strict", str(self.good))
        self.assertEqual(done.code, 3)
        self.assertRegex(done.out, rf"\(text/cloud-config\):{line}:20: error: spec.drain.lingr: unknown field")
        (line,) = [n for n, one in enumerate(whole.splitlines(), 1) if "bootstrap.sh" in one]
        self.assertRegex(done.out, rf"{self.good} part 3 \(text/x-shellscript\):{line}:1: error: .* has to be in a NodeConfig")
        parts_alone = "".join(f"    {one}\n" for one in mime(*parts).decode().splitlines())
        self.good.write_text("apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nspec:\n  userData: |\n" + parts_alone)
        done = self.w.run("check", "--strict", str(self.good))
        self.assertEqual(done.code, 3)
        self.assertRegex(done.out, rf"{self.good}:{self.line_of('lingr')}:24: error: spec.drain.lingr: unknown")
        self.assertRegex(done.out, rf"{self.good}:{self.line_of('bootstrap.sh')}:5: error: .* has to be in a NodeConfig")
        self.good.write_text(self.good.read_text().replace("/etc/eks/bootstrap.sh prod", "/usr/bin/nodeadm init"))
        done = self.w.run("check", "--strict", str(self.good))
        self.assertRegex(done.out, rf"{self.good}:{self.line_of('nodeadm init')}:5: error: remove what calls nodeadm")

    def test_json(self) -> None:
        done = self.w.run("check", "-o", "json", "--strict", str(self.typo))
        self.assertEqual(done.code, 3)
        (entry,) = [e for e in json.loads(done.out) if e.get("path")]
        self.assertEqual((entry["severity"], entry["line"], entry["path"]), ("error", 6, "spec.maxPods.valu"))
        done = self.w.run("check", "-o", "json", str(self.good))
        self.assertEqual((done.code, json.loads(done.out)), (0, []))
        done = self.w.run("check", "-o", "json", str(self.w.folder / "none.yaml"))
        self.assertEqual(done.code, 3)
        self.assertEqual(json.loads(done.out)[0]["severity"], "error")

    def test_each_rule(self) -> None:
        """What a rule between fields refuses is told with what the fields by themselves and the other rules do: one run has it all."""
        kubelet = "{runOnce: true, imageGCHighThresholdPercent: 70, maxPods: many, cgroupsPerQOS: false, enforceNodeAllocatable: [pods, pods]}"
        flags = "['--max-pods=x', '--port=0']"
        self.good.write_text(self.w.node_config(kubelet=f"  kubelet:\n    config: {kubelet}\n    flags: {flags}\n"))
        at = {path: line for line, text in enumerate(self.good.read_text().splitlines(), 1) for path in ("config: {run", "flags:") if path in text}
        wanted = {
            ("spec.kubelet.config.runOnce", at["config: {run"], "must be false"),
            ("spec.kubelet.config.imageGCLowThresholdPercent", at["config: {run"], "80 must be below imageGCHighThresholdPercent, which is 70 (the defaults are 80 and 85)"),
            ("spec.kubelet.config.enforceNodeAllocatable", at["config: {run"], "pods is there twice"),
            ("spec.kubelet.config.cgroupsPerQOS", at["config: {run"], "false needs enforceNodeAllocatable: [none]"),
            ("spec.kubelet.config.maxPods", at["config: {run"], "must be an integer, not the string 'many'"),
            ("spec.kubelet.flags", at["flags:"], "'--max-pods=x': kubelet cannot read this value"),
            ("spec.kubelet.config.port", at["flags:"], "must be between 1 and 65535, not 0"),
        }
        done = self.w.run("check", "-o", "json", str(self.good))
        self.assertEqual((done.code, done.err), (3, ""))
        found = {(e["path"], e["line"], e["message"]) for e in json.loads(done.out) if e["severity"] == "error"}
        self.assertEqual(found, wanted)
        done = self.w.run("check", str(self.good))
        self.assertEqual((done.code, len([x for x in self.lines(done.out) if ": error: " in x]), done.err), (3, len(wanted), ""), done.out)

    def test_a_node_pool(self) -> None:
        """No node reads it: alone it is refused, with what to name in its place; beside an EC2NodeClass it is named."""
        pool, of = self.w.folder / "pool.yaml", self.w.folder / "class.yaml"
        pool.write_text("apiVersion: karpenter.sh/v1\nkind: NodePool\nspec: {template: {spec: {taints: [{key: a, effect: NoShedule}]}}}\n")
        of.write_text("apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nspec: {amiFamily: AL2023}\n")
        done = self.w.run("check", str(pool))
        self.assertEqual(done.code, 3)
        self.assertIn(f"{pool} is a NodePool, which no node reads: name its EC2NodeClass, or user data\n", done.err)
        done = self.w.run("check", str(of), str(pool))
        self.assertEqual(done.code, 0, done.err)
        self.assertTrue(done.out.endswith(f"note: {pool} is a NodePool: it is not checked\n"), done.out)

    def test_every_fault_at_once(self) -> None:
        """Whatever kind a fault has and whatever format brings it: one run names it once, with its place and what is right."""
        text = (
            self.w.node_config(
                kubelet="""  kubelet:
    config:
      maxpods: 20
      podsPerCore: ten
      kubeReserved: {cpu: 100x}
      evictionHard: {memory.available: 1000%, nodefs.availble: 1Gi}
      registerWithTaints:
      - {key: a, effect: NoSuch}
      runOnce: true
    flags:
    - --node-labels=bad key=x
    colour: blue
"""
            )
            .replace(self.w.api.ca.base64, "Zm9v")
            .replace("10.100.0.0/16", "10.100.0.0/99")
        )
        drop_in = AGENT_CONFIG + "  node:\n    labels: {'bad key': x, kubernetes.io/foo: z}\n    taints: [{key: bad key, effect: NoExecute}]\n"
        wanted = (
            ("Zm9v", "spec.cluster.certificateAuthority", "copy it from"),
            ("10.100.0.0/99", "spec.cluster.cidr", "such as 10.100.0.0/16"),
            ("maxpods", "spec.kubelet.config.maxpods", 'did you mean "maxPods"?'),
            ("podsPerCore", "spec.kubelet.config.podsPerCore", "must be an integer"),
            ("100x", "spec.kubelet.config.kubeReserved.cpu", 'such as "100m"'),
            ("1000%", "spec.kubelet.config.evictionHard['memory.available']", "from 0% to 100%"),
            ("nodefs.availble", "spec.kubelet.config.evictionHard['nodefs.availble']", 'did you mean "nodefs.available"?'),
            ("NoSuch", "spec.kubelet.config.registerWithTaints[0].effect", "NoSchedule, PreferNoSchedule or NoExecute"),
            ("runOnce", "spec.kubelet.config.runOnce", "must be false"),
            ("bad key=x", "spec.kubelet.flags", "needs two dashes"),
            ("'bad key'", "spec.node.labels['bad key']", "such as example.com/name"),
            ("key: bad key", "spec.node.taints[0].key", "such as example.com/name"),
        )
        files = {
            "yaml": f"{text}---\n{drop_in}".encode(),
            "mime": mime(("application/node.eks.aws", text), ("application/vnd.nodeclaimd+yaml", drop_in)),
            "cloud": "".join(
                ["#cloud-config\nwrite_files:\n- path: /etc/nodeclaimd/conf.d/10-a.yaml\n  content: |\n"]
                + [f"    {line}\n" for line in f"{text}---\n{drop_in}".splitlines()]
            ).encode(),
        }
        files["gzip"] = gzip.compress(files["mime"])
        files["base64"] = base64.b64encode(files["mime"])
        for name, data in files.items():
            self.good.write_bytes(data)
            done = self.w.run("check", "-o", "json", str(self.good))
            self.assertEqual((done.code, done.err), (3, ""), name)
            errors = [e for e in json.loads(done.out) if e["severity"] == "error"]
            plain = files["mime"] if name in ("gzip", "base64") else data
            lines = plain.decode().splitlines()
            for of, path, right in wanted:
                (line,) = [n for n, one in enumerate(lines, 1) if of in one]
                (found,) = [e for e in errors if (e["line"], e["path"]) == (line, path)]
                self.assertIn(right, found["message"], (name, path))
            self.assertEqual(len(errors), len(wanted), (name, errors))
            warnings = [e for e in json.loads(done.out) if e["severity"] == "warning"]
            self.assertEqual(sum(e["path"] == "spec.kubelet.colour" for e in warnings), 1, (name, warnings))
            self.assertEqual(sum("kubernetes.io/foo=z" in e["message"] for e in warnings), 1, (name, warnings))
            self.assertNotIn("the rest was not checked", self.w.run("check", str(self.good)).out)
            done = self.w.run("render", "--out", str(self.w.folder / "out"), "--source", self.good.as_uri())
            self.assertEqual(done.code, 3, name)
            self.assertTrue(name == "cloud" or "remedy: correct the document; nodeclaimd check names all that is wrong" in done.err, done.err)
            self.assertFalse((self.w.folder / "out").exists())

    def test_what_is_missing_hides_nothing(self) -> None:
        text = self.w.node_config(kubelet="  kubelet: {config: {runOnce: true}}\n").splitlines(keepends=True)
        self.good.write_text("".join(line for line in text if "cidr:" not in line and "certificateAuthority:" not in line))
        done = self.w.run("check", str(self.good))
        self.assertEqual((done.code, done.err), (3, ""))
        missing, kubelet = (line for line in self.lines(done.out))
        self.assertRegex(missing, r":\d+:\d+: error: spec\.cluster\.certificateAuthority: is missing: .*; spec\.cluster\.cidr is missing, too")
        self.assertIn(" error: spec.kubelet.config.runOnce: ", kubelet)
        self.good.write_text("".join(text) + "---\n" + AGENT_CONFIG + "  cluster: {auth: {mode: client-certificate}}\n")
        done = self.w.run("check", str(self.good))
        self.assertEqual(done.code, 3)
        self.assertIn(" error: spec.cluster.auth.clientCertificate: is missing: ", done.out)
        self.assertIn("note: the rest was not checked: correct this and check again\n", done.out)

    def test_path_in_a_node_class(self) -> None:
        self.good.write_text("apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nspec:\n  kubelet: {evictionHard: {memory.available: 1000%}}\n")
        done = self.w.run("check", str(self.good))
        self.assertIn(f"{self.good}:4:46: error: spec.kubelet.evictionHard['memory.available']: ", done.out)

    def test_what_only_karpenter_reads_of_a_node_class(self) -> None:
        """What the API server refuses is an error of `check`, and no node fails for it."""
        node_class = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nspec:\n  kublet: {}\n  metadataOptions: {httpTokens: requires}\n"
        self.typo.write_text(node_class)
        done = self.w.run("check", str(self.good), str(self.typo))
        self.assertEqual(done.code, 3)
        self.assertIn(f'{self.typo}:4:3: warning: spec.kublet: unknown field, did you mean "kubelet"?\n', done.out)
        self.assertIn(f'{self.typo}:5:33: error: spec.metadataOptions.httpTokens: must be required or optional (did you mean "required"?), ', done.out)
        found = {e["path"]: e["severity"] for e in json.loads(self.w.run("check", "-o", "json", str(self.good), str(self.typo)).out)}
        self.assertEqual(found, {"spec.kublet": "warning", "spec.metadataOptions.httpTokens": "error"})
        done = self.w.run("explain", "maxPods", "--source", str(self.good), "--source", str(self.typo))
        self.assertEqual((done.code, "error" in done.err), (0, False), done.err)

    def test_one_fault_is_told_once(self) -> None:
        """What was set aside is not missing, and its default does not contradict what goes with it."""
        kubelet = "  kubelet: {config: {imageGCLowThresholdPercent: 70, imageGCHighThresholdPercent: 60}}\n"
        text = self.w.node_config(kubelet=kubelet).replace(self.w.api.ca.base64, "Zm9v")
        self.good.write_text(text)
        done = self.w.run("check", "-o", "json", str(self.good))
        found = sorted(e["path"] for e in json.loads(done.out) if e["severity"] == "error")
        self.assertEqual(found, ["spec.cluster.certificateAuthority", "spec.kubelet.config.imageGCLowThresholdPercent"], done.out)

    def test_what_is_refused_is_not_missing(self) -> None:
        """The resolver of pods: an address that is set aside was set."""
        for addresses, code in ("[10.0.0.300]", 3), ("nowhere", 3), ("[]", 0):
            self.good.write_text(self.w.node_config(kubelet=f"  kubelet: {{config: {{clusterDNS: {addresses}}}}}\n"))
            done = self.w.run("check", str(self.good))
            self.assertEqual((done.code, "clusterDNS: no address is set" in done.out), (code, code == 0), done.out)
            self.assertNotIn("neither", done.out)

    def test_strict_without_tables(self) -> None:
        """What could not be checked does not pass, at its place."""
        whole = self.w.node_config()
        texts = {
            "kubelet.config.featureGates": AGENT_CONFIG + "  kubelet: {config: {featureGates: {NodeSwap: true}}}\n",
            "kubelet.flags": AGENT_CONFIG + "  kubelet: {flags: ['--v=4']}\n",
            "containerd.config": whole[: whole.index("spec:")] + "spec:\n  containerd: {config: 'version = 3'}\n",
        }
        for path, text in texts.items():
            self.typo.write_text(text)
            for strict, severity, code in ((), "warning", 0), (("--strict",), "error", 3):
                done = self.w.run("check", "--containerd-version", "2.1.4", *strict, str(self.good), str(self.typo))
                (line,) = self.lines(done.out)
                self.assertRegex(line, rf"^{self.typo}:\d+:\d+: {severity}: .* are not checked: .*\.tsv is not in /\S+$")
                self.assertEqual((done.code, done.out.count("not checked")), (code, 1), done.out)
                self.assertIn(f" spec.{path}: ", line)
        install_tables(self.w.root)
        for text in texts.values():
            self.typo.write_text(text)
            done = self.w.run("check", "--strict", "--containerd-version", "v2.1.4", str(self.good), str(self.typo))
            self.assertEqual((done.code, self.lines(done.out)), (0, []), done.out)

    def test_keys_of_containerd(self) -> None:
        """A key that no containerd reads is a typo, as an unknown field is; one that another version reads is worth a note."""
        install_tables(self.w.root)
        known = ("--containerd-version", "2.4.2")
        plugin = "io.containerd.cri.v1.runtime"
        text = self.w.node_config().replace("containerd: {}", "containerd:\n    config: |\n      version = 3\n      KEY")
        (line,) = [n for n, one in enumerate(text.splitlines(), 1) if "config: |" in one]
        for key, said in (
            ("roott = '/x'", f"spec.containerd.config: containerd 2.4.2 ignores \"roott\", did you mean \"root\"?"),
            (f"[plugins.'{plugin}']\n      max_container_log_linesize = 1", f"did you mean \"{plugin} max_container_log_line_size\"?"),
            (f"[plugins.'{plugin}'.containerd]\n      snapshoter = 'x'", f"ignores \"{plugin} containerd.snapshoter\""),
        ):
            self.good.write_text(text.replace("KEY", key))
            for strict, severity, code in ((), "warning", 0), (("--strict",), "error", 3):
                done = self.w.run("check", *known, *strict, str(self.good))
                self.assertEqual((done.code, done.err), (code, ""), done.out)
                self.assertEqual(done.out.count(" ignores "), 1, done.out)
                (told,) = self.lines(done.out)
                at = line + key.count("\n") + 2
                self.assertRegex(told, rf"^{self.good}:{at}:\d+: {severity}: spec\.containerd\.config: containerd ")
                self.assertTrue(told.endswith(said), told)
                done = self.w.run("check", *known, *strict, "-o", "json", str(self.good))
                (entry,) = json.loads(done.out)
                self.assertEqual((entry["severity"], entry["line"], entry["path"]), (severity, at, "spec.containerd.config"))
        self.good.write_text(text.replace("KEY", f"[plugins.'{plugin}']\n      enable_cdi = true"))
        done = self.w.run("check", *known, "--strict", str(self.good))
        self.assertEqual((done.code, self.lines(done.out)), (0, []), done.out)
        self.assertRegex(done.out, rf"(?m)^note: {self.good}:{line + 3}:\d+: spec\.containerd\.config: containerd 2\.4\.2 ignores .*enable_cdi\"$")
        for strict in (), ("--strict",):
            (entry,) = json.loads(self.w.run("check", *known, *strict, "-o", "json", str(self.good)).out)
            place = [entry[key] for key in ("severity", "source", "line", "path")]
            self.assertEqual(place, ["note", str(self.good), line + 3, "spec.containerd.config"])
            self.assertRegex(entry["message"], "^containerd ")

    def test_a_containerd_that_is_not_known(self) -> None:
        """The newest is assumed, which is said; what any other refuses is a warning that names it. A plan refuses the same."""
        install_tables(self.w.root)
        cri = "[plugins.'io.containerd.grpc.v1.cri']\n      sandbox_image = 'a'"
        file = self.w.root / "etc/nodeclaimd/containerd-version"
        file.parent.mkdir(parents=True, exist_ok=True)
        for toml, refused in (
            ("version = 2", {}),
            ("version = 3", {"1.7.0": "is of version 3, and containerd 1.7.0 takes version 2"}),
            (
                f"version = 3\n      {cri}",
                dict.fromkeys(("2.2.0", "2.1.0", "2.0.0"), "this is of version 2, and the text of a newer one: ")
                | {"1.7.0": "is of version 3, and containerd 1.7.0 takes version 2"},
            ),
        ):
            self.good.write_text(self.w.node_config().replace("containerd: {}", f"containerd:\n    config: |\n      {toml}"))
            with self.subTest(toml):
                file.unlink(missing_ok=True)
                for strict, severity in ((), "warning"), (("--strict",), "error"):
                    done = self.w.run("check", *strict, str(self.good))
                    said = re.findall(rf"(?m)^{self.good}:\d+:\d+: {severity}: spec\.containerd\.config: containerd (\S+): (.*)$", done.out)
                    self.assertEqual(sorted(version for version, _ in said), sorted(refused), done.out)
                    self.assertEqual(done.code, 3 if strict and refused else 0, done.out)
                    for version, text in said:
                        self.assertTrue(text.startswith(refused[version]), text)
                        self.assertTrue(text.endswith("; --containerd-version names that of your nodes"), text)
                    if done.code == 0:
                        self.assertIn("would accept it with containerd 2.4.2 (assumed)\n", done.out)
                for version in "1.7.0", "2.0.0", "2.1.0", "2.2.0", "2.3.0", "2.4.2":
                    file.write_text(f"{version}\n")
                    for option in (), ("--containerd-version", version):
                        done = self.w.run("check", "--strict", *option, str(self.good))
                        self.assertEqual((done.code, "assumed" in done.out), (3 if version in refused else 0, False), done.out)
                        file.unlink(missing_ok=True)

    def test_the_containerd_of_another_root(self) -> None:
        """Its file counts without a kubelet: the folder is not this machine."""
        self.good.write_text(self.w.node_config().replace("containerd: {}", "containerd: {config: 'version = 3'}"))
        (self.w.root / "etc/eks/kubelet-version.txt").unlink()
        for name in "etc/eks/containerd-version.txt", "etc/nodeclaimd/containerd-version":
            file = self.w.root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("1.7.27\n")
            done = self.w.run("check", str(self.good))
            self.assertEqual(done.code, 3, done.out)
            self.assertIn("is of version 3, and containerd 1.7.27 takes version 2", done.out)
            file.unlink()

    def test_the_containerd_that_is_installed(self) -> None:
        """It judges its own text: nobody follows a note to a version of the file that it cannot read."""
        install_tables(self.w.root)
        file = self.w.root / "etc/eks/containerd-version.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        for installed, version, code, message in (
            ("1.6.20~ds1", 2, 0, ""),
            ("1.6.20~ds1", 3, 3, "is of version 3, and containerd 1.6.20 takes version 2"),
            ("v2.1.4", 2, 0, "containerd v2.1.4 converts the file"),
            ("", 2, 0, "containerd 2.4.2 (assumed) converts the file (containerd config migrate); where no node has containerd 1, write it for version 3"),
        ):
            with self.subTest(installed, version=version):
                file.write_text(f"containerd github.com/containerd/containerd {installed} x\n")
                self.good.write_text(self.w.node_config().replace("containerd: {}", f"containerd: {{config: 'version = {version}'}}"))
                done = self.w.run("check", "--strict", str(self.good))
                self.assertEqual((done.code, "containerd " in done.out), (code, bool(message)), done.out)
                self.assertIn(message, done.out)

    def test_what_containerd_refuses_is_told_with_the_rest(self) -> None:
        self.good.write_text(
            self.w.node_config(kubelet="  kubelet: {config: {runOnce: true}}\n").replace(
                "containerd: {}", "containerd:\n    config: |\n      disabled_plugins = ['io.containerd.grpc.v1.cri']\n"
            )
        )
        (line,) = [n for n, one in enumerate(self.good.read_text().splitlines(), 1) if "config: |" in one]
        done = self.w.run("check", "-o", "json", str(self.good))
        found = {(e["path"], e["line"], e["column"], e["message"]) for e in json.loads(done.out) if e["severity"] == "error" and e["path"] != "spec.kubelet.config.runOnce"}
        self.assertEqual(found, {("spec.containerd.config", line + 1, 27, "disabled_plugins: kubelet needs the CRI plugin")}, done.out)

    def test_text_of_containerd_in_a_string_has_lines_of_its_own(self) -> None:
        for text, place in (("|\n      version = 3\n      a = ]\n", (2, 11)), ('"\\n\\n\\n\\n\\n\\n\\n\\na = ]"', (0, 13))):
            self.good.write_text(AGENT_CONFIG.replace("nodeclaimd.io", "node.eks.aws").replace("AgentConfig", "NodeConfig") + f"  containerd:\n    config: {text}")
            (said,) = (e for e in json.loads(self.w.run("check", "-o", "json", str(self.good)).out) if "TOML" in e["message"])
            at = self.line_of("config: ") + place[0]
            self.assertEqual((said["line"], said["column"], ": line 9, " in said["message"]), (at, place[1], place[0] == 0), said)
            self.assertIn(f"{self.good}:{at}:{place[1]}: error: spec.containerd.config: {said['message']}\n", self.w.run("check", str(self.good)).out)

    def test_user_data_of_a_node_class(self) -> None:
        """What people keep in git is the NodeClass: the documents in its user data are judged as a node will."""
        user_data = mime(("application/vnd.nodeclaimd+yaml", AGENT_CONFIG + "  drain: {mode: %s}\n")).decode()
        head = f"# {'ä' * 99}\napiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nspec:\n  amiFamily: AL2023\n  userData: |\n"
        for mode, code in (("auto", 0), ("bad", 3)):
            self.good.write_text(head + "".join(f"    {line}\n" for line in (user_data % mode).splitlines()))
            done = self.w.run("check", str(self.good))
            self.assertEqual((done.code, done.err), (code, ""), done.out)
            line = self.line_of(f"mode: {mode}")
            self.assertIn("accept them" if code == 0 else f"{self.good}:{line}:21: error: spec.drain.mode: ", done.out)
        (said,) = json.loads(self.w.run("check", "-o", "json", str(self.good)).out)
        self.assertEqual((said["source"], said["line"], said["column"], said["path"]), (str(self.good), line, 21, "spec.drain.mode"))
        self.good.write_text(head.replace("|", json.dumps(AGENT_CONFIG + "  drain: {mode: bad}\n")))
        self.assertIn(f"{self.good} spec.userData, line 4: error: spec.drain.mode: ", self.w.run("check", str(self.good)).out)
        (said,) = json.loads(self.w.run("check", "-o", "json", str(self.good)).out)
        self.assertEqual((said["source"], said["path"], "line" in said), (str(self.good), "spec.userData", False))
        self.assertTrue(said["message"].startswith("line 4: spec.drain.mode: "), said)

    def test_the_file_of_an_entry(self) -> None:
        text = AGENT_CONFIG + "  drain: {mode: bad}\n"
        for name, content in (("a part 1 (b)", text), ("a spec.userData b", text), ("a.mime", mime(("application/vnd.nodeclaimd+yaml", text)).decode())):
            file = self.w.folder / name
            file.write_text(content)
            (said,) = json.loads(self.w.run("check", "-o", "json", str(file)).out)
            self.assertEqual((said["source"], said["path"], said["column"]), (str(file), "spec.drain.mode", 17))

    def test_what_is_held_back_has_its_path(self) -> None:
        self.good.write_text(
            AGENT_CONFIG
            + "  node: {labels: {kubernetes.io/foo: z}}\n"
            + "  kubelet: {flags: [--node-labels=kubernetes.io/bar=z, --register-with-taints=:=b]}\n"
        )
        found = [(e["path"], e["message"]) for e in json.loads(self.w.run("check", "-o", "json", str(self.good)).out)]
        for path, said in (
            ("spec.node.labels", "label kubernetes.io/foo=z is held back"),
            ("spec.kubelet.flags", "label kubernetes.io/bar=z is held back"),
            ("spec.kubelet.flags", "--register-with-taints: invalid label key"),
        ):
            self.assertTrue(any(p == path and m.startswith(said) for p, m in found), (path, said, found))

    def test_folders_and_urls(self) -> None:
        folder = self.w.folder / "conf"
        folder.mkdir()
        (folder / "20-b.yaml").write_text(self.typo.read_text())
        (folder / "10-a.json").write_text('{"apiVersion": "nodeclaimd.io/v1alpha1", "kind": "AgentConfig", "spec": {}}')
        (folder / "README").write_text("not: [a document")
        for what in (str(folder), folder.as_uri()):
            done = self.w.run("check", str(self.good), what)
            self.assertEqual(done.code, 0, done.out + done.err)
            self.assertIn("conf/20-b.yaml:6:", done.out)
            self.assertIn("3 documents", done.out)
        done = self.w.run("check", "imds://user-data")
        self.assertEqual(done.code, 0, done.out + done.err)
        self.w.set_user_data(None)
        done = self.w.run("check", "imds://user-data")
        self.assertEqual(done.code, 3, done.out + done.err)
        self.assertIn("no user data", done.out)

    def test_rules_between_fields(self) -> None:
        """What a bootstrap would find when it plans is found here, without an instance."""
        for extra, word in (
            ("evictionSoft: {memory.available: 1Gi}", "evictionSoft"),
            ("imageGCHighThresholdPercent: 70", "imageGC"),
            ("kubeReserved: {cpu: minus}", "kubeReserved"),
        ):
            text = self.w.node_config().replace("      maxPods: 29", f"      maxPods: 29\n      {extra}")
            self.good.write_text(text)
            done = self.w.run("check", str(self.good))
            self.assertEqual(done.code, 3, done.out + done.err)
            self.assertIn(word, done.out + done.err)
        for text in sorted((SOURCE / "userdata").glob("*.mime")):
            done = self.w.run("check", str(text))
            self.assertNotIn("node name", done.err)

    def test_unreadable(self) -> None:
        self.assertIn("check the path, and that its folder is there", self.w.run("check", "/dev/null/x").err)
        empty = self.w.folder / "empty"
        empty.mkdir()
        self.assertIn("remedy: name a file, or a folder of", self.w.run("check", str(empty)).err)
        mistyped = self.w.folder / "mistyped.mime"
        part = "Content-Type: application/node.eks.aws+yaml\n\n" + self.w.node_config()
        mistyped.write_text(f"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n{part}\n--B--\n")
        done = self.w.run("check", str(mistyped))
        self.assertEqual(done.code, 3, done.out + done.err)
        self.assertIn(f"{mistyped} part 1 (application/node.eks.aws+yaml) is a document that is not read: its Content-Type must be", done.err)
        self.assertIn("remedy: send a NodeConfig as a MIME part of type application/node.eks.aws (", done.err)
        for path in (self.w.folder / "none.yaml", Path("/dev/null/x")):
            done = self.w.run("check", str(path))
            self.assertIn(done.code, (3, 6), done.out)
            self.assertIn(str(path), done.out + done.err)
        self.typo.write_text("")
        self.assertIn(f"note: {self.typo} without any document\n", self.w.run("check", str(self.good), str(self.typo)).out)
        missing = [self.w.folder / name for name in ("one.yaml", "two.yaml")]
        self.typo.write_text(AGENT_CONFIG + "  drain: {mode: perhaps}\n")
        done = self.w.run("check", str(missing[0]), str(self.typo), str(missing[1]))
        self.assertEqual((done.code, done.err), (3, ""))
        for path in missing:
            self.assertIn(f"{path}: error: No such file or directory; ", done.out)
        self.assertIn(f"{self.typo}:4:17: error: spec.drain.mode: ", done.out)

    def test_a_table_that_cannot_be_read(self) -> None:
        (self.w.root / "etc/nodeclaimd/instance-types.tsv").mkdir(parents=True)
        for args in ((), ("-o", "json")):
            done = self.w.run("check", *args, str(self.good))
            self.assertEqual(done.code, 0, done.out + done.err)
            self.assertRegex(done.out, "instance-types.tsv: .*the built-in table of instance types counts")


class Explain(WorldTest):
    def test_fields(self) -> None:
        world = self.world()
        done = world.run("explain", "maxPods")
        self.assertEqual(done.code, 0, done.err)
        self.assertRegex(done.out, r"(?m)^\S*maxPods = 29$")
        self.assertIn("user-data", done.out)
        self.assertEqual(set(re.findall(r"(?m)^(\S.*) = ", done.out)), {"spec.kubelet.config.maxPods"}, done.out)
        for entry in json.loads(world.run("explain", "-o", "json", "maxPods").out):
            self.assertEqual(entry["value"], "29")
        self.assertGreater(len(json.loads(world.run("explain", "-o", "json").out)), 10)

    def test_policies(self) -> None:
        """What an announced ending leads to, set or built-in."""
        world = self.world(config="  interruption:\n    rebalance: cordon\n  drain: {mode: off, toleratingLast: true}\n")
        done = world.run("explain", "interruption")
        self.assertEqual(done.code, 0, done.err)
        self.assertRegex(done.out, r"(?m)^spec.interruption.spot = drain\n    from built-in default$")
        self.assertRegex(done.out, r"(?m)^spec.interruption.rebalance = cordon\n    from .*10-test.yaml:\d+:\d+$")
        self.assertRegex(done.out, r"(?m)^spec.interruption.autoscalingDeadline = 0s\n    from built-in default$")
        done = world.run("explain", "drain")
        self.assertRegex(done.out, r"(?m)^spec.drain.mode = off\n    from .*10-test.yaml:\d+:\d+$")
        self.assertRegex(done.out, r"(?m)^spec.drain.toleratingLast = true\n    from .*10-test.yaml:\d+:\d+$")
        self.assertRegex(done.out, r"(?m)^spec.drain.podEvents = true\n    from built-in default$")

    def test_what_is_ignored_is_named(self) -> None:
        world = self.world()
        conf = world.root / "etc/nodeclaimd/conf.d"
        (conf / "20-more.conf").write_text(AGENT_CONFIG)
        (conf.parent / "nodeclaimd.yaml").write_text(AGENT_CONFIG)
        done = world.run("explain", "maxPods")
        self.assertEqual(done.code, 0, done.err)
        self.assertRegex(done.err, r"conf.d/20-more.conf is ignored: only \*.yaml")
        self.assertRegex(done.err, r"etc/nodeclaimd/nodeclaimd.yaml is ignored: .*conf.d")
        self.assertIn("20-more.conf is ignored", world.run("check", str(conf)).out)
        empty = world.folder / "empty"
        empty.mkdir()
        self.assertIn(f"no configuration for this node: {empty} without any document", world.run("check", str(empty)).err)
        self.assertEqual(world.bootstrap("--skip", "start").code, 0)
        self.assertIn("20-more.conf is ignored", world.run("status").out)

    def test_documents_that_somebody_else_may_write(self) -> None:
        """Used, for a node that does not join would be worse; and named by whoever reads them."""
        world = self.world()
        conf, nodeadm = world.root / "etc/nodeclaimd/conf.d", world.root / "etc/eks/nodeadm.d"
        text = AGENT_CONFIG + "  drain: {mode: observe}\n"
        nodeadm.mkdir()
        files = {mode: conf / f"20-{mode:o}.yaml" for mode in (0o644, 0o664, 0o666)}
        for mode, file in files.items():
            file.write_text(text)
            file.chmod(mode)
        wanted = [(files[0o666], os.geteuid(), "0666")]
        if os.geteuid() == 0:
            for owner, group, mode in ((65534, 0, 0o644), (0, 65534, 0o664)):
                files[owner] = nodeadm / f"{owner}.yaml"
                files[owner].write_text(text)
                os.chown(files[owner], owner, group)
                files[owner].chmod(mode)
                wanted.append((files[owner], owner, f"{mode:04o}"))
        nodeadm.chmod(0o777)
        wanted.append((nodeadm, os.geteuid(), "0777"))
        explained = world.run("explain", "drain")
        self.assertIn("spec.drain.mode = observe\n    from /etc/nodeclaimd/conf.d/20-666.yaml:", explained.out)
        self.assertEqual(world.bootstrap("--skip", "start").code, 0)
        for said in (explained.err, "\n".join(world.status()["warnings"])):
            for file, owner, mode in wanted:
                shown = str(file).removeprefix(str(world.root))
                self.assertRegex(said, rf"(?m)(?<!root){shown}/?: not only root may write it: uid {owner}, mode {mode}; chown root and chmod go-w$")
            self.assertEqual(said.count("not only root"), len(wanted), said)

    def test_error_is_printed_once(self) -> None:
        world = self.world()
        bad = world.folder / "bad.yaml"
        bad.write_text(world.node_config(kubelet="  kubelet: {config: {maxPods: many, colour: 1}}\n"))
        for command in (("render", "--out", str(world.folder / "out")), ("explain",)):
            done = world.run(*command, "--source", bad.as_uri())
            self.assertEqual(done.code, 3)
            self.assertEqual(done.err.count("maxPods: must be an integer"), 1, done.err)
        done = world.run("render", "--out", str(world.folder / "out"), "--source", bad.as_uri())
        self.assertIn("config.colour: unknown field", done.err)

    def test_path_of_a_document(self) -> None:
        world = self.world()
        for asked in ("spec.drain.margin", "drain.margin", "margin", "spec.drain"):
            self.assertRegex(world.run("explain", asked).out, r"(?m)^spec.drain.margin = 15s\n", asked)

    def test_policy_away_from_a_node(self) -> None:
        """The documents alone decide: nobody is asked, and nothing of the cluster or of kubelet is needed."""
        world = self.world()
        part = world.folder / "part.yaml"
        part.write_text(AGENT_CONFIG + "  drain: {margin: 12s}\n")
        for asked in ("drain.margin", "spec.drain"):
            for source in (part.as_uri(), part):
                done = world.run("explain", "--source", source, asked)
                self.assertEqual((done.code, done.err), (0, ""))
                self.assertIn(f"spec.drain.margin = 12s\n    from {part}:4:19\n", done.out)
        done = world.run("explain", "--source", part.as_uri(), "drain.mod")
        self.assertEqual((done.code, done.err), (3, "nodeclaimd explain: no final value is named drain.mod, did you mean drain.mode?\n"))
        for mistyped, meant in {"drain.mod": "drain.mode", "spec.drayn.mode": "spec.drain.mode", "interuption.spot": "interruption.spot"}.items():
            done = world.run("explain", mistyped)
            self.assertEqual((done.code, done.err), (3, f"nodeclaimd explain: no final value is named {mistyped}, did you mean {meant}?\n"))
        self.assertEqual(world.requests(), [])
        done = world.run("explain", "--imds", "http://127.0.0.1:9", "drain.margin")
        self.assertTrue(done.err.endswith("\nremedy: on a machine that is no instance: --source PATH\n"), done.err)

    def test_unknown_field(self) -> None:
        world = self.world()
        for args in (("Pods",), ("",), ("nonsense",), ("-o", "json", "nonsense")):
            done = world.run("explain", *args)
            self.assertEqual(done.code, 3, (args, done.out))
            self.assertIn("no final value", done.err)
        for mistyped, meant in {
            "spec.kubelet.config.maxPodz": "spec.kubelet.config.maxPods",
            "maxPodz": "maxPods",
            "kubelet.maxPods": "maxPods",
            "kubelet.config.evictionHrad": "kubelet.config.evictionHard",
            "evictionHard.memory.avail": "evictionHard.memory.available",
        }.items():
            self.assertIn(f"did you mean {meant}?", world.run("explain", mistyped).err)

    def test_what_a_document_overrode(self) -> None:
        world = self.world()
        more = world.folder / "more.yaml"
        more.write_text(AGENT_CONFIG + "  maxPods: {mode: explicit, value: 17}\n")
        done = world.run("explain", "--source", "imds://user-data", "--source", more.as_uri(), "maxPods")
        self.assertEqual(done.code, 0, done.err)
        self.assertIn("overrode", done.out)


class Render(WorldTest):
    def test_what_else_is_wrong(self) -> None:
        """Each error of the documents, as check has them; and a folder that holds no facts is not called a metadata service."""
        world = self.world()
        bad = world.folder / "bad.yaml"
        bad.write_text(AGENT_CONFIG + "  drain: {mode: x}\n  node: {name: x}\n")
        done = world.run("render", "--out", str(world.folder / "out"), "--source", bad.as_uri())
        self.assertEqual(done.code, 3)
        self.assertIn(f"{bad}:4:17: error: spec.drain.mode: ", done.err)
        self.assertIn(f"{bad}:5:16: error: spec.node.name: ", done.err)
        bad.write_text(world.node_config(kubelet="  kubelet:\n    flags: [--nope=1]\n    config: {runOnce: true}\n"))
        (world.folder / "more.yaml").write_text(AGENT_CONFIG + "  drain: {margin: 20m}\n  shutdown: {gracePeriod: 1ms}\n")
        install_tables(world.root)
        sources = [arg for path in (bad, world.folder / "more.yaml") for arg in ("--source", path.as_uri())]
        done = world.run("render", "--out", str(world.folder / "out"), *sources)
        self.assertEqual(done.code, 3)
        for field in ("spec.kubelet.config.runOnce: ", "spec.kubelet.flags: --nope: ", "spec.drain.margin: ", "spec.shutdown.gracePeriod: "):
            self.assertEqual(len(re.findall(f"(?m)^/.*error: {field}", done.err)), 1, done.err)
        bad.write_text(bad.read_text().replace("apiServerEndpoint: https", "apiServerEndpoint: http").replace("certificateAuthority", "#"))
        done = world.run("render", "--out", str(world.folder / "out"), *sources)
        errors = [line for line in world.run("check", str(bad), sources[-1]).out.splitlines() if ": error: " in line]
        self.assertEqual(len(errors), 6, errors)
        self.assertEqual([line for line in done.err.splitlines() if ": error: " in line], errors)
        self.assertIn(f"nodeclaimd render: {errors[0].replace(' error:', '')}; and at least 5 more\n", done.err)
        self.assertNotIn("any cluster", done.err)
        done = world.run("render", "--out", str(world.folder / "out"), "--facts", str(world.folder))
        self.assertIn("remedy: name a folder that render --save-facts DIR wrote", done.err)

    def test_values_of_no_use(self) -> None:
        """A value of an option is a matter of usage, and is named."""
        world = self.world()
        for args, word in (
            (("render", "--out", str(world.folder / "x"), "--kubelet-version", "1.34"), "1.28 to 1.37 are known, not 1.34"),
            (("render", "--out", ""), "empty value"),
            (("timeline", "--svg", ""), "empty value"),
        ):
            done = world.run(*args)
            self.assertEqual(done.code, 2, done.err)
            self.assertIn(word, done.err)

    def test_facts_are_saved_where_a_step_fails(self) -> None:
        """A plan that cannot be made is what a bug report is about."""
        world = self.world()
        world.set_user_data(world.node_config(kubelet="  kubelet: {config: {maxPods: many}}\n").encode())
        out, facts = world.folder / "out", world.folder / "facts"
        done = world.run("render", "--out", str(out), "--save-facts", str(facts))
        self.assertEqual(done.code, 3, done.out + done.err)
        self.assertFalse(out.exists() and any(out.rglob("*.json")))
        self.assertEqual((facts / "imds/latest/user-data").read_bytes(), world.imds.tree["latest/user-data"])
        self.assertEqual((facts / "imds/latest/user-data").stat().st_mode & 0o077, 0)
        self.assertEqual(json.loads((facts / "host.json").read_text())["kubelet_version"], VERSION)
        secret = world.inst.secret_key.encode()
        self.assertFalse([p for p in facts.rglob("*") if p.is_file() and secret in p.read_bytes()])
        again = world.run("render", "--facts", str(facts), "--out", str(out))
        self.assertEqual(again.code, 3)
        self.assertEqual(self.last(again.err), self.last(done.err))

    @staticmethod
    def last(text: str) -> str:
        return next(line for line in text.splitlines() if line.startswith("nodeclaimd render: "))

    def test_recorded_facts_give_the_same_tree(self) -> None:
        for profile in ("m5.large", "m5.xlarge-ipv6", "c5a.large-spot", "m5.large-china"):
            with self.subTest(profile), World(profile) as world:
                one, two, facts = (world.folder / n for n in ("one", "two", "facts"))
                env = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": world.imds.url}
                done = world.run("render", "--out", str(one), "--save-facts", str(facts), **env)
                self.assertEqual(done.code, 0, done.err)
                done = world.run("render", "--facts", str(facts), "--out", str(two), **env)
                self.assertEqual(done.code, 0, done.err)
                trees = [{str(p.relative_to(t)): p.read_bytes() for p in t.rglob("*") if p.is_file()} for t in (one, two)]
                self.assertGreater(len(trees[0]), 3)
                self.assertEqual(trees[0], trees[1])

    def test_bad_facts(self) -> None:
        world = self.world()
        for facts in (world.folder / "none", world.folder / "bin/kubelet"):
            done = world.run("render", "--facts", str(facts), "--out", str(world.folder / "out"))
            self.assertEqual(done.code, 3, done.err)
            self.assertIn(str(facts), done.err)
            self.assertIn("name a folder that render --save-facts DIR wrote", done.err)
        world.imds.server.fault("status", status=403)
        done = world.run("render", "--out", str(world.folder / "out"))
        self.assertRegex(done.err, r"(?m)^remedy: set the instance's metadata option HttpEndpoint to enabled")
        done = world.run("render", "--out", str(world.folder / "out"), "--imds", "http://127.0.0.1:9")
        self.assertTrue(done.err.endswith("\nremedy: on a machine that is no instance: --facts DIR, which render --save-facts DIR records on one\n"), done.err)

    def test_the_default_folder_is_below_the_root_or_nowhere(self) -> None:
        """A root without a folder of documents must not take those of the machine that it is rendered on."""
        world = self.world()
        inside = world.root / "etc/nodeclaimd/conf.d"
        for path in inside.iterdir():
            path.unlink()
        inside.rmdir()
        outside = Path("/etc/nodeclaimd/conf.d")
        existed = [p for p in (outside, outside.parent) if p.exists()]
        outside.mkdir(parents=True, exist_ok=True)
        stray = outside / f"zz-test-{os.getpid()}.yaml"
        stray.write_text(AGENT_CONFIG + "  maxPods: {mode: explicit, value: 7}\n")
        try:
            done = world.run("explain", "maxPods")
        finally:
            stray.unlink()
            for path in (outside, outside.parent):
                if path not in existed:
                    path.rmdir()
        self.assertEqual(done.code, 0, done.err)
        self.assertIn("maxPods = 29", done.out)


    def test_a_source_is_the_path_that_was_named(self) -> None:
        """And no file of the root that has the same path."""
        world = self.world()
        named = world.folder / "named.yaml"
        shadow = world.root / str(named)[1:]
        shadow.parent.mkdir(parents=True)
        named.write_text(AGENT_CONFIG + "  maxPods: {mode: explicit, value: 17}\n")
        shadow.write_text(AGENT_CONFIG + "  maxPods: {mode: explicit, value: 7}\n")
        done = world.run("explain", "--source", "imds://user-data", "--source", named.as_uri(), "maxPods")
        self.assertIn("overrode 17 ", done.out + done.err)
        named.unlink()
        done = world.run("explain", "--source", "imds://user-data", "--source", named.as_uri(), "maxPods")
        self.assertEqual(done.code, 3)
        self.assertIn("No such file", done.err)


class Preflight(WorldTest):
    def prepared(self, **more: object) -> World:
        world = self.world(**more)
        self.assertEqual(world.bootstrap("--skip", "start").code, 0)
        return world

    def outcomes(self, world: World, *args: str) -> "tuple[int, dict[str, dict[str, str]]]":
        done = world.run("preflight", "-o", "json", *args)
        lines = {e["check"]: e for e in json.loads(done.out)}
        for entry in lines.values():
            self.assertIn(entry["outcome"], ("ok", "failed", "warning", "skipped"))
            self.assertEqual(bool(entry["remedy"]), entry["outcome"] in ("failed", "warning"), entry)
        return done.code, lines

    def rewrite(self, world: World, change: "dict[str, str]") -> None:
        path = world.root / "var/lib/kubelet/kubeconfig"
        text = path.read_text()
        for old, new in change.items():
            self.assertIn(old, text)
            text = text.replace(old, new)
        path.write_text(text)

    def test_all_is_well(self) -> None:
        world = self.prepared()
        code, lines = self.outcomes(world)
        self.assertEqual(code, 0, lines)
        for name in ("imds", "host", "kubeconfig", "role", "dns", "tcp", "tls", "api", "identity", "clock"):
            self.assertEqual(lines[name]["outcome"], "ok", lines[name])
        text = world.run("preflight").out
        for line in text.splitlines()[:-1]:
            self.assertRegex(line, r"^(\S+ +(ok|failed|warning|skipped) +\S|\s+remedy: )")

    def test_before_the_first_bootstrap(self) -> None:
        """Nothing is written until the API server knows the node: what the documents say is tried, and what is not checked is said."""
        world = self.world()
        code, lines = self.outcomes(world)
        self.assertEqual(code, 0, lines)
        for name, outcome in {"kubeconfig": "skipped", "sysctl": "skipped", "role": "ok", "tls": "ok", "api": "ok", "clock": "ok"}.items():
            self.assertEqual(lines[name]["outcome"], outcome, lines[name])
        self.assertIn("the API server's", lines["clock"]["detail"])
        world.set_user_data(mime(("application/node.eks.aws", world.node_config().replace(f"name: {CLUSTER}", "name: another"))))
        code, lines = self.outcomes(world)
        self.assertEqual((code, lines["tls"]["outcome"], lines["api"]["outcome"]), (4, "ok", "failed"), lines)

    def test_its_remedies_are_those_of_a_bootstrap(self) -> None:
        """The place of the CA, the role that is to be let in: and no clock where it is right."""
        for check in ("tls", "api"):
            with self.subTest(check):
                world = self.world()
                if check == "tls":
                    other = Authority(world.folder, "another").base64
                    world.set_user_data(mime(("application/node.eks.aws", world.node_config().replace(world.api.ca.base64, other))))
                else:
                    world.api.auth.users.clear()
                    world.api.auth.keys.clear()
                self.assertEqual(world.bootstrap("--timeout", "2s").code, 4)
                said = world.phase("preflight")["error"]["remedy"]
                words = {"tls": r"certificateAuthority\); certificateAuthority is in user-data part 1 .*:\d+:\d+; only a new node",
                         "api": "let the instance's role, nodeclaimd-node, in .*; the clock is right$"}  # fmt: skip
                self.assertRegex(said, words[check])
                code, lines = self.outcomes(world)
                self.assertEqual((code, lines[check]["remedy"]), (4, said))

    def test_a_proxy_of_the_documents(self) -> None:
        """The environment is the one that a bootstrap would have: who is asked through a proxy, and who is not."""
        world = self.prepared()
        code, lines = self.outcomes(world)
        self.assertEqual((code, lines["config"]["outcome"]), (0, "ok"), lines)
        text = world.node_config().replace(
            "\n  instance:\n    localStorage: {}\n",
            "\n  instance:\n    environment: {default: {HTTPS_PROXY: http://127.0.0.1:9}}\n",
        )
        self.assertIn("HTTPS_PROXY", text)
        world.set_user_data(mime(("application/node.eks.aws", text)))
        code, lines = self.outcomes(world)
        self.assertEqual((lines["imds"]["outcome"], lines["role"]["outcome"]), ("ok", "ok"), lines)
        self.assertEqual(lines["tcp"]["outcome"], "skipped", lines)
        self.assertIn("proxy", lines["tcp"]["detail"])
        self.assertEqual(lines["api"]["outcome"], "failed", lines)
        self.assertIn("127.0.0.1", lines["api"]["detail"])
        self.assertEqual(code, 1)

    def test_documents_that_a_bootstrap_refuses(self) -> None:
        world = self.prepared()
        world.set_user_data(mime(("application/node.eks.aws", world.node_config().replace("cidr: 10.", "cidr: x."))))
        code, lines = self.outcomes(world)
        self.assertEqual((code, lines["config"]["outcome"]), (3, "failed"), lines)
        self.assertIn("spec.cluster.cidr", lines["config"]["detail"])
        self.assertIn("only a new node has other user data", lines["config"]["remedy"])
        world.set_user_data(mime(("application/node.eks.aws", world.node_config())))
        file = world.root / "etc/nodeclaimd/conf.d/50-x.yaml"
        for text in (AGENT_CONFIG + "  drain: {mode: x}\n", "spec: [\n"):
            file.write_text(text)
            code, lines = self.outcomes(world)
            self.assertEqual((code, lines["config"]["outcome"]), (3, "failed"), lines)
            self.assertIn("nodeclaimd check names all that is wrong; a document of the image needs a new image", lines["config"]["remedy"])

    def test_slow_metadata_service(self) -> None:
        """What a token takes to be made is not the API server's time."""
        world = self.prepared()
        world.imds.server.faults.append(Fault("delay", delay_sec=3.0))
        code, lines = self.outcomes(world)
        self.assertEqual(code, 0, lines)

    def test_nothing_there(self) -> None:
        world = World()
        world.listening = False
        self.enterContext(world)
        code, lines = self.outcomes(world)
        self.assertEqual(code, 1)
        self.assertEqual((lines["imds"]["outcome"], lines["kubeconfig"]["outcome"]), ("failed", "failed"))
        self.assertNotIn("api", lines)

    def test_name_that_no_resolver_knows(self) -> None:
        world = self.prepared()
        self.rewrite(world, {world.api.url: "https://no-such-cluster.invalid"})
        start = time.monotonic()
        code, lines = self.outcomes(world)
        self.assertEqual((code, lines["dns"]["outcome"]), (1, "failed"), lines)
        self.assertNotIn("tcp", lines)
        self.assertLess(time.monotonic() - start, 20)

    def test_port_that_refuses(self) -> None:
        world = self.prepared()
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            self.rewrite(world, {world.api.url: f"https://127.0.0.1:{held.getsockname()[1]}"})
            code, lines = self.outcomes(world)
        self.assertEqual((code, lines["dns"]["outcome"], lines["tcp"]["outcome"]), (1, "ok", "failed"), lines)
        self.assertIn("nothing listens", lines["tcp"]["remedy"])
        self.assertNotIn("tls", lines)

    def test_other_authority(self) -> None:
        world, other = self.prepared(), self.prepared()
        other_ca = world.folder / "other"
        other_ca.mkdir()
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=other"]
            + ["-keyout", str(other_ca / "key"), "-out", str(other_ca / "crt")],
            check=True,
            capture_output=True,
        )
        (world.root / "etc/kubernetes/pki/ca.crt").write_bytes((other_ca / "crt").read_bytes())
        code, lines = self.outcomes(world)
        self.assertEqual((code, lines["tcp"]["outcome"], lines["tls"]["outcome"]), (4, "ok", "failed"), lines)
        self.assertNotIn("api", lines)

    def test_refused_and_unknown_name(self) -> None:
        world = self.prepared()
        code, lines = self.outcomes(world, "--node-name", "somebody-else")
        self.assertEqual((code, lines["api"]["outcome"], lines["identity"]["outcome"]), (4, "ok", "failed"), lines)
        self.rewrite(world, {f'"{CLUSTER}"': '"another-cluster"'})
        code, lines = self.outcomes(world)
        self.assertEqual((code, lines["tls"]["outcome"], lines["api"]["outcome"]), (4, "ok", "failed"), lines)

    def test_sysctls(self) -> None:
        world = self.prepared()
        base = world.root / "etc/kubernetes/kubelet/config.json"
        doc = json.loads(base.read_text())
        doc["protectKernelDefaults"] = True
        base.write_text(json.dumps(doc))
        proc = world.root / "proc/sys/kernel"
        proc.mkdir(parents=True)
        (proc / "panic").write_text("3\n")
        code, lines = self.outcomes(world)
        self.assertEqual((code, lines["sysctl"]["outcome"]), (0, "warning"), lines)
        own = world.root / "etc/kubernetes/kubelet/config.json.d/40-nodeclaimd.conf"
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_text(json.dumps({"kind": "KubeletConfiguration", "protectKernelDefaults": False}))
        self.assertEqual(self.outcomes(world)[1]["sysctl"]["outcome"], "ok", "the drop-in is what kubelet goes by")


class Look(WorldTest):
    def test_before_any_bootstrap(self) -> None:
        world = self.world()
        for args in (("status",), ("status", "-o", "json"), ("timeline",), ("status", "--metrics")):
            done = world.run(*args)
            self.assertEqual(done.code, 6, args)
            self.assertIn("bootstrap nor the daemon has run", done.err, args)

    def test_noise_in_the_status_file(self) -> None:
        world = self.world()
        path = world.root / "run/nodeclaimd/status.json"
        path.parent.mkdir(parents=True)
        for text in ("", "{", "[]", '"x"', '{"phases": 5}', '{"phases": [1, {"name": 7}]}', "\0" * 100):
            path.write_text(text)
            for args in (("status",), ("timeline",)):
                done = world.run(*args)
                self.assertGreaterEqual(done.code, 0, (text, args, done.err))
                self.assertNotIn("ERROR: AddressSanitizer", done.err)

    def test_on_a_terminal(self) -> None:
        """A long line goes on below its text; into a pipe it stays one line."""
        world = self.world()
        path = world.root / "run/nodeclaimd/status.json"
        path.parent.mkdir(parents=True)
        words = " ".join(f"word{i}" for i in range(40))
        path.write_text(json.dumps({"outcome": "succeeded", "phases": [], "warnings": [words, "x" * 100 + " y"]}))
        self.assertIn(words + "\n", world.run("status").out)
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        subprocess.run(world.command("status"), env=world.environment(), stdout=theirs, check=True, timeout=PATIENCE)
        os.close(theirs)
        with os.fdopen(ours, "rb") as terminal:
            lines = terminal.read1(65536).decode().replace("\r", "").splitlines()
        warnings = lines[next(i for i, line in enumerate(lines) if line.startswith("warning")) :]
        self.assertEqual([line[:13].strip() for line in warnings], ["warning"] + [""] * (len(warnings) - 1))
        self.assertEqual(" ".join(line[13:] for line in warnings), f"{words} {'x' * 100} y")
        self.assertEqual([len(line) <= 80 for line in warnings], [True] * (len(warnings) - 2) + [False, True])
        self.assertGreater(min(len(line) for line in warnings[:-3]), 70)

    def test_while_it_is_retried(self) -> None:
        world = World()
        world.listening = False
        self.enterContext(world)
        proc = world.spawn("bootstrap", "--timeout", "30s")
        self.assertTrue(until(lambda: world.phase("imds").get("error")))
        self.assertIn("imds", world.run("status").out)
        metrics = until(lambda: world.run("status", "--metrics").out)
        self.assertIn("nodeclaimd_", metrics)
        proc.send_signal(signal.SIGTERM)
        self.assertEqual(world.finish(proc).code, 1)


class AskedOfEc2(WorldTest):
    def test_throttled_for_a_while(self) -> None:
        """A whole group of instances starts at once: the number of pods is not guessed for that."""
        ec2 = self.enterContext(Ec2(instances.PROFILES["unknown-type"]))
        ec2.server.fault("status", status=503, count=2)
        world = self.world(profile="unknown-type", config=f'  aws: {{ec2: auto, ec2Endpoint: "{ec2.url}"}}\n')
        world.set_user_data(world.node_config(kubelet="  kubelet: {}\n").encode())
        done = world.bootstrap("--skip", "start")
        self.assertEqual(done.code, 0, done.err)
        config = json.loads((world.root / "etc/kubernetes/kubelet/config.json").read_text())
        self.assertEqual(config["maxPods"], 4 * (15 - 1) + 2, world.status()["warnings"])


class Token(WorldTest):
    def test_failures(self) -> None:
        world = self.world()
        for path in [p for p in world.imds.tree if "security-credentials" in p]:
            world.imds.tree.pop(path)
        proc = world.spawn("token", "--cluster", CLUSTER)
        asked = until(lambda: [e for e in world.requests() if "security-credentials" in e["path"] and e["sent"]])
        self.assertTrue(asked)
        start = time.monotonic()
        proc.send_signal(signal.SIGTERM)
        done = world.finish(proc)
        self.assertLess(time.monotonic() - start, 1.0 * PATIENCE)
        self.assertEqual((done.code, done.out), (1, ""))
        # The answer may not have been read yet when the signal came.
        self.assertRegex(done.err, "instance profile|interrupted by a signal")

    def test_words_of_the_caller(self) -> None:
        world = self.world()
        for info in ("", "noise", "[]", '{"apiVersion": 7}', '{"apiVersion": "client.authentication.k8s.io/v1alpha1"}'):
            doc = json.loads(world.run("token", "--cluster", CLUSTER, KUBERNETES_EXEC_INFO=info).out)
            self.assertEqual(doc["apiVersion"], "client.authentication.k8s.io/v1beta1", info)

    def test_options(self) -> None:
        world = self.world()
        done = world.run(
            "token", "--cluster", CLUSTER, "--region", "eu-west-3", "--sts-endpoint", "https://sts.example.test/"
        )
        raw = json.loads(done.out)["status"]["token"].split(".", 1)[1]
        url = base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4)).decode()
        self.assertTrue(url.startswith("https://sts.example.test/?"), url)
        self.assertIn("%2Feu-west-3%2Fsts%2F", url)
        done = world.run("token", "--cluster", CLUSTER, "--region", "no/region")
        self.assertEqual((done.code, done.out), (3, ""), done.err)


class Logs(WorldTest):
    def test_json_lines(self) -> None:
        world = self.world()
        done = world.bootstrap("--skip", "start", "--log-format", "json")
        lines = [json.loads(line) for line in done.err.splitlines()]
        self.assertGreaterEqual(len(lines), 2)
        for line in lines:
            self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertIn(line["level"], ("DEBUG", "INFO", "WARN", "ERROR"))
            self.assertTrue(line["message"])

    def test_levels(self) -> None:
        world = self.world()
        self.assertEqual(world.bootstrap("--skip", "start", "--log-level", "error").err, "")

    def test_a_stream_that_is_not_the_journals(self) -> None:
        """The variable is inherited by programs whose stderr was turned elsewhere."""
        world = self.world()
        done = world.run("bootstrap", "--skip", "start", JOURNAL_STREAM="8:12345")
        self.assertIn("bootstrap starts", done.err)

    def test_a_waiting_phase_does_not_flood(self) -> None:
        world = self.world(mode="silent")
        done = world.bootstrap("--timeout", "8s")
        self.assertEqual(done.code, 1, done.err)
        waiting = [line for line in done.err.splitlines() if line.startswith("warning: register: ")]
        self.assertIn(len(waiting), (1, 2), done.err)


if __name__ == "__main__":
    unittest.main()
