"""The sources of passwords: a password file, the configuration, a netrc file, the keyring, and a prompt.

Passwords are never arguments of the command line. A password is sent to the host of a URL from the user.
After a redirect to another host, a password is sent only under two conditions (S11). First, a section or a
netrc entry must name the host. It must also name the port if the port is not the default port. Second, TLS
must protect the connection. The first available source is used, in this order:

1. `--user` with `--password-file`
2. the section of the host in the configuration
3. the netrc file
4. a prompt without echo
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

import trio

from protocols.authority import comparable_host
from protocols.contract import Credentials, HostUrl, Url
from protocols.errors import LoginRequired, NotConfigured, missing_libraries
from resolver.cli import streams
from resolver.cli.config import HostSection
from resolver.cli.values import UsageError
from resolver.files.atomic import MISSING, OwnFile, open_own
from resolver.network.tls import is_locked
from resolver.policy.schemes import find_rules
from resolver.policy.settings import format_names
from resolver.url import registry

_MAX_PASSWORD = 4_096


class CommandSecrets:
    """A provider of credentials for admitted hosts.

    Args:
        user: the user name for all admitted hosts.
        password_file: the path of a file with the password on its first line.
        sections: the logins of the configuration and of a netrc file, by host or host:port.
        default: the login for hosts without a section. The default login is used only for schemes that log in
            by default.
    """

    def __init__(
        self,
        user: str | None,
        password_file: str | None,
        sections: Mapping[str, HostSection],
        default: HostSection | None = None,
    ) -> None:
        self._user = None if user is None else _encode(user)
        self._password = None if password_file is None else _read_password(password_file)
        self._sections = sections
        self._default = default
        self._endpoints: set[tuple[str, str, int]] = set()

    @property
    def has_sources(self) -> bool:
        """Return whether the user has configured a login; otherwise a password can only be typed."""
        sources = (self._user, self._password, self._default)
        return bool(self._sections) or sources != (None, None, None)

    def admit(self, url: Url) -> None:
        """Permit the use of credentials for the scheme, host and port of a URL that comes from the user."""
        if isinstance(url, HostUrl):
            self._endpoints.add((url.scheme, comparable_host(url.host), url.effective_port))

    async def request(self, scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
        """Return the credentials for a host and port.

        Returns None if no user name or no source of the password is available. A user name that is not from
        the URL is used only in two cases: the password is typed, or the password is configured for this user
        name. Raises `NotConfigured` if a configured source does not return a password.
        """
        is_admitted = (scheme, host, port) in self._endpoints
        if not is_admitted and not self._is_protected(scheme, host, port):
            return None
        section = self._section(scheme, host, port, user)
        configured_name = None if section.user is None else _encode(section.user)
        name = user or (self._user if is_admitted else None) or configured_name
        if name is None:
            return None
        if is_admitted and self._password is not None and self._user in (None, name):
            return Credentials(name, self._password)
        password = await _find_password(section, host, name)
        if password is None and is_admitted:
            user_name = name.decode("utf-8", "replace")
            password = await self._ask(f"password of {user_name} at {host} port {port} ({scheme}): ")
        return None if password is None else Credentials(name, password)

    def _is_protected(self, scheme: str, host: str, port: int) -> bool:
        """Return whether the scheme always uses TLS and the user has named this port.

        The port must be the default port of the scheme, or a section must name the host with this port.
        """
        row = registry.find(scheme)
        if row is None or row.tls != "always":
            return False
        return row.default_port == port or format_names(host, port)[0] in self._sections

    async def _ask(self, prompt: str) -> bytes | None:
        return await streams.request_secret(prompt)

    def _section(self, scheme: str, host: str, port: int, user: bytes | None) -> HostSection:
        """Return the login section of the host and port, or else of the host, for this user."""
        user_name = user or self._user
        default = self._default if find_rules(scheme).logs_in else None
        sections = [self._sections[name] for name in format_names(host, port) if name in self._sections]
        for section in sections or ([] if default is None else [default]):
            if user_name is None or section.user is None or _encode(section.user) == user_name:
                return section
        return HostSection()


async def request_key_password(certfile: str | None) -> bytes | None:
    """Ask the user for the password of a certificate's private key, if the key is encrypted.

    Raises `NotConfigured` without a terminal. The password is never read from standard input.
    """
    if certfile is None or not _is_locked(certfile):
        return None
    password = await streams.request_secret(f"password of the key in {certfile}: ")
    if password is None:
        reason = "its key has a password, and there is no terminal to ask for it"
        raise NotConfigured(f"cannot use --cert {certfile!r}: {reason}")
    return password


def _is_locked(certfile: str) -> bool:
    try:
        return is_locked(certfile)
    except (OSError, ValueError):
        return False  # the TLS setup reports the error before anything is sent


async def _find_password(section: HostSection, host: str, user: bytes) -> bytes | None:
    """Return the password of a section, or None without a source. A failed source raises `NotConfigured`."""
    if section.password is not None:
        return _encode(section.password)
    if section.command:
        password, reason = await _run_command(section), "password_command returned no password"
    elif section.keyring:
        password = await _query_keyring(section, host, user)
        reason = "the keyring has no password for this user"
    else:
        return None
    if not 0 < len(password) <= _MAX_PASSWORD:
        raise _make_fault(section, reason)
    return password


async def _run_command(section: HostSection) -> bytes:
    """Run `password_command`, and return the first line of its output.

    The command runs without a timeout, because it may prompt the user.
    """
    try:
        with streams.hide_lines():
            result = await trio.run_process(list(section.command), capture_stdout=True, check=False)
    except OSError as error:
        raise _make_fault(section, f"password_command: {error.strerror}") from error
    if result.returncode:
        raise _make_fault(section, f"password_command ended with status {result.returncode}")
    output: bytes = result.stdout
    return output.partition(b"\n")[0].removesuffix(b"\r")


async def _query_keyring(section: HostSection, host: str, user: bytes) -> bytes:
    try:
        import keyring
    except ImportError as error:
        raise _make_fault(section, f"needs {missing_libraries('keyring')}") from error
    try:
        text = await trio.to_thread.run_sync(keyring.get_password, host, user.decode("utf-8", "replace"))
    except keyring.errors.KeyringError as error:
        raise _make_fault(section, f"keyring: {error}") from error
    return b"" if text is None else _encode(text)


def _make_fault(section: HostSection, reason: str) -> NotConfigured:
    return NotConfigured(f"{section.source}: {reason}")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _read_password(name: str) -> bytes:
    """Return the password in a file: the first line without its line end.

    Raises:
        LocalError: the file cannot be read.
        LoginRequired: the first line is empty or too long.
    """
    line = streams.read_first_line(name, _MAX_PASSWORD + 1)
    if not 0 < len(line) <= _MAX_PASSWORD:
        words = f"{name}: the first line is not a password (empty or too long)"
        raise LoginRequired(words).with_setting("password_file")
    return line


# Logins from a netrc file (`--netrc`, `--netrc-file`). The login of a host is converted to a section, as in
# the configuration file. For the same host, the configuration file overrides the netrc file.
#
# The standard library parses the file. The file must belong to the user, and other users must not have read
# permission. An error message has the line number of a mistake. The message does not have the text of the
# line, which may be a password.

_MAX_NETRC = 1_048_576  # maximum bytes of a netrc file


class Netrc(NamedTuple):
    """The content of a netrc file.

    Attributes:
        hosts: the logins by host name in lower case.
        default: the login for all other hosts, or None.
        warnings: messages about skipped entries.
    """

    hosts: Mapping[str, HostSection] = {}
    default: HostSection | None = None
    warnings: tuple[str, ...] = ()


def read_netrc(name: str | None) -> Netrc:
    """Read the netrc file `name`, or else $NETRC, or else ~/.netrc. Raises `UsageError`.

    Only ~/.netrc may be missing.
    """
    path = name or os.environ.get("NETRC") or os.path.expanduser("~/.netrc")
    try:
        with open_own(path, "netrc file", _MAX_NETRC, secret=True) as file:
            return _convert_entries(path, _parse(path, file))
    except MISSING as error:
        if name is None and not os.environ.get("NETRC"):
            return Netrc()
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except NotConfigured as error:
        raise UsageError(error.message) from error


def _parse(path: str, file: OwnFile) -> Mapping[str, tuple[str, str | None, str | None]]:
    import netrc  # lazy import: few users have the file

    try:
        file.octets.decode()  # for invalid UTF-8, `netrc` would try the charset of the locale
        # `netrc` closes the descriptor that it gets.
        return netrc.netrc(_rewind_copy(file.fd)).hosts  # type: ignore[arg-type]
    except netrc.NetrcParseError as error:
        raise UsageError(f"{path}, line {error.lineno}: not netrc syntax") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8") from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def _rewind_copy(fd: int) -> int:
    os.lseek(fd, 0, os.SEEK_SET)
    return os.dup(fd)


def _convert_entries(path: str, entries: Mapping[str, tuple[str, str | None, str | None]]) -> Netrc:
    hosts, default, warnings = {}, None, []
    for machine, (login, _, password) in entries.items():
        if not login:
            warnings.append(f"{path}: entry {machine} skipped: no login")
            continue
        if ":" in machine:
            warnings.append(f"{path}: entry {machine!r} skipped: a netrc file cannot name a port")
            continue
        section = HostSection(login, password or None, source=path)
        if machine == "default":
            default = section
        else:
            hosts[machine.lower().removesuffix(".")] = section
    return Netrc(hosts, default, tuple(warnings))
