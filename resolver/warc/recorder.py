"""The recorder of an archive: `Recorder`, its files with their index, and each hop as a capture."""

from __future__ import annotations

import os
import os.path
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, TypeVar
from uuid import uuid4

from protocols.contract import Body, Options, Reply, Sink, Url
from protocols.errors import LocalError, NotConfigured, ResolveError
from protocols.step import Dialogue
from resolver.files.archive import ArchiveOutput, ByteSpool, open_archive, put_beside
from resolver.loops import running
from resolver.network.mask import Mask
from resolver.network.url_gate import UrlGate
from resolver.transfer.redirects import RetrievalRequest
from resolver.url import registry
from resolver.version import VERSION
from resolver.warc.capture import Capture
from resolver.warc.group import CapturedObject, CaptureSubject, RecordGroup, fields_block
from resolver.warc.http import target_of
from resolver.warc.index import IndexBuilder, IndexLine, RevisitOriginal, Revisits
from resolver.warc.records import DamagedSpan, RecordHead, read_records
from resolver.warc.writing import Fields, RecordBlock, Writer

if TYPE_CHECKING:
    from resolver.network.mask import Mask
    from resolver.warc.index import EarlierArchives


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
    def open_transaction(self) -> Iterator[None]:
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


#: Octets from which on a capture begins another file (WARC 1.1, Annex C).
SIZE = 1_000_000_000

_FORMAT = "WARC File Format 1.1"
_CONFORMS = "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"
_PROFILE = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
_FIELDS = "application/warc-fields"
_NAME = re.compile(r"(.*?)(\.warc(?:\.gz)?)", re.DOTALL)


class Recorder:
    """Keeps what is fetched in `path`, which ends in `.warc.gz`, or in `.warc` where nothing is to be packed:
    a new file, or one of ours that is gone on with. From `size` octets on there are others, `NAME-00001` and
    so on; beside each there is an index, `NAME.cdxj`. It is made before the first URL is fetched and
    closed after the last, or is a context that does so. `policy` and `command` say in the file how it came to
    be; what is secret does not belong in them. With `sync` each capture is on the disk before it counts.
    `dedup` are indexes (CDXJ, CDX) of earlier archives, which are beside them: what has the payload of a
    record there refers to it, and is not kept again. With `once` what the file has of an earlier run is not
    kept again: the same URL with the same status and payload. Cookies that answers set are `****` but with
    `cookies`. A file that is made is for its owner alone, or for whom `mode` says less the user's mask, and
    so is its index; one that is there stays as it is.

    Raises `NotConfigured` for another name, `LocalError` where the file is another's, is damaged, is being
    written, or cannot be, and where an index cannot be read.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        size: int = SIZE,
        sync: bool = False,
        policy: str = "",
        command: str = "",
        dedup: Sequence[str | os.PathLike[str]] = (),
        cookies: bool = False,
        mode: int = 0o600,
        once: bool = False,
    ) -> None:
        self.path = os.fspath(path)
        found = _NAME.fullmatch(self.path)
        if found is None or not os.path.basename(found[1]):
            raise NotConfigured(f"{self.path!r}: the name of an archive ends in .warc.gz, or in .warc")
        self._stem, self._ending = found[1], found[2]
        self._directory = os.path.dirname(self.path) or "."
        self._size, self._sync = size, sync
        self._policy, self._command = policy, command
        self.keeps_cookies, self._mode = cookies, mode
        self._lock = Lock()
        self._flushing = Lock()  # whoever has both took this one first
        self._kept = self._flushed = 0
        self._revisits = Revisits()
        self._once = once
        self._earlier = _open_earlier([os.fspath(each) for each in dedup])
        try:
            self._open()
        except BaseException:
            if self._earlier is not None:
                self._earlier.close()
            raise

    def _open(self) -> None:
        """The last file of those that an earlier run came to, or the one behind it."""
        self._number = 0
        while os.path.exists(self._name(self._number + 1)):
            self._number += 1
        self._volume = WarcVolume(self._name(self._number), self._mode)
        self.cut = self._volume.cut
        try:
            if self._volume.size >= self._size:
                self._volume.close()
                self._number += 1
                self._volume = WarcVolume(self._name(self._number), self._mode)
            self._there = Counter(self._earlier_rows() if self._once else ())
            self._info = self._write_info()
        except BaseException:
            self._volume.close()
            raise

    def _earlier_rows(self) -> Iterator[tuple[str, int | None, str | None]]:
        """Of the file that is gone on with, and of the one before it: what was under way when a run was
        killed is in no other."""
        before = rows_in(self._name(self._number - 1)) if self._number else ()
        for row in chain(before, self._volume.rows):
            yield row.url, row.status, row.digest

    @property
    def unread(self) -> int:
        """Lines of the indexes for `dedup` that told nothing of use."""
        return 0 if self._earlier is None else self._earlier.unread

    def recording(self, mask: Mask, attempt: int) -> CaptureRecording:
        """The captures of one try."""
        return CaptureRecording(self, mask, attempt)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Nothing more is kept; the index is written."""
        with self._flushing, self._lock:
            self._volume.close()
            if self._earlier is not None:
                self._earlier.close()

    def begin(self, subject: CaptureSubject, mask: Mask) -> Capture:
        """What is kept of one hop, from now on."""
        return Capture(subject, self, mask)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def spool(self) -> ByteSpool:
        return ByteSpool(self._directory)

    def keep(self, group: RecordGroup) -> None:
        """All records of a capture, one behind the other. Raises `LocalError`."""
        if self._is_there(group):
            return
        if self._volume.size >= self._size:
            self._turn()
        with self._lock:
            with self._volume.open_transaction():
                self._write(group)
            self._kept += 1
            place = self._kept
        if self._sync:
            self._flush(place)

    def _is_there(self, group: RecordGroup) -> bool:
        """Has a run that was killed kept this, and no more of it?"""
        kept = group.object
        if kept is None:
            return False
        key = (group.subject.target, kept.status, kept.digest)
        with self._lock:
            if not self._there[key]:
                return False
            self._there[key] -= 1
        return True

    def _flush(self, place: int) -> None:
        """So many captures are on the disk, and with them all that others kept while the disk was busy."""
        with self._flushing:
            if self._flushed < place:
                kept = self._kept
                self._volume.sync()
                self._flushed = kept

    def _write(self, group: RecordGroup) -> None:
        first = None if group.object is None else self._keep_object(group, group.object)
        fields: Fields = [] if first is None else [("WARC-Concurrent-To", first)]
        if group.request is not None:
            type = "application/http;msgtype=request"
            self._volume.write("request", self._fields(group) + fields, type, group.request)
        metadata = RecordBlock.from_octets(group.metadata)
        self._volume.write("metadata", self._fields(group) + fields, _FIELDS, metadata)

    def _keep_object(self, group: RecordGroup, kept: CapturedObject) -> str:
        """The ID of its record."""
        fields = self._fields(group)
        id, target = fields[0][1], group.subject.target
        original = self._revisits.find(kept)
        if original is None and self._earlier is not None:
            original = self._earlier.find(kept)
            if original is not None:
                self._revisits.note(kept, original)
        if original is None:
            if kept.payload_digest is not None:
                fields.append(("WARC-Payload-Digest", kept.payload_digest))
            if kept.truncated is not None:
                fields.append(("WARC-Truncated", kept.truncated))
            offset, length = self._volume.write(kept.type, fields, kept.content_type, kept.block)
            self._revisits.note(kept, RevisitOriginal(id, target, _date(group.date)))
        else:
            fields += original.fields(_PROFILE, kept.digest)
            fields += [("WARC-Truncated", "length")] if kept.head else []
            type = kept.content_type if kept.head else None
            offset, length = self._volume.write("revisit", fields, type, RecordBlock.from_octets(kept.head))
        mime = kept.media_type if original is None else "warc/revisit"
        if kept.is_found:
            self._volume.index(IndexLine(target, group.date, mime, kept.status, kept.digest, length, offset))
        return id

    def _turn(self) -> None:
        """The next file, unless somebody else has turned to it meanwhile."""
        with self._flushing, self._lock:
            if self._volume.size < self._size:
                return
            if self._sync:
                self._volume.sync()
                self._flushed = self._kept
            self._volume.close()
            self._number += 1
            self._volume = WarcVolume(self._name(self._number), self._mode)
            self._info = self._write_info()

    def _name(self, number: int) -> str:
        return f"{self._stem}-{number:05d}{self._ending}" if number else self.path

    def _fields(self, group: RecordGroup) -> Fields:
        fields = [
            ("WARC-Record-ID", f"<urn:uuid:{uuid4()}>"),
            ("WARC-Date", _date(group.date)),
            ("WARC-Target-URI", group.subject.target),
            ("WARC-Warcinfo-ID", self._info),
        ]
        if group.address is not None:
            fields.append(("WARC-IP-Address", group.address.partition("%")[0]))
        fields += [("WARC-Protocol", word) for word in group.protocols]
        if group.cipher:
            fields.append(("WARC-Cipher-Suite", group.cipher))
        return fields

    def _write_info(self) -> str:
        lines = [f"software: url-resolver/{VERSION}", f"format: {_FORMAT}", f"conformsTo: {_CONFORMS}"]
        if self._policy:
            lines.append(f"policy: {self._policy}")
        if self._command:
            lines.append(f"command: {self._command}")
        lines.append("dialogue-format: 1")
        id = f"<urn:uuid:{uuid4()}>"
        fields = [
            ("WARC-Record-ID", id),
            ("WARC-Date", _date(self.now())),
            ("WARC-Filename", self._volume.name),
        ]
        with self._volume.open_transaction():
            self._volume.write("warcinfo", fields, _FIELDS, RecordBlock.from_octets(fields_block(lines)))
        return id


def _open_earlier(indexes: list[str]) -> EarlierArchives | None:
    if not indexes:
        return None
    from resolver.warc.index import EarlierArchives  # few runs have indexes, and it needs a database

    return EarlierArchives(indexes)


def _date(moment: datetime) -> str:
    return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


T = TypeVar("T")


class CaptureRecording:
    """The captures of one try: at most one at a time is under way."""

    def __init__(self, recorder: Recorder, mask: Mask, attempt: int) -> None:
        self._recorder = recorder
        self._mask = mask
        self._attempt = attempt
        self._capture: Capture | None = None

    def begin(self, request: RetrievalRequest, url_gate: UrlGate, via: str | None = None) -> None:
        """All that is said from now on is kept. `via` has redirected to it."""
        row = url_gate.row
        assert row is not None, "a dialogue is of a scheme"
        url = request.url
        is_redirect = via is not None
        if via is None and request.referrer is not None:
            via = request.referrer.url
        hide = self._mask.hide_in_text if is_redirect else str
        subject = CaptureSubject(
            target=target_of(url, has_user=row.userinfo, hide=hide),
            shown=self._mask.hide_in_text(url.shown),
            origin=request.origin,
            attempt=self._attempt,
            via=None if via is None else self._mask.hide_in_text(via),
            hop="R" if is_redirect else "" if via is None else "L",
            kept_as=row.kept_as,
            listing_kept=row.listing_kept,
            protocol=row.archived_as,
            wants=request.options.want,
        )
        self._capture = self._recorder.begin(subject, self._mask)
        url_gate.tap(self._capture)

    def watch_dialogue(self, dialogue: Dialogue[T]) -> Dialogue[T]:
        """The same dialogue, of which each step is looked at."""
        return dialogue if self._capture is None else self._capture.watch_dialogue(dialogue)

    @staticmethod
    def options(url: Url, options: Options) -> Options:
        """What is asked for is asked for so that all of it can be kept as it comes: by nobody else's side, in
        no frames, with the body of a refusal, and from its beginning where a part does not say that it is
        one."""
        row = registry.find(url.scheme)
        if (options.start or options.stop is not None) and (row is None or row.kept_as != "exchange"):
            options = replace(options, start=0, stop=None)
        return replace(options, refusals=True, http2=None, prompt=False)

    def body_of(self, reply: Reply) -> Reply:
        """The same, with a body of which each octet that is read is kept."""
        return reply if self._capture is None else reply.with_body(RecordedBody(reply.body, self._capture))

    async def refuse(self, reply: Reply, error: ResolveError, most: int) -> NoReturn:
        """Raise the error that an answer stands for, when what the peer says to it was kept, too: at most so
        many octets, and as far as it comes."""
        count = 0
        with suppress(ResolveError):
            async for octets in reply.body:
                count += len(octets)
                if count > most:
                    break
        raise error

    async def conclude(self) -> None:
        """The same as `end` where nothing failed, in a thread: to pack, and a disk that stands still, keeps
        nobody else waiting. A connection that is closed meanwhile is told of or not."""
        if self._capture is None:
            return
        try:
            await running().in_thread(self._capture.end, None)
        finally:
            self.end(None)  # what a cancel kept from beginning

    def end(self, error: BaseException | None, *, late: bool = False) -> None:
        """The hop is over, and all of it written. Raises `LocalError` where the disk takes no more."""
        capture, self._capture = self._capture, None
        if capture is not None:
            capture.end(error, late=late)


class RecordedBody:
    """A body of which each octet is kept as it is read; it is never moved past that in bulk."""

    def __init__(self, body: Body, capture: Capture) -> None:
        self._body = body
        self._capture = capture

    def __aiter__(self) -> RecordedBody:
        return self

    async def __anext__(self) -> bytes:
        try:
            octets = await anext(self._body)
        except StopAsyncIteration:
            self._capture.body_ended()
            raise
        self._capture.record_body(octets)
        return octets

    async def drain(self, sink: Sink) -> int:
        count = 0
        async for octets in self:
            sink.write(octets)
            count += len(octets)
        return count
