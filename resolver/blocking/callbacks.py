"""What a caller gives to be called: it runs in the thread that waits, wherever it is asked for."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import TypeVar, cast

from protocols.contract import Credentials
from resolver.events import OnEvent
from resolver.gate.credentials import CredentialSource, GivenSource
from resolver.portal import ask, told

T = TypeVar("T")


def asked(source: GivenSource) -> CredentialSource:
    """The retrieval waits for the answer. What has to be awaited is awaited where there is a loop."""

    async def find(scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
        found = await ask(partial(source, scheme, host, port, user))
        return await found if isinstance(found, Awaitable) else found

    return find


def crossing(keywords: dict[str, object]) -> None:
    """Put what runs in the caller's thread in place of each callback that is among the arguments."""
    if (on_event := keywords.get("on_event")) is not None:
        keywords["on_event"] = told(cast(OnEvent, on_event))
    if callable(source := keywords.get("credentials")):
        keywords["credentials"] = asked(cast(GivenSource, source))
