"""The fakes themselves, for what a drain meets. The expected words are those of a real kube-apiserver 1.34.4."""

from __future__ import annotations

import http.client
import json
import math
import socket
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any, Optional

from harness import until
from test_fakes import MERGE, NODE, SMP, WithApi, get

from bus import LOGIN, Bus
from dbuswire import CALL, Message, read_message
from imds import Imds
from pods import Budget, epoch, stamp

PODS = "/api/v1/namespaces/default/pods"


class PodsTest(WithApi):
    def setUp(self) -> None:
        super().setUp()
        self.api.kubelet.running = False

    def pod(self, name: str, node: str = NODE, phase: str = "Running", grace: int = 30, **meta: Any) -> str:
        made = self.api.put(
            "pods",
            {
                "metadata": {"name": name, **meta},
                "spec": {"nodeName": node, "terminationGracePeriodSeconds": grace},
                "status": {"phase": phase},
            },
            "default",
        )
        return made["metadata"]["uid"]

    def evict(self, name: str, uid: Optional[str] = None, namespace: str = "default") -> tuple[int, Any]:
        options = {"preconditions": {"uid": uid}} if uid else {}
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        return self.node("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)

    def remove(self, name: str, grace: Optional[int] = None, **more: Any) -> tuple[int, Any]:
        body = {"kind": "DeleteOptions", "apiVersion": "v1", **more}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        return self.node("DELETE", f"{PODS}/{name}", body)

    def meta(self, name: str) -> dict[str, Any]:
        return self.expect(self.admin("GET", f"{PODS}/{name}"), 200)["metadata"]

    def test_eviction(self) -> None:
        uid = self.pod("a")
        self.pod("theirs", "other")
        self.assertEqual(self.evict("nope", "x")[1]["message"], 'pod "nope" not found')
        self.expect(self.evict("a", "wrong"), 409, "does not match the UID in record")
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {}}
        self.expect(self.node("POST", f"{PODS}/a/eviction", body), 400, "name in URL does not match")
        self.expect(self.evict("theirs"), 403, f"node {NODE} can only evict pods with spec.nodeName set to itself")
        self.assertNotIn("deletionTimestamp", self.meta("a"))
        got = self.expect(self.evict("a", uid), 201)
        self.assertEqual(got, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
        pod = self.expect(self.node("GET", f"{PODS}/a"), 200)
        self.assertEqual(pod["metadata"]["deletionGracePeriodSeconds"], 30)
        self.assertLess(abs(epoch(pod["metadata"]["deletionTimestamp"]) - time.time() - 30), 2)
        self.assertEqual(
            [(c["type"], c["reason"]) for c in pod["status"]["conditions"]],
            [("DisruptionTarget", "EvictionByEvictionAPI")],
        )
        self.expect(self.evict("a", uid), 201)

    def test_budgets(self) -> None:
        for name in ("w", "m", "s", "left-1", "left-2"):
            self.pod(name)
        self.pod("pending", phase="Pending")
        self.api.pods.budgets += [
            Budget("b1", {"w", "pending"}),
            Budget("b2", {"m"}, allowed=1),
            Budget("b3", {"m"}, allowed=1),
            Budget("b4", {"s"}, allowed=None),
            Budget("b5", {"left-1", "left-2"}, min_available=1),
        ]
        got = self.expect(self.evict("w"), 429)
        self.assertEqual(
            got,
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": "Cannot evict pod as it would violate the pod's disruption budget.",
                "reason": "TooManyRequests",
                "details": {
                    "causes": [
                        {
                            "reason": "DisruptionBudget",
                            "message": "The disruption budget b1 needs 3 healthy pods and has 3 currently",
                        }
                    ]
                },
                "code": 429,
            },
        )
        got = self.expect(self.evict("m"), 500, "more than one PodDisruptionBudget, which the eviction subresource")
        self.assertNotIn("reason", got)
        self.assertEqual(
            self.expect(self.evict("s"), 429, "b4 is still being processed")["details"]["retryAfterSeconds"], 10
        )
        self.expect(self.evict("pending"), 201)
        self.expect(self.evict("left-1"), 201)
        self.expect(self.evict("left-2"), 429, "The disruption budget b5 needs 1 healthy pods and has 1 currently")
        self.expect(self.remove("w", 5), 200)
        asked = self.api.pods.budgets[0].asked
        self.expect(self.evict("w"), 201)  # it is terminating: no budget is asked
        self.assertEqual(self.api.pods.budgets[0].asked, asked)

    def test_namespace_that_is_being_deleted(self) -> None:
        self.api.put("namespaces", {"metadata": {"name": "doomed", "finalizers": ["kubernetes"]}})
        made = self.api.put("pods", {"metadata": {"name": "d"}, "spec": {"nodeName": NODE}}, "doomed")
        self.expect(self.admin("DELETE", "/api/v1/namespaces/doomed"), 200)
        got = self.expect(self.evict("d", made["metadata"]["uid"], "doomed"), 403, "because it is being terminated")
        self.assertEqual(got["details"]["causes"][0]["reason"], "NamespaceTerminating")
        self.expect(self.node("DELETE", "/api/v1/namespaces/doomed/pods/d"), 200)

    def test_deletion_counts_from_the_first_request(self) -> None:
        self.pod("g", grace=3600)
        self.expect(self.remove("g", preconditions={"uid": "wrong"}), 409)
        self.expect(self.remove("nope"), 404, 'pods \\"nope\\" not found')
        start = time.time()
        self.expect(self.remove("g", 100), 200)
        first = epoch(self.meta("g")["deletionTimestamp"])
        self.assertLessEqual(abs(first - start - 100), 2)
        for grace in (200, 100, None):
            self.expect(self.remove("g", grace), 200)
            self.assertEqual(self.meta("g")["deletionTimestamp"], stamp(first))
        self.api.clock_ahead_sec = 9.0
        self.expect(self.remove("g", 50), 200)
        self.assertEqual(
            (self.meta("g")["deletionTimestamp"], self.meta("g")["deletionGracePeriodSeconds"]), (stamp(first - 50), 50)
        )
        self.expect(self.remove("g", 6), 200)  # was over three seconds ago
        self.assertEqual(self.meta("g")["deletionGracePeriodSeconds"], 1)
        self.assertLessEqual(abs(epoch(self.meta("g")["deletionTimestamp"]) - self.api.now()), 1.5)
        self.expect(self.remove("g", 0), 200)
        self.expect(self.admin("GET", f"{PODS}/g"), 404)

    def test_what_vanishes_at_once(self) -> None:
        self.pod("done", phase="Succeeded")
        self.pod("failed", phase="Failed")
        self.pod("zero", grace=0)
        for name in ("done", "failed", "zero"):
            self.expect(self.remove(name), 200)
            self.expect(self.admin("GET", f"{PODS}/{name}"), 404)
        self.pod("negative")
        self.expect(self.remove("negative", -5), 200)
        self.assertEqual(self.meta("negative")["deletionGracePeriodSeconds"], 1)

    def test_what_a_node_may_with_pods(self) -> None:
        self.pod("mine")
        self.pod("theirs", "other")
        mark = {"status": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}}
        self.expect(self.node("PATCH", f"{PODS}/mine/status", mark, SMP), 200)
        self.expect(
            self.node("PATCH", f"{PODS}/mine/status", {"metadata": {"uid": "x"}, **mark}, SMP),
            422,
            "field is immutable",
        )
        self.expect(self.node("PATCH", f"{PODS}/theirs/status", mark, SMP), 403, "can only update pod status")
        self.expect(self.node("PATCH", f"{PODS}/none/status", mark, SMP), 404)
        self.expect(self.node("PATCH", f"{PODS}/mine", {"metadata": {"annotations": {"a": "b"}}}, MERGE), 403)
        self.expect(self.node("GET", f"{PODS}/mine"), 200)
        self.expect(self.node("GET", f"{PODS}/theirs"), 403, "no relationship found between node")
        self.expect(self.node("GET", "/api/v1/pods?watch=1"), 403, "cannot watch resource")
        self.expect(self.node("DELETE", f"{PODS}?fieldSelector=spec.nodeName={NODE}"), 405)

    def test_volumes(self) -> None:
        claim = {"metadata": {"name": "data"}, "spec": {"volumeName": "pv-1"}}
        self.api.put("persistentvolumeclaims", claim, "default")
        ref = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"}
        self.api.put("persistentvolumes", {"metadata": {"name": "pv-1"}, "spec": {"claimRef": ref}})
        self.api.put("persistentvolumes", {"metadata": {"name": "pv-2"}, "spec": {"claimRef": {**ref, "name": "others"}}})
        path = "/api/v1/namespaces/default/persistentvolumeclaims/data"
        self.expect(self.node("GET", path), 403, "no relationship found")
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
        self.api.put("pods", {"metadata": {"name": "p"}, "spec": {"nodeName": NODE, "volumes": volumes}}, "default")
        self.assertEqual(self.expect(self.node("GET", path), 200)["spec"]["volumeName"], "pv-1")
        self.expect(self.node("GET", "/api/v1/persistentvolumes/pv-1"), 200)
        self.expect(self.node("GET", "/api/v1/persistentvolumes/pv-2"), 403, "no relationship found")
        self.expect(self.node("GET", "/api/v1/persistentvolumes"), 403)

    def test_toy_kubelet(self) -> None:
        kubelet = self.api.kubelet
        kubelet.running = True
        for name in ("quick", "slow", "stuck"):  # deletionTimestamp has whole seconds: of one second nothing may be left
            self.pod(name, grace=2)
        kubelet.stops_after["slow"] = math.inf
        kubelet.stuck.add("stuck")
        for name in ("quick", "slow", "stuck"):
            self.expect(self.evict(name), 201)
        self.until(lambda: "quick" in kubelet.gone and "slow" in kubelet.gone)
        self.assertEqual(kubelet.ended, {"quick": "stopped", "slow": "killed"})
        self.assertLess(kubelet.gone["quick"], kubelet.gone["slow"])
        self.assertEqual([p["metadata"]["name"] for p in self.api.objects("pods")], ["stuck"])

    def test_lists_that_are_longer_than_memory(self) -> None:
        for i in range(30):
            self.pod(f"p{i:02}")
        self.api.padding_bytes = 1 << 20
        selector = f"fieldSelector=spec.nodeName={NODE}"
        got = self.expect(self.node("GET", f"/api/v1/pods?{selector}&limit=20"), 200)
        self.assertEqual(len(got["items"]), 20)
        self.assertGreater(len(json.dumps(got["items"][0])), 900_000)
        self.assertNotIn("kind", got["items"][0])
        got = self.expect(
            self.node("GET", f"/api/v1/pods?{selector}&limit=20&continue={got['metadata']['continue']}"), 200
        )
        self.assertEqual([p["metadata"]["name"] for p in got["items"]][-1], "p29")
        self.expect(self.node("GET", f"/api/v1/pods?{selector}&continue=x!"), 400, "invalid continue token")
        small = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"
        self.expect(self.node("GET", f"/api/v1/pods?{selector}", accept=small.format("")), 406, "is a list")
        got = self.expect(
            self.node("GET", f"/api/v1/pods?{selector}&limit=3&resourceVersion=0", accept=small.format("List")), 200
        )
        self.assertEqual((got["kind"], len(got["items"])), ("PartialObjectMetadataList", 30))

    def test_a_selector_that_an_object_leaves(self) -> None:
        """As the real watch cache has it: DELETED, with the object as it was, also for a watch that goes on from a version."""
        self.pod("a")
        self.pod("ended", phase="Failed")
        selector = f"fieldSelector=spec.nodeName={NODE},status.phase!=Succeeded,status.phase!=Failed"
        got = self.expect(self.node("GET", f"/api/v1/pods?{selector}"), 200)
        self.assertEqual([p["metadata"]["name"] for p in got["items"]], ["a"])
        conn = http.client.HTTPSConnection("127.0.0.1", self.api.server.port, context=self.node.context, timeout=5)
        version = got["metadata"]["resourceVersion"]
        conn.request("GET", f"/api/v1/pods?watch=1&{selector}&resourceVersion={version}")
        answer = conn.getresponse()
        for phase in ("Succeeded", "Running"):
            status = [{"op": "replace", "path": "/status/phase", "value": phase}]
            self.expect(self.admin("PATCH", f"{PODS}/a/status", status, "application/json-patch+json"), 200)
        seen = [json.loads(answer.readline()) for _ in range(2)]
        self.assertEqual([(e["type"], e["object"]["status"]["phase"]) for e in seen], [("DELETED", "Running"), ("ADDED", "Running")])
        self.assertGreater(int(seen[0]["object"]["metadata"]["resourceVersion"]), int(version))
        self.pod("ended-too", phase="Failed")
        self.pod("b")
        event = json.loads(answer.readline())
        self.assertEqual((event["type"], event["object"]["metadata"]["name"]), ("ADDED", "b"))
        conn.close()

    def test_watch_that_expires(self) -> None:
        conn = http.client.HTTPSConnection("127.0.0.1", self.api.server.port, context=self.node.context, timeout=5)
        conn.request("GET", f"/api/v1/pods?watch=1&fieldSelector=spec.nodeName={NODE}")
        answer = conn.getresponse()
        self.pod("a")
        self.assertEqual(json.loads(answer.readline())["type"], "ADDED")
        self.api.on_loop(self.api.expire)
        event = json.loads(answer.readline())
        self.assertEqual((event["type"], event["object"]["code"]), ("ERROR", 410))
        self.assertEqual(answer.read(), b"")
        conn.close()

    def test_faults_of_answers(self) -> None:
        self.pod("a")
        held = self.api.server.fault("hold", path="/eviction")
        conn = http.client.HTTPSConnection("127.0.0.1", self.api.server.port, context=self.node.context, timeout=5)
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
        conn.request("POST", f"{PODS}/a/eviction", json.dumps(body))
        self.until(lambda: "deletionTimestamp" in self.meta("a"))
        entry = [e for e in self.api.server.log.snapshot() if e["path"].endswith("a/eviction")][0]
        self.assertEqual(entry["sent"], 0.0)
        self.api.server.release(held)
        self.assertEqual(conn.getresponse().status, 201)
        conn.close()
        self.pod("b")
        self.api.server.fault("lost", path="b/eviction", count=1)
        with self.assertRaises(OSError):
            self.evict("b")
        self.assertIn("deletionTimestamp", self.meta("b"))
        self.api.server.fault("half", path="/api/v1/nodes", count=1)
        with self.assertRaises((http.client.RemoteDisconnected, OSError)):
            self.node("GET", f"/api/v1/nodes/{NODE}")
        entry = [e for e in self.api.server.log.snapshot() if e["path"].endswith("b/eviction")][0]
        self.assertEqual(json.loads(entry["body"])["metadata"]["name"], "b")
        self.api.server.away(0.3)
        with self.assertRaises(OSError):
            self.evict("b")
        self.until(lambda: self._reachable())

    def _reachable(self) -> bool:
        try:
            return self.admin("GET", "/healthz")[0] == 200
        except OSError:
            return False

    def test_node_with_a_finalizer(self) -> None:
        self.expect(self.node("POST", "/api/v1/nodes", self.new_node(finalizers=["karpenter.sh/termination"])), 201)
        self.expect(self.admin("DELETE", f"/api/v1/nodes/{NODE}"), 200)
        patch = {"metadata": {"annotations": {"nodeclaimd.io/drain-status": "{}"}}, "status": {"conditions": []}}
        got = self.expect(self.node("PATCH", f"/api/v1/nodes/{NODE}/status", patch, SMP), 200)
        self.assertIn("deletionTimestamp", got["metadata"])
        self.assertEqual(got["metadata"]["annotations"], {"nodeclaimd.io/drain-status": "{}"})
        self.expect(self.admin("PATCH", f"/api/v1/nodes/{NODE}", {"metadata": {"finalizers": None}}, MERGE), 200)
        self.expect(self.node("GET", f"/api/v1/nodes/{NODE}"), 404)


class NoticesTest(unittest.TestCase):
    def test_notices(self) -> None:
        with Imds.of("c5a.large-spot") as imds:
            _, token = get(imds.url + "/latest/api/token", "PUT", X_aws_ec2_metadata_token_ttl_seconds="60")

            def read(path: str) -> tuple[int, bytes]:
                return get(f"{imds.url}/latest/meta-data/{path}", X_aws_ec2_metadata_token=token.decode())

            self.assertEqual(read("spot/instance-action")[0], 404)
            self.assertEqual(read("events/maintenance/scheduled"), (200, b"[]"))
            self.assertEqual(read("instance-life-cycle"), (200, b"spot"))
            when = imds.spot(120)
            self.assertEqual(json.loads(read("spot/instance-action")[1]), {"action": "terminate", "time": when})
            imds.spot(None)
            self.assertEqual(read("spot/instance-action")[0], 404)
            imds.rebalance()
            self.assertIn("noticeTime", json.loads(read("events/recommendations/rebalance")[1]))
            imds.maintenance(imds.maintenance_event(86400))
            event = json.loads(read("events/maintenance/scheduled")[1])[0]
            self.assertRegex(event["NotBefore"], r"^\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$")
            imds.target_state("Terminated")
            self.assertEqual(read("autoscaling/target-lifecycle-state"), (200, b"Terminated"))
            imds.clock_ahead_sec = 600
            conn = http.client.HTTPConnection("127.0.0.1", imds.server.port, timeout=5)
            conn.request("GET", "/latest/meta-data/mac")
            date = conn.getresponse().headers["Date"]
            conn.close()
            shown = time.strptime(date, "%a, %d %b %Y %H:%M:%S GMT")
            self.assertLess(abs(time.mktime(shown) - time.mktime(time.gmtime()) - 600), 3)


class LogindTest(unittest.TestCase):
    def test_inhibitor(self) -> None:
        with tempfile.TemporaryDirectory() as folder, Bus(Path(folder), Path(folder)) as bus:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(5)
                sock.connect(str(bus.path))
                sock.sendall(b"\0AUTH EXTERNAL 30\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n")
                said = b""
                while said.count(b"\r\n") < 2:
                    said += sock.recv(64)
                fields = {
                    "path": "/org/freedesktop/login1",
                    "interface": LOGIN + ".Manager",
                    "member": "Inhibit",
                    "destination": LOGIN,
                    "signature": "ssss",
                }
                sock.sendall(Message(CALL, 0, fields, ["shutdown", "me", "why", "delay"]).encode(1))
                data, fds, _, _ = socket.recv_fds(sock, 4096, 1)
                self.assertEqual(len(fds), 1)
                self.assertEqual([i.who for i in bus.held()], ["me"])
                bus.prepare_for_shutdown()
                heard = read_message(sock)
                self.assertEqual((heard.member, heard.body), ("PrepareForShutdown", [1]))
                socket.socket(fileno=fds[0]).close()
                self.assertEqual(until(lambda: not bus.held()), True)


if __name__ == "__main__":
    unittest.main(verbosity=1)
