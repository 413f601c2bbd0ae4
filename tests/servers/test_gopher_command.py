"""The command against Gophernicus and PyGopherd: standard output, error and exit status, octet for octet."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import records, resolve
from tests.servers.gopher_servers import GopherServer
from tests.servers.gopher_tree import FILES, LARGE, OCTETS


@pytest.fixture(params=["gophernicus", "pygopherd"])
def server(request: pytest.FixtureRequest) -> GopherServer:
    """Either server: what these tests say holds for both."""
    found: GopherServer = request.getfixturevalue(request.param)
    return found


def test_cat_writes_the_octets(server: GopherServer) -> None:
    done = resolve("cat", server.url("9/octets.bin"), server.url("h/page.html"))
    assert (done.status, done.out) == (0, OCTETS + FILES["page.html"])
    assert b"S04" in done.err


def test_get_saves_under_the_name_in_the_url(server: GopherServer, tmp_path: Path) -> None:
    done = resolve("-q", server.url("9/large.bin"), server.url("g/pixel.gif"), folder=tmp_path)
    assert (done.status, done.out, done.err) == (0, b"", b"")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "large.bin": LARGE,
        "pixel.gif": FILES["pixel.gif"],
    }


def test_get_does_not_touch_a_file_that_is_there(server: GopherServer, tmp_path: Path) -> None:
    (tmp_path / "pixel.gif").write_bytes(b"mine")
    done = resolve("get", server.url("g/pixel.gif"), folder=tmp_path)
    assert done.status == 3
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"mine"]


def test_get_tells_its_outcome(server: GopherServer, tmp_path: Path) -> None:
    url = server.url("9/octets.bin")
    done = resolve("get", "--json", "-d", "new", url, folder=tmp_path)
    (outcome,) = records(done.out)
    assert (outcome["url"], outcome["status"], outcome["exit"]) == (url, "done", 0)
    assert (outcome["bytes"], outcome["peer"]) == (len(OCTETS), "127.0.0.1")
    assert (tmp_path / outcome["path"]).read_bytes() == OCTETS


def test_ls_lists_names_and_records(server: GopherServer) -> None:
    plain = resolve("ls", "-q", server.url("1/odd"))
    assert plain.status == 0
    lines = plain.out.decode().splitlines()
    assert lines[0] == "Prose at the top"
    assert {"A text", "Elsewhere", "A page of the web", "A terminal", "A picture", "Grüße"} <= set(lines)
    listed = records(resolve("ls", "--json", server.url("1/odd")).out)
    assert [entry["name"] for entry in listed] == lines
    assert all(entry["origin"] == "derived" for entry in listed)
    assert all(entry["referrer"] == [server.url("1/odd"), "127.0.0.1"] for entry in listed)


def test_what_ls_writes_another_run_reads(server: GopherServer, tmp_path: Path) -> None:
    listed = [
        line
        for line in resolve("ls", "--json", server.url("1/plain")).out.splitlines()
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


def test_explain_says_what_get_sends(server: GopherServer, tmp_path: Path) -> None:
    url = server.url("7/cgi-bin/search%09two%20words")
    (plan,) = records(resolve("explain", "--json", url).out)
    said = b"".join(step["octets"].encode("latin-1") for step in plan["steps"] if step["action"] == "send")
    assert said == b"/cgi-bin/search\ttwo words\r\n"
    assert plan["verdict"] == "warn"
    trace = tmp_path / "trace"
    assert resolve("cat", "-q", "--trace", str(trace), url).status == 0
    assert "two words" in trace.read_text()


@pytest.mark.parametrize("target", ["http://www.example.org/page", "http://www.example.org/"])
def test_a_link_is_shown_and_not_followed(server: GopherServer, target: str, tmp_path: Path) -> None:
    url = server.url(f"hURL:{target}")
    assert resolve("cat", "-q", url).out.decode() == f"{target}\n"
    done = resolve("get", url, folder=tmp_path)
    assert (done.status, list(tmp_path.iterdir())) == (15, [])


@pytest.mark.parametrize("verb", ["get", "cat", "ls", "info"])
def test_what_is_not_there_is_8(pygopherd: GopherServer, verb: str, tmp_path: Path) -> None:
    done = resolve(verb, pygopherd.url("1/nope"), folder=tmp_path)
    assert (done.status, done.out, list(tmp_path.iterdir())) == (8, b"", [])
    assert b"does not exist" in done.err


def test_a_policy_that_refuses_makes_no_connection(gophernicus: GopherServer) -> None:
    done = resolve("cat", "--policy", "cautious", gophernicus.url("0/about.txt"))
    assert (done.status, done.out) == (9, b"")
    assert b"S04" in done.err
    allowed = ["--allow-port", str(gophernicus.port)]
    done = resolve("cat", "--policy", "cautious", *allowed, gophernicus.url("0/about.txt"))
    assert (done.status, done.err) == (0, b"")


def test_tls_needs_an_authority(pygopherd: GopherServer) -> None:
    url = pygopherd.url("9/octets.bin%09%09+", "gophers")
    assert resolve("cat", url).status == 5
    done = resolve("cat", "-q", "--cacert", str(pygopherd.authority), url)
    assert (done.status, done.out) == (0, OCTETS)


def test_urls_that_fail_alike_share_a_status_and_others_give_1(pygopherd: GopherServer) -> None:
    missing, refused = pygopherd.url("0/nope"), "gopher://127.0.0.1:25/0a"
    assert resolve("cat", missing, pygopherd.url("0/about.txt"), missing).status == 8
    assert resolve("cat", missing, refused).status == 1
