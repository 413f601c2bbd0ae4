"""`//user:password@host:port` (RFC 1738 3.1), read in one way only.

Where RFC 1738, RFC 3986 and common software would find different hosts, the URL is refused; so are
hosts and ports that nothing could look up or connect to. What it means that a URL has user
information or ends its authority with `?`, the scheme tells by the function and the `enders` it picks.
"""

from __future__ import annotations

import re
from typing import NamedTuple, TypedDict

from protocols.errors import InvalidUrl
from protocols.host import build_host as build_host
from protocols.host import parse_host
from protocols.location import HostUrl, Url, UrlText
from protocols.syntax import build_url, encode, find, invalid, note_characters, take

_NOT_DIGIT = re.compile(r"[^0-9]")
_BRACKET = re.compile(r"[\[\]]")
_USERINFO_DATA = ";&="


class Login(TypedDict):
    """The components of a `HostUrl`, to be handed on to one of its subclasses."""

    user: bytes | None
    password: bytes | None
    host: str
    port: int | None
    default_port: int


class Authority(NamedTuple):
    """Where an authority stands: from `start` to `end`, its host from `host` on. Without user
    information `host` is `start`; with it, an `@` is before `host`."""

    start: int
    host: int
    end: int


def parse_login(text: UrlText, enders: str = "/") -> tuple[Login, int]:
    """The authority of a scheme whose URLs may carry user information, and the index after it.

    `enders` are the characters that may end it, `/` or `/?`.
    """
    authority = find_authority(text)
    user, password = parse_userinfo(text, authority)
    colon = find_port(text, authority)
    if colon == authority.host:
        raise invalid(text.text, "no-host", "host", colon)
    check_ender(text, authority, enders)
    port = _parse_port(text, colon, authority.end)
    login = Login(
        user=user,
        password=password,
        host=parse_host(text, authority.host, colon),
        port=port,
        default_port=text.default_port or 0,
    )
    return login, authority.end


def parse_hostport(text: UrlText, enders: str = "/") -> tuple[Login, int]:
    """As `parse_login`, for a scheme whose URLs have no user information: it is read, and noted."""
    authority = find_authority(text)
    note_userinfo(text, authority)
    return parse_login(text, enders)


def note_userinfo(text: UrlText, authority: Authority) -> None:
    if authority.host > authority.start:
        text.note("userinfo-not-allowed", authority.start)


def find_authority(text: UrlText) -> Authority:
    """Raises `no-authority` and `ambiguous-authority`."""
    if not text.text.startswith("//", text.start, text.end):
        raise invalid(text.text, "no-authority", "scheme without // behind it", text.start)
    start = text.start + 2
    end = min(find(text, "/", start), find(text, "?", start))
    if (doubt := _find_doubt(text, start, end)) is not None:
        raise invalid(text.text, "ambiguous-authority", "host that parsers disagree about", doubt)
    at = find(text, "@", start, end)
    return Authority(start, start if at == end else at + 1, end)


def _find_doubt(text: UrlText, start: int, end: int) -> int | None:
    """Index of what makes one parser see another host than the next, or None."""
    backslash = find(text, "\\", start, end)
    if backslash < end:
        return backslash
    second = find(text, "@", min(find(text, "@", start, end) + 1, end), end)
    if second < end:
        return second
    if end < text.end and text.text[end] == "?":
        slash = find(text, "/", end)
        at = find(text, "@", end, slash)
        return at if at < slash else None
    if end == text.end and text.fragment is not None:
        index = text.fragment.partition("/")[0].find("@")
        return end + 1 + index if index >= 0 else None
    return None


def parse_userinfo(text: UrlText, authority: Authority) -> tuple[bytes | None, bytes | None]:
    """User and password, decoded; None what is absent. Raises `bad-userinfo`."""
    if authority.host == authority.start:
        return None, None
    end = authority.host - 1
    if bracket := _BRACKET.search(text.text, authority.start, end):
        raise invalid(text.text, "bad-userinfo", "user information", bracket.start())
    colon = find(text, ":", authority.start, end)
    note_characters(text, authority.start, end, _USERINFO_DATA + ":")
    user = take(text, "user", authority.start, colon)
    if colon == end:
        return user, None
    second = find(text, ":", colon + 1, end)
    if second < end:
        text.note("userinfo-colon", second)
    return user, take(text, "password", colon + 1, end)


def check_ender(text: UrlText, authority: Authority, enders: str) -> None:
    """`bad-host` if a `?` ended the authority and it may not."""
    if authority.end < text.end and text.text[authority.end] not in enders:
        raise invalid(text.text, "bad-host", "host ended by ?", authority.end)


def find_port(text: UrlText, authority: Authority) -> int:
    """Index of the colon before the port, or the authority's end. Raises `bad-host` for a second one."""
    start = authority.host
    if text.text.startswith("[", start, authority.end):
        start = find(text, "]", start, authority.end)
    colon = find(text, ":", start, authority.end)
    second = find(text, ":", min(colon + 1, authority.end), authority.end)
    if second < authority.end:
        raise invalid(text.text, "bad-host", "host with more than one colon", second)
    return colon


def _parse_port(text: UrlText, colon: int, end: int) -> int | None:
    if colon == end:
        return None
    if colon + 1 == end:
        text.note("empty-port", colon)
        return None
    digits = text.cut("port", colon + 1, end)
    if wrong := _NOT_DIGIT.search(digits):
        raise invalid(text.text, "bad-port", "port", colon + 1 + wrong.start())
    significant = digits.lstrip("0")
    if not significant or len(significant) > 5 or int(significant) > 65_535:
        raise invalid(text.text, "bad-port", "port outside 1 to 65535", colon + 1)
    return int(significant)


def build_login(url: HostUrl) -> str:
    """`//user:password@host:port` as it is sent, password and all, the default port left out."""
    host = build_host(url.host)
    return f"//{build_userinfo(url.user, url.password)}{host}{build_port(url.port, url.default_port)}"


def build_host_url(url: Url, authority: str, path: str) -> str:
    """The URL of an authority and what follows it. Raises `ambiguous-authority` where nothing does and
    some parsers would find the host in the fragment."""
    if not path and url.fragment is not None and "@" in url.fragment.partition("/")[0]:
        raise InvalidUrl("ambiguous-authority", 0, "ambiguous-authority: @ in a fragment behind the host")
    return build_url(url, authority + path)


def build_userinfo(user: bytes | None, password: bytes | None) -> str:
    """`user:password@`, `user@`, or nothing where both are absent."""
    if user is None and password is None:
        return ""
    name = encode(user or b"", _USERINFO_DATA)
    return f"{name}@" if password is None else f"{name}:{encode(password, _USERINFO_DATA)}@"


def build_port(port: int | None, default_port: int | None) -> str:
    """`:port`, or nothing for an absent or default port. Raises `bad-port`."""
    if port is None or port == default_port:
        return ""
    if not 1 <= port <= 65_535:
        raise InvalidUrl("bad-port", 0, f"bad-port: {port} is not from 1 to 65535")
    return f":{port}"
