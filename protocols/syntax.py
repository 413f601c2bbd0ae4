"""The syntax of a URL (RFC 1738 2.2 and 5): character classes, percent-encoding, and errors.

The functions work on percent-encoded text. A parser finds the delimiters first, and then decodes each
component exactly once. Encoded text is `str`, decoded bytes are `bytes`. The functions are the same for all
schemes. The module `authority` parses `//user:password@host:port`.
"""

from __future__ import annotations

import re
from binascii import unhexlify
from collections.abc import Container, Iterable
from functools import cache

from protocols.errors import InvalidUrl
from protocols.location import ComponentSpan, Url, UrlText

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
DIGITS = "0123456789"
#: The characters that never need percent-encoding, in any component.
UNRESERVED = LETTERS + DIGITS + "$-_.+!*'(),"
_PLAIN = UNRESERVED.encode("ascii")
#: The characters that are delimiters in some schemes.
RESERVED = ";/?:@&="
#: The characters that must be percent-encoded by RFC 1738 2.2. The parser also accepts them without
#: percent-encoding.
NATIONAL = "{}|\\^~[]`"

_NATIONAL = f"[{re.escape(NATIONAL)}]"
_MAX_QUOTE = 40  # the number of characters of a URL that a message quotes


def decode(encoded: str) -> bytes:
    """Decode percent-encoded text to bytes. Each `%` must begin an escape (`%` and two hex digits)."""
    if "%" not in encoded:
        return encoded.encode("ascii")
    first, *escaped = encoded.encode("ascii").split(b"%")
    return first + b"".join(unhexlify(piece[:2]) + piece[2:] for piece in escaped)


def take(text: UrlText, name: str, start: int, end: int) -> bytes:
    """Return the decoded component `text[start:end]`, and record its position as `name`."""
    return decode(text.cut(name, start, end))


def encode(octets: bytes, also: str = "") -> str:
    """Percent-encode bytes for a component of a URL.

    Characters in `UNRESERVED` and `also` stay unencoded. `also` contains the reserved characters that may
    appear unencoded in this component.
    """
    # Fast path for bytes that need no percent-encoding, as in most names: five times as fast.
    if not octets.translate(None, _PLAIN):
        return octets.decode("ascii")
    return "".join(map(_spellings(also).__getitem__, octets))


@cache
def _spellings(also: str) -> tuple[str, ...]:
    plain = set(UNRESERVED + also)
    return tuple(chr(octet) if chr(octet) in plain else f"%{octet:02X}" for octet in range(256))


def encode_written(name: str, written: str, also: str) -> str:
    """Percent-encode the national characters of a component.

    The component, such as the http path, stays encoded in the URL object.

    Raises:
        InvalidUrl: The text contains other characters than `UNRESERVED`, national characters, `also` and
            escapes. The position is an index into `written`.
    """
    if wrong := _compile_unwritten(also).search(written):
        raise _invalid_component(name, written, wrong.start())
    return re.sub(_NATIONAL, lambda match: f"%{ord(match[0]):02X}", written)


@cache
def _compile_unwritten(also: str) -> re.Pattern[str]:
    plain = re.escape(UNRESERVED + NATIONAL + also)
    return re.compile(f"[^%{plain}]|%(?![0-9A-Fa-f]{{2}})")


def _invalid_component(name: str, written: str, at: int) -> InvalidUrl:
    character = written[at]
    kind = "bad-escape" if character == "%" else "bad-char" if character.isascii() else "non-ascii"
    return InvalidUrl(kind, at, f"{kind}: {name}, at position {at}: {character!r} is not allowed there")


def build_url(url: Url, specific: str) -> str:
    """Return a URL with the scheme-specific part `specific`, which is encoded already."""
    if url.fragment is None:
        return f"{url.scheme}:{specific}"
    return f"{url.scheme}:{specific}#{encode_written('fragment', url.fragment, RESERVED + '#')}"


def note_characters(text: UrlText, start: int, end: int, data: str) -> None:
    """Add findings for national characters, and for reserved characters that are not in `data`."""
    for match in _compile_unexpected(data).finditer(text.text, start, end):
        text.note("unsafe-char" if match[0] in NATIONAL else "reserved-char", match.start())


@cache
def _compile_unexpected(data: str) -> re.Pattern[str]:
    misplaced = "".join(character for character in RESERVED if character not in data)
    return re.compile(f"[{re.escape(NATIONAL + misplaced)}]")


def find(text: UrlText, character: str, start: int, end: int | None = None) -> int:
    """Return the index of the first `character` in `text[start:end]`, or `end` without a match."""
    end = text.end if end is None else end
    index = text.text.find(character, start, end)
    return end if index < 0 else index


def remove_dot_segments(segments: Iterable[bytes], base: Iterable[bytes] = ()) -> list[bytes]:
    """Return the segments of a path after those of `base`, without `.` and `..` (RFC 3986 5.2.4)."""
    kept = [*base]
    for segment in segments:
        if segment == b"..":
            del kept[-1:]
        elif segment != b".":
            kept.append(segment)
    return kept


def find_position(text: str, place: ComponentSpan, octets: Container[int]) -> int:
    """Return the index of the first character, or percent-encoded byte, that decodes to one of `octets`.

    If `place` contains none of these bytes, the result is the start of `place`.
    """
    at = place.start
    while at < place.end:
        escaped = text[at] == "%"
        octet = int(text[at + 1 : at + 3], 16) if escaped else ord(text[at])
        if octet in octets:
            return at
        at += 3 if escaped else 1
    return place.start


def position_at(text: str, start: int, index: int) -> int:
    """Return the position in `text` of a decoded byte, the `index`-th from `start` on."""
    at = start
    for _ in range(index):
        at += 3 if text.startswith("%", at) else 1
    return at


def invalid(text: str, kind: str, part: str, position: int) -> InvalidUrl:
    """Return the error for an invalid URL.

    `part` is a component or a short phrase, and `position` is an index in `text`.

    The message quotes the text after `position`. If an `@` follows, the message does not quote the text,
    because text before an `@` may be a password.
    """
    message = f"{kind}: {part}, at position {position}"
    if position < len(text) and text.find("@", position) < 0:
        message += f": {text[position : position + _MAX_QUOTE]!r}"
    return InvalidUrl(kind, position, message)
