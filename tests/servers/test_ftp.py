"""ftp and ftps URLs against vsftpd, ProFTPD and Pure-FTPd.

Every file, every form of URL, refusals, segmented saves and their cost, and long listings of the command.
"""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote_from_bytes

import pytest

import resolver
from resolver import (
    AccessDenied,
    Connected,
    Declined,
    Event,
    FtpUrl,
    Kind,
    LoginRequired,
    NotFound,
    Options,
    Policy,
    ResolveError,
    Sent,
    TlsError,
)
from resolver.transfer.network import Network
from tests.faults.command import until
from tests.protocols.opening import open_url
from tests.protocols.typed_url import parse_as
from tests.resolver.cli.command import resolve
from tests.servers.ftp_servers import FtpServer, FtpSite
from tests.servers.ftp_tree import BIG, CLOSED, DEEP, FILES, LINES, MODIFIED, NAMES, OCTETS
from tests.servers.namespace import PASSWORD, USER

LOOPBACK = "127.0.0.1"


class Site:
    """A server in one flavor, a `Resolver` for it, and the bytes sent to the server."""

    def __init__(self, server: FtpServer, flavor: str = "plain", options: Options | None = None) -> None:
        self.server = server
        self.flavor = flavor
        self.port = server.ports[flavor]
        self.events: list[Event] = []
        self.resolver = self.session(options)

    def session(self, options: Options | None, segments: int = 1) -> resolver.Resolver:
        return resolver.Resolver(
            policy=resolver.Policy(allow_port={self.port}, allow_password=True),
            options=options,
            cafile=str(self.server.authority),
            on_event=self.events.append,
            segments=segments,
            segments_per_host=segments,
        )

    def url(self, path: str, login: str = "") -> str:
        scheme = "ftps" if self.flavor == "implicit" else "ftp"
        return f"{scheme}://{login}{LOOPBACK}:{self.port}/{path}"

    @property
    def sent(self) -> list[bytes]:
        return [event.octets.removesuffix(b"\r\n") for event in self.events if isinstance(event, Sent)]

    @property
    def control_connections(self) -> int:
        return sum(isinstance(event, Connected) and event.port == self.port for event in self.events)


@pytest.fixture
def site(ftp_server: FtpServer) -> Site:
    return Site(ftp_server)


def quoted(name: bytes) -> str:
    return "/".join(quote_from_bytes(step, safe="") for step in name.split(b"/"))


OPEN = [name for name in FILES if not name.startswith((CLOSED[0], CLOSED[1])) and b"\n" not in name]


#: Pure-FTPd lists this name and refuses to send the file (553).
PROHIBITED = b"back\\slash.txt"


async def test_fetch_returns_every_file(site: Site, ftp_server: FtpServer) -> None:
    async with site.resolver as session:
        for name in OPEN:
            if name.endswith(PROHIBITED) and ftp_server.name == "pure-ftpd":
                with pytest.raises(AccessDenied, match="553"):
                    await session.fetch(site.url(quoted(name)))
                continue
            response = await session.fetch(site.url(quoted(name)))
            assert response.content == FILES[name], name
            assert response.kind is Kind.DOCUMENT
            assert response.size == len(FILES[name])
            assert set(response.verified) == {"final-reply", "length"}


ROWS = [
    ("pub/a.txt", LINES),
    ("pub/a.txt;type=a", LINES),
    ("pub/a.txt;TYPE=A", LINES),
    ("pub/bin.dat;type=i", OCTETS),
    ("%2Fpub/a.txt", LINES),
    ("%2Fpub%2Fa.txt", LINES),
    ("pub%2Fa.txt", LINES),
    ("pub/names/../a.txt", LINES),
    ("./pub/./a.txt", LINES),
    ("pub/link.txt", LINES),
    ("pub/dirlink/README", b"content of README\n"),
    ("pub/names/-la", b"content of -la\n"),
    ("pub/names/a%3Btype%3Dd;type=i", b"content of a;type=d\n"),
    ("pub/names/semi;colon.txt", b"content of semi;colon.txt\n"),
    ("pub/barecr.txt;type=a", b"one\rtwo\rthree\r"),
    ("pub/nonl.txt;type=a", b"no newline at the end"),
    ("pub/empty.bin", b""),
]


@pytest.mark.parametrize(("path", "octets"), ROWS, ids=[row[0] for row in ROWS])
async def test_fetch_accepts_every_url_form(path: str, octets: bytes, site: Site) -> None:
    async with site.resolver as session:
        assert (await session.fetch(site.url(path))).content == octets


async def test_type_a_file_with_crlf_keeps_crlf(site: Site, ftp_server: FtpServer) -> None:
    """Only Pure-FTPd changes the line ends, to CR CR LF. The client restores CR LF."""
    async with site.resolver as session:
        content = (await session.fetch(site.url("pub/crlf.txt;type=a"))).content
    assert content == (LINES.replace(b"\n", b"\r\n") if ftp_server.name == "pure-ftpd" else LINES)


async def test_type_a_converted_by_server_has_lf(vsftpd: FtpServer) -> None:
    site = Site(vsftpd, "ascii")
    async with site.resolver as session:
        assert (await session.fetch(site.url("pub/a.txt;type=a"))).content == LINES


MISSING: list[tuple[str, type[ResolveError]]] = [
    ("pub/no-such", NotFound),
    ("pub/no-such;type=i", NotFound),
    ("pub/no-such;type=a", NotFound),
    ("pub/no-such;type=d", NotFound),
    ("pub/no-such/", NotFound),
    ("no-such/a.txt", NotFound),
    ("pub;type=i", NotFound),
    ("pub/broken", NotFound),
    ("pub/unreadable.txt", NotFound),
    ("pub/noaccess/x.txt", NotFound),
    ("pub/names/*.txt", NotFound),
]


@pytest.mark.parametrize(("path", "error"), MISSING, ids=[row[0] for row in MISSING])
async def test_fetch_missing_or_forbidden_is_declined(
    path: str, error: type[ResolveError], site: Site
) -> None:
    async with site.resolver as session:
        with pytest.raises(error) as raised:
            await session.fetch(site.url(path))
    assert isinstance(raised.value, Declined)
    assert raised.value.code in ("550", "450")


def split_writes(site: Site) -> list[bytes]:
    """Return the commands of all writes."""
    return b"\r\n".join(site.sent).split(b"\r\n")


async def test_empty_path_segment_sends_cwd(site: Site, ftp_server: FtpServer) -> None:
    """`CWD ` has no argument: vsftpd replies 550, ProFTPD 501, Pure-FTPd changes to the root directory."""
    async with site.resolver as session:
        if ftp_server.name == "pure-ftpd":
            assert (await session.fetch(site.url("/pub/a.txt"))).content == LINES
        else:
            with pytest.raises(Declined, match="%2F"):
                await session.fetch(site.url("/pub/a.txt"))
    assert b"CWD " in split_writes(site)


FOLDERS = {b"dir with spaces", b"semi;dir", b'quo"te dir'}


@pytest.mark.parametrize("path", ["", "/", ";type=d", "/;type=d"])
@pytest.mark.parametrize("folder", ["pub/names", "%2Fpub%2Fnames", "pub/dirlink"])
async def test_listing_urls_lead_to_named_entries(
    site: Site, folder: str, path: str, ftp_server: FtpServer
) -> None:
    """Each entry's URL leads to the named file. Only Pure-FTPd lists names with a leading dot."""
    async with site.resolver as session:
        response = await session.fetch(site.url(folder + path))
        assert response.kind is Kind.DIRECTORY
        entries = {
            (entry.raw or b"").rpartition(b"/")[2]: entry.url or "" for entry in response.entries or ()
        }
        assert {*entries, b".hidden"} == {*NAMES, *FOLDERS}
        assert (b".hidden" in entries) == (ftp_server.name == "pure-ftpd")
        if ftp_server.name == "pure-ftpd":
            entries = {name: url for name, url in entries.items() if name != PROHIBITED}
        for name, url in entries.items():
            fetched = await session.fetch(url)
            assert fetched.kind is (Kind.DIRECTORY if name in FOLDERS else Kind.DOCUMENT), name


@pytest.mark.parametrize("path", ["pub/emptydir", "pub/emptydir/", "pub/emptydir;type=d"])
async def test_listing_of_empty_directory_is_empty(path: str, site: Site) -> None:
    async with site.resolver as session:
        response = await session.fetch(site.url(path))
    assert (response.kind, response.entries) == (Kind.DIRECTORY, ())


@pytest.mark.parametrize("path", ["", ";type=d", "%2F;type=d", "%2F/"])
async def test_listing_of_root(path: str, site: Site) -> None:
    async with site.resolver as session:
        response = await session.fetch(site.url(path))
    assert sorted(entry.name for entry in response.entries or ()) == ["etc", "home", "pub"]


@pytest.mark.parametrize("options", [Options(mlsd=True), Options(detailed=True)], ids=["asked", "by FEAT"])
async def test_listing_has_facts_of_mlsd_or_list(ftp_server: FtpServer, options: Options) -> None:
    """Without MLSD, the client sends NLST to vsftpd, or LIST if kinds and sizes are wanted."""
    site = Site(ftp_server, options=options)
    async with site.resolver as session:
        response = await session.fetch(site.url("pub/"))
    entries = {entry.name: entry for entry in response.entries or ()}
    if ftp_server.name == "vsftpd" and options.mlsd:
        assert site.sent[-1] == b"NLST"
        assert entries["names"].kind is Kind.UNKNOWN
        return
    assert site.sent[-1] == (b"LIST" if ftp_server.name == "vsftpd" else b"MLSD")
    assert entries["names"].kind is Kind.DIRECTORY
    assert entries["a.txt"].size == len(LINES)
    if ftp_server.name == "vsftpd":
        assert entries["a.txt"].modified is None
        assert {**(entries["a.txt"].extra or {})} == {
            "source": "list",
            "precision": "day",
            "modified_local": "2001-09-09",
            "modified_text": "Sep 09  2001",
            "mode": "-rw-r--r--",
        }
    else:
        assert {"perm", "unix.mode"} & set(entries["a.txt"].extra or {})
        assert entries["a.txt"].modified is not None
        assert entries["a.txt"].modified.timestamp() == MODIFIED


@pytest.mark.parametrize("nlst", [False, True])
async def test_entries_have_facts_unless_nlst_is_requested(ftp_server: FtpServer, nlst: bool) -> None:
    site = Site(ftp_server, options=Options(nlst=nlst))
    async with site.resolver as session, session.entries(site.url("pub/")) as found:
        entries = {entry.name: entry async for entry in found}
    assert site.sent[-1] == (b"NLST" if nlst else b"LIST" if ftp_server.name == "vsftpd" else b"MLSD")
    assert (b"FEAT" in split_writes(site)) is not nlst
    assert entries["names"].kind is (Kind.UNKNOWN if nlst else Kind.DIRECTORY)
    assert entries["a.txt"].size == (None if nlst else len(LINES))
    assert site.control_connections == 1


def test_glob_saves_matching_files(ftp_server: FtpServer, tmp_path: Path) -> None:
    url = Site(ftp_server).url("pub/[abc]*.txt")
    done = resolve("--glob", "-q", "-d", str(tmp_path / "out"), url)
    assert (done.status, done.err) == (0, b"")
    saved = {os.fsencode(path.name): path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert saved == {name: FILES[b"pub/" + name] for name in (b"a.txt", b"barecr.txt", b"crlf.txt")}


@pytest.mark.parametrize("path", ["pub/names/", "pub/names", "pub/names;type=d"])
async def test_list_and_nlst_give_equal_urls(path: str, vsftpd: FtpServer) -> None:
    """Each entry of LIST has the same URL as in NLST, with any bytes in its name."""
    found = []
    for detailed in (False, True):
        site = Site(vsftpd, options=Options(detailed=detailed))
        async with site.resolver as session:
            response = await session.fetch(site.url(path))
        found.append({entry.name: entry.url for entry in response.entries or ()})
        assert response.findings == ()
    assert found[0] == found[1]
    assert len(found[0]) == len(NAMES) + len(FOLDERS) - 1  # vsftpd hides the name with a leading dot


@pytest.mark.parametrize("options", [Options(), Options(mlsd=True)], ids=["NLST", "MLSD"])
async def test_listing_truncated_by_server_is_a_finding(options: Options, pure_ftpd: FtpServer) -> None:
    """Pure-FTPd truncates the listing at a number of names, but replies 226 (success)."""
    site = Site(pure_ftpd, "few", options)
    async with site.resolver as session:
        response = await session.fetch(site.url("pub/names/"))
        assert 0 < len(response.entries or ()) <= 20
        assert [finding.rule for finding in response.findings] == ["ftp:listing-cut"]
        assert (await session.fetch(site.url("pub/emptydir/"))).findings == ()


async def test_info_reports_kind_size_and_date(site: Site) -> None:
    async with site.resolver as session:
        entry = await session.info(site.url("pub/big.bin"))
        assert (entry.kind, entry.size) == (Kind.DOCUMENT, len(BIG))
        assert entry.modified is not None
        assert entry.modified.timestamp() == MODIFIED
        assert (await session.info(site.url("pub/names"))).kind is Kind.DIRECTORY
        assert (await session.info(site.url(f"pub/{DEEP.decode()}/"))).kind is Kind.DIRECTORY
        with pytest.raises(NotFound):
            await session.info(site.url("pub/no-such"))


async def test_login_reads_home_directory(site: Site) -> None:
    login = f"{USER}:{quote_from_bytes(PASSWORD.encode())}@"
    async with site.resolver as session:
        assert (await session.fetch(site.url("etc/motd", login))).content == b"bob's motd\n"
        with pytest.raises(AccessDenied):
            await session.fetch(site.url("etc/motd", f"{USER}:wrong@"))
        with pytest.raises(LoginRequired):
            await session.fetch(site.url("etc/motd", f"{USER}@"))


async def test_fetches_share_a_connection(ftp_server: FtpServer) -> None:
    site = Site(ftp_server, options=Options(keep=True))
    async with site.resolver as session:
        deep = f"pub/{DEEP.decode()}/leaf.txt"
        for path in ("pub/a.txt", "pub/bin.dat", "pub/names/README", "etc/motd", "pub/", deep):
            await session.fetch(site.url(path))
    assert site.control_connections == 1
    assert site.sent.count(b"USER anonymous") == 1


async def test_commands_before_a_transfer_are_one_write(site: Site, ftp_server: FtpServer) -> None:
    """All three servers answer pipelined commands in order, even if the file does not exist."""
    async with site.resolver as session:
        for _ in range(3):
            assert (await session.fetch(site.url("pub/a.txt"))).content == FILES[b"pub/a.txt"]
        with pytest.raises((NotFound, AccessDenied, Declined)):
            await session.fetch(site.url("pub/nothing;type=i"))
    assert b"PWD\r\nCWD pub\r\nTYPE I\r\nSIZE a.txt\r\nEPSV" in site.sent
    behind = [write.partition(b"\r\n")[2] for write in site.sent if write.startswith(b"SIZE a.txt\r\n")]
    assert behind == [b"RETR a.txt\r\nEPSV" if ftp_server.name == "vsftpd" else b"RETR a.txt"] * 2
    assert site.control_connections == 1


async def test_port_is_requested_ahead_of_the_next_transfer(site: Site) -> None:
    """The reply to EPSV follows the final reply of a large file, of a listing and of an empty file."""
    async with site.resolver as session:
        for path in ("pub/big.bin", "pub/empty.bin", "pub/", "pub/big.bin", "pub/a.txt"):
            await session.fetch(site.url(path))
    assert site.control_connections == 1
    assert split_writes(site).count(b"EPSV") == 6  # one more than transfers


async def test_save_large_file(site: Site, tmp_path: Path) -> None:
    async with site.resolver as session:
        saved = await session.save(site.url("pub/big.bin"), str(tmp_path / "big"))
    assert (tmp_path / "big").read_bytes() == BIG
    assert set(saved.verified) >= {"final-reply", "length"}


async def test_stream_left_early_keeps_session_usable(site: Site) -> None:
    async with site.resolver as session:
        for _ in range(3):
            async with session.stream(site.url("pub/big.bin")) as reply:
                assert await anext(aiter(reply.body))


@pytest.mark.parametrize("held", [1, 16_000, len(OCTETS)])
async def test_stream_from_offset_has_rest_of_file(held: int, site: Site) -> None:
    url = parse_as(FtpUrl, site.url("pub/bin.dat"))
    async with (
        Network(policy=resolver.Policy(allow_port={site.port}), on_event=site.events.append) as network,
        open_url(url, network.admit(url, options=Options(start=held))) as reply,
    ):
        content = b"".join([octets async for octets in reply.body])
    assert (content, reply.start, reply.size) == (OCTETS[held:], held, len(OCTETS))
    assert "length" in reply.verified
    assert site.sent[-2:] == [b"REST %d" % held, b"RETR bin.dat"]


SECURED = ["tls", "tls-data", "implicit"]


@pytest.mark.parametrize("flavor", SECURED)
async def test_tls_transfers_are_verified(flavor: str, ftp_server: FtpServer) -> None:
    """Data connections of vsftpd and ProFTPD must resume the control connection's session."""
    if flavor not in ftp_server.ports:
        return
    site = Site(ftp_server, flavor, Options(tls="require", keep=True))
    async with site.resolver as session:
        for _ in range(2):
            response = await session.fetch(site.url("pub/bin.dat"))
            assert response.content == OCTETS
            assert set(response.verified) == {"final-reply", "length", "close-notify"}
        assert (await session.fetch(site.url("pub/empty.bin"))).content == b""
        assert (await session.fetch(site.url("pub/names/"))).entries
        with pytest.raises(NotFound):
            await session.fetch(site.url("pub/no-such"))
        assert len((await session.fetch(site.url("pub/big.bin"))).content) == len(BIG)


@pytest.mark.parametrize("flavor", SECURED)
async def test_tls_transfers_from_pinned_certificate(flavor: str, ftp_server: FtpServer) -> None:
    """Data connections resume the session of a control connection that only the pin verified."""
    if flavor not in ftp_server.ports:
        return
    site = Site(ftp_server, flavor, Options(tls="require", keep=True))
    async with resolver.Resolver(
        policy=Policy(allow_port={site.port}), options=Options(tls="require")
    ) as session:
        with pytest.raises(TlsError) as raised:
            await session.fetch(site.url("pub/bin.dat"))
    policy, options = Policy(allow_port={site.port}), Options(tls="require", keep=True)
    async with resolver.Resolver(policy=policy, options=options, pin=raised.value.certificate) as session:
        for _ in range(2):
            response = await session.fetch(site.url("pub/bin.dat"))
            assert response.content == OCTETS
            assert "close-notify" in response.verified


async def test_tls_required_without_server_tls_is_an_error(ftp_server: FtpServer) -> None:
    site = Site(ftp_server, options=Options(tls="require"))
    async with site.resolver as session:
        with pytest.raises(TlsError):
            await session.fetch(site.url("pub/a.txt"))
    assert not [line for line in site.sent if line.startswith(b"USER")]
    site = Site(ftp_server, options=Options(tls="try"))
    async with site.resolver as session:
        assert (await session.fetch(site.url("pub/a.txt"))).content == LINES


async def test_save_newer_of_unchanged_file_transfers_no_body(ftp_server: FtpServer, tmp_path: Path) -> None:
    """With and without `;type=a`, the transfer is skipped.

    If the local file is older, the complete file is transferred.
    """
    name = next(name for name in OPEN if FILES[name])
    for form in ("", ";type=a"):
        site, path = Site(ftp_server), tmp_path / f"x{form[-1:]}"
        async with site.resolver as session:
            await session.save(site.url(quoted(name) + form), path)
            os.utime(path, (MODIFIED, MODIFIED))
            before = len(site.sent)
            again = await session.save(site.url(quoted(name) + form), path, exists="newer")
            assert (again.skipped, [line for line in site.sent[before:] if line[:4] in TRANSFER]) == (
                True,
                [],
            )
            os.utime(path, (MODIFIED - 10, MODIFIED - 10))
            assert not (await session.save(site.url(quoted(name) + form), path, exists="newer")).skipped


TRANSFER = (b"PASV", b"EPSV", b"RETR")


@pytest.mark.parametrize("flavor", ["plain", "tls"])
async def test_save_with_three_segments(
    ftp_server: FtpServer, flavor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each transfer is aborted before its end, and no server refuses the next one."""
    monkeypatch.setattr("resolver.transfer.segments.MIN_OPEN_SEGMENT", 1_048_576)
    options = Options(tls="require") if flavor == "tls" else None
    site = Site(ftp_server, flavor, options)
    site.resolver = site.session(options, segments=3)
    async with site.resolver as session:
        saved = await session.save(site.url("pub/big.bin"), tmp_path / "big")
    assert (tmp_path / "big").read_bytes() == BIG
    assert (saved.verified, saved.attempts) == (("length",), 1)
    starts = [int(line.partition(b" ")[2]) for line in site.sent if line.startswith(b"REST ")]
    assert len(starts) == len(set(starts)) >= 2
    assert site.control_connections >= len(starts)


# The command against real FTP servers: the long listing of a directory.

#: The member of a record that holds the permissions, and its value for a file.
TOLD = {"vsftpd": ("mode", "-rw-r--r--"), "proftpd": ("perm", "adfr"), "pure-ftpd": ("unix.mode", "0644")}


@pytest.mark.parametrize("path", ["pub/", "pub;type=d", "pub/;type=d"])
def test_ls_long_shows_permissions(path: str, ftp_server: FtpServer) -> None:
    """The listing shows the MLSD facts if the server supports MLSD, otherwise the modes from LIST."""
    port = ftp_server.ports["plain"]
    words = ("ls", "-lq", "--allow-port", str(port), f"ftp://127.0.0.1:{port}/{path}")
    rows = {line.split()[-1]: line.split() for line in resolve(*words).out.decode("latin-1").splitlines()}
    facts = {each["name"]: each["extra"] for each in resolve(*words, "--json").records}
    assert rows["a.txt"][:2] == ["document", str(len(LINES))]
    assert rows["names/"][:2] == ["directory", "-"]
    told, file = TOLD[ftp_server.name]
    assert [row[3] for row in rows.values()][:2] == [facts[name.rstrip("/")][told] for name in list(rows)[:2]]
    assert rows["a.txt"][3] == file


async def test_directory_created_again_is_read_on_same_connection(
    ftp_server: FtpServer, ftp_site: FtpSite
) -> None:
    """The removed directory stays the working directory in vsftpd and Pure-FTPd."""
    site, folder = Site(ftp_server), ftp_site.tree / "pub" / "again"

    def create(content: bytes) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(0o755)
        (folder / "a.txt").write_bytes(content)

    try:
        async with site.resolver as session:
            for turn in (b"1", b"2"):
                create(turn)
                assert (await session.fetch(site.url("pub/again/a.txt"))).content == turn
            create(b"3")
            async with session.entries(site.url("pub/again/")) as entries:
                assert [entry.name async for entry in entries] == ["a.txt"]
        assert site.control_connections == 1
    finally:
        shutil.rmtree(folder)


async def test_entries_of_unreadable_directory_are_declined(ftp_server: FtpServer, ftp_site: FtpSite) -> None:
    """The servers accept CWD to the directory, and reply 226 to LIST."""
    site, folder = Site(ftp_server), ftp_site.tree / "pub" / "unlisted"
    folder.mkdir()
    folder.chmod(0o711)
    try:
        async with site.resolver as session:
            with pytest.raises(Declined, match=r"read the directory|'MLSD'"):
                async with session.entries(site.url("pub/unlisted/")):
                    pass
    finally:
        folder.rmdir()


@pytest.mark.parametrize("mode", [0o711, 0o755])
async def test_names_of_unreadable_directory_are_declined(
    proftpd: FtpServer, ftp_site: FtpSite, mode: int
) -> None:
    """ProFTPD replies to NLST of an unreadable directory as to NLST of an empty one."""
    site, folder = Site(proftpd), ftp_site.tree / "pub" / "unlisted"
    folder.mkdir()
    folder.chmod(mode)
    try:
        async with site.resolver as session:
            if mode == 0o755:
                assert (await session.fetch(site.url("pub/unlisted/"))).content == b""
            else:
                with pytest.raises(AccessDenied, match="read the directory"):
                    await session.fetch(site.url("pub/unlisted/"))
    finally:
        folder.rmdir()


# The cost of concurrent segments for a real ftp server: REST has no end offset.

SIZE = 128 * 1024 * 1024
#: Maximum ratio of bytes sent by the server to bytes of the file.
MOST = 1.15


@pytest.fixture(name="large")
def _large(ftp_site: FtpSite) -> Iterator[Path]:
    """Write a file of pseudo-random bytes into the tree of the servers."""
    path = ftp_site.tree / "pub/large.bin"
    path.write_bytes(b"".join(number.to_bytes(4, "big") * 1024 for number in range(SIZE // 4096)))
    path.chmod(0o644)
    yield path
    path.unlink()


def sent(server: FtpServer) -> list[int]:
    """Return the bytes of each transfer from the server's log in the format of wu-ftpd: the eighth field."""
    assert server.log is not None
    lines = server.log.read_bytes().splitlines() if server.log.exists() else []
    return [int(line.split()[7]) for line in lines]


@pytest.mark.parametrize(("segments", "per_host"), [(2, None), (4, None), (4, 4)])
async def test_segments_cost_server_at_most_15_percent_more(
    segments: int, per_host: int | None, vsftpd: FtpServer, large: Path, tmp_path: Path
) -> None:
    before, events = len(sent(vsftpd)), list[Event]()
    port = vsftpd.ports["plain"]
    policy = resolver.Policy(allow_port=frozenset({port}))
    async with resolver.Resolver(
        policy=policy, segments=segments, segments_per_host=per_host, on_event=events.append
    ) as session:
        saved = await session.save(f"ftp://127.0.0.1:{port}/pub/large.bin", tmp_path / "it")
    assert (saved.bytes, filecmp.cmp(tmp_path / "it", large, shallow=False)) == (SIZE, True)
    asked = sum(isinstance(event, Sent) and event.octets.startswith(b"RETR") for event in events)
    await until(lambda: len(sent(vsftpd)) == before + asked)  # the server logs aborted transfers later
    cost = sum(sent(vsftpd)[before:]) / SIZE
    assert 1.0 <= cost <= MOST
