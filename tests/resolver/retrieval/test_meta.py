"""What a sidecar says: how a file came, in full, and no secret."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trio

from fixtures.gopher import serve as serve_gopher
from fixtures.http import Page, moved, serve
from resolver import ChecksumMismatch, Kind, Resolver, Saved
from resolver.transfer.saving import meta_octets
from resolver.version import VERSION

CONTRACT = Path(__file__).parents[3] / "docs/reference/contract.md"
OBJECT = b"octets of the object\n"
MD5, SHA256 = (hashlib.new(name, OBJECT).hexdigest() for name in ("md5", "sha256"))
PAGE = Page(
    OBJECT,
    "application/octet-stream",
    headers=(
        ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("ETag", '"one"'),
        ("Set-Cookie", "session=sekret; Path=/"),
        ("X-Octet", "\xe9"),
    ),
)


def sidecar(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "object.meta.json").read_bytes())
    return found


async def test_all_that_is_known(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, {"/object": PAGE, "/first": moved("/second"), "/second": moved("/object")})
    url = server.url("/first").replace("//", "//me:sekret@")
    shown = server.url("/first").replace("//", "//me:****@")
    before = datetime.now(UTC).replace(microsecond=0)
    async with Resolver() as session:
        saved = await session.save(url, tmp_path / "object", meta=True, checksum=f"md5:{MD5}")
    found = sidecar(tmp_path)
    assert "sekret" not in (tmp_path / "object.meta.json").read_text()
    assert before <= datetime.fromisoformat(found.pop("retrieved")) <= datetime.now(UTC)
    headers = {name.lower(): value for name, value in found.pop("headers")}
    assert headers["set-cookie"] == "session=****; Path=/"
    assert headers["x-octet"] == "\xe9"
    assert found == {
        "format": "url-resolver meta 1",
        "version": VERSION,
        "url": shown,
        "final_url": found["final_url"],
        "chain": [shown, found["chain"][1]],
        "addresses": ["127.0.0.1"] * 3,
        "proxy": None,
        "mirror": None,
        "bytes": len(OBJECT),
        "digests": {"sha256": SHA256, "md5": MD5},
        "verified": ["digest", "length"],
        "attempts": 1,
        "resumed_from": 0,
        "kind": "document",
        "media_type": "application/octet-stream",
        "charset": None,
        "modified": "1994-11-06T08:49:37Z",
        "validators": {"size": len(OBJECT), "modified": "1994-11-06T08:49:37Z", "etag": '"one"'},
        "title": None,
        "extra": {"status": 200},
        "findings": [],
    }
    assert found["final_url"].endswith("/object")
    assert found["chain"][1].endswith("/second")
    assert saved.digest == f"sha256:{SHA256}"


def test_the_members_stand_in_the_house() -> None:
    told = CONTRACT.read_text().partition("into `NAME.meta.json`:")[2].partition(".\n")[0].split()
    saved = Saved(
        url="x:",
        requested_url="x:",
        findings=(),
        verified=(),
        elapsed=0.0,
        kind=Kind.DOCUMENT,
        path="x",
        bytes=0,
        resumed_from=0,
        digest=None,
        attempts=1,
    )
    assert told == list(json.loads(meta_octets(saved, ("127.0.0.1",), None)))


async def test_what_a_scheme_does_not_tell(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve_gopher(nursery)
    async with Resolver() as session:
        saved = await session.save(
            f"gopher://127.0.0.1:{server.port}/00/about", tmp_path / "object", meta=True
        )
    found = sidecar(tmp_path)
    assert (found["addresses"], found["chain"], found["validators"]["etag"]) == (["127.0.0.1"], [], None)
    assert [finding["rule"] for finding in found["findings"]] == ["S04"]
    assert found["bytes"] == saved.bytes == (tmp_path / "object").stat().st_size


@pytest.mark.parametrize("exists", ["skip", "newer"])
async def test_a_file_that_stays_keeps_its_own(exists: Any, nursery: trio.Nursery, tmp_path: Path) -> None:
    """And gets none where it has none: nothing is known of how it came."""
    server = await serve(nursery, {"/object": PAGE})
    async with Resolver() as session:
        await session.save(server.url("/object"), tmp_path / "object", meta=True)
        before = (tmp_path / "object.meta.json").stat()
        again = await session.save(server.url("/object"), tmp_path / "object", meta=True, exists=exists)
        assert again.skipped
        assert (tmp_path / "object.meta.json").stat().st_ino == before.st_ino
        (tmp_path / "object.meta.json").unlink()
        await session.save(server.url("/object"), tmp_path / "object", meta=True, exists=exists)
    assert os.listdir(tmp_path) == ["object"]


async def test_each_name_has_its_own(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, {"/object": PAGE})
    async with Resolver() as session:
        for _ in range(2):
            await session.save(server.url("/object"), tmp_path / "a.bin", meta=True, exists="rename")
    assert sorted(os.listdir(tmp_path)) == ["a.2.bin", "a.2.bin.meta.json", "a.bin", "a.bin.meta.json"]


async def test_what_is_not_whole_has_none(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, {"/object": PAGE})
    async with Resolver() as session:
        with pytest.raises(ChecksumMismatch):
            await session.save(
                server.url("/object"), tmp_path / "object", meta=True, checksum=f"md5:{'0' * 32}"
            )
    assert os.listdir(tmp_path) == []
