"""The attachments of a document that holds several files, as a scheme reports them to its caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from protocols.errors import ResolveError
from protocols.location import Entry, Url


class FilePart(NamedTuple):
    """The place of an attachment in a file that several documents hold.

    `total` is the number of parts, if known. `begin` is the offset of the bytes in the file, `size` the size
    of the file, and `crc32` the checksum of the file, if known.
    """

    number: int
    total: int | None
    begin: int
    size: int
    crc32: int | None


class Attachment(NamedTuple):
    """A file in a document.

    - `name` is the name as its author wrote it, None without one. It is untrusted (S14).
    - `part` is set if the content is only a part of the file.
    - `verified` lists the checks that succeeded, with the names of `Saved.verified`.
    - `error` is set if the content is incomplete or damaged.
    """

    name: bytes | None
    media_type: str | None
    content: bytes
    part: FilePart | None = None
    verified: tuple[str, ...] = ()
    error: ResolveError | None = None


class PartsListing(NamedTuple):
    """The listing that names the other parts of a file: its URL, and which of its items are near.

    The newest `entries` items with numbers below `before` are near. The file has `total` parts.
    """

    url: Url
    total: int
    entries: int
    before: int


class Post(Protocol):
    """A document with attachments: a machine without I/O. Methods raise `ResolveError`."""

    def read_attachments(self) -> Sequence[Attachment]:
        """Return the attachments in document order."""
        ...

    def list_parts(self, part: FilePart) -> PartsListing:
        """Return the listing in which the other parts of a file are found."""
        ...

    def find_parts(self, part: FilePart, entries: Iterable[Entry]) -> Mapping[int, Url]:
        """Return the URLs of the other parts that the listing has, by their numbers."""
        ...


#: Takes the URL of a document, its bytes, and the limits `line` and `lines`.
ReadPost: TypeAlias = Callable[..., Post]
