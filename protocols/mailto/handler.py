"""Opening a mailto URL: an address, the fields that came with it, and a draft. The gate is not asked for
anything."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from protocols.body import Octets
from protocols.contract import Finding, Gate, Kind, Reply
from protocols.conversation import Conversation
from protocols.mailto.draft import Draft, propose
from protocols.mailto.url import MailtoUrl, build, split_addresses


@asynccontextmanager
async def open_mailto(url: MailtoUrl, gate: Gate) -> AsyncIterator[Reply]:
    """A reply of kind address: its body is the draft, its target the URL. Raises `Refused` (S02) where a
    header field would not stay one."""
    async with Conversation(propose(url), gate) as conversation:
        await conversation.run()
        assert conversation.result is not None
        yield _reply(url, conversation.result)


def _reply(url: MailtoUrl, draft: Draft) -> Reply:
    headers = tuple((_shown(name), _shown(value)) for name, value in url.headers)
    return Reply(
        kind=Kind.ADDRESS,
        body=Octets(draft.text),
        media_type="message/rfc822",
        size=len(draft.text),
        meta=headers,
        target=build(replace(url, fragment=None)),
        extra={
            "addresses": [_shown(address) for address in split_addresses(url.addr_spec)],
            "headers": [list(pair) for pair in headers],
        },
        findings=[
            *(Finding("mailto:header", "allow", _told(*pair)) for pair in draft.kept),
            *(
                Finding("mailto:left-out", "warn", f"{_told(*pair)}: not in the draft")
                for pair in draft.left_out
            ),
        ],
    )


def _told(name: bytes, value: bytes) -> str:
    return f"{_shown(name)}: {_shown(value)}"


def _shown(octets: bytes) -> str:
    """For a person: RFC 6068 says UTF-8."""
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        return octets.decode("latin-1")
