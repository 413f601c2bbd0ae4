"""Errors by whose doing they are: one class for a fact, one branch for the party that caused it.

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

An error is a value. What is known only further out (which URL, how many tries) is said by a copy of it,
which keeps its traceback and its cause: `at`, `tried`, `saying`, `final`, `of_hop`. Pickled and copied, it
has all that it says.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # as in typing, whose import is most of the cost of a bare start


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from typing import Self, TypeVar

    E = TypeVar("E", bound="ResolveError")

#: What stops a redirect, whatever rule it is (S10).
_REDIRECT_REFUSED = 15

#: Characters of a URL that `str` shows: a text may be a URL of 64 KiB.
_MOST_SHOWN = 200


class ResolveError(Exception):
    """Anything that keeps a URL from being resolved.

    `url` is the redacted URL, which the retrieval that failed says; `None` where none is to blame.
    `attempts` is how many tries ended this way, the last one with this error.
    `retryable` says whether the same request may succeed later without any change.

    A class of one's own sets its attributes before it calls this `__init__`, each once.
    """

    exit_code: int = 1
    retryable: bool = False
    message: str
    url: str | None
    attempts: int

    def __init__(self, message: str, *, url: str | None = None, retryable: bool | None = None) -> None:
        super().__init__(message)
        facts = {"exit_code": self.exit_code, "retryable": self.retryable if retryable is None else retryable}
        vars(self).update(facts, message=message, url=url, attempts=1)

    def __setattr__(self, name: str, value: object) -> None:
        """What belongs to raising it (`__cause__`, `__notes__`) may change, what it says may not."""
        if name in vars(self) and not name.startswith("_"):
            raise AttributeError(f"{name} of an error is not changed after it was made: raise another one")
        super().__setattr__(name, value)

    def __str__(self) -> str:
        if self.url is None:
            return self.message
        shown = self.url if len(self.url) <= _MOST_SHOWN else f"{self.url[:_MOST_SHOWN]}…"
        return f"{''.join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)}: {self.message}"

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_error, (type(self), vars(self).copy())

    def at(self, url: str) -> Self:
        """The same, about this (redacted) URL."""
        return self._but({"url": url})

    def tried(self, attempts: int) -> Self:
        """The same, after so many tries."""
        return self._but({"attempts": attempts})

    def saying(self, words: str) -> Self:
        """The same, with what only somebody further out knows behind its message."""
        return self._but({"message": f"{self.message}, {words}"})

    def hiding(self, hide: Callable[[str], str]) -> Self:
        """The same without what may not be shown, in what it says, in the peer's words and in its cause."""
        said = {name: str(vars(self)[name]) for name in ("message", "text") if vars(self).get(name)}
        facts = {name: hide(words) for name, words in said.items()}
        cause = self.__cause__
        hidden = cause.hiding(hide) if isinstance(cause, ResolveError) else cause
        if facts == said and hidden is cause:
            return self
        other = self._but(facts)
        other.__cause__ = hidden
        return other

    def final(self) -> Self:
        """The same, where no further try could mend it."""
        return self._but({"retryable": False})

    def of_hop(self) -> Self:
        """The same, where it stopped a redirect: what our policy or our build refuses then is a redirect."""
        refused = isinstance(self, (Refused, UnsupportedScheme))
        return self._but({"exit_code": _REDIRECT_REFUSED}) if refused else self

    def _but(self, facts: Mapping[str, object]) -> Self:
        other = _restore_error(type(self), {**vars(self), **facts})
        other.__traceback__, other.__cause__ = self.__traceback__, self.__cause__
        # Raised where this one is handled, the copy has it as context: to show it twice would tell nothing.
        other.__suppress_context__ = self.__suppress_context__ or self.__context__ is None
        return other


def _restore_error(kind: type[E], facts: Mapping[str, object]) -> E:
    """An error that says this, made without its `__init__`, which may be of any form."""
    error = kind.__new__(kind, facts["message"])
    vars(error).update(facts)
    return error


class InvalidUrl(ResolveError):
    """The text is not a URL (rule S01). `kind` is a name of the error table in the URL syntax page;
    `position` is the 0-based index of the offending character in the text as given."""

    exit_code = 12

    def __init__(self, kind: str, position: int, message: str, *, url: str | None = None) -> None:
        self.kind = kind
        self.position = position
        super().__init__(message, url=url)


class UnsupportedScheme(ResolveError):
    """No handler in this build: a reserved or unknown scheme, or an extra that is not installed."""

    exit_code = 13
    rule = "S19"

    def __init__(self, scheme: str, message: str, *, url: str | None = None) -> None:
        self.scheme = scheme
        super().__init__(message, url=url)


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
        self.rule = rule
        self.flag = flag
        self.position = position
        self.exit_code = _REDIRECT_REFUSED if rule == "S10" else 9
        super().__init__(message, url=url)


class NetworkError(ResolveError):
    """The network, not the peer's answer, is to blame.

    `lasting`: nothing was ever heard from there, and another try would most likely find the same: a port that
    refuses, a name that nobody has, a peer that never says a word.
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
        """The same, where it may be over soon."""
        return self._but({"lasting": False})


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
        self.limit = limit
        self.exit_code = 14 if limit in ("body", "ratio") else 7
        super().__init__(message, url=url)


class Declined(ResolveError):
    """The peer said no. `code` is its code (None where the protocol has none), `text` its words."""

    exit_code = 8

    def __init__(
        self, message: str, *, code: str | None = None, text: str = "", url: str | None = None
    ) -> None:
        self.code = code
        self.text = text
        super().__init__(message, url=url)


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
    """What arrived is not what was announced."""

    exit_code = 10


class Truncated(IntegrityError):
    """A body began and ended early. `received` counts its octets; `expected` is the announced
    number, or None where the protocol marks the end in another way."""

    retryable = True

    def __init__(
        self, message: str, *, received: int, expected: int | None = None, url: str | None = None
    ) -> None:
        self.received = received
        self.expected = expected
        super().__init__(message, url=url)


class Changed(IntegrityError):
    """The object changed between two tries. `again` says that starting over may still give it whole."""

    def __init__(self, message: str, *, again: bool = False, url: str | None = None) -> None:
        super().__init__(message, url=url, retryable=again)


class ChecksumMismatch(IntegrityError):
    """The digest is not the one that was given."""


class LocalError(ResolveError):
    """This machine: a file that cannot be written, a directory that is gone."""

    exit_code = 3


class NotConfigured(LocalError):
    """A setting is missing or wrong; the message says how to give it."""

    exit_code = 2


# The libraries of an extra that are missing, as messages name them.
#
# A message names libraries, never `url-resolver` itself: until a release that name is free in the package
# index, and whoever registers it would own what users are told to run.

#: A requirement in the metadata of a distribution (PEP 508): its name, and the version that it begins with.
_REQUIREMENT = r"([\w.-]+)(?:\[[^]]*\])?(?:[~>]=([\w.]+?)(?:\.0)?(?=[;,\s]|\Z))?"
_EXTRA = r"""extra == ['"]([^'"]+)['"]"""


def missing_libraries(extra: str, distribution: str = "url-resolver") -> str:
    """Return the end of a message that begins with what needs the extra.

    Args:
        extra: Its name, or several with commas between.
        distribution: Whose extra it is: ours, or that of a plug-in.

    Returns:
        For example `lxml 6 or later (the extra html): pip install lxml`; all libraries of the extra where
        each is there, and so one is too old; the name of the extra where the metadata do not tell.
    """
    from importlib.metadata import PackageNotFoundError, requires  # 40 ms, and few messages need it
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
