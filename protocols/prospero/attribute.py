"""Attributes of objects and links (protocol page 7.2), and the few whose values mean something here.

A line is one value; several lines of one name are several values, in the server's order of preference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from protocols.prospero.token import read_text
from protocols.values import NamedTuple

if TYPE_CHECKING:  # a plan has no dates
    from datetime import datetime

_SEQUENCES = (b"SEQUENCE", b"ASCII")
_TYPES = (*_SEQUENCES, b"LINK", b"FILTER")
#: Fields whose values are no sequences, and the tokens that such a value has at least.
_TYPED_FIELDS = {
    (b"CLOSURE", b"LINK"): 7,
    (b"FORWARDING-POINTER", b"LINK"): 7,
    (b"FILTER", b"FILTER"): 4,
}

_SIZE = re.compile(rb"([0-9]{1,15})(?: bytes?)?", re.IGNORECASE)
_TIME = re.compile(rb"[0-9]{14}Z")


class Attribute(NamedTuple):
    """One value of an attribute. `applies` says of what: OBJECT, CACHED, REPLACEMENT, ADDITIONAL, LINK.
    `values` are the tokens behind the value's type."""

    applies: bytes
    name: bytes
    value_type: bytes
    values: tuple[bytes, ...]


def parse_attribute(tokens: tuple[bytes, ...]) -> Attribute | None:
    """The tokens behind ATTRIBUTE; None where there are too few, or no type where one has to be."""
    if len(tokens) < 3:
        return None
    applies, namespace, name, *rest = tokens
    if namespace == b"FIELD":
        value_type = _field_type(name, rest)
        values = rest[1:] if value_type else rest
        return Attribute(applies, name, value_type or b"SEQUENCE", tuple(values))
    if not rest or rest[0] not in _TYPES:
        return None
    return Attribute(applies, name, rest[0], tuple(rest[1:]))


def _field_type(name: bytes, rest: list[bytes]) -> bytes | None:
    """The type in front of a field's value. Servers leave it out for the fields they know, not always."""
    first = rest[0] if rest else b""
    if first in _SEQUENCES:
        return first
    least = _TYPED_FIELDS.get((name, first))
    return first if least is not None and len(rest) > least else None


def values_of(attributes: Iterable[Attribute], name: bytes) -> list[tuple[bytes, ...]]:
    """All values of the object's attribute `name`, best first. What is kept with a link counts instead of
    the object's own, beside them, or where there are none."""
    found = [attribute for attribute in attributes if attribute.name == name]
    by_kind = {kind: [each.values for each in found if each.applies == kind] for kind in _KINDS}
    own = by_kind[b"REPLACEMENT"] or by_kind[b"OBJECT"] or by_kind[b"CACHED"]
    return own + by_kind[b"ADDITIONAL"]


_KINDS = (b"OBJECT", b"CACHED", b"REPLACEMENT", b"ADDITIONAL")


def describe(attributes: Iterable[Attribute]) -> Iterator[tuple[str, str]]:
    """Name and value of every attribute that is a sequence, for a person."""
    for attribute in attributes:
        if attribute.value_type in _SEQUENCES and attribute.name not in (b"ACCESS-METHOD", b"CONTENTS"):
            yield read_text(attribute.name), " ".join(map(read_text, attribute.values))


def first_word(attributes: Iterable[Attribute], *names: bytes) -> bytes | None:
    """The first token of the first of these attributes that has one, the link's own counted too."""
    for name in names:
        for attribute in attributes:
            if attribute.name == name and attribute.values:
                return attribute.values[0]
    return None


def read_size(attributes: Iterable[Attribute]) -> int | None:
    """SIZE: octets of the object, as a number and a unit in one token."""
    for values in values_of(attributes, b"SIZE"):
        found = _SIZE.fullmatch(b" ".join(values))
        if found:
            return int(found[1])
    return None


def is_of_directory(attributes: Iterable[Attribute]) -> bool:
    """UNIX-MODES: do they say that the object is a directory?"""
    return any(values[0].startswith(b"d") for values in values_of(attributes, b"UNIX-MODES") if values)


def read_modified(attributes: Iterable[Attribute]) -> datetime | None:
    """LAST-MODIFIED, in UTC."""
    return next(filter(None, map(_read_time, values_of(attributes, b"LAST-MODIFIED"))), None)


def _read_time(values: tuple[bytes, ...]) -> datetime | None:
    """`YYYYMMDDhhmmssZ` (7.3); None for anything else."""
    if len(values) != 1 or not _TIME.fullmatch(values[0]):
        return None
    from datetime import UTC, datetime  # as above

    try:
        return datetime.strptime(values[0].decode("ascii"), "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None
