"""What a terminal shows, and what a pipe gets: lines, colours, local times, a watch; what was meant; completion in real shells."""

from __future__ import annotations

import fcntl
import json
import os
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
import unittest
from pathlib import Path
from typing import Callable, Optional

from controlling import controller_path
from harness import PATIENCE, SOURCE, World, WorldTest, agent_path, environment

FAILED = {
    "schema": 2,
    "outcome": "failed",
    "node": "n1",
    "started": "2026-01-02T03:04:05Z",
    "deadline": "2026-01-02T03:19:05Z",
    "phases": [
        {
            "name": "imds",
            "outcome": "failed",
            "attempts": 12,
            "durationUsec": 900000000,
            "error": {"class": "transient", "code": 1, "message": " ".join(["word"] * 40), "remedy": "look"},
        },
        {"name": "initialize", "outcome": "pending", "attempts": 0, "durationUsec": 0},
    ],
}


class Terminal:
    """A process on a terminal of its own, which is its controlling one: ^C reaches it."""

    def __init__(self, command: "list[str]", columns: int = 80, rows: int = 24, **env: str) -> None:
        self.ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.text = ""

        def own() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.proc = subprocess.Popen(
            command, env=environment(**{"TERM": "xterm", **env}), stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=own
        )
        os.close(theirs)

    def read(self, until: Optional[Callable[[str], object]] = None, within: float = 10) -> str:
        """All that was written so far: up to the end of the process, or until it is enough."""
        end = time.monotonic() + within * PATIENCE
        while not (until and until(self.text)):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.ours], [], [], left)[0]:
                raise AssertionError(f"not seen on the terminal:\n{self.text!r}")
            try:
                self.text += os.read(self.ours, 65536).decode().replace("\r", "")
            except OSError:  # its last process has ended
                break
        return self.text

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def end(self) -> int:
        try:
            return self.proc.wait(timeout=10 * PATIENCE)
        finally:
            self.proc.kill()
            os.close(self.ours)


def shown(command: "list[str]", **more: object) -> str:
    terminal = Terminal(command, **more)  # type: ignore[arg-type]
    text = terminal.read()
    terminal.end()
    return text


class Shown(WorldTest):
    def status(self, world: World, tree: object) -> None:
        path = world.root / "run/nodeclaimd/status.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_suffix(".new")
        whole.write_text(json.dumps(tree))
        whole.rename(path)

    def test_eighty_columns(self) -> None:
        """Broken at words on a terminal; to a pipe each stays one line."""
        world = self.world()
        self.status(world, FAILED)
        for command in ("status", "timeline"):
            lines = shown(world.command(command), NO_COLOR="1").splitlines()
            self.assertGreater(len(lines), 5)
            self.assertLessEqual(max(map(len, lines)), 80, lines)
            self.assertIn(" ".join(["word"] * 40), world.run(command).out)
        for program in (agent_path(), controller_path()):
            names = re.findall(r"^  ([a-z]+) ", subprocess.check_output([program, "--help"], text=True), re.M)
            for args in ([], *([name] for name in names)):
                piped = subprocess.check_output([program, *args, "--help"], text=True)
                lines = shown([str(program), *args, "--help"]).splitlines()
                self.assertLessEqual(max(map(len, lines)), 80, lines)
                self.assertEqual(" ".join(" ".join(lines).split()), " ".join(piped.split()))

    def test_colours(self) -> None:
        world = self.world()
        self.status(world, FAILED)
        red = "bootstrap    \033[31mfailed\033[0m\n"
        self.assertIn(red, shown(world.command("status")))
        self.assertIn(red, shown(world.command("status"), NO_COLOR=""))
        for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}):
            text = shown(world.command("status"), **env)
            self.assertIn("bootstrap    failed\n", text)
            self.assertNotIn("\033", text, env)
        self.assertNotIn("\033", world.run("status", TERM="xterm").out)

    def test_local_time(self) -> None:
        """For people in their zone, for programs in UTC."""
        world = self.world()
        self.status(world, FAILED)
        self.assertIn("deadline 2026-01-02 06:49:05 XST\n", world.run("status", TZ="XST-3:30").out)
        self.assertIn("started 2026-01-02 06:34:05 XST:", world.run("timeline", TZ="XST-3:30").out)
        self.assertEqual(json.loads(world.run("status", "-o", "json", TZ="XST-3:30").out)["started"], FAILED["started"])


class Watch(Shown):
    test_eighty_columns = test_colours = test_local_time = None  # type: ignore[assignment]

    def test_until_control_c(self) -> None:
        """Drawn over what was there, when it changes, and not more often than it can be read; and it costs next to nothing."""
        world = self.world()
        self.status(world, {"outcome": "running", "node": "first"})
        terminal = Terminal(world.command("status", "--watch"))
        terminal.read(lambda text: "first" in text)
        began = time.monotonic()
        for i in range(100):
            self.status(world, {"outcome": "running", "node": f"n{i}"})
            time.sleep(0.005)
        self.status(world, {"outcome": "succeeded", "node": "last"})
        text = terminal.read(lambda text: "last" in text and text.endswith("\033[J"))
        self.assertEqual(text.count("\033[2J"), 1)
        self.assertLessEqual(text.count("\033[H"), 4 * (time.monotonic() - began) + 2)
        time.sleep(1)
        terminal.type("\x03")
        self.assertEqual(terminal.read().count("\033[H"), text.count("\033[H"))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual(terminal.end(), 0)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertLess(used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime, 0.1 * PATIENCE)

    def test_before_there_is_anything(self) -> None:
        world = self.world()
        terminal = Terminal(world.command("status", "--watch"))
        terminal.read(lambda text: "neither a bootstrap nor the daemon has run" in text)
        self.status(world, {"outcome": "running", "node": "n1"})
        terminal.read(lambda text: re.search(r"node +n1", text))
        terminal.type("\x03")
        self.assertEqual(terminal.end(), 0)

    def test_small_and_dumb(self) -> None:
        """What does not fit on the screen is left away, not scrolled; without a cursor one follows the other."""
        world = self.world()
        self.status(world, {**FAILED, "warnings": [f"w{i}" for i in range(30)]})
        terminal = Terminal(world.command("status", "--watch"), rows=10)
        text = terminal.read(lambda text: text.endswith("\033[J"))
        self.assertEqual(text.count("\n"), 9)
        terminal.type("\x03")
        terminal.end()
        terminal = Terminal(world.command("status", "--watch"), TERM="dumb")
        terminal.read(lambda text: "w29" in text)
        self.status(world, {"outcome": "succeeded"})
        self.assertNotIn("\033", terminal.read(lambda text: "succeeded" in text))
        terminal.type("\x03")
        terminal.end()

    def test_json_lines(self) -> None:
        world = self.world()
        self.status(world, {"node": "a"})
        proc = world.spawn("status", "--watch", "-o", "json")
        assert proc.stdout
        self.assertEqual(json.loads(proc.stdout.readline())["node"], "a")
        self.status(world, {"node": "b"})
        self.assertEqual(json.loads(proc.stdout.readline())["node"], "b")
        proc.send_signal(signal.SIGTERM)
        self.assertEqual(world.finish(proc).code, 0)


class Meant(unittest.TestCase):
    def test_commands_and_options(self) -> None:
        agent, controller = str(agent_path()), str(controller_path())
        for command, meant in (
            ([agent, "statsu"], "did you mean status?"),
            ([agent, "preflght"], "did you mean preflight?"),
            ([agent, "status", "--metric"], None),  # what is no other's beginning is that one
            ([agent, "status", "--metrcis"], "did you mean --metrics?"),
            ([agent, "bootstrap", "--time-out=5m"], "did you mean --timeout?"),
            ([agent, "status", "--timeout"], ""),  # not one of status
            ([agent, "status", "-z"], ""),
            ([agent, "status", "--json"], "did you mean --output json?"),
            ([agent, "drain", "--graceful"], "did you mean --mode graceful?"),
            ([agent, "drain", "--version"], "did you mean nodeclaimd version?"),
            ([agent, "help", "drian"], "did you mean drain?"),
            ([agent, "xyzzy"], ""),
            ([controller, "statu"], "did you mean status?"),
            ([controller, "--margn", "15s"], "did you mean --margin?"),
            ([controller, "run", "--stamp-aftre", "15s"], "did you mean --"),
        ):
            done = subprocess.run(command, capture_output=True, text=True, timeout=30)
            if meant is None:
                self.assertNotIn("unknown", done.stderr)
                continue
            self.assertEqual((done.returncode, done.stdout), (2, ""), command)
            self.assertIn("unknown", done.stderr)
            self.assertEqual("did you mean" in done.stderr, bool(meant), done.stderr)
            self.assertIn(meant, done.stderr)
            self.assertIn("--help\n", done.stderr)

    def test_help_of_a_command(self) -> None:
        def run(*words: str) -> "tuple[int, str]":
            done = subprocess.run([str(agent_path()), *words], capture_output=True, text=True, timeout=30)
            return done.returncode, done.stdout

        wanted = run("drain", "--help")
        self.assertIn("usage: nodeclaimd drain ", wanted[1])
        for words in ("help", "drain"), ("--help", "drain"), ("-h", "drain"), ("drain", "-h"):
            self.assertEqual(run(*words), wanted, words)


def helped(program: Path) -> "dict[str, dict[str, str]]":
    """The commands of a program and the options of each with their arguments, as --help has them."""
    names = re.findall(r"^  ([a-z]+) ", subprocess.check_output([program, "--help"], text=True), re.M)
    of = {name: subprocess.check_output([program, name, "--help"], text=True) for name in names}
    return {name: dict(re.findall(r"^  --([a-z-]+) (\S*)", text, re.M)) for name, text in of.items()}


class Completion(unittest.TestCase):
    PROGRAMS = {"nodeclaimd": agent_path, "nodeclaim-controller": controller_path}

    def shell_environment(self) -> "dict[str, str]":
        folders = {str(path().resolve().parent) for path in self.PROGRAMS.values()}
        return environment(PATH=":".join([*folders, "/usr/bin", "/bin"]), TERM="dumb", HOME="/nonexistent")

    def bash(self, *words: str) -> "list[str]":
        """What bash would offer for the last word."""
        script = """
            source "$1"; shift
            compopt() { :; } # only known while bash itself completes
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
            "$(complete -p "$1" | sed 's/.*-F \\([^ ]*\\) .*/\\1/')"
            printf '%s\\n' "${COMPREPLY[@]}"
        """
        command = ["bash", "--norc", "-c", script, "bash", str(SOURCE / "completions/nodeclaimd.bash"), *words]
        done = subprocess.run(command, env=self.shell_environment(), capture_output=True, text=True, timeout=30 * PATIENCE)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_bash_offers_what_help_says(self) -> None:
        for program, path in self.PROGRAMS.items():
            commands = helped(path())
            self.assertEqual(self.bash(program, ""), list(commands))
            for command, options in commands.items():
                self.assertGreater(len(options), 2)
                self.assertEqual(self.bash(program, command, "-"), [f"--{name}" for name in options])
                for name, argument in options.items():
                    if argument and not re.search("[A-Z]", argument):
                        self.assertEqual(self.bash(program, command, f"--{name}", ""), argument.split("|"))
                        self.assertEqual(self.bash(program, command, f"--{name}", "=", ""), argument.split("|"))
        self.assertEqual(self.bash("nodeclaimd", "sta"), ["status"])
        self.assertEqual(self.bash("nodeclaimd", "status", "-o", "j"), ["json"])
        self.assertEqual(self.bash("nodeclaim-controller", "--mode", "k"), ["karpenter"])
        here = str(SOURCE / "README")
        self.assertEqual(self.bash("nodeclaimd", "check", here), [here + ".md"])
        self.assertEqual(self.bash("nodeclaimd", "drain", "--kubeconfig", here), [here + ".md"])
        self.assertEqual(self.bash("nodeclaimd", "status", here), [])

    def test_bash_itself(self) -> None:
        """Typed, with a tab, into a shell of its own."""
        env = {k: v for k, v in self.shell_environment().items() if k in ("PATH", "HOME")}
        shell = Terminal(["bash", "--norc", "--noprofile", "-i"], TERM="dumb", PS1="", **env)
        shell.type(f"source {SOURCE}/completions/nodeclaimd.bash; echo rea''dy\n")
        shell.read(lambda text: "\nready" in text)
        shell.type("echo nodeclaimd; nodeclaimd ver\t-o js\t | tr -d '\\n'; echo en''d\n")
        text = shell.read(lambda text: "end\n" in text)
        self.assertRegex(text, r'\{ +"version": ')
        shell.type("exit\n")
        self.assertEqual(shell.end(), 0)

    @unittest.skipUnless(shutil.which("zsh"), "zsh is missing")
    def test_zsh_offers_what_help_says(self) -> None:
        env = {k: v for k, v in self.shell_environment().items() if k in ("PATH", "HOME")}
        shell = Terminal(["zsh", "-f", "-i"], columns=200, rows=500, TERM="dumb", **env)
        shell.type(
            f"PS1=; fpath=({SOURCE}/completions $fpath); autoload -U compinit; compinit -D -u; unset zle_bracketed_paste; unsetopt prompt_sp; "
            "zstyle ':completion:*' list-grouped false; LISTMAX=1000; echo rea''dy\n"
        )
        shell.read(lambda text: "\nready" in text)

        def offered(line: str, words: "list[str]") -> None:
            """All that is listed at a tab behind the line; then the line is given up."""
            shell.text = ""
            shell.type(line + "\t")
            try:
                shell.read(lambda text: all(re.search(rf"(?<![\w-]){re.escape(w)}(?![\w-])", text) for w in words))
            except AssertionError:
                raise AssertionError(f"{line!r} offers not all of {words}: {shell.text!r}") from None
            shell.type("\x15")
            shell.type("echo do''ne\n")
            shell.read(lambda text: "done\n" in text)

        for program, path in self.PROGRAMS.items():
            commands = helped(path())
            offered(f"{program} ", list(commands))
            for command, options in commands.items():
                offered(f"{program} {command} --", [f"--{name}" for name in options])
        offered("nodeclaimd drain --mode ", ["graceful", "cordon", "deadline"])
        offered("nodeclaimd status -o ", ["text", "json"])
        offered("nodeclaim-controller --order ", ["both", "delete-first"])
        offered(f"nodeclaimd check {SOURCE}/READ", ["README.md"])
        shell.type("exit\n")
        shell.end()


if __name__ == "__main__":
    unittest.main()
