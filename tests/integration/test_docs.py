"""The documentation, tried: its example documents are accepted, its links within and between pages lead to headings that exist, what it
shows as output is in the programs, and a block of commands is run by ./dev docs or says why not."""

from __future__ import annotations

import ast
import re
import subprocess
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent

from harness import agent_path

from demo import install_tables

TOP = Path(__file__).resolve().parents[2]
PAGES = sorted([*TOP.glob("*.md"), *TOP.glob("docs/**/*.md"), *TOP.glob("*/README.md")])
OURS = re.compile(r"^apiVersion: (node\.eks\.aws|nodeclaimd\.io)/", re.M)
# What a reader replaces: a CA that is one.
AUTHORITY = re.findall(r"certificateAuthority: (\S+)", (TOP / "userdata/not-eks.mime").read_text())[0]
# The pages that show output. A command is none, nor is what others write in it.
SHOWING = [TOP / name for name in ("README.md", *(f"docs/{stem}.md" for stem in ("commands", "faq", "install", "runbooks", "troubleshooting")))]
COMMAND = re.compile(
    r"(\./|aws|git|helm|kubectl|mkdir|ssh|sudo|systemctl|terraform|nodeclaim\S+ (check|drain|explain|preflight|render|run|status|timeline|undrain)|-)|.* -|\w+: \{"
)
OTHERS = re.compile(r"'[^']*'|\bdatabase\b|KubeletReady|Unauthorized|SSL certificate problem: self-signed certificate")


def blocks(page: Path) -> "list[str]":
    found = re.findall(r"^ *```(?:yaml|text)\n(.*?)^ *```$", page.read_text(encoding="utf-8"), re.M | re.S)
    return [b for b in map(dedent, found) if OURS.search(b)]


def headings(page: Path) -> "set[str]":
    """The anchors that GitHub makes of them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return {
        re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in re.findall(r"^#+ +(.+)$", text, re.M)
    }


def printed() -> str:
    """The words of every text in the sources, with a mark where something is put in."""
    files = [*TOP.glob("src/**/*.[ch]"), *TOP.glob("include/**/*.h")]
    sources = "\n".join(re.sub(r'"\s*\n\s*"', "", f.read_text(encoding="utf-8")) for f in files)
    texts = re.findall(r'"((?:[^"\\\n]|\\.)*)"', sources)
    texts.append(re.sub(r"['\"]|\$\w+", " % ", (TOP / "image/provision").read_text(encoding="utf-8")))
    for node in ast.walk(ast.parse((TOP / "kubectl/kubectl-nodeclaim").read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            texts.append("".join(str(v.value) if isinstance(v, ast.Constant) else " % " for v in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
    marked = re.sub(r"%[-.*0-9hjlz]*[a-zA-Z]|\\[0nt]", " % ", " % ".join(texts))
    return " ".join(["", *re.findall(r"[^_\W]+|%", marked), ""])


def samples(page: Path) -> "list[str]":
    """What it shows as output, or says that an output has."""
    text = page.read_text(encoding="utf-8")
    fenced = [b for b in re.findall(r"^ *```text\n(.*?)^ *```$", text, re.M | re.S) if not OURS.search(b)]
    text = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.M | re.S)
    tables = re.findall(r"^\| [^|]*says \|.*\n\|---.*\n((?:\|.*\n)+)", text, re.M)
    first_cells = "".join(re.findall(r"(?m)^\|[^|]*\|", "".join(tables)))
    rows = re.sub("`[^`]*`", "", "".join(re.findall(r"(?m)^\|.*\n", text)))
    quoted = [s for s in re.findall("`([^`]+)`", text) if re.search(r"\s", s)] + re.findall("`([^`]+)`", first_cells)
    names = re.findall(r"(?:^\| |\bEvents? )((?:[A-Z][a-z]+){2,})\b", text, re.M)
    words = [re.sub(r"\s+", " ", s) for s in quoted + re.findall('"([^"]+)"', rows)]
    return fenced + names + [s for s in words if not COMMAND.match(s)]


def phrases(sample: str) -> "list[list[str]]":
    """Its words, without what is different each time: what has a digit or a slash, or is cut, and what a reader replaces."""
    parts = re.split(r"\n|  +|[][{}(),:;=|\"]|\bor\b|\S*[\d…/]\S*|\b(?:FIELD|FILE|N|NAME|NODE|UTC|X|Y)\b", OTHERS.sub("\n", sample))
    return [words for words in (re.findall(r"[^_\W]+", part) for part in parts) if words]


def is_printed(words: "list[str]", texts: str, begin: str = " ") -> bool:
    """Whether a text has them, or several that meet where something is put in or a text ends."""
    return f"{begin}{' '.join(words)} " in texts or any(
        f"{begin}{' '.join(words[:n])} % " in texts and is_printed(words[n:], texts, " % ") for n in range(1, len(words))
    )


class Docs(unittest.TestCase):
    def test_examples_are_accepted(self) -> None:
        self.assertGreater(len(blocks(TOP / "docs/configure.md")), 10)
        folder = Path(self.enterContext(TemporaryDirectory()))
        install_tables(folder)
        for page in PAGES:
            for number, text in enumerate(blocks(page)):
                with self.subTest(page=page.name, number=number):
                    path = folder / f"{page.stem}-{number}.yaml"
                    path.write_text(text.replace("CA_IN_BASE64", AUTHORITY))
                    command = [agent_path(), "check", "--strict", "--containerd-version", "v2.1.4", "--root", folder, path]
                    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    self.assertRegex(done.stdout, "would accept")

    def test_figures_are_made_by_commands_that_exist(self) -> None:
        usage = subprocess.run([TOP / "dev", "help"], capture_output=True, text=True, timeout=60, check=True).stdout
        known = set(re.findall(r"^  ([a-z]+) ", usage, re.M)) | set(re.findall(r"--[a-z]+", usage))
        for row in (TOP / "docs/development/figures.md").read_text(encoding="utf-8").splitlines():
            if not row.startswith("|"):
                continue
            cells = [cell.strip() for cell in row.strip("|").split("|")]
            if "made by" in cells:
                column, command = cells.index("made by"), ""
            elif not row.startswith("|---"):
                with self.subTest(row):
                    command = "".join(re.findall(r"`(?:\w+=\S+ )*((?:\./dev|python3) [^`]*)`", cells[column])) or command
                    self.assertRegex(cells[column], "`|^the same")
                    self.assertTrue(command)
                    first, *words = command.split()
                    if first == "./dev":
                        self.assertLessEqual({words[0], *re.findall(r"--[a-z]+", command.split("'")[0])}, known)
                    else:
                        self.assertTrue((TOP / words[0]).is_file())

    def test_links_lead_to_headings(self) -> None:
        for page in PAGES:
            for path, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")):
                to = (page.parent / path) if path else page
                with self.subTest(page=page.name, link=f"{path}#{anchor}"):
                    self.assertIn(anchor, headings(to))

    def test_what_is_shown_is_printed(self) -> None:
        texts = printed()
        self.assertGreater(len(samples(TOP / "docs/troubleshooting.md")), 150)
        for page in SHOWING:
            for sample in samples(page):
                for words in phrases(sample):
                    with self.subTest(page=page.name, words=" ".join(words), sample=sample):
                        self.assertTrue(is_printed(words, texts))

    def test_what_is_to_be_removed_is_found(self) -> None:
        """By its label, of each manifest and of each object of the chart; the page asks for each kind, and each row has a check."""
        text = (TOP / "docs/install.md").read_text(encoding="utf-8").split("\n## Remove it\n")[1]
        (asked,) = re.findall(r"kubectl get (\S+) -A -l 'app\.kubernetes\.io/name in \((.*?)\)'", text)
        kinds, names = (set(part.replace(" ", "").split(",")) for part in asked)
        for path in [*TOP.glob("deploy/*.yaml"), *TOP.glob("deploy/optional/*.yaml")]:
            for document in re.split(r"(?m)^---\n", path.read_text()):
                for kind in set(re.findall(r"(?m)^kind: (\w+)", document)) - {"Kustomization"}:
                    with self.subTest(path=path.name, kind=kind):
                        self.assertIn(kind.lower(), kinds)
                        (name,) = re.findall(r"(?m)^  labels:\n    app\.kubernetes\.io/name: (\S+)$", document)
                        self.assertIn(name, names)
        for path in TOP.glob("deploy/chart/templates/*.yaml"):
            labels = re.findall(r'(?m)^  labels:\n    {{- include "nodeclaim-controller\.(?:labels|nodeLabels)" [.$] ', path.read_text())
            self.assertEqual(len(labels), len(re.findall(r"(?m)^kind: ", path.read_text())), path.name)
        rows = re.findall(r"(?m)^\| .* \| .* \| (.*) \|$", text)[1:]
        self.assertGreater(len(rows), 10)
        for row in rows:
            self.assertRegex(row, "^`(kubectl|aws|find) |^the command below")

    def test_command_blocks_are_run_or_say_why_not(self) -> None:
        rows = [
            ("```sh\ntrue\nfalse\n```\n", "page:1: true\npage:1: false\n"),
            ("Text:\n\n    true    # a comment\n\n    # another\n    false\nEnd\n", "page:3: true\npage:3: false\n"),
            ("1. Text\n   more\n\n       true\n", "page:4: true\n"),
            ("Text\n    is no block\n\n* nor\n\n  is this\n", ""),
            ("```\nfor x in 1; do\n  a \\\n  b\ndone\n```\n", "page:1: for x in 1; do ...\n"),
            ("```yaml\na: b\n```\n", ""),
            ("_Not run by the project's tests: why._\n\n```sh\ntrue\n```\n\n    false\n", "page:7: false\nnot run: page:3: true: why\n"),
            ("_Not run by the project's tests_\n\n    true\n", "page: line 1: a mark without a reason\n"),
            ("_Not run by the project's tests:_\n\n    true\n", "page: line 1: a mark without a reason\n"),
            ("_Not run by the project's tests: why._\n\nText\n", "page: line 2: no block after a mark\n"),
            ("_Not run by the project's tests: why._\n", "page: line 1: no block after a mark\n"),
            ("_Not run by the project's tests: why._\n\n```yaml\na: b\n```\n", "page: line 3: no command, and marked\n"),
            ("```sh\n(true\n```\n", "page: line 1: bash cannot read: (true\n\n"),
        ]
        page = Path(self.enterContext(TemporaryDirectory())) / "page"
        for text, wanted in rows:
            with self.subTest(text=text):
                page.write_text(text)
                command = [TOP / "tests/docs/run.py", "--list", page]
                done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual((done.stdout + done.stderr).replace(f"{page.parent}/", ""), wanted)
                self.assertEqual(done.returncode, "page: " in wanted)
        done = subprocess.run([TOP / "tests/docs/run.py", "--list"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"README.md:\d+: ./dev test\n")


if __name__ == "__main__":
    unittest.main()
