"""A strict reader of Prometheus text, promtool itself, and the families that the manual names.

Knows: the text format, and the naming rules that promtool checks.
Gives: `parse_metrics`, `families_of`, `documented_families`, `check_with_promtool`.
Must not: know which metrics there are.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path
from typing import Iterable

MANUAL = Path(__file__).resolve().parents[2] / "man"

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABELS = r'(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"(?:,|(?=\})))*'
NUMBER = r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+|Inf)|NaN"


def parse_metrics(text: str) -> dict[str, dict[str, float]]:
    """{sample name: {labels: value}}. Raises ValueError for what promtool would complain about."""
    out: dict[str, dict[str, float]] = {}
    kinds: dict[str, str] = {}
    helped: set[str] = set()
    closed: set[str] = set()
    family = ""
    if not text.endswith("\n"):
        raise ValueError("no line end at the end")
    for number, line in enumerate(text.split("\n")[:-1], 1):
        said = re.fullmatch(rf"# (HELP|TYPE) ({NAME}) (.+)", line)
        if said:
            if said[2] != family:
                closed.add(family)
                family = said[2]
            if family in closed:
                raise ValueError(f"{number}: {family} comes twice")
            if said[1] == "HELP":
                if family in helped:
                    raise ValueError(f"{number}: second HELP")
                helped.add(family)
            elif family in kinds or said[3] not in ("counter", "gauge", "histogram"):
                raise ValueError(f"{number}: bad TYPE: {line}")
            else:
                kinds[family] = said[3]
            continue
        found = re.fullmatch(rf"({NAME})(\{{{LABELS}\}})? ({NUMBER})", line)
        if not found:
            raise ValueError(f"{number}: not a sample: {line!r}")
        name, labels = found[1], found[2] or ""
        check_sample(number, name, labels, family, kinds)
        if labels in out.setdefault(name, {}):
            raise ValueError(f"{number}: {name}{labels} comes twice")
        out[name][labels] = float(found[3].replace("Inf", "inf"))
    check_families(out, kinds, helped)
    return out


def check_sample(number: int, name: str, labels: str, family: str, kinds: dict[str, str]) -> None:
    kind = kinds.get(family, "")
    wanted = {family}
    if kind == "histogram":
        wanted = {f"{family}_bucket", f"{family}_sum", f"{family}_count"}
    if name not in wanted:
        raise ValueError(f"{number}: {name} is not of the family {family}")
    names = re.findall(r'([a-zA-Z_][a-zA-Z0-9_]*)="', labels)
    if len(names) != len(set(names)) or ("le" in names) != name.endswith("_bucket"):
        raise ValueError(f"{number}: bad labels {labels}")


def check_families(out: dict[str, dict[str, float]], kinds: dict[str, str], helped: Iterable[str]) -> None:
    for family, kind in kinds.items():
        if family not in helped:
            raise ValueError(f"{family} has no HELP")
        if (kind == "counter") != family.endswith("_total"):
            raise ValueError(f"{family} is a {kind}")
        if kind == "counter" and any(v < 0 for v in out.get(family, {}).values()):
            raise ValueError(f"{family} is negative")
        if kind == "histogram":
            check_histogram(family, out)


def check_histogram(family: str, out: dict[str, dict[str, float]]) -> None:
    series: dict[str, list[tuple[float, float]]] = {}
    for labels, value in out[f"{family}_bucket"].items():
        bound = re.search(r'le="([^"]*)"', labels)
        assert bound
        rest = re.sub(r',?le="[^"]*"', "", labels).replace("{,", "{").replace("{}", "")
        series.setdefault(rest, []).append((float(bound[1].replace("Inf", "inf")), value))
    for rest, rows in series.items():
        if rows != sorted(rows) or [v for _, v in rows] != sorted(v for _, v in rows):
            raise ValueError(f"{family}{rest}: buckets are not cumulative")
        if rows[-1][0] != float("inf") or rows[-1][1] != out[f"{family}_count"].get(rest):
            raise ValueError(f"{family}{rest}: +Inf is not the count")


def families_of(text: str, prefix: str) -> set[str]:
    return set(re.findall(rf"^# TYPE {prefix}(\S+)", text, re.M))


def documented_families(page: str) -> set[str]:
    """What the section METRICS of a manual page lists."""
    section = (MANUAL / page).read_text().split(".Sh METRICS\n")[1].split("\n.Sh ")[0]
    return {name for line in re.findall(r"^\.It Li (.*)", section, re.M) for name in line.split(" , ")}


def check_with_promtool(text: str) -> None:
    promtool = os.environ.get("PROMTOOL") or shutil.which("promtool")
    if not promtool:
        raise unittest.SkipTest("promtool is missing; ./dev test gets it")
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)
