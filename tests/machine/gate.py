"""The startup gate on a virtual machine: for whom it is there, and when each of them came.

Knows: a DaemonSet that pods need, a pod of an application that waits for the node, who binds both and who removes the taint.
Gives: `Gate`, with what was seen of a boot, as rows of its time line.
Must not: bind a pod, or touch a taint.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from typing import Any

from actors import IMAGE, Follower
from controlplane import Child
from timeline import Row, epoch
from world import Tally, World, wait_for

TAINT = "nodeclaimd.io/unfit"
FIT = "nodeclaimd.io/Fit"
SETS = "/apis/apps/v1/namespaces/kube-system/daemonsets"
PODS = "/api/v1/namespaces/default/pods"
CONFIG = """\
apiVersion: nodeclaimd.io/v1alpha1
kind: AgentConfig
spec:
  fit: {daemonSets: [kube-system/cni], timeout: 1h, onTimeout: hold}
"""
SEEN, READY, STATED, GONE = "the taint is there", "DaemonSet Ready", "Fit is True", "the taint is gone"
BOUND, RUNS = "application bound", "application runs"


def with_gate(text: bytes) -> bytes:
    """Karpenter writes the startup taints of a NodePool into the user data."""
    taints = b"registerWithTaints:\n"
    assert taints in text
    return text.replace(taints, taints + f"      - effect: NoSchedule\n        key: {TAINT}\n".encode(), 1)


def pod_spec(**more: Any) -> dict[str, Any]:
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 2,
        "containers": [{"name": "pause", "image": IMAGE, "imagePullPolicy": "Never"}],
        **more,
    }


def condition(thing: dict[str, Any], kind: str) -> dict[str, Any]:
    return next((c for c in thing.get("status", {}).get("conditions") or [] if c["type"] == kind), {})


class Gate(contextlib.ExitStack):
    """kube-scheduler, the DaemonSet controller and nodeclaim-controller beside one machine."""

    def __init__(self, opts: argparse.Namespace, world: World) -> None:
        super().__init__()
        self.world, self.boots, self.began = world, 0, 0.0
        self.times: dict[str, float] = {}
        plane = world.plane
        url = f"https://127.0.0.1:{plane.port}"
        cert, key = plane.ca.client("gate", "admin", "system:masters")
        config = plane.folder / "gate.kubeconfig"
        user, there = {"client-certificate": str(cert), "client-key": str(key)}, {"server": url, "certificate-authority": str(plane.ca.cert)}
        config.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "x",
                    "clusters": [{"name": "x", "cluster": there}],
                    "users": [{"name": "x", "user": user}],
                    "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
                }
            )
        )
        ours = opts.program / "usr/sbin/nodeclaim-controller"
        for argv in (
            (f"{opts.binaries}/kube-scheduler", f"--kubeconfig={config}", "--leader-elect=false", "--secure-port=0"),
            (f"{opts.binaries}/controllers", f"--server={url}", f"--ca={plane.ca.cert}", f"--cert={cert}", f"--key={key}"),
            (str(ours), "run", "--kubeconfig", str(config), "--mode", "karpenter", "--no-leader-election", "--metrics-address", "off"),
        ):
            self.callback(Child(plane.folder, argv[0].rpartition("/")[2], *argv).stop)
        labels = {"app": "cni"}
        template = {"metadata": {"labels": labels}, "spec": pod_spec(tolerations=[{"operator": "Exists"}])}
        self._create(SETS, {"metadata": {"name": "cni"}, "spec": {"selector": {"matchLabels": labels}, "template": template}})
        for path, see in (("/api/v1/nodes", self._see_node), ("/api/v1/pods", self._see_pod)):
            self.callback(Follower(plane, path, see).stop)

    def _create(self, path: str, thing: dict[str, Any]) -> None:
        status, answer = self.world.plane.request("POST", path, thing)
        assert status == 201, answer

    def begin(self, began: float) -> None:
        """A boot: a pod waits for it, and what is seen from now on is of it."""
        self.boots += 1
        self.began = began
        self.times.clear()
        selector = {"kubernetes.io/hostname": self.world.node}
        self._create(PODS, {"metadata": {"name": f"web-{self.boots}"}, "spec": pod_spec(nodeSelector=selector)})

    def _mark(self, what: str) -> None:
        self.times.setdefault(what, time.time())

    def _see_node(self, node: dict[str, Any]) -> None:
        is_shut = any(t["key"] == TAINT for t in node["spec"].get("taints") or [])
        if is_shut:
            self._mark(SEEN)
        elif SEEN in self.times:
            self._mark(GONE)
        if SEEN in self.times and condition(node, FIT).get("status") == "True":
            self._mark(STATED)

    def _see_pod(self, pod: dict[str, Any]) -> None:
        if pod["metadata"].get("labels", {}).get("app") == "cni":
            ready = condition(pod, "Ready")
            if ready.get("status") == "True" and epoch(ready["lastTransitionTime"]) >= int(self.began):
                self._mark(READY)
        elif pod["metadata"]["name"] == f"web-{self.boots}":
            if pod["spec"].get("nodeName"):
                self._mark(BOUND)
            if pod.get("status", {}).get("phase") == "Running":
                self._mark(RUNS)

    def rows(self) -> list[Row]:
        inside, outside = self.world.guest.uptime()
        return [(sec - outside + inside, what) for what, sec in self.times.items()]

    def check(self, tally: Tally) -> None:
        """In each boot: what the node needs, then the pod that needs it."""
        wait_for("the pod of the application", lambda: RUNS in self.times)
        times = [self.times.get(what, 0.0) for what in (SEEN, READY, STATED, GONE, BOUND, RUNS)]
        tally.check(f"boot {self.boots}: taint, DaemonSet Ready, Fit, no taint, then the application", 0 < times[0] and times == sorted(times), self.times)
        tally.figure("DaemonSet Ready -> the taint is gone", times[3] - times[1], "s")
        node = self.world.node_object()
        tally.check("no taint of ours and no cordon is left", not node["spec"].get("unschedulable") and TAINT not in str(node["spec"]), node["spec"])
        boot = self.world.guest.run("cat", "/proc/sys/kernel/random/boot_id").strip()
        record = node["metadata"].get("annotations", {}).get("nodeclaimd.io/fit-boot")
        tally.check("the record is of this boot", record == boot, (record, boot))
