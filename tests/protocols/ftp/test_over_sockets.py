"""Tests of FTP against the mock server on loopback: the URL table, faulty servers, and all transcripts."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio
import trio.testing

from fixtures.ftp import Behavior, Data, Order, serve
from fixtures.ftp.tree import ALL_OCTETS, TEXT
from fixtures.ftp_urls import ASKED, ROWS, Row
from fixtures.transcript import transcripts
from protocols.ftp.dialogue import retrieve as transcripts_retrieve
from resolver import (
    AccessDenied,
    Declined,
    Disconnected,
    FtpUrl,
    LimitExceeded,
    Limits,
    LoginRequired,
    NotFound,
    Options,
    Policy,
    ProtocolError,
    Refused,
    ResolveError,
    TimedOut,
    Truncated,
    TryLater,
    Unreachable,
)
from resolver.testing import DialogueTranscript, check, recite
from resolver.testing.player import resolve
from resolver.testing.replay import serve_transcript
from resolver.transfer.network import Network
from tests.hang import HANG, NEVER
from tests.ipv6 import needs_ipv6
from tests.protocols.ftp.on_a_socket import ask, network, retrieve
from tests.protocols.opening import open_url
from tests.protocols.typed_url import parse_as
from tests.sampled import kind_of, sampled

SHORT = Limits(idle=0.2)
ON_A_SOCKET = [row for row in ROWS if row.commands]


@pytest.mark.parametrize("row", ON_A_SOCKET, ids=lambda row: row.number)
async def test_url_table_row_over_socket(row: Row, nursery: trio.Nursery) -> None:
    """The commands match the table as far as this server has the requested files."""
    server = await serve(nursery, Behavior(null_cwd=True))
    place, _, path = row.url.partition("://")[2].partition("/")
    login = place[: place.rindex("@") + 1] if "@" in place else ""
    taken = await retrieve(server, path, login=login)
    assert server.violations == []
    assert server.commands[: len(row.sent)] == row.sent[: len(server.commands)]
    if taken.error is None:
        assert len(server.commands) >= len(row.sent)
    else:
        assert isinstance(taken.error, NotFound)
    if row.number in BODIES:
        assert taken.body == BODIES[row.number]


BODIES = {
    "1": TEXT,
    "2": TEXT,
    "4": ALL_OCTETS,
    "14": b"message of the day\n",
    "17": b"message of the day\n",
    "20": b"c below b\n",
    "26": b"y z\n",
    "27": b"content of  a \n",
    "31": b"f in d;x\n",
    "33": b"content of x%2Fy\n",
    "36": b"content of -la\n",
    "40": b"content of caf\xe9\n",
    "46": b"content of f;type=x\n",
}


LONG = b"x" * 17_000
TOLERABLE: list[tuple[str, Behavior]] = [
    ("as it should be", Behavior()),
    ("226 behind the data", Behavior(order=Order.EAGER)),
    ("150 and 226 in one segment", Behavior(order=Order.TOGETHER)),
    ("226 at once", Behavior(order=Order.AT_ONCE)),
    ("data first", Behavior(order=Order.DATA_FIRST)),
    ("a greeting of many lines", Behavior(greeting=b"220-hi\r\n230 not yet\r\n\r\n220 go\r\n")),
    ("120 first", Behavior(greeting=b"120 soon\r\n220 go\r\n")),
    ("bare LF", Behavior(greeting=b"220 go\n", first=b"150 a\n", final=b"226-a\n226 b\n")),
    ("17,000 octets in a line", Behavior(replies={b"CWD": b"250 " + LONG + b"\r\n"})),
    (
        "300 lines of 3,000 octets",
        Behavior(replies={b"CWD": b"250-\n" + (LONG[:3000] + b"\n") * 300 + b"250 \n"}),
    ),
    ("codes that change in the middle", Behavior(replies={b"CWD": b"250-a\r\n550 b\r\n421-c\r\n250 d\r\n"})),
    ("150 of many lines", Behavior(first=b"150-Accepted\r\n150 8192.0 kbytes\r\n")),
    ("1yz again", Behavior(final=b"150 still\r\n226 done\r\n")),
    ("IAC doubled", Behavior(replies={b"CWD": b"250 \xff\xff\r\n"})),
    ("Telnet options", Behavior(greeting=b"\xff\xfd\x06220 \xff\xfb\x01go\r\n")),
    ("230 for a greeting", Behavior(greeting=b"230 in\r\n")),
    ("230 to USER", Behavior(replies={b"USER": b"230 in\r\n"})),
    ("SIZE unknown", Behavior(replies={b"SIZE": b"500 what?\r\n"})),
    ("EPSV unknown", Behavior(replies={b"EPSV": b"500 what?\r\n"})),
    ("EPSV says no", Behavior(replies={b"EPSV": b"522 no\r\n"})),
    ("EPSV's port is closed", Behavior(unreachable=frozenset({b"EPSV"}))),
    ("EPSV answered with 314", Behavior(replies={b"EPSV": b"314 hm\r\n"})),
    ("EPSV's port is low", Behavior(replies={b"EPSV": b"229 (|||25|)\r\n"})),
    ("PASV names another host", Behavior(replies={b"EPSV": b"502 no\r\n"}, host=b"192,0,2,1")),
    (
        "PASV without parentheses",
        Behavior(replies={b"EPSV": b"502 no\r\n", b"PASV": b"227 1,2,3,4,{high},{low}\n"}),
    ),
    ("421 on the first connection: PASS", Behavior(replies={b"PASS": b"421 bye\r\n"}, connections=1)),
    ("421 on the first connection: RETR", Behavior(replies={b"RETR": b"421 bye\r\n"}, connections=1)),
    ("421 unasked", Behavior(greeting=b"220 go\r\n421 idle\r\n", connections=1)),
]


@pytest.mark.parametrize(("why", "behavior"), TOLERABLE, ids=[row[0] for row in TOLERABLE])
async def test_retrieve_from_tolerable_server_succeeds(
    why: str, behavior: Behavior, nursery: trio.Nursery
) -> None:
    server = await serve(nursery, behavior)
    taken = await retrieve(server, "pub/a.bin")
    assert taken.error is None
    assert taken.body == ALL_OCTETS
    assert "final-reply" in taken.verified
    assert ("length" in taken.verified) == (why != "SIZE unknown")
    assert server.violations == []
    assert len(server.sessions) == 1 + why.startswith("421")
    assert server.refused_options == ([b"\xff\xfc\x06", b"\xff\xfe\x01"] if why == "Telnet options" else [])


FAULTY: list[tuple[str, Behavior, type[ResolveError]]] = [
    ("no greeting", Behavior(greeting=b""), TimedOut),
    ("421 for a greeting", Behavior(greeting=b"421 full\r\n"), TryLater),
    ("530 for a greeting", Behavior(greeting=b"530 no\r\n"), AccessDenied),
    ("something else", Behavior(greeting=b"HTTP/1.1 400 Bad Request\r\n"), ProtocolError),
    ("NUL", Behavior(replies={b"CWD": b"250 \0\r\n"}), ProtocolError),
    ("a line without end", Behavior(replies={b"CWD": b"250 " + b"x" * 70_000}), LimitExceeded),
    ("lines without end", Behavior(replies={b"CWD": b"250-\r\n" * 2000}), LimitExceeded),
    (
        "more than 1 MiB",
        Behavior(replies={b"CWD": b"250-\n" + (LONG + b"\n") * 300 + b"250 \n"}),
        LimitExceeded,
    ),
    ("no answer to CWD", Behavior(mute=frozenset({b"CWD"})), TimedOut),
    ("closed behind TYPE", Behavior(hangs_up=frozenset({b"TYPE"})), Disconnected),
    ("421 twice", Behavior(replies={b"TYPE": b"421 bye\r\n"}), TryLater),
    ("an account", Behavior(replies={b"PASS": b"332 account\r\n"}), LoginRequired),
    ("no port", Behavior(replies={b"EPSV": b"229 (|||0|)\r\n"}), ProtocolError),
    ("an address in 229", Behavior(replies={b"EPSV": b"229 (|1|127.0.0.1|{port}|)\r\n"}), ProtocolError),
    ("no passive", Behavior(replies={b"EPSV": b"500 no\r\n", b"PASV": b"500 no\r\n"}), Declined),
    ("a low port", Behavior(claimed=25), Refused),
    ("PASV and a low port", Behavior(replies={b"EPSV": b"500 no\r\n"}, claimed=25), Refused),
    (
        "a low port and no PASV",
        Behavior(replies={b"EPSV": b"229 (|||25|)\r\n", b"PASV": b"500 no\r\n"}),
        Refused,
    ),
    ("no port is open", Behavior(unreachable=frozenset({b"EPSV", b"PASV"})), Unreachable),
    ("425", Behavior(replies={b"RETR": b"425 no\r\n"}), TryLater),
    (
        "550 when all is set up",
        Behavior(replies={b"RETR": b"550 no\r\n", b"CWD a.bin": b"550 no\r\n"}),
        NotFound,
    ),
    ("no 150 and no data", Behavior(mute=frozenset({b"RETR"})), TimedOut),
    ("data never comes", Behavior(data=Data.DEAF, max_bytes=0), TimedOut),
    ("data stops coming", Behavior(data=Data.DEAF, max_bytes=100), TimedOut),
]


@pytest.mark.parametrize(("why", "behavior", "error"), FAULTY, ids=[row[0] for row in FAULTY])
async def test_retrieve_from_faulty_server_raises(
    why: str, behavior: Behavior, error: type[ResolveError], nursery: trio.Nursery
) -> None:
    server = await serve(nursery, behavior)
    taken = await retrieve(server, "pub/a.bin", limits=SHORT)
    assert type(taken.error) in (error, *error.__subclasses__())
    assert server.violations == []


TRUNCATED: list[tuple[str, Behavior, int]] = [
    ("226 and too few octets", Behavior(max_bytes=100), 100),
    ("226 and none", Behavior(max_bytes=0), 0),
    ("reset", Behavior(max_bytes=100, data=Data.RESET), 100),
    ("reset, 226 behind", Behavior(max_bytes=100, data=Data.RESET, order=Order.EAGER), 100),
    ("reset, 226 before", Behavior(max_bytes=100, data=Data.RESET, order=Order.TOGETHER), 100),
    ("426", Behavior(max_bytes=100, final=b"426 broken\r\n"), 100),
    ("426 and all is there", Behavior(final=b"426 broken\r\n"), len(ALL_OCTETS)),
    ("451", Behavior(max_bytes=100, final=b"451 trouble\r\n"), 100),
    ("421", Behavior(max_bytes=100, final=b"421 bye\r\n"), 100),
    ("no final reply, closed", Behavior(final=b""), len(ALL_OCTETS)),
    ("no final reply, silence", Behavior(final=b"", leaves=False), len(ALL_OCTETS)),
    ("half a final reply", Behavior(final=b"226", leaves=True), len(ALL_OCTETS)),
]


@pytest.mark.parametrize(("why", "behavior", "received"), TRUNCATED, ids=[row[0] for row in TRUNCATED])
async def test_transfer_truncated_raises(
    why: str, behavior: Behavior, received: int, nursery: trio.Nursery
) -> None:
    server = await serve(nursery, behavior)
    taken = await retrieve(server, "pub/a.bin", limits=SHORT)
    assert isinstance(taken.error, Truncated)
    assert taken.error.expected == len(ALL_OCTETS)
    if "reset" in why:  # the system drops the bytes that were not read yet
        assert 0 < taken.error.received <= received
    else:
        assert taken.error.received == received
    assert "final-reply" not in taken.verified
    assert server.violations == []


@needs_ipv6
async def test_ipv6_does_not_use_pasv(nursery: trio.Nursery) -> None:
    server = await serve(nursery, host="::1")
    assert (await retrieve(server, "pub/a.txt")).body == TEXT
    server = await serve(nursery, Behavior(replies={b"EPSV": b"522 use (1)\r\n"}), host="::1")
    taken = await retrieve(server, "pub/a.txt")
    assert isinstance(taken.error, Declined)
    assert taken.error.code == "522"
    assert b"PASV" not in server.commands


@pytest.mark.parametrize(
    ("path", "mute", "seconds", "sent"),
    [
        ("pub/a.bin", (b"EPSV",), 30.0, b"PASV"),
        ("pub/", (b"FEAT",), 30.0, b"LIST"),
        ("pub/", (b"EPSV",), 30.0, b"LIST"),
        ("pub/", (b"MLSD",), 60.0, b"LIST"),
        ("pub/", (b"FEAT", b"EPSV", b"MLSD"), 30.0, b"LIST"),
        ("pub/a.bin", (b"EPSV", b"PASV"), 90.0, None),
        ("pub/a.bin", (b"SIZE",), 60.0, None),
    ],
)
async def test_silent_command_costs_one_timeout_before_its_replacement(
    path: str,
    mute: tuple[bytes, ...],
    seconds: float,
    sent: bytes | None,
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = await serve(nursery, Behavior(mute=frozenset(mute)))
    url, options = (
        parse_as(FtpUrl, server.url(path)),
        Options(want="listing" if path == "pub/" else "content"),
    )
    began = trio.current_time()
    async with network(server) as opened:
        try:
            async with open_url(url, opened.admit(url, options=options)) as reply:
                assert b"".join([octets async for octets in reply.body])
        except TimedOut:
            assert sent is None
        else:
            assert sent in server.commands
    assert trio.current_time() - began == pytest.approx(seconds)
    verbs = [command.partition(b" ")[0] for command in server.commands]
    assert [verbs.count(verb) for verb in mute] == [1] + [int(sent is None)] * (len(mute) - 1)
    assert verbs.count(b"USER") == (1 if mute == (b"SIZE",) else 2)


@needs_ipv6
async def test_silent_epsv_on_ipv6_is_not_replaced(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    server = await serve(nursery, Behavior(mute=frozenset({b"EPSV", b"FEAT"})), host="::1")
    url = parse_as(FtpUrl, server.url("pub/"))
    began = trio.current_time()
    async with network(server) as opened:
        with pytest.raises(TimedOut) as raised:
            async with open_url(url, opened.admit(url, options=Options(want="listing"))):
                pass
    assert type(raised.value) is TimedOut
    assert trio.current_time() - began == pytest.approx(90.0)
    assert (server.commands.count(b"FEAT"), server.commands.count(b"EPSV")) == (1, 1)
    assert b"PASV" not in server.commands


async def test_data_reset_before_first_byte_raises_disconnected(nursery: trio.Nursery) -> None:
    server = await serve(nursery, Behavior(max_bytes=0, data=Data.RESET))
    taken = await retrieve(server, "pub/a.bin")
    assert isinstance(taken.error, Disconnected)


async def test_leaving_body_early_does_not_wait(nursery: trio.Nursery) -> None:
    """No timeout would end the wait."""
    server = await serve(nursery, Behavior(data=Data.DEAF))
    url = parse_as(FtpUrl, server.url("pub/a.bin"))
    async with network(server, limits=Limits(idle=NEVER)) as opened:
        with trio.fail_after(HANG):
            async with open_url(url, opened.admit(url)) as reply:
                assert await anext(reply.body)


async def test_large_file_is_complete(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    taken = await retrieve(server, "pub/large.bin")
    assert (len(taken.body), taken.error) == (1_048_576, None)


# Every FTP transcript, through the dialogue alone and through the resolver against a socket server.

TRANSCRIPTS = transcripts("ftp")
TRANSCRIPTS_ON_A_SOCKET = [each for each in TRANSCRIPTS if each.connections]
RECORDED = ("vsftpd", "proftpd", "pure-ftpd")


def ftp(transcript: DialogueTranscript) -> FtpUrl:
    return parse_as(FtpUrl, transcript.url)


def test_transcripts_cover_servers_and_table() -> None:
    names = [transcript.name.removeprefix("ftp/") for transcript in TRANSCRIPTS]
    for server in RECORDED:
        assert sum(name.startswith(f"{server}-") for name in names) == 13
    rows = {name.removeprefix("row-") for name in names if name.startswith("row-")}
    assert rows <= {f"{int(row.number):02d}" for row in ROWS if row.number.isdigit()}
    assert len(rows) == 22


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: each.name)
def test_transcript_through_dialogue(transcript: DialogueTranscript) -> None:
    check(recite(transcripts_retrieve(ftp(transcript)), transcript, password=ASKED), transcript.outcome)


TRIED = sampled(TRANSCRIPTS_ON_A_SOCKET, kind_of, 2)


@pytest.mark.parametrize("transcript", TRIED, ids=lambda each: each.name)
async def test_transcript_over_socket(transcript: DialogueTranscript, nursery: trio.Nursery) -> None:
    with trio.fail_after(HANG):
        replay = await serve_transcript(nursery, transcript)
        here = replace(ftp(transcript), host="127.0.0.1", port=replay.port)
        quiet = any(connection.end == "quiet" for connection in transcript.connections)
        policy = Policy(allow_port={replay.port}, allow_password=True)
        async with Network(
            policy=policy, limits=Limits(idle=0.2) if quiet else None, credentials=ask
        ) as network:
            outcome = await resolve(open_url, here, network.admit(here))
        while replay.served < len(transcript.connections) and not replay.complaints:
            await trio.lowlevel.checkpoint()
    assert replay.complaints == []
    outcome.entries = [
        (kind, url and url.replace(f"127.0.0.1:{replay.port}", "ftp.example"), name)
        for kind, url, name in outcome.entries
    ]
    check(outcome, transcript.outcome)
