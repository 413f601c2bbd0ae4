"""Passwords for the command: from a file, or asked of a person without echo; never from the line itself.

They belong to the places that the command line names: a redirect to another host gets none (S11).
"""

from __future__ import annotations

from protocols.contract import Credentials, HostUrl, Url
from protocols.errors import LoginRequired
from resolver.cli import streams

_MOST_PASSWORD = 4_096


class Secrets:
    """Answers who asks for credentials, for the places it was told of."""

    def __init__(self, user: str | None, password_file: str | None) -> None:
        self._user = None if user is None else user.encode("utf-8", "surrogateescape")
        self._password = None if password_file is None else _first_line(password_file)
        self._places: set[tuple[str, str, int]] = set()

    def admit(self, url: Url) -> None:
        """The person named this place, so what the person gives may go there."""
        if isinstance(url, HostUrl):
            self._places.add((url.scheme, url.host.lower(), url.effective_port))

    async def ask(self, scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
        """Credentials for one place; None where there is no name, or nobody to ask for the password.

        A name that is not the URL's own is used only with the password given beside it, or asked for.
        """
        name = self._user if user is None else user
        if name is None or (scheme, host, port) not in self._places:
            return None
        if self._password is not None and (self._user is None or name == self._user):
            return Credentials(name, self._password)
        shown = name.decode("utf-8", "replace")
        password = await streams.ask_secret(f"password of {shown} at {host} port {port} ({scheme}): ")
        return None if password is None else Credentials(name, password)


def _first_line(name: str) -> bytes:
    """The password: the first line, without its line end. Raises `LocalError`, and `LoginRequired`
    where there is none."""
    line = streams.read_first_line(name, _MOST_PASSWORD + 1)
    if not 0 < len(line) <= _MOST_PASSWORD:
        raise LoginRequired(f"{name} does not begin with a line that holds a password")
    return line
