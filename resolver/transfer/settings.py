"""Settings for all URLs of a caller: the keywords of `Resolver`, of the functions and of `HttpxTransport`.

No other module repeats them.

Who takes them says `**settings: Unpack[Settings]` and hands them on whole. What is left out, or None, is as
if nobody had said anything.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from os import PathLike
from typing import TYPE_CHECKING, TypedDict

from protocols.errors import NetworkError, ResolveError, TryLater
from protocols.location import Origin
from protocols.options import HeaderFields, Limits, Options, header_fields

if TYPE_CHECKING:
    from resolver.files.commit import Sync
    from resolver.network.admission import Family
    from resolver.network.events import OnEvent
    from resolver.network.mask import Given
    from resolver.policy.settings import Host, Policy
    from resolver.transfer.archives import ArchiveSource, ArchiveTarget


_LONGEST_DELAY = 60.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`tries` is how many tries in a row may bring nothing new; `delay` the seconds before the second,
    which double each time, up to 60, with some jitter. What would most likely be the same again
    (`NetworkError.lasting`) has one try, unless `retry_all` says otherwise. While not an octet of the object
    is here `tries_before_data` counts in place of `tries`, unless it is None.

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

    def gives_up(self, failures_in_a_row: int, error: ResolveError, *, has_data: bool = True) -> bool:
        """Return whether this place is not to be tried again; `has_data`: octets of the object are here."""
        lasting = isinstance(error, NetworkError) and error.lasting and not self.retry_all
        tries = self.tries if has_data or self.tries_before_data is None else self.tries_before_data
        return lasting or not error.retryable or failures_in_a_row >= tries

    def pause(self, failures_in_a_row: int, error: ResolveError) -> float:
        """Seconds to wait after `failures_in_a_row` tries in a row; a peer that named a time gets it."""
        requested = requested_pause(error)
        if requested is not None:
            return requested
        grown: float = min(_LONGEST_DELAY, self.delay * 2 ** max(0, failures_in_a_row - 1))
        return grown * random.uniform(0.75, 1.0)  # not all clients of a server at once


def requested_pause(error: ResolveError) -> float | None:
    """Seconds that the peer asked to be left alone; None where it named no time."""
    if isinstance(error, TryLater) and error.until is not None:
        return max(0.0, (error.until - datetime.now(UTC)).total_seconds())
    return error.after if isinstance(error, TryLater) else None


#: Where nobody says: of what goes into memory, where the caller is there to ask again, and of a file.
ONE_TRY, FIVE_TRIES = RetryPolicy(), RetryPolicy(tries=5)


class NetworkSettings(TypedDict, total=False):
    """How to get out, and who listens: for what asks in its own words, as httpx does.

    Examples:
        >>> way_out: resolver.NetworkSettings = {"policy": resolver.Policy.untrusted(), "proxy": "none"}
        >>> transport = resolver.HttpxTransport(**way_out)
    """

    policy: Policy | str | None
    """What is allowed, or the name of a policy: `"default"` where nobody says, `"untrusted"` for strangers'
    URLs."""

    limits: Limits | None
    """How much a peer may send, in octets and counts, and how long it may take, in seconds (S16)."""

    on_event: OnEvent | None
    """Called with each event as it happens, between two steps of the retrieval: it must not block."""

    family: Family | None
    """`"4"` or `"6"`: the only version of IP to use."""

    cafile: str | None
    """A PEM file of authorities that are trusted besides the system's."""

    certfile: str | None
    """A PEM file with a certificate of our own and its key; shown to places that the caller named."""

    certfile_password: bytes | None
    """That of the key in `certfile`, where it has one."""

    environment: Mapping[str, str] | None
    """Where proxy variables may stand (S09), in place of the environment of the process."""

    proxy: str | None
    """The URL of the proxy to use for all, before any variable; `none` for no proxy at all."""

    rate: int | None
    """Octets a second that all transfers together take at most over TCP, each its share."""

    recorder: ArchiveTarget | None
    """Keeps all that is fetched, and what was said for it, in an archive (WARC)."""

    hosts: Mapping[str, Host] | None
    """By `host:port` or `host`: what holds there alone, before all else, after a redirect, too."""


class Settings(NetworkSettings, total=False):
    """What a `Resolver` may be told, each by its keyword; a function of the package takes the same.

    Examples:
        >>> mine: resolver.Settings = {"timeout": 60, "headers": {"Accept": "text/plain"}}
        >>> (await resolver.fetch("http://127.0.0.1:8920/about.txt", **mine)).size
        37
    """

    timeout: float | None
    """Seconds for all of one URL: its connections, tries, redirects and body. Short for `Limits.total`, in
    whose place it stands."""

    headers: HeaderFields | None
    """Fields of http requests, behind those of `options`. Only harmless ones go to another place (S11)."""

    credentials: Given | None
    """Names and passwords: a mapping from (scheme, host, port), or a function, async or not, that is asked
    with (scheme, host, port, user), once a place. They go to that place and nowhere else (S11)."""

    cookies: str | PathLike[str] | None
    """A file to keep cookies in, in Netscape's form; read when a `Resolver` is entered, and what changed is
    written when it is left."""

    options: Options | None
    """What is asked of the schemes beyond the URL."""

    news_server: str | None
    """HOST or HOST:PORT for `news:` URLs that name no server."""

    gateways: Mapping[str, str] | None
    """The URL of a gateway by the name of the scheme that goes through it (S19)."""

    mirrored: Mapping[str, Sequence[str]] | None
    """By a URL that others begin with: where all that is below it is, too. The longest one counts, before the
    mirrors of a host; `save` asks there when the URL itself fails."""

    archive: ArchiveSource | None
    """Everything comes from these archives (WARC), and nothing from the network; with no `recorder`."""

    segments: int | None
    """How many connections `save` may take at once for one object, over all its places; 1 where nobody says,
    where a place gives no parts, and of what has less than 2 MiB."""

    segments_per_host: int | None
    """How many of them one host gets, of all objects together: 2 where nobody says, http 6."""

    sync: Sync | None
    """When saved files get to the disk: `group` before they get their names, those that end together in one
    step; `always` each for itself, and its name before `save` returns; `never` when the system writes them,
    so that a loss of power may leave some empty. `group` where nobody says."""

    patience: RetryPolicy | None
    """How often to try, and how long to wait in between: one try where nobody says; `save` has five."""

    strict: bool
    """Take of URLs only what RFC 1738 has, and mend nothing."""


class Provenance(TypedDict, total=False):
    """Who chose a URL, and what led to it: keywords of each call that takes one."""

    origin: Origin
    """`user` (the default), `chosen` (by a program) or `derived` (found in what was fetched)."""

    referrer: tuple[str, str | None] | None
    """The URL that led to it, and the address from which that one was fetched."""


class FetchSettings(Provenance, Settings, total=False):
    """The keywords of a function of the package: of the one URL, and of the `Resolver` that fetches it."""


def check_names(given: Collection[str], known: Collection[str]) -> None:
    """Raises `TypeError` where something is set that there is not."""
    for name in given:
        if name not in known:
            raise TypeError(
                f"unexpected keyword argument {name!r}: the settings are {', '.join(sorted(known))}"
            )


def limits_of(settings: Settings) -> Limits:
    """The limits, with the time for all of it in its short form."""
    limits, total = settings.get("limits") or Limits(), settings.get("timeout")
    return limits if total is None else replace(limits, total=float(total))


def options_of(settings: Settings) -> Options:
    """The options, with the headers behind theirs. Where there are none, further URLs will follow."""
    options, headers = settings.get("options") or Options(keep=True), settings.get("headers")
    if headers is None:
        return options
    return replace(options, headers=(*options.headers, *header_fields(headers)))
