"""What an archive says of an object, as info gives it."""

from __future__ import annotations

import pytest

from protocols.contract import JsonValue
from resolver.warc.replay import status_from


@pytest.mark.parametrize(
    ("announced", "is_directory", "expected"), [(None, False, 5), (9, False, 9), (None, True, None)]
)
def test_status_from_end_of_a_fetch_has_size(
    announced: int | None, is_directory: bool, expected: int | None
) -> None:
    end: dict[str, JsonValue] = {} if announced is None else {"announced": announced}
    assert status_from(end, 5, is_directory=is_directory).size == expected
