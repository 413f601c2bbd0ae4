"""Results: text decoded from bytes, `repr`, and JSON with every member."""

from __future__ import annotations

import json
import pickle
from dataclasses import FrozenInstanceError, fields, replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.text import Masked
from resolver import Entry, Finding, Kind, Plan, Referrer, Response, Saved, explain
from resolver.transfer.plan import PlanStep
from resolver.transfer.response import decode_as, is_textual, looks_like_text


@pytest.mark.parametrize(
    ("octets", "charset", "text"),
    [
        (b"plain", None, "plain"),
        ("é".encode(), None, "é"),
        (b"\xe9", None, "é"),  # not UTF-8, so ISO 8859-1
        # declared as UTF-8: invalid bytes are replaced, and no other charset is tried
        (b"\xe9", "utf-8", "\ufffd"),
        (b"\xe9", "iso-8859-1", "é"),
        (b"\xe9", "no-such-charset", "é"),
        (b"abc", "idna", "abc"),
        (b"x\xff", "punycode", "xÿ"),
        (b"a-b9", "Punycode", "a-b9"),  # decoding takes quadratic time
        (b"\\x41", "unicode_escape", "\\x41"),
        (b"abc", "zlib", "abc"),
        (b"abc", "a\0b", "abc"),
    ],
)
def test_decode_as_charset(octets: bytes, charset: str | None, text: str) -> None:
    assert decode_as(octets, charset) == text


@pytest.mark.parametrize(
    ("media_type", "textual"),
    [
        ("text/plain", True),
        ("Text/HTML; charset=x", True),
        ("application/gopher-menu", True),
        ("application/atom+xml", True),
        ("application/octet-stream", False),
        ("image/gif", False),
        (None, False),
    ],
)
def test_is_textual_by_media_type(media_type: str | None, textual: bool) -> None:
    assert is_textual(media_type) is textual


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (b"", True),
        (b"lines\r\nand\ttabs\n", True),
        ("ü".encode(), True),
        ("abü".encode()[:-1], True),  # truncated inside a character
        (b"\xfc", False),
        (b"a\0b", False),
        (b"\x7fELF\x02\x01", False),
        (b"\xffabcdef", False),
    ],
)
def test_looks_like_text_by_content(octets: bytes, text: bool) -> None:
    assert looks_like_text(octets) is text


def response(**changed: object) -> Response:
    members: dict[str, object] = {
        "url": "gopher://h/0x",
        "requested_url": "gopher://h/0x",
        "kind": Kind.DOCUMENT,
        "content": b"caf\xe9",
        "media_type": "text/plain",
        "charset": None,
        "size": None,
        "modified": None,
        "meta": (),
        "entries": None,
        "findings": (Finding("S04", "warn", "a port"),),
        "verified": ("terminator",),
        "elapsed": 0.1,
    }
    return Response(**{**members, **changed})  # type: ignore[arg-type]


def test_response_of_its_members_equals_a_constructed_response() -> None:
    made = replace(response(), raw=b"caf", peer="127.0.0.1")
    same = Response.of({item.name: getattr(made, item.name) for item in fields(Response)})
    assert same == made
    assert pickle.loads(pickle.dumps(same)) == made
    with pytest.raises(FrozenInstanceError):
        same.content = b""  # type: ignore[misc]


def test_response_has_retrieval_time() -> None:
    """A result records when it was retrieved, because the URL may name another object later (S21)."""
    before = datetime.now(UTC)
    made = response()
    assert before <= made.retrieved <= datetime.now(UTC)
    moment = datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)
    assert response(retrieved=moment).as_json()["retrieved"] == "2001-09-09T01:46:40Z"


def test_response_is_jsonable() -> None:
    record = json.loads(json.dumps(response(entries=(Entry(name="n", raw=b"\xff"),)).as_json()))
    assert record["content"] == record["text"] == "café"
    assert record["entries"][0]["raw"] == "\xff"
    assert record["findings"] == [{"rule": "S04", "action": "warn", "detail": "a port"}]


def test_response_repr_is_short() -> None:
    assert repr(response()) == "<Response document 4 bytes 'gopher://h/0x' 'text/plain'>"


def saved(**changed: object) -> Saved:
    members: dict[str, object] = {
        "url": "http://h/x",
        "requested_url": "http://h/x",
        "path": "x",
        "bytes": 3,
        "resumed_from": 0,
        "kind": Kind.DOCUMENT,
        "media_type": None,
        "modified": None,
        "digest": None,
        "findings": (),
        "verified": ("length",),
        "attempts": 1,
        "elapsed": 0.1,
        "peer": None,
    }
    return Saved(**{**members, **changed})  # type: ignore[arg-type]


def test_saved_plan_and_entry_repr_are_short() -> None:
    assert repr(saved()) == "<Saved document 3 bytes 'x' 'http://h/x'>"
    assert repr(saved(path=None, skipped=True)) == "<Saved document skipped 'http://h/x'>"
    assert repr(Entry(name="a", kind=Kind.LINK)) == "<Entry link 'a'>"
    assert repr(explain("news:a.b")).startswith("<Plan allow ")


@given(st.text(), st.integers(0, 3_000), st.text(max_size=3))
def test_repr_is_one_short_printable_line(text: str, often: int, more: str) -> None:
    text = text * often + more
    facts = (Finding("S04", "warn", text),) * 50
    step: PlanStep = {"action": text}
    for value in (
        response(url=text, media_type=text, content=bytes(often), findings=facts, meta=((text, text),)),
        saved(url=text, path=text, findings=facts),
        Entry(name=text, url=text, title=text, raw=b"x" * 999, extra={"x": text}),
        Plan(Masked(text), text, "refuse", facts, (step,) * 50, None),
    ):
        shown = repr(value)
        assert len(shown) <= 200
        assert shown.isprintable()


def test_text_of_binary_response_is_none() -> None:
    assert response(media_type="image/gif").text is None


def test_entry_json_has_every_member() -> None:
    entry = Entry(
        name="x",
        kind=Kind.GROUP,
        modified=datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC),
        raw=b"\xff",
        extra={"type": "1"},
        referrer=Referrer("gopher://h/", "192.0.2.1"),
    )
    assert json.loads(json.dumps(entry.as_json())) == {
        "name": "x",
        "url": None,
        "kind": "group",
        "size": None,
        "modified": "2001-09-09T01:46:40Z",
        "title": None,
        "raw": "\xff",
        "extra": {"type": "1"},
        "origin": "derived",
        "referrer": ["gopher://h/", "192.0.2.1"],
    }
    assert Entry(name="x").as_json()["referrer"] is None


def test_saved_json_has_every_member() -> None:
    saved = Saved(
        url=Masked("http://h/x"),
        requested_url=Masked("http://h/"),
        path="x",
        bytes=3,
        resumed_from=1,
        kind=Kind.DOCUMENT,
        media_type=Masked("text/plain"),
        modified=datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC),
        digest="sha256:00",
        findings=(Finding("S04", "warn", "a port"),),
        verified=("length",),
        attempts=2,
        elapsed=0.5,
        peer="192.0.2.1",
        chain=(Masked("http://h/"),),
    )
    record = json.loads(json.dumps(saved.as_json()))
    assert list(record) == list(Saved.__dataclass_fields__)
    assert (record["kind"], record["modified"]) == ("document", "2001-09-09T01:46:40Z")
    assert record["findings"] == [{"rule": "S04", "action": "warn", "detail": "a port"}]
    assert (record["verified"], record["chain"], record["skipped"]) == (["length"], ["http://h/"], False)


def test_json_nested_too_deeply_raises_value_error() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        response(content=b"[" * 100_000).json()
