"""JSON against Python's json module: random texts, half of them damaged, are read as the same values, or refused by both.

What Python takes and we must not is named below, and each name must come up. Our half is reader-differ, as in test_mime_differ.py.
JSON_CASES is how many texts are compared (10000 for a plain build), JSON_SEED where the random numbers begin.
"""

from __future__ import annotations

import collections
import json
import os
import random
import subprocess
import unittest
from typing import Any, NoReturn

from harness import PATIENCE
from test_mime_differ import program

CASES = int(os.environ.get("JSON_CASES", 10000 if PATIENCE < 2 else 2000))
SEED = int(os.environ.get("JSON_SEED", 1))
MOST_DEPTH = 64
MOST_INTEGER = 2**53
MOST_SAID = 10
SCALARS = (
    *("null", "true", "false", "0", "-0", "-17", "1.50", "1e3", "1E-7", "0.1e1", "1e15", "1e22", "1e-400", "1e308", "1e400", "01", "1.", "-", "+1", ".5", "1e", "NaN"),
    *("9007199254740992", "9007199254740993", "-9007199254740993", "9007199254740993.0", "18446744073709551616", "1" * 47, "0." + "1" * 46, "0." + "1" * 47, "Infinity"),
    *('""', '"a"', '"\\u0000"', '"\\u00e9\\n\\/\\\\"', '"é\u2028\x7f\U0001f600"', '"\\ud83d\\ude00"', '"\\ud83d"', '"\\ude00x"', '"\\x"', '"\t"', '"\x00"', "'a'", "/**/1"),
)
KEYS = ('"a"', '"b"', '"A"', '"\\u0061"', '""', '"é"', '"metadata"', '"a\\u0000"', '"\\""')
DAMAGE = (b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"0", b"1", b"-", b".", b"e", b" ", b"\x00", b"\xff", b"\xc3", b"\xef\xbb\xbf", b"null", b"\\u0000", b"\x0b")


def value(r: random.Random, depth: int) -> str:
    def space() -> str:
        return r.choice(("", "", "", "", " ", "\n", "\t", "\r\n"))

    kind = r.randrange(10) if depth else 9
    if kind < 4:
        inner = ",".join(f"{space()}{r.choice(KEYS)}{space()}:{value(r, depth - 1)}" for _ in range(r.randrange(4)))
        text = "{" + inner + space() + "}"
    elif kind < 6:
        text = "[" + ",".join(value(r, depth - 1) for _ in range(r.randrange(4))) + space() + "]"
    else:
        text = r.choice(SCALARS if r.random() < 0.3 else ("null", "true", "1", "-12", '"a"', '"é"', "1.5", "4294967296"))
    return space() + text + space()


def document(r: random.Random) -> bytes:
    text = value(r, 4)
    if r.random() < 0.02:
        depth = r.choice((60, MOST_DEPTH - 1, MOST_DEPTH, MOST_DEPTH + 1))
        text = "[" * depth + text + "]" * depth
    made = text.encode()
    for _ in range(r.choice((0, 0, 0, 1, 2))):
        at = r.randrange(len(made) + 1)
        made = made[:at] + r.choice((*DAMAGE, b"")) + made[at + r.choice((0, 0, 1)) :]
    return made


class Wanted(Exception):
    """Valid for Python, and refused by us with its name in our message."""


def number(text: str, kind: type) -> Any:
    if len(text) > 48:
        raise Wanted("number is too long")
    if kind is int and abs(int(text)) > MOST_INTEGER:
        raise Wanted("integer beyond 2^53")
    if abs(float(text)) == float("inf"):
        raise Wanted("number out of range")
    return kind(text)


def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({k for k, _ in pairs}) < len(pairs):
        raise Wanted("duplicate key")
    return dict(pairs)


def constant(text: str) -> NoReturn:
    raise ValueError(text)


def depth_of(v: Any) -> int:
    return 1 + max(map(depth_of, v.values() if isinstance(v, dict) else v), default=0) if isinstance(v, (dict, list)) else 0


def strings_of(v: Any) -> list[str]:
    if isinstance(v, dict):
        return [s for k, w in v.items() for s in (k, *strings_of(w))]
    return [s for w in v for s in strings_of(w)] if isinstance(v, list) else [v] if isinstance(v, str) else []


def theirs(text: bytes) -> Any:
    """The value; ValueError where the text is none to Python either."""
    read = json.loads(
        text.decode(),
        parse_int=lambda t: number(t, int),
        parse_float=lambda t: number(t, float),
        parse_constant=constant,
        object_pairs_hook=members,
    )
    if depth_of(read) > MOST_DEPTH:
        raise Wanted("nested too deep")
    for s in strings_of(read):
        if "\x00" in s:
            raise Wanted("\\u0000 in a string")
        if any("\ud800" <= c < "\ue000" for c in s):
            raise Wanted("half of a pair of surrogates")
    return read


def same(a: Any, b: Any) -> bool:
    """Unlike ==, true is no 1; like it, 1.0 is."""
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def verdict(text: bytes, said: str) -> str:
    """Empty where the two differ."""
    try:
        they = theirs(text)
    except Wanted as refusal:
        return f"refused: {refusal}" if said.startswith("refused") else ""
    except ValueError:
        return "refused by both" if said.startswith("refused") else ""
    return "read by both" if said.startswith("is ") and same(json.loads(bytes.fromhex(said[3:])), they) else ""


class JsonDiffer(unittest.TestCase):
    def test_json_is_read_as_python_reads_it(self) -> None:
        r = random.Random(SEED)
        texts = [document(r) for _ in range(CASES)]
        given = b"".join(t.hex().encode() + b"\n" for t in texts)
        answers = subprocess.run([str(program()), "json"], input=given, stdout=subprocess.PIPE, check=True).stdout.decode(errors="replace").splitlines()
        self.assertEqual(len(answers), len(texts))
        verdicts = collections.Counter(verdict(t, said) for t, said in zip(texts, answers))
        print(f"json: seed {SEED}, {CASES} cases; " + ", ".join(f"{name or 'different'} {n}" for name, n in sorted(verdicts.items())))
        different = [f"{t!r}: {said}" for t, said in zip(texts, answers) if not verdict(t, said)]
        self.assertFalse(different, "\n".join(different[:MOST_SAID]))
        self.assertGreater(verdicts["read by both"], CASES // 4, "this compares too little")
        self.assertEqual(sum(name.startswith("refused: ") for name in verdicts), 7, "not everything came up")


if __name__ == "__main__":
    unittest.main()
