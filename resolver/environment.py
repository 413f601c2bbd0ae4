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
    """Where the person's files for this program stand, if anywhere: a relative directory is none (XDG Base
    Directory)."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(home):
        home = os.path.expanduser("~/.config")
    return os.path.join(home, "resolve") if os.path.isabs(home) else None


def runtime_folder() -> str | None:
    """Where it stands what lives as long as a process of this person; below the state of programs, where the
    system has no place for that."""
    for name, otherwise in (("XDG_RUNTIME_DIR", ""), ("XDG_STATE_HOME", "~/.local/state")):
        folder = os.environ.get(name, "")
        if not os.path.isabs(folder):
            folder = os.path.expanduser(otherwise)
        if os.path.isabs(folder):
            return os.path.join(folder, "resolve")
    return None


def colours_here() -> dict[str, str]:
    """What is said of colours: NO_COLOR, LS_COLORS, and the terminal's kind."""
    return {name: os.environ[name] for name in ("NO_COLOR", "LS_COLORS", "TERM") if name in os.environ}


def state_folder() -> str | None:
    """Where it stands what this program remembers from one run to another and no person writes, if anywhere:
    as `own_folder`."""
    home = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(home):
        home = os.path.expanduser("~/.local/state")
    return os.path.join(home, "resolve") if os.path.isabs(home) else None
