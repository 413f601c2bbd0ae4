"""Commands sent for a URL (as `explain` shows them), reused connections, and the facts of a reply."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal

import pytest

from protocols.contract import JsonValue
from protocols.conversation.rehearsal import rehearse
from protocols.news.dialogue import converse
from protocols.news.response import NntpCommand, NntpVerb
from protocols.news.session import WINDOW, NntpState, is_loopback
from protocols.step import (
    EndResponse,
    JoinedPipeline,
    JoinPipeline,
    PlanNote,
    Receive,
    Send,
    StartBody,
    StartRequest,
    StartResponse,
    StartTls,
    Step,
)
from resolver import (
    Declined,
    InvalidUrl,
    Kind,
    LimitExceeded,
    Limits,
    NewsUrl,
    NntpUrl,
    NotConfigured,
    Options,
    Policy,
    Refused,
    ResolveError,
    Truncated,
    parse,
)
from resolver.testing import CUTTERS, Cutter, OctetScript, Player, ScriptedPeer, ValueScript
from resolver.testing.player import Opening
from resolver.testing.transcript import Connection, TranscriptTurn
from resolver.transfer.network import Network
from tests.protocols.news.memory import NewsGate, news_url
from tests.protocols.opening import open_url


def sent_writes(steps: Iterable[Step]) -> list[bytes]:
    """Return the bytes of each write."""
    return [b"".join(line.octets for line in step.lines) for step in steps if isinstance(step, Send)]


#: Sent before the list of all groups.
COMPRESSED = [b"CAPABILITIES\r\n", b"COMPRESS DEFLATE\r\n"]

#: The table of page "news", section 4: URL and writes to a server that accepts everything. Article numbers
#: are unknown before the run.
ROWS = [
    ("nntp://h/comp.misc/1234", [b"GROUP comp.misc\r\nARTICLE 1234\r\n"]),
    ("nntp://h:1119/comp.misc/1234", [b"GROUP comp.misc\r\nARTICLE 1234\r\n"]),
    ("nntp://h/comp.misc/007", [b"GROUP comp.misc\r\nARTICLE 7\r\n"]),
    ("nntp://h/comp.misc/0", [b"GROUP comp.misc\r\nARTICLE 0\r\n"]),
    ("nntp://h/comp.misc", [b"GROUP comp.misc\r\n", b"OVER 0-0\r\n"]),
    ("nntp://h/alt.c++/5", [b"GROUP alt.c++\r\nARTICLE 5\r\n"]),
    ("nntp://h/A.b/1", [b"GROUP A.b\r\nARTICLE 1\r\n"]),
    ("news:1994Nov14.1@host.example", [b"ARTICLE <1994Nov14.1@host.example>\r\n"]),
    ("news:AbC%25d/e@H.Example", [b"ARTICLE <AbC%d/e@H.Example>\r\n"]),
    ("news:x%252Fy@h.example", [b"ARTICLE <x%2Fy@h.example>\r\n"]),
    ("news:comp.misc", [b"GROUP comp.misc\r\n", b"OVER 0-0\r\n"]),
    ("news:*", [*COMPRESSED, b"LIST ACTIVE\r\nLIST NEWSGROUPS\r\n"]),
    ("news:comp.*", [b"LIST ACTIVE comp.*\r\nLIST NEWSGROUPS comp.*\r\n"]),
    ("news://h/", [*COMPRESSED, b"LIST ACTIVE\r\nLIST NEWSGROUPS\r\n"]),
    ("news://h", [*COMPRESSED, b"LIST ACTIVE\r\nLIST NEWSGROUPS\r\n"]),
    ("news://h/*", [*COMPRESSED, b"LIST ACTIVE\r\nLIST NEWSGROUPS\r\n"]),
    ("news://h:1119/x@h.example", [b"ARTICLE <x@h.example>\r\n"]),
    ("news://h/comp.misc", [b"GROUP comp.misc\r\n", b"OVER 0-0\r\n"]),
    ("news://u:p@h/comp.misc", [b"GROUP comp.misc\r\n", b"OVER 0-0\r\n"]),
    ("snews://h/comp.misc", [b"GROUP comp.misc\r\n", b"OVER 0-0\r\n"]),
    ("nntps://h/comp.misc/7", [b"GROUP comp.misc\r\nARTICLE 7\r\n"]),
]


@pytest.mark.parametrize(("text", "writes"), ROWS)
def test_rehearsal_sends_commands_of_table(text: str, writes: list[bytes]) -> None:
    steps = rehearse(converse(news_url(text), Options(), Limits()))
    assert sent_writes(steps) == writes
    kinds = [type(step) for step in steps if not isinstance(step, PlanNote)]
    assert kinds[:3] == [JoinPipeline, StartResponse, Receive], "the client sends nothing before the greeting"
    assert StartRequest not in kinds, "a new connection needs no StartRequest"
    assert kinds[-1] is EndResponse
    join = next(step for step in steps if isinstance(step, JoinPipeline))
    assert (join.tls, join.anew) == (text.startswith(("snews", "nntps")), False)


@pytest.mark.parametrize(
    ("text", "writes"),
    [
        ("nntp://h/a.b/7", [b"GROUP a.b\r\nHEAD 7\r\n"]),
        ("news:x@y", [b"HEAD <x@y>\r\n"]),
        ("nntp://h/a.b", [b"GROUP a.b\r\n"]),
        ("news:*", [*COMPRESSED, b"LIST ACTIVE\r\n"]),
        ("news:a.*", [b"LIST ACTIVE a.*\r\n"]),
    ],
)
def test_facts_request_does_not_fetch_body(text: str, writes: list[bytes]) -> None:
    steps = rehearse(converse(news_url(text), Options(want="facts"), Limits()))
    assert sent_writes(steps) == writes
    assert [type(step) for step in steps[-1:]] == [StartBody]


OTHERWISE = {"try": "without TLS", "require": "nothing"}


@pytest.mark.parametrize("tls", OTHERWISE)
def test_plan_with_tls_option_includes_starttls(tls: Literal["try", "require"]) -> None:
    """A rehearsed server offers STARTTLS; inside TLS the client does not ask for STARTTLS."""
    steps = rehearse(converse(news_url("nntp://h/a.b/7"), Options(tls=tls), Limits()))
    assert sent_writes(steps) == [
        b"CAPABILITIES\r\n",
        b"STARTTLS\r\n",
        b"CAPABILITIES\r\n",
        b"GROUP a.b\r\nARTICLE 7\r\n",
    ]
    notes = [step.text for step in steps if isinstance(step, PlanNote)]
    assert any("STARTTLS" in note and OTHERWISE[tls] in note for note in notes)
    kinds = [type(step) for step in steps if isinstance(step, Send | StartTls)]
    assert kinds == [Send, Send, StartTls, Send, Send]
    inside = rehearse(converse(news_url("nntps://h/a.b/7"), Options(tls=tls), Limits()))
    assert sent_writes(inside) == [b"GROUP a.b\r\nARTICLE 7\r\n"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("news:a%0D%0Ab@h.example", "bad-message-id"),
        ("news:a%20b@h.example", "bad-message-id"),
        ("nntp://h/comp.misc%0D%0AQUIT/1", "bad-group"),
        ("news:" + "a" * 239 + "@h.example", "bad-message-id"),
        ("nntp://h/comp.misc/12345678901234567", "bad-article"),
        ("nntp://h/comp.misc/1-50", "bad-article"),
        ("nntp://h/a@b", "bad-group"),
        ("nntp://h/", "missing-path"),
    ],
)
def test_parse_invalid_url_raises(text: str, kind: str) -> None:
    with pytest.raises(InvalidUrl) as caught:
        parse(text)
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    "url",
    [
        NewsUrl(scheme="news", message_id=b"a\r\nQUIT@h"),
        NewsUrl(scheme="news", message_id=b"a\nb@h"),
        NewsUrl(scheme="news", message_id=b"a" * 500 + b"@h"),
        NewsUrl(scheme="news", group=b"a.*\r\nQUIT"),
        NntpUrl(scheme="nntp", host="h", group=b"a\r\nQUIT", article=1),
        NntpUrl(scheme="nntp", host="h", group=b"g" * 600),
    ],
)
def test_dialogue_with_line_end_in_argument_sends_nothing(url: NewsUrl | NntpUrl) -> None:
    """The command itself refuses line ends, even if the parser and the policy did not check the URL."""
    player = Player(converse(url, Options(), Limits()), ValueScript())
    with pytest.raises(Refused):
        player.play()
    assert sent_writes(player.steps) == []


async def test_admit_without_news_server_raises_not_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NNTPSERVER", raising=False)
    monkeypatch.setattr("resolver.policy.environment.SYSTEM_FILE", "/nonexistent/server")
    with pytest.raises(NotConfigured, match="--news-server"):
        Network(policy=Policy()).admit(parse("news:comp.misc"))


# -- a reused connection


def reused_state(group: bytes | None = None) -> NntpState:
    """Return the state of a connection after an earlier request."""
    state = NntpState(Limits(), greeted=True, reader=True, group=group)
    state.is_private = True
    return state


HELLO = b"200 ready\r\n"
ARTICLE = b"220 7 <m@x> article\r\nA: b\r\n\r\n.\r\n"
GONE = b"423 gone\r\n"


class Talk(Player[None]):
    """A player for a URL with scripted answers per connection, and the known states of reused connections."""

    def __init__(
        self,
        text: str,
        *connections: bytes,
        known: Iterable[NntpState | None] = (),
        options: Options | None = None,
    ) -> None:
        dialogue = converse(news_url(text), options or Options(), Limits())
        super().__init__(dialogue, OctetScript(*connections, known=known))

    @property
    def joins(self) -> list[JoinPipeline]:
        return [step for step in self.steps if isinstance(step, JoinPipeline)]

    @property
    def starts(self) -> int:
        return sum(isinstance(step, StartRequest) for step in self.steps)

    @property
    def kept(self) -> bool:
        """Return whether the last connection was read to the end of its response."""
        ends = [step for step in self.steps if isinstance(step, JoinPipeline | EndResponse)]
        return isinstance(ends[-1], EndResponse)


def test_reused_connection_expects_no_greeting() -> None:
    player = Talk("news:x@y", b"430 gone\r\n", known=[reused_state()])
    with pytest.raises(Declined):
        player.play()
    assert (player.sent, player.kept, player.starts) == ([b"ARTICLE <x@y>\r\n"], True, 1)


@pytest.mark.parametrize(
    ("selected", "commands"),
    [
        (b"a.b", b"ARTICLE 7\r\n"),
        (b"c.d", b"GROUP a.b\r\nARTICLE 7\r\n"),
        (None, b"GROUP a.b\r\nARTICLE 7\r\n"),
    ],
)
def test_article_in_selected_group_skips_group_command(selected: bytes | None, commands: bytes) -> None:
    answers = ARTICLE if b"GROUP" not in commands else b"211 1 7 7 a.b\r\n" + ARTICLE
    player = Talk("nntp://h/a.b/7", answers, known=[reused_state(selected)])
    player.play()
    assert (player.sent, player.kept) == ([commands], True)


def test_listing_on_reused_connection_repeats_group_command() -> None:
    player = Talk("nntp://h/a.b", b"211 0 0 0 a.b\r\n", known=[reused_state(b"a.b")])
    assert player.play().kind is Kind.GROUP
    assert player.sent == [b"GROUP a.b\r\n"]


@pytest.mark.parametrize("death", [b"", b"400 idle for too long\r\n"])
def test_dead_reused_connection_is_replaced_once(death: bytes) -> None:
    player = Talk("news:x@y", death, HELLO + b"430 gone\r\n", known=[reused_state(), None])
    with pytest.raises(Declined) as caught:
        player.play()
    assert caught.value.code == "430"
    assert [join.anew for join in player.joins] == [False, True]
    assert player.sent == [b"ARTICLE <x@y>\r\n"] * 2


@pytest.mark.parametrize(("death", "code"), [(b"", None), (b"400 no\r\n", "400")])
def test_dead_new_connection_is_not_replaced(death: bytes, code: str | None) -> None:
    player = Talk("news:x@y", b"", HELLO + death, known=[reused_state(), None])
    with pytest.raises(ResolveError) as caught:
        player.play()
    assert getattr(caught.value, "code", None) == code
    assert len(player.joins) == 2
    assert not player.kept


def test_reused_connection_lost_between_answers_is_replaced() -> None:
    player = Talk(
        "nntp://h/a.b/7",
        b"211 1 7 7 a.b\r\n",
        HELLO + b"211 1 7 7 a.b\r\n" + ARTICLE,
        known=[reused_state(), None],
    )
    player.play()
    assert [join.anew for join in player.joins] == [False, True]


def test_400_after_first_answer_is_declined() -> None:
    player = Talk("nntp://h/a.b/7", b"211 1 7 7 a.b\r\n400 going down\r\n", known=[reused_state()])
    with pytest.raises(Declined) as caught:
        player.play()
    assert (caught.value.code, len(player.joins)) == ("400", 1)


def test_reused_connection_lost_within_body_is_truncated() -> None:
    player = Talk("news:*", b"500 what?\r\n215 x\r\na.b 1 1 y\r\n.\r\n", known=[reused_state()])
    with pytest.raises(Truncated):
        player.play()
    assert len(player.joins) == 1


def test_refused_login_is_not_repeated_on_connection() -> None:
    state = reused_state()
    text = "nntp://u:p@h/a.b"
    with pytest.raises(ResolveError):
        Talk(text, b"480 in\r\n381 p\r\n481 no\r\n", known=[state]).play()
    player = Talk(text, b"480 in\r\n", known=[state])
    with pytest.raises(Declined) as caught:
        player.play()
    assert type(caught.value).__name__ == "AccessDenied"
    assert player.sent == [b"GROUP a.b\r\n"]


def test_login_repeats_group_selection() -> None:
    state = reused_state(b"a.b")
    answers = b"480 in\r\n281 in\r\n211 1 7 7 a.b\r\n" + ARTICLE
    player = Talk("nntp://u:p@h/a.b/7", answers, known=[state])
    player.play()
    assert player.sent == [b"ARTICLE 7\r\n", b"AUTHINFO USER u\r\n", b"GROUP a.b\r\nARTICLE 7\r\n"]


def test_facts_of_pattern_count_matching_groups() -> None:
    answers = HELLO + b"215 list\r\na.b 1 1 y\r\nc.d 1 1 y\r\n.\r\n"
    reply = Talk("news://h/a.*", answers, options=Options(want="facts")).play()
    assert (reply.kind, reply.extra) == (Kind.DIRECTORY, {"pattern": "a.*", "count": 1})


@pytest.mark.parametrize(
    ("most", "command"),
    [
        (None, b"OVER 40001-50000\r\n"),
        (0, b"OVER 1-50000\r\n"),
        (30, b"OVER 49971-50000\r\n"),
        (50_000, b"OVER 1-50000\r\n"),
    ],
)
def test_listing_limit_sets_overview_range(most: int | None, command: bytes) -> None:
    answers = HELLO + b"211 9 1 50000 a.b\r\n224 x\r\n.\r\n"
    player = Talk("nntp://h/a.b", answers, options=Options(entries=most))
    found = player.play()
    assert player.sent[-1] == command
    assert found.extra is not None
    assert found.extra["cut"] == (b"-50000" in command and not command.startswith(b"OVER 1-"))


@pytest.mark.parametrize(
    ("most", "before", "command", "cut"),
    [
        (None, 40_001, b"OVER 30001-40000\r\n", True),
        (30, 31, b"OVER 1-30\r\n", False),
        (30, 32, b"OVER 2-31\r\n", True),
        (0, 7, b"OVER 1-6\r\n", False),
        (30, 99_999, b"OVER 49971-50000\r\n", True),
        (30, 1, b"GROUP a.b\r\n", False),
    ],
)
def test_listing_before_number_sets_overview_range(
    most: int | None, before: int, command: bytes, cut: bool
) -> None:
    """Below the first number of the group the client sends no OVER."""
    answers = HELLO + b"211 9 1 50000 a.b\r\n"
    answers += b"224 x\r\n.\r\n" if command.startswith(b"OVER") else b""
    player = Talk("nntp://h/a.b", answers, options=Options(entries=most, before=before))
    found = player.play()
    assert player.sent[-1] == command
    assert found.extra is not None
    assert found.extra["cut"] is cut


def test_listing_before_number_without_overview_requests_heads() -> None:
    numbers = b"".join(b"%d\r\n" % number for number in range(1, 10))
    answers = HELLO + b"211 9 1 9 a.b\r\n500 ?\r\n500 ?\r\n211 numbers\r\n" + numbers + b".\r\n"
    answers += b"221 1 <m@x> head\r\nSubject: x\r\n.\r\n" * 2
    player = Talk("nntp://h/a.b", answers, options=Options(entries=2, before=6))
    player.play()
    assert player.sent[-1] == b"HEAD 4\r\nHEAD 5\r\n"


def test_head_requests_are_sent_in_windows() -> None:
    count = WINDOW + 2
    numbers = b"".join(b"%d\r\n" % number for number in range(1, count + 1))
    player = Talk(
        "nntp://h/a.b",
        HELLO
        + b"211 %d 1 %d a.b\r\n500 ?\r\n500 ?\r\n211 numbers\r\n%s.\r\n" % (count, count, numbers)
        + b"221 1 <m@x> head\r\nSubject: x\r\n.\r\n" * count,
    )
    player.play()
    heads = [write for write in player.sent if write.startswith(b"HEAD")]
    assert [write.count(b"\r\n") for write in heads] == [WINDOW, 2]
    assert max(map(len, heads)) <= 4096


# -- pipelined requests on one connection


@pytest.mark.parametrize(
    ("selected", "outstanding", "certain"),
    [
        (b"a.b", [], True),
        (None, [], False),
        (b"c.d", [], False),
        (b"a.b", [NntpCommand(NntpVerb.ARTICLE, b"1")], True),
        (b"a.b", [NntpCommand(NntpVerb.GROUP, b"a.b"), NntpCommand(NntpVerb.ARTICLE, b"1")], True),
        (b"a.b", [NntpCommand(NntpVerb.GROUP, b"c.d"), NntpCommand(NntpVerb.ARTICLE, b"1")], False),
        (b"a.b", [NntpCommand(NntpVerb.LISTGROUP, b"c.d")], False),
        # GROUP may fail, and then another group is selected
        (None, [NntpCommand(NntpVerb.GROUP, b"a.b")], False),
    ],
)
def test_selects_returns_whether_group_is_certain(
    selected: bytes | None, outstanding: list[NntpCommand], certain: bool
) -> None:
    state = reused_state(selected)
    state.record_sent(tuple(outstanding))
    assert state.selects(b"a.b") is certain


def test_state_has_room_until_window_is_full() -> None:
    state = reused_state()
    for _ in range(WINDOW - 1):
        state.outstanding.append(NntpCommand(NntpVerb.ARTICLE, b"1"))
    assert state.has_room
    state.outstanding.append(NntpCommand(NntpVerb.ARTICLE, b"1"))
    assert not state.has_room


@pytest.mark.parametrize(("name", "value"), [("greeted", False), ("request_ended", False), ("closing", True)])
def test_state_not_ready_has_no_room(name: str, value: bool) -> None:
    state = reused_state()
    setattr(state, name, value)
    assert not state.has_room


def test_pipelined_requests_after_480_are_sent_again() -> None:
    """Both send their commands again, in order: the first 480 also discards the second request's answers."""
    state = reused_state()
    buffer = state.buffer
    first, second = (
        Player(converse(news_url(f"nntp://u:p@h/{group}/7"), Options(), Limits()), Shared(state))
        for group in ("a.b", "c.d")
    )
    assert until(first, Send) == b"GROUP a.b\r\nARTICLE 7\r\n"
    assert state.has_room
    assert until(second, Send) == b"GROUP c.d\r\nARTICLE 7\r\n"
    buffer.feed(b"480 in\r\n480 in\r\n211 1 7 7 c.d\r\n220 7 <m@y> article\r\nA: b\r\n\r\n.\r\n")
    assert until(first, Send) == b"AUTHINFO USER u\r\n"
    assert (len(buffer), len(state.outstanding), state.has_room) == (0, 1, False)
    buffer.feed(b"281 in\r\n")
    assert until(first, Send) == b"GROUP a.b\r\nARTICLE 7\r\n"
    assert until(second, Send) == b"GROUP c.d\r\nARTICLE 7\r\n"
    for player, octets in ((first, b"211 1 7 7 a.b\r\n" + ARTICLE), (second, b"411 no\r\n423 gone\r\n")):
        buffer.feed(octets)
        assert until(player, EndResponse) == b""
    with pytest.raises(Declined):
        second.play()
    assert (len(state.outstanding), state.group) == (0, b"a.b")


class Shared(ScriptedPeer):
    """A connection shared with other requests. The test puts the received bytes into its buffer."""

    def __init__(self, state: NntpState) -> None:
        self._state = state

    def connect(self, step: Opening) -> JoinedPipeline:
        return JoinedPipeline(self._state, self.address)

    def hear(self, octets: bytes) -> None:
        """Ignore the bytes; the test compares the steps."""


def until(player: Player[None], kind: type) -> bytes:
    """Perform the steps up to the first step of `kind`; return the bytes that it sends."""
    step = player.advance(kind)
    return b"".join(line.octets for line in step.lines) if isinstance(step, Send) else b""


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("192.0.2.1", False),
        ("::ffff:192.0.2.1", False),
        ("fe80::127.0.0.1", False),
        (None, False),
    ],
)
def test_is_loopback_recognizes_local_addresses(peer: str | None, expected: bool) -> None:
    assert is_loopback(peer) is expected


# The facts of a reply besides the body.

QUIT = TranscriptTurn("C", b"QUIT\r\n")
FACTS_ARTICLE = (
    b"From: J\xfcrgen <j@example.test>\r\nSubject: =?iso-8859-1?q?Gr=FC=DFe?=\r\nsubject: again\r\n"
    b"Date: Mon, 06 Jan 2025 10:00:24 +0000\r\nContent-Type: text/plain; charset=iso-8859-1\r\n"
    b"Message-ID: <m@x>\r\nReferences: <a@x>\r\n <b@x>\r\n\r\ncaf\xe9\r\n"
)
META = (
    ("From", "Jürgen <j@example.test>"),
    ("Subject", "Grüße"),
    ("subject", "again"),
    ("Date", "Mon, 06 Jan 2025 10:00:24 +0000"),
    ("Content-Type", "text/plain; charset=iso-8859-1"),
    ("Message-ID", "<m@x>"),
    ("References", "<a@x> <b@x>"),
)


def script(client: bytes, server: bytes) -> Connection:
    return Connection(
        (TranscriptTurn("S", HELLO), TranscriptTurn("C", client), TranscriptTurn("S", server), QUIT), "left"
    )


#: URL, commands, status line, then message-id, group and number if they are known.
ARTICLES: list[tuple[str, bytes, bytes, str | None, str | None, int | None]] = [
    ("nntp://h/a.b/7", b"GROUP a.b\r\nARTICLE 7\r\n", b"220 7 <m@x> article", "m@x", "a.b", 7),
    ("news:m@x", b"ARTICLE <m@x>\r\n", b"220 0 <m@x> article", "m@x", None, None),
    ("news:m@x", b"ARTICLE <m@x>\r\n", b"220 9 <m@x> article", "m@x", None, None),
    ("nntp://h/a.b/7", b"GROUP a.b\r\nARTICLE 7\r\n", b"220 7 <0> article", "m@x", "a.b", 7),
    ("nntp://h/a.b/7", b"GROUP a.b\r\nARTICLE 7\r\n", b"220", "m@x", "a.b", 7),
]


@pytest.mark.parametrize("cutter", CUTTERS, ids=lambda cutter: cutter.__name__)
@pytest.mark.parametrize(("url", "said", "status", "message_id", "group", "number"), ARTICLES)
async def test_article_reply_has_facts(
    url: str,
    said: bytes,
    status: bytes,
    message_id: str | None,
    group: str | None,
    number: int | None,
    cutter: Cutter,
) -> None:
    selected = b"211 1 7 7 a.b\r\n" if b"GROUP" in said else b""
    gate = NewsGate([script(said, selected + status + b"\r\n" + FACTS_ARTICLE + b".\r\n")], cutter)
    async with open_url(news_url(url), gate) as reply:
        assert (reply.kind, reply.media_type, reply.charset) == (Kind.ARTICLE, "message/rfc822", "iso-8859-1")
        assert (reply.size, reply.modified) == (None, datetime(2025, 1, 6, 10, 0, 24, tzinfo=UTC))
        assert reply.meta == META
        assert reply.extra is not None
        fields = reply.extra["fields"]
        assert [reply.extra[name] for name in ("message_id", "group", "number")] == [
            message_id,
            group,
            number,
        ]
        assert isinstance(fields, list)
        assert fields[0] == ["From", "J\xfcrgen <j@example.test>"]
        assert fields[6] == ["References", "<a@x> <b@x>"]
        assert (reply.verified, reply.listing, reply.findings) == (set(), None, [])
        assert b"".join([octets async for octets in reply.body]) == FACTS_ARTICLE
        assert reply.verified == {"terminator"}
    gate.check_finished()


GROUPS: list[tuple[bytes, int | None, dict[str, JsonValue]]] = [
    (b"211 3 1 9 a.b", None, {"count": 3, "low": 1, "high": 9, "first": 1, "cut": False}),
    (b"211 3 1 9 a.b", 2, {"count": 3, "low": 1, "high": 9, "first": 8, "cut": True}),
    (b"211 0 5 4 a.b", None, {"count": 0, "low": 5, "high": 4, "first": None, "cut": False}),
]


@pytest.mark.parametrize(("status", "entries", "extra"), GROUPS)
@pytest.mark.parametrize("want", ["content", "facts"])
async def test_group_reply_has_facts(
    status: bytes, entries: int | None, extra: dict[str, JsonValue], want: str
) -> None:
    turns = [
        TranscriptTurn("S", HELLO),
        TranscriptTurn("C", b"GROUP a.b\r\n"),
        TranscriptTurn("S", status + b"\r\n"),
    ]
    if want == "content" and extra["first"] is not None:
        turns += [
            TranscriptTurn("C", f"OVER {extra['first']}-9\r\n".encode()),
            TranscriptTurn("S", b"224 x\r\n.\r\n"),
        ]
    options = Options(want=want, entries=entries)  # type: ignore[arg-type]
    gate = NewsGate([Connection((*turns, QUIT), "left")], options=options)
    async with open_url(news_url("nntp://h/a.b"), gate) as reply:
        assert reply.kind is Kind.GROUP
        assert reply.extra == {"name": "a.b", **extra}
        assert [finding.rule for finding in reply.findings] == (["nntp:cut"] if extra["cut"] else [])
        assert [octets async for octets in reply.body] == []
    gate.check_finished()


async def test_body_line_over_limit_is_accepted() -> None:
    """The line limit applies to status lines, headers and listings, not to bodies."""
    article = b"A: b\r\n\r\n" + b"x" * 300 + b"\r\n"
    gate = NewsGate(
        [script(b"ARTICLE <m@x>\r\n", b"220 0 <m@x>\r\n" + article + b".\r\n")], limits=Limits(line=100)
    )
    async with open_url(news_url("news:m@x"), gate) as reply:
        assert b"".join([octets async for octets in reply.body]) == article


@pytest.mark.parametrize(
    "answer", [b"220 0 <m@x> " + b"x" * 100, b"220 0 <m@x>\r\nA: " + b"x" * 100 + b"\r\n\r\n.\r\n"]
)
async def test_status_or_head_line_over_limit_raises(answer: bytes) -> None:
    turns = (
        TranscriptTurn("S", HELLO),
        TranscriptTurn("C", b"ARTICLE <m@x>\r\n"),
        TranscriptTurn("S", answer),
    )
    gate = NewsGate([Connection(turns, "left")], limits=Limits(line=100))
    with pytest.raises(LimitExceeded):
        async with open_url(news_url("news:m@x"), gate):
            raise AssertionError("opened")
    gate.check_finished()
