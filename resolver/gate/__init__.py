"""The one door: nothing else in the package opens a socket or a file (S09, S12, S14).

    door = Door(policy=Policy.default())        one for a run
    passage = door.admit(url)                   judged, or an error; nothing was looked up
    async with passage.connect(tls=False) as stream: ...

A `Passage` is the `Gate` that a scheme's handler is given. Files that we write are made in
`resolver.gate.sink`.
"""

from resolver.gate.door import Door
from resolver.gate.lookup import Lookup
from resolver.gate.passage import Family, Passage

__all__ = ["Door", "Family", "Lookup", "Passage"]
