"""The safety policy: what may be sent because of a URL, decided on the parser's components alone.

`check` is the public question. The gate asks `judge` before a look-up, `judge_addresses` after it and
`judge_credentials` before a password leaves; `check_data_port`, `check_chain`, `local_name` and
`may_carry_credentials` answer what comes up later. Nothing here opens, looks up, reads or waits.

`components` has the rules of octets, names, ports and forms; `addresses`, `proxies`, `redirects` and `files`
those of their subjects; `schemes` what is allowed to which scheme; `guard` asks for other clients.
A rule is a generator over a `Subject` that yields `Decision`s; `judgement` has their order. Of each sort of
thing that it objects to it tells the first, in linear time: a hostile URL has thousands.
"""
