"""The log as journald gets it, in a mount namespace with a journal socket of the test's own."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import unittest
from pathlib import Path

from harness import World, WorldTest, needs
from running import DaemonTest, DaemonWorld

# Runs the command with a /run of its own, and prints the datagrams that came to the journal's socket as JSON.
RECEIVER = """
import json, os, socket, subprocess, sys
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
os.makedirs("/run/systemd/journal")
journal = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
journal.bind("/run/systemd/journal/socket")
journal.setblocking(False)
stderr, code = subprocess.PIPE, sys.argv[1]
env = dict(os.environ)
if code == "stream":
    reading, writing = os.pipe()
    stat = os.fstat(writing)
    env["JOURNAL_STREAM"] = f"{stat.st_dev}:{stat.st_ino}"
    stderr = writing
done = subprocess.run(sys.argv[2:], env=env, stdout=subprocess.DEVNULL, stderr=stderr)
rows = []
while True:
    try:
        rows.append(journal.recv(1 << 20).decode())
    except BlockingIOError:
        break
print(json.dumps({"code": done.returncode, "rows": rows, "stderr": (done.stderr or b"").decode()}))
"""


@needs("CAP_SYS_ADMIN")
class Journal(WorldTest):
    def logged(self, world: World, how: str, *args: str) -> "tuple[list[dict[str, str]], str]":
        done = subprocess.run(
            ["unshare", "--mount", sys.executable, "-c", RECEIVER, how, *world.command("bootstrap", "--skip", "start", *args)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            env=world.environment(),
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        got = json.loads(done.stdout)
        self.assertEqual(got["code"], 0, got)
        entries = [dict(line.split("=", 1) for line in row.splitlines() if "=" in line) for row in got["rows"]]
        return entries, got["stderr"]

    def test_fields(self) -> None:
        world = self.world()
        entries, text = self.logged(world, "asked", "--log-format", "journal")
        self.assertEqual(text, "", "nothing comes twice")
        self.assertGreaterEqual(len(entries), 2)
        for entry in entries:
            self.assertTrue(entry["MESSAGE"])
            self.assertEqual(entry["SYSLOG_IDENTIFIER"], "nodeclaimd")
            self.assertIn(entry["PRIORITY"], ("3", "4", "6", "7"))
        first, last = entries[0], entries[-1]
        self.assertRegex(first["MESSAGE_ID"], r"^[0-9a-f]{32}$")
        self.assertNotEqual(first["MESSAGE_ID"], last["MESSAGE_ID"])
        self.assertEqual(last["NC_INSTANCE_ID"], world.inst.id)
        self.assertEqual(last["NC_NODE"], world.node_name)
        self.assertGreater(int(last["NC_DURATION_USEC"]), 0)

    def test_the_stream_decides(self) -> None:
        entries, _ = self.logged(self.world(), "stream")
        self.assertGreaterEqual(len(entries), 2)
        entries, text = self.logged(self.world(), "other")
        self.assertEqual(entries, [])
        self.assertIn("bootstrap starts", text)


# A /run of its own with a journal's socket that the test made, for the program that is executed then.
OWN_RUN = 'mount -t tmpfs tmpfs /run && mkdir -p /run/systemd && ln -s "$0" /run/systemd/journal && exec "$@"'


class JournalWorld(DaemonWorld):
    def __enter__(self) -> "JournalWorld":
        super().__enter__()
        self.entries: list[dict[str, str]] = []
        (self.folder / "journal").mkdir()
        self.journal = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.journal.bind(str(self.folder / "journal/socket"))
        threading.Thread(target=self._receive, daemon=True).start()
        return self

    def __exit__(self, *unused: object) -> None:
        super().__exit__(*unused)
        self.journal.shutdown(socket.SHUT_RDWR)
        self.journal.close()

    def _receive(self) -> None:
        while data := self.journal.recv(1 << 20):
            self.entries.append(dict(line.split("=", 1) for line in data.decode().splitlines() if "=" in line))

    def command(self, *args: str) -> list[str]:
        plain = super().command(*args)
        return ["unshare", "--mount", "sh", "-c", OWN_RUN, str(self.folder / "journal"), *plain, "--log-format", "journal"]

    def of_pod(self, name: str) -> list[str]:
        return [e["MESSAGE"] for e in self.entries if e.get("POD_NAME") == name]


@needs("CAP_SYS_ADMIN")
class Drain(DaemonTest):
    def test_a_line_for_each_pod(self) -> None:
        """A spot notice, three pods, a budget that allows nothing: who is evicted, refused, deleted by force, gone; and a summary."""
        world = JournalWorld()
        self.enterContext(world)
        self.addCleanup(self.judge, world)
        for name in ("web-1", "web-2", "db-1"):
            world.pod(name, grace=1)
        world.budget("db", "db-1")
        world.start()
        world.imds.spot(8)
        world.must(lambda: not world.pods(), "the end of all pods", within=20)
        world.drained()
        world.must(lambda: "Pod default/db-1 is gone" in world.of_pod("db-1"), "the last line")
        for name in ("web-1", "web-2"):
            # The watch and the eviction's answer come by different streams: either may be first.
            self.assertCountEqual(world.of_pod(name), [f"Evicted pod default/{name}", f"Pod default/{name} is gone"])
        refused, forced, gone = world.of_pod("db-1")
        self.assertEqual(refused, "Eviction of pod default/db-1 refused by PodDisruptionBudget db")
        self.assertRegex(forced, r"^Force-deleted pod default/db-1 with a grace period of [12] s$")
        lines = [e for e in world.entries if "POD_NAME" in e]
        catalog = (Path(__file__).parents[2] / "systemd/nodeclaimd.catalog").read_text()
        for entry in lines:
            self.assertEqual((entry["POD_NAMESPACE"], entry["PHASE"]), ("default", "evicting"), entry)
            self.assertEqual(entry["PRIORITY"], "4" if entry["MESSAGE"] in (refused, forced) else "6")
            self.assertIn(f"-- {entry['MESSAGE_ID']}\n", catalog)
        self.assertEqual(len({e["MESSAGE_ID"] for e in lines}), 4, "one for each kind")
        notice, summary = (next(e for e in world.entries if e.get("NC_REASON") == r) for r in ("SpotInterruption", "NodeDrained"))
        self.assertEqual((notice["SOURCE"], summary["SOURCE"], summary["PHASE"]), ("spot", "spot", "drained"))
        self.assertRegex(notice["DEADLINE"], r"^20..-..-..T..:..:..Z$")
        self.assertTrue(re.search(r"evicted: 2, .*: 1$", summary["MESSAGE"]), summary)


if __name__ == "__main__":
    unittest.main()
