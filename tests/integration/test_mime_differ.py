"""User data of MIME against Python's email package, which is what cloud-init reads it with: random and nearly valid texts.

Our half is reader-differ, from the build folder of the program under test. MIME_CASES is how many texts are compared (10000 for a plain
build), MIME_SEED where the random numbers begin: the same seed gives the same texts. Where the two differ, the difference must have a name here.
"""

from __future__ import annotations

import base64
import binascii
import collections
import email
import itertools
import os
import quopri
import random
import re
import subprocess
import unittest
from pathlib import Path
from typing import Callable, Optional

from harness import PATIENCE, agent_path

CASES = int(os.environ.get("MIME_CASES", 10000 if PATIENCE < 2 else 2000))
SEED = int(os.environ.get("MIME_SEED", 1))
CHUNK = 5000
MOST_SAID = 10
OURS = ("application/node.eks.aws", "application/vnd.nodeclaimd+yaml")


def program() -> Path:
    build = agent_path().parent
    name = "tests/fuzz/differ/reader-differ"
    if (build / "config.status").exists():
        subprocess.run(["make", "-C", str(build), "--quiet", name], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return build / name


# --- texts


def boundary(r: random.Random) -> str:
    return r.choice(("B", "BB", "//", "===============123==", "a b", "b'()+_,-./:=?", "x" * 70, "0", "MIMEBOUNDARY", "B--"))


def parameter(r: random.Random, name: str, value: str) -> str:
    plain = re.fullmatch(r"[A-Za-z0-9'+_.\-]+", value)
    text = value if plain and r.random() < 0.5 else f'"{value}"'
    return r.choice((";", "; ", ";  ", ";\n ", ";\n\t", " ; ")) + r.choice((name, name, name.upper(), name.title())) + "=" + text


def body(r: random.Random, around: str) -> bytes:
    lines = ["apiVersion: node.eks.aws/v1alpha1"]
    for _ in range(r.randint(0, 5)):
        lines.append(r.choice(("kind: NodeConfig", "spec: {}", "", "  a: é", "x=y", "trailing  ", "tab\t", "=", "a=3D", "--", "--" + around[:-1], "--" + around + "x",
                               " --" + around, "From here", "." * 80, "\x00", "Content-Type: text/plain")))
    text = "\n".join(lines) + r.choice(("", "\n", "\n\n"))
    return text.encode()


def encoded(r: random.Random, encoding: str, plain: bytes) -> bytes:
    if encoding.lower() == "base64":
        text = base64.encodebytes(plain) if r.random() < 0.8 else base64.b64encode(plain)
        return text.rstrip(b"=\n") if r.random() < 0.03 else text
    if encoding.lower() == "quoted-printable":
        return quopri.encodestring(plain, quotetabs=r.random() < 0.5)
    return plain


def field(r: random.Random, name: str, value: str) -> str:
    return r.choice((name, name, name.lower(), name.upper())) + ":" + r.choice((" ", " ", "", "  ", "\t")) + value + "\n"


def leaf(r: random.Random, around: str) -> bytes:
    kind = r.choice((*OURS, *OURS, *OURS, "text/x-shellscript", "text/cloud-config", "text/plain", "TEXT/X-ShellScript", OURS[0].upper()))
    encoding = r.choice(("", "", "7bit", "8bit", "binary", "base64", "base64", "quoted-printable", "BASE64", "Quoted-Printable"))
    if r.random() < 0.02:
        encoding = r.choice(("x-uuencode", "uuencode", "x", "base64 ", "base-64", '"base64"'))
    fields = []
    if r.random() < 0.95:
        charset = parameter(r, "charset", r.choice(("us-ascii", "utf-8", "latin-1", "none"))) if r.random() < 0.5 else ""
        fields.append(field(r, "Content-Type", kind + charset))
    if encoding:
        fields.append(field(r, "Content-Transfer-Encoding", encoding))
    for extra in ("MIME-Version: 1.0\n", 'Content-Disposition: attachment; filename="x.yaml"\n', "X-Long: a\n b\n\tc\n"):
        if r.random() < 0.3:
            fields.append(extra)
    r.shuffle(fields)
    return "".join(fields).encode() + b"\n" + encoded(r, encoding.strip(), body(r, around))


def multipart(r: random.Random, depth: int, avoid: str) -> bytes:
    mark = boundary(r)
    while mark == avoid:
        mark = boundary(r)
    fields = [field(r, "Content-Type", r.choice(("multipart/mixed", "multipart/mixed", "Multipart/Related", "multipart/alternative")) + parameter(r, "boundary", mark))]
    if depth == 0 or r.random() < 0.3:
        fields.append(field(r, "MIME-Version", "1.0"))
    if r.random() < 0.2:
        fields.append("Subject: x\n y\n")
    r.shuffle(fields)
    text = "".join(fields).encode() + b"\n" + r.choice((b"", b"", b"\n", b"a preamble\n", b"--\n"))
    for _ in range(r.choice((1, 1, 2, 3))):
        inner = multipart(r, depth + 1, mark) if depth < 3 and r.random() < 0.15 else leaf(r, mark)
        text += b"--" + mark.encode() + r.choice((b"\n",) * 8 + (b" \n", b"\t\n")) + inner + b"\n"
    closing = r.choice((b"--",) * 20 + (b"",))
    return text + b"--" + mark.encode() + closing + r.choice((b"\n", b"\n", b"", b"\nan epilogue\n", b" \n"))


def mutated(r: random.Random, text: bytes) -> bytes:
    made = bytearray(text)
    for _ in range(r.choice((1, 1, 2, 4))):
        at = r.randrange(len(made) + 1)
        piece = r.choice((b"\n", b"\r\n", b"\r", b" ", b"-", b"=", b"\"", b";", b":", b"\x80", b"A", b"--B", b"\n\n", b"Content-Type: text/plain\n"))
        end = at + r.choice((0, 0, 1, 2, 20))
        made[at:end] = r.choice((piece, piece, b""))
    return bytes(made)


def user_data(r: random.Random) -> bytes:
    text = multipart(r, 0, "") if r.random() < 0.95 else b"MIME-Version: 1.0\n" + leaf(r, "B")
    if r.random() < 0.3:
        text = text.replace(b"\n", b"\r\n")
    return mutated(r, text) if r.random() < 0.3 else text


# --- the two readings


Parts = list[tuple[str, bytes]]


def peeled(data: bytes) -> bytes:
    """A part of ours that is base64 through and through is decoded, whatever its header says."""
    digits = data.replace(b"\r", b"").replace(b"\n", b"")
    if not digits or len(digits) % 4:
        return data
    try:
        return base64.b64decode(digits, validate=True)
    except binascii.Error:
        return data


def theirs(text: bytes) -> tuple[Parts, list[str]]:
    """What cloud-init would see, and what the email package finds wrong with it."""
    parts: Parts = []
    defects: list[str] = []
    message = email.message_from_bytes(text)
    for part in message.walk():
        if not part.is_multipart():
            kind = part.get_content_type()
            if kind in OURS:
                data = peeled(part.get_payload(decode=True) or b"")
            else:
                raw = part._payload  # what it holds, before anything is decoded
                data = (raw or "").encode("ascii", "surrogateescape")
            parts.append((kind, data or b""))
        defects += [type(d).__name__ for d in part.defects]
    return parts, defects


def ours(texts: list[bytes]) -> list[Optional[Parts]]:
    given = b"".join(t.hex().encode() + b"\n" for t in texts)
    said = subprocess.run([str(program()), "mime"], input=given, stdout=subprocess.PIPE, check=True).stdout.decode(errors="replace").splitlines()
    if len(said) != len(texts):
        raise AssertionError(f"{len(said)} answers to {len(texts)} questions")
    answers: list[Optional[Parts]] = []
    for line in said:
        words = line.split(" ")
        if words[0] != "is":
            REFUSALS[len(answers)] = line
            answers.append(None)
            continue
        pairs = [w.split(":") for w in words[1:]]
        answers.append([(bytes.fromhex(k).decode(errors="replace"), bytes.fromhex(d)) for k, d in pairs])
    return answers


REFUSALS: dict[int, str] = {}


def has_lone_return(text: bytes) -> bool:
    return re.search(rb"\r(?!\n)", text) is not None


def has_other_line(text: bytes) -> bool:
    """Is there a line in the header that is no header line?"""
    header = re.split(rb"\r?\n\r?\n", text)[0]
    return text[:1] in (b" ", b"\t") or any(not re.match(rb"[!-9;-~]+:|[ \t]", line) for line in header.split(b"\n"))


def filled(parts: Parts) -> Parts:
    return [(kind, data) for kind, data in parts if kind != "text/plain" or data.strip()]


def typed(parts: Parts) -> Parts:
    return [(kind, data) for kind, data in parts if kind != "text/plain"]


def joined(parts: Parts) -> Parts:
    return [(kind, re.sub(rb"=[ \t]+\r?\n", b"", data)) for kind, data in parts]


def trimmed(parts: Parts) -> Parts:
    return [(kind, re.sub(rb"[ \t]+(?=\r?\n|$)", b"", data)) for kind, data in filled(parts)]


# What is wanted. By a part of our message: refused, where email goes on with what it cannot read.
REFUSED = {
    "refused: a transfer encoding that nobody has": "is not known: use 7bit",
    "refused: no media type": "is not a media type",
    "refused: no header line": "is not a MIME header line",
    "refused: no end of the header": "no empty line ends it",
    "refused: a damaged body": "its body is not valid",
    "refused: a part that is damaged base64": "looks like base64, but",
}
# By what was read.
WANTED: dict[str, Callable[[bytes, Parts, Parts, list[str]], bool]] = {
    # Go ends the list there, email reads one more part, of nothing; and of two delimiters with nothing between them it sees one.
    "a part of nothing": lambda text, we, they, defects: filled(we) == filled(they),
    # The second of those may be the closing one: then what is behind the end is that part to email.
    "the end is not seen": lambda text, we, they, defects: "CloseBoundaryNotFoundDefect" in defects and typed(we) == typed(they),
    # Lines end with LF or CRLF, nothing else; email also takes a CR alone for the end of a line.
    "a CR without its LF": lambda text, we, they, defects: has_lone_return(text),
    # Scripts that write user data leave blank lines before it.
    "blank lines before the header": lambda text, we, they, defects: text.startswith((b"\n", b"\r\n")),
    # Before any line of MIME stands one that is no header line: a document that a node is given without any MIME.
    "no MIME": lambda text, we, they, defects: we == [("", text)] and ([kind for kind, _ in they] == ["text/plain"] or has_other_line(text)),
    # email takes the mark with all that follows it, or none, and then finds no part.
    "a damaged boundary parameter": lambda text, we, they, defects: "StartBoundaryNotFoundDefect" in defects or "NoBoundaryInMultipartDefect" in defects,
    # RFC 2045: it has been added on the way and must go; Python's decoder keeps it on a line that has nothing else, and behind a soft line break.
    "white space before a quoted-printable line's end": lambda text, we, they, defects: b"quoted-" in text.lower()
    and trimmed(we) in (trimmed(they), trimmed(joined(they))),
    # RFC 2046 has no boundary that ends so; email cuts it.
    "white space at the end of a boundary": lambda text, we, they, defects: re.search(rb'(?i)boundary="[^"]*[ \t]"', text) is not None,
    # email does not know "base64 ".
    "white space around the encoding": lambda text, we, they, defects: re.search(rb"(?i)transfer-encoding:[^\n]*([ \t]\r?\n|\n[ \t])", text) is not None,
}


class MimeDiffer(unittest.TestCase):
    def test_user_data_is_read_as_cloud_init_reads_it(self) -> None:
        r = random.Random(SEED)
        verdicts: collections.Counter[str] = collections.Counter()
        said: list[str] = []
        for start in range(0, CASES, CHUNK):
            texts = [user_data(r) for _ in range(min(CHUNK, CASES - start))]
            REFUSALS.clear()
            for i, (text, we) in enumerate(zip(texts, ours(texts))):
                they, defects = theirs(text)
                verdict = self.verdict(text, we, they, defects, REFUSALS.get(i, ""))
                verdicts[verdict or "different"] += 1
                if not verdict and len(said) < MOST_SAID:
                    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(they, we or [])))
                    said.append(f"{text!r}\n  behind {same} equal parts\n  they {they[same:]} {defects}\n  we   {we[same:] if we is not None else REFUSALS[i]}")
        counts = ", ".join(f"{name} {n}" for name, n in sorted(verdicts.items()))
        print(f"mime: seed {SEED}, {CASES} cases, {verdicts['different']} different; {counts}")
        self.assertFalse(said, "\n".join(said))
        self.assertGreater(verdicts["read by both"], CASES // 3, "this compares too little")

    def verdict(self, text: bytes, we: Optional[Parts], they: Parts, defects: list[str], refusal: str) -> Optional[str]:
        if we == they:
            return "read by both"
        if we is None and defects:
            return "refused, and damaged says email too"
        if we is None:
            named = next((name for name, said in REFUSED.items() if said in refusal), None)
            if named:
                return named
        return next((name for name, is_wanted in WANTED.items() if is_wanted(text, we or [], they, defects)), None)


if __name__ == "__main__":
    unittest.main()
