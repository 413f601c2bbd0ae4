"""Memory bounds: neither the caches of this project nor those of Python grow with untrusted input."""

from __future__ import annotations

import codecs
import encodings
import functools
import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

import protocols
import resolver
from protocols.news.article import declared_charset, decode_field
from protocols.news.listing import compile_wildmat
from protocols.text import find_codec
from resolver import Policy
from resolver.policy.addresses import classify
from resolver.terminal.text import TerminalText
from resolver.transfer.response import decode_as

#: The maximum of entries of a bounded cache.
MOST = 4_096


def spelling(number: int) -> str:
    """Return a spelling of the encoding name UTF-8, unique for each number, that Python would accept."""
    return f"utf{format(number, 'b').replace('0', '-').replace('1', '!')}8"


#: Functions that receive untrusted text, called with a new text each time.
FEEDS: dict[str, Callable[[int], object]] = {
    "schemes": lambda n: resolver.check(f"s{n}://h/"),
    "schemes in plans": lambda n: resolver.explain(f"s{n}:x"),
    "hosts": lambda n: resolver.check(f"http://h{n}.example:{n + 1}/", origin="derived"),
    "labels": lambda n: resolver.check(f"http://xn--{n}a.example/"),
    "addresses": lambda n: classify(f"10.{n >> 8}.{n & 255}.1"),
    "referrers": lambda n: resolver.check(
        "http://h/", origin="chosen", referrer=(f"http://r{n}/", f"1.1.1.{n}")
    ),
    "policies": lambda n: resolver.check(
        "http://10.0.0.1/", policy=Policy(allow_address={f"10.0.{n >> 8}.0/24"})
    ),
    "every scheme": lambda n: [
        resolver.check(f"{name}://h/{n}?{n}") for name in ("ftp", "gopher", "wais", "news")
    ],
    "charsets": lambda n: decode_as(b"caf\xe9", f"charset-{n}"),
    "spellings": lambda n: decode_as(b"caf\xe9", spelling(n)),
    "charsets on a terminal": lambda n: TerminalText(f"t-{n}").feed(b"\xe9"),
    "spellings on a terminal": lambda n: TerminalText(spelling(n)).feed(b"\xe9"),
    "charsets of articles": lambda n: declared_charset(f"text/plain; charset=a{n}"),
    "encoded words": lambda n: decode_field(f"=?{spelling(n)}?Q?a?= =?w{n}?Q?a?=".encode()),
    "fields in a charset": lambda n: decode_field(b"\xe9", spelling(n)),
    "patterns": lambda n: compile_wildmat(f"a{n}*".encode()),
}


def modules() -> Iterator[ModuleType]:
    for package in (protocols, resolver):
        for module_info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module_info.name.endswith("__main__"):
                yield importlib.import_module(module_info.name)


def caches() -> dict[str, functools._lru_cache_wrapper[object]]:
    """Return each cached function of both packages, by its name."""
    return {
        f"{module.__name__}.{name}": value
        for module in modules()
        for name, value in vars(module).items()
        if isinstance(value, functools._lru_cache_wrapper) and value.__module__ == module.__name__
    }


def sizes() -> dict[str, int]:
    """Return the size of each cache and of each unbounded container, by name."""
    result = {name: cache.cache_info().currsize for name, cache in caches().items() if not _bound(cache)}
    for module in modules():
        for name, value in vars(module).items():
            if isinstance(value, (dict, list, set)) and not name.startswith("__"):
                result[f"{module.__name__}.{name}"] = len(value)
    return {**result, "codecs": len(vars(encodings)["_cache"]), "modules": len(sys.modules)}


def _bound(cache: functools._lru_cache_wrapper[object]) -> int | None:
    return cache.cache_info().maxsize


def test_cache_bounds_are_small() -> None:
    bounds = {name: _bound(cache) for name, cache in caches().items()}
    assert bounds
    assert [name for name, bound in bounds.items() if bound is not None and bound > MOST] == []


@pytest.mark.parametrize("feed", FEEDS)
def test_caches_do_not_grow_with_untrusted_input(feed: str) -> None:
    for number in range(100):  # the first calls import all modules
        FEEDS[feed](number)
    before = sizes()
    for number in range(100, 400):
        FEEDS[feed](number)
    assert sizes() == before


def test_untrusted_charset_is_not_passed_to_codecs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def watch(name: str) -> None:
        asked.append(name)

    codecs.register(watch)
    try:
        for name in (
            "klingon",
            "x" * 41,
            "x" * 60_000,
            "encodings.aliases",
            "aliases",
            "os",
            "..",
            "a/b",
            "a\0b",
        ):
            for feed in (find_codec, lambda name: decode_as(b"\xe9", name), TerminalText):
                feed(name)
    finally:
        codecs.unregister(watch)
    assert asked == []
