"""The index beside an archive (CDXJ): where the record of a URL is, by a key that other programs know.

A key is the URL turned around, without what seldom tells two objects apart: scheme, user, `www.`, case, the
ids of sessions. So it is for those who look for something, and nothing is chosen by it here.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from hashlib import sha1
from urllib.parse import quote, unquote_to_bytes

from protocols.errors import InvalidUrl
from protocols.location import HostUrl
from protocols.values import NamedTuple
from resolver.url import parse
from resolver.warc.head import RecordHead
from resolver.warc.message import MOST_HEAD, AnswerSpan, ChunkDecoder, find_answer
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
    path = _unescaped(path).lower() or "/"
    path = path if path.startswith("/") else f"/{path}"
    if len(path) > 1:
        path = path.rstrip("/") or "/"
    query = _SESSION.sub("", _unescaped(query).lower()).strip("&")
    query = "&".join(sorted(query.split("&"))) if query else ""
    return f"{host}{port}){path}{question if query else ''}{query}"


def _plain(target: str) -> str:
    return re.sub(r":/+", ":/", _unescaped(target).lower(), count=1)


def _unescaped(text: str) -> str:
    """Escaped alike, however it was."""
    return quote(unquote_to_bytes(text), safe=_SAFE + "%")


class IndexBuilder:
    """What the index says of a record, when all of its block was taken; nothing of most kinds."""

    def __init__(self, head: RecordHead) -> None:
        self.head = head
        self._is_wanted = head.type in _INDEXED
        self._has_head = head.media_type == "application/http"
        self._claim = head.first("WARC-Payload-Digest")
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
