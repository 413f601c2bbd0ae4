"""Diagnostics: their format, and what errors they become (wais page, section 8)."""

from __future__ import annotations

import pytest

from fixtures.wais.coding import write_diagnostic
from protocols.wais.record import Diagnostic, missing, refusal, take_diagnostic
from resolver import AccessDenied, Declined, NotFound, ProtocolError, TryLater

#: The one of section 12.
UNKNOWN = (
    bytes.fromhex("1c0041 5331")
    + b"The following database is not available: /srv/wais/db/nosuchdb"
    + bytes.fromhex("00 1d")
)

GOOD = [
    (UNKNOWN, Diagnostic("S1", "The following database is not available: /srv/wais/db/nosuchdb")),
    (b"\x1c\x00\x03SF\x01\x1d", Diagnostic("SF", "", True)),
    (b"\x1c\x00\x03SF\x02\x1d", Diagnostic("SF", "", True)),
    (b"\x1c\x00\x09S1words\n\x00\x1d", Diagnostic("S1", "words")),  # a line feed at the end
    (b"\x1c\x00\x04S1\x1b\x00\x1d", Diagnostic("S1", "\ufffd")),
    (b"\x1c\x00\x04S1\xe9\x00\x1d", Diagnostic("S1", "é")),
    (b"\x1c\x00\x04S1\x1d\x00\x1d", Diagnostic("S1", "\ufffd")),  # the octet that ends a record, inside it
    (write_diagnostic(b"T2", b"x" * 300, surrogate=False), Diagnostic("T2", "x" * 300)),
]


@pytest.mark.parametrize(("octets", "value"), GOOD)
def test_diagnostics(octets: bytes, value: Diagnostic) -> None:
    assert take_diagnostic(b"ab" + octets + b"more", 2) == (value, 2 + len(octets))


@pytest.mark.parametrize(
    "octets",
    [
        b"\x1c",
        b"\x1c\x00",
        b"\x1c\x00\x02SF\x1d\x1d",  # shorter than code and flag
        b"\x1c\x00\x03SF\x01",  # cut before its end
        b"\x1c\x00\x03SF\x01\x00",  # without the last octet
        b"\x1c\x00\x04SF\x01\x1d",  # a length that counts the last octet
        b"\x1c\xff\xffSF\x01\x1d",
        UNKNOWN[:-1],
    ],
)
def test_what_is_no_diagnostic(octets: bytes) -> None:
    with pytest.raises(ProtocolError, match="diagnostic"):
        take_diagnostic(octets, 0)


REFUSALS = [
    (["T2"], AccessDenied, "T2", 6),
    (["S2"], TryLater, "S2", 8),
    (["S1"], Declined, "S1", 8),
    (["SF"], Declined, "SF", 8),  # in a search it says nothing of a document
    (["??"], Declined, "??", 8),
    (["SF", "T2"], AccessDenied, "T2", 6),
    (["S1", "T2"], Declined, "S1", 8),
]


@pytest.mark.parametrize(("codes", "kind", "code", "status"), REFUSALS)
def test_refusals(codes: list[str], kind: type[Declined], code: str, status: int) -> None:
    error = refusal([Diagnostic(each, f"words of {each}") for each in codes], "the search")
    assert type(error) is kind
    assert (error.code, error.text, error.exit_code) == (code, f"words of {code}", status)
    assert error.message.startswith("the search: ")
    assert error.retryable == (kind is TryLater)


@pytest.mark.parametrize("text", ["Missing DocID in request", ""])
def test_a_document_that_is_not_there(text: str) -> None:
    error = missing(Diagnostic("SF", text, True), "the document")
    assert type(error) is NotFound
    assert (error.code, error.text, error.exit_code) == ("SF", text, 8)
    assert error.message.startswith("the document: ")


def test_who_tells_the_end() -> None:
    said = [
        Diagnostic("SF", "Request out of range"),
        Diagnostic("SF", "Missing"),
        Diagnostic("S1", "out of range"),
    ]
    assert [each.reports_the_end for each in said] == [True, False, False]
    assert [each.is_out_of_range for each in said] == [True, True, False]
