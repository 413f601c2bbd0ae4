"""Listings that are looked at page by page. Of a long one only what pages show is
kept, which is a third."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from typing import TypeAlias

from protocols.contract import Entry
from protocols.location import JsonValue
from protocols.values import NamedTuple, replace
from resolver.retrieval.response import Response

_MOST = 3
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
        self._kept[key] = _slim(listing)
        while len(self._kept) > _MOST or sum(each.octets for each in self._kept.values()) > _MOST_OCTETS:
            self._kept.popitem(last=False)

    def find(self, key: Hashable) -> Response | None:
        found = self._kept.get(key)
        return None if found is None else found.listing


def _slim(listing: Response) -> _CachedListing:
    entries = listing.entries or ()
    if len(entries) <= _FEW:
        octets = len(listing.content) + len(entries) * (_OCTETS_OF_ENTRY + _OCTETS_OF_EXTRA)
        return _CachedListing(listing, octets)
    shared: _Shared = {}
    kept = tuple(_shown(entries, shared))
    texts = sum(len(each.name) + len(each.url or "") + len(each.title or "") for each in kept)
    own = 0 if len(shared) < _FEW else len(kept)
    octets = texts + len(kept) * _OCTETS_OF_ENTRY + own * _OCTETS_OF_EXTRA
    return _CachedListing(replace(listing, content=b"", raw=None, entries=kept), octets)


def _shown(entries: tuple[Entry, ...], shared: _Shared) -> Iterator[Entry]:
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
            extra=_once(extra, shared) if len(shared) < _FEW else extra,
            referrer=entry.referrer,
        )


def _once(extra: Mapping[str, JsonValue], shared: _Shared) -> Mapping[str, JsonValue]:
    try:
        return shared.setdefault(tuple(extra.items()), extra)
    except TypeError:  # a list is in it
        return extra
