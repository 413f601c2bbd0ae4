"""The blocking API: the functions of the package, without `await`.

    >>> resolver.blocking.fetch("http://127.0.0.1:8920/about.txt").size
    37

The functions have the same arguments, return values and errors as the asynchronous functions. The blocking
functions can be called in any thread. The retrieval and the callbacks `on_event` and `credentials` run in the
calling thread. Only `save_all` and `save_tree` run in a background thread.
Each function is generated from its asynchronous counterpart.
"""

from resolver.blocking.session import LiveReply, Resolver, as_file, entries, fetch, info, open, save, stream

__all__ = ["LiveReply", "Resolver", "as_file", "entries", "fetch", "info", "open", "save", "stream"]
