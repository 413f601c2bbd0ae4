"""The web UI, which shows any supported URL in a browser of this machine (`resolve serve`).

The web UI needs the extra `web`, and is imported only when the server starts. The package `pages` generates
HTML from data, without I/O and without a web framework.
"""
