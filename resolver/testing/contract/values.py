"""What holds for every value that is handed out, and what a plan says beside what was done."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from typing import Protocol

import pytest

from protocols.location import JsonValue
from resolver import registry
from resolver.events import Connected
from resolver.plan import Plan
from resolver.testing.contract.setting import CaseSetting


class Value(Protocol):
    """A value with a JSON form."""

    def as_json(self) -> dict[str, JsonValue]: ...


def members_of(kind: type[object]) -> set[str]:
    """The names of a dataclass's or a named tuple's members."""
    return set(getattr(kind, "__dataclass_fields__", getattr(kind, "_fields", ())))


def check_value(value: Value, names: set[str]) -> None:
    """Frozen, and all these members are in its JSON form, which a round trip does not change."""
    for name in members_of(type(value)):
        with pytest.raises((FrozenInstanceError, AttributeError)):
            setattr(value, name, None)
    record = value.as_json()
    assert set(record) == names
    assert json.loads(json.dumps(record)) == record


def planned_octets(plan: Plan) -> bytes:
    """What a plan says is sent, one octet a character."""
    return "".join(str(step["octets"]) for step in plan.steps if step["action"] == "send").encode("latin-1")


def check_connects(plan: Plan, setting: CaseSetting, made: list[Connected], accepted: int) -> None:
    """The connections of the plan are those that were made. Port 0 is a port of the server's choice; TLS
    begins there when the server has been told what to send, behind the event."""
    planned = [step for step in plan.steps if step["action"] == "connect"]
    assert accepted == sum(step["port"] != 0 for step in planned)
    case = setting.case
    for step in planned:
        secured = case.tls or (case.options.tls != "never" and step["port"] == 0)
        assert (step["host"], step["tls"]) == ("127.0.0.1", secured)
        assert step["port"] in (0, setting.port)
        row = registry.find(case.scheme)
        assert row is not None
        assert step["transport"] == row.transport
    tcp = [step for step in planned if step["transport"] == "tcp"]
    assert len(made) == len(tcp)
    for step, event in zip(tcp, made, strict=True):
        assert event.address == step["host"]
        assert (event.port == setting.port) == (step["port"] != 0)
        assert step["port"] == 0 or event.tls == step["tls"]
