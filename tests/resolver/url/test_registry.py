"""Registration of schemes: immediate effect, no replacement, missing extras, and reserved scheme names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

import resolver
from fixtures.plugins.more_schemes.finger import FINGER, FingerUrl
from protocols.contract import Extra
from resolver import OtherUrl, UnsupportedScheme
from resolver.policy.schemes import check_gateway
from resolver.url import registry
from resolver.url.registry import RESERVED
from tests.plugin import install, installed, registered
from tests.plugin.finger_server import SAID, FingerServer

CHECKOUT = Path(__file__).parents[3]
URL = "finger://h.example/joe"


async def _fails(url: str, **gateways: str) -> resolver.UnsupportedScheme:
    async with resolver.Resolver(gateways=gateways) as session:
        with pytest.raises(resolver.UnsupportedScheme) as caught:
            await session.fetch(url)
    return caught.value


async def test_scheme_before_registration_is_unknown() -> None:
    assert isinstance(resolver.parse(URL), OtherUrl)
    assert resolver.check(URL).rules == ("S19",)
    assert "scheme 'finger' is unknown" in str(resolver.explain(URL).error)
    assert "scheme 'finger' is unknown" in str(await _fails(URL))


async def test_registered_scheme_is_parsed_checked_and_fetched(nursery: trio.Nursery) -> None:
    server = await FingerServer.start(nursery)
    here = URL.replace("h.example", f"127.0.0.1:{server.port}")
    with registered(FINGER):
        assert isinstance(resolver.parse(URL), FingerUrl)
        assert resolver.check(URL).action == "allow"
        assert [step["action"] for step in resolver.explain(URL).steps] == ["connect", "send", "receive"]
        assert (await resolver.fetch(here)).content == SAID
    assert server.heard == [b"joe\r\n"]
    nursery.cancel_scope.cancel()


def test_registered_scheme_without_options_is_checked_strictly() -> None:
    with registered(FINGER):
        assert resolver.check("finger://h.example:25/joe").rules == ("S04",)
        assert resolver.check("finger://h.example/a%0Ab").rules == ("S02",)
        assert resolver.check(
            "finger://h.example/joe", origin="derived", referrer=("http://h/", None)
        ).rules == ("S10",)


@pytest.mark.parametrize("name", sorted(registry.SCHEMES))
def test_register_does_not_replace_built_in_scheme(name: str) -> None:
    there = registry.find(name)
    with (
        pytest.raises(ValueError, match=f"'{name}' already"),
        registered(FINGER._replace(name=name)),
    ):
        pass
    assert registry.find(name) is there


def test_register_does_not_replace_other_plugins(tmp_path: Path) -> None:
    another = FINGER._replace(names="something else")
    with installed(tmp_path):
        there = registry.find("finger")
        with pytest.raises(ValueError, match="'finger' already"), registered(another):
            pass
        assert registry.find("finger") is there
    with registered(FINGER):
        with pytest.raises(ValueError, match="'finger' already"), registered(another):
            pass
        assert registry.find("finger") is FINGER


def test_register_accepts_same_definition_again(tmp_path: Path) -> None:
    gopher = registry.find("gopher")
    assert gopher is not None
    with registered(FINGER, FINGER, gopher):
        assert registry.find("finger") is FINGER
        assert registry.plugins() == ["finger"]
    points = {"finger": "fixtures.plugins.more_schemes.finger:FINGER"}
    with installed(tmp_path / "site", points), registered(FINGER):
        assert registry.plugins() == ["finger"]


@pytest.mark.parametrize(
    "name", ["", "Finger", "url", "9p", "a b", "finger:", "fing\u00e9r", "f" * 65, "finger\n"]
)
def test_register_refuses_invalid_names(name: str) -> None:
    with pytest.raises(ValueError, match="scheme name"), registered(FINGER._replace(name=name)):
        pass
    assert registry.plugins() == []


def test_register_accepts_reserved_name() -> None:
    with registered(FINGER._replace(name="afs")):
        assert resolver.check("afs://h.example/cell").action == "allow"
    assert resolver.check("afs://h.example/cell").rules == ("S19",)


NEEDY = FINGER._replace(needs=Extra("lookup", ("json", "no_such_module"), "finger-scheme"))
BROKEN = "import no_such_module\n"
SENTENCE = " need the extra lookup of finger-scheme, which is not installed"
UNIMPORTABLE = ": No module named 'no_such_module'"


@pytest.fixture(params=["registered", "plug-in", "plug-in that imports", "plug-in that says no extra"])
def sentence(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Register a scheme with a missing dependency in one of several ways; yield the expected message."""
    (tmp_path / "broken_finger.py").write_text(BROKEN)
    (tmp_path / "needy_finger.py").write_text("from tests.resolver.url.test_registry import NEEDY\n")
    ways: dict[str, tuple[str, str]] = {
        "plug-in": ("needy_finger:NEEDY", SENTENCE),
        "plug-in that imports": (
            "broken_finger:FINGER [lookup]",
            SENTENCE.replace("finger-scheme", "schemes-of-others"),
        ),
        "plug-in that says no extra": ("broken_finger:FINGER", UNIMPORTABLE),
    }
    if request.param == "registered":
        with registered(NEEDY):
            yield SENTENCE
    else:
        place, said = ways[request.param]
        with installed(tmp_path, {"finger": place}):
            yield said


async def test_missing_extra_is_named_by_check_explain_and_fetch(sentence: str) -> None:
    """The verdict, the plan and the retrieval report it; the URL is parsed nevertheless."""
    resolver.parse(URL)
    assert resolver.check(URL).action == "refuse"
    plan, error = resolver.explain(URL), await _fails(URL)
    assert (error.scheme, error.rule, error.exit_code) == ("finger", "S19", 13)
    assert sentence in error.message
    assert error.setting == "gateway finger=URL"
    assert (plan.verdict, plan.steps, str(plan.error)) == ("refuse", (), str(error))


#: The faults of a plug-in at its import, with the class of the error.
FAULTS = {
    "SyntaxError": "x = (",
    "RuntimeError": "raise RuntimeError('no settings')",
    "SystemExit": "raise SystemExit(3)",
    "AttributeError": "",
}


@pytest.mark.parametrize("kind", FAULTS)
async def test_plugin_with_error_at_import_is_reported_as_missing(kind: str, tmp_path: Path) -> None:
    module = f"faulty_{kind.lower()}"
    (tmp_path / f"{module}.py").write_text(FAULTS[kind])
    with installed(tmp_path, {"finger": f"{module}:FINGER [lookup]"}):
        error = await _fails(URL)
        assert resolver.check(URL).action == "refuse"
    assert (error.rule, error.exit_code) == ("S19", 13)
    assert f"schemes-of-others, which is installed but cannot be imported: {kind}: " in error.message


def test_gateway_serves_scheme_with_missing_extra(sentence: str) -> None:
    _, gateway = check_gateway("finger", "http://gateway.example/?u=")
    gateways = {"finger": gateway}
    assert resolver.check(URL, gateways=gateways).action == "allow"
    steps = resolver.explain(URL, gateways=gateways).steps
    assert [step["host"] for step in steps if step["action"] == "connect"] == ["gateway.example"]


def test_scheme_with_installed_extra_is_resolved() -> None:
    with registered(NEEDY._replace(needs=Extra("lookup", ("json",), "finger-scheme"))):
        assert resolver.check(URL).action == "allow"
        with pytest.raises(ValueError, match=r"^finger URLs "):
            check_gateway("finger", "http://gateway.example/?u=")


def _command(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", "from resolver.cli import run; run()", *words],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": os.pathsep.join((str(site), str(CHECKOUT))), "PATH": ""},
    )


def test_command_names_missing_extra(tmp_path: Path) -> None:
    (tmp_path / "broken_finger.py").write_text(BROKEN)
    install(tmp_path, {"finger": "broken_finger:FINGER [lookup]", "nothing": "json:dumps"})
    said = SENTENCE.replace("finger-scheme", "schemes-of-others")
    done = _command(tmp_path, "cat", URL)
    assert (done.returncode, done.stdout) == (13, "")
    assert said in done.stderr
    records = [json.loads(line) for line in _command(tmp_path, "schemes", "--json").stdout.splitlines()]
    (finger,) = [record for record in records if record["scheme"] == "finger"]
    assert finger.pop("names").endswith(said)
    assert finger == {"scheme": "finger", "default_port": None, "origin": "plug-in"}


# The names that RFC 1738 section 4 reserves: parsed, refused with a message, and served by a gateway if the
# user configured one.

#: A URL of each, and a part of the message about its reserved purpose.
ROWS = [
    ("afs:/cell/user/file", "Andrew"),
    ("mid:123@h.example", "Message identifiers"),
    ("cid:part1@h.example", "Content identifiers"),
    ("nfs://h.example/path", "Network File System"),
    ("tn3270://h.example/", "3270"),
    ("mailserver:request", "mail servers"),
    ("z39.50://h.example/db", "Z39.50"),
]


def test_reserved_names_have_test_rows() -> None:
    assert {url.partition(":")[0] for url, _ in ROWS} == set(RESERVED)


@pytest.mark.parametrize(("url", "meant"), ROWS)
async def test_reserved_name_error_names_purpose_and_gateway(url: str, meant: str) -> None:
    """The message names the reserved purpose and the option of a gateway."""
    scheme = url.partition(":")[0]
    parsed = resolver.parse(url)
    assert isinstance(parsed, OtherUrl)
    assert parsed.status == "reserved"
    with pytest.raises(UnsupportedScheme) as caught:
        await resolver.fetch(url)
    error = caught.value
    assert (error.scheme, error.rule, error.exit_code) == (scheme, "S19", 13)
    for words in (meant, "reserved", "RFC 1738", "gateway"):
        assert words in error.message
    assert error.setting == f"gateway {scheme}=URL"
    plan = resolver.explain(url)
    assert (plan.verdict, plan.steps, str(plan.error)) == ("refuse", (), str(error))


@pytest.mark.parametrize("url", [url for url, _ in ROWS])
def test_gateway_serves_reserved_name(url: str) -> None:
    scheme = url.partition(":")[0]
    gateways = {scheme: "http://gateway.example/?u="}
    assert resolver.check(url, gateways=gateways).action == "allow"
    connects = [
        step for step in resolver.explain(url, gateways=gateways).steps if step["action"] == "connect"
    ]
    assert [step["host"] for step in connects] == ["gateway.example"]


def test_command_names_purpose_of_reserved_name() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "from resolver.cli import run; run()", "cat"]
        + [url for url, _ in ROWS],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(CHECKOUT), "PATH": ""},
    )
    assert (done.returncode, done.stdout) == (13, "")
    for url, meant in ROWS:
        (said,) = (line for line in done.stderr.splitlines() if line.startswith(f"resolve: {url}: "))
        assert meant in said
        assert f"--gateway {url.partition(':')[0]}=URL" in said


def test_unknown_scheme_error_names_the_scheme() -> None:
    error = resolver.explain("x-foo:bar").error
    assert "'x-foo'" in str(error)
