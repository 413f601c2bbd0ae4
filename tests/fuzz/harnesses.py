"""Fuzz harnesses: each harness passes arbitrary bytes to one parser, and checks the result.

A parser may return a value, or raise a `ResolveError` or an error from its docstring. Each other exception is
a defect, and so is a failed assertion. If the same bytes in other chunks give another result, this is a
defect too.

In the input for a protocol exchange, the first two bytes select the URL and the chunk size. All other bytes
are sent by the server.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeAlias

from fixtures import recordings
from fixtures.transcript import transcripts
from protocols.contract import Line, Options
from protocols.errors import ResolveError
from protocols.http.codings import ALWAYS
from protocols.http.cookies import BadLine, format_line, parse_cookie_date, parse_line, read_lines
from protocols.http.digest import parse_challenges
from protocols.http.index.html import MarkupReader
from protocols.http.index.structured import ElementReader, ObjectReader
from protocols.http.proxy_server import ProxyConnection
from protocols.http.response import parse_date, parse_suggested_name
from protocols.http.url import HttpUrl
from protocols.location import EntryReader, Finding
from protocols.news.attachments import NewsPost
from protocols.news.url import NewsUrl
from protocols.options import Limits
from protocols.prospero.ardp import ArdpExchange, RetransmitTiming
from protocols.prospero.message import read_reply
from protocols.socks import read_methods, read_request
from protocols.wais.source_description import parse_source_description
from protocols.wire import run_reader
from resolver import parse
from resolver.terminal.screen import TerminalOutput
from resolver.terminal.text import TerminalText
from resolver.transfer.extras import find_codings, find_frames
from resolver.trees.lists import BadItem, BrokenList, MetalinkReader, parse_sum
from resolver.url.extraction import extract
from resolver.warc.check import ArchiveCheck
from resolver.web.pages.sanitizer import allowed_markup
from tests.fuzz.peer import LIMITS, NEXT, SWITCH, cut, run
from tests.protocols.telnet.runs import run_terminal
from tests.resolver.warc.archives import Octets, packed, record

Feed: TypeAlias = "Callable[[bytes], None]"
Url = tuple[str, Options]


class Harness(NamedTuple):
    """A fuzz harness: a function that passes arbitrary bytes to a parser, and a seed corpus."""

    feed: Feed
    seeds: Callable[[], Iterator[bytes]]


# Harnesses of protocol exchanges: a server responds to the requests for a URL with arbitrary bytes.

URLS: Mapping[str, tuple[Url, ...]] = {
    "ftp": (
        ("ftp://h/x", Options()),
        ("ftp://h/d/x;type=a", Options()),
        ("ftp://h/d/", Options()),
        ("ftp://h/d/", Options(nlst=True)),
        ("ftp://h/d/x", Options(start=3)),
        ("ftp://h/d/x", Options(want="facts")),
        ("ftps://h/x", Options()),
    ),
    "http": (
        ("http://h/x", Options()),
        ("http://h/d/", Options(want="listing")),
        ("https://h/x", Options(start=3)),
        ("http://h/x", Options(want="facts")),
        ("http://h/x", Options(want="file", codings=find_codings)),
    ),
    "gopher": (
        ("gopher://h/0x", Options()),
        ("gopher://h/1x", Options()),
        ("gopher://h/9x", Options()),
        ("gopher://h/7x%09word", Options()),
        ("gopher://h/0x%09%09+", Options()),
        ("gopher://h/1x%09%09$", Options()),
        ("gopher://h/0x%09%09!", Options()),
    ),
    "nntp": (
        ("nntp://h/group/12", Options()),
        ("nntp://h/group", Options()),
        ("nntp://h/group", Options(entries=10)),
        ("news://h/*", Options()),
        ("nntps://h/group/12", Options()),
    ),
    "wais": (
        ("wais://h/d", Options()),
        ("wais://h/d?word", Options()),
        ("wais://h/d/TEXT/9/2=x;", Options()),
    ),
}
SIZES = (0, 1, 2, 7, 64)


def exchange(scheme: str, octets: bytes) -> None:
    """Run a protocol exchange twice, with different chunk sizes; both outcomes must be equal.

    For FTP, the errors of both runs may differ. An early FTP reply is an error only if it arrives before its
    command is sent, and this depends on the chunks.
    """
    row, size = (*octets[:2], 0, 0)[:2]
    text, options = URLS[scheme][row % len(URLS[scheme])]
    url = parse(text)
    whole = run(url, options, octets[2:], 0)
    parts = run(url, options, octets[2:], SIZES[size % len(SIZES)])
    assert parts == whole or (scheme == "ftp" and (parts.error or whole.error)), (
        "the split makes a difference"
    )
    for kind, target, _ in whole.entries:
        assert target is None or kind == "link" or parse(target)


def http2(octets: bytes) -> None:
    run(parse("https://h/x"), Options(http2=find_frames()), octets, 0, "h2")


def seeds_of(scheme: str) -> Iterator[bytes]:
    """Yield the server's bytes from each test transcript of a scheme, as seeds."""
    for transcript in transcripts(scheme):
        scripts = []
        for connection in transcript.connections:
            data, script = False, b""
            for turn in connection.turns:
                if turn.speaker in "SD":
                    script += SWITCH * (data != (turn.speaker == "D")) + turn.octets
                    data = turn.speaker == "D"
            scripts.append(script)
        yield b"\0\0" + NEXT.join(scripts)


# Harnesses of parsers for bytes from a server.


def index(kind: type[MarkupReader | ObjectReader | ElementReader], octets: bytes) -> None:
    """Parse an index page twice, with different chunk sizes; both runs must return the same entries."""

    def entries(size: int) -> object:
        url = parse("http://h/d/")
        assert isinstance(url, HttpUrl)
        findings: list[Finding] = []
        reader: EntryReader = kind(url, LIMITS, findings)
        try:
            found = [entry for chunk in cut(octets[1:], size) for entry in reader.feed(chunk)]
            found += reader.finish()
        except ResolveError as error:
            return type(error)
        assert all(entry.url is None or parse(entry.url) for entry in found)
        return [(entry.url, entry.name, entry.kind, entry.extra) for entry in found]

    assert entries(0) == entries(1 + sum(octets[:1]) % 9), "the split makes a difference"


def index_seeds(media_type: bytes) -> Iterator[bytes]:
    for path in sorted((recordings.FOLDER / "listings").glob("*.json")):
        for exchange in json.loads(path.read_text())["exchanges"]:
            head, _, body = bytes.fromhex(exchange["hex"]).partition(b"\r\n\r\n")
            if exchange["dir"] == "server" and media_type in head:
                yield b"\0" + body[:8_000]


def http_fields(octets: bytes) -> None:
    text = octets.decode("latin-1")
    parse_challenges([text])
    parse_suggested_name(text)
    parse_date(text)
    parse_cookie_date(text)


def codings(octets: bytes) -> None:
    """Decode a content coding (gzip and others) in chunks; the size of a decoder step is limited.

    The first byte of the input selects the content coding. For 1,000 requested bytes, the decoders of `br`
    and `zstd` return complete blocks, which have at most 2 MiB.
    """
    known = sorted({**ALWAYS, **find_codings()}.items())
    name, make = known[sum(octets[:1]) % len(known)]
    decoder, most = make(), 1_000 if name in ALWAYS else 2 << 20
    with suppress(ResolveError):
        for chunk in cut(octets[1:], 50):
            decoder.feed(chunk)
            steps = 0
            while piece := decoder.read(1_000):
                assert len(piece) <= most
                if (steps := steps + 1) > 5_000:
                    return


def proxy_request(octets: bytes) -> None:
    with suppress(ResolveError):
        run_reader(ProxyConnection().read_request, octets)


def socks(octets: bytes) -> None:
    for reader in (read_methods, read_request):
        with suppress(ResolveError):
            run_reader(reader, octets)


def article(octets: bytes) -> None:
    url = parse("news:1@example.com")
    assert isinstance(url, NewsUrl)
    with suppress(ResolveError):
        for attachment in NewsPost(url, octets, Limits()).read_attachments():
            assert attachment.part is None or attachment.part.number >= 1


def telnet(octets: bytes) -> None:
    at = sum(octets[:1])
    assert run_terminal([octets[1:]]) == run_terminal([octets[1:][:at], octets[1:][at:]])


def terminal(octets: bytes) -> None:
    """Escape a server's bytes for the terminal; only permitted escape sequences may remain."""
    at = sum(octets[:1])
    whole, halves = TerminalOutput(), TerminalOutput()
    shown = whole.show_data(octets[1:], binary=False)
    parts = [halves.show_data(part, binary=False) for part in (octets[1:][:at], octets[1:][at:])]
    assert b"".join(parts) == shown, "the split makes a difference"
    text = TerminalText()
    plain = text.feed(octets) + text.finish()
    assert not any(ord(character) < 32 and character not in "\t\n" for character in plain), repr(plain)


def prospero(octets: bytes) -> None:
    with suppress(ResolveError):
        run_reader(lambda buffer: read_reply(octets, LIMITS))


def ardp(octets: bytes) -> None:
    """Receive ARDP datagrams (Prospero) of arbitrary bytes; `\\xfe\\xfe` separates datagrams of the input."""
    exchange = ArdpExchange(
        Line(b"VERSION 5\n", b""),
        1,
        ("192.0.2.1",),
        patience=60.0,
        max_size=20_000,
        timing=RetransmitTiming(),
    )
    with suppress(ResolveError):
        exchange.begin(0.0)
        for number, datagram in enumerate(octets.split(b"\xfe\xfe")):
            if exchange.complete:
                break
            exchange.take(datagram[:1] + b"\0\1" + datagram[1:], "192.0.2.1", number / 10)
    if exchange.complete:
        assert sum(map(len, exchange.pieces)) <= 20_000


def source_description(octets: bytes) -> None:
    with suppress(ResolveError):
        parse_source_description(octets)


def markup(octets: bytes) -> None:
    """Sanitize a document twice; the second pass must not change the document (idempotence)."""
    text = octets[1:].decode("utf-8", "replace")
    clean = allowed_markup(text, is_xml=bool(sum(octets[:1]) % 2))
    lower = clean.lower()
    assert "<script" not in lower
    assert "<iframe" not in lower


# Harnesses of parsers for bytes from the user or from a local file.


def url(octets: bytes) -> None:
    """Parse a URL, and parse its text again; both URLs must be equal (round trip)."""
    text = octets.decode("utf-8", "replace")
    for strict in (False, True):
        with suppress(ResolveError):
            parsed = parse(text, strict=strict)
            assert parse(str(parsed)) == parse(str(parse(str(parsed))))
    for found in extract(text):
        assert set(found.url) <= set(text)


def cookies(octets: bytes) -> None:
    """Read a cookie file; writing a cookie must give the line that was read (round trip)."""
    for number, line in read_lines(octets):
        with suppress(BadLine):
            if (cookie := parse_line(line, number, None)) is not None:
                assert parse_line(format_line(cookie), number, None) == cookie


def lists(octets: bytes) -> None:
    reader = MetalinkReader()
    with suppress(BrokenList):
        for chunk in cut(octets, 100):
            list(reader.feed(chunk))
        list(reader.finish())
    for line in octets.decode("latin-1").split("\n"):
        with suppress(BadItem):
            parse_sum(line)


def warc(octets: bytes) -> None:
    check = ArchiveCheck()
    with suppress(ResolveError):
        list(check.read(Octets(octets), "x.warc"))
    list(check.end())


def of(*seeds: bytes) -> Callable[[], Iterator[bytes]]:
    return lambda: iter(seeds)


_ARTICLE = b"From: a@example.com\r\nSubject: a (1/2)\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
_PART = (
    b'--b\r\nContent-Disposition: attachment; filename="x"\r\nContent-Transfer-Encoding: base64\r\n\r\n'
    b"YQ==\r\n--b--\r\n"
)
_YENC = (
    b"\r\n=ybegin part=1 total=2 line=128 size=5 name=x\r\n=ypart begin=1 end=3\r\n*+,\r\n"
    b"=yend size=3 part=1 pcrc32=0854897f\r\n"
)
_META = (
    b'<metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="a"><size>5</size>'
    b'<hash type="sha-256">00</hash><url>http://h/a</url></file></metalink>'
)

HARNESSES: Mapping[str, Harness] = {
    **{scheme: Harness(partial(exchange, scheme), partial(seeds_of, scheme)) for scheme in URLS},
    "http2": Harness(
        http2, of(bytes.fromhex("000000040000000000000001010400000001888000000500010000000168656c6c6f"))
    ),
    "index-html": Harness(partial(index, MarkupReader), partial(index_seeds, b"text/html")),
    "index-json": Harness(partial(index, ObjectReader), partial(index_seeds, b"application/json")),
    "index-xml": Harness(partial(index, ElementReader), partial(index_seeds, b"text/xml")),
    "http-fields": Harness(
        http_fields,
        of(
            b'Digest realm="a", nonce="b", qop="auth,auth-int", algorithm=SHA-256, Basic realm=x',
            b'attachment; filename*=UTF-8\'\'%e2%82%ac.txt; filename="x\\"y"',
            b"Sun, 06 Nov 1994 08:49:37 GMT",
            b"Sunday, 06-Nov-94 08:49:37 GMT",
        ),
    ),
    "codings": Harness(codings, of(b"\1\x1f\x8b\x08", b"\2\x78\x9c\xcb\x48\xcd\xc9\xc9\x07\x00")),
    "proxy-request": Harness(
        proxy_request,
        of(b"CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n", b"GET http://h/x HTTP/1.1\r\nHost: h\r\n\r\n"),
    ),
    "socks": Harness(socks, of(b"\5\1\0", b"\5\1\0\3\1h\0\x50", b"\5\1\0\4" + bytes(16) + b"\1\xbb")),
    "article": Harness(
        article, of(_ARTICLE + _PART, _ARTICLE.replace(b"multipart/mixed", b"text/plain") + _YENC)
    ),
    "telnet": Harness(telnet, of(b"\3\xff\xfd\x18\xff\xfa\x18\x01\xff\xf0login: \r\0\r\n\xff\xff")),
    "terminal": Harness(terminal, of(b"\3\x1b[1mbold\x1b[0m\x1b]0;title\x07\x9b2J\xc2\x9b\r\n")),
    "prospero": Harness(
        prospero, of(b"LINK L FILE paper INTERNET-D h ASCII /x 0 0\nATTRIBUTE O INTRINSIC SIZE SEQUENCE 5\n")
    ),
    "ardp": Harness(
        ardp, of(b"\x09\0\1\0\1\0\0hello", b"\x0d\0\0\0\1\0\1\0\0\0\5\0\2a\xfe\xfe\x07\0\2\0\2b")
    ),
    "source-description": Harness(
        source_description,
        of(
            b'(:source :version 3 :ip-address "192.0.2.1" :tcp-port 210 :database-name "d" :maintainer "\\"")'
        ),
    ),
    "markup": Harness(
        markup, of(b'\0<p onclick="x">a<script>b</script><img src=//h/x><a href="javascript:c">d</a>')
    ),
    "url": Harness(
        url,
        of(
            b"ftp://me:p%40ss@h.example:21/%2Fd/x;type=a",
            b"gopher://h/7x%09word%09+",
            b"prospero://h//x;version=1",
            b"wais://h/d/t/9/2=x;",
            b"see <URL:http://[::1%25lo]:8080/?q#f>, mailto:a@example.com, news:1@h",
        ),
    ),
    "cookies": Harness(
        cookies, of(b"#HttpOnly_.h.example\tTRUE\t/\tTRUE\t1900000000\tname\tvalue\n# comment\n")
    ),
    "lists": Harness(lists, of(_META, b"SHA256 (a) = " + b"0" * 64 + b"\n\\" + b"0" * 64 + b"  a\\nb\n")),
    "warc": Harness(
        warc, of(record(), packed(record(), record(b"x", WARC_Type="revisit")), record(length="7"))
    ),
}
