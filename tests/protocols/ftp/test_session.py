"""Tests of FTP greetings, logins, TLS and connection reuse."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trio
import trustme

import resolver
from fixtures.ftp import Behavior, Data, Order, serve
from fixtures.ftp.tree import ALL_OCTETS, TEXT
from protocols.step import Connect, RequestCredentials, StartTls
from resolver import (
    AccessDenied,
    Credentials,
    Declined,
    Limits,
    LoginRequired,
    NotFound,
    Options,
    Policy,
    ProtocolError,
    ResolveError,
    TlsError,
    Truncated,
    TryLater,
)
from tests.protocols.ftp.on_a_socket import network, retrieve, take
from tests.protocols.ftp.script import Outcome, Script, play

Replies = dict[bytes, "bytes | list[bytes]"]

LOGINS: list[tuple[str, str, bytes, Replies, list[bytes], type[ResolveError] | None]] = [
    ("already logged in", "ftp://h/x", b"230 hello\r\n", {}, [], None),
    (
        "soon",
        "ftp://h/x",
        b"120 wait\r\n120-a\r\n120 b\r\n220 go\r\n",
        {},
        [b"USER anonymous", b"PASS anonymous@"],
        None,
    ),
    ("another 2yz greeting", "ftp://h/x", b"200 go\r\n", {}, [b"USER anonymous", b"PASS anonymous@"], None),
    ("busy", "ftp://h/x", b"421 busy\r\n", {}, [], TryLater),
    ("never", "ftp://h/x", b"530 not you\r\n", {}, [], AccessDenied),
    ("full", "ftp://h/x", b"530 Sorry, too many users\r\n", {}, [], TryLater),
    ("a 3yz is no greeting", "ftp://h/x", b"331 hm\r\n", {}, [], ProtocolError),
    ("something else speaks", "ftp://h/x", b"SSH-2.0-OpenSSH\r\n", {}, [], ProtocolError),
    ("playing for time", "ftp://h/x", b"120 wait\r\n" * 200, {}, [], ProtocolError),
    (
        "no PASS after 230: Pure-FTPd",
        "ftp://h/x",
        b"220 a\r\n",
        {b"USER": b"230 in\r\n"},
        [b"USER anonymous"],
        None,
    ),
    ("nor after 232", "ftp://u:p@h/x", b"220 a\r\n", {b"USER": b"232 in\r\n"}, [b"USER u"], None),
    ("nor after another 2yz", "ftp://u:p@h/x", b"220 a\r\n", {b"USER": b"250 in\r\n"}, [b"USER u"], None),
    (
        "USER and an account",
        "ftp://u:p@h/x",
        b"220 a\r\n",
        {b"USER": b"332 acct\r\n"},
        [b"USER u"],
        LoginRequired,
    ),
    ("USER refused", "ftp://u:p@h/x", b"220 a\r\n", {b"USER": b"530 no\r\n"}, [b"USER u"], AccessDenied),
    ("USER and 1yz", "ftp://u:p@h/x", b"220 a\r\n", {b"USER": b"150 hm\r\n"}, [b"USER u"], ProtocolError),
    (
        "anonymous refused",
        "ftp://h/x",
        b"220 a\r\n",
        {b"USER": b"530 no\r\n"},
        [b"USER anonymous"],
        LoginRequired,
    ),
    (
        "202 to PASS",
        "ftp://u:p@h/x",
        b"220 a\r\n",
        {b"PASS": b"202 not needed\r\n"},
        [b"USER u", b"PASS p"],
        None,
    ),
    (
        "PASS and an account",
        "ftp://u:p@h/x",
        b"220 a\r\n",
        {b"PASS": b"332 acct\r\n"},
        [b"USER u", b"PASS p"],
        LoginRequired,
    ),
    (
        "PASS refused",
        "ftp://u:p@h/x",
        b"220 a\r\n",
        {b"PASS": b"530 no\r\n"},
        [b"USER u", b"PASS p"],
        AccessDenied,
    ),
    (
        "PASS and another 3yz",
        "ftp://u:p@h/x",
        b"220 a\r\n",
        {b"PASS": b"331 more\r\n"},
        [b"USER u", b"PASS p"],
        ProtocolError,
    ),
    (
        "PASS refused to anonymous",
        "ftp://h/x",
        b"220 a\r\n",
        {b"PASS": b"530 no\r\n"},
        [b"USER anonymous", b"PASS anonymous@"],
        LoginRequired,
    ),
    (
        "PASS not now",
        "ftp://u:p@h/x",
        b"220 a\r\n",
        {b"PASS": b"450 later\r\n"},
        [b"USER u", b"PASS p"],
        TryLater,
    ),
]


@pytest.mark.parametrize(
    ("why", "url", "greeting", "replies", "login", "error"), LOGINS, ids=[row[0] for row in LOGINS]
)
def test_login_sends_expected_commands(
    why: str,
    url: str,
    greeting: bytes,
    replies: Replies,
    login: list[bytes],
    error: type[ResolveError] | None,
) -> None:
    player, outcome = play(url, Script(greeting=greeting, replies=replies))
    if error is None:
        assert isinstance(outcome, Outcome)
        assert player.commands == [*login, b"TYPE I", b"SIZE x", b"EPSV", b"RETR x"]
    else:
        assert type(outcome) is error
        assert player.commands == login


def test_login_without_password_raises() -> None:
    for url in ("ftp://me@h/x", "ftp://@h/x"):
        player, error = play(url)
        assert isinstance(error, LoginRequired)
        assert len(player.commands) == 1
        assert error.code == "331"


def test_password_of_different_user_is_not_sent() -> None:
    player, error = play("ftp://me@h/x", Script(credentials=Credentials(b"you", b"secret")))
    assert isinstance(error, LoginRequired)
    assert player.commands == [b"USER me"]


def test_password_is_requested_only_after_331() -> None:
    player, outcome = play("ftp://me@h/x", Script(replies={b"USER": b"230 in\r\n"}))
    assert isinstance(outcome, Outcome)
    assert not any(isinstance(event, RequestCredentials) for event in player.events)


def test_configured_credentials_replace_anonymous() -> None:
    player, _ = play("ftp://h/x", Script(credentials=Credentials(b"bob", b"secret pw")))
    assert player.commands[:2] == [b"USER bob", b"PASS secret pw"]
    assert player.commands_shown[:2] == [b"USER bob", b"PASS ****"]


def test_anonymous_password_option_is_sent() -> None:
    player, _ = play("ftp://h/x", options=Options(anonymous_password=b"me@here"))
    assert player.commands[1] == b"PASS me@here"
    player, _ = play("ftp://u:@h/x", options=Options(anonymous_password=b"me@here"))
    assert player.commands[1] == b"PASS "


@pytest.mark.parametrize(
    "refusal",
    [
        b"530 no secret here\r\n",
        b"530-'secret pw'\r\n is wrong: secret pw\r\n530 no\r\n",  # a server that repeats the password
        b"421 enough of secret pw\r\n",
        b"332 acct\r\n",
        b"331 hm secret pw\r\n",
        b"nonsense\r\n",
    ],
)
def test_login_error_masks_password(refusal: bytes) -> None:
    player, error = play("ftp://u:secret%20pw@h/x", Script(replies={b"PASS": refusal}))
    assert isinstance(error, ResolveError)
    assert "secret pw" not in f"{error} {error!r} {error.args} {getattr(error, 'text', '')}"
    assert player.commands_shown[1] == b"PASS ****"


AUTH: list[tuple[str, bytes, Replies, list[bytes]]] = [
    ("refused", b"220 a\r\n", {b"AUTH": b"500 what?\r\n"}, [b"AUTH TLS"]),
    ("not now", b"220 a\r\n", {b"AUTH": b"431 later\r\n"}, [b"AUTH TLS"]),
    ("an odd 2yz", b"220 a\r\n", {b"AUTH": b"200 sure\r\n"}, [b"AUTH TLS"]),
    ("an odd 3yz", b"220 a\r\n", {b"AUTH": b"334 more\r\n"}, [b"AUTH TLS"]),
    ("logged in already: CVE-2021-22946", b"230 in\r\n", {}, []),
    ("PBSZ refused", b"220 a\r\n", {b"PBSZ": b"500 no\r\n"}, [b"AUTH TLS", b"PBSZ 0"]),
    ("PROT refused", b"220 a\r\n", {b"PROT": b"534 no\r\n"}, [b"AUTH TLS", b"PBSZ 0", b"PROT P"]),
]


@pytest.mark.parametrize(("why", "greeting", "replies", "sent"), AUTH, ids=[row[0] for row in AUTH])
def test_tls_required_but_refused_raises(
    why: str, greeting: bytes, replies: Replies, sent: list[bytes]
) -> None:
    player, error = play("ftp://u:p@h/x", Script(greeting=greeting, replies=replies), Options(tls="require"))
    assert type(error) is TlsError
    assert player.commands == sent


def test_tls_required_precedes_user() -> None:
    script = Script(close_notify=True)
    player, outcome = play("ftp://u:p@h/x", script, Options(tls="require"))
    assert isinstance(outcome, Outcome)
    assert outcome.verified >= {"close-notify", "final-reply"}
    assert player.commands[:5] == [b"AUTH TLS", b"PBSZ 0", b"PROT P", b"USER u", b"PASS p"]
    order = [event for event in player.events if isinstance(event, (bytes, StartTls))]
    assert order[:2] == [b"AUTH TLS", StartTls()]


def test_tls_with_plaintext_after_auth_is_refused() -> None:
    """CVE-2021-22947: replies buffered before the TLS handshake must not count as protected."""
    replies: Replies = {b"AUTH": b"234 go\r\n230 you are in\r\n"}
    player, error = play("ftp://u:p@h/x", Script(replies=replies), Options(tls="require"))
    assert type(error) is ProtocolError
    assert player.commands == [b"AUTH TLS"]


@pytest.mark.parametrize(
    ("greeting", "replies"), [(b"220 a\r\n", {b"AUTH": b"502 no\r\n"}), (b"230 in\r\n", dict[bytes, bytes]())]
)
def test_tls_try_continues_without_tls(greeting: bytes, replies: dict[bytes, bytes]) -> None:
    script = Script(greeting=greeting, replies={**replies})
    player, outcome = play("ftp://h/x", script, Options(tls="try"))
    assert isinstance(outcome, Outcome)
    assert player.commands[-1] == b"RETR x"
    assert not outcome.state.protected


def test_tls_try_with_unexpected_reply_raises() -> None:
    _, error = play("ftp://h/x", Script(replies={b"AUTH": b"200 sure\r\n"}), Options(tls="try"))
    assert type(error) is TlsError
    _, error = play("ftp://h/x", Script(replies={b"PROT": b"534 no\r\n"}), Options(tls="try"))
    assert type(error) is TlsError


def test_ftps_starts_tls_and_protects_data_after_login() -> None:
    player, outcome = play("ftps://u:p@h/x", Script(close_notify=True))
    assert isinstance(outcome, Outcome)
    assert player.events[0] == Connect(tls=True)
    assert player.commands[:4] == [b"USER u", b"PASS p", b"PBSZ 0", b"PROT P"]
    _, error = play("ftps://u:p@h/x", Script(replies={b"PROT": b"536 no\r\n"}))
    assert type(error) is TlsError


def test_telnet_options_are_refused_immediately() -> None:
    script = Script(greeting=b"\xff\xfd\x06220\xff\xfb\x01 a\xff\xfc\x02\r\n")
    player, outcome = play("ftp://h/x", script)
    assert isinstance(outcome, Outcome)
    assert player.events[1:3] == [b"\xff\xfc\x06\xff\xfe\x01", RequestCredentials(None, None)]
    assert player.commands[0] == b"USER anonymous"


def test_account_request_raises_login_required() -> None:
    _, error = play("ftp://h/x", Script(replies={b"RETR": b"532 account\r\n"}))
    assert isinstance(error, LoginRequired)
    assert isinstance(error, Declined)
    assert (error.exit_code, error.setting) == (6, None)


@pytest.mark.parametrize(
    "words",
    [
        b"Sorry, the maximum number of clients (2) for this user already connected.",
        b"Sorry, the maximum number of allowed clients (10) already connected.",
        b"Too many users logged in, try again later.",
        b"There are too many connections from your internet address.",
        b"Maximum login limit has been reached.",
        b"Max clients reached",
        b"Connection limit exceeded",
    ],
)
@pytest.mark.parametrize("url", ["ftp://h/x", "ftp://u:p@h/x"])
@pytest.mark.parametrize("verb", [b"USER", b"PASS"])
def test_530_for_full_server_is_retryable(verb: bytes, url: str, words: bytes) -> None:
    """A login as a different user would not help, but a later attempt may."""
    _, error = play(url, Script(replies={verb: b"530 " + words + b"\r\n"}))
    assert isinstance(error, TryLater)
    assert (error.code, error.text, error.retryable) == ("530", words.decode(), True)


@pytest.mark.parametrize("url", ["ftp://h/x", "ftp://u:p@h/x"])
@pytest.mark.parametrize("verb", [b"USER", b"PASS"])
def test_421_at_login_raises_try_later(verb: bytes, url: str) -> None:
    _, error = play(url, Script(replies={verb: b"421 too many\r\n"}))
    assert isinstance(error, TryLater)
    assert error.code == "421"


# TLS against the mock server: explicit, implicit, and failures.

SHORT = Limits(idle=0.2)


@pytest.mark.parametrize("implicit", [False, True])
@pytest.mark.parametrize("order", [Order.HELD, Order.EAGER])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_tls_data_connections_resume_session(
    implicit: bool,
    order: Order,
    version: ssl.TLSVersion,
    authority: trustme.CA,
    cafile: Path,
    nursery: trio.Nursery,
) -> None:
    """Data connections resume the TLS session of the control connection, as servers require."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.maximum_version = version
    behavior = Behavior(order=order, resumes_sessions=True)
    server = await serve(nursery, behavior, tls=context, implicit=implicit, needs_tls=True)
    taken = await retrieve(server, "pub/a.bin", cafile=cafile, options=Options(tls="require"))
    assert taken.error is None
    assert taken.body == ALL_OCTETS
    assert taken.verified == {"final-reply", "length", "close-notify"}
    assert server.violations == []


TLS_FAILURES: list[tuple[str, Behavior, type[ResolveError]]] = [
    ("AUTH refused", Behavior(replies={b"AUTH": b"502 no\r\n"}), TlsError),
    ("greeted as logged in", Behavior(greeting=b"230 in\r\n"), TlsError),
    (
        "replies behind AUTH in the clear",
        Behavior(replies={b"AUTH": b"234 go\r\n230 in\n"}),
        ProtocolError,
    ),
    ("PROT refused", Behavior(replies={b"PROT": b"536 no\r\n"}), TlsError),
    ("cut without close_notify", Behavior(data=Data.CUT), Truncated),
    (
        "550 instead of a handshake",
        Behavior(replies={b"RETR": b"550 no\r\n"}),
        NotFound,
    ),
]


@pytest.mark.parametrize(("why", "behavior", "error"), TLS_FAILURES, ids=[row[0] for row in TLS_FAILURES])
async def test_tls_failure_raises_before_login(
    why: str,
    behavior: Behavior,
    error: type[ResolveError],
    server_tls: ssl.SSLContext,
    cafile: Path,
    nursery: trio.Nursery,
) -> None:
    server = await serve(nursery, behavior, tls=server_tls)
    taken = await retrieve(server, "pub/a.bin", cafile=cafile, options=Options(tls="require"), limits=SHORT)
    assert type(taken.error) is error
    assert (b"USER anonymous" in server.commands) == (error not in (TlsError, ProtocolError))


async def test_tls_try_accepts_server_without_tls(
    nursery: trio.Nursery,
) -> None:
    server = await serve(nursery)
    assert (await retrieve(server, "pub/a.txt", options=Options(tls="try"))).body == TEXT
    assert isinstance((await retrieve(server, "pub/a.txt", options=Options(tls="require"))).error, TlsError)


# Connections that may be reused, and connections that must not.


async def test_pooled_connection_serves_all_directories_of_a_login(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    keep = Options(keep=True)
    async with network(server) as opened:
        for path in ("pub/a.txt", "pub/a.bin", "pub/names/README", "etc/motd", "pub/a.txt"):
            assert (await take(server.url(path), opened, keep)).error is None
        assert len(server.sessions) == 1
        assert server.commands.count(b"PWD") == 4
        assert (await take(server.url("pub/a.txt", "bob:secret%20pw@"), opened, keep)).error is not None
    assert len(server.sessions) == 2
    assert server.violations == []


async def test_connection_without_keep_serves_only_same_directory(
    nursery: trio.Nursery,
) -> None:
    server = await serve(nursery)
    async with network(server) as opened:
        for path in ("pub/a.txt", "pub/a.bin", "etc/motd"):
            assert (await take(server.url(path), opened)).error is None
    assert len(server.sessions) == 2
    assert b"PWD" not in server.commands
    assert server.commands.count(b"CWD pub") == 1


async def test_resolver_requests_pwd_and_single_fetch_does_not(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    policy = Policy(allow_port={server.port})
    async with resolver.Resolver(policy=policy) as session:
        for path in ("pub/a.txt", "etc/motd"):
            assert (await session.fetch(server.url(path))).content
    assert [each.commands[2] for each in server.sessions] == [b"PWD\r\n"]
    await resolver.fetch(server.url("pub/a.txt"), policy=policy)
    assert server.sessions[1].commands[2] == b"CWD pub\r\n"


async def test_connection_after_failure_is_not_pooled(nursery: trio.Nursery) -> None:
    server = await serve(nursery, Behavior(final=b"426 broken\r\n", connections=1))
    async with network(server) as opened:
        assert isinstance((await take(server.url("pub/a.txt"), opened)).error, Truncated)
        assert (await take(server.url("pub/a.txt"), opened)).error is None
    assert len(server.sessions) == 2
