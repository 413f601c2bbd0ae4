"""The gate of our pages: one function in front of the framework, which lets in what a page of ours sent, or a
person, and refuses all else before anything is routed.

`CHECKS` are its rules, in order; each looks at a request and finds nothing or says why not. A page elsewhere
reaches every port of this machine: another port of this address even with our cookie, for cookies ignore
ports, and `SameSite` does as well. What a browser says of where a request comes from (`Sec-Fetch-Site`)
decides that, `Host` decides about names that were made to lead here, and the cookie about who has no
browser at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias

import trio

from protocols.values import NamedTuple
from resolver.window import addresses, headers
from resolver.window.keys import SessionKeys
from resolver.window.listening import Endpoints, is_of_this_user

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Any]
Send: TypeAlias = Callable[[Message], Any]
Application: TypeAlias = Callable[[Scope, Receive, Send], Any]

#: Octets of a form, and seconds in which it has to be here.
MOST_FORM = 65_536
FORM_LASTS = 10.0
#: Requests at a time: who holds more has no need of them.
MOST_REQUESTS = 64

#: Octets of what another program asks for: a URL of 65,536 characters, encoded.
MOST_START = 262_144

_ENTRY, _GATEWAY, _START = b"/enter", b"/g/", b"/start"
_UNREGISTER = (
    'self.addEventListener("install", () => self.skipWaiting());\n'
    'self.addEventListener("activate", () => self.registration.unregister());\n'
)


class SiteSettings(NamedTuple):
    """What the gate guards. `place` is what `Host` must be; `tell` takes a line for the log. `public`: others
    than this machine are served, whose users nobody here knows."""

    place: str
    port: int
    keys: SessionKeys
    tell: Callable[[str], None]
    scheme: str = "http"
    public: bool = False

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.place}"

    @property
    def gateway(self) -> str:
        """What other clients are told, for their own `{url}`."""
        return f"{self.origin}/g/{self.keys.gateway}/{{url}}"


class EntryRequest(NamedTuple):
    """A request, before anything of it is believed."""

    method: str
    path: bytes
    query: bytes
    version: str
    headers: Mapping[bytes, tuple[bytes, ...]]
    ends: Endpoints | None

    @property
    def is_entry(self) -> bool:
        return self.path == _ENTRY and self.method in ("GET", "HEAD")

    @property
    def is_gateway(self) -> bool:
        return self.path.startswith(_GATEWAY)

    @property
    def is_start(self) -> bool:
        return self.path == _START and self.method == "POST"

    @property
    def is_by_itself(self) -> bool:
        """Does it bring a proof of its own, in place of the cookie?"""
        return self.is_entry or self.is_gateway or self.is_start

    @property
    def shown(self) -> str:
        """For the log: no secret is in it."""
        name = b"/g/..." if self.is_gateway else self.path[:200]
        return f"{self.method} {name.decode('latin-1')}"

    def said(self, name: bytes) -> bytes | None:
        """One header; None where it is absent. Of several nobody knows which counts: that is as none that is
        right."""
        found = self.headers.get(name, ())
        return None if not found else found[0] if len(found) == 1 else b", ".join(found)


class EntryRefusal(NamedTuple):
    """`asks`: a person may look at it."""

    status: int
    why: str
    words: str = ""
    asks: bool = False


Check: TypeAlias = Callable[[EntryRequest, SiteSettings], EntryRefusal | None]


def peer(visit: EntryRequest, house: SiteSettings) -> EntryRefusal | None:
    """Another user of this machine sees addresses in its list of processes."""
    if house.public or (visit.ends is not None and is_of_this_user(visit.ends)):
        return None
    return EntryRefusal(403, "from another user of this machine")


def version(visit: EntryRequest, house: SiteSettings) -> EntryRefusal | None:
    """The server speaks HTTP/2 in the clear, unasked; no browser does."""
    return None if visit.version in ("1.0", "1.1") else EntryRefusal(403, f"HTTP/{visit.version}")


def host(visit: EntryRequest, house: SiteSettings) -> EntryRefusal | None:
    """A name that leads here is not ours, whoever made it lead here."""
    if visit.headers.get(b"host") == (house.place.encode("ascii"),):
        return None
    return EntryRefusal(421, f"Host: {(visit.said(b'host') or b'').decode('latin-1')!r}")


def method(visit: EntryRequest, house: SiteSettings) -> EntryRefusal | None:
    if visit.method not in ("GET", "HEAD", "POST"):
        return EntryRefusal(405, "method")
    return None if visit.path.startswith(b"/") else EntryRefusal(421, "this is no proxy")


def site(visit: EntryRequest, house: SiteSettings) -> EntryRefusal | None:
    """Another port of this address is `same-site`, and not ours."""
    said = visit.said(b"sec-fetch-site")
    if visit.is_by_itself or said in (None, b"same-origin", b"none"):
        return None
    why = f"Sec-Fetch-Site: {(said or b'').decode('latin-1')!r}"
    navigates = visit.said(b"sec-fetch-mode"), visit.said(b"sec-fetch-dest")
    if visit.method == "GET" and navigates == (b"navigate", b"document"):
        return EntryRefusal(200, why, asks=True)
    return EntryRefusal(403, why)


def cookie(visit: EntryRequest, house: SiteSettings) -> EntryRefusal | None:
    """401 would make browsers ask for a password (RFC 9110 15.5.2)."""
    if visit.is_by_itself or house.keys.is_ours(visit.headers.get(b"cookie", ())):
        return None
    return EntryRefusal(403, "no cookie of ours", "Start with: resolve serve --open\n")


def program(visit: EntryRequest, house: SiteSettings) -> EntryRefusal | None:
    """Who asks for a way in has read the file that says where we are. A browser never has, whatever page is
    in it."""
    if not visit.is_start:
        return None
    strange = [name for name in visit.headers if name.startswith(b"sec-fetch-") or name == b"origin"]
    if strange:
        return EntryRefusal(
            403, f"a browser at {visit.path.decode('latin-1')}: {strange[0].decode('latin-1')}"
        )
    kind, _, secret = (visit.said(b"authorization") or b"").partition(b" ")
    if kind.lower() == b"bearer" and house.keys.is_start(secret.decode("latin-1")):
        return None
    return EntryRefusal(403, "no secret of ours")


def origin(visit: EntryRequest, house: SiteSettings) -> EntryRefusal | None:
    """Of what acts, from a browser that does not say where from; and only as our forms are sent."""
    if visit.method != "POST" or visit.is_start:
        return None
    if visit.is_entry or visit.is_gateway:
        return EntryRefusal(405, "method")
    kind = (visit.said(b"content-type") or b"").partition(b";")[0].strip().lower()
    if kind != b"application/x-www-form-urlencoded":
        return EntryRefusal(403, "no form of ours")
    given = visit.said(b"origin")
    if visit.said(b"sec-fetch-site") is None and given != house.origin.encode("ascii"):
        return EntryRefusal(403, f"Origin: {(given or b'').decode('latin-1')!r}")
    return None


#: In this order. The form's own proof comes after them, for it is in the body.
CHECKS: tuple[Check, ...] = (peer, version, host, method, program, site, cookie, origin)


class Entrance:
    """An application that only such requests reach as `checks` let in; `csrf` is whether forms prove that
    they are ours. `said` is what every answer says, but those of the server itself, which have it from
    there."""

    def __init__(
        self,
        inside: Application,
        house: SiteSettings,
        ask: Callable[[str], str],
        *,
        checks: Sequence[Check] = CHECKS,
        csrf: bool = True,
        form_lasts: float = FORM_LASTS,
    ) -> None:
        self._inside = inside
        self._house = house
        self._ask = ask
        self._checks = checks
        self._csrf = csrf
        self._form_lasts = form_lasts
        self._requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await live(receive, send)
        if (
            scope["type"] != "http"
        ):  # a WebSocket has the cookies of other ports, and says nothing of its page
            self._house.tell(f"refused a {scope['type']}")
            await send({"type": "websocket.close", "code": 1008})
            return None
        visit, send = visit_of(scope), _with_referrer_policy(send)
        for check in self._checks:
            if (refusal := check(visit, self._house)) is not None:
                return await self._refuse(visit, refusal, send)
        if self._requests >= MOST_REQUESTS:
            return await self._refuse(visit, EntryRefusal(503, "too many requests at a time"), send)
        self._requests += 1
        try:
            return await self._let_in(visit, scope, receive, send)
        finally:
            self._requests -= 1

    async def _let_in(self, visit: EntryRequest, scope: Scope, receive: Receive, send: Send) -> None:
        if visit.said(b"service-worker") == b"script":
            # One that an earlier program left at this port would answer in our place.
            return await answer(send, 200, _UNREGISTER.encode(), headers.SCRIPT)
        if visit.method == "POST":
            found = await self._form(visit, receive)
            if isinstance(found, EntryRefusal):
                return await self._refuse(visit, found, send)
            scope["resolver.form"] = found
        await self._inside(scope, receive, send)

    async def _form(self, visit: EntryRequest, receive: Receive) -> dict[str, str] | EntryRefusal:
        body = b""
        with trio.move_on_after(self._form_lasts) as scope:
            more = True
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    return EntryRefusal(400, "it went away")
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > (most := MOST_START if visit.is_start else MOST_FORM):
                    return EntryRefusal(413, f"a form of more than {most} octets")
        if scope.cancelled_caught:
            return EntryRefusal(408, "a form that did not come")
        try:
            form = dict(addresses.form(body))
        except ValueError:
            return EntryRefusal(413, "a form of too many fields")
        action = visit.path.decode("latin-1")
        proved = visit.is_start or self._house.keys.is_of_form(action, form.get("csrf", ""))
        if self._csrf and not proved:
            return EntryRefusal(403, "no form of ours sent that")
        return form

    async def _refuse(self, visit: EntryRequest, refusal: EntryRefusal, send: Send) -> None:
        self._house.tell(f"refused {visit.shown}: {refusal.why}")
        if refusal.asks:
            return await answer(send, 200, self._ask(target_of(visit)).encode(), headers.HTML)
        allow = {"allow": "GET, HEAD, POST"} if refusal.status == 405 else {}
        more = {"connection": "close", **allow}
        await answer(send, refusal.status, refusal.words.encode(), headers.TEXT, more)


def target_of(visit: EntryRequest) -> str:
    """The URL that an address of ours names, else nothing."""
    if visit.path.startswith(addresses.PREFIX):
        return addresses.asked(visit.path).text
    try:
        return dict(addresses.form(visit.query)).get("url", "") if visit.path == b"/look" else ""
    except ValueError:
        return ""


def visit_of(scope: Scope) -> EntryRequest:
    found: dict[bytes, tuple[bytes, ...]] = {}
    for name, value in scope["headers"]:
        key = bytes(name).lower()
        found[key] = (*found.get(key, ()), bytes(value).strip())
    client, server = scope["client"], scope["server"]
    return EntryRequest(
        scope["method"],
        bytes(scope["raw_path"]),
        bytes(scope["query_string"]),
        scope["http_version"],
        found,
        Endpoints(client, server) if client and server else None,
    )


async def answer(
    send: Send,
    status: int,
    body: bytes,
    media_type: str,
    more: Mapping[str, str] | None = None,
) -> None:
    """A whole answer."""
    said = {"content-type": media_type, "content-length": str(len(body)), **(more or {})}
    await send({"type": "http.response.start", "status": status, "headers": list(headers.fields(said))})
    await send({"type": "http.response.body", "body": body})


def _with_referrer_policy(send: Send) -> Send:
    """What every answer says that does not say otherwise."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            said = list(message.get("headers", ()))
            if not any(name == b"referrer-policy" for name, _ in said):
                message = {**message, "headers": [*said, *headers.fields(headers.REFERRER)]}
        await send(message)

    return sent


async def live(receive: Receive, send: Send) -> None:
    """The server begins and ends."""
    while (await receive())["type"] != "lifespan.shutdown":
        await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})
