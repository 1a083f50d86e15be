"""What a world has come to: its files and its objects, without what two equal runs do not share.

Knows: which words of a file are times, numbers of processes, durations, or the world's own addresses.
Gives: `tree`, `objects`, `differences`.
Must not: forgive anything else; what is left out is left out here, and each with its reason.
"""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
PORT = re.compile(r"(127\.0\.0\.1|localhost):\d+")
SECONDS = re.compile(r"\b\d+(\.\d+)? ?(m?s|seconds?)\b")
# Durations and times as numbers; whose process it was; how often something was asked, heard, said or done by this process.
LOOSE_KEYS = re.compile(
    r".*(_u|U)sec|clock_offset|pid|attempts|resourceVersion|generation|updated|counters|history|podHistory|polls|window|total|evicted|deleted|sinceRestart|said|imds"
)
DONE = re.compile(r"\b(?:since the restart )?(evicted|force-deleted): \d+")
LATE = re.compile(r"; \d+ s late\b")  # so may be who was killed before the last pod had left
ID = re.compile(r"operator-TIME-[0-9a-f]{8}")
EPOCH = re.compile(r"\b1\d{15}\b")  # microseconds since 1970
KUBELETS = "var/log/nodeclaimd-kubelet.log"  # what the stand-in kubelet says
CONSOLE = "dev/console"  # a line of each run: the last one counts
METRICS = "run/nodeclaimd/metrics.prom"  # counters begin again with each process, so only what holds now is compared
HOLDS = re.compile(r"nodeclaimd_(bootstrap_outcome|phase|policy|cordon_owned|drain_pods_remaining)\b")
PID_FILE = "run/nodeclaimd/kubelet.pid"


def scrub_text(text: str) -> str:
    text = LATE.sub("", text)
    text = ID.sub("operator-TIME-N", TIME.sub("TIME", EPOCH.sub("TIME", text)))
    return SECONDS.sub("SECONDS", DONE.sub(r"\1: N", PORT.sub("HOST:PORT", UID.sub("UID", text))))


def scrub(value: Any) -> Any:
    if isinstance(value, dict):
        return {scrub_text(k): "*" if LOOSE_KEYS.fullmatch(k) else scrub(v) for k, v in value.items()}
    if isinstance(value, list):
        return [scrub(v) for v in value]
    if isinstance(value, str):
        if value[:1] in ("{", "["):
            try:
                return scrub(json.loads(value))
            except ValueError:
                pass
        return scrub_text(value)
    return value


def normal(path: str, data: bytes, places: dict[str, str]) -> Any:
    text = data.decode(errors="backslashreplace")
    for place, name in places.items():
        text = text.replace(place, name)
    if path == KUBELETS:
        return "*"
    if path == PID_FILE:
        return re.sub(r"\d+", "N", scrub_text(text))
    if path == CONSOLE:
        text = text.strip().rpartition("\n")[2].removeprefix("nodeclaimd: ")
        text = re.sub(r'"pods":\d+', '"pods":"N"', text)
    if path == METRICS:
        return sorted(line for line in text.splitlines() if HOLDS.match(line))
    try:
        return scrub(json.loads(text))
    except ValueError:
        return scrub_text(text)


def places_of(world: Any) -> dict[str, str]:
    return {str(world.root): "ROOT", str(world.folder): "FOLDER", world.api.url: "API", world.imds.url: "IMDS"}


def tree(world: Any, *tops: str) -> dict[str, Any]:
    """Everything below the root: path -> [type and mode, owner, content]. Contents are normal."""
    out: dict[str, Any] = {}
    places = places_of(world)
    for top in tops or (".",):
        for path in sorted((world.root / top).rglob("*")):
            name = str(path.relative_to(world.root))
            info = path.lstat()
            row: list[Any] = [stat.filemode(info.st_mode), f"{info.st_uid}:{info.st_gid}"]
            if path.is_symlink():
                row.append(str(path.readlink()))
            elif path.is_file():
                row.append(normal(name, path.read_bytes(), places))
            out[name] = row
    return out


def raw_tree(root: Path) -> dict[str, Any]:
    """path -> bytes and mode of a file, None of a folder."""
    return {
        str(p.relative_to(root)): None if p.is_dir() else (p.read_bytes(), p.stat().st_mode & 0o7777)
        for p in sorted(root.rglob("*"))
        if not p.is_symlink()
    }


def event_of(obj: dict[str, Any]) -> str:
    about = obj["involvedObject"]
    return f"{obj['type']} {obj['reason']} on {about['kind']} {about['name']}"


def objects(world: Any) -> dict[str, Any]:
    out: dict[str, Any] = {}
    places = places_of(world)
    for kind in ("nodes", "nodeclaims", "pods"):
        for obj in world.api.objects(kind):
            text = json.dumps(obj)
            for place, name in places.items():
                text = text.replace(place, name)
            kept = scrub(json.loads(text))
            conditions = kept.get("status", {}).get("conditions")
            if conditions:  # in the order of their first writes
                conditions.sort(key=lambda c: c["type"])
            out[f"{kind} {obj['metadata']['name']}"] = kept
    events = [event_of(e) for e in world.api.objects("events")]
    out["events"] = {event: events.count(event) for event in events}
    return out


def differences(want: Any, have: Any, at: str = "") -> list[str]:
    """One line each: where, and both."""
    if isinstance(want, dict) and isinstance(have, dict):
        out = []
        for key in sorted(set(want) | set(have), key=str):
            where = f"{at} / {key}" if at else str(key)
            if key not in have:
                out.append(f"{where}: missing, was {shown(want[key])}")
            elif key not in want:
                out.append(f"{where}: left over, {shown(have[key])}")
            else:
                out += differences(want[key], have[key], where)
        return out
    if isinstance(want, list) and isinstance(have, list) and len(want) == len(have):
        return [line for i, (w, h) in enumerate(zip(want, have)) for line in differences(w, h, f"{at}[{i}]")]
    return [] if want == have else [f"{at}: {shown(have)} instead of {shown(want)}"]


def shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) < 160 else text[:157] + "..."
