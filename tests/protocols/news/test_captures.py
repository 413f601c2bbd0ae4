"""Every recorded exchange with a real server: its octets in, the right result out."""

from __future__ import annotations

from itertools import pairwise

import pytest

from protocols.news.response import NntpCommand, NntpVerb, response_to
from resolver import parse
from resolver.testing import Cutter, TranscriptOutcome, check, one_by_one, whole
from resolver.testing.outcome import resolve
from tests.protocols.news.capture_rows import ROWS, Case, Row
from tests.protocols.news.captures import FOLDER, RecordedGate, RecordedServer, exchanges
from tests.protocols.opening import open_url

NAMES = [row.capture for row in ROWS]


def pieces(size: int) -> Cutter:
    def cutter(octets: bytes) -> list[bytes]:
        return [octets[start : start + size] for start in range(0, len(octets), size)]

    cutter.__name__ = f"by_{size}"
    return cutter


CUTTERS = (whole, one_by_one, pieces(2), pieces(3))
CASES = [(row, case) for row in ROWS for case in row.cases]


def test_every_capture_has_its_row() -> None:
    assert sorted(NAMES) == sorted(path.stem for path in FOLDER.iterdir())
    assert all(bool(row.cases) != bool(row.why_none) for row in ROWS)


def undotted(answer: bytes) -> bytes:
    """The content of a block, by the letter of RFC 3977 3.1.1: line by line."""
    _, *lines = answer.split(b"\r\n")
    assert lines[-2:] == [b".", b""]
    return b"".join(line.removeprefix(b".") + b"\r\n" for line in lines[:-2])


@pytest.mark.parametrize("name", NAMES)
def test_the_readers_take_it_apart(name: str) -> None:
    """Each answer ends where the next one begins, and its block is what its lines are."""
    for each in exchanges(name):
        if each.content is not None:
            assert each.content == undotted(each.octets)
        else:
            assert each.octets.count(b"\r\n") == 1


@pytest.mark.parametrize("name", NAMES)
def test_the_command_tells_of_a_block(name: str) -> None:
    verbs = sorted(NntpVerb, key=len, reverse=True)
    for each in exchanges(name):
        verb = next((verb for verb in verbs if each.command.startswith(verb.encode())), None)
        if verb is not None:
            assert response_to(NntpCommand(verb), each.answer).block == (each.content is not None)


def expected(row: Row, case: Case) -> TranscriptOutcome:
    if case.error is not None:
        return TranscriptOutcome(error=case.error)
    recorded = [each for name in (row.capture, *case.also) for each in exchanges(name)]
    blocks = []
    for command in case.body_of:
        last = [each for each in recorded if each.command == command and each.content is not None][-1]
        blocks.append(undotted(last.octets))
    return TranscriptOutcome(
        kind=case.kind,
        body=b".\r\n".join(blocks),
        verified=("terminator",) if blocks else (),
        findings=list(case.findings),
    )


@pytest.mark.parametrize("cutter", CUTTERS, ids=lambda cutter: cutter.__name__)
@pytest.mark.parametrize(("row", "case"), CASES, ids=[f"{row.capture}-{case.url}" for row, case in CASES])
async def test_the_url_resolves(row: Row, case: Case, cutter: Cutter) -> None:
    server = RecordedServer(row.capture, *case.also, ending=case.ending)
    outcome = await resolve(open_url, parse(case.url), RecordedGate(server, cutter, options=case.options))
    check(outcome, expected(row, case))
    assert len(outcome.entries) == case.entries
    assert not any(first == b"MODE READER" == second for first, second in pairwise(server.said))
    assert server.said.count(b"MODE READER") <= 1
