"""Line ends of type A, however the octets are cut."""

from __future__ import annotations

from itertools import product

import pytest

from protocols.ftp.transfer import NetworkText

CASES = [
    (b"one\r\ntwo\r\n", b"one\ntwo\n"),
    (b"no line end", b"no line end"),
    (b"bare\nLF\n", b"bare\nLF\n"),  # vsftpd sends files untouched
    (b"one\rtwo\rthree\r", b"one\rtwo\rthree\r"),
    (b"a\r\0b", b"a\rb"),
    (b"a\r\r\n", b"a\r\n"),  # Pure-FTPd makes CR CR LF of a file's CR LF
    (b"a\r\r\0\r\n\0", b"a\r\r\n\0"),
    (b"\r", b"\r"),
    (b"", b""),
]


def convert(*pieces: bytes) -> bytes:
    machine = NetworkText()
    return b"".join([octets for piece in pieces for octets in machine.feed(piece)] + [*machine.finish()])


@pytest.mark.parametrize(("sent", "text"), CASES)
def test_line_ends(sent: bytes, text: bytes) -> None:
    assert convert(sent) == text
    assert convert(*(sent[at : at + 1] for at in range(len(sent)))) == text
    for cut in range(len(sent)):
        assert convert(sent[:cut], sent[cut:]) == text


def test_every_short_text_comes_out_the_same_however_it_is_cut() -> None:
    for letters in product(b"a\r\n\0", repeat=5):
        sent = bytes(letters)
        assert convert(*(sent[at : at + 1] for at in range(5))) == convert(sent)
        assert convert(sent) == sent.replace(b"\r\n", b"\n").replace(b"\r\0", b"\r")
