"""The encoding of a gopher URL as a request (RFC 1738 3.4, Gopher+ memo 2.3).

A request is one line: the selector, the search and the Gopher+ command, separated by TABs. A TAB is never
copied from the URL (command injection). A filled-in form is parsed strictly and then encoded again.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

from protocols.contract import Line
from protocols.errors import Refused
from protocols.gopher.url import ANSWERS, GopherUrl
from protocols.wire import encode_block, encode_line

#: Every tested server accepts a line of SAFE_REQUEST bytes. Some servers do not accept longer lines.
REQUEST_LIMIT = 4096
SAFE_REQUEST = 198

_FORM_LINE = rb"\+([^\x00-\x1f\x7f]*)\t1"
_ENDS_FIELD = re.compile(rb"[\0\t\r\n]")
_NAME = re.compile(rb"[^+: \t\r\n]+")


#: The kind of view that a request asks for:
#:
#: - plain: the item, without Gopher+
#: - item: the item, in its default or a named view
#: - attributes: the item's attributes
#: - directory: the attributes of every item of a directory
#: - form: the item's form
#: - other: an unknown Gopher+ command
RequestedView: TypeAlias = Literal["plain", "item", "attributes", "directory", "form", "other"]


class GopherPlusCommand(NamedTuple):
    """A parsed Gopher+ string.

    Attributes:
        view: The requested view, written as in +VIEWS; empty for the default view.
        names: The names of the requested attributes, without plus signs; empty for all attributes.
        answers: The answers of a filled-in form; None if the command has no form.
    """

    requested: RequestedView
    view: bytes = b""
    names: tuple[bytes, ...] = ()
    answers: tuple[bytes, ...] | None = None

    @property
    def attributes(self) -> tuple[str, ...]:
        """Return `names` as the names of attribute blocks."""
        # Imported lazily: encoding a request does not need the parser of replies.
        from protocols.gopher.menu import display_text

        return tuple(display_text(name) for name in self.names)

    @property
    def requests_records(self) -> bool:
        return self.requested in ("attributes", "directory", "form")


_PLAIN = GopherPlusCommand("plain")


def parse_command(gopherplus: bytes | None) -> GopherPlusCommand:
    """Parse a Gopher+ string.

    Raises:
        Refused: The string contains NUL, TAB, CR or LF, and is not a form with exactly the syntax of RFC 1738
            3.4.9 (S03, multi-line requests).
    """
    if not gopherplus:
        return _PLAIN
    if _ENDS_FIELD.search(gopherplus):
        return _parse_form(gopherplus)
    match gopherplus[:1]:
        case b"+":
            return GopherPlusCommand("item", view=gopherplus[1:])
        case b"!":
            return GopherPlusCommand("attributes", names=tuple(_NAME.findall(gopherplus, 1)))
        case b"$":
            return GopherPlusCommand("directory", names=tuple(_NAME.findall(gopherplus, 1)))
        case b"?" if gopherplus == b"?":
            return GopherPlusCommand("form")
    return GopherPlusCommand("other")


def _parse_form(gopherplus: bytes) -> GopherPlusCommand:
    first, *lines = gopherplus.split(b"\r\n")
    match = re.fullmatch(_FORM_LINE, first)
    if match is None or len(lines) < 3 or lines[0] != b"+-1" or lines[-2:] != [b".", b""]:
        raise Refused("S03", "TAB, CR, LF and NUL in a Gopher+ string are allowed only in filled-in forms")
    answers = tuple(lines[1:-2])
    if any(answer == b"." or re.search(rb"[\0\r\n]", answer) for answer in answers):
        raise Refused("S03", "filled-in form continues after its final period")
    return GopherPlusCommand("item", view=match[1], answers=answers)


def command_in(url: GopherUrl) -> GopherPlusCommand:
    """Return the Gopher+ command of a URL, which determines how the reply is parsed.

    If the URL has no Gopher+ string, a search in the form of a command is interpreted as a command.
    """
    if url.gopherplus:
        return parse_command(url.gopherplus)
    if url.search and url.search[:1] in (b"+", b"!", b"$"):
        return parse_command(url.search)
    return _PLAIN


def encode_request(url: GopherUrl) -> Line:
    """Encode the request of a URL.

    An empty search is sent only before a Gopher+ command to an item of type 7. Without the empty search
    field, servers would interpret the Gopher+ command as the search. An empty last field is never sent.

    Raises:
        Refused: A selector or search contains a delimiter, or the line is too long (S02, command injection).
            Also raised if the Gopher+ string is unsafe (S03, multi-line requests).
    """
    command = parse_command(url.gopherplus) if url.gopherplus else _PLAIN
    fields = [url.selector]
    if url.search or (url.gophertype == "7" and url.gopherplus):
        fields.append(url.search or b"")
    if command.answers is not None:
        fields += [b"+" + command.view, b"1"]
    elif url.gopherplus:
        fields.append(b"!" if command.requested == "form" else url.gopherplus)
    line = encode_line(*fields, sep=b"\t")
    if (length := len(line.octets) - 2) > REQUEST_LIMIT:
        raise Refused("S02", f"request of {length} bytes exceeds the limit of {REQUEST_LIMIT}")
    if command.answers is None:
        return line
    return encode_block(line, command.answers, hidden=url.place(ANSWERS) is not None)
