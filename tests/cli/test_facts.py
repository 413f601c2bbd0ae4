"""Facts as lines: whatever a scheme knows, nobody reads it as Python would write it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from protocols.contract import JsonValue
from resolver.cli.facts import fact_lines

WORDS = st.text("abc", min_size=1, max_size=3)
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=10,
)


def test_the_lines() -> None:
    facts: dict[str, JsonValue] = {
        "size": 3,
        "rate": 0.5,
        "title": None,
        "whole": True,
        "hidden": False,
        "types": ["TEXT", "GIF"],
        "others": [],
        "admin": {"name": "Ann", "facts": {"Site": "Quay"}, "ttl": None},
        "views": [{"view": "Text/plain", "about": 7}, {"view": "image/gif"}],
        "references": {},
    }
    assert list(fact_lines(facts)) == [
        "size: 3",
        "rate: 0.5",
        "title: -",
        "whole: yes",
        "hidden: no",
        "types: TEXT",
        "types: GIF",
        "others: -",
        "admin.name: Ann",
        "admin.facts.Site: Quay",
        "admin.ttl: -",
        "views.1.view: Text/plain",
        "views.1.about: 7",
        "views.2.view: image/gif",
        "references: -",
    ]
    assert list(fact_lines({"path": ["a b", ""]}, repr)) == ["path: 'a b'", "path: ''"]


@given(st.dictionaries(WORDS, VALUES))
def test_any_facts_have_lines_without_a_bracket(facts: dict[str, JsonValue]) -> None:
    for line in fact_lines(facts):
        assert not set(line) & set("{}[]'\""), line
        assert not line.endswith((" None", " True", " False"))
