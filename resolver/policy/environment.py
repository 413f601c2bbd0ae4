"""The process environment: proxies, the terminal, the user's directories, and the news server.

Retrieval code reads the environment only here, once per run.
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
    """Return the proxy variables of the environment, with the variables that mark a CGI program.

    `proxy` is the caller's own setting (see `proxy_variables`).
    """
    return proxy_variables(os.environ, proxy)


def own_folder() -> str | None:
    """Return the directory of the user's configuration for this program; None if its base is unknown."""
    home = configuration_home()
    return os.path.join(home, "resolve") if os.path.isabs(home) else None


def configuration_home() -> str:
    """Return the base directory of configuration files; a relative path if it is unknown."""
    return _home("XDG_CONFIG_HOME", "~/.config")


def data_home() -> str:
    """Return the base directory of desktop entries; a relative path if it is unknown."""
    return _home("XDG_DATA_HOME", "~/.local/share")


def state_home() -> str:
    """Return the base directory of state files; a relative path if it is unknown."""
    return _home("XDG_STATE_HOME", "~/.local/state")


def _home(name: str, otherwise: str) -> str:
    """Return the directory that a variable names; a relative value is ignored (XDG Base Directory)."""
    home = os.environ.get(name, "")
    return home if os.path.isabs(home) else os.path.expanduser(otherwise)


def runtime_folder() -> str | None:
    """Return the directory for files that live as long as a process of the user.

    If the system has no such directory, the result is a subdirectory of the state directory.
    """
    for folder in (os.environ.get("XDG_RUNTIME_DIR", ""), state_home()):
        if os.path.isabs(folder):
            return os.path.join(folder, "resolve")
    return None


def colors_here() -> dict[str, str]:
    """Return the color settings: NO_COLOR, LS_COLORS, and the terminal type."""
    return {name: os.environ[name] for name in ("NO_COLOR", "LS_COLORS", "TERM") if name in os.environ}


def state_folder() -> str | None:
    """Return the directory for this program's state between runs; None if its base is unknown."""
    home = state_home()
    return os.path.join(home, "resolve") if os.path.isabs(home) else None


# The news server for a `news:` URL without a server (news page, section 1).
#
# The first of these settings counts: the caller's option, the environment variable NNTPSERVER,
# `/etc/news/server`. No default is used, because in a foreign network a name like `news` belongs to an
# unknown host. `choose` decides from its arguments; `find_setting` reads this machine's settings.

SYSTEM_FILE = "/etc/news/server"
HOW_TO_SET = f"give --news-server HOST[:PORT], set NNTPSERVER, or write one to {SYSTEM_FILE}"
#: Maximum number of characters read from `/etc/news/server`, which holds a name and perhaps a comment.
_MOST = 65_536
_PLACE = re.compile(r"[^/?#@\s]+")


class NewsServerSetting(NamedTuple):
    """A server setting and its source."""

    text: str
    source: str


def needs_server(url: Url) -> bool:
    """Return whether the server of the URL comes from a setting of the user."""
    if getattr(url, "host", None) is not None:
        return False
    row = registry.find(url.scheme)
    return row is not None and row.server


def find_setting(option: str | None) -> NewsServerSetting | None:
    """Return the setting on this machine; the caller's option comes first."""
    settled = option or os.environ.get("NNTPSERVER")
    return choose(option, os.environ, None if settled else _read_system_file())


def choose(
    option: str | None, environment: Mapping[str, str], system_file: str | None
) -> NewsServerSetting | None:
    """Return the first setting; an empty setting counts as absent."""
    if option:
        return NewsServerSetting(option, "--news-server")
    if in_environment := environment.get("NNTPSERVER"):
        return NewsServerSetting(in_environment, "NNTPSERVER")
    word = first_word(system_file or "")
    return None if word is None else NewsServerSetting(word, SYSTEM_FILE)


def first_word(text: str) -> str | None:
    """Return the first token of the first line that is neither empty nor a comment."""
    for line in text.splitlines():
        words = line.split()
        if words and not words[0].startswith("#"):
            return words[0]
    return None


def server_of(setting: NewsServerSetting | None, scheme: str) -> NewsServer:
    """Return the server of a setting: `host`, `host:port` or `[v6]:port`, parsed as in a URL.

    Raises:
        NotConfigured: there is no setting, or it is not a server.
    """
    if setting is None:
        raise NotConfigured(f"{scheme} URLs without a server need one: {HOW_TO_SET}")
    shown = setting.text if "@" not in setting.text else f"****@{setting.text.rpartition('@')[2]}"
    complaint = f"{setting.source}: {shown!r} is not a news server; expected HOST, HOST:PORT or [IPV6]:PORT"
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
        return None  # most machines do not have the file
