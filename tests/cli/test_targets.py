"""Where URLs come from: the command line, lists of lines, lists of JSON objects."""

from pathlib import Path

import pytest

from protocols.errors import LocalError, NotConfigured
from resolver.cli.arguments import Command, read
from resolver.cli.targets import Target, status_of, targets


def command(*argv: str) -> Command:
    found = read(list(argv))
    assert found is not None
    return found


def listed(tmp_path: Path, content: bytes, *argv: str) -> list[Target]:
    source = tmp_path / "list"
    source.write_bytes(content)
    return list(targets(command("cat", *argv, "-i", str(source))))


def test_command_line_comes_first(tmp_path: Path) -> None:
    urls = [target.url for target in listed(tmp_path, b"gopher://b.example/\n", "gopher://a.example/")]
    assert urls == ["gopher://a.example/", "gopher://b.example/"]


@pytest.mark.parametrize(
    ("content", "urls"),
    [
        (b"http://a/\n\n# no\nhttp://b/", ["http://a/", "http://b/"]),
        (b"http://a/\r\n", ["http://a/"]),
        (b" http://a/ \n", [" http://a/ "]),  # nothing is trimmed: the parser will say what is wrong
        (b"   \n\t\n", []),
        (b"http://a/\xff\n", ["http://a/\udcff"]),
        (b'{"url": "http://a/\\u000a"}\n', ["http://a/\n"]),  # any octet can be given
    ],
)
def test_lines_of_a_list(tmp_path: Path, content: bytes, urls: list[str]) -> None:
    assert [target.url for target in listed(tmp_path, content)] == urls


def test_json_objects_carry_origin_and_referrer(tmp_path: Path) -> None:
    content = (
        b'{"url": "file:///a", "origin": "derived", "referrer": ["file:///", "127.0.0.1"]}\n'
        b'{"url": "file:///b", "origin": null, "referrer": null}\n'
        b'{"url": "file:///c", "referrer": "http://x/"}\n'
    )
    first, second, third = listed(tmp_path, content, "--origin", "chosen", "--referrer", "http://r/")
    assert first == Target("file:///a", "derived", ("file:///", "127.0.0.1"))
    assert second == Target("file:///b", "chosen", ("http://r/", None))
    assert third == Target("file:///c", "chosen", ("http://x/", None))


@pytest.mark.parametrize(
    "line",
    [b"{", b"{}", b'{"url": 1}', b'{"url": "x:", "origin": "me"}', b'{"url": "x:", "referrer": 7}'],
)
def test_what_is_no_target_says_where(tmp_path: Path, line: bytes) -> None:
    with pytest.raises(LocalError, match="line 2"):
        listed(tmp_path, b"http://a/\n" + line)


def test_list_that_is_not_there() -> None:
    with pytest.raises(LocalError, match="cannot read"):
        list(targets(command("cat", "-i", "/nonexistent/list")))


def test_search_goes_into_a_gopher_url() -> None:
    found = command("cat", "--search", "two words", "gopher://h.example/7srch")
    assert next(targets(found)).parsed(found).text == "gopher://h.example/7srch%09two%20words"


def test_option_that_means_nothing_to_the_scheme() -> None:
    found = command("cat", "--search", "x", "file:///etc/motd")
    with pytest.raises(NotConfigured, match="--search means nothing to a file URL"):
        next(targets(found)).parsed(found)


@pytest.mark.parametrize(
    ("statuses", "status"),
    [([], 0), ([0, 0], 0), ([8], 8), ([0, 8, 8], 8), ([8, 9], 1), ([1, 0], 1)],
)
def test_status_of_a_run(statuses: list[int], status: int) -> None:
    assert status_of(statuses) == status
