"""Dialogues and plans as a page of diagrams: `--trace-html FILE` and `explain --html` (extra `web`)."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import trio

from protocols.errors import LocalError, NotConfigured, ResolveError
from protocols.extras import missing_libraries
from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.cli.plans import plan_of
from resolver.cli.targets import CommandTarget
from resolver.disk.report import check_place, write_report
from resolver.events import Event
from resolver.plan import Plan
from resolver.url import redact

#: Targets whose plans are kept in mind: as many as recordings are, and those that wait to begin.
_MOST_EXPECTED = 1000


class Diagrams:
    """The dialogues of a run. Raises `NotConfigured` without the extra, `LocalError` where no file can be
    written, before anything is fetched."""

    def __init__(self, path: str, command: Command) -> None:
        self._panel = _panel("--trace-html")
        from resolver.window.dialogue.recordings import Recordings

        check_place(path)
        self._path = path
        self._command = command
        self._expected: dict[str, CommandTarget] = {}
        self._recordings = Recordings(trio.current_time)

    def expect(self, target: CommandTarget) -> None:
        """It is about to be asked for: its plan will stand beside what was said."""
        if len(self._expected) >= _MOST_EXPECTED:
            del self._expected[next(iter(self._expected))]
        self._expected[redact(target.url)] = target

    def hear(self, event: Event) -> None:
        self._recordings.hear(event)

    def close(self) -> LocalError | None:
        """Write the page, whatever became of the run. What kept it from being written, if anything did."""
        from resolver.window.dialogue.planned import planned

        sections = []
        for recording in self._recordings.all():
            exchange = recording.exchange()
            plan = self._plan(exchange.url)
            sections.append((exchange,) if plan is None else (exchange, planned(plan)))
        page = self._panel.page(sections, "What was said", left_out=self._recordings.left_out)
        try:
            write_report(self._path, page.encode())
        except LocalError as error:
            return error
        return None

    def _plan(self, url: str) -> Plan | None:
        target = self._expected.get(url)
        if target is None:
            return None
        try:
            return plan_of(target, self._command)
        except ResolveError:  # it said so when it was asked for
            return None


def show_plans(plans: Sequence[Plan], command: Command) -> None:
    """The page of `explain --html`, to standard output or to a file. Raises `LocalError`."""
    panel = _panel("--html")
    from resolver.window.dialogue.planned import planned

    page = panel.page([(planned(plan),) for plan in plans], "What would be said").encode()
    if command.output is None or command.output == "-":
        streams.write_output(page)
    else:
        check_place(command.output)
        write_report(command.output, page)


def check_needs(option: str) -> None:
    """Raises `NotConfigured` without the extra."""
    _panel(option)


def _panel(option: str) -> ModuleType:
    try:
        from resolver.window.dialogue import panel
    except ModuleNotFoundError as error:
        raise NotConfigured(f"{option} needs {missing_libraries('web')}") from error
    return panel
