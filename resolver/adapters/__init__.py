"""Adapters for other libraries: one module or package for each library.

Two adapters share `fields`. An adapter uses only the public APIs of `resolver` and of the adapted library, so
other programs can contain their own adapters. Other packages do not import adapters, except the command
`resolve mcp`, which imports `mcp`.
"""
