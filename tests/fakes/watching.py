"""One watch: what changed since a version, then what changes, until its time is over.

Knows: which changes a selector lets through, and as what; bookmarks.
Gives: `Watch`, whose `run` is the stream of an answer.
Must not: check who asks.
"""

from __future__ import annotations

import asyncio
import json
from typing import Callable, Optional

from store import Change, Object, Problem, Resource, Store, matches

BOOKMARK_SEC = 5.0
Chunk = Callable[[Optional[bytes]], None]


class Watch:
    def __init__(
        self,
        store: Store,
        loop: asyncio.AbstractEventLoop,
        resource: Resource,
        namespace: str,
        fields: str,
        labels: str,
    ) -> None:
        self.store, self.loop, self.resource = store, loop, resource
        self.namespace, self.fields, self.labels = namespace, fields, labels
        self.shape: Callable[[Object], Object] = lambda obj: obj
        self.dump: Callable[[Object], bytes] = lambda obj: json.dumps(obj, separators=(",", ":")).encode()
        self.bookmarks = False
        self.limit_sec = 300.0
        self.bookmark_sec = BOOKMARK_SEC
        self.open_ones: list[Watch] = []  # this one is in it while it runs
        self._backlog: list[Change] = []
        self._version = 0  # what comes after it is told, also where the answer was held back
        self._timers: list[asyncio.TimerHandle] = []
        self._chunk: Chunk = lambda data: None

    def resume(self, version: str) -> None:
        """From this version on; without one, what is there now comes first. Raises the 410 of a version long gone."""
        if version in ("", "0"):
            have = self.store.list(self.resource, self.namespace, self.fields, self.labels)
            self._version = self.store.version
            self._backlog = [Change(self._version, "ADDED", self.resource, obj) for obj in have]
        elif not version.isdigit():
            raise Problem(400, "BadRequest", f"invalid resource version {version!r}")
        else:
            self.store.since(int(version))
            self._version = int(version)

    def run(self, chunk: Chunk) -> Callable[[], None]:
        """Begins; gives what to call when the connection is gone."""
        self._chunk = chunk
        self._timers = [self.loop.call_later(self.limit_sec, self._end)]
        if self.bookmarks:
            self._timers.append(self.loop.call_later(self.bookmark_sec, self._bookmark))
        self.open_ones.append(self)
        for change in [*self._backlog, *self.store.since(self._version)]:
            self._deliver(change)
        self.store.watchers.append(self._deliver)
        return self.stop

    def _send(self, kind: str, obj: Object) -> None:
        self._chunk(self.dump({"type": kind, "object": obj}) + b"\n")

    def _deliver(self, change: Change) -> None:
        meta = change.object["metadata"]
        if change.resource != self.resource or (self.namespace and meta.get("namespace") != self.namespace):
            return
        fits = change.kind != "DELETED" and matches(self.resource, change.object, self.fields, self.labels)
        before = change.before and matches(self.resource, change.before, self.fields, self.labels)
        if fits:
            self._send("MODIFIED" if before else "ADDED", self.shape(change.object))
        elif before:  # as it was when it was last selected, with the version of what ended that
            version = {"resourceVersion": meta["resourceVersion"]}
            gone = {**change.before, "metadata": {**change.before["metadata"], **version}}
            self._send("DELETED", self.shape(gone))

    def _bookmark(self) -> None:
        meta = {"resourceVersion": str(self.store.version), "creationTimestamp": None}
        said = {"kind": self.resource.kind, "apiVersion": self.resource.api_version, "metadata": meta}
        self._send("BOOKMARK", self.shape(said))
        self._timers[-1] = self.loop.call_later(self.bookmark_sec, self._bookmark)

    def fail(self, code: int, reason: str, message: str) -> None:
        """An ERROR event, then the end: what a server says that cannot go on."""
        status = {"status": "Failure", "reason": reason, "message": message, "code": code}
        self._send("ERROR", {"kind": "Status", "apiVersion": "v1", "metadata": {}, **status})
        self._end()

    def _end(self) -> None:
        self.stop()
        self._chunk(None)

    def stop(self) -> None:
        for timer in self._timers:
            timer.cancel()
        if self in self.open_ones:
            self.open_ones.remove(self)
        if self._deliver in self.store.watchers:
            self.store.watchers.remove(self._deliver)
