"""Bad days of the API server: away, slow, forgetful, overloaded, refusing. No action is lost, and none is done twice."""

from __future__ import annotations

import json
import time
import unittest
from typing import Any

from controlling import SLACK, TIME_KEY, ControlTest, ControlWorld, until

from wire import Request

CLAIMS = "nodeclaims/c-"


def refusal(code: int, reason: str, message: str) -> dict[str, Any]:
    said = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    body = json.dumps({**said, "reason": reason, "code": code, "message": message})
    return {"status": code, "body": body, "content_type": "application/json"}


class Away(ControlTest):
    def test_during_a_notice(self) -> None:
        world = self.control_world()
        world.pair("n1")
        world.start()
        world.api.server.refuse()
        deadline = world.say("n1")
        world.must(lambda: "again" in world.log(), "a word about it")
        world.api.server.listen()
        self.assertRelayed(world, "c-n1", deadline)

    def test_between_stamp_and_delete(self) -> None:
        """The stamp was accepted, its answer is lost, and nobody is there for a second."""
        world = self.control_world()
        world.pair("n1")
        gone: list[float] = []

        def leave(req: Request) -> bool:
            if req.method == "PATCH" and not gone:
                gone.append(time.monotonic())
            return is_unavailable(req)

        def is_unavailable(req: Request) -> bool:
            return bool(gone) and time.monotonic() < gone[0] + 1.2

        world.start()
        world.api.server.before_answer.append(leave)
        world.api.server.before_request.append(is_unavailable)
        deadline = world.say("n1")
        self.assertRelayed(world, "c-n1", deadline)
        self.assertGreaterEqual(world.accepted("delete")[0].at, gone[0] + 1.2)
        self.assertLessEqual(len(world.accepted("set-timestamp")), 2, world.story())

    def test_before_the_start(self) -> None:
        world = self.control_world()
        world.pair("n1")
        deadline = world.say("n1")
        world.api.server.refuse()
        world.start(ready=False)
        world.must(lambda: world.ask("/readyz")[0] == 503, "not ready")
        self.assertEqual(world.ask("/healthz")[0], 200)
        world.api.server.listen()
        self.assertRelayed(world, "c-n1", deadline)
        world.must(lambda: world.ask("/readyz")[0] == 200, "ready")

    def test_lost_answers_and_resets(self) -> None:
        """An answer that is lost after it was carried out: what was done is seen, and not done again."""
        for kind in ("lost", "reset", "close", "truncate", "garbage"):
            with self.subTest(kind):
                world = self.control_world()
                world.pair("n1")
                world.start()
                for method in ("PATCH", "DELETE"):
                    world.api.server.fault(kind, path=CLAIMS, method=method, count=1)
                deadline = world.say("n1")
                world.relayed("c-n1")
                world.must(lambda: world.get("nodeclaims", "c-n1")["metadata"].get("deletionTimestamp"), "its end")
                self.assertQuiet(world, 2)
                self.assertEqual(world.timestamp("c-n1"), (deadline or 0) - 15)
                real = [s for s in world.accepted("delete") if s.entry["fault"] not in ("garbage",)]
                self.assertEqual(len(real), 1, world.story())


class Forgetful(ControlTest):
    def test_watch_gap_and_410(self) -> None:
        """What was said while nobody listened is heard; what was deleted meanwhile is forgotten."""
        world = self.control_world()
        for name in ("n1", "n2", "n3"):
            world.pair(name)
        world.start()
        world.api.server.refuse()
        deadline = world.say("n1")
        world.say("n2")
        for plural, name in (("nodeclaims", "c-n2"), ("nodes", "n2")):
            world.change(plural, name, lambda o: o["metadata"].pop("finalizers"))
            world.remove(plural, name)
        world.api.on_loop(world.api.store.compact)
        world.api.server.listen()
        self.assertRelayed(world, "c-n1", deadline)
        self.assertRelayed(world, "c-n3", world.say("n3"))
        self.assertEqual({s.what for s in world.writes()}, {"c-n1", "c-n3"}, world.story())
        world.must(lambda: world.metric("objects", '{kind="Node"}') == 2, "two nodes are left")

    def test_410_as_an_event(self) -> None:
        world = self.control_world()
        world.pair("n1")
        world.pair("n2")
        world.start()
        self.assertRelayed(world, "c-n1", world.say("n1"))
        lists = len(world.steps("list"))
        world.api.on_loop(world.api.expire)
        world.must(lambda: len(world.steps("list")) >= lists + 2, "new lists")
        self.assertRelayed(world, "c-n2", world.say("n2"))
        self.assertQuiet(world, 1)
        self.assertEqual(len(world.accepted("delete")), 2, world.story())

    def test_relist_of_3000_nodes(self) -> None:
        """In pages, of which one comes too late; relays go on at once after it, nothing is repeated."""
        world = self.control_world()
        count = 3000

        def fill(first: int) -> None:
            for i in range(first, first + 250):
                claim = self.light("nodeclaims", world, f"c-n{i}", {"nodeName": f"n{i}"})
                self.light("nodes", world, f"n{i}", {}, claim)

        for first in range(0, count, 250):
            world.api.on_loop(lambda first=first: fill(first))  # type: ignore[misc]
        world.start()
        begin = time.monotonic()
        self.assertRelayed(world, "c-n2999", world.say("n2999"))
        self.assertLess(time.monotonic() - begin, SLACK)
        pages = [s for s in world.steps("list") if "limit=" in s.entry["path"]]
        self.assertGreaterEqual(len(pages), 4, world.story())
        late: list[str] = []

        def forget(req: Request) -> bool:
            if "continue=" in req.target and not late:
                late.append(req.target)
                world.api.store.version += 1  # newer than the moment that the pages show
                world.api.store.compact()
            return False

        world.api.server.before_request.append(forget)
        world.api.on_loop(world.api.expire)
        deadline = world.say("n1500")
        self.assertRelayed(world, "c-n1500", deadline)
        world.must(lambda: late, "a page that was too late")
        world.must(lambda: world.metric("objects", '{kind="Node"}') == count, "all nodes", 30)
        self.assertQuiet(world, 1)
        self.assertEqual({s.what for s in world.accepted("delete")}, {"c-n2999", "c-n1500"})
        self.assertEqual(len(world.accepted("delete")), 2, world.story())

    @staticmethod
    def light(plural: str, world: ControlWorld, name: str, status: dict[str, Any], owner: Any = None) -> dict[str, Any]:
        meta: dict[str, Any] = {"name": name, "finalizers": ["karpenter.sh/termination"]}
        if owner:
            meta["ownerReferences"] = [{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": owner["metadata"]["name"],
                                        "uid": owner["metadata"]["uid"]}]
        return world.api.store.create(world.api.resource(plural), {"metadata": meta, "spec": {}, "status": status})


class Overloaded(ControlTest):
    def test_429_with_retry_after(self) -> None:
        """It is waited for as long as was said, for that claim; others go on."""
        world = self.control_world()
        for name in ("n1", "n2"):
            world.pair(name)
        said = refusal(429, "TooManyRequests", "too many requests, please try again later")
        world.api.server.fault("status", path="nodeclaims/c-n1", method="DELETE", count=1, headers={"Retry-After": "3"}, **said)
        world.start()
        deadline = world.say("n1")
        world.must(lambda: world.steps("delete"), "a DELETE")
        begin = time.monotonic()
        self.assertRelayed(world, "c-n2", world.say("n2"))
        self.assertLess(time.monotonic() - begin, SLACK)
        world.must(lambda: len([s for s in world.steps("delete") if s.what == "c-n1"]) == 2, "the second")
        first, second = [s for s in world.steps("delete") if s.what == "c-n1"]
        self.assertGreaterEqual(second.at - first.sent, 2.9)
        self.assertLess(second.at - first.sent, 3.6 + SLACK)
        self.assertEqual(world.timestamp("c-n1"), (deadline or 0) - 15)

    def test_errors_are_tried_again_with_pauses(self) -> None:
        world = self.control_world()
        world.pair("n1")
        said = refusal(500, "InternalError", "etcdserver: request timed out")
        world.api.server.fault("status", path=CLAIMS, method="DELETE", for_sec=3.0, **said)
        world.start()
        world.say("n1")
        world.relayed("c-n1")
        tries = world.steps("delete")
        self.assertGreaterEqual(len(tries), 3, world.story())
        self.assertLessEqual(len(tries), 8, world.story())
        self.assertGreaterEqual(tries[1].at - tries[0].sent, 0.1)

    def test_slow_answers(self) -> None:
        """Half a second for each: sixty notices are side by side, not one after the other."""
        world = self.control_world()
        for i in range(60):
            world.pair(f"n{i}")
        world.start()
        world.api.server.latency_sec = 0.5
        begin = time.monotonic()
        for i in range(60):
            world.say(f"n{i}")
        world.must(lambda: len(world.accepted("delete")) >= 60, "sixty relays", 20)
        self.assertLess(time.monotonic() - begin, 12 + SLACK)  # over HTTP/1.1, with few connections
        self.assertEqual(len({s.what for s in world.accepted("delete")}), 60)
        self.assertEqual(len(world.accepted("delete")), 60, world.story())

    def test_one_answer_that_never_comes(self) -> None:
        """It holds up its own claim for a while, nobody else's."""
        world = self.control_world()
        for name in ("n1", "n2"):
            world.pair(name)
        world.api.server.fault("silent", path="nodeclaims/c-n1", method="DELETE", count=1)
        world.start()
        world.say("n1")
        world.must(lambda: world.steps("delete"), "a DELETE")
        begin = time.monotonic()
        self.assertRelayed(world, "c-n2", world.say("n2"))
        self.assertLess(time.monotonic() - begin, SLACK)
        world.relayed("c-n1", within=25)

    def test_a_watch_that_ends_again_and_again(self) -> None:
        """A proxy that cuts every stream after a moment: no storm of requests, and nothing is missed."""
        world = self.control_world()
        for i in range(4):
            world.pair(f"n{i}")
        world.start()

        def cut() -> None:
            for watch in list(world.api.watches):
                watch._end()
            world.api.server.loop.call_later(0.1, cut)

        world.api.server.loop.call_soon_threadsafe(cut)
        begin = time.monotonic()
        for i in range(4):
            world.say(f"n{i}")
            world.relayed(f"c-n{i}", within=20)
        took = time.monotonic() - begin
        self.assertLessEqual(len(world.steps("watch")), 10 + 12 * took, world.story())
        self.assertEqual(len(world.accepted("delete")), 4)


class Refusing(ControlTest):
    def test_lists_that_are_forbidden(self) -> None:
        """It says what is missing, in the server's words, and begins as soon as that is granted."""
        world = self.control_world()
        world.refused_is_wanted = True
        world.pair("n1")
        deadline = world.say("n1")
        allow = world.forbid("nodeclaims")
        world.start(ready=False)
        world.must(lambda: 'cannot list resource "nodeclaims"' in world.log(), "the server's words")
        world.must(lambda: world.ask("/readyz")[0] == 503, "not ready")
        self.assertLessEqual(len(world.steps()), 40)
        allow()
        self.assertRelayed(world, "c-n1", deadline)
        world.must(lambda: world.trouble() == "", "that nothing is wrong", 3)

    def test_two_lists_that_are_forbidden(self) -> None:
        """One that was granted says nothing about the other one."""
        world = self.control_world()
        world.refused_is_wanted = True
        world.pair("n1")
        allow_claims, allow_nodes = world.forbid("nodeclaims"), world.forbid("nodes")
        world.start(ready=False)
        world.must(lambda: world.ask("/readyz")[0] == 503, "not ready")
        for name in ("nodes", "nodeclaims"):
            world.must(lambda: f'cannot list resource "{name}"' in world.trouble(), name)
        allow_nodes()
        world.must(lambda: "the list of kind Node is complete" in world.log(), "Nodes", 40)
        self.assertFalse(until(lambda: 'list resource "nodeclaims"' not in world.trouble(), 5), world.story())
        allow_claims()
        world.must(lambda: world.ask("/readyz")[0] == 200, "ready", 40)
        world.must(lambda: world.trouble() == "", "that nothing is wrong", 3)

    def test_a_watch_that_is_forbidden(self) -> None:
        """Its list may be read: whoever can do no more says so as long as that is so."""
        world = self.control_world()
        world.refused_is_wanted = True
        world.pair("n1")
        allow = world.forbid("nodes", verb="watch")
        world.start()
        world.must(lambda: "cannot watch" in world.trouble(), "the server's words")
        self.assertFalse(until(lambda: world.trouble() == "", 5), world.story())
        allow()
        world.must(lambda: world.trouble() == "", "that nothing is wrong", 30)

    def test_a_write_that_is_forbidden(self) -> None:
        """Asked again, but not soon: 403 is not weather."""
        world = self.control_world()
        world.refused_is_wanted = True
        for name in ("n1", "n2"):
            world.pair(name)
        said = refusal(403, "Forbidden", 'nodeclaims.karpenter.sh "c-n1" is forbidden: User "x" cannot delete resource')
        fault = world.api.server.fault("status", path="nodeclaims/c-n1", method="DELETE", **said)
        world.start()
        world.say("n1")
        world.must(lambda: fault.hits, "a DELETE")
        self.assertRelayed(world, "c-n2", world.say("n2"))
        end = time.monotonic() + 3
        world.must(lambda: time.monotonic() > end and fault.hits >= 2, "a while, and the second DELETE")
        self.assertLessEqual(fault.hits, 6, world.story())
        first, second = [s.at for s in world.steps("delete") if s.what == "c-n1"][:2]
        self.assertGreater(second - first, 0.1, world.story())
        world.must(lambda: "is forbidden" in world.log(), "a line of the log")
        for name in ("n3", "n4", "n5"):  # what succeeds meanwhile says nothing about this one
            world.pair(name)
            self.assertRelayed(world, f"c-{name}", world.say(name))
            self.assertIn('"c-n1" is forbidden', world.trouble())
        world.api.server.heal()
        world.relayed("c-n1", within=40)
        world.must(lambda: world.trouble() == "", "that nothing is wrong", 3)
        self.assertIn(TIME_KEY, world.get("nodeclaims", "c-n1")["metadata"]["annotations"])

    def test_401_then_a_new_token(self) -> None:
        """A ServiceAccount's token in a file is replaced from time to time."""
        world = self.control_world()
        world.refused_is_wanted = True
        token = world.folder / "token"
        doc = json.loads(world.kubeconfig.read_text())
        doc["users"][0]["user"] = {"tokenFile": str(token)}
        world.kubeconfig.write_text(json.dumps(doc))
        token.write_text("controller-token-of-the-test")
        world.pair("n1")
        world.start()
        tokens = world.api.auth.tokens
        tokens["another-token"] = tokens.pop("controller-token-of-the-test")
        token.write_text("another-token")
        self.assertRelayed(world, "c-n1", world.say("n1"))


if __name__ == "__main__":
    unittest.main()
