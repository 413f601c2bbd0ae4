"""SSRF protection for programs that use another HTTP client: checks of URLs and IP addresses.

A host name is resolved once, and `resolver.guard` checks its IP addresses. The client then connects to one of
the checked addresses (S08, S09). This prevents DNS rebinding.

The modules `requests`, `niquests`, `urllib3` and `aiohttp` guard the libraries of the same names. `sockets`
(blocking) and `streams` (asyncio) guard other code. The default policy is `untrusted`. The client itself is
responsible for header fields, credentials and bodies.
"""
