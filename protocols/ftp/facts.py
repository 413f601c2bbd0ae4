"""The few values that are read out of a reply's text: 213 (RFC 3659 3 and 4) and 257 (RFC 959, appendix II).

A value that is not there or makes no sense is None and never an error: each of them is a courtesy.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from protocols.ftp.reply import ControlReply

if TYPE_CHECKING:
    from datetime import datetime

_SIZE = re.compile(rb" *(\d{1,19}) *")
_LARGEST = 2**63 - 1
_TIME = re.compile(rb" *(?!19100)([0-9]{4})" + rb"([0-9]{2})" * 5 + rb"(?:\.[0-9]{1,9})? *")
_QUOTED = re.compile(rb'([^"]*(?:""[^"]*)*)"(?!")')
_CONTROLS = re.compile(rb"[\x00-\x1f\x7f]")


def parse_size(reply: ControlReply) -> int | None:
    """The number of octets in a 213 to SIZE."""
    match = _SIZE.fullmatch(reply.octets)
    if match is None or (size := int(match[1])) > _LARGEST:
        return None
    return size


def parse_time(octets: bytes) -> datetime | None:
    """`YYYYMMDDHHMMSS[.sss]` in UTC: a 213 to MDTM, the fact `modify`. What begins with `19100` is of a
    server with the year 2000 bug, not of 1910, and is none."""
    match = _TIME.fullmatch(octets)
    if match is None:
        return None
    from protocols.instant import in_utc  # a plan has no dates

    return in_utc(match.groups())


def parse_path(reply: ControlReply) -> bytes | None:
    """The path in a 257: between the first quote and its closing one, a quote in it doubled.

    None without a closing quote (CVE-2017-1000254), for an empty path, and for one with a control
    character. Servers that do not double quotes give a wrong path here; whoever uses one has to try it.
    """
    _, _, rest = reply.octets.partition(b'"')
    match = _QUOTED.match(rest)
    if match is None or not match[1] or _CONTROLS.search(match[1]):
        return None
    return match[1].replace(b'""', b'"')
