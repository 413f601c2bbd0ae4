"""Tests of Gopher+ attribute records, ASK forms and views.

Blocks may have any order and any name, and may be missing.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest

from fixtures import recordings
from protocols.gopher.attributes import (
    FORM_LIMIT,
    AdminBlock,
    AlternateView,
    Answer,
    AskForm,
    AskLine,
    AskQuestion,
    AttributeBlock,
    AttributeRecord,
    BlockFilter,
    RecordReader,
    encode_answers,
    fill,
    parse_admin,
    parse_form,
    parse_records,
    parse_view,
    reduce_record,
)
from protocols.gopher.menu import LINE_LIMIT, kind_of_view, parse_item
from protocols.gopher.records import FormEntries, RecordEntries, find_form, record_json
from protocols.gopher.request import encode_request
from resolver import Entry, Finding, GopherUrl, Kind, LimitExceeded, Refused, parse
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
def test_record_reader_gives_same_records_for_every_split(cutter: Cutter) -> None:
    reader = RecordReader()
    records = [record for piece in cutter(TWO) for record in reader.feed(piece)]
    records += reader.finish()
    story, prose = records
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


#: The bytes of a record, and its blocks.
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
def test_parse_records_of_blocks(octets: bytes, blocks: tuple[AttributeBlock, ...]) -> None:
    (record,) = parse_records(octets)
    assert record.blocks == blocks
    assert (record.info is None) == octets.startswith(b"+A")


def test_record_block_prefers_text_to_reference() -> None:
    (record,) = parse_records(b"+INFO: x\n+A: 0ref\ts\th\t70\n+A:\n text\n+A: 0ref\ts\th\t70\n")
    block = record.block("A")
    assert block is not None
    assert block.text == "text"
    assert record.block("a") is None


@pytest.mark.parametrize("octets", [b"", b"\r\n", b".\r\n", b"\n.\n\n"])
def test_parse_records_of_empty_reply_gives_none(octets: bytes) -> None:
    assert parse_records(octets) == []


#: The lines of an ADMIN block and the parsed value.
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
def test_parse_admin_ignores_malformed_lines(lines: list[bytes], admin: AdminBlock) -> None:
    assert parse_admin(lines) == admin


def test_record_select_keeps_named_attributes() -> None:
    (record, _) = parse_records(TWO)
    reduced, missing = record.select(["VIEWS", "SMELL", "INFO", "VIEWS", "views"])
    assert (reduced.info, reduced.names, missing) == (record.info, ("VIEWS",), ("SMELL", "views"))
    assert record.select([]) == (record, ())


def test_select_of_many_names_takes_linear_time() -> None:
    """A record may have 13,000 blocks, and a URL may name 2,000. Their product takes 1 s a record."""
    record = AttributeRecord(None, tuple(AttributeBlock(f"a{number}") for number in range(40_000)))
    began = time.process_time()
    assert record.select([f"b{number}" for number in range(10_000)])[0].blocks == ()
    assert time.process_time() - began < 2


def test_reduce_record_keeps_bytes_of_named_blocks() -> None:
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
def test_block_filter_gives_same_bytes_for_every_split(cutter: Cutter, names: list[str]) -> None:
    octets = TWO + b"+LONG: " + b"x" * 10_000 + b"\r\n " + b"y" * 10_000 + b"\r\n+ABSTRACT:\r\n end"
    blocks = BlockFilter(names)
    pieces = [blocks.feed(piece) for piece in cutter(octets)]
    assert b"".join(pieces) + blocks.finish() == reduce_record(octets, names)


def test_block_filter_does_not_buffer_unfinished_line() -> None:
    blocks = BlockFilter(["A"])
    assert blocks.feed(b"+INFO: 0x\n+A: " + b"x" * 10_000) == b"+INFO: 0x\n+A: " + b"x" * 10_000
    assert blocks.feed(b"+B:") == b"+B:", "in the midst of a line no block opens"
    assert blocks.feed(b"\n+B:\n b\n") == b"\n"
    assert blocks.finish() == b""


def entries(octets: bytes, *names: str) -> tuple[list[Entry], list[Finding]]:
    findings: list[Finding] = []
    reader = RecordEntries(MENU, names, findings.append)
    return [*reader.feed(octets), *reader.finish()], findings


def test_record_entries_have_extra() -> None:
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


def test_record_entries_report_missing_attributes_once() -> None:
    (story, prose), findings = entries(TWO, "VIEWS", "SMELL")
    assert story.extra is not None
    assert prose.extra is not None
    assert isinstance(story.extra["attributes"], dict)
    assert list(story.extra["attributes"]) == ["VIEWS"]
    assert (story.extra["missing"], prose.extra["missing"]) == (["SMELL"], ["VIEWS", "SMELL"])
    assert story.modified is None
    assert [finding.rule for finding in findings] == ["gopher:attribute-missing"]
    assert "+SMELL" in findings[0].detail


def test_type_plus_record_has_type_of_previous() -> None:
    (_, twin), _ = entries(b"+INFO: 1a\ta\th.dom\t70\r\n+INFO: +b\tb\to.dom\t70\r\n")
    assert (twin.kind, twin.url) == (Kind.DIRECTORY, "gopher://o.dom/1b")


def test_record_json_has_references_and_form() -> None:
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


def test_record_json_of_many_blocks_takes_linear_time() -> None:
    """Work that is quadratic in the number of blocks would take 8 s for this record."""
    (record,) = parse_records(b"".join(b"+%d:\n" % number for number in range(9_000)))
    began = time.process_time()
    attributes = record_json(record, [])["attributes"]
    assert time.process_time() - began < 4
    assert isinstance(attributes, dict)
    assert len(attributes) == 9_000


def test_record_json_year_has_four_digits() -> None:
    (record,) = parse_records(b"+INFO: x\n+ADMIN:\n Mod-Date: <00051121081719>\n")
    admin = record_json(record, [])["admin"]
    assert isinstance(admin, dict)
    assert admin["modified_local"] == "0005-11-21T08:17:19"


def test_blocks_before_first_item_are_entry_without_url() -> None:
    (entry,), _ = entries(b"+ABSTRACT:\r\n lost\r\n")
    assert (entry.name, entry.url, entry.kind) == ("", None, Kind.UNKNOWN)


def test_form_entries_are_the_form_lines() -> None:
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


def test_record_beyond_limit_raises() -> None:
    (record,) = parse_records(b"+INFO: x\n+A:\n " + b"y" * LINE_LIMIT + b"\n z\n")
    assert (record.is_truncated, record.blocks) == (True, (AttributeBlock("A", (b"z",)),))
    with pytest.raises(LimitExceeded):
        list(RecordReader(limit=100).feed(b"+INFO: x\n+A:\n" + b" y\n" * 50))
    reader = RecordReader(limit=100)
    assert len(list(reader.feed(b"+INFO: x\n+A:\n y\n" * 1000))) == 999


# Forms: questions from ASK lines, and answers with the bytes of real clients.

CAPTURES = recordings.FOLDER / "gopher"

LINES: list[tuple[bytes, AskLine]] = [
    (b"Ask: Name?\tFrodo", AskLine(AskQuestion.ASK, "Ask", "Name?", (), "Frodo")),
    (b"ASK:Name?", AskLine(AskQuestion.ASK, "ASK", "Name?")),
    (b"AskP: Word?\t ", AskLine(AskQuestion.ASK_HIDDEN, "AskP", "Word?", (), " ")),
    (b"askl: Tell!", AskLine(AskQuestion.ASK_LINES, "askl", "Tell!")),
    (b"Choose: One\ta\tb\xff", AskLine(AskQuestion.CHOOSE, "Choose", "One", (b"a", b"b\xff"), "a")),
    (b"Choose: None", AskLine(AskQuestion.CHOOSE, "Choose", "None")),
    (b"Select: Sure?", AskLine(AskQuestion.SELECT, "Select", "Sure?")),
    (b"Select: Sure?\t1", AskLine(AskQuestion.SELECT, "Select", "Sure?", (), "1")),
    (b"Select: Sure?\tyes", AskLine(AskQuestion.SELECT, "Select", "Sure?", (), "0")),
    (
        b"Select: Red?:1",
        AskLine(AskQuestion.SELECT, "Select", "Red?", (), "1"),
    ),  # as Minnesota's clients parse it
    (b"Select: Red?:0 ", AskLine(AskQuestion.SELECT, "Select", "Red?", (), "0")),
    (b"Select: Red?:1\t0", AskLine(AskQuestion.SELECT, "Select", "Red?", (), "0")),
    (b"Select: At 8:10", AskLine(AskQuestion.SELECT, "Select", "At 8:10")),
    (b"Select: Red:2", AskLine(AskQuestion.SELECT, "Select", "Red:2")),
    (b"Note: Hello\x1b[2J", AskLine(AskQuestion.NOTE, "Note", "Hello[2J")),
    (b"ChooseF: File?\t/etc/passwd", AskLine(AskQuestion.CHOOSE_FILE, "ChooseF", "File?")),
    (b"AskF: Save as\tanswer.txt", AskLine(AskQuestion.ASK_FILE, "AskF", "Save as", (), "answer.txt")),
    (b"AskF: Save as\t../answer.txt", AskLine(AskQuestion.ASK_FILE, "AskF", "Save as")),
    (b"AskF: Save as\tC:\\answer", AskLine(AskQuestion.ASK_FILE, "AskF", "Save as")),
    (b"AskF: Save as\t.profile", AskLine(AskQuestion.ASK_FILE, "AskF", "Save as")),
    (b"Guess: What?\tx", AskLine(AskQuestion.UNKNOWN, "Guess", "What?")),
    (b"no colon", AskLine(AskQuestion.UNKNOWN, "no colon", "no colon")),
    (b": nothing", AskLine(AskQuestion.UNKNOWN, "", "nothing")),
]


@pytest.mark.parametrize(("line", "read"), LINES)
def test_parse_form_line(line: bytes, read: AskLine) -> None:
    assert parse_form([line]) == AskForm((read,))


def test_form_findings_warn_before_answering() -> None:
    form = parse_form([b"AskP: Word?", b"Guess: What?"])
    assert [finding.rule for finding in form.findings(in_clear=True)] == [
        "gopher:answer-in-clear",
        "gopher:unknown-question",
    ]
    assert [finding.rule for finding in form.findings(in_clear=False)] == ["gopher:unknown-question"]


POLL = [
    b"Note: A small poll",
    b"Ask: What is your name?\tFrodo",
    b"AskP: What is your password?",
    b"Choose: Which color?\tred\tgreen\tblue",
    b"Select: Newsletter?",
    b"Select: Magazine?",
    b"Ask: Last question",
]

#: The capture of a real client's submission, the form and its answers.
SUBMITTED: list[tuple[str, list[bytes], list[Answer], bytes]] = [
    ("client-umn-ask-submit", POLL, [b"Frodo", b"secret", b"red", True, False, b"bye"], b"Text/plain En_US"),
    ("ask-form-submit-scripted-umn23", POLL, [b"Frodo", b"secret", b"green", True, False, b"bye"], b""),
    (
        "client-umn-ask-submit-askl",
        [b"Ask: Title", b"AskL: Text"],
        [b"A title", (b"line one", b"line two", b"")],
        b"Text/plain En_US",
    ),
    (
        "client-umn-ask-submit-choosef",
        [b"Note: n", b"Ask: Title", b"ChooseF: File"],
        [b"A title", None],
        b"Text/plain En_US",
    ),
    ("client-umn-ask-submit-askf", [b"AskF: Save as\tanswer.txt"], [b"answer.txt"], b"Text/plain En_US"),
]


@pytest.mark.parametrize(
    ("capture", "lines", "answers", "view"), SUBMITTED, ids=[row[0] for row in SUBMITTED]
)
def test_fill_encodes_as_real_clients(
    capture: str, lines: list[bytes], answers: list[Answer], view: bytes
) -> None:
    exchanges = json.loads((CAPTURES / f"{capture}.json").read_text())["exchanges"]
    sent = bytes.fromhex(exchanges[0]["hex"])
    url = parse_as(GopherUrl, f"gopher://h.dom/0{sent.partition(chr(9).encode())[0].decode()}")
    filled = fill(url, parse_form(lines), answers, view)
    assert encode_request(filled).octets == sent
    assert parse(build_url(filled)) == filled


def build_url(url: GopherUrl) -> str:
    from protocols.gopher import GOPHER

    return GOPHER.build(url)


def test_form_of_captured_record() -> None:
    exchanges = json.loads((CAPTURES / "ask-form-fetch-umn23.json").read_text())["exchanges"]
    reply = bytes.fromhex(exchanges[1]["hex"]).removeprefix(b"+-1\r\n").removesuffix(b".\r\n")
    form = find_form(parse_records(reply)[0])
    assert form is not None
    assert [line.word for line in form.lines] == [
        "Note",
        "Ask",
        "AskP",
        "AskL",
        "Choose",
        "Select",
        "Select",
        "Ask",
    ]
    assert [line.default for line in form.questions] == ["Frodo", None, None, "red", None, None, None]


def test_encode_answers_puts_file_last() -> None:
    form = parse_form([b"ChooseF: File", b"Ask: Title"])
    octets = encode_answers(form, [b"one\ntwo\r\n\r\nthree", b"A title"])
    assert octets == b"+\t1\r\n+-1\r\nA title\r\none\r\ntwo\r\n\r\nthree\r\n.\r\n"


#: Answers that a block with a final period cannot contain.
REFUSED: list[tuple[bytes, Answer, str]] = [
    (b"Ask: x", b".", "S03"),
    (b"AskL: x", (b"a", b".", b"b"), "S03"),
    (b"Ask: x", b"a\r\nb", "S02"),
    (b"Ask: x", b"a\nb", "S02"),
    (b"Ask: x", b"a\0b", "S02"),
    (b"AskL: x", (b"a\r",), "S02"),
    (b"ChooseF: x", b"a\0b", "S03"),
    (b"ChooseF: x", b"a\rb", "S03"),
    (b"ChooseF: x", b"a\n.\nb\n", "S03"),
    (b"Ask: x", b"y" * FORM_LIMIT, "S03"),
    (b"Choose: x\t.", b".", "S03"),
]


@pytest.mark.parametrize(("line", "answer", "rule"), REFUSED)
def test_encode_answers_refuses_unsendable_answers(line: bytes, answer: Answer, rule: str) -> None:
    with pytest.raises(Refused) as caught:
        encode_answers(parse_form([line]), [answer])
    assert caught.value.rule == rule
    assert ("few servers accept" in caught.value.message) == line.startswith(b"ChooseF")


#: Answers that do not match their questions.
MISFITS: list[tuple[list[bytes], list[Answer]]] = [
    ([b"Ask: x"], []),
    ([b"Ask: x"], [b"a", b"b"]),
    ([b"Note: x"], [b"a"]),
    ([b"Ask: x"], [True]),
    ([b"Ask: x"], [None]),
    ([b"Ask: x"], [(b"a",)]),
    ([b"Select: x"], [b"1"]),
    ([b"AskL: x"], [b"a"]),
    ([b"Choose: x\ta\tb"], [b"c"]),
    ([b"ChooseF: x"], [True]),
    ([b"ChooseF: x", b"ChooseF: y"], [b"a", b"b"]),
]


@pytest.mark.parametrize(("lines", "answers"), MISFITS)
def test_encode_answers_with_mismatched_answer_raises(lines: list[bytes], answers: list[Answer]) -> None:
    with pytest.raises(ValueError, match=r"."):
        encode_answers(parse_form(lines), answers)


def test_encode_answers_of_form_without_questions() -> None:
    assert encode_answers(parse_form([b"Note: x"]), []) == b"+\t1\r\n+-1\r\n.\r\n"


# Views: identities to send back, approximate sizes, and the kind of a requested view.

PS = "application/postscript"
VIEWS_MENU = "application/gopher+-menu"
VIEW_LINES: list[tuple[bytes, AlternateView]] = [
    (b"Text/plain En_US: <.0k>", AlternateView(b"Text/plain En_US", "Text/plain", "En_US", 0)),
    (
        b"application/postscript De_DE: <100k>",
        AlternateView(b"application/postscript De_DE", PS, "De_DE", 102_400),
    ),
    (b"image/tiff: <.5K>", AlternateView(b"image/tiff", "image/tiff", None, 512)),
    (b"application/gopher+-menu:", AlternateView(VIEWS_MENU.encode(), VIEWS_MENU, None, None)),
    (b"application/gopher+-menu: <512b>", AlternateView(VIEWS_MENU.encode(), VIEWS_MENU, None, 512)),
    (b"text/html: <1.5M>", AlternateView(b"text/html", "text/html", None, 1_572_864)),
    (b"text/html: <>", AlternateView(b"text/html", "text/html", None, None)),
    (b"text/html: <.>", AlternateView(b"text/html", "text/html", None, None)),
    (b"text/html: <huge>", AlternateView(b"text/html", "text/html", None, None)),
    (b"text/html: <12", AlternateView(b"text/html", "text/html", None, 12)),
    (
        b"text/html: <999999999999999999999999999>",
        AlternateView(b"text/html", "text/html", None, 999_999_999_999_999),
    ),
    (b"text/html", AlternateView(b"text/html", "text/html", None, None)),
    (b"", AlternateView(b"", "", None, None)),
    (b"a/b  Xx Yy : <1>", AlternateView(b"a/b  Xx Yy ", "a/b", "Xx Yy", 1)),
]


@pytest.mark.parametrize(("line", "view"), VIEW_LINES)
def test_parse_view_accepts_any_line(line: bytes, view: AlternateView) -> None:
    assert parse_view(line) == view


@pytest.mark.parametrize(
    ("view", "means"),
    [
        (b"", None),
        (b" ", None),
        (b"Text/plain En_US", (Kind.DOCUMENT, "text/plain")),
        (b"TEXT/HTML", (Kind.DOCUMENT, "text/html")),
        (b"application/gopher-menu", (Kind.DIRECTORY, "application/gopher-menu")),
        (b"application/gopher+-menu En_US", (Kind.DIRECTORY, "application/gopher+-menu")),
        (b"Directory/recursive", (Kind.DIRECTORY, "application/gopher-menu")),
        (b"Directory+/recursive", (Kind.DIRECTORY, "application/gopher+-menu")),
    ],
)
def test_kind_of_view_by_media_type(view: bytes, means: tuple[Kind, str] | None) -> None:
    assert kind_of_view(view) == means
