"""HTTP/2, which an extra brings: the frames of `h2`, loaded when the first peer has chosen to speak them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

from protocols.options import Frames


def _framing(most: int) -> Frames:
    from resolver.http2.framing import Http2Frames  # brings h2, which is no small thing, and is an extra

    return Http2Frames(most)


@cache
def installed() -> Callable[[int], Frames] | None:
    """What makes the frames of a connection; None where the extra is not installed."""
    return None if find_spec("h2") is None else _framing
