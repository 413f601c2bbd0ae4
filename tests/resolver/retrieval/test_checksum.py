"""Digests as they are written: by a person, in headers, beside an object."""

from __future__ import annotations

from base64 import b64encode
from hashlib import new

import pytest

from resolver.transfer.verification import Checksum, find_digest, header_checksums

OCTETS = b"octets"
SHA256 = new("sha256", OCTETS).hexdigest()
SHA512 = new("sha512", OCTETS).hexdigest()
MD5 = new("md5", OCTETS).hexdigest()


def in_base64(algorithm: str) -> str:
    return b64encode(new(algorithm, OCTETS).digest()).decode()


@pytest.mark.parametrize(
    ("text", "algorithm", "digest"),
    [
        ("auto", "auto", ""),
        (f"sha256:{SHA256}", "sha256", SHA256),
        (f"SHA-256:{SHA256.upper()}", "sha256", SHA256),
        (f"md5:{MD5}", "md5", MD5),
        (f"sha512:{SHA512}", "sha512", SHA512),
    ],
)
def test_what_a_person_writes(text: str, algorithm: str, digest: str) -> None:
    assert Checksum.parse(text) == Checksum(algorithm, digest)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "ALG:HEX"),
        ("sha256", "ALG:HEX"),
        ("AUTO", "ALG:HEX"),
        (f"crc32:{MD5[:8]}", "md5, sha1"),
        ("sha256:", "64 hex"),
        (f"sha256:{MD5}", "64 hex"),
        (f"md5:{MD5[:-1]}g", "32 hex"),
        (f"md5:{MD5}\n", "32 hex"),
        (f"md5: {MD5[1:]}", "32 hex"),
    ],
)
def test_what_no_checksum_is(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Checksum.parse(text)


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ([], []),
        ([("Repr-Digest", f"sha-256=:{in_base64('sha256')}:")], [("sha256", SHA256)]),
        ([("Digest", f"SHA-256={in_base64('sha256')}")], [("sha256", SHA256)]),
        (
            [("digest", f"md5={in_base64('md5')},sha-512={in_base64('sha512')}")],
            [("sha512", SHA512), ("md5", MD5)],
        ),
        (
            [("Repr-Digest", f"sha-512=:{in_base64('sha512')}:"), ("Digest", f"md5={in_base64('md5')}")],
            [("sha512", SHA512), ("md5", MD5)],
        ),
        ([("Repr-Digest", "sha-256=:no base64:")], []),
        ([("Repr-Digest", f"sha-256=:{in_base64('md5')}:")], []),
        ([("Repr-Digest", f"unixsum=:{in_base64('md5')}:")], []),
        ([("Content-Digest", f"sha-256=:{in_base64('sha256')}:")], []),
        ([("Content-MD5", in_base64("md5"))], []),
    ],
)
def test_what_headers_say(headers: list[tuple[str, str]], found: list[tuple[str, str]]) -> None:
    """Of the whole representation: Content-Digest is of what is sent, which may be a part of it."""
    checksums = list(header_checksums(tuple(headers)))
    assert [(checksum.algorithm, checksum.digest) for checksum in checksums] == found


@pytest.mark.parametrize(
    ("text", "listed", "found"),
    [
        (SHA256, False, True),
        (f"{SHA256}\n", False, True),
        (f"{SHA256.upper()}  file.tar\n", False, True),
        (f"{SHA256} *file.tar\r\n", False, True),
        (f"{SHA256}  ./pub/file.tar\n", False, True),
        (f"SHA256 (file.tar) = {SHA256}\n", False, True),
        (f"# made today\n\n{MD5}  file.tar\n{SHA256}  file.tar\n", False, True),
        (f"{SHA256}  other.tar\n", False, False),
        (f"{SHA256}0\n", False, False),
        (f"{MD5}\n", False, False),
        ("", False, False),
        (f"{SHA512}  other.tar\n{SHA256}  file.tar\n", True, True),
        (f"{SHA256}\n", True, False),
        (f"{SHA256}  file.tar.sig\n{SHA256}  my-file.tar\n", True, False),
        ("<html>" * 1000, True, False),
    ],
)
def test_what_stands_beside_an_object(text: str, listed: bool, found: bool) -> None:
    digest = find_digest(text, "file.tar", "sha256", listed=listed)
    assert digest == (Checksum("sha256", SHA256) if found else None)
