"""Data connections and what makes a transfer whole."""

from __future__ import annotations

import pytest

from protocols.step import CloseData, CopyBody, OpenData
from resolver import (
    AccessDenied,
    Declined,
    Disconnected,
    LoginRequired,
    NotFound,
    ProtocolError,
    ResolveError,
    TimedOut,
    Truncated,
    TryLater,
)
from tests.protocols.ftp.script import Outcome, Script, gone, play

Replies = dict[bytes, "bytes | list[bytes]"]
FILE = "ftp://h/x;type=i"


def setup(script: Script, url: str = FILE) -> tuple[list[object], Outcome | ResolveError]:
    """What was done for the data connection, in order."""
    player, outcome = play(url, script)
    start = player.events.index(b"SIZE x") + 1
    return [event for event in player.events[start:] if not isinstance(event, (CopyBody, CloseData))], outcome


PASV = {b"PASV": b"227 ok (10,0,0,5,156,67)\r\n"}


def by_pasv(reply: bytes) -> tuple[str, Script, list[object]]:
    """EPSV is answered with something that tells no port."""
    script = Script(replies={b"EPSV": reply, **PASV})
    return f"{reply!r} to EPSV", script, [b"EPSV", b"PASV", OpenData(40003), b"RETR x"]


SETUPS: list[tuple[str, Script, list[object]]] = [
    ("EPSV", Script(), [b"EPSV", OpenData(40001), b"RETR x"]),
    (
        "EPSV unknown",
        Script(replies={b"EPSV": b"500 no\r\n", **PASV}),
        [b"EPSV", b"PASV", OpenData(40003), b"RETR x"],
    ),
    (
        "EPSV not now",
        Script(replies={b"EPSV": b"425 no\r\n", **PASV}),
        [b"EPSV", b"PASV", OpenData(40003), b"RETR x"],
    ),
    (
        "EPSV 522",
        Script(replies={b"EPSV": b"522 use (1)\r\n", **PASV}),
        [b"EPSV", b"PASV", OpenData(40003), b"RETR x"],
    ),
    *map(by_pasv, [b"314 hm\r\n", b"331 hm\r\n", b"150 hm\r\n", b"200 ok\r\n", b"227 (1,2,3,4,5,6)\r\n"]),
    (
        "EPSV's port out of reach",
        Script(replies={**PASV}, unreachable=(40001,)),
        [b"EPSV", OpenData(40001), b"PASV", OpenData(40003), b"RETR x"],
    ),
    (
        "code 2yz, port there",
        Script(replies={b"EPSV": b"200 (|||7000|)\r\n"}),
        [b"EPSV", OpenData(7000), b"RETR x"],
    ),
    ("IPv6", Script(peer="::1"), [b"EPSV", OpenData(40001), b"RETR x"]),
]


@pytest.mark.parametrize(("why", "script", "done"), SETUPS, ids=[row[0] for row in SETUPS])
def test_setup(why: str, script: Script, done: list[object]) -> None:
    """The data connection stands before the command goes; of a 227 only the port counts."""
    assert setup(script)[0] == done
    assert isinstance(setup(script)[1], Outcome)


SETUP_FAILURES: list[tuple[str, Script, list[object], type[ResolveError]]] = [
    ("no port in 229", Script(replies={b"EPSV": b"229 (|||0|)\r\n"}), [b"EPSV"], ProtocolError),
    ("an address in 229", Script(replies={b"EPSV": b"229 (|1|10.0.0.5|80|)\r\n"}), [b"EPSV"], ProtocolError),
    (
        "3yz to EPSV, on IPv6",
        Script(peer="::1", replies={b"EPSV": b"314 hm\r\n"}),
        [b"EPSV"],
        ProtocolError,
    ),
    (
        "both refused",
        Script(replies={b"EPSV": b"500 no\r\n", b"PASV": b"502 no\r\n"}),
        [b"EPSV", b"PASV"],
        Declined,
    ),
    (
        "no port in 227",
        Script(replies={b"EPSV": b"500 no\r\n", b"PASV": b"227 ok\r\n"}),
        [b"EPSV", b"PASV"],
        ProtocolError,
    ),
    (
        "neither port in reach",
        Script(unreachable=(40001, 40002)),
        [b"EPSV", OpenData(40001), b"PASV", OpenData(40002)],
        TimedOut,
    ),
    ("IPv6 has no PASV", Script(peer="::1", replies={b"EPSV": b"500 no\r\n"}), [b"EPSV"], Declined),
    (
        "IPv6, port out of reach",
        Script(peer="::1", unreachable=(40001,)),
        [b"EPSV", OpenData(40001)],
        TimedOut,
    ),
]


@pytest.mark.parametrize(
    ("why", "script", "done", "error"), SETUP_FAILURES, ids=[row[0] for row in SETUP_FAILURES]
)
def test_setup_that_fails(why: str, script: Script, done: list[object], error: type[ResolveError]) -> None:
    assert setup(script)[0] == done
    assert type(setup(script)[1]) is error


def test_what_works_is_remembered_and_no_port_is_used_twice() -> None:
    replies: Replies = {
        b"EPSV": b"500 no\r\n",
        b"PASV": [b"227 (1,2,3,4,156,66)\r\n", b"227 (1,2,3,4,156,67)\r\n"],
        b"RETR": b"550 a directory\r\n",
    }
    player, outcome = play("ftp://h/x", Script(replies=replies))
    assert isinstance(outcome, Outcome)
    assert player.commands.count(b"EPSV") == 1
    assert [event for event in player.events if isinstance(event, OpenData)] == [
        OpenData(40002),
        OpenData(40003),
    ]


WHOLE: list[tuple[str, Script, str, set[str]]] = [
    ("as it should be", Script(), FILE, {"final-reply", "length"}),
    (
        "150 and 226 in one segment",
        Script(replies={b"RETR": b"150 a\r\n226 b\r\n"}),
        FILE,
        {"final-reply", "length"},
    ),
    ("2yz at once", Script(replies={b"RETR": b"226 there\r\n"}), FILE, {"final-reply", "length"}),
    ("data before any reply", Script(first=True), FILE, {"final-reply", "length"}),
    ("1yz twice: Pure-FTPd", Script(late=b"150-a\r\n150 b\r\n226 c\r\n"), FILE, {"final-reply", "length"}),
    ("no SIZE", Script(replies={b"SIZE": b"500 no\r\n"}), FILE, {"final-reply"}),
    ("the file grew", Script(data=b"1234567"), FILE, {"final-reply"}),
    ("an empty file", Script(data=b"", replies={b"SIZE": b"213 0\r\n"}), FILE, {"final-reply", "length"}),
    (
        "empty, data first",
        Script(data=b"", first=True, replies={b"SIZE": b"213 0\r\n"}),
        FILE,
        {"final-reply", "length"},
    ),
    ("type A has no length", Script(), "ftp://h/x;type=a", {"final-reply"}),
    ("250 is a final reply too", Script(late=b"250 done\r\n"), FILE, {"final-reply", "length"}),
    (
        "TLS with close_notify",
        Script(close_notify=True),
        "ftps://h/x",
        {"final-reply", "length", "close-notify"},
    ),
]


@pytest.mark.parametrize(("why", "script", "url", "verified"), WHOLE, ids=[row[0] for row in WHOLE])
def test_whole(why: str, script: Script, url: str, verified: set[str]) -> None:
    player, outcome = play(url, script)
    assert isinstance(outcome, Outcome)
    assert outcome.verified == verified
    assert player.body == script.data
    assert outcome.state.idle


CUT: list[tuple[str, Script, str, type[ResolveError], int, int | None]] = [
    ("226 and fewer octets than SIZE", Script(data=b"123"), FILE, Truncated, 3, 5),
    ("226 and none at all", Script(data=b""), FILE, Truncated, 0, 5),
    ("426", Script(data=b"123", late=b"426 broken\r\n"), FILE, Truncated, 3, 5),
    ("426 though all is there", Script(late=b"426 broken\r\n"), FILE, Truncated, 5, 5),
    ("451", Script(data=b"123", late=b"451 read error\r\n"), FILE, Truncated, 3, 5),
    ("550 at the end", Script(data=b"123", late=b"550 gone\r\n"), FILE, Truncated, 3, 5),
    ("421 at the end", Script(data=b"123", late=b"421 bye\r\n"), FILE, Truncated, 3, 5),
    ("no final reply, control closed", Script(late=b""), FILE, Truncated, 5, 5),
    ("no final reply, only a first one", Script(late=b"150 still here\r\n"), FILE, Truncated, 5, 5),
    ("no final reply, silence", Script(late=b"", silent=True), FILE, Truncated, 5, 5),
    ("half a final reply", Script(late=b"226 do"), FILE, Truncated, 5, 5),
    (
        "type A: no length to tell",
        Script(data=b"1", late=b"426 broken\r\n"),
        "ftp://h/x;type=a",
        Truncated,
        1,
        None,
    ),
    ("a list", Script(data=b"a\r\n", late=b"426 broken\r\n"), "ftp://h/", Truncated, 3, None),
    ("TLS without close_notify", Script(), "ftps://h/x", Truncated, 5, 5),
    (
        "TLS, empty, without close_notify",
        Script(data=b"", replies={b"SIZE": b"500 no\r\n"}),
        "ftps://h/x",
        Truncated,
        0,
        None,
    ),
]


@pytest.mark.parametrize(
    ("why", "script", "url", "error", "received", "expected"), CUT, ids=[row[0] for row in CUT]
)
def test_cut(
    why: str, script: Script, url: str, error: type[ResolveError], received: int, expected: int | None
) -> None:
    player, raised = play(url, script)
    assert type(raised) is error
    assert isinstance(raised, Truncated)
    assert (raised.received, raised.expected) == (received, expected)
    assert player.body == script.data  # what came can be kept
    assert CloseData() in player.events
    assert player.commands[-1].startswith((b"RETR", b"NLST"))


FAILED: list[tuple[str, Script, type[ResolveError], str | None]] = [
    (
        "nothing came: session reuse, vsftpd",
        Script(data=b"", late=b"522 session reuse required\r\n"),
        Declined,
        "522",
    ),
    (
        "nothing came: session reuse, ProFTPD",
        Script(data=b"", late=b"425 Unable to build\r\n"),
        TryLater,
        "425",
    ),
    ("nothing came: trouble", Script(data=b"", late=b"451 trouble\r\n"), TryLater, "451"),
    ("reset before anything, 226 or not", Script(broken=gone()), Disconnected, None),
    ("reset before anything, refused", Script(broken=gone(), late=b"550 no\r\n"), NotFound, "550"),
    ("reset before anything, no reply", Script(broken=gone(), late=b""), Disconnected, None),
    (
        "data ended before the refusal came",
        Script(data=b"", first=True, replies={b"RETR": b"550 no\r\n"}, late=b""),
        NotFound,
        "550",
    ),
    ("3yz", Script(replies={b"RETR": b"350 hm\r\n"}), ProtocolError, None),
    ("3yz at the end", Script(late=b"350 hm\r\n"), ProtocolError, None),
    ("nonsense at the end", Script(late=b"\0\r\n"), ProtocolError, None),
    ("1yz for ever", Script(late=b"150 a\r\n" * 500), ProtocolError, None),
    ("control closed before a reply", Script(replies={b"RETR": b""}, data=b"", late=b""), Disconnected, None),
    ("426 and nothing", Script(data=b"", late=b"426 broken\r\n"), Disconnected, None),
    ("no final reply to an empty file", Script(data=b"", late=b""), Disconnected, None),
    ("nothing, and then silence", Script(data=b"", late=b"", silent=True), TimedOut, None),
    ("425", Script(replies={b"RETR": b"425 no\r\n"}), TryLater, "425"),
    ("450", Script(replies={b"RETR": b"450 no\r\n"}), TryLater, "450"),
    ("452", Script(replies={b"RETR": b"452 no\r\n"}), TryLater, "452"),
    ("501", Script(replies={b"RETR": b"501 no\r\n"}), Declined, "501"),
    ("504", Script(replies={b"RETR": b"504 no\r\n"}), Declined, "504"),
    ("522", Script(replies={b"RETR": b"522 no\r\n"}), Declined, "522"),
    ("530", Script(replies={b"RETR": b"530 no\r\n"}), AccessDenied, "530"),
    ("532", Script(replies={b"RETR": b"532 no\r\n"}), LoginRequired, "532"),
    ("550", Script(replies={b"RETR": b"550 no\r\n"}), NotFound, "550"),
    ("553", Script(replies={b"RETR": b"553 no\r\n"}), AccessDenied, "553"),
    ("another 4yz", Script(replies={b"RETR": b"499 no\r\n"}), TryLater, "499"),
    ("another 5yz", Script(replies={b"RETR": b"599 no\r\n"}), Declined, "599"),
]


@pytest.mark.parametrize(("why", "script", "error", "code"), FAILED, ids=[row[0] for row in FAILED])
def test_failed(why: str, script: Script, error: type[ResolveError], code: str | None) -> None:
    player, raised = play(FILE, script)
    assert type(raised) is error
    assert getattr(raised, "code", None) == code
    assert player.transfer is None or why in ("3yz at the end", "nonsense at the end", "1yz for ever")


def test_nonsense_at_the_end_says_how_much_there_was() -> None:
    _, raised = play(FILE, Script(data=b"123", late=b"\0\r\n"))
    assert "3 of 5 " in str(raised)


@pytest.mark.parametrize("code", [b"426", b"421", b"550"])
def test_octets_before_a_refusal_are_handed_over(code: bytes) -> None:
    """150 and it were there at once: what had come before that is kept, to go on behind it."""
    replies: Replies = {b"RETR": b"150 a\r\n" + code + b" broken\r\n"}
    player, raised = play(FILE, Script(data=b"123", replies=replies))
    assert player.body == b"123"
    assert isinstance(raised, Truncated)
    assert (raised.received, raised.expected) == (3, 5)


def test_550_says_that_it_has_two_meanings() -> None:
    _, raised = play(FILE, Script(replies={b"RETR": b"550 \x1b[31mno\r\n"}))
    assert isinstance(raised, NotFound)
    assert "missing or not allowed" in raised.message
    assert raised.text == "\\x1b[31mno"
    assert "\x1b" not in raised.message


def test_the_data_connection_is_closed_before_the_final_reply_is_waited_for() -> None:
    """The script says 226 only then: ProFTPD."""
    player, outcome = play(FILE)
    assert isinstance(outcome, Outcome)
    assert player.events[-3:] == [b"RETR x", player.transfer, CloseData()]


def test_nothing_is_sent_between_the_command_and_the_final_reply() -> None:
    """Not even answers to Telnet options: they follow the final reply."""
    script = Script(replies={b"RETR": b"150 a\xff\xfd\x06\r\n"}, late=b"226 b\xff\xfb\x01\r\n")
    player, outcome = play(FILE, script)
    assert isinstance(outcome, Outcome)
    assert player.events[-3:] == [player.transfer, CloseData(), b"\xff\xfc\x06\xff\xfe\x01"]
