"""Combination of decisions into a verdict, and the error raised for a refusal."""

from __future__ import annotations

import pytest

from protocols.contract import Action
from protocols.location import Origin
from resolver import InvalidUrl, Policy, Refused, UnsupportedScheme, check, parse
from resolver.policy.subject import Decision, combine_decisions, escalate_warnings


def decision(action: Action, rule: str = "S04", flag: str | None = None) -> Decision:
    return Decision(rule=rule, action=action, detail="because", flag=flag)


def test_combine_decisions_keeps_the_strictest_level_in_order() -> None:
    assert (combine_decisions([]).action, combine_decisions([]).findings) == ("allow", ())
    mixed = [
        decision("warn", "S06"),
        decision("refuse", "S04"),
        decision("warn", "S07"),
        decision("refuse", "S08"),
    ]
    verdict = combine_decisions(mixed)
    assert (verdict.action, verdict.rules) == ("refuse", ("S04", "S08"))
    assert combine_decisions(mixed[::2]).rules == ("S06", "S07")


def test_escalate_warnings_depends_on_policy_and_origin() -> None:
    rows: tuple[tuple[Policy, Origin, str], ...] = (
        (Policy.default(), "user", "warn"),
        (Policy.default(), "chosen", "warn"),
        (Policy.default(), "derived", "refuse"),
        (Policy.cautious(), "user", "refuse"),
        (Policy.untrusted(), "user", "refuse"),
    )
    for policy, origin, action in rows:
        assert [r.action for r in escalate_warnings([decision("warn")], policy, origin)] == [action]


def test_refusal_has_setting_and_its_message_has_no_option() -> None:
    refused = combine_decisions([decision("refuse", flag="--allow-port 25")])
    error = refused.error()
    assert isinstance(error, Refused)
    assert (str(error), error.flag, error.setting) == ("S04: because", "--allow-port 25", "allow_port 25")
    assert refused.findings[0].detail == "because; --allow-port 25 would allow it"
    assert combine_decisions([decision("warn", flag="--allow-port 25")]).findings[0].detail == "because"
    assert str(combine_decisions([decision("refuse")]).error()) == "S04: because"


@pytest.mark.parametrize(
    ("text", "error_class", "exit_code"),
    [
        ("http://a b/", InvalidUrl, 12),
        ("dict://127.0.0.1:6379/info", UnsupportedScheme, 13),
        ("gopher://h.example:25/1", Refused, 9),
    ],
)
def test_verdict_error_has_class_of_first_rule(
    text: str, error_class: type[Exception], exit_code: int
) -> None:
    verdict = check(text)
    url = None if error_class is InvalidUrl else parse(text)
    error = verdict.error(url)
    assert type(error) is error_class
    assert error is not None
    assert error.exit_code == exit_code
    assert error.url == text


def test_verdict_error_is_none_for_allow_and_warn() -> None:
    assert check("http://h.example/").error() is None
    assert check("http://h.example:81/").error() is None


def test_verdict_error_does_not_show_password() -> None:
    text = "gopher://u:sesame@h.example:25/1"
    error = check(text).error(parse(text))
    assert error is not None
    assert error.url == "gopher://u:****@h.example:25/1"
    assert "sesame" not in repr(check(text)) + str(error)
