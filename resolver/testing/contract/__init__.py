"""The contract of all schemes, as pytest tests; each check runs with each suitable case.

A test module only needs the plug-in and the cases:

    pytest_plugins = ["resolver.testing.plugin"]

    class TestFinger(Contract):
        cases = (Case(name="finger", start=answering(TALK), document="finger://{at}/joe", content=b"…"),)

The checks cover:
- the results of every operation, and their limits
- plans, which must equal the bytes on the wire
- refusals, which must not open a connection
- file names
- arbitrary bytes from a server
- a cancellation at any checkpoint, which must not leave a resource open
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(*(f"{__name__}.{each}" for each in ("endings", "operations", "peers")))

from resolver.testing.contract.case import SECRET as SECRET  # noqa: E402
from resolver.testing.contract.case import Case as Case  # noqa: E402
from resolver.testing.contract.case import CaseSetting as CaseSetting  # noqa: E402
from resolver.testing.contract.case import ContractCheck as ContractCheck  # noqa: E402
from resolver.testing.contract.case import MockServer as MockServer  # noqa: E402
from resolver.testing.contract.case import Start as Start  # noqa: E402
from resolver.testing.contract.running import CHECKS as CHECKS  # noqa: E402
from resolver.testing.contract.running import Contract as Contract  # noqa: E402
from resolver.testing.contract.serving import answering as answering  # noqa: E402
