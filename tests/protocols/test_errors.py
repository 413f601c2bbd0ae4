"""Tests of errors as immutable values that survive copy, pickle and a process boundary."""

from __future__ import annotations

import ast
import copy
import importlib
import multiprocessing
import pickle
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

import protocols
import resolver
from protocols.errors import choose_status
from protocols.text import Masked
from resolver import ProtocolError, Refused, ResolveError, TryLater, UnsupportedScheme, blocking
from resolver.adapters.httpx_errors import RequestRefused
from resolver.transfer.redirects import NoDocument

#: This module imports Dask, which takes 0.5 s in each worker that collects this file.
_HEAVY = "resolver.cli.cluster"
#: This module needs a library that only the group `full` has.
_WITHOUT_LIBRARY = "resolver.adapters.guard.niquests"


def _import_all(*but: str) -> None:
    checkout = Path(resolver.__file__).parents[1]
    for package in (protocols, resolver):
        for path in sorted(Path(package.__path__[0]).rglob("*.py")):
            name = ".".join(path.relative_to(checkout).with_suffix("").parts).removesuffix(".__init__")
            if name not in but:
                importlib.import_module(name)


def all_classes(root: type[ResolveError] = ResolveError) -> list[type[ResolveError]]:
    """Return all subclasses in a fixed order, including the classes of schemes and of the command.

    The subclasses of `RequestRefused` are left out: a transport makes them when httpx or httpx2 needs one.
    """
    if root is RequestRefused:
        return [root]
    children = sorted(root.__subclasses__(), key=lambda each: (each.__module__, each.__name__))
    return [root, *(each for child in children for each in all_classes(child))]


_import_all(_HEAVY, _WITHOUT_LIBRARY)

KINDS = all_classes()

#: Errors whose constructor needs more than a message, with no attribute at its default.
_SPECIAL: dict[type[ResolveError], ResolveError] = {
    resolver.InvalidUrl: resolver.InvalidUrl("bad-host", 7, "no host"),
    resolver.UnsupportedScheme: resolver.UnsupportedScheme("x", "no handler").of_hop(),
    resolver.Refused: resolver.Refused("S04", "no", flag="--allow-port 25", position=3).of_hop(),
    resolver.LimitExceeded: resolver.LimitExceeded("body", "too much"),
    resolver.NotFound: resolver.NotFound("no", code="404", text="gone"),
    resolver.TryLater: resolver.TryLater(
        "no", code="4", text="x", after=3.5, until=datetime(1994, 11, 6, tzinfo=UTC)
    ),
    resolver.Truncated: resolver.Truncated("too little", received=1, expected=9),
    resolver.Changed: resolver.Changed("another", again=True),
    NoDocument: NoDocument("S10", "no", flag="f", position=3),
    RequestRefused: RequestRefused(resolver.Refused("S10", "no", flag="f", position=3)),
}


def make_error(kind: type[ResolveError]) -> ResolveError:
    """Return an error of this class with URL, attempts and addition set, as after a retrieval."""
    error = _SPECIAL.get(kind) or kind("some words")
    return error.at(Masked("http://u:****@h.example/")).tried(3).saying("and more")


def test_error_classes_are_complete() -> None:
    _import_all(_WITHOUT_LIBRARY)
    assert all_classes() == KINDS


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, *(lambda e, p=p: pickle.loads(pickle.dumps(e, p)) for p in range(6))],
    ids=["copy", "deepcopy", *map(str, range(6))],
)
def test_error_copies_keep_all_attributes(kind: type[ResolveError], copied: object) -> None:
    error = make_error(kind)
    assert callable(copied)
    other = copied(error)
    assert type(other) is kind
    assert other is not error
    assert (vars(other), other.args, str(other)) == (vars(error), error.args, str(error))
    assert {"url", "message", "attempts", "exit_code", "retryable"} <= vars(other).keys()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_error_attributes_cannot_be_changed(kind: type[ResolveError]) -> None:
    error = make_error(kind)
    before = dict(vars(error))
    for name in before.keys() - {"_request"}:
        with pytest.raises(AttributeError, match=f"^{name} "):
            setattr(error, name, None)
    assert vars(error) == before


def lines_changing_caught_error(code: str) -> Iterator[int]:
    """Yield the lines that set an attribute of an exception named by `except … as`."""
    handlers = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.ExceptHandler)]
    for handler in handlers:
        stores = [node for node in ast.walk(handler) if isinstance(node, ast.Attribute)]
        for node in stores:
            named = isinstance(node.value, ast.Name) and node.value.id == handler.name
            if named and isinstance(node.ctx, ast.Store):
                yield node.lineno


def test_sources_do_not_change_caught_errors() -> None:
    planted = "try: f()\nexcept E as e:\n    g(e.a)\n    if x: e.b += 1\n"
    assert list(lines_changing_caught_error(planted)) == [4]
    checkout = Path(resolver.__file__).parents[1]
    for package in ("protocols", "resolver"):
        for path in (checkout / package).rglob("*.py"):
            assert not list(lines_changing_caught_error(path.read_text(encoding="utf-8"))), path


def test_error_with_context_is_a_new_error() -> None:
    first = Refused("S04", "no port", position=3)
    hop = first.at(Masked("http://h/")).tried(2).of_hop().saying("at 3")
    assert (hop.url, hop.attempts, hop.exit_code, hop.message) == ("http://h/", 2, 15, "no port, at 3")
    assert (hop.rule, hop.position, hop.args) == ("S04", 3, ("no port, at 3",))
    assert (first.url, first.attempts, first.exit_code, first.message) == (None, 1, 9, "no port")
    assert (TryLater("x").retryable, TryLater("x").final().retryable) == (True, False)


def test_error_of_hop_changes_exit_code_only_of_refusals() -> None:
    statuses = {kind: make_error(kind).of_hop().exit_code for kind in all_classes()}
    assert {kind for kind, status in statuses.items() if status == 15} == {
        Refused,
        UnsupportedScheme,
        NoDocument,
        RequestRefused,
    }


def test_reraised_copy_keeps_traceback_and_cause() -> None:
    """The traceback starts at the first error, names the system error as its cause and repeats nothing."""

    def went_wrong() -> None:
        try:
            raise OSError("the system's text")
        except OSError as error:
            raise ProtocolError("our words") from error

    try:
        try:
            went_wrong()
        except ResolveError as error:
            raise error.at(Masked("http://h/")).tried(2) from error.__cause__
    except ProtocolError as located:
        told = "".join(traceback.format_exception(located))
        cause = located.__cause__
    assert isinstance(cause, OSError)
    assert told.count("our words\n") == 1 + told.count('raise ProtocolError("our words")\n')
    assert told.count("in went_wrong") == 2  # once for the cause and once for the error
    assert told.count("the direct cause") == 1
    assert told.endswith("ProtocolError: http://h/: our words\n")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (None, "no"),
        ("http://u:****@h/", "http://u:****@h/: no"),
        ("http://h/\n\x1b[31m\u202e", "http://h/\\n\\x1b[31m\\u202e: no"),
        ("http://h/" + "x" * 300, "http://h/" + "x" * 191 + "…: no"),
    ],
)
def test_error_message_names_its_url(url: str | None, shown: str) -> None:
    assert str(ProtocolError("no", url=None if url is None else Masked(url))) == shown


def test_errors_of_fetch_pass_process_pool() -> None:
    urls = ["http://u:secret@h.example:25/", "http://[", "x-none:y", "file:///etc/no/such/file"]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(blocking.fetch, url) for url in urls]
        found = [future.exception() for future in futures]
    assert [type(error).__name__ for error in found] == [
        "Refused",
        "InvalidUrl",
        "UnsupportedScheme",
        "NotFound",
    ]
    assert [error.exit_code for error in found if isinstance(error, ResolveError)] == [9, 12, 13, 8]
    assert isinstance(found[0], Refused)
    assert (found[0].rule, found[0].flag) == ("S04", "--allow-port 25")
    assert [str(error).partition(": ")[0] for error in found] == ["http://u:****@h.example:25/", *urls[1:]]


def test_httpx_can_set_request_of_refusal() -> None:
    refused = make_error(RequestRefused)
    assert isinstance(refused, RequestRefused)
    refused.request = httpx.Request("GET", "http://h/")
    assert pickle.loads(pickle.dumps(refused)).request.url == "http://h/"


@pytest.mark.parametrize(
    ("statuses", "status"),
    [([], 0), ([0, 0], 0), ([8], 8), ([0, 8, 8], 8), ([8, 9], 1), ([1, 0], 1)],
)
def test_status_of_several_urls(statuses: list[int], status: int) -> None:
    assert choose_status(statuses) == status
