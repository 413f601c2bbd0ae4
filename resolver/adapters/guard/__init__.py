"""The address checks alone, for programs that keep their own HTTP client.

A name is resolved once, `resolver.guard` checks its addresses, and the connection goes to one of these
addresses (S08, S09).

`sockets` and `streams` are for a program's own code (blocking and asyncio), `requests` and `aiohttp` for
these libraries. The default policy is `untrusted`. Only the connection is guarded: the client remains
responsible for URLs, headers and bodies.
"""
