"""The second distribution, `fixtures/plugins`, built and installed into a folder without a network."""

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


def install(folder: Path, source: Path = PLUGINS) -> Path:
    """Build the wheel of a distribution, unpack it into a folder of the module path, and return the folder.

    A wheel of Python modules needs no other installation.
    """
    wheels, site = folder / "wheels", folder / "site"
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)],
        cwd=source,
        capture_output=True,
        check=True,
        timeout=HANG,
    )
    (wheel,) = wheels.iterdir()
    with ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def variables(site: Path, home: Path) -> dict[str, str]:
    """Return the environment of a Python with the distribution and only the configuration at `home`."""
    path = os.pathsep.join((str(site), str(CHECKOUT)))
    return environment() | {"PYTHONPATH": path, "XDG_CONFIG_HOME": str(home), "PYTHONSAFEPATH": "1"}
