"""Facts about a URL as lines of text: `name: value`, one value per line.

A nested value has the names of both levels: `admin.name`. Entries of a list are numbered; a list of plain
values has one line per value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from protocols.location import JsonValue


def fact_lines(facts: Mapping[str, JsonValue], show: Callable[[str], str] = str) -> Iterator[str]:
    """Yield the lines without line ends; `show` formats strings."""
    for name, value in facts.items():
        yield from _lines(name, value, show)


def _lines(name: str, value: JsonValue, show: Callable[[str], str]) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for inner, each in value.items():
            yield from _lines(f"{name}.{inner}", each, show)
    elif isinstance(value, list) and value:
        is_table = any(isinstance(each, (dict, list)) for each in value)
        for number, each in enumerate(value, 1):
            yield from _lines(f"{name}.{number}" if is_table else name, each, show)
    else:
        yield f"{name}: {word(value, show)}"


def word(value: JsonValue, show: Callable[[str], str] = str) -> str:
    """Format one value; a dash for null or an empty collection."""
    match value:
        case bool():
            return "yes" if value else "no"
        case str():
            return show(value)
        case int() | float():
            return str(value)
    return "-"  # null or an empty collection
