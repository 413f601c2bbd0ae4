"""Parse a URL and narrow its type to the class of its scheme."""

from __future__ import annotations

from typing import TypeVar

from resolver import Url, parse

U = TypeVar("U", bound=Url)


def parse_as(kind: type[U], text: str) -> U:
    url = parse(text)
    assert isinstance(url, kind)
    return url
