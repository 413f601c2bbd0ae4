"""The name of a saved file, made from the URL that was asked for (rule S14).

Never from a redirect target, a header or a listing: those are somebody else's words. The one exception is a
header, for a person who lets the server choose.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from protocols.location import HostUrl, Url
from resolver import registry
from resolver.policy import local_name, local_path
from resolver.url import build, parse

#: The name of what the URL names by its directory alone, and how it goes on for a server's media type.
_INDEX = b"index"
_SUFFIXES = {
    "application/atom+xml": ".atom",
    "application/json": ".json",
    "application/pdf": ".pdf",
    "application/rss+xml": ".rss",
    "application/xhtml+xml": ".xhtml",
    "application/xml": ".xml",
    "image/gif": ".gif",
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/svg+xml": ".svg",
    "text/html": ".html",
    "text/plain": ".txt",
    "text/xml": ".xml",
}


def last_part(url: Url) -> bytes:
    """The last part of the name of the thing, decoded; empty where the URL names none, and where its scheme
    does not say which component is the name."""
    return _path_of(url)[-1]


def _path_of(url: Url) -> list[bytes]:
    """The name of the thing behind the directories that it is in, all decoded; the last is empty where
    `last_part` is."""
    row = registry.find(url.scheme)
    for component in () if row is None else row.named_by:
        value: object = getattr(url, component)
        if value is None or value == ():
            continue
        above = () if row is None or row.within is None else getattr(url, row.within)
        if isinstance(value, tuple):
            return [*above, *value]
        if isinstance(value, bytes):
            return [*above, value]
        return [*above, *map(unquote_to_bytes, str(value).split("/"))]  # text is still encoded
    return [b""]


def _told_apart(url: Url) -> bytes:
    """What things of this name differ by, to stand behind it: `_id=1` of `x?id=1`."""
    row = registry.find(url.scheme)
    values = () if row is None else (getattr(url, component) for component in row.told_apart_by)
    return b"".join(b"_" + re.sub(rb"[/\\]", b"_", unquote_to_bytes(str(each))) for each in values if each)


def listed_name(url: Url) -> str:
    """What a listing with the URL's object in it shows of it, as far as the URL tells: the name of a file,
    the number of an article, a group. Where it tells nothing of the kind, the URL."""
    row = registry.find(url.scheme)
    if row is None or not row.listed:
        return url.shown
    return last_part(url).decode("utf-8", "surrogateescape") or url.shown


def local_file_name(url: Url) -> str:
    """A safe local name for what the URL names, `index` where it ends with a directory. Raises `Refused`
    (S14) when nothing is left of it: then `-O FILE` gives one."""
    name = _INDEX if is_index(url) else last_part(url)
    return local_name(name + _told_apart(url) if name else name)


def is_index(url: Url) -> bool:
    """Does the URL name something by its directory alone, as `http://host/` does?"""
    row = registry.find(url.scheme)
    if row is None or not row.named_by:
        return False
    last = last_part(url)
    values = (getattr(url, component) for component in row.named_by)
    is_path = row.within is None and any(isinstance(value, bytes) for value in values)
    return not last or (is_path and last.endswith(b"/"))


def index_suffix(media_type: str | None) -> str:
    """How the name of such a thing goes on; empty for a type that is not usual there."""
    return _SUFFIXES.get((media_type or "").lower(), "")


def local_directory(url: Url, *, host: bool, cut: int | None) -> str:
    """Where below the directory for files it goes, safe in each part: the `host` that it is from and the
    directories of its path but for the first `cut`; no such directory with None. Empty for none."""
    inside = re.split(rb"[/\\]", b"/".join(_path_of(url)))[:-1] if host or cut is not None else []
    above = [url.host.encode()] if host and isinstance(url, HostUrl) else []
    return local_path([*above, *[part for part in inside if part not in (b"", b".")][cut or 0 :]])


def server_file_name(suggested: bytes | None) -> str | None:
    """The name that a server suggests, cleaned like any other; None where it suggests none. Only for those
    who let it (`Policy.allow_server_name`). Raises `Refused` (S14) as above."""
    return None if suggested is None else local_name(suggested)


def beside(url: Url, *names: bytes) -> Url | None:
    """The URL of what has the last name, in the directories of the others, which are in the same one: built,
    and parsed from scratch. None for a scheme without directories, and where there is nothing beside it."""
    row = registry.find(url.scheme)
    found = None if row is None or row.beside is None else row.beside(url, *names)
    return None if found is None else parse(build(found), origin="user")
