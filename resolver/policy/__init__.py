"""The safety policy, which decides from the parsed components of a URL which actions the URL may cause.

The public function of the package is `check`. The network gateway calls `judge_subject` before a DNS lookup,
`sift_addresses` after the lookup, and `judge_credentials` before it sends a password. During a transfer,
`check_data_port`, `check_chain`, `local_name` and `may_carry_credentials` apply further rules. Only the
module `environment` reads files. The other modules of the package do not perform I/O.

Modules:

- `components`: rules on bytes, host names, ports and forms.
- `addresses`: rules on IP addresses (SSRF).
- `proxies`, `redirects`, `files`: rules on proxies, redirects and files.
- `schemes`: the permissions of each scheme.
- `judgment`: the order of the rules, and `guard` for other HTTP clients.

A rule is a generator function that takes a `Subject` and yields `Decision`s. A hostile URL may violate a rule
thousands of times. Therefore a rule takes linear time, and reports only the first violation of each kind.
"""
