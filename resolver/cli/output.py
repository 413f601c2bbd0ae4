"""Writers of bodies and metadata to standard output or a device, where written bytes are final."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Protocol

import trio

from protocols.contract import Finding, Url, Validators
from protocols.errors import ChecksumMismatch, LocalError, Refused, ResolveError
from resolver.cli import streams
from resolver.cli.streams import open_nonblocking, output_faults, write_all, write_some
from resolver.files.faults import convert_faults, writing_fault
from resolver.policy.schemes import find_rules
from resolver.terminal.text import TerminalText
from resolver.transfer.response import Saved, is_textual, looks_like_text
from resolver.transfer.retry import OVERLAP, Retrier
from resolver.transfer.streaming import StreamingResponse, octets_to_keep

if TYPE_CHECKING:
    from resolver.transfer.verification import Checksum


# Output to a reader that may be slow. A slow reader must not delay signals and timeouts.
#
# While the pipe buffer has space, bytes are written without blocking. A worker thread writes the bytes in two
# cases: the pipe buffer was full twice, or a nonblocking descriptor is not possible. A nonblocking descriptor
# is not possible for a terminal, a socket, or a pipe of another user.


class DescriptorWriter:
    """A writer to a file descriptor. The caller closes the descriptor; all errors are `OSError`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._nonblocking = open_nonblocking(fd)

    def close(self) -> None:
        if self._nonblocking is not None:
            os.close(self._nonblocking)

    async def write(self, octets: bytes) -> None:
        """Write all bytes.

        After a cancellation, some bytes are already written. A thread may still wait to write the other
        bytes.
        """
        rest = memoryview(octets)
        if self._nonblocking is not None:
            rest = write_some(self._nonblocking, rest)
            if rest:
                await trio.lowlevel.wait_writable(self._nonblocking)
                rest = write_some(self._nonblocking, rest)
        if rest:  # use a thread: a slow reader would otherwise wake this task after every few bytes
            await trio.to_thread.run_sync(write_all, self._fd, rest, abandon_on_cancel=True)


#: Maximum bytes of a response body that are shown for an error. Error pages of proxies have several thousand
#: bytes.
_MAX_ERROR_BODY = 65_536
#: Bytes of lines that are buffered before a write, as in Python's own buffer.
_BUFFER_SIZE = 8_192


class BodyOutput(Protocol):
    """An output for the bytes of a body; messages use its `name`."""

    name: str

    @property
    def is_terminal(self) -> bool: ...

    async def write(self, octets: bytes) -> None: ...


class StandardOutput:
    """A `BodyOutput` for standard output, and a context manager."""

    name = "standard output"

    def __init__(self) -> None:
        self._writer: DescriptorWriter | None = None

    def __enter__(self) -> StandardOutput:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    @property
    def is_terminal(self) -> bool:
        return streams.output_is_terminal()

    async def write(self, octets: bytes) -> None:
        """Write the buffered bytes, then `octets`. Raises `BrokenPipeError` or `OutputFault`."""
        if self._writer is None:
            self._writer = DescriptorWriter(streams.output_descriptor())
        with streams.hide_lines() if streams.output_is_terminal() else nullcontext(), output_faults():
            await self._writer.write(streams.take_buffered(octets))


class Output:
    """A `resolver.transfer.streaming.Store` that writes the body to an `outlet`.

    Bytes are counted, and are hashed if a digest is needed. A retry can resume a body whose bytes are written
    unchanged. A retry cannot resume a listing or escaped text.
    """

    final = True

    def __init__(self, *, hashed: bool, checksum: Checksum | None, raw: bool, outlet: BodyOutput) -> None:
        self._outlet = outlet
        self.known = Validators()
        self.position = 0
        self._raw = raw
        self._checksum = checksum
        algorithms = {"sha256"} if hashed else set()
        if checksum is not None and checksum.algorithm != "auto":
            algorithms.add(checksum.algorithm)
        self._hashes = {name: hashlib.new(name) for name in algorithms}
        self._tail = b""

    def tail(self, count: int) -> bytes:
        """Return the last `count` written bytes; `count` is at most `OVERLAP`."""
        return self._tail[-count:] if count else b""

    async def remember(self, known: Validators) -> None:
        self.known = known

    def restart(self) -> None:
        raise AssertionError("written bytes are final")

    async def write(self, reply: StreamingResponse) -> None:
        """Write the body of a response, or the remainder of a resumed body.

        A listing is written as lines, and a link as the URL of its target.
        """
        if reply.failure is not None:
            await _print_error_body(reply)
            raise reply.failure
        octets = _one_line(reply.target or "") if reply.points else octets_to_keep(reply)
        escaped = self._outlet.is_terminal and not self._raw
        try:
            async for piece in _escape_body(reply, octets) if escaped else octets:
                await self._write_piece(piece)
        except ResolveError as error:
            if self.position and (escaped or reply.lists):
                raise error.final() from error.__cause__
            raise

    async def _write_piece(self, piece: bytes) -> None:
        for hash_ in self._hashes.values():
            hash_.update(piece)
        self.position += len(piece)
        self._tail = (self._tail + piece[-OVERLAP:])[-OVERLAP:]
        await self._outlet.write(piece)

    def check(self) -> tuple[set[str], tuple[Finding, ...]]:
        """Verify the checksum of the written bytes. Raises `ChecksumMismatch`.

        Returns:
            The verified properties, and findings about unverified ones.
        """
        checksum = self._checksum
        if checksum is None:
            return set(), ()
        if checksum.algorithm == "auto":
            detail = f"checksum auto needs a file: {self._outlet.name} was not verified"
            return set(), (Finding("save:no-checksum", "warn", detail),)
        digest = self._hashes[checksum.algorithm].hexdigest()
        if digest != checksum.digest:
            raise ChecksumMismatch(f"the {checksum.algorithm} digest is {digest}, not {checksum.digest}")
        return {"digest"}, ()

    def make_saved(self, reply: StreamingResponse, retrier: Retrier) -> Saved:
        """Verify the checksum and return the outcome. Raises `ChecksumMismatch`."""
        proved, findings = self.check()
        return Saved(
            **reply.finished(*retrier.findings, *findings, proved=proved),
            path=None,
            bytes=self.position,
            resumed_from=retrier.resumed_from,
            digest=f"sha256:{self._hashes['sha256'].hexdigest()}" if "sha256" in self._hashes else None,
            attempts=retrier.attempts,
        )


async def print_bytes(octets: bytes) -> None:
    """Write bytes to standard output; a slow reader does not delay signals."""
    with StandardOutput() as output:
        await output.write(octets)


class BufferedLines:
    """A buffer for lines of standard output. It is flushed before each wait for the server.

    The class is an async context manager. The buffer is flushed at the end of the block, also after an error.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._output = StandardOutput()

    async def add(self, octets: bytes, *, more: bool) -> None:
        """Add a line; `more` is set if the next line is available without waiting for the server."""
        self._buffer += octets
        if not more or len(self._buffer) >= _BUFFER_SIZE:
            await self._flush()

    async def _flush(self) -> None:
        octets = bytes(self._buffer)
        self._buffer.clear()
        if octets:
            await self._output.write(octets)

    async def __aenter__(self) -> BufferedLines:
        return self

    async def __aexit__(self, *_: object) -> None:
        with self._output:
            await self._flush()


def check_no_copy(url: Url) -> None:
    """Raise `LocalError` if the URL names the local file that is standard output.

    Otherwise, each copied byte would make the file longer, and the end of the file would never be reached.
    """
    if not find_rules(url.scheme).local:
        return
    segments: object = getattr(url, "segments", ())
    assert isinstance(segments, tuple)
    if streams.output_is_file(b"/" + b"/".join(segments)):
        raise LocalError("cannot copy the file: it is also standard output (choose another output file)")


async def _print_error_body(reply: StreamingResponse) -> None:
    """Print at most `_MAX_ERROR_BODY` bytes of an error response to standard error, escaped (S15).

    A truncated or invalid body is ignored, because the caller raises the error of the response.
    """
    text, remaining = TerminalText(reply.charset), _MAX_ERROR_BODY
    if not (reply.media_type is None or is_textual(reply.media_type)):
        return
    with suppress(ResolveError):
        async for piece in reply.body:
            streams.print_above(text.feed(piece[:remaining]))
            remaining -= len(piece)
            if remaining <= 0:
                break
    streams.print_above(text.finish())


async def _escape_body(reply: StreamingResponse, octets: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Escape the text of a body for a terminal (S15). Raises `Refused` if the body is not text."""
    is_text = is_textual(reply.media_type) or reply.lists or reply.points
    text = TerminalText(reply.charset)
    async for piece in octets:
        if not is_text and not (reply.media_type is None and looks_like_text(piece)):
            raise Refused(
                "S15",
                f"{reply.media_type or 'this'} is not text: cannot show it on a terminal (save it with -O)",
                flag="--allow-raw",
                url=reply.url,
            )
        is_text = True
        yield text.feed(piece).encode()
    yield text.finish().encode()


async def _one_line(text: str) -> AsyncIterator[bytes]:
    yield f"{text}\n".encode()


# Output to a device or a pipe that `-O` names. The device or pipe is never replaced by a file (S14). Written
# bytes are final, so another run cannot resume the output. If `-O` names a directory, an error is raised.


def is_device(path: str) -> bool:
    """Return whether the path is a pipe, a character device, or a symlink to one."""
    try:
        return _is_device_mode(os.stat(path))
    except (OSError, ValueError):
        return False


def check_no_directory(path: str, option: str) -> None:
    """Raise `LocalError` if the path is a directory, with any value of `--exists`.

    The message describes how to save a file in the directory; `option` is the value of `-O`.
    """
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return
    if stat.S_ISDIR(status.st_mode):
        raise LocalError(f"{path!r} is a directory: -O {option}/ saves inside it")


def _is_device_mode(status: os.stat_result) -> bool:
    return stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode)


@asynccontextmanager
async def open_device(path: str) -> AsyncIterator[Device]:
    """Open a device or a pipe for writing.

    Opening a named pipe blocks until there is a reader. A worker thread opens the pipe, so that signals are
    still handled.
    """
    fd = await trio.to_thread.run_sync(_device_descriptor, path, abandon_on_cancel=True)
    writer = DescriptorWriter(fd)
    try:
        yield Device(path, fd, writer)
    finally:
        writer.close()
        os.close(fd)


def _device_descriptor(path: str) -> int:
    with convert_faults(path):
        fd = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
    if not _is_device_mode(os.fstat(fd)):
        os.close(fd)
        raise LocalError(f"{path!r} was replaced, and is not a device or a pipe: left unchanged")
    return fd


class Device:
    """A device or a pipe that is open for writing."""

    def __init__(self, path: str, fd: int, writer: DescriptorWriter) -> None:
        self.name = path
        self._fd = fd
        self._writer = writer

    @property
    def is_terminal(self) -> bool:
        return os.isatty(self._fd)

    async def write(self, octets: bytes) -> None:
        """Write bytes. Raises `LocalError`, also if the reader closed the pipe."""
        try:
            await self._writer.write(octets)
        except OSError as error:
            raise writing_fault(error, self.name) from error
