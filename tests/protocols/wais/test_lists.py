"""Lists in the manner of Lisp (wais page, section 10)."""

from __future__ import annotations

import pytest

from protocols.wais.source_description import Structure, Symbol, Value, as_json, parse_list
from resolver import ProtocolError

VALUES: list[tuple[str, Value]] = [
    ('"a \\"quoted\\" word, \\\\ and \\n"', 'a "quoted" word, \\ and \\n'),
    ('"any number\nof (lines) ; :x"', "any number\nof (lines) ; :x"),
    ('""', ""),
    ("210", 210),
    ("-3", -3),
    ("0.00", 0.0),
    ("12.", 12.0),
    (":Free", Symbol("free")),
    ("word", "word"),
    ("10:30", "10:30"),
    ("1" * 30, "1" * 30),  # no number of any use
    ("()", ()),
    ("#( 1 2 3 )", (1, 2, 3)),
    ("#(:a 1)", (Symbol("a"), 1)),  # an array is no structure
    ('( a "b" 3 )', ("a", "b", 3)),
    ('("a"3:b)', ("a", "3:b")),
    ("((1)(2))", ((1,), (2,))),
    ("(:source)", Structure("source")),
    ("(:SOURCE :A 1 :a 2 :B (:c :d 0.5))", Structure("source", {"a": 1, "b": Structure("c", {"d": 0.5})})),
    (" \n (:x\t:y\r\n1 ) \n ", Structure("x", {"y": 1})),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_values(text: str, value: Value) -> None:
    assert parse_list(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "(",
        ")",
        "(()",
        "())",
        '"no end',
        '"no end\\"',
        ":",
        "1 2",
        "(:a :b)",  # a key without a value
        "(:a 1 2)",  # a key that is no symbol
        "(" * 40 + ")" * 40,
        "(" * 100_000,
    ],
    ids=lambda text: repr(text[:20]),
)
def test_what_is_no_value(text: str) -> None:
    with pytest.raises(ProtocolError, match="list"):
        parse_list(text)


def test_as_json() -> None:
    value = parse_list('(:a :b (1 "x" :y) :c #(0.5) :d (:e :f 1))')
    assert as_json(value) == {
        "structure": "a",
        "b": [1, "x", ":y"],
        "c": [0.5],
        "d": {"structure": "e", "f": 1},
    }
