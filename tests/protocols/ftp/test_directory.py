"""Listings as a dialogue: empty or missing, NLST or MLSD."""

from __future__ import annotations

import pytest

from protocols.ftp.listing import ListReader, MlsdReader, NlstReader
from resolver import AccessDenied, Kind, NotFound, Options, ResolveError, TryLater
from tests.protocols.ftp.script import Outcome, Script, play

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
    assert player.commands[-len(sent) :] == sent
    if error is None:
        assert isinstance(outcome, Outcome)
        assert outcome.found.kind is Kind.DIRECTORY
        assert [finding.rule for finding in outcome.findings] == ["ftp:empty"] * ("550" in why)
        assert player.body == b""
    else:
        assert type(outcome) is error


MLSD: list[tuple[str, Script, list[bytes], type[object]]] = [
    ("there", Script(), [b"TYPE A", b"EPSV", b"MLSD d"], MlsdReader),
    (
        "not there: vsftpd",
        Script(replies={b"MLSD": b"500 no\r\n"}),
        [b"TYPE A", b"EPSV", b"MLSD d", b"EPSV", b"NLST d"],
        NlstReader,
    ),
]


@pytest.mark.parametrize(("why", "script", "sent", "reader"), MLSD, ids=[row[0] for row in MLSD])
def test_mlsd_where_it_is_asked_for(
    why: str, script: Script, sent: list[bytes], reader: type[object]
) -> None:
    player, outcome = play("ftp://h/d;type=d", script, Options(mlsd=True))
    assert isinstance(outcome, Outcome)
    assert player.commands[2:] == sent
    assert type(outcome.found.listing) is reader


FEATURES = (
    ("MLST stands for both", b"211-Features:\r\n MLST type*;size*;\r\n211 End\r\n", True),
    ("MLSD alone, in other case", b"211-Features:\r\n mlsd\r\n211 End\r\n", True),
    ("neither: vsftpd", b"211-Features:\r\n EPRT\r\n UTF8\r\n211 End\r\n", False),
    ("a longer word", b"211-Features:\r\n MLSTX\r\n XMLSD\r\n211 End\r\n", False),
    ("no FEAT", b"500 what?\r\n", False),
)


@pytest.mark.parametrize(("why", "answer", "facts"), FEATURES, ids=[row[0] for row in FEATURES])
def test_where_details_are_wanted_the_server_says_whether_it_has_facts(
    why: str, answer: bytes, facts: bool
) -> None:
    script = Script(data=b"", replies={b"FEAT": answer})
    player, outcome = play("ftp://h/d/", script, Options(detailed=True))
    assert isinstance(outcome, Outcome)
    assert player.commands[-3:] == [b"FEAT", b"EPSV", b"MLSD" if facts else b"LIST"]
    assert type(outcome.found.listing) is (MlsdReader if facts else ListReader)


WITHOUT_FACTS = {b"FEAT": b"500 what?\r\n"}
LIST: list[tuple[str, str, dict[bytes, bytes | list[bytes]], list[bytes], type[object]]] = [
    ("after the CWDs", "ftp://h/d/", {}, [b"CWD d", b"TYPE A", b"FEAT", b"EPSV", b"LIST"], ListReader),
    (
        "without an argument: `-a` is an option to some",
        "ftp://h/-a;type=d",
        {},
        [b"FEAT", b"CWD -a", b"EPSV", b"LIST"],
        ListReader,
    ),
    (
        "of what is no directory",
        "ftp://h/f;type=d",
        {b"CWD": b"550 no\r\n"},
        [b"EPSV", b"NLST f"],
        NlstReader,
    ),
    ("unknown", "ftp://h/d/", {b"LIST": b"502 no\r\n"}, [b"EPSV", b"LIST", b"EPSV", b"NLST"], NlstReader),
    (
        "an empty one is refused",
        "ftp://h/d;type=d",
        {b"LIST": b"550 none\r\n", b"NLST": b"550 none\r\n"},
        [b"CWD d", b"EPSV", b"LIST", b"EPSV", b"NLST"],
        NlstReader,
    ),
    (
        "MLSD is known by FEAT and by nothing else",
        "ftp://h/d/",
        {b"FEAT": b"211-F\r\n MLST size*;\r\n211 E\r\n", b"MLSD": b"500 no\r\n"},
        [b"EPSV", b"MLSD", b"EPSV", b"LIST"],
        ListReader,
    ),
]


@pytest.mark.parametrize(("why", "url", "replies", "sent", "reader"), LIST, ids=[row[0] for row in LIST])
def test_lines_where_there_are_no_facts(
    why: str, url: str, replies: dict[bytes, bytes | list[bytes]], sent: list[bytes], reader: type[object]
) -> None:
    script = Script(data=b"x", replies={**WITHOUT_FACTS, **replies})
    player, outcome = play(url, script, Options(detailed=True))
    assert isinstance(outcome, Outcome)
    assert player.commands[-len(sent) :] == sent
    assert type(outcome.found.listing) is reader


@pytest.mark.parametrize(("code", "error"), [(b"425", TryLater), (b"530", AccessDenied)])
def test_list_refused_is_refused(code: bytes, error: type[ResolveError]) -> None:
    script = Script(replies={**WITHOUT_FACTS, b"LIST": code + b" no\r\n"})
    player, outcome = play("ftp://h/d/", script, Options(detailed=True))
    assert type(outcome) is error
    assert player.commands[-1] == b"LIST"


CUT = b"226-Options: -a -l\r\n226 Output truncated to 10000 matches\r\n"  # Pure-FTPd


@pytest.mark.parametrize(
    ("options", "facts"),
    [(Options(), True), (Options(mlsd=True), True), (Options(detailed=True), False)],
    ids=["NLST", "MLSD", "LIST"],
)
@pytest.mark.parametrize("data", [b"type=file; a\r\n", b""], ids=["some", "none"])
def test_a_listing_that_the_server_cut(options: Options, facts: bool, data: bytes) -> None:
    replies: dict[bytes, bytes | list[bytes]] = {} if facts else dict(WITHOUT_FACTS)
    _, outcome = play("ftp://h/d/", Script(late=CUT, data=data, replies=replies), options)
    assert isinstance(outcome, Outcome)
    (finding,) = outcome.findings
    assert (finding.rule, finding.action) == ("ftp:listing-cut", "warn")
    assert "10000 matches" in finding.detail
    _, whole = play("ftp://h/d/", Script(data=data, replies=replies), options)
    assert isinstance(whole, Outcome)
    assert whole.findings == []


def test_mlsd_refused_is_refused() -> None:
    player, error = play("ftp://h/d;type=d", Script(replies={b"MLSD": b"550 no\r\n"}), Options(mlsd=True))
    assert isinstance(error, NotFound)
    assert player.commands[-1] == b"MLSD d"


def test_nlst_is_all_that_type_d_means() -> None:
    player, _ = play("ftp://h/d;type=d")
    assert not {sent.partition(b" ")[0] for sent in player.commands} & {b"LIST", b"MLSD", b"STAT", b"FEAT"}
