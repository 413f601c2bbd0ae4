"""A plug-in with a protocol that has byte counts and TLS; its scheme definition declares both."""

from __future__ import annotations

from tests.plugin.finger import FINGER

NETSTRING = FINGER._replace(
    name="netstring",
    default_port=2079,
    counted=("query", "parts"),
    tls="always",
    names="what a name stands for",
)
