"""Index pages of nine servers, and pages that look like some, as they were recorded: whole and in pieces."""

from __future__ import annotations

from typing import Any

import pytest

from resolver import Entry, Finding, parse
from tests.protocols.http.index.recorded import answer_of, expected, read, reader_of

PAGES = sorted(expected())


@pytest.mark.parametrize("step", [1 << 20, 4_096, 7])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_gives_its_entries(name: str, step: int) -> None:
    listing, records = expected()[name]
    findings: list[Finding] = []
    reader = reader_of(name, findings)
    assert reader is not None
    entries = read(reader, answer_of(name)[2], step)
    if not listing:
        assert entries is None
        assert "http:no-index" in [finding.rule for finding in findings]
        return
    assert entries is not None
    assert list(map(_record, entries)) == [_expected(record) for record in records]


def _record(entry: Entry) -> dict[str, Any]:
    extra = entry.extra or {}
    moment = extra.get("modified_local") if entry.modified is None else f"{entry.modified:%Y-%m-%dT%H:%M:%S}Z"
    size, kind = entry.size, entry.kind.value
    return {"name": entry.name, "url": entry.url, "kind": kind, "size": size, "modified": moment}


def _expected(record: dict[str, Any]) -> dict[str, Any]:
    """Fractions of a second are not told apart."""
    whole, fraction, _ = (record["modified"] or "").partition(".")
    return {
        "name": record["name"],
        "url": record["url"],
        "kind": record["kind"],
        "size": record["size"],
        "modified": (f"{whole}Z" if fraction else whole) or None,
    }


@pytest.mark.parametrize("name", PAGES)
def test_every_entry_has_a_url_that_means_itself(name: str) -> None:
    """A name that leads elsewhere would be asked for there: `a%2Fb`, `..`."""
    reader = reader_of(name, [])
    assert reader is not None
    directory = parse(str(answer_of(name)[0].text))
    for entry in read(reader, answer_of(name)[2], 4_096) or []:
        assert entry.url is not None
        url = parse(entry.url)
        assert entry.url.startswith(directory.text)
        rest = entry.url.removeprefix(directory.text).removesuffix("/")
        assert rest
        assert "/" not in rest
        assert (url.scheme, url.fragment) == (directory.scheme, None)
        assert entry.extra is not None
        assert entry.extra["source"] in ("html", "json", "xml")


def test_what_is_rounded_or_without_a_zone_is_no_fact() -> None:
    reader = reader_of("apache-debian-plain", [])
    assert reader is not None
    entries = read(reader, answer_of("apache-debian-plain")[2], 4_096)
    assert entries is not None
    archive = next(entry for entry in entries if entry.name == "a.tar.gz")
    assert (archive.size, archive.modified) == (None, None)
    assert archive.extra == {
        "source": "html",
        "size_text": "39K",
        "modified_text": "2001-09-08 21:46",
        "modified_local": "2001-09-08T21:46",
    }


def test_what_is_left_out_is_told() -> None:
    for name, rule in (("written-links", "http:index-name"), ("apache-base-names", "http:index-base")):
        findings: list[Finding] = []
        reader = reader_of(name, findings)
        assert reader is not None
        read(reader, answer_of(name)[2], 4_096)
        assert rule in [finding.rule for finding in findings]


def test_xml_that_is_broken_is_no_shorter_listing() -> None:
    findings: list[Finding] = []
    reader = reader_of("nginx-xml-names", findings)
    assert reader is not None
    assert read(reader, answer_of("nginx-xml-names")[2], 64) is None
    assert "http:index-broken" in [finding.rule for finding in findings]
