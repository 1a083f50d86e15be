"""Hundreds of pods of a megabyte each: read as they come, never held."""

from __future__ import annotations

import unittest
from typing import Any

from running import PATIENCE, DaemonTest, DaemonWorld

from pods import PODS as PODS_RESOURCE

PODS, LEAVING = 500, 300
CROWD = 4100  # more than are kept at a time
PADDING = 1_000_000 if PATIENCE == 1 else 100_000
# Resident at the peak, libraries included: one such pod would show. The fake speaks HTTP/1.1 only, so that evictions side
# by side take a connection each.
LIMIT_KIB = 22 * 1024
CONNECTIONS_KIB = 100 * 160


class Size(DaemonTest):
    def test_a_list_of_half_a_gigabyte(self) -> None:
        world = self.node_world()
        stays = {"tolerations": [{"operator": "Exists"}]}
        for i in range(PODS - 10):
            world.pod(f"stays-{i:04}", owner="DaemonSet", spec=stays)
        names = [f"web-{i}" for i in range(10)]
        for name in names:
            world.pod(name)
        world.api.padding_bytes = PADDING
        world.start()
        before = world.memory_kib()
        world.imds.spot(600)
        world.must(lambda: len(world.evictions(accepted=True)) == 10, "the evictions", 300)
        world.must(lambda: len(world.pods()) == PODS - 10, "their end", 30)
        self.assertEvictedOnce(world, *names)
        world.must(lambda: world.drain()["pods"]["excluded"]["tolerating"] == PODS - 10, "all of them seen")
        if PATIENCE == 1:
            self.assertLess(world.memory_kib(), LIMIT_KIB, f"{before} KiB before")

    def test_pods_that_were_filled_up(self) -> None:
        """What the API server takes of whoever writes a pod: none is too large to be asked to leave, nor are those beside it."""
        world = self.node_world()
        volumes = [{"name": f"v-{i}", "csi": {"driver": "d", "volumeAttributes": {"a": "x" * 3000}}} for i in range(200)]
        claims = [{"name": f"v-{i}", "persistentVolumeClaim": {"claimName": f"c-{i}"}} for i in range(8000)]
        key = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
        world.pod("volumes", spec={"volumes": volumes})
        world.pod("claims", spec={"volumes": claims})
        world.pod("tolerations", spec={"tolerations": [{"key": f"k-{i}", "operator": "Exists"} for i in range(20_000)]})
        world.pod("seconds", spec={"tolerations": [{**key, "tolerationSeconds": 2**63 - 1}]})
        world.pod("annotation", annotations={"karpenter.sh/do-not-disrupt": "\"" * 260_000})
        world.pod("web")
        world.start()
        world.imds.spot(600)
        world.must(lambda: not world.pods(), "all of them", 30)
        self.assertEvictedOnce(world, "volumes", "claims", "tolerations", "seconds", "annotation", "web")
        world.must(lambda: world.annotation().get("phase") == "Drained", "the end", 30)

    def crowd(self, world: DaemonWorld, **more: Any) -> None:
        """What a tenant can do who may create pods and no more: bind them here by spec.nodeName."""
        for i in range(CROWD):
            world.pod(f"crowd-{i:04}", namespace="aaa", **more)

    def test_pods_that_have_ended_crowd_out_nobody(self) -> None:
        world = self.node_world()
        self.crowd(world, phase="Failed")
        world.pod("web", namespace="zzz")
        world.start()
        world.imds.spot(600)
        world.must(lambda: world.annotation().get("phase") == "Drained", "the end", 60)
        self.assertEvictedOnce(world, "web")
        self.assertNotIn("web", world.pods())
        self.assertEqual(world.drain()["pods"]["excluded"]["terminal"], 0, "they are not even listed")

    def test_not_drained_before_every_pod_was_seen(self) -> None:
        world = self.node_world()
        stay = {"karpenter.sh/do-not-disrupt": "true"}
        self.crowd(world, phase="Pending", annotations=stay, status={"startTime": None})
        names = ["web-0", "web-1", "web-2"]
        for name in names:
            world.pod(name, namespace="zzz")
        waiting = ["wait-0", "wait-1"]
        for name in waiting:
            world.pod(name, namespace="zzz", phase="Pending", annotations=stay, status={"startTime": None})
        budget = world.budget("web", *names, namespace="zzz", allowed=0)
        world.start()
        world.imds.spot(600)
        for name in names:  # kubelet has started them: they are not crowded out
            world.must(lambda: world.evictions(name), f"an eviction of {name}", 60)
        world.must(lambda: world.annotation().get("incomplete") == "TooManyPods", "what is said of it")
        self.assertEqual(world.annotation()["phase"], "Evicting")
        self.assertIn("PodListIncomplete", world.events())
        world.must(lambda: world.drain()["incomplete"] == "TooManyPods", "status.json")
        world.must(
            lambda: world.metrics()["nodeclaimd_drain_list_incomplete"]['{reason="TooManyPods"}'] == 1, "the metric"
        )
        world.must(lambda: any("the list of pods is incomplete: TooManyPods" in s for s in world.heard()), "STATUS=")
        budget.allowed = 3
        world.must(lambda: not set(names) & set(world.pods()), "their end", 30)

        def remove(namespace: str, names: list[str]) -> None:
            for name in names:
                world.api.store.delete(PODS_RESOURCE, name, namespace)

        # The crowd goes, and nothing that is known is left: but there are two more.
        world.api.on_loop(lambda: remove("aaa", [f"crowd-{i:04}" for i in range(CROWD)]))
        world.must(lambda: world.annotation().get("remaining") == 2 and "incomplete" not in world.annotation(), "the rest", 30)
        self.assertEqual(world.annotation()["blocked"], ["zzz/wait-0", "zzz/wait-1"])
        self.assertNotEqual(world.condition("Drained")[0], "True")
        self.assertNotIn("NodeDrained", world.events())
        world.api.on_loop(lambda: remove("zzz", waiting))
        world.must(lambda: world.annotation().get("phase") == "Drained", "the end", 30)

    def test_hundreds_of_pods_leave(self) -> None:
        world = self.node_world()
        for i in range(LEAVING):
            world.pod(f"web-{i:04}")
        world.start()
        world.imds.spot(600)
        world.must(lambda: not world.pods(), "all of them", 90)
        accepted = [s.what for s in world.evictions(accepted=True)]
        self.assertEqual((len(accepted), len(set(accepted))), (LEAVING, LEAVING))
        world.must(lambda: world.annotation().get("phase") == "Drained", "the end", 30)
        self.assertEqual(world.annotation()["total"], LEAVING)
        if PATIENCE == 1:
            self.assertLess(world.memory_kib(), LIMIT_KIB + CONNECTIONS_KIB)


if __name__ == "__main__":
    unittest.main()
