"""What the command line says of the safety policy, as the value that the package takes.

Apart from `bounds`, for a plan is judged and has no limits.
"""

from __future__ import annotations

from protocols.values import replace
from resolver.cli.options import Found
from resolver.cli.values import UsageError
from resolver.policy import Policy


def policy_of(found: Found) -> Policy:
    """The policy that was named, with every `--allow-…`. Raises `UsageError`."""
    try:
        return replace(
            Policy.named(found.policy),
            allow_port=frozenset(found.allow_port),
            allow_address=frozenset(found.allow_address),
            allow_name=frozenset(found.allow_name),
            allow_redirect=frozenset(found.allow_redirect),
            allow_forward=frozenset(found.allow_forward),
            allow_password=found.allow_password,
            allow_form=found.allow_form,
            allow_special=found.allow_special,
            allow_raw=found.allow_raw,
            allow_server_name=found.allow_server_name,
            file_root=found.file_root,
            ftp_email=found.ftp_email,
            trusted_proxy=found.trusted_proxy,
        )
    except ValueError as error:
        field, colon, detail = str(error).partition(":")  # each names its field, which is the option
        raise UsageError(f"--{field.replace('_', '-')}{colon}{detail}") from error
