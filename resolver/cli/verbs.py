"""One function a verb: what it does with one URL. Each returns, or raises what went wrong."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import trio

from protocols.contract import Entry, Finding, JsonValue, Url
from protocols.errors import Refused, ResolveError
from protocols.location import mask_cookie
from protocols.text import instant
from resolver.cli import messages, streams
from resolver.cli import summary as outcome
from resolver.cli.arguments import Command
from resolver.cli.facts import fact_lines
from resolver.cli.hints import advise
from resolver.cli.listing import show
from resolver.cli.output import (
    BodyOutput,
    Output,
    StandardOutput,
    check_no_directory,
    is_device,
    open_device,
    put,
)
from resolver.cli.targets import CommandTarget
from resolver.network.clock import Clock
from resolver.transfer.response import Saved
from resolver.transfer.session import Resolver, describe_entry
from resolver.transfer.streaming import StreamingResponse
from resolver.transfer.verification import check_size
from resolver.url.parsing import parse

if TYPE_CHECKING:
    from resolver.policy.settings import Policy
    from resolver.transfer.saving import SaveSettings
    from resolver.transfer.verification import Checksum
    from resolver.trees.walk import TreeDirectory

#: Seconds that the end of a run waits for a reader of what is saved: one that reads at all needs no more.
_MOMENT = 1.0

Record: TypeAlias = Callable[[dict[str, JsonValue]], Awaitable[None]]
Verb: TypeAlias = Callable[[Resolver, CommandTarget, Command], Awaitable[Saved | None]]


async def get(session: Resolver, target: CommandTarget, command: Command) -> Saved | None:
    """Save the object under its own name, or where `-O` says; one outcome."""
    if command.output == "-":
        return await cat(session, target, command)
    if command.output is not None and is_device(_resolve_path(command.output, command)):
        return await _get_into(_resolve_path(command.output, command), session, target, command)
    started = trio.current_time()
    try:
        saved = await (
            _save(session, target, command) if target.file is None else _save_below(target, command)
        )
    except ResolveError as error:
        if command.json:
            await _show(
                outcome.make_failed_record(
                    error, target, trio.current_time() - started, command, session.policy
                )
            )
        raise
    if saved is None:  # it is a directory, and what is in it comes
        return None
    saved = _with_findings(saved, target)
    _report_oddities(saved.requested_url, saved.findings, command)
    if command.json:
        dry_run = command.dry_run
        with _last_words():
            await _show(outcome.make_done_record(saved, parse(saved.requested_url).scheme, dry_run=dry_run))
    else:
        _report_saved(saved, command)
    return saved


def _last_words() -> AbstractContextManager[object]:
    """Where the end of the run has come while the disk was waited for, a reader has a moment to take what is
    told inside."""
    if trio.current_effective_deadline() > float("-inf"):
        return nullcontext()
    return trio.move_on_after(_MOMENT, shield=True)


async def _save(session: Resolver, target: CommandTarget, command: Command) -> Saved:
    if command.format is not None:
        return await _gather(session, target, command)
    url = target.parsed(command)
    path = await _path(session, url, target, command)
    wanted: SaveSettings = {
        **_save_settings(target, command),
        "make_directory": command.directory is not None or (command.output is None and "/" in path),
        "mirrors": (*target.mirrors, *command.mirrors),
        "listings": command.output is not None,
        "origin": target.origin,
        "referrer": target.referrer,
    }
    return await session.save(url, path, **wanted)


def _save_settings(target: CommandTarget, command: Command) -> SaveSettings:
    """Return the keywords of `save` that a URL and a file of a tree have in common."""
    return {
        "exists": command.exists,
        "digest": command.json or command.ledger is not None,
        "checksum": _checksum(target, command),
        "size": target.size,
        "meta": command.meta,
        "dry_run": command.dry_run,
    }


async def _gather(session: Resolver, target: CommandTarget, command: Command) -> Saved:
    """Save the articles of a group as messages of a mailbox.

    Raises `ResolveError`; the articles that came before are there.
    """
    from resolver.files.mailbox import Maildir, Mbox  # for `-r --format` alone, and trees are many modules
    from resolver.trees.saving import GroupMailbox, source_of

    url = target.parsed(command)
    is_file = command.format == "mbox"
    name = command.output
    if name is None:
        name = target.reserve(url, command, suffix=".mbox" if is_file else "")
    path = os.path.join(command.directory or "", name)
    source = source_of(url)
    box = Mbox(path, source, make_directory="/" in path) if is_file else Maildir(path, source)
    return await GroupMailbox(session, url, box, path, target.origin, target.referrer).run()


async def _save_below(target: CommandTarget, command: Command) -> Saved | None:
    """A file of a tree, where the walk has it. None where it is a directory."""
    assert target.file is not None
    file = target.file
    wanted: SaveSettings = {
        **_save_settings(target, command),
        "make_directory": True,
        "mirrors": target.mirrors,
        "listings": False,
        "listed": file.listed,
        "origin": file.origin,
        "referrer": file.referrer,
    }
    return await file.fetch(lambda: file.session.save(file.url, file.path, **wanted))


async def enter(
    directory: TreeDirectory, target: CommandTarget, command: Command, policy: Policy
) -> Saved | None:
    """List a directory of a tree. Only what goes wrong has an outcome, and what is left alone."""
    started = trio.current_time()
    try:
        listed = await directory.run()
    except ResolveError as error:
        if command.json:
            await _show(
                outcome.make_failed_record(error, target, trio.current_time() - started, command, policy)
            )
        raise
    if listed is not None:
        _report_oddities(listed.url, listed.findings, command)
    if not isinstance(listed, Saved):
        return None
    if command.json:
        await _show(outcome.make_done_record(listed, directory.scheme))
    return listed


def _checksum(target: CommandTarget, command: Command) -> Checksum | None:
    """What the person says of the file, else what a list says of it, else what its own place does."""
    told: Checksum | None = command.checksum
    return target.checksum if told is None or (told.algorithm == "auto" and target.checksum) else told


def _with_findings(saved: Saved, target: CommandTarget) -> Saved:
    return replace(saved, findings=(*target.findings, *saved.findings)) if target.findings else saved


async def _path(session: Resolver, url: Url, target: CommandTarget, command: Command) -> str:
    if command.output is not None:
        path = _resolve_path(command.output, command)
        check_no_directory(path, command.output)
        return path
    name, suffix = None, ""
    if target.name is None:
        name = await session.server_name(url, origin=target.origin, referrer=target.referrer)
    if target.name is None and name is None:
        suffix = await session.index_suffix(url, origin=target.origin, referrer=target.referrer)
    return _resolve_path(_reserve(url, name, suffix, target, command), command)


def _resolve_path(path: str, command: Command) -> str:
    """Where that path leads, with `-d`."""
    return os.path.join(command.directory or "", path)


def _reserve(url: Url, name: str | None, suffix: str, target: CommandTarget, command: Command) -> str:
    try:
        return target.reserve(url, command, name, suffix)
    except Refused:
        from resolver.transfer.plan import opens_anything  # what is refused is rare

        if opens_anything(url) or target.claim is None:
            raise
    # What is no object at all is refused for that (S10), not for its name.
    return target.reserve(url, command, f"link-{target.claim.number}")


def _report_saved(saved: Saved, command: Command) -> None:
    if command.is_quiet or saved.path is None:  # what is left alone has a finding
        return
    way = messages.way_of(saved)
    if command.dry_run:
        way = "would be kept" if saved.skipped else "would be saved"
    streams.complain(f"{saved.requested_url} -> {saved.path} ({way})")


async def _get_into(path: str, session: Resolver, target: CommandTarget, command: Command) -> Saved:
    """Into a device or a pipe."""
    async with open_device(path) as device:
        saved = await _pour(session, target, command, _show, device)
    saved = replace(saved, path=path)
    if command.json:
        await _show(outcome.make_done_record(saved, target.parsed(command).scheme))
    else:
        _report_saved(saved, command)
    return saved


async def cat(session: Resolver, target: CommandTarget, command: Command) -> Saved | None:
    """The body to standard output; what is a listing, as its lines; the target of a link."""
    if command.during is not None or command.until is not None:
        advise(target.parsed(command), quiet=command.is_quiet)
    with StandardOutput() as output:
        saved = await _pour(session, target, command, _note, output)
    if command.json:
        await _note(outcome.make_done_record(saved, target.parsed(command).scheme))
    return saved


async def _pour(
    session: Resolver, target: CommandTarget, command: Command, tell: Record, outlet: BodyOutput
) -> Saved:
    """The object to where it cannot be taken back from. `tell` is told of a failure."""
    started = trio.current_time()
    raw = session.policy.allow_raw
    output = Output(hashed=command.json, checksum=_checksum(target, command), raw=raw, outlet=outlet)
    try:
        url = target.parsed(command)
        retrier = session.retrier(url, output, output.take, origin=target.origin, referrer=target.referrer)
        reply = await retrier.retry(Clock(session.limits_of(url).total))
        if target.size is not None:
            check_size(output.position, target.size, url.shown)
        saved = _with_findings(output.make_saved(reply, retrier), target)
    except ResolveError as error:
        if command.json:
            elapsed = trio.current_time() - started
            await tell(outcome.make_failed_record(error, target, elapsed, command, session.policy))
        raise
    _report_oddities(saved.requested_url, saved.findings, command)
    return saved


async def _note(record: dict[str, JsonValue]) -> None:
    streams.note_record(record)


async def ls(session: Resolver, target: CommandTarget, command: Command) -> None:
    """The entries of a listing, one a line, as they come."""
    async with _failures(target, command):
        url = target.parsed(command)
        async with session.listing(url, origin=target.origin, referrer=target.referrer) as reply:
            try:
                await show(reply, command, session)
            except ResolveError:
                _report_reasons(reply, command)
                raise
            _report_oddities(reply.requested_url, reply.findings, command)


async def info(session: Resolver, target: CommandTarget, command: Command) -> None:
    """What the URL names; the body stays where it is."""
    async with _failures(target, command):
        url = target.parsed(command)
        async with session.facts(url, origin=target.origin, referrer=target.referrer) as reply:
            entry = describe_entry(url, reply, target.origin, target.referrer)
            if command.json:
                return await _show(entry.as_json())
            facts = {**_facts(entry), **(_collect_more_facts(reply) if command.verbose else {})}
            raw = session.policy.allow_raw
            await put(b"".join(streams.line_octets(line, raw=raw) for line in fact_lines(facts)))


async def open_(session: Resolver, target: CommandTarget, command: Command) -> None:
    """A person sits at what the URL names."""
    from resolver.cli.open import perform  # few sit at anything

    async with _failures(target, command):
        url = target.parsed(command)
        _report_oddities(url.shown, await perform(session, url, target, command), command)


def _facts(entry: Entry) -> dict[str, JsonValue]:
    return {
        "url": entry.url,
        "kind": entry.kind.value,
        "size": entry.size,
        "modified": instant(entry.modified),
        **({} if entry.title is None else {"title": entry.title}),
        **(entry.extra or {}),
    }


def _collect_more_facts(reply: StreamingResponse) -> dict[str, JsonValue]:
    """What else is known, and what the peer said of it in its own words: a header has a line each time."""
    said: dict[str, list[JsonValue]] = {}
    for name, value in reply.meta:
        said.setdefault(f"header.{name}", []).append(mask_cookie(name, value))
    return {
        "charset": reply.charset,
        "etag": reply.etag,
        "peer": reply.peer,
        "chain": list(reply.chain),
        **{name: list(values) for name, values in said.items()},
    }


@asynccontextmanager
async def _failures(target: CommandTarget, command: Command) -> AsyncIterator[None]:
    """With `--json` what fails has a record, too."""
    try:
        yield
    except ResolveError as error:
        if command.json:
            await _show(outcome.make_unknown_record(error, target))
        raise


async def _show(record: dict[str, JsonValue]) -> None:
    await put(streams.record_octets(record))


def _report_reasons(reply: StreamingResponse, command: Command) -> None:
    """Why what might have been a listing is none, for who wants to know."""
    for finding in reply.findings if command.verbose else ():
        if finding.action == "allow" and ":" in finding.rule:
            streams.note(f"*: {finding.rule}: {finding.detail}")


def _report_oddities(url: str, findings: tuple[Finding, ...], command: Command) -> None:
    """What was odd about the reply: rules are told when they fire, a URL's spelling on request."""
    if command.is_quiet:
        return
    for finding in findings:
        if ":" in finding.rule:
            streams.complain(f"{url}: {finding.rule}: {finding.detail}")


VERBS: dict[str, Verb] = {"get": get, "cat": cat, "ls": ls, "info": info, "open": open_}
