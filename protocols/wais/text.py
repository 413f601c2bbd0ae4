"""A server's octets as text for a person: no charset is ever named (wais page, section 9)."""

from __future__ import annotations

#: C0, DEL and C1, but for the two that a listing shows as escapes.
_CONTROLS = {code: "\ufffd" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\r\n"}


def plain_text(octets: bytes) -> str:
    """UTF-8, else ISO 8859-1."""
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        return octets.decode("latin-1")


def display_text(octets: bytes) -> str:
    """The same, control characters replaced: nothing in it reaches a terminal as a command."""
    return plain_text(octets).translate(_CONTROLS)
