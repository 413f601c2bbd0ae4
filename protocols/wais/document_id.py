"""Document ids and the two spellings of them in a URL (wais page, sections 6 and 11).

An id is opaque: what came is what goes back. The RFC's spelling says nothing of what is in it. Browsers
wrote the fields that freeWAIS puts into one, each as `tag=value;` behind the document's length; that
spelling must be taken apart before it is decoded, for an escaped `;` belongs to a value.
"""

from __future__ import annotations

import re

from protocols.errors import ProtocolError
from protocols.syntax import decode, encode
from protocols.values import NamedTuple
from protocols.wais.element import Element, elements, encode_element

_FIELDS_FORM = re.compile(r"(?:([0-9]+)/)?((?:[0-9]+=[^;]*;)*[0-9]+=[^;]*;?)")
_FIELD = re.compile(r"([0-9]+)=([^;]*);?")
#: A tag is one octet; libwww reads those that freeWAIS has.
_LARGEST_TAG, _LARGEST_SHARED_TAG = 127, 10
_LONGEST_LENGTH = 18
_COPYRIGHT = 7
#: What libwww left unescaped besides letters and digits.
_LIBWWW_PLAIN = re.compile(rb"[A-Za-z0-9./_$-]")


class WrittenId(NamedTuple):
    """An id as a URL has it. `in_fields`: spelt the browsers' way, where `length` is what the document
    was said to have; None if nothing was said."""

    octets: bytes
    in_fields: bool = False
    length: int | None = None


def parse_wpath(wpath: str) -> WrittenId:
    """The id that a URL's path stands for; the path is still encoded. What has a tag that no octet holds
    is not taken for the browsers' spelling."""
    found = _FIELDS_FORM.fullmatch(wpath)
    fields = [] if found is None else [(_tag(tag), value) for tag, value in _FIELD.findall(found[2])]
    if found is None or not all(1 <= tag <= _LARGEST_TAG for tag, _ in fields):
        return WrittenId(decode(wpath))
    octets = b"".join(encode_element(tag, _value(tag, value)) for tag, value in fields)
    length = found[1] if found[1] is not None and len(found[1]) <= _LONGEST_LENGTH else None
    return WrittenId(octets, in_fields=True, length=None if length is None else int(length))


def _tag(digits: str) -> int:
    return int(digits[-4:]) if not digits[:-4].strip("0") else _LARGEST_TAG + 1


def _value(tag: int, written: str) -> bytes:
    """Some browsers lost the NUL of the last field."""
    value = decode(written)
    return b"\0" if tag == _COPYRIGHT and not value else value


def parse_fields(document_id: bytes) -> tuple[Element, ...] | None:
    """The fields that the id is made of, as in ids of freeWAIS; None if it is not made of any that
    browsers know."""
    try:
        fields = tuple(elements(document_id))
    except ProtocolError:
        return None
    known = bool(fields) and all(1 <= field.tag <= _LARGEST_SHARED_TAG for field in fields)
    return fields if known else None


def write_opaque(document_id: bytes) -> str:
    """The RFC's spelling: right for any id."""
    return encode(document_id)


def write_fields(document_id: bytes, length: int | None) -> str | None:
    """The browsers' spelling, for an id that has one and a document of known length; else None."""
    fields = parse_fields(document_id)
    if fields is None or length is None:
        return None
    written = "".join(f"{field.tag}={_encode_value(field.content)};" for field in fields)
    spelling = f"{length}/{written}"
    return spelling if parse_wpath(spelling).octets == document_id else None


def _encode_value(value: bytes) -> str:
    octets = (value[index : index + 1] for index in range(len(value)))
    return "".join(
        octet.decode("ascii") if _LIBWWW_PLAIN.match(octet) else f"%{octet.hex().upper()}" for octet in octets
    )
