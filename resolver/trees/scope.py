"""The scope of a tree: the URLs below the top URL, with the same scheme, host and port.

URLs outside the scope are not requested, even after a redirect. The module also selects files and
detects loops.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property
from urllib.parse import quote

from protocols.authority import comparable_host
from protocols.errors import NotConfigured
from protocols.location import Entry, HostUrl, JsonValue, Url
from protocols.scheme import Tree
from resolver.policy.files import local_path
from resolver.url import registry
from resolver.url.parsing import build, parse
from resolver.url.registry import is_web

#: Path components that may lead to another directory (path traversal). A decoded name must not contain them.
_UNSAFE = frozenset({b"", b".", b".."})


def find_tree(url: Url) -> Tree | None:
    """Return the tree rules of the URL's scheme, or None if the scheme has no directory trees."""
    row = registry.find(url.scheme)
    return None if row is None else row.tree


def walked_as(url: Url) -> Url:
    """Return the URL itself, or an equivalent URL of another scheme, for the walk."""
    row = registry.find(url.scheme)
    text = None if row is None or row.walked_as is None else row.walked_as(url)
    return url if text is None else parse(text)


def list_names(url: Url) -> tuple[bytes, ...]:
    """Return the path components of a URL, from the root directory of the server."""
    tree = find_tree(url)
    return () if tree is None else tree.names(url)


def format_server(url: Url) -> str:
    """Return the scheme, host and port (origin) of a URL, as text."""
    if isinstance(url, HostUrl):
        return f"{url.scheme}://{comparable_host(url.host)}:{url.effective_port}"
    return f"{url.scheme}:"


def path_of_top(url: Url, *, host: bool, cut: int | None) -> str:
    """Return the local path of a tree's top directory.

    It is the last path component, or the host if the path is empty.

    Args:
        url: The top URL of the tree.
        host: Whether the local path begins with the host.
        cut: The number of leading directories to omit. None omits no directory if `host` is true, and
            otherwise all directories.

    Raises:
        Refused: The local name is not allowed (S14).
    """
    names = list_names(url)
    host_name = [url.host.encode()] if isinstance(url, HostUrl) and url.host else []
    if not names:
        return local_path(host_name or [b"root"])
    directories = names[:-1][cut or 0 :] if host or cut is not None else ()
    return local_path([*(host_name if host else ()), *directories, names[-1]])


def split_pattern(url: Url) -> tuple[Url, str]:
    """Split a URL with a shell pattern as its last name into the directory and the pattern.

    A percent-encoded `*`, `?` or `[` is the character itself.

    Raises:
        NotConfigured: The URL has no file name, or the name is followed by a query, typecode or fragment.
    """
    parent, _, segment = url.text.rpartition("/")
    tree = find_tree(url)
    if tree is None:
        raise NotConfigured(f"{url.scheme} URLs do not have directories", url=url.shown)
    if getattr(url, "search", None) is not None:
        message = "'?' begins the query of this URL, and a pattern must not have a query (use * or [...])"
        raise NotConfigured(message, url=url.shown)
    if getattr(url, "typecode", None) is not None or url.fragment is not None:
        raise NotConfigured("a pattern must not have a typecode or a fragment", url=url.shown)
    if not segment or not list_names(url):
        raise NotConfigured("expected a pattern after the last / of the URL", url=url.shown)
    directory = parse(build(tree.directory(parse(f"{parent}/" if is_web(url.scheme) else parent))))
    if list_names(directory) != list_names(url)[:-1]:
        raise NotConfigured("the part before the pattern is not a directory", url=url.shown)
    octets = _ENCODED.sub(_as_literal, segment.encode("utf-8", "surrogateescape"))
    return directory, octets.decode("utf-8", "surrogateescape")


_ENCODED = re.compile(rb"%([0-9A-Fa-f]{2})")


def _as_literal(match: re.Match[bytes]) -> bytes:
    octet = bytes.fromhex(match[1].decode("ascii"))
    return b"[" + octet + b"]" if octet in b"*?[" else octet


@dataclass(frozen=True, slots=True)
class TreeScope:
    """The limits of a tree: its scheme, host and port, and the path components of its top."""

    server: str
    names: tuple[bytes, ...]

    @classmethod
    def from_url(cls, url: Url) -> TreeScope:
        return cls(format_server(url), list_names(url))

    def covers(self, url: Url, names: tuple[bytes, ...] | None = None) -> bool:
        """Return whether the URL is the top URL of the tree or below the top URL.

        `names` are the path components of `url`, if they are already known.
        """
        names = list_names(url) if names is None else names
        top = len(self.names)
        return (
            names[:top] == self.names
            and format_server(url) == self.server
            and _UNSAFE.isdisjoint(names[top:])
        )


# The selection of files by name and by URL. The patterns do not apply to directories.


@dataclass(frozen=True)
class Selection:
    """Case-sensitive patterns that select files.

    Args:
        accept: Glob patterns for names (`*.iso`). If the list is not empty, a name must match at least one
            pattern.
        reject: Glob patterns for names that are excluded.
        pattern: A regular expression that must match somewhere in the URL.

    Raises:
        ValueError: `pattern` is not a valid regular expression.
    """

    accept: tuple[str, ...] = ()
    reject: tuple[str, ...] = ()
    pattern: str | None = None

    def __post_init__(self) -> None:
        _ = self._url_pattern

    @property
    def takes_all(self) -> bool:
        """Return whether all files are selected."""
        return not self.accept and not self.reject and self.pattern is None

    def takes_local(self, name: str, url: str) -> bool:
        """Return whether the selection includes a local file."""
        return self.takes(os.fsencode(name), url)

    def takes(self, name: bytes, url: str) -> bool:
        """Return whether the selection includes the file with this name and URL."""
        if self.takes_all:
            return True
        text = name.decode("utf-8", "surrogateescape")
        if self._rejected is not None and self._rejected.match(text):
            return False
        if self._accepted is not None and not self._accepted.match(text):
            return False
        return self._url_pattern is None or self._url_pattern.search(url) is not None

    @cached_property
    def _accepted(self) -> re.Pattern[str] | None:
        return _join_globs(self.accept)

    @cached_property
    def _rejected(self) -> re.Pattern[str] | None:
        return _join_globs(self.reject)

    @cached_property
    def _url_pattern(self) -> re.Pattern[str] | None:
        if self.pattern is None:
            return None
        try:
            return re.compile(self.pattern)
        except re.error as error:
            raise ValueError(f"{self.pattern!r} is not a regular expression: {error}") from error


def _join_globs(globs: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(map(translate, globs))) if globs else None


# Loop detection, for example for symlinks on the server. Two URLs name the same directory in these cases:
#
# - The normalized URLs are equal.
# - The identifiers from the server are equal (`unique` of MLSD, `i` of EPLF, the real path of a directory).
# - The listing states the target of a link, and the target is the other directory.
#
# HTTP provides neither an identifier nor a link target. For HTTP, a directory counts as a loop if two of its
# parents have the same listing.

#: Maximum nesting depth of directories, which is greater than the depth of real trees.
MAX_DEPTH = 64

#: Maximum number of equal listings on the path from the top to a directory. Two equal listings are allowed,
#: because a directory may contain a copy of itself.
MAX_EQUAL_LISTINGS = 2

_HASH_MODULUS = 1 << 64


def normalize_url(url: Url) -> str:
    """Return the normalized URL (RFC 3986 section 6.2.2), for comparisons."""
    return f"{format_server(url)}/{'/'.join(quote(name, safe='') for name in list_names(url))}"


def make_identity(server: str, extra: Mapping[str, JsonValue] | None) -> str | None:
    """Return the server's identifier of an entry, or None without an identifier.

    Entries with equal identifiers are the same file. Entries with different identifiers may also be the same
    file.
    """
    unique = (extra or {}).get("unique")
    return f"{server} {unique}" if isinstance(unique, str) and unique else None


def leads_up(entry: Entry, names: Sequence[bytes]) -> bool:
    """Return whether an entry of the directory `names` is a link to the directory or to a parent."""
    target = (entry.extra or {}).get("link")
    if not isinstance(target, str):
        return False
    octets = target.encode("utf-8", "surrogateescape")
    components = [] if octets.startswith(b"/") else list(names)
    for part in octets.split(b"/"):
        if part == b"..":
            del components[-1:]
        elif part not in (b"", b"."):
            components.append(part)
    return components == list(names[: len(components)])


class DirectoryDigest:
    """A digest of a listing, computed from names, sizes and dates. The order of entries does not matter.

    The digest is valid in this process only, because Python randomizes its hashes.
    """

    def __init__(self) -> None:
        self._sum = 0
        self._count = 0

    def add(self, name: bytes, entry: Entry) -> None:
        extra = entry.extra or {}
        texts = str(extra.get("size_text")), str(extra.get("modified_text"))
        self._sum = (self._sum + hash((name, entry.kind, entry.size, entry.modified, *texts))) % _HASH_MODULUS
        self._count += 1

    @property
    def text(self) -> str:
        return f"<{self._count} {self._sum:x}>"
