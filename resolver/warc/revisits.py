"""Payloads that were archived before, by this run or earlier archives, for revisit records (WARC 1.1, 6.7).

The key is the SHA-256 of the payload and its length; for a payload without a head of its own the media type,
too, and for HTTP answers whether they came in chunks. The URL may differ.
"""

from __future__ import annotations

import os.path
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import islice
from typing import NamedTuple

from protocols.errors import LocalError
from resolver.files.archive import open_archive
from resolver.url.parsing import redact
from resolver.warc.digests import Payload, read_claim
from resolver.warc.group import CapturedObject
from resolver.warc.index import CdxHint, read_hints
from resolver.warc.records import DamagedRecord, RecordHead, RecordSource, read_one
from resolver.warc.writing import Fields

#: Octets below which a record that refers to another is no shorter.
LEAST = 512
#: As many are known, the oldest forgotten first: some 500 MB.
MOST_KNOWN = 1_000_000

_OK = 200


class RevisitOriginal(NamedTuple):
    """A record that has the payload: its ID, its URL and its date as it has them."""

    id: str
    target: str
    date: str

    def fields(self, profile: str, digest: str) -> Fields:
        """What a record says that is the same as this one."""
        return [
            ("WARC-Profile", profile),
            ("WARC-Payload-Digest", digest),
            ("WARC-Refers-To", self.id),
            ("WARC-Refers-To-Target-URI", self.target),
            ("WARC-Refers-To-Date", self.date),
        ]


class Revisits:
    """Those of a run."""

    def __init__(self, most: int = MOST_KNOWN) -> None:
        self._most = most
        self._known: dict[tuple[str, int, str], RevisitOriginal] = {}

    def find(self, kept: CapturedObject) -> RevisitOriginal | None:
        """What is the same, where that is worth while; nothing of what is not whole."""
        return self._known.get(key_of(kept)) if is_worthwhile(kept) else None

    def note(self, kept: CapturedObject, original: RevisitOriginal) -> None:
        """It is there now."""
        if not is_worthwhile(kept):
            return
        if len(self._known) >= self._most:
            del self._known[next(iter(self._known))]
        self._known[key_of(kept)] = original


def is_worthwhile(kept: CapturedObject) -> bool:
    """Is it worth while to refer to another record that has it, or to this one?"""
    return kept.truncated is None and kept.size >= LEAST and kept.status in (None, _OK)


def key_of(kept: CapturedObject) -> tuple[str, int, str]:
    """What is alike in those that are the same. A revisit of http has a head, by which programs read the body
    of the other: that is in chunks where this was, and only there."""
    is_coded = kept.payload_digest is None
    how = kept.content_type if kept.type != "response" else "chunks" if is_coded else ""
    return kept.sha256, kept.size, how


# Payloads of earlier archives, by the indexes that the user named: a repeated one becomes a revisit record,
# as within a run.
#
# A line of an index is a hint. Its record is opened, and the payload hashed again: a record that is missing,
# or has other bytes, counts as no line. So no statement of an index gets into an archive, and two payloads
# with one SHA-1 are never mistaken for one another.
#
# The hints are in a private temporary database, which takes some 50 bytes a line on the disk and a few MB in
# memory, however many there are.

#: Lines that go into the database at once, and records of one digest that are looked at.
_AT_ONCE = 10_000
_MOST_TRIED = 3

#: What another record may repeat: no spaces, nothing that ends a line.
_WORD = re.compile(r"[!-~]{1,8192}")

_TABLE = "CREATE TABLE hints (digest BLOB, directory INTEGER, name BLOB, offset INTEGER)"
_QUERY = "SELECT directory, name, offset FROM hints WHERE digest=? ORDER BY rowid LIMIT ?"


class EarlierArchives:
    """`unread` are lines of the indexes that told nothing. Raises `LocalError` for an index that cannot be
    read, or is none."""

    def __init__(self, indexes: Sequence[str]) -> None:
        self.unread = 0
        self._directories: list[str] = []
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        try:
            with _faults():
                self._database.execute("PRAGMA journal_mode=OFF")
                self._database.execute(_TABLE)
                self._database.execute("BEGIN")  # and never an end: nobody needs what is written
                for path in indexes:
                    self._read(path)
                self._database.execute("CREATE INDEX digests ON hints (digest)")
        except BaseException:
            self._database.close()
            raise

    def close(self) -> None:
        """Nobody asks any more."""
        self._database.close()

    def find(self, kept: CapturedObject) -> RevisitOriginal | None:
        """The record of an earlier archive that has the same payload, and says of it what this object would;
        None where there is none that is worth while."""
        claim = read_claim(kept.digest)
        if claim is None or not is_worthwhile(kept):
            return None
        with _faults():
            found = self._database.execute(_QUERY, (claim.digest, _MOST_TRIED)).fetchall()
        for directory, name, offset in found:
            name = name.decode("utf-8", "surrogateescape")
            for place in _places(self._directories[directory]):
                with suppress(LocalError, DamagedRecord), open_archive(os.path.join(place, name)) as archive:
                    if (original := _original(archive, offset, kept)) is not None:
                        return original
        return None

    def _read(self, path: str) -> None:
        self._directories.append(os.path.dirname(path))
        number, useful, lines = len(self._directories) - 1, 0, 0
        try:
            with open_archive(path) as source:
                found = read_hints(source)
                while some := list(islice(found, _AT_ONCE)):
                    rows = list(_rows(number, some))
                    self._database.executemany("INSERT INTO hints VALUES (?, ?, ?, ?)", rows)
                    lines, useful = lines + len(some), useful + len(rows)
        except LocalError as error:
            raise LocalError(f"{path}: {error.message}") from error
        if lines and not useful:
            raise LocalError(f"{path}: this is no index of archives: no line of it tells where a payload is")
        self.unread += lines - useful


def _rows(directory: int, some: list[CdxHint | None]) -> Iterator[tuple[bytes, int, bytes, int]]:
    for hint in some:
        if hint is not None:
            yield hint.digest, directory, hint.name.encode("utf-8", "surrogateescape"), hint.offset


@contextmanager
def _faults() -> Iterator[None]:
    """What SQLite says is told as what it is: the disk."""
    try:
        yield
    except sqlite3.Error as error:
        raise LocalError(f"what indexes tell cannot be kept in a temporary file: {error}") from error


def _places(directory: str) -> Iterator[str]:
    """Where the files of an index are: beside it, or where pywb has them."""
    yield directory
    if os.path.basename(os.path.abspath(directory)) == "indexes":
        yield os.path.join(directory, os.pardir, "archive")


def _original(source: RecordSource, offset: int, kept: CapturedObject) -> RevisitOriginal | None:
    """The record at an offset, if it has this object's payload, and may be repeated. Raises
    `DamagedRecord`."""
    found = read_one(source, offset, lambda head: _HashedPayload(head, kept))
    head = found.head
    id, target, date = head.id or "", head.target or "", head.get_first("WARC-Date") or ""
    is_ours_to_say = all(map(_WORD.fullmatch, (id, target, date))) and redact(target) == target
    if not (is_ours_to_say and head.date is not None and found.reader.is_same()):
        return None
    return RevisitOriginal(id, target, date)


class _HashedPayload:
    """The payload of one record, as far as it may be that of `kept`: by its SHA-256 and length."""

    def __init__(self, head: RecordHead, kept: CapturedObject) -> None:
        if head.type != kept.type or head.get_first("WARC-Truncated") is not None:
            raise DamagedRecord("this record is no whole one of that kind")
        self._content_type = head.get_first("Content-Type") or ""
        self._kept = kept
        self._payload = Payload(head)
        self._digest = sha256()
        self._size = 0

    def take(self, octets: bytes) -> None:
        made = self._payload.take(octets)
        self._digest.update(made)
        self._size += len(made)
        if self._size > self._kept.size:
            raise DamagedRecord("this payload is longer")

    def is_same(self) -> bool:
        """When all of its block was taken."""
        answer = self._payload.answer
        if answer is not None and answer.status != _OK:
            return False
        is_coded = answer is not None and answer.coded
        said = self._kept._replace(
            sha256=self._digest.hexdigest(),
            size=self._size,
            content_type=self._content_type,
            payload_digest=None if is_coded else "",
        )
        return self._payload.is_whole and key_of(said) == key_of(self._kept)
