"""A retrieval never writes to a file that an option of the run names, also with `--exists replace`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from protocols.errors import LocalError
from resolver.cli.arguments import read
from tests.resolver.cli.command import resolve

SERVED = b"chosen by the server"

#: An option, its file, and a name at the server.
OWN_FILES = [
    ("--ledger", "l", "l"),
    ("--ledger", "l", "l-wal"),
    ("--warc", "x.warc", "x.warc"),
    ("--warc", "x.warc.gz", "x.warc.gz"),
    ("--warc", "x.warc", "x-00001.warc"),
    ("--warc", "x.warc.gz", "x.cdxj"),
    ("--warc", "x.warc", "X.warc"),
    ("--trace", "t", "t"),
    ("--trace-html", "t.html", "t.html"),
    ("--failed", "f", "f"),
    ("--cookies", "c", "c"),
    ("--netrc-file", "n", "n"),
    ("--cacert", "ca.pem", "ca.pem"),
]


def serve_files(folder: Path, *names: str) -> Path:
    place = folder.parent / f"{folder.name}-served" / "top"
    place.mkdir(parents=True)
    for name in names:
        (place / name).write_bytes(SERVED)
    return place


def names_of_server(folder: Path) -> set[str]:
    """Return the names of the files with content of the server."""
    return {path.name for path in folder.rglob("*") if path.is_file() and path.read_bytes() == SERVED}


@pytest.mark.parametrize("words", [["-r", "{top}"], ["-d", "top", "{top}/{name}", "{top}/other"]])
@pytest.mark.parametrize("exists", ["fail", "replace"])
@pytest.mark.parametrize(("option", "path", "name"), OWN_FILES)
def test_file_of_option_is_never_replaced(
    option: str, path: str, name: str, exists: str, words: list[str], folder: Path
) -> None:
    source = serve_files(folder, name, "other")
    (folder / "top").mkdir()
    (folder / "link").symlink_to("top")
    if option == "--netrc-file":
        (folder / "top" / path).touch(mode=0o600)
    options = ("--exists", exists, option, f"link/{path}")
    done = resolve("-q", "--json", *options, *(word.format(top=source.as_uri(), name=name) for word in words))
    assert done.status == 3
    assert [record["error"]["code"] for record in done.records if record["error"]] == ["LocalError"]
    assert names_of_server(folder) == {"other"}


def test_file_of_option_is_not_replaced_by_link_target(folder: Path) -> None:
    """The option names a symbolic link, and the server the target of the link."""
    source = serve_files(folder, "target")
    (folder / "link").symlink_to("target")
    done = resolve("-q", "--exists", "replace", "--trace", "link", f"{source.as_uri()}/target")
    assert done.status == 3
    assert names_of_server(folder) == set()


def test_archive_is_neither_replaced_nor_deleted_by_its_content(folder: Path) -> None:
    source = serve_files(folder, "x.warc", "other")
    assert resolve("-q", "-r", "--warc", "x.warc", source.as_uri()).status == 0
    archive = (folder / "x.warc").read_bytes()
    for path in ("top/x.warc", "top/surplus.warc"):
        (folder / path).write_bytes(archive)
        options = ("--exists", "replace", "--delete", "--yes", "--from-warc", path)
        done = resolve("-q", "-r", *options, source.as_uri())
        assert done.status == (3 if path == "top/x.warc" else 0)
        assert (folder / path).read_bytes() == archive


def test_check_refuses_files_of_client_certificate(folder: Path) -> None:
    command = read(["x:", "--cert", "cert.pem,below/key.pem"])
    assert command is not None
    command.own_files.check("key.pem")
    for path in ("cert.pem", "below/key.pem"):
        with pytest.raises(LocalError):
            command.own_files.check(path)


def test_equal_names_in_other_directories_are_saved(folder: Path) -> None:
    source = serve_files(folder, "l", "l-shm", "t")
    options = ("--ledger", "l", "--trace", "t", "--warc", "x.warc")
    assert resolve("-q", "-r", *options, source.as_uri()).status == 0
    assert names_of_server(folder) == {"l", "l-shm", "t"}
    assert os.path.getsize("t")
