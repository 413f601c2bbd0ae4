"""The authority `//user:password@host:port` (RFC 1738 3.1). An ambiguous authority is refused.

A host is a DNS name, an IPv4 address of four decimal numbers, or an IPv6 literal (RFC 2732). Some forms that
RFC 1738 does not allow are accepted with a finding. A URL is refused if RFC 1738, RFC 3986 and common
software would find different hosts in the URL (parser differential). Examples are IPv4 addresses with fewer
than four numbers, or with octal numbers. An invalid host name and an invalid port are refused too.

The parser of a scheme calls `parse_login` if its URLs may contain user information. Otherwise it calls
`parse_hostport`. The argument `enders` contains `?` if this character may end the authority.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple, TypedDict

from protocols.errors import InvalidUrl
from protocols.location import ComponentSpan, HostUrl, Url, UrlText
from protocols.syntax import build_url, decode, encode, find, find_position, invalid, note_characters, take

_ENDER = re.compile(r"[/?]")
_NOT_DIGIT = re.compile(r"[^0-9]")
_BRACKET = re.compile(r"[\[\]]")
_USERINFO_DATA = ";&="
_NOT_IN_HOST = re.compile(r"[^0-9A-Za-z._-]")
_NUMBER = re.compile(r"[0-9]+\Z|0x[0-9a-f]*\Z")
_LABEL = re.compile(r"[0-9A-Za-z-]+\Z")
_GROUP = r"(?:0|1[0-9]{0,2}|2(?:[0-4][0-9]?|5[0-5]?|[6-9])?|[3-9][0-9]?)"
_DOTTED_QUAD = re.compile(rf"{_GROUP}(?:\.{_GROUP}){{3}}")
_ZONE = re.compile(r"[0-9A-Za-z._~-]{1,64}")
_ZONE_SIGN = "%25"
_MAX_LABEL = 63  # the maximum number of characters of a label in a DNS name (RFC 1035 2.3.4)
_MAX_NAME = 253
_PLAIN = re.compile(r"//[0-9A-Za-z._-]+(?::[0-9]+)?")
_MAX_PLAIN = 300  # a host name of 253 characters, and a port with leading zeros


class Login(TypedDict):
    """The components of an authority, as keyword arguments of `HostUrl` and its subclasses."""

    user: bytes | None
    password: bytes | None
    host: str
    port: int | None
    default_port: int
    zone: str | None


class Authority(NamedTuple):
    """The bounds of an authority: `text[start:end]`. The host and the port start at `host`.

    With user information, the character before `host` is `@`. Otherwise, `host` equals `start`.
    """

    start: int
    host: int
    end: int


def parse_login(text: UrlText, enders: str = "/") -> tuple[Login, int]:
    """Parse the authority of a scheme whose URLs may contain user information.

    Args:
        text: The URL.
        enders: The characters that may end the authority, `/` or `/?`.

    Returns:
        The components of the authority, and the index after the authority.
    """
    return _parse_plain(text) or _parse(text, find_authority(text), enders)


def _parse_plain(text: UrlText) -> tuple[Login, int] | None:
    """Parse a simple authority in one pass, or return None for any other authority.

    A simple authority contains no user information, brackets or percent-encoding, and a path follows the
    authority. All URL parsers find the same host in a simple authority.
    """
    start, end = text.start, text.text.find("/", text.start + 2, text.end)
    if not 0 < end - start <= _MAX_PLAIN:
        return None
    if (plain := _read_plain(text.text[:end], start, text.default_port)) is None:
        return None
    login, places = plain
    text.places += places
    return login, end


@lru_cache(maxsize=1024)
def _read_plain(
    written: str, start: int, default_port: int | None
) -> tuple[Login, tuple[ComponentSpan, ...]] | None:
    """Return the components and their positions for the authority at the end of the text.

    If the authority has an error or a finding, the result is `None`. The function `_parse` then reports the
    error or finding.
    """
    if not _PLAIN.fullmatch(written, start):
        return None
    text = UrlText(written, "", start, len(written), default_port)
    try:
        login, _ = _parse(text, Authority(start + 2, start + 2, len(written)), "/")
    except InvalidUrl:
        return None
    return None if text.findings else (login, tuple(text.places))


def _parse(text: UrlText, authority: Authority, enders: str) -> tuple[Login, int]:
    user, password = None, None
    if authority.host > authority.start:
        user, password = parse_userinfo(text, authority)
    colon = find_port(text, authority)
    if colon == authority.host:
        raise invalid(text.text, "no-host", "missing host", colon)
    if authority.end < text.end and text.text[authority.end] not in enders:
        raise invalid(text.text, "bad-host", "host ended by ?", authority.end)
    port = None if colon == authority.end else _parse_port(text, colon, authority.end)
    host, zone = _parse_zoned(text, authority.host, colon)
    login = Login(
        user=user,
        password=password,
        host=host,
        port=port,
        default_port=text.default_port or 0,
        zone=zone,
    )
    return login, authority.end


def parse_hostport(text: UrlText, enders: str = "/") -> tuple[Login, int]:
    """Parse an authority like `parse_login`, but report user information with a finding."""
    if (plain := _parse_plain(text)) is not None:
        return plain
    authority = find_authority(text)
    if authority.host > authority.start:
        text.note("userinfo-not-allowed", authority.start)
    return _parse(text, authority, enders)


def find_authority(text: UrlText) -> Authority:
    """Return the bounds of the authority.

    Raises:
        InvalidUrl: `no-authority` or `ambiguous-authority`.
    """
    if not text.text.startswith("//", text.start, text.end):
        raise invalid(text.text, "no-authority", "expected // after the scheme", text.start)
    start = text.start + 2
    ender = _ENDER.search(text.text, start, text.end)
    end = text.end if ender is None else ender.start()
    if (position := _find_ambiguity(text, start, end)) is not None:
        raise invalid(text.text, "ambiguous-authority", "host that parsers disagree about", position)
    at = text.text.find("@", start, end)
    return Authority(start, start if at < 0 else at + 1, end)


def _find_ambiguity(text: UrlText, start: int, end: int) -> int | None:
    """Return the index of the first character that URL parsers interpret differently, or None.

    An attacker can use different interpretations (parser differential) to bypass a check of the host.
    """
    written = text.text
    backslash = written.find("\\", start, end)
    if backslash >= 0:
        return backslash
    first = written.find("@", start, end)
    if first >= 0 and (second := written.find("@", first + 1, end)) >= 0:
        return second
    if end < text.end and text.text[end] == "?":
        slash = find(text, "/", end)
        at = find(text, "@", end, slash)
        return at if at < slash else None
    if end == text.end and text.fragment is not None:
        index = text.fragment.partition("/")[0].find("@")
        return end + 1 + index if index >= 0 else None
    return None


def parse_userinfo(text: UrlText, authority: Authority) -> tuple[bytes, bytes | None]:
    """Return the decoded user name and password of an authority with user information.

    Returns:
        The user name, and the password or None if the password is absent.

    Raises:
        InvalidUrl: `bad-userinfo`, if the user information contains a bracket.
    """
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


def find_port(text: UrlText, authority: Authority) -> int:
    """Return the index of the colon before the port.

    Without a port, the result is the end of the authority.

    Raises:
        InvalidUrl: `bad-host`, if the host contains a second colon.
    """
    start = authority.host
    if text.text.startswith("[", start, authority.end):
        start = find(text, "]", start, authority.end)
    colon = text.text.find(":", start, authority.end)
    if colon < 0:
        return authority.end
    second = text.text.find(":", colon + 1, authority.end)
    if second >= 0:
        raise invalid(text.text, "bad-host", "host with more than one colon", second)
    return colon


def _parse_port(text: UrlText, colon: int, end: int) -> int | None:
    if colon + 1 == end:
        text.note("empty-port", colon)
        return None
    digits = text.cut("port", colon + 1, end)
    if wrong := _NOT_DIGIT.search(digits):
        raise invalid(text.text, "bad-port", "port that is not a number", colon + 1 + wrong.start())
    significant = digits.lstrip("0")
    if not significant or len(significant) > 5 or int(significant) > 65_535:
        raise invalid(text.text, "bad-port", "port outside 1 to 65535", colon + 1)
    return int(significant)


def build_login(url: HostUrl) -> str:
    """Return `//user:password@host:port` for a request, with the password but without the default port."""
    host = build_zoned(url.host, url.zone)
    return f"//{build_userinfo(url.user, url.password)}{host}{build_port(url.port, url.default_port)}"


def build_zoned(host: str, zone: str | None) -> str:
    """Return the host and its zone as in a URL.

    The host has the form of `build_host`.

    Raises:
        InvalidUrl: `no-host` if the host is empty. `bad-host` if the host is invalid or cannot have a zone.
    """
    written = build_host(host)
    if zone is None:
        return written
    reason = _find_zone_error(host, zone) if ":" in host else "zone of a host that is not an IPv6 address"
    if reason:
        raise InvalidUrl("bad-host", 0, f"bad-host: {reason}: {zone!r}")
    return f"[{host}{_ZONE_SIGN}{zone}]"


def build_host_url(url: Url, authority: str, path: str) -> str:
    """Return the URL with an authority and the text that follows the authority.

    Raises:
        InvalidUrl: `ambiguous-authority`, if no path follows the authority. Without a path, some parsers look
            for the host in the fragment.
    """
    if not path and url.fragment is not None and "@" in url.fragment.partition("/")[0]:
        raise InvalidUrl(
            "ambiguous-authority", 0, "ambiguous-authority: @ in a fragment directly after the host"
        )
    return build_url(url, authority + path)


def build_userinfo(user: bytes | None, password: bytes | None) -> str:
    """Return `user:password@`, `user@`, or an empty text without a user name and a password."""
    if user is None and password is None:
        return ""
    name = encode(user or b"", _USERINFO_DATA)
    return f"{name}@" if password is None else f"{name}:{encode(password, _USERINFO_DATA)}@"


def build_port(port: int | None, default_port: int | None) -> str:
    """Return `:port`.

    The result is empty for an absent port and for the default port.

    Raises:
        InvalidUrl: `bad-port`.
    """
    if port is None or port == default_port:
        return ""
    if not 1 <= port <= 65_535:
        raise InvalidUrl("bad-port", 0, f"bad-port: port must be 1 to 65535, got {port}")
    return f":{port}"


def _parse_zoned(text: UrlText, start: int, end: int) -> tuple[str, str | None]:
    """Return the host, and its zone or None."""
    sign = find(text, _ZONE_SIGN, start, end)
    if not text.may_have_zone or text.text[start] != "[" or sign == end or text.text[end - 1] != "]":
        return parse_host(text, start, end), None
    address = _parse_address(text, start, sign)
    zone = text.cut("zone", sign + len(_ZONE_SIGN), end - 1)
    if reason := _find_zone_error(address, zone):
        raise invalid(text.text, "bad-host", reason, sign)
    return address, zone


def _find_zone_error(address: str, zone: str) -> str | None:
    """Return the reason why the zone is invalid for this IPv6 address (RFC 4007 11), or None."""
    from ipaddress import IPv6Address  # Lazy import: IPv6 literals are rare.

    if not IPv6Address(address).is_link_local:
        return "zone of an address that is not link-local"
    return None if _ZONE.fullmatch(zone) else "zone that is not 1 to 64 letters, digits and -._~"


def parse_host(text: UrlText, start: int, end: int) -> str:
    """Return the host in `text[start:end]` in canonical form: lower case, decoded, without brackets.

    The range must not be empty. The function adds the findings `ipv6-literal`, `encoded-host` and
    `host-syntax`.

    Raises:
        InvalidUrl: `bad-host`.
    """
    if text.text[start] == "[":
        return _parse_ipv6(text, start, end)
    host = text.cut("host", start, end)
    if "%" in host:
        text.note("encoded-host", start + host.index("%"))
        host = decode(host).decode("latin-1")
    if wrong := _NOT_IN_HOST.search(host):
        position = find_position(text.text, ComponentSpan("host", start, end), {ord(wrong[0])})
        raise invalid(text.text, "bad-host", "character not allowed in a host", position)
    host = host.lower()
    labels = host.removesuffix(".").split(".")
    if reason := _find_host_error(host, labels):
        raise invalid(text.text, "bad-host", reason, start)
    if not _NUMBER.match(labels[-1]) and not is_hostname(host):
        text.note("host-syntax", start)
    return host


def _find_host_error(host: str, labels: list[str]) -> str | None:
    """Return the reason why DNS cannot resolve the host, or None."""
    if "" in labels:
        return "host with an empty label"
    if len(host.removesuffix(".")) > _MAX_NAME or max(map(len, labels)) > _MAX_LABEL:
        return "host over 253 or label over 63 characters"
    if _NUMBER.match(labels[-1]) and not _DOTTED_QUAD.fullmatch(host):
        return "numeric host that is not four decimal groups of 0 to 255"
    return None


def comparable_host(host: str) -> str:
    """Return the host for comparisons: in lower case, and without the trailing dot of the DNS root.

    `h.example.` and `h.example` are the same DNS name (RFC 1034 3.1). If a rule handled the two forms
    differently, a URL with the other form would bypass the rule (CVE-2026-8924).
    """
    return host.lower().removesuffix(".")


def is_hostname(host: str) -> bool:
    """Return whether the text is a host name by RFC 1738 5.

    The labels of a host name consist of letters, digits and inner hyphens. The last label does not start with
    a digit.
    """
    labels = host.split(".")
    return all(map(_is_label, labels)) and not labels[-1][0].isdigit()


def _is_label(label: str) -> bool:
    return bool(_LABEL.match(label)) and "-" not in (label[0], label[-1])


def _parse_ipv6(text: UrlText, start: int, end: int) -> str:
    closing = find(text, "]", start, end)
    if closing != end - 1:
        raise invalid(text.text, "bad-host", "IPv6 literal without ] at the end of the host", start)
    return _parse_address(text, start, closing)


def _parse_address(text: UrlText, start: int, end: int) -> str:
    """Return the IPv6 address between the opening bracket at `start` and the closing bracket."""
    # Lazy import: IPv6 literals are rare and the import takes time.
    from ipaddress import AddressValueError, IPv6Address

    address = text.cut("host", start + 1, end)
    if "%" in address:
        raise invalid(text.text, "bad-host", "IPv6 literal with a zone or an escape", start)
    try:
        IPv6Address(address)
    except AddressValueError:
        raise invalid(text.text, "bad-host", "brackets without a valid IPv6 address", start) from None
    text.note("ipv6-literal", start)
    return address.lower()


@lru_cache(maxsize=8)  # Most listings contain only one host or a few hosts.
def build_host(host: str) -> str:
    """Return the host, with an IPv6 address in brackets.

    Raises:
        InvalidUrl: `no-host` or `bad-host`.
    """
    if not host:
        raise InvalidUrl("no-host", 0, "no-host: cannot write a URL without a host")
    written = f"[{host}]" if ":" in host else host
    text = UrlText(written, "", 0, len(written), None)
    if "%" in host or (written is host and host.startswith("[")):
        raise invalid(written, "bad-host", "host", 0)
    parse_host(text, 0, len(written))
    return written
