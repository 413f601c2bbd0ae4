"""Gopher and Gopher+ URLs against Gophernicus and PyGopherd, in the library and in the command.

Gophernicus ends the lines of a text with CR LF, converts it to UTF-8 and does not know Gopher+. PyGopherd
sends the stored bytes and frames its Gopher+ replies. Neither ends a text with a lone period, and only
Gophernicus ends a menu with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import resolver
from tests.resolver.cli.command import records, resolve
from tests.sampled import sampled
from tests.servers.gopher_servers import GopherServer
from tests.servers.gopher_tree import FILES, GIF, LARGE, OCTETS

CRLF_TEXTS = {name: text.replace(b"\n", b"\r\n") for name, text in FILES.items()}
BOTH = ("gophernicus", "pygopherd")


class Case(NamedTuple):
    """A URL of a server. If `sent` is not given, the client must not send a byte."""

    server: str
    rest: str
    sent: bytes | None
    kind: str
    content: bytes
    media_type: str | None
    findings: tuple[str, ...] = ()
    verified: tuple[str, ...] = ()


def _texts() -> Iterator[Case]:
    for name in ("about.txt", "dots.txt", "empty.txt", "header.txt", "with space/inner file.txt"):
        rest, sent = f"0/{name.replace(' ', '%20')}", f"/{name}\r\n".encode()
        yield Case("gophernicus", rest, sent, "document", CRLF_TEXTS[name], "text/plain")
        yield Case("pygopherd", rest, sent, "document", FILES[name], "text/plain")
    for name, converted in (
        ("no-newline.txt", b"no line end at the end\r\n"),
        ("utf8.txt", "Grüße — 日本\r\n".encode()),
        ("latin1.txt", "café crème\r\n".encode()),
    ):
        yield Case("gophernicus", f"0/{name}", f"/{name}\r\n".encode(), "document", converted, "text/plain")
        yield Case("pygopherd", f"0/{name}", f"/{name}\r\n".encode(), "document", FILES[name], "text/plain")


def _binaries() -> Iterator[Case]:
    for server in BOTH:
        yield Case(server, "9/octets.bin", b"/octets.bin\r\n", "document", OCTETS, "application/octet-stream")
        yield Case(server, "9/large.bin", b"/large.bin\r\n", "document", LARGE, "application/octet-stream")
        yield Case(server, "g/pixel.gif", b"/pixel.gif\r\n", "document", GIF, "image/gif")
        yield Case(server, "I/pixel.gif", b"/pixel.gif\r\n", "document", GIF, "image/gif")
        yield Case(server, "h/page.html", b"/page.html\r\n", "document", FILES["page.html"], "text/html")


def _gopher_plus() -> Iterator[Case]:
    about = FILES["about.txt"]
    length = ("length",)
    unframed = ("gopher:unframed",)
    plain = ("document", about, "text/plain")
    yield Case("pygopherd", "0/about.txt%09%09+", b"/about.txt\t+\r\n", *plain, verified=length)
    yield Case(
        "pygopherd", "0/empty.txt%09%09+", b"/empty.txt\t+\r\n", "document", b"", "text/plain", (), length
    )
    octets = ("document", OCTETS, "application/octet-stream")
    yield Case("pygopherd", "9/octets.bin%09%09+", b"/octets.bin\t+\r\n", *octets, verified=length)
    # PyGopherd does not have this view: it sends the default without an error.
    view = "0/about.txt%09%09+text/plain%20De_DE"
    yield Case("pygopherd", view, b"/about.txt\t+text/plain De_DE\r\n", *plain, verified=length)
    # Named attributes: PyGopherd sends the document, without a header.
    yield Case("pygopherd", "0/about.txt%09%09!+ABSTRACT", b"/about.txt\t!+ABSTRACT\r\n", *plain, unframed)
    ignored = ("document", CRLF_TEXTS["about.txt"], "text/plain", unframed)
    yield Case("gophernicus", "0/about.txt%09%09+", b"/about.txt\t+\r\n", *ignored)
    yield Case("gophernicus", "0/about.txt%09%09!", b"/about.txt\t!\r\n", *ignored)
    yield Case("gophernicus", view, b"/about.txt\t+text/plain De_DE\r\n", *ignored)


def _unfetched() -> Iterator[Case]:
    for server in BOTH:
        yield Case(server, "hURL:http://www.example.org/", None, "link", b"", None)
        yield Case(server, "8/guest", None, "service", b"", None)
        yield Case(server, "2ns", None, "service", b"", None)


#: A sample of two cases per server and type.
CASES = sampled(
    [*_texts(), *_binaries(), *_gopher_plus(), *_unfetched()], lambda case: (case.server, case.rest[:1]), 2
)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> GopherServer:
    found: GopherServer = request.getfixturevalue(request.param)
    return found


def sent_by(events: list[resolver.Sent]) -> bytes | None:
    return b"".join(event.octets for event in events) if events else None


@pytest.mark.parametrize(
    ("server", "case"),
    [(case.server, case) for case in CASES],
    ids=[f"{case.server} {case.rest}" for case in CASES],
    indirect=["server"],
)
async def test_fetch_sends_selector_and_returns_content(
    server: GopherServer, case: Case, tmp_path: Path
) -> None:
    sent: list[resolver.Sent] = []

    def watch(event: object) -> None:
        if isinstance(event, resolver.Sent):
            sent.append(event)

    async with resolver.Resolver(on_event=watch) as session:
        response = await session.fetch(server.url(case.rest))
        assert sent_by(sent) == case.sent
        assert response.kind == case.kind
        assert response.content == case.content
        assert response.media_type == case.media_type
        assert tuple(finding.rule for finding in response.findings) == ("S04", *case.findings)
        assert response.verified == case.verified
        if case.sent is not None:
            assert response.peer == "127.0.0.1"
            await session.save(server.url(case.rest), str(tmp_path / "saved"))
            assert (tmp_path / "saved").read_bytes() == case.content
            async with session.stream(server.url(case.rest)) as reply:
                assert b"".join([octets async for octets in reply.body]) == case.content


def shown(
    entries: tuple[resolver.Entry, ...] | None, server: GopherServer
) -> list[tuple[str, str, str | None]]:
    """Return kind, name without the columns that Gophernicus adds, and URL below the server."""
    here = server.url("")
    return [
        (entry.kind.value, entry.name.partition("  ")[0], entry.url and entry.url.replace(here, "/"))
        for entry in entries or ()
    ]


#: The menu of `plain` and the handwritten menu in `odd`, as each server sends them.
MENUS: list[tuple[str, str, list[tuple[str, str, str | None]]]] = [
    (
        "gophernicus",
        "1/plain",
        [
            ("info", "[/plain/]", None),
            ("info", "", None),
            ("directory", "..", "/1/"),
            ("document", "one.txt", "/0/plain/one.txt"),
            ("document", "two.txt", "/0/plain/two.txt"),
        ],
    ),
    (
        "pygopherd",
        "1/plain",
        [
            ("document", "one.txt", "/0/plain/one.txt%09%09+"),
            ("document", "two.txt", "/0/plain/two.txt%09%09+"),
        ],
    ),
    (
        "gophernicus",
        "1/odd",
        [
            ("info", "Prose at the top", None),
            ("info", "", None),
            ("document", "A text", "/0/odd/target.txt"),
            ("directory", "Elsewhere", "gopher://other.example:7070/1/x%20y"),
            ("link", "A page of the web", "http://www.example.org/"),
            ("service", "A terminal", "telnet://guest@other.example/"),
            ("document", "A picture", "/g/pixel.gif"),
            ("unknown", "Unheard of", "/%3F/about.txt"),
            ("info", "Grüße", None),
        ],
    ),
    (
        "pygopherd",
        "1/odd",
        [
            ("info", "Prose at the top", None),
            ("info", "", None),
            ("document", "A text", "/0/odd/target.txt%09%09+"),
            ("directory", "Elsewhere", "gopher://other.example:7070/1/x%20y"),
            ("link", "A page of the web", "http://www.example.org/"),
            # PyGopherd treats a login name as a path
            ("service", "A terminal", "telnet://%2Fodd%2Fguest@other.example/"),
            ("document", "A picture", "/g/pixel.gif%09%09+"),
            ("unknown", "Unheard of", "/%3F/about.txt%09%09+"),
            ("info", "What the text is about.", None),
            ("info", "Grüße", None),
        ],
    ),
]


@pytest.mark.parametrize(("server", "rest", "expected"), MENUS, indirect=["server"])
async def test_menu_items_become_entries(
    server: GopherServer, rest: str, expected: list[tuple[str, str, str | None]]
) -> None:
    response = await resolver.fetch(server.url(rest))
    assert response.kind == "directory"
    assert response.media_type == "application/gopher-menu"
    footer = 2 if server.name == "gophernicus" else 0  # the footer is a line and the name of the server
    entries = shown(response.entries, server)
    assert entries[: len(entries) - footer] == expected
    assert response.verified == (("terminator",) if server.name == "gophernicus" else ())
    async with resolver.entries(server.url(rest)) as streamed:
        assert tuple([entry async for entry in streamed]) == response.entries


@pytest.mark.parametrize("server", BOTH, indirect=True)
async def test_root_menu_entries_can_be_fetched(server: GopherServer) -> None:
    """URLs built from the server's menu lead back to its files."""
    fetched = 0
    async with resolver.Resolver() as session:
        menu = await session.fetch(server.url(""))
        for entry in menu.entries or ():
            if entry.url is None:
                continue
            response = await session.fetch(entry.url, origin="chosen", referrer=entry.referrer)
            name = entry.name.partition("  ")[0]
            assert (response.kind == "directory") == (name not in FILES)
            if name.endswith((".bin", ".gif", ".html")):
                assert response.content == FILES[name]
            fetched += 1
    assert fetched >= len([name for name in FILES if "/" not in name and not name.endswith(".abstract")])


@pytest.mark.parametrize("server", BOTH, indirect=True)
@pytest.mark.parametrize(
    ("words", "found"), [("two%20words", "Found two words"), ("a+b", "Found a+b"), ("%E9", "Found é")]
)
async def test_search_sends_its_terms(server: GopherServer, words: str, found: str) -> None:
    response = await resolver.fetch(server.url(f"7/cgi-bin/search%09{words}"))
    assert shown(response.entries, server) == [("document", found, "/0/about.txt")]


async def test_item_attributes_are_in_extra(pygopherd: GopherServer) -> None:
    response = await resolver.fetch(pygopherd.url("0/about.txt%09%09!"))
    assert response.media_type == "application/gopher+-menu"
    assert shown(response.entries, pygopherd) == [("document", "about.txt", "/0/about.txt%09%09+")]
    assert response.entries is not None
    extra = response.entries[0].extra
    assert extra is not None
    attributes = extra["attributes"]
    assert isinstance(attributes, dict)
    assert attributes["ABSTRACT"] == ["What the text is about."]
    assert attributes["VIEWS"] == ["text/plain: <0k>"]


async def test_directory_attributes_list_items(pygopherd: GopherServer) -> None:
    response = await resolver.fetch(pygopherd.url("1/plain%09%09$"))
    assert shown(response.entries, pygopherd) == [
        ("document", "one.txt", "/0/plain/one.txt%09%09+"),
        ("document", "two.txt", "/0/plain/two.txt%09%09+"),
    ]


@pytest.mark.parametrize(
    ("rest", "error", "code"),
    [
        # the server sends a menu line of type 3 (error) instead of a text
        ("0/nope", resolver.NotFound, None),
        ("1/nope", resolver.NotFound, None),
        ("9/nope", resolver.NotFound, None),
        ("0/nope%09%09+", resolver.NotFound, "1"),  # the server sends an error with a Gopher+ length
    ],
)
async def test_pygopherd_missing_selector_is_not_found(
    pygopherd: GopherServer, rest: str, error: type[resolver.Declined], code: str | None
) -> None:
    with pytest.raises(error) as caught:
        await resolver.fetch(pygopherd.url(rest))
    assert caught.value.code == code
    assert "'/nope' does not exist" in caught.value.text
    assert caught.value.url == pygopherd.url(rest)
    assert caught.value.exit_code == 8


async def test_gophernicus_missing_menu_is_not_found(gophernicus: GopherServer) -> None:
    with pytest.raises(resolver.NotFound, match="not found"):
        await resolver.fetch(gophernicus.url("1/nope/"))


async def test_gophernicus_missing_text_is_a_document(gophernicus: GopherServer) -> None:
    """The client does not search the text for errors: a reply in the form of a document is a document."""
    response = await resolver.fetch(gophernicus.url("0/nope"))
    assert response.content.startswith(b"Error: File or directory not found!")


async def test_empty_reply_to_gopher_plus_is_a_protocol_error(gophernicus: GopherServer) -> None:
    with pytest.raises(resolver.ProtocolError):
        await resolver.fetch(gophernicus.url("0/empty.txt%09%09+"))


async def test_gophers_with_trusted_authority_returns_text(pygopherd: GopherServer) -> None:
    url = pygopherd.url("0/about.txt", "gophers")
    async with resolver.Resolver(cafile=str(pygopherd.authority)) as session:
        response = await session.fetch(url)
    assert response.content == FILES["about.txt"]
    # PyGopherd ends TLS by closing the connection: the end of the text is not authenticated.
    assert "close-notify" not in response.verified
    assert "gophers:end-not-authenticated" in {finding.rule for finding in response.findings}


async def test_gophers_with_length_is_verified_by_length(pygopherd: GopherServer) -> None:
    async with resolver.Resolver(cafile=str(pygopherd.authority)) as session:
        response = await session.fetch(pygopherd.url("9/octets.bin%09%09+", "gophers"))
    assert response.content == OCTETS
    assert response.verified == ("length",)
    assert {finding.rule for finding in response.findings} == {"S04"}


async def test_gophers_with_unknown_authority_sends_no_byte(pygopherd: GopherServer) -> None:
    sent: list[object] = []
    async with resolver.Resolver(on_event=sent.append) as session:
        with pytest.raises(resolver.TlsError) as caught:
            await session.fetch(pygopherd.url("0/about.txt", "gophers"))
    assert caught.value.exit_code == 5
    assert not any(isinstance(event, resolver.Sent) for event in sent)


async def test_gophers_to_plain_server_is_a_tls_error(gophernicus: GopherServer) -> None:
    with pytest.raises(resolver.TlsError):
        await resolver.fetch(gophernicus.url("0/about.txt", "gophers"))


async def test_body_limit_stops_large_file(gophernicus: GopherServer) -> None:
    with pytest.raises(resolver.LimitExceeded) as caught:
        await resolver.fetch(gophernicus.url("9/large.bin"), limits=resolver.Limits(body=1000))
    assert (caught.value.limit, caught.value.exit_code) == ("body", 14)


# The command against Gophernicus and PyGopherd: standard output, standard error and exit status, exact bytes.


@pytest.fixture(params=["gophernicus", "pygopherd"])
def gopher_command_server(request: pytest.FixtureRequest) -> GopherServer:
    found: GopherServer = request.getfixturevalue(request.param)
    return found


def test_cat_writes_bytes_unchanged(gopher_command_server: GopherServer) -> None:
    done = resolve("cat", gopher_command_server.url("9/octets.bin"), gopher_command_server.url("h/page.html"))
    assert (done.status, done.out) == (0, OCTETS + FILES["page.html"])
    assert b"S04" in done.err


def test_get_names_files_after_url(gopher_command_server: GopherServer, tmp_path: Path) -> None:
    done = resolve(
        "-q",
        gopher_command_server.url("9/large.bin"),
        gopher_command_server.url("g/pixel.gif"),
        folder=tmp_path,
    )
    assert (done.status, done.out, done.err) == (0, b"", b"")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "large.bin": LARGE,
        "pixel.gif": FILES["pixel.gif"],
    }


def test_get_leaves_existing_file_unchanged(gopher_command_server: GopherServer, tmp_path: Path) -> None:
    (tmp_path / "pixel.gif").write_bytes(b"mine")
    done = resolve("get", gopher_command_server.url("g/pixel.gif"), folder=tmp_path)
    assert done.status == 3
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"mine"]


def test_get_json_reports_outcome(gopher_command_server: GopherServer, tmp_path: Path) -> None:
    url = gopher_command_server.url("9/octets.bin")
    done = resolve("get", "--json", "-d", "new", url, folder=tmp_path)
    (outcome,) = records(done.out)
    assert (outcome["url"], outcome["status"], outcome["exit"]) == (url, "done", 0)
    assert (outcome["bytes"], outcome["peer"]) == (len(OCTETS), "127.0.0.1")
    assert (tmp_path / outcome["path"]).read_bytes() == OCTETS


def test_ls_lists_names_and_records(gopher_command_server: GopherServer) -> None:
    plain = resolve("ls", "-q", gopher_command_server.url("1/odd"))
    assert plain.status == 0
    lines = plain.out.decode().splitlines()
    assert lines[0] == "Prose at the top"
    assert {"A text", "Elsewhere", "A page of the web", "A terminal", "A picture", "Grüße"} <= set(lines)
    listed = records(resolve("ls", "--json", gopher_command_server.url("1/odd")).out)
    assert [entry["name"] for entry in listed] == lines
    assert all(entry["origin"] == "derived" for entry in listed)
    assert all(entry["referrer"] == [gopher_command_server.url("1/odd"), "127.0.0.1"] for entry in listed)


def test_get_reads_records_of_ls(gopher_command_server: GopherServer, tmp_path: Path) -> None:
    listed = [
        line
        for line in resolve("ls", "--json", gopher_command_server.url("1/plain")).out.splitlines()
        if b'"document"' in line
    ]
    done = resolve("get", "-q", "-i", "-", folder=tmp_path, stdin=b"\n".join(listed))
    assert (done.status, done.err) == (0, b"")
    assert {path.name: path.read_bytes().split() for path in tmp_path.iterdir()} == {
        "one.txt": [b"one"],
        "two.txt": [b"two"],
    }


def test_info_reads_no_body(pygopherd: GopherServer) -> None:
    url = pygopherd.url("9/large.bin%09%09+")
    (entry,) = records(resolve("info", "--json", url).out)
    assert (entry["url"], entry["kind"], entry["size"]) == (url, "document", len(LARGE))


def test_explain_shows_bytes_of_request(gopher_command_server: GopherServer, tmp_path: Path) -> None:
    url = gopher_command_server.url("7/cgi-bin/search%09two%20words")
    (plan,) = records(resolve("explain", "--json", url).out)
    said = b"".join(step["octets"].encode("latin-1") for step in plan["steps"] if step["action"] == "send")
    assert said == b"/cgi-bin/search\ttwo words\r\n"
    assert plan["verdict"] == "warn"
    trace = tmp_path / "trace"
    assert resolve("cat", "-q", "--trace", str(trace), url).status == 0
    assert "two words" in trace.read_text()


@pytest.mark.parametrize("target", ["http://www.example.org/page", "http://www.example.org/"])
def test_link_is_shown_and_not_followed(
    gopher_command_server: GopherServer, target: str, tmp_path: Path
) -> None:
    url = gopher_command_server.url(f"hURL:{target}")
    assert resolve("cat", "-q", url).out.decode() == f"{target}\n"
    done = resolve("get", url, folder=tmp_path)
    assert (done.status, list(tmp_path.iterdir())) == (15, [])


@pytest.mark.parametrize("verb", ["get", "cat", "ls", "info"])
def test_missing_selector_exits_with_8(pygopherd: GopherServer, verb: str, tmp_path: Path) -> None:
    done = resolve(verb, pygopherd.url("1/nope"), folder=tmp_path)
    assert (done.status, done.out, list(tmp_path.iterdir())) == (8, b"", [])
    assert b"does not exist" in done.err


def test_cautious_policy_refuses_port_before_connecting(gophernicus: GopherServer) -> None:
    done = resolve("cat", "--policy", "cautious", gophernicus.url("0/about.txt"))
    assert (done.status, done.out) == (9, b"")
    assert b"S04" in done.err
    allowed = ["--allow-port", str(gophernicus.port)]
    done = resolve("cat", "--policy", "cautious", *allowed, gophernicus.url("0/about.txt"))
    assert (done.status, done.err) == (0, b"")


def test_cat_gophers_needs_cacert(pygopherd: GopherServer) -> None:
    url = pygopherd.url("9/octets.bin%09%09+", "gophers")
    assert resolve("cat", url).status == 5
    done = resolve("cat", "-q", "--cacert", str(pygopherd.authority), url)
    assert (done.status, done.out) == (0, OCTETS)


def test_exit_status_is_shared_or_1(pygopherd: GopherServer) -> None:
    missing, refused = pygopherd.url("0/nope"), "gopher://127.0.0.1:25/0a"
    assert resolve("cat", missing, pygopherd.url("0/about.txt"), missing).status == 8
    assert resolve("cat", missing, refused).status == 1
