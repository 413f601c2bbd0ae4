"""What somebody may have meant by a word that is none: said, and never done."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a sentence that proposes the nearest word: one that it begins, before all others. Nothing
    where none is near."""
    from difflib import get_close_matches  # few command lines need it

    words = sorted(set(known))
    longer = [each for each in words if len(word) > 2 and each.startswith(word)]
    near = longer[:1] or get_close_matches(word, words, 1)
    return f"; did you mean {near[0]}?" if near else ""
