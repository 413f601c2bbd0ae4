"""Opening a gopher URL: where the pure parts meet a connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from protocols.body import Octets
from protocols.contract import Gate, Reply
from protocols.conversation import Conversation
from protocols.gopher.answer import Answer
from protocols.gopher.dialogue import Handed, Pointer, converse, default_view
from protocols.gopher.request import Ask, parse_command
from protocols.gopher.url import GopherUrl


@asynccontextmanager
async def open_gopher(url: GopherUrl, gate: Gate) -> AsyncIterator[Reply]:
    """The reply to a gopher URL, while its connection lives.

    Raises `Declined` where the server answers with an error, and `ProtocolError` where it answers a
    Gopher+ request with nothing. A reply that ends early is `Truncated`, by its body; attributes and
    forms are read whole before they are handed over.
    """
    async with Conversation(converse(url), gate) as conversation:
        handed = await conversation.run()
        if handed is None:
            assert conversation.result is not None
            yield _pointing(conversation.result)
        else:
            assert isinstance(handed, Handed)
            yield await _reply(url, conversation, handed, gate.limits.line)


def _pointing(pointer: Pointer) -> Reply:
    return Reply(kind=pointer.kind, body=Octets(), target=pointer.target, extra=pointer.extra)


async def _reply(
    url: GopherUrl, conversation: Conversation[Pointer | None], handed: Handed, line_limit: int
) -> Reply:
    answer = Answer(url, handed.header, conversation.stream, conversation.buffer, line_limit)
    if parse_command(url.gopherplus).ask is not Ask.FORM:
        return await answer.reply()
    form = await answer.form()
    if form is not None:
        return form
    again = await conversation.resume(False)
    assert isinstance(again, Handed)
    item = default_view(url)
    answer = Answer(item, again.header, conversation.stream, conversation.buffer, line_limit)
    answer.evidence.warn("gopher:no-form", "the item has no form; this is the item itself")
    return await answer.reply()
