"""What a stranger wrote, as an agent and whoever watches it may see it.

Controls and bidi controls are shown and not sent (S15). So are the tag characters of Unicode and their plane:
nobody sees them, and models read them as letters, which hides orders from the person beside the agent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import resolver

_UNSEEN = re.compile("[\U000e0000-\U000e0fff]")


def safe_text(text: str) -> str:
    """Line feeds and tabs stay, CR LF is a line end, and what cannot be seen is shown."""
    return _UNSEEN.sub(_shown, resolver.escape_controls(text))


def _shown(match: re.Match[str]) -> str:
    return f"\\U{ord(match.group()):08x}"


def safe_value(value: object) -> object:
    """The same for every text of a value that JSON can hold."""
    match value:
        case str():
            return safe_text(value)
        case Mapping():
            return {safe_text(str(name)): safe_value(each) for name, each in value.items()}
        case list() | tuple():
            return [safe_value(each) for each in value]
    return value


def safe_record(record: Mapping[str, object]) -> dict[str, object]:
    """The same for an object."""
    return {name: safe_value(value) for name, value in record.items()}
