"""What the process was told about proxies, its terminal, and where its person keeps files for programs: the
one place that reads it, once a run."""

from __future__ import annotations

import os


def proxies_here(proxy: str | None = None) -> dict[str, str]:
    """The proxy variables that are set, and what shows that this is a CGI program; and the `proxy` that the
    caller names (see `proxy_variables`)."""
    from resolver.policy.proxies import proxy_variables  # a start asks where files are, and for no policy

    return proxy_variables(os.environ, proxy)


def own_folder() -> str | None:
    """Where the person's files for this program stand, if anywhere."""
    home = configuration_home()
    return os.path.join(home, "resolve") if os.path.isabs(home) else None


def configuration_home() -> str:
    """Where programs keep what a person chose; relative where nobody knows."""
    return _home("XDG_CONFIG_HOME", "~/.config")


def data_home() -> str:
    """Where a person's desktop finds its programs; relative where nobody knows."""
    return _home("XDG_DATA_HOME", "~/.local/share")


def state_home() -> str:
    """Where programs keep what they did; relative where nobody knows."""
    return _home("XDG_STATE_HOME", "~/.local/state")


def _home(name: str, otherwise: str) -> str:
    """A relative directory is none (XDG Base Directory)."""
    home = os.environ.get(name, "")
    return home if os.path.isabs(home) else os.path.expanduser(otherwise)


def runtime_folder() -> str | None:
    """Where it stands what lives as long as a process of this person; below the state of programs, where the
    system has no place for that."""
    for folder in (os.environ.get("XDG_RUNTIME_DIR", ""), state_home()):
        if os.path.isabs(folder):
            return os.path.join(folder, "resolve")
    return None


def colours_here() -> dict[str, str]:
    """What is said of colours: NO_COLOR, LS_COLORS, and the terminal's kind."""
    return {name: os.environ[name] for name in ("NO_COLOR", "LS_COLORS", "TERM") if name in os.environ}


def state_folder() -> str | None:
    """Where it stands what this program remembers from one run to another and no person writes, if anywhere:
    as `own_folder`."""
    home = state_home()
    return os.path.join(home, "resolve") if os.path.isabs(home) else None
