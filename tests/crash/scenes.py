"""The runs that are killed: what each begins with, what happens to it meanwhile, when it is over, what must be true at a death.

Knows: `World` and `DaemonWorld` of the integration tests, the paths of the program's files.
Gives: `SCENES`, each a `Scene`.
Must not: know who kills, or when.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from typing import Any, Optional

from harness import World, is_alive, mime, until
from test_host import ARGUMENTS, CONTAINERD, CONTAINERD_FILE, DISKS, MARKER, RESOLVER, RESOLVER_FILE, HostWorld
from running import CORDON_KEY, LABEL, STATE, DaemonWorld

import endstate

GATE = "etc/nodeclaimd/kubelet.env"  # kubelet's unit starts where this file is: nothing may be missing then
BY_HAND = ("etc/eks", "etc/nodeclaimd/conf.d", "etc/kubernetes/pki/node", "proc", "dev", "var/log")
BOOT = "0c5d1d1c-6f0e-4a44-9c0a-00000000000{}\n"


class Scene:
    name = ""
    about = ""
    limit_sec = 60.0
    counts = "files,process"  # classes of calls at which it is killed
    stride = 1  # each so many calls, where nobody says another number
    only = ""  # of these, only where the path has this in it
    is_daemon = False  # it does not end by itself
    cuts = True  # a power cut is tried too
    umask = 0o022  # as its unit has it

    def open(self) -> World:
        raise NotImplementedError

    def prepare(self, world: World) -> None:
        """Before the run that is killed."""

    def spawn(self, world: World, env: dict[str, str]) -> "subprocess.Popen[bytes]":
        raise NotImplementedError

    def poke(self, world: World) -> None:
        """Now and then: what happens around the program, by what is seen of it."""

    def goes_down(self, world: World) -> bool:
        """True once where the machine reboots in the middle of it, without a word to the program."""
        return False

    def is_over(self, world: World) -> bool:
        """For a program that does not end by itself."""
        return False

    def end(self, world: World, proc: "subprocess.Popen[bytes]") -> int:
        """Its exit code."""
        return proc.wait(20)

    def servers(self, world: Any) -> list[Any]:
        """Where its requests are killed at."""
        return [world.api.server]

    def agent(self) -> str:
        """How its requests are told from others': the end of its User-Agent."""
        raise NotImplementedError

    def at_death(self, world: World, before: dict[str, Any], final: dict[str, Any]) -> list[str]:
        return []

    def after_cut(self, world: World, before: dict[str, Any], final: dict[str, Any]) -> list[str]:
        """When the machine is up again, before the program is started."""
        return []

    def at_end(self, world: World) -> list[str]:
        return []

    def state(self, world: World) -> dict[str, Any]:
        return {"files": endstate.tree(world), **endstate.objects(world)}

    def compare(self, want: dict[str, Any], have: dict[str, Any], deaths: int, is_cut: bool) -> list[str]:
        return endstate.differences(want, have)

    def reboot(self, world: World) -> None:
        """The machine goes down and comes up again: /run is empty, no process is left."""
        shutil.rmtree(world.root / "run", ignore_errors=True)
        world.stop_kubelet()
        path = world.root / "proc/sys/kernel/random/boot_id"
        if path.exists():
            path.write_text(BOOT.format(int(path.read_text()[-2:]) + 1))


def whole_files(world: World, before: dict[str, Any], final: dict[str, Any]) -> list[str]:
    """Each file that is written whole is absent if it was absent, or old, or new: content and mode."""
    wrong = []
    now = endstate.tree(world)
    for path in sorted(set(before) | set(final)):
        is_new_file = path.startswith(("etc/", "var/lib/kubelet")) and not path.startswith(BY_HAND)
        if not is_new_file or final.get(path, before.get(path))[0].startswith("d"):
            continue
        if now.get(path) not in (before.get(path), final.get(path)):
            wrong.append(f"{path} is neither old nor new: {endstate.shown(now.get(path))}")
    for path in ("run/nodeclaimd/status.json", "run/nodeclaimd/metrics.prom", STATE):
        if path not in now:
            continue
        try:
            text = (world.root / path).read_text()
            if not text.endswith("\n") or (path.endswith("json") and not isinstance(json.loads(text), dict)):
                raise ValueError("no object, or no end of line")
        except ValueError as exc:
            wrong.append(f"{path} is torn: {exc}")
    return wrong


def gate_is_last(world: World, before: dict[str, Any], final: dict[str, Any]) -> list[str]:
    """Where kubelet could start, whatever it reads is there; and where it reads the new one, all is new."""
    now = endstate.tree(world, "etc", "var/lib")
    if GATE not in now:
        return []
    wanted = [
        p for p in final if p.startswith(("etc/", "var/lib/")) and not p.startswith(BY_HAND) and final[p][0][0] == "-"
    ]
    wrong = [f"{GATE} is there before {p}" for p in wanted if p not in now]
    if now[GATE] == final[GATE] != before.get(GATE):
        wrong += [f"{GATE} is new before {p}" for p in wanted if p in now and now[p] != final[p]]
    return wrong


class Bootstrap(Scene):
    name = "bootstrap"
    about = "a bare root becomes a Ready node"

    def open(self) -> World:
        return World()

    def prepare(self, world: World) -> None:
        path = world.root / "proc/sys/kernel/random/boot_id"
        path.parent.mkdir(parents=True)
        path.write_text(BOOT.format(1))

    def spawn(self, world: World, env: dict[str, str]) -> "subprocess.Popen[bytes]":
        return world.spawn("bootstrap", "--timeout", "40s", **env)

    def agent(self) -> str:
        return "(bootstrap)"

    def at_death(self, world: World, before: dict[str, Any], final: dict[str, Any]) -> list[str]:
        wrong = whole_files(world, before, final) + gate_is_last(world, before, final)
        if self.new_kubelets(world):
            now = endstate.tree(world, "etc", "var/lib")
            wrong += [
                f"kubelet runs, and {p} is not what it is to read"
                for p in final
                if p.startswith(("etc/", "var/lib/")) and now.get(p) != final[p]
            ]
        return wrong

    def after_cut(self, world: World, before: dict[str, Any], final: dict[str, Any]) -> list[str]:
        return gate_is_last(world, before, final)

    def new_kubelets(self, world: World) -> list[int]:
        return world.kubelet_pids()

    def at_end(self, world: World) -> list[str]:
        alive = [pid for pid in world.kubelet_pids() if is_alive(pid)]
        return [] if len(alive) == 1 else [f"{len(alive)} kubelets run, of {len(world.kubelet_pids())} that were started"]


class Update(Bootstrap):
    name = "update"
    about = "bootstrap over an earlier one whose settings have changed"

    def prepare(self, world: World) -> None:
        super().prepare(world)
        done = world.bootstrap("--timeout", "40s", within=60)
        if done.code != 0:
            raise AssertionError(f"the bootstrap before it failed: {done.err}")
        self.first = world.kubelet_pids()
        # Nothing that the Node's status tells: it is the old kubelet's until the new one has spoken.
        text = world.node_config().replace("- 10.100.0.10", "- 10.100.0.11").replace("=on-demand", "=spot")
        world.set_user_data(mime(("application/node.eks.aws", text)))

    def end(self, world: World, proc: "subprocess.Popen[bytes]") -> int:
        until(lambda: world.node()["metadata"]["labels"].get("karpenter.sh/capacity-type") == "spot", 20)
        return super().end(world, proc)

    def new_kubelets(self, world: World) -> list[int]:
        return world.kubelet_pids()[len(self.first) :]


class Host(Bootstrap):
    name = "host"
    about = "bootstrap with environment, name servers, local disks and containerd, all of them units"
    paths = {
        RESOLVER: RESOLVER_FILE,
        DISKS: ARGUMENTS,
        CONTAINERD: CONTAINERD_FILE,
        "kubelet.service": MARKER,
    }  # what each unit must have found when it was started last

    def open(self) -> World:
        return HostWorld()

    def reboot(self, world: World) -> None:
        """systemd starts containerd by itself, with what is on disk; the others wait for us."""
        assert isinstance(world, HostWorld)
        super().reboot(world)
        world.bus.calls.append("Reload")
        for name, unit in world.bus.units.items():
            unit.active = "inactive"
        world.bus.units[CONTAINERD].run(False)

    def at_death(self, world: World, before: dict[str, Any], final: dict[str, Any]) -> list[str]:
        assert isinstance(world, HostWorld)
        wrong = super().at_death(world, before, final)
        if CONTAINERD in world.seen and world.bus.units[DISKS].starts == 0:
            wrong.append("containerd was started before the local disks")
        return wrong

    def state(self, world: World) -> dict[str, Any]:
        """The phase of containerd is there only where a run found something to do; the run before may have done it."""
        found = super().state(world)
        status = found["files"]["run/nodeclaimd/status.json"][2]
        status["phases"] = [p for p in status["phases"] if p["name"] != "containerd"]
        return found

    def at_end(self, world: World) -> list[str]:
        assert isinstance(world, HostWorld)
        wrong = super().at_end(world)
        for unit, path in self.paths.items():
            if path not in world.seen.get(unit, set()):
                wrong.append(f"{unit} was not started after {path} was written")
        return wrong if "Reload" in world.bus.calls else [*wrong, "systemd was not reloaded"]


def other_events(want: dict[str, Any], have: dict[str, Any], deaths: int) -> list[str]:
    wrong = []
    for event, count in have["events"].items():
        if " DrainFailed on " in event:
            continue  # the notice's time was over before the restart on a slow machine; what then became of the pods counts
        if " DrainResumed on " in event and count <= deaths:
            continue  # who goes on says so
        if count > want["events"].get(event, 0) + deaths or event not in want["events"]:
            wrong.append(f"events: {count} {event}, {want['events'].get(event, 0)} undisturbed")
    return wrong


class Daemon(Scene):
    counts, only = "files", "/root/"  # its log is a file too, elsewhere
    is_daemon = True
    umask = 0o077
    notice_sec = 9.0
    stride = 4  # it takes seconds

    def open(self) -> DaemonWorld:
        return DaemonWorld()

    def spawn(self, world: World, env: dict[str, str]) -> "subprocess.Popen[bytes]":
        assert isinstance(world, DaemonWorld)
        return world.start(ready=False, **env)

    def speaks(self, world: DaemonWorld) -> bool:
        """What status.json says is of this process, not of the one before it, and of one that has connected."""
        said = world.said_of_itself()
        return said.get("pid") == world.daemon.pid and bool(said.get("connected"))

    def is_settled(self, world: DaemonWorld) -> bool:
        """It has seen its Node since this boot, nothing is left to do, and that is on disk."""
        path = world.root / STATE
        saved = json.loads(path.read_text() or "{}") if path.exists() else {}
        life = saved.get("life", {})
        boot = (world.root / "proc/sys/kernel/random/boot_id").read_text().strip()
        is_idle = life.get("phase") == "idle" and bool(life.get("node", {}).get("uid"))
        return is_idle and saved.get("boot_id") == boot and "clean_up" not in saved

    def end(self, world: World, proc: "subprocess.Popen[bytes]") -> int:
        if proc.poll() is None:
            proc.send_signal(signal.SIGTERM)
        return proc.wait(20)

    def compare(self, want: dict[str, Any], have: dict[str, Any], deaths: int, is_cut: bool) -> list[str]:
        """Events are sent and forgotten: a death may cost each once, or have it told once more, but adds no other.
        After a cut another boot tells of itself: what it says of its own doing is its own, what the cluster sees is not."""
        wrong = other_events(want, have, deaths)
        want, have = ({k: v for k, v in s.items() if k != "events"} for s in (want, have))
        if is_cut:
            want, have = (
                {**s, "files": {p: row[:2] for p, row in s["files"].items()}} for s in (want, have)
            )
        return wrong + endstate.differences(want, have)

    def agent(self) -> str:
        return "(run)"

    def at_death(self, world: World, before: dict[str, Any], final: dict[str, Any]) -> list[str]:
        return whole_files(world, before, final)

    def at_end(self, world: World) -> list[str]:
        assert isinstance(world, DaemonWorld)
        wrong = []
        accepted = [s.what for s in world.steps("evict") if s.status == 201]
        for pod in sorted(set(accepted)):
            if accepted.count(pod) > 1:
                wrong.append(f"{pod} was evicted {accepted.count(pod)} times")
        for entry in world.api.server.log.snapshot():
            if "bug" in entry:
                wrong.append(f"a request that no node makes: {entry['method']} {entry['path']}: {entry['bug']}")
        return wrong


def is_drained(world: DaemonWorld) -> bool:
    return (
        not world.pods()
        and world.condition("Drained")[0] == "True"
        and world.annotation().get("phase") == "Drained"
        and world.drain().get("phase") == "drained"
        and world.drain().get("cordon", {}).get("ours") is True  # a process that has just begun has not seen its Node yet
    )


class Drain(Daemon):
    name = "drain"
    about = "a spot notice: eight pods leave, one that a budget holds is deleted at its last moment"

    def prepare(self, world: World) -> None:
        assert isinstance(world, DaemonWorld)
        for i in range(8):
            world.pod(f"web-{i}", grace=2)
            world.api.kubelet.stops_after[f"web-{i}"] = 0.1
        world.budget("never", "web-0")
        world.imds.spot(self.notice_sec)

    def is_over(self, world: World) -> bool:
        assert isinstance(world, DaemonWorld)
        return is_drained(world) and self.speaks(world)

    def at_end(self, world: World) -> list[str]:
        assert isinstance(world, DaemonWorld)
        wrong = super().at_end(world)
        if not world.is_cordoned() or world.node()["metadata"]["labels"].get(LABEL) != "nodeclaimd":
            wrong.append("the node is not cordoned any more")
        if not world.annotation(CORDON_KEY):
            wrong.append("a cordon that nobody owns")
        if world.steps("release", "calm"):
            wrong.append("undone in between")
        return wrong


class Operator(Daemon):
    name = "operator"
    about = "`nodeclaimd drain`: what was accepted is done, whatever happens to the daemon or the machine"

    def prepare(self, world: World) -> None:
        assert isinstance(world, DaemonWorld)
        for i in range(3):
            world.pod(f"web-{i}", grace=2)
        self.command: Optional[subprocess.Popen[bytes]] = None
        self.is_accepted = False
        self.broken: list[str] = []

    def poke(self, world: World) -> None:
        """Who is told that it was not accepted asks again."""
        assert isinstance(world, DaemonWorld)
        if self.is_accepted:
            return
        if self.command is None and self.speaks(world):
            self.command = world.spawn("drain", "--reason", "kernel update")
        elif self.command and self.command.poll() is not None:
            assert self.command.stderr
            said = self.command.stderr.read().decode()
            self.is_accepted = self.command.returncode == 0
            if "daemon read the request" in said:
                self.broken.append(said)
            self.command = None

    def reboot(self, world: World) -> None:
        super().reboot(world)
        if self.command:
            self.command.kill()
            self.command = None

    def is_over(self, world: World) -> bool:
        assert isinstance(world, DaemonWorld)
        return self.is_accepted and is_drained(world) and self.speaks(world)

    def at_end(self, world: World) -> list[str]:
        return super().at_end(world) + self.broken


def is_calm(world: DaemonWorld) -> bool:
    return world.condition("InterruptionPending")[0] == "False" and world.drain().get("phase") == "idle"


def not_taken_back(world: DaemonWorld) -> list[str]:
    meta = world.node()["metadata"]
    return ["what is ours was not taken back"] if LABEL in meta["labels"] or CORDON_KEY in meta["annotations"] else []


def begin_held_drain(world: DaemonWorld) -> None:
    world.pod("web", grace=2)
    world.pod("held", grace=2)
    world.budget("never", "held")
    world.imds.spot(600)


def is_held(world: DaemonWorld) -> bool:
    return world.is_cordoned() and bool(world.evictions("held")) and "web" not in world.pods()


class Undone(Daemon):
    """The notice goes while a budget still holds a pod; when, is each scene's own."""

    def prepare(self, world: World) -> None:
        assert isinstance(world, DaemonWorld)
        begin_held_drain(world)
        self.is_gone = False  # the notice

    def withdraw(self, world: DaemonWorld) -> None:
        world.imds.spot(None)
        self.is_gone = True

    def is_over(self, world: World) -> bool:
        assert isinstance(world, DaemonWorld)
        is_done = self.is_gone and not world.is_cordoned() and is_calm(world) and self.speaks(world)
        return is_done and self.is_settled(world)

    def at_end(self, world: World) -> list[str]:
        assert isinstance(world, DaemonWorld)
        return super().at_end(world) + not_taken_back(world)


class Withdrawn(Undone):
    name = "withdrawn"
    about = "a spot notice that is taken back while a budget still holds a pod: what is ours is undone"

    def poke(self, world: World) -> None:
        assert isinstance(world, DaemonWorld)
        if not self.is_gone and is_held(world):
            self.withdraw(world)


class Reboot(Undone):
    name = "reboot"
    about = "the machine reboots in the middle of a drain, and the notice is gone with it: what is ours is undone"

    def goes_down(self, world: World) -> bool:
        assert isinstance(world, DaemonWorld)
        if self.is_gone or not is_held(world) or not self.speaks(world) or world.drain().get("phase") != "evicting":
            return False
        if "DrainBlocked" not in world.events() and len(world.procs) == 1:
            return False  # a death may have cost it
        self.withdraw(world)
        return True


class Rebooted(Daemon):
    name = "rebooted"
    about = "the first start after such a reboot: what is ours is undone once, and pods that the shutdown left are removed"
    LEFT = {"reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown."}

    def prepare(self, world: World) -> None:
        assert isinstance(world, DaemonWorld)
        begin_held_drain(world)
        world.start()
        world.must(lambda: is_held(world), "the drain")
        world.stop()
        world.imds.spot(None)
        for name, owner in (("left-1", "ReplicaSet"), ("left-2", "ReplicaSet"), ("left-job", "Job"), ("left-bare", "")):
            world.pod(name, phase="Failed", status=self.LEFT, owner=owner)
        self.reboot(world)

    def is_over(self, world: World) -> bool:
        assert isinstance(world, DaemonWorld)
        is_done = self.is_inhibitor_released(world) and is_calm(world) and len(world.pods()) == 3 and self.speaks(world)
        return is_done and self.is_settled(world)

    def is_inhibitor_released(self, world: DaemonWorld) -> bool:
        return not world.is_cordoned()

    def at_end(self, world: World) -> list[str]:
        assert isinstance(world, DaemonWorld)
        accepted = [s.what for s in world.steps("delete") if s.status == 200]
        wrong = [] if sorted(accepted) == ["left-1", "left-2"] else [f"deleted: {accepted}"]
        return super().at_end(world) + wrong + self.whose(world)

    def whose(self, world: DaemonWorld) -> list[str]:
        return not_taken_back(world)


class RebootedForeign(Rebooted):
    name = "rebooted-foreign"
    about = "the same where a person had cordoned the node before the drain: that cordon stays"

    def prepare(self, world: World) -> None:
        assert isinstance(world, DaemonWorld)

        def cordon(node: dict[str, Any]) -> None:
            node["spec"]["unschedulable"] = True
            node["metadata"]["labels"][LABEL] = "karpenter"

        world.change_node(cordon)
        super().prepare(world)

    def is_inhibitor_released(self, world: DaemonWorld) -> bool:
        return True

    def whose(self, world: DaemonWorld) -> list[str]:
        node = world.node()
        is_theirs = node["spec"].get("unschedulable") is True and node["metadata"]["labels"].get(LABEL) == "karpenter"
        wrong = [] if is_theirs else ["a person's cordon or label was taken away"]
        return wrong + [f"ours: {s.body}" for s in world.steps("cordon", "release") if "spec" in s.body]


SCENES: list[type[Scene]] = [Bootstrap, Update, Host, Drain, Withdrawn, Operator, Reboot, Rebooted, RebootedForeign]
