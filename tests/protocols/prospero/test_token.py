"""Lines, tokens and quotes (protocol page, section 5)."""

from __future__ import annotations

import random

import pytest

from protocols.prospero.objects import MOST_TOKENS, quote, read_lines, read_text
from resolver import LimitExceeded, ProtocolError, Refused

#: A value and how it is written: the first five are in recordings of the reference server.
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
    # Kind servers look for the text VERSION 1 anywhere in the packet (6.1).
    (b"VERSION 1", b"VERSION' 1'"),
    (b"x/VERSION 1", b"x'/VERSIO'N' 1'"),
    (b"a b/VERSION 1/VERSION 1", b"a' b/VERSIO'N' 1/VERSIO'N' 1'"),
    (b"VERSION", b"'VERSION'"),
    (b"OBJECT-VERSION", b"'OBJECT-VERSION'"),
]


@pytest.mark.parametrize(("token", "written"), WRITTEN)
def test_a_token_is_quoted_from_the_first_octet_that_needs_it(token: bytes, written: bytes) -> None:
    assert quote(token) == written
    assert [words.tokens for words in read_lines(b"KEY " + written + b"\n")] == [(b"KEY", token)]
    assert b"VERSION 1" not in b"ASCII " + written + b" 1\n"


def test_nul_cannot_be_written() -> None:
    with pytest.raises(Refused, match="octet 00") as raised:
        quote(b"a\0")
    assert raised.value.rule == "S02"


#: A text and its lines.
READ: list[tuple[bytes, list[list[bytes]]]] = [
    (b"", []),
    (b"\n\n  \n", []),
    (b"A b\n", [[b"A", b"b"]]),
    (b"A  b \t c \n", [[b"A", b"b", b"c"]]),
    (b"A b", [[b"A", b"b"]]),  # the last line may lack its end
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
def test_lines_are_read_in_one_pass(text: bytes, lines: list[list[bytes]]) -> None:
    assert [list(words.tokens) for words in read_lines(text)] == lines


@pytest.mark.parametrize("count", [1, 511, 512, 513, 1024, 1025, 70_000])
def test_a_token_has_any_number_of_quotes(count: int) -> None:
    """A file in one token has two for each of its own."""
    bare = quote(b"'" * count) + b"a' \n'" * count
    lines = [words.tokens for words in read_lines(b"A 'b' " + bare + b" c\nD " + bare + b"\nE")]
    token = b"'" * count + b"a \n" * count
    assert lines == [(b"A", b"b", token, b"c"), (b"D", token), (b"E",)]
    with pytest.raises(ProtocolError, match="inside quotes"):
        list(read_lines(b"A " + bare + b"'"))


def test_a_line_is_kept_as_it_came() -> None:
    text = b"LINK  L 'a\nb' \r\n\n  X y"
    assert [words.raw for words in read_lines(text)] == [b"LINK  L 'a\nb' ", b"X y"]


@pytest.mark.parametrize("text", [b"'", b"A 'b\n", b"A b'c'd'\n", b"A ''''' \n"])
def test_a_quote_that_stays_open_is_no_reply(text: bytes) -> None:
    with pytest.raises(ProtocolError, match="inside quotes"):
        list(read_lines(text))


def test_lines_before_an_open_quote_are_read() -> None:
    reading = read_lines(b"A b\nC 'd")
    assert next(reading).tokens == (b"A", b"b")
    with pytest.raises(ProtocolError):
        next(reading)


def test_a_line_has_so_many_tokens() -> None:
    fits = b"A " * MOST_TOKENS
    assert [len(words.tokens) for words in read_lines(fits + b"\n" + fits)] == [MOST_TOKENS] * 2
    with pytest.raises(LimitExceeded, match="tokens"):
        list(read_lines(fits + b"A"))


def test_what_is_written_is_read_back() -> None:
    """Any octets but NUL, in any number of tokens, and never the text that kind servers look for."""
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


def test_a_token_is_shown_as_utf_8_or_latin_1() -> None:
    assert [read_text("Grüße".encode()), read_text("Grüße".encode("latin-1"))] == ["Grüße", "Grüße"]
