"""The data types for attachments: files inside a document, such as a news article or a mail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from protocols.errors import ResolveError
from protocols.location import Entry, Url


class FilePart(NamedTuple):
    """The part number and byte range of an attachment that is one part of a file (multi-part post).

    `total` is the number of parts of the file, if known. `begin` is the offset of this part in the file, in
    bytes. `size` is the size of the complete file. `crc32` is the checksum of the complete file, if known.
    """

    number: int
    total: int | None
    begin: int
    size: int
    crc32: int | None


class Attachment(NamedTuple):
    """A file in a document.

    - `name` is the unchanged file name in the document, or None if the document has no name. The name is
      untrusted (S14).
    - `part` is set if the attachment contains only a part of the file.
    - `verified` lists the names of the checks that succeeded. The names are the same as in `Saved.verified`.
    - `error` is set if the content is incomplete or damaged.
    """

    name: bytes | None
    media_type: str | None
    content: bytes
    part: FilePart | None = None
    verified: tuple[str, ...] = ()
    error: ResolveError | None = None


class PartsListing(NamedTuple):
    """A search for the other parts of a file: the URL of the listing, and the range of articles.

    The search covers articles with numbers below `before`, at most the newest `entries` articles. The file
    has `total` parts.
    """

    url: Url
    total: int
    entries: int
    before: int


class Post(Protocol):
    """A parser for a document with attachments, without I/O. The methods raise `ResolveError`."""

    def read_attachments(self) -> Sequence[Attachment]:
        """Return the attachments in document order."""
        ...

    def list_parts(self, part: FilePart) -> PartsListing:
        """Return the listing that contains the other parts of a file."""
        ...

    def find_parts(self, part: FilePart, entries: Iterable[Entry]) -> Mapping[int, Url]:
        """Return the URLs of the other parts in the listing, by part number."""
        ...


#: A function that parses a document. Arguments: the URL, the bytes, and the limits `line` and `lines`.
ReadPost: TypeAlias = Callable[..., Post]
