"""The errors of a retrieval. The classes are grouped by the party that may have caused the error.

    ResolveError
    ├── InvalidUrl            the text is not a URL                                12
    ├── UnsupportedScheme     the scheme is not supported                        13
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

The number is the exit status of the command for the error. A message names the operation and the actual
result. A message never contains a password or bytes of a body. Only the attribute `body` contains bytes of a
body.

An error is immutable. Outer layers add data, such as the URL or the number of attempts, in a copy. The
methods `at`, `tried`, `saying`, `final` and `of_hop` return a copy with the same traceback and cause.
Pickling keeps all attributes.
"""

from __future__ import annotations

import re

from protocols.text import Masked

TYPE_CHECKING = False  # type checkers assume True; without the import of `typing`, the program starts faster


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime
    from typing import Self, TypeVar

    E = TypeVar("E", bound="ResolveError")

#: The exit status if a redirect is refused, by any rule (S10, redirects and links).
_REDIRECT_REFUSED = 15

#: The maximum number of characters of a URL in `str(error)`. A URL may have 64 KiB, too many for a message.
_MOST_SHOWN = 200


class ResolveError(Exception):
    r"""The base class of the errors of a retrieval.

    `url` is the redacted URL of the failed retrieval, or `None` if no URL is involved. `attempts` is the
    number of attempts that failed with this error. `retryable` is set if the same request may succeed later
    without a change.

    `status` is the numeric code that the server sent: the status code of http, the reply code of FTP and
    NNTP, or the error number of Gopher+. Without a code, `status` is `None`. `body` is the start of the body
    of an http error response, decoded, at most 64 KiB. Without a body, or if only metadata was requested,
    `body` is empty. The server controls these bytes, so treat them as untrusted; no message, log or JSON
    contains them.

    `setting` is the setting that caused the error, with its name in the configuration file (`idle_timeout`),
    or `None`. The command shows the setting as an option (`--idle-timeout`).

    Examples:
        >>> try:
        ...     await resolver.fetch("http://127.0.0.1:8920/none.txt")
        ... except resolver.ResolveError as error:
        ...     print(type(error).__name__, error.status, error.body)
        NotFound 404 b'No such page.\n'

    A subclass sets its own attributes, each once, before it calls this `__init__`.
    """

    exit_code: int = 1
    retryable: bool = False
    setting: str | None = None
    body: bytes = b""
    message: Masked
    url: Masked | None
    attempts: int

    def __init__(self, message: str, *, url: Masked | None = None, retryable: bool | None = None) -> None:
        super().__init__(message)
        facts = {"exit_code": self.exit_code, "retryable": self.retryable if retryable is None else retryable}
        vars(self).update(facts, message=Masked(message), url=url, attempts=1)

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute once (write-once); only dunder attributes such as `__cause__` can change."""
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

        The result is `None` for a number with too many digits, which a Gopher+ server may send.
        """
        code = getattr(self, "code", None) or ""
        return int(code) if re.fullmatch(r"[0-9]{1,9}", code) else None

    def at(self, url: Masked) -> Self:
        """Return a copy with the (redacted) URL."""
        return self._but({"url": url})

    def tried(self, attempts: int) -> Self:
        """Return a copy with the number of attempts."""
        return self._but({"attempts": attempts})

    def saying(self, words: str) -> Self:
        """Return a copy whose message ends with the text `words`."""
        return self._but({"message": Masked(f"{self.message}, {words}")})

    def hiding(self, hide: Callable[[str], Masked]) -> Self:
        """Return a copy with secrets hidden in the message, in the peer's text and in the cause."""
        texts = {name: str(vars(self)[name]) for name in ("message", "text") if vars(self).get(name)}
        facts = {name: hide(words) for name, words in texts.items()}
        cause = self.__cause__
        hidden = cause.hiding(hide) if isinstance(cause, ResolveError) else cause
        if facts == texts and hidden is cause:
            return self
        copy = self._but(facts)
        copy.__cause__ = hidden
        return copy

    def with_setting(self, setting: str | None) -> Self:
        """Return a copy with the name of the setting that caused the error."""
        return self._but({"setting": setting})

    def with_body(self, body: bytes) -> Self:
        """Return a copy with the first bytes of the error response's body."""
        return self._but({"body": body})

    def final(self) -> Self:
        """Return a copy that is not retryable."""
        return self._but({"retryable": False})

    def of_hop(self) -> Self:
        """Return a copy of the error for a stopped redirect.

        The exit status is 15 if the policy refused the redirect or the new URL cannot be resolved.
        """
        refused = isinstance(self, (Refused, UnsupportedScheme))
        return self._but({"exit_code": _REDIRECT_REFUSED}) if refused else self

    def _but(self, facts: Mapping[str, object]) -> Self:
        copy = _restore_error(type(self), {**vars(self), **facts})
        copy.__traceback__, copy.__cause__ = self.__traceback__, self.__cause__
        # The copy is raised in the `except` clause of this error. Without this line, a traceback would show
        # this error a second time, as the context of the copy.
        copy.__suppress_context__ = self.__suppress_context__ or self.__context__ is None
        return copy


def _restore_error(kind: type[E], facts: Mapping[str, object]) -> E:
    """Return an error for unpickling. `__init__` is not called, as its signature differs in each class."""
    error = kind.__new__(kind, facts["message"])
    vars(error).update(facts)
    return error


class InvalidUrl(ResolveError):
    """A text that is not a URL (rule S01, strict parsing).

    `kind` is the name of the fault (`bad-port`). `position` is the 0-based index of the faulty character in
    the original text.
    """

    exit_code = 12

    def __init__(self, kind: str, position: int, message: str, *, url: Masked | None = None) -> None:
        self.kind = kind
        self.position = position
        super().__init__(message, url=url)


class UnsupportedScheme(ResolveError):
    """An unsupported scheme: the scheme is reserved or unknown, or its extra is not installed."""

    exit_code = 13
    rule = "S19"

    def __init__(self, scheme: str, message: str, *, url: Masked | None = None) -> None:
        self.scheme = scheme
        super().__init__(message, url=url)


class Refused(ResolveError):
    """A refusal by the safety policy, before the refused request was sent.

    `rule` is the rule that refused (`S04`). `setting` is the setting that would allow the request, with its
    value (`allow_port 25`), or `None`. `flag` is the same setting as a command-line option. `position` is the
    0-based index of the byte in the URL that caused the refusal.
    """

    def __init__(
        self,
        rule: str,
        message: str,
        *,
        flag: str | None = None,
        position: int | None = None,
        url: Masked | None = None,
    ) -> None:
        self.rule = rule
        self.flag = flag
        if flag is not None and flag.startswith("--"):
            name, _, value = flag[2:].partition(" ")
            self.setting = f"{name.replace('-', '_')} {value}".rstrip()
        self.position = position
        self.exit_code = _REDIRECT_REFUSED if rule == "S10" else 9
        super().__init__(message, url=url)


class NetworkError(ResolveError):
    """A failure of the network.

    `lasting` is set if the failure is probably permanent, so that a retry would fail too. Examples are a
    closed port, an unknown host name, and a peer that sends nothing.
    """

    exit_code = 4
    retryable = True
    lasting: bool

    def __init__(
        self, message: str, *, url: Masked | None = None, retryable: bool | None = None, lasting: bool = False
    ) -> None:
        self.lasting = lasting
        super().__init__(message, url=url, retryable=retryable)

    def passing(self) -> Self:
        """Return a copy without `lasting`, because the failure may be temporary."""
        return self._but({"lasting": False})


class Unreachable(NetworkError):
    """A failed connection: the host has no address, refused the connection, or has no route."""


class Disconnected(NetworkError):
    """The peer closed or reset the connection before the first byte of a body."""


class TimedOut(NetworkError):
    """A timeout of connecting, of waiting for bytes (idle timeout), or of the complete retrieval."""

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
        url: Masked | None = None,
        retryable: bool | None = None,
        lasting: bool = False,
        certificate: str | None = None,
    ) -> None:
        self.certificate = certificate
        super().__init__(message, url=url, retryable=retryable, lasting=lasting)

    def without_certificate(self) -> Self:
        """Return a copy without the digest, because this server's certificate cannot be pinned."""
        return self._but({"certificate": None})


class ProtocolError(ResolveError):
    """A message of the peer that its protocol does not allow."""

    exit_code = 7


#: The settings of the limits that users raise most often.
_SETTING_BY_LIMIT = {"body": "max_size", "quota": "limit quota=BYTES"}


class LimitExceeded(ProtocolError):
    """A response that exceeds a limit. `limit` is the name of the field in `Limits`."""

    def __init__(self, limit: str, message: str, *, url: Masked | None = None) -> None:
        self.limit = limit
        self.exit_code = 14 if limit in ("body", "ratio", "quota") else 7
        self.setting = _SETTING_BY_LIMIT.get(limit)
        super().__init__(message, url=url)


class Declined(ResolveError):
    """A refusal by the peer.

    `code` is the status code of the peer (None if the protocol has no codes), and `text` is the peer's
    message. `of_login` is set if the peer refused the login, and so each object with this login.
    """

    exit_code = 8
    of_login: bool = False

    def __init__(
        self, message: str, *, code: str | None = None, text: str = "", url: Masked | None = None
    ) -> None:
        self.code = code
        self.text = text
        super().__init__(message, url=url)

    def for_login(self) -> Self:
        """Return a copy that is about the login, unless the refusal is temporary."""
        return self if self.retryable else self._but({"of_login": True})


class NotFound(Declined):
    """A missing object: the peer does not have the requested object."""


class AccessDenied(Declined):
    """A denial of access, with or without a login."""

    exit_code = 6


class LoginRequired(Declined):
    """A login that the peer requires, but for which no user name and password are available.

    `setting` is `user`, or `proxy` for the login of a proxy.
    """

    exit_code = 6
    setting: str | None = "user"


class TryLater(Declined):
    """A temporary refusal by the peer.

    `after` is the number of seconds that the client must wait before a retry (backoff, Retry-After). `until`
    is the earliest time of a retry, as a date. If the peer also sends its current time, the client computes
    `after` instead of `until`. An unknown attribute is `None`.
    """

    retryable = True

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        text: str = "",
        url: Masked | None = None,
        after: float | None = None,
        until: datetime | None = None,
    ) -> None:
        self.after = after
        self.until = until
        super().__init__(message, code=code, text=text, url=url)


class IntegrityError(ResolveError):
    """Content whose size, version or checksum differs from the announced value."""

    exit_code = 10


class Truncated(IntegrityError):
    """A truncated body: the body ended before its announced end.

    `received` is the number of received bytes. `expected` is the announced number of bytes, or None if the
    protocol marks the end of the body without a number.
    """

    retryable = True

    def __init__(
        self, message: str, *, received: int, expected: int | None = None, url: Masked | None = None
    ) -> None:
        self.received = received
        self.expected = expected
        super().__init__(message, url=url)


class Changed(IntegrityError):
    """An object that changed between two attempts.

    If `again` is set, a new download from the beginning may succeed.
    """

    def __init__(self, message: str, *, again: bool = False, url: Masked | None = None) -> None:
        super().__init__(message, url=url, retryable=again)


class ChecksumMismatch(IntegrityError):
    """A checksum mismatch: the digest of the content differs from the expected digest."""


class LocalError(ResolveError):
    """An error of this machine, such as a file that cannot be written or a missing directory."""

    exit_code = 3


class NotConfigured(LocalError):
    """A missing or wrong setting. The message explains how to correct the setting."""

    exit_code = 2


# The missing libraries of an extra, as text for a message.
#
# A message names the missing libraries, and never the extra of this distribution. Before the first release,
# anyone can register the name `url-resolver` in the package index. Users would then install the code of that
# person (dependency confusion).

#: A requirement in the metadata of a distribution (PEP 508): the name and the lowest version.
_REQUIREMENT = r"([\w.-]+)(?:\[[^]]*\])?(?:[~>]=([\w.]+?)(?:\.0)?(?=[;,\s]|\Z))?"
_EXTRA = r"""extra == ['"]([^'"]+)['"]"""


def missing_libraries(extra: str, distribution: str = "url-resolver") -> Masked:
    """Return the end of a message about a missing extra.

    The caller writes the beginning: the feature that needs the extra.

    Args:
        extra: The name of the extra, or several names separated by commas.
        distribution: The distribution that defines the extra: this package or a plug-in.

    Returns:
        For example `lxml 6 or later (the extra html): pip install lxml`. If all libraries of the extra are
            installed, a library is too old. The message then lists all libraries. If the package metadata
            does not list the libraries, the message names only the extra.
    """
    # Lazy import: the import takes 40 ms, and few messages need the metadata.
    from importlib.metadata import PackageNotFoundError, requires
    from importlib.util import find_spec

    try:
        requirements = requires(distribution) or []
    except PackageNotFoundError:
        requirements = []
    libraries: dict[str, str] = {}
    for requirement in requirements:
        library, condition = re.match(_REQUIREMENT, requirement), re.search(_EXTRA, requirement)
        if library is not None and condition is not None and condition[1] in extra.split(","):
            libraries[library[1]] = f"{library[1]} {library[2]} or later" if library[2] else library[1]
    if not libraries:
        return Masked(f"the extra {extra} of {distribution}, which is not installed")
    missing = [name for name in libraries if find_spec(name.replace("-", "_")) is None] or [*libraries]
    names = ", ".join(libraries[name] for name in missing)
    return Masked(f"{names} (the extra {extra}): pip install {' '.join(missing)}")


#: Exit statuses of requests that were refused before anything was sent. The policy, the URL parser, the
#: registry of schemes, or a redirect rule refused them.
REFUSED = frozenset({9, 12, 13, 15})


def choose_status(statuses: Iterable[int]) -> int:
    """Return the exit status of a run: 0, the common status of all failures, or 1 for different ones."""
    failures = {status for status in statuses if status != 0}
    return 1 if len(failures) > 1 else failures.pop() if failures else 0


def class_name(error: ResolveError) -> str:
    """Return the name of an error's public class, even if its own class is private."""
    return next(cls.__name__ for cls in type(error).__mro__ if cls.__module__ == __name__)
