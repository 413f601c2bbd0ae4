"""URLs inside our URLs: whole, each octet but letters, digits and `-._~` percent-encoded, as one segment.

A browser removes dots, a `#` and what follows, and controls from what it takes for a path; of a segment
that is encoded whole it changes nothing. So it is read from the octets of the path as they came, and
decoded once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote_to_bytes

from resolver.url.registry import SCHEMES

PREFIX = b"/u/"
#: How browsers must call a scheme that is none of the web's to let a page handle it.
_WEB = "web+"
#: In place of a page's ID: no page of ours has it, and nobody typed it.
ASKED = "asked"
_MOST_FIELDS = 200
#: What is encoded of ASCII, the percent sign first.
_ENCODED = {mark: quote(mark, safe="") for mark in ["%", *map(chr, range(128))]}
_ENCODED = {mark: encoded for mark, encoded in _ENCODED.items() if mark != encoded}


class PageAddress(NamedTuple):
    """A URL that a path names. `raw`: it was typed there by hand, so a browser may have changed it before."""

    text: str
    raw: bool


def path(url: str) -> str:
    """Where the page of a URL is."""
    return f"/u/{quote_whole(url)}"


def make_link(url: str, from_id: str, relevant: Iterable[str] = ()) -> str:
    """The same, as a link on the page that is remembered as `from_id`; of a search that is for what is like
    some documents, too."""
    asked = [f"from={from_id}"] if from_id else []
    asked += (f"relevant={quote_whole(each)}" for each in relevant)
    return f"{path(url)}?{'&'.join(asked)}" if asked else path(url)


def look(url: str, from_id: str) -> str:
    """Where it is judged, and nothing sent: a URL that the page `from_id` has, or that somebody else asked to
    open (`ASKED`)."""
    return f"/look?url={quote_whole(url)}&from={from_id}"


def quote_whole(text: str) -> str:
    """As `quote` has it, in a third of the time where it is ASCII: a page may have 10,000."""
    if not text.isascii():
        return quote(text, safe="", errors="surrogateescape")
    for mark, encoded in _ENCODED.items():
        if mark in text:
            text = text.replace(mark, encoded)
    return text


def parse_path(raw_path: bytes) -> PageAddress:
    """What a path below `PREFIX` names, as it came: nothing is repaired."""
    octets = raw_path[len(PREFIX) :]
    raw = b":" in octets or b"/" in octets
    return PageAddress(strip_web_prefix(text_of(octets if raw else unquote_to_bytes(octets))), raw)


def strip_web_prefix(text: str) -> str:
    """`web+gopher:` is `gopher:` where we have that scheme, and nowhere else."""
    if text[: len(_WEB)].lower() == _WEB and text[len(_WEB) :].partition(":")[0].lower() in SCHEMES:
        return text[len(_WEB) :]
    return text


def text_of(octets: bytes) -> str:
    """As of a command line: what is no text is still what it is, and the parser objects to it."""
    return octets.decode("utf-8", "surrogateescape")


def form(octets: bytes) -> list[tuple[str, str]]:
    """The fields of a form, or of what follows a `?`. Raises `ValueError` for more than anybody fills in."""
    return parse_qsl(
        octets.decode("latin-1"),
        keep_blank_values=True,
        encoding="utf-8",
        errors="surrogateescape",
        max_num_fields=_MOST_FIELDS,
    )
