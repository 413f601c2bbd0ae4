"""URLs of schemes without a module in this package (RFC 1738 4): parsed as text and not resolved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from protocols.location import Url, UrlText
from protocols.syntax import RESERVED, build_url, encode_written, find, note_characters

Status: TypeAlias = Literal["experimental", "reserved", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OtherUrl(Url):
    """A URL of a scheme without a module.

    `schemepart` is the text between the colon of the scheme and the fragment, still percent-encoded.

    Examples:
        >>> url = resolver.parse("mid:1@h.example")
        >>> url.status, url.schemepart
        ('reserved', '1@h.example')
    """

    status: Status = "unknown"
    schemepart: str = ""


def parse(text: UrlText, status: Status) -> OtherUrl:
    """Return the URL with its scheme-specific part as one component.

    The position of a password is recorded, so that the password is never displayed.
    """
    note_characters(text, text.start, text.end, RESERVED)
    place_password(text)
    return OtherUrl(status=status, schemepart=text.cut("schemepart", text.start, text.end), **text.common())


def place_password(text: UrlText) -> None:
    """Record the position of a password by the generic syntax, unless the scheme's parser recorded it."""
    if any(place.name == "password" for place in text.places):
        return
    start, at = _find_userinfo(text)
    colon = find(text, ":", start, at)
    if colon < at:
        text.cut("password", colon + 1, at)


def _find_userinfo(text: UrlText) -> tuple[int, int]:
    """Return the start index of the user information, and the index of its `@` (RFC 3986 3.2).

    Without user information, both indexes are equal.
    """
    if not text.text.startswith("//", text.start, text.end):
        return text.start, text.start
    start = text.start + 2
    end = min(find(text, "/", start), find(text, "?", start))
    return start, max(text.text.rfind("@", start, end), start)


def has_user_information(url: Url) -> bool:
    """Return whether the URL has user information by the generic syntax alone (RFC 3986 3.2.1)."""
    return "@" in _authority(url)


def written_host(url: Url) -> str:
    """Return the host and port as written in the URL, by the generic syntax."""
    return _authority(url).rpartition("@")[2]


def _authority(url: Url) -> str:
    """Return the original text of the authority, or an empty text without authority or parsed text."""
    scheme, fragment = url.place("scheme"), url.place("fragment")
    if scheme is None or not url.text.startswith("//", scheme.end + 1):
        return ""
    text = UrlText(
        url.text, "", scheme.end + 3, len(url.text) if fragment is None else fragment.start - 1, None
    )
    return text.text[text.start : min(find(text, "/", text.start), find(text, "?", text.start))]


def strip_user(url: OtherUrl) -> OtherUrl:
    """Return the URL without the user name and password."""
    part = url.schemepart
    start, at = _find_userinfo(UrlText(part, "", 0, len(part), None))
    return url if at == start else replace(url, schemepart=part[:start] + part[at + 1 :])


def build(url: OtherUrl) -> str:
    """Return the URL as text.

    Raises:
        InvalidUrl: `schemepart` contains characters that are not allowed in a URL.
    """
    return build_url(url, encode_written("schemepart", url.schemepart, RESERVED))
