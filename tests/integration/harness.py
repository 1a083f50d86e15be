"""A world for one bootstrap: IMDS, API server, a root folder, the stand-in kubelet, and the real program.

Knows: where the program keeps its files below --root, and how the fakes are wired together.
Gives: `World`, user data as Karpenter writes it, and small waits on conditions.
Must not: assert; the tests do.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Optional

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
FAKES = HERE.parent / "fakes"
sys.path.insert(0, str(FAKES))

import instances  # noqa: E402
from apiserver import ApiServer  # noqa: E402
from cluster import Behaviour  # noqa: E402
from ec2 import Ec2  # noqa: E402
from imds import Imds  # noqa: E402
from pki import Authority  # noqa: E402

CLUSTER = "test-cluster"
VERSION = "v1.34.4"
STATUS = "run/nodeclaimd/status.json"
CLAIM = "default-x7k2p"
SHARED = Path(tempfile.mkdtemp(prefix="nodeclaimd-pki-"))  # one CA for all worlds of a test program
atexit.register(shutil.rmtree, SHARED, ignore_errors=True)
# A program under a sanitizer or valgrind is slower: what is said to happen "within a second" gets so many times longer.
PATIENCE = float(os.environ.get("NC_PATIENCE", "1"))
# What a program under test gets of our own environment: how it was built, and with which libraries it is to run.
PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LLVM_PROFILE_FILE", "GCOV_PREFIX")


def environment(**more: str) -> dict[str, str]:
    return {**{k: v for k, v in os.environ.items() if k in PASSED_ON}, "LC_ALL": "C", **more}


CAPABILITIES = {
    "CAP_SETUID": (7, "programs of another user"),
    "CAP_SYS_PTRACE": (19, "what a program has in its memory and which files are open"),
    "CAP_SYS_ADMIN": (21, "mounts"),
}


def lacks(capability: str) -> str:
    """Why something cannot be tried by this process; "" where it can."""
    number, what = CAPABILITIES[capability]
    line = next(s for s in Path("/proc/self/status").read_text().splitlines() if s.startswith("CapEff:"))
    return "" if int(line.split()[1], 16) >> number & 1 else f"{capability} is missing ({what})"


def needs(capability: str) -> Callable[[Any], Any]:
    """Of a test, or a class of them: where this process lacks the capability it is not run, and that is said."""
    return unittest.skipIf(lacks(capability), lacks(capability))


def agent_path() -> Path:
    given = os.environ.get("NODECLAIMD")
    if not given:
        raise SystemExit("set NODECLAIMD to the program under test")
    return Path(given).resolve()


def node_config(endpoint: str, ca: str, cluster: str = CLUSTER, extra: str = "", kubelet: Optional[str] = None) -> str:
    """What Karpenter writes for AL2023, as one YAML document."""
    if kubelet is None:
        kubelet = """  kubelet:
    config:
      clusterDNS:
      - 10.100.0.10
      maxPods: 29
      registerWithTaints:
      - effect: NoExecute
        key: karpenter.sh/unregistered
    flags:
    - --node-labels="karpenter.k8s.aws/ec2nodeclass=default,karpenter.sh/capacity-type=on-demand,karpenter.sh/do-not-sync-taints=true,karpenter.sh/nodepool=default"
"""
    return f"""# Karpenter Generated NodeConfig
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
metadata: {{}}
spec:
  cluster:
    apiServerEndpoint: {endpoint}
    certificateAuthority: {ca}
    cidr: 10.100.0.0/16
    name: {cluster}
  containerd: {{}}
  instance:
    localStorage: {{}}
{kubelet}{extra}"""


def mime(*parts: tuple[str, str], boundary: str = "//") -> bytes:
    """A multipart document of (content type, body)."""
    text = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{boundary}"\n\n'
    for kind, body in parts:
        text += f"--{boundary}\nContent-Type: {kind}\n\n{body}\n"
    return (text + f"--{boundary}--\n").encode()


@dataclass
class Result:
    code: int
    out: str
    err: str
    seconds: float


class World:
    """Use as a context manager. `mode`: what the stand-in kubelet does. `claim`: a NodeClaim waits for this instance."""

    def __init__(
        self,
        profile: str = "m5.large",
        mode: str = "normal",
        claim: bool = True,
        cluster: str = CLUSTER,
        config: str = "",
        behave: Optional[Behaviour] = None,
        capacity: str = "",
        node_name: str = "",
    ) -> None:
        self.inst = instances.PROFILES[profile]
        self.node_name = node_name or self.inst.private_dns
        self.mode, self.claim, self.config, self.capacity = mode, claim, config, capacity
        self._folder = tempfile.TemporaryDirectory(prefix="nodeclaimd-")
        self.folder = Path(self._folder.name)
        self.root = self.folder / "root"
        self.imds = Imds.of(profile)
        self.api = ApiServer(SHARED, cluster, self.inst.region, behave=behave)
        self.api.add_instance(self.inst, self.node_name)
        self.procs: list[subprocess.Popen[bytes]] = []
        self.listening = True
        self.set_user_data(mime(("application/node.eks.aws", self.node_config())))

    def node_config(self, **more: Any) -> str:
        return node_config(self.api.url, self.api.ca.base64, self.api.auth.cluster, **more)

    def set_user_data(self, data: Optional[bytes]) -> None:
        if data is None:
            self.imds.tree.pop("latest/user-data", None)
        else:
            self.imds.tree["latest/user-data"] = data

    def __enter__(self) -> "World":
        self.imds.server.start(listening=self.listening)
        self.api.server.start()
        self._make_root()
        if self.claim:
            self.api.put("nodeclaims", self.claim_object())
        return self

    def __exit__(self, *unused: object) -> None:
        for proc in self.procs:
            if proc.poll() is None:
                proc.kill()
            proc.communicate()
        self.stop_kubelet()
        self.imds.server.stop()
        self.api.server.stop()
        self._folder.cleanup()

    def claim_object(self) -> dict[str, Any]:
        return {
            "metadata": {
                "name": CLAIM,
                "labels": {
                    "karpenter.sh/nodepool": "default",
                    "karpenter.sh/capacity-type": self.inst.life_cycle,
                    "node.kubernetes.io/instance-type": self.inst.type,
                    "topology.kubernetes.io/zone": self.inst.az,
                },
            },
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [],
                "resources": {"requests": {"cpu": "1", "pods": "2"}},
            },
            "status": {"providerID": self.inst.provider_id, "imageID": "ami-0abcdef1234567890"},
        }

    @property
    def provider(self) -> Path:
        """kubelet's for ECR, as the image has it."""
        return self.root / "etc/eks/image-credential-provider/ecr-credential-provider"

    def _make_root(self) -> None:
        conf = self.root / "etc/nodeclaimd/conf.d"
        for folder in (conf, self.provider.parent, self.root / "dev", self.folder / "bin"):
            folder.mkdir(parents=True)
        self.provider.touch(mode=0o755)
        (self.root / "etc/eks/kubelet-version.txt").write_text(VERSION + "\n")
        kubelet = self.write_kubelet(self.mode)
        (conf / "10-test.yaml").write_text(f"""apiVersion: nodeclaimd.io/v1alpha1
kind: AgentConfig
spec:
  kubelet:
    start: exec
    path: {kubelet}
{self.config}""")

    def write_kubelet(self, mode: str) -> Path:
        """The kubelet that is started next; one that runs already goes on as it was."""
        kubelet = self.folder / "bin/kubelet"
        kubelet.write_text(f"""#!/bin/sh
echo $$ >>{self.folder}/kubelet.pid
exec /usr/bin/python3 {FAKES}/kubelet.py --standin-root={self.root} --standin-agent={agent_path()} --standin-mode={mode} \\
    --standin-version={VERSION} --standin-capacity={self.capacity} "$@"
""")
        kubelet.chmod(0o755)
        return kubelet

    # --- the program
    def environment(self, **more: str) -> dict[str, str]:
        return environment(**more)

    def command(self, *args: str) -> list[str]:
        return [str(agent_path()), args[0], "--imds", self.imds.url, "--root", str(self.root), *args[1:]]

    def spawn(self, *args: str, **env: str) -> "subprocess.Popen[bytes]":
        proc = subprocess.Popen(
            self.command(*args),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment(**env),
        )
        self.procs.append(proc)
        return proc

    def run(self, *args: str, within: float = 60, **env: str) -> Result:
        start = time.monotonic()
        proc = self.spawn(*args, **env)
        return self.finish(proc, within, start)

    def finish(self, proc: "subprocess.Popen[bytes]", within: float = 60, start: Optional[float] = None) -> Result:
        start = time.monotonic() if start is None else start
        try:
            out, err = proc.communicate(timeout=within * max(1.0, PATIENCE / 2))
        except subprocess.TimeoutExpired:
            proc.kill()
            out, err = proc.communicate()
            err += b"\n[the test gave up waiting]\n"
            return Result(-1000, out.decode(errors="replace"), err.decode(errors="replace"), time.monotonic() - start)
        return Result(
            proc.returncode, out.decode(errors="replace"), err.decode(errors="replace"), time.monotonic() - start
        )

    def bootstrap(self, *args: str, within: float = 60) -> Result:
        return self.run("bootstrap", *args, within=within)

    # --- what it left
    def status(self) -> dict[str, Any]:
        try:
            return json.loads((self.root / STATUS).read_text())
        except (OSError, ValueError):
            return {}

    def phase(self, name: str) -> dict[str, Any]:
        return next((p for p in self.status().get("phases", []) if p["name"] == name), {})

    def console(self) -> str:
        path = self.root / "dev/console"
        return path.read_text(errors="replace") if path.exists() else ""

    def console_record(self) -> dict[str, Any]:
        """The last line on the console: prefix, then compact JSON."""
        lines = self.console().strip().splitlines()
        if not lines or not lines[-1].startswith("nodeclaimd: "):
            return {}
        return json.loads(lines[-1][len("nodeclaimd: ") :])

    def tree(self, *tops: str) -> dict[str, bytes]:
        """Everything below etc and var (or the folders named), with contents."""
        out = {}
        for top in tops or ("etc", "var/lib"):
            for path in sorted((self.root / top).rglob("*")):
                if path.is_file():
                    out[str(path.relative_to(self.root))] = path.read_bytes()
        return out

    def node(self) -> dict[str, Any]:
        return next((n for n in self.api.objects("nodes") if n["metadata"]["name"] == self.node_name), {})

    def requests(self) -> list[dict[str, Any]]:
        return self.imds.requests()

    def kubelet_log(self) -> str:
        path = self.root / "var/log/nodeclaimd-kubelet.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def kubelet_pids(self) -> list[int]:
        path = self.folder / "kubelet.pid"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def stop_kubelet(self) -> None:
        for pid in self.kubelet_pids():
            try:
                if b"kubelet.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        path = self.folder / "kubelet.pid"
        if path.exists():
            path.unlink()


def until(check: Callable[[], Any], within: float = 10) -> Any:
    """What `check` returned once it was true; its last value when the time is over."""
    end = time.monotonic() + within * PATIENCE
    while True:
        found = check()
        if found or time.monotonic() > end:
            return found
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Runs: a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class WorldTest(unittest.TestCase):
    """Adds assertions about what a bootstrap says of itself."""

    longMessage = True

    def world(self, **more: Any) -> World:
        made = World(**more)
        self.enterContext(made)
        return made

    def assertError(self, world: World, phase: str, kind: str, *words: str) -> dict[str, Any]:
        """status.json names the phase, the class, a message with these words, and a remedy."""
        entry = world.phase(phase)
        self.assertTrue(entry, f"no phase {phase} in {world.status()}")
        error = entry.get("error") or {}
        self.assertEqual(error.get("class"), kind, json.dumps(world.status(), indent=1))
        for word in words:
            self.assertIn(word.lower(), error.get("message", "").lower())
        self.assertTrue(error.get("remedy"), f"no remedy: {error}")
        return error

    def assertFailure(self, world: World, result: Result, code: int, phase: str, kind: str, *words: str) -> None:
        """The whole ending: exit code, status.json, the console line."""
        self.assertEqual(result.code, code, result.err)
        self.assertError(world, phase, kind, *words)
        self.assertEqual(world.status()["outcome"], "failed")
        self.assertEqual(world.run("status").code, code, "status says whether it went well")
        line = world.console_record()
        self.assertEqual(
            (line.get("outcome"), line.get("phase"), line.get("class")), ("failed", phase, kind), world.console()
        )
        self.assertTrue(line.get("remedy"))
