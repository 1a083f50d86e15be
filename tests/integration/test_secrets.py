"""Nothing that is a secret is said, kept or dumped: each is planted, and looked for in all that the program leaves behind.

Looked through after a success and after each failure: what it prints, status.json, metrics, state.json and every other file,
Events, the Node, the console, bodies and targets of requests, arguments and environment of the process, its memory once a
secret was used, and the core that an abort would leave.
"""

from __future__ import annotations

import base64
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, Iterator, Optional

from harness import Result, World, lacks, mime, needs
from running import DaemonTest, DaemonWorld
from test_joining import OTHER, agent_config, write_kubeconfig

from authz import Identity  # found by harness

TOKEN = "q7w2zk.8h3n5p1v6t9y4r0x"
PASSWORD = "V3n1v1d1v1c1XLII"
PROXY = f"http://svc:{PASSWORD}@proxy.corp:3128"
IS_ASAN = "ASAN_OPTIONS" in os.environ or "asan" in os.environ.get("NODECLAIMD", "")


def planted(world: World) -> dict[str, str]:
    """Every secret that this world has given out, by what it is."""
    inst = world.inst
    found = {
        "secret key": inst.secret_key,
        "session token": inst.session_token,
        "access key": inst.access_key,
        "bootstrap token": TOKEN,
        "bootstrap token's half": TOKEN.partition(".")[2],
        "password": PASSWORD,
    }
    found |= {f"IMDS token {i}": t for i, t in enumerate(world.imds.tokens)}
    found |= {f"bearer token {i}": t for i, t in enumerate(world.api.auth.seen) if len(t) > 40}
    key = world.root / "etc/kubernetes/pki/node.key"
    if key.exists():
        lines = [line for line in key.read_text().splitlines() if not line.startswith("-")]
        found |= {f"client key, line {i}": line for i, line in enumerate(lines) if len(line) > 40}
    return {name: text for name, text in found.items() if len(text) > 12}


def left_behind(world: World, done: Optional[Result]) -> Iterator[tuple[str, str]]:
    """(where, text). What a secret rightly lives in is left out: the user data that held it, kubelet's own files."""
    if done:
        yield "what it printed", done.out + done.err
    if isinstance(world, DaemonWorld):
        yield "the daemon's log", world.log()
        yield "what it told the service manager", "\n".join(world.heard())
    yield "the console", world.console()
    for path in sorted(world.root.rglob("*")):
        name = str(path.relative_to(world.root))
        own = ("etc/kubernetes/pki/node.key", "var/lib/kubelet/kubeconfig", "var/lib/kubelet/pki", "etc/systemd", OTHER)
        if path.is_file() and not name.startswith(own) and "bootstrap-kubeconfig" not in name:
            yield name, path.read_text(errors="replace")
    for kind in ("events", "nodes", "nodeclaims"):
        yield kind, json.dumps(world.api.objects(kind))
    for entry in world.api.server.log.snapshot():
        yield f"{entry['method']} {entry['path']}", entry["path"] + (entry.get("body") or "") + entry.get("agent", "")


class SecretsTest(DaemonTest):
    def nothing_secret(self, world: World, done: Optional[Result] = None, least: int = 4) -> None:
        secrets = planted(world)
        self.assertGreaterEqual(len(secrets), least)
        for where, text in left_behind(world, done):
            for name, secret in secrets.items():
                for form in (secret, base64.b64encode(secret.encode()).decode().rstrip("=")):
                    self.assertNotIn(form, text, f"{name} is in {where}")

    def process_holds_nothing(self, pid: int, world: World) -> None:
        for part in ("environ", "cmdline"):
            with self.subTest(part):
                if part == "environ" and lacks("CAP_SYS_PTRACE"):
                    self.skipTest(lacks("CAP_SYS_PTRACE"))
                text = Path(f"/proc/{pid}/{part}").read_bytes()
                for name, secret in planted(world).items():
                    self.assertNotIn(secret.encode(), text, f"{name} is in the process' {part}")


class Daemon(SecretsTest):
    def test_a_whole_life(self) -> None:
        for token in (True, False):
            with self.subTest(token=token):
                world = self.node_world(token=token)
                world.pod("web", grace=1)
                world.start()
                world.imds.spot(120)
                world.drained()
                self.process_holds_nothing(world.daemon.pid, world)
                self.assertEqual(world.stop()[0], 0)
                self.nothing_secret(world, least=8)

    def test_after_each_failure(self) -> None:
        """Whoever fails likes to quote what he was given."""
        leaky = json.dumps({"Code": "Success", "SecretAccessKey": "", "Token": ""})[:-2]
        for kind, rule in (
            ("status", {"status": 401, "path": "/nodes", "where": "api"}),
            ("status", {"status": 403, "path": "/nodes", "where": "api"}),
            ("status", {"status": 500, "path": "security-credentials/.", "where": "imds"}),
            ("truncate", {"path": "security-credentials/.", "where": "imds"}),
            ("body", {"path": "security-credentials/.", "where": "imds", "body": leaky}),
            ("truncate", {"path": "api/token", "where": "imds"}),
            ("status", {"status": 403, "path": "spot", "where": "imds"}),
        ):
            with self.subTest(kind, **rule):
                world = self.node_world(token=True)
                if rule.get("body"):
                    rule["body"] = leaky.replace('Key": "', f'Key": "{world.inst.secret_key}').replace(
                        'Token": "', f'Token": "{world.inst.session_token}'
                    )
                where = world.api if rule["where"] == "api" else world.imds
                fault = where.server.fault(kind, **{k: v for k, v in rule.items() if k != "where"})
                world.start(ready=False)
                world.must(lambda: fault.hits >= 2, "the failure, twice")
                world.must(lambda: world.said_of_itself(), "status.json")
                world.stop()
                self.nothing_secret(world)

    def judge(self, world: DaemonWorld) -> None:
        """What the daemon asks for is judged elsewhere; here it is made to fail."""

    @needs("CAP_SYS_PTRACE")
    @unittest.skipIf(IS_ASAN, "the sanitizer keeps what was freed")
    def test_memory(self) -> None:
        """Of a role's keys there is the one copy that the next token is made of, so that a day without IMDS is no matter: what they
        came through (answers, documents, signatures) is wiped."""
        world = self.node_world(token=True)
        world.start()
        world.must(lambda: world.said_of_itself().get("connected"), "a token was made")
        memory = bytearray()
        with open(f"/proc/{world.daemon.pid}/mem", "rb", buffering=0) as mem:
            for line in Path(f"/proc/{world.daemon.pid}/maps").read_text().splitlines():
                span = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
                if span:
                    mem.seek(int(span[1], 16))
                    memory += mem.read(int(span[2], 16) - int(span[1], 16))
        self.assertIn(world.node_name.encode(), memory, "this is the daemon's memory")
        for name, secret in (("secret key", world.inst.secret_key), ("session token", world.inst.session_token)):
            copies = [m.start() for m in re.finditer(re.escape(secret.encode()), memory)]
            around = [bytes(memory[max(0, at - 100) : at]) for at in copies]
            self.assertLessEqual(len(copies), 1, f"{name}: {around}")

    @unittest.skipIf(IS_ASAN, "the sanitizer has to trace its own process")
    def test_no_core(self) -> None:
        """Aborted with every limit raised: the same machine dumps another program's core, and not ours."""
        if Path("/proc/sys/kernel/core_pattern").read_text().startswith("|"):
            self.skipTest("cores go to a program here")
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        world = self.node_world(token=True)
        other = subprocess.Popen([sys.executable, "-c", "import os; os.abort()"], cwd=world.folder)
        self.assertTrue(os.WCOREDUMP(os.waitpid(other.pid, 0)[1]) or hard == 0, "nothing is dumped here at all")
        other.returncode = -6
        world.start()
        world.daemon.send_signal(signal.SIGABRT)
        status = os.waitpid(world.daemon.pid, 0)[1]
        world.daemon.returncode = -6
        self.assertEqual(os.WTERMSIG(status), signal.SIGABRT)
        self.assertFalse(os.WCOREDUMP(status))

    @needs("CAP_SYS_PTRACE")
    def test_nobody_is_listened_to(self) -> None:
        """No socket of the daemon waits for others; what it keeps is not for others."""
        world = self.node_world()
        world.start()
        world.must(lambda: world.said_of_itself().get("connected"), "a connection")
        fds = [os.readlink(f) for f in Path(f"/proc/{world.daemon.pid}/fd").iterdir() if f.is_symlink()]
        ours = {m[1] for m in (re.fullmatch(r"socket:\[(\d+)\]", f) for f in fds) if m}
        self.assertGreaterEqual(len(ours), 2, "IMDS and the API server")
        for table, state, inode in (("tcp", 3, 9), ("tcp6", 3, 9), ("udp", 3, 9), ("udp6", 3, 9)):
            for row in Path(f"/proc/{world.daemon.pid}/net/{table}").read_text().splitlines()[1:]:
                cells = row.split()
                waits = cells[state] == "0A" if table.startswith("tcp") else cells[2].endswith(":0000")
                self.assertFalse(waits and cells[inode] in ours, f"{table}: {row}")
        for row in Path(f"/proc/{world.daemon.pid}/net/unix").read_text().splitlines()[1:]:
            cells = row.split()
            self.assertFalse(int(cells[3], 16) & 0x10000 and cells[6] in ours, row)  # __SO_ACCEPTCON
        modes = {p: (world.root / p).stat().st_mode & 0o777 for p in ("run/nodeclaimd/requests", "var/lib/nodeclaimd/state.json")}
        self.assertEqual(modes, {"run/nodeclaimd/requests": 0o700, "var/lib/nodeclaimd/state.json": 0o600})

    def test_units(self) -> None:
        """And where the program could not see to it itself: each unit says so."""
        units = sorted((Path(__file__).resolve().parents[2] / "systemd").glob("*.service.in"))
        ours = [u for u in units if "ExecStart=@sbindir@" in u.read_text() or "ExecStart=@bindir@" in u.read_text()]
        self.assertGreaterEqual(len(ours), 3)
        for unit in ours:
            self.assertRegex(unit.read_text(), r"(?m)^LimitCORE=0$", unit.name)
            self.assertNotRegex(unit.read_text(), r"(?m)^(SetCredential=|PassEnvironment=)", unit.name)


    def test_folders_that_somebody_hardened(self) -> None:
        """Made where they are missing; the mode of one that is there stays, at each boot."""
        files = sorted((Path(__file__).resolve().parents[2] / "systemd/tmpfiles.d").iterdir())
        of = {conf.name: [line.split() for line in conf.read_text().splitlines() if line[0] != "#"] for conf in files}
        self.assertEqual([r[1] for r in of["nodeclaimd.conf"] if "/nodeclaimd" not in r[1]], [], "which every machine with the package has")
        rows = [row for name in of for row in of[name]]
        self.assertGreaterEqual(len(rows), 10)
        self.assertEqual([r[1] for r in rows if not r[2].startswith(":")], ["/run/nodeclaimd/requests"])
        if os.geteuid() != 0 or not shutil.which("systemd-tmpfiles"):
            return
        root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        hard = [r[1] for r in rows if r[1].startswith("/etc/")]
        for path in hard[::2]:
            (root / path[1:]).mkdir(parents=True, exist_ok=True)
            (root / path[1:]).chmod(0o700)
        subprocess.run(["systemd-tmpfiles", "--create", f"--root={root}", *map(str, files)], check=True)
        for i, path in enumerate(hard):
            self.assertEqual((root / path[1:]).stat().st_mode & 0o777, 0o755 if i % 2 else 0o700, path)

    def test_a_group_that_may_read_status(self) -> None:
        """As the manual page has it, though systemd sets owner and mode of the folder anew with each start of a unit."""
        top = Path(__file__).resolve().parents[2]
        line = re.search(r"(?m)^\.Dl (\S+ /run/nodeclaimd .*)$", (top / "man/nodeclaimd.8").read_text())
        assert line
        if os.geteuid() != 0 or not shutil.which("systemd-tmpfiles"):
            return
        world = self.world()
        conf = world.folder / "group.conf"
        conf.write_text(line[1].replace("monitoring", "4321") + "\n")
        made = [str(conf), str(top / "systemd/tmpfiles.d/nodeclaimd.conf")]
        subprocess.run(["systemd-tmpfiles", "--create", f"--root={world.root}", *made], check=True)
        folder = world.root / "run/nodeclaimd"
        os.chown(folder, 0, 0)
        folder.chmod(0o755)
        self.assertEqual(world.bootstrap("--skip", "start").code, 0)
        for group, may_read in ((4321, True), (4322, False)):
            cat = ["cat", "status.json"]
            done = subprocess.run(cat, cwd=folder, user=65534, group=group, extra_groups=[], capture_output=True, check=False)
            self.assertEqual(done.returncode == 0, may_read, done.stderr)


class Bootstrap(SecretsTest):
    def judge(self, world: Any) -> None:
        pass

    def with_token(self, text: str = "") -> World:
        world = self.world(claim=False)
        world.api.auth.tokens[TOKEN] = Identity("system:bootstrap:abcdef", ("system:bootstrappers",))
        auth = text or f'{{mode: bootstrap-token, bootstrapToken: "{TOKEN}"}}'
        world.set_user_data(agent_config(world, auth))
        return world

    def test_role(self) -> None:
        world = self.world()
        done = world.bootstrap("--timeout", "30s", "--log-level", "debug")
        self.assertEqual(done.code, 0, done.err)
        self.nothing_secret(world, done, least=5)

    def test_bootstrap_token(self) -> None:
        world = self.with_token()
        done = world.bootstrap("--timeout", "30s", "--log-level", "debug")
        self.assertEqual(done.code, 0, done.err)
        self.nothing_secret(world, done)

    def test_failures(self) -> None:
        """Errors that quote what they found, at each place that a token may be mistaken for something else."""
        rows = {
            "refused": f'{{mode: bootstrap-token, bootstrapToken: "{TOKEN}"}}',
            "in the wrong place": f'{{mode: bootstrap-token, bootstrapTokn: "{TOKEN}"}}',
            "of another form": f'{{mode: bootstrap-token, bootstrapToken: "{TOKEN}!"}}',
            "of another type": f'{{mode: bootstrap-token, bootstrapToken: ["{TOKEN}"]}}',
            "as the mode": f'{{mode: "{TOKEN}"}}',
        }
        for name, auth in rows.items():
            with self.subTest(name):
                world = self.with_token(auth)
                world.api.auth.tokens.clear()
                done = world.bootstrap("--timeout", "2s", "--log-level", "debug")
                self.assertNotEqual(done.code, 0)
                if name != "as the mode":  # which is no place for a secret: a word that is not known is quoted
                    self.nothing_secret(world, done)

    def test_values_that_may_be_secrets(self) -> None:
        """A NodeConfig's: of a proxy, of a header, of a program. The error names the place, and what is wanted there."""
        def environment(value: str) -> str:
            return f"  instance: {{environment: {value}}}\n"

        def kubelet(value: str) -> str:
            return f"  kubelet: {value}\n"

        runtime = "  containerd:\n    baseRuntimeSpec: |\n      {process: {env: [A=%s]}}\n" % PASSWORD
        of_map, of_flag = "must be a map", "spec.kubelet.flags: after --manifest-url-header: "
        rows = {
            "a block scalar": (f"  instance:\n    environment:\n      default:\n        HTTPS_PROXY: |\n          {PROXY}\n", "one line"),
            "a number": (environment("{default: {PIN: 1234567890123456}}"), "must be a string"),
            "variables as a text": (environment(f"{{default: 'HTTPS_PROXY: {PROXY}'}}"), of_map + ": remove the quotes"),
            "services as a text": (environment(f"'{PROXY}'"), of_map),
            "a variable as a key": (environment(f'{{default: {{"HTTPS_PROXY={PROXY}": ""}}}}'), "the key must be"),
            "a service as a key": (environment(f'{{"HTTPS_PROXY={PROXY}": {{}}}}'), "the key must be"),
            "an alias": (environment(f"{{default: {{A: *{PASSWORD} }}}}"), "no anchor before this alias"),
            "all of it as a text": (f"  instance: 'environment: {{default: {{A: {PASSWORD}}}}}'\n", of_map),
            "a runtime spec as a text": (runtime, of_map),
            "a header that is no list": (kubelet(f"{{config: {{staticPodURLHeader: {{Authorization: Bearer {PASSWORD}}}}}}}"), "a list of strings"),
            "headers as a text": (kubelet(f"{{config: {{staticPodURLHeader: '{PASSWORD}'}}}}"), of_map),
            "a flag with a space": (kubelet(f"{{flags: ['--manifest-url-header=A:{PASSWORD} x']}}"), of_flag + "no flag"),
            "a flag cut in two": (kubelet(f"{{flags: ['--manifest-url-header=A:Bearer {PASSWORD}']}}"), of_flag + "no flag"),
            "a flag with an open quote": (kubelet(f"{{flags: [--manifest-url-header=A:B, '\"{PASSWORD}']}}"), of_flag + "this quote"),
            "a flag of no header": (kubelet(f"{{flags: ['--manifest-url-header={PASSWORD}']}}"), "'manifest-url-header': kubelet cannot read"),
            "a flag of two lines": (kubelet(f'{{flags: ["--manifest-url-header={PASSWORD}\\nx"]}}'), "one line"),
            "a flag with a tab": (kubelet(f"{{flags: [\"--manifest-url-header='A:{PASSWORD}\\t'\"]}}"), "'--manifest-url-header' has a control"),
            "flags as a text": (kubelet(f"{{flags: '--manifest-url-header=A:{PASSWORD}'}}"), "a list of strings"),
            "a proxy of no known scheme": (environment(f"{{default: {{HTTPS_PROXY: 'htp://svc:{PASSWORD}@:99999'}}}}"), "proxy"),
            "a proxy without a scheme": (environment(f"{{default: {{HTTPS_PROXY: 'svc:{PASSWORD}@proxy:99999'}}}}"), "proxy"),
            "a password with a slash": (environment(f"{{default: {{HTTPS_PROXY: 'http://svc:a/{PASSWORD}@proxy'}}}}"), "proxy"),
        }
        for name, (spec, said) in rows.items():
            with self.subTest(name):
                self.refused(spec, said)
        agent = "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec: {kubelet: {imageCredentialProviders: [{%s}]}}\n"
        for value, said in ((f"args: '--key={PASSWORD}'", "a list of strings"), (f"env: ['KEY={PASSWORD}']", of_map)):
            with self.subTest(value):
                self.refused("", said, agent % value)
        for document in (f"HTTPS_PROXY={PROXY}\n", f"'{PASSWORD}'"):
            with self.subTest(document):
                self.refused("", "a document must be a map", document)
        with self.subTest("a body without its empty line"):
            self.refused("", "is not a MIME header line", data=f"Content-Type: text/x-shellscript\nexport HTTPS_PROXY={PROXY}\n".encode())

    def refused(self, spec: str, said: str, document: str = "", data: bytes = b"") -> None:
        world = self.world(claim=False)
        if spec:
            name = spec.partition(":")[0] + ":"
            text = re.sub(rf"(?m)^{name}.*\n(   .*\n)*", "", world.node_config())
            document = text + spec
        world.set_user_data(data or mime(("application/node.eks.aws", document)))
        done = world.bootstrap("--timeout", "2s", "--log-level", "debug")
        self.assertNotEqual(done.code, 0)
        self.assertIn(said, done.err)
        self.nothing_secret(world, done, least=1)
        self.assertNotIn("1234567890123456", done.err)

    def test_a_proxy_in_a_warning(self) -> None:
        """Of a boot that succeeds: EC2 alone is asked through the proxy."""
        world = self.world(profile="unknown-type", config='  aws: {ec2: auto, ec2Endpoint: "https://ec2.invalid"}\n')
        proxy = f"  instance: {{environment: {{default: {{HTTPS_PROXY: 'htp://svc:{PASSWORD}@:99999', NO_PROXY: 127.0.0.1}}}}}}\n"
        text = world.node_config().replace("  instance:\n    localStorage: {}\n", proxy).replace("      maxPods: 29\n", "")
        world.set_user_data(mime(("application/node.eks.aws", text)))
        done = world.bootstrap("--timeout", "30s", "--log-level", "debug")
        self.assertEqual(done.code, 0, done.err)
        self.assertIn("EC2 did not describe instance type", done.err)
        self.nothing_secret(world, done)

    def test_kubeconfig(self) -> None:
        """A static token, and an inline key, that cannot be used."""
        key = base64.b64encode(b"-----BEGIN PRIVATE KEY-----\n" + b"c2VjcmV0IG9mIHRoZSBub2Rl" * 8).decode()
        for user in (
            {"token": TOKEN},
            {"token": TOKEN + "\n\x01"},
            {"client-certificate-data": key, "client-key-data": key},
        ):
            with self.subTest(user=list(user)):
                world = self.world(claim=False)
                write_kubeconfig(world, OTHER, user)
                done = world.run("preflight", "--kubeconfig", str(world.root / OTHER), "--node-name", world.node_name)
                self.assertNotEqual(done.code, 0)
                self.nothing_secret(world, done)
                self.assertNotIn(key[40:80], done.out + done.err)


if __name__ == "__main__":
    unittest.main()
