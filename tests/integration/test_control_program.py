"""The controller as a program: what it tells a service manager, a probe, a scraper and a person; what ends it, and what does not."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
import unittest
from typing import Any

from controlling import ControlTest, ControlWorld

SECOND = "1000000"


class Manager:
    """A service manager that listens."""

    def __init__(self, world: ControlWorld) -> None:
        self.path = str(world.folder / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.said: list[str] = []
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def _listen(self) -> None:
        while data := self.socket.recv(65536):
            if data == b"end":
                return
            self.said += data.decode().split("\n")

    def close(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            other.sendto(b"end", self.path)
        self.thread.join(10)
        self.socket.close()


class Program(ControlTest):
    def manager(self, world: ControlWorld) -> Manager:
        manager = Manager(world)
        self.addCleanup(manager.close)
        return manager

    def test_service_manager(self) -> None:
        world = self.control_world(elects=True)
        world.pair("n1")
        manager = self.manager(world)
        world.start(NOTIFY_SOCKET=manager.path, WATCHDOG_USEC="1500000")
        world.must(lambda: "READY=1" in manager.said, "READY=1")
        world.must(lambda: manager.said.count("WATCHDOG=1") >= 3, "signs of life")
        world.must(lambda: any(s.startswith("STATUS=leads, beside Karpenter: 1 nodes, 1 claims") for s in manager.said), "STATUS=")
        self.assertEqual(world.stop(), 0)
        world.must(lambda: "STOPPING=1" in manager.said, "STOPPING=1")
        self.assertEqual(world.holder(), "", "the Lease was not given up")

    def test_listener(self) -> None:
        world = self.control_world()
        world.pair("n1")
        world.start()
        world.must(lambda: world.ask("/readyz") == (200, "ok\n"), "readiness")
        self.assertEqual(world.ask("/healthz"), (200, "ok\n"))
        self.assertEqual(world.ask("/")[0], 404)
        self.assertEqual(world.metric("synced"), 1)
        self.assertEqual(world.metric("objects", '{kind="Node"}'), 1)
        status, text = world.ask("/status")
        self.assertEqual(status, 200)
        self.assertEqual([row["node"] for row in json.loads(text)["nodes"]], ["n1"])
        address = ("--metrics-address", world.addresses[world.proc.pid])
        code, out, err = world.run("status", *address)
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"(?m)^role +leader$")
        self.assertRegex(out, r"(?m)^n1 +c-n1 ")
        code, out, _ = world.run("status", "--metrics", *address)
        self.assertEqual(code, 0)
        self.assertIn("process_resident_memory_bytes", out)

    def test_a_probe_of_the_own_node(self) -> None:
        """Its connection stays, however many come after it."""
        world = self.control_world()
        world.start(NODE_ADDRESS="127.0.0.9")
        host, _, port = world.addresses[world.proc.pid].rpartition(":")

        def connect(source: str) -> socket.socket:
            return self.enterContext(socket.create_connection((host, int(port)), 10, (source, 0)))

        probe = connect("127.0.0.9")
        for n in range(300):
            connect(f"127.0.{1 + n // 100}.{1 + n % 100}")
        probe.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertEqual(probe.recv(12), b"HTTP/1.1 200")

    def test_not_ready_before_its_lists(self) -> None:
        world = self.control_world()
        world.api.server.refuse()
        world.start(ready=False)
        world.must(lambda: world.ask("/readyz")[0] == 503, "unreadiness")
        self.assertEqual(world.ask("/healthz")[0], 200)
        world.api.server.listen()
        world.must(lambda: world.ask("/readyz")[0] == 200, "readiness", within=60)

    def test_status_of_nobody(self) -> None:
        world = self.control_world()
        code, out, err = world.run("status", "--metrics-address", "127.0.0.1:9")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("refused", err)
        self.assertIn("remedy: ", err)

    def test_what_ends_it(self) -> None:
        world = self.control_world()
        address = ("--metrics-address", "off")
        code, _, err = world.run("run", *address)
        self.assertEqual(code, 3)
        self.assertIn("KUBECONFIG", err)
        code, _, err = world.run("run", *address, "--kubeconfig", str(world.folder / "none"))
        self.assertEqual(code, 6, err)
        config = json.loads(world.kubeconfig.read_text())
        config["users"][0]["user"] = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/true"}}
        other = world.folder / "exec"
        other.write_text(json.dumps(config))
        code, _, err = world.run("run", *address, "--kubeconfig", str(other))
        self.assertEqual(code, 3)
        self.assertIn("starts no program", err)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            busy = f"127.0.0.1:{taken.getsockname()[1]}"
            code, _, err = world.run("run", "--metrics-address", busy, "--kubeconfig", str(world.kubeconfig))
        self.assertEqual(code, 6)
        self.assertIn("in use", err)

    def test_hangup_is_nothing(self) -> None:
        world = self.control_world()
        world.pair("n1")
        world.start()
        world.proc.send_signal(signal.SIGHUP)
        world.say("n1")
        world.relayed("c-n1")
        self.assertIsNone(world.proc.poll())

    def test_kubeconfig_is_replaced(self) -> None:
        """The way is opened again, everything is seen again, nothing is done twice; the Lease stays ours."""
        world = self.control_world(elects=True)
        world.pair("n1")
        world.pair("n2")
        manager = self.manager(world)
        world.start(NOTIFY_SOCKET=manager.path, WATCHDOG_USEC="900000")
        world.say("n1")
        world.relayed("c-n1")
        holder = world.holder()
        watches = len(world.steps("watch"))
        self.replace(world, lambda config: config["clusters"][0]["cluster"].update({"tls-server-name": "localhost"}))
        world.must(lambda: "API credentials changed, reconnecting" in world.log(), "another connection", within=30)
        world.must(lambda: len(world.steps("watch")) >= watches + 2, "its watches")
        world.say("n2")
        world.relayed("c-n2")
        self.assertEqual(len(world.accepted("delete", "c-n1")), 1, world.story())
        self.assertEqual(world.holder(), holder)

    def replace(self, world: ControlWorld, change: Any) -> None:
        config = json.loads(world.kubeconfig.read_text())
        change(config)
        fresh = world.folder / "kubeconfig.new"
        fresh.write_text(json.dumps(config))
        os.replace(fresh, world.kubeconfig)

    def test_token_file_is_replaced(self) -> None:
        """Refused with the old one, it goes on with the new one."""
        world = self.control_world()
        world.refused_is_wanted = True
        world.pair("n1")
        token = world.folder / "token"
        good = json.loads(world.kubeconfig.read_text())["users"][0]["user"]["token"]
        token.write_text("of-yesterday")
        self.replace(world, lambda config: config["users"][0].update(user={"tokenFile": str(token)}))
        world.start(ready=False)
        world.must(lambda: any(s.status == 401 for s in world.steps()), "401")
        token.write_text(good)
        world.say("n1")
        world.relayed("c-n1", within=60)

    def test_terminated_twice(self) -> None:
        """The second signal does not wait for a Lease that cannot be given up."""
        world = self.control_world(elects=True)
        world.start()
        world.must(lambda: world.holder(), "a leader")
        world.api.server.before_request.append(lambda req: "/leases/" in req.path and time.sleep(0) is None)
        world.proc.send_signal(signal.SIGTERM)
        world.must(lambda: "not leading any more" in world.log(), "the end of leading")
        world.proc.send_signal(signal.SIGTERM)
        self.assertEqual(world.proc.wait(5), 0)


if __name__ == "__main__":
    unittest.main()
