"""What a server answers (protocol page 7): links and attributes in the order they came, and results.

Nothing marks where the answer to one command ends, so each of our requests has one command. Lines that
are not known, or have too few tokens, are passed over and told. A server's no becomes a typed error
where it is asked for: some failures only mean that something else is to be tried.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence

from protocols.errors import (
    AccessDenied,
    Declined,
    LimitExceeded,
    LoginRequired,
    NotFound,
    ProtocolError,
    TryLater,
)
from protocols.options import Limits
from protocols.prospero.attribute import Attribute, parse_attribute
from protocols.prospero.link import ObjectPointer, ProsperoLink, parse_link, parse_pointer, with_belongings
from protocols.prospero.token import TokenLine, read_lines, read_text
from protocols.values import NamedTuple, dataclass, field
from protocols.wire import REST, Rest, run_reader

#: Warnings and oddities of one reply that are kept.
_MOST_REPORTED = 10
#: Lines that a link and what belongs to it have, about: a reply has so many for each link there may be.
_LINES_OF_AN_ENTRY = 10
#: Lines that are read without a rest.
_AT_ONCE = 64
#: Results that carry nothing a client needs.
_IDLE = (b"SUCCESS", b"AUTHENTICATED", b"PARAMETER")
_REFUSALS = (b"FAILURE", b"ERROR", b"VERSION-NOT-SUPPORTED")
_NESTED = re.compile(rb"ATTRIBUTE>+")
#: Servers of these releases put a NUL behind the text of each packet (page 11, 10).
_ENDS_WITH_NUL = re.compile(rb"VERSION[ \t]+[0-9]+[ \t]+(?:A50|A51|B51|A52)")
_FAILURES: dict[bytes, type[Declined]] = {
    b"NOT-FOUND": NotFound,
    b"NOT-A-DIRECTORY": NotFound,
    b"NOT-AUTHORIZED": AccessDenied,
    b"AUTHENTICATION-REQUIRED": LoginRequired,
    b"AUTHENTICATION-DATA": AccessDenied,
    b"SERVER-FAILED": TryLater,
}


class ProsperoRefusal(NamedTuple):
    """A server's no: the keyword of the line, the kind behind FAILURE (empty for others), its words."""

    keyword: bytes
    kind: bytes
    text: str

    def error(self) -> Declined:
        code = read_text(self.kind or self.keyword)
        said = f"{code}: {self.text}" if self.text else code
        return _FAILURES.get(self.kind, Declined)(f"the server answers {said}", code=code, text=self.text)


@dataclass(slots=True)
class ProsperoReply:
    """The lines of one reply. `attributes` are those that belong to no link: the object's own. `oddities`
    say what was passed over, `warnings` what the server warned of."""

    links: list[ProsperoLink] = field(default_factory=list)
    attributes: list[Attribute] = field(default_factory=list)
    forwarded: ObjectPointer | None = None
    refusal: ProsperoRefusal | None = None
    none_found: bool = False
    unresolved: tuple[bytes, ...] = ()
    software: bytes | None = None
    warnings: list[str] = field(default_factory=list)
    oddities: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Does it say nothing at all about what was asked?"""
        said = (self.links, self.attributes, self.forwarded, self.refusal, self.none_found, self.unresolved)
        return not any(said)

    @property
    def lists(self) -> bool:
        """Is it the answer of a directory: links, or that there are none? Attributes alone are none."""
        return bool(self.links) or self.none_found

    def check(self) -> None:
        """Raises `Declined` for the server's no, `ProtocolError` for no answer at all."""
        if self.refusal is not None:
            raise self.refusal.error()
        if self.is_empty:
            raise ProtocolError("the reply says nothing about what was asked")

    @property
    def is_not_found(self) -> bool:
        return self._failed_with(b"NOT-FOUND")

    @property
    def is_no_directory(self) -> bool:
        return self._failed_with(b"NOT-A-DIRECTORY")

    def _failed_with(self, kind: bytes) -> bool:
        return self.refusal is not None and self.refusal.kind == kind


def join_packets(texts: Sequence[bytes]) -> bytes:
    """The text of a reply out of the texts of its packets."""
    if _ENDS_WITH_NUL.match(b"".join(texts[:2])):
        texts = [text.removesuffix(b"\0") for text in texts]
    return b"".join(texts)


def parse_reply(text: bytes, limits: Limits) -> ProsperoReply:
    """Any octets give an answer, or raise `ProtocolError` (`LimitExceeded`): a quote that stays open, a
    line beyond `limits.line` that holds no contents, more lines about one object than `limits.lines`, more
    links than `limits.entries`."""
    return run_reader(lambda buffer: read_reply(text, limits))


def read_reply(text: bytes, limits: Limits) -> Generator[Rest, None, ProsperoReply]:
    """The same with rests."""
    reader = _ReplyReader(limits)
    for number, words in enumerate(read_lines(text), 1):
        reader.take(words)
        if number % _AT_ONCE == 0:
            yield REST
    return reader.finish()


class _ReplyReader:
    """Puts lines together. `_link` is the one that the lines that come belong to; `_lost` says that they
    belong to one that made no sense."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._answer = ProsperoReply()
        self._link: ProsperoLink | None = None
        self._lost = False
        self._ids: list[tuple[bytes, ...]] = []
        self._attributes: list[Attribute] = []
        self._lines = 0
        self._lines_of_one = 0

    def finish(self) -> ProsperoReply:
        self._close_link()
        return self._answer

    def take(self, words: TokenLine) -> None:
        keyword, *rest = words.tokens
        tokens = tuple(rest)
        is_contents = b"CONTENTS" in tokens[:3]
        if len(words.raw) > self._limits.line and not is_contents:
            raise LimitExceeded("line", f"a line of the reply is longer than {self._limits.line} octets")
        self._count(is_contents)
        if keyword == b"ATTRIBUTE":
            self._take_attribute(tokens)
        elif keyword == b"LINK":
            self._take_link(tokens, words.raw)
        elif keyword == b"ID":
            self._ids.append(tokens)
        elif not _NESTED.fullmatch(keyword):  # an attribute of an attribute's value means nothing here
            self._close_link()
            self._take_result(keyword, tokens)

    def _count(self, is_contents: bool) -> None:
        """Nothing of a reply means anything before its end has come, so all of it is kept."""
        self._lines += 1
        self._lines_of_one += not is_contents
        if self._lines_of_one > self._limits.lines:
            raise LimitExceeded("lines", f"more than {self._limits.lines} lines about one object")
        most = self._limits.entries * _LINES_OF_AN_ENTRY
        if self._lines > most:
            raise LimitExceeded("entries", f"more than {most} lines in one reply")

    def _take_link(self, tokens: tuple[bytes, ...], raw: bytes) -> None:
        self._close_link()
        self._lines_of_one = 1
        self._link = parse_link(tokens, raw)
        self._lost = self._link is None
        if self._lost:
            self._pass_over(b"LINK")

    def _take_attribute(self, tokens: tuple[bytes, ...]) -> None:
        attribute = parse_attribute(tokens)
        if attribute is None:
            self._pass_over(b"ATTRIBUTE")
        elif self._link is not None:
            self._attributes.append(attribute)
        elif not self._lost:
            self._answer.attributes.append(attribute)

    def _close_link(self) -> None:
        if self._link is not None:
            if len(self._answer.links) == self._limits.entries:
                raise LimitExceeded("entries", f"more than {self._limits.entries} links in one reply")
            self._answer.links.append(with_belongings(self._link, self._ids, self._attributes))
        self._link, self._ids, self._attributes, self._lost = None, [], [], False

    def _take_result(self, keyword: bytes, tokens: tuple[bytes, ...]) -> None:
        answer = self._answer
        if keyword in _REFUSALS:
            self._take_refusal(keyword, tokens)
        elif keyword == b"NONE-FOUND":
            answer.none_found = True
        elif keyword == b"FORWARDED":
            answer.forwarded = answer.forwarded or parse_pointer(tokens)
            if answer.forwarded is None:
                self._pass_over(keyword)
        elif keyword == b"UNRESOLVED":
            answer.unresolved = tokens
        elif keyword == b"WARNING":
            _report(answer.warnings, " ".join(map(read_text, tokens)))
        elif keyword == b"VERSION":
            answer.software = tokens[1] if len(tokens) > 1 else b""
        elif keyword not in _IDLE:
            self._pass_over(keyword)

    def _take_refusal(self, keyword: bytes, tokens: tuple[bytes, ...]) -> None:
        kind = tokens[0] if keyword == b"FAILURE" and tokens else b""
        text = tokens[1:] if kind else tokens
        self._answer.refusal = self._answer.refusal or ProsperoRefusal(
            keyword, kind, " ".join(map(read_text, text))
        )

    def _pass_over(self, keyword: bytes) -> None:
        _report(self._answer.oddities, f"a line {read_text(keyword[:40])!r} that makes no sense here")


def _report(reported: list[str], what: str) -> None:
    if len(reported) < _MOST_REPORTED and what not in reported:
        reported.append(what)
