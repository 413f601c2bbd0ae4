"""A thread of ours in which trio runs, for programs whose threads wait. It is started by the first call.

A call is one operation, run there in a task of its own, and waited for by the thread that called. That
thread runs what the operation has to ask and tell meanwhile: callbacks never run in the thread of trio, and
may make calls themselves. What they raise, and Ctrl-C, cancels the operation, is held back until it has
ended, and then leaves the call as it is.

Nobody waits for a thread that is gone: a child of a fork has none of its parent's, at the end of the process
the operations under way are cancelled, and one whose trio has ended is not asked.
"""

from resolver.portal.ahead import MOST
from resolver.portal.body import PortalBody
from resolver.portal.opened import OpenResource, PortalContext
from resolver.portal.thread import Portal, ThreadLost, ask, portal, told
from resolver.portal.values import PortalIterator

__all__ = [
    "MOST",
    "OpenResource",
    "Portal",
    "PortalBody",
    "PortalContext",
    "PortalIterator",
    "ThreadLost",
    "ask",
    "portal",
    "told",
]
