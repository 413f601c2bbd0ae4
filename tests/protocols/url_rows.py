"""Checks for tables of valid and invalid URLs, in lenient and strict mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from protocols.contract import JsonValue
from resolver import InvalidUrl, Url, parse

#: Marks the character at which the error must point; a URL cannot contain this character.
MARK = "→"


class Good(NamedTuple):
    """A valid URL with some of its components (bytes as characters) and all its findings by name."""

    text: str
    components: Mapping[str, JsonValue]
    findings: str = ""


class Bad(NamedTuple):
    """An invalid URL; `text` has a `MARK` before the offending character."""

    text: str
    kind: str


def check_good(row: Good) -> None:
    url = parse(row.text)
    assert {name: url.components()[name] for name in row.components} == row.components
    assert set(url.findings) == set(row.findings.split())
    assert len(url.findings) == len(set(url.findings))
    _check_places(url)
    _check_strict(row.text, url)


def _check_places(url: Url) -> None:
    """Assert that every component with a written form has a place inside the text."""
    assert all(0 <= place.start <= place.end <= len(url.text) for place in url.places)
    names = [place.name for place in url.places]
    assert len(names) == len(set(names))


def _check_strict(text: str, url: Url) -> None:
    if not url.findings:
        assert parse(text, strict=True) == url
        return
    with pytest.raises(InvalidUrl) as caught:
        parse(text, strict=True)
    assert caught.value.kind == url.findings[0]
    assert 0 <= caught.value.position <= len(text)


def check_bad(row: Bad) -> None:
    assert row.text.count(MARK) == 1
    text = row.text.replace(MARK, "")
    for strict in (False, True):
        with pytest.raises(InvalidUrl) as caught:
            parse(text, strict=strict)
        assert (caught.value.kind, caught.value.position) == (row.kind, row.text.index(MARK))
        assert caught.value.message.startswith(f"{row.kind}: ")
        assert f"position {caught.value.position}" in caught.value.message
