"""The facts of a reply: what is known beside the body."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from protocols.contract import JsonValue
from resolver import Kind, LimitExceeded, Limits, Options
from resolver.testing import CUTTERS, Cutter
from resolver.testing.transcript import Connection, TranscriptTurn
from tests.protocols.news.memory import NewsGate, news_url
from tests.protocols.opening import open_url

HELLO = b"200 ready\r\n"
QUIT = TranscriptTurn("C", b"QUIT\r\n")
ARTICLE = (
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


#: URL, what is said, the status line, then message-id, group and number as far as they are known.
ARTICLES: list[tuple[str, bytes, bytes, str | None, str | None, int | None]] = [
    ("nntp://h/a.b/7", b"GROUP a.b\r\nARTICLE 7\r\n", b"220 7 <m@x> article", "m@x", "a.b", 7),
    ("news:m@x", b"ARTICLE <m@x>\r\n", b"220 0 <m@x> article", "m@x", None, None),
    ("news:m@x", b"ARTICLE <m@x>\r\n", b"220 9 <m@x> article", "m@x", None, None),
    ("nntp://h/a.b/7", b"GROUP a.b\r\nARTICLE 7\r\n", b"220 7 <0> article", "m@x", "a.b", 7),
    ("nntp://h/a.b/7", b"GROUP a.b\r\nARTICLE 7\r\n", b"220", "m@x", "a.b", 7),
]


@pytest.mark.parametrize("cutter", CUTTERS, ids=lambda cutter: cutter.__name__)
@pytest.mark.parametrize(("url", "said", "status", "message_id", "group", "number"), ARTICLES)
async def test_an_article(
    url: str,
    said: bytes,
    status: bytes,
    message_id: str | None,
    group: str | None,
    number: int | None,
    cutter: Cutter,
) -> None:
    selected = b"211 1 7 7 a.b\r\n" if b"GROUP" in said else b""
    gate = NewsGate([script(said, selected + status + b"\r\n" + ARTICLE + b".\r\n")], cutter)
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
        assert b"".join([octets async for octets in reply.body]) == ARTICLE
        assert reply.verified == {"terminator"}
    gate.check_finished()


GROUPS: list[tuple[bytes, int | None, dict[str, JsonValue]]] = [
    (b"211 3 1 9 a.b", None, {"count": 3, "low": 1, "high": 9, "first": 1, "cut": False}),
    (b"211 3 1 9 a.b", 2, {"count": 3, "low": 1, "high": 9, "first": 8, "cut": True}),
    (b"211 0 5 4 a.b", None, {"count": 0, "low": 5, "high": 4, "first": None, "cut": False}),
]


@pytest.mark.parametrize(("status", "entries", "extra"), GROUPS)
@pytest.mark.parametrize("want", ["content", "facts"])
async def test_a_group(status: bytes, entries: int | None, extra: dict[str, JsonValue], want: str) -> None:
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


async def test_a_body_beyond_no_limit() -> None:
    """The limits of a line are for status lines, headers and listings: a body may have longer ones."""
    article = b"A: b\r\n\r\n" + b"x" * 300 + b"\r\n"
    gate = NewsGate(
        [script(b"ARTICLE <m@x>\r\n", b"220 0 <m@x>\r\n" + article + b".\r\n")], limits=Limits(line=100)
    )
    async with open_url(news_url("news:m@x"), gate) as reply:
        assert b"".join([octets async for octets in reply.body]) == article


@pytest.mark.parametrize(
    "answer", [b"220 0 <m@x> " + b"x" * 100, b"220 0 <m@x>\r\nA: " + b"x" * 100 + b"\r\n\r\n.\r\n"]
)
async def test_lines_beyond_their_limit(answer: bytes) -> None:
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
