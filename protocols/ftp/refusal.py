"""What a 4yz or 5yz reply means: which error it is, in whose words (RFC 959 4.2.2, RFC 2228, RFC 2428).

The first digit decides; only the codes in the table are looked at whole. 550 is one code for "missing"
and for "not allowed": nobody can tell which, and the message says so.
"""

from __future__ import annotations

import re

from protocols.errors import AccessDenied, Declined, LoginRequired, NotFound, TryLater
from protocols.ftp.reply import ControlReply

#: ProFTPD: "Sorry, the maximum number of clients (2) for this user already connected."; wu-ftpd: "Too many
#: users"; others: "too many connections", "Maximum login limit has been reached", "connection limit".
_FULL = (
    r"too many|max(imum|\.)?( allowed)?( number| clients| users| connections| logins?| sessions)|"
    r"(connection|user|client|login|session)s? limit|limit (is |has been |of \S+ )?(reached|exceeded)"
)

_MEANINGS: dict[int, tuple[type[Declined], str]] = {
    332: (LoginRequired, "an account is needed, and a URL has none"),
    421: (TryLater, "the server closes the connection"),
    425: (TryLater, "the server could make no data connection"),
    426: (TryLater, "the transfer broke off"),
    450: (TryLater, "busy, or not there"),
    451: (TryLater, "trouble on the server"),
    452: (TryLater, "trouble on the server"),
    500: (Declined, "not implemented"),
    501: (Declined, "the server does not take this argument"),
    502: (Declined, "not implemented"),
    504: (Declined, "not implemented for this argument"),
    522: (Declined, "the server wants another address family, or refuses the TLS of the data connection"),
    530: (AccessDenied, "not logged in"),
    532: (LoginRequired, "an account is needed, and a URL has none"),
    550: (NotFound, "missing or not allowed"),
    553: (AccessDenied, "this name is not allowed"),
}


def declined(reply: ControlReply, doing: str, hint: str = "") -> Declined:
    """The error for a reply that says no to what was being done."""
    if is_full(reply):
        return refusal_of(TryLater, reply, f"{doing}: too many are logged in", hint)
    if reply.code in _MEANINGS:
        kind, meaning = _MEANINGS[reply.code]
    else:
        kind, meaning = (TryLater, "not now") if reply.code < 500 else (Declined, "refused")
    return refusal_of(kind, reply, f"{doing}: {meaning}", hint)


def is_full(reply: ControlReply) -> bool:
    """Does it refuse a login for those who are logged in already? RFC 959 has 421 for that; many servers say
    it with 530, and only their words tell."""
    return reply.code == 530 and re.search(_FULL, reply.text, re.IGNORECASE) is not None


def refusal_of(kind: type[Declined], reply: ControlReply, message: str, hint: str = "") -> Declined:
    """A refusal whose class something else than its code has settled."""
    words = f"{message}: the server said {reply.shown!r}"
    return kind(f"{words}; {hint}" if hint else words, code=str(reply.code), text=reply.text)
