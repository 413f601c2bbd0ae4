"""The code and the body that a server sends with a refusal, on the error that is raised."""

from __future__ import annotations

import gzip
import os
import pickle
from collections.abc import AsyncIterable
from pathlib import Path

import pytest
import trio

import fixtures.ftp
import resolver
from fixtures.http import EXAMPLE, Behavior, Page, serve
from fixtures.http.digest import Guard
from resolver import (
    AccessDenied,
    Declined,
    Limits,
    LoginRequired,
    NotFound,
    Options,
    Policy,
    Refused,
    ResolveError,
    Resolver,
    RetryPolicy,
    TryLater,
    blocking,
)
from resolver.transfer import limits
from tests.hang import HANG, NEVER

REASON = b'{"error": "no item 7"}'
SITE = {
    **EXAMPLE,
    "/json": Page(REASON, "application/json", status=404, reason="Not Found"),
    "/chunked": Page(REASON, status=404, reason="Not Found", framing="chunked"),
    "/close": Page(REASON, status=404, reason="Not Found", framing="close"),
    "/coded": Page(
        gzip.compress(REASON, mtime=0),
        status=404,
        reason="Not Found",
        headers=(("Content-Encoding", "gzip"),),
    ),
    "/unknown": Page(REASON, status=404, reason="Not Found", headers=(("Content-Encoding", "x-no"),)),
    "/none": Page(status=404, reason="Not Found"),
    "/denied": Page(b"no", status=403, reason="Forbidden"),
    "/to-json": Page(status=302, reason="Found", headers=(("Location", "/json"),)),
}


async def refusal(session: Resolver, url: str) -> ResolveError:
    with pytest.raises(ResolveError) as caught:
        await session.fetch(url)
    return caught.value


@pytest.mark.parametrize(
    ("path", "kind", "status", "body"),
    [
        ("/json", NotFound, 404, REASON),
        ("/chunked", NotFound, 404, REASON),
        ("/close", NotFound, 404, REASON),
        ("/coded", NotFound, 404, REASON),
        ("/unknown", NotFound, 404, b""),
        ("/none", NotFound, 404, b""),
        ("/denied", AccessDenied, 403, b"no"),
        ("/private", LoginRequired, 401, b"Who are you?\n"),
        ("/gone/long", TryLater, 503, b"x" * 65_536),
        ("/to-json", NotFound, 404, REASON),
    ],
)
async def test_http_error_has_status_and_body(
    path: str, kind: type[ResolveError], status: int, body: bytes, nursery: trio.Nursery
) -> None:
    server = await serve(nursery, SITE)
    async with Resolver() as session:
        error = await refusal(session, server.url(path))
    assert (type(error), error.status, error.body) == (kind, status, body)
    assert server.violations == []


async def test_rejected_digest_login_has_error_body(nursery: trio.Nursery) -> None:
    server = await serve(nursery, {"/x": Page(b"", guard=Guard())})
    url = server.url("/x").replace("http://", "http://alice:wrong@")
    async with Resolver(policy=Policy(allow_password=True)) as session:
        errors = [await refusal(session, url) for _ in range(2)]
    for error in errors:
        assert (type(error), error.status, error.body) == (AccessDenied, 401, b"Prove it.\n")
        assert "to this name and password" in error.message
    sent = [value[:6] for request in server.requests for value in request.values("authorization")]
    assert sent == ["Basic ", "Digest"]
    assert server.violations == []


async def test_save_stream_and_entries_have_error_body(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, SITE)
    url, bodies = server.url("/json"), []
    async with Resolver() as session:
        for call in (
            session.save(url, str(tmp_path / "x")),
            open_stream(session, url),
            list_all(session, url),
        ):
            with pytest.raises(NotFound) as caught:
                await call
            bodies.append(caught.value.body)
    assert bodies == [REASON] * 3
    assert (os.listdir(tmp_path), server.connections) == ([], 1)


async def open_stream(session: Resolver, url: str) -> None:
    async with session.stream(url):
        raise AssertionError("a refusal was opened")


async def list_all(session: Resolver, url: str) -> None:
    async with session.entries(url):
        raise AssertionError("a refusal was opened")


async def test_info_error_has_no_body(nursery: trio.Nursery) -> None:
    server = await serve(nursery, SITE)
    with pytest.raises(NotFound) as caught:
        await resolver.info(server.url("/json"))
    assert (caught.value.status, caught.value.body) == (404, b"")
    assert [request.method for request in server.requests] == ["HEAD"]


@pytest.mark.parametrize(
    "behavior",
    [Behavior(length_off=5), Behavior(cut_at=-3), Behavior(reset_at=-3), Behavior(length_off=5, stays=True)],
)
async def test_interrupted_error_body_keeps_status(
    behavior: Behavior, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_ERROR_BODY_SECONDS", 0.05)
    server = await serve(nursery, SITE, behaviors={"/json": behavior})
    async with Resolver(limits=Limits(idle=NEVER), patience=RetryPolicy(tries=3, delay=0.01)) as session:
        with trio.fail_after(HANG):
            error = await refusal(session, server.url("/json"))
            after = await session.fetch(server.url("/about.txt"))
    assert (type(error), error.status, error.attempts, len(after.content)) == (NotFound, 404, 1, 37)
    assert error.body == (REASON if behavior.length_off else REASON[:-3])


async def test_error_body_is_in_no_message(nursery: trio.Nursery) -> None:
    server = await serve(nursery, SITE)
    async with Resolver() as session:
        error = await refusal(session, server.url("/json"))
        outcomes = [item async for item in session.save_all([server.url("/json")])]
    again = pickle.loads(pickle.dumps(error))
    assert (again.status, again.body) == (404, REASON)
    assert "item 7" not in f"{error} {error!r} {outcomes[0].as_json()}"


async def test_refusals_option_returns_whole_body(nursery: trio.Nursery) -> None:
    server = await serve(nursery, SITE)
    pieces: list[bytes] = []
    async with resolver.stream(server.url("/gone/long"), options=Options(refusals=True)) as reply:
        assert isinstance(reply.failure, TryLater)
        with pytest.raises(TryLater):
            await collect(reply.body, pieces)
    assert b"".join(pieces) == b"x" * 200_000


async def collect(body: AsyncIterable[bytes], pieces: list[bytes]) -> None:
    async for octets in body:
        pieces.append(octets)


async def test_ftp_error_has_status_without_body(nursery: trio.Nursery) -> None:
    server = await fixtures.ftp.serve(nursery)
    async with Resolver() as session:
        error = await refusal(session, f"ftp://127.0.0.1:{server.port}/pub/none.txt")
    assert (type(error), error.status, error.body) == (NotFound, 550, b"")


async def test_blocking_error_has_status_and_body(nursery: trio.Nursery) -> None:
    server = await serve(nursery, SITE)
    with pytest.raises(NotFound) as caught:
        await trio.to_thread.run_sync(blocking.fetch, server.url("/json"))
    assert (caught.value.status, caught.value.body) == (404, REASON)


@pytest.mark.parametrize("code", [None, "", "HOST-TYPE", "D1", "-1", "\u0664", "5" * 10, "5" * 60_000])
def test_error_without_number_has_no_status(code: str | None) -> None:
    assert Declined("no", code=code).status is None
    assert Refused("S04", "no").status is None
