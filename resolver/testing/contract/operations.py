"""The contract of the operations `fetch`, `stream`, `save`, `entries` and `info`, and of their plans."""

from __future__ import annotations

import hashlib
import json
import os
import traceback
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Protocol

import pytest

import resolver
from protocols.contract import Entry, Kind, Options
from protocols.errors import Declined, Refused, ResolveError
from protocols.location import JsonValue
from resolver.loops import running
from resolver.network.events import Connected, Event, Sent
from resolver.policy.settings import Policy
from resolver.testing.contract.case import (
    WAYS,
    CaseSetting,
    ContractCheck,
    accept_any,
    entries,
    has_listing,
    is_served,
    save,
    wait_until_settled,
)
from resolver.transfer.plan import Plan
from resolver.transfer.response import Response, Saved
from resolver.url import registry

# Rules that apply to all returned values.


class Value(Protocol):
    """A value with a JSON form."""

    def as_json(self) -> dict[str, JsonValue]: ...


def list_members(kind: type[object]) -> set[str]:
    """Return the names of the members of a dataclass or named tuple."""
    return set(getattr(kind, "__dataclass_fields__", getattr(kind, "_fields", ())))


def check_value(value: Value, names: set[str]) -> None:
    """Check that a value is frozen, and that its JSON form is complete and survives a round trip."""
    for name in list_members(type(value)):
        with pytest.raises((FrozenInstanceError, AttributeError)):
            setattr(value, name, None)
    record = value.as_json()
    assert set(record) == names
    assert json.loads(json.dumps(record)) == record


def planned_octets(plan: Plan) -> bytes:
    return "".join(str(step["octets"]) for step in plan.steps if step["action"] == "send").encode("latin-1")


def check_connects(plan: Plan, setting: CaseSetting, connected: list[Connected], accepted: int) -> None:
    """Check that the connections of the plan equal the actual connections.

    In a plan, port 0 means that the server chooses the port, as for FTP's data connection. TLS on the data
    connection starts after the transfer command, so the event of the data connection does not show TLS.
    """
    planned = [step for step in plan.steps if step["action"] == "connect"]
    assert accepted == sum(step["port"] != 0 for step in planned)
    case = setting.case
    for step in planned:
        secured = case.tls or (case.options.tls != "never" and step["port"] == 0)
        assert (step["host"], step["tls"]) == ("127.0.0.1", secured)
        assert step["port"] in (0, setting.port)
        row = registry.find(case.scheme)
        assert row is not None
        assert step["transport"] == row.transport
    tcp = [step for step in planned if step["transport"] == "tcp"]
    assert len(connected) == len(tcp)
    for step, event in zip(tcp, connected, strict=True):
        assert event.address == step["host"]
        assert (event.port == setting.port) == (step["port"] != 0)
        assert step["port"] == 0 or event.tls == step["tls"]


async def check_fetch(setting: CaseSetting, folder: Path) -> None:
    case, url = setting.case, setting.url(setting.case.document)
    async with setting.resolver() as session:
        response = await session.fetch(url)
    shown = resolver.parse(url).shown
    assert response.content == case.content
    assert (response.kind, response.url, response.requested_url) == (case.kind, shown, shown)
    assert (response.entries, response.chain) == (None, ())
    assert response.size in (None, len(case.content))
    assert response.text is None or response.text.encode() == case.content
    assert response.headers == response.meta
    assert response.peer == (None if setting.server is None else "127.0.0.1")
    check_value(response, RESPONSE)


#: The members of a response's JSON form, including `text`. The attribute `raw` is not a member, because `raw`
#: can be as large as the content.
RESPONSE = list_members(Response) - {"raw"} | {"text"}


async def check_stream(setting: CaseSetting, folder: Path) -> None:
    """Check two concurrent streams.

    A body that has ended yields no more bytes, and reading from a closed response raises an error.
    """
    case, url = setting.case, setting.url(setting.case.document)
    async with setting.resolver() as session:
        async with session.stream(url) as unread, session.stream(url) as reply:
            assert reply.kind is case.kind
            assert b"".join([octets async for octets in reply.body]) == case.content
            assert [octets async for octets in reply.body] == []
        for closed in (unread, reply):
            with pytest.raises(running().closed):
                await anext(closed.body)


async def check_save(setting: CaseSetting, folder: Path) -> None:
    """Check `save`, which writes a file or refuses to save a service.

    A service, such as telnet, has no content to save (S10).
    """
    case, url, path = setting.case, setting.url(setting.case.document), folder / "saved"
    async with setting.resolver() as session:
        if case.kind is Kind.SERVICE:
            with pytest.raises(Refused) as caught:
                await session.save(url, path)
            assert (caught.value.rule, caught.value.exit_code) == ("S10", 15)
            assert os.listdir(folder) == []
            return
        saved = await session.save(url, path, digest=True)
    assert path.read_bytes() == case.content
    assert os.listdir(folder) == ["saved"]
    assert (saved.path, saved.bytes, saved.resumed_from) == (str(path), len(case.content), 0)
    assert saved.digest == f"sha256:{hashlib.sha256(case.content).hexdigest()}"
    assert (saved.attempts, saved.skipped, saved.kind) == (1, False, case.kind)
    check_value(saved, list_members(Saved))


async def check_explain_and_check(setting: CaseSetting, folder: Path) -> None:
    """Check that `explain` and `check` open no connection and agree with each other."""
    url = setting.url(setting.case.document)
    before = setting.connections
    plan = resolver.explain(url, policy=setting.policy)
    verdict = resolver.check(url, policy=setting.policy)
    assert (plan.url, plan.scheme) == (resolver.parse(url).shown, setting.case.scheme)
    assert (plan.verdict, plan.error, verdict.error()) == (verdict.action, None, None)
    assert set(verdict.findings) <= set(plan.findings)
    assert {step["action"] for step in plan.steps} <= {"connect", "send", "receive", "open", "note"}
    assert setting.connections == before
    check_value(plan, list_members(Plan) - {"error"})


async def check_parse(setting: CaseSetting, folder: Path) -> None:
    """Check that the text of a parsed URL can be built again, and that no component is missing."""
    for template in (setting.case.document, setting.case.listing, setting.case.missing):
        if template is not None:
            parsed = resolver.parse(setting.url(template))
            assert resolver.parse(resolver.build(parsed)) == parsed
            assert parsed.components()["scheme"] == parsed.scheme == setting.case.scheme


async def check_entries(setting: CaseSetting, folder: Path) -> None:
    case, url = setting.case, setting.url(setting.case.listing)
    async with setting.resolver() as session:
        async with session.entries(url) as stream:
            listed = [entry async for entry in stream]
        response = await session.fetch(url)
    assert [entry.name for entry in listed if is_child(entry, setting)] == list(case.names)
    for entry in listed:
        assert (entry.origin, entry.referrer) == ("derived", (resolver.parse(url).shown, response.peer))
        assert entry.raw is not None
        check_value(entry, list_members(Entry))
    assert response.kind == case.listing_kind
    # The body may be another form of the listing with the same objects. For example, NLST of ftp lacks
    # metadata.
    assert [(entry.name, entry.url) for entry in response.entries or ()] == [
        (entry.name, entry.url) for entry in listed
    ]
    check_value(response, RESPONSE)


def is_child(entry: Entry, setting: CaseSetting) -> bool:
    """Return whether the entry is on the case's own server."""
    places = [f"//{setting.at}/"] if setting.at else [str(setting.folder)]
    if setting.case.by_setting:
        places.append(f"{setting.case.scheme}:")
    return entry.url is not None and any(place in entry.url for place in places)


async def check_children_of_a_listing(setting: CaseSetting, folder: Path) -> None:
    """Check that the URLs of a listing can be parsed, pass the policy as derived URLs, and can be fetched."""
    case = setting.case
    async with setting.resolver() as session:
        async with session.entries(setting.url(case.listing)) as stream:
            children = [entry async for entry in stream if is_child(entry, setting)]
        for child in children:
            assert child.url is not None
            assert resolver.parse(child.url).text == child.url
            origin, referrer = child.origin, child.referrer
            verdict = resolver.check(child.url, policy=setting.policy, origin=origin, referrer=referrer)
            assert verdict.action == "allow"
            try:
                response = await session.fetch(child.url, origin=origin, referrer=referrer)
            except Declined:
                assert child.name in case.barred
            else:
                assert child.name not in case.barred
                assert child.kind in (response.kind, Kind.UNKNOWN) or child.name in case.asking


async def check_no_entries(setting: CaseSetting, folder: Path) -> None:
    async with setting.resolver() as session:
        with pytest.raises(Declined) as caught:
            async with session.entries(setting.url(setting.case.document)):
                raise AssertionError("expected Declined: the URL has no entries")
    assert (caught.value.exit_code, caught.value.code) == (8, None)


async def check_missing(setting: CaseSetting, folder: Path) -> None:
    """Check that every operation on a missing object raises the same error, with URL and exit code."""
    url = setting.url(setting.case.missing)
    async with setting.resolver() as session:
        for way in WAYS.values():
            with pytest.raises(setting.case.error) as caught:
                await way(session, url, folder / "missing")
            assert (caught.value.url, caught.value.exit_code, caught.value.retryable) == (url, 8, False)
    assert os.listdir(folder) == []


async def check_no_password_is_shown(setting: CaseSetting, folder: Path) -> None:
    """Check that the password is sent to the server, but is not in values, events, errors or plans."""
    case, url = setting.case, setting.url(setting.case.login)
    events: list[Event] = []
    shown: list[object] = [resolver.parse(url), resolver.check(url)]
    for policy in (setting.policy, Policy.cautious()):
        plan = resolver.explain(url, policy=policy)
        shown += [plan, plan.as_json(), plan.error, str(plan.error)]
    async with setting.resolver(on_event=events.append) as session:
        response = await session.fetch(url)
        shown += [session, response, response.as_json(), await session.info(url)]
        for way in (save, entries):
            try:
                shown.append(await way(session, url, folder / "saved"))
            except ResolveError as error:
                shown += [error, error.url, traceback.format_exception(error)]
    assert case.secret not in "".join(map(repr, [*shown, *events]))
    assert setting.server is None or case.spoken in setting.heard()


#: The checks of operations, each with a function that selects its cases.
CHECKS: tuple[ContractCheck, ...] = (
    ContractCheck("fetch", check_fetch, accept_any),
    ContractCheck("stream", check_stream, accept_any),
    ContractCheck("save", check_save, accept_any),
    ContractCheck("explain and check", check_explain_and_check, accept_any),
    ContractCheck("parse", check_parse, accept_any),
    ContractCheck("entries", check_entries, has_listing),
    ContractCheck("children of a listing", check_children_of_a_listing, has_listing),
    ContractCheck("a document has no entries", check_no_entries, lambda case: case.listing is None),
    ContractCheck("a missing object", check_missing, lambda case: case.missing is not None),
    ContractCheck("no password is shown", check_no_password_is_shown, lambda case: case.login is not None),
)


# Comparison of a plan with the actual exchange: all bytes and all connections.


async def check_plan(setting: CaseSetting, folder: Path) -> None:
    """Check that the bytes that the server receives, and the connections, equal the plan."""
    for template in (setting.case.document, setting.case.listing, setting.case.login):
        if template is not None and template not in setting.case.otherwise:
            await compare(setting, setting.url(template))


async def compare(setting: CaseSetting, url: str) -> None:
    case, options, before = setting.case, setting.case.options, setting.connections
    events: list[Event] = []
    plan = resolver.explain(url, policy=setting.policy, news_server=setting.news_server, options=options)
    async with setting.resolver(options=options, on_event=events.append) as session:
        await session.fetch(url)
        await wait_until_settled()
        received = setting.heard(before)
        event_octets = b"".join(event.octets for event in events if isinstance(event, Sent))
    await wait_until_settled()
    planned = planned_octets(plan)
    for shown, actual in case.later:
        planned = planned.replace(shown, actual)
    assert received.replace(case.spoken, b"****") == planned
    assert setting.heard(before) == received + case.farewell
    if not case.drawn:
        assert event_octets == planned
    connected = [event for event in events if isinstance(event, Connected)]
    check_connects(plan, setting, connected, setting.connections - before)


async def check_facts_plan(setting: CaseSetting, folder: Path) -> None:
    url, facts = setting.url(setting.case.document), Options(want="facts")
    if setting.case.document in setting.case.otherwise:
        return
    plan = resolver.explain(url, policy=setting.policy, news_server=setting.news_server, options=facts)
    async with setting.resolver(options=Options()) as session:
        before = setting.connections
        await session.info(url)
        await wait_until_settled()
        assert setting.heard(before) == planned_octets(plan)


PLAN_CHECKS: tuple[ContractCheck, ...] = (
    ContractCheck("a plan equals the sent bytes", check_plan, accept_any),
    ContractCheck("a plan for facts equals the sent bytes", check_facts_plan, is_served),
)
