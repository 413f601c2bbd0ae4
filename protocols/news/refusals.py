"""What a 4yz or 5yz answer becomes (RFC 3977 3.2.1; the codes of RFC 4642 and 4643).

The code decides, never the text. What asks for a way round (another mode, a login, TLS) has been tried
before an answer comes here.
"""

from __future__ import annotations

from protocols.errors import AccessDenied, Declined, LoginRequired, NotFound, ProtocolError, TryLater
from protocols.news.commands import Command
from protocols.news.reply import Answer, decode_text

_MEANINGS: dict[int, tuple[type[Declined], str]] = {
    400: (TryLater, "the server is closing"),
    401: (Declined, "the server wants something first that this client does not have"),
    403: (TryLater, "a fault of the server"),
    411: (NotFound, "no such group"),
    420: (NotFound, "no such article"),
    423: (NotFound, "no such article"),
    430: (NotFound, "no such article"),
    480: (LoginRequired, "a name and password are needed"),
    481: (AccessDenied, "wrong name or password"),
    483: (Declined, "the server needs TLS for this"),
    500: (Declined, "unknown to the server"),
    501: (Declined, "the server does not take this"),
    502: (AccessDenied, "not permitted"),
    503: (Declined, "the server does not have this"),
}


def refusal(doing: Command | str, answer: Answer) -> Declined | ProtocolError:
    """The error for an answer that says no to what was being done."""
    if answer.code in (412, 482):
        return ProtocolError(f"{doing}: {answer.shown} cannot be, in this order of commands")
    kind, meaning = _MEANINGS.get(answer.code, (Declined, "refused"))
    return declined(kind, doing, answer, meaning)


def declined(kind: type[Declined], doing: Command | str, answer: Answer, meaning: str) -> Declined:
    """A refusal whose meaning something else than its code has settled."""
    text = decode_text(answer.text)
    return kind(f"{doing}: {meaning}: the server said {answer.shown}", code=str(answer.code), text=text)
