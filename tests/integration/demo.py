#!/usr/bin/python3
"""The demonstration: a node boots from the user data that Karpenter writes, and ends with a spot notice and a drain.

Everything around the program is a fake on loopback: EC2's metadata service, the API server with the node authorizer's rules,
and a stand-in for kubelet that really reads the rendered files and really executes the token command. The program is the real
one. Prints what a person wants to see, says what is fake, and exits with the bootstrap's exit code. With --dir it leaves
the node's files and a drawing of its life there.

With --fail one thing is wrong, and it prints what a person sees of that, and does next: cause, remedy, exit code, steps. It then exits with 0 where the
bootstrap has failed with the exit code that docs/commands.md has for it.

    demo.py --agent PATH [--dir DIR] [--user-data FILE] [--fail wrong-ca|clock|no-route|kubelet]
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple, Optional

NOTICE_AHEAD_SEC = 14  # two minutes in real life
MARGIN_SEC = 3
CONFIG = f"""\
  drain:
    margin: {MARGIN_SEC}s
"""
PODS = ("web-1", "web-2", "web-3", "queue-1", "database-0", "node-agent")
MEMORY_KIB = 3941016  # of a c5a.large, as Linux counts its 4 GiB
MACHINE = {  # what the host says of itself where it is one, prepared as an EKS image is
    "proc/meminfo": f"MemTotal:        {MEMORY_KIB} kB\n",
    "sys/devices/system/cpu/online": "0-1\n",
    "proc/sys/vm/overcommit_memory": "1\n",
    "proc/sys/vm/panic_on_oom": "0\n",
    "proc/sys/kernel/panic": "10\n",
    "proc/sys/kernel/panic_on_oops": "1\n",
    "proc/sys/kernel/keys/root_maxkeys": "1000000\n",
    "proc/sys/kernel/keys/root_maxbytes": "25000000\n",
}
CONTAINERD = {"etc/eks/containerd-version.txt": "containerd github.com/containerd/containerd/v2 v2.1.4 0123abc\n"}
WANTS_CONTAINERD = re.compile(r"^ *containerd:(?! *\{\})", re.M)  # none runs, which a node says: one only for user data that configure it
OF_CLOUD_INIT = re.compile(r"\A#(!|cloud-config)|^Content-Type: *text/(cloud-|x-shellscript)", re.M | re.I)


JOINS_SEC = 20
FAILS_SEC = 12  # a quarter of an hour in real life


class Failure(NamedTuple):
    wrong: str
    code: int  # of the bootstrap
    silence: str  # why there is no Event in the cluster
    steps: str  # what a person does next


FAILURES = {
    "wrong-ca": Failure(
        "certificateAuthority in the user data is that of another cluster.",
        4,
        "none: the node does not trust this API server, and sent it no request",
        "Compare certificateAuthority in the user data with the CA of the cluster, correct it, and replace the node:\n"
        "aws eks describe-cluster --name CLUSTER --query cluster.certificateAuthority.data",
    ),
    "clock": Failure(
        "The clock of the machine is an hour behind.",
        4,
        "none: the API server did not know this node",
        "Find out why the clock is behind, and set it: chronyc sources; chronyc makestep",
    ),
    "no-route": Failure(
        "Nothing that the node sends to the API server is answered: a security group or a route is missing.",
        1,
        "none: the node cannot reach the API server",
        "Let the security group of the API server take TCP 443 from the node, and compare the routes of the subnet.\n"
        "nodeclaimd preflight on the node says whether it is reached.",
    ),
    "kubelet": Failure(
        "kubelet exits as soon as it was started. The demo starts it with `start: exec`, where one attempt is\n"
        "final; on a node with systemd kubelet is started again until the deadline.",
        6,
        "none",
        "The last line of kubelet names a socket that is not there: containerd does not run.\n"
        "Once it runs: systemctl restart nodeclaimd-bootstrap",
    ),
}


def substitute(text: str, endpoint: str, ca: str) -> str:
    """The example's cluster, moved to the fakes."""
    text = re.sub(r"(apiServerEndpoint:) .*", rf"\1 {endpoint}", text)
    return re.sub(r"(certificateAuthority:) .*", rf"\1 {ca}", text)


def cluster_name(text: str) -> str:
    found = re.search(r"^    name: *(\S+)", text, re.M)
    return found[1].strip("\"'") if found else "demo"


def show(title: str, text: str) -> None:
    print(f"\n{title}")
    print("".join(f"  {line}\n" for line in text.rstrip().splitlines()), end="")


def describe(node: dict) -> str:  # type: ignore[type-arg]
    meta, spec, status = node["metadata"], node["spec"], node["status"]
    labels = "\n              ".join(f"{k}={v}" for k, v in sorted(meta["labels"].items()))
    conditions = ", ".join(f"{c['type']}={c['status']}" for c in status["conditions"])
    return (
        f"name          {meta['name']}\nproviderID    {spec['providerID']}\nconditions    {conditions}\n"
        f"allocatable   {', '.join(f'{k} {v}' for k, v in status['allocatable'].items() if v != '0')}\nlabels        {labels}\n"
    )


def install_tables(root: Path) -> None:
    """kubelet's flags and gates and containerd's keys, where `make install` would put them."""
    (root / "usr/local/share/nodeclaimd").mkdir(parents=True, exist_ok=True)
    for table in (Path(__file__).resolve().parents[2] / "data").glob("*.tsv"):
        shutil.copy(table, root / "usr/local/share/nodeclaimd")


def next_steps(agent: Path, folder: Path, own: Optional[Path]) -> str:
    """Two commands that work as they stand."""
    tables = folder / "tables"
    install_tables(tables)
    file = shlex.quote(str(own)) if own else "userdata/karpenter-al2023.mime"
    return (
        f"\nNext{'' if own else ', with user data of your own in place of the example'}:\n"
        f"  {agent} check --strict --root {tables} --kubelet-version v1.34.4 \\\n"
        f"    {file}\n"
        f"  {agent} render --facts tests/golden/facts/m5.large --source file://{'' if own else '$PWD/'}{file} \\\n"
        f"    --root {tables} --kubelet-version v1.34.4 --out {folder / 'rendered'}\n"
        "For an image, a role and a cluster read docs/install.md."
    )


def break_it(world: Any, cause: Optional[str], text: str, folder: Path) -> str:
    """The user data, with or beside what is wrong."""
    from pki import Authority

    ca = world.api.ca.base64
    if cause == "wrong-ca":
        ca = Authority(folder, "another-cluster").base64
    elif cause == "clock":
        world.api.clock_ahead_sec, world.api.auth.clock = 3600.0, world.api.now
    elif cause == "no-route":
        world.api.server.fault("silent")
    return substitute(text, world.api.url, ca)


def show_failure(world: Any, done: Any, cause: str) -> int:
    """What a person sees who looks at the machine, at its console, or from the cluster."""

    def on_a_node(text: str) -> str:
        """Its files are below a folder here that is gone afterwards."""
        return text.replace(str(world.root), "")

    show("the journal (journalctl -u nodeclaimd-bootstrap)", on_a_node(done.err))
    show("on the node (nodeclaimd status)", on_a_node(world.run("status").out))
    show("without access to the node (aws ec2 get-console-output)", on_a_node(world.console()))
    events = [e for e in world.api.objects("events") if e["reason"] == "BootstrapFailed"]
    show(
        "in the cluster (kubectl get events --field-selector reason=BootstrapFailed)",
        on_a_node("\n".join(f"{e['reason']:18}{e['message']}" for e in events)) or FAILURES[cause].silence,
    )
    print(f"\nexit code {done.code}")
    show("what you do next", FAILURES[cause].steps)
    print("\ndocs/troubleshooting.md begins with symptoms like these; docs/commands.md lists the exit codes.")
    return 0 if done.code == FAILURES[cause].code else 1


def end(world: Any, picture: Optional[Path]) -> int:
    """Pods on the node, the notice, what the daemon does about it."""
    for name in PODS[:4]:
        world.pod(name, grace=2)
    world.pod("database-0", grace=4)
    world.api.kubelet.stops_after["database-0"] = 2
    world.pod("node-agent", owner="DaemonSet")
    world.budget("database", "database-0", allowed=0, desired=1, healthy=1)
    world.start()
    print(
        "\nPods have to be gone some time before EC2 ends the machine: the margin. By default it is 15 s of a two-minute notice.\n"
        f"The demo sets {MARGIN_SEC} s, as the dry run shows next; the notice of {NOTICE_AHEAD_SEC} s shortens that to 1 s."
    )
    show("what a drain would do now (nodeclaimd drain --dry-run --deadline 2m)", world.run("drain", "--dry-run", "--deadline", "2m").out)
    world.imds.spot(NOTICE_AHEAD_SEC)
    print(f"\nEC2 takes this spot instance back in {NOTICE_AHEAD_SEC} s. A disruption budget allows no eviction of pod database-0.")
    world.must(lambda: world.drain().get("blocked"), "the pod that is blocked")
    show("while the budget holds it (nodeclaimd status)", world.run("status").out)
    world.phase_is("drained", within=NOTICE_AHEAD_SEC + 20)
    world.must(lambda: world.condition("Drained")[0] == "True", "the condition Drained")
    show("boot and drain (nodeclaimd timeline)", world.run("timeline").out)
    if picture:
        picture.parent.mkdir(parents=True, exist_ok=True)
        done = world.run("timeline", "--svg", str(picture))
        print("" if done.code == 0 else f"\nnodeclaimd timeline --svg: {done.err}", end="")
    events = [e for e in world.api.objects("events") if e["involvedObject"]["kind"] == "Node"]
    show("the Events of the Node (and the same of its NodeClaim)", "\n".join(f"{e['reason']:18}{e['message']}" for e in events))
    code, _ = world.stop()
    return code


def main() -> int:
    args = argparse.ArgumentParser(prog="./dev demo", description="boots a node against fakes and prints the timeline")
    args.add_argument("--agent", type=Path, help=argparse.SUPPRESS)  # without it the options are read, and no more
    args.add_argument("--dir", type=Path, help=argparse.SUPPRESS)  # keeps the node's files there, below root/
    args.add_argument("--user-data", type=Path)
    args.add_argument("--fail", choices=FAILURES, help="what is wrong")
    opts = args.parse_args()
    if not opts.agent:
        return 0
    os.environ["NODECLAIMD"] = str(opts.agent.resolve())
    from harness import SOURCE, World
    from running import DaemonWorld

    class DemoWorld(DaemonWorld):
        """The daemon's world, in which the node is not there yet: the bootstrap makes it, Karpenter registers it."""

        def __init__(self, **more: Any) -> None:
            World.__init__(self, **more)
            self.wants_token, self.wants_node, self.wants_bus, self.bus = True, True, False, None
            self.notify, self.said, self.log_file = None, [], self.folder / "daemon.log"

        __enter__ = World.__enter__  # type: ignore[assignment]

        def wait_ready(self) -> None:
            self.must(lambda: self.said_of_itself().get("connected"), "the daemon's connection")

    own = opts.user_data and opts.user_data.resolve()
    source = own or SOURCE / "userdata/karpenter-al2023.mime"
    try:
        text = source.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        print(f"{args.prog}: {opts.user_data}: {getattr(error, 'strerror', '') or error}", file=sys.stderr)
        return 2
    capacity = f"cpu=2,memory={MEMORY_KIB}Ki"
    mode = "crash" if opts.fail == "kubelet" else "normal"
    world = DemoWorld(profile="c5a.large-spot", mode=mode, cluster=cluster_name(text), config=CONFIG, capacity=capacity)
    world.set_user_data(break_it(world, opts.fail, text, world.folder).encode())
    if opts.dir:
        shutil.rmtree(opts.dir, ignore_errors=True)
    with world:
        install_tables(world.root)
        for name, content in {**MACHINE, **(CONTAINERD if WANTS_CONTAINERD.search(text) else {})}.items():
            path = world.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        print(
            "Fake: EC2's metadata service, the API server, Karpenter and kubelet. They are programs on this machine"
            + (".\n" if opts.fail else f", and the two\nminutes of a spot notice are {NOTICE_AHEAD_SEC} s. ")
            + "Real: nodeclaimd. Nothing outside of a temporary folder is touched.\n"
        )
        print(
            f"A bare {world.inst.type} in {world.inst.az}, with {source.relative_to(SOURCE) if source.is_relative_to(SOURCE) else source} "
            "as its user data:"
        )
        if OF_CLOUD_INIT.search(text):
            print(
                "\nNo cloud-init runs here: a script or a cloud-config in it does nothing. To try a document that it would write,\n"
                "put that into a file of its own."
            )
        if opts.fail:
            print(f"\nWrong on purpose: {FAILURES[opts.fail].wrong}\nWhat may pass is tried for {FAILS_SEC} s here, and for 15 minutes in real life.", flush=True)
            return show_failure(world, world.bootstrap("--timeout", f"{FAILS_SEC}s"), opts.fail)
        done = world.bootstrap("--timeout", f"{JOINS_SEC}s")
        if done.code != 0:
            show("timeline (nodeclaimd timeline)", world.run("timeline").out)
            show("it failed", done.err + world.kubelet_log())
        else:
            show("the Node, as the API server has it", describe(world.node()))
        show(
            "files",
            "\n".join(sorted(p for p in world.tree() if "conf.d/10-test" not in p and not re.search("eks/(kubelet|containerd)-version", p))),
        )
        show("the console", world.console())
        asked = [e for e in world.requests() if e["method"] == "GET"]
        print(
            f"\nIMDS: {len(world.requests()) - len(asked)} token and {len(asked)} requests, those of kubelet's token command included."
        )
        if done.code == 0:
            print(f"\nReady: {world.node_name} joined {world.api.auth.cluster} in {done.seconds:.2f} s.")
            done.code = end(world, opts.dir / "timeline.svg" if opts.dir else None)
            print("\nDrained: every pod that may leave has left, before the deadline.")
        else:
            print(f"\nNot ready: exit code {done.code}.")
        if opts.dir:
            shutil.copytree(world.root, opts.dir / "root", symlinks=True)
            print(f"\nKept: the node's files in {opts.dir / 'root'}")
            if (opts.dir / "timeline.svg").exists():
                print(f"      a picture of the boot and the drain, for a browser: {opts.dir / 'timeline.svg'}")
        print(next_steps(opts.agent, opts.dir or Path("/tmp/nodeclaimd-demo"), own))
    return done.code


if __name__ == "__main__":
    sys.exit(main())
