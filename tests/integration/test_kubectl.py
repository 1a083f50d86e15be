"""The plugin kubectl-nodeclaim, with a real kubectl against the fake API server."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any, Callable
from urllib.parse import parse_qs, urlsplit

import harness
from controlling import KARPENTER, QUIET, REQUEST_KEY, STATUS_KEY, provider_id
from harness import PATIENCE, SOURCE
from monitoring import program

from apiserver import ADMIN_TOKEN, ApiServer
from pods import epoch, stamp
from wire import Fault

PLUGIN = SOURCE / "kubectl/kubectl-nodeclaim"
NOT_FOUND = {"type": "Registered", "status": "Unknown", "reason": "NodeNotFound", "message": "Node not registered with cluster"}


MUTE = "no Node has registered yet, and its machine has reported nothing; kubectl nodeclaim why "


def condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def hostile(rng: random.Random) -> str:
    """A drain-status or a request with values of every type, some of them cut."""
    ends = stamp(time.time() + rng.randint(-300, 300))
    values = [None, True, -1, 1e300, 10**30, "", ends, "a" * 400, "x\ny\tz\x1b[2J\u202e", "request", "spot", "kubectl-1", "refused", [], {}, ["shop/a", 5, None, {}], [[["x"]]], {"a": {}}]
    keys = ["id", "source", "policy", "deadline", "total", "remaining", "blocked", "reasons", "forceDeleteAt", "updated", "hook", "cordon", "more", "returns", "mode", "reason"]
    made = {"phase": rng.choice(["Evicting", "VolumeWait", "Failed", "Detected", *values]), **{key: rng.choice(values) for key in rng.sample(keys, 9)}}
    text = json.dumps(made, ensure_ascii=rng.random() < 0.5)
    return text if rng.random() < 0.8 else text[: rng.randrange(len(text))]


class Plugin(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="nodeclaimd-kubectl-")))
        self.api = ApiServer(harness.SHARED, behave=QUIET)
        self.api.server.start()
        self.addCleanup(self.api.server.stop)
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "k",
                  "clusters": [{"name": "k", "cluster": {"server": self.api.url, "certificate-authority": str(self.api.ca.cert)}}],
                  "contexts": [{"name": "k", "context": {"cluster": "k", "user": "k"}}],
                  "users": [{"name": "k", "user": {"token": ADMIN_TOKEN}}]}  # fmt: skip
        (self.folder / "config").write_text(json.dumps(config))
        for name, target in (("kubectl", program("kubectl", "KUBECTL")), ("kubectl-nodeclaim", PLUGIN), ("kubectl_complete-nodeclaim", PLUGIN)):
            (self.folder / name).symlink_to(target)

    def run_plugin(self, *args: str, name: str = "kubectl-nodeclaim", path: str = "") -> tuple[int, str, str]:
        env = {"PATH": path or f"{self.folder}:{os.environ['PATH']}", "HOME": str(self.folder), "KUBECONFIG": str(self.folder / "config"),
               "PYTHONPATH": str(self.folder)}  # fmt: skip
        done = subprocess.run([self.folder / name, *args], capture_output=True, text=True, env=env, timeout=60 * PATIENCE)
        return done.returncode, done.stdout, done.stderr

    def says(self, *args: str) -> str:
        code, out, err = self.run_plugin(*args)
        self.assertEqual(code, 0, f"{args}: {out}{err}")
        return out

    def test_version(self) -> None:
        self.assertEqual(self.says("version"), "kubectl-nodeclaim of a clone, which has no version\n")

    def refuses(self, code: int, says: str, *args: str) -> None:
        got, out, err = self.run_plugin(*args)
        self.assertEqual((got, says in err), (code, True), f"{args}: {got} {out}{err}")

    def node(self, name: str, *conditions: dict[str, str], claim: str = "", created: str = "", **annotations: str) -> None:
        owners = [{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": claim, "uid": "u"}] if claim else []
        labels = {"karpenter.sh/nodepool": "default"} if claim else {}
        meta = {"name": name, "labels": labels, "annotations": annotations, "ownerReferences": owners}
        self.api.put("nodes", {"metadata": {**meta, **({"creationTimestamp": created} if created else {})}, "spec": {"unschedulable": STATUS_KEY in annotations}, "status": {"conditions": list(conditions)}})

    def claim(self, name: str, node: str = "", *conditions: dict[str, str], instance: str = "i-1", **more: Any) -> None:
        status: dict[str, Any] = {"conditions": list(conditions)}
        if instance:
            status.update(providerID=provider_id(instance))
        if node:
            status["nodeName"] = node
        meta = {"name": name, "labels": {"karpenter.sh/nodepool": "default"}, "finalizers": [KARPENTER], **more}
        self.api.put("nodeclaims", {"metadata": meta, "spec": {}, "status": status})

    def event(self, kind: str, name: str, reason: str, message: str, count: int = 1, instance: str = "", source: str = "kubelet", at: str = "") -> None:
        about = {"kind": kind, "name": name, "uid": name}
        self.api.put("events", {"metadata": {"generateName": name}, "involvedObject": about, "reason": reason, "message": message,
                                "source": {"component": source}, "reportingInstance": instance, "type": "Warning", "count": count, "lastTimestamp": at or stamp(time.time())}, "default")  # fmt: skip

    def change(self, name: str, edit: Callable[[dict[str, Any]], None], kind: str = "nodes") -> None:
        def go() -> None:
            found = self.api.store.get(self.api.resource(kind), name)
            edit(found)
            self.api.store.replace(self.api.resource(kind), found)

        self.api.on_loop(go)

    def drained(self, name: str) -> None:
        self.change(name, lambda n: n["spec"].update(unschedulable=True))
        self.change(name, lambda n: n["status"].update(conditions=[condition("Drained", "True", "NodeDrained", "No pods remaining; volumes still attached: 2")]))

    def request(self, name: str) -> str:
        return self.api.on_loop(lambda: self.api.store.get(self.api.resource("nodes"), name))["metadata"]["annotations"].get(REQUEST_KEY, "")

    def clock(self, at: float) -> None:
        """What the plugin takes for the time from now on."""
        (self.folder / "sitecustomize.py").write_text(f"import time\ntime.time = lambda: {at}\n")

    def test_in_which_order(self) -> None:
        """Of one second, too: Events as they came, whatever their names; conditions since when, then by name."""
        since = {"lastTransitionTime": "2026-11-28T12:00:09Z"}
        conditions = [condition("Ready", "True", "KubeletReady"), condition("Drained", "True", "NodeDrained"), condition("Early", "True", "E")]
        self.node("n1", *({**c, **since} for c in conditions[:2]), {**conditions[2], "lastTransitionTime": "2026-11-28T12:00:08Z"})
        reasons = ["SpotInterruption", "NodeCordoned", "DrainStarted", "DrainBlocked", "NodeDrained"]
        for reason in reasons:
            self.event("Node", "n1", reason, "x", at="2026-11-28T12:00:09Z")
        self.event("Node", "n1", "First", "x", at="2026-11-28T12:00:08Z")
        said = self.says("why", "n1")
        self.assertEqual(re.findall(r"^  (\w+)=True", said, re.M), ["Early", "Drained", "Ready"])
        self.assertEqual(re.findall(r"^  \S+ Warning (\w+): x", said, re.M), ["First", *reasons])

    def test_a_selector(self) -> None:
        """Of a large cluster those that are meant, Nodes and NodeClaims alike."""
        self.node("n1", claim="c1")
        self.node("n2")
        self.claim("c9", "", NOT_FOUND)
        for words in (["-l", "karpenter.sh/nodepool=default"], ["--selector=karpenter.sh/nodepool=default"]):
            said = self.says("status", *words)
            self.assertEqual(("n1 " in said, "n2 " in said, "c9 " in said), (True, False, True), said)
        said = self.says("status", "-l", "karpenter.sh/nodepool=other")
        self.assertEqual(("n1 " in said, "n2 " in said, "c9 " in said), (False, False, False), said)
        for wrong in (["-l"], ["-l", "a b"], ["-l", "a=b", "n1"], ["--selector="], ["n1", "-l", "a=b"]):
            self.refuses(2, "status takes" if len(wrong) == 3 else "-l KEY=VALUE", "status", *wrong)

    def test_status(self) -> None:
        self.node("n1", condition("Ready", "True", "KubeletReady"), condition("BootstrapComplete", "True", "Initialized", "nothing is missing on the node"), claim="c1")
        self.node("n2", condition("Ready", "False", "KubeletNotReady"), condition("BootstrapComplete", "False", "NodeNotReady"),
                  condition("InterruptionPending", "True", "SpotInterruption"), condition("Drained", "True", "NodeDrained", "all\x1b[2J gone"), claim="c2")
        self.node("plain")
        for n in (1, 12):
            self.node(f"warned-{n}", condition("BootstrapComplete", "True", "BootstrapComplete", f"nothing is missing; warnings: {n}, the first: a, b"))
        self.claim("c1", "n1")
        self.claim("c-late", "")
        self.claim("c-launching", "", instance="")
        rows = [line.split() for line in self.says("status").splitlines()]
        self.assertEqual(rows[:4], [["NODE", "NODEPOOL", "READY", "BOOTSTRAP", "INTERRUPTION", "DRAIN"], ["n1", "default", "True", "complete", "-", "-"],
                                    ["n2", "default", "False", "NodeNotReady", "SpotInterruption", "NodeDrained:", r"all\x1b[2J", "gone,", "NOT", "cordoned"],
                                    ["plain", "-", "-", "-", "-", "-"]])
        self.assertEqual([row[3:6] for row in rows[4:6]], [["complete,", "1", "warning"], ["complete,", "12", "warnings"]])
        self.assertEqual([[row[0], *row[3:]] for row in rows[8:]], [["c-late", provider_id("i-1"), *f"{MUTE}c-late".split()], ["c-launching", "-", *"no instance is launched yet; kubectl nodeclaim why c-launching".split()]])
        self.assertEqual(len(self.says("status", "n2").splitlines()), 2)
        self.refuses(1, "no such Node: c-late; of one that was deleted, or of a NodeClaim: kubectl nodeclaim why c-late --context=k\n", "status", "c-late", "--context=k")

    def drains(self) -> list[str]:
        return [re.split("  +", line)[5] for line in self.says("status").splitlines()[1:]]

    def test_cordoned(self) -> None:
        """A cordon that nobody lifts is seen, whoever made it."""
        self.node("n1", condition("Ready", "True", "KubeletReady"))
        self.node("n2", condition("Ready", "False", "KubeletNotReady"))
        self.node("n3")
        self.change("n2", lambda n: n["spec"].update(taints=[{"key": "nodeclaimd.io/unfit", "effect": "NoSchedule"}]))
        for name in ("n1", "n2", "n3"):
            self.change(name, lambda n: n["spec"].update(unschedulable=True))
        rows = [re.split("  +", line) for line in self.says("status").splitlines()[1:]]
        self.assertEqual([row[2] for row in rows], ["True, cordoned", "False, cordoned, unfit", "-, cordoned"])
        self.assertEqual([row[5] for row in rows], ["-", "-", "-"])

    def test_running_drain(self) -> None:
        """It has a drain status and no condition yet; what has the condition is over."""
        status = '{"id":"i","source":"requested","phase":"%s","deadline":%s,"total":%s,"remaining":%s,"blocked":[%s],"updated":"NOW"}'
        ahead, past = stamp(time.time() + 600), stamp(time.time() - 600)
        status = status.replace("NOW", stamp(time.time()))
        running = status % ("Evicting", f'"{ahead}"', 12, 3, '"shop/db-0","shop/db-1"')
        self.node("n1", **{STATUS_KEY: running})
        self.node("n2", **{STATUS_KEY: status % ("Cordoned", "null", "null", "null", "")})
        self.node("n3", condition("Drained", "True", "NodeDrained", "No pods remaining"), **{STATUS_KEY: running})
        self.node("n4", **{STATUS_KEY: "{"})
        ended = '{"source":"requested","phase":"Evicting","deadline":"%s","total":12,"remaining":3}' % past
        self.node("n5", **{STATUS_KEY: ended})  # by a daemon that has ended, or that says what it does
        begin = time.time()
        self.clock(begin)
        just = stamp(begin - 5)
        self.node("n9", **{STATUS_KEY: ended.replace(past, just)})
        self.node("n8", **{STATUS_KEY: ended[:-1] + ',"updated":"' + stamp(time.time()) + '"}'})
        self.node("n6", **{STATUS_KEY: status % ("Failed", f'"{past}"', 12, 3, "")})
        self.node("n7", **{STATUS_KEY: running.replace('"updated"', '"hook":"nodeclaimd-pre-drain.target","updated"')})
        self.assertEqual(self.drains(),
                         [f"Evicting: 3 of 12 pods remain, blocked: shop/db-0, shop/db-1, the node ends at {ahead}", "Cordoned", "NodeDrained: No pods remaining", "-",
                          f"Evicting: 3 of 12 pods remain, deadline passed: {past}; nodeclaimd does not answer: see why", "Failed: 3 of 12 pods remain",
                          f"Evicting: 3 of 12 pods remain, blocked: shop/db-0, shop/db-1, waits for nodeclaimd-pre-drain.target, the node ends at {ahead}",
                          f"Evicting: 3 of 12 pods remain, deadline passed: {past}", f"Evicting: 3 of 12 pods remain, deadline passed: {just}"])  # fmt: skip

    def test_how_old_it_is(self) -> None:
        """What a node wrote stays when the node or its daemon is silent; a cordon, a report and what is over change no more."""
        then = stamp(time.time() - 95)
        status = '{"source":"request",%s"phase":"%s","total":2,"remaining":1,"updated":"' + then + '"}'
        silent = {**condition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting"), "lastTransitionTime": then}
        asks = {REQUEST_KEY: '{"mode":"graceful"}'}
        self.node("n1", silent, **{STATUS_KEY: status % ("", "Evicting")}, **asks)
        self.node("n2", **{STATUS_KEY: (status % ("", "Evicting")).replace(then, stamp(time.time() - 70))}, **asks)
        self.node("n3", **{STATUS_KEY: status % ("", "Cordoned"), REQUEST_KEY: '{"mode":"cordon"}'})
        self.node("n4", **{STATUS_KEY: status % ('"policy":"report",', "Detected")}, **asks)
        self.node("n5", **{STATUS_KEY: status % ("", "Failed")})
        self.node("n6", condition("Ready", "Unknown", "NodeStatusNeverUpdated"))
        refused = (status % ("", "Detected")).replace('"updated"', '"cordon":"refused","updated"')
        self.node("n7", **{STATUS_KEY: refused}, **asks)
        self.change("n7", lambda n: n["spec"].pop("unschedulable"))
        said = self.says("status")
        self.assertRegex(said, f"n1 +- +Unknown since {then}, cordoned .* Evicting: 1 of 2 pods remain; nodeclaimd does not answer since {then}: see why\n")
        self.assertRegex(said, "n6 +- +Unknown +-")
        self.assertEqual(said.count("does not answer"), 2, said)
        self.assertIn(f" NOT cordoned, so nothing is evicted; Detected: 1 of 2 pods remain; nodeclaimd does not answer since {then}: see why, cordon refused\n", said)
        self.assertRegex(said, "n2 .* Evicting: 1 of 2 pods remain, last word 7[0-9] s ago\n")
        self.node("n8", **{STATUS_KEY: (status % ("", "Evicting")).replace(then, stamp(time.time() - 5))}, **asks)
        self.assertRegex(self.says("status", "n8"), " Evicting: 1 of 2 pods remain\n$")
        said = self.says("why", "n1")
        self.assertIn(f"  Ready=Unknown NodeStatusUnknown since {then}: Kubelet stopped posting\n", said)
        self.assertIn(f"  Evicting: 1 of 2 pods remain; nodeclaimd does not answer since {then}\n", said)

    def test_how_old_it_is_under_a_deadline(self) -> None:
        """90 seconds are most of the time: how old the last word is stands there before, without a verdict."""
        status = '{"source":"spot","phase":"Evicting","deadline":"%s","total":2,"remaining":1,"updated":"%s"}'
        now = time.time()
        self.clock(now)
        for name, ends, ago in (("n1", 100, 40), ("n2", 200, 40), ("n3", 20, 95), ("n4", 100, -60), ("n5", -5, 40), ("n6", -6, 40)):
            self.node(name, **{STATUS_KEY: status % (stamp(now + ends), stamp(now - ago))})
        said = self.drains()
        self.assertRegex(said[0], "^Evicting: 1 of 2 pods remain, last word 4[0-9] s ago, the node ends at 2")
        self.assertRegex(said[2], "^Evicting: 1 of 2 pods remain, the node ends at 2[^;]*; nodeclaimd does not answer since 2[^ ]*: see why$")
        self.assertRegex(said[4], "^Evicting: 1 of 2 pods remain, last word 4[0-9] s ago, deadline passed: 2")
        self.assertRegex(said[5], "^Evicting: 1 of 2 pods remain, deadline passed: 2[^;]*; nodeclaimd does not answer since 2[^ ]*: see why$")
        self.assertRegex(said[1], "^Evicting: 1 of 2 pods remain, last word 4[0-9] s ago, the node ends at 2")
        self.assertRegex(said[3], "^Evicting: 1 of 2 pods remain, the node ends at 2")  # a clock that is ahead of this one
        self.assertRegex(self.says("why", "n1"), "  Evicting: 1 of 2 pods remain, last word 4[0-9] s ago, the node ends at")
        look = "\n  the last word is 4[0-9] s old, and nodeclaimd writes each minute: it need not have ended; on the node, systemctl status nodeclaimd and nodeclaimd status say whether it runs and reaches the API server\n"
        self.assertRegex(self.says("why", "n1"), look)
        self.node("n7", **{STATUS_KEY: status % (stamp(now + 100), stamp(now - 4))})
        self.node("n8", **{STATUS_KEY: status.replace('"%s"', "null", 1) % stamp(now - 62)})
        self.node("n9", **{STATUS_KEY: status.replace('"%s"', "null", 1) % stamp(now - 70)})
        self.assertEqual(["it writes each minute" in self.says("why", name) for name in ("n7", "n8", "n9")], [False, False, True])

    def test_why_nobody_answers(self) -> None:
        """Who ends the pods then, and what a person can do; nothing promises what a daemon that runs does."""
        ago, ahead, past = (stamp(time.time() + sec) for sec in (-95, 600, -600))
        held = '"total":2,"remaining":1,"blocked":["shop/a"],"reasons":["budget"],"updated":"' + ago + '"}'
        ends = "\n  nodeclaimd, which writes each minute, has ended there or does not reach the API server, and ends no pod; "
        deleted, machine = {"deletionTimestamp": ago}, provider_id("i-1")
        karpenter = "Karpenter, whose NodeClaim is being deleted, evicts them as budgets allow, and deletes none, as its NodeClaim has no termination timestamp. "
        for i, (source, deadline, claim, says) in enumerate((
            ("spot", f'"{ahead}"', deleted, f"{karpenter}What is left ends with the machine, which EC2 ends at {ahead}\n"),
            ("spot", f'"{past}"', {}, f"nobody else does. What is left ends with the machine, which EC2 ends any moment, as {past} has passed\n"),
            ("request", f'"{ahead}"', {"finalizers": ["nodeclaimd.io/termination"], **deleted}, "nobody else does. What is left stays until somebody ends it\n"),
            ("request", "null", {}, "nobody else does. What is left stays until somebody ends it\n"),
        )):  # fmt: skip
            name = f"n{i}"
            self.node(name, claim=f"c{i}", **{STATUS_KEY: f'{{"source":"{source}","phase":"Evicting","deadline":{deadline},{held}', REQUEST_KEY: '{"id":"a"}'})
            self.claim(f"c{i}", name, **claim)
            self.change(name, lambda n: n["spec"].update(providerID=machine if name == "n0" else "x;y"))
            said = self.says("why", name, "--as=me")
            self.assertIn(ends + says, said)
            session = f", over aws ssm start-session --region us-west-2 --target {machine.rpartition('/')[2]}" if i == 0 else ""
            self.assertIn(f"\n  on the node{session}: nodeclaimd status says which of both. Where it has ended, systemctl restart nodeclaimd goes on with the drain; where it does not reach the API server, that does not help: see what fails there\n", said)
            self.assertNotRegex(said, "has written nothing for|the last word is")
            self.assertIn(f"\n  without it: kubectl drain {name} --ignore-daemonsets --delete-emptydir-data --as=me evicts, and asks budgets; kubectl delete pod asks none, ", said)
            self.assertIn("\n  kubectl -n shop get pdb --as=me: one that allows no disruption", said)
            self.assertNotRegex(said, "nothing need be done|--deadline=10m")
        self.assertIn(f"blocked: shop/a (budget), deadline {ahead}; nodeclaimd does not answer since {ago}: see why", self.says("status", "n2"))
        self.change("n3", lambda n: n["spec"].pop("unschedulable"))
        self.assertNotIn("lets it go on", self.says("why", "n3"))
        self.api.server.faults[:] = [Fault("status", path="/nodeclaims", status=403)]
        self.assertIn("ends no pod; whether Karpenter does is not known. ", self.run_plugin("why", "n0")[1])

    def test_a_force_delete_time_passes(self) -> None:
        """The daemon writes at each such time: one that passed without a word tells that it does not answer, long before a minute is over."""
        begin = time.time()
        self.clock(begin)
        ago, due, ahead, late, just = (stamp(begin + sec) for sec in (-40, -6, 300, -5, -1))
        status = f'{{"source":"spot","phase":"Evicting","deadline":"{ahead}","blocked":["shop/a","shop/b"],"reasons":["stuck","budget"],"forceDeleteAt":["","%s"],"updated":"%s"}}'
        for name, at, updated in (("n1", due, ago), ("n2", due, due), ("n3", ahead, ago), ("n4", late, ago)):
            self.node(name, **{STATUS_KEY: status % (at, updated)})
        silent = f"; nodeclaimd does not answer since {ago}: see why"
        drains = self.drains()
        self.assertEqual([d.endswith(silent) for d in drains], [True, False, False, False], drains)
        self.assertRegex(drains[0], r"^Evicting, blocked: shop/a \(stuck\), shop/b \(budget, force-delete time (\S+T)?[0-9:]{8}Z\), ")
        said = self.says("why", "n1")
        self.assertIn("has ended there or does not reach the API server", said)
        self.assertIn(f"\n  shop/b was to be deleted at {due}, and the node has not reported that\n", said)
        self.node("n6", **{STATUS_KEY: status % (just, ago)})
        self.assertEqual(["nothing need be done" in self.says("why", name) for name in ("n1", "n2", "n3", "n4", "n6")], [False, True, True, False, False])
        self.node("n5", **{STATUS_KEY: (status % (due, ago)).replace('"deadline"', '"policy":"cordon","deadline"')})
        self.assertNotIn("does not answer", self.drains()[4])

    def test_why_a_pod_does_not_end(self) -> None:
        """By the pods themselves, whatever the daemon wrote, and only of a node that drains or is cordoned."""
        self.api.kubelet.running = False
        past, ahead = stamp(time.time() - 40), stamp(time.time() + 60)
        self.node("n1", **{STATUS_KEY: '{"source":"spot","phase":"Evicting"}'})
        self.pod("a", 0, ends=past, finalizers=["example.com/b", "example.com/a"])
        self.pod("b", 30, ends=past)
        self.pod("c", 30, ends=past, finalizers=["example.com/a"])
        self.pod("d", 30, ends=past, finalizers=["example.com/a"], phase="Succeeded")
        self.pod("e", 60, ends=ahead, finalizers=["example.com/a"])
        self.pod("f", 0, finalizers=["example.com/a"])
        self.assertIn(f"\nPods of Node n1 that are ending\n  shop/a: was to end by {past}, has ended, held by finalizer example.com/b example.com/a\n"
                      f"  shop/b: was to end by {past}, kubelet has not reported its end\n"
                      f"  shop/c: was to end by {past}, kubelet has not reported its end, held by finalizer example.com/a\n"
                      f"  shop/d: was to end by {past}, has ended, held by finalizer example.com/a\n"
                      f"  shop/e: ends by {ahead}\n"
                      "  a finalizer: see the log of the controller that owns it. Removing it by hand loses what it protects; the end of the machine or of the Node does not remove it\n"
                      "  kubelet: on the node, journalctl -u kubelet -u containerd\n", self.says("why", "n1"))  # fmt: skip
        self.api.server.faults[:] = [Fault("status", path="/pods", status=403)]
        self.refuses(1, "could not be read, for the reason above: Pods of Node n1 that are ending\n", "why", "n1")
        self.api.server.faults.clear()
        self.change("n1", lambda n: n["metadata"].update(annotations={}))
        self.assertIn("that are ending", self.says("why", "n1"))
        self.change("n1", lambda n: n["spec"].update(unschedulable=False))
        self.assertNotIn("that are ending", self.says("why", "n1"))
        withdrawn = {**condition("InterruptionPending", "False", "InterruptionWithdrawn"), "lastTransitionTime": past}
        self.change("n1", lambda n: n["status"].update(conditions=[withdrawn]))
        self.assertIn(f"withdrawn at {past}\nPods of Node n1 that are ending\n  shop/a: was to end by ", self.says("why", "n1"))

    def test_why_pods_are_cut_short(self) -> None:
        """Nothing else in the cluster names them while they end."""
        self.api.kubelet.running = False
        ahead, later = stamp(time.time() + 60), stamp(time.time() + 90)
        self.node("n1", **{STATUS_KEY: '{"source":"spot","phase":"Evicting"}'})
        for i in range(10):
            self.pod(f"z{i}", 60, ends=later)
        self.pod("cut", 60, ends=ahead, deletionGracePeriodSeconds=18)
        self.pod("done", 60, phase="Failed", ends=ahead, finalizers=["example.com/a"])
        said = self.says("why", "n1")
        self.assertIn(f"\nPods of Node n1 that are ending\n  shop/cut: ends by {ahead}, with 18 of its 60 s\n  shop/z0: ends by {later}\n", said)
        self.assertIn(f"\n  shop/z8: ends by {later}\n  and 1 more\nAnnotations of Node", said)

    def test_pods_that_a_cancel_does_not_save(self) -> None:
        self.api.kubelet.running = False
        ahead = stamp(time.time() + 60)
        self.node("n1")
        for i in range(6):
            self.pod(f"a{i}", 60, ends=ahead)
        self.pod("stays", 60)
        self.says("drain", "n1")
        named = "".join(f"  shop/a{i}, by {ahead}\n" for i in range(5))
        said = self.says("drain", "--cancel", "n1")
        self.assertTrue(said.endswith(f"kubectl uncordon lifts it\nthese pods end all the same:\n{named}  and 1 more\n"), said)
        self.says("drain", "n1")
        self.api.server.faults[:] = [Fault("status", path="/pods", status=403)]
        said = self.says("drain", "--cancel", "n1")
        self.assertTrue(said.endswith("\nwhich pods end all the same is not known: the pods could not be listed\n"), said)

    def test_withdrawn_where_nobody_answers(self) -> None:
        """The daemon has ended: what it wrote of a request that is gone says nothing any more."""
        status = '{"id":"i","source":"%s","phase":"Evicting","deadline":null,"total":2,"remaining":1,"updated":"' + stamp(time.time() - 60) + '"}'
        self.node("n1", **{STATUS_KEY: status % "request"})
        self.node("n2", **{STATUS_KEY: status % "operator"})
        self.assertRegex(self.drains()[0], "^Evicting: 1 of 2 pods remain, last word 6[0-9] s ago, withdrawn, and not taken back: does nodeclaimd run there[?]$")
        undrain = "; requested on the machine: there, nodeclaimd undrain takes it back"
        self.assertRegex(self.drains()[1], f"^Evicting: 1 of 2 pods remain, last word 6[0-9] s ago{undrain}$")
        self.assertIn(f" s ago{undrain}\n", self.says("why", "n2"))
        blocked = (status % "request").replace('"updated"', '"blocked":["shop/a"],"reasons":["budget"],"updated"')
        for name in ("n3", "n4"):
            self.node(name, **{STATUS_KEY: blocked})
        self.change("n4", lambda n: n["spec"].pop("unschedulable"))
        for name in ("n3", "n4"):
            said = self.says("why", name, "--context=k")
            self.assertIn(f"\n  where it does not run: kubectl uncordon {name} --context=k; kubectl annotate node {name} nodeclaimd.io/cordon- nodeclaimd.io/drain-status- --context=k; "
                          f"kubectl label node {name} node.kubernetes.io/exclude-from-external-load-balancers- --context=k\n", said)  # fmt: skip
            self.assertNotRegex(said, "pdb|--deadline|lets it go on")

    def test_conditions_that_are_refused(self) -> None:
        status = '{"id":"i","source":"spot","phase":"Evicting","deadline":null,"total":2,"remaining":1}'
        self.node("n1", **{STATUS_KEY: status})
        self.node("n2", condition("InterruptionPending", "True", "SpotInterruption"), **{STATUS_KEY: status})
        self.node("n3", condition("Ready", "True", "KubeletReady"))
        for name in ("n1", "n2", "n3"):
            self.assertEqual("and no condition: these are refused" in self.says("why", name), name == "n1", name)

    def test_a_node_that_is_being_deleted(self) -> None:
        self.node("n1", condition("Ready", "True", "KubeletReady"))
        self.change("n1", lambda n: n["metadata"].update(deletionTimestamp=stamp(time.time()), finalizers=["a/b"]))
        self.assertRegex(self.says("status"), "n1 +- +True, being deleted +")

    def test_more_than_are_named(self) -> None:
        self.node("n1", **{STATUS_KEY: '{"source":"spot","phase":"Evicting","total":9,"remaining":7,"blocked":["a/b","a/c"],"more":5,'
                                       '"reasons":["refused","deletion"]}'})  # fmt: skip
        self.assertEqual(self.drains(), ["Evicting: 7 of 9 pods remain, blocked: a/b (refused), a/c (deletion refused) and 5 more, no deadline"])

    def test_why_has_each_event_once(self) -> None:
        self.node("n1", condition("Ready", "True", "KubeletReady"), claim="c1")
        self.claim("c1", "n1")
        for kind, name in (("Node", "n1"), ("NodeClaim", "c1")):
            self.event(kind, name, "DrainStarted", "Evicting pods", at="2026-11-28T12:00:00Z")
        for name in ("n1", "c1"):
            self.assertEqual(self.says("why", name).count("DrainStarted"), 1, name)
            self.assertNotIn("Events of NodeClaim", self.says("why", name))
        self.event("NodeClaim", "c1", "DisruptionBlocked", "no budget", at="2026-11-28T12:00:01Z")
        self.assertIn("Events of NodeClaim c1\n  2026-11-28T12:00:01Z Warning DisruptionBlocked: no budget\n", self.says("why", "n1"))

    def test_why_has_the_words_of_status(self) -> None:
        status = '{"id":"i","source":"request","phase":"%s","deadline":null,"total":12,"remaining":3,"blocked":["shop/db-0"]}'
        self.node("n1", claim="c1", **{STATUS_KEY: status % "Evicting"})
        self.claim("c1", "n1")
        said = "Drain of Node n1\n  %sEvicting: 3 of 12 pods remain, blocked: shop/db-0, no deadline\nAnnotations of Node n1\n"
        self.assertIn(said % "", self.says("why", "n1"))
        self.assertIn(said % "", self.says("why", "c1"))
        self.change("n1", lambda n: n["spec"].pop("unschedulable"))
        helps = "  kubectl cordon n1 --context=k lets it go on, and kubectl uncordon lifts it afterwards; kubectl nodeclaim drain --cancel n1 --context=k takes it back\n"
        self.assertIn(said.replace("Annotations", helps + "Annotations") % "NOT cordoned, so nothing is evicted; ", self.says("why", "n1", "--context=k"))
        self.node("n2", **{STATUS_KEY: status % "VolumeWait"})
        self.assertIn("blocked: shop/db-0, may wait for volumes or drain.linger\n", self.says("why", "n2"))
        self.node("n3", **{REQUEST_KEY: "{}"})
        asked = "Drain of Node n3\n  requested, no answer seen; on the node, nodeclaimd status says why\n"
        self.assertIn(asked, self.says("why", "n3"))
        self.assertIn(asked.partition("  ")[2], self.says("status", "n3"))
        self.api.server.faults[:] = [Fault("status", path="/events", status=403)]
        self.assertIn("  requested, whether it was refused could not be read\n", self.run_plugin("why", "n3")[1])
        self.api.server.faults.clear()
        self.event("Node", "n3", "DrainRequestRefused", "annotation nodeclaimd.io/drain-request: drain request: no id; the request is ignored")
        self.assertIn("  requested, refused: the Event DrainRequestRefused says why\n", self.says("why", "n3"))
        self.node("n5", **{STATUS_KEY: status % "Evicting", REQUEST_KEY: '{"id":"b"}'})
        for command in ("why", "status"):
            self.assertIn(", no deadline; another is requested, no answer seen; on the node, nodeclaimd status says why\n", self.says(command, "n5"))
        named = (status % "Evicting").replace('"shop/db-0"]', '"shop/db-0", "shop/a"],"reasons":["budget", "stuck"]')
        self.node("n4", **{STATUS_KEY: named})
        self.assertIn("blocked: shop/db-0 (budget), shop/a (stuck), no deadline\n", self.says("why", "n4"))

    def test_why_a_budget_does_not_end(self) -> None:
        """What helps, without a guess which budget it is."""
        blocked = '"blocked":["shop/db-0", "a/b", "shop/db-1", "c/d", "E;x/f"],"reasons":["budget", "budgets", "budget", "stuck", "budget"]}'
        for i, (deadline, request, deletes) in enumerate((("null", '{"id":"kubectl-1"}', True), ("null", '{"id":"claim-u"}', False), ('"2099-01-01T00:00:00Z"', "", None))):
            self.node(f"n{i}", **{REQUEST_KEY: request, STATUS_KEY: '{"source":"spot","phase":"Evicting","deadline":%s,"total":9,"remaining":5,%s' % (deadline, blocked)})
            said = self.says("why", f"n{i}", "--as=me")
            self.assertIn("\n  kubectl -n a get pdb --as=me: more than one selects a pod, and the API server evicts no such pod: delete one, or narrow its selector, so that each pod has one budget\n"
                          "  kubectl -n shop get pdb --as=me: one that allows no disruption keeps the pods; "
                          "mend pods that it covers and that are not Ready, or else scale up what it covers, or lower its minAvailable or raise its maxUnavailable (0 there: scaling does not help)\n", said)
            self.assertEqual("\n  while nodeclaimd runs there and reaches the API server, nothing need be done: each pod is deleted in time for its grace period by the deadline. What lets them go before that:\n" in said, deletes is None, said)
            self.assertEqual("\n  kubectl delete pod asks no budget" in said, deletes is not None, said)
            self.assertEqual(f"and may take the last healthy pod; nor does kubectl nodeclaim drain n{i} --deadline=10m --as=me, which with --dry-run only says which pods it would delete, and when\n" in said, bool(deletes), said)
        self.node("n4", **{STATUS_KEY: '{"phase":"Evicting","blocked":["shop/a"],"reasons":["stuck"]}'})
        self.assertNotIn(" pdb", self.says("why", "n4"))
        self.node("n5", **{STATUS_KEY: '{"phase":"Failed","deadline":"2026-01-01T00:00:00Z","blocked":["shop/a","b/c"],"reasons":["budget","deletion"]}'})
        self.assertNotRegex(said := self.says("why", "n5"), "nothing need be done|journalctl")
        self.assertIn("the deadline has passed: the Event DrainFailed has what is left, and why\n", said)
        self.node("n6", **{STATUS_KEY: '{"source":"spot","phase":"Failed","deadline":"2126-01-01T00:00:00Z","total":2,"remaining":1,"blocked":[]}'})
        self.assertIn("  Failed: 1 of 2 pods remain, the node ends at 2126-01-01T00:00:00Z\n  nothing more fits before the deadline: the Event DrainFailed has", self.says("why", "n6"))

    def test_why_evictions_are_refused(self) -> None:
        status, helps = '{"phase":"Evicting","blocked":["shop/a"],"reasons":["%s"]}', "\n  what is refused: RBAC or an admission webhook or policy; the Event DrainBlocked has the answer"
        rules = ('{apiGroups: [""], resources: [pods/eviction], verbs: [create]}', '{apiGroups: [""], resources: [pods], verbs: [delete]}')
        for name, reason, has_rules in (("n1", "refused", [True, False]), ("n2", "deletion", [False, True]), ("n3", "budget", [False, False]), ("n6", 'refused","deletion', [True, True])):
            self.node(name, **{STATUS_KEY: status % reason})
            said = self.says("why", name)
            self.assertEqual([rule in said for rule in rules], has_rules, said)
            self.assertEqual("\n  at once, with rights of yours: kubectl -n shop delete pod a, which asks no budget\n" in said, any(has_rules), said)
            for part in (helps, ", and the runbook NodeclaimdEvictionsRefused (docs/runbooks.md) what helps against each\n",
                         f"\n  where it says User \"system:node:...\" cannot, and NodeRestriction is enabled: a ClusterRole bound to the group system:nodes, with {' and '.join(r for r, has in zip(rules, has_rules) if has)}\n"):  # fmt: skip
                self.assertEqual(part in said, any(has_rules), said)
        self.node("n4", **{STATUS_KEY: status % "failed"})
        self.assertIn("\n  what fails: most often an admission webhook that does not answer, see kubectl get validatingwebhookconfigurations; ", self.says("why", "n4"))
        self.node("n5", **{STATUS_KEY: '{"source":"request","phase":"Failed"}', REQUEST_KEY: "{}"})
        self.assertIn("; the request goes on without a deadline; kubectl annotate node n5 nodeclaimd.io/drain-request- removes it\n", self.says("why", "n5"))

    def test_why_evictions_get_no_time(self) -> None:
        """They are in no list of blocked pods: the Event alone says so, where it is of this drain."""
        now, said = time.time(), []
        status = '{"source":"request","phase":"%s","deadline":null,"total":1,"remaining":1,"blocked":[%s],"reasons":[],"updated":"%s"}'
        for name, phase, blocked, ago in (("n1", "Evicting", "", 9), ("n2", "Evicting", "", 90), ("n3", "Drained", "", 9), ("n4", "Evicting", '"shop/b"', 9)):
            self.node(name, {**condition("InterruptionPending", "True", "Requested"), "lastTransitionTime": stamp(now - 60)}, created=stamp(now - 900), **{STATUS_KEY: status % (phase, blocked, stamp(now))})
            self.event("Node", name, "DrainBlocked", "Pod shop/a may not leave: the API server has no time for its eviction: 'slow down'; waiting without end since x", at=stamp(now - ago))
            said.append("\n  the API server answers evictions with 429, and that is no budget's answer (Event DrainBlocked): they are tried again. Where it lasts, see its flow control, kubectl get flowschemas, " in self.says("why", name))
        self.assertEqual(said, [True, False, False, False])

    def test_why_deletions_are_refused(self) -> None:
        """Only Events say so before the deadline: those of pods that still block this drain. What the API server fails at is no matter of RBAC."""
        now, rule = time.time(), '{apiGroups: [""], resources: [pods], verbs: [delete]}'
        status = '{"source":"spot","phase":"Forcing","deadline":"%s","blocked":["shop/a"],"reasons":["%s"],"forceDeleteAt":["%s"],"updated":"%s"}'
        blocked = "Pod shop/%s may not leave: its deletion is refused: %s; it is tried again each second"
        since = {"lastTransitionTime": stamp(now - 60)}
        for name, reason, pod, message, ago, says in (  # the rule, what fails, that it is deleted in time
            ("n1", "refused", "a", "'pods \"x\" is forbidden'", 9, [True, False, False]),
            ("n2", "refused", "b", "'pods \"x\" is forbidden'", 9, [False, False, True]),
            ("n3", "refused", "a", "'pods \"x\" is forbidden'", 90, [False, False, True]),
            ("n4", "deletion", "a", "'Internal error occurred: x'", 9, [False, True, False]),
            ("n5", "budget", "a", "'pods \"x\" is forbidden'", 9, [True, False, False]),
        ):  # fmt: skip
            self.node(name, {**condition("InterruptionPending", "True", "SpotInterruption"), **since}, created=stamp(now - 900), **{STATUS_KEY: status % (stamp(now + 300), reason, stamp(now + 200), stamp(now))})
            self.event("Node", name, "DrainBlocked", blocked % (pod, message), at=stamp(now - ago))
            said = self.says("why", name)
            self.assertEqual([rule in said, "what fails: most often" in said, "deleted in time" in said], says, said)
            self.assertFalse("deleted in time" in said and "at once, with rights of yours" in said, said)
        self.event("Node", "n3", "DrainBlocked", "Pod shop/a may not leave: its deletion failed: '500'", at=stamp(now))
        self.assertEqual(["what fails: most often" in (said := self.says("why", "n3")), "deleted in time" in said], [True, False], said)

    def test_events_of_another_deadline(self) -> None:
        """The deadline moved, and nothing was reported since: the time that an Event says is none any more."""
        told, moved = "2026-11-30T23:17:30Z", "2026-11-30T23:36:32Z"
        status = '{"source":"request","phase":"Evicting","deadline":%s,"blocked":["shop/a","shop/b"],"reasons":["budget","budget"]%s}'
        self.claim("c1", "n1")
        for name, times, mark in (("n1", f',"forceDeleteAt":["{moved}","{told}"]', f"it is {moved} now"), ("n2", "", "no deadline is in force now")):
            self.node(name, claim="c1" if name == "n1" else "", created="2026-11-30T23:00:00Z", **{STATUS_KEY: status % (f'"{moved}"' if times else "null", times)})
            for kind, about in (("Node", name), ("NodeClaim", "c1"))[: 2 if times else 1]:
                self.event(kind, about, "DrainBlocked", f"Pod shop/a may not leave: PodDisruptionBudget db: 'x'; it is deleted at {told}", at="2026-11-30T23:16:56Z")
            self.event("Node", name, "DrainBlocked", f"Pod shop/b may not leave: busy; its force-delete time is {told}; mend it", at="2026-11-30T23:16:57Z")
            self.event("Node", name, "DrainBlocked", f"Pod shop/c may not leave: PodDisruptionBudget db: 'x'; it is deleted at {told}", at="2026-11-30T23:16:58Z")
            said = self.says("why", name)
            self.assertIn(f"; it is deleted at {told} (of before: {mark})\n", said)
            self.assertIn(f"; mend it{'' if times else f' (of before: {mark})'}\n", said)
            self.assertEqual((said.count("of before"), "Events of NodeClaim" in said), (1 if times else 2, False), said)

    def test_why_a_cordon_is_refused(self) -> None:
        """The one command that helps, for whoever asked for the drain."""
        status = '{"id":"a","source":"%s","phase":"%s","deadline":%s,"cordon":"refused"}'
        ahead = stamp(time.time() + 600)
        undrain = "; requested on the machine: there, nodeclaimd undrain takes it back"
        for i, (source, phase, deadline, said, helps) in enumerate((
            ("request", "Detected", "null", "NOT cordoned, so nothing is evicted; Detected, cordon refused", "lets it go on, and kubectl uncordon lifts it afterwards; kubectl nodeclaim drain --cancel %s takes it back"),
            ("operator", "Evicting", "null", f"NOT cordoned, so nothing is evicted; Evicting, cordon refused{undrain}", "lets it go on, and kubectl uncordon lifts it afterwards"),
            ("spot", "VolumeWait", f'"{ahead}"', f"VolumeWait, waits for the cordon, the node ends at {ahead}, cordon refused", "keeps new pods off a machine that ends; kubectl uncordon lifts it afterwards"),
        )):  # fmt: skip
            name = f"n{i}"
            self.node(name, **{STATUS_KEY: (status % (source, phase, deadline)).replace('"a"', '"kubectl-1"'), REQUEST_KEY: '{"id":"kubectl-1","mode":"graceful"}'})
            self.change(name, lambda n: n["spec"].pop("unschedulable"))
            self.assertIn(f"  {said}\n  kubectl cordon {name} {helps.replace('%s', name)}\nAnnotations", self.says("why", name))

    def test_why_a_cordon_is_lifted_under_a_deadline(self) -> None:
        """The daemon sets it once more, and then no more: new pods come to a machine that ends."""
        ahead = stamp(time.time() + 600)
        status = '{"source":"spot","phase":"Evicting","deadline":"%s","blocked":["shop/a"],"reasons":["budget"],"updated":"%s"}' % (ahead, stamp(time.time()))
        advice = "\n  kubectl cordon n1 --context=k keeps new pods off a machine that ends; kubectl uncordon lifts it afterwards\n"
        self.node("n1", **{STATUS_KEY: status})
        for is_cordoned in (True, False):
            self.change("n1", lambda n: n["spec"].update(unschedulable=is_cordoned))
            said = self.says("why", "n1", "--context=k")
            self.assertEqual((advice in said, "nothing else need be done" in said, "nothing need be done" in said), (not is_cordoned, not is_cordoned, is_cordoned), said)

    def test_why_do_not_disrupt_keeps_pods(self) -> None:
        """Without a deadline for ever, and only the annotation is to go; what a node writes is no command."""
        status = '{"source":"request","phase":"Evicting","deadline":%s,"blocked":["shop/a","b/c","shop/d.1","-n/e","f/g;x","h/-A"],"reasons":["do-not-disrupt","budget","do-not-disrupt","do-not-disrupt","do-not-disrupt","do-not-disrupt"]}'
        for name, deadline in (("n1", "null"), ("n2", '"2099-01-01T00:00:00Z"')):
            self.node(name, **{STATUS_KEY: status % deadline, REQUEST_KEY: '{"id":"kubectl-1"}'})
            said = self.says("why", name, "--as=me")
            self.assertIn("\n  kubectl -n shop annotate pod a d.1 karpenter.sh/do-not-disrupt- --as=me: without the annotation that keeps them they are evicted\n  kubectl -n b get pdb --as=me: ", said)
            self.assertEqual(said.count(" annotate pod "), 1, said)
        self.node("n3", **{STATUS_KEY: '{"source":"operator","phase":"Evicting","blocked":["shop/a"],"reasons":["do-not-disrupt"]}'})
        self.assertIn("\n  kubectl delete pod asks no budget, and may take the last healthy pod; nor does kubectl nodeclaim drain n3 --deadline=10m", self.says("why", "n3"))

    def test_why_nothing_is_left_but_the_cordon(self) -> None:
        """At the deadline, where the node was never cordoned: no pod is to be looked for."""
        status = '{"source":"spot","phase":"Failed","total":2,"remaining":%d%s}'
        for name, left, more, helps in (("n1", 0, ',"cordon":"refused"', [True, False]), ("n2", 0, "", [True, False]), ("n3", 1, ',"cordon":"refused"', [True, True]), ("n4", 1, "", [False, True])):
            self.node(name, **{STATUS_KEY: status % (left, more)})
            self.change(name, lambda n: n["spec"].pop("unschedulable"))
            said = self.says("why", name)
            self.assertEqual([f"\n  kubectl cordon {name} keeps new pods off" in said, "the deadline has passed: " in said], helps, said)

    def test_who_writes_the_node(self) -> None:
        """Of a request that comes back, and of a cordon that somebody lifted; not of one that is withdrawn."""
        text = "A drain of this node was requested: put back with the same id after it was withdrawn"
        withdrawn = condition("InterruptionPending", "False", "InterruptionWithdrawn")
        requested = condition("InterruptionPending", "True", "Requested", "A drain of this node was requested")
        for name, state, reason, is_said in (("n1", {**requested, "message": text}, "Requested", 1), ("n2", requested, "Requested", 0), ("n3", withdrawn, "InterruptionWithdrawn", 0), ("n4", requested, "NodeUncordoned", 1), ("n5", {**withdrawn, "message": "Node released: somebody else had lifted the cordon"}, "NodeReleased", 1),
                                              ("n6", {**requested, "message": "The cordon was lifted while the node has a deadline: it was set once more"}, "NodeCordoned", 1)):  # fmt: skip
            self.node(name, state)
            self.event("Node", name, reason, state["message"])
            said = self.says("why", name, "--context=k")
            self.assertEqual(said.count(f"\n  who writes the Node: kubectl get node {name} -o yaml --show-managed-fields --context=k\n"), is_said, said)

    def test_a_request_that_is_put_back(self) -> None:
        """GitOps writes it again after a cancel, which is no advice then: by the node's own words, or by who applies the annotation."""
        pending = condition("InterruptionPending", "True", "Requested", "A drain of this node was requested; put back with the same id after it was withdrawn")
        status = '{"source":"request","phase":"%s","cordon":"refused"}'

        def manage(name: str, manager: str, operation: str, key: str = REQUEST_KEY) -> None:
            fields = {"f:metadata": {"f:annotations": {".": {}, f"f:{key}": {}}}}
            self.change(name, lambda n: n["metadata"].update(managedFields=[
                {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {}}},
                {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}]))  # fmt: skip

        source = "remove it from what %s, or it is put back"
        line = "\n  the request: %s; then here: %s\n"
        for name, conditions, manager, says in (
            ("n1", [], None, ""),
            ("n2", [pending], None, source % "it is applied from"),
            ("n3", [], ("argocd-controller", "Apply"), source % "argocd-controller applies"),
            ("n4", [], ("kubectl-annotate", "Update"), ""),
            ("n5", [], ("argocd-controller", "Apply", "other"), ""),
            ("n6", [pending], ("argo\x1bcd", "Update"), source % r"argo\x1bcd writes"),
        ):  # fmt: skip
            cancel = f"kubectl nodeclaim drain --cancel {name} --context=k takes it back"
            self.node(name, *conditions, **{REQUEST_KEY: '{"id":"kubectl-1","mode":"graceful"}'})
            if manager:
                manage(name, *manager)
            for phase in ("Detected", "Failed"):
                self.change(name, lambda n: n["metadata"]["annotations"].update({STATUS_KEY: status % phase}))
                self.change(name, lambda n: n["spec"].update(unschedulable=phase == "Failed"))
                said = self.says("why", name, "--context=k")
                self.assertEqual((line % (says, cancel) in said if says else "put back" not in said, f"; {cancel}\n" in said), (True, not says), said)
            self.assertEqual(f"; argocd-controller applies it: {source % 'that applies'}\n" in self.says("drain", "--cancel", name), name == "n3", name)
        self.node("n7", **{REQUEST_KEY: '{"id":"gitops-1","mode":"graceful"}'})
        manage("n7", "argocd-controller", "Apply")
        self.refuses(1, f"removes it; argocd-controller applies it: {source % 'that applies'}\n", "drain", "--cancel", "n7")
        self.change("n7", lambda n: n["metadata"]["annotations"].update({STATUS_KEY: '{"id":"gitops-1","source":"request","phase":"Evicting"}'}))
        self.assertIn(line % (source % "argocd-controller applies", "kubectl annotate node n7 nodeclaimd.io/drain-request- removes it"), self.says("why", "n7"))

    def test_drain_without_a_cordon(self) -> None:
        """Whoever lifted it, and whether the drain is over or not; a condition that is False hides no drain."""
        status = '{"id":"a","source":"operator",%s"phase":"%s","deadline":null,"total":2,"remaining":1,"blocked":[]}'
        left, drained = condition("Drained", "False", "PodsLeft", "no longer"), condition("Drained", "True", "NodeDrained", "No pods remaining")
        self.node("n1", left, **{STATUS_KEY: status % ("", "Failed")})
        self.node("n2", left, **{STATUS_KEY: status % ("", "VolumeWait")})
        self.node("n3", drained, **{STATUS_KEY: status % ("", "Drained")})
        self.node("n4", **{STATUS_KEY: status % ('"policy":"cordon",', "Cordoned")})
        self.node("n5", **{STATUS_KEY: status % ('"policy":"report",', "Detected")})
        self.node("n6", drained)
        self.node("n7", condition("Drained", "False", "NodeReleased"), **{REQUEST_KEY: '{"id":"b"}'})
        for name in ("n1", "n2", "n3", "n4", "n5"):
            self.change(name, lambda n: n["spec"].pop("unschedulable"))
        said = [drain.removesuffix("; requested on the machine: there, nodeclaimd undrain takes it back") for drain in self.drains()]
        self.assertEqual(said[:6], ["Failed: 1 of 2 pods remain, NOT cordoned", "VolumeWait: 1 of 2 pods remain, waits for the cordon, NOT cordoned",
                                    "NodeDrained: No pods remaining, NOT cordoned", "Cordoned, cordon only: 1 of 2 pods remain, NOT cordoned",
                                    "Detected, report only by drain.mode: 1 of 2 pods remain", "NodeDrained: No pods remaining, NOT cordoned"])  # fmt: skip
        self.assertRegex(said[6], "^requested, ")
        self.assertIn("Volumes attached to n2\n  none: the drain waits for the cordon: ", self.says("why", "n2"))
        self.node("n8", **{REQUEST_KEY: '{"id":"a","mode":"graceful"}', STATUS_KEY: status % ("", "VolumeWait")})
        self.change("n8", lambda n: n["spec"].pop("unschedulable"))
        self.refuses(1, "VolumeWait: 1 of 2 pods remain, waits for the cordon, NOT cordoned (", "drain", "n8", "--wait", "--timeout=0s")
        self.change("n8", lambda n: n["metadata"]["annotations"].update({STATUS_KEY: status % ("", "Detected")}))  # it is refused
        self.refuses(1, "Detected: 1 of 2 pods remain, NOT cordoned (why: ", "drain", "n8", "--wait", "--timeout=0s")
        self.assertIn("  Detected: 1 of 2 pods remain, NOT cordoned; requested on the machine: there, nodeclaimd undrain takes it back\n", self.says("why", "n8"))
        self.refuses(1, "node n6 is not drained after 0s", "drain", "n6", "--wait", "--timeout=0s")  # back in service without its daemon

    def test_configuration_allows_less(self) -> None:
        """A drain that drain.mode forbids is not one that is about to begin."""
        status = '{"id":"kubectl-1","source":"%s",%s"phase":"%s","deadline":null,"total":null,"remaining":null,"blocked":[]}'
        for name, source, policy, phase, mode in (("n1", "request", '"policy":"report",', "Detected", "graceful"),
                                                  ("n2", "request", '"policy":"cordon",', "Cordoned", "graceful"),
                                                  ("n3", "request", '"policy":"cordon",', "Cordoned", "cordon"),  # no less than was requested
                                                  ("n4", "request", '"policy":"report",', "Detected", "cordon"),
                                                  ("n5", "rebalance", '"policy":"report",', "Detected", ""),  # by interruption.rebalance
                                                  ("n6", "operator", '"policy":"cordon",', "Cordoned", ""),  # perhaps of its own --mode cordon
                                                  ("n7", "request", "", "Detected", "graceful")):  # fmt: skip
            annotations = {STATUS_KEY: status % (source, policy, phase)}
            if mode:
                annotations[REQUEST_KEY] = '{"id":"kubectl-1","mode":"%s"}' % mode
            self.node(name, condition("InterruptionPending", "True", "Requested"), **annotations)
        self.assertEqual(self.drains(),
                         ["Detected, report only by drain.mode", "Cordoned, cordon only by drain.mode", "Cordoned", "Detected, report only by drain.mode",
                          "Detected, report only", "Cordoned, cordon only; requested on the machine: there, nodeclaimd undrain takes it back", "Detected"])  # fmt: skip

    def test_drain_that_others_disturb(self) -> None:
        """Somebody lifted the cordon; another request came, and is not in force; a request is taken back, and another source's drain goes on."""
        status = '{"id":"a","source":"%s","phase":"Evicting","deadline":null,"total":2,"remaining":1,"blocked":[]}'
        self.node("n1", **{STATUS_KEY: status % "request", REQUEST_KEY: '{"id":"b","mode":"graceful"}'})
        self.assertRegex(self.says("status", "n1"), r" Evicting: 1 of 2 pods remain; another is requested, no answer seen; ")
        self.event("Node", "n1", "DrainRequestRefused", "annotation nodeclaimd.io/drain-request: drain request b: no; the one before it goes on")
        self.assertRegex(self.says("status", "n1"), r" remain; another is requested, refused: see why\n$")
        self.node("n2", **{STATUS_KEY: status % "operator"})
        self.change("n2", lambda n: n["spec"].pop("unschedulable"))
        self.assertRegex(self.says("status", "n2"), r" 1 of 2 pods remain, NOT cordoned; requested on the machine: there, nodeclaimd undrain takes it back\n$")
        self.says("drain", "n2")
        self.assertEqual(self.says("drain", "n2", "--cancel"), "the request is withdrawn: a drain that was requested on the machine goes on: there, nodeclaimd undrain ends it\n")
        self.refuses(1, "node n2 has no drain request; a drain that was requested on the machine goes on: there, nodeclaimd undrain ends it\n", "drain", "n2", "--cancel")
        final = "; a deletion cannot be taken back, nor what drains for it\n"
        self.node("n5", **{STATUS_KEY: status % "deletion"})
        self.refuses(1, "node n5 has no drain request" + final, "drain", "n5", "--cancel")
        self.assertIn("\n  Evicting: 1 of 2 pods remain" + final, self.says("why", "n5"))
        self.assertNotIn("; a deletion", self.says("why", "n1") + self.says("status", "n5"))
        self.node("n4", **{REQUEST_KEY: '{"id":"kubectl-1","mode":"deadline","deadline":"2026-11-28T12:00:09Z"}'})
        self.event("Node", "n4", "DrainRequestRefused", "annotation nodeclaimd.io/drain-request: drain request kubectl-1: deadline")
        self.assertIn("the former request is replaced", self.run_plugin("drain", "n4")[2])
        self.node("n3", **{REQUEST_KEY: ""})
        self.says("drain", "n3")
        self.assertIn("graceful", self.request("n3"))

    def test_the_way_out(self) -> None:
        """Of a request of somebody else, that was refused or is to be withdrawn: what is named is done here."""
        for name, args, says in (("n1", (), "drain request claim-u: late; the request is ignored; "), ("n2", ("--cancel",), "another one's: {")):
            self.node(name, **{REQUEST_KEY: '{"id":"claim-u","mode":"graceful"}'})
            self.event("Node", name, "DrainRequestRefused", "annotation nodeclaimd.io/drain-request: drain request claim-u: late; the request is ignored")
            self.refuses(1, says, "drain", name, *args)
            _, _, command = self.run_plugin("drain", name, "--context=k", *args)[2].rpartition("kubectl annotate")
            command, _, _ = command.partition(" removes it")
            done = self.run_plugin("annotate", *command.split(), name="kubectl")
            self.assertEqual((done[0], "--context=k" in command, self.request(name)), (0, True, ""), done)

    def test_what_a_node_lacks(self) -> None:
        self.node("n1", condition("Ready", "True", "KubeletReady"), condition("InterruptionNoticesUnavailable", "True", "NoAnswer"), **{REQUEST_KEY: "{}"})
        self.change("n1", lambda n: n["spec"].update(taints=[{"key": "nodeclaimd.io/unfit", "effect": "NoSchedule"}]))
        self.assertRegex(self.says("status", "n1"), r"n1 +- +True, unfit +- +notices unavailable +requested, no answer seen; on the node, nodeclaimd status says why\n$")
        refusal = "annotation nodeclaimd.io/drain-request: drain request%s: no; the request is ignored"
        self.event("Node", "n1", "DrainRequestRefused", refusal % " of-before")
        self.assertRegex(self.says("status", "n1"), r" requested, no answer seen; ")
        self.event("Node", "n1", "DrainRequestRefused", refusal % "")
        self.assertRegex(self.says("status", "n1"), r" requested, refused: see why\n$")
        self.node("n2", condition("InterruptionPending", "True", "SpotInterruption"), condition("InterruptionNoticesUnavailable", "True", "NoAnswer"))
        self.assertRegex(self.says("status", "n2"), r" SpotInterruption, notices unavailable +-\n$")

    def test_refused_unread(self) -> None:
        """The daemon could read no id of the request: what it says is of that request alone that it cannot read."""
        said = "annotation nodeclaimd.io/drain-request: drain request: JSON: no; the request is ignored"
        unread = ("graceful", '{"id":"a","mode":"graceful","mode":"deadline"}', '{"id":"a","mode":"graceful",}', '{"id":5,"mode":"graceful"}',
                  '{"id":"a","mode":"graceful"} x', '{"id":"%s"}' % ("a" * 65), '{"id":"a","reason":"%s"}' % ("a" * 4096), '{"id":"a"')  # fmt: skip
        readable = (r'{ "id" : "a", "mode":"graceful","reason":"a \"mode\": b, \\" , "deadline" : null}', '{"id":"a","mode":"graceful"}\n')
        for i, request in enumerate((*unread, *readable)):
            self.node(f"n{i}", **{REQUEST_KEY: request})
            self.event("Node", f"n{i}", "DrainRequestRefused", said)
        rows = self.says("status").splitlines()
        self.assertEqual([row.endswith("requested, refused: see why") for row in rows[1:]], [True] * len(unread) + [False] * len(readable), rows)
        self.assertRegex(self.says("status", "n0"), "requested, refused: see why\n$")
        self.refuses(1, f"{said}; kubectl annotate node n1 ", "drain", "n1", "--wait")

    def test_claims_and_no_node(self) -> None:
        self.claim("c1", "", condition("Launched", "True", "Launched"), NOT_FOUND)
        self.claim("c2", "", condition("Launched", "Unknown", "LaunchFailed"), condition("Registered", "Unknown", "AwaitingReconciliation"), instance="")
        self.claim("c3")
        waiting = condition("Launched", "Unknown", "AwaitingReconciliation", "object is awaiting reconciliation")
        self.claim("c4", "", waiting, instance="")
        self.claim("c5", "", condition("Launched", "Unknown", "LaunchFailed", "no subnet: " + "x" * 300), instance="")
        self.claim("c6", "", condition("Launched", "True", "Launched"), {**waiting, "type": "Registered"})
        rows = [line.split() for line in self.says("status", "--context=k").splitlines() if line]
        self.assertEqual([row[0] for row in rows], ["NODE", "NODECLAIM", "c1", "c2", "c3", "c4", "c5", "c6"])
        for row, says in zip(rows[2:], (MUTE, "Launched=Unknown LaunchFailed; kubectl nodeclaim why ", MUTE, "no instance is launched yet; kubectl nodeclaim why ",
                                        f"no subnet: {'x' * 189}... (Launched=Unknown LaunchFailed); kubectl nodeclaim why ", MUTE)):  # fmt: skip
            self.assertEqual(" ".join(row[4:]), f"{says}{row[0]} --context=k")
        self.api.server.faults[:] = [Fault("status", path="/events", status=403)]
        self.assertRegex(self.run_plugin("status")[1], "no Node has registered yet; kubectl nodeclaim why c1\n")

    def test_claims_whose_node_was_deleted(self) -> None:
        """A Node of other labels, and one that came between two lists, are there."""
        self.node("n1", claim="c1")
        self.claim("c1", "n1")
        self.claim("c2", "n2", instance="i-2")
        self.event("Node", "n2", "NodeDeletedInDrain", "its pods are still evicted")
        self.event("NodeClaim", "c2", "BootstrapFailed", "of the boot before")
        for args in (("status",), ("status", "-l", "karpenter.sh/nodepool=default")):
            rows = [re.split("  +", line) for line in self.says(*args).splitlines() if line]
            self.assertEqual([row[0] for row in rows], ["NODE", "n1", "NODECLAIM WITHOUT A NODE", "c2"])
            self.assertEqual(rows[3][3:], [provider_id("i-2"), "its Node n2 was deleted: 40 to 80 s later its pods are, too, without grace period; kubectl nodeclaim why c2"])
        self.assertEqual(self.says("status", "-l", "a=b").count("c1"), 0)
        for name in ("c2", "n2"):
            said = self.says("why", name)
            self.assertIn("NodeDeletedInDrain", said)
            self.assertIn("Node n2 was deleted, and its NodeClaim was not: the machine may still run. There, systemctl restart kubelet registers it again, without drain request and cordon; "
                          "kubectl delete nodeclaim c2 ends it at once, without a drain, and with it the pods that a budget keeps. Its console: aws ec2 get-console-output --latest --output text --region us-west-2 --instance-id i-", said)  # fmt: skip

    def test_a_node_that_is_gone(self) -> None:
        """Which of its pods end, when, and what keeps them: by its own Event or kube-controller-manager's, and where neither is there, too."""
        at = round(time.time()) - 10
        ends = "\n  kube-controller-manager deletes them %s, without grace period, and asks no budget; before that, on the machine, systemctl restart kubelet registers the Node again, without drain request and cordon, and keeps them\n"
        known = ends % f"between {stamp(at + 40)} and {stamp(at + 80)}"
        self.pod("ended", 30, phase="Succeeded")
        self.refuses(1, "there is neither a NodeClaim nor a Node n1", "why", "n1")
        for i in range(11):
            self.pod(f"a{i:02}", 30)
        self.pod("daemon", 30, "DaemonSet")
        named = "Pods of Node n1, which is gone\n" + "".join(f"  shop/a{i:02}\n" for i in range(10)) + "  and 1 more"
        self.assertTrue(self.says("why", "n1").startswith(named + ends % "40 to 80 s after it was deleted"), self.says("why", "n1"))
        self.event("Node", "n1", "Other", "NodeDeletedInDrain: x", at=stamp(at + 7))
        self.event("Node", "n1", "RemovingNode", "Node n1 event: Removing Node n1 from Controller", count=2, at=stamp(at))
        self.assertIn(named + known, self.says("why", "n1"))
        asked, undrain = "A drain was requested on this machine; policy=drain", "before that, on the machine, nodeclaimd undrain, as the drain was requested there and goes on otherwise, and then systemctl restart kubelet"
        for ago, reason, message, is_needed in ((9, "Requested", asked, True), (8, "InterruptionWithdrawn", "interruption notice withdrawn: spot", True), (7, "InterruptionWithdrawn", "interruption notice withdrawn: operator; evicted: 1", False)):
            self.event("Node", "n1", reason, message, at=stamp(at - ago))
            self.assertEqual(undrain in self.says("why", "n1"), is_needed)
        self.claim("c1", "n1")
        for name in ("n1", "c1"):
            said = self.says("why", name)
            self.assertIn(named + known, said)
            self.assertEqual(said.count("RemovingNode"), 1, said)
        self.api.server.faults[:] = [Fault("status", path="/pods", status=403)]
        self.refuses(1, "could not be read, for the reason above: Pods of Node n1, which is gone\n", "why", "n1")
        self.refuses(1, "there is no such Node: n1; of one that was deleted, or of a NodeClaim: kubectl nodeclaim why n1\n", "status", "n1")
        self.refuses(1, "there is no Node n1, and its drain request went with it; which of its pods end, when, and what keeps them: kubectl nodeclaim why n1 --context=k\n", "drain", "--cancel", "n1", "--context=k")

    def test_a_node_that_is_gone_under_a_notice(self) -> None:
        """Nothing brings its pods to live longer than the machine, and a Node that comes back takes new ones."""
        at = round(time.time()) - 10
        ends = {name: stamp(at + sec) for name, sec in (("n1", 30), ("n2", 90), ("n3", 30), ("n4", 30))}
        spot, reboot = "EC2 interrupts this spot instance (terminate) at %s; policy=drain", "EC2 has scheduled maintenance of this instance (system-reboot) at %s; policy=drain"
        for name, reason, message in (("n1", "SpotInterruption", spot), ("n2", "SpotInterruption", spot), ("n3", "ScheduledMaintenance", reboot), ("n4", "SpotInterruption", spot)):
            self.claim(f"c-{name}", name, instance=f"i-{name[1]}")
            self.pod("a", 30, node=name, space=f"of-{name}")
            self.event("Node", name, reason, message % ends[name], at=stamp(at - 60))
        self.event("Node", "n4", "InterruptionWithdrawn", "interruption notice withdrawn: spot", at=stamp(at - 50))
        for name in ends:
            self.event("Node", name, "NodeDeletedInDrain", "x", at=stamp(at))
            said = self.says("why", name)
            alone, both = f"\n  they end with the machine, which EC2 ends at {ends[name]}\n", f"without grace period, and asks no budget; EC2 ends the machine at {ends[name]}\n"
            last = f"and its NodeClaim was not: EC2 ends the machine at {ends[name]}. Do not register it again, as new pods would come to it; kubectl delete nodeclaim c-{name} ends it at once"
            self.assertEqual([part in said for part in (alone, both, last, "systemctl restart kubelet")], [name == "n1", name == "n2", name in ("n1", "n2"), name in ("n3", "n4")], said)

    def test_cancel_on_a_node_that_is_being_deleted(self) -> None:
        """The finalizer holds it: Karpenter drains it, and the cordon stays."""
        at, final = stamp(time.time()), "a deletion cannot be taken back, nor what drains for it\n"
        self.node("n1", **{REQUEST_KEY: '{"id":"kubectl-1","mode":"graceful"}'})
        self.change("n1", lambda n: n["metadata"].update(deletionTimestamp=at, finalizers=["a/b", KARPENTER]))
        self.assertEqual(self.says("drain", "--cancel", "n1"), f"the request is withdrawn: the Node is being deleted since {at}: {final}")
        self.refuses(1, f"node n1 has no drain request; the Node is being deleted since {at}: {final}", "drain", "--cancel", "n1")

    def test_claims_whose_boot_failed(self) -> None:
        """Also by the Event of a node that may not read its NodeClaim, which has the Node's name; the last one counts."""
        self.claim("c1", "", NOT_FOUND)
        self.claim("c2", "", NOT_FOUND, instance="i-2")
        self.claim("c3", "", NOT_FOUND, instance="i-3")
        self.claim("c4", "", NOT_FOUND, instance="")
        self.event("NodeClaim", "c1", "BootstrapFailed", "imds: " + "x" * 300)
        self.event("Node", "ip-10-0-0-9", "BootstrapFailed", "start: kubelet\nc3\texits", instance=provider_id("i-2"))
        self.event("Node", "c3", "BootstrapFailed", "of another instance")
        self.event("NodeClaim", "c3", "SpotInterruption", "of another kind")
        why = [re.split("  +", line)[4] for line in self.says("status").splitlines()[3:]]
        self.assertEqual(why, ["imds: " + "x" * 194 + "...; kubectl nodeclaim why c1", r"start: kubelet\nc3\texits", f"{MUTE}c3",
                               f"{MUTE}c4"])  # fmt: skip

    def test_without_karpenter(self) -> None:
        self.api.karpenter_version = ""
        self.node("n1")
        self.assertEqual(len(self.says("status").splitlines()), 2)
        self.assertIn("no annotation", self.says("why", "n1"))

    def test_no_answer(self) -> None:
        """What could not be read is not taken for absent."""
        self.api.server.refuse()
        for args in (("status",), ("why", "n1"), ("drain", "n1"), ("drain", "--cancel", "n1")):
            code, out, err = self.run_plugin(*args)
            self.assertEqual((code, out, "there is" in err), (1, "", False), args)
            self.assertIn("refused", err)

    def test_a_part_has_no_answer(self) -> None:
        """Neither are Nodes absent where Events cannot be read, nor NodeClaims where the API server is overloaded."""
        self.node("n1", **{REQUEST_KEY: "{}"})
        self.claim("c1")
        for path, args in (("/events", ("status",)), ("/apis(/karpenter.sh)?$", ("why", "c1")), ("/apis(/karpenter.sh)?$", ("status",))):
            self.api.server.faults[:] = [Fault("status", path=path, status=500)]
            code, out, err = self.run_plugin(*args)
            self.assertEqual((code, "neither" in err), (1, False), f"{args}: {out}{err}")

    def test_what_a_person_may_not_read(self) -> None:
        """The rest is shown; what is missing is named, and not taken for absent."""
        self.node("n1", condition("Ready", "True", "KubeletReady"), claim="c1", **{REQUEST_KEY: '{"id":"claim-u","mode":"graceful"}'})
        self.claim("c1", "n1", condition("Registered", "True", "Registered"))
        self.claim("c2", "", NOT_FOUND)
        self.event("Node", "n1", "EvictionBlocked", "shop/db-0: budget db")
        conditions, events = "Conditions of %s\n", "Events of Node n1\n"
        claim, node = conditions % "NodeClaim c1", conditions % "Node n1"
        for path, args, shown, hidden, lacks in (
            ("/nodeclaims", ("why", "n1"), (node, events), (claim,), "Conditions of NodeClaim c1"),
            ("/nodeclaims", ("why", "c1"), (), (), "NodeClaim c1"),
            ("/nodes", ("why", "n1"), (events,), (node,), "Node n1"),
            ("/nodes", ("why", "c1"), (claim, events), (node, "annotation"), "Conditions of Node n1"),
            ("/nodes", ("why", "c2"), (conditions % "NodeClaim c2", "No Node has registered. Karpenter deletes the NodeClaim at 20"), (), ""),
            ("/events", ("why", "n1"), (claim, node, "drain-request: {"), (events,), "Events of Node n1; Events of NodeClaim c1"),
            ("/events", ("status",), ("n1 ", "c2 ", "requested, whether it was refused could not be read\n"), (), "Events in the namespace default"),
            ("/nodeclaims", ("status",), ("n1 ",), ("NODECLAIM",), "NodeClaims"),
            ("/nodes", ("status",), ("c2 ",), ("NODEPOOL  READY",), "Nodes"),
            ("/events", ("drain", "n1"), ("requested already, ", "; whether the node refused it could not be read\n"), (), ""),
        ):  # fmt: skip
            self.api.server.faults[:] = [Fault("status", path=path, status=403)]
            code, out, err = self.run_plugin(*args)
            last = f"\nkubectl nodeclaim: could not be read, for the reason above: {lacks}\n"
            self.assertEqual((code, err.endswith(last)), (1, True) if lacks else (0, False), f"{path} {args}: {out}{err}")
            self.assertEqual([part for part in shown if part not in out] + [part for part in hidden if part in out], [], f"{path} {args}: {out}{err}")
            self.assertNotRegex(out + err, "[Tt]here is|no annotation")
        self.refuses(1, "whether the node refused it could not be read; the request stays", "drain", "n1", "--wait", "--timeout=0s")

    def test_why_there_is_no_node(self) -> None:
        self.claim("c1", "", condition("Launched", "True", "Launched"), NOT_FOUND)
        self.event("NodeClaim", "c1", "BootstrapFailed", "preflight: certificate signed by unknown authority", count=3)
        self.event("NodeClaim", "another", "BootstrapFailed", "not of this one")
        text = self.says("why", "c1")
        for part in ("Registered=Unknown NodeNotFound: Node not registered with cluster", "Warning BootstrapFailed x3: preflight: certificate signed",
                     "aws ec2 get-console-output --latest --output text --region us-west-2 --instance-id " + provider_id("i-1").rpartition("/")[2]):
            self.assertIn(part, text)
        self.assertNotIn("not of this one", text)
        self.event("Node", "ip-10-0-0-9", "BootstrapFailed", "start: kubelet exits", instance=provider_id("i-1"))
        self.event("Node", "ip-10-0-0-8", "BootstrapFailed", "not of this one", instance=provider_id("i-2"))
        self.assertIn("Failed boots of this instance\n", self.says("why", "c1"))
        self.assertIn("Warning BootstrapFailed: start: kubelet exits", self.says("why", "c1"))
        self.assertNotIn("not of this one", self.says("why", "c1"))
        self.assertIn("There is no Node or NodeClaim of this name any more, or not yet.", self.says("why", "ip-10-0-0-9"))
        self.assertIn("start: kubelet exits", self.says("why", "ip-10-0-0-9"))  # it has no Node, and no NodeClaim is known
        self.assertNotIn("The node has reported nothing", self.says("why", "c1"))
        self.claim("c2", "", instance="")
        self.assertIn("no instance for it yet", self.says("why", "c2"))
        self.refuses(1, "neither a NodeClaim nor a Node c9", "why", "c9")

    def test_why_a_node_is_mute(self) -> None:
        """When Karpenter ends the wait is a time that comes, and what is usual is said where the node says nothing."""
        now = round(time.time())
        for name, age, says in (("c1", 60, f"Karpenter deletes the NodeClaim at {stamp(now + 840)}, 15 minutes after its creation. Its console: aws "),
                                ("c2", 1200, f"The NodeClaim is older than 15 minutes, and Karpenter is due to delete it since {stamp(now - 300)}. Its console: aws ")):  # fmt: skip
            self.claim(name, "", NOT_FOUND, creationTimestamp=stamp(now - age))
            said = self.says("why", name)
            self.assertIn(f"No Node has registered. {says}", said)
            self.assertIn("\nThe node has reported nothing. Usual causes: it does not know its cluster (invalid user data, IMDS disabled), cannot reach", said)

    def test_whether_others_are_mute(self) -> None:
        """What all share is the cause, or what one has alone."""
        now = round(time.time())
        old, young = stamp(now - 4000), stamp(now - 300)
        registered, said = condition("Registered", "True", "Registered"), "Of the other NodeClaims of NodePool default that were created in the last hour, "
        self.claim("c1", "", NOT_FOUND)
        self.claim("old", "", registered, creationTimestamp=old)
        self.claim("far", "", registered, labels={"karpenter.sh/nodepool": "far"})
        self.assertNotIn("Of the other", self.says("why", "c1"))
        self.claim("c2", "", NOT_FOUND, creationTimestamp=young)
        self.claim("c3", "", instance="", creationTimestamp=young)
        self.assertIn(f"\n{said}0 of 2 have registered: see what all share, as user data, route and certificateAuthority\n", self.says("why", "c1"))
        self.claim("c4", "", registered, creationTimestamp=young)
        self.assertIn(f"\n{said}1 of 3 have registered, the last one created at {young}: see what this one has alone, ", self.says("why", "c1"))
        self.event("NodeClaim", "c1", "BootstrapFailed", "preflight: x")
        self.assertNotIn("Of the other", self.says("why", "c1"))

    def test_why_the_next_one_fails_alike(self) -> None:
        alike = ("\nThe error is in the user data: the next NodeClaim fails alike until that is corrected where they come from, mostly the EC2NodeClass. "
                 "kubectl delete nodeclaim %s then saves the rest of the wait\n")  # fmt: skip
        self.claim("c1", "", NOT_FOUND)
        self.event("NodeClaim", "c1", "BootstrapFailed", "config: user-data part 1 (application/node.eks.aws):24:16: spec.kubelet.config.maxPods: must be an integer")
        self.claim("c2", "", NOT_FOUND, instance="i-2")
        self.event("Node", "ip-10-0-0-9", "BootstrapFailed", "userdata: user-data part 1: no document", instance=provider_id("i-2"))
        self.claim("c3", "", NOT_FOUND, instance="i-3")
        self.event("NodeClaim", "c3", "BootstrapFailed", "preflight: certificate signed by unknown authority")
        self.assertEqual([alike % name in self.says("why", name) for name in ("c1", "c2", "c3")], [True, True, False])

    def test_why_karpenter_waits(self) -> None:
        """No time-out ends a node that has registered and is never initialized."""
        registered = condition("Registered", "True", "Registered")
        for i, (conditions, more, waits) in enumerate((
            ((registered, condition("Initialized", "Unknown", "NodeNotReady", "Node status is NotReady")), {}, True),
            ((registered, condition("Initialized", "True", "Initialized")), {}, False),
            ((registered, condition("Initialized", "Unknown", "Rebooting")), {}, False),
            ((NOT_FOUND, condition("Initialized", "Unknown", "NodeNotFound")), {}, False),
            ((registered, condition("Initialized", "Unknown", "NodeNotReady")), {"deletionTimestamp": stamp(time.time())}, False),
        )):  # fmt: skip
            self.node(f"n{i}", condition("Ready", "False", "KubeletNotReady"), claim=f"c{i}")
            self.claim(f"c{i}", f"n{i}", *conditions, **more)
            self.assertEqual(f"\nNodeClaim c{i} is not initialized, and Karpenter has no time-out for that: " in self.says("why", f"n{i}"), waits, i)

    def test_why_a_node_stays(self) -> None:
        self.node("n1", condition("Drained", "False", "Draining", "1 pod is blocked"), claim="c1", **{STATUS_KEY: r'{"phase":"a \"b"}', "other": "x"})
        self.claim("c1", "n1", condition("Registered", "True", "Registered"))
        self.event("Node", "n1", "EvictionBlocked", "shop/db-0: budget db")
        for name in ("n1", "c1"):
            text = self.says("why", name)
            for part in ("Conditions of NodeClaim c1", "Drained=False Draining: 1 pod is blocked", STATUS_KEY + r': {"phase":"a \"b"}', "EvictionBlocked: shop/db-0: budget db"):
                self.assertIn(part, text)
            self.assertNotIn("other: x", text)
            self.assertNotIn("no annotation", text)
        self.node("n2", condition("Ready", "False", "KubeletNotReady"), claim="gone")  # a finalizer holds the Node
        self.assertIn("Ready=False", self.says("why", "n2"))
        self.node("n3")
        self.assertEqual(self.says("why", "n3"), "nodeclaimd has written no annotation, condition or Event of Node n3: it may not be allowed to write there, or is not in its image. "
                         "On the node: nodeclaimd status\n")  # fmt: skip
        self.event("Node", "n3", "Rebooted", "of kubelet")
        self.assertIn("no annotation", self.says("why", "n3"))
        self.event("Node", "n3", "NodeReleased", "Node uncordoned", source="nodeclaimd")
        self.assertNotIn("no annotation", self.says("why", "n3"))

    def test_why_of_a_name_that_was_used_before(self) -> None:
        """Events stay when their Node is deleted."""
        self.event("Node", "n1", "DrainFailed", "of before")
        self.api.put("nodes", {"metadata": {"name": "n1", "creationTimestamp": stamp(time.time() + 60)}, "status": {}})
        self.assertIn("DrainFailed: of before (older than this Node)\n", self.says("why", "n1"))
        self.node("n2")
        self.event("Node", "n2", "DrainFailed", "of now")
        self.assertIn("DrainFailed: of now\n", self.says("why", "n2"))

    def test_why_after_a_withdrawal(self) -> None:
        """The daemon removes its annotations; its conditions stay."""
        withdrawn = {**condition("InterruptionPending", "False", "InterruptionWithdrawn"), "lastTransitionTime": "2026-11-29T11:58:00Z"}
        self.node("n1", withdrawn)
        said = self.says("why", "n1")
        self.assertIn("Drain of Node n1\n  none: the last interruption was withdrawn at 2026-11-29T11:58:00Z\n", said)
        self.assertNotIn("no annotation", said)
        self.node("n4", withdrawn, claim="c4")
        self.claim("c4", "n4", condition("Registered", "True", "Registered"), deletionTimestamp="2026-11-29T11:57:00Z")
        said = self.says("why", "n4")  # Karpenter ends a claim that is deleted, whatever was withdrawn
        self.assertIn("Conditions of NodeClaim c4\n  being deleted since 2026-11-29T11:57:00Z, held by karpenter.sh/termination: "
                      "its instance will be terminated\n  Registered=True", said)  # fmt: skip
        self.assertIn("withdrawn at", said)
        self.change("n1", lambda n: n["metadata"].update(deletionTimestamp="2026-11-29T11:59:00Z", finalizers=[KARPENTER]))
        self.assertIn("Conditions of Node n1\n  being deleted since 2026-11-29T11:59:00Z, held by karpenter.sh/termination: Karpenter evicts its pods as budgets allow, "
                      "deletes what is left by the termination timestamp of its NodeClaim, if it has one, and then ends its instance\n", self.says("why", "n1"))  # fmt: skip
        self.change("n4", lambda n: n["metadata"].update(deletionTimestamp="2026-11-29T11:59:00Z", finalizers=[KARPENTER]))
        self.assertIn(": Karpenter evicts its pods as budgets allow, deletes none, as its NodeClaim has no termination timestamp, and then ends its instance\n", self.says("why", "n4"))
        self.change("c4", lambda c: c["spec"].update(terminationGracePeriod="1h"), "nodeclaims")
        self.assertIn(", deletes what is left 1h after the deletion of its NodeClaim (terminationGracePeriod), and then ends its instance\n", self.says("why", "n4"))
        self.node("n6", withdrawn, claim="c6")
        self.claim("c6", "n6", deletionTimestamp="2026-11-29T11:57:00Z", annotations={"karpenter.sh/nodeclaim-termination-timestamp": "2026-11-29T12:57:00Z"})
        self.change("n6", lambda n: n["metadata"].update(deletionTimestamp="2026-11-29T11:59:00Z", finalizers=[KARPENTER]))
        said = self.says("why", "n6")
        self.assertIn("its instance will be terminated, its pods are deleted by 2026-11-29T12:57:00Z\n", said)
        self.assertIn(": Karpenter evicts its pods as budgets allow, deletes what is left by 2026-11-29T12:57:00Z, and then ends its instance\n", said)
        self.node("n2", withdrawn, **{STATUS_KEY: '{"source":"operator","phase":"Cordoned"}'})
        self.node("n5", withdrawn, **{STATUS_KEY: '{"source":"operator","phase":"Evicting","updated":"2026-11-29T11:57:59Z"}'})  # its release is refused
        self.assertIn("was withdrawn at 2026-11-29T11:58:00Z, but what nodeclaimd wrote is not taken back yet; cordoned by another client: ", self.says("why", "n5"))
        self.assertRegex(self.says("status", "n5"), r" withdrawn, but not taken back: see why\n$")
        self.node("n3", withdrawn, **{REQUEST_KEY: '{"id":"a"}'})
        for name in ("n2", "n3"):
            self.assertNotIn("withdrawn at", self.says("why", name))

    def test_why_a_cordon_stays_after_a_withdrawal(self) -> None:
        withdrawn = {**condition("InterruptionPending", "False", "InterruptionWithdrawn"), "lastTransitionTime": "2026-11-29T11:58:00Z"}
        said = "; cordoned by another client: kubectl uncordon %s lifts it\n"
        for name, is_cordoned, annotations in (("n1", True, {}), ("n2", False, {}), ("n3", True, {"nodeclaimd.io/cordon": "{}"})):
            self.node(name, withdrawn, **annotations)
            self.change(name, lambda n: n["spec"].update(unschedulable=is_cordoned))
            self.assertEqual(said % name in self.says("why", name), name == "n1", name)
        key = "aws-node-termination-handler/spot-itn"
        self.change("n1", lambda n: n["spec"].update(taints=[{"key": "other", "effect": "NoSchedule"}, {"key": key, "effect": "NoSchedule"}]))
        self.assertIn(f"kubectl uncordon n1 --as=me lifts it, and kubectl taint node n1 {key}- --as=me the taint that came with it\n", self.says("why", "n1", "--as=me"))

    def test_why_a_release_is_refused(self) -> None:
        """What is left is its own cordon, with or without its other words: one command of a person takes back that, and nodeclaimd the rest."""
        since = "2026-11-29T11:58:00Z"
        withdrawn = {**condition("InterruptionPending", "False", "InterruptionWithdrawn"), "lastTransitionTime": since}
        status = '{"source":"request","phase":"Evicting","updated":"2026-11-29T11:57:59Z"}'
        helps = "; nodeclaimd lifts its cordon as soon as it may: where that is refused (Event ReleaseRefused), kubectl uncordon %s --context=k lifts it, and nodeclaimd takes back the rest\n"
        none = f"none: the last interruption was withdrawn at {since}"
        for name, conditions, annotations, is_cordoned, begins in (
            ("n1", [withdrawn], {}, True, none),
            ("n2", [withdrawn], {STATUS_KEY: status}, True, none + ", but what nodeclaimd wrote is not taken back yet"),
            ("n3", [], {}, True, "none"),  # its conditions were refused, too
            ("n4", [], {}, False, ""),
            ("n5", [], {REQUEST_KEY: '{"id":"a"}'}, True, ""),
            ("n6", [], {STATUS_KEY: "{"}, True, ""),
        ):  # fmt: skip
            self.node(name, *conditions, **{"nodeclaimd.io/cordon": "{}", **annotations})
            self.change(name, lambda n: n["spec"].update(unschedulable=is_cordoned))
            said = self.says("why", name, "--context=k")
            self.assertEqual((f"Drain of Node {name}\n  {begins}{helps % name}" in said, "its cordon" in said), (begins != "",) * 2, said)

    def volume(self, name: str, node: str, meta: dict[str, Any], **status: Any) -> None:
        spec = {"attacher": "ebs.csi.aws.com", "nodeName": node, "source": {"persistentVolumeName": f"pv-{name}"}}
        self.api.put("volumeattachments", {"metadata": {"name": name, **meta}, "spec": spec, "status": status})

    def test_why_volumes_stay(self) -> None:
        """Pods are gone and the drain goes on: only the VolumeAttachments say why."""
        status = '{"id":"i","source":"request","phase":"%s","deadline":null,"total":2,"remaining":0,"blocked":[]%s}'
        self.node("n1", **{STATUS_KEY: status % ("VolumeWait", "")})
        self.assertIn("Volumes attached to n1\n  none: ", self.says("why", "n1"))
        self.volume("csi-1", "n1", {"finalizers": ["x"], "deletionTimestamp": "2026-11-28T12:00:09Z"}, attached=True, detachError={"message": "instance\nEvents of Node n1\tis busy"})
        self.volume("csi-2", "n1", {}, attached=False)
        self.volume("csi-3", "n2", {}, attached=True)
        self.api.put("volumeattachments", {"metadata": {"name": "csi-4"}, "spec": {"attacher": "x", "nodeName": "n1", "source": {}}})
        self.assertRegex(self.says("status", "n1"), r" VolumeWait: 0 of 2 pods remain, may wait for volumes or drain.linger: see why\n$")
        text = self.says("why", "n1")
        self.assertIn("Volumes attached to n1\n  csi-1: pv-csi-1 of ebs.csi.aws.com, attached, detach requested 2026-11-28T12:00:09Z: instance\\nEvents of Node n1\\tis busy\n"
                      "  csi-2: pv-csi-2 of ebs.csi.aws.com\n  csi-4: - of x\n", text)
        self.assertNotIn("csi-3", text)
        self.claim("c1", "n1")
        self.assertIn("csi-1", self.says("why", "c1"))
        self.api.server.faults[:] = [Fault("status", path="/volumeattachments", status=403)]
        self.refuses(1, "could not be read, for the reason above: Volumes attached to n1, which status.volumesAttached of the Node ", "why", "n1")
        self.api.server.faults.clear()
        self.node("n2", **{STATUS_KEY: status % ("VolumeWait", ',"hook":"nodeclaimd-post-drain.target"')})
        self.assertRegex(self.says("status", "n2"), r" pods remain, waits for nodeclaimd-post-drain.target\n$")
        self.assertIn("csi-3", self.says("why", "n2"))
        self.node("n5", **{STATUS_KEY: status % ("VolumeWait", ',"cordon":"refused"')})  # and one by hand stands
        self.assertRegex(self.says("status", "n5"), r" pods remain, waits for the cordon\n$")
        self.assertIn("  none: the drain has not seen the cordon yet\n", self.says("why", "n5"))
        self.node("n3", **{STATUS_KEY: status % ("Evicting", "")})
        self.assertNotIn("Volumes", self.says("why", "n3"))
        self.node("n4")
        self.change("n4", lambda n: n["spec"].update(unschedulable=True))
        self.answer("n4", status.replace('"i"', '"ID"') % ("VolumeWait", ""))
        self.refuses(1, "VolumeWait: 0 of 2 pods remain, may wait for volumes or drain.linger: see why; ", "drain", "n4", "--wait", "--timeout=3s")

    def test_why_karpenter_was_not_told(self) -> None:
        """Without a leader of the controller nobody else says so."""
        status = '{"source":"%s","phase":"Evicting","deadline":"2026-11-29T12:00:00Z","blocked":[]%s}'
        rows = (("spot", "", True), ("maintenance", "", True), ("maintenance", ',"returns":true', False),
                ("spot", ',"policy":"report"', False), ("request", "", False))  # fmt: skip
        for i, (source, more, is_said) in enumerate(rows):
            self.node(f"n{i}", **{STATUS_KEY: status % (source, more)})
            self.claim(f"c{i}", f"n{i}")
            (self.assertIn if is_said else self.assertNotIn)(f"NodeClaim c{i} is not deleted yet: Karpenter was not told", self.says("why", f"c{i}"))
        self.node("n9", **{STATUS_KEY: status % ("spot", "")})
        self.claim("c9", "n9", deletionTimestamp="2026-11-29T11:58:00Z")
        self.assertNotIn("not told", self.says("why", "c9"))

    def test_lines_of_another(self) -> None:
        """What a node writes stays in its own row and line."""
        forged = 'x\nn1\tdefault\tTrue\tcomplete\t\tDrained: "all"\r\x1b[2J'
        self.node("n1", condition("Ready", "False", "KubeletNotReady"))
        self.node("n2", condition("Drained", "True", "NodeDrained", forged), condition("x\nEvents of Node n1", "True", "a\tb"), **{STATUS_KEY: '{"phase":"x\ty\nn1"'})
        self.claim("c-late", "")
        self.event("Node", "n2", "x\ny", "z\nEvents of Node n1")
        rows = [line.split()[0] for line in self.says("status").splitlines() if line]
        self.assertEqual(rows, ["NODE", "n1", "n2", "NODECLAIM", "c-late"])
        for line in self.says("why", "n2").splitlines():
            self.assertRegex(line, r"^(  |(Conditions|Drain|Annotations|Events) of Node n2$|nodeclaimd has written a drain-status of Node n2 and no condition: )")
            self.assertNotIn("\t", line)
        self.assertIn('Drained: "all"', self.says("why", "n2"))

    def test_hostile_annotations(self) -> None:
        """Whatever a node writes there is a line or none: no traceback, row or control character, and nothing that takes long."""
        rng = random.Random(20261201)
        texts = ["", "{", "[]", "null", '"x"', "[" * 100000, '{"a":' * 100000, '{"phase":NaN}', '{"phase":"E","remaining":' + "9" * 9999 + "}", '{"phase":"' + "x" * 1000000 + '"}',
                 '{"phase":"E","phase":"F"}', '{"phase":"Evicting","blocked":[' + '"a/b",' * 99999 + '"a/c"]}', '{"phase":"\\ud800\\u0000\\u202e\\u009b2J"}', *(hostile(rng) for _ in range(150))]  # fmt: skip
        for i, text in enumerate(texts):
            self.node(f"n{i}", {**condition("InterruptionPending", "True", "Requested"), "lastTransitionTime": stamp(time.time())},
                      **{STATUS_KEY: text, REQUEST_KEY: rng.choice(texts) if len(text) < 9999 else text})  # fmt: skip
        said = self.says("status")
        self.assertEqual((len(said.splitlines()), len(re.findall("^n[0-9]+ ", said, re.M))), (len(texts) + 1, len(texts)))
        self.assertNotRegex(said, "[^ -~\n]")
        for i in (*range(13), *rng.sample(range(13, len(texts)), 4)):
            for args in (("why", f"n{i}"), ("drain", f"n{i}", "--dry-run", *["--reason=x"][: i % 2])):
                code, out, err = self.run_plugin(*args)
                self.assertNotRegex(out + err, "Traceback|[^ -~\n]", f"{args}: {texts[i][:300]!r}")
                self.assertIn(code, (0, 1), f"{args}: {texts[i][:300]!r}")

    def test_ends_without_a_traceback(self) -> None:
        """By Ctrl-C, and where nobody reads what it prints."""
        self.node("n1")
        env = {"PATH": f"{self.folder}:{os.environ['PATH']}", "HOME": str(self.folder), "KUBECONFIG": str(self.folder / "config")}
        started = [self.folder / "kubectl-nodeclaim", "drain", "n1", "--wait"]
        with subprocess.Popen(started, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as waits:
            assert waits.stdout and waits.stderr
            while not waits.stdout.readline().startswith("a drain of node n1 is requested"):
                self.assertIsNone(waits.poll())
            waits.send_signal(signal.SIGINT)
            self.assertEqual((waits.wait(60 * PATIENCE), "Traceback" in waits.stderr.read()), (-signal.SIGINT, False))
        read_end, write_end = os.pipe()
        os.close(read_end)
        done = subprocess.run([self.folder / "kubectl-nodeclaim", "status"], stdout=write_end, stderr=subprocess.PIPE, text=True, env=env, timeout=60 * PATIENCE)
        os.close(write_end)
        self.assertEqual((done.returncode, done.stderr), (-signal.SIGPIPE, ""))

    def test_owner_of_a_strange_name(self) -> None:
        """The API server takes any text as the name of an owner, and the plugin gives it to kubectl."""
        for i, name in enumerate(("--server=http://127.0.0.1:9", "-A", "c1 c2", "c1\n-A")):
            self.node(f"n{i}", condition("Ready", "True", "KubeletReady"), claim=name)
            text = self.says("why", f"n{i}")
            self.assertEqual(text.splitlines()[0], f"Node n{i} names an owner that cannot be: " + name.replace("\n", "\\n"))
            self.assertIn("Ready=True", text)
            self.assertNotIn("Conditions of NodeClaim", text)

    def test_drain(self) -> None:
        self.node("n1")
        said = self.says("drain", "n1", "--reason", "bad disk")
        self.assertTrue(said.endswith("annotated\na drain of node n1 is requested, with no deadline, reason bad disk\n"
                                      "how far it is: kubectl nodeclaim status n1\n"), said)  # fmt: skip
        asked = json.loads(self.request("n1"))
        self.assertRegex(asked.pop("id"), r"^kubectl-\d+$")
        self.assertEqual(asked, {"mode": "graceful", "reason": "bad disk"})
        self.says("drain", "n1", "--mode=cordon")  # its own request is replaced: a blocked drain gets a deadline that way
        self.assertEqual(json.loads(self.request("n1"))["mode"], "cordon")
        self.assertIn("nodeclaimd lifts the cordon that it set as soon as it answers there; kubectl cordon after that keeps the node so; "
                      "a cordon of somebody else stays: kubectl uncordon lifts it\n", self.says("drain", "--cancel", "n1"))  # fmt: skip
        self.assertEqual(self.request("n1"), "")
        self.refuses(1, "has no drain request", "drain", "--cancel", "n1")
        begin = time.time()
        said = self.says("drain", "--deadline=10m", "n1")
        asked = json.loads(self.request("n1"))
        self.assertIn(f"\na drain of node n1 is requested, with deadline {asked['deadline']}, no reason\n", said)
        self.assertEqual(asked["mode"], "deadline")
        self.assertIn(asked["deadline"], [stamp(begin + 600 + late) for late in range(60)])
        self.change("n1", lambda n: n["metadata"]["annotations"].update({REQUEST_KEY: '{"id":"claim-u","mode":"graceful"}'}))
        self.refuses(1, "another one's", "drain", "--cancel", "n1")
        self.refuses(1, 'another drain of node n1 is requested: {"id":"claim-u"', "drain", "n1", "--deadline=10m")
        self.assertRegex(self.says("drain", "n1", "--deadline=10m", "--dry-run"), r'nothing was written\. .*\nthat is refused: another drain of node n1 is requested: {"id":"claim-u"')
        self.assertIn("claim-u", self.request("n1"))
        self.refuses(1, "there is no Node n9", "drain", "n9")

    def test_node_that_is_written_all_the_time(self) -> None:
        """A node that drains writes its progress each second, and others write it, too."""
        over = threading.Event()

        def write() -> None:
            while not over.wait(0.003):
                self.change("n1", lambda n: n["metadata"]["annotations"].update({"x": str(time.time())}))

        self.node("n1")
        self.says("drain", "n1", "--reason=bad disk")
        writer = threading.Thread(target=write)
        writer.start()
        try:
            self.says("drain", "n1", "--mode=cordon")
            self.assertEqual(json.loads(self.request("n1"))["mode"], "cordon")
            self.says("drain", "n1", "--cancel")
            self.assertEqual(self.request("n1"), "")
        finally:
            over.set()
            writer.join()

    def test_request_that_is_changed_meanwhile(self) -> None:
        """Only the request that was read is replaced or withdrawn."""
        other = '{"id":"kubectl-1","mode":"graceful","reason":"of another"}'
        kubectl, wrapper = (self.folder / "kubectl").readlink(), self.folder / "kubectl"
        wrapper.unlink()
        wrapper.write_text(f"#!/bin/sh\n[ $1 != patch ] || {kubectl} annotate node \"$3\" --overwrite '{REQUEST_KEY}={other}' >/dev/null\nexec {kubectl} \"$@\"\n")
        wrapper.chmod(0o755)
        for name, option, says in (
            ("n1", "--cancel", "is NOT withdrawn, for the reason above, or because it was changed meanwhile: the drain goes on"),
            ("n2", "--mode=cordon", "cannot be requested: nothing was changed"),
        ):
            self.node(name, **{REQUEST_KEY: '{"id":"kubectl-0","mode":"graceful"}'})
            self.refuses(1, says, "drain", name, option)
            self.assertEqual(self.request(name), other)

    def test_deadline_after_that_of_a_notice(self) -> None:
        for i, (source, deadline) in enumerate((("spot", stamp(time.time() + 100)), ("spot", stamp(time.time() + 9000)), ("request", stamp(time.time() + 100)))):
            self.node(f"n{i}", **{STATUS_KEY: json.dumps({"source": source, "phase": "Evicting", "deadline": deadline})})
            said = self.says("drain", f"n{i}", "--deadline=10m")
            self.assertEqual(f"\nthe node has an earlier deadline, {deadline}, of source spot: that one holds\n" in said, i == 0, said)

    def lease(self, name: str, renewed_sec: int) -> None:
        """As its kubelet renews it: so long after now by this machine's clock."""
        spec = {"holderIdentity": name, "renewTime": stamp(time.time() + renewed_sec).replace("Z", ".123456Z")}
        if not any(lease["metadata"]["name"] == name for lease in self.api.objects("leases")):
            self.api.put("leases", {"metadata": {"name": name}, "spec": spec}, "kube-node-lease")
            return
        resource = self.api.resource("leases")
        old = self.api.on_loop(lambda: self.api.store.get(resource, name, "kube-node-lease"))
        self.api.on_loop(lambda: self.api.store.replace(resource, {**old, "spec": spec}, "kube-node-lease"))

    def test_deadline_by_a_wrong_clock(self) -> None:
        """Of a machine whose clock is behind, pods were deleted long before the time that was meant."""
        ready = condition("Ready", "True", "KubeletReady")
        for i, (state, renewed_sec, says) in enumerate(((ready, 570, " and is behind that of node "), (ready, -120, " and is ahead of that of node "),
                                                        (condition("Ready", "Unknown", "NodeStatusUnknown"), 570, " and is behind that of node "))):  # fmt: skip
            self.node(f"n{i}", state)
            self.lease(f"n{i}", renewed_sec)
            self.refuses(1, says, "drain", f"n{i}", "--deadline=10m")
            self.refuses(1, "correct the clock; nothing was changed", "drain", f"n{i}", "--deadline=10m", "--wait")
            self.assertEqual(self.request(f"n{i}"), "")
            self.says("drain", f"n{i}")  # without a deadline the clock does not matter
        self.node("n3", ready)
        self.lease("n3", -30)
        self.assertNotIn("compared", self.says("drain", "n3", "--deadline=10m"))
        self.node("n4", condition("Ready", "Unknown", "NodeStatusUnknown"))  # its Lease says nothing: it is old, and the clock may be behind as long
        self.lease("n4", -600)
        self.node("n5", ready)
        self.node("n6", ready)
        self.lease("n6", 570)
        self.api.server.faults[:] = [Fault("status", path=r"/leases/n[67]", status=403)]
        self.node("n7", {**ready, "lastHeartbeatTime": stamp(time.time() + 120)})  # kubelet's last word is in the Node, too
        self.refuses(1, " and is behind that of node ", "drain", "n7", "--deadline=10m")
        for name in ("n4", "n5", "n6"):
            self.assertIn("this machine's clock could not be compared: ", self.says("drain", name, "--deadline=10m"))
            self.assertTrue(self.request(name))

    def pod(self, name: str, grace: int, owner: str = "ReplicaSet", phase: str = "Running", ends: str = "", node: str = "n1", space: str = "shop", **more: Any) -> None:
        owners = [{"apiVersion": "v1", "kind": owner, "name": "o", "uid": "u"}]
        about = {"name": name, "ownerReferences": owners, **({"deletionTimestamp": ends, "deletionGracePeriodSeconds": grace} if ends else {}), **more}
        self.api.put("pods", {"metadata": about, "status": {"phase": phase},
                              "spec": {"nodeName": node, "terminationGracePeriodSeconds": grace}}, space)  # fmt: skip

    def test_pods_that_a_deadline_deletes(self) -> None:
        """When, and with how much of their grace period, is said before anything is written: of pods that leave, by the margin of N2."""
        self.node("n1", condition("Ready", "True", "KubeletReady"))
        self.lease("n1", 0)
        for pod in (("a", 30), ("b", 300), ("c", 90), ("d", 900, "DaemonSet"), ("e", 900, "Node"), ("f", 900, "Job", "Succeeded"), ("g", 0)):
            self.pod(*pod)

        def told(deadline: int, *more: str) -> list[str]:
            """The time of each line is in seconds before the deadline that is requested."""
            head, said = self.says("drain", "n1", f"--deadline={deadline}s", *more).split("\nnode/n1 ")
            first, *lines = head.splitlines()
            self.assertTrue(first.startswith("pods are evicted as their PodDisruptionBudgets allow; those that are left are deleted before the deadline, each by its grace period and a margin"), first)
            self.assertTrue(first.endswith("; kubectl nodeclaim drain --cancel n1 saves none that is evicted or deleted by then"), first)
            self.assertIn("is requested, with deadline", said)
            asked = {stamp(epoch(json.loads(self.request("n1"))["deadline"]) - early): f"-{early}" for early in range(deadline)}
            return [re.sub(r"\d{4}-\S+Z", lambda at: asked.get(at[0], at[0]), line).strip() for line in lines]

        self.refuses(1, "nothing was requested: pods lose part of their grace period: shop/b; the shortest that leaves each its own is --deadline=316s; --cut-grace allows it as it is\n", "drain", "n1", "--deadline=120s")
        self.refuses(1, "shop/b; the shortest that leaves each its own is --deadline=316s; ", "drain", "n1", "--deadline=315s", "--wait")
        self.assertEqual(self.request("n1"), "")
        self.assertIn("\nwithout --cut-grace that is refused: pods lose part of their grace period: shop/b, shop/c; the shortest that leaves each its own is --deadline=316s\n",
                      self.says("drain", "n1", "--deadline=60s", "--dry-run"))  # fmt: skip
        self.assertNotIn("refused", self.says("drain", "n1", "--deadline=60s", "--dry-run", "--cut-grace"))
        self.assertIn("with its 300 s", told(316)[0])
        self.assertEqual(told(120, "--cut-grace"), ["shop/b is deleted AT ONCE, with about 105 of its 300 s", "shop/c, unless it is evicted before, is deleted IN 15 s, at about -105, with its 90 s",
                                     "shop/a, unless it is evicted before, is deleted at about -45, with its 30 s", "shop/g, unless it is evicted before, is deleted at about -15, with its 0 s"])  # fmt: skip
        for deadline, margin in ((100, 13), (40, 10), (36, 6), (9, 2)):
            self.assertEqual(told(deadline, "--cut-grace")[-1].split("about ")[-1].partition(",")[0], f"-{margin}", deadline)
        self.api.kubelet.running = False
        self.pod("h", 600, ends=stamp(time.time() + 500))
        self.pod("i", 600, ends=stamp(time.time() + 5))
        self.pod("j", 10)
        self.pod("k", 9)
        self.pod("l", 1)
        self.clock(time.time())
        self.lease("n1", 0)  # all this may take a minute
        self.refuses(1, ": shop/h, shop/b; the shortest that leaves each its own is --deadline=", "drain", "n1", "--deadline=120s")
        self.refuses(1, ": shop/h; the shortest that leaves each its own is --deadline=", "drain", "n1", "--deadline=400s")
        least = re.findall("--deadline=([0-9]+)s", self.run_plugin("drain", "n1", "--deadline=120s")[2])[0]
        self.assertIn(int(least), range(505, 517))
        self.assertIn("b, unless it is evicted", told(int(least))[0])
        said = told(120, "--cut-grace")
        self.assertRegex(said.pop(0), r"^shop/h, which ends by \S+, is to end by about -15$")
        self.assertEqual((said[3], said[4:]), ("shop/j, unless it is evicted before, is deleted at about -25, with its 10 s", ["and 3 more later, by about -15"]))
        self.assertNotIn("shop/", self.says("drain", "n1", "--mode=graceful"))
        self.api.server.faults[:] = [Fault("status", path="/pods", status=403)]
        self.assertEqual(told(120, "--cut-grace"), ["which these are, and when, is not known: the pods could not be listed"])
        self.refuses(1, "nothing was requested: which pods lose of their grace period is not known; --cut-grace allows it as it is\n", "drain", "n1", "--deadline=20m")

    def budget(self, name: str, allowed: int, namespace: str = "shop", **selector: Any) -> None:
        spec = {"selector": selector} if name != "none" else {}
        self.api.put("poddisruptionbudgets", {"metadata": {"name": name}, "spec": spec, "status": {"disruptionsAllowed": allowed}}, namespace)

    def test_dry_run(self) -> None:
        """What would come, and nothing is written: no request but of what is read."""
        self.node("n1", condition("Ready", "True", "KubeletReady"))
        self.lease("n1", 0)
        for name in ("a", "b", "c"):
            self.pod(name, 30, labels={"app": "db"})
        self.pod("d", 900, "DaemonSet", labels={"app": "db"})
        self.pod("e", 1, annotations={"karpenter.sh/do-not-disrupt": "true"}, labels={"app": "web"})
        self.budget("db", 0, matchLabels={"app": "db"})
        self.budget("web", 1, matchLabels={"app": "web"})
        self.budget("any", 0)
        self.budget("none", 0)
        self.budget("far", 0, "elsewhere")
        self.api.server.log.clear()
        kept = ("  kept by budget any, which allows no disruption now: shop/a, shop/b, shop/c, shop/e\n"
                "  kept by budget db, which allows no disruption now: shop/a, shop/b, shop/c\n"
                "  kept by annotation karpenter.sh/do-not-disrupt: shop/e\n"
                "no other pod is known to be kept now; each eviction asks the budgets again\n"
                "nothing was written. Without --dry-run: a drain of node n1 with ")  # fmt: skip
        said = self.says("drain", "n1", "--dry-run", "--reason=disk")
        self.assertRegex(said, f'^{re.escape(kept)}no deadline, reason disk, as the annotation {REQUEST_KEY}: {{"id":"kubectl-[0-9]+","mode":"graceful","reason":"disk"}}\n$')
        said = self.says("drain", "--dry-run", "n1", "--deadline=120s")
        self.assertRegex(said, "^pods are evicted as .*\n  shop/a, unless it is evicted before, is deleted at about ")
        self.assertRegex(said, re.escape(kept) + r'deadline (\S+), no reason, as the annotation \S+ {"id":"kubectl-[0-9]+","mode":"deadline","deadline":"\1"}\n$')
        said = self.says("drain", "n1", "--dry-run", "--mode=cordon")
        self.assertRegex(said, "^nothing was written[.] Without --dry-run: a drain of node n1 with mode cordon, no reason, as ")
        self.refuses(2, "a deadline of no time", "drain", "n1", "--dry-run", "--deadline=0s")
        self.refuses(2, "there is nothing to --wait for after --dry-run", "drain", "n1", "--dry-run", "--wait")
        self.refuses(2, "--cancel takes no other option", "drain", "n1", "--dry-run", "--cancel")
        self.refuses(2, "drain has no option --dry-run=server", "drain", "n1", "--dry-run=server")
        self.assertEqual({e["method"] for e in self.api.server.log.snapshot()}, {"GET"})
        self.api.server.faults[:] = [Fault("status", path="/poddisruptionbudgets", status=403)]
        unknown = "  which pods are kept is not known: the pods or their PodDisruptionBudgets could not be listed\nnothing was written"
        self.assertIn(unknown, self.says("drain", "n1", "--dry-run"))

    def test_what_a_drain_without_a_deadline_waits_for(self) -> None:
        """Said as it is requested: nothing ends such a wait but a person."""
        self.node("n1")
        self.pod("a", 30, labels={"app": "db"})
        self.pod("e", 1, annotations={"karpenter.sh/do-not-disrupt": "true"})
        self.budget("db", 0, matchLabels={"app": "db"})
        warning = ("kubectl nodeclaim: the drain has no deadline: for a pod that is kept it waits, for ever if need be\n%s"
                   "  what lets them go: kubectl nodeclaim why n1 --context=k, once the node has reported them; kubectl nodeclaim drain n1 --deadline=10m --context=k deletes what is left by then, asks no budget, "
                   "and with --dry-run only says what; kubectl nodeclaim drain --cancel n1 --context=k takes the request back\n")  # fmt: skip
        kept = "  kept by budget db, which allows no disruption now: shop/a\n  kept by annotation karpenter.sh/do-not-disrupt: shop/e\n"
        for args, is_said in (((), True), (("--mode=cordon",), False), (("--mode=graceful",), True), (("--deadline=10m",), False), (("--reason=disk",), False)):
            code, _, err = self.run_plugin("drain", "n1", "--context=k", *args)
            self.assertEqual((code, warning % kept in err, "for ever" in err), (0, is_said, is_said), f"{args}: {err}")
        self.assertNotIn("for ever", self.run_plugin("drain", "n1", "--mode=graceful", "--dry-run")[2])
        self.api.server.faults[:] = [Fault("status", path="/poddisruptionbudgets", status=403)]
        unknown = "  which pods are kept is not known: the pods or their PodDisruptionBudgets could not be listed\n"
        self.assertIn(warning % unknown, self.run_plugin("drain", "n1", "--context=k", "--mode=graceful")[2])
        self.assertIn("graceful", self.request("n1"))

    def test_dry_run_where_a_request_is(self) -> None:
        self.node("n1")
        self.says("drain", "n1", "--mode=cordon")
        first = self.request("n1")
        self.assertRegex(self.says("drain", "n1", "--dry-run"), "^a drain of node n1 is requested already, with mode cordon, no reason: the request stays as it is; [^\n]*\n$")
        said = self.says("drain", "n1", "--dry-run", "--mode=graceful")
        self.assertRegex(said, 'no deadline, no reason, as [^\n]*"}\nit replaces the request that is there, which has mode cordon, no reason\n$')
        self.assertEqual(self.request("n1"), first)

    def test_selectors_of_budgets(self) -> None:
        """In the form that kubectl takes; the API server evaluates it."""
        self.node("n1")
        self.pod("a", 30)
        terms = [{"key": "a", "operator": "In", "values": ["x", "y"]}, {"key": "b", "operator": "NotIn", "values": ["z"]},
                 {"key": "c", "operator": "Exists"}, {"key": "d", "operator": "DoesNotExist"}]  # fmt: skip
        self.budget("web", 0, matchLabels={"app": "web"}, matchExpressions=terms)
        self.says("drain", "n1", "--dry-run")
        asked = [parse_qs(urlsplit(e["path"]).query).get("labelSelector") for e in self.api.server.log.snapshot()]
        self.assertIn(["app=web,a in (x,y),b notin (z),c,!d"], asked)

    def test_requested_already(self) -> None:
        """Who calls it again to follow the drain does not change what was requested."""
        self.node("n1")
        self.says("drain", "n1", "--deadline", "10m", "--reason", "disk")
        first = self.request("n1")
        deadline = json.loads(first)["deadline"]
        said = f"a drain of node n1 is requested already, with deadline {deadline}, reason disk: the request stays as it is; --deadline, "
        self.assertIn(said, self.says("drain", "n1"))
        self.assertEqual(self.request("n1"), first)
        self.drained("n1")
        said_with_wait = self.says("drain", "n1", "--wait", "--timeout=30s")
        self.assertIn("requested already", said_with_wait)
        self.assertIn("condition met", said_with_wait)
        self.assertEqual(self.request("n1"), first)
        replaced = f"the former request is replaced; it had deadline {deadline}, reason disk\n"
        self.refuses(0, replaced, "drain", "n1", "--reason=memory")
        self.assertEqual(json.loads(self.request("n1"))["reason"], "memory")
        self.refuses(0, f"it had deadline {deadline}, reason memory\n", "drain", "n1", "--mode", "cordon")
        self.refuses(0, "it had mode cordon, reason memory\n", "drain", "n1", "--mode", "graceful")
        self.change("n1", lambda n: n["metadata"]["annotations"].update({REQUEST_KEY: '{ "id": "disk-1", "mode": "graceful", "reason": "a disk" }'}))
        said = self.says("drain", "n1")  # by hand, or the controller's: followed alike
        self.assertRegex(said, "with no deadline, reason a disk: the request stays as it is\n$")
        self.change("n1", lambda n: n["metadata"]["annotations"].update({REQUEST_KEY: "{}"}))
        self.refuses(1, "another drain of node n1 is requested: {}", "drain", "n1")

    def test_terms_that_are_not_named(self) -> None:
        """Who adds a reason does not take the deadline away."""
        self.node("n1")
        self.says("drain", "n1", "--deadline=10m", "--reason=disk")
        deadline = json.loads(self.request("n1"))["deadline"]
        for args, terms, said in (
            (["--reason=the disk is bad"], {"mode": "deadline", "deadline": deadline, "reason": "the disk is bad"}, f"deadline {deadline}, reason the disk is bad"),
            (["--reason="], {"mode": "deadline", "deadline": deadline}, f"deadline {deadline}, no reason"),
            (["--reason=memory"], {"mode": "deadline", "deadline": deadline, "reason": "memory"}, f"deadline {deadline}, reason memory"),
            (["--mode=graceful"], {"mode": "graceful", "reason": "memory"}, "no deadline, reason memory"),
            (["--mode=cordon"], {"mode": "cordon", "reason": "memory"}, "mode cordon, reason memory"),
            (["--reason=disk"], {"mode": "cordon", "reason": "disk"}, "mode cordon, reason disk"),
        ):
            self.assertIn(f"\na drain of node n1 is requested, with {said}\n", self.says("drain", "n1", *args))
            request = json.loads(self.request("n1"))
            self.assertRegex(request.pop("id"), r"^kubectl-\d+$")
            self.assertEqual(request, terms)
        self.says("drain", "n1", "--deadline=20m")
        request = json.loads(self.request("n1"))
        self.assertEqual((request["mode"], request["reason"], request["deadline"] > deadline), ("deadline", "disk", True))
        self.change("n1", lambda n: n["metadata"]["annotations"].update({REQUEST_KEY: '{"id":"kubectl-1"}'}))
        self.says("drain", "n1", "--reason=disk")
        self.assertEqual(json.loads(self.request("n1"))["mode"], "graceful")

    def test_terms_that_cannot_be_kept(self) -> None:
        """A deadline that has passed, or soon will have, ended every pod or had the request refused; a node may have written anything."""
        was = '{"id":"kubectl-1","mode":"deadline","deadline":"%s","reason":"%s"}'
        ahead = stamp(time.time() + 600)
        for i, deadline in enumerate((stamp(time.time() - 5), stamp(time.time() + 30), ahead[:-1] + "+09:00", "")):
            name, request = f"n{i}", was % (deadline, "disk")
            self.node(name, **{REQUEST_KEY: request})
            self.refuses(1, f"the deadline '{deadline}' of the request that is there cannot be kept: it has to be a minute ahead, and it is ",
                         "drain", name, "--reason=memory")  # fmt: skip
            self.assertEqual(self.request(name), request)
            self.says("drain", name, "--mode=graceful")
            self.assertNotIn("deadline", self.request(name))
        self.node("n9", **{REQUEST_KEY: was % (ahead, r"a \"b\"")})
        self.refuses(1, "the reason 'a \"b\"' of the request that is there cannot be kept: add --reason; nothing was changed", "drain", "n9", "--deadline=5m")
        self.says("drain", "n9", "--deadline=5m", "--reason=disk")

    def test_waits(self) -> None:
        """What the condition says stands behind: volumes may still be attached."""
        self.node("n1", condition("Drained", "False", "Draining"))
        timer = threading.Timer(1, lambda: self.drained("n1"))
        timer.start()
        self.assertIn("\nnode/n1 condition met: No pods remaining; volumes still attached: 2\n", self.says("drain", "n1", "--mode", "cordon", "--wait", "--timeout", "30s"))
        timer.join()

    def once_asked(self, name: str, act: Callable[[str], None]) -> None:
        """Acts as soon as a request is there, with its id."""

        def wait() -> None:
            for _ in range(round(300 * PATIENCE)):
                if request := self.request(name):
                    act(json.loads(request)["id"])
                    return
                time.sleep(0.1)

        thread = threading.Thread(target=wait)
        thread.start()
        self.addCleanup(thread.join)

    def answer(self, name: str, status: str) -> None:
        """Cordons it, and writes this as drain-status, with the request's id."""

        def write(node: dict[str, Any], id: str) -> None:
            node["spec"]["unschedulable"] = True
            node["metadata"]["annotations"][STATUS_KEY] = status.replace("ID", id)

        self.once_asked(name, lambda id: self.change(name, lambda n: write(n, id)))

    def test_waits_and_shows_progress(self) -> None:
        """A line for each change of the drain-status, of which another time is none."""
        times = [stamp(time.time() - 1000 + i) for i in range(4)]
        status = '{"id":"%s","source":"request","phase":"Evicting","total":3,"remaining":%d,"updated":"%s"}'

        def reads() -> int:
            return sum(e["method"] == "GET" and "/nodes/n1" in e["path"] for e in self.api.server.log.snapshot())

        def go(id: str) -> None:
            for i, (is_cordoned, remaining) in enumerate(((False, 2), (True, 2), (True, 2), (True, 1))):
                text = status % (id, remaining, times[i])
                self.change("n1", lambda n: n["spec"].update(unschedulable=is_cordoned) or n["metadata"]["annotations"].update({STATUS_KEY: text}))
                seen = reads()
                harness.until(lambda: reads() >= seen + 2, 30)  # the first may be of before
            self.drained("n1")

        self.node("n1")
        self.once_asked("n1", go)
        said = self.says("drain", "n1", "--wait", "--context=k")
        words = "node/n1: Evicting: %d of 3 pods remain; nodeclaimd does not answer since %s: see why"
        self.assertEqual([line for line in said.splitlines() if line.startswith("node/")],
                         ["node/n1 annotated", f"node/n1: NOT cordoned, so nothing is evicted; {words[9:] % (2, times[0])} (why: kubectl nodeclaim why n1 --context=k)", words % (2, times[1]),
                          words % (1, times[3]), "node/n1 condition met: No pods remaining; volumes still attached: 2"])  # fmt: skip

    def test_waits_in_vain(self) -> None:
        """Why, what the node says, and that the request stays."""
        self.node("n1")
        self.answer("n1", '{"id":"ID","source":"request","phase":"Evicting","deadline":null,"total":3,"remaining":1,"blocked":["shop/db-0"]}')
        self.refuses(1, "node n1 is not drained after 3s: its drain-status says: Evicting: 1 of 3 pods remain, blocked: shop/db-0, no deadline; "
                     "the request stays: kubectl nodeclaim drain --cancel n1 withdraws it\n", "drain", "n1", "--wait", "--timeout=3s")  # fmt: skip
        self.assertTrue(self.request("n1"))
        self.node("n8")
        self.once_asked("n8", lambda id: self.change("n8", lambda n: n["metadata"]["annotations"].update(
            {STATUS_KEY: '{"id":"%s","source":"request","phase":"Detected","deadline":null}' % id})))  # fmt: skip
        self.refuses(1, "Detected, NOT cordoned (why: kubectl nodeclaim why n8); ", "drain", "n8", "--wait", "--timeout=3s")
        self.node("n2")
        self.refuses(1, "node n2 is not drained after 0s: it has no drain-status; ", "drain", "n2", "--wait", "--timeout=0s")
        self.node("n3", **{REQUEST_KEY: '{"id":"claim-u","mode":"graceful"}'})
        self.event("Node", "n3", "DrainRequestRefused", "annotation nodeclaimd.io/drain-request: drain request claim-u: late; the request is ignored")
        self.refuses(1, "drain request claim-u: late; ", "drain", "n3", "--wait")
        self.change("n3", lambda n: n["metadata"]["annotations"].update({REQUEST_KEY: '{"id":"claim-v","mode":"graceful"}'}))
        self.refuses(1, "the request stays, which is another one's: {", "drain", "n3", "--wait", "--timeout=0s")
        self.node("n4")
        self.answer("n4", '{"id":"ID","source":"request","phase":"Failed","deadline":"2026-11-28T12:00:09Z","total":3,"remaining":1,"blocked":[]}')
        self.refuses(1, "drain deadline exceeded; its drain-status says: Failed: 1 of 3 pods remain; the request stays", "drain", "n4", "--wait")
        self.node("n5")
        self.answer("n5", '{"id":"ID","source":"request","phase":"Evicting","deadline":null,"total":3,"remaining":1,"blocked":[]}')
        self.refuses(1, "drain deadline exceeded; its drain-status says: Evicting: 1 of 3 pods remain", "drain", "n5", "--deadline=5m", "--wait")
        self.node("n9")  # no pod remains
        self.answer("n9", '{"id":"ID","source":"request","phase":"VolumeWait","deadline":null,"total":3,"remaining":0,"blocked":[]}')
        self.refuses(1, "not drained after 3s: its drain-status says: VolumeWait: 0 of 3", "drain", "n9", "--deadline=5m", "--wait", "--timeout=3s")
        self.node("n7")  # which may not write its conditions
        self.answer("n7", '{"id":"ID","source":"request","phase":"Drained","deadline":null,"total":3,"remaining":0,"blocked":[]}')
        self.assertIn("condition met: its drain-status says so", self.says("drain", "n7", "--wait", "--timeout=30s"))
        self.node("n6", **{STATUS_KEY: '{"source":"request","phase":"Drained","deadline":null,"total":2,"remaining":0,"blocked":["shop/db-0"]}'})
        self.drained("n6")
        self.refuses(1, "pods on it have not ended, and containers may run: its drain-status says: Drained: 0 of 2 pods remain, blocked: shop/db-0",
                     "drain", "n6", "--wait")  # fmt: skip

    def test_waits_for_what_is_forbidden(self) -> None:
        """The hour is not waited for where drain.mode allows less; a report of another source is no reason to end."""
        status = '{"id":"%s","source":"request","policy":"%s","phase":"%s","deadline":null,"total":null,"remaining":null,"blocked":[]}'
        for name, policy, phase in (("n1", "report", "Detected"), ("n2", "cordon", "Cordoned")):
            self.node(name)
            self.answer(name, status % ("ID", policy, phase))
            self.refuses(1, f"drain.mode of its configuration lets nodeclaimd {policy}, no more; the request stays: ", "drain", name, "--wait")
        self.node("n3")
        self.answer("n3", status % ("ID", "cordon", "Cordoned"))
        self.assertIn("node/n3 cordoned\n", self.says("drain", "n3", "--mode=cordon", "--wait"))
        self.node("n4")
        self.answer("n4", status % ("ID", "report", "Detected"))
        self.refuses(1, "lets nodeclaimd report, no more", "drain", "n4", "--mode=cordon", "--wait")
        self.node("n5", **{STATUS_KEY: status % ("another", "report", "Detected")})
        self.refuses(1, "node n5 is not drained after 3s: its drain-status says: Detected, report only", "drain", "n5", "--wait", "--timeout=3s")

    def test_waits_for_what_is_gone(self) -> None:
        self.node("n1")
        self.once_asked("n1", lambda _: self.change("n1", lambda n: n["metadata"]["annotations"].pop(REQUEST_KEY, None)))
        self.refuses(1, "the request was withdrawn before node n1 was drained", "drain", "n1", "--wait", "--timeout=30s")
        self.once_asked("n1", lambda _: self.api.on_loop(lambda: self.api.store.delete(self.api.resource("nodes"), "n1")))
        self.refuses(1, "node n1 is gone; it was not seen drained", "drain", "n1", "--wait", "--timeout=30s")

    def test_command_line(self) -> None:
        for says, args in (("a command is missing", ()), ("no command 'walk'; see", ("walk",)), ("no command 'drian', did you mean drain?", ("drian",)), ("why has no option --server=x; of kubectl's it takes --context, --kubeconfig", ("why", "n1", "--server=x")), ("takes the name", ("drain",)), ("no option --force", ("drain", "n1", "--force")),
                           ("not a time", ("drain", "n1", "--deadline", "soon")), ("not a time", ("drain", "n1", "--deadline=010m")), ("without its unit", ("drain", "n1", "--deadline=60")), ("needs a value", ("drain", "n1", "--reason")),
                           ("not 'all'", ("drain", "n1", "--mode", "all")), ("--deadline TIME, without --mode, makes the mode deadline", ("drain", "n1", "--mode=deadline")), ("mode graceful has no deadline", ("drain", "n1", "--mode=graceful", "--deadline=5m")),
                           ("deleted at once", ("drain", "n1", "--deadline=0s")), ("write --context=VALUE", ("status", "--context", "k")), ("status has no option --nod", ("status", "--nod")), ("no deadline", ("drain", "n1", "--mode=cordon", "--deadline=1m")),
                           ("a reason has", ("drain", "n1", "--reason", 'a"b')), ("why has no option -o", ("why", "-o")), ("not the name", ("why", "N1"))):  # fmt: skip
            self.refuses(2, says, *args)
        self.assertIn("status [NODE]", self.says("--help"))
        self.node("n1")
        self.refuses(2, "--timeout needs --wait", "drain", "--timeout=5m", "n1")
        self.assertEqual(self.request("n1"), "")
        self.says("drain", "n1")
        self.refuses(2, "--cut-grace needs --deadline", "drain", "--cut-grace", "n1")
        for option in ("--deadline=5m", "--cut-grace", "--mode=graceful", "--reason=", "--wait"):
            self.refuses(2, "--cancel takes no other option", "drain", "--cancel", option, "n1")
        self.refuses(2, "--timeout needs --wait", "drain", "--cancel", "--timeout=5m", "n1")
        self.assertIn("graceful", self.request("n1"))
        self.assertIn("n1", self.says("status", "--context=k"))
        self.refuses(1, "nowhere", "status", "--context=nowhere")

    def test_without_kubectl(self) -> None:
        folder = self.folder / "empty"
        folder.mkdir()
        (folder / "python3").symlink_to(sys.executable)
        code, out, err = self.run_plugin("--help", path=str(folder))
        self.assertEqual((code, "status [NODE]" in out), (0, True), err)
        code, out, err = self.run_plugin("status", path=str(folder))
        self.assertEqual((code, err), (1, "kubectl nodeclaim: there is no kubectl in PATH\n"), out)

    def test_completion(self) -> None:
        self.node("n1")
        options = ["--deadline", "--cut-grace", "--mode", "--reason", "--wait", "--cancel", "--dry-run", ":4"]
        for args, words in ((("",), ["status", "why", "drain", "version", ":4"]), (("why", ""), ["n1", ":4"]), (("drain", "n1", "-"), options), (("why", "-"), [":4"])):
            code, out, _ = self.run_plugin(*args, name="kubectl_complete-nodeclaim")
            self.assertEqual((code, out.split()), (0, words))


if __name__ == "__main__":
    unittest.main()
