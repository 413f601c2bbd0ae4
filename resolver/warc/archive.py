"""Archives to fetch from: `Archive`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from types import TracebackType

from protocols.errors import LocalError, NotFound
from protocols.location import Url
from resolver.disk.archive_file import open_archive
from resolver.warc.block import RecordPosition, open_block
from resolver.warc.catalogue import Catalogue, CatalogueRecord, latest
from resolver.warc.head import RecordHead
from resolver.warc.joining import AnswerPart, AnswerPiece, joined_with
from resolver.warc.message import MOST_HEAD, find_answer
from resolver.warc.moment import read_moment
from resolver.warc.stretch import Budget
from resolver.warc.target import sought_as
from resolver.warc.told import Json, ReplayedConnection, end_of, read_events, ways_of

#: Octets of one member that are unpacked again for each one that it has in the file: some four times the
#: densest, as it is read for its head, its facts and its octets, and some hundred times what is usual.
_MOST_TIMES = 4_096


class Archive:
    """The files `paths`, WARC of whoever wrote them, from which is served what a `Resolver(archive=…)` is
    asked for: no packet is sent. Of several captures of a URL it is the latest, or with `at` the latest of
    until then: a datetime, or text as `--at` takes it. What is truncated is taken only where nothing whole
    is. They are read once, from end to end, when this is made; it is closed in the end, or is a context that
    does so.

    Raises `LocalError` where a file is none of WARC, or cannot be read, and `NotConfigured` for what is no
    time.
    """

    def __init__(self, paths: Sequence[str | os.PathLike[str]], *, at: datetime | str | None = None) -> None:
        self.at = read_moment(at) if isinstance(at, str) else at
        if self.at is not None and self.at.tzinfo is None:
            self.at = self.at.replace(tzinfo=UTC)
        self._catalogue = Catalogue([])
        self._opened = ExitStack()
        try:
            for path in paths:
                self._read(os.fspath(path))
        except BaseException:
            self.close()
            raise

    def _read(self, path: str) -> None:
        try:
            self._catalogue.read(self._opened.enter_context(open_archive(path)))
        except LocalError as error:
            raise LocalError(f"{path}: {error.message}") from error

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Nothing more is served."""
        self._opened.close()

    def find(self, url: Url, *, wants_facts: bool = False) -> FoundCapture:
        """What there is of a URL. Raises `NotFound`."""
        catalogue, sought = self._catalogue, sought_as(url)
        objects, failed = catalogue.objects(sought), catalogue.alone(sought, "failed")
        facts = catalogue.alone(sought, "info") if wants_facts else []
        for candidates in ([*objects, *facts], failed):
            if (taken := latest(candidates, self.at)) is not None:
                parts = [] if taken.is_whole else catalogue.parts(sought, taken.date, self.at)
                return FoundCapture(catalogue, taken, parts)
        if found := [*objects, *failed]:
            first = min(each.date for each in found)
            raise NotFound(
                f"not in the archive by then: its first capture is of {first:%Y-%m-%dT%H:%M:%SZ} (--at)"
            )
        raise NotFound(_nothing(catalogue, sought))


def _nothing(catalogue: Catalogue, sought: str) -> str:
    other = sought.removesuffix("/") if sought.endswith("/") else f"{sought}/"
    if catalogue.objects(other):
        return f"not in the archive, which has {other}"
    return "not in the archive: `resolve warc ls FILE` tells what is"


class FoundCapture:
    """One capture. `address` is that of the peer that it came from."""

    def __init__(self, catalogue: Catalogue, taken: CatalogueRecord, parts: list[CatalogueRecord]) -> None:
        self._catalogue = catalogue
        self._taken = taken
        self._parts = parts
        self._budgets: dict[RecordPosition, Budget] = {}
        self.date = taken.date
        self.has_object = taken.type != "metadata"

    @cached_property
    def head(self) -> RecordHead:
        """That of its record."""
        return self._open(self._taken.seat)[0]

    @property
    def address(self) -> str | None:
        return self.head.first("WARC-IP-Address")

    @property
    def is_whole(self) -> bool:
        """With what it was gone on with."""
        if self._joined is not None:
            return True
        return self._taken.is_whole and (self._original is None or self._original.is_whole)

    @cached_property
    def _joined(self) -> list[AnswerPiece] | None:
        if not self._parts:
            return None
        return joined_with(self._part(self._taken), [self._part(each) for each in self._parts])

    def _part(self, taken: CatalogueRecord) -> AnswerPart:
        return AnswerPart(taken.length, lambda: self._open(taken.seat)[1])

    @cached_property
    def _original(self) -> CatalogueRecord | None:
        if self._taken.type != "revisit":
            return None
        found = self._catalogue.original(self.head)
        if found is None:
            wanted = self.head.first("WARC-Refers-To-Target-URI") or self.head.first("WARC-Refers-To") or "?"
            raise NotFound(
                f"the archive says that it was the same as {wanted}, which is in no file that was given"
            )
        return found

    @property
    def object_head(self) -> RecordHead:
        """That of the record that has its octets."""
        original = self._original
        return self.head if original is None else self._open(original.seat)[0]

    def block(self) -> Iterator[bytes]:
        """Its octets; of http head and body. Raises `NotFound` where they are in another file."""
        original = self._original
        if original is None:
            own = self._open(self._taken.seat)[1]
            return chain(own, *(each.part.behind(each.skipped) for each in self._joined or ()))
        pieces = self._open(original.seat)[1]
        if not self._has_head:
            return pieces
        return _behind(b"".join(self._open(self._taken.seat)[1]), pieces)

    @property
    def _has_head(self) -> bool:
        return self.head.media_type == "application/http" and 0 < self.head.length <= MOST_HEAD

    def _open(self, seat: RecordPosition) -> tuple[RecordHead, Iterator[bytes]]:
        """See `open_block`. What is unpacked for one capture has a budget for each member: an answer may have
        been gone on with any number of times, all in one."""
        member = seat._replace(number=0)
        if (budget := self._budgets.get(member)) is None:
            budget = self._budgets[member] = Budget(seat.offset, times=_MOST_TIMES)
        return open_block(self._catalogue.sources[seat.file], seat, budget)

    @cached_property
    def events(self) -> list[Json]:
        """What was said, where that was kept, too."""
        seat = self._catalogue.told(self._taken)
        if seat is None:
            return []
        return read_events(self._open(seat)[1])

    @property
    def end(self) -> Json:
        return end_of(self.events)

    @cached_property
    def ways(self) -> list[ReplayedConnection]:
        """What came on which connection."""
        return ways_of(self.events)

    @cached_property
    def exchanges(self) -> list[ReplayedConnection]:
        """Those of them in datagrams."""
        return [way for way in self.ways if way.transport == "udp" and way.heard]


def _behind(own: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The head that a revisit has, with the body of what it refers to; all of that, where the two frame their
    bodies in different ways, or this is only told not to have changed."""
    held, theirs = b"", None
    for piece in pieces:
        held += piece
        theirs = find_answer(held)
        if theirs is not None or len(held) > MOST_HEAD:
            break
    ours = find_answer(own)
    fits = (
        theirs is not None
        and ours is not None
        and ours.status == theirs.status
        and ours.coded == theirs.coded
    )
    if fits and theirs is not None and ours is not None:
        yield ours.head
        held = held[theirs.interim + len(theirs.head) :]
    yield held
    yield from pieces
