"""What a server says of a name, and the record that fsspec has of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import resolver

#: `name`, `size` (None where nobody tells), `type` (file, directory or other), and what else is known.
Record: TypeAlias = dict[str, Any]

_NOTHING: Mapping[str, object] = MappingProxyType({})

#: What fsspec calls what can be opened.
FILE = "file"

DIRECTORIES = frozenset({resolver.Kind.DIRECTORY, resolver.Kind.GROUP})
#: What has no octets of its own, or none before something is asked of it.
_OTHERS = frozenset({resolver.Kind.SEARCH, resolver.Kind.SERVICE, resolver.Kind.ADDRESS, resolver.Kind.LINK})
#: What stands in a listing and is no name in it.
_WORDS = frozenset({resolver.Kind.INFO, resolver.Kind.ERROR})
#: What a listing leaves open.
OPEN = frozenset({resolver.Kind.UNKNOWN, resolver.Kind.LINK})


class UrlFacts(NamedTuple):
    """What the server says of one URL at this moment; `url` is where it was found."""

    url: str
    kind: resolver.Kind
    media_type: str | None
    validators: resolver.Validators
    size: int | None
    modified: datetime | None


async def facts_of(url: str, session: resolver.Resolver) -> UrlFacts:
    async with session.facts(url) as reply:
        return UrlFacts(reply.url, reply.kind, reply.media_type, reply.validators, reply.size, reply.modified)


async def entries_of(url: str, session: resolver.Resolver) -> list[resolver.Entry]:
    """The names in a listing, as many as the limits let into memory."""
    found: list[resolver.Entry] = []
    async with session.entries(url) as entries:
        async for entry in entries:
            if entry.kind in _WORDS or entry.url is None:
                continue
            if len(found) == session.limits.entries:
                raise resolver.LimitExceeded("entries", f"more than {len(found)} entries", url=url)
            found.append(entry)
    return found


def record_of(
    name: str,
    kind: resolver.Kind,
    size: int | None,
    modified: datetime | None,
    more: Mapping[str, object] = _NOTHING,
) -> Record:
    is_directory = kind in DIRECTORIES
    known = {fact: value for fact, value in more.items() if value is not None}
    return {
        "name": name,
        "size": 0 if is_directory else size,
        "type": "directory" if is_directory else "other" if kind in _OTHERS else FILE,
        "modified": modified,
        **known,
    }
