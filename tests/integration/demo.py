#!/usr/bin/python3
"""The demonstration: a node boots from the user data that Karpenter writes.

Everything around the program is a fake on loopback: EC2's metadata service, the API server with the node authorizer's rules,
and a stand-in for kubelet that really reads the rendered files and really executes the token command. The program is the real
one. Prints what a person wants to see, and exits with the bootstrap's exit code.

    demo.py --agent PATH [--dir DIR] [--user-data FILE]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from pathlib import Path


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


def main() -> int:
    args = argparse.ArgumentParser(description="boots a node against fakes and prints the timeline")
    args.add_argument("--agent", type=Path, required=True)
    args.add_argument("--dir", type=Path, help="keep the node's files here, below root/")
    args.add_argument("--user-data", type=Path)
    opts = args.parse_args()
    os.environ["NODECLAIMD"] = str(opts.agent.resolve())
    from harness import SOURCE, World

    source = opts.user_data or SOURCE / "userdata/karpenter-al2023.mime"
    text = source.read_text(encoding="utf-8")
    world = World(cluster=cluster_name(text))
    world.set_user_data(substitute(text, world.api.url, world.api.ca.base64).encode())
    with world:
        print(
            f"A bare {world.inst.type} in {world.inst.az}, with {source.relative_to(SOURCE) if source.is_relative_to(SOURCE) else source} "
            "as its user data:"
        )
        done = world.bootstrap("--timeout", "60s")
        show("timeline (nodeclaimd timeline)", world.run("timeline").out)
        if done.code != 0:
            show("it failed", done.err + world.console() + world.kubelet_log())
        else:
            show("the Node, as the API server has it", describe(world.node()))
        show(
            "files",
            "\n".join(sorted(p for p in world.tree() if "conf.d/10-test" not in p and "eks/kubelet-version" not in p)),
        )
        show("the console", world.console())
        asked = [e for e in world.requests() if e["method"] == "GET"]
        print(
            f"\nIMDS: {len(world.requests()) - len(asked)} token and {len(asked)} requests, those of kubelet's token command included."
        )
        if opts.dir:
            shutil.rmtree(opts.dir, ignore_errors=True)
            shutil.copytree(world.root, opts.dir / "root", symlinks=True)
            print(f"The node's files are kept in {opts.dir / 'root'}.")
        if done.code == 0:
            print(f"\nReady: {world.node_name} joined {world.api.auth.cluster} in {done.seconds:.2f} s.")
        else:
            print(f"\nNot ready: exit code {done.code}.")
    return done.code


if __name__ == "__main__":
    sys.exit(main())
