"""The contract that every scheme keeps, row by row: design page, section 3.

What is given, what a plan says, what is left open, what a cancel leaves, what comes of a peer that is
something else, and that a refusal connects to nothing.
"""

from __future__ import annotations

import hashlib
import os
import traceback
from functools import partial
from pathlib import Path

import pytest

import resolver
from protocols.contract import Entry, Kind, Options, Origin
from protocols.errors import Declined, Refused, ResolveError
from resolver import registry
from resolver.events import Connected, Event, Sent
from resolver.loops import running
from resolver.plan import Plan
from resolver.policy import Policy
from resolver.retrieval.response import Response, Saved
from tests.contract.cases import CASES, LISTING, SERVED, WISHES, Case
from tests.contract.setting import WAYS, Listening, Setting, entries, save, settled
from tests.contract.values import check_connects, check_value, members_of, planned_octets


def for_those(cases: list[Case] | tuple[Case, ...]) -> pytest.MarkDecorator:
    """Only for these rows."""
    return pytest.mark.parametrize("setting", cases, indirect=True, ids=str)


def test_every_scheme_has_a_row() -> None:
    assert {case.scheme for case in CASES} == set(registry.SCHEMES)


# -- what is given


async def test_fetch(setting: Setting) -> None:
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


#: `raw` is not shown, for it can be as large as the content; the text is.
RESPONSE = members_of(Response) - {"raw"} | {"text"}


async def test_stream(setting: Setting) -> None:
    """Two at once; what has ended stays ended, and gives nothing more once the reply was left."""
    case, url = setting.case, setting.url(setting.case.document)
    async with setting.resolver() as session:
        async with session.stream(url) as unread, session.stream(url) as reply:
            assert reply.kind is case.kind
            assert b"".join([octets async for octets in reply.body]) == case.content
            assert [octets async for octets in reply.body] == []
        for left in (unread, reply):
            with pytest.raises(running().closed):
                await anext(left.body)


async def test_save(setting: Setting, tmp_path: Path) -> None:
    """A service has no octets to keep: it only leads elsewhere (S10)."""
    case, url, path = setting.case, setting.url(setting.case.document), tmp_path / "saved"
    async with setting.resolver() as session:
        if case.kind is Kind.SERVICE:
            with pytest.raises(Refused) as caught:
                await session.save(url, path)
            assert (caught.value.rule, caught.value.exit_code) == ("S10", 15)
            assert os.listdir(tmp_path) == []
            return
        saved = await session.save(url, path, digest=True)
    assert path.read_bytes() == case.content
    assert os.listdir(tmp_path) == ["saved"]
    assert (saved.path, saved.bytes, saved.resumed_from) == (str(path), len(case.content), 0)
    assert saved.digest == f"sha256:{hashlib.sha256(case.content).hexdigest()}"
    assert (saved.attempts, saved.skipped, saved.kind) == (1, False, case.kind)
    check_value(saved, members_of(Saved))


async def test_explain_and_check(setting: Setting) -> None:
    """Neither sends anything, and they agree with one another and with a retrieval."""
    url = setting.url(setting.case.document)
    before = setting.connections
    plan = resolver.explain(url, policy=setting.policy)
    verdict = resolver.check(url, policy=setting.policy)
    assert (plan.url, plan.scheme) == (resolver.parse(url).shown, setting.case.scheme)
    assert (plan.verdict, plan.error, verdict.error()) == (verdict.action, None, None)
    assert set(verdict.findings) <= set(plan.findings)
    assert {step["action"] for step in plan.steps} <= {"connect", "send", "receive", "open", "note"}
    assert setting.connections == before
    check_value(plan, members_of(Plan) - {"error"})


async def test_parse(setting: Setting) -> None:
    """What is read is written the same, and its components say it all."""
    for template in (setting.case.document, setting.case.listing, setting.case.missing):
        if template is not None:
            parsed = resolver.parse(setting.url(template))
            assert resolver.parse(resolver.build(parsed)) == parsed
            assert parsed.components()["scheme"] == parsed.scheme == setting.case.scheme


@for_those(LISTING)
async def test_entries(setting: Setting) -> None:
    case, url = setting.case, setting.url(setting.case.listing)
    async with setting.resolver() as session:
        async with session.entries(url) as stream:
            found = [entry async for entry in stream]
        response = await session.fetch(url)
    assert [entry.name for entry in found if is_child(entry, setting)] == list(case.names)
    for entry in found:
        assert (entry.origin, entry.referrer) == ("derived", (resolver.parse(url).shown, response.peer))
        assert entry.raw is not None
        check_value(entry, members_of(Entry))
    assert (response.kind, response.entries) == (case.listing_kind, tuple(found))
    check_value(response, RESPONSE)


def is_child(entry: Entry, setting: Setting) -> bool:
    """Can this be had from the row's own server?"""
    places = (f"//{setting.at}/", "news:") if setting.at else (str(setting.folder),)
    return entry.url is not None and any(place in entry.url for place in places)


@for_those(LISTING)
async def test_children_of_a_listing(setting: Setting) -> None:
    """What a listing names is parsed, judged as what was found there, and can be fetched."""
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


@for_those([case for case in CASES if case.listing is None])
async def test_what_lists_nothing_says_so(setting: Setting) -> None:
    async with setting.resolver() as session:
        with pytest.raises(Declined) as caught:
            async with session.entries(setting.url(setting.case.document)):
                raise AssertionError("there is nothing to list")
    assert (caught.value.exit_code, caught.value.code) == (8, None)


@for_those([case for case in CASES if case.missing is not None])
async def test_what_is_missing(setting: Setting, tmp_path: Path) -> None:
    """However it is asked for, the same is raised; it says of which URL and how a command ends."""
    url = setting.url(setting.case.missing)
    async with setting.resolver() as session:
        for way in WAYS.values():
            with pytest.raises(setting.case.error) as caught:
                await way(session, url, tmp_path / "missing")
            assert (caught.value.url, caught.value.exit_code, caught.value.retryable) == (url, 8, False)
    assert os.listdir(tmp_path) == []


@for_those([case for case in CASES if case.login is not None])
async def test_no_password_is_shown(setting: Setting, tmp_path: Path) -> None:
    """Not by a value, an event, an error or a plan; only the server has it."""
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
                shown.append(await way(session, url, tmp_path / "saved"))
            except ResolveError as error:
                shown += [error, error.url, traceback.format_exception(error)]
    assert case.secret not in "".join(map(repr, [*shown, *events]))
    assert setting.server is None or case.spoken in setting.heard()


# -- what a plan says


@for_those([*CASES, *WISHES])
async def test_a_plan_is_what_is_sent(setting: Setting) -> None:
    """The octets that the server hears, and the connections that are made, are those of the plan."""
    for template in (setting.case.document, setting.case.listing, setting.case.login):
        if template is not None and template not in setting.case.otherwise:
            await compare(setting, setting.url(template))


async def compare(setting: Setting, url: str) -> None:
    case, options, before = setting.case, setting.case.options, setting.connections
    events: list[Event] = []
    plan = resolver.explain(url, policy=setting.policy, news_server=setting.news_server, options=options)
    async with setting.resolver(options=options, on_event=events.append) as session:
        await session.fetch(url)
        await settled()
        heard = setting.heard(before)
        told = b"".join(event.octets for event in events if isinstance(event, Sent))
    await settled()
    planned = planned_octets(plan)
    for shown, sent in case.later:
        planned = planned.replace(shown, sent)
    assert heard.replace(case.spoken, b"****") == planned
    assert setting.heard(before) == heard + case.farewell
    if case.scheme != "prospero":  # whose numbers are drawn at random
        assert told == planned
    made = [event for event in events if isinstance(event, Connected)]
    check_connects(plan, setting, made, setting.connections - before)


@for_those(SERVED)
async def test_a_plan_for_facts_is_what_is_sent(setting: Setting) -> None:
    url, facts = setting.url(setting.case.document), Options(want="facts")
    if setting.case.document in setting.case.otherwise:
        return
    plan = resolver.explain(url, policy=setting.policy, news_server=setting.news_server, options=facts)
    async with setting.resolver(options=Options()) as session:
        before = setting.connections
        await session.info(url)
        await settled()
        assert setting.heard(before) == planned_octets(plan)


# -- refusals

#: Policies that refuse what leads to a server of this machine at an unusual port, and who chose the URL.
REFUSING: dict[str, tuple[Policy, Origin, str | None]] = {
    "cautious": (Policy.cautious(), "user", None),
    "untrusted": (Policy.untrusted(), "user", None),
    "from elsewhere": (Policy(), "derived", "93.184.216.34"),
}


def is_refused(case: Case, why: str) -> bool:
    """http has all ports from 1024 on, and a server in the user's own settings is the user's choice."""
    if why == "cautious":
        return not case.scheme.startswith("http") and not case.document.startswith("news:")
    return why == "untrusted" or not case.document.startswith("news:")


REFUSED = [(case, why) for case in SERVED for why in REFUSING if is_refused(case, why)]


@pytest.mark.parametrize(("case", "why"), REFUSED, ids=str)
async def test_a_refusal_connects_to_nothing(case: Case, why: str, tmp_path: Path) -> None:
    """A listening socket sees nothing at all, not even a connection; and the plan is empty."""
    policy, origin, address = REFUSING[why]
    referrer = None if address is None else (f"{case.scheme}://h.example/a", address)
    with Listening() as watch:
        setting = Setting(case, watch, tmp_path)
        url = setting.url(case.document)
        plan = resolver.explain(
            url, policy=policy, origin=origin, referrer=referrer, news_server=setting.news_server
        )
        assert isinstance(plan.error, Refused)
        assert (plan.verdict, plan.steps) == ("refuse", ())
        async with setting.resolver(policy=policy) as session:
            path = tmp_path / "saved"
            for ask in (session.fetch, session.info, partial(session.save, path=path)):
                with pytest.raises(Refused) as caught:
                    await ask(url, origin=origin, referrer=referrer)
                error = caught.value
                assert (error.rule, error.exit_code) == (plan.error.rule, plan.error.exit_code)
                assert error.url == resolver.parse(url).shown
            for open_ in (session.stream, session.entries):
                with pytest.raises(Refused):
                    async with open_(url, origin=origin, referrer=referrer):
                        raise AssertionError("this was to be refused")
        assert watch.saw_nothing()
    assert os.listdir(tmp_path) == []
