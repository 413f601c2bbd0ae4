"""What to work on: the URLs of the command line, then those of its lists, each with who chose it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, cast

from protocols.errors import LocalError, NotConfigured
from resolver import registry
from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.url import build, parse

if TYPE_CHECKING:
    from protocols.contract import Origin, Url

_ORIGINS = ("user", "chosen", "derived")
MIXED = 1


class Target(NamedTuple):
    """One URL as given, the origin it is judged by, and what led to it: `(url, address)`."""

    url: str
    origin: Origin
    referrer: tuple[str, str | None] | None

    def parsed(self, command: Command) -> Url:
        """The URL, with `--search` or `--view` put into it by its scheme.

        Raises `InvalidUrl`, and `NotConfigured` (exit 2) where an option means nothing to the scheme.
        """
        url = parse(self.url, strict=command.strict)
        scheme = registry.find(url.scheme) if command.refinements else None
        for name, value in command.refinements:
            refine = None if scheme is None else scheme.refine.get(name)
            if refine is None:
                raise NotConfigured(f"--{name} means nothing to a {url.scheme} URL", url=url.shown)
            url = parse(build(refine(url, value)))
        return url


def targets(command: Command) -> Iterator[Target]:
    """All targets, in order. Raises `LocalError` for a list that cannot be read or understood."""
    referrer = None if command.referrer is None else (command.referrer, None)
    for url in command.urls:
        yield Target(url, command.origin, referrer)
    for name in command.lists:
        for number, line in enumerate(streams.read_list(name), 1):
            if line.strip() and not line.startswith("#"):
                yield _listed(line, f"{name}, line {number}", command.origin, referrer)


def _listed(line: str, where: str, origin: Origin, referrer: tuple[str, str | None] | None) -> Target:
    if not line.startswith("{"):
        return Target(line, origin, referrer)
    import json  # most lists are lines

    try:
        record = json.loads(line)
    except ValueError as error:
        raise LocalError(f"{where}: not a JSON object: {error}") from error
    url = record.get("url")
    if not isinstance(url, str):
        raise LocalError(f"{where}: a JSON object needs a member url that is a string")
    chosen = record.get("origin") or origin
    if chosen not in _ORIGINS:
        raise LocalError(f"{where}: origin is user, chosen or derived, not {chosen!r}")
    return Target(url, cast("Origin", chosen), _referrer(record.get("referrer"), where) or referrer)


def _referrer(value: object, where: str) -> tuple[str, str | None] | None:
    match value:
        case None:
            return None
        case str(url) | [str(url)]:
            return (url, None)
        case [str(url), (str() | None) as address]:
            return (url, address)
    raise LocalError(f"{where}: referrer is a URL or [URL, address]")


def status_of(statuses: Iterable[int]) -> int:
    """The exit status of a run: that of all failures if they agree, else 1; 0 when none failed."""
    failures = {status for status in statuses if status != 0}
    if not failures:
        return 0
    return failures.pop() if len(failures) == 1 else MIXED
