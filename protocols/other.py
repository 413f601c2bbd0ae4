"""URLs of schemes that have no module here (RFC 1738 4): known by name at most, and kept as written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from protocols.location import Url, UrlText
from protocols.syntax import RESERVED, build_url, encode_written, find, note_characters

Status: TypeAlias = Literal["experimental", "reserved", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OtherUrl(Url):
    """`schemepart` is everything behind the scheme's colon up to the fragment, still encoded.

    Examples:
        >>> url = resolver.parse("mid:1@h.example")
        >>> url.status, url.schemepart
        ('reserved', '1@h.example')
    """

    status: Status = "unknown"
    schemepart: str = ""


def parse(text: UrlText, status: Status) -> OtherUrl:
    """Nothing is taken apart; only a password is looked for, so that it is never shown."""
    note_characters(text, text.start, text.end, RESERVED)
    place_password(text)
    return OtherUrl(
        scheme=text.scheme, status=status, schemepart=text.cut("schemepart", text.start, text.end)
    )


def place_password(text: UrlText) -> None:
    """Note where a password stands by the generic syntax, unless somebody who knows it better has."""
    if any(place.name == "password" for place in text.places):
        return
    start, at = _find_userinfo(text)
    colon = find(text, ":", start, at)
    if colon < at:
        text.cut("password", colon + 1, at)


def _find_userinfo(text: UrlText) -> tuple[int, int]:
    """Where user information stands by the generic syntax (RFC 3986 3.2): its start, and the `@` behind
    it or the start again if there is none."""
    if not text.text.startswith("//", text.start, text.end):
        return text.start, text.start
    start = text.start + 2
    end = min(find(text, "/", start), find(text, "?", start))
    return start, max(text.text.rfind("@", start, end), start)


def has_user_information(url: Url) -> bool:
    """By the generic syntax (RFC 3986 3.2.1), whatever the URL's own scheme made of its text."""
    return "@" in _authority(url)


def written_host(url: Url) -> str:
    """The host, and the port if there is one, as they are written, by the generic syntax."""
    return _authority(url).rpartition("@")[2]


def _authority(url: Url) -> str:
    """As written; empty where there is none, and for a URL that was not parsed."""
    scheme, fragment = url.place("scheme"), url.place("fragment")
    if scheme is None or not url.text.startswith("//", scheme.end + 1):
        return ""
    text = UrlText(
        url.text, "", scheme.end + 3, len(url.text) if fragment is None else fragment.start - 1, None
    )
    return text.text[text.start : min(find(text, "/", text.start), find(text, "?", text.start))]


def strip_user(url: OtherUrl) -> OtherUrl:
    """The URL less its user information, password and all."""
    part = url.schemepart
    start, at = _find_userinfo(UrlText(part, "", 0, len(part), None))
    return url if at == start else replace(url, schemepart=part[:start] + part[at + 1 :])


def build(url: OtherUrl) -> str:
    """The URL as text. Raises `InvalidUrl` where `schemepart` is not written as a URL's part."""
    return build_url(url, encode_written("schemepart", url.schemepart, RESERVED))
