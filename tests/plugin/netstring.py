"""A plug-in whose protocol counts its octets, has TLS, and says both in its row."""

from __future__ import annotations

from tests.plugin.finger import FINGER

NETSTRING = FINGER._replace(
    name="netstring",
    default_port=2079,
    counted=("query", "parts"),
    tls="always",
    names="what a name stands for",
)
