"""What the RFCs say: URL grammar, wire grammar and dialogue of each scheme of RFC 1738.

Here live machines and parsers only. Nothing in this package knows a policy, opens a socket or a file,
reads a clock, names trio or imports `resolver`; the standard library and h11 are all it uses. An
`open_…` function is the only `async` code: it awaits what the gate hands it.

Layers, each importing only downwards:
`errors < contract < wire < conversation < one module or folder per scheme`.
"""
