"""The mail that a mailto URL proposes, as text (RFC 822; RFC 2047 and 2045 where it is not ASCII).

Who wrote the URL chose its header fields, so only those that do no more than a person would expect become
part of the draft (RFC 6068 section 4). A value that would end its field is refused by `wire`.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterator
from typing import NamedTuple

from protocols.connection import Line
from protocols.mailto.url import MailtoUrl, split_addresses
from protocols.step import Dialogue, Note
from protocols.wire import encode_line

_BODY = b"body"
#: Fields whose value is free text, and what they are called in a draft; then those of addresses or ids.
_TEXTS = {b"subject": b"Subject", b"keywords": b"Keywords"}
_OTHERS = {b"to": b"To", b"cc": b"Cc", b"in-reply-to": b"In-Reply-To"}
_ORDER = (b"to", b"cc", b"subject", b"keywords", b"in-reply-to")
#: Fields of which a mail has one: the first in the URL.
_ONCE = frozenset({b"subject", b"in-reply-to", _BODY})
#: Octets that fit into an encoded word of at most 75 characters in base64.
_ROOM = 45


class Draft(NamedTuple):
    """`text` is the mail; `kept` are the header fields of the URL that are in it, `left_out` the others."""

    text: bytes
    kept: tuple[tuple[bytes, bytes], ...]
    left_out: tuple[tuple[bytes, bytes], ...]


def propose(url: MailtoUrl) -> Dialogue[Draft]:
    """Nothing is done for a mailto URL; the draft is the result. Raises `Refused` (S02)."""
    draft = write_draft(url)
    yield Note("nothing is sent and no program is started; the draft of a mail is written here")
    return draft


def write_draft(url: MailtoUrl) -> Draft:
    """Raises `Refused` (S02) where a header field holds CR, LF or NUL."""
    values: dict[bytes, list[bytes]] = {b"to": list(split_addresses(url.addr_spec))}
    kept, left_out = [], []
    for name, value in url.headers:
        field = name.lower()
        known = field == _BODY or field in _ORDER
        if known and not (field in _ONCE and field in values):
            values.setdefault(field, []).append(value)
            kept.append((name, value))
        else:
            left_out.append((name, value))
    body = b"".join(values.get(_BODY, []))
    lines = [line for field in _ORDER for line in _field(field, values.get(field, []))]
    lines += [*_encoding(body), encode_line()]
    return Draft(b"".join(line.octets for line in lines) + body, tuple(kept), tuple(left_out))


def _field(name: bytes, values: list[bytes]) -> Iterator[Line]:
    """The lines of a field with all its values; none if it has none."""
    value = b", ".join(value for value in values if value)
    if not value:
        return
    if name not in _TEXTS:
        yield encode_line(_OTHERS[name] + b":", value)
        return
    first, *more = [value] if value.isascii() else _encoded_words(value)
    yield encode_line(_TEXTS[name] + b":", first)
    for word in more:
        yield encode_line(b"", word)


def _encoded_words(value: bytes) -> list[bytes]:
    """RFC 2047: each word whole characters of its own."""
    text, charset = _text_of(value)
    words, piece = [], b""
    for character in text:
        octets = character.encode(charset)
        if len(piece) + len(octets) > _ROOM:
            words.append(piece)
            piece = b""
        piece += octets
    name = charset.encode("ascii")
    return [b"=?%s?B?%s?=" % (name, b2a_base64(word, newline=False)) for word in (*words, piece)]


def _text_of(octets: bytes) -> tuple[str, str]:
    """Octets as text, and by which charset: RFC 6068 says UTF-8; what is none is taken for ISO 8859-1."""
    try:
        return octets.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return octets.decode("latin-1"), "iso-8859-1"


def _encoding(body: bytes) -> Iterator[Line]:
    """What says how the body is written, where it is not ASCII (RFC 2045)."""
    if body.isascii():
        return
    charset = _text_of(body)[1].encode("ascii")
    yield encode_line(b"MIME-Version:", b"1.0")
    yield encode_line(b"Content-Type:", b"text/plain; charset=" + charset)
    yield encode_line(b"Content-Transfer-Encoding:", b"8bit")
