"""Records and diagnostics in an answer (wais page, sections 5 and 8)."""

from __future__ import annotations

import pytest

from fixtures.wais.coding import write_diagnostic, write_element
from protocols.wais.record import (
    Diagnostic,
    DocumentHeader,
    WaisRecords,
    make_not_found,
    refusal,
    take_diagnostic,
)
from resolver import AccessDenied, Declined, NotFound, ProtocolError, TryLater
from tests.protocols.wais.captures import parse_records

ID = write_element(116, b"an id")
DIAGNOSTIC = write_diagnostic(b"SF", b"Request out of range", surrogate=True)

FULL = write_element(
    150,
    ID,
    write_element(118, b"\x02\x2a"),
    write_element(119, b"\x00"),
    write_element(120, b"\x6b"),
    write_element(131, b"\x03"),
    write_element(132, write_element(133, b"TEXT"), write_element(133, b"GIF")),
    write_element(121, b"/srv/wais/db/demo"),
    write_element(122, b"941220"),
    write_element(123, b"Harbour notes"),
    write_element(124, b"Dortmund"),
)

HEADERS = [
    (
        FULL,
        DocumentHeader(
            octets=FULL,
            document_id=b"an id",
            score=554,
            best_match=0,
            length=107,
            lines=3,
            types=(b"TEXT", b"GIF"),
            source=b"/srv/wais/db/demo",
            date=b"941220",
            headline=b"Harbour notes",
            city=b"Dortmund",
        ),
    ),
    (write_element(150, ID), DocumentHeader(octets=write_element(150, ID), document_id=b"an id")),
    # An empty type block, elements in another order, unknown elements, and a repeated element.
    (
        octets := write_element(
            150,
            write_element(132, write_element(134, b"?")),
            write_element(200, b"?"),
            write_element(118, b"\x01"),
            ID,
            write_element(118, b"\x02"),
        ),
        DocumentHeader(octets=octets, document_id=b"an id", score=1),
    ),
    # Kinds of records that are in no recording.
    (
        octets := write_element(151, ID, write_element(118, b"\x07"), write_element(131, b"\x05")),
        DocumentHeader(octets=octets, document_id=b"an id", score=7, lines=5),
    ),
    (
        octets := write_element(
            152, ID, write_element(128, b"s"), write_element(129, b"c"), write_element(130, b"i")
        ),
        DocumentHeader(
            octets=octets, document_id=b"an id", stock_codes=b"s", company_codes=b"c", industry_codes=b"i"
        ),
    ),
    (
        octets := write_element(154, ID, write_element(123, b"h")),
        DocumentHeader(octets=octets, document_id=b"an id", headline=b"h"),
    ),
    (
        octets := write_element(155, ID, write_element(128, b"s")),
        DocumentHeader(octets=octets, document_id=b"an id", stock_codes=b"s"),
    ),
]


@pytest.mark.parametrize(("octets", "header"), HEADERS)
def test_parse_document_header(octets: bytes, header: DocumentHeader) -> None:
    assert parse_records(octets) == WaisRecords(octets, (header,), (), ())


def test_parse_records_of_mixed_kinds() -> None:
    text = write_element(153, ID, write_element(117, b"\0"), write_element(127, b"octets\x1c\x1d"))
    empty = write_element(153, ID)
    seed_words = write_element(115, b"ferries")
    unknown = write_element(156, b"whatever \x1c")
    group = DIAGNOSTIC + text + unknown + FULL + seed_words + empty + DIAGNOSTIC
    records = parse_records(group)
    assert records.octets == group
    assert [header.headline for header in records.headers] == [b"Harbour notes"]
    assert records.texts == (b"octets\x1c\x1d", b"")
    assert records.diagnostics == (Diagnostic("SF", "Request out of range"),) * 2


def test_header_without_types_defaults_to_text() -> None:
    assert parse_records(write_element(150, ID)).headers[0].best_type == b"TEXT"
    assert parse_records(FULL).headers[0].best_type == b"TEXT"


@pytest.mark.parametrize(
    "group",
    [
        write_element(150),  # no id
        write_element(153, write_element(127, b"text")),
        write_element(150, ID, b"\x76"),  # bytes left over in a group
        write_element(150, ID, write_element(118)),  # a number without bytes
        write_element(
            150, ID, write_element(132, b"\x81\x05\x05TEXT")
        ),  # a type that extends beyond its block
        write_element(150, write_element(116, b"an id")[:-1]),
        FULL[:-1],
        FULL + b"\x81",
        FULL + b"\x1c",
        DIAGNOSTIC[:-1],
    ],
)
def test_parse_invalid_records_raises(group: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_records(group)


# Diagnostics: their format, and their errors (wais page, section 8).

#: The example of section 12.
UNKNOWN = (
    bytes.fromhex("1c0041 5331")
    + b"The following database is not available: /srv/wais/db/nosuchdb"
    + bytes.fromhex("00 1d")
)

GOOD = [
    (UNKNOWN, Diagnostic("S1", "The following database is not available: /srv/wais/db/nosuchdb")),
    (b"\x1c\x00\x03SF\x01\x1d", Diagnostic("SF", "")),
    (b"\x1c\x00\x03SF\x02\x1d", Diagnostic("SF", "")),
    (b"\x1c\x00\x09S1words\n\x00\x1d", Diagnostic("S1", "words")),  # a line feed at the end
    (b"\x1c\x00\x04S1\x1b\x00\x1d", Diagnostic("S1", "\ufffd")),
    (b"\x1c\x00\x04S1\xe9\x00\x1d", Diagnostic("S1", "é")),
    (b"\x1c\x00\x04S1\x1d\x00\x1d", Diagnostic("S1", "\ufffd")),  # the end byte of a record within the text
    (write_diagnostic(b"T2", b"x" * 300, surrogate=False), Diagnostic("T2", "x" * 300)),
]


@pytest.mark.parametrize(("octets", "value"), GOOD)
def test_take_diagnostic(octets: bytes, value: Diagnostic) -> None:
    assert take_diagnostic(b"ab" + octets + b"more", 2) == (value, 2 + len(octets))


@pytest.mark.parametrize(
    "octets",
    [
        b"\x1c",
        b"\x1c\x00",
        b"\x1c\x00\x02SF\x1d\x1d",  # shorter than code and flag
        b"\x1c\x00\x03SF\x01",  # truncated before the end
        b"\x1c\x00\x03SF\x01\x00",  # without the last byte
        b"\x1c\x00\x04SF\x01\x1d",  # a length that includes the last byte
        b"\x1c\xff\xffSF\x01\x1d",
        UNKNOWN[:-1],
    ],
)
def test_take_invalid_diagnostic_raises(octets: bytes) -> None:
    with pytest.raises(ProtocolError, match="diagnostic"):
        take_diagnostic(octets, 0)


REFUSALS = [
    (["T2"], AccessDenied, "T2", 6),
    (["S2"], TryLater, "S2", 8),
    (["S1"], Declined, "S1", 8),
    (["SF"], Declined, "SF", 8),  # in a search, SF is not about a document
    (["??"], Declined, "??", 8),
    (["SF", "T2"], AccessDenied, "T2", 6),
    (["S1", "T2"], Declined, "S1", 8),
]


@pytest.mark.parametrize(("codes", "kind", "code", "status"), REFUSALS)
def test_refusal_maps_codes_to_errors(codes: list[str], kind: type[Declined], code: str, status: int) -> None:
    error = refusal([Diagnostic(each, f"words of {each}") for each in codes], "the search")
    assert type(error) is kind
    assert (error.code, error.text, error.exit_code) == (code, f"words of {code}", status)
    assert error.message.startswith("the search: ")
    assert error.retryable == (kind is TryLater)


@pytest.mark.parametrize("text", ["Missing DocID in request", ""])
def test_make_not_found_has_code_and_text(text: str) -> None:
    error = make_not_found(Diagnostic("SF", text), "the document")
    assert type(error) is NotFound
    assert (error.code, error.text, error.exit_code) == ("SF", text, 8)
    assert error.message.startswith("the document: ")


def test_diagnostic_reports_end_of_document() -> None:
    said = [
        Diagnostic("SF", "Request out of range"),
        Diagnostic("SF", "Missing"),
        Diagnostic("S1", "out of range"),
    ]
    assert [each.reports_end for each in said] == [True, False, False]
    assert [each.is_out_of_range for each in said] == [True, True, False]
