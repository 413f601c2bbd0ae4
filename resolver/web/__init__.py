"""Every URL in any browser of this machine: what `resolve serve` answers with.

It has the extra `web`, and nothing of it is imported unless a page is asked for. `pages` make what is seen
out of facts; nothing of those waits, reads or knows a framework.
"""
