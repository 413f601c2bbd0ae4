"""One file of an archive that is written: made, or gone on with; and the index beside it."""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from protocols.errors import LocalError
from resolver.disk.archive_file import open_archive
from resolver.disk.archive_output import ArchiveOutput, put_beside
from resolver.warc.head import RecordHead
from resolver.warc.index import IndexBuilder, IndexLine
from resolver.warc.records import DamagedSpan, read_records
from resolver.warc.writing import Fields, RecordBlock, Writer

_OURS = b"software: url-resolver/"
_MOST_INFO = 65_536


class WarcVolume:
    """`mode` is that of a file that is made. `cut` is how many octets a run that was cut off left behind its
    last whole record; they are gone.

    Raises `LocalError` where the file is another's, is damaged, is being written, or cannot be.
    """

    def __init__(self, path: str, mode: int = 0o600) -> None:
        self.path = path
        self.cut = 0
        self._rows: list[IndexLine] = []
        self._file = ArchiveOutput(path, mode)
        try:
            self._go_on()
            self._writer = Writer(self._file, packed=path.endswith(".gz"))
        except BaseException:
            self._file.close()
            raise

    @property
    def size(self) -> int:
        return self._file.size

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    def write(
        self, type: str, fields: Fields, content_type: str | None, block: RecordBlock
    ) -> tuple[int, int]:
        """One record of those that are written `together`; where it begins, and how long it is there."""
        begin = self._file.size
        self._writer.write(type, fields, content_type, block)
        return begin, self._file.size - begin

    @contextmanager
    def together(self) -> Iterator[None]:
        """All records that are written meanwhile, or none: what was begun when a disk was full would be
        damage in the midst of a file."""
        begin, rows = self._file.size, len(self._rows)
        try:
            yield
            self._file.settle()
        except BaseException:
            del self._rows[rows:]
            self._file.cut(begin)
            raise

    @property
    def rows(self) -> Sequence[IndexLine]:
        """Those of the index so far."""
        return self._rows

    def index(self, row: IndexLine) -> None:
        """It has its line in the index."""
        self._rows.append(row)

    def sync(self) -> None:
        """All of it is on the disk."""
        self._file.sync()

    def close(self) -> None:
        """The index is written, sorted by octets, and the file is free for another run."""
        try:
            lines = sorted(row.line(self.name) for row in self._rows)
            put_beside(self.path.removesuffix(".gz").removesuffix(".warc") + ".cdxj", lines, self._file.mode)
        finally:
            self._file.close()

    def _go_on(self) -> None:
        if not self._file.size:
            return
        end, number = 0, 0
        for found in read_records(self._file.source, _IndexedRecord):
            if isinstance(found, DamagedSpan):
                if not number or found.resumes is not None:
                    raise LocalError(
                        f"the archive {self.path!r} is damaged at octet {found.offset}, and is not touched: "
                        "resolve warc check says more"
                    )
                end = found.offset
                break
            if not number and not found.reader.is_ours:
                raise LocalError(f"{self.path!r} is an archive that another program began: name another file")
            if (row := found.reader.index.row(found.offset, found.end - found.offset)) is not None:
                self._rows.append(row)
            end, number = found.end, number + 1
        self.cut = self._file.size - end
        if self.cut:
            self._file.cut(end)


def rows_in(path: str) -> Iterator[IndexLine]:
    """What the index of a file has, by its records. Raises `LocalError` where it cannot be read."""
    with open_archive(path) as file:
        for found in read_records(file, _IndexedRecord):
            if not isinstance(found, DamagedSpan):
                row = found.reader.index.row(found.offset, found.end - found.offset)
                yield from () if row is None else (row,)


class _IndexedRecord:
    """What is to be known of a record that is there."""

    def __init__(self, head: RecordHead) -> None:
        self.index = IndexBuilder(head)
        self._is_info = head.type == "warcinfo"
        self._octets = b""

    def take(self, octets: bytes) -> None:
        self.index.take(octets)
        if self._is_info and len(self._octets) < _MOST_INFO:
            self._octets += octets

    @property
    def is_ours(self) -> bool:
        """Does a program of ours say that it began the file?"""
        return any(line.startswith(_OURS) for line in self._octets.splitlines())
