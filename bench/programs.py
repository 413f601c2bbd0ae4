"""The paths and versions of third-party programs."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.row import environment
from tests.servers.packages import find

#: The path of each program in its package, and the option that prints the version.
_UNPACKED = {
    "aria2": ("usr/bin/aria2c", "--version"),
    "wget2": ("usr/bin/wget2", "--version"),
    "lftp": ("usr/bin/lftp", "--version"),
    "nginx": ("usr/sbin/nginx", "-v"),
    "vsftpd": ("usr/sbin/vsftpd", "-v"),
    "inn": ("usr/lib/news/bin/innconfval", "-v"),
}
_INSTALLED = ("curl", "wget")
_LIBRARIES = ("trio", "h11", "httpx", "aiohttp", "requests", "distributed", "scrapy")


class Program(NamedTuple):
    path: str
    environment: dict[str, str]


def find_program(name: str) -> Program | None:
    """Return the program, or None if the program is missing."""
    if name in _INSTALLED:
        executable = shutil.which(name)
        return Program(executable, environment()) if executable else None
    path_in_package, _ = _UNPACKED[name]
    try:
        files = find(name, path_in_package)
    except (
        pytest.skip.Exception,
        pytest.fail.Exception,
    ):  # the environment variable `RESOLVE_SERVERS` determines which exception is raised
        return None
    return Program(str(files.path(path_in_package)), files.environment() | {"HOME": os.devnull})


def versions() -> dict[str, str]:
    """Return the versions of all libraries and programs; `not there` for a missing library or program."""
    version_by_name = {
        "Python": platform.python_version(),
        "OpenSSL": ssl.OPENSSL_VERSION.split()[1],
        "kernel": platform.release(),
        "processors": str(os.cpu_count()),
        "processor": _processor(),
    }
    for name in _LIBRARIES:
        try:
            version_by_name[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            version_by_name[name] = "not there"
    return version_by_name | dict(_list_program_versions())


def _list_program_versions() -> Iterator[tuple[str, str]]:
    for name in (*_INSTALLED, *_UNPACKED):
        installed = find_program(name)
        if installed is None:
            yield name, "not there"
            continue
        option = _UNPACKED[name][1] if name in _UNPACKED else "--version"
        # vsftpd prints its version to file descriptor 0 (standard input)
        command = ["sh", "-c", f'exec "$0" {option} <&1 2>&1', installed.path]
        done = subprocess.run(command, env=installed.environment, capture_output=True, text=True)
        number = re.search(r"\d+\.[\d.]*\d", done.stdout)
        yield name, number[0] if number else "there"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
