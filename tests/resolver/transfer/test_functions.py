"""The functions of the package: the same settings as `Resolver`, with the same names and effects."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Unpack

import pytest
import trio

import resolver
from fixtures.http import Behavior, serve
from protocols.options import HeaderFields
from resolver import (
    Declined,
    HttpxTransport,
    Limits,
    NetworkSettings,
    Options,
    ResolveError,
    Resolver,
    RetryPolicy,
    Settings,
    TimedOut,
)
from resolver.cli.options import OPTIONS
from resolver.files.commit import GroupCommit
from resolver.transfer import functions as once
from resolver.transfer.network import Network
from resolver.transfer.redirects import RetrievalRequest
from resolver.transfer.saving import Saver, SaveSettings
from resolver.transfer.segments import HostConnectionCounter
from resolver.transfer.settings import ONE_TRY, FetchSettings
from tests.hang import NEVER

FUNCTIONS = ("fetch", "info", "save", "stream", "entries")

SHORT = 0.2

#: The default of the keywords of a record.
KEYWORD = object()

RECORDS = {record.__name__: record for record in (FetchSettings, SaveSettings, once.FileSettings)}

#: A response that asks for a retry after 0 s.
LATER = Behavior(instead=b"HTTP/1.1 503 No\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n")


async def call(name: str, url: str, path: Path, **settings: Unpack[Settings]) -> None:
    """Call a function of the package and consume its result."""
    match name:
        case "fetch":
            await resolver.fetch(url, **settings)
        case "info":
            await resolver.info(url, **settings)
        case "save":
            await resolver.save(url, path, **settings)
        case "stream":
            async with resolver.stream(url, **settings) as reply:
                async for _ in reply.body:
                    pass
        case "entries":
            with pytest.raises(Declined, match="listing"):
                async with resolver.entries(url, **settings):
                    raise AssertionError("data lists nothing")


@pytest.mark.parametrize("name", FUNCTIONS)
async def test_functions_pass_settings_to_resolver(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Made(Exception):
        pass

    def make(**settings: object) -> None:
        raise Made(settings)

    monkeypatch.setattr(once, "Resolver", make)
    given = {setting: object() for setting in Settings.__optional_keys__}
    with pytest.raises(Made) as made:
        await call(name, "http://h.example/", tmp_path / "file", **given)  # type: ignore[arg-type]
    assert made.value.args == (given,)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    "headers",
    [
        {"X-One": "1", "X-Two": "é"},
        {b"X-One": b"1", b"X-Two": "é".encode()},
        [("X-One", "1"), ("X-Two", "é")],
        [(b"X-One", b"1"), (b"X-Two", "é".encode())],
    ],
)
async def test_headers_are_accepted_as_mapping_or_pairs(
    name: str, headers: HeaderFields, nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery)
    options = Options(headers=((b"X-One", b"0"),))
    await call(name, server.url("/data"), tmp_path / "file", headers=headers, options=options)
    assert server.requests[-1].values("x-one") == ["0", "1"]
    assert server.requests[-1].values("x-two") == ["é".encode().decode("latin-1")]


@pytest.mark.parametrize(
    "headers", ["X-One: secret", [("X-One", 1)], {"X-One": None}, [("a", "b", "secret")], 1]
)
def test_invalid_headers_error_hides_value(headers: HeaderFields) -> None:
    with pytest.raises(TypeError, match=r"^headers .*mapping") as caught:
        Resolver(headers=headers)
    assert "secret" not in str(caught.value)
    with pytest.raises(TypeError, match=r"^headers .*mapping") as caught:
        Options(headers=headers)  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("headers", [(("User-Agent", "é"),), {"User-Agent": "é"}, [(b"User-Agent", "é")]])
def test_options_encode_text_as_utf8(headers: Any) -> None:
    options = Options(headers=headers)
    assert options == Options(headers=((b"User-Agent", "é".encode()),))
    none: Any = {}
    assert dataclasses.replace(options, headers=none).headers == ()
    agent: Any = "é"
    assert Options(user_agent=agent).user_agent == "é".encode()


@pytest.mark.parametrize("name", FUNCTIONS)
async def test_timeout_limits_total_time(name: str, nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, behaviors={"/data": Behavior(silent=True)})
    none = Limits(connect=NEVER, idle=NEVER, total=NEVER)
    settings: Settings = {"limits": none, "timeout": SHORT, "patience": RetryPolicy(tries=9)}
    with pytest.raises(TimedOut) as caught:
        await call(name, server.url("/data"), tmp_path / "file", **settings)
    assert (caught.value.exit_code, caught.value.attempts) == (11, 1)


@pytest.mark.parametrize("name", FUNCTIONS)
async def test_unknown_setting_is_a_type_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"'polcy': .*archive, .*policy"):
        await call(name, "http://h.example/", tmp_path / "file", polcy=None)  # type: ignore[call-arg]


def test_transport_accepts_network_settings_only() -> None:
    HttpxTransport(**NetworkSettings(policy=None, proxy="none", environment={}))
    for name in sorted(Settings.__optional_keys__ - NetworkSettings.__optional_keys__):
        with pytest.raises(TypeError, match=name):
            HttpxTransport(**{name: None})  # type: ignore[arg-type]


async def tries(name: str, server_url: str, path: Path, **settings: Unpack[Settings]) -> int:
    with pytest.raises(ResolveError) as caught:
        await call(name, server_url, path, **settings)
    return caught.value.attempts


async def test_save_retries_like_the_command(nursery: trio.Nursery, tmp_path: Path) -> None:
    (said,) = (option.default for option in OPTIONS["limits"] if option.name == "tries")
    server = await serve(nursery, behaviors={"/data": LATER})
    assert await tries("save", server.url("/data"), tmp_path / "file") == said == len(server.requests)
    assert await tries("save", server.url("/data"), tmp_path / "file", patience=RetryPolicy(tries=2)) == 2
    assert await tries("fetch", server.url("/data"), tmp_path / "file") == 1
    async with Resolver() as session:
        with pytest.raises(ResolveError) as caught:
            await session.save(server.url("/data"), tmp_path / "file")
    assert caught.value.attempts == said


def parameters_of(function: Callable[..., object]) -> dict[str, object]:
    """Return the parameters with their defaults.

    Parameters from a record of keyword arguments have `KEYWORD` instead.
    """
    result: dict[str, object] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            result[name] = parameter.default
            continue
        assert name in ("settings", "wanted")
        record = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
        assert record is not None
        result |= dict.fromkeys(RECORDS[record[1]].__optional_keys__, KEYWORD)
    result.pop("self", None)
    return result


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_parameters_of_methods(name: str) -> None:
    """The function accepts the parameters of the method and those of the constructor."""
    method = parameters_of(getattr(Resolver, name))
    if name != "save":
        assert (method["origin"], method["referrer"]) == ("user", None)
        method |= dict.fromkeys(("origin", "referrer"), KEYWORD)
    assert parameters_of(getattr(resolver, name)) == method | dict.fromkeys(
        Settings.__optional_keys__, KEYWORD
    )


class Keywords(dict[str, Any]):
    """The keywords of a call, with the names that were read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().get(name, default)


async def test_saver_reads_all_keywords_of_save() -> None:
    """The Saver reads every keyword, except those from which `Resolver.save` makes the requests."""
    keywords, commits, counter = Keywords(), GroupCommit(), HostConnectionCounter(None)
    requests = [RetrievalRequest(resolver.parse("http://h.example/"), Options())]
    Saver(
        Network(),
        requests,
        "file",
        keywords,  # type: ignore[arg-type]
        retry_policy=ONE_TRY,
        segments=1,
        counter=counter,
        commits=commits,
        below=None,
    )
    assert SaveSettings.__optional_keys__ - keywords.read == {"mirrors", "origin", "referrer"}


async def test_save_with_unknown_keyword_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"'exsits': .*exists"):
        await Resolver().save("http://h.example/", "file", exsits="skip")  # type: ignore[call-arg]
