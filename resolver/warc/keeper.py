"""What a capture needs of the world: the time, a place for octets, and who takes its records."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from resolver.warc.group import RecordGroup


class SpooledBytes(Protocol):
    """Octets that are kept until they are written."""

    @property
    def size(self) -> int: ...

    def write(self, octets: bytes, /) -> None: ...

    def pieces(self, begin: int = 0, /) -> Iterator[bytes]: ...

    def first(self, most: int, /) -> bytes: ...

    def close(self) -> None: ...


class CaptureSink(Protocol):
    """Whom captures are handed to."""

    @property
    def keeps_cookies(self) -> bool: ...

    def now(self) -> datetime: ...

    def spool(self) -> SpooledBytes: ...

    def keep(self, group: RecordGroup, /) -> None: ...
