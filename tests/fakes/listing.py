"""Lists in pages: every page shows the moment of the first one.

Knows: limit and continue, the 410 of a page that came too late, and the way on that this 410 offers.
Gives: `Pages`.
Must not: check who asks, nor shape the objects.
"""

from __future__ import annotations

import base64
import json
from typing import NamedTuple, Optional

from store import Object, Problem, Resource, Store

KEPT = 16  # moments that are remembered at once
TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
NOW = -1  # the version in a token that asks for what is there now, from a name on


class Page(NamedTuple):
    items: list[Object]
    meta: Object


class Selection(NamedTuple):
    resource: Resource
    namespace: str
    fields: str
    labels: str


def place(obj: Object) -> str:
    return f'{obj["metadata"].get("namespace", "")}/{obj["metadata"]["name"]}'


def token(version: int, start: str) -> str:
    return base64.urlsafe_b64encode(json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": start}).encode()).decode()


class Pages:
    def __init__(self, store: Store) -> None:
        self.store = store
        self._moments: dict[tuple[Selection, int], list[Object]] = {}

    def page(self, what: Selection, limit: int, proceed: str) -> Page:
        version, start = self._read(proceed) if proceed else (self.store.version, "")
        items = self._items(what, version, start)
        if version == NOW:
            version = self.store.version
        first = next((i for i, obj in enumerate(items) if place(obj) >= start), len(items)) if start else 0
        end = first + limit if limit else len(items)
        meta: Object = {"resourceVersion": str(version)}
        if end < len(items):
            meta["continue"] = token(version, place(items[end]))
            if not (what.fields or what.labels):
                meta["remainingItemCount"] = len(items) - end
            self._moments[(what, version)] = items
            while len(self._moments) > KEPT:
                del self._moments[next(iter(self._moments))]
        return Page(items[first:end], meta)

    def _read(self, proceed: str) -> tuple[int, str]:
        try:
            given = json.loads(base64.urlsafe_b64decode(proceed))
            return int(given["rv"]), str(given["start"])
        except (ValueError, KeyError, TypeError) as exc:
            raise Problem(400, "BadRequest", f"invalid continue token: continue key is not valid: {exc}") from exc

    def _items(self, what: Selection, version: int, start: str) -> list[Object]:
        kept: Optional[list[Object]] = self._moments.get((what, version))
        if version in (NOW, self.store.version):
            return self.store.scan(*what)
        if kept is None or version < self.store.oldest:
            raise Problem(410, "Expired", TOO_OLD, meta={"continue": token(NOW, start)})
        return kept
