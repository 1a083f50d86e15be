#!/usr/bin/python3
"""The demonstration, as somebody sees it who has never seen the program.

Knows: the words that must be in its output.
Gives: unittest cases.
Must not: test the program; the other files do.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

from harness import PATIENCE, agent_path

HERE = Path(__file__).resolve().parent


class Demo(unittest.TestCase):
    def test_what_it_shows(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            kept = Path(folder) / "demo"
            done = subprocess.run(
                [sys.executable, str(HERE / "demo.py"), "--agent", str(agent_path()), "--dir", str(kept)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=120 * PATIENCE,
            )
            text = done.stdout.decode()
            self.assertEqual(done.returncode, 0, text)
            self.assertEqual(ElementTree.parse(kept / "timeline.svg").getroot().tag, "{http://www.w3.org/2000/svg}svg")
            # Where a long row is broken depends on how many digits its times have.
            drawn = re.sub(r'</text>\n<text x="181" y="\d+" class="time">', " ", (kept / "timeline.svg").read_text())
            self.assertRegex(
                drawn,
                r">\+[^<]* refused by PodDisruptionBudget database, \+[^<]* force-deleted \(its grace ends at \+[^<]*\), \+[^<]* gone<",
            )
            self.assertRegex(drawn, r">\+[^<]* evicted, \+[^<]* gone<")
            self.assertIn(">force-delete time of all pods<", drawn)
            self.assertTrue((kept / "root/var/lib/kubelet/kubeconfig").exists())
            steps = text[text.index("\nNext, ") :].split("\n  ")[1:]
            self.assertEqual(len(steps), 4, "two commands of two lines each")
            for command in ("\n".join(steps[:2]), "\n".join(steps[2:])):
                command = command.split("\nFor an image")[0]
                done = subprocess.run(["sh", "-c", command], cwd=HERE.parents[1], capture_output=True, timeout=60)
                self.assertEqual(done.returncode, 0, (command, done.stderr))
                self.assertNotIn(b"not checked", done.stdout + done.stderr)
            self.assertTrue((kept / "rendered/var/lib/kubelet/kubeconfig").exists())
        self.assertLess(text.index("Fake: EC2's metadata service"), text.index("A bare c5a.large"), "first of all what is real")
        memory = re.search(r"allocatable .*memory (\d+)Ki", text)
        assert memory
        self.assertLess(int(memory[1]), 4 << 20, "a c5a.large has 4 GiB")
        self.assertNotIn("cloud-init runs", text)
        self.assertNotIn("  warning  ", text)
        self.assertNotIn("sysctl", text, "warnings of a kubelet that would not start, beside one that runs")
        status = text[text.index("(nodeclaimd status)") : text.index("(nodeclaimd timeline)")]
        self.assertRegex(status, r"blocked +default/database-0, budget database")
        self.assertIn("needs 1 healthy pods and has 1 currently", status, "a budget of one pod")
        margin = re.search(r"The demo sets 3 s, .*; the notice of 14 s shortens that to (\d+) s\.", text)
        times = [re.search(rf"{word}\s+(\d\S+\s+\d\S+)\s+UTC", status) for word in ("of all\\s+pods", "deadline")]
        assert margin and times[0] and times[1], text
        gone, end = (datetime.fromisoformat(" ".join(found[1].split())) for found in times if found)
        self.assertEqual((end - gone).total_seconds(), int(margin[1]))
        self.assertEqual(text.count("bootstrap of "), 1, "one time line")
        self.assertRegex(text, r"a picture of the boot and the drain.*/timeline\.svg\n\nNext, ")
        self.assertTrue(text.strip().endswith("docs/install.md."))

    def test_user_data_of_ones_own(self) -> None:
        """Said in one line where it cannot be read; the next steps name it where no node comes of it."""
        with tempfile.TemporaryDirectory() as folder:
            own = Path(folder) / "my own.yaml"
            command = [sys.executable, str(HERE / "demo.py"), "--agent", str(agent_path()), "--dir", f"{folder}/demo", "--user-data", str(own)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", f"./dev demo: {own}: No such file or directory\n"))
            own.write_text("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n")
            done = subprocess.run(command, capture_output=True, text=True, timeout=120 * PATIENCE, check=False)
            self.assertIn("\nNot ready: exit code 3.", done.stdout)
            self.assertEqual(done.stdout[done.stdout.index("\nNext:\n") :].count(f"'{own}'"), 2)

    def test_user_data_of_other_nodes(self) -> None:
        """Valid ones join; a name that the cluster does not give the role, and what only cloud-init carries out, have their exit code and a word before."""
        own = (HERE.parents[1] / "userdata/self-managed.mime").read_text()
        texts = {
            "self-managed": own,
            "containerd": own.replace("10.100.0.0/16\n", "10.100.0.0/16\n  containerd:\n    config: version = 3\n"),
            "instance-id": own.replace("  node:\n", "  node:\n    name: instance-id\n"),
            "cloud-config": (HERE.parents[1] / "userdata/cloud-config.yaml").read_text(),
            "script": (HERE.parents[1] / "userdata/self-managed.sh").read_text(),
        }
        ends = {"instance-id": "Not ready: exit code 4", "cloud-config": "Not ready: exit code 3", "script": "Not ready: exit code 3"}

        def demo(name: str) -> "subprocess.CompletedProcess[str]":
            (Path(folder) / name).write_text(texts[name])
            command = [sys.executable, str(HERE / "demo.py"), "--agent", str(agent_path()), "--dir", f"{folder}/of-{name}"]
            command += ["--user-data", f"{folder}/{name}"]
            return subprocess.run(command, capture_output=True, text=True, timeout=120 * PATIENCE, check=False)

        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
            for name, done in zip(texts, pool.map(demo, texts)):
                with self.subTest(name):
                    end = ends.get(name, "Ready")
                    self.assertIn(f"\n{end}", done.stdout, done.stderr)
                    self.assertEqual(done.returncode, int(end[-1]) if name in ends else 0)
                    self.assertLess(done.stdout.index("\nNo cloud-init runs here: "), done.stdout.index(end), "each has a part for it")
                    self.assertEqual("  etc/containerd/config.toml\n" in done.stdout, name == "containerd")
                    self.assertNotIn("not checked", done.stdout)

    def test_what_a_failure_shows(self) -> None:
        """Cause, remedy and exit code, each where a person looks."""
        rows = {
            "wrong-ca": (4, "certificate", "check that the certificate authority .*; certificateAuthority is in user-data .*; only a new node", "none: the node does not trust"),
            "clock": (4, "HTTP 401", "set the clock", "none: the API server did not know this node"),
            "no-route": (1, "timed out|did not|no answer", "check the subnet's route table, security groups and network ACLs, then", "none: the node cannot reach the API server"),
            "kubelet": (6, "exit code 1; its last lines: 'err=", "read /var/log/nodeclaimd-kubelet.log; systemctl status containerd; journalctl -u containerd", "BootstrapFailed +register: kubelet ended"),
        }
        for cause, (code, message, remedy, event) in rows.items():
            with self.subTest(cause):
                command = [sys.executable, str(HERE / "demo.py"), "--agent", str(agent_path()), "--fail", cause]
                done = subprocess.run(command, capture_output=True, text=True, timeout=120 * PATIENCE, check=False)
                text = done.stdout
                self.assertEqual(done.returncode, 0, text + done.stderr)
                self.assertIn(f"\nexit code {code}\n", text)
                status = text[text.index("(nodeclaimd status)") : text.index("get-console-output")]
                self.assertRegex(status, message)
                self.assertRegex(status, f"remedy: .*{remedy}")
                self.assertRegex(text, r"(?m)^  nodeclaimd: \{.*\"outcome\":\"failed\"")
                self.assertRegex(text, f"reason=BootstrapFailed\\)\n  {event}")
                self.assertIn("\nwhat you do next\n  ", text)
                self.assertNotIn("spot notice", text, "there is none")
                self.assertEqual("systemctl status containerd" in text, cause == "kubelet")
                self.assertEqual("`start: exec`, where one attempt is\nfinal" in text, cause == "kubelet")
                if code != 6:  # that is not tried again
                    self.assertEqual(len(re.findall(f"warning: .*, trying again until 20.*Z; .*{remedy}", text)), 1, "the cause, once")
                    self.assertRegex(text, "warning: .*attempt 2 failed alike, trying again until 20.*Z; see above")
                self.assertNotIn("who am I", text)


if __name__ == "__main__":
    unittest.main()
