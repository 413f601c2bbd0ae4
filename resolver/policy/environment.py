"""The process environment: proxy variables, terminal, directories of the user, and news server.

The retrieval code reads environment variables only in this module, once per run.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from protocols.authority import parse_login
from protocols.errors import InvalidUrl, NotConfigured
from protocols.location import Url, UrlText
from resolver.policy.proxies import proxy_variables
from resolver.policy.subject import NewsServer
from resolver.url import registry


def read_proxies(proxy: str | None = None) -> dict[str, str]:
    """Return the proxy variables of the environment, and the variables that mark a CGI program.

    `proxy` is the proxy that the caller configured (see `proxy_variables`).
    """
    return proxy_variables(os.environ, proxy)


def config_folder() -> str | None:
    """Return the configuration directory of this program, or None if the base directory is unknown."""
    home = configuration_home()
    return os.path.join(home, "resolve") if os.path.isabs(home) else None


def configuration_home() -> str:
    """Return the base directory of configuration files, or a relative path if the directory is unknown."""
    return _home("XDG_CONFIG_HOME", "~/.config")


def data_home() -> str:
    """Return the base directory of desktop entries, or a relative path if the directory is unknown."""
    return _home("XDG_DATA_HOME", "~/.local/share")


def state_home() -> str:
    """Return the base directory of state files, which is a relative path if it is unknown."""
    return _home("XDG_STATE_HOME", "~/.local/state")


def _home(name: str, otherwise: str) -> str:
    """Return the directory from an environment variable (XDG Base Directory), ignoring a relative path."""
    home = os.environ.get(name, "")
    return home if os.path.isabs(home) else os.path.expanduser(otherwise)


def runtime_folder() -> str | None:
    """Return the directory for runtime files (`XDG_RUNTIME_DIR`), or else for state files."""
    for folder in (os.environ.get("XDG_RUNTIME_DIR", ""), state_home()):
        if os.path.isabs(folder):
            return os.path.join(folder, "resolve")
    return None


def read_colors() -> dict[str, str]:
    """Return the environment variables for colors: NO_COLOR, LS_COLORS and TERM."""
    return {name: os.environ[name] for name in ("NO_COLOR", "LS_COLORS", "TERM") if name in os.environ}


def state_folder() -> str | None:
    """Return the directory for this program's state files, or None if the base directory is unknown."""
    home = state_home()
    return os.path.join(home, "resolve") if os.path.isabs(home) else None


# The news server for a `news:` URL without a host (news page, section 1).
#
# The caller's option takes precedence over the environment variable NNTPSERVER, and the variable takes
# precedence over the file `/etc/news/server`. A default host name like `news` is not used, because in a
# foreign network the name belongs to an unknown party.

SYSTEM_FILE = "/etc/news/server"
SERVER_HELP = f"give --news-server HOST[:PORT], set NNTPSERVER, or write one to {SYSTEM_FILE}"
#: The maximum number of characters that are read from `/etc/news/server`. The file normally contains only a
#: host name and perhaps a comment.
_MAX_SETTING = 65_536
_PLACE = r"[^/?#@\s]+"


class NewsServerSetting(NamedTuple):
    """A configured news server, and the option, variable or file that contains the setting."""

    text: str
    source: str


def needs_server(url: Url) -> bool:
    """Return whether the URL has no host, so that the server of the configuration is used."""
    if getattr(url, "host", None) is not None:
        return False
    row = registry.find(url.scheme)
    return row is not None and row.server


def find_setting(option: str | None) -> NewsServerSetting | None:
    """Return the first news server that the option or this machine sets. An empty value is ignored."""
    if option:
        return NewsServerSetting(option, "--news-server")
    if in_environment := os.environ.get("NNTPSERVER"):
        return NewsServerSetting(in_environment, "NNTPSERVER")
    word = first_word(_read_system_file())
    return None if word is None else NewsServerSetting(word, SYSTEM_FILE)


def first_word(text: str) -> str | None:
    """Return the first token of the first line that is not blank and not a comment."""
    for line in text.splitlines():
        words = line.split()
        if words and not words[0].startswith("#"):
            return words[0]
    return None


def parse_server(setting: NewsServerSetting | None, scheme: str) -> NewsServer:
    """Return the server in a setting: `host`, `host:port` or `[v6]:port`.

    The setting is parsed like the host of a URL.

    Raises:
        NotConfigured: no server is configured, or the value is not a server.
    """
    if setting is None:
        raise NotConfigured(f"{scheme} URLs without a server need one: {SERVER_HELP}")
    shown = setting.text if "@" not in setting.text else f"****@{setting.text.rpartition('@')[2]}"
    message = f"{setting.source}: {shown!r} is not a news server; expected HOST, HOST:PORT or [IPV6]:PORT"
    if re.fullmatch(_PLACE, setting.text) is None:
        raise NotConfigured(message)
    row = registry.find(scheme)
    assert row is not None
    written = f"//{setting.text}/"
    try:
        login, _ = parse_login(UrlText(written, scheme, 0, len(written), row.default_port))
    except InvalidUrl as error:
        raise NotConfigured(f"{message} ({error.kind})") from error
    return NewsServer(login["host"], login["default_port"] if login["port"] is None else login["port"])


def _read_system_file() -> str:
    try:
        with open(SYSTEM_FILE, encoding="utf-8", errors="replace") as file:
            return file.read(_MAX_SETTING)
    except OSError:
        return ""  # the file `/etc/news/server` does not exist, as on most machines
