"""Adapters for other libraries: one module or package for each library.

`fields` is shared by two of them. An adapter uses only the public names of `resolver` and its own library, so
any program could do the same. No other package needs an adapter, except that the command `resolve mcp`
imports `mcp`.
"""
