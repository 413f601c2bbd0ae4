"""Tests of Gopher requests: the bytes sent for each row of the table, and refused requests."""

from __future__ import annotations

import pytest

from fixtures.transcript import transcripts
from protocols.gopher import GOPHER, GOPHERS
from protocols.gopher.request import (
    GopherPlusCommand,
    RequestedView,
    command_in,
    encode_request,
    parse_command,
)
from protocols.gopher.url import with_gopherplus, with_search, with_view
from resolver import GopherUrl, Refused
from resolver.testing import DialogueTranscript
from tests.protocols.typed_url import parse_as

FORM = b"+\t1\r\n+-1\r\none\r\n\r\n.two\r\n.\r\n"


def gopher(text: str) -> GopherUrl:
    return parse_as(GopherUrl, text)


@pytest.mark.parametrize(
    "transcript",
    [each for each in transcripts("gopher") if len(each.connections) == 1],
    ids=lambda each: each.name,
)
def test_encode_request_matches_every_transcript(transcript: DialogueTranscript) -> None:
    line = encode_request(gopher(transcript.url))
    assert line.octets == line.shown == transcript.connections[0].said_by("C")


COMMANDS: list[tuple[bytes | None, GopherPlusCommand]] = [
    (None, GopherPlusCommand("plain")),
    (b"", GopherPlusCommand("plain")),
    (b"+", GopherPlusCommand("item")),
    (b"+Text/plain En_US", GopherPlusCommand("item", view=b"Text/plain En_US")),
    (b"!", GopherPlusCommand("attributes")),
    (b"!+ABSTRACT", GopherPlusCommand("attributes", names=(b"ABSTRACT",))),
    (b"!+ABSTRACT +SMELL", GopherPlusCommand("attributes", names=(b"ABSTRACT", b"SMELL"))),
    (b"$", GopherPlusCommand("directory")),
    (b"$+VIEWS+ADMIN", GopherPlusCommand("directory", names=(b"VIEWS", b"ADMIN"))),
    (b"?", GopherPlusCommand("form")),
    (b"?x", GopherPlusCommand("other")),
    (b"hello", GopherPlusCommand("other")),
    (FORM, GopherPlusCommand("item", answers=(b"one", b"", b".two"))),
    (b"+\t1\r\n+-1\r\n.\r\n", GopherPlusCommand("item", answers=())),
    (
        b"+a b\t1\r\n+-1\r\na\tb\r\n.\r\n",
        GopherPlusCommand("item", view=b"a b", answers=(b"a\tb",)),
    ),
]


@pytest.mark.parametrize(("gopherplus", "command"), COMMANDS)
def test_parse_command_of_gopherplus(gopherplus: bytes | None, command: GopherPlusCommand) -> None:
    assert parse_command(gopherplus) == command


#: Gopher+ strings that must not be sent; each differs from a form in one detail.
UNSENDABLE: list[bytes] = [
    b"\r\n",
    b"+\r\n",
    b"+\0",
    b"+\t0",
    b"+\t1",
    b"+\t1\r\n",
    b"+\t1\r\n+-1\r\n",
    b"+\t1\r\n+-1\r\none\r\n",
    b"+\t1\r\n+-1\r\none\r\n.",
    b"+\t1\r\n+-1\r\none\r\n.\n",
    b"+\t1\r\n+-1\r\none\r\n.\r\n\r\n",
    b"+\t1\r\n+-1\r\none\r\n.\r\ntwo\r\n.\r\n",
    b"+\t1\r\n+-1\r\no\0ne\r\n.\r\n",
    b"+\t1\r\n+-1\r\no\rne\r\n.\r\n",
    b"+\t1\r\n+-1\r\no\nne\r\n.\r\n",
    b"+\t1\r\n+-2\r\none\r\n.\r\n",
    b"+\t1\r\n+5\r\none\r\n.\r\n",
    b"+\t2\r\n+-1\r\none\r\n.\r\n",
    b"+\t1\t\r\n+-1\r\none\r\n.\r\n",
    b"+a\x01b\t1\r\n+-1\r\none\r\n.\r\n",
    b"!\t1\r\n+-1\r\none\r\n.\r\n",
    b"\t1\r\n+-1\r\none\r\n.\r\n",
    b"+\t1\n+-1\none\n.\n",
]


@pytest.mark.parametrize("gopherplus", UNSENDABLE)
def test_encode_request_refuses_malformed_form(gopherplus: bytes) -> None:
    with pytest.raises(Refused) as caught:
        encode_request(with_gopherplus(gopher("gopher://h/0x"), gopherplus))
    assert caught.value.rule == "S03"


@pytest.mark.parametrize("octet", [b"\0", b"\t", b"\r", b"\n"])
@pytest.mark.parametrize(
    "path", ["0a{}b", "0a%09b{}c", "7a%09{}%09+", "0{}%09%09" + "+%091%0D%0A+-1%0D%0A.%0D%0A"]
)
def test_encode_request_refuses_delimiters_in_fields(path: str, octet: bytes) -> None:
    escape = f"%{octet[0]:02X}"
    url = gopher("gopher://h/" + path.format("!!"))
    selector, search = (
        None if field is None else field.replace(b"!!", octet) for field in (url.selector, url.search)
    )
    hostile = GopherUrl(
        scheme="gopher",
        host="h",
        gophertype=url.gophertype,
        selector=selector or b"",
        search=search,
        gopherplus=url.gopherplus,
    )
    with pytest.raises(Refused) as caught:
        encode_request(hostile)
    assert caught.value.rule == "S02"
    assert escape[1:] in caught.value.message


def test_encode_request_line_length_is_limited() -> None:
    assert len(encode_request(gopher("gopher://h/0" + "x" * 4096)).octets) == 4096 + 2
    with pytest.raises(Refused) as caught:
        encode_request(gopher("gopher://h/0" + "x" * 4097))
    assert caught.value.rule == "S02"


def test_encode_request_form_lines_do_not_count_toward_limit() -> None:
    url = with_gopherplus(gopher("gopher://h/0x"), b"+\t1\r\n+-1\r\n" + b"y" * 5000 + b"\r\n.\r\n")
    assert encode_request(url).octets == b"x\t+\t1\r\n+-1\r\n" + b"y" * 5000 + b"\r\n.\r\n"


@pytest.mark.parametrize(
    ("path", "ask"),
    [
        ("0x", "plain"),
        ("0x%09word", "plain"),
        ("0x%09+", "item"),
        ("7x%09!+ABSTRACT", "attributes"),
        ("7x%09$", "directory"),
        ("7x%09?", "plain"),
        ("7x%09+a%09", "item"),
        ("7x%09!%09+", "item"),
    ],
)
def test_command_in_url_decides_framed_reading(path: str, ask: RequestedView) -> None:
    assert command_in(gopher("gopher://h/" + path)).requested is ask


def test_refinements_build_urls() -> None:
    url = gopher("gopher://h/7find#fragment")
    assert GOPHER.build(with_search(url, "zwei wörter+")) == "gopher://h/7find%09zwei%20w%C3%B6rter+#fragment"
    assert (
        GOPHER.build(with_view(url, "Text/plain De_DE"))
        == "gopher://h/7find%09%09+Text/plain%20De_DE#fragment"
    )
    assert encode_request(with_view(with_search(url, "a"), "")).octets == b"find\ta\t+\r\n"
    assert dict(GOPHER.refine) == dict(GOPHERS.refine) == {"search": with_search, "view": with_view}


def test_scheme_definitions_have_tls_and_port() -> None:
    assert (GOPHER.name, GOPHER.tls, GOPHERS.name, GOPHERS.tls) == ("gopher", "never", "gophers", "always")
    assert GOPHER.default_port == GOPHERS.default_port == 70
