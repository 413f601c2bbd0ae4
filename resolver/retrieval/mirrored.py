"""Where else an object is, as a person said of all that a host has, or of all that is below a URL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from protocols.errors import InvalidUrl, NotConfigured
from protocols.location import HostUrl, Url
from resolver.hosts import names_of
from resolver.url import parse, without_user


def mirrored(url: Url, mirrors: Sequence[str]) -> Iterable[str]:
    """The path of the URL behind each of the mirrors, which few hosts have."""
    return _behind(url, _path(url), mirrors) if mirrors else ()


class MirrorPrefixes:
    """What is below one URL is below others, too. The longest prefix counts, and whole segments of it: behind
    `http://h/pub` there is no `http://h/public`. However it writes host and port, and whoever logs in."""

    def __init__(self, said: Mapping[str, Sequence[str]]) -> None:
        """Raises `NotConfigured` for a prefix or a mirror that is no URL with a path."""
        self._said: dict[tuple[str, str], dict[str, tuple[str, Sequence[str]]]] = {}
        for prefix, mirrors in said.items():
            if isinstance(mirrors, str):
                raise NotConfigured(f"the mirrors of {prefix} are a list of URLs, not a text")
            url = check_mirror(prefix)
            if not (isinstance(url, HostUrl) and url.host):
                raise NotConfigured(f"{url.shown} leads to no host, and has no mirrors")
            for mirror in mirrors:
                check_mirror(mirror)
            self._said.setdefault(_place(url), {})[_path(url).rstrip("/")] = (prefix, mirrors)

    def find(self, url: Url) -> tuple[str, tuple[str, ...]] | None:
        """The prefix that counts for a URL, and the URLs that its mirrors make of it."""
        if not (self._said and isinstance(url, HostUrl)):
            return None
        there = self._said.get(_place(url), {})
        path = _path(url)
        fitting = [each for each in there if path == each or not each or path.startswith(f"{each}/")]
        if not fitting:
            return None
        longest = max(fitting, key=len)
        prefix, mirrors = there[longest]
        rest = path.removeprefix(longest).removeprefix("/") if path != longest or not path else None
        return prefix, tuple(_behind(url, rest, mirrors))


def check_mirror(text: str) -> Url:
    """Raises `NotConfigured` for a text that is no URL behind which a path can be put."""
    try:
        url = parse(text)
    except InvalidUrl as error:
        raise NotConfigured(f"not a URL: {error.message}") from error
    if "?" in text or "#" in text or "://" not in text:
        raise NotConfigured(f"{url.shown} is no URL that a path can be put behind")
    return url


def _place(url: HostUrl) -> tuple[str, str]:
    return url.scheme, names_of(url.host, url.effective_port)[0]


def _path(url: Url) -> str:
    return without_user(url).partition("://")[2].partition("/")[2]


def _behind(url: Url, rest: str | None, mirrors: Iterable[str]) -> Iterator[str]:
    """None is the prefix itself, in whose place a mirror stands as it is. What the URL's scheme alone
    understands (a transfer type, a search, ftp's way up to the root) goes along to no other scheme: that
    mirror is passed over."""
    for mirror in mirrors:
        same = mirror.lower().startswith(f"{url.scheme}:")
        if same or not (set(rest or "") & set(";?") or (rest or "").lower().startswith("%2f")):
            yield mirror if rest is None else f"{mirror.rstrip('/')}/{rest}"
