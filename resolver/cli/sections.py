"""Sections of the configuration that are for one host, as the values that the package takes.

The command line counts before a section, and a section, being narrower, before the environment and before
what the file says of all hosts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protocols.location import Url
from protocols.options import Limits
from resolver.cli.bounds import with_limits
from resolver.cli.config import Configuration, ConfiguredValue, HostSection
from resolver.hosts import Host, names_of

#: What says how much a peer may send and how long it may take.
BOUNDS = frozenset({"limit", "max_size", "connect_timeout", "idle_timeout", "max_time", "min_rate"})


def hosts_of(configuration: Configuration) -> dict[str, Host]:
    """What the sections say but logins, which are asked for when they are needed."""
    return {
        name: _host(settings, configuration)
        for name, section in configuration.hosts.items()
        if (settings := _with_wider(name, section, configuration))
    }


def mirrors_of(configuration: Configuration) -> dict[str, tuple[str, ...]]:
    """Where all below a prefix is, too."""
    return {prefix: tuple(setting.value) for prefix, setting in configuration.mirrors.items()}


def mirrors_at(url: Url, configuration: Configuration) -> ConfiguredValue | None:
    """The URLs where that one is, too, by the longest prefix of it."""
    from resolver.retrieval.mirrored import MirrorPrefixes  # few files have a prefix

    found = MirrorPrefixes(mirrors_of(configuration)).find(url) if configuration.mirrors else None
    return None if found is None else configuration.mirrors[found[0]]._replace(value=list(found[1]))


def _with_wider(
    name: str, section: HostSection, configuration: Configuration
) -> Mapping[str, ConfiguredValue]:
    """Of a host and port: with what is said of the host, where it does not say it itself."""
    wider = configuration.hosts.get(name.rpartition(":")[0], HostSection()).settings
    return joined({key: wider[key] for key in BOUNDS & wider.keys()}, section.settings)


def joined(
    wider: Mapping[str, ConfiguredValue], narrower: Mapping[str, ConfiguredValue]
) -> dict[str, ConfiguredValue]:
    """The narrower ones first, and of limits each by its name."""
    both = {**wider, **narrower}
    if "limit" in wider and "limit" in narrower:
        both["limit"] = narrower["limit"]._replace(value=[*wider["limit"].value, *narrower["limit"].value])
    return both


def _host(settings: Mapping[str, ConfiguredValue], configuration: Configuration) -> Host:
    said = {key: setting.value for key, setting in settings.items() if key not in configuration.given}
    return Host(
        limits=_limits(settings, configuration) if BOUNDS & settings.keys() else None,
        proxy=said.get("proxy"),
        certfile=said.get("cert"),
        mirrors=tuple(said.get("mirrors", ())),
    )


def _limits(settings: Mapping[str, ConfiguredValue], configuration: Configuration) -> Limits:
    limits = Limits()
    for layer in (_values(configuration.settings), _values(settings), configuration.given):
        limits = with_limits(limits, layer)
    return limits


def _values(settings: Mapping[str, ConfiguredValue]) -> dict[str, Any]:
    return {key: setting.value for key, setting in settings.items()}


def settings_at(host: str, port: int, configuration: Configuration) -> dict[str, ConfiguredValue]:
    """What sections say of a place, the narrower one first, where the command line does not say it."""
    found: dict[str, ConfiguredValue] = {}
    for name in reversed(names_of(host, port)):
        section = configuration.hosts.get(name, HostSection())
        found = joined(found, section.settings)
    return {key: each for key, each in found.items() if key == "limit" or key not in configuration.given}
