"""URLs of schemes that have no module here (RFC 1738 4): known by name at most, and kept as written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from protocols.contract import Url, UrlText
from protocols.syntax import RESERVED, build_url, encode_written, find, note_characters


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OtherUrl(Url):
    """`schemepart` is everything behind the scheme's colon up to the fragment, still encoded."""

    status: Literal["experimental", "reserved", "unknown"] = "unknown"
    schemepart: str = ""


def parse(text: UrlText, status: Literal["experimental", "reserved", "unknown"]) -> OtherUrl:
    """Nothing is taken apart; only a password is looked for, so that it is never shown."""
    note_characters(text, text.start, text.end, RESERVED)
    if text.text.startswith("//", text.start, text.end):
        _place_password(text, text.start + 2)
    return OtherUrl(
        scheme=text.scheme, status=status, schemepart=text.cut("schemepart", text.start, text.end)
    )


def _place_password(text: UrlText, start: int) -> None:
    end = min(find(text, "/", start), find(text, "?", start))
    at = text.text.rfind("@", start, end)
    colon = find(text, ":", start, max(at, start))
    if colon < at:
        text.cut("password", colon + 1, at)


def build(url: OtherUrl) -> str:
    """The URL as text. Raises `InvalidUrl` where `schemepart` is not written as a URL's part."""
    return build_url(url, encode_written("schemepart", url.schemepart, RESERVED))
