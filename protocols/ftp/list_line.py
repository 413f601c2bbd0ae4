"""One line of LIST. RFC 959 leaves its form open: it is meant for people, and each server has its own.

The forms are tried line by line, for a listing may mix them: EPLF, MS-DOS, NetWare, Unix, Unix with a date in
another language, VMS. Of Unix, nothing between the mode and the size is counted: groups may be missing,
owners have blanks, long numbers push the columns. The leftmost size with a date behind it counts, one blank
ends the date, all the rest is the name. Every pattern is bounded: reading is linear, whatever a line holds.
"""

from __future__ import annotations

import re
from datetime import datetime

from protocols.ftp.list_dates import DATE, ListDate, at_second, parse_date
from protocols.location import Kind
from protocols.values import NamedTuple

LARGEST = 2**63 - 1

_SIZE = rb"(?P<size>-?[0-9]{1,40}(?:[.,][0-9]{1,3})?[KMGTPEkmgtpe]?|[0-9]{1,10}, {0,20}[0-9]{1,10})"
_NAME = rb"(?P<name>(?s:.+))"
_MODE = re.compile(rb"(?P<type>[-dlbcpsDCMn])[-rwxsStTlL]{9}[+.@]?")
_UNIX = re.compile(rb"(?<= )" + _SIZE + rb" {1,40}(?P<date>" + DATE + rb") " + _NAME)
#: A month in another language.
_MONTH = rb"(?![0-9]+ )[^ ]{1,40}"
#: A day and such a month, either first, then the year or the time.
_UNREAD = re.compile(
    rb"(?<= )"
    + _SIZE
    + rb" {1,40}(?P<date>(?:"
    + _MONTH
    + rb" {1,20}[0-9]{1,2}\.?|[0-9]{1,2}\.? {1,20}"
    + _MONTH
    + rb")"
    + rb" {1,20}(?:(?:19|20)[0-9]{2}|[0-9]{1,2}:[0-9]{2})) "
    + _NAME
)
_DOS = re.compile(
    rb"(?P<date>[0-9]{2}-[0-9]{2}-(?:[0-9]{4}|[0-9]{2}) {1,20}[0-9]{2}:[0-9]{2} ?(?:[AP]M)?) {1,40}"
    rb"(?:(?P<folder><DIR>)|(?P<size>[0-9]{1,40})) {1,40}(?P<name>[^ ](?s:.*))"
)
_NETWARE = re.compile(
    rb"(?P<type>[-d]) {1,8}\[[-A-Z]{1,20}\] {1,40}[^ ]{1,200} {1,40}"
    + _SIZE
    + rb" {1,40}(?P<date>"
    + DATE
    + rb") {1,40}(?P<name>[^ ](?s:.*))"
)
_EPLF = re.compile(rb"\+(?P<facts>[^\t]{0,1000})\t" + _NAME)
_VMS = re.compile(
    rb"(?P<name>[^ ;]{1,255});[0-9]{1,5} {1,80}[0-9/]{1,20} {1,20}[0-9]{1,2}-[A-Za-z]{3}-[0-9]{4} "
)
_HEADING = re.compile(rb"[^ ]{1,40} {1,20}[0-9]{1,20}")
_TOTAL = re.compile(rb"total {1,20}[0-9]{1,20}")
_ARROW = b" -> "
_KINDS = {b"-": Kind.DOCUMENT, b"d": Kind.DIRECTORY, b"l": Kind.LINK}
#: Devices, FIFOs, sockets: nothing that could be retrieved.
_SPECIAL = b"bcps"


class Oddity(NamedTuple):
    """What is not as it should be, as the rule of a finding and in words."""

    rule: str
    words: str


class ListLine(NamedTuple):
    """What a line says. `size_text` is a size that was rounded; `special` is nothing to be retrieved; `mode`
    is what Unix lets whom do."""

    name: bytes
    kind: Kind = Kind.UNKNOWN
    size: int | None = None
    size_text: str | None = None
    date: ListDate | None = None
    target: bytes | None = None
    unique: str | None = None
    special: bool = False
    oddity: Oddity | None = None
    mode: str | None = None


def is_heading(line: bytes, *, first: bool) -> bool:
    """No entry, and no loss: `total 12`, in any language on the first line; an empty line."""
    return not line or (_HEADING if first else _TOTAL).fullmatch(line) is not None


def read_line(line: bytes, now: datetime | None) -> ListLine | None:
    """None where the form is not known. A year that is left out is found by `now`."""
    for form in (_read_eplf, _read_dos, _read_netware, _read_unix, _read_vms):
        if (found := form(line, now)) is not None:
            return found
    return None


def _read_eplf(line: bytes, now: datetime | None) -> ListLine | None:
    """Easily parsed LIST format: seconds are UTC, and certain."""
    found = _EPLF.fullmatch(line)
    if found is None:
        return None
    facts = found["facts"].split(b",")
    said = {fact[:1]: fact[1:].decode("latin-1") for fact in facts}
    kind = Kind.DIRECTORY if b"/" in facts else Kind.DOCUMENT if b"r" in facts else Kind.UNKNOWN
    second = _number(said.get(b"m", ""), 11)
    date = None if second is None else ListDate(said[b"m"], certain=at_second(second), precision="second")
    size = _number(said.get(b"s", ""), 19) if kind is Kind.DOCUMENT else None
    return ListLine(found["name"], kind, size, date=date, unique=said.get(b"i"))


def _read_dos(line: bytes, now: datetime | None) -> ListLine | None:
    found = _DOS.fullmatch(line)
    if found is None:
        return None
    kind = Kind.DOCUMENT if found["folder"] is None else Kind.DIRECTORY
    return _sized(ListLine(found["name"], kind, date=parse_date(found["date"], now)), found["size"] or b"")


def _read_netware(line: bytes, now: datetime | None) -> ListLine | None:
    found = _NETWARE.fullmatch(line)
    if found is None:
        return None
    read = ListLine(found["name"], _KINDS[found["type"]], date=parse_date(found["date"], now))
    return _sized(read, found["size"])


def _read_unix(line: bytes, now: datetime | None) -> ListLine | None:
    mode = _MODE.match(line)
    if mode is None:
        return None
    kind, special = _KINDS.get(mode["type"], Kind.UNKNOWN), mode["type"] in _SPECIAL
    if found := _UNIX.search(line, mode.end()):
        read = ListLine(found["name"], kind, date=parse_date(found["date"], now), special=special)
    elif found := _UNREAD.search(line, mode.end()):
        oddity = Oddity("ftp:list-date", "a date that is not read")
        date = ListDate(found["date"].decode("utf-8", "surrogateescape"))
        read = ListLine(found["name"], kind, date=date, special=special, oddity=oddity)
    else:
        return None
    read = read._replace(mode=mode[0].decode("ascii"))
    return _link(read, found["size"]) if kind is Kind.LINK else _sized(read, found["size"])


def _read_vms(line: bytes, now: datetime | None) -> ListLine | None:
    found = _VMS.match(line)
    if found is None:
        return None
    return ListLine(
        found["name"], oddity=Oddity("ftp:list-line", "the form of VMS, of which the name is read")
    )


def _link(read: ListLine, size: bytes) -> ListLine:
    """`name -> target`, where the size is that of the target: names may have arrows, too."""
    length = _number(size.decode("latin-1"), 5)
    at = len(read.name) - (length or 0)
    if length and read.name[max(0, at - len(_ARROW)) : at] == _ARROW:
        return read._replace(name=read.name[: at - len(_ARROW)], target=read.name[at:])
    name, arrow, target = read.name.partition(_ARROW)
    if not arrow:
        return read
    oddity = read.oddity or Oddity("ftp:list-link", "a link whose size does not tell where its name ends")
    return read._replace(name=name, target=target, oddity=oddity)


def _sized(read: ListLine, size: bytes) -> ListLine:
    """Of documents alone, and no number with a unit: that is rounded."""
    if read.kind is not Kind.DOCUMENT:
        return read
    text = size.decode("latin-1")
    if not text.isdigit():
        return read._replace(size_text=None if text.startswith("-") else text)
    octets = _number(text, 19)
    if octets is None:
        return read._replace(oddity=read.oddity or Oddity("ftp:list-size", "a size that no file has"))
    return read._replace(size=octets)


def _number(digits: str, most: int) -> int | None:
    """At most so many digits; None for all else, and beyond 2**63 - 1."""
    if not (digits.isascii() and digits.isdigit() and len(digits) <= most):
        return None
    number = int(digits)
    return number if number <= LARGEST else None
