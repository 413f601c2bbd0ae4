"""prospero URLs (RFC 1738 3.11): a host-specific object name and fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from protocols.authority import build_login, parse_hostport
from protocols.location import HostUrl, UrlText
from protocols.syntax import build_url, encode, find, invalid, note_characters, take

_NAME_DATA = "/?:@&="
_FIELD_DATA = "?:@&"

Field: TypeAlias = "tuple[bytes, bytes | None]"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ProsperoUrl(HostUrl):
    """A prospero URL.

    `hsoname` is the host-specific object name, without the slash after the host. `fields` has the names and
    values of the fields in the order of the URL, including repeated fields. A field without `=` has the value
    None.

    Examples:
        >>> url = resolver.parse("prospero://h.example/pub/a;version=2")
        >>> url.hsoname, url.fields, url.effective_port
        (b'pub/a', ((b'version', b'2'),), 1525)
    """

    hsoname: bytes = b""
    fields: tuple[Field, ...] = ()


def parse(text: UrlText) -> ProsperoUrl:
    """Parse a prospero URL. The object name may contain slashes, and ends at the first semicolon."""
    login, start = parse_hostport(text)
    if start == text.end:
        raise invalid(text.text, "missing-path", "object name", start)
    at = find(text, ";", start)
    note_characters(text, start, at, _NAME_DATA)
    hsoname = take(text, "hsoname", start + 1, at)
    fields: list[Field] = []
    while at < text.end:
        end = find(text, ";", at + 1)
        fields.append(_parse_field(text, len(fields), at + 1, end))
        at = end
    return ProsperoUrl(**login, hsoname=hsoname, fields=tuple(fields), **text.common())


def _parse_field(text: UrlText, number: int, start: int, end: int) -> Field:
    equals = find(text, "=", start, end)
    note_characters(text, start, equals, _FIELD_DATA)
    name = take(text, f"fields[{number}].name", start, equals)
    if equals == end:
        text.note("field-without-value", start)
        return name, None
    note_characters(text, equals + 1, end, _FIELD_DATA)
    return name, take(text, f"fields[{number}].value", equals + 1, end)


def list_names(url: ProsperoUrl) -> tuple[bytes, ...]:
    """Return the path segments of the object's name. On most hosts the name is a path."""
    return tuple(filter(None, url.hsoname.split(b"/")))


def build(url: ProsperoUrl) -> str:
    fields = "".join(map(_build_field, url.fields))
    return build_url(url, f"{build_login(url)}/{encode(url.hsoname, _NAME_DATA)}{fields}")


def _build_field(field: Field) -> str:
    name, value = field
    written = f";{encode(name, _FIELD_DATA)}"
    return written if value is None else f"{written}={encode(value, _FIELD_DATA)}"
