"""What a URL may be named by, and what is said where it is not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import trio

import resolver
from fixtures.http import ABOUT, serve
from resolver import Resolver
from resolver.url.parsing import UrlLike, url_of
from tests.fresh import environment


class AFile:
    """A path that is none of pathlib's."""

    def __init__(self, path: str | bytes) -> None:
        self._path = path

    def __fspath__(self) -> str | bytes:
        return self._path


class Own(httpx.URL):
    """What somebody made of httpx's."""


@pytest.mark.parametrize("made", [str, httpx.URL, resolver.parse, Own])
async def test_every_way_to_name_it_is_the_same_url(
    made: Callable[[str], UrlLike], nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery)
    url = made(server.url("/about.txt?a%2Fb"))
    shown = server.url("/about.txt?a%2Fb")
    async with Resolver() as session:
        assert (await session.fetch(url)).requested_url == shown
        assert (await session.info(url)).url == shown
        saved = await session.save(server.url("/missing"), tmp_path / "file", mirrors=[url])
    assert (saved.mirror, (tmp_path / "file").read_bytes()) == (shown, ABOUT)
    assert (await resolver.fetch(url)).content == ABOUT
    async with resolver.stream(url) as reply:
        assert reply.requested_url == shown


@pytest.mark.parametrize("name", ["a", "a b%41;type=a?#é", os.fsdecode(b"\xff")])
@pytest.mark.parametrize("made", [Path, AFile, lambda path: AFile(os.fsencode(path))])
async def test_a_path_is_a_file_of_this_machine(
    name: str, made: Callable[[str], os.PathLike[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_bytes(b"here")
    monkeypatch.chdir(tmp_path)
    for path in (str(tmp_path / name), name, f"../{tmp_path.name}/{name}"):
        assert (await resolver.fetch(made(path))).content == b"here"


async def test_a_path_is_judged_as_any_url(tmp_path: Path) -> None:
    with pytest.raises(resolver.Refused, match="S12"):
        await resolver.fetch(tmp_path, policy=resolver.Policy.untrusted())


@pytest.mark.parametrize("wrong", [b"http://h.example/", None, 7, urlsplit("http://h.example/"), ["http:"]])
def test_what_names_none_is_told_in_words(wrong: UrlLike) -> None:
    with pytest.raises(TypeError, match=rf"^a URL .* {type(wrong).__name__!r}$"):
        url_of(wrong)


def test_strict_holds_for_text_of_either_kind() -> None:
    assert url_of("HTTP://h.example/").findings == ()
    for text in ("http://h.example/{", httpx.URL("http://h.example/")):
        url_of(text)
    with pytest.raises(resolver.InvalidUrl):
        url_of("http://h.example/{", strict=True)


def test_httpx_is_not_imported_to_tell() -> None:
    use = "from resolver.url.parsing import url_of; url_of('http://h/')"
    code = f"import sys; {use}; assert 'httpx' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())
