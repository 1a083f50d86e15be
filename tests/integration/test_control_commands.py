"""What the controller tells: status, metrics, probes; who else is there; its command line."""

from __future__ import annotations

import contextlib
import http.server
import json
import re
import socket
import threading
import time
import unittest

from controlling import ControlTest, ControlWorld, ToyAgent, stamp
from promtext import MANUAL, check_with_promtool, documented_families, families_of
from rbac import CONTROLLER_USER, RELAY

KARPENTER_LEASE = "karpenter-leader-election"


class Telling(ControlTest):
    def test_status(self) -> None:
        world = self.control_world()
        for name in ("calm", "spot", "told"):
            world.pair(name)
        world.node("lonely")
        world.start()
        world.say("told", policy="report", phase="Detected")
        deadline = world.say("spot", phase="Evicting", remaining=2, blocked=["shop/db-0"]) or 0
        world.relayed("c-spot")
        world.must(lambda: world.status()["spot"]["claimDeletion"], "its claim's end")
        rows = world.status()
        self.assertEqual(set(rows), {"calm", "spot", "told", "lonely"})
        spot = rows["spot"]
        self.assertEqual(
            {k: spot[k] for k in ("claim", "pool", "phase", "source", "deadline", "remaining", "blocked", "state")},
            {"claim": "c-spot", "pool": "default", "phase": "Evicting", "source": "spot", "deadline": stamp(deadline),
             "remaining": 2, "blocked": spot["blocked"], "state": "relayed"},
        )
        self.assertIn("shop/db-0", json.dumps(spot["blocked"]))
        self.assertEqual((rows["lonely"]["claim"], rows["calm"]["phase"] or ""), (None, ""))
        self.assertEqual([rows[name]["policy"] for name in ("told", "spot", "calm")], ["report", None, None])
        code, text, err = world.run("status", "--metrics-address", world.addresses[world.proc.pid])
        self.assertEqual(code, 0, err)
        line = next(line for line in text.splitlines() if line.startswith("spot "))
        for word in ("c-spot", "Evicting", "shop/db-0"):
            self.assertIn(word, line)
        self.assertRegex(text, r"\ntold .* Detected .* report ")

    def test_status_of_fifty_thousand_nodes(self) -> None:
        """The table of a large cluster, from an answer as the controller gives it."""
        world = self.control_world()
        world.pair("calm")
        world.start()
        world.must(lambda: world.status().get("calm"), "its row")
        answer = json.loads(world.ask("/status")[1])
        row = answer["nodes"][0]
        answer["nodes"] = [{**row, "node": f"n{i}"} for i in range(50000)]
        body = json.dumps(answer).encode()

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *unused: object) -> None:
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
        threading.Thread(target=server.handle_request, daemon=True).start()
        self.addCleanup(server.server_close)
        code, text, err = world.run("status", "--metrics-address", f"127.0.0.1:{server.server_port}")
        self.assertEqual(code, 0, err)
        self.assertEqual(sum(line.startswith("n") and " c-calm " in line for line in text.splitlines()), 50000)

    def test_metrics(self) -> None:
        """promtool's rules hold, the numbers are those of what happened, and the manual names every family."""
        world = self.control_world()
        for i in range(5):
            world.pair(f"n{i}")
        world.start()
        world.metrics()
        for i in range(5):
            world.say(f"n{i}")
            world.relayed(f"c-n{i}")
        world.must(lambda: world.metric("relay_duration_seconds_count") == 5, "five relays")
        self.assertEqual(world.metric("objects", '{kind="Node"}'), 5)
        self.assertEqual(world.metric("objects", '{kind="NodeClaim"}'), 5)
        self.assertEqual(world.metric("leads"), 1)
        self.assertEqual(world.metric("write_answers_total", '{verb="delete-claim",answer="done"}'), 5)
        self.assertGreater(world.metric("relay_duration_seconds_sum"), 0)
        world.must(lambda: world.metric("in_flight") == 0, "rest")
        code, text, _ = world.run("status", "--metrics", "--metrics-address", world.addresses[world.proc.pid])
        self.assertEqual((code, text.startswith("# HELP")), (0, True))
        self.assertFalse(re.search(r"c-n\d", text), "no label is the name of an object")
        self.assertEqual(families_of(text, "nodeclaim_controller_"), documented_families("nodeclaim-controller.8"))
        check_with_promtool(text)

    def test_a_crowd_that_asks_for_metrics(self) -> None:
        """They walk all objects, and anybody may ask: what cost much is given again. A body names the CPU time of its making."""
        world = self.control_world()

        def nodes() -> None:
            for i in range(3_000):
                node = {"metadata": {"name": f"n{i}"}}
                world.api.store.create(world.api.resource("nodes"), node)

        world.api.on_loop(nodes)
        world.start()
        world.must(lambda: world.metric("objects", '{kind="Node"}') == 3_000, "all Nodes", 60)
        host, _, port = world.addresses[world.proc.pid].rpartition(":")
        made = set()
        with contextlib.ExitStack() as stack:
            crowd = [
                stack.enter_context(socket.create_connection((host, int(port)), 30, (f"127.0.2.{i // 4 + 1}", 0))) for i in range(100)
            ]
            for peer in crowd:
                peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            for peer in crowd:
                text = b"".join(iter(lambda p=peer: p.recv(65536), b"")).decode()
                made.add(re.search(r"(?m)^process_cpu_seconds_total (.*)$", text).group(1))
        self.assertLess(len(made), 50)

    def test_claims_without_a_node(self) -> None:
        """Which, since when, and why: by the last Event about this very NodeClaim, or its instance. Events are not listed otherwise."""
        world = self.control_world()
        world.pair("n1")
        world.start()
        world.must(lambda: world.metric("synced") == 1, "its lists")
        old = time.time() - 100
        broken = world.claim("c-broken", creationTimestamp=stamp(old))
        world.boot_failure(broken, "start: kubelet exits", at=old + 60)
        world.boot_failure(broken, "preflight: certificate signed by unknown authority\x1b[2J", at=old + 90)
        world.boot_failure({"metadata": {"name": "c-broken", "uid": "another"}}, "plan: of another claim", at=old + 95)
        world.boot_failure(world.claim("c-slow", creationTimestamp=stamp(old + 10)), "initialize: no CNI", at=old + 90, node="ip-10-0-0-9")
        world.claim("c-new", status={"providerID": ""})
        series = '{nodepool="default",cause="%s"}'
        world.must(lambda: world.metric("nodeclaims_without_node", series % "preflight") == 1, "the cause", 50)
        self.assertEqual(world.metric("nodeclaims_without_node", series % "initialize"), 1)
        self.assertEqual(world.metric("nodeclaims_without_node", series % "launch"), 1)
        self.assertEqual(world.metric("nodeclaims_without_node_oldest_timestamp_seconds", series % "preflight"), int(old))
        check_with_promtool(world.ask("/metrics")[1])
        code, text, err = world.run("status", "--metrics-address", world.addresses[world.proc.pid])
        self.assertEqual(code, 0, err)
        below = text.split("NodeClaims without a Node:\n")[1]
        self.assertIn("3 claims without a Node", text)
        self.assertEqual([line.split()[0] for line in below.splitlines()], ["CLAIM", "c-broken", "c-slow", "c-new"])
        instance = broken["status"]["providerID"].rpartition("/")[2]
        self.assertRegex(below, rf"c-broken +default +{instance} .* preflight +preflight: certificate signed by unknown authority\?\[2J")
        self.assertEqual(world.writes(), [], world.story())
        for name in ("c-broken", "c-slow"):
            world.change("nodeclaims", name, lambda c: c["status"].update(nodeName="n-" + c["metadata"]["name"]))
        world.must(lambda: world.metric("nodeclaims_without_node", series % "preflight") == -1, "that it is registered")

    def test_a_crowd_of_events(self) -> None:
        """Whoever may write Events writes more than anybody wants to keep: the list ends, that is said, and none follows at once."""
        world = self.control_world()
        broken = world.claim("c-broken", creationTimestamp=stamp(time.time() - 100))
        world.boot_failure(broken, "start: kubelet exits")
        about, events = {"kind": "NodeClaim", "name": "c-broken", "uid": "another"}, world.api.resource("events")

        def crowd() -> None:
            for i in range(2_500):
                forged = {"metadata": {"generateName": f"forged-{i}-"}, "involvedObject": about, "reason": "BootstrapFailed"}
                world.api.store.create(events, {**forged, "message": "start: x", "lastTimestamp": stamp(time.time())}, "default")

        for _ in range(5):
            world.api.on_loop(crowd)
        world.start()
        world.must(lambda: "more than 10000 are BootstrapFailed" in world.log(), "that it says so", 60)
        self.assertEqual(world.metric("nodeclaims_without_node", '{nodepool="default",cause="start"}'), 1)
        asked = self.lists_of_events(world)
        self.assertQuiet(world, 35)  # longer than from one list to the next
        self.assertEqual(self.lists_of_events(world), asked)

    def lists_of_events(self, world: ControlWorld) -> int:
        return len([e for e in world.api.server.log.snapshot() if e["method"] == "GET" and "/events?" in e["path"]])

    def test_less_memory_than_the_claim_counts_on(self) -> None:
        """By type and image, which are the NodeClaim's; only nodes that have said what they have."""
        world = self.control_world()
        more = {"imageID": "ami-1", "allocatable": {"memory": "6903Mi"}}
        for name, memory in (("n1", "7134Mi"), ("n2", "6803Mi"), ("n3", None)):
            claim, _ = world.pair(name)
            world.change("nodeclaims", claim["metadata"]["name"], lambda c: c["status"].update(more))
            world.change("nodeclaims", claim["metadata"]["name"], lambda c: c["metadata"]["labels"].update({"node.kubernetes.io/instance-type": "m5.large"}))
            if memory:
                world.annotate("nodes", name, "nodeclaimd.io/bootstrap", json.dumps({"outcome": "succeeded", "memory": memory}))
        world.start()
        series = '{instance_type="m5.large",image="ami-1"}'
        world.must(lambda: world.metric("memory_short_bytes", series) == 100 << 20, "the metric")
        self.assertEqual(world.metric("memory_short_nodes", series), 1)
        check_with_promtool(world.ask("/metrics")[1])
        text = world.run("status", "--metrics-address", world.addresses[world.proc.pid])[1]
        self.assertRegex(text, r"Less memory than NodeClaims count on:\nTYPE +IMAGE +NODES +SHORT +LACKS\nm5.large +ami-1 +2 +1 +100Mi\n")
        self.assertEqual(world.writes(), [], world.story())

    def test_claims_without_a_node_and_without_the_right(self) -> None:
        """The Role of an earlier release: the cause is unknown, and status says what is missing."""
        world = self.control_world()
        world.refused_is_wanted = True
        world.api.rules[CONTROLLER_USER] = tuple(rule for rule in RELAY if "events" not in rule.resources)
        claim = world.claim("c-broken", creationTimestamp=stamp(time.time() - 100))
        world.boot_failure(claim, "preflight: x")
        world.start()
        series = '{nodepool="default",cause="unknown"}'
        world.must(lambda: world.metric("nodeclaims_without_node", series) == 1, "the claim")
        world.must(lambda: "events is forbidden" in world.log(), "that it says so", 50)
        code, text, err = world.run("status", "--metrics-address", world.addresses[world.proc.pid])
        self.assertEqual(code, 0, err)
        self.assertRegex(text, r"(?m)^trouble +list: .*events is forbidden.*; apply deploy/rbac.yaml of this version$")
        self.assertEqual(world.log().count("events is forbidden"), 1)

    def test_probes(self) -> None:
        world = self.control_world()
        world.start()
        world.must(lambda: world.ask("/readyz") == (200, "ok\n"), "ready")
        self.assertEqual(world.ask("/healthz"), (200, "ok\n"))
        self.assertEqual(world.ask("/nothing")[0], 404)
        self.assertEqual(world.ask("/metrics?x=y")[0], 200)

    def test_somebody_holds_all_connections(self) -> None:
        """Neither probes nor relays wait for peers that say nothing, drip, or send what is no HTTP."""
        world = self.control_world()
        world.pair("n1")
        world.start()
        host, _, port = world.addresses[world.proc.pid].rpartition(":")
        peers = [socket.create_connection((host, int(port))) for _ in range(60)]
        for i, peer in enumerate(peers):
            try:
                peer.sendall((b"", b"GET /metr", b"\x16\x03\x01" * 50, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 900)[i % 4])
            except OSError:
                pass  # it was shown the door already
        world.must(lambda: world.ask("/healthz")[0] == 200, "health", 5)
        self.assertRelayed(world, "c-n1", world.say("n1"))
        for peer in peers:
            peer.close()

    def test_nobody_is_there(self) -> None:
        world = self.control_world()
        code, out, err = world.run("status", "--metrics-address", "127.9.9.9:9")
        self.assertNotEqual(code, 0)
        self.assertEqual(out, "")
        self.assertIn("127.9.9.9:9", err)

    def test_command_line(self) -> None:
        world = self.control_world()
        code, out, _ = world.run("--help")
        self.assertEqual((code, "status" in out), (0, True))
        code, out, _ = world.run("version", "-o", "json")
        self.assertEqual((code, "version" in json.loads(out)), (0, True))
        for wrong in (
            ["run", "--mode", "both"],
            ["run", "--margin", "soon"],
            ["run", "--lease-duration", "5s", "--renew-deadline", "5s"],
            ["run", "--metrics-address", "localhost"],
            ["run", "--mode", "karpenter", "--terminate"],
            ["walk"],
            ["status", "more"],
        ):
            code, out, err = world.run(*wrong)
            self.assertEqual((code, out), (2, ""), wrong)
            self.assertTrue(err, wrong)
        code, _, err = world.run("run", "--kubeconfig", "/nonexistent", "--metrics-address", "off")
        self.assertNotEqual(code, 0)
        self.assertIn("/nonexistent", err)

    def test_manual_page(self) -> None:
        """It lists the options that help lists, with the same arguments."""
        code, out, err = self.control_world().run("run", "--help")
        self.assertEqual((code, err), (0, ""))
        by_help = dict(re.findall(r"(?m)^  --([a-z0-9-]+) ?(\S*)", out))
        self.assertEqual(by_help.pop("help"), "")
        options = (MANUAL / "nodeclaim-controller.8").read_text().split(".Sh OPTIONS")[1].split("\n.S")[0]
        heads = re.findall(r"(?m)^\.It (Fl -.*)$", options)
        by_manual = dict(re.sub(r"\b(Ar|Cm) | (?=\|)|(?<=\|) ", "", one).removeprefix("Fl -").partition(" ")[::2]
                         for head in heads for one in head.split(" , "))
        self.assertEqual(by_manual, by_help)

    def test_it_stops_in_order(self) -> None:
        world = self.control_world(elects=True)
        world.start("--identity", "a")
        world.must(lambda: world.holder() == "a", "the Lease")
        begin = time.monotonic()
        self.assertEqual(world.stop(), 0, world.log())
        self.assertLess(time.monotonic() - begin, 3)
        self.assertEqual(world.holder(), "")


class WhoElse(ControlTest):
    """--mode auto: Karpenter is there where its Lease is held and alive."""

    def judge(self, world: ControlWorld) -> None:
        world.mode = "auto"
        super().judge(world)

    def in_mode(self, world: ControlWorld, mode: str, within: float = 15) -> None:
        world.must(lambda: world.metric("mode", f'{{mode="{mode}"}}') == 1, f"mode = {mode}", within)

    def test_karpenter(self) -> None:
        world = self.control_world(mode="auto")
        world.pool(budgets=[{"nodes": "100%"}])
        world.lease("karpenter-pod_1", KARPENTER_LEASE, "kube-system")
        world.fresh("n1")
        world.pair("n2")
        stop = threading.Event()

        def renew() -> None:
            number = 0
            while not stop.wait(0.5):
                number += 1
                world.lease("karpenter-pod_1", KARPENTER_LEASE, "kube-system", duration=15 + number % 2)

        thread = threading.Thread(target=renew, daemon=True)
        thread.start()
        try:
            world.start(ready=False)
            self.in_mode(world, "karpenter", 30)
            self.assertRelayed(world, "c-n2", world.say("n2"))
            self.assertQuiet(world, 1)
            self.assertEqual({s.kind for s in world.writes()}, {"set-timestamp", "delete"})
        finally:
            stop.set()
            thread.join()

    def test_alone(self) -> None:
        world = self.control_world(mode="auto")
        world.pool()
        ToyAgent(world)
        world.fresh("n1")
        world.start(ready=False)
        self.in_mode(world, "standalone", 30)
        world.must(lambda: world.condition("c-n1", "Initialized")[0] == "True", "its life")

    def test_a_lease_of_a_tenant(self) -> None:
        """Whoever may write Leases in a namespace of his own says nothing about the cluster, whatever stands in them."""
        world = self.control_world(mode="auto")
        world.pool()
        agent = ToyAgent(world)
        world.fresh("n1")
        world.ours("n2")
        world.lease("evil", KARPENTER_LEASE, "team-a")
        world.lease("e" * 1200000, KARPENTER_LEASE, "team-b")
        world.start(ready=False)
        self.in_mode(world, "standalone", 30)
        world.must(lambda: world.condition("c-n1", "Initialized")[0] == "True", "its life")
        world.remove("nodeclaims", "c-n2")
        world.must(lambda: world.is_gone("n2"), "its end")
        self.assertEqual(len(agent.drains["n2"]), 1)
        looks = {s.entry["path"].partition("?")[0] for s in world.steps("lease") if KARPENTER_LEASE in s.entry["path"]}
        base = "/apis/coordination.k8s.io/v1/namespaces"
        self.assertEqual(looks, {f"{base}/{name}/leases/{KARPENTER_LEASE}" for name in ("kube-system", "karpenter")})

    def test_a_namespace_named_karpenter(self) -> None:
        """A tenant's self-service makes it, with a Lease: what is ours goes on, and what becomes Karpenter's is left to it."""
        world = self.control_world(mode="auto")
        world.pool()
        agent = ToyAgent(world)
        world.ours("n1")
        world.ours("n2")
        world.lease("evil", KARPENTER_LEASE, "karpenter", duration=600)
        world.start(ready=False)
        self.in_mode(world, "standalone", 30)
        world.must(lambda: "none has Karpenter's" in world.log(), "that it says so")
        world.remove("nodeclaims", "c-n2")
        world.must(lambda: world.is_gone("n2"), "its end")
        self.assertEqual(len(agent.drains["n2"]), 1)
        world.change("nodeclaims", "c-n1", lambda c: c["metadata"]["finalizers"].append("karpenter.sh/termination"))
        self.in_mode(world, "karpenter", 30)

    def test_a_lease_that_moves_and_nobody_holds(self) -> None:
        """Written again and again, so that it is neither held nor left."""
        world = self.control_world(mode="auto")
        world.pool()
        world.ours("n1")
        world.lease("", KARPENTER_LEASE, "karpenter", duration=600)
        world.start(ready=False)
        self.in_mode(world, "standalone", 30)

    def test_karpenter_in_another_namespace(self) -> None:
        world = self.control_world(mode="auto")
        world.lease("karpenter-pod_1", KARPENTER_LEASE, "platform", duration=600)
        world.pair("n1")
        world.start("--karpenter-namespace", "kube-system", "--karpenter-namespace", "platform", ready=False)
        self.in_mode(world, "karpenter", 30)

    def test_karpenter_where_nobody_looks(self) -> None:
        """Its Lease is in a namespace that was not named; its NodeClaims show that it is there: nothing is done but relayed."""
        world = self.control_world(mode="auto")
        world.pool()
        world.lease("karpenter-pod_1", KARPENTER_LEASE, "platform", duration=600)
        world.pair("n1")
        world.fresh("n2")
        world.start(ready=False)
        self.in_mode(world, "standalone", 30)
        world.must(lambda: "--karpenter-namespace" in world.log(), "that it says so", 30)
        self.assertQuiet(world, 1)
        self.assertRelayed(world, "c-n1", world.say("n1"))
        self.assertEqual({s.kind for s in world.writes()}, {"set-timestamp", "delete"}, world.story())

    def test_no_crds(self) -> None:
        """A cluster in which nobody has installed NodeClaims yet: it says so, and begins once they are there."""
        world = self.control_world(mode="karpenter", version="")
        world.start(ready=False)
        world.must(lambda: world.ask("/readyz")[0] == 503 and "NodeClaim" in world.ask("/readyz")[1], "what it waits for")
        self.assertIsNone(world.proc.poll())


if __name__ == "__main__":
    unittest.main()
