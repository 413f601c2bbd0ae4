"""IPv6 on this machine's loopback, which not every machine has."""

from __future__ import annotations

import socket

import pytest


def _there_is() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


HAS_IPV6 = _there_is()

needs_ipv6 = pytest.mark.skipif(not HAS_IPV6, reason="this machine has no IPv6 loopback")
