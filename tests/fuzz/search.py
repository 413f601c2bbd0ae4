"""The search of one harness with atheris, which reports the inputs that reach new lines of the sources."""

from __future__ import annotations

import sys
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import atheris

import protocols

with atheris.instrument_imports(include=["protocols", "resolver"]):
    for module in walk_packages(protocols.__path__, "protocols."):  # a scheme is imported on first use
        import_module(module.name)
    from tests.fuzz.harnesses import HARNESSES

COLLECTED = Path(__file__).parents[2] / "build/fuzz"


def collect_seeds(name: str, folder: Path = COLLECTED) -> Path:
    """Write the first inputs of a harness to its directory, and return the directory."""
    directory = folder / name
    directory.mkdir(parents=True, exist_ok=True)
    for seed in HARNESSES[name].seeds():
        (directory / sha256(seed).hexdigest()[:16]).write_bytes(seed)
    return directory


def search(name: str, *arguments: str) -> None:
    """Search until an input fails, or until an option of libFuzzer in the arguments ends the search."""
    atheris.Setup([sys.argv[0], *arguments], HARNESSES[name].feed)
    atheris.Fuzz()
