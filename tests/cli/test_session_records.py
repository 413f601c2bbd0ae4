"""What `cat` tells of a telnet session that it writes down."""

from __future__ import annotations

from tests.cli.command import records, resolve


def test_json_tells_what_happens_and_what_became_of_it(at: dict[str, str]) -> None:
    port = at["telnet_login"].rpartition(":")[2]
    done = resolve("cat", "--json", "--allow-port", port, "--until", "login: ", at["telnet_login"])
    assert (done.status, done.out) == (0, b"login: ")
    *told, outcome = records(done.err)
    said = "".join(each.pop("octets") for each in told if each["event"] == "data")
    assert said == "login: "
    assert [each for each in told if each["event"] != "data"] == [
        {"event": "connected", "peer": "127.0.0.1"},
        {"event": "option", "option": "ECHO", "side": "server", "on": True},
        {"event": "end", "reason": "until"},
    ]
    assert (outcome["status"], outcome["verified"]) == ("done", ["terminator"])


def test_the_login_that_the_url_suggests_is_told_and_not_typed(at: dict[str, str]) -> None:
    port = at["telnet_login"].rpartition(":")[2]
    url = at["telnet_login"].replace("//", "//gu%1Best:hidden@")
    done = resolve("cat", "--allow-port", port, "--until", "login: ", url)
    assert (done.status, done.out) == (0, b"login: ")
    assert all(word in done.told for word in ("login gu\\x1best", "password"))
    assert "hidden" not in done.told
