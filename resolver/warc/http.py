"""HTTP requests and answers as archives store them: the bytes of the wire, without secrets; and their URLs.

Fields are never omitted; only secret values, and passwords in a URL, are replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import h11

from protocols.location import HostUrl, Url
from resolver.url import registry
from resolver.url.parsing import build

#: Octets of heads that are looked at, interim ones and all.
MOST_HEAD = 262_144

_HEAD_END = re.compile(rb"\r?\n\r?\n")
_INTERIM = re.compile(rb"HTTP/1\.[01] 1[0-9][0-9](?![0-9])")
_STATUS = re.compile(rb"HTTP/(1\.[01]) ([0-9]{3})(?:[ \r\n]|\Z)")
_LENGTH = re.compile(rb"\r?\ncontent-length[ \t]*:[ \t]*([0-9]{1,18})[ \t]*(?=\r?\n)", re.IGNORECASE)
_CODED = re.compile(rb"\r?\ntransfer-encoding[ \t]*:", re.IGNORECASE)
_TYPE = re.compile(rb"\r?\ncontent-type[ \t]*:[ \t]*([^\r\n;]*)", re.IGNORECASE)
#: Its name, what is behind the colon, and the lines that it is folded into.
_FIELD = re.compile(rb"(?m)^([^\s:]+)([ \t]*:[ \t]*)([^\r\n]*(?:\r?\n[ \t][^\r\n]*)*)")
#: A line of a head that is no field.
_OTHER = re.compile(rb"(?m)^(?![^\s:]+[ \t]*:|[ \t])[^\r\n]+")
#: By these the octets of a record are read again: they keep their names, whatever was sent in secret.
_FRAMING = frozenset({b"content-encoding", b"content-length", b"content-type", b"transfer-encoding"})
_MASKED = re.compile(rb"(?m)^([^\s:]+)[ \t]*:[^\r\n]*\*\*\*\*")
#: Of a longer scheme its end: else each letter of a long word is looked at as often as letters follow.
_IN_URL = re.compile(rb"(?i)([a-z][a-z0-9+.-]{0,63}://[^\s/?#:@]*:)[^\s/?#@]*@")
_HIDDEN = b"****"
#: What gives us a secret. Nobody needs to have logged in before: the cookie of a session is one to whoever
#: reads it later.
_COOKIES = frozenset({b"set-cookie", b"set-cookie2"})
#: What proves a secret that was sent.
_PROVED = frozenset({b"authentication-info"})
_BODILESS = frozenset({204, 304})


class AnswerSpan(NamedTuple):
    """Where the heads of an answer are in what came: octets of interim ones, and those of its own."""

    interim: int
    head: bytes

    @property
    def status(self) -> int | None:
        found = _STATUS.match(self.head)
        return None if found is None else int(found[2])

    @property
    def version(self) -> str | None:
        """As archives call it."""
        found = _STATUS.match(self.head)
        return None if found is None else f"http/{found[1].decode('ascii')}"

    @property
    def coded(self) -> bool:
        """Does its body come in a transfer coding?"""
        return _CODED.search(self.head) is not None

    @property
    def length(self) -> int | None:
        """Octets of its body, where it says so."""
        if self.status in _BODILESS:
            return 0
        found = None if self.coded else _LENGTH.search(self.head)
        return None if found is None else int(found[1])

    @property
    def media_type(self) -> str | None:
        found = _TYPE.search(self.head)
        return None if found is None else found[1].decode("latin-1").strip().lower() or None


def find_answer(octets: bytes) -> AnswerSpan | None:
    """In the first octets that came; None where there is no whole head."""
    begin = 0
    while (end := _HEAD_END.search(octets, begin)) is not None:
        if not _INTERIM.match(octets, begin):
            return AnswerSpan(begin, octets[begin : end.end()])
        begin = end.end()
    return None


def masked_fields(request: bytes) -> list[str]:
    """Names of fields whose values are not shown in a request, in lower case."""
    head = request.partition(b"\r\n\r\n")[0]
    return [found[1].decode("latin-1").lower() for found in _MASKED.finditer(head)]


def mask_answer(
    head: bytes, *, asked_secretly: bool, keeps_cookies: bool, hide: Callable[[bytes], bytes]
) -> tuple[bytes, list[str]]:
    """The head, or several, without secrets, and the names of the fields that are masked."""
    names: list[str] = []
    given = (frozenset() if keeps_cookies else _COOKIES) | (_PROVED if asked_secretly else frozenset())

    def masked(found: re.Match[bytes]) -> bytes:
        name, value = found[1].lower(), found[3]
        shown = _HIDDEN if name in given else hide(_IN_URL.sub(rb"\1" + _HIDDEN + b"@", value))
        if shown != value:
            names.append(hide(name).decode("latin-1"))
        return (found[1] if name in _FRAMING else hide(found[1])) + found[2] + shown

    status = _STATUS.match(head)
    begin = 0 if status is None else status.end(2)
    reason, end, fields = head[begin:].partition(b"\n")
    shown = _FIELD.sub(masked, _OTHER.sub(lambda found: hide(found[0]), fields))
    return head[:begin] + hide(reason) + end + shown, names


class ChunkDecoder:
    """A body without its transfer coding, as far as it is one."""

    def __init__(self, head: bytes) -> None:
        self._machine = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEAD)
        self._machine.send(h11.Request(method="GET", target="/", headers=[("Host", "archive.invalid")]))
        self._machine.send(h11.EndOfMessage())
        self.is_whole = self._is_over = False
        self.take(head)

    def take(self, octets: bytes) -> bytes:
        """What these make; nothing behind its end, or where it is none."""
        if self._is_over or not octets:  # which h11 takes for the end of a connection
            return b""
        made: list[bytes] = []
        try:
            self._machine.receive_data(octets)
            while isinstance(
                event := self._machine.next_event(), h11.Data | h11.Response | h11.InformationalResponse
            ):
                if isinstance(event, h11.Data):
                    made.append(bytes(event.data))
        except h11.RemoteProtocolError:
            self._is_over = True
        else:
            self.is_whole = self._is_over = isinstance(event, h11.EndOfMessage)
        return b"".join(made)


# The URL of a record: as records write it, and as it is looked up.

#: What no URL may have as it is (RFC 3986 2).
_NEVER = re.compile(r"[^!#$&-;=?-\[\]_a-z~%]|%(?![0-9A-Fa-f]{2})")


def target_of(url: Url, *, has_user: bool, hide: Callable[[str], str] = str) -> str:
    """The URL as records have it: whose, but not who, never a password, and nothing that `hide` hides."""
    absent: dict[str, Any] = {
        name: None
        for name in ("password", "fragment", "zone", *(() if has_user else ("user",)))
        if getattr(url, name, None) is not None
    }
    text = build(replace(url, **absent)) if absent else url.text
    return _NEVER.sub(_escape_match, hide(text))


def normalize_target(url: Url) -> str:
    """The same text for all URLs that name the same thing, whoever wrote them: of their components, with the
    host in small letters and no port that is the scheme's. Nothing else is taken for the same."""
    row = registry.find(url.scheme)
    plain: dict[str, Any] = {"text": "", "findings": (), "places": (), "fragment": None}
    if isinstance(url, HostUrl):
        plain |= {"host": url.host.lower(), "password": None, "zone": None}
        if url.port == url.default_port:
            plain["port"] = None
        if row is None or not row.userinfo:
            plain["user"] = None
    text = _NEVER.sub(_escape_match, build(replace(url, **plain)))
    is_bare = row is not None and row.kept_as == "exchange" and "/" not in text.partition("://")[2]
    return f"{text}/" if is_bare and "?" not in text else text  # RFC 9110 4.2.3


def _escape_match(found: re.Match[str]) -> str:
    return "".join(f"%{octet:02X}" for octet in found[0].encode("utf-8", "surrogateescape"))
