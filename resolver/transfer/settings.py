"""Settings for all URLs of a caller: the keywords of `Resolver`, of the functions and of `HttpxTransport`.

A function with these settings declares `**settings: Unpack[Settings]`, and passes all settings on. A setting
that is missing or None has its default value.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from os import PathLike
from typing import TYPE_CHECKING, NamedTuple, TypedDict, TypeVar

from protocols.errors import NetworkError, ResolveError, TryLater
from protocols.location import Origin
from protocols.options import HeaderFields, Limits, Options, header_fields
from resolver.transfer.archives import ArchiveSource, ArchiveTarget

if TYPE_CHECKING:
    from resolver.files.commit import Sync
    from resolver.network.admission import Family
    from resolver.network.events import OnEvent
    from resolver.network.mask import Given
    from resolver.policy.settings import Host, Policy


T = TypeVar("T")

_MAX_DELAY = 60.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The maximum number of attempts, and the delay between attempts (exponential backoff with jitter).

    - `tries` is the maximum number of consecutive attempts without new data. After these attempts, the
      retrieval fails.
    - `delay` is the number of seconds before the second attempt. The delay doubles for each further attempt,
      up to 60 s, with jitter.
    - `retry_all`: whether to retry even after an error that is probably permanent (`NetworkError.lasting`).
      By default, such an error ends the retrieval.
    - `tries_before_data` is used instead of `tries` until the first byte of the object has been received.
      None means `tries`.

    Raises:
        ValueError: a number is negative or not a number.

    Examples:
        >>> patience = resolver.RetryPolicy(tries=3, delay=0.5)
        >>> saved = await resolver.save("http://127.0.0.1:8920/about.txt", "about.txt", patience=patience)
        >>> saved.attempts
        1
    """

    tries: int = 1
    delay: float = 1.0
    retry_all: bool = False
    tries_before_data: int | None = None

    def __post_init__(self) -> None:
        for name in ("tries", "delay", "tries_before_data"):
            number: float | None = getattr(self, name)
            if number is not None and not number >= 0:  # NaN as `tries` would mean endless attempts
                raise ValueError(f"{name} must be at least 0, got {number}")

    def gives_up(self, failures_in_a_row: int, error: ResolveError, *, has_data: bool = True) -> bool:
        """Return whether a retry at this location is not allowed.

        Args:
            failures_in_a_row: the number of consecutive attempts without new data.
            error: the error of the last attempt.
            has_data: whether bytes of the object have been received.
        """
        lasting = isinstance(error, NetworkError) and error.lasting and not self.retry_all
        tries = self.tries if has_data or self.tries_before_data is None else self.tries_before_data
        return lasting or not error.retryable or failures_in_a_row >= tries

    def pause(self, failures_in_a_row: int, error: ResolveError) -> float:
        """Return the seconds before the next attempt: the server's pause, or else the backoff."""
        requested = requested_pause(error)
        if requested is not None:
            return requested
        grown: float = min(_MAX_DELAY, self.delay * 2 ** max(0, failures_in_a_row - 1))
        return grown * random.uniform(0.75, 1.0)  # jitter, so that clients do not retry simultaneously


def requested_pause(error: ResolveError) -> float | None:
    """Return the pause in seconds that the server requested (`Retry-After`), or None."""
    if isinstance(error, TryLater) and error.until is not None:
        return max(0.0, (error.until - datetime.now(UTC)).total_seconds())
    return error.after if isinstance(error, TryLater) else None


#: The default retry policies: one attempt for a retrieval into memory, and five attempts for a file.
ONE_TRY, FIVE_TRIES = RetryPolicy(), RetryPolicy(tries=5)


class NetworkSettings(TypedDict, total=False):
    """The settings of outbound connections and events, for libraries that create the requests, such as httpx.

    Examples:
        >>> way_out: resolver.NetworkSettings = {"policy": resolver.Policy.untrusted(), "proxy": "none"}
        >>> transport = resolver.HttpxTransport(**way_out)
    """

    policy: Policy | str | None
    """The policy, or its name: `"default"` (the default), or `"untrusted"` for untrusted URLs (SSRF)."""

    limits: Limits | None
    """The limits on server responses: sizes in bytes, counts, and timeouts in seconds (S16)."""

    on_event: OnEvent | None
    """A callback for events. It is called synchronously during the retrieval, so it must not block."""

    family: Family | None
    """The IP version for all connections: `"4"` or `"6"`; both by default."""

    cafile: str | None
    """A PEM file of certificate authorities (CA) to trust in addition to the CAs of the system."""

    certfile: str | None
    """A PEM file with a TLS client certificate and its private key.

    The client certificate is sent only to hosts of URLs with the origin `user` (S11).
    """

    certfile_password: bytes | None
    """The password of the private key in `certfile`, if the key is encrypted."""

    pin: str | None
    """The digest (`sha256:HEX`) of the only server certificate to accept from hosts that the caller named.

    The name, the dates and the authority of the certificate are not checked. `Host(pin=…)` is the same for
    one host.
    """

    environment: Mapping[str, str] | None
    """The environment variables for proxies (S09), instead of the environment of the process."""

    proxy: str | None
    """The URL of the proxy for all schemes, or `none` for no proxy; overrides environment variables."""

    rate: int | None
    """The rate limit in bytes per second over TCP, shared equally by all transfers."""

    recorder: ArchiveTarget | None
    """A recorder that writes all requests and responses to a WARC archive."""

    hosts: Mapping[str, Host] | None
    """The settings for one host, by `host:port` or `host`.

    They override all other settings for requests to this host, also after a redirect.
    """


class Settings(NetworkSettings, total=False):
    """The keywords of a `Resolver`, and of the functions of the package.

    Examples:
        >>> mine: resolver.Settings = {"timeout": 60, "headers": {"Accept": "text/plain"}}
        >>> (await resolver.fetch("http://127.0.0.1:8920/about.txt", **mine)).size
        37
    """

    timeout: float | None
    """The total timeout in seconds for one URL, including connections, retries, redirects and body.

    It overrides `Limits.total`.
    """

    headers: HeaderFields | None
    """Header fields of http requests, sent after the header fields in `options`.

    After a redirect to another host or port, only harmless header fields are sent (S11).
    """

    credentials: Given | None
    """The users and passwords by host; each password is sent only to its host and port (S11).

    The value is a mapping with keys (scheme, host, port), or a function or async function. The function is
    called with (scheme, host, port, user), once for each host and port.
    """

    cookies: str | PathLike[str] | None
    """The path of a cookie file in Netscape format.

    The cookie file is read when the `Resolver` is entered. Changed cookies are written when the `Resolver` is
    exited.
    """

    options: Options | None
    """The options of requests that a URL cannot express, such as header fields."""

    news_server: str | None
    """The news server (NNTP) for `news:` URLs without a server, as HOST or HOST:PORT."""

    gateways: Mapping[str, str] | None
    """The gateway URLs, by scheme (S19)."""

    mirrored: Mapping[str, Sequence[str]] | None
    """The mirrors by URL prefix.

    `save` uses the mirrors if the requested URL fails. The longest matching prefix applies. It has priority
    over the mirrors of the host.
    """

    archive: ArchiveSource | None
    """The WARC archives from which all responses are read, without network access.

    This setting cannot be combined with `recorder`.
    """

    segments: int | None
    """The maximum number of connections of `save` for one object, to all its locations together.

    The default is 1. If the server does not support range requests or the object is smaller than 2 MiB, only
    one connection is used.
    """

    segments_per_host: int | None
    """The maximum number of segment connections to one host, for all objects together.

    The default is 6 for http, and 2 for other schemes.
    """

    sync: Sync | None
    """When saved files are flushed to the disk (fsync).

    - `group` (the default): files are flushed before they are renamed to their final names. Files that are
      completed at the same time share one flush.
    - `always`: each file is flushed separately. The rename to the final name is also flushed before `save`
      returns.
    - `never`: files are not flushed. After a power failure, some files may be empty.
    """

    patience: RetryPolicy | None
    """The retry policy. The default is one attempt, and five attempts for `save`."""

    strict: bool
    """Whether to accept only URLs that conform to RFC 1738, without corrections."""


class Provenance(TypedDict, total=False):
    """The keywords of each call with a URL: how the URL was chosen, and its referrer."""

    origin: Origin
    """How the URL was chosen: by the `user` (the default), by a program (`chosen`), or found in retrieved
    data (`derived`).
    """

    referrer: tuple[str, str | None] | None
    """The URL that led to this one, and the address from which it was fetched."""


class FetchSettings(Provenance, Settings, total=False):
    """The keywords of the module-level functions: the settings of the `Resolver`, origin and referrer."""


class _Expected(NamedTuple):
    words: str
    classes: tuple[type, ...]


_TEXT = _Expected("a string", (str,))
_MAPPING = _Expected("a mapping", (Mapping,))
_INTEGER = _Expected("an integer", (int,))

#: The classes of settings that are not checked where they are used first.
_CLASSES = {
    "archive": _Expected("a resolver.warc.Archive", (ArchiveSource,)),
    "cafile": _Expected("a path", (str, PathLike)),
    "certfile": _TEXT,
    "credentials": _Expected("a mapping or a function", (Mapping, Callable)),  # type: ignore[arg-type]
    "environment": _MAPPING,
    "gateways": _MAPPING,
    "hosts": _MAPPING,
    "mirrored": _MAPPING,
    "news_server": _TEXT,
    "on_event": _Expected("a function", (Callable,)),  # type: ignore[arg-type]
    "options": _Expected("a resolver.Options", (Options,)),
    "patience": _Expected("a resolver.RetryPolicy", (RetryPolicy,)),
    "pin": _TEXT,
    "proxy": _TEXT,
    "recorder": _Expected("a resolver.warc.Recorder", (ArchiveTarget,)),
    "segments": _INTEGER,
    "segments_per_host": _INTEGER,
}


def check_names(names: Collection[str], known: frozenset[str]) -> None:
    """Raise `TypeError` if a name is not a known setting."""
    if not known.issuperset(names):
        unknown = set(names) - known
        words = f"unexpected keyword argument {min(unknown)!r}: the settings are {', '.join(sorted(known))}"
        raise TypeError(words)


def check_settings(settings: Settings | NetworkSettings, known: frozenset[str]) -> None:
    """Check the names of the settings, and values that would be ignored or fail only during a retrieval.

    Raises:
        TypeError: a name is unknown, or a value has a wrong type. The message does not show the value, which
            may be secret.
        ValueError: `family` is not an IP version, or a number of connections is less than 1.
    """
    check_names(settings, known)
    for name, value in settings.items():
        expected = _CLASSES.get(name)
        if expected is not None and value is not None and not isinstance(value, expected.classes):
            raise TypeError(f"{name!r} must be {expected.words}, got {type(value).__name__}")
        if expected is _INTEGER and isinstance(value, int) and value < 1:
            raise ValueError(f"{name!r} must be at least 1, got {value}")
    if settings.get("family") not in (None, "4", "6"):
        raise ValueError(f"'family' must be '4' or '6', got {settings.get('family')!r}")


def as_tuple(name: str, values: Iterable[T]) -> tuple[T, ...]:
    """Return the values of a keyword as a tuple.

    A string is an error, because each of its characters would be a value. The message does not show the
    string, because the URL of a mirror may contain a password.
    """
    if isinstance(values, str):
        raise TypeError(f"{name!r} must be a list, got a string")
    return tuple(values)


def merge_limits(settings: Settings) -> Limits:
    """Return the limits of the settings.

    The setting `timeout` overrides the total time.

    Raises:
        TypeError: the limits are of another class, such as `httpx.Limits`, which limits connections.
    """
    limits, total = settings.get("limits") or Limits(), settings.get("timeout")
    if not isinstance(limits, Limits):
        kind: type = type(limits)
        words = f"'limits' must be a resolver.Limits, got {kind.__module__}.{kind.__name__}"
        raise TypeError(f"{words} (the number of connections cannot be limited here)")
    return limits if total is None else replace(limits, total=total)


def merge_options(settings: Settings) -> Options:
    """Return the settings' `options` with the setting `headers`.

    If the settings do not have `options`, keep-alive connections are used.
    """
    options, headers = settings.get("options") or Options(keep=True), settings.get("headers")
    if headers is None:
        return options
    return replace(options, headers=(*options.headers, *header_fields(headers)))
