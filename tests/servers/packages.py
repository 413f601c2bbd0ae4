"""The files of a real server: unpacked by `unpack.sh`, or installed on this machine.

If a server is missing, its tests are skipped with a hint how to install the server. If
`RESOLVE_SERVERS=required`
is set, as in CI, the tests fail.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

_CHECKOUT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Unpacked:
    """The files of one server below `root`, which is `/` if the package is installed, and its program."""

    root: Path
    program: str

    def path(self, name: str) -> Path:
        return self.root / name

    def environment(self) -> dict[str, str]:
        """Return this process's environment with the server's libraries and Python modules added."""
        environment = dict(os.environ)
        if self.root != Path("/"):
            arch = f"{os.uname().machine}-linux-gnu"
            places = (f"usr/lib/{arch}", f"lib/{arch}", "usr/lib", "usr/lib/news")
            libraries = [self.path(place) for place in places]
            environment["LD_LIBRARY_PATH"] = ":".join(map(str, libraries))
        environment["PYTHONPATH"] = str(self.path("usr/lib/python3/dist-packages"))
        return environment


def unavailable(reason: str) -> NoReturn:
    """Skip the test, or fail it if the servers are required."""
    if os.environ.get("RESOLVE_SERVERS") == "required":
        pytest.fail(reason)
    pytest.skip(reason)


def find(server: str, program: str) -> Unpacked:
    """Return the files of `server`, located by its `program` (a path relative to the root)."""
    folder = Path(os.environ.get("RESOLVE_SERVERS_ROOT") or _CHECKOUT / ".servers")
    for root in (folder / server, Path("/")):
        if (root / program).is_file():
            return Unpacked(root.resolve(), str(root.resolve() / program))
    unavailable(f"{server} is not there; `make servers` unpacks Debian's package")
