"""Redaction of the secrets that were sent on a connection, and the sources of credentials (S11, S17).

A server may repeat a password in any later response, and one password may be split over two blocks. Therefore
a sent secret stays masked while the connection exists, in every retrieval that uses the connection. The bytes
of a body are never changed.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from itertools import takewhile
from typing import Any, TypeAlias

from protocols.authority import comparable_host
from protocols.contract import Credentials, Facts, copy_facts
from protocols.location import JsonValue
from protocols.text import Masked
from resolver.loops import running

_HIDDEN = "****"
_REPLACEMENT = rb"\1\2" + _HIDDEN.encode()

#: Names of the `Facts` fields whose strings are masked.
_TEXTS = ("media_type", "charset", "etag", "title", "target")
#: Names of the `Facts` fields that contain no string, or that have a separate mask rule.
_NOT_TEXT = frozenset({"kind", "size", "modified", "etag", "suggested", "meta"})

#: Minimum length in bytes of a secret that is masked inside a longer word. A shorter secret is masked only as
#: a separate word, because a short string often occurs in other text by accident.
_SHORT = 4


class SentSecrets:
    """The secrets that were sent on one connection; FTP data connections share the object.

    Attributes:
        in_text: the pattern that matches the secrets in text; None before a secret is sent.
    """

    _octets: frozenset[bytes] = frozenset()
    _long: re.Pattern[bytes] | None = None
    _in_octets: re.Pattern[bytes] | None = None
    in_text: re.Pattern[str] | None = None

    def add(self, secrets: Iterable[bytes]) -> None:
        """Add secrets; an empty secret is ignored."""
        octets = self._octets.union(secrets) - {b""}
        if octets != self._octets:
            self._octets = octets
            longest = sorted(octets, key=len, reverse=True)
            whole = [re.escape(secret) for secret in longest if len(secret) >= _SHORT]
            self._long = re.compile(b"|".join(whole)) if whole else None
            octet_patterns = (_make_pattern(secret.decode("latin-1")) for secret in longest)
            self._in_octets = re.compile("|".join(octet_patterns).encode("latin-1"))
            forms = dict.fromkeys(form for secret in longest for form in _forms(secret))
            self.in_text = re.compile("|".join(map(_make_pattern, forms)))

    def hide(self, octets: bytes) -> bytes:
        return octets if self._in_octets is None else self._in_octets.sub(_HIDDEN.encode(), octets)

    def hide_in_text(self, text: str) -> str:
        return text if self.in_text is None else self.in_text.sub(_HIDDEN, text)

    def count_safe(self, octets: bytes) -> int:
        """Return how many leading bytes can be shown before the next block arrives.

        The remaining bytes may be the start of a secret that continues in the next block.
        """
        # A block may consist of secrets. Only the last ones can overlap its end (otherwise quadratic time).
        edge = len(octets) - max(map(len, self._octets), default=0)
        ends = () if self._long is None else (match.end() for match in self._long.finditer(octets))
        at = max(takewhile(lambda end: end <= edge, ends), default=0)
        while True:
            start = len(octets) - max((_overlap(octets[at:], secret) for secret in self._octets), default=0)
            match = None if self._long is None else self._long.search(octets, at)
            if match is None or start <= match.start():
                return start
            at = match.end()


class Mask:
    """The secrets of all connections of one retrieval, including secrets that are sent later.

    Attributes:
        watched: the secrets of each connection; empty before the first connection.
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
        """Return the metadata by field name.

        Each string is returned as `Masked`. Header fields are unchanged if no secret was sent.

        An entity tag or file name that contains a secret is omitted, because the masked text would name
        another object. Cookie values from the server are not masked, because the caller needs the values.
        Code that stores the metadata removes the cookies with `without_cookie`.
        """
        values = copy_facts(facts)
        for secrets in self.watched:
            if secrets.in_text is not None:
                return self._hide_in_facts(values)
        for name in _TEXTS:  # Most retrievals send no secret, so this loop makes few calls.
            if values[name] is not None:
                values[name] = Masked(values[name])
        return values

    def _hide_in_facts(self, values: dict[str, Any]) -> dict[str, Any]:
        values |= {name: self.hide_in_value(value) for name, value in values.items() if name not in _NOT_TEXT}
        for name in ("etag", "suggested"):
            values[name] = self._drop_if_secret(values[name])
        values["meta"] = tuple([self._header(*pair) for pair in values["meta"]])
        return values

    def hide_in_value(self, value: JsonValue) -> Any:
        """Return the JSON value with each string as `Masked`, at any depth."""
        match value:
            case str():
                return self.hide_in_text(value)
            case Mapping():
                return {self.hide_in_text(name): self.hide_in_value(item) for name, item in value.items()}
            case list():
                return [self.hide_in_value(item) for item in value]
            case tuple():
                return tuple([self.hide_in_value(item) for item in value])
        return value

    def _drop_if_secret(self, value: str | bytes | None) -> Masked | bytes | None:
        if isinstance(value, str):
            hidden = self.hide_in_text(value)
            return hidden if hidden == value else None
        return value if value is None or self.hide(value) == value else None

    def _header(self, name: str, value: str) -> tuple[Masked, Masked]:
        shown = self.hide_in_text(name)
        if name.lower() != "set-cookie":
            return shown, self.hide_in_text(value)
        cookie, is_pair, rest = value.partition("=")
        secret, semicolon, attributes = rest.partition(";")
        hide = self.hide_in_text
        return shown, Masked(f"{hide(cookie)}{is_pair}{secret}{semicolon}{hide(attributes)}")


#: The header field whose value is always masked, because each cookie from a server may be a session secret.
_COOKIE_FIELD = b"set-cookie:"
#: The pattern starts with a literal byte, so `re` finds the next newline quickly. If the pattern started with
#: an alternation, `re` would try the alternation at each byte.
_COOKIE_VALUE = rb"(\n[Ss][Ee][Tt]-[Cc][Oo][Oo][Kk][Ii][Ee]:)([^=;\r\n]*=)?[^;\r\n]*"
_MAX_LINE = 65_536  # maximum number of delayed bytes; the header parser rejects longer lines


class ReceivedMask:
    """A filter that masks sent secrets and the values of received cookies in received bytes.

    The filter buffers bytes that may be the start of a secret. The filter returns the masked bytes, and does
    not call a listener, because a reference to a listener would form a reference cycle. A connection in a
    reference cycle stays open until the garbage collector runs.
    """

    _buffered = b""
    _last_byte = b"\n"

    def feed(self, octets: bytes, secrets: SentSecrets) -> bytes:
        octets = self._buffered + octets
        cut = min(secrets.count_safe(octets), _count_safe(self._last_byte + octets) - 1)
        self._buffered = octets[cut:]
        return self._mask_fields(octets[:cut])

    def flush(self) -> bytes:
        """Return the buffered bytes at the end of the data."""
        octets, self._buffered = self._buffered, b""
        return self._mask_fields(octets)

    def _mask_fields(self, octets: bytes) -> bytes:
        """Mask the cookie values in header fields."""
        if not octets:
            return octets
        masked = re.sub(_COOKIE_VALUE, _REPLACEMENT, self._last_byte + octets)[1:]
        self._last_byte = octets[-1:]
        return masked


def _count_safe(octets: bytes) -> int:
    """Return the number of leading bytes before an incomplete cookie field."""
    start = octets.rfind(b"\n") + 1
    line = octets[start:]
    may_be = start and _COOKIE_FIELD.startswith(line[: len(_COOKIE_FIELD)].lower())
    return start if may_be and b";" not in line and len(line) <= _MAX_LINE else len(octets)


def _overlap(octets: bytes, secret: bytes) -> int:
    """Return the length of the longest suffix of the bytes that is also a prefix of the secret.

    A short secret is masked only as a separate word, and the next byte shows whether the word ends. So for a
    short secret the prefix may be the complete secret.
    """
    max_length = len(secret) if len(secret) < _SHORT else len(secret) - 1
    return next((n for n in range(min(max_length, len(octets)), 0, -1) if octets.endswith(secret[:n])), 0)


def _make_pattern(form: str) -> str:
    pattern = re.escape(form)
    return rf"(?<![0-9A-Za-z]){pattern}(?![0-9A-Za-z])" if len(form) < _SHORT else pattern


def _forms(secret: bytes) -> tuple[str, ...]:
    """Return a secret as Latin-1 text and as UTF-8 text, each with and without escape sequences."""
    texts = (secret.decode("latin-1"), secret.decode("utf-8", "backslashreplace"))
    return tuple(form for text in texts for form in (text, repr(text)[1:-1], ascii(text)[1:-1]))


# Credentials: user names and passwords from the caller of a `Resolver`.
#
# The cache stores the credentials by scheme, host, port and user. Credentials are never sent to another host
# (S11). If the credentials of a source can change, the source has the counter `round`. Each change increments
# the counter. Cached credentials are then invalid, and connections with an earlier login are not reused.

#: A function that returns the credentials for (scheme, host, port, user). The argument `user` may be None.
CredentialSource: TypeAlias = Callable[[str, str, int, bytes | None], Awaitable[Credentials | None]]
#: A `CredentialSource` from the caller, sync or async.
GivenSource: TypeAlias = Callable[
    [str, str, int, bytes | None], Awaitable[Credentials | None] | Credentials | None
]
Place: TypeAlias = tuple[str, str, int]
Given: TypeAlias = GivenSource | Mapping[Place, Credentials]

_Key: TypeAlias = "tuple[str, str, int, bytes | None]"


#: Maximum number of cached credentials, because untrusted URLs can name any number of hosts.
CAPACITY = 1_024


class CredentialCache:
    """A least-recently-used (LRU) cache for a credential source, with one request to the source at a time."""

    def __init__(self, source: Given) -> None:
        self._source = source
        self._cached: dict[_Key, Credentials | None] = {}
        self._run: object = None
        self._cached_round = self.round

    @property
    def round(self) -> int:
        """Return how often the credentials of the source have changed."""
        changed: int = getattr(self._source, "round", 0)
        return changed

    async def request(self, scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
        """Return the credentials for a scheme, host, port and user, or None."""
        key = (scheme, comparable_host(host), port, user)
        if not self._has_cached(key):
            async with self._run_lock():
                if not self._has_cached(key):
                    return await self._request_source(key)
        self._cached[key] = credentials = self._cached.pop(key)  # The entry becomes the most recently used.
        return credentials

    def _has_cached(self, key: _Key) -> bool:
        """Return whether the cache has valid credentials for the key."""
        if self._cached_round != (now := self.round):
            self._cached.clear()
            self._cached_round = now
        return key in self._cached

    async def _request_source(self, key: _Key) -> Credentials | None:
        round_before = self.round
        credentials = await self._find(*key)
        if round_before == self.round:
            if len(self._cached) >= CAPACITY:
                del self._cached[next(iter(self._cached))]
            self._cached[key] = credentials
        return credentials

    def _run_lock(self) -> AbstractAsyncContextManager[object]:
        """Return the lock of this run: without it, two retrievals could prompt the user twice."""
        loop = running()
        run = loop.run()
        if run is not self._run:
            self._run, self._lock = run, loop.lock()
        return self._lock

    async def _find(self, scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
        if not isinstance(self._source, Mapping):
            answer = self._source(scheme, host, port, user)
            return _check_type(await answer if isinstance(answer, Awaitable) else answer)
        credentials = _check_type(self._source.get((scheme, host, port)))
        return credentials if credentials is None or user in (None, credentials.user) else None


def _check_type(credentials: Credentials | None) -> Credentials | None:
    if not isinstance(credentials, Credentials | None):
        kind: type = type(credentials)  # the message does not contain the value, which is secret
        raise TypeError(f"'credentials' must give a resolver.Credentials, got {kind.__name__}")
    return credentials
