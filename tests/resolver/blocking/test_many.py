"""Many objects saved by one call, for a thread that waits."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from fixtures.http import HttpServer
from resolver import Event, RetryPolicy, blocking


def test_an_iterator_of_outcomes(http: HttpServer, tmp_path: Path) -> None:
    """Events are told in the thread that waits."""
    heard: set[int] = set()

    def hear(event: Event) -> None:
        heard.add(threading.get_ident())

    urls = [http.url("/about.txt"), http.url("/none"), http.url("/about.txt")]
    with blocking.Resolver(on_event=hear, patience=RetryPolicy()) as session:
        outcomes = list(session.save_all(urls, directory=tmp_path, concurrency=1))
    assert [outcome.status for outcome in outcomes] == ["done", "failed", "done"]
    assert [outcome.path for outcome in outcomes if outcome.path] == [
        str(tmp_path / "about.txt"),
        str(tmp_path / "about.2.txt"),
    ]
    assert heard == {threading.get_ident()}


def test_closed_half_way(http: HttpServer, tmp_path: Path) -> None:
    with blocking.Resolver() as session:
        outcomes = session.save_all([http.url("/about.txt")] * 50, directory=tmp_path, concurrency=1)
        assert next(outcomes).status == "done"
        outcomes.close()
        with pytest.raises(RuntimeError):
            next(outcomes)


def test_a_session_that_is_closed_ends_it(http: HttpServer, tmp_path: Path) -> None:
    session = blocking.Resolver()
    outcomes = session.save_all([http.url("/about.txt")] * 50, directory=tmp_path, concurrency=1)
    next(outcomes)
    session.close()
    with pytest.raises(RuntimeError):
        list(outcomes)
