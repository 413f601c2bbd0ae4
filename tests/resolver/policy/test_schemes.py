"""The rules hold for schemes and components that no table lists, and for every built-in component."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import pytest

from protocols.contract import Origin
from resolver import (
    InvalidUrl,
    NotConfigured,
    Options,
    Policy,
    Refused,
    Resolver,
    Verdict,
    check,
    explain,
    parse,
)
from resolver.policy.judgment import judge
from resolver.policy.schemes import RULES
from resolver.testing.contract.case import ListeningSockets
from resolver.url import registry
from resolver.url.parsing import redact
from tests.contract.cases import CASES
from tests.plugin import installed
from tests.resolver.policy.rows import CAUTIOUS, DEFAULT, MENU, UNTRUSTED

POLICIES = (DEFAULT, CAUTIOUS, UNTRUSTED)
LINE_END = (0x00, 0x0A, 0x0D)


@pytest.fixture(autouse=True, scope="module")
def _plugins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with installed(tmp_path_factory.mktemp("site")):
        yield


#: URL templates for each kind of component: decoded, still encoded, in a tuple, and the host.
HOLES = {
    "query": "finger://h.example/a{}b",
    "written": "finger://h.example/a?b{}",
    "parts[1]": "finger://h.example/+a+b{}",
    "host": "finger://h{}.example/a",
}


@pytest.mark.parametrize("template", HOLES.values(), ids=HOLES)
def test_s02_applies_to_components_of_plugins(template: str) -> None:
    for octet in range(256):
        text = template.format(f"%{octet:02X}")
        for policy in POLICIES:
            verdict = check(text, policy=policy)
            if octet in LINE_END:
                assert _s02(verdict) == "refuse", (text, policy.name)
                assert explain(text, policy=policy).verdict == "refuse"
            elif octet < 0x20 or octet == 0x7F:
                assert _s02(verdict) == ("warn" if policy is DEFAULT else "refuse"), (text, policy.name)
            else:
                assert _s02(verdict) is None, (text, policy.name)


def _s02(verdict: Verdict) -> str | None:
    return verdict.action if "S02" in verdict.rules else None


def test_s02_allows_any_byte_in_length_prefixed_components() -> None:
    assert check("netstring://h.example/+a%00%0D%0A").action == "allow"
    # the definition exempts only the other component
    assert check("netstring://h.example/a?b%0D").rules == ("S02",)


@pytest.mark.parametrize("value", [[b"a"], bytearray(b"a"), {"a": b"b"}, (b"a", [b"b"]), 1.5, object()])
def test_s02_refuses_values_of_unknown_type(value: object) -> None:
    url = replace(parse("finger://h.example/"), parts=value)  # type: ignore[call-arg]
    verdict = judge(url, DEFAULT)
    assert (verdict.action, verdict.rules) == ("refuse", ("S02",))


@pytest.mark.parametrize("text", HOLES.values(), ids=HOLES)
async def test_refused_plugin_url_causes_no_connection(text: str) -> None:
    with ListeningSockets() as watch:
        text = text.format("%0D%0A").replace("h.example", f"127.0.0.1:{watch.port}")
        async with Resolver(policy=Policy(allow_port={watch.port})) as session:
            with pytest.raises(Refused) as caught:
                await session.fetch(text)
        assert (caught.value.rule, watch.received_nothing()) == ("S02", True)


def test_s06_applies_to_user_names_of_plugins() -> None:
    """Also if the plug-in's parser drops the user, so that its URL has no user."""
    for text in (
        "finger://bank.example@evil.example/",
        "finger://@evil.example/x",
        "<finger://a@evil.example>",
    ):
        (finding,) = check(text).findings
        assert (finding.rule, finding.action) == ("S06", "warn")
        assert "'evil.example'" in finding.detail
        assert check(text, policy=UNTRUSTED).action == "refuse"
    for text in ("finger://h.example/a@b", "finger://h.example#a@b", "finger://h.example?a@b"):
        assert "S06" not in check(text).rules


def test_s06_hides_passwords_of_plugins() -> None:
    text = "finger://me:sesame@h.example/"
    verdict = check(text)
    assert verdict.rules == ("S06",)
    assert len(verdict.findings) == 2  # the second is for the user name
    shown = (redact(text), parse(text).shown, repr(parse(text)), repr(verdict), explain(text).url)
    assert not [words for words in shown if "sesame" in words]


@pytest.mark.parametrize(
    ("url", "action"),
    [
        ("finger://h.example/a", "allow"),
        ("finger://h.example:79/a", "allow"),
        ("finger://h.example:6379/a", "refuse"),  # the URL takes this port for the scheme's own
        ("finger://h.example:25/a", "refuse"),
        ("finger://h.example:80/a", "refuse"),
        ("finger://h.example:7900/a", "warn"),
        ("netstring://h.example:2079/a", "allow"),
        ("netstring://h.example:6379/a", "refuse"),
    ],
)
def test_s04_uses_default_port_of_plugin_definition(url: str, action: str) -> None:
    verdict = check(url)
    assert (verdict.action, verdict.rules) == (action, () if action == "allow" else ("S04",))


@pytest.mark.parametrize(
    ("url", "origin", "referrer", "rules"),
    [
        ("finger://-oProxyCommand/", "user", None, ("S18",)),
        ("finger://h.example/", "derived", ("http://h.example/", None), ("S10",)),
        ("finger://h.example/", "chosen", MENU, ("S20",)),
        ("http://h.example/", "derived", ("finger://h.example/", None), ("S10",)),
        ("file:///etc/passwd", "chosen", ("finger://h.example/", None), ("S12",)),
        ("finger://10.0.0.1/", "chosen", ("finger://h.example/", "93.184.216.34"), ("S08",)),
    ],
)
def test_other_rules_apply_to_plugins(
    url: str, origin: Origin, referrer: tuple[str, str | None] | None, rules: tuple[str]
) -> None:
    verdict = check(url, origin=origin, referrer=referrer)
    assert (verdict.action, verdict.rules) == ("refuse", rules)


def test_encoded_host_of_plugin_is_recognized() -> None:
    """The plug-in's parser records no positions."""
    assert check("finger://u%65@h.example/", policy=UNTRUSTED).rules == ("S06",)
    assert check("finger://%65vil.example/", policy=UNTRUSTED).rules == ("S07",)
    assert check("finger://%65vil.example/").action == "allow"
    assert "encoded-host" in parse("http://%65vil.example/").findings


async def test_tls_required_applies_to_plugins() -> None:
    """A plug-in that does not declare TLS does not have it."""
    with ListeningSockets() as watch:
        url = f"finger://127.0.0.1:{watch.port}/a"
        async with Resolver(
            policy=Policy(allow_port={watch.port}), options=Options(tls="require")
        ) as session:
            with pytest.raises(NotConfigured, match="TLS is required"):
                await session.fetch(url)
        assert watch.received_nothing()
    registry.check_tls(parse("netstring://h.example/"), "require")


async def test_tls_required_applies_to_gateways() -> None:
    """The gateway's URL is the one that is requested."""
    with ListeningSockets() as watch:
        session = Resolver(
            policy=Policy(allow_port={watch.port}),
            options=Options(tls="require"),
            gateways={"x-foo": f"http://127.0.0.1:{watch.port}/?u="},
        )
        async with session:
            with pytest.raises(NotConfigured, match="http"):
                await session.fetch("x-foo:bar")
        assert watch.received_nothing()


async def test_plugin_url_without_host_is_invalid() -> None:
    for text in ("finger:///a", "finger:", "finger://:79/a", "finger://u@:79/"):
        async with Resolver() as session:
            with pytest.raises(InvalidUrl) as caught:
                await session.fetch(text)
        assert (caught.value.kind, caught.value.exit_code) == ("no-host", 12)


#: Components that may contain a line end: their length is sent before them, or they are never sent.
MAY_HOLD = {
    **{("wais", name): LINE_END for name in ("search", "wtype", "wpath")},
    ("wais", "database"): LINE_END[1:],
    **{(scheme, name): LINE_END for scheme in ("telnet", "telnets") for name in ("user", "password")},
    **{("file", name): LINE_END for name in ("user", "password")},
    ("file", "segments"): LINE_END[1:],
}
#: A URL of each scheme.
TAKEN = {subject.scheme: subject.document.format(at="127.0.0.1", folder="/srv") for subject in CASES}


def test_rules_table_matches_scheme_components() -> None:
    assert set(RULES) == set(registry.SCHEMES) == set(TAKEN)
    for rules in RULES.values():
        sharing = [scheme for scheme, others in RULES.items() if others.components is rules.components]
        there = {field.name for scheme in sharing for field in fields(parse(TAKEN[scheme]))}
        assert set(rules.components) <= there


@pytest.mark.parametrize("scheme", sorted(TAKEN))
@pytest.mark.parametrize("octet", LINE_END)
def test_s02_checks_every_component_of_every_scheme(scheme: str, octet: int) -> None:
    """A URL built by a program may contain any byte in any field, whether or not a table lists the field."""
    url = parse(TAKEN[scheme])
    bad = b"a" + bytes((octet,)) + b"b"
    for field in fields(url):
        if field.name in ("scheme", "fragment", "text", "findings", "places"):
            continue
        for value in _values(str(field.type), bad):
            changed = replace(url, places=(), **{field.name: value})
            verdict = judge(changed, Policy(allow_password=True))
            allowed = octet in MAY_HOLD.get((scheme, field.name), ())
            assert (verdict.action != "refuse") is allowed, (field.name, value, verdict)


def _values(annotation: str, bad: bytes) -> tuple[Any, ...]:
    """Return the bytes as values of a field with this annotation; a number cannot contain them."""
    if annotation.startswith("tuple[bytes"):
        return ((b"x", bad),)
    if annotation.startswith("tuple["):
        return (((bad, b"x"),), ((b"x", bad),))
    return (bad,) if "bytes" in annotation else (bad.decode(),) if "str" in annotation else ()
