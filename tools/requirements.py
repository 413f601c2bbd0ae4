"""Print the requirements of dependency groups for pip: `tools/requirements.py [--lowest] GROUP...`.

The groups are the `[dependency-groups]` of pyproject.toml (PEP 735). pip supports dependency groups since
version 25.1, but Debian's Python 3.11 has pip 23.0. `--lowest` pins each lower bound (`>=` becomes `==`),
also in the requirements of the package; pip does not have such an option. This program needs only the
standard library.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


def read_pyproject() -> dict[str, Any]:
    """Return the tables of pyproject.toml."""
    return tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))


def in_group(name: str) -> Iterator[str]:
    """Yield the requirements of a group, including the requirements of included groups."""
    for each in read_pyproject()["dependency-groups"][name]:
        if isinstance(each, str):
            yield each
        else:
            yield from in_group(each["include-group"])


def requirements(groups: Sequence[str], *, lowest: bool = False) -> list[str]:
    """Return the requirements of the groups without duplicates.

    If `lowest` is set, the lower bounds are pinned, and the requirements of the package are included.
    """
    lines = [requirement for group in groups for requirement in in_group(group)]
    if lowest:
        package: list[str] = read_pyproject()["project"]["dependencies"]
        lines = [requirement.replace(">=", "==") for requirement in [*package, *lines]]
    return list(dict.fromkeys(lines))


if __name__ == "__main__":
    words = sys.argv[1:]
    print("\n".join(requirements([word for word in words if word != "--lowest"], lowest="--lowest" in words)))
