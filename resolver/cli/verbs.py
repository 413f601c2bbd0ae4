"""The functions of the commands that retrieve URLs.

Each function processes one URL, and raises the error of a failed retrieval.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import trio

from protocols.contract import Entry, Finding, JsonValue, Url
from protocols.errors import NotFound, Refused, ResolveError
from protocols.location import mask_cookie
from protocols.text import Masked, instant, own_text
from resolver.cli import messages, streams, summary
from resolver.cli.arguments import Command
from resolver.cli.facts import fact_lines
from resolver.cli.listing import show
from resolver.cli.output import (
    BodyOutput,
    Output,
    StandardOutput,
    check_no_copy,
    check_no_directory,
    is_device,
    open_device,
    print_bytes,
)
from resolver.cli.targets import CommandTarget
from resolver.network.clock import Clock
from resolver.transfer.naming import may_be_index
from resolver.transfer.response import Saved
from resolver.transfer.session import Resolver, describe_entry
from resolver.transfer.streaming import StreamingResponse
from resolver.url.parsing import parse

if TYPE_CHECKING:
    from resolver.policy.settings import Policy
    from resolver.transfer.saving import SaveSettings
    from resolver.transfer.verification import Checksum
    from resolver.trees.walk import TreeDirectory

#: The timeout in seconds for writing the last record after a cancellation. A reader that is not blocked needs
#: less time.
_RECORD_TIMEOUT = 1.0

Record: TypeAlias = Callable[[dict[str, JsonValue]], Awaitable[None]]
Verb: TypeAlias = Callable[[Resolver, CommandTarget, Command], Awaitable[Saved | None]]


async def get(session: Resolver, target: CommandTarget, command: Command) -> Saved | None:
    """Save a resource under the name of its URL or of `-O`, and report the outcome.

    Returns None for a directory of a tree.
    """
    if command.attachments is not None:
        return await _get_attachments(session, target, command, command.attachments)
    if command.output == "-":
        return await cat(session, target, command)
    if command.output is not None and is_device(_resolve_path(command.output, command)):
        return await _get_to_device(_resolve_path(command.output, command), session, target, command)
    started = trio.current_time() if command.json else 0.0
    try:
        saved = await (
            _save(session, target, command) if target.file is None else _save_below(target, command)
        )
    except ResolveError as error:
        if command.json:
            await _print(summary.make_failed_record(error, target, started, command, session.policy))
        raise
    if saved is None:  # the URL is a directory; each of its files is a separate task
        return None
    if target.findings or saved.findings:
        saved = _with_findings(saved, target)
        _report_findings(saved.requested_url, saved.findings, command)
    if command.json:
        dry_run = command.dry_run
        with _shield_last_record():
            await _print(summary.make_done_record(saved, target.host_and_scheme[1], dry_run=dry_run))
    else:
        _report_saved(saved, command)
    return saved


async def _get_attachments(
    session: Resolver, target: CommandTarget, command: Command, directory: str
) -> Saved:
    """Save the attachments of an article, report an outcome for each, and then raise the first error."""
    reservation = target.reservation
    assert reservation is not None
    started = trio.current_time()

    def reserve(name: str, url: str) -> str:
        path = reservation.names.reserve(name, url)
        command.own_files.check(os.path.join(directory, path))
        return path

    try:
        saver = session.attachment_saver(
            target.parse(command),
            directory,
            parts=command.parts,
            exists=command.exists,
            digest=command.json,
            origin=target.origin,
            referrer=target.referrer,
            reserve=reserve,
        )
        results = await saver.run()
    except ResolveError as error:
        results = [error]
    saved = [result for result in results if isinstance(result, Saved)]
    errors = [result for result in results if isinstance(result, ResolveError)]
    with _shield_last_record():
        for result in results:
            if isinstance(result, Saved):
                _report_findings(result.requested_url, result.findings if result is saved[0] else (), command)
                if command.json:
                    await _print(summary.make_done_record(result, parse(result.requested_url).scheme))
                else:
                    _report_saved(result, command)
            elif command.json:
                await _print(summary.make_failed_record(result, target, started, command, session.policy))
    for other in errors[1:]:  # the run reports the first error
        if not command.is_silent:
            streams.complain(*messages.describe(other, target.url))
    if errors:
        raise errors[0]
    return replace(saved[0], bytes=sum(result.bytes for result in saved if not result.skipped))


def _shield_last_record() -> AbstractContextManager[object]:
    """Return a context manager in which the last record can be written even after a cancellation.

    Otherwise, the record of a saved file is lost if the run is cancelled while the file is written to the
    disk.
    """
    if trio.current_effective_deadline() > float("-inf"):
        return nullcontext()
    return trio.move_on_after(_RECORD_TIMEOUT, shield=True)


async def _save(session: Resolver, target: CommandTarget, command: Command) -> Saved:
    if command.format is not None:
        return await _save_mailbox(session, target, command)
    url = target.parse(command)
    path = await _choose_path(session, url, target, command)
    command.own_files.check(path)
    settings: SaveSettings = {
        **_save_settings(target, command),
        "make_directory": command.directory is not None or (command.output is None and "/" in path),
        "mirrors": (*target.mirrors, *command.mirrors),
        "listings": command.output is not None,
    }
    return await session.save(url, path, **settings)


def _save_settings(target: CommandTarget, command: Command) -> SaveSettings:
    """Return the arguments of `save` for a single URL or for a file of a tree."""
    return {
        "exists": command.exists,
        "digest": command.json or command.ledger is not None,
        "checksum": _checksum(target, command),
        "size": target.size,
        "meta": command.meta,
        "dry_run": command.dry_run,
        "origin": target.origin,
        "referrer": target.referrer,
    }


async def _save_mailbox(session: Resolver, target: CommandTarget, command: Command) -> Saved:
    """Save a newsgroup's articles in a mailbox (mbox or Maildir); after an error, earlier articles stay."""
    # lazy import: only `-r --format` needs a mailbox, and `resolver.trees` loads many modules
    from resolver.files.mailbox import Maildir, Mbox
    from resolver.trees.saving import GroupMailbox, format_source

    url = target.parse(command)
    is_file = command.format == "mbox"
    name = command.output
    if name is None:
        name = target.reserve(url, command, suffix=".mbox" if is_file else "")
    path = os.path.join(command.directory or "", name)
    command.own_files.check(path)
    source = format_source(url)
    box = Mbox(path, source, make_directory="/" in path) if is_file else Maildir(path, source)
    return await GroupMailbox(session, url, box, path, target.origin, target.referrer).run()


async def _save_below(target: CommandTarget, command: Command) -> Saved | None:
    """Save a file of a tree at its path, or return None if the file is a directory."""
    assert target.file is not None
    file = target.file
    settings: SaveSettings = {
        **_save_settings(target, command),
        "make_directory": True,
        "mirrors": target.mirrors,
        "listings": False,
        "listed": file.listed,
    }

    def save() -> Awaitable[Saved]:
        command.own_files.check(file.path)
        return file.session.save(file.url, file.path, **settings)

    return await file.fetch(save)


async def list_directory(
    directory: TreeDirectory, target: CommandTarget, command: Command, policy: Policy
) -> Saved | None:
    """List a directory of a tree, and return None, or the outcome of a skipped directory."""
    from resolver.trees.listing import ListedDirectory  # lazy: trees are many modules

    started = trio.current_time()
    try:
        listed = await directory.run()
        if command.glob and isinstance(listed, ListedDirectory) and not listed.entries:
            pattern = directory.selection.accept[0]
            raise NotFound(f"no file in the listing matches {pattern!r}", url=directory.url.shown)
    except ResolveError as error:
        if command.json:
            await _print(summary.make_failed_record(error, target, started, command, policy))
        raise
    if listed is not None:
        _report_findings(listed.url, listed.findings, command)
    if not isinstance(listed, Saved):
        return None
    if command.json:
        await _print(summary.make_done_record(listed, directory.scheme))
    return listed


def _checksum(target: CommandTarget, command: Command) -> Checksum | None:
    """Return the expected checksum: `--checksum` overrides the list, except `--checksum auto`."""
    option: Checksum | None = command.checksum
    return target.checksum if option is None or (option.algorithm == "auto" and target.checksum) else option


def _with_findings(saved: Saved, target: CommandTarget) -> Saved:
    return replace(saved, findings=(*target.findings, *saved.findings)) if target.findings else saved


async def _choose_path(session: Resolver, url: Url, target: CommandTarget, command: Command) -> str:
    if command.output is not None:
        path = _resolve_path(command.output, command)
        check_no_directory(path, command.output)
        return path
    if target.path and not may_be_index(target.path):  # the server cannot change the reserved path
        return _resolve_path(target.path, command)
    name, suffix = None, ""
    if target.name is None:
        name = await session.server_name(url, origin=target.origin, referrer=target.referrer)
    if target.name is None and name is None and may_be_index(target.path):
        suffix = await session.index_suffix(url, origin=target.origin, referrer=target.referrer)
    return _resolve_path(_reserve(url, name, suffix, target, command), command)


def _resolve_path(path: str, command: Command) -> str:
    """Return the path relative to the directory of `-d`."""
    return os.path.join(command.directory or "", path)


def _reserve(url: Url, name: str | None, suffix: str, target: CommandTarget, command: Command) -> str:
    try:
        return target.reserve(url, command, name, suffix)
    except Refused:
        from resolver.transfer.plan import opens_anything  # lazy import: refusals are rare

        if opens_anything(url) or target.reservation is None:
            raise
    # A URL without a retrievable object does not have a file name either. With the generated name, the user
    # gets the error of rule S10, and not an error about a missing name.
    return target.reserve(url, command, f"link-{target.reservation.number}")


def _report_saved(saved: Saved, command: Command) -> None:
    if command.is_quiet or saved.path is None:  # without a path, a finding reports the skipped target
        return
    outcome = messages.describe_saved(saved)
    if command.dry_run:
        outcome = Masked("would be kept" if saved.skipped else "would be saved")
    streams.complain(Masked(f"{saved.requested_url} -> {own_text(saved.path)} ({outcome})"))


async def _get_to_device(path: str, session: Resolver, target: CommandTarget, command: Command) -> Saved:
    async with open_device(path) as device:
        saved = await _write_body(session, target, command, _print, device)
    saved = replace(saved, path=path)
    if command.json:
        await _print(summary.make_done_record(saved, target.parse(command).scheme))
    else:
        _report_saved(saved, command)
    return saved


async def cat(session: Resolver, target: CommandTarget, command: Command) -> Saved | None:
    """Write the body to standard output: a listing as lines, and a link as the URL of its target."""
    if command.during is not None or command.until is not None:
        from resolver.cli.hints import advise_login  # lazy import: few runs record a session

        advise_login(target.parse(command), quiet=command.is_quiet)
    with StandardOutput() as output:
        saved = await _write_body(session, target, command, _note, output)
    if command.json:
        await _note(summary.make_done_record(saved, target.parse(command).scheme))
    return saved


async def _write_body(
    session: Resolver, target: CommandTarget, command: Command, report: Record, outlet: BodyOutput
) -> Saved:
    """Write the body to `outlet`, where written bytes are final; `report` gets the record of a failure."""
    started = trio.current_time()
    raw = session.policy.allow_raw
    output = Output(hashed=command.json, checksum=_checksum(target, command), raw=raw, outlet=outlet)
    try:
        url = target.parse(command)
        if isinstance(outlet, StandardOutput) and session.archive is None:
            check_no_copy(url)
        retrier = session.retrier(url, output, output.write, origin=target.origin, referrer=target.referrer)
        reply = await retrier.retry(Clock(session.limits_of(url).total))
        if target.size is not None:
            from resolver.transfer.verification import check_size  # lazy import: only lists have sizes

            check_size(output.position, target.size, url.shown)
        saved = _with_findings(output.make_saved(reply, retrier), target)
    except ResolveError as error:
        if command.json:
            await report(summary.make_failed_record(error, target, started, command, session.policy))
        raise
    _report_findings(saved.requested_url, saved.findings, command)
    return saved


async def _note(record: dict[str, JsonValue]) -> None:
    streams.note_record(record)


async def ls(session: Resolver, target: CommandTarget, command: Command) -> None:
    """Print the entries of a listing, one per line, as they arrive."""
    async with _record_failures(target, command):
        url = target.parse(command)
        async with session.listing(url, origin=target.origin, referrer=target.referrer) as reply:
            try:
                await show(reply, command, session)
            except ResolveError:
                _report_listing_reasons(reply, command)
                raise
            _report_findings(reply.requested_url, reply.findings, command)


async def info(session: Resolver, target: CommandTarget, command: Command) -> None:
    """Print the metadata of the URL's resource, without its body."""
    async with _record_failures(target, command):
        url = target.parse(command)
        async with session.facts(url, origin=target.origin, referrer=target.referrer) as reply:
            entry = describe_entry(url, reply, target.origin, target.referrer)
            if command.json:
                return await _print(entry.as_json())
            facts = {**_basic_facts(entry), **(_collect_more_facts(reply) if command.verbose else {})}
            raw = session.policy.allow_raw
            await print_bytes(b"".join(streams.line_octets(line, raw=raw) for line in fact_lines(facts)))


async def open_(session: Resolver, target: CommandTarget, command: Command) -> None:
    from resolver.cli.open import perform  # lazy import: few runs are interactive

    async with _record_failures(target, command):
        url = target.parse(command)
        _report_findings(url.shown, await perform(session, url, target, command), command)


def _basic_facts(entry: Entry) -> dict[str, JsonValue]:
    return {
        "url": entry.url,
        "kind": entry.kind.value,
        "size": entry.size,
        "modified": instant(entry.modified),
        **({} if entry.title is None else {"title": entry.title}),
        **(entry.extra or {}),
    }


def _collect_more_facts(reply: StreamingResponse) -> dict[str, JsonValue]:
    """Return the additional metadata for `-v`: charset, ETag, peer, redirects, and the response headers."""
    headers: dict[str, list[JsonValue]] = {}
    for name, value in reply.meta:
        headers.setdefault(f"header.{name}", []).append(mask_cookie(name, value))
    return {
        "charset": reply.charset,
        "etag": reply.etag,
        "peer": reply.peer,
        "chain": list(reply.chain),
        **headers,
    }


@asynccontextmanager
async def _record_failures(target: CommandTarget, command: Command) -> AsyncIterator[None]:
    """If the block fails, print a record (with `--json`) and raise the error again."""
    try:
        yield
    except ResolveError as error:
        if command.json:
            await _print(summary.make_unknown_record(error, target))
        raise


async def _print(record: dict[str, JsonValue]) -> None:
    await print_bytes(streams.record_octets(record))


def _report_listing_reasons(reply: StreamingResponse, command: Command) -> None:
    """With `-v`, print the reasons why the body was not parsed as a listing."""
    for finding in reply.findings if command.verbose else ():
        if finding.action == "allow" and ":" in finding.rule:
            streams.note(Masked(f"*: {finding.words}"))


def _report_findings(url: Masked, findings: tuple[Finding, ...], command: Command) -> None:
    """Print the findings about irregularities of the response, unless the command is quiet.

    The `rule` of such a finding contains a colon. Findings about the policy or the URL syntax are not
    printed.
    """
    if command.is_quiet:
        return
    for finding in findings:
        if ":" in finding.rule:
            streams.complain(Masked(f"{url}: {finding.words}"))


VERBS: dict[str, Verb] = {"get": get, "cat": cat, "ls": ls, "info": info, "open": open_}
