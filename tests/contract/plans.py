"""The plans that are kept, one a line: `{"url", "plan"}`, and `case` where the options are those of a case.

They are those of an installation with all extras. A plan that changes on purpose changes its line:
`python -m tests.contract.plans` writes every line anew, for the URLs that are there, and what the difference
shows is what users will notice.
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
from tests.contract.cases import CASES, WISHES

PLANS = Path(fixtures.__file__).with_name("plans.jsonl")

#: Where the servers of the cases are in a plan that is kept, and the folder.
AT = "server.example:4021"
FOLDER = "/srv/files"

_OPTIONS = {case.name: case.options for case in WISHES}


def kept() -> list[str]:
    return PLANS.read_text(encoding="ascii").splitlines()


def line_of(url: str, case: str | None) -> str:
    """Today's plan of the URL as a line. `case` names one of `WISHES`."""
    options = Options() if case is None else _OPTIONS[case]
    plan = explain(url, news_server="news.example", options=options).as_json()
    assert plan.pop("proxy") is None  # nobody named one, and no line says so
    named = {"url": url} if case is None else {"url": url, "case": case}
    return json.dumps({**named, "plan": plan})


def named_by(line: str) -> tuple[str, str | None]:
    """The URL and the case of a line."""
    record = json.loads(line)
    return record["url"], record.get("case")


def urls_of_cases() -> Iterator[tuple[str, str | None]]:
    """Every URL of the contract's cases, and which options it has."""
    for case in CASES:
        yield from ((url, None) for url in _urls(case))
    for case in WISHES:
        yield from ((url, case.name) for url in _urls(case))


def _urls(case: Case) -> Iterator[str]:
    for url in (case.document, case.listing, case.missing, case.login):
        if url is not None:
            yield url.format(at=AT, folder=FOLDER)


@contextmanager
def all_extras() -> Iterator[None]:
    """As if each of them were installed. No plan undoes a coding, or makes a frame."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codings, "find_codings", lambda: {"br": _unused, "zstd": _unused})
        patch.setattr(http2, "find_frames", lambda: _unused)
        yield


def _unused(*_: int) -> NoReturn:
    raise AssertionError("a plan needs no octets")


if __name__ == "__main__":
    with all_extras():
        lines = [line_of(*named_by(line)) for line in kept()]
    PLANS.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
