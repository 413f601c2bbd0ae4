"""The safety policy: what may be sent because of a URL, decided on the parser's components alone.

`check` is the public question. The gate asks `judge` before a look-up, `judge_addresses` after it and
`judge_credentials` before a password leaves; `check_data_port`, `check_chain`, `local_name` and
`may_carry_credentials` answer what comes up later. Nothing here opens, looks up, reads or waits.

One module a noun: `octets`, `forms`, `ports`, `credentials`, `names`, `addresses`, `hops`, `files`,
`filenames`. A rule is a generator over a `Case` that yields `Ruling`s; `judgement` has their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from protocols.errors import InvalidUrl
from protocols.location import Origin, Referrer, Url
from resolver.policy.addresses import LOCALHOST, Reach, classify, literal_addresses
from resolver.policy.case import Endpoint, Server, case_of, endpoint_of
from resolver.policy.credentials import may_carry_credentials
from resolver.policy.filenames import listing_name_ok, local_name
from resolver.policy.files import is_below
from resolver.policy.hops import check_chain, check_hops
from resolver.policy.judgement import judge, judge_addresses, judge_all, judge_credentials
from resolver.policy.ports import check_data_port
from resolver.policy.settings import Policy
from resolver.policy.verdict import Ruling, Verdict, strictest
from resolver.url import parse

__all__ = [
    "LOCALHOST",
    "Endpoint",
    "Policy",
    "Reach",
    "Ruling",
    "Server",
    "Verdict",
    "check",
    "check_chain",
    "check_data_port",
    "check_hops",
    "classify",
    "endpoint_of",
    "is_below",
    "judge",
    "judge_addresses",
    "judge_credentials",
    "listing_name_ok",
    "literal_addresses",
    "local_name",
    "may_carry_credentials",
    "refused_text",
    "strictest",
]


def check(
    url: str | Url,
    *,
    policy: Policy | None = None,
    origin: Origin = "user",
    referrer: tuple[str, str | None] | None = None,
    resolves: Mapping[str, Sequence[str]] | None = None,
    gateways: Mapping[str, str] | None = None,
) -> Verdict:
    """The policy's verdict on a URL, without any I/O. Never raises for a URL: what is none is refused
    by S01.

    `referrer` is the URL that led here and the address it was fetched from. `resolves` says what a
    look-up of a host would give, so that S08 can judge a name; without it only literal addresses are.
    """
    try:
        parsed = parse(url) if isinstance(url, str) else url
    except InvalidUrl as error:
        return refused_text(error)
    where = None if referrer is None else Referrer(*referrer)
    case = case_of(parsed, Policy.default() if policy is None else policy, origin, where)
    host = "" if case.endpoint is None else case.endpoint.host
    resolved = {_name(name): found for name, found in (resolves or {}).items()}.get(_name(host))
    return judge_all(case, gateways or {}, resolved)


def _name(host: str) -> str:
    """A host name as look-ups see it: a trailing dot changes nothing but where the search begins."""
    return host.lower().removesuffix(".")


def refused_text(error: InvalidUrl) -> Verdict:
    """S01: the verdict on a text that the parser refused."""
    ruling = Ruling(rule="S01", action="refuse", detail=error.message, position=error.position)
    return Verdict(action="refuse", rulings=(ruling,), invalid=error)
