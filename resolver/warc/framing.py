"""Octets in lines as they came, with the periods that an archive takes off: those that were doubled, and the
last one."""

from __future__ import annotations

from collections.abc import Iterator

_END = b".\r\n"


def framed(pieces: Iterator[bytes], *, has_end: bool) -> Iterator[bytes]:
    """`has_end`: the last period came."""
    last = b"\n"
    for octets in pieces:
        doubled = octets.replace(b"\n.", b"\n..")
        yield b"." + doubled if last == b"\n" and octets.startswith(b".") else doubled
        last = octets[-1:] or last
    if has_end:
        yield _END if last == b"\n" else b"\r\n" + _END
