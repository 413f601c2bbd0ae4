"""Tagged elements: how an APDU and the records in it are written (wais page, section 3).

An element is a tag, a length and that many octets; tag and length are compressed integers. A group's
octets are elements again and are used up exactly. Not ASN.1, though it looks like it.
"""

from __future__ import annotations

from collections.abc import Iterator

from protocols.errors import ProtocolError
from protocols.values import NamedTuple

#: Octets of a compressed integer: five hold any length that a message has room for, twice over.
_LONGEST_COMPRESSED = 5
#: Octets of a number: no writer uses more.
_LONGEST_NUMBER = 4


class Element(NamedTuple):
    """`octets` are all of it, tag and length too."""

    tag: int
    content: bytes
    octets: bytes


def encode_compressed(value: int) -> bytes:
    """Base 128, most significant group first, bit 7 set on every octet but the last."""
    octets = [value & 0x7F]
    while value := value >> 7:
        octets.append(value & 0x7F | 0x80)
    return bytes(reversed(octets))


def encode_number(value: int) -> bytes:
    """The content of a number element: as few octets as it needs, at least one."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def encode_element(tag: int, content: bytes) -> bytes:
    return encode_compressed(tag) + encode_compressed(len(content)) + content


def take_compressed(octets: bytes, at: int) -> tuple[int, int]:
    """The compressed integer at index `at`, and the index behind it. Leading octets 80 are padding.

    Raises `ProtocolError` if it does not end within the octets or is longer than any needs to be.
    """
    value = 0
    for index in range(at, min(len(octets), at + _LONGEST_COMPRESSED)):
        value = value << 7 | octets[index] & 0x7F
        if octets[index] < 0x80:
            return value, index + 1
    raise ProtocolError(f"at offset {at} of {len(octets)}: a compressed integer that does not end")


def take_element(octets: bytes, at: int) -> Element:
    """The element at index `at`. Raises `ProtocolError` if it does not end within the octets."""
    tag, behind_tag = take_compressed(octets, at)
    length, start = take_compressed(octets, behind_tag)
    if length > len(octets) - start:
        raise ProtocolError(
            f"element {tag} has {length} octets by its length, {len(octets) - start} are there"
        )
    return Element(tag, octets[start : start + length], octets[at : start + length])


def elements(group: bytes) -> Iterator[Element]:
    """The elements of a group. Raises `ProtocolError` where it is not used up exactly."""
    at = 0
    while at < len(group):
        element = take_element(group, at)
        yield element
        at += len(element.octets)


def contents(group: bytes) -> dict[int, bytes]:
    """The contents by tag; of several with the same tag the first. Raises `ProtocolError`."""
    found: dict[int, bytes] = {}
    for element in elements(group):
        found.setdefault(element.tag, element.content)
    return found


def parse_number(content: bytes) -> int:
    """The content of a number element. Raises `ProtocolError` for none, or more than four octets."""
    if not 1 <= len(content) <= _LONGEST_NUMBER:
        raise ProtocolError(f"a number of {len(content)} octets")
    return int.from_bytes(content, "big")
