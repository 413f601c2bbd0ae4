"""The fault matrix: with any behavior of the peer, the file is complete or absent, with a cause.

Silent cells take long but little CPU. A portion of them runs concurrently; not all, because several processes
may share the tests. Each other cell runs alone. By default a fault is tried either once or always, and a cut
in a body at its first byte and at one later place; other parts have the others (`tests.sampled`).
"""

from __future__ import annotations

import os
import random
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import trio

from fixtures.__main__ import server_tls
from fixtures.faulty import Profile, serve
from resolver import (
    Changed,
    Disconnected,
    LimitExceeded,
    Policy,
    ProtocolError,
    ResolveError,
    Resolver,
    RetryPolicy,
    TimedOut,
    TlsError,
    Truncated,
    TryLater,
    Unreachable,
)
from resolver.transfer.retry import OVERLAP
from tests.faults.cell import CONTENT, NAME, PATIENCE, SIZE, Came, Result, run, save
from tests.faults.command import CHECKOUT, size_of
from tests.faults.file_rows import FILE_ROWS, OLD, FileRow
from tests.faults.rows import RESUMING, ROWS, SECURED, Row
from tests.faults.table import cells, table
from tests.hang import HANG
from tests.sampled import FULL, sampled
from tests.scheduled import run_scheduled

#: Number of silent cells that run concurrently.
_PORTION = 24

#: Bytes that may be requested twice in addition to the overlap: a WAIS range, or its content.
_SLACK = {"wais": 10_000}


def is_silent(row: Row) -> bool:
    return row.manner.fault is not None and row.manner.fault.kind in ("silence", "never")


def kind_of(row: Row) -> object:
    """Return the group of a cell.

    Cells of a group differ only in the position in the body and the number of failures.
    """
    fault = row.manner.fault
    if fault is None:
        return row
    share = 50 if fault.at == "body" and fault.share not in (0, 100) else fault.share
    return row.scheme, replace(row.manner, fault=replace(fault, share=share, times=None))


TRIED = sampled(ROWS, kind_of)


class Results:
    """The results of cells, computed on demand."""

    def __init__(self, asked: list[Row], folder: Path) -> None:
        silent = [row for row in asked if is_silent(row)]
        portions = [silent[at : at + _PORTION] for at in range(0, len(silent), _PORTION)]
        self._together = {row: portion for portion in portions for row in portion}
        self._folder = folder
        self._tls, self._authority = server_tls(folder)
        self._found: dict[Row, Result] = {}

    def __getitem__(self, row: Row) -> Result:
        if row not in self._found:
            with (
                pytest.MonkeyPatch.context() as patch
            ):  # reading the system's authorities takes 50 ms a client
                patch.setenv("SSL_CERT_FILE", str(self._authority))
                patch.setenv("SSL_CERT_DIR", str(self._folder))
                run_scheduled(partial(self._run, self._together.get(row, [row])))
        return self._found[row]

    async def _run(self, rows: list[Row]) -> None:
        with trio.fail_after(HANG):
            async with trio.open_nursery() as nursery:
                for row in rows:
                    nursery.start_soon(self._run_one, row)

    async def _run_one(self, row: Row) -> None:
        place = self._folder / str(len(os.listdir(self._folder)))
        place.mkdir()
        tls = self._tls if row.scheme in SECURED else None
        login = "user:word@" if row.manner.login else ""
        self._found[row] = await run(row.scheme, row.manner, place, tls, login=login)


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Results:
    asked = {
        item.callspec.params["row"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == "test_cell"
    }
    return Results([row for row in TRIED if row in asked], tmp_path_factory.mktemp("matrix"))


def test_cell_names_are_unique() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", TRIED, ids=lambda row: row.name)
def test_cell(row: Row, results: Results) -> None:
    check(row, results[row])


def check(row: Row, result: Result) -> None:
    """Check the result of a cell against its row."""
    _check_state(row, result)
    _check_first(row, result.first)
    if row.error is not None:
        assert result.after is not None
        _check_after(row, result.first, result.after)


def _check_first(row: Row, came: Came) -> None:
    if row.error is None:
        assert came.error is None
        assert came.files == {NAME: row.content}
        assert came.saved is not None
        assert came.saved.attempts == came.attempts
        assert row.finding is None or row.finding in came.rules
    else:
        assert came.error is not None
        assert type(came.error) in _errors(row, row.error)
        assert came.error.exit_code == _STATUS[type(came.error)]
        assert came.error.attempts == came.attempts
        assert came.error.url is not None
        assert "word" not in came.error.url
        _check_counts(row, came)
        _check_kept(row, came)
    assert row.tries is None or came.attempts in _tries(row, row.tries)
    # the server ignores the offset, and the same attempt repeats from the start
    in_vain = row.manner.offsets == "elsewhere"
    assert came.sent <= SIZE * (came.attempts + in_vain)
    if row.finding != "save:restarted" and row.scheme in RESUMING:
        assert came.sent <= SIZE + came.attempts * (OVERLAP + _SLACK.get(row.scheme, 0))


def _errors(row: Row, error: type[ResolveError]) -> tuple[type[ResolveError], ...]:
    """Return the expected errors.

    `Disconnected` is also allowed if a reset ends the connection before the object began.
    """
    return (error, Disconnected) if _is_reset_at_end(row) else (error,)


def _tries(row: Row, most: int) -> tuple[int, ...]:
    """Return the allowed numbers of attempts.

    One more is allowed if timing decides how much arrives in each attempt.
    """
    fault = row.manner.fault
    silent = fault is not None and fault.kind == "silence"
    return (most, most + 1) if silent or _is_reset_at_end(row) else (most,)


def _is_reset_at_end(row: Row) -> bool:
    """Return whether a reset follows the last byte: the kernel then discards unsent data (tcp(7))."""
    fault = row.manner.fault
    return fault is not None and (fault.kind, fault.at) == ("reset", "end")


#: The command's exit status by error.
_STATUS: dict[type[ResolveError], int] = {
    Disconnected: 4,
    Unreachable: 4,
    TlsError: 5,
    LimitExceeded: 7,
    ProtocolError: 7,
    TryLater: 8,
    Truncated: 10,
    TimedOut: 11,
}


def _check_counts(row: Row, came: Came) -> None:
    if not isinstance(came.error, Truncated):
        return
    assert row.received in (None, came.error.received)
    assert row.expected in (None, came.error.expected)
    assert came.error.received <= SIZE


def _check_kept(row: Row, came: Came) -> None:
    """Check that the final name is unused, and that the kept bytes are received bytes that can be resumed."""
    names = {f"{NAME}.part", f"{NAME}.part-state"} if row.held else set()
    assert set(came.files) == names
    if row.held:
        assert came.files[f"{NAME}.part"] == CONTENT[: row.held]


def _check_after(row: Row, first: Came, after: Came) -> None:
    """Check that a later run completes the file, requests only missing bytes, and leaves no other file."""
    assert after.error is None
    assert after.files == {NAME: row.content}
    assert after.saved is not None
    taken_up = row.held if row.taken_up is None else row.taken_up
    assert after.saved.resumed_from == taken_up
    assert after.sent <= SIZE - taken_up + OVERLAP


def _check_state(row: Row, result: Result) -> None:
    """Check that the state file of each partial file names its URL."""
    for file, octets in result.first.files.items():
        if file.endswith(".part-state"):
            assert b'"url": "' + row.scheme.encode() + b"://" in octets


# A file that changes while it is read: the saved file is one complete state of it.


async def strike(row: FileRow, source: Path, part: Path) -> None:
    """Change the file after its first bytes were read, and again in later attempts if `always`."""
    while True:
        while not size_of(part):
            await trio.lowlevel.checkpoint()
        row.change(source)
        if not row.always:
            return
        while size_of(part):
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("row", FILE_ROWS, ids=lambda row: row.name)
async def test_file_changed_during_read_is_saved_consistently(
    row: FileRow, nursery: trio.Nursery, tmp_path: Path
) -> None:
    source, folder = tmp_path / "source", tmp_path / "folder"
    source.write_bytes(OLD)
    folder.mkdir()
    nursery.start_soon(partial(strike, row, source, folder / f"{NAME}.part"))
    came = await save(source.as_uri(), folder, None, PATIENCE)
    nursery.cancel_scope.cancel()
    _check(row, came)


def _check(row: FileRow, came: Came) -> None:
    assert came.attempts == row.tries
    if row.content is None:
        assert type(came.error) is Changed
        assert came.error is not None
        assert (came.error.exit_code, came.error.attempts) == (10, row.tries)
        assert came.files == {}
    else:
        assert came.error is None
        assert came.files == {NAME: row.content}
        assert ("save:restarted" in came.rules) == (row.tries > 1)


# A server that cuts at random bytes of a file: the file is complete, and little is sent twice.
#
# `RESOLVE_TESTS=full` cuts a file of 64 MiB 200 times; the default is a smaller file, cut so often that the
# overlaps have the same share.

CUTS_SIZE, CUTS = (67_108_864, 200) if FULL else (4_194_304, 40)
MOST = 1.05


@pytest.mark.parametrize("scheme", ["ftp", "http"])
async def test_save_resumes_after_random_cuts(scheme: str, nursery: trio.Nursery, tmp_path: Path) -> None:
    source = random.Random(scheme)
    content = source.randbytes(CUTS_SIZE)
    manner = Profile(cuts=tuple(sorted(source.sample(range(1, CUTS_SIZE), CUTS))))
    server = await serve(nursery, scheme, content, manner)
    async with Resolver(
        policy=Policy(allow_port=frozenset({server.port})), patience=RetryPolicy(tries=3, delay=0.001)
    ) as session:
        saved = await session.save(server.url(), str(tmp_path / "object"))
    assert (tmp_path / "object").read_bytes() == content
    assert os.listdir(tmp_path) == ["object"]
    assert saved.attempts == CUTS + 1
    assert saved.resumed_from > 0
    assert server.connections == CUTS + 1
    print(f"{scheme}: {server.sent} octets for {CUTS_SIZE} in {saved.elapsed:.2f} s")
    assert server.sent <= MOST * CUTS_SIZE


# The statements of the page on reliability about the matrix.


def test_page_has_the_table() -> None:
    page = (CHECKOUT / "docs/explanation/reliability.md").read_text(encoding="utf-8")
    assert table() in page
    assert f"{cells()} cells" in " ".join(page.split())


def test_table_counts_every_cell() -> None:
    last = table().splitlines()[-1]
    assert sum(int(number) for number in re.findall(r"[0-9]+", last)) == cells()
