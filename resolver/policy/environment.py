"""The process environment: proxies, the terminal, and the user's directories for files of programs.

No other module reads it; it is read once a run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from protocols.authority import parse_login
from protocols.errors import InvalidUrl, NotConfigured
from protocols.location import Url, UrlText
from resolver.policy.proxies import proxy_variables
from resolver.policy.subject import NewsServer
from resolver.url import registry


def proxies_here(proxy: str | None = None) -> dict[str, str]:
    """The proxy variables that are set, and what shows that this is a CGI program; and the `proxy` that the
    caller names (see `proxy_variables`)."""
    return proxy_variables(os.environ, proxy)


def own_folder() -> str | None:
    """Where the person's files for this program stand, if anywhere."""
    home = configuration_home()
    return os.path.join(home, "resolve") if os.path.isabs(home) else None


def configuration_home() -> str:
    """Where programs keep what a person chose; relative where nobody knows."""
    return _home("XDG_CONFIG_HOME", "~/.config")


def data_home() -> str:
    """Where a person's desktop finds its programs; relative where nobody knows."""
    return _home("XDG_DATA_HOME", "~/.local/share")


def state_home() -> str:
    """Where programs keep what they did; relative where nobody knows."""
    return _home("XDG_STATE_HOME", "~/.local/state")


def _home(name: str, otherwise: str) -> str:
    """A relative directory is none (XDG Base Directory)."""
    home = os.environ.get(name, "")
    return home if os.path.isabs(home) else os.path.expanduser(otherwise)


def runtime_folder() -> str | None:
    """Where it stands what lives as long as a process of this person; below the state of programs, where the
    system has no place for that."""
    for folder in (os.environ.get("XDG_RUNTIME_DIR", ""), state_home()):
        if os.path.isabs(folder):
            return os.path.join(folder, "resolve")
    return None


def colours_here() -> dict[str, str]:
    """What is said of colours: NO_COLOR, LS_COLORS, and the terminal's kind."""
    return {name: os.environ[name] for name in ("NO_COLOR", "LS_COLORS", "TERM") if name in os.environ}


def state_folder() -> str | None:
    """Where it stands what this program remembers from one run to another and no person writes, if anywhere:
    as `own_folder`."""
    home = state_home()
    return os.path.join(home, "resolve") if os.path.isabs(home) else None


# news server: Which server to ask for a `news:` URL that names none (news page, section 1).
#
# The first of: what the caller says, the environment variable NNTPSERVER, `/etc/news/server`. There is no
# guess behind them: a name like `news` belongs to a stranger in a strange network. `choose` decides on what
# it is given; `find_setting` looks on this machine.

SYSTEM_FILE = "/etc/news/server"
HOW_TO_SET = f"give --news-server HOST[:PORT], set NNTPSERVER, or write one to {SYSTEM_FILE}"
#: Octets of that file that are looked at: it holds a name and perhaps a comment.
_MOST = 65_536
_PLACE = re.compile(r"[^/?#@\s]+")


class NewsServerSetting(NamedTuple):
    """A server as it was written down, and where."""

    text: str
    source: str


def needs_server(url: Url) -> bool:
    """Is this a URL whose server is a setting of the user's?"""
    if getattr(url, "host", None) is not None:
        return False
    row = registry.find(url.scheme)
    return row is not None and row.server


def find_setting(option: str | None) -> NewsServerSetting | None:
    """What is set on this machine, by the caller first of all."""
    settled = option or os.environ.get("NNTPSERVER")
    return choose(option, os.environ, None if settled else _read_system_file())


def choose(
    option: str | None, environment: Mapping[str, str], system_file: str | None
) -> NewsServerSetting | None:
    """The first of what is set; an empty setting is none."""
    if option:
        return NewsServerSetting(option, "--news-server")
    if in_environment := environment.get("NNTPSERVER"):
        return NewsServerSetting(in_environment, "NNTPSERVER")
    word = first_word(system_file or "")
    return None if word is None else NewsServerSetting(word, SYSTEM_FILE)


def first_word(text: str) -> str | None:
    """The first word of the first line that is neither empty nor a comment."""
    for line in text.splitlines():
        words = line.split()
        if words and not words[0].startswith("#"):
            return words[0]
    return None


def server_of(setting: NewsServerSetting | None, scheme: str) -> NewsServer:
    """The server: `host`, `host:port` or `[v6]:port`, by the rules of a URL's. Raises `NotConfigured`
    where none is set, and for a setting that names none."""
    if setting is None:
        raise NotConfigured(f"{scheme} URLs without a server need one: {HOW_TO_SET}")
    shown = setting.text if "@" not in setting.text else f"****@{setting.text.rpartition('@')[2]}"
    complaint = f"{setting.source}: {shown!r} is no news server; HOST, HOST:PORT or [IPV6]:PORT is one"
    if _PLACE.fullmatch(setting.text) is None:
        raise NotConfigured(complaint)
    row = registry.find(scheme)
    assert row is not None
    written = f"//{setting.text}/"
    try:
        place, _ = parse_login(UrlText(written, scheme, 0, len(written), row.default_port))
    except InvalidUrl as error:
        raise NotConfigured(f"{complaint} ({error.kind})") from error
    return NewsServer(place["host"], place["default_port"] if place["port"] is None else place["port"])


def _read_system_file() -> str | None:
    try:
        with open(SYSTEM_FILE, encoding="utf-8", errors="replace") as file:
            return file.read(_MOST)
    except OSError:
        return None  # most machines have none
