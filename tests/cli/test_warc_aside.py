"""What an archive keeps is packed and written in a thread: who waits for a disk is the one who is kept."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import trio

from resolver import Policy, Resolver
from resolver.warc import Recorder
from resolver.warc.group import Group
from tests.cli.test_warc import check, records
from tests.hang import HANG

ANY_PORT = Policy(allow_port=frozenset(range(1, 65_536)))


class Slow:
    """A disk that stands still for records of one URL, until it is let go."""

    def __init__(self, recorder: Recorder, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at_it, self._go = trio.Event(), threading.Event()
        self._token = trio.lowlevel.current_trio_token()
        self._keep, self._url = recorder.keep, url
        monkeypatch.setattr(recorder, "keep", self.keep)

    def keep(self, group: Group) -> None:
        if group.subject.target == self._url:
            self._token.run_sync_soon(self.at_it.set)
            assert self._go.wait(HANG)
        self._keep(group)

    def let_go(self) -> None:
        self._go.set()


def kept(path: Path) -> list[str | None]:
    check(path)
    return [each.head.target for each in records(path) if each.head.type in ("response", "resource")]


async def test_a_disk_that_stands_still_keeps_nobody_else_waiting(
    at: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = f"{at['http']}/about.txt", f"{at['gopher']}/00/about"
    done = list[str]()

    async def fetch(session: Resolver, url: str) -> None:
        await session.fetch(url)
        done.append(url)

    with Recorder("a.warc.gz") as recorder:
        slow = Slow(recorder, first, monkeypatch)
        opened = Resolver(recorder=recorder, policy=ANY_PORT)
        async with opened as session, trio.open_nursery() as nursery:
            nursery.start_soon(fetch, session, first)
            await slow.at_it.wait()
            await fetch(session, second)
            assert done == [second]  # nothing counts before it is kept
            slow.let_go()
    assert done == [second, first]
    assert kept(folder / "a.warc.gz") == [second, first]


async def test_what_is_cancelled_while_it_is_written_is_written(
    at: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{at['http']}/about.txt"
    with Recorder("a.warc.gz") as recorder:
        slow = Slow(recorder, url, monkeypatch)
        opened = Resolver(recorder=recorder, policy=ANY_PORT)
        async with opened as session, trio.open_nursery() as nursery:
            nursery.start_soon(session.fetch, url)
            await slow.at_it.wait()
            nursery.cancel_scope.cancel()
            slow.let_go()
    assert kept(folder / "a.warc.gz") == [url]


async def test_what_is_cancelled_before_it_is_written_is_written(at: dict[str, str], folder: Path) -> None:
    url = f"{at['http']}/about.txt"
    with Recorder("a.warc.gz") as recorder:
        async with Resolver(recorder=recorder, policy=ANY_PORT) as session:
            with trio.CancelScope() as scope:
                async with session.stream(url) as reply:
                    async for _ in reply.body:
                        pass
                    scope.cancel()
    assert kept(folder / "a.warc.gz") == [url]
