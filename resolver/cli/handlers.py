"""`serve --register`: other programs of the person's desktop open with this command what browsers dropped, as
the Desktop Entry and MIME Applications specifications have it; and `--unregister`, after which all is as it
was.

Nothing but the person's own directories is written to. What was asked before stands in a file of ours.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable

import trio

from protocols.errors import NotConfigured
from protocols.values import NamedTuple
from resolver.cli import streams
from resolver.disk import plain_file
from resolver.environment import configuration_home, data_home, state_home

SCHEMES = ("gopher", "ftp", "news", "nntp", "wais", "prospero")
NAME = "resolve-url.desktop"

#: What has to be quoted in an argument of Exec, and what is escaped within the quotes.
_RESERVED = re.compile(r"[ \t\"'\\><~|&;$*?#()`]")
_ESCAPED = re.compile(r'["`$\\]')
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_LIST = "mimeapps.list"


class DesktopState(NamedTuple):
    """What was so before: what opened a scheme, and which lists there were not."""

    handlers: dict[str, str]
    missing: list[str]


async def register(quiet: bool) -> None:
    """Raises `LocalError`, also for a place that no desktop file can name."""
    entry = desktop_entry(_words())  # before anything is written
    _check_places()
    before = _kept() or DesktopState({}, [path for path in _lists() if plain_file.read(path) is None])
    if await _has("xdg-mime"):
        for scheme in SCHEMES:
            if (opens := await _asked(scheme)) != NAME:
                before.handlers[scheme] = opens
    plain_file.put(_state(), json.dumps(before._asdict()).encode() + b"\n")
    plain_file.put(_entry(), entry)
    await _renew()
    if not await _run("xdg-mime", "default", NAME, *map(_kind, SCHEMES)) and not quiet:
        streams.complain("there is no xdg-mime that works: choose resolve in the settings of the desktop")
    if not quiet:
        streams.complain(f"{', '.join(SCHEMES)} URLs open with: {' '.join(_words())} open ({_entry()})")


async def unregister(quiet: bool) -> None:
    """What was chosen otherwise meanwhile stays. Raises `LocalError`."""
    _check_places()
    before = _kept() or DesktopState({}, [])
    for scheme, opened in before.handlers.items():
        if opened and await _asked(scheme) == NAME:
            await _run("xdg-mime", "default", opened, _kind(scheme))
    for path in _lists():
        _leave(path, made_by_us=path in before.missing)
    plain_file.take_away(_entry())
    await _renew()
    plain_file.take_away(_state())
    if not quiet:
        streams.complain("nothing opens with resolve any more that --register had it open")


def _check_places() -> None:
    """Raises `NotConfigured` where nobody knows of a place."""
    for path in (_entry(), _state(), *_lists()):
        if not os.path.isabs(path):
            raise NotConfigured("no home directory is known, and so no place for programs of the desktop")


def desktop_entry(words: Iterable[str]) -> bytes:
    """The file. The URL comes as one argument, behind what ends options."""
    lines = (
        "[Desktop Entry]",
        "Type=Application",
        "Name=resolve",
        f"Exec={' '.join(map(argument, words))} open -- %u",
        "Terminal=false",
        "NoDisplay=true",
        f"MimeType={''.join(f'{_kind(scheme)};' for scheme in SCHEMES)}",
    )
    return "".join(f"{line}\n" for line in lines).encode()


def argument(word: str) -> str:
    """A word of Exec: quoted by its own rules, then escaped as every text of such a file is. Raises
    `NotConfigured` for what would be another line, or nothing at all."""
    if not word or _CONTROL.search(word):
        raise NotConfigured(f"no desktop file can name {word!r}")
    quoted = f'"{_ESCAPED.sub(_escape, word)}"' if _RESERVED.search(word) else word
    return quoted.replace("\\", "\\\\").replace("%", "%%")


def _escape(found: re.Match[str]) -> str:
    return f"\\{found[0]}"


def _words() -> list[str]:
    """How this program is started, wherever the desktop is."""
    program = os.path.abspath(sys.argv[0])
    words = [program] if os.path.basename(program) == "resolve" else [sys.executable, "-m", "resolver"]
    if "=" in words[0]:
        raise NotConfigured(f"no desktop file can name {words[0]!r}: there is = in it")
    return words


def without(octets: bytes) -> bytes:
    """A list of what opens what, without us."""
    name = NAME.encode()
    kept = []
    for line in octets.splitlines(keepends=True):
        key, equals, values = line.partition(b"=")
        found = values.strip().split(b";")
        if not equals or name not in found:
            kept.append(line)
        elif others := [each for each in found if each not in (name, b"")]:
            kept.append(key + b"=" + b"".join(each + b";" for each in others) + b"\n")
    return b"".join(kept)


def _leave(path: str, *, made_by_us: bool) -> None:
    octets = plain_file.read(path)
    if octets is None:
        return
    left = without(octets)
    if made_by_us and all(line[:1] in (b"", b"[") for line in left.split(b"\n")):
        plain_file.take_away(path)
    elif left != octets:
        plain_file.put_through(path, left)


def _kept() -> DesktopState | None:
    """What an earlier run wrote down."""
    octets = plain_file.read(_state())
    try:
        said = None if octets is None else json.loads(octets)
    except ValueError:
        return None
    match said:
        case {"handlers": dict(handlers), "missing": list(missing)}:
            return DesktopState(
                {str(key): str(value) for key, value in handlers.items()}, list(map(str, missing))
            )
    return None


def _lists() -> list[str]:
    """Where desktops and `xdg-mime` keep what a person chose."""
    folder = os.path.join(data_home(), "applications")
    lists = (os.path.join(folder, _LIST), os.path.join(folder, "defaults.list"))
    return [os.path.join(configuration_home(), _LIST), *lists]


def _entry() -> str:
    return os.path.join(data_home(), "applications", NAME)


def _state() -> str:
    return os.path.join(state_home(), "resolve", "handlers.json")


def _kind(scheme: str) -> str:
    return f"x-scheme-handler/{scheme}"


async def _asked(scheme: str) -> str:
    return (await _run("xdg-mime", "query", "default", _kind(scheme)) or "").strip()


async def _renew() -> None:
    await _run("update-desktop-database", os.path.dirname(_entry()))


async def _has(program: str) -> bool:
    return await _run(program, "--version") is not None


async def _run(*words: str) -> str | None:
    """What a program of the desktop says; None where it is not there, or fails."""
    try:
        done = await trio.run_process(
            words, capture_stdout=True, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        )
    except OSError:
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
