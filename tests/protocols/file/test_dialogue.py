"""The plan of a file URL is its dialogue."""

from __future__ import annotations

import pytest

from protocols.conversation.rehearsal import rehearse
from protocols.file.dialogue import read_file
from protocols.step import CopyBody, OpenFile, PlanNote, StartBody
from resolver import FileUrl


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
    opening, note, begin, body = rehearse(read_file(FileUrl(scheme="file", segments=segments)))
    assert isinstance(opening, OpenFile)
    assert (opening.segments, opening.path) == (segments, path)
    assert isinstance(note, PlanNote)
    assert isinstance(begin, StartBody)
    assert isinstance(body, CopyBody)
