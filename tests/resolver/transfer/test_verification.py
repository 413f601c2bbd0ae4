"""Checksums from the user, from header fields and from files beside the object; `auto`; expected sizes."""

from __future__ import annotations

import gzip
import os
import sys
import time
from base64 import b64encode
from dataclasses import dataclass, replace
from hashlib import new
from pathlib import Path

import pytest
import trio

from fixtures.gopher import FLAVORS as GOPHER_FLAVORS
from fixtures.gopher import Flavor, Item
from fixtures.gopher import serve as serve_gopher
from fixtures.http import Behavior, HttpServer, Page, moved, serve
from resolver import ChecksumMismatch, Resolver, RetryPolicy, Saved
from resolver.transfer.saving import Exists
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
def test_checksum_parse_valid(text: str, algorithm: str, digest: str) -> None:
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
def test_checksum_parse_invalid_is_a_value_error(text: str, words: str) -> None:
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
def test_header_checksums_of_representation(
    headers: list[tuple[str, str]], found: list[tuple[str, str]]
) -> None:
    """The digest must cover the whole representation. A Content-Digest may cover only a range."""
    checksums = list(header_checksums(tuple(headers)))
    assert [(checksum.algorithm, checksum.digest) for checksum in checksums] == found


@pytest.mark.parametrize("unit", ["a", " ", "a=", "a=a,", ",", "=:"])
def test_header_checksums_of_long_field_take_linear_time(unit: str) -> None:
    """The text has the maximum length of a header field. Quadratic work would take 10 s."""
    began = time.process_time()
    assert list(header_checksums((("Digest", unit * (65_536 // len(unit)) + "!"),))) == []
    assert time.process_time() - began < 2


def test_find_digest_parses_no_line_without_digest() -> None:
    """The largest checksum file has 4 million empty lines, which would block the program for a second."""
    events: list[str] = []
    sys.setprofile(lambda frame, event, argument: events.append(event))
    found = find_digest("\n" * 1_000 + SHA256, "file.tar", "sha256")
    sys.setprofile(None)
    assert found is not None
    assert events.count("call") < 10


@pytest.mark.parametrize(
    ("text", "listed", "found"),
    [
        (SHA256, False, True),
        (f"{SHA256}\n", False, True),
        (f"{SHA256.upper()}  file.tar\n", False, True),
        (f"{SHA256} *file.tar\r\n", False, True),
        (f"{SHA256}  ./pub/file.tar\n", False, True),
        (f"SHA256 (file.tar) = {SHA256}\n", False, True),
        (f"SHA2-256(file.tar)= {SHA256}\n", False, True),
        (f"SHA-256 (file.tar) = {SHA256}\n", True, True),
        (f"SHA3-256 (file.tar) = {'0' * 64}\nSHA256 (file.tar) = {SHA256}\n", True, True),
        (f"SHA512/256 (file.tar) = {SHA256}\n", False, False),
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
def test_find_digest_in_checksum_files(text: str, listed: bool, found: bool) -> None:
    digest = find_digest(text, "file.tar", "sha256", listed=listed)
    assert digest == (Checksum("sha256", SHA256) if found else None)


@pytest.mark.parametrize("end", ["\x0b", "\x0c", "\r", "\x1c", "\x85", "\u2028", "\u2029"])
def test_find_digest_name_of_other_file_is_no_line(end: str) -> None:
    """`sha256sum` escapes only LF, backslash and, since version 9.0, CR in a name."""
    planted = f"{'0' * 64}  a{end}{'1' * 64}  file.tar\n"
    result = find_digest(f"{planted}{SHA256}  file.tar\n", "file.tar", "sha256", listed=True)
    assert result == Checksum("sha256", SHA256)


# A file gets its name only if the digest matches. With `auto`, the client asks the object's server in a fixed
# order.

OBJECT = bytes(range(250)) * 100
WRONG = OBJECT[::-1]
PAGE = Page(OBJECT, "application/octet-stream", parts=True)
ORDER = ("object.sha256", "object.sha512", "object.md5", "SHA256SUMS", "md5sums.txt")


def digest(algorithm: str, octets: bytes = OBJECT) -> str:
    return new(algorithm, octets).hexdigest()


def header(name: str, octets: bytes = OBJECT) -> tuple[str, str]:
    return name, f"sha-256=:{b64encode(new('sha256', octets).digest()).decode()}:"


async def save(url: str, folder: Path, checksum: str, *, tries: int = 1) -> Saved:
    async with Resolver(patience=RetryPolicy(tries=tries, delay=0.0)) as session:
        return await session.save(url, folder / "object", checksum=checksum)


def asked(server: HttpServer) -> list[str]:
    return [request.path.removeprefix("/pub/") for request in server.requests]


def sidecars(**texts: str) -> dict[str, Page]:
    """Return the pages of files beside the object. `_` stands for the period in a name."""
    return {f"/pub/{name.replace('_', '.')}": Page(text.encode()) for name, text in texts.items()}


@pytest.mark.parametrize("algorithm", ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"])
async def test_save_with_matching_digest_is_verified(
    algorithm: str, nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery, {"/pub/object": PAGE})
    saved = await save(server.url("/pub/object"), tmp_path, f"{algorithm}:{digest(algorithm)}")
    assert saved.verified == ("digest", "length")
    assert asked(server) == ["object"]


async def test_save_with_wrong_digest_removes_file(nursery: trio.Nursery, tmp_path: Path) -> None:
    """After a wrong digest the object is fetched again from the beginning.

    After the second mismatch the file is removed.
    """
    server = await serve(nursery, {"/pub/object": PAGE})
    with pytest.raises(ChecksumMismatch) as caught:
        await save(server.url("/pub/object"), tmp_path, f"sha256:{digest('sha256', WRONG)}", tries=9)
    assert (caught.value.exit_code, caught.value.attempts) == (10, 2)
    assert digest("sha256") in caught.value.message
    assert asked(server) == ["object", "object"]
    assert all(request.values("range") == [] for request in server.requests)
    assert os.listdir(tmp_path) == []


async def test_save_with_digest_matching_on_retry(nursery: trio.Nursery, tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(WRONG)
    server = await serve(
        nursery, {"/pub/object": PAGE}, {"/pub/object": Behavior(instead=head + WRONG, times=1)}
    )
    saved = await save(server.url("/pub/object"), tmp_path, f"sha256:{digest('sha256')}")
    assert (tmp_path / "object").read_bytes() == OBJECT
    assert (saved.verified, saved.attempts) == (("digest", "length"), 2)
    assert [finding.rule for finding in saved.findings] == ["save:mismatch"]


@pytest.mark.parametrize(("exists", "old"), [("replace", b"old"), ("resume", OBJECT[:9_000])])
async def test_wrong_digest_keeps_existing_file(
    exists: Exists, old: bytes, nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery, {"/pub/object": PAGE})
    (tmp_path / "object").write_bytes(old)
    async with Resolver() as session:
        with pytest.raises(ChecksumMismatch):
            await session.save(
                server.url("/pub/object"),
                tmp_path / "object",
                exists=exists,
                checksum=f"sha256:{digest('sha256', WRONG)}",
            )
    assert os.listdir(tmp_path) == ["object"]
    assert (tmp_path / "object").read_bytes() == old


# Checksum `auto`.


@dataclass(frozen=True)
class Row:
    """A case: the files beside the object, and how many names of `ORDER` precede the digest, inclusive."""

    beside: dict[str, Page]
    asked: int
    page: Page = PAGE
    verified: bool = True


ROWS = {
    "header": Row({}, 0, replace(PAGE, headers=(header("Repr-Digest"),))),
    "older header": Row({}, 0, replace(PAGE, headers=(("Digest", header("")[1].replace(":", "")),))),
    "header before all": Row(
        sidecars(object_sha256=digest("sha256", WRONG)), 0, replace(PAGE, headers=(header("Repr-Digest"),))
    ),
    "sha256": Row(sidecars(object_sha256=f"{digest('sha256')}  object\n", object_md5="0" * 32), 1),
    "sha512": Row(sidecars(object_sha512=digest("sha512"), object_md5="0" * 32), 2),
    "md5": Row(sidecars(object_md5=digest("md5"), SHA256SUMS="0" * 64 + "  object"), 3),
    "SHA256SUMS": Row(sidecars(SHA256SUMS=f"{'0' * 64}  other\n{digest('sha256')} *object\n"), 4),
    "md5sums.txt": Row(sidecars(md5sums_txt=f"MD5 (object) = {digest('md5')}\n"), 5),
    "not of this name": Row(
        sidecars(object_sha256=f"{'0' * 64}  another\n", md5sums_txt=f"{digest('md5')}  object\n"), 5
    ),
    "nothing": Row({}, 5, verified=False),
    "a page for what is missing": Row(sidecars(object_sha256="<html>Not here</html>"), 5, verified=False),
    "elsewhere": Row({"/pub/object.sha256": moved("/else"), "/else": Page(b"0" * 64)}, 5, verified=False),
    "a header of the octets as they were coded": Row(
        {},
        5,
        Page(
            gzip.compress(OBJECT, mtime=0),
            headers=(header("Repr-Digest", gzip.compress(OBJECT, mtime=0)), ("Content-Encoding", "gzip")),
        ),
        verified=False,
    ),
}


async def test_checksum_of_decoded_file_names_the_setting(nursery: trio.Nursery, tmp_path: Path) -> None:
    """mini_httpd 1.30 sends a `.gz` file with this field, and the published digest is of the `.gz` file."""
    packed = gzip.compress(OBJECT, mtime=0)
    page = Page(packed, media_type="application/x-gzip", headers=(("Content-Encoding", "gzip"),))
    server = await serve(nursery, {"/a.gz": page})
    checksum = f"sha256:{new('sha256', packed).hexdigest()}"
    async with Resolver(patience=RetryPolicy(tries=1)) as session:
        with pytest.raises(ChecksumMismatch, match="after the body was decoded") as caught:
            await session.save(server.url("/a.gz"), tmp_path / "a.gz", checksum=checksum)
    assert (caught.value.setting, caught.value.exit_code) == ("raw", 10)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
async def test_checksum_auto_asks_in_fixed_order(row: Row, nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, {"/pub/object": row.page, **row.beside})
    saved = await save(server.url("/pub/object"), tmp_path, "auto")
    sent = [path for path in asked(server) if path != "/else"]
    assert sent == ["object", *ORDER[: row.asked]]
    assert ("digest" in saved.verified) is row.verified
    assert ("save:no-checksum" in {finding.rule for finding in saved.findings}) is not row.verified
    assert (tmp_path / "object").read_bytes() == OBJECT


async def test_checksum_auto_mismatch_is_an_error(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, {"/pub/object": PAGE, **sidecars(object_sha256=digest("sha256", WRONG))})
    with pytest.raises(ChecksumMismatch):
        await save(server.url("/pub/object"), tmp_path, "auto")
    assert asked(server) == ["object", "object.sha256", "object", "object.sha256"]
    assert os.listdir(tmp_path) == []


async def test_checksum_auto_with_failing_sidecar_is_a_warning(nursery: trio.Nursery, tmp_path: Path) -> None:
    """A digest that cannot be fetched is a warning. An exceeded total timeout is an error."""
    server = await serve(nursery, {"/pub/object": PAGE}, {"/pub/object.sha256": Behavior(reset_at=0)})
    saved = await save(server.url("/pub/object"), tmp_path, "auto")
    assert saved.verified == ("length",)
    assert [finding.rule for finding in saved.findings] == ["save:no-checksum"]
    assert (tmp_path / "object").read_bytes() == OBJECT


async def test_checksum_auto_for_local_file(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "object").write_bytes(OBJECT)
    (source / "object.md5").write_text(digest("md5"))
    saved = await save((source / "object").as_uri(), tmp_path, "auto")
    assert "digest" in saved.verified
    (source / "object.md5").write_text(digest("md5", WRONG))
    (tmp_path / "object").unlink()
    with pytest.raises(ChecksumMismatch):
        await save((source / "object").as_uri(), tmp_path, "auto")


async def test_checksum_auto_for_gopher_text_sends_nothing(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve_gopher(nursery)
    saved = await save(server.url("00/about"), tmp_path, "auto")
    assert len(server.requests) == 1
    assert [finding.rule for finding in saved.findings][-1:] == ["save:no-checksum"]


def holding(**beside: bytes) -> dict[bytes, Item]:
    """Return the gopher items: a binary item and the items beside it. `_` stands for the period in a name."""
    named = {name.replace("_", ".").encode(): octets for name, octets in beside.items()}
    return {
        b"9/pub/object": Item("9", b"object", OBJECT),
        **{b"9/pub/" + name: Item("9", name, octets) for name, octets in named.items()},
    }


GOPHER = {
    "sha256": (holding(object_sha256=f"{digest('sha256')}  object\n".encode()), 1),
    "bare": (holding(object_sha512=digest("sha512").encode()), 2),
    "manifest": (holding(SHA256SUMS=f"{digest('sha256')}  ./object\n".encode()), 4),
    "of another": (holding(SHA256SUMS=f"{digest('sha256')}  object2\n".encode()), 5),
}


@pytest.mark.parametrize("flavor", GOPHER_FLAVORS, ids=lambda flavor: flavor.name)
@pytest.mark.parametrize("way", GOPHER)
async def test_checksum_auto_for_gopher_binary(
    way: str, flavor: Flavor, nursery: trio.Nursery, tmp_path: Path
) -> None:
    """The digest files are found, however the server answers requests for missing selectors."""
    tree, count = GOPHER[way]
    server = await serve_gopher(nursery, tree, flavor)
    saved = await save(server.url("99/pub/object"), tmp_path, "auto")
    verified = way != "of another"
    assert ("digest" in saved.verified) is verified
    assert ("save:no-checksum" in {finding.rule for finding in saved.findings}) is not verified
    selectors = [request.selector.removeprefix(b"9/pub/").decode() for request in server.requests]
    assert selectors == ["object", *ORDER[:count]]
    assert (tmp_path / "object").read_bytes() == OBJECT


async def test_checksum_auto_for_gopher_mismatch_is_an_error(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve_gopher(nursery, holding(object_md5=digest("md5", WRONG).encode()))
    with pytest.raises(ChecksumMismatch):
        await save(server.url("99/pub/object"), tmp_path, "auto")
    assert os.listdir(tmp_path) == []


async def save_sized(url: str, folder: Path, size: int, *mirrors: str) -> Saved:
    async with Resolver(patience=RetryPolicy(tries=2, delay=0.0)) as session:
        return await session.save(url, folder / "object", size=size, mirrors=mirrors)


async def test_expected_size_is_verified(nursery: trio.Nursery, tmp_path: Path) -> None:
    """The size counts as verified, even if the server does not announce a size."""
    server = await serve(nursery, {"/pub/object": replace(PAGE, framing="close")})
    saved = await save_sized(server.url("/pub/object"), tmp_path, len(OBJECT))
    assert "length" in saved.verified


async def test_announced_other_size_is_a_mismatch(nursery: trio.Nursery, tmp_path: Path) -> None:
    """The client does not read the body, and tries the next location."""
    server = await serve(nursery, {"/pub/object": Page(OBJECT + b"!"), "/elsewhere/object": PAGE})
    (alone := tmp_path / "alone").mkdir()
    saved = await save_sized(
        server.url("/pub/object"), tmp_path, len(OBJECT), server.url("/elsewhere/object")
    )
    assert (tmp_path / "object").read_bytes() == OBJECT
    assert saved.mirror == server.url("/elsewhere/object")
    with pytest.raises(ChecksumMismatch, match=rf"\b{len(OBJECT) + 1}\b.*\b{len(OBJECT)}\b"):
        await save_sized(server.url("/pub/object"), alone, len(OBJECT))
    assert os.listdir(alone) == []


async def test_wrong_size_at_end_is_a_mismatch(nursery: trio.Nursery, tmp_path: Path) -> None:
    """After a wrong size the object is fetched again. After the second mismatch the file is removed."""
    server = await serve(nursery, {"/pub/object": replace(PAGE, framing="close")})
    with pytest.raises(ChecksumMismatch) as caught:
        await save_sized(server.url("/pub/object"), tmp_path, len(OBJECT) + 1)
    assert caught.value.exit_code == 10
    assert asked(server) == ["object", "object"]
    assert os.listdir(tmp_path) == []


async def test_wrong_digest_tries_other_mirrors_first(nursery: trio.Nursery, tmp_path: Path) -> None:
    """Each location is tried once; the location of the correct object is reported."""
    wrong = replace(PAGE, content=WRONG)
    server = await serve(nursery, {"/pub/object": wrong, "/pub/two": wrong, "/pub/three": PAGE})
    mirrors = [server.url("/pub/two"), server.url("/pub/none"), server.url("/pub/three")]
    async with Resolver(patience=RetryPolicy(tries=2, delay=0.0)) as session:
        saved = await session.save(
            server.url("/pub/object"),
            tmp_path / "object",
            checksum=f"sha256:{digest('sha256')}",
            mirrors=mirrors,
        )
        assert asked(server) == ["object", "two", "none", "three"]
        assert (saved.mirror, saved.attempts) == (server.url("/pub/three"), 4)
        assert (tmp_path / "object").read_bytes() == OBJECT
        with pytest.raises(ChecksumMismatch):
            await session.save(
                server.url("/pub/object"), tmp_path / "other", checksum=f"md5:{'0' * 32}", mirrors=mirrors[:1]
            )
    assert asked(server)[4:] == ["object", "two"]
    assert os.listdir(tmp_path) == ["object"]
