"""Logins that go to the workers of a cluster: what a person wrote down, for places that a list names.

Nobody is asked there, no command is run and no keyring looked into. What is said of other places stays here.
"""

from __future__ import annotations

from collections.abc import Mapping

from protocols.contract import HostUrl, Url
from resolver.cli.config import HostSection
from resolver.cli.secrets import CommandSecrets
from resolver.hosts import names_of


class PickledSecrets(CommandSecrets):
    """Can be pickled, and is when all places are known."""

    def __init__(self, sections: Mapping[str, HostSection], default: HostSection | None) -> None:
        told = {name: section for name, section in sections.items() if section.password is not None}
        super().__init__(None, None, told, default)
        self.left_behind = len(sections) - len(told)

    @property
    def has_any(self) -> bool:
        return self._default is not None or bool(self._sections)

    def admit(self, url: Url) -> None:
        """Only where somebody logs in: a list may name any number of places."""
        if isinstance(url, HostUrl) and self._has(url):
            super().admit(url)

    def _has(self, url: HostUrl) -> bool:
        names = names_of(url.host, url.effective_port)
        return self._default is not None or any(name in self._sections for name in names)

    async def _ask(self, prompt: str) -> bytes | None:
        return None
