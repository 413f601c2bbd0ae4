"""What is sent between the one who plans and those who fetch: values that can be pickled, and are small."""

from __future__ import annotations

from collections.abc import Mapping

from protocols.location import JsonValue
from protocols.values import NamedTuple


class BulkRequest(NamedTuple):
    """One request: the URL as it was given, where its body goes, below the place of all bodies, and what else
    was said of it (`checksum`, `size`, `mirrors`, `origin`, `referrer` as in `SaveRequest`)."""

    url: str
    path: str
    more: Mapping[str, JsonValue] | None = None


class RequestSlice(NamedTuple):
    """What one task asks for: so many requests of one partition as may be done within a minute. `label` says
    of which hosts, for people; `last`: nothing of the partition waits behind it; `seconds` is how long it
    will take, as far as that is known. `pauses` are the seconds for which hosts still want to be left
    alone."""

    partition: int
    number: int
    label: str
    items: tuple[BulkRequest, ...]
    last: bool
    seconds: float
    pauses: Mapping[str, float] | None = None


class SliceReport(NamedTuple):
    """What became of a slice: how many ended in each way, and with which exit status, how many octets were
    brought, and what was not begun for want of time, in its order. `pauses` as in `RequestSlice`, from its
    end on. `held`: another run was at work with the partition all the time, and all is left."""

    partition: int
    number: int
    left: tuple[BulkRequest, ...]
    counts: Mapping[str, int]
    exits: Mapping[int, int]
    bytes: int
    seconds: float
    pauses: Mapping[str, float]
    held: bool = False
