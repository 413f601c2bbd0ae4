"""Targets out of URLs and tokens, and the requests about them (protocol page 1, 6 and 8.5)."""

from __future__ import annotations

import pytest

from protocols.prospero.message import request_attributes, request_listing
from protocols.prospero.objects import (
    ObjectPointer,
    RequestObject,
    ServerAddress,
    parse_place,
    parse_pointer,
    pointer_to,
    read_version,
    target_of,
)
from resolver import Declined, InvalidUrl, ProsperoUrl, Refused, parse


def target(text: str) -> RequestObject:
    url = parse(text)
    assert isinstance(url, ProsperoUrl)
    return target_of(url)


HEAD = b"VERSION 5 url-resolver\nAUTHENTICATE '' UNAUTHENTICATED anonymous\n"
#: A URL, and its GET-OBJECT-INFO behind the attribute names.
ASKED: list[tuple[str, bytes]] = [
    ("prospero://h/AFTP/pub/x", b"ASCII AFTP'/pub/x' 0\n"),
    ("prospero://h//pub/x", b"ASCII '/pub/x' 0\n"),
    ("prospero://h/", b"ASCII '' 0\n"),
    ("prospero://h//a/./../b//c", b"ASCII '/a/./../b//c' 0\n"),  # opaque: nothing is normalised
    ("prospero://h/it's%20%28a%29", b"ASCII it'''s (a)' 0\n"),
    ("prospero://h/ARCHIE/MATCH(50,0,=)/x", b"ASCII ARCHIE'/MATCH(50,0,=)/x' 0\n"),
    ("prospero://h/a%3Bb?c=d", b"ASCII a;b?c=d 0\n"),
    ("prospero://h/%FF%E4", b"ASCII \xff\xe4 0\n"),
    ("prospero://h/x;OBJECT-VERSION=3", b"ASCII x 3\n"),
    ("prospero://h/x;version=07", b"ASCII x 7\n"),
    ("prospero://h/x;OBJECT-VERSION=;VERSION=4", b"ASCII x 0\n"),  # of a repeated field the first counts
    ("prospero://h/x;OBJECT-VERSION=2;VERSION=4;object-version=9", b"ASCII x 2\n"),
    ("prospero://h/x;OBJECT-VERSION=0", b"ASCII x 0\n"),
    ("prospero://h/x;HSONAME-TYPE=BINARY%20X", b"BINARY' X' x 0\n"),
    ("prospero://h/x;hsoname-type=", b"ASCII x 0\n"),
    ("prospero://h/x;HOST-TYPE=internet-d", b"ASCII x 0\n"),
    ("prospero://h/x;HOST-TYPE", b"ASCII x 0\n"),
    ("prospero://h/x;ID=%20A%20%09B%0B", b"ASCII x 0\nSELECT OBJECT FIELD ID SEQUENCE A B'\x0b'\n"),
    ("prospero://h/x;ID=REMOTE%204711", b"ASCII x 0\nSELECT OBJECT FIELD ID SEQUENCE REMOTE 4711\n"),
    (
        "prospero://h/x;id=A%201;id=B%202",
        b"ASCII x 0\nSELECT OBJECT FIELD ID SEQUENCE A 1\nSELECT OBJECT FIELD ID SEQUENCE B 2\n",
    ),
    (
        "prospero://h/x;Colour=dark%20blue",
        b"ASCII x 0\nSELECT OBJECT FIELD COLOUR SEQUENCE dark' blue'\n",
    ),
    ("prospero://h/x;a'b%20c=", b"ASCII x 0\nSELECT OBJECT FIELD A'''B C' SEQUENCE ''\n"),
    (
        "prospero://h/x;c=1;C=2;d=",
        b"ASCII x 0\nSELECT OBJECT FIELD C SEQUENCE 1\nSELECT OBJECT FIELD D SEQUENCE ''\n",
    ),
    ("prospero://h/x;;=y;z", b"ASCII x 0\n"),  # without a name or a value a field says nothing
    ("prospero://h/a/VERSION%201", b"ASCII a'/VERSIO'N' 1' 0\n"),
    ("prospero://h/VERSION;VERSION=1", b"ASCII 'VERSION' 1\n"),
]


@pytest.mark.parametrize(("url", "asked"), ASKED)
def test_what_is_asked_for_a_url(url: str, asked: bytes) -> None:
    message = request_attributes(target(url), b"ACCESS-METHOD").octets
    assert message == HEAD + b"GET-OBJECT-INFO ACCESS-METHOD " + asked
    assert b"VERSION 1" not in message


def test_a_listing_is_asked_for_with_what_narrows_behind_the_directory() -> None:
    asked = target("prospero://h//d;ID=REMOTE%209")
    assert request_listing(asked).octets == HEAD + (
        b"DIRECTORY ASCII '/d' 0\nSELECT OBJECT FIELD ID SEQUENCE REMOTE 9\nLIST ATTRIBUTES COMPONENTS\n"
    )


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("prospero://h/x;HOST-TYPE=X25", "HOST-TYPE"),
        ("prospero://h/x;host-type=", "HOST-TYPE"),
        ("prospero://h/x;OBJECT-VERSION=new", "OBJECT-VERSION"),
        ("prospero://h/x;OBJECT-VERSION=-1", "OBJECT-VERSION"),
        ("prospero://h/x;OBJECT-VERSION=12345678901", "OBJECT-VERSION"),
    ],
)
def test_a_url_that_nothing_can_be_asked_for_is_declined(url: str, code: str) -> None:
    with pytest.raises(Declined) as raised:
        target(url)
    assert raised.value.code == code


@pytest.mark.parametrize("name", ["a%00b", "a%0Ab", "a%0Db"])
@pytest.mark.parametrize("where", ["{}", "x;HSONAME-TYPE={}", "x;ID=A%20{}", "x;{}=1", "x;C={}"])
def test_octets_that_would_end_a_command_are_never_written(name: str, where: str) -> None:
    """The second fence of rule S02: the policy refuses them before."""
    with pytest.raises(Refused) as raised:
        request_attributes(target(f"prospero://h/{where.format(name)}"), b"ACCESS-METHOD")
    assert raised.value.rule == "S02"


#: A host token, and what it says.
PLACES: list[tuple[bytes, ServerAddress]] = [
    (b"Archive.Example.ORG(1570)", ServerAddress("archive.example.org", 1570)),
    (b"192.0.2.1", ServerAddress("192.0.2.1")),
    (b"::1(80)", ServerAddress("::1", 80)),
    (b"h(00080)", ServerAddress("h", 80)),
]


@pytest.mark.parametrize(("token", "place"), PLACES)
def test_a_host_token_is_read(token: bytes, place: ServerAddress) -> None:
    assert parse_place(token) == place


@pytest.mark.parametrize("token", [b"", b"(80)", b"h()", b"h(80", b"h(80)x", b"h(x)", b"h(800000)", b"(h)"])
def test_what_names_no_host_is_none(token: bytes) -> None:
    with pytest.raises(InvalidUrl):
        parse_place(token)


#: Tokens from the host type on, and the URL they come to (8.5).
POINTERS: list[tuple[tuple[bytes, ...], str]] = [
    ((b"INTERNET-D", b"H.Example", b"ASCII", b"x", b"0"), "prospero://h.example/x"),
    ((b"INTERNET-D", b"h(1525)", b"ASCII", b"/x", b"0"), "prospero://h//x"),
    ((b"internet-d", b"h(1570)", b"ASCII", b"x"), "prospero://h:1570/x"),
    ((b"INTERNET-D", b"h", b"ASCII", b"x", b"12"), "prospero://h/x;OBJECT-VERSION=12"),
    ((b"INTERNET-D", b"h", b"BINARY", b"x", b"z", b"more"), "prospero://h/x;HSONAME-TYPE=BINARY"),
    ((b"INTERNET-D", b"h", b"B;C", b"x", b"1"), "prospero://h/x;OBJECT-VERSION=1;HSONAME-TYPE=B%3BC"),
    (
        (b"INTERNET-D", b"h", b"ASCII", b"a/b;c%d e'f\"=?:@&~\xff"),
        "prospero://h/a/b%3Bc%25d%20e%27f%22=?:@&%7E%FF",
    ),
]


@pytest.mark.parametrize(("tokens", "url"), POINTERS)
def test_a_pointer_has_a_url(tokens: tuple[bytes, ...], url: str) -> None:
    pointer = parse_pointer(tokens)
    assert pointer is not None
    built = pointer.target(via=RequestObject("asked", 1525, b"")).url
    assert built == url
    assert target(built).hsoname == pointer.hsoname
    assert not parse(built).findings


@pytest.mark.parametrize(
    "pointer",
    [
        ObjectPointer(b"VIRTUAL-SYSTEM", b"h", b"ASCII", b"x"),
        ObjectPointer(b"INTERNET-D", b"h(0)", b"ASCII", b"x"),
        ObjectPointer(b"INTERNET-D", b"h(70000)", b"ASCII", b"x"),
        ObjectPointer(b"INTERNET-D", b"a/b", b"ASCII", b"x"),
        ObjectPointer(b"INTERNET-D", b"a@b", b"ASCII", b"x"),
        ObjectPointer(b"INTERNET-D", b"1.2.3", b"ASCII", b"x"),
        ObjectPointer(b"INTERNET-D", b"h", b"ASCII", b"a\0b"),
        ObjectPointer(b"INTERNET-D", b"h", b"ASCII", b"a\nb"),
        ObjectPointer(b"INTERNET-D", b"h", b"A\rB", b"x"),
    ],
)
def test_a_pointer_to_what_no_url_names_is_unusable(pointer: ObjectPointer) -> None:
    with pytest.raises(InvalidUrl):
        pointer.target(via=RequestObject("asked", 1525, b""))


def test_too_few_tokens_point_nowhere() -> None:
    assert parse_pointer((b"INTERNET-D", b"h", b"ASCII")) is None


@pytest.mark.parametrize(("port", "token"), [(1525, b"h"), (1570, b"h(1570)")])
def test_the_object_asked_for_fills_the_gaps(port: int, token: bytes) -> None:
    assert pointer_to(RequestObject("h", port, b"x", b"T", 3)) == ObjectPointer(
        b"INTERNET-D", token, b"T", b"x", 3
    )


@pytest.mark.parametrize(
    ("token", "version"), [(b"7", 7), (b"", 0), (b"x", 0), (b"99999999999", 0), (b"-1", 0)]
)
def test_a_version_in_a_reply_is_a_number_or_the_current_one(token: bytes, version: int) -> None:
    assert read_version(token) == version
