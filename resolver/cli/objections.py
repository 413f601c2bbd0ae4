"""What a value of the configuration cannot mean, said where its file and line are known.

The command line's own values are met by the same checks later; here each is asked for a single value, and
what it takes is imported for those alone who have such a one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from protocols.errors import NotConfigured
from resolver.cli.values import BadValue, UsageError

_OF_POLICY = frozenset(
    {
        *("allow_port", "allow_address", "allow_name", "allow_redirect", "allow_forward"),
        *("file_root", "ftp_email", "trusted_proxy"),
    }
)


def check_value(name: str, value: Any) -> None:
    """Raises `BadValue` for what the option could not be."""
    if name in _OF_POLICY:
        _check_policy(name, value)
    elif name in _CHECKS:
        for text in value:
            _CHECKS[name](text)


def _check_policy(name: str, value: Any) -> None:
    from protocols.values import replace
    from resolver.policy import Policy

    said: dict[str, Any] = {name: frozenset(value) if isinstance(value, list) else value}
    try:
        replace(Policy(), **said)
    except ValueError as error:
        raise BadValue(str(error).partition(": ")[2]) from error


def _check_header(text: str) -> None:
    from resolver.cli.bounds import header

    try:
        header(text)
    except UsageError:
        raise BadValue("NAME:VALUE on one line is needed") from None


def _check_mirror(text: str) -> None:
    from resolver.retrieval.mirrored import check_mirror

    try:
        check_mirror(text)
    except NotConfigured as error:
        raise BadValue(error.message) from error


def check_prefix(text: str) -> None:
    """Raises `BadValue` for what no URL of a host could begin with."""
    from resolver.retrieval.mirrored import MirrorPrefixes

    try:
        MirrorPrefixes({text: ()})
    except NotConfigured as error:
        raise BadValue(error.message) from error


_CHECKS: Mapping[str, Callable[[str], None]] = {"headers": _check_header, "mirrors": _check_mirror}


def check_row(table: str, name: str, text: str) -> None:
    """One NAME = VALUE of a table. Raises `BadValue`."""
    try:
        if table == "limits":
            from resolver.cli.bounds import check_limit

            check_limit(name, text)
        else:
            from resolver.gateways import check_gateway

            check_gateway(name, text)
    except (UsageError, ValueError) as error:
        raise BadValue(str(error).removeprefix(f"--limit {name}: ")) from error
