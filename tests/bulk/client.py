"""A run on a cluster in a separate process: `python -m tests.bulk.client LIST SCHEDULER OUT`.

The list is in JSON: `urls`, the allowed `ports`, and `more`, further arguments of the run. The process prints
the summary in JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from resolver import Policy


def main(listed: str, scheduler: str, out: str) -> None:
    from distributed import Client

    from resolver.bulk import run

    told = json.loads(Path(listed).read_text())
    policy = Policy(allow_port=frozenset(told["ports"]), allow_address=frozenset({"127.0.0.0/8"}))
    with Client(scheduler) as client:
        found = run(told["urls"], client=client, out=out, policy=policy, **told["more"])
    print(json.dumps(found._asdict()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
