"""Names for files of ours that somebody else's words suggest (S14)."""

from __future__ import annotations

import re

from protocols.errors import Refused
from resolver.policy.verdict import Ruling

_LONGEST = 200  # octets: room for `.part` and a number under the 255 of common file systems
# Patterns are text, compiled when the first file is named: most judgements name none.
#: C0, DEL and C1 controls, bidi controls, octets that were no UTF-8, and what Windows reserves.
_DOUBTFUL = (
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\udc80-\udcff"
    + re.escape(':*?"<>|')
    + "]"
)
_DEVICE = r"(?i:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³]) *(?:\..*)?"


def local_name(component: bytes) -> str:
    """A safe file name out of the last component, decoded, of a URL or of a server's words.

    At most 200 octets of UTF-8, without separators, controls or characters that some system gives a
    meaning to. Raises `Refused` (S14) where nothing is left that could name a file.
    """
    last = re.split(rb"[/\\]", component)[-1]
    if last in (b"", b".", b".."):
        raise _nameless()
    name = re.sub(_DOUBTFUL, "_", last.decode("utf-8", "surrogateescape"))
    if name[0] in ".-":
        name = "_" + name[1:]
    name = _end_well(name)
    if re.fullmatch(_DEVICE, name):
        name = "_" + name
    return _end_well(_cut(name))


def listing_name_ok(name: bytes) -> bool:
    """May a name out of a listing become the name of a file below the directory listed?"""
    return name not in (b"", b".", b"..") and not re.search(rb"[/\\\0]", name)


def _nameless() -> Refused:
    return Ruling(
        rule="S14",
        action="refuse",
        detail="the last part of the URL gives no name for a file",
        flag="-O FILE",
    ).refusal()


def _end_well(name: str) -> str:
    """Windows drops a final period or space, and then it is another name."""
    return name[:-1] + "_" if name[-1] in ". " else name


def _cut(name: str) -> str:
    return name.encode("utf-8")[:_LONGEST].decode("utf-8", "ignore")
