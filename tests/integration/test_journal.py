"""The log as journald gets it, in a mount namespace with a journal socket of the test's own."""

from __future__ import annotations

import json
import subprocess
import sys
import unittest

from harness import World, WorldTest, needs

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


if __name__ == "__main__":
    unittest.main()
