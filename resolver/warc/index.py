"""Indexes of archives in the formats CDXJ and CDX, and the search for equal payloads (revisits).

An index is written next to each archive. Indexes of other programs are read. The key of a record (SURT) is
the URL with reversed host labels. The key is in lower case. The key omits the scheme, the user, `www.` and
session IDs, because they seldom distinguish objects. Other programs search by this key, but this package does
not.
"""

from __future__ import annotations

import json
import os.path
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from hashlib import sha1, sha256
from itertools import islice
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from protocols.errors import InvalidUrl, LocalError
from protocols.location import HostUrl, Url
from resolver.files.archive import open_archive
from resolver.url.parsing import parse, redact
from resolver.warc.check import Payload, read_claim
from resolver.warc.group import CapturedObject
from resolver.warc.records import Budget, DamagedRecord, RecordHead, RecordSource, open_stream, read_one
from resolver.warc.writing import Fields, digest_text

_WWW = re.compile(r"\Awww\d*\.")
#: Query parameters that identify a session. The surt package removes the same parameters.
_SESSION = re.compile(
    r"(?:^|&)(?:(?:jsessionid|phpsessid|sid)=[0-9a-z]{32}|aspsessionid[a-z]{8}=[a-z]{24})(?=&|$)"
)
_SAFE = "!\"$&'()*+,-./:;<=>?@[\\]^_`{|}~"
_INDEXED = frozenset({"response", "resource", "revisit"})


class IndexLine(NamedTuple):
    """A line of an index.

    Attributes:
        key: The key of `url` (SURT).
        mime: The media type, or None if the type is unknown.
        truncated: The reason why the payload of an existing record is truncated, which the line does not
            contain.
    """

    key: str
    url: str
    date: datetime
    mime: str | None
    status: int | None
    digest: str | None
    length: int
    offset: int
    truncated: str | None = None

    def encode(self, filename: str) -> bytes:
        members: dict[str, str] = {"url": self.url}
        if self.mime is not None:
            members["mime"] = self.mime
        if self.status is not None:
            members["status"] = str(self.status)
        if self.digest is not None:
            members["digest"] = self.digest
        members |= {"length": str(self.length), "offset": str(self.offset), "filename": filename}
        return f"{self.key} {self.date:%Y%m%d%H%M%S} {json.dumps(members)}\n".encode("ascii", "replace")

    @staticmethod
    def make_ending(filename: str) -> bytes:
        """Return the end of each line in the index of an archive."""
        return f'"filename": {json.dumps(filename)}}}\n'.encode()


def make_key(target: str, url: Url | None = None) -> str:
    """Return the SURT key by which other programs search for a URL; `url` is the parsed target, if known."""
    try:
        url = url or parse(target)
    except InvalidUrl:
        return _make_plain_key(target)
    if not isinstance(url, HostUrl) or not url.host:
        return _make_plain_key(target)
    host = _WWW.sub("", url.host.lower())
    if ":" not in host:  # SURT reverses host names and IPv4 addresses, but not IPv6 addresses.
        host = ",".join(reversed(host.split(".")))
    port = "" if url.port in (None, url.default_port) else f":{url.port}"
    rest = target.partition("://")[2]
    match = re.search(r"[/?]", rest)
    path, question, query = ("" if match is None else rest[match.start() :]).partition("?")
    path = _normalize_escapes(path).lower().rstrip("/") or "/"
    if query:
        query = _SESSION.sub("", _normalize_escapes(query).lower()).strip("&")
        query = "&".join(sorted(query.split("&")))
    return f"{host}{port}){path}{question if query else ''}{query}"


def _make_plain_key(target: str) -> str:
    return re.sub(r":/+", ":/", _normalize_escapes(target).lower(), count=1)


def _normalize_escapes(text: str) -> str:
    """Return the text with normalized percent-encoding."""
    return quote(unquote_to_bytes(text), safe=_SAFE + "%")


class IndexBuilder:
    """A builder of the index line of one record. The line is complete after the block was read.

    The index omits most types of records.
    """

    def __init__(self, head: RecordHead) -> None:
        self.head = head
        self._is_indexed = head.type in _INDEXED
        self._claim = head.get_first("WARC-Payload-Digest")
        self._payload = Payload(head)
        self._digest = sha1(usedforsecurity=False)

    def take(self, octets: bytes) -> None:
        if self._is_indexed:
            content = self._payload.take(octets)
            if self._claim is None:
                self._digest.update(content)

    def make_line(self, offset: int, length: int) -> IndexLine | None:
        head = self.head
        if not self._is_indexed or head.target is None or head.date is None:
            return None
        digest = self._claim or digest_text(self._digest.digest())
        answer = self._payload.answer
        mime = head.media_type if answer is None else answer.media_type
        truncated = head.get_first("WARC-Truncated")
        if head.type == "revisit":
            mime, truncated = "warc/revisit", None
        status = None if answer is None else answer.status
        key, date = make_key(head.target), head.date
        return IndexLine(key, head.target, date, mime, status, digest, length, offset, truncated)


# Indexes of other programs in the formats CDXJ and CDX. The first line of a CDX index contains the column
# names.
#
# An index is untrusted. A line only suggests that a record may have the payload with a digest. The length of
# a line and the number of lines are limited (S16). An index may be gzip-compressed.

#: The maximum length of a line in bytes, and the maximum number of lines in an index.
MAX_LINE = 65_536
MAX_LINES = 20_000_000

_OFFSET = re.compile(r"[0-9]{1,18}", re.ASCII)
_SHA1 = 20
#: The names of the used CDX columns: the checksum, the compressed or uncompressed offset, and the file name.
_CHECKSUM, _OFFSETS, _FILE = "k", "Vv", "g"
#: The media type of index lines for revisit records, which do not have a payload.
_REVISITS = ('"warc/revisit"', " warc/revisit ")


class CdxHint(NamedTuple):
    """A hint that a payload is in the record at `offset` of a file.

    The SHA-1 digest identifies the payload. `name` is the file name without a directory.
    """

    digest: bytes
    name: str
    offset: int


def read_hints(source: RecordSource) -> Iterator[CdxHint | None]:
    """Yield a hint for each line of an index, except for revisits, in order.

    For a line without useful data, None is yielded.

    Raises:
        LocalError: The file is not an index, or has too many lines.
    """
    columns: dict[str, int] = {}
    for number, line in enumerate(_read_lines(source)):
        if number >= MAX_LINES:
            raise LocalError(f"the index has more than {MAX_LINES} lines")
        text = line.decode("utf-8", "surrogateescape").rstrip("\r\n")
        if not number and text[1:5] == "CDX ":
            columns = {letter: at for at, letter in enumerate(text[5:].split(text[0]))}
            continue
        if any(word in text for word in _REVISITS):
            continue
        yield _parse_columns(text, columns) if columns else _parse_json(text)


def _read_lines(source: RecordSource) -> Iterator[bytes]:
    start, budget = 0, Budget(0)
    try:
        while (stream := open_stream(source, start, budget)) is not None:
            while line := stream.read_line(MAX_LINE):
                yield line
            start = stream.end
    except DamagedRecord as error:
        raise LocalError(f"not an archive index: {error}") from error


def _parse_columns(text: str, columns: dict[str, int]) -> CdxHint | None:
    words = text.split(" ")

    def get_word(letter: str) -> str:
        column = columns.get(letter, len(words))
        return words[column] if column < len(words) else ""

    offset = next((digits for letter in _OFFSETS if _OFFSET.fullmatch(digits := get_word(letter))), "")
    return _make_hint(get_word(_CHECKSUM), get_word(_FILE), offset)


def _parse_json(text: str) -> CdxHint | None:
    """Return the hint of a CDXJ line, which contains a key, a time and a JSON object."""
    words = text.split(" ", 2)
    if len(words) < 3:
        return None
    try:
        members = json.loads(words[2])
    except (ValueError, RecursionError):
        return None
    if not isinstance(members, dict):
        return None
    return _make_hint(*(str(members.get(name, "")) for name in ("digest", "filename", "offset")))


def _make_hint(digest: str, file: str, offset: str) -> CdxHint | None:
    """Return the hint with these values, or None for invalid values.

    Some programs omit the name of the digest algorithm, or write the file name with an outdated directory.
    """
    claim = read_claim(digest if ":" in digest else f"sha1:{digest}")
    name = file.rpartition("/")[2]
    if claim is None or len(claim.digest) != _SHA1 or not _is_name(name) or not _OFFSET.fullmatch(offset):
        return None
    return CdxHint(claim.digest, name, int(offset))


def _is_name(name: str) -> bool:
    """Return whether the text is a valid file name."""
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return name not in ("", ".", "..") and "\0" not in name


# Deduplication: payloads that this run or an earlier run archived become revisit records (WARC 1.1, 6.7).
#
# The key of a payload consists of its SHA-256 digest and its length. For an HTTP response, the key also
# states whether the body is chunked. For other objects, the key also contains the media type. The URL is not
# part of the key.

#: The minimum size in bytes of a payload for deduplication. For a smaller payload, the revisit record is not
#: shorter than the record of the object.
MIN_SIZE = 512
#: The maximum number of stored payload keys, which use about 500 MB of memory. The oldest key is removed
#: first.
MAX_KNOWN = 1_000_000

_OK = 200


class RevisitOriginal(NamedTuple):
    """The original record of a payload, with its ID, URL and date as record fields."""

    id: str
    target: str
    date: str

    def fields(self, profile: str, digest: str) -> Fields:
        """Return the fields of a revisit record that refers to this original record."""
        return [
            f"WARC-Profile: {profile}",
            f"WARC-Payload-Digest: {digest}",
            f"WARC-Refers-To: {self.id}",
            f"WARC-Refers-To-Target-URI: {self.target}",
            f"WARC-Refers-To-Date: {self.date}",
        ]


class Revisits:
    """The payloads that were archived in this run."""

    def __init__(self) -> None:
        self._originals: dict[tuple[str, int, str], RevisitOriginal] = {}

    def find(self, captured: CapturedObject) -> RevisitOriginal | None:
        """Return a record with the same payload, or None if none exists or a revisit saves no space."""
        return self._originals.get(make_payload_key(captured)) if is_worthwhile(captured) else None

    def add(self, captured: CapturedObject, original: RevisitOriginal) -> None:
        """Store the payload key of an object with its original record, for later revisit records."""
        if not is_worthwhile(captured):
            return
        if len(self._originals) >= MAX_KNOWN:
            del self._originals[next(iter(self._originals))]
        self._originals[make_payload_key(captured)] = original


def is_worthwhile(captured: CapturedObject) -> bool:
    """Return whether a revisit record would save space."""
    return captured.truncated is None and captured.size >= MIN_SIZE and captured.status in (None, _OK)


def make_payload_key(captured: CapturedObject) -> tuple[str, int, str]:
    """Return the key of a payload, which is the same for equal payloads.

    Programs combine the HTTP head of the revisit record with the body of the original record. The key of a
    chunked body therefore differs from the key of the same body without chunks.
    """
    is_coded = captured.payload_digest is None
    form = captured.content_type if captured.type != "response" else "chunks" if is_coded else ""
    return captured.sha256, captured.size, form


# Deduplication with earlier archives, through the indexes that the user configured.
#
# An index is not trusted. The record is opened, and its payload is hashed again. If the record is missing or
# has another payload, the line of the index is ignored. So untrusted data of an index never gets into an
# archive, and a SHA-1 collision has no effect.
#
# The hints are stored in a private temporary database. The database needs about 50 bytes per line on the
# disk, and a few MB of memory for any number of lines.

#: The number of index lines per database insert, and the maximum number of records that are opened for one
#: digest.
_BATCH = 10_000
_MAX_TRIED = 3

#: Matches a field value that may be copied into another record. Spaces and line ends are not allowed, to
#: prevent header injection.
_WORD = re.compile(r"[!-~]{1,8192}")

_TABLE = "CREATE TABLE hints (digest BLOB, directory INTEGER, name BLOB, offset INTEGER)"
_QUERY = "SELECT directory, name, offset FROM hints WHERE digest=? ORDER BY rowid LIMIT ?"


class EarlierArchives:
    """The payloads of earlier archives, which are searched through indexes.

    Attributes:
        unread: The number of index lines without useful data.

    Raises:
        LocalError: An index cannot be read, or is not an index.
    """

    def __init__(self, indexes: Sequence[str]) -> None:
        self.unread = 0
        self._directories: list[str] = []
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        try:
            with _convert_errors():
                self._database.execute("PRAGMA journal_mode=OFF")
                self._database.execute(_TABLE)
                self._database.execute("BEGIN")  # The transaction is never committed: the data is temporary.
                for path in indexes:
                    self._read(path)
                self._database.execute("CREATE INDEX digests ON hints (digest)")
        except BaseException:
            self._database.close()
            raise

    def close(self) -> None:
        self._database.close()

    def find(self, captured: CapturedObject) -> RevisitOriginal | None:
        """Return the record of an earlier archive with the same payload key.

        Return None if such a record does not exist, or if a revisit record would not save space.
        """
        claim = read_claim(captured.digest)
        if claim is None or not is_worthwhile(captured):
            return None
        with _convert_errors():
            rows = self._database.execute(_QUERY, (claim.digest, _MAX_TRIED)).fetchall()
        for directory, name, offset in rows:
            name = name.decode("utf-8", "surrogateescape")
            for folder in _list_directories(self._directories[directory]):
                with suppress(LocalError, DamagedRecord), open_archive(os.path.join(folder, name)) as archive:
                    if (original := _read_original(archive, offset, captured)) is not None:
                        return original
        return None

    def _read(self, path: str) -> None:
        self._directories.append(os.path.dirname(path))
        number, useful, lines = len(self._directories) - 1, 0, 0
        try:
            with open_archive(path) as source:
                hints = read_hints(source)
                while batch := list(islice(hints, _BATCH)):
                    rows = [
                        (hint.digest, number, hint.name.encode("utf-8", "surrogateescape"), hint.offset)
                        for hint in batch
                        if hint is not None
                    ]
                    self._database.executemany("INSERT INTO hints VALUES (?, ?, ?, ?)", rows)
                    lines, useful = lines + len(batch), useful + len(rows)
        except LocalError as error:
            raise LocalError(f"{path}: {error.message}") from error
        if lines and not useful:
            raise LocalError(f"{path}: not an archive index: no line locates a payload")
        self.unread += lines - useful


@contextmanager
def _convert_errors() -> Iterator[None]:
    """Convert SQLite errors to `LocalError`."""
    try:
        yield
    except sqlite3.Error as error:
        raise LocalError(f"cannot store the indexes in a temporary file: {error}") from error


def _list_directories(directory: str) -> Iterator[str]:
    """Yield the directories with an index's files: its own, and the archive directory of pywb."""
    yield directory
    if os.path.basename(os.path.abspath(directory)) == "indexes":
        yield os.path.join(directory, os.pardir, "archive")


def _read_original(source: RecordSource, offset: int, captured: CapturedObject) -> RevisitOriginal | None:
    """Return the record at an offset as the original of a revisit record, or None.

    Raises:
        DamagedRecord: The record is damaged, has another payload, or cannot be the original of a revisit
            record.
    """
    record = read_one(source, offset, lambda head: _HashedPayload(head, captured))
    head = record.head
    id, target, date = head.id or "", head.target or "", head.get_first("WARC-Date") or ""
    is_safe = all(map(_WORD.fullmatch, (id, target, date))) and redact(target) == target
    if not (is_safe and head.date is not None and record.reader.is_same()):
        return None
    return RevisitOriginal(id, target, date)


class _HashedPayload:
    """A comparison of a payload with a captured object, by the SHA-256 digest and the length."""

    def __init__(self, head: RecordHead, captured: CapturedObject) -> None:
        if head.type != captured.type or head.get_first("WARC-Truncated") is not None:
            raise DamagedRecord("record is incomplete or of another type")
        self._content_type = head.get_first("Content-Type") or ""
        self._captured = captured
        self._payload = Payload(head)
        self._digest = sha256()
        self._size = 0

    def take(self, octets: bytes) -> None:
        content = self._payload.take(octets)
        self._digest.update(content)
        self._size += len(content)
        if self._size > self._captured.size:
            raise DamagedRecord("payload is longer")

    def is_same(self) -> bool:
        """Return whether the payload is the same; valid after the complete block was read."""
        answer = self._payload.answer
        if answer is not None and answer.status != _OK:
            return False
        is_coded = answer is not None and answer.is_coded
        actual = self._captured._replace(
            sha256=self._digest.hexdigest(),
            size=self._size,
            content_type=self._content_type,
            payload_digest=None if is_coded else "",
        )
        return self._payload.is_whole and make_payload_key(actual) == make_payload_key(self._captured)
