"""The blocking API: the functions of the package, without `await`.

    >>> resolver.blocking.fetch("http://127.0.0.1:8920/about.txt").size
    37

The functions have the same arguments, return values and errors as the asynchronous functions. The blocking
functions can be called in any thread. The retrieval runs in a background thread of this package
(`resolver.blocking.portal`). The callbacks `on_event` and `credentials` are called in the calling thread.
Each function is generated from its asynchronous counterpart.
"""

from resolver.blocking.session import LiveReply, Resolver, as_file, entries, fetch, info, open, save, stream

__all__ = ["LiveReply", "Resolver", "as_file", "entries", "fetch", "info", "open", "save", "stream"]
