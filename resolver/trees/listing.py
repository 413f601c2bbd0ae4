"""The listing of one directory of a tree, which is read with retries and stored in the spool.

After the listing is complete, its entries get local names.

Entries without a URL in the tree are skipped: info lines, searches and links to other servers. If
a listing is truncated, the received entries are used, and the directory is reported as failed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from protocols.contract import Entry, Finding, Kind, Origin, Referrer, Url, Validators
from protocols.errors import Declined, InvalidUrl, LimitExceeded, LocalError, Refused, ResolveError
from protocols.text import Masked
from resolver.files.directory import Proven, is_truncated
from resolver.files.local import is_directory_at
from resolver.files.names import make_directory
from resolver.loops import running
from resolver.policy.files import local_name
from resolver.policy.schemes import find_rules
from resolver.transfer.naming import index_suffix
from resolver.transfer.session import ConfinedSession
from resolver.transfer.streaming import StreamingResponse
from resolver.trees.scope import (
    MAX_DEPTH,
    MAX_EQUAL_LISTINGS,
    DirectoryDigest,
    Selection,
    TreeScope,
    find_tree,
    format_server,
    leads_up,
    list_names,
    make_identity,
    normalize_url,
)
from resolver.trees.spool import (
    DIRECTORY,
    FILE,
    LINKED,
    LISTED,
    MAX_IN_MEMORY,
    UNDECIDED,
    DirectoryNames,
    EntrySpool,
    SpooledEntry,
)
from resolver.url import registry
from resolver.url.parsing import build, parse

if TYPE_CHECKING:
    from resolver.trees.mirror import Inventory

#: The number of entries that are named before other tasks can run (checkpoint).
_AT_ONCE = 64

_DIRECTORIES = frozenset({Kind.DIRECTORY, Kind.GROUP})
_FILES = frozenset({Kind.DOCUMENT, Kind.ARTICLE})
#: The kinds of entries that may be a directory or a file. Only a request shows whether such an entry is a
#: directory.
_AMBIGUOUS = frozenset({Kind.LINK, Kind.UNKNOWN})
_WALKED = _DIRECTORIES | _FILES | _AMBIGUOUS


@dataclass(frozen=True, slots=True)
class ListedDirectory:
    """A listed directory: the number of its entries that are in the tree, and the findings."""

    url: Masked
    entries: int
    findings: tuple[Finding, ...] = ()


class ListingTarget(Protocol):
    """The interface of a directory that is to be listed, with the settings of its tree."""

    @property
    def url(self) -> Url: ...
    @property
    def row(self) -> SpooledEntry: ...
    @property
    def path(self) -> str: ...
    @property
    def below(self) -> str: ...
    @property
    def max_depth(self) -> int: ...
    @property
    def scope(self) -> TreeScope: ...
    @property
    def selection(self) -> Selection: ...
    @property
    def session(self) -> ConfinedSession: ...
    @property
    def origin(self) -> Origin: ...
    @property
    def referrer(self) -> Referrer | None: ...

    @property
    def inventory(self) -> Inventory | None: ...
    @property
    def is_dry(self) -> bool: ...

    def announce(self, count: int) -> None:
        """Report that `count` more entries are ready."""
        ...


class DirectoryListing:
    """The listing of a directory while the listing is read; implements `Store` for retries.

    Attributes:
        is_document: Whether the response is not a listing.
        media_type: The media type of a response that is not a listing.
    """

    final = False

    def __init__(self, target: ListingTarget, spool: EntrySpool) -> None:
        self._target = target
        self._spool = spool
        self._number = target.row.number
        self._rows: list[SpooledEntry] = []
        self._names = list_names(target.url)
        self._server = format_server(target.url)
        self._digest = DirectoryDigest()
        self._above = target.row.above
        self._findings: list[Finding] = []
        self._error: ResolveError | None = None
        # Identifiers, or the links of a Unix listing, show loops. PWD does not: in pyftpdlib 1.5.7, its path
        # contains the names of the links.
        self._shows_loops = target.row.mark is not None
        self._is_loop = False
        self._is_too_deep = False
        self._is_partial = False
        self._excluded: list[str] = []
        self.known = Validators()
        self.position = 0
        self.is_document = False
        self.media_type: str | None = None

    async def read(self) -> ListedDirectory:
        """Read the listing, and store its entries in the spool.

        Raises:
            Declined: The response is not a listing.
            ResolveError: The listing failed; the entries received before the failure are in the spool.
        """
        target = self._target
        self.restart()  # A task that was queued again may already have stored some entries.
        try:
            reply = await target.session.read_listing(
                self._request_url, self, self._fill, target.origin, target.referrer
            )
        except ResolveError as error:
            if not self.is_document and self.position:
                await self._assign_names()
            raise error from error.__cause__
        if self._is_repeated_directory():
            self._drop_rows()
            return self._list_directory(reply)
        await self._assign_names()
        if is_truncated(reply.findings):
            words = "the server truncated the listing: the missing entries are not fetched"
            raise LimitExceeded("entries", words, url=target.url.shown)
        if self._error is not None:
            raise self._error.at(target.url.shown)
        self._record_listing(reply)
        return self._list_directory(reply)

    def _record_listing(self, reply: StreamingResponse) -> None:
        """Record the listing in the inventory if it is proven to be complete.

        If the protocol cannot prove that a listing is complete, a finding is reported. After an http redirect
        to another directory, the listing proves nothing about the names in the requested directory.
        """
        target, inventory = self._target, self._target.inventory
        if inventory is None:
            return
        inventory.record([f"{target.path}/{name}" for name in self._excluded])
        url, is_web = self._request_url.shown.removesuffix("/"), registry.is_web(target.url.scheme)
        listing = Proven.of(
            f"{url}/",
            reply.verified,
            reply.findings,
            entries=self.position,
            skipped=self._is_partial or (is_web and reply.url.removesuffix("/") != url),
            certain=not is_web,
        )
        if listing is not None:
            inventory.record_listing(target.path, listing)
        elif self.position and not self._is_partial:
            words = "the listing is not proven complete: no file is removed from this directory"
            self._report("listing-unproven", words)

    @property
    def _request_url(self) -> Url:
        """Return the URL to request.

        If the parent listing describes the entry as a directory, the URL has the form of a directory URL.
        """
        url, tree = self._target.url, find_tree(self._target.url)
        if tree is None or self._target.row.parent is None or (directory := tree.directory(url)) is url:
            return url
        return parse(build(directory))

    def _list_directory(self, reply: StreamingResponse) -> ListedDirectory:
        findings = (*reply.findings, *self._findings)
        return ListedDirectory(self._target.url.shown, self.position, findings)

    # -- the store interface of retries

    def tail(self, count: int) -> bytes:
        return b""

    async def remember(self, known: Validators) -> None:
        """Ignore the validators, because each attempt reads the listing from the start."""

    def restart(self) -> None:
        self._drop_rows()
        self._digest = DirectoryDigest()
        self._is_partial = False
        self._excluded.clear()
        self.position = 0

    # -- reading

    async def _fill(self, reply: StreamingResponse) -> None:
        self._refuse_own_directory(reply)
        identity = make_identity(self._server, reply.extra)
        if identity is not None and not self._spool.visit(self._target.row.tree, self._number, identity):
            self._is_loop = True
            return
        try:
            await self._read(reply)
        except Declined:
            self.is_document, self.media_type = True, reply.media_type
            raise

    def _refuse_own_directory(self, reply: StreamingResponse) -> None:
        """Raise `LocalError` if a local directory would be saved into itself.

        Otherwise, the renamed copy of a file would be new, and `--delete` would remove the original file.
        """
        url, facts = self._target.url, reply.extra or {}
        if find_rules(url.scheme).local and is_directory_at(self._target.path, facts.get("unique")):
            words = "the directory cannot be saved into itself (choose another one with -d DIR)"
            raise LocalError(words, url=url.shown)

    async def _read(self, reply: StreamingResponse) -> None:
        async for entry in reply.entries():
            row = self._row(entry)
            if row is not None:
                self._digest.add(row.raw, entry)
                self._rows.append(row)
                self._shows_loops |= "mode" in (entry.extra or {})
                self.position += 1
            if len(self._rows) == MAX_IN_MEMORY:
                self._store_rows()

    def _store_rows(self) -> None:
        self._spool.add(self._rows, LISTED)
        self._rows.clear()

    def _drop_rows(self) -> None:
        self._rows.clear()
        self._spool.drop_listed(self._number)

    def _take_rows(self) -> Iterator[list[SpooledEntry]]:
        """Return all entries in the order in which names are assigned; a large listing is in the database."""
        if self.position > len(self._rows):
            self._store_rows()
            return self._spool.take_listed(self._number, _AT_ONCE)
        rows = sorted(self._rows, key=lambda row: (row.role, row.raw))
        return (rows[at : at + _AT_ONCE] for at in range(0, len(rows), _AT_ONCE))

    def _row(self, entry: Entry) -> SpooledEntry | None:
        """Return the spool row of an entry, or None if the entry is outside the tree or not selected."""
        if entry.url is None or entry.kind not in _WALKED:
            if entry.kind in _DIRECTORIES | _FILES | {Kind.UNKNOWN, Kind.ERROR}:  # perhaps part of the tree
                self._is_partial = True
                reason = (entry.extra or {}).get("unusable")
                if isinstance(reason, str) and not self._findings:  # one finding for each listing
                    self._report("no-url", f"skipped, without a usable URL: {entry.name!r}, {reason}")
            return None
        try:
            url = parse(entry.url)
        except InvalidUrl:  # The listing reader already reports this error.
            return None
        names = list_names(url)
        is_parent = names == self._names[: len(names)]
        if is_parent or not self._target.scope.covers(url, names):
            return None
        role = self._role(entry, names[-1])
        if role is None or leads_up(entry, self._names):
            return None
        row, found_in = self._target.row, entry.referrer
        return SpooledEntry(
            number=next(self._spool.numbers),
            tree=row.tree,
            parent=self._number,
            depth=row.depth + 1,
            role=role,
            raw=names[-1],
            kind=entry.kind,
            referrer=None if found_in is None else found_in.url,
            address=None if found_in is None else found_in.address,
            mark=make_identity(self._server, entry.extra),
            size=entry.size,
            modified=None if entry.modified is None else entry.modified.isoformat(),
            url=url,
        )

    def _role(self, entry: Entry, name: bytes) -> int | None:
        assert entry.url is not None
        if entry.kind not in _DIRECTORIES:
            if self._target.selection.takes(name, entry.url):
                return FILE
            self._exclude(name)
            if entry.kind in _FILES:
                return None
        if self._target.row.depth >= self._target.max_depth:
            self._is_partial = True
            self._is_too_deep |= self._target.max_depth == MAX_DEPTH
            return None
        if entry.kind not in _DIRECTORIES:
            return UNDECIDED
        return LINKED if (entry.extra or {}).get("link") else DIRECTORY

    def _exclude(self, name: bytes) -> None:
        """Record a file that the user's patterns exclude, so that its local copy is not removed."""
        if self._target.inventory is not None:
            with suppress(Refused):
                self._excluded.append(local_name(name))

    def _is_repeated_directory(self) -> bool:
        """Return whether the directory is the same as one of its parents (loop detection)."""
        if self._is_too_deep:
            self._report("index-loop", f"{MAX_DEPTH} nested directories: deeper ones are not entered")
        if self._shows_loops or not self.position:
            return self._is_loop
        self._above += self._digest.text
        if self._above.count(self._digest.text) <= MAX_EQUAL_LISTINGS:
            return False
        self._report("index-loop", "third directory with the same listing on this path: not entered")
        return True

    def _report(self, word: str, detail: str) -> None:
        self._findings.append(Finding(f"{self._target.url.scheme}:{word}", "warn", detail))

    # -- names

    async def _assign_names(self) -> None:
        """Assign local names to all entries of the listing, then mark the entries as ready.

        Raises:
            LocalError: The local directory cannot be created.
        """
        try:
            if not self._target.is_dry and self._target.path != os.curdir:
                make_directory(self._target.path, self._target.below)
        except ResolveError:
            self._drop_rows()
            raise
        loop, names = running(), DirectoryNames(self._spool, self._number)
        prefix = "" if self._target.path == os.curdir else os.path.join(self._target.path, "")
        urls: set[str] = set()
        raw: bytes | None = None
        for rows in self._take_rows():
            ready: list[SpooledEntry] = []
            for row in rows:
                assert row.url is not None
                if row.raw != raw:
                    raw, urls = row.raw, set()
                name = None if row.url.text in urls else self._name(row, names)
                urls.add(row.url.text)
                if name is not None:
                    ready.append(row._replace(path=prefix + name, above=self._above))
            self._spool.add_ready(ready)
            self._is_partial |= len(ready) < len(rows)
            if self._target.inventory is not None:
                self._target.inventory.record([row.path for row in ready])
            self._target.announce(len(ready))
            await loop.checkpoint()
        names.forget()

    def _name(self, row: SpooledEntry, names: DirectoryNames) -> str | None:
        """Return the local name of an entry, or None if the entry was already visited."""
        if row.role == FILE:
            if row.kind == Kind.LINK and row.mark and self._spool.is_visited(row.tree, row.mark):
                return None
        elif row.role == DIRECTORY and not self._spool.visit(row.tree, row.number, *list_marks(row)):
            return None
        try:
            return names.assign(row.raw)
        except Refused as error:
            self._error = self._error or error
            return None


def list_marks(row: SpooledEntry) -> list[str]:
    """Return the identifiers of a directory in its tree: normalized URL and server's identifier."""
    assert row.url is not None
    return [normalize_url(row.url), *([] if row.mark is None else [row.mark])]


def index_file(item: ListingTarget, media_type: str | None) -> SpooledEntry | None:
    """Return a file entry `index` for a document instead of a listing, or None if it is not selected."""
    name = f"index{index_suffix(media_type)}"
    if item.row.role not in (DIRECTORY, LINKED) or not item.selection.takes(name.encode(), item.url.text):
        return None
    path = f"{item.path}/{name}"
    return item.row._replace(role=FILE, kind=Kind.DOCUMENT.value, path=path)
