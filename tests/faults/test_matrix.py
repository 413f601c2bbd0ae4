"""The fault matrix: whatever the peer does, the file is whole or there is none, and it is said why not.

All chosen cells are run together, some at a time, before the first of them is looked at: silence takes
its time, and needs no attention.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest
import trio

from fixtures.__main__ import server_tls
from protocols.errors import (
    Disconnected,
    LimitExceeded,
    ProtocolError,
    ResolveError,
    TimedOut,
    TlsError,
    Truncated,
    TryLater,
    Unreachable,
)
from resolver.tries import OVERLAP
from tests.faults.cell import CONTENT, NAME, SILENCE, SIZE, Came, Result, run
from tests.faults.rows import RESUMING, ROWS, SECURED, Row

#: Cells under way at the same time that mostly wait; the others are run one by one.
_AT_ONCE = 24

#: What may be asked for again, beside the overlap: a range of WAIS, or what was in it.
_SLACK = {"wais": 10_000}


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """The results of all cells that were chosen, by name."""
    asked = {
        item.callspec.params["row"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == "test_cell"
    }
    folder = tmp_path_factory.mktemp("matrix")
    context, cafile = server_tls(folder)
    with pytest.MonkeyPatch.context() as patch:  # reading the system's authorities takes 50 ms a client
        patch.setenv("SSL_CERT_FILE", str(cafile))
        patch.setenv("SSL_CERT_DIR", str(folder))
        return trio.run(_run_all, [row for row in ROWS if row in asked], folder, context)


async def _run_all(rows: list[Row], folder: Path, tls: ssl.SSLContext) -> dict[str, Result]:
    found: dict[str, Result] = {}
    waiting = trio.CapacityLimiter(_AT_ONCE)
    working = trio.CapacityLimiter(1)

    async def one(row: Row, number: int) -> None:
        silent = row.manner.fault is not None and row.manner.fault.kind in ("silence", "never")
        async with waiting if silent else working:
            place = folder / str(number)
            place.mkdir()
            secured = row.scheme in SECURED
            login = "user:word@" if row.manner.login else ""
            found[row.name] = await run(row.scheme, row.manner, place, tls if secured else None, login=login)

    async with trio.open_nursery() as nursery:
        for number, row in enumerate(rows):
            nursery.start_soon(one, row, number)
    return found


def test_every_cell_has_a_name_of_its_own() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_cell(row: Row, results: dict[str, Result]) -> None:
    result = results[row.name]
    _check_first(row, result.first)
    if row.error is not None:
        assert result.after is not None
        _check_after(row, result.first, result.after)
    took = result.first.elapsed
    silent = row.error is not None and row.error.__name__ == "TimedOut"
    assert took < (result.first.attempts * SILENCE if silent else 0) + 2


def _check_first(row: Row, came: Came) -> None:
    if row.error is None:
        assert came.error is None
        assert came.files == {NAME: row.content}
        assert came.saved is not None
        assert came.saved.attempts == came.attempts
        assert row.finding is None or row.finding in came.rules
    else:
        assert type(came.error) is row.error
        assert came.error is not None
        assert came.error.exit_code == _STATUS[row.error]
        assert came.error.attempts == came.attempts
        assert came.error.url is not None
        assert "word" not in came.error.url
        _check_counts(row, came)
        _check_kept(row, came)
    assert row.tries is None or came.attempts in _tries(row, row.tries)
    assert came.sent <= SIZE * came.attempts
    if row.finding != "save:restarted" and row.scheme in RESUMING:
        assert came.sent <= SIZE + came.attempts * (OVERLAP + _SLACK.get(row.scheme, 0))


def _tries(row: Row, most: int) -> tuple[int, ...]:
    """This machine may be the one that is silent for too long; then one more try has something new."""
    fault = row.manner.fault
    silent = fault is not None and fault.kind == "silence"
    return (most, most + 1) if silent else (most,)


#: What the command's exit status is for it.
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
    """Nothing half-written under the final name; what is kept is what came, and can be gone on with."""
    names = {f"{NAME}.part", f"{NAME}.part-state"} if row.held else set()
    assert set(came.files) == names
    if row.held:
        assert came.files[f"{NAME}.part"] == CONTENT[: row.held]


def _check_after(row: Row, first: Came, after: Came) -> None:
    """A later run has the file, asks for no more than is missing, and leaves nothing else behind."""
    assert after.error is None
    assert after.files == {NAME: row.content}
    assert after.saved is not None
    taken_up = row.held if row.taken_up is None else row.taken_up
    assert after.saved.resumed_from == taken_up
    assert after.sent <= SIZE - taken_up + OVERLAP


def test_files_that_were_kept_are_named_by_their_url(results: dict[str, Result]) -> None:
    for name, result in results.items():
        for file, octets in result.first.files.items():
            if file.endswith(".part-state"):
                assert b'"url": "' in octets, name
                assert os.fsencode(name.split(" ")[0] + "://") in octets
