"""References against a URL at hand (RFC 3986 5.2): what the Location of a redirect may be.

Only text is put together here, for URLs whose path is one of slashes (http). The result is parsed from
scratch, like any URL that somebody else has written.
"""

from __future__ import annotations

import re

from protocols.location import Url
from resolver.url import parse, without_user

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def join(base: Url, location: str) -> Url:
    """The URL that `location`, complete or relative, names when found at `base`.

    User information of `base` is not carried on (S06, S11); its fragment is, where `location` has none
    (RFC 9110 10.2.2). Raises `InvalidUrl` with positions in the joined text.
    """
    complete = location if _SCHEME.match(location) else _resolve(without_user(base), location)
    if base.fragment is not None and "#" not in location:
        complete = f"{complete}#{base.fragment}"
    return parse(complete)


def _resolve(base: str, location: str) -> str:
    """RFC 3986 5.2.2 for a reference without a scheme; `base` has an authority and no fragment."""
    reference, sign, fragment = location.partition("#")
    path, question, search = reference.partition("?")
    whole, base_question, base_search = base.partition("?")
    authority, base_path = _split_authority(whole, whole.index("//"))
    if path.startswith("//"):
        named, path = _split_authority(path, 0)
        authority = authority.partition("//")[0] + named
    elif not path:
        path = base_path
        if not question:
            question, search = base_question, base_search
    elif not path.startswith("/"):
        path = f"{base_path[: base_path.rfind('/') + 1] or '/'}{path}"
    return f"{authority}{_remove_dot_segments(path)}{question}{search}{sign}{fragment}"


def _split_authority(text: str, slashes: int) -> tuple[str, str]:
    """What comes before the path, and the path; `slashes` is the index of `//`."""
    path = text.find("/", slashes + 2)
    return (text, "") if path < 0 else (text[:path], text[path:])


def _remove_dot_segments(path: str) -> str:
    """RFC 3986 5.2.4, for a path that is empty or begins with a slash. Escaped dots are names."""
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments and segments[-1] in (".", ".."):
        kept.append("")
    return "".join(f"/{segment}" for segment in kept)
