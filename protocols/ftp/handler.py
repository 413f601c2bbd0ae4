"""Opening an ftp URL: where the dialogue meets the gate's two connections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from protocols.body import Filtered, Octets, StreamBody
from protocols.contract import Body, EntryReader, Gate, Reply
from protocols.conversation import Conversation
from protocols.ftp.dialogue import retrieve
from protocols.ftp.listing import MlsdReader, NlstReader
from protocols.ftp.text import NetworkText
from protocols.ftp.transfer import Ended, Form, Found, Transfer
from protocols.ftp.url import FtpUrl
from protocols.ftp.visit import Outcome


@asynccontextmanager
async def open_ftp(url: FtpUrl, gate: Gate) -> AsyncIterator[Reply]:
    """The reply to an ftp or ftps URL. It is given once data has begun to come, or once the final reply
    has said that there is none; the end of its body is the end of the transfer, final reply and all.

    Raises `Declined` (`LoginRequired`, `AccessDenied`, `NotFound`, `TryLater`), `TlsError` where TLS was
    asked for, `InvalidUrl` for a file without a name. The body raises `Truncated`.
    """
    async with Conversation(retrieve(url, gate.options, gate.limits), gate) as conversation:
        transfer = await conversation.run()
        if transfer is None:
            outcome = _settle(conversation)
            reply = _describe(url, gate, outcome.found, Octets())
            _add_proofs(reply, outcome)
        else:
            assert isinstance(transfer, Transfer)
            reply = _transmit(url, gate, conversation, transfer.found)
        yield reply


def _settle(conversation: Conversation[Outcome]) -> Outcome:
    """The dialogue has ended: keep its connection if it is in order."""
    outcome = conversation.result
    assert outcome is not None
    if outcome.standing.whole:
        conversation.keep(outcome.standing)
    return outcome


def _transmit(url: FtpUrl, gate: Gate, conversation: Conversation[Outcome], found: Found) -> Reply:
    async def conclude() -> None:
        proper = conversation.data.close_notify_seen
        await conversation.resume(Ended(body.received, proper))
        _add_proofs(reply, _settle(conversation))

    body = StreamBody(conversation.data, conversation.data_buffer, at_end=conclude, announced=found.expected)
    reply = _describe(url, gate, found, Filtered(body, NetworkText()) if found.form is Form.TEXT else body)
    return reply


def _describe(url: FtpUrl, gate: Gate, found: Found, body: Body) -> Reply:
    reply = Reply(
        kind=found.kind,
        body=body,
        media_type=None if found.form is Form.FILE else "text/plain",
        size=found.size,
        modified=found.modified,
        start=found.start,
    )
    reply.listing = _listing(url, gate, found, reply)
    return reply


def _listing(url: FtpUrl, gate: Gate, found: Found, reply: Reply) -> EntryReader | None:
    match found.form:
        case Form.NAMES:
            return NlstReader(url, found.argument, gate.limits, reply.findings)
        case Form.FACTS:
            return MlsdReader(url, gate.limits, reply.findings)
        case _:
            return None


def _add_proofs(reply: Reply, outcome: Outcome) -> None:
    reply.verified |= outcome.verified
    reply.findings += outcome.findings
