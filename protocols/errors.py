"""Whose doing was it? One class a fact, one branch a culprit.

    ResolveError
    ├── InvalidUrl            the text is no URL                                   12
    ├── UnsupportedScheme     our build cannot resolve it                          13
    ├── Refused               our policy; nothing was sent to what is refused       9  (rule S10: 15)
    ├── NetworkError          the network                                           4
    │   ├── Unreachable         no connection came about
    │   ├── Disconnected        the peer left before the first octet of a body
    │   ├── TimedOut            silence                                            11
    │   └── TlsError            no trustworthy TLS                                   5
    ├── ProtocolError         the peer broke its protocol                           7
    │   └── LimitExceeded       … or sent more than we take             7, sizes 14
    ├── Declined              the peer said no, with its code and words             8
    │   ├── NotFound
    │   ├── AccessDenied                                                             6
    │   ├── LoginRequired                                                            6
    │   └── TryLater
    ├── IntegrityError        what came is not what was announced                  10
    │   ├── Truncated
    │   ├── Changed
    │   └── ChecksumMismatch
    └── LocalError            this machine: what we write, what we were told        3
        └── NotConfigured       a setting is missing or wrong                       2

The number is the exit status of the command for that error. A message says what was being done and
what came instead; it never holds a password or an octet of a body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


class ResolveError(Exception):
    """Anything that keeps a URL from being resolved.

    `url` is the redacted URL, filled in by the retrieval that failed; `None` until then. `attempts` is
    how many tries ended this way, the last one with this error.
    `retryable` says whether the same request may succeed later without any change.
    """

    exit_code: int = 1
    retryable: bool = False

    def __init__(self, message: str, *, url: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.url = url
        self.attempts = 1

    def say_more(self, words: str) -> None:
        """Add to the message what only somebody further out knows."""
        self.message = f"{self.message}, {words}"
        self.args = (self.message,)


class InvalidUrl(ResolveError):
    """The text is not a URL (rule S01). `kind` is a name of the error table in the URL syntax page;
    `position` is the 0-based index of the offending character in the text as given."""

    exit_code = 12

    def __init__(self, kind: str, position: int, message: str, *, url: str | None = None) -> None:
        super().__init__(message, url=url)
        self.kind = kind
        self.position = position


class UnsupportedScheme(ResolveError):
    """No handler in this build: a reserved or unknown scheme, or an extra that is not installed."""

    exit_code = 13
    rule = "S19"

    def __init__(self, scheme: str, message: str, *, url: str | None = None) -> None:
        super().__init__(message, url=url)
        self.scheme = scheme


class Refused(ResolveError):
    """The safety policy said no; nothing was sent to what is refused.

    `rule` is the rule that refused (`S04`), `flag` the command-line option that would allow it, if
    there is one, and `position` the 0-based index in the URL text of the octet that is to blame.
    """

    def __init__(
        self,
        rule: str,
        message: str,
        *,
        flag: str | None = None,
        position: int | None = None,
        url: str | None = None,
    ) -> None:
        super().__init__(message, url=url)
        self.rule = rule
        self.flag = flag
        self.position = position
        self.exit_code = 15 if rule == "S10" else 9


class NetworkError(ResolveError):
    """The network, not the peer's answer, is to blame."""

    exit_code = 4
    retryable = True


class Unreachable(NetworkError):
    """No connection came about: no address, refused, no route."""


class Disconnected(NetworkError):
    """The peer closed or reset the connection before the first octet of a body."""


class TimedOut(NetworkError):
    """A time limit passed: connecting, waiting for octets, or in all."""

    exit_code = 11


class TlsError(NetworkError):
    """The handshake failed or the certificate is not to be trusted."""

    exit_code = 5
    retryable = False


class ProtocolError(ResolveError):
    """The peer sent what its protocol does not allow."""

    exit_code = 7


class LimitExceeded(ProtocolError):
    """The peer sent more than we take; `limit` is the field of `Limits` that said stop."""

    def __init__(self, limit: str, message: str, *, url: str | None = None) -> None:
        super().__init__(message, url=url)
        self.limit = limit
        self.exit_code = 14 if limit in ("body", "ratio") else 7


class Declined(ResolveError):
    """The peer said no. `code` is its code (None where the protocol has none), `text` its words."""

    exit_code = 8

    def __init__(
        self, message: str, *, code: str | None = None, text: str = "", url: str | None = None
    ) -> None:
        super().__init__(message, url=url)
        self.code = code
        self.text = text


class NotFound(Declined):
    """There is no such thing there."""


class AccessDenied(Declined):
    """We may not have it, logged in or not."""

    exit_code = 6


class LoginRequired(Declined):
    """A name and password are needed and none were at hand."""

    exit_code = 6


class TryLater(Declined):
    """Not now. `after` is the number of seconds that the peer asked to wait, `until` the moment that it
    named without saying what time it has; None where it did not."""

    retryable = True
    after: float | None = None
    until: datetime | None = None


class IntegrityError(ResolveError):
    """What arrived is not what was announced."""

    exit_code = 10


class Truncated(IntegrityError):
    """A body began and ended early. `received` counts its octets; `expected` is the announced
    number, or None where the protocol marks the end in another way."""

    retryable = True

    def __init__(
        self, message: str, *, received: int, expected: int | None = None, url: str | None = None
    ) -> None:
        super().__init__(message, url=url)
        self.received = received
        self.expected = expected


class Changed(IntegrityError):
    """The object changed between two tries. `again` says that starting over may still give it whole."""

    def __init__(self, message: str, *, again: bool = False, url: str | None = None) -> None:
        super().__init__(message, url=url)
        self.retryable = again


class ChecksumMismatch(IntegrityError):
    """The digest is not the one that was given."""


class LocalError(ResolveError):
    """This machine: a file that cannot be written, a directory that is gone."""

    exit_code = 3


class NotConfigured(LocalError):
    """A setting is missing or wrong; the message says how to give it."""

    exit_code = 2
