"""Checks of an archive: digests, references, and blocks that are shorter than declared."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest

from resolver.warc.check import ArchiveCheck, ArchiveFinding, ListedRecord, list_records, read_claim
from tests.resolver.warc.archives import WARC, Octets, packed, record, source_of

BLOCK = b"12345"
SHA1 = hashlib.sha1(BLOCK).digest()
SHA256 = hashlib.sha256(BLOCK).digest()
SHA512 = hashlib.sha512(BLOCK).digest()
MD5 = hashlib.md5(BLOCK).digest()


def _base32(digest: bytes) -> str:
    return base64.b32encode(digest).decode()


#: Forms of a digest, and the bytes that they encode.
WRITTEN = {
    f"sha1:{_base32(SHA1)}": SHA1,
    f"sha1:{_base32(SHA1).lower()}": SHA1,
    f"SHA-1:{SHA1.hex()}": SHA1,
    f"sha1:{base64.b64encode(SHA1).decode()}": SHA1,
    f"sha256:{SHA256.hex().upper()}": SHA256,
    f"sha256:{_base32(SHA256)}": SHA256,
    f"sha256:{_base32(SHA256).rstrip('=')}": SHA256,
    f"sha-256:{base64.b64encode(SHA256).decode().rstrip('=')}": SHA256,
    f"sha512:{_base32(SHA512)}": SHA512,
    f"md5:{MD5.hex()}": MD5,
    f"md5:{_base32(MD5)}": MD5,
}
NONE = [
    "",
    "sha1",
    "sha1:",
    "foo:abc",
    "sha1:xyz",
    f"sha1:{'0' * 32}",
    f"sha256:{SHA1.hex()}",
    f"sha1:{'é' * 32}",
]


def _findings(octets: bytes, max_records: int = 1_000_000) -> list[ArchiveFinding]:
    check = ArchiveCheck(max_records)
    return [*check.read(Octets(octets), "file"), *check.end()]


def _names(octets: bytes) -> list[tuple[str, bool]]:
    return [(finding.name, finding.is_fault) for finding in _findings(octets)]


@pytest.mark.parametrize("text", WRITTEN)
def test_read_claim_accepts_each_form_of_digest(text: str) -> None:
    claim = read_claim(text)
    assert claim is not None
    assert claim.digest == WRITTEN[text]
    assert _names(record(BLOCK, WARC_Block_Digest=text)) == []
    assert _names(record(b"12346", WARC_Block_Digest=text)) == [("warc:digest", True)]


@pytest.mark.parametrize("text", NONE)
def test_read_claim_of_invalid_digest_is_none(text: str) -> None:
    assert read_claim(text) is None
    assert _names(record(WARC_Block_Digest=text)) == [("warc:digest-unknown", False)]


def test_archive_check_wrong_payload_digest_is_a_fault_unless_block_is_right() -> None:
    wrong, right = f"sha1:{_base32(bytes(20))}", f"sha1:{_base32(SHA1)}"
    assert _names(record(WARC_Payload_Digest=wrong)) == [("warc:digest", True)]
    assert _names(record(WARC_Payload_Digest=wrong, WARC_Block_Digest=right)) == [("warc:digest", False)]


def _answer(head: bytes, body: bytes, payload: bytes | None = None, **fields: str) -> bytes:
    if payload is not None:
        fields["WARC_Payload_Digest"] = f"sha1:{_base32(hashlib.sha1(payload).digest())}"
    return record(
        head + b"\r\n\r\n" + body,
        WARC_Type="response",
        Content_Type="application/http;msgtype=response",
        **fields,
    )


RESPONSE = {"WARC_Type": "response", "Content_Type": "application/http"}
OK = b"HTTP/1.1 200 OK\r\n"
EARLY = b"HTTP/1.1 103 Early Hints\r\n\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked"
CHUNKS = b"3\r\nabc\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "findings"),
    [
        (_answer(OK + b"Content-Length: 3", b"abc", b"abc"), []),
        (_answer(OK + b"Content-Length: 4", b"abc"), ["warc:short"]),
        (_answer(OK + b"Content-Length: 4", b"abc", WARC_Truncated="disconnect"), []),
        (_answer(OK + b"Content-Length: 2", b"abc"), []),
        (_answer(EARLY + OK + b"Content-Length: 3", b"abc", b"abc"), []),
        (_answer(EARLY + OK + b"Content-Length: 4", b"abc"), ["warc:short"]),
        (_answer(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 4", b""), []),
        (_answer(CHUNKED, CHUNKS, b"abc"), []),  # as the standard intends
        (_answer(CHUNKED, CHUNKS, CHUNKS), []),  # as most tools do
        (_answer(CHUNKED, CHUNKS, b"abd"), ["warc:digest"]),
        (_answer(CHUNKED, CHUNKS[:-4]), ["warc:short"]),
        (_answer(CHUNKED, b"zz\r\n"), ["warc:short"]),
        (_answer(b"no answer", b""), ["warc:head"]),
        (_answer(b"no answer", b"", WARC_Truncated="disconnect"), []),
        (record(b"HTTP/1.1 200 OK", **RESPONSE), ["warc:head"]),
        (record(b"HTTP/1.1 " + bytes(300_000), **RESPONSE), ["warc:head"]),
    ],
)
def test_archive_check_finds_short_and_wrong_http_answers(answer: bytes, findings: list[str]) -> None:
    assert [name for name, _ in _names(answer)] == findings


def test_archive_check_digest_is_independent_of_segmentation() -> None:
    """The head of an answer may end at any position of a read."""
    for length in range(65_500, 65_560):
        head = OK + b"X: " + b"x" * length
        assert _names(packed(_answer(head, b"abc", b"abc"))) == []


def test_archive_check_finds_missing_references() -> None:
    first = record(WARC_Concurrent_To="<urn:uuid:2>")
    second = record(WARC_Record_ID="<urn:uuid:2>")
    assert _names(first + second) == []  # also forwards, as wpull writes them
    assert _names(first) == [("warc:reference", False)]
    revisit = record(b"", WARC_Type="revisit", WARC_Refers_To="<urn:uuid:1>")
    assert [name for name, _ in _names(revisit)] == ["warc:revisit"]


def test_archive_check_accepts_references_between_files() -> None:
    check = ArchiveCheck()
    for octets in (record(WARC_Refers_To="<urn:uuid:2>"), record(WARC_Record_ID="<urn:uuid:2>")):
        assert list(check.read(Octets(octets), "file")) == []
    assert list(check.end()) == []


def test_archive_check_limits_remembered_records() -> None:
    octets = b"".join(record(WARC_Record_ID=f"<{n}>", WARC_Refers_To=f"<{n + 1}>") for n in range(4))
    (finding,) = _findings(octets, max_records=3)
    assert (finding.name, finding.is_fault) == ("warc:reference", False)
    assert "3 records" in finding.message


def test_archive_check_finds_missing_duplicate_and_malformed_fields() -> None:
    octets = record(WARC_Date="22.11.2026", WARC_Target_URI="a:\r\nWARC-Target-URI: b:")
    messages = [finding.message for finding in _findings(octets.replace(b"WARC-Type: resource\r\n", b""))]
    fields = ("WARC-Type", "WARC-Date", "warc-target-uri")
    assert all(field in message for field, message in zip(fields, messages, strict=True))


#: The findings of each recorded file, apart from `warc:reference`.
RECORDED: dict[str, list[str]] = {
    **{name: [] for name in ("file", "ftp", "gopher", "http", "news", "prospero", "wais")},
    "foreign/wget-http": ["warc:short"] * 3,
    "foreign/wget-ftp": [],
    "foreign/wget-dedup": ["warc:digest"],
    "foreign/wpull": [],
}


@pytest.mark.parametrize("name", RECORDED)
def test_archive_check_recorded_files_have_no_fault(name: str) -> None:
    check = ArchiveCheck()
    findings = [*check.read(source_of(f"{name}.warc.gz"), name), *check.end()]
    assert not any(finding.is_fault for finding in findings)
    assert [finding.name for finding in findings if finding.name != "warc:reference"] == RECORDED[name]


def test_archive_check_hostile_files_have_a_fault() -> None:
    for path in (WARC / "hostile").glob("*.warc*"):
        findings = _findings(path.read_bytes())
        readable = {"one-member", "names", "bomb-body", "digest-unknown", "revisit-loop"}
        assert any(finding.is_fault for finding in findings) == (path.name.split(".")[0] not in readable), (
            path.name
        )


def test_list_records_with_interim_response_has_final_status() -> None:
    (listed,) = list_records(Octets(_answer(EARLY + OK, b"")))
    assert isinstance(listed, ListedRecord)
    assert listed.kind == "200"


@pytest.mark.parametrize("outcome", [[], {}, None, 1, "other"])
def test_list_records_with_invalid_outcome_has_no_kind(outcome: object) -> None:
    block = f"dialogue: {json.dumps({'event': 'end', 'outcome': outcome})}\r\n".encode()
    (listed,) = list_records(Octets(record(block, WARC_Type="metadata")))
    assert isinstance(listed, ListedRecord)
    assert listed.kind == "-"
