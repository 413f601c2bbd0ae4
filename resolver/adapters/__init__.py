"""Adapters for other libraries: one module or package for each library.

Two adapters share `fields`. An adapter uses only the public API of `resolver` and the adapted library, so a
program can contain its own adapter. Other packages do not import adapters, except the command `resolve mcp`,
which imports `mcp`.
"""
