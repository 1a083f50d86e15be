"""The workflows of GitHub: what they run is what people run, with no more rights than that needs."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent
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

    def test_pins_are_renewed(self) -> None:
        """Of actions, in commits whose subjects begin with a room."""
        (update,) = yaml.safe_load((SOURCE / ".github/dependabot.yml").read_text())["updates"]
        self.assertEqual((update["package-ecosystem"], update["directory"]), ("github-actions", "/"))
        self.assertEqual(update["commit-message"], {"prefix": "ci"})

    def test_images_are_pinned(self) -> None:
        """By their digest, wherever one is used, and by the same."""
        used = [*FOLDER.iterdir(), SOURCE / "README.md", SOURCE / "docs/install.md"]
        images = {image for path in used for image in re.findall(r"(debian:12\S*|amazonlinux:2023\S*)", path.read_text())}
        self.assertEqual(sorted(image.split("@")[0] for image in images), ["amazonlinux:2023", "debian:12"], images)
        for image in images:
            self.assertRegex(image, r"@sha256:[0-9a-f]{64}$")

    def test_rights(self) -> None:
        """To read; the jobs that make the draft and the issue, which run nothing of the tree, may write these."""
        for path in FOLDER.iterdir():
            self.assertEqual(workflow(path.stem)["permissions"], {"contents": "read"}, path.name)
            for name, job in workflow(path.stem)["jobs"].items():
                checks_out = any("checkout" in step.get("uses", "") for step in job["steps"])
                self.assertEqual("permissions" in job, not checks_out, name)
                self.assertTrue(all(step.get("with", {}).get("persist-credentials") is False for step in job["steps"] if "checkout" in step.get("uses", "")), name)

        writers = {name: job["permissions"] for path in FOLDER.iterdir() for name, job in workflow(path.stem)["jobs"].items() if job.get("permissions")}
        self.assertEqual(writers, {"draft": {"contents": "write", "id-token": "write", "attestations": "write"}, "tell": {"issues": "write"}})
        for one in (workflow("release")["jobs"]["draft"], workflow("renew")["jobs"]["tell"]):
            self.assertNotRegex(str(one), r"checkout|docker|\./")

    def test_attested(self) -> None:
        """What is signed, before it is in the draft."""
        steps = workflow("release")["jobs"]["draft"]["steps"]
        at = next(n for n, step in enumerate(steps) if "attest" in step.get("uses", ""))
        self.assertEqual(steps[at]["with"], {"subject-checksums": "release/SHA256SUMS"})
        self.assertEqual(steps[at + 1]["name"], "Draft")

    def test_ci(self) -> None:
        """A fork has no secrets, and its pull request is not trusted."""
        text = (FOLDER / "ci.yml").read_text()
        self.assertNotIn("secrets", text)
        self.assertNotIn("pull_request_target", text)
        self.assertIn("&& .ci/run", text)
        minutes = workflow("ci")["jobs"]["ci"]["timeout-minutes"]
        self.assertGreater(minutes, int(re.findall(r"Ends within (\d+) minutes", (SOURCE / ".ci/run").read_text())[0]))

    def test_renew(self) -> None:
        """It fails where a version is another, and only there."""
        step, digests = (step["run"] for step in workflow("renew")["jobs"]["renew"]["steps"][-2:])
        with TemporaryDirectory() as folder:
            def run(commands: str) -> int:
                return subprocess.run(["bash", "-e", "-c", f"docker() {{ :; }}; {commands}"], cwd=folder, capture_output=True, check=False).returncode

            git = "git -c user.name=a -c user.email=a@example"
            self.assertEqual(run(f"mkdir release; printf '# snapshot 1\na 1\n' >release/controller-image.lock; {git} init; {git} add .; {git} commit -m a"), 0)
            self.assertEqual(run(step), 0)
            self.assertEqual(run("printf '# snapshot 2\na 1\n' >release/controller-image.lock;" + step), 0)
            self.assertEqual(run("printf '# snapshot 2\na 2\n' >release/controller-image.lock;" + step), 1)
            one, other = "sha256:" + 64 * "1", "sha256:" + 64 * "2"
            self.assertEqual(run(f"mkdir -p .github/workflows docs; touch README.md docs/install.md; echo 'x debian:12@{one} y' >.github/workflows/a.yml"), 0)
            self.assertEqual(run(f'skopeo() {{ [ "$4" = docker://docker.io/library/debian:12 ] && echo {one}; }}; {digests}'), 0)
            self.assertEqual(run(f"skopeo() {{ echo {other}; }}; {digests}"), 1)
            self.assertEqual(run(f"skopeo() {{ return 1; }}; {digests}"), 1)

    def test_renew_tells(self) -> None:
        """In one issue, which the next Monday does not open again."""
        (step,) = workflow("renew")["jobs"]["tell"]["steps"]
        with TemporaryDirectory() as folder:
            gh = 'gh() { [ "$2" = list ] && { touch open; cat open; } || echo "$TITLE" >>open; }'
            env = {**os.environ, "TITLE": step["env"]["TITLE"]}
            for _ in range(2):
                subprocess.run(["bash", "-e", "-c", f"{gh}; {step['run']}"], cwd=folder, env=env, check=True)
            self.assertEqual((Path(folder) / "open").read_text(), step["env"]["TITLE"] + "\n")

    def test_release(self) -> None:
        """On both architectures, since nothing is cross-built; the job that has the key runs nothing of the tree."""
        jobs = workflow("release")["jobs"]
        self.assertEqual([one["arch"] for one in jobs["build"]["strategy"]["matrix"]["include"]], ["amd64", "arm64"])
        self.assertEqual([(name, step["name"]) for name, job in jobs.items() for step in job["steps"] if "secrets." in str(step)], [("sign", "Sign")])
        self.assertEqual([name for name, job in jobs.items() if "environment" in job], ["sign"])
        self.assertEqual((jobs["sign"]["environment"], jobs["sign"]["permissions"]), ("release", {}))
        self.assertNotRegex(str(jobs["sign"]), r"checkout|docker|\./|release/run|git ")
        self.assertIn("./dev release --unsigned", str(jobs["build"]))
        self.assertEqual(workflow("release")[True], {"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+"]}})


class Draft(unittest.TestCase):
    """A draft of made-up files, put together by the workflow's own commands, and SECURITY.md's commands on it."""

    def setUp(self) -> None:
        self.top = Path(self.enterContext(TemporaryDirectory()))
        self.jobs = workflow("release")["jobs"]
        (self.top / "bin").mkdir()
        (self.top / "bin/gh").write_text('#!/bin/sh\nmkdir draft && for file; do [ ! -f "$file" ] || cp "$file" draft; done\n')
        (self.top / "bin/gh").chmod(0o755)
        subprocess.run(["minisign", "-G", "-W", "-s", "key", "-p", "nodeclaimd.pub"], cwd=self.top, capture_output=True, check=True)
        downloads = self.step("sign", "download-artifact")["with"]["path"]
        for arch in ("amd64", "arm64"):
            self.folder = self.top / downloads / f"release-{arch}"
            self.folder.mkdir(parents=True)
            files = {"nodeclaimd-1.2.3.tar.xz": "both", f"nodeclaimd_1.2.3_{arch}.deb": arch, f"PROVENANCE-{arch}.txt": arch}
            for name, content in files.items():
                (self.folder / name).write_text(content)
            self.sum_up()

    def sum_up(self) -> None:
        rows = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(self.folder.glob("[!S]*"))]
        (self.folder / "SHA256SUMS").write_text("".join(rows))

    def step(self, job: str, name: str) -> dict[str, Any]:
        return next(step for step in self.jobs[job]["steps"] if name in (step.get("name"), step.get("uses", "/").split("/")[1].split("@")[0]))

    def run_in(self, folder: str, commands: str) -> subprocess.CompletedProcess[str]:
        env = dict(os.environ, PATH=f"{self.top / 'bin'}:{os.environ['PATH']}", RELEASE_KEY=(self.top / "key").read_text().strip(),
                   GITHUB_REF_NAME="v1.2.3", GITHUB_REPOSITORY="o/r")
        return subprocess.run(["bash", "-e", "-c", commands], cwd=self.top / folder, env=env, text=True, capture_output=True, check=False)

    def verify(self) -> tuple[int, str]:
        section = (SOURCE / "SECURITY.md").read_text().split("## How to verify a download")[1]
        done = self.run_in("draft", dedent("\n".join(re.findall(r"(?m)^    .*$", section))))
        return done.returncode, done.stdout + done.stderr

    def test_verified_as_security_says(self) -> None:
        for job, step in (("sign", "Merge"), ("sign", "Sign"), ("draft", "Draft")):
            done = self.run_in("", self.step(job, step)["run"])
            self.assertEqual(done.returncode, 0, done.stderr)
        draft = self.top / "draft"
        names = {path.name for path in draft.iterdir()}
        self.assertEqual(len(names), 7, names)
        shutil.copy(self.top / "nodeclaimd.pub", draft)
        code, said = self.verify()
        self.assertEqual(code, 0, said)
        self.assertIn("Signature and comment signature verified\nTrusted comment: nodeclaimd 1.2.3\n", said)
        self.assertEqual(set(re.findall(r"(?m)^(.*): OK$", said)), names - {"SHA256SUMS", "SHA256SUMS.minisig"})
        for name in names:
            kept = (draft / name).read_bytes()
            (draft / name).write_bytes(bytes([kept[0] ^ 1]) + kept[1:] if name != "SHA256SUMS.minisig" else kept.replace(b"1.2.3", b"1.2.4"))
            self.assertNotEqual(self.verify()[0], 0, name)
            (draft / name).write_bytes(kept)

    def test_two_tarballs(self) -> None:
        """Machines that make different tarballs of one commit make no release."""
        (self.folder / "nodeclaimd-1.2.3.tar.xz").write_text("another")
        self.sum_up()
        self.assertIn("nodeclaimd-1.2.3.tar.xz: FAILED", self.run_in("", self.step("sign", "Merge")["run"]).stdout)


if __name__ == "__main__":
    unittest.main()
