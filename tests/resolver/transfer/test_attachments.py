"""`save_attachments`: names, checks, existing files, parts of several articles, and a full disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

import resolver
import resolver.blocking
from fixtures.nntp import Group, NewsServer, Spool, serve
from fixtures.nntp.attachments import MIXED_BODY, MIXED_FIELDS, PICTURE, list_posts, write_yenc_parts
from fixtures.nntp.spool import write_article
from resolver import Event, Resolver, Saved, Sent
from resolver.files.partial_file import PartialFile
from resolver.transfer.saving import Exists
from tests.elsewhere import served
from tests.resolver.transfer.test_news import session

#: The numbers of the articles of alt.files, by message-id.
NUMBERS = {post.message_id.partition("@")[0]: number for number, post in enumerate(list_posts(), 1)}


@pytest.fixture
async def server(nursery: trio.Nursery) -> NewsServer:
    return await serve(nursery)


def url_of(server: NewsServer, name: str) -> str:
    return server.url(f"alt.files/{NUMBERS[name]}")


def files_below(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if not path.is_dir()
    }


async def test_save_attachments_of_yenc_saves_verified_file(server: NewsServer, tmp_path: Path) -> None:
    async with session(server) as news:
        [saved] = await news.save_attachments(url_of(server, "single"), tmp_path / "new", digest=True)
    assert files_below(tmp_path) == {"new/picture.bin": PICTURE}
    assert (saved.path, saved.bytes) == (str(tmp_path / "new/picture.bin"), len(PICTURE))
    assert saved.verified == ("terminator", "length", "digest")
    assert saved.digest is not None
    assert os.stat(tmp_path / "new/picture.bin").st_mtime == 1736157624  # the Date of the article
    assert server.commands == [b"GROUP alt.files", b"ARTICLE 1", b"QUIT"][: len(server.commands)]


async def test_save_attachments_of_mime_never_leaves_directory(server: NewsServer, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    async with session(server) as news:
        saved = await news.save_attachments(url_of(server, "mime"), inner)
        saved += await news.save_attachments(url_of(server, "hostile"), inner)
    assert [os.path.basename(item.path or "") for item in saved] == ["x.png", "notes.txt", "passwd"]
    assert [item.media_type for item in saved] == ["image/png", "text/plain", None]
    expected = {"inner/x.png": bytes(range(5)), "inner/notes.txt": "café ends".encode()}
    assert files_below(tmp_path) == {**expected, "inner/passwd": b"hostile"}


@pytest.mark.parametrize("form", ["nntp", "news"])
async def test_save_attachments_with_parts_joins_file(server: NewsServer, tmp_path: Path, form: str) -> None:
    """The parts are found from any of them: in another order, and between other articles."""
    for name in ("part1", "part2", "part3"):
        url = url_of(server, name) if form == "nntp" else f"news:{name}@example.test"
        async with session(server) as news:
            [saved] = await news.save_attachments(url, tmp_path, parts=True, exists="replace")
        assert files_below(tmp_path) == {"three parts.bin": PICTURE}
        assert saved.verified == ("terminator", "length", "digest")
    assert server.commands.count(b"OVER 1-11") == 3
    assert server.violations == []


class Own(Exception):
    """An error of the caller's code."""


async def test_save_attachments_raises_listener_error_of_part(server: NewsServer, tmp_path: Path) -> None:
    def listen(event: Event) -> None:
        if isinstance(event, Sent) and event.octets == b"ARTICLE %d\r\n" % NUMBERS["part2"]:
            raise Own

    async with Resolver(on_event=listen) as news:
        with pytest.raises(Own):
            await news.save_attachments(url_of(server, "part1"), tmp_path, parts=True)
    assert files_below(tmp_path) == {}


@pytest.mark.parametrize(
    ("name", "parts", "error", "words"),
    [
        ("damaged", False, resolver.ChecksumMismatch, "CRC-32"),
        ("cut", False, resolver.Truncated, "=yend"),
        ("part2", False, resolver.Truncated, "only part 2 of 3"),
        ("lost1", True, resolver.Truncated, "part 2 of 3 is missing"),
        ("other", False, resolver.NotFound, "no attachments"),
    ],
)
async def test_save_attachments_of_damaged_article_leaves_nothing(
    server: NewsServer,
    tmp_path: Path,
    name: str,
    parts: bool,
    error: type[resolver.ResolveError],
    words: str,
) -> None:
    async with session(server) as news:
        with pytest.raises(error, match=words) as raised:
            await news.save_attachments(url_of(server, name), tmp_path / "new", parts=parts)
    assert os.listdir(tmp_path) == []
    assert raised.value.url == url_of(server, name)
    assert "--" not in raised.value.message
    assert raised.value.setting == ("parts" if name == "part2" else None)


def _swap(old: bytes, new: bytes, number: int) -> Callable[[list[bytes]], None]:
    def change(parts: list[bytes]) -> None:
        assert old in parts[number - 1]
        parts[number - 1] = parts[number - 1].replace(old, new)

    return change


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (_swap(b"=yend", b"=", 2), resolver.Truncated, "in part 2 of 3"),
        (_swap(b" pcrc32=", b" pcrc32=123456789 x=", 2), resolver.ProtocolError, "checksum"),
        (
            _swap(b"=ypart begin=428 end=854", b"=ypart begin=427 end=853", 2),
            resolver.ChecksumMismatch,
            "overlaps",
        ),
        (
            _swap(b"=ypart begin=428 end=854", b"=ypart begin=429 end=855", 2),
            resolver.Truncated,
            "bytes 427 to 427",
        ),
        (_swap(b"name=p.bin", b"name=q.bin", 3), resolver.Truncated, "part 3 of 3 is missing"),
        (_swap(b" crc32=", b" crc32=0 x=", 3), resolver.ChecksumMismatch, "of the file"),
    ],
)
async def test_save_attachments_with_damaged_part_leaves_nothing(
    nursery: trio.Nursery,
    tmp_path: Path,
    change: Callable[[list[bytes]], None],
    error: type[resolver.ResolveError],
    words: str,
) -> None:
    parts = write_yenc_parts(PICTURE, b"p.bin", 3)
    change(parts)
    articles = {
        number: write_article(b"%d@h.example" % number, b"a.b", text, subject=b"p.bin (%d/3)" % number)
        for number, text in enumerate(parts, 1)
    }
    server = await serve(nursery, Spool({b"a.b": Group(articles)}))
    async with session(server) as news:
        with pytest.raises(error, match=words):
            await news.save_attachments(server.url("a.b/1"), tmp_path / "new", parts=True)
    assert os.listdir(tmp_path) == []


async def test_save_attachments_with_one_damaged_saves_others(nursery: trio.Nursery, tmp_path: Path) -> None:
    body = MIXED_BODY.replace(b"--=-=--", b"")
    article = write_article(b"1@h.example", b"a.b", body, fields=MIXED_FIELDS)
    server = await serve(nursery, Spool({b"a.b": Group({1: article})}))
    async with session(server) as news:
        with pytest.raises(resolver.Truncated, match=r"in the attachment '/etc/notes.txt'"):
            await news.save_attachments(server.url("a.b/1"), tmp_path)
    assert files_below(tmp_path) == {"x.png": bytes(range(5))}


async def test_save_attachments_of_same_name_are_numbered(nursery: trio.Nursery, tmp_path: Path) -> None:
    body = MIXED_BODY.replace(b"/etc/notes.txt", b"X.PNG")
    article = write_article(b"1@h.example", b"a.b", body, fields=MIXED_FIELDS)
    server = await serve(nursery, Spool({b"a.b": Group({1: article})}))
    async with session(server) as news:
        await news.save_attachments(server.url("a.b/1"), tmp_path)
    assert sorted(files_below(tmp_path)) == ["X.2.PNG", "x.png"]


@pytest.mark.parametrize(
    ("exists", "files", "skipped"),
    [
        ("skip", {"picture.bin": b"mine"}, True),
        ("replace", {"picture.bin": PICTURE}, False),
        ("rename", {"picture.bin": b"mine", "picture.2.bin": PICTURE}, False),
    ],
)
async def test_save_attachments_keeps_existing_file_as_told(
    server: NewsServer, tmp_path: Path, exists: Exists, files: dict[str, bytes], skipped: bool
) -> None:
    (tmp_path / "picture.bin").write_bytes(b"mine")
    async with session(server) as news:
        [saved] = await news.save_attachments(url_of(server, "single"), tmp_path, exists=exists)
    assert (files_below(tmp_path), saved.skipped) == (files, skipped)


async def test_save_attachments_does_not_take_directory_for_file(server: NewsServer, tmp_path: Path) -> None:
    (tmp_path / "picture.bin").mkdir()
    async with session(server) as news:
        with pytest.raises(resolver.LocalError, match="not a regular file"):
            await news.save_attachments(url_of(server, "single"), tmp_path, exists="skip")
    assert files_below(tmp_path) == {}


async def test_save_attachments_never_overwrites(server: NewsServer, tmp_path: Path) -> None:
    (tmp_path / "picture.bin").write_bytes(b"mine")
    (tmp_path / "three parts.bin").symlink_to(tmp_path / "picture.bin")
    async with session(server) as news:
        for name in ("single", "part1"):
            with pytest.raises(resolver.LocalError, match="exists already"):
                await news.save_attachments(url_of(server, name), tmp_path, parts=True)
        with pytest.raises(ValueError, match="exists must be"):
            await news.save_attachments(url_of(server, "single"), tmp_path, exists="resume")
    assert files_below(tmp_path) == {"picture.bin": b"mine", "three parts.bin": b"mine"}


async def test_save_attachments_on_full_disk_leaves_nothing(
    server: NewsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int, octets: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with session(server) as news:
        monkeypatch.setattr(os, "write", fail)
        with pytest.raises(resolver.LocalError, match=r"(?i)no space"):
            await news.save_attachments(url_of(server, "part1"), tmp_path / "new", parts=True)
        monkeypatch.undo()
    assert os.listdir(tmp_path) == []


async def test_save_attachments_after_killed_run_starts_over(server: NewsServer, tmp_path: Path) -> None:
    """The partial file of a killed run is used again, and its bytes are not trusted."""
    path = str(tmp_path / "three parts.bin")
    async with PartialFile(path, source=url_of(server, "part1")) as file:
        await file.remember(resolver.Validators(size=len(PICTURE)))
        file.write(b"wrong")
        file.keep()
    assert sorted(os.listdir(tmp_path)) == ["three parts.bin.part", "three parts.bin.part-state"]
    async with session(server) as news:
        await news.save_attachments(url_of(server, "part1"), tmp_path, parts=True)
    assert files_below(tmp_path) == {"three parts.bin": PICTURE}


@pytest.mark.parametrize("path", ["alt.files", "*"])
async def test_save_attachments_of_group_is_declined(server: NewsServer, tmp_path: Path, path: str) -> None:
    async with session(server) as news:
        with pytest.raises(resolver.Declined, match="expected an article"):
            await news.save_attachments(server.url(path, scheme="news"), tmp_path)


async def test_save_attachments_of_other_scheme_sends_nothing(tmp_path: Path) -> None:
    async with resolver.Resolver() as other:
        with pytest.raises(resolver.NotConfigured, match="no attachments"):
            await other.save_attachments("http://127.0.0.1:1/x", tmp_path)


def test_blocking_save_attachments_saves_files(tmp_path: Path) -> None:
    with served(serve) as server:
        policy = resolver.Policy(allow_port={server.port})
        with resolver.blocking.Resolver(policy=policy) as news:
            saved = news.save_attachments(url_of(server, "mime"), tmp_path)
    assert [type(item) for item in saved] == [Saved, Saved]
    assert sorted(files_below(tmp_path)) == ["notes.txt", "x.png"]
