"""Connections reconstructed from the protocol exchange in an archive."""

from __future__ import annotations

from protocols.location import JsonValue
from resolver.warc.metadata import Json, list_connections


class Counted(dict[str, JsonValue]):
    """An event that counts the accesses to its values."""

    lookups = 0

    def __getitem__(self, name: str) -> JsonValue:
        Counted.lookups += 1
        return super().__getitem__(name)

    def get(self, name: str, default: JsonValue = None) -> JsonValue:  # type: ignore[override]
        Counted.lookups += 1
        return super().get(name, default)


def _events(count: int) -> list[Json]:
    return [Counted(event="send", c=number, octets="a") for number in range(1, count + 1)]


def test_list_connections_many_connections_take_linear_time() -> None:
    Counted.lookups = 0
    ways = list_connections(_events(500))
    assert [way.sent for way in ways] == [[b"a"]] * 500
    assert Counted.lookups <= 10 * 500


def test_list_connections_skips_events_with_invalid_numbers() -> None:
    numbers: list[JsonValue] = [2, True, 0, -1, "1", [1], {}, None, 1.0, 1, 2]
    events: list[Json] = [
        {"event": "receive", "c": number, "octets": str(at)} for at, number in enumerate(numbers)
    ]
    assert [link.received for link in list_connections(events)] == [[b"9"], [b"0", b"10"]]
