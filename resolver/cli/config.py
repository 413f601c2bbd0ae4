"""The configuration file: defaults of options, gateways, and sections for single hosts.

The default path of the TOML file is in the user's configuration directory (XDG Base Directory). `--config`
sets another path. Only one configuration file is read, and the current directory is never searched. The file
can weaken the policy. The file must therefore belong to the user (or root), and other users must not have
write permission.
If the file contains a password, other users must not have read permission either. A mistake in the file is a
usage error; the message contains the file and the line.
"""

from __future__ import annotations

import os
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn

from protocols.errors import NotConfigured
from protocols.location import Url
from protocols.options import Limits
from resolver.cli.options import Option, rows
from resolver.cli.session_settings import check_limit, parse_header, with_limits
from resolver.cli.values import BadValue, UsageError, convert_to_bad_value
from resolver.cli.values import path as a_path
from resolver.files.atomic import MISSING, open_own
from resolver.policy.environment import config_folder
from resolver.policy.schemes import check_gateway
from resolver.policy.settings import Host, Policy, format_names, normal_name

# Each configured value is checked separately. Therefore error messages name the file and the line.
#
# The same checks are later applied to the merged command line. A module is imported only if a value in the
# file needs it.

_POLICY_OPTIONS = frozenset(
    {
        *("allow_port", "allow_address", "allow_name", "allow_redirect", "allow_forward"),
        *("allowed_hosts", "file_root", "ftp_email", "trusted_proxy"),
    }
)


def check_value(name: str, value: Any) -> None:
    """Check the configured value of an option. Raises `BadValue`."""
    if name in _POLICY_OPTIONS:
        _check_policy(name, value)
    elif name in _CHECKS:
        for text in value:
            _CHECKS[name](text)


def _check_policy(name: str, value: Any) -> None:
    changes: dict[str, Any] = {name: frozenset(value) if isinstance(value, list) else value}
    try:
        replace(Policy(), **changes)
    except ValueError as error:
        raise BadValue(str(error).partition(": ")[2]) from error


def _check_header(text: str) -> None:
    try:
        parse_header(text)
    except UsageError:
        raise BadValue("expected NAME:VALUE on one line") from None


def _check_mirror(text: str) -> None:
    from resolver.transfer.redirects import check_mirror

    with convert_to_bad_value(NotConfigured):
        check_mirror(text)


_CHECKS: Mapping[str, Callable[[str], None]] = {"headers": _check_header, "mirrors": _check_mirror}

_MAX_SIZE = 1_048_576  # maximum bytes of a configuration file

#: Options that cannot be set in the file, because they are for one run or one URL.
_ONE_RUN_OPTIONS = frozenset(
    {
        "output", "lists", "json", "verbose", "trace", "trace_html", "html", "checksum", "mirrors", "origin",
        "referrer", "user", "password_file", "pin", "failed", "search", "view", "type",
        "only_ipv4", "only_ipv6", "out", "parquet", "jsonl", "config", "help", "version", "gateway", "limit",
    }
)  # fmt: skip

#: Tables of the file, each with its equivalent NAME=VALUE option.
_TABLES: Mapping[str, str] = {"gateways": "gateway", "limits": "limit"}

#: The key of the `[[mirror]]` tables, each of which is for one URL prefix.
MIRROR = "mirror"

#: The keys in the section of a host: the keys of the login come first, then the options for a single host.
_LOGIN_KEYS = ("user", "password", "password_command", "keyring")
_PASSWORD_KEYS = _LOGIN_KEYS[1:]
_HOST_KEYS = (
    *("max_size", "connect_timeout", "idle_timeout", "max_time", "min_rate"),
    *("proxy", "cert", "pin", "mirrors"),
)


class ConfiguredValue(NamedTuple):
    """The parsed value of an option, with the file and line of its definition."""

    value: Any
    source: str


class HostSection(NamedTuple):
    """A section `["host"]` or `["host:port"]`: its login, and its `settings` by option name.

    The section has at most one source of the password. The source is the password itself, a command whose
    first output line is the password, or the keyring of the system.
    """

    user: str | None = None
    password: str | None = None
    command: tuple[str, ...] = ()
    keyring: bool = False
    source: str = ""
    settings: Mapping[str, ConfiguredValue] = {}

    @property
    def has_login(self) -> bool:
        return bool(self.user is not None or self.password is not None or self.command or self.keyring)


class Configuration(NamedTuple):
    """The content of a configuration file.

    Attributes:
        path: the path of the file, or None if no file was read.
        settings: configured values by option name.
        hosts: sections by host or host:port, in lower case.
        mirrors: URLs of mirrors by URL prefix.
        sources: the source of each option's value.
        options: values from the command line, by option name.
    """

    path: str | None = None
    settings: Mapping[str, ConfiguredValue] = {}
    hosts: Mapping[str, HostSection] = {}
    mirrors: Mapping[str, ConfiguredValue] = {}
    sources: Mapping[str, str] = {}
    options: Mapping[str, Any] = {}


def load(name: str | None) -> Configuration:
    """Read the configuration file.

    Args:
        name: the path. The value `none` reads no file. None reads the user's default file, which may be
            missing.

    Raises:
        UsageError: the file is not valid; the message contains the file, the line and the fix.
    """
    if name == "none":
        return Configuration()
    path = default_path() if name is None else name
    if path is None:
        return Configuration()
    try:
        with open_own(path, "configuration", _MAX_SIZE, secret=False) as file:
            return _ConfigurationFile(path, file.octets, is_private=file.private).read()
    except MISSING as error:
        if name is None:
            return Configuration()
        raise UsageError(f"cannot read the configuration {path}: {error.strerror}") from error
    except NotConfigured as error:
        raise UsageError(error.message) from error


def default_path() -> str | None:
    """Return the path of the user's default configuration file, or None without a configuration directory."""
    folder = config_folder()
    return None if folder is None else os.path.join(folder, "config.toml")


class _ConfigurationFile:
    def __init__(self, path: str, octets: bytes, *, is_private: bool) -> None:
        self._path = path
        self._is_private = is_private
        self._options = {row.name: row for row in rows()}
        self._rows = {row.name: row for row in list_configurable()}
        self._text, self._content = self._decode(octets)

    def _decode(self, octets: bytes) -> tuple[str, dict[str, Any]]:
        import tomllib  # lazy import: few users have a configuration file

        try:
            text = octets.removeprefix(BOM_UTF8).decode()
            return text, tomllib.loads(text)
        except UnicodeDecodeError as error:
            number = octets.count(b"\n", 0, error.start) + 1
            raise UsageError(f"{self._path}, line {number}: not UTF-8") from error
        except tomllib.TOMLDecodeError as error:
            match = re.search(r"at line (\d+)", str(error))
            line = match[1] if match else str(text.count("\n") + 1)
            raise UsageError(f"{self._path}, line {line}: not TOML: {error}") from error
        # CPython limits a decimal integer to 4,300 digits, and the nesting of arrays to its recursion limit.
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{self._path}: a value is too long or nested too deeply: {error}") from error

    def read(self) -> Configuration:
        settings: dict[str, ConfiguredValue] = {}
        hosts: dict[str, HostSection] = {}
        for key, value in self._content.items():
            if key == MIRROR:
                continue
            if key in _TABLES:
                settings[_TABLES[key]] = self._table(key, value, None)
            elif isinstance(value, dict) and key not in self._rows and not self._resembles_table(key):
                if (name := normal_name(key)) in hosts:
                    self._raise_wrong(key, "the host has two sections: join them")
                hosts[name] = self._host(key, value)
            else:
                settings[key] = self._setting(key, value)
        for name in _list_overridden():
            settings.pop(name, None)
        return Configuration(self._path, settings, hosts, dict(self._mirrors()))

    def _resembles_table(self, key: str) -> bool:
        """Return whether a key is probably a mistyped table name, and not a host name without a dot."""
        from difflib import get_close_matches  # lazy import: few files have such a mistake

        return "." not in key and bool(get_close_matches(key, _TABLES, 1))

    def _setting(self, key: str, value: object) -> ConfiguredValue:
        row = self._rows.get(key)
        if row is None:
            self._raise_unknown(key, [*self._rows, *_TABLES], None)
        return ConfiguredValue(self._parse(row, value, None), self._locate(key))

    def _parse(self, row: Option, value: object, table: str | None) -> object:
        """Parse a value of the file with the parser of its command-line option."""
        parsed = self._parse_unchecked(row, value, table)
        try:
            check_value(row.name, parsed)
        except BadValue as error:
            self._raise_wrong(row.name, str(error), table)
        return parsed

    def _parse_unchecked(self, row: Option, value: object, table: str | None) -> object:
        if row.metavar is None:
            if not isinstance(value, bool):
                self._raise_wrong(row.name, "expected true or false", table)
            return value
        if row.many:
            values = value if isinstance(value, list) else [value]
            return [self._parse_element(row, element, table) for element in values]
        return self._parse_element(row, value, table)

    def _parse_element(self, row: Option, value: object, table: str | None) -> object:
        text = _text(value)
        if text is None or (row.parse in (str, a_path) and not isinstance(value, str)):
            kind = "text" if row.parse in (str, a_path) else "number or text"
            self._raise_wrong(row.name, f"expected a {kind}", table)
        if row.choices is not None and text not in row.choices:
            self._raise_wrong(row.name, f"expected one of {', '.join(row.choices)}, got {text!r}", table)
        try:
            return row.parse(os.path.expanduser(text) if row.parse is a_path else text)
        except BadValue as error:
            self._raise_wrong(row.name, str(error), table)

    def _table(self, key: str, value: object, host: str | None) -> ConfiguredValue:
        table = key if host is None else f"{host}.{key}"
        if not isinstance(value, dict):
            self._raise_wrong(key, "expected a table of NAME = VALUE", host)
        texts = []
        for name, element in value.items():
            if (text := _text(element)) is None:
                self._raise_wrong(name, "expected a number or text", table)
            if host is not None and name == "quota":
                self._raise_wrong(name, "cannot be set for a host: it counts the complete run", table)
            try:
                if key == "limits":
                    check_limit(name, text)
                else:
                    check_gateway(name, text)
            except (UsageError, ValueError) as error:
                self._raise_wrong(name, str(error).removeprefix(f"--limit {name}: "), table)
            texts.append(f"{name}={text}")
        return ConfiguredValue(texts, self._locate(key, host))

    def _mirrors(self) -> Iterator[tuple[str, ConfiguredValue]]:
        """Yield the URL prefix and the mirrors of each `[[mirror]]` table."""
        tables = self._content.get(MIRROR, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            self._raise_wrong(MIRROR, "expected [[mirror]] tables with prefix and mirrors")
        for number, table in enumerate(tables):
            from resolver.transfer.redirects import MirrorPrefixes  # lazy import: few files have `[[mirror]]`

            table_name = f"[{MIRROR}]#{number}"
            for key in table:
                if key not in ("prefix", "mirrors"):
                    self._raise_unknown(key, ["prefix", "mirrors"], table_name)
            prefix = table.get("prefix")
            if not isinstance(prefix, str) or "mirrors" not in table:
                self._raise_wrong("prefix", "expected a URL, with its mirrors", table_name)
            try:
                MirrorPrefixes({prefix: ()})
            except NotConfigured as error:
                self._raise_wrong("prefix", error.message, table_name)
            value = self._parse(self._options["mirrors"], table["mirrors"], table_name)
            yield prefix, ConfiguredValue(value, self._locate("prefix", table_name))

    def _host(self, host: str, section: dict[str, Any]) -> HostSection:
        if (
            not section
            or re.fullmatch(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?", host) is None
        ):
            self._raise_unknown(host, list(_TABLES), None)
        keys = (*_LOGIN_KEYS, *_HOST_KEYS, "limits")
        for key in section:
            if key not in keys:
                self._raise_unknown(key, list(keys), host)
        texts = {key: section[key] for key in ("user", "password") if key in section}
        for key, text in texts.items():
            if not isinstance(text, str):
                self._raise_wrong(key, "expected a text", host)
        if "password" in section and not self._is_private:
            self._raise_wrong("password", f"others may read this file: chmod go-rwx {self._path}", host)
        if len(sources := [source for source in _PASSWORD_KEYS if source in section]) > 1:
            self._raise_wrong(sources[1], f"{' and '.join(sources)} cannot be combined", host)
        if not isinstance(section.get("keyring", False), bool):
            self._raise_wrong("keyring", "expected true or false", host)
        return HostSection(
            **texts,
            command=self._command(section.get("password_command", []), host),
            keyring=section.get("keyring", False),
            source=self._locate(host),
            settings=dict(self._list_settings(host, section)),
        )

    def _list_settings(self, host: str, section: dict[str, Any]) -> Iterator[tuple[str, ConfiguredValue]]:
        for key, value in section.items():
            if key == "limits":
                yield "limit", self._table(key, value, host)
            elif key in _HOST_KEYS:
                parsed = self._parse(self._options[key], value, host)
                yield key, ConfiguredValue(parsed, self._locate(key, host))

    def _command(self, value: object, host: str) -> tuple[str, ...]:
        """Return the arguments of `password_command`, which runs without a shell."""
        if not isinstance(value, list) or not all(
            isinstance(word, str) and "\0" not in word for word in value
        ):
            self._raise_wrong(
                "password_command", 'expected a list of texts, such as ["pass", "show", "ftp"]', host
            )
        return tuple(value)

    def _raise_unknown(self, key: str, keys: list[str], table: str | None) -> NoReturn:
        from difflib import get_close_matches  # lazy import: few runs need the module

        matches = get_close_matches(key, keys, 1)
        hint = f"did you mean {matches[0]}?" if matches else f"expected one of {', '.join(sorted(keys))}"
        raise UsageError(f"{self._locate(key, table)}: unknown key {key!r}; {hint}")

    def _raise_wrong(self, key: str, reason: str, table: str | None = None) -> NoReturn:
        raise UsageError(f"{self._locate(key, table)}: {key}: {reason}")

    def _locate(self, key: str, table: str | None = None) -> str:
        """Return the file and line of a key, or of the table for a key of an inline table."""
        lines = {(*location,): number for number, *location in reversed(list(self._lines()))}
        outer, _, inner = (table or "").rpartition(".")
        locations = ((table, key), (None, f"{table}.{key}"), (outer or None, inner or key))
        line = next((lines[location] for location in locations if location in lines), None)
        return self._path if line is None else f"{self._path}, line {line}"

    def _lines(self) -> Iterator[tuple[int, str | None, str]]:
        """Yield the line, table and key of each line, for error messages; multi-line keys are not found."""
        table, mirrors = None, 0
        for number, line in enumerate(self._text.splitlines(), 1):
            if match := re.match(r"\s*\[\s*([\"']?)(.*?)\1\s*\]\s*(#.*)?$", line):
                table = match[2] if match[1] else re.sub(r"[\"']", "", match[2])
                if table == f"[{MIRROR}]":
                    table, mirrors = f"{table}#{mirrors}", mirrors + 1
                yield number, None, table
            elif match := re.match(r"\s*([\"']?)([^\"'=]*?)\1\s*=", line):
                yield number, table, match[2]


def _list_overridden() -> Iterator[str]:
    """Yield the options that environment variables set; environment variables override the file.

    If any proxy variable is set, even for a single scheme, the configured proxy is ignored for all schemes.
    """
    variables = {name for name, value in os.environ.items() if value}
    if "NNTPSERVER" in variables:
        yield "news_server"
    if any(name.lower().endswith("_proxy") and name.lower() != "no_proxy" for name in variables):
        yield "proxy"


def _text(value: object) -> str | None:
    """Return a number or a string as on the command line, or None for another type."""
    with suppress(ValueError):  # CPython converts no integer of more than 4,300 digits.
        return str(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else None
    return None


def list_configurable() -> Iterator[Option]:
    """Return the options that can be set in a configuration file."""
    return (row for row in rows() if row.name not in _ONE_RUN_OPTIONS)


# The settings of single hosts, in the form that the class `Resolver` needs.
#
# The command line overrides the section of a host. The section overrides environment variables and the
# settings for all hosts, because the section is more specific.

#: Options that limit the size or the time of a server's response.
BOUNDS = frozenset({"limit", "max_size", "connect_timeout", "idle_timeout", "max_time", "min_rate"})


def make_host_settings(configuration: Configuration) -> dict[str, Host]:
    """Return the settings of all host sections, without logins, which are read on demand."""
    return {
        name: _host(settings, configuration)
        for name, section in configuration.hosts.items()
        if (settings := _merge_wider(name, section, configuration))
    }


def get_mirrors(configuration: Configuration) -> dict[str, tuple[str, ...]]:
    return {prefix: tuple(setting.value) for prefix, setting in configuration.mirrors.items()}


def mirrors_at(url: Url, configuration: Configuration) -> ConfiguredValue | None:
    """Return the configured mirrors of the longest configured prefix of a URL, or None."""
    from resolver.transfer.redirects import MirrorPrefixes  # lazy import: few files have `[[mirror]]`

    match = MirrorPrefixes(get_mirrors(configuration)).find(url) if configuration.mirrors else None
    return None if match is None else configuration.mirrors[match[0]]._replace(value=list(match[1]))


def _merge_wider(
    name: str, section: HostSection, configuration: Configuration
) -> Mapping[str, ConfiguredValue]:
    """Return the settings of a section; `["host:port"]` inherits the limits of `["host"]`."""
    wider = configuration.hosts.get(name.rpartition(":")[0], HostSection()).settings
    return merge_values({key: wider[key] for key in BOUNDS & wider.keys()}, section.settings)


def merge_values(
    wider: Mapping[str, ConfiguredValue], narrower: Mapping[str, ConfiguredValue]
) -> dict[str, ConfiguredValue]:
    """Merge two groups of settings: `narrower` overrides `wider`, and limits are merged by name."""
    merged = {**wider, **narrower}
    if "limit" in wider and "limit" in narrower:
        merged["limit"] = narrower["limit"]._replace(value=[*wider["limit"].value, *narrower["limit"].value])
    return merged


def _host(settings: Mapping[str, ConfiguredValue], configuration: Configuration) -> Host:
    values = {key: setting.value for key, setting in settings.items() if key not in configuration.options}
    return Host(
        limits=_limits(settings, configuration) if BOUNDS & settings.keys() else None,
        proxy=values.get("proxy"),
        certfile=values.get("cert"),
        pin=values.get("pin"),
        mirrors=tuple(values.get("mirrors", ())),
    )


def _limits(settings: Mapping[str, ConfiguredValue], configuration: Configuration) -> Limits:
    limits = Limits()
    for layer in (_values(configuration.settings), _values(settings), configuration.options):
        limits = with_limits(limits, layer)
    return limits


def _values(settings: Mapping[str, ConfiguredValue]) -> dict[str, Any]:
    return {key: setting.value for key, setting in settings.items()}


def settings_at(host: str, port: int, configuration: Configuration) -> dict[str, ConfiguredValue]:
    """Return the settings from the sections of a host and port, without those of the command line."""
    merged: dict[str, ConfiguredValue] = {}
    for name in reversed(format_names(host, port)):
        section = configuration.hosts.get(name, HostSection())
        merged = merge_values(merged, section.settings)
    return {key: value for key, value in merged.items() if key == "limit" or key not in configuration.options}
