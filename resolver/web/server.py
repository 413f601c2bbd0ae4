"""The server of the web UI, with one port for pages and one port for untrusted content.

The module also has a second server, `run_program_server`, for clients that are programs.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple, cast

import hypercorn.trio.run
import trio
from hypercorn.config import Config
from hypercorn.logging import Logger
from hypercorn.trio import serve as serve_on
from hypercorn.trio.tcp_server import TCPServer

from protocols.text import Masked, own_text
from resolver.network.connecting import unwrap_group
from resolver.network.events import Event
from resolver.transfer.session import Resolver
from resolver.transfer.settings import Settings
from resolver.url import registry
from resolver.web import headers
from resolver.web.access import (
    CHECKS,
    FORM_TIMEOUT,
    LOOPBACK,
    AccessMiddleware,
    Application,
    BearerMiddleware,
    Certificate,
    Check,
    SiteSettings,
    bind_socket,
    check_certificate,
    end_connections,
    get_port,
    make_authority,
)
from resolver.web.answers import PageAnswers
from resolver.web.application import ContentApplication, Gateway, WebApplication
from resolver.web.dialogue.recording import record_event
from resolver.web.forms import LoginForms, TypedLogins
from resolver.web.headers import SessionKeys
from resolver.web.own_pages import OwnPageFacts, OwnPages
from resolver.web.pages.page import PAGE_SIZE, FactRow
from resolver.web.reading import PageReader
from resolver.web.session import WebSession
from resolver.web.transfers import TransferEvents, TransferLedger, TransferQueue, update_transfer

#: Maximum size in bytes of a request head. The size is sufficient for the headers and a completely
#: percent-encoded URL of 65,536 characters.
_MAX_HEAD = 262_144
#: Idle timeout in seconds of a connection or an incomplete request head (slow-loris). The same value is the
#: timeout of running requests at shutdown.
_IDLE_TIMEOUT = 5.0
_GRACE_PERIOD = 3.0


class ServeOptions(NamedTuple):
    """The options of a server.

    `ledger` is the path of the ledger, which records saved files. `is_public` means that clients on other
    machines are allowed. The last four options are only for tests. Each of the four options disables a
    protection, so that a test can check whether the missing protection is detected.
    """

    settings: Settings
    port: int = 0
    address: str = LOOPBACK
    is_public: bool = False
    certificate: Certificate | None = None
    size: int = PAGE_SIZE
    facts: OwnPageFacts = OwnPageFacts()
    log: Callable[[Masked], None] = lambda line: None
    ledger: str | None = None
    checks: tuple[Check, ...] = CHECKS
    csrf: bool = True
    form_timeout: float = FORM_TIMEOUT
    without: frozenset[str] = frozenset()


class WebServer(NamedTuple):
    """A running server. Each entry address admits one browser."""

    site: SiteSettings
    content: str
    session: WebSession

    def entry(self, url: str = "") -> str:
        """Return an entry address, valid once and for a short time, that shows the preview of `url`."""
        return f"{self.site.origin}/enter?t={self.site.keys.make_token(url)}"


@asynccontextmanager
async def run_server(options: ServeOptions) -> AsyncIterator[WebServer]:
    """Run a server during the `async with` block.

    Raises:
        LocalError: An address or port cannot be bound.
        NotConfigured: The certificate or its key cannot be used.
    """
    if options.certificate is not None:
        check_certificate(options.certificate)
    listeners = bind_socket(options.address, options.port), bind_socket(options.address, 0)
    ports = [get_port(listener) for listener in listeners]
    scheme = "http" if options.certificate is None else "https"
    authority, content_authority = (make_authority(scheme, options.address, port) for port in ports)
    keys = SessionKeys(ports[0], trio.current_time, in_clear=options.is_public and scheme == "http")
    site = SiteSettings(authority, ports[0], keys, options.log, scheme, options.is_public)
    session = WebSession()
    server = WebServer(site, f"{scheme}://{content_authority}", session)
    settings = options.settings.copy()
    settings["on_event"] = _dispatch_event
    logins = TypedLogins(settings.get("credentials"))
    page_settings = settings.copy()
    page_settings["credentials"] = logins
    async with (
        Resolver(**settings) as gateway_resolver,  # the gateway's requests: no logins from pages
        Resolver(**page_settings) as resolver,
        TransferLedger(options.ledger) as ledger,
        trio.open_nursery() as transfer_nursery,
    ):
        reader = PageReader(resolver, page_settings)
        answers = PageAnswers(site.keys, settings.get("archive"))
        transfers = TransferQueue(resolver, transfer_nursery, ledger)
        facts = options.facts._replace(
            settings=[*options.facts.settings, FactRow("gateway for other clients", site.gateway)]
        )
        events = TransferEvents(transfers, answers)
        routes = [
            *events.routes,
            *OwnPages(answers, session, transfers, facts, _list_schemes(), logins).routes,
        ]
        forms = LoginForms(logins, session, resolver.policy)
        gateway = Gateway(site, PageReader(gateway_resolver, settings))
        pages = WebApplication(
            site, session, reader, server.content, options.size, answers, routes, forms, gateway
        )
        access = AccessMiddleware(
            pages.router,
            site,
            pages.ask,
            checks=options.checks,
            csrf=options.csrf,
            form_timeout=options.form_timeout,
        )
        policies = headers.make_page_headers(server.content), headers.make_content_headers(site.origin)
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            apps: tuple[Application, ...] = access, ContentApplication(session, content_authority)
            for listener, port, app, policy in zip(listeners, ports, apps, policies, strict=True):
                fields = {name: text for name, text in policy.items() if name not in options.without}
                config = _HypercornConfig(fields, options.log, options.certificate)
                config.bind = [f"fd://{listener.detach()}"]
                await nursery.start(partial(_run, app, config, port, stop))
            try:
                yield server
            finally:
                stop.set()
                events.end()
        transfer_nursery.cancel_scope.cancel()  # A later run can resume incomplete transfers.


class ProgramServer(NamedTuple):
    """A running server for programs of the user: its origin, and the bearer token of each request."""

    origin: str
    token: str


@asynccontextmanager
async def run_program_server(
    application: Application, address: str, port: int, log: Callable[[Masked], None]
) -> AsyncIterator[ProgramServer]:
    """Serve an ASGI application at a loopback address during the `async with` block.

    Requests need the bearer token, a `Host` header with the address, and no `Origin` header of another site.

    Args:
        application: The application; it must support the ASGI lifespan protocol.
        address: The loopback address.
        port: The port; 0 means a free port.
        log: Writes a line to the log.

    Raises:
        LocalError: The address or port cannot be bound.
    """
    listener = bind_socket(address, port)
    port = get_port(listener)
    site = SiteSettings(
        make_authority("http", address, port), port, SessionKeys(port, trio.current_time), log
    )
    config = _HypercornConfig({}, log, None)
    config.bind = [f"fd://{listener.detach()}"]
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(_run, BearerMiddleware(application, site), config, port, stop))
        try:
            yield ProgramServer(site.origin, site.keys.start)
        finally:
            stop.set()


def _dispatch_event(event: Event) -> None:
    record_event(event)
    update_transfer(event)


def _list_schemes() -> list[tuple[str, str]]:
    """Return the supported schemes, each with a description of its URLs."""
    rows = ((name, registry.find(name)) for name in sorted(registry.SCHEMES))
    return [(name, row.names) for name, row in rows if row is not None]


async def _run(
    application: Application,
    config: Config,
    port: int,
    stop: trio.Event,
    task_status: trio.TaskStatus[list[str]],
) -> None:
    async def end_stalled() -> None:
        await stop.wait()
        await trio.sleep(_GRACE_PERIOD)
        end_connections(port)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end_stalled)
        await serve_on(
            cast(Any, application), config, shutdown_trigger=stop.wait, task_status=task_status, mode="asgi"
        )
        nursery.cancel_scope.cancel()


class _GuardedConnection(TCPServer):
    """A connection of Hypercorn whose errors do not end the server.

    Some invalid requests cause an error in Hypercorn 0.18, such as `Upgrade: h2c` with an invalid
    `HTTP2-Settings`, a WebSocket handshake with a body, and HTTP/2 frames with a path that is not ASCII. The
    error occurs before the access checks, and would end all connections.
    """

    async def run(self) -> None:
        try:
            await super().run()
        except* Exception:  # noqa: BLE001 - a defect ends this connection, and not the server
            await self.config.log.exception("error in a connection")


hypercorn.trio.run.TCPServer = _GuardedConnection  # type: ignore[attr-defined]


class _HypercornConfig(Config):
    """A Hypercorn configuration that adds the same headers to all responses, even Hypercorn's errors."""

    def __init__(
        self, fields: Mapping[str, str], log: Callable[[Masked], None], certificate: Certificate | None
    ) -> None:
        super().__init__()
        if certificate is not None:
            self.certfile, self.keyfile = certificate
            self.alpn_protocols = ["http/1.1"]
        self._fields = fields
        self.accesslog = None
        self.errorlog = None
        self.include_server_header = False
        self.h11_max_incomplete_size = _MAX_HEAD
        self.keep_alive_timeout = _IDLE_TIMEOUT
        self.graceful_timeout = _GRACE_PERIOD
        self.logger_class = partial(_ServerLog, log)  # type: ignore[assignment]

    def response_headers(self, protocol: str) -> list[tuple[bytes, bytes]]:
        return [*super().response_headers(protocol), *headers.make_fields(self._fields)]


class _ServerLog(Logger):
    """A log with one line per page error; tracebacks are omitted, because they could contain a secret."""

    def __init__(self, log: Callable[[Masked], None], config: Config) -> None:
        super().__init__(config)
        self._log = log

    async def exception(self, message: str, *args: object) -> None:
        error = sys.exception()
        if isinstance(error, trio.BusyResourceError):
            return  # The browser disconnected at the end of a response; two Hypercorn tasks report an error.
        if isinstance(error, BaseExceptionGroup):
            error = unwrap_group(error)
        self._log(Masked(f"internal error in a page: {own_text(type(error).__name__)}"))
