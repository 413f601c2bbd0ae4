"""The command `serve`: a local web UI, and the registration of desktop handlers for URL schemes.

The entry URL is printed on standard output. It is valid for one use. Refused requests are logged on standard
error.
"""

from __future__ import annotations

import json
import os
import os.path
import re
import signal
import subprocess
import sys
import webbrowser
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import trio

from protocols.contract import Url
from protocols.errors import LocalError, NotConfigured, UnsupportedScheme, missing_libraries
from protocols.text import Masked, own_text
from resolver.cli import streams
from resolver.cli.arguments import Command, listens_to_others
from resolver.cli.config import get_mirrors, make_host_settings
from resolver.cli.options import rows
from resolver.cli.recording import open_archive
from resolver.cli.session_settings import make_limits, make_options, make_policy
from resolver.cli.targets import CommandTarget
from resolver.cli.vocabulary import MISSING_EXTRA, RULES, STATUS_BY_SIGNAL, STATUSES
from resolver.files import atomic as plain_file
from resolver.files.atomic import write_temporary
from resolver.policy.environment import (
    configuration_home,
    data_home,
    runtime_folder,
    state_folder,
    state_home,
)
from resolver.policy.judgment import judge
from resolver.transfer.session import Resolver
from resolver.transfer.settings import Settings

if TYPE_CHECKING:
    from resolver.transfer.archives import ArchiveSource
    from resolver.web.access import Certificate
    from resolver.web.own_pages import OwnPageFacts
    from resolver.web.server import ServeOptions, WebServer


# The start of the user's browser.
#
# All users of the machine can read the command line of each process. The command line of the browser must
# therefore not contain a URL with a token. Instead, the browser opens a local page that only the user can
# read. The page redirects to the URL with the token.

#: The time in seconds until the redirect page is removed. The token of the page is valid for the same time.
#: Within this time, a browser must start and read the page.
_PAGE_LIFETIME = 60.0
_PAGE = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url={address}">
<title>resolve</title>
<p><a href="{address}">Continue to resolve</a></p>
"""


async def open_browser(address: str) -> None:
    """Open the URL `address` in a browser, or print the URL if no browser can be started."""
    is_open = False
    page = _write_redirect_page(address)
    if page is not None:
        with suppress(webbrowser.Error):
            is_open = await trio.to_thread.run_sync(webbrowser.open, page, abandon_on_cancel=True)
    if not is_open:
        streams.print_line(address)
        streams.flush()


def _write_redirect_page(address: str) -> str | None:
    """Write the redirect page and return its URL, or None if the file cannot be written."""
    folder = runtime_folder()
    if folder is None:
        return None
    octets = _PAGE.format(address=escape(address)).encode()
    try:
        path = write_temporary(folder, ".entry.html", "redirect page for the browser", octets, _PAGE_LIFETIME)
    except LocalError as error:
        streams.complain(error.message)
        return None
    return Path(path).as_uri()


#: The signal on which the server prints a new entry URL.
_ENTRY_SIGNAL = signal.SIGUSR1
#: Options that do not affect the pages of the server. If the user sets only these options, the command uses
#: an already running server.
_OTHER_OPTIONS = frozenset({"open", "quiet", "silent", "config"})


def perform(command: Command) -> int:
    """Run the server until a signal arrives, and return the exit status. Raises `ResolveError`."""
    try:
        import resolver.web.server  # noqa: F401
    except ModuleNotFoundError:
        streams.complain(Masked(f"serve needs {missing_libraries('web')}"))
        return MISSING_EXTRA
    if command.register or command.unregister:
        trio.run(unregister if command.unregister else register, command.is_quiet)
        return 0
    with open_archive(command) as archive:  # before the event loop starts, so that Ctrl-C is handled
        return trio.run(_serve, command, archive)


async def _serve(command: Command, archive: ArchiveSource | None) -> int:
    from resolver.web.running import find_entry
    from resolver.web.server import run_server

    if not command.configuration.options.keys() - _OTHER_OPTIONS:
        running = await trio.to_thread.run_sync(find_entry)
        if running is not None:
            return await _use_running(command, running[0].process, running[1])
    status = 0
    with trio.open_signal_receiver(*STATUS_BY_SIGNAL, _ENTRY_SIGNAL) as signals:
        async with run_server(make_serve_options(command, archive)) as server:
            with announce_server(server, command):
                streams.print_line(server.entry())
                streams.flush()
                if command.open:
                    await open_browser(server.entry())
                status = await _wait_for_stop(signals, server)
    return status


async def _use_running(command: Command, process: int, address: str) -> int:
    """Open or print the entry URL of the running server."""
    if not command.is_quiet:
        streams.complain(Masked(f"a server is already running (process {process}); its settings apply"))
    if command.open:
        await open_browser(address)
    else:
        streams.print_line(address)
    return 0


@contextmanager
def announce_server(server: WebServer, command: Command) -> Iterator[None]:
    """Announce the server to `resolve open` during the block; of several, the first one is found."""
    from resolver.web.running import announce_server

    if command.listen is not None or command.from_warc:  # `resolve open` must not use this server
        yield
        return
    with ExitStack() as stack:
        try:
            stack.enter_context(announce_server(server.site.port, server.site.keys.start))
        except LocalError as error:
            if not command.is_quiet:
                streams.complain(Masked(f"resolve open cannot find this server: {error.message}"))
        yield


async def _wait_for_stop(signals: AsyncIterator[int], server: WebServer) -> int:
    async for number in signals:
        if number == _ENTRY_SIGNAL:
            streams.print_line(server.entry())
            streams.flush()
            continue
        return STATUS_BY_SIGNAL[number]
    return 0


def make_serve_options(command: Command, archive: ArchiveSource | None = None) -> ServeOptions:
    """Return the server's options. Raises `UsageError`.

    With an `archive`, the server reads all content from the archive, not from the network.
    """
    from resolver.web.access import LOOPBACK
    from resolver.web.server import ServeOptions

    return ServeOptions(
        Settings(**make_settings(command), archive=archive),
        port=command.port,
        address=command.listen or LOOPBACK,
        is_public=listens_to_others(command),
        certificate=_certificate(command.listen_cert),
        size=command.page_size,
        facts=_make_page_facts(command),
        ledger=None if (state := state_folder()) is None else os.path.join(state, "transfers.db"),
        log=(lambda line: None) if command.is_quiet else streams.log,
    )


def _certificate(names: str | None) -> Certificate | None:
    """Return the certificate and the key, which are in one file or in two files."""
    from resolver.web.access import Certificate

    if names is None:
        return None
    chain, _, key = names.partition(",")
    return Certificate(chain, key or chain)


def _make_page_facts(command: Command) -> OwnPageFacts:
    """Return the data about this command that the server's own pages display."""
    from resolver.web.own_pages import OwnPageFacts
    from resolver.web.pages.own import RuleRow
    from resolver.web.pages.page import FactRow

    rules = [RuleRow(rule.name, rule.sentence, rule.options) for rule in RULES]
    sources = command.configuration.sources
    shown = [row for row in rows() if "serve" in row.verbs.split() and sources.get(row.name) != "default"]
    facts = [FactRow(row.long, f"set by {sources[row.name]}") for row in shown]
    policy = FactRow("policy", command.policy)
    return OwnPageFacts(rules, STATUSES, [policy, FactRow("rows per page", str(command.page_size)), *facts])


def make_settings(command: Command) -> Settings:
    """Return the settings for requests of the web UI."""
    policy = make_policy(command)
    return Settings(
        policy=policy,
        limits=make_limits(command),
        gateways=command.gateways,
        cafile=command.cacert,
        family=command.family,
        strict=command.strict,
        # listing pages have columns for the details of each entry
        options=replace(make_options(command, policy, keep=True), detailed=True),
        news_server=command.news_server,
        proxy=command.proxy,
        rate=command.rate,
        hosts=make_host_settings(command.configuration),
        mirrored=get_mirrors(command.configuration),
    )


# `serve --register` registers this command as the desktop's handler for the URL schemes that browsers no
# longer support. The specifications are Desktop Entry and MIME Applications (freedesktop.org). `--unregister`
# restores the previous handlers.
#
# Files are written only in the user's own directories. A state file stores the previous handlers.

SCHEMES = ("gopher", "ftp", "news", "nntp", "wais", "prospero")
NAME = "resolve-url.desktop"

#: Characters that require quotes around an argument of Exec. `_ESCAPED` are the characters to escape inside
#: the quotes.
_RESERVED = re.compile(r"[ \t\"'\\><~|&;$*?#()`]")
_ESCAPED = re.compile(r'["`$\\]')
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_LIST = "mimeapps.list"


class DesktopState(NamedTuple):
    """The handlers of the desktop before `--register`, for `--unregister`.

    Attributes:
        handlers: the previous handler of each scheme.
        missing: paths of the handler lists that did not exist.
    """

    handlers: dict[str, str]
    missing: list[str]


async def register(quiet: bool) -> None:
    """Register this command as the desktop's handler of URL schemes.

    Raises `LocalError`, for example if the desktop cannot run the program from its path.
    """
    entry = desktop_entry(_program_words())  # an invalid program path raises before any file is written
    _check_paths()
    before = _read_state() or DesktopState(
        {}, [path for path in _list_paths() if plain_file.read(path) is None]
    )
    if await _run("xdg-mime", "--version") is not None:
        for scheme in SCHEMES:
            if (handler := await _query_handler(scheme)) != NAME:
                before.handlers[scheme] = handler
    plain_file.write_whole(_state(), json.dumps(before._asdict()).encode() + b"\n", mode=None, follow=False)
    plain_file.write_whole(_entry(), entry, mode=None, follow=False)
    await _update_database()
    if not await _run("xdg-mime", "default", NAME, *map(_mime_type, SCHEMES)) and not quiet:
        streams.complain(
            Masked("cannot set the default handler: xdg-mime failed (choose resolve in the desktop settings)")
        )
    if not quiet:
        words = f"{', '.join(SCHEMES)} URLs open with: {' '.join(_program_words())} open ({_entry()})"
        streams.complain(own_text(words))


async def unregister(quiet: bool) -> None:
    """Restore the previous handlers. Raises `LocalError`.

    If the user has changed the handler of a scheme after the registration, the handler is not replaced.
    """
    _check_paths()
    before = _read_state() or DesktopState({}, [])
    for scheme, handler in before.handlers.items():
        if handler and await _query_handler(scheme) == NAME:
            await _run("xdg-mime", "default", handler, _mime_type(scheme))
    for path in _list_paths():
        _remove_entries(path, is_own=path in before.missing)
    plain_file.drop_file(_entry())
    await _update_database()
    plain_file.drop_file(_state())
    if not quiet:
        streams.complain(Masked("removed the handlers that --register installed"))


def _check_paths() -> None:
    """Raise `NotConfigured` if a path is relative, because the variable HOME is not set."""
    for path in (_entry(), _state(), *_list_paths()):
        if not os.path.isabs(path):
            raise NotConfigured("cannot locate the desktop files: no home directory")


def desktop_entry(words: Iterable[str]) -> bytes:
    """Return the content of the desktop file; its Exec line has the URL as one argument after `--`."""
    lines = (
        "[Desktop Entry]",
        "Type=Application",
        "Name=resolve",
        f"Exec={' '.join(map(quote_argument, words))} open -- %u",
        "Terminal=false",
        "NoDisplay=true",
        f"MimeType={''.join(f'{_mime_type(scheme)};' for scheme in SCHEMES)}",
    )
    return "".join(f"{line}\n" for line in lines).encode()


def quote_argument(word: str) -> str:
    """Quote an argument of Exec, then escape the result as a string of a desktop file.

    Raises `NotConfigured` for an empty argument or one with control characters.
    """
    if not word or _CONTROL.search(word):
        raise NotConfigured(f"a desktop file cannot contain the argument {word!r}")
    quoted = f'"{_ESCAPED.sub(_escape, word)}"' if _RESERVED.search(word) else word
    return quoted.replace("\\", "\\\\").replace("%", "%%")


def _escape(match: re.Match[str]) -> str:
    return f"\\{match[0]}"


def _program_words() -> list[str]:
    """Return the command line of this program, with the program's absolute path."""
    program = os.path.abspath(sys.argv[0])
    words = [program] if os.path.basename(program) == "resolve" else [sys.executable, "-m", "resolver"]
    if "=" in words[0]:
        raise NotConfigured(f"a desktop file cannot contain the program {words[0]!r}: the path has =")
    return words


def remove_handler(octets: bytes) -> bytes:
    """Return the content of a handler list without the entries of this program."""
    name = NAME.encode()
    lines = []
    for line in octets.splitlines(keepends=True):
        key, equals, values = line.partition(b"=")
        handlers = values.strip().split(b";")
        if not equals or name not in handlers:
            lines.append(line)
        elif others := [handler for handler in handlers if handler not in (name, b"")]:
            lines.append(key + b"=" + b"".join(handler + b";" for handler in others) + b"\n")
    return b"".join(lines)


def _remove_entries(path: str, *, is_own: bool) -> None:
    octets = plain_file.read(path)
    if octets is None:
        return
    rest = remove_handler(octets)
    if is_own and all(line[:1] in (b"", b"[") for line in rest.split(b"\n")):
        plain_file.drop_file(path)
    elif rest != octets:
        plain_file.write_whole(path, rest, mode=None)


def _read_state() -> DesktopState | None:
    """Return the state that an earlier run stored, or None."""
    octets = plain_file.read(_state())
    try:
        state = None if octets is None else json.loads(octets)
    except (ValueError, RecursionError):
        return None
    match state:
        case {"handlers": dict(handlers), "missing": list(missing)}:
            return DesktopState(
                {str(key): str(value) for key, value in handlers.items()}, list(map(str, missing))
            )
    return None


def _list_paths() -> list[str]:
    """Return the paths of the handler lists (`mimeapps.list`, `defaults.list`) of desktops and `xdg-mime`."""
    folder = os.path.join(data_home(), "applications")
    lists = (os.path.join(folder, _LIST), os.path.join(folder, "defaults.list"))
    return [os.path.join(configuration_home(), _LIST), *lists]


def _entry() -> str:
    return os.path.join(data_home(), "applications", NAME)


def _state() -> str:
    return os.path.join(state_home(), "resolve", "handlers.json")


def _mime_type(scheme: str) -> str:
    return f"x-scheme-handler/{scheme}"


async def _query_handler(scheme: str) -> str:
    return (await _run("xdg-mime", "query", "default", _mime_type(scheme)) or "").strip()


async def _update_database() -> None:
    await _run("update-desktop-database", os.path.dirname(_entry()))


async def _run(*words: str) -> str | None:
    """Run a desktop program and return its output, or None if the program is missing or fails."""
    try:
        process = await trio.run_process(
            words, capture_stdout=True, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        )
    except OSError:
        return None
    return process.stdout.decode("utf-8", "replace") if process.returncode == 0 else None


async def browse(session: Resolver, url: Url, target: CommandTarget, command: Command) -> None:
    """Open the web page of a URL in a browser.

    If no server is running, this function starts a server. The server runs until a signal arrives. The page
    describes the request before the request is sent.

    Raises:
        Refused: the URL is not from the user, and the policy refuses URLs of its origin.
        UnsupportedScheme: the extra `web` is missing.
    """
    if target.origin != "user":  # the web UI would treat the URL as if the user had typed it
        error = judge(url, session.policy, origin=target.origin).error(url)
        if error is not None:
            raise error
    from resolver.web.running import find_entry

    is_online = session.archive is None  # a running server fetches from the network, not from an archive
    running = await trio.to_thread.run_sync(find_entry, url.text) if is_online else None
    if running is None:
        return await _serve_page(url, command, session.archive)
    instance, address = running
    if not command.is_quiet:
        streams.complain(
            Masked(f"opened in the running server (process {instance.process}), with its settings")
        )
    await open_browser(address)


async def _serve_page(url: Url, command: Command, archive: ArchiveSource | None) -> None:
    try:
        from resolver.web.server import run_server
    except ModuleNotFoundError as error:
        message = f"the web UI needs {missing_libraries('web')}"
        raise UnsupportedScheme(url.scheme, message, url=url.shown) from error
    from resolver.web.access import LOOPBACK

    options = make_serve_options(command, archive)._replace(
        address=LOOPBACK, is_public=False, certificate=None
    )
    async with run_server(options) as server:
        with announce_server(server, command):
            if not command.is_quiet:
                reason = Masked(
                    "no server is running" if archive is None else "the archive needs a separate server"
                )
                streams.complain(Masked(f"{reason}: serving until interrupted"))
            await open_browser(server.entry(url.text))
            await trio.sleep_forever()
