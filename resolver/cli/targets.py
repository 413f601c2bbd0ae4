"""The targets of a command: the URLs of the command line, followed by the URLs of the list files.

A target has an origin and a referrer. It also has the metadata that a list contains for the URL.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from protocols.errors import InvalidUrl, LocalError, NotConfigured, ResolveError
from protocols.location import Finding, Url
from protocols.text import Masked
from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.policy.subject import host_key
from resolver.url import registry
from resolver.url.parsing import build, convert_iri, parse, redact

if TYPE_CHECKING:
    from protocols.contract import Origin
    from resolver.cli.lists import FetchedList, ListSource
    from resolver.ledger.book import Ledger
    from resolver.transfer.naming import NameReservation
    from resolver.transfer.verification import Checksum
    from resolver.trees.lists import ListedFile
    from resolver.trees.walk import TreeFile


_ORIGINS = ("user", "chosen", "derived")
_NO_LISTS: Mapping[str, FetchedList] = {}


class CommandTarget(NamedTuple):
    """A URL of a run with its metadata.

    Attributes:
        url: the URL as typed or listed.
        origin: the origin of the URL (`user`, `chosen` or `derived`), for the policy.
        referrer: `(url, address)` of the page or list that contained the URL.
        reservation: the reservation of the file name, or None if the user chose the name.
        name: the file's path according to the list.
        mirrors: other URLs of the file, according to the list.
        checksum: the file's digest according to the list.
        size: the file's size in bytes according to the list.
        findings: findings about the metadata of the list.
        file: the file of a directory tree (`-r`), or None.
        path: the path below the output directory; empty until the path is reserved.
        parsed_url: the parsed URL, or None before the first parse.
    """

    url: str
    origin: Origin
    referrer: tuple[str, str | None] | None
    reservation: NameReservation | None = None
    name: str | None = None
    mirrors: tuple[str, ...] = ()
    checksum: Checksum | None = None
    size: int | None = None
    findings: tuple[Finding, ...] = ()
    file: TreeFile | None = None
    path: str = ""
    parsed_url: Url | None = None

    @property
    def is_bare(self) -> bool:
        """Return whether the target has no metadata (name, mirrors, checksum, size) from a list."""
        return self.name is None and not self.mirrors and self.checksum is None and self.size is None

    def reserve(self, url: Url, command: Command, name: str | None = None, suffix: str = "") -> str:
        """Reserve the path of the file below the output directory.

        If a list contains a path, the file is saved at this path, with directories. With `--host-directories`
        or `--cut-dirs`, only the file name of the path is used. Raises `Refused` (S14) if no file name is
        available.

        Args:
            url: the parsed URL.
            command: the options.
            name: a file name that replaces the name in the URL, for example the server's file name.
            suffix: a suffix for the path.
        """
        if self.path and name is None and not suffix:  # already reserved
            return self.path
        assert self.reservation is not None
        path = self.reservation.take(self.find_path(url, command, name), url.shown)
        return self.reservation.take(path + suffix, url.shown) if suffix else path

    def find_path(self, url: Url, command: Command, name: str | None = None) -> str:
        """Return the path that `reserve` reserves if no other target has this path."""
        from resolver.transfer.naming import local_directory, local_file_name

        directory = local_directory(url, host=command.host_directories, cut=command.cut_dirs)
        if self.name is not None:
            by_url = command.host_directories or command.cut_dirs is not None
            name = self.name.rpartition("/")[2] if by_url else self.name
        name = name or local_file_name(url)
        return os.path.join(directory, name) if directory else name

    @property
    def host_and_scheme(self) -> tuple[str, str]:
        """Return the host (see `host_key`) and the scheme, or two empty texts if the URL is not valid."""
        try:
            url = self.parsed_url or parse(self.url, origin=self.origin)
        except InvalidUrl:
            return "", ""
        return host_key(url), url.scheme

    def parse(self, command: Command) -> Url:
        """Parse the URL.

        `--search`, `--view` and `--type` are applied as the scheme defines.

        Raises:
            InvalidUrl: the URL is not valid.
            NotConfigured: an option does not apply to the scheme or to this URL (exit status 2).
        """
        if self.parsed_url is not None:
            return self.parsed_url
        url = parse(self.url, strict=command.strict, origin=self.origin)
        registry.check_tls(url, command.tls)
        options = command.url_options
        scheme = registry.find(url.scheme) if options else None
        for name, value in options:
            refine = None if scheme is None else scheme.refine.get(name)
            if refine is None:
                raise NotConfigured(f"--{name} does not apply to {url.scheme} URLs", url=url.shown)
            url = parse(build(refine(url, value)), origin=self.origin)
        return url


def targets(
    command: Command, report: Callable[[ResolveError], None], fetched: Mapping[str, FetchedList] = _NO_LISTS
) -> Iterator[CommandTarget]:
    """Yield all targets in order.

    Args:
        command: the options.
        report: called with an error for each invalid line, which is skipped.
        fetched: the content of lists that are URLs.

    Raises:
        LocalError: a list cannot be read.
        NotConfigured: more than one URL for a single output file.
    """
    urls = (_convert_iri(target, command) for target in _targets(command, report, fetched))
    if command.verb != "get" or command.output in ("-", None):
        return urls
    return _require_one(urls, command.output)


def reread_targets(command: Command, fetched: Mapping[str, FetchedList]) -> Iterator[CommandTarget]:
    """Yield the targets of `targets` a second time, without reports of errors."""
    with suppress(LocalError):  # the first read of the lists has reported the error
        yield from _targets(command, lambda error: None, fetched)


def _convert_iri(target: CommandTarget, command: Command) -> CommandTarget:
    """Convert a typed IRI to a URL (RFC 3987) and report the conversion, except for the command `parse`."""
    if target.url.isascii() or target.origin != "user" or command.strict or command.verb == "parse":
        return target
    try:
        url = convert_iri(target.url)
        parse(url, origin=target.origin)
    except InvalidUrl:  # the command reports the error later, for the text as typed
        return target
    if not command.is_quiet:
        streams.complain(Masked(f"{redact(target.url)}: requested as {redact(url)}"))
    return target._replace(url=url)


def _require_one(targets: Iterator[CommandTarget], file: str) -> Iterator[CommandTarget]:
    for number, target in enumerate(targets):
        if number:
            raise NotConfigured("-O FILE: expected one URL (for several use -d DIR)")
        yield target._replace(path=file)


class TargetNaming:
    """The file names of the targets.

    Names are reserved in list order, before any target is retrieved. If the ledger has a name for a target,
    the target gets this name again. With `--allow-server-name`, servers may suggest the same name for two
    targets. The target that reserves the name first gets the name.
    """

    def __init__(self, command: Command, ledger: Ledger | None) -> None:
        # lazy import: only saved targets have names
        from resolver.transfer.naming import NameReservation, NameReservations

        self._command = command
        self._ledger = ledger
        self._can_rename = command.exists == "rename"
        is_one_file = not (command.allow_server_name or command.recursive or command.glob)
        self._is_by_url = is_one_file and command.follow is None
        self._names = NameReservations(self._can_reserve if self._can_rename else None)
        self._make_reservation = partial(NameReservation, self._names)
        self._number = 0

    def _can_reserve(self, path: str, url: str) -> bool:
        from resolver.files.names import is_free  # lazy import: it takes 7 ms

        path = os.path.join(self._command.attachments or self._command.directory or "", path)
        is_recorded = self._ledger is not None and self._ledger.has(url, os.path.abspath(path))
        return is_recorded or is_free(path, url)

    @property
    def naming_rule(self) -> str | None:
        """Return the naming scheme of the files as text, which the ledger stores.

        Returns None if the names also depend on the server or on existing files. Otherwise, the names depend
        only on the options and the order of the URLs.
        """
        command = self._command
        if self._can_rename or command.url_options or not self._is_by_url:
            return None
        host = "host " if command.host_directories else ""
        return f"{host}{'' if command.cut_dirs is None else command.cut_dirs}"

    def reserve_again(self, paths: Sequence[str]) -> list[bool]:
        """Reserve names from the ledger; return for each name whether the name was available."""
        results = self._names.reserve_again(paths)
        self._number += sum(results)
        return results

    def name(self, target: CommandTarget) -> CommandTarget:
        self._number += 1
        reservation, url, path = self._make_reservation(self._number), None, ""
        if self._is_by_url:
            with suppress(ResolveError):  # the retrieval reports the error
                url = target.parse(self._command)
                path = reservation.take(target.find_path(url, self._command), url.shown)
        return target._replace(reservation=reservation, parsed_url=url, path=path)


def _targets(
    command: Command, report: Callable[[ResolveError], None], fetched: Mapping[str, FetchedList]
) -> Iterator[CommandTarget]:
    referrer = None if command.referrer is None else (redact(command.referrer), None)
    for url in command.urls:
        yield CommandTarget(url, command.origin, referrer)
    if command.extracts is not None:
        from resolver.cli.lists import list_archived_urls  # lazy import: few runs extract an archive

        for url in list_archived_urls(command.extracts, command.at, report, quiet=command.is_quiet):
            yield CommandTarget(url, command.origin, referrer)
    if not command.lists:
        return
    from resolver.cli import lists  # lazy import: few command lines have a list

    for source in lists.open_lists(command, fetched):
        for label, item in lists.read_items(source, report):
            try:
                target = _line(item, label, source) if isinstance(item, str) else _file(item, source, command)
            except LocalError as error:
                report(error)
                continue
            if target is not None:
                yield target


def _file(item: ListedFile, source: ListSource, command: Command) -> CommandTarget:
    """Return the target of a list item with metadata, such as mirrors or a checksum.

    Mirrors that the policy refuses are removed, so that no retry is spent on them. If the policy refuses all
    mirrors, the retrieval reports the error of the first mirror.
    """
    from resolver.cli.lists import select_mirrors

    urls, findings = select_mirrors(item.urls, source, command)
    return CommandTarget(
        urls[0],
        source.origin,
        source.referrer,
        name=item.name,
        mirrors=urls[1:],
        checksum=item.checksum,
        size=item.size,
        findings=(*item.findings, *findings),
    )


def _line(line: str, label: str, source: ListSource) -> CommandTarget | None:
    """Return the target of a list line, or None for a record whose `url` is null.

    For example, `ls --json` writes such a record for a line of text in a Gopher menu.
    """
    if not line.startswith("{"):
        return CommandTarget(line, source.origin, source.referrer)
    import json  # lazy import: most lists are plain lines

    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LocalError(f"{label}: not a JSON object: {error}") from error
    if "url" in record and record["url"] is None:
        return None
    url = record.get("url")
    if not isinstance(url, str):
        raise LocalError(f"{label}: expected a JSON object with a string member url")
    origin = record.get("origin")
    origin = source.origin if origin is None else origin
    if origin not in _ORIGINS:
        raise LocalError(f"{label}: origin must be user, chosen or derived, got {origin!r}")
    referrer = _referrer(record.get("referrer"), label) or source.referrer
    target = CommandTarget(url, cast("Origin", origin), referrer)
    if source.fetched:  # a fetched list is untrusted, so the origin and the referrer in its lines are ignored
        target = CommandTarget(url, source.origin, source.referrer)
    return target if record.get("listed") is None else _add_metadata(target, record["listed"], label)


def _add_metadata(target: CommandTarget, value: object, label: str) -> CommandTarget:
    """Add the metadata in the member `listed` of a record, which an earlier run wrote with `--failed`."""
    from resolver.transfer.verification import Checksum
    from resolver.trees.lists import BadItem, safe_path, split_name

    match value:
        case {
            "name": (str() | None) as name,
            "mirrors": [*mirrors],
            "checksum": (str() | None) as digest,
            "size": (int() | None) as size,
        } if all(isinstance(url, str) for url in mirrors):
            try:
                checksum = None if digest is None else Checksum.parse(digest)
                path = None if name is None else safe_path(split_name(name))
            except (ValueError, BadItem) as error:
                raise LocalError(f"{label}: {error}") from error
            return target._replace(name=path, mirrors=tuple(mirrors), checksum=checksum, size=size)
    raise LocalError(f"{label}: listed must have name, mirrors, checksum and size, as written by --failed")


def _referrer(value: object, label: str) -> tuple[str, str | None] | None:
    match value:
        case None:
            return None
        case str(url) | [str(url)]:
            return (redact(url), None)
        case [str(url), (str() | None) as address]:
            return (redact(url), address)
    raise LocalError(f"{label}: referrer must be a URL or [URL, address]")
