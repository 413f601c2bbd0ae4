"""The recorder, which writes an archive with a capture for each redirect, and an index for each file."""

from __future__ import annotations

import os
import os.path
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from threading import Lock
from typing import TypeVar
from uuid import uuid4
from zlib import compressobj, decompressobj

from protocols.contract import Body, Options, Reply, Sink, Url
from protocols.errors import LocalError, NotConfigured
from protocols.step import Dialogue
from resolver.files.archive import ArchiveOutput, ByteSpool, open_archive
from resolver.loops import running
from resolver.network.mask import Mask
from resolver.network.url_gate import UrlGate
from resolver.transfer.redirects import RetrievalRequest
from resolver.url import registry
from resolver.version import VERSION
from resolver.warc.capture import Capture
from resolver.warc.group import CapturedObject, CaptureSubject, RecordGroup
from resolver.warc.http import make_target
from resolver.warc.index import EarlierArchives, IndexBuilder, IndexLine, RevisitOriginal, Revisits, make_key
from resolver.warc.records import GZIP, GZIP_ONLY, DamagedSpan, RecordHead, read_records
from resolver.warc.writing import Fields, RecordBlock, fields_block

_SOFTWARE = b"software: url-resolver/"
_MAX_INFO = 65_536
_INFO, _BEGIN = b"WARC/1.1\r\nWARC-Type: warcinfo\r\n", 512
_RECORD_END = fields_block(["", ""])

#: The size in bytes below which a block is written together with its head, in one piece.
_MAX_JOINED = 1_048_576


class WarcVolume:
    """A file of an archive, open for appending.

    Attributes:
        cut: The number of bytes that were removed because an interrupted run left an incomplete record.
        rows: The lines of the CDXJ index of this file.

    Raises:
        LocalError: Another program created the file, another run has locked the file, or the file is damaged
            or not writable.
    """

    def __init__(self, path: str, mode: int = 0o600) -> None:
        self.path = path
        self.cut = 0
        self.rows: list[IndexLine] = []
        self._file = ArchiveOutput(path, mode)
        try:
            self._read_existing()
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
        self, type: str, id: str, fields: Fields, content_type: str | None, block: RecordBlock
    ) -> tuple[int, int]:
        """Write a record in an open transaction, and return its offset and length in the file.

        `fields` must not contain the type, the ID, and the fields about the block. In a compressed file, each
        record is a separate gzip member.
        """
        begin = self._file.size
        written = ["WARC/1.1", f"WARC-Type: {type}", f"WARC-Record-ID: {id}", *fields]
        written.append(f"WARC-Block-Digest: {block.digest()}")
        if content_type is not None:
            written.append(f"Content-Type: {content_type}")
        head = fields_block([*written, f"Content-Length: {block.size}", ""])
        pieces: Iterable[bytes] = chain((head,), block.pieces(), (_RECORD_END,))
        if block.size < _MAX_JOINED:
            pieces = (b"".join(pieces),)
        # For 600 web pages, level 9 of zlib takes 1.5 times as long as the default level, and saves 0.5 %.
        member = compressobj(wbits=GZIP_ONLY) if self.path.endswith(".gz") else None
        for octets in pieces:
            self._file.write(octets if member is None else member.compress(octets))
        if member is not None:
            self._file.write(member.flush())
        return begin, self._file.size - begin

    @contextmanager
    def open_transaction(self) -> Iterator[None]:
        """Start a transaction; after an error, no record of the `with` block stays in the file.

        Without transactions, a full disk could leave an incomplete record in the middle of the file.
        """
        begin, rows = self._file.size, len(self.rows)
        try:
            yield
            self._file.flush()
        except BaseException:
            del self.rows[rows:]
            self._file.cut(begin)
            raise

    def sync(self) -> None:
        """Sync the file to the disk."""
        self._file.sync()

    def write_index(self) -> None:
        """Write the index, sorted by bytes."""
        name = self.name
        lines = sorted(row.encode(name) for row in self.rows)
        index = self.path.removesuffix(".gz").removesuffix(".warc") + ".cdxj"
        self._file.replace_index(index, lines, IndexLine.make_ending(name))

    def release(self) -> None:
        """Close the file, and release the lock on the file."""
        self._file.close()

    def close(self) -> None:
        """Write the index, and release the file."""
        try:
            self.write_index()
        finally:
            self.release()

    def _read_existing(self) -> None:
        if not self._file.size:
            return
        end, number = 0, 0
        for item in read_records(self._file.source, _IndexedRecord):
            if isinstance(item, DamagedSpan):
                # A killed run may leave a part of the first record, which has no capture.
                is_known = number > 0 or (item.is_cut and self._begins_with_info())
                if not is_known or item.resumes is not None:
                    raise LocalError(
                        f"the archive {self.path!r} is damaged at byte {item.offset} and was not changed "
                        "(resolve warc check shows details)"
                    )
                end = item.offset
                break
            if not number and not item.reader.is_own:
                raise LocalError(f"{self.path!r} is an archive of another program (choose another file)")
            if (row := item.reader.index.make_line(item.offset, item.end - item.offset)) is not None:
                self.rows.append(row)
            end, number = item.end, number + 1
        self.cut = self._file.size - end
        if self.cut:
            self._file.cut(end)

    def _begins_with_info(self) -> bool:
        """Return whether the first bytes of the file are those of a warcinfo record."""
        octets = self._file.source.read_at(0, _BEGIN)
        if octets.startswith(GZIP):
            octets = decompressobj(GZIP_ONLY).decompress(octets, _BEGIN)
        return octets[: len(_INFO)] == _INFO[: len(octets)]


def read_index_lines(path: str) -> Iterator[IndexLine]:
    """Read the records of a file and yield their index lines.

    Raises:
        LocalError: The file cannot be read.
    """
    with open_archive(path) as file:
        for item in read_records(file, _IndexedRecord):
            if not isinstance(item, DamagedSpan):
                row = item.reader.index.make_line(item.offset, item.end - item.offset)
                yield from () if row is None else (row,)


class _IndexedRecord:
    """A block reader for an existing record, which builds the index line of the record."""

    def __init__(self, head: RecordHead) -> None:
        self.index = IndexBuilder(head)
        self._is_info = head.type == "warcinfo"
        self._octets = b""

    def take(self, octets: bytes) -> None:
        self.index.take(octets)
        if self._is_info and len(self._octets) < _MAX_INFO:
            self._octets += octets

    @property
    def is_own(self) -> bool:
        """Return whether this package wrote the first record of the file."""
        return any(line.startswith(_SOFTWARE) for line in self._octets.splitlines())


#: The default maximum size of a file in bytes, after which the next capture starts a new file (WARC 1.1,
#: Annex C).
SIZE = 1_000_000_000

#: The maximum size in bytes of an object that is recorded without a worker thread. The compression of 32 KiB
#: takes 0.7 ms; a thread costs 0.3 ms for each record. The records go to the page cache of the system.
_MAX_UNTHREADED = 32_768

_FORMAT = "WARC File Format 1.1"
_CONFORMS = "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"
_PROFILE = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
_FIELDS = "application/warc-fields"
_NAME = re.compile(r"(.*?)(\.warc(?:\.gz)?)", re.DOTALL)


class Recorder:
    """A writer of retrieved objects to an archive.

    Create the recorder before the first URL is fetched, and close it after the last URL, or use it as a
    context manager. The index of each file is `NAME.cdxj` in the same directory.

    Args:
        path: The name of a new file, or of a file of this package to which records are appended. The name
            ends in `.warc.gz`, or in `.warc` for an uncompressed archive.
        size: The size in bytes after which a new file is started. The new files have the names `NAME-00001`
            and so on.
        sync: Whether each capture is synced to the disk before it is reported as written.
        policy: The policy of the run as text without secrets, which is stored in the file.
        command: The command of the run as text without secrets, which is stored in the file.
        dedup: The indexes (CDXJ, CDX) of earlier archives for deduplication. An index must be in the same
            directory as its archive. If an earlier archive contains a record with the same payload as an
            object, a reference to the record (a revisit) is written instead of the object.
        cookies: Whether the values of cookies in responses are stored, and not replaced by `****`.
        mode: The permissions of new files and indexes, from which the umask is subtracted. By default only
            the owner has access to the files. An existing file keeps its permissions.
        once: Whether to skip an object that an earlier run stored in the file, with the same URL, status and
            payload.

    Raises:
        NotConfigured: `path` does not end in `.warc.gz` or `.warc`.
        LocalError: Another program created the file, another run has locked the file, the file is damaged or
            not writable, the index belongs to an archive with the other ending, or an index is not readable.
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
        match = _NAME.fullmatch(self.path)
        if match is None or not os.path.basename(match[1]):
            raise NotConfigured(f"{self.path!r}: the name of an archive must end in .warc.gz or .warc")
        self._stem, self._ending = match[1], match[2]
        self._directory = os.path.dirname(self.path) or "."
        self._size, self._sync = size, sync
        self._policy, self._command = policy, command
        self.keeps_cookies, self._mode = cookies, mode
        self._lock = Lock()
        self._flushing = Lock()  # To prevent a deadlock, `_flushing` is acquired before `_lock`.
        self._written = self._flushed = 0
        self._in_threads: set[Capture] = set()
        self._revisits = Revisits()
        self._once = once
        self._process: int | None = os.getpid()  # no process after `close`
        self._earlier = EarlierArchives([os.fspath(index) for index in dedup]) if dedup else None
        try:
            self._open()
        except BaseException:
            if self._earlier is not None:
                self._earlier.close()
            raise

    def _open(self) -> None:
        """Open the last file of an earlier run or, if that file is full, a new file."""
        twin = f"{self._stem}.warc{'' if self._ending.endswith('.gz') else '.gz'}"
        if os.path.exists(twin):
            raise LocalError(f"{twin!r} already has the index {self._stem + '.cdxj'!r} (choose another name)")
        self._number = 0
        while os.path.exists(self._make_name(self._number + 1)):
            self._number += 1
        self._volume = WarcVolume(self._make_name(self._number), self._mode)
        self.cut = self._volume.cut
        try:
            if self._volume.size >= self._size:
                self._volume.close()
                self._number += 1
                self._volume = WarcVolume(self._make_name(self._number), self._mode)
            self._earlier_captures = Counter(self._earlier_rows() if self._once else ())
            self._info = self._write_info()
        except BaseException:
            self._volume.close()
            raise

    def _earlier_rows(self) -> Iterator[tuple[str, int | None, str | None, str | None]]:
        """Yield the keys of the captures in the current file and in the previous file.

        A killed run wrote its last captures to one of these two files. The record of an interrupted download
        may have all bytes of the object, so the key contains the reason of the truncation.
        """
        before = read_index_lines(self._make_name(self._number - 1)) if self._number else ()
        for row in chain(before, self._volume.rows):
            yield row.url, row.status, row.digest, row.truncated

    @property
    def unread(self) -> int:
        """Return the number of lines without useful data in the `dedup` indexes."""
        return 0 if self._earlier is None else self._earlier.unread

    def recording(self, mask: Mask, attempt: int) -> CaptureRecording:
        """Return the recorder for the captures of one attempt.

        Raises:
            RuntimeError: The recorder is closed, or the process is a fork, whose records would make the
                parent's index wrong.
        """
        if os.getpid() != self._process:
            raise RuntimeError("the archive is closed, or was opened before the fork: create a new Recorder")
        return CaptureRecording(self, mask, attempt)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the recorder and write the index. Do nothing if it is closed, or in a forked process."""
        if os.getpid() != self._process:
            return
        self._process = None
        with self._flushing, self._lock:
            self._volume.close()
            if self._earlier is not None:
                self._earlier.close()

    async def conclude(self, capture: Capture) -> None:
        """End a capture in a worker thread if it is large or has to wait.

        It waits for a sync, for the index of a full file, for earlier archives, and for other threads.
        """
        must_wait = self._sync or self._earlier is not None or self._volume.size >= self._size
        if must_wait or self._in_threads or capture.size > _MAX_UNTHREADED:
            self._in_threads.add(capture)
            try:
                await running().in_thread(capture.end, None)
            finally:
                self._in_threads.discard(capture)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def spool(self) -> ByteSpool:
        return ByteSpool(self._directory)

    def write_group(self, group: RecordGroup) -> None:
        """Write all records of a capture consecutively. Raises `LocalError`."""
        if self._was_written(group):
            return
        if self._volume.size >= self._size:
            self._open_next()
        with self._lock:
            if not self._volume.size:
                self._info = self._write_info()
            with self._volume.open_transaction():
                original = self._write(group)
            if group.object is not None and original is not None:
                self._revisits.add(group.object, original)
            self._written += 1
            number = self._written
        if self._sync:
            self._flush(number)

    def _was_written(self, group: RecordGroup) -> bool:
        """Return whether an earlier run wrote the same capture; each earlier capture matches only once."""
        object = group.object
        if object is None or not self._earlier_captures:
            return False
        key = (group.subject.target, object.status, object.digest, object.truncated)
        with self._lock:
            if not self._earlier_captures[key]:
                return False
            self._earlier_captures[key] -= 1
        return True

    def _flush(self, number: int) -> None:
        """Sync the archive up to the capture with this number.

        One sync includes the captures that other threads wrote before the sync (group commit).
        """
        with self._flushing:
            if self._flushed < number:
                written = self._written
                self._volume.sync()
                self._flushed = written

    def _write(self, group: RecordGroup) -> RevisitOriginal | None:
        """Write the records, and return the record of the object, unless it is a revisit record."""
        record = RevisitOriginal(_make_id(), group.subject.target, _format_date(group.date))
        fields, is_new = self._make_fields(group, record), False
        if group.object is not None:
            is_new = self._write_object(group, group.object, record, [*fields])
            fields.append(f"WARC-Concurrent-To: {record.id}")
        if group.request is not None:
            type = "application/http;msgtype=request"
            self._volume.write("request", _make_id(), fields, type, group.request)
        metadata = RecordBlock.from_octets(group.metadata)
        self._volume.write("metadata", _make_id(), fields, _FIELDS, metadata)
        return record if is_new else None

    def _write_object(
        self, group: RecordGroup, object: CapturedObject, record: RevisitOriginal, fields: Fields
    ) -> bool:
        """Write the record of the object, and return whether it is not a revisit record."""
        original = self._revisits.find(object)
        if original is None and self._earlier is not None:
            original = self._earlier.find(object)
            if original is not None:
                self._revisits.add(object, original)
        if original is None:
            if object.payload_digest is not None:
                fields.append(f"WARC-Payload-Digest: {object.payload_digest}")
            if object.truncated is not None:
                fields.append(f"WARC-Truncated: {object.truncated}")
            offset, length = self._volume.write(
                object.type, record.id, fields, object.content_type, object.block
            )
        else:
            fields += original.fields(_PROFILE, object.digest)
            fields += ["WARC-Truncated: length"] if object.head else []
            type, head = object.content_type if object.head else None, RecordBlock.from_octets(object.head)
            offset, length = self._volume.write("revisit", record.id, fields, type, head)
        mime = object.media_type if original is None else "warc/revisit"
        if object.is_indexed:
            key, date = make_key(record.target, group.subject.url), group.date
            line = IndexLine(key, record.target, date, mime, object.status, object.digest, length, offset)
            self._volume.rows.append(line)
        return original is None

    def _open_next(self) -> None:
        """Open the next file if no other thread has opened it; after an error, the next capture tries."""
        with self._flushing, self._lock:
            if self._volume.size < self._size:
                return
            if self._sync:
                self._volume.sync()
                self._flushed = self._written
            self._volume.write_index()  # A later run opens only the last file, and writes only its index.
            full, self._volume = self._volume, WarcVolume(self._make_name(self._number + 1), self._mode)
            self._number += 1
            full.release()

    def _make_name(self, number: int) -> str:
        return f"{self._stem}-{number:05d}{self._ending}" if number else self.path

    def _make_fields(self, group: RecordGroup, record: RevisitOriginal) -> Fields:
        """Return the fields that all records of a capture have."""
        fields = [
            f"WARC-Date: {record.date}",
            f"WARC-Target-URI: {record.target}",
            f"WARC-Warcinfo-ID: {self._info}",
        ]
        if group.address is not None:
            fields.append(f"WARC-IP-Address: {group.address.partition('%')[0]}")
        fields += [f"WARC-Protocol: {word}" for word in group.protocols]
        if group.cipher:
            fields.append(f"WARC-Cipher-Suite: {group.cipher}")
        return fields

    def _write_info(self) -> str:
        lines = [f"software: url-resolver/{VERSION}", f"format: {_FORMAT}", f"conformsTo: {_CONFORMS}"]
        if self._policy:
            lines.append(f"policy: {self._policy}")
        if self._command:
            lines.append(f"command: {self._command}")
        lines.append("dialogue-format: 1")
        id, block = _make_id(), RecordBlock.from_octets(fields_block(lines))
        fields = [f"WARC-Date: {_format_date(self.now())}"]
        # A line end cannot be written in a field, and WARC 1.1 does not require WARC-Filename.
        if self._volume.name.isprintable():
            fields.append(f"WARC-Filename: {self._volume.name}")
        with self._volume.open_transaction():
            self._volume.write("warcinfo", id, fields, _FIELDS, block)
        return id


def _make_id() -> str:
    return f"<urn:uuid:{uuid4()}>"


def _format_date(moment: datetime) -> str:
    return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


T = TypeVar("T")


class CaptureRecording:
    """The captures of one attempt to retrieve a URL, written one after another."""

    def __init__(self, recorder: Recorder, mask: Mask, attempt: int) -> None:
        self._recorder = recorder
        self._mask = mask
        self._attempt = attempt
        self._capture: Capture | None = None

    def begin(self, request: RetrievalRequest, url_gate: UrlGate, via: str | None = None) -> None:
        """Start the capture of a request; `via` is the URL that redirected to the requested URL."""
        row = url_gate.row
        assert row is not None, "a dialogue has a scheme"
        url = request.url
        is_redirect = via is not None
        if via is None and request.referrer is not None:
            via = request.referrer.url
        hide = self._mask.hide_in_text if is_redirect else str
        target = make_target(url, has_user=row.userinfo, hide=hide)
        subject = CaptureSubject(
            target=target,
            shown=self._mask.hide_in_text(url.shown),
            origin=request.origin,
            attempt=self._attempt,
            via=None if via is None else self._mask.hide_in_text(via),
            hop="R" if is_redirect else "" if via is None else "L",
            row=row,
            wants=request.options.want,
            url=url if target == url.text else None,
        )
        self._capture = Capture(subject, self._recorder, self._mask)
        url_gate.tap(self._capture)

    def watch_dialogue(self, dialogue: Dialogue[T]) -> Dialogue[T]:
        """Return a dialogue that records each step of `dialogue`."""
        return dialogue if self._capture is None else self._capture.watch_dialogue(dialogue)

    @staticmethod
    def options(url: Url, options: Options) -> Options:
        """Return the options with which the complete bytes of an object can be archived.

        A download is resumed only over HTTP, because only the archived HTTP exchange shows that a response is
        a range.
        """
        if not options.start and options.stop is None:
            return options
        row = registry.find(url.scheme)
        is_exchange = row is not None and row.kept_as == "exchange"
        return options if is_exchange else replace(options, start=0, stop=None)

    def record_body(self, reply: Reply) -> Reply:
        """Return the reply; a body that is not recorded on the connection records each byte read."""
        if self._capture is not None and not self._capture.is_exchange:
            reply.body = RecordedBody(reply.body, self._capture)
        return reply

    async def conclude(self) -> None:
        """End a successful capture, as `end` does, without blocking other tasks for long.

        If a connection is closed at the same time, the recorded dialogue may lack the close.
        """
        if self._capture is None:
            return
        try:
            await self._recorder.conclude(self._capture)
        finally:
            self.end(None)  # A cancellation before the start of the thread must not lose the capture.

    def end(self, error: BaseException | None, *, late: bool = False) -> None:
        """End the capture and write its records.

        Raises:
            LocalError: The disk is full or fails.
        """
        capture, self._capture = self._capture, None
        if capture is not None:
            capture.end(error, late=late)


class RecordedBody:
    """A body that records each byte that is read; sendfile and splice are not used."""

    def __init__(self, body: Body, capture: Capture) -> None:
        self._body = body
        self._capture = capture

    def __aiter__(self) -> RecordedBody:
        return self

    async def __anext__(self) -> bytes:
        try:
            octets = await anext(self._body)
        except StopAsyncIteration:
            self._capture.record_body_end()
            raise
        self._capture.record_body(octets)
        return octets

    async def drain(self, sink: Sink) -> int:
        count = 0
        async for octets in self:
            sink.write(octets)
            count += len(octets)
        return count
