"""The workflows of GitHub: what they run is what people run, with no more rights than that needs."""

from __future__ import annotations

import re
import unittest
from typing import Any

import yaml

from harness import SOURCE

FOLDER = SOURCE / ".github/workflows"


def workflow(name: str) -> dict[Any, Any]:
    return yaml.safe_load((FOLDER / f"{name}.yml").read_text())


class Workflows(unittest.TestCase):
    def test_actions_are_pinned(self) -> None:
        """By the hash of a commit: a tag may be moved."""
        for path in FOLDER.iterdir():
            for action in re.findall(r"uses: (\S+)", path.read_text()):
                self.assertRegex(action, r"^actions/[a-z-]+@[0-9a-f]{40}$", path.name)

    def test_rights(self) -> None:
        """To read; the job that makes the draft, which runs nothing of the tree, may write it."""
        for path in FOLDER.iterdir():
            self.assertEqual(workflow(path.stem)["permissions"], {"contents": "read"}, path.name)
            for name, job in workflow(path.stem)["jobs"].items():
                checks_out = any("checkout" in step.get("uses", "") for step in job["steps"])
                self.assertEqual("permissions" in job, not checks_out, name)
                self.assertTrue(all(step.get("with", {}).get("persist-credentials") is False for step in job["steps"] if "checkout" in step.get("uses", "")), name)

    def test_ci(self) -> None:
        """A fork has no secrets, and its pull request is not trusted."""
        text = (FOLDER / "ci.yml").read_text()
        self.assertNotIn("secrets", text)
        self.assertNotIn("pull_request_target", text)
        self.assertIn("&& .ci/run", text)
        minutes = workflow("ci")["jobs"]["ci"]["timeout-minutes"]
        self.assertGreater(minutes, int(re.findall(r"Ends within (\d+) minutes", (SOURCE / ".ci/run").read_text())[0]))

    def test_release(self) -> None:
        """On both architectures, since nothing is cross-built; the key is in one step alone."""
        jobs = workflow("release")["jobs"]
        self.assertEqual([one["arch"] for one in jobs["build"]["strategy"]["matrix"]["include"]], ["amd64", "arm64"])
        with_key = [step["name"] for job in jobs.values() for step in job["steps"] if "secrets." in str(step)]
        self.assertEqual(with_key, ["./dev release"])
        self.assertEqual(workflow("release")[True], {"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+"]}})


if __name__ == "__main__":
    unittest.main()
