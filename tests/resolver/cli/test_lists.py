"""Lists with names, digests, sizes and mirrors of files; lists at URLs; and `warc extract`."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from tests.resolver.cli.command import resolve
from tests.resolver.cli.places import A, B
from tests.resolver.warc.archives import WARC, packed, record


def files(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def digest(octets: bytes) -> str:
    return hashlib.sha256(octets).hexdigest()


def metalink(path: Path, *elements: str) -> None:
    inside = "".join(elements)
    path.write_text(f'<metalink xmlns="urn:ietf:params:xml:ns:metalink">{inside}</metalink>')


@pytest.mark.parametrize("path", ["/pub/SHA256SUMS", "/elsewhere"])
def test_digest_list_names_are_relative_to_list_url(path: str, at: dict[str, str], folder: Path) -> None:
    done = resolve("get", "--json", "-i", at["lists"] + path)
    assert files(folder) == {"a": A, "sub/b": B}
    assert [record["verified"] for record in done.records] == [["digest", "length"]] * 2
    assert done.status == 0


def test_local_digest_list_requires_referrer(at: dict[str, str], folder: Path) -> None:
    (folder.parent / "sums").write_text(f"SHA256 (a) = {digest(A)}\n\\{digest(A)} *a\\\\b\n")
    source = str(folder.parent / "sums")
    failure = resolve("get", "-i", source)
    assert (failure.status, files(folder)) == (3, {})
    assert all(word in failure.messages for word in ("sums, line 1:", "--referrer"))
    done = resolve("get", "-q", "--json", "-i", source, "--referrer", at["lists"] + "/pub/SHA256SUMS")
    assert files(folder) == {"a": A}
    assert done.status == 3
    assert all(word in done.messages for word in ("line 2:", "'a\\\\b'", "S14"))


def test_digest_list_invalid_lines_save_no_files(at: dict[str, str], folder: Path) -> None:
    done = resolve("get", "-q", "--json", "-d", "into", "-i", at["lists"] + "/pub/WRONG")
    assert files(folder) == {"into/a": A}
    assert done.status == 1
    assert all(word in done.messages for word in ("line 2:", "'../../b'", "S14"))
    errors = {record["url"].rpartition("/")[2]: record["error"] for record in done.records}
    assert errors["b"]["code"] == "ChecksumMismatch"
    assert errors["a"] is None


@pytest.mark.parametrize("fetched", [True, False])
def test_metalink_saves_files_from_mirrors(fetched: bool, at: dict[str, str], folder: Path) -> None:
    """Each file has the name in the metalink and comes from a mirror that has the file."""
    source = at["lists"] + "/pub/two.meta4"
    if not fetched:
        assert resolve("get", "-q", "-O", "../two", source).status == 0
        source = "../two"
    done = resolve("get", "--json", "-t", "1", "-i", source)
    assert (done.status, files(folder)) == (0, {"kept/under/a": A, "b": B})
    first, second = sorted(done.records, key=lambda record: str(record["path"]), reverse=True)
    assert (first["path"], first["verified"]) == ("kept/under/a", ["digest", "length"])
    assert first["mirror"] == at["lists"] + "/pub/a"
    assert {finding["rule"] for finding in first["findings"]} == {"list:place", "save:mirror"}
    assert [finding["rule"] for finding in second["findings"]] == ["metalink:no-hash"]
    assert all(word in done.messages for word in ("rsync://127.0.0.1/a", "S19"))


def test_metalink_truncated_saves_files_before_end(at: dict[str, str], folder: Path) -> None:
    done = resolve("get", "-q", "-t", "1", "-i", at["lists"] + "/pub/cut.meta4")
    assert (done.status, files(folder)) == (3, {"kept/under/a": A})
    assert "not well-formed XML" in done.messages


def test_metalink_with_cut_dirs_uses_directories_of_urls(at: dict[str, str], folder: Path) -> None:
    resolve("get", "-q", "-t", "1", "--cut-dirs", "0", "-i", at["lists"] + "/pub/two.meta4")
    assert set(files(folder)) == {"a", "pub/sub/b"}  # the first URL of `a` has no directory


@pytest.mark.parametrize(
    ("element", "code"),
    [
        (f"<size>{len(A) + 1}</size>", "ChecksumMismatch"),
        (f'<hash type="sha-256">{digest(B)}</hash>', "ChecksumMismatch"),
        (f'<hash type="md5">{"0" * 32}</hash><hash type="sha-256">{digest(A)}</hash>', None),
    ],
)
@pytest.mark.parametrize("verb", ["get", "cat"])
def test_metalink_size_and_hash_are_verified(
    verb: str, element: str, code: str | None, at: dict[str, str], folder: Path
) -> None:
    metalink(folder.parent / "a.meta4", f"<file name='x'>{element}<url>{at['lists']}/pub/a</url></file>")
    done = resolve(verb, "-q", "--json", "-i", "../a.meta4")
    (record,) = done.records if verb == "get" else map(json.loads, done.err.splitlines())
    assert (record["error"] and record["error"]["code"]) == code
    assert done.status == (0 if code is None else 10)
    assert files(folder) == ({"x": A} if verb == "get" and code is None else {})


def test_fetched_list_urls_have_derived_origin(at: dict[str, str], folder: Path) -> None:
    """URLs of a fetched list are derived: file URLs are refused."""
    done = resolve("get", "-q", "-i", at["lists"] + "/pub/list")
    assert (done.status, files(folder)) == (15, {"a": A})
    assert "file:///etc/passwd: S10: " in done.messages


def test_unavailable_list_does_not_stop_other_lists(at: dict[str, str], folder: Path) -> None:
    (folder.parent / "list").write_text(at["lists"] + "/pub/a\n")
    done = resolve("get", "-q", "-i", at["lists"] + "/gone", "-i", "../list")
    assert (done.status, files(folder)) == (8, {"a": A})
    assert f"{at['lists']}/gone: " in done.messages
    assert resolve("get", "-i", at["ftp"] + "/pub/").status == 3


def test_fetched_list_is_read_in_blocks(at: dict[str, str], folder: Path) -> None:
    """The test covers any end of a block, and an empty list."""
    done = resolve("get", "-q", "-i", at["lists"] + "/pub/long", "-i", at["lists"] + "/pub/empty")
    assert (done.status, files(folder), done.messages) == (0, {"a": A, "sub/b": B}, "")


def test_explain_does_not_fetch_list(at: dict[str, str], folder: Path) -> None:
    done = resolve("explain", "-i", at["lists"] + "/pub/list")
    assert (done.status, done.out) == (3, b"")
    assert "/pub/list: explain " in done.messages


def test_failed_list_keeps_metalink_data(at: dict[str, str], folder: Path) -> None:
    """The failed list contains the name, size, digest and mirrors."""
    element = f'<size>{len(A)}</size><hash type="sha-256">{digest(A)}</hash>'
    places = f"<url>{at['closed']}/a</url><url>{at['closed']}/b</url>"
    metalink(folder / "list", f"<file name='sub/x'>{element}{places}</file>")
    done = resolve("get", "-qq", "-t", "1", "--retry-delay", "0.01", "--failed", "left", "-i", "list")
    assert done.status == 4
    (record,) = map(json.loads, (folder / "left").read_text().splitlines())
    assert record["url"] == f"{at['closed']}/a"
    assert record["listed"] == {
        "name": "sub/x",
        "mirrors": [f"{at['closed']}/b"],
        "checksum": f"sha256:{digest(A)}",
        "size": len(A),
    }
    record["listed"]["mirrors"] = [at["lists"] + "/pub/sub/b", at["lists"] + "/pub/a"]
    (folder / "left").write_text(json.dumps(record) + "\n")
    done = resolve("get", "-q", "--json", "-t", "1", "--retry-delay", "0.01", "-i", "left")
    assert (done.records[0]["path"], done.records[0]["mirror"]) == ("sub/x", at["lists"] + "/pub/a")
    assert (folder / "sub/x").read_bytes() == A


def test_failed_list_keeps_checksum_auto(at: dict[str, str], folder: Path) -> None:
    listed: dict[str, object] = {"name": "x", "mirrors": [], "checksum": "auto", "size": None}
    (folder / "list").write_text(json.dumps({"url": f"{at['closed']}/a", "listed": listed}) + "\n")
    resolve("get", "-qq", "-t", "1", "--failed", "left", "-i", "list")
    assert json.loads((folder / "left").read_text())["listed"] == listed
    assert resolve("get", "-qq", "-t", "1", "--retry-delay", "0.01", "-i", "left").status == 4


@pytest.mark.parametrize(
    "listed",
    [
        *(7, {}, {"name": "../x", "mirrors": [], "checksum": None, "size": None}),
        {"name": None, "mirrors": [7], "checksum": None, "size": None},
        {"name": None, "mirrors": [], "checksum": "sha256:x", "size": None},
    ],
)
def test_failed_list_with_invalid_listed_member_is_refused(listed: object, folder: Path) -> None:
    (folder / "list").write_text(json.dumps({"url": "file:///none", "listed": listed}) + "\n")
    done = resolve("get", "-i", "list")
    assert done.status == 3
    assert "list, line 1: " in done.messages
    assert os.listdir(folder) == ["list"]


# `resolve warc extract FILE [URL]...`: save the content of an archive as files; any program may have written
# it.

OK = b"HTTP/1.1 200 OK\r\n\r\n"
RESPONSE = {"WARC_Type": "response", "Content_Type": "application/http;msgtype=response"}


def answer(body: bytes, url: str, head: bytes = OK, **fields: str) -> bytes:
    return record(head + body, WARC_Target_URI=url, **{**RESPONSE, **fields})


def extract_files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_archive(folder: Path, *records: bytes) -> None:
    (folder / "a.warc.gz").write_bytes(packed(*records))


def test_extract_restores_all_files_of_run(at: dict[str, str], folder: Path) -> None:
    urls = [
        *(f"{at['http']}{path}" for path in ("/about.txt", "/gzip", "/data/chunked")),
        f"{at['ftp']}/pub/a.txt",
        f"{at['gopher']}/00/about",
        f"{at['file']}/about.txt",
        f"{at['nntp']}/comp.misc/1235",
        f"{at['wais']}/demo",
    ]
    words = ["get", "-q", "--host-directories", "-d"]
    assert resolve(*words, "live", "--warc", "a.warc.gz", *urls).status == 0
    assert resolve("ls", "-q", "--warc", "a.warc.gz", f"{at['gopher']}/", f"{at['http']}/gone").status == 8
    done = resolve("warc", "extract", "--host-directories", "-d", "again", "a.warc.gz")
    assert done.status == 0, done.messages
    assert extract_files(folder / "again") == extract_files(folder / "live")
    assert "1 listing " in done.messages


def test_extract_with_url_saves_only_that_url(folder: Path) -> None:
    write_archive(
        folder, *(record(name.encode(), WARC_Target_URI=f"ftp://h.example/{name}") for name in "abc")
    )
    assert resolve("warc", "extract", "-q", "a.warc.gz", "ftp://h.example/b").status == 0
    assert extract_files(folder) == {"a.warc.gz": (folder / "a.warc.gz").read_bytes(), "b": b"b"}
    done = resolve("warc", "extract", "-O", "-", "a.warc.gz", "ftp://h.example/c")
    assert (done.status, done.out) == (0, b"c")
    assert resolve("warc", "extract", "a.warc.gz", "ftp://h.example/d").status == 8


def test_extract_at_selects_record_by_time(folder: Path) -> None:
    url = "ftp://h.example/a"
    write_archive(
        folder,
        record(b"old", WARC_Target_URI=url, WARC_Date="2026-01-01T00:00:00Z"),
        record(b"new", WARC_Target_URI=url, WARC_Date="2026-03-01T00:00:00Z"),
        record(b"later", WARC_Target_URI="ftp://h.example/b", WARC_Date="2026-03-01T00:00:00Z"),
    )
    assert resolve("warc", "extract", "-q", "-d", "now", "a.warc.gz").status == 0
    assert extract_files(folder / "now") == {"a": b"new", "b": b"later"}
    assert resolve("warc", "extract", "-q", "-d", "then", "--at", "2026-02", "a.warc.gz").status == 0
    assert extract_files(folder / "then") == {"a": b"old"}


def test_extract_keeps_existing_file(folder: Path) -> None:
    write_archive(folder, record(b"12345", WARC_Target_URI="ftp://h.example/a"))
    (folder / "a").write_bytes(b"of a person")
    assert resolve("warc", "extract", "a.warc.gz").status == 3
    assert (folder / "a").read_bytes() == b"of a person"
    assert resolve("warc", "extract", "-q", "--exists", "replace", "a.warc.gz").status == 0
    assert (folder / "a").read_bytes() == b"12345"


#: URLs that try to write files elsewhere, and the name of each file.
NAMES = {
    "ftp://h.example/..%2F..%2Fetc%2Fpasswd": "passwd",
    "http://h.example/..%2f..%2f.bashrc": "_bashrc",
    "http://h.example/a/../../../b": "b",
    "ftp://h.example/%1B]0;x%07": "_]0;x_",
    "gopher://h.example/0/..%5C..%5Cc": "c",
    "http://h.example/x.part": "x.part_",
}


@pytest.mark.parametrize("words", [(), ("--host-directories",), ("--cut-dirs", "0")])
@pytest.mark.parametrize("url", NAMES)
def test_extract_writes_only_below_directory(url: str, words: tuple[str, ...], folder: Path) -> None:
    inner = folder / "above" / "inner"
    inner.mkdir(parents=True)
    make = answer if url.startswith("http") else lambda body, url: record(body, WARC_Target_URI=url)
    (folder / "a.warc.gz").write_bytes(packed(make(b"octets", url)))
    done = resolve("warc", "extract", "-q", *words, "-d", str(inner), str(folder / "a.warc.gz"))
    assert done.status in (0, 9), done.messages
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "a.warc.gz"]
    assert len(files) == (1 if done.status == 0 else 0)
    assert all(path.is_relative_to(inner) for path in files)
    assert all(character.isprintable() for path in files for character in path.name)
    assert b"\x1b" not in done.err


def test_extract_numbers_equal_names(folder: Path) -> None:
    write_archive(
        folder, *(record(host.encode(), WARC_Target_URI=f"ftp://{host}.example/a") for host in "xy")
    )
    assert resolve("warc", "extract", "-q", "-d", "out", "a.warc.gz").status == 0
    assert extract_files(folder / "out") == {"a": b"x", "a.2": b"y"}


def test_extract_does_not_follow_symlinks(folder: Path) -> None:
    (folder / "out").mkdir()
    os.symlink("../victim", folder / "out" / "a")
    write_archive(folder, record(b"12345", WARC_Target_URI="ftp://h.example/a"))
    assert resolve("warc", "extract", "-q", "-d", "out", "a.warc.gz").status == 3
    assert not (folder / "victim").exists()


def test_extract_truncated_records_save_no_file(folder: Path) -> None:
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
    write_archive(
        folder,
        answer(b"abc", "http://h.example/a", cut),
        record(b"abc", WARC_Target_URI="ftp://h.example/b", WARC_Truncated="disconnect"),
        record(b"whole", WARC_Target_URI="ftp://h.example/c"),
    )
    done = resolve("warc", "extract", "-q", "-d", "out", "a.warc.gz")
    assert done.status == 10
    names = extract_files(folder / "out")
    assert names["c"] == b"whole"
    assert not {"a", "b"} & set(names)


def test_extract_revisit_has_bytes_of_original(at: dict[str, str], folder: Path) -> None:
    urls = [f"{at['large']}/one", f"{at['large']}/two"]
    assert resolve("get", "-q", "-d", "live", "--warc", "a.warc.gz", *urls).status == 0
    assert b"WARC-Type: revisit" in decompress(folder / "a.warc.gz")
    assert resolve("warc", "extract", "-q", "-d", "out", "a.warc.gz").status == 0
    assert extract_files(folder / "out") == extract_files(folder / "live")
    assert len(extract_files(folder / "out")) == 2


def decompress(path: Path) -> bytes:
    import gzip

    return gzip.decompress(path.read_bytes())


def test_extract_skips_records_without_object(folder: Path) -> None:
    write_archive(
        folder,
        answer(b"no", "http://h.example/a", b"HTTP/1.1 404 Not Found\r\n\r\n"),
        answer(b"", "http://h.example/b", b"HTTP/1.1 302 Found\r\nLocation: /a\r\n\r\n"),
        answer(b"part", "http://h.example/c", b"HTTP/1.1 206 Partial Content\r\n\r\n"),
        record(b"log", WARC_Target_URI="metadata://gnu.org/software/wget/warc/wget.log"),
        record(b"x", WARC_Target_URI="no url at all"),
        record(b"{}", WARC_Type="metadata"),
        record(b"a\r\n", WARC_Target_URI="ftp://h.example/d/", Content_Type="text/x-ftp-nlst"),
    )
    done = resolve("warc", "extract", "-d", "out", "a.warc.gz")
    assert (done.status, extract_files(folder)) == (0, {"a.warc.gz": (folder / "a.warc.gz").read_bytes()}), (
        done.messages
    )


def test_extract_reports_responses_that_cannot_be_replayed(folder: Path) -> None:
    write_archive(
        folder,
        answer(b"a", "http://h.example/a"),
        answer(b"b", "http://h.example/b", b"ICY 200 OK\r\n\r\n"),
        answer(b"c", "http://h.example/c d"),
        answer(b"e", "http://h.example/e", b"", WARC_Truncated="disconnect"),
        answer(b"f", "http://h.example/f", WARC_Payload_Digest=f"sha256:{digest(b'x')}"),
        answer(b"g", "http://h.example/g", WARC_Payload_Digest=f"sha256:{digest(b'g')}"),
    )
    done = resolve("warc", "extract", "-d", "out", "a.warc.gz")
    assert (done.status, extract_files(folder / "out")) == (10, {"a": b"a", "g": b"g"})
    faults = {line.rpartition(": ")[2] for line in done.messages.splitlines() if " -> " not in line}
    assert {
        "the response has no valid head",
        "the response has an invalid URL",
        "the archived payload does not match its digest",
    } < faults


def test_extract_decodes_content_unless_raw(at: dict[str, str], folder: Path) -> None:
    assert resolve("cat", "-q", "--warc", "a.warc.gz", f"{at['http']}/gzip").status == 0
    for words in ((), ("--raw",)):
        live = resolve("cat", "-q", *words, f"{at['http']}/gzip")
        done = resolve("warc", "extract", "-q", "-O", "-", *words, "a.warc.gz")
        assert (done.status, done.out) == (0, live.out)


def test_extract_damaged_archive_saves_complete_records(folder: Path) -> None:
    members = [
        packed(record(name.encode() * 50, WARC_Target_URI=f"ftp://h.example/{name}")) for name in "abc"
    ]
    broken = bytearray(members[1])
    broken[len(broken) // 2] ^= 0xFF
    (folder / "a.warc.gz").write_bytes(members[0] + bytes(broken) + members[2])
    done = resolve("warc", "extract", "-d", "out", "a.warc.gz")
    assert done.status == 10
    assert f"byte {len(members[0])}" in done.messages
    assert set(extract_files(folder / "out")) == {"a", "c"}


@pytest.mark.parametrize("name", sorted(path.name for path in (WARC / "hostile").iterdir()))
def test_extract_hostile_archive_writes_only_below_directory(name: str, folder: Path) -> None:
    path = WARC / "hostile" / name
    if name.endswith(".jsonl"):
        return
    done = resolve("warc", "extract", "-q", "-d", "out", "--max-size", "1M", str(path), folder=folder)
    assert done.status in (0, 1, 3, 8, 9, 10, 14), done.messages
    assert "Traceback" not in done.messages
    files = set(folder.rglob("*")) - {folder / "out"}
    assert all(each.parent == folder / "out" for each in files), files


@pytest.mark.parametrize("name", ["wget-http", "wget-ftp", "wget-dedup", "wpull"])
def test_extract_foreign_archives_saves_files(name: str, folder: Path) -> None:
    done = resolve(
        "warc", "extract", "--host-directories", "-d", "out", str(WARC / "foreign" / f"{name}.warc.gz")
    )
    assert done.status in (0, 1, 8, 9, 10), done.messages  # 9: listings of wpull look like files
    assert extract_files(folder / "out")
    assert b"secret" not in done.err


@pytest.mark.parametrize(
    "words",
    [
        ["extract"],
        ["extract", "-r", "a.warc.gz"],
        ["extract", "a.warc.gz", "--from-warc", "b.warc.gz"],
        ["extract", "a.warc.gz", "--warc", "b.warc.gz"],
        ["extract", "a.warc.gz", "--proxy", "none"],
    ],
)
def test_extract_invalid_options_are_usage_errors(words: list[str], folder: Path) -> None:
    write_archive(folder, record())
    assert resolve("warc", *words).status == 2


def test_extract_invalid_archive_exits_with_status_3(folder: Path) -> None:
    (folder / "a.warc").write_bytes(b"WARC/0.18\r\n")
    for path in ("a.warc", "none", "."):
        done = resolve("warc", "extract", path)
        assert done.status == 3
        assert done.messages.count(path) >= 1


def test_extract_output_file_requires_single_object(folder: Path) -> None:
    write_archive(
        folder, *(record(name.encode(), WARC_Target_URI=f"ftp://h.example/{name}") for name in "ab")
    )
    assert resolve("warc", "extract", "-O", "x", "a.warc.gz").status != 0
    assert resolve("warc", "extract", "-q", "-O", "y", "a.warc.gz", "ftp://h.example/b").status == 0
    assert (folder / "y").read_bytes() == b"b"
