"""Cookies as lines of a file, in the form that Netscape's browser had and curl and wget read and write.

Seven fields with tabs between: the host, whether its subdomains count too, the path, whether TLS is
needed, when it ends (seconds since 1970, 0 for the end of a session), the name, the value. `#HttpOnly_`
before the host is no comment. A host has its port where that is not the scheme's own, as wget has it; curl
knows no ports, and what it wrote is for the schemes' own. Octets of a line stand for themselves, as Latin-1.

What is in a file was written by strangers: a line holds nothing that a server might not have set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from protocols.authority import comparable_host
from protocols.http.cookies import CONTROLS, LONGEST_PAIR, Cookie, SuffixOf, is_alone

TITLE = b"# Netscape HTTP Cookie File\n# Secrets, kept by resolve; comments stay as they are.\n\n"

_HTTP_ONLY = "#HttpOnly_"
_HOST = re.compile(r"\.?(?P<name>[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?")
_ADDRESS = re.compile(r"[0-9a-f.]*:[0-9a-f:.]*:[0-9a-f.]*")  # of IPv6, as curl writes it
_FLAGS = {"TRUE": True, "FALSE": False}

Cookies = Mapping[tuple[object, ...], Cookie]


class BadLine(Exception):
    """A line that is neither a cookie nor a comment; the message says why, and nothing of the line."""


def read_lines(octets: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines of a file with their ends, numbered."""
    *lines, last = octets.split(b"\n")  # a CR alone ends none
    yield from enumerate([line + b"\n" for line in lines] + ([last] if last else []), 1)


def parse_line(line: bytes, serial: int, suffix_of: SuffixOf | None) -> Cookie | None:
    """The cookie of a line; None for a comment or an empty one. Raises `BadLine`."""
    text = line.removesuffix(b"\n").removesuffix(b"\r").decode("latin-1")
    http_only = text.startswith(_HTTP_ONLY)
    text = text.removeprefix(_HTTP_ONLY)
    if not http_only and (not text.strip() or text.startswith("#")):
        return None
    if CONTROLS.search(text):
        raise BadLine("it holds a control character")
    fields = text.split("\t")
    if len(fields) == 6:  # curl's and wget's cookies with an empty value, where an editor took the tab away
        fields.append("")
    if len(fields) != 7:
        raise BadLine("seven fields with tabs between are needed")
    host, port = _place(fields[0].lower())
    cookie = Cookie(
        name=fields[5],
        value=fields[6],
        host=host,
        port=port,
        path=fields[2],
        subdomains=_flag(fields[1]) and suffix_of is not None,
        secure=_flag(fields[3]),
        serial=serial,
        expires=_expires(fields[4]),
        http_only=http_only,
    )
    _check(cookie, suffix_of)
    return cookie


def _place(text: str) -> tuple[str, int | None]:
    if _ADDRESS.fullmatch(text):
        return text, None
    found = _HOST.fullmatch(text)
    port = None if found is None or found["port"] is None else int(found["port"])
    if found is None or port == 0 or (port or 0) > 65_535:
        raise BadLine("its first field is no host")
    return comparable_host(found["name"].strip("[]")), port


def _flag(text: str) -> bool:
    if text.upper() not in _FLAGS:
        raise BadLine("TRUE or FALSE is needed in its second and fourth field")
    return _FLAGS[text.upper()]


def _expires(text: str) -> int | None:
    if re.fullmatch(r"-?[0-9]{1,18}", text) is None:
        raise BadLine("its fifth field is no time in seconds")
    return int(text) or None


def _check(cookie: Cookie, suffix_of: SuffixOf | None) -> None:
    """What no server could have set. Raises `BadLine`."""
    if not cookie.name or len(cookie.name) + len(cookie.value) > LONGEST_PAIR:
        raise BadLine("its name is empty, or name and value are too long")
    if re.search("[;=]", cookie.name) or ";" in cookie.value or not cookie.path.startswith("/"):
        raise BadLine("its name, its value or its path is none that a server could have set")
    if cookie.subdomains and (is_alone(cookie.host) or (suffix_of and suffix_of(cookie.host) == cookie.host)):
        raise BadLine("it is for more hosts than one that are of no one site")
    name = cookie.name.lower()
    if name.startswith(("__secure-", "__host-")) and not cookie.secure:
        raise BadLine("its name promises that it needs TLS")
    if name.startswith("__host-") and (cookie.subdomains or cookie.path != "/"):
        raise BadLine("its name promises that it is for all of one host")


def line_of(cookie: Cookie) -> bytes:
    """One cookie as a line."""
    host = f"[{cookie.host}]" if ":" in cookie.host and cookie.port else cookie.host
    place = f"{'.' if cookie.subdomains else ''}{host}{f':{cookie.port}' if cookie.port else ''}"
    fields = (
        f"{_HTTP_ONLY if cookie.http_only else ''}{place}",
        "TRUE" if cookie.subdomains else "FALSE",
        cookie.path,
        "TRUE" if cookie.secure else "FALSE",
        str(cookie.expires or 0),
        cookie.name,
        cookie.value,
    )
    return "\t".join(fields).encode("latin-1") + b"\n"


def merged(octets: bytes, before: Cookies, after: Cookies, now: float, suffix_of: SuffixOf | None) -> bytes:
    """A file as it is now, with what changed between `before` and `after`: what somebody else put into it
    meanwhile stays, and so do comments and lines that are no cookies. What has ended goes."""
    changed = {key: after.get(key) for key in {**before, **after} if before.get(key) != after.get(key)}
    lines, written = [], set()
    for number, line in read_lines(octets or TITLE):
        cookie = _of_line(line, number, suffix_of)
        if cookie is None:
            lines.append(line)
        elif cookie.key not in changed:
            lines += [] if cookie.is_over(now) else [line]
        elif cookie.key not in written and (new := changed[cookie.key]) is not None:
            lines.append(line_of(new))
            written.add(cookie.key)
    lines += [line_of(each) for key, each in changed.items() if each is not None and key not in written]
    return b"".join(line if line.endswith(b"\n") else line + b"\n" for line in lines)


def _of_line(line: bytes, number: int, suffix_of: SuffixOf | None) -> Cookie | None:
    try:
        return parse_line(line, number, suffix_of)
    except BadLine:
        return None
