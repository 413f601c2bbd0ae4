"""Values out of a reply's text; what makes no sense is none."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from protocols.ftp.reply import ControlReply, parse_path, parse_size, parse_time

SIZES = [
    (b"0", 0),
    (b"8388608", 8388608),
    (b" 12 ", 12),
    (b"9223372036854775807", 2**63 - 1),
    (b"9223372036854775808", None),
    (b"9" * 10_000, None),
    (b"-1", None),
    (b"12 octets", None),
    ("\u0661".encode(), None),
    (b"", None),
]


@pytest.mark.parametrize(("text", "size"), SIZES)
def test_size(text: bytes, size: int | None) -> None:
    assert parse_size(ControlReply(213, (text,))) == size


TIMES = [
    (b"20010909014640", datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)),
    (b"20010909014640.123", datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)),
    (b"191010909014640", None),  # the year 2000 bug: 19 and 101
    (b"19100909014640", None),
    (b"20011309014640", None),
    (b"20010909014661", None),
    (b"00000000000000", None),
    (b"2001-09-09", None),
    (b"", None),
]


@pytest.mark.parametrize(("text", "moment"), TIMES)
def test_time(text: bytes, moment: datetime | None) -> None:
    assert parse_time(text) == moment


PATHS = [
    (b'"/home/bob" is the current directory', b"/home/bob"),
    (b'"/"', b"/"),
    (b'Path is "/a b/caf\xe9"', b"/a b/caf\xe9"),
    (b'"/quo""te" is it', b'/quo"te'),
    (b'"a""""b"', b'a""b'),
    (b'"quo"te dir" is it', b"quo"),  # Pure-FTPd doubles no quotes; CWD and PWD will tell
    (b'"/open', None),
    (b'"/open""', None),
    (b'""', None),
    (b'"a\tb"', None),
    (b"no path", None),
]


@pytest.mark.parametrize(("text", "path"), PATHS)
def test_path(text: bytes, path: bytes | None) -> None:
    assert parse_path(ControlReply(257, (text,))) == path
