"""Digest end to end, against a server that takes nothing but a proof."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import resolver
from fixtures.http import Page, serve
from fixtures.http.digest import Guard
from resolver import AccessDenied, Credentials, Declined, LoginRequired, ResolveError

ALICE = Credentials(b"alice", b"wonder land")


def site(guard: Guard) -> dict[str, Page]:
    return {f"/{name}": Page(f"{name}\n".encode(), guard=guard) for name in ("a", "b", "c", "d")}


async def fetched(guard: Guard, *paths: str, login: Credentials = ALICE) -> tuple[list[bytes], list[str]]:
    """The bodies of one run, and which of its requests proved anything."""
    bodies, failed = [], None
    async with trio.open_nursery() as nursery:
        server = await serve(nursery, site=site(guard))
        given = {("http", "127.0.0.1", server.port): login}
        async with resolver.Resolver(credentials=given) as session:
            try:
                bodies = [(await session.fetch(server.url(path))).content for path in paths]
            except ResolveError as error:
                failed = error
        nursery.cancel_scope.cancel()
    if failed is not None:
        raise failed
    said = ["".join(request.values("authorization")).partition(" ")[0] for request in server.requests]
    assert server.violations == []
    return bodies, said


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"algorithm": "MD5"},
        {"algorithm": None},
        {"algorithm": None, "qop": None},
        {"algorithm": "MD5-sess"},
        {"algorithm": "SHA-256-sess"},
        {"qop": "auth-int, auth"},
        {
            "extra": (
                "Newauth t='a', Basic realm=x",
                'Digest realm="lab", nonce="x", algorithm=MD5, qop="auth"',
            )
        },
        {"renews": True},
    ],
)
async def test_one_challenge_and_then_unasked(wanted: dict[str, Any]) -> None:
    guard = Guard(**wanted)
    bodies, said = await fetched(guard, "/a", "/b", "/c?x=1&y")
    assert bodies == [b"a\n", b"b\n", b"c\n"]
    assert guard.refused == []
    assert said[-3:] == ["Digest"] * 3
    assert len(said) == 4


async def test_a_nonce_that_grew_old_in_the_middle_of_a_list() -> None:
    guard = Guard(uses=2)
    bodies, said = await fetched(guard, "/a", "/b", "/c", "/d", "/a")
    assert bodies == [b"a\n", b"b\n", b"c\n", b"d\n", b"a\n"]
    assert said == ["Basic", *["Digest"] * 7]  # two more 401, for the third and the fifth


async def test_a_nonce_that_is_always_old_is_not_tried_for_ever() -> None:
    with pytest.raises(AccessDenied):
        await fetched(guard := Guard(uses=0), "/a")
    assert guard.refused == []


async def test_a_wrong_password_is_sent_once_in_a_run() -> None:
    guard = Guard()
    async with trio.open_nursery() as nursery:
        server = await serve(nursery, site=site(guard))
        wrong = {("http", "127.0.0.1", server.port): Credentials(b"alice", b"no")}
        async with resolver.Resolver(credentials=wrong) as session:
            for path in ("/a", "/b"):
                with pytest.raises(AccessDenied) as caught:
                    await session.fetch(server.url(path))
                assert caught.value.exit_code == 6
        proofs = [
            request for request in server.requests if "Digest" in "".join(request.values("authorization"))
        ]
        assert len(proofs) == 1
        assert server.requests[-1].path == "/b"
        assert server.requests[-1].values("authorization") == []  # nor by Basic, which shows it
        nursery.cancel_scope.cancel()


async def test_without_a_login_it_is_asked_for() -> None:
    async with trio.open_nursery() as nursery:
        server = await serve(nursery, site=site(Guard()))
        with pytest.raises(LoginRequired):
            await resolver.fetch(server.url("/a"))
        assert len(server.requests) == 1
        nursery.cancel_scope.cancel()


async def test_what_cannot_be_given_is_named_and_nothing_is_proved() -> None:
    with pytest.raises(Declined, match="auth-int"):
        await fetched(Guard(qop="auth-int"), "/a")


async def test_a_server_that_does_not_know_the_password_is_reported() -> None:
    async with trio.open_nursery() as nursery:
        server = await serve(nursery, site=site(Guard(lies=True)))
        response = await resolver.fetch(server.url("/a", user="alice:wonder%20land@"))
        assert response.content == b"a\n"
        assert "http:rspauth" in [finding.rule for finding in response.findings]
        nursery.cancel_scope.cancel()


async def test_a_login_of_the_url_is_proved_too() -> None:
    async with trio.open_nursery() as nursery:
        server = await serve(nursery, site=site(guard := Guard()))
        response = await resolver.fetch(server.url("/a", user="alice:wonder%20land@"))
        assert response.content == b"a\n"
        assert guard.refused == []
        nursery.cancel_scope.cancel()
