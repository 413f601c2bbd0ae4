"""The questions: commands, one a line, that only read (protocol page 6; rule S05), and who is asked.

Each message is complete: the version spoken, a name that says nothing about the person, one command, so no
answer can belong to two. Tokens that came from a URL or a reply are quoted; keywords are our own.

Each question has a socket and a connection id of its own. One about another object than the URL's takes the
route that led there: so each is judged as a URL that followed from the answer that named it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from protocols.connection import Line, RedirectAddress, SwitchAddress
from protocols.errors import TimedOut
from protocols.location import Referrer
from protocols.options import Limits
from protocols.prospero.ardp import ArdpExchange, RetransmitTiming
from protocols.prospero.reply import ProsperoReply, join_packets, read_reply
from protocols.prospero.target import RequestObject
from protocols.prospero.token import quote
from protocols.step import (
    DatagramReply,
    Dialogue,
    ExchangeDatagrams,
    OpenDatagrams,
    OpenedConnection,
    PlanNote,
)
from protocols.values import dataclass
from protocols.wire import encode_commands

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
            toward=self._toward(question.target, opened.addresses),
        )

    def _toward(
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
