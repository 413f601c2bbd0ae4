"""Values for the eye, as `repr` shows them: one line of at most 200 characters, whatever is in them."""

from __future__ import annotations

_LONGEST = 200
_LONGEST_TEXT = 80
_CUT = "..."  # also for where nothing but ASCII can be shown


def brief(value: object, *facts: str | None) -> str:
    """`<Class fact fact …>`; a fact that is None is left out."""
    line = " ".join([type(value).__name__, *(fact for fact in facts if fact is not None)])
    return f"<{_shortened(line, _LONGEST - 2)}>"


def quoted(text: str | None) -> str | None:
    """A text of somebody else's in quotes, escaped as Python does it; of a long one the beginning."""
    return None if text is None else _shortened(repr(text[:_LONGEST]), _LONGEST_TEXT)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - len(_CUT)] + _CUT
