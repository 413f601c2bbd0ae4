"""The safety layer alone, for programs that keep their own HTTP client.

A name is looked up once, `resolver.guard` judges its addresses, and the connection goes to one of those, by
number (S08, S09).

`sockets` and `streams` are for code of one's own (blocking, asyncio), `requests` and `aiohttp` for these.
Where no policy is given it is `untrusted`. What is guarded is the connection: what a client makes of URLs,
headers and bodies remains its own.
"""
