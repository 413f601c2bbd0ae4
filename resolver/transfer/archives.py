"""The interfaces between the core and WARC archives: one for reading and one for writing.

`resolver.warc` implements both interfaces. The core does not import `resolver.warc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from datetime import datetime

    from protocols.contract import Options, Reply, Url
    from protocols.step import Dialogue
    from resolver.network.admission import Admission
    from resolver.network.mask import Mask
    from resolver.network.url_gate import UrlGate
    from resolver.transfer.redirects import RetrievalRequest

T = TypeVar("T")


@runtime_checkable
class ArchiveSource(Protocol):
    """The interface of a WARC archive that is read. `resolver.warc.Archive` implements it."""

    @property
    def at(self) -> datetime | None:
        """Return the date and time from which the archive selects captures, or None if no date is set."""
        ...

    def find(self, url: Url) -> Dated:
        """Return the archived capture that is the response to a request for the URL."""
        ...

    def gate(self, admission: Admission) -> UrlGate:
        """Return a gate for an admitted URL that reads from the archive and opens no connections."""
        ...


class Dated(Protocol):
    """A capture (a recorded response) with its date."""

    @property
    def date(self) -> datetime: ...


@runtime_checkable
class ArchiveTarget(Protocol):
    """The interface of a WARC archive that is written. `resolver.warc.Recorder` implements it."""

    def recording(self, mask: Mask, attempt: int) -> TryRecording:
        """Return a recorder for one retrieval attempt."""
        ...


class TryRecording(Protocol):
    """A recorder for one retrieval attempt. It writes the captures to an archive, one after another."""

    def begin(self, request: RetrievalRequest, url_gate: UrlGate, via: str | None = None) -> None: ...

    def watch_dialogue(self, dialogue: Dialogue[T]) -> Dialogue[T]: ...

    def options(self, url: Url, options: Options) -> Options: ...

    def record_body(self, reply: Reply) -> Reply: ...

    async def conclude(self) -> None: ...

    def end(self, error: BaseException | None, *, late: bool = False) -> None: ...
