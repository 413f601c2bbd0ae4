"""`--from-warc FILE`: archived responses are served unchanged, without network access."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from resolver.network.connector import Connector
from tests.hang import HANG
from tests.resolver.cli.command import Done, resolve
from tests.resolver.warc.archives import WARC, packed, record

ALL = [word for path in sorted(WARC.glob("*.warc.gz")) for word in ("--from-warc", str(path))]


def seal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable connections, DNS lookups, and the opening of files for file URLs."""
    monkeypatch.setattr(Connector, "addresses", None)
    monkeypatch.setattr("resolver.files.local.open_local", None)


@pytest.fixture
def sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    seal(monkeypatch)


def status_and_output(done: Done) -> tuple[int, bytes]:
    return done.status, done.out


def test_from_warc_repeats_output_of_live_run(
    at: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [
        *(
            ("cat", f"{at['gopher']}/00/about"),
            ("ls", f"{at['gopher']}/"),
            ("ls", "--json", f"{at['ftp']}/pub/"),
        ),
        *(("ls", "-l", f"{at['ftp']}/pub/"), ("cat", f"{at['http']}/gzip"), ("cat", f"{at['http']}/none")),
        *(("info", "--json", f"{at['ftp']}/pub/a.txt"), ("info", f"{at['http']}/about.txt")),
    ]
    live = {}
    for number, run in enumerate(runs):
        live[run] = status_and_output(resolve(run[0], "-q", "--warc", f"{number}.warc.gz", *run[1:]))
    seal(monkeypatch)
    for number, run in enumerate(runs):
        again = resolve(run[0], "-q", "--from-warc", f"{number}.warc.gz", *run[1:])
        assert status_and_output(again) == live[run], (run, again.messages)


def test_from_warc_saves_files_and_follows_redirects(folder: Path, sealed: None) -> None:
    done = resolve("get", "-q", *ALL, "-O", "a", "http://127.0.0.1/redir")
    assert (done.status, (folder / "a").read_bytes()[:1]) == (0, b"a"), done.messages
    # a revisit record of the same body
    done = resolve("get", "-q", *ALL, "-O", "b", "http://127.0.0.1/copy.txt")
    assert (folder / "b").read_bytes() == (folder / "a").read_bytes()


def test_from_warc_recursive_get_equals_live_run(
    at: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["get", "-q", "-r", "-d"]
    live = resolve(*words, "live", "--warc", "a.warc.gz", f"{at['ftp']}/pub/")
    seal(monkeypatch)
    again = resolve(*words, "again", "--from-warc", "a.warc.gz", f"{at['ftp']}/pub/")
    assert (again.status, again.out) == (live.status, live.out), again.messages
    trees = [
        {
            path.relative_to(folder / top): path.read_bytes()
            for path in (folder / top).rglob("*")
            if path.is_file()
        }
        for top in ("live", "again")
    ]
    assert trees[0] == trees[1] != {}


def test_from_warc_truncated_record_is_truncated(folder: Path, sealed: None) -> None:
    for url, octets in (("http://localhost/short", 15), ("ftp://localhost/d/b.bin", 4096)):
        done = resolve("cat", *ALL, url)
        assert (done.status, len(done.out)) == (10, octets)
        assert str(octets) in done.messages
        assert resolve("get", *ALL, "-O", "x", url).status == 10
        assert not (folder / "x").exists()


def test_from_warc_recorded_failure_names_date(sealed: None) -> None:
    done = resolve("cat", *ALL, "ftp://127.0.0.1/none")
    assert (done.status, done.out) == (8, b"")
    assert "recorded on 2026-11-22T10:00:20Z" in done.messages


def test_from_warc_missing_url_suggests_command(sealed: None) -> None:
    done = resolve("cat", *ALL, "gopher://127.0.0.1/0nix")
    assert done.status == 8
    assert "`resolve warc ls FILE`" in done.messages
    assert resolve("cat", *ALL, "http://127.0.0.1/a.txt/").messages.endswith(" http://127.0.0.1/a.txt\n")
    assert resolve("cat", *ALL, "http://127.0.0.1/A.txt").status == 8  # the path is case-sensitive


def write_dated_archive(folder: Path) -> list[str]:
    days = ["2026-01-05T00:00:00Z", "2026-01-31T23:59:59Z", "2026-03-01T10:00:00Z"]
    records = [record(f"{day[:10]}\n".encode(), WARC_Date=day, WARC_Record_ID=f"<{day}>") for day in days]
    cut = record(b"cut", WARC_Date="2026-04-01T00:00:00Z", WARC_Truncated="length")
    (folder / "a.warc.gz").write_bytes(packed(*records, cut))
    return ["--from-warc", "a.warc.gz", "ftp://h.example/a"]


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("", "2026-03-01"),
        ("2026", "2026-03-01"),
        ("2026-01", "2026-01-31"),
        ("2026-01-30", "2026-01-05"),
        ("20260131235959", "2026-01-31"),
        ("2026-01-31T23:59:58Z", "2026-01-05"),
        ("2026-03-01T10", "2026-03-01"),
        ("2026-03-01T10:00:00.0Z", "2026-03-01"),
    ],
)
def test_from_warc_at_selects_latest_record_before(
    moment: str, expected: str, folder: Path, sealed: None
) -> None:
    words = write_dated_archive(folder)
    done = resolve("cat", *(["--at", moment] if moment else []), *words)
    assert (done.status, done.out.decode()) == (0, f"{expected}\n"), done.messages


def test_from_warc_at_before_all_records_names_first(folder: Path, sealed: None) -> None:
    done = resolve("cat", "--at", "2025", *write_dated_archive(folder))
    assert done.status == 8
    assert all(word in done.messages for word in ("2026-01-05T00:00:00Z", "--at"))


def test_from_warc_ignores_post_and_partial_responses(folder: Path, sealed: None) -> None:
    records = []
    for number, (method, status) in enumerate((("GET", 200), ("POST", 200), ("GET", 206))):
        url = {"WARC_Target_URI": "http://h.example/", "WARC_Date": f"2026-01-0{number + 1}T00:00:00Z"}
        head = f"HTTP/1.1 {status} OK\r\nContent-Length: 2\r\n\r\n{number}\n".encode()
        type = "application/http;msgtype="
        records.append(
            record(
                head,
                WARC_Type="response",
                WARC_Record_ID=f"<{number}>",
                Content_Type=f"{type}response",
                **url,
            )
        )
        expected = {"WARC_Concurrent_To": f"<{number}>", "Content_Type": f"{type}request"}
        records.append(
            record(f"{method} / HTTP/1.1\r\n\r\n".encode(), WARC_Type="request", **expected, **url)
        )
    (folder / "a.warc.gz").write_bytes(packed(*records))
    done = resolve("cat", "--from-warc", "a.warc.gz", "http://h.example/")
    assert (done.status, done.out) == (0, b"0\n"), done.messages


def partial_responses(bodies: list[tuple[int, bytes, str]], size: int = 10) -> bytes:
    """Return an archive of responses with offset and ETag; the first is the truncated response."""
    records = []
    for number, (begin, body, tag) in enumerate(bodies):
        line = "200 OK" if number == 0 else "206 Part"
        place = f"Content-Range: bytes {begin}-{size - 1}/{size}\r\n" if number else ""
        head = f"HTTP/1.1 {line}\r\nETag: {tag}\r\n{place}Content-Length: {size - begin}\r\n\r\n".encode()
        fields = {"WARC_Record_ID": f"<{number}>", "WARC_Date": f"2026-01-0{number + 1}T00:00:00Z"}
        type = {"WARC_Type": "response", "Content_Type": "application/http;msgtype=response"}
        records.append(record(head + body, WARC_Target_URI="http://h.example/a", **type, **fields))
    return packed(*records)


@pytest.mark.parametrize(
    ("bodies", "expected", "status"),
    [
        ([(0, b"0123", '"a"'), (4, b"456789", '"a"')], b"0123456789", 0),
        ([(0, b"0123", '"a"'), (2, b"2345", '"a"'), (6, b"6789", '"a"')], b"0123456789", 0),
        ([(0, b"0123", '"a"'), (4, b"456789", '"b"')], b"0123", 10),  # another object
        # a weak ETag does not promise equal bytes
        ([(0, b"0123", 'W/"a"'), (4, b"456789", 'W/"a"')], b"0123", 10),
        ([(0, b"0123", '"a"'), (5, b"56789", '"a"')], b"0123", 10),
        ([(0, b"0123", '"a"'), (4, b"45", '"a"')], b"0123", 10),
    ],
)
def test_from_warc_joins_truncated_and_resumed_responses(
    bodies: list[tuple[int, bytes, str]], expected: bytes, status: int, folder: Path, sealed: None
) -> None:
    (folder / "a.warc.gz").write_bytes(partial_responses(bodies))
    done = resolve("cat", "--from-warc", "a.warc.gz", "http://h.example/a")
    assert (done.status, done.out) == (status, expected), done.messages
    done = resolve("cat", "--at", "2026-01-01", "--from-warc", "a.warc.gz", "http://h.example/a")
    assert (done.status, done.out) == (10, b"0123")


@pytest.mark.parametrize("is_long", [False, True])
def test_from_warc_wrong_block_digest_saves_nothing(folder: Path, sealed: None, *, is_long: bool) -> None:
    block = b"x" * (3_000_000 if is_long else 30)
    octets = record(block, WARC_Block_Digest="sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ")
    (folder / "a.warc.gz").write_bytes(packed(octets))
    done = resolve("get", "--from-warc", "a.warc.gz", "-O", "x", "ftp://h.example/a")
    assert done.status == 10, done.messages
    assert not (folder / "x").exists()


def test_from_warc_revisit_without_original_names_original(folder: Path, sealed: None) -> None:
    octets = record(
        b"", WARC_Type="revisit", WARC_Refers_To="<2>", WARC_Refers_To_Target_URI="ftp://h.example/b"
    )
    (folder / "a.warc.gz").write_bytes(packed(octets))
    done = resolve("cat", "--from-warc", "a.warc.gz", "ftp://h.example/a")
    assert done.status == 8
    assert "ftp://h.example/b" in done.messages
    original = {"WARC_Record_ID": "<2>", "WARC_Target_URI": "ftp://h.example/b"}
    (folder / "b.warc").write_bytes(record(b"found\n", **original))
    done = resolve("cat", "--from-warc", "a.warc.gz", "--from-warc", "b.warc", "ftp://h.example/a")
    assert status_and_output(done) == (0, b"found\n")


def test_from_warc_serves_foreign_archives(folder: Path, sealed: None) -> None:
    foreign = [
        word for path in sorted((WARC / "foreign").glob("*.warc.gz")) for word in ("--from-warc", str(path))
    ]
    urls = [
        row["url"]
        for row in resolve("warc", "ls", "--json", *foreign[1::2]).records
        if row["type"] in ("response", "resource") and row["kind"] in ("200", "document")
    ]
    good = [url for url in urls if not url.startswith(("metadata:", "urn:"))]
    assert len(good) > 10
    for url in good:
        done = resolve("cat", *foreign, url)
        assert done.status in (0, 10), (url, done.messages)
        assert done.status == 0 or "short" in url, (url, done.messages)


def test_from_warc_serves_file_compressed_as_single_member(folder: Path, sealed: None) -> None:
    records = [record(f"{each}\n".encode(), WARC_Target_URI=f"ftp://h.example/{each}") for each in "ab"]
    (folder / "a.warc.gz").write_bytes(gzip.compress(b"".join(records), mtime=0))
    for each in "ab":
        done = resolve("cat", "--from-warc", "a.warc.gz", f"ftp://h.example/{each}")
        assert status_and_output(done) == (0, f"{each}\n".encode())


WARCIO = """
import io
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter
with open("a.warc.gz", "wb") as file:
    writer = WARCWriter(file, gzip=True)
    head = StatusAndHeaders("200 OK", [("Content-Type", "text/plain")], protocol="HTTP/1.0")
    body = io.BytesIO(b"found\\n")
    writer.write_record(writer.create_warc_record("http://h.example/", "response", body, http_headers=head))
"""


def test_from_warc_serves_warcio_archive(folder: Path, sealed: None) -> None:
    subprocess.run([sys.executable, "-c", WARCIO], cwd=folder, check=True, timeout=HANG)
    assert status_and_output(resolve("cat", "--from-warc", "a.warc.gz", "http://h.example")) == (
        0,
        b"found\n",
    )


def test_from_warc_ignores_proxy_environment(
    folder: Path, sealed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://192.0.2.1:3128/")
    monkeypatch.setenv("ALL_PROXY", "socks5h://192.0.2.1/")
    done = resolve("cat", "-q", *ALL, "http://127.0.0.1/a.txt")
    assert (done.status, len(done.out)) == (0, 300), done.messages


def test_from_warc_file_url_does_not_open_local_file(folder: Path, sealed: None) -> None:
    (folder / "a").write_bytes(b"of now")
    assert resolve("cat", *ALL, (folder / "a").as_uri()).status == 8
    done = resolve("cat", *ALL, "file:///srv/example/note.txt")
    assert (done.status, len(done.out)) == (0, 23), done.messages


def test_from_warc_record_count_is_bounded(
    folder: Path, sealed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resolver.warc.catalog.MAX_RECORDS", 2)
    (folder / "a.warc").write_bytes(record() * 2)
    assert resolve("cat", "--from-warc", "a.warc", "ftp://h.example/a").status == 0
    (folder / "a.warc").write_bytes(record() * 3)
    done = resolve("cat", "--from-warc", "a.warc", "ftp://h.example/a")
    assert (done.status, done.out) == (3, b"")
    assert "a.warc: more than 2 records" in done.messages


def test_from_warc_ignores_invalid_metadata(folder: Path, sealed: None) -> None:
    """Untrusted metadata is read, and ignored if it is invalid."""
    deep = "[" * 500 + "]" * 500
    for facts in (
        f'"extra":{{"a":{deep}}}',
        '"extra":[1],"meta":7,"findings":[["a","burn","b"],3],"verified":["length","all"]',
        '"modified":"0001-01-01T00:00:00+14:00","announced":-1,"suggested":"\\ud800","size":true',
        '"kind":"directory","media_type":5',
    ):
        message = f'{{"t":0,"c":0,"event":"end","outcome":"done","kind":"article",{facts}}}'
        records = [record(b"found\n", WARC_Target_URI="news:a@b"), metadata_of("<urn:uuid:1>", message)]
        (folder / "a.warc.gz").write_bytes(packed(*records))
        done = resolve("cat", "-q", "--from-warc", "a.warc.gz", "news:a@b")
        assert status_and_output(done) == (0, b"found\n"), (facts, done.messages)
        assert resolve("info", "--json", "--from-warc", "a.warc.gz", "news:a@b").status == 0
        assert (
            resolve(
                "get", "--meta", "-O", "x", "--exists", "replace", "--from-warc", "a.warc.gz", "news:a@b"
            ).status
            == 0
        )


def metadata_of(id: str, *events: str) -> bytes:
    block = "".join(f"dialogue: {event}\r\n" for event in events).encode()
    fields = {"WARC_Record_ID": "<urn:uuid:2>", "WARC_Concurrent_To": id, "WARC_Target_URI": "news:a@b"}
    return record(block, WARC_Type="metadata", Content_Type="application/warc-fields", **fields)


def test_from_warc_news_url_needs_no_server(sealed: None) -> None:
    done = resolve("cat", *ALL, "news:plain.1@example.test")
    assert (done.status, len(done.out)) == (0, 308), done.messages


@pytest.mark.parametrize(
    "words",
    [
        ["--at", "2026", "ftp://h/a"],
        ["--from-warc", "a.warc", "--at", "yesterday", "ftp://h/a"],
        ["--from-warc", "a.warc", "--at", "2026-13", "ftp://h/a"],
        *(
            ["--from-warc", "a.warc", *more, "ftp://h/a"]
            for more in (["--warc", "b.warc"], ["--proxy", "none"], ["-4"], ["--netrc"], ["--tries", "2"])
        ),
    ],
    ids=" ".join,
)
def test_from_warc_invalid_options_are_usage_errors(words: list[str], folder: Path) -> None:
    done = resolve("cat", *words)
    assert (done.status, done.out) == (2, b"")


def test_from_warc_invalid_archive_exits_with_status_3(folder: Path) -> None:
    (folder / "b.warc").write_bytes(b"WARC/0.18\r\n")
    assert resolve("cat", "--from-warc", "b.warc", "ftp://h/a").status == 3
    assert resolve("cat", "--from-warc", "none.warc", "ftp://h/a").status == 3


def test_from_warc_file_without_record_names_format(folder: Path) -> None:
    (folder / "index.cdxj").write_text('org,example)/ 20260101000000 {"url": "http://a/"}\n')
    done = resolve("cat", "--from-warc", "index.cdxj", "http://a/")
    assert (done.status, done.messages.count("\n")) == (3, 1)
    assert all(word in done.messages for word in ("index.cdxj", "byte 0:", "WARC"))


def test_from_warc_telnet_session_fails(folder: Path) -> None:
    (folder / "a.warc").write_bytes(record())
    done = resolve("cat", "--for", "1", "--from-warc", "a.warc", "telnet://h.example/")
    assert done.status in (2, 8), done.messages
    assert done.out == b""
