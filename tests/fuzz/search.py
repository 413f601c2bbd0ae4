"""Coverage-guided fuzzing of one harness with atheris.

atheris mutates inputs, and adds each input that reaches new lines of the sources to the corpus.
"""

from __future__ import annotations

import sys
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import atheris

import protocols

with atheris.instrument_imports(include=["protocols", "resolver"]):
    for module in walk_packages(protocols.__path__, "protocols."):  # schemes are imported lazily
        import_module(module.name)
    from tests.fuzz.harnesses import HARNESSES

COLLECTED = Path(__file__).parents[2] / "build/fuzz"


def collect_seeds(name: str, folder: Path = COLLECTED) -> Path:
    """Write the seed corpus of a harness to its directory, and return the directory."""
    directory = folder / name
    directory.mkdir(parents=True, exist_ok=True)
    for seed in HARNESSES[name].seeds():
        (directory / sha256(seed).hexdigest()[:16]).write_bytes(seed)
    return directory


def search(name: str, *arguments: str) -> None:
    """Fuzz a harness until an input fails, or until a limit in the libFuzzer options is reached."""
    atheris.Setup([sys.argv[0], *arguments], HARNESSES[name].feed)
    atheris.Fuzz()
