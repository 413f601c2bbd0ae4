"""Passwords for the command: from a file, configuration, netrc file, keyring or prompt without echo.

They never come from the command line itself. They belong to the hosts that the command line names: a redirect
to another host gets none, unless the configuration has a section of that host and TLS protects the connection
(S11). The first source that answers is used: `--user` with `--password-file`, the section of the host, the
netrc file, a prompt.
"""

from __future__ import annotations

import netrc
import os
from collections.abc import Mapping
from typing import NamedTuple

import trio

from protocols.authority import comparable_host
from protocols.contract import Credentials, HostUrl, Url
from protocols.errors import LoginRequired, NotConfigured, missing_libraries
from resolver.cli import streams
from resolver.cli import streams as below
from resolver.cli.config import HostSection
from resolver.cli.values import UsageError
from resolver.files.atomic import MISSING, OwnFile, open_own
from resolver.network.tls import is_locked
from resolver.policy.schemes import rules_of
from resolver.policy.settings import names_of
from resolver.url import registry

_MOST_PASSWORD = 4_096


class CommandSecrets:
    """Answers who asks for credentials, for the places it was told of. `sections` are those of the
    configuration and of a netrc file, by host or host:port; `default` is for hosts without one, where the
    scheme logs in by itself."""

    def __init__(
        self,
        user: str | None,
        password_file: str | None,
        sections: Mapping[str, HostSection],
        default: HostSection | None = None,
    ) -> None:
        self._user = None if user is None else _octets(user)
        self._password = None if password_file is None else _first_line(password_file)
        self._sections = sections
        self._default = default
        self._places: set[tuple[str, str, int]] = set()

    def admit(self, url: Url) -> None:
        """The person named this place, so what the person gives may go there."""
        if isinstance(url, HostUrl):
            self._places.add((url.scheme, comparable_host(url.host), url.effective_port))

    async def request(self, scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
        """Credentials for one place; None where there is no name, or nobody to ask for the password.

        A name that is not the URL's own is used only with the password given beside it, or asked for.
        Raises `NotConfigured` where the configuration names a source of passwords that gives none.
        """
        named = (scheme, host, port) in self._places
        if not named and not _is_protected(scheme, port):
            return None
        section = self._section(scheme, host, port, user)
        name = user or (self._user if named else None) or section.name
        if name is None:
            return None
        if named and self._password is not None and self._user in (None, name):
            return Credentials(name, self._password)
        password = await section.password_for(host, name)
        if password is None and named:
            shown = name.decode("utf-8", "replace")
            password = await self._ask(f"password of {shown} at {host} port {port} ({scheme}): ")
        return None if password is None else Credentials(name, password)

    async def _ask(self, prompt: str) -> bytes | None:
        return await streams.request_secret(prompt)

    def _section(self, scheme: str, host: str, port: int, user: bytes | None) -> _LoginSection:
        """That of the host and port before that of the host; none for another name than its own."""
        wanted = user or self._user
        default = self._default if rules_of(scheme).logs_in else None
        known = [self._sections[name] for name in names_of(host, port) if name in self._sections]
        for found in known or ([] if default is None else [default]):
            if wanted is None or found.user is None or _octets(found.user) == wanted:
                return _LoginSection(found)
        return _LoginSection(HostSection())


async def password_of_key(certfile: str | None) -> bytes | None:
    """That of the key of a certificate, asked of a person where it has one. Raises `NotConfigured` where
    there is nobody to ask: standard input is not for it."""
    if certfile is None or not _is_locked(certfile):
        return None
    password = await streams.request_secret(f"password of the key in {certfile}: ")
    if password is None:
        words = "its key has a password, and there is no terminal to ask for it at"
        raise NotConfigured(f"--cert {certfile!r} cannot be used: {words}")
    return password


def _is_locked(certfile: str) -> bool:
    try:
        return is_locked(certfile)
    except (OSError, ValueError):
        return False  # it cannot be used, which is told before anything is sent


class _LoginSection:
    """What one section of the configuration has to say of a login."""

    def __init__(self, found: HostSection) -> None:
        self._found = found

    @property
    def name(self) -> bytes | None:
        return None if self._found.user is None else _octets(self._found.user)

    async def password_for(self, host: str, user: bytes) -> bytes | None:
        """Raises `NotConfigured` where what should give it does not."""
        if self._found.password is not None:
            return _octets(self._found.password)
        if self._found.command:
            return self._check_password(await self._run_command(), "password_command gives no password")
        if self._found.keyring:
            return self._check_password(await self._look_up(host, user), "the keyring has none for this name")
        return None

    async def _run_command(self) -> bytes:
        """The first line that it writes. It may talk with the person meanwhile, so it has all the time."""
        try:
            with below.hide_lines():
                done = await trio.run_process(list(self._found.command), capture_stdout=True, check=False)
        except OSError as error:
            raise self._fault(f"password_command: {error.strerror}") from error
        if done.returncode:
            raise self._fault(f"password_command ended with status {done.returncode}")
        written: bytes = done.stdout
        return written.partition(b"\n")[0].removesuffix(b"\r")

    async def _look_up(self, host: str, user: bytes) -> bytes:
        try:
            import keyring
        except ImportError as error:
            raise self._fault(f"needs {missing_libraries('keyring')}") from error
        try:
            found = await trio.to_thread.run_sync(keyring.get_password, host, user.decode("utf-8", "replace"))
        except keyring.errors.KeyringError as error:
            raise self._fault(f"keyring: {error}") from error
        return b"" if found is None else _octets(found)

    def _check_password(self, password: bytes, otherwise: str) -> bytes:
        if not 0 < len(password) <= _MOST_PASSWORD:
            raise self._fault(otherwise)
        return password

    def _fault(self, what: str) -> NotConfigured:
        return NotConfigured(f"{self._found.source}: {what}")


def _is_protected(scheme: str, port: int) -> bool:
    """TLS from the first octet at the scheme's own port: who answers there is the host that was named."""
    row = registry.find(scheme)
    return row is not None and row.tls == "always" and row.default_port == port


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _first_line(name: str) -> bytes:
    """The password: the first line, without its line end. Raises `LocalError`, and `LoginRequired`
    where there is none."""
    line = streams.read_first_line(name, _MOST_PASSWORD + 1)
    if not 0 < len(line) <= _MOST_PASSWORD:
        raise LoginRequired(f"{name} does not begin with a line that holds a password")
    return line


# Logins from a netrc file, on request (`--netrc`, `--netrc-file`): sections of hosts, as the configuration
# has them, but weaker.
#
# The standard library parses it. The file must belong to the user and must not be readable by others; a
# mistake in it is reported with its line number and without its text, which may be a password.

_MOST = 1_048_576  # octets of a file that a person writes


class Netrc(NamedTuple):
    """`hosts` in lower case, `default` for hosts that have no entry; `warnings` are what was passed over."""

    hosts: Mapping[str, HostSection] = {}
    default: HostSection | None = None
    warnings: tuple[str, ...] = ()


def read_netrc(named: str | None) -> Netrc:
    """The file `named`, or that of `$NETRC`, or `~/.netrc`, which may be missing. Raises `UsageError`."""
    path = named or os.environ.get("NETRC") or os.path.expanduser("~/.netrc")
    try:
        with open_own(path, "netrc file", _MOST, secret=True) as file:
            return _sections(path, _parse(path, file))
    except MISSING as error:
        if named is None and not os.environ.get("NETRC"):
            return Netrc()
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except NotConfigured as error:
        raise UsageError(error.message) from error


def _parse(path: str, file: OwnFile) -> Mapping[str, tuple[str, str | None, str | None]]:
    try:
        file.octets.decode()  # the library would try the locale's charset next
        return netrc.netrc(_at_its_beginning(file.fd)).hosts  # type: ignore[arg-type]  # it closes what it gets
    except netrc.NetrcParseError as error:
        raise UsageError(f"{path}, line {error.lineno}: not what a netrc file has") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8") from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def _at_its_beginning(fd: int) -> int:
    os.lseek(fd, 0, os.SEEK_SET)
    return os.dup(fd)


def _sections(path: str, entries: Mapping[str, tuple[str, str | None, str | None]]) -> Netrc:
    hosts, default, warnings = {}, None, []
    for machine, (login, _, password) in entries.items():
        if not login:
            warnings.append(f"{path}: the entry of {machine} has no login: it is passed over")
            continue
        if ":" in machine:
            warnings.append(f"{path}: {machine!r} is no host: a netrc file knows no ports")
            continue
        section = HostSection(login, password or None, source=path)
        if machine == "default":
            default = section
        else:
            hosts[machine.lower().removesuffix(".")] = section
    return Netrc(hosts, default, tuple(warnings))
