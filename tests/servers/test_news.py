"""news, nntp, snews and nntps URLs against INN.

Exact articles, listings, modes, logins and TLS; then the command, and mailboxes.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest
import trio

import resolver
from fixtures.nntp.attachments import PICTURE
from protocols.contract import JsonValue
from resolver import Connected, Event, Kind, Options, Response, Sent, parse
from resolver.files.mailbox import Maildir, Mbox
from resolver.trees.saving import GroupMailbox, format_source
from tests.resolver.cli import command
from tests.resolver.trees.test_saving import in_maildir, in_mbox
from tests.servers.news_servers import PASSWORD, USER, NewsServer
from tests.servers.news_spool import DESCRIPTIONS, FILES, GONE, GROUPS, HIDDEN, PROSE, Article

LOOPBACK = "127.0.0.1"
LOGIN = f"{USER}:{quote(PASSWORD, safe='')}@"
LEFT = {number: article for number, article in PROSE.items() if number != GONE}
SEEN = {name for name, *_ in GROUPS if not name.startswith("private.")}
COMPRESSED = [b"CAPABILITIES", b"COMPRESS DEFLATE"]
READING = pytest.mark.parametrize("flavor", ["plain", "transit", "implicit"])


class Site:
    """A flavor of the server, a `Resolver` for it, and the bytes sent to the server."""

    def __init__(self, server: NewsServer, flavor: str = "plain", options: Options | None = None) -> None:
        self.port = server.ports[flavor]
        self.implicit = flavor == "implicit"
        self.events: list[Event] = []
        self.resolver = resolver.Resolver(
            policy=resolver.Policy(allow_port={self.port}, allow_password=True),
            options=options,
            cafile=str(server.authority),
            news_server=f"{LOOPBACK}:{self.port}",
            on_event=self.events.append,
        )

    def nntp(self, rest: str, login: str = "") -> str:
        scheme = "nntps" if self.implicit else "nntp"
        return f"{scheme}://{login}{LOOPBACK}:{self.port}/{rest}"

    def news(self, rest: str, login: str = "") -> str:
        scheme = "snews" if self.implicit else "news"
        return f"{scheme}://{login}{LOOPBACK}:{self.port}/{rest}"

    @property
    def sent(self) -> list[bytes]:
        """Return the commands, without the QUIT that ends every connection."""
        octets = b"".join(event.octets for event in self.events if isinstance(event, Sent))
        return [line for line in octets.split(b"\r\n")[:-1] if line != b"QUIT"]

    @property
    def connections(self) -> int:
        return sum(isinstance(event, Connected) for event in self.events)


@pytest.fixture
def flavor() -> str:
    return "plain"


@pytest.fixture
def site(inn: NewsServer, flavor: str) -> Site:
    return Site(inn, flavor)


def fact(found: resolver.Entry | Response, name: str) -> JsonValue:
    assert found.extra is not None
    return found.extra[name]


def check_article(response: Response, article: Article) -> None:
    head, _, body = response.content.partition(b"\r\n\r\n")
    assert body == article.body
    assert set(article.head) <= set(head.split(b"\r\n"))
    assert head.startswith(b"Path: news.example.test!feeder.example.test!not-for-mail\r\n")
    assert (response.kind, response.media_type) == (Kind.ARTICLE, "message/rfc822")
    assert "terminator" in response.verified
    assert fact(response, "message_id") == article.message_id


@READING
async def test_fetch_articles_by_number(site: Site, flavor: str) -> None:
    """Each article is complete, and a lone LF or CR does not disturb the next reply on the connection."""
    async with site.resolver as session:
        for number, article in LEFT.items():
            check_article(await session.fetch(site.nntp(f"test.prose/{number}")), article)
    assert site.connections == 1
    assert site.sent.count(b"MODE READER") == (1 if flavor == "transit" else 0)


@READING
async def test_fetch_articles_by_message_id(site: Site) -> None:
    async with site.resolver as session:
        for article in LEFT.values():
            check_article(await session.fetch(site.news(quote(article.message_id, safe="@"))), article)
    assert site.connections == 1


async def test_concurrent_fetches_share_a_connection(site: Site) -> None:
    """Requests are pipelined on one connection, also for numbers that do not exist."""
    found: dict[int, Response | resolver.ResolveError] = {}

    async def fetch(session: resolver.Resolver, number: int) -> None:
        try:
            found[number] = await session.fetch(site.nntp(f"test.prose/{number}"))
        except resolver.ResolveError as error:
            found[number] = error

    async with site.resolver as session, trio.open_nursery() as nursery:
        for number in range(len(PROSE) + 3):
            nursery.start_soon(fetch, session, number)
    for number, article in LEFT.items():
        response = found.pop(number)
        assert isinstance(response, Response)
        check_article(response, article)
    assert {number: type(error) for number, error in found.items()} == dict.fromkeys(
        (0, GONE, len(PROSE) + 1, len(PROSE) + 2), resolver.NotFound
    )
    assert site.connections == 1


async def test_news_url_uses_configured_server(site: Site) -> None:
    async with site.resolver as session:
        check_article(await session.fetch("news:lone-lf@example.test"), PROSE[3])
        check_article(await session.fetch("news:crossposted@example.test"), PROSE[10])
    assert site.sent == [b"ARTICLE <lone-lf@example.test>", b"ARTICLE <crossposted@example.test>"]


async def test_crosspost_has_a_number_in_each_group(site: Site) -> None:
    async with site.resolver as session:
        one = await session.fetch(site.nntp("test.prose/10"))
        other = await session.fetch(site.nntp("test.other/500"))
    assert one.content == other.content
    assert ("Xref", "news.example.test test.prose:10 test.other:500") in one.meta


@READING
async def test_group_lists_its_articles(site: Site) -> None:
    async with site.resolver as session:
        response = await session.fetch(site.nntp("test.prose"))
        assert response.kind is Kind.GROUP
        entries = {entry.name: entry for entry in response.entries or ()}
        assert list(entries) == [str(number) for number in LEFT]
        for number, article in LEFT.items():
            entry = entries[str(number)]
            assert entry.title == article.title
            assert (entry.kind, entry.url) == (Kind.ARTICLE, site.nntp(f"test.prose/{number}"))
            assert fact(entry, "message_id") == article.message_id
        assert fact(entries["8"], "references") == ["<plain@example.test>", "<dots@example.test>"]
        check_article(await session.fetch(entries["4"].url or ""), PROSE[4])
    assert b"OVER 1-14" in site.sent
    assert site.connections == 1


async def test_group_entries_limit_keeps_newest(inn: NewsServer) -> None:
    site = Site(inn, options=Options(entries=3))
    async with site.resolver as session:
        async with session.entries(site.news("test.prose")) as entries:
            names = [entry.name async for entry in entries]
        response = await session.fetch(site.news("test.prose"))
    assert names == ["12", "14"]  # 13 was canceled
    assert "nntp:cut" in {finding.rule for finding in response.findings}
    assert b"OVER 12-14" in site.sent


async def test_empty_group_has_no_entries(site: Site) -> None:
    async with site.resolver as session:
        response = await session.fetch(site.nntp("test.empty"))
        assert (response.kind, response.entries, response.content) == (Kind.GROUP, (), b"")
        check_article(await session.fetch(site.nntp("test.prose/1")), PROSE[1])
    assert site.sent[0] == b"GROUP test.empty"
    assert not [line for line in site.sent if line.startswith(b"OVER")]


@READING
async def test_news_wildcard_lists_every_group(site: Site, flavor: str) -> None:
    """Innd accepts LIST before MODE READER and lists every group in this state."""
    async with site.resolver as session:
        response = await session.fetch("news:*" if not site.implicit else site.news("*"))
        assert response.kind is Kind.DIRECTORY
        entries = {entry.name: entry for entry in response.entries or ()}
        hidden = set() if flavor != "transit" else {"private.notes"}
        assert set(entries) == SEEN | hidden
        for name, entry in entries.items():
            assert (entry.kind, entry.title) == (Kind.GROUP, DESCRIPTIONS.get(name))
        assert fact(entries["test.empty"], "empty") is True
        assert (fact(entries["test.prose"], "low"), fact(entries["test.prose"], "high")) == (1, 14)
        plus = await session.fetch(entries["test.c++"].url or "")
        assert [fact(entry, "message_id") for entry in plus.entries or ()] == ["plus@example.test"]


async def test_news_pattern_lists_matching_groups(site: Site) -> None:
    async with site.resolver as session, session.entries("news:test.*") as entries:
        names = {entry.name async for entry in entries}
    assert names == {name for name in SEEN if name.startswith("test.")}
    assert site.sent == [b"LIST ACTIVE test.*", b"LIST NEWSGROUPS test.*"]


MISSING = {
    "test.prose/13": "423",
    "test.prose/99": "423",
    "test.prose/0": "423",
    "test.none/1": "411",
    "test.none": "411",
    "test.empty/1": "423",
}


@READING
async def test_missing_article_or_group_is_not_found(site: Site) -> None:
    """After each error, the client still assigns the next replies to the right commands."""
    async with site.resolver as session:
        for place, code in MISSING.items():
            with pytest.raises(resolver.NotFound) as caught:
                await session.fetch(site.nntp(place))
            assert (caught.value.code, caught.value.exit_code) == (code, 8)
            check_article(await session.fetch(site.nntp("test.prose/1")), PROSE[1])
    assert site.connections == 1


@READING
async def test_missing_message_id_is_not_found(site: Site) -> None:
    async with site.resolver as session:
        for message_id in (PROSE[GONE].message_id, "never@example.test"):
            with pytest.raises(resolver.NotFound) as caught:
                await session.fetch(site.news(message_id))
            assert (caught.value.code, caught.value.exit_code) == ("430", 8)
            check_article(await session.fetch(site.news(PROSE[1].message_id)), PROSE[1])
    assert site.connections == 1


async def test_info_of_article_and_groups(site: Site) -> None:
    async with site.resolver as session:
        article = await session.info(site.nntp("test.prose/3"))
        group = await session.info(site.nntp("test.prose"))
        groups = await session.info("news:*")
    assert article.kind is Kind.ARTICLE
    assert fact(article, "message_id") == "lone-lf@example.test"
    assert (group.kind, fact(group, "low"), fact(group, "high")) == (Kind.GROUP, 1, 14)
    assert fact(groups, "count") == len(SEEN)
    assert site.sent == [b"GROUP test.prose", b"HEAD 3", b"GROUP test.prose", *COMPRESSED, b"LIST ACTIVE"]


@READING
async def test_compressed_group_list_equals_plain(inn: NewsServer, flavor: str) -> None:
    """Compressed and uncompressed replies are equal, also inside TLS.

    The flavor that needs MODE READER is not compressed. Later replies stay in sync.
    """
    site, plain = Site(inn, flavor), Site(inn, flavor)
    async with plain.resolver as session:
        whole = await session.fetch(plain.news("test.*"))
    async with site.resolver as session:
        groups = await session.fetch(site.news("*"))
        check_article(await session.fetch(site.nntp("test.prose/3")), PROSE[3])
        check_article(await session.fetch(site.nntp("test.prose/5")), PROSE[5])
    assert set(whole.content.split(b"\r\n")) <= set(groups.content.split(b"\r\n"))
    assert site.connections == 1
    offered = COMPRESSED[:1] if flavor == "transit" else COMPRESSED
    assert site.sent[: len(offered) + 1] == [*offered, b"LIST ACTIVE"]


@pytest.mark.parametrize("flavor", ["plain", "transit", "implicit", "login", "secret"])
async def test_login_is_sent_once_per_connection(site: Site, flavor: str) -> None:
    """A login is sent once per connection; if the server accepts it only inside TLS, STARTTLS comes first."""
    async with site.resolver as session:
        check_article(await session.fetch(site.nntp("private.notes/1", LOGIN)), HIDDEN)
        check_article(await session.fetch(site.nntp("private.notes/1", LOGIN)), HIDDEN)
        group = await session.fetch(site.nntp("private.notes", LOGIN))
    assert [fact(entry, "message_id") for entry in group.entries or ()] == [HIDDEN.message_id]
    assert site.sent.count(b"STARTTLS") == (1 if flavor == "secret" else 0)
    assert PASSWORD.encode() not in b"".join(site.sent)
    assert site.connections == 1


@pytest.mark.parametrize("flavor", ["plain", "login"])
async def test_login_for_a_message_id(site: Site) -> None:
    async with site.resolver as session:
        check_article(await session.fetch(site.news(HIDDEN.message_id, LOGIN)), HIDDEN)


@pytest.mark.parametrize("flavor", ["plain", "secret"])
@pytest.mark.parametrize(
    ("login", "error"), [("", resolver.LoginRequired), (f"{USER}:wrong@", resolver.AccessDenied)]
)
async def test_missing_or_wrong_login_is_an_error(
    site: Site, login: str, error: type[resolver.ResolveError]
) -> None:
    async with site.resolver as session:
        with pytest.raises(error) as caught:
            await session.fetch(site.nntp("private.notes/1", login))
    assert (type(caught.value), caught.value.exit_code) == (error, 6)
    assert "wrong@" not in str(caught.value.url)
    assert site.sent.count(b"AUTHINFO PASS ****") == (1 if login else 0)


@pytest.mark.parametrize("flavor", ["plain", "transit"])
async def test_tls_required_sends_starttls_first(inn: NewsServer, flavor: str) -> None:
    """Innd offers STARTTLS only after MODE READER."""
    site = Site(inn, flavor, Options(tls="require", keep=True))
    async with site.resolver as session:
        for number, article in LEFT.items():
            check_article(await session.fetch(site.nntp(f"test.prose/{number}")), article)
        check_article(await session.fetch(site.nntp("private.notes/1", LOGIN)), HIDDEN)
    assert b"STARTTLS" in site.sent
    assert not [line for line in site.sent[: site.sent.index(b"STARTTLS")] if b"GROUP" in line]


@pytest.mark.parametrize("flavor", ["plain", "implicit"])
async def test_tls_with_unknown_authority_is_an_error(site: Site) -> None:
    policy = resolver.Policy(allow_port={site.port})
    async with resolver.Resolver(policy=policy, options=Options(tls="require")) as session:
        with pytest.raises(resolver.TlsError):
            await session.fetch(site.nntp("test.prose/1"))


# The command against INN: standard output, standard error and exit status, exact bytes.


def resolve(server: NewsServer, *arguments: str, folder: Path | None = None) -> command.Done:
    """Run the command once; return its status, output and messages."""
    place = f"{LOOPBACK}:{server.ports['plain']}"
    ports = [f"--allow-port={port}" for port in server.ports.values()]
    verb, *rest = arguments
    options = ["--news-server", place, *ports, "--cacert", str(server.authority)]
    return command.resolve(verb, *options, *rest, folder=folder)


def test_cat_writes_articles(inn: NewsServer) -> None:
    urls = ["news:lone-lf@example.test", Site(inn, "implicit").nntp("test.prose/6")]
    status, output, messages = resolve(inn, "cat", *urls)
    assert (status, messages) == (0, b"")
    assert output.count(b"Path: ") == 2
    assert PROSE[3].body in output
    assert output.endswith(b"\r\n\r\n" + PROSE[6].body)


def test_get_saves_an_article(inn: NewsServer, tmp_path: Path) -> None:
    url = Site(inn, "transit").nntp("test.prose/12")
    status, output, messages = resolve(inn, "get", "--json", url, folder=tmp_path)
    (path,) = tmp_path.iterdir()
    assert (status, messages, json.loads(output)["path"]) == (0, b"", path.name)
    assert path.read_bytes().endswith(b"\r\n\r\n" + PROSE[12].body)


def test_ls_lists_groups_and_articles(inn: NewsServer) -> None:
    status, output, _ = resolve(inn, "ls", "news:*")
    assert (status, set(output.decode().splitlines())) == (0, SEEN)
    status, output, _ = resolve(inn, "ls", "--json", "news:test.other")
    (entry,) = map(json.loads, output.splitlines())
    assert (entry["name"], entry["url"]) == ("500", "news:crossposted@example.test")


def test_info_shows_article_subject(inn: NewsServer) -> None:
    url = Site(inn, "plain").nntp("test.prose/6")
    status, output, _ = resolve(inn, "info", "--json", url)
    entry = json.loads(output)
    assert (status, entry["kind"]) == (0, "article")
    assert dict(entry["extra"]["fields"])["Subject"].encode("latin-1") == entry["title"].encode()
    status, output, _ = resolve(inn, "info", url)
    assert (status, f"\ntitle: {entry['title']}\n".encode() in output) == (0, True)


@pytest.mark.parametrize(
    ("place", "status", "word"),
    [
        ("nntp://{}/test.prose/13", 8, b"no such article"),
        ("nntp://{}/private.notes/1", 6, b"name and password"),
    ],
)
def test_cat_reports_errors(inn: NewsServer, place: str, status: int, word: bytes) -> None:
    done = resolve(inn, "cat", place.format(f"{LOOPBACK}:{inn.ports['plain']}"))
    assert done[:2] == (status, b"")
    assert word in done[2]


# A group of INN as a mailbox, read with Python's `mailbox`; each article is requested once.


@pytest.mark.parametrize("form", [Mbox, Maildir])
async def test_mailbox_has_every_article_of_a_group(
    form: type[Mbox] | type[Maildir], inn: NewsServer, tmp_path: Path
) -> None:
    path, asked = tmp_path / "box", []
    for _ in range(2):
        site = Site(inn, options=Options(entries=0))
        url = parse(site.nntp("test.prose"))
        async with site.resolver as session:
            await GroupMailbox(session, url, form(str(path), format_source(url)), str(path)).run()
            sent = b"".join(event.octets for event in site.events if isinstance(event, Sent))
            asked.append(sent.count(b"ARTICLE "))
    found = in_mbox(path) if form is Mbox else in_maildir(path)
    bodies = sorted(article.body.replace(b"\r\n", b"\n") for article in LEFT.values())
    assert sorted(each.partition(b"\n\n")[2] for each in found) == bodies
    assert (asked[0] >= len(LEFT), asked[1]) == (True, 0)


# Attachments that were posted to INN, with the command and from Python.


@pytest.mark.parametrize("flavor", ["plain", "transit", "implicit"])
def test_get_attachments_saves_posted_files(inn: NewsServer, tmp_path: Path, site: Site) -> None:
    """yEnc, MIME, and names that lead out of the directory."""
    urls = [site.nntp(f"test.files/{number}") for number in (1, 6, 7)]
    done = resolve(inn, "get", "--json", "--attachments", "out/new", *urls, folder=tmp_path)
    assert (done.status, [record["status"] for record in done.records]) == (0, ["done"] * 4)
    files = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*.*")}
    notes = "café ends".encode()
    assert files == {
        "out/new/picture.bin": PICTURE,
        "out/new/x.png": bytes(range(5)),
        "out/new/notes.txt": notes,
    }
    assert (tmp_path / "out/new/passwd").read_bytes() == b"hostile"


@pytest.mark.parametrize("flavor", ["plain", "transit", "implicit"])
@pytest.mark.parametrize("form", ["nntp", "news"])
async def test_save_attachments_joins_posted_parts(site: Site, tmp_path: Path, form: str) -> None:
    """The Xref field of INN leads from a message-id to the overview of the group."""
    url = site.nntp("test.files/4") if form == "nntp" else site.news("part3@example.test")
    async with site.resolver as session:
        [saved] = await session.save_attachments(url, tmp_path, parts=True)
    assert (tmp_path / "three parts.bin").read_bytes() == PICTURE
    assert saved.verified == ("terminator", "length", "digest")
    assert f"OVER 1-{len(FILES)}".encode() in site.sent


def test_get_attachments_of_damaged_posts_leaves_nothing(site: Site, inn: NewsServer, tmp_path: Path) -> None:
    for number, words in {8: "CRC-32", 9: "=yend", 10: "part 2 of 3 is missing"}.items():
        url = site.nntp(f"test.files/{number}")
        done = resolve(inn, "get", "--parts", "--attachments", "out", url, folder=tmp_path)
        assert (done.status, words in done.messages) == (10, True)
    assert list(tmp_path.iterdir()) == []
