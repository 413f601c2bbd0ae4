"""What a rule says and what all of them come to.

A rule gives a `Ruling` for each thing it objects to. A warning is hardened into a refusal where
nobody would read it. A `Verdict` is the strictest of them, with every ruling at that level. The text of
a refusal names the rule and the flag that would allow it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from protocols.errors import InvalidUrl, Refused, ResolveError, UnsupportedScheme
from protocols.location import Action, Finding, Origin, Url
from resolver.policy.settings import Policy


class Ruling(NamedTuple):
    """One objection of one rule.

    `flag` is the option that would allow it, None where the rule is fixed; `position` the index in
    the URL text of what is objected to, None where no single place is to blame.
    """

    rule: str
    action: Action
    detail: str
    flag: str | None = None
    position: int | None = None

    @property
    def text(self) -> str:
        """The objection and, for a refusal that can be lifted, how."""
        if self.action == "refuse" and self.flag is not None:
            return f"{self.detail}; {self.flag} would allow it"
        return self.detail

    def refusal(self) -> Refused:
        return Refused(self.rule, f"{self.rule}: {self.text}", flag=self.flag, position=self.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Allow, warn or refuse, and every ruling at that level in the order of the rules.

    `invalid` is the parser's error where the text was no URL at all (S01).
    """

    action: Action = "allow"
    rulings: tuple[Ruling, ...] = ()
    invalid: InvalidUrl | None = field(default=None, compare=False)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(Finding(ruling.rule, ruling.action, ruling.text) for ruling in self.rulings)

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of the rules that fired, each once."""
        return tuple(dict.fromkeys(ruling.rule for ruling in self.rulings))

    def error(self, url: Url | None = None) -> ResolveError | None:
        """What a retrieval of `url` raises because of this verdict: None unless it is a refusal.

        The first rule in the order of judgement decides between `InvalidUrl` (S01),
        `UnsupportedScheme` (S19) and `Refused`.
        """
        if self.action != "refuse":
            return None
        if self.invalid is not None:
            return self.invalid
        first, shown = self.rulings[0], None if url is None else url.shown
        error: ResolveError
        if first.rule == "S19":
            scheme = "" if url is None else url.scheme
            error = UnsupportedScheme(scheme, f"S19: {first.text}")
        else:
            error = first.refusal()
        error.url = shown
        return error


ALLOW = Verdict()
_SEVERITY: dict[Action, int] = {"allow": 0, "warn": 1, "refuse": 2}


def strictest(rulings: Iterable[Ruling]) -> Verdict:
    """The verdict these rulings come to: the strictest wins, and all of that level are kept."""
    found = tuple(rulings)
    if not found:
        return ALLOW
    action = max((ruling.action for ruling in found), key=_SEVERITY.__getitem__)
    return Verdict(action=action, rulings=tuple(ruling for ruling in found if ruling.action == action))


def hardened(rulings: Iterable[Ruling], policy: Policy, origin: Origin) -> list[Ruling]:
    """The rulings with every warning a refusal where nobody is there to read it (`derived`), or
    where the policy says so."""
    if origin == "derived" or policy.refuses_warnings:
        return [ruling._replace(action="refuse") for ruling in rulings]
    return list(rulings)
