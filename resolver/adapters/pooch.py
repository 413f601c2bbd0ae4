"""A pooch downloader for all schemes of this library.

    pooch.retrieve("gopher://gopher.example/9/data.bin", known_hash="sha256:…", downloader=Downloader())

pooch verifies the hash of the file. A truncated transfer is resumed; the maximum number of attempts is that
of the command `get`. If the last attempt is truncated too, an error is raised before pooch verifies the hash.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, BinaryIO, Unpack

import resolver

if TYPE_CHECKING:
    import pooch


class Downloader:
    """A pooch downloader with the settings of a `Resolver`.

    Args:
        progressbar: Whether to show a progress bar with tqdm, as the downloaders of pooch do.
        settings: The settings of a `Resolver`.
    """

    def __init__(self, *, progressbar: bool = False, **settings: Unpack[resolver.Settings]) -> None:
        self.progressbar = progressbar
        self._settings = settings

    def __call__(
        self,
        url: str,
        output_file: str | os.PathLike[str] | BinaryIO,
        pooch: pooch.Pooch | None,
        check_only: bool = False,
    ) -> bool | None:
        """Download a URL to a file, or return whether the URL is available (`check_only`).

        Raises the same errors as `resolver.save`.
        """
        if check_only:
            return self._is_available(url)
        with ExitStack() as stack:
            settings = self._settings.copy()
            if self.progressbar:
                settings["on_event"] = _make_listener(stack, settings.get("on_event"))
            if isinstance(output_file, (str, os.PathLike)):
                resolver.blocking.save(url, output_file, exists="replace", **settings)
            else:
                _copy(url, output_file, settings)
        return None

    def _is_available(self, url: str) -> bool:
        try:
            resolver.blocking.info(url, **self._settings)
        except resolver.Declined:
            return False
        return True


def _copy(url: str, file: BinaryIO, settings: resolver.Settings) -> None:
    with resolver.blocking.stream(url, **settings) as reply:
        for octets in reply.body:
            file.write(octets)


def _make_listener(stack: ExitStack, watcher: Callable[[Any], None] | None) -> Callable[[Any], None]:
    """Return an event listener that draws a progress bar for one transfer and calls `watcher`."""
    from tqdm import tqdm  # imported lazily: tqdm is an optional dependency, as in pooch

    bar = stack.enter_context(tqdm(unit="B", unit_scale=True, leave=True))

    def draw(event: object) -> None:
        if isinstance(event, resolver.Progress):
            bar.total = event.expected
            bar.update(event.received - bar.n)
        if watcher is not None:
            watcher(event)

    return draw
