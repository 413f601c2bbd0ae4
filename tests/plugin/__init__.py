"""Schemes of a third party, and how they come to be found: by an entry point of an installed distribution, or
because a program registers them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

import resolver
from protocols.scheme import Scheme
from resolver.url import registry

#: The schemes, each with what its entry point refers to.
POINTS = {
    "finger": "tests.plugin.finger:FINGER",
    "netstring": "tests.plugin.netstring:NETSTRING",
}


def install(folder: Path, points: Mapping[str, str] = POINTS) -> None:
    """What an installer leaves in a folder of the module path."""
    info = folder / "schemes_of_others-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: schemes-of-others\nVersion: 1.0\n")
    lines = "".join(f"{name} = {where}\n" for name, where in points.items())
    (info / "entry_points.txt").write_text(f"[resolver.schemes]\n{lines}")


@contextmanager
def installed(folder: Path, points: Mapping[str, str] = POINTS) -> Iterator[None]:
    """In this process, and no longer than that."""
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
    """In this process, and no longer than that."""
    there = dict(registry._registered)
    try:
        for scheme in schemes:
            resolver.register(scheme)
        yield
    finally:
        registry._registered.clear()
        registry._registered.update(there)


def _forget() -> None:
    """What plug-ins there are, and what they gave, is looked up once in a process."""
    registry._points.cache_clear()
    registry._load_plugin.cache_clear()
