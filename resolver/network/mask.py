"""Secrets of a connection: credential sources, and the mask over secrets that were sent (S11, S17).

A server may repeat a password in any of its responses, immediately or much later, in one block or split over
two. So a sent secret stays masked for the life of the connection, in every retrieval that uses the
connection. The bytes of a body belong to the user and are never changed.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

from protocols.authority import comparable_host
from protocols.contract import Credentials, Facts, facts_of
from protocols.location import JsonValue
from resolver.loops import running

_HIDDEN = "****"
_WITHOUT = rb"\1\2" + _HIDDEN.encode()

#: Names of the metadata fields that are strings.
_TEXTS = ("media_type", "charset", "etag", "title", "target")
#: Names of the metadata fields that are not strings, or are masked separately.
_NOT_TEXT = frozenset({"kind", "size", "modified", "etag", "suggested", "meta"})

#: A secret shorter than this is masked only as a separate token. Otherwise many parts of a response would be
#: masked by accident.
_SHORT = 4


class Masked(str):
    """A string with `****` for each sent secret: the only form that may enter files and results.

    `Mask` creates it from server data. A URL from the user is masked by `Url.shown`.
    """

    __slots__ = ()


class SentSecrets:
    """The secrets sent on one connection; with FTP, also on its data connections.

    `in_text` matches them in reports; None if no secret was sent.
    """

    def __init__(self) -> None:
        self._octets: frozenset[bytes] = frozenset()
        self._long: re.Pattern[bytes] | None = None
        self._in_octets: re.Pattern[bytes] | None = None
        self.in_text: re.Pattern[str] | None = None

    def add(self, secrets: Iterable[bytes]) -> None:
        """Add secrets; an empty secret is ignored and is displayed as empty."""
        found = self._octets.union(secrets) - {b""}
        if found != self._octets:
            self._octets = found
            longest = sorted(found, key=len, reverse=True)
            whole = [re.escape(each) for each in longest if len(each) >= _SHORT]
            self._long = re.compile(b"|".join(whole)) if whole else None
            self._in_octets = re.compile(b"|".join(map(_octet_pattern, longest)))
            forms = dict.fromkeys(form for secret in longest for form in _forms(secret))
            self.in_text = re.compile("|".join(map(_text_pattern, forms)))

    def hide(self, octets: bytes) -> bytes:
        return octets if self._in_octets is None else self._in_octets.sub(_HIDDEN.encode(), octets)

    def hide_in_text(self, text: str) -> str:
        return text if self.in_text is None else self.in_text.sub(_HIDDEN, text)

    def count_safe(self, octets: bytes) -> int:
        """Return the number of leading bytes that cannot belong to a secret continued in the next block."""
        done = 0
        while True:
            start = len(octets) - max((_overlap(octets[done:], each) for each in self._octets), default=0)
            found = None if self._long is None else self._long.search(octets, done)
            if found is None or start <= found.start():
                return start
            done = found.end()


class Mask:
    """The secrets of all connections of one retrieval, later secrets included.

    `watched` is empty before the first connection.
    """

    def __init__(self) -> None:
        self.watched: list[SentSecrets] = []

    def watch(self, secrets: SentSecrets) -> None:
        if secrets not in self.watched:
            self.watched += (secrets,)

    def hide(self, octets: bytes) -> bytes:
        for secrets in self.watched:
            octets = secrets.hide(octets)
        return octets

    def hide_in_text(self, text: str) -> Masked:
        for secrets in self.watched:
            text = secrets.hide_in_text(text)
        return Masked(text)

    def facts(self, facts: Facts) -> dict[str, Any]:
        """Return the metadata by field name, each string in it as `Masked`.

        An entity tag or a file name that holds a secret is left out, because the masked form would name
        another object. The value of a cookie that the server sets stays, because the caller needs it. Code
        that stores the metadata uses `without_cookie`.
        """
        found = facts_of(facts)
        for secrets in self.watched:
            if secrets.in_text is not None:
                return self._hide_in_facts(found)
        for name in _TEXTS:  # most retrievals send no secret, and each call costs time
            if found[name] is not None:
                found[name] = Masked(found[name])
        found["meta"] = tuple([(Masked(name), Masked(value)) for name, value in facts.meta])
        return found

    def _hide_in_facts(self, found: dict[str, Any]) -> dict[str, Any]:
        found |= {name: self.hide_in_value(value) for name, value in found.items() if name not in _NOT_TEXT}
        for name in ("etag", "suggested"):
            found[name] = self._unless_secret(found[name])
        found["meta"] = tuple([self._header(*pair) for pair in found["meta"]])
        return found

    def hide_in_value(self, value: JsonValue) -> Any:
        """Return the same value with each string in it as `Masked`, at any depth."""
        match value:
            case str():
                return self.hide_in_text(value)
            case Mapping():
                return {self.hide_in_text(name): self.hide_in_value(each) for name, each in value.items()}
            case list():
                return [self.hide_in_value(each) for each in value]
            case tuple():
                return tuple([self.hide_in_value(each) for each in value])
        return value

    def _unless_secret(self, value: str | bytes | None) -> Masked | bytes | None:
        if isinstance(value, str):
            hidden = self.hide_in_text(value)
            return hidden if hidden == value else None
        return value if value is None or self.hide(value) == value else None

    def _header(self, name: str, value: str) -> tuple[Masked, Masked]:
        shown = self.hide_in_text(name)
        if name.lower() != "set-cookie":
            return shown, self.hide_in_text(value)
        cookie, is_pair, rest = value.partition("=")
        given, semicolon, attributes = rest.partition(";")
        hide = self.hide_in_text
        return shown, Masked(f"{hide(cookie)}{is_pair}{given}{semicolon}{hide(attributes)}")


#: A header field that contains a secret from the server: the value of a cookie, regardless of the cookie's
#: name.
_GIVEN = b"set-cookie:"
#: The literal first byte lets `re` skip to candidates. An alternation at the start would be tried at each
#: byte.
_VALUE = re.compile(rb"(\n[Ss][Ee][Tt]-[Cc][Oo][Oo][Kk][Ii][Ee]:)([^=;\r\n]*=)?[^;\r\n]*")
_LONGEST_LINE = 65_536  # maximum number of bytes held back; the header parser allows no longer line


class ReceivedMask:
    """A filter for received bytes: masks sent secrets and the values of cookies that the server sets.

    Bytes that may be the start of a secret are held back. The filter returns the masked bytes and has no
    reference to a listener: a reference cycle through a connection would wait for the garbage collector.
    """

    def __init__(self, secrets: SentSecrets) -> None:
        self._secrets = secrets
        self._kept = b""
        self._before = b"\n"  # the last byte that was returned

    def feed(self, octets: bytes) -> bytes:
        octets = self._kept + octets
        cut = min(self._secrets.count_safe(octets), _count_safe(self._before + octets) - 1)
        self._kept = octets[cut:]
        return self._mask_fields(octets[:cut])

    def flush(self) -> bytes:
        """Return the bytes held back, because no continuation of a secret can follow."""
        octets, self._kept = self._kept, b""
        return self._mask_fields(octets)

    def _mask_fields(self, octets: bytes) -> bytes:
        """Mask cookie values; a header field starts after a line end."""
        if not octets:
            return octets
        told = _VALUE.sub(_WITHOUT, self._before + octets)[1:]
        self._before = octets[-1:]
        return told


def _count_safe(octets: bytes) -> int:
    """Return the number of leading bytes that are not part of an unfinished cookie field."""
    start = octets.rfind(b"\n") + 1
    line = octets[start:]
    may_be = start and _GIVEN.startswith(line[: len(_GIVEN)].lower())
    return start if may_be and b";" not in line and len(line) <= _LONGEST_LINE else len(octets)


def _overlap(octets: bytes, secret: bytes) -> int:
    """Return the length of the secret's prefix at the end of the bytes.

    For a short secret the complete secret counts too, because the next byte decides whether it is a separate
    token.
    """
    most = len(secret) if len(secret) < _SHORT else len(secret) - 1
    return next((n for n in range(min(most, len(octets)), 0, -1) if octets.endswith(secret[:n])), 0)


def _octet_pattern(secret: bytes) -> bytes:
    written = re.escape(secret)
    return rb"(?<![0-9A-Za-z])%b(?![0-9A-Za-z])" % written if len(secret) < _SHORT else written


def _text_pattern(form: str) -> str:
    written = re.escape(form)
    return rf"(?<![0-9A-Za-z]){written}(?![0-9A-Za-z])" if len(form) < _SHORT else written


def _forms(secret: bytes) -> tuple[str, ...]:
    """Return the forms of a secret in text: decoded as Latin-1 or UTF-8, with and without escapes."""
    texts = (secret.decode("latin-1"), secret.decode("utf-8", "backslashreplace"))
    return tuple(form for text in texts for form in (text, repr(text)[1:-1], ascii(text)[1:-1]))


# Credentials: names and passwords from the caller of a `Resolver`, requested once for each host and port.
#
# An answer is remembered for the scheme, host, port and user of the request and is sent to no other host
# (S11). A source whose answers may change has a counter, `round`, and increments it at each change. Then all
# remembered answers are discarded, and no connection with an earlier login is reused.

#: (scheme, host, port, user) to credentials; user: None if the URL has no user.
CredentialSource: TypeAlias = Callable[[str, str, int, bytes | None], Awaitable[Credentials | None]]
#: The same function from the caller, which may be async or not.
GivenSource: TypeAlias = Callable[
    [str, str, int, bytes | None], Awaitable[Credentials | None] | Credentials | None
]
Place: TypeAlias = tuple[str, str, int]
Given: TypeAlias = GivenSource | Mapping[Place, Credentials]

_Key: TypeAlias = "tuple[str, str, int, bytes | None]"


#: Maximum number of remembered answers: untrusted URLs can name any number of hosts.
CAPACITY = 1_024


class CredentialCache:
    """A cache for a credential source: one request at a time, least recently used answers dropped first."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._known: dict[_Key, Credentials | None] = {}
        self._run: object = None
        self._asked_in = self.round

    @property
    def round(self) -> int:
        """Return the number of times that the answers have changed."""
        changed: int = getattr(self._given, "round", 0)
        return changed

    async def request(self, scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
        """Return the credentials for a scheme, host, port and user, or None."""
        key = (scheme, comparable_host(host), port, user)
        if not self._knows(key):
            async with self._turn():
                if not self._knows(key):
                    return await self._ask(key)
        self._known[key] = found = self._known.pop(key)  # now the most recently used
        return found

    def _knows(self, key: _Key) -> bool:
        """Return whether the answer is cached and the source's answers have not changed since then."""
        if self._asked_in != (now := self.round):
            self._known.clear()
            self._asked_in = now
        return key in self._known

    async def _ask(self, key: _Key) -> Credentials | None:
        asked_in = self.round
        found = await self._find(*key)
        if asked_in == self.round:
            if len(self._known) >= CAPACITY:
                del self._known[next(iter(self._known))]
            self._known[key] = found
        return found

    def _turn(self) -> AbstractAsyncContextManager[object]:
        """Return the lock of this run, so that two retrievals from one host do not prompt the user twice."""
        loop = running()
        run = loop.run()
        if run is not self._run:
            self._run, self._lock = run, loop.lock()
        return self._lock

    async def _find(self, scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
        if not isinstance(self._given, Mapping):
            found = self._given(scheme, host, port, user)
            return await found if isinstance(found, Awaitable) else found
        held = self._given.get((scheme, host, port))
        return held if held is None or user in (None, held.user) else None
