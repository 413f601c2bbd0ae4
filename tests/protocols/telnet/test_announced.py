"""telnet URLs are announced: where, and as whom. Nothing is connected to."""

import pytest
import trio

import resolver
from resolver import Kind, Refused


async def test_a_service_is_announced_and_nothing_is_connected_to() -> None:
    with trio.socket.socket() as listening:
        await listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        response = await resolver.fetch(f"telnet://guest:secret@127.0.0.1:{port}/")
        with trio.move_on_after(0) as nobody_came:
            await listening.accept()
    assert nobody_came.cancelled_caught
    assert (response.kind, response.content) == (Kind.SERVICE, b"")
    assert response.target == f"telnet://guest@127.0.0.1:{port}/"
    assert response.extra == {"service": "telnet", "host": "127.0.0.1", "port": port, "login": "guest"}
    assert "secret" not in repr(response)


async def test_there_is_nothing_to_save(tmp_path: object) -> None:
    with pytest.raises(Refused) as refused:
        await resolver.save("telnet://h.example/", f"{tmp_path}/x")
    assert (refused.value.rule, refused.value.exit_code) == ("S10", 15)


async def test_a_menu_does_not_open_a_session() -> None:
    with pytest.raises(Refused) as refused:
        await resolver.fetch(
            "telnets://h.example/", origin="derived", referrer=("gopher://h.example/", "192.0.2.1")
        )
    assert refused.value.rule == "S10"


def test_the_plan_says_that_nothing_is_sent() -> None:
    plan = resolver.explain("telnet://h.example/")
    assert [step["action"] for step in plan.steps] == ["note"]
    assert plan.verdict == "allow"
