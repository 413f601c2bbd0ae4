"""Host names that look like other names (S07), as far as their `xn--` labels tell.

Names are shown as given and never decoded. UTS 46 comes from `idna`, which is imported, as is
`unicodedata`, only when there is such a label.
"""

from __future__ import annotations

from collections.abc import Iterator

from resolver import registry
from resolver.policy.subject import Subject
from resolver.policy.verdict import Decision

#: Letters that pass for Latin ones in common typefaces (compare UTS 39, confusables); by number, for
#: nobody could review them by sight. Small a is U+0430 and U+03B1, small o U+043E and U+03BF.
_LOOKALIKES = {
    "CYRILLIC": frozenset(
        "\u0430\u0433\u0435\u043e\u043f\u0440\u0441\u0443\u0445\u044c\u0455\u0456"
        "\u0458\u0461\u0475\u04af\u04bb\u04bd\u04cf\u0501\u050d\u051b\u051d"
    ),
    "GREEK": frozenset(
        "\u03b1\u03b2\u03b3\u03b7\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03c9\u03f2\u03f3"
    ),
}
_KANA = {
    "HIRAGANA": "KANA",
    "KATAKANA": "KANA",
    "KATAKANA-HIRAGANA": "KANA",
    "CJK": "HAN",
    "IDEOGRAPHIC": "HAN",
}
_NO_SCRIPT = frozenset({"MODIFIER", "COMBINING"})
#: Scripts that one label may well mix.
_MIXES = (frozenset({"HAN", "KANA", "LATIN"}), frozenset({"HAN", "HANGUL"}))


def judge_name(subject: Subject) -> Iterator[Decision]:
    """S07: one ruling for each way in which `xn--` labels are not what they seem: the first label. And for a
    host that is written with escapes, where somebody may have looked at the URL before us."""
    host = "" if subject.endpoint is None else subject.endpoint.host
    if host.lower().removesuffix(".") in subject.policy.allow_name:
        return
    yield from _judge_spelling(subject)
    reported: set[str] = set()
    for label in host.lower().split("."):
        objection = objection_to(label) if label.startswith("xn--") else None
        if objection is not None and objection not in reported:
            reported.add(objection)
            yield Decision(
                rule="S07",
                action="warn",
                detail=f"{label!r} in the host {host!r} {objection}",
                flag=f"--allow-name {host}",
                position=subject.start_of("host"),
            )


def _judge_spelling(subject: Subject) -> Iterator[Decision]:
    """A caller that filters with another parser sees another host."""
    place = subject.url.place("host")
    written = "" if place is None else subject.url.text[place.start : place.end]
    if not written and subject.url.scheme not in registry.SCHEMES:
        from protocols import other  # few URLs are of a scheme that is not ours

        written = other.written_host(subject.url)
    if "%" in written and subject.policy.public_only:
        yield Decision(
            rule="S07",
            action="refuse",
            detail=f"the host is written with escapes, {written!r}, and others may read another one",
            flag=None if subject.endpoint is None else f"--allow-name {subject.endpoint.host}",
            position=subject.start_of("host"),
        )


def objection_to(label: str) -> str | None:
    """What is wrong with an `xn--` label, or None: controls and scripts first, then UTS 46."""
    import unicodedata

    text = _decode(label)
    if text is None:
        return "does not decode"
    if any(unicodedata.category(character)[0] == "C" for character in text):
        return "holds characters that cannot be seen"
    if not _is_valid(label, text):
        return "does not decode"
    scripts = {script for script in map(_script, text) if script is not None}
    if len(scripts) > 1 and not any(scripts <= mix for mix in _MIXES):
        return f"mixes scripts ({', '.join(sorted(scripts)).title()})"
    return _disguise(text, scripts)


def _decode(label: str) -> str | None:
    """The label's characters by the algorithm of RFC 3492 alone."""
    try:
        return label[4:].encode("ascii").decode("punycode")
    except (UnicodeError, ValueError, OverflowError):
        return None


def _is_valid(label: str, text: str) -> bool:
    """Does the label stand for exactly this text under IDNA 2008, and does UTS 46 leave it alone?"""
    import idna

    try:
        return idna.ulabel(label) == text and idna.uts46_remap(text, transitional=False) == text
    except (idna.IDNAError, UnicodeError, ValueError, IndexError):
        return False


def _script(character: str) -> str | None:
    """The script of a letter, None for a digit, a hyphen, a mark, or a letter of no script."""
    import unicodedata

    if unicodedata.category(character)[0] != "L":
        return None
    word = unicodedata.name(character, "UNKNOWN").split()[0]
    return None if word in _NO_SCRIPT else _KANA.get(word, word)


def _disguise(text: str, scripts: set[str]) -> str | None:
    for script, lookalikes in _LOOKALIKES.items():
        if scripts == {script} and all(_script(c) is None or c in lookalikes for c in text):
            return f"has only {script.title()} letters that pass for Latin ones"
    return None
