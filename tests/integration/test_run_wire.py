"""What a drain requests where nothing new is switched on: the list that was made before there was anything to switch on.

NC_UPDATE=1 writes the list anew; do that only with a build of before a change that is switched off here.
"""

from __future__ import annotations

import json
import os
import re
import unittest
from pathlib import Path
from typing import Any

from running import CORDON_KEY, STATUS_KEY, DaemonTest, DaemonWorld

GOLDEN = Path(__file__).parent / "wire.golden"
VOLATILE = {
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z": "<time>",
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}": "<uid>",
    r"\.[0-9a-f]{16}\b": ".<hash>",
    r"\b\d+ s\b|\b\d+m?\d*(\.\d+)?s\b": "<duration>",
    r'("(?:gracePeriodSeconds|count)":) ?\d+': r"\1 <n>",
}


def steady(world: DaemonWorld, entry: dict[str, Any]) -> str:
    """A request without what differs from run to run."""
    body = json.loads(entry.get("body") or "null")
    notes = ((body or {}).get("metadata") or {}).get("annotations") or {}
    for key in (STATUS_KEY, CORDON_KEY):
        if notes.get(key):
            notes[key] = "<json>"
    path = re.sub(r"resourceVersion=\d+", "resourceVersion=<n>", entry["path"])
    path = re.sub(r"timeoutSeconds=\d+", "timeoutSeconds=<n>", path)
    text = f"{entry['method']} {path} {json.dumps(body, sort_keys=True)}".replace(world.node_name, "<node>")
    for pattern, instead in VOLATILE.items():
        text = re.sub(pattern, instead, text)
    return text


class Wire(DaemonTest):
    def test_a_drain_with_nothing_new(self) -> None:
        more = os.environ.get("NC_UPDATE") != "1"  # the build of before knows no such setting
        world = self.node_world(drain="    podEvents: false\n" if more else "")
        world.pod("web", grace=2)
        world.pod("critical", grace=2, spec={"priorityClassName": "system-node-critical"})
        world.pod("blocked", grace=2)
        world.pod("agent", owner="DaemonSet")
        world.pod("tolerant", owner="DaemonSet", spec={"tolerations": [{"operator": "Exists"}]})
        world.budget("never", "blocked")
        world.start()
        world.imds.spot(8)
        world.drained()
        world.must(lambda: world.condition("Drained")[0] == "True" and "NodeDrained" in world.events(), "the last write")
        log = [e for e in world.api.server.log.snapshot() if e.get("agent", "").endswith("(run)")]
        found = sorted({steady(world, e) for e in log})
        if not more:
            GOLDEN.write_text("\n".join(found) + "\n")
        self.assertEqual(found, GOLDEN.read_text().splitlines())


if __name__ == "__main__":
    unittest.main()
