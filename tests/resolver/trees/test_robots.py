"""Rules of robots.txt (RFC 9309), and the requests of a walk that honors them."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
import trio

from fixtures.http import Behavior, HttpServer, Page, serve
from resolver import TryLater
from resolver.transfer.queue import HostScheduler
from resolver.trees.robots import MAX_DELAY, MAX_SIZE, RobotsRules
from tests.resolver.trees.mirrors import contents, mirror

ALL = "User-agent: *\n"
US = "User-agent: resolve\n"

#: The rules, the path, and whether a request is allowed.
ROWS = [
    ("", "/x", True),
    (ALL + "Disallow: /", "/x", False),
    (ALL + "Disallow:", "/x", True),
    (ALL + "Disallow: /a", "/abc", False),
    (ALL + "Disallow: /a/", "/a", True),
    (US + "Disallow: /", "/x", False),
    ("User-agent: RESOLVE\nDisallow: /", "/x", False),
    ("User-agent: other\nDisallow: /", "/x", True),
    # with a group for this program, `*` is ignored
    (ALL + "Disallow: /\n" + US + "Disallow: /a", "/x", True),
    (US + "Disallow: /a\n" + ALL + "Disallow: /\n" + US + "Disallow: /b", "/b", False),
    (US + "Disallow: /a\n" + ALL + "Disallow: /\n" + US + "Disallow: /b", "/a", False),
    ("User-agent: other\nUser-agent: resolve\nDisallow: /a", "/a", False),
    ("User-agent resolve # us\nuser agent: b\nDisallow: /a\nUserAgent: c\nDisallow: /b", "/a", False),
    ("User-agent resolve # us\nuser agent: b\nDisallow: /a\nUserAgent: c\nDisallow: /b", "/b", True),
    ("User-agent: res*\nDisallow: /a", "/a", False),
    (ALL + "Disallow: /a\nAllow: /a/b", "/a/b/c", True),
    (ALL + "Allow: /a/b\nDisallow: /a", "/a/c", False),
    (ALL + "Disallow: /a\nAllow: /a", "/a", True),
    (ALL + "Disallow: /*.gz$", "/x.gz", False),
    (ALL + "Disallow: /*.gz$", "/x.gz.txt", True),
    (ALL + "Disallow: /a*c", "/abbbc/d", False),
    (ALL + "Disallow: /%7Ejoe", "/~joe/", False),
    (ALL + "Disallow: /~joe", "/%7ejoe/", False),
    (ALL + "Disallow: /a%2Fb", "/a/b", True),
    (ALL + "Disallow: /a%2fb", "/a%2Fb", False),
    (ALL + "Disallow: /\u65e5", "/%E6%97%A5", False),
    (ALL + "Disallow: /x?id=", "/x?id=1", False),
    ("\ufeff" + ALL + "Disallow: /", "/x", False),
    (ALL + "Nonsense: 1\nDisallow: / # all of it", "/x", False),
    ("<html><title>Not here</title><p>Disallow: /</p></html>", "/x", True),
    ("Disallow: /", "/x", True),  # without a user agent
    (ALL.replace("\n", "\r") + "Disallow: /\r", "/x", False),
]


@pytest.mark.parametrize(("rules", "path", "allowed"), ROWS)
def test_robots_rules_allow_or_disallow(rules: str, path: str, allowed: bool) -> None:
    assert RobotsRules(rules.encode()).allows(f"http://h.example{path}") is allowed


def test_robots_rules_line_returns_matching_rule() -> None:
    rules = RobotsRules(f"{ALL}Disallow: /a # a comment\nDisallow: /a/b\nDisallow: /c".encode())
    assert rules.find_rule("http://h.example/a/b/c") == "Disallow: /a/b"


@pytest.mark.parametrize(
    "octets",
    [
        b"\x00\xff\xfe" * 1000,
        ALL.encode() + b"Disallow: /" + b"*a" * 20_000 + b"*b\n",
        ALL.encode() + b"Disallow: " + b"*" * 100_000 + b"$\n",
        b"User-agent: *\n" * 10_000,
        b":" * 100_000,
        b"\xef\xbb\xbf",
    ],
)
def test_robots_rules_accept_any_content(octets: bytes) -> None:
    RobotsRules(octets).allows("http://h.example/" + "a" * 2_000)


@pytest.mark.parametrize("agent", [b"User-agent: a%d\n", b"user agent a%d #\n", b"useragent:r%0*d\n"])
def test_robots_rules_of_many_agents_take_linear_memory(agent: bytes) -> None:
    """A rule is stored once for each agent that may apply, and not for each of 500 agents."""
    agents = b"".join(agent.replace(b"%0*d", b"*" * n).replace(b"%d", b"%d" % n) for n in range(500))
    tracemalloc.start()
    RobotsRules(agents + b"Disallow: /a\n" * 2_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000


def test_robots_rules_ignore_content_over_limit() -> None:
    begun = ALL.encode() + b"Disallow: /a\n"
    filler = b"#" * (MAX_SIZE - len(begun) - 12) + b"\n"
    rules = RobotsRules(begun + filler + b"Disallow: /bbbbbbbbbbbb\nDisallow: /c\n")
    allowed = [rules.allows(f"http://h.example/{name}") for name in ("a", "b", "bbbbbbbbbbbb", "c")]
    assert allowed == [False, True, True, True]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("2", 2.0),
        ("2.5", 2.5),
        ("61", MAX_DELAY),
        ("-1", 0.0),
        ("nan", 0.0),
        ("1e9", MAX_DELAY),
        ("x", 0.0),
    ],
)
def test_robots_crawl_delay_is_bounded(said: str, kept: float) -> None:
    assert RobotsRules(f"{ALL}Crawl-delay: {said}\n".encode()).delay == kept


def test_slow_down_keeps_longest_delay() -> None:
    hosts: HostScheduler[str] = HostScheduler(lambda scheme, waiting: None, rate=1.0)
    hosts.slow_down("h", 5.0)
    hosts.slow_down("h", 2.0)
    for task in ("a", "b"):
        hosts.add("h", "http", task)
        hosts.add("other", "http", task)
    started = []
    for now in (0.0, 1.0, 4.0, 5.0):
        while (taken := hosts.take(now)) is not None:
            started.append((now, taken.state.name))
            hosts.end(taken, now, succeeded=True)
    assert started == [(0.0, "h"), (0.0, "other"), (1.0, "other"), (5.0, "h")]


# In a walk.

INDEX = """<html><head><title>Index of /d/</title></head><body><h1>Index of /d/</h1><pre><a href="../">../</a>
<a href="a.txt">a.txt</a>      01-Jan-2020 00:00  2
<a href="b.txt">b.txt</a>      01-Jan-2020 00:00  2
<a href="sub/">sub/</a>        01-Jan-2020 00:00  -
</pre></body></html>"""
SUB = INDEX.replace("/d/", "/d/sub/").replace('<a href="sub/">sub/</a>', "")
SITE = {
    "/d/": Page(INDEX.encode(), "text/html"),
    "/d/sub/": Page(SUB.encode(), "text/html"),
    **{f"/d/{name}": Page(b"x\n") for name in ("a.txt", "b.txt", "sub/a.txt", "sub/b.txt")},
}


def asked(server: HttpServer) -> list[str]:
    return [request.target for request in server.requests]


def rules(text: str) -> dict[str, Page]:
    return {**SITE, "/robots.txt": Page(text.encode())}


async def test_walk_skips_disallowed_files(nursery: trio.Nursery, tmp_path: Path) -> None:
    """robots.txt is requested once, after the first request; a URL typed by the user is not checked."""
    server = await serve(nursery, rules(f"{ALL}Disallow: /d/*a.txt\nDisallow: /d/$"))
    found = await mirror(server.url("/d/"), into=tmp_path, heed=True)
    assert asked(server)[:2] == ["/d/", "/robots.txt"]
    assert sorted(asked(server)[2:]) == ["/d/b.txt", "/d/sub/", "/d/sub/b.txt"]
    assert sorted(found.left) == [server.url(f"/d/{name}") for name in ("a.txt", "sub/a.txt")]
    assert all(detail.endswith(": Disallow: /d/*a.txt") for (detail,) in found.left.values())
    assert sorted(contents(tmp_path / "top")) == ["b.txt", "sub", "sub/b.txt"]
    assert not found.failed


async def test_walk_skips_disallowed_directory(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, rules(f"{ALL}Disallow: /d/sub/"))
    found = await mirror(server.url("/d/"), into=tmp_path, heed=True)
    assert list(found.left) == [server.url("/d/sub/")]
    assert sorted(asked(server)[2:]) == ["/d/a.txt", "/d/b.txt"]


async def test_walk_without_robots_does_not_request_them(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, rules(f"{ALL}Disallow: /"))
    found = await mirror(server.url("/d/"), into=tmp_path)
    assert "/robots.txt" not in asked(server)
    assert len(found.saved) == 4


@pytest.mark.parametrize("status", [401, 403, 404, 410, 429])
async def test_walk_without_rules_fetches_everything(
    status: int, nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery, {**SITE, "/robots.txt": Page(b"no", status=status, reason="No")})
    found = await mirror(server.url("/d/"), into=tmp_path, heed=True)
    assert (len(found.saved), found.left, found.failed) == (4, {}, {})


@pytest.mark.parametrize(
    "answer",
    [
        Page(b"", status=500, reason="Broken"),
        Page(b"", status=503, reason="Busy"),
        Behavior(reset_at=0),
        Behavior(instead=b"what?\r\n\r\n"),
        Behavior(cut_at=70),
    ],
)
async def test_walk_with_unavailable_rules_fetches_nothing(
    answer: Page | Behavior, nursery: trio.Nursery, tmp_path: Path
) -> None:
    page = answer if isinstance(answer, Page) else Page(b"User-agent: *\nDisallow:\n" * 10)
    spoilt = {"/robots.txt": answer} if isinstance(answer, Behavior) else {}
    server = await serve(nursery, {**SITE, "/robots.txt": page}, behaviors=spoilt)
    found = await mirror(server.url("/d/"), into=tmp_path, heed=True)
    assert sorted(found.failed) == [server.url(f"/d/{name}") for name in ("a.txt", "b.txt", "sub/")]
    assert all(isinstance(error, TryLater) for error in found.failed.values())
    assert (set(asked(server)), found.saved) == ({"/d/", "/robots.txt"}, [])


async def test_robots_redirects_are_followed_up_to_limit(nursery: trio.Nursery, tmp_path: Path) -> None:
    def site(hops: int) -> dict[str, Page]:
        ways = {f"/{n}": Page(b"", status=302, headers=(("Location", f"/{n + 1}"),)) for n in range(hops)}
        moved = Page(b"", status=302, headers=(("Location", "/0"),))
        return {**SITE, "/robots.txt": moved, **ways, f"/{hops}": Page(f"{ALL}Disallow: /".encode())}

    for hops, left in ((4, 3), (20, 0)):
        server = await serve(nursery, site(hops))
        found = await mirror(server.url("/d/"), into=tmp_path / f"{hops}", heed=True)
        assert len(found.left) == left
        assert not found.failed


async def test_robots_long_crawl_delay_is_a_warning(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, rules(f"{ALL}Disallow: /\nCrawl-delay: 100000"))
    found = await mirror(server.url("/d/"), into=tmp_path, heed=True, depth=1, accept=("none",))
    assert found.warned == []  # without another URL, robots.txt is not requested
    found = await mirror(server.url("/d/"), into=tmp_path, heed=True, accept=("none",))
    assert [finding.rule for finding in found.warned] == ["http:crawl-delay"]
