"""Against the mock server on loopback: the table, the tortures, TLS, kept connections."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio
import trustme

import resolver
from fixtures.ftp import Behaviour, Data, Order, Style, serve
from fixtures.ftp.tree import ALL_OCTETS, TEXT
from fixtures.ftp_urls import ROWS, Row
from protocols.contract import Kind, Limits, Options
from protocols.errors import (
    AccessDenied,
    Declined,
    Disconnected,
    LimitExceeded,
    LoginRequired,
    NotFound,
    ProtocolError,
    Refused,
    ResolveError,
    TimedOut,
    TlsError,
    Truncated,
    TryLater,
    Unreachable,
)
from protocols.ftp.handler import open_ftp
from protocols.ftp.url import FtpUrl
from resolver.gate.door import Door
from resolver.policy import Policy
from resolver.url import parse
from tests.protocols.ftp.on_a_socket import door, retrieve, take

SHORT = Limits(idle=0.2)
ON_A_SOCKET = [row for row in ROWS if row.commands]


def has_ipv6() -> bool:
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return False
    return True


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture(scope="module")
def cafile(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("authority") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


@pytest.mark.parametrize("row", ON_A_SOCKET, ids=lambda row: row.number)
async def test_a_row_of_the_table(row: Row, nursery: trio.Nursery) -> None:
    """What is sent is what the table says, as far as this server has what is asked for."""
    server = await serve(nursery, Behaviour(null_cwd=True))
    place, _, path = row.url.partition("://")[2].partition("/")
    login = place[: place.rindex("@") + 1] if "@" in place else ""
    taken = await retrieve(server, path, login=login)
    assert server.violations == []
    assert server.commands[: len(row.sent)] == row.sent[: len(server.commands)]
    if taken.error is None:
        assert len(server.commands) >= len(row.sent)
    else:
        assert isinstance(taken.error, NotFound)
    if row.number in GIVEN:
        assert taken.body == GIVEN[row.number]


GIVEN = {
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
WELL: list[tuple[str, Behaviour]] = [
    ("as it should be", Behaviour()),
    ("226 behind the data", Behaviour(order=Order.EAGER)),
    ("150 and 226 in one segment", Behaviour(order=Order.TOGETHER)),
    ("226 at once", Behaviour(order=Order.AT_ONCE)),
    ("data first", Behaviour(order=Order.DATA_FIRST)),
    ("a greeting of many lines", Behaviour(greeting=b"220-hi\r\n230 not yet\r\n\r\n220 go\r\n")),
    ("120 first", Behaviour(greeting=b"120 soon\r\n220 go\r\n")),
    ("bare LF", Behaviour(greeting=b"220 go\n", first=b"150 a\n", final=b"226-a\n226 b\n")),
    ("17,000 octets in a line", Behaviour(replies={b"CWD": b"250 " + LONG + b"\r\n"})),
    (
        "300 lines of 3,000 octets",
        Behaviour(replies={b"CWD": b"250-\n" + (LONG[:3000] + b"\n") * 300 + b"250 \n"}),
    ),
    ("codes that change in the middle", Behaviour(replies={b"CWD": b"250-a\r\n550 b\r\n421-c\r\n250 d\r\n"})),
    ("150 of many lines", Behaviour(first=b"150-Accepted\r\n150 8192.0 kbytes\r\n")),
    ("1yz again", Behaviour(final=b"150 still\r\n226 done\r\n")),
    ("IAC doubled", Behaviour(replies={b"CWD": b"250 \xff\xff\r\n"})),
    ("Telnet options", Behaviour(greeting=b"\xff\xfd\x06220 \xff\xfb\x01go\r\n")),
    ("230 for a greeting", Behaviour(greeting=b"230 in\r\n")),
    ("230 to USER", Behaviour(replies={b"USER": b"230 in\r\n"})),
    ("SIZE unknown", Behaviour(replies={b"SIZE": b"500 what?\r\n"})),
    ("EPSV unknown", Behaviour(replies={b"EPSV": b"500 what?\r\n"})),
    ("EPSV says no", Behaviour(replies={b"EPSV": b"522 no\r\n"})),
    ("EPSV's port is closed", Behaviour(unreachable=frozenset({b"EPSV"}))),
    ("PASV names another host", Behaviour(replies={b"EPSV": b"502 no\r\n"}, host=b"192,0,2,1")),
    (
        "PASV without parentheses",
        Behaviour(replies={b"EPSV": b"502 no\r\n", b"PASV": b"227 1,2,3,4,{high},{low}\n"}),
    ),
    ("421 on the first connection: PASS", Behaviour(replies={b"PASS": b"421 bye\r\n"}, connections=1)),
    ("421 on the first connection: RETR", Behaviour(replies={b"RETR": b"421 bye\r\n"}, connections=1)),
    ("421 unasked", Behaviour(greeting=b"220 go\r\n421 idle\r\n", connections=1)),
]


@pytest.mark.parametrize(("why", "behaviour"), WELL, ids=[row[0] for row in WELL])
async def test_servers_that_get_it_through(why: str, behaviour: Behaviour, nursery: trio.Nursery) -> None:
    server = await serve(nursery, behaviour)
    taken = await retrieve(server, "pub/a.bin")
    assert taken.error is None
    assert taken.body == ALL_OCTETS
    assert "final-reply" in taken.verified
    assert ("length" in taken.verified) == (why != "SIZE unknown")
    assert server.violations == []
    assert len(server.sessions) == 1 + why.startswith("421")
    assert server.refused_options == ([b"\xff\xfc\x06", b"\xff\xfe\x01"] if why == "Telnet options" else [])


BADLY: list[tuple[str, Behaviour, type[ResolveError]]] = [
    ("no greeting", Behaviour(greeting=b""), TimedOut),
    ("421 for a greeting", Behaviour(greeting=b"421 full\r\n"), TryLater),
    ("530 for a greeting", Behaviour(greeting=b"530 no\r\n"), AccessDenied),
    ("something else", Behaviour(greeting=b"HTTP/1.1 400 Bad Request\r\n"), ProtocolError),
    ("NUL", Behaviour(replies={b"CWD": b"250 \0\r\n"}), ProtocolError),
    ("a line without end", Behaviour(replies={b"CWD": b"250 " + b"x" * 70_000}), LimitExceeded),
    ("lines without end", Behaviour(replies={b"CWD": b"250-\r\n" * 2000}), LimitExceeded),
    (
        "more than 1 MiB",
        Behaviour(replies={b"CWD": b"250-\n" + (LONG + b"\n") * 300 + b"250 \n"}),
        LimitExceeded,
    ),
    ("no answer to CWD", Behaviour(mute=frozenset({b"CWD"})), TimedOut),
    ("closed behind TYPE", Behaviour(hangs_up=frozenset({b"TYPE"})), Disconnected),
    ("421 twice", Behaviour(replies={b"TYPE": b"421 bye\r\n"}), TryLater),
    ("an account", Behaviour(replies={b"PASS": b"332 account\r\n"}), LoginRequired),
    ("no port", Behaviour(replies={b"EPSV": b"229 (|||0|)\r\n"}), ProtocolError),
    ("an address in 229", Behaviour(replies={b"EPSV": b"229 (|1|127.0.0.1|{port}|)\r\n"}), ProtocolError),
    ("no passive", Behaviour(replies={b"EPSV": b"500 no\r\n", b"PASV": b"500 no\r\n"}), Declined),
    ("a low port", Behaviour(claimed=25), Refused),
    ("PASV and a low port", Behaviour(replies={b"EPSV": b"500 no\r\n"}, claimed=25), Refused),
    ("no port is open", Behaviour(unreachable=frozenset({b"EPSV", b"PASV"})), Unreachable),
    ("425", Behaviour(replies={b"RETR": b"425 no\r\n"}), TryLater),
    (
        "550 when all is set up",
        Behaviour(replies={b"RETR": b"550 no\r\n", b"CWD a.bin": b"550 no\r\n"}),
        NotFound,
    ),
    ("no 150 and no data", Behaviour(mute=frozenset({b"RETR"})), TimedOut),
    ("data never comes", Behaviour(data=Data.DEAF, most=0), TimedOut),
    ("data stops coming", Behaviour(data=Data.DEAF, most=100), TimedOut),
]


@pytest.mark.parametrize(("why", "behaviour", "error"), BADLY, ids=[row[0] for row in BADLY])
async def test_servers_that_do_not(
    why: str, behaviour: Behaviour, error: type[ResolveError], nursery: trio.Nursery
) -> None:
    server = await serve(nursery, behaviour)
    taken = await retrieve(server, "pub/a.bin", limits=SHORT)
    assert type(taken.error) in (error, *error.__subclasses__())
    assert server.violations == []


CUT: list[tuple[str, Behaviour, int]] = [
    ("226 and too few octets", Behaviour(most=100), 100),
    ("226 and none", Behaviour(most=0), 0),
    ("reset", Behaviour(most=100, data=Data.RESET), 100),
    ("reset, 226 behind", Behaviour(most=100, data=Data.RESET, order=Order.EAGER), 100),
    ("reset, 226 before", Behaviour(most=100, data=Data.RESET, order=Order.TOGETHER), 100),
    ("426", Behaviour(most=100, final=b"426 broken\r\n"), 100),
    ("426 and all is there", Behaviour(final=b"426 broken\r\n"), len(ALL_OCTETS)),
    ("451", Behaviour(most=100, final=b"451 trouble\r\n"), 100),
    ("421", Behaviour(most=100, final=b"421 bye\r\n"), 100),
    ("no final reply, closed", Behaviour(final=b""), len(ALL_OCTETS)),
    ("no final reply, silence", Behaviour(final=b"", leaves=False), len(ALL_OCTETS)),
    ("half a final reply", Behaviour(final=b"226", leaves=True), len(ALL_OCTETS)),
]


@pytest.mark.parametrize(("why", "behaviour", "received"), CUT, ids=[row[0] for row in CUT])
async def test_transfers_that_are_cut(
    why: str, behaviour: Behaviour, received: int, nursery: trio.Nursery
) -> None:
    server = await serve(nursery, behaviour)
    taken = await retrieve(server, "pub/a.bin", limits=SHORT)
    assert isinstance(taken.error, Truncated)
    assert taken.error.expected == len(ALL_OCTETS)
    if "reset" in why:  # the system drops what was not read yet
        assert 0 < taken.error.received <= received
    else:
        assert taken.error.received == received
    assert "final-reply" not in taken.verified
    assert server.violations == []


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
async def test_over_ipv6_there_is_no_pasv(nursery: trio.Nursery) -> None:
    server = await serve(nursery, host="::1")
    assert (await retrieve(server, "pub/a.txt")).body == TEXT
    server = await serve(nursery, Behaviour(replies={b"EPSV": b"522 use (1)\r\n"}), host="::1")
    taken = await retrieve(server, "pub/a.txt")
    assert isinstance(taken.error, Declined)
    assert taken.error.code == "522"
    assert b"PASV" not in server.commands


async def test_a_reset_before_the_first_octet(nursery: trio.Nursery) -> None:
    server = await serve(nursery, Behaviour(most=0, data=Data.RESET))
    taken = await retrieve(server, "pub/a.bin")
    assert isinstance(taken.error, Disconnected)


async def test_leaving_early_does_not_wait(nursery: trio.Nursery) -> None:
    server = await serve(nursery, Behaviour(data=Data.DEAF))
    url = parse(server.url("pub/a.bin"))
    assert isinstance(url, FtpUrl)
    async with door(server) as opened:
        with trio.fail_after(1):
            async with open_ftp(url, opened.admit(url)) as reply:
                assert await anext(reply.body)


TYPES = [
    ("pub/a.txt;type=a", Behaviour(), TEXT),
    ("pub/a.txt;type=a", Behaviour(converts=False), TEXT),  # vsftpd: bare LF
    ("pub/crlf.txt;type=a", Behaviour(converts=False), TEXT),
    ("pub/crlf.txt;type=a", Behaviour(), TEXT.replace(b"\n", b"\r\n")),  # Pure-FTPd: CR CR LF
    ("pub/bare-cr.txt;type=a", Behaviour(), b"one\rtwo\rthree\r"),
    ("pub/crlf.txt;type=i", Behaviour(), TEXT.replace(b"\n", b"\r\n")),
    ("pub/empty.bin", Behaviour(), b""),
]


@pytest.mark.parametrize(("path", "behaviour", "octets"), TYPES)
async def test_types(path: str, behaviour: Behaviour, octets: bytes, nursery: trio.Nursery) -> None:
    server = await serve(nursery, behaviour)
    taken = await retrieve(server, path)
    assert (taken.body, taken.error) == (octets, None)
    assert taken.kind is Kind.DOCUMENT


LISTED = [
    "a.bin",
    "a.txt",
    "bare-cr.txt",
    "crlf.txt",
    "empty",
    "empty.bin",
    "large.bin",
    "names",
    "unreadable.txt",
]
FORMS = ["pub", "pub/", "pub;type=d", "pub/;type=d", "%2Fpub;type=d", "%2Fpub/"]


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("path", FORMS)
async def test_listings(style: Style, path: str, nursery: trio.Nursery) -> None:
    server = await serve(nursery, Behaviour(style=style))
    taken = await retrieve(server, path)
    assert taken.error is None
    assert taken.kind is Kind.DIRECTORY
    assert [entry.name for entry in taken.entries] == LISTED
    base = server.url(path.partition(";")[0].rstrip("/"))
    assert [entry.url for entry in taken.entries] == [f"{base}/{name}" for name in LISTED]
    assert server.violations == []


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("path", ["pub/empty", "pub/empty/", "pub/empty;type=d"])
async def test_an_empty_directory(style: Style, path: str, nursery: trio.Nursery) -> None:
    server = await serve(nursery, Behaviour(style=style))
    taken = await retrieve(server, path)
    assert (taken.error, taken.kind, taken.entries) == (None, Kind.DIRECTORY, [])


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("path", ["pub/no", "pub/no/", "pub/no;type=d", "no/a"])
async def test_what_is_missing(style: Style, path: str, nursery: trio.Nursery) -> None:
    server = await serve(nursery, Behaviour(style=style))
    taken = await retrieve(server, path)
    assert isinstance(taken.error, NotFound)


async def test_every_name_of_a_listing_can_be_fetched(nursery: trio.Nursery) -> None:
    server = await serve(nursery, Behaviour(style=Style.PUREFTPD))
    async with door(server) as opened:
        listed = await take(server.url("pub/names/"), opened)
        assert len(listed.entries) == 19
        for entry in listed.entries:
            assert entry.url is not None
            taken = await take(entry.url, opened)
            assert taken.body == b"content of " + (entry.raw or b"") + b"\n"
    assert server.violations == []


async def test_mlsd(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    taken = await retrieve(server, "pub/", options=Options(mlsd=True))
    assert {entry.name: entry.kind for entry in taken.entries}["names"] is Kind.DIRECTORY
    assert [entry.size for entry in taken.entries if entry.name == "a.txt"] == [len(TEXT)]


@dataclass
class Facts:
    kind: Kind
    size: int | None


FACTS = [
    ("pub/a.txt", Facts(Kind.DOCUMENT, len(TEXT)), [b"TYPE I", b"SIZE a.txt", b"MDTM a.txt"]),
    ("pub/a.txt;type=a", Facts(Kind.DOCUMENT, len(TEXT)), [b"TYPE I", b"SIZE a.txt", b"MDTM a.txt"]),
    ("pub/names", Facts(Kind.DIRECTORY, None), [b"TYPE I", b"SIZE names", b"MDTM names", b"CWD names"]),
    ("pub/names/", Facts(Kind.DIRECTORY, None), [b"CWD names"]),
    ("pub/names;type=d", Facts(Kind.DIRECTORY, None), [b"CWD names"]),
]


@pytest.mark.parametrize(("path", "facts", "sent"), FACTS)
async def test_facts_alone(path: str, facts: Facts, sent: list[bytes], nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    taken = await retrieve(server, path, options=Options(want="facts"))
    assert (taken.error, taken.kind, taken.size) == (None, facts.kind, facts.size)
    assert server.commands[3:] == sent
    assert server.violations == []


async def test_facts_of_what_is_missing(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    for path in ("pub/no", "pub/no;type=i", "pub/no;type=d"):
        assert isinstance((await retrieve(server, path, options=Options(want="facts"))).error, NotFound)


async def test_going_on_behind_what_is_held(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    taken = await retrieve(server, "pub/a.bin", options=Options(start=1000))
    assert (taken.error, taken.start, taken.size) == (None, 1000, len(ALL_OCTETS))
    assert taken.body == ALL_OCTETS[1000:]
    assert "length" in taken.verified
    assert server.commands[-2:] == [b"REST 1000", b"RETR a.bin"]
    assert server.violations == []


LOGINS: list[tuple[str, list[bytes], type[ResolveError] | None]] = [
    ("", [b"USER anonymous", b"PASS anonymous@"], None),
    ("bob:secret%20pw@", [b"USER bob", b"PASS secret pw"], None),
    ("bob:wrong@", [b"USER bob", b"PASS wrong"], AccessDenied),
    ("me@", [b"USER me", b"PASS asked"], None),
    ("@", [b"USER ", b"PASS asked"], None),
    ("u:@", [b"USER u", b"PASS "], None),
]


@pytest.mark.parametrize(("login", "sent", "error"), LOGINS)
async def test_logins(
    login: str, sent: list[bytes], error: type[ResolveError] | None, nursery: trio.Nursery
) -> None:
    server = await serve(nursery)
    taken = await retrieve(server, "etc/motd", login=login)
    assert server.commands[: len(sent)] == sent
    assert type(taken.error) is (error or type(None))
    assert server.violations == []


async def test_the_policy_says_what_anonymous_tells_of_itself(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with Door(policy=Policy(allow_port={server.port}, ftp_email="me@here.example")) as opened:
        assert (await take(server.url("etc/motd"), opened)).error is None
    assert server.commands[1] == b"PASS me@here.example"


@pytest.mark.parametrize("implicit", [False, True])
@pytest.mark.parametrize("order", [Order.HELD, Order.EAGER])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_tls(
    implicit: bool,
    order: Order,
    version: ssl.TLSVersion,
    authority: trustme.CA,
    cafile: Path,
    nursery: trio.Nursery,
) -> None:
    """Data connections resume the control connection's session, as servers demand."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.maximum_version = version
    behaviour = Behaviour(order=order, resumes_sessions=True)
    server = await serve(nursery, behaviour, tls=context, implicit=implicit, needs_tls=True)
    taken = await retrieve(server, "pub/a.bin", cafile=cafile, options=Options(tls="require"))
    assert taken.error is None
    assert taken.body == ALL_OCTETS
    assert taken.verified == {"final-reply", "length", "close-notify"}
    assert server.violations == []


TLS_FAILURES: list[tuple[str, Behaviour, type[ResolveError]]] = [
    ("AUTH refused", Behaviour(replies={b"AUTH": b"502 no\r\n"}), TlsError),
    ("greeted as logged in", Behaviour(greeting=b"230 in\r\n"), TlsError),
    (
        "replies behind AUTH in the clear",
        Behaviour(replies={b"AUTH": b"234 go\r\n230 in\n"}),
        ProtocolError,
    ),
    ("PROT refused", Behaviour(replies={b"PROT": b"536 no\r\n"}), TlsError),
    ("cut without close_notify", Behaviour(data=Data.CUT), Truncated),
    (
        "550 instead of a handshake",
        Behaviour(replies={b"RETR": b"550 no\r\n"}),
        NotFound,
    ),
]


@pytest.mark.parametrize(("why", "behaviour", "error"), TLS_FAILURES, ids=[row[0] for row in TLS_FAILURES])
async def test_tls_fails_closed(
    why: str,
    behaviour: Behaviour,
    error: type[ResolveError],
    tls: ssl.SSLContext,
    cafile: Path,
    nursery: trio.Nursery,
) -> None:
    server = await serve(nursery, behaviour, tls=tls)
    taken = await retrieve(server, "pub/a.bin", cafile=cafile, options=Options(tls="require"), limits=SHORT)
    assert type(taken.error) is error
    assert (b"USER anonymous" in server.commands) == (error not in (TlsError, ProtocolError))


async def test_a_server_without_tls_will_do_only_where_tls_was_to_be_tried(
    nursery: trio.Nursery,
) -> None:
    server = await serve(nursery)
    assert (await retrieve(server, "pub/a.txt", options=Options(tls="try"))).body == TEXT
    assert isinstance((await retrieve(server, "pub/a.txt", options=Options(tls="require"))).error, TlsError)


async def test_kept_connections(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    keep = Options(keep=True)
    async with door(server) as opened:
        for path in ("pub/a.txt", "pub/a.bin", "pub/names/README", "etc/motd", "pub/a.txt"):
            assert (await take(server.url(path), opened, keep)).error is None
        assert len(server.sessions) == 1
        assert server.commands.count(b"PWD") == 4
        assert (await take(server.url("pub/a.txt", "bob:secret%20pw@"), opened, keep)).error is not None
    assert len(server.sessions) == 2
    assert server.violations == []


async def test_unless_told_to_keep_only_the_same_directory_is_served_again(
    nursery: trio.Nursery,
) -> None:
    server = await serve(nursery)
    async with door(server) as opened:
        for path in ("pub/a.txt", "pub/a.bin", "etc/motd"):
            assert (await take(server.url(path), opened)).error is None
    assert len(server.sessions) == 2
    assert b"PWD" not in server.commands
    assert server.commands.count(b"CWD pub") == 1


async def test_a_resolver_finds_the_way_back_and_one_call_does_not_ask_for_it(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    policy = Policy(allow_port={server.port})
    async with resolver.Resolver(policy=policy) as session:
        for path in ("pub/a.txt", "etc/motd"):
            assert (await session.fetch(server.url(path))).content
    assert [each.commands[2] for each in server.sessions] == [b"PWD\r\n"]
    await resolver.fetch(server.url("pub/a.txt"), policy=policy)
    assert server.sessions[1].commands[2] == b"CWD pub\r\n"


async def test_a_connection_that_failed_is_not_kept(nursery: trio.Nursery) -> None:
    server = await serve(nursery, Behaviour(final=b"426 broken\r\n", connections=1))
    async with door(server) as opened:
        assert isinstance((await take(server.url("pub/a.txt"), opened)).error, Truncated)
        assert (await take(server.url("pub/a.txt"), opened)).error is None
    assert len(server.sessions) == 2


async def test_a_large_file(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    taken = await retrieve(server, "pub/large.bin")
    assert (len(taken.body), taken.error) == (1_048_576, None)
