"""The memory of one run of the web UI: listings, choices, documents of the content port, history, bookmarks.

All but the bookmarks is in memory and bounded. Every ID is 128 random bits, without meaning for another run.
"""

from __future__ import annotations

import json
import os.path
import secrets
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from protocols.contract import Entry
from protocols.errors import NotConfigured
from protocols.location import JsonValue, Origin, Referrer
from resolver.files.atomic import MISSING, open_own, update_own
from resolver.policy.environment import own_folder
from resolver.transfer.response import Response
from resolver.web.pages.own import OpenedUrl

# Listings that are viewed page by page. Of a long one only the fields that pages show are kept, a third of
# it.

_MAX_LISTINGS = 3
_MOST_OCTETS = 67_108_864
#: So many entries are kept as they are: they are on two pages, or on one.
_FEW = 1_000
#: What an entry takes besides its texts, about; and what only its scheme knows, where no other one says the
#: same.
_OCTETS_OF_ENTRY = 400
_OCTETS_OF_EXTRA = 600
#: What pages show of what only a scheme knows.
_SHOWN = frozenset(
    {
        "type",
        "unusable",
        "gopherplus",
        "views",
        "admin",
        "abstract",
        "attributes",
        "link",
        "size_text",
        "modified_local",
        "from",
        "message_id",
        "references",
        "score",
        "lines",
        "types",
        "other_types",
        "media_type",
    }
)


_Shared: TypeAlias = dict[tuple[tuple[str, JsonValue], ...], Mapping[str, JsonValue]]


class _CachedListing(NamedTuple):
    listing: Response
    octets: int


class ListingCache:
    """The newest ones of a run, as far as there is room."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, _CachedListing] = OrderedDict()

    def keep(self, key: Hashable, listing: Response) -> None:
        """For its other pages, sorted or filtered."""
        self._kept.pop(key, None)
        self._kept[key] = _slim_listing(listing)
        while (
            len(self._kept) > _MAX_LISTINGS or sum(each.octets for each in self._kept.values()) > _MOST_OCTETS
        ):
            self._kept.popitem(last=False)

    def find(self, key: Hashable) -> Response | None:
        found = self._kept.get(key)
        return None if found is None else found.listing


def _slim_listing(listing: Response) -> _CachedListing:
    entries = listing.entries or ()
    if len(entries) <= _FEW:
        octets = len(listing.content) + len(entries) * (_OCTETS_OF_ENTRY + _OCTETS_OF_EXTRA)
        return _CachedListing(listing, octets)
    shared: _Shared = {}
    kept = tuple(_reduce_entries(entries, shared))
    texts = sum(len(each.name) + len(each.url or "") + len(each.title or "") for each in kept)
    own = 0 if len(shared) < _FEW else len(kept)
    octets = texts + len(kept) * _OCTETS_OF_ENTRY + own * _OCTETS_OF_EXTRA
    return _CachedListing(replace(listing, content=b"", raw=None, entries=kept), octets)


def _reduce_entries(entries: tuple[Entry, ...], shared: _Shared) -> Iterator[Entry]:
    """Without what no page shows; of what is the same in many, one."""
    for entry in entries:
        extra = {name: value for name, value in (entry.extra or {}).items() if name in _SHOWN}
        yield Entry(
            name=entry.name,
            url=entry.url,
            kind=entry.kind,
            size=entry.size,
            modified=entry.modified,
            title=entry.title,
            extra=_share_extra(extra, shared) if len(shared) < _FEW else extra,
            referrer=entry.referrer,
        )


def _share_extra(extra: Mapping[str, JsonValue], shared: _Shared) -> Mapping[str, JsonValue]:
    try:
        return shared.setdefault(tuple(extra.items()), extra)
    except TypeError:  # a list is in it
        return extra


_MOST_MARKS = 4_096
_MOST_DOCUMENTS = 64
_MOST_HISTORY = 1_000
_ID_OCTETS = 16


class UrlOrigin(NamedTuple):
    """How a URL came here, as the policy wants to know it."""

    origin: Origin
    referrer: Referrer | None = None


class SessionLink(NamedTuple):
    """What an ID stands for. A page: its links are derived, and `found` is where they stand. Or a decision:
    the person may open `opens` that `way`, and nothing else."""

    found: Referrer | None
    opens: str | None = None
    way: UrlOrigin = UrlOrigin("chosen")


class ContentDocument(NamedTuple):
    """What came from elsewhere, as the content port sends it. `media_type` is one of ours."""

    content: bytes
    media_type: str
    name: str
    inline: bool


class WebSession:
    """Of one run."""

    def __init__(self) -> None:
        self._marks: OrderedDict[str, SessionLink] = OrderedDict()
        self._documents: OrderedDict[str, ContentDocument] = OrderedDict()
        self._octets = 0
        self.listings = ListingCache()
        self.history: list[OpenedUrl] = []

    def mark(self, mark: SessionLink) -> str:
        """Its ID."""
        while len(self._marks) >= _MOST_MARKS:
            self._marks.popitem(last=False)
        self._marks[found := new_id()] = mark
        return found

    def find_mark(self, mark_id: str) -> SessionLink | None:
        return self._marks.get(mark_id)

    def keep(self, document: ContentDocument) -> str:
        """Its ID; the oldest ones make room."""
        self._octets += len(document.content)
        self._documents[found := new_id()] = document
        while len(self._documents) > 1 and (
            self._octets > _MOST_OCTETS or len(self._documents) > _MOST_DOCUMENTS
        ):
            _, oldest = self._documents.popitem(last=False)
            self._octets -= len(oldest.content)
        return found

    def document(self, document_id: str) -> ContentDocument | None:
        return self._documents.get(document_id)

    def visit(self, opened: OpenedUrl) -> None:
        """The newest is last; the same one again is once there."""
        self.history = [*(each for each in self.history if each.url != opened.url), opened][-_MOST_HISTORY:]

    def way_to(self, url: str, from_id: str) -> UrlOrigin:
        """How a URL came here that an address of ours names. What says of no page was chosen by the person,
        elsewhere; a page that is forgotten may have been anybody's."""
        if not from_id:
            return UrlOrigin("chosen")
        mark = self._marks.get(from_id, SessionLink(None))
        return mark.way if mark.opens == url else UrlOrigin("derived", mark.found)


def new_id() -> str:
    return secrets.token_urlsafe(_ID_OCTETS)


# The user's bookmarks: a JSON object a line, in the configuration directory, readable by the user alone.

_WHAT = "file of bookmarks"
_MOST = 4_194_304


def bookmarks() -> list[OpenedUrl]:
    """In the order in which they were kept. Raises `NotConfigured` for a file that may not be trusted."""
    try:
        with open_own(_path(), _WHAT, _MOST, secret=True) as file:
            return _read(file.octets)
    except MISSING:
        return []


def keep(url: str, title: str) -> None:
    """One more, or the same by another name. Raises `LocalError`."""
    update_own(
        _path(),
        _WHAT,
        _MOST,
        lambda octets: _encode_bookmarks([*_remove_url(octets, url), OpenedUrl(url, title)]),
        make_folder=True,
    )


def forget(url: str) -> None:
    update_own(
        _path(), _WHAT, _MOST, lambda octets: _encode_bookmarks(_remove_url(octets, url)), make_folder=True
    )


def _path() -> str:
    folder = own_folder()
    if folder is None:
        raise NotConfigured("bookmarks have no place: neither XDG_CONFIG_HOME nor a home directory is known")
    return os.path.join(folder, "bookmarks.jsonl")


def _remove_url(octets: bytes, url: str) -> list[OpenedUrl]:
    return [each for each in _read(octets) if each.url != url]


def _read(octets: bytes) -> list[OpenedUrl]:
    """What somebody wrote by hand and is none of ours is passed over."""
    found = []
    for line in octets.splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if isinstance(said, dict) and isinstance(said.get("url"), str):
            title = said.get("title")
            found.append(OpenedUrl(said["url"], title if isinstance(title, str) else ""))
    return found


def _encode_bookmarks(kept: list[OpenedUrl]) -> bytes:
    return b"".join(json.dumps({"url": each.url, "title": each.title}).encode() + b"\n" for each in kept)
