"""`--warc FILE` and `--warc-dedup`: the records of each scheme; and `resolve warc ls` and `check`."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio
import warcio.cli

from resolver import Policy, Resolver
from resolver.warc import Recorder
from resolver.warc.group import RecordGroup
from resolver.warc.recorder import WarcVolume
from resolver.warc.records import RecordHead, WarcRecord, read_records
from tests.hang import HANG
from tests.resolver.cli import contract
from tests.resolver.cli.command import resolve
from tests.resolver.warc.archives import WARC, Kept, Octets, packed, record


class StoredRecord(NamedTuple):
    """A record as this project's reader reads it."""

    head: RecordHead
    block: bytes

    @property
    def events(self) -> list[dict[str, Any]]:
        """Return the protocol exchange in a metadata record."""
        lines = [line for line in self.block.decode().split("\r\n") if line.startswith("dialogue: ")]
        return [json.loads(line.partition(" ")[2]) for line in lines]

    def of(self, event: str) -> list[dict[str, Any]]:
        return [each for each in self.events if each["event"] == event]


def records(path: Path) -> list[StoredRecord]:
    result = []
    for each in read_records(Octets(path.read_bytes()), Kept):
        assert isinstance(each, WarcRecord), each
        assert not each.shares_member
        result.append(StoredRecord(each.head, bytes(each.reader.block)))
    return result


def check(path: Path, *others: Path) -> None:
    """Check the file with `resolve warc check` and with warcio; it may refer to `others`.

    This project's check tests more; warcio is the common tool.
    """
    done = resolve("warc", "check", str(path), *map(str, others))
    assert (done.status, done.out) == (0, b""), done.out
    output = io.StringIO()
    with redirect_stdout(output), pytest.raises(SystemExit) as ended:
        warcio.cli.main(["check", "-v", str(path)])
    assert ended.value.code == 0, output.getvalue()
    assert "no digest to check" not in output.getvalue().replace("payload digest: no digest", "")


def archived_records(at: dict[str, str], folder: Path, *words: str, status: int = 0) -> list[StoredRecord]:
    done = resolve(words[0], "-q", "--warc", "a.warc.gz", *(word.format_map(at) for word in words[1:]))
    assert done.status == status, done.messages
    check(folder / "a.warc.gz")
    return records(folder / "a.warc.gz")


def test_warc_http_exchange_is_stored_byte_for_byte(at: dict[str, str], folder: Path) -> None:
    info, response, request, metadata = archived_records(at, folder, "cat", "{http}/about.txt")
    assert info.head.type == "warcinfo"
    assert b"software: url-resolver/" in info.block
    assert (response.head.type, request.head.type, metadata.head.type) == ("response", "request", "metadata")
    assert response.block.startswith(b"HTTP/1.1 200 OK\r\n")
    assert response.block.partition(b"\r\n\r\n")[2] == b"A text of two lines.\nThe second one.\n"
    assert request.block.startswith(b"GET /about.txt HTTP/1.1\r\nHost: 127.0.0.1")
    assert response.head.target == f"{at['http']}/about.txt"
    assert response.head.get_first("WARC-IP-Address") == "127.0.0.1"
    assert response.head.get_first("WARC-Protocol") == "http/1.1"
    for each in (request, metadata):
        assert each.head.get_first("WARC-Concurrent-To") == response.head.id
        assert each.head.get_first("WARC-Date") == response.head.get_first("WARC-Date")
    assert all(
        each.head.get_first("WARC-Warcinfo-ID") == info.head.id for each in (response, request, metadata)
    )
    begin, *_, end = metadata.events
    assert (begin["event"], begin["format"], begin["t"]) == ("begin", 1, 0)
    assert (end["event"], end["outcome"], end["status"], end["size"]) == ("end", "done", 200, 37)
    (body,) = metadata.of("body")
    assert body["block"] == [len(response.block) - 37, len(response.block)]
    assert not metadata.of("send") + metadata.of("receive")


def test_warc_redirect_hops_have_via(at: dict[str, str], folder: Path) -> None:
    entries = archived_records(at, folder, "cat", "{http}/moved")
    hops = [each for each in entries if each.head.type == "response"]
    assert [each.block[9:12] for each in hops] == [b"302", b"200"]
    last = entries[-1].block.split(b"\r\n")
    assert last[:2] == [f"via: {at['http']}/moved".encode(), b"hopsFromSeed: R"]


def test_warc_http_error_response_is_stored(at: dict[str, str], folder: Path) -> None:
    entries = archived_records(at, folder, "cat", "{http}/none", status=8)
    assert entries[1].block.startswith(b"HTTP/1.1 404 ")
    assert entries[1].block.partition(b"\r\n\r\n")[2]
    assert entries[3].events[-1]["status"] == 404


def test_warc_keeps_content_coding(at: dict[str, str], folder: Path) -> None:
    entries = archived_records(at, folder, "cat", "{http}/gzip")
    assert gzip.decompress(entries[1].block.partition(b"\r\n\r\n")[2])
    assert entries[1].head.get_first("WARC-Payload-Digest") is not None


def test_warc_gopher_menu_is_stored_as_lines(at: dict[str, str], folder: Path) -> None:
    _info, resource, metadata = archived_records(at, folder, "cat", "{gopher}/1/sub")
    assert resource.head.media_type == "application/gopher-menu"
    assert b"\t" in resource.block
    assert not resource.block.endswith(b"\r\n.\r\n")
    (body,) = metadata.of("body")
    assert body["block"] == [0, len(resource.block)]
    assert [each["octets"] for each in metadata.of("send")] == ["/sub\r\n"]
    assert not metadata.of("receive")


@pytest.mark.parametrize(
    ("url", "media_type"),
    [
        ("{ftp}/pub/a.txt", "text/plain"),
        ("{ftp}/pub/a.txt;type=a", "text/plain"),
        ("{ftp}/pub/", "text/x-ftp-nlst"),
        ("{gopher}/00/about", "text/plain"),
        ("{nntp}/comp.misc/1235", "message/rfc822"),
        ("{file}/about.txt", "text/plain"),
        ("{file}/", "application/x-file-listing+jsonl"),
        ("{nntp}/comp.misc", "application/x-nntp-answers"),
        ("{news}/", "application/x-nntp-answers"),
        ("{wais}/demo?ferry", "application/x-wais-messages"),
        ("{wais}/demo", "application/x-wais-source"),
        ("{prospero}//example", "text/x-prospero-answer"),
        ("{prospero}/AFTP/pub/hello.txt", "text/plain"),
    ],
)
def test_warc_object_and_exchange_are_stored(
    url: str, media_type: str, at: dict[str, str], folder: Path
) -> None:
    _info, resource, metadata = archived_records(at, folder, "cat", url)
    assert (resource.head.type, resource.head.media_type) == ("resource", media_type)
    assert resource.block
    assert metadata.events[-1]["outcome"] == "done"
    assert metadata.events[-1]["size"] == len(resource.block)


def test_warc_newsgroup_replies_are_stored_unchanged(at: dict[str, str], folder: Path) -> None:
    _info, resource, _metadata = archived_records(at, folder, "cat", "{nntp}/comp.misc")
    assert resource.head.get_first("Content-Type") == 'application/x-nntp-answers; commands="GROUP OVER"'
    lines = resource.block.split(b"\r\n")
    assert (lines[0][:4], lines[1][:4], lines[-2:]) == (b"211 ", b"224 ", [b".", b""])


def test_warc_wais_body_is_not_repeated_in_metadata(at: dict[str, str], folder: Path) -> None:
    _info, resource, metadata = archived_records(at, folder, "cat", "{wais}/demo?ferry")
    (body,) = metadata.of("body")
    assert (body["framing"], body["count"]) == ("messages", len(resource.block))
    assert len(metadata.of("receive")) == 1
    assert b"Quay notes" in resource.block
    assert b"Quay notes" not in metadata.block


def test_warc_directory_names_are_stored_byte_for_byte(at: dict[str, str], folder: Path) -> None:
    _info, resource, _metadata = archived_records(at, folder, "cat", "{file}/")
    names = [json.loads(line)["name"] for line in resource.block.splitlines()]
    assert names == ["\x1b[31m", "about.txt", "l\r\nies"]


def test_warc_failure_stores_exchange(at: dict[str, str], folder: Path) -> None:
    _info, metadata = archived_records(at, folder, "cat", "{ftp}/pub/none", status=8)
    end = metadata.events[-1]
    assert (end["outcome"], end["error"]["code"], end["error"]["reply"]) == ("failed", "NotFound", "550")


def test_warc_info_stores_only_exchange(at: dict[str, str], folder: Path) -> None:
    _info, metadata = archived_records(at, folder, "info", "{http}/about.txt")
    assert metadata.events[-1]["outcome"] == "info"
    assert [each["octets"][:5] for each in metadata.of("send")] == ["HEAD "]
    assert len(metadata.of("receive")) == 1


def test_warc_telnet_session_stores_exchange(at: dict[str, str], folder: Path) -> None:
    _info, metadata = archived_records(at, folder, "cat", "--until", "login: ", "{telnet_login}/")
    assert metadata.events[-1]["outcome"] == "done"
    assert "login: " in "".join(each["octets"] for each in metadata.of("receive"))


def test_warc_contains_no_password(at: dict[str, str], folder: Path) -> None:
    member = at["ftp"].replace("//", "//alice:wonderland@", 1)
    site = at["http"].replace("//", "//alice:wonderland@", 1)
    words = ["cat", "-q", "--warc", "a.warc", "--allow-password", "-H", "X-Token: wonderland-too"]
    resolve(*words, f"{member}/pub/a.txt", f"{site}/about.txt", f"{at['ftp']}/pub/a.txt")
    octets = (folder / "a.warc").read_bytes()
    assert b"wonderland" not in octets
    assert b"YWxpY2U6d29uZGVybGFuZA" not in octets  # the same in base64
    assert b"anonymous@" not in octets
    assert b"PASS ****" in octets
    check(folder / "a.warc")


@pytest.mark.parametrize("keeps", [False, True])
def test_warc_set_cookie_is_stored_only_with_warc_cookies(
    at: dict[str, str], folder: Path, keeps: bool
) -> None:
    entries = archived_records(at, folder, "cat", *(["--warc-cookies"] if keeps else []), "{cookies}/set")
    response, *_, metadata = entries[1:]
    assert (b"Set-Cookie: c=sekret; Path=/\r\n" in response.block) is keeps
    assert (b"Set-Cookie: ****\r\n" in response.block) is not keeps
    assert metadata.events[-1].get("masked") == (None if keeps else ["response:set-cookie"])


@pytest.mark.parametrize("words", [["--warc-cookies"], ["--warc-size", "1M"], ["--warc-dedup", "a.cdxj"]])
def test_warc_option_without_warc_is_a_usage_error(words: list[str], at: dict[str, str]) -> None:
    done = resolve("cat", *words, f"{at['http']}/about.txt")
    assert (done.status, done.out) == (2, b"")
    assert f"{words[0]} needs --warc" in done.messages


def test_warc_new_files_are_private(at: dict[str, str], folder: Path) -> None:
    (folder / "b.warc").touch()
    (folder / "b.warc").chmod(0o640)
    umask = os.umask(0o022)
    try:
        for name in ("a.warc", "b.warc"):
            words = ["cat", "-q", "--warc", name, "--warc-size", "1"]
            assert resolve(*words, f"{at['http']}/about.txt", f"{at['gopher']}/1/sub").status == 0
    finally:
        os.umask(umask)
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.glob("[ab]*")}
    assert modes.pop("b.warc") == modes.pop("b.cdxj") == 0o640
    assert set(modes.values()) == {0o600}
    assert {"a.warc", "a.cdxj", "a-00001.warc", "a-00001.cdxj"} <= set(modes)


def test_warc_truncated_response_has_reason(at: dict[str, str], folder: Path) -> None:
    entries = archived_records(at, folder, "cat", "--tries", "1", "{short}/", status=10)
    assert entries[1].head.get_first("WARC-Truncated") == "disconnect"
    assert entries[1].block.endswith(b"\r\n\r\nabc")
    assert (entries[3].events[-1]["outcome"], entries[3].events[-1]["expected"]) == ("truncated", 10)


def test_warc_second_run_appends_after_last_complete_record(at: dict[str, str], folder: Path) -> None:
    first = archived_records(at, folder, "cat", "{http}/about.txt")
    path = folder / "a.warc.gz"
    octets = path.read_bytes()
    path.write_bytes(octets[:-9])
    words = ["cat", "--warc", "a.warc.gz", f"{at['http']}/about.txt"]
    done = resolve(*words)
    assert "interrupted run" in done.messages
    again = records(path)
    assert [each.head.id for each in again[:3]] == [each.head.id for each in first[:3]]
    types = [each.head.type for each in again]
    assert types == ["warcinfo", "response", "request", "warcinfo", "response", "request", "metadata"]
    check(path)


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_warc_file_of_other_program_is_unchanged(name: str, at: dict[str, str], folder: Path) -> None:
    (folder / name).write_bytes(b"what a person wrote\n")
    assert resolve("cat", "--warc", name, f"{at['http']}/about.txt").status == 3
    assert (folder / name).read_bytes() == b"what a person wrote\n"


def test_warc_damaged_file_is_refused_and_unchanged(at: dict[str, str], folder: Path) -> None:
    archived_records(at, folder, "cat", "{http}/about.txt")
    path = folder / "a.warc.gz"
    octets = bytearray(path.read_bytes())
    octets[40] ^= 0xFF
    path.write_bytes(octets)
    done = resolve("cat", "--warc", "a.warc.gz", f"{at['http']}/about.txt")
    assert done.status == 3
    assert "resolve warc check" in done.messages
    assert path.read_bytes() == octets


def test_warc_ls_to_full_disk_stops_and_names_the_output() -> None:
    """The archives are not the cause, and a further archive is not read."""
    archive = str(WARC / "http.warc.gz")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "resolver", "warc", "ls", archive, archive],
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            check=False,
        )
    message = b"resolve: cannot write to standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (3, message)


def test_warc_file_name_selects_compression(at: dict[str, str], folder: Path) -> None:
    assert resolve("cat", "--warc", "a.zip", f"{at['http']}/about.txt").status == 2
    assert resolve("cat", "-q", "--warc", "a.warc", f"{at['http']}/about.txt").status == 0
    assert (folder / "a.warc").read_bytes().startswith(b"WARC/1.1\r\n")
    check(folder / "a.warc")


def index(path: Path) -> list[tuple[str, dict[str, str]]]:
    lines = path.read_text("ascii").splitlines()
    assert lines == sorted(lines)
    return [(line.split(" ")[0], json.loads(line.split(" ", 2)[2])) for line in lines]


def test_warc_index_has_offset_of_each_object(at: dict[str, str], folder: Path) -> None:
    archived_records(at, folder, "cat", "{http}/about.txt", "{gopher}/1/sub", "{ftp}/pub/a.txt")
    rows = index(folder / "a.cdxj")
    assert {row["url"] for _, row in rows} == {
        f"{at['http']}/about.txt",
        f"{at['gopher']}/1/sub",
        f"{at['ftp']}/pub/a.txt",
    }
    octets = (folder / "a.warc.gz").read_bytes()
    for _, row in rows:
        begin = int(row["offset"])
        member = gzip.decompress(octets[begin : begin + int(row["length"])])
        assert f"WARC-Target-URI: {row['url']}\r\n".encode() in member
        assert f"WARC-Payload-Digest: {row['digest']}\r\n".encode() in member
    (http,) = [row for _, row in rows if row["url"].startswith("http")]
    assert (http["mime"], http["status"], http["filename"]) == ("text/plain", "200", "a.warc.gz")


def test_warc_index_of_resumed_file_is_complete(at: dict[str, str], folder: Path) -> None:
    archived_records(at, folder, "cat", "{http}/about.txt", "{http}/gzip")
    before = index(folder / "a.cdxj")
    (folder / "a.cdxj").write_text("nonsense\n")
    archived_records(at, folder, "cat", "{gopher}/1/sub")
    after = index(folder / "a.cdxj")
    assert [each for each in after if each in before] == before
    assert len(after) == len(before) + 1


def test_warc_repeated_body_is_revisit(at: dict[str, str], folder: Path) -> None:
    (folder / "big.txt").write_bytes(b"x" * 600)
    (folder / "same.txt").write_bytes(b"x" * 600)
    (folder / "small.txt").write_bytes(b"x" * 100)
    base = folder.as_uri()
    names = ("big.txt", "same.txt", "small.txt", "small.txt")
    entries = archived_records(at, folder, "cat", *(f"{base}/{name}" for name in names))
    types = [each.head.type for each in entries if each.head.type not in ("metadata", "warcinfo")]
    assert types == ["resource", "revisit", "resource", "resource"]
    original, revisit = entries[1], entries[3]
    assert revisit.block == b""
    assert revisit.head.media_type is None
    for name, value in (
        ("WARC-Refers-To", original.head.id),
        ("WARC-Refers-To-Date", original.head.get_first("WARC-Date")),
        ("WARC-Refers-To-Target-URI", original.head.target),
        ("WARC-Payload-Digest", original.head.get_first("WARC-Payload-Digest")),
        ("WARC-Profile", "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"),
    ):
        assert revisit.head.get_first(name) == value
    assert [row.get("mime") for _, row in index(folder / "a.cdxj")].count("warc/revisit") == 1


def test_warc_http_revisit_has_response_head(at: dict[str, str], folder: Path) -> None:
    entries = archived_records(at, folder, "cat", "{large}/", "{large}/?again")
    original, revisit = [each for each in entries if each.head.type in ("response", "revisit")]
    assert (original.head.type, revisit.head.type) == ("response", "revisit")
    assert original.block.startswith(revisit.block)
    assert revisit.block.endswith(b"\r\n\r\n")
    assert revisit.head.get_first("WARC-Truncated") == "length"


def test_warc_size_starts_new_volume(at: dict[str, str], folder: Path) -> None:
    urls = [f"{at['http']}/about.txt", f"{at['gopher']}/1/sub"]
    for _ in range(2):
        assert resolve("cat", "-q", "--warc", "a.warc.gz", "--warc-size", "500", *urls).status == 0
    names = ["a.warc.gz", "a-00001.warc.gz", "a-00002.warc.gz", "a-00003.warc.gz"]
    assert sorted(path.name for path in folder.glob("*.warc.gz")) == sorted(names)
    for name in names:
        check(folder / name)
        entries = records(folder / name)
        assert entries[0].head.type == "warcinfo"
        assert entries[0].head.get_first("WARC-Filename") == name
        assert all(row["filename"] == name for _, row in index(folder / name.replace(".warc.gz", ".cdxj")))


# `--warc-dedup CDX`: bodies in earlier archives, by any program, are not stored again.

PROFILE = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"


def environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home)}


def objects(path: Path) -> list[StoredRecord]:
    return [each for each in records(path) if each.head.type in ("response", "resource", "revisit")]


def test_warc_dedup_refers_to_earlier_archive(at: dict[str, str], folder: Path) -> None:
    (folder / "big.txt").write_bytes(b"x" * 600)
    urls = [f"{at['large']}/", (folder / "big.txt").as_uri(), f"{at['http']}/about.txt"]
    assert resolve("cat", "-q", "--warc", "a.warc.gz", *urls).status == 0
    first = objects(folder / "a.warc.gz")
    words = ["cat", "-q", "--warc", "b.warc.gz", "--warc-dedup", "a.cdxj"]
    assert resolve(*words, *urls, f"{at['large']}/?again").status == 0
    again = objects(folder / "b.warc.gz")
    assert [each.head.type for each in again] == ["revisit", "revisit", "response", "revisit"]
    for each, original in ((again[0], first[0]), (again[1], first[1]), (again[3], first[0])):
        for name, value in (
            ("WARC-Refers-To", original.head.id),
            ("WARC-Refers-To-Target-URI", original.head.target),
            ("WARC-Refers-To-Date", original.head.get_first("WARC-Date")),
            ("WARC-Profile", PROFILE),
        ):
            assert each.head.get_first(name) == value
        assert each.head.get_first("WARC-Payload-Digest") is not None
    check(folder / "b.warc.gz", folder / "a.warc.gz")  # every reference has a target


def test_warc_dedup_accepts_several_indexes(at: dict[str, str], folder: Path) -> None:
    for name, octets in (("a", b"x" * 600), ("b", b"y" * 600)):
        (folder / name).write_bytes(octets)
        assert resolve("cat", "-q", "--warc", f"{name}.warc.gz", (folder / name).as_uri()).status == 0
    words = ["cat", "-q", "--warc", "c.warc.gz", "--warc-dedup", "a.cdxj", "--warc-dedup", "b.cdxj"]
    assert resolve(*words, *((folder / name).as_uri() for name in "ab")).status == 0
    assert [each.head.type for each in objects(folder / "c.warc.gz")] == ["revisit"] * 2


def test_warc_dedup_wrong_index_is_ignored(at: dict[str, str], folder: Path) -> None:
    url = f"{at['large']}/"
    assert resolve("cat", "-q", "--warc", "a.warc.gz", url).status == 0
    (folder / "a.warc.gz").write_bytes(b"what a person wrote")
    assert resolve("cat", "-q", "--warc", "b.warc.gz", "--warc-dedup", "a.cdxj", url).status == 0
    assert [each.head.type for each in objects(folder / "b.warc.gz")] == ["response"]


def test_warc_dedup_unreadable_index_creates_no_file(at: dict[str, str], folder: Path) -> None:
    (folder / "a.cdxj").write_text("nonsense\n")
    for name in ("a.cdxj", "none.cdxj"):
        words = ["cat", "--warc", "b.warc.gz", "--warc-dedup", name, f"{at['http']}/about.txt"]
        done = resolve(*words)
        assert done.status == 3
        assert name in done.messages
        assert not (folder / "b.warc.gz").exists()


def test_warc_dedup_invalid_lines_are_reported(at: dict[str, str], folder: Path) -> None:
    url = f"{at['large']}/"
    assert resolve("cat", "-q", "--warc", "a.warc.gz", url).status == 0
    with (folder / "a.cdxj").open("a") as file:
        file.write("nonsense\n")
    done = resolve("cat", "--warc", "b.warc.gz", "--warc-dedup", "a.cdxj", url)
    assert "--warc-dedup: cannot parse 1 line" in done.messages
    assert [each.head.type for each in objects(folder / "b.warc.gz")] == ["revisit"]


@pytest.mark.skipif(shutil.which("wget") is None, reason="there is no wget")
def test_warc_dedup_refers_to_wget_archive(at: dict[str, str], folder: Path) -> None:
    url = f"{at['large']}/"
    words = ["wget", "-q", "--no-config", "--warc-file=made/by-wget", "--warc-cdx", "-O", "out", url]
    (folder / "made").mkdir()
    subprocess.run(
        words, cwd=folder, check=True, timeout=HANG, env={"PATH": "/usr/bin:/bin", "HOME": str(folder)}
    )
    assert resolve("cat", "-q", "--warc", "b.warc.gz", "--warc-dedup", "made/by-wget.cdx", url).status == 0
    (revisit,) = objects(folder / "b.warc.gz")
    (original,) = [
        each for each in objects(folder / "made" / "by-wget.warc.gz") if each.head.type == "response"
    ]
    assert (revisit.head.type, revisit.head.get_first("WARC-Refers-To")) == ("revisit", original.head.id)
    assert revisit.head.get_first("WARC-Refers-To-Target-URI") == url


# Records that may wait for the disk are written in a thread: only the recorded exchange waits.

ANY_PORT = Policy(allow_port=frozenset(range(1, 65_536)))


class SlowRecorder:
    """A recorder that blocks on records of one URL until it is released."""

    def __init__(self, recorder: Recorder, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at_it, self._go = trio.Event(), threading.Event()
        self._token = trio.lowlevel.current_trio_token()
        self._keep, self._url = recorder.write_group, url
        monkeypatch.setattr(recorder, "write_group", self.keep)

    def keep(self, group: RecordGroup) -> None:
        if group.subject.target == self._url:
            self._token.run_sync_soon(self.at_it.set)
            assert self._go.wait(HANG)
        self._keep(group)

    def let_go(self) -> None:
        self._go.set()


def archived_targets(path: Path) -> list[str | None]:
    check(path)
    return [each.head.target for each in records(path) if each.head.type in ("response", "resource")]


async def test_warc_slow_write_delays_only_its_response(
    at: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = f"{at['http']}/about.txt", f"{at['gopher']}/00/about"
    done = list[str]()

    async def fetch(session: Resolver, url: str) -> None:
        await session.fetch(url)
        done.append(url)

    with Recorder("a.warc.gz", sync=True) as recorder:
        slow = SlowRecorder(recorder, first, monkeypatch)
        opened = Resolver(recorder=recorder, policy=ANY_PORT)
        async with opened as session, trio.open_nursery() as nursery:
            nursery.start_soon(fetch, session, first)
            await slow.at_it.wait()
            await fetch(session, second)
            assert done == [second]  # a response counts only after it is recorded
            slow.let_go()
    assert done == [second, first]
    assert archived_targets(folder / "a.warc.gz") == [second, first]


async def test_warc_cancel_during_write_keeps_record(
    at: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{at['http']}/about.txt"
    with Recorder("a.warc.gz", sync=True) as recorder:
        slow = SlowRecorder(recorder, url, monkeypatch)
        opened = Resolver(recorder=recorder, policy=ANY_PORT)
        async with opened as session, trio.open_nursery() as nursery:
            nursery.start_soon(session.fetch, url)
            await slow.at_it.wait()
            nursery.cancel_scope.cancel()
            slow.let_go()
    assert archived_targets(folder / "a.warc.gz") == [url]


@pytest.mark.parametrize(("settings", "is_here"), [({}, True), ({"sync": True}, False), ({"size": 1}, False)])
async def test_warc_small_record_needs_thread_only_to_wait(
    settings: dict[str, Any], is_here: bool, at: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread, keep, result = threading.get_ident(), Recorder.write_group, list[bool]()

    def record(recorder: Recorder, group: RecordGroup) -> None:
        result.append(threading.get_ident() == thread)
        keep(recorder, group)

    monkeypatch.setattr(Recorder, "write_group", record)
    (folder / "large.txt").write_bytes(b"x" * 32_769)
    with Recorder("a.warc.gz", **settings) as recorder:
        async with Resolver(recorder=recorder, policy=ANY_PORT) as session:
            await session.fetch(f"{at['http']}/about.txt")
            await session.fetch((folder / "large.txt").as_uri())
    assert result == [is_here, False]


async def test_warc_cancel_before_write_keeps_record(at: dict[str, str], folder: Path) -> None:
    url = f"{at['http']}/about.txt"
    with Recorder("a.warc.gz") as recorder:
        async with Resolver(recorder=recorder, policy=ANY_PORT) as session:
            with trio.CancelScope() as scope:
                async with session.stream(url) as reply:
                    async for _ in reply.body:
                        pass
                    scope.cancel()
    assert archived_targets(folder / "a.warc.gz") == [url]


class Disk:
    """A disk that counts its syncs; the first sync blocks until `captures` captures wait."""

    def __init__(self, captures: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.syncs = self._count = 0
        self._max_count = captures
        self._all = threading.Event()
        self._sync, self._together = WarcVolume.sync, WarcVolume.open_transaction
        monkeypatch.setattr(WarcVolume, "sync", lambda volume: self.sync(volume))
        monkeypatch.setattr(WarcVolume, "open_transaction", lambda volume: self.together(volume))

    def sync(self, volume: WarcVolume) -> None:
        self.syncs += 1
        assert self._all.wait(HANG)
        self._sync(volume)

    @contextmanager
    def together(self, volume: WarcVolume) -> Iterator[None]:
        with self._together(volume):
            yield
        self._count += 1
        if self._count == self._max_count:
            self._all.set()


async def test_warc_concurrent_captures_share_sync(
    at: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = [f"{at['gopher']}/00/about"] * 8
    with Recorder("a.warc.gz", sync=True) as recorder:
        disk = Disk(len(urls), monkeypatch)
        opened = Resolver(recorder=recorder, policy=ANY_PORT)
        async with opened as session, trio.open_nursery() as nursery:
            for url in urls:
                nursery.start_soon(session.fetch, url)
    assert len(archived_targets(folder / "a.warc.gz")) == len(urls)
    assert 2 <= disk.syncs <= 3  # a capture that is written but not yet counted may miss the second sync


async def test_warc_volume_is_synced_before_next_volume(
    at: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = list[str]()
    monkeypatch.setattr(WarcVolume, "sync", lambda volume: synced.append(volume.name))
    with Recorder("a.warc.gz", sync=True, size=1) as recorder:
        monkeypatch.setattr(recorder, "_flush", lambda place: None)  # no sync has started yet
        async with Resolver(recorder=recorder, policy=ANY_PORT) as session:
            await session.fetch(f"{at['http']}/about.txt")
            await session.fetch(f"{at['gopher']}/00/about")
    assert synced == ["a.warc.gz", "a-00001.warc.gz"]
    assert all(archived_targets(folder / name) for name in ("a-00001.warc.gz", "a-00002.warc.gz"))


# `resolve warc`: the content of archives, and their validity.


def test_warc_ls_prints_one_line_per_record(folder: Path) -> None:
    done = resolve("warc", "ls", str(WARC / "news.warc.gz"), "--under", "news:gone@example.test")
    assert done.status == 0
    assert done.out.decode().splitlines() == [
        "2026-11-22T10:00:12  metadata  failed             1507  news:gone@example.test"
    ]


def test_warc_ls_lists_every_recorded_file() -> None:
    paths = [str(path) for path in sorted(WARC.glob("*.warc.gz"))]
    done = resolve("warc", "ls", "--json", *paths)
    assert done.status == 0
    assert len(done.records) == 78
    assert all(set(each) == contract.RECORD for each in done.records)
    kinds = {each["kind"] for each in done.records}
    assert kinds >= {
        "-",
        "200",
        "404",
        "directory",
        "document",
        "done",
        "failed",
        "group",
        "results",
        "truncated",
    }


def test_warc_ls_under_selects_urls_below(folder: Path) -> None:
    urls = ("ftp://h.example/a", "ftp://h.example/a/b", "ftp://h.example/ab", "ftp://g.example/a/b", "x y")
    (folder / "a.warc").write_bytes(b"".join(record(WARC_Target_URI=url) for url in urls))
    done = resolve("warc", "ls", "a.warc", "--under", "ftp://h.example/a/", "--json")
    assert [each["url"] for each in done.records] == ["ftp://h.example/a", "ftp://h.example/a/b"]
    assert resolve("warc", "ls", "a.warc", "--under", "no url").status == 12


def test_warc_ls_and_check_mask_password() -> None:
    for words in (["ls"], ["ls", "--json"], ["check", "--json"]):
        done = resolve("warc", *words, str(WARC / "foreign" / "wget-ftp.warc.gz"))
        assert b"secret" not in done.out + done.err


def test_warc_check_prints_line_per_fault(folder: Path) -> None:
    octets = packed(record(), record(b"x", length="7"), record(WARC_Record_ID="<2>", WARC_Refers_To="<3>"))
    (folder / "a.warc.gz").write_bytes(octets)
    done = resolve("warc", "check", "a.warc.gz")
    assert done.status == 10
    at = len(packed(record()))
    after = at + len(packed(record(b"x", length="7")))
    damaged, reference = done.out.decode().splitlines()
    assert all(word in damaged for word in ("a.warc.gz", f" {at}:", f" {after} ", "(warc:damaged)"))
    assert all(word in reference for word in ("a.warc.gz", f" {after}:", "<3>", "(warc:reference)"))
    assert all(word in done.messages for word in ("2 complete", "1 file", "1 damaged"))
    records = resolve("warc", "check", "--json", "a.warc.gz").records
    assert [(each["finding"], each["fault"], each["offset"]) for each in records] == [
        ("warc:damaged", True, at),
        ("warc:reference", False, after),
    ]
    assert all(set(each) == contract.RECORD_FINDING for each in records)


def test_warc_check_valid_files_prints_summary() -> None:
    done = resolve("warc", "check", str(WARC / "gopher.warc.gz"), str(WARC / "http.warc.gz"))
    assert (done.status, done.out, done.messages.count("\n")) == (0, b"", 1)
    assert all(word in done.messages for word in ("41 complete", "2 files"))
    assert "damaged" not in done.messages
    assert resolve("warc", "check", "-q", str(WARC / "gopher.warc.gz")).messages == ""


def test_warc_ls_damaged_file_lists_readable_records() -> None:
    done = resolve("warc", "ls", str(WARC / "hostile" / "damage-in-the-middle.warc.gz"))
    assert (done.status, len(done.out.splitlines())) == (10, 27)
    assert "byte 2340" in done.messages


def test_warc_check_unreadable_file_exits_with_status_3(folder: Path) -> None:
    (folder / "a.warc").write_bytes(b"WARC/0.18\r\n")
    os.mkfifo(folder / "pipe")
    for path, words in {
        "none": "No such file or directory",
        ".": "not a regular file",
        "pipe": "not a regular file",
        "a.warc": "version other than",
    }.items():
        done = resolve("warc", "check", path)
        assert done.status == 3
        assert done.messages.startswith(f"resolve: {path}: ")
        assert words in done.messages


@pytest.mark.parametrize(
    "words",
    [
        ["warc"],
        ["warc", "ls"],
        ["warc", "list", "a.warc"],
        ["warc", "check", "-i", "list", "a.warc"],
        ["warc", "check", "a.warc", "--under", "ftp://h.example/"],
    ],
)
def test_warc_invalid_arguments_are_usage_errors(words: list[str]) -> None:
    assert resolve(*words).status == 2
