"""What the README says of the matrix is what is tested."""

from __future__ import annotations

import re

from tests.faults.command import CHECKOUT
from tests.faults.table import cells, table


def test_the_readme_has_the_table() -> None:
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    assert table() in readme
    assert f"{cells()} cells" in " ".join(readme.split())


def test_every_cell_is_counted() -> None:
    last = table().splitlines()[-1]
    assert sum(int(number) for number in re.findall(r"[0-9]+", last)) == cells()
