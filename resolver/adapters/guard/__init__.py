"""The safety layer alone, for who keeps their client: a name is looked up once, its addresses are judged by
`resolver.guard`, and what is connected to is one of those, by number (S08, S09).

`sockets` and `streams` are for code of one's own (blocking, asyncio), `requests` and `aiohttp` for these.
Where no policy is given it is `untrusted`. What is guarded is the connection: what a client makes of URLs,
headers and bodies remains its own.
"""
