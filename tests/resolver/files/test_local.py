"""Local files (S12): status, reading, listings, special files and the file root."""

from __future__ import annotations

import os
import random
import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trio

from protocols.contract import FileStatus
from resolver import AccessDenied, Kind, LocalError, NotConfigured, NotFound, Refused, TimedOut
from resolver.files.local import MAX_LINKS, READ_SIZE, FileRoot, OpenedFile, open_local
from tests.resolver.network.transfers import file_sink

WHEN = datetime(1994, 12, 20, 12, 0, 0, tzinfo=UTC)


def segments_of(path: Path | str) -> tuple[bytes, ...]:
    return tuple(os.fsencode(path).split(b"/")[1:])


def opened(
    path: Path | str, *, root: Path | None = None, special: bool = False, idle: float = 5
) -> OpenedFile:
    below = None if root is None else FileRoot(str(root))
    return open_local(segments_of(path), root=below, special=special, idle=idle)


@pytest.fixture(params=["plain", "rooted"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Run the test without a root and below a root."""
    return tmp_path if request.param == "rooted" else None


@pytest.mark.parametrize("size", [0, 1, READ_SIZE - 1, READ_SIZE, READ_SIZE + 1, 3_000_000])
async def test_file_is_read_and_copied_completely(tmp_path: Path, root: Path | None, size: int) -> None:
    octets = random.Random(size).randbytes(size)
    (tmp_path / "it").write_bytes(octets)
    os.utime(tmp_path / "it", (WHEN.timestamp(), WHEN.timestamp()))
    file = opened(tmp_path / "it", root=root)
    assert file.status == FileStatus(Kind.DOCUMENT, size, WHEN)
    pieces = []
    while piece := await file.read():
        pieces.append(piece)
    file.close()
    assert b"".join(pieces) == octets
    assert all(len(piece) <= READ_SIZE for piece in pieces)

    for flags, by_write in ((0, 0), (os.O_APPEND, size)):
        file = opened(tmp_path / "it", root=root)
        with file_sink(tmp_path / "copy", flags) as sink:
            assert await file.move(sink) == size
        file.close()
        assert (tmp_path / "copy").read_bytes() == octets
        # Without O_APPEND, the kernel copies the file (no calls of `write`).
        assert sum(sink.writes) == by_write


async def test_file_reports_modification_since_open(tmp_path: Path, root: Path | None) -> None:
    (tmp_path / "it").write_bytes(b"abc")
    os.utime(tmp_path / "it", (WHEN.timestamp(), WHEN.timestamp()))
    file = opened(tmp_path / "it", root=root)
    assert await file.read() == b"abc"
    assert not file.modified_since()
    (tmp_path / "it").write_bytes(b"def")
    assert file.modified_since()
    file.close()


@pytest.mark.parametrize(
    ("path", "start"), [("/proc/self/status", b"Name:"), ("/sys/devices/system/cpu/online", b"0")]
)
async def test_file_of_kernel_has_no_size(path: str, start: bytes) -> None:
    """The kernel reports the size 0 in /proc and 4096 in /sys; neither is the number of bytes."""
    file = opened(path)
    assert file.status.size is None
    assert (await file.read()).startswith(start)
    file.close()


async def test_sparse_file_has_a_size(tmp_path: Path) -> None:
    """The file has no allocated blocks, as files in /proc and /sys, but its size is right."""
    (tmp_path / "it").touch()
    os.truncate(tmp_path / "it", 100_000)
    file = opened(tmp_path / "it")
    assert file.status.size == 100_000
    file.close()


async def test_directory_lists_sorted_names_and_status(tmp_path: Path, root: Path | None) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "b").write_bytes(b"12345")
    os.utime(place / "b", (WHEN.timestamp(), WHEN.timestamp()))
    (place / "A").mkdir()
    (place / "to-b").symlink_to("b")
    (place / "to-A").symlink_to(place / "A")
    (place / "nowhere").symlink_to("missing")
    (place / "loop").symlink_to("loop")
    os.mkfifo(place / "pipe")
    (place / os.fsdecode(b"\xff\n")).touch()
    file = opened(place, root=root)
    assert file.status.kind is Kind.DIRECTORY
    names = await file.names()
    assert names == [b"A", b"b", b"loop", b"nowhere", b"pipe", b"to-A", b"to-b", b"\xff\n"]
    document = FileStatus(Kind.DOCUMENT, 5, WHEN)
    assert (file.status_of(b"b"), file.status_of(b"to-b")) == (document, document)
    assert (file.status_of(b"A").kind, file.status_of(b"to-A").kind) == (Kind.DIRECTORY, Kind.DIRECTORY)
    unknown = [file.status_of(name).kind for name in (b"loop", b"nowhere", b"pipe", b"gone")]
    assert unknown == [Kind.UNKNOWN] * 4
    file.close()


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("missing", NotFound),
        ("missing/", NotFound),
        ("it/", NotFound),  # an empty last segment requires a directory
        ("it/below", NotFound),
        ("loop", NotFound),
        ("x" * 300, NotFound),
    ],
)
def test_missing_file_is_not_found(
    tmp_path: Path, root: Path | None, path: str, error: type[Exception]
) -> None:
    (tmp_path / "it").touch()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(error) as raised:
        opened(f"{tmp_path}/{path}", root=root)
    assert isinstance(raised.value.__cause__, OSError)


def test_unreadable_file_is_access_denied(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The open() error is simulated because root may read every file."""
    (tmp_path / "it").touch()

    def denied(*arguments: object, **more: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(AccessDenied, match="permission denied"):
        opened(tmp_path / "it")


def test_stat_failure_is_a_local_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **more: object) -> os.stat_result:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "stat", broken)
    with pytest.raises(LocalError, match=r"'/etc/motd'.*: input/output error"):
        opened("/etc/motd")


@pytest.mark.parametrize("segments", [(b"etc\0", b"motd"), (b"etc/motd",), (b"..", b"a/b")])
def test_segment_with_separator_nul_or_dots_is_refused(segments: tuple[bytes, ...]) -> None:
    """The policy refuses them earlier; this is the second check."""
    with pytest.raises(Refused) as raised:
        open_local(segments, root=None, special=True, idle=5)
    assert raised.value.rule == "S12"


def test_special_files_are_refused_without_open(
    tmp_path: Path, root: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to-pipe").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as sock:
        monkeypatch.chdir(tmp_path)
        sock.bind("socket")  # A socket address has at most 107 bytes on Linux, and tmp_path may be longer.
        for name in ("pipe", "to-pipe", "socket"):
            assert_refused(tmp_path / name, root, monkeypatch)
    if root is None:
        for device in ("/dev/null", "/dev/zero", "/dev/tty"):
            assert_refused(Path(device), None, monkeypatch)


def assert_refused(path: Path, root: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    real, opens = os.open, []

    def watch(name: bytes, flags: int, *arguments: int, dir_fd: int | None = None) -> int:
        opens.append(os.path.basename(name))
        return real(name, flags, *arguments, dir_fd=dir_fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", watch)
        with pytest.raises(Refused, match="S12: ") as raised:
            opened(path, root=root)
    assert (raised.value.rule, raised.value.flag) == ("S12", "--allow-special")
    assert os.fsencode(path.name) not in opens


def test_file_replaced_by_pipe_before_open_is_refused(
    tmp_path: Path, root: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file may be replaced between stat and open: it is checked again; opening a pipe does not block."""
    (tmp_path / "it").touch()
    real = os.open

    def switch(name: bytes, flags: int, *arguments: int, dir_fd: int | None = None) -> int:
        if os.path.basename(name) == b"it":
            os.unlink(tmp_path / "it")
            os.mkfifo(tmp_path / "it")
        return real(name, flags, *arguments, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", switch)
    with pytest.raises(Refused, match="S12"):
        opened(tmp_path / "it", root=root)


async def test_link_to_file_is_followed(tmp_path: Path, root: Path | None) -> None:
    (tmp_path / "it").write_bytes(b"what it leads to")
    (tmp_path / "link").symlink_to("it")
    file = opened(tmp_path / "link", root=root)
    assert (file.status.kind, await file.read()) == (Kind.DOCUMENT, b"what it leads to")
    file.close()


def test_file_replaced_by_link_below_root_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file may be replaced by a link out of the root between stat and open."""
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_bytes(b"of nobody's business")
    (root / "it").touch()
    real = os.open

    def switch(name: bytes, flags: int, *arguments: int, dir_fd: int | None = None) -> int:
        if os.path.basename(name) == b"it":
            os.unlink(root / "it")
            (root / "it").symlink_to(tmp_path / "secret")
        return real(name, flags, *arguments, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", switch)
    with pytest.raises(NotFound):
        opened(root / "it", root=root)


async def test_allowed_special_file_is_read(tmp_path: Path, root: Path | None) -> None:
    os.mkfifo(tmp_path / "pipe")
    file = opened(tmp_path / "pipe", root=root, special=True)
    assert file.status.size is None
    assert file.status.kind is Kind.DOCUMENT
    writer = os.open(tmp_path / "pipe", os.O_WRONLY)
    os.write(writer, b"through")
    assert await file.read() == b"through"
    os.write(writer, b" the pipe")
    os.close(writer)
    with file_sink(tmp_path / "copy") as sink:
        assert await file.move(sink) == 9
    assert (tmp_path / "copy").read_bytes() == b" the pipe"
    file.close()


async def test_silent_pipe_is_timed_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    file = opened(tmp_path / "pipe", special=True, idle=0.2)
    with pytest.raises(TimedOut, match=r"pipe' .*0\.2 s"):
        await file.read()
    file.close()


async def test_device_is_read_in_chunks(tmp_path: Path) -> None:
    file = opened("/dev/zero", special=True)
    assert [await file.read() for _ in range(2)] == [bytes(READ_SIZE)] * 2
    with trio.move_on_after(0.05) as scope, file_sink(tmp_path / "zeros") as sink:
        await file.move(sink)
    assert scope.cancelled_caught
    file.close()


async def test_growing_file_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one")
    file = opened(path)
    assert await file.read() == b"one"
    path.write_bytes(b"onetwo")
    assert [await file.read(), await file.read()] == [b"two", b""]
    file.close()


def test_open_local_leaks_no_descriptor(tmp_path: Path, root: Path | None) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "up").symlink_to("../a/b")
    before = os.listdir("/proc/self/fd")
    file = opened(tmp_path / "a", root=root)
    assert file.status_of(b"up").kind is Kind.DIRECTORY
    file.close()
    for path in ("a/missing", "a/up/missing", "a/up/../../../missing"):
        with pytest.raises((NotFound, Refused)):
            opened(f"{tmp_path}/{path}", root=root)
    assert os.listdir("/proc/self/fd") == before


# Below a file root (S12, `file_root`): links and dot segments do not lead out of the root.


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Make a root with files and links; `secret` and `root-two` are outside, `by-link` links to the root."""
    root = tmp_path / "root"
    (root / "inner" / "deep").mkdir(parents=True)
    (root / "file").write_text("file")
    (root / "inner" / "deep" / "file").write_text("deep")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "root-two").mkdir()
    (tmp_path / "root-two" / "file").write_text("two")
    (tmp_path / "by-link").symlink_to("root")
    links = {
        "inner/to-file": "../file",
        "inner/absolute": str(root / "file"),
        "inner/by-other-name": str(tmp_path / "by-link" / "file"),
        "to-deep": "inner/deep",
        "to-dots": "inner/../inner/./deep//file",
        "out": "../secret",
        "out-absolute": str(tmp_path / "secret"),
        "out-to-directory": "..",
        "out-and-back": "../root/file",
        "out-deep": "inner/deep/../../../secret",
        "out-system": "/etc/passwd",
        "neighbor": "../root-two/file",
        "to-out": "out",
        "self": "self",
        "one": "two",
        "two": "one",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    return root


def rooted_opened(path: str, root: Path) -> OpenedFile:
    segments = tuple(os.fsencode(path).split(b"/")[1:])
    return open_local(segments, root=FileRoot(str(root)), special=False, idle=5)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("file", b"file"),
        ("./file", b"file"),
        ("inner//deep/file", b"deep"),
        ("inner/deep/../deep/file", b"deep"),
        ("inner/..//file", b"file"),
        ("inner/to-file", b"file"),
        ("inner/absolute", b"file"),
        ("to-deep/file", b"deep"),
        ("to-deep/../to-file", b"file"),  # the parent of the link's target, as the system resolves it
        ("to-dots", b"deep"),
    ],
)
async def test_path_inside_root_is_opened(tree: Path, path: str, content: bytes) -> None:
    file = rooted_opened(f"{tree}/{path}", tree)
    assert await file.read() == content
    file.close()


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../secret",
        "../root/file",
        "inner/../../root/file",
        "out",
        "out-absolute",
        "out-to-directory",
        "out-to-directory/root/file",
        "out-and-back",
        "out-deep",
        "out-system",
        "neighbor",
        "to-out",
        "out/missing",
        "out-to-directory/missing",  # outside the root, missing and existing files have the same error
    ],
)
def test_path_out_of_root_is_refused(tree: Path, path: str) -> None:
    with pytest.raises(Refused) as raised:
        rooted_opened(f"{tree}/{path}", tree)
    assert raised.value.rule == "S12"


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/", "/missing", "{parent}", "{parent}/root-two/file", "{root}-two"]
)
def test_path_outside_root_is_refused(tree: Path, path: str) -> None:
    with pytest.raises(Refused):
        rooted_opened(path.format(parent=tree.parent, root=tree), tree)


@pytest.mark.parametrize("path", ["missing", "inner/missing", "file/below", "self", "one", "inner/to-file/"])
def test_missing_path_inside_root_is_not_found(tree: Path, path: str) -> None:
    with pytest.raises(NotFound):
        rooted_opened(f"{tree}/{path}", tree)


@pytest.mark.parametrize("last", ["", "/", "/.", "/inner/.."])
async def test_root_itself_is_listed(tree: Path, last: str) -> None:
    file = rooted_opened(f"{tree}{last}", tree)
    assert b"file" in await file.names()
    file.close()


async def test_root_given_by_link_accepts_both_names(tree: Path) -> None:
    by_link = tree.parent / "by-link"
    for path in (tree / "file", by_link / "file", by_link / "inner" / "by-other-name"):
        file = rooted_opened(str(path), by_link)
        assert await file.read() == b"file"
        file.close()
    with pytest.raises(Refused):
        rooted_opened(str(by_link / "out"), by_link)


def test_listing_shows_links_out_of_root_as_unknown(tree: Path) -> None:
    directory = rooted_opened(str(tree), tree)
    shown = {name: directory.status_of(os.fsencode(name)).kind.value for name in os.listdir(tree)}
    directory.close()
    assert {name for name, kind in shown.items() if kind == "unknown"} == {
        "out", "out-absolute", "out-to-directory", "out-and-back", "out-deep", "out-system", "neighbor",
        "to-out", "self", "one", "two",
    }  # fmt: skip
    assert shown["to-deep"] == "directory"
    assert shown["to-dots"] == "document"


@pytest.mark.parametrize(("links", "found"), [(MAX_LINKS, True), (MAX_LINKS + 1, False)])
async def test_links_are_followed_up_to_limit(tmp_path: Path, links: int, found: bool) -> None:
    (tmp_path / "0").write_text("end")
    for number in range(links):
        (tmp_path / f"{number + 1}").symlink_to(f"{number}")
    if not found:
        with pytest.raises(NotFound, match="too many levels"):
            rooted_opened(f"{tmp_path}/{links}", tmp_path)
        return
    file = rooted_opened(f"{tmp_path}/{links}", tmp_path)
    assert await file.read() == b"end"
    file.close()


def test_directory_replaced_by_link_is_not_followed(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def switch(name: bytes, flags: int, *arguments: int, dir_fd: int | None = None) -> int:
        if name == b"inner":
            os.rename(tree / "inner", tree / "moved")
            (tree / "inner").symlink_to("/etc")
        return real(name, flags, *arguments, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", switch)
    with pytest.raises(NotFound):
        rooted_opened(f"{tree}/inner/passwd", tree)


async def test_dot_segments_after_move_stay_in_root(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`..` returns to the directory that was traversed, wherever it is now."""
    real = os.stat

    def move(name: bytes, **how: object) -> os.stat_result:
        if name == b"to-file" and (tree / "inner").exists():
            os.rename(tree / "inner", tree.parent / "moved")
        return real(name, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", move)
    file = rooted_opened(f"{tree}/inner/to-file", tree)
    assert await file.read() == b"file"
    file.close()


def test_missing_root_is_not_configured(tmp_path: Path) -> None:
    with pytest.raises(NotConfigured, match="file_root"):
        rooted_opened(f"{tmp_path}/none/file", tmp_path / "none")
