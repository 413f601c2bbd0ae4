"""The package for programs that wait: the same functions, without `await`.

    >>> resolver.blocking.fetch("http://127.0.0.1:8920/about.txt").size
    37

They take what those of the package take, give the same values, raise the same errors, and may be called in
any thread. The work is done in a thread of ours (`resolver.blocking.portal`); `on_event` and what gives
`credentials` are called in the thread that waits. Nothing of what they do stands here: each is made of the
one it is like.
"""

from resolver.blocking.session import LiveReply, Resolver, as_file, entries, fetch, info, open, save, stream

__all__ = ["LiveReply", "Resolver", "as_file", "entries", "fetch", "info", "open", "save", "stream"]
