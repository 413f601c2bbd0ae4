"""Open a URL as the resolver does: perform its scheme's dialogue over a given gate."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TypeVar, cast

from protocols.contract import Gate, Reply
from protocols.conversation.driver import hold
from protocols.step import Dialogue, StartBody
from resolver import Kind, Url
from resolver.url import registry

T = TypeVar("T")


def open_url(url: Url, gate: Gate) -> AbstractAsyncContextManager[Reply]:
    scheme = registry.find(url.scheme)
    assert scheme is not None
    return hold(cast("Dialogue[object]", registry.converse(scheme, url, gate.options, gate.limits)), gate)


async def perform(dialogue: Dialogue[T], gate: Gate) -> T:
    """Return the result of a dialogue that starts no body."""
    results: list[T] = []

    def with_body() -> Dialogue[None]:
        results.append((yield from dialogue))
        yield StartBody(Reply(kind=Kind.UNKNOWN))

    async with hold(with_body(), gate):
        return results[0]
