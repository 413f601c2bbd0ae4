"""The name of a saved file, made from the URL that was asked for (rule S14).

Never from a redirect target, a header or a listing: those are somebody else's words. The one exception is a
header, for a person who lets the server choose.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from protocols.file.url import FileUrl
from protocols.ftp.url import FtpUrl
from protocols.http.disposition import suggested_name
from protocols.http.url import HttpUrl
from protocols.location import Url
from resolver.policy import local_name
from resolver.url import build, parse

#: Which components end in the name of the thing, per scheme: the first that is there counts.
_NAMED_BY: dict[str, tuple[str, ...]] = {
    "file": ("segments",),
    "ftp": ("name",),
    "ftps": ("name",),
    "gopher": ("selector",),
    "gophers": ("selector",),
    "http": ("path",),
    "https": ("path",),
    "mailto": ("addr_spec",),
    "news": ("message_id", "group"),
    "nntp": ("article", "group"),
    "nntps": ("article", "group"),
    "prospero": ("hsoname",),
    "snews": ("message_id", "group"),
    "wais": ("wpath", "search", "database"),
}
_LISTED_BY_NAME = frozenset({"file", "ftp", "ftps", "news", "nntp", "nntps", "snews"})
_STILL_ENCODED = frozenset({"path", "wpath"})


def last_part(url: Url) -> bytes:
    """The last part of the name of the thing, decoded; empty where the URL names none."""
    components = url.components()
    for name in _NAMED_BY.get(url.scheme, ()):
        value = components.get(name)
        if isinstance(value, list):
            value = value[-1] if value else None
        if value is not None:
            text = str(value)
            encoded = name in _STILL_ENCODED
            return unquote_to_bytes(text.rpartition("/")[2]) if encoded else text.encode("latin-1")
    return b""


def listed_name(url: Url) -> str:
    """What a listing with the URL's object in it shows of it, as far as the URL tells: the name of a file,
    the number of an article, a group. Where it tells nothing of the kind, the URL."""
    if url.scheme not in _LISTED_BY_NAME:
        return url.shown
    return last_part(url).decode("utf-8", "surrogateescape") or url.shown


def local_file_name(url: Url) -> str:
    """A safe local name for what the URL names. Raises `Refused` (S14) when nothing is left of it:
    then `-O FILE` gives one."""
    return local_name(last_part(url))


def server_file_name(meta: Iterable[tuple[str, str]]) -> str | None:
    """The name that an http server suggests in these fields, cleaned like any other; None where it suggests
    none. Only for those who let it (`Policy.allow_server_name`). Raises `Refused` (S14) as above."""
    for field, value in meta:
        if field == "content-disposition":
            name = suggested_name(value)
            return None if name is None else local_name(name)
    return None


def beside(url: Url, name: bytes) -> Url:
    """The URL of `name` in the same directory, for ftp, file and http: built, and parsed from scratch."""
    changed: dict[str, Any]
    match url:
        case FtpUrl():
            changed = {"name": name, "typecode": "i"}
        case FileUrl():
            changed = {"segments": (*url.segments[:-1], name)}
        case HttpUrl():
            directory = (url.path or "").rpartition("/")
            changed = {"path": f"{directory[0]}{directory[1]}{quote(name)}", "search": None}
        case _:
            raise AssertionError(f"{url.scheme} has no directories")
    return parse(build(replace(url, fragment=None, **changed)))
