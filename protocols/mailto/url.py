"""What a mailto URL says (RFC 1738 3.5), with the header fields and several addresses of RFC 6068."""

from __future__ import annotations

import re
from dataclasses import dataclass

from protocols.errors import InvalidUrl
from protocols.location import Place, Url, UrlText
from protocols.syntax import RESERVED, build_url, encode, find, invalid, note_characters, position_of, take

_ADDRESS_DATA = ";/:@&="
_HEADER_DATA = ";/:@"
_CONTROLS = frozenset([*range(0x20), 0x7F])
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[@,]', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MailtoUrl(Url):
    """`addr_spec` is one address, or several with commas; `headers` are names and values in order."""

    addr_spec: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()


def parse(text: UrlText) -> MailtoUrl:
    """No character is reserved; everything up to `?` is the address, slashes too."""
    end = find(text, "?", text.start)
    note_characters(text, text.start, end, RESERVED)
    addr_spec = take(text, "addr_spec", text.start, end)
    if any(octet in _CONTROLS for octet in addr_spec):
        position = position_of(text.text, Place("addr_spec", text.start, end), _CONTROLS)
        raise invalid(text.text, "bad-address", "mail address with a control octet", position)
    count = len(split_addresses(addr_spec))
    if not count:
        raise invalid(text.text, "bad-address", "mail address without one @ amidst", text.start)
    if count > 1:
        text.note("mailto-multiple", text.start)
    return MailtoUrl(scheme=text.scheme, addr_spec=addr_spec, headers=_parse_headers(text, end))


def split_addresses(octets: bytes) -> tuple[bytes, ...]:
    """The addresses between unquoted commas; none if one of them is no address."""
    found: list[bytes] = []
    start, signs = 0, list[int]()
    for token in _TOKEN.finditer(octets + b","):
        if token[0] == b"@":
            signs.append(token.start())
        elif token[0] == b",":
            if len(signs) != 1 or signs[0] in (start, token.start() - 1):
                return ()
            found.append(octets[start : token.start()])
            start, signs = token.end(), []
    return tuple(found)


def _parse_headers(text: UrlText, question: int) -> tuple[tuple[bytes, bytes], ...]:
    headers: list[tuple[bytes, bytes]] = []
    if question < text.end:
        text.note("mailto-headers", question)
        note_characters(text, question + 1, text.end, RESERVED)
    while question < text.end:
        start, question = question + 1, find(text, "&", question + 1)
        if start == question:
            continue
        equals = find(text, "=", start, question)
        name = take(text, f"headers[{len(headers)}].name", start, equals)
        value = take(text, f"headers[{len(headers)}].value", min(equals + 1, question), question)
        headers.append((name, value))
    return tuple(headers)


def build(url: MailtoUrl) -> str:
    """The URL as text. Raises `InvalidUrl` for what is no mail address."""
    if not split_addresses(url.addr_spec) or any(octet in _CONTROLS for octet in url.addr_spec):
        raise InvalidUrl("bad-address", 0, f"bad-address: {url.addr_spec!r}")
    fields = (f"{encode(name, _HEADER_DATA)}={encode(value, _HEADER_DATA)}" for name, value in url.headers)
    mark = "?" if url.headers else ""
    return build_url(url, f"{encode(url.addr_spec, _ADDRESS_DATA)}{mark}{'&'.join(fields)}")
