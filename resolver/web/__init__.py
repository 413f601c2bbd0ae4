"""The web UI: any URL in a browser of this machine, served by `resolve serve`.

It needs the extra `web` and is imported only when it is started. The package `pages` makes HTML from data:
its modules do not wait, read files or import a framework.
"""
