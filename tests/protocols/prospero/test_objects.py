"""Request targets, requests, attributes and quoting (protocol page 1, 5, 6, 7 and 8.5)."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from protocols.prospero.message import request_contents, request_links
from protocols.prospero.objects import (
    MAX_TOKENS,
    Attribute,
    ObjectPointer,
    RequestObject,
    ServerAddress,
    describe,
    find_first_word,
    list_values,
    make_target,
    parse_attribute,
    parse_place,
    parse_pointer,
    pointer_to,
    quote,
    read_lines,
    read_modified,
    read_size,
    read_version,
)
from resolver import Declined, InvalidUrl, LimitExceeded, ProsperoUrl, ProtocolError, Refused, parse
from tests.protocols.typed_url import parse_as


def target(text: str) -> RequestObject:
    url = parse_as(ProsperoUrl, text)
    return make_target(url)


HEAD = b"VERSION 5 url-resolver\nAUTHENTICATE '' UNAUTHENTICATED anonymous\n"
#: A URL, and its GET-OBJECT-INFO after the attribute names.
ASKED: list[tuple[str, bytes]] = [
    ("prospero://h/AFTP/pub/x", b"ASCII AFTP'/pub/x' 0\n"),
    ("prospero://h//pub/x", b"ASCII '/pub/x' 0\n"),
    ("prospero://h/", b"ASCII '' 0\n"),
    ("prospero://h//a/./../b//c", b"ASCII '/a/./../b//c' 0\n"),  # opaque: the path is not normalized
    ("prospero://h/it's%20%28a%29", b"ASCII it'''s (a)' 0\n"),
    ("prospero://h/ARCHIE/MATCH(50,0,=)/x", b"ASCII ARCHIE'/MATCH(50,0,=)/x' 0\n"),
    ("prospero://h/a%3Bb?c=d", b"ASCII a;b?c=d 0\n"),
    ("prospero://h/%FF%E4", b"ASCII \xff\xe4 0\n"),
    ("prospero://h/x;OBJECT-VERSION=3", b"ASCII x 3\n"),
    ("prospero://h/x;version=07", b"ASCII x 7\n"),
    ("prospero://h/x;OBJECT-VERSION=;VERSION=4", b"ASCII x 0\n"),  # the first of repeated fields counts
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
        "prospero://h/x;Color=dark%20blue",
        b"ASCII x 0\nSELECT OBJECT FIELD COLOR SEQUENCE dark' blue'\n",
    ),
    ("prospero://h/x;a'b%20c=", b"ASCII x 0\nSELECT OBJECT FIELD A'''B C' SEQUENCE ''\n"),
    (
        "prospero://h/x;c=1;C=2;d=",
        b"ASCII x 0\nSELECT OBJECT FIELD C SEQUENCE 1\nSELECT OBJECT FIELD D SEQUENCE ''\n",
    ),
    ("prospero://h/x;;=y;z", b"ASCII x 0\n"),  # a field without a name or a value is ignored
    ("prospero://h/a/VERSION%201", b"ASCII a'/VERSIO'N' 1' 0\n"),
    ("prospero://h/VERSION;VERSION=1", b"ASCII 'VERSION' 1\n"),
]


@pytest.mark.parametrize(("url", "asked"), ASKED)
def test_request_contents_encodes_url(url: str, asked: bytes) -> None:
    message = request_contents(target(url)).message.octets
    assert message == HEAD + b"GET-OBJECT-INFO CONTENTS " + asked
    assert b"VERSION 1" not in message


def test_request_links_puts_select_after_directory() -> None:
    asked = target("prospero://h//d;ID=REMOTE%209")
    assert request_links(asked).message.octets == HEAD + (
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
def test_target_of_unsupported_field_is_declined(url: str, code: str) -> None:
    with pytest.raises(Declined) as raised:
        target(url)
    assert raised.value.code == code


@pytest.mark.parametrize("name", ["a%00b", "a%0Ab", "a%0Db"])
@pytest.mark.parametrize("where", ["{}", "x;HSONAME-TYPE={}", "x;ID=A%20{}", "x;{}=1", "x;C={}"])
def test_request_with_line_end_is_refused(name: str, where: str) -> None:
    """The second check of rule S02: the policy refuses these bytes first."""
    with pytest.raises(Refused) as raised:
        request_contents(target(f"prospero://h/{where.format(name)}"))
    assert raised.value.rule == "S02"


#: A host token and the parsed address.
PLACES: list[tuple[bytes, ServerAddress]] = [
    (b"Archive.Example.ORG(1570)", ServerAddress("archive.example.org", 1570)),
    (b"192.0.2.1", ServerAddress("192.0.2.1")),
    (b"::1(80)", ServerAddress("::1", 80)),
    (b"h(00080)", ServerAddress("h", 80)),
]


@pytest.mark.parametrize(("token", "place"), PLACES)
def test_parse_place_reads_host_token(token: bytes, place: ServerAddress) -> None:
    assert parse_place(token) == place


@pytest.mark.parametrize("token", [b"", b"(80)", b"h()", b"h(80", b"h(80)x", b"h(x)", b"h(800000)", b"(h)"])
def test_parse_place_of_invalid_token_raises(token: bytes) -> None:
    with pytest.raises(InvalidUrl):
        parse_place(token)


#: Tokens from the host type on, and their URL (8.5).
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
def test_pointer_target_has_url(tokens: tuple[bytes, ...], url: str) -> None:
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
def test_pointer_target_of_invalid_host_raises(pointer: ObjectPointer) -> None:
    with pytest.raises(InvalidUrl):
        pointer.target(via=RequestObject("asked", 1525, b""))


def test_parse_pointer_with_missing_tokens_returns_none() -> None:
    assert parse_pointer((b"INTERNET-D", b"h", b"ASCII")) is None


@pytest.mark.parametrize(("port", "token"), [(1525, b"h"), (1570, b"h(1570)")])
def test_pointer_to_has_tokens_of_object(port: int, token: bytes) -> None:
    assert pointer_to(RequestObject("h", port, b"x", b"T", 3)) == ObjectPointer(
        b"INTERNET-D", token, b"T", b"x", 3
    )


@pytest.mark.parametrize(
    ("token", "version"), [(b"7", 7), (b"", 0), (b"x", 0), (b"99999999999", 0), (b"-1", 0)]
)
def test_read_version_defaults_to_current(token: bytes, version: int) -> None:
    assert read_version(token) == version


# Attributes: types, precedence of repeated attributes, and values with a meaning (page 7.2, 7.3).


def read(line: bytes) -> Attribute | None:
    return parse_attribute(tuple(line.split()))


#: The tokens after ATTRIBUTE; the type of the value and its tokens, None for an invalid line.
TYPES: list[tuple[bytes, tuple[bytes, tuple[bytes, ...]] | None]] = [
    (b"CACHED FIELD ACCESS-METHOD AFTP x", (b"SEQUENCE", (b"AFTP", b"x"))),
    (b"LINK FIELD ID SEQUENCE REMOTE 99", (b"SEQUENCE", (b"REMOTE", b"99"))),
    (b"LINK FIELD ID ASCII REMOTE 99", (b"ASCII", (b"REMOTE", b"99"))),
    (b"LINK FIELD OWNER LINK x", (b"SEQUENCE", (b"LINK", b"x"))),  # not the known type of this field
    (b"LINK FIELD CLOSURE LINK L F n T h A x 0", (b"LINK", (b"L", b"F", b"n", b"T", b"h", b"A", b"x", b"0"))),
    (b"LINK FIELD CLOSURE LINK L F", (b"SEQUENCE", (b"LINK", b"L", b"F"))),  # too few tokens for a link
    (b"LINK FIELD FORWARDING-POINTER LINK 1 2 3 4 5 6 7", (b"LINK", tuple(b"%d" % i for i in range(1, 8)))),
    (
        b"LINK FIELD FILTER FILTER DIRECTORY CLIENT POST X",
        (b"FILTER", (b"DIRECTORY", b"CLIENT", b"POST", b"X")),
    ),
    (b"LINK FIELD FILTER FILTER DIRECTORY", (b"SEQUENCE", (b"FILTER", b"DIRECTORY"))),
    (b"LINK FIELD FILTER LINK 1 2 3 4 5 6 7 8", (b"SEQUENCE", (b"LINK", *(b"%d" % i for i in range(1, 9))))),
    (b"LINK FIELD EMPTY", (b"SEQUENCE", ())),
    (b"OBJECT INTRINSIC SIZE SEQUENCE 9", (b"SEQUENCE", (b"9",))),
    (b"OBJECT APPLICATION EMPTY SEQUENCE", (b"SEQUENCE", ())),
    (b"LINK APPLICATION RELATED LINK L x", (b"LINK", (b"L", b"x"))),
    (b"OBJECT INTRINSIC SIZE 9", None),
    (b"OBJECT INTRINSIC SIZE", None),
    (b"OBJECT FIELD", None),
    (b"", None),
]


@pytest.mark.parametrize(("line", "read_as"), TYPES)
def test_attribute_type_defaults_by_field(
    line: bytes, read_as: tuple[bytes, tuple[bytes, ...]] | None
) -> None:
    attribute = read(line)
    assert (attribute and (attribute.value_type, attribute.values)) == read_as


def attributes_of(*lines: bytes) -> list[Attribute]:
    found = [read(line) for line in lines]
    assert None not in found
    return [attribute for attribute in found if attribute is not None]


#: The kinds of a link's attributes, and the values that count.
COUNTING: list[tuple[list[bytes], list[bytes]]] = [
    ([b"CACHED", b"CACHED"], [b"0", b"1"]),
    ([b"CACHED", b"OBJECT", b"OBJECT"], [b"1", b"2"]),
    ([b"OBJECT", b"REPLACEMENT"], [b"1"]),
    ([b"ADDITIONAL", b"OBJECT"], [b"1", b"0"]),
    ([b"ADDITIONAL", b"CACHED"], [b"1", b"0"]),
    ([b"LINK", b"OBJECT"], [b"1"]),
    ([b"LINK"], []),
]


@pytest.mark.parametrize(("kinds", "expected"), COUNTING)
def test_values_of_selects_by_attribute_kind(kinds: list[bytes], expected: list[bytes]) -> None:
    attributes = attributes_of(
        *(b"%s FIELD N SEQUENCE %d" % (kind, index) for index, kind in enumerate(kinds))
    )
    assert [values[0] for values in list_values(attributes, b"N")] == expected
    assert list_values(attributes, b"M") == []


@pytest.mark.parametrize(
    ("values", "size"),
    [
        ((b"1234 bytes",), 1234),
        ((b"1 byte",), 1),
        ((b"1234",), 1234),
        ((b"1234", b"bytes"), 1234),
        ((b"0 Bytes",), 0),
        ((b"12 pages",), None),
        ((b"-1 bytes",), None),
        ((b"9" * 16 + b" bytes",), None),
        ((b"\xb2 bytes",), None),
        ((), None),
    ],
)
def test_read_size_parses_bytes(values: tuple[bytes, ...], size: int | None) -> None:
    assert read_size([Attribute(b"OBJECT", b"SIZE", b"SEQUENCE", values)]) == size


@pytest.mark.parametrize(
    ("values", "moment"),
    [
        ((b"19940301120000Z",), datetime(1994, 3, 1, 12, tzinfo=UTC)),
        ((b"20000229235959Z",), datetime(2000, 2, 29, 23, 59, 59, tzinfo=UTC)),
        ((b"19940301120000",), None),
        ((b"19941301120000Z",), None),
        ((b"00000000000000Z",), None),
        ((b"19940301", b"120000Z"), None),
        ((b"1994030112000 Z",), None),
        ((), None),
    ],
)
def test_read_modified_parses_utc_time(values: tuple[bytes, ...], moment: datetime | None) -> None:
    assert read_modified([Attribute(b"OBJECT", b"LAST-MODIFIED", b"SEQUENCE", values)]) == moment


def test_read_size_skips_invalid_value() -> None:
    attributes = attributes_of(b"OBJECT INTRINSIC SIZE SEQUENCE x", b"OBJECT INTRINSIC SIZE SEQUENCE 5")
    assert read_size(attributes) == 5


def test_describe_omits_access_methods_and_contents() -> None:
    attributes = attributes_of(
        b"OBJECT INTRINSIC SIZE SEQUENCE 9 bytes",
        b"OBJECT FIELD ACCESS-METHOD AFTP",
        b"OBJECT INTRINSIC CONTENTS SEQUENCE DATA x",
        b"LINK APPLICATION RELATED LINK L x",
        b"OBJECT APPLICATION KEYWORDS SEQUENCE gr\xfcn",
    )
    assert list(describe(attributes)) == [("SIZE", "9 bytes"), ("KEYWORDS", "grün")]
    assert find_first_word(attributes, b"NONE", b"SIZE") == b"9"
    assert find_first_word(attributes, b"NONE") is None


# Lines, tokens and quotes (protocol page, section 5).

#: A value and its quoted form: the first five are in recordings of the reference server.
WRITTEN: list[tuple[bytes, bytes]] = [
    (b"/pub/x", b"'/pub/x'"),
    (b"AFTP/pub/x", b"AFTP'/pub/x'"),
    (b"15 bytes", b"15' bytes'"),
    (b"it's a file", b"it'''s a file'"),
    (b"", b"''"),
    (b"plain.txt", b"plain.txt"),
    (b"'", b"''''"),
    (b"''", b"''''''"),
    (b"a+b", b"a'+b'"),
    (b"a,b", b"a',b'"),
    (b"a\tb", b"a'\tb'"),
    (b"a\x0bb\x0c", b"a'\x0bb\x0c'"),
    (b"\xff(1,=)", b"\xff(1',=)'"),
    # Servers that support old clients search the complete packet for the text VERSION 1 (6.1).
    (b"VERSION 1", b"VERSION' 1'"),
    (b"x/VERSION 1", b"x'/VERSIO'N' 1'"),
    (b"a b/VERSION 1/VERSION 1", b"a' b/VERSIO'N' 1/VERSIO'N' 1'"),
    (b"VERSION", b"'VERSION'"),
    (b"OBJECT-VERSION", b"'OBJECT-VERSION'"),
]


@pytest.mark.parametrize(("token", "written"), WRITTEN)
def test_quote_round_trips_without_version_1(token: bytes, written: bytes) -> None:
    assert quote(token) == written
    assert [words.tokens for words in read_lines(b"KEY " + written + b"\n")] == [(b"KEY", token)]
    assert b"VERSION 1" not in b"ASCII " + written + b" 1\n"


def test_quote_of_nul_is_refused() -> None:
    with pytest.raises(Refused, match="byte 00") as raised:
        quote(b"a\0")
    assert raised.value.rule == "S02"


#: A text and its lines.
READ: list[tuple[bytes, list[list[bytes]]]] = [
    (b"", []),
    (b"\n\n  \n", []),
    (b"A b\n", [[b"A", b"b"]]),
    (b"A  b \t c \n", [[b"A", b"b", b"c"]]),
    (b"A b", [[b"A", b"b"]]),  # the last line end may be missing
    (b"A\rB\r\nC\n\rD", [[b"A"], [b"B"], [b"C"], [b"D"]]),
    (b"A 'a b'c\n", [[b"A", b"a bc"]]),
    (b"A a' 'bc\n", [[b"A", b"a bc"]]),
    (b"A 'a bc'\n", [[b"A", b"a bc"]]),
    (b"A a' b'c\n", [[b"A", b"a bc"]]),
    (b"A '' ''''\n", [[b"A", b"", b"'"]]),
    (b"A a''b\n", [[b"A", b"ab"]]),
    (b"A 'x\ny\r\0\xff' z\n", [[b"A", b"x\ny\r\0\xff", b"z"]]),
    (b"A\n\n\nB '\n'\n", [[b"A"], [b"B", b"\n"]]),
    (b"A\0b\n", [[b"A\0b"]]),
    (b"A\x0bb\n", [[b"A\x0bb"]]),
]


@pytest.mark.parametrize(("text", "lines"), READ)
def test_read_lines_splits_tokens(text: bytes, lines: list[list[bytes]]) -> None:
    assert [list(words.tokens) for words in read_lines(text)] == lines


@pytest.mark.parametrize("count", [1, 511, 512, 513, 1024, 1025, 70_000])
def test_read_lines_with_many_quotes_succeeds(count: int) -> None:
    """A file in a single token has two quotes for each of its own."""
    bare = quote(b"'" * count) + b"a' \n'" * count
    lines = [words.tokens for words in read_lines(b"A 'b' " + bare + b" c\nD " + bare + b"\nE")]
    token = b"'" * count + b"a \n" * count
    assert lines == [(b"A", b"b", token, b"c"), (b"D", token), (b"E",)]
    with pytest.raises(ProtocolError, match="inside quotes"):
        list(read_lines(b"A " + bare + b"'"))


def test_read_lines_keeps_raw_line() -> None:
    text = b"LINK  L 'a\nb' \r\n\n  X y"
    assert [words.raw for words in read_lines(text)] == [b"LINK  L 'a\nb' ", b"X y"]


@pytest.mark.parametrize("text", [b"'", b"A 'b\n", b"A b'c'd'\n", b"A ''''' \n"])
def test_read_lines_with_open_quote_raises(text: bytes) -> None:
    with pytest.raises(ProtocolError, match="inside quotes"):
        list(read_lines(text))


def test_read_lines_yields_lines_before_open_quote() -> None:
    reading = read_lines(b"A b\nC 'd")
    assert next(reading).tokens == (b"A", b"b")
    with pytest.raises(ProtocolError):
        next(reading)


def test_read_lines_over_token_limit_raises() -> None:
    fits = b"A " * MAX_TOKENS
    assert [len(words.tokens) for words in read_lines(fits + b"\n" + fits)] == [MAX_TOKENS] * 2
    with pytest.raises(LimitExceeded, match="tokens"):
        list(read_lines(fits + b"A"))


def test_quote_and_read_lines_round_trip() -> None:
    """Tokens may contain any bytes except NUL; the quoted text never contains VERSION 1 (6.1)."""
    chance = random.Random(3)
    pieces = [b"'", b" ", b"\n", b"/", b"VERSION 1", b"VERSION", b"1", b"a", b"\xff", b"", b"+", b"\r"]
    for _ in range(2000):
        tokens = [
            b"".join(chance.choice(pieces) for _ in range(chance.randrange(6)))
            for _ in range(chance.randrange(1, 5))
        ]
        text = b"KEY " + b" ".join(map(quote, tokens)) + b"\n"
        assert [words.tokens for words in read_lines(text)] == [(b"KEY", *tokens)]
        assert b"VERSION 1" not in text
