"""The fault matrix under asyncio and uvloop: with any behavior of the peer, the file is complete or absent.

By default a cell for each fault and each moment. Silent cells wait concurrently. These loops use the
machine's clock, so after a pause of the machine such a cell is tried again.
"""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from fixtures.faulty import serve
from tests.elsewhere import Elsewhere
from tests.faults.cell import CONTENT, Came, Result, limits_of, patience_for, save
from tests.faults.rows import ROWS, SECURED, Row, is_raced
from tests.faults.test_matrix import check, is_silent
from tests.hang import HANG
from tests.loops.conftest import Run
from tests.sampled import sampled


def kind_of(row: Row) -> object:
    fault = row.manner.fault
    return row.manner if fault is None else (fault.kind, fault.at, fault.times is None)


TRIED = sampled([row for row in ROWS if not is_raced(row)], kind_of)
SILENT = [row for row in TRIED if is_silent(row)]
PROMPT = [row for row in TRIED if not is_silent(row)]

#: Number of silent cells that run concurrently.
_PORTION = 24

#: Attempts for a silent cell: more than the expected pauses of a machine.
_TRIES = 4


async def result_of(row: Row, folder: Path, tls: ssl.SSLContext, elsewhere: Elsewhere) -> Result:
    """Run a cell as `tests.faults.cell.run` does, with its server in another loop."""
    manner = row.manner
    server = elsewhere.run(
        serve, elsewhere.nursery, row.scheme, CONTENT, manner, tls if row.scheme in SECURED else None
    )
    url = server.url("user:word@" if manner.login else "")

    async def once() -> Came:
        before = server.sent
        came = await save(url, folder, limits_of(manner), patience_for(manner), server.port)
        came.sent = server.sent - before
        return came

    first = await asyncio.wait_for(once(), HANG)
    if first.error is None:
        return Result(first, None)
    elsewhere.call(server.remove_faults)
    return Result(first, await asyncio.wait_for(once(), HANG))


@pytest.mark.parametrize("row", PROMPT, ids=lambda row: row.name)
def test_cell(row: Row, either: Run, elsewhere: Elsewhere, tls: ssl.SSLContext, tmp_path: Path) -> None:
    check(row, either(result_of(row, tmp_path, tls, elsewhere)))


@pytest.mark.parametrize("first", range(0, len(SILENT), _PORTION))
def test_cells_with_silent_peers(
    first: int, either: Run, elsewhere: Elsewhere, tls: ssl.SSLContext, tmp_path: Path
) -> None:
    rows = SILENT[first : first + _PORTION]
    places = [tmp_path / str(at) for at in range(len(rows))]
    for place in places:
        place.mkdir()

    async def main() -> list[Result]:
        under_way = (result_of(row, place, tls, elsewhere) for row, place in zip(rows, places, strict=True))
        return await asyncio.gather(*under_way)

    for row, place, result in zip(rows, places, either(main()), strict=True):
        for number in range(1, _TRIES):
            try:
                check(row, result)
                break
            except AssertionError:
                again = place.with_name(f"{place.name} again {number}")
                again.mkdir()
                result = either(result_of(row, again, tls, elsewhere))
        else:
            check(row, result)
