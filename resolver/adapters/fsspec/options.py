"""What a file system is told (`storage_options`) and what a `Resolver` makes of it.

fsspec tells file systems apart by what is written of their options, and gives the one that it has to whoever
writes the same. So nothing may be given that has a secret which it does not show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast
from urllib.parse import unquote

import resolver

#: Of fsspec's own, which every file system may be told.
_FSSPEC = frozenset(
    {"asynchronous", "loop", "listings_expiry_time", "max_paths", "use_listings_cache", "batch_size"}
)


def settings_of(options: Mapping[str, Any]) -> resolver.Settings:
    """The settings of a `Resolver` without those that fsspec knows.

    Raises `TypeError` and `ValueError`, here or when the `Resolver` is made.
    """
    given = {name: value for name, value in options.items() if name not in _FSSPEC}
    _check_written(given)
    settings = cast(resolver.Settings, given)  # whose names a `Resolver` checks
    settings["options"] = replace(settings.get("options") or resolver.Options(), keep=True, detailed=True)
    return settings


def _check_written(settings: Mapping[str, Any]) -> None:
    if "on_event" in settings:
        raise TypeError("a file system tells no events: give get and its like a callback of fsspec's")
    if "credentials" in settings:
        raise TypeError("give username and password, with their host, or write them into the URL")
    options = settings.get("options")
    if options is not None and (options.headers or options.login):
        raise TypeError("give headers by themselves: what is in options is not written")


def login_of(
    scheme: str, host: str | None, port: int | None, username: str | None, password: str | None
) -> dict[tuple[str, str, int], resolver.Credentials] | None:
    """The credentials, for their one place and for no other (S11)."""
    if password is None:
        return None
    if host is None:
        raise TypeError("a password is for one host: give host, too, or a URL with all of it")
    url = resolver.parse(place(scheme, host, port))
    assert isinstance(url, resolver.HostUrl)
    user = (username or "").encode()
    return {(url.scheme, url.host, url.effective_port): resolver.Credentials(user, password.encode())}


def place(scheme: str, host: str, port: int | None) -> str:
    authority = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{scheme}://{authority}{'' if port is None else f':{port}'}/"


def options_in(scheme: str, url: str) -> dict[str, str | int]:
    """What of the storage options stands in a URL: with a password, whose it is and where it counts."""
    login, _, place = url.partition("://")[2].partition("/")[0].rpartition("@")
    username, colon, password = login.partition(":")
    if not colon:
        return {}
    parsed = resolver.parse(f"{scheme}://{place}/")
    assert isinstance(parsed, resolver.HostUrl)
    found: dict[str, str | int] = {
        "host": parsed.host,
        "username": unquote(username),
        "password": unquote(password),
    }
    return found if parsed.port is None else {**found, "port": parsed.port}
