"""What a caller adds to a URL."""

from __future__ import annotations

import pytest

from protocols.wais.url import build, with_search
from resolver import WaisUrl, parse


@pytest.mark.parametrize("text", ["wais://h/db", "wais://h/db?x", "wais://h/db/TEXT/x"])
def test_a_search_for_other_words(text: str) -> None:
    url = parse(text)
    assert isinstance(url, WaisUrl)
    assert build(with_search(url, "two wörds?")) == "wais://h/db?two%20w%C3%B6rds%3F"
