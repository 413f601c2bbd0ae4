"""`--raw`: `cat` and `get` give the octets as the server sent them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from resolver import Event, Options, Policy, Received, Resolver
from tests.cli.command import resolve

#: Something of each scheme that has to undo something, or makes a listing of its own.
URLS = (
    "{ftp}/pub",
    "{ftp}/pub/a.txt;type=a",
    "{gopher}/",
    "{gopher}/1/with%20space",
    "{gopher}/00/about",
    "{gopher}/00/story%09%09+",
    "{gopher}/00/story%09%09!",
    "{gopher}/00/poll%09%09?",
    "{gopher}/77/find%09a",
    "{http}/about.txt",
    "{nntp}/comp.misc",
    "{nntp}/comp.misc/1235",
    "{news}/",
    "{wais}/demo?ferry",
)


@pytest.mark.parametrize("url", URLS)
async def test_every_octet_came_from_the_server(url: str, at: dict[str, str]) -> None:
    received: list[bytes] = []

    def watch(event: Event) -> None:
        if isinstance(event, Received):
            received.append(event.octets)

    policy = Policy(allow_port=frozenset(range(1, 65_536)))
    async with Resolver(policy=policy, options=Options(raw=True), on_event=watch) as session:
        response = await session.fetch(url.format_map(at))
    assert response.content
    for piece in response.content.split(b"\r\n.\r\n"):  # a list of groups is two blocks
        assert piece in b"".join(received)
    if url.startswith("{gopher}"):
        assert response.content == b"".join(received)


@pytest.mark.parametrize("url", [*URLS, "{prospero}//example"])
def test_cat_and_get_agree(url: str, at: dict[str, str], folder: Path) -> None:
    given = url.format_map(at)
    shown = resolve("cat", "-q", "--raw", given)
    assert (shown.status, shown.err) == (0, b"")
    assert resolve("get", "-q", "--raw", "-O", "x", given).status == 0
    assert (folder / "x").read_bytes() == shown.out


@pytest.mark.parametrize(
    ("url", "ending"),
    [("{gopher}/", b"\r\n.\r\n"), ("{nntp}/comp.misc", b"\r\n.\r\n"), ("{ftp}/pub", b"\r\n")],
)
def test_a_listing_is_as_it_came(url: str, ending: bytes, at: dict[str, str], folder: Path) -> None:
    given = url.format_map(at)
    octets = resolve("cat", "-q", "--raw", given).out
    lines = resolve("ls", "-q", "--raw", given).out  # what has entries has them
    assert octets.endswith(ending)
    assert lines == resolve("ls", "-q", given).out != octets


def test_a_menu_is_saved_under_its_name(at: dict[str, str], folder: Path) -> None:
    """Its octets were asked for, and not what it lists."""
    assert resolve("get", "-q", "--raw", f"{at['ftp']}/pub").status == 0
    assert os.listdir(folder) == ["pub"]


def test_links_of_prospero_are_as_they_came(at: dict[str, str]) -> None:
    given = f"{at['prospero']}//example"
    lines = resolve("cat", "-q", "--raw", given).out.splitlines()
    entries = resolve("ls", "-q", "--json", given).records
    assert lines == [entry["raw"].encode("latin-1") for entry in entries]
    assert all(line.startswith(b"LINK ") for line in lines)


def test_a_coding_stays(at: dict[str, str], folder: Path) -> None:
    done = resolve("cat", "-q", "--raw", "--trace", "trace", f"{at['http']}/twice")
    assert (done.status, done.out[:2]) == (0, b"\x1f\x8b")
    assert r"Accept-Encoding: identity\r\n" in (folder / "trace").read_text()


def test_a_plan_says_what_would_be_sent(at: dict[str, str]) -> None:
    plan = resolve("explain", "--raw", "http://h.example/").out
    assert b"Accept-Encoding: identity" in plan
