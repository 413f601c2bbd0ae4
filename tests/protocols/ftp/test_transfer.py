"""Tests of FTP data connections, completeness of a transfer, and conversion of line ends."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import pytest
import trio

from fixtures.ftp import Behavior, Style, serve
from fixtures.ftp.tree import ALL_OCTETS, TEXT
from protocols.ftp.transfer import NetworkText
from protocols.step import CloseData, CopyBody, OpenData
from resolver import (
    AccessDenied,
    Declined,
    Disconnected,
    Kind,
    LoginRequired,
    NotFound,
    Options,
    Policy,
    ProtocolError,
    ResolveError,
    TimedOut,
    Truncated,
    TryLater,
)
from resolver.transfer.network import Network
from tests.protocols.ftp.on_a_socket import network, retrieve, take
from tests.protocols.ftp.script import Outcome, Script, play, reset_error

Replies = dict[bytes, "bytes | list[bytes]"]
FILE = "ftp://h/x;type=i"


def setup(script: Script, url: str = FILE) -> tuple[list[object], Outcome | ResolveError]:
    """Return the events that set up the data connection, in order."""
    player, outcome = play(url, script)
    start = player.events.index(b"SIZE x") + 1
    return [event for event in player.events[start:] if not isinstance(event, (CopyBody, CloseData))], outcome


PASV = {b"PASV": b"227 ok (10,0,0,5,156,67)\r\n"}


def setup_by_pasv(reply: bytes) -> tuple[str, Script, list[object]]:
    """Return a row for a reply to EPSV that contains no port."""
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
    *map(
        setup_by_pasv, [b"314 hm\r\n", b"331 hm\r\n", b"150 hm\r\n", b"200 ok\r\n", b"227 (1,2,3,4,5,6)\r\n"]
    ),
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
def test_data_setup_opens_connection_before_command(why: str, script: Script, done: list[object]) -> None:
    """The data connection is open before the command is sent; only the port of a 227 is used."""
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
def test_data_setup_failure_raises(
    why: str, script: Script, done: list[object], error: type[ResolveError]
) -> None:
    assert setup(script)[0] == done
    assert type(setup(script)[1]) is error


def test_data_setup_remembers_pasv_and_requests_new_port() -> None:
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


COMPLETE: list[tuple[str, Script, str, set[str]]] = [
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


@pytest.mark.parametrize(("why", "script", "url", "verified"), COMPLETE, ids=[row[0] for row in COMPLETE])
def test_transfer_complete_is_verified(why: str, script: Script, url: str, verified: set[str]) -> None:
    player, outcome = play(url, script)
    assert isinstance(outcome, Outcome)
    assert outcome.verified == verified
    assert player.body == script.data
    assert outcome.state.idle


TRUNCATED: list[tuple[str, Script, str, type[ResolveError], int, int | None]] = [
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
    ("why", "script", "url", "error", "received", "expected"), TRUNCATED, ids=[row[0] for row in TRUNCATED]
)
def test_transfer_truncated_keeps_received_bytes(
    why: str, script: Script, url: str, error: type[ResolveError], received: int, expected: int | None
) -> None:
    player, raised = play(url, script)
    assert type(raised) is error
    assert isinstance(raised, Truncated)
    assert (raised.received, raised.expected) == (received, expected)
    assert player.body == script.data  # the received bytes can be kept
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
    ("reset before anything, 226 or not", Script(broken=reset_error()), Disconnected, None),
    ("reset before anything, refused", Script(broken=reset_error(), late=b"550 no\r\n"), NotFound, "550"),
    ("reset before anything, no reply", Script(broken=reset_error(), late=b""), Disconnected, None),
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
def test_transfer_failed_without_data_raises_reply_error(
    why: str, script: Script, error: type[ResolveError], code: str | None
) -> None:
    player, raised = play(FILE, script)
    assert type(raised) is error
    assert getattr(raised, "code", None) == code
    assert player.transfer is None or why in ("3yz at the end", "nonsense at the end", "1yz for ever")


def test_malformed_final_reply_reports_progress() -> None:
    _, raised = play(FILE, Script(data=b"123", late=b"\0\r\n"))
    assert "3 of 5 " in str(raised)


@pytest.mark.parametrize("code", [b"426", b"421", b"550"])
def test_bytes_before_refusal_are_emitted(code: bytes) -> None:
    """150 and the refusal arrived together: the bytes received before are kept, to resume after them."""
    replies: Replies = {b"RETR": b"150 a\r\n" + code + b" broken\r\n"}
    player, raised = play(FILE, Script(data=b"123", replies=replies))
    assert player.body == b"123"
    assert isinstance(raised, Truncated)
    assert (raised.received, raised.expected) == (3, 5)


def test_550_message_names_both_meanings() -> None:
    _, raised = play(FILE, Script(replies={b"RETR": b"550 \x1b[31mno\r\n"}))
    assert isinstance(raised, NotFound)
    assert "missing or not allowed" in raised.message
    assert raised.text == "\\x1b[31mno"
    assert "\x1b" not in raised.message


def test_data_connection_is_closed_before_final_reply() -> None:
    """The script sends 226 only after that, as ProFTPD does."""
    player, outcome = play(FILE)
    assert isinstance(outcome, Outcome)
    assert player.events[-3:] == [b"RETR x", player.transfer, CloseData()]


def test_no_command_is_sent_between_command_and_final_reply() -> None:
    """Answers to Telnet options also follow the final reply."""
    script = Script(replies={b"RETR": b"150 a\xff\xfd\x06\r\n"}, late=b"226 b\xff\xfb\x01\r\n")
    player, outcome = play(FILE, script)
    assert isinstance(outcome, Outcome)
    assert player.events[-3:] == [player.transfer, CloseData(), b"\xff\xfc\x06\xff\xfe\x01"]


# Line ends of type A, for every split of the bytes.

CASES = [
    (b"one\r\ntwo\r\n", b"one\ntwo\n"),
    (b"no line end", b"no line end"),
    (b"bare\nLF\n", b"bare\nLF\n"),  # vsftpd sends files unchanged
    (b"one\rtwo\rthree\r", b"one\rtwo\rthree\r"),
    (b"a\r\0b", b"a\rb"),
    (b"a\r\r\n", b"a\r\n"),  # Pure-FTPd sends CR CR LF for CR LF in the file
    (b"a\r\r\0\r\n\0", b"a\r\r\n\0"),
    (b"\r", b"\r"),
    (b"", b""),
]


def convert(*pieces: bytes) -> bytes:
    machine = NetworkText()
    return b"".join([octets for piece in pieces for octets in machine.feed(piece)] + [*machine.finish()])


@pytest.mark.parametrize(("sent", "text"), CASES)
def test_network_text_converts_line_ends_for_every_split(sent: bytes, text: bytes) -> None:
    assert convert(sent) == text
    assert convert(*(sent[at : at + 1] for at in range(len(sent)))) == text
    for cut in range(len(sent)):
        assert convert(sent[:cut], sent[cut:]) == text


def test_network_text_short_inputs_do_not_depend_on_split() -> None:
    for letters in product(b"a\r\n\0", repeat=5):
        sent = bytes(letters)
        assert convert(*(sent[at : at + 1] for at in range(5))) == convert(sent)
        assert convert(sent) == sent.replace(b"\r\n", b"\n").replace(b"\r\0", b"\r")


# Types, listings, metadata, resumption and logins against the mock server on loopback.

TYPES = [
    ("pub/a.txt;type=a", Behavior(), TEXT),
    ("pub/a.txt;type=a", Behavior(converts=False), TEXT),  # vsftpd: bare LF
    ("pub/crlf.txt;type=a", Behavior(converts=False), TEXT),
    ("pub/crlf.txt;type=a", Behavior(), TEXT.replace(b"\n", b"\r\n")),  # Pure-FTPd: CR CR LF
    ("pub/bare-cr.txt;type=a", Behavior(), b"one\rtwo\rthree\r"),
    ("pub/crlf.txt;type=i", Behavior(), TEXT.replace(b"\n", b"\r\n")),
    ("pub/empty.bin", Behavior(), b""),
]


@pytest.mark.parametrize(("path", "behavior", "octets"), TYPES)
async def test_type_a_and_i_over_socket(
    path: str, behavior: Behavior, octets: bytes, nursery: trio.Nursery
) -> None:
    server = await serve(nursery, behavior)
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
async def test_directory_forms_give_same_entries(style: Style, path: str, nursery: trio.Nursery) -> None:
    server = await serve(nursery, Behavior(style=style))
    taken = await retrieve(server, path)
    assert taken.error is None
    assert taken.kind is Kind.DIRECTORY
    assert [entry.name for entry in taken.entries] == LISTED
    base = server.url(path.partition(";")[0].rstrip("/"))
    assert [entry.url for entry in taken.entries] == [f"{base}/{name}" for name in LISTED]
    assert server.violations == []


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("path", ["pub/empty", "pub/empty/", "pub/empty;type=d"])
async def test_empty_directory_has_no_entries(style: Style, path: str, nursery: trio.Nursery) -> None:
    server = await serve(nursery, Behavior(style=style))
    taken = await retrieve(server, path)
    assert (taken.error, taken.kind, taken.entries) == (None, Kind.DIRECTORY, [])


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("path", ["pub/no", "pub/no/", "pub/no;type=d", "no/a"])
async def test_missing_path_raises_not_found(style: Style, path: str, nursery: trio.Nursery) -> None:
    server = await serve(nursery, Behavior(style=style))
    taken = await retrieve(server, path)
    assert isinstance(taken.error, NotFound)


async def test_listed_urls_can_be_fetched(nursery: trio.Nursery) -> None:
    server = await serve(nursery, Behavior(style=Style.PUREFTPD))
    async with network(server) as opened:
        listed = await take(server.url("pub/names/"), opened)
        assert len(listed.entries) == 19
        for entry in listed.entries:
            assert entry.url is not None
            taken = await take(entry.url, opened)
            assert taken.body == b"content of " + (entry.raw or b"") + b"\n"
    assert server.violations == []


async def test_mlsd_option_gives_kinds_and_sizes(nursery: trio.Nursery) -> None:
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
    ("pub/a.txt;type=a", Facts(Kind.DOCUMENT, None), [b"TYPE I", b"SIZE a.txt", b"MDTM a.txt"]),
    ("pub/names", Facts(Kind.DIRECTORY, None), [b"TYPE I", b"SIZE names", b"MDTM names", b"CWD names"]),
    ("pub/names/", Facts(Kind.DIRECTORY, None), [b"CWD names"]),
    ("pub/names;type=d", Facts(Kind.DIRECTORY, None), [b"CWD names"]),
]


@pytest.mark.parametrize(("path", "facts", "sent"), FACTS)
async def test_want_facts_sends_only_metadata_commands(
    path: str, facts: Facts, sent: list[bytes], nursery: trio.Nursery
) -> None:
    server = await serve(nursery)
    taken = await retrieve(server, path, options=Options(want="facts"))
    assert (taken.error, taken.kind, taken.size) == (None, facts.kind, facts.size)
    assert server.commands[3:] == sent
    assert server.violations == []


async def test_want_facts_of_missing_path_raises_not_found(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    for path in ("pub/no", "pub/no;type=i", "pub/no;type=d"):
        assert isinstance((await retrieve(server, path, options=Options(want="facts"))).error, NotFound)


async def test_start_resumes_with_rest(nursery: trio.Nursery) -> None:
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
async def test_login_forms_send_user_and_password(
    login: str, sent: list[bytes], error: type[ResolveError] | None, nursery: trio.Nursery
) -> None:
    server = await serve(nursery)
    taken = await retrieve(server, "etc/motd", login=login)
    assert server.commands[: len(sent)] == sent
    assert type(taken.error) is (error or type(None))
    assert server.violations == []


async def test_policy_ftp_email_is_the_anonymous_password(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with Network(policy=Policy(allow_port={server.port}, ftp_email="me@here.example")) as opened:
        assert (await take(server.url("etc/motd"), opened)).error is None
    assert server.commands[1] == b"PASS me@here.example"
