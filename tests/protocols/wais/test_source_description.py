"""Source descriptions and the Lisp lists that contain them (wais page, section 10)."""

from __future__ import annotations

import pytest

from protocols.wais.source_description import (
    Structure,
    Symbol,
    Value,
    as_json,
    parse_list,
    parse_source_description,
)
from resolver import ProtocolError
from tests.protocols.wais.captures import capture

WRITTEN = b"""
  (:source
     :version 3
     :ip-name "wais.example"
     :tcp-port 8000
     :database-name "demo"
     :cost 0.50
     :cost-unit :dollars-per-minute
     :maintainer "someone@wais.example"
     :keyword-list ( beacon "two words" 3 )
     :unheard-of (:structure :x 1)
     :description "free text,
any number of lines"
  )
"""


def test_parse_source_description() -> None:
    record = parse_source_description(WRITTEN)
    assert record["url"] == "wais://wais.example:8000/demo"
    assert record["unheard-of"] == {"structure": "structure", "x": 1}
    assert record["cost-unit"] == ":dollars-per-minute"
    assert record["keyword-list"] == ["beacon", "two words", 3]
    assert record["description"] == "free text,\nany number of lines"


@pytest.mark.parametrize("name", ["source-description", "search-info-database"])
def test_captured_source_descriptions_are_parsed(name: str) -> None:
    *_, (_, records) = capture(name).searches
    found = parse_source_description(records.texts[0])
    assert found["ip-name"] == "wais.example"
    assert found["tcp-port"] == 210
    assert found["database-name"] == "demo"
    assert found["version"] == 3
    assert found["keyword-list"] == ["beacon", "engine", "ladder", "timber", "vessel", "yard"]
    assert str(found["description"]).count("\n") == 8
    assert found["url"] == "wais://wais.example/demo"


PLACES = [
    ('(:source :ip-name "H.example" :database-name "a b/c")', "wais://h.example/a%20b%2Fc"),
    ('(:SOURCE :IP-NAME "h" :DATABASE-NAME "d")', "wais://h/d"),
    ('(:source :ip-address "192.0.2.1" :tcp-port 210 :database-name "d")', "wais://192.0.2.1/d"),
    ('(:source :ip-name "" :ip-address "192.0.2.1" :database-name "d")', "wais://192.0.2.1/d"),
    ('(:source :ip-name "h/x@y" :database-name "d")', None),  # not a host
]


@pytest.mark.parametrize(("text", "url"), PLACES)
def test_source_description_url(text: str, url: str | None) -> None:
    assert parse_source_description(text.encode())["url"] == url


def test_source_description_in_latin_1_is_decoded() -> None:
    text = '(:source :ip-name "h" :database-name "d" :description "café")'
    for charset in ("utf-8", "latin-1"):
        assert parse_source_description(text.encode(charset))["description"] == "café"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a text",
        "(:sink)",
        '(:source :ip-name "h")',
        '(:source :database-name "d")',
        '(:source :ip-name :h :database-name "d")',
        '(:source :ip-name "h" :database-name "d" :tcp-port 0)',
        '(:source :ip-name "h" :database-name "d" :tcp-port 65536)',
        '(:source :ip-name "h" :database-name "d" :tcp-port "210")',
        '(:source :ip-name "h" :database-name "d"',
        '(:source :ip-name "h" :database-name "d") more',
    ],
)
def test_parse_invalid_source_description_raises(text: str) -> None:
    with pytest.raises(ProtocolError):
        parse_source_description(text.encode())


# Lisp lists (wais page, section 10).

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
    ("1" * 30, "1" * 30),  # too long for a number
    ("()", ()),
    ("#( 1 2 3 )", (1, 2, 3)),
    ("#(:a 1)", (Symbol("a"), 1)),  # an array is not a structure
    ('( a "b" 3 )', ("a", "b", 3)),
    ('("a"3:b)', ("a", "3:b")),
    ("((1)(2))", ((1,), (2,))),
    ("(:source)", Structure("source")),
    ("(:SOURCE :A 1 :a 2 :B (:c :d 0.5))", Structure("source", {"a": 1, "b": Structure("c", {"d": 0.5})})),
    (" \n (:x\t:y\r\n1 ) \n ", Structure("x", {"y": 1})),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_parse_list_returns_value(text: str, value: Value) -> None:
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
        "(:a 1 2)",  # a key that is not a symbol
        "(" * 40 + ")" * 40,
        "(" * 100_000,
    ],
    ids=lambda text: repr(text[:20]),
)
def test_parse_invalid_list_raises(text: str) -> None:
    with pytest.raises(ProtocolError, match="list"):
        parse_list(text)


def test_list_as_json() -> None:
    value = parse_list('(:a :b (1 "x" :y) :c #(0.5) :d (:e :f 1))')
    assert as_json(value) == {
        "structure": "a",
        "b": [1, "x", ":y"],
        "c": [0.5],
        "d": {"structure": "e", "f": 1},
    }
