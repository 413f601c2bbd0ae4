"""The data connection beside a first one: FTP's, opened anew for each transfer (RFC 959 3.2)."""

from __future__ import annotations

import enum
from contextlib import AbstractAsyncContextManager

from protocols.contract import Gate, Stream
from protocols.errors import Disconnected, NetworkError, TlsError
from protocols.wire import Buffer


class DataTlsHandshake(enum.Enum):
    """Of the data connection: none to make, still to make, or begun and cut short, which cannot be mended."""

    NONE = "none"
    DUE = "due"
    BEGUN = "begun"


class DataConnection:
    """One after the other, each in place of the one before; `buffer` is what was read ahead."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._opened: AbstractAsyncContextManager[Stream] | None = None
        self._stream: Stream | None = None
        self._handshake = DataTlsHandshake.NONE
        self.buffer = Buffer()

    @property
    def stream(self) -> Stream:
        assert self._stream is not None, "the dialogue has not opened a data connection"
        return self._stream

    async def connect(self, port: int, *, tls: bool) -> None:
        """With `tls`, the handshake is made by the next `receive`."""
        await self.aclose()
        self.buffer = Buffer()
        opening = self._gate.connect_data(port)
        self._stream = await opening.__aenter__()
        self._opened = opening
        self._handshake = DataTlsHandshake.DUE if tls else DataTlsHandshake.NONE

    async def receive(self) -> NetworkError | None:
        """The first octets into the buffer, or what broke the connection."""
        try:
            if self._handshake is DataTlsHandshake.DUE:
                self._handshake = DataTlsHandshake.BEGUN
                await self.stream.start_tls()
                self._handshake = DataTlsHandshake.NONE
            if self._handshake is DataTlsHandshake.BEGUN:
                return TlsError("the control connection ended during the handshake of the data connection")
            self.buffer.feed(await self.stream.receive())
        except (Disconnected, TlsError) as error:
            return error
        return None

    async def take(self) -> NetworkError | None:
        """The same for what is there already. A handshake that was cut short is not taken up again."""
        if self._handshake is not DataTlsHandshake.NONE:
            return None
        received, _ = await self._gate.first_of(self.receive, _at_once)
        return None if received is None else received.value

    async def aclose(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.__aexit__(None, None, None)


async def _at_once() -> None:
    """Wait for nothing."""
