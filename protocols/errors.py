"""Errors by responsible party: one class for a fact, one branch for the party that caused it.

    ResolveError
    ├── InvalidUrl            the text is not a URL                                12
    ├── UnsupportedScheme     this build cannot resolve it                         13
    ├── Refused               the policy; the refused request was not sent          9  (rule S10: 15)
    ├── NetworkError          the network                                           4
    │   ├── Unreachable         the connection failed
    │   ├── Disconnected        the peer closed before the first byte of a body
    │   ├── TimedOut            a time limit passed                                11
    │   └── TlsError            TLS is not trustworthy                               5
    ├── ProtocolError         the peer violated its protocol                        7
    │   └── LimitExceeded       … or sent more than a limit            7, sizes 14
    ├── Declined              the peer refused, with its code and text              8
    │   ├── NotFound
    │   ├── AccessDenied                                                             6
    │   ├── LoginRequired                                                            6
    │   └── TryLater
    ├── IntegrityError        the content differs from the announcement            10
    │   ├── Truncated
    │   ├── Changed
    │   └── ChecksumMismatch
    └── LocalError            this machine: output files, settings                  3
        └── NotConfigured       a setting is missing or wrong                       2

The number is the exit status of the command for that error. A message names the operation and the actual
result. It never holds a password or a byte of a body; only the attribute `body` holds such bytes.

An error is a value. Outer layers add facts (the URL, the number of tries) by making a copy, which keeps
traceback and cause: `at`, `tried`, `saying`, `final`, `of_hop`. Pickling and copying keep all attributes.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # As in `typing`: its import would take most of the time of a bare start.


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from typing import Self, TypeVar

    E = TypeVar("E", bound="ResolveError")

#: The exit status of an error that stops a redirect, under any rule (S10, redirects and links).
_REDIRECT_REFUSED = 15

#: The maximum number of characters of a URL in `str(error)`: a URL may have 64 KiB.
_MOST_SHOWN = 200


class ResolveError(Exception):
    r"""The base of all errors that prevent the resolution of a URL.

    `url` is the redacted URL, set by the retrieval that failed; `None` if no URL is involved. `attempts` is
    the number of tries that ended this way; the last try raised this error. `retryable` is set if the same
    request may succeed later without any change.

    `status` is the numeric code that the peer sent: the status of http, the reply code of FTP and NNTP, the
    error number of Gopher+. It is `None` if the peer sent none. `body` is the start of the body of an http
    error response, decoded, at most 64 KiB. It is empty without a body, and if only metadata was requested.
    It was sent by the server, so treat it like any other content; no message, log or JSON contains it.

    `setting` is the setting that caused the outcome, with its name in the configuration file
    (`idle_timeout`); `None` if no setting did. The command shows it as an option (`--idle-timeout`).

    Examples:
        >>> try:
        ...     await resolver.fetch("http://127.0.0.1:8920/none.txt")
        ... except resolver.ResolveError as error:
        ...     print(type(error).__name__, error.status, error.body)
        NotFound 404 b'No such page.\n'

    A subclass sets its own attributes before it calls this `__init__`, each once.
    """

    exit_code: int = 1
    retryable: bool = False
    setting: str | None = None
    body: bytes = b""
    message: str
    url: str | None
    attempts: int

    def __init__(self, message: str, *, url: str | None = None, retryable: bool | None = None) -> None:
        super().__init__(message)
        facts = {"exit_code": self.exit_code, "retryable": self.retryable if retryable is None else retryable}
        vars(self).update(facts, message=message, url=url, attempts=1)

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute; only the attributes of raising (`__cause__`, `__notes__`) can be set twice."""
        if name in vars(self) and not name.startswith("_"):
            raise AttributeError(f"{name} of an error cannot be changed after it was made (raise a copy)")
        super().__setattr__(name, value)

    def __str__(self) -> str:
        if self.url is None:
            return self.message
        shown = self.url if len(self.url) <= _MOST_SHOWN else f"{self.url[:_MOST_SHOWN]}…"
        return f"{''.join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)}: {self.message}"

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_error, (type(self), vars(self).copy())

    @property
    def status(self) -> int | None:
        """Return the numeric code of the peer, such as 404 or 550, or None.

        A Gopher+ server may send a long line of digits, which is not a number here.
        """
        code = getattr(self, "code", None) or ""
        return int(code) if re.fullmatch(r"[0-9]{1,9}", code) else None

    def at(self, url: str) -> Self:
        """Return a copy about this (redacted) URL."""
        return self._but({"url": url})

    def tried(self, attempts: int) -> Self:
        """Return a copy with this number of tries."""
        return self._but({"attempts": attempts})

    def saying(self, words: str) -> Self:
        """Return a copy with `words` appended to its message: information that only an outer layer has."""
        return self._but({"message": f"{self.message}, {words}"})

    def hiding(self, hide: Callable[[str], str]) -> Self:
        """Return this error with secrets hidden in its message, in the peer's text and in its cause."""
        said = {name: str(vars(self)[name]) for name in ("message", "text") if vars(self).get(name)}
        facts = {name: hide(words) for name, words in said.items()}
        cause = self.__cause__
        hidden = cause.hiding(hide) if isinstance(cause, ResolveError) else cause
        if facts == said and hidden is cause:
            return self
        other = self._but(facts)
        other.__cause__ = hidden
        return other

    def with_setting(self, setting: str | None) -> Self:
        """Return a copy that names the setting that caused the outcome."""
        return self._but({"setting": setting})

    def with_body(self, body: bytes) -> Self:
        """Return a copy with the start of the body of the error response."""
        return self._but({"body": body})

    def final(self) -> Self:
        """Return a copy that is not retryable."""
        return self._but({"retryable": False})

    def of_hop(self) -> Self:
        """Return the error for a stopped redirect.

        If the policy refused the redirect, or this build cannot resolve it, the exit status is 15.
        """
        refused = isinstance(self, (Refused, UnsupportedScheme))
        return self._but({"exit_code": _REDIRECT_REFUSED}) if refused else self

    def _but(self, facts: Mapping[str, object]) -> Self:
        other = _restore_error(type(self), {**vars(self), **facts})
        other.__traceback__, other.__cause__ = self.__traceback__, self.__cause__
        # The copy is raised while this error is handled. As its context, this error would be shown a second
        # time.
        other.__suppress_context__ = self.__suppress_context__ or self.__context__ is None
        return other


def _restore_error(kind: type[E], facts: Mapping[str, object]) -> E:
    """Return an error with these attributes, without calling its `__init__` (signatures differ)."""
    error = kind.__new__(kind, facts["message"])
    vars(error).update(facts)
    return error


class InvalidUrl(ResolveError):
    """A text that is not a URL (rule S01, strict parsing).

    `kind` names the fault (`bad-port`). `position` is the 0-based index of the offending character in the
    text as given.
    """

    exit_code = 12

    def __init__(self, kind: str, position: int, message: str, *, url: str | None = None) -> None:
        self.kind = kind
        self.position = position
        super().__init__(message, url=url)


class UnsupportedScheme(ResolveError):
    """A scheme for which this build has no handler: reserved, unknown, or its extra is not installed."""

    exit_code = 13
    rule = "S19"

    def __init__(self, scheme: str, message: str, *, url: str | None = None) -> None:
        self.scheme = scheme
        super().__init__(message, url=url)


class Refused(ResolveError):
    """A refusal by the safety policy; the refused request was not sent.

    `rule` is the rule that refused (`S04`). `flag` is the command-line option that would allow the request,
    if there is one. `position` is the 0-based index in the URL of the byte that caused the refusal.
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
        self.rule = rule
        self.flag = flag
        self.position = position
        self.exit_code = _REDIRECT_REFUSED if rule == "S10" else 9
        super().__init__(message, url=url)


class NetworkError(ResolveError):
    """A failure of the network, not of the peer's answer.

    `lasting` is set if the peer has never answered and another try would most likely fail too: a closed port,
    an unknown name, a peer that sends nothing.
    """

    exit_code = 4
    retryable = True
    lasting: bool

    def __init__(
        self, message: str, *, url: str | None = None, retryable: bool | None = None, lasting: bool = False
    ) -> None:
        self.lasting = lasting
        super().__init__(message, url=url, retryable=retryable)

    def passing(self) -> Self:
        """Return a copy without `lasting`: the failure may be temporary."""
        return self._but({"lasting": False})


class Unreachable(NetworkError):
    """A connection that failed: no address, refused, no route."""


class Disconnected(NetworkError):
    """A connection that the peer closed or reset before the first byte of a body."""


class TimedOut(NetworkError):
    """A time limit that passed: for connecting, for waiting for bytes, or in total."""

    exit_code = 11


class TlsError(NetworkError):
    """A failed TLS handshake or an untrusted certificate.

    `certificate` is the SHA-256 digest of a certificate that could not be verified, as `sha256:HEX`, if the
    server sent one. A caller who knows that the certificate is genuine can pin this digest.
    """

    exit_code = 5
    retryable = False
    certificate: str | None

    def __init__(
        self,
        message: str,
        *,
        url: str | None = None,
        retryable: bool | None = None,
        lasting: bool = False,
        certificate: str | None = None,
    ) -> None:
        self.certificate = certificate
        super().__init__(message, url=url, retryable=retryable, lasting=lasting)

    def without_certificate(self) -> Self:
        """Return a copy without the digest, for a server whose certificate cannot be pinned."""
        return self._but({"certificate": None})


class ProtocolError(ResolveError):
    """A message of the peer that its protocol does not allow."""

    exit_code = 7


#: The settings of the limits that users raise most often.
_SETTING_BY_LIMIT = {"body": "max_size", "quota": "limit quota=BYTES"}


class LimitExceeded(ProtocolError):
    """A reply beyond a limit; `limit` is the field of `Limits` that was exceeded."""

    def __init__(self, limit: str, message: str, *, url: str | None = None) -> None:
        self.limit = limit
        self.exit_code = 14 if limit in ("body", "ratio", "quota") else 7
        self.setting = _SETTING_BY_LIMIT.get(limit)
        super().__init__(message, url=url)


class Declined(ResolveError):
    """A refusal by the peer. `code` is its code (None if the protocol has none), `text` its message."""

    exit_code = 8

    def __init__(
        self, message: str, *, code: str | None = None, text: str = "", url: str | None = None
    ) -> None:
        self.code = code
        self.text = text
        super().__init__(message, url=url)


class NotFound(Declined):
    """An object that does not exist at the peer."""


class AccessDenied(Declined):
    """A denial of access, with or without a login."""

    exit_code = 6


class LoginRequired(Declined):
    """A required name and password that were not available."""

    exit_code = 6


class TryLater(Declined):
    """A temporary refusal.

    `after` is the number of seconds that the peer asked the client to wait. `until` is the time that the peer
    named, if it did not send its own time. Each is `None` if the peer did not send it.
    """

    retryable = True

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        text: str = "",
        url: str | None = None,
        after: float | None = None,
        until: datetime | None = None,
    ) -> None:
        self.after = after
        self.until = until
        super().__init__(message, code=code, text=text, url=url)


class IntegrityError(ResolveError):
    """Content that differs from its announcement."""

    exit_code = 10


class Truncated(IntegrityError):
    """A body that began and ended early.

    `received` counts its bytes. `expected` is the announced number, or None if the protocol marks the end in
    another way.
    """

    retryable = True

    def __init__(
        self, message: str, *, received: int, expected: int | None = None, url: str | None = None
    ) -> None:
        self.received = received
        self.expected = expected
        super().__init__(message, url=url)


class Changed(IntegrityError):
    """An object that changed between two tries; if `again` is set, a restart may return it completely."""

    def __init__(self, message: str, *, again: bool = False, url: str | None = None) -> None:
        super().__init__(message, url=url, retryable=again)


class ChecksumMismatch(IntegrityError):
    """A digest that differs from the given one."""


class LocalError(ResolveError):
    """An error of this machine: a file that cannot be written, a directory that no longer exists."""

    exit_code = 3


class NotConfigured(LocalError):
    """A missing or wrong setting; the message explains how to set it."""

    exit_code = 2


# The missing libraries of an extra, as messages name them.
#
# A message names libraries, never `url-resolver` itself. Before the first release, anyone can register that
# name in the package index, and users would install that person's code.

#: A requirement in the metadata of a distribution (PEP 508): its name and its lowest version.
_REQUIREMENT = r"([\w.-]+)(?:\[[^]]*\])?(?:[~>]=([\w.]+?)(?:\.0)?(?=[;,\s]|\Z))?"
_EXTRA = r"""extra == ['"]([^'"]+)['"]"""


def missing_libraries(extra: str, distribution: str = "url-resolver") -> str:
    """Return the end of a message that begins with the feature that needs the extra.

    Args:
        extra: The name of the extra, or several names separated by commas.
        distribution: The distribution of the extra: this package or a plug-in.

    Returns:
        For example `lxml 6 or later (the extra html): pip install lxml`. If all libraries of the extra are
        installed, one of them is too old, so all are named. If the metadata do not list the libraries, only
        the extra is named.
    """
    # Imported lazily: 40 ms, and few messages need it.
    from importlib.metadata import PackageNotFoundError, requires
    from importlib.util import find_spec

    try:
        requirements = requires(distribution) or []
    except PackageNotFoundError:
        requirements = []
    libraries: dict[str, str] = {}
    for requirement in requirements:
        found, of = re.match(_REQUIREMENT, requirement), re.search(_EXTRA, requirement)
        if found is not None and of is not None and of[1] in extra.split(","):
            libraries[found[1]] = f"{found[1]} {found[2]} or later" if found[2] else found[1]
    if not libraries:
        return f"the extra {extra} of {distribution}, which is not installed"
    lacking = [name for name in libraries if find_spec(name.replace("-", "_")) is None] or [*libraries]
    named = ", ".join(libraries[name] for name in lacking)
    return f"{named} (the extra {extra}): pip install {' '.join(lacking)}"
