"""What a plan says is what is sent: octet for octet, and connection for connection."""

from __future__ import annotations

from pathlib import Path

import resolver
from protocols.contract import Options
from resolver.events import Connected, Event, Sent
from resolver.testing.contract.check import ContractCheck, anything, served
from resolver.testing.contract.setting import CaseSetting, settled
from resolver.testing.contract.values import check_connects, planned_octets


async def check_a_plan_is_what_is_sent(setting: CaseSetting, folder: Path) -> None:
    """The octets that the server hears, and the connections that are made, are those of the plan."""
    for template in (setting.case.document, setting.case.listing, setting.case.login):
        if template is not None and template not in setting.case.otherwise:
            await compare(setting, setting.url(template))


async def compare(setting: CaseSetting, url: str) -> None:
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
    if not case.drawn:
        assert told == planned
    made = [event for event in events if isinstance(event, Connected)]
    check_connects(plan, setting, made, setting.connections - before)


async def check_a_plan_for_facts_is_what_is_sent(setting: CaseSetting, folder: Path) -> None:
    url, facts = setting.url(setting.case.document), Options(want="facts")
    if setting.case.document in setting.case.otherwise:
        return
    plan = resolver.explain(url, policy=setting.policy, news_server=setting.news_server, options=facts)
    async with setting.resolver(options=Options()) as session:
        before = setting.connections
        await session.info(url)
        await settled()
        assert setting.heard(before) == planned_octets(plan)


CHECKS: tuple[ContractCheck, ...] = (
    ContractCheck("a plan is what is sent", check_a_plan_is_what_is_sent, anything),
    ContractCheck("a plan for facts is what is sent", check_a_plan_for_facts_is_what_is_sent, served),
)
