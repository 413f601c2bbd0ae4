"""`warc extract FILE`: what an archive holds, as files. With URLs it is `get` of these out of the archive;
here is what they are where none is said: all that would be a file, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from hashlib import blake2b

from protocols.errors import IntegrityError, InvalidUrl, LocalError, ResolveError
from resolver import registry
from resolver.cli import streams
from resolver.disk.archive_file import open_archive
from resolver.url import parse
from resolver.warc.listing import ListedRecord, list_records
from resolver.warc.moment import read_moment
from resolver.warc.records import DamagedSpan
from resolver.warc.target import sought_as

#: What an answer of http is whose body is the object, and what a record of another scheme is that is one; the
#: same of those that refer to another one.
_OBJECTS = {"response": ("200",), "resource": ("document",), "revisit": ("200", "-")}


def urls_in(
    path: str, at: str | None, report: Callable[[ResolveError], None], *, quiet: bool
) -> Iterator[str]:
    """The URLs of what was there by then, in the order in which they were kept first. What is damaged is
    told, and so is how many listings there are, which are no files. Raises `LocalError` for what is no
    archive."""
    then = None if at is None else read_moment(at)
    seen: set[bytes] = set()
    listings = 0
    try:
        with open_archive(path) as archive:
            for found in list_records(archive):
                if isinstance(found, DamagedSpan):
                    report(IntegrityError(f"{path}: octet {found.offset}: {found.message}"))
                    continue
                sought = None if then is not None and _is_later(found, then) else _sought(found)
                if sought is None or sought in seen:
                    continue
                seen.add(sought)
                if found.kind in _OBJECTS[found.head.type]:
                    yield found.head.target or ""
                else:
                    listings += 1
    except LocalError as error:
        raise LocalError(f"{path}: {error.message}") from error
    if listings and not quiet:
        kept = "1 listing is" if listings == 1 else f"{listings} listings are"
        streams.complain(f"{path}: {kept} no file: resolve ls --from-warc shows what is in it")


def _is_later(found: ListedRecord, at: datetime) -> bool:
    return found.head.date is not None and found.head.date > at


def _sought(found: ListedRecord) -> bytes | None:
    """What tells its URL from others, as a digest; None where there is nothing to be had of it."""
    head = found.head
    is_listing = head.type == "resource"
    if head.target is None or not (is_listing or found.kind in _OBJECTS.get(head.type, ())):
        return None
    try:
        url = parse(head.target)
        row = registry.find(url.scheme)
        if row is None or not registry.resolves(row):
            return None
        return blake2b(sought_as(url).encode("utf-8", "surrogateescape"), digest_size=16).digest()
    except (InvalidUrl, UnicodeError):
        return None
