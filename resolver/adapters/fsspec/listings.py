"""What there is: listings, kept as fsspec keeps them, and what is known of one name.

What a listing tells is believed as long as it is kept; what it leaves open of a name, and what no listing
tells, the server is asked for.
"""

from __future__ import annotations

import atexit
import os
from functools import partial
from typing import Any

import resolver
from resolver.adapters.fsspec.faults import translated
from resolver.adapters.fsspec.names import after_scheme
from resolver.adapters.fsspec.naming import NamedByUrls
from resolver.adapters.fsspec.record import FILE, OPEN, Record, UrlFacts, entries_of, facts_of, record_of


class FileSystemListings(NamedByUrls):
    """Directories and what is in them, by a session for each process."""

    _settings: resolver.Settings
    _opened: dict[int, resolver.blocking.Resolver]

    def _session(self) -> resolver.blocking.Resolver:
        """The one of this process, until it ends. What a fork inherits is its parent's, and left alone."""
        here = os.getpid()
        if here not in self._opened:
            session = resolver.blocking.Resolver(**self._settings)
            session.__enter__()  # starts what is ended behind this, at the end of the process
            atexit.register(session.close)
            self._opened[here] = session
        return self._opened[here]

    def close(self) -> None:
        """Close the connections that are kept. Another use opens new ones."""
        session = self._opened.pop(os.getpid(), None)
        if session is not None:
            atexit.unregister(session.close)
            session.close()

    def ls(self, path: str, detail: bool = True, refresh: bool = False, **kwargs: Any) -> list[Any]:
        name = self._at(path)
        records = None if refresh else self._kept(name)
        if records is None:
            with translated(name):
                records = self._listed(name)
        return [dict(each) if detail else each["name"] for each in records]

    def _kept(self, name: str) -> list[Record] | None:
        records: dict[str, Record] | None = self.dircache.get(name)
        if records is not None:
            return list(records.values())
        record = self._known(name)
        return None if record is None or record["type"] == "directory" else [record]

    def _known(self, name: str) -> Record | None:
        """What a listing that is kept tells of it."""
        beside: dict[str, Record] = self.dircache.get(self._parent(name), {})
        if name in beside:
            return beside[name]
        return record_of(name, resolver.Kind.DIRECTORY, 0, None) if name in self.dircache else None

    def _listed(self, name: str) -> list[Record]:
        """What is in a directory; of a file, itself."""
        try:
            return self._directory(name)
        except resolver.Declined:
            record = self._record(name, self._facts(name))
            if record["type"] == "directory":
                raise
            return [record]

    def _directory(self, name: str) -> list[Record]:
        """What is in it. Raises `Declined` where it is none."""
        told = [record for each in self._entries(name) if (record := self._told(each)) is not None]
        records = {record["name"]: record for record in told if record["name"] != name}
        self.dircache[name] = records
        return list(records.values())

    def _entries(self, name: str) -> list[resolver.Entry]:
        return self._session().run(partial(entries_of, self._url(name, listing=True)))

    def _told(self, entry: resolver.Entry) -> Record | None:
        """What a listing tells of a name, and the server where that leaves it open. None for what leads out
        of this scheme."""
        url = entry.url or ""
        if not url.startswith(f"{self.scheme}://"):
            return None
        name, title = after_scheme(url).rstrip("/"), {"title": entry.title}
        if entry.kind not in OPEN:
            return record_of(name, entry.kind, entry.size, entry.modified, title)
        try:
            facts = self._facts(name)
        except resolver.Declined:
            return record_of(name, resolver.Kind.LINK, None, entry.modified, title)
        more = {**title, "islink": entry.kind is resolver.Kind.LINK or None}
        return record_of(name, facts.kind, facts.size, facts.modified, more)

    def _facts(self, name: str) -> UrlFacts:
        return self._session().run(partial(facts_of, self._url(name)))

    def _record(self, name: str, facts: UrlFacts) -> Record:
        more = {"media_type": facts.media_type, "ETag": facts.validators.etag}
        return record_of(name, facts.kind, facts.size, facts.modified, more)

    def info(self, path: str, **kwargs: Any) -> Record:
        name = self._at(path)
        known = self._known(name)
        if known is not None:
            return dict(known)
        with translated(name):
            facts = self._facts(name)
            if self._is_index(name, facts):
                return record_of(name, resolver.Kind.DIRECTORY, 0, facts.modified)
            return self._record(name, facts)

    def _is_index(self, name: str, facts: UrlFacts) -> bool:
        """Is it a page that lists what is below it?"""
        if not self.pages or not facts.url.endswith("/"):
            return False
        try:
            self._directory(name)
        except resolver.Declined:
            return False
        return True

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Raises `OSError` where nobody can tell."""
        return self._type(path) is not None

    def isdir(self, path: str) -> bool:
        return self._type(path) == "directory"

    def isfile(self, path: str) -> bool:
        return self._type(path) == FILE

    def _type(self, path: str) -> object:
        try:
            return self.info(path)["type"]
        except FileNotFoundError:
            return None

    def invalidate_cache(self, path: str | None = None) -> None:
        super().invalidate_cache(path)
        if path is None:
            self.dircache.clear()
        else:
            for name in (self._at(path), self._parent(self._at(path))):
                self.dircache.pop(name, None)
