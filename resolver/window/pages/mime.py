"""The parts of a message (RFC 2045, 2046), as far as they can be told: any octets give some.

Who wrote it chose how deep it is and how many parts it has, and Python's parser goes as deep as that. So what
declares more than a few layers, or is larger than any article, is left as it came, one part of text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from email import message_from_bytes, policy
from email.message import Message

from protocols.values import NamedTuple
from resolver.retrieval.response import decode_text
from resolver.window.pages.words import line_of

#: What is taken apart at all, in octets; how many layers it may declare, and how many parts are told.
LARGEST = 16_777_216
DEEPEST = 20
MOST = 200
#: Octets of a field that says what a part is: of more, Python's time grows with the square of their number.
_LONGEST_FIELD = 8_192

_LAYER = re.compile(rb"content-type[ \t]*:\s*(?:multipart|message)\b", re.IGNORECASE)
_FIELD = re.compile(rb"^content-[a-z-]{1,40}[ \t]*:", re.IGNORECASE | re.MULTILINE)
_FIELD_ENDS = re.compile(rb"\n(?![ \t])")
_HEAD_ENDS = re.compile(rb"\r?\n\r?\n")
#: What Python's parser is known to raise for words of a header that no mail has.
_BROKEN = (LookupError, ValueError, TypeError, AttributeError, AssertionError)


class MimePart(NamedTuple):
    """One part: its number from 1 on, how deep it stands, its type as it says (lower case), the name that it
    suggests, and its octets with the transfer encoding undone. `is_body`: it is to be read as text."""

    number: int
    depth: int
    media_type: str
    charset: str | None
    name: str
    octets: bytes
    is_body: bool

    @property
    def text(self) -> str:
        return decode_text(self.octets, self.charset)


def parts_of(octets: bytes, charset: str | None = None) -> list[MimePart]:
    """The leaves of a message, at most `MOST`; never none."""
    if len(octets) > LARGEST or len(_LAYER.findall(octets)) > DEEPEST or _says_too_much(octets):
        return [_whole(octets, charset)]
    try:
        found = list(_leaves(message_from_bytes(octets, policy=policy.compat32), charset))
    except (*_BROKEN, RecursionError):
        return [_whole(octets, charset)]
    return found or [_whole(octets, charset)]


def _says_too_much(octets: bytes) -> bool:
    """Is there a field of a part's description that is longer than any?"""
    size = len(octets)
    for field in _FIELD.finditer(octets):
        stop = field.end() + _LONGEST_FIELD
        if stop < size and _FIELD_ENDS.search(octets, field.end(), stop) is None:
            return True
    return False


def _whole(octets: bytes, charset: str | None) -> MimePart:
    """Everything below the head."""
    end = _HEAD_ENDS.search(octets)
    body = octets[end.end() :] if end else b""
    return MimePart(1, 0, "text/plain", charset, "", body, True)


def _leaves(message: Message, charset: str | None) -> Iterator[MimePart]:
    waiting: list[tuple[int, Message]] = [(0, message)]
    number = 0
    while waiting and number < MOST:
        depth, one = waiting.pop()
        inner = one.get_payload()
        if isinstance(inner, list):
            waiting += ((depth + 1, each) for each in reversed(inner) if isinstance(each, Message))
            continue
        number += 1
        yield _part(number, depth, one, charset)


def _part(number: int, depth: int, one: Message, charset: str | None) -> MimePart:
    media_type = line_of(one.get_content_type())
    name = _name(one)
    octets = _octets(one)
    attached = (one.get_content_disposition() or "inline") == "attachment" or bool(name)
    said = one.get_content_charset() or (charset if depth == 0 else None)
    return MimePart(
        number, depth, media_type, said, name, octets, media_type == "text/plain" and not attached
    )


def _name(one: Message) -> str:
    try:
        return line_of(one.get_filename() or "")
    except _BROKEN:
        return ""


def _octets(one: Message) -> bytes:
    try:
        decoded = one.get_payload(decode=True)
    except _BROKEN:
        decoded = None
    if isinstance(decoded, bytes):
        return decoded
    plain = one.get_payload()
    return plain.encode("utf-8", "surrogateescape") if isinstance(plain, str) else b""
