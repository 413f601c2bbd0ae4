"""One record of a listing, and what makes them of octets. Part of the contract, apart from it for the same
reason as `location`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from protocols.brief import brief, quoted
from protocols.instant import instant
from protocols.location import JsonValue, Kind, Origin, Referrer
from protocols.values import dataclass

if TYPE_CHECKING:  # a plan has no dates
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Entry:
    """One record of a listing, whatever the scheme.

    `name` is what a listing line shows, `title` what describes it; `raw` are the octets it was read
    from; `extra` holds what only this scheme knows. A scheme fills in the first eight members; the
    retrieval adds where the entry was found, so that a later fetch of `url` is judged accordingly. Only
    where that is not the URL asked, at the address connected to, does a scheme say so in `referrer`.

    Examples:
        >>> async with resolver.entries("ftp://127.0.0.1:8900/pub/") as found:
        ...     print([entry.url async for entry in found if entry.name == "a.txt"])
        ['ftp://127.0.0.1:8900/pub/a.txt']
    """

    name: str
    url: str | None = None
    kind: Kind = Kind.UNKNOWN
    size: int | None = None
    modified: datetime | None = None
    title: str | None = None
    raw: bytes | None = None
    extra: Mapping[str, JsonValue] | None = None
    origin: Origin = "derived"
    referrer: Referrer | None = None

    def __repr__(self) -> str:
        return brief(self, self.kind.value, quoted(self.name), quoted(self.url))

    def as_json(self) -> dict[str, JsonValue]:
        """Every member under its name: `modified` as RFC 3339, `raw` one character an octet, `referrer` as
        `[url, address]`."""
        return {
            "name": self.name,
            "url": self.url,
            "kind": self.kind.value,
            "size": self.size,
            "modified": instant(self.modified),
            "title": self.title,
            "raw": None if self.raw is None else self.raw.decode("latin-1"),
            "extra": None if self.extra is None else dict(self.extra),
            "origin": self.origin,
            "referrer": None if self.referrer is None else list(self.referrer),
        }


class EntryReader(Protocol):
    """Turns the octets of a listing into entries as they come: a machine without I/O.

    Whoever reads a listing feeds it a few octets at a time and takes the entries one by one, and looks at
    clocks and cancels in between (S16): so each is made only when it is asked for, and what is done for a
    few octets, or for one entry, is little, however long the listing is. A URL that a builder of ours
    wrote is a `BuiltUrl`; any other text, which a server may have chosen, is parsed before it is shown.
    """

    def feed(self, octets: bytes) -> Iterable[Entry]: ...

    def finish(self) -> Iterable[Entry]:
        """The octets have ended: the entries that were still waiting for more."""
        ...
