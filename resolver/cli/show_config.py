"""The command `config`: the effective settings of a run or of one URL, with the source of each setting.

The output has the syntax of the configuration file, so its lines can be copied into the file. Secrets are
masked (S11).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from protocols.errors import InvalidUrl
from protocols.location import JsonValue
from resolver.cli import messages, streams
from resolver.cli.arguments import Command
from resolver.cli.config import (
    MIRROR,
    ConfiguredValue,
    HostSection,
    default_path,
    list_configurable,
    mirrors_at,
    settings_at,
)
from resolver.cli.values import UsageError
from resolver.policy.environment import find_setting, read_proxies
from resolver.policy.proxies import HOST_PROXY, proxy_for, variables_at
from resolver.policy.subject import Endpoint, find_endpoint
from resolver.url.parsing import parse

_MASK = "****"

#: Options whose values may contain a password.
_URL_OPTIONS = ("proxy", "trusted_proxy", "mirrors")


class EffectiveSetting(NamedTuple):
    """A setting with its value and source; `table` is its table in the configuration file, or None."""

    table: str | None
    name: str
    value: JsonValue
    source: str


def show(command: Command) -> int:
    """Print all settings, or the settings of one URL, and return the exit status."""
    try:
        rows = list(settings(command) if not command.urls else settings_for(command.urls[0], command))
    except InvalidUrl as error:
        if not command.is_silent:
            streams.complain(*messages.describe(error, command.urls[0]))
        return error.exit_code
    if command.json:
        for row in rows:
            streams.print_record(row._asdict())
        return 0
    path = command.configuration.path
    streams.print_line(f"# {path or f'no configuration file; default {default_path()}'}")
    _print(rows)
    return 0


def _print(rows: list[EffectiveSetting]) -> None:
    table = None
    for row in rows:
        if row.table != table or (row.table == MIRROR and row.name == "prefix"):
            table = row.table
            streams.print_line("")
            streams.print_line("[[mirror]]" if table == MIRROR else f"[{_format_table_name(str(table))}]")
        unset = "# " if row.value is None else ""
        value = "" if row.value is None else f" = {_format_toml(row.value)}"
        streams.print_line(f"{unset}{row.name}{value}  # {row.source}")


def _format_table_name(table: str) -> str:
    """Format the name of a table for the configuration file: `"host"` or `"host".limits`."""
    host, dot, last = table.rpartition(".")
    if dot and last == "limits":
        return f"{_format_toml(host)}.limits"
    return _format_toml(table) if re.search(r"[^A-Za-z0-9_-]", table) else table


def settings(command: Command) -> Iterator[EffectiveSetting]:
    """Yield all settings: options, sections of hosts, and mirrors."""
    yield from _list_options(command, {})
    for host, section in command.configuration.hosts.items():
        yield from _list_section(host, section)
    for prefix, setting in command.configuration.mirrors.items():
        yield EffectiveSetting(MIRROR, "prefix", _mask_password(prefix), setting.source)
        yield EffectiveSetting(MIRROR, "mirrors", _show_value("mirrors", setting.value), setting.source)


def settings_for(text: str, command: Command) -> Iterator[EffectiveSetting]:
    """Yield the effective settings of one URL.

    Raises:
        InvalidUrl: the URL is not valid.
        UsageError: the URL has no host.
    """
    url = parse(text, strict=command.strict, origin="user")
    endpoint = find_endpoint(url)
    if endpoint is None:
        raise UsageError(f"config: expected a URL with a host, got {url.shown}")
    narrower = settings_at(endpoint.host, endpoint.port, command.configuration)
    if (mirrors := mirrors_at(url, command.configuration)) is not None:
        narrower["mirrors"] = mirrors
    narrower |= _proxy_for(url.scheme, endpoint, narrower.get("proxy"), command)
    yield from _list_options(command, narrower)


def _proxy_for(
    scheme: str, endpoint: Endpoint, host_proxy: ConfiguredValue | None, command: Command
) -> dict[str, ConfiguredValue]:
    """Return the setting of the proxy for a URL, or an empty text, also for exceptions (`no_proxy`)."""
    variables = variables_at(read_proxies(command.proxy), None if host_proxy is None else host_proxy.value)
    proxy = proxy_for(scheme, endpoint, variables)
    if proxy is None:
        return {}
    if proxy.source.endswith(("_proxy", "_PROXY")):
        return {"proxy": ConfiguredValue(proxy.shown, proxy.source)}
    return {"proxy": host_proxy} if proxy.source == HOST_PROXY and host_proxy is not None else {}


def _list_options(command: Command, narrower: Mapping[str, ConfiguredValue]) -> Iterator[EffectiveSetting]:
    for row in list_configurable():
        value, source = getattr(command, row.name), command.configuration.sources[row.name]
        if row.name == "news_server" and value is None and (setting := find_setting(None)) is not None:
            value, source = setting
        if row.name in narrower:
            value, source = narrower[row.name]
        yield EffectiveSetting(None, row.name, _show_value(row.name, value), source)
    if "mirrors" in narrower:
        yield EffectiveSetting(
            None, "mirrors", _show_value("mirrors", narrower["mirrors"].value), narrower["mirrors"].source
        )
    yield from _list_tables(command, narrower)


def _list_tables(command: Command, narrower: Mapping[str, ConfiguredValue]) -> Iterator[EffectiveSetting]:
    for table, option in (("gateways", "gateway"), ("limits", "limit")):
        rows = {text.partition("=")[0]: text for text in getattr(command, option)}
        sources = dict.fromkeys(rows, command.configuration.sources[option])
        typed_names = {text.partition("=")[0] for text in command.configuration.options.get(option, ())}
        for text in narrower[option].value if option in narrower else ():
            if (name := text.partition("=")[0]) not in typed_names:
                rows[name], sources[name] = text, narrower[option].source
        for name, text in rows.items():
            yield EffectiveSetting(table, name, _mask_password(text.partition("=")[2]), sources[name])


def _list_section(host: str, section: HostSection) -> Iterator[EffectiveSetting]:
    for name, shown in _list_login(section):
        yield EffectiveSetting(host, name, shown, section.source)
    for name, setting in section.settings.items():
        if name != "limit":
            yield EffectiveSetting(host, name, _show_value(name, setting.value), setting.source)
    if "limit" in section.settings:
        setting = section.settings["limit"]
        for text in setting.value:
            name, _, value = text.partition("=")
            yield EffectiveSetting(f"{host}.limits", name, value, setting.source)


def _list_login(section: HostSection) -> Iterator[tuple[str, JsonValue]]:
    if section.user is not None:
        yield "user", section.user
    if section.password is not None:
        yield "password", _MASK
    if section.command:
        yield "password_command", list(section.command)
    if section.keyring:
        yield "keyring", True


def _show_value(name: str, value: object) -> JsonValue:
    if name == "headers" and isinstance(value, list):
        return [f"{text.partition(':')[0]}: {_MASK}" for text in value]
    if isinstance(value, (list, tuple)):
        return [_show_value(name, element) for element in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return _mask_password(str(value)) if name in _URL_OPTIONS else str(value)


def _mask_password(text: str) -> str:
    return re.sub(r"^([A-Za-z][A-Za-z0-9+.-]*://)?[^/?#\s]*@", rf"\g<1>{_MASK}@", text)


def _format_toml(value: JsonValue) -> str:
    """Format a value as TOML, which has the same syntax as JSON for setting values."""
    return json.dumps(value)
