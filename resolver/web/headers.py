"""The headers of all responses of the web UI, and the tokens and cookie that authenticate a browser.

All header values are created in this module. A header value contains only ASCII characters from space to
tilde. CR or LF in a value would start another header or response (response splitting). Media types come from
a table in this module. A file name from a server is sanitized before it is sent.
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

#: The referrer policy of pages of the web UI. With `no-referrer`, browsers would submit forms with `Origin:
#: null`.
REFERRER = {"referrer-policy": "same-origin"}
#: The referrer policy of untrusted content and of entry responses, because their URLs may contain a token.
NO_REFERRER = {"referrer-policy": "no-referrer"}

_NO_HEADER = re.compile(r"[^\x20-\x7e]")
#: Maximum length in bytes of a file name in a Content-Disposition header.
_MAX_NAME = 200


def make_field(name: str, text: str) -> tuple[bytes, bytes]:
    """Return a header; characters that are not allowed in the value are percent-encoded."""
    safe = _NO_HEADER.sub(lambda match: quote(match[0], safe="", errors="surrogatepass"), text)
    return name.encode("ascii"), safe.encode("ascii")


def make_header(name: str, text: str) -> dict[str, str]:
    """Return a header as a mapping of name and value, for Starlette."""
    return {name: make_field(name, text)[1].decode("ascii")}


def make_fields(values: Mapping[str, str]) -> Fields:
    return tuple(make_field(name, text) for name, text in values.items())


def make_page_headers(content: str) -> Mapping[str, str]:
    """Return the headers of all pages and refusals; `content` is the origin of the content port."""
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
    """Return the headers of untrusted content, with a restrictive Content-Security-Policy.

    The content cannot run scripts, fetch resources, send data or follow links. Only pages of the web UI can
    show the content in a frame. The restrictions are in a response header and not in the `sandbox` attribute
    of the frame. So the restrictions also apply if the user opens the content in a separate tab, and PDF
    viewers still work.
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

    The response has the same origin as the pages of the web UI. Therefore a browser must not run its content
    (XSS). A list of all media types that browsers run would be incomplete. So the header
    `Content-Disposition: attachment` makes browsers save content of every type.
    """
    return {
        **make_header("content-type", media_type),
        "content-security-policy": make_content_headers("'none'")["content-security-policy"],
        "content-disposition": "attachment",
        **NO_REFERRER,
    }


def make_file_name(name: str | bytes) -> str:
    """Return a safe file name (S14) for an untrusted name from a server, or `document`."""
    octets = name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")
    try:
        return local_name(octets)
    except Refused:
        return "document"


def make_disposition(name: str | bytes, *, inline: bool) -> str:
    """Return a Content-Disposition value (RFC 6266) with `filename*` and an ASCII `filename`.

    The ASCII `filename` is for clients that do not support `filename*`. The percent sign is replaced in the
    ASCII name, because some clients percent-decode the ASCII name.
    """
    safe = make_file_name(name)
    while len(safe.encode("utf-8", "replace")) > _MAX_NAME:
        safe = safe[:-1]
    plain = re.sub(r'[^\x20-\x7e]|["\\%]', "_", safe)
    whole = quote(safe.encode("utf-8", "replace"), safe="")
    return f"{'inline' if inline else 'attachment'}; filename=\"{plain}\"; filename*=UTF-8''{whole}"


# The secrets of a run:
# - An entry token authenticates a browser once.
# - The session cookie is sent to a browser in exchange for an entry token.
# - CSRF tokens protect forms.
#
# Secrets are generated at the start of a run, and are invalid after the run. Secrets are compared in constant
# time (timing attack).

#: Lifetime of an entry token in seconds, and maximum number of unused entry tokens.
_TOKEN_LIFETIME = 60.0
_MAX_TOKENS = 32
#: Size of a secret in random bytes.
_OCTETS = 32


class SessionKeys:
    """The secrets of one run at one port.

    If pages are served to other machines without TLS, the cookie has no attribute `Secure` and no name prefix
    `__Host-`. Browsers would reject a cookie with them.

    Args:
        port: The port for pages.
        now: A function that returns the time in seconds.
        in_clear: Whether pages are served to other machines without TLS.
    """

    def __init__(self, port: int, now: Callable[[], float], *, in_clear: bool = False) -> None:
        self._now = now
        self._tokens: dict[str, tuple[float, str]] = {}
        self._session = secrets.token_urlsafe(_OCTETS)
        self._forms = secrets.token_bytes(_OCTETS)
        self.gateway = secrets.token_urlsafe(_OCTETS)
        #: The secret for other programs of the user, in the file `serve.json`, which only the user can read.
        self.start = secrets.token_urlsafe(_OCTETS)
        #: The cookie name contains the port, because cookies ignore ports and two servers need separate
        #: cookies.
        self.cookie_name = f"{'' if in_clear else '__Host-'}resolve-{port}"
        self._secure = "" if in_clear else "; Secure"

    def make_token(self, url: str = "") -> str:
        """Return a new single-use entry token for a URL, which the entry address does not contain."""
        while len(self._tokens) >= _MAX_TOKENS:
            del self._tokens[next(iter(self._tokens))]
        token = secrets.token_urlsafe(_OCTETS)
        self._tokens[token] = self._now() + _TOKEN_LIFETIME, url
        return token

    def redeem(self, text: str) -> str | None:
        """Invalidate an entry token; return its URL, or None if the token was not valid."""
        tokens = [token for token in self._tokens if _is_same(token, text)]
        entries = [self._tokens.pop(token) for token in tokens]
        return next((url for deadline, url in entries if deadline >= self._now()), None)

    @property
    def cookie(self) -> str:
        """Return the Set-Cookie value for a browser that has sent a valid entry token."""
        return f"{self.cookie_name}={self._session}; Path=/{self._secure}; HttpOnly; SameSite=Strict"

    def has_session_cookie(self, cookies: Iterable[bytes]) -> bool:
        pairs = (pair.strip().partition(b"=") for header in cookies for pair in header.split(b";"))
        name = self.cookie_name.encode("ascii")
        return any(_is_same(self._session, value.decode("latin-1")) for key, _, value in pairs if key == name)

    def make_csrf(self, action: str) -> str:
        """Return the CSRF token for a form that is submitted to `action`."""
        return hmac.new(self._forms, action.encode("utf-8", "replace"), sha256).hexdigest()

    def is_csrf_token(self, action: str, token: str) -> bool:
        return _is_same(self.make_csrf(action), token)

    def is_start_secret(self, secret: str) -> bool:
        """Return whether the secret equals the secret in `serve.json`."""
        return _is_same(self.start, secret)

    def is_gateway_secret(self, secret: str) -> bool:
        """Return whether the secret equals the secret in the address of the gateway."""
        return _is_same(self.gateway, secret)


def _is_same(first: str, second: str) -> bool:
    return hmac.compare_digest(first.encode("utf-8"), second.encode("utf-8", "surrogatepass"))
