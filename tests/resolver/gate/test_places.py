"""What was found of a place is never looser when it is remembered than when it is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import fixtures
from protocols.location import Origin
from resolver import (
    Host,
    HostUrl,
    InvalidUrl,
    Limits,
    Policy,
    Referrer,
    Refused,
    ResolveError,
    Url,
    Verdict,
    parse,
)
from resolver import policy as policies
from resolver.network import admission as admissions
from resolver.policy import literal_addresses
from resolver.policy.subject import Subject
from resolver.transfer.network import Network

#: What other rules read than those on the place, at places of which nothing is to be said.
ODD = (
    "gopher://h.example/0a%0D%0Ab",
    "gopher://h.example/0a%09%09+text/plain%0Ab",
    "gopher://h.example/hURL:http://10.0.0.1/",
    "gopher://h.example/hURL:javascript:x",
    f"gopher://h.example/0{'a' * 5_000}",
    "http://h.example/%0d%0a",
    "http://h%2Eexample/",
    "http://h.example@h.example/",
    "http://me:secret@h.example/",
    "http://:@h.example/",
    "http://h.example:25/",
    "http://127.0.0.1/a@b",
    "http://xn--80ak6aa92e.example/",
    "ftp://h.example/a%0Db/c",
    "ftp://h.example/a%20b/c%01",
    "https://169.254.169.254/latest/meta-data/",
    "http://localhost/",
    "http://[::1]/",
    "http://[fe80::1]/",
    "telnet://-h.example/",
    "x-unheard-of://h.example/",
)
NEWS = ("nntp", "nntps")
HOSTS = {"h.example": Host(limits=Limits(idle=7.0)), "localhost": Host(limits=Limits(hops=3))}


def urls() -> Iterator[Url]:
    kept = Path(fixtures.__file__).with_name("plans.jsonl").read_text().splitlines()
    for text in dict.fromkeys((*ODD, *(json.loads(line)["url"] for line in kept))):
        try:
            yield parse(text, origin="user")
        except InvalidUrl:
            continue


URLS = tuple(urls())
PORTS = frozenset(url.effective_port for url in URLS if isinstance(url, HostUrl)) - {25}
POLICIES = {
    "default": Policy(allow_port=PORTS),
    "cautious": replace(Policy.cautious(), allow_port=PORTS),
    "untrusted": replace(Policy.untrusted(), allow_port=PORTS),
}


def outcome(network: Network, url: Url, origin: Origin) -> tuple[object, ...]:
    """What it comes to, and the addresses that may be connected to without a look-up."""
    try:
        admission = network.judged(url, origin=origin)
        found = literal_addresses(admission.place[0])
        allowed = None if found is None else admission.check_addresses(found)
    except ResolveError as error:
        return type(error), str(error), error.exit_code
    assert admission.addresses_at(admission.place[0]) in (None, allowed)
    return allowed, tuple(admission.findings), admission.limits, admission.host


def of_place(url: HostUrl) -> Url:
    """A URL of the same place with nothing in it to object to."""
    host = f"[{url.host}]" if ":" in url.host else url.host
    return parse(f"{url.scheme}://{host}:{url.effective_port}/{'a.b/1' if url.scheme in NEWS else ''}")


@pytest.mark.parametrize("origin", ["user", "chosen", "derived"])
@pytest.mark.parametrize("policy", POLICIES)
async def test_a_remembered_place_is_judged_as_one_that_is_new(
    policy: str, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    remembered: list[Subject] = []

    def judge_in_place(subject: Subject, *, public_only: bool) -> Verdict:
        remembered.append(subject)
        return judged(subject, public_only=public_only)

    judged = policies.judge_in_place
    monkeypatch.setattr(admissions, "judge_in_place", judge_in_place)
    new, known = (Network(policy=POLICIES[policy], environment={}, hosts=HOSTS) for _ in range(2))
    for url in URLS:
        if isinstance(url, HostUrl) and url.host:
            outcome(known, of_place(url), origin)
    remembered.clear()
    for url in URLS:
        new._shared.places.clear()
        assert outcome(known, url, origin) == outcome(new, url, origin), url
    assert len(remembered) > 10


async def test_what_a_link_led_to_is_judged_by_that() -> None:
    """The address that led there decides, and a place that a person chose is no excuse."""
    network = Network(environment={})
    inside, found_in = parse("http://10.0.0.1/"), Referrer("http://h.example/", "93.184.215.14")
    for _ in range(2):
        network.admit(inside)
    with pytest.raises(Refused, match="S08"):
        network.admit(inside, origin="derived", referrer=found_in)


async def test_there_are_not_more_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admissions, "CAPACITY", 3)
    network = Network(environment={})
    for number in range(5):
        network.admit(parse(f"http://h{number}.example/"))
    assert [host for _, host, _, _ in network._shared.places] == ["h2.example", "h3.example", "h4.example"]
