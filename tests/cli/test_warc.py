"""`--warc FILE`: what is fetched is kept as archives keep it, with what was said for it."""

from __future__ import annotations

import gzip
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import warcio.cli

from resolver.warc.records import RecordHead, WarcRecord, read_records
from tests.cli.command import resolve
from tests.resolver.warc.archives import Kept, Octets


class Found(NamedTuple):
    """One record as it was read by our own reader."""

    head: RecordHead
    block: bytes

    @property
    def events(self) -> list[dict[str, Any]]:
        """The dialogue in a metadata record."""
        lines = [line for line in self.block.decode().split("\r\n") if line.startswith("dialogue: ")]
        return [json.loads(line.partition(" ")[2]) for line in lines]

    def of(self, event: str) -> list[dict[str, Any]]:
        return [each for each in self.events if each["event"] == event]


def records(path: Path) -> list[Found]:
    found = []
    for each in read_records(Octets(path.read_bytes()), Kept):
        assert isinstance(each, WarcRecord), each
        assert not each.shares
        found.append(Found(each.head, bytes(each.reader.block)))
    return found


def check(path: Path, *others: Path) -> None:
    """By two programs: ours, which knows more, and the one that everybody has. It may refer to `others`."""
    ours = resolve("warc", "check", str(path), *map(str, others))
    assert (ours.status, ours.out) == (0, b""), ours.out
    said = io.StringIO()
    with redirect_stdout(said), pytest.raises(SystemExit) as ended:
        warcio.cli.main(["check", "-v", str(path)])
    assert ended.value.code == 0, said.getvalue()
    assert "no digest to check" not in said.getvalue().replace("payload digest: no digest", "")


def kept(at: dict[str, str], folder: Path, *words: str, status: int = 0) -> list[Found]:
    done = resolve(words[0], "-q", "--warc", "a.warc.gz", *(word.format_map(at) for word in words[1:]))
    assert done.status == status, done.told
    check(folder / "a.warc.gz")
    return records(folder / "a.warc.gz")


def test_an_exchange_of_http_is_kept_octet_for_octet(at: dict[str, str], folder: Path) -> None:
    info, response, request, metadata = kept(at, folder, "cat", "{http}/about.txt")
    assert info.head.type == "warcinfo"
    assert b"software: url-resolver/" in info.block
    assert (response.head.type, request.head.type, metadata.head.type) == ("response", "request", "metadata")
    assert response.block.startswith(b"HTTP/1.1 200 OK\r\n")
    assert response.block.partition(b"\r\n\r\n")[2] == b"A text of two lines.\nThe second one.\n"
    assert request.block.startswith(b"GET /about.txt HTTP/1.1\r\nHost: 127.0.0.1")
    assert response.head.target == f"{at['http']}/about.txt"
    assert response.head.first("WARC-IP-Address") == "127.0.0.1"
    assert response.head.first("WARC-Protocol") == "http/1.1"
    for each in (request, metadata):
        assert each.head.first("WARC-Concurrent-To") == response.head.id
        assert each.head.first("WARC-Date") == response.head.first("WARC-Date")
    assert all(each.head.first("WARC-Warcinfo-ID") == info.head.id for each in (response, request, metadata))
    begin, *_, end = metadata.events
    assert (begin["event"], begin["format"], begin["t"]) == ("begin", 1, 0)
    assert (end["event"], end["outcome"], end["status"], end["size"]) == ("end", "done", 200, 37)
    (body,) = metadata.of("body")
    assert body["block"] == [len(response.block) - 37, len(response.block)]
    assert not metadata.of("send") + metadata.of("receive")


def test_each_hop_is_kept_and_says_what_led_to_it(at: dict[str, str], folder: Path) -> None:
    found = kept(at, folder, "cat", "{http}/moved")
    hops = [each for each in found if each.head.type == "response"]
    assert [each.block[9:12] for each in hops] == [b"302", b"200"]
    last = found[-1].block.split(b"\r\n")
    assert last[:2] == [f"via: {at['http']}/moved".encode(), b"hopsFromSeed: R"]


def test_what_is_said_to_a_refusal_is_kept(at: dict[str, str], folder: Path) -> None:
    found = kept(at, folder, "cat", "{http}/none", status=8)
    assert found[1].block.startswith(b"HTTP/1.1 404 ")
    assert found[1].block.partition(b"\r\n\r\n")[2]
    assert found[3].events[-1]["status"] == 404


def test_chunks_and_codings_stay(at: dict[str, str], folder: Path) -> None:
    found = kept(at, folder, "cat", "{http}/gzip")
    assert gzip.decompress(found[1].block.partition(b"\r\n\r\n")[2])
    assert found[1].head.first("WARC-Payload-Digest") is not None


def test_a_menu_of_gopher_is_its_lines(at: dict[str, str], folder: Path) -> None:
    _info, resource, metadata = kept(at, folder, "cat", "{gopher}/1/sub")
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
def test_an_object_is_kept_and_what_was_said_for_it(
    url: str, media_type: str, at: dict[str, str], folder: Path
) -> None:
    _info, resource, metadata = kept(at, folder, "cat", url)
    assert (resource.head.type, resource.head.media_type) == ("resource", media_type)
    assert resource.block
    assert metadata.events[-1]["outcome"] == "done"
    assert metadata.events[-1]["size"] == len(resource.block)


def test_answers_of_a_group_are_kept_as_they_came(at: dict[str, str], folder: Path) -> None:
    _info, resource, _metadata = kept(at, folder, "cat", "{nntp}/comp.misc")
    assert resource.head.first("Content-Type") == 'application/x-nntp-answers; commands="GROUP OVER"'
    lines = resource.block.split(b"\r\n")
    assert (lines[0][:4], lines[1][:4], lines[-2:]) == (b"211 ", b"224 ", [b".", b""])


def test_octets_of_a_wais_document_are_counted_and_not_said_again(at: dict[str, str], folder: Path) -> None:
    _info, resource, metadata = kept(at, folder, "cat", "{wais}/demo?ferry")
    (body,) = metadata.of("body")
    assert (body["framing"], body["count"]) == ("messages", len(resource.block))
    assert len(metadata.of("receive")) == 1
    assert b"Quay notes" in resource.block
    assert b"Quay notes" not in metadata.block


def test_names_of_a_directory_are_kept_octet_for_octet(at: dict[str, str], folder: Path) -> None:
    _info, resource, _metadata = kept(at, folder, "cat", "{file}/")
    names = [json.loads(line)["name"] for line in resource.block.splitlines()]
    assert names == ["\x1b[31m", "about.txt", "l\r\nies"]


def test_of_a_refusal_there_is_what_was_said(at: dict[str, str], folder: Path) -> None:
    _info, metadata = kept(at, folder, "cat", "{ftp}/pub/none", status=8)
    end = metadata.events[-1]
    assert (end["outcome"], end["error"]["code"], end["error"]["reply"]) == ("failed", "NotFound", "550")


def test_of_facts_there_is_no_object(at: dict[str, str], folder: Path) -> None:
    _info, metadata = kept(at, folder, "info", "{http}/about.txt")
    assert metadata.events[-1]["outcome"] == "info"
    assert [each["octets"][:5] for each in metadata.of("send")] == ["HEAD "]
    assert len(metadata.of("receive")) == 1


def test_a_session_is_what_was_said(at: dict[str, str], folder: Path) -> None:
    _info, metadata = kept(at, folder, "cat", "--until", "login: ", "{telnet_login}/")
    assert metadata.events[-1]["outcome"] == "done"
    assert "login: " in "".join(each["octets"] for each in metadata.of("receive"))


def test_no_password_is_kept(at: dict[str, str], folder: Path) -> None:
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
def test_warc_cookie_that_a_server_sets_is_kept_only_with_warc_cookies(
    at: dict[str, str], folder: Path, keeps: bool
) -> None:
    found = kept(at, folder, "cat", *(["--warc-cookies"] if keeps else []), "{cookies}/set")
    response, *_, metadata = found[1:]
    assert (b"Set-Cookie: c=sekret; Path=/\r\n" in response.block) is keeps
    assert (b"Set-Cookie: ****\r\n" in response.block) is not keeps
    assert metadata.events[-1].get("masked") == (None if keeps else ["response:set-cookie"])


def test_warc_cookies_without_warc_is_a_usage_error(at: dict[str, str], folder: Path) -> None:
    done = resolve("cat", "--warc-cookies", f"{at['http']}/about.txt")
    assert (done.status, done.out) == (2, b"")
    assert "--warc" in done.told


def test_warc_file_that_is_made_is_for_its_owner_alone(at: dict[str, str], folder: Path) -> None:
    (folder / "b.warc").touch()
    (folder / "b.warc").chmod(0o640)
    for name in ("a.warc", "b.warc"):
        words = ["cat", "-q", "--warc", name, "--warc-size", "1"]
        assert resolve(*words, f"{at['http']}/about.txt", f"{at['gopher']}/1/sub").status == 0
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.glob("[ab]*")}
    assert modes.pop("b.warc") == modes.pop("b.cdxj") == 0o640
    assert set(modes.values()) == {0o600}
    assert {"a.warc", "a.cdxj", "a-00001.warc", "a-00001.cdxj"} <= set(modes)


def test_a_short_answer_says_why(at: dict[str, str], folder: Path) -> None:
    found = kept(at, folder, "cat", "--tries", "1", "{short}/", status=10)
    assert found[1].head.first("WARC-Truncated") == "disconnect"
    assert found[1].block.endswith(b"\r\n\r\nabc")
    assert (found[3].events[-1]["outcome"], found[3].events[-1]["expected"]) == ("truncated", 10)


def test_another_run_goes_on_behind_the_last_whole_record(at: dict[str, str], folder: Path) -> None:
    first = kept(at, folder, "cat", "{http}/about.txt")
    path = folder / "a.warc.gz"
    octets = path.read_bytes()
    path.write_bytes(octets[:-9])
    words = ["cat", "--warc", "a.warc.gz", f"{at['http']}/about.txt"]
    done = resolve(*words)
    assert "cut off" in done.told
    again = records(path)
    assert [each.head.id for each in again[:3]] == [each.head.id for each in first[:3]]
    types = [each.head.type for each in again]
    assert types == ["warcinfo", "response", "request", "warcinfo", "response", "request", "metadata"]
    check(path)


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_what_another_program_began_is_left_alone(name: str, at: dict[str, str], folder: Path) -> None:
    (folder / name).write_bytes(b"what a person wrote\n")
    assert resolve("cat", "--warc", name, f"{at['http']}/about.txt").status == 3
    assert (folder / name).read_bytes() == b"what a person wrote\n"


def test_damage_is_not_taken_for_a_cut(at: dict[str, str], folder: Path) -> None:
    kept(at, folder, "cat", "{http}/about.txt")
    path = folder / "a.warc.gz"
    octets = bytearray(path.read_bytes())
    octets[40] ^= 0xFF
    path.write_bytes(octets)
    done = resolve("cat", "--warc", "a.warc.gz", f"{at['http']}/about.txt")
    assert done.status == 3
    assert "resolve warc check" in done.told
    assert path.read_bytes() == octets


def test_a_name_says_whether_it_is_packed(at: dict[str, str], folder: Path) -> None:
    assert resolve("cat", "--warc", "a.zip", f"{at['http']}/about.txt").status == 2
    assert resolve("cat", "-q", "--warc", "a.warc", f"{at['http']}/about.txt").status == 0
    assert (folder / "a.warc").read_bytes().startswith(b"WARC/1.1\r\n")
    check(folder / "a.warc")


def index(path: Path) -> list[tuple[str, dict[str, str]]]:
    lines = path.read_text("ascii").splitlines()
    assert lines == sorted(lines)
    return [(line.split(" ")[0], json.loads(line.split(" ", 2)[2])) for line in lines]


def test_the_index_says_where_each_object_is(at: dict[str, str], folder: Path) -> None:
    kept(at, folder, "cat", "{http}/about.txt", "{gopher}/1/sub", "{ftp}/pub/a.txt")
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


def test_the_index_of_a_file_that_is_gone_on_with_has_all_of_it(at: dict[str, str], folder: Path) -> None:
    kept(at, folder, "cat", "{http}/about.txt", "{http}/gzip")
    before = index(folder / "a.cdxj")
    (folder / "a.cdxj").write_text("nonsense\n")
    kept(at, folder, "cat", "{gopher}/1/sub")
    after = index(folder / "a.cdxj")
    assert [each for each in after if each in before] == before
    assert len(after) == len(before) + 1


def test_what_is_the_same_again_refers_to_the_first(at: dict[str, str], folder: Path) -> None:
    (folder / "big.txt").write_bytes(b"x" * 600)
    (folder / "same.txt").write_bytes(b"x" * 600)
    (folder / "small.txt").write_bytes(b"x" * 100)
    base = folder.as_uri()
    names = ("big.txt", "same.txt", "small.txt", "small.txt")
    found = kept(at, folder, "cat", *(f"{base}/{name}" for name in names))
    types = [each.head.type for each in found if each.head.type not in ("metadata", "warcinfo")]
    assert types == ["resource", "revisit", "resource", "resource"]
    original, revisit = found[1], found[3]
    assert revisit.block == b""
    assert revisit.head.media_type is None
    for name, value in (
        ("WARC-Refers-To", original.head.id),
        ("WARC-Refers-To-Date", original.head.first("WARC-Date")),
        ("WARC-Refers-To-Target-URI", original.head.target),
        ("WARC-Payload-Digest", original.head.first("WARC-Payload-Digest")),
        ("WARC-Profile", "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"),
    ):
        assert revisit.head.first(name) == value
    assert [row.get("mime") for _, row in index(folder / "a.cdxj")].count("warc/revisit") == 1


def test_a_revisit_of_http_has_the_head_of_its_answer(at: dict[str, str], folder: Path) -> None:
    found = kept(at, folder, "cat", "{large}/", "{large}/?again")
    original, revisit = [each for each in found if each.head.type in ("response", "revisit")]
    assert (original.head.type, revisit.head.type) == ("response", "revisit")
    assert original.block.startswith(revisit.block)
    assert revisit.block.endswith(b"\r\n\r\n")
    assert revisit.head.first("WARC-Truncated") == "length"


def test_from_a_size_on_there_is_another_file(at: dict[str, str], folder: Path) -> None:
    urls = [f"{at['http']}/about.txt", f"{at['gopher']}/1/sub"]
    for _ in range(2):
        assert resolve("cat", "-q", "--warc", "a.warc.gz", "--warc-size", "500", *urls).status == 0
    names = ["a.warc.gz", "a-00001.warc.gz", "a-00002.warc.gz", "a-00003.warc.gz"]
    assert sorted(path.name for path in folder.glob("*.warc.gz")) == sorted(names)
    for name in names:
        check(folder / name)
        found = records(folder / name)
        assert found[0].head.type == "warcinfo"
        assert found[0].head.first("WARC-Filename") == name
        assert all(row["filename"] == name for _, row in index(folder / name.replace(".warc.gz", ".cdxj")))
