"""The protocol trace of `-v`, `--trace` and `--trace-html`.

A line starts with `C:` for sent data or with `S:` for received data. A trace file contains the complete
protocol exchange. On standard error, the body is omitted, because the body is written elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING

import trio

from protocols.errors import LocalError, NotConfigured, ResolveError, missing_libraries
from protocols.location import Finding
from protocols.text import Masked
from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.cli.progress import make_display
from resolver.cli.streams import TraceWriter, complain
from resolver.cli.targets import CommandTarget
from resolver.files.atomic import check_writable, write_whole
from resolver.network.events import (
    Event,
    Kept,
    Listener,
    OnEvent,
    Retrying,
    TraceFormat,
    Warned,
    format_error,
    format_event,
    format_warning,
)
from resolver.url.parsing import redact

if TYPE_CHECKING:
    from resolver.transfer.plan import Plan

#: The maximum number of stored warnings. The maximum bounds the memory for a very long list of URLs.
_MAX_WARNINGS = 10_000


class Watcher:
    """An event handler that writes warnings, retries and trace lines, and calls the progress display.

    In a run with trees, a warning is reported only for the first URL of each scheme, host and port. A tree
    may have thousands of URLs. Raises `LocalError` if a trace file cannot be written.
    """

    def __init__(self, command: Command) -> None:
        path, is_verbose = command.trace, command.verbose
        self._command = command
        self._diagrams = None if command.trace_html is None else Diagrams(command.trace_html, command)
        self.display = make_display(command)
        self._trace = TraceWriter(path, is_verbose=is_verbose) if path is not None or is_verbose else None
        self._format = TraceFormat()
        self._partials: list[Kept] = []
        self._warnings: dict[tuple[str, Finding], None] = {}

    @property
    def listener(self) -> OnEvent:
        """Return `watch` as an event handler that gets only the events it needs."""
        if self._trace is not None or self._diagrams is not None:
            return self.watch
        return Listener(self.watch, {*self.display.event_types, Kept, Warned, Retrying})

    def watch(self, event: Event) -> None:
        """Process an event: report warnings and retries, and write the trace."""
        self.display.process(event)
        if self._diagrams is not None:
            self._diagrams.process(event)
        if isinstance(event, Kept):
            self._partials.append(event)
        if isinstance(event, Warned) and not self._command.is_quiet and self._is_new(event):
            complain(Masked(f"{event.url}: {format_warning(event)}"))
        if isinstance(event, Retrying) and not self._command.is_quiet:
            # Without a delay, the retry waits in the queue behind other requests to the same host.
            delay = Masked(f"{event.delay:.1f} s" if event.delay else "its turn")
            complain(Masked(f"{event.url}: {format_error(event.error)}; retry in {delay}"))
        if self._trace is not None and (line := format_event(event)) is not None:
            self._trace.line(line, self._format.select_text(event, line))

    def take_partials(self) -> list[Kept]:
        """Return the partial files that were stored after the previous call."""
        files, self._partials = self._partials, []
        return files

    def _is_new(self, warning: Warned) -> bool:
        """Return whether a warning is new; retries and requests for metadata repeat the warnings of a URL."""
        prefix = warning.url.split("/", 3)[:3] if self._command.has_trees else [warning.url]
        key = ("/".join(prefix), warning.finding)
        if key in self._warnings:
            return False
        if len(self._warnings) >= _MAX_WARNINGS:
            del self._warnings[next(iter(self._warnings))]
        self._warnings[key] = None
        return True

    def add_target(self, target: CommandTarget) -> None:
        """Announce a target before its request is sent."""
        if self._diagrams is not None:
            self._diagrams.add_target(target)

    def forget_partial(self, target: CommandTarget) -> None:
        """Forget the partial file of a target, because the target starts again and uses the file."""
        if self._partials:
            with suppress(ResolveError):  # the retrieval reports the error
                url = target.parse(self._command).shown
                self._partials = [file for file in self._partials if file.url != url]

    def close(self) -> list[LocalError]:
        """Clear the display, close the trace files and return the write errors."""
        self.display.close()
        faults = [writer.close() for writer in (self._trace, self._diagrams) if writer is not None]
        return [fault for fault in faults if fault is not None]


# HTML pages with sequence diagrams of protocol exchanges (`--trace-html FILE`) and of plans (`explain
# --html`). The pages need the extra `web`.

#: The maximum number of stored targets, including targets that wait to start.
_MAX_TARGETS = 1000


class Diagrams:
    """The protocol exchanges of a run, as an HTML page.

    The constructor runs before the first request.

    Raises:
        NotConfigured: the extra `web` is missing.
        LocalError: the file cannot be written.
    """

    def __init__(self, path: str, command: Command) -> None:
        self._panel = _panel("--trace-html")
        from resolver.web.dialogue.recording import Recordings

        check_writable(path)
        self._path = path
        self._command = command
        self._targets: dict[str, CommandTarget] = {}
        self._recordings = Recordings(trio.current_time)

    def add_target(self, target: CommandTarget) -> None:
        """Store a target, to show its plan next to its protocol exchange."""
        if len(self._targets) >= _MAX_TARGETS:
            del self._targets[next(iter(self._targets))]
        self._targets[redact(target.url)] = target

    def process(self, event: Event) -> None:
        self._recordings.record(event)

    def close(self) -> LocalError | None:
        """Write the page, also after a failed run, and return the write error or None."""
        from resolver.web.dialogue.exchange import make_planned_exchange

        sections = []
        for recording in self._recordings.list_all():
            exchange = recording.exchange()
            plan = self._plan(exchange.url)
            sections.append((exchange,) if plan is None else (exchange, make_planned_exchange(plan)))
        page = self._panel.render_page(sections, "Protocol exchange", left_out=self._recordings.left_out)
        try:
            write_whole(self._path, page.encode())
        except LocalError as error:
            return error
        return None

    def _plan(self, url: str) -> Plan | None:
        target = self._targets.get(url)
        if target is None:
            return None
        from resolver.cli.plans import plan_target  # lazy import: only the page of `--trace-html` needs it

        try:
            return plan_target(target, self._command)
        except ResolveError:  # the retrieval has already reported the error
            return None


def show_plans(plans: Sequence[Plan], command: Command) -> None:
    """Write the page of `explain --html` to standard output or a file. Raises `LocalError`."""
    panel = _panel("--html")
    from resolver.web.dialogue.exchange import make_planned_exchange

    page = panel.render_page([(make_planned_exchange(plan),) for plan in plans], "Planned exchange").encode()
    if command.output is None or command.output == "-":
        streams.write_output(page)
    else:
        check_writable(command.output)
        write_whole(command.output, page)


def check_extra(option: str) -> None:
    """Raise `NotConfigured` if the extra `web`, which `option` needs, is missing."""
    _panel(option)


def _panel(option: str) -> ModuleType:
    try:
        from resolver.web.dialogue import drawing as panel
    except ModuleNotFoundError as error:
        raise NotConfigured(f"{option} needs {missing_libraries('web')}") from error
    return panel
