"""The rest of a node's life: pods, a spot notice, the drain, the end through logind.

Knows: what a cluster schedules on a node that is up, and what a spot notice looks like in IMDS.
Gives: `Life`, which tells the story once the node is up, and `check_life`.
Must not: evict or delete a pod; that is the node's own work.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Optional

from checks import Boot, Evidence, Report, audit_time

if TYPE_CHECKING:
    from controlplane import ControlPlane
    from imds import Imds

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
NOTICE = "latest/meta-data/spot/instance-action"
MARGIN_SEC = 4
GRACE_SEC = 6
REACH_CORDON_MSEC = 1100.0
MAX_EXPOSURE = 2.0


HOOK_SEC = 1.0
NOTE = "/var/lib/boot-hooks"  # a line each time: when it began, when it ended


def hook(target: str, name: str) -> str:
    now = "$$(date +%%s.%%N)"
    line = f'mkdir -p {NOTE}; begin={now}; sleep {HOOK_SEC}; echo "$$begin {now}" >>{NOTE}/{name}'
    return f"[Service]\nType=oneshot\nExecStart=/bin/sh -c '{line}'\n[Install]\nWantedBy={target}\n"


HOOKS = {
    "boot-test-flush.service": hook("nodeclaimd-pre-drain.target", "pre"),
    "boot-test-chat.service": hook("nodeclaimd-post-drain.target", "post"),
    "boot-test-earlier-drain.service": "[Service]\nType=oneshot\n"
    "ExecStart=/usr/bin/systemctl restart nodeclaimd-pre-drain.target\n[Install]\nWantedBy=multi-user.target\n",
}


def config(margin_sec: int) -> str:
    """An AgentConfig: so long before the deadline the node has to be empty."""
    return f"""\
apiVersion: nodeclaimd.io/v1alpha1
kind: AgentConfig
spec:
  drain:
    margin: {margin_sec}s
"""


class Life:
    """A thread of its own: `begin` is called when the node's first pod runs. Or in the caller's: `schedule`, `announce`."""

    ahead_sec = 30  # a spot notice comes two minutes ahead; the rules are the same
    patience_sec = 90.0
    margin_sec = MARGIN_SEC  # as config() says

    def __init__(self, plane: "ControlPlane", imds: "Imds", node: str, image: str, settled: Path) -> None:
        self.plane, self.imds, self.node_name, self.image = plane, imds, node, image
        self.settled = settled
        self.notice_time = 0.0
        self.deadline = 0
        self.node: dict[str, Any] = {}  # as it was when it was Drained
        self.failure: Optional[BaseException] = None
        self._thread: Optional[threading.Thread] = None

    def begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="life", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            self.schedule()
            self.announce()
        except BaseException as exc:  # noqa: B902: the test's own mistake must end the test
            self.failure = exc
        self.settled.touch()

    def close(self) -> None:
        if self._thread is not None:
            self._thread.join(self.patience_sec)
        if self.failure is not None:
            raise self.failure

    def _ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        status, answer = self.plane.request(method, path, body, kind)
        if status not in (200, 201):
            raise RuntimeError(f"{method} {path}: {status} {answer}")
        return answer

    def _wait(self, what: str, look: Callable[[], Any]) -> Any:
        end = time.monotonic() + self.patience_sec
        while time.monotonic() < end:
            found = look()
            if found:
                return found
            time.sleep(0.1)
        raise RuntimeError(f"never came: {what}")

    def _pod(self, name: str) -> None:
        self._ask(
            "POST",
            PODS,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "labels": {"app": name}},
                "spec": {
                    "nodeName": self.node_name,
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    "terminationGracePeriodSeconds": GRACE_SEC,
                    "containers": [{"name": "pause", "image": self.image, "imagePullPolicy": "Never"}],
                },
            },
        )

    def _budget(self, name: str) -> None:
        """A budget that never allows; its status is the disruption controller's to write, which does not run here."""
        made = self._ask(
            "POST",
            BUDGETS,
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": name},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}},
            },
        )
        made["status"] = {
            "observedGeneration": made["metadata"]["generation"],
            "disruptionsAllowed": 0,
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
        }
        self._ask("PUT", f"{BUDGETS}/{name}/status", made)

    def _is_running(self, name: str) -> bool:
        return self._ask("GET", f"{PODS}/{name}").get("status", {}).get("phase") == "Running"

    def _is_drained(self) -> bool:
        self.node = self._ask("GET", f"/api/v1/nodes/{self.node_name}")
        conditions = {c["type"]: c["status"] for c in self.node["status"]["conditions"]}
        return conditions.get("Drained") == "True"

    def schedule(self) -> None:
        """Two pods, one of them held by its budget."""
        for name in ("free", "held"):
            self._pod(name)
        self._budget("held")
        for name in ("free", "held"):
            self._wait(f"pod {name} running", lambda name=name: self._is_running(name))

    def announce(self) -> None:
        """A spot notice, and the drain to its end."""
        self.deadline = int(time.time()) + self.ahead_sec
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.deadline))
        self.notice_time = time.time()
        self.imds.tree[NOTICE] = f'{{"action": "terminate", "time": "{when}"}}'.encode()
        self._wait("the condition Drained", self._is_drained)


def writes(plane: "ControlPlane", node: str) -> list[dict[str, Any]]:
    """What the daemon changed, in order. Patches of kubelet are its own."""
    return [
        e
        for e in plane.audit()
        if e["user"].get("username") == f"system:node:{node}"
        and "(run)" in e.get("userAgent", "")
        and e["verb"] in ("patch", "create", "delete", "update")
        and e["objectRef"]["resource"] != "events"
    ]


def named(entries: list[dict[str, Any]], verb: str, resource: str, name: str = "", sub: str = "") -> list[dict[str, Any]]:
    return [
        e
        for e in entries
        if e["verb"] == verb
        and e["objectRef"]["resource"] == resource
        and e["objectRef"].get("subresource", "") == sub
        and (not name or e["objectRef"].get("name") == name)
    ]


def check_signals(report: Report, life: Life, writes: list[dict[str, Any]], reach_msec: float) -> None:
    signal = named(writes, "patch", "nodes", sub="status")
    cordon = named(writes, "patch", "nodes")
    evictions = named(writes, "create", "pods", sub="eviction")
    times = [audit_time(entries[0]) if entries else 0.0 for entries in (signal, cordon, evictions)]
    report.check("signal, then cordon, then the first eviction", 0 < times[0] < times[1] < times[2], times)
    if cordon:
        took = (audit_time(cordon[0], "stageTimestamp") - life.notice_time) * 1000
        report.figure("spot notice -> cordon on the API server", took, "ms")
        report.check(f"... within {reach_msec:.0f} ms", took <= reach_msec, f"{took:.0f} ms")
    meta, spec = life.node.get("metadata", {}), life.node.get("spec", {})
    conditions = {c["type"]: c for c in life.node.get("status", {}).get("conditions") or []}
    report.check("the Node is cordoned", spec.get("unschedulable") is True, spec)
    report.check(
        "... and excluded from load balancers",
        meta.get("labels", {}).get("node.kubernetes.io/exclude-from-external-load-balancers") == "nodeclaimd",
        meta.get("labels"),
    )
    pending = conditions.get("InterruptionPending", {})
    report.check(
        "condition InterruptionPending: SpotInterruption",
        (pending.get("status"), pending.get("reason")) == ("True", "SpotInterruption"),
        pending,
    )
    refused = [
        f"{e['verb']} {e['requestURI']} {e['responseStatus']['code']}"
        for e in writes
        if e.get("responseStatus", {}).get("code") in (401, 403, 422)
    ]
    report.check("nothing that the daemon wrote was refused", not refused, refused)


def check_pods(report: Report, life: Life, writes: list[dict[str, Any]], late_sec: float) -> None:
    accepted = [
        e["objectRef"]["name"]
        for e in named(writes, "create", "pods", sub="eviction")
        if e["responseStatus"]["code"] in (200, 201)
    ]
    deleted = named(writes, "delete", "pods")
    tolerates = [name for name in accepted if name.startswith("first-")]
    report.check("the free pod was evicted, once", accepted.count("free") == 1, accepted)
    report.check("... and so was the one that tolerates everything", len(tolerates) == 1, accepted)
    report.check("... and no other", len(accepted) == 2, accepted)
    report.check("only the held pod was deleted", [e["objectRef"]["name"] for e in deleted] == ["held"], deleted)
    if deleted:
        # the margin is a share of the time that is left (docs/drain-rules.md, N2)
        share = max(-(-life.margin_sec * life.ahead_sec // 120), min(10, life.ahead_sec - 30), 1)
        late = audit_time(deleted[0]) - (life.deadline - min(life.margin_sec, share) - GRACE_SEC)
        report.figure("the held pod's last moment -> its deletion", late * 1000, "ms")
        report.check("... at its last moment, not before", -0.05 <= late <= late_sec, late)
    drained = {c["type"]: c for c in life.node.get("status", {}).get("conditions") or []}.get("Drained", {})
    report.check("Drained, before the deadline", drained.get("status") == "True", drained)


def check_hooks(report: Report, boot: Boot, life: Life, writes: list[dict[str, Any]]) -> None:
    seen = Evidence(boot.machine.root)
    runs = {}
    for name in ("pre", "post"):
        lines = (seen.file(f"{NOTE[1:]}/{name}") or "").splitlines()
        runs[name] = [[float(word) for word in line.split()] for line in lines]
    evictions = named(writes, "create", "pods", sub="eviction")
    first = audit_time(evictions[0]) if evictions else 0.0
    ended = [  # that its containers have ended is the last thing that kubelet writes of a pod
        audit_time(e)
        for e in named(boot.plane.audit(), "patch", "pods", sub="status")
        if e["objectRef"].get("name") in ("free", "held") and "kubelet" in e.get("userAgent", "")
    ]
    drained = [audit_time(e) for e in named(writes, "patch", "nodes", sub="status")]
    pre = [run for run in runs["pre"] if run[0] >= life.notice_time]
    report.check("the hook before the drain ran, once", len(pre) == 1, runs)
    report.check("... though its target was active of an earlier one", len(runs["pre"]) == 2, runs)
    report.check("... and ended before the first eviction", bool(pre) and pre[0][1] <= first, (runs, first))
    report.check("the hook after the drain ran, once", len(runs["post"]) == 1, runs)
    if runs["post"] and ended and drained:
        begin, end = runs["post"][0]
        report.check("... after the last pod", begin >= max(ended), (runs, ended))
        report.check("... and ended before the Node was Drained", end <= drained[-1], (runs, drained))
    said = [line for line in seen.journal("nodeclaimd.service").splitlines() if "-drain.target" in line]
    report.check("neither failed, nor hung", sum(" has ended after " in line for line in said) == 2, said)


def stopped(seen: Evidence, unit: str) -> float:
    """When systemd had stopped it, of the machine's own journal."""
    times = [t for t, message in seen.manager_says(unit) if message.startswith(("Stopped ", unit + ": Deactivated"))]
    return max(times, default=0.0)


def _check_service(report: Report, seen: Evidence) -> None:
    daemon = dict(line.split(":", 1) for line in seen.text("daemon-memory").splitlines() if ":" in line)
    kib = {name: float(daemon.get(name, "0").split()[0]) for name in ("Rss", "Private_Dirty") if name in daemon}
    if kib:
        report.figure("the daemon: resident", kib.get("Rss", 0) / 1024, "MiB")
        report.figure("the daemon: private", kib.get("Private_Dirty", 0) / 1024, "MiB")
    report.check("the daemon listens on no socket", seen.text("daemon-listens").strip() == "", seen.text("daemon-listens"))
    report.check("it held logind's inhibitor", "nodeclaimd" in seen.text("inhibitors"), seen.text("inhibitors"))
    kubelet, ours = stopped(seen, "kubelet.service"), stopped(seen, "nodeclaimd.service")
    report.check("it was stopped after kubelet", 0 < kubelet <= ours, f"kubelet {kubelet}, nodeclaimd {ours}")
    timeline = seen.text("timeline")
    report.check("`nodeclaimd timeline` tells of the notice and the drain", "spot" in timeline and "drained" in timeline.lower(), timeline)


def check_life(report: Report, boot: Boot, life: Life) -> None:
    seen = Evidence(boot.machine.root)
    written = writes(boot.plane, boot.scenario.node)
    check_signals(report, life, written, REACH_CORDON_MSEC)
    check_pods(report, life, written, 1.0)
    check_hooks(report, boot, life, written)
    _check_service(report, seen)
