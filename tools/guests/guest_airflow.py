"""Tests of Airflow's `ObjectStoragePath` with the file systems, against the mock servers of ftp and http.

The environment of Airflow runs the program; the servers run in this process.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

import fixtures.ftp
import fixtures.http
from fixtures.ftp.tree import File, Folder
from fixtures.http import moved
from fixtures.http.site import LAST_MODIFIED, Page
from tests.elsewhere import served

PYTHON = Path(os.environ["RESOLVE_SERVERS_ROOT"]) / "airflow" / "bin" / "python"
TABLE = b"n,square\n1,1\n2,4\n"

PROGRAM = """
import json, sys
from datetime import UTC, datetime

import fsspec
from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import attach

protocol, place, target = sys.argv[1:]
policy = {"allow_port": [int(place.partition(":")[2])]}
attach(protocol, fs=fsspec.filesystem(protocol, policy=policy))
folder = ObjectStoragePath(f"{protocol}://{place}/data")
(path,) = folder.glob("**/*.csv")
path.copy(ObjectStoragePath(f"file://{target}"))
try:
    path.write_bytes(b"")
except OSError as error:
    written = error.strerror
restored = ObjectStoragePath.deserialize(path.serialize(), 1)
print(json.dumps({
    "listed": [each.name for each in folder.iterdir()],
    "is_dir": [folder.is_dir(), path.is_dir(), (folder / "none").exists()],
    "text": path.read_text(),
    "end": restored.open("rb", block_size=4).read()[-4:].decode(),
    "size": path.stat().st_size,
    "year": datetime.fromtimestamp(path.stat().st_mtime, UTC).year,
    "checksums": len({path.checksum(), restored.checksum()}),
    "written": written,
}))
"""


async def serve_ftp(nursery: trio.Nursery) -> Any:
    server = await fixtures.ftp.serve(nursery)
    server.root.items[b"data"] = Folder({b"sub": Folder({b"table.csv": File(TABLE)})})
    return server


def index_page(path: str, name: str) -> Page:
    """Return an index page with one entry, as nginx writes it."""
    lines = f'<a href="../">../</a>\n<a href="{name}">{name}</a>  28-Nov-2026 10:00  17\n'
    text = f"<html><head><title>Index of {path}</title></head><body><h1>Index of {path}</h1><hr><pre>{lines}"
    return Page(f"{text}</pre><hr></body></html>".encode(), "text/html")


async def serve_http(nursery: trio.Nursery) -> Any:
    site = {
        "/data": moved("/data/"),
        "/data/": index_page("/data/", "sub/"),
        "/data/sub": moved("/data/sub/"),
        "/data/sub/": index_page("/data/sub/", "table.csv"),
        "/data/sub/table.csv": Page(TABLE, "text/csv", headers=(LAST_MODIFIED,)),
    }
    return await fixtures.http.serve(nursery, site)


@pytest.mark.parametrize(("scheme", "serve", "year"), [("ftp", serve_ftp, 2001), ("http", serve_http, 1994)])
def test_path_lists_reads_and_copies(
    scheme: str, serve: Callable[[trio.Nursery], Awaitable[Any]], year: int, tmp_path: Path
) -> None:
    with served(serve) as server:
        arguments = [f"resolve{scheme}", f"127.0.0.1:{server.port}", str(tmp_path / "copied.csv")]
        environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path / "airflow")}
        done = subprocess.run(
            [PYTHON, "-c", PROGRAM, *arguments], env=environment, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "listed": ["sub"],
        "is_dir": [True, False, False],
        "text": TABLE.decode(),
        "end": "2,4\n",
        "size": len(TABLE),
        "year": year,
        "checksums": 1,
        "written": "read-only file system: url-resolver does not write",
    }
    assert (tmp_path / "copied.csv").read_bytes() == TABLE
