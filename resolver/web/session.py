"""The state of one run of the web UI (listings, documents, page IDs, history), and the bookmarks.

The state is stored in memory, with limits, and is lost when the run ends. The bookmarks are stored in a file.
Each page ID has 128 random bits and is valid only in one run.
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
from resolver.policy.environment import config_folder
from resolver.transfer.response import Response
from resolver.web.pages.own import OpenedUrl

# A cache of listings, for pagination. For a long listing, only the fields that pages show are stored. They
# take a third of the memory of the complete listing.

_MAX_LISTINGS = 3
_MAX_OCTETS = 67_108_864
#: Maximum number of entries of a listing that is stored unchanged. A listing of this length has one or two
#: pages.
_MAX_UNCHANGED = 1_000
#: Two approximate sizes in bytes for the memory limit. The first is the size of an entry without its texts.
#: The second is the size of scheme-specific fields that no other entry has.
_ENTRY_SIZE = 400
_EXTRA_SIZE = 600
#: The scheme-specific fields that pages show.
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
    """A cache of the newest listings of a run, with a maximum number and a maximum total size."""

    def __init__(self) -> None:
        self._listings: OrderedDict[Hashable, _CachedListing] = OrderedDict()

    def store(self, key: Hashable, listing: Response) -> None:
        """Store a listing, so that other pages, sort orders and filters do not need another fetch."""
        self._listings.pop(key, None)
        self._listings[key] = _slim_listing(listing)
        while (
            len(self._listings) > _MAX_LISTINGS
            or sum(cached.octets for cached in self._listings.values()) > _MAX_OCTETS
        ):
            self._listings.popitem(last=False)

    def find(self, key: Hashable) -> Response | None:
        cached = self._listings.get(key)
        return None if cached is None else cached.listing


def _slim_listing(listing: Response) -> _CachedListing:
    entries = listing.entries or ()
    if len(entries) <= _MAX_UNCHANGED:
        octets = len(listing.content) + len(entries) * (_ENTRY_SIZE + _EXTRA_SIZE)
        return _CachedListing(listing, octets)
    shared: _Shared = {}
    reduced = tuple(_reduce_entries(entries, shared))
    texts = sum(len(entry.name) + len(entry.url or "") + len(entry.title or "") for entry in reduced)
    unshared = 0 if len(shared) < _MAX_UNCHANGED else len(reduced)
    octets = texts + len(reduced) * _ENTRY_SIZE + unshared * _EXTRA_SIZE
    return _CachedListing(replace(listing, content=b"", raw=None, entries=reduced), octets)


def _reduce_entries(entries: tuple[Entry, ...], shared: _Shared) -> Iterator[Entry]:
    """Yield the entries with only the fields that pages show; equal fields share one mapping."""
    for entry in entries:
        extra = {name: value for name, value in (entry.extra or {}).items() if name in _SHOWN}
        yield Entry(
            name=entry.name,
            url=entry.url,
            kind=entry.kind,
            size=entry.size,
            modified=entry.modified,
            title=entry.title,
            extra=_share_extra(extra, shared) if len(shared) < _MAX_UNCHANGED else extra,
            referrer=entry.referrer,
        )


def _share_extra(extra: Mapping[str, JsonValue], shared: _Shared) -> Mapping[str, JsonValue]:
    try:
        return shared.setdefault(tuple(extra.items()), extra)
    except TypeError:  # a value is a list, which is not hashable
        return extra


_MAX_LINKS = 4_096
_MAX_DOCUMENTS = 64
_MAX_HISTORY = 1_000
_ID_SIZE = 16


class UrlOrigin(NamedTuple):
    """The origin and referrer of a URL, for the policy."""

    origin: Origin
    referrer: Referrer | None = None


class SessionLink(NamedTuple):
    """The meaning of an ID in a link: a page, or a confirmation by the user.

    - For a page, `referrer` is the referrer of its links. The links have the origin `derived`.
    - For a confirmation, `opens` is the only URL that the user may open. `source` is its origin.
    """

    referrer: Referrer | None
    opens: str | None = None
    source: UrlOrigin = UrlOrigin("chosen")


class ContentDocument(NamedTuple):
    """An untrusted document for the content port; `media_type` is from the web UI's table."""

    content: bytes
    media_type: str
    name: str
    inline: bool


class WebSession:
    """The state of one run: page IDs, documents, cached listings and history."""

    def __init__(self) -> None:
        self._links: OrderedDict[str, SessionLink] = OrderedDict()
        self._documents: OrderedDict[str, ContentDocument] = OrderedDict()
        self._octets = 0
        self.listings = ListingCache()
        self.history: list[OpenedUrl] = []

    def add_link(self, link: SessionLink) -> str:
        """Store a page or a confirmation, and return its ID."""
        while len(self._links) >= _MAX_LINKS:
            self._links.popitem(last=False)
        self._links[link_id := new_id()] = link
        return link_id

    def find_link(self, link_id: str) -> SessionLink | None:
        return self._links.get(link_id)

    def store_document(self, document: ContentDocument) -> str:
        """Store a document and return its ID; discard the oldest documents above the limits."""
        self._octets += len(document.content)
        self._documents[document_id := new_id()] = document
        while len(self._documents) > 1 and (
            self._octets > _MAX_OCTETS or len(self._documents) > _MAX_DOCUMENTS
        ):
            _, oldest = self._documents.popitem(last=False)
            self._octets -= len(oldest.content)
        return document_id

    def find_document(self, document_id: str) -> ContentDocument | None:
        return self._documents.get(document_id)

    def visit(self, opened: OpenedUrl) -> None:
        """Add a page to the history, and remove an earlier entry for the same URL."""
        self.history = [*(page for page in self.history if page.url != opened.url), opened][-_MAX_HISTORY:]

    def find_source(self, url: str, from_id: str) -> UrlOrigin:
        """Return the origin and the referrer of a URL that was requested from the page with an ID.

        If the request has no ID, the origin is `chosen`, because the user opened the URL in another program.
        If the page with this ID was discarded, the origin is `derived`, and the URL has no referrer.
        """
        if not from_id:
            return UrlOrigin("chosen")
        add_link = self._links.get(from_id, SessionLink(None))
        return add_link.source if add_link.opens == url else UrlOrigin("derived", add_link.referrer)


def new_id() -> str:
    return secrets.token_urlsafe(_ID_SIZE)


# The bookmarks file, in the configuration directory: one JSON object per line. Only the user can read the
# file.

_LABEL = "bookmarks file"
_LIMIT = 4_194_304


def read_bookmarks() -> list[OpenedUrl]:
    """Return the bookmarks in the order in which they were added.

    Raises:
        NotConfigured: The file cannot be trusted.
    """
    try:
        with open_own(_path(), _LABEL, _LIMIT, secret=True) as file:
            return _read(file.octets)
    except MISSING:
        return []


def add_bookmark(url: str, title: str) -> None:
    """Add a bookmark, or rename the bookmark of the same URL.

    Raises:
        LocalError: The file cannot be written.
    """
    _replace_bookmark(url, [OpenedUrl(url, title)])


def remove_bookmark(url: str) -> None:
    _replace_bookmark(url, [])


def _replace_bookmark(url: str, added: list[OpenedUrl]) -> None:
    def encode_changed(octets: bytes) -> bytes:
        bookmarks = [*(bookmark for bookmark in _read(octets) if bookmark.url != url), *added]
        return b"".join(json.dumps(bookmark._asdict()).encode() + b"\n" for bookmark in bookmarks)

    update_own(_path(), _LABEL, _LIMIT, encode_changed, make_folder=True)


def _path() -> str:
    folder = config_folder()
    if folder is None:
        raise NotConfigured("cannot store bookmarks: neither XDG_CONFIG_HOME nor a home directory is known")
    return os.path.join(folder, "bookmarks.jsonl")


def _read(octets: bytes) -> list[OpenedUrl]:
    """Parse the bookmarks file, and skip invalid lines, because users may edit the file."""
    bookmarks = []
    for line in octets.splitlines():
        try:
            members = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(members, dict) and isinstance(members.get("url"), str):
            title = members.get("title")
            bookmarks.append(OpenedUrl(members["url"], title if isinstance(title, str) else ""))
    return bookmarks
