"""Third-party schemes, found by the entry point of an installed distribution or by registration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

import resolver
from protocols.scheme import Scheme
from resolver.url import registry

#: The schemes, each with the target of its entry point.
POINTS = {
    "finger": "tests.plugin.finger:FINGER",
    "netstring": "tests.plugin.netstring:NETSTRING",
}


def install(folder: Path, points: Mapping[str, str] = POINTS) -> None:
    """Write the metadata of an installed distribution into a folder of the module path."""
    info = folder / "schemes_of_others-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: schemes-of-others\nVersion: 1.0\n")
    lines = "".join(f"{name} = {where}\n" for name, where in points.items())
    (info / "entry_points.txt").write_text(f"[resolver.schemes]\n{lines}")


@contextmanager
def installed(folder: Path, points: Mapping[str, str] = POINTS) -> Iterator[None]:
    """Simulate the installation in this process during the context."""
    install(folder, points)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        _forget()
        try:
            yield
        finally:
            _forget()


@contextmanager
def registered(*schemes: Scheme) -> Iterator[None]:
    """Register the schemes in this process during the context."""
    there = dict(registry._registered)
    try:
        for scheme in schemes:
            resolver.register(scheme)
        yield
    finally:
        registry._registered.clear()
        registry._registered.update(there)


def _forget() -> None:
    """Clear the caches of plug-ins, which are otherwise read once per process."""
    registry._points.cache_clear()
    registry._load_plugin.cache_clear()
