"""Sources of URLs: the command line, lists of lines, and lists of JSON objects."""

from pathlib import Path

import pytest

from resolver import LocalError, NotConfigured, ResolveError
from resolver.cli.arguments import Command, read
from resolver.cli.targets import CommandTarget, targets


def command(*argv: str) -> Command:
    command = read(list(argv))
    assert command is not None
    return command


def _no_fault(error: ResolveError) -> None:
    raise error


def list_targets(tmp_path: Path, content: bytes, *argv: str) -> list[CommandTarget]:
    source = tmp_path / "list"
    source.write_bytes(content)
    return list(targets(command("cat", *argv, "-i", str(source)), _no_fault))


def test_command_line_comes_first(tmp_path: Path) -> None:
    urls = [target.url for target in list_targets(tmp_path, b"gopher://b.example/\n", "gopher://a.example/")]
    assert urls == ["gopher://a.example/", "gopher://b.example/"]


@pytest.mark.parametrize(
    ("content", "urls"),
    [
        (b"http://a/\n\n# no\nhttp://b/", ["http://a/", "http://b/"]),
        (b"http://a/\r\n", ["http://a/"]),
        (b" http://a/ \n", [" http://a/ "]),  # no trimming: the parser reports the error
        (b"   \n\t\n", []),
        (b"\xef\xbb\xbfhttp://a/\r\n", ["http://a/"]),
        (b"\xef\xbb\xbf# no\nhttp://a/\n", ["http://a/"]),
        (b'\xef\xbb\xbf{"url": "http://a/"}\n', ["http://a/"]),
        (b"http://a/\xff\n", ["http://a/\udcff"]),
        (b'{"url": "http://a/\\u000a"}\n', ["http://a/\n"]),  # an object can contain any byte
    ],
)
def test_list_lines_become_targets(tmp_path: Path, content: bytes, urls: list[str]) -> None:
    assert [target.url for target in list_targets(tmp_path, content)] == urls


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_list_in_utf16_is_an_error(tmp_path: Path, encoding: str) -> None:
    with pytest.raises(LocalError, match="UTF-16"):
        list_targets(tmp_path, "\ufeffhttp://a/\n".encode(encoding))


def test_json_objects_carry_origin_and_referrer(tmp_path: Path) -> None:
    content = (
        b'{"url": "file:///a", "origin": "derived", "referrer": ["file:///", "127.0.0.1"]}\n'
        b'{"url": "file:///b", "origin": null, "referrer": null}\n'
        b'{"url": "file:///c", "referrer": "http://x/"}\n'
    )
    first, second, third = list_targets(tmp_path, content, "--origin", "chosen", "--referrer", "http://r/")
    assert first == CommandTarget("file:///a", "derived", ("file:///", "127.0.0.1"))
    assert second == CommandTarget("file:///b", "chosen", ("http://r/", None))
    assert third == CommandTarget("file:///c", "chosen", ("http://x/", None))


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"{}",
        b'{"url": 1}',
        b'{"url": "x:"} and more',
        b'{"url": "x:", "n": ' + b"[" * 100_000,  # nested more deeply than any valid object
        b'{"url": "x:", "n": ' + b"9" * 5_000 + b"}",
        b'{"url": "x:", "origin": "me"}',
        b'{"url": "x:", "origin": ""}',
        b'{"url": "x:", "origin": []}',
        b'{"url": "x:", "referrer": 7}',
        b'{"url": "x:", "referrer": []}',
    ],
)
def test_invalid_list_line_is_reported_and_skipped(tmp_path: Path, line: bytes) -> None:
    source = tmp_path / "list"
    source.write_bytes(b"http://a/\n" + line + b"\nhttp://b/\n")
    messages: list[ResolveError] = []
    urls = [target.url for target in targets(command("cat", "-i", str(source)), messages.append)]
    assert urls == ["http://a/", "http://b/"]
    assert [f"{source}, line 2: " in error.message for error in messages] == [True]


def test_entry_without_url_is_skipped(tmp_path: Path) -> None:
    listing = b'{"name": "prose", "url": null, "kind": "info"}\n{"name": "a", "url": "http://a/"}\n'
    assert [target.url for target in list_targets(tmp_path, listing)] == ["http://a/"]


def test_output_file_accepts_single_url(tmp_path: Path) -> None:
    source = tmp_path / "list"
    source.write_bytes(b"http://a/\nhttp://b/\n")
    targets_ = targets(command("-O", "file", "-i", str(source)), _no_fault)
    assert next(targets_).url == "http://a/"
    with pytest.raises(NotConfigured, match="-O FILE"):
        next(targets_)


def test_missing_list_raises_local_error() -> None:
    with pytest.raises(LocalError, match="cannot read"):
        list(targets(command("cat", "-i", "/nonexistent/list"), _no_fault))


def test_search_option_is_added_to_gopher_url() -> None:
    options = command("cat", "--search", "two words", "gopher://h.example/7srch")
    assert next(targets(options, _no_fault)).parse(options).text == "gopher://h.example/7srch%09two%20words"


def test_unsupported_option_raises_not_configured() -> None:
    options = command("cat", "--search", "x", "file:///etc/motd")
    with pytest.raises(NotConfigured, match=r"--search .*file URL"):
        next(targets(options, _no_fault)).parse(options)
