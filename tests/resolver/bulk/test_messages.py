"""Version checks of workers and schedulers, and tasks in transit."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from resolver import NotConfigured, Policy, Settings
from resolver.bulk import messages as versions
from resolver.bulk.messages import BulkJob, BulkRequest, RequestSlice
from resolver.bulk.slice import fetch_packed, pack_task
from resolver.version import VERSION


class ClientStub:
    """A client with the given answers of its workers."""

    def __init__(self, error: Exception | None = None, **workers: object) -> None:
        self._error = error
        self._workers = workers

    def run(self, function: Callable[[], str], on_error: str) -> dict[str, object]:
        assert (function(), on_error) == (VERSION, "return")
        if self._error is not None:
            raise self._error
        return self._workers


NONE = ModuleNotFoundError("No module named 'resolver'")


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (ClientStub(), None),
        (ClientStub(one=VERSION, two=VERSION), None),
        (ClientStub(OSError("Timed out")), None),
        (ClientStub(gone=OSError("Timed out"), two=VERSION), None),
        (ClientStub(one=VERSION, two="0.0.1"), "two has 0.0.1: "),
        (ClientStub(one=Exception('ModuleNotFoundError("No module named')), "one has none: "),
        (ClientStub(a=NONE, b=AttributeError("here"), c="3"), "a has none, b has none, c has 3: "),
        (ClientStub(a=NONE, b=NONE, c="3", d="4", e="5"), "a has none, b has none, c has 3, and 2 more: "),
    ],
)
def test_check_cluster_names_workers_of_other_versions(answers: Any, message: str | None) -> None:
    with nullcontext() if message is None else pytest.raises(NotConfigured) as raised:
        versions.check_cluster(answers)
    if raised is not None and message is not None:
        assert raised.value.message.startswith(message)
        assert f"resolve {VERSION} with its extra bulk" in raised.value.message


def test_fetch_packed_of_other_version_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check comes before data of another version is read."""
    task = pack_task(
        BulkJob(out="x", settings=Settings(), max_seconds=1.0), RequestSlice(0, 0, "h", (), True, 1.0)
    )
    monkeypatch.setattr(versions, "VERSION", "9.9")
    with pytest.raises(NotConfigured, match=rf"^a worker has 9\.9, .* {VERSION}: .*the same version"):
        fetch_packed(task[: len(VERSION) + 1] + b"what nobody reads")


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ModuleNotFoundError("No module named 'resolver'"), r"\(No module named 'resolver'\)"),
        (
            RuntimeError(
                "Error during deserialization of the task graph. This frequently\n"
                "occurs if the Scheduler and Client have different environments."
            ),
            r"\(the scheduler cannot read it\)",
        ),
    ],
)
def test_translate_errors_names_missing_package(error: Exception, why: str) -> None:
    """The errors are those of a worker and a scheduler of Dask 2025.1."""
    with pytest.raises(NotConfigured, match=rf"{why}: .*resolve \d.* its extra bulk"):  # noqa: SIM117
        with versions.translate_errors():
            raise error
    with pytest.raises(RuntimeError, match="else"), versions.translate_errors():
        raise RuntimeError("something else")


# A task in transit: the worker gets it unchanged, and it is not decoded before.


def test_packed_task_is_fetched_with_its_settings(tmp_path: Path) -> None:
    """A setting may be a function defined in a notebook; the task is small."""
    settings: Settings = {"policy": Policy.untrusted(), "credentials": lambda *asked: None}
    job = BulkJob(out=str(tmp_path), settings=settings, max_seconds=60.0)
    items = tuple(
        BulkRequest(f"gopher://h.example:25/0/{number}", f"h.example/{number}") for number in range(100)
    )
    octets = pack_task(job, RequestSlice(3, 8, "h.example", items, False, 1.0))
    assert b"h.example" not in octets
    assert len(octets) < 30 * len(items)
    report = fetch_packed(octets)
    assert (report.unstarted, dict(report.counts)) == ((), {"refused": 100})
