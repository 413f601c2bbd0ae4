"""Plans drawn as exchanges, in the form of the recorded exchange."""

from __future__ import annotations

import resolver
from resolver.web.dialogue.exchange import make_planned_exchange
from tests.resolver.web.dialogue.spoken import message_lines


def test_plan_of_ftps_has_lanes_of_the_transfer() -> None:
    exchange = make_planned_exchange(resolver.explain("ftps://h.example/pub/a.txt"))
    assert [(lane.place, lane.title, lane.who) for lane in exchange.lanes] == [
        ("client", "this machine", ""),
        ("server", "h.example", "port 990"),
        ("data", "data", "port chosen by the server"),
    ]
    lines = message_lines(exchange)
    data = lines.index("open client>data connects to h.example, a port chosen by the server")
    assert lines[data + 1 : data + 3] == [
        "tls client>data TLS starts: all further data is encrypted",
        "note > if RETR is refused with 550: CWD to the name; if it is a directory, TYPE A and NLST",
    ]
    assert lines[data + 3 :] == [
        "say client>server RETR a.txt",
        "hear server>client the first reply to 'RETR a.txt', or the first data",
        "hear data>client the bytes of the file",
        "close data>client closes the data connection",
        "hear server>client the final reply to 'RETR a.txt'",
    ]
    assert all(message.at is None for message in exchange.messages)


def test_plan_of_refused_url_has_only_notes() -> None:
    exchange = make_planned_exchange(resolver.explain("gopher://h:25/1x%0D%0A"))
    assert exchange.outcome == "refuse"
    assert exchange.failed
    assert {message.kind for message in exchange.messages} == {"note"}
    assert exchange.messages[0].tone == "bad"
    assert "S02" in exchange.messages[0].lines[0]


def test_planned_message_is_secured_once_tls_begins() -> None:
    for url, expected in (("gopher://h.example/1", {False}), ("gophers://h.example/1", {False, True})):
        assert {
            message.secured for message in make_planned_exchange(resolver.explain(url)).messages
        } == expected


def test_plan_of_prospero_has_no_data_lane() -> None:
    exchange = make_planned_exchange(resolver.explain("prospero://h.example//a"))
    assert [lane.place for lane in exchange.lanes] == ["client", "server"]
    assert "open client>server sends datagrams to h.example, port 1525" in message_lines(exchange)


def test_plan_masks_password() -> None:
    exchange = make_planned_exchange(resolver.explain("ftp://alice:hunter2@h.example/a"))
    assert "hunter2" not in str(exchange)
    assert "say client>server USER ****" in message_lines(exchange)


def test_plan_of_local_file_has_no_server_lane() -> None:
    exchange = make_planned_exchange(resolver.explain("file:///etc/motd"))
    assert [lane.place for lane in exchange.lanes] == ["client"]
    assert message_lines(exchange)[0] == "open client>client opens /etc/motd"
