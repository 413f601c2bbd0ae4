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


def program(name: str) -> Program | None:
    """Return the program, or None if the program is missing."""
    if name in _INSTALLED:
        found = shutil.which(name)
        return Program(found, environment()) if found else None
    place, _ = _UNPACKED[name]
    try:
        files = find(name, place)
    except (
        pytest.skip.Exception,
        pytest.fail.Exception,
    ):  # the environment variable `RESOLVE_SERVERS` determines which exception is raised
        return None
    return Program(str(files.path(place)), files.environment() | {"HOME": os.devnull})


def versions() -> dict[str, str]:
    """Return the versions of all libraries and programs; `not there` for a missing library or program."""
    found = {
        "Python": platform.python_version(),
        "OpenSSL": ssl.OPENSSL_VERSION.split()[1],
        "kernel": platform.release(),
        "processors": str(os.cpu_count()),
        "processor": _processor(),
    }
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not there"
    return found | dict(_of_programs())


def _of_programs() -> Iterator[tuple[str, str]]:
    for name in (*_INSTALLED, *_UNPACKED):
        asked = program(name)
        if asked is None:
            yield name, "not there"
            continue
        how = _UNPACKED[name][1] if name in _UNPACKED else "--version"
        # vsftpd prints its version to file descriptor 0 (standard input)
        command = ["sh", "-c", f'exec "$0" {how} <&1 2>&1', asked.path]
        said = subprocess.run(command, env=asked.environment, capture_output=True, text=True)
        number = re.search(r"\d+\.[\d.]*\d", said.stdout)
        yield name, number[0] if number else "there"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
