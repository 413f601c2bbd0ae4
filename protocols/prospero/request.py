"""What is sent: commands, one a line, that only read (protocol page 6; rule S05).

Each message is complete: the version spoken, a name that says nothing about the person, one command.
Tokens that came from a URL or a reply are quoted; keywords are our own.
"""

from __future__ import annotations

from protocols.connection import Line
from protocols.prospero.target import Target
from protocols.prospero.token import quote
from protocols.wire import encode_commands

#: What the request says of itself. Neither may make up the text `VERSION 1` (6.1).
SOFTWARE = b"url-resolver"
NAME = b"anonymous"

_VERSION = (b"VERSION", b"5", SOFTWARE)
_AUTHENTICATE = (b"AUTHENTICATE", b"''", b"UNAUTHENTICATED", NAME)


def ask_attributes(target: Target, names: bytes) -> Line:
    """GET-OBJECT-INFO. `names` are attribute names with `+` between. Raises `Refused` (S02)."""
    words = (quote(target.hsoname_type), quote(target.hsoname), b"%d" % target.version)
    return _message((b"GET-OBJECT-INFO", names, *words), target)


def ask_listing(target: Target) -> Line:
    """DIRECTORY and LIST: every link with its attributes. Raises `Refused` (S02)."""
    return _list(target, b"ATTRIBUTES")


def verify_directory(target: Target) -> Line:
    """LIST as far as to say whether it is a directory at all. Raises `Refused` (S02)."""
    return _list(target, b"VERIFY")


def _list(target: Target, options: bytes) -> Line:
    words = (quote(target.hsoname_type), quote(target.hsoname), b"%d" % target.version)
    # A SELECT narrows the command before it, and it is DIRECTORY that names the object.
    return _message((b"DIRECTORY", *words), target, (b"LIST", options, b"COMPONENTS"))


def _message(command: tuple[bytes, ...], target: Target, *further: tuple[bytes, ...]) -> Line:
    selections = [(b"SELECT", *map(quote, words)) for words in target.selections]
    return encode_commands(_VERSION, _AUTHENTICATE, command, *selections, *further)
