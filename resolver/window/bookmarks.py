"""URLs that a person keeps: a JSON object a line, in the configuration directory, for nobody else to read."""

from __future__ import annotations

import json
import os.path

from protocols.errors import NotConfigured
from resolver.disk.own_file import MISSING, keep_own, open_own
from resolver.environment import own_folder
from resolver.window.pages.own import OpenedUrl

_WHAT = "file of bookmarks"
_MOST = 4_194_304


def bookmarks() -> list[OpenedUrl]:
    """In the order in which they were kept. Raises `NotConfigured` for a file that may not be trusted."""
    try:
        with open_own(_path(), _WHAT, _MOST, secret=True) as file:
            return _read(file.octets)
    except MISSING:
        return []


def keep(url: str, title: str) -> None:
    """One more, or the same by another name. Raises `LocalError`."""
    keep_own(_path(), _WHAT, _MOST, lambda octets: _written([*_but(octets, url), OpenedUrl(url, title)]))


def forget(url: str) -> None:
    keep_own(_path(), _WHAT, _MOST, lambda octets: _written(_but(octets, url)))


def _path() -> str:
    folder = own_folder()
    if folder is None:
        raise NotConfigured("bookmarks have no place: neither XDG_CONFIG_HOME nor a home directory is known")
    return os.path.join(folder, "bookmarks.jsonl")


def _but(octets: bytes, url: str) -> list[OpenedUrl]:
    return [each for each in _read(octets) if each.url != url]


def _read(octets: bytes) -> list[OpenedUrl]:
    """What somebody wrote by hand and is none of ours is passed over."""
    found = []
    for line in octets.splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if isinstance(said, dict) and isinstance(said.get("url"), str):
            title = said.get("title")
            found.append(OpenedUrl(said["url"], title if isinstance(title, str) else ""))
    return found


def _written(kept: list[OpenedUrl]) -> bytes:
    return b"".join(json.dumps({"url": each.url, "title": each.title}).encode() + b"\n" for each in kept)
