"""The safety policy: which actions a URL may cause, decided from the parser's components alone.

`check` is the public function. The gate calls `judge` before a DNS lookup, `judge_addresses` after it, and
`judge_credentials` before a password is sent. `check_data_port`, `check_chain`, `local_name` and
`may_carry_credentials` decide later questions. Except `environment`, no module here opens, resolves, reads or
waits.

Modules:

- `components`: rules on bytes, names, ports and forms.
- `addresses`, `proxies`, `redirects`, `files`: the rules on the subjects that their names say.
- `schemes`: the permissions of each scheme.
- `judgment`: the order of the rules, and `guard` for other HTTP clients.

A rule is a generator over a `Subject` that yields `Decision`s. It reports only the first objection of each
kind, in linear time, because a hostile URL may have thousands of objections.
"""
