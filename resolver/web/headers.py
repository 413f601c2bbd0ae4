"""Headers of all answers of the web UI, and the tokens and cookie that admit a browser.

No other module makes the value of a header. A value is ASCII from space to tilde and nothing else, whatever
it was made of: a line end in one would be an answer of its own. Media types are those of one table here; a
server's name for its document is never repeated.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import TypeAlias
from urllib.parse import quote

from protocols.errors import Refused
from resolver.policy.files import local_name

Fields: TypeAlias = "tuple[tuple[bytes, bytes], ...]"

TEXT, HTML, SHEET, SCRIPT, JSON, EVENTS, SVG = (
    "text/plain; charset=utf-8",
    "text/html; charset=utf-8",
    "text/css; charset=utf-8",
    "text/javascript; charset=utf-8",
    "application/json",
    "text/event-stream",
    "image/svg+xml; charset=utf-8",
)
OCTETS = "application/octet-stream"

#: Of our pages: with `no-referrer` a form of our own would come from the origin null.
REFERRER = {"referrer-policy": "same-origin"}
#: Of what leads to them, which may have a token, and of what came from elsewhere.
NO_REFERRER = {"referrer-policy": "no-referrer"}

_NO_HEADER = re.compile(r"[^\x20-\x7e]")
#: Octets of a file name that clients take.
_LONGEST_NAME = 200


def field(name: str, text: str) -> tuple[bytes, bytes]:
    """A header. What no value may hold is percent-encoded, and so does no harm."""
    safe = _NO_HEADER.sub(lambda found: quote(found[0], safe="", errors="surrogatepass"), text)
    return name.encode("ascii"), safe.encode("ascii")


def make_header(name: str, text: str) -> dict[str, str]:
    """The same, as frameworks want it."""
    return {name: field(name, text)[1].decode("ascii")}


def fields(said: Mapping[str, str]) -> Fields:
    return tuple(field(name, text) for name, text in said.items())


def make_page_headers(content: str) -> Mapping[str, str]:
    """What every page of ours says, and every refusal of one; `content` is where documents are."""
    return {
        "content-security-policy": "; ".join(
            (
                "default-src 'none'",
                "script-src 'self'",
                "style-src 'self'",
                f"img-src 'self' {content}",
                f"media-src {content}",
                f"frame-src {content}",
                "connect-src 'self'",
                "form-action 'self'",
                "base-uri 'none'",
                "frame-ancestors 'none'",
                "worker-src 'none'",
            )
        ),
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
        "x-frame-options": "DENY",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
    }


def make_content_headers(pages: str) -> Mapping[str, str]:
    """What everything says that came from elsewhere: it runs nothing, fetches nothing, sends nothing, leads
    nowhere, and stands in no frame but that of our page. The header and no attribute of the frame decides: it
    also holds where the address is opened alone, and a viewer for PDF works."""
    return {
        "content-security-policy": "; ".join(
            (
                "sandbox",
                "default-src 'none'",
                "style-src 'unsafe-inline'",
                "img-src data:",
                "form-action 'none'",
                "base-uri 'none'",
                f"frame-ancestors {pages}",
            )
        ),
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
    }


def make_gateway_headers(media_type: str) -> Mapping[str, str]:
    """What an answer to another client says, which a browser at the origin of our pages may get, too: it is
    saved and not shown, whatever its type, for no list of the types that browsers run is complete."""
    return {
        **make_header("content-type", media_type),
        "content-security-policy": make_content_headers("'none'")["content-security-policy"],
        "content-disposition": "attachment",
        **NO_REFERRER,
    }


def file_name(name: str | bytes, otherwise: str = "document") -> str:
    """One that is safe to save under (S14), whatever a stranger called it."""
    octets = name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")
    try:
        return local_name(octets)
    except Refused:
        return otherwise


def disposition(name: str | bytes, *, inline: bool) -> str:
    """RFC 6266, with the name in ASCII for who knows no other. A percent sign there is decoded by some."""
    safe = file_name(name)
    while len(safe.encode("utf-8", "replace")) > _LONGEST_NAME:
        safe = safe[:-1]
    plain = re.sub(r'[^\x20-\x7e]|["\\%]', "_", safe)
    whole = quote(safe.encode("utf-8", "replace"), safe="")
    return f"{'inline' if inline else 'attachment'}; filename=\"{plain}\"; filename*=UTF-8''{whole}"


# Keys: a token that admits one entry, the cookie that it is exchanged for, and the proof of our pages' forms.
#
# All of them are drawn at the start and gone with the process. Comparisons take the same time whatever is
# wrong.

#: Seconds in which a token has to be used, and how many may wait for that.
_TOKEN_LASTS = 60.0
_MOST_TOKENS = 32
#: Octets of what nobody guesses.
_OCTETS = 32


class SessionKeys:
    """Those of one run, at one port; `now` gives seconds. Where pages go to other machines in the clear, no
    browser takes a cookie that says `Secure`, or has the name of one that does."""

    def __init__(self, port: int, now: Callable[[], float], *, in_clear: bool = False) -> None:
        self._now = now
        self._tokens: dict[str, tuple[float, str]] = {}
        self._session = secrets.token_urlsafe(_OCTETS)
        self._forms = secrets.token_bytes(_OCTETS)
        self.gateway = secrets.token_urlsafe(_OCTETS)
        #: For programs of the same person, who find it in a file that nobody else may read.
        self.start = secrets.token_urlsafe(_OCTETS)
        #: Cookies ignore ports, so the name has it: two servers do not take each other's.
        self.cookie_name = f"{'' if in_clear else '__Host-'}resolve-{port}"
        self._secure = "" if in_clear else "; Secure"

    def token(self, url: str = "") -> str:
        """A new one, for one entry, which leads to `url`: an address would show that to who sees it."""
        while len(self._tokens) >= _MOST_TOKENS:
            del self._tokens[next(iter(self._tokens))]
        token = secrets.token_urlsafe(_OCTETS)
        self._tokens[token] = self._now() + _TOKEN_LASTS, url
        return token

    def enter(self, given: str) -> str | None:
        """Where it leads to, if it is good. It is used up by this."""
        found = [each for each in self._tokens if _is_same(each, given)]
        entries = [self._tokens.pop(each) for each in found]
        return next((url for deadline, url in entries if deadline >= self._now()), None)

    @property
    def cookie(self) -> str:
        """What is set for who has entered."""
        return f"{self.cookie_name}={self._session}; Path=/{self._secure}; HttpOnly; SameSite=Strict"

    def is_ours(self, cookies: Iterable[bytes]) -> bool:
        """Is the session's cookie among those of these headers?"""
        pairs = (each.strip().partition(b"=") for header in cookies for each in header.split(b";"))
        name = self.cookie_name.encode("ascii")
        return any(_is_same(self._session, value.decode("latin-1")) for key, _, value in pairs if key == name)

    def csrf(self, action: str) -> str:
        """What a form of ours holds that is sent to `action`, which no page but ours can know."""
        return hmac.new(self._forms, action.encode("utf-8", "replace"), sha256).hexdigest()

    def is_of_form(self, action: str, given: str) -> bool:
        """Did a form of ours send that there?"""
        return _is_same(self.csrf(action), given)

    def is_start(self, given: str) -> bool:
        """Is it what that file has?"""
        return _is_same(self.start, given)

    def is_gateway(self, given: str) -> bool:
        """Is it what other clients were given?"""
        return _is_same(self.gateway, given)


def _is_same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8"), other.encode("utf-8", "surrogatepass"))
