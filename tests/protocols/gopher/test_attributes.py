"""Attribute records: blocks in any order, under any name, with anything missing."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from protocols.gopher.attributes import (
    AdminBlock,
    AttributeBlock,
    AttributeRecord,
    BlockFilter,
    RecordReader,
    parse_admin,
    parse_records,
    reduce_record,
)
from protocols.gopher.menu import LINE_LIMIT, parse_item
from protocols.gopher.reply import FormEntries, RecordEntries, record_json
from resolver import Entry, Finding, GopherUrl, Kind, LimitExceeded
from resolver.testing import CUTTERS, Cutter
from tests.protocols.typed_url import parse_as

MENU = parse_as(GopherUrl, "gopher://h.dom/1")
assert isinstance(MENU, GopherUrl)

TWO = (
    b"+INFO: 0story\t0/story\th.dom\t70\t+\r\n"
    b"+ADMIN:\r\n Admin: Somebody <somebody@h.dom>\r\n"
    b" Mod-Date: Sat Nov 21 08:17:19 2026 <20261121081719>\r\n TTL: 180\r\n Version: 2.3 pl0\r\n"
    b"+VIEWS:\r\n Text/plain En_US: <.0k>\r\n application/postscript De_DE: <100k>\r\n"
    b"+ABSTRACT:\r\n  indented\r\n\r\nnot indented\r\n"
    b"+INFO: iprose\tfake\t(NULL)\t0\r\n"
)
STORY = b"0story\t0/story\th.dom\t70\t+"


@pytest.mark.parametrize("cutter", CUTTERS, ids=lambda cutter: cutter.__name__)
def test_records_in_pieces(cutter: Cutter) -> None:
    reader = RecordReader()
    records = [record for piece in cutter(TWO) for record in reader.feed(piece)]
    story, prose = [*records, *reader.finish()]
    assert (story.info, prose) == (parse_item(STORY), AttributeRecord(parse_item(b"iprose\tfake\t(NULL)\t0")))
    assert story.names == ("ADMIN", "VIEWS", "ABSTRACT")
    assert story.abstract == " indented\n\nnot indented"
    assert [view.identity for view in story.views] == [b"Text/plain En_US", b"application/postscript De_DE"]
    assert story.admin == AdminBlock(
        "Somebody",
        "somebody@h.dom",
        datetime(2026, 11, 21, 8, 17, 19, tzinfo=UTC),
        180,
        (
            ("Admin", "Somebody <somebody@h.dom>"),
            ("Mod-Date", "Sat Nov 21 08:17:19 2026 <20261121081719>"),
            ("TTL", "180"),
            ("Version", "2.3 pl0"),
        ),
    )


#: Octets of one record, and its blocks.
BLOCKS: list[tuple[bytes, tuple[AttributeBlock, ...]]] = [
    (b"+INFO 1Test\t\th\t70\n+ABSTRACT\n a", (AttributeBlock("ABSTRACT", (b"a",)),)),
    (b"+INFO: x\n+A B\n", (AttributeBlock("A", (), parse_item(b"B")),)),
    (b"+INFO: x\n+A: 0ref\ts\th\t70\n", (AttributeBlock("A", (), parse_item(b"0ref\ts\th\t70")),)),
    (b"+INFO: x\n+:\n+\n++A\n", ()),
    (b"+INFO: x\nstray\n+A:\n b\nc\n\n", (AttributeBlock("A", (b"b", b"c", b"")),)),
    (b"+INFO: x\n+a:\n+A:\n +b:\n", (AttributeBlock("a"), AttributeBlock("A", (b"+b:",)))),
    (
        b"+INFO: x\n+URL:\n telnet://h/\n+3D:\n",
        (AttributeBlock("URL", (b"telnet://h/",)), AttributeBlock("3D")),
    ),
    (b"+A:\n b\n", (AttributeBlock("A", (b"b",)),)),
]


@pytest.mark.parametrize(("octets", "blocks"), BLOCKS)
def test_blocks(octets: bytes, blocks: tuple[AttributeBlock, ...]) -> None:
    (record,) = parse_records(octets)
    assert record.blocks == blocks
    assert (record.info is None) == octets.startswith(b"+A")


def test_text_wins_over_a_reference() -> None:
    (record,) = parse_records(b"+INFO: x\n+A: 0ref\ts\th\t70\n+A:\n text\n+A: 0ref\ts\th\t70\n")
    block = record.block("A")
    assert block is not None
    assert block.text == "text"
    assert record.block("a") is None


@pytest.mark.parametrize("octets", [b"", b"\r\n", b".\r\n", b"\n.\n\n"])
def test_nothing_is_no_record(octets: bytes) -> None:
    assert parse_records(octets) == []


#: The lines of an ADMIN block, and what is read from them.
ADMINS: list[tuple[list[bytes], AdminBlock]] = [
    ([], AdminBlock()),
    ([b"Admin: Nobody"], AdminBlock("Nobody", None, None, None, (("Admin", "Nobody"),))),
    ([b"admin:<a@b>"], AdminBlock(None, "a@b", None, None, (("admin", "<a@b>"),))),
    ([b"Mod-Date: <20261321081719>"], AdminBlock(facts=(("Mod-Date", "<20261321081719>"),))),
    ([b"Mod-Date: 20261121081719"], AdminBlock(facts=(("Mod-Date", "20261121081719"),))),
    ([b"TTL: soon", b"TTL: 5"], AdminBlock(facts=(("TTL", "soon"),))),
    ([b"TTL: 99999999999"], AdminBlock(facts=(("TTL", "99999999999"),))),
    ([b"no colon", b": nothing", b"\xe9: x"], AdminBlock()),
]


@pytest.mark.parametrize(("lines", "admin"), ADMINS)
def test_admin_lines(lines: list[bytes], admin: AdminBlock) -> None:
    assert parse_admin(lines) == admin


def test_selecting_named_attributes() -> None:
    (record, _) = parse_records(TWO)
    reduced, missing = record.select(["VIEWS", "SMELL", "INFO", "VIEWS", "views"])
    assert (reduced.info, reduced.names, missing) == (record.info, ("VIEWS",), ("SMELL", "views"))
    assert record.select([]) == (record, ())


def test_a_record_is_reduced_octet_for_octet() -> None:
    one = TWO[: TWO.index(b"+INFO: iprose")]
    assert reduce_record(one, []) == one
    assert reduce_record(one, ["ABSTRACT"]) == one[: one.index(b"+ADMIN")] + one[one.index(b"+ABSTRACT") :]
    assert reduce_record(one, ["VIEWS", "ADMIN", "ABSTRACT"]) == one
    assert reduce_record(b"+INFO 1x\n+A\n b\nc\n+B:\n d", ["B"]) == b"+INFO 1x\n+B:\n d"
    assert reduce_record(one, ["ADMIN"]) == one[: one.index(b"+VIEWS")]
    assert reduce_record(b"+INFO: 1x\r\n+A:\r\n b\r+B:\r\n", ["B"]) == b"+INFO: 1x\r\n", "CR ends no line"
    assert reduce_record(b"", ["B"]) == b""


@pytest.mark.parametrize("cutter", CUTTERS)
@pytest.mark.parametrize("names", [[], ["ABSTRACT"], ["ADMIN", "VIEWS"], ["NONE"]])
def test_blocks_are_left_out_however_the_octets_come(cutter: Cutter, names: list[str]) -> None:
    octets = TWO + b"+LONG: " + b"x" * 10_000 + b"\r\n " + b"y" * 10_000 + b"\r\n+ABSTRACT:\r\n end"
    blocks = BlockFilter(names)
    pieces = [blocks.feed(piece) for piece in cutter(octets)]
    assert b"".join(pieces) + blocks.finish() == reduce_record(octets, names)


def test_a_line_without_an_end_is_not_held() -> None:
    blocks = BlockFilter(["A"])
    assert blocks.feed(b"+INFO: 0x\n+A: " + b"x" * 10_000) == b"+INFO: 0x\n+A: " + b"x" * 10_000
    assert blocks.feed(b"+B:") == b"+B:", "in the midst of a line no block opens"
    assert blocks.feed(b"\n+B:\n b\n") == b"\n"
    assert blocks.finish() == b""


def entries(octets: bytes, *names: str) -> tuple[list[Entry], list[Finding]]:
    findings: list[Finding] = []
    reader = RecordEntries(MENU, names, findings.append)
    return [*reader.feed(octets), *reader.finish()], findings


def test_records_as_entries() -> None:
    (story, prose), findings = entries(TWO)
    assert (story.name, story.url, story.kind) == ("story", "gopher://h.dom/00/story%09%09+", Kind.DOCUMENT)
    assert (story.raw, story.modified) == (STORY, datetime(2026, 11, 21, 8, 17, 19, tzinfo=UTC))
    assert story.extra is not None
    assert story.extra["selector"] == "0/story"
    assert story.extra["abstract"] == " indented\n\nnot indented"
    assert story.extra["missing"] == []
    assert story.extra["admin"] == {
        "name": "Somebody",
        "address": "somebody@h.dom",
        "modified_local": "2026-11-21T08:17:19",
        "ttl": 180,
        "facts": {
            "Admin": "Somebody <somebody@h.dom>",
            "Mod-Date": "Sat Nov 21 08:17:19 2026 <20261121081719>",
            "TTL": "180",
            "Version": "2.3 pl0",
        },
    }
    assert story.extra["views"] == [
        {"view": "Text/plain En_US", "media_type": "Text/plain", "language": "En_US", "about": 0},
        {
            "view": "application/postscript De_DE",
            "media_type": "application/postscript",
            "language": "De_DE",
            "about": 102_400,
        },
    ]
    assert (prose.kind, prose.url, prose.modified, findings) == (Kind.INFO, None, None, [])


def test_what_never_came_is_told_at_the_end() -> None:
    (story, prose), findings = entries(TWO, "VIEWS", "SMELL")
    assert story.extra is not None
    assert prose.extra is not None
    assert isinstance(story.extra["attributes"], dict)
    assert list(story.extra["attributes"]) == ["VIEWS"]
    assert (story.extra["missing"], prose.extra["missing"]) == (["SMELL"], ["VIEWS", "SMELL"])
    assert story.modified is None
    assert [finding.rule for finding in findings] == ["gopher:attribute-missing"]
    assert "+SMELL" in findings[0].detail


def test_a_type_plus_record_has_the_type_of_the_one_before() -> None:
    (_, twin), _ = entries(b"+INFO: 1a\ta\th.dom\t70\r\n+INFO: +b\tb\to.dom\t70\r\n")
    assert (twin.kind, twin.url) == (Kind.DIRECTORY, "gopher://o.dom/1b")


def test_references_and_forms_in_json() -> None:
    (record,) = parse_records(
        b"+INFO: x\n+ABSTRACT: 0ref\ts\th\t70\n+ASK:\n Ask: Name?\tJoe\n"
        b"+TWICE: 0ref\ts\th\t70\n+TWICE:\n text\n+AGAIN:\n text\n+AGAIN: 0ref\ts\th\t70\n"
    )
    known = record_json(record, ["A"])
    assert known["references"] == {
        "ABSTRACT": {"type": "0", "selector": "s", "host": "h", "port": "70", "gopherplus": None}
    }
    assert known["attributes"] == {
        "ABSTRACT": [],
        "ASK": ["Ask: Name?\tJoe"],
        "TWICE": ["text"],
        "AGAIN": ["text"],
    }
    assert (known["abstract"], known["admin"], known["views"], known["missing"]) == (None, None, [], ["A"])
    assert isinstance(known["form"], list)


def test_blocks_before_any_item_are_an_entry_without_a_link() -> None:
    (entry,), _ = entries(b"+ABSTRACT:\r\n lost\r\n")
    assert (entry.name, entry.url, entry.kind) == ("", None, Kind.UNKNOWN)


def test_the_lines_of_a_form_as_entries() -> None:
    reader = FormEntries()
    octets = b"+INFO: x\r\n+ASK:\r\n Note: Hello\r\n Ask: Name?\tFrodo\r\n"
    listed = [*reader.feed(octets), *reader.finish()]
    assert [(entry.name, entry.kind) for entry in listed] == [("Hello", Kind.INFO), ("Name?", Kind.INFO)]
    assert listed[1].extra == {
        "kind": "Ask",
        "prompt": "Name?",
        "choices": [],
        "default": "Frodo",
        "asked": True,
        "hidden": False,
    }


def test_a_record_has_a_bound_and_a_line_too() -> None:
    (record,) = parse_records(b"+INFO: x\n+A:\n " + b"y" * LINE_LIMIT + b"\n z\n")
    assert (record.cut, record.blocks) == (True, (AttributeBlock("A", (b"z",)),))
    with pytest.raises(LimitExceeded):
        list(RecordReader(limit=100).feed(b"+INFO: x\n+A:\n" + b" y\n" * 50))
    reader = RecordReader(limit=100)
    assert len(list(reader.feed(b"+INFO: x\n+A:\n y\n" * 1000))) == 999
