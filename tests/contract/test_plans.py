"""Plans of `explain` do not change, byte for byte.

`fixtures/plans.jsonl` has the plan of every URL of the contract's cases, of the transcripts and of
`fixtures/recordings/urls.jsonl`. The plans date from the time when a dialogue ended before its body. Twelve
lines changed on purpose:

- An empty FTP password is shown as empty (`ftp://u:@ftp.example/f`, `ftp://foo:@host.com/`,
  `ftp://:@host.com/`).
- Size, date and mode of a Prospero object are requested too (all eight Prospero URLs with a host).
- A file without a name is refused (`ftp://ftp.example/pub/;type=i`).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from resolver.url.registry import SCHEMES
from tests.contract.plans import all_extras, line_of, stored_plans, url_and_case, urls_of_cases

LINES = stored_plans()


@pytest.fixture(autouse=True)
def _all_extras() -> Iterator[None]:
    with all_extras():
        yield


@pytest.mark.parametrize("line", LINES, ids=lambda line: " ".join(filter(None, url_and_case(line))))
def test_plan_equals_stored_plan(line: str) -> None:
    assert line_of(*url_and_case(line)) == line


def test_stored_plans_cover_cases_and_schemes() -> None:
    urls = {url_and_case(line) for line in LINES}
    assert set(urls_of_cases()) <= urls
    assert {url.partition(":")[0] for url, _ in urls} >= set(SCHEMES)
