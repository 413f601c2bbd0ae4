"""Logins and TLS: credential requests, protection of passwords, and the errors of refusals.

The transcripts cover the user and password of the URL. These tests cover options, credentials stored for a
server, and peers that are not on this machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from resolver import Credentials, Options, ProtocolError, Refused, parse
from resolver.testing.player import resolve
from resolver.testing.transcript import Connection, TranscriptTurn
from tests.protocols.in_memory import MemoryGate
from tests.protocols.news.memory import LOOPBACK, NewsGate, news_url
from tests.protocols.opening import open_url

FAR = "192.0.2.7"
HELD = Credentials(b"u", b"p")
HELLO = b"200 ready\r\n"
GROUP = b"GROUP a.b\r\n"
LISTS = b"LIST ACTIVE\r\nLIST NEWSGROUPS\r\n"
EMPTY = b"211 0 0 0 a.b\r\n"
LOG_IN = b"480 log in\r\n"
USER, PASS = b"AUTHINFO USER u\r\n", b"AUTHINFO PASS p\r\n"
READER = (b"MODE READER\r\n", HELLO)
CAPABILITIES = b"CAPABILITIES\r\n"


def offers(*labels: bytes) -> bytes:
    return b"101 list\r\nVERSION 2\r\n" + b"".join(label + b"\r\n" for label in labels) + b".\r\n"


PLAIN = offers(b"READER", b"STARTTLS", b"AUTHINFO SASL")
INSIDE = offers(b"READER", b"AUTHINFO USER SASL")
#: Turns after the greeting, alternating client and server.
ASKED = (GROUP, LOG_IN, *READER, GROUP, LOG_IN)
GIVEN = (USER, b"381 password\r\n", PASS, b"281 in\r\n", GROUP, EMPTY, b"QUIT\r\n")
NONE = Options()
SECURED = (CAPABILITIES, PLAIN, b"STARTTLS\r\n", b"382 go\r\n", CAPABILITIES, INSIDE)


def connection(*turns: bytes, end: str = "left") -> Connection:
    spoken = [
        TranscriptTurn("C" if index % 2 else "S", octets) for index, octets in enumerate((HELLO, *turns))
    ]
    return Connection(tuple(spoken), end)  # type: ignore[arg-type]


def no_credentials(user: bytes | None) -> Credentials | None:
    return None


def held(user: bytes | None) -> Credentials | None:
    return HELD


@dataclass(frozen=True)
class Case:
    """The turns of both sides after the greeting, and the outcome.

    `held` returns the stored credentials.
    """

    why: str
    turns: tuple[bytes, ...]
    error: str | None = None
    url: str = "nntp://h/a.b"
    peer: str = FAR
    options: Options = NONE
    keeper: Callable[[bytes | None], Credentials | None] = no_credentials


CASES = (
    Case("credentials stored for this server", (*ASKED, *GIVEN), peer=LOOPBACK, keeper=held),
    Case("no stored credentials", (*ASKED, b"QUIT\r\n"), error="LoginRequired", peer=LOOPBACK),
    Case(
        "a user without password: the password is requested",
        (*ASKED, *GIVEN),
        url="nntp://u@h/a.b",
        peer=LOOPBACK,
        keeper=held,
    ),
    Case("an empty user is no user", (*ASKED, *GIVEN), url="nntp://@h/a.b", peer=LOOPBACK, keeper=held),
    Case("remote, TLS first", (*ASKED, *SECURED, *GIVEN), url="nntp://u:p@h/a.b"),
    Case(
        "remote without TLS: no password is sent",
        (*ASKED, CAPABILITIES, offers(b"READER", b"AUTHINFO USER")),
        error="Refused",
        url="nntp://u:p@h/a.b",
    ),
    Case(
        "remote, old server",
        (*ASKED, CAPABILITIES, b"500 what?\r\n", b"STARTTLS\r\n", b"500 what?\r\n"),
        error="Refused",
        url="nntp://u:p@h/a.b",
    ),
    Case(
        "remote, STARTTLS fails with 580",
        (*ASKED, CAPABILITIES, PLAIN, b"STARTTLS\r\n", b"580 no certificate\r\n"),
        error="Refused",
        url="nntp://u:p@h/a.b",
    ),
    Case(
        "remote, with --tls never",
        (*ASKED, *GIVEN),
        url="nntp://u:p@h/a.b",
        options=Options(login_in_clear=True),
    ),
    Case("TLS from the start", (*ASKED, *GIVEN), url="nntps://u:p@h/a.b"),
    Case(
        "483 to the name",
        (*ASKED, USER, b"483 encrypt\r\n", *SECURED, *GIVEN),
        url="nntp://u:p@h/a.b",
        peer=LOOPBACK,
    ),
    Case(
        "483 to the password",
        (*ASKED, USER, b"381 p\r\n", PASS, b"483 encrypt\r\n", *SECURED, *GIVEN),
        url="nntp://u:p@h/a.b",
        peer=LOOPBACK,
    ),
    Case(
        "483 with --tls never",
        (*ASKED, USER, b"483 encrypt\r\n", b"QUIT\r\n"),
        error="Declined",
        url="nntp://u:p@h/a.b",
        peer=LOOPBACK,
        options=Options(login_in_clear=True),
    ),
    Case("483 to a command", (GROUP, b"483 encrypt\r\n", *SECURED, GROUP, EMPTY, b"QUIT\r\n")),
    Case(
        "483, and the server has no TLS",
        (GROUP, b"483 encrypt\r\n", CAPABILITIES, offers(b"READER"), b"QUIT\r\n"),
        error="Declined",
    ),
    Case("483 inside TLS", (GROUP, b"483 more\r\n", b"QUIT\r\n"), error="Declined", url="nntps://h/a.b"),
    Case(
        "483 in transit mode: the mode comes before TLS",
        (
            *(GROUP, b"483 encrypt\r\n", CAPABILITIES, offers(b"MODE-READER", b"STARTTLS"), *READER),
            *(CAPABILITIES, PLAIN, *SECURED[2:], GROUP, EMPTY, b"QUIT\r\n"),
        ),
    ),
    Case(
        "an old server without CAPABILITIES: MODE READER, and its 500 is ignored",
        (
            *(
                GROUP,
                b"483 encrypt\r\n",
                CAPABILITIES,
                b"500 what?\r\n",
                b"MODE READER\r\n",
                b"500 what?\r\n",
            ),
            *(b"STARTTLS\r\n", b"382 go\r\n", CAPABILITIES, b"500 what?\r\n", GROUP, EMPTY, b"QUIT\r\n"),
        ),
    ),
    Case(
        "501 to a variant of LIST counts as 500",
        (
            CAPABILITIES,
            b"500 what?\r\n",
            LISTS,
            b"501 what?\r\n501 what?\r\n",
            *READER,
            LISTS,
            b"501 what?\r\n501 what?\r\n",
            b"QUIT\r\n",
        ),
        error="Declined",
        url="news://h/*",
    ),
    Case("TLS required", (*SECURED, GROUP, EMPTY, b"QUIT\r\n"), options=Options(tls="require")),
    Case(
        "TLS required and not there",
        (CAPABILITIES, offers(b"READER")),
        error="TlsError",
        options=Options(tls="require"),
    ),
    Case(
        "TLS required and not possible",
        (CAPABILITIES, PLAIN, b"STARTTLS\r\n", b"580 no\r\n"),
        error="TlsError",
        options=Options(tls="require"),
    ),
    Case(
        "TLS if available, and the server has none",
        (CAPABILITIES, offers(b"READER"), GROUP, EMPTY, b"QUIT\r\n"),
        options=Options(tls="try"),
    ),
    Case(
        "TLS if the server can: 502",
        (CAPABILITIES, PLAIN, b"STARTTLS\r\n", b"502 no\r\n", GROUP, EMPTY, b"QUIT\r\n"),
        options=Options(tls="try"),
    ),
    Case(
        "an odd answer to STARTTLS",
        (CAPABILITIES, PLAIN, b"STARTTLS\r\n", b"200 fine\r\n"),
        error="ProtocolError",
        options=Options(tls="try"),
    ),
    Case(
        "TLS needs no STARTTLS",
        (GROUP, EMPTY, b"QUIT\r\n"),
        url="nntps://h/a.b",
        options=Options(tls="require"),
    ),
    Case(
        "hidden group with stored credentials",
        (GROUP, b"411 no such group\r\n", CAPABILITIES, INSIDE, *GIVEN),
        peer=LOOPBACK,
        keeper=held,
    ),
    Case(
        "hidden group, remote, with TLS",
        (GROUP, b"411 no such group\r\n", CAPABILITIES, PLAIN, *SECURED[2:], *GIVEN),
        keeper=held,
    ),
    Case(
        "hidden group, remote, without TLS: not found",
        (GROUP, b"411 no such group\r\n", CAPABILITIES, INSIDE, b"QUIT\r\n"),
        error="NotFound",
        keeper=held,
    ),
    Case(
        "hidden group on an old server: not found",
        (GROUP, b"411 no such group\r\n", CAPABILITIES, b"500 what?\r\n", b"QUIT\r\n"),
        error="NotFound",
        peer=LOOPBACK,
        keeper=held,
    ),
)


def gate_for(case: Case) -> NewsGate:
    return NewsGate(
        [connection(*case.turns)],
        tls=case.url.startswith("nntps"),
        options=case.options,
        peer=case.peer,
        held=case.keeper,
    )


@pytest.mark.parametrize("case", CASES, ids=[case.why for case in CASES])
async def test_negotiation_follows_case(case: Case) -> None:
    gate = gate_for(case)
    outcome = await resolve(open_url, parse(case.url), gate)
    assert outcome.error == case.error
    gate.check_finished()


@pytest.mark.parametrize("case", CASES, ids=[case.why for case in CASES])
async def test_password_is_sent_only_over_permitted_connection(case: Case) -> None:
    gate = gate_for(case)
    await resolve(open_url, parse(case.url), gate)
    stream = gate.streams[0]
    if PASS in stream.sent:
        before = stream.sent[: stream.sent.index(PASS)]
        may = case.peer == LOOPBACK or case.url.startswith("nntps") or case.options.login_in_clear
        assert may or b"STARTTLS" in before


@pytest.mark.parametrize(
    ("url", "asked"), [("nntp://h/a.b", [None]), ("nntp://u@h/a.b", [b"u"]), ("nntp://u:p@h/a.b", [])]
)
async def test_credentials_are_requested_unless_url_has_password(url: str, asked: list[bytes | None]) -> None:
    gate = NewsGate([connection(*ASKED, *GIVEN)], held=held)
    assert (await resolve(open_url, parse(url), gate)).error is None
    assert gate.asked == asked


async def test_clear_text_password_refusal_names_flag() -> None:
    gate = NewsGate([connection(*ASKED, CAPABILITIES, INSIDE)], peer=FAR)
    with pytest.raises(Refused) as caught:
        async with open_url(news_url("nntp://u:p@h/a.b"), gate):
            raise AssertionError("opened")
    assert (caught.value.rule, caught.value.flag, caught.value.exit_code) == ("S06", "--tls never", 9)
    assert "p@" not in caught.value.message


async def test_bytes_before_tls_handshake_raise() -> None:
    """An attacker on the path could have inserted them (RFC 4642 2.2.2)."""
    turns = (CAPABILITIES, PLAIN, b"STARTTLS\r\n", b"382 go\r\n101 list\r\n.\r\n")
    gate = NewsGate([connection(*turns)], options=Options(tls="require"))
    with pytest.raises(ProtocolError):
        async with open_url(news_url("nntp://h/a.b"), gate):
            raise AssertionError("opened")
    assert not gate.streams[0].secured


async def test_blank_in_password_is_reported() -> None:
    gate = NewsGate(
        [
            connection(
                *ASKED, USER, b"381 p\r\n", b"AUTHINFO PASS a b\r\n", b"281 in\r\n", GROUP, EMPTY, b"QUIT\r\n"
            )
        ],
        held=lambda user: Credentials(b"u", b"a b"),
    )
    async with open_url(news_url("nntp://h/a.b"), gate) as reply:
        assert [finding.rule for finding in reply.findings] == ["nntp:login-blank"]


@pytest.mark.parametrize("octet", [b"\r", b"\n", b"\0", b"\r\nQUIT"])
@pytest.mark.parametrize("where", ["user", "password"])
async def test_line_end_in_credentials_is_refused(where: str, octet: bytes) -> None:
    credentials = Credentials(b"u" + octet, b"p") if where == "user" else Credentials(b"u", b"p" + octet)
    turns = ASKED if where == "user" else (*ASKED, USER, b"381 p\r\n")
    gate = NewsGate([connection(*turns)], held=lambda user: credentials)
    with pytest.raises(Refused) as caught:
        async with open_url(news_url("nntp://h/a.b"), gate):
            raise AssertionError("opened")
    assert caught.value.rule == "S02"
    gate.check_finished()


async def test_pipeline_key_depends_on_login_and_tls() -> None:
    """S11: requests with different credentials or TLS options never share a connection."""
    keys = set()
    for url, options in [
        ("nntp://h/a.b", NONE),
        ("nntp://u@h/a.b", NONE),
        ("nntp://u:p@h/a.b", NONE),
        ("nntp://u:q@h/a.b", NONE),
        ("nntp://h/a.b", Options(tls="try")),
        ("nntp://h/a.b", Options(login_in_clear=True)),
    ]:
        gate = NewsGate([Connection((TranscriptTurn("S", b"502 no\r\n"),), "close")], options=options)
        assert isinstance(gate, MemoryGate)
        await resolve(open_url, parse(url), gate)
        keys.add(gate.keys[0])
    assert len(keys) == 6
