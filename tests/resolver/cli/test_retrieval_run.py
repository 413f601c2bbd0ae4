"""Runs over many URLs: limits per host, retries, interference, proxies, cookies, and `--raw`."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import fixtures.ftp
import fixtures.http
from fixtures.http import Behavior, HttpServer, Page
from fixtures.http.request import Request
from resolver import Event, Options, Policy, Received, Resolver
from tests.elsewhere import served
from tests.resolver.cli.command import Done, resolve
from tests.resolver.network.peers import closed_port


@pytest.mark.parametrize("words", [["parse"], ["get"]])
def test_run_without_memory_is_local_error(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **others: object) -> None:
        raise MemoryError

    monkeypatch.setattr("resolver.cli.inspection.parse", fail)
    monkeypatch.setattr("resolver.cli.retrieval_run.Resolver", fail)
    done = resolve(*words, "http://h.example/", folder=tmp_path)
    assert (done.status, done.out) == (3, b"")
    assert "cannot allocate memory" in done.messages


def test_rejected_logins_are_retried_later(tmp_path: Path) -> None:
    """The server allows two logins for six concurrent connections."""
    with served(fixtures.ftp.serve) as server:
        server.logins = 2
        urls = [server.url("pub/a.txt")] * 12
        options = ["-j", "6", "--per-host", "6", "--retry-delay", "0.01", "--allow-port", str(server.port)]
        done = resolve("get", *options, *urls, folder=tmp_path)
    assert done.status == 0, done.messages
    assert "12 of 12 saved" in done.messages
    assert len(list(tmp_path.iterdir())) == 12
    turned_away = [line for line in done.messages.splitlines() if "too many users are logged in" in line]
    assert all("; retry in " in line for line in turned_away)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--per-host", "0"),
        ("--per-host", "x"),
        ("--host-rate", "0"),
        ("--host-rate", "-1"),
        ("--host-rate", "1e3"),
    ],
)
def test_host_limit_invalid_number_is_usage_error(option: str, value: str, tmp_path: Path) -> None:
    done = resolve("get", f"{option}={value}", "file:///etc/hostname", folder=tmp_path)
    assert done.status == 2
    assert option in done.messages
    assert list(tmp_path.iterdir()) == []


def test_config_shows_host_limits() -> None:
    done = resolve("config", "--config", "none", "--per-host", "3", "--host-rate", "0.5")
    lines = done.out.decode().splitlines()
    assert "per_host = 3  # the command line" in lines
    assert "host_rate = 0.5  # the command line" in lines


# Retries: a single URL is requested once, unless `--tries` or the configuration sets a number.

FAILED = Page(b"later\n", status=500, reason="Internal Server Error")
UNANNOUNCED = Page(b"x" * 400_000, headers=(("ETag", '"2"'),), parts=True, framing="chunked")
PART = Page(b"y" * 100, "application/octet-stream")
WHOLE = Page(b"x" * 100_000, "application/octet-stream", headers=(("ETag", '"1"'),), parts=True)


@pytest.fixture(name="server", scope="module")
def _server() -> Iterator[HttpServer]:
    site = {"/500": FAILED, "/leaves": FAILED, "/pub/": FAILED, "/cut": WHOLE}
    site["/unannounced"] = UNANNOUNCED
    site |= {f"/part/{number}": PART for number in range(5)}
    spoilt = {"/leaves": Behavior(instead=b"", unannounced=True), "/cut": Behavior(cut_at=50_000, times=1)}
    with served(partial(fixtures.http.serve, site=site, behaviors=spoilt)) as server:
        yield server


def run_and_count(server: HttpServer, folder: Path, *words: str) -> tuple[Done, int]:
    """Return the result of the command and the number of requests that the server received."""
    before = len(server.requests)
    done = resolve(*words, "--retry-delay", "0.001", "--allow-port", str(server.port), folder=folder)
    return done, len(server.requests) - before


@pytest.mark.parametrize("path", ["/500", "/leaves"])
@pytest.mark.parametrize("verb", ["cat", "info", "ls", "get"])
def test_command_with_single_failing_url_tries_once(
    verb: str, path: str, server: HttpServer, tmp_path: Path
) -> None:
    done, requests = run_and_count(server, tmp_path, verb, server.url(path))
    assert (done.status != 0, requests) == (True, 1)


@pytest.mark.parametrize("verb", ["cat", "get"])
def test_tries_option_sets_number_of_requests(verb: str, server: HttpServer, tmp_path: Path) -> None:
    assert run_and_count(server, tmp_path, verb, "--tries", "3", server.url("/500"))[1] == 3
    (tmp_path / "own.toml").write_text("tries = 2\n")
    assert run_and_count(server, tmp_path, verb, "--config", "own.toml", server.url("/500"))[1] == 2


def test_command_with_several_urls_tries_five_times(server: HttpServer, tmp_path: Path) -> None:
    (tmp_path / "list").write_text(server.url("/500"))
    assert run_and_count(server, tmp_path, "get", "-i", "list")[1] == 5
    assert run_and_count(server, tmp_path, "cat", server.url("/500"), server.url("/500"))[1] == 10


def test_get_single_url_resumes_truncated_body(server: HttpServer, tmp_path: Path) -> None:
    done, requests = run_and_count(server, tmp_path, "get", server.url("/cut"))
    assert (done.status, requests, (tmp_path / "cut").stat().st_size) == (0, 2, len(WHOLE.content))


# Removal of a run's files by another process during the run, and a full disk.

COUNT = 40


class CallbackGuard:
    """A guard that calls a function before it answers; see `fixtures.http.site.Guard`."""

    def __init__(self) -> None:
        self.act: Callable[[], object] = lambda: None

    def answer(self, request: Request, page: Page) -> Page:
        self.act()
        return Page(page.content)


@pytest.fixture(name="guard")
def _guard() -> CallbackGuard:
    return CallbackGuard()


@pytest.fixture(name="guarded_server")
def _guarded_server(guard: CallbackGuard) -> Iterator[HttpServer]:
    """Serve pages, of which the middle page has the guard."""
    site = {f"/{number}": Page(b"x" * 100) for number in range(COUNT)}
    site[f"/{COUNT // 2}"] = Page(b"y" * 100, guard=guard)
    with served(partial(fixtures.http.serve, site=site)) as server:
        yield server


def get_list(server: HttpServer, folder: Path, *words: str) -> Done:
    (folder / "list").write_text("".join(f"{server.url(f'/{number}')}\n" for number in range(COUNT)))
    common = ["get", "-q", "-j", "1", "-i", "list", "--allow-port", str(server.port)]
    return resolve(*common, *words, folder=folder)


@pytest.mark.parametrize("replaced", [False, True])
def test_get_with_removed_ledger_exits_with_status_3(
    replaced: bool, guarded_server: HttpServer, guard: CallbackGuard, tmp_path: Path
) -> None:
    def remove() -> None:
        (tmp_path / "L").unlink()
        if replaced:
            (tmp_path / "L").touch(0o600)

    guard.act = remove
    done = get_list(guarded_server, tmp_path, "--ledger", "L", "-d", "out")
    assert (done.status, done.messages.count("\n")) == (3, 1), done.messages
    assert "the ledger" in done.messages
    assert "removed" in done.messages


@pytest.mark.parametrize("last", [False, True])
def test_get_with_removed_directory_exits_with_status_3(
    last: bool, guarded_server: HttpServer, guard: CallbackGuard, tmp_path: Path
) -> None:
    guard.act = partial(shutil.rmtree, tmp_path / "out")
    words = ["-d", "out", "--failed", "left"]
    if last:
        done = resolve(
            *("get", "-q", "-j", "1", "--allow-port", str(guarded_server.port), *words),
            *(guarded_server.url(f"/{number}") for number in (0, COUNT // 2)),
            folder=tmp_path,
        )
    else:
        done = get_list(guarded_server, tmp_path, *words)
    assert (done.status, done.messages.count("\n")) == (3, 1), done.messages
    assert "the directory 'out'" in done.messages


def test_full_disk_ends_list_with_one_message(
    guarded_server: HttpServer, guard: CallbackGuard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remaining URLs are in the --failed list, and another run fetches them."""
    real, full = os.write, threading.Event()
    guard.act = full.set

    def write(fd: int, octets: bytes) -> int:
        if full.is_set() and b"y" * 50 in bytes(octets)[:100]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, octets)

    monkeypatch.setattr(os, "write", write)
    done = get_list(guarded_server, tmp_path, "-d", "out", "--failed", "left")
    monkeypatch.undo()
    assert (done.status, done.messages.count("\n")) == (3, 1), done.messages
    assert os.strerror(errno.ENOSPC).lower() in done.messages
    rest = (tmp_path / "left").read_text().splitlines()
    assert rest == [guarded_server.url(f"/{number}") for number in range(COUNT // 2, COUNT)]
    again = resolve(
        "get", "-q", "-i", "left", "-d", "out", "--allow-port", str(guarded_server.port), folder=tmp_path
    )
    assert (again.status, len(list((tmp_path / "out").iterdir()))) == (0, COUNT)


def test_skip_reports_file_of_concurrent_run(
    guarded_server: HttpServer, guard: CallbackGuard, tmp_path: Path
) -> None:
    """A second process creates the file after the start of this run and before its end."""
    path = f"/{COUNT // 2}"
    guard.act = lambda: (tmp_path / path[1:]).write_bytes(b"theirs")
    words = ["get", "--json", "--allow-port", str(guarded_server.port), guarded_server.url(path)]
    done = resolve(*words, "--exists", "skip", folder=tmp_path)
    (record,) = done.records
    assert (done.status, record["status"], record["action"], record["bytes"]) == (0, "skipped", "keep", 6)
    assert (tmp_path / path[1:]).read_bytes() == b"theirs"
    (tmp_path / path[1:]).unlink()
    assert resolve(*words, folder=tmp_path).status == 3


# Proxies: options override variables, and `explain` shows the exchange of `get`.

_SECRET = "s3cret"


@pytest.fixture
def closed_proxy() -> Iterator[str]:
    """Return the host and port of a proxy that does not listen."""
    with closed_port() as port:
        yield f"127.0.0.1:{port}"


@pytest.mark.parametrize("scheme", ["http", "socks5", "socks5h"])
def test_proxy_option_overrides_environment(
    scheme: str, at: dict[str, str], closed_proxy: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{at['http']}/about.txt"
    monkeypatch.setenv("http_proxy", f"{scheme}://me:{_SECRET}@{closed_proxy}")
    done = resolve("cat", "-t", "1", url)
    assert (done.status, f"the proxy {scheme}://{closed_proxy}: " in done.messages) == (4, True)
    assert _SECRET not in done.messages
    direct = resolve("cat", "--proxy", "none", url)
    assert (direct.status, direct.messages) == (0, "")
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert resolve("cat", "--proxy", f"{scheme}://{closed_proxy}", url).status == 0, (
        "no_proxy is for the option too"
    )


@pytest.mark.parametrize("value", ["ftp://h", f"http://me:{_SECRET}@h:99999", "", f"http://me:{_SECRET}@h?x"])
def test_invalid_proxy_option_is_usage_error(value: str, at: dict[str, str], folder: Path) -> None:
    done = resolve("cat", "--proxy", value, f"{at['http']}/about.txt")
    assert (done.status, done.out) == (2, b"")
    assert "argument --proxy: " in done.messages
    assert _SECRET not in done.messages


@pytest.mark.parametrize("verb", ["get", "cat", "info", "explain"])
def test_invalid_proxy_variable_is_usage_error(
    verb: str, at: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("all_proxy", f"gopher://me:{_SECRET}@h")
    done = resolve(verb, f"{at['http']}/about.txt")
    assert done.status == 2
    assert all(word in done.messages for word in ("all_proxy", "'gopher'"))
    assert _SECRET not in done.messages
    assert not list(folder.iterdir())


@pytest.mark.parametrize("verb", ["get", "cat", "info", "explain"])
def test_untrusted_policy_refuses_proxy_of_environment(
    verb: str, at: dict[str, str], closed_proxy: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://{closed_proxy}")
    url = "http://h.example/about.txt"
    done = resolve(verb, "--policy", "untrusted", url)
    assert (done.status, "S09: http_proxy " in done.messages) == (9, True)
    trusted = resolve(
        verb, "-t", "1", "--policy", "untrusted", "--trusted-proxy", f"http://{closed_proxy}", url
    )
    assert trusted.status == (0 if verb == "explain" else 4)


@pytest.mark.parametrize("policy", ["default", "cautious"])
def test_ignored_proxy_variable_is_reported_once(
    policy: str, at: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://me:{_SECRET}@proxy.example:3128")
    url = f"{at['http']}/about.txt"
    port = url.split(":")[2].split("/")[0]
    done = resolve("cat", "--policy", policy, "--allow-port", port, url, url)
    assert done.status == (0 if policy == "default" else 9)
    if policy == "default":
        assert done.messages.count("warning (S09): HTTP_PROXY ") == 1
    assert "HTTP_PROXY " in done.messages
    assert _SECRET not in done.messages


def test_explain_shows_exchange_with_http_proxy(folder: Path) -> None:
    words = ("--proxy", f"http://me:{_SECRET}@proxy.example:3128")
    (plan,) = resolve("explain", "--json", *words, "ftp://h.example/a").records
    connects = [step["host"] for step in plan["steps"] if step["action"] == "connect"]
    lines = [step["octets"] for step in plan["steps"] if step["action"] == "send"]
    assert (plan["proxy"], connects) == ("http://proxy.example:3128", ["proxy.example"] * 2)
    assert lines[0] == "CONNECT h.example:21 HTTP/1.1\r\nHost: h.example:21\r\n\r\n"
    assert [octets for octets in lines if octets.startswith("CONNECT")][1].startswith("CONNECT h.example:0 ")
    (plan,) = resolve("explain", "--json", *words, "http://h.example:8080/a?b#c").records
    lines = [step["octets"] for step in plan["steps"] if step["action"] == "send"]
    assert lines[0].startswith("GET http://h.example:8080/a?b HTTP/1.1\r\nHost: h.example:8080\r\n")
    assert _SECRET not in str(plan)


@pytest.mark.parametrize(
    ("scheme", "host", "octets"),
    [
        ("socks5h", "h.example", "\x05\x01\x00\x03\x09h.example\x00F"),
        ("socks5h", "10.0.0.1", "\x05\x01\x00\x01\x0a\x00\x00\x01\x00F"),
        ("socks5", "h.example", "\x05\x01\x00\x01\x00\x00\x00\x00\x00F"),
        ("socks5", "[::1]", "\x05\x01\x00\x04" + "\x00" * 15 + "\x01\x00F"),
    ],
)
def test_explain_shows_bytes_of_socks(scheme: str, host: str, octets: str, folder: Path) -> None:
    words = ("--proxy", f"{scheme}://me:{_SECRET}@proxy.example")
    (plan,) = resolve("explain", "--json", *words, f"gopher://{host}/0a").records
    lines = [step["octets"] for step in plan["steps"] if step["action"] == "send"]
    assert lines[:3] == ["\x05\x02\x00\x02", octets, "a\r\n"]
    notes = " ".join(step["text"] for step in plan["steps"] if step["action"] == "note")
    assert ("looked up locally" in notes) is (scheme == "socks5" and host == "h.example")
    assert ("the proxy looks up" in notes) is (scheme == "socks5h")
    assert _SECRET not in str(plan)


# `--cookies`: kept from run to run, with errors for unusable files.


def test_cookies_file_is_kept_between_runs(at: dict[str, str], folder: Path) -> None:
    path = folder / "cookies.txt"
    assert resolve("cat", "--cookies", str(path), f"{at['http']}/about.txt").status == 0
    assert not path.exists(), "nothing was set"
    for _ in range(2):
        done = resolve("cat", "-v", "--cookies", str(path), f"{at['cookies']}/set")
        assert (done.status, path.stat().st_mode & 0o777) == (0, 0o600)
        assert "sekret" not in done.messages, "neither what we are told is shown, nor what we say"
    assert done.out == b"c=sekret"
    first = resolve("info", "-v", f"{at['cookies']}/set")
    assert b"header.set-cookie: c=****; Path=/" in first.out
    assert "sekret" not in first.messages
    port = at["cookies"].rpartition(":")[2]
    assert path.read_text().splitlines()[-1] == f"127.0.0.1:{port}\tFALSE\t/\tFALSE\t0\tc\tsekret"
    (folder / "c.toml").write_text('cookies = "cookies.txt"\n')
    (folder / "c.toml").chmod(0o600)
    assert resolve("cat", "--config", "c.toml", f"{at['cookies']}/set").out == b"c=sekret"


@pytest.mark.parametrize("wide", [True, False])
def test_cookies_file_with_wrong_mode_or_path_is_usage_error(
    at: dict[str, str], folder: Path, wide: bool
) -> None:
    if wide:
        (folder / "cookies.txt").touch()
        (folder / "cookies.txt").chmod(0o644)
    name = "cookies.txt" if wide else "none/cookies.txt"
    done = resolve("get", "--cookies", name, f"{at['http']}/about.txt")
    assert done.status == 2
    assert ("chmod 600" if wide else "no such directory") in done.messages
    assert not (folder / "about.txt").exists()


def test_cookies_file_invalid_line_is_warning(at: dict[str, str], folder: Path) -> None:
    (folder / "cookies.txt").write_text("# mine\nsekret\n")
    (folder / "cookies.txt").chmod(0o600)
    done = resolve("cat", "--cookies", "cookies.txt", f"{at['http']}/about.txt")
    assert done.status == 0
    assert "cookies.txt: warning (cookies): line 2 " in done.messages
    assert "sekret" not in done.messages


def test_unusable_certificate_is_usage_error(at: dict[str, str], folder: Path) -> None:
    """The message is like that for any other missing file of the user."""
    done = resolve("cat", "--cert", "none.pem", f"{at['http']}/about.txt")
    assert (done.status, done.out) == (2, b"")
    assert all(word in done.messages for word in ("--cert 'none.pem'", "No such file"))
    assert done.messages.count("\n") == 1


# `--raw`: `cat` and `get` return the bytes as the server sent them.

#: URLs of each scheme that decodes something, or makes a listing itself.
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
async def test_raw_body_has_only_received_bytes(url: str, at: dict[str, str]) -> None:
    received: list[bytes] = []

    def watch(event: Event) -> None:
        if isinstance(event, Received):
            received.append(event.octets)

    policy = Policy(allow_port=frozenset(range(1, 65_536)))
    async with Resolver(policy=policy, options=Options(raw=True), on_event=watch) as session:
        response = await session.fetch(url.format_map(at))
    assert response.content
    for piece in response.content.split(b"\r\n.\r\n"):  # a list of groups has two blocks
        assert piece in b"".join(received)
    if url.startswith("{gopher}"):
        assert response.content == b"".join(received)


@pytest.mark.parametrize("url", [*URLS, "{prospero}//example"])
def test_raw_cat_and_get_have_same_bytes(url: str, at: dict[str, str], folder: Path) -> None:
    target = url.format_map(at)
    shown = resolve("cat", "-q", "--raw", target)
    assert (shown.status, shown.err) == (0, b"")
    assert resolve("get", "-q", "--raw", "-O", "x", target).status == 0
    assert (folder / "x").read_bytes() == shown.out


@pytest.mark.parametrize(
    ("url", "ending"),
    [("{gopher}/", b"\r\n.\r\n"), ("{nntp}/comp.misc", b"\r\n.\r\n"), ("{ftp}/pub", b"\r\n")],
)
def test_raw_listing_has_received_bytes(url: str, ending: bytes, at: dict[str, str], folder: Path) -> None:
    target = url.format_map(at)
    octets = resolve("cat", "-q", "--raw", target).out
    lines = resolve("ls", "-q", "--raw", target).out  # commands that list entries still list them
    assert octets.endswith(ending)
    assert lines == resolve("ls", "-q", target).out != octets


def test_raw_listing_is_saved_under_url_name(at: dict[str, str], folder: Path) -> None:
    """The user asked for the raw bytes, not for the entries."""
    assert resolve("get", "-q", "--raw", f"{at['ftp']}/pub").status == 0
    assert os.listdir(folder) == ["pub"]


def test_raw_prospero_links_have_received_bytes(at: dict[str, str]) -> None:
    target = f"{at['prospero']}//example"
    lines = resolve("cat", "-q", "--raw", target).out.splitlines()
    entries = resolve("ls", "-q", "--json", target).records
    assert lines == [entry["raw"].encode("latin-1") for entry in entries]
    assert all(line.startswith(b"LINK ") for line in lines)


def test_raw_body_keeps_content_coding(at: dict[str, str], folder: Path) -> None:
    done = resolve("cat", "-q", "--raw", "--trace", "trace", f"{at['http']}/twice")
    assert (done.status, done.out[:2]) == (0, b"\x1f\x8b")
    assert r"Accept-Encoding: identity\r\n" in (folder / "trace").read_text()


def test_explain_raw_shows_identity_encoding(at: dict[str, str]) -> None:
    plan = resolve("explain", "--raw", "http://h.example/").out
    assert b"Accept-Encoding: identity" in plan


# `--limit quota=BYTES`: the run stops, complete files stay, and another run continues.


def test_quota_stops_run_and_next_run_continues(server: HttpServer, tmp_path: Path) -> None:
    urls = [server.url(f"/part/{number}") for number in range(5)]
    words = (
        "get",
        "-j",
        "1",
        "--ledger",
        "ledger",
        "--failed",
        "pending",
        "--allow-port",
        str(server.port),
        *urls,
    )
    before = len(server.requests)
    done = resolve(*words, "--json", "--limit", "quota=250", folder=tmp_path)
    assert done.status == 14
    assert [record["status"] for record in done.records] == ["done", "done", "failed"]
    assert done.records[-1]["error"]["code"] == "LimitExceeded"
    assert "(--limit quota=BYTES)" in done.messages
    assert [request.target for request in server.requests[before:]] == ["/part/0", "/part/1", "/part/2"]
    assert (tmp_path / "pending").read_text().splitlines() == urls[2:]
    assert {path.name for path in tmp_path.iterdir()} == {"0", "1", "ledger", "pending"}
    again = resolve(*words, "--limit", "quota=300", folder=tmp_path)
    assert again.status == 0, again.messages
    assert [(tmp_path / str(number)).read_bytes() for number in range(5)] == [PART.content] * 5


def test_quota_amid_body_keeps_partial_file(server: HttpServer, tmp_path: Path) -> None:
    url, other = server.url("/unannounced"), server.url("/part/0")
    words = ("get", "-j", "1", "--exists", "skip", "--allow-port", str(server.port), url, other)
    done = resolve(*words, "--limit", "quota=300000", folder=tmp_path)
    assert done.status == 14
    assert "0 of 2 saved, 1 failed (exit 14), 1 left" in done.messages
    assert "the quota ended the run: " in done.messages
    assert f"bytes are kept in '{url.rpartition('/')[2]}.part'" in done.messages
    assert not (tmp_path / "unannounced").exists()
    assert 0 < (tmp_path / "unannounced.part").stat().st_size <= 300_000
    assert resolve(*words, folder=tmp_path).status == 0
    assert (tmp_path / "unannounced").read_bytes() == UNANNOUNCED.content


def test_quota_ends_cat_after_complete_bodies(server: HttpServer) -> None:
    urls = [server.url(f"/part/{number}") for number in range(4)]
    done = resolve("cat", "--limit", "quota=200", "--allow-port", str(server.port), *urls)
    assert (done.status, done.out) == (14, PART.content * 2)


def test_quota_in_section_of_host_is_error(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('["h.example"]\nlimits = {quota = "1M"}\n')
    (tmp_path / "config.toml").chmod(0o600)
    done = resolve("config", "--config", "config.toml", folder=tmp_path)
    assert done.status == 2
    assert "quota: cannot be set for a host" in done.messages
