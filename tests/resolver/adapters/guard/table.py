"""The outcomes of SSRF attacks on HTTP clients, with the guard and without the guard.

`python -m tests.resolver.adapters.guard.table` writes docs/explanation/guard.md. The tests measure each
outcome: the internal server counts its connections.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap

from tests.resolver.adapters.guard.attacks import ATTACKS, CLIENTS

PAGE = Path(__file__).parents[4] / "docs/explanation/guard.md"

#: The outcome of each attack on each client. A key of `REASONS` means that the attack does not apply.
GUARDED = """
attack           httpx      httpx2     requests   niquests   aiohttp    urllib3    asyncio    sockets
literal          S08        S08        S08        S08        S08        S08        S08        S08
name             S08        S08        S08        S08        S08        S08        S08        S08
mapped           S08        S08        S08        S08        S08        S08        S08        S08
mapped-name      S08        S08        S08        S08        S08        S08        S08        S08
scoped           S01        S01        error      S01        S01        S01        S01        S01
rebinding        S08        S08        S08        S08        S08        S08        S08        S08
rebinding-kept   pinned     pinned     S08        S08        S08        S08        S08        S08
second-address   error      error      error      error      error      error      error      error
redirect         S08        S08        S08        S08        S08        S08        redirects  redirects
redirect-name    S08        S08        S08        S08        S08        S08        redirects  redirects
redirect-mapped  S08        S08        S08        S08        S08        S08        redirects  redirects
environment      S09        S09        S09        S09        S09        variables  proxies    proxies
proxy            per-client per-client S09        S09        S09        per-client proxies    proxies
pooled           S08        S08        S08        S08        S08        S08        S08        S08
retried          error      error      S08        S08        S08        S08        retries    retries
copied           S08        S08        S08        S08        pickles    S08        sessions   sessions
renewed          pools      pools      S08        S08        pools      pools      pools      pools
unix             S19        S19        error      S19        error      S19        error      keyword
"""
BARE = """
attack           httpx      httpx2     requests   niquests   aiohttp    urllib3    asyncio    sockets
literal          through    through    through    through    through    through    through    through
name             through    through    through    through    through    through    through    through
mapped           through    through    through    through    through    through    through    through
mapped-name      through    through    through    through    through    through    through    through
scoped           through    through    error      through    through    through    through    through
rebinding        through    through    through    through    through    through    through    through
rebinding-kept   through    through    through    through    through    through    through    through
second-address   through    through    through    through    through    through    through    through
redirect         through    through    through    through    through    through    redirects  redirects
redirect-name    through    through    through    through    through    through    redirects  redirects
redirect-mapped  through    through    through    through    through    through    redirects  redirects
environment      through    through    through    through    through    variables  proxies    proxies
proxy            per-client per-client through    through    through    per-client proxies    proxies
pooled           through    through    through    through    through    through    through    through
retried          through    through    through    through    through    through    retries    retries
copied           through    through    through    through    pickles    through    sessions   sessions
renewed          pools      pools      through    through    pools      pools      pools      pools
unix             error      error      error      through    error      error      through    keyword
"""

#: The reasons why an attack does not apply to a client.
REASONS = {
    "redirects": "the client does not follow redirects",
    "variables": "the client does not read proxy variables",
    "proxies": "the client does not support proxies",
    "per-client": (
        "a request cannot select a proxy. The argument `proxy` of an httpx client replaces the guarded "
        "transport, and urllib3 uses another class for a proxy (`ProxyManager`). So the guard does not "
        "check requests through these proxies"
    ),
    "retries": "the client does not retry",
    "pickles": "a session cannot be pickled or deeply copied",
    "sessions": "the client does not have sessions",
    "pools": "the client does not have a method `init_poolmanager`",
    "keyword": "the client does not accept an open socket as a keyword",
}


def outcomes(table: str) -> dict[tuple[str, str], str]:
    """Return the outcomes of `GUARDED` or `BARE`, by attack and client."""
    (_, *clients), *rows = (line.split() for line in table.strip().splitlines())
    return {
        (attack, client): outcome
        for attack, *cells in rows
        for client, outcome in zip(clients, cells, strict=True)
    }


def page() -> str:
    """Return the text of docs/explanation/guard.md."""
    guarded, bare = outcomes(GUARDED), outcomes(BARE)
    applied = sum(outcome not in REASONS for outcome in guarded.values())
    through = sum(outcome == "through" for outcome in bare.values())
    text = (
        f"The tables show {len(ATTACKS)} attacks (SSRF) on {len(CLIENTS)} HTTP clients. Each attack tries to "
        f"reach an internal server. {applied} of the {len(guarded)} combinations of attack and client are "
        f"possible. Without the guard (bare clients), {through} attacks reached the internal server, because "
        "most clients are designed to reach any address. With the guard, the internal server did not accept "
        "a connection, and therefore did not receive data. "
        "[Fetch untrusted URLs](../how-to/untrusted-urls.md) shows how to use the guard."
    )
    legend = (
        "**through**: the internal server accepted a connection.",
        "A rule such as `S08`: this [rule of the policy](../reference/policy.md) refused the request.",
        "**pinned**: the client connected to the address that the guard had checked, and the request "
        "succeeded.",
        "**error**: the request failed with another error. For example, the server did not respond, or the "
        "client does not support the URL.",
        "**n/a**: the attack does not apply, for the reason with this number.",
    )
    lines = [
        "<!-- Generated by `python -m tests.resolver.adapters.guard.table`. -->",
        "",
        "# Attacks on guarded clients",
        "",
        *_wrapped(text),
        "",
        *_wrapped(
            "In the tests, 127.0.0.2 represents a public server, which the policy allows, and 127.0.0.1 "
            "represents an internal server. A fixed table replaces DNS lookups. "
            "`tests/resolver/adapters/guard/test_attacks.py` measures each cell."
        ),
        "",
        "The cells have these values:",
        "",
        *(line for item in legend for line in _wrapped(f"- {item}", "  ")),
        "",
        "## With the guard",
        "",
        *_table(guarded),
        "",
        "## Bare clients",
        "",
        *_table(bare),
        "",
        "## Attacks that do not apply",
        "",
        *(
            line
            for number, reason in enumerate(REASONS.values(), 1)
            for line in _wrapped(f"{number}. {reason[0].upper()}{reason[1:]}.", "   ")
        ),
    ]
    return "\n".join(lines) + "\n"


def _table(cells: dict[tuple[str, str], str]) -> list[str]:
    return [
        f"| attack | {' | '.join(CLIENTS)} |",
        f"|---{'|---' * len(CLIENTS)}|",
        *(
            f"| {attack.words} | {' | '.join(_cell(cells[name, client]) for client in CLIENTS)} |"
            for name, attack in ATTACKS.items()
        ),
    ]


def _cell(outcome: str) -> str:
    return f"n/a ({list(REASONS).index(outcome) + 1})" if outcome in REASONS else outcome


def _wrapped(text: str, indent: str = "") -> list[str]:
    return wrap(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
