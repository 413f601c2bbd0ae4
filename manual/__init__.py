"""What shells and `man` know of the command, made of the tables that the command itself reads.

Nobody writes it down twice: `hook` makes the files when a wheel is built, which has them below share/, and
`python -m manual DIR` makes them for whoever packs otherwise. What is made is the same each time.
"""

from __future__ import annotations

from manual import bash, fish, roff, zsh

#: By its place below the prefix that it is installed to.
FILES = {
    "share/bash-completion/completions/resolve": bash.script,
    "share/zsh/site-functions/_resolve": zsh.script,
    "share/fish/vendor_completions.d/resolve.fish": fish.script,
    "share/man/man1/resolve.1": roff.page,
}
