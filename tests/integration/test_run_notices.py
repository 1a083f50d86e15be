"""What EC2 announces: heard, believed only where it can be read, acted upon by its policy, taken back."""

from __future__ import annotations

import re
import signal
import time
import unittest
from typing import Any

from running import LABEL, NOTICES, PATIENCE, SLACK, STATUS_KEY, DaemonTest, DaemonWorld, epoch

from wire import Fault

SPOT_PATH = "/latest/meta-data/spot/instance-action"


class Spot(DaemonTest):
    def test_notice_signal_cordon_evictions_drained(self) -> None:
        world = self.node_world()
        for name in ("web-1", "web-2"):
            world.pod(name)
        world.pod("bare", owner="")
        world.pod("agent", owner="DaemonSet")
        world.pod("static", owner="Node", annotations={"kubernetes.io/config.mirror": "x"})
        world.pod("finished", phase="Succeeded", owner="Job")
        tolerating = {"tolerations": [{"key": "karpenter.sh/disrupted", "operator": "Exists"}]}
        world.pod("stays", owner="DaemonSet", spec=tolerating)
        world.pod("shipper", spec=tolerating)
        world.start()
        noticed = time.monotonic()
        when = world.imds.spot(120)
        world.must(world.is_cordoned, "the cordon")
        self.assertEqual(world.node()["metadata"]["labels"][LABEL], "nodeclaimd")
        self.assertEqual(world.condition("InterruptionPending"), ("True", "SpotInterruption"))
        world.drained()
        self.assertOrder(world, "signal", "cordon", "evict", "drained")
        self.assertLess(world.steps("cordon")[0].at - noticed, 2.0 * PATIENCE)
        self.assertEvictedOnce(world, "web-1", "web-2", "bare", "shipper")
        self.assertEqual({s.what for s in world.steps("evict", "delete", "mark")}, {"web-1", "web-2", "bare", "shipper"})
        self.assertEqual(world.deletions(), [])
        self.assertEqual(world.pods(), ["agent", "finished", "static", "stays"])
        self.assertEqual(world.condition("Drained")[0], "True")
        said = world.annotation()
        self.assertEqual((said["source"], said["phase"], said["deadline"]), ("spot", "Drained", when))
        self.assertEqual((said["total"], said["remaining"], said["blocked"]), (4, 0, []))
        self.assertGreaterEqual(world.steps("drained")[0].at - world.steps("cordon")[0].at, 4.9)
        signal = world.steps("signal")[0].body
        self.assertIn(STATUS_KEY, signal["metadata"]["annotations"], "annotation and condition come together")

    def test_asked_so_often_that_a_second_is_enough(self) -> None:
        """A notice that a poll has just missed must still reach the NodeClaim within a second."""
        world = self.node_world()
        world.start()
        asked = lambda: [e["recv"] for e in world.requests() if e["path"] == SPOT_PATH]
        world.must(lambda: len(asked()) >= 7, "seven questions", 20)
        times = asked()[1:]
        waits = sorted(b - a for a, b in zip(times, times[1:]))
        self.assertLess(waits[len(waits) // 2], 0.95, waits)
        self.assertGreater(waits[len(waits) // 2], 0.85, waits)

    def test_withdrawn_and_announced_again(self) -> None:
        world = self.node_world()
        world.pod("blocked")
        world.budget("never", "blocked")
        world.start()
        world.imds.spot(120)
        world.must(lambda: world.evictions("blocked"), "an eviction")
        world.imds.spot(None)
        world.must(lambda: world.node() and not world.is_cordoned(), "the release")
        world.must(lambda: world.condition("InterruptionPending")[0] == "False", "the calm")
        world.must(lambda: world.node()["metadata"]["annotations"] == {"team/x": "y"}, "no annotation of ours")
        self.assertEqual(world.node()["metadata"]["labels"], {"team": "blue"})
        world.phase_is("idle")
        before = len(world.evictions())
        world.imds.spot(110, "stop")
        world.must(world.is_cordoned, "the second cordon")
        world.must(lambda: len(world.evictions()) > before, "the second drain")
        self.assertIn("stop", world.annotation()["id"])
        world.imds.spot(None)
        world.must(lambda: not world.is_cordoned(), "the second release")
        self.assertEqual(world.pods(), ["blocked"])
        self.assertEqual(world.deletions(), [])

    def test_one_404_withdraws_nothing(self) -> None:
        """A second answer must confirm it, two seconds later: until then the node stays cordoned and nobody is told."""
        world = self.node_world()
        world.start()
        world.imds.spot(600)
        world.must(world.is_cordoned, "the cordon")
        missed = Fault("status", SPOT_PATH, status=404, count=1)
        world.imds.server.faults.append(missed)
        world.must(lambda: missed.hits == 1, "the 404")
        polls = lambda: sum(e["path"] == SPOT_PATH for e in world.requests())
        before = polls()
        world.must(lambda: polls() >= before + 5, "four seconds' polls")
        self.assertTrue(world.is_cordoned())
        self.assertEqual(world.steps("release", "calm", "undrained"), [])
        withdrawn = time.monotonic()
        world.imds.spot(None)
        world.must(lambda: not world.is_cordoned(), "the release")
        self.assertGreater(world.steps("release")[0].at - withdrawn, 2.0)

    def test_a_proxy_that_finds_nothing(self) -> None:
        """Only a service that knows this instance withdraws a notice; it is asked for that alone then."""
        world = self.node_world()
        world.pod("blocked")
        world.budget("never", "blocked")
        world.start()
        world.imds.spot(600)
        world.must(lambda: world.evictions("blocked"), "the drain")
        identity = lambda: sum(e["path"] == "/latest/meta-data/instance-id" for e in world.requests())
        self.assertEqual(identity(), 0)
        polls = lambda: sum(e["path"] == SPOT_PATH for e in world.requests())
        for status, body in ((404, "<html>not found</html>"), (404, "")):
            world.imds.server.fault("status", status=status, body=body)
            before = polls()
            world.must(lambda: polls() >= before + 5, "polls", 30)
            self.assertTrue(world.is_cordoned())
            self.assertIn("is not this instance's; spot notices may be missed", world.log())
            world.imds.server.heal()
            before = polls()
            world.must(lambda: polls() >= before + 4, "polls", 30)
        self.assertEqual(world.steps("release", "calm", "undrained"), [])
        world.imds.server.fault("status", status=404)
        world.must(lambda: world.said_of_itself()["imds"]["spot"]["state"] == "failing", "the failure")
        before = identity()
        world.imds.spot(None)
        world.imds.server.heal()
        world.must(lambda: not world.is_cordoned(), "the release")
        self.assertLessEqual(identity() - before, 3)
        before = identity()
        end = time.monotonic() + 3
        world.must(lambda: time.monotonic() > end, "some seconds")
        self.assertEqual(identity(), before)

    def test_hibernation(self) -> None:
        """Memory is kept: what may not leave is not deleted, and nothing of the NodeClaim ends."""
        world = self.node_world()
        world.pod("kept", grace=30)
        world.pod("web", grace=30)
        world.budget("never", "kept")
        world.start()
        world.imds.spot(2, "hibernate")
        world.must(world.is_cordoned, "the cordon")
        self.assertIn("hibernate", world.annotation()["id"])
        self.assertTrue(world.annotation()["returns"])
        world.must(lambda: len(world.evictions("kept")) >= 3, "evictions after its time", 10)
        self.assertEqual(world.deletions(), [])
        self.assertEqual(world.pods(), ["kept"])

    def test_time_in_the_past(self) -> None:
        world = self.node_world()
        world.pod("late", grace=30)
        world.budget("never", "late")
        world.imds.spot(-30)
        world.start()
        world.must(lambda: not world.pods(), "the deletion")
        self.assertEqual([s.grace for s in world.deletions("late")], [30])
        self.assertOrder(world, "signal", "cordon", "delete")

    def test_time_long_past(self) -> None:
        world = self.node_world()
        world.pod("stays")
        world.imds.spot(-90)
        world.start()
        world.must(lambda: world.condition("InterruptionPending")[0] == "True", "the condition")
        self.assertEqual(world.annotation()["policy"], "report")
        self.assertEqual(world.steps("cordon", "evict", "delete"), [])
        self.assertFalse(world.is_cordoned())

    def test_on_demand_is_not_asked(self) -> None:
        """Once it is known that this is no spot instance; before that one question does no harm."""

        def asked() -> int:
            return sum("spot/" in str(e["path"]) or "rebalance" in str(e["path"]) for e in world.requests())

        world = self.node_world(profile="m5.large")
        world.start()
        world.must(lambda: world.said_of_itself().get("imds", {}).get("spot", {}).get("state") == "off", "the state")
        before, end = asked(), time.monotonic() + 2.5
        world.must(lambda: time.monotonic() > end, "two polls' time")
        self.assertEqual(asked(), before)
        self.assertLessEqual(before, 4)
        self.assertEqual(world.steps("signal", "cordon"), [])


class BadImds(DaemonTest):
    def state(self, world: DaemonWorld) -> str:
        return str(world.said_of_itself().get("imds", {}).get("spot", {}).get("state"))

    def test_what_is_no_answer_is_no_news_and_no_all_clear(self) -> None:
        world = self.node_world()
        world.pod("blocked")
        world.budget("never", "blocked")
        world.start()
        self.fails_and_heals(world)
        self.assertEqual(world.steps("signal", "cordon", "evict"), [])
        world.imds.spot(600)
        world.must(lambda: world.evictions(), "the drain")
        self.fails_and_heals(world)
        self.assertTrue(world.is_cordoned())
        self.assertEqual(world.steps("release", "calm"), [])

    def fails_and_heals(self, world: DaemonWorld) -> None:
        world.must(lambda: self.state(world) == "ok", "ok")
        for fault in (
            Fault("status", SPOT_PATH, status=403),
            Fault("status", SPOT_PATH, status=503),
            Fault("status", SPOT_PATH, status=500),
            Fault("body", SPOT_PATH, body='{"action":"termin'),
            Fault("body", SPOT_PATH, body='{"action":"explode","time":"2026-01-01T00:00:00Z"}'),
            Fault("body", SPOT_PATH, body='{"action":"terminate","time":"soon"}'),
            Fault("html", SPOT_PATH),
            Fault("truncate", SPOT_PATH),
            Fault("reset", SPOT_PATH),
        ):
            with self.subTest(fault):
                world.imds.server.faults.append(fault)
                world.must(lambda: self.state(world) == "failing", "failing")
                world.imds.server.heal()
                world.must(lambda: self.state(world) == "ok", "ok")

    def test_silent_service(self) -> None:
        """The spot poll waits 2, 4, 8 and again 2 seconds for an answer, without a pause between them."""
        world = self.node_world()
        world.start()
        asked = lambda: [e["recv"] for e in world.requests() if e["path"] == SPOT_PATH]
        world.must(lambda: len(asked()) >= 2, "the polls")
        world.imds.server.fault("silent")
        before = len(asked())
        world.must(lambda: len(asked()) >= before + 5, "five polls", 25)
        times = asked()[before:]
        for wait, least in zip((b - a for a, b in zip(times, times[1:])), (2, 4, 8, 2)):
            self.assertGreater(wait, least - 0.1, times)
            self.assertLess(wait, least + 0.7 * PATIENCE, times)
        world.imds.spot(120)
        world.imds.server.heal()
        healed = time.monotonic()
        world.must(world.is_cordoned, "the cordon")
        self.assertLess(time.monotonic() - healed, 5.0 * PATIENCE)

    def test_slow_service(self) -> None:
        """Each answer takes three seconds, the token's too: what this instance is, who the node is to the API server, the
        configuration and the notice come all the same."""
        world = self.node_world(token=True)
        world.pod("web")
        world.imds.server.faults.append(Fault("delay", delay_sec=3.0))
        world.imds.spot(300)
        world.start(ready=False)
        world.must(world.is_cordoned, "the cordon", 75)
        world.must(lambda: "facts and configuration are known" in world.log(), "the configuration", 60)
        self.assertEqual(self.state(world), "ok")

    def test_dead_service_shows_on_the_node(self) -> None:
        """An interruption would come without a notice: who looks at the cluster sees it, and sees it end."""
        world = self.node_world()
        world.start()
        world.must(lambda: self.state(world) == "ok", "ok")
        world.imds.server.refuse()
        world.must(lambda: world.condition(NOTICES) == ("True", "MetadataServiceUnavailable"), "the condition", 60)
        world.kill()
        world.start(ready=False)
        world.imds.server.listen()
        world.must(lambda: world.condition(NOTICES) == ("False", "MetadataServiceAvailable"), "its end", 60)
        self.assertEqual(len(world.steps("notices")), 2)

    def test_silent_and_refused(self) -> None:
        world = self.node_world()
        world.start()
        world.imds.server.fault("silent")
        world.must(lambda: self.state(world) == "failing", "failing")
        world.imds.server.heal()
        world.must(lambda: self.state(world) == "ok", "ok")
        world.imds.server.refuse()
        world.must(lambda: self.state(world) == "failing", "failing")
        world.must(lambda: re.search(r"spot notices may be missed meanwhile; [a-z]", world.log()), "the remedy in the log")
        world.imds.spot(120)
        world.imds.server.listen()
        world.must(world.is_cordoned, "the cordon")
        self.assertEqual(world.stop()[0], 0)

    def test_heard_while_something_is_waited_for(self) -> None:
        """What the daemon waits for (here user data that does not come, a second each time) delays no poll."""
        world = self.node_world()
        world.start()

        def asked(path: str) -> list[float]:
            return [e["recv"] for e in world.requests() if path in e["path"]]

        world.must(lambda: len(asked(SPOT_PATH)) >= 3, "polls in their rhythm")
        before = len(asked("user-data"))
        world.imds.server.fault("silent", path="user-data")
        world.daemon.send_signal(signal.SIGHUP)
        world.must(lambda: len(asked("user-data")) >= before + 5, "questions for user data", 30)
        begin, end = asked("user-data")[before], asked("user-data")[-1]
        polls = [at for at in asked(SPOT_PATH)[1:] if begin - 1.2 < at < end]
        pauses = [later - earlier for earlier, later in zip(polls, polls[1:])]
        self.assertGreaterEqual(len(pauses), 4, (begin, end, polls))
        for pause in pauses:
            self.assertAlmostEqual(pause, 0.9, delta=0.3, msg=str(pauses))
        world.imds.spot(120)
        world.must(lambda: "EC2 interrupts this spot instance" in world.log(), "the notice", 1.2 + SLACK)

    def test_tokens_rotate(self) -> None:
        world = self.node_world()
        world.start()
        world.must(lambda: self.state(world) == "ok", "ok")
        before = sum(e["method"] == "PUT" for e in world.requests())
        world.imds.revoke_tokens()
        world.imds.spot(120)
        world.must(world.is_cordoned, "the cordon")
        self.assertEqual(sum(e["method"] == "PUT" for e in world.requests()), before + 1)

    def test_away_from_the_start(self) -> None:
        """Without IMDS there is no configuration and no name but the API server's word; a request is heard all the same."""
        world = DaemonWorld()
        world.listening = False
        self.enterContext(world)
        self.addCleanup(self.judge, world)
        world.pod("web")
        world.start()
        world.change_node(
            lambda n: n["metadata"]["annotations"].update(
                {"nodeclaimd.io/drain-request": '{"id":"r1","mode":"graceful"}'}
            )
        )
        world.must(lambda: world.evictions("web", accepted=True), "the eviction")
        self.assertEqual(world.condition("InterruptionPending"), ("True", "Requested"))

    def test_clock_ten_minutes_off(self) -> None:
        """EC2's clock counts. A pod that may not leave goes at its last moment by that clock."""
        for ahead in (600.0, -600.0):
            with self.subTest(ahead):
                world = self.node_world()
                world.imds.clock_ahead_sec = world.api.clock_ahead_sec = ahead
                world.pod("blocked", grace=3)
                world.budget("never", "blocked")
                world.start()
                start = time.monotonic()
                world.imds.spot(12)
                world.must(lambda: world.deletions("blocked"), "the deletion")
                took = world.deletions("blocked")[0].at - start
                self.assertTrue(6.5 <= took <= 8.5 + SLACK, f"{took}\n{world.story()}")  # 12 - 1 - 3 = 8; whole seconds
                self.assertIn(world.deletions("blocked")[0].grace, (2, 3) if PATIENCE == 1 else (1, 2, 3))
                self.assertLess(abs(world.said_of_itself()["skewUsec"] / 1e6 - ahead), 2.5)


class Weaker(DaemonTest):
    def test_rebalance_is_reported(self) -> None:
        world = self.node_world()
        world.pod("web")
        world.imds.rebalance()
        world.start()
        world.must(lambda: world.condition("InterruptionPending") == ("True", "RebalanceRecommended"), "the condition")
        world.phase_is("reported")
        self.assertEqual((world.is_cordoned(), world.steps("cordon", "evict")), (False, []))
        self.assertEqual(world.annotation()["policy"], "report")
        world.imds.spot(120)  # two notices at once: the stronger one rules
        world.must(lambda: not world.pods(), "the drain")
        self.assertEqual(world.condition("InterruptionPending")[1], "SpotInterruption")
        self.assertNotIn("policy", world.annotation())
        world.imds.spot(None)
        world.must(lambda: not world.is_cordoned(), "back to what rebalance asks for")
        world.must(lambda: world.condition("InterruptionPending") == ("True", "RebalanceRecommended"), "the condition")

    def test_policies(self) -> None:
        for policy in ("ignore", "cordon", "drain"):
            with self.subTest(policy):
                world = self.node_world(config=f"  interruption:\n    rebalance: {policy}\n")
                world.pod("web")
                world.imds.rebalance()
                world.start()
                if policy == "ignore":
                    world.must(lambda: any("rebalance" in str(e["path"]) for e in world.requests()), "a poll")
                    world.imds.spot(120)
                    world.must(world.is_cordoned, "the cordon")
                    self.assertEqual(
                        world.steps("signal")[0].body["status"]["conditions"][0]["reason"], "SpotInterruption"
                    )
                    continue
                world.must(world.is_cordoned, "the cordon")
                if policy == "cordon":
                    world.phase_is("cordoned")
                    self.assertEqual(world.evictions(), [])
                else:
                    world.must(lambda: not world.pods(), "the drain")

    def test_maintenance(self) -> None:
        world = self.node_world(profile="m5.large")
        world.pod("web")
        event = world.imds.maintenance_event
        world.imds.maintenance(
            event(60, State="completed", EventId="instance-event-1"),
            event(60, Description="[Canceled] gone", EventId="instance-event-2"),
            event(14 * 86400, EventId="instance-event-3"),
        )
        world.start()
        world.must(lambda: world.condition("InterruptionPending") == ("True", "ScheduledMaintenance"), "the condition")
        world.phase_is("reported")
        self.assertIn("instance-event-3", world.annotation()["id"])
        self.assertEqual(world.annotation()["policy"], "report")  # so that the controller does nothing either
        self.assertEqual(world.steps("cordon", "evict"), [])

    def test_maintenance_that_begins_soon(self) -> None:
        world = self.node_world(profile="m5.large")
        world.pod("web")
        world.imds.maintenance(world.imds.maintenance_event(600))
        world.start()
        world.must(lambda: not world.pods(), "the drain")
        self.assertOrder(world, "signal", "cordon", "evict")
        world.imds.maintenance()
        world.must(lambda: not world.is_cordoned(), "that it was taken back, sooner than in a minute", 35)

    def test_event_that_cannot_be_read(self) -> None:
        """It is named, and hides none of the others; nor does one that began long ago."""
        world = self.node_world()
        event = world.imds.maintenance_event
        unreadable = event(300)
        del unreadable["EventId"]
        world.imds.maintenance(unreadable, event(-7200), event(600, "instance-stop", EventId="stop"))
        world.start()
        world.must(world.is_cordoned, "the cordon")
        self.assertEqual(world.annotation()["id"], "stop")
        poll = lambda: world.said_of_itself().get("imds", {}).get("maintenance", {})
        world.must(lambda: poll().get("state") == "failing", "the state")
        self.assertIn("event 1: EventId: found nothing", poll()["error"])

    def test_code_that_has_its_own_policy(self) -> None:
        world = self.node_world(config="  interruption: {system-reboot: report}\n")
        world.pod("stays")
        world.imds.maintenance(world.imds.maintenance_event(600))
        world.start()
        world.must(lambda: world.condition("InterruptionPending")[0] == "True", "the condition")
        self.assertEqual(world.annotation()["policy"], "report")
        self.assertEqual(world.steps("cordon", "evict"), [])

    def test_maintenance_that_is_over(self) -> None:
        world = self.node_world(profile="m5.large")
        world.imds.maintenance(world.imds.maintenance_event(600, State="canceled"))
        world.start()
        world.must(
            lambda: world.said_of_itself().get("imds", {}).get("maintenance", {}).get("state") == "ok", "the poll"
        )
        self.assertEqual(world.steps("signal", "cordon"), [])

    def test_back_to_a_warm_pool(self) -> None:
        """It leaves the service, and may be taken again."""
        world = self.node_world(profile="m5.large")
        world.pod("web")
        world.imds.target_state("InService")
        world.start()
        world.must(lambda: world.said_of_itself().get("imds", {}).get("autoscaling", {}).get("state") == "ok", "the poll")
        world.imds.target_state("Warmed:Stopped")
        world.must(lambda: not world.pods(), "the drain", 20)
        self.assertEqual(world.annotation()["id"], "autoscaling-warmed")
        world.imds.target_state("InService")
        world.must(lambda: not world.is_cordoned(), "the release", 20)

    def test_auto_scaling_terminates(self) -> None:
        world = self.node_world(profile="m5.large")
        world.pod("web")
        world.imds.target_state("Terminated")
        world.start()
        world.drained()
        self.assertEqual(world.condition("InterruptionPending"), ("True", "AutoScalingTermination"))
        self.assertEvictedOnce(world, "web")
        self.assertEqual(len(world.steps("signal")), 1)
        world.must(lambda: "AutoScalingTermination" in world.events(), "the Event")
        self.assertEqual(world.events().count("AutoScalingTermination"), 1)

    def test_auto_scaling_with_a_deadline(self) -> None:
        """EC2 does not say how long a lifecycle hook waits. Where people do, a pod that a budget holds goes in time; the deadline
        counts from when the state was first seen, over a restart too."""
        world = self.node_world(profile="m5.large", config="  interruption: {autoscalingDeadline: 14s}\n")
        world.pod("web", grace=2)
        world.budget("never", "web")
        world.imds.target_state("Terminated")
        world.start()
        world.must(lambda: world.evictions("web"), "an attempt")
        until = world.annotation()["deadline"]
        self.assertTrue(4 <= epoch(until) - time.time() <= 15, until)
        world.kill()
        world.start(ready=False)
        world.must(lambda: world.deletions("web"), "the last moment", within=20)
        world.drained()
        self.assertEqual(world.annotation()["deadline"], until)
        self.assertEqual([s.grace for s in world.deletions("web") if s.grace not in (1, 2)], [])

    def test_uncordoned_under_a_deadline(self) -> None:
        """A node that is about to end takes pods again, and to their end: it is cordoned once more, and whoever did it is told."""
        world = self.node_world()
        world.pod("held")
        world.budget("never", "held")
        world.start()
        world.imds.spot(90)
        world.must(lambda: world.drain().get("cordon", {}).get("ours"), "the cordon, ours")

        def uncordon(node: dict[str, Any]) -> None:
            node["spec"]["unschedulable"] = False

        world.change_node(uncordon)
        world.must(lambda: len(world.steps("cordon")) == 2 and world.is_cordoned(), "the second cordon")
        world.must(lambda: world.events().count("NodeCordoned") == 2, "its Event")
        said = [e for e in world.api.objects("events") if e["reason"] == "NodeCordoned"]
        self.assertEqual([e["type"] for e in said if "was lifted" in e["message"]], ["Warning"])
        world.must(lambda: world.drain()["cordon"]["ours"], "ours again")
        world.change_node(uncordon)
        world.must(lambda: not world.drain()["cordon"]["ours"], "status.json does not call it ours")
        tries = len(world.evictions())
        world.must(lambda: len(world.evictions()) > tries, "the drain goes on", within=40)
        self.assertEqual((len(world.steps("cordon")), world.is_cordoned()), (2, False), "whoever does it twice means it")


class Early(DaemonTest):
    def test_notice_before_the_node_exists(self) -> None:
        world = self.node_world(node=False)
        world.imds.spot(120)
        world.start()
        world.must(lambda: "spot" in str(world.drain().get("sources")), "the notice")
        world.add_node()
        world.pod("web")
        world.must(lambda: not world.pods(), "the drain")
        self.assertOrder(world, "signal", "cordon", "evict")

    def test_notice_during_bootstrap(self) -> None:
        """Both programs at work: the node registers, and is cordoned as soon as it has."""
        world = self.node_world(node=False, token=True)
        (world.root / "var/lib/kubelet/kubeconfig").unlink()
        world.api.cluster.behave.controller_manager = world.api.cluster.behave.cloud_controller = True
        world.set_user_data(world.user_data_without_karpenter())
        world.imds.spot(120)
        world.start()
        boot = world.spawn("bootstrap", "--timeout", "30s")
        world.must(world.is_cordoned, "the cordon", within=30)
        done = world.finish(boot)
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual((world.status()["outcome"], world.condition("BootstrapComplete")[0]), ("succeeded", "True"))
        world.must(lambda: world.drain().get("phase") in ("evicting", "drained", "cordoned"), "the drain")
        world.must(lambda: world.said_of_itself().get("connected") is True, "both parts of status.json")
        self.assertTrue(world.is_cordoned())


if __name__ == "__main__":
    unittest.main()
