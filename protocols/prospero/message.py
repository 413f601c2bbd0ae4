"""Prospero messages: read-only commands (S05, no side effects) and their replies (protocol page 6 and 7).

A request consists of the protocol version, an anonymous user name, and one command. Tokens from a URL or a
reply are quoted, which prevents command injection. Keywords are constants of this module.

Each request has a separate socket and connection id. A reply may name other objects. The client then requests
these objects. For each such object, the client stores the chain of URLs that led to the object. The network
policy checks such an object like a link from the last URL of the chain (referrer).
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

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
    complete_link,
    parse_attribute,
    parse_link,
    parse_pointer,
    quote,
    read_lines,
)
from protocols.step import (
    DatagramReply,
    Dialogue,
    ExchangeDatagrams,
    OpenDatagrams,
    OpenedConnection,
    PlanNote,
)
from protocols.text import decode_text
from protocols.wire import REST, Rest, encode_commands

# A reply (protocol page 7): links and attributes in the order received, and results.
#
# The reply to a command does not have an end marker, so each request has only one command. Unknown lines, and
# lines with too few tokens, are skipped and reported. If the server reports a failure, `ProsperoReply.check`
# raises an exception. A caller that can try another access method does not call `check`.

#: The maximum number of warnings, and of skipped lines, that are stored per reply.
_MAX_REPORTS = 10
#: The approximate number of lines for a link with its attributes. The product of this number and the maximum
#: number of links is the maximum number of lines in a reply.
_LINES_PER_LINK = 10
#: The number of lines that are parsed before the parser yields to other tasks.
_BATCH = 64
#: Result lines that the client ignores.
_IGNORED = (b"SUCCESS", b"AUTHENTICATED", b"PARAMETER")
_REFUSALS = (b"FAILURE", b"ERROR", b"VERSION-NOT-SUPPORTED")
_NESTED = re.compile(rb"ATTRIBUTE>+")
#: Matches the server releases that append a NUL to the text of each packet (protocol page 11, 10).
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
    """A refusal by the server. `kind` is the token after FAILURE, and is empty for other keywords."""

    keyword: bytes
    kind: bytes
    text: str

    def error(self) -> Declined:
        code = decode_text(self.kind or self.keyword)
        message = f"{code}: {self.text}" if self.text else code
        return _FAILURES.get(self.kind, Declined)(f"the server answers {message}", code=code, text=self.text)


@dataclass(slots=True)
class ProsperoReply:
    """The parsed lines of one reply.

    Attributes:
        attributes: The attributes of the object, without the attributes of links.
        oddities: Descriptions of skipped lines.
        warnings: The warnings of the server.
    """

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
        """Return whether the reply lacks any information about the object."""
        parts = (self.links, self.attributes, self.forwarded, self.refusal, self.none_found, self.unresolved)
        return not any(parts)

    @property
    def is_listing(self) -> bool:
        """Return whether the reply describes a directory: it has links or NONE-FOUND."""
        return bool(self.links) or self.none_found

    def check(self) -> None:
        """Check that the reply has information about the object.

        Raises:
            Declined: the server refused the request.
            ProtocolError: the reply lacks any information about the object.
        """
        if self.refusal is not None:
            raise self.refusal.error()
        if self.is_empty:
            raise ProtocolError("the reply has no information about the object")

    @property
    def is_not_found(self) -> bool:
        return self._failed_with(b"NOT-FOUND")

    @property
    def is_not_directory(self) -> bool:
        return self._failed_with(b"NOT-A-DIRECTORY")

    def _failed_with(self, kind: bytes) -> bool:
        return self.refusal is not None and self.refusal.kind == kind


def join_packets(texts: Sequence[bytes]) -> bytes:
    if _ENDS_WITH_NUL.match(b"".join(texts[:2])):
        texts = [text.removesuffix(b"\0") for text in texts]
    return b"".join(texts)


def read_reply(text: bytes, limits: Limits) -> Generator[Rest, None, ProsperoReply]:
    """Parse a reply, and yield regularly to other tasks.

    Raises:
        ProtocolError: a quote is not closed.
        LimitExceeded: a line is longer than `limits.line` (except lines with the contents of an object), an
            object has more lines than `limits.lines`, or the reply has more links than `limits.entries`.
    """
    reader = _ReplyReader(limits)
    for number, words in enumerate(read_lines(text), 1):
        reader.take(words)
        if number % _BATCH == 0:
            yield REST
    return reader.finish()


class _ReplyReader:
    """A parser for the lines of a reply.

    `_link` is the link to which the current lines belong. `_is_link_invalid` is set if the current lines
    belong to an invalid link, and must be skipped.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._answer = ProsperoReply()
        self._link: ProsperoLink | None = None
        self._is_link_invalid = False
        self._ids: list[tuple[bytes, ...]] = []
        self._attributes: list[Attribute] = []
        self._lines = 0
        self._object_lines = 0

    def finish(self) -> ProsperoReply:
        self._close_link()
        return self._answer

    def take(self, words: TokenLine) -> None:
        keyword, *rest = words.tokens
        tokens = tuple(rest)
        is_contents = b"CONTENTS" in tokens[:3]
        if len(words.raw) > self._limits.line and not is_contents:
            raise LimitExceeded("line", f"a line of the reply is longer than {self._limits.line} bytes")
        self._count(is_contents)
        if keyword == b"ATTRIBUTE":
            self._take_attribute(tokens)
        elif keyword == b"LINK":
            self._take_link(tokens, words.raw)
        elif keyword == b"ID":
            self._ids.append(tokens)
        elif not _NESTED.fullmatch(
            keyword
        ):  # nested attributes, which describe another attribute, are ignored
            self._close_link()
            self._take_result(keyword, tokens)

    def _count(self, is_contents: bool) -> None:
        """Count a line, and check the limits, which prevent memory exhaustion by a long reply."""
        self._lines += 1
        self._object_lines += not is_contents
        if self._object_lines > self._limits.lines:
            raise LimitExceeded("lines", f"more than {self._limits.lines} lines about one object")
        max_lines = self._limits.entries * _LINES_PER_LINK
        if self._lines > max_lines:
            raise LimitExceeded("entries", f"more than {max_lines} lines in one reply")

    def _take_link(self, tokens: tuple[bytes, ...], raw: bytes) -> None:
        self._close_link()
        self._object_lines = 1
        self._link = parse_link(tokens, raw)
        self._is_link_invalid = self._link is None
        if self._is_link_invalid:
            self._report_skipped(b"LINK")

    def _take_attribute(self, tokens: tuple[bytes, ...]) -> None:
        attribute = parse_attribute(tokens)
        if attribute is None:
            self._report_skipped(b"ATTRIBUTE")
        elif self._link is not None:
            self._attributes.append(attribute)
        elif not self._is_link_invalid:
            self._answer.attributes.append(attribute)

    def _close_link(self) -> None:
        if self._link is not None:
            if len(self._answer.links) == self._limits.entries:
                raise LimitExceeded("entries", f"more than {self._limits.entries} links in one reply")
            self._answer.links.append(complete_link(self._link, self._ids, self._attributes))
        self._link, self._ids, self._attributes, self._is_link_invalid = None, [], [], False

    def _take_result(self, keyword: bytes, tokens: tuple[bytes, ...]) -> None:
        answer = self._answer
        if keyword in _REFUSALS:
            self._take_refusal(keyword, tokens)
        elif keyword == b"NONE-FOUND":
            answer.none_found = True
        elif keyword == b"FORWARDED":
            answer.forwarded = answer.forwarded or parse_pointer(tokens)
            if answer.forwarded is None:
                self._report_skipped(keyword)
        elif keyword == b"UNRESOLVED":
            answer.unresolved = tokens
        elif keyword == b"WARNING":
            _add_report(answer.warnings, " ".join(map(decode_text, tokens)))
        elif keyword == b"VERSION":
            answer.software = tokens[1] if len(tokens) > 1 else b""
        elif keyword not in _IGNORED:
            self._report_skipped(keyword)

    def _take_refusal(self, keyword: bytes, tokens: tuple[bytes, ...]) -> None:
        kind = tokens[0] if keyword == b"FAILURE" and tokens else b""
        text = tokens[1:] if kind else tokens
        self._answer.refusal = self._answer.refusal or ProsperoRefusal(
            keyword, kind, " ".join(map(decode_text, text))
        )

    def _report_skipped(self, keyword: bytes) -> None:
        _add_report(self._answer.oddities, f"unexpected line {decode_text(keyword[:40])!r}")


def _add_report(reports: list[str], text: str) -> None:
    if len(reports) < _MAX_REPORTS and text not in reports:
        reports.append(text)


#: The name of the client and of the user in a request. The names must not contain `VERSION 1`, because
#: servers detect the oldest clients by the text `VERSION 1` (protocol page 6.1).
SOFTWARE = b"url-resolver"
NAME = b"anonymous"

_VERSION = (b"VERSION", b"5", SOFTWARE)
_AUTHENTICATE = (b"AUTHENTICATE", b"''", b"UNAUTHENTICATED", NAME)

#: The attributes in the first request for an object. The client needs only ACCESS-METHOD. However, a server
#: with the default configuration examines a file only if a property of the file is requested, too. A request
#: for ACCESS-METHOD alone returns NOT-FOUND for every plain file (protocol page 6.4).
ATTRIBUTES = b"ACCESS-METHOD+SIZE+LAST-MODIFIED+UNIX-MODES"

#: The maximum overhead of all replies for one URL, in bytes. The overhead consists of attributes, links, and
#: the lines around the contents. The second constant is the maximum number of bytes that encode one byte of
#: the contents: two, because quotes are doubled.
_OVERHEAD = 1 << 20
_QUOTING_FACTOR = 2


@dataclass(frozen=True, slots=True)
class ProsperoRequest:
    """A request to the server of `target`.

    Attributes:
        label: The description of the reply for the user.
        ideal: The text of the reply that a plan expects.
        is_retryable: Whether the client may retry after a timeout. A retry is useless if the server
            responded to an earlier request but not to this request.
        is_last: Whether the client has no other way to continue after a timeout. Before another way, the
            connect timeout limits the wait for the first packet.
    """

    target: RequestObject
    message: Line
    label: str
    ideal: bytes
    is_retryable: bool = True
    is_last: bool = True


def request_facts(target: RequestObject) -> ProsperoRequest:
    """Return the request for the access methods and metadata of an object.

    Raises:
        Refused: the name of the object cannot be sent (S02, command injection).
    """
    ideal = b"ATTRIBUTE OBJECT INTRINSIC ACCESS-METHOD SEQUENCE PROSPERO-CONTENTS '' '' '' ''\n"
    message = _encode(target, (b"GET-OBJECT-INFO", ATTRIBUTES))
    return ProsperoRequest(target, message, "the access methods of the object", ideal)


def request_contents(target: RequestObject, *, is_last: bool = True) -> ProsperoRequest:
    ideal = b"ATTRIBUTE OBJECT INTRINSIC CONTENTS SEQUENCE DATA ''\n"
    message = _encode(target, (b"GET-OBJECT-INFO", b"CONTENTS"))
    label = "the contents of the object"
    return ProsperoRequest(target, message, label, ideal, is_retryable=False, is_last=is_last)


def request_links(target: RequestObject, *, is_last: bool = True) -> ProsperoRequest:
    """Return the request for all links of a directory, with their attributes.

    The reply also shows whether the object is a directory. The command VERIFY does not show this: the
    original server responds with NONE-FOUND to VERIFY for any name (protocol page 6.3).
    """
    # DIRECTORY names the object. SELECT applies to the preceding command, so DIRECTORY must precede SELECT.
    message = _encode(target, (b"DIRECTORY",), (b"LIST", b"ATTRIBUTES", b"COMPONENTS"))
    return ProsperoRequest(target, message, "the links of the directory", b"NONE-FOUND\n", is_last=is_last)


def _encode(target: RequestObject, command: tuple[bytes, ...], *further: tuple[bytes, ...]) -> Line:
    words = (quote(target.hsoname_type), quote(target.hsoname), b"%d" % target.version)
    selections = [(b"SELECT", *map(quote, selection)) for selection in target.selections]
    return encode_commands(_VERSION, _AUTHENTICATE, (*command, *words), *selections, *further)


class Inquirer:
    """The sender of all requests for one URL.

    `limits.body` limits the total size of all replies, plus an allowance for overhead and quoting. A server
    that did not respond to one request receives no further request, because each request would time out.
    """

    def __init__(self, limits: Limits, timing: RetransmitTiming) -> None:
        self._limits = limits
        self._timing = timing
        self._addresses: dict[RequestObject, str] = {}
        self._redirects: dict[tuple[str, int], RedirectAddress] = {}
        self._responders: dict[tuple[str, int], str] = {}
        self._silent: dict[tuple[str, int], TimedOut] = {}
        self._remaining = _OVERHEAD + _QUOTING_FACTOR * limits.body

    def referrer(self, target: RequestObject) -> Referrer:
        """Return the referrer of the objects that are named in the reply about `target`."""
        return Referrer(target.url, self._addresses.get(target))

    def address(self, target: RequestObject) -> str | None:
        """Return the address that responded to the request for `target`, or None before a response."""
        return self._addresses.get(target)

    def request(self, question: ProsperoRequest) -> Dialogue[ProsperoReply]:
        """Send a request, and parse its reply. Raises the errors of gate, ARDP exchange and parser."""
        server = question.target.server
        if server in self._silent:
            raise self._silent[server]
        opened: OpenedConnection = yield OpenDatagrams(question.target.route)
        yield PlanNote("the connection id, bytes 2 and 3 of each packet, is random; here it is 0")
        exchange = self._exchange(question, opened)
        try:
            ideal = DatagramReply((question.ideal,))
            reply: DatagramReply = yield ExchangeDatagrams(exchange, question.label, ideal)
        except TimedOut as error:
            if not exchange.has_answered:
                self._silent[server] = error.final()
            raise error if question.is_retryable or exchange.has_begun else error.final() from error.__cause__
        self._record_peer(question.target, exchange.redirect, reply.peer)
        text = join_packets(reply.pieces)
        self._remaining -= len(text)
        return (yield from read_reply(text, self._limits))

    def _exchange(self, question: ProsperoRequest, opened: OpenedConnection) -> ArdpExchange:
        return ArdpExchange(
            question.message,
            opened.number,
            opened.addresses,
            patience=self._limits.idle,
            silence=self._limits.idle if question.is_last else self._limits.connect,
            max_size=self._remaining,
            timing=self._timing,
            destination=self._find_redirect(question.target, opened.addresses),
        )

    def _find_redirect(
        self, target: RequestObject, addresses: Sequence[str]
    ) -> RedirectAddress | SwitchAddress | None:
        """Return a server's permanent redirect, or else the address of its last response, or None."""
        if target.server in self._redirects:
            return self._redirects[target.server]
        address = self._responders.get(target.server)
        return SwitchAddress(address) if address is not None and address in addresses else None

    def _record_peer(self, target: RequestObject, redirect: RedirectAddress | None, peer: str) -> None:
        if redirect is None:
            self._responders[target.server] = peer
        elif redirect.lasting:
            self._redirects[target.server] = redirect
        self._addresses[target] = peer
