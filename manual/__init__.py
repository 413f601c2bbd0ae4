"""Shell completions and the man page, generated from the tables of the command.

`hook` generates the files while a wheel is built; the wheel installs them below share/. `python -m manual
DIR` generates them for other packagers. The output is the same each time.
"""

from __future__ import annotations

from manual import bash, fish, roff, zsh

#: Generator functions by path below the installation prefix.
FILES = {
    "share/bash-completion/completions/resolve": bash.script,
    "share/zsh/site-functions/_resolve": zsh.script,
    "share/fish/vendor_completions.d/resolve.fish": fish.script,
    "share/man/man1/resolve.1": roff.page,
}
