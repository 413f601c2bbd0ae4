"""The plan of a file URL is its dialogue."""

from __future__ import annotations

import pytest

from protocols.conversation import HandOver, Note, OpenFile, rehearse
from protocols.file import FILE
from protocols.file.url import FileUrl
from protocols.options import Options


@pytest.mark.parametrize(
    ("segments", "path"),
    [
        ((b"etc", b"motd"), "/etc/motd"),
        ((b"etc", b""), "/etc/"),
        ((), "/"),
        ((b"",), "/"),
        ((b"\xff\x00",), "/\xff\x00"),  # octets are shown one character each, however odd
    ],
)
def test_one_thing_is_opened_and_its_octets_follow(segments: tuple[bytes, ...], path: str) -> None:
    assert FILE.dialogue is not None
    opening, note, body = rehearse(FILE.dialogue(FileUrl(scheme="file", segments=segments), Options()))
    assert isinstance(opening, OpenFile)
    assert (opening.segments, opening.path) == (segments, path)
    assert isinstance(note, Note)
    assert isinstance(body, HandOver)
