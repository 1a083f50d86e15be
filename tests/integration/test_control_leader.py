"""Leadership: one acts, the other waits; who does not lead writes nothing but its Lease."""

from __future__ import annotations

import signal
import time
import unittest

from controlling import CONTROLLER_NAMESPACE, LEASE, SLACK, ControlTest, ControlWorld, until

DURATION, RENEW = 3.0, 2.0  # controlling.ELECTION


class Leader(ControlTest):
    def leads(self, world: ControlWorld, identity: str, within: float = 15) -> float:
        world.must(lambda: world.holder() == identity, f"{identity} in the Lease", within)
        return time.monotonic()

    def test_the_lease(self) -> None:
        world = self.control_world(elects=True)
        world.pair("n1")
        world.start("--identity", "a")
        self.leads(world, "a")
        lease = world.api.objects("leases")[0]
        self.assertEqual((lease["metadata"]["name"], lease["metadata"]["namespace"]), (LEASE, CONTROLLER_NAMESPACE))
        self.assertEqual(lease["spec"]["leaseDurationSeconds"], 3)
        self.assertRelayed(world, "c-n1", world.say("n1"))
        renewed = world.api.objects("leases")[0]["spec"]["renewTime"]
        world.must(lambda: world.api.objects("leases")[0]["spec"]["renewTime"] > renewed, "renewals")
        self.assertEqual(world.api.objects("leases")[0]["spec"]["acquireTime"], lease["spec"]["acquireTime"])
        self.assertEqual(world.metric("leads"), 1)

    def test_standby_takes_over_after_sigkill(self) -> None:
        world = self.control_world(elects=True)
        for name in ("n1", "n2"):
            world.pair(name)
        first = world.start("--identity", "a")
        self.leads(world, "a")
        second = world.start("--identity", "b")
        self.assertRelayed(world, "c-n1", world.say("n1"))
        world.must(lambda: world.ask("/readyz", second)[0] == 200, "a warm standby is ready")
        self.assertEqual((world.metric("leads", proc=first), world.metric("leads", proc=second)), (1, 0))
        deadline = world.say("n2", deadline=None)
        world.kill(first)
        died = time.monotonic()
        deadline = world.say("n2")
        self.assertGreaterEqual(self.leads(world, "b") - died, DURATION - 1.5, "not before the Lease is over")
        self.assertLessEqual(time.monotonic() - died, DURATION + 1 + SLACK)
        self.assertRelayed(world, "c-n2", deadline)
        lease = world.api.objects("leases")[0]["spec"]
        self.assertEqual(lease["leaseTransitions"], 1)

    def test_a_released_lease_is_taken_over_at_once(self) -> None:
        world = self.control_world(elects=True)
        world.pair("n1")
        first = world.start("--identity", "a")
        self.leads(world, "a")
        world.start("--identity", "b")
        begin = time.monotonic()
        self.assertEqual(world.stop(first), 0, world.log())
        self.leads(world, "b")
        self.assertLess(time.monotonic() - begin, 0.6 + SLACK)
        self.assertRelayed(world, "c-n1", world.say("n1"))

    def test_held_by_somebody_else(self) -> None:
        """A Lease of a client-go process that renews it: nothing is written; once it stops renewing, ours follows."""
        world = self.control_world(elects=True)
        world.pair("n1")
        world.lease("somebody", duration=3)
        world.start("--identity", "a")
        deadline = world.say("n1", deadline=300)
        for _ in range(8):
            world.lease("somebody", duration=3)
            until(lambda: False, 0.5)
        self.assertEqual(world.writes(), [], world.story())
        self.assertEqual(world.holder(), "somebody")
        self.leads(world, "a")
        self.assertRelayed(world, "c-n1", deadline)

    def test_a_lease_that_may_be_written_again(self) -> None:
        """Who leads again says nothing more of what kept it from that."""
        world = self.control_world(elects=True)
        world.refused_is_wanted = True
        world.start("--identity", "a")
        self.leads(world, "a")
        allow = world.forbid("leases")
        world.must(lambda: world.metric("leads") == 0, "the end of its time")
        self.assertRegex(world.trouble(), "lease.*forbidden")
        allow()
        world.must(lambda: world.metric("leads") == 1, "that it leads")
        world.must(lambda: world.trouble() == "", "that nothing is wrong", 10)  # what looked for Karpenter's Lease, too

    def test_a_lease_that_may_be_read_only(self) -> None:
        """Each attempt reads it, which is no success of what fails."""
        world = self.control_world(elects=True)
        world.refused_is_wanted = True
        allow = world.forbid("leases", verb="create")
        world.start("--identity", "a")
        world.must(lambda: "create lease" in world.trouble(), "the trouble")
        self.assertFalse(until(lambda: world.trouble() == "", 3), world.story())
        allow()
        self.leads(world, "a")
        world.must(lambda: world.trouble() == "", "that nothing is wrong", 3)

    def test_its_clock_is_not_believed(self) -> None:
        """The holder's clock is an hour behind: its Lease is no less alive."""
        world = self.control_world(elects=True)
        world.pair("n1")
        world.lease("somebody", duration=3)
        world.start("--identity", "a")
        world.say("n1", deadline=300)
        res = world.api.resource("leases")
        for i in range(8):

            def renew(i: int = i) -> None:
                lease = world.api.store.get(res, LEASE, CONTROLLER_NAMESPACE)
                if lease["spec"]["holderIdentity"] == "somebody":
                    lease["spec"]["renewTime"] = f"2026-01-01T00:00:{i:02d}.000000Z"
                    world.api.store.replace(res, lease, CONTROLLER_NAMESPACE)

            world.api.on_loop(renew)
            until(lambda: False, 0.5)
        self.assertEqual((world.writes(), world.holder()), ([], "somebody"), world.story())

    def test_one_that_was_stopped_for_long_does_nothing_when_it_wakes(self) -> None:
        """SIGSTOP past the Lease: meanwhile another one leads; what wakes up must look before it writes."""
        world = self.control_world(elects=True)
        for name in ("n1", "n2"):
            world.pair(name)
        first = world.start("--identity", "a")
        self.leads(world, "a")
        second = world.start("--identity", "b")
        first.send_signal(signal.SIGSTOP)
        self.leads(world, "b")
        self.assertRelayed(world, "c-n1", world.say("n1"))
        world.kill(second)
        deadline = world.say("n2", deadline=200)
        woke = time.monotonic()
        first.send_signal(signal.SIGCONT)
        self.leads(world, "a")
        puts = [s for s in world.steps("lease") if s.at > woke and s.entry["method"] == "PUT" and s.status == 200]
        led = next(s for s in puts if s.body["spec"]["holderIdentity"] == "a")
        self.assertRelayed(world, "c-n2", deadline)
        early = [s for s in world.writes() if woke < s.at < led.at]
        self.assertEqual(early, [], world.story())

    def test_the_api_server_is_away_for_longer_than_it_may_lead(self) -> None:
        """Leadership ends by the clock; no write is sent after it, and it begins again."""
        world = self.control_world(elects=True)
        world.pair("n1")
        world.start("--identity", "a")
        self.leads(world, "a")
        world.must(lambda: world.metric("leads") == 1, "the lead")
        world.api.server.refuse()
        world.must(lambda: world.metric("leads") == 0, "its end", RENEW + 1 + SLACK)
        deadline = world.say("n1", deadline=300)
        world.api.server.listen()
        self.assertRelayed(world, "c-n1", deadline)
        back = next(s for s in world.steps("lease") if s.entry["method"] == "PUT" and s.at > world.writes()[0].at - 60)
        self.assertIsNotNone(back)
        self.assertEqual(world.api.objects("leases")[0]["spec"]["leaseTransitions"], 0)

    def test_what_waits_for_a_connection_is_not_sent_by_one_that_leads_no_more(self) -> None:
        """A slow API server, and more notices than connections: the Lease cannot be renewed in time."""
        world = self.control_world(elects=True)
        names = [f"n{i}" for i in range(40)]
        for name in names:
            world.pair(name)
        world.start("--identity", "a")
        self.leads(world, "a")
        world.must(lambda: world.metric("leads") == 1, "the lead")
        world.api.server.fault("delay", path="nodeclaims/c-", method="PATCH", delay_sec=RENEW + 2, for_sec=RENEW + 1)
        deadlines = {name: world.say(name, deadline=300) for name in names}
        for name, deadline in deadlines.items():
            self.assertRelayed(world, f"c-{name}", deadline)
        renewed = [s for s in world.steps("lease") if s.entry["method"] in ("PUT", "POST") and s.status in (200, 201)]
        for one, following in zip(renewed, renewed[1:]):
            late = [s for s in world.writes() if one.at + RENEW + 0.3 < s.at < following.at]
            self.assertEqual(late, [], world.story())

    def test_conflicts_over_the_lease(self) -> None:
        """Five at once: one leads at any time, and the relay is done once."""
        world = self.control_world(elects=True)
        world.pair("n1")
        for i in range(4):
            world.start("--identity", f"p{i}", ready=False)
        world.must(world.holder, "a leader")
        deadline = world.say("n1")
        self.assertRelayed(world, "c-n1", deadline)
        world.must(lambda: all(world.ask("/readyz", p)[0] == 200 for p in world.procs), "all of them")
        self.assertEqual(sum(world.metric("leads", proc=p) for p in world.procs), 1)
        self.assertEqual(len(world.accepted("delete")), 1, world.story())


if __name__ == "__main__":
    unittest.main()
