"""The groups and articles of the news server, with every irregularity that INN stores and sends.

Articles are fed by IHAVE (RFC 3977 6.3.2), as between news servers, because only IHAVE stores the bytes
unchanged.
The server prepends its name to the header Path and adds the header Xref. All other bytes are unchanged.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from io import BufferedRWPair

from fixtures.nntp.attachments import list_posts
from tests.servers.service import LOOPBACK

#: Name, highest and lowest number, posting (active(5)); the next article is the highest plus one.
GROUPS = (
    ("control", 0, 1, "n"),
    ("control.cancel", 0, 1, "n"),
    ("junk", 0, 1, "n"),
    ("private.notes", 0, 1, "y"),
    ("test.c++", 0, 1, "y"),
    ("test.empty", 3999, 4000, "y"),
    ("test.files", 0, 1, "y"),
    ("test.other", 499, 500, "m"),
    ("test.prose", 0, 1, "y"),
)
DESCRIPTIONS = {
    "private.notes": "For those who log in.",
    "test.empty": "Nobody writes here.",
    "test.other": "Numbers from 500.",
    "test.prose": "Déjà vu — in UTF-8.",
}

_UTF8 = b"MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n"
_MIXED = b'MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="=-="\r\n'
_PARTS = b"\r\n".join(
    [
        b"preamble",
        b"--=-=",
        b"",
        b"the text part",
        b".a line with a dot",
        b"--=-=",
        b"Content-Type: application/octet-stream",
        b"Content-Transfer-Encoding: base64",
        b"",
        b"AAECAwQ=",
        b"--=-=--",
        b"",
    ]
)


@dataclass(frozen=True)
class Article:
    """An article: `fields` are additional header lines, each with CR LF; `title` is the decoded subject."""

    message_id: str
    body: bytes
    groups: str = "test.prose"
    subject: bytes = b"A subject"
    fields: bytes = b""
    title: str = "A subject"

    @property
    def head(self) -> list[bytes]:
        """Return the header lines that the server sends unchanged."""
        lines = [
            b"From: A Person <person@example.test>",
            b"Newsgroups: " + self.groups.encode(),
            b"Subject: " + self.subject,
            b"Message-ID: <" + self.message_id.encode() + b">",
            b"Date: Mon, 06 Jan 2025 10:00:00 +0000",
        ]
        return [*lines, *self.fields.split(b"\r\n")[:-1]]

    @property
    def octets(self) -> bytes:
        lines = [b"Path: feeder.example.test!not-for-mail", *self.head, b"", self.body]
        return b"\r\n".join(lines)


#: The articles in test.prose, by number.
PROSE = {
    1: Article("plain@example.test", b"Hello, world.\r\n"),
    2: Article("dots@example.test", b".\r\n..\r\n.one\r\n..two\r\nmid . dle\r\n. \r\nlast\r\n.\r\n"),
    3: Article(
        "lone-lf@example.test", b"before\n.\n220 0 <smuggled@example.test>\n\nno article\n.\nafter\r\n"
    ),
    4: Article("lf-dot-crlf@example.test", b"before\n.\r\n430 no such article\n.\r\nafter\r\n"),
    5: Article("cr-dot-cr@example.test", b"before\r.\r\rnot the end\r\r\n.\r\r\nafter\r\n"),
    6: Article(
        "utf-8@example.test",
        "Grüße — 日本語\r\n".encode(),
        subject="Raw: Grüße".encode(),
        fields=_UTF8,
        title="Raw: Grüße",
    ),
    7: Article("latin-1@example.test", b"caf\xe9 \xff\xfe\r\n", subject=b"caf\xe9", title="café"),
    8: Article(
        "words@example.test",
        b"",
        subject=b"=?utf-8?B?R3LDvMOfZQ==?= =?iso-8859-1?Q?_caf=E9?=",
        fields=b"References: <plain@example.test>\r\n <dots@example.test>\r\n",
        title="Grüße café",
    ),
    9: Article("mixed@example.test", _PARTS, fields=_MIXED),
    10: Article(
        "crossposted@example.test",
        b"in both\r\n",
        groups="test.prose,test.other",
        fields=b"Approved: moderator@example.test\r\n",
    ),
    11: Article("odd!#$%&'*+-/=?^_`{|}~@[127.0.0.1]", b"odd\r\n"),
    12: Article("long@example.test", b"x" * 20_000 + b"\r\n" + b".a line\r\n" * 30_000 + b"\r\n\r\n"),
    13: Article("gone@example.test", b"cancelled\r\n"),
    14: Article("last@example.test", b"\r\n\r\nthe last\r\n"),
}
GONE = 13
#: The articles with attachments in test.files, in order of their numbers.
FILES = tuple(
    Article(post.message_id, post.body, "test.files", post.subject, post.fields) for post in list_posts()
)
HIDDEN = Article("hidden@example.test", b"for some\r\n", groups="private.notes")
_OTHERS = (
    HIDDEN,
    Article("plus@example.test", b"a plus is no space\r\n", groups="test.c++"),
    Article("cancel@example.test", b"cancel\r\n", fields=b"Control: cancel <gone@example.test>\r\n"),
)


def feed(port: int, patience: float) -> None:
    """Feed all articles to the server.

    Raises `RuntimeError` if the server does not accept an article.
    """
    take(port, (*PROSE.values(), *_OTHERS, *FILES), patience)


def take(port: int, articles: Iterable[Article], patience: float) -> None:
    """Feed these articles to the server."""
    with (
        socket.create_connection((LOOPBACK, port), patience) as connection,
        connection.makefile("rwb") as stream,
    ):
        _expect(stream, b"200")
        for article in articles:
            _say(stream, b"IHAVE <%s>\r\n" % article.message_id.encode())
            _expect(stream, b"335")
            _say(stream, re.sub(rb"(\A|\r\n)\.", rb"\1..", article.octets) + b".\r\n")
            _expect(stream, b"235")
        _say(stream, b"QUIT\r\n")
        _expect(stream, b"205")


def _say(stream: BufferedRWPair, octets: bytes) -> None:
    stream.write(octets)
    stream.flush()


def _expect(stream: BufferedRWPair, code: bytes) -> None:
    if not (answer := stream.readline()).startswith(code):
        raise RuntimeError(f"{code!r} was expected, and the news server said {answer!r}")
