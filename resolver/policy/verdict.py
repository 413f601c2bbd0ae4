"""What a rule says and what all of them come to.

A rule gives a `Decision` for each thing it objects to. A warning is escalated to a refusal where
nobody would read it. A `Verdict` is the strictest of them, with every ruling at that level. The text of
a refusal names the rule and the flag that would allow it.
"""

from __future__ import annotations

from collections.abc import Iterable

from protocols.errors import InvalidUrl, Refused, ResolveError, UnsupportedScheme
from protocols.location import Action, Finding, Origin, Url
from protocols.values import NamedTuple, dataclass, field
from resolver.policy.settings import Policy


class Decision(NamedTuple):
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

    def refusal(self, url: str | None = None) -> Refused:
        """The error that it is; `url` is redacted."""
        message = f"{self.rule}: {self.text}"
        return Refused(self.rule, message, flag=self.flag, position=self.position, url=url)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Allow, warn or refuse, and every ruling at that level in the order of the rules.

    `invalid` is the parser's error where the text was no URL at all (S01).

    Examples:
        >>> verdict = resolver.check("http://h.example/", policy=resolver.Policy.untrusted())
        >>> verdict.action, verdict.findings
        ('allow', ())
    """

    action: Action = "allow"
    decisions: tuple[Decision, ...] = ()
    invalid: InvalidUrl | None = field(default=None, compare=False)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(Finding(decision.rule, decision.action, decision.text) for decision in self.decisions)

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of the rules that fired, each once."""
        return tuple(dict.fromkeys(decision.rule for decision in self.decisions))

    def error(self, url: Url | None = None) -> ResolveError | None:
        """What a retrieval of `url` raises because of this verdict: None unless it is a refusal.

        The first rule in the order of judgement decides between `InvalidUrl` (S01),
        `UnsupportedScheme` (S19) and `Refused`.
        """
        if self.action != "refuse":
            return None
        if self.invalid is not None:
            return self.invalid
        first, shown = self.decisions[0], None if url is None else url.shown
        if first.rule != "S19":
            return first.refusal(shown)
        return UnsupportedScheme("" if url is None else url.scheme, f"S19: {first.text}", url=shown)


ALLOW = Verdict()
_SEVERITY: dict[Action, int] = {"allow": 0, "warn": 1, "refuse": 2}


def strictest(decisions: Iterable[Decision]) -> Verdict:
    """The verdict these rulings come to: the strictest wins, and all of that level are kept."""
    found = tuple(decisions)
    if not found:
        return ALLOW
    action = max((decision.action for decision in found), key=_SEVERITY.__getitem__)
    return Verdict(
        action=action, decisions=tuple(decision for decision in found if decision.action == action)
    )


def escalated(decisions: Iterable[Decision], policy: Policy, origin: Origin) -> list[Decision]:
    """The rulings with every warning a refusal where nobody is there to read it (`derived`), or
    where the policy says so."""
    if origin == "derived" or policy.refuses_warnings:
        return [decision._replace(action="refuse") for decision in decisions]
    return list(decisions)


def refusal(rule: str, detail: str, *, flag: str | None = None) -> Refused:
    """The policy's no where only who opens something can see the reason."""
    return Decision(rule=rule, action="refuse", detail=detail, flag=flag).refusal()
