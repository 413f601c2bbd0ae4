"""A blocking session with the interface of an async one: for tests that cover both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from resolver import Entry, Limits, Options, Policy, Resolver, Response, RetryPolicy, Saved, blocking
from resolver.loops import running
from resolver.network.events import OnEvent
from resolver.testing.contract import CaseSetting
from resolver.testing.contract.case import PATIENT

T = TypeVar("T")


class IteratorAdapter(Generic[T]):
    """An async iterator over an iterator."""

    def __init__(self, given: Iterator[T]) -> None:
        self._given = given

    def __aiter__(self) -> IteratorAdapter[T]:
        return self

    async def __anext__(self) -> T:
        try:
            for each in self._given:
                return each
        except ValueError as error:  # the iterator was closed
            raise running().closed(str(error)) from error
        raise StopAsyncIteration


class BlockingReplyAdapter:
    def __init__(self, reply: blocking.LiveReply) -> None:
        self.kind = reply.kind
        self.body = IteratorAdapter(iter(reply.body))


class BlockingAdapter:
    """A session whose `await` blocks the test's loop; no other task needs that loop."""

    def __init__(self, session: blocking.Resolver) -> None:
        self._session = session

    async def __aenter__(self) -> BlockingAdapter:
        self._session.__enter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._session.close()

    async def fetch(self, url: str, **given: Any) -> Response:
        return self._session.fetch(url, **given)

    async def info(self, url: str) -> Entry:
        return self._session.info(url)

    async def save(self, url: str, path: Path, **given: Any) -> Saved:
        return self._session.save(url, path, **given)

    @asynccontextmanager
    async def stream(self, url: str) -> AsyncIterator[BlockingReplyAdapter]:
        with self._session.stream(url) as reply:
            yield BlockingReplyAdapter(reply)

    @asynccontextmanager
    async def entries(self, url: str) -> AsyncIterator[IteratorAdapter[Entry]]:
        with self._session.entries(url) as entries:
            yield IteratorAdapter(entries)


@dataclass(frozen=True)
class BlockingSetting(CaseSetting):
    """A contract setting whose sessions are blocking."""

    @classmethod
    def of(cls, setting: CaseSetting) -> BlockingSetting:
        return cls(**{each.name: getattr(setting, each.name) for each in fields(CaseSetting)})

    def waiting(self, **settings: Any) -> blocking.Resolver:
        given = {name: value for name, value in settings.items() if value is not None}
        patient = {"policy": self.policy, "limits": Limits(idle=PATIENT), "news_server": self.news_server}
        return blocking.Resolver(**{**patient, **given})

    def resolver(
        self,
        *,
        options: Options | None = None,
        limits: Limits | None = None,
        policy: Policy | None = None,
        patience: RetryPolicy | None = None,
        on_event: OnEvent | None = None,
    ) -> Resolver:
        session = self.waiting(
            options=options, limits=limits, policy=policy, patience=patience, on_event=on_event
        )
        return cast(Resolver, BlockingAdapter(session))
