"""HTTP requests, responses and URLs in the form in which archives store them, without secrets.

Fields are never omitted. Only secret values, and passwords in a URL, are replaced.
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

#: The maximum size in bytes of heads that are parsed, including interim ones.
MOST_HEAD = 262_144

_HEAD_END = re.compile(rb"\r?\n\r?\n")
_INTERIM = re.compile(rb"HTTP/1\.[01] 1[0-9][0-9](?![0-9])")
_STATUS = re.compile(rb"HTTP/(1\.[01]) ([0-9]{3})(?:[ \r\n]|\Z)")
_LENGTH = re.compile(rb"\r?\ncontent-length[ \t]*:[ \t]*([0-9]{1,18})[ \t]*(?=\r?\n)", re.IGNORECASE)
_CODED = re.compile(rb"\r?\ntransfer-encoding[ \t]*:", re.IGNORECASE)
_TYPE = re.compile(rb"\r?\ncontent-type[ \t]*:[ \t]*([^\r\n;]*)", re.IGNORECASE)
#: The name of a field, the text after the colon, and its continuation lines.
_FIELD = re.compile(rb"(?m)^([^\s:]+)([ \t]*:[ \t]*)([^\r\n]*(?:\r?\n[ \t][^\r\n]*)*)")
#: A line of a head that is not a field.
_OTHER = re.compile(rb"(?m)^(?![^\s:]+[ \t]*:|[ \t])[^\r\n]+")
#: The names of these fields stay even if they equal a sent secret, because readers of a record need them.
_FRAMING = frozenset({b"content-encoding", b"content-length", b"content-type", b"transfer-encoding"})
_MASKED = re.compile(rb"(?m)^([^\s:]+)[ \t]*:[^\r\n]*\*\*\*\*")
#: For a scheme of more than 64 characters, only its end matches. Otherwise the search would take quadratic
#: time in a long word.
_IN_URL = re.compile(rb"(?i)([a-z][a-z0-9+.-]{0,63}://[^\s/?#:@]*:)[^\s/?#@]*@")
_HIDDEN = b"****"
#: Fields with a secret for the client, even without a login: a session cookie must be kept from later
#: readers.
_COOKIES = frozenset({b"set-cookie", b"set-cookie2"})
#: Fields whose value is derived from a sent secret.
_PROVED = frozenset({b"authentication-info"})
_BODILESS = frozenset({204, 304})


class AnswerSpan(NamedTuple):
    """The position of the heads in an answer: the size of the interim heads in bytes, and the final head."""

    interim: int
    head: bytes

    @property
    def status(self) -> int | None:
        found = _STATUS.match(self.head)
        return None if found is None else int(found[2])

    @property
    def version(self) -> str | None:
        """Return the HTTP version as archives write it."""
        found = _STATUS.match(self.head)
        return None if found is None else f"http/{found[1].decode('ascii')}"

    @property
    def coded(self) -> bool:
        """Return whether the body has a transfer coding."""
        return _CODED.search(self.head) is not None

    @property
    def length(self) -> int | None:
        """Return the length of the body in bytes, as the head states it."""
        if self.status in _BODILESS:
            return 0
        found = None if self.coded else _LENGTH.search(self.head)
        return None if found is None else int(found[1])

    @property
    def media_type(self) -> str | None:
        found = _TYPE.search(self.head)
        return None if found is None else found[1].decode("latin-1").strip().lower() or None


def find_answer(octets: bytes) -> AnswerSpan | None:
    """Return the answer in the first received bytes; None without a complete head."""
    begin = 0
    while (end := _HEAD_END.search(octets, begin)) is not None:
        if not _INTERIM.match(octets, begin):
            return AnswerSpan(begin, octets[begin : end.end()])
        begin = end.end()
    return None


def masked_fields(request: bytes) -> list[str]:
    """Return the names of the request fields whose values are masked, in lower case."""
    head = request.partition(b"\r\n\r\n")[0]
    return [found[1].decode("latin-1").lower() for found in _MASKED.finditer(head)]


def mask_answer(
    head: bytes, *, asked_secretly: bool, keeps_cookies: bool, hide: Callable[[bytes], bytes]
) -> tuple[bytes, list[str]]:
    """Return one or more heads without secrets, and the names of the masked fields."""
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
    """A decoder that removes the transfer coding of a body, up to the end or the first violation."""

    def __init__(self, head: bytes) -> None:
        self._machine = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEAD)
        self._machine.send(h11.Request(method="GET", target="/", headers=[("Host", "archive.invalid")]))
        self._machine.send(h11.EndOfMessage())
        self.is_whole = self._is_over = False
        self.take(head)

    def take(self, octets: bytes) -> bytes:
        """Return the decoded bytes; empty after the end, or after a violation."""
        if self._is_over or not octets:  # For h11, an empty value means the end of the connection.
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


# The URL of a record in two forms: as records store it, and as the key of a search.

#: Characters that a URL must not contain (RFC 3986 2).
_NEVER = re.compile(r"[^!#$&-;=?-\[\]_a-z~%]|%(?![0-9A-Fa-f]{2})")


def target_of(url: Url, *, has_user: bool, hide: Callable[[str], str] = str) -> str:
    """Return the URL as records store it: without a password, and without all text that `hide` removes.

    The user name stays only if `has_user`. The fragment and the zone are removed.
    """
    absent: dict[str, Any] = {
        name: None
        for name in ("password", "fragment", "zone", *(() if has_user else ("user",)))
        if getattr(url, name, None) is not None
    }
    text = build(replace(url, **absent)) if absent else url.text
    return _NEVER.sub(_escape_match, hide(text))


def normalize_target(url: Url) -> str:
    """Return the same text for all equivalent spellings of a URL.

    The text is built from the components, with the host in lower case and without the scheme's default port.
    Other spellings are not treated as equal.
    """
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
