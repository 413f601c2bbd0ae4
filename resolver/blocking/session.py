"""The blocking API: a thread-safe `Resolver`, and the blocking functions."""

from __future__ import annotations

import io
import re
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, suppress
from functools import partial, update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    Unpack,
    cast,
)

from protocols.contract import Credentials, Entry, Finding, Origin, Validators
from protocols.errors import Changed, ResolveError
from resolver.blocking.portal import (
    BLOCK_SIZE,
    OpenResource,
    Portal,
    PortalBody,
    PortalClosed,
    PortalContext,
    PortalIterator,
    call_in_caller,
    make_thread_listener,
    portal,
)
from resolver.network.events import OnEvent
from resolver.network.mask import CredentialSource, GivenSource
from resolver.transfer import functions, session
from resolver.transfer import terminal as terminal_session
from resolver.transfer.batch import RunningBatch
from resolver.transfer.retry import refuse_pointer
from resolver.transfer.settings import FetchSettings, Settings
from resolver.transfer.streaming import Line, LiveFacts, StreamingResponse, listing_line
from resolver.url import registry
from resolver.url.parsing import UrlLike

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

#: Maximum number of entries, or blocks of lines, that are passed to the calling thread together.
_MAX_COLLECTED = 1_000


class _RecordStream(Protocol[T_co]):
    """An asynchronous iterator of records; `at_hand` is true if the next record is available now."""

    @property
    def at_hand(self) -> bool: ...

    def __aiter__(self) -> AsyncIterator[T_co]: ...

    async def __anext__(self) -> T_co: ...


class BlockingIterator(Generic[T]):
    """An iterator that yields the records of a listing as soon as they arrive."""

    def __init__(self, stream: _RecordStream[T], resource: OpenResource) -> None:
        self._stream = stream
        self._resource = resource
        self._records: list[T] = []
        self._next: Iterator[T] = iter(())
        self._failure: ResolveError | None = None

    def __iter__(self) -> BlockingIterator[T]:
        return self

    def __next__(self) -> T:
        for record in self._next:
            return record
        if self._failure is None:
            self._resource.check_open()
            self._resource.portal.run(self._collect)
        if not self._records and self._failure is not None:
            raise self._failure
        self._next, self._records = iter(self._records), []
        return next(self._next)

    async def _collect(self) -> None:
        """Wait for the first record, and collect all further records that are available without waiting.

        An error is raised after all earlier records were returned.
        """
        try:
            while not self._records or (self._stream.at_hand and len(self._records) < _MAX_COLLECTED):
                self._records.append(await anext(self._stream))
        except StopAsyncIteration:
            pass
        except ResolveError as error:
            self._failure = error


class LiveReply(LiveFacts):
    """A response whose connection is still open: metadata, and a body that one thread can read once."""

    body: PortalBody

    def __init__(self, reply: StreamingResponse, resource: OpenResource) -> None:
        vars(self).update(vars(reply), body=PortalBody(reply.body, resource))
        self._live = reply
        self._resource = resource

    @property
    def elapsed(self) -> float:
        async def elapsed() -> float:
            return self._live.elapsed

        return self._resource.portal.run(elapsed)

    def read(self, count: int = -1) -> bytes:
        """Return the next `count` bytes, or fewer at the end; a negative `count` returns all bytes."""
        return self.body.read(count)

    def iter_bytes(self, size: int) -> Iterator[bytes]:
        """Yield the body in chunks of `size` bytes; the last chunk may be shorter."""
        while octets := self.body.read(size):
            yield octets

    def entries(self) -> BlockingIterator[Entry]:
        """Return the entries of a listing. Raises `Declined` if the URL does not name a listing."""
        return BlockingIterator(self._live.entries(), self._resource)

    def lines(self, line: Line = listing_line) -> BlockingIterator[bytes]:
        """Return the entries as readable UTF-8 lines, in blocks that may contain several lines.

        Args:
            line: the function that formats an entry.
        """
        return BlockingIterator(self._live.lines(line), self._resource)


# The caller's callbacks always run in the calling thread.


def run_in_trio(awaitable: Awaitable[T]) -> T:
    """Return the result of an awaitable of the caller, which may use the functions of trio."""
    import trio  # Only a few programs have such a callback, and the import takes 60 ms.

    async def main() -> T:
        return await awaitable

    return trio.run(main)


def wrap_source(source: GivenSource) -> CredentialSource:
    """Wrap a credential function so that the function runs in the calling thread.

    The retrieval waits for the result. If the result is awaitable, trio awaits it.
    """

    def call_source(scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
        credentials = source(scheme, host, port, user)
        return run_in_trio(credentials) if isinstance(credentials, Awaitable) else credentials

    async def find(scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
        return await call_in_caller(partial(call_source, scheme, host, port, user))

    return find


def wrap_callbacks(keywords: dict[str, object]) -> None:
    """Replace each callback in the arguments by a wrapper that runs the callback in the calling thread."""
    if callable(on_event := keywords.get("on_event")):
        keywords["on_event"] = make_thread_listener(cast(OnEvent, on_event))
    if callable(source := keywords.get("credentials")):
        keywords["credentials"] = wrap_source(cast(GivenSource, source))


# Each blocking function is generated from an asynchronous function, with the same parameters, result and
# docstring.

#: The keywords `await` and `async` in docstring examples, and the functions with a blocking counterpart.
_AWAITING = re.compile(r"\b(?:await|async) ")
_FUNCTIONS = re.compile(r"\bresolver\.(?=(?:Resolver|entries|fetch|info|save|stream)\()")

P = ParamSpec("P")
S = TypeVar("S")


def copy_signature(function: Callable[P, T], model: Callable[..., object]) -> Callable[P, T]:
    """Copy the name, docstring and signature of `model` to `function`.

    The `__module__` attribute becomes `resolver.blocking`, the public name for users and pickle.
    """
    update_wrapper(function, model)
    function.__doc__ = _FUNCTIONS.sub("resolver.blocking.", _AWAITING.sub("", model.__doc__ or ""))
    function.__module__ = "resolver.blocking"
    return function


def make_blocking(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Return a blocking version of an asynchronous function."""

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        wrap_callbacks(kwargs)
        return portal().run(partial(function, *args, **kwargs))

    return copy_signature(call, function)


def make_context(
    function: Callable[P, AbstractAsyncContextManager[S]], wrap: Callable[[S, OpenResource], T]
) -> Callable[P, AbstractContextManager[T]]:
    """Return a blocking version of a function that returns an asynchronous context manager.

    `wrap` converts the value of the asynchronous context manager to the value for the calling thread.
    """

    def call(*args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[T]:
        wrap_callbacks(kwargs)

        async def make() -> AbstractAsyncContextManager[S]:
            return function(*args, **kwargs)

        return PortalContext(portal, make, wrap)

    return copy_signature(call, function)


# A file-like object over the content of a URL, for libraries such as pandas, tarfile and zipfile.
#
# The file is seekable if the scheme supports a start offset and the size is known. A forward seek of up to 1
# MiB reads and discards the bytes. Any other seek starts another retrieval. If the object has changed since
# the first retrieval, the seek raises `Changed`.

#: A function that opens the object at a byte offset if the validators still match.
OpenAt: TypeAlias = Callable[[int, Validators], AbstractContextManager[LiveReply]]


class _SeekableObject(io.RawIOBase):
    """A seekable raw file over the bytes of an object; `close` is called when the file is closed."""

    def __init__(self, open_at: OpenAt, close: Callable[[], None]) -> None:
        self._open_at = open_at
        self._opened = ExitStack()
        self._reply: LiveReply | None = None
        self._validators = Validators()
        self._position = self._at = 0
        self._close = close
        try:
            self._reply = self._begin(0)
            refuse_pointer(self._reply)
        except BaseException:
            self.close()
            raise
        self._size = self._reply.size
        self._validators = self._reply.validators
        self._row = registry.find(self._reply.request.url.scheme)
        self.name = self._reply.url

    def _begin(self, start: int) -> LiveReply:
        """Open the object at offset `start`, or at offset 0 if the server does not support offsets."""
        self._opened.close()
        reply = self._opened.enter_context(self._open_at(start, self._validators))
        if not self._validators.agree(reply.validators):
            raise Changed("the object has changed since it was opened", url=reply.url)
        self._at = reply.start
        return reply

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._size is not None and self._row is not None and self._row.resumes

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if self._size is None or not self.seekable():
            raise io.UnsupportedOperation(
                f"{self.name} is not seekable: the size is unknown, or the scheme has no offsets "
                "(save it, and open the file)"
            )
        position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if position < 0:
            raise ValueError(f"negative position {position}")
        self._position = position
        return position

    def readinto(self, buffer: WriteableBuffer) -> int:
        room = memoryview(buffer).cast("B")
        if self._size is not None and self._position >= self._size and self.seekable():
            return self._finish()
        octets = self._move().body.read_some(len(room))
        room[: len(octets)] = octets
        self._at += len(octets)
        self._position = self._at
        return len(octets)

    def _finish(self) -> int:
        """Read until the end of the body is confirmed; an incomplete body raises an error."""
        if self._reply is not None and self._at == self._size:
            self._reply.body.read_some()
        return 0

    def _move(self) -> LiveReply:
        """Return a response at the file's position."""
        reply = self._reply
        if reply is None or not 0 <= self._position - self._at <= BLOCK_SIZE:
            self._reply = None  # If opening the next response fails, `_reply` stays None.
            reply = self._reply = self._begin(self._position)
        while self._at < self._position:
            octets = reply.body.read_some(self._position - self._at)
            if not octets:
                break
            self._at += len(octets)
        return reply

    def close(self) -> None:
        if not self.closed:
            try:
                super().close()
                self._opened.close()
            finally:
                self._close()


class _BodyFile(io.RawIOBase):
    """A raw file that returns the bytes of a response as soon as they arrive."""

    def __init__(
        self, reply: LiveReply, close: Callable[[], None], make_error: Callable[[ResolveError], Exception]
    ) -> None:
        self._reply = reply
        self._close = close
        self._make_error = make_error
        self._is_ended = False
        self._failure: Exception | None = None
        self.name = reply.url

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        room = memoryview(buffer).cast("B")
        if self._failure is not None:
            raise self._failure
        if self._is_ended:
            return 0
        try:
            octets = self._reply.body.read_some(len(room))
        except ResolveError as error:
            self._failure = self._make_error(error)
            self._leave()
            raise self._failure from error
        if not octets:
            self._leave()
        room[: len(octets)] = octets
        return len(octets)

    def _leave(self) -> None:
        """Close the response at the end of the body or after an error; many callers never close the file."""
        self._is_ended = True
        self._close()

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._close()


def as_file(
    reply: LiveReply, close: Callable[[], None], make_error: Callable[[ResolveError], Exception]
) -> io.BufferedReader:
    """Return the body of a response as a file, for a library that gets the metadata in another way.

    Args:
        reply: the open response.
        close: the function that is called at the end of the body and when the file is closed, possibly twice.
        make_error: the function that converts an error to the exception that is raised, with the error as
            its cause.
    """
    return io.BufferedReader(_BodyFile(reply, close, make_error))


def open_reader(open_at: OpenAt, close: Callable[[], None]) -> io.BufferedReader:
    """Open an object as a buffered, seekable file that reads 1 MiB ahead.

    If the object cannot be opened, the function raises the error. When the file is closed, the retrieval is
    closed, too.
    """
    return io.BufferedReader(_SeekableObject(open_at, close), BLOCK_SIZE)


class _OperationRunner(Protocol[T_co]):
    """A wrapper of an asynchronous object; `run` awaits an operation in the calling thread."""

    def run(self, operation: Callable[[T_co], Awaitable[T]]) -> T: ...


def _wrap_method(
    method: Callable[Concatenate[S, P], Awaitable[T]],
) -> Callable[Concatenate[_OperationRunner[S], P], T]:
    """Convert an asynchronous method to a blocking method of the wrapper."""

    def call(self: _OperationRunner[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(lambda target: method(target, *args, **kwargs))

    return copy_signature(call, method)


def _wrap_context(
    method: Callable[Concatenate[session.Resolver, P], AbstractAsyncContextManager[S]],
    wrap: Callable[[S, OpenResource], T],
) -> Callable[Concatenate[Resolver, P], AbstractContextManager[T]]:
    """Convert a method with an asynchronous context manager to a blocking method of `Resolver`."""

    def call(self: Resolver, /, *args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[T]:
        async def make(resolver: session.Resolver) -> AbstractAsyncContextManager[S]:
            return method(resolver, *args, **kwargs)

        return PortalContext(self._home, partial(self._run_operation, make), wrap)

    return copy_signature(call, method)


def _wrap_iterator(
    method: Callable[Concatenate[session.Resolver, P], RunningBatch[T]],
) -> Callable[Concatenate[Resolver, P], PortalIterator[T]]:
    """Convert a method with an asynchronous iterator to a blocking method of `Resolver`."""

    def call(self: Resolver, /, *args: P.args, **kwargs: P.kwargs) -> PortalIterator[T]:
        async def make(resolver: session.Resolver) -> RunningBatch[T]:
            return method(resolver, *args, **kwargs)

        return PortalIterator(self._home, partial(self._run_operation, make))

    return copy_signature(call, method)


class TerminalSession:
    """An open terminal session, as returned by `open_terminal`.

    One thread may wait for output while another thread sends input.
    """

    def __init__(self, session: terminal_session.TerminalSession, resource: OpenResource) -> None:
        self._session = session
        self._resource = resource
        self.peer = session.peer
        self.secured = session.secured

    expect = _wrap_method(terminal_session.TerminalSession.expect)
    read = _wrap_method(terminal_session.TerminalSession.read)
    send = _wrap_method(terminal_session.TerminalSession.send)
    send_line = _wrap_method(terminal_session.TerminalSession.send_line)
    send_command = _wrap_method(terminal_session.TerminalSession.send_command)
    resize = _wrap_method(terminal_session.TerminalSession.resize)

    @property
    def echoing(self) -> bool:
        """Return whether the service echoes the input."""
        return self._session.echoing

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return the deviations of the service from the protocol, without duplicates."""
        return tuple(self._session.findings)

    def decoded(self, octets: bytes) -> str:
        """Return the text of the bytes, in the session's `charset` (default UTF-8)."""
        return self._session.decoded(octets)

    def run(self, operation: Callable[[terminal_session.TerminalSession], Awaitable[T]]) -> T:
        """Return the result of a custom operation with the asynchronous session; see `Resolver.run`."""
        self._resource.check_open()
        return self._resource.portal.run(partial(self._run_operation, operation))

    async def _run_operation(
        self, operation: Callable[[terminal_session.TerminalSession], Awaitable[T]]
    ) -> T:
        return await operation(self._session)


class Resolver:
    """A blocking session: retrievals that share a policy, limits and host state.

    The arguments are the same as for `resolver.Resolver`. The constructor does not start a thread. The
    connection pool is open from the first use of the session until `close`, which the end of a `with` block
    calls. A closed session cannot be used. A session that was used before a fork cannot be used in the child
    process.
    """

    _portal: Portal | None = None  # set when the portal is created
    _closed = False

    def __init__(self, **settings: Unpack[Settings]) -> None:
        wrap_callbacks(cast("dict[str, object]", settings))
        self._resolver = session.Resolver(**settings)
        self.policy = self._resolver.policy
        self.limits = self._resolver.limits

    fetch = _wrap_method(session.Resolver.fetch)
    info = _wrap_method(session.Resolver.info)
    save = _wrap_method(session.Resolver.save)
    save_attachments = _wrap_method(session.Resolver.save_attachments)
    save_all = _wrap_iterator(session.Resolver.save_all)
    save_tree = _wrap_iterator(session.Resolver.save_tree)
    stream = _wrap_context(session.Resolver.stream, LiveReply)
    listing = _wrap_context(session.Resolver.listing, LiveReply)
    resume = _wrap_context(session.Resolver.resume, LiveReply)
    entries = _wrap_context(session.Resolver.entries, BlockingIterator[Entry])
    open_terminal = _wrap_context(session.Resolver.open_terminal, TerminalSession)

    def open(
        self, url: UrlLike, *, origin: Origin = "user", referrer: tuple[str, str | None] | None = None
    ) -> io.BufferedReader:
        """Open the object as a file for reading: for `pandas`, `tarfile`, `zipfile`.

        The file is seekable if the scheme supports a start offset and the size is known. Reading raises
        `ResolveError` if the object is incomplete or has changed.

        Args:
            url: as for `fetch`.
            origin: how the URL was chosen (`Provenance`).
            referrer: the URL and address where the URL was found (`Provenance`).
        """
        return open_reader(partial(self.resume, url, origin=origin, referrer=referrer), lambda: None)

    def run(self, operation: Callable[[session.Resolver], Awaitable[T]]) -> T:
        """Return the result of a custom operation with the asynchronous `Resolver`.

        The operation runs in the calling thread. The operation can call the methods of the `Resolver`, but
        not functions of trio or asyncio, because neither of these event loops runs in the thread.
        """
        return self._home().run(partial(self._run_operation, operation))

    async def _run_operation(self, operation: Callable[[session.Resolver], Awaitable[T]]) -> T:
        if self._closed:
            raise RuntimeError(_CLOSED)
        return await operation(await self._resolver.__aenter__())

    def _home(self) -> Portal:
        """Return the portal that owns the connections of this session."""
        if self._closed:
            raise RuntimeError(_CLOSED)
        if self._portal is None:
            self._portal = portal()
            self._portal.close_at_end(self._resolver)
            # The finalizer must not refer to this object, because the object would then never be garbage
            # collected.
            self._finalizer = weakref.finalize(self, _abandon, self._portal, self._resolver)
            self._finalizer.atexit = False
        return self._portal

    def close(self) -> None:
        """Close the pooled connections. Retrievals in other threads continue."""
        closed, self._closed = self._closed, True
        if closed or self._portal is None or not self._portal.is_usable:
            return
        self._finalizer.detach()
        if self._portal.is_driving:  # The garbage collector may run this method in the middle of a call.
            self._portal.try_start(self._close)
            return
        with suppress(PortalClosed):  # The end of the portal has closed the connections.
            self._portal.run(self._close)

    async def _close(self) -> None:
        assert self._portal is not None
        self._portal.discard(self._resolver)
        await self._resolver.__aexit__(None, None, None)

    def __enter__(self) -> Resolver:
        self._home()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _abandon(portal: Portal, resolver: session.Resolver) -> None:
    """Close the connections of a session that was garbage collected without `close`."""
    portal.try_start(partial(resolver.__aexit__, None, None, None))


_CLOSED = "this Resolver is closed: make a new one"


fetch = make_blocking(functions.fetch)
info = make_blocking(functions.info)
save = make_blocking(functions.save)
stream = make_context(functions.stream, LiveReply)
entries = make_context(functions.entries, BlockingIterator[Entry])


def open(url: UrlLike, **settings: Unpack[FetchSettings]) -> io.BufferedReader:
    r"""Open the object as a file for reading, for libraries that take a file: `pandas`, `tarfile`, `zipfile`.

    The file is seekable if the scheme supports a start offset (http, ftp, file) and the size is known. A
    forward seek of up to 1 MiB reads and discards the bytes; any other seek starts another retrieval.

    Args:
        url: as for `fetch`.
        settings: the keywords of `fetch`.

    Raises:
        ResolveError: if the object cannot be opened, or if it is incomplete or has changed when it is read.

    Examples:
        >>> with resolver.blocking.open("http://127.0.0.1:8920/about.txt") as file:
        ...     print(file.readline())
        b'A text of two lines.\n'
    """
    origin, referrer = settings.pop("origin", "user"), settings.pop("referrer", None)
    resolver = Resolver(**cast("Settings", settings))
    return open_reader(partial(resolver.resume, url, origin=origin, referrer=referrer), resolver.close)
