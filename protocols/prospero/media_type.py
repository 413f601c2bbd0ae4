"""What kind of octets an object is: the protocol does not say, so its ways and its name are asked."""

from __future__ import annotations

from collections.abc import Iterable

from protocols.prospero.access_method import Way


def guess_media_type(ways: Iterable[Way], hsoname: bytes) -> str | None:
    """text/plain where an access method says text, else what the end of the name says; None where
    neither says anything."""
    if any(way.lead is not None and way.lead.is_text for way in ways):
        return "text/plain"
    import mimetypes  # with its table 30 ms, and only a document needs it

    # Behind "./" nothing in a name can look like a URL, which the function would take apart.
    media_type, compression = mimetypes.guess_type("./" + hsoname.rpartition(b"/")[2].decode("latin-1"))
    return media_type if compression is None else "application/octet-stream"
