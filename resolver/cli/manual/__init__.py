"""Shell completions and the man page, generated from the tables of commands and options.

`resolve completion` and `resolve man` print the files. The wheel contains the files below share/, too. After
an installation with pipx or uv, shells do not find them there.
"""

from __future__ import annotations

from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.cli.manual import bash, fish, roff, zsh

#: The generator function of each file, by the path of the file below the installation prefix.
FILES = {
    "share/bash-completion/completions/resolve": bash.script,
    "share/zsh/site-functions/_resolve": zsh.script,
    "share/fish/vendor_completions.d/resolve.fish": fish.script,
    "share/man/man1/resolve.1": roff.page,
}
_COMPLETIONS = {"bash": bash.script, "zsh": zsh.script, "fish": fish.script}


def show_page(command: Command) -> int:
    """Print the man page and return the exit status."""
    streams.print_text(roff.page())
    return 0


def show_completion(command: Command) -> int:
    """Print the completion script of a shell and return the exit status."""
    (shell,) = command.urls
    streams.print_text(_COMPLETIONS[shell]())
    return 0
