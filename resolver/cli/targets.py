"""What to work on: the URLs of the command line, then those of its lists, each with who chose it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, cast

from protocols.errors import InvalidUrl, LocalError, NotConfigured, ResolveError
from resolver import registry
from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.url import build, parse, redact

if TYPE_CHECKING:
    from protocols.contract import Origin, Url
    from resolver.cli.claims import Claim

_ORIGINS = ("user", "chosen", "derived")
MIXED = 1


class Target(NamedTuple):
    """One URL as given, the origin it is judged by, and what led to it: `(url, address)`. One that is saved
    under a name that nobody gave has a `claim`."""

    url: str
    origin: Origin
    referrer: tuple[str, str | None] | None
    claim: Claim | None = None

    def reserve(self, url: Url, command: Command, name: str | None = None, suffix: str = "") -> str:
        """The path of its file below the directory for files: of that `name`, or its own, and how it goes on.
        Raises `Refused` (S14) where it has none."""
        from resolver.retrieval.naming import local_directory, local_file_name

        assert self.claim is not None
        found = command.found
        where = local_directory(url, host=found.host_directories, cut=found.cut_dirs)
        path = self.claim.take(os.path.join(where, name or local_file_name(url)), url.shown)
        return self.claim.take(path + suffix, url.shown) if suffix else path

    @property
    def place(self) -> tuple[str, str]:
        """The host that it is with, as `host_key` has it, and its scheme; "" where it is no URL."""
        from resolver.policy import host_key

        try:
            url = parse(self.url, origin=self.origin)
        except InvalidUrl:
            return "", ""
        return host_key(url), url.scheme

    def parsed(self, command: Command) -> Url:
        """The URL, with `--search` or `--view` put into it by its scheme.

        Raises `InvalidUrl`, and `NotConfigured` (exit 2) where an option means nothing to the scheme, or
        cannot be kept to.
        """
        url = parse(self.url, strict=command.strict, origin=self.origin)
        registry.check_tls(url, command.found.tls)
        scheme = registry.find(url.scheme) if command.url_options else None
        for name, value in command.url_options:
            refine = None if scheme is None else scheme.refine.get(name)
            if refine is None:
                raise NotConfigured(f"--{name} means nothing to a {url.scheme} URL", url=url.shown)
            url = parse(build(refine(url, value)), origin=self.origin)
        return url


def targets(command: Command, report: Callable[[LocalError], None]) -> Iterator[Target]:
    """All targets, in order. `tell` is told of a line that can be no target; the others are taken all the
    same. Raises `LocalError` for a list that cannot be read, and for a second URL where there is one file."""
    found = (_as_url(target, command) for target in _targets(command, report))
    if command.verb != "get" or command.output == "-":
        return found
    return _with_names(found, command) if command.output is None else _only_one(found)


def targets_as_given(command: Command) -> Iterator[Target]:
    """The same once more, in the same order, for whoever only wants to know what they are."""
    with suppress(LocalError):  # which was told when they were read
        yield from _targets(command, lambda error: None)


def _as_url(target: Target, command: Command) -> Target:
    """What a person typed with characters outside ASCII is asked for as the URL that RFC 3987 makes of it,
    and that is said. `parse` is asked what the text itself is."""
    if target.url.isascii() or target.origin != "user" or command.strict or command.verb == "parse":
        return target
    from resolver.iri import convert_iri  # few texts need it

    try:
        url = convert_iri(target.url)
        parse(url, origin=target.origin)
    except InvalidUrl:  # which the verb says of what was typed
        return target
    if not command.quiet:
        streams.complain(f"{redact(target.url)}: asked for as {redact(url)}")
    return target._replace(url=url)


def _only_one(found: Iterator[Target]) -> Iterator[Target]:
    for number, target in enumerate(found):
        if number:
            raise NotConfigured("-O FILE takes one URL; -d DIR is for several")
        yield target


def _with_names(found: Iterator[Target], command: Command) -> Iterator[Target]:
    """Each takes its name here, in the order of the list, before anybody works on it. Where the server may
    choose, names go to whom it tells them first."""
    from resolver.cli.claims import Claim, Names  # what is not saved has no need of them
    from resolver.disk.names import is_free

    renames = command.exists == "rename"

    def may_have(path: str, url: str) -> bool:
        return not renames or is_free(os.path.join(command.directory or "", path), url)

    names = Names(may_have)
    for number, target in enumerate(found, 1):
        named = target._replace(claim=Claim(names, number))
        if not command.found.allow_server_name and command.found.follow is None:
            with suppress(ResolveError):  # the verb meets it too, and says so
                named.reserve(named.parsed(command), command)
        yield named


def _targets(command: Command, report: Callable[[LocalError], None]) -> Iterator[Target]:
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
                report(error)
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
