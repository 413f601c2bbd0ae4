"""`Resolver.save_tree`: the outcome of each file, the ledger, and newsgroups saved as mailboxes."""

from __future__ import annotations

import errno
import json
import mailbox
import os
import re
import tracemalloc
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trio

from fixtures.ftp import serve as serve_ftp
from fixtures.http import Page, moved
from fixtures.http import serve as serve_http
from fixtures.nntp import Article, Behavior, Group, NewsServer, Spool, serve
from resolver import Declined, LocalError, Options, Outcome, ResolveError, Resolver, RetryPolicy, Saved, parse
from resolver.files.mailbox import Maildir, Mbox
from resolver.ledger.report import read
from resolver.trees.saving import GroupMailbox, format_source
from tests.hang import HANG
from tests.resolver.trees.mirrors import contents, plant
from tests.resolver.trees.test_walk import index

TREE: dict[str, bytes | None] = {
    "a.txt": b"one\n",
    "b": None,
    "b/c.bin": bytes(range(256)),
    "b/d": None,
    "b/d/e.txt": b"",
}


@pytest.fixture(name="source")
def _source(tmp_path: Path) -> Path:
    return plant(tmp_path / "source", TREE)


async def outcomes_of(url: str, **how: Any) -> list[Outcome]:
    with trio.fail_after(HANG):
        async with Resolver(patience=RetryPolicy()) as session:
            return [outcome async for outcome in session.save_tree(url, **how)]


def status_by_name(outcomes: list[Outcome]) -> dict[str, str]:
    return {outcome.url.rpartition("/")[2]: outcome.status for outcome in outcomes}


async def test_save_tree_yields_outcome_per_file(source: Path, tmp_path: Path) -> None:
    outcomes = await outcomes_of(source.as_uri(), directory=tmp_path / "out", digest=True)
    assert status_by_name(outcomes) == dict.fromkeys(("a.txt", "c.bin", "e.txt"), "done")
    assert contents(tmp_path / "out" / "source") == TREE
    for outcome in outcomes:
        name = outcome.url.partition("/source/")[2]
        assert outcome.path == str(tmp_path / "out" / "source" / name)
        assert outcome.bytes == len(TREE[name] or b"")
        assert outcome.digest is not None


async def test_save_tree_selects_by_pattern_and_depth(source: Path, tmp_path: Path) -> None:
    url = source.as_uri()
    assert status_by_name(await outcomes_of(url, directory=tmp_path / "1", accept=["*.txt"])).keys() == {
        "a.txt",
        "e.txt",
    }
    assert status_by_name(await outcomes_of(url, directory=tmp_path / "2", reject=["*.txt"])).keys() == {
        "c.bin"
    }
    assert status_by_name(await outcomes_of(url, directory=tmp_path / "3", depth=1)).keys() == {"a.txt"}
    assert status_by_name(await outcomes_of(url, directory=tmp_path / "4", accept_regex="/d/")).keys() == {
        "e.txt"
    }


async def test_save_tree_reports_failure_and_continues(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve_ftp(nursery)
    found = status_by_name(await outcomes_of(server.url("pub"), directory=tmp_path))
    assert found["unreadable.txt"] == "failed"
    assert found["a.txt"] == "done"
    (missing,) = await outcomes_of(server.url("nowhere"), directory=tmp_path)
    assert (missing.status, missing.exit) == ("failed", 8)
    (refused,) = await outcomes_of("http://h.example:25/", directory=tmp_path)
    assert (refused.status, [finding.rule for finding in refused.findings]) == ("refused", ["S04"])
    (no_url,) = await outcomes_of("no url", directory=tmp_path)
    assert (no_url.status, no_url.exit) == ("refused", 12)


@pytest.mark.parametrize("how", [{"depth": 0}, {"accept_regex": "("}, {"concurrency": 0}, {"host_rate": 0.0}])
async def test_save_tree_invalid_options_are_value_errors(how: dict[str, Any]) -> None:
    async with Resolver() as session:
        with pytest.raises(ValueError, match=r"1 or more|at least 1|regular|above"):
            session.save_tree("file:///", **how)


@pytest.mark.parametrize("how", [{"accept": "*.txt"}, {"reject": "*.txt"}])
async def test_save_tree_with_string_of_patterns_is_type_error(how: dict[str, Any]) -> None:
    """The pattern `*`, the first character of the string, would select all files."""
    async with Resolver() as session:
        with pytest.raises(TypeError, match=f"{min(how)!r} must be a list"):
            session.save_tree("file:///", **how)


async def test_save_tree_with_unknown_exists_is_value_error() -> None:
    async with Resolver() as session:
        with pytest.raises(ValueError, match="exists must be one of"):
            session.save_tree("file:///", exists="overwrite")  # type: ignore[arg-type]


async def test_save_tree_after_other_listing_asks_for_real_paths(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    """The options of requests for trees differ from the options of other requests of the session."""
    server = await serve_ftp(nursery)
    async with Resolver() as session:
        async with session.entries(server.url("pub/")) as found:
            assert [entry async for entry in found]
        tree = session.save_tree(server.url("pub/names/"), directory=tmp_path, concurrency=1)
        assert {outcome.status async for outcome in tree} == {"done"}
    assert server.commands[server.commands.index(b"CWD names") :][:2] == [b"CWD names", b"PWD"]


async def test_save_tree_of_document_saves_one_file(source: Path, tmp_path: Path) -> None:
    (outcome,) = await outcomes_of((source / "a.txt").as_uri(), directory=tmp_path / "out")
    assert outcome.path == str(tmp_path / "out" / "a.txt")


async def test_save_tree_skips_files_done_in_ledger(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve_ftp(nursery)
    how = {"directory": tmp_path / "out", "ledger": tmp_path / "ledger"}
    first = await outcomes_of(server.url("pub/names/"), **how)
    assert {outcome.status for outcome in first} == {"done"}
    before = len(server.commands)
    again = await outcomes_of(server.url("pub/names/"), **how)
    assert sorted((each.url, each.path, each.bytes, each.digest) for each in again) == sorted(
        (each.url, each.path, each.bytes, each.digest) for each in first
    )
    assert {outcome.status for outcome in again} == {"skipped"}
    asked = server.commands[before:]
    assert any(command.startswith(b"MLSD") for command in asked)
    assert not any(command.startswith(b"RETR") or b"README" in command for command in asked)
    found = read(str(tmp_path / "ledger"))
    assert (found.done, found.objects, found.runs) == (len(first), len(first), 2)


async def test_save_tree_left_early_is_resumed(source: Path, tmp_path: Path) -> None:
    how: dict[str, Any] = {"directory": tmp_path / "out", "ledger": tmp_path / "ledger"}
    with trio.fail_after(HANG):
        async with (
            Resolver() as session,
            aclosing(session.save_tree(source.as_uri(), concurrency=1, **how)) as outcomes,
        ):
            first = await anext(outcomes)
    rest = await outcomes_of(source.as_uri(), **how)
    by_url = {outcome.url: outcome.status for outcome in rest}
    assert by_url[first.url] == "skipped"
    assert len(by_url) == 3
    assert contents(tmp_path / "out" / "source") == TREE


async def test_save_tree_directory_link_has_no_ledger_row(nursery: trio.Nursery, tmp_path: Path) -> None:
    """Only a request shows that the entry is a directory: a redirect adds a slash."""
    server = await serve_http(
        nursery,
        {
            "/t/": index("x", "link"),
            "/t/x": Page(b"x"),
            "/t/link": moved("/t/link/", 301),
            "/t/link/": index("z"),
            "/t/link/z": Page(b"z"),
        },
    )
    how = {"directory": tmp_path / "out", "ledger": tmp_path / "ledger"}
    first = await outcomes_of(server.url("/t/"), **how)
    assert status_by_name(first) == {"x": "done", "z": "done"}
    found = read(str(tmp_path / "ledger"))
    assert (found.objects, found.done, found.left) == (2, 2, 0)
    assert status_by_name(await outcomes_of(server.url("/t/"), **how)) == {"x": "skipped", "z": "skipped"}


# A newsgroup as a mailbox: as Python's `mailbox` reads it, and as a killed run leaves it.

HEAD = b"Message-ID: <%d@h>\r\nFrom: a@h\r\nDate: Sun, 09 Sep 2001 01:46:40 GMT\r\nSubject: %d\r\n\r\n"
BODIES = {
    1: b"plain\r\n",
    2: b"From here\r\n>From there\r\nFromage\r\n From\r\n",
    3: b".\r\n..two\r\n",
    4: b"bytes \x00\x80\xff, a bare \r and a bare \nFrom behind\r\n",
    5: b"",
    7: b"From " * 40_000 + b"\r\n",
    9: b"\r\n\r\nFrom x Sun Sep  9 01:46:40 2001\r\n\r\n",
}
ARTICLES = {number: HEAD % (number, number) + body for number, body in BODIES.items()}
MOMENT = datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)


def spool(*numbers: int) -> Spool:
    found = {number: Article(b"<%d@h>" % number, ARTICLES[number]) for number in numbers or ARTICLES}
    return Spool({b"comp.misc": Group(found)})


def as_file(article: bytes) -> bytes:
    return article.replace(b"\r\n", b"\n")


async def gather(server: NewsServer, path: Path, form: type[Mbox] | type[Maildir] = Mbox) -> Saved:
    url = parse(server.url("comp.misc"))
    async with Resolver(options=Options(entries=0)) as session:
        return await GroupMailbox(session, url, form(str(path), format_source(url)), str(path)).run()


def in_mbox(path: Path) -> list[bytes]:
    """Return the messages as read by Python, without the quoting of mboxrd."""
    found = mailbox.mbox(str(path), create=False)
    octets = [found.get_bytes(key) for key in found.keys()]  # noqa: SIM118
    found.close()
    return [re.sub(rb"(?m)^>(>*From )", rb"\1", each) for each in octets]


def in_maildir(path: Path) -> list[bytes]:
    found = mailbox.Maildir(str(path), create=False)
    return sorted(found.get_bytes(key) for key in found.keys())  # noqa: SIM118


def fetched(server: NewsServer) -> list[bytes]:
    return [command for command in server.commands if command.split(b" ")[0].upper() == b"ARTICLE"]


async def test_group_is_saved_as_mbox(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, spool())
    saved = await gather(server, tmp_path / "box")
    assert in_mbox(tmp_path / "box") == [as_file(each) for each in ARTICLES.values()]
    assert (saved.bytes, saved.resumed_from) == (os.stat(tmp_path / "box").st_size, 0)
    assert os.listdir(tmp_path) == ["box"]
    first = (tmp_path / "box").read_bytes().partition(b"\n")[0]
    assert re.fullmatch(rb"From comp\.misc@127\.0\.0\.1:\d+/1 Sun Sep  9 01:46:40 2001", first)


async def test_group_is_saved_as_maildir(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, spool())
    await gather(server, tmp_path / "box", Maildir)
    assert in_maildir(tmp_path / "box") == sorted(as_file(each) for each in ARTICLES.values())
    assert os.listdir(tmp_path / "box/tmp") == []


async def test_maildir_without_hard_links_is_complete(
    nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*names: str, **settings: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    server = await serve(nursery, spool())
    await gather(server, tmp_path / "box", Maildir)
    assert in_maildir(tmp_path / "box") == sorted(as_file(each) for each in ARTICLES.values())
    assert os.listdir(tmp_path / "box/tmp") == []


@pytest.mark.parametrize("form", [Mbox, Maildir])
async def test_mailbox_articles_present_are_not_fetched(
    form: type[Mbox] | type[Maildir], nursery: trio.Nursery, tmp_path: Path
) -> None:
    """This also holds for messages that were read meanwhile, and thus renamed."""
    few, all_ = await serve(nursery, spool(1, 2, 5)), await serve(nursery, spool())
    held = {1, 2, 5}
    path = tmp_path / "box"
    box = form(str(path), format_source(parse(all_.url("comp.misc"))))
    box.open()
    for number in held:
        box.add(number, MOMENT, ARTICLES[number])
    box.close()
    if form is Maildir:
        for name in os.listdir(path / "new"):
            (path / "new" / name).rename(path / "cur" / f"{name}:2,S")
    saved = await gather(all_, path, form)
    assert len(fetched(all_)) == len(ARTICLES) - len(held)
    assert sorted(in_mbox(path) if form is Mbox else in_maildir(path)) == sorted(
        as_file(each) for each in ARTICLES.values()
    )
    again = await gather(all_, path, form)
    assert (again.skipped, len(fetched(all_)), again.bytes) == (True, len(ARTICLES) - len(held), saved.bytes)
    assert fetched(few) == []


async def test_mailbox_distinguishes_article_numbers_by_server(nursery: trio.Nursery, tmp_path: Path) -> None:
    one, other = await serve(nursery, spool(1)), await serve(nursery, spool(1))
    await gather(one, tmp_path / "box")
    await gather(other, tmp_path / "box")
    assert in_mbox(tmp_path / "box") == [as_file(ARTICLES[1])] * 2


@pytest.mark.parametrize(
    "torn", [b"", b"From", b"From comp", b"From s@h/2 Sun", b"From s@h/2 Sun Sep\nhalf", b"\0" * 99]
)
async def test_mbox_removes_article_of_killed_run(torn: bytes, tmp_path: Path) -> None:
    path = tmp_path / "box"
    box = Mbox(str(path), "s@h")
    box.open()
    box.add(1, MOMENT, ARTICLES[1])
    box._record_state()
    whole = path.read_bytes()
    os.close(box._fd)  # this releases the lock; the state file stays
    path.write_bytes(whole + torn)
    again = Mbox(str(path), "s@h")
    again.open()
    assert again.numbers == {1}
    again.close()
    assert (path.read_bytes(), os.listdir(tmp_path)) == (whole, ["box"])


@pytest.mark.parametrize("written", [b"From me Sun Sep\n\nhello\n\n", None])
def test_mbox_changed_by_another_program_is_refused(written: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "box"
    box = Mbox(str(path), "s@h")
    box.open()
    box.add(1, MOMENT, ARTICLES[1])
    box._record_state()
    os.close(box._fd)
    whole = path.read_bytes()
    if written is None:
        (tmp_path / "other").write_bytes(whole + b"longer")
        (tmp_path / "other").rename(path)
    else:
        path.write_bytes(whole + written)
    before = path.read_bytes()
    with pytest.raises(LocalError, match="part-state"):
        Mbox(str(path), "s@h").open()
    assert path.read_bytes() == before


def test_mbox_of_another_program_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "box"
    path.write_bytes(b"From me Sun Sep  9 01:46:40 2001\nSubject: x\n\nno end")
    box = Mbox(str(path), "s@h")
    box.open()
    box.add(1, MOMENT, ARTICLES[1])
    box.close()
    assert in_mbox(path) == [b"Subject: x\n\nno end\n", as_file(ARTICLES[1])]


def test_mbox_invalid_file_is_refused_and_unchanged(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"From\n")
    (tmp_path / "link").symlink_to("outside")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "kept").write_bytes(b"")
    (tmp_path / "kept.part-state").write_bytes(b'{"format": "somebody\'s"}')
    for name in ("text", "link", "pipe", "kept", "x.part"):
        with pytest.raises(LocalError):
            Mbox(str(tmp_path / name), "s@h").open()
    assert (tmp_path / "text").read_bytes() == b"From\n"
    assert not (tmp_path / "outside").exists()


def test_mbox_in_use_is_refused(tmp_path: Path) -> None:
    box = Mbox(str(tmp_path / "box"), "s@h")
    box.open()
    with pytest.raises(LocalError, match="another process"):
        Mbox(str(tmp_path / "box"), "s@h").open()
    box.close()


def test_mbox_state_is_written_as_it_grows(tmp_path: Path) -> None:
    box = Mbox(str(tmp_path / "box"), "s@h")
    box.open()
    box.add(1, MOMENT, b"x" * 2_000_000)
    box.add(2, MOMENT, b"y")
    state = json.loads((tmp_path / "box.part-state").read_bytes())
    box.close()
    assert 2_000_000 < state["size"] < os.stat(tmp_path / "box").st_size


async def test_mailbox_keeps_articles_before_failure(nursery: trio.Nursery, tmp_path: Path) -> None:
    """Articles removed on the server are skipped with a finding."""
    gone, broken = {b"ARTICLE 2": b"423 gone\r\n"}, {b"ARTICLE 4": b"503 broken\r\n"}
    said = {command: Behavior(instead=reply) for command, reply in {**gone, **broken}.items()}
    server = await serve(nursery, spool(), behaviors=said)
    with pytest.raises(ResolveError, match="broken"):
        await gather(server, tmp_path / "box")
    assert in_mbox(tmp_path / "box") == [as_file(ARTICLES[number]) for number in (1, 3)]
    well = await serve(nursery, spool(), behaviors={b"ARTICLE 2": Behavior(instead=b"423 gone\r\n")})
    saved = await gather(well, tmp_path / "well")
    assert [finding.rule for finding in saved.findings] == ["nntp:article-gone"]
    assert len(in_mbox(tmp_path / "well")) == len(ARTICLES) - 1


def overview(*numbers: int) -> Behavior:
    line = b"%d\ts\tf\td\t<x@h>\t\t1\t1\r\n"
    return Behavior(instead=b"224 x\r\n" + b"".join(line % number for number in numbers) + b".\r\n")


async def test_mailbox_sorts_articles_and_fetches_each_once(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, spool(), behaviors={b"OVER 1-9": overview(5, 1, 5, 3, 1)})
    await gather(server, tmp_path / "box")
    assert sorted(fetched(server)) == [b"ARTICLE 1", b"ARTICLE 3", b"ARTICLE 5"]
    assert in_mbox(tmp_path / "box") == [as_file(ARTICLES[number]) for number in (1, 3, 5)]


async def test_mailbox_memory_for_listing_is_bounded(nursery: trio.Nursery, tmp_path: Path) -> None:
    """A hostile server sends an endless overview. An `Entry` needs about 800 bytes of memory."""
    endless = {b"OVER 1-9": overview(*range(1, 20_000)), b"ARTICLE 1": Behavior(instead=b"503 broken\r\n")}
    server = await serve(nursery, spool(), behaviors=endless)
    tracemalloc.start()
    try:
        with pytest.raises(ResolveError, match="broken"):
            await gather(server, tmp_path / "box")
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


async def test_mailbox_of_article_is_declined(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, spool())
    url = parse(server.url("comp.misc/1"))
    async with Resolver() as session:
        with pytest.raises(Declined):
            await GroupMailbox(session, url, Mbox(str(tmp_path / "box"), "s@h"), "box").run()
