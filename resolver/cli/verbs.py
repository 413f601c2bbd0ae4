"""One function a verb: what it does with one URL. Each returns, or raises what went wrong."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import trio

from protocols.contract import Finding, JsonValue, Url
from protocols.errors import Refused, ResolveError
from protocols.instant import instant
from resolver.cli import outcome, streams
from resolver.cli.arguments import Command
from resolver.cli.output import Lines, Output, put
from resolver.cli.targets import Target
from resolver.clock import Clock
from resolver.naming import local_file_name
from resolver.plan import opens_anything
from resolver.session import Resolver

Verb: TypeAlias = Callable[[Resolver, Target, Command], Awaitable[None]]


async def get(session: Resolver, target: Target, command: Command) -> None:
    """Save the object under its own name, or where `-O` says; one outcome."""
    if command.output == "-":
        return await cat(session, target, command)
    started = trio.current_time()
    try:
        url = target.parsed(command)
        saved = await session.save(
            url,
            await _path(session, url, target, command),
            exists=command.exists,
            make_directory=command.directory is not None,
            digest=command.json,
            checksum=command.found.checksum,
            mirrors=command.found.mirrors,
            origin=target.origin,
            referrer=target.referrer,
        )
    except ResolveError as error:
        if command.json:
            await _show(outcome.failed(error, target, trio.current_time() - started, command, session.policy))
        raise
    _tell_oddities(saved.requested_url, saved.findings, command)
    if command.json:
        await _show(outcome.done(saved, url.scheme))
    elif not command.quiet:
        streams.complain(f"{saved.requested_url} -> {saved.path} ({saved.bytes} octets)")


async def _path(session: Resolver, url: Url, target: Target, command: Command) -> str:
    folder = command.directory or ""
    if command.output is not None:
        return os.path.join(folder, command.output)
    name = await session.server_name(url, origin=target.origin, referrer=target.referrer)
    return os.path.join(folder, _own_name(url) if name is None else name)


def _own_name(url: Url) -> str:
    try:
        return local_file_name(url)
    except Refused:
        if opens_anything(url):
            raise
        return "link"  # what is no object at all is refused for that (S10), not for its name


async def cat(session: Resolver, target: Target, command: Command) -> None:
    """The body to standard output; what is a listing, as its lines; the target of a link."""
    started = trio.current_time()
    output = Output(hashed=command.json, checksum=command.found.checksum, raw=session.policy.allow_raw)
    try:
        url = target.parsed(command)
        carrier = session.carrier(url, output, output.take, origin=target.origin, referrer=target.referrer)
        reply = await carrier.carry(Clock(session.limits.total))
        saved = output.saved(reply, carrier)
    except ResolveError as error:
        if command.json:
            streams.note_record(
                outcome.failed(error, target, trio.current_time() - started, command, session.policy)
            )
        raise
    if command.json:
        streams.note_record(outcome.done(saved, url.scheme))
    _tell_oddities(saved.requested_url, saved.findings, command)


async def ls(session: Resolver, target: Target, command: Command) -> None:
    """The entries of a listing, one a line, as they come."""
    url, raw = target.parsed(command), session.policy.allow_raw
    async with session.stream(url, origin=target.origin, referrer=target.referrer) as reply, Lines() as lines:
        if command.json:
            async for entry in reply.entries():
                await lines.add(streams.record_octets(entry.as_json()))
        else:
            async for octets in reply.lines():
                await lines.add(streams.lines_octets(octets, raw=raw))
        _tell_oddities(reply.requested_url, reply.findings, command)


async def info(session: Resolver, target: Target, command: Command) -> None:
    """What the URL names; the body stays where it is."""
    entry = await session.info(target.parsed(command), origin=target.origin, referrer=target.referrer)
    if command.json:
        return await _show(entry.as_json())
    facts: dict[str, JsonValue] = {
        "url": entry.url,
        "kind": entry.kind.value,
        "size": entry.size,
        "modified": instant(entry.modified),
        **({} if entry.title is None else {"title": entry.title}),
        **(entry.extra or {}),
    }
    raw = session.policy.allow_raw
    lines = (f"{name}: {'-' if value is None else value}" for name, value in facts.items())
    await put(b"".join(streams.line_octets(line, raw=raw) for line in lines))


async def _show(record: dict[str, JsonValue]) -> None:
    await put(streams.record_octets(record))


def _tell_oddities(url: str, findings: tuple[Finding, ...], command: Command) -> None:
    """What was odd about the reply: rules are told when they fire, a URL's spelling on request."""
    if command.quiet:
        return
    for finding in findings:
        if ":" in finding.rule:
            streams.complain(f"{url}: {finding.rule}: {finding.detail}")


VERBS: dict[str, Verb] = {"get": get, "cat": cat, "ls": ls, "info": info}
