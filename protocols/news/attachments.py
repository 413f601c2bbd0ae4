"""The files in an article: MIME parts (RFC 2045 to 2049, RFC 2183) and files in yEnc.

The module `email` of the standard library parses MIME. `email` recurses into nested parts, and compares each
line with the boundary of each open part. Therefore this module limits the depth, the number of parts and the
size of a header field (denial of service).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from email.errors import CloseBoundaryNotFoundDefect, InvalidBase64LengthDefect, InvalidBase64PaddingDefect
from email.message import Message
from email.parser import BytesFeedParser
from email.policy import Compat32
from itertools import chain, islice
from typing import NamedTuple

from protocols.attachment import Attachment, FilePart, PartsListing
from protocols.errors import IntegrityError, LimitExceeded, NotFound, ProtocolError, Truncated
from protocols.location import Entry, Url
from protocols.news.article import decode_words, parse_head, strip_brackets
from protocols.news.response import is_number
from protocols.news.url import NewsUrl, NntpUrl
from protocols.news.yenc import YencBegin, YencDecoder, YencEnd
from protocols.options import Limits

#: The maximum nesting depth of MIME parts. Mail and news programs use three or four levels.
MAX_DEPTH = 16
#: The maximum number of parts and of yEnc files in an article.
MAX_PARTS = 1_000
#: The maximum size of a header field of MIME in bytes. The parameter parser of `email` takes quadratic time.
MAX_FIELD = 4_096
#: The maximum number of articles for one file. 10,000 articles of 750 kB each contain 7.5 GB.
MAX_TOTAL = 10_000
#: The maximum number of other articles between two parts of a post. Programs post the parts in sequence, but
#: other posts may get article numbers in between.
STRAY_NUMBERS = 500

_CHUNK = 65_536
_COUNTER = re.compile(r"\((\d{1,5})/(\d{1,5})\)", re.ASCII)
_MAX_SUBJECT = 2_000


class _MimePolicy(Compat32):
    """The policy of `email`, with a limit for the header fields that it parses."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        if name.lower().startswith("content-") and len(value) > MAX_FIELD:
            raise LimitExceeded("line", f"the header field {name[:40]} is longer than {MAX_FIELD} bytes")
        return name, value


class _Part(Message):
    """A MIME part of an article, with its nesting depth and its position in the article."""

    depth = 0
    count: list[int] | None = None

    def attach(self, payload: Message) -> None:  # type: ignore[override]
        assert isinstance(payload, _Part)
        self.count = self.count or [1]
        self.count[0] += 1
        payload.depth, payload.count = self.depth + 1, self.count
        if payload.depth > MAX_DEPTH:
            raise LimitExceeded("entries", f"parts of the article are nested deeper than {MAX_DEPTH}")
        if self.count[0] > MAX_PARTS:
            raise LimitExceeded("entries", f"the article has more than {MAX_PARTS} parts")
        super().attach(payload)


class PartCounter(NamedTuple):
    """The part counter in a subject, such as `(3/7)`.

    `title` is the subject without the counter. All parts of a file have the same title.
    """

    title: str
    number: int
    total: int


def parse_counter(subject: str) -> PartCounter | None:
    """Return the last counter in the subject, such as `(3/17)`, or None without a counter."""
    counters = list(_COUNTER.finditer(subject[:_MAX_SUBJECT]))
    if not counters:
        return None
    match = counters[-1]
    title = f"{subject[: match.start()]}({match[2]}){subject[match.end() :]}"
    return PartCounter(title, int(match[1]), int(match[2]))


class NewsPost:
    """An article: its attachments, and the articles with the other parts of a file.

    Args:
        url: the URL of the article.
        octets: the complete article.
        limits: the limit of a line.
    """

    def __init__(self, url: NewsUrl | NntpUrl, octets: bytes, limits: Limits) -> None:
        self._url = url
        self._octets = octets
        self._limits = limits
        self._head = parse_head(octets.partition(b"\r\n\r\n")[0])

    def read_attachments(self) -> Sequence[Attachment]:
        """Return the files in the article.

        Raises:
            LimitExceeded: the article has too many parts, or parts nested too deep.
            ProtocolError: the article cannot be parsed.
        """
        parser = BytesFeedParser(_Part, policy=_MimePolicy())
        for at in range(0, len(self._octets), _CHUNK):
            parser.feed(self._octets[at : at + _CHUNK])
        message = parser.close()
        attachments = list(self._walk(message))
        if len(attachments) > MAX_PARTS:
            raise LimitExceeded("entries", f"the article has more than {MAX_PARTS} attachments")
        return attachments

    def _walk(self, part: Message) -> Iterator[Attachment]:
        if not part.is_multipart():
            yield from self._read_leaf(part)
            return
        parts = part.get_payload()
        assert isinstance(parts, list)
        attachments = [leaf for inner in parts if isinstance(inner, Message) for leaf in self._walk(inner)]
        if attachments and any(isinstance(leaf, CloseBoundaryNotFoundDefect) for leaf in part.defects):
            last = attachments[-1]
            text = "the article ends before the boundary that closes its parts"
            attachments[-1] = last._replace(
                error=last.error or Truncated(text, received=len(last.content)), verified=()
            )
        yield from attachments

    def _read_leaf(self, part: Message) -> Iterator[Attachment]:
        name, media_type = _find_name(part), part.get_content_type()
        content, error = _decode_content(part)
        if media_type.startswith("text/"):
            files = list(islice(read_yenc(content, self._limits), MAX_PARTS + 1))
            if files:
                yield from files
                return
            if name is None:
                return
        yield Attachment(name, media_type, content, error=error)

    def list_parts(self, part: FilePart) -> PartsListing:
        """Return the listing (overview) of the articles with numbers near this article.

        The number of an article is in the URL, or in the field Xref of the server (RFC 5536 3.2.14).

        Raises:
            NotFound: the group or the number of the article is unknown.
            LimitExceeded: the file has too many parts.
        """
        total = self._find_total(part)
        if total > MAX_TOTAL:
            raise LimitExceeded("entries", f"the file has {total} parts, more than {MAX_TOTAL}")
        group, number = self._find_location()
        url: Url
        if isinstance(self._url, NntpUrl):
            url = replace(self._url, article=None)
        else:
            url = replace(self._url, message_id=None, group=group)
        distance = total + STRAY_NUMBERS
        return PartsListing(url, total, 2 * distance, number + distance)

    def find_parts(self, part: FilePart, entries: Iterable[Entry]) -> Mapping[int, Url]:
        """Return the URLs of the articles that contain the other parts of a file.

        Articles belong to the same file if the author and the subject without the counter are equal. If
        several articles have the same part, the article with the nearest number is used.
        """
        number = self._find_location()[1]
        subject, author = self._head.decode_first("subject"), self._head.decode_first("from") or ""
        counter = parse_counter(subject or "")
        if counter is None:
            return {}
        urls: dict[int, Url] = {}
        distances: dict[int, int] = {}
        for entry in entries:
            other = parse_counter(entry.title or "")
            extra = entry.extra or {}
            at = extra.get("number")
            if other is None or not isinstance(at, int) or other.number in (0, part.number):
                continue
            is_same_file = (other.title, other.total) == (counter.title, counter.total)
            if not is_same_file or extra.get("from") != author:
                continue
            url = self._build_url(at, entry)
            if url is not None and abs(at - number) < distances.get(other.number, abs(at - number) + 1):
                urls[other.number], distances[other.number] = url, abs(at - number)
        return urls

    def _build_url(self, number: int, entry: Entry) -> Url | None:
        if isinstance(self._url, NntpUrl):
            return replace(self._url, article=number)
        fields = (entry.raw or b"").split(b"\t")
        message_id = strip_brackets(fields[4]) if len(fields) > 4 else None
        return None if message_id is None else replace(self._url, message_id=message_id)

    def _find_total(self, part: FilePart) -> int:
        counter = parse_counter(self._head.decode_first("subject") or "")
        total = part.total or (None if counter is None else counter.total)
        if total is None:
            raise NotFound("the number of parts is in neither =ybegin nor the subject")
        return total

    def _find_location(self) -> tuple[bytes, int]:
        """Return the group of the article, and the number of the article in the group."""
        if isinstance(self._url, NntpUrl):
            return self._url.group, self._url.article or 0
        for word in (self._head.get_first("xref") or b"").split()[1:]:
            group, colon, number = word.rpartition(b":")
            if colon and is_number(number):
                return group, int(number)
        raise NotFound(
            "cannot find the other parts: the article has no Xref field with its group and number "
            "(use an nntp URL with the number of the article)"
        )


def read_yenc(octets: bytes, limits: Limits) -> Iterator[Attachment]:
    """Yield the yEnc files in a text.

    Raises:
        ProtocolError: The yEnc data is invalid.
    """
    if b"=ybegin " not in octets:
        return
    decoder = YencDecoder(limits)
    begin: YencBegin | None = None
    content: list[bytes] = []
    events = (
        event for at in range(0, len(octets), _CHUNK) for event in decoder.feed(octets[at : at + _CHUNK])
    )
    for event in chain(events, decoder.finish()):
        if isinstance(event, YencBegin):
            begin, content = event, []
        elif isinstance(event, bytes):
            content.append(event)
        elif begin is not None:
            yield _make_yenc(begin, b"".join(content), event)
            begin = None


def _make_yenc(begin: YencBegin, content: bytes, end: YencEnd) -> Attachment:
    part = None
    if begin.part is not None and (begin.begin, begin.end) != (0, begin.size):
        part = FilePart(begin.part, begin.total, begin.begin, begin.size, end.crc32)
    verified = () if end.error else ("length", "digest") if end.is_proved else ("length",)
    return Attachment(begin.name or None, None, content, part, verified, end.error)


def _find_name(part: Message) -> bytes | None:
    """Return the file name of a part (RFC 2183 2.3, RFC 2231); None without a name."""
    try:
        name = part.get_filename()
    except (ValueError, LookupError, TypeError, AttributeError):  # a charset or a parameter is invalid
        return None
    return decode_words(name).encode("utf-8", "surrogateescape") if name else None


def _decode_content(part: Message) -> tuple[bytes, IntegrityError | None]:
    """Return the decoded content of a part, and an error if its base64 ends too early."""
    del part["content-type"]  # the charset would decode and encode the text again
    try:
        content = part.get_payload(decode=True)
    except (ValueError, LookupError, AssertionError) as error:
        raise ProtocolError(f"a part of the article cannot be decoded: {error}") from error
    octets = content if isinstance(content, bytes) else b""
    for defect in part.defects:
        if isinstance(defect, InvalidBase64LengthDefect | InvalidBase64PaddingDefect):
            return octets, Truncated("the base64 text is incomplete", received=len(octets))
    return octets, None
