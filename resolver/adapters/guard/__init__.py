"""SSRF protection for programs with another HTTP client: only the checks of IP addresses.

A host name is resolved once, `resolver.guard` checks the IP addresses, and the client connects to one of the
checked addresses (S08, S09). So DNS rebinding has no effect.

`requests`, `niquests`, `urllib3` and `aiohttp` are for these libraries. `sockets` (blocking) and `streams`
(asyncio) are for other code. The default policy is `untrusted`. Only connections are checked; the client is
responsible for URLs, headers and bodies.
"""
