"""The web UI (`resolve serve`). It shows any supported URL in a browser of this machine.

The web UI needs the extra `web`, and is imported only when the server starts. The package `pages` generates
HTML from data, without I/O and without a web framework.
"""
