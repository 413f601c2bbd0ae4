"""The safety policy: the actions that a URL may cause, decided from the parsed components alone.

The public function is `check`. The gate calls `judge` before a DNS lookup, `judge_addresses` after the
lookup, and `judge_credentials` before it sends a password. `check_data_port`, `check_chain`, `local_name` and
`may_carry_credentials` apply the rules that concern a running transfer. The modules do no I/O: they open no
file, resolve no name and never wait. The only exception is `environment`.

Modules:

- `components`: rules on bytes, host names, ports and forms.
- `addresses`: rules on IP addresses (SSRF).
- `proxies`, `redirects`, `files`: rules on proxies, redirects and files.
- `schemes`: the permissions of each scheme.
- `judgment`: the order of the rules, and `guard` for other HTTP clients.

A rule is a generator that takes a `Subject` and yields `Decision`s. A hostile URL may cause thousands of
objections. Therefore a rule takes linear time and reports only the first objection of each kind.
"""
