"""What `-v` shows of a dialogue, what `info` shows of a thing, and records of what fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from resolver import Event, Finished, NotFound, Received, Sent
from resolver.network.events import TraceFormat
from tests.cli.command import resolve

#: Of every way to be told a body: a URL, and what it holds.
BODIES = {
    "{http}/about.txt": b"The second one.",
    "{http}/data/chunked": bytes(range(64, 96)),
    "{https}/about.txt": b"The second one.",
    "{ftp}/pub/a.txt": b"line two",
    "{gopher}/00/about": b"The second one.",
    "{nntp}/comp.misc/1235": b"Path:",
}


@pytest.mark.parametrize("place", BODIES)
def test_a_body_is_not_repeated(at: dict[str, str], place: str, folder: Path) -> None:
    argv = ["cat", "-v", "--trace", "trace", "--cacert", at["cafile"], place.format(**at)]
    done = resolve(*argv)
    assert done.status == 0, done.told
    marked = BODIES[place]
    assert marked in done.out
    shown = ascii(marked.decode("latin-1"))[1:-1]
    assert shown not in done.told
    assert "C: " in done.told
    trace = (folder / "trace").read_text()
    assert shown in trace or place == "{http}/data/chunked", "a trace has all of it, but of long pieces"
    assert [line for line in trace.splitlines() if line.startswith("C: ")] == [
        line for line in done.told.splitlines() if line.startswith("C: ")
    ]


SENT, FINISHED = Sent("u", b""), Finished("u", None)

#: Events, and what a person gets of the last one.
SAID: list[tuple[list[Event], str | None]] = [
    ([Received("u", b"220 Hello\r\n")], "line"),
    ([Received("u", b"230-Welcome\r\n to this\r\n230 In\r\n")], "line"),
    ([Received("u", b"220 ok\r\n1\tfirst\r\n2\tsecond\r\n")], r"S: 220 ok\r\n (and 19 octets)"),
    ([Received("u", b"iwelcome\r\n0x\r\n")], r"S: iwelcome\r\n (and 4 octets)"),
    ([Received("u", b"\0" * 300)], "S: " + r"\x00" * 200 + " (and 100 octets)"),
    ([Received("u", b"", data=True)], "line"),
    ([Received("u", b"220 a file\r\n", data=True)], None),
    (
        [Received("u", b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody")],
        r"S: HTTP/1.1 200 OK\r\nA: b\r\n\r\n (and 4 octets)",
    ),
    ([Received("u", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")], "line"),
    ([Received("u", b"HTTP/1.1 200 OK\r\n\r\n"), Received("u", b"220 body")], None),
    ([Received("u", b"HTTP/1.1 100 Continue\r\n\r\n"), Received("u", b"HTTP/1.1 200 OK\r\n\r\n")], "line"),
    ([Received("u", b"HTTP/1.1 200 OK\r\n\r\n"), Received("v", b"220 other\r\n")], "line"),
    ([Received("u", b"HTTP/1.1 200 OK\r\n\r\n"), SENT, Received("u", b"220 x\r\n")], "line"),
    ([Received("u", b"HTTP/1.1 200 OK\r\n\r\n"), FINISHED], "line"),
]


@pytest.mark.parametrize(("events", "said"), SAID)
def test_words_are_told_from_an_object(events: list[Event], said: str | None) -> None:
    words = TraceFormat()
    found = [words.said(event, "line") for event in events]
    assert found[-1] == said


def test_info_shows_the_servers_headers_and_facts(at: dict[str, str]) -> None:
    url = f"{at['http']}/data"
    short = resolve("info", "-q", url).out.decode().splitlines()
    long = resolve("info", "-q", "-v", url).out.decode().splitlines()
    assert long[: len(short)] == short
    more = dict(line.split(": ", 1) for line in long[len(short) :])
    assert more["peer"] == "127.0.0.1"
    assert more["etag"] == more["header.etag"] == '"1"'
    assert more["header.content-type"] == "application/octet-stream"
    assert resolve("info", "-v", f"{at['ftp']}/pub/a.txt").out.endswith(b"peer: 127.0.0.1\nchain: -\n")


def test_a_header_cannot_drive_a_terminal_or_make_a_line(at: dict[str, str]) -> None:
    lines = resolve("info", "-v", f"{at['named']}/x").out.decode().splitlines()
    assert [line for line in lines if line.startswith("header.content-disposition: ")] == [
        'header.content-disposition: attachment; filename="../../.bashrc"'
    ]


@pytest.mark.parametrize("verb", ["info", "ls"])
@pytest.mark.parametrize(
    ("place", "code", "rule"),
    [
        ("{http}/nothing/here", NotFound.__name__, None),
        ("{closed}/", "Unreachable", None),
        ("no url", "InvalidUrl", "S01"),
        ("http://127.0.0.1:25/", "Refused", "S04"),
        ("nosuch:thing", "UnsupportedScheme", "S19"),
    ],
)
def test_what_fails_has_a_record(
    at: dict[str, str], verb: str, place: str, code: str, rule: str | None
) -> None:
    url = place.format(**at)
    done = resolve(verb, "--json", "--tries", "1", f"{at['http']}/pub/", url)
    *_, record = done.records
    assert list(record) == ["url", "error", "exit"]
    assert (record["url"], record["exit"]) == (url, done.status)
    assert (record["error"]["code"], record["error"].get("rule")) == (code, rule)
    assert record["error"]["message"]
    assert len(done.records) > 1


def test_a_listing_that_breaks_off_says_so_behind_its_entries(at: dict[str, str]) -> None:
    done = resolve("ls", "--json", f"{at['http']}/about.txt")
    assert [record.get("exit") for record in done.records] == [8]


def test_no_secret_is_in_a_record(at: dict[str, str]) -> None:
    url = at["closed"].replace("//", "//me:s3cret@")
    assert b"s3cret" not in resolve("info", "--json", "--allow-password", "-t", "1", f"{url}/").out


def test_why_a_page_is_no_index(at: dict[str, str]) -> None:
    assert "http:no-index" not in resolve("ls", f"{at['http']}/notes/").told
    assert "*: http:no-index: " in resolve("ls", "-v", f"{at['http']}/notes/").told


def test_the_body_of_a_refusal_is_shown_on_request(at: dict[str, str]) -> None:
    url = f"{at['http']}/gone"
    plain, done = resolve("cat", url), resolve("cat", "--show-error-body", url)
    assert (plain.status, plain.out) == (done.status, done.out) == (8, b"")
    assert "to /about.txt" not in plain.told
    assert done.told.startswith("It went \\x1b[2J to /about.txt.\n")
    assert done.told.endswith(plain.told)


def test_so_much_of_it_as_somebody_may_read(at: dict[str, str]) -> None:
    done = resolve("cat", "--show-error-body", "-t", "1", f"{at['http']}/gone/long")
    assert (done.status, done.out) == (8, b"")
    assert done.told.count("x" * 65_536) == 1
    assert "x" * 65_537 not in done.told


def test_what_is_no_text_is_not_shown(at: dict[str, str]) -> None:
    url = f"{at['http']}/gone/data"
    assert resolve("cat", "--show-error-body", url) == resolve("cat", url)


def test_a_good_body_is_the_same(at: dict[str, str]) -> None:
    url = f"{at['http']}/about.txt"
    assert resolve("cat", "--show-error-body", url) == resolve("cat", url)
