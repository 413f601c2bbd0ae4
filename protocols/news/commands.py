"""The commands this client knows, and nothing else goes out (RFC 3977, 4642, 4643, 8054).

Of a URL only a checked group name, a checked message-id and an integer get into one. POST, IHAVE and
whatever else would change a server are not among the verbs (S05).
"""

from __future__ import annotations

import enum

from protocols.connection import Line
from protocols.errors import Refused
from protocols.values import dataclass, field
from protocols.wire import Secret, encode_line

#: RFC 3977 3.1: octets of a command, CR LF included.
COMMAND_LIMIT = 512
#: Digits of an article number (RFC 3977 9.8).
MOST_DIGITS = 16


class NntpVerb(enum.StrEnum):
    """A keyword with its fixed first argument, as it is sent."""

    CAPABILITIES = "CAPABILITIES"
    MODE_READER = "MODE READER"
    STARTTLS = "STARTTLS"
    COMPRESS_DEFLATE = "COMPRESS DEFLATE"
    AUTHINFO_USER = "AUTHINFO USER"
    AUTHINFO_PASS = "AUTHINFO PASS"
    GROUP = "GROUP"
    LISTGROUP = "LISTGROUP"
    ARTICLE = "ARTICLE"
    HEAD = "HEAD"
    STAT = "STAT"
    OVER = "OVER"
    XOVER = "XOVER"
    LIST_ACTIVE = "LIST ACTIVE"
    LIST_NEWSGROUPS = "LIST NEWSGROUPS"
    QUIT = "QUIT"


#: Nothing may be sent behind these before they are answered (RFC 3977 3.5, 5.3, RFC 4642, 4643, 8054).
ALONE = frozenset(
    {
        *(NntpVerb.MODE_READER, NntpVerb.STARTTLS, NntpVerb.COMPRESS_DEFLATE),
        *(NntpVerb.AUTHINFO_USER, NntpVerb.AUTHINFO_PASS, NntpVerb.QUIT),
    }
)
#: After these, if they are granted, another group is the selected one.
SELECTING = frozenset({NntpVerb.GROUP, NntpVerb.LISTGROUP})
#: The variants of LIST.
LISTS = frozenset({NntpVerb.LIST_ACTIVE, NntpVerb.LIST_NEWSGROUPS})
#: Those that a server in transit mode need not know.
READER_VERBS = frozenset(
    {
        *(NntpVerb.GROUP, NntpVerb.LISTGROUP, NntpVerb.ARTICLE, NntpVerb.HEAD, NntpVerb.STAT),
        *(NntpVerb.OVER, NntpVerb.XOVER, *LISTS),
    }
)


@dataclass(frozen=True, slots=True)
class NntpCommand:
    """One command and the line that says it. Raises `Refused` (S02) for an argument that would end it or make
    it too long."""

    verb: NntpVerb
    argument: bytes | Secret | None = None
    line: Line = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        verb = self.verb.value.encode("ascii")
        line = encode_line(verb) if self.argument is None else encode_line(verb, self.argument)
        if len(line.octets) > COMMAND_LIMIT:
            raise Refused("S02", f"{self.verb} with this argument is longer than {COMMAND_LIMIT} octets")
        object.__setattr__(self, "line", line)

    def __str__(self) -> str:
        """For a message: no line end, no secret, no control character."""
        return repr(self.line.shown.rstrip().decode("ascii", "backslashreplace"))


def encode_number(number: int) -> bytes:
    """An article number as it is sent: no leading zeros."""
    return b"%d" % number


def encode_range(first: int, last: int) -> bytes:
    return b"%d-%d" % (first, last)


def encode_message_id(message_id: bytes) -> bytes:
    """A URL's message-id as it is sent: always in angle brackets (RFC 5538 section 3)."""
    return b"<%s>" % message_id
