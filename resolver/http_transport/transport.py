"""The transport: each request judged, sent, and answered as httpx wants it."""

from __future__ import annotations

from typing import cast

import httpx
import trio

from protocols.contract import Limits, Origin, Referrer
from protocols.errors import UnsupportedScheme
from protocols.http.answer import Answer
from protocols.http.codings import ALWAYS, Codings, Decoded, choose
from protocols.http.head import Framing
from protocols.http.request import Request, prepare, target_of
from protocols.http.url import HttpUrl
from resolver.codings import installed
from resolver.events import OnEvent
from resolver.gate import Door, Family, Lookup, Passage
from resolver.gate.lookup import look_up
from resolver.http_transport.call import Call, ResponseStream
from resolver.http_transport.faults import translated
from resolver.policy import Policy, check_hops, may_carry_credentials
from resolver.url import parse, without_user


class HttpxTransport(httpx.AsyncBaseTransport):
    """A transport for `httpx.AsyncClient`, under trio.

    Raises `RequestRefused`, which is a `Refused` and an `httpx.TransportError`, where the policy says no;
    nothing was sent then. Any other error is httpx's, with ours as its cause. `origin` is who chooses the
    URLs. `limits.body` binds only with `body_everywhere`. Timeouts are the client's and the limits',
    whichever ends first.
    """

    def __init__(
        self,
        *,
        policy: Policy | None = None,
        limits: Limits | None = None,
        origin: Origin = "user",
        on_event: OnEvent | None = None,
        family: Family | None = None,
        cafile: str | None = None,
        certfile: str | None = None,
        lookup: Lookup = look_up,
    ) -> None:
        self._policy = Policy.default() if policy is None else policy
        self._origin = origin
        self._codings: Codings = {**ALWAYS, **installed()}
        self._door = Door(
            policy=self._policy,
            limits=limits,
            on_event=on_event,
            family=family,
            cafile=cafile,
            certfile=certfile,
            lookup=lookup,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not trio.lowlevel.in_trio_run():
            raise RuntimeError("HttpxTransport works under trio only")
        await self._door.__aenter__()
        with translated(httpx.ReadTimeout):
            passage, url, asked = self._judge(request)
        call = Call(passage, request, asked, tls=url.scheme == "https")
        try:
            answer = await call.answer()
            with translated(httpx.ReadTimeout):
                return self._response(call, answer, passage, url)
        except BaseException:
            await call.aclose()
            raise

    async def aclose(self) -> None:
        await self._door.__aexit__(None, None, None)

    def _judge(self, request: httpx.Request) -> tuple[Passage, HttpUrl, Request]:
        """The way out for a request, and what will be sent."""
        check_hops(cast(int, request.extensions.get("hops", 0)), self._door.limits.hops)
        origin = cast(Origin, request.extensions.get("origin", self._origin))
        led_by = cast("tuple[str, str | None] | None", request.extensions.get("referrer"))
        referrer = None if led_by is None else Referrer(*led_by)
        url = parse(str(request.url))
        headers = list(request.headers.raw)
        if origin == "derived" and referrer is not None:
            if may_carry_credentials(parse(referrer.url), url, self._policy):
                url = parse(without_user(url))  # httpx repeats it in a relative redirect (S06)
            else:
                headers = [header for header in headers if header[0].lower() != b"authorization"]  # S11
        passage = self._door.admit(url, origin=origin, referrer=referrer)
        if not isinstance(url, HttpUrl):
            raise UnsupportedScheme(url.scheme, f"httpx has no use for {url.scheme} URLs")
        target = cast("bytes | None", request.extensions.get("target"))
        headers = [(name, self._accepted(name, value)) for name, value in headers]
        asked = prepare(request.method.encode(), target_of(url) if target is None else target, headers)
        return passage, url, asked

    def _accepted(self, name: bytes, value: bytes) -> bytes:
        """A header of the request; of content codings only those that can be undone here."""
        if name.lower() != b"accept-encoding":
            return value
        named = [coding.strip() for coding in value.decode("latin-1").split(",")]
        known = [coding for coding in named if coding.partition(";")[0].strip().lower() in self._codings]
        return ", ".join(known).encode("latin-1") or b"identity"

    def _response(self, call: Call, answer: Answer, passage: Passage, url: HttpUrl) -> httpx.Response:
        head, limits = answer.head, passage.limits
        body, fields = answer.body(), head.fields
        unpacking = None if head.framing is Framing.NONE else choose(head.codings, self._codings)
        if unpacking is not None:
            body = Decoded(body, unpacking, limits.ratio)
            fields = tuple(each for each in fields if each[0] not in ("content-encoding", "content-length"))
        if 300 <= head.status < 400:
            call.lead_on(Referrer(url.shown, passage.peer))
        return httpx.Response(
            head.status,
            headers=[(name.encode("ascii"), value.encode("latin-1")) for name, value in fields],
            stream=ResponseStream(call, body, limits.body if limits.body_everywhere else None),
            extensions={
                "http_version": b"HTTP/1.1",
                "reason_phrase": head.reason.encode("latin-1"),
                "findings": passage.findings,
                "verified": answer.verified,
                "peer": passage.peer,
            },
        )
