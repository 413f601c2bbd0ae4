"""The options of the command as a table: names, what each takes, what it is for.

A name in this table is used for nothing else. Values are checked on the way in, one function a kind, which
raises `BadValue`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Literal, NamedTuple, TypeAlias

from protocols.errors import InvalidUrl

_SIZE_FACTORS = {"k": 1024, "K": 1024, "M": 1024**2, "G": 1024**3}


#: What a command line says: an attribute for each row of the table.
Found: TypeAlias = SimpleNamespace


class BadValue(Exception):
    """An option cannot have this value; the message says what it needs."""


def count(text: str) -> int:
    """A whole number from 1 to 1,000."""
    return _number(text, 1, 1_000)


def port(text: str) -> int:
    """A TCP port."""
    return _number(text, 1, 65_535)


def _number(text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and least <= int(text) <= most):
        raise BadValue(f"a number from {least} to {most} is needed, not {text!r}")
    return int(text)


def size(text: str) -> int:
    """A number of octets, optionally with k, M or G (powers of 1024)."""
    factor = _SIZE_FACTORS.get(text[-1:], 1)
    digits = text if factor == 1 else text[:-1]
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        raise BadValue(f"a whole number (with k, M or G) is needed, not {text!r}")
    return int(digits) * factor


def seconds(text: str) -> float:
    """Seconds, above 0, in decimal figures."""
    value = float(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?|\.[0-9]{1,9}", text) else 0.0
    if value <= 0:
        raise BadValue(f"seconds above 0 are needed, not {text!r}")
    return value


def path(text: str) -> str:
    """The name of a file or directory. An unset variable of a script is none."""
    if not text:
        raise BadValue("a name is needed, not ''")
    return text


def referrer(text: str) -> str:
    """A URL that led to another."""
    from resolver.url import parse  # few command lines have one

    try:
        return parse(text).text
    except InvalidUrl as error:
        raise BadValue(f"not a URL: {error.message}") from error


def checksum(text: str) -> object:
    """`auto` or `ALG:HEX`."""
    from resolver.checksum import Checksum  # few command lines have one

    try:
        return Checksum.parse(text)
    except ValueError as error:
        raise BadValue(str(error)) from error


class Option(NamedTuple):
    """One row. `takes` is a metavariable, or None for a switch; `many` options may be
    repeated; of `choices` the first is the default, unless it matters that nobody said so (`unsaid`)."""

    flags: tuple[str, ...]
    takes: str | None
    purpose: str
    dest: str | None = None
    many: bool = False
    kind: Callable[[str], object] = str
    choices: tuple[str, ...] | None = None
    default: object = None
    unsaid: bool = False

    @property
    def name(self) -> str:
        """The attribute of `Found` that it sets."""
        return self.dest or self.flags[0].lstrip("-").replace("-", "_")

    @property
    def unset(self) -> object:
        """What that is where nobody said anything."""
        if self.takes is None:
            return False
        if self.many:
            return []
        return self.default if self.choices is None or self.unsaid else self.choices[0]


EXISTS = ("fail", "resume", "skip", "newer", "replace", "rename")

Group = Literal["output", "limits", "proof", "safety", "access", "schemes"]

OPTIONS: dict[Group, tuple[Option, ...]] = {
    "output": (
        Option(("-O", "-o"), "FILE", "save there; - is standard output", dest="output", kind=path),
        Option(("-d",), "DIR", "save below DIR, created if need be", dest="directory", kind=path),
        Option(("-i",), "LIST", "URLs, lines or JSON; - is stdin", dest="lists", many=True, kind=path),
        Option(("--exists",), "HOW", "a file that is there (fail)", choices=EXISTS),
        Option(("--json",), None, "one JSON object a line"),
        Option(("-q",), None, "no messages", dest="quiet"),
        Option(("-v",), None, "show the dialogue", dest="verbose"),
        Option(("--trace",), "FILE", "write the dialogue there, secrets as ****", kind=path),
    ),
    "limits": (
        Option(("-j",), "N", "retrievals at once (4)", dest="jobs", kind=count, default=4),
        Option(("--max-size",), "BYTES", "largest body", kind=size),
        Option(("--connect-timeout",), "S", "seconds to connect (30)", kind=seconds),
        Option(("--idle-timeout",), "S", "seconds without an octet (60)", kind=seconds),
        Option(("-t", "--tries"), "N", "tries without progress (5)", dest="tries", kind=count, default=5),
        Option(("--retry-delay",), "S", "before the second try (1); doubles", kind=seconds, default=1.0),
        Option(("--min-rate",), "BYTES", "octets a second, below which to give up", kind=size),
        Option(("--max-time",), "S", "seconds for all of one URL (no limit)", kind=seconds),
        Option(("--limit",), "NAME=VALUE", "line, lines, entries, hops, body, ratio, …", many=True),
    ),
    "proof": (
        Option(("--checksum",), "ALG:HEX", "the digest a file must have, or auto", kind=checksum),
        Option(("--mirror",), "URL", "another place of the same object", dest="mirrors", many=True),
    ),
    "safety": (
        Option(("--strict",), None, "what RFC 1738 would not write is an error"),
        Option(("--policy",), "NAME", "(default)", choices=("default", "cautious", "untrusted")),
        Option(("--allow-port",), "PORT", "S04: a port that no URL should name", many=True, kind=port),
        Option(("--allow-address",), "CIDR", "S08: addresses that lead inside", many=True),
        Option(("--allow-name",), "HOST", "S07: a name that looks like another", many=True),
        Option(("--allow-redirect",), "SCHEME", "S10: where a redirect may lead", many=True),
        Option(("--allow-forward",), "HOST", "S11: who may get the credentials too", many=True),
        Option(("--allow-password",), None, "S06: a password in a URL"),
        Option(("--allow-form",), None, "S05: a URL that submits a form"),
        Option(("--allow-special",), None, "S12: files that are not regular"),
        Option(("--allow-raw",), None, "S15: control characters on a terminal"),
        Option(("--allow-server-name",), None, "S14: a file name that the server chose"),
        Option(("--file-root",), "DIR", "S12: file URLs must lead below DIR"),
        Option(("--origin",), "WHO", "who chose the URL (user)", choices=("user", "chosen", "derived")),
        Option(("--referrer",), "URL", "the URL that led to it", kind=referrer),
    ),
    "access": (
        Option(("-4",), None, "IPv4 only", dest="only_ipv4"),
        Option(("-6",), None, "IPv6 only", dest="only_ipv6"),
        Option(("--user",), "NAME", "log in as NAME at the places of this command line"),
        Option(("--password-file",), "FILE", "its first line is the password; - is stdin", kind=path),
        Option(("--tls",), "HOW", "where it is optional", choices=("never", "try", "require"), unsaid=True),
        Option(("-H",), "NAME:VALUE", "a header of http requests", dest="headers", many=True),
        Option(("--user-agent",), "TEXT", "who we say we are (http)"),
        Option(("--cacert",), "FILE", "trust the certificates in FILE", kind=path),
        Option(("--gateway",), "SCHEME=URL", "resolve SCHEME through URL", many=True),
    ),
    "schemes": (
        Option(("--search",), "TEXT", "what to search for (gopher, wais)"),
        Option(("--view",), "TYPE", "the Gopher+ view to ask for (gopher)"),
        Option(("--type",), "CODE", "the transfer type a, i or d (ftp)"),
        Option(("--mlsd",), None, "list with facts (ftp)"),
        Option(("--ftp-email",), "ADDRESS", "what anonymous gives as its password (ftp)"),
        Option(("--news-server",), "HOST[:PORT]", "where to ask for news: URLs"),
        Option(("--entries",), "N", "newest N of a group, N hits of a search; 0 is all", kind=size),
    ),
}  # fmt: skip
