"""Invalid arguments: nothing is fetched, and the message suggests the closest URL."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
import trio

from fixtures.http import serve
from resolver import parse
from resolver.cli.hints import suggest_url
from resolver.url.registry import RESERVED, SCHEMES
from tests.resolver.cli.command import Done, resolve

#: Texts, and the URL that the message suggests for each.
MEANT = {
    "example.com": "http://example.com/",
    "example.com/a?b#c": "http://example.com/a?b#c",
    "www.h.example:8080/a b": "http://www.h.example:8080/a%20b",
    "ftp.h.example": "ftp://ftp.h.example/",
    "gopher.h.example/1/x": "gopher://gopher.h.example/1/x",
    "localhost": "http://localhost/",
    "localhost:8900/x": "http://localhost:8900/x",
    "server:8080": "http://server:8080/",
    "127.0.0.1:80/x": "http://127.0.0.1:80/x",
    "[::1]:80/": "http://[::1]:80/",
    "//h.example/x": "http://h.example/x",
    "/etc/hostname": "file:///etc/hostname",
    "me@h.example": "mailto:me@h.example",
    "htp://h.example/a": "http://h.example/a",
    "htps:/h.example/": "https://h.example/",
    "nttp://h.example/a.b": "nntp://h.example/a.b",
    "gohper://h.example/1": "gopher://h.example/1",
    "fiel:///etc": "file:///etc",
    "http:/h.example/x": "http://h.example/x",
    "http:h.example": "http://h.example",
    "https//h.example/x": "https://h.example/x",
    "http://h.example/a b": "http://h.example/a%20b",
    " http://h.example/ ": "http://h.example/",
    "http://h.example/50%": "http://h.example/50%25",
    'http://h.example/a"b': "http://h.example/a%22b",
    "http://bücher.example/é": "http://xn--bcher-kva.example/%C3%A9",
    "bücher.example": "http://xn--bcher-kva.example/",
    "http://me:se cret@h.example/": "http://me:****@h.example/",
}

#: Texts without a suggestion, unsupported schemes among them.
NOTHING = (
    *(
        "",
        " ",
        "%",
        "foo",
        "a b",
        "\udcff",
        "\x1b[31m",
        "javascript:alert(1)",
        "data:text/plain,x",
        "ws://h/",
    ),
    *("sftp://h.example/x", "tftp://h.example/x", "irc://h/x", "urn:isbn:1", "tel:5551234", "x-foo:bar"),
    *("http://", "http:///", "ftp://h/;type=x", "h.example:99999/", "a" * 70_000, "h.example/" + "a" * 300),
)


@pytest.mark.parametrize("text", MEANT, ids=ascii)
def test_invalid_url_suggests_closest_url(text: str, folder: Path) -> None:
    """Every command prints the suggestion and contacts no server: these names do not exist."""
    meant = MEANT[text]
    assert suggest_url(text) == meant
    assert parse(meant).scheme in SCHEMES
    for verb in ("cat", "get", "ls", "info", "explain", "parse"):
        strict = [] if text.isascii() else ["--strict"]
        done = resolve(verb, *strict, text)
        if verb == "parse" and done.status == 0:  # the grammar accepts the text as a URL
            continue
        assert done.status in (12, 13), (verb, done)
        assert done.messages.endswith(f"did you mean {meant} ?\n")
        assert "secret" not in done.messages + done.out.decode()
    assert os.listdir(folder) == []


@pytest.mark.parametrize("text", NOTHING, ids=lambda text: ascii(text[:20]))
def test_unrelated_text_has_no_suggestion(text: str) -> None:
    assert suggest_url(text) is None


@pytest.mark.parametrize("text", [text for text in MEANT if ":" not in text])
def test_url_without_scheme_is_usage_error(text: str, folder: Path) -> None:
    done = resolve(text)
    assert (done.status, done.out, os.listdir(folder)) == (2, b"", [])
    assert done.messages.endswith(f"nothing was fetched; did you mean {MEANT[text]} ?\n")


def gateway_proposed(scheme: str) -> bool:
    done = resolve("cat", f"{scheme}:a")
    assert done.status == 13
    return f"--gateway {scheme}=URL" in done.messages


def test_unknown_scheme_names_the_command_that_lists_schemes(folder: Path) -> None:
    done = resolve("sftp://h.example/x")
    assert done.status == 13
    assert "  resolve schemes lists the supported schemes\n" in done.messages
    assert "resolve schemes" not in resolve("x-foo:bar").messages  # the message names --gateway


def test_gateway_is_suggested_for_reserved_schemes() -> None:
    for scheme in (*RESERVED, "x-foo"):
        assert gateway_proposed(scheme), scheme
    for scheme in ("localhost", "htp", "javascript", "foo+bar"):
        assert not gateway_proposed(scheme), scheme


def test_non_ascii_url_is_converted_and_reported(at: dict[str, str], folder: Path) -> None:
    target = f"{at['named']}/é"
    url = f"{at['named']}/%C3%A9"
    text = f"resolve: {target}: requested as {url}\n"
    done = resolve("cat", "--trace", "trace", target)
    assert (done.status, done.messages) == (0, text)
    assert "GET /%C3%A9 " in (folder / "trace").read_text()
    assert resolve("cat", "-q", target) == done._replace(err=b"")
    assert resolve("explain", target).messages == text
    listed = resolve("cat", "-i", "-", stdin=f"{target}\n".encode())
    assert (listed.out, listed.messages) == (done.out, text)
    (outcome,) = resolve("get", "-q", "--json", target).records
    assert (outcome["url"], outcome["path"]) == (url, "é")


@pytest.mark.parametrize("options", [["--strict"], ["--origin", "chosen"], ["--origin", "derived"]])
def test_non_ascii_url_is_refused_if_strict_or_not_from_user(
    options: list[str], at: dict[str, str], folder: Path
) -> None:
    done = resolve("cat", *options, "--trace", "trace", f"{at['named']}/é")
    assert (done.status, done.out) == (12, b"")
    assert "C: " not in (folder / "trace").read_text()


def test_parse_reports_non_ascii_position() -> None:
    (record,) = resolve("parse", "--json", "http://h.example/é").records
    assert (record["error"], record["position"]) == ("non-ascii", 17)


async def test_invalid_argument_before_url_fetches_nothing(nursery: trio.Nursery, tmp_path: Path) -> None:
    """`get` of the URL after it would write a file although the user asked for another command."""
    server = await serve(nursery)

    async def run(*words: str) -> Done:
        return await trio.to_thread.run_sync(partial(resolve, *words, folder=tmp_path))

    for word in ("gte", "GET", "example.com", "127.0.0.1", "x", ".", "/etc/hostname", "é", "ls,"):
        done = await run(word, server.url("/data"))
        assert (done.status, done.out) == (2, b"")
        assert b"nothing was fetched" in done.err
    for words, meant in ((["gte"], "; did you mean get?\n"), (["-q", "nonsense"], "nothing was fetched\n")):
        assert (await run(*words, server.url("/data"))).messages.endswith(meant)
    for options in (["--nonsense"], ["--quite"], ["-X"], ["--tries"], ["--exists", "maybe"]):
        assert (await run(server.url("/data"), *options)).status == 2
    assert (server.connections, os.listdir(tmp_path)) == (0, [])


def test_no_arguments_prints_ten_lines_of_help(folder: Path) -> None:
    done = resolve()
    assert (done.status, done.out) == (2, b"")
    lines = done.messages.splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("resolve: ")
    assert max(map(len, lines)) <= 80
    for word in ("cat", "ls", "explain", "-O", "help"):
        assert any(f"resolve {word}" in line for line in lines)
