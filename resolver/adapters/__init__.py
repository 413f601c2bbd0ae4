"""Other people's libraries, each with what this package has for it: one module or folder a library.
`fields` is what two of them share.

An adapter uses the public names of `resolver` and its own library, and nothing else of ours: what it can do,
any program can. Nothing of the house needs one: only the verb of the command that serves one imports it.
"""
