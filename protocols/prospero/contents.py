"""The object itself as the values of an attribute, CONTENTS (protocol page 8.4): any octets.

What kind of octets they are the protocol does not say, so the object's ways and its name are asked.
"""

from __future__ import annotations

from collections.abc import Iterable

from protocols.errors import Truncated
from protocols.prospero.access_method import AccessMethod
from protocols.prospero.attribute import Attribute

NAME = b"CONTENTS"


def join_contents(attributes: Iterable[Attribute]) -> bytes | None:
    """The values put together in their order; None where there is none.

    DATA is octets as they are. TAGGED octets are shown as `tag: octets`, each on a line of its own.
    """
    values = [each.values for each in attributes if each.name == NAME and len(each.values) > 1]
    pieces: list[bytes] = []
    was_tagged = False
    for kind, *words in values:
        is_tagged = kind == b"TAGGED" and len(words) > 1
        if kind != b"DATA" and not is_tagged:
            continue
        if (is_tagged or was_tagged) and pieces and not pieces[-1].endswith(b"\n"):
            pieces.append(b"\n")
        pieces.append(b": ".join(words[:2]) if is_tagged else words[0])
        was_tagged = is_tagged
    return b"".join(pieces) if pieces else None


def check_length(octets: bytes, size: int | None) -> None:
    """Raises `Truncated` for fewer octets than the object's own SIZE says."""
    if size is not None and len(octets) < size:
        raise Truncated(
            f"the contents are {len(octets)} of {size} octets", received=len(octets), expected=size
        )


def guess_media_type(methods: Iterable[AccessMethod], hsoname: bytes) -> str | None:
    """text/plain where an access method says text, else what the end of the name says; None where
    neither says anything."""
    if any(method.lead is not None and method.lead.is_text for method in methods):
        return "text/plain"
    name = hsoname.rpartition(b"/")[2]
    if b"." not in name:
        return None
    import mimetypes  # with its table 30 ms, and only a document needs it

    # Behind "./" nothing in a name can look like a URL, which the function would take apart.
    media_type, compression = mimetypes.guess_type("./" + name.decode("latin-1"))
    return media_type if compression is None else "application/octet-stream"
