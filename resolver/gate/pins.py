"""Servers that no authority vouches for: each is known by the certificate that it showed first.

A scheme of such servers says so in its row (`certificates="pin"`). What a place showed is kept in a file of
the person's own, a line each, beside the configuration; what shows another one afterwards is somebody else
until the person says otherwise, and is told nothing. A certificate is compared, and nothing in it is read.
"""

from __future__ import annotations

import os
from functools import partial
from hashlib import sha256

from protocols.authority import comparable_host
from protocols.errors import NotConfigured, TlsError
from resolver.disk.own_file import MISSING, keep_own, open_own
from resolver.environment import own_folder
from resolver.loops import running

_WHAT = "list of known certificates"
_NAME = "known-certificates"
_MOST = 1_048_576  # octets: some ten thousand places


class Pins:
    """Those of one run. What was found to be right stays right; the file is looked at for all others."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    async def check(self, host: str, port: int, certificate: bytes) -> None:
        """Is it the one that this place showed first? The first one is kept. Raises `TlsError` for another
        one, and `LocalError` where nothing can be kept."""
        if not certificate:
            raise TlsError(f"{host} shows no certificate")
        place, shown = f"{comparable_host(host)} {port}", f"sha256:{sha256(certificate).hexdigest()}"
        if self._known.get(place) == shown:
            return
        path = _path()
        known = await running().in_thread(_known_at, path, place, shown)
        if known != shown:
            raise TlsError(
                f"{host} port {port} shows another certificate than when it was first met ({shown}, not"
                f" {known}), and was told nothing; if whoever keeps it says that it was renewed, remove the"
                f" line {place!r} from {path}"
            )
        self._known[place] = shown


def _path() -> str:
    folder = own_folder()
    if folder is None:
        raise NotConfigured(f"there is no place for the {_WHAT}: set XDG_CONFIG_HOME or HOME")
    return os.path.join(folder, _NAME)


def _known_at(path: str, place: str, shown: str) -> str:
    """What the file has for a place; `shown`, which it has from now on, where it had nothing."""
    known = _known(path)
    if place not in known:
        keep_own(path, _WHAT, _MOST, partial(_with, path, place, shown))
        known = _known(path)  # somebody else may have met it meanwhile
    return known.get(place, shown)


def _known(path: str) -> dict[str, str]:
    try:
        with open_own(path, _WHAT, _MOST, secret=True) as file:
            return _read(path, file.octets)
    except MISSING:
        return {}


def _with(path: str, place: str, shown: str, octets: bytes) -> bytes:
    """The file with a line for a place that has none."""
    if place in _read(path, octets):
        return octets
    end = b"" if octets.endswith(b"\n") or not octets else b"\n"
    written = b"%b%b%b\n" % (octets, end, f"{place} {shown}".encode())
    if len(written) > _MOST:
        raise NotConfigured(f"{path} has no room for {place}: remove lines that nobody needs")
    return written


def _read(path: str, octets: bytes) -> dict[str, str]:
    known: dict[str, str] = {}
    for number, line in enumerate(octets.decode("utf-8", "replace").split("\n"), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 3 or not words[1].isdecimal():
            raise NotConfigured(f"{path}, line {number}: a host, a port and sha256:DIGEST are needed")
        known[f"{comparable_host(words[0])} {int(words[1])}"] = words[2].lower()
    return known
