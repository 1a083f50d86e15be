"""A small, strict YAML reader: block maps, block lists, scalars, flow maps and lists that are JSON.

Knows: what a kubeconfig looks like when a program writes it.
Gives: `load`, which raises ValueError with a line number on anything else.
Must not: guess.
"""

from __future__ import annotations

import json
import re
from typing import Any

Line = tuple[int, int, str]  # number, indent, text

KEY = re.compile(r'("(?:[^"\\]|\\.)*"|[A-Za-z0-9_./-]+):(?: +(.*))?$')


def load(text: str) -> Any:
    stripped = text.lstrip()
    if stripped.startswith(("{", "[")):
        return json.loads(text)
    lines: list[Line] = []
    for number, raw in enumerate(text.splitlines(), 1):
        if "\t" in raw:
            raise ValueError(f"line {number}: a tab")
        if raw.strip() and not raw.lstrip().startswith("#") and raw.strip() != "---":
            lines.append((number, len(raw) - len(raw.lstrip()), raw.strip()))
    value, rest = _block(lines, 0)
    if rest < len(lines):
        raise ValueError(f"line {lines[rest][0]}: unexpected indentation")
    return value


def _block(lines: list[Line], at: int) -> tuple[Any, int]:
    if at >= len(lines):
        return None, at
    return _list(lines, at) if lines[at][2].startswith("- ") or lines[at][2] == "-" else _map(lines, at)


def _list(lines: list[Line], at: int) -> tuple[list[Any], int]:
    indent, out = lines[at][1], []
    while at < len(lines) and lines[at][1] == indent and (lines[at][2].startswith("- ") or lines[at][2] == "-"):
        number, _, text = lines[at]
        inner = text[1:].lstrip()
        if not inner:
            value, at = _block(lines, at + 1)
        elif KEY.match(inner):
            lines[at] = (number, indent + len(text) - len(inner), inner)
            value, at = _map(lines, at)
        else:
            value, at = _scalar(inner, number), at + 1
        out.append(value)
    return out, at


def _map(lines: list[Line], at: int) -> tuple[dict[str, Any], int]:
    indent, out = lines[at][1], {}
    while at < len(lines) and lines[at][1] == indent and not lines[at][2].startswith("- "):
        number, _, text = lines[at]
        match = KEY.match(text)
        if not match:
            raise ValueError(f"line {number}: no key: {text!r}")
        key = json.loads(match[1]) if match[1].startswith('"') else match[1]
        if key in out:
            raise ValueError(f"line {number}: {key!r} twice")
        at += 1
        if match[2]:
            out[key] = _scalar(match[2], number)
        elif at < len(lines) and (lines[at][1] > indent or (lines[at][1] == indent and lines[at][2].startswith("- "))):
            out[key], at = _block(lines, at)
        else:
            out[key] = None
    return out, at


def _scalar(text: str, number: int) -> Any:
    if text[0] in '"{[':
        try:
            return json.loads(text)
        except ValueError as exc:
            raise ValueError(f"line {number}: {exc}") from exc
    if text[0] == "'":
        if len(text) < 2 or text[-1] != "'":
            raise ValueError(f"line {number}: open quote")
        return text[1:-1].replace("''", "'")
    if text[0] in "&*!|>%@`" or " #" in text or ": " in text:
        raise ValueError(f"line {number}: not in the subset: {text!r}")
    if text in ("true", "false"):
        return text == "true"
    if text in ("null", "~"):
        return None
    return int(text) if re.fullmatch(r"-?\d+", text) else text
