"""The one door: nothing else in the package opens a socket or a file (S09, S12, S14).

    network = Network(policy=Policy.default())  one for a run
    url_gate = network.admit(url)               judged, or an error; nothing was looked up
    async with url_gate.connect(tls=False) as stream: ...

A `UrlGate` is the `Gate` that a dialogue is performed with: `admission` judges, `connector` connects. Files
that we write are made in `resolver.files.partial_file`.
"""
