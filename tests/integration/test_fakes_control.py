"""The fakes themselves, for what the controller meets. The expected words are those of a real kube-apiserver 1.34.4."""

from __future__ import annotations

import http.client
import json
import unittest
from typing import Any

from test_fakes import MERGE, SMP, Client, WithApi

from apiserver import CONTROLLER_TOKEN
from listing import TOO_OLD
from rbac import CONTROLLER_NAMESPACE, CONTROLLER_USER

NODES, CLAIMS = "/api/v1/nodes", "/apis/karpenter.sh/v1/nodeclaims"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{CONTROLLER_NAMESPACE}/leases"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
TIME = "2026-11-22T00:00:00Z"


class ControlTest(WithApi):
    def setUp(self) -> None:
        super().setUp()
        self.api.cluster.behave.karpenter = False
        self.control = Client(self.api, CONTROLLER_TOKEN)

    def claim(self, name: str = "c", **meta: Any) -> dict[str, Any]:
        spec = {"requirements": [], "nodeClassRef": {"name": "default"}}
        return self.api.put("nodeclaims", {"metadata": {"name": name, **meta}, "spec": spec, "status": {}})

    def test_rights(self) -> None:
        self.claim()
        self.expect(self.control("GET", CLAIMS), 200)
        self.expect(self.control("GET", "/apis/karpenter.sh/v1/nodepools"), 200)
        self.expect(self.control("GET", "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"), 200)
        got = self.expect(self.control("GET", "/api/v1/pods"), 403)
        self.assertEqual(
            got["message"],
            f'pods is forbidden: User "{CONTROLLER_USER}" cannot list resource "pods" in API group "" at the cluster scope',
        )
        got = self.expect(self.control("PUT", f"{CLAIMS}/c", {}), 403)
        self.assertEqual(
            got["message"],
            f'nodeclaims.karpenter.sh "c" is forbidden: User "{CONTROLLER_USER}" cannot update resource "nodeclaims" in API '
            'group "karpenter.sh" at the cluster scope',
        )
        for method, path in (
            ("GET", "/api/v1/namespaces/default/secrets"),
            ("GET", "/api/v1/namespaces/kube-node-lease/secrets/x"),
            ("POST", CLAIMS),
            ("PATCH", NODES + "/n/status"),
            ("POST", "/api/v1/namespaces/default/pods/p/eviction"),
            ("DELETE", LEASES + "/nodeclaim-controller"),
            ("PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/x"),
        ):
            self.expect(self.control(method, path, {}), 403, "is forbidden: User")
        self.assertEqual(Client(self.api, "another")("GET", CLAIMS)[0], 401)

    def test_discovery(self) -> None:
        groups = {g["name"]: g for g in self.expect(self.control("GET", "/apis"), 200)["groups"]}
        self.assertEqual(groups["karpenter.sh"]["preferredVersion"]["groupVersion"], "karpenter.sh/v1")
        names = [r["name"] for r in self.expect(self.control("GET", "/apis/karpenter.sh/v1"), 200)["resources"]]
        self.assertEqual(names, ["nodeclaims", "nodeclaims/status", "nodepools", "nodepools/status"])
        self.api.karpenter_version = "v1beta1"
        self.expect(self.control("GET", CLAIMS), 404, "the server could not find the requested resource")
        self.claim()
        got = self.expect(self.admin("GET", "/apis/karpenter.sh/v1beta1/nodeclaims/c"), 200)
        self.assertEqual(got["apiVersion"], "karpenter.sh/v1beta1")
        self.assertEqual(
            [v["version"] for v in self.expect(self.control("GET", "/apis/karpenter.sh"), 200)["versions"]], ["v1beta1"]
        )
        self.api.karpenter_version = ""
        self.expect(self.control("GET", "/apis/karpenter.sh"), 404)

    def test_lease(self) -> None:
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "nodeclaim-controller"},
            "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-11-22T00:00:00.000000Z"},
        }
        self.expect(self.control("GET", LEASES + "/nodeclaim-controller"), 404, 'leases.coordination.k8s.io \\"nodeclaim-controller\\" not found')
        made = self.expect(self.control("POST", LEASES, lease), 201)
        self.expect(self.control("POST", LEASES, lease), 409, "AlreadyExists")
        self.expect(self.control("PUT", LEASES + "/nodeclaim-controller", lease), 422, "must be specified for an update")
        made["spec"]["holderIdentity"] = "b"
        del made["metadata"]["uid"]  # who leaves it out means this one
        self.expect(self.control("PUT", LEASES + "/nodeclaim-controller", made), 200)
        got = self.expect(self.control("PUT", LEASES + "/nodeclaim-controller", made), 409)
        self.assertEqual(
            got["message"],
            'Operation cannot be fulfilled on leases.coordination.k8s.io "nodeclaim-controller": the object has been modified; please apply your '
            "changes to the latest version and try again",
        )
        del lease["spec"]["renewTime"]
        lease["metadata"] = {"name": "y"}
        for key, value in (("leaseDurationSeconds", 0), ("renewTime", "2026-11-22T00:00:00Z"), ("leaseTransitions", -1)):
            bad = {**lease, "spec": {**lease["spec"], key: value}}
            self.expect(self.control("POST", LEASES, bad), 422, f"spec.{key}: Invalid value")

    def test_pages(self) -> None:
        for i in range(7):
            self.claim(f"c-{i}")
        got = self.expect(self.control("GET", f"{CLAIMS}?limit=3"), 200)
        names = [c["metadata"]["name"] for c in got["items"]]
        self.assertEqual(got["metadata"]["remainingItemCount"], 4)
        self.expect(self.admin("DELETE", f"{CLAIMS}/c-0"), 200)  # later pages show the moment of the first
        self.claim("c-31")
        second = self.expect(self.control("GET", f"{CLAIMS}?limit=3&continue={got['metadata']['continue']}"), 200)
        self.assertEqual(second["metadata"]["resourceVersion"], got["metadata"]["resourceVersion"])
        third = self.expect(self.control("GET", f"{CLAIMS}?limit=3&continue={second['metadata']['continue']}"), 200)
        names += [c["metadata"]["name"] for c in second["items"] + third["items"]]
        self.assertEqual(names, [f"c-{i}" for i in range(7)])
        self.assertNotIn("continue", third["metadata"])
        self.api.on_loop(self.api.store.compact)
        old = self.expect(self.control("GET", f"{CLAIMS}?limit=3&continue={second['metadata']['continue']}"), 410)
        self.assertEqual((old["reason"], old["message"]), ("Expired", TOO_OLD))
        rest = self.expect(self.control("GET", f"{CLAIMS}?limit=9&continue={old['metadata']['continue']}"), 200)
        self.assertEqual([c["metadata"]["name"] for c in rest["items"]], ["c-6"])
        self.expect(self.control("GET", f"{CLAIMS}?limit=3&continue=nonsense"), 400, "continue key is not valid")

    def test_only_metadata(self) -> None:
        self.claim("c", annotations={"a": "b"})
        got = self.expect(self.admin("GET", f"{CLAIMS}/c", accept=PARTIAL), 200)
        self.assertEqual((got["kind"], got["metadata"]["annotations"], set(got)), (
            "PartialObjectMetadata", {"a": "b"}, {"kind", "apiVersion", "metadata"}))
        got = self.expect(self.control("GET", CLAIMS, accept=PARTIAL_LIST), 200)
        self.assertEqual((got["kind"], set(got["items"][0])), ("PartialObjectMetadataList", {"kind", "apiVersion", "metadata"}))
        got = self.expect(self.control("PATCH", f"{CLAIMS}/c", {"metadata": {"labels": {"x": "y"}}}, MERGE, PARTIAL), 200)
        self.assertEqual((got["kind"], got["metadata"]["labels"]), ("PartialObjectMetadata", {"x": "y"}))

    def test_watch_of_metadata_with_bookmarks_and_410(self) -> None:
        self.api.bookmark_sec = 0.2
        start = self.api.on_loop(lambda: self.api.store.version)
        conn = http.client.HTTPSConnection("127.0.0.1", self.api.server.port, context=self.control.context, timeout=5)
        headers = {"Authorization": f"Bearer {CONTROLLER_TOKEN}", "Accept": PARTIAL}
        conn.request("GET", f"{CLAIMS}?watch=1&allowWatchBookmarks=true&resourceVersion={start}", headers=headers)
        answer = conn.getresponse()
        self.claim()
        seen = [json.loads(answer.readline()) for _ in range(2)]
        self.assertEqual([(e["type"], e["object"]["kind"]) for e in seen], [
            ("ADDED", "PartialObjectMetadata"), ("BOOKMARK", "PartialObjectMetadata")])
        self.api.on_loop(self.api.expire)
        while True:
            event = json.loads(answer.readline())
            if event["type"] != "BOOKMARK":
                break
        self.assertEqual((event["type"], event["object"]["code"], event["object"]["reason"]), ("ERROR", 410, "Expired"))
        conn.close()

    def test_deletion(self) -> None:
        uid = self.claim("c", finalizers=["karpenter.sh/termination"])["metadata"]["uid"]
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "wrong"}}
        got = self.expect(self.control("DELETE", f"{CLAIMS}/c", options), 409)
        self.assertEqual(
            got["message"],
            f'Operation cannot be fulfilled on NodeClaim.karpenter.sh "c": the UID in the precondition (wrong) does not match '
            f"the UID in record ({uid}). The object might have been deleted and then recreated",
        )
        self.assertEqual(got["reason"], "Conflict")
        options["preconditions"]["uid"] = uid
        first = self.expect(self.control("DELETE", f"{CLAIMS}/c", options), 200)
        self.assertTrue(first["metadata"]["deletionTimestamp"])
        self.assertEqual(first["metadata"]["deletionGracePeriodSeconds"], 0)
        self.assertEqual(self.expect(self.control("DELETE", f"{CLAIMS}/c", options), 200), first)  # nothing is written
        more = {"metadata": {"finalizers": ["karpenter.sh/termination", "a/b"]}}
        self.expect(self.control("PATCH", f"{CLAIMS}/c", more, MERGE), 422, "no new finalizers can be added")
        self.expect(self.control("PATCH", f"{CLAIMS}/c", {"metadata": {"deletionTimestamp": None}}, MERGE), 200)
        self.assertIn("deletionTimestamp", self.expect(self.admin("GET", f"{CLAIMS}/c"), 200)["metadata"])
        self.expect(self.control("PATCH", f"{CLAIMS}/c", {"metadata": {"finalizers": None}}, MERGE), 200)
        self.expect(self.admin("GET", f"{CLAIMS}/c"), 404, 'nodeclaims.karpenter.sh \\"c\\" not found')
        uid = self.claim("d")["metadata"]["uid"]
        self.assertEqual(
            self.expect(self.control("DELETE", f"{CLAIMS}/d"), 200),
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Success",
                "details": {"name": "d", "group": "karpenter.sh", "kind": "nodeclaims", "uid": uid},
            },
        )

    def test_patches(self) -> None:
        version = self.claim()["metadata"]["resourceVersion"]
        path = f"{CLAIMS}/c"
        lock = {"metadata": {"resourceVersion": version, "annotations": {"a": "1"}}}
        self.expect(self.control("PATCH", path, lock, SMP), 415, "application/merge-patch+json")
        got = self.expect(self.control("PATCH", path, lock, MERGE), 200)
        self.expect(self.control("PATCH", path, lock, MERGE), 409, "the object has been modified")
        self.expect(self.control("PATCH", path, {"spec": {"expireAfter": "1h"}}, MERGE), 422, "spec is immutable")
        self.expect(self.control("PATCH", path, {"status": {"nodeName": "n"}}, MERGE), 200)
        self.assertEqual(self.expect(self.admin("GET", path), 200)["status"], {})
        version = got["metadata"]["resourceVersion"]
        ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": TIME}
        status = {"metadata": {"resourceVersion": version}, "status": {"conditions": [ready], "nodeName": "n"}}
        self.expect(self.control("PATCH", path + "/status", {**status, "spec": {"a": 1}}, MERGE), 200)
        self.expect(self.control("PATCH", path + "/status", status, MERGE), 409, "the object has been modified")
        for key, value in (("reason", ""), ("reason", "no words"), ("status", "Maybe"), ("message", None), ("type", "a b")):
            bad = {"status": {"conditions": [{**ready, key: value}]}}
            self.expect(self.control("PATCH", path + "/status", bad, MERGE), 422, f"status.conditions[0].{key}")
        both = {"status": {"conditions": [ready, {**ready, "status": "False"}]}}
        self.expect(self.control("PATCH", path + "/status", both, MERGE), 422, "Duplicate value")
        node = self.api.put("nodes", {"metadata": {"name": "n"}, "spec": {"taints": []}})
        taints = {"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}}
        taints["metadata"] = {"resourceVersion": node["metadata"]["resourceVersion"]}  # type: ignore[assignment]
        self.expect(self.control("PATCH", f"{NODES}/n", taints, MERGE), 200)
        self.expect(self.control("PATCH", f"{NODES}/n", taints, MERGE), 409, "the object has been modified")

    def test_faults_reach_these_paths(self) -> None:
        self.claim()
        self.api.server.fault("status", path="nodeclaims", method="DELETE", status=429, count=1, headers={"Retry-After": "1"})
        self.assertEqual(self.control("DELETE", f"{CLAIMS}/c")[0], 429)
        self.assertEqual(self.control("DELETE", f"{CLAIMS}/c")[0], 200)
        self.api.server.fault("lost", path="leases", count=1)
        with self.assertRaises((http.client.HTTPException, OSError)):
            self.control("POST", LEASES, {"metadata": {"name": "nodeclaim-controller"}})
        self.assertEqual(self.control("GET", f"{LEASES}/nodeclaim-controller")[0], 200)


if __name__ == "__main__":
    unittest.main()
