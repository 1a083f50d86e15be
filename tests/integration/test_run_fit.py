"""The startup gate: what pods need is there before the node says that it is fit, in each boot anew."""

from __future__ import annotations

import json
import signal
import time
import unittest
from typing import Any, Optional

from running import FIT, FIT_KEY, NODES, SLACK, DaemonTest, DaemonWorld, Step

from bus import Bus, Unit
from pods import PODS
from store import RESOURCES

BOOT, EARLIER = "0c5d1d1c-6f0e-4a44-9c0a-000000000001", "0c5d1d1c-6f0e-4a44-9c0a-000000000000"
LONG_AGO = "2020-01-01T00:00:00Z"
CSI_NODES = next(r for r in RESOURCES if r.plural == "csinodes")
TARGET = "nodeclaimd-ready.target"


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def ready(is_ready: bool, since: str) -> dict[str, Any]:
    return {"type": "Ready", "status": str(is_ready), "lastTransitionTime": since}


class Gate(DaemonTest):
    def gate_world(self, fit: str, boot: str = EARLIER, **more: Any) -> DaemonWorld:
        """A Node that kubelet has reported in `boot` last; the machine runs BOOT."""
        world = self.node_world(profile="m5.large", config=f"  fit: {fit}\n", **more)
        self.report(world, boot)
        return world

    def report(self, world: DaemonWorld, boot: str = BOOT, **status: Any) -> None:
        """As kubelet does."""

        def change(node: dict[str, Any]) -> None:
            node["status"].update({"nodeInfo": {"bootID": boot}, **status})

        world.change_node(change)

    def daemon_pod(self, world: DaemonWorld, name: str, is_ready: bool, since: str = "") -> None:
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": f"ds-{name}", "controller": True}
        conditions = [ready(is_ready, since or now())]
        world.pod(
            f"{name}-x", namespace="kube-system", ownerReferences=[owner], status={"conditions": conditions}
        )

    def set_ready(self, world: DaemonWorld, name: str, is_ready: bool) -> None:
        def go() -> None:
            pod = world.api.store.get(PODS, f"{name}-x", "kube-system")
            pod["status"]["conditions"] = [ready(is_ready, now())]
            world.api.store.replace(PODS, pod, "kube-system")

        world.api.on_loop(go)

    def fit(self, world: DaemonWorld) -> dict[str, Any]:
        return world.annotation(FIT_KEY)

    def is_open(self, world: DaemonWorld) -> bool:
        return self.fit(world).get("fit") is True and self.fit(world)["boot"] == BOOT

    def shut_as(self, world: DaemonWorld, reason: str, within: float = 15) -> None:
        world.must(lambda: self.fit(world).get("reason") == reason, reason, within)
        self.assertEqual((self.fit(world)["fit"], self.fit(world)["boot"]), (False, BOOT))
        self.assertEqual(world.condition(FIT), ("False", reason))

    def event(self, world: DaemonWorld, reason: str) -> Optional[dict[str, Any]]:
        return next((e for e in world.api.objects("events") if e["reason"] == reason), None)

    def about_fit(self, world: DaemonWorld) -> list[Step]:
        return world.steps("fit")

    def test_everything_is_waited_for(self) -> None:
        world = self.gate_world(
            "{daemonSets: [kube-system/cni, kube-system/csi], csiDrivers: [ebs.csi.aws.com], "
            "resources: [nvidia.com/gpu], conditions: [NetworkingReady], timeout: 1h}"
        )
        self.daemon_pod(world, "cni", False)
        world.start()
        self.shut_as(world, "NodeNotReported")
        self.report(world)
        world.must(lambda: self.event(world, "NotFit"), "the Event")
        message = (self.event(world, "NotFit") or {})["message"]
        self.assertTrue(message.startswith("startup gate: waiting for "), message)
        for name in ("cni-x is not ready", "kube-system/csi (no pod", "ebs.csi", "nvidia.com/gpu", "NetworkingReady"):
            self.assertIn(name, message)
        self.shut_as(world, "DaemonSetsNotReady", 25)
        self.assertEqual(len(self.fit(world)["missing"]), 5)
        self.assertTrue(self.fit(world)["until"] > self.fit(world)["since"])
        self.assertEqual(world.status()["fit"]["reason"], "DaemonSetsNotReady")
        self.assertIn("DaemonSetsNotReady: waiting for", world.run("status").out)
        self.set_ready(world, "cni", True)
        self.daemon_pod(world, "csi", True)
        world.api.put("csinodes", {"metadata": {"name": world.node_name}, "spec": {"drivers": [{"name": "ebs.csi.aws.com"}]}})
        condition = {"type": "NetworkingReady", "status": "True", "lastTransitionTime": now()}
        self.report(world, allocatable={"nvidia.com/gpu": "8"}, conditions=world.node()["status"]["conditions"] + [condition])
        world.must(lambda: self.is_open(world), "the gate to open", 15)
        self.assertEqual(world.condition(FIT), ("True", "NothingMissing"))
        last = self.about_fit(world)[-1].body
        self.assertEqual(last["status"]["conditions"][0]["status"], "True")  # both in one request
        self.assertIn('"fit":true', last["metadata"]["annotations"][FIT_KEY])
        world.must(lambda: self.event(world, "Fit"), "the Event")
        self.assertLessEqual(len(self.about_fit(world)), 4, world.story())
        # once open, it stays open
        before = len(world.steps())
        self.set_ready(world, "cni", False)
        world.must(lambda: world.status()["fit"]["fit"], "status.json")
        self.assertIn("the gate opened at", world.run("timeline").out)
        self.assertFalse([s for s in world.steps()[before:] if s.kind == "fit"])

    def test_condition_of_a_stranger(self) -> None:
        """It is taken back while the gate is shut, and none is believed; however often, that costs few writes."""
        world = self.gate_world("{daemonSets: [kube-system/cni]}", boot=BOOT)
        self.daemon_pod(world, "cni", False)
        world.start()
        self.shut_as(world, "DaemonSetsNotReady")
        begun, n = time.monotonic(), len(self.about_fit(world))

        def lie(node: dict[str, Any]) -> None:
            mine = [c for c in node["status"]["conditions"] if c["type"] != FIT]
            node["status"]["conditions"] = [*mine, {"type": FIT, "status": "True", "reason": "Lie"}]

        world.change_node(lie)
        world.must(lambda: world.condition(FIT) == ("False", "DaemonSetsNotReady"), "the condition to be taken back", 25)
        for _ in range(20):
            world.change_node(lie)
        world.must(lambda: world.condition(FIT) == ("False", "DaemonSetsNotReady"), "the condition to be taken back again", 25)
        self.assertLessEqual(len(self.about_fit(world)) - n, 1 + (time.monotonic() - begun) / 10)
        self.assertFalse(self.is_open(world))

    def test_opens_at_once(self) -> None:
        """At most a second after the last DaemonSet is Ready."""
        world = self.gate_world("{daemonSets: [kube-system/cni]}", boot=BOOT)
        self.daemon_pod(world, "cni", False)
        world.start()
        self.shut_as(world, "DaemonSetsNotReady")
        start = time.monotonic()
        self.set_ready(world, "cni", True)
        world.must(lambda: self.is_open(world), "the gate to open")
        self.assertLess(time.monotonic() - start, 1 + SLACK)

    def test_reboot(self) -> None:
        """What the last boot has left opens nothing: its word is taken back before kubelet reports."""
        world = self.gate_world("{daemonSets: all, timeout: 0s}")
        self.daemon_pod(world, "cni", True, LONG_AGO)
        said = json.dumps({"boot": EARLIER, "fit": True, "reason": "NothingMissing", "missing": [], "then": "open"})
        world.change_node(lambda n: n["metadata"]["annotations"].update({FIT_KEY: said}))
        world.start()
        self.shut_as(world, "NodeNotReported")
        self.assertNotIn("until", self.fit(world))
        self.report(world)
        self.shut_as(world, "DaemonSetsNotReady", 25)
        self.assertEqual(self.fit(world)["missing"], ["kube-system/cni"])
        self.set_ready(world, "cni", True)
        world.must(lambda: self.is_open(world), "the gate to open", 25)

    def test_restart_of_the_daemon(self) -> None:
        world = self.gate_world("{daemonSets: [kube-system/cni], timeout: 1h}", boot=BOOT)
        self.daemon_pod(world, "cni", False)
        world.start()
        self.shut_as(world, "DaemonSetsNotReady")
        since = self.fit(world)["since"]
        world.stop()
        world.start()
        self.set_ready(world, "cni", True)
        world.must(lambda: self.is_open(world), "the gate to open")
        self.assertEqual(self.fit(world)["since"], since)
        world.stop()
        self.set_ready(world, "cni", False)
        before = len(world.steps())
        world.start()
        world.must(lambda: world.status().get("fit", {}).get("fit"), "status.json")
        world.must(lambda: world.steps()[before:], "its requests")
        after = world.steps()[before:]
        self.assertFalse([s for s in after if s.kind == "fit" or s.what == "/api/v1/pods" and "Failed" not in s.entry["path"]])

    def test_nobody_comes(self) -> None:
        for then, is_open, reason in (("open", True, "True"), ("hold", False, "False")):
            with self.subTest(then):
                world = self.gate_world(f"{{daemonSets: [a/nobody], timeout: 2s, onTimeout: {then}}}", boot=BOOT)
                world.start()
                world.must(lambda: self.event(world, "FitTimedOut"), "the Event")  # pylint: disable=cell-var-from-loop
                self.assertEqual((self.event(world, "FitTimedOut") or {})["type"], "Warning")
                self.assertIn("a/nobody", (self.event(world, "FitTimedOut") or {})["message"])
                world.must(lambda: world.condition(FIT) == (reason, "TimedOut"), "the condition", 25)
                self.assertEqual((self.fit(world)["fit"], self.fit(world)["then"]), (is_open, then))

    def test_pods_cannot_be_read(self) -> None:
        """What is not known is never taken for there."""
        world = self.gate_world("{daemonSets: all}", boot=BOOT)
        world.api.server.fault("status", path="^/api/v1/pods", status=503)
        world.start()
        self.shut_as(world, "NotReadable")

    def test_drain_while_shut(self) -> None:
        world = self.gate_world("{daemonSets: [a/nobody], timeout: 12s}", boot=BOOT)
        world.pod("web", grace=1)
        world.start()
        self.shut_as(world, "DaemonSetsNotReady")
        self.assertEqual(world.run("drain").code, 0)
        world.drained()
        world.must(lambda: self.event(world, "FitHeld"), "the Event")
        self.shut_as(world, "Draining", 20)
        self.assertNotIn("until", self.fit(world))
        self.assertEqual(world.run("undrain").code, 0)
        world.must(lambda: self.is_open(world), "the gate to open", 30)

    def test_no_gate(self) -> None:
        world = self.node_world(profile="m5.large")
        self.report(world)
        world.start()
        world.must(lambda: world.steps("look"), "its own Node")
        self.assertFalse([s for s in world.steps() if s.kind == "fit" or "csinodes" in s.entry["path"]])
        self.assertNotIn("fit", world.status())

    def test_gate_is_taken_away(self) -> None:
        """A node that an earlier configuration has shut opens."""
        world = self.node_world(profile="m5.large")
        self.report(world)
        said = json.dumps({"boot": EARLIER, "fit": False, "reason": "DaemonSetsNotReady", "missing": [], "then": "hold"})
        world.change_node(lambda n: n["metadata"]["annotations"].update({FIT_KEY: said}))
        world.start()
        world.must(lambda: self.is_open(world), "the gate to open")
        self.assertEqual(len(self.about_fit(world)), 1)

    def test_reload_wants_more(self) -> None:
        """Of the pods those are seen, too, that nobody wanted before."""
        world = self.gate_world("{daemonSets: [kube-system/cni], timeout: 1h}", boot=BOOT)
        self.daemon_pod(world, "cni", False)
        self.daemon_pod(world, "csi", True)
        world.start()
        self.shut_as(world, "DaemonSetsNotReady")
        text = "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec: {fit: {daemonSets: [kube-system/csi], timeout: 1h}}\n"
        (world.root / "etc/nodeclaimd/conf.d/20-more.yaml").write_text(text)
        world.daemon.send_signal(signal.SIGHUP)
        world.must(lambda: self.is_open(world), "the gate to open", 25)

    def test_target(self) -> None:
        world = self.gate_world("{timeout: 1h}", bus=True)
        assert isinstance(world.bus, Bus)
        folder = world.root / "etc/systemd/system" / f"{TARGET}.wants"
        folder.mkdir(parents=True)
        (folder / "warm.service").symlink_to("/etc/systemd/system/warm.service")
        world.bus.units.update({TARGET: Unit(wants=["warm.service"]), "warm.service": Unit()})
        world.start()
        self.shut_as(world, "NodeNotReported")
        self.assertFalse([c for c in world.bus.calls if TARGET in c])
        self.report(world)
        world.must(lambda: f"{TARGET} is reached" in world.log(), "the target")
        self.assertEqual(world.bus.units["warm.service"].starts, 1)
        self.assertEqual([c for c in world.bus.calls if TARGET in c], [f"RestartUnit {TARGET}"])


if __name__ == "__main__":
    unittest.main()
