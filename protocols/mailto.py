"""The scheme mailto: RFC 1738 3.5, with the header fields and several addresses of RFC 6068.

A mailto URL does not name an object. The URL contains a mail address, and optionally the header fields and
body of a mail. The result is a draft of the mail as text (RFC 822; RFC 2047 and 2045 for text outside of
ASCII). No mail is sent and no program is started.

The header fields come from the author of the URL. Only harmless fields become part of the draft (RFC 6068
section 4). `wire` refuses a value with a line end (header injection).
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from protocols.contract import Line, Reply
from protocols.errors import InvalidUrl
from protocols.location import ComponentSpan, Finding, Kind, Url, UrlText
from protocols.options import Limits, Options
from protocols.scheme import Scheme
from protocols.step import Dialogue, EmitBody, PlanNote, StartBody
from protocols.syntax import RESERVED, build_url, encode, find, find_position, invalid, note_characters, take
from protocols.text import decode_text
from protocols.wire import encode_line

_ADDRESS_DATA = ";/:@&="
_HEADER_DATA = ";/:@"
_CONTROLS = frozenset([*range(0x20), 0x7F])
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[@,]', re.DOTALL)

_BODY = b"body"
#: Header fields with a text, and header fields with an address or an identifier. Each field is mapped to its
#: name in a draft.
_TEXT_FIELDS = {b"subject": b"Subject", b"keywords": b"Keywords"}
_ADDRESS_FIELDS = {b"to": b"To", b"cc": b"Cc", b"in-reply-to": b"In-Reply-To"}
_ORDER = (b"to", b"cc", b"subject", b"keywords", b"in-reply-to")
#: Header fields that occur only once in a mail. If a URL repeats a field, the first value is used.
_SINGLE_FIELDS = frozenset({b"subject", b"in-reply-to", _BODY})
#: The maximum number of bytes in an encoded word. Such an `encoded-word` has at most 75 characters in base64.
_MAX_ENCODED = 45


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MailtoUrl(Url):
    """A mailto URL.

    `addr_spec` is one address, or several addresses separated by commas. `headers` are the header fields as
    pairs, in order.

    Examples:
        >>> resolver.parse("mailto:me@h.example").addr_spec
        b'me@h.example'
    """

    addr_spec: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()


def parse(text: UrlText) -> MailtoUrl:
    """Parse a mailto URL.

    The text before `?` is the address. An address may contain slashes, because no character is reserved.
    """
    end = find(text, "?", text.start)
    note_characters(text, text.start, end, RESERVED)
    addr_spec = take(text, "addr_spec", text.start, end)
    if any(octet in _CONTROLS for octet in addr_spec):
        position = find_position(text.text, ComponentSpan("addr_spec", text.start, end), _CONTROLS)
        raise invalid(text.text, "bad-address", "mail address with a control character", position)
    count = len(split_addresses(addr_spec))
    if not count:
        raise invalid(text.text, "bad-address", "mail address without exactly one inner @", text.start)
    if count > 1:
        text.note("mailto-multiple", text.start)
    return MailtoUrl(addr_spec=addr_spec, headers=_parse_headers(text, end), **text.common())


def split_addresses(octets: bytes) -> tuple[bytes, ...]:
    """Split mail addresses at the commas outside of quotes, or return () if an address is invalid."""
    addresses: list[bytes] = []
    start, signs = 0, list[int]()
    for token in _TOKEN.finditer(octets + b","):
        if token[0] == b"@":
            signs.append(token.start())
        elif token[0] == b",":
            if len(signs) != 1 or signs[0] in (start, token.start() - 1):
                return ()
            addresses.append(octets[start : token.start()])
            start, signs = token.end(), []
    return tuple(addresses)


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
    """Return the URL as text.

    Raises:
        InvalidUrl: `addr_spec` is not a mail address.
    """
    if not split_addresses(url.addr_spec) or any(octet in _CONTROLS for octet in url.addr_spec):
        raise InvalidUrl("bad-address", 0, f"bad-address: {url.addr_spec.decode('latin-1')!r}")
    fields = (f"{encode(name, _HEADER_DATA)}={encode(value, _HEADER_DATA)}" for name, value in url.headers)
    mark = "?" if url.headers else ""
    return build_url(url, f"{encode(url.addr_spec, _ADDRESS_DATA)}{mark}{'&'.join(fields)}")


class Draft(NamedTuple):
    """A mail draft.

    `text` is the mail. `fields` are the header fields of the URL that the draft contains, and
    `omitted_fields` the others.
    """

    text: bytes
    fields: tuple[tuple[bytes, bytes], ...]
    omitted_fields: tuple[tuple[bytes, bytes], ...]


def write_draft(url: MailtoUrl) -> Draft:
    """Return the draft of the mail.

    Raises:
        Refused: A header field contains CR, LF or NUL (S02, header injection).
    """
    values: dict[bytes, list[bytes]] = {b"to": list(split_addresses(url.addr_spec))}
    fields, omitted = [], []
    for name, value in url.headers:
        field = name.lower()
        is_known = field == _BODY or field in _ORDER
        if is_known and not (field in _SINGLE_FIELDS and field in values):
            values.setdefault(field, []).append(value)
            fields.append((name, value))
        else:
            omitted.append((name, value))
    body = b"".join(values.get(_BODY, []))
    lines = [line for field in _ORDER for line in _field_lines(field, values.get(field, []))]
    lines += [*_encoding_lines(body), encode_line()]
    return Draft(b"".join(line.octets for line in lines) + body, tuple(fields), tuple(omitted))


def _field_lines(name: bytes, values: list[bytes]) -> Iterator[Line]:
    """Yield one header line for each value of a mail header field."""
    value = b", ".join(value for value in values if value)
    if not value:
        return
    if name not in _TEXT_FIELDS:
        yield encode_line(_ADDRESS_FIELDS[name] + b":", value)
        return
    first, *rest = [value] if value.isascii() else _encoded_words(value)
    yield encode_line(_TEXT_FIELDS[name] + b":", first)
    for word in rest:
        yield encode_line(b"", word)


def _encoded_words(value: bytes) -> list[bytes]:
    """Return the `encoded-word`s of a value (RFC 2047), without splitting a character."""
    text, charset = _guess_charset(value)
    words, piece = [], b""
    for character in text:
        octets = character.encode(charset)
        if len(piece) + len(octets) > _MAX_ENCODED:
            words.append(piece)
            piece = b""
        piece += octets
    name = charset.encode("ascii")
    return [b"=?%s?B?%s?=" % (name, b2a_base64(word, newline=False)) for word in (*words, piece)]


def _guess_charset(octets: bytes) -> tuple[str, str]:
    """Decode text as UTF-8 (RFC 6068) or, if it is invalid, as ISO 8859-1, and return the charset."""
    try:
        return octets.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return octets.decode("latin-1"), "iso-8859-1"


def _encoding_lines(body: bytes) -> Iterator[Line]:
    """Yield the header lines of the body's encoding if the body is not ASCII (RFC 2045)."""
    if body.isascii():
        return
    charset = _guess_charset(body)[1].encode("ascii")
    yield encode_line(b"MIME-Version:", b"1.0")
    yield encode_line(b"Content-Type:", b"text/plain; charset=" + charset)
    yield encode_line(b"Content-Transfer-Encoding:", b"8bit")


def propose(url: MailtoUrl, options: Options | None = None, limits: Limits | None = None) -> Dialogue[None]:
    """Return a draft of the mail.

    The kind of the reply is address, its body is the draft, and its target is the URL.

    Raises:
        Refused: A header field contains CR, LF or NUL (S02, header injection).
    """
    draft = write_draft(url)
    yield PlanNote("no mail is sent and no program is started; the body is the draft of a mail")
    yield StartBody(_reply(url, draft))
    yield EmitBody(draft.text)


def _reply(url: MailtoUrl, draft: Draft) -> Reply:
    headers = tuple((decode_text(name), decode_text(value)) for name, value in url.headers)
    return Reply(
        kind=Kind.ADDRESS,
        media_type="message/rfc822",
        size=len(draft.text),
        meta=headers,
        target=build(replace(url, fragment=None)),
        extra={
            "addresses": [decode_text(address) for address in split_addresses(url.addr_spec)],
            "headers": [list(pair) for pair in headers],
        },
        findings=[
            *(Finding("mailto:header", "allow", _report_field(*pair)) for pair in draft.fields),
            *(
                Finding("mailto:left-out", "warn", f"{_report_field(*pair)}: not in the draft")
                for pair in draft.omitted_fields
            ),
        ],
    )


def _report_field(name: bytes, value: bytes) -> str:
    return f"{decode_text(name)}: {decode_text(value)}"


MAILTO = Scheme(
    name="mailto",
    names="mail address",
    default_port=None,
    parse=parse,
    build=build,
    transport=None,
    named_by=("addr_spec",),
    converse="protocols.mailto:propose",
)
