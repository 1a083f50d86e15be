"""Bad days of IMDS: each is named within a second, while it is still being retried, and never outlives the deadline."""

from __future__ import annotations

import json
import time
import unittest

from harness import PATIENCE, World, WorldTest, until

SOON = 1.0
SLACK_SEC = 0.7 * PATIENCE + 0.3


class BadImds(WorldTest):
    def seen_soon(self, world: World, phase: str, kind: str, *words: str) -> None:
        """While the program still runs, status.json says what is wrong, and that it goes on trying."""
        found = until(lambda: world.phase(phase).get("error"), SOON)
        self.assertTrue(found, f"nothing in {SOON} s: {json.dumps(world.status())}")
        self.assertError(world, phase, kind, *words)
        self.assertEqual(world.status()["outcome"], "running")
        self.assertGreaterEqual(world.phase(phase)["attempts"], 1)
        self.assertTrue(world.status()["deadline"])

    def fails_by_deadline(self, world: World, code: int, kind: str, *words: str, seconds: float = 3) -> None:
        before = world.tree("etc")
        start = time.monotonic()
        proc = world.spawn("bootstrap", "--timeout", f"{seconds:g}s")
        self.seen_soon(world, "imds", kind, *words)
        done = world.finish(proc, within=seconds + 20, start=start)
        self.assertFailure(world, done, code, "imds", kind, *words)
        self.assertLessEqual(done.seconds, seconds + SLACK_SEC)
        self.assertGreaterEqual(done.seconds, seconds - SLACK_SEC, "gave up before its deadline")
        self.assertEqual(world.tree("etc"), before)

    def recovers(self, world: World, within: float = 60) -> None:
        done = world.bootstrap("--skip", "start", "--timeout", f"{within:g}s", within=within)
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(world.status()["outcome"], "succeeded")

    def test_no_imds(self) -> None:
        world = World()
        world.listening = False
        self.enterContext(world)
        self.fails_by_deadline(world, 1, "transient", "refused")

    def test_imds_that_never_answers(self) -> None:
        world = self.world()
        world.imds.server.fault("silent")
        start = time.monotonic()
        done = world.bootstrap("--timeout", "4s")
        self.assertFailure(world, done, 1, "imds", "transient")
        self.assertLessEqual(time.monotonic() - start, 4 + SLACK_SEC)

    def test_silence_is_named_within_seconds(self) -> None:
        """A silent peer is only known as such when a request's own time is over; that must not be long."""
        world = self.world()
        world.imds.server.fault("silent")
        world.spawn("bootstrap", "--timeout", "30s")
        self.assertTrue(until(lambda: world.phase("imds").get("error"), 2.5), world.status())

    def test_imds_that_appears_after_twenty_seconds(self) -> None:
        world = World()
        world.listening = False
        self.enterContext(world)
        world.imds.server.listen_later(20)
        proc = world.spawn("bootstrap", "--skip", "start", "--timeout", "60s")
        self.seen_soon(world, "imds", "transient", "refused")
        start = time.monotonic()
        done = world.finish(proc, within=60)
        self.assertEqual(done.code, 0, done.err)
        self.assertLessEqual(time.monotonic() - start, 20 + 4 * PATIENCE, "noticed too late that IMDS is there")
        self.assertGreater(world.phase("imds")["attempts"], 1)

    def test_token_revoked_midway(self) -> None:
        world = self.world()
        count = {"n": 0}
        inner = world.imds.server.handler

        def handler(req):  # type: ignore[no-untyped-def]
            count["n"] += 1
            if count["n"] == 5:
                world.imds.revoke_tokens()
            return inner(req)

        world.imds.server.handler = handler
        self.recovers(world)
        self.assertEqual(sum(e["method"] == "PUT" for e in world.requests()), 2)

    def test_401_for_ever(self) -> None:
        world = self.world()
        world.imds.server.fault("status", status=401, method="GET")
        done = world.bootstrap("--timeout", "3s")
        self.assertFailure(world, done, 4, "imds", "auth", "401")

    def test_403_imds_is_switched_off(self) -> None:
        world = self.world()
        world.imds.server.fault("status", status=403)
        done = world.bootstrap("--timeout", "20s")
        self.assertFailure(world, done, 3, "imds", "config", "403")
        self.assertLess(done.seconds, 2 * PATIENCE, "only the user can switch it on: no use in trying again")

    def test_503_burst(self) -> None:
        world = self.world()
        world.imds.server.fault("status", status=503, count=6)
        self.recovers(world)
        self.assertGreater(world.phase("imds")["attempts"], 1)

    def test_503_for_ever(self) -> None:
        world = self.world()
        world.imds.server.fault("status", status=503)
        self.fails_by_deadline(world, 1, "transient", "503")
        self.assertLess(len(world.requests()), 60, "retries must back off")

    def test_500_on_one_path_only(self) -> None:
        world = self.world()
        world.imds.server.fault("status", status=500, path="meta-data/mac$", count=3)
        self.recovers(world)
        paths = [e["path"] for e in world.requests() if e["status"] == 200]
        self.assertEqual(len(paths), len(set(paths)), "what has been answered is not asked again")

    def test_role_credentials_come_late(self) -> None:
        world = self.world()
        world.imds.server.fault("status", status=404, path="security-credentials/.", for_sec=2)
        done = world.bootstrap("--timeout", "30s")
        self.assertEqual(done.code, 0, done.err + world.kubelet_log())

    def test_no_role_at_all(self) -> None:
        world = self.world()
        for path in [p for p in world.imds.tree if "/iam/" in p]:
            del world.imds.tree[path]
        done = world.bootstrap("--timeout", "4s")
        self.assertNotEqual(done.code, 0)
        failed = [p for p in world.status()["phases"] if p.get("error")]
        self.assertTrue(failed)
        self.assertIn("role", failed[-1]["error"]["message"].lower() + failed[-1]["error"]["remedy"].lower())

    def test_html_instead_of_json(self) -> None:
        world = self.world()
        world.imds.server.fault("html", path="instance-identity/document")
        before = world.tree("etc")
        done = world.bootstrap("--timeout", "3s")
        self.assertFailure(world, done, 5, "imds", "protocol", "instance-identity/document")
        self.assertEqual(world.tree("etc"), before)

    def test_html_for_everything(self) -> None:
        world = self.world()
        world.imds.server.fault("html")
        self.assertFailure(world, world.bootstrap("--timeout", "3s"), 5, "imds", "protocol")

    def test_nonsense_in_single_answers(self) -> None:
        for path, body in (
            ("meta-data/mac$", "not-a-mac"),
            ("meta-data/local-ipv4$", "999.1.1.1"),
            ("document$", '{"instanceId": 7}'),
            (
                "document$",
                '{"instanceId":"i-0123456789abcdef0","instanceType":"../../etc","region":"us-west-2",'
                '"availabilityZone":"us-west-2a"}',
            ),
        ):
            with self.subTest(path=path, body=body), World() as world:
                world.imds.server.fault("body", path=path, body=body)
                before = world.tree("etc")
                self.assertFailure(world, world.bootstrap("--timeout", "3s"), 5, "imds", "protocol")
                self.assertEqual(world.tree("etc"), before)

    def test_truncated_answer(self) -> None:
        world = self.world()
        world.imds.server.fault("truncate", path="document$", count=2)
        self.recovers(world)

    def test_slow_drip(self) -> None:
        """A byte every now and then is not progress for ever."""
        world = self.world()
        world.imds.server.fault("drip", path="document$", delay_sec=0.4)
        done = world.bootstrap("--timeout", "4s")
        self.assertFailure(world, done, 1, "imds", "transient")
        self.assertLessEqual(done.seconds, 4 + SLACK_SEC)

    def test_oversized_answer(self) -> None:
        world = self.world()
        world.imds.server.fault("oversize", path="document$")
        done = world.bootstrap("--timeout", "3s")
        self.assertFailure(world, done, 5, "imds", "protocol")
        self.assertLess(done.seconds, 5 * PATIENCE)

    def test_connection_dies(self) -> None:
        for kind in ("close", "reset", "garbage"):
            with self.subTest(kind), World() as world:
                world.imds.server.fault(kind, count=3)
                self.recovers(world)

    def test_redirect_is_not_followed(self) -> None:
        world = self.world()
        world.imds.server.fault("status", status=302, path="document$", headers={"Location": "http://127.0.0.1:1/"})
        self.assertFailure(world, world.bootstrap("--timeout", "3s"), 5, "imds", "protocol", "302")


if __name__ == "__main__":
    unittest.main()
