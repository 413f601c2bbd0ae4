"""The facts alone, from servers that know not every command."""

from __future__ import annotations

import pytest

from resolver import Kind, NotFound, Options, ResolveError, TryLater
from tests.protocols.ftp.script import Outcome, Script, play

SIZED = b"213 5\r\n"
TIMED = b"213 20010909014640\r\n"
NO, UNKNOWN = b"550 no\r\n", b"500 what\r\n"
ASKED = [b"TYPE I", b"SIZE x", b"MDTM x"]

#: What SIZE, MDTM and CWD are answered, and what that makes of it: kind, size, is there a time.
CASES: list[tuple[str, tuple[bytes, bytes, bytes], str, Kind | type[ResolveError], int | None, bool]] = [
    ("a file", (SIZED, TIMED, NO), "", Kind.DOCUMENT, 5, True),
    ("a size alone", (SIZED, UNKNOWN, NO), "", Kind.DOCUMENT, 5, False),
    ("no sense in the size", (b"213 five\r\n", NO, NO), "", Kind.DOCUMENT, None, False),
    ("no SIZE", (UNKNOWN, TIMED, NO), "", Kind.DOCUMENT, None, True),
    ("neither", (UNKNOWN, UNKNOWN, NO), "", Kind.UNKNOWN, None, False),
    ("a directory", (NO, NO, b"250 ok\r\n"), "", Kind.DIRECTORY, None, False),
    ("a directory with a time", (NO, TIMED, b"250 ok\r\n"), "", Kind.DIRECTORY, None, True),
    ("a file, it is said", (NO, TIMED, b"250 ok\r\n"), ";type=i", Kind.DOCUMENT, None, True),
    ("a text: who knows how long", (SIZED, TIMED, NO), ";type=a", Kind.DOCUMENT, None, True),
    ("nothing", (NO, NO, NO), "", NotFound, None, False),
    ("busy", (b"450 busy\r\n", NO, NO), "", TryLater, None, False),
]


@pytest.mark.parametrize(
    ("why", "answers", "typecode", "kind", "size", "timed"), CASES, ids=[row[0] for row in CASES]
)
def test_facts(
    why: str,
    answers: tuple[bytes, bytes, bytes],
    typecode: str,
    kind: Kind | type[ResolveError],
    size: int | None,
    timed: bool,
) -> None:
    replies: dict[bytes, bytes | list[bytes]] = dict(zip((b"SIZE", b"MDTM", b"CWD"), answers, strict=True))
    player, outcome = play(f"ftp://h/x{typecode}", Script(replies=replies), Options(want="facts"))
    told = not answers[0].startswith(b"213") and not typecode
    assert player.commands[2:] == ([*ASKED, b"CWD x"] if told else ASKED)
    if isinstance(outcome, Outcome):
        found = outcome.found
        assert (found.kind, found.size, found.modified is not None) == (kind, size, timed)
    else:
        assert type(outcome) is kind
