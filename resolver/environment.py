"""What the process was told about proxies and its terminal: the one place that reads it, once a run."""

from __future__ import annotations

import os

from resolver.policy.proxies import proxy_variables


def proxies_here(proxy: str | None = None) -> dict[str, str]:
    """The proxy variables that are set, and what shows that this is a CGI program; and the `proxy` that the
    caller names (see `proxy_variables`)."""
    return proxy_variables(os.environ, proxy)


def colours_here() -> dict[str, str]:
    """What is said of colours: NO_COLOR, LS_COLORS, and the terminal's kind."""
    return {name: os.environ[name] for name in ("NO_COLOR", "LS_COLORS", "TERM") if name in os.environ}
