"""A table row: a URL with its circumstances and the policy's expected verdict."""

from __future__ import annotations

from typing import NamedTuple

from protocols.contract import Action, Origin
from resolver import Policy, check

PUBLIC = "93.184.216.34"
PAGE = ("http://page.example/", PUBLIC)
SECURE = ("https://page.example/", PUBLIC)
MENU = ("gopher://menu.example/1", PUBLIC)

DEFAULT = Policy.default()
CAUTIOUS = Policy.cautious()
UNTRUSTED = Policy.untrusted()


class Row(NamedTuple):
    """A URL, its circumstances, and the expected verdict.

    `rules` are the names of exactly the rules that must fire, in their order.
    """

    url: str
    action: Action
    rules: tuple[str, ...] = ()
    policy: Policy = DEFAULT
    origin: Origin = "user"
    referrer: tuple[str, str | None] | None = None

    def __str__(self) -> str:
        return f"{self.origin}-{self.policy.name}-{self.url[:60]}"

    def judge(self) -> tuple[Action, tuple[str, ...]]:
        verdict = check(self.url, policy=self.policy, origin=self.origin, referrer=self.referrer)
        return verdict.action, verdict.rules

    def hold(self) -> None:
        assert self.judge() == (self.action, self.rules)
