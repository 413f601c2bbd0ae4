"""News: pipelining on shared connections, logins, idle timeouts, listings, COMPRESS DEFLATE (RFC 8054)."""

from __future__ import annotations

import random
import zlib
from dataclasses import replace

import pytest
import trio
import trio.testing

import resolver
from fixtures.nntp import EXAMPLE, INN, Behavior, Flavor, Group, NewsServer, Spool, serve
from fixtures.nntp.flavor import COMPRESSING, LOGIN, TRANSIT
from fixtures.nntp.spool import SMUGGLING, numbered
from protocols.news.negotiation import MIN_TO_COMPRESS
from resolver import Event, Received, Resolver, Sent
from tests.hang import HANG

COUNT = 60
SPOOL = Spool({b"a.b": Group(numbered(b"a.b", list(range(1, COUNT + 1)))), **EXAMPLE.groups})


def session(server: NewsServer, **more: object) -> Resolver:
    policy = resolver.Policy(allow_port={server.port}, allow_password=True)
    news_server = f"127.0.0.1:{server.port}"
    return Resolver(policy=policy, news_server=news_server, **more)  # type: ignore[arg-type]


class ConcurrentFetches:
    """Concurrent fetches of articles.

    The result of each number is the article or the class name of an error.
    """

    def __init__(self, session: Resolver, server: NewsServer, login: str = "") -> None:
        self._session = session
        self._server = server
        self._login = login
        self.results: dict[int, str] = {}

    async def fetch(self, number: int, group: str = "a.b") -> None:
        try:
            url = self._server.url(f"{group}/{number}", login=self._login)
            content = (await self._session.fetch(url)).content
            self.results[number] = content.decode("latin-1").splitlines()[-1]
        except resolver.ResolveError as error:
            self.results[number] = type(error).__name__

    async def fetch_all(self, numbers: range) -> dict[int, str]:
        async with trio.open_nursery() as nursery:
            for number in numbers:
                nursery.start_soon(self.fetch, number)
        return self.results


def expected_results(numbers: range) -> dict[int, str]:
    return {number: f"number {number}" if number <= COUNT else "NotFound" for number in numbers}


FLAVORS = [(INN, ""), (TRANSIT, ""), (LOGIN, "alice:secret@")]


@pytest.mark.parametrize(("flavor", "login"), FLAVORS, ids=lambda value: getattr(value, "name", ""))
async def test_concurrent_fetches_share_connection(flavor: Flavor, login: str, nursery: trio.Nursery) -> None:
    """Each request gets its own article or its own error. Setup and login happen once."""
    server = await serve(nursery, SPOOL, flavor=flavor)
    numbers = range(1, COUNT + 11)
    async with session(server) as many:
        assert await ConcurrentFetches(many, server, login).fetch_all(numbers) == expected_results(numbers)
    assert (server.connections, server.violations) == (1, [])
    assert server.commands.count(b"MODE READER") == (0 if flavor is INN else 1)
    assert server.commands.count(b"AUTHINFO USER alice") == (1 if flavor is LOGIN else 0)


async def test_commands_are_pipelined(nursery: trio.Nursery) -> None:
    """The server responds only after a full window of commands.

    Without pipelining, the client would wait forever.
    """
    numbers = range(1, COUNT + 1)
    server = await serve(nursery, SPOOL, gathers=2 * COUNT)
    with trio.fail_after(HANG):
        async with session(server) as many:
            assert await ConcurrentFetches(many, server).fetch_all(numbers) == expected_results(numbers)
    assert (server.connections, server.violations) == (1, [])


async def test_not_found_names_own_command(nursery: trio.Nursery) -> None:
    """The error names its own command, even if the group is selected and other requests are pending."""
    server = await serve(nursery, SPOOL)
    messages: dict[int, str] = {}

    async def fetch(session: Resolver, number: int) -> None:
        with pytest.raises(resolver.NotFound) as caught:
            await session.fetch(server.url(f"a.b/{number}"))
        messages[number] = caught.value.message

    async with session(server) as many, trio.open_nursery() as inner:
        await many.fetch(server.url("a.b/1"))
        for number in range(COUNT + 1, COUNT + 11):
            inner.start_soon(fetch, many, number)
    assert {number: f"'ARTICLE {number}'" for number in messages} == {
        number: message.partition(":")[0] for number, message in messages.items()
    }
    assert (server.connections, len(messages)) == (1, 10)


async def test_wrong_password_is_sent_once(nursery: trio.Nursery) -> None:
    server = await serve(nursery, SPOOL, flavor=LOGIN)
    async with session(server) as many:
        results = await ConcurrentFetches(many, server, "alice:wrong@").fetch_all(range(1, 21))
    assert set(results.values()) == {"AccessDenied"}
    assert server.commands.count(b"AUTHINFO PASS wrong") == 1


async def test_missing_login_is_login_required(nursery: trio.Nursery) -> None:
    server = await serve(nursery, SPOOL, flavor=LOGIN)
    async with session(server) as many:
        results = await ConcurrentFetches(many, server).fetch_all(range(1, 21))
    assert set(results.values()) == {"LoginRequired"}
    assert (server.connections, server.violations) == (1, [])


async def test_response_after_smuggling_article_is_correct(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with session(server) as one:
        smuggled = await one.fetch("news:smuggled@example.test")
        assert smuggled.content.endswith(b"\r\n\r\n" + SMUGGLING)
        next_one = await one.fetch("news:comp.misc.1230@example.test")
        assert next_one.content.endswith(b"\r\n\r\nnumber 1230\r\n")
    assert (server.connections, server.violations) == (1, [])


async def test_pipelined_responses_after_smuggling_article_are_correct(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    result: dict[str, bytes] = {}

    async def fetch(session: Resolver, message_id: str) -> None:
        result[message_id] = (await session.fetch(f"news:{message_id}")).content

    wanted = ["smuggled@example.test", "comp.misc.1230@example.test", "comp.misc.1234@example.test"]
    async with session(server) as many, trio.open_nursery() as inner:
        for message_id in wanted:
            inner.start_soon(fetch, many, message_id)
    assert result["smuggled@example.test"].endswith(SMUGGLING)
    assert result["comp.misc.1230@example.test"].endswith(b"number 1230\r\n")
    assert result["comp.misc.1234@example.test"].endswith(b"number 1234\r\n")
    assert server.connections == 1


@pytest.mark.parametrize("after", [1, 2, 7, 20])
@pytest.mark.slow
async def test_closed_connections_are_replaced(after: int, nursery: trio.Nursery) -> None:
    """Requests in flight on a closed connection are repeated on a new connection."""
    server = await serve(nursery, SPOOL, closes_after=after)
    numbers = range(1, COUNT + 1)
    async with session(server) as many:
        results = await ConcurrentFetches(many, server).fetch_all(numbers)
    if after > 1:
        assert results == expected_results(numbers)
    assert set(results) == set(numbers)
    assert server.violations == []


@pytest.mark.parametrize(
    "behavior", [Behavior(cut_at=100), Behavior(reset_at=100), Behavior(instead=b"hello\r\n")]
)
async def test_faulty_response_affects_one_fetch(behavior: Behavior, nursery: trio.Nursery) -> None:
    command = b"ARTICLE 20"
    server = await serve(nursery, SPOOL, behaviors={command: behavior})
    numbers = range(1, COUNT + 1)
    async with session(server) as many:
        results = await ConcurrentFetches(many, server).fetch_all(numbers)
    assert results.pop(20) in ("Truncated", "ProtocolError", "Disconnected")
    assert results == {number: text for number, text in expected_results(numbers).items() if number != 20}
    assert server.violations == []


async def test_cancelled_fetch_affects_no_other(nursery: trio.Nursery) -> None:
    server = await serve(nursery, SPOOL)
    async with session(server) as many:
        fetches = ConcurrentFetches(many, server)
        async with trio.open_nursery() as inner:
            scopes = []
            for number in range(1, COUNT + 1):
                scope = trio.CancelScope()
                scopes.append(scope)
                inner.start_soon(within, scope, fetches, number)
            while not server.batches:
                await trio.lowlevel.checkpoint()
            for scope in scopes[::7]:
                scope.cancel()
    for number, text in expected_results(range(1, COUNT + 1)).items():
        assert fetches.results.get(number, text) == text
    assert len(fetches.results) >= COUNT - len(scopes[::7])
    assert server.violations == []


async def within(scope: trio.CancelScope, fetches: ConcurrentFetches, number: int) -> None:
    with scope:
        await fetches.fetch(number)


async def test_open_stream_has_separate_connection(nursery: trio.Nursery) -> None:
    """On a shared connection, a caller that reads an article while another stream is open would block."""
    server = await serve(nursery)
    async with session(server) as one, one.stream("news:comp.misc.1230@example.test") as held:
        fetched = await one.fetch("news:comp.misc.1234@example.test")
        assert fetched.content.endswith(b"number 1234\r\n")
        content = b"".join([octets async for octets in held.body])
        assert content.endswith(b"number 1230\r\n")
    assert server.connections == 2


async def test_silent_server_is_timed_out_once(
    nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    """The mock clock advances by the idle timeout (5 s) whenever all tasks are blocked."""
    server = await serve(nursery, SPOOL, behaviors={b"ARTICLE 1": Behavior(silent=True)})
    results: dict[int, str] = {}
    waits = 0

    async def fetch_all() -> None:
        async with session(server, limits=resolver.Limits(idle=5.0)) as many:
            results.update(await ConcurrentFetches(many, server).fetch_all(range(1, 31)))

    async with trio.open_nursery() as fetching:
        fetching.start_soon(fetch_all)
        while fetching.child_tasks:
            await trio.testing.wait_all_tasks_blocked(0.05)
            if fetching.child_tasks:
                mock_clock.jump(5.0)
                waits += 1
    assert waits == 1
    assert results[1] == "TimedOut"
    assert set(results.values()) <= {"TimedOut", *expected_results(range(1, 31)).values()}


async def test_articles_of_two_groups_are_not_mixed(nursery: trio.Nursery) -> None:
    spool = Spool(
        {
            b"a.b": Group(numbered(b"a.b", list(range(1, 21)))),
            b"c.d": Group(numbered(b"c.d", list(range(1, 21)))),
        }
    )
    server = await serve(nursery, spool)
    result: dict[str, object] = {}

    async def fetch(session: Resolver, path: str) -> None:
        try:
            extra = (await session.fetch(server.url(path))).extra
            result[path] = None if extra is None else extra["message_id"]
        except resolver.NotFound:
            result[path] = "gone"

    async with session(server) as many, trio.open_nursery() as inner:
        for number in range(1, 21):
            for group in ("a.b", "c.d", "no.such"):
                inner.start_soon(fetch, many, f"{group}/{number}")
    for number in range(1, 21):
        assert result[f"a.b/{number}"] == f"a.b.{number}@example.test"
        assert result[f"c.d/{number}"] == f"c.d.{number}@example.test"
        assert result[f"no.such/{number}"] == "gone"
    assert (server.connections, server.violations) == (1, [])


@pytest.mark.parametrize(("at_once", "seed"), [(2, 1), (3, 2), (9, 3), (60, 4)])
async def test_mixed_urls_on_shared_connection_are_correct(
    at_once: int, seed: int, nursery: trio.Nursery
) -> None:
    """Each request gets its own response, even if another group was selected while the request waited.

    A listing delays the requests that follow it, and the state of the connection may change during the delay.
    """
    names = ("a.b", "c.d", "e.f")
    spool = Spool({name.encode(): Group(numbered(name.encode(), list(range(1, 11)))) for name in names})
    server = await serve(nursery, spool)
    turns = trio.CapacityLimiter(at_once)
    result: list[tuple[object, object]] = []

    async def fetch(session: Resolver, path: str, expected: str) -> None:
        async with turns:
            try:
                extra = (
                    await session.fetch(server.url(path, scheme="news" if "@" in path else "nntp"))
                ).extra
                assert extra is not None
                result.append((extra.get("message_id", extra.get("name")), expected))
            except resolver.NotFound:
                result.append(("", expected))

    mix = [(f"{name}/{n}", f"{name}.{n}@example.test") for name in names for n in range(1, 11)]
    mix += [(expected, expected) for _, expected in mix[::4]]
    mix += [(name, name) for name in names] * 4 + [("no.such/1", ""), ("a.b/11", "")] * 3
    random.Random(seed).shuffle(mix)
    async with session(server) as many, trio.open_nursery() as inner:
        for path, expected in mix:
            inner.start_soon(fetch, many, path, expected)
    assert len(result) == len(mix)
    assert [pair for pair in result if pair[0] != pair[1]] == []
    assert (server.connections, server.violations) == (1, [])


async def test_different_logins_use_separate_connections(nursery: trio.Nursery) -> None:
    """A connection serves only one login (S11)."""
    server = await serve(nursery, flavor=LOGIN)
    async with session(server) as one:
        await one.fetch(server.url("comp.misc/1234", login="alice:secret@"))
        with pytest.raises(resolver.LoginRequired):
            await one.fetch(server.url("comp.misc/1234"))
        with pytest.raises(resolver.AccessDenied):
            await one.fetch(server.url("comp.misc/1234", login="bob:secret@"))
    assert server.connections == 3


async def test_news_and_nntp_share_connection(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with session(server) as one:
        for url in ("news:comp.misc.1230@example.test", server.url("comp.misc/1234"), "news:comp.misc"):
            await one.fetch(url)
        await one.fetch(server.url("comp.misc", scheme="news"))
    assert (server.connections, server.violations) == (1, [])


@pytest.mark.parametrize("at_once", [1, 40])
async def test_login_of_nntp_is_not_used_for_news(at_once: int, nursery: trio.Nursery) -> None:
    """After a login for the scheme nntp, URLs of the scheme news use a separate connection (S11)."""
    groups = {b"a.b": Group(numbered(b"a.b", [1])), b"c.d": Group(numbered(b"c.d", [1]), locked=True)}
    server = await serve(nursery, Spool(groups))
    turns = trio.CapacityLimiter(at_once)
    result: dict[str, set[str]] = {}

    async def ask(scheme: str, host: str, port: int, user: bytes | None) -> resolver.Credentials | None:
        return resolver.Credentials(b"alice", b"secret") if scheme == "nntp" else None

    async def fetch(session: Resolver, url: str) -> None:
        async with turns:
            try:
                outcome = (await session.fetch(url)).kind.value
            except resolver.ResolveError as error:
                outcome = type(error).__name__
            result.setdefault(url.replace(str(server.port), "P"), set()).add(outcome)

    async with session(server, credentials=ask) as many, trio.open_nursery() as inner:
        for _ in range(10):
            for path in ("a.b", "c.d"):
                inner.start_soon(fetch, many, server.url(path, scheme="news"))
                inner.start_soon(fetch, many, server.url(f"{path}/1"))
    assert result == {
        "news://127.0.0.1:P/a.b": {"group"},
        "news://127.0.0.1:P/c.d": {"LoginRequired"},
        "nntp://127.0.0.1:P/a.b/1": {"article"},
        "nntp://127.0.0.1:P/c.d/1": {"article"},
    }
    assert (server.connections, server.violations) == (2, [])
    assert server.commands.count(b"AUTHINFO PASS secret") == 1


async def test_session_end_sends_quit(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with session(server) as one:
        await one.fetch("news:comp.misc.1230@example.test")
        assert b"QUIT" not in server.commands
    while b"QUIT" not in server.commands:
        await trio.lowlevel.checkpoint()


async def test_news_listing_info_and_entries(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with session(server) as one:
        listing = await one.fetch("news:comp.misc")
        assert listing.entries is not None
        assert [entry.url for entry in listing.entries][1:3] == [
            "news:comp.misc.1234@example.test",
            "news:smuggled@example.test",
        ]
        groups = await one.fetch("news:*")
        assert groups.entries is not None
        assert [(entry.name, entry.title) for entry in groups.entries][:2] == [
            ("comp.misc", "General topics."),
            ("alt.c++", "Übung"),
        ]
        facts = await one.info("news:comp.misc.1230@example.test")
        assert (facts.kind, facts.title, facts.extra and facts.extra["message_id"]) == (
            "article",
            "Test",
            "comp.misc.1230@example.test",
        )
        async with one.entries("news:a*") as entries:
            assert [entry.name async for entry in entries] == ["alt.c++", "alt.empty", "alt.files"]
    assert b"HEAD <comp.misc.1230@example.test>" in server.commands


async def test_news_without_server_is_not_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NNTPSERVER", raising=False)
    monkeypatch.setattr("resolver.policy.environment.SYSTEM_FILE", "/nonexistent/server")
    with pytest.raises(resolver.NotConfigured) as caught:
        await resolver.fetch("news:comp.misc")
    assert caught.value.exit_code == 2
    assert "NNTPSERVER" in caught.value.message


# COMPRESS DEFLATE (RFC 8054) with a server that supports it.

MANY = Group(numbered(b"many", list(range(1, MIN_TO_COMPRESS + 1))))
FEW = Group(numbered(b"few", list(range(1, MIN_TO_COMPRESS))))
SECRET = Group(numbered(b"shut", [1]), locked=True)
COMPRESSED_SPOOL = Spool({**EXAMPLE.groups, b"many": MANY, b"few": FEW, b"shut": SECRET})
COMMANDS = [b"CAPABILITIES", b"COMPRESS DEFLATE"]


def compressed_session(server: NewsServer, **more: object) -> Resolver:
    policy = resolver.Policy(allow_port={server.port}, allow_password=True)
    return Resolver(policy=policy, **more)  # type: ignore[arg-type]


def received_commands(server: NewsServer) -> list[bytes]:
    """Return the commands that the server received, except QUIT, which may not have arrived yet."""
    return [command for command in server.commands if command != b"QUIT"]


def spoilt(answer: bytes, cut_at: int | None) -> dict[bytes, Behavior]:
    """Return the behaviors of a server that offers compression and answers COMPRESS DEFLATE with `answer`."""
    offering = b"101 list\r\nVERSION 2\r\nREADER\r\nCOMPRESS DEFLATE\r\n.\r\n"
    return {
        b"CAPABILITIES": Behavior(instead=offering),
        b"COMPRESS DEFLATE": Behavior(instead=answer, cut_at=cut_at),
    }


async def test_long_listing_is_compressed_and_equal(nursery: trio.Nursery) -> None:
    plain, packing = [await serve(nursery, COMPRESSED_SPOOL, flavor=flavor) for flavor in (INN, COMPRESSING)]
    events: list[Event] = []
    async with (
        compressed_session(plain) as one,
        compressed_session(packing, on_event=events.append) as other,
    ):
        straight = await one.fetch(plain.url("many"))
        response = await other.fetch(packing.url("many"))
        article = await other.fetch(packing.url("many/7"))
    assert response.content == straight.content
    assert (response.kind, response.verified) == (straight.kind, straight.verified)
    assert article.content.endswith(b"number 7\r\n")
    assert packing.commands[:4] == [b"GROUP many", *COMMANDS, b"OVER 1-1000"]
    assert received_commands(packing)[4:] == [b"ARTICLE 7"]
    assert (packing.connections, packing.violations) == (1, [])
    assert packing.sent * 8 < plain.sent
    shown = b"".join(event.octets for event in events if isinstance(event, Sent))
    assert b"OVER 1-1000\r\nARTICLE 7\r\n" in shown, "a trace has what is said, and not how it is packed"
    assert straight.content[-100:] in b"".join(e.octets for e in events if isinstance(e, Received))


@pytest.mark.parametrize(
    ("path", "commands"),
    [
        ("few", [b"GROUP few", b"OVER 1-999"]),
        ("many/3", [b"GROUP many", b"ARTICLE 3"]),
        ("many?news", [*COMMANDS, b"LIST ACTIVE", b"LIST NEWSGROUPS"]),
    ],
)
async def test_compression_is_used_for_long_listings_only(
    path: str, commands: list[bytes], nursery: trio.Nursery
) -> None:
    server = await serve(nursery, COMPRESSED_SPOOL, flavor=COMPRESSING)
    url = server.url("*", scheme="news") if path.endswith("?news") else server.url(path)
    async with compressed_session(server) as one:
        response = await one.fetch(url)
    assert received_commands(server) == commands
    assert response.verified == ("terminator",)
    assert server.violations == []


@pytest.mark.parametrize("refusal", [b"403 no\r\n", b"502 no\r\n", b"503 no\r\n"])
async def test_refused_compression_continues_uncompressed(refusal: bytes, nursery: trio.Nursery) -> None:
    server = await serve(nursery, COMPRESSED_SPOOL, behaviors=spoilt(refusal, None))
    async with compressed_session(server) as one:
        for _ in range(2):
            response = await one.fetch(server.url("many"))
            assert response.content.count(b"\r\n") == MIN_TO_COMPRESS
    assert server.commands.count(b"COMPRESS DEFLATE") == 1


def packed(octets: bytes) -> bytes:
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    return packer.compress(octets) + packer.flush(zlib.Z_SYNC_FLUSH)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"206 Compression active\r\n224 not compressed at all\r\n", resolver.ProtocolError),
        (b"206 Compression active\r\n" + packed(b"224 smuggled\r\n.\r\n"), resolver.ProtocolError),
        (b"290 what is this\r\n", resolver.ProtocolError),
    ],
)
async def test_data_received_before_compression_is_refused(
    answer: bytes, error: type[resolver.ResolveError], nursery: trio.Nursery
) -> None:
    """Bytes that arrive together with the 206 response may come from an attacker on the network path."""
    server = await serve(nursery, COMPRESSED_SPOOL, behaviors=spoilt(answer, len(answer)))
    async with compressed_session(server) as one:
        with pytest.raises(error):
            await one.fetch(
                server.url("many"),
            )
    assert not any(command.startswith(b"OVER") for command in server.commands)


async def test_login_uses_uncompressed_connection(nursery: trio.Nursery) -> None:
    """The login uses a separate, uncompressed connection; the first connection still serves requests."""
    server = await serve(nursery, COMPRESSED_SPOOL, flavor=COMPRESSING)
    held = {("nntp", "127.0.0.1", server.port): resolver.Credentials(b"alice", b"secret")}

    def credentials(scheme: str, host: str, port: int, user: bytes | None) -> resolver.Credentials | None:
        return held.get((scheme, host, port))

    async def look(*place: object) -> resolver.Credentials | None:
        return credentials(*place)  # type: ignore[arg-type]

    async with compressed_session(server, credentials=look) as one:
        assert len((await one.fetch(server.url("many"))).entries or ()) == MIN_TO_COMPRESS
        assert (await one.fetch(server.url("shut/1"))).content.endswith(b"number 1\r\n")
        assert (await one.fetch(server.url("many/1"))).content.endswith(b"number 1\r\n")
        assert len((await one.fetch(server.url("many"))).entries or ()) == MIN_TO_COMPRESS
    assert server.violations == []
    assert server.connections == 2
    assert server.commands.count(b"COMPRESS DEFLATE") == 1
    assert server.commands.count(b"AUTHINFO PASS secret") == 1


async def test_login_of_url_precedes_compression(nursery: trio.Nursery) -> None:
    flavor = replace(LOGIN, compresses=True)
    server = await serve(nursery, COMPRESSED_SPOOL, flavor=flavor)
    async with compressed_session(server) as one:
        await one.fetch(server.url("many", login="alice:secret@"))
        await one.fetch(server.url("*", scheme="news", login="alice:secret@"))
    verbs = [command.split()[0] for command in server.commands]
    assert verbs.index(b"COMPRESS") > verbs.index(b"AUTHINFO")
    assert server.violations == []


async def test_concurrent_fetches_during_compression_are_correct(nursery: trio.Nursery) -> None:
    """Requests pipelined on a connection that changes to compression get their responses."""
    server = await serve(nursery, COMPRESSED_SPOOL, flavor=COMPRESSING)
    result: dict[str, int] = {}
    async with compressed_session(server) as many:

        async def fetch(path: str) -> None:
            result[path] = len((await many.fetch(server.url(path))).content.split(b"\r\n"))

        async with trio.open_nursery() as inner:
            for path in ("many/1", "many", "few", "many/2", "few/3", "many/900"):
                inner.start_soon(fetch, path)
    assert result["many"] == MIN_TO_COMPRESS + 1
    assert result["few"] == MIN_TO_COMPRESS
    assert server.violations == []
    assert server.connections == 1


def test_plan_shows_compression() -> None:
    """The plan for all groups sends COMPRESS.

    The plan for one group has a note, because the size of the group is unknown.
    """
    steps = resolver.explain("news://news.example/*").steps
    said = [step["octets"] for step in steps if step["action"] == "send"]
    assert said == ["CAPABILITIES\r\n", "COMPRESS DEFLATE\r\n", "LIST ACTIVE\r\nLIST NEWSGROUPS\r\n"]
    notes = " ".join(str(step["text"]) for step in resolver.explain("nntp://h/a.b").steps if "text" in step)
    assert "1000 or more: CAPABILITIES, and COMPRESS DEFLATE" in notes
