"""A world for the daemon: a registered node with pods, notices on demand, and `nodeclaimd run`.

Knows: the paths and bodies by which a drain speaks to the API server, and how they show in the request log.
Gives: `DaemonWorld`, `DaemonTest`, `Step`.
Must not: know how the program decides; the tests say what must come out.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

from harness import PATIENCE, Behaviour, World, WorldTest, mime, until
from promtext import parse_metrics

from bus import Bus
from pods import PODS as POD_RESOURCE
from pods import Budget, epoch
from store import RESOURCES
from wire import Request

NODES = next(r for r in RESOURCES if r.plural == "nodes")
NOTICES = "InterruptionNoticesUnavailable"
FIT, FIT_KEY = "nodeclaimd.io/Fit", "nodeclaimd.io/fit"
KNOWN = {"DrainInProgress", "MaintenancePlanned", "MaintenanceInProgress", "GracefulNodeShutdownInProgress"}  # KEP-5683
KUBECONFIG = "var/lib/kubelet/kubeconfig"
STATE = "var/lib/nodeclaimd/state.json"
LABEL = "node.kubernetes.io/exclude-from-external-load-balancers"
STATUS_KEY, CORDON_KEY = "nodeclaimd.io/drain-status", "nodeclaimd.io/cordon"
REQUEST_KEY = "nodeclaimd.io/drain-request"
DISRUPTED = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
SLACK = 1.5 if PATIENCE == 1 else 4.0  # seconds by which something may be late where nothing else says so
QUIET = Behaviour(karpenter=False, controller_manager=False, cloud_controller=False)


@dataclass
class Step:
    """One request of the node, by what it is for: signal, cordon, progress, drained, release, evict, mark, delete, event,
    look, list, watch, other."""

    kind: str
    what: str  # the pod's name, or the Event's reason
    entry: dict[str, Any]

    @property
    def at(self) -> float:
        return float(self.entry["recv"])

    @property
    def status(self) -> int:
        return int(self.entry["status"])

    @property
    def body(self) -> dict[str, Any]:
        return json.loads(self.entry.get("body") or "{}")

    @property
    def grace(self) -> int:
        return int(self.body.get("gracePeriodSeconds", -1))


def step_of(entry: dict[str, Any]) -> Step:
    path, _, query = entry["path"].partition("?")
    method = entry["method"]
    body = json.loads(entry.get("body") or "{}")
    pod = re.fullmatch(r"/api/v1/namespaces/[^/]+/pods/([^/]+)(/eviction|/status)?", path)
    if pod and method == "POST":
        return Step("evict", pod[1], entry)
    if pod and method in ("DELETE", "PATCH"):
        return Step("delete" if method == "DELETE" else "mark", pod[1], entry)
    if path.endswith("/events") and method in ("POST", "PATCH"):
        return Step("event", body.get("reason", ""), entry)
    if path.startswith("/api/v1/nodes/") and method == "PATCH":
        return Step(patch_kind(path, body), "", entry)
    if method == "GET":
        kind = "watch" if "watch=" in query else "list" if path in ("/api/v1/pods", "/api/v1/nodes") else "look"
        return Step(kind, path, entry)
    return Step("other", path, entry)


def patch_kind(path: str, body: dict[str, Any]) -> str:
    if path.endswith("/status"):
        kinds = {c["type"]: c["status"] for c in body.get("status", {}).get("conditions", [])}
        if kinds.get("Drained") == "True":
            return "drained"
        if kinds.get("InterruptionPending") == "True":
            return "signal"
        if NOTICES in kinds:
            return "notices"
        if FIT in kinds:
            return "fit"
        return "undrained" if set(kinds) - KNOWN == {"Drained"} else "calm"
    if body.get("spec", {}).get("unschedulable") is True:
        return "cordon"
    if (
        "unschedulable" in body.get("spec", {})
        or body.get("metadata", {}).get("annotations", {}).get(STATUS_KEY, "") is None
    ):
        return "release"
    return "progress"


class DaemonWorld(World):
    """`drain`: the lines of AgentConfig's spec.drain. `token`: the node speaks with an EKS token, else with a certificate."""

    def __init__(
        self,
        profile: str = "c5a.large-spot",
        config: str = "",
        margin: str = "1s",
        drain: str = "",
        bus: "Union[bool, type[Bus]]" = False,
        token: bool = False,
        node: bool = True,
        **more: Any,
    ) -> None:
        config = f"  drain:\n    margin: {margin}\n{drain}" + config
        super().__init__(profile, claim=False, config=config, behave=QUIET, **more)
        self.wants_token, self.wants_node = token, node
        self.bus: Optional[Bus] = None
        self.wants_bus = bus
        self.daemon: "subprocess.Popen[bytes]" = None  # type: ignore[assignment]
        self.notify: Optional[socket.socket] = None
        self.said: list[str] = []
        self.log_file = self.folder / "daemon.log"

    def __enter__(self) -> "DaemonWorld":
        super().__enter__()
        if self.wants_bus:
            kind = Bus if self.wants_bus is True else self.wants_bus
            self.bus = kind(self.folder, self.root).__enter__()
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(str(self.folder / "notify"))
        threading.Thread(target=self._listen, daemon=True).start()
        self.write_kubeconfig()
        self.set_boot_id("0c5d1d1c-6f0e-4a44-9c0a-000000000001")
        if self.wants_node:
            self.add_node()
        return self

    def __exit__(self, *unused: object) -> None:
        super().__exit__(*unused)
        if self.bus:
            self.bus.__exit__()
        if self.notify:
            self.notify.shutdown(socket.SHUT_RDWR)
            self.notify.close()

    # --- what is there before
    def user_data_without_karpenter(self) -> bytes:
        kubelet = "  kubelet:\n    config:\n      maxPods: 17\n"
        return mime(("application/node.eks.aws", self.node_config(kubelet=kubelet)))

    def write_kubeconfig(self, user: Optional[dict[str, Any]] = None) -> None:
        pki = self.root / "etc/kubernetes/pki"
        pki.mkdir(parents=True, exist_ok=True)
        (pki / "ca.crt").write_bytes(self.api.ca.pem)
        cert, key = self.api.ca.node(self.node_name)
        (pki / "node.crt").write_bytes(cert.read_bytes())
        (pki / "node.key").write_bytes(key.read_bytes())
        if user is None:
            user = {
                "client-certificate": "/etc/kubernetes/pki/node.crt",
                "client-key": "/etc/kubernetes/pki/node.key",
            }
        if self.wants_token:
            run = {"command": "nodeclaimd", "args": ["token", "--cluster", self.api.auth.cluster]}
            user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", **run}}
        path = self.root / KUBECONFIG
        path.parent.mkdir(parents=True, exist_ok=True)
        cluster = {"server": self.api.url, "certificate-authority": "/etc/kubernetes/pki/ca.crt"}
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "k", "cluster": cluster}],
                    "contexts": [{"name": "k", "context": {"cluster": "k", "user": "k"}}],
                    "current-context": "k",
                    "users": [{"name": "k", "user": user}],
                }
            )
        )
        path.chmod(0o600)

    def set_boot_id(self, boot_id: str) -> None:
        path = self.root / "proc/sys/kernel/random/boot_id"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(boot_id + "\n")

    def add_node(self, **meta: Any) -> dict[str, Any]:
        node = {
            "metadata": {"name": self.node_name, "labels": {"team": "blue"}, "annotations": {"team/x": "y"}, **meta},
            "spec": {"providerID": self.inst.provider_id, "taints": []},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]},
        }
        return self.api.put("nodes", node)

    def change_node(self, change: Any) -> None:
        """`change` edits the object in place, as somebody else (Karpenter, a person) would."""

        def go() -> None:
            node = self.api.store.get(NODES, self.node_name)
            change(node)
            self.api.store.replace(NODES, node)

        self.api.on_loop(go)

    def delete_node(self) -> None:
        self.api.on_loop(lambda: self.api.store.delete(NODES, self.node_name))

    def pod(
        self,
        name: str,
        grace: Optional[int] = 30,
        namespace: str = "default",
        owner: str = "ReplicaSet",
        controller: Optional[str] = None,
        phase: str = "Running",
        annotations: Optional[dict[str, str]] = None,
        spec: Optional[dict[str, Any]] = None,
        status: Optional[dict[str, Any]] = None,
        **meta: Any,
    ) -> dict[str, Any]:
        owners = []
        if owner:
            kinds = {"ReplicaSet": "apps/v1", "DaemonSet": "apps/v1", "Job": "batch/v1", "Node": "v1"}
            owners = [{"apiVersion": kinds[owner], "kind": owner, "name": "o", "uid": controller or f"of-{name}", "controller": True}]
        body: dict[str, Any] = {"nodeName": self.node_name, "containers": [{"name": "c", "image": "i"}], **(spec or {})}
        if grace is not None:
            body["terminationGracePeriodSeconds"] = grace
        started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 600))
        obj = {
            "metadata": {"name": name, "ownerReferences": owners, "annotations": annotations or {}, **meta},
            "spec": body,
            "status": {"phase": phase, "startTime": started, **(status or {})},
        }
        return self.api.put("pods", obj, namespace)

    def pods(self) -> list[str]:
        return sorted(p["metadata"]["name"] for p in self.api.objects("pods"))

    def budget(self, name: str, *pods: str, **more: Any) -> Budget:
        made = Budget(name, set(pods), **more)
        self.api.pods.budgets.append(made)
        return made

    # --- the program
    def start(self, *args: str, ready: bool = True, **env: str) -> "subprocess.Popen[bytes]":
        more = {"NOTIFY_SOCKET": str(self.folder / "notify")}
        if self.bus:
            more["DBUS_SYSTEM_BUS_ADDRESS"] = self.bus.address
        else:
            more["DBUS_SYSTEM_BUS_ADDRESS"] = f"unix:path={self.folder}/no-bus"
        with open(self.log_file, "ab") as log:
            self.daemon = subprocess.Popen(
                self.command("run", "--log-level", "debug", *args),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment(**{**more, **env}),
            )
        self.procs.append(self.daemon)
        if ready:
            self.wait_ready()
        return self.daemon

    def wait_ready(self) -> None:
        """It said READY=1, has heard all its sources, and watches its Node where there is one."""
        self.must(lambda: "READY=1" in self.heard(), "READY=1")
        if self.wants_node and self.listening and self.api.server._server is not None:
            self.must(
                lambda: any(s.kind == "watch" and s.what == "/api/v1/nodes" for s in self.steps()),
                "a watch of the Node",
            )

    def must(self, check: Any, what: str = "", within: float = 15) -> Any:
        found = until(check, within)
        if not found:
            raise AssertionError(f"waited in vain for {what or check}\n{self.story()}")
        return found

    def story(self) -> str:
        rows = "\n".join(
            f"{s.at:.3f} {s.kind} {s.what} {s.status} {s.entry.get('fault') or ''} {(s.entry.get('body') or '')[:300]}"
            for s in self.steps()[-60:]
        )
        return f"--- requests\n{rows}\n--- status\n{json.dumps(self.drain())}\n--- log\n{self.log()[-6000:]}"

    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def _listen(self) -> None:
        """As the service manager does: a queue that nobody reads is soon full, and what does not fit is lost."""
        assert self.notify is not None
        try:
            while data := self.notify.recv(65536):
                self.said += data.decode().split("\n")
        except OSError:
            return  # closed

    def heard(self) -> list[str]:
        """What it told the service manager, line by line."""
        return list(self.said)

    def kill(self) -> None:
        self.daemon.kill()
        self.daemon.wait(10)

    def stop(self, sig: signal.Signals = signal.SIGTERM, within: float = 10) -> tuple[int, float]:
        """(exit code, seconds that it took)."""
        start = time.monotonic()
        self.daemon.send_signal(sig)
        code = self.daemon.wait(within * PATIENCE)
        return code, time.monotonic() - start

    def memory_kib(self, what: str = "VmHWM") -> int:
        text = Path(f"/proc/{self.daemon.pid}/status").read_text()
        found = re.search(rf"^{what}:\s+(\d+) kB", text, re.M)
        assert found
        return int(found[1])

    # --- what it did
    def steps(self, *kinds: str) -> list[Step]:
        rows = [step_of(e) for e in self.api.server.log.snapshot() if e["path"] != "?"]
        return [s for s in rows if not kinds or s.kind in kinds]

    def evictions(self, pod: str = "", accepted: bool = False) -> list[Step]:
        rows = self.steps("evict")
        return [s for s in rows if (not pod or s.what == pod) and (not accepted or s.status in (200, 201))]

    def deletions(self, pod: str = "") -> list[Step]:
        return [s for s in self.steps("delete") if not pod or s.what == pod]

    def events(self) -> list[str]:
        return [e["reason"] for e in self.api.objects("events")]

    def drain(self) -> dict[str, Any]:
        return self.status().get("drain") or {}

    def said_of_itself(self) -> dict[str, Any]:
        """status.json's `daemon`."""
        return self.status().get("daemon") or {}

    def annotation(self, key: str = STATUS_KEY) -> dict[str, Any]:
        return json.loads(self.node().get("metadata", {}).get("annotations", {}).get(key) or "{}")

    def condition(self, kind: str) -> tuple[str, str]:
        """(status, reason)"""
        found = [c for c in self.node().get("status", {}).get("conditions", []) if c["type"] == kind]
        return (found[0]["status"], found[0]["reason"]) if found else ("", "")

    def is_cordoned(self) -> bool:
        return self.node().get("spec", {}).get("unschedulable") is True

    def phase_is(self, *phases: str, within: float = 15) -> None:
        self.must(lambda: self.drain().get("phase") in phases, f"phase {phases}", within)

    def drained(self, within: float = 20) -> None:
        """Every pod is gone, and it is said everywhere."""
        self.must(lambda: self.annotation().get("phase") == "Drained", "the annotation", within)
        self.must(lambda: self.condition("Drained")[0] == "True", "the condition")
        self.phase_is("drained")

    def metrics(self) -> dict[str, dict[str, float]]:
        return parse_metrics(self.metrics_text())

    def metrics_text(self) -> str:
        return (self.root / "run/nodeclaimd/metrics.prom").read_text()

    def kill_at(self, number: int, before: bool) -> list[int]:
        """The daemon dies by SIGKILL at its request of this number (from 0; watches and lists of the start do not count),
        `before` or after the server has done what was asked; the answer is never seen. Gives the list that holds its
        number once that was so."""
        seen = [0]
        done: list[int] = []

        def look(req: Request) -> bool:
            if done or req.method == "GET":
                return False
            seen[0] += 1
            if seen[0] - 1 == number:
                done.append(number)
                os.kill(self.daemon.pid, signal.SIGKILL)
            return bool(done)

        (self.api.server.before_request if before else self.api.server.before_answer).append(look)
        return done


class DaemonTest(WorldTest):
    """At the end of each test: the node authorizer refused nothing, and no request was one that a node must not make."""

    def node_world(self, **more: Any) -> DaemonWorld:
        made = DaemonWorld(**more)
        self.enterContext(made)
        self.addCleanup(self.judge, made)
        return made

    def judge(self, world: DaemonWorld) -> None:
        for entry in world.api.server.log.snapshot():
            if not entry.get("agent", "").endswith("(run)"):
                continue
            where = f"{entry['method']} {entry['path']} {entry.get('body', '')}"
            self.assertNotIn("bug", entry, where)
            if entry["fault"] or entry["path"] == "?":
                continue
            namespace = "because it is being terminated" in entry.get("reason", "")
            claims = "/nodeclaims" in entry["path"]
            self.assertTrue(entry["status"] != 403 or namespace or claims, f"{where}: {entry.get('reason')}")
            another = "metadata.uid: Invalid value" in entry.get("reason", "")
            self.assertTrue(entry["status"] not in (400, 405, 406, 415, 422) or another, f"{where}: {entry.get('reason')}")
            self.assertNotEqual(entry["method"], "PUT", where)
            if entry["method"] == "PATCH" and "/nodes/" in entry["path"]:
                self.own_keys_only(json.loads(entry["body"]), where)

            if "/pods/" in entry["path"] and entry["method"] in ("POST", "DELETE"):
                body = json.loads(entry["body"])
                options = body.get("deleteOptions", body)
                self.assertTrue(options["preconditions"]["uid"], where)
                self.assertGreaterEqual(options.get("gracePeriodSeconds", 1), 1, where)
        if len(world.procs) == 1:
            self.rates(world)

    def rates(self, world: DaemonWorld) -> None:
        """PROGRESS at most once a second, what blocks in a namespace at most once in thirty. When a request arrives is the loaded
        machine's: they are counted."""
        at = [s.at for s in world.steps("progress")]
        self.assertLessEqual(len(at), at[-1] - at[0] + 2 if at else 0, f"more than one a second: {at}")
        about = [(s, s.body["involvedObject"]["kind"]) for s in world.steps("event") if s.entry["method"] == "POST" and s.status < 400]
        drains = 1 + sum(s.what == "InterruptionWithdrawn" for s, _ in about)
        said: dict[tuple[str, str], list[float]] = {}
        for step, kind in about:
            if step.what == "DrainBlocked" and kind == "Node":
                found = re.match(r"Pod ([^/]+)/\S+ may not leave[^:]*: ([^:;]+)|Nothing (?:was|is) evicted", step.body["message"])
                assert found, step.body["message"]
                said.setdefault((found[1] or "", found[2] or "an outage"), []).append(step.at)
        for what, times in said.items():
            most = drains + (times[-1] - times[0]) // 30
            self.assertLessEqual(len(times), most, f"{what} is complained about again and again")

    def own_keys_only(self, body: dict[str, Any], where: str) -> None:
        meta = body.get("metadata", {})
        self.assertTrue(meta.get("uid"), where)
        self.assertLessEqual(set(meta), {"annotations", "labels", "uid"}, where)
        self.assertLessEqual(set(meta.get("annotations", {})), {STATUS_KEY, CORDON_KEY, FIT_KEY}, where)
        self.assertLessEqual(set(meta.get("labels", {})), {LABEL}, where)
        self.assertLessEqual(set(body.get("spec", {})), {"unschedulable"}, where)
        self.assertLessEqual(set(body.get("status", {})), {"conditions"}, where)
        kinds = {c["type"] for c in body.get("status", {}).get("conditions", [])}
        self.assertLessEqual(kinds, {"InterruptionPending", NOTICES, "Drained", FIT} | KNOWN, where)

    def assertOrder(self, world: DaemonWorld, *kinds: str) -> None:
        """The first of each kind was answered before the first of the next one was sent."""
        first = [next((s for s in world.steps(kind) if s.status < 300), None) for kind in kinds]
        for kind, step in zip(kinds, first):
            self.assertIsNotNone(step, f"no {kind}\n{world.story()}")
        for before, after in zip(first, first[1:]):
            assert before and after
            self.assertLessEqual(before.entry["sent"], after.at, f"{before.kind} before {after.kind}\n{world.story()}")

    def assertEvictedOnce(self, world: DaemonWorld, *pods: str) -> None:
        for pod in pods:
            self.assertEqual(len(world.evictions(pod, accepted=True)), 1, f"{pod}\n{world.story()}")


__all__ = [
    "SLACK",
    "DISRUPTED",
    "PATIENCE",
    "POD_RESOURCE",
    "DaemonTest",
    "DaemonWorld",
    "Step",
    "epoch",
    "until",
]
