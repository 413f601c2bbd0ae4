"""What a peer may say: whatever it is, it gives a value or an error of ours, within the limits, and soon."""

from __future__ import annotations

import traceback
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import trio

import resolver
from protocols.contract import Limits
from protocols.errors import (
    Declined,
    Disconnected,
    IntegrityError,
    LimitExceeded,
    ProtocolError,
    ResolveError,
    TimedOut,
    TlsError,
)
from resolver import registry
from resolver.retrieval.naming import local_file_name
from resolver.retrieval.retry import RetryPolicy
from resolver.testing.contract import peers
from resolver.testing.contract.case import Case
from resolver.testing.contract.check import ContractCheck, served
from resolver.testing.contract.setting import (
    FULL,
    PATIENT,
    WAYS,
    CaseSetting,
    IdleServer,
    check_nothing_left,
    settled,
)

#: Octets of a body: one that has no end is cut there.
BODY = 100_000
CALM = Limits(idle=PATIENT, connect=PATIENT, body=BODY, body_everywhere=True)
#: For those who wait for one another.
SHORT = replace(CALM, idle=0.3, connect=2.0)
ONCE = RetryPolicy(tries=1)

#: Seeds of what is random; more with `RESOLVE_TESTS=full`.
SEEDS = range(100 if FULL else 3)

#: What may come of octets that mean nothing; where some are taken for a body, nothing.
MEANINGLESS = (Declined, Disconnected, IntegrityError, ProtocolError, TimedOut, TlsError)


async def meet(setting: CaseSetting, port: int, folder: Path, limits: Limits) -> None:
    """Ask the peer at that port for the document, and for the entries of a listing."""
    case = setting.case
    there = CaseSetting(case, IdleServer(port), folder)
    for name in ("fetch", "save") if case.listing is None else ("fetch", "save", "entries"):
        url = there.url(case.listing if name == "entries" else case.login or case.document)
        path = folder / f"{name} {port}"
        async with there.resolver(limits=limits, patience=ONCE) as session:
            try:
                await WAYS[name](session, url, path)
            except MEANINGLESS as error:
                check_error(error, url, case.secret)
                assert not path.exists()


def check_error(error: ResolveError, url: str, secret: str) -> None:
    """It says of which URL, and never shows a password."""
    assert error.url == resolver.parse(url).shown
    assert secret not in "".join([str(error.url), repr(error), *traceback.format_exception(error)])
    assert not isinstance(error, LimitExceeded) or hasattr(CALM, error.limit)


async def check_peer(attend: peers.Attend, setting: CaseSetting, folder: Path) -> None:
    """One that says it to everybody, inside TLS where the scheme is, and in the clear where it is not."""
    before = await settled()
    async with trio.open_nursery() as nursery:
        tls = setting.tls if setting.case.tls else None
        await meet(setting, await peers.serve(nursery, attend, tls), folder, CALM)
        if tls is not None:
            await meet(setting, await peers.serve(nursery, attend), folder, CALM)
        nursery.cancel_scope.cancel()
    await check_nothing_left(before)


async def check_babble(setting: CaseSetting, folder: Path) -> None:
    for seed in SEEDS:
        await check_peer(partial(peers.babble, seed=seed), setting, folder)


async def check_garbled(setting: CaseSetting, folder: Path) -> None:
    """What its own server says, with octets changed, lost and doubled on the way."""
    for seed in SEEDS:
        async with trio.open_nursery() as nursery:
            garble = partial(peers.garble, seed=seed, port=setting.port)
            await meet(setting, await peers.serve(nursery, garble), folder, SHORT)
            nursery.cancel_scope.cancel()


async def check_limits(setting: CaseSetting, folder: Path) -> None:
    """A body of one octet too many is not taken, and what was saved of it is not under its name."""
    url, most = setting.url(setting.case.document), len(setting.case.content) - 1
    async with setting.resolver(limits=replace(CALM, body=most), patience=ONCE) as session:
        for way in ("fetch", "stream", "save"):
            with pytest.raises(LimitExceeded) as caught:
                await WAYS[way](session, url, folder / "saved")
            assert (caught.value.limit, caught.value.exit_code) == ("body", 14)
            assert not (folder / "saved").exists()


async def check_name(setting: CaseSetting, folder: Path) -> None:
    """What a URL is saved as, where nobody says otherwise, is one name made of it."""
    assert local_file_name(resolver.parse(setting.url(setting.case.document))) == setting.case.saved


def _speaks_tcp(case: Case) -> bool:
    row = registry.find(case.scheme)
    return served(case) and row is not None and row.transport == "tcp"


def _speaks_in_clear(case: Case) -> bool:
    return _speaks_tcp(case) and not case.tls


#: Of peers that say something else.
PEERS: tuple[ContractCheck, ...] = (
    ContractCheck("a peer that leaves", partial(check_peer, peers.leave), _speaks_tcp),
    ContractCheck("a peer that breaks off", partial(check_peer, peers.break_off), _speaks_tcp),
    ContractCheck("a peer that has no end", partial(check_peer, peers.say_endlessly), _speaks_tcp),
    ContractCheck("octets that mean nothing", check_babble, _speaks_tcp),
    ContractCheck("octets that are garbled", check_garbled, _speaks_in_clear),
)
CHECKS: tuple[ContractCheck, ...] = (
    *PEERS,
    ContractCheck("limits", check_limits, lambda case: len(case.content) > 1),
    ContractCheck("names of files", check_name, lambda case: case.saved is not None),
)
