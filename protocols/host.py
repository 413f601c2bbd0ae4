"""Hosts: names that can be looked up, four decimal groups, IPv6 literals (RFC 1738 3.1, RFC 2732).

Wider forms than RFC 1738's are read and noted. What software reads in different ways, such as short
or octal numbers, is refused.
"""

from __future__ import annotations

import re

from protocols.errors import InvalidUrl
from protocols.location import Place, UrlText
from protocols.syntax import decode, find, invalid, position_of

_NOT_IN_HOST = re.compile(r"[^0-9A-Za-z._-]")
_NUMBER = re.compile(r"[0-9]+\Z|0x[0-9a-f]*\Z")
_LABEL = re.compile(r"[0-9A-Za-z-]+\Z")
_GROUP = re.compile(r"(?:0|[1-9][0-9]{0,2})\Z")
_LONGEST_LABEL = 63  # RFC 1035 2.3.4, and so is the next
_LONGEST_NAME = 253


def parse_host(text: UrlText, start: int, end: int) -> str:
    """The host in `text[start:end]`, which is not empty: lower case, decoded, without brackets.

    Raises `bad-host`; notes `ipv6-literal`, `encoded-host` and `host-syntax`.
    """
    if text.text[start] == "[":
        return _parse_ipv6(text, start, end)
    host = text.cut("host", start, end)
    if "%" in host:
        text.note("encoded-host", start + host.index("%"))
        host = decode(host).decode("latin-1")
    if wrong := _NOT_IN_HOST.search(host):
        position = position_of(text.text, Place("host", start, end), {ord(wrong[0])})
        raise invalid(text.text, "bad-host", "character that no host has", position)
    host = host.lower()
    labels = host.removesuffix(".").split(".")
    if complaint := _complaint(host, labels):
        raise invalid(text.text, "bad-host", complaint, start)
    if not _NUMBER.match(labels[-1]) and not is_hostname(host):
        text.note("host-syntax", start)
    return host


def _complaint(host: str, labels: list[str]) -> str | None:
    """Why the host cannot be looked up, or None."""
    if "" in labels:
        return "host with an empty label"
    if len(host.removesuffix(".")) > _LONGEST_NAME or max(map(len, labels)) > _LONGEST_LABEL:
        return "host that is too long"
    if _NUMBER.match(labels[-1]) and not (not host.endswith(".") and _is_dotted_quad(labels)):
        return "number that is not four decimal groups of 0 to 255"
    return None


def _is_dotted_quad(labels: list[str]) -> bool:
    return len(labels) == 4 and all(_GROUP.match(label) and int(label) <= 255 for label in labels)


def is_hostname(host: str) -> bool:
    """Is this a host name by RFC 1738 5: labels of letters, digits and inner hyphens, the last one not
    starting with a digit?"""
    labels = host.split(".")
    return all(map(_is_label, labels)) and not labels[-1][0].isdigit()


def _is_label(label: str) -> bool:
    return bool(_LABEL.match(label)) and "-" not in (label[0], label[-1])


def _parse_ipv6(text: UrlText, start: int, end: int) -> str:
    from ipaddress import AddressValueError, IPv6Address  # rare, and not free to load

    closing = find(text, "]", start, end)
    if closing != end - 1:
        raise invalid(text.text, "bad-host", "IPv6 literal not closed where the host ends", start)
    address = text.cut("host", start + 1, closing)
    if "%" in address:
        raise invalid(text.text, "bad-host", "IPv6 literal with a zone or an escape", start)
    try:
        IPv6Address(address)
    except AddressValueError:
        raise invalid(text.text, "bad-host", "no IPv6 address between brackets", start) from None
    text.note("ipv6-literal", start)
    return address.lower()


def build_host(host: str) -> str:
    """The host, in brackets if it is an IPv6 address. Raises `no-host` and `bad-host`."""
    if not host:
        raise InvalidUrl("no-host", 0, "no-host: a URL cannot be written without its host")
    written = f"[{host}]" if ":" in host else host
    text = UrlText(written, "", 0, len(written), None)
    if "%" in host or (written is host and host.startswith("[")):
        raise invalid(written, "bad-host", "host", 0)
    parse_host(text, 0, len(written))
    return written
