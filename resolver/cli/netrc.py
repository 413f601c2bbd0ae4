"""Logins from a netrc file, for whoever asks for that (`--netrc`, `--netrc-file`): sections of hosts, as the
configuration has them, but weaker.

The standard library reads it. The file is ours and nobody else may read it; what is wrong in it is told with
its line and without its text, which may be a password.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from protocols.errors import NotConfigured
from protocols.values import NamedTuple
from resolver.cli.config import HostSection
from resolver.cli.values import UsageError
from resolver.disk.own_file import MISSING, OwnFile, open_own

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
    import netrc  # for those who have a file

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
