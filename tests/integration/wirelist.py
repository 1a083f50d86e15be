"""What a program requested, as a list that can be compared with that of another build: without what differs from run to run.

NC_UPDATE=1 writes the lists anew; do that only with a build of before a change that is switched off here.
"""

from __future__ import annotations

import json
import os
import re
import unittest
from pathlib import Path
from typing import Any, Iterable

IS_UPDATE = os.environ.get("NC_UPDATE") == "1"
VOLATILE = {
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z": "<time>",
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}": "<uid>",
    r"\.[0-9a-f]{16}\b": ".<hash>",
    r"\b\d+ s\b|\b\d+m?\d*(\.\d+)?s\b": "<duration>",
    r'("(?:gracePeriodSeconds|count)":) ?\d+': r"\1 <n>",
    r'("resourceVersion":) ?"\d+"': r'\1 "<n>"',
    r"\b(resourceVersion|timeoutSeconds)=\d+": r"\1=<n>",
}


def steady(entry: dict[str, Any], opaque: Iterable[str] = (), names: Iterable[tuple[str, str]] = ()) -> str:
    """A request without what is volatile; `opaque` annotations count by being there alone."""
    body = json.loads(entry.get("body") or "null")
    notes = ((body or {}).get("metadata") or {}).get("annotations") or {}
    for key in opaque:
        if notes.get(key):
            notes[key] = "<json>"
    text = f"{entry['method']} {entry['path']} {json.dumps(body, sort_keys=True)}"
    for name, instead in names:
        text = text.replace(name, instead)
    for pattern, instead in VOLATILE.items():
        text = re.sub(pattern, instead, text)
    return text


def values(entry: dict[str, Any], opaque: Iterable[str] = ()) -> list[str]:
    """Each value of a request by itself: what may go in one write or in two is the same."""
    method, path, body = steady(entry, opaque).split(" ", 2)

    def leaves(at: str, value: Any) -> list[str]:
        if not isinstance(value, dict):
            return [f"{method} {path} {at}: {json.dumps(value, sort_keys=True)}"]
        return [line for key, one in value.items() for line in leaves(f"{at}/{key}", one)]

    return leaves("", json.loads(re.sub(r": <n>", ": 0", body)))


def compare(case: unittest.TestCase, name: str, requests: Iterable[str]) -> None:
    golden = Path(__file__).parent / f"{name}.golden"
    found = sorted(set(requests))
    if IS_UPDATE:
        golden.write_text("\n".join(found) + "\n")
    case.assertEqual(found, golden.read_text().splitlines())
