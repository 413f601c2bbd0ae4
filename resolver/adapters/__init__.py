"""Adapters for other libraries: one module or package for each library.

An adapter uses only the public APIs of `resolver` and of the other library. So an adapter can also be part of
another program. No other package imports an adapter, except the command `resolve mcp`, which imports `mcp`.
"""
