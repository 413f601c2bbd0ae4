"""finger (RFC 1288) as a careless plug-in: it decodes and keeps the URL without any check.

It takes any port of a URL for the scheme's default port, accepts a missing host, and ignores user
information.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, unquote_to_bytes

from protocols.contract import Reply, Scheme, UrlText
from protocols.step import Connect, CopyBody, Dialogue, Send, StartBody
from protocols.wire import encode_line
from resolver import Kind, Limits, Options, Url


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FingerUrl(Url):
    """A finger URL. `query` is decoded, `written` is not."""

    host: str = ""
    port: int = 0
    query: bytes = b""
    written: str = ""
    parts: tuple[bytes, ...] = ()

    @property
    def default_port(self) -> int:
        return self.port

    @property
    def effective_port(self) -> int:
        return self.port


def parse(text: UrlText) -> FingerUrl:
    """Parse without the checks of `protocols.authority`."""
    authority, _, query = text.text[text.start : text.end].removeprefix("//").partition("/")
    host, _, port = authority.rpartition("@")[2].partition(":")
    query, _, written = query.partition("?")
    return FingerUrl(
        scheme=text.scheme,
        host=unquote(host),
        port=int(port) if port else text.default_port or 0,
        query=unquote_to_bytes(query),
        written=written,
        parts=tuple(unquote_to_bytes(part) for part in query.split("+")[1:]),
    )


def build(url: FingerUrl) -> str:
    return f"finger://{url.host}/{url.query.decode('latin-1')}"


def ask(url: FingerUrl, options: Options, limits: Limits) -> Dialogue[None]:
    yield Connect()
    yield Send((encode_line(url.query),))
    yield StartBody(Reply(kind=Kind.DOCUMENT, media_type="text/plain"))
    yield CopyBody("what there is to say, until the connection is closed")


FINGER = Scheme(
    name="finger",
    names="who somebody is",
    default_port=79,
    parse=parse,
    build=build,
    converse="tests.plugin.finger:ask",
)
