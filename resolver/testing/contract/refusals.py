"""A refusal connects to nothing, and looks nothing up."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

import resolver
from protocols.contract import Origin
from protocols.errors import Refused
from resolver.policy import Policy
from resolver.testing.contract.case import Case
from resolver.testing.contract.check import ContractCheck, served
from resolver.testing.contract.setting import CaseSetting, ListeningSockets

#: Policies that refuse what leads to a server of this machine at an unusual port, and who chose the URL.
REFUSING: dict[str, tuple[Policy, Origin, str | None]] = {
    "cautious": (Policy.cautious(), "user", None),
    "untrusted": (Policy.untrusted(), "user", None),
    "from elsewhere": (Policy(), "derived", "93.184.216.34"),
}


def is_refused(case: Case, why: str) -> bool:
    """A server in the user's own settings is the user's choice."""
    return not case.by_setting or why == "untrusted"


async def check_refusal(why: str, running: CaseSetting, folder: Path) -> None:
    """A listening socket sees nothing at all, not even a connection; and the plan is empty."""
    case, (policy, origin, address) = running.case, REFUSING[why]
    referrer = None if address is None else (f"{case.scheme}://h.example/a", address)
    with ListeningSockets() as watch:
        setting = CaseSetting(case, watch, folder)
        url = setting.url(case.document)
        plan = resolver.explain(
            url, policy=policy, origin=origin, referrer=referrer, news_server=setting.news_server
        )
        assert isinstance(plan.error, Refused)
        assert (plan.verdict, plan.steps) == ("refuse", ())
        async with setting.resolver(policy=policy) as session:
            path = folder / "saved"
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
    assert os.listdir(folder) == []


def _for(why: str) -> ContractCheck:
    def is_for(case: Case) -> bool:
        return served(case) and is_refused(case, why) and not (case.any_port and why == "cautious")

    return ContractCheck(f"a refusal connects to nothing, {why}", partial(check_refusal, why), is_for)


CHECKS: tuple[ContractCheck, ...] = tuple(map(_for, REFUSING))
