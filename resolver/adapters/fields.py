"""Header fields of an http client, in requests for a scheme without header fields, such as ftp.

A login (`Authorization: Basic`) is sent only to the host and port of the URL. Some default header fields of
the client are ignored, because every response satisfies these header fields. All other header fields are
errors, because this library cannot send header fields with such a scheme.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import resolver

Place: TypeAlias = tuple[str, str, int]
Answer: TypeAlias = Awaitable[resolver.Credentials | None] | resolver.Credentials | None
Source: TypeAlias = Callable[[str, str, int, bytes | None], Answer] | Mapping[Place, resolver.Credentials]

#: Header fields of a request that can be ignored. The URL and the connection determine the first two header
#: fields. The other header fields permit any response that is complete, is not from a cache, and has no
#: content coding (RFC 9110 13.1, RFC 9111 5.2.1). A client with a cache sends some of these header fields to
#: revalidate a stored response.
_SATISFIED = frozenset(
    {"host", "connection", "accept-encoding", "cache-control", "if-modified-since", "if-none-match"}
)


class PlaceLogin(NamedTuple):
    """The login of a request. The login is valid only for the scheme, host and port of the URL (S11)."""

    place: Place
    credentials: resolver.Credentials

    def override_source(self, source: Source | None) -> Source:
        """Return a function that finds the credentials for a request.

        For its own host and port, the function returns this login. For each other host or port, the function
        calls `source`.
        """
        if source is None or isinstance(source, Mapping):
            return {**(source or {}), self.place: self.credentials}

        def find(scheme: str, host: str, port: int, user: bytes | None) -> Answer:
            if (scheme, host, port) == self.place:
                return self.credentials
            return source(scheme, host, port, user)

        return find


def find_login(url: str, fields: Iterable[tuple[str, str]], own_agent: str) -> PlaceLogin | None:
    """Return the login in the header fields of a request, or None without a login.

    A login that the URL also contains is ignored.

    Args:
        url: The URL of the request.
        fields: The header fields of the request.
        own_agent: The default `User-Agent` of the client.

    Raises:
        ValueError: A header field cannot be sent with this scheme.
        resolver.InvalidUrl: The URL is not valid.
    """
    parsed, login = resolver.parse(url), None
    for name, value in fields:
        field = name.lower()
        if field == "authorization":
            login = _make_login(parsed, _parse_credentials(value))
        elif field not in _SATISFIED and (field, value) not in (("accept", "*/*"), ("user-agent", own_agent)):
            raise ValueError(f"{parsed.scheme} requests cannot carry header {name} (nothing was sent)")
    return login


def _parse_credentials(value: str) -> resolver.Credentials:
    """Parse the credentials of an `Authorization` field (RFC 7617)."""
    method, _, text = value.partition(" ")
    try:
        if method.lower() == "basic":
            user, _, password = b64decode(text, validate=True).partition(b":")
            return resolver.Credentials(user, password)
    except binascii.Error:
        pass
    raise ValueError("cannot use header Authorization: expected a Basic login (nothing was sent)")


def _make_login(url: resolver.Url, credentials: resolver.Credentials) -> PlaceLogin | None:
    if isinstance(url, resolver.HostUrl) and url.user is not None:
        if (url.user, url.password or b"") != (credentials.user, credentials.password):
            raise ValueError("the URL and the request have different logins (nothing was sent)")
        return None
    if not isinstance(url, resolver.HostUrl) or not _has_user(url):
        raise ValueError(
            f"cannot use Authorization: {url.scheme} URLs have no login (nothing was sent, use credentials)"
        )
    return PlaceLogin((url.scheme, url.host, url.effective_port), credentials)


def _has_user(url: resolver.HostUrl) -> bool:
    """Return whether URLs of this scheme may contain a user (S06)."""
    findings = resolver.check(replace(url, user=b"user")).findings
    return all(finding.rule != "S06" for finding in findings)
