"""`--warc` with lists, trees, ledgers and the Python interface; and interrupted runs."""

from __future__ import annotations

import random
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import httpx
import pytest

from resolver import HttpxTransport, Limits, LocalError, Options, Policy, Resolver, Truncated, parse
from resolver.warc import Recorder
from resolver.warc.recorder import CaptureRecording, WarcVolume
from resolver.warc.records import WarcRecord, read_records
from tests.hang import HANG
from tests.resolver.cli.command import resolve
from tests.resolver.cli.test_warc import check, records
from tests.resolver.warc.archives import Kept, Octets

CHECKOUT = Path(__file__).parents[3]

ANY_PORT = Policy(allow_port=frozenset(range(1, 65_536)))


def test_warc_with_ledger_stores_list_and_saves_files(at: dict[str, str], folder: Path) -> None:
    urls = [f"{at['http']}/about.txt", f"{at['ftp']}/pub/a.txt", f"{at['gopher']}/00/about"]
    (folder / "list").write_text("".join(f"{url}\n" for url in urls))
    words = ["get", "-q", "-i", "list", "-d", "out", "--host-directories"]
    words += ["--ledger", "run.db", "--warc", "a.warc.gz"]
    assert resolve(*words).status == 0
    check(folder / "a.warc.gz")
    objects = [each for each in records(folder / "a.warc.gz") if each.head.type in ("response", "resource")]
    assert {each.head.target for each in objects} == set(urls)
    saved = {path.read_bytes() for path in (folder / "out").rglob("*") if path.is_file()}
    assert {
        each.block.rpartition(b"HTTP")[2].partition(b"\r\n\r\n")[2] or each.block for each in objects
    } == saved
    assert resolve(*words).status == 0  # all URLs are done: nothing is fetched
    types = [each.head.type for each in records(folder / "a.warc.gz")]
    assert types.count("response") == 1
    assert types[-1] == "warcinfo"


def test_warc_tree_stores_files_and_listings(at: dict[str, str], folder: Path) -> None:
    words = ["get", "-q", "-r", "-d", "out", "--warc", "a.warc.gz", f"{at['ftp']}/pub/"]
    assert resolve(*words).status == 8  # no user can read one of the files
    check(folder / "a.warc.gz")
    entries = [each for each in records(folder / "a.warc.gz") if each.head.type == "resource"]
    files = [path for path in (folder / "out").rglob("*") if path.is_file()]
    documents = [each for each in entries if not (each.head.media_type or "").startswith("text/x-ftp-")]
    assert len(entries) > len(documents)
    assert sorted(each.block for each in documents) == sorted(path.read_bytes() for path in files)


def test_warc_partial_file_is_fetched_completely(at: dict[str, str], folder: Path) -> None:
    assert resolve("get", "-q", "--tries", "1", "-O", "x", f"{at['short']}/").status == 10
    words = ["get", "-q", "-O", "y", "--exists", "resume", "--warc", "a.warc.gz", f"{at['http']}/about.txt"]
    (folder / "y").write_bytes(b"A text")
    assert resolve(*words).status == 0
    assert (folder / "y").read_bytes() == b"A text of two lines.\nThe second one.\n"
    (response,) = [each for each in records(folder / "a.warc.gz") if each.head.type == "response"]
    assert response.block.startswith(b"HTTP/1.1 200 ")


async def test_recorder_stores_requests_of_resolver(at: dict[str, str], folder: Path) -> None:
    with Recorder("a.warc.gz") as recorder:
        async with Resolver(recorder=recorder, policy=ANY_PORT) as session:
            response = await session.fetch(f"{at['http']}/about.txt")
            saved = await session.save(f"{at['ftp']}/pub/a.txt", "a.txt")
            async with session.entries(f"{at['gopher']}/") as entries:
                names = [entry.name async for entry in entries]
            outcomes = [
                each.status
                async for each in session.save_all(
                    [f"{at['http']}/gzip", f"{at['http']}/none"], directory="d"
                )
            ]
    assert (sorted(outcomes), bool(names)) == (["done", "failed"], True)
    check(folder / "a.warc.gz")
    blocks = {(each.head.target, each.head.type): each.block for each in records(folder / "a.warc.gz")}
    assert blocks[f"{at['http']}/about.txt", "response"].endswith(response.content)
    assert len(blocks[f"{at['ftp']}/pub/a.txt", "resource"]) == saved.bytes
    assert blocks[f"{at['http']}/none", "response"].startswith(b"HTTP/1.1 404 ")


async def test_recorder_stores_requests_of_httpx(at: dict[str, str], folder: Path) -> None:
    with Recorder("a.warc.gz") as recorder:
        async with httpx.AsyncClient(transport=HttpxTransport(recorder=recorder)) as client:
            answer = await client.get(f"{at['http']}/moved", follow_redirects=True)
            await client.post(
                f"{at['http']}/about.txt", content=b"what is sent", headers={"Cookie": "a=secret"}
            )
    check(folder / "a.warc.gz")
    entries = records(folder / "a.warc.gz")
    responses = [each for each in entries if each.head.type == "response"]
    requests = [each.block for each in entries if each.head.type == "request"]
    assert len(responses) == len(requests) == 3
    assert responses[1].block.endswith(answer.content)
    assert requests[2].startswith(b"POST /about.txt ")
    assert requests[2].endswith(b"\r\n\r\nwhat is sent")
    assert b"Cookie: ****\r\n" in requests[2]
    assert b"hopsFromSeed: R\r\n" in [each for each in entries if each.head.type == "metadata"][1].block
    lines = (folder / "a.cdxj").read_text().splitlines()
    assert len(lines) == 2  # a URL does not identify the content of a POST request


async def test_recorder_marks_unread_body_as_truncated(at: dict[str, str], folder: Path) -> None:
    with Recorder("a.warc") as recorder:
        async with Resolver(recorder=recorder, policy=ANY_PORT) as session:
            async with session.stream(f"{at['gopher']}/") as reply:
                await reply.body.take(1)
            with pytest.raises(Truncated):
                await session.fetch(f"{at['short']}/")
    entries = records(folder / "a.warc")
    path = [each for each in entries if each.head.type in ("response", "resource")]
    assert [each.head.get_first("WARC-Truncated") for each in path] == ["unspecified", "disconnect"]


async def test_recorder_marks_too_large_body_as_truncated(at: dict[str, str], folder: Path) -> None:
    with Recorder("a.warc") as recorder:
        async with Resolver(recorder=recorder, limits=Limits(body=100)) as session:
            with pytest.raises(Exception, match="larger than the limit"):
                await session.fetch(f"{at['gopher']}/")
    (entries,) = [each for each in records(folder / "a.warc") if each.head.type == "resource"]
    assert entries.head.get_first("WARC-Truncated") == "length"


async def test_recorder_starts_next_file_after_error(
    at: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> NoReturn:
        raise LocalError("no space left")

    url, path = f"{at['http']}/about.txt", folder / "a-00001.warc"
    with Recorder("a.warc", size=1) as recorder:
        async with Resolver(recorder=recorder, policy=ANY_PORT) as session:
            path.mkdir()
            for _ in range(2):
                with pytest.raises(LocalError, match="a-00001"):
                    await session.fetch(url)
            path.rmdir()
            with monkeypatch.context() as patch:
                patch.setattr(recorder, "_write_info", refuse)
                with pytest.raises(LocalError, match="no space left"):
                    await session.fetch(url)
            await session.fetch(url)
    check(path)
    assert [each.head.type for each in records(path)][:2] == ["warcinfo", "response"]


@pytest.mark.parametrize("name", ["a.warc.gz", "a.warc"])
def test_warc_volume_resumes_at_any_truncation(name: str, at: dict[str, str], folder: Path) -> None:
    urls = [f"{at['http']}/about.txt", f"{at['gopher']}/00/about"]
    assert resolve("cat", "-q", "--warc", name, *urls).status == 0
    octets = (folder / name).read_bytes()
    whole = [each for each in read_records(Octets(octets), Kept) if isinstance(each, WarcRecord)]
    ends = [each.end for each in whole]
    path = folder / f"cut-{name}"
    sizes = {end + more for end in ends for more in (0, 1, 3, 20, 150)}
    for size in sorted(sizes | {ends[0] - 1, len(octets) - 8}):
        path.write_bytes(octets[:size])
        volume = WarcVolume(str(path))
        assert volume.size == max((end for end in ends if end <= size), default=0)
        assert volume.size + volume.cut == min(size, len(octets))
        volume.close()
        assert path.read_bytes() == octets[: volume.size]


def test_warc_of_killed_run_is_resumed(at: dict[str, str], folder: Path) -> None:
    urls = [f"{at['http']}/about.txt", f"{at['ftp_mute']}/a"]
    script = [sys.executable, "-m", "resolver", "cat", "-q", "--warc", str(folder / "a.warc.gz"), *urls]
    with subprocess.Popen(script, cwd=CHECKOUT, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline()
        run.kill()
        run.wait(timeout=HANG)
    assert resolve("cat", "-q", "--warc", "a.warc.gz", urls[0]).status == 0
    check(folder / "a.warc.gz")
    assert [each.head.type for each in records(folder / "a.warc.gz")][-3:] == [
        "response",
        "request",
        "metadata",
    ]


def test_capture_keeps_range_only_for_http() -> None:
    options = Options(start=5, stop=9)
    assert (CaptureRecording.options(parse("http://h.example/a"), options).start, options.stop) == (5, 9)
    whole = CaptureRecording.options(parse("ftp://h.example/a"), options)
    assert (whole.start, whole.stop) == (0, None)


def test_warc_on_full_disk_has_no_damage(folder: Path) -> None:
    urls = []
    for name, octets in (
        ("first", b"x" * 100),
        ("second", random.Random(1).randbytes(20_000)),
        ("third", b"y" * 100),
    ):
        (folder / name).write_bytes(octets)
        urls.append((folder / name).as_uri())
    words = [sys.executable, "-B", "-m", "resolver", "cat", "-q", "--warc", str(folder / "a.warc.gz"), *urls]
    # in blocks of 512 or 1,024 bytes, depending on the shell
    limit = f"ulimit -f 10; exec {shlex.join(words)}"
    done = subprocess.run(["sh", "-c", limit], cwd=CHECKOUT, capture_output=True, timeout=HANG, check=False)
    assert b"cannot write" in done.stderr
    check(folder / "a.warc.gz")
    entries = [each for each in records(folder / "a.warc.gz") if each.head.type == "resource"]
    assert [each.head.target for each in entries] == [urls[0], urls[2]]


@pytest.mark.parametrize("size", ["1000000", "500"])
def test_warc_with_ledger_stores_only_changed_objects(size: str, at: dict[str, str], folder: Path) -> None:
    """The case is a kill between the records and the ledger row, also with a volume that is then full."""
    url = f"{at['http']}/about.txt"

    def count_stored(*words: str) -> int:
        common = ["get", "-q", "--exists", "replace", "--warc", "a.warc.gz", "--warc-size", size]
        assert resolve(*common, *words, url).status == 0
        heads = [each.head for path in folder.glob("*.warc.gz") for each in records(path)]
        return sum(head.target == url and head.type in ("response", "revisit") for head in heads)

    assert [count_stored("--ledger", "one"), count_stored("--ledger", "two"), count_stored()] == [1, 1, 2]
