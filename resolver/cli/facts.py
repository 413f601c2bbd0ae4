"""The text format of JSON metadata: lines of the form `name: value`, one value per line.

The name of a nested value contains the names of all levels, as in `admin.name`. The elements of a list are
numbered if they are objects or lists. For a list of plain values, each value is printed on a separate line,
and each line has the name of the list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from protocols.location import JsonValue


def fact_lines(facts: Mapping[str, JsonValue], show: Callable[[str], str] = str) -> Iterator[str]:
    """Yield the lines of the metadata without line ends; `show` formats strings."""
    for name, value in facts.items():
        yield from _lines(name, value, show)


def _lines(name: str, value: JsonValue, show: Callable[[str], str]) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for inner, element in value.items():
            yield from _lines(f"{name}.{inner}", element, show)
    elif isinstance(value, list) and value:
        is_table = any(isinstance(element, (dict, list)) for element in value)
        for number, element in enumerate(value, 1):
            yield from _lines(f"{name}.{number}" if is_table else name, element, show)
    else:
        yield f"{name}: {word(value, show)}"


def word(value: JsonValue, show: Callable[[str], str] = str) -> str:
    """Format one value; null or an empty collection is a dash."""
    match value:
        case bool():
            return "yes" if value else "no"
        case str():
            return show(value)
        case int() | float():
            return str(value)
    return "-"  # null or an empty collection
