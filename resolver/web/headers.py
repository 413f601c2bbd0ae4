"""The headers of all responses of the web UI, and the tokens and cookie that authenticate a browser.

No other module makes the value of a header. Each value consists of ASCII characters from space to tilde,
because a line break in a value would start another header or response (response splitting). Media types come
from one table in this module. A file name that a server sent is never repeated unchanged.
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

#: The referrer policy of the web UI's pages. With `no-referrer`, their forms would be sent with the origin
#: null.
REFERRER = {"referrer-policy": "same-origin"}
#: For responses that lead to the pages, as their URLs may contain a token, and for untrusted content.
NO_REFERRER = {"referrer-policy": "no-referrer"}

_NO_HEADER = re.compile(r"[^\x20-\x7e]")
#: Maximum length in bytes of a file name that clients accept.
_LONGEST_NAME = 200


def field(name: str, text: str) -> tuple[bytes, bytes]:
    """Return a header; characters that a value must not contain are percent-encoded."""
    safe = _NO_HEADER.sub(lambda found: quote(found[0], safe="", errors="surrogatepass"), text)
    return name.encode("ascii"), safe.encode("ascii")


def make_header(name: str, text: str) -> dict[str, str]:
    """Return a header as a mapping, as frameworks expect it."""
    return {name: field(name, text)[1].decode("ascii")}


def fields(said: Mapping[str, str]) -> Fields:
    return tuple(field(name, text) for name, text in said.items())


def make_page_headers(content: str) -> Mapping[str, str]:
    """Return the headers of every page and every refusal; `content` is the origin of documents."""
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
    """Return the headers of untrusted content.

    The content cannot run code, fetch resources or send data. It contains no working links, and only the web
    UI's page can frame it. The restriction is in the header, not in an attribute of the frame. So it also
    applies if the user opens the address alone, and a PDF viewer works.
    """
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
    """Return the headers of a gateway response.

    A browser at the origin of the web UI's pages may receive the response, too. Responses of all types are
    therefore saved instead of shown, because a list of the types that browsers run could never be complete.
    """
    return {
        **make_header("content-type", media_type),
        "content-security-policy": make_content_headers("'none'")["content-security-policy"],
        "content-disposition": "attachment",
        **NO_REFERRER,
    }


def file_name(name: str | bytes, otherwise: str = "document") -> str:
    """Return a name that is safe for a file (S14), regardless of the name that a server sent."""
    octets = name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")
    try:
        return local_name(octets)
    except Refused:
        return otherwise


def disposition(name: str | bytes, *, inline: bool) -> str:
    """Return a Content-Disposition value (RFC 6266), with an ASCII name for clients without `filename*`.

    The ASCII name contains no percent sign, because some clients decode it.
    """
    safe = file_name(name)
    while len(safe.encode("utf-8", "replace")) > _LONGEST_NAME:
        safe = safe[:-1]
    plain = re.sub(r'[^\x20-\x7e]|["\\%]', "_", safe)
    whole = quote(safe.encode("utf-8", "replace"), safe="")
    return f"{'inline' if inline else 'attachment'}; filename=\"{plain}\"; filename*=UTF-8''{whole}"


# The keys are: a token that authenticates one browser, the cookie that replaces the token, and the CSRF token
# of forms.
#
# All keys are generated at the start and lost with the process. Comparisons take constant time.

#: Seconds for which a token is valid, and the maximum number of unused tokens.
_TOKEN_LASTS = 60.0
_MOST_TOKENS = 32
#: Size of a random key in bytes.
_OCTETS = 32


class SessionKeys:
    """The keys of one run, at one port.

    If pages go to other machines without TLS, the cookie has neither `Secure` nor the prefix `__Host-`,
    because browsers would reject it.

    Args:
        port: The port for pages.
        now: Returns the time in seconds.
        in_clear: Whether pages go to other machines without TLS.
    """

    def __init__(self, port: int, now: Callable[[], float], *, in_clear: bool = False) -> None:
        self._now = now
        self._tokens: dict[str, tuple[float, str]] = {}
        self._session = secrets.token_urlsafe(_OCTETS)
        self._forms = secrets.token_bytes(_OCTETS)
        self.gateway = secrets.token_urlsafe(_OCTETS)
        #: For programs of the same user, in a file that only this user can read.
        self.start = secrets.token_urlsafe(_OCTETS)
        #: The name contains the port, because cookies ignore ports: two servers keep separate cookies.
        self.cookie_name = f"{'' if in_clear else '__Host-'}resolve-{port}"
        self._secure = "" if in_clear else "; Secure"

    def token(self, url: str = "") -> str:
        """Return a new single-use token that leads to `url`; the entry address does not reveal the URL."""
        while len(self._tokens) >= _MOST_TOKENS:
            del self._tokens[next(iter(self._tokens))]
        token = secrets.token_urlsafe(_OCTETS)
        self._tokens[token] = self._now() + _TOKEN_LASTS, url
        return token

    def enter(self, given: str) -> str | None:
        """Use up a token; return its URL if the token is valid, else None."""
        found = [each for each in self._tokens if _is_same(each, given)]
        entries = [self._tokens.pop(each) for each in found]
        return next((url for deadline, url in entries if deadline >= self._now()), None)

    @property
    def cookie(self) -> str:
        """Return the Set-Cookie value for a browser that has entered."""
        return f"{self.cookie_name}={self._session}; Path=/{self._secure}; HttpOnly; SameSite=Strict"

    def is_ours(self, cookies: Iterable[bytes]) -> bool:
        """Return whether the headers contain the session cookie."""
        pairs = (each.strip().partition(b"=") for header in cookies for each in header.split(b";"))
        name = self.cookie_name.encode("ascii")
        return any(_is_same(self._session, value.decode("latin-1")) for key, _, value in pairs if key == name)

    def csrf(self, action: str) -> str:
        """Return the CSRF token of a form that is sent to `action`; no other site can know it."""
        return hmac.new(self._forms, action.encode("utf-8", "replace"), sha256).hexdigest()

    def is_of_form(self, action: str, given: str) -> bool:
        """Return whether the CSRF token is the one for this action."""
        return _is_same(self.csrf(action), given)

    def is_start(self, given: str) -> bool:
        """Return whether the secret is the one in `serve.json`."""
        return _is_same(self.start, given)

    def is_gateway(self, given: str) -> bool:
        """Return whether the secret is the one in the gateway's address."""
        return _is_same(self.gateway, given)


def _is_same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8"), other.encode("utf-8", "surrogatepass"))
