"""The public types, as a caller's type checker sees them: mypy checks this file, and pytest runs it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeVar, Unpack, assert_type

import httpx
import pytest

import resolver
from resolver import Url
from resolver.url.registry import SCHEMES

U = TypeVar("U", bound=resolver.Url)


def parse_as(kind: type[U], text: str) -> U:
    url = resolver.parse(text)
    assert isinstance(url, kind)
    return url


def host_of(text: str) -> str | None:
    url = resolver.parse(text)
    assert_type(url, resolver.Url)
    if isinstance(url, resolver.HostUrl):
        assert_type(url.host, str)
        assert_type(url.effective_port, int)
        return url.host
    if isinstance(url, resolver.NewsUrl | resolver.FileUrl):
        assert_type(url.host, str | None)
        return url.host
    return None


def test_url_classes_have_typed_components() -> None:
    assert assert_type(parse_as(resolver.HttpUrl, "https://h.example/a?b").search, str | None) == "b"
    assert assert_type(parse_as(resolver.FtpUrl, "ftp://h.example/c/a").cwds, tuple[bytes, ...]) == (b"c",)
    assert assert_type(parse_as(resolver.GopherUrl, "gopher://h.example/0s").selector, bytes) == b"s"
    assert assert_type(parse_as(resolver.NewsUrl, "news:comp.misc").group, bytes | None) == b"comp.misc"
    assert assert_type(parse_as(resolver.NntpUrl, "nntp://h.example/g/1").article, int | None) == 1
    assert assert_type(parse_as(resolver.WaisUrl, "wais://h.example/d").database, bytes) == b"d"
    assert assert_type(parse_as(resolver.ProsperoUrl, "prospero://h.example/o").hsoname, bytes) == b"o"
    assert assert_type(parse_as(resolver.TelnetUrl, "telnet://u@h.example").user, bytes | None) == b"u"
    assert assert_type(parse_as(resolver.FileUrl, "file:///a").segments, tuple[bytes, ...]) == (b"a",)
    assert assert_type(parse_as(resolver.MailtoUrl, "mailto:a@h.example").addr_spec, bytes) == b"a@h.example"
    assert assert_type(parse_as(resolver.OtherUrl, "x-y:z").schemepart, str) == "z"
    assert [host_of(text) for text in ("ftp://h.example/", "news://n.example/g", "x-y:z")] == [
        "h.example",
        "n.example",
        None,
    ]


def test_url_classes_are_public() -> None:
    """The classes of the scheme definitions are all classes that `parse` returns."""
    bodies = {"mailto": "a@h.example", "news": "g", "snews": "g", "file": "///a"}
    given = {type(resolver.parse(f"{name}:{bodies.get(name, '//h.example/g')}")) for name in SCHEMES}
    given |= {resolver.OtherUrl, resolver.HostUrl, Url}
    kinds = (getattr(resolver, name) for name in resolver.__all__ if name.endswith("Url"))
    assert {kind for kind in kinds if issubclass(kind, Url)} == given


def listen(event: resolver.Event) -> None:
    if isinstance(event, resolver.Received):
        assert_type(event.octets, bytes)


async def fetch_wrapped(url: str, **settings: Unpack[resolver.Settings]) -> resolver.Response:
    """Fetch a URL: a caller's function with the parameters of `fetch`."""
    return await resolver.fetch(url, **settings)


def stream(
    url: str | Path | httpx.URL | resolver.Url,
) -> AbstractAsyncContextManager[resolver.StreamingResponse]:
    return resolver.stream(url)


async def test_response_has_typed_fields(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"a": [1]}')
    response = await fetch_wrapped((tmp_path / "a").as_uri(), on_event=listen)
    assert_type(response.status, int | None)
    assert "x" not in response.headers
    assert_type(response.headers.get("x", "y"), str | None)
    assert_type(response.headers.get_list("x"), list[str])
    assert response.json()["a"] == [1]
    async with stream(tmp_path / "a") as reply:
        assert_type(reply.status, int | None)


def test_version_is_text() -> None:
    assert assert_type(resolver.__version__, str).count(".") == 2


def test_stream_of_bytes_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        resolver.stream(b"http://h.example/")  # type: ignore[arg-type]
