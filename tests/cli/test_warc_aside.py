"""What an archive keeps is packed and written in a thread: who waits for a disk is the one who is kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from resolver import Policy, Resolver
from resolver.warc import Recorder
from resolver.warc.group import RecordGroup
from resolver.warc.recorder import WarcVolume
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

    def keep(self, group: RecordGroup) -> None:
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


class Disk:
    """Counts how often it is waited for, and stands still the first time, until so many captures wait."""

    def __init__(self, captures: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.syncs = self._kept = 0
        self._most = captures
        self._all = threading.Event()
        self._sync, self._together = WarcVolume.sync, WarcVolume.together
        monkeypatch.setattr(WarcVolume, "sync", lambda volume: self.sync(volume))
        monkeypatch.setattr(WarcVolume, "together", lambda volume: self.together(volume))

    def sync(self, volume: WarcVolume) -> None:
        self.syncs += 1
        assert self._all.wait(HANG)
        self._sync(volume)

    @contextmanager
    def together(self, volume: WarcVolume) -> Iterator[None]:
        with self._together(volume):
            yield
        self._kept += 1
        if self._kept == self._most:
            self._all.set()


async def test_captures_that_wait_for_the_disk_wait_for_it_together(
    at: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = [f"{at['gopher']}/00/about"] * 8
    with Recorder("a.warc.gz", sync=True) as recorder:
        disk = Disk(len(urls), monkeypatch)
        opened = Resolver(recorder=recorder, policy=ANY_PORT)
        async with opened as session, trio.open_nursery() as nursery:
            for url in urls:
                nursery.start_soon(session.fetch, url)
    assert len(kept(folder / "a.warc.gz")) == len(urls)
    assert 2 <= disk.syncs <= 3  # who has written, and is not yet counted, may be late for the second


async def test_what_waits_for_the_disk_is_on_it_before_there_is_another_file(
    at: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = list[str]()
    monkeypatch.setattr(WarcVolume, "sync", lambda volume: synced.append(volume.name))
    with Recorder("a.warc.gz", sync=True, size=1) as recorder:
        monkeypatch.setattr(recorder, "_flush", lambda place: None)  # it has not come to that yet
        async with Resolver(recorder=recorder, policy=ANY_PORT) as session:
            await session.fetch(f"{at['http']}/about.txt")
            await session.fetch(f"{at['gopher']}/00/about")
    assert synced == ["a.warc.gz", "a-00001.warc.gz"]
    assert all(kept(folder / name) for name in ("a-00001.warc.gz", "a-00002.warc.gz"))
