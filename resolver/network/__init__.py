"""The network gateway. No other package opens sockets or the files that URLs name (S09, S12, S14).

    network = Network(policy=Policy.default())  one per run
    url_gate = network.admit(url)               checks the URL against the policy; makes no DNS lookup
    async with url_gate.connect(tls=False) as stream: ...

A protocol exchange connects through a `UrlGate`, which implements `Gate`. The module `admission` checks the
URL. The module `connector` opens the connections. `resolver.files.partial_file` creates the output files.
"""
