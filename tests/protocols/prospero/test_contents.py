"""The object out of the values of CONTENTS (protocol page 8.4)."""

from __future__ import annotations

import pytest

from protocols.prospero.objects import Attribute
from protocols.prospero.resolution import join_contents

VALUES: list[tuple[list[tuple[bytes, ...]], bytes | None]] = [
    ([], None),
    ([(b"DATA",)], None),
    ([(b"OTHER", b"x")], None),
    ([(b"TAGGED", b"t")], None),
    ([(b"DATA", b"")], b""),
    ([(b"DATA", b"a\0"), (b"DATA", b"\r\nb")], b"a\0\r\nb"),
    ([(b"TAGGED", b"t", b"v")], b"t: v"),
    ([(b"DATA", b"a"), (b"TAGGED", b"t", b"v"), (b"DATA", b"b"), (b"DATA", b"c")], b"a\nt: v\nbc"),
    (
        [(b"TAGGED", b"t", b"v\n"), (b"TAGGED", b"u", b"w"), (b"OTHER", b"x"), (b"DATA", b"b")],
        b"t: v\nu: w\nb",
    ),
]


@pytest.mark.parametrize(("values", "octets"), VALUES)
def test_data_is_put_together_and_tags_stand_on_lines_of_their_own(
    values: list[tuple[bytes, ...]], octets: bytes | None
) -> None:
    attributes = [Attribute(b"OBJECT", b"CONTENTS", b"SEQUENCE", each) for each in values]
    size = Attribute(b"OBJECT", b"SIZE", b"SEQUENCE", (b"DATA", b"no contents"))
    assert join_contents([size, *attributes]) == octets
