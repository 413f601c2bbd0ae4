"""Opening an http URL: the one place where the pure parts meet a connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from protocols.body import Octets
from protocols.contract import Body, Finding, Gate, Kind, Moved, Options, Reply
from protocols.conversation import Conversation
from protocols.errors import ResolveError
from protocols.http.answer import Answer
from protocols.http.codings import ALWAYS, Decoded, choose
from protocols.http.dates import parse_date
from protocols.http.dialogue import Answered, retrieve
from protocols.http.framed_answer import FramedAnswer
from protocols.http.framed_exchange import FramedExchange
from protocols.http.part import check_part, strong_etag
from protocols.http.statuses import check_status
from protocols.http.url import HttpUrl

_PARTIAL = 206


@asynccontextmanager
async def open_http(url: HttpUrl, gate: Gate) -> AsyncIterator[Reply]:
    """The reply to an http URL, while its connection lives. A redirection is a reply with `moved`.

    Raises `Declined` where the server says no, `ProtocolError` where it does not speak http, and
    `LimitExceeded`. A body that ends early, or grows beyond the ratio of its coding, raises when read.
    """
    async with Conversation(retrieve(url, gate.options, gate.limits), gate) as conversation:
        answered = await conversation.run()
        assert isinstance(answered, Answered)
        answer = _answer(conversation, answered)
        try:
            moved = check_status(answer.head, start=_asked_start(gate.options))
        except ResolveError:
            answer.pass_over()
            raise
        yield _leading_on(answer, moved) if moved else _reply(answer, gate)


def _answer(conversation: Conversation[None], answered: Answered) -> Answer | FramedAnswer:
    stream, buffer, exchange, head = (
        conversation.stream,
        conversation.buffer,
        answered.exchange,
        answered.head,
    )
    if isinstance(exchange, FramedExchange):
        return FramedAnswer(stream, buffer, exchange, head, lambda: conversation.keep(exchange.frames))
    return Answer(stream, buffer, exchange, head, lambda: conversation.keep(True))


def _leading_on(answer: Answer | FramedAnswer, moved: Moved) -> Reply:
    answer.pass_over()
    return Reply(
        kind=Kind.LINK,
        body=Octets(),
        meta=answer.head.fields,
        moved=moved,
        extra={"status": answer.head.status},
        findings=answer.findings,
    )


def _reply(answer: Answer | FramedAnswer, gate: Gate) -> Reply:
    head, options = answer.head, gate.options
    start = _asked_start(options) if head.status == _PARTIAL else 0
    size = check_part(head, start) if start else None if head.codings else head.announced
    return Reply(
        kind=Kind.DOCUMENT,
        body=_body(answer, options, gate.limits.ratio),
        media_type=head.media_type,
        charset=head.charset,
        size=size,
        start=start,
        modified=parse_date("".join(head.values("last-modified")[:1])),
        etag=None if head.codings else strong_etag(head),
        meta=head.fields,
        extra={"status": head.status},
        findings=answer.findings,
        verified=answer.verified,
    )


def _asked_start(options: Options) -> int:
    return 0 if options.want == "facts" else options.start


def _body(answer: Answer | FramedAnswer, options: Options, ratio: int) -> Body:
    """The body, its content coding undone. Where only facts are wanted it stays where it is."""
    if options.want == "facts":
        answer.pass_over()
        return Octets()
    unpacking = choose(answer.head.codings, {**ALWAYS, **options.codings})
    if unpacking is None:
        return answer.body()
    if options.want == "file":
        answer.findings.append(
            Finding("http:coded", "warn", f"sent with the content coding {answer.head.codings[0]}, unasked")
        )
    return Decoded(answer.body(), unpacking, ratio)
