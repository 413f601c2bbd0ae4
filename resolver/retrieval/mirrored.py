"""Where else an object is, as a person said of all that its host has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from protocols.location import Url
from resolver.url import without_user


def mirrored(url: Url, mirrors: Iterable[str]) -> Iterator[str]:
    """The path of the URL behind each of the mirrors. What its scheme alone understands (a transfer type, a
    search, ftp's way up to the root) goes along to no other scheme: that mirror is passed over."""
    _, _, path = without_user(url).partition("://")[2].partition("/")
    for mirror in mirrors:
        same = mirror.lower().startswith(f"{url.scheme}:")
        if same or not (set(path) & set(";?") or path.lower().startswith("%2f")):
            yield f"{mirror.rstrip('/')}/{path}"
