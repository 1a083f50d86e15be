#!/usr/bin/python3
"""Runs the command blocks of README.md and docs/install.md where nothing is installed.

    run.py [--ubuntu] [--ci] [--list]

Each page has a minimal Debian 12 of its own (--ubuntu: and an Ubuntu 24.04), with a clone of the last commit, in which the commands of
its blocks run in their order, as they stand in the page. A block is one that is indented or fenced, and a fence that names another
language than sh is no command. A block that cannot run here has the reason before it, in a line of its own that a reader sees, too:
_Not run by the project's tests: REASON._

lintian looks at the Debian packages that install.md makes there: only this and `./dev package --check` make any.

--ci leaves out what .ci/run runs anyway; --list says only what would run. Needs root, git, gpg, lintian and mmdebstrap. A command is
printed with the time that it took; the last line is "N passed, N failed".
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from os import environ
from pathlib import Path
from textwrap import dedent
from typing import Callable, Iterator

TOP = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/install.md")
DEBIAN, UBUNTU = ("Debian 12", "bookworm"), ("Ubuntu 24.04", "noble")
UBUNTU_KEY = "F6ECB3762474EDA9D21B7022871920D1991BC93C"  # signs its archive since 2018; Debian 12 has no package of it
CI_RUNS = "./dev test"
COMMAND_SEC = 1800
CACHE_DAYS = 30
CACHE = Path(environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "nodeclaimd/docs"

# The mounts end with the namespace, and everything that a command started with its PID 1. apt keeps what it fetches in the cache.
ENTER = """
mount --bind "$1" "$1" && mount -t proc proc "$1/proc" && mount -t sysfs -o ro sysfs "$1/sys" &&
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts" && mount -t tmpfs tmpfs "$1/dev/shm" &&
    mount --bind "$2" "$1/var/cache/apt/archives" &&
    exec chroot "$1" env -i -C /root/nodeclaimd HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -c "$3"
"""


@dataclass
class Block:
    line: int
    reason: str  # why it is not run, or ""
    text: list[str]


def first(lines: list[str], start: int, is_it: Callable[[str], bool]) -> int:
    return next((k for k in range(start, len(lines)) if is_it(lines[k])), len(lines))


def indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def blocks_of(page: str) -> Iterator[Block]:
    """As Markdown has it: an indented block stands four columns right of the text of its list item, after an empty line."""
    lines = page.splitlines()
    at, column, reason, is_after_gap = 0, 0, "", True
    while at < len(lines):
        line, start = lines[at], at + 1
        fence = re.match(r" *```(\S*)", line)
        mark = re.fullmatch(r" *_Not run by the project's tests:?(.*?)\.?_ *", line)
        if fence or (line.strip() and is_after_gap and indent(line) >= column + 4):
            end = first(lines, start, (lambda one: "```" in one) if fence else (lambda one: 0 < len(one.strip()) and indent(one) < column + 4))
            if not fence or fence[1] in ("", "sh"):
                yield Block(start, reason, lines[start if fence else at : end])
            elif reason:
                raise ValueError(f"line {start}: no command, and marked")
            at, reason, is_after_gap = end + bool(fence), "", True
            continue
        if mark and not mark[1].strip():
            raise ValueError(f"line {start}: a mark without a reason")
        if line.strip() and not mark:
            if reason:
                break
            item = re.match(r"(\d+\.|[*-]) +", line)
            column = len(item[0]) if item else 0 if is_after_gap and indent(line) < column else column
        at, reason, is_after_gap = start, mark[1].strip() if mark else reason, bool(mark) or not line.strip()
    if reason:
        raise ValueError(f"line {at}: no block after a mark")


def commands_of(block: Block) -> Iterator[str]:
    """Lines that bash would not run before the next is there belong together."""
    text = ""
    for line in dedent("\n".join(block.text)).splitlines():
        text += line + "\n"
        if not line.endswith("\\") and subprocess.run(["bash", "-n", "-c", text], capture_output=True, check=False).returncode == 0:
            if re.sub(r"^\s*#.*", "", text).strip():
                yield text.strip()
            text = ""
    if text:
        raise ValueError(f"line {block.line}: bash cannot read: {text}")


def mmdebstrap(suite: str, to: Path, *options: str) -> None:
    """apt fetches as this machine's does: proxies and the like."""
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as acquire:
        acquire.write("\n".join(re.findall(r"^Acquire::(?!IndexTargets).*;$", dump, re.M)) + "\n")
        acquire.flush()
        subprocess.run(["mmdebstrap", "--quiet", f"--aptopt={acquire.name}", *options, suite, to], check=True, timeout=900)


def ubuntu_options(folder: Path) -> list[str]:
    """Its keys come from its own archive, and are taken by their fingerprint."""
    unsigned = ['Acquire::AllowInsecureRepositories "true"', 'APT::Get::AllowUnauthenticated "true"']
    mmdebstrap(UBUNTU[1], folder / "keys", "--variant=extract", "--include=ubuntu-keyring", *(f"--aptopt={o}" for o in unsigned))
    folder.chmod(0o755)  # apt reads as another user
    (folder / "gnupg").mkdir(mode=0o700)
    gpg = ["gpg", "--quiet", "--homedir", folder / "gnupg", "--no-default-keyring"]
    keys = ["--keyring", folder / "keys/usr/share/keyrings/ubuntu-archive-keyring.gpg"]
    subprocess.run([*gpg, *keys, "--output", folder / "key.gpg", "--export", UBUNTU_KEY], check=True)
    return [f"--keyring={folder}/key.gpg", "--components=main,universe"]


def make_archive(suite: str) -> None:
    """A minimal root file system in the cache, and a folder for the packages that are fetched there."""
    cache = CACHE / suite
    (cache / "archives/partial").mkdir(parents=True, exist_ok=True)
    for file in cache.rglob("*"):
        if file.is_file() and time.time() - file.stat().st_ctime > CACHE_DAYS * 86400:
            file.unlink()
    if not (cache / "root.tar.gz").exists():
        with tempfile.TemporaryDirectory() as folder:
            options = ["--variant=minbase", "--include=apt", "--dpkgopt=force-unsafe-io"]  # nothing here must survive a power cut
            options += ubuntu_options(Path(folder)) if suite == UBUNTU[1] else []
            mmdebstrap(suite, cache / "new.tar.gz", *options)
        (cache / "new.tar.gz").rename(cache / "root.tar.gz")


def make_root(suite: str, root: Path) -> None:
    subprocess.run(["tar", "-xf", CACHE / suite / "root.tar.gz", "-C", root], check=True)
    for name in ("/etc/hosts", "/etc/resolv.conf"):
        shutil.copy(name, root / name[1:])
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", TOP, root / "root/nodeclaimd"], check=True)


def run(suite: str, root: Path, command: str, log: Path) -> int:
    with log.open("wb") as out:
        program = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", root, CACHE / suite / "archives", command]
        try:
            return subprocess.run(program, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=COMMAND_SEC, check=False).returncode
        except subprocess.TimeoutExpired:
            out.write(f"not ended after {COMMAND_SEC} s\n".encode())
            return 124


def lint(root: Path, log: Path) -> int:
    """Of the source package, too; as tests/package/run does."""
    changes = [*root.glob("root/nodeclaimd/build/package/build/deb-*/*.changes")]
    with log.open("wb") as out:
        out.write(b"" if changes else b"no packages were made\n")
        program = ["lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0", *changes]
        return subprocess.run(program, stdout=out, stderr=out, timeout=COMMAND_SEC, check=False).returncode if changes else 1


def short(command: str) -> str:
    first, *more = command.splitlines()
    return re.sub(r"(  +#.*| *\\)$", "", first) + (" ..." if more else "")


class Report:
    def __init__(self, is_ci: bool) -> None:
        self.is_ci, self.passed, self.failed = is_ci, 0, 0
        self.not_run: list[str] = []

    def plan(self, name: str, page: str) -> list[tuple[str, str]]:
        """The commands that run, each with where it stands."""
        commands = []
        try:
            found = [(block, command) for block in blocks_of(page) for command in commands_of(block)]
        except ValueError as e:
            sys.exit(f"{name}: {e}")
        for block, command in found:
            where, reason = f"{name}:{block.line}", block.reason
            if self.is_ci and shlex.split(command, comments=True) == CI_RUNS.split():
                reason = "CI runs it"
            if reason:
                self.not_run.append(f"{where}: {short(command)}: {reason}")
            else:
                commands.append((where, command))
        return commands

    def run_page(self, suite: str, name: str, logs: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="nodeclaimd-docs-") as folder:
            root = Path(folder)
            make_root(suite, root)
            for number, (where, command) in enumerate(self.plan(name, (root / "root/nodeclaimd" / name).read_text())):
                log = logs / f"{suite}-{Path(name).stem}-{number}.log"
                self.step(f"{where}: {short(command)}", log, lambda: run(suite, root, command, log))
            if (suite, name) == (DEBIAN[1], PAGES[1]):
                log = logs / "lintian.log"
                self.step(f"{name}: lintian of the packages", log, lambda: lint(root, log))

    def step(self, title: str, log: Path, execute: Callable[[], int]) -> None:
        began = time.monotonic()
        code = execute()
        print(f"{time.monotonic() - began:6.0f} s  {title}", flush=True)
        if code == 0:
            self.passed += 1
            return
        self.failed += 1
        print(f"failed: {title}: exit code {code}; the end of {log.relative_to(TOP)}:")
        print("\n".join("    " + line for line in log.read_text(errors="replace").splitlines()[-20:]), flush=True)

    def run_suite(self, title: str, suite: str, pages: list[str], logs: Path) -> None:
        try:
            make_archive(suite)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            if suite == DEBIAN[1]:
                raise
            self.not_run.append(f"{title}: its archive cannot be reached")
            return
        print(f"== {title}", flush=True)
        for name in pages:
            self.run_page(suite, name, logs)


def main() -> int:
    args = argparse.ArgumentParser(description="the commands of README.md and docs/install.md in a minimal root")
    args.add_argument("--ubuntu", action="store_true", help="also in an Ubuntu 24.04")
    args.add_argument("--ci", action="store_true", help=f"leave out {CI_RUNS}: .ci/run runs it")
    args.add_argument("--list", action="store_true", help="say only what would run")
    args.add_argument("pages", nargs="*", default=PAGES)
    opts = args.parse_args()
    report = Report(opts.ci)
    if opts.list:
        for name in opts.pages:
            for where, command in report.plan(name, (TOP / name).read_text()):
                print(f"{where}: {short(command)}")
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what is mounted and started ends in any case, the folder here
        logs = TOP / "build/docs"
        shutil.rmtree(logs, ignore_errors=True)
        logs.mkdir(parents=True)
        for title, suite in [DEBIAN, UBUNTU] if opts.ubuntu else [DEBIAN]:
            report.run_suite(title, suite, opts.pages, logs)
    for line in dict.fromkeys(report.not_run):
        print(f"not run: {line}")
    if opts.list:
        return 0
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed or not report.passed else 0


if __name__ == "__main__":
    sys.exit(main())
