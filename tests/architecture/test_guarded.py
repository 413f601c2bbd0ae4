"""Outputs, removals and decoders accept only checked values, and each rule finds its violations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.architecture import guarded
from tests.architecture.planted import Rule, planted
from tests.architecture.source import Module, modules, read_once

SOURCES = modules(Path(__file__).parents[2], "protocols", "resolver")

RULES: Mapping[Rule, Mapping[str, str]] = {
    guarded.values_hold_masked_urls: guarded.HOLD_PLAIN_URLS,
    guarded.only_masks_make_masked_text: {},
    guarded.only_proven_listings_remove_files: guarded.REMOVE_OWN_FILES,
    guarded.decoders_require_budget: guarded.DECODE_UNLIMITED,
}
TABLES: Mapping[str, Mapping[str, str]] = {
    "HOLD_PLAIN_URLS": guarded.HOLD_PLAIN_URLS,
    "REMOVE_OWN_FILES": guarded.REMOVE_OWN_FILES,
    "DECODE_UNLIMITED": guarded.DECODE_UNLIMITED,
    "WRITE_TEXT": guarded.WRITE_TEXT,
}


def writers(module: Module) -> list[str]:
    return guarded.writers_take_masked_text([module])


BROKEN: Mapping[Rule, str] = {
    writers: r"""
        resolver.cli.planted: import sys ¶ def shout(text: str): sys.stderr.write(text)
        resolver.cli.planted: from sys import stdout as out ¶ def shout(url: str): out.write(f'{url}')
        resolver.cli.planted: def shout(*lines: str): print(*lines)
        resolver.network.planted: def note(url: str, n: int): LOGGER.debug('%s', url)
        resolver.cli.planted: def a(t: Masked): print(t) ¶ def b(t: object): print(str(t))
    """,
    guarded.values_hold_masked_urls: r"""
        resolver.network.planted: @dataclass ¶ class Moved: ¶   url: str
        resolver.web.pages.planted: class Row(NamedTuple): ¶   final_url: str | None
        resolver.transfer.planted: class Row(NamedTuple): ¶   chain: tuple[str, ...] = ()
    """,
    guarded.only_masks_make_masked_text: r"""
        resolver.cli.planted: Masked(*words)
        resolver.cli.planted: complain(*map(Masked, lines))
        resolver.cli.planted: from typing import cast ¶ cast(Masked, url)
        resolver.cli.planted: complain(url)  # type: ignore[arg-type] # Masked
    """,
    guarded.only_proven_listings_remove_files: r"""
        resolver.trees.planted: import os ¶ def prune(names: list[str]): ¶   for n in names: os.unlink(n)
        resolver.trees.planted: from os import rename as r ¶ def move(a, b): r(a, b)
        resolver.trees.planted: import shutil ¶ def p(t: str, x: Proven | None = None): shutil.rmtree(t)
        resolver.trees.planted: def prune(path): path.unlink()
        resolver.trees.planted: def cut(url): return Proven(url, True)
        resolver.trees.planted: def cut(url): return Proven._make((url, True))
        resolver.cli.mirror: SurplusFile(('a',), False, 1, 2, None)
    """,
    guarded.decoders_require_budget: r"""
        resolver.warc.planted: import zlib ¶ def read(octets: bytes): return zlib.decompress(octets)
        resolver.warc.planted: import zlib as z ¶ def read(b, budget: Budget | None = None): z.decompressobj()
        resolver.warc.planted: from gzip import GzipFile ¶ def read(file): GzipFile(fileobj=file)
        resolver.warc.planted: import tarfile ¶ class R: ¶   def __init__(self, n): tarfile.open(n)
        resolver.transfer.planted: class R: ¶   def __init__(self): self.d = library.ZstdDecompressor()
        protocols.http.planted: def decode(unpacking: Unpacking, ratio: int): unpacking.read(ratio)
    """,
}
KEPT: Mapping[Rule, str] = {
    writers: r"""
        resolver.cli.planted: import sys ¶ def shout(text: Masked): sys.stderr.write(text)
        resolver.cli.planted: import sys ¶ def shout(name: str): sys.stderr.write('done')
    """,
    guarded.values_hold_masked_urls: r"""
        resolver.network.planted: @dataclass ¶ class Moved: ¶   url: Masked | None
        resolver.network.planted: class Work: ¶   url: str
    """,
    guarded.only_masks_make_masked_text: r"""
        resolver.cli.planted: complain(Masked(f'{url.shown}: {count}'))
        resolver.network.mask: map(Masked, lines)
    """,
    guarded.only_proven_listings_remove_files: r"""
        resolver.trees.planted: import os ¶ def drop(each: SurplusFile): os.unlink(each.path)
        resolver.trees.planted: listing = Proven.of(url, proofs)
    """,
    guarded.decoders_require_budget: r"""
        resolver.warc.planted: import zlib ¶ def read(octets: bytes, budget: Budget): zlib.decompress(octets)
        protocols.news.planted: import zlib ¶ class D: ¶   def __init__(self, b: ABudget): zlib.decompress(b)
    """,
}


@pytest.fixture(scope="module", autouse=True)
def _read() -> Iterator[None]:
    with read_once(SOURCES):
        yield


def test_writers_take_only_masked_text() -> None:
    assert guarded.writers_take_masked_text(SOURCES) == []


def test_writer_that_passes_text_on_is_found() -> None:
    """A new writer in another module calls a writer that is excepted."""
    streams = next(module for module in SOURCES if module.name == "resolver.cli.streams")
    new = Module(
        "resolver.cli.planted", "from resolver.cli import streams\ndef yell(t: str): streams.print_above(t)"
    )
    assert guarded.writers_take_masked_text([streams, new]) == ["resolver.cli.planted.yell"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_source_files_keep_rule_of_guarded_types(rule: Rule) -> None:
    assert [finding for module in SOURCES for finding in rule(module)] == []


@pytest.mark.parametrize(("rule", "module"), planted(BROKEN))
def test_rule_of_guarded_types_finds_violation(rule: Rule, module: Module) -> None:
    assert rule(module) != []


@pytest.mark.parametrize(("rule", "module"), planted(KEPT))
def test_rule_of_guarded_types_accepts_module(rule: Rule, module: Module) -> None:
    assert rule(module) == []


@pytest.mark.parametrize("table", TABLES)
def test_exception_from_guarded_types_is_still_needed(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded, table, {})
    if table == "WRITE_TEXT":
        found = guarded.writers_take_masked_text(SOURCES)
    else:
        (rule,) = (rule for rule in RULES if RULES[rule] is TABLES[table])
        found = [finding for module in SOURCES for finding in rule(module)]
    if table == "HOLD_PLAIN_URLS":
        found = [finding.rpartition(".")[0] for finding in found]
    assert set(found) == set(TABLES[table])
