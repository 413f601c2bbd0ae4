"""The network gateway: no other package opens a socket, or a file that a URL names (S09, S12, S14).

    network = Network(policy=Policy.default())  one per run
    url_gate = network.admit(url)               checked against the policy, or an error; no DNS lookup yet
    async with url_gate.connect(tls=False) as stream: ...

A `UrlGate` implements the `Gate` through which a protocol exchange connects. `admission` checks the URL, and
`connector` opens the connections. Output files are created in `resolver.files.partial_file`.
"""
