"""telnet and telnets URLs (RFC 1738 3.8)."""

from __future__ import annotations

import pytest

from protocols.telnet import TelnetUrl, build
from tests.protocols.url_rows import Good, check_good

GOOD = [
    Good("telnet://h", {"host": "h", "port": None, "default_port": 23}),
    Good("telnets://h/", {"host": "h", "default_port": 992}),
    Good("telnet://u:p@h:24/", {"user": "u", "password": "p", "port": 24}),
    Good("telnet://h/#f", {"fragment": "f"}),
    Good("telnet://h//", {"host": "h"}, "telnet-path"),
    Good("telnet://h/x", {"host": "h"}, "telnet-path"),
    Good("telnet://h/?x", {"host": "h"}, "telnet-path"),
    Good("telnet://h/~;", {"host": "h"}, "telnet-path"),  # dropped, so not looked at
]


@pytest.mark.parametrize("row", GOOD, ids=lambda row: row.text)
def test_telnet_urls_are_read(row: Good) -> None:
    check_good(row)


def test_telnet_urls_are_written() -> None:
    assert build(TelnetUrl(scheme="telnet", host="h", port=23, default_port=23)) == "telnet://h/"
    assert build(TelnetUrl(scheme="telnets", host="h", user=b"", password=b":")) == "telnets://:%3A@h/"
