"""The blocking API: the functions of the package, without `await`.

    >>> resolver.blocking.fetch("http://127.0.0.1:8920/about.txt").size
    37

The functions take the arguments of the asynchronous functions, return the same values and raise the same
errors. They may be called in any thread. The work is done in a thread of this package
(`resolver.blocking.portal`). `on_event` and a `credentials` function are called in the calling thread. Each
function is generated from its asynchronous counterpart, so this package contains no retrieval logic.
"""

from resolver.blocking.session import LiveReply, Resolver, as_file, entries, fetch, info, open, save, stream

__all__ = ["LiveReply", "Resolver", "as_file", "entries", "fetch", "info", "open", "save", "stream"]
