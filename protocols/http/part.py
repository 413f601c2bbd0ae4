"""A part of an object, to go on behind octets held already (RFC 9110 14), and an object on the condition
that it is no longer the one that is held (13.1): how they are asked for, and read.

Asked for only as it is stored: octets of a content coding are no octets of the object.
"""

from __future__ import annotations

import re

from protocols.errors import ProtocolError
from protocols.http.head import BodyFraming, ResponseHead, content_length
from protocols.options import Validators

_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,19})-([0-9]{1,19})/([0-9]{1,19}|\*)", re.IGNORECASE | re.ASCII)
_STRONG = re.compile(r'"[\x21\x23-\x7e\x80-\xff]*"')


def range_headers(start: int, known: Validators, stop: int | None = None) -> dict[bytes, bytes]:
    """What asks for all from octet `start` on, or up to `stop`, if the object is still the one that is known
    (13.1.5)."""
    headers = {b"Range": b"bytes=%d-" % start if stop is None else b"bytes=%d-%d" % (start, stop - 1)}
    if known.etag is not None:
        headers[b"If-Range"] = known.etag.encode("latin-1")
    elif known.modified is not None:
        from protocols.http.dates import format_date  # a plan has no dates

        headers[b"If-Range"] = format_date(known.modified).encode("ascii")
    return headers


def conditions(held: Validators) -> dict[bytes, bytes]:
    """What asks for the object only if it is another one than is held (13.1.2, 13.1.3)."""
    headers: dict[bytes, bytes] = {}
    if held.etag is not None:
        headers[b"If-None-Match"] = held.etag.encode("latin-1")
    if held.modified is not None:
        from protocols.http.dates import format_date  # as above

        headers[b"If-Modified-Since"] = format_date(held.modified).encode("ascii")
    return headers


def strong_etag(head: ResponseHead) -> str | None:
    """The entity tag, if it tells one octet from another (8.8.1)."""
    tag = head.first("etag")
    return tag if _STRONG.fullmatch(tag) else None


def is_part(head: ResponseHead, start: int) -> bool:
    """Is this what `check_part` would take?"""
    try:
        check_part(head, start)
    except ProtocolError:
        return False
    return True


def check_part(head: ResponseHead, start: int, stop: int | None = None) -> int | None:
    """Is this the part that was asked for, from `start` to `stop` or the object's end? The size of the
    object, None where the server does not know it. Raises `ProtocolError`."""
    asked = f"the part from octet {start} on" if stop is None else f"the part of octets {start}-{stop - 1}"
    if head.codings:
        raise ProtocolError(f"a part was asked for and came coded as {head.codings[0]!r}")
    values = head.values("content-range")
    found = _CONTENT_RANGE.fullmatch(values[0]) if len(values) == 1 else None
    if found is None:
        raise ProtocolError(f"{asked} was asked for; which this is, is not said")
    first, last = int(found[1]), int(found[2])
    size = None if found[3] == "*" else content_length(found[3])
    beyond = size is not None and (last >= size if stop is not None else last != size - 1)
    if first != start or last < first or beyond or (stop is not None and last != stop - 1):
        raise ProtocolError(f"{asked} was asked for, and this is {values[0]!r}")
    if stop is not None and head.framing is BodyFraming.CLOSE:
        raise ProtocolError(f"{asked} was asked for, and where this ends is not said")
    if head.length is not None and head.length != last - first + 1:
        raise ProtocolError(f"a part of {last - first + 1} octets that is {head.length} octets long")
    return size
