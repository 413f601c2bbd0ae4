"""The interfaces between the core and WARC archives: one for reading and one for writing.

They are implemented in `resolver.warc`, which the core does not import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar

if TYPE_CHECKING:
    from datetime import datetime

    from protocols.contract import Options, Reply, Url
    from protocols.errors import ResolveError
    from protocols.step import Dialogue
    from resolver.network.admission import Admission
    from resolver.network.mask import Mask
    from resolver.network.url_gate import UrlGate
    from resolver.transfer.redirects import RetrievalRequest

T = TypeVar("T")


class ArchiveSource(Protocol):
    """An archive to read from: `resolver.warc.Archive`."""

    @property
    def at(self) -> datetime | None:
        """Return the time whose captures are used."""
        ...

    def find(self, url: Url) -> Dated:
        """Return the capture with which the archive answers a request for the URL."""
        ...

    def gate(self, admission: Admission) -> UrlGate:
        """Return the gate of an admitted URL. The gate opens no connection and answers from the archive."""
        ...


class Dated(Protocol):
    """A capture with its date."""

    @property
    def date(self) -> datetime: ...


class ArchiveTarget(Protocol):
    """An archive to write: `resolver.warc.Recorder`."""

    def recording(self, mask: Mask, attempt: int) -> TryRecording:
        """Return the recording of one attempt."""
        ...


class TryRecording(Protocol):
    """The captures of one attempt; at most one capture is in progress at a time."""

    def begin(self, request: RetrievalRequest, url_gate: UrlGate, via: str | None = None) -> None: ...

    def watch_dialogue(self, dialogue: Dialogue[T]) -> Dialogue[T]: ...

    def options(self, url: Url, options: Options) -> Options: ...

    def body_of(self, reply: Reply) -> Reply: ...

    async def refuse(self, reply: Reply, error: ResolveError, most: int) -> NoReturn: ...

    async def conclude(self) -> None: ...

    def end(self, error: BaseException | None, *, late: bool = False) -> None: ...
