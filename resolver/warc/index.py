"""Indexes of archives: the CDXJ file that is written beside one, and CDX files of other programs.

The key of a record is the URL reversed, without the parts that seldom tell two objects apart: scheme, user,
`www.`, case, session ids. So it serves a search, and nothing is chosen by it here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from hashlib import sha1
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from protocols.errors import InvalidUrl, LocalError
from protocols.location import HostUrl
from resolver.url.parsing import parse
from resolver.warc.digests import read_claim
from resolver.warc.http import MOST_HEAD, AnswerSpan, ChunkDecoder, find_answer
from resolver.warc.records import Budget, DamagedRecord, RecordHead, RecordSource, open_stretch
from resolver.warc.writing import digest_text

_WWW = re.compile(r"www\d*\.")
#: Parameters that name a session (as the surt package strips them).
_SESSION = re.compile(
    r"(?:^|&)(?:(?:jsessionid|phpsessid|sid)=[0-9a-z]{32}|aspsessionid[a-z]{8}=[a-z]{24})(?=&|$)"
)
_SAFE = "!\"$&'()*+,-./:;<=>?@[\\]^_`{|}~"
_INDEXED = frozenset({"response", "resource", "revisit"})


class IndexLine(NamedTuple):
    """One line. `mime` is None where nobody said."""

    url: str
    date: datetime
    mime: str | None
    status: int | None
    digest: str | None
    length: int
    offset: int

    def line(self, filename: str) -> bytes:
        said: dict[str, str] = {"url": self.url}
        if self.mime is not None:
            said["mime"] = self.mime
        if self.status is not None:
            said["status"] = str(self.status)
        if self.digest is not None:
            said["digest"] = self.digest
        said |= {"length": str(self.length), "offset": str(self.offset), "filename": filename}
        return f"{key_of(self.url)} {self.date:%Y%m%d%H%M%S} {json.dumps(said)}\n".encode("ascii", "replace")


def key_of(target: str) -> str:
    """By which other programs look for a URL."""
    try:
        url = parse(target)
    except InvalidUrl:
        return _plain(target)
    if not isinstance(url, HostUrl) or not url.host:
        return _plain(target)
    host = _WWW.sub("", url.host.lower(), count=1) if _WWW.match(url.host.lower()) else url.host.lower()
    if ":" not in host:  # IPv6 stays as it is; numbers of IPv4 are turned around as names are
        host = ",".join(reversed(host.split(".")))
    port = "" if url.port in (None, url.default_port) else f":{url.port}"
    rest = target.partition("://")[2]
    found = re.search(r"[/?]", rest)
    path, question, query = ("" if found is None else rest[found.start() :]).partition("?")
    path = _normalize_escapes(path).lower() or "/"
    path = path if path.startswith("/") else f"/{path}"
    if len(path) > 1:
        path = path.rstrip("/") or "/"
    query = _SESSION.sub("", _normalize_escapes(query).lower()).strip("&")
    query = "&".join(sorted(query.split("&"))) if query else ""
    return f"{host}{port}){path}{question if query else ''}{query}"


def _plain(target: str) -> str:
    return re.sub(r":/+", ":/", _normalize_escapes(target).lower(), count=1)


def _normalize_escapes(text: str) -> str:
    """Escaped alike, however it was."""
    return quote(unquote_to_bytes(text), safe=_SAFE + "%")


class IndexBuilder:
    """What the index says of a record, when all of its block was taken; nothing of most kinds."""

    def __init__(self, head: RecordHead) -> None:
        self.head = head
        self._is_wanted = head.type in _INDEXED
        self._has_head = head.media_type == "application/http"
        self._claim = head.get_first("WARC-Payload-Digest")
        self._held = b""
        self._answer: AnswerSpan | None = None
        self._digest = sha1(usedforsecurity=False)
        self._unchunked: ChunkDecoder | None = None

    def take(self, octets: bytes) -> None:
        if not self._is_wanted:
            return
        if self._has_head and self._answer is None:
            if len(self._held) > MOST_HEAD:
                return
            self._held += octets
            self._answer = find_answer(self._held)
            if self._answer is None:
                return
            octets, self._held = self._held[len(self._answer.head) :], b""
            self._unchunked = ChunkDecoder(self._answer.head) if self._answer.coded else None
        if self._claim is None:
            self._digest.update(octets if self._unchunked is None else self._unchunked.take(octets))

    def row(self, offset: int, length: int) -> IndexLine | None:
        head = self.head
        if not self._is_wanted or head.target is None or head.date is None:
            return None
        digest = self._claim or digest_text(self._digest.digest())
        answer = self._answer
        mime = head.media_type if answer is None else answer.media_type
        mime = "warc/revisit" if head.type == "revisit" else mime
        return IndexLine(
            head.target, head.date, mime, None if answer is None else answer.status, digest, length, offset
        )


# Indexes as programs write them: CDXJ, and CDX whose first line names its columns.
#
# A line is only a hint, whoever wrote it: which record may have a payload of some digest. An index is
# untrusted: lines are bounded, and so is the amount that is read of one (S16). An index may be packed.

#: Octets of a line, and lines of an index.
MOST_LINE = 65_536
MOST_LINES = 20_000_000

_OFFSET = re.compile(r"[0-9]{1,18}", re.ASCII)
_SHA1 = 20
#: Columns of CDX that are of use: checksum, offset of what is packed or of what is not, file.
_CHECKSUM, _OFFSETS, _FILE = "k", "Vv", "g"
#: A record that has no payload of its own.
_REVISITS = ('"warc/revisit"', " warc/revisit ")


class CdxHint(NamedTuple):
    """The payload whose SHA-1 that is, is in the record at `offset` of a file of this name, which has no
    directory in it."""

    digest: bytes
    name: str
    offset: int


def read_hints(source: RecordSource) -> Iterator[CdxHint | None]:
    """One for each line that is of no revisit, in order; None where it tells nothing of use. Raises
    `LocalError` where this is no index, and behind so many lines."""
    columns: dict[str, int] = {}
    for number, line in enumerate(_lines(source)):
        if number >= MOST_LINES:
            raise LocalError(f"the index has more than {MOST_LINES} lines")
        text = line.decode("utf-8", "surrogateescape").rstrip("\r\n")
        if not number and text[1:5] == "CDX ":
            columns = {letter: at for at, letter in enumerate(text[5:].split(text[0]))}
            continue
        if any(word in text for word in _REVISITS):
            continue
        yield _parse_columns(text, columns) if columns else _parse_json(text)


def _lines(source: RecordSource) -> Iterator[bytes]:
    begun, budget = 0, Budget(0)
    try:
        while (stretch := open_stretch(source, begun, budget)) is not None:
            while line := stretch.line(MOST_LINE):
                yield line
            begun = stretch.end
    except DamagedRecord as error:
        raise LocalError(f"this is no index of archives: {error}") from error


def _parse_columns(text: str, columns: dict[str, int]) -> CdxHint | None:
    words = text.split(" ")

    def word(letter: str) -> str:
        at = columns.get(letter, len(words))
        return words[at] if at < len(words) else ""

    offset = next((found for letter in _OFFSETS if _OFFSET.fullmatch(found := word(letter))), "")
    return _hint(word(_CHECKSUM), word(_FILE), offset)


def _parse_json(text: str) -> CdxHint | None:
    """Of a line with a key, a time and an object of JSON."""
    words = text.split(" ", 2)
    if len(words) < 3:
        return None
    try:
        said = json.loads(words[2])
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    return _hint(*(str(said.get(name, "")) for name in ("digest", "filename", "offset")))


def _hint(digest: str, file: str, offset: str) -> CdxHint | None:
    """Some write the digest without its algorithm, and the file with the directory that it was in."""
    claim = read_claim(digest if ":" in digest else f"sha1:{digest}")
    name = file.rpartition("/")[2]
    if claim is None or len(claim.digest) != _SHA1 or not _is_name(name) or not _OFFSET.fullmatch(offset):
        return None
    return CdxHint(claim.digest, name, int(offset))


def _is_name(name: str) -> bool:
    """Can a file have it?"""
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return name not in ("", ".", "..") and "\0" not in name
