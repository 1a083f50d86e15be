"""Prometheus' own programs: node_exporter and Prometheus as processes, promtool over what was scraped.

Knows: the options of these programs, and the format of promtool's tests of rules.
Gives: `NodeExporter`, `Prometheus`, `Scrape`, `Scene`, `firing`, `check_rules`.
Must not: know which metrics and rules there are.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import shutil
import subprocess
import time
import unittest
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from harness import PATIENCE, SOURCE, until
from promtext import parse_metrics

RULES = SOURCE / "deploy/observability/alerts.yaml"
EVERY_SEC = 15  # between two scrapes of a scene that goes on
MINUTES = 15  # for which it does
NEVER = "_"


def program(name: str, variable: str) -> str:
    """Its path; where it is missing the test is not run."""
    found = os.environ.get(variable) or shutil.which(name)
    if not found:
        raise unittest.SkipTest(f"{name} is missing; ./dev test gets it")
    return found


def own_address(port: int) -> str:
    return f"127.{random.randint(1, 254)}.{random.randint(0, 254)}.{random.randint(1, 254)}:{port}"


def get(address: str, path: str) -> tuple[int, str]:
    """(0, "") where nobody listens."""
    host, _, port = address.rpartition(":")
    conn = http.client.HTTPConnection(host, int(port), timeout=20 * PATIENCE)
    try:
        conn.request("GET", path)
        answer = conn.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return 0, ""
    finally:
        conn.close()


class Process:
    """A program that listens at `address`; use as a context manager."""

    def __init__(self, log: Path, address: str, ready: str) -> None:
        self.log, self.address, self.ready = log, address, ready
        self.process: Optional[subprocess.Popen[bytes]] = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def __enter__(self) -> Any:
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if not until(lambda: get(self.address, self.ready)[0] == 200, 30):
            raise AssertionError(f"{self.command()[0]} does not answer:\n{self.log.read_text(errors='replace')[-3000:]}")
        return self

    def __exit__(self, *unused: object) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()


class NodeExporter(Process):
    """Of the metrics below `root`, and of nothing else."""

    def __init__(self, root: Path, log: Path) -> None:
        super().__init__(log, own_address(9100), "/metrics")
        self.folder = root / "run/nodeclaimd"
        self.program = program("prometheus-node-exporter", "NODE_EXPORTER")

    def command(self) -> list[str]:
        return [self.program, "--collector.disable-defaults", "--collector.textfile", "--web.disable-exporter-metrics",
                f"--collector.textfile.directory={self.folder}", f"--web.listen-address={self.address}"]  # fmt: skip


class Prometheus(Process):
    """Scrapes `targets`, {job: addresses}, once a second."""

    def __init__(self, folder: Path, targets: dict[str, list[str]]) -> None:
        super().__init__(folder / "prometheus.log", own_address(9090), "/-/ready")
        self.folder = folder
        self.program = program("prometheus", "PROMETHEUS")
        jobs = [{"job_name": job, "static_configs": [{"targets": found}]} for job, found in targets.items()]
        config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": jobs}
        (folder / "prometheus.yaml").write_text(json.dumps(config))

    def command(self) -> list[str]:
        return [self.program, f"--config.file={self.folder}/prometheus.yaml", f"--storage.tsdb.path={self.folder}/series",
                f"--web.listen-address={self.address}"]  # fmt: skip

    def query_range(self, query: str, begin: float, end: float) -> list[dict[str, Any]]:
        """The series that it gives at any second between."""
        terms = urllib.parse.urlencode({"query": query, "start": begin, "end": end, "step": 1})
        status, text = get(self.address, f"/api/v1/query_range?{terms}")
        if status != 200:
            raise AssertionError(f"{query}: {status} {text}")
        return list(json.loads(text)["data"]["result"])


@dataclass
class Scrape:
    """What a target showed at a moment. `job`: as Prometheus would label it."""

    job: str
    at: float
    samples: dict[str, dict[str, float]]

    @staticmethod
    def of(job: str, address: str) -> "Scrape":
        status, text = get(address, "/metrics")
        if status != 200:
            raise AssertionError(f"{address}: {status}")
        return Scrape(job, time.time(), parse_metrics(text))

    def value(self, name: str, labels: str = "") -> Optional[float]:
        return self.samples.get(name, {}).get(labels)


@dataclass
class Scene:
    """Two scrapes, and what goes on after them: the times that advance. Everything else stays as it is."""

    first: Scrape
    second: Scrape
    goes_on: tuple[str, ...] = ()

    def values(self, name: str, labels: str) -> str:
        """In promtool's notation. Its clock begins at 0, which is the first scrape; the second one is the next."""
        one, two = self.first.value(name, labels), self.second.value(name, labels)
        if name.endswith(("_timestamp_seconds", "_mtime_seconds", "start_time_seconds")):
            one = None if one is None else one - self.first.at
            two = None if two is None else two - self.second.at + EVERY_SEC
        begin = NEVER if one is None else f"{one:.3f}"
        step = EVERY_SEC if name in self.goes_on else 0
        return f"{begin} stale" if two is None else f"{begin} {two:.3f}+{step}x{MINUTES * 60 // EVERY_SEC - 2}"


def series(scene: Scene) -> list[dict[str, str]]:
    out = []
    first, second = scene.first, scene.second
    for name in sorted(first.samples.keys() | second.samples.keys()):
        have = first.samples.get(name, {}).keys() | second.samples.get(name, {}).keys()
        for labels in sorted(have):
            rest = labels.strip("{}")
            text = f'{name}{{job="{first.job}",instance="target"{"," if rest else ""}{rest}}}'
            out.append({"series": text, "values": scene.values(name, labels)})
    return out


def firing(folder: Path, scene: Scene, group: str, wanted: set[str]) -> None:
    """promtool finds that of the alerts of this group exactly those fire at any time of the scene."""
    names = re.findall(r"alert: (\w+)", RULES.read_text().split(f"- name: {group}\n")[1].split("\n- name: ")[0])
    if not wanted <= set(names):
        raise AssertionError(f"{wanted - set(names)} are not in {group}")
    expression = f'max by (alertname) (max_over_time(ALERTS{{alertstate="firing",alertname=~"{"|".join(names)}"}}[{MINUTES}m]))'
    found = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(wanted)]
    check_rules(folder, series(scene), expression, MINUTES, found)


def check_rules(folder: Path, given: list[dict[str, str]], expression: str, minutes: int, found: list[dict[str, Any]]) -> None:
    """promtool: with these series the expression has these samples after so many minutes."""
    run_rules(folder, given, {"promql_expr_test": [{"expr": expression, "eval_time": f"{minutes}m", "exp_samples": found}]})


def check_alert(folder: Path, given: dict[str, str], name: str, minutes: int, found: list[dict[str, Any]]) -> None:
    """promtool: with these series the alert fires after so many minutes with these labels and annotations."""
    series_given = [{"series": labels, "values": values} for labels, values in given.items()]
    run_rules(folder, series_given, {"alert_rule_test": [{"alertname": name, "eval_time": f"{minutes}m", "exp_alerts": found}]})


def run_rules(folder: Path, given: list[dict[str, str]], wanted: dict[str, Any]) -> None:
    test = {"interval": f"{EVERY_SEC}s", "input_series": given, **wanted}
    path = folder / "rules-test.json"
    path.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": f"{EVERY_SEC}s", "tests": [test]}))
    done = subprocess.run([program("promtool", "PROMTOOL"), "test", "rules", str(path)], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise AssertionError(f"{done.stdout}{done.stderr}")
