"""SSRF protection for blocking sockets: `socket.create_connection` with checks of IP addresses."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable

import resolver


def create_connection(
    address: tuple[str, int],
    timeout: float | None = socket._GLOBAL_DEFAULT_TIMEOUT,  # type: ignore[attr-defined]
    source_address: tuple[str, int] | None = None,
    *,
    all_errors: bool = False,
    scheme: str = "http",
    policy: resolver.Policy | str | None = None,
) -> socket.socket:
    """Connect to a host and port.

    Only IP addresses that pass the policy checks are used.

    Args:
        address: The host and port.
        timeout: The timeout in seconds for each IP address; the default is `socket.getdefaulttimeout()`.
        source_address: The local IP address and port.
        all_errors: Whether the errors of all IP addresses are raised, as an `ExceptionGroup`.
        scheme: The scheme whose policy rules apply.
        policy: The policy; the default is `untrusted`.

    Raises:
        resolver.Refused: The policy forbids the connection. No data was sent.
        resolver.InvalidUrl: The host is not valid. No data was sent.
        OSError: The connection failed, as for `socket.create_connection`.
    """
    host, port = address
    return connect_first(
        look_up(host, port, scheme=scheme, policy=policy),
        lambda ip: socket.create_connection((ip, port), timeout, source_address),
        all_errors=all_errors,
    )


def check_url(url: str, policy: resolver.Policy, proxy: str = "none") -> None:
    """Check a URL before the request is sent; the IP addresses are checked when the client connects.

    Raises:
        resolver.ResolveError: The policy refuses the URL or the proxy, or the URL is not valid.
    """
    error = resolver.check(url, policy=policy, proxy=proxy).error(resolver.parse(url))
    if error is not None:
        raise error


def look_up(
    host: str, port: int, *, scheme: str = "http", policy: resolver.Policy | str | None = None
) -> tuple[str, ...]:
    """Return the allowed IP addresses of a host. If the policy refuses the host, no DNS lookup is made."""
    try:
        return resolver.guard(host, port=port, scheme=scheme, policy=policy)
    except resolver.Unreachable:  # all checks have passed except the check of the DNS lookup result
        addresses = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        return resolver.guard(host, dict.fromkeys(addresses), port=port, scheme=scheme, policy=policy)


def connect_first(
    addresses: Iterable[str], connect: Callable[[str], socket.socket], *, all_errors: bool = False
) -> socket.socket:
    """Return the first successful connection to one of the addresses.

    Raises:
        OSError: All addresses failed; the error of the last address is raised.
        ExceptionGroup: All addresses failed, and `all_errors` is true; the group has all errors.
    """
    failures: list[OSError] = []
    for address in addresses:
        try:
            return connect(address)
        except OSError as error:
            failures.append(error)
    raise choose_failure(failures, all_errors)


def choose_failure(failures: list[OSError], all_errors: bool) -> Exception:
    """Return the error to raise if all IP addresses of a host failed; `failures` must not be empty."""
    return ExceptionGroup("all addresses failed", failures) if all_errors else failures[-1]
