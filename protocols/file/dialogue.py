"""What is done for a file URL: one thing is opened. Only then is it known what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from protocols.file.document import give_document
from protocols.file.url import FileUrl
from protocols.location import Kind
from protocols.options import Limits, Options
from protocols.step import Dialogue, OpenFile, PlanNote

if TYPE_CHECKING:  # a plan opens nothing
    from protocols.contract import LocalFile


class _RehearsedFile:
    """What a plan opens: a file of which nothing is known."""

    kind = Kind.DOCUMENT
    size = modified = None

    @property
    def status(self) -> _RehearsedFile:
        return self


def read_file(url: FileUrl, options: Options | None = None, limits: Limits | None = None) -> Dialogue[None]:
    """A reply of kind document or directory. `NotFound` where there is nothing, and for a file where the URL
    wants a directory; `AccessDenied`, `Refused` (S12), `LocalError`."""
    file = cast("LocalFile", (yield OpenFile(url.segments, cast("LocalFile", _RehearsedFile()))))
    yield PlanNote("a directory gives the names in it, one a line; an empty last segment wants a directory")
    if file.status.kind is Kind.DIRECTORY:
        from protocols.file.directory import give_directory  # a plan has none

        yield from give_directory(url, file)
    else:
        # The table of types takes 30 ms to read, and a plan shows none.
        name = b"" if isinstance(file, _RehearsedFile) else url.segments[-1]
        yield from give_document(name, file, options or Options())
