"""The trace of `-v`, the facts of `info`, records of failures, and pages of `--trace-html`."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree, html

from protocols.text import Masked
from resolver import Event, Finished, NotFound, Received, Sent
from resolver.network.events import TraceFormat
from tests.resolver.cli import contract
from tests.resolver.cli.command import hide_library, resolve

#: A URL for every way to frame a body, and a part of the body.
BODIES = {
    "{http}/about.txt": b"The second one.",
    "{http}/data/chunked": bytes(range(64, 96)),
    "{https}/about.txt": b"The second one.",
    "{ftp}/pub/a.txt": b"line two",
    "{gopher}/00/about": b"The second one.",
    "{nntp}/comp.misc/1235": b"Path:",
}


@pytest.mark.parametrize("place", BODIES)
def test_verbose_output_omits_body(at: dict[str, str], place: str, folder: Path) -> None:
    argv = ["cat", "-v", "--trace", "trace", "--cacert", at["cafile"], place.format(**at)]
    done = resolve(*argv)
    assert done.status == 0, done.messages
    marked = BODIES[place]
    assert marked in done.out
    shown = ascii(marked.decode("latin-1"))[1:-1]
    assert shown not in done.messages
    assert "C: " in done.messages
    trace = (folder / "trace").read_text()
    assert shown in trace or place == "{http}/data/chunked", "a trace has all of it, but of long pieces"
    assert [line for line in trace.splitlines() if line.startswith("C: ")] == [
        line for line in done.messages.splitlines() if line.startswith("C: ")
    ]


U, V = Masked("u"), Masked("v")
SENT_EVENT, FINISHED = Sent(U, b""), Finished(U, None)

#: Events, and the trace text of the last event.
MESSAGES: list[tuple[list[Event], str | None]] = [
    ([Received(U, b"220 Hello\r\n")], "line"),
    ([Received(U, b"230-Welcome\r\n to this\r\n230 In\r\n")], "line"),
    ([Received(U, b"220 ok\r\n1\tfirst\r\n2\tsecond\r\n")], r"S: 220 ok\r\n (and 19 bytes)"),
    ([Received(U, b"iwelcome\r\n0x\r\n")], r"S: iwelcome\r\n (and 4 bytes)"),
    ([Received(U, b"\0" * 300)], "S: " + r"\x00" * 200 + " (and 100 bytes)"),
    ([Received(U, b"", data=True)], "line"),
    ([Received(U, b"220 a file\r\n", data=True)], None),
    (
        [Received(U, b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody")],
        r"S: HTTP/1.1 200 OK\r\nA: b\r\n\r\n (and 4 bytes)",
    ),
    ([Received(U, b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")], "line"),
    ([Received(U, b"HTTP/1.1 200 OK\r\n\r\n"), Received(U, b"220 body")], None),
    (
        [Received(U, b"HTTP/1.1 100 Continue\r\n\r\n"), Received(U, b"HTTP/1.1 200 OK\r\n\r\n")],
        "line",
    ),
    ([Received(U, b"HTTP/1.1 200 OK\r\n\r\n"), Received(V, b"220 other\r\n")], "line"),
    ([Received(U, b"HTTP/1.1 200 OK\r\n\r\n"), SENT_EVENT, Received(U, b"220 x\r\n")], "line"),
    ([Received(U, b"HTTP/1.1 200 OK\r\n\r\n"), FINISHED], "line"),
]


@pytest.mark.parametrize(("events", "message"), MESSAGES)
def test_trace_separates_replies_from_bodies(events: list[Event], message: str | None) -> None:
    words = TraceFormat()
    result = [words.select_text(event, Masked("line")) for event in events]
    assert result[-1] == message


def test_info_verbose_shows_headers_and_facts(at: dict[str, str]) -> None:
    url = f"{at['http']}/data"
    short = resolve("info", "-q", url).out.decode().splitlines()
    long = resolve("info", "-q", "-v", url).out.decode().splitlines()
    assert long[: len(short)] == short
    more = dict(line.split(": ", 1) for line in long[len(short) :])
    assert more["peer"] == "127.0.0.1"
    assert more["etag"] == more["header.etag"] == '"1"'
    assert more["header.content-type"] == "application/octet-stream"
    assert resolve("info", "-v", f"{at['ftp']}/pub/a.txt").out.endswith(b"peer: 127.0.0.1\nchain: -\n")


def test_info_header_is_one_escaped_line(at: dict[str, str]) -> None:
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
def test_failure_has_json_record(
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


def test_failed_listing_ends_with_failure_record(at: dict[str, str]) -> None:
    done = resolve("ls", "--json", f"{at['http']}/about.txt")
    assert [record.get("exit") for record in done.records] == [8]


def test_failure_record_has_no_password(at: dict[str, str]) -> None:
    url = at["closed"].replace("//", "//me:s3cret@")
    assert b"s3cret" not in resolve("info", "--json", "--allow-password", "-t", "1", f"{url}/").out


def test_ls_verbose_explains_page_without_index(at: dict[str, str]) -> None:
    assert "http:no-index" not in resolve("ls", f"{at['http']}/notes/").messages
    assert "*: http:no-index: " in resolve("ls", "-v", f"{at['http']}/notes/").messages


def test_show_error_body_prints_escaped_body(at: dict[str, str]) -> None:
    url = f"{at['http']}/gone"
    plain, done = resolve("cat", url), resolve("cat", "--show-error-body", url)
    assert (plain.status, plain.out) == (done.status, done.out) == (8, b"")
    assert "to /about.txt" not in plain.messages
    assert done.messages.startswith("It went \\x1b[2J to /about.txt.\n")
    assert done.messages.endswith(plain.messages)


def test_show_error_body_is_limited_to_64_kib(at: dict[str, str]) -> None:
    done = resolve("cat", "--show-error-body", "-t", "1", f"{at['http']}/gone/long")
    assert (done.status, done.out) == (8, b"")
    assert done.messages.count("x" * 65_536) == 1
    assert "x" * 65_537 not in done.messages


@pytest.mark.parametrize("path", ["gone/data", "about.txt"])
def test_show_error_body_omits_binary_data_and_successful_body(path: str, at: dict[str, str]) -> None:
    url = f"{at['http']}/{path}"
    assert resolve("cat", "--show-error-body", url) == resolve("cat", url)


# `--trace-html FILE` and `explain --html`: actual and planned exchanges as a self-contained page.

PAGE = "page.html"


def page_in(folder: Path) -> html.HtmlElement:
    return html.fromstring((folder / PAGE).read_bytes())


def sections(folder: Path) -> dict[str, list[str]]:
    """Return the texts of the diagrams by URL."""
    return {
        section.xpath("string(h2)"): [
            " ".join(" ".join(each.xpath(".//text()")).split()) for each in section.xpath(".//figure")
        ]
        for section in page_in(folder).xpath("//section")
    }


def test_trace_html_has_exchange_and_plan_of_every_scheme(at: dict[str, str], folder: Path) -> None:
    urls = [*contract.DOCUMENTS, "{wais}/demo?ferry", "{nntp}/comp.misc/1235", "{telnet_login}/"]
    target = [url.format_map(at) for url in urls]
    done = resolve("cat", "-q", "--trace-html", PAGE, *target)
    assert done.status == 0
    exchanges = sections(folder)
    assert list(exchanges) == target
    for exchange, planned in exchanges.values():
        assert exchange.startswith("Protocol exchange")
        assert "done" in exchange
        assert planned.startswith("Planned exchange")
    text = exchanges["{ftp}/pub/a.txt".format_map(at)][0]
    for words in ("220 ", "USER anonymous", "PASS ****", "RETR a.txt", "150 ", "29 bytes", "226 "):
        assert words in text
    assert "A text of two lines." in exchanges["{gopher}/00/about".format_map(at)][0]
    assert "HTTP/1.1 200 OK" in exchanges["{http}/about.txt".format_map(at)][0]


@pytest.mark.parametrize("verb", ["get", "cat", "ls", "info"])
def test_trace_html_works_with_every_command(verb: str, at: dict[str, str], folder: Path) -> None:
    done = resolve(verb, "-q", "--trace-html", PAGE, f"{at['ftp']}/pub/{'' if verb == 'ls' else 'a.txt'}")
    assert done.status == 0
    assert "230 " in (folder / PAGE).read_text()


def test_trace_html_shows_failures(at: dict[str, str], folder: Path) -> None:
    done = resolve(
        "cat", "-q", "--trace-html", PAGE, f"{at['ftp']}/nothing", f"{at['ftp_later']}/", "-t", "1"
    )
    assert done.status == 8
    missing, later = sections(folder).values()
    assert "550" in missing[0]
    assert "NotFound" in missing[0]
    assert "421 not now" in later[0]


def test_trace_html_shows_refusals(folder: Path) -> None:
    done = resolve("cat", "-q", "--trace-html", PAGE, "http://127.0.0.1:25/")
    assert done.status == 9
    ((exchange, planned),) = sections(folder).values()
    assert "Refused" in exchange
    assert "verdict: refuse" in planned


def test_trace_html_has_no_secret(at: dict[str, str], folder: Path) -> None:
    (folder / "password").write_text("hunter2\n")
    url = at["http"].replace("://", "://user:s3cret@") + "/private?token=t0ken"
    options = [
        "--user",
        "alice",
        "--password-file",
        "password",
        "-H",
        "Cookie: id=c00kie",
        "--allow-password",
    ]
    resolve("cat", "-q", "--trace-html", PAGE, *options, f"{at['http']}/private", f"{at['ftp']}/pub/a.txt")
    first = (folder / PAGE).read_text()
    resolve("cat", "-q", "--trace-html", PAGE, url)
    for secret in ("hunter2", "c00kie", "s3cret", "t0ken", "dXNlcj", "YWxpY2U"):
        assert secret not in first + (folder / PAGE).read_text()
    assert "Authorization: ****" in first
    assert "Cookie: ****" in first


def test_trace_html_escapes_text_of_peer(at: dict[str, str], folder: Path) -> None:
    urls = [f"{at[name]}/" for name in ("gopher_menu", "ftp_garbage", "gopher_odd", "login")]
    urls += [f"{at['nntp_escape']}/a.b", f"{at['wais_garbage']}/db"]
    resolve("cat", "-q", "-t", "1", "--trace-html", PAGE, *urls)
    markup = (folder / PAGE).read_text()
    assert "\x1b" not in markup
    assert len(sections(folder)) == len(urls)
    for drawn in page_in(folder).xpath("//*[local-name()='svg']"):
        etree.fromstring(etree.tostring(drawn))


def test_trace_html_replaces_page_atomically(at: dict[str, str], folder: Path) -> None:
    (folder / PAGE).write_text("before")
    done = resolve("cat", "-q", "--trace-html", "gone/page.html", f"{at['http']}/about.txt")
    assert (done.status, done.out) == (3, b"")  # the check precedes the first request
    assert "does not exist" in done.messages
    assert resolve("cat", "-q", "--trace-html", PAGE, f"{at['http']}/about.txt").status == 0
    assert (folder / PAGE).read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in folder.iterdir()) == [PAGE]


def test_trace_html_shows_redirect_and_size(at: dict[str, str], folder: Path) -> None:
    done = resolve(
        "get", "-q", "-d", "d", "--trace-html", PAGE, f"{at['http']}/moved", f"{at['ftp']}/pub/large.bin"
    )
    assert done.status == 0
    size = (folder / "d" / "large.bin").stat().st_size
    moved, large = sections(folder).values()
    assert f"continues with {at['http']}/about.txt" in moved[0]
    assert f"{size:,} bytes" in large[0]


def test_explain_html_draws_plan(folder: Path) -> None:
    done = resolve("explain", "--html", "ftp://h.example/a", "gopher://h:25/1x%0D%0A")
    assert done.status == 9
    result = html.fromstring(done.out)
    assert result.xpath("//h2//text()") == ["ftp://h.example/a", "gopher://h:25/1x%0D%0A"]
    assert result.xpath("count(//figure)") == 2
    done = resolve("explain", "--html", "-O", PAGE, "ftp://h.example/a")
    assert (done.status, done.out) == (0, b"")
    assert "RETR a" in sections(folder)["ftp://h.example/a"][0]
    assert "verdict: allow" in sections(folder)["ftp://h.example/a"][0]


def test_explain_html_with_json_is_usage_error(folder: Path) -> None:
    done = resolve("explain", "--html", "--json", "ftp://h.example/a")
    assert done.status == 2
    assert "--html" in done.messages


def test_trace_html_without_extra_names_package(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    hide_library(monkeypatch, "jinja2", "resolver.web")
    for argv in (
        ["explain", "--html", "ftp://h.example/a"],
        ["cat", "--trace-html", PAGE, "ftp://h.example/a"],
    ):
        done = resolve(*argv)
        assert (done.status, done.out) == (2, b"")
        assert done.messages.endswith(" needs jinja2 3.1.2 or later (the extra web): pip install jinja2\n")
    assert list(folder.iterdir()) == []


def test_explain_text_does_not_import_web_modules(folder: Path) -> None:
    """The text form of a plan does not load the modules for pages."""
    from tests.fresh import run_alone

    text = run_alone(
        "import sys; from resolver.cli import main; main(['explain', '--config', 'none', 'gopher://h.example/']);"
        "print(sorted(name for name in sys.modules if name.startswith(('jinja2', 'resolver.web'))))"
    )
    assert text.splitlines()[-1] == "[]"
