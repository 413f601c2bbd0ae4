"""Saving: existing files, partial files of earlier runs, mirrors, dry runs, and the sidecar."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import trio

from fixtures.gopher import serve as serve_gopher
from fixtures.http import Behavior, HttpServer, Page, Request, moved, serve
from fixtures.http.server import encode
from protocols.text import Masked
from resolver import (
    ChecksumMismatch,
    Declined,
    Disconnected,
    Kind,
    LocalError,
    NotFound,
    ResolveError,
    Resolver,
    Retrying,
    RetryPolicy,
    Saved,
    Truncated,
    Validators,
)
from resolver.files.directory import DirectoryHandle
from resolver.files.partial_file import PartialFile
from resolver.transfer import saving
from resolver.transfer.retry import OVERLAP
from resolver.transfer.saving import Exists, SaveSettings, meta_octets
from resolver.version import VERSION

OBJECT = bytes(range(250)) * 100
HALF = len(OBJECT) // 2
WHEN = datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC)
DATED = ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")
PAGE = Page(OBJECT, "application/octet-stream", headers=(DATED, ("ETag", '"1"')), parts=True)
UNDATED = replace(PAGE, headers=())
#: Half of the object is sent, although the head announces all of it.
CUT = Behavior(cut_at=len(encode(Request("GET", "/object"), PAGE)) - HALF)
ONCE = RetryPolicy()
EVERY_WAY: tuple[Exists, ...] = ("fail", "resume", "skip", "newer", "replace", "rename")
PATIENT = RetryPolicy(tries=3, delay=0.0)
DIGEST = f"sha256:{sha256(OBJECT).hexdigest()}"


async def save(
    server: HttpServer, folder: Path, exists: Exists = "fail", *, patience: RetryPolicy = ONCE
) -> Saved:
    async with Resolver(patience=patience) as session:
        return await session.save(server.url("/object"), folder / "object", exists=exists)


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in sorted(os.listdir(folder))}


def methods(server: HttpServer) -> list[str]:
    return [request.method for request in server.requests]


async def test_save_with_string_of_mirrors_is_type_error(tmp_path: Path) -> None:
    """Each character of the string would be a mirror."""
    async with Resolver() as session:
        with pytest.raises(TypeError, match="'mirrors' must be a list") as caught:
            await session.save("http://127.0.0.1:9/a", tmp_path / "a", mirrors="ftp://me:secret@h/b")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("wrong", [5, b"sha256:00", ["auto"]])
async def test_save_with_checksum_of_wrong_type_sends_nothing(
    wrong: Any, nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery, {"/object": PAGE})
    async with Resolver() as session:
        with pytest.raises(TypeError, match=r"^'checksum' must be a string or a Checksum, got "):
            await session.save(server.url("/object"), tmp_path / "object", checksum=wrong)
    assert server.requests == []


# Saving when a file with the same name exists.


@pytest.mark.parametrize("exists", ["overwrite", None, True])
async def test_save_with_unknown_exists_sends_nothing(
    exists: Exists, nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery, {"/object": Page(b"x")})
    with pytest.raises(ValueError, match="exists must be one of fail, resume, skip, newer, replace, rename"):
        await save(server, tmp_path, exists)
    assert (server.requests, os.listdir(tmp_path)) == ([], [])


@dataclass(frozen=True)
class Row:
    """A case: the existing file `held`, its time `held_at`, and the expected requests, files and findings.

    `page` is the object on the server.
    """

    exists: Exists
    held: bytes
    asked: tuple[str, ...]
    after: Mapping[str, bytes]
    held_at: float = WHEN.timestamp()
    page: Page = PAGE
    skipped: bool = False
    resumed_from: int = 0
    told: tuple[str, ...] = ()


class Heeding:
    """A server that responds with 304 only if the time in the request is exactly equal, as nginx does."""

    def answer(self, request: Request, page: Page) -> Page:
        since = request.values("if-modified-since")
        return page if since != [DATED[1]] else replace(page, content=b"", status=304, reason="Not Modified")


NEW = {"object": OBJECT}
SAME = bytes(len(OBJECT))
HEEDED = replace(PAGE, guard=Heeding())
ROWS = {
    "skip": Row("skip", b"old", (), {"object": b"old"}, skipped=True),
    "newer, and it is not": Row("newer", SAME, ("GET",), {"object": SAME}, skipped=True),
    "newer, and it is": Row("newer", b"old", ("GET",), NEW, held_at=WHEN.timestamp() - 10),
    "newer, and ours is": Row(
        "newer", b"our", ("GET",), {"object": b"our"}, held_at=WHEN.timestamp() + 10, skipped=True
    ),
    "newer, within what clocks differ": Row(
        "newer", SAME, ("GET",), {"object": SAME}, held_at=WHEN.timestamp() - 2, skipped=True
    ),
    "newer, of the same time and another size": Row("newer", b"old", ("GET",), NEW),
    "newer, and the server heeds the condition": Row(
        "newer", b"old", ("GET",), {"object": b"old"}, page=HEEDED, skipped=True
    ),
    "newer, and it is by the condition": Row(
        "newer", b"old", ("GET",), NEW, held_at=WHEN.timestamp() - 10, page=HEEDED
    ),
    "newer, but nobody knows": Row("newer", b"old", ("GET",), NEW, page=UNDATED),
    "replace": Row("replace", b"old", ("GET",), NEW),
    "rename": Row("rename", b"old", ("GET",), {"object": b"old", "object.2": OBJECT}),
    "resume": Row("resume", OBJECT[:HALF], ("GET",), NEW, resumed_from=HALF),
    "resume, and it is whole": Row("resume", OBJECT, ("GET",), NEW, resumed_from=len(OBJECT)),
    "resume, of another object": Row("resume", b"x" * HALF, ("GET", "GET"), NEW, told=("save:restarted",)),
    "resume, with too much": Row("resume", OBJECT + b"more", ("GET", "GET"), NEW, told=("save:restarted",)),
    "resume, without offsets": Row(
        "resume", OBJECT[:HALF], ("GET",), NEW, page=replace(PAGE, parts=False), told=("save:restarted",)
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
async def test_exists_modes_for_existing_file(row: Row, nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, {"/object": row.page})
    (tmp_path / "object").write_bytes(row.held)
    os.utime(tmp_path / "object", (row.held_at, row.held_at))
    saved = await save(server, tmp_path, row.exists, patience=PATIENT)
    assert contents(tmp_path) == row.after
    assert tuple(methods(server)) == row.asked
    assert (saved.skipped, saved.resumed_from) == (row.skipped, row.resumed_from)
    assert saved.bytes == len(row.after[Path(str(saved.path)).name])
    assert tuple(finding.rule for finding in saved.findings) == row.told
    if "GET" in row.asked and not row.skipped and row.page is not UNDATED:
        assert os.stat(str(saved.path)).st_mtime == WHEN.timestamp()


class Tagged:
    """A server that identifies its object only by the entity tag."""

    def answer(self, request: Request, page: Page) -> Page:
        if request.values("if-none-match") != ['"1"']:
            return page
        return replace(page, content=b"", status=304, reason="Not Modified")


async def test_newer_uses_entity_tag_of_sidecar(nursery: trio.Nursery, tmp_path: Path) -> None:
    """The entity tag in the sidecar is sent only if the file on disk is the file that was saved."""
    tagged = replace(UNDATED, headers=(("ETag", '"1"'),), guard=Tagged())
    server = await serve(nursery, {"/object": tagged})

    async def again() -> bool:
        saved = await session.save(server.url("/object"), tmp_path / "object", exists="newer", meta=True)
        return saved.skipped

    async with Resolver() as session:
        assert [await again(), await again()] == [False, True]
        assert server.requests[1].values("if-none-match") == ['"1"']
        (tmp_path / "object").write_bytes(b"mine")
        assert not await again()
        assert server.requests[2].values("if-none-match") == []
        (tmp_path / "object.meta.json").unlink()
        assert not await again()
    assert (tmp_path / "object").read_bytes() == OBJECT


@pytest.mark.parametrize(
    ("listed", "asked"),
    [
        (Validators(size=4, modified=WHEN), 0),
        (Validators(size=4, modified=WHEN - timedelta(days=1)), 0),
        (Validators(size=5, modified=WHEN), 1),
        (Validators(size=4, modified=WHEN + timedelta(seconds=3)), 1),
        (Validators(size=4), 1),
        (Validators(modified=WHEN), 1),
        (Validators(), 1),
    ],
)
async def test_newer_uses_exact_facts_of_listing(
    listed: Validators, asked: int, nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery, {"/object": PAGE})
    (tmp_path / "object").write_bytes(b"ours")
    os.utime(tmp_path / "object", (WHEN.timestamp(), WHEN.timestamp()))
    async with Resolver() as session:
        saved = await session.save(server.url("/object"), tmp_path / "object", exists="newer", listed=listed)
    assert (len(server.requests), saved.skipped) == (asked, not asked)


@pytest.mark.parametrize("exists", ["newer", "skip"])
async def test_existing_directory_is_a_local_error(exists: Exists, tmp_path: Path) -> None:
    (tmp_path / "object").mkdir()
    listed = Validators(
        size=(tmp_path / "object").stat().st_size, modified=WHEN - timedelta(days=400_000 / 365)
    )
    async with Resolver() as session:
        with pytest.raises(LocalError):
            await session.save("http://127.0.0.1:1/object", tmp_path / "object", exists=exists, listed=listed)


@pytest.mark.parametrize("exists", ["newer", "skip"])
@pytest.mark.parametrize("content", [b"other", PAGE.content])
async def test_kept_file_is_compared_with_checksum(
    exists: Exists, content: bytes, nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery, {"/object": PAGE})
    (tmp_path / "object").write_bytes(content)
    listed = Validators(size=len(content), modified=datetime.fromtimestamp(0, UTC))
    os.utime(tmp_path / "object", (0, 0))
    async with Resolver() as session:
        settings: SaveSettings = {"exists": exists, "listed": listed, "checksum": DIGEST}
        with nullcontext() if content == PAGE.content else pytest.raises(ChecksumMismatch):
            saved = await session.save(server.url("/object"), tmp_path / "object", **settings)
            assert (saved.skipped, saved.verified) == (True, ("digest",))
    assert (server.connections, contents(tmp_path)) == (0, {"object": content})


async def test_kept_file_is_not_compared_with_requested_checksum(tmp_path: Path) -> None:
    """The checksum `auto` would need a request, and a skipped file sends none."""
    (tmp_path / "object").write_bytes(b"other")
    async with Resolver() as session:
        saved = await session.save(
            "http://127.0.0.1:1/object", tmp_path / "object", exists="skip", checksum="auto"
        )
    assert (saved.skipped, saved.verified) == (True, ())


@pytest.mark.parametrize("target", ["missing", "."])
async def test_skip_of_link_without_file_is_a_local_error(target: str, tmp_path: Path) -> None:
    (tmp_path / "object").symlink_to(target)
    async with Resolver() as session:
        with pytest.raises(LocalError):
            await session.save("http://127.0.0.1:1/object", tmp_path / "object", exists="skip")
    assert (tmp_path / "object").is_symlink()


async def test_existing_file_is_refused_before_request(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, {"/object": PAGE})
    (tmp_path / "object").write_bytes(b"old")
    with pytest.raises(LocalError, match=r"object' .*already.*unchanged$"):
        await save(server, tmp_path)
    assert (server.connections, contents(tmp_path)) == (0, {"object": b"old"})


@pytest.mark.parametrize("exists", EVERY_WAY)
@pytest.mark.parametrize("name", ["x.part", "x.PART-State", "x.part-state.new"])
async def test_reserved_suffix_is_refused(
    name: str, exists: Exists, nursery: trio.Nursery, tmp_path: Path
) -> None:
    """A later run would take a file with this suffix for a partial file or state of an earlier run."""
    server = await serve(nursery, {"/object": PAGE})
    (tmp_path / name).write_bytes(b"old")
    async with Resolver() as session:
        with pytest.raises(LocalError, match="another name"):
            await session.save(server.url("/object"), tmp_path / name, exists=exists)
    assert (server.connections, contents(tmp_path)) == (0, {name: b"old"})


@pytest.mark.parametrize("exists", EVERY_WAY)
async def test_exists_modes_without_file_save_it(
    exists: Exists, nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery, {"/object": PAGE})
    saved = await save(server, tmp_path, exists)
    assert (contents(tmp_path), methods(server)) == (NEW, ["GET"])
    assert (saved.bytes, saved.resumed_from, saved.skipped) == (len(OBJECT), 0, False)


@pytest.mark.parametrize("status", [204, 205, 404])
@pytest.mark.parametrize("exists", ["resume", "replace", "rename", "newer"])
async def test_failed_save_keeps_existing_file(
    exists: Exists, status: int, nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery, {"/object": Page(status=status)})
    (tmp_path / "object").write_bytes(b"old")
    with pytest.raises(Declined) as caught:
        await save(server, tmp_path, exists)
    assert caught.value.code == str(status)
    assert contents(tmp_path) == {"object": b"old"}


async def test_concurrent_renames_take_different_names(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, {"/object": PAGE})
    async with trio.open_nursery() as clients:
        for _ in range(3):
            clients.start_soon(save, server, tmp_path, "rename")
    assert contents(tmp_path) == dict.fromkeys(("object", "object.2", "object.3"), OBJECT)


async def test_concurrent_saves_of_same_name_first_wins(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, {"/object": PAGE})
    failed: list[str] = []

    async def one() -> None:
        try:
            await save(server, tmp_path)
        except LocalError as error:
            failed.append(error.message)

    async with trio.open_nursery() as clients:
        for _ in range(3):
            clients.start_soon(one)
    assert contents(tmp_path) == NEW
    assert len(failed) == 2


# Partial files of an earlier run.


async def leave_half(server: HttpServer, folder: Path) -> None:
    """Leave the partial file of a run that had one attempt, which the server truncated."""
    with pytest.raises(Truncated):
        await save(server, folder)
    assert contents(folder)["object.part"] == OBJECT[:HALF]
    assert json.loads(contents(folder)["object.part-state"])["url"] == server.url("/object")


@pytest.mark.parametrize(
    ("now", "told", "resumed_from"),
    [
        (PAGE, (), HALF),
        (replace(PAGE, headers=(DATED, ("ETag", '"2"'))), ("save:restarted",), 0),
        (replace(PAGE, headers=()), ("save:restarted",), 0),
        (replace(PAGE, content=OBJECT[:-1], headers=()), ("save:restarted",), 0),
        (replace(PAGE, parts=False), ("save:restarted",), 0),
    ],
    ids=["the same", "another tag", "no tag", "another size", "no offsets"],
)
async def test_part_is_resumed_if_object_is_unchanged(
    now: Page, told: tuple[str, ...], resumed_from: int, nursery: trio.Nursery, tmp_path: Path
) -> None:
    cut = {"/object": replace(CUT, times=1)}
    site = {"/object": PAGE}
    server = await serve(nursery, site, cut)
    await leave_half(server, tmp_path)
    site["/object"] = now
    saved = await save(server, tmp_path, patience=PATIENT)
    assert contents(tmp_path) == {"object": now.content}
    assert tuple(finding.rule for finding in saved.findings) == told
    assert saved.resumed_from == resumed_from


@pytest.mark.parametrize(
    ("tag", "is_same"), [('W/"1"', True), ('"1"', True), ('W/"2"', False), ('"2"', False)]
)
async def test_part_with_other_weak_tag_is_restarted(
    tag: str, is_same: bool, nursery: trio.Nursery, tmp_path: Path
) -> None:
    """A weak tag cannot be the condition of a range, but it shows another version (RFC 9110 13.1.5)."""
    weak = replace(PAGE, headers=(("ETag", 'W/"1"'),))
    cut = Behavior(cut_at=len(encode(Request("GET", "/object"), weak)) - HALF, times=1)
    site = {"/object": weak}
    server = await serve(nursery, site, {"/object": cut})
    await leave_half(server, tmp_path)
    changed = OBJECT if is_same else b"!" + OBJECT[1:]
    site["/object"] = replace(weak, content=changed, headers=(("ETag", tag),))
    saved = await save(server, tmp_path, patience=PATIENT)
    assert contents(tmp_path) == {"object": changed}
    assert [finding.rule for finding in saved.findings] == ([] if is_same else ["save:restarted"])
    assert (server.requests[1].values("range") != [], server.requests[1].values("if-range")) == (True, [])
    assert server.requests[1].values("range") == [f"bytes={HALF - OVERLAP}-"]


async def test_part_of_another_url_is_restarted(nursery: trio.Nursery, tmp_path: Path) -> None:
    other = await serve(nursery, {"/object": replace(PAGE, content=OBJECT[::-1])}, {"/object": CUT})
    with pytest.raises(Truncated):
        await save(other, tmp_path)
    server = await serve(nursery, {"/object": PAGE})
    saved = await save(server, tmp_path)
    assert contents(tmp_path) == NEW
    assert [finding.rule for finding in saved.findings] == ["save:restarted"]
    assert other.url("/object") in saved.findings[0].detail
    assert server.requests[0].values("range") == []


@pytest.mark.parametrize("state", [None, b"", b"{", b"[]", b'{"url": 1}', b"\xff" * 100])
async def test_foreign_part_is_refused_and_unchanged(
    state: bytes | None, nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery, {"/object": PAGE})
    (tmp_path / "object.part").write_bytes(b"somebody's")
    if state is not None:
        (tmp_path / "object.part-state").write_bytes(state)
    with pytest.raises(LocalError, match="remove it"):
        await save(server, tmp_path)
    assert (server.connections, contents(tmp_path)["object.part"]) == (0, b"somebody's")


async def test_skip_removes_state_of_killed_run(
    nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve(nursery, {"/object": PAGE})

    def refuse(self: DirectoryHandle, name: str) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryHandle, "forget", refuse)
        patch.setattr(saving, "MAX_BUFFERED_FILE", 0)
        await save(server, tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["object", "object.part-state"]
    assert (await save(server, tmp_path, "skip")).skipped
    assert contents(tmp_path) == NEW


@pytest.mark.parametrize("exists", ["fail", "resume", "newer", "replace"])
@pytest.mark.parametrize("name", ["object.part", "object.part-state", "object.part-state.new"])
@pytest.mark.parametrize("there", [True, False])
async def test_existing_part_names_are_refused_before_request(
    exists: Exists, name: str, there: bool, nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery, {"/object": PAGE})
    (tmp_path / name).write_bytes(b"mine")
    if there:
        (tmp_path / "object").write_bytes(b"old")
    before = contents(tmp_path)
    with pytest.raises(LocalError):
        await save(server, tmp_path, exists)
    assert (server.connections, contents(tmp_path)) == (0, before)


async def test_empty_part_is_removed(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, {"/object": PAGE}, {"/object": Behavior(cut_at=0)})
    with pytest.raises(Disconnected):
        await save(server, tmp_path)
    assert contents(tmp_path) == {}


# Mirrors.


async def mirrored(
    nursery: trio.Nursery,
    folder: Path,
    first: tuple[Page | None, Behavior],
    second: tuple[Page | None, Behavior],
    checksum: str | None,
) -> tuple[Saved | ResolveError, list[HttpServer]]:
    servers = [
        await serve(nursery, {} if page is None else {"/object": page}, {"/object": behavior})
        for page, behavior in (first, second)
    ]
    urls = [server.url("/object") for server in servers]
    async with Resolver(patience=RetryPolicy(tries=4, delay=0.0)) as session:
        try:
            saved = await session.save(urls[0], folder / "object", mirrors=urls[1:], checksum=checksum)
        except ResolveError as error:
            return error, servers
    return saved, servers


WELL = Behavior()
DEAD = Behavior(cut_at=0)


@pytest.mark.parametrize(
    ("first", "second", "checksum", "second_ranges", "attempts"),
    [
        ((None, WELL), (PAGE, WELL), None, [[]], 2),
        ((PAGE, DEAD), (PAGE, WELL), None, [[]], 2),
        # a mirror resumes the partial file of another server only if a digest verifies the result
        ((PAGE, replace(CUT, times=2)), (PAGE, WELL), DIGEST, None, 3),
        ((UNDATED, WELL), (None, WELL), None, [], 1),
    ],
    ids=["missing", "dead", "cut", "not needed"],
)
async def test_mirror_is_used_after_failure(
    first: tuple[Page | None, Behavior],
    second: tuple[Page | None, Behavior],
    checksum: str | None,
    second_ranges: list[list[str]] | None,
    attempts: int,
    nursery: trio.Nursery,
    tmp_path: Path,
) -> None:
    saved, servers = await mirrored(nursery, tmp_path, first, second, checksum)
    assert isinstance(saved, Saved), saved
    assert contents(tmp_path) == NEW
    assert saved.attempts == attempts
    if second_ranges is not None:
        assert [request.values("range") for request in servers[1].requests] == second_ranges


@pytest.mark.parametrize("checksum", [None, DIGEST])
async def test_mirror_resumes_part_only_with_digest(
    checksum: str | None, nursery: trio.Nursery, tmp_path: Path
) -> None:
    site = {"/object": PAGE}
    cut = {"/object": replace(CUT, times=1)}
    first, second = await serve(nursery, site, cut), await serve(nursery, {"/object": PAGE})

    def vanish(event: object) -> None:
        if isinstance(event, Retrying):
            site.clear()

    urls = [server.url("/object") for server in (first, second)]
    async with Resolver(patience=PATIENT, on_event=vanish) as session:
        saved = await session.save(urls[0], tmp_path / "object", mirrors=urls[1:], checksum=checksum)
    assert contents(tmp_path) == NEW
    ranges = [request.values("range") for request in second.requests]
    assert ranges == ([[f"bytes={HALF - OVERLAP}-"]] if checksum else [[]])
    assert saved.resumed_from == (HALF if checksum else 0)


async def test_every_location_is_tried_once(nursery: trio.Nursery, tmp_path: Path) -> None:
    """With one attempt for each location, the second location resumes the data of the first."""
    first = await serve(nursery, {"/object": PAGE}, {"/object": CUT})
    second = await serve(nursery, {"/object": PAGE})
    async with Resolver(patience=RetryPolicy(tries=1)) as session:
        mirrors = [second.url("/object")]
        saved = await session.save(
            first.url("/object"), tmp_path / "object", mirrors=mirrors, checksum=DIGEST
        )
    assert contents(tmp_path) == NEW
    assert (saved.attempts, saved.resumed_from) == (2, HALF)
    assert [finding.rule for finding in saved.findings if "mirror" in finding.rule] == ["save:mirror"]


async def test_last_error_except_not_found_is_raised(nursery: trio.Nursery, tmp_path: Path) -> None:
    error, servers = await mirrored(nursery, tmp_path, (None, WELL), (PAGE, DEAD), None)
    assert type(error) is Disconnected
    assert error.url == servers[1].url("/object")
    assert error.attempts == 5


async def test_not_found_everywhere_raises_first_error(nursery: trio.Nursery, tmp_path: Path) -> None:
    error, servers = await mirrored(nursery, tmp_path, (None, WELL), (None, WELL), None)
    assert isinstance(error, NotFound)
    assert error.url == servers[0].url("/object")
    assert contents(tmp_path) == {}


async def test_mirror_with_other_object_is_a_mismatch(nursery: trio.Nursery, tmp_path: Path) -> None:
    """The digest does not match, even after a second attempt from the beginning. No file is left."""
    other = replace(PAGE, content=OBJECT[::-1])
    error, servers = await mirrored(nursery, tmp_path, (None, WELL), (other, WELL), DIGEST)
    assert isinstance(error, ChecksumMismatch)
    assert error.exit_code == 10
    assert [request.values("range") for request in servers[1].requests] == [[], []]
    assert contents(tmp_path) == {}


# Dry runs.


@pytest.mark.parametrize(
    ("exists", "held_at", "asked", "skipped"),
    [
        ("skip", 0, [], True),
        ("newer", -10, ["HEAD"], False),
        ("newer", +10, ["HEAD"], True),
        ("replace", 0, [], False),
        ("rename", 0, [], False),
        ("resume", 0, [], False),
    ],
)
async def test_dry_run_reports_without_changes(
    exists: Exists, held_at: int, asked: list[str], skipped: bool, nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery, {"/object": PAGE})
    (tmp_path / "object").write_bytes(b"old")
    os.utime(tmp_path / "object", (WHEN.timestamp() + held_at,) * 2)
    async with Resolver() as session:
        saved = await session.save(server.url("/object"), tmp_path / "object", exists=exists, dry_run=True)
    assert (saved.skipped, saved.bytes) == (skipped, 3 if skipped else 0)
    assert saved.path == str(tmp_path / ("object.2" if exists == "rename" else "object"))
    assert (methods(server), contents(tmp_path)) == (asked, {"object": b"old"})


async def test_dry_run_reports_existing_file(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, {"/object": PAGE})
    async with Resolver() as session:
        saved = await session.save(server.url("/object"), tmp_path / "object", dry_run=True)
        assert (saved.skipped, saved.bytes, contents(tmp_path)) == (False, 0, {})
        (tmp_path / "object").write_bytes(b"old")
        with pytest.raises(LocalError, match=r"object' .*already.*unchanged$"):
            await session.save(server.url("/object"), tmp_path / "object", dry_run=True)
        (tmp_path / "directory").mkdir()
        with pytest.raises(LocalError, match="not a regular file"):
            await session.save(server.url("/object"), tmp_path / "directory", exists="replace", dry_run=True)
    assert server.requests == []


async def test_large_file_is_written_back_during_transfer(
    nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[tuple[str, int]] = []

    async def write_back(sink: PartialFile, size: int) -> None:
        begun.append((sink.path, size))
        await trio.sleep_forever()

    monkeypatch.setattr(PartialFile, "write_back", write_back)
    monkeypatch.setattr("resolver.transfer.saving.WRITE_BACK_FROM", 3 * len(OBJECT))
    server = await serve(nursery, {"/object": Page(OBJECT * 3)})
    await save(server, tmp_path)
    assert contents(tmp_path) == {"object": OBJECT * 3}
    assert begun == [(str(tmp_path / "object"), 3 * len(OBJECT))]
    monkeypatch.setattr("resolver.transfer.saving.WRITE_BACK_FROM", 3 * len(OBJECT) + 1)
    await save(server, tmp_path, "replace")
    assert len(begun) == 1


# The sidecar: the complete record of the transfer, without secrets.

CONTRACT = Path(__file__).parents[3] / "docs/reference/contract.md"
META_OBJECT = b"octets of the object\n"
MD5, SHA256 = (hashlib.new(name, META_OBJECT).hexdigest() for name in ("md5", "sha256"))
META_PAGE = Page(
    META_OBJECT,
    "application/octet-stream",
    headers=(
        ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("ETag", '"one"'),
        ("Set-Cookie", "session=sekret; Path=/"),
        ("X-Octet", "\xe9"),
    ),
)


def sidecar(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "object.meta.json").read_bytes())
    return result


async def test_sidecar_has_complete_record_without_secrets(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(
        nursery, {"/object": META_PAGE, "/first": moved("/second"), "/second": moved("/object")}
    )
    url = server.url("/first").replace("//", "//me:sekret@")
    shown = server.url("/first").replace("//", "//me:****@")
    before = datetime.now(UTC).replace(microsecond=0)
    async with Resolver() as session:
        saved = await session.save(url, tmp_path / "object", meta=True, checksum=f"md5:{MD5}")
    result = sidecar(tmp_path)
    assert "sekret" not in (tmp_path / "object.meta.json").read_text()
    assert before <= datetime.fromisoformat(result.pop("retrieved")) <= datetime.now(UTC)
    headers = {name.lower(): value for name, value in result.pop("headers")}
    assert headers["set-cookie"] == "session=****; Path=/"
    assert headers["x-octet"] == "\xe9"
    assert result == {
        "format": "url-resolver meta 1",
        "version": VERSION,
        "url": shown,
        "final_url": result["final_url"],
        "chain": [shown, result["chain"][1]],
        "addresses": ["127.0.0.1"] * 3,
        "proxy": None,
        "mirror": None,
        "bytes": len(META_OBJECT),
        "digests": {"sha256": SHA256, "md5": MD5},
        "verified": ["digest", "length"],
        "attempts": 1,
        "resumed_from": 0,
        "kind": "document",
        "media_type": "application/octet-stream",
        "charset": None,
        "modified": "1994-11-06T08:49:37Z",
        "validators": {"size": len(META_OBJECT), "modified": "1994-11-06T08:49:37Z", "etag": '"one"'},
        "title": None,
        "extra": {"status": 200},
        "findings": [],
    }
    assert result["final_url"].endswith("/object")
    assert result["chain"][1].endswith("/second")
    assert saved.digest == f"sha256:{SHA256}"


def test_sidecar_members_are_documented() -> None:
    members = CONTRACT.read_text().partition("with these members:")[2].partition(".\n")[0].split()
    saved = Saved(
        url=Masked("x:"),
        requested_url=Masked("x:"),
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
    assert members == list(json.loads(meta_octets(saved, ("127.0.0.1",), None)))


async def test_sidecar_of_gopher_omits_unknown_facts(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve_gopher(nursery)
    async with Resolver() as session:
        saved = await session.save(
            f"gopher://127.0.0.1:{server.port}/00/about", tmp_path / "object", meta=True
        )
    result = sidecar(tmp_path)
    assert (result["addresses"], result["chain"], result["validators"]["etag"]) == (["127.0.0.1"], [], None)
    assert [finding["rule"] for finding in result["findings"]] == ["S04"]
    assert result["bytes"] == saved.bytes == (tmp_path / "object").stat().st_size


@pytest.mark.parametrize("exists", ["skip", "newer"])
async def test_skipped_file_keeps_sidecar(exists: Any, nursery: trio.Nursery, tmp_path: Path) -> None:
    """A file without a sidecar gets none: its origin is unknown."""
    server = await serve(nursery, {"/object": META_PAGE})
    async with Resolver() as session:
        await session.save(server.url("/object"), tmp_path / "object", meta=True)
        before = (tmp_path / "object.meta.json").stat()
        again = await session.save(server.url("/object"), tmp_path / "object", meta=True, exists=exists)
        assert again.skipped
        assert (tmp_path / "object.meta.json").stat().st_ino == before.st_ino
        (tmp_path / "object.meta.json").unlink()
        await session.save(server.url("/object"), tmp_path / "object", meta=True, exists=exists)
    assert os.listdir(tmp_path) == ["object"]


async def test_renamed_files_have_separate_sidecars(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, {"/object": META_PAGE})
    async with Resolver() as session:
        for _ in range(2):
            await session.save(server.url("/object"), tmp_path / "a.bin", meta=True, exists="rename")
    assert sorted(os.listdir(tmp_path)) == ["a.2.bin", "a.2.bin.meta.json", "a.bin", "a.bin.meta.json"]


async def test_failed_file_has_no_sidecar(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, {"/object": META_PAGE})
    async with Resolver() as session:
        with pytest.raises(ChecksumMismatch):
            await session.save(
                server.url("/object"), tmp_path / "object", meta=True, checksum=f"md5:{'0' * 32}"
            )
    assert os.listdir(tmp_path) == []
