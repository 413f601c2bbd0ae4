"""The stored plans, one per line: `{"url", "plan"}`, and `case` for a line with the options of a case.

The plans are those of an installation with all extras. After an intended change, `python -m
tests.contract.plans` rewrites every line for the listed URLs; the diff shows the changes that users notice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

import fixtures
from resolver import Options, explain
from resolver.testing.contract import Case
from resolver.transfer import extras as codings
from resolver.transfer import extras as http2
from tests.contract.cases import CASES, OPTION_CASES

PLANS = Path(fixtures.__file__).with_name("plans.jsonl")

#: Address of the servers, and the directory, in stored plans.
AT = "server.example:4021"
FOLDER = "/srv/files"

_OPTIONS = {case.name: case.options for case in OPTION_CASES}


def stored_plans() -> list[str]:
    return PLANS.read_text(encoding="ascii").splitlines()


def line_of(url: str, case: str | None) -> str:
    """Return the current plan of the URL as a line. `case` names a case of `OPTION_CASES`."""
    options = Options() if case is None else _OPTIONS[case]
    plan = explain(url, news_server="news.example", options=options).as_json()
    assert plan.pop("proxy") is None  # no proxy is configured, and no line contains one
    named = {"url": url} if case is None else {"url": url, "case": case}
    return json.dumps({**named, "plan": plan})


def url_and_case(line: str) -> tuple[str, str | None]:
    """Return the URL and the case of a line."""
    record = json.loads(line)
    return record["url"], record.get("case")


def urls_of_cases() -> Iterator[tuple[str, str | None]]:
    """Yield every URL of the contract's cases, with the name of the case if it has options."""
    for case in CASES:
        yield from ((url, None) for url in _urls(case))
    for case in OPTION_CASES:
        yield from ((url, case.name) for url in _urls(case))


def _urls(case: Case) -> Iterator[str]:
    for url in (case.document, case.listing, case.missing, case.login):
        if url is not None:
            yield url.format(at=AT, folder=FOLDER)


@contextmanager
def all_extras() -> Iterator[None]:
    """Simulate the installation of all extras. Plans neither decode bodies nor create frames."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codings, "find_codings", lambda: {"br": _unused, "zstd": _unused})
        patch.setattr(http2, "find_frames", lambda: _unused)
        yield


def _unused(*_: int) -> NoReturn:
    raise AssertionError("a plan needs no data")


if __name__ == "__main__":
    with all_extras():
        lines = [line_of(*url_and_case(line)) for line in stored_plans()]
    PLANS.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
