"""The safety policy: what may be sent because of a URL, decided on the parser's components alone.

`check` is the public question. The gate asks `judge` before a look-up, `judge_addresses` after it and
`judge_credentials` before a password leaves; `check_data_port`, `check_chain`, `local_name` and
`may_carry_credentials` answer what comes up later. Nothing here opens, looks up, reads or waits.

One module a noun: `octets`, `forms`, `ports`, `credentials`, `names`, `proxies`, `proxy`, `addresses`,
`hops`, `files`, `filenames`; `schemes` has what is allowed to which scheme, `hosts` asks for other clients.
A rule is a generator over a `Subject` that yields `Decision`s; `judgement` has their order. Of each sort of
thing that it objects to it tells the first, in linear time: a hostile URL has thousands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from protocols.errors import InvalidUrl
from protocols.location import Origin, Referrer, Url
from resolver.policy.addresses import LOCALHOST, AddressScope, classify, literal_addresses
from resolver.policy.components import check_data_port
from resolver.policy.files import (
    is_below,
    is_kept_beside,
    listing_name_ok,
    local_name,
    local_path,
    name_key,
    numbered,
)
from resolver.policy.judgement import (
    judge,
    judge_addresses,
    judge_all,
    judge_credentials,
    judge_subject,
    sift_addresses,
)
from resolver.policy.proxies import check_proxy, proxy_for, proxy_variables, variables_at
from resolver.policy.redirects import check_chain, check_hops, harmless, is_same_place, may_carry_credentials
from resolver.policy.schemes import at_once
from resolver.policy.settings import Policy
from resolver.policy.subject import (
    Decision,
    Endpoint,
    NewsServer,
    Verdict,
    endpoint_of,
    host_key,
    no_place,
    strictest,
    subject_of,
)
from resolver.url.parsing import url_of

__all__ = [
    "LOCALHOST",
    "AddressScope",
    "Decision",
    "Endpoint",
    "NewsServer",
    "Policy",
    "Verdict",
    "at_once",
    "check",
    "check_chain",
    "check_data_port",
    "check_hops",
    "check_proxy",
    "classify",
    "endpoint_of",
    "harmless",
    "host_key",
    "is_below",
    "is_kept_beside",
    "is_same_place",
    "judge",
    "judge_addresses",
    "judge_credentials",
    "judge_subject",
    "listing_name_ok",
    "literal_addresses",
    "local_name",
    "local_path",
    "may_carry_credentials",
    "name_key",
    "no_place",
    "numbered",
    "proxy_for",
    "proxy_variables",
    "refused_text",
    "sift_addresses",
    "strictest",
    "subject_of",
    "variables_at",
]


def check(
    url: str | Url,
    *,
    policy: Policy | str | None = None,
    origin: Origin = "user",
    referrer: tuple[str, str | None] | None = None,
    resolves: Mapping[str, Sequence[str]] | None = None,
    gateways: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    proxy: str | None = None,
) -> Verdict:
    """The policy's verdict on a URL, without any I/O. Never raises for a URL: what is none is refused
    by S01.

    `referrer` is the URL that led here and the address it was fetched from. `resolves` says what a
    look-up of a host would give, so that S08 can judge a name; without it only literal addresses are.
    `environment` is where proxy variables may stand (S09): `os.environ`, say, which is not read by itself;
    `proxy` is the one to use for all, or `none`.

    Examples:
        >>> verdict = resolver.check("gopher://h.example:25/0x")
        >>> verdict.action, [finding.rule for finding in verdict.findings]
        ('refuse', ['S04'])
        >>> inside = {"h.example": ["10.0.0.1"]}
        >>> resolver.check("http://h.example/", policy=resolver.Policy.untrusted(), resolves=inside).action
        'refuse'
    """
    try:
        parsed = url_of(url, origin=origin)
    except InvalidUrl as error:
        return refused_text(error)
    where = None if referrer is None else Referrer(*referrer)
    variables = proxy_variables(environment or {}, proxy)
    allowed = Policy.default() if policy is None else Policy.of(policy)
    subject = subject_of(parsed, allowed, origin, where, variables=variables)
    host = "" if subject.endpoint is None else subject.endpoint.host
    resolved = {_name(name): found for name, found in (resolves or {}).items()}.get(_name(host))
    return judge_all(subject, gateways or {}, resolved)


def _name(host: str) -> str:
    """A host name as look-ups see it: a trailing dot changes nothing but where the search begins."""
    return host.lower().removesuffix(".")


def refused_text(error: InvalidUrl) -> Verdict:
    """S01: the verdict on a text that the parser refused."""
    decision = Decision(rule="S01", action="refuse", detail=error.message, position=error.position)
    return Verdict(action="refuse", decisions=(decision,), invalid=error)
