"""Archives of this project in other programs, and archives of other programs in it: warcio, pywb, wget.

pywb needs a separate environment: `python3 -m venv .servers/pywb && .servers/pywb/bin/pip install pywb`.
(warctools 5.0 supports only WARC 1.0, and crashes when it reports this; JWAT is in no package index.)
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from resolver.warc.check import Payload
from resolver.warc.records import RecordHead, WarcRecord, read_records
from tests.hang import HANG
from tests.resolver.cli.command import resolve
from tests.resolver.cli.test_warc import records
from tests.resolver.warc.archives import Octets

CHECKOUT = Path(__file__).parents[3]
PYWB = Path(os.environ.get("RESOLVE_SERVERS_ROOT") or CHECKOUT / ".servers") / "pywb" / "bin"
_WGET = ("wget", "-q", "--no-config", "--tries=1", "-O", "out", "--warc-file=by-wget", "--warc-cdx")


def run(*words: str | Path, folder: Path) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [*map(str, words)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )
    assert done.returncode in (0, 8), done.stderr  # 8: wget, for an error response
    return done.stdout


def archive_pages(at: dict[str, str], folder: Path) -> dict[str, bytes]:
    """Create `a.warc.gz` from these pages, and return the expected body of each."""
    urls = [
        f"{at['http']}/about.txt",
        f"{at['http']}/gzip",
        f"{at['http']}/data/chunked",
        f"{at['http']}/data",
        f"{at['large']}/",
        f"{at['large']}/?again",
        f"{at['directories']}/",
    ]
    bodies = {url: resolve("cat", "-q", url).out for url in urls}
    assert resolve("cat", "-q", "--warc", "a.warc.gz", *urls, f"{at['http']}/moved").status == 0
    assert "revisit" in [each.head.type for each in records(folder / "a.warc.gz")]
    return bodies


def test_warcio_indexes_each_record(at: dict[str, str], folder: Path) -> None:
    archive_pages(at, folder)
    lines = run(
        sys.executable,
        "-m",
        "warcio.cli",
        "index",
        "-f",
        "offset,length,warc-type",
        "a.warc.gz",
        folder=folder,
    )
    result = [json.loads(line) for line in lines.splitlines()]
    assert [each["warc-type"] for each in result] == [
        each.head.type for each in records(folder / "a.warc.gz")
    ]
    ends = [int(each["offset"]) + int(each["length"]) for each in result]
    assert [int(after["offset"]) for _, after in pairwise(result)] == ends[:-1]
    assert ends[-1] == (folder / "a.warc.gz").stat().st_size


@pytest.mark.slow
@pytest.mark.skipif(not (PYWB / "pywb").exists(), reason=f"there is no pywb in {PYWB}")
@pytest.mark.parametrize("index", ["its own", "ours"])
def test_pywb_replays_archive(index: str, at: dict[str, str], folder: Path) -> None:
    bodies = archive_pages(at, folder)
    run(PYWB / "python", PYWB / "wb-manager", "init", "x", folder=folder)
    place = folder / "collections" / "x"
    if index == "ours":
        shutil.copy(folder / "a.warc.gz", place / "archive")
        shutil.copy(folder / "a.cdxj", place / "indexes" / "index.cdxj")
    else:
        run(PYWB / "python", PYWB / "wb-manager", "add", "x", "a.warc.gz", folder=folder)
    text = run(
        PYWB / "python",
        CHECKOUT / "tests/resolver/cli/replayed.py",
        *bodies,
        f"{at['http']}/moved",
        folder=folder,
    )
    result = {each["url"]: each for each in map(json.loads, filter(_is_json, text.splitlines()))}
    for url, body in bodies.items():
        octets = base64.b64decode(result[url]["body"])
        assert result[url]["status"] == 200, result[url]
        assert octets == body or url.endswith("/gzip"), url
    assert result[f"{at['http']}/moved"]["status"] == 302


def _is_json(line: str) -> bool:
    return line.startswith("{")


class _PayloadReader:
    """A reader that collects the payload of a record."""

    def __init__(self, head: RecordHead) -> None:
        self._payload = Payload(head)
        self.octets = b""

    def take(self, octets: bytes) -> None:
        self.octets += self._payload.take(octets)

    @property
    def status(self) -> int | None:
        return None if self._payload.answer is None else self._payload.answer.status


def payloads(path: Path) -> dict[str, tuple[int | None, bytes]]:
    """Return the status and the body of each HTTP response in an archive, by its URL."""
    result = {}
    for each in read_records(Octets(path.read_bytes()), _PayloadReader):
        assert isinstance(each, WarcRecord), each
        if each.head.type == "response" and each.head.target is not None:
            result[each.head.target] = (each.reader.status, each.reader.octets)
    return result


@pytest.mark.skipif(shutil.which("wget") is None, reason="there is no wget")
def test_wget_archive_has_same_payloads(at: dict[str, str], folder: Path) -> None:
    bodies = archive_pages(at, folder)
    run(*_WGET, *bodies, f"{at['http']}/moved", f"{at['http']}/gone", folder=folder)
    resolve("cat", "-q", "--warc", "a.warc.gz", f"{at['http']}/gone")
    expected, actual = payloads(folder / "by-wget.warc.gz"), payloads(folder / "a.warc.gz")
    assert {url: expected[url] for url in actual} == actual
    assert {status for status, _ in actual.values()} == {200, 302, 410}
    for verb in ("ls", "check"):
        done = resolve("warc", verb, "by-wget.warc.gz")
        assert done.status == 0, done.messages
    listed = resolve("warc", "ls", "--json", "by-wget.warc.gz").records
    assert {each["url"] for each in listed if each["type"] == "response"} == set(expected)
