"""A world for the controller: Nodes, NodeClaims and NodePools on the fake API server, and `nodeclaim-controller run`.

Knows: the paths and bodies by which the controller speaks to the API server, and how they show in the request log.
Gives: `ControlWorld`, `ControlTest`, `Step`.
Must not: know how the program decides; the tests say what must come out.
"""

from __future__ import annotations

import copy
import http.client
import json
import os
import random
import re
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Optional

import harness
from harness import PATIENCE, Behaviour, environment, until
from promtext import parse_metrics
from unittest import TestCase

from apiserver import CONTROLLER_TOKEN, ApiServer
from pods import epoch, stamp
from rbac import CONTROLLER, CONTROLLER_NAMESPACE, CONTROLLER_USER, RELAY, Rule
from store import Change
from wire import Request

SLACK = 1.5 if PATIENCE == 1 else 4.0  # seconds by which something may be late where nothing else says so
QUIET = Behaviour(karpenter=False, controller_manager=False, cloud_controller=False)
STATUS_KEY, REQUEST_KEY = "nodeclaimd.io/drain-status", "nodeclaimd.io/drain-request"
TIME_KEY = "karpenter.sh/nodeclaim-termination-timestamp"
KARPENTER, OURS = "karpenter.sh/termination", "nodeclaimd.io/termination"
HANDOVER = {"finalizers", "uid", "resourceVersion"}  # all that is written beside Karpenter but for the relay
NODE_NOTES = {"nodeclaimd.io/termination-deadline", "nodeclaimd.io/fit-boot"}  # what it writes on Nodes beside Karpenter, too
DISRUPTED, UNREGISTERED = "karpenter.sh/disrupted", "karpenter.sh/unregistered"
LEASE = "nodeclaim-controller"
# Short enough for a test, and with client-go's proportions.
ELECTION = ("--lease-duration", "3s", "--renew-deadline", "2s", "--retry-period", "500ms")
PORT = 8080


def controller_path() -> Path:
    given = os.environ.get("NODECLAIM_CONTROLLER")
    if not given and os.environ.get("NODECLAIMD"):
        given = str(Path(os.environ["NODECLAIMD"]).parent / "nodeclaim-controller")
    if not given:
        raise SystemExit("set NODECLAIM_CONTROLLER to the program under test")
    return Path(given).resolve()


@dataclass
class Step:
    """One request of the controller, by what it is for: stamp, delete, claim, status, node, delete-node, event, lease,
    restart, look, list, watch, other. `what`: the object's name, or the Event's reason."""

    kind: str
    what: str
    entry: dict[str, Any]

    @property
    def at(self) -> float:
        return float(self.entry["recv"])

    @property
    def sent(self) -> float:
        return float(self.entry["sent"])

    @property
    def status(self) -> int:
        return int(self.entry["status"])

    @property
    def body(self) -> dict[str, Any]:
        return json.loads(self.entry.get("body") or "{}")

    @property
    def is_write(self) -> bool:
        return self.kind in ("set-timestamp", "delete", "claim", "status", "node", "delete-node")

    @property
    def is_done(self) -> bool:
        return self.status in (200, 201) and self.entry.get("fault") is None or self.entry.get("fault") in ("lost", "delay")


def step_of(entry: dict[str, Any]) -> Step:
    path, _, query = entry["path"].partition("?")
    method = entry["method"]
    body = json.loads(entry.get("body") or "{}")
    found = re.fullmatch(r"(?:/api/v1|/apis/karpenter\.sh/v1(?:beta1)?)/(nodes|nodeclaims)/([^/]+)(/status)?", path)
    if found and method in ("PATCH", "DELETE"):
        what, name, sub = found[1], found[2], found[3]
        if method == "DELETE":
            return Step("delete" if what == "nodeclaims" else "delete-node", name, entry)
        if what == "nodes":
            return Step("node", name, entry)
        if sub:
            return Step("status", name, entry)
        return Step("set-timestamp" if TIME_KEY in (body.get("metadata", {}).get("annotations") or {}) else "claim", name, entry)
    if method == "PATCH" and re.fullmatch(r"/apis/apps/v1/namespaces/[^/]+/deployments/[^/]+", path):
        return Step("restart", path.rpartition("/")[2], entry)
    if "/leases" in path:
        return Step("lease", path.rpartition("/")[2], entry)
    if path.endswith("/events") and method in ("POST", "PATCH"):
        return Step("event", body.get("reason", ""), entry)
    if method == "GET":
        kind = "watch" if "watch=" in query else "list" if re.search(r"/(nodes|nodeclaims|nodepools|ec2nodeclasses)$", path) else "look"
        return Step(kind, path.rpartition("/")[2], entry)
    return Step("other", path, entry)


class ControlWorld:
    """Use as a context manager. `mode`: as the option --mode. `elects`: by a Lease; else it leads at once."""

    def __init__(self, mode: str = "karpenter", version: str = "v1", elects: bool = False) -> None:
        self.mode, self.elects = mode, elects
        self._folder = tempfile.TemporaryDirectory(prefix="nodeclaim-controller-")
        self.folder = Path(self._folder.name)
        self.api = ApiServer(harness.SHARED, behave=QUIET)
        self.api.rules[CONTROLLER_USER] = RELAY if mode == "karpenter" else CONTROLLER
        self.api.karpenter_version = version
        self.procs: list[subprocess.Popen[bytes]] = []
        self.addresses: dict[int, str] = {}
        self.log_file = self.folder / "controller.log"
        self.kubeconfig = self.folder / "kubeconfig"
        self.refused_is_wanted = False  # a test that makes the API server refuse
        self.marks_nodes = False  # it has --out-of-service-taint

    def __enter__(self) -> "ControlWorld":
        self.api.server.start()
        self.kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [
                        {"name": "k", "cluster": {"server": self.api.url, "certificate-authority": str(self.api.ca.cert)}}
                    ],
                    "contexts": [{"name": "k", "context": {"cluster": "k", "user": "k"}}],
                    "current-context": "k",
                    "users": [{"name": "k", "user": {"token": CONTROLLER_TOKEN}}],
                }
            )
        )
        self.kubeconfig.chmod(0o600)
        return self

    def __exit__(self, *unused: object) -> None:
        for proc in self.procs:
            if proc.poll() is None:
                proc.kill()
            proc.wait()
        self.api.server.stop()
        self._folder.cleanup()

    # --- what is there
    def pool(self, name: str = "default", budgets: Optional[list[dict[str, Any]]] = None, **meta: Any) -> dict[str, Any]:
        spec: dict[str, Any] = {"template": {"spec": {}}}
        if budgets is not None:
            spec["disruption"] = {"budgets": budgets}
        return self.api.put("nodepools", {"metadata": {"name": name, **meta}, "spec": spec, "status": {}})

    def claim(
        self,
        name: str,
        node: Optional[str] = None,
        finalizers: Optional[list[str]] = None,
        annotations: Optional[dict[str, str]] = None,
        spec: Optional[dict[str, Any]] = None,
        status: Optional[dict[str, Any]] = None,
        labels: Optional[dict[str, str]] = None,
        instance: str = "",
        **meta: Any,
    ) -> dict[str, Any]:
        """One that Karpenter keeps, unless `finalizers` says otherwise; registered where `node` is given."""
        obj = {
            "metadata": {
                "name": name,
                "labels": {"karpenter.sh/nodepool": "default", **(labels or {})},
                "annotations": annotations or {},
                "finalizers": [KARPENTER] if finalizers is None else finalizers,
                **meta,
            },
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [],
                "resources": {"requests": {"cpu": "1"}},
                **(spec or {}),
            },
            "status": {"providerID": provider_id(instance or name), **(status or {})},
        }
        if node is not None:
            obj["status"]["nodeName"] = node
        return self.api.put("nodeclaims", obj)

    def node(
        self,
        name: str,
        claim: Optional[dict[str, Any]] = None,
        finalizers: Optional[list[str]] = None,
        annotations: Optional[dict[str, str]] = None,
        labels: Optional[dict[str, str]] = None,
        taints: Optional[list[dict[str, Any]]] = None,
        ready: bool = True,
        instance: str = "",
        **meta: Any,
    ) -> dict[str, Any]:
        """Registered where `claim` is given."""
        owners = []
        have = {"kubernetes.io/hostname": name, **(labels or {})}
        if claim:
            owners = [{"apiVersion": claim["apiVersion"], "kind": "NodeClaim", "name": claim["metadata"]["name"],
                       "uid": claim["metadata"]["uid"], "blockOwnerDeletion": True}]
            have = {**claim["metadata"]["labels"], "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true", **have}
            instance = instance or claim["metadata"]["name"]
        kept = ([KARPENTER] if claim else []) if finalizers is None else finalizers
        obj = {
            "metadata": {"name": name, "labels": have, "annotations": annotations or {}, "ownerReferences": owners,
                         "finalizers": kept, **meta},
            "spec": {"providerID": provider_id(instance or name), "taints": taints or []},
            "status": {
                "conditions": [{"type": "Ready", "status": "True" if ready else "False", "reason": "KubeletReady"}],
                "allocatable": {"cpu": "2", "memory": "7Gi", "pods": "29"},
                "capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"},
            },
        }
        return self.api.put("nodes", obj)

    def pair(self, name: str, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """A claim c-NAME and its Node NAME, registered by Karpenter."""
        claim = self.claim(f"c-{name}", node=name, **more)
        return claim, self.node(name, claim)

    def change(self, plural: str, name: str, edit: Callable[[dict[str, Any]], None]) -> None:
        """`edit` changes the object in place, as somebody else would."""

        def go() -> None:
            obj = self.api.store.get(self.api.resource(plural), name)
            edit(obj)
            self.api.store.replace(self.api.resource(plural), obj)

        self.api.on_loop(go)

    def remove(self, plural: str, name: str) -> None:
        self.api.on_loop(lambda: self.api.store.delete(self.api.resource(plural), name))

    def get(self, plural: str, name: str) -> dict[str, Any]:
        """{} where there is none."""
        key = (self.api.resource(plural), "", name)
        return self.api.on_loop(lambda: copy.deepcopy(self.api.store.objects.get(key) or {}))

    def annotate(self, plural: str, name: str, key: str, value: Optional[str]) -> None:
        def edit(obj: dict[str, Any]) -> None:
            notes = obj["metadata"].setdefault("annotations", {})
            if value is None:
                notes.pop(key, None)
            else:
                notes[key] = value

        self.change(plural, name, edit)

    def say(
        self,
        node: str,
        source: str = "spot",
        deadline: Optional[float] = 120,
        phase: str = "Detected",
        raw: Optional[str] = None,
        **more: Any,
    ) -> Optional[int]:
        """The node says a word; its deadline is `deadline` seconds from now (None: it has none), rounded down as an
        instance's is. Gives the deadline as an epoch."""
        end = None if deadline is None else int(time.time() + deadline)
        word = {
            "id": f"{source}-1",
            "source": source,
            "phase": phase,
            "deadline": None if end is None else stamp(end),
            "total": 3,
            "remaining": 0 if phase == "Drained" else 3,
            "blocked": [],
            "updated": stamp(time.time()),
            **more,
        }
        self.annotate("nodes", node, STATUS_KEY, json.dumps(word, separators=(",", ":")) if raw is None else raw)
        return end

    def boot_failure(self, claim: dict[str, Any], message: str, at: float = 0, node: str = "") -> None:
        """As its node writes it; `node`: one that may not read its NodeClaim."""
        meta, when = claim["metadata"], stamp(at or time.time())
        about = {"kind": "NodeClaim", "apiVersion": "karpenter.sh/v1", "name": meta["name"], "uid": meta["uid"]}
        if node:
            about = {"kind": "Node", "apiVersion": "v1", "name": node, "uid": node}
        event = {"metadata": {"generateName": meta["name"]}, "involvedObject": about, "reason": "BootstrapFailed", "message": message,
                 "type": "Warning", "count": 1, "firstTimestamp": when, "lastTimestamp": when,
                 "reportingInstance": claim.get("status", {}).get("providerID", "")}
        self.api.put("events", event, "default")

    def unsay(self, node: str) -> None:
        self.annotate("nodes", node, STATUS_KEY, None)

    def lease(self, holder: str, name: str = LEASE, namespace: str = CONTROLLER_NAMESPACE, duration: int = 15) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
        spec = {"holderIdentity": holder, "leaseDurationSeconds": duration, "acquireTime": now, "renewTime": now,
                "leaseTransitions": 1}
        key = (self.api.resource("leases"), namespace, name)

        def go() -> None:
            if key in self.api.store.objects:
                old = self.api.store.get(*key[:1], name, namespace)
                self.api.store.replace(key[0], {**old, "spec": spec}, namespace)
            else:
                self.api.store.create(key[0], {"metadata": {"name": name}, "spec": spec}, namespace)

        self.api.on_loop(go)

    def holder(self) -> str:
        key = (self.api.resource("leases"), CONTROLLER_NAMESPACE, LEASE)
        return self.api.on_loop(lambda: (self.api.store.objects.get(key) or {}).get("spec", {}).get("holderIdentity") or "")

    # --- the program
    def command(self, *args: str, address: str) -> list[str]:
        fixed = ["--kubeconfig", str(self.kubeconfig), "--mode", self.mode, "--lease-namespace", CONTROLLER_NAMESPACE]
        fixed += ["--node-identity", "admission"]  # a test that has an EC2 says otherwise
        fixed += list(ELECTION) if self.elects else ["--no-leader-election"]
        return [str(controller_path()), "run", *fixed, "--metrics-address", address, "--log-level", "debug", *args]

    def environment(self, **more: str) -> dict[str, str]:
        return environment(**more)

    def start(self, *args: str, ready: bool = True, **env: str) -> "subprocess.Popen[bytes]":
        """Several may run at once: each has a loopback address of its own for its listener."""
        address = f"127.{random.randint(1, 254)}.{random.randint(0, 254)}.{random.randint(1, 254)}:{PORT}"
        seen = len(self.steps("watch"))
        with open(self.log_file, "ab") as log:
            proc = subprocess.Popen(
                self.command(*args, address=address),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment(**env),
            )
        self.procs.append(proc)
        self.addresses[proc.pid] = address
        if ready:
            self.must(lambda: len(self.steps("watch")) - seen >= (3 if self.mode == "standalone" else 2), "its watches")
        return proc

    @property
    def proc(self) -> "subprocess.Popen[bytes]":
        return self.procs[-1]

    def kill(self, proc: Optional["subprocess.Popen[bytes]"] = None) -> None:
        proc = proc or self.proc
        proc.kill()
        proc.wait(10)

    def stop(self, proc: Optional["subprocess.Popen[bytes]"] = None, within: float = 10) -> int:
        proc = proc or self.proc
        proc.send_signal(signal.SIGTERM)
        return proc.wait(within * PATIENCE)

    def ask(self, path: str, proc: Optional["subprocess.Popen[bytes]"] = None) -> tuple[int, str]:
        """GET at its listener; (0, "") where nobody listens."""
        host, _, port = self.addresses[(proc or self.proc).pid].rpartition(":")
        conn = http.client.HTTPConnection(host, int(port), timeout=5 * PATIENCE)
        try:
            conn.request("GET", path)
            answer = conn.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""
        finally:
            conn.close()

    def metrics(self, proc: Optional["subprocess.Popen[bytes]"] = None) -> dict[str, dict[str, float]]:
        status, text = self.ask("/metrics", proc)
        if status != 200:
            raise AssertionError(f"/metrics: {status}\n{self.story()}")
        return parse_metrics(text)

    def metric(self, name: str, labels: str = "", proc: Optional["subprocess.Popen[bytes]"] = None) -> float:
        """-1 where there is none, or nobody listens (yet)."""
        status, text = self.ask("/metrics", proc)
        return parse_metrics(text).get("nodeclaim_controller_" + name, {}).get(labels, -1) if status == 200 else -1

    def run(self, *args: str, within: float = 20) -> tuple[int, str, str]:
        """A command that ends: (exit code, out, err)."""
        done = subprocess.run(
            [str(controller_path()), *args],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=self.environment(),
            timeout=within * PATIENCE,
        )
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def status(self) -> dict[str, dict[str, Any]]:
        """What `status -o json` says of each node, by name."""
        code, out, err = self.run("status", "-o", "json", "--metrics-address", self.addresses[self.proc.pid])
        if code != 0:
            raise AssertionError(f"status: {code} {err}\n{self.story()}")
        said = json.loads(out)
        rows = said["nodes"] if isinstance(said, dict) else said
        return {row["node"]: row for row in rows}

    def forbid(self, *resources: str, verb: str = "") -> Callable[[], None]:
        """All rules about these, or their verb; gives what allows them again."""
        rules = self.api.rules
        allowed = dict(rules)

        def rest(rule: Rule) -> Rule:
            is_it = set(resources) & set(rule.resources)
            return replace(rule, verbs=tuple(v for v in rule.verbs if verb and v != verb)) if is_it else rule

        rules.update({user: tuple(rest(r) for r in rows) for user, rows in allowed.items()})
        return lambda: rules.update(allowed)

    def trouble(self) -> str:
        """What `status` says is wrong."""
        return "\n".join(json.loads(self.ask("/status")[1])["controller"]["trouble"])

    def must(self, check: Any, what: str = "", within: float = 15) -> Any:
        found = until(check, within)
        if not found:
            raise AssertionError(f"waited in vain for {what or check}\n{self.story()}")
        return found

    def story(self) -> str:
        rows = "\n".join(
            f"{s.at:.3f} {s.kind} {s.what} {s.status} {s.entry.get('fault') or ''} {(s.entry.get('body') or '')[:300]} "
            f"{s.entry.get('reason', '')[:200]}"
            for s in self.steps()[-60:]
        )
        return f"--- requests\n{rows}\n--- log\n{self.log()[-6000:]}"

    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    # --- what it did
    def steps(self, *kinds: str) -> list[Step]:
        rows = [step_of(e) for e in self.api.server.log.snapshot() if e["path"] != "?" and "eviction" not in e["path"]]
        return [s for s in rows if not kinds or s.kind in kinds]

    def writes(self, *names: str) -> list[Step]:
        """Its writes of Nodes and claims (of these names), as they came."""
        return [s for s in self.steps() if s.is_write and (not names or s.what in names)]

    def accepted(self, kind: str, name: str = "") -> list[Step]:
        """What was carried out, whether the answer was seen or not."""
        return [s for s in self.steps(kind) if s.status in (200, 201) and (not name or s.what == name)]

    def relayed(self, claim: str, within: float = 15) -> None:
        self.must(lambda: self.accepted("delete", claim), f"DELETE of {claim}", within)

    def timestamp(self, claim: str) -> Optional[int]:
        text = self.get("nodeclaims", claim).get("metadata", {}).get("annotations", {}).get(TIME_KEY)
        return None if text is None else epoch(text)

    def condition(self, claim: str, kind: str) -> tuple[str, str]:
        """(status, reason)"""
        found = [c for c in self.get("nodeclaims", claim).get("status", {}).get("conditions", []) if c["type"] == kind]
        return (found[0]["status"], found[0]["reason"]) if found else ("", "")

    def fresh(self, name: str, **more: Any) -> None:
        """A claim c-NAME that was launched and nobody keeps yet, and its Node NAME, as a kubelet registers it."""
        keep = {k: more.pop(k) for k in ("ready", "taints", "node_labels") if k in more}
        self.claim(f"c-{name}", finalizers=[], **more)
        unregistered = {"key": UNREGISTERED, "effect": "NoExecute"}
        self.node(name, instance=f"c-{name}", taints=[unregistered, *keep.get("taints", [])], ready=keep.get("ready", True),
                  labels=keep.get("node_labels"))

    def ours(self, name: str, **more: Any) -> None:
        """A claim c-NAME and its Node, registered and initialized by us."""
        done = [{"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": "2026-11-01T00:00:00Z"}
                for kind in ("Launched", "Registered", "Initialized", "Ready")]
        claim = self.claim(f"c-{name}", node=name, finalizers=[OURS], status={"conditions": done}, **more)
        self.node(name, claim, finalizers=[OURS])

    def is_gone(self, name: str) -> bool:
        return not self.get("nodes", name) and not self.get("nodeclaims", f"c-{name}")

    def request(self, node: str) -> dict[str, Any]:
        """The drain request on the Node."""
        return json.loads(self.get("nodes", node).get("metadata", {}).get("annotations", {}).get(REQUEST_KEY) or "{}")

    def taints(self, node: str) -> list[str]:
        return sorted(t["key"] for t in self.get("nodes", node).get("spec", {}).get("taints") or [])

    def kill_at(self, number: int, before: bool, events: bool = False) -> list[int]:
        """The controller dies by SIGKILL at its write of this number (from 0; reads, Leases and, unless told, Events do not
        count), `before` or after the server has carried it out; the answer is never seen. Gives the list that holds its
        number once that was so."""
        seen = [0]
        done: list[int] = []

        def look(req: Request) -> bool:
            if req.method == "GET" or "/leases" in req.path or ("/events" in req.path and not events):
                return False
            if done:
                return self.proc.pid == done[1]  # nothing of a dead process comes through
            seen[0] += 1
            if seen[0] - 1 == number:
                done.extend((number, self.proc.pid))
                os.kill(self.proc.pid, signal.SIGKILL)
                return True
            return False

        (self.api.server.before_request if before else self.api.server.before_answer).append(look)
        if not before:  # what came after the last one that counts is not carried out either
            self.api.server.before_request.append(lambda req: bool(done) and self.proc.pid == done[1])
        return done


class ToyAgent:
    """What the agents of all nodes do about a drain request: they say that they drain, then that they have.

    `drains`: the ids that each node drained for. `silent`: nodes without an agent. `delay_sec`: how long a drain takes.
    """

    def __init__(self, world: ControlWorld, delay_sec: float = 0.2) -> None:
        self.world, self.delay_sec = world, delay_sec
        self.drains: dict[str, list[str]] = {}
        self.silent: set[str] = set()
        world.api.on_loop(lambda: world.api.store.watchers.append(self._changed))

    def _changed(self, change: Change) -> None:
        meta = change.object["metadata"]
        text = (meta.get("annotations") or {}).get(REQUEST_KEY)
        if change.resource.plural != "nodes" or change.kind == "DELETED" or not text or meta["name"] in self.silent:
            return
        name, ask = meta["name"], json.loads(text)
        if ask["id"] in self.drains.setdefault(name, []):
            return
        self.drains[name].append(ask["id"])
        for after, phase in ((0.05, "Evicting"), (self.delay_sec, "Drained")):
            self.world.api._later(after, lambda phase=phase: self._say(name, ask, phase))  # type: ignore[misc]

    def _say(self, name: str, ask: dict[str, Any], phase: str) -> None:
        key = (self.world.api.resource("nodes"), "", name)
        if key not in self.world.api.store.objects:
            return
        node = self.world.api.store.get(*key[:1], name)
        word = {"id": ask["id"], "source": "request", "phase": phase, "deadline": ask.get("deadline"), "total": 3,
                "remaining": 0 if phase == "Drained" else 3, "blocked": [], "updated": stamp(time.time())}
        node["metadata"]["annotations"][STATUS_KEY] = json.dumps(word)
        self.world.api.store.replace(key[0], node)


class Toll:
    """How many of these claims were on their way out at once, at most, and in which order they went."""

    def __init__(self, world: ControlWorld) -> None:
        self.going: set[str] = set()
        self.most = 0
        self.order: list[str] = []
        world.api.on_loop(lambda: world.api.store.watchers.append(self._changed))

    def _changed(self, change: Change) -> None:
        meta = change.object["metadata"]
        if change.resource.plural != "nodeclaims":
            return
        if change.kind == "DELETED":
            self.going.discard(meta["name"])
        elif meta.get("deletionTimestamp") and meta["name"] not in self.going:
            self.going.add(meta["name"])
            self.order.append(meta["name"])
            self.most = max(self.most, len(self.going))


def provider_id(name: str) -> str:
    """Of the instance that is called so here: its id is made of the name."""
    return f"aws:///us-west-2a/{instance_id(name)}"


def instance_id(name: str) -> str:
    return "i-0" + name.encode().hex()[-16:].rjust(16, "0")


class ControlTest(TestCase):
    """At the end of each test: RBAC refused nothing, and no request was one that the controller must not make."""

    longMessage = True

    def control_world(self, **more: Any) -> ControlWorld:
        made = ControlWorld(**more)
        self.enterContext(made)
        self.addCleanup(self.judge, made)
        return made

    def judge(self, world: ControlWorld) -> None:
        for step in world.steps():
            entry = step.entry
            where = f"{entry['method']} {entry['path']} {entry.get('body', '')}: {entry['status']} {entry.get('reason')}"
            self.assertNotIn("bug", entry, where)
            self.assertNotEqual(step.kind, "other", where)
            if entry["fault"] is None and not world.refused_is_wanted:
                self.assertNotIn(entry["status"], (400, 401, 403, 405, 406, 413, 415, 422), where)
                self.assertEqual(entry.get("user", CONTROLLER_USER), CONTROLLER_USER, where)
            if step.kind in ("delete", "delete-node"):
                self.assertTrue(step.body["preconditions"]["uid"], where)
            if entry["method"] in ("PUT", "POST"):
                self.assertIn(step.kind, ("lease", "event"), where)
            if entry["method"] == "PATCH" and step.is_write:
                self.own_keys_only(step, where)
        if world.mode == "karpenter":
            others = [s for s in world.writes() if s.kind not in ("set-timestamp", "delete")
                      and not (world.marks_nodes and s.kind == "node" and set(s.body["spec"]) == {"taints"})
                      and not (s.kind == "node" and s.body["metadata"].get("annotations", {}).keys() & NODE_NOTES)]
            self.assertEqual([s.what for s in others if set(s.body.get("metadata", {})) != HANDOVER], [], world.story())

    def own_keys_only(self, step: Step, where: str) -> None:
        """A list that a merge patch replaces is covered by a resourceVersion."""
        body = step.body
        lists = [
            name
            for part in ("metadata", "spec", "status")
            for name, value in (body.get(part) or {}).items()
            if isinstance(value, list)
        ]
        if lists:
            self.assertTrue(body["metadata"].get("resourceVersion"), where)
        if step.kind != "node":
            self.assertNotIn("spec", body, where)

    def assertOrder(self, world: ControlWorld, *steps: Step) -> None:
        """Each was answered before the next one was sent."""
        for before, after in zip(steps, steps[1:]):
            self.assertLessEqual(before.sent, after.at, f"{before.kind} before {after.kind}\n{world.story()}")

    def assertRelayed(self, world: ControlWorld, claim: str, deadline: Optional[int], margin: int = 15) -> None:
        """Once: the stamp, then the DELETE."""
        world.relayed(claim)
        self.assertEqual(len(world.accepted("delete", claim)), 1, world.story())
        if deadline is not None:
            self.assertEqual(world.timestamp(claim), deadline - margin, world.story())
            self.assertOrder(world, world.accepted("set-timestamp", claim)[0], world.accepted("delete", claim)[0])

    def assertQuiet(self, world: ControlWorld, seconds: float, *names: str) -> None:
        """Nothing was written for so long, while something else shows that the controller was at work meanwhile."""
        count = len(world.writes(*names))
        end = time.monotonic() + seconds
        world.must(lambda: time.monotonic() > end, "a while", within=seconds + 5)
        self.assertEqual(len(world.writes(*names)), count, world.story())


__all__ = ["DISRUPTED", "KARPENTER", "OURS", "PATIENCE", "REQUEST_KEY", "SLACK", "STATUS_KEY", "TIME_KEY", "UNREGISTERED",
           "ControlTest", "ControlWorld", "Step", "Toll", "ToyAgent", "epoch", "instance_id", "provider_id", "stamp", "until"]
