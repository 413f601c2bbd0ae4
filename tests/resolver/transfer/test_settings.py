"""The validation of the keywords of `Resolver` and `HttpxTransport`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from resolver import (
    Host,
    HttpxTransport,
    Limits,
    NotConfigured,
    Policy,
    Resolver,
    RetryPolicy,
    SaveRequest,
    blocking,
    extract,
    fetch,
)
from resolver.transfer.batch import check_limits

TAKERS: list[Callable[..., object]] = [Resolver, HttpxTransport, blocking.Resolver]


@pytest.mark.parametrize("take", TAKERS)
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"cafile": 5}, "'cafile' must be a path, got int"),
        ({"certfile": b"x"}, "'certfile' must be a string, got bytes"),
        ({"environment": "x"}, "'environment' must be a mapping, got str"),
        ({"hosts": ["h.example"]}, "'hosts' must be a mapping, got list"),
        ({"hosts": {"h.example": {}}}, r"hosts\['h.example'\] must be a resolver.Host, got dict"),
        ({"hosts": {"h": Host(mirrors="http://m/")}}, "'mirrors' must be a list"),  # type: ignore[arg-type]
        ({"on_event": "print"}, "'on_event' must be a function, got str"),
        ({"pin": 5}, "'pin' must be a string, got int"),
        ({"proxy": b"none"}, "'proxy' must be a string, got bytes"),
        ({"recorder": "a.warc"}, "'recorder' must be a resolver.warc.Recorder, got str"),
    ],
)
def test_setting_of_wrong_type_is_type_error_of_constructor(
    take: Callable[..., object], wrong: dict[str, Any], words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        take(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"credentials": "me:secret"},
        {"gateways": "x"},
        {"mirrored": ["x"]},
        {"news_server": 119},
        {"options": 5},
        {"patience": 3},
        {"archive": "secret.warc"},
    ],
)
def test_resolver_setting_of_wrong_type_is_type_error_without_value(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=f"'{min(wrong)}' must be a") as caught:
        Resolver(**wrong)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("take", TAKERS)
@pytest.mark.parametrize("family", [4, "ipv4", ""])
def test_unknown_family_is_value_error(take: Callable[..., object], family: object) -> None:
    with pytest.raises(ValueError, match="'family' must be '4' or '6'"):
        take(family=family)


#: Functions with one number each, and the least number.
NUMBERS: dict[str, tuple[Callable[[Any], object], int]] = {
    "segments": (lambda number: Resolver(segments=number), 1),
    "segments_per_host": (lambda number: Resolver(segments_per_host=number), 1),
    "start": (lambda number: Resolver().resume("http://h.example/", number), 0),
    "rate": (lambda number: Resolver(rate=number), 1),
    "timeout": (lambda number: Resolver(timeout=number), 0),
    "concurrency": (lambda number: check_limits(number, None, None), 1),
    "per_host": (lambda number: check_limits(1, number, None), 1),
    "tries": (lambda number: RetryPolicy(tries=number), 0),
    "delay": (lambda number: RetryPolicy(delay=number), 0),
    **{
        name: (lambda number, name=name: Limits(**{name: number}), 0)  # type: ignore[misc]
        for name in Limits.__slots__
        if name != "body_everywhere"
    },
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("wrong", ["less", float("nan"), -float("inf"), "3"])
def test_number_out_of_range_is_refused_before_a_request(name: str, wrong: object) -> None:
    take, least = NUMBERS[name]
    take(least)
    with pytest.raises((TypeError, ValueError, NotConfigured)):
        take(least - 1 if wrong == "less" else wrong)


@pytest.mark.parametrize("name", ["segments", "segments_per_host", "start"])
@pytest.mark.parametrize("wrong", [1.5, float("inf")])
def test_fraction_as_whole_number_is_refused(name: str, wrong: float) -> None:
    with pytest.raises((TypeError, ValueError), match=f"'{name}' must be an integer"):
        NUMBERS[name][0](wrong)


@pytest.mark.parametrize("wrong", [{"tries": float("nan")}, {"tries": -1}, {"delay": float("nan")}])
def test_retry_policy_rejects_negative_numbers_and_nan(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{min(wrong)} must be at least 0"):
        RetryPolicy(**wrong)


@pytest.mark.parametrize(
    "value",
    [
        Host(proxy="http://me:hunter2@h/", mirrors=("http://me:hunter2@h/",)),
        SaveRequest("ftp://me:hunter2@h/x", mirrors=("ftp://me:hunter2@m/x",)),
        extract("<URL:ftp://me:hunter2@h/>"),
    ],
)
def test_repr_shows_no_password(value: object) -> None:
    assert "hunter2" not in repr(value)


@pytest.mark.parametrize("is_mapping", [True, False])
async def test_credentials_of_wrong_type_are_type_error_without_their_value(is_mapping: bool) -> None:
    wrong: Any = ("me", "secret")
    given: Any = {("http", "127.0.0.1", 9): wrong} if is_mapping else lambda *place: wrong
    with pytest.raises(TypeError, match=r"must give a resolver\.Credentials, got tuple$") as caught:
        await fetch("http://127.0.0.1:9/", credentials=given, policy=Policy(allow_port=frozenset({9})))
    assert "secret" not in str(caught.value)
