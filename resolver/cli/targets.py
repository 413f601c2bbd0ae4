"""What to work on: the URLs of the command line, then those of its lists, each with who chose it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, cast

from protocols.errors import LocalError, NotConfigured
from resolver import registry
from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.url import build, parse, redact

if TYPE_CHECKING:
    from protocols.contract import Origin, Url

_ORIGINS = ("user", "chosen", "derived")
MIXED = 1
#: What travels in the clear whatever is asked for; https and gophers are other schemes.
_WITHOUT_TLS = frozenset({"http", "gopher", "wais", "prospero"})


class Target(NamedTuple):
    """One URL as given, the origin it is judged by, and what led to it: `(url, address)`."""

    url: str
    origin: Origin
    referrer: tuple[str, str | None] | None

    def parsed(self, command: Command) -> Url:
        """The URL, with `--search` or `--view` put into it by its scheme.

        Raises `InvalidUrl`, and `NotConfigured` (exit 2) where an option means nothing to the scheme, or
        cannot be kept to.
        """
        url = parse(self.url, strict=command.strict)
        if command.found.tls == "require" and url.scheme in _WITHOUT_TLS:
            raise NotConfigured(f"--tls require: there is no TLS for {url.scheme} URLs", url=url.shown)
        scheme = registry.find(url.scheme) if command.refinements else None
        for name, value in command.refinements:
            refine = None if scheme is None else scheme.refine.get(name)
            if refine is None:
                raise NotConfigured(f"--{name} means nothing to a {url.scheme} URL", url=url.shown)
            url = parse(build(refine(url, value)))
        return url


def targets(command: Command, tell: Callable[[LocalError], None]) -> Iterator[Target]:
    """All targets, in order. `tell` is told of a line that can be no target; the others are taken all the
    same. Raises `LocalError` for a list that cannot be read, and for a second URL where there is one file."""
    found = _targets(command, tell)
    if command.verb != "get" or command.output in (None, "-"):
        yield from found
        return
    for number, target in enumerate(found):
        if number:
            raise NotConfigured("-O FILE takes one URL; -d DIR is for several")
        yield target


def _targets(command: Command, tell: Callable[[LocalError], None]) -> Iterator[Target]:
    referrer = None if command.referrer is None else (redact(command.referrer), None)
    for url in command.urls:
        yield Target(url, command.origin, referrer)
    for name in command.lists:
        for number, line in enumerate(streams.read_list(name), 1):
            if not line.strip() or line.startswith("#"):
                continue
            try:
                found = _listed(line, f"{name}, line {number}", command.origin, referrer)
            except LocalError as error:
                tell(error)
                continue
            if found is not None:
                yield found


def _listed(line: str, where: str, origin: Origin, referrer: tuple[str, str | None] | None) -> Target | None:
    """None for an entry of a listing that has no URL, such as a line of prose in a menu."""
    if not line.startswith("{"):
        return Target(line, origin, referrer)
    import json  # most lists are lines

    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LocalError(f"{where}: not a JSON object: {error}") from error
    if "url" in record and record["url"] is None:
        return None
    url = record.get("url")
    if not isinstance(url, str):
        raise LocalError(f"{where}: a JSON object needs a member url that is a string")
    chosen = record.get("origin")
    chosen = origin if chosen is None else chosen
    if chosen not in _ORIGINS:
        raise LocalError(f"{where}: origin is user, chosen or derived, not {chosen!r}")
    return Target(url, cast("Origin", chosen), _referrer(record.get("referrer"), where) or referrer)


def _referrer(value: object, where: str) -> tuple[str, str | None] | None:
    match value:
        case None:
            return None
        case str(url) | [str(url)]:
            return (redact(url), None)
        case [str(url), (str() | None) as address]:
            return (redact(url), address)
    raise LocalError(f"{where}: referrer is a URL or [URL, address]")


def status_of(statuses: Iterable[int]) -> int:
    """The exit status of a run: that of all failures if they agree, else 1; 0 when none failed."""
    failures = {status for status in statuses if status != 0}
    if not failures:
        return 0
    return failures.pop() if len(failures) == 1 else MIXED
