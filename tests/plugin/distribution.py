"""The second distribution, `fixtures/plugins`, as it is built and installed: without a network, into a
folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from tests.fresh import environment
from tests.hang import HANG

CHECKOUT = Path(__file__).parents[2]
PLUGINS = CHECKOUT / "fixtures/plugins"


def install(folder: Path) -> Path:
    """Its wheel, unpacked into a folder of the module path: a wheel of Python modules is no more than
    that."""
    wheels, site = folder / "wheels", folder / "site"
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)],
        cwd=PLUGINS,
        capture_output=True,
        check=True,
        timeout=HANG,
    )
    (wheel,) = wheels.iterdir()
    with ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def variables(site: Path, home: Path) -> dict[str, str]:
    """What a Python is told that has it installed, and no configuration but what is at `home`."""
    path = os.pathsep.join((str(site), str(CHECKOUT)))
    return environment() | {"PYTHONPATH": path, "XDG_CONFIG_HOME": str(home), "PYTHONSAFEPATH": "1"}
