"""finger (RFC 1288): a line with who is asked for, and all that is said until the connection is closed."""

from __future__ import annotations

from dataclasses import dataclass

from protocols.authority import build_login, parse_hostport
from protocols.contract import HostUrl, Kind, Limits, Options, Reply, Scheme, UrlText
from protocols.step import Begin, Connect, Dialogue, Pass, Say
from protocols.syntax import build_url, encode, note_characters, take
from protocols.wire import encode_line


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FingerUrl(HostUrl):
    """`request` is a name, `/W` and a blank before it for more of it; empty for everybody who is there."""

    request: bytes = b""


def parse(text: UrlText) -> FingerUrl:
    login, end = parse_hostport(text)
    start = min(end + 1, text.end)
    note_characters(text, start, text.end, "@")
    return FingerUrl(scheme=text.scheme, **login, request=take(text, "request", start, text.end))


def build(url: FingerUrl) -> str:
    return build_url(url, f"{build_login(url)}/{encode(url.request, also='@')}")


def converse(url: FingerUrl, options: Options, limits: Limits) -> Dialogue[None]:
    line = encode_line(url.request)
    yield Connect()
    yield Say((line,))
    yield Begin(Reply(kind=Kind.DOCUMENT, media_type="text/plain"))
    yield Pass("what is said until the connection is closed")


HOME = f"{__name__}:converse"
FINGER = Scheme("finger", "who somebody is", default_port=79, parse=parse, build=build, converse=HOME)
