"""Listings as a dialogue: empty or missing, NLST or MLSD."""

from __future__ import annotations

import pytest

from protocols.contract import Kind, Options
from protocols.errors import (
    NotFound,
    ResolveError,
    TryLater,
)
from protocols.ftp.transfer import Form
from protocols.ftp.visit import Outcome
from tests.protocols.ftp.player import Script, play

EMPTY: list[tuple[str, str, Script, list[bytes], type[ResolveError] | None]] = [
    ("nothing, and a directory", "ftp://h/e;type=d", Script(data=b""), [b"NLST e", b"CWD e"], None),
    (
        "nothing, and none: vsftpd",
        "ftp://h/e;type=d",
        Script(data=b"", replies={b"CWD": b"550 no\r\n"}),
        [b"NLST e", b"CWD e"],
        NotFound,
    ),
    (
        "nothing, and CWD not now",
        "ftp://h/e;type=d",
        Script(data=b"", replies={b"CWD": b"450 no\r\n"}),
        [b"NLST e", b"CWD e"],
        TryLater,
    ),
    (
        "550, and a directory",
        "ftp://h/e;type=d",
        Script(replies={b"NLST": b"550 no\r\n"}),
        [b"NLST e", b"CWD e"],
        None,
    ),
    (
        "450, and none: ProFTPD",
        "ftp://h/e;type=d",
        Script(replies={b"NLST": b"450 no\r\n", b"CWD": b"550 no\r\n"}),
        [b"NLST e", b"CWD e"],
        NotFound,
    ),
    (
        "425 says nothing about names",
        "ftp://h/e;type=d",
        Script(replies={b"NLST": b"425 no\r\n"}),
        [b"NLST e"],
        TryLater,
    ),
    (
        "failed on the way",
        "ftp://h/e;type=d",
        Script(data=b"", replies={b"NLST": b"150 a\r\n"}, late=b"550 b\r\n"),
        [b"NLST e"],
        NotFound,
    ),
    (
        "nothing where it stands",
        "ftp://h/e/",
        Script(data=b""),
        [b"CWD e", b"TYPE A", b"EPSV", b"NLST"],
        None,
    ),
    (
        "550 where it stands",
        "ftp://h/e/",
        Script(replies={b"NLST": b"550 none\r\n"}),
        [b"TYPE A", b"EPSV", b"NLST"],
        None,
    ),
    (
        "550 in the login directory",
        "ftp://h/",
        Script(replies={b"NLST": b"550 no\r\n"}),
        [b"TYPE A", b"EPSV", b"NLST"],
        NotFound,
    ),
    (
        "a directory by guess, empty",
        "ftp://h/e",
        Script(data=b"", replies={b"RETR": b"550 no\r\n"}),
        [b"CWD e", b"TYPE A", b"EPSV", b"NLST"],
        None,
    ),
]


@pytest.mark.parametrize(("why", "url", "script", "sent", "error"), EMPTY, ids=[row[0] for row in EMPTY])
def test_empty_or_missing(
    why: str, url: str, script: Script, sent: list[bytes], error: type[ResolveError] | None
) -> None:
    player, outcome = play(url, script)
    assert player.sent[-len(sent) :] == sent
    if error is None:
        assert isinstance(outcome, Outcome)
        assert outcome.found.kind is Kind.DIRECTORY
        assert [finding.rule for finding in outcome.findings] == ["ftp:empty"] * ("550" in why)
        assert player.body == b""
    else:
        assert type(outcome) is error


MLSD: list[tuple[str, Script, list[bytes], Form]] = [
    ("there", Script(), [b"TYPE A", b"EPSV", b"MLSD d"], Form.FACTS),
    (
        "not there: vsftpd",
        Script(replies={b"MLSD": b"500 no\r\n"}),
        [b"TYPE A", b"EPSV", b"MLSD d", b"EPSV", b"NLST d"],
        Form.NAMES,
    ),
]


@pytest.mark.parametrize(("why", "script", "sent", "form"), MLSD, ids=[row[0] for row in MLSD])
def test_mlsd_where_it_is_asked_for(why: str, script: Script, sent: list[bytes], form: Form) -> None:
    player, outcome = play("ftp://h/d;type=d", script, Options(mlsd=True))
    assert isinstance(outcome, Outcome)
    assert player.sent[2:] == sent
    assert outcome.found.form is form


def test_mlsd_refused_is_refused() -> None:
    player, error = play("ftp://h/d;type=d", Script(replies={b"MLSD": b"550 no\r\n"}), Options(mlsd=True))
    assert isinstance(error, NotFound)
    assert player.sent[-1] == b"MLSD d"


def test_nlst_is_all_that_type_d_means() -> None:
    player, _ = play("ftp://h/d;type=d")
    assert not {sent.partition(b" ")[0] for sent in player.sent} & {b"LIST", b"MLSD", b"STAT", b"FEAT"}
