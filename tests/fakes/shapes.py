"""In which form an object is sent: whole, its metadata alone, or padded to what somebody may have put into it.

Knows: the media types that ask for PartialObjectMetadata, and how to make a megabyte without holding it twice.
Gives: `requested_form`, `not_acceptable`, `padded`, `dump`.
Must not: choose the objects.
"""

from __future__ import annotations

import copy
import functools
import json

from store import Object, Problem
from wire import Request


def requested_form(req: Request) -> str:
    """What the first media type that is understood asks the answer to be turned into; "" for the object itself."""
    first = req.headers.get("accept", "").split(",")[0]
    return next((p.partition("=")[2] for p in first.split(";") if p.strip().startswith("as=")), "")


def not_acceptable(form: str, what: str) -> Problem:
    return Problem(406, "NotAcceptable", f"you requested {form}, but the requested object is {what}")


MARK = "filler-goes-here"


def padded(pod: Object) -> Object:
    """The same pod as somebody has it who keeps half a file system in its manifest; the filler itself is put in as text."""
    out = copy.copy(pod)
    notes = {**(pod["metadata"].get("annotations") or {}), "blob": MARK + "-quoted"}
    out["metadata"] = {**pod["metadata"], "annotations": notes}
    env = [{"name": "FILLER", "value": MARK + "-plain"}]
    out["spec"] = {**pod.get("spec", {}), "containers": [{"name": "main", "image": "app", "env": env}]}
    return out


@functools.lru_cache(maxsize=4)
def fillers(n: int) -> list[tuple[bytes, bytes]]:
    quoted = json.dumps('{"quoted": "\\n", "more": [1, 2.5, true]} ' * (n // 100 + 1)).encode()[1:-1]
    return [(MARK.encode() + b"-quoted", quoted[: n // 2].rstrip(b"\\")), (MARK.encode() + b"-plain", b"x" * (n // 2))]


def dump(obj: Object, padding: int) -> bytes:
    text = json.dumps(obj, separators=(",", ":")).encode()
    if padding:
        for mark, filler in fillers(padding):
            text = text.replace(mark, filler)
    return text
