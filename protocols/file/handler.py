"""Resolves a file URL: what the gate opened becomes a document or a listing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from protocols.contract import Gate, Kind, Reply
from protocols.conversation import Conversation
from protocols.file.dialogue import read_file
from protocols.file.directory import reply_with_directory
from protocols.file.document import reply_with_document
from protocols.file.url import FileUrl


@asynccontextmanager
async def open_file(url: FileUrl, gate: Gate) -> AsyncIterator[Reply]:
    """A `Reply` of kind document or directory. `NotFound` where there is nothing, and for a file
    where the URL wants a directory; `AccessDenied`, `Refused` (S12), `LocalError`."""
    async with Conversation(read_file(url), gate) as conversation:
        await conversation.run()
        file = conversation.file
        if file.status.kind is Kind.DIRECTORY:
            yield await reply_with_directory(url, file)
        else:
            yield reply_with_document(url, file, gate.options)
