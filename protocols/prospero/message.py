"""Prospero messages: read-only commands, one a line, and their replies (protocol page 6 and 7; rule S05).

Each request is complete: the protocol version, a user name that reveals nothing about the user, and one
command, so no answer can belong to two. Tokens from a URL or a reply are quoted; keywords are our own.

Each request has a socket and a connection id of its own. A request about another object than the URL's
carries the route that led there, so it is judged as a URL that followed from the answer that named it.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from protocols.contract import Line, RedirectAddress, SwitchAddress
from protocols.errors import (
    AccessDenied,
    Declined,
    LimitExceeded,
    LoginRequired,
    NotFound,
    ProtocolError,
    TimedOut,
    TryLater,
)
from protocols.location import Referrer
from protocols.options import Limits
from protocols.prospero.ardp import ArdpExchange, RetransmitTiming
from protocols.prospero.objects import (
    Attribute,
    ObjectPointer,
    ProsperoLink,
    RequestObject,
    TokenLine,
    parse_attribute,
    parse_link,
    parse_pointer,
    quote,
    read_lines,
    read_text,
    with_belongings,
)
from protocols.step import (
    DatagramReply,
    Dialogue,
    ExchangeDatagrams,
    OpenDatagrams,
    OpenedConnection,
    PlanNote,
)
from protocols.wire import REST, Rest, encode_commands, run_reader

# A reply (protocol page 7): links and attributes in the order they came, and results.
#
# Nothing marks the end of the answer to a command, so each of our requests has one command. Unknown lines,
# and lines with too few tokens, are skipped and reported. A failure becomes a typed error only where the
# caller asks for it: some failures only mean that another way must be tried.

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


#: What the request says of itself. Neither may make up the text `VERSION 1` (6.1).
SOFTWARE = b"url-resolver"
NAME = b"anonymous"

_VERSION = (b"VERSION", b"5", SOFTWARE)
_AUTHENTICATE = (b"AUTHENTICATE", b"''", b"UNAUTHENTICATED", NAME)

#: What is asked of an object first. ACCESS-METHOD is what a URL needs, but a server built as distributed
#: looks at a file only if something of the file itself is asked for too: to ACCESS-METHOD alone it says
#: NOT-FOUND of every plain file (protocol page 6.4).
ATTRIBUTES = b"ACCESS-METHOD+SIZE+LAST-MODIFIED+UNIX-MODES"

#: Octets that the replies to one URL may have besides those of the object: lines around its contents,
#: attributes, links. And how often an octet of the object is sent at most: a quote is doubled.
_ROOM = 1 << 20
_SPELLING = 2


@dataclass(frozen=True, slots=True)
class ProsperoRequest:
    """`message` goes to the server of `target`. `what` describes the answer for a person, `ideal` is the text
    of a willing server. `again`: is it worth another try where nobody answers? Of a server that has answered
    before, another try would only take as long again."""

    target: RequestObject
    message: Line
    what: str
    ideal: bytes
    again: bool = True


def request_facts(target: RequestObject) -> ProsperoRequest:
    """Raises `Refused` (S02), as the others do."""
    ideal = b"ATTRIBUTE OBJECT INTRINSIC ACCESS-METHOD SEQUENCE PROSPERO-CONTENTS '' '' '' ''\n"
    return ProsperoRequest(
        target, request_attributes(target, ATTRIBUTES), "the access methods of the object", ideal
    )


def request_contents(target: RequestObject) -> ProsperoRequest:
    ideal = b"ATTRIBUTE OBJECT INTRINSIC CONTENTS SEQUENCE DATA ''\n"
    message = request_attributes(target, b"CONTENTS")
    return ProsperoRequest(target, message, "the contents of the object", ideal, again=False)


def request_links(target: RequestObject) -> ProsperoRequest:
    return ProsperoRequest(target, request_listing(target), "the links of the directory", b"NONE-FOUND\n")


def request_attributes(target: RequestObject, names: bytes) -> Line:
    """GET-OBJECT-INFO. `names` are attribute names with `+` between. Raises `Refused` (S02)."""
    words = (quote(target.hsoname_type), quote(target.hsoname), b"%d" % target.version)
    return _message((b"GET-OBJECT-INFO", names, *words), target)


def request_listing(target: RequestObject) -> Line:
    """DIRECTORY and LIST: every link with its attributes. Raises `Refused` (S02).

    Also where only the kind is wanted: to VERIFY the real server answers NONE-FOUND whatever is named (6.3).
    """
    words = (quote(target.hsoname_type), quote(target.hsoname), b"%d" % target.version)
    # A SELECT narrows the command before it, and it is DIRECTORY that names the object.
    return _message((b"DIRECTORY", *words), target, (b"LIST", b"ATTRIBUTES", b"COMPONENTS"))


def _message(command: tuple[bytes, ...], target: RequestObject, *further: tuple[bytes, ...]) -> Line:
    selections = [(b"SELECT", *map(quote, words)) for words in target.selections]
    return encode_commands(_VERSION, _AUTHENTICATE, command, *selections, *further)


class Inquirer:
    """All questions for one URL, and who answered. The octets of all replies together are bounded by what an
    object of `limits.body` octets may need."""

    def __init__(self, limits: Limits, timing: RetransmitTiming) -> None:
        self._limits = limits
        self._timing = timing
        self._addresses: dict[RequestObject, str] = {}
        self._turned: dict[tuple[str, int], RedirectAddress] = {}
        self._answered: dict[tuple[str, int], str] = {}
        self._left = _ROOM + _SPELLING * limits.body

    def referrer(self, target: RequestObject) -> Referrer:
        """What led to whatever the answer about a target named."""
        return Referrer(target.url, self._addresses.get(target))

    def address(self, target: RequestObject) -> str | None:
        """The address that answered about a target; None before it has."""
        return self._addresses.get(target)

    def request(self, question: ProsperoRequest) -> Dialogue[ProsperoReply]:
        """Raises what the gate, the exchange and the text of the reply raise."""
        opened = cast(OpenedConnection, (yield OpenDatagrams(question.target.route)))
        yield PlanNote("the connection id, octets 2 and 3 of each packet, is drawn at random; here it is 0")
        exchange = self._exchange(question, opened)
        try:
            carried = cast(
                DatagramReply,
                (yield ExchangeDatagrams(exchange, question.what, DatagramReply((question.ideal,)))),
            )
        except TimedOut as error:
            raise error if question.again or exchange.has_begun else error.final() from error.__cause__
        self._note_peer(question.target, exchange.turned, carried.peer)
        text = join_packets(carried.pieces)
        self._left -= len(text)
        return (yield from read_reply(text, self._limits))

    def _exchange(self, question: ProsperoRequest, opened: OpenedConnection) -> ArdpExchange:
        return ArdpExchange(
            question.message,
            opened.number,
            opened.addresses,
            patience=self._limits.idle,
            most=self._left,
            timing=self._timing,
            toward=self._find_redirect(question.target, opened.addresses),
        )

    def _find_redirect(
        self, target: RequestObject, addresses: Sequence[str]
    ) -> RedirectAddress | SwitchAddress | None:
        """The place that this server has turned us to, or has answered from; None before it has."""
        if target.server in self._turned:
            return self._turned[target.server]
        answered = self._answered.get(target.server)
        return SwitchAddress(answered) if answered is not None and answered in addresses else None

    def _note_peer(self, target: RequestObject, turned: RedirectAddress | None, peer: str) -> None:
        if turned is None:
            self._answered[target.server] = peer
        elif turned.lasting:
            self._turned[target.server] = turned
        self._addresses[target] = peer
