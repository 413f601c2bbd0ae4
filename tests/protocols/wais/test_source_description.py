"""Source descriptions (wais page, section 10)."""

from __future__ import annotations

import pytest

from protocols.wais.source_description import SourceDescription, parse_source_description
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


def test_a_description() -> None:
    found = parse_source_description(WRITTEN)
    assert found == SourceDescription(
        version=3,
        ip_name="wais.example",
        ip_address=None,
        tcp_port=8000,
        database_name="demo",
        cost=0.5,
        cost_unit="dollars-per-minute",
        maintainer="someone@wais.example",
        keywords=("beacon", "two words", "3"),
        description="free text,\nany number of lines",
        members=found.members,
    )
    assert found.url == "wais://wais.example:8000/demo"
    record = found.as_json()
    assert record["url"] == "wais://wais.example:8000/demo"
    assert record["unheard-of"] == {"structure": "structure", "x": 1}
    assert record["cost-unit"] == ":dollars-per-minute"


@pytest.mark.parametrize("name", ["source-description", "search-info-database"])
def test_the_recorded_ones(name: str) -> None:
    *_, (_, records) = capture(name).searches
    found = parse_source_description(records.texts[0])
    assert (found.ip_name, found.tcp_port, found.database_name, found.version) == (
        "wais.example",
        210,
        "demo",
        3,
    )
    assert found.keywords == ("beacon", "engine", "ladder", "timber", "vessel", "yard")
    assert found.description is not None
    assert found.description.count("\n") == 8
    assert found.url == "wais://wais.example/demo"


PLACES = [
    ('(:source :ip-name "H.example" :database-name "a b/c")', "wais://h.example/a%20b%2Fc"),
    ('(:SOURCE :IP-NAME "h" :DATABASE-NAME "d")', "wais://h/d"),
    ('(:source :ip-address "192.0.2.1" :tcp-port 210 :database-name "d")', "wais://192.0.2.1/d"),
    ('(:source :ip-name "" :ip-address "192.0.2.1" :database-name "d")', "wais://192.0.2.1/d"),
    ('(:source :ip-name "h/x@y" :database-name "d")', None),  # no host
]


@pytest.mark.parametrize(("text", "url"), PLACES)
def test_where_it_leads(text: str, url: str | None) -> None:
    assert parse_source_description(text.encode()).url == url


def test_octets_that_are_no_utf_8() -> None:
    text = '(:source :ip-name "h" :database-name "d" :description "café")'
    for charset in ("utf-8", "latin-1"):
        assert parse_source_description(text.encode(charset)).description == "café"


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
def test_what_is_no_description(text: str) -> None:
    with pytest.raises(ProtocolError):
        parse_source_description(text.encode())
